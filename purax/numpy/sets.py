# SPDX-License-Identifier: Apache-2.0
"""Sets: distinct elements, unions, intersections, differences.

How many elements there are depends on the values: outside transformations they are looked at; while tracing, `size=` says how
long the result is, filled up where there are fewer.

Elements keep their dtype; positions and counts are integers.

Parameters
----------
size : int, optional
    Length of the result; needed while tracing.
fill_value : scalar, optional
    What fills the result where there are fewer.
"""

from __future__ import annotations

import operator
from typing import Any, NamedTuple

import numpy as np

from purax import dtypes, errors
from purax.core.aval import array_aval
from purax.core.trace import Tracer
from purax.numpy import _ops as ops
from purax.numpy.indexing import read
from purax.numpy.positions import nonzero
from purax.numpy.promotion import as_operand, check_arraylike, promote_dtypes
from purax.numpy.sorting import searchsorted
from purax.primitives import shape as shapes
from purax.runtime.array import wrap_host

__all__ = [
    "intersect1d",
    "isin",
    "setdiff1d",
    "setxor1d",
    "union1d",
    "unique",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
]


class UniqueAllResult(NamedTuple):
    """What `unique_all` returns."""

    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


class UniqueCountsResult(NamedTuple):
    """What `unique_counts` returns."""

    values: Any
    counts: Any


class UniqueInverseResult(NamedTuple):
    """What `unique_inverse` returns."""

    values: Any
    inverse_indices: Any


def _index(values: Any) -> Any:
    """Known positions as an Array of the default integer dtype."""
    found = np.asarray(values).astype(dtypes.default_int())
    return wrap_host(array_aval(found.shape, found.dtype), found)


def _is_known(x: Any) -> bool:
    return not isinstance(x, Tracer) or x.concrete() is not None


def _values_of(x: Any, name: str) -> np.ndarray:
    if not _is_known(x):
        raise errors.ConcretizationTypeError(
            errors.explain(
                f"{name} got a traced value of type {x.aval.str_short()}.",
                "The shape of its result depends on the values, which are not known while tracing.",
                f"say how long the result is: {name}(..., size=n).",
            )
        )
    return np.asarray(x.concrete() if isinstance(x, Tracer) else x)


# --- unique -----------------------------------------------------------------------------------------------------------


def unique(
    ar: Any, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False, axis: int | None = None, *,
    equal_nan: bool = True, size: int | None = None, fill_value: Any = None, sorted: bool = True,
) -> Any:  # fmt: skip
    """The distinct elements of an array, sorted.

    Parameters
    ----------
    ar : array
    return_index : bool
        Also give the first position of each.
    return_inverse : bool
        Also give, for each element of `ar`, its position in the result.
    return_counts : bool
        Also give how often each occurs.
    axis : int, optional
        Compare slices along this axis; default: single elements.
    equal_nan : bool
        Whether NaNs equal each other.
    size : int, optional
        Length of the result; needed while tracing.
    fill_value : scalar, optional
        What fills the result where there are fewer; default: its first element.
    sorted : bool
        Accepted; the result is always sorted.

    Returns
    -------
    array, or tuple of array, index, inverse and counts as asked for

    Raises
    ------
    ConcretizationTypeError
        `ar` is traced and `size` is not given.
    ShapeError
        No elements, and a `size` without `fill_value`.

    Examples
    --------
    >>> pnp.unique(pnp.array([3, 1, 3])).tolist()
    [1, 3]
    """
    check_arraylike("unique", ar)
    ar = as_operand(ar)
    flat = axis is None
    if axis is None:
        rows, axis = shapes.reshape(ar, (ar.aval.size,)), 0
    else:
        axis = shapes.canonical_axis(axis, ar.aval.ndim)
        rows = shapes.move_batch_axis(ar, axis, 0)
    if size is None:
        values, first, inverse, counts = _unique_known(rows, _values_of(ar, "unique"), flat, axis, equal_nan)
    else:
        size = operator.index(size)
        if rows.aval.shape[0] == 0 and size and fill_value is None:
            raise errors.ShapeError(
                "unique: for zero-sized input with nonzero size argument, fill_value must be specified"
            )
        values, first, inverse, counts = _unique_sized(rows, equal_nan, size, fill_value)
    if not flat:
        values = shapes.move_batch_axis(values, 0, axis)
    if flat:
        inverse = shapes.reshape(inverse, ar.aval.shape)
    results = [
        values,
        *[r for r, asked in ((first, return_index), (inverse, return_inverse), (counts, return_counts)) if asked],
    ]
    return results[0] if len(results) == 1 else tuple(results)


def _unique_known(rows: Any, known: np.ndarray, flat: bool, axis: int, equal_nan: bool) -> tuple[Any, ...]:
    """By NumPy; the values are read by index, so that derivatives flow."""
    if flat:
        known = known.reshape(-1)
        if known.dtype.kind == "V":
            known = known.astype(np.float32)
    _, first, inverse, counts = np.unique(known, True, True, True, None if flat else axis, equal_nan=equal_nan)
    return read(rows, first), _index(first), _index(np.reshape(inverse, -1)), _index(counts)


def _unique_sized(rows: Any, equal_nan: bool, size: int, fill_value: Any) -> tuple[Any, ...]:
    n = rows.aval.shape[0]
    index = dtypes.default_int()
    if n == 0:
        empty = shapes.full((size,), 0, index)
        fill = ops.convert_element_type(0 if fill_value is None else fill_value, rows.aval.dtype)
        values = shapes.broadcast_in_dim(fill, (size, *rows.aval.shape[1:]), ())
        return values, empty, shapes.full((0,), 0, index), empty
    columns = shapes.reshape(rows, (n, rows.aval.size // n))
    width = columns.aval.shape[1]
    keys = [shapes.reshape(shapes.slice_in_dim(columns, k, k + 1, axis=1), (n,)) for k in range(width)]
    order = ops.argsort_p.bind1(*keys, dimension=0) if keys else ops.iota(np.int32, n)
    ordered = read(columns, order, mode="promise_in_bounds")
    head, tail = shapes.slice_in_dim(ordered, 0, n - 1), shapes.slice_in_dim(ordered, 1, n)
    differs = ops.ne(head, tail)
    if equal_nan and dtypes.is_inexact(rows.aval.dtype):
        both = ops.bitwise_and(ops.ne(head, head), ops.ne(tail, tail))
        differs = ops.bitwise_and(differs, ops.bitwise_not(both))
    starts = shapes.concatenate([shapes.full((1,), True), ops.reduce_or_p.bind1(differs, axes=(1,))], 0)
    (where,) = nonzero(starts, size=size, fill_value=n)
    position = ops.min(where, shapes.full_like_aval(where.aval, n - 1))
    number = ops.sub(ops.reduce_sum_p.bind1(ops.convert_element_type(starts, index), axes=(0,)), index.type(1))
    filled = ops.gt(ops.iota(index, size), shapes.broadcast_in_dim(number, (size,), ()))
    order = ops.convert_element_type(order, index)
    first = read(order, position, mode="promise_in_bounds")
    smallest = shapes.broadcast_in_dim(shapes.slice_in_dim(order, 0, 1), (size,), (0,))
    first = ops.select(filled, smallest, first)
    values = read(rows, first, mode="promise_in_bounds")
    if fill_value is not None:
        fill = ops.convert_element_type(as_operand(fill_value), rows.aval.dtype)
        mask = shapes.broadcast_in_dim(filled, values.aval.shape, (0,))
        values = ops.select(mask, shapes.broadcast_to(fill, values.aval.shape), values)
    group = ops.sub(ops.cumsum(ops.convert_element_type(starts, index), 0), shapes.full((n,), 1, index))
    numbers = ops.ScatterDimensionNumbers((), (0,), (0,))
    inverse = ops.scatter(
        shapes.full((n,), 0, index), shapes.expand_dims(order, (1,)), group, numbers, unique_indices=True,
        mode="promise_in_bounds",
    )  # fmt: skip
    counts = ops.scatter_add(
        shapes.full((size,), 0, index), shapes.expand_dims(group, (1,)), shapes.full((n,), 1, index), numbers,
        indices_are_sorted=True, mode="drop",
    )  # fmt: skip
    return values, first, inverse, counts


def unique_values(x: Any, /, *, size: int | None = None, fill_value: Any = None) -> Any:
    """The distinct elements, sorted; NaNs differ from each other.

    See `purax.numpy.sets` for the arguments that its functions share.
    """
    return unique(x, equal_nan=False, size=size, fill_value=fill_value)


def unique_counts(x: Any, /, *, size: int | None = None, fill_value: Any = None) -> UniqueCountsResult:
    """The distinct elements and how often each occurs; NaNs differ from each other.

    See `purax.numpy.sets` for the arguments that its functions share.
    """
    return UniqueCountsResult(*unique(x, return_counts=True, equal_nan=False, size=size, fill_value=fill_value))


def unique_inverse(x: Any, /, *, size: int | None = None, fill_value: Any = None) -> UniqueInverseResult:
    """The distinct elements and, for each element, its position among them; NaNs differ from each other.

    See `purax.numpy.sets` for the arguments that its functions share.
    """
    return UniqueInverseResult(*unique(x, return_inverse=True, equal_nan=False, size=size, fill_value=fill_value))


def unique_all(x: Any, /, *, size: int | None = None, fill_value: Any = None) -> UniqueAllResult:
    """The distinct elements, first positions, inverse and counts; NaNs differ from each other.

    See `purax.numpy.sets` for the arguments that its functions share.
    """
    return UniqueAllResult(*unique(x, True, True, True, equal_nan=False, size=size, fill_value=fill_value))


# --- two sets -------------------------------------------------------------------------------------------------------------


def _flat_pair(name: str, ar1: Any, ar2: Any) -> list[Any]:
    check_arraylike(name, ar1, ar2)
    return [shapes.reshape(x, (x.aval.size,)) for x in promote_dtypes(ar1, ar2)]


def isin(
    element: Any, test_elements: Any, assume_unique: bool = False, invert: bool = False, *, method: str = "auto"
) -> Any:
    """Whether each element of the first array occurs in the second.

    Parameters
    ----------
    element, test_elements : array
    assume_unique : bool
        Accepted; changes nothing.
    invert : bool
        Whether it does not occur, instead.
    method : "auto", "compare_all", "binary_search" or "sort"
        How it is done; the result is the same.

    Returns
    -------
    boolean array of the shape of `element`

    Raises
    ------
    ValueError
        Another method.
    """
    check_arraylike("isin", element, test_elements)
    if method not in ("auto", "compare_all", "binary_search", "sort"):
        raise ValueError(
            f"{method=} is not implemented; options are 'compare_all', 'binary_search', 'sort', and 'auto'"
        )
    shape = as_operand(element).aval.shape
    x, tests = _flat_pair("isin", element, test_elements)
    n, m = x.aval.size, tests.aval.size
    if n == 0 or m == 0:
        return shapes.full(shape, bool(invert))
    if method == "compare_all" or (method == "auto" and m <= 16):
        pairs = ops.eq(shapes.broadcast_in_dim(x, (n, m), (0,)), shapes.broadcast_in_dim(tests, (n, m), (1,)))
        found = ops.reduce_or_p.bind1(pairs, axes=(1,))
    else:
        ordered = ops.sort_p.bind1(tests, dimension=0, is_stable=True, num_keys=1)
        place = searchsorted(ordered, x, method="sort" if method == "sort" else "scan")
        at = ops.min(place, shapes.full_like_aval(place.aval, m - 1))
        found = ops.eq(read(ordered, at, mode="promise_in_bounds"), x)
    return shapes.reshape(ops.bitwise_not(found) if invert else found, shape)


def union1d(ar1: Any, ar2: Any, *, size: int | None = None, fill_value: Any = None) -> Any:
    """The distinct elements of both arrays, `ar1` and `ar2`, sorted; `size` and `fill_value` as in `unique`."""
    x, y = _flat_pair("union1d", ar1, ar2)
    return unique(shapes.concatenate([x, y], 0), size=size, fill_value=fill_value)


def setdiff1d(
    ar1: Any, ar2: Any, assume_unique: bool = False, *, size: int | None = None, fill_value: Any = None
) -> Any:
    """The distinct elements of `ar1` that do not occur in `ar2`.

    Parameters
    ----------
    ar1, ar2 : array
    assume_unique : bool
        Keep the elements of `ar1` as they are, not sorted and not made distinct.
    size : int, optional
        Length of the result; needed while tracing.
    fill_value : scalar, optional
        What fills the result; default 0.

    Returns
    -------
    array[size]
    """
    check_arraylike("setdiff1d", ar1, ar2)
    x = as_operand(ar1)
    fill = 0 if fill_value is None else fill_value
    x = shapes.reshape(x, (x.aval.size,))
    if size is None:
        x = x if assume_unique else unique(x)
        return read(x, isin(x, ar2, invert=True))
    if x.aval.size == 0:
        return shapes.broadcast_in_dim(ops.convert_element_type(fill, x.aval.dtype), (size,), ())
    if assume_unique:
        keep = isin(x, ar2, invert=True)
    else:
        x, counts = unique(x, return_counts=True, size=x.aval.size)
        keep = ops.bitwise_and(isin(x, ar2, invert=True), ops.gt(counts, shapes.full_like_aval(counts.aval, 0)))
    return _kept(x, keep, size, fill)


def _kept(x: Any, keep: Any, size: int, fill: Any) -> Any:
    """Elements of `x` where `keep` holds, in an array of the given size."""
    n = x.aval.shape[0]
    (places,) = nonzero(keep, size=size, fill_value=n)
    mask = ops.ge(places, shapes.full_like_aval(places.aval, n))
    values = read(x, places, mode="clip")
    fill = ops.convert_element_type(as_operand(fill), x.aval.dtype)
    return ops.select(mask, shapes.broadcast_to(fill, (size,)), values)


def setxor1d(
    ar1: Any, ar2: Any, assume_unique: bool = False, *, size: int | None = None, fill_value: Any = None
) -> Any:
    """The distinct elements that occur in exactly one of two arrays, sorted; `size` and `fill_value` as in `unique`.

    Parameters
    ----------
    ar1, ar2 : array
    assume_unique : bool
        The elements of each array are known to be distinct.

    Returns
    -------
    array[size]
    """
    x, y = _flat_pair("setxor1d", ar1, ar2)
    if x.aval.size + y.aval.size == 0:
        return shapes.broadcast_to(ops.convert_element_type(as_operand(fill_value or 0), x.aval.dtype), (size or 0,))
    if size is None:
        if not assume_unique:
            x, y = unique(x), unique(y)
        values, counts = unique(shapes.concatenate([x, y], 0), return_counts=True)
        return read(values, ops.eq(counts, shapes.full_like_aval(counts.aval, 1)))
    both = shapes.concatenate([x, y], 0)
    n = both.aval.size
    values, inverse, counts = unique(both, return_inverse=True, return_counts=True, size=n)
    if assume_unique:
        keep = ops.eq(counts, shapes.full_like_aval(counts.aval, 1))
    else:
        split = x.aval.size
        in_x, in_y = (_occurs(inverse, start, end, n) for start, end in ((0, split), (split, n)))
        keep = ops.bitwise_xor(in_x, in_y)
    default = shapes.slice_in_dim(_kept(values, keep, 1, 0), 0, 1)
    fill = shapes.reshape(default, ()) if fill_value is None else fill_value
    return _kept(values, keep, size, fill)


def _occurs(inverse: Any, start: int, end: int, n: int) -> Any:
    """Which of the n groups an element between `start` and `end` belongs to."""
    part = shapes.slice_in_dim(inverse, start, end)
    numbers = ops.ScatterDimensionNumbers((), (0,), (0,))
    trues = shapes.full((end - start,), True)
    return ops.scatter(shapes.full((n,), False), shapes.expand_dims(part, (1,)), trues, numbers)


def intersect1d(
    ar1: Any, ar2: Any, assume_unique: bool = False, return_indices: bool = False, *, size: int | None = None,
    fill_value: Any = None,
) -> Any:  # fmt: skip
    """The distinct elements that occur in both arrays, sorted.

    Parameters
    ----------
    ar1, ar2 : array
    assume_unique : bool
        Accepted; changes nothing but speed elsewhere.
    return_indices : bool
        Also give the first position of each in both arrays.
    size : int, optional
        Length of the result; needed while tracing.
    fill_value : scalar, optional
        What fills the result where there are fewer; default: its first element.

    Returns
    -------
    array, or array and two index arrays (filled with the sizes of the arrays)
    """
    x, y = _flat_pair("intersect1d", ar1, ar2)
    n, m = x.aval.size, y.aval.size
    if size is None:
        _, first, second = np.intersect1d(
            _values_of(x, "intersect1d"), _values_of(y, "intersect1d"), return_indices=True
        )
        values = read(x, first)
        return (values, _index(first), _index(second)) if return_indices else values
    index = dtypes.default_int()
    if n == 0 or m == 0:
        fill = ops.convert_element_type(as_operand(0 if fill_value is None else fill_value), x.aval.dtype)
        values = shapes.broadcast_to(fill, (size,))
        return (values, shapes.full((size,), n, index), shapes.full((size,), m, index)) if return_indices else values
    values, first, counts = unique(x, return_index=True, return_counts=True, size=n)
    keep = ops.bitwise_and(isin(values, y), ops.gt(counts, shapes.full_like_aval(counts.aval, 0)))
    default = shapes.reshape(_kept(values, keep, 1, 0), ())
    result = _kept(values, keep, size, default if fill_value is None else fill_value)
    if not return_indices:
        return result
    found = _kept(values, keep, size, default)
    number = ops.reduce_sum_p.bind1(ops.convert_element_type(keep, index), axes=(0,))
    present = ops.lt(ops.iota(index, size), shapes.broadcast_in_dim(number, (size,), ()))
    order = ops.argsort_p.bind1(y, dimension=0)
    place = searchsorted(read(y, order, mode="promise_in_bounds"), found)
    in_second = ops.convert_element_type(read(order, place, mode="clip"), index)
    in_first = _kept(first, keep, size, n)
    return result, in_first, ops.select(present, in_second, shapes.full((size,), m, index))
