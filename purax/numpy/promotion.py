# SPDX-License-Identifier: Apache-2.0
"""The only place that promotes: what dtype and shape operands meet at, and how each gets there.

Operations below this layer are strict: equal shapes, equal dtypes. The functions here check that operands are arrays or
scalars, find the common dtype in the lattice of `purax.dtypes`, convert, and broadcast. `Binary` remembers all that per pair
of operand types, so that the second `x + y` costs one look-up.

Python scalars are converted straight to the dtype of the result: an integer that does not fit raises IntegerOverflowError,
a float that does not fit becomes infinite.

Parameters
----------
name : str
    Of the user's function, for messages.
operands, x : array or scalar
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from purax import dtypes, errors
from purax.config import current as settings
from purax.contexts import numpy_dtype_promotion
from purax.core.aval import array_aval, unwrapped
from purax.core.hooks import hooks
from purax.core.source import here
from purax.core.trace import aval_of
from purax.core.trace import current as current_trace
from purax.numpy import _ops as ops
from purax.runtime.transfer import put

__all__ = [
    "Binary",
    "as_operand",
    "broadcast_to_shape",
    "check_arraylike",
    "common_shape",
    "constant",
    "convert",
    "joint_shape",
    "numeric",
    "promote",
    "promote_dtypes",
    "promote_dtypes_anyhow",
    "promote_dtypes_complex",
    "promote_dtypes_inexact",
    "promote_dtypes_numeric",
    "promote_inexact",
    "promote_numeric",
    "promote_shapes",
    "refuse",
    "spread",
    "wider",
]

_SCALARS = frozenset((bool, int, float, complex))
_ARRAYS = (bool, int, float, complex, np.ndarray, np.generic)


# ---- what counts as an array


def check_arraylike(name: str, *operands: Any) -> None:
    """Raise NonArrayArgumentError, naming function, position and type, unless all operands are arrays or scalars.

    Raises
    ------
    NonArrayArgumentError
        One is neither.
    """
    for position, operand in enumerate(operands):
        if hasattr(operand, "aval"):
            continue
        if isinstance(operand, _ARRAYS):
            if isinstance(operand, (np.ndarray, np.generic)) and operand.dtype not in dtypes.HLO_NAMES:
                _check_dtype(name, position, operand)
            continue
        if not isinstance(operand, type) and (hasattr(operand, "__purax_array__") or hasattr(operand, "__jax_array__")):
            continue
        raise errors.NonArrayArgumentError(
            errors.explain(
                f"{name} requires ndarray or scalar arguments, got {type(operand)} at position {position}.",
                fix="convert it first: purax.numpy.asarray(x)." if isinstance(operand, (list, tuple)) else "",
            )
        )


def _check_dtype(name: str, position: int, operand: Any) -> None:
    if dtypes.native(operand.dtype) in dtypes.HLO_NAMES:
        return
    raise errors.NonArrayArgumentError(
        f"{name} requires arrays of numbers, got an array of dtype {operand.dtype} at position {position}."
    )


def refuse(name: str, **given: Any) -> None:
    """Check that arguments of NumPy that have no meaning on immutable arrays, such as `out=`, are None.

    Parameters
    ----------
    given : None

    Raises
    ------
    NotImplementedError
        One is not.
    """
    for argument, value in given.items():
        if value is not None:
            raise NotImplementedError(
                f"purax.numpy.{name} takes no {argument}= argument: arrays are immutable, use the returned array"
            )


def as_operand(x: Any) -> Any:
    """The Array or Tracer that a checked operand stands for."""
    if not hasattr(x, "aval"):
        x = unwrapped(x)
    return x if hasattr(x, "aval") else hooks.as_array(x)


# ---- one operand


def convert(x: Any, dtype: Any, weak: bool = False) -> Any:
    """`x` with this dtype and weak type; Python scalars are converted exactly or refused.

    Parameters
    ----------
    dtype : dtype
    weak : bool

    Returns
    -------
    dtype[...]
    """
    aval = getattr(x, "aval", None)
    if aval is None:
        if type(x) in _SCALARS:
            return _scalar(x, dtype, weak)
        x = as_operand(x)
        aval = x.aval
    if aval.dtype == dtype and aval.weak_type == weak:
        return x
    return ops.convert_element_type_p.bind1(x, new_dtype=dtype, weak_type=weak)


def _sized(x: Any, dtype: Any, weak: bool) -> Any:
    """`x` with this dtype; elementwise operations see to the weak type of operands that agree in dtype."""
    aval = getattr(x, "aval", None)
    return x if aval is not None and aval.dtype == dtype else convert(x, dtype, weak)


def _scalar(value: Any, dtype: Any, weak: bool) -> Any:
    """The rank-0 Array of a Python scalar."""
    if type(value) is int and dtypes.is_integer(dtype) and not _fits(value, dtype):
        limits = dtypes.iinfo(dtype)
        raise errors.IntegerOverflowError(
            errors.explain(
                f"the Python integer {value} is out of bounds for {dtype}, at {here()}.",
                f"an array of {dtype} holds {limits.min} to {limits.max}.",
                "convert the array to a wider dtype, or the integer to an array, first.",
            )
        )
    return put(value, array_aval((), dtype, weak))


# ---- dtypes of several operands


def promote_dtypes(*operands: Any) -> list[Any]:
    """Convert to the common dtype; weak if all are weak."""
    dtype, weak = _meet(operands)
    return [convert(x, dtype, weak) for x in operands]


def promote_dtypes_anyhow(*operands: Any) -> list[Any]:
    """As `promote_dtypes`, by the standard lattice also where `numpy_dtype_promotion` is "strict": joining was asked for."""
    with numpy_dtype_promotion("standard"):
        dtype, weak = _meet(operands)
    return [convert(x, dtype, weak) for x in operands]


def wider(*dtypes_: Any) -> Any:
    """The dtype at which these meet in the standard lattice, also where `numpy_dtype_promotion` is "strict"."""
    with numpy_dtype_promotion("standard"):
        return dtypes.promote([(dtype, False) for dtype in dtypes_])[0]


def promote_dtypes_inexact(*operands: Any) -> list[Any]:
    """Convert to the common dtype, or to floats if that is boolean or integer."""
    dtype, weak = inexact(*_meet(operands))
    return [convert(x, dtype, weak) for x in operands]


def promote_dtypes_numeric(*operands: Any) -> list[Any]:
    """Convert to the common dtype, or to integers if that is boolean."""
    dtype, weak = numeric(*_meet(operands))
    return [convert(x, dtype, weak) for x in operands]


def promote_dtypes_complex(*operands: Any) -> list[Any]:
    """Convert to the complex dtype that holds the common one."""
    dtype, weak = _meet(operands)
    return [convert(x, dtypes.to_complex(dtype), weak) for x in operands]


def _meet(operands: Any) -> tuple[Any, bool]:
    if len(operands) == 1:
        aval = aval_of(operands[0])
        return aval.dtype, aval.weak_type
    avals = [aval_of(x) for x in operands]
    if len(avals) == 2:
        return dtypes.promote_pair(avals[0].dtype, avals[0].weak_type, avals[1].dtype, avals[1].weak_type)
    return dtypes.promote([(aval.dtype, aval.weak_type) for aval in avals])


def exact(dtype: Any, weak: bool) -> tuple[Any, bool]:
    """The dtype itself."""
    return dtype, weak


def inexact(dtype: Any, weak: bool) -> tuple[Any, bool]:
    """The dtype, or the float for it."""
    return (dtype if dtypes.is_key(dtype) else dtypes.to_inexact(dtype)), weak


def numeric(dtype: Any, weak: bool) -> tuple[Any, bool]:
    """The dtype and whether it is weak as given, or int32 and False for booleans: (dtype, bool), by `weak`."""
    return (np.dtype(np.int32), False) if dtypes.is_bool(dtype) else (dtype, weak)


# ---- shapes

_shapes: dict[tuple[tuple[int, ...], ...], tuple[int, ...]] = {}


def common_shape(name: str, *shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that these `shapes` broadcast to where nobody asked for it: in operators and functions of several arrays.

    Raises
    ------
    ShapeError
        They do not broadcast.
    RankPromotionError
        Their ranks differ (rank 0 aside) and `numpy_rank_promotion` is "raise".
    """
    found = joint_shape(name, *shapes)
    mode = settings().numpy_rank_promotion
    if mode != "allow":
        _check_ranks(name, shapes, mode)
    return found


def joint_shape(name: str, *shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that these `shapes` broadcast to on demand: ranks may differ.

    Raises
    ------
    ShapeError
        They do not broadcast.
    """
    found = _shapes.get(shapes)
    if found is None:
        found = _shapes[shapes] = _join_shapes(name, shapes)
    return found


def _join_shapes(name: str, shapes: tuple[tuple[int, ...], ...]) -> tuple[int, ...]:
    rank = max((len(shape) for shape in shapes), default=0)
    joined = [1] * rank
    for shape in shapes:
        for axis, size in enumerate(shape, rank - len(shape)):
            if size != 1:
                if joined[axis] not in (1, size):
                    written = ", ".join(str(tuple(s)) for s in shapes)
                    raise errors.ShapeError(
                        errors.explain(
                            f"{name} got incompatible shapes for broadcasting: {written}, at {here()}.",
                            f"sizes {joined[axis]} and {size} meet at axis {axis - rank}.",
                        )
                    )
                joined[axis] = size
    return tuple(joined)


def _check_ranks(name: str, shapes: tuple[tuple[int, ...], ...], mode: str) -> None:
    if len({len(shape) for shape in shapes if shape}) < 2:
        return
    message = errors.explain(
        f"{name}: operands with shapes {' '.join(str(s) for s in shapes)} require rank promotion, at {here()}.",
        f"numpy_rank_promotion is {mode!r}.",
        "add the missing axes, such as by x[None, :].",
    )
    if mode == "raise":
        raise errors.RankPromotionError(message)
    warnings.warn(message, stacklevel=5)


def spread(x: Any, shape: tuple[int, ...]) -> Any:
    """An Array or Tracer broadcast to `shape`, which its own shape broadcasts to."""
    own = x.aval.shape
    if own == shape:
        return x
    rank = len(shape)
    return ops.broadcast_in_dim_p.bind1(x, shape=shape, broadcast_dimensions=tuple(range(rank - len(own), rank)))


def broadcast_to_shape(x: Any, shape: tuple[int, ...]) -> Any:
    """Like `spread`, checked.

    Raises
    ------
    ShapeError
        The array does not broadcast to the shape.
    """
    own = x.aval.shape
    if own == shape:
        return x
    tail = shape[len(shape) - len(own) :]
    if len(own) > len(shape) or any(a not in (1, b) for a, b in zip(own, tail, strict=True)):
        raise errors.ShapeError(
            f"broadcast_to got incompatible shapes for broadcasting, at {here()}: {own} does not broadcast to {shape}"
        )
    return spread(x, shape)


def promote_shapes(name: str, *operands: Any) -> list[Any]:
    """Broadcast Arrays and Tracers to their common shape."""
    shapes = tuple(x.aval.shape for x in operands)
    shape = common_shape(name, *shapes)
    return [spread(x, shape) for x in operands]


# ---- all at once


def promote(name: str, *operands: Any) -> list[Any]:
    """Check, convert to the common dtype, broadcast to the common shape."""
    check_arraylike(name, *operands)
    return promote_shapes(name, *promote_dtypes(*operands))


def promote_inexact(name: str, *operands: Any) -> list[Any]:
    """As `promote`, to a floating or complex dtype."""
    check_arraylike(name, *operands)
    return promote_shapes(name, *promote_dtypes_inexact(*operands))


def promote_numeric(name: str, *operands: Any) -> list[Any]:
    """As `promote`, booleans to integers."""
    check_arraylike(name, *operands)
    return promote_shapes(name, *promote_dtypes_numeric(*operands))


class Binary:
    """How one function of two operands promotes, remembered per pair of operand types.

    Parameters
    ----------
    name : str
        For messages.
    choose : dtype -> function of two operands of equal shape and dtype
        The strict operation.
    target : (dtype, weak) -> (dtype, weak)
        `exact`, `inexact` or `numeric`: what the common dtype becomes first.
    bounds : function of two integers, optional
        Comparisons: a Python integer outside the range of the array's dtype gives the exact answer, not an error.

    Attributes
    ----------
    known : dict from (aval, aval) to a function of the operands
        Pairs whose treatment no setting can change. Functions of the hot path look here before they call.
    """

    __slots__ = ("_by_settings", "bounds", "choose", "known", "name", "target")

    def __init__(
        self, name: str, choose: Callable[[Any], Any], target: Callable[[Any, bool], Any] = exact, bounds: Any = None
    ) -> None:
        self.name, self.choose, self.target, self.bounds = name, choose, target, bounds
        self.known: dict[Any, Any] = {}
        self._by_settings: dict[Any, Any] = {}

    def __call__(self, x: Any, y: Any, out: None = None, where: None = None) -> Any:
        """Promote, and apply the strict operation."""
        if out is not where:
            refuse(self.name, out=out, where=where)
        a, b = getattr(x, "aval", None), getattr(y, "aval", None)
        key = (a or type(x), b or type(y), settings().trace_key)
        apply = self._by_settings.get(key)
        return self._first(x, y, a, b, key) if apply is None else apply(x, y)

    def _first(self, x: Any, y: Any, a: Any, b: Any, key: Any) -> Any:
        """The first meeting of two types: find what to do, remember it if the types tell all, do it."""
        check_arraylike(self.name, x, y)
        left, right = aval_of(x), aval_of(y)
        dtype, weak = self.target(*dtypes.promote_pair(left.dtype, left.weak_type, right.dtype, right.weak_type))
        target = array_aval(common_shape(self.name, left.shape, right.shape), dtype, weak)
        apply = _meeting(self.choose(dtype), target, a, b, self.bounds if dtypes.is_integer(dtype) else None)
        if (a or type(x) in _SCALARS) and (b or type(y) in _SCALARS):
            self._by_settings[key] = apply
            # No setting changes how values of one dtype meet, if their ranks agree or one is a scalar.
            if a and b and a.dtype == b.dtype and (a.ndim == b.ndim or not a.ndim or not b.ndim):
                self.known[a, b] = apply
        return apply(x, y)


def _meeting(strict: Any, target: Any, a: Any, b: Any, bounds: Any) -> Any:
    """The function of two operands that brings them to `target` and applies `strict`; avals are None for scalars."""
    dtype, weak, shape = target.dtype, target.weak_type, target.shape
    if a and b:
        if a.dtype == dtype == b.dtype and a.shape == b.shape:
            return strict
        return lambda x, y: strict(spread(_sized(x, dtype, weak), shape), spread(_sized(y, dtype, weak), shape))
    ready = (a or b) is not None and (a or b).dtype == dtype and (a or b).shape == shape

    def scalar_right(x: Any, y: Any) -> Any:
        if bounds is not None and type(y) is int and not _fits(y, dtype):
            return spread(_scalar(bounds(0, y), dtypes.bool_, False), shape)
        return strict(x if ready else spread(_sized(x, dtype, weak), shape), constant(y, target))

    def scalar_left(x: Any, y: Any) -> Any:
        if bounds is not None and type(x) is int and not _fits(x, dtype):
            return spread(_scalar(bounds(x, 0), dtypes.bool_, False), shape)
        return strict(constant(x, target), y if ready else spread(_sized(y, dtype, weak), shape))

    if a or b:
        return scalar_right if a else scalar_left
    return lambda x, y: strict(spread(_sized(x, dtype, weak), shape), spread(_sized(y, dtype, weak), shape))


_constants: dict[Any, Any] = {}


def constant(value: Any, aval: Any) -> Any:
    """A scalar as an array of the type `aval`, for use as an operand only: never hand it out, it may be shared.

    Small ones are remembered outside of transformations; a program that is being recorded spreads each scalar once.
    """
    if type(value) not in _SCALARS:
        return spread(_sized(value, aval.dtype, aval.weak_type), aval.shape)
    # 0.0 == -0.0, so zeros are told apart by what they read.
    key = (type(value), value if value else str(value), aval)
    trace = current_trace.get()
    while trace is not None:
        if trace.scalars is not None and aval.shape and value == value:
            return trace.spread_scalar(key, lambda: spread(_scalar(value, aval.dtype, aval.weak_type), aval.shape))
        trace = trace.parent
    if current_trace.get() is not None or aval.size > 1024 or settings().default_device is not None:
        return spread(_scalar(value, aval.dtype, aval.weak_type), aval.shape)
    found = _constants.get(key)
    if found is None:
        found = spread(_scalar(value, aval.dtype, aval.weak_type), aval.shape)
        if value == value:
            if len(_constants) > 4096:
                _constants.clear()
            _constants[key] = found
    return found


_limits: dict[Any, tuple[int, int]] = {}


def _fits(value: int, dtype: Any) -> bool:
    found = _limits.get(dtype)
    if found is None:
        limits = dtypes.iinfo(dtype)
        found = _limits[dtype] = int(limits.min), int(limits.max)
    return found[0] <= value <= found[1]
