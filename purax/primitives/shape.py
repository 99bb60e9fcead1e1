# SPDX-License-Identifier: Apache-2.0
"""Data movement with static shapes: broadcast, reshape, transpose, reverse, iota, and what they build.

Every primitive here is linear and moves elements without touching their bits, so `reference` is exact for all dtypes. Most
references return views of their operand. Cutting and joining (`joining.py`) belong to the same family and are offered here too.
"""

from __future__ import annotations

import builtins
import math
import operator
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from purax import dtypes, errors
from purax.core.aval import array_aval
from purax.core.hooks import hooks
from purax.core.primitive import Primitive
from purax.core.trace import aval_of
from purax.lazy import lazy
from purax.primitives.base import LinearUnary
from purax.runtime.array import wrap_host

__all__ = [
    "broadcast",
    "broadcast_in_dim",
    "broadcast_in_dim_p",
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

transfer = lazy("purax.runtime.transfer")

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
            if type(size) is not int or size < 0:
                break
        else:
            return shape
    try:
        sizes = (operator.index(shape),) if not np.iterable(shape) else tuple([operator.index(size) for size in shape])
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
            raise errors.ShapeError(f"Incompatible shapes for broadcasting: shapes={tuples}")
        result.append(wide.pop() if wide else 1)
    return tuple(result)


# --- broadcast, reshape, transpose, squeeze ----------------------------------------------------------------------------


class BroadcastInDim(LinearUnary):
    """Operand axis `i` becomes axis `broadcast_dimensions[i]` of `shape`; the other axes repeat."""

    exact = True

    def infer(self, x: Any, *, shape: tuple[int, ...], broadcast_dimensions: tuple[int, ...]) -> Any:
        dims = broadcast_dimensions
        if len(dims) != x.ndim:
            raise errors.ShapeError(f"broadcast_dimensions {dims} must name one axis for each of the {x.ndim} operand axes")
        if any(a >= b for a, b in pairwise(dims)):
            raise errors.ShapeError(f"broadcast_dimensions must be strictly increasing, got {dims}")
        if any(not 0 <= d < len(shape) for d in dims):
            raise errors.ShapeError(f"broadcast_dimensions {dims} must be axes of the result shape {shape}")
        if any(size not in (1, shape[d]) for size, d in zip(x.shape, dims, strict=True)):
            raise errors.ShapeError(f"operand sizes must be 1 or equal those of shape {shape} at broadcast_dimensions {dims}")
        return (x.update(shape=shape),)

    def reference(self, x: Any, *, shape: tuple[int, ...], broadcast_dimensions: tuple[int, ...]) -> Any:
        if len(shape) != x.ndim:
            sizes = [1] * len(shape)
            for size, d in zip(x.shape, broadcast_dimensions, strict=True):
                sizes[d] = size
            x = x.reshape(sizes)
        return (np.broadcast_to(x, shape),)

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
        place = broadcast_dimensions[d] if d < len(broadcast_dimensions) else len(shape)
        before = broadcast_dimensions[:d]
        after = tuple([b + 1 for b in broadcast_dimensions[d:]])
        shape = (*shape[:place], axis.size, *shape[place:])
        return (self.bind1(x, shape=shape, broadcast_dimensions=(*before, place, *after)),), (place,)

    def lower(self, b: Any, ins: Any, outs: Any, *, shape: Any, broadcast_dimensions: Any) -> Any:
        return [b.broadcast(ins[0], broadcast_dimensions, outs[0])]


class Reshape(LinearUnary):
    """The same elements, in row-major order, with another shape."""

    exact = True

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


# --- iota -------------------------------------------------------------------------------------


class Iota(Primitive):
    """0, 1, 2, ... along `dimension` of `shape`."""

    exact = True

    def infer(self, *, dtype: Any, shape: tuple[int, ...], dimension: int) -> Any:
        if dtypes.is_key(dtype) or dtypes.is_bool(dtype):
            raise errors.DTypeError(f"iota does not accept dtype {dtype}; ask for a numeric dtype")
        if not 0 <= dimension < len(shape):
            raise errors.ShapeError(f"dimension {dimension} must be an axis of shape {shape}")
        return (array_aval(shape, dtype),)

    def reference(self, *, dtype: Any, shape: tuple[int, ...], dimension: int) -> Any:
        line = np.arange(shape[dimension]).astype(dtype)
        return (np.broadcast_to(line.reshape([-1 if d == dimension else 1 for d in range(len(shape))]), shape),)

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> Any:
        return self.bind(**params), (None,)

    def batch(self, axis: Any, operands: Any, dims: Any, **params: Any) -> Any:
        return self.bind(**params), (None,)

    def lower(self, b: Any, ins: Any, outs: Any, *, dtype: Any, shape: Any, dimension: int) -> Any:
        return [b.emit(f"stablehlo.iota dim = {dimension} : {outs[0].hlo}", outs[0])]


iota_p = Iota("iota")


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


@lru_cache(maxsize=4096)
def _remembered_scalar(kind: Any, value: Any, negative: bool, dtype: Any, weak: bool) -> Any:
    with np.errstate(all="ignore"):
        return wrap_host(array_aval((), dtype, weak), np.asarray(value).astype(dtype))


def scalar(value: Any, dtype: Any, weak: bool = False) -> Any:
    """The Python or NumPy scalar `value` as a scalar Array of exactly `dtype`."""
    kind: Any = type(value)
    if kind is int or kind is bool or (kind is float and value == value):
        # 0 == 0.0 == -0.0 == False, so type and sign are part of the key.
        return _remembered_scalar(kind, value, kind is float and math.copysign(1.0, value) < 0, dtype, weak)
    with np.errstate(all="ignore"):
        return wrap_host(array_aval((), dtype, weak), np.asarray(value).astype(dtype))


def full_like_aval(aval: Any, value: Any) -> Any:
    """An array of the shape and dtype of `aval`, strongly typed, filled with the scalar `value`."""
    if aval.dtype == dtypes.float0:
        return np.zeros(aval.shape, dtypes.float0)
    fill = scalar(value, aval.dtype)
    return _own(fill) if not aval.shape else broadcast_in_dim_p.bind1(fill, shape=aval.shape, broadcast_dimensions=())


def _own(x: Any) -> Any:
    """A remembered scalar as an array that its receiver may donate or delete."""
    return wrap_host(x.aval, x._np) if type(x) is hooks.array_type and x._np is not None else x


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
    out_sharding : sharding, optional
        Layout of the result over devices.

    Returns
    -------
    array of the operand's dtype

    Raises
    ------
    ShapeError
        The axes do not fit.
    """
    shape = canonical_shape(shape)
    dims = tuple([operator.index(d) for d in broadcast_dimensions])
    aval = aval_of(operand)
    if aval.shape == shape and dims == tuple(range(aval.ndim)) and hasattr(operand, "aval"):
        return operand
    return broadcast_in_dim_p.bind1(operand, shape=shape, broadcast_dimensions=dims)


def broadcast(operand: Any, sizes: Sequence[int], *, out_sharding: Any = None) -> Any:
    """Repeat `operand` along new leading axes of the given sizes."""
    shape, inner = canonical_shape(sizes), aval_of(operand).shape
    dims = tuple(range(len(shape), len(shape) + len(inner)))
    return broadcast_in_dim(operand, (*shape, *inner), dims, out_sharding=out_sharding)


def broadcast_to_rank(x: Any, rank: int) -> Any:
    """Add leading axes of size 1 until `x` has `rank` axes."""
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
        raise errors.ShapeError(f"Incompatible shapes for broadcasting: {aval.shape} and requested shape {shape}")
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
    out_sharding : sharding, optional
        Layout of the result over devices.

    Returns
    -------
    array of the operand's dtype

    Raises
    ------
    ShapeError
        The sizes differ.
    """
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
    if order == tuple(range(len(order))) and getattr(operand, "aval", None) is not None and operand.aval.ndim == len(order):
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


def iota(dtype: Any, size: int) -> Any:
    """0, 1, ..., size - 1."""
    return broadcasted_iota(dtype, (size,), 0)


def broadcasted_iota(dtype: Any, shape: Sequence[int], dimension: int, *, out_sharding: Any = None) -> Any:
    """Index of each element along `dimension` of `shape`, as `dtype`."""
    shape = canonical_shape(shape)
    return iota_p.bind1(dtype=dtypes.named(dtype), shape=shape, dimension=canonical_axis(dimension, len(shape)))


def collapse(operand: Any, start_dimension: int, stop_dimension: int | None = None) -> Any:
    """Merge the axes from `start_dimension` up to (not including) `stop_dimension` into one."""
    shape = aval_of(operand).shape
    start, stop, _ = builtins.slice(start_dimension, stop_dimension).indices(len(shape))
    if stop < start:
        raise errors.ShapeError(f"collapse: start_dimension {start_dimension} lies behind stop_dimension {stop_dimension}")
    return reshape(operand, (*shape[:start], math.prod(shape[start:stop]), *shape[stop:]))


def full(shape: Any, fill_value: Any, dtype: Any = None, *, sharding: Any = None) -> Any:
    """An array filled with one value.

    Parameters
    ----------
    shape : int or sequence of int
    fill_value : scalar
    dtype : dtype, optional
        Default: that of `fill_value`, with its weak type.
    sharding : sharding, optional
        Where the result lives.

    Returns
    -------
    array of shape `shape`

    Raises
    ------
    ShapeError
        `fill_value` is not a scalar.
    """
    shape = canonical_shape(shape)
    aval = aval_of(fill_value)
    if aval.shape:
        raise errors.ShapeError(f"full must be called with scalar fill_value, got fill_value.shape {aval.shape}.")
    if dtype is not None:
        fill_value = _fill_of(fill_value, dtypes.named(dtype), False)
    elif not hasattr(fill_value, "aval"):
        fill_value = hooks.as_array(fill_value)
    result = _own(fill_value) if not shape else broadcast_in_dim_p.bind1(fill_value, shape=shape, broadcast_dimensions=())
    return _placed(result, sharding)


def _fill_of(value: Any, dtype: Any, weak: bool) -> Any:
    """`value` as a scalar of `dtype`."""
    if isinstance(value, (bool, int, float, complex)) and not dtypes.is_key(dtype):
        return scalar(value, dtype, weak)
    return cast.convert_element_type(value, dtype)


def _placed(x: Any, sharding: Any) -> Any:
    """`x` on the devices of `sharding`, if one is asked for."""
    return x if sharding is None else transfer.device_put(x, sharding)


def full_like(x: Any, fill_value: Any, dtype: Any = None, shape: Any = None, sharding: Any = None) -> Any:
    """An array filled with one value, with the shape, dtype and weak type of `x` unless given."""
    like = x if hasattr(x, "shape") and hasattr(x, "dtype") and not isinstance(x, (np.ndarray, np.generic)) else aval_of(x)
    weak = dtype is None and bool(getattr(like, "weak_type", False))
    dtype = like.dtype if dtype is None else dtypes.named(dtype)
    sizes = canonical_shape(like.shape if shape is None else shape)
    if aval_of(fill_value).shape:
        raise errors.ShapeError(f"full_like must be called with scalar fill_value, got shape {aval_of(fill_value).shape}.")
    fill = _fill_of(fill_value, dtype, weak)
    result = fill if not sizes else broadcast_in_dim_p.bind1(fill, shape=sizes, broadcast_dimensions=())
    return _placed(result, sharding)


def empty(shape: Any, dtype: Any, *, out_sharding: Any = None) -> Any:
    """An array of the given shape and dtype; its elements are zeros."""
    return full(shape, 0, dtype)


from purax.primitives import cast, reduction  # noqa: E402  (siblings import this module's names)
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
