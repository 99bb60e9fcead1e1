# SPDX-License-Identifier: Apache-2.0
"""Reading by index: `x[index]`, `take`, `take_along_axis`.

Python and NumPy integers outside an array raise IndexError, when run at once as under `jit`. Index arrays on devices are not
waited for: `x[index]` moves those outside to the border, `take` gives the fill value, updates are dropped; `mode=` decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from purax import config, dtypes, errors
from purax.control.check import reporting
from purax.core.aval import array_aval
from purax.core.dims import Dim
from purax.core.hooks import hooks
from purax.core.trace import aval_of
from purax.numpy import _ops as ops
from purax.numpy.index_rules import Layout, Part, dynamic, is_basic, parse
from purax.numpy.promotion import as_operand, check_arraylike, common_shape, refuse, spread
from purax.pipeline import debug
from purax.primitives import bounds, slicing
from purax.primitives import shape as shapes
from purax.primitives.gather import GatherDimensionNumbers, GatherScatterMode, take_along
from purax.runtime import client
from purax.runtime.array import Array, wrap_host
from purax.runtime.transfer import HOST_LIMIT

__all__ = [
    "getitem",
    "take",
    "take_along_axis",
]

_ndarray = np.ndarray


# --- x[index] ---------------------------------------------------------------------------------------------------------


def getitem(x: Any, index: Any) -> Any:
    """`x[index]` with NumPy's rules.

    Parameters
    ----------
    x : array
    index : int, slice, None, Ellipsis, integer or boolean array, or a tuple of these
        Lists must be made arrays or tuples first. Boolean arrays must be known, not traced.

    Returns
    -------
    array of the dtype of `x`

    Raises
    ------
    IndexOutOfBoundsError
        A Python or NumPy integer is outside the array.
    NonConcreteBooleanIndexError
        A mask is traced.
    TypeError, IndexError
        The index is of no valid kind, or has too many parts.
    """
    if type(x) is Array and x._placement is None:
        value = x._np
        if value is None and x._buf is not None:
            value = _window_of(x)
        if value is not None:
            found = _read_host(x, value, index)
            if found is not None:
                return found
    return read(x, index)


def _read_host(x: Any, value: np.ndarray, index: Any) -> Any:
    """Values on the host: a view for a basic index, a small copy for known index arrays; None where that is not so simple."""
    aval = x.aval
    if type(aval.dtype) is dtypes.KeyDtype:  # rows of words, whose last axes are not to be indexed
        known = host_index(aval.shape, index, clip=True, limit=HOST_LIMIT)
        if known is None or config.current().debug_key_reuse:  # which keeps account of operations
            return None
        found = value[known]
        return wrap_host(aval.update(shape=found.shape[: found.ndim - len(aval.dtype.key_shape)]), found)
    if type(index) is not int and not is_basic(index):
        index = host_index(aval.shape, index, clip=True, limit=HOST_LIMIT)
        if index is None:
            return None
    try:
        found = value[index]
    except IndexError:
        return None  # the other way words the message
    if type(found) is not _ndarray:
        found = value[(*index, ...) if type(index) is tuple else (index, ...)]
    return wrap_host(array_aval(found.shape, aval.dtype, aval.weak_type), found)


def _window_of(x: Any) -> np.ndarray | None:
    """The elements of an array that is computed and lies in the memory of one CPU, without a copy."""
    if client.is_cpu_default() and x._buf.is_ready():
        return x.host
    return None


def host_index(sizes: tuple[int, ...], index: Any, clip: bool, limit: int) -> Any:
    """An index of ints, slices and integer Arrays that are on the host, as one for NumPy; None for any other.

    Array indices outside are moved inside if `clip`, else the answer is None. So it is where more than `limit` elements are
    selected, and where a debug setting wants to look.
    """
    found: list[Any] = []
    axis, count, rest = 0, 1, 1
    ndim = len(sizes)
    for e in index if type(index) is tuple else (index,):
        kind = type(e)
        if e is None:
            found.append(e)
            continue
        if axis == ndim:
            return None
        size = sizes[axis]
        axis += 1
        if kind is Array:
            known = e._np
            if known is None or e._placement is not None or not size or known.dtype.kind not in "iu":
                return None
            if known.ndim == 0:
                place: Any = int(known)
                place += size if place < 0 else 0
                if not 0 <= place < size:
                    if not clip:
                        return None
                    place = 0 if place < 0 else size - 1
            else:
                place, inside = _moved_inside(known, size)
                if not (clip or inside):
                    return None
                count = max(count, known.size)
            found.append(place)
        elif kind is _ndarray and e.dtype.kind in "iu" and e.ndim and size:
            place, inside = _moved_inside(e, size)
            if not inside:
                return None
            count = max(count, e.size)
            found.append(place)
        elif kind is int:
            if not -size <= e < size:
                return None
            found.append(e)
        elif kind is slice and is_basic(e):
            found.append(e)
            rest *= size
        else:
            return None
    for size in sizes[axis:]:
        rest *= size
    settings = config.current()
    looked_at = settings.debug_bounds or settings.debug_nans or settings.debug_infs or settings.automatic_checks
    if count * rest > limit or looked_at or reporting.get():
        return None
    return tuple(found)


def _moved_inside(known: np.ndarray, size: int) -> tuple[np.ndarray, bool]:
    """Index values, negative ones counted from the end, moved inside an axis, and whether none was outside."""
    if not known.size:
        return known, True
    low, high = known.min(), known.max()
    if low >= 0 and high < size:
        return known, True
    known = known.astype(np.int64)
    if low < 0:
        known = np.where(known < 0, known + size, known)
    return np.clip(known, 0, size - 1), bool(low >= -size and high < size)


def read(
    x: Any, index: Any, *, mode: Any = None, fill_value: Any = None, indices_are_sorted: bool = False,
    unique_indices: bool = False, wrap_negative_indices: bool = True,
) -> Any:  # fmt: skip
    """`x[index]` with the arguments of `.at[index].get`."""
    aval = x.aval
    parsed = parse_mode(mode, fill_value)
    value = host_value(x) if wrap_negative_indices else None
    if value is not None:
        filling = parsed is GatherScatterMode.FILL_OR_DROP
        known = host_index(aval.shape, index, clip=not filling, limit=HOST_LIMIT)
        if known is not None:
            found = np.asarray(value[known])
            return wrap_host(array_aval(found.shape, aval.dtype, aval.weak_type), found)
    parts = parse(aval.shape, index, checked=mode is None and wrap_negative_indices, wrap=wrap_negative_indices)
    if all(p.kind in ("new", "slice") or (p.kind == "int" and 0 <= p.value < aval.shape[p.axis]) for p in parts):
        return _read_static(x, parts)
    layout = Layout(aval.shape, settle(parts, aval.shape, wrap_negative_indices))
    result = _gather(x, layout, parsed, fill_value, indices_are_sorted, unique_indices, wrap_negative_indices)
    return shapes.reshape(result, layout.shape) if layout.new_axes else result


def settle(parts: list[Part], sizes: tuple[Any, ...], wrap: bool) -> list[Part]:
    """The parts with index Arrays that are on the host made NumPy arrays, whose index vectors need no operations."""
    for k, p in enumerate(parts):
        if p.kind == "array" and type(p.value) is Array and type(sizes[p.axis]) is not Dim:
            known = host_value(p.value)
            if known is not None and known.dtype.kind in "iu":
                if wrap and known.dtype.kind == "i":
                    known = np.where(known < 0, known.astype(np.int64) + sizes[p.axis], known)
                parts[k] = p._replace(value=known)
    return parts


def parse_mode(mode: Any, fill_value: Any = None) -> GatherScatterMode:
    """The mode of a read: without one, indices are taken to be in bounds, unless a fill value is given."""
    if mode is None:
        return GatherScatterMode.PROMISE_IN_BOUNDS if fill_value is None else GatherScatterMode.FILL_OR_DROP
    return GatherScatterMode.from_any(mode)


def _read_static(x: Any, parts: Sequence[Any]) -> Any:
    """Known ints and slices: one slice, and where needed a reversal and a reshape."""
    aval = x.aval
    starts, limits, strides = [0] * aval.ndim, list(aval.shape), [1] * aval.ndim
    reversed_axes, shape, dropped = [], [], []
    for p in parts:
        if p.kind == "new":
            shape.append(1)
        elif p.kind == "int":
            starts[p.axis], limits[p.axis] = p.value, p.value + 1
            dropped.append(p.axis)
        else:
            start, step, count = p.value
            shape.append(count)
            if step < 0:
                reversed_axes.append(p.axis)
                start, step = start + (count - 1) * step, -step
            starts[p.axis], strides[p.axis] = start, step
            limits[p.axis] = start + (count - 1) * step + 1 if count else start
    if tuple(limits) != aval.shape or any(starts) or any(s != 1 for s in strides):
        if type(x) is Array and aval.size > HOST_LIMIT and all(s == 1 for s in strides):
            # A program for each start would be compiled: let the start be an operand.
            sizes = tuple([limit - start for start, limit in zip(starts, limits, strict=True)])
            x = slicing.dynamic_slice(x, starts, sizes)
        else:
            x = ops.slice_p.bind1(x, start_indices=tuple(starts), limit_indices=tuple(limits), strides=tuple(strides))
    if reversed_axes:
        x = ops.rev_p.bind1(x, dimensions=tuple(reversed_axes))
    target = tuple(shape)
    if x.aval.shape == target:
        return x
    if len(target) + len(dropped) == aval.ndim:
        return ops.squeeze_p.bind1(x, dimensions=tuple(dropped))
    return ops.reshape_p.bind1(x, new_sizes=target)


def host_value(x: Any) -> np.ndarray | None:
    """The elements of an uncommitted Array of numbers that are on the host already."""
    if type(x) is not Array or x._np is None or x._placement is not None or type(x.aval.dtype) is dtypes.KeyDtype:
        return None
    return x._np if not debug.active() else None


def _gather(
    x: Any,
    layout: Layout,
    mode: GatherScatterMode,
    fill_value: Any,
    indices_are_sorted: bool,
    unique_indices: bool,
    wrap: bool,
) -> Any:
    aval = x.aval
    if not layout.columns:  # only flags and whole axes
        window = ops.slice_p.bind1(
            x, start_indices=(0,) * aval.ndim, limit_indices=layout.slice_sizes, strides=(1,) * aval.ndim
        )
        return shapes.broadcast_in_dim(window, layout.bare_shape, layout.offset_dims)
    if layout.window and mode is not GatherScatterMode.FILL_OR_DROP and 0 not in aval.shape:
        window = ops.dynamic_slice_p.bind1(x, *layout.starts(wrap), slice_sizes=layout.slice_sizes)
        return ops.squeeze_p.bind1(window, dimensions=layout.collapsed) if layout.collapsed else window
    numbers = GatherDimensionNumbers(layout.offset_dims, layout.collapsed, layout.operand_axes())
    return ops.gather(
        x, layout.vectors(wrap), numbers, layout.slice_sizes, indices_are_sorted=indices_are_sorted or layout.sorted,
        unique_indices=unique_indices or layout.distinct, mode=mode, fill_value=fill_value,
    )  # fmt: skip


# --- take ------------------------------------------------------------------------------------------------------------------


def take(
    a: Any, indices: Any, axis: int | None = None, out: None = None, mode: str | None = None, unique_indices: bool = False,
    indices_are_sorted: bool = False, fill_value: Any = None,
) -> Any:  # fmt: skip
    """Elements of `a` at `indices` along an axis.

    Parameters
    ----------
    a : array
    indices : integer array
    axis : int, optional
        Default: `a` is flattened.
    mode : "fill", "clip", "wrap" or "promise_in_bounds", optional
        What indices outside give. Default: those known to Python or NumPy raise, others give the fill value. With "clip",
        negative indices do not count from the end.
    unique_indices, indices_are_sorted : bool
        Promises that may make it faster.
    fill_value : scalar, optional
        Default: NaN, the smallest signed or the largest unsigned integer, True.
    out : None

    Returns
    -------
    array
        With the shape of `indices` in the place of `axis`.

    Raises
    ------
    IndexOutOfBoundsError
        A Python or NumPy index is outside, and no mode is given.
    DTypeError
        Indices are neither integers nor booleans.
    NotImplementedError
        `out` is given, or mode "raise".
    """
    refuse("take", out=out)
    check_arraylike("take", a, indices)
    a = as_operand(a)
    if axis is None:
        a, axis = shapes.reshape(a, (a.aval.size,)), 0
    axis = shapes.canonical_axis(axis, a.aval.ndim)
    size = a.aval.shape[axis]
    given = aval_of(indices)
    if not dtypes.is_integer(given.dtype) and not dtypes.is_bool(given.dtype):
        raise errors.DTypeError(f"take requires integer indices, got dtype {given.dtype}")
    if mode == "raise":
        raise NotImplementedError("take has no mode 'raise'; indices known to Python or NumPy raise without any mode")
    known = isinstance(indices, (int, np.ndarray, np.generic)) and not dtypes.is_bool(given.dtype)
    if mode == "wrap":
        if size == 0:
            raise errors.IndexOutOfBoundsError("cannot take with mode='wrap' from an axis of size 0")
        indices = np.mod(indices, size) if known else hooks.numpy.mod(indices, size)
    if known:
        element: Any = np.asarray(indices)
        element = int(element) if element.ndim == 0 else element
    else:
        element = as_operand(indices)
        if dtypes.is_bool(given.dtype):
            element = ops.convert_element_type(element, np.int32)
        if mode is None:
            bounds.check_device(element, axis, size)
    index = (*[slice(None)] * axis, element)
    if mode is None:
        chosen = None if known else GatherScatterMode.FILL_OR_DROP
    else:
        chosen = GatherScatterMode.CLIP if mode == "wrap" else GatherScatterMode.from_any(mode)
    return read(
        a, index, mode=chosen, fill_value=fill_value if chosen is GatherScatterMode.FILL_OR_DROP else None,
        indices_are_sorted=indices_are_sorted, unique_indices=unique_indices, wrap_negative_indices=mode != "clip",
    )  # fmt: skip


def take_along_axis(
    arr: Any, indices: Any, axis: int | None = -1, mode: Any = None, fill_value: Any = None, *,
    wrap_negative_indices: bool | None = None,
) -> Any:  # fmt: skip
    """For each place of `indices`, the element of `arr` with that index along `axis` and the same place elsewhere.

    Parameters
    ----------
    arr : array
    indices : integer array
        With as many axes as `arr`; sizes other than along `axis` broadcast.
    axis : int or None
        None: both are flattened.
    mode, fill_value
        As in `take`; by default indices outside give the fill value.
    wrap_negative_indices : bool, optional
        Count negative indices from the end; default: unless the mode is "promise_in_bounds".

    Returns
    -------
    array
        Of the broadcast shape, with the size of `indices` along `axis`.

    Raises
    ------
    ShapeError, DTypeError
        The numbers of axes differ, or indices are not integers.
    """
    check_arraylike("take_along_axis", arr, indices)
    known = isinstance(indices, (np.ndarray, np.generic, int)) and mode is None
    given = aval_of(indices)
    if not dtypes.is_integer(given.dtype):
        raise errors.DTypeError(f"take_along_axis indices must be of integer type, got {given.dtype}")
    arr = as_operand(arr)
    wrap = wrap_negative_indices
    if wrap is None:
        wrap = mode is None or GatherScatterMode.from_any(mode) is not GatherScatterMode.PROMISE_IN_BOUNDS
    if axis is None:
        if given.ndim != 1:
            raise errors.ShapeError(f"take_along_axis indices must be 1D if axis=None, got shape {given.shape}")
        arr, axis = shapes.reshape(arr, (arr.aval.size,)), 0
    if given.ndim != arr.aval.ndim:
        raise errors.ShapeError(
            f"indices and arr must have the same number of dimensions; {given.ndim} vs. {arr.aval.ndim}"
        )
    axis = shapes.canonical_axis(axis, arr.aval.ndim)
    size = arr.aval.shape[axis]
    if known:
        bounds.check_known(indices, axis, size)
    elif mode is None:
        bounds.check_device(as_operand(indices), axis, size)
    others = [n for d, n in enumerate(given.shape) if d != axis], [n for d, n in enumerate(arr.aval.shape) if d != axis]
    common = list(common_shape("take_along_axis", *[tuple(o) for o in others]))
    target = (*common[:axis], given.shape[axis], *common[axis:])
    if mode is None:
        chosen = GatherScatterMode.PROMISE_IN_BOUNDS if known and fill_value is None else GatherScatterMode.FILL_OR_DROP
    else:
        chosen = GatherScatterMode.from_any(mode)
    wide = np.dtype(np.int64 if given.dtype in (np.int64, np.uint64) else np.int32)
    places = spread(dynamic(as_operand(indices), size, wide, wrap), target)
    source = spread(arr, (*common[:axis], size, *common[axis:]))
    if 0 in target:
        return shapes.full_like_aval(arr.aval.update(shape=target), 0)
    if chosen is GatherScatterMode.PROMISE_IN_BOUNDS:
        return take_along(source, places, axis)
    ndim = len(target)
    other_axes = tuple([d for d in range(ndim) if d != axis])
    numbers = GatherDimensionNumbers((), (axis,), (axis,), other_axes, other_axes)
    vectors = ops.reshape_p.bind1(places, new_sizes=(*target, 1))
    window = tuple([min(1, n) for n in source.aval.shape])
    return ops.gather(source, vectors, numbers, window, mode=chosen, fill_value=fill_value)
