# SPDX-License-Identifier: Apache-2.0
"""Cutting and joining with static bounds: concatenate, split, pad, slice. `shape` offers the same names."""

from __future__ import annotations

import builtins
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from purax import dtypes, errors
from purax.core.aval import array_aval
from purax.core.dims import as_size
from purax.core.primitive import Linear, Primitive
from purax.core.trace import aval_of
from purax.primitives.base import LinearUnary
from purax.sharding import rules

__all__ = [
    "concatenate",
    "concatenate_p",
    "index_in_dim",
    "pad",
    "pad_p",
    "slice",
    "slice_in_dim",
    "slice_p",
    "split",
    "split_p",
    "stack",
    "tile",
    "unstack",
]


class Concatenate(Primitive):
    """Operands one after another along `dimension`."""

    exact = True

    terms = True

    def spread(self, ins: Any, avals: Any, outs: Any, params: Any) -> Any:
        """All operands must lie in one way, and so does the result."""
        known = [s for s, a in zip(ins, avals, strict=True) if a.spread is not None]
        return [rules.equal("concatenate", known)]

    def infer(self, *xs: Any, dimension: int) -> Any:
        first = xs[0]
        rest = (*first.shape[:dimension], *first.shape[dimension + 1 :])
        for x in xs:
            if x.dtype != first.dtype:
                raise errors.DTypeError("operands must have equal dtypes; convert them first")
            if x.ndim != first.ndim or (*x.shape[:dimension], *x.shape[dimension + 1 :]) != rest:
                raise errors.ShapeError(f"operands must have equal shapes except along dimension {dimension}")
        size = sum(x.shape[dimension] for x in xs)
        sizes = (*first.shape[:dimension], size, *first.shape[dimension + 1 :])
        return (first.update(shape=sizes, weak_type=all(x.weak_type for x in xs)),)

    def reference(self, *xs: Any, dimension: int) -> Any:
        return (np.concatenate(xs, dimension),)

    def jvp(self, primals: Any, tangents: Any, *, dimension: int) -> Any:
        out = self.bind1(*primals, dimension=dimension)
        if all(t is None for t in tangents):
            return (out,), (None,)
        tangents = [base.instantiate(t, x) for t, x in zip(tangents, primals, strict=True)]
        return (out,), (self.bind1(*tangents, dimension=dimension),)

    def transpose(self, cotangents: Any, operands: Any, *, dimension: int) -> Any:
        (t,) = cotangents
        if t is None:
            return (None,) * len(operands)
        sizes = [aval_of(x).shape[dimension] for x in operands]
        parts = split_p.bind(t, sizes=tuple(sizes), axis=dimension)
        return tuple([part if type(x) is Linear else None for part, x in zip(parts, operands, strict=True)])

    def batch(self, axis: Any, operands: Any, dims: Any, *, dimension: int) -> Any:
        place = next(d for d in dims if d is not None)
        moved = [shape.align_batch(x, d, axis.size, place) for x, d in zip(operands, dims, strict=True)]
        return (self.bind1(*moved, dimension=dimension + (dimension >= place)),), (place,)

    def lower(self, b: Any, ins: Any, outs: Any, *, dimension: int) -> Any:
        if len(ins) == 1:
            return list(ins)
        dtype = dtypes.whole_bytes(outs[0].dtype)  # XLA aborts the process over pieces of 2-bit integers
        ins = [b.convert(x, dtype) for x in ins]
        out = outs[0].update(dtype=dtype)
        types = ", ".join(x.hlo for x in ins)
        names = ", ".join(map(str, ins))
        joined = b.emit(f"stablehlo.concatenate {names}, dim = {dimension} : ({types}) -> {out.hlo}", out)
        return [b.convert(joined, outs[0].dtype)]


class Split(Primitive):
    """Consecutive pieces of the given sizes along `axis`."""

    exact = True

    terms = True

    def spread(self, ins: Any, avals: Any, outs: Any, params: Any) -> Any:
        """As the operand, where the pieces can be cut so."""
        return [rules.changed_sizes(ins[0], avals[0].shape, out.shape) for out in outs]

    def infer(self, x: Any, *, sizes: tuple[int, ...], axis: int) -> Any:
        if sum(sizes) != x.shape[axis] or any(size < 0 for size in sizes):
            raise errors.ShapeError(f"sizes {sizes} must add up to the size {x.shape[axis]} of axis {axis}")
        return tuple([x.update(shape=(*x.shape[:axis], size, *x.shape[axis + 1 :])) for size in sizes])

    def reference(self, x: Any, *, sizes: tuple[int, ...], axis: int) -> Any:
        return tuple(np.split(x, np.cumsum(sizes[:-1]), axis)) if sizes else ()

    def jvp(self, primals: Any, tangents: Any, *, sizes: Any, axis: int) -> Any:
        outs = self.bind(*primals, sizes=sizes, axis=axis)
        if tangents[0] is None:
            return outs, (None,) * len(outs)
        return outs, self.bind(*tangents, sizes=sizes, axis=axis)

    def transpose(self, cotangents: Any, operands: Any, *, sizes: Any, axis: int) -> Any:
        if all(t is None for t in cotangents):
            return (None,)
        (x,) = operands
        avals = self.outputs((x.aval,), {"sizes": sizes, "axis": axis})
        parts = [shape.full_like_aval(a, 0) if t is None else t for t, a in zip(cotangents, avals, strict=True)]
        return (concatenate_p.bind1(*parts, dimension=axis),)

    def batch(self, axis_data: Any, operands: Any, dims: Any, *, sizes: Any, axis: int) -> Any:
        (d,) = dims
        return self.bind(operands[0], sizes=sizes, axis=axis + (axis >= d)), (d,) * len(sizes)

    def lower(self, b: Any, ins: Any, outs: Any, *, sizes: Any, axis: int) -> Any:
        (x,) = ins
        results, start = [], 0
        for size, out in zip(sizes, outs, strict=True):
            ranges = [f"{start}:{start + size}" if d == axis else f"0:{n}" for d, n in enumerate(x.shape)]
            results.append(b.emit(f"stablehlo.slice {x} [{', '.join(ranges)}] : ({x.hlo}) -> {out.hlo}", out))
            start += size
        return results


class Pad(Primitive):
    """Put `padding_value` around (low, high; negative removes) and between (interior) the elements of each axis."""

    exact = True

    terms = True

    def spread(self, ins: Any, avals: Any, outs: Any, params: Any) -> Any:
        """As the operand, where the result can be cut so."""
        return [rules.changed_sizes(ins[0], avals[0].shape, outs[0].shape)]

    def infer(self, x: Any, value: Any, *, padding_config: tuple[tuple[int, int, int], ...]) -> Any:
        if x.dtype != value.dtype:
            raise errors.DTypeError("the padding value must have the dtype of the operand")
        if value.ndim:
            raise errors.ShapeError(f"the padding value must be a scalar, got shape {value.shape}")
        if len(padding_config) != x.ndim:
            raise errors.ShapeError(f"padding_config must have one (low, high, interior) for each of {x.ndim} axes")
        if any(interior < 0 for _, _, interior in padding_config):
            raise errors.ShapeError(f"interior padding must be non-negative, got {padding_config}")
        sizes = tuple([padded_size(n, *config) for n, config in zip(x.shape, padding_config, strict=True)])
        if any(n < 0 for n in sizes):
            raise errors.ShapeError(f"negative padding {padding_config} removes more than the operand has")
        return (x.update(shape=sizes, weak_type=x.weak_type and value.weak_type),)

    def reference(self, x: Any, value: Any, *, padding_config: Any) -> Any:
        out = np.full([padded_size(n, *c) for n, c in zip(x.shape, padding_config, strict=True)], value, x.dtype)
        source, target = [], []
        for n, size, (low, _, interior) in zip(x.shape, out.shape, padding_config, strict=True):
            step = interior + 1
            first = max(0, -(low // step))  # the first element that lands inside
            last = min(n, (size - 1 - low) // step + 1)
            source.append(builtins.slice(first, max(first, last)))
            target.append(builtins.slice(low + first * step, max(0, low + (max(first, last) - 1) * step + 1), step))
        if all(s.start < s.stop for s in source):
            out[tuple(target)] = x[tuple(source)]
        return (out,)

    def jvp(self, primals: Any, tangents: Any, *, padding_config: Any) -> Any:
        out = self.bind1(*primals, padding_config=padding_config)
        if all(t is None for t in tangents):
            return (out,), (None,)
        tangents = [base.instantiate(t, x) for t, x in zip(tangents, primals, strict=True)]
        return (out,), (self.bind1(*tangents, padding_config=padding_config),)

    def transpose(self, cotangents: Any, operands: Any, *, padding_config: Any) -> Any:
        (t,) = cotangents
        if t is None:
            return (None, None)
        x, value = operands
        negated = tuple([(-low, -high, 0) for low, high, _ in padding_config])
        inner = strided(
            self.bind1(t, shape.full_like_aval(array_aval((), aval_of(t).dtype), 0), padding_config=negated),
            tuple([interior + 1 for _, _, interior in padding_config]),
        )
        t_x = inner if type(x) is Linear else None
        if type(value) is not Linear:
            return t_x, None
        axes = tuple(range(len(padding_config)))
        total = reduction.reduce_sum_p.bind1(t, axes=axes)
        return t_x, elementwise.sub(total, reduction.reduce_sum_p.bind1(inner, axes=axes))

    def batch(self, axis: Any, operands: Any, dims: Any, *, padding_config: Any) -> Any:
        (x, value), (dx, dv) = operands, dims
        if dx is None:
            x, dx = shape.broadcast_batch(x, axis.size, 0), 0
        config = (*padding_config[:dx], (0, 0, 0), *padding_config[dx:])
        if dv is None:
            return (self.bind1(x, value, padding_config=config),), (dx,)
        aval = aval_of(x)
        padded = self.bind1(x, shape.full_like_aval(array_aval((), aval.dtype), 0), padding_config=config)
        inside = self.bind1(shape.full(aval.shape, True), np.False_, padding_config=config)
        around = shape.broadcast_in_dim(value, aval_of(padded).shape, (dx,))
        return (elementwise.select(inside, padded, around),), (dx,)

    def lower(self, b: Any, ins: Any, outs: Any, *, padding_config: Any) -> Any:
        (x, value), (out,) = ins, outs
        low, high, interior = ([c[i] for c in padding_config] for i in range(3))
        return [b.emit(f"stablehlo.pad {x}, {value}, low = {low}, high = {high}, interior = {interior} : "
                       f"({x.hlo}, {value.hlo}) -> {out.hlo}", out)]  # fmt: skip


class Slice(LinearUnary):
    """Elements from `start_indices` up to `limit_indices` in steps of `strides`, along each axis."""

    exact = True

    terms = True

    def spread(self, ins: Any, avals: Any, outs: Any, params: Any) -> Any:
        """As the operand, where the result can be cut so."""
        return [rules.changed_sizes(ins[0], avals[0].shape, outs[0].shape)]

    def infer(self, x: Any, *, start_indices: Any, limit_indices: Any, strides: Any) -> Any:
        if not len(start_indices) == len(limit_indices) == len(strides) == x.ndim:
            raise errors.ShapeError(
                f"start_indices, limit_indices and strides must have one entry for each of {x.ndim} axes"
            )
        for n, start, limit, stride in zip(x.shape, start_indices, limit_indices, strides, strict=True):
            if not 0 <= start <= limit <= n:
                raise errors.ShapeError(f"slice must satisfy 0 <= start <= limit <= size for each axis, got start_indices "
                                        f"{start_indices} and limit_indices {limit_indices} for shape {x.shape}")  # fmt: skip
            if stride <= 0:
                raise errors.ShapeError(f"slice strides must be positive, got {strides}")
        steps = zip(start_indices, limit_indices, strides, strict=True)
        return (x.update(shape=[-((start - limit) // stride) for start, limit, stride in steps]),)

    def reference(self, x: Any, *, start_indices: Any, limit_indices: Any, strides: Any) -> Any:
        return (x[tuple(map(builtins.slice, start_indices, limit_indices, strides))],)

    def transpose(self, cotangents: Any, operands: Any, *, start_indices: Any, limit_indices: Any, strides: Any) -> Any:
        (t,) = cotangents
        if t is None:
            return (None,)
        config = []
        for n, m, start, stride in zip(operands[0].aval.shape, aval_of(t).shape, start_indices, strides, strict=True):
            used = (m - 1) * stride + 1 if m else 0
            config.append((start, n - start - used, stride - 1))
        zero = shape.scalar(0, aval_of(t).dtype)
        return (pad_p.bind1(t, zero, padding_config=tuple(config)),)

    def batch(
        self, axis: Any, operands: Any, dims: Any, *, start_indices: Any, limit_indices: Any, strides: Any
    ) -> Any:
        (d,) = dims
        return (
            self.bind1(
                operands[0],
                start_indices=(*start_indices[:d], 0, *start_indices[d:]),
                limit_indices=(*limit_indices[:d], axis.size, *limit_indices[d:]),
                strides=(*strides[:d], 1, *strides[d:]),
            ),
        ), dims

    def lower(self, b: Any, ins: Any, outs: Any, *, start_indices: Any, limit_indices: Any, strides: Any) -> Any:
        (x,), (out,) = ins, outs
        ranges = ", ".join(f"{i}:{j}:{k}" for i, j, k in zip(start_indices, limit_indices, strides, strict=True))
        return [b.emit(f"stablehlo.slice {x} [{ranges}] : ({x.hlo}) -> {out.hlo}", out)]


concatenate_p = Concatenate("concatenate")
split_p = Split("split")
pad_p = Pad("pad")
slice_p = Slice("slice")


def padded_size(size: int, low: int, high: int, interior: int) -> int:
    """Size of an axis after padding."""
    return low + high + size + max(size - 1, 0) * interior


# --- the user's functions ---------------------------------------------------------------------------------------------


def concatenate(operands: Any, dimension: int) -> Any:
    """Join arrays of equal dtype along an existing axis.

    Parameters
    ----------
    operands : sequence of array, or array
        Equal shapes except along `dimension`; an array stands for its rows.
    dimension : int

    Returns
    -------
    array

    Raises
    ------
    ShapeError, DTypeError
        Shapes or dtypes do not fit.
    ValueError
        There are no operands.
    """
    xs = list(operands)
    if not xs:
        raise errors.ShapeError("concatenate requires a non-empty sequence of arrays")
    axis = operator.index(dimension)
    ndim = aval_of(xs[0]).ndim
    if not 0 <= axis < ndim:
        raise errors.ShapeError(f"concatenate dimension {axis} is out of bounds for operands with {ndim} axes")
    if len(xs) == 1 and hasattr(xs[0], "aval"):
        return xs[0]
    return concatenate_p.bind1(*xs, dimension=axis)


def stack(operands: Sequence[Any], axis: int = 0) -> Any:
    """Join arrays of equal shape and dtype along a new axis.

    Raises
    ------
    ShapeError
        No arrays, or shapes that differ.
    """
    xs = list(operands)
    if not xs:
        raise errors.ShapeError("stack requires a non-empty sequence of arrays")
    axis = shape.canonical_axis(axis, aval_of(xs[0]).ndim + 1)
    return concatenate([shape.expand_dims(x, (axis,)) for x in xs], axis)


def unstack(x: Any, axis: int = 0) -> tuple[Any, ...]:
    """The slices of `x` along `axis`, each without that axis."""
    aval = aval_of(x)
    axis = shape.canonical_axis(axis, aval.ndim)
    parts = split_p.bind(x, sizes=(1,) * aval.shape[axis], axis=axis)
    return tuple([shape.squeeze_p.bind1(part, dimensions=(axis,)) for part in parts])


def split(operand: Any, sizes: Sequence[int], axis: int = 0) -> list[Any]:
    """Consecutive pieces of the given sizes along `axis`; the sizes add up to the axis.

    Parameters
    ----------
    operand : array
    sizes : sequence of int
    axis : int

    Returns
    -------
    list of arrays of the operand's dtype
    """
    axis = shape.canonical_axis(axis, aval_of(operand).ndim)
    return list(split_p.bind(operand, sizes=tuple([as_size(size) for size in sizes]), axis=axis))


def pad(operand: Any, padding_value: Any, padding_config: Sequence[tuple[int, int, int]]) -> Any:
    """Pad around and between the elements of each axis.

    Parameters
    ----------
    operand : array
    padding_value : scalar of the operand's dtype
    padding_config : sequence of (low, high, interior)
        One row per axis; negative `low` and `high` remove elements.

    Returns
    -------
    array of the operand's dtype

    Raises
    ------
    ShapeError, DTypeError
        The configuration or the value does not fit.
    """
    aval, value = aval_of(operand), aval_of(padding_value)
    config = tuple([tuple([as_size(n) for n in row]) for row in padding_config])
    if aval.dtype != value.dtype and value.weak_type and isinstance(padding_value, (int, float, complex)):
        padding_value = operands.scalar(padding_value, aval.dtype)
    return pad_p.bind1(operand, padding_value, padding_config=config)


def tile(operand: Any, reps: Sequence[int]) -> Any:
    """Repeat `operand` `reps[i]` times along axis `i`.

    Raises
    ------
    ShapeError
        `reps` has not one entry for each axis.
    """
    sizes, counts = aval_of(operand).shape, shape.canonical_shape(reps)
    if len(counts) != len(sizes):
        raise errors.ShapeError(f"tile: reps {counts} must have one entry for each axis of shape {sizes}")
    wide = tuple([n for pair in zip(counts, sizes, strict=True) for n in pair])
    repeated = shape.broadcast_in_dim(operand, wide, range(1, len(wide), 2))
    return shape.reshape(repeated, [r * n for r, n in zip(counts, sizes, strict=True)])


def slice(
    operand: Any, start_indices: Sequence[int], limit_indices: Sequence[int], strides: Sequence[int] | None = None
) -> Any:
    """A static slice.

    Parameters
    ----------
    operand : array
    start_indices, limit_indices : sequence of int
        First element and end (exclusive) along each axis, within the array.
    strides : sequence of int, optional
        Positive steps; default 1.

    Returns
    -------
    array of the operand's dtype

    Raises
    ------
    ShapeError
        The bounds do not fit the operand.
    """
    starts = tuple([as_size(i) for i in start_indices])
    limits = tuple([as_size(i) for i in limit_indices])
    steps = (1,) * len(starts) if strides is None else tuple([operator.index(i) for i in strides])
    if hasattr(operand, "aval") and limits == operand.aval.shape and not any(starts) and set(steps) <= {1}:
        return operand
    return slice_p.bind1(operand, start_indices=starts, limit_indices=limits, strides=steps)


def strided(x: Any, strides: tuple[int, ...]) -> Any:
    """Every `strides[i]`-th element along each axis, from the first."""
    sizes = aval_of(x).shape
    if all(stride == 1 for stride in strides):
        return x
    return slice_p.bind1(x, start_indices=(0,) * len(sizes), limit_indices=sizes, strides=strides)


def slice_in_dim(operand: Any, start_index: int | None, limit_index: int | None, stride: int = 1, axis: int = 0) -> Any:
    """A static slice along one axis; negative bounds count from the end, None means the end of the array.

    Parameters
    ----------
    operand : array
    start_index, limit_index : int or None
    stride : int
    axis : int

    Returns
    -------
    array of the operand's dtype
    """
    sizes = aval_of(operand).shape
    axis = shape.canonical_axis(axis, len(sizes))
    n = sizes[axis]
    start = 0 if start_index is None else as_size(start_index)
    limit = n if limit_index is None else as_size(limit_index)
    starts, limits, strides = [0] * len(sizes), list(sizes), [1] * len(sizes)
    starts[axis] = start + n if start < 0 else start
    limits[axis] = limit + n if limit < 0 else limit
    strides[axis] = operator.index(stride)
    return slice(operand, starts, limits, strides)


def index_in_dim(operand: Any, index: int, axis: int = 0, keepdims: bool = True) -> Any:
    """The slice at a static index along one axis, with that axis kept (size 1) or dropped.

    Parameters
    ----------
    operand : array
    index : int
        Negative ones count from the end.
    axis : int
    keepdims : bool

    Returns
    -------
    array of the operand's dtype

    Raises
    ------
    IndexOutOfBoundsError
        The index is outside the axis.
    """
    sizes = aval_of(operand).shape
    axis, place = shape.canonical_axis(axis, len(sizes)), operator.index(index)
    n = sizes[axis]
    if not -n <= place < n:
        raise errors.IndexOutOfBoundsError(f"index {place} is out of bounds for axis {axis} with size {n}")
    place += n if place < 0 else 0
    piece = slice_in_dim(operand, place, place + 1, axis=axis)
    return piece if keepdims else shape.squeeze_p.bind1(piece, dimensions=(axis,))


from purax.primitives import base, elementwise, operands, reduction, shape  # noqa: E402  (siblings import this module's names)
