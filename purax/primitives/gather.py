# SPDX-License-Identifier: Apache-2.0
"""Gather: one window of the operand for each index vector.

StableHLO's gather in full: windows may keep or drop operand axes, and some axes of operand and indices may be paired (batching
axes), which is what vmap over both makes. Index vectors lie along the last axis of the indices.
"""

from __future__ import annotations

import enum
import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from purax import dtypes, errors
from purax.core.aval import array_aval
from purax.core.dims import is_open
from purax.core.hooks import hooks
from purax.core.primitive import Primitive
from purax.core.trace import aval_of
from purax.lowering.emit import integers
from purax.sharding import rules

__all__ = ["GatherDimensionNumbers", "GatherScatterMode", "gather", "gather_p", "index_take"]


class GatherScatterMode(enum.Enum):
    """What happens to a window that would leave the array.

    CLIP moves it inside, FILL_OR_DROP gives the fill value (gather) or ignores the update (scatter), PROMISE_IN_BOUNDS says that
    it does not happen. ONE_HOT is accepted and means FILL_OR_DROP.
    """

    CLIP = enum.auto()
    FILL_OR_DROP = enum.auto()
    PROMISE_IN_BOUNDS = enum.auto()
    ONE_HOT = enum.auto()

    @staticmethod
    def from_any(mode: str | GatherScatterMode | None) -> GatherScatterMode:
        """The mode that a user's `mode=` argument names; None is FILL_OR_DROP."""
        if isinstance(mode, GatherScatterMode):
            return mode
        if mode is None or mode in ("fill", "drop"):
            return GatherScatterMode.FILL_OR_DROP
        if mode == "clip":
            return GatherScatterMode.CLIP
        if mode == "promise_in_bounds":
            return GatherScatterMode.PROMISE_IN_BOUNDS
        if mode == "one_hot":
            return GatherScatterMode.ONE_HOT
        raise ValueError(f'Unknown gather mode "{mode}"; choose "fill", "drop", "clip" or "promise_in_bounds"')


class GatherDimensionNumbers(NamedTuple):
    """How axes of operand, indices and result of a gather correspond.

    Attributes
    ----------
    offset_dims : tuple of int
        Axes of the result that run over the window.
    collapsed_slice_dims : tuple of int
        Operand axes that the window drops; their slice size is 1.
    start_index_map : tuple of int
        Operand axis of each component of an index vector.
    operand_batching_dims, start_indices_batching_dims : tuple of int
        Operand axes (of slice size 1) and index axes that run together.
    """

    offset_dims: tuple[int, ...]
    collapsed_slice_dims: tuple[int, ...]
    start_index_map: tuple[int, ...]
    operand_batching_dims: tuple[int, ...] = ()
    start_indices_batching_dims: tuple[int, ...] = ()


def default_fill(dtype: Any) -> Any:
    """What a gather gives out of bounds: NaN, the smallest signed or largest unsigned integer, True."""
    if dtypes.is_key(dtype):
        return np.iinfo(np.uint32).max
    if dtypes.is_inexact(dtype):
        return np.nan
    if dtypes.is_bool(dtype):
        return True
    return int(dtypes.iinfo(dtype).min if dtypes.is_signed(dtype) else dtypes.iinfo(dtype).max)


def window_axes(ndim: int, dropped: Sequence[int], batching: Sequence[int]) -> list[int]:
    """Operand axes that windows keep."""
    return [d for d in range(ndim) if d not in dropped and d not in batching]


def operand_indices(
    ndim: int, sizes: Sequence[int], starts: np.ndarray, index_map: Sequence[int], kept: Sequence[int],
    batching: Sequence[int], index_batching: Sequence[int], window_dims: Sequence[int], total: int,
) -> tuple[Any, ...]:  # fmt: skip
    """For each operand axis an index array that broadcasts to the windows of a gather or the updates of a scatter.

    `starts` has the index vectors last and lies within bounds; `window_dims` are the axes of the result (of `total`) that run
    over the kept operand axes, which have `sizes`.
    """
    outer = [d for d in range(total) if d not in window_dims]

    def spread(values: np.ndarray, axes: Sequence[int]) -> np.ndarray:
        form = [1] * total
        for n, d in zip(values.shape, axes, strict=True):
            form[d] = n
        return values.reshape(form)

    found: list[Any] = [0] * ndim
    for k, d in enumerate(index_map):
        found[d] = spread(starts[..., k], outer)
    for d, size, place in zip(kept, sizes, window_dims, strict=True):
        found[d] = found[d] + spread(np.arange(size), (place,))
    for d, i in zip(batching, index_batching, strict=True):
        found[d] = spread(np.arange(starts.shape[i]), (outer[i],))
    return tuple(found)


class Gather(Primitive):
    """`operand, start_indices`: see the module's docstring."""

    exact = True

    def spread(self, ins: Any, avals: Any, outs: Any, params: Any) -> Any:
        """Offset axes lie as those of the operand, the others as those of the indices."""
        rules.refuse_sums(self.name, ins)
        numbers, sizes = params["dimension_numbers"], params["slice_sizes"]
        return [rules.gathered(ins[0], ins[1], avals[0].shape, numbers, sizes, outs[0].ndim)]

    def infer(
        self, x: Any, indices: Any, *, dimension_numbers: Any, slice_sizes: Any, indices_are_sorted: bool,
        unique_indices: bool, mode: Any, fill_value: Any,
    ) -> Any:  # fmt: skip
        numbers = dimension_numbers
        if not dtypes.is_integer(indices.dtype):
            raise errors.DTypeError(f"start_indices must have integer dtype, got {indices.dtype}")
        check_numbers(x, indices, numbers.collapsed_slice_dims, numbers.start_index_map, numbers.operand_batching_dims,
                      numbers.start_indices_batching_dims, "collapsed_slice_dims", "start_index_map")  # fmt: skip
        if len(slice_sizes) != x.ndim:
            raise errors.ShapeError(
                f"slice_sizes {slice_sizes} must have one entry for each of the {x.ndim} operand axes"
            )
        if any(not 0 <= size <= n for size, n in zip(slice_sizes, x.shape, strict=True)):
            raise errors.ShapeError(
                f"slice_sizes {slice_sizes} must be non-negative and fit into the operand's shape {x.shape}"
            )
        dropped = (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims)
        if any(slice_sizes[d] > 1 for d in dropped):
            raise errors.ShapeError(f"slice_sizes {slice_sizes} must be 1 at the collapsed and batching axes {dropped}")
        window = [slice_sizes[d] for d in window_axes(x.ndim, *dropped_axes(numbers))]
        outer, total = indices.shape[:-1], indices.ndim - 1 + len(window)
        offsets = numbers.offset_dims
        if (
            len(offsets) != len(window)
            or list(offsets) != sorted(set(offsets))
            or any(not 0 <= d < total for d in offsets)
        ):
            raise errors.ShapeError(f"offset_dims {offsets} must be {len(window)} increasing axes of the result, "
                                    f"which has {total}")  # fmt: skip
        rest, inner = iter(outer), iter(window)
        return (x.update(shape=[next(inner) if d in offsets else next(rest) for d in range(total)]),)

    def reference(
        self, x: Any, indices: Any, *, dimension_numbers: Any, slice_sizes: Any, mode: Any, fill_value: Any, **_: Any
    ) -> Any:  # fmt: skip
        numbers = dimension_numbers
        index_map, offsets = numbers.start_index_map, numbers.offset_dims
        limits = np.array([x.shape[d] - slice_sizes[d] for d in index_map], np.int64)
        starts = np.clip(indices.astype(np.int64, copy=False), 0, limits)
        kept = window_axes(x.ndim, *dropped_axes(numbers))
        sizes = [slice_sizes[d] for d in kept]
        total = indices.ndim - 1 + len(kept)
        places = operand_indices(x.ndim, sizes, starts, index_map, kept, numbers.operand_batching_dims,
                                 numbers.start_indices_batching_dims, offsets, total)  # fmt: skip
        rest, inner = iter(indices.shape[:-1]), iter(sizes)
        form = tuple([next(inner) if d in offsets else next(rest) for d in range(total)])
        out = np.broadcast_to(x[places], form) if 0 not in form else np.empty(form, x.dtype)
        if mode in _FILLS:
            inside = (indices == starts).all(-1)
            if not inside.all():
                fill = np.asarray(default_fill(x.dtype) if fill_value is None else fill_value).astype(x.dtype)
                outer = [1 if d in offsets else n for d, n in enumerate(form)]
                out = np.where(inside.reshape(outer), out, fill)
        return (out,)

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> Any:
        out = self.bind1(*primals, **params)
        if tangents[0] is None:
            return (out,), (None,)
        return (out,), (self.bind1(tangents[0], primals[1], **{**params, "fill_value": 0}),)

    def transpose(
        self, cotangents: Any, operands: Any, *, dimension_numbers: Any, indices_are_sorted: bool, unique_indices: bool,
        mode: Any, **_: Any,
    ) -> Any:  # fmt: skip
        (t,), (x, indices) = cotangents, operands
        if t is None:
            return (None, None)
        zeros = shape.full_like_aval(x.aval.update(dtype=aval_of(t).dtype), 0)
        numbers = scatter.of_gather(dimension_numbers)
        return (
            scatter.scatter_add_p.bind1(
                zeros, indices, t, dimension_numbers=numbers, indices_are_sorted=indices_are_sorted,
                unique_indices=unique_indices, mode=mode,
            ),
            None,
        )  # fmt: skip

    def batch(
        self, axis: Any, operands: Any, dims: Any, *, dimension_numbers: Any, slice_sizes: Any, **params: Any
    ) -> Any:
        (x, indices), (dx, di), n = operands, dims, dimension_numbers
        up = shifted
        if di is None:
            x = shape.move_batch_axis(x, dx, 0)
            numbers = GatherDimensionNumbers((0, *up(n.offset_dims)), up(n.collapsed_slice_dims), up(n.start_index_map),
                                             up(n.operand_batching_dims), n.start_indices_batching_dims)  # fmt: skip
            sizes = (axis.size, *slice_sizes)
        else:
            indices = shape.move_batch_axis(indices, di, 0)
            numbers = GatherDimensionNumbers(up(n.offset_dims), n.collapsed_slice_dims, n.start_index_map,
                                             n.operand_batching_dims, up(n.start_indices_batching_dims))  # fmt: skip
            sizes = slice_sizes
            if dx is not None:
                x = shape.move_batch_axis(x, dx, 0)
                numbers = GatherDimensionNumbers(
                    numbers.offset_dims, up(n.collapsed_slice_dims), up(n.start_index_map),
                    (0, *up(n.operand_batching_dims)), (0, *numbers.start_indices_batching_dims),
                )  # fmt: skip
                sizes = (min(1, axis.size), *slice_sizes)
        return (self.bind1(x, indices, dimension_numbers=numbers, slice_sizes=sizes, **params),), (0,)

    def lower(
        self, b: Any, ins: Any, outs: Any, *, dimension_numbers: Any, slice_sizes: Any, indices_are_sorted: bool,
        unique_indices: bool, mode: Any, fill_value: Any,
    ) -> Any:  # fmt: skip
        (x, indices), (out,), n = ins, outs, dimension_numbers
        if out.size == 0 or x.aval.size == 0:
            return [b.constant(default_fill(out.dtype) if fill_value is None else fill_value, out)]
        if mode in _FILLS:
            plain = {"dimension_numbers": n, "slice_sizes": slice_sizes, "indices_are_sorted": indices_are_sorted,
                     "unique_indices": unique_indices}  # fmt: skip
            return b.inline(_gather_or_fill, ins, fill_value=fill_value, **plain)
        fields = [f"offset_dims = {list(n.offset_dims)}", f"collapsed_slice_dims = {list(n.collapsed_slice_dims)}"]
        if n.operand_batching_dims:
            fields += [f"operand_batching_dims = {list(n.operand_batching_dims)}",
                       f"start_indices_batching_dims = {list(n.start_indices_batching_dims)}"]  # fmt: skip
        fields += [f"start_index_map = {list(n.start_index_map)}", f"index_vector_dim = {indices.aval.ndim - 1}"]
        text = (
            f'"stablehlo.gather"({x}, {indices}) <{{dimension_numbers = #stablehlo.gather<{", ".join(fields)}>, '
            f"indices_are_sorted = {str(indices_are_sorted).lower()}, slice_sizes = {integers(slice_sizes)}}}> : "
            f"({x.hlo}, {indices.hlo}) -> {out.hlo}"
        )
        return [b.emit(text, out)]


_FILLS = (GatherScatterMode.FILL_OR_DROP, GatherScatterMode.ONE_HOT)
gather_p = Gather("gather")


def shifted(dims: Sequence[int]) -> tuple[int, ...]:
    """Axes behind a new leading one."""
    return tuple([d + 1 for d in dims])


def dropped_axes(numbers: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Collapsed and batching axes."""
    return numbers.collapsed_slice_dims, numbers.operand_batching_dims


def check_numbers(
    x: Any, indices: Any, dropped: Sequence[int], index_map: Sequence[int], batching: Sequence[int],
    index_batching: Sequence[int], dropped_name: str, map_name: str,
) -> None:  # fmt: skip
    """Raise ShapeError unless the axes that gather or scatter dimension numbers name exist and are distinct."""
    if indices.ndim < 1 or indices.shape[-1] != len(index_map):
        raise errors.ShapeError(f"{map_name} must have one entry for each component of an index vector (the last axis of the "
                                f"indices), got {tuple(index_map)} for indices of shape {indices.shape}")  # fmt: skip
    for name, axes, ndim in (
        (dropped_name, dropped, x.ndim), (map_name, index_map, x.ndim), ("operand_batching_dims", batching, x.ndim),
        ("the indices' batching dims", index_batching, indices.ndim - 1),
    ):  # fmt: skip
        if len(set(axes)) != len(axes) or any(not 0 <= d < ndim for d in axes):
            raise errors.ShapeError(f"{name} must be distinct axes in range({ndim}), got {tuple(axes)}")
    if list(dropped) != sorted(dropped) or list(batching) != sorted(batching):
        raise errors.ShapeError(
            f"{dropped_name} and operand_batching_dims must be sorted, got {dropped} and {batching}"
        )
    if set(batching) & (set(dropped) | set(index_map)):
        raise errors.ShapeError(f"operand_batching_dims {batching} must not occur in {dropped_name} or {map_name}")
    if len(batching) != len(index_batching):
        raise errors.ShapeError("operand and indices must have the same number of batching dims")
    if any(x.shape[a] != indices.shape[i] for a, i in zip(batching, index_batching, strict=True)):
        raise errors.ShapeError("batching dims of operand and indices must have equal sizes")


def upper_limits(indices: Any, limits: Sequence[Any]) -> Any:
    """The largest allowed index vector, in the shape of index vectors of type `indices`."""
    if is_open(limits):
        line = hooks.numpy.stack([hooks.numpy.asarray(limit, indices.dtype) for limit in limits])
    else:
        limit = np.clip(np.array(limits, np.int64), 0, dtypes.iinfo(indices.dtype).max).astype(indices.dtype)
        line = wrap_host(array_aval(limit.shape, indices.dtype), limit)
    return shape.broadcast_in_dim(line, indices.shape, (indices.ndim - 1,))


def within_bounds(indices: Any, limits: Sequence[int]) -> Any:
    """Whether each index vector lies between 0 and `limits`: booleans without the last axis."""
    aval = aval_of(indices)
    upper = upper_limits(aval, limits)
    inside = elementwise.bitwise_and(
        elementwise.ge_p.bind1(indices, shape.full_like_aval(aval, 0)), elementwise.le_p.bind1(indices, upper)
    )
    if aval.shape[-1] == 1:
        return shape.squeeze_p.bind1(inside, dimensions=(aval.ndim - 1,))
    return reduction.reduce_and_p.bind1(inside, axes=(aval.ndim - 1,))


def _gather_or_fill(
    x: Any, indices: Any, *, fill_value: Any, dimension_numbers: Any, slice_sizes: Any, **params: Any
) -> Any:
    """FILL_OR_DROP by a clipping gather and a mask."""
    sizes = aval_of(x).shape
    out = gather_p.bind1(x, indices, dimension_numbers=dimension_numbers, slice_sizes=slice_sizes,
                         mode=GatherScatterMode.CLIP, fill_value=None, **params)  # fmt: skip
    aval = aval_of(out)
    inside = within_bounds(indices, [sizes[d] - slice_sizes[d] for d in dimension_numbers.start_index_map])
    outer = tuple([d for d in range(aval.ndim) if d not in dimension_numbers.offset_dims])
    mask = shape.broadcast_in_dim(inside, aval.shape, outer)
    fill = default_fill(aval.dtype) if fill_value is None else fill_value
    return elementwise.select(mask, out, shape.full_like_aval(aval, fill))


def gather(
    operand: Any, start_indices: Any, dimension_numbers: GatherDimensionNumbers, slice_sizes: Sequence[int], *,
    unique_indices: bool = False, indices_are_sorted: bool = False, mode: str | GatherScatterMode | None = None,
    fill_value: Any = None,
) -> Any:  # fmt: skip
    """Gather one window of `operand` for each index vector.

    Parameters
    ----------
    operand : array
    start_indices : integer array
        Index vectors along the last axis.
    dimension_numbers : GatherDimensionNumbers
    slice_sizes : sequence of int
        Size of the windows along each operand axis.
    unique_indices, indices_are_sorted : bool
        Promises that may make it faster.
    mode : GatherScatterMode or str, optional
        Default: PROMISE_IN_BOUNDS, or FILL_OR_DROP when a `fill_value` is given.
    fill_value : scalar, optional
        Default: NaN, the smallest signed or the largest unsigned integer, True.

    Returns
    -------
    array of the operand's dtype

    Raises
    ------
    ShapeError, DTypeError
        The dimension numbers do not fit, or indices are not integers.

    References
    ----------
    https://openxla.org/stablehlo/spec#gather
    """
    if mode is None:
        parsed = GatherScatterMode.PROMISE_IN_BOUNDS if fill_value is None else GatherScatterMode.FILL_OR_DROP
    else:
        parsed = GatherScatterMode.from_any(mode)
    if parsed not in _FILLS:
        fill_value = None
    elif fill_value is not None:
        fill_value = np.asarray(fill_value).item()
    return gather_p.bind1(
        operand, start_indices, dimension_numbers=GatherDimensionNumbers(*[_axes(a) for a in dimension_numbers]),
        slice_sizes=shape.canonical_shape(slice_sizes), indices_are_sorted=bool(indices_are_sorted),
        unique_indices=bool(unique_indices), mode=parsed, fill_value=fill_value,
    )  # fmt: skip


def _axes(axes: Sequence[int]) -> tuple[int, ...]:
    return tuple([operator.index(d) for d in axes])


def take_along(x: Any, indices: Any, axis: int) -> Any:
    """Elements of `x` at `indices` along `axis`; both have equal shapes elsewhere, and indices are within bounds."""
    sizes = aval_of(x).shape
    ndim = len(sizes)
    others = tuple([d for d in range(ndim) if d != axis])
    numbers = GatherDimensionNumbers((), (axis,), (axis,), others, others)
    return gather_p.bind1(
        x, shape.broadcast_in_dim(indices, (*aval_of(indices).shape, 1), range(ndim)), dimension_numbers=numbers,
        slice_sizes=tuple([min(1, n) for n in sizes]), indices_are_sorted=False, unique_indices=False,
        mode=GatherScatterMode.PROMISE_IN_BOUNDS, fill_value=None,
    )  # fmt: skip


def index_take(src: Any, idxs: Sequence[Any], axes: Sequence[int]) -> Any:
    """Index several axes at once: row `i` of the result is `src` at `idxs[k][i]` along each `axes[k]`.

    Parameters
    ----------
    src : array
    idxs : sequence of integer arrays with one axis
        Negative indices count from the end; those outside are moved inside.
    axes : sequence of int

    Returns
    -------
    array
        The indices first, then the axes of `src` that were not indexed.
    """
    sizes = aval_of(src).shape
    places = shape.canonical_axes(axes, len(sizes))
    columns = []
    for index, d in zip(idxs, places, strict=True):
        column = slicing.wrap_negative(index, sizes[d])
        columns.append(shape.expand_dims(column, (aval_of(column).ndim,)))
    indices = shape.concatenate(columns, aval_of(columns[0]).ndim - 1)
    kept = [d for d in range(len(sizes)) if d not in places]
    offsets = tuple(range(1, 1 + len(kept)))
    numbers = GatherDimensionNumbers(offsets, tuple(sorted(places)), places)
    window = [1 if d in places else n for d, n in enumerate(sizes)]
    return gather(src, indices, numbers, window, mode=GatherScatterMode.CLIP)


from purax.primitives import elementwise, reduction, scatter, shape, slicing  # noqa: E402  (siblings import this module's names)
from purax.runtime.array import wrap_host  # noqa: E402
