# SPDX-License-Identifier: Apache-2.0
"""Slices whose place is known only at run time; they are moved inside the array where they would leave it.

Parameters
----------
allow_negative_indices : bool
    Count negative starts from the end of their axis.
operand : array
    Results have its dtype.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from purax import dtypes, errors
from purax.core.primitive import Linear, Primitive
from purax.core.trace import aval_of
from purax.primitives.base import LinearUnary
from purax.sharding import rules

__all__ = [
    "dynamic_index_in_dim",
    "dynamic_slice",
    "dynamic_slice_in_dim",
    "dynamic_slice_p",
    "dynamic_update_index_in_dim",
    "dynamic_update_slice",
    "dynamic_update_slice_in_dim",
    "dynamic_update_slice_p",
]


def _check_starts(x: Any, sizes: tuple[int, ...], starts: Sequence[Any], what: str) -> None:
    if not len(starts) == len(sizes) == x.ndim:
        raise errors.ShapeError(f"start_indices and {what} must have one entry for each of the {x.ndim} operand axes, "
                                f"got {len(starts)} and {len(sizes)}")  # fmt: skip
    if any(not 0 <= size <= n for size, n in zip(sizes, x.shape, strict=True)):
        raise errors.ShapeError(f"{what} {sizes} must be non-negative and fit into the operand's shape {x.shape}")
    if any(i.ndim for i in starts):
        raise errors.ShapeError("start indices must be scalars")
    if any(not dtypes.is_integer(i.dtype) for i in starts):
        raise errors.DTypeError("start indices must be integers")
    if any(i.dtype != starts[0].dtype for i in starts):
        raise errors.DTypeError("start indices must have one dtype")


def _place(x: Any, sizes: Sequence[int], starts: Sequence[Any]) -> tuple[slice, ...]:
    """The window of `sizes` at `starts`, moved inside `x`."""
    found = []
    for n, size, start in zip(x.shape, sizes, starts, strict=True):
        first = min(max(int(start), 0), n - size)
        found.append(slice(first, first + size))
    return tuple(found)


class DynamicSlice(LinearUnary):
    """`operand, *starts`: the window of `slice_sizes` at the scalar integers `starts`."""

    exact = True

    terms = True

    def spread(self, ins: Any, avals: Any, outs: Any, params: Any) -> Any:
        """As the operand, where the result can be cut so."""
        return [rules.changed_sizes(ins[0], avals[0].shape, outs[0].shape)]

    def infer(self, x: Any, *starts: Any, slice_sizes: tuple[int, ...]) -> Any:
        _check_starts(x, slice_sizes, starts, "slice_sizes")
        return (x.update(shape=slice_sizes),)

    def reference(self, x: Any, *starts: Any, slice_sizes: tuple[int, ...]) -> Any:
        return (x[_place(x, slice_sizes, starts)],)

    def transpose(self, cotangents: Any, operands: Any, *, slice_sizes: Any) -> Any:
        (t,) = cotangents
        x, *starts = operands
        if t is None:
            return (None,) * len(operands)
        zeros = shape.full_like_aval(x.aval.update(dtype=aval_of(t).dtype), 0)
        return (dynamic_update_slice_p.bind1(zeros, t, *starts), *[None] * len(starts))

    def batch(self, axis: Any, operands: Any, dims: Any, *, slice_sizes: Any) -> Any:
        (x, *starts), (d, *start_dims) = operands, dims
        if all(s is None for s in start_dims):
            zero = shape.scalar(0, aval_of(starts[0]).dtype) if starts else np.int32(0)
            out = self.bind1(
                x, *starts[:d], zero, *starts[d:], slice_sizes=(*slice_sizes[:d], axis.size, *slice_sizes[d:])
            )
            return (out,), (d,)
        window = tuple(range(len(starts)))
        numbers = gather.GatherDimensionNumbers(window, (), window)
        return gather.gather_p.batch(
            axis, (x, stack_starts(axis, starts, start_dims)), (d, 0), dimension_numbers=numbers, slice_sizes=slice_sizes,
            indices_are_sorted=True, unique_indices=True, mode=gather.GatherScatterMode.CLIP, fill_value=None,
        )  # fmt: skip

    def lower(self, b: Any, ins: Any, outs: Any, *, slice_sizes: Any) -> Any:
        (out,) = outs
        if not slice_sizes:
            return [ins[0]]
        types = ", ".join(x.hlo for x in ins)
        names = ", ".join(map(str, ins))
        return [b.emit(f"stablehlo.dynamic_slice {names}, sizes = {list(slice_sizes)} : ({types}) -> {out.hlo}", out)]


class DynamicUpdateSlice(Primitive):
    """`operand, update, *starts`: the operand with the window at `starts` replaced by `update`."""

    exact = True

    terms = True

    def spread(self, ins: Any, avals: Any, outs: Any, params: Any) -> Any:
        """As the operand; the update must lie in the same way."""
        whole, part = ins[:2]
        sizes = zip(whole.parts, part.parts, avals[0].shape, avals[1].shape, strict=True)
        # an axis that is updated in part lies as the operand does; one that is updated as a whole may lie as the update does
        part = part.replace([b if n == m else a for a, b, n, m in sizes])
        return [rules.equal("dynamic_update_slice", (whole, part))]

    def infer(self, x: Any, update: Any, *starts: Any) -> Any:
        if x.dtype != update.dtype:
            raise errors.DTypeError("operand and update must have equal dtypes")
        if x.ndim != update.ndim:
            raise errors.ShapeError(
                f"operand and update must have as many axes, got shapes {x.shape} and {update.shape}"
            )
        _check_starts(x, update.shape, starts, "update shape")
        return (x.update(weak_type=x.weak_type and update.weak_type),)

    def reference(self, x: Any, update: Any, *starts: Any) -> Any:
        out = np.array(x)
        out[_place(x, update.shape, starts)] = update
        return (out,)

    def jvp(self, primals: Any, tangents: Any) -> Any:
        out = self.bind1(*primals)
        if tangents[0] is None and tangents[1] is None:
            return (out,), (None,)
        pair = [base.instantiate(t, x) for t, x in zip(tangents[:2], primals[:2], strict=True)]
        return (out,), (self.bind1(*pair, *primals[2:]),)

    def transpose(self, cotangents: Any, operands: Any) -> Any:
        (t,) = cotangents
        x, update, *starts = operands
        if t is None:
            return (None,) * len(operands)
        aval = aval_of(update)
        t_x = t_update = None
        if type(x) is Linear:
            t_x = self.bind1(t, shape.full_like_aval(aval.update(dtype=aval_of(t).dtype), 0), *starts)
        if type(update) is Linear:
            t_update = dynamic_slice_p.bind1(t, *starts, slice_sizes=aval.shape)
        return (t_x, t_update, *[None] * len(starts))

    def batch(self, axis: Any, operands: Any, dims: Any) -> Any:
        (x, update, *starts), (dx, du, *start_dims) = operands, dims
        if all(s is None for s in start_dims):
            place = dx if dx is not None else du if du is not None else 0
            x, update = (shape.align_batch(v, d, axis.size, place) for v, d in ((x, dx), (update, du)))
            zero = shape.scalar(0, aval_of(starts[0]).dtype) if starts else np.int32(0)
            return (self.bind1(x, update, *starts[:place], zero, *starts[place:]),), (place,)
        ndim = len(starts)
        numbers = scatter.ScatterDimensionNumbers(tuple(range(ndim)), (), tuple(range(ndim)))
        return scatter.scatter_p.batch(
            axis, (x, stack_starts(axis, starts, start_dims), update), (dx, 0, du), dimension_numbers=numbers,
            indices_are_sorted=True, unique_indices=True, mode=gather.GatherScatterMode.CLIP,
        )  # fmt: skip

    def lower(self, b: Any, ins: Any, outs: Any) -> Any:
        (out,) = outs
        if not out.shape:
            return [ins[1]]
        types = ", ".join(x.hlo for x in ins)
        return [b.emit(f"stablehlo.dynamic_update_slice {', '.join(map(str, ins))} : ({types}) -> {out.hlo}", out)]


dynamic_slice_p = DynamicSlice("dynamic_slice")
dynamic_update_slice_p = DynamicUpdateSlice("dynamic_update_slice")


def stack_starts(axis: Any, starts: Sequence[Any], dims: Sequence[int | None]) -> Any:
    """Scalar starts, some batched, as index vectors of shape (batch, number of starts)."""
    columns = [shape.align_batch(i, d, axis.size, 0) for i, d in zip(starts, dims, strict=True)]
    return shape.concatenate([shape.broadcast_in_dim(c, (axis.size, 1), (0,)) for c in columns], 1)


# --- the user's functions ---------------------------------------------------------------------------------------------


def _starts(operand: Any, start_indices: Any, allow_negative: Any, window: tuple[int, ...]) -> list[Any]:
    """One integer scalar per axis, all of one dtype, negative ones counted from the end.

    Known ones raise if the window would leave the operand there.
    """
    sizes = aval_of(operand).shape
    if isinstance(start_indices, (tuple, list)):
        starts = list(start_indices)
    else:
        aval = aval_of(start_indices)
        if aval.ndim != 1:
            raise errors.ShapeError(
                f"start_indices must be a sequence of scalars or have one axis, got shape {aval.shape}"
            )
        if isinstance(start_indices, np.ndarray):
            starts = list(start_indices)
        else:
            parts = shape.split_p.bind(start_indices, sizes=(1,) * aval.shape[0], axis=0)
            starts = [shape.squeeze_p.bind1(part, dimensions=(0,)) for part in parts]
    if len(starts) != len(sizes):
        raise errors.ShapeError(f"start_indices must have one entry for each of the {len(sizes)} operand axes, "
                                f"got {len(starts)}")  # fmt: skip
    given = {aval_of(i).dtype for i in starts if not isinstance(i, int)}
    if len(given) > 1:
        raise errors.DTypeError(f"start indices must be integers of one dtype, got {', '.join(map(str, given))}")
    allowed = [allow_negative] * len(starts) if isinstance(allow_negative, bool) else list(allow_negative)
    if len(window) == len(sizes):  # else the primitive says what is wrong
        for axis, (start, size, length, wrap) in enumerate(zip(starts, sizes, window, allowed, strict=True)):
            bounds.check_window(start, axis, size, length, wrap)
    dtype = index_dtype(starts, sizes)
    return [index_scalar(i, n, a, dtype) for i, n, a in zip(starts, sizes, allowed, strict=True)]


def index_dtype(indices: Sequence[Any], sizes: Sequence[int]) -> Any:
    """int64 where an axis or an index array needs it, else int32."""
    wide = any(n > np.iinfo(np.int32).max for n in sizes)
    for i in indices:
        if not isinstance(i, (int, np.integer)):
            dtype = aval_of(i).dtype
            wide = wide or dtype in (np.int64, np.uint64)
    return np.dtype(np.int64) if wide else np.dtype(np.int32)


def index_scalar(index: Any, size: int, allow_negative: bool, dtype: Any) -> Any:
    """A start index as a scalar of `dtype`; negative ones count from the end where that is allowed."""
    if isinstance(index, (int, np.integer)):
        place = operator.index(index)
        if allow_negative and place < 0:
            place += size
        info = np.iinfo(dtype)
        return shape.scalar(min(max(place, info.min), info.max), dtype)
    aval = aval_of(index)
    if not dtypes.is_integer(aval.dtype):
        raise errors.DTypeError(f"start indices must be integers, got {aval.str_short()}")
    wide = cast.convert_element_type(index, dtype)
    return wrap_negative(wide, size) if allow_negative and not dtypes.is_unsigned(aval.dtype) else wide


def wrap_negative(index: Any, size: int) -> Any:
    """Indices counted from the front, negative ones having been counted from the end of an axis of `size`."""
    aval = aval_of(index)
    negative = elementwise.lt_p.bind1(index, shape.full_like_aval(aval, 0))
    wrapped = elementwise.add_p.bind1(index, shape.full_like_aval(aval, size))
    return elementwise.select(negative, wrapped, index)


def dynamic_slice(
    operand: Any,
    start_indices: Any,
    slice_sizes: Sequence[int],
    *,
    allow_negative_indices: bool | Sequence[bool] = True,
) -> Any:
    """A slice of static size at a dynamic place.

    A place that lies on the device is moved inside the array where the slice would leave it; one that Python or NumPy knows raises.

    Parameters
    ----------
    operand : array
    start_indices : sequence of integer scalars, or integer array with one axis
    slice_sizes : sequence of int
        Size of the slice along each axis.
    allow_negative_indices : bool or sequence of bool
        Count negative starts from the end of their axis.

    Returns
    -------
    array of shape `slice_sizes` and the operand's dtype

    Raises
    ------
    ShapeError, DTypeError
        The slice is larger than the operand, or starts are not integer scalars.
    IndexOutOfBoundsError
        At a known start the slice would leave the operand.
    """
    sizes = shape.canonical_shape(slice_sizes)
    starts = _starts(operand, start_indices, allow_negative_indices, sizes)
    return dynamic_slice_p.bind1(operand, *starts, slice_sizes=sizes)


def dynamic_update_slice(
    operand: Any, update: Any, start_indices: Any, *, allow_negative_indices: bool | Sequence[bool] = True
) -> Any:
    """`operand` with the slice at a dynamic place replaced by `update`; places as in `dynamic_slice`.

    Parameters
    ----------
    operand, update : array
        Of the same dtype and number of axes.
    start_indices : sequence of integer scalars, or integer array with one axis
    allow_negative_indices : bool or sequence of bool
        Count negative starts from the end of their axis.

    Returns
    -------
    array of the operand's shape and dtype

    Raises
    ------
    ShapeError, DTypeError
        The update is larger than the operand or of another dtype.
    IndexOutOfBoundsError
        At a known start the update would leave the operand.
    """
    update = _as(update, operand)
    starts = _starts(operand, start_indices, allow_negative_indices, aval_of(update).shape)
    return dynamic_update_slice_p.bind1(operand, update, *starts)


def _as(update: Any, operand: Any) -> Any:
    """A Python scalar as a value of the operand's dtype; arrays as they are."""
    if isinstance(update, (bool, int, float, complex)):
        return shape.scalar(update, aval_of(operand).dtype)
    return update


def dynamic_slice_in_dim(
    operand: Any, start_index: Any, slice_size: int, axis: int = 0, *, allow_negative_indices: bool = True
) -> Any:
    """`dynamic_slice` along one axis, the others taken whole.

    See `purax.primitives.slicing` for the arguments that its functions share.

    Parameters
    ----------
    start_index : integer scalar
    slice_size : int
    axis : int

    Returns
    -------
    array of the operand's dtype, with `slice_size` elements along `axis`
    """
    sizes = aval_of(operand).shape
    axis = shape.canonical_axis(axis, len(sizes))
    starts = [0] * len(sizes)
    starts[axis] = start_index
    window = (*sizes[:axis], operator.index(slice_size), *sizes[axis + 1 :])
    return dynamic_slice(operand, starts, window, allow_negative_indices=allow_negative_indices)


def dynamic_index_in_dim(
    operand: Any, index: Any, axis: int = 0, keepdims: bool = True, *, allow_negative_indices: bool = True
) -> Any:
    """The slice at one dynamic index along one axis, with that axis kept (size 1) or dropped.

    See `purax.primitives.slicing` for the arguments that its functions share.

    Parameters
    ----------
    index : integer scalar
    axis : int
    keepdims : bool

    Returns
    -------
    array of the operand's dtype
    """
    piece = dynamic_slice_in_dim(operand, index, 1, axis, allow_negative_indices=allow_negative_indices)
    return piece if keepdims else shape.squeeze(piece, (axis,))


def dynamic_update_slice_in_dim(
    operand: Any, update: Any, start_index: Any, axis: int, *, allow_negative_indices: bool = True
) -> Any:
    """`dynamic_update_slice` along one axis, from the start of the others.

    See `purax.primitives.slicing` for the arguments that its functions share.

    Parameters
    ----------
    update : array of the operand's dtype
        As the operand, but shorter along `axis`.
    start_index : integer scalar
    axis : int

    Returns
    -------
    array like the operand
    """
    ndim = aval_of(operand).ndim
    axis = shape.canonical_axis(axis, ndim)
    starts = [0] * ndim
    starts[axis] = start_index
    return dynamic_update_slice(operand, update, starts, allow_negative_indices=allow_negative_indices)


def dynamic_update_index_in_dim(
    operand: Any, update: Any, index: Any, axis: int, *, allow_negative_indices: bool = True
) -> Any:
    """`operand` with the slice at one dynamic index along one axis replaced; `update` may lack that axis.

    See `purax.primitives.slicing` for the arguments that its functions share.

    Parameters
    ----------
    update : array of the operand's dtype
    index : integer scalar
    axis : int

    Returns
    -------
    array like the operand

    Raises
    ------
    ShapeError
        `update` lacks more than one axis, or has more.
    """
    aval, given = aval_of(operand), aval_of(update)
    axis = shape.canonical_axis(axis, aval.ndim)
    if given.ndim != aval.ndim:
        if given.ndim + 1 != aval.ndim:
            raise errors.ShapeError(f"update must have {aval.ndim} or {aval.ndim - 1} axes, got shape {given.shape}")
        update = shape.expand_dims(_as(update, operand), (axis,))
    return dynamic_update_slice_in_dim(operand, update, index, axis, allow_negative_indices=allow_negative_indices)


from purax.primitives import base, bounds, cast, elementwise, gather, scatter, shape  # noqa: E402  (siblings import this module's names)
