# SPDX-License-Identifier: Apache-2.0
"""Abstract values: what is known of an array while a program is traced.

Avals are interned: one object per (shape, dtype, weak_type, varying, spread). Equality is identity, so caches keyed on tuples of avals
hash in nanoseconds and no value-comparing `__eq__` runs on the hot path.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from purax import dtypes, errors
from purax.core.axes import ManualAxisType
from purax.core.dims import Dim, writing
from purax.core.hooks import hooks
from purax.lazy import lazy

__all__ = [
    "AbstractToken", "ShapeDtypeStruct", "ShapedArray", "array_aval", "host_aval", "refuse_masked", "token_aval",
    "unwrapped",
]  # fmt: skip

_sharding = lazy("purax.sharding")  # which knows the current mesh, and imports this layer
_NO_AXES: frozenset[str] = frozenset()


class AbstractValue:
    """A type of values in programs."""

    __slots__ = ()


class ShapedArray(AbstractValue):
    """Shape, dtype, weak type and the mesh axes the value varies over. Made by `array_aval` only.

    Attributes
    ----------
    shape : tuple of int or Dim
    dtype : numpy.dtype or dtypes.KeyDtype
    weak_type : bool
        True for values that come from Python scalars: they give way in promotion.
    varying : frozenset of str
        Named mesh axes along which devices of a manual region may hold different values.
    spread : Spread or None
        How the explicit axes of a mesh cut the value; None where there are none.
    hlo : str
        StableHLO type, e.g. ``tensor<2x3xf32>``; empty where the dtype has no device form.
    """

    __slots__ = ("__weakref__", "dtype", "hlo", "ndim", "shape", "size", "spread", "varying", "weak_type")
    shape: tuple[Any, ...]  # ints; Dims in programs to export
    dtype: Any
    weak_type: bool
    varying: frozenset[str]
    spread: Any
    ndim: int
    size: Any
    hlo: str

    def __new__(
        cls, shape: Any, dtype: Any, weak_type: bool = False, varying: frozenset[str] = _NO_AXES, spread: Any = None
    ) -> ShapedArray:
        """The interned aval."""
        if not isinstance(dtype, dtypes.KeyDtype):
            dtype = np.dtype(dtype)
        shape = tuple(d if type(d) is Dim else int(d) for d in shape)
        return array_aval(shape, dtype, bool(weak_type), varying, spread)

    def update(self, *, shape: Any = None, dtype: Any = None, weak_type: Any = None) -> ShapedArray:
        """The aval with some fields replaced; of another shape, it is no longer known how a mesh cuts it."""
        shape = self.shape if shape is None else tuple(shape)
        return array_aval(
            shape,
            self.dtype if dtype is None else dtype,
            self.weak_type if weak_type is None else weak_type,
            self.varying,
            self.spread if shape == self.shape else None,
        )

    def without_axis(self, axis: int) -> ShapedArray:
        """The type of one row along an axis."""
        shape = (*self.shape[:axis], *self.shape[axis + 1 :])
        spread = None if self.spread is None else self.spread.without(axis)
        return array_aval(shape, self.dtype, self.weak_type, self.varying, spread)

    def with_axis(self, axis: int, size: Any, names: Any = None) -> ShapedArray:
        """The type of `size` such values along a new axis, which the mesh axes `names` cut."""
        shape = (*self.shape[:axis], size, *self.shape[axis:])
        spread = None if self.spread is None else self.spread.with_axis(axis, names)
        return array_aval(shape, self.dtype, self.weak_type, self.varying, spread)

    def to_tangent_aval(self) -> ShapedArray:
        """Type of tangents: dtype float0 where values have none."""
        if not isinstance(self.dtype, dtypes.KeyDtype) and dtypes.is_inexact(self.dtype):
            return self
        return self.update(dtype=dtypes.float0, weak_type=False)

    def strip_weak(self) -> ShapedArray:
        """The same aval, strongly typed."""
        return array_aval(self.shape, self.dtype, False, self.varying, self.spread) if self.weak_type else self

    def with_varying(self, varying: frozenset[str]) -> ShapedArray:
        """The same aval with these axes as the ones that the value varies over."""
        if varying == self.varying:
            return self
        return array_aval(self.shape, self.dtype, self.weak_type, varying, self.spread)

    def with_spread(self, spread: Any) -> ShapedArray:
        """The same aval, cut in this way by the explicit axes of a mesh."""
        if spread is self.spread:
            return self
        return array_aval(self.shape, self.dtype, self.weak_type, self.varying, spread)

    def to_cotangent_aval(self) -> ShapedArray:
        """Type of cotangents: that of tangents, unreduced along the axes that the value is reduced along."""
        tangent = self.to_tangent_aval()
        return tangent if self.spread is None else tangent.with_spread(self.spread.dual())

    @property
    def sharding(self) -> Any:
        """How the explicit axes of a mesh without devices cut the value: a NamedSharding."""
        return hooks.sharding_of(self)

    @property
    def vma(self) -> frozenset[str]:
        """JAX's older name of `varying`."""
        return self.varying

    @property
    def mat(self) -> ManualAxisType:
        """`varying`, in the form that JAX gives it."""
        return ManualAxisType(self.varying)

    def str_short(self, short_dtypes: bool = False) -> str:
        """`float32[2,3]`, or `f32[2,3]` with `short_dtypes`."""
        name = dtypes.short_name(self.dtype) if short_dtypes else getattr(self.dtype, "name", str(self.dtype))
        spread = self.spread
        if spread is None:
            return f"{name}[{','.join(map(str, self.shape))}]"
        return f"{name}[{','.join([f'{d}{spread.suffix(i)}' for i, d in enumerate(self.shape)])}]{spread.tail()}"

    def __repr__(self) -> str:
        weak = ", weak_type=True" if self.weak_type else ""
        return f"ShapedArray({self.str_short()}{weak})"

    def __str__(self) -> str:
        axes = ",".join(sorted(map(str, self.varying)))
        varying = f"{{V:{axes if len(self.varying) == 1 else f'({axes})'}}}" if axes else ""
        return f"{'~' if self.weak_type else ''}{self.str_short()}{varying}"

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a value with no axes (shape ())")
        return self.shape[0]

    def __bool__(self) -> bool:
        return True  # a type, not a container: the length above must not make it false

    def __reduce__(self) -> Any:
        return array_aval, (self.shape, self.dtype, self.weak_type, self.varying, self.spread)

    def __deepcopy__(self, memo: Any) -> ShapedArray:
        return self


_AVALS: dict[Any, ShapedArray] = {}


def array_aval(
    shape: tuple[Any, ...], dtype: Any, weak_type: bool = False, varying: frozenset[str] = _NO_AXES, spread: Any = None
) -> ShapedArray:
    """The interned aval of these fields.

    Parameters
    ----------
    shape : tuple of int or Dim
        Python ints, already normalised.
    dtype : numpy.dtype or dtypes.KeyDtype
    weak_type : bool
    varying : frozenset of str
        Named axes that the value may differ over.
    spread : Spread, optional
        How explicit axes of a mesh cut it.

    Returns
    -------
    ShapedArray

    Raises
    ------
    ShapeError
        More bytes than 64 bits can count.
    """
    key = (shape, dtype, weak_type, varying) if spread is None else (shape, dtype, weak_type, varying, spread)
    aval = _AVALS.get(key)
    if aval is None:
        size = math.prod(shape)
        if type(size) is not Dim and size * max(getattr(dtype, "itemsize", 1), 1) >= 1 << 63:
            raise errors.ShapeError(
                f"an array of shape {shape} and dtype {dtype} has more bytes than 64 bits can count"
            )
        aval = object.__new__(ShapedArray)
        if spread is not None:
            spread.check(shape)
        aval.shape, aval.dtype, aval.weak_type, aval.varying, aval.spread = shape, dtype, weak_type, varying, spread
        aval.ndim, aval.size = len(shape), size
        aval.hlo = _hlo_type(shape, dtype)
        aval = _AVALS.setdefault(key, aval)
    return aval


def _hlo_type(shape: tuple[Any, ...], dtype: Any) -> str:
    if isinstance(dtype, dtypes.KeyDtype):
        shape, dtype = (*shape, *dtype.key_shape), np.dtype(np.uint32)
    name = dtypes.HLO_NAMES.get(dtype)
    if name is None:  # float0, strings and objects have no device form
        return ""
    with writing():
        return f"tensor<{''.join(f'{d}x' for d in shape)}{name}>"


def host_aval(value: Any) -> ShapedArray:
    """The aval that a NumPy array or scalar has once it has entered: 64 bits narrowed, in the byte order of the machine.

    Raises
    ------
    MaskedArrayError
        It is a masked array.
    NonArrayArgumentError
        Arrays cannot have its dtype.
    """
    if type(value) is not np.ndarray:
        refuse_masked(value)
    aval = array_aval(value.shape, dtypes.narrow(value.dtype))
    if aval.hlo or aval.dtype == dtypes.float0:
        return aval
    native = dtypes.native(value.dtype)
    if native not in dtypes.HLO_NAMES:
        raise errors.NonArrayArgumentError(f"{value!r} of dtype {value.dtype} is not a valid array type")
    return array_aval(value.shape, dtypes.narrow(native))


def refuse_masked(value: Any) -> None:
    """Check that a value is no masked array of NumPy.

    Raises
    ------
    MaskedArrayError
        It is one.
    """
    if isinstance(value, np.ma.MaskedArray):
        raise errors.MaskedArrayError(
            errors.explain(
                f"a masked array of shape {value.shape} and dtype {value.dtype} was given.",
                "purax arrays have no mask, so masked elements would come back as data.",
                "fill them first: x.filled(value); or pass x.data and x.mask, and use where=.",
            )
        )


def unwrapped(x: Any) -> Any:
    """The array that an object with `__purax_array__` or `__jax_array__` stands for; anything else itself."""
    convert = getattr(x, "__purax_array__", None) or getattr(x, "__jax_array__", None)
    return x if convert is None or isinstance(x, type) else unwrapped(convert())


class AbstractToken(AbstractValue):
    """Aval of the token that keeps ordered effects in order."""

    __slots__ = ()
    shape: tuple[int, ...] = ()
    dtype = np.dtype(bool)
    weak_type = False
    varying = _NO_AXES
    spread = None
    ndim = 0
    size = 0
    hlo = "!stablehlo.token"

    def with_varying(self, varying: frozenset[str]) -> AbstractToken:
        """Tokens vary over no axis."""
        return self

    def str_short(self, short_dtypes: bool = False) -> str:
        """Name used in printed programs."""
        return "token[]"

    __repr__ = str_short


token_aval = AbstractToken()


class ShapeDtypeStruct:
    """A shape and a dtype in place of an array: argument of `eval_shape`, `jit(f).lower`, result of `eval_shape`.

    Parameters
    ----------
    shape : sequence of int
    dtype : dtype-like
    sharding : Sharding or PartitionSpec, optional
        A spec means the mesh that is current when the attribute is read.
    weak_type : bool
    is_ref : bool
        It stands for a mutable reference to such an array.

    Raises
    ------
    ValueError
        There is no dtype, or the sharding says of more axes than there are.
    """

    __slots__ = ("_sharding", "dtype", "is_ref", "shape", "weak_type")

    def __init__(
        self, shape: Any, dtype: Any, *, sharding: Any = None, weak_type: bool = False, is_ref: bool = False, **_: Any
    ) -> None:
        if dtype is None:
            raise ValueError("ShapeDtypeStruct: dtype must be specified.")
        self.shape = tuple(shape)
        self.dtype = dtype if isinstance(dtype, dtypes.KeyDtype) else dtypes.native(np.dtype(dtype))
        spec = getattr(sharding, "spec", sharding if hasattr(sharding, "partitions") else ())
        if len(spec) > len(self.shape):
            raise ValueError(
                f"ShapeDtypeStruct: {sharding} is only valid for values of rank at least {len(spec)}, but was applied to a value of rank "
                f"{len(self.shape)}, of shape {self.shape}"
            )
        self._sharding = sharding
        self.weak_type = weak_type
        self.is_ref = is_ref

    @property
    def sharding(self) -> Any:
        """How it lies on devices, or None.

        Raises
        ------
        TypeError
            It was given as a PartitionSpec, and there is no current mesh.
        """
        if not hasattr(self._sharding, "partitions"):
            return self._sharding
        mesh = _sharding.current_mesh() or _sharding.get_abstract_mesh()
        if mesh.empty:
            raise TypeError(
                f"When specifying PartitionSpec to `ShapeDtypeStruct`, the context mesh cannot be empty: {self._sharding} names axes of the "
                "current mesh. Use `with purax.set_mesh(mesh):`, or NamedSharding(mesh, spec)"
            )
        return _sharding.NamedSharding(mesh, self._sharding)

    @property
    def aval(self) -> ShapedArray:
        """The aval of an array of this type."""
        spread = None if self.sharding is None else hooks.spread_of(self.sharding, len(self.shape))
        return array_aval(self.shape, self.dtype, self.weak_type, _NO_AXES, spread)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @classmethod
    def of(cls, aval: Any) -> ShapeDtypeStruct:
        """What stands for arrays of a type."""
        sharding = None if aval.spread is None else aval.sharding
        return cls(aval.shape, aval.dtype, sharding=sharding, weak_type=aval.weak_type)

    @classmethod
    def like(cls, x: Any) -> ShapeDtypeStruct:
        """The type of an array; how it lies is told where it was put there, or its type says so."""
        sharding = x.sharding if getattr(x, "committed", False) else None
        aval: Any = getattr(x, "aval", None)
        if sharding is None and getattr(aval, "spread", None) is not None:
            sharding = aval.sharding
        return cls(x.shape, x.dtype, sharding=sharding, weak_type=bool(getattr(x, "weak_type", False)))

    def __len__(self) -> int:
        return len(self.aval)

    def update(self, **changes: Any) -> ShapeDtypeStruct:
        """A copy with some fields replaced."""
        names = ("shape", "dtype", "weak_type", "is_ref")
        fields = {"sharding": self._sharding, **{name: getattr(self, name) for name in names}}
        return ShapeDtypeStruct(**{**fields, **changes})

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise errors.NonArrayArgumentError(
            errors.explain(
                f"{self!r} was used as an array",
                "it is a type: it has a shape and a dtype, but no elements",
                "pass an array, or ask about the function without running it: eval_shape(f, x), jit(f).lower(x), make_jaxpr(f)(x)",
            )
        )

    def __repr__(self) -> str:
        more = f", sharding={self._sharding}" if self._sharding is not None else ""
        more += ", weak_type=True" if self.weak_type else ""
        more += ", is_ref=True" if self.is_ref else ""
        return f"ShapeDtypeStruct(shape={self.shape}, dtype={getattr(self.dtype, 'name', self.dtype)}{more})"

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ShapeDtypeStruct) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        return (self.shape, self.dtype, self._sharding, self.weak_type, self.is_ref)
