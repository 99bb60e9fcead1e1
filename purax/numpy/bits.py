# SPDX-License-Identifier: Apache-2.0
"""Bitwise functions of integers and booleans, and packing of bits into bytes.

Operands broadcast; results have their shape and common dtype unless a function says otherwise.

Parameters
----------
x, y : array or scalar
    Integers or booleans, which broadcast and promote.
out, where : None
    NumPy's; anything else raises NotImplementedError.
bitorder : "big" or "little"
    Whether the first bit is the highest of a byte or the lowest.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from purax import dtypes, errors
from purax.numpy import _ops as ops
from purax.numpy.alias import alias
from purax.numpy.comparison import truth
from purax.numpy.promotion import Binary, as_operand, check_arraylike, numeric
from purax.primitives.operands import canonical_axis

__all__ = [
    "bitwise_and", "bitwise_count", "bitwise_invert", "bitwise_left_shift", "bitwise_not", "bitwise_or", "bitwise_right_shift",
    "bitwise_xor", "invert", "left_shift", "packbits", "right_shift", "unpackbits",
]  # fmt: skip

_and = Binary("bitwise_and", lambda dtype: ops.and_p.bind1)
_or = Binary("bitwise_or", lambda dtype: ops.or_p.bind1)
_xor = Binary("bitwise_xor", lambda dtype: ops.xor_p.bind1)
_left = Binary("left_shift", lambda dtype: ops.shift_left, numeric)
_right = Binary(
    "right_shift",
    lambda dtype: ops.shift_right_logical if dtypes.is_unsigned(dtype) else ops.shift_right_arithmetic,
    numeric,
)


def bitwise_and(x: Any, y: Any, /, out: None = None, where: None = None) -> Any:
    """Bits that both have; integers or booleans of the common dtype."""
    found = _and.known.get((getattr(x, "aval", None), getattr(y, "aval", None)))
    return _and(x, y, out, where) if found is None or out is not where else found(x, y)


def bitwise_or(x: Any, y: Any, /, out: None = None, where: None = None) -> Any:
    """Bits that either has; integers or booleans of the common dtype."""
    found = _or.known.get((getattr(x, "aval", None), getattr(y, "aval", None)))
    return _or(x, y, out, where) if found is None or out is not where else found(x, y)


def bitwise_xor(x: Any, y: Any, /, out: None = None, where: None = None) -> Any:
    """Bits that exactly one has; integers or booleans of the common dtype."""
    found = _xor.known.get((getattr(x, "aval", None), getattr(y, "aval", None)))
    return _xor(x, y, out, where) if found is None or out is not where else found(x, y)


def invert(x: Any, /) -> Any:
    """All bits flipped; of booleans, the logical not."""
    if not hasattr(x, "aval"):
        check_arraylike("invert", x)
        x = as_operand(x)
    return ops.not_p.bind1(x)


bitwise_not, bitwise_invert = alias(invert, "bitwise_not"), alias(invert, "bitwise_invert")


def left_shift(x: Any, y: Any, /) -> Any:
    """Bits of `x` shifted left by `y` places; 0 for shifts of the width or more."""
    return _left(x, y)


def right_shift(x1: Any, x2: Any, /) -> Any:
    """Bits of `x1` shifted right by `x2` places, keeping the sign."""
    return _right(x1, x2)


bitwise_left_shift = alias(left_shift, "bitwise_left_shift")
bitwise_right_shift = alias(right_shift, "bitwise_right_shift")


def bitwise_count(x: Any, /) -> Any:
    """Number of bits set in the absolute value of integers, as uint8.

    Raises
    ------
    DTypeError
        `x` is not of integers or booleans.
    """
    check_arraylike("bitwise_count", x)
    x = as_operand(x)
    dtype = x.aval.dtype
    if dtypes.is_inexact(dtype):
        raise errors.DTypeError(f"bitwise_count takes integers, got dtype {dtype}")
    if dtypes.is_bool(dtype):
        return ops.convert_element_type(x, np.uint8)
    if dtypes.is_signed(dtype):
        x = ops.abs(x)
    return ops.convert_element_type(ops.population_count(x), np.uint8)


def packbits(a: Any, axis: int | None = None, bitorder: str = "big") -> Any:
    """Pack booleans or integers (zero or not) eight to a byte along an axis; the last byte is filled with zeros.

    Parameters
    ----------
    a : integer[...] or bool[...]
    axis : int, optional
        Without it, `a` is flattened.

    Returns
    -------
    uint8[..., ceil(n / 8), ...]

    Raises
    ------
    DTypeError
        `a` is not of integers or booleans.
    ValueError
        Another bitorder.

    Examples
    --------
    >>> pnp.packbits(pnp.array([1, 0, 0, 0, 0, 0, 0, 1, 1])).tolist()
    [129, 128]
    """
    check_arraylike("packbits", a)
    a = as_operand(a)
    if dtypes.is_inexact(a.aval.dtype):
        raise errors.DTypeError("packbits takes an array of integers or booleans")
    _check_order(bitorder)
    if axis is None:
        a, axis = ops.reshape(a, (a.aval.size,)), 0
    elif a.aval.ndim == 0:
        a = ops.reshape(a, (1,))
    axis = canonical_axis(axis, a.aval.ndim)
    shape = a.aval.shape
    bits = ops.convert_element_type(truth(a), np.uint8)
    rows = [(0, 0, 0)] * len(shape)
    rows[axis] = (0, -shape[axis] % 8, 0)
    bits = ops.pad(bits, ops.full((), 0, np.uint8), rows)
    count = bits.aval.shape[axis] // 8
    bits = ops.reshape(bits, (*shape[:axis], count, 8, *shape[axis + 1 :]))
    places = _places(bitorder, bits.aval.shape, axis + 1)
    return ops.reduce_sum(ops.shift_left(bits, places), (axis + 1,))


def unpackbits(a: Any, axis: int | None = None, count: int | None = None, bitorder: str = "big") -> Any:
    """The bits of uint8 elements along an axis, as uint8 zeros and ones; cut or filled with zeros to `count` bits.

    Parameters
    ----------
    a : uint8[...]
    axis : int, optional
        Without it, `a` is flattened.
    count : int, optional
        Negative: so many bits fewer.

    Returns
    -------
    uint8[..., count, ...]

    Raises
    ------
    DTypeError
        `a` is not of uint8.
    ValueError
        Another bitorder.
    """
    check_arraylike("unpackbits", a)
    a = as_operand(a)
    if a.aval.dtype != np.uint8:
        raise errors.DTypeError(f"unpackbits takes an array of uint8, got dtype {a.aval.dtype}")
    _check_order(bitorder)
    if axis is None:
        a, axis = ops.reshape(a, (a.aval.size,)), 0
    axis = canonical_axis(axis, a.aval.ndim)
    shape = a.aval.shape
    wide = (*shape[: axis + 1], 8, *shape[axis + 1 :])
    spread = ops.broadcast_in_dim(a, wide, [i for i in range(len(wide)) if i != axis + 1])
    bits = ops.bitwise_and(ops.shift_right_logical(spread, _places(bitorder, wide, axis + 1)), ops.full_like(spread, 1))
    bits = ops.reshape(bits, (*shape[:axis], 8 * shape[axis], *shape[axis + 1 :]))
    if count is None:
        return bits
    size = 8 * shape[axis]
    kept = count if count >= 0 else max(size + count, 0)
    rows = [(0, 0, 0)] * len(shape)
    rows[axis] = (0, kept - size, 0)
    return ops.pad(bits, ops.full((), 0, np.uint8), rows)


def _check_order(bitorder: str) -> None:
    if bitorder not in ("big", "little"):
        raise ValueError(f"bitorder must be 'big' or 'little', got {bitorder!r}")


def _places(bitorder: str, shape: tuple[int, ...], axis: int) -> Any:
    place = ops.broadcasted_iota(np.uint8, shape, axis)
    return place if bitorder == "little" else ops.sub(ops.full_like(place, 7), place)
