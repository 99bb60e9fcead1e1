# SPDX-License-Identifier: Apache-2.0
"""Logic and bits: and, or, xor, not, shifts, counts, the high half of products.

Results have the operands' common dtype and shape.

Parameters
----------
x, y : bool[...] or integer[...]
    As the operands of `add`; bool for and, or, xor, not only.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from purax import dtypes
from purax.core.trace import aval_of
from purax.primitives import cast, elementwise, operands, shape
from purax.primitives.family import BITS, HOST, INTEGER, Elementwise, on

__all__ = [
    "and_p", "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "clz", "clz_p", "mulhi", "mulhi_p", "not_p", "or_p",
    "population_count", "population_count_p", "shift_left", "shift_left_p", "shift_right_arithmetic",
    "shift_right_arithmetic_p", "shift_right_logical", "shift_right_logical_p", "xor_p",
]  # fmt: skip


def _logic(name: str, ufunc: Any) -> Elementwise:
    return Elementwise(name, (BITS, BITS), f"stablehlo.{name}", ufunc, None, None, exact=on(HOST), ufunc=ufunc)


and_p = _logic("and", np.bitwise_and)
or_p = _logic("or", np.bitwise_or)
xor_p = _logic("xor", np.bitwise_xor)


def _invert(x: Any) -> Any:
    if x.dtype in HOST:
        return np.invert(x)
    ones = -1 if dtypes.is_signed(x.dtype) else int(dtypes.iinfo(x.dtype).max)
    return np.bitwise_xor(x, x.dtype.type(ones))  # the inversion of ml_dtypes leaves the range of unsigned integers


not_p = Elementwise("not", BITS, "stablehlo.not", _invert, None, exact=on(HOST), ufunc=np.invert)


# --- shifts: by the width or more, all bits are shifted out ---------------------------------------------------------


def _unsigned(x: Any) -> Any:
    return np.asarray(x).astype(f"u{x.dtype.itemsize}")


def _shift(direction: Any) -> Any:
    def compute(x: Any, y: Any) -> Any:
        bits, amount = _unsigned(x), _unsigned(y)
        width = dtypes.itemsize_bits(x.dtype)
        beyond = amount >= width
        return np.where(beyond, bits * 0, direction(bits, np.where(beyond, amount * 0, amount))).astype(x.dtype)

    return compute


def _shift_arithmetic(x: Any, y: Any) -> Any:
    last = dtypes.itemsize_bits(x.dtype) - 1
    amount = np.minimum(_unsigned(y), last).astype(x.dtype)
    signed = np.asarray(x).astype(f"i{x.dtype.itemsize}")
    return np.right_shift(signed, amount.astype(signed.dtype)).astype(x.dtype)


shift_left_p = Elementwise("shift_left", (INTEGER, INTEGER), "stablehlo.shift_left", _shift(np.left_shift), None, None)
shift_right_logical_p = Elementwise(
    "shift_right_logical", (INTEGER, INTEGER), "stablehlo.shift_right_logical", _shift(np.right_shift), None, None
)
shift_right_arithmetic_p = Elementwise(
    "shift_right_arithmetic", (INTEGER, INTEGER), "stablehlo.shift_right_arithmetic", _shift_arithmetic, None, None
)


# --- counts and products --------------------------------------------------------------------------------------------


def _count(x: Any) -> Any:
    return np.bitwise_count(_unsigned(x)).astype(x.dtype)


def _leading_zeros(x: Any) -> Any:
    width = dtypes.itemsize_bits(x.dtype)
    bits, count = _unsigned(x), np.zeros(np.shape(x), np.int64)
    for place in range(width):
        count += (bits >> np.asarray(place, bits.dtype)) == 0
    return count.astype(x.dtype)


population_count_p = Elementwise("population_count", INTEGER, "stablehlo.popcnt", _count, None)
clz_p = Elementwise("clz", INTEGER, "stablehlo.count_leading_zeros", _leading_zeros, None)


def _high_product(x: Any, y: Any) -> Any:
    width = dtypes.itemsize_bits(x.dtype)
    exact = np.asarray(x).astype(object) * np.asarray(y).astype(object)
    return np.asarray(np.asarray(exact, object) >> width).astype(np.asarray(x).dtype)


def _mulhi_formula(x: Any, y: Any) -> Any:
    """Through twice the width; 64 bits by halves of 32."""
    dtype = aval_of(x).dtype
    width = dtypes.itemsize_bits(dtype)
    sign = "int" if dtypes.is_signed(dtype) else "uint"
    if width < 64:
        wide = dtypes.named(f"{sign}{2 * max(width, 8)}")
        product = elementwise.mul(cast.convert_element_type(x, wide), cast.convert_element_type(y, wide))
        shift = shift_right_arithmetic if sign == "int" else shift_right_logical
        return cast.convert_element_type(shift(product, shape.full_like(product, width)), dtype)
    mask, half = shape.full_like(x, 0xFFFFFFFF), shape.full_like(x, 32)
    high = shift_right_arithmetic if sign == "int" else shift_right_logical
    x0, x1 = bitwise_and(x, mask), high(x, half)
    y0, y1 = bitwise_and(y, mask), high(y, half)
    carry = elementwise.add(elementwise.mul(x1, y0), shift_right_logical(elementwise.mul(x0, y0), half))
    middle = elementwise.add(elementwise.mul(x0, y1), bitwise_and(carry, mask))
    return elementwise.add(elementwise.add(elementwise.mul(x1, y1), high(carry, half)), high(middle, half))


mulhi_p = Elementwise(
    "mulhi", (INTEGER, INTEGER), lambda b, ins, outs: b.inline(_mulhi_formula, ins), _high_product, None, None
)


# --- the user's functions -------------------------------------------------------------------------------------------


def bitwise_and(x: Any, y: Any) -> Any:
    """And of bits: bool[...] or integer[...]. Operands as in `add`."""
    return and_p.bind1(*operands.coerce("bitwise_and", x, y))


def bitwise_or(x: Any, y: Any) -> Any:
    """Or of bits: bool[...] or integer[...]. Operands as in `add`."""
    return or_p.bind1(*operands.coerce("bitwise_or", x, y))


def bitwise_xor(x: Any, y: Any) -> Any:
    """Exclusive or of bits: bool[...] or integer[...]. Operands as in `add`."""
    return xor_p.bind1(*operands.coerce("bitwise_xor", x, y))


def bitwise_not(x: Any) -> Any:
    """Each bit inverted: bool[...] or integer[...]."""
    return not_p.bind1(operands.lift(x))


def shift_left(x: Any, y: Any) -> Any:
    """`x` shifted by `y` bits to the left; by the width or more (or a negative number) gives 0. Operands as in `add`."""
    return shift_left_p.bind1(*operands.coerce("shift_left", x, y))


def shift_right_logical(x: Any, y: Any) -> Any:
    """`x` shifted to the right, zeros shifted in; by the width or more (or a negative number) gives 0. Operands as in `add`."""
    return shift_right_logical_p.bind1(*operands.coerce("shift_right_logical", x, y))


def shift_right_arithmetic(x: Any, y: Any) -> Any:
    """`x` shifted to the right, the sign bit shifted in; by the width or more all bits are the sign. Operands as in `add`."""
    return shift_right_arithmetic_p.bind1(*operands.coerce("shift_right_arithmetic", x, y))


def population_count(x: Any) -> Any:
    """Number of bits that are set in each element: integer[...] -> integer[...]."""
    return population_count_p.bind1(operands.lift(x))


def clz(x: Any) -> Any:
    """Number of leading zero bits of each element: integer[...] -> integer[...]."""
    return clz_p.bind1(operands.lift(x))


def mulhi(x: Any, y: Any) -> Any:
    """High half of the product in twice the width: integer[...], integer[...] -> integer[...]. Operands as in `add`."""
    return mulhi_p.bind1(*operands.coerce("mulhi", x, y))
