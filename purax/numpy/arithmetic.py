# SPDX-License-Identifier: Apache-2.0
"""Arithmetic of two arrays: sums, products, quotients, remainders, powers, extrema.

Each function with a fast path looks up how its two operand types meet in the table of its `Binary`; see `promotion.py`.

Operands broadcast and meet in one dtype, which results have too unless a function says otherwise.

Parameters
----------
x, y, x1, x2 : array or scalar
    Operands, which broadcast and promote; ShapeError or a dtype error if they do not.
out, where : None
    NumPy's; anything else raises NotImplementedError.
"""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from purax import dtypes, errors
from purax.control.loop import while_loop
from purax.core.trace import Tracer
from purax.numpy import _ops as ops
from purax.numpy.alias import alias
from purax.numpy.promotion import (
    Binary,
    as_operand,
    check_arraylike,
    inexact,
    numeric,
    promote_dtypes,
    promote_dtypes_inexact,
    promote_shapes,
)
from purax.primitives.complex_edges import with_sign_of

__all__ = [
    "add", "arctan2", "atan2", "copysign", "divide", "divmod", "float_power", "floor_divide", "fmax", "fmin", "fmod", "gcd",
    "heaviside", "hypot", "lcm", "ldexp", "logaddexp", "logaddexp2", "maximum", "minimum", "mod", "multiply", "nextafter",
    "pow", "power", "remainder", "subtract", "true_divide",
]  # fmt: skip


# ---- sums and products

_add = Binary("add", lambda dtype: (ops.or_p if dtypes.is_bool(dtype) else ops.add_p).bind1)
_add_known = _add.known


def add(x: Any, y: Any, /, out: None = None, where: None = None) -> Any:
    """Sum of two arrays, of the common dtype; of booleans, the logical or."""
    found = _add_known.get((getattr(x, "aval", None), getattr(y, "aval", None)))
    return _add(x, y, out, where) if found is None or out is not where else found(x, y)


_subtract = Binary("subtract", lambda dtype: ops.sub_p.bind1)
_subtract_known = _subtract.known


def subtract(x: Any, y: Any, /, out: None = None, where: None = None) -> Any:
    """Difference of two arrays, of the common dtype; TypeError for booleans."""
    found = _subtract_known.get((getattr(x, "aval", None), getattr(y, "aval", None)))
    return _subtract(x, y, out, where) if found is None or out is not where else found(x, y)


_multiply = Binary("multiply", lambda dtype: (ops.and_p if dtypes.is_bool(dtype) else ops.mul_p).bind1)
_multiply_known = _multiply.known


def multiply(x: Any, y: Any, /, out: None = None, where: None = None) -> Any:
    """Product of two arrays, of the common dtype; of booleans, the logical and."""
    found = _multiply_known.get((getattr(x, "aval", None), getattr(y, "aval", None)))
    return _multiply(x, y, out, where) if found is None or out is not where else found(x, y)


_divide = Binary("true_divide", lambda dtype: ops.div_p.bind1, inexact)
_divide_known = _divide.known


def true_divide(x1: Any, x2: Any, /) -> Any:
    """Quotient of two arrays, of the common dtype if it is inexact, else of the default float.

    Examples
    --------
    >>> pnp.true_divide(7, 2).item(), pnp.floor_divide(-7, 2).item(), pnp.remainder(-7, 2).item(), pnp.fmod(-7, 2).item()
    (3.5, -4, 1, -1)
    """
    found = _divide_known.get((getattr(x1, "aval", None), getattr(x2, "aval", None)))
    return _divide(x1, x2) if found is None else found(x1, x2)


divide = alias(true_divide, "divide")

_maximum = Binary("maximum", lambda dtype: ops.max_p.bind1)
_maximum_known = _maximum.known


def maximum(x: Any, y: Any, /, out: None = None, where: None = None) -> Any:
    """Larger of each two elements; NaN if either is. Complex numbers compare lexicographically. At a tie the gradient is halved."""
    found = _maximum_known.get((getattr(x, "aval", None), getattr(y, "aval", None)))
    return _maximum(x, y, out, where) if found is None or out is not where else found(x, y)


_minimum = Binary("minimum", lambda dtype: ops.min_p.bind1)
_minimum_known = _minimum.known


def minimum(x: Any, y: Any, /, out: None = None, where: None = None) -> Any:
    """Smaller of each two elements; NaN if either is. Complex numbers compare lexicographically. At a tie the gradient is halved."""
    found = _minimum_known.get((getattr(x, "aval", None), getattr(y, "aval", None)))
    return _minimum(x, y, out, where) if found is None or out is not where else found(x, y)


def fmax(x1: Any, x2: Any) -> Any:
    """Larger of each two elements; the other one where one is NaN."""
    return _pick_number(ops.max, *_pair("fmax", x1, x2))


def fmin(x1: Any, x2: Any) -> Any:
    """Smaller of each two elements; the other one where one is NaN."""
    return _pick_number(ops.min, *_pair("fmin", x1, x2))


def _pair(name: str, x: Any, y: Any) -> list[Any]:
    check_arraylike(name, x, y)
    return promote_shapes(name, *promote_dtypes(x, y))


def _pick_number(better: Any, x: Any, y: Any) -> Any:
    best = better(x, y)
    if not dtypes.is_inexact(x.aval.dtype):
        return best
    return ops.select_n(ops.ne(x, x), ops.select_n(ops.ne(y, y), best, x), y)


# ---- quotients and remainders


def _nonzero_divisor(y: Any) -> tuple[Any, Any]:
    """Where an integer divisor is zero, and the divisor with ones there."""
    return ops.eq(y, ops.full_like(y, 0)), ops.nonzero_divisor(y)


def _integer_floor_divide(x: Any, y: Any) -> Any:
    # NumPy's integers: n // 0 is 0, quotients round down.
    zero, safe = _nonzero_divisor(y)
    quotient = ops.div(x, safe)
    if dtypes.is_signed(x.aval.dtype):
        remains = ops.ne(ops.rem(x, safe), ops.full_like(x, 0))
        down = ops.bitwise_and(remains, ops.ne(ops.sign(x), ops.sign(safe)))
        quotient = ops.select_n(down, quotient, ops.sub(quotient, ops.full_like(x, 1)))
    return ops.select_n(zero, quotient, ops.full_like(x, 0))


def _integer_remainder(x: Any, y: Any) -> Any:
    zero, safe = _nonzero_divisor(y)
    rest = ops.rem(x, safe)
    if dtypes.is_signed(x.aval.dtype):
        wrong_sign = ops.bitwise_and(ops.ne(rest, ops.full_like(x, 0)), ops.ne(ops.sign(rest), ops.sign(safe)))
        rest = ops.select_n(wrong_sign, rest, ops.add(rest, safe))
    return ops.select_n(zero, rest, ops.full_like(x, 0))


def _float_remainder(x: Any, y: Any) -> Any:
    zero = ops.full_like(x, 0)
    rest = ops.rem(x, y)
    wrong_sign = ops.bitwise_and(ops.ne(rest, zero), ops.ne(ops.lt(rest, zero), ops.lt(y, zero)))
    return ops.select_n(wrong_sign, rest, ops.add(rest, y))


def _float_floor_divide(x: Any, y: Any) -> Any:
    # (x - x mod y) / y is an integer but for rounding; x / 0 is what division gives.
    zero = ops.eq(y, ops.full_like(y, 0))
    exact = ops.div(ops.sub(x, _float_remainder(x, y)), y)
    down = ops.floor(exact)
    half = ops.gt(ops.sub(exact, down), ops.full_like(x, 0.5))
    quotient = ops.div(x, y)
    rounded = ops.select_n(half, down, ops.add(down, ops.full_like(x, 1)))
    # A zero has the sign of the quotient.
    rounded = ops.select_n(ops.eq(rounded, ops.full_like(x, 0)), rounded, ops.mul(quotient, ops.full_like(x, 0)))
    finite = ops.select_n(zero, rounded, quotient)
    # A finite number divided by an infinite one lies just above or just below 0.
    endless = ops.bitwise_and(ops.eq(ops.abs(y), ops.full_like(y, np.inf)), ops.is_finite(x))
    below = ops.lt(ops.mul(ops.sign(x), ops.sign(y)), ops.full_like(x, 0))
    return ops.select_n(endless, finite, ops.select_n(below, ops.full_like(x, 0), ops.full_like(x, -1)))


def _by_kind(name: str, integers: Any, floats: Any) -> Any:
    def choose(dtype: Any) -> Any:
        if dtypes.is_complex(dtype):
            raise errors.DTypeError(f"{name} does not support complex numbers, which have no order; got dtype {dtype}")
        return floats if dtypes.is_inexact(dtype) else integers

    return choose


_floor_divide = Binary("floor_divide", _by_kind("floor_divide", _integer_floor_divide, _float_floor_divide), numeric)
_floor_divide_known = _floor_divide.known


def floor_divide(x1: Any, x2: Any, /) -> Any:
    """Largest integer not above the quotient, of the common dtype. Integers: ``n // 0`` is 0; floats: infinite or NaN."""
    found = _floor_divide_known.get((getattr(x1, "aval", None), getattr(x2, "aval", None)))
    return _floor_divide(x1, x2) if found is None else found(x1, x2)


_remainder = Binary("remainder", _by_kind("remainder", _integer_remainder, _float_remainder), numeric)
_remainder_known = _remainder.known


def remainder(x1: Any, x2: Any, /) -> Any:
    """Remainder of `floor_divide`, with the sign of the divisor. Integers: ``n % 0`` is 0; floats: NaN."""
    found = _remainder_known.get((getattr(x1, "aval", None), getattr(x2, "aval", None)))
    return _remainder(x1, x2) if found is None else found(x1, x2)


mod = alias(remainder, "mod")


def _integer_fmod(x: Any, y: Any) -> Any:
    zero, safe = _nonzero_divisor(y)
    return ops.select_n(zero, ops.rem(x, safe), ops.full_like(x, 0))


_fmod = Binary("fmod", _by_kind("fmod", _integer_fmod, ops.rem), numeric)


def fmod(x1: Any, x2: Any, /) -> Any:
    """Remainder of division rounded toward zero, with the sign of the dividend. Integers: ``fmod(n, 0)`` is 0."""
    return _fmod(x1, x2)


def divmod(x1: Any, x2: Any, /) -> tuple[Any, Any]:
    """The pair ``(x1 // x2, x1 % x2)``."""
    return floor_divide(x1, x2), remainder(x1, x2)


# ---- powers


def power(x1: Any, x2: Any, /) -> Any:
    """`x1` to the power `x2`, of the common dtype.

    A Python integer as exponent becomes repeated multiplication, exact in its derivatives. Integers to negative integer powers
    raise ValueError, as in NumPy; where the exponent is traced and its value unknown they give 0, but for bases 1 and -1.

    Raises
    ------
    ValueError
        An integer base and a negative integer exponent.
    """
    if type(x2) is int:
        base = getattr(x1, "aval", None)
        if base is None:
            check_arraylike("power", x1)
            if type(x1) not in (builtins.bool, int, float, complex):
                x1 = as_operand(x1)
                base = x1.aval
        if base is not None and not dtypes.is_bool(base.dtype):
            if x2 < 0 and not dtypes.is_inexact(base.dtype):
                raise ValueError(_NEGATIVE)
            return ops.integer_pow(x1, x2)
    found = _power_known.get((getattr(x1, "aval", None), getattr(x2, "aval", None)))
    return _power(x1, x2) if found is None else found(x1, x2)


pow = alias(power, "pow")

_NEGATIVE = "Integers to negative integer powers are not allowed: convert the base to a float"


def _integer_power(x: Any, y: Any) -> Any:
    """Square and multiply over the bits of the exponent."""
    signed = dtypes.is_signed(y.aval.dtype)
    if signed and y.aval.size:
        known = y.concrete() if isinstance(y, Tracer) else y
        if known is not None and np.asarray(known).min() < 0:
            raise ValueError(_NEGATIVE)
    zero, one = ops.full_like(x, 0), ops.full_like(x, 1)

    def going(state: Any) -> Any:
        return ops.reduce_or(ops.gt(state[2], zero), tuple(range(zero.aval.ndim)))

    def step(state: Any) -> Any:
        result, square, bits = state
        odd = ops.ne(ops.bitwise_and(bits, one), zero)
        result = ops.select_n(odd, result, ops.mul(result, square))
        return result, ops.mul(square, square), ops.shift_right_logical(bits, one)

    start = ops.max(y, zero) if signed else y
    result = while_loop(going, step, (one, x, start))[0]
    if signed:
        # Traced negative exponents: 1 and -1 have inverses among the integers.
        odd = ops.ne(ops.bitwise_and(y, one), zero)
        unit = ops.select_n(ops.eq(x, one), ops.select_n(ops.eq(x, ops.neg(one)), zero, ops.select_n(odd, one, x)), one)
        result = ops.select_n(ops.lt(y, zero), result, unit)
    return result


_power = Binary("power", lambda dtype: ops.pow if dtypes.is_inexact(dtype) else _integer_power, numeric)
_power_known = _power.known

_float_power = Binary("float_power", lambda dtype: ops.pow, inexact)


def float_power(x: Any, y: Any, /) -> Any:
    """`x` to the power `y` in floating point."""
    return _float_power(x, y)


def ldexp(x1: Any, x2: Any, /) -> Any:
    """``x1 * 2 ** x2`` for integers `x2`, without overflow on the way.

    Raises
    ------
    ValueError
        `x2` are not integers.
    DTypeError
        `x1` is complex.
    """
    check_arraylike("ldexp", x1, x2)
    x2 = as_operand(x2)
    if not (dtypes.is_integer(x2.aval.dtype) or dtypes.is_bool(x2.aval.dtype)):
        raise ValueError(f"ldexp takes integer exponents, got dtype {x2.aval.dtype}")
    (x,) = promote_dtypes_inexact(x1)
    x, n = promote_shapes("ldexp", x, ops.convert_element_type(x2, dtypes.default_int()))
    dtype = x.aval.dtype
    if dtypes.is_complex(dtype):
        raise errors.DTypeError("ldexp does not support complex numbers")
    # Powers of two below 2 ** 1024 in three factors: no factor overflows where the result does not.
    limit = 3 * (dtypes.finfo(dtype).maxexp - 1)
    n = ops.clamp(ops.full_like(n, -limit), n, ops.full_like(n, limit))
    third = ops.div(n, ops.full_like(n, 3))
    for part in (third, third, ops.sub(n, ops.mul(third, ops.full_like(n, 2)))):
        x = ops.mul(x, ops.exp2(ops.convert_element_type(part, dtype)))
    return x


# ---- logarithms of sums, distances, signs


_logaddexp = Binary("logaddexp", lambda dtype: ops.logaddexp_p.bind1, inexact)
_logaddexp2 = Binary("logaddexp2", lambda dtype: ops.logaddexp2_p.bind1, inexact)


def logaddexp(x1: Any, x2: Any, /, out: None = None, where: None = None) -> Any:
    """``log(exp(x1) + exp(x2))`` without overflow; the slopes add up to one, and are a half each for equal infinities."""
    return _logaddexp(x1, x2, out, where)


def logaddexp2(x1: Any, x2: Any, /, out: None = None, where: None = None) -> Any:
    """``log2(2 ** x1 + 2 ** x2)`` without overflow; slopes as those of `logaddexp`."""
    return _logaddexp2(x1, x2, out, where)


_arctan2 = Binary("arctan2", lambda dtype: ops.atan2, inexact)


def arctan2(x1: Any, x2: Any, /) -> Any:
    """Angle (radians) of the point with ordinate `x1` and abscissa `x2`."""
    return _arctan2(x1, x2)


atan2 = alias(arctan2, "atan2")


def _hypot(x: Any, y: Any) -> Any:
    x, y = ops.abs(x), ops.abs(y)
    longer, shorter = ops.max(x, y), ops.min(x, y)
    zero = ops.eq(longer, ops.full_like(x, 0))
    ratio = ops.div(shorter, ops.select_n(zero, longer, ops.full_like(x, 1)))
    length = ops.mul(longer, ops.sqrt(ops.add(ops.full_like(x, 1), ops.mul(ratio, ratio))))
    infinite = ops.full_like(x, np.inf)
    far = ops.bitwise_or(ops.eq(x, infinite), ops.eq(y, infinite))
    return ops.select_n(far, ops.select_n(zero, length, longer), infinite)


_hypot_of = Binary("hypot", lambda dtype: _hypot, inexact)


def hypot(x1: Any, x2: Any, /) -> Any:
    """``sqrt(x1 ** 2 + x2 ** 2)`` without overflow; real numbers only. The gradient at the origin is finite.

    Raises
    ------
    ValueError
        An operand is complex.
    """
    for x in (x1, x2):
        if getattr(x, "dtype", np.dtype(type(x)) if type(x) is complex else None) in dtypes.COMPLEXES:
            raise ValueError("hypot does not support complex numbers")
    return _hypot_of(x1, x2)


_copysign_of = Binary("copysign", _by_kind("copysign", with_sign_of, with_sign_of), inexact)


def copysign(x1: Any, x2: Any, /) -> Any:
    """`x1` with the sign of `x2`; real numbers only."""
    return _copysign_of(x1, x2)


_nextafter = Binary("nextafter", lambda dtype: ops.nextafter, inexact)


def nextafter(x: Any, y: Any, /) -> Any:
    """The next float after `x` toward `y`."""
    return _nextafter(x, y)


def _heaviside(x: Any, y: Any) -> Any:
    zero, one = ops.full_like(x, 0), ops.full_like(x, 1)
    step = ops.select_n(ops.gt(x, zero), ops.select_n(ops.lt(x, zero), y, zero), one)
    return ops.select_n(ops.ne(x, x), step, x)


_heaviside_of = Binary("heaviside", _by_kind("heaviside", _heaviside, _heaviside), inexact)


def heaviside(x1: Any, x2: Any, /) -> Any:
    """0 where `x1` is negative, 1 where positive, `x2` where zero; real numbers only."""
    return _heaviside_of(x1, x2)


# ---- integers


def _integers(name: str, x: Any, y: Any) -> list[Any]:
    check_arraylike(name, x, y)
    pair = promote_shapes(name, *promote_dtypes(x, y))
    if not dtypes.is_integer(pair[0].aval.dtype):
        raise ValueError(f"Arguments to {name} must be integers, got dtype {pair[0].aval.dtype}")
    return pair


def gcd(x1: Any, x2: Any) -> Any:
    """Greatest common divisor of integers, by Euclid's algorithm; not negative.

    Other dtypes than integers raise ValueError.
    """
    x, y = _integers("gcd", x1, x2)
    zero = ops.full_like(x, 0)

    def going(state: Any) -> Any:
        return ops.reduce_or(ops.ne(state[1], zero), tuple(range(x.aval.ndim)))

    def step(state: Any) -> Any:
        a, b = state
        done = ops.eq(b, zero)
        rest = ops.rem(a, ops.select_n(done, b, ops.full_like(b, 1)))
        return ops.select_n(done, b, a), ops.select_n(done, rest, zero)

    return while_loop(going, step, (_magnitude(x), _magnitude(y)))[0]


def _magnitude(x: Any) -> Any:
    return ops.abs(x) if dtypes.is_signed(x.aval.dtype) else x


def lcm(x1: Any, x2: Any) -> Any:
    """Least common multiple of integers; 0 where either is 0.

    Other dtypes than integers raise ValueError.
    """
    x, y = _integers("lcm", x1, x2)
    x, y = _magnitude(x), _magnitude(y)
    divisor = gcd(x, y)
    zero = ops.eq(divisor, ops.full_like(x, 0))
    safe = ops.select_n(zero, divisor, ops.full_like(x, 1))
    return ops.select_n(zero, ops.mul(x, ops.div(y, safe)), ops.full_like(x, 0))
