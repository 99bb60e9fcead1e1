# SPDX-License-Identifier: Apache-2.0
"""Functions of one array that work on each element: transcendental functions, rounding, signs, parts of complex numbers.

Results have the shape of the operand. Transcendental functions give its inexact dtype (integers become the default float), the others
its own, unless they say otherwise.

Parameters
----------
out, where : None
    NumPy's; anything else raises NotImplementedError.
"""

from __future__ import annotations

import builtins
import operator
from typing import Any

import numpy as np

from purax import dtypes, errors
from purax.control.jit import jit
from purax.core.aval import unwrapped
from purax.numpy import _ops as ops
from purax.numpy.alias import alias
from purax.numpy.arithmetic import ldexp
from purax.numpy.promotion import (
    as_operand,
    check_arraylike,
    convert,
    promote_dtypes_inexact,
    refuse,
)
from purax.primitives.complex_edges import sign_bit

__all__ = [
    "abs",
    "absolute",
    "acos",
    "acosh",
    "angle",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctanh",
    "around",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "cbrt",
    "ceil",
    "conj",
    "conjugate",
    "cos",
    "cosh",
    "deg2rad",
    "degrees",
    "exp",
    "exp2",
    "expm1",
    "fabs",
    "floor",
    "frexp",
    "i0",
    "imag",
    "iscomplex",
    "iscomplexobj",
    "isfinite",
    "isinf",
    "isnan",
    "isneginf",
    "isposinf",
    "isreal",
    "isrealobj",
    "log",
    "log1p",
    "log2",
    "log10",
    "modf",
    "nan_to_num",
    "negative",
    "positive",
    "rad2deg",
    "radians",
    "real",
    "reciprocal",
    "rint",
    "round",
    "sign",
    "signbit",
    "sin",
    "sinc",
    "sinh",
    "spacing",
    "sqrt",
    "square",
    "tan",
    "tanh",
    "trunc",
]  # fmt: skip


def _inexact(name: str, x: Any) -> Any:
    """The operand as a float or complex Array or Tracer."""
    aval = getattr(x, "aval", None)
    if aval is not None and dtypes.is_inexact(aval.dtype):
        return x
    check_arraylike(name, x)
    return promote_dtypes_inexact(x)[0]


def _array(name: str, x: Any) -> Any:
    """The operand as an Array or Tracer of its own dtype."""
    if hasattr(x, "aval"):
        return x
    check_arraylike(name, x)
    return as_operand(x)


def _real(name: str, x: Any) -> Any:
    """As `_inexact`, complex numbers refused."""
    x = _inexact(name, x)
    if dtypes.is_complex(x.aval.dtype):
        raise errors.DTypeError(f"{name} does not support complex numbers, got dtype {x.aval.dtype}")
    return x


# ---- exponentials, logarithms, roots


def exp(x: Any, /) -> Any:
    """Exponential, of inexact dtype."""
    return ops.exp(_inexact("exp", x))


def exp2(x: Any, /) -> Any:
    """2 to the power `x`, of inexact dtype."""
    return ops.exp2(_inexact("exp2", x))


def expm1(x: Any, /) -> Any:
    """``exp(x) - 1``, accurate near 0."""
    return ops.expm1(_inexact("expm1", x))


def log(x: Any, /) -> Any:
    """Natural logarithm; NaN for negative real numbers."""
    return ops.log(_inexact("log", x))


def log1p(x: Any, /) -> Any:
    """``log(1 + x)``, accurate near 0."""
    return ops.log1p(_inexact("log1p", x))


def log2(x: Any, /) -> Any:
    """Logarithm to base 2."""
    return _scaled_log("log2", x, np.log(2.0))


def log10(x: Any, /) -> Any:
    """Logarithm to base 10."""
    return _scaled_log("log10", x, np.log(10.0))


def _scaled_log(name: str, x: Any, unit: float) -> Any:
    y = ops.log(_inexact(name, x))
    if not dtypes.is_complex(y.aval.dtype):
        return ops.div(y, ops.full_like(y, unit))
    re, im = ops.real(y), ops.imag(y)  # a quotient of complex numbers would be NaN where a part is infinite
    return ops.complex(ops.div(re, ops.full_like(re, unit)), ops.div(im, ops.full_like(im, unit)))


def sqrt(x: Any, /) -> Any:
    """Square root; NaN for negative real numbers."""
    return ops.sqrt(_inexact("sqrt", x))


def cbrt(x: Any, /) -> Any:
    """Cube root of real numbers."""
    return ops.cbrt(_inexact("cbrt", x))


def square(x: Any, /) -> Any:
    """``x * x``, of the same dtype; booleans are squared as integers."""
    x = _array("square", x)
    return ops.square(convert(x, dtypes.default_int()) if dtypes.is_bool(x.aval.dtype) else x)


def reciprocal(x: Any, /) -> Any:
    """``1 / x``, of inexact dtype."""
    x = _inexact("reciprocal", x)
    return ops.div(ops.full_like(x, 1), x)


# ---- trigonometric and hyperbolic functions


def sin(x: Any, /) -> Any:
    """Sine (radians)."""
    return ops.sin(_inexact("sin", x))


def cos(x: Any, /) -> Any:
    """Cosine (radians)."""
    return ops.cos(_inexact("cos", x))


def tan(x: Any, /) -> Any:
    """Tangent (radians)."""
    return ops.tan(_inexact("tan", x))


def arcsin(x: Any, /) -> Any:
    """Inverse sine, in [-pi/2, pi/2]."""
    return ops.asin(_inexact("arcsin", x))


def arccos(x: Any, /) -> Any:
    """Inverse cosine, in [0, pi]."""
    return ops.acos(_inexact("arccos", x))


def arctan(x: Any, /) -> Any:
    """Inverse tangent, in [-pi/2, pi/2]."""
    return ops.atan(_inexact("arctan", x))


def sinh(x: Any, /) -> Any:
    """Hyperbolic sine."""
    return ops.sinh(_inexact("sinh", x))


def cosh(x: Any, /) -> Any:
    """Hyperbolic cosine."""
    return ops.cosh(_inexact("cosh", x))


def tanh(x: Any, /) -> Any:
    """Hyperbolic tangent."""
    return ops.tanh(_inexact("tanh", x))


def arcsinh(x: Any, /) -> Any:
    """Inverse hyperbolic sine."""
    return ops.asinh(_inexact("arcsinh", x))


def arccosh(x: Any, /) -> Any:
    """Inverse hyperbolic cosine; of complex numbers, the root with non-negative real part."""
    x = _inexact("arccosh", x)
    y = ops.acosh(x)
    if dtypes.is_complex(x.aval.dtype):
        # XLA's branch may have a negative real part where NumPy's has not.
        y = ops.select_n(ops.lt(ops.real(y), ops.full_like(ops.real(y), 0)), y, ops.neg(y))
    return y


def arctanh(x: Any, /) -> Any:
    """Inverse hyperbolic tangent."""
    return ops.atanh(_inexact("arctanh", x))


asin, acos, atan = alias(arcsin, "asin"), alias(arccos, "acos"), alias(arctan, "atan")
asinh, acosh, atanh = alias(arcsinh, "asinh"), alias(arccosh, "acosh"), alias(arctanh, "atanh")


def deg2rad(x: Any, /) -> Any:
    """Degrees to radians."""
    x = _inexact("deg2rad", x)
    return ops.mul(x, ops.full_like(x, np.pi / 180))


def rad2deg(x: Any, /) -> Any:
    """Radians to degrees."""
    x = _inexact("rad2deg", x)
    return ops.mul(x, ops.full_like(x, 180 / np.pi))


radians, degrees = alias(deg2rad, "radians"), alias(rad2deg, "degrees")


def sinc(x: Any, /) -> Any:
    """``sin(pi x) / (pi x)``, 1 at 0, with right derivatives there."""
    return _sinc(_inexact("sinc", x))


@jit
def _sinc(x: Any) -> Any:
    angle_ = ops.mul(x, ops.full_like(x, np.pi))
    near = ops.lt(ops.abs(angle_), ops.full_like(ops.abs(angle_), 0.02))
    safe = ops.select_n(near, angle_, ops.full_like(x, 1))
    # The Taylor series, exact to 1e-20 in this range, has the derivatives that the quotient hides at 0.
    squared = ops.square(ops.select_n(near, ops.full_like(x, 0), angle_))
    series = ops.full_like(x, -1 / 39916800)
    for coefficient in (1 / 362880, -1 / 5040, 1 / 120, -1 / 6, 1.0):
        series = ops.add(ops.mul(series, squared), ops.full_like(x, coefficient))
    return ops.select_n(near, ops.div(ops.sin(safe), safe), series)


def i0(x: Any) -> Any:
    """Modified Bessel function of the first kind, order 0, of real numbers."""
    x = _real("i0", x)
    return ops.bessel_i(0, x)


# ---- signs and rounding


def negative(x: Any, /, out: None = None, where: None = None) -> Any:
    """``-x``; unsigned integers wrap; TypeError for booleans."""
    if out is not where:
        refuse("negative", out=out, where=where)
    return ops.neg(_array("negative", x))


def positive(x: Any, /) -> Any:
    """`x` itself.

    Raises
    ------
    DTypeError
        `x` is of booleans, as in NumPy.
    """
    x = _array("positive", x)
    if dtypes.is_bool(x.aval.dtype):
        raise errors.DTypeError("positive does not accept dtype bool; convert it to an integer")
    return x


def absolute(x: Any, /) -> Any:
    """Absolute value; of complex numbers, real. The gradient is that of `sign`: 0 at complex 0, 1 at real 0."""
    x = _array("absolute", x)
    dtype = x.aval.dtype
    return x if dtypes.is_bool(dtype) or dtypes.is_unsigned(dtype) else ops.abs(x)


abs = alias(absolute, "abs")


def fabs(x: Any, /) -> Any:
    """Absolute value of real numbers, of floating dtype."""
    return ops.abs(_real("fabs", x))


def sign(x: Any, /) -> Any:
    """-1, 0 or 1, of the same dtype; of complex numbers ``x / abs(x)``; NaN stays NaN."""
    return ops.sign(_array("sign", x))


def signbit(x: Any, /) -> Any:
    """Whether the sign bit is set; -0.0 has it, integers below zero count.

    Raises
    ------
    DTypeError
        `x` is complex.
    """
    x = _array("signbit", x)
    dtype = x.aval.dtype
    if dtypes.is_complex(dtype):
        raise errors.DTypeError(f"signbit does not support complex numbers, got dtype {dtype}")
    if dtypes.is_inexact(dtype):
        return sign_bit(x)
    return ops.lt(x, ops.full_like(x, 0)) if dtypes.is_signed(dtype) else ops.full_like(x, False, dtypes.bool_)


def _is_whole(x: Any) -> bool:
    return not dtypes.is_inexact(x.aval.dtype)


def floor(x: Any, /) -> Any:
    """Largest integer not above `x`, of the same dtype (integers stay as they are)."""
    x = _array("floor", x)
    return x if _is_whole(x) else ops.floor(x)


def ceil(x: Any, /) -> Any:
    """Smallest integer not below `x`, of the same dtype (integers stay as they are)."""
    x = _array("ceil", x)
    return x if _is_whole(x) else ops.ceil(x)


def trunc(x: Any) -> Any:
    """`x` rounded toward zero, of the same dtype (integers stay as they are)."""
    x = _array("trunc", x)
    if _is_whole(x):
        return x
    negative_ = ops.lt(x, ops.full_like(x, 0))
    return ops.select_n(negative_, ops.floor(x), ops.ceil(x))


def rint(x: Any, /) -> Any:
    """`x` rounded to the nearest integer, halves to even, of inexact dtype."""
    aval = getattr(x, "aval", None)
    if aval is None or not dtypes.is_inexact(aval.dtype):
        check_arraylike("rint", x)
        x = as_operand(x)
        if _is_whole(x):
            return convert(x, dtypes.default_float())
    return _nearest(x)


def _nearest(x: Any) -> Any:
    if dtypes.is_complex(x.aval.dtype):
        return ops.complex(_nearest(ops.real(x)), _nearest(ops.imag(x)))
    return ops.round(x, ops.RoundingMethod.TO_NEAREST_EVEN)


def round(a: Any, decimals: int = 0, out: None = None) -> Any:
    """`a` rounded to a number of decimals, halves to even, of the same dtype; negative `decimals` round to tens."""
    refuse("round", out=out)
    a = _array("round", a)
    decimals = operator.index(decimals)
    dtype = a.aval.dtype
    if _is_whole(a):
        return a if decimals >= 0 or dtypes.is_bool(dtype) else _round_integers(a, 10**-decimals)
    if decimals == 0:
        return _nearest(a)
    if dtypes.is_complex(dtype):
        return ops.complex(round(ops.real(a), decimals), round(ops.imag(a), decimals))
    if builtins.abs(decimals) > 300:
        return a if decimals > 0 else ops.mul(a, ops.full_like(a, 0))
    wide = convert(a, dtypes.float32, a.aval.weak_type) if dtypes.itemsize_bits(dtype) < 32 else a
    factor = ops.full_like(wide, 10.0 ** builtins.abs(decimals))
    if decimals > 0:
        result = ops.div(_nearest(ops.mul(wide, factor)), factor)
    else:
        result = ops.mul(_nearest(ops.div(wide, factor)), factor)
    return convert(result, dtype, a.aval.weak_type)


around = alias(round, "around")


def _round_integers(a: Any, unit: int) -> Any:
    if unit > dtypes.iinfo(a.aval.dtype).max:
        return ops.full_like(a, 0)
    size, two = ops.full_like(a, unit), ops.full_like(a, 2)
    down = ops.div(a, size)
    rest = ops.abs(ops.rem(a, size)) if dtypes.is_signed(a.aval.dtype) else ops.rem(a, size)
    half = ops.full_like(a, unit // 2)
    odd = ops.ne(ops.rem(down, two), ops.full_like(a, 0))
    further = ops.bitwise_or(ops.gt(rest, half), ops.bitwise_and(ops.eq(rest, half), odd))
    step = ops.sign(a) if dtypes.is_signed(a.aval.dtype) else ops.full_like(a, 1)
    return ops.mul(ops.select_n(further, down, ops.add(down, step)), size)


def modf(x: Any, /, out: None = None) -> tuple[Any, Any]:
    """Fractional and whole part, both with the sign of `x`, of floating dtype."""
    refuse("modf", out=out)
    x = _real("modf", x)
    infinite = ops.eq(ops.abs(x), ops.full_like(x, np.inf))
    # The remainder has the sign of `x`, also where it is zero.
    fraction = ops.rem(x, ops.full_like(x, 1))
    return ops.select_n(infinite, fraction, ops.mul(ops.sign(x), ops.full_like(x, 0))), trunc(x)


def frexp(x: Any, /) -> tuple[Any, Any]:
    """Mantissa in [0.5, 1) and exponent (int32) with ``x == mantissa * 2 ** exponent``."""
    x = _real("frexp", x)
    dtype = x.aval.dtype
    info = dtypes.finfo(dtype)
    bits = dtypes.itemsize_bits(dtype)
    unsigned = np.dtype(f"uint{bits}")
    # Subnormal numbers are scaled into the normal range first.
    tiny = ops.lt(ops.abs(x), ops.full_like(x, info.tiny))
    scaled = ops.select_n(tiny, x, ops.mul(x, ops.full_like(x, 2.0**info.nmant)))
    word = ops.bitcast_convert_type(scaled, unsigned)
    bias = (1 << (info.nexp - 1)) - 2
    mask = ((1 << info.nexp) - 1) << info.nmant
    field = ops.shift_right_logical(ops.bitwise_and(word, ops.full_like(word, mask)), ops.full_like(word, info.nmant))
    exponent = ops.sub(ops.convert_element_type(field, np.int32), ops.full_like(field, bias, np.int32))
    exponent = ops.select_n(tiny, exponent, ops.sub(exponent, ops.full_like(exponent, info.nmant)))
    special = ops.bitwise_or(ops.eq(x, ops.full_like(x, 0)), ops.bitwise_not(ops.is_finite(x)))
    # By multiplication, not by masking bits, so that the mantissa has a derivative.
    mantissa = ops.select_n(special, ldexp(x, ops.neg(exponent)), x)
    return mantissa, ops.select_n(special, exponent, ops.full_like(exponent, 0))


def spacing(x: Any, /) -> Any:
    """Distance to the next float away from zero, with the sign of `x` (float16: toward positive numbers, as in NumPy)."""
    x = _real("spacing", x)
    dtype = x.aval.dtype
    info = dtypes.finfo(dtype)
    unsigned = np.dtype(f"uint{dtypes.itemsize_bits(dtype)}")
    word = ops.bitcast_convert_type(x, unsigned)

    def full(value: int) -> Any:
        return ops.full_like(word, value)

    # By its bits, since arithmetic on subnormal numbers may flush them: 2 ** (exponent - bits of the mantissa).
    field = ops.bitwise_and(ops.shift_right_logical(word, full(info.nmant)), full((1 << info.nexp) - 1))
    if dtype == dtypes.float16:
        # Toward positive numbers: a step from -2 is shorter than one from 2.
        short = ops.eq(ops.bitwise_and(word, full(0x83FF)), full(0x8000))
        field = ops.select_n(short, field, ops.sub(field, ops.min(field, full(1))))
    field = ops.max(field, full(1))
    normal = ops.gt(field, full(info.nmant))
    low = ops.shift_left(full(1), ops.sub(ops.min(field, full(info.nmant)), full(1)))
    high = ops.shift_left(ops.sub(ops.max(field, full(info.nmant)), full(info.nmant)), full(info.nmant))
    bits = ops.select_n(normal, low, high)
    if dtype != dtypes.float16:
        top = 1 << (8 * unsigned.itemsize - 1)
        negative_ = ops.gt(word, full(top))
        bits = ops.select_n(negative_, bits, ops.bitwise_or(bits, full(top)))
    distance = ops.bitcast_convert_type(bits, dtype)
    return ops.select_n(ops.is_finite(x), ops.full(x.aval.shape, np.nan, dtype), distance)


# ---- complex numbers


def real(val: Any, /) -> Any:
    """Real part; real numbers stay as they are."""
    val = _array("real", val)
    return ops.real(val) if dtypes.is_complex(val.aval.dtype) else val


def imag(val: Any, /) -> Any:
    """Imaginary part; of real numbers, zeros."""
    val = _array("imag", val)
    return ops.imag(val) if dtypes.is_complex(val.aval.dtype) else ops.full_like(val, 0)


def conjugate(x: Any, /) -> Any:
    """Complex conjugate; real numbers stay as they are."""
    x = _array("conjugate", x)
    return ops.conj(x) if dtypes.is_complex(x.aval.dtype) else x


conj = alias(conjugate, "conj")


def angle(z: Any, deg: bool = False) -> Any:
    """Angle in the complex plane, in (-pi, pi] radians, or in degrees if `deg`."""
    check_arraylike("angle", z)
    re, im = real(z), imag(z)
    if not dtypes.is_inexact(re.aval.dtype):
        re, im = convert(re, dtypes.default_float()), convert(im, dtypes.default_float())
    result = ops.atan2(im, re)
    return rad2deg(result) if deg else result


def iscomplex(x: Any) -> Any:
    """Whether each element has an imaginary part that is not zero."""
    part = imag(x)
    return ops.ne(part, ops.full_like(part, 0))


def isreal(x: Any) -> Any:
    """Whether each element has no imaginary part, or a zero one."""
    part = imag(x)
    return ops.eq(part, ops.full_like(part, 0))


def iscomplexobj(x: Any) -> bool:
    """Whether the dtype is complex."""
    if x is None:
        return False
    x = unwrapped(x)
    dtype = getattr(x, "dtype", None)
    if dtype is None:
        dtype = (
            as_operand(x).aval.dtype
            if isinstance(x, (bool, int, float, complex))
            else dtypes.lattice_result_type(*_leaves(x))[0]
        )
    return dtypes.is_complex(dtype)


def _leaves(x: Any) -> list[Any]:
    """The elements of nested sequences; a float for none, as in NumPy."""
    return [leaf for item in x for leaf in _leaves(item)] or [0.0] if isinstance(x, (list, tuple)) else [x]


def isrealobj(x: Any) -> bool:
    """Whether the dtype is not complex."""
    return not iscomplexobj(x)


# ---- which numbers they are


def isfinite(x: Any, /) -> Any:
    """Whether each element is neither infinite nor NaN."""
    x = _array("isfinite", x)
    dtype = x.aval.dtype
    if dtypes.is_float(dtype):
        return ops.is_finite(x)
    if dtypes.is_complex(dtype):
        return ops.bitwise_and(ops.is_finite(ops.real(x)), ops.is_finite(ops.imag(x)))
    return ops.full_like(x, True, dtypes.bool_)


def isinf(x: Any, /) -> Any:
    """Whether each element is infinite, or one of its parts is."""
    x = _array("isinf", x)
    dtype = x.aval.dtype
    if dtypes.is_float(dtype):
        if not dtypes.supports_inf(dtype):
            return ops.full_like(x, False, dtypes.bool_)
        return ops.eq(ops.abs(x), ops.full_like(x, np.inf))
    if dtypes.is_complex(dtype):
        return ops.bitwise_or(isinf(ops.real(x)), isinf(ops.imag(x)))
    return ops.full_like(x, False, dtypes.bool_)


def isnan(x: Any, /) -> Any:
    """Whether each element is NaN, or one of its parts is."""
    x = _array("isnan", x)
    return ops.ne(x, x) if dtypes.is_inexact(x.aval.dtype) else ops.full_like(x, False, dtypes.bool_)


def isposinf(x: Any, /, out: None = None) -> Any:
    """Whether each element is positive infinity; complex numbers raise ValueError."""
    return _is_signed_inf("isposinf", x, np.inf, out)


def isneginf(x: Any, /, out: None = None) -> Any:
    """Whether each element is negative infinity; complex numbers raise ValueError."""
    return _is_signed_inf("isneginf", x, -np.inf, out)


def _is_signed_inf(name: str, x: Any, infinity: float, out: None) -> Any:
    refuse(name, out=out)
    x = _array(name, x)
    dtype = x.aval.dtype
    if dtypes.is_complex(dtype):
        raise ValueError(f"{name} is not well defined for complex numbers")
    if dtypes.is_float(dtype) and dtypes.supports_inf(dtype):
        return ops.eq(x, ops.full_like(x, infinity))
    return ops.full_like(x, False, dtypes.bool_)


def nan_to_num(x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    """`x` with NaN and infinities replaced.

    Parameters
    ----------
    x : array or scalar
    copy : bool
        Means nothing: arrays are immutable.
    nan : scalar
        For NaN.
    posinf, neginf : scalar, optional
        For infinities; by default the largest and smallest finite numbers.

    Returns
    -------
    array like `x`
    """
    del copy
    x = _array("nan_to_num", x)
    dtype = x.aval.dtype
    if not dtypes.is_inexact(dtype):
        return x
    if dtypes.is_complex(dtype):
        return ops.complex(
            nan_to_num(ops.real(x), True, nan, posinf, neginf), nan_to_num(ops.imag(x), True, nan, posinf, neginf)
        )
    info = dtypes.finfo(dtype)
    weak = x.aval.weak_type
    for found, value in (
        (isnan(x), nan),
        (isposinf(x), float(info.max) if posinf is None else posinf),
        (isneginf(x), float(info.min) if neginf is None else neginf),
    ):
        filled = convert(value, dtype, weak)
        x = ops.select_n(found, x, ops.broadcast_to(filled, x.aval.shape))
    return x
