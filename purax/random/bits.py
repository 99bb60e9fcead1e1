# SPDX-License-Identifier: Apache-2.0
"""Random bits, and uniform numbers made of them without arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np

from purax import dtypes
from purax.primitives import cast, elementwise
from purax.primitives import shape as shapes
from purax.primitives.random_bits import random_bits
from purax.random.draw import float_dtype, placed, sampler, to
from purax.random.keys import single_key

__all__ = ["bits", "uniform"]

UINTS = {width: np.dtype(f"uint{width}") for width in (8, 16, 32, 64)}


def bits(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """Draw random bits.

    Parameters
    ----------
    key : key[] or uint32[2]
    shape : sequence of int
    dtype : unsigned dtype, optional
        Default uint32 (uint64 with `enable_x64`).
    out_sharding : sharding, optional
        Layout of the result over devices.

    Returns
    -------
    unsigned[shape]

    Raises
    ------
    ValueError
        `dtype` is not unsigned.
    """
    key = single_key("bits", key)
    dtype = dtypes.default_uint() if dtype is None else dtypes.named(dtype)
    if not dtypes.issubdtype(dtype, np.unsignedinteger):
        raise ValueError(f"bits: dtype must be unsigned, got {dtype}")
    return placed(random_bits(key, dtype.itemsize * 8, shapes.canonical_shape(shape)), out_sharding)


@sampler
def _uniform(key: Any, low: Any = None, high: Any = None, *, shape: Any, dtype: Any) -> Any:
    """Bits in the mantissa of numbers in [1, 2), moved to [low, high); None and None mean 0 and 1."""
    info = dtypes.finfo(dtype)
    width = 8 if info.nmant < 8 else info.bits
    drawn = cast.convert_element_type(random_bits(key, width, shape), UINTS[info.bits])
    one = int(np.array(1, dtype).view(drawn.aval.dtype))
    mantissa = elementwise.shift_right_logical(drawn, width - info.nmant)
    floats = cast.bitcast_convert_type(elementwise.bitwise_or(mantissa, one), dtype) - 1.0
    if low is None:
        return floats
    low, high = (shapes.broadcast_to_rank(to(x, dtype), len(shape)) for x in (low, high))
    return elementwise.max(low, _moved(floats, high - low, low))


def _moved(floats: Any, extent: Any, low: Any) -> Any:
    """`floats * extent + low`, the same on every processor.

    Processors with float16 arithmetic fuse the two operations and round once, others round the product too. In float32 the
    product is exact, so fused or not there is one rounding.
    """
    if floats.dtype != np.float16:
        return floats * extent + low
    floats, extent, wide = (cast.convert_element_type(x, np.float32) for x in (floats, extent, low))
    return cast.convert_element_type(floats * extent + wide, np.float16)


def uniform(
    key: Any, shape: Any = (), dtype: Any = None, minval: Any = 0.0, maxval: Any = 1.0, *, out_sharding: Any = None
) -> Any:
    """Draw uniform numbers from [minval, maxval).

    Parameters
    ----------
    key : key[] or uint32[2]
    shape : sequence of int
    dtype : floating dtype, optional
    minval, maxval : float or float[...]
        Broadcast against `shape`.
    out_sharding : sharding, optional
        Layout of the result over devices.

    Returns
    -------
    floating[shape]
        Multiples of the spacing of the dtype just below 1, before they are moved.

    Raises
    ------
    ValueError
        `dtype` is not floating.

    Examples
    --------
    >>> purax.random.uniform(purax.random.key(0), (2,)).shape
    (2,)
    """
    key = single_key("uniform", key)
    dtype, shape = float_dtype("uniform", dtype), shapes.canonical_shape(shape)
    if type(minval) is float and type(maxval) is float and minval == 0 and maxval == 1:
        return placed(_uniform(key, shape=shape, dtype=dtype), out_sharding)
    return placed(_uniform(key, minval, maxval, shape=shape, dtype=dtype), out_sharding)
