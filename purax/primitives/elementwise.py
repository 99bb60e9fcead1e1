# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F405 (names of the other elementwise families come by the star imports at the end)
"""Elementwise arithmetic: sums, products, quotients, rounding, extrema.

This module also gives the names of the other elementwise families (`power`, `transcendental`, `comparison`, `complex`,
`bits`), so that rules elsewhere need one import.

Results have the operands' common dtype and shape unless told otherwise.

Parameters
----------
x, y : number[...]
    Of one dtype and shape; Python numbers adopt the dtype, scalars and sizes of 1 are repeated.
"""

from __future__ import annotations

import enum
from typing import Any

import numpy as np

from purax import dtypes
from purax.core.trace import aval_of
from purax.primitives import cast, complex_edges, operands, shape
from purax.primitives.base import is_linear
from purax.primitives.family import (
    ARITHMETIC,
    COMPLEX,
    FLOAT,
    HOST,
    HOST_FLOAT,
    INEXACT,
    ORDERED,
    REAL,
    SIGNED_OR_INEXACT,
    Elementwise,
    Kinds,
    on,
    widened,
)  # fmt: skip
from purax.sharding import rules

__all__ = [
    "RoundingMethod", "abs", "abs_p", "add", "add_p", "ceil", "ceil_p", "div", "div_p", "floor", "floor_p", "max",
    "max_p", "min", "min_p", "mul", "mul_p", "neg", "neg_p", "nextafter", "nextafter_p", "reciprocal", "rem", "rem_p",
    "round", "round_p", "sign", "sign_p", "square", "square_p", "strong_div", "strong_div_p", "strong_mul", "strong_mul_p",
    "strong_product", "sub", "sub_p",
]  # fmt: skip

BOTH = Kinds("bool, integer, floating or complex", (*ORDERED, *COMPLEX))

# --- products with strong zeros -------------------------------------------------------------------------------------


def _strong_product(t: Any, d: Any, *, both: bool) -> Any:
    product = t * d
    if t.all() and (not both or d.all()):
        return product
    zero = (t == 0) | (d == 0) if both else t == 0
    return np.where(zero, t.dtype.type(0), product)


def _lower_strong(b: Any, ins: Any, outs: Any, *, both: bool) -> list[Any]:
    (t, d), (out,) = ins, outs
    factor = b.splat(t)
    if factor is not None and factor == 1 and not both:  # the first cotangent of a gradient
        return [d]
    known = [factor, b.splat(d)]
    if any(x is not None and np.isfinite(x) and x != 0 for x in known):  # the product with zero is zero
        return [b.emit(f"stablehlo.multiply {t}, {d} : {out.hlo}", out)]
    zero = b.constant(0, out)
    flags = out.update(dtype=dtypes.bool_)

    def is_zero(x: Any) -> Any:
        return b.emit(f"stablehlo.compare EQ, {x}, {zero}, FLOAT : ({out.hlo}, {out.hlo}) -> {flags.hlo}", flags)

    test = is_zero(t)
    if both:
        test = b.emit(f"stablehlo.or {test}, {is_zero(d)} : {flags.hlo}", flags)
    product = b.emit(f"stablehlo.multiply {t}, {d} : {out.hlo}", out)
    return [b.emit(f"stablehlo.select {test}, {zero}, {product} : {flags.hlo}, {out.hlo}", out)]


def _transpose_strong(ct: Any, t: Any, d: Any, *, both: bool) -> Any:
    if is_linear(t):
        return strong_mul_p.bind1(ct, d, both=both), None
    return None, strong_mul_p.bind1(ct, t, both=both)


# t * d where a zero t gives zero though d is inf or NaN; with `both`, a zero d as well. Linear in t; with `both`, in either.
strong_mul_p: Elementwise = Elementwise(
    "strong_mul", (INEXACT, INEXACT), _lower_strong, _strong_product,
    lambda dt, y, t, d, both: strong_mul_p.bind1(dt, d, both=both),
    lambda dd, y, t, d, both: strong_mul_p.bind1(dd, t, both=True),
    transposed=_transpose_strong, exact=on(HOST_FLOAT), spread=rules.multiplied,
)  # fmt: skip
strong_mul_p.label = "mul"  # in a profile it is a product


def strong_mul(t: Any, d: Any) -> Any:
    """`t * d` in which a zero of `t` gives zero even where `d` is inf or NaN.

    What derivative rules multiply a tangent with: an element that was not selected has a zero tangent, and stays out of the
    gradient whatever the local derivative is.

    Parameters
    ----------
    t, d : inexact[...]
        Tangent and local derivative. Where d is known to be finite, `mul` does.

    Returns
    -------
    inexact[...]
    """
    if type(t) in _NUMBERS or type(d) in _NUMBERS or aval_of(t) is not aval_of(d):
        t, d = operands.coerce("strong_mul", t, d)
    return strong_mul_p.bind1(t, d, both=False)


def strong_product(x: Any, y: Any) -> Any:
    """`x * y` that is zero where either factor is: for products within a local derivative."""
    return strong_mul_p.bind1(*operands.coerce("strong_product", x, y), both=True)


_NUMBERS = (int, float)

# --- sums and products ----------------------------------------------------------------------------------------------


def _both(rule_x: Any, rule_y: Any) -> Any:
    """Transpose of an operation that is jointly linear: each marked operand gets its own map of the cotangent."""
    return lambda ct, x, y: (rule_x(ct) if is_linear(x) else None, rule_y(ct) if is_linear(y) else None)


def _same(ct: Any) -> Any:
    return ct


def _host_sum(avals: Any, params: Any) -> bool:
    return avals[0].dtype in HOST or avals[0].dtype in COMPLEX


def _negate(x: Any) -> Any:
    if dtypes.is_integer(x.dtype):
        return np.zeros_like(x) - x  # ml_dtypes negates its integers into values that they do not have
    return np.negative(x)


neg_p = Elementwise(
    "neg", ARITHMETIC, "stablehlo.negate", _negate, lambda t, y, x: neg(t),
    transposed=lambda ct, x: (neg(ct),), exact=_host_sum, ufunc=np.negative, spread=rules.added,
)  # fmt: skip
add_p = Elementwise(
    "add", (ARITHMETIC, ARITHMETIC), "stablehlo.add", np.add, lambda t, z, x, y: t, lambda t, z, x, y: t,
    transposed=_both(_same, _same), exact=_host_sum, ufunc=np.add, spread=rules.added,
)  # fmt: skip
sub_p = Elementwise(
    "sub", (ARITHMETIC, ARITHMETIC), "stablehlo.subtract", np.subtract, lambda t, z, x, y: t, lambda t, z, x, y: neg(t),
    transposed=_both(_same, lambda ct: neg_p.bind1(ct)), exact=_host_sum, ufunc=np.subtract, spread=rules.added,
)  # fmt: skip
mul_p: Elementwise = Elementwise(
    "mul", (ARITHMETIC, ARITHMETIC), "stablehlo.multiply", np.multiply,
    lambda t, z, x, y: strong_mul(t, y), lambda t, z, x, y: strong_mul(t, x),
    transposed=lambda ct, x, y: (mul_p.bind1(ct, y), None) if is_linear(x) else (None, mul_p.bind1(x, ct)),
    exact=on(HOST), ufunc=np.multiply, spread=rules.multiplied,
)  # fmt: skip


def _square_lower(b: Any, ins: Any, outs: Any) -> list[Any]:
    return [b.emit(f"stablehlo.multiply {ins[0]}, {ins[0]} : {outs[0].hlo}", outs[0])]


square_p = Elementwise(
    "square", ARITHMETIC, _square_lower, np.square, lambda t, y, x: strong_mul(t, mul(x, 2)),
    exact=on(HOST), ufunc=np.square,
)  # fmt: skip

# --- quotients ------------------------------------------------------------------------------------------------------


def _divide(x: Any, y: Any) -> Any:
    if not dtypes.is_integer(x.dtype):
        return np.true_divide(x, y)
    x, y = np.asarray(x), np.asarray(y)
    zero = y == 0
    if not dtypes.is_signed(x.dtype):
        return np.where(zero, ~np.zeros((), x.dtype), x // np.where(zero, np.ones((), x.dtype), y))
    one = np.ones((), x.dtype)
    quotient = x // np.where(zero | (y == -one), one, y)
    exactly = quotient * y == x
    quotient = np.where(exactly | ((x < 0) == (y < 0)), quotient, quotient + one)
    return np.where(zero, -one, np.where(y == -one, -x, quotient))


def _remainder(x: Any, y: Any) -> Any:
    if not dtypes.is_integer(x.dtype):
        return np.fmod(x, y)
    return x - _divide(x, y) * y  # a zero divisor leaves x


def _strong_quotient(t: Any, y: Any) -> Any:
    return np.where(t == 0, t.dtype.type(0), t / y)


def _lower_strong_quotient(b: Any, ins: Any, outs: Any) -> list[Any]:
    (t, y), (out,) = ins, outs
    quotient = f"stablehlo.divide {t}, {y} : {out.hlo}"
    known = b.splat(y)
    if known is not None and known != 0 and known == known:  # zero by it is zero
        return [b.emit(quotient, out)]
    row = b.repeated(y)
    if row is not None:  # one reciprocal for all that are divided by the same number
        small, places = row
        inverse = b.emit(f"stablehlo.divide {b.constant(1, small.aval)}, {small} : {small.hlo}", small.aval)
        quotient = f"stablehlo.multiply {t}, {b.broadcast(inverse, places, out)} : {out.hlo}"
    zero, flags = b.constant(0, out), out.update(dtype=dtypes.bool_)
    test = b.emit(f"stablehlo.compare EQ, {t}, {zero}, FLOAT : ({out.hlo}, {out.hlo}) -> {flags.hlo}", flags)
    return [b.emit(f"stablehlo.select {test}, {zero}, {b.emit(quotient, out)} : {flags.hlo}, {out.hlo}", out)]


# t / y where a zero t gives zero though y is zero or NaN: the tangent of a quotient. Linear in t.
strong_div_p: Elementwise = Elementwise(
    "strong_div", (FLOAT, FLOAT), _lower_strong_quotient, _strong_quotient,
    lambda dt, z, t, y: strong_div_p.bind1(dt, y),
    lambda dy, z, t, y: strong_product(dy, neg(strong_div(z, y))),
    transposed=lambda ct, t, y: (strong_div_p.bind1(ct, y), None), exact=on(HOST_FLOAT),
)  # fmt: skip
strong_div_p.label = "div"


def strong_div(t: Any, y: Any) -> Any:
    """`t / y` in which a zero of `t` gives zero whatever `y` is: how derivative rules divide a tangent.

    Rounded once, so it is closer than a product with the reciprocal, and right where that is too large for the dtype.

    Parameters
    ----------
    t, y : inexact[...]
        Complex numbers are multiplied with the reciprocal, since quotients of infinities are NaN there.

    Returns
    -------
    inexact[...]
    """
    t, y = operands.coerce("strong_div", t, y)
    return strong_div_p.bind1(t, y) if dtypes.is_float(aval_of(y).dtype) else strong_mul(t, reciprocal(y))


div_p = Elementwise(
    "div", (ARITHMETIC, ARITHMETIC), "stablehlo.divide", _divide,
    lambda t, z, x, y: strong_div(t, y),
    lambda t, z, x, y: strong_mul(t, neg(div(z, y))),
    transposed=lambda ct, x, y: (strong_div(ct, y), None), exact=on(HOST_FLOAT), ufunc=np.true_divide,
)  # fmt: skip
rem_p = Elementwise(
    "rem", (REAL, REAL), "stablehlo.remainder", _remainder,
    lambda t, z, x, y: t,
    lambda t, z, x, y: strong_mul(t, neg(_truncate(div(x, y)))),
)  # fmt: skip


def _truncate(x: Any) -> Any:
    return mul(sign(x), floor(abs(x)))


# --- signs and rounding ---------------------------------------------------------------------------------------------


def _sign(x: Any) -> Any:
    if dtypes.is_complex(x.dtype):
        return np.where(x == 0, x.dtype.type(0), x / np.abs(x))
    return np.copysign(np.sign(x), x) if dtypes.is_float(x.dtype) else np.sign(x)


def _abs_tangent(t: Any, y: Any, x: Any) -> Any:
    if not dtypes.is_complex(aval_of(x).dtype):
        return select(ge(x, shape.full_like(x, 0)), t, neg(t))
    # d|x| = Re(t conj(x) / |x|), with 0 for the direction of 0.
    safe = select(eq(y, shape.full_like(y, 0)), shape.full_like(y, 1), y)
    direction = complex(div(real(x), safe), div(neg(imag(x)), safe))
    return real(mul(t, direction))


def _lower_sign(b: Any, ins: Any, outs: Any) -> list[Any]:
    if dtypes.is_unsigned(outs[0].dtype):
        return b.inline(lambda x: min(x, shape.full_like(x, 1)), ins)
    return [b.emit(f"stablehlo.sign {ins[0]} : {outs[0].hlo}", outs[0])]


sign_p = Elementwise("sign", ARITHMETIC, _lower_sign, widened(_sign), None, exact=on(HOST))
abs_p = Elementwise(
    "abs", SIGNED_OR_INEXACT, "stablehlo.abs", np.abs, _abs_tangent, result=dtypes.real_dtype, exact=on(HOST), ufunc=np.abs,
    edges=complex_edges.size,
)  # fmt: skip
floor_p = Elementwise("floor", FLOAT, "stablehlo.floor", np.floor, None, exact=on(HOST_FLOAT), ufunc=np.floor)
ceil_p = Elementwise("ceil", FLOAT, "stablehlo.ceil", np.ceil, None, exact=on(HOST_FLOAT), ufunc=np.ceil)


class RoundingMethod(enum.IntEnum):
    """What `round` does with halves."""

    AWAY_FROM_ZERO = 0
    TO_NEAREST_EVEN = 1


def _round(x: Any, *, rounding_method: RoundingMethod) -> Any:
    if rounding_method is RoundingMethod.TO_NEAREST_EVEN:
        return np.rint(x)
    whole = np.trunc(x)
    return np.copysign(np.where(np.abs(x - whole) >= 0.5, whole + np.copysign(x.dtype.type(1), x), whole), x)


def _lower_round(b: Any, ins: Any, outs: Any, *, rounding_method: RoundingMethod) -> list[Any]:
    operation = "round_nearest_even" if rounding_method is RoundingMethod.TO_NEAREST_EVEN else "round_nearest_afz"
    return [b.emit(f"stablehlo.{operation} {ins[0]} : {outs[0].hlo}", outs[0])]


round_p = Elementwise("round", FLOAT, _lower_round, widened(_round), None, exact=on(HOST_FLOAT))

# --- extrema --------------------------------------------------------------------------------------------------------


def _tie(t: Any, z: Any, own: Any, other: Any) -> Any:
    """The tangent of max or min to one operand: all where it is the result, half at a tie; else 0, were it infinite."""
    one, half, zero = (shape.full_like_aval(aval_of(z), value) for value in (1, 0.5, 0))
    weight = select(eq(own, z), select(eq(other, z), half, one), zero)
    return strong_product(t, weight)


def _lower_extremum(operation: str, greater: str) -> Any:
    def lower(b: Any, ins: Any, outs: Any) -> list[Any]:
        (x, y), (out,) = ins, outs
        if not dtypes.is_complex(out.dtype):
            return [b.emit(f"stablehlo.{operation} {x}, {y} : {out.hlo}", out)]

        def lexicographic(x: Any, y: Any) -> Any:
            first = gt if greater == "gt" else lt
            ahead = bitwise_or(first(real(x), real(y)), bitwise_and(eq(real(x), real(y)), first(imag(x), imag(y))))
            return select(bitwise_or(ne(x, x), bitwise_and(ahead, eq(y, y))), x, y)

        return b.inline(lexicographic, ins)

    return lower


def maximum(x: Any, y: Any) -> Any:
    """`numpy.maximum` with +0 above -0."""
    if not dtypes.is_float(x.dtype):
        return np.maximum(x, y)
    larger = np.maximum(x, y)
    return larger if larger.all() else np.where((x == 0) & (y == 0), x + y, larger)


def minimum(x: Any, y: Any) -> Any:
    """`numpy.minimum` with -0 below +0."""
    if not dtypes.is_float(x.dtype):
        return np.minimum(x, y)
    smaller = np.minimum(x, y)
    return smaller if smaller.all() else np.where((x == 0) & (y == 0), -(-x - y), smaller)


max_p = Elementwise(
    "max", (BOTH, BOTH), _lower_extremum("maximum", "gt"), maximum,
    lambda t, z, x, y: _tie(t, z, x, y), lambda t, z, x, y: _tie(t, z, y, x), exact=on(HOST),
)  # fmt: skip
min_p = Elementwise(
    "min", (BOTH, BOTH), _lower_extremum("minimum", "lt"), minimum,
    lambda t, z, x, y: _tie(t, z, x, y), lambda t, z, x, y: _tie(t, z, y, x), exact=on(HOST),
)  # fmt: skip
nextafter_p = Elementwise(
    "nextafter", (FLOAT, FLOAT), "chlo.next_after", lambda x, y: np.where(x == y, y, np.nextafter(x, y)),
    lambda t, z, x, y: t, None,
)  # fmt: skip

# --- the user's functions -------------------------------------------------------------------------------------------


def neg(x: Any) -> Any:
    """Minus each element; unsigned integers wrap: number[...] -> number[...]."""
    return neg_p.bind1(operands.lift(x))


def add(x: Any, y: Any) -> Any:
    """Sum of each pair of elements; integers wrap: number[...], number[...] -> number[...].

    Operands have one dtype and shape; Python numbers adopt the dtype, scalars and sizes of 1 are repeated.

    Raises
    ------
    DTypeError, ShapeError
        Operands differ otherwise.
    """
    return add_p.bind1(*operands.coerce("add", x, y))


def sub(x: Any, y: Any) -> Any:
    """Difference of each pair of elements; integers wrap. Operands as in `add`."""
    return sub_p.bind1(*operands.coerce("sub", x, y))


def mul(x: Any, y: Any, *, out_dtype: Any = None) -> Any:
    """Product of each pair of elements; integers wrap. Operands as in `add`; `out_dtype` converts them first."""
    if out_dtype is not None:
        x, y = (cast.convert_element_type(v, out_dtype) for v in operands.coerce("mul", x, y))
    return mul_p.bind1(*operands.coerce("mul", x, y))


def div(x: Any, y: Any) -> Any:
    """Quotient of each pair of elements. Operands as in `add`.

    Integers are divided toward zero; a zero divisor gives -1 (all bits set), and the smallest integer over -1 itself.

    Examples
    --------
    >>> purax.lax.div(-7, 2).item(), purax.lax.rem(-7, 2).item()
    (-3, -1)
    """
    return div_p.bind1(*operands.coerce("div", x, y))


def rem(x: Any, y: Any) -> Any:
    """Remainder of the division toward zero, with the sign of `x`; by an integer zero it is `x`. Operands as in `add`."""
    return rem_p.bind1(*operands.coerce("rem", x, y))


def max(x: Any, y: Any) -> Any:
    """The larger of each pair; NaN if one is NaN; complex numbers are ordered by real, then imaginary part.

    Operands as in `add`, or bool. At a tie each operand gets half of the derivative.
    """
    return max_p.bind1(*operands.coerce("max", x, y))


def min(x: Any, y: Any) -> Any:
    """The smaller of each pair; the rest as in `max`."""
    return min_p.bind1(*operands.coerce("min", x, y))


def nextafter(x1: Any, x2: Any) -> Any:
    """The float next to `x1` in the direction of `x2`: float[...], float[...] -> float[...]."""
    return nextafter_p.bind1(*operands.coerce("nextafter", x1, x2))


def sign(x: Any) -> Any:
    """-1, 0 or 1 as each element is negative, zero or positive (zeros keep their sign, NaN stays); complex: x / abs(x)."""
    return sign_p.bind1(operands.lift(x))


def abs(x: Any) -> Any:
    """Absolute value of each element; real for complex operands. At 0 its derivative is 1 for real, 0 for complex elements."""
    return abs_p.bind1(operands.lift(x))


def floor(x: Any) -> Any:
    """Largest integer not above each element, as a float."""
    return floor_p.bind1(operands.lift(x))


def ceil(x: Any) -> Any:
    """Smallest integer not below each element, as a float."""
    return ceil_p.bind1(operands.lift(x))


def round(x: Any, rounding_method: RoundingMethod = RoundingMethod.AWAY_FROM_ZERO) -> Any:
    """Nearest integer of each element, as a float; halves go away from zero, or to even numbers.

    Parameters
    ----------
    x : float[...]
    rounding_method : RoundingMethod

    Returns
    -------
    float[...]
    """
    return round_p.bind1(operands.lift(x), rounding_method=RoundingMethod(rounding_method))


def square(x: Any) -> Any:
    """`x * x` of each element."""
    return square_p.bind1(operands.lift(x))


def reciprocal(x: Any) -> Any:
    """`1 / x` of each element: inexact[...] -> inexact[...]."""
    x = operands.lift(x)
    return div_p.bind1(shape.full_like(x, 1), x)


# The other elementwise families, under this module's name.
from purax.primitives import bits, comparison, power, transcendental  # noqa: E402
from purax.primitives import complex as complex_parts  # noqa: E402
from purax.primitives.bits import *  # noqa: E402, F403
from purax.primitives.comparison import *  # noqa: E402, F403
from purax.primitives.complex import *  # noqa: E402, F403
from purax.primitives.power import *  # noqa: E402, F403
from purax.primitives.transcendental import *  # noqa: E402, F403

__all__ += bits.__all__
__all__ += comparison.__all__
__all__ += complex_parts.__all__
__all__ += power.__all__
__all__ += transcendental.__all__
