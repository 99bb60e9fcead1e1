# SPDX-License-Identifier: Apache-2.0
"""Arrays made of a shape and a value: full, iota, empty. Part of the shape family; `shape` offers the same names.

Parameters
----------
sharding : sharding, optional
    Where the result lives.
out_sharding : optional
    Without effect; `with_sharding_constraint` lays results out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from purax import dtypes, errors
from purax.core.aval import array_aval
from purax.core.dims import Dim
from purax.core.hooks import hooks
from purax.core.primitive import Primitive
from purax.core.trace import Tracer, aval_of
from purax.lazy import lazy
from purax.runtime.array import wrap_host

__all__ = [
    "broadcasted_iota",
    "empty",
    "full",
    "full_like",
    "iota",
    "iota_p",
]

transfer = lazy("purax.runtime.transfer")
random_bits = lazy("purax.primitives.random_bits")


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
    if kind is Dim:
        return hooks.numpy.asarray(value, dtype)
    with np.errstate(all="ignore"):
        return wrap_host(array_aval((), dtype, weak), np.asarray(value).astype(dtype))


def full_like_aval(aval: Any, value: Any) -> Any:
    """An array of the type of `aval` filled with the scalar `value`."""
    if aval.dtype == dtypes.float0:
        return np.zeros(aval.shape, dtypes.float0)
    fill = scalar(value, aval.dtype, aval.weak_type)
    return (
        _own(fill)
        if not aval.shape
        else shape_module.broadcast_in_dim_p.bind1(fill, shape=aval.shape, broadcast_dimensions=())
    )


def _own(x: Any) -> Any:
    """A remembered scalar as an array that its receiver may donate or delete."""
    return wrap_host(x.aval, x._np) if type(x) is hooks.array_type and x._np is not None else x


# --- the user's functions ---------------------------------------------------------------------------------------------


def iota(dtype: Any, size: int) -> Any:
    """0, 1, ..., size - 1."""
    return broadcasted_iota(dtype, (size,), 0)


def broadcasted_iota(dtype: Any, shape: Sequence[int], dimension: int, *, out_sharding: Any = None) -> Any:
    """Index of each element along `dimension` of `shape`, as `dtype`.

    See `purax.primitives.filling` for the arguments that its functions share.

    Parameters
    ----------
    dtype : dtype
    shape : sequence of int
    dimension : int

    Returns
    -------
    dtype[shape]
    """
    shape = shape_module.canonical_shape(shape)
    index = iota_p.bind1(
        dtype=dtypes.named(dtype), shape=shape, dimension=shape_module.canonical_axis(dimension, len(shape))
    )
    if out_sharding is None:
        return index
    return resharding.reshard_to(index, *resharding.destination(out_sharding, len(shape)))


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
    shape = shape_module.canonical_shape(shape)
    aval = aval_of(fill_value)
    if aval.shape:
        raise errors.ShapeError(f"full must be called with scalar fill_value, got fill_value.shape {aval.shape}.")
    if dtype is not None:
        fill_value = _fill_of(fill_value, dtypes.named(dtype), False)
    elif not hasattr(fill_value, "aval"):
        fill_value = hooks.as_array(fill_value)
    result = (
        _own(fill_value)
        if not shape
        else shape_module.broadcast_in_dim_p.bind1(fill_value, shape=shape, broadcast_dimensions=())
    )
    return _placed(result, sharding)


def _fill_of(value: Any, dtype: Any, weak: bool) -> Any:
    """`value` as a scalar of `dtype`; for random keys, the key with this number in each word."""
    if dtypes.is_key(dtype) and aval_of(value).dtype is not dtype:
        return random_bits.random_wrap(full(dtype.key_shape, value, np.uint32), dtype.impl)
    if isinstance(value, (bool, int, float, complex)):
        return scalar(value, dtype, weak)
    return cast.convert_element_type(value, dtype)


def _placed(x: Any, sharding: Any) -> Any:
    """`x` on the devices of `sharding`, if one is asked for."""
    return x if sharding is None or isinstance(x, Tracer) else transfer.device_put(x, sharding)


def full_like(x: Any, fill_value: Any, dtype: Any = None, shape: Any = None, sharding: Any = None) -> Any:
    """An array filled with one value, with the shape, dtype and weak type of `x` unless given; it lies as `x`, if that was placed.

    See `purax.primitives.filling` for the arguments that its functions share.

    Parameters
    ----------
    x : array, or anything with shape and dtype
    fill_value : scalar
    dtype : dtype, optional
    shape : int or sequence of int, optional

    Returns
    -------
    array of that shape and dtype

    Raises
    ------
    ShapeError
        `fill_value` is not a scalar.
    """
    like = (
        x if hasattr(x, "shape") and hasattr(x, "dtype") and not isinstance(x, (np.ndarray, np.generic)) else aval_of(x)
    )
    weak = dtype is None and bool(getattr(like, "weak_type", False))
    dtype = like.dtype if dtype is None else dtypes.named(dtype)
    sizes = shape_module.canonical_shape(like.shape if shape is None else shape)
    if aval_of(fill_value).shape:
        raise errors.ShapeError(
            f"full_like must be called with scalar fill_value, got shape {aval_of(fill_value).shape}."
        )
    fill = _fill_of(fill_value, dtype, weak)
    result = (
        _own(fill) if not sizes else shape_module.broadcast_in_dim_p.bind1(fill, shape=sizes, broadcast_dimensions=())
    )
    if sharding is None and type(x) is hooks.array_type and x.committed and not weak:
        sharding = x.sharding if sizes == x.shape or x.sharding.is_fully_replicated else None
    return _placed(result, sharding)


def empty(shape: Any, dtype: Any, *, out_sharding: Any = None) -> Any:
    """An array of the given shape and dtype; its elements are zeros.

    See `purax.primitives.filling` for the arguments that its functions share.
    """
    zeros = full(shape, 0, dtype)
    if out_sharding is None:
        return zeros
    return resharding.reshard_to(zeros, *resharding.destination(out_sharding, aval_of(zeros).ndim))


from purax.primitives import cast, resharding  # noqa: E402  (siblings import this module's names)
from purax.primitives import shape as shape_module  # noqa: E402
