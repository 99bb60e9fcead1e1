# SPDX-License-Identifier: Apache-2.0
"""Shapes and axes: reshape, transpose, join, split, repeat, roll, flip.

Results have the dtype of the operand, those of joins the common one or `dtype`. An axis that does not exist raises ValueError.

Parameters
----------
a, x, m, array, arr, ary : array
arrays, tup : sequence of arrays, or an array, which stands for its rows
axis : int, optional
    Negative axes count from the end.
axis1, axis2 : int
dtype : dtype, optional
    Of the result.
indices_or_sections : int or sequence of int
    Number of equal parts, or the places where parts end.
out_sharding : Sharding, optional
    Where the result lies.
"""

from __future__ import annotations

import builtins
import itertools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from purax import dtypes, errors
from purax.core.aval import unwrapped
from purax.core.dims import Dim, as_size
from purax.core.trace import Tracer, aval_of
from purax.numpy import _ops as ops
from purax.numpy.creation import placed
from purax.numpy.promotion import (
    as_operand,
    broadcast_to_shape,
    check_arraylike,
    convert,
    joint_shape,
    promote_dtypes,
    refuse,
    spread,
)
from purax.numpy.reduction import reduced_axes
from purax.primitives.resharding import is_explicit, out_sharded
from purax.primitives.shape import canonical_shape
from purax.runtime.array import Array, wrap_host
from purax.transforms.vmap import vmap

__all__ = [
    "append", "apply_along_axis", "apply_over_axes", "array_split", "astype", "atleast_1d", "atleast_2d", "atleast_3d", "block",
    "broadcast_arrays", "broadcast_shapes", "broadcast_to", "column_stack", "concat", "concatenate", "dsplit", "dstack",
    "expand_dims", "flip", "fliplr", "flipud", "hsplit", "hstack", "matrix_transpose", "moveaxis", "ndim", "permute_dims",
    "ravel", "repeat", "reshape", "resize", "roll", "rollaxis", "rot90", "shape", "size", "split", "squeeze", "stack", "swapaxes",
    "tile", "transpose", "unstack", "vsplit", "vstack",
]  # fmt: skip


def _array(name: str, x: Any) -> Any:
    if hasattr(x, "aval"):
        return x
    check_arraylike(name, x)
    return as_operand(x)


# ---- what an array is


def shape(a: Any) -> tuple[int, ...]:
    """The shape of an array, or of nested sequences."""
    a = unwrapped(a)
    return tuple(a.shape) if hasattr(a, "shape") else np.shape(a)


def ndim(a: Any) -> int:
    """The number of axes."""
    a = unwrapped(a)
    return int(a.ndim) if hasattr(a, "ndim") else np.ndim(a)


def size(a: Any, axis: int | Sequence[int] | None = None) -> int:
    """The number of elements, an int, of all axes or of those that `axis` names."""
    sizes = shape(a)
    return math.prod(sizes) if axis is None else math.prod(sizes[i] for i in reduced_axes(axis, len(sizes)))


def astype(x: Any, dtype: Any, /, *, copy: bool = False, device: Any = None) -> Any:
    """Convert to a dtype, which is kept as named (64 bits too); complex to real drops the imaginary part.

    Parameters
    ----------
    copy : bool
        Never the same array.
    device : Device or Sharding, optional

    Returns
    -------
    dtype[...]
    """
    x = _array("astype", x)
    target = dtypes.default_float() if dtype is None else dtypes.named(dtype)
    if dtypes.is_bool(target) and not dtypes.is_bool(x.aval.dtype) and not dtypes.is_key(x.aval.dtype):
        x = ops.ne(x, ops.full_like(x, 0))
    elif dtypes.is_complex(x.aval.dtype) and not dtypes.is_complex(target):
        x = ops.real(x)
    result = convert(x, target)
    if copy and result is x:
        result = ops.copy(x)
    return placed(result, device)


def view_method(x: Any, dtype: Any = None, type: Any = None) -> Any:
    """The bits of an array as another dtype; between sizes the last axis grows or shrinks."""
    if type is not None:
        raise NotImplementedError("view takes no type: arrays have one class")
    if dtype is None:
        return x
    own, target = x.aval.dtype, dtypes.named(dtype)
    if own == target:
        return x
    if dtypes.is_bool(own) or dtypes.is_bool(target):
        if dtypes.is_bool(own):
            return view_method(ops.convert_element_type(x, np.uint8), target)
        return ops.ne(view_method(x, np.uint8), ops.full((), 0, np.uint8))
    if dtypes.is_complex(own):
        parts = ops.concatenate([expand_dims(ops.real(x), -1), expand_dims(ops.imag(x), -1)], x.aval.ndim)
        return view_method(
            ops.reshape(parts, (*x.aval.shape[:-1], 2 * x.aval.shape[-1])) if x.aval.ndim else parts, target
        )
    if dtypes.is_complex(target):
        pairs = view_method(x, dtypes.real_dtype(target))
        pairs = ops.reshape(pairs, (*pairs.aval.shape[:-1], pairs.aval.shape[-1] // 2, 2))
        return ops.complex(pairs[..., 0], pairs[..., 1])
    bits, wanted = dtypes.itemsize_bits(own), dtypes.itemsize_bits(target)
    if bits == wanted:
        return ops.bitcast_convert_type(x, target)
    if x.aval.ndim == 0:
        raise ValueError("view cannot be called on a scalar of another size")
    if bits > wanted:
        split_ = ops.bitcast_convert_type(x, target)
        return ops.reshape(split_, (*x.aval.shape[:-1], x.aval.shape[-1] * (bits // wanted)))
    if (x.aval.shape[-1] * bits) % wanted:
        raise ValueError(
            f"When changing to a larger dtype, its size must be a divisor of the total size in bytes of the last axis of the array; "
            f"got {x.aval.str_short()} and {target}"
        )
    ratio = wanted // bits
    return ops.bitcast_convert_type(ops.reshape(x, (*x.aval.shape[:-1], x.aval.shape[-1] // ratio, ratio)), target)


def byteswap_method(x: Any) -> Any:
    """The bytes of each element in the opposite order, those of each part of complex numbers."""
    dtype = x.aval.dtype
    if dtypes.is_complex(dtype):
        return ops.complex(byteswap_method(ops.real(x)), byteswap_method(ops.imag(x)))
    if dtypes.itemsize_bits(dtype) <= 8:
        return x
    octets = ops.bitcast_convert_type(x, np.uint8)
    return ops.bitcast_convert_type(ops.rev(octets, (octets.aval.ndim - 1,)), dtype)


# ---- reshape and transpose


def reshape(a: Any, shape: Any, order: str = "C", *, copy: bool | None = None, out_sharding: Any = None) -> Any:
    """The same elements in another shape; one size may be -1.

    See `purax.numpy.shape` for the arguments that its functions share.

    Parameters
    ----------
    shape : int or sequence of int
    order : "C" or "F"
        Whether the last or the first axis varies fastest.
    copy : bool, optional
        Means nothing: arrays are immutable.

    Returns
    -------
    array of that shape

    Raises
    ------
    ShapeError
        Another number of elements.
    ValueError
        More than one size is -1, or another order.
    NotImplementedError
        Order "A".

    Examples
    --------
    >>> pnp.arange(6).reshape(2, -1).tolist()
    [[0, 1, 2], [3, 4, 5]]
    """
    del copy
    if out_sharding is not None and is_explicit(out_sharding):
        return out_sharded(reshape, out_sharding, a, shape, order)
    a = _array("reshape", a)
    sizes = _new_shape(a.aval, shape)
    if order == "C":
        result = ops.reshape(a, sizes)
    elif order == "F":
        axes = range(a.aval.ndim)[::-1]
        result = ops.transpose(ops.reshape(ops.transpose(a, axes), sizes[::-1]), range(len(sizes))[::-1])
    elif order == "A":
        raise NotImplementedError("np.reshape order=A is not implemented: arrays have no memory order; use 'C' or 'F'")
    else:
        raise ValueError(f"Unexpected value for 'order' argument: {order}.")
    return placed(result, out_sharding)


def _new_shape(aval: Any, shape: Any) -> tuple[int, ...]:
    if isinstance(shape, (list, tuple)) or np.ndim(shape):
        sizes = [s if type(s) is int else _known_size(s) for s in shape]
    else:
        sizes = [_known_size(shape)]
    if -1 in sizes:
        if sizes.count(-1) > 1:
            raise ValueError("can only specify one unknown dimension in reshape")
        known = math.prod(s for s in sizes if s != -1)
        if known == 0 and aval.size:
            raise errors.ShapeError(
                f"cannot reshape array of shape {aval.shape} (size {aval.size}) into shape {tuple(sizes)}"
            )
        sizes[sizes.index(-1)] = aval.size // known if known else 0
    if math.prod(sizes) != aval.size or any(s < 0 for s in sizes):
        raise errors.ShapeError(
            f"cannot reshape array of shape {aval.shape} (size {aval.size}) into shape {shape} (size {math.prod(sizes)})"
        )
    return tuple(sizes)


def _known_size(value: Any) -> Any:
    try:
        return as_size(value)
    except errors.TracerError:
        raise
    except TypeError:
        raise errors.ShapeError(f"a shape is a sequence of integers, got {value!r}") from None


_reshaped: dict[Any, Any] = {}  # (aval, shape as asked for) -> aval of the result, for arrays on the host


def reshape_method(a: Any, shape: tuple[Any, ...], order: str, kwargs: dict[str, Any]) -> Any:
    """`a.reshape(2, 3)` and `a.reshape((2, 3))`."""
    if type(a) is Array and a._np is not None and a._placement is None and order == "C" and not kwargs:
        found = _reshaped.get((a.aval, shape)) if type(shape[0] if shape else 0) is not list else None
        if found is None:
            result = reshape(a, shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape, order)
            # the words of keys have axes of their own
            if type(result) is Array and type(shape[0] if shape else 0) is int and isinstance(a.aval.dtype, np.dtype):
                _reshaped[a.aval, shape] = result.aval
            return result
        return wrap_host(found, a._np.reshape(found.shape))
    if "shape" in kwargs and not shape:
        return reshape(a, kwargs["shape"], order, **{k: v for k, v in kwargs.items() if k != "shape"})
    if len(shape) == 1 and (not isinstance(shape[0], int)):
        return reshape(a, shape[0], order, **kwargs)
    return reshape(a, shape, order, **kwargs)


def ravel(a: Any, order: str = "C", *, out_sharding: Any = None) -> Any:
    """Flatten to one axis, in order "C" or "F".

    See `purax.numpy.shape` for the arguments that its functions share.

    Raises
    ------
    NotImplementedError
        Order "K" or "A".
    """
    if order == "K":
        raise NotImplementedError("Ravel not implemented for order='K': arrays have no memory order; use 'C' or 'F'")
    return reshape(a, (-1,) if np.size(a) or not hasattr(a, "aval") else (0,), order, out_sharding=out_sharding)


def transpose(a: Any, axes: Sequence[int] | None = None) -> Any:
    """Permute axes: axis `i` of the result is axis ``axes[i]`` of `a`; without `axes` all are reversed.

    Raises
    ------
    ValueError
        `axes` are no permutation.
    """
    a = _array("transpose", a)
    count = a.aval.ndim
    if axes is None:
        return ops.transpose(a, tuple(range(count))[::-1])
    order = [operator.index(i) for i in axes]
    if sorted(i + count if i < 0 else i for i in order) != list(range(count)):
        raise ValueError(
            f"transpose permutation isn't a permutation of operand dimensions, got permutation {tuple(order)} for {count} axes"
        )
    return ops.transpose(a, tuple(i + count if i < 0 else i for i in order))


def permute_dims(a: Any, /, axes: tuple[int, ...]) -> Any:
    """Permute axes; see `transpose`."""
    return transpose(a, axes)


def matrix_transpose(x: Any, /) -> Any:
    """The last two axes swapped.

    Raises
    ------
    ValueError
        Fewer than two axes.
    """
    x = _array("matrix_transpose", x)
    if x.aval.ndim < 2:
        raise ValueError(f"x must be at least two-dimensional for matrix_transpose; got ndim={x.aval.ndim}")
    return swapaxes(x, -1, -2)


def swapaxes(a: Any, axis1: int, axis2: int) -> Any:
    """Interchange two axes."""
    a = _array("swapaxes", a)
    order = list(range(a.aval.ndim))
    (i,), (j,) = reduced_axes(operator.index(axis1), len(order)), reduced_axes(operator.index(axis2), len(order))
    order[i], order[j] = order[j], order[i]
    return ops.transpose(a, order)


def moveaxis(a: Any, source: int | Sequence[int], destination: int | Sequence[int]) -> Any:
    """Move axes to other places; the rest keep their order.

    Parameters
    ----------
    source, destination : int or sequence of int

    Returns
    -------
    array

    Raises
    ------
    ValueError
        Not as many of both.

    Examples
    --------
    >>> pnp.moveaxis(pnp.zeros((2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    a = _array("moveaxis", a)
    count = a.aval.ndim
    start = reduced_axes(_axes(source), count)
    end = reduced_axes(_axes(destination), count)
    if len(start) != len(end):
        raise ValueError(f"Inconsistent number of elements: {len(start)} vs {len(end)}")
    order = [i for i in range(count) if i not in start]
    for place, axis in sorted(zip(end, start, strict=True)):
        order.insert(place, axis)
    return ops.transpose(a, order)


def _axes(axis: Any) -> tuple[int, ...]:
    return tuple(axis) if isinstance(axis, (list, tuple)) or np.ndim(axis) else (operator.index(axis),)


def rollaxis(a: Any, axis: int, start: int = 0) -> Any:
    """Move an axis back until it lies in front of axis `start`.

    Raises
    ------
    ValueError
        No such place.
    """
    a = _array("rollaxis", a)
    count = a.aval.ndim
    (axis,) = reduced_axes(operator.index(axis), count)
    if not -count <= start <= count:
        raise ValueError(f"{start=} must satisfy {-count}<=start<={count}")
    start = start + count if start < 0 else start
    return moveaxis(a, axis, start - 1 if start > axis else start)


def squeeze(a: Any, axis: Any = None) -> Any:
    """Drop axes of size 1: all, or those that `axis` names.

    Raises
    ------
    ValueError
        A named axis has another size.
    """
    a = _array("squeeze", a)
    sizes = a.aval.shape
    if axis is None:
        axes = tuple([i for i, n in enumerate(sizes) if n == 1])
    else:
        axes = reduced_axes(axis, len(sizes))
        for i in axes:
            if sizes[i] != 1:
                raise ValueError(
                    f"cannot select an axis to squeeze out which has size not equal to one, got shape={sizes} and {axis=}"
                )
    return ops.squeeze(a, axes) if axes else a


def expand_dims(a: Any, axis: int | Sequence[int]) -> Any:
    """Insert axes of size 1; `axis` are their places in the result."""
    a = _array("expand_dims", a)
    axes = _axes(axis)
    return ops.expand_dims(a, reduced_axes(axes, a.aval.ndim + len(axes)))


def atleast_1d(*arys: Any) -> Any:
    """Scalars become vectors; several arguments give a list."""
    return _at_least("atleast_1d", arys, lambda x: ops.reshape(x, (1,)) if x.aval.ndim == 0 else x)


def atleast_2d(*arys: Any) -> Any:
    """Arrays of lower rank get axes in front; several arguments give a list."""
    return _at_least("atleast_2d", arys, lambda x: ops.broadcast_to_rank(x, 2) if x.aval.ndim < 2 else x)


def atleast_3d(*arys: Any) -> Any:
    """Vectors become (1, n, 1), matrices (m, n, 1); several arguments give a list."""

    def grow(x: Any) -> Any:
        own = x.aval.shape
        if len(own) == 0:
            return ops.reshape(x, (1, 1, 1))
        return ops.reshape(x, (1, *own, 1) if len(own) == 1 else (*own, 1)) if len(own) < 3 else x

    return _at_least("atleast_3d", arys, grow)


def _at_least(name: str, arrays: tuple[Any, ...], grow: Callable[[Any], Any]) -> Any:
    if len(arrays) == 1:
        return grow(_array(name, arrays[0]))
    return [grow(_array(name, x)) for x in arrays]


# ---- broadcast


def broadcast_to(array: Any, shape: Any, *, out_sharding: Any = None) -> Any:
    """Repeat along axes of size 1 and new leading ones until the shape is reached.

    See `purax.numpy.shape` for the arguments that its functions share.
    """
    if out_sharding is not None and is_explicit(out_sharding):
        return out_sharded(broadcast_to, out_sharding, array, shape)
    return placed(broadcast_to_shape(_array("broadcast_to", array), canonical_shape(shape)), out_sharding)


def broadcast_arrays(*args: Any) -> list[Any]:
    """The arrays broadcast to their common shape, each of its own dtype."""
    check_arraylike("broadcast_arrays", *args)
    arrays = [as_operand(x) for x in args]
    joined = joint_shape("broadcast_arrays", *[x.aval.shape for x in arrays])
    return [spread(x, joined) for x in arrays]


def broadcast_shapes(*shapes: Any) -> tuple[int, ...]:
    """The shape at which shapes meet."""
    return joint_shape("broadcast_shapes", *[canonical_shape(s) for s in shapes])


# ---- join


def _sequence(name: str, arrays: Any) -> list[Any]:
    """The operands of a join as Arrays and Tracers; an array stands for its rows."""
    if isinstance(arrays, (np.ndarray, np.generic)) or hasattr(arrays, "aval"):
        whole = as_operand(arrays)
        if whole.aval.ndim == 0:
            raise ValueError(f"Zero-dimensional array cannot be passed to {name}.")
        return list(ops.unstack(whole)) if whole.aval.shape[0] else []
    if not isinstance(arrays, (list, tuple)) and not hasattr(arrays, "__iter__"):
        raise errors.NonArrayArgumentError(f"{name} takes a sequence of arrays, got {type(arrays)}")
    if isinstance(arrays, (set, frozenset, dict)) or not isinstance(arrays, (list, tuple)):
        if not hasattr(arrays, "__len__") or isinstance(arrays, (set, frozenset, dict)):
            raise errors.NonArrayArgumentError(f"{name} takes a list or tuple of arrays, got {type(arrays)}")
    check_arraylike(name, *arrays)
    return [as_operand(x) for x in arrays]


def concatenate(arrays: Any, axis: int | None = 0, dtype: Any = None) -> Any:
    """Join along an existing axis, or flattened with ``axis=None``; of the common dtype or `dtype`.

    Raises
    ------
    ValueError
        No arrays, or scalars without ``axis=None``.
    """
    parts = _sequence("concatenate", arrays)
    if not parts:
        raise ValueError("Need at least one array to concatenate.")
    if any(x.aval.ndim == 0 for x in parts) and axis is not None:
        raise ValueError("Zero-dimensional arrays cannot be concatenated.")
    if axis is None:
        return concatenate([ravel(x) for x in parts], 0, dtype)
    (axis,) = reduced_axes(operator.index(axis), parts[0].aval.ndim)
    parts = promote_dtypes(*parts) if dtype is None else [convert(x, dtypes.named(dtype)) for x in parts]
    return ops.concatenate(parts, axis)


def concat(arrays: Any, /, *, axis: int | None = 0) -> Any:
    """Join along an existing axis; see `concatenate`."""
    return concatenate(arrays, axis)


def stack(arrays: Any, axis: int = 0, out: None = None, dtype: Any = None) -> Any:
    """Join along a new axis; all shapes equal.

    See `purax.numpy.shape` for the arguments that its functions share.

    Parameters
    ----------
    out : None

    Returns
    -------
    array

    Raises
    ------
    ValueError
        No arrays, or of different shapes.
    """
    refuse("stack", out=out)
    if not len(arrays):
        raise ValueError("Need at least one array to stack.")
    if hasattr(arrays, "aval"):
        whole = arrays if dtype is None else convert(arrays, dtypes.named(dtype))
        return moveaxis(whole, 0, axis)
    parts = _sequence("stack", arrays)
    first = parts[0].aval.shape
    for x in parts:
        if x.aval.shape != first:
            raise ValueError(f"All input arrays must have the same shape, got {first} and {x.aval.shape}.")
    (place,) = reduced_axes(operator.index(axis), len(first) + 1)
    own = (*first[:place], 1, *first[place:])
    return concatenate([ops.reshape(x, own) for x in parts], place, dtype)


def vstack(tup: Any, dtype: Any = None) -> Any:
    """Join along the first axis; vectors become rows.

    See `purax.numpy.shape` for the arguments that its functions share.
    """
    if hasattr(tup, "aval") or isinstance(tup, np.ndarray):
        tup = _sequence("vstack", tup)
    return concatenate([atleast_2d(x) for x in _sequence("vstack", tup)], 0, dtype)


def hstack(tup: Any, dtype: Any = None) -> Any:
    """Join along the second axis, vectors along their only one.

    See `purax.numpy.shape` for the arguments that its functions share.
    """
    parts = [atleast_1d(x) for x in _sequence("hstack", tup)]
    return concatenate(parts, 0 if parts and parts[0].aval.ndim == 1 else 1, dtype)


def dstack(tup: Any, dtype: Any = None) -> Any:
    """Join along the third axis; see `atleast_3d`."""
    return concatenate([atleast_3d(x) for x in _sequence("dstack", tup)], 2, dtype)


def column_stack(tup: Any) -> Any:
    """Join along the second axis; vectors become columns."""
    parts = [atleast_2d(x).T if x.aval.ndim < 2 else x for x in _sequence("column_stack", tup)]
    return concatenate(parts, 1)


def block(arrays: Any) -> Any:
    """Join nested lists of blocks: the innermost along the last axis, the next along the one before, and so on."""
    depth = _depth(arrays)
    return _block(arrays, depth, builtins.max(depth, _rank(arrays)))


def _depth(arrays: Any) -> int:
    if isinstance(arrays, tuple):
        raise ValueError("purax.numpy.block does not allow tuples, got tuple; use nested lists")
    if not isinstance(arrays, list):
        return 0
    if not arrays:
        raise ValueError("purax.numpy.block does not allow empty list arguments")
    depths = {_depth(x) for x in arrays}
    if len(depths) > 1:
        raise ValueError(f"Mismatched list depths in purax.numpy.block: {sorted(depths)}")
    return 1 + depths.pop()


def _rank(arrays: Any) -> int:
    return builtins.max(map(_rank, arrays)) if isinstance(arrays, list) else ndim(arrays)


def _block(arrays: Any, depth: int, rank: int) -> Any:
    if not isinstance(arrays, list):
        x = _array("block", arrays)
        return ops.broadcast_to_rank(x, rank) if x.aval.ndim < rank else x
    return concatenate([_block(x, depth - 1, rank) for x in arrays], -depth)


def append(arr: Any, values: Any, axis: int | None = None) -> Any:
    """Join `values` behind `arr` along an axis, or flattened."""
    if axis is None:
        return concatenate([ravel(arr), ravel(values)], 0)
    return concatenate([_array("append", arr), _array("append", values)], axis)


def unstack(x: Any, /, *, axis: int = 0) -> tuple[Any, ...]:
    """The slices along an axis, each without it.

    Raises
    ------
    ValueError
        A scalar.
    """
    x = _array("unstack", x)
    if x.aval.ndim == 0:
        raise ValueError("Unstack requires arrays with rank > 0, however a scalar array was passed.")
    (axis,) = reduced_axes(operator.index(axis), x.aval.ndim)
    return tuple(ops.unstack(x, axis)) if x.aval.shape[axis] else ()


# ---- split


def _pieces(name: str, ary: Any, sections: Any, axis: int, exact: bool) -> list[Any]:
    ary = _array(name, ary)
    (axis,) = reduced_axes(operator.index(axis), ary.aval.ndim)
    total = ary.aval.shape[axis]
    if isinstance(sections, Tracer):
        known = np.asarray(sections)
        sections = int(known) if known.ndim == 0 else known
    if isinstance(sections, (list, tuple)) or np.ndim(sections):
        places = [
            operator.index(p) for p in (sections if isinstance(sections, (list, tuple)) else np.asarray(sections))
        ]
        bounds = [0, *[slice(p).indices(total)[1] for p in places], total]
    else:
        count = operator.index(sections)
        if count <= 0:
            raise ValueError("number sections must be larger than 0.")
        if exact and total % count:
            raise ValueError(f"array split does not result in an equal division: {total} elements in {count} parts")
        small, large = divmod(total, count)
        bounds = list(np.cumsum([0, *[small + 1] * large, *[small] * (count - large)]))
    sizes = [builtins.max(int(b) - int(a), 0) for a, b in itertools.pairwise(bounds)]
    if builtins.sum(sizes) == total and all(a <= b for a, b in itertools.pairwise(bounds)):
        return list(ops.split(ary, sizes, axis))
    return [
        ops.slice_in_dim(ary, int(a), builtins.max(int(a), int(b)), axis=axis) for a, b in itertools.pairwise(bounds)
    ]


def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """Equal parts along an axis, or parts that end at the given places.

    See `purax.numpy.shape` for the arguments that its functions share.
    """
    return _pieces("split", ary, indices_or_sections, axis, True)


def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """As `split`; a number of parts need not divide the axis, the first parts are then longer by one.

    See `purax.numpy.shape` for the arguments that its functions share.
    """
    return _pieces("array_split", ary, indices_or_sections, axis, False)


def vsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """Split along the first axis.

    See `purax.numpy.shape` for the arguments that its functions share.
    """
    return _pieces("vsplit", ary, indices_or_sections, 0, True)


def hsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """Split along the second axis, vectors along their only one.

    See `purax.numpy.shape` for the arguments that its functions share.
    """
    return _pieces("hsplit", ary, indices_or_sections, 0 if ndim(ary) == 1 else 1, True)


def dsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """Split along the third axis.

    See `purax.numpy.shape` for the arguments that its functions share.
    """
    return _pieces("dsplit", ary, indices_or_sections, 2, True)


# ---- repeat, roll, flip


def tile(A: Any, reps: Any) -> Any:
    """Repeat the whole array ``reps[i]`` times along axis `i`."""
    A = _array("tile", A)
    counts = (
        tuple(operator.index(r) for r in reps)
        if isinstance(reps, (list, tuple)) or np.ndim(reps)
        else (operator.index(reps),)
    )
    rank = builtins.max(len(counts), A.aval.ndim)
    counts = (1,) * (rank - len(counts)) + counts
    return ops.tile(ops.broadcast_to_rank(A, rank), counts)


def repeat(
    a: Any, repeats: Any, axis: int | None = None, *, total_repeat_length: int | None = None, out_sharding: Any = None
) -> Any:
    """Repeat each element along an axis, or of the flattened array.

    Parameters
    ----------
    a : array
    repeats : int or int[n]
        How often; for all, or for each element of the axis.
    axis : int, optional
    total_repeat_length : int, optional
        Length of the result: cut, or filled with the last element. Needed where `repeats` is traced.
    out_sharding : Sharding, optional

    Returns
    -------
    array

    Raises
    ------
    ValueError
        Negative numbers, or not one for each element.
    DTypeError
        They are not integers.
    """
    a = _array("repeat", a)
    check_arraylike("repeat", repeats)
    if axis is None:
        a, axis = ravel(a), 0
    if out_sharding is not None and is_explicit(out_sharding):
        return out_sharded(repeat, out_sharding, a, repeats, axis, total_repeat_length=total_repeat_length)
    if a.aval.ndim == 0:
        a = ops.reshape(a, (1,))
    (axis,) = reduced_axes(operator.index(axis), a.aval.ndim)
    length = a.aval.shape[axis]
    if total_repeat_length is None:
        if isinstance(repeats, Tracer):
            repeats._known(errors.ConcretizationTypeError, "the number of repetitions", "give total_repeat_length=")
        counts = np.asarray(repeats)
        if counts.ndim > 1 or (counts.ndim == 1 and counts.size not in (1, length)):
            raise ValueError(f"repeats must be a scalar or of length {length}, got shape {counts.shape}")
        if counts.dtype.kind not in "iu":
            raise errors.DTypeError(f"repeats must be integers, got dtype {counts.dtype}")
        if counts.size == 1:
            return placed(_repeat_all(a, int(counts.reshape(())), axis), out_sharding)
        if (counts < 0).any():
            raise ValueError("repeats may not contain negative values.")
        places = np.repeat(np.arange(length), counts)
        return placed(take_rows(a, places, axis), out_sharding)
    counts = ops.convert_element_type(as_operand(repeats), dtypes.default_int())
    counts = broadcast_to_shape(ops.reshape(counts, (counts.aval.size,)), (length,))
    # Each element raises the place by one where its run starts; the running sum fills the runs.
    starts = ops.sub(ops.cumsum(counts, 0), counts)
    steps = ops.full((total_repeat_length,), 0, dtypes.default_int()).at[starts].add(1, mode="drop")
    places = ops.sub(ops.cumsum(steps, 0), ops.full_like(steps, 1))
    return placed(take_rows(a, places, axis), out_sharding)


def _repeat_all(a: Any, count: int, axis: int) -> Any:
    if count < 0:
        raise ValueError("repeats may not contain negative values.")
    own = a.aval.shape
    wide = (*own[: axis + 1], count, *own[axis + 1 :])
    repeated = ops.broadcast_in_dim(a, wide, [i for i in range(len(wide)) if i != axis + 1])
    return ops.reshape(repeated, (*own[:axis], own[axis] * count, *own[axis + 1 :]))


def take_rows(a: Any, places: Any, axis: int) -> Any:
    """Rows along an axis at places (NumPy or device integers) that lie within bounds."""
    places = as_operand(places.astype(np.int32) if isinstance(places, np.ndarray) else places)
    own = a.aval.shape
    if own[axis] == 0:
        return ops.full((*own[:axis], places.aval.size, *own[axis + 1 :]), 0, a.aval.dtype)
    numbers = ops.GatherDimensionNumbers(
        offset_dims=tuple(i for i in range(len(own)) if i != axis),
        collapsed_slice_dims=(axis,),
        start_index_map=(axis,),
    )
    sizes = (*own[:axis], 1, *own[axis + 1 :])
    return ops.gather(a, ops.reshape(places, (places.aval.size, 1)), numbers, sizes, mode="clip")


def resize(a: Any, new_shape: Any) -> Any:
    """An array of the shape `new_shape`, filled with the elements of `a` again and again."""
    a = ravel(_array("resize", a))
    sizes = canonical_shape(new_shape)
    total = math.prod(sizes)
    if a.aval.size == 0 or total == 0:
        return ops.full(sizes, 0, a.aval.dtype)
    return ops.reshape(ops.slice_in_dim(ops.tile(a, (-(-total // a.aval.size),)), 0, total), sizes)


def roll(a: Any, shift: Any, axis: Any = None) -> Any:
    """Shift elements along axes, those that leave one end coming in at the other; `shift` may be traced.

    See `purax.numpy.shape` for the arguments that its functions share.

    Parameters
    ----------
    shift : int or sequence of int

    Returns
    -------
    array like `a`

    Raises
    ------
    ValueError
        Not as many shifts as axes.

    Examples
    --------
    >>> pnp.roll(pnp.arange(4), 1).tolist()
    [3, 0, 1, 2]
    """
    a = _array("roll", a)
    if axis is None:
        return ops.reshape(roll(ops.reshape(a, (a.aval.size,)), shift, 0), a.aval.shape)
    if isinstance(shift, (list, tuple)):
        shifts: list[Any] = list(shift)
    else:
        check_arraylike("roll", shift)
        shifts = [shift] if aval_of(shift).ndim == 0 else list(ops.unstack(as_operand(shift)))
    axes = [operator.index(i) for i in axis] if isinstance(axis, (list, tuple)) else [operator.index(axis)]
    count = builtins.max(len(shifts), len(axes))
    if len(shifts) not in (1, count) or len(axes) not in (1, count):
        raise ValueError(f"shift and axis must have one length, got {len(shifts)} and {len(axes)}")
    for amount, place in zip(shifts * (count // len(shifts)), axes * (count // len(axes)), strict=True):
        (own,) = reduced_axes(place, a.aval.ndim)
        a = _roll_one(a, amount, own)
    return a


def _roll_one(a: Any, shift: Any, axis: int) -> Any:
    length = a.aval.shape[axis]
    if length == 0:
        return a
    if isinstance(shift, Tracer):
        first = ops.convert_element_type(shift, dtypes.default_int())
        first = ops.rem(ops.add(ops.rem(ops.neg(first), ops.full((), length, first.aval.dtype)), length), length)
        twice = ops.concatenate([a, a], axis)
        return ops.dynamic_slice_in_dim(twice, first, length, axis)
    place = -operator.index(shift) % length
    if place == 0:
        return a
    if type(length) is not Dim:
        return ops.roll_p.bind1(a, shift=length - place, axis=axis)
    front, back = ops.split(a, (place, length - place), axis)
    return ops.concatenate([back, front], axis)


def flip(m: Any, axis: Any = None) -> Any:
    """Reverse the order along axes, by default all.

    See `purax.numpy.shape` for the arguments that its functions share.
    """
    m = _array("flip", m)
    axes = reduced_axes(axis, m.aval.ndim)
    return ops.rev(m, axes) if axes else m


def fliplr(m: Any) -> Any:
    """Reverse the second axis."""
    return flip(m, 1)


def flipud(m: Any) -> Any:
    """Reverse the first axis."""
    return flip(m, 0)


def rot90(m: Any, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Any:
    """Turn by `k` times 90 degrees in the plane of two axes, from the first toward the second.

    Parameters
    ----------
    k : int
    axes : (int, int)

    Returns
    -------
    array

    Raises
    ------
    ValueError
        Fewer than two axes, or one axis twice.
    """
    m = _array("rot90", m)
    if m.aval.ndim < 2:
        raise ValueError(f"rot90 requires its first argument to have ndim at least two, got {m.aval.shape}")
    first, second = (reduced_axes(operator.index(i), m.aval.ndim)[0] for i in axes)
    if first == second:
        raise ValueError("Axes must be different")
    k = operator.index(k) % 4
    if k == 0:
        return m
    if k == 2:
        return ops.rev(m, (first, second))
    return swapaxes(flip(m, second), first, second) if k == 1 else flip(swapaxes(m, first, second), second)


# ---- functions along axes


def apply_along_axis(func1d: Callable[..., Any], axis: int, arr: Any, *args: Any, **kwargs: Any) -> Any:
    """Apply a function of vectors to each vector along an axis; axes of its result take the place of that axis.

    Parameters
    ----------
    func1d : callable
    args, kwargs
        Passed to the function.

    Returns
    -------
    array, or what the function gives of arrays
    """
    arr = _array("apply_along_axis", arr)
    (axis,) = reduced_axes(operator.index(axis), arr.aval.ndim)

    def function(vector: Any) -> Any:
        return func1d(vector, *args, **kwargs)

    for _ in range(arr.aval.ndim - axis - 1):
        function = vmap(function, in_axes=-1, out_axes=-1)
    for _ in range(axis):
        function = vmap(function, in_axes=0, out_axes=0)
    return function(arr)


def apply_over_axes(func: Callable[[Any, int], Any], a: Any, axes: Sequence[int]) -> Any:
    """Apply ``func(a, axis)`` for each axis in turn; a result that lost the axis gets it back with size 1.

    Parameters
    ----------
    func : callable
    axes : sequence of int

    Returns
    -------
    array of the rank of `a`

    Raises
    ------
    ValueError
        A result of another rank.
    """
    a = _array("apply_over_axes", a)
    for axis in axes:
        b = func(a, axis)
        if b.ndim == a.ndim - 1:
            b = expand_dims(b, axis)
        if b.ndim != a.ndim:
            raise ValueError("function is not returning an array of the correct shape")
        a = b
    return a
