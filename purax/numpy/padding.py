# SPDX-License-Identifier: Apache-2.0
"""`pad` in all its modes, and functions that lengthen or shorten: insert, delete, trim_zeros."""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from purax import dtypes, errors
from purax.core.aval import unwrapped
from purax.core.trace import Tracer
from purax.numpy import _ops as ops
from purax.numpy.creation import linspace
from purax.numpy.elementwise import rint
from purax.numpy.promotion import as_operand, broadcast_to_shape, check_arraylike, convert
from purax.numpy.quantile import median
from purax.numpy.reduction import max, mean, min, reduced_axes
from purax.numpy.shape import apply_along_axis, ravel, take_rows

__all__ = ["delete", "insert", "pad", "trim_zeros"]

_KEYWORDS: dict[str, tuple[str, ...]] = {
    "constant": ("constant_values",), "edge": (), "empty": (), "linear_ramp": ("end_values",), "maximum": ("stat_length",),
    "mean": ("stat_length",), "median": ("stat_length",), "minimum": ("stat_length",), "reflect": ("reflect_type",),
    "symmetric": ("reflect_type",), "wrap": (),
}  # fmt: skip


def pad(array: Any, pad_width: Any, mode: str | Callable[..., Any] = "constant", **kwargs: Any) -> Any:
    """Lengthen an array at the ends of its axes.

    Parameters
    ----------
    array : array
    pad_width : int, (before, after), one pair per axis, or dict from axis to these
        Numbers of elements, not negative.
    mode : str or function
        "constant" (`constant_values`, default 0), "edge", "linear_ramp" (`end_values`), "maximum", "mean", "median", "minimum"
        (`stat_length`), "reflect", "symmetric" (`reflect_type`: "even" or "odd"), "wrap", "empty" (zeros), or a function
        ``(vector, (before, after), axis, kwargs) -> vector`` of vectors that are padded with zeros.
    kwargs
        What the mode takes.

    Returns
    -------
    array of the same dtype

    Raises
    ------
    NotImplementedError
        An unknown mode.
    ValueError
        Negative numbers, keywords that the mode does not take, or an empty axis that has nothing to repeat.
    """
    check_arraylike("pad", array)
    x = as_operand(array)
    widths = _pairs("pad_width", pad_width, x.aval.ndim, operator.index)
    if any(n < 0 for pair in widths for n in pair):
        raise ValueError("index can't contain negative values")
    if callable(mode):
        return _pad_by_function(x, widths, mode, kwargs)
    if mode not in _KEYWORDS:
        raise NotImplementedError(f"mode '{mode}' is not supported: use one of {', '.join(_KEYWORDS)}, or a function")
    unknown = set(kwargs) - set(_KEYWORDS[mode])
    if unknown:
        raise ValueError(f"unsupported keyword arguments for mode '{mode}': {sorted(unknown)}")
    if mode == "constant":
        return _pad_constant(x, widths, kwargs.get("constant_values", 0))
    if mode == "empty":
        return _pad_constant(x, widths, 0)
    if mode in ("reflect", "symmetric", "wrap", "edge"):
        kind = kwargs.get("reflect_type", "even")
        if kind not in ("even", "odd"):
            raise ValueError(f"reflect_type must be 'even' or 'odd', got {kind!r}")
        for axis, (before, after) in enumerate(widths):
            if before or after:
                x = _mirror(x, axis, before, after, mode, kind == "odd")
        return x
    if mode == "linear_ramp":
        ends = _pairs("end_values", kwargs.get("end_values", 0), x.aval.ndim)
        for axis, ((before, after), (low, high)) in enumerate(zip(widths, ends, strict=True)):
            x = _ramp(x, axis, before, after, low, high)
        return x
    lengths = kwargs.get("stat_length")
    stats = (
        [(None, None)] * x.aval.ndim if lengths is None else _pairs("stat_length", lengths, x.aval.ndim, operator.index)
    )
    for axis, (width, length) in enumerate(zip(widths, stats, strict=True)):
        x = _statistic(x, axis, width, length, mode)
    return x


def _pairs(name: str, value: Any, count: int, convert: Callable[[Any], Any] = lambda x: x) -> list[tuple[Any, Any]]:
    """One (before, after) per axis from the forms that NumPy takes."""
    if isinstance(value, dict):
        table = [(convert(0), convert(0))] * count
        for axis, item in value.items():
            (place,) = reduced_axes(operator.index(axis), count)
            (table[place],) = _pairs(name, item, 1, convert)
        return table
    if hasattr(value, "aval") and value.aval.ndim:
        value = value.tolist() if not isinstance(value, Tracer) else list(value)
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if not isinstance(value, (list, tuple)):
        return [(convert(value), convert(value))] * count
    if len(value) == 1 and isinstance(value[0], (list, tuple, np.ndarray)):
        first = list(value[0])
        return [(convert(first[0]), convert(first[-1]))] * count
    if len(value) == 1:
        return [(convert(value[0]), convert(value[0]))] * count
    if len(value) == 2 and not any(isinstance(v, (list, tuple, np.ndarray)) for v in value):
        return [(convert(value[0]), convert(value[1]))] * count
    if len(value) != count:
        raise ValueError(f"{name} with {len(value)} entries does not fit an array with {count} axes")
    table = []
    for item in value:
        ends = list(item) if isinstance(item, (list, tuple, np.ndarray)) or np.ndim(item) else [item]
        if len(ends) not in (1, 2):
            raise ValueError(f"{name} takes pairs (before, after), got {item!r}")
        table.append((convert(ends[0]), convert(ends[-1])))
    return table


def _pad_constant(x: Any, widths: list[tuple[int, int]], values: Any) -> Any:
    dtype, weak = x.aval.dtype, x.aval.weak_type

    def fill(value: Any) -> Any:
        return convert(ops.reshape(ops.convert_element_type(as_operand(value), dtype), ()), dtype, weak)

    if not isinstance(values, (list, tuple)) and np.ndim(values) == 0:
        return ops.pad(x, fill(values), [(before, after, 0) for before, after in widths])
    for axis, ((before, after), (low, high)) in enumerate(
        zip(widths, _pairs("constant_values", values, len(widths)), strict=True)
    ):
        nothing = [(0, 0, 0)] * x.aval.ndim
        for value, row in ((low, (before, 0, 0)), (high, (0, after, 0))):
            if row != (0, 0, 0):
                x = ops.pad(x, fill(value), [*nothing[:axis], row, *nothing[axis + 1 :]])
    return x


def _mirror(x: Any, axis: int, before: int, after: int, mode: str, odd: bool) -> Any:
    """Pad one axis with elements of the array itself."""
    size = x.aval.shape[axis]
    if size == 0:
        raise ValueError(f"can't extend empty axis {axis} using modes other than 'constant' or 'empty'")
    if odd and mode != "wrap" and mode != "edge":
        return _mirror_odd(x, axis, before, after, mode)
    limit = {"edge": 1, "reflect": size - 1, "symmetric": size, "wrap": size}[mode]
    if mode != "edge" and (before > limit or after > limit):
        places = np.pad(np.arange(size), (before, after), mode=mode)  # type: ignore[call-overload]
        return take_rows(x, places, axis)

    def part(start: int, stop: int) -> Any:
        return ops.slice_in_dim(x, start, stop, axis=axis)

    def repeated(row: Any, count: int) -> Any:
        return ops.broadcast_in_dim(
            row, [count if i == axis else n for i, n in enumerate(x.aval.shape)], range(x.aval.ndim)
        )

    if mode == "edge":
        front, back = repeated(part(0, 1), before), repeated(part(size - 1, size), after)
    elif mode == "wrap":
        front, back = part(size - before, size), part(0, after)
    else:
        skip = int(mode == "reflect")
        front = ops.rev(part(skip, before + skip), (axis,))
        back = ops.rev(part(size - after - skip, size - skip), (axis,))
    return ops.concatenate([p for p in (front, x, back) if p.aval.shape[axis]], axis)


def _mirror_odd(x: Any, axis: int, before: int, after: int, mode: str) -> Any:
    """Mirrored about the value at the edge as well; by pieces no longer than what there is."""
    skip = int(mode == "reflect")
    while before or after:
        size = x.aval.shape[axis]
        longest = size - skip if size > 1 or not skip else 1
        front, back = builtins.min(before, longest), builtins.min(after, longest)
        if size == 1 and skip:
            parts = [_edge(x, axis, 0, front), x, _edge(x, axis, 0, back)]
        else:
            first = _reflected(x, axis, skip, front + skip, 0)
            parts = [first, x, _reflected(x, axis, size - back - skip, size - skip, size - 1)]
        x = ops.concatenate([p for p in parts if p.aval.shape[axis]], axis)
        before, after = before - front, after - back
    return x


def _edge(x: Any, axis: int, place: int, count: int) -> Any:
    """One row, repeated."""
    row = ops.slice_in_dim(x, place, place + 1, axis=axis)
    return ops.broadcast_in_dim(
        row, [count if i == axis else n for i, n in enumerate(x.aval.shape)], range(x.aval.ndim)
    )


def _reflected(x: Any, axis: int, start: int, stop: int, corner: int) -> Any:
    """Rows in reverse order, mirrored about the value of the row `corner`."""
    base = _edge(x, axis, corner, stop - start)
    return ops.sub(ops.add(base, base), ops.rev(ops.slice_in_dim(x, start, stop, axis=axis), (axis,)))


def _ramp(x: Any, axis: int, before: int, after: int, low: Any, high: Any) -> Any:
    size = x.aval.shape[axis]
    parts = [x]
    shape = tuple([n for i, n in enumerate(x.aval.shape) if i != axis])
    for count, value, front in ((before, low, True), (after, high, False)):
        if count == 0:
            continue
        corner = ops.slice_in_dim(x, 0, 1, axis=axis) if front else ops.slice_in_dim(x, size - 1, size, axis=axis)
        corner = ops.squeeze(corner, (axis,))
        end = broadcast_to_shape(ops.convert_element_type(as_operand(value), x.aval.dtype), shape)
        steps = linspace(end, corner, count, endpoint=False, dtype=dtypes.to_inexact(x.aval.dtype), axis=axis)
        if not dtypes.is_inexact(x.aval.dtype):
            steps = ops.floor(steps)
        steps = ops.convert_element_type(steps, x.aval.dtype)
        parts = [steps, *parts] if front else [*parts, ops.rev(steps, (axis,))]
    return ops.concatenate(parts, axis)


_STATISTICS: dict[str, Callable[..., Any]] = {"maximum": max, "minimum": min, "mean": mean, "median": median}


def _statistic(x: Any, axis: int, width: tuple[int, int], length: tuple[Any, Any], mode: str) -> Any:
    size = x.aval.shape[axis]
    parts = [x]
    for count, chosen, front in ((width[0], length[0], True), (width[1], length[1], False)):
        if count == 0:
            continue
        used = size if chosen is None else builtins.min(int(chosen), size)
        if used == 0:
            raise ValueError("stat_length of 0 yields no value for padding")
        used = int(used)
        piece = ops.slice_in_dim(x, 0, used, axis=axis) if front else ops.slice_in_dim(x, size - used, size, axis=axis)
        value = _STATISTICS[mode](piece, axis=axis, keepdims=True)
        if dtypes.is_integer(x.aval.dtype) and dtypes.is_inexact(value.aval.dtype):
            value = rint(value)
        value = ops.convert_element_type(value, x.aval.dtype)
        value = ops.broadcast_in_dim(
            value, [count if i == axis else n for i, n in enumerate(x.aval.shape)], range(x.aval.ndim)
        )
        parts = [value, *parts] if front else [*parts, value]
    return ops.concatenate(parts, axis)


def _pad_by_function(
    x: Any, widths: list[tuple[int, int]], function: Callable[..., Any], kwargs: dict[str, Any]
) -> Any:
    x = _pad_constant(x, widths, 0)
    for axis, pair in enumerate(widths):
        x = apply_along_axis(function, axis, x, pair, axis, kwargs)
    return x


# ---- insert, delete, trim


def insert(arr: Any, obj: Any, values: Any, axis: int | None = None) -> Any:
    """`arr` with `values`, converted to its dtype, put in before the places `obj` of an axis (or of the flattened array).

    Parameters
    ----------
    arr : array
    obj : int, slice, int array, boolean mask
    values : array or scalar
    axis : int, optional

    Returns
    -------
    array of the dtype of `arr`

    Raises
    ------
    ValueError
        Places with more than one axis.
    IndexOutOfBoundsError
        A place outside.
    """
    check_arraylike("insert", arr, 0 if isinstance(obj, slice) else obj, values)
    a, obj, values = as_operand(arr), unwrapped(obj), as_operand(values)
    if axis is None:
        a, axis = ravel(a), 0
    (axis,) = reduced_axes(operator.index(axis), a.aval.ndim)
    size = a.aval.shape[axis]
    single = False
    if isinstance(obj, slice):
        places: Any = np.arange(*obj.indices(size))
    elif isinstance(obj, Tracer):
        return _insert_traced(a, obj, values, axis)
    else:
        places = np.asarray(obj)
        single = places.ndim == 0
        if places.ndim > 1:
            raise ValueError("insert() takes indices with at most one axis")
        if places.dtype == bool:
            places = np.flatnonzero(places)
        if places.size and (places.min() < -size or places.max() > size):
            raise errors.IndexOutOfBoundsError(
                f"insert: index {places} is out of bounds for axis {axis} with size {size}"
            )
        places = np.where(places < 0, places + size, places)
    values = ops.convert_element_type(values, a.aval.dtype)
    if single:
        # The axis of `values` lies in front, so that a vector fills the place of one row.
        values = ops.broadcast_to_rank(values, a.aval.ndim) if values.aval.ndim < a.aval.ndim else values
        values = ops.transpose(values, (*range(1, axis + 1), 0, *range(axis + 1, a.aval.ndim)))
        places = np.full(values.aval.shape[axis], int(places))
    else:
        values = ops.broadcast_to_rank(values, a.aval.ndim)
        if places.size == 1 and values.aval.shape[axis] != 1:
            places = np.full(values.aval.shape[axis], places.reshape(-1)[0])
    count = places.size
    shape = tuple([count if i == axis else n for i, n in enumerate(a.aval.shape)])
    values = broadcast_to_shape(values, shape)
    order = np.argsort(places, kind="stable")
    new = places[order] + np.arange(count)
    source = np.zeros(size + count, np.int64)
    fresh = np.zeros(size + count, bool)
    fresh[new] = True
    source[new] = size + order
    source[~fresh] = np.arange(size)
    return take_rows(ops.concatenate([a, values], axis), source, axis)


def _insert_traced(a: Any, obj: Any, values: Any, axis: int) -> Any:
    """Places that are known only when the program runs: sort the old and new elements by place."""
    size = a.aval.shape[axis]
    integer = dtypes.default_int()
    places = ops.convert_element_type(obj, integer)
    single = places.aval.ndim == 0
    places = ops.select_n(
        ops.lt(places, ops.full_like(places, 0)), places, ops.add(places, ops.full_like(places, size))
    )
    values = ops.convert_element_type(values, a.aval.dtype)
    values = ops.broadcast_to_rank(values, a.aval.ndim) if values.aval.ndim < a.aval.ndim else values
    if single:
        values = ops.transpose(values, (*range(1, axis + 1), 0, *range(axis + 1, a.aval.ndim)))
    count = values.aval.shape[axis] if single or places.aval.size == 1 else places.aval.size
    places = broadcast_to_shape(ops.reshape(places, (places.aval.size,)), (count,))
    values = broadcast_to_shape(values, tuple([count if i == axis else n for i, n in enumerate(a.aval.shape)]))
    # New elements at place p come before the old element p: keys 2 p and 2 p + 1.
    two = ops.full((size,), 2, integer)
    old = ops.add(ops.mul(ops.iota(integer, size), two), ops.full((size,), 1, integer))
    new = ops.mul(places, ops.full((count,), 2, integer))
    keys = ops.concatenate([old, new], 0)
    order = ops.sort((keys, ops.iota(integer, size + count)), dimension=0, num_keys=1)[1]
    return take_rows(ops.concatenate([a, values], axis), order, axis)


def delete(arr: Any, obj: Any, axis: int | None = None, *, assume_unique_indices: bool = False) -> Any:
    """`arr` without the places `obj` of an axis (or of the flattened array).

    Parameters
    ----------
    arr : array
    obj : int, slice, int array, boolean mask
        Known, or traced: then a scalar, or with `assume_unique_indices` an array, since it makes the shape.
    axis : int, optional
    assume_unique_indices : bool
        Promise that no place is named twice.

    Returns
    -------
    array of the dtype of `arr`

    Raises
    ------
    ValueError
        A mask of another size, or places that are not integers.
    IndexOutOfBoundsError
        A known place outside.
    """
    check_arraylike("delete", arr)
    a, obj = as_operand(arr), unwrapped(obj)
    if axis is None:
        a, axis = ravel(a), 0
    (axis,) = reduced_axes(operator.index(axis), a.aval.ndim)
    size = a.aval.shape[axis]
    if isinstance(obj, Tracer):
        if obj.aval.ndim and not assume_unique_indices:
            obj._known(
                errors.ConcretizationTypeError, "places to delete", "give assume_unique_indices=True, or known places"
            )
        return _delete_traced(a, obj, axis, size)
    kept = np.ones(size, bool)
    if isinstance(obj, slice):
        kept[obj] = False
    else:
        check_arraylike("delete", obj)
        places = np.asarray(obj)
        if places.dtype == bool:
            if places.shape != (size,):
                raise ValueError(
                    f"a boolean mask of places to delete has the shape of the axis, ({size},); got {places.shape}"
                )
            kept &= ~places
        else:
            if places.dtype.kind not in "iu" and places.size:
                raise ValueError(f"delete takes integer places, got dtype {places.dtype}")
            if places.size and (places.min() < -size or places.max() >= size):
                raise errors.IndexOutOfBoundsError(
                    f"delete: index {places} is out of bounds for axis {axis} with size {size}"
                )
            kept[places.astype(np.int64)] = False
    return take_rows(a, np.flatnonzero(kept), axis)


def _delete_traced(a: Any, obj: Any, axis: int, size: int) -> Any:
    """Each kept place counts how many deleted ones lie at or before it."""
    integer = dtypes.default_int()
    if dtypes.is_bool(obj.aval.dtype):
        raise errors.DTypeError(
            "delete takes traced places as integers, not as a boolean mask: its sum would be part of the shape"
        )
    places = ops.reshape(ops.convert_element_type(obj, integer), (obj.aval.size,))
    places = ops.select_n(
        ops.lt(places, ops.full_like(places, 0)), places, ops.add(places, ops.full_like(places, size))
    )
    count = places.aval.size
    (places,) = ops.sort((places,), dimension=0) if count > 1 else (places,)
    # The i-th deleted place has i deleted ones before it: from result place (it - i) on, one more is skipped.
    starts = ops.sub(places, ops.iota(integer, count))
    result = ops.iota(integer, builtins.max(size - count, 0))
    shape = (result.aval.size, count)
    past = ops.ge(ops.broadcast_in_dim(result, shape, (0,)), ops.broadcast_in_dim(starts, shape, (1,)))
    skipped = ops.reduce_sum(ops.convert_element_type(past, integer), (1,))
    return take_rows(a, ops.add(result, skipped), axis)


def trim_zeros(filt: Any, trim: str = "fb", axis: Any = None) -> Any:
    """`filt` without the zeros at the front ("f") and back ("b") of its axes; the array must be known, since it makes the shape.

    Parameters
    ----------
    filt : array
    trim : str
    axis : int or sequence of int, optional
        All by default.

    Returns
    -------
    array of the dtype of `filt`
    """
    check_arraylike("trim_zeros", filt)
    x = as_operand(filt)
    if isinstance(x, Tracer):
        x._known(errors.ConcretizationTypeError, "the shape of trimmed zeros", "trim it outside of the transformation")
    nonzero = np.argwhere(np.asarray(x))
    axes = reduced_axes(axis, x.aval.ndim)
    trim = trim.lower()
    for i in axes:
        size = x.aval.shape[i]
        if not len(nonzero):
            first, last = (0, 0) if trim else (0, size)
        else:
            first = int(nonzero[:, i].min()) if "f" in trim else 0
            last = int(nonzero[:, i].max()) + 1 if "b" in trim else size
        x = ops.slice_in_dim(x, first, last, axis=i)
    return x
