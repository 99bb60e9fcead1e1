# SPDX-License-Identifier: Apache-2.0
"""Sorting and searching: NaNs last, -0.0 equal to 0.0, complex numbers by real, then imaginary part; order of equals is kept.

Sorted arrays keep dtype and shape; positions are integers.

Parameters
----------
a : array
axis : int, optional
    None flattens the array.
kind, order : None
    NumPy's; anything else raises TypeError.
stable : bool
    The order of equals is kept in any case.
descending : bool
kth : int
    ShapeError if there are not so many elements.
dtype : integer dtype, optional
    Of positions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from purax import dtypes, errors
from purax.control.jit import jit
from purax.control.loop import fori_loop
from purax.core.aval import array_aval
from purax.core.hooks import hooks
from purax.core.trace import aval_of
from purax.numpy import _ops as ops
from purax.numpy.indexing import host_value, take
from purax.numpy.promotion import as_operand, check_arraylike, promote_dtypes
from purax.primitives import shape as shapes
from purax.primitives.sorting import integer_keys
from purax.runtime.array import wrap_host
from purax.runtime.transfer import HOST_LIMIT

__all__ = [
    "argpartition",
    "argsort",
    "lexsort",
    "partition",
    "searchsorted",
    "sort",
    "sort_complex",
]


def _along(name: str, a: Any, axis: int | None, kind: Any, order: Any) -> tuple[Any, int]:
    """The operand and its axis; None flattens."""
    check_arraylike(name, a)
    if kind is not None:
        raise TypeError(
            f"'kind' argument to {name} is not supported. Use stable=True or stable=False to specify sort stability."
        )
    if order is not None:
        raise TypeError(f"'order' argument to {name} is not supported.")
    a = as_operand(a)
    if axis is None:
        a, axis = shapes.reshape(a, (a.aval.size,)), 0
    return a, shapes.canonical_axis(axis, a.aval.ndim)


def sort(
    a: Any,
    axis: int | None = -1,
    *,
    kind: None = None,
    order: None = None,
    stable: bool = True,
    descending: bool = False,
) -> Any:
    """A sorted copy of `a`.

    Parameters
    ----------
    a : array
    axis : int or None
        None sorts the flattened array.
    kind, order : None
        Not supported.
    stable : bool
        Accepted; equal elements always keep their order.
    descending : bool
        Largest first.

    Returns
    -------
    array of the shape (flattened for axis None) and dtype of `a`
    """
    a, axis = _along("sort", a, axis, kind, order)
    result = ops.sort_p.bind1(a, dimension=axis, is_stable=bool(stable), num_keys=1)
    return ops.rev_p.bind1(result, dimensions=(axis,)) if descending else result


def argsort(
    a: Any, axis: int | None = -1, *, kind: None = None, order: None = None, stable: bool = True, descending: bool = False,
    dtype: Any = None,
) -> Any:  # fmt: skip
    """Indices that sort `a`, as integers of `dtype`; see `sort`."""
    a, axis = _along("argsort", a, axis, kind, order)
    places = _argsort(a, axis, descending)
    return places if dtype is None else ops.convert_element_type(places, dtypes.named(dtype))


def _argsort(a: Any, axis: int, descending: bool = False) -> Any:
    if not descending:
        return _as_default(ops.argsort_p.bind1(a, dimension=axis))
    # Sorting the reversed array and reversing the result keeps the order of equals.
    backwards = ops.argsort_p.bind1(ops.rev_p.bind1(a, dimensions=(axis,)), dimension=axis)
    places = ops.rev_p.bind1(backwards, dimensions=(axis,))
    last = shapes.full_like_aval(places.aval, max(a.aval.shape[axis] - 1, 0))
    return _as_default(ops.sub_p.bind1(last, places))


def _as_default(places: Any) -> Any:
    """Positions in the default integer dtype."""
    return ops.convert_element_type(places, dtypes.default_int())


def lexsort(keys: Any, axis: int = -1) -> Any:
    """Indices that sort by the last key, ties broken by the one before it, and so on.

    Parameters
    ----------
    keys : sequence of arrays of equal shape, or an array whose rows are the keys
    axis : int

    Returns
    -------
    integer array of the shape of one key

    Raises
    ------
    TypeError
        No keys.
    ShapeError
        Keys of different shapes.
    """
    rows = [as_operand(k) for k in (keys if isinstance(keys, (tuple, list)) else list(as_operand(keys)))]
    if not rows:
        raise TypeError("need sequence of keys with len > 0 in lexsort")
    if len({k.aval.shape for k in rows}) > 1:
        raise errors.ShapeError("all keys need to be the same shape")
    if rows[0].aval.ndim == 0:
        return hooks.as_array(np.zeros((), dtypes.default_int()))
    axis = shapes.canonical_axis(axis, rows[0].aval.ndim)
    return _as_default(ops.argsort_p.bind1(*rows[::-1], dimension=axis))


def _check_kth(name: str, a: Any, kth: int, axis: int) -> tuple[Any, int]:
    check_arraylike(name, a)
    a = as_operand(a)
    axis = shapes.canonical_axis(axis, a.aval.ndim)
    shapes.canonical_axis(kth, a.aval.shape[axis])
    return a, axis


def partition(a: Any, kth: int, axis: int = -1) -> Any:
    """A copy of `a` in which the `kth` smallest element is in its sorted place, smaller ones before it, larger behind.

    The copy is sorted as a whole.

    See `purax.numpy.sorting` for the arguments that its functions share.
    """
    a, axis = _check_kth("partition", a, kth, axis)
    return ops.sort_p.bind1(a, dimension=axis, is_stable=True, num_keys=1)


def argpartition(a: Any, kth: int, axis: int = -1) -> Any:
    """Indices that partition `a`; see `partition`."""
    a, axis = _check_kth("argpartition", a, kth, axis)
    return _argsort(a, axis)


def sort_complex(a: Any) -> Any:
    """The sorted array as complex numbers."""
    check_arraylike("sort_complex", a)
    result = sort(a)
    return ops.convert_element_type(result, dtypes.to_complex(result.aval.dtype))


# --- searching -----------------------------------------------------------------------------------------------------------


def searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None, *, method: str = "scan") -> Any:
    """Where to insert `v` into the sorted array `a` to keep it sorted.

    Parameters
    ----------
    a : array with one axis, sorted (by `sorter`, if given)
    v : array
    side : "left" or "right"
        Before or behind elements equal to `v`.
    sorter : integer array, optional
        Indices that sort `a`.
    method : "scan", "scan_unrolled", "sort" or "compare_all"
        Binary search in a loop or unrolled, sorting both, or comparing all pairs; the result is the same.

    Returns
    -------
    int32[...]
        Of the shape of `v`.

    Raises
    ------
    ShapeError
        `a` has not one axis.
    ValueError
        Another side or method.

    Examples
    --------
    >>> pnp.searchsorted(pnp.array([1, 2, 2, 3]), 2, side="right").item()
    3
    """
    if sorter is not None:
        check_arraylike("searchsorted", a, v, sorter)
    check_arraylike("searchsorted", a, v)
    if side not in ("left", "right"):
        raise ValueError(f"invalid argument side={side!r}, expected 'left' or 'right'")
    methods = ["compare_all", "scan", "scan_unrolled", "sort"]
    if method not in methods:
        raise ValueError(f"invalid argument method={method!r}, expected one of {methods}")
    if aval_of(a).ndim != 1:
        raise errors.ShapeError("a should be 1-dimensional")
    a, v = promote_dtypes(a, v)
    if sorter is not None:
        a = take(a, as_operand(sorter))
    known, wanted = host_value(a), host_value(v)
    if (
        known is not None
        and wanted is not None
        and max(a.aval.size, v.aval.size) <= HOST_LIMIT
        and known.dtype.kind != "V"
    ):
        found = np.asarray(np.searchsorted(known, wanted, "left" if side == "left" else "right")).astype(np.int32)
        return wrap_host(array_aval(found.shape, found.dtype), found)
    return _searchsorted(a, v, side=side, method=method)


@partial(jit, static_argnames=("side", "method"))
def _searchsorted(a: Any, v: Any, *, side: str, method: str) -> Any:
    size, shape = a.aval.shape[0], v.aval.shape
    if size == 0 or v.aval.size == 0:
        return shapes.full(shape, 0, np.int32)
    keys = integer_keys(a)
    wanted = [shapes.reshape(k, (v.aval.size,)) for k in integer_keys(v)]
    ways: dict[str, Callable[..., Any]] = {"compare_all": _by_comparing, "sort": _by_sorting}
    search = ways.get(method, partial(_by_halving, unroll=method != "scan"))
    return ops.convert_element_type(shapes.reshape(search(keys, wanted, side == "right"), shape), np.int32)


def _precedes(keys: Sequence[Any], wanted: Sequence[Any], inclusive: bool) -> Any:
    """Whether keys are smaller than (or, `inclusive`, equal to) what is wanted, the first key deciding."""
    result = ops.le(keys[-1], wanted[-1]) if inclusive else ops.lt(keys[-1], wanted[-1])
    for key, other in zip(reversed(keys[:-1]), reversed(wanted[:-1]), strict=True):
        result = ops.bitwise_or(ops.lt(key, other), ops.bitwise_and(ops.eq(key, other), result))
    return result


def _by_halving(keys: Sequence[Any], wanted: Sequence[Any], inclusive: bool, unroll: bool) -> Any:
    """Set the bits of the position from the highest: a bit stays if the element before that position precedes."""
    size, count = keys[0].aval.shape[0], wanted[0].aval.shape[0]
    levels = size.bit_length()

    def step(k: Any, position: Any) -> Any:
        bit = ops.shift_left(np.int32(1), ops.sub(np.int32(levels - 1), k))
        candidate = ops.add(position, bit)
        last = ops.sub(ops.min(candidate, np.int32(size)), np.int32(1))
        before = [take(key, last, mode="promise_in_bounds") for key in keys]
        fits = ops.bitwise_and(ops.le(candidate, np.int32(size)), _precedes(before, wanted, inclusive))
        return ops.select(fits, candidate, position)

    position = shapes.full((count,), 0, np.int32)
    if not unroll:
        return fori_loop(np.int32(0), np.int32(levels), step, position)
    for k in range(levels):
        position = step(np.int32(k), position)
    return position


def _by_comparing(keys: Sequence[Any], wanted: Sequence[Any], inclusive: bool) -> Any:
    """Count the elements that precede."""
    shape = (wanted[0].aval.shape[0], keys[0].aval.shape[0])
    columns = [shapes.broadcast_in_dim(k, shape, (1,)) for k in keys]
    rows = [shapes.broadcast_in_dim(w, shape, (0,)) for w in wanted]
    hits = ops.convert_element_type(_precedes(columns, rows, inclusive), np.int32)
    return ops.reduce_sum_p.bind1(hits, axes=(1,))


def _by_sorting(keys: Sequence[Any], wanted: Sequence[Any], inclusive: bool) -> Any:
    """Rank each wanted value among all elements, less its rank among the wanted ones."""
    size, count = keys[0].aval.shape[0], wanted[0].aval.shape[0]
    pairs = [(k, w) if inclusive else (w, k) for k, w in zip(keys, wanted, strict=True)]
    joined = _rank([shapes.concatenate(pair, 0) for pair in pairs])
    start = size if inclusive else 0
    return ops.sub(shapes.slice_in_dim(joined, start, start + count), _rank(list(wanted)))


def _rank(keys: list[Any]) -> Any:
    """Position of each element in the sorted array."""
    order = ops.argsort_p.bind1(*keys, dimension=0)
    n = order.aval.shape[0]
    numbers = ops.ScatterDimensionNumbers((), (0,), (0,))
    return ops.scatter(
        shapes.full((n,), 0, np.int32), shapes.expand_dims(order, (1,)), ops.iota(np.int32, n), numbers, unique_indices=True,
        mode="promise_in_bounds",
    )  # fmt: skip
