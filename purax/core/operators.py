# SPDX-License-Identifier: Apache-2.0
"""Operators and methods of array values, each one line that calls the function of `purax.numpy` of that name.

Written out, not generated, so that completion, type checkers and readers see them. An operand that is no array at all makes a
binary operator return NotImplemented, as Python's protocol wants.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from purax.core.aval import ShapedArray
from purax.core.hooks import hooks

__all__ = ["Operators", "defer"]


def defer(other: Any) -> bool:
    """Whether a binary operator should leave `other` to its own reflected method."""
    return not (isinstance(other, _OPERANDS) or hasattr(other, "__purax_array__") or hasattr(other, "__jax_array__"))


class Operators:
    """Mixin of Array and Tracer."""

    __slots__ = ()
    aval: ShapedArray

    # --- arithmetic

    def __add__(self, other: Any) -> Any:
        return NotImplemented if defer(other) else hooks.numpy.add(self, other)

    def __radd__(self, other: Any) -> Any:
        return NotImplemented if defer(other) else hooks.numpy.add(other, self)

    def __sub__(self, other: Any) -> Any:
        return NotImplemented if defer(other) else hooks.numpy.subtract(self, other)

    def __rsub__(self, other: Any) -> Any:
        return NotImplemented if defer(other) else hooks.numpy.subtract(other, self)

    def __mul__(self, other: Any) -> Any:
        return NotImplemented if defer(other) else hooks.numpy.multiply(self, other)

    def __rmul__(self, other: Any) -> Any:
        return NotImplemented if defer(other) else hooks.numpy.multiply(other, self)

    def __truediv__(self, other: Any) -> Any:
        return NotImplemented if defer(other) else hooks.numpy.true_divide(self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return NotImplemented if defer(other) else hooks.numpy.true_divide(other, self)

    def __floordiv__(self, other: Any) -> Any:
        return NotImplemented if defer(other) else hooks.numpy.floor_divide(self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return NotImplemented if defer(other) else hooks.numpy.floor_divide(other, self)

    def __mod__(self, other: Any) -> Any:
        return NotImplemented if defer(other) else hooks.numpy.mod(self, other)

    def __rmod__(self, other: Any) -> Any:
        return NotImplemented if defer(other) else hooks.numpy.mod(other, self)

    def __divmod__(self, other: Any) -> Any:
        return NotImplemented if defer(other) else hooks.numpy.divmod(self, other)

    def __rdivmod__(self, other: Any) -> Any:
        return NotImplemented if defer(other) else hooks.numpy.divmod(other, self)

    def __pow__(self, other: Any) -> Any:
        return NotImplemented if defer(other) else hooks.numpy.power(self, other)

    def __rpow__(self, other: Any) -> Any:
        return NotImplemented if defer(other) else hooks.numpy.power(other, self)

    def __matmul__(self, other: Any) -> Any:
        return NotImplemented if defer(other) else hooks.numpy.matmul(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return NotImplemented if defer(other) else hooks.numpy.matmul(other, self)

    def __and__(self, other: Any) -> Any:
        return NotImplemented if defer(other) else hooks.numpy.bitwise_and(self, other)

    def __rand__(self, other: Any) -> Any:
        return NotImplemented if defer(other) else hooks.numpy.bitwise_and(other, self)

    def __or__(self, other: Any) -> Any:
        return NotImplemented if defer(other) else hooks.numpy.bitwise_or(self, other)

    def __ror__(self, other: Any) -> Any:
        return NotImplemented if defer(other) else hooks.numpy.bitwise_or(other, self)

    def __xor__(self, other: Any) -> Any:
        return NotImplemented if defer(other) else hooks.numpy.bitwise_xor(self, other)

    def __rxor__(self, other: Any) -> Any:
        return NotImplemented if defer(other) else hooks.numpy.bitwise_xor(other, self)

    def __lshift__(self, other: Any) -> Any:
        return NotImplemented if defer(other) else hooks.numpy.left_shift(self, other)

    def __rlshift__(self, other: Any) -> Any:
        return NotImplemented if defer(other) else hooks.numpy.left_shift(other, self)

    def __rshift__(self, other: Any) -> Any:
        return NotImplemented if defer(other) else hooks.numpy.right_shift(self, other)

    def __rrshift__(self, other: Any) -> Any:
        return NotImplemented if defer(other) else hooks.numpy.right_shift(other, self)

    # --- comparisons

    def __eq__(self, other: Any) -> Any:
        return NotImplemented if defer(other) else hooks.numpy.equal(self, other)

    def __ne__(self, other: Any) -> Any:
        return NotImplemented if defer(other) else hooks.numpy.not_equal(self, other)

    def __lt__(self, other: Any) -> Any:
        return NotImplemented if defer(other) else hooks.numpy.less(self, other)

    def __le__(self, other: Any) -> Any:
        return NotImplemented if defer(other) else hooks.numpy.less_equal(self, other)

    def __gt__(self, other: Any) -> Any:
        return NotImplemented if defer(other) else hooks.numpy.greater(self, other)

    def __ge__(self, other: Any) -> Any:
        return NotImplemented if defer(other) else hooks.numpy.greater_equal(self, other)

    __hash__ = None  # type: ignore[assignment]

    def __neg__(self) -> Any:
        return hooks.numpy.negative(self)

    def __pos__(self) -> Any:
        return hooks.numpy.positive(self)

    def __abs__(self) -> Any:
        return hooks.numpy.abs(self)

    def __invert__(self) -> Any:
        return hooks.numpy.invert(self)

    def __round__(self, ndigits: Any = None) -> Any:
        return hooks.numpy.round(self, ndigits or 0)

    # --- indexing

    def __getitem__(self, index: Any) -> Any:
        return hooks.numpy.getitem(self, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        raise TypeError(
            "purax arrays are immutable: write `x = x.at[index].set(value)` instead of `x[index] = value` "
            "(`x.at[index].add(value)` for `x[index] += value`)."
        )

    @property
    def at(self) -> Any:
        """Functional updates: ``x.at[index].set(values)``, ``.add``, ``.multiply``, ``.min``, ``.max``, ``.apply``, ``.get``."""
        return hooks.numpy.index_update(self)

    def __contains__(self, item: Any) -> bool:
        if self.aval.ndim != 1 or getattr(item, "ndim", 0) != 0:
            raise ValueError("`in` looks for a scalar in an array with one axis; write (x == item).any() for others")
        return bool(hooks.numpy.any(hooks.numpy.equal(self, item)))

    # --- attributes

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape."""
        return self.aval.shape

    @property
    def dtype(self) -> Any:
        """Data type."""
        return self.aval.dtype

    @property
    def __numpy_dtype__(self) -> Any:
        # NumPy asks where an array was given as a dtype, as in np.zeros(3, x) for np.zeros((3, x)).
        warnings.warn(
            "Implicit conversion of an array to a dtype is deprecated: give its dtype, x.dtype.",
            DeprecationWarning,
            stacklevel=2,
        )
        return self.aval.dtype

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self.aval.ndim

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.aval.size

    @property
    def weak_type(self) -> bool:
        """Whether the value comes from Python scalars only, and so gives way in promotion."""
        return self.aval.weak_type

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return int(self.aval.dtype.itemsize)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.aval.size * int(self.aval.dtype.itemsize)

    # Where a value lies is known of arrays only, which override these.

    @property
    def sharding(self) -> Any:
        """How it is spread over devices."""
        raise _placeless("sharding")

    @property
    def device(self) -> Any:
        """Its device; the sharding when there are several."""
        raise _placeless("device")

    def devices(self) -> set[Any]:
        """The set of its devices."""
        raise _placeless("devices")

    @property
    def committed(self) -> bool:
        """Whether it was put on its devices on purpose."""
        raise _placeless("committed")

    @property
    def is_fully_addressable(self) -> bool:
        """Whether this process can read all of it."""
        raise _placeless("is_fully_addressable")

    @property
    def is_fully_replicated(self) -> bool:
        """Whether each of its devices holds all of it."""
        raise _placeless("is_fully_replicated")

    @property
    def addressable_shards(self) -> list[Any]:
        """The pieces on the devices of this process."""
        raise _placeless("addressable_shards")

    @property
    def global_shards(self) -> list[Any]:
        """The pieces on all devices."""
        raise _placeless("global_shards")

    def addressable_data(self, index: int) -> Any:
        """The piece on one device of this process."""
        raise _placeless("addressable_data")

    def to_device(self, device: Any, *, stream: Any = None) -> Any:
        """The same value on another device."""
        raise _placeless("to_device")

    def copy_to_host_async(self) -> None:
        """Begin a copy to the host, where there are elements."""

    def item(self, *index: Any) -> Any:
        """One element as a Python scalar."""
        raise _placeless("item")

    @property
    def T(self) -> Any:
        """Axes reversed."""
        return hooks.numpy.transpose(self)

    @property
    def mT(self) -> Any:
        """Last two axes swapped."""
        return hooks.numpy.matrix_transpose(self)

    @property
    def real(self) -> Any:
        """Real part."""
        return hooks.numpy.real(self)

    @property
    def imag(self) -> Any:
        """Imaginary part."""
        return hooks.numpy.imag(self)

    @property
    def flat(self) -> Any:
        """The elements in order: use `.ravel()`."""
        raise AttributeError("purax arrays have no `.flat`; use x.ravel(), or x.reshape(-1)")

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        return hooks.numpy.array_namespace(api_version)

    # --- methods

    def astype(self, dtype: Any, copy: bool = False, device: Any = None) -> Any:
        """Convert to `dtype`."""
        return hooks.numpy.astype(self, dtype, copy=copy, device=device)

    def reshape(self, *shape: Any, order: str = "C", **kwargs: Any) -> Any:
        """The same elements with another shape."""
        return hooks.numpy.reshape_method(self, shape, order, kwargs)

    def ravel(self, order: str = "C") -> Any:
        """Flatten to one axis."""
        return hooks.numpy.ravel(self, order=order)

    def flatten(self, order: str = "C") -> Any:
        """Flatten to one axis."""
        return hooks.numpy.ravel(self, order=order)

    def transpose(self, *axes: Any) -> Any:
        """Permute axes (reverse them when none are given)."""
        return hooks.numpy.transpose(self, _unpacked(axes) if axes else None)

    def swapaxes(self, axis1: int, axis2: int) -> Any:
        """Interchange two axes."""
        return hooks.numpy.swapaxes(self, axis1, axis2)

    def squeeze(self, axis: Any = None) -> Any:
        """Drop axes of size one."""
        return hooks.numpy.squeeze(self, axis)

    def copy(self) -> Any:
        """A copy."""
        return hooks.numpy.copy(self)

    def view(self, dtype: Any = None, type: Any = None) -> Any:
        """Reinterpret the bits as another dtype."""
        return hooks.numpy.view_method(self, dtype, type)

    def byteswap(self) -> Any:
        """The bytes of each element in the opposite order."""
        return hooks.numpy.byteswap_method(self)

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
        """Diagonal of two axes."""
        return hooks.numpy.diagonal(self, offset, axis1, axis2)

    def trace(self, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None) -> Any:
        """Sum of the diagonal."""
        return hooks.numpy.trace(self, offset, axis1, axis2, dtype)

    def conj(self) -> Any:
        """Complex conjugate."""
        return hooks.numpy.conj(self)

    def conjugate(self) -> Any:
        """Complex conjugate."""
        return hooks.numpy.conj(self)

    def dot(self, b: Any, *, precision: Any = None, preferred_element_type: Any = None) -> Any:
        """Dot product."""
        return hooks.numpy.dot(self, b, precision=precision, preferred_element_type=preferred_element_type)

    def round(self, decimals: int = 0) -> Any:
        """Round to the given number of decimals."""
        return hooks.numpy.round(self, decimals)

    def clip(self, min: Any = None, max: Any = None) -> Any:
        """Limit the values."""
        return hooks.numpy.clip(self, min, max)

    def repeat(self, repeats: Any, axis: Any = None, *, total_repeat_length: Any = None) -> Any:
        """Repeat elements."""
        return hooks.numpy.repeat(self, repeats, axis, total_repeat_length=total_repeat_length)

    def take(self, indices: Any, axis: Any = None, mode: Any = None, fill_value: Any = None) -> Any:
        """Take elements along an axis."""
        return hooks.numpy.take(self, indices, axis, mode=mode, fill_value=fill_value)

    def compress(self, condition: Any, axis: Any = None, *, size: Any = None, fill_value: Any = 0) -> Any:
        """Elements where the condition holds."""
        return hooks.numpy.compress(condition, self, axis, size=size, fill_value=fill_value)

    def choose(self, choices: Any, mode: str = "raise") -> Any:
        """Pick from the choices."""
        return hooks.numpy.choose(self, choices, mode=mode)

    def nonzero(self, *, size: Any = None, fill_value: Any = None) -> Any:
        """Indices of non-zero elements."""
        return hooks.numpy.nonzero(self, size=size, fill_value=fill_value)

    def searchsorted(self, v: Any, side: str = "left", sorter: Any = None, *, method: str = "scan") -> Any:
        """Where to insert `v` to keep order."""
        return hooks.numpy.searchsorted(self, v, side, sorter, method=method)

    def sort(
        self, axis: Any = -1, *, kind: Any = None, order: Any = None, stable: bool = True, descending: bool = False
    ) -> Any:
        """A sorted copy."""
        return hooks.numpy.sort(self, axis, stable=stable, descending=descending)

    def argsort(
        self, axis: Any = -1, *, kind: Any = None, order: Any = None, stable: bool = True, descending: bool = False
    ) -> Any:
        """Indices that sort."""
        return hooks.numpy.argsort(self, axis, stable=stable, descending=descending)

    def argpartition(self, kth: int, axis: int = -1) -> Any:
        """Indices of a partition."""
        return hooks.numpy.argpartition(self, kth, axis)

    def cumsum(self, axis: Any = None, dtype: Any = None) -> Any:
        """Running sum."""
        return hooks.numpy.cumsum(self, axis, dtype)

    def cumprod(self, axis: Any = None, dtype: Any = None) -> Any:
        """Running product."""
        return hooks.numpy.cumprod(self, axis, dtype)

    def sum(
        self, axis: Any = None, dtype: Any = None, out: None = None, keepdims: bool = False, initial: Any = None,
        where: Any = None, promote_integers: bool = True,
    ) -> Any:  # fmt: skip
        """Sum over axes."""
        return hooks.numpy.sum(self, axis, dtype, out, keepdims, initial, where, promote_integers)

    def prod(
        self, axis: Any = None, dtype: Any = None, out: None = None, keepdims: bool = False, initial: Any = None,
        where: Any = None, promote_integers: bool = True,
    ) -> Any:  # fmt: skip
        """Product over axes."""
        return hooks.numpy.prod(self, axis, dtype, out, keepdims, initial, where, promote_integers)

    def max(
        self, axis: Any = None, out: None = None, keepdims: bool = False, initial: Any = None, where: Any = None
    ) -> Any:
        """Largest element over axes."""
        return hooks.numpy.max(self, axis, out, keepdims, initial, where)

    def min(
        self, axis: Any = None, out: None = None, keepdims: bool = False, initial: Any = None, where: Any = None
    ) -> Any:
        """Smallest element over axes."""
        return hooks.numpy.min(self, axis, out, keepdims, initial, where)

    def all(self, axis: Any = None, out: None = None, keepdims: bool = False, *, where: Any = None) -> Any:
        """Whether all elements are true."""
        return hooks.numpy.all(self, axis, out, keepdims, where=where)

    def any(self, axis: Any = None, out: None = None, keepdims: bool = False, *, where: Any = None) -> Any:
        """Whether any element is true."""
        return hooks.numpy.any(self, axis, out, keepdims, where=where)

    def mean(
        self, axis: Any = None, dtype: Any = None, out: None = None, keepdims: bool = False, *, where: Any = None
    ) -> Any:
        """Arithmetic mean over axes."""
        return hooks.numpy.mean(self, axis, dtype, out, keepdims, where=where)

    def std(
        self, axis: Any = None, dtype: Any = None, out: None = None, ddof: int = 0, keepdims: bool = False, *,
        where: Any = None, correction: Any = None,
    ) -> Any:  # fmt: skip
        """Standard deviation over axes."""
        return hooks.numpy.std(self, axis, dtype, out, ddof, keepdims, where=where, correction=correction)

    def var(
        self, axis: Any = None, dtype: Any = None, out: None = None, ddof: int = 0, keepdims: bool = False, *,
        where: Any = None, correction: Any = None,
    ) -> Any:  # fmt: skip
        """Variance over axes."""
        return hooks.numpy.var(self, axis, dtype, out, ddof, keepdims, where=where, correction=correction)

    def ptp(self, axis: Any = None, out: None = None, keepdims: bool = False) -> Any:
        """Largest minus smallest element."""
        return hooks.numpy.ptp(self, axis, out, keepdims)

    def argmax(self, axis: Any = None, out: None = None, keepdims: Any = None) -> Any:
        """Index of the largest element."""
        return hooks.numpy.argmax(self, axis, out, keepdims)

    def argmin(self, axis: Any = None, out: None = None, keepdims: Any = None) -> Any:
        """Index of the smallest element."""
        return hooks.numpy.argmin(self, axis, out, keepdims)


def _placeless(name: str) -> AttributeError:
    return AttributeError(
        f"a traced value has no `{name}`: it has a type, but lies nowhere. Look at the array outside of the transformation."
    )


def _unpacked(axes: tuple[Any, ...]) -> Any:
    """`f(2, 3)` and `f((2, 3))` mean the same."""
    return axes[0] if len(axes) == 1 and (axes[0] is None or isinstance(axes[0], (tuple, list))) else axes


_OPERANDS = (Operators, int, float, complex, bool, np.ndarray, np.generic)
