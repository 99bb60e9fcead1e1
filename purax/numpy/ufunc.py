# SPDX-License-Identifier: Apache-2.0
"""Universal functions: `reduce`, `accumulate`, `at`, `reduceat`, `outer`.

Functions such as `add` stay plain Python functions, which are fast to call, and get these methods as attributes;
``isinstance(add, ufunc)`` holds for them. `frompyfunc` makes objects of the class itself.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from purax import dtypes
from purax.control.loop import scan
from purax.control.staging import eval_shape
from purax.core.aval import ShapeDtypeStruct
from purax.numpy import _ops as ops
from purax.numpy import arithmetic, bits, comparison, elementwise
from purax.numpy.cumulative import cumprod, cumsum
from purax.numpy.promotion import as_operand, broadcast_to_shape, check_arraylike, convert, refuse
from purax.numpy.reduction import all, any, max, min, prod, reduced_axes, sum
from purax.numpy.selection import where as choose
from purax.numpy.shape import concatenate, moveaxis, ravel, take_rows
from purax.numpy.updating import index_update
from purax.numpy.vectorize import vectorize

__all__ = ["frompyfunc", "ufunc"]


class _Meta(type):
    """Lets plain functions that carry the methods count as instances."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return type.__instancecheck__(cls, instance) or hasattr(instance, "_ufunc")


class ufunc(metaclass=_Meta):
    """A function of scalars that works on arrays element by element, with methods that apply it along axes.

    Attributes
    ----------
    nin, nout, nargs : int
        Numbers of inputs, outputs and both.
    identity : scalar or None
        What leaves the other operand as it is; the start of a reduction.
    """

    def __init__(
        self, func: Callable[..., Any], /, nin: int, nout: int, *, name: str | None = None, nargs: int | None = None,
        identity: Any = None, call: Callable[..., Any] | None = None, reduce: Callable[..., Any] | None = None,
        accumulate: Callable[..., Any] | None = None, at: Callable[..., Any] | None = None,
        reduceat: Callable[..., Any] | None = None,
    ) -> None:  # fmt: skip
        self.__name__: str = name or str(getattr(func, "__name__", "ufunc"))
        self.__doc__ = getattr(func, "__doc__", None)
        self._func, self._nin, self._nout, self._nargs, self._identity = func, nin, nout, nargs or nin, identity
        self._call = call or vectorize(func)
        self._reduce, self._accumulate, self._at, self._reduceat = reduce, accumulate, at, reduceat

    nin = property(operator.attrgetter("_nin"))
    nout = property(operator.attrgetter("_nout"))
    nargs = property(operator.attrgetter("_nargs"))
    identity = property(operator.attrgetter("_identity"))

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.__dict__:
            raise AttributeError(f"{self!r} does not change: its {name} is set once")
        super().__setattr__(name, value)

    def __call__(self, *args: Any, out: None = None, where: None = None) -> Any:
        """Apply to each element of arrays that broadcast."""
        refuse(self.__name__, out=out, where=where)
        if len(args) != self.nin:
            raise TypeError(f"{self.__name__} takes {self.nin} arguments, got {len(args)}")
        return self._call(*args)

    def __repr__(self) -> str:
        return f"<purax.numpy.ufunc '{self.__name__}'>"

    def __hash__(self) -> int:
        return hash((self._func, self.__name__, self.nin, self.nout))

    def __eq__(self, other: object) -> bool:
        return type(other) is ufunc and (self._func, self.__name__, self.nin, self.nout) == (
            other._func, other.__name__, other.nin, other.nout,
        )  # fmt: skip

    def _check(self, method: str, operand: Any) -> Any:
        if self.nin != 2:
            raise ValueError(f"{method} only supported for binary ufuncs")
        if self.nout != 1:
            raise ValueError(f"{method} only supported for functions returning a single value")
        check_arraylike(f"{self.__name__}.{method}", operand)
        return as_operand(operand)

    def _dtype(self, a: Any) -> Any:
        """The dtype that the function gives for two elements of `a`."""
        element = ShapeDtypeStruct((), a.aval.dtype)
        return eval_shape(self._call, element, element).dtype

    def reduce(
        self, a: Any, axis: Any = 0, dtype: Any = None, out: None = None, keepdims: bool = False, initial: Any = None,
        where: Any = None,
    ) -> Any:  # fmt: skip
        """Apply along axes to the result so far and the next element; by default along the first axis."""
        a = self._check("reduce", a)
        refuse(self.__name__ + ".reduce", out=out)
        if where is not None and self.identity is None and initial is None:
            raise ValueError(
                f"reduction operation {self.__name__!r} does not have an identity, so to use a where mask one has to specify 'initial'."
            )
        if self._reduce is not None:
            return self._reduce(a, axis=axis, dtype=dtype, keepdims=keepdims, initial=initial, where=where)
        axes = reduced_axes(axis, a.aval.ndim)
        kept = tuple([1 if i in axes else n for i, n in enumerate(a.aval.shape)])
        mask = None if where is None else broadcast_to_shape(comparison.truth(as_operand(where)), a.aval.shape)
        order = (*axes, *[i for i in range(a.aval.ndim) if i not in axes])
        rest = tuple([n for i, n in enumerate(a.aval.shape) if i not in axes])
        rows, masks = _rows(a, order, rest), _rows(mask, order, rest)
        result = self._fold(rows, masks, dtype, initial)
        return ops.reshape(result, kept) if keepdims else result

    def _fold(self, rows: Any, masks: Any, dtype: Any, initial: Any) -> Any:
        target = self._dtype(rows) if dtype is None else dtypes.named(dtype)
        start = self.identity if initial is None else initial
        rows = convert(rows, target)
        rest = rows.aval.shape[1:]
        if start is None:
            if rows.aval.shape[0] == 0:
                raise ValueError(f"zero-size array to reduction operation {self.__name__} which has no identity")
            carry = ops.squeeze(ops.slice_in_dim(rows, 0, 1), (0,))
            rows = ops.slice_in_dim(rows, 1, rows.aval.shape[0])
        else:
            carry = broadcast_to_shape(ops.convert_element_type(as_operand(start), target), rest)

        def step(total: Any, item: Any) -> Any:
            row, mask = item
            value = convert(self._call(total, row), target)
            return (value if mask is None else choose(mask, value, total)), None

        return scan(step, carry, (rows, masks))[0]

    def accumulate(self, a: Any, axis: int = 0, dtype: Any = None, out: None = None) -> Any:
        """All the results so far of `reduce` along an axis."""
        a = self._check("accumulate", a)
        refuse(self.__name__ + ".accumulate", out=out)
        if axis is None or isinstance(axis, tuple):
            if axis is None and a.aval.ndim == 1:
                axis = 0
            else:
                raise ValueError("accumulate does not allow multiple axes")
        (axis,) = reduced_axes(operator.index(axis), a.aval.ndim)
        if self._accumulate is not None:
            return self._accumulate(a, axis=axis, dtype=dtype)
        target = self._dtype(a) if dtype is None else dtypes.named(dtype)
        rows = convert(moveaxis(a, axis, 0), target)
        if rows.aval.shape[0] == 0:
            return moveaxis(rows, 0, axis)

        def step(total: Any, row: Any) -> Any:
            value = convert(self._call(total, row), target)
            return value, value

        first = ops.slice_in_dim(rows, 0, 1)
        rest = scan(step, ops.squeeze(first, (0,)), ops.slice_in_dim(rows, 1, rows.aval.shape[0]))[1]
        return moveaxis(concatenate([first, rest], 0), 0, axis)

    def at(self, a: Any, indices: Any, b: Any = None, /, *, inplace: bool = True) -> Any:
        """`a` with the function applied at indices, one after another where they repeat; `inplace` must be False."""
        if inplace:
            raise NotImplementedError(
                f"arrays are immutable, {self.__name__}.at cannot write into one: give inplace=False and use the result"
            )
        check_arraylike(f"{self.__name__}.at", a)
        a = as_operand(a)
        if self.nin == 1:
            return index_update(a)[indices].apply(self._call)
        check_arraylike(f"{self.__name__}.at", b)
        if self._at is not None:
            return self._at(a, indices, b)
        places = ops.reshape(ops.iota(dtypes.default_int(), a.aval.size), a.aval.shape)[indices]
        values = broadcast_to_shape(as_operand(b), places.aval.shape)

        def step(flat: Any, item: Any) -> Any:
            place, value = item
            return index_update(flat)[place].set(convert(self._call(flat[place], value), flat.dtype)), None

        return ops.reshape(scan(step, ravel(a), (ravel(places), ravel(values)))[0], a.aval.shape)

    def reduceat(self, a: Any, indices: Any, axis: int = 0, dtype: Any = None, out: None = None) -> Any:
        """`reduce` of the slices from each index to the next (the last to the end); of one element where they do not rise."""
        a = self._check("reduceat", a)
        refuse(self.__name__ + ".reduceat", out=out)
        if axis is None or isinstance(axis, (tuple, list)):
            raise ValueError("reduceat requires a single integer axis.")
        check_arraylike(f"{self.__name__}.reduceat", indices)
        (axis,) = reduced_axes(operator.index(axis), a.aval.ndim)
        starts = ops.convert_element_type(as_operand(indices), dtypes.default_int())
        if starts.aval.ndim != 1:
            raise ValueError(f"reduceat: indices must be one-dimensional, got shape {starts.aval.shape}")
        rows = moveaxis(a, axis, 0)
        rows = convert(rows, self._dtype(rows) if dtype is None else dtypes.named(dtype))
        length, count = rows.aval.shape[0], starts.aval.shape[0]
        if count == 0:
            return moveaxis(take_rows(rows, starts, 0), 0, axis)
        ends = concatenate([ops.slice_in_dim(starts, 1, count), ops.full((1,), length, starts.aval.dtype)], 0)
        place = ops.iota(starts.aval.dtype, length)
        wide = (length, count)
        after = ops.gt(ops.broadcast_in_dim(place, wide, (0,)), ops.broadcast_in_dim(starts, wide, (1,)))
        before = ops.lt(ops.broadcast_in_dim(place, wide, (0,)), ops.broadcast_in_dim(ends, wide, (1,)))
        inside = ops.bitwise_and(after, before)
        carry = take_rows(rows, starts, 0)
        target = carry.aval.dtype

        def step(total: Any, item: Any) -> Any:
            row, mask = item
            value = convert(self._call(total, ops.broadcast_in_dim(row, total.shape, range(1, total.ndim))), target)
            mask = ops.broadcast_in_dim(mask, total.shape, (0,))
            return ops.select_n(mask, total, value), None

        return moveaxis(scan(step, carry, (rows, inside))[0], 0, axis)

    def outer(self, A: Any, B: Any, /) -> Any:
        """Apply to all pairs of an element of `A` and one of `B`; shape ``A.shape + B.shape``."""
        if self.nin != 2:
            raise ValueError("outer only supported for binary ufuncs")
        check_arraylike(f"{self.__name__}.outer", A, B)
        A, B = as_operand(A), as_operand(B)
        shape = A.aval.shape + (1,) * B.aval.ndim
        return self._call(ops.reshape(A, shape), ops.reshape(B, (1,) * A.aval.ndim + B.aval.shape))


def _rows(x: Any, order: tuple[int, ...], rest: tuple[int, ...]) -> Any:
    """The reduced axes merged in front."""
    if x is None:
        return None
    count = x.aval.size
    for n in rest:
        count = count // n if n else 0
    return ops.reshape(ops.transpose(x, order), (count, *rest))


def frompyfunc(func: Callable[..., Any], /, nin: int, nout: int, *, identity: Any = None) -> ufunc:
    """A ufunc of a function of `nin` scalars that gives `nout`, mapped over arrays of any shape; `identity` starts reductions.

    Parameters
    ----------
    func : callable
    nin, nout : int
    identity : scalar, optional

    Returns
    -------
    ufunc
    """
    return ufunc(func, operator.index(nin), operator.index(nout), identity=identity)


# ---- the functions that are ufuncs


def _attach(function: Any, nin: int, identity: Any, **methods: Any) -> None:
    made = ufunc(function, nin, 1, identity=identity, call=function, **methods)
    for name in ("nin", "nout", "nargs", "identity", "reduce", "accumulate", "at", "reduceat", "outer"):
        setattr(function, name, getattr(made, name))
    function._ufunc = made


def _reducer(function: Callable[..., Any], *, typed: bool) -> Callable[..., Any]:
    def reduce(a: Any, *, axis: Any, dtype: Any, keepdims: bool, initial: Any, where: Any) -> Any:
        if typed:
            return function(a, axis=axis, dtype=dtype, keepdims=keepdims, initial=initial, where=where)
        if dtype is not None:
            a = convert(a, dtypes.named(dtype))
        return function(a, axis=axis, keepdims=keepdims, initial=initial, where=where)

    return reduce


def _logical(function: Callable[..., Any], combine: Callable[..., Any]) -> Callable[..., Any]:
    def reduce(a: Any, *, axis: Any, dtype: Any, keepdims: bool, initial: Any, where: Any) -> Any:
        result = function(a, axis=axis, keepdims=keepdims, where=where)
        if initial is not None:
            result = combine(result, initial)
        return result if dtype is None else convert(result, dtypes.named(dtype))

    return reduce


def _add_at(a: Any, indices: Any, b: Any) -> Any:
    return index_update(a)[indices].add(b)


def _subtract_at(a: Any, indices: Any, b: Any) -> Any:
    return index_update(a)[indices].subtract(b)


def _multiply_at(a: Any, indices: Any, b: Any) -> Any:
    return index_update(a)[indices].multiply(b)


def _maximum_at(a: Any, indices: Any, b: Any) -> Any:
    return index_update(a)[indices].max(b)


def _minimum_at(a: Any, indices: Any, b: Any) -> Any:
    return index_update(a)[indices].min(b)


_attach(arithmetic.add, 2, 0, reduce=_reducer(sum, typed=True), accumulate=cumsum, at=_add_at)
_attach(arithmetic.multiply, 2, 1, reduce=_reducer(prod, typed=True), accumulate=cumprod, at=_multiply_at)
_attach(arithmetic.subtract, 2, None, at=_subtract_at)
_attach(arithmetic.maximum, 2, None, reduce=_reducer(max, typed=False), at=_maximum_at)
_attach(arithmetic.minimum, 2, None, reduce=_reducer(min, typed=False), at=_minimum_at)
_attach(arithmetic.logaddexp, 2, -float("inf"))
_attach(arithmetic.logaddexp2, 2, -float("inf"))
_attach(comparison.logical_and, 2, True, reduce=_logical(all, comparison.logical_and))
_attach(comparison.logical_or, 2, False, reduce=_logical(any, comparison.logical_or))
_attach(comparison.logical_xor, 2, False)
_attach(bits.bitwise_and, 2, -1)
_attach(bits.bitwise_or, 2, 0)
_attach(bits.bitwise_xor, 2, 0)
_attach(elementwise.negative, 1, None)
