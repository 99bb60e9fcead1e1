# SPDX-License-Identifier: Apache-2.0
"""Data movement with static shapes: broadcast, reshape, transpose, reverse.

Every primitive here is linear and moves elements without touching their bits, so `reference` is exact for all dtypes. Most
references return views of their operand. Filling (`filling.py`) and cutting and joining (`joining.py`) belong to the same
family and are offered here too.
"""

from __future__ import annotations

import builtins
import math
import operator
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from purax import dtypes, errors
from purax.core.dims import Dim, as_size, is_open
from purax.core.hooks import hooks
from purax.core.source import here
from purax.core.trace import aval_of
from purax.primitives.base import LinearUnary
from purax.sharding import rules

__all__ = [
    "broadcast",
    "broadcast_in_dim",
    "broadcast_in_dim_p",
    "broadcast_like",
    "broadcast_shapes",
    "broadcast_to_rank",
    "broadcasted_iota",
    "collapse",
    "concatenate",
    "concatenate_p",
    "dtype",
    "empty",
    "expand_dims",
    "full",
    "full_like",
    "index_in_dim",
    "iota",
    "iota_p",
    "pad",
    "pad_p",
    "reshape",
    "reshape_p",
    "rev",
    "rev_p",
    "shape_as_value",
    "slice",
    "slice_in_dim",
    "slice_p",
    "split",
    "split_p",
    "squeeze",
    "squeeze_p",
    "stack",
    "tile",
    "transpose",
    "transpose_p",
    "unstack",
]

# --- arguments --------------------------------------------------------------------------------------------------------


def canonical_shape(shape: Any) -> tuple[int, ...]:
    """`shape` (an int or a sequence of ints) as a tuple of Python ints.

    Raises
    ------
    ShapeError
        A size is negative or not an integer.
    """
    if type(shape) is tuple:
        for size in shape:
            if (type(size) is not int and type(size) is not Dim) or size < 0:
                break
        else:
            return shape
    try:
        sizes = tuple([as_size(size) for size in shape]) if np.iterable(shape) else (as_size(shape),)
    except errors.TracerError:
        raise
    except TypeError:
        raise errors.ShapeError(f"a shape is a sequence of non-negative integers, not {shape!r}") from None
    if any(size < 0 for size in sizes):
        raise errors.ShapeError(f"a shape is a sequence of non-negative integers, not {sizes}")
    return sizes


def canonical_axis(axis: Any, ndim: int) -> int:
    """`axis` counted from the front.

    Raises
    ------
    ShapeError
        The axis does not exist.
    """
    axis = operator.index(axis)
    if not -ndim <= axis < ndim:
        raise errors.ShapeError(f"axis {axis} is out of bounds for array of dimension {ndim}")
    return axis + ndim if axis < 0 else axis


def canonical_axes(axes: Any, ndim: int) -> tuple[int, ...]:
    """Distinct axes, counted from the front, in the order given."""
    axes = (axes,) if isinstance(axes, int) or not np.iterable(axes) else axes
    found = tuple([canonical_axis(axis, ndim) for axis in axes])
    if len(set(found)) != len(found):
        raise errors.ShapeError(f"axes {found} repeat an axis")
    return found


def broadcast_shapes(*shapes: Sequence[int]) -> tuple[int, ...]:
    """The shape that arrays of the given shapes broadcast to, by NumPy's rule.

    Parameters
    ----------
    *shapes : sequence of int

    Returns
    -------
    tuple of int

    Raises
    ------
    ShapeError
        Sizes differ and neither is 1.
    """
    tuples = [canonical_shape(shape) for shape in shapes]
    if not tuples:
        return ()
    first = tuples[0]
    if all(shape == first for shape in tuples):
        return first
    ndim = max(map(len, tuples))
    result = []
    for sizes in zip(*[(1,) * (ndim - len(shape)) + shape for shape in tuples], strict=True):
        wide = {size for size in sizes if size != 1}
        if len(wide) > 1:
            raise errors.ShapeError(f"Incompatible shapes for broadcasting, at {here()}: shapes={tuples}")
        result.append(wide.pop() if wide else 1)
    return tuple(result)


# --- broadcast, reshape, transpose, squeeze ----------------------------------------------------------------------------


class BroadcastInDim(LinearUnary):
    """Operand axis `i` becomes axis `broadcast_dimensions[i]` of `shape`; the other axes repeat."""

    exact = True

    def carries_terms(self, avals: Any, params: Any) -> bool:
        """Where no axis of size 1 is repeated (jaxlib 0.10.2 repeats each term for each device then)."""
        sizes = zip(avals[0].shape, params["broadcast_dimensions"], strict=True)
        return all(size == params["shape"][d] for size, d in sizes)

    def spread(self, ins: Any, avals: Any, outs: Any, params: Any) -> Any:
        """Axes of the operand lie as they did, the others are not cut."""
        return [rules.broadcast(ins[0], params["shape"], params["broadcast_dimensions"], avals[0].shape)]

    def infer(self, x: Any, *, shape: tuple[int, ...], broadcast_dimensions: tuple[int, ...]) -> Any:
        dims = broadcast_dimensions
        if len(dims) != x.ndim:
            raise errors.ShapeError(
                f"broadcast_dimensions {dims} must name one axis for each of the {x.ndim} operand axes"
            )
        if any(a >= b for a, b in pairwise(dims)):
            raise errors.ShapeError(f"broadcast_dimensions must be strictly increasing, got {dims}")
        if any(not 0 <= d < len(shape) for d in dims):
            raise errors.ShapeError(f"broadcast_dimensions {dims} must be axes of the result shape {shape}")
        if any(size not in (1, shape[d]) for size, d in zip(x.shape, dims, strict=True)):
            raise errors.ShapeError(
                f"operand sizes must be 1 or equal those of shape {shape} at broadcast_dimensions {dims}"
            )
        return (x.update(shape=shape),)

    def reference(self, x: Any, *, shape: tuple[int, ...], broadcast_dimensions: tuple[int, ...]) -> Any:
        if len(shape) != x.ndim:
            sizes = [1] * len(shape)
            for size, d in zip(x.shape, broadcast_dimensions, strict=True):
                sizes[d] = size
            x = x.reshape(sizes)
        if math.prod(shape) > 4096:
            return (np.broadcast_to(x, shape),)
        out = np.empty(shape, x.dtype)  # for few elements a copy takes a third of the time of a view
        out[...] = x
        return (out,)

    def transpose(self, cotangents: Any, operands: Any, *, shape: Any, broadcast_dimensions: Any) -> Any:
        (t,) = cotangents
        if t is None:
            return (None,)
        sizes = operands[0].aval.shape
        repeated = {d for size, d in zip(sizes, broadcast_dimensions, strict=True) if size != shape[d]}
        axes = tuple([d for d in range(len(shape)) if d not in broadcast_dimensions or d in repeated])
        if axes:
            ones = all(shape[d] == 1 for d in axes)
            t = squeeze_p.bind1(t, dimensions=axes) if ones else reduction.reduce_sum_p.bind1(t, axes=axes)
        return (t if not repeated else reshape_p.bind1(t, new_sizes=sizes),)

    def batch(self, axis: Any, operands: Any, dims: Any, *, shape: Any, broadcast_dimensions: Any) -> Any:
        (x,), (d,) = operands, dims
        place = 0 if d == 0 else broadcast_dimensions[d] if d < len(broadcast_dimensions) else len(shape)
        before = broadcast_dimensions[:d]
        after = tuple([b + 1 for b in broadcast_dimensions[d:]])
        shape = (*shape[:place], axis.size, *shape[place:])
        return (self.bind1(x, shape=shape, broadcast_dimensions=(*before, place, *after)),), (place,)

    def lower(self, b: Any, ins: Any, outs: Any, *, shape: Any, broadcast_dimensions: Any) -> Any:
        return [b.broadcast(ins[0], broadcast_dimensions, outs[0])]


class Reshape(LinearUnary):
    """The same elements, in row-major order, with another shape."""

    exact = True

    terms = True

    def spread(self, ins: Any, avals: Any, outs: Any, params: Any) -> Any:
        """Cuts stay with the outermost part of what is split or merged."""
        return [rules.reshaped(ins[0], avals[0].shape, outs[0].shape)]

    def infer(self, x: Any, *, new_sizes: tuple[int, ...]) -> Any:
        if math.prod(new_sizes) != x.size:
            raise errors.ShapeError(f"cannot reshape array of shape {x.shape} (size {x.size}) into shape {new_sizes} "
                                    f"(size {math.prod(new_sizes)})")  # fmt: skip
        return (x.update(shape=new_sizes),)

    def reference(self, x: Any, *, new_sizes: tuple[int, ...]) -> Any:
        return (x.reshape(new_sizes),)

    def transpose(self, cotangents: Any, operands: Any, *, new_sizes: Any) -> Any:
        (t,) = cotangents
        return (None if t is None else self.bind1(t, new_sizes=operands[0].aval.shape),)

    def batch(self, axis: Any, operands: Any, dims: Any, *, new_sizes: Any) -> Any:
        x = move_batch_axis(operands[0], dims[0], 0)
        return (self.bind1(x, new_sizes=(axis.size, *new_sizes)),), (0,)

    def lower(self, b: Any, ins: Any, outs: Any, *, new_sizes: Any) -> Any:
        return [b.reshape(ins[0], new_sizes)]


class Transpose(LinearUnary):
    """Axis `i` of the result is axis `permutation[i]` of the operand."""

    exact = True

    terms = True

    def spread(self, ins: Any, avals: Any, outs: Any, params: Any) -> Any:
        """The cuts move with the axes."""
        return [ins[0].replace([ins[0].parts[p] for p in params["permutation"]])]

    def infer(self, x: Any, *, permutation: tuple[int, ...]) -> Any:
        if sorted(permutation) != list(range(x.ndim)):
            raise errors.ShapeError(f"permutation {permutation} is not a permutation of the {x.ndim} operand axes")
        return (x.update(shape=[x.shape[p] for p in permutation]),)

    def reference(self, x: Any, *, permutation: tuple[int, ...]) -> Any:
        return (x.transpose(permutation),)

    def transpose(self, cotangents: Any, operands: Any, *, permutation: Any) -> Any:
        (t,) = cotangents
        return (None if t is None else self.bind1(t, permutation=inverse_permutation(permutation)),)

    def batch(self, axis: Any, operands: Any, dims: Any, *, permutation: Any) -> Any:
        (d,) = dims
        moved = (d, *[p + (p >= d) for p in permutation])
        return (transpose(operands[0], moved),), (0,)

    def lower(self, b: Any, ins: Any, outs: Any, *, permutation: Any) -> Any:
        (x,), (out,) = ins, outs
        return [b.emit(f"stablehlo.transpose {x}, dims = {list(permutation)} : ({x.hlo}) -> {out.hlo}", out)]


class Squeeze(LinearUnary):
    """Drop the axes `dimensions`, each of size 1."""

    exact = True

    terms = True

    def spread(self, ins: Any, avals: Any, outs: Any, params: Any) -> Any:
        """The axes that stay, lie as they did."""
        return [rules.without(ins[0], params["dimensions"])]

    def infer(self, x: Any, *, dimensions: tuple[int, ...]) -> Any:
        if any(x.shape[d] != 1 for d in dimensions):
            raise errors.ShapeError(f"cannot select an axis to squeeze out which has size not equal to one, "
                                    f"got shape={x.shape} and dimensions={dimensions}")  # fmt: skip
        return (x.update(shape=[size for d, size in enumerate(x.shape) if d not in dimensions]),)

    def reference(self, x: Any, *, dimensions: tuple[int, ...]) -> Any:
        return (x.reshape([size for d, size in enumerate(x.shape) if d not in dimensions]),)

    def transpose(self, cotangents: Any, operands: Any, *, dimensions: Any) -> Any:
        (t,) = cotangents
        return (None if t is None else reshape_p.bind1(t, new_sizes=operands[0].aval.shape),)

    def batch(self, axis: Any, operands: Any, dims: Any, *, dimensions: Any) -> Any:
        (d,) = dims
        # The result counts its axes without the batch axis: shift those at or behind it.
        kept = [i for i in range(aval_of(operands[0]).ndim - 1) if i not in dimensions]
        moved = tuple([i + (i >= d) for i in dimensions])
        return (self.bind1(operands[0], dimensions=moved),), (sum(i < d for i in kept),)

    def lower(self, b: Any, ins: Any, outs: Any, *, dimensions: Any) -> Any:
        return [b.reshape(ins[0], outs[0].shape)]


class Rev(LinearUnary):
    """Reverse the order of elements along `dimensions`."""

    exact = True

    terms = True

    spread = rules.same

    def infer(self, x: Any, *, dimensions: tuple[int, ...]) -> Any:
        return (x,)

    def reference(self, x: Any, *, dimensions: tuple[int, ...]) -> Any:
        return (np.flip(x, dimensions),)

    def transpose(self, cotangents: Any, operands: Any, *, dimensions: Any) -> Any:
        (t,) = cotangents
        return (None if t is None else self.bind1(t, dimensions=dimensions),)

    def batch(self, axis: Any, operands: Any, dims: Any, *, dimensions: Any) -> Any:
        (d,) = dims
        return (self.bind1(operands[0], dimensions=tuple([i + (i >= d) for i in dimensions])),), dims

    def lower(self, b: Any, ins: Any, outs: Any, *, dimensions: Any) -> Any:
        return [b.emit(f"stablehlo.reverse {ins[0]}, dims = {list(dimensions)} : {ins[0].hlo}", outs[0])]


broadcast_in_dim_p = BroadcastInDim("broadcast_in_dim")
reshape_p = Reshape("reshape")
transpose_p = Transpose("transpose")
squeeze_p = Squeeze("squeeze")
rev_p = Rev("rev")


def inverse_permutation(permutation: Sequence[int]) -> tuple[int, ...]:
    """The permutation that undoes `permutation`."""
    inverse = [0] * len(permutation)
    for i, p in enumerate(permutation):
        inverse[p] = i
    return tuple(inverse)


# --- what batching rules need --------------------------------------------------------------------------------------------


def move_batch_axis(x: Any, source: int, target: int) -> Any:
    """`x` with axis `source` moved to `target`, the other axes in their order."""
    if source == target:
        return x
    axes = [d for d in range(aval_of(x).ndim) if d != source]
    axes.insert(target, source)
    return transpose_p.bind1(x, permutation=tuple(axes))


def broadcast_batch(x: Any, size: int, dim: int) -> Any:
    """`x` repeated along a new axis `dim` of the given size."""
    shape = aval_of(x).shape
    dims = tuple([d + (d >= dim) for d in range(len(shape))])
    return broadcast_in_dim_p.bind1(x, shape=(*shape[:dim], size, *shape[dim:]), broadcast_dimensions=dims)


def align_batch(x: Any, dim: int | None, size: int, target: int) -> Any:
    """`x` with its batch axis at `target`: moved there, or made when there is none (`dim` None)."""
    return broadcast_batch(x, size, target) if dim is None else move_batch_axis(x, dim, target)


# --- the user's functions ----------------------------------------------------------------------------------------------------


def dtype(x: Any) -> Any:
    """The dtype that `x` (an array, a scalar, or a dtype itself) has as an array."""
    return dtypes.dtype_and_weak(x)[0]


def broadcast_in_dim(
    operand: Any, shape: Sequence[int], broadcast_dimensions: Sequence[int], *, out_sharding: Any = None
) -> Any:
    """Place the axes of `operand` among those of `shape` and repeat along the others.

    Parameters
    ----------
    operand : array
    shape : sequence of int
        Shape of the result.
    broadcast_dimensions : sequence of int
        Axis of the result for each axis of the operand, strictly increasing; sizes are equal or 1.
    out_sharding : PartitionSpec or NamedSharding, optional
        How the result lies on explicit mesh axes.

    Returns
    -------
    array of the operand's dtype

    Raises
    ------
    ShapeError
        The axes do not fit.
    """
    if out_sharding is not None:
        return resharding.out_sharded(broadcast_in_dim, out_sharding, operand, shape, broadcast_dimensions)
    shape = canonical_shape(shape)
    dims = tuple([operator.index(d) for d in broadcast_dimensions])
    aval = aval_of(operand)
    if aval.shape == shape and dims == tuple(range(aval.ndim)):
        return hooks.as_array(operand)
    return broadcast_in_dim_p.bind1(operand, shape=shape, broadcast_dimensions=dims)


def broadcast(operand: Any, sizes: Sequence[int], *, out_sharding: Any = None) -> Any:
    """Repeat `operand` along new leading axes of the given sizes.

    Parameters
    ----------
    operand : array
    sizes : sequence of int
    out_sharding : PartitionSpec or NamedSharding, optional
        How the result lies on explicit mesh axes.

    Returns
    -------
    array of the operand's dtype
    """
    shape, inner = canonical_shape(sizes), aval_of(operand).shape
    dims = tuple(range(len(shape), len(shape) + len(inner)))
    return broadcast_in_dim(operand, (*shape, *inner), dims, out_sharding=out_sharding)


def broadcast_like(arr: Any, like_arr: Any) -> Any:
    """`arr` broadcast to the shape of `like_arr` by NumPy's rule."""
    return broadcast_to(arr, aval_of(like_arr).shape)


def shape_as_value(shape: Sequence[int]) -> Any:
    """A shape as a value: int32[number of axes]."""
    sizes = canonical_shape(shape)
    if is_open(sizes):
        return hooks.numpy.array(sizes, np.int32)
    return hooks.as_array(np.array(sizes, np.int32))


def broadcast_to_rank(x: Any, rank: int) -> Any:
    """Add leading axes of size 1 until `x` has `rank` axes.

    Raises
    ------
    ShapeError
        `x` has more axes.
    """
    ndim = aval_of(x).ndim
    if ndim > rank:
        raise errors.ShapeError(f"broadcast_to_rank: {ndim} axes are more than the rank {rank} asked for")
    return x if ndim == rank else expand_dims(x, range(rank - ndim))


def broadcast_to(x: Any, shape: tuple[int, ...]) -> Any:
    """`x` broadcast to `shape` by NumPy's rule (axes aligned at the end)."""
    aval = aval_of(x)
    if aval.shape == shape:
        return x
    first = len(shape) - aval.ndim
    if first < 0 or any(n not in (1, m) for n, m in zip(aval.shape, shape[first:], strict=True)):
        raise errors.ShapeError(
            f"Incompatible shapes for broadcasting, at {here()}: {aval.shape} and requested shape {shape}"
        )
    return broadcast_in_dim_p.bind1(x, shape=shape, broadcast_dimensions=tuple(range(first, len(shape))))


def reshape(
    operand: Any, new_sizes: Sequence[int], dimensions: Sequence[int] | None = None, *, out_sharding: Any = None
) -> Any:
    """Give the elements another shape.

    Parameters
    ----------
    operand : array
    new_sizes : sequence of int
        Shape of the result, of the same size.
    dimensions : sequence of int, optional
        Order in which the operand's axes are read; default: first to last.
    out_sharding : PartitionSpec or NamedSharding, optional
        How the result lies on explicit mesh axes.

    Returns
    -------
    array of the operand's dtype

    Raises
    ------
    ShapeError
        The sizes differ.
    """
    if out_sharding is not None:
        return resharding.out_sharded(reshape, out_sharding, operand, new_sizes, dimensions)
    sizes = canonical_shape(new_sizes)
    aval = aval_of(operand)
    if dimensions is not None:
        operand = transpose(operand, dimensions)
        aval = aval_of(operand)
    if aval.shape == sizes and hasattr(operand, "aval"):
        return operand
    return reshape_p.bind1(operand, new_sizes=sizes)


def transpose(operand: Any, permutation: Sequence[int]) -> Any:
    """Permute the axes: axis `i` of the result is axis `permutation[i]` of the operand.

    Raises
    ------
    ShapeError
        `permutation` is not a permutation of the axes.
    """
    order = tuple([operator.index(p) for p in permutation])
    if (
        order == tuple(range(len(order)))
        and getattr(operand, "aval", None) is not None
        and operand.aval.ndim == len(order)
    ):
        return operand
    return transpose_p.bind1(operand, permutation=order)


def squeeze(array: Any, dimensions: Sequence[int]) -> Any:
    """Drop the axes `dimensions`, which must have size 1."""
    axes = canonical_axes(dimensions, aval_of(array).ndim)
    if not axes and hasattr(array, "aval"):
        return array
    return squeeze_p.bind1(array, dimensions=tuple(sorted(axes)))


def expand_dims(array: Any, dimensions: Sequence[int]) -> Any:
    """Insert axes of size 1; `dimensions` are their places in the result."""
    shape = aval_of(array).shape
    dimensions = (dimensions,) if isinstance(dimensions, int) else tuple(dimensions)
    ndim = len(shape) + len(dimensions)
    new = set(canonical_axes(dimensions, ndim))
    kept = tuple([d for d in range(ndim) if d not in new])
    sizes = iter(shape)
    return broadcast_in_dim(array, tuple([1 if d in new else next(sizes) for d in range(ndim)]), kept)


def rev(operand: Any, dimensions: Sequence[int]) -> Any:
    """Reverse the order of elements along `dimensions`."""
    return rev_p.bind1(operand, dimensions=canonical_axes(dimensions, aval_of(operand).ndim))


def collapse(operand: Any, start_dimension: int, stop_dimension: int | None = None) -> Any:
    """Merge the axes from `start_dimension` up to (not including) `stop_dimension` into one.

    Parameters
    ----------
    operand : array
    start_dimension, stop_dimension : int
        Negative ones count from the end; None is the end.

    Returns
    -------
    array of the operand's dtype

    Raises
    ------
    ShapeError
        The first lies behind the second.

    Examples
    --------
    >>> purax.lax.collapse(pnp.zeros((2, 3, 4)), 0, 2).shape
    (6, 4)
    """
    shape = aval_of(operand).shape
    start, stop, _ = builtins.slice(start_dimension, stop_dimension).indices(len(shape))
    if stop < start:
        raise errors.ShapeError(
            f"collapse: start_dimension {start_dimension} lies behind stop_dimension {stop_dimension}"
        )
    return reshape(operand, (*shape[:start], math.prod(shape[start:stop]), *shape[stop:]))


from purax.primitives import reduction, resharding  # noqa: E402  (siblings import this module's names)
from purax.primitives.filling import (  # noqa: E402
    broadcasted_iota,
    empty,
    full,
    full_like,
    iota,
    iota_p,
)
from purax.primitives.filling import full_like_aval as full_like_aval  # noqa: E402
from purax.primitives.filling import scalar as scalar  # noqa: E402
from purax.primitives.joining import (  # noqa: E402
    concatenate,
    concatenate_p,
    index_in_dim,
    pad,
    pad_p,
    slice,
    slice_in_dim,
    slice_p,
    split,
    split_p,
    stack,
    tile,
    unstack,
)
