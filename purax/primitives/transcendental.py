# SPDX-License-Identifier: Apache-2.0
"""Exponentials, logarithms, circular and hyperbolic functions.

The table reads `name, dtypes, operation, meaning in NumPy, tangent`. A derivative that is finite at every number multiplies the
tangent plainly; one that overflows or has poles does so by `strong_mul`.

The argument `accuracy` of the functions, an `AccuracyMode` or a `Tolerance`, is passed on to the compiler as a hint.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from purax import dtypes
from purax.core.trace import aval_of
from purax.lazy import lazy
from purax.primitives import cast, complex_edges, elementwise, operands, shape
from purax.primitives.complex_edges import by_parts, mended, turned
from purax.primitives.elementwise import strong_mul, strong_product
from purax.primitives.family import INEXACT, AccuracyMode, Elementwise, Tolerance, inline, widened

__all__ = [
    "AccuracyMode", "Tolerance",
    "acos", "acos_p", "acosh", "acosh_p", "asin", "asin_p", "asinh", "asinh_p", "atan", "atan2", "atan2_p", "atan_p", "atanh",
    "atanh_p", "cos", "cos_p", "cosh", "cosh_p", "exp", "exp2", "exp2_p", "exp_p", "expm1", "expm1_p", "log", "log1p", "log1p_p",
    "log_p", "logistic", "logistic_p", "sin", "sin_p", "sinh", "sinh_p", "tan", "tan_p", "tanh", "tanh_p",
]  # fmt: skip

scipy_special = lazy("scipy.special")
LN_2 = float(np.log(2))

# --- the rows -------------------------------------------------------------------------------------------------------


def _one(x: Any) -> Any:
    return shape.full_like(x, 1)


def _one_minus_square(y: Any, product: Any = strong_product) -> Any:
    """1 - y^2 as (1 - y)(1 + y): no cancellation near 1."""
    one = _one(y)
    return product(elementwise.sub(one, y), elementwise.add(one, y))


def _logistic(x: Any) -> Any:
    small = np.exp(np.where(x.real > 0, -x, x))  # never overflows
    return np.where(x.real > 0, 1, small) / (1 + small)


def _lower_logistic(b: Any, ins: Any, outs: Any) -> list[Any]:
    dtype = outs[0].dtype
    x = b.convert(ins[0], dtypes.float32) if dtypes.itemsize_bits(dtype) <= 16 else ins[0]
    return [b.convert(b.emit(f"stablehlo.logistic {x} : {x.hlo}", x.aval), dtype)]


def _log1p(x: Any) -> Any:
    return scipy_special.log1p(x) if dtypes.is_complex(x.dtype) else np.log1p(x)


def _log1p_formula(x: Any) -> Any:
    """2 atanh(s) for s = x / (2 + x) as a series where x is small, else log(1 + x)."""
    s = elementwise.div(x, elementwise.add(x, 2))
    square = elementwise.square(s)
    series = shape.full_like(s, 1 / 23)
    for odd in range(21, 0, -2):
        series = elementwise.add(elementwise.mul(series, square), 1 / odd)
    near = elementwise.mul(elementwise.mul(s, 2), series)
    return elementwise.select(elementwise.lt(elementwise.abs(x), 0.41), near, log(elementwise.add(x, 1)))


def _lower_log1p(b: Any, ins: Any, outs: Any) -> list[Any]:
    if outs[0].dtype == np.float64:  # the compiler's own is a hundred units off
        return b.inline(_log1p_formula, ins)
    return [b.emit(f"stablehlo.log_plus_one {ins[0]} : {outs[0].hlo}", outs[0])]


def _atanh_formula(x: Any) -> Any:
    size = elementwise.abs(x)
    value = elementwise.mul(log1p(elementwise.div(elementwise.mul(size, 2), elementwise.sub(1, size))), 0.5)
    return elementwise.mul(value, elementwise.sign(x))


def _lower_atanh(b: Any, ins: Any, outs: Any) -> list[Any]:
    (x,), (out,) = ins, outs
    if out.dtype == np.float64:
        return b.inline(_atanh_formula, ins)
    return [b.emit(f"chlo.atanh {x} : {x.hlo} -> {out.hlo}", out)]


def _lower_by_parts(operation: str, formula: Any) -> Any:
    """The StableHLO operation for floats; for complex numbers a formula, where the compiler's loses small parts."""

    def lower(b: Any, ins: Any, outs: Any) -> list[Any]:
        if dtypes.is_complex(outs[0].dtype):
            return b.inline(by_parts(formula), ins)
        return [b.emit(f"{operation} {ins[0]} : {outs[0].hlo}", outs[0])]

    return lower


def _formulas(formula: Any, parts: Any) -> Any:
    """A formula for floats and one for the parts of complex numbers."""
    write, write_parts = inline(formula), inline(by_parts(parts))
    return lambda b, ins, outs: (write_parts if dtypes.is_complex(outs[0].dtype) else write)(b, ins, outs)


exp_p = Elementwise(
    "exp", INEXACT, "stablehlo.exponential", widened(np.exp), lambda t, y, x: strong_mul(t, y),
    edges=mended(complex_edges.exp),
)  # fmt: skip
exp2_p = Elementwise(
    "exp2", INEXACT, inline(lambda x: _exp2_formula(x)), widened(np.exp2),
    lambda t, y, x: strong_mul(t, elementwise.mul(y, LN_2)),
)  # fmt: skip
expm1_p = Elementwise(
    "expm1", INEXACT, "stablehlo.exponential_minus_one", widened(np.expm1),
    lambda t, y, x: strong_mul(t, elementwise.add(y, _one(y))), edges=mended(complex_edges.expm1),
)  # fmt: skip
log_p = Elementwise(
    "log",
    INEXACT,
    "stablehlo.log",
    widened(np.log),
    lambda t, y, x: strong_mul(t, elementwise.reciprocal(x)),
    edges=mended(complex_edges.log),
)
log1p_p = Elementwise(
    "log1p", INEXACT, _lower_log1p, widened(_log1p),
    lambda t, y, x: strong_mul(t, elementwise.reciprocal(elementwise.add(x, _one(x)))), edges=mended(complex_edges.log),
)  # fmt: skip
logistic_p = Elementwise(
    "logistic", INEXACT, _lower_logistic, widened(_logistic),
    lambda t, y, x: elementwise.mul(t, elementwise.mul(y, elementwise.sub(_one(y), y))),
)  # fmt: skip

sin_p = Elementwise(
    "sin", INEXACT,
    _lower_by_parts("stablehlo.sine", complex_edges.sin), widened(np.sin), lambda t, y, x: strong_mul(t, cos(x)),
)  # fmt: skip
cos_p = Elementwise(
    "cos", INEXACT,
    _lower_by_parts("stablehlo.cosine", complex_edges.cos), widened(np.cos), lambda t, y, x: strong_mul(t, elementwise.neg(sin(x))),
)  # fmt: skip
tan_p = Elementwise(
    "tan", INEXACT, "stablehlo.tan", widened(np.tan),
    lambda t, y, x: strong_mul(t, elementwise.add(_one(y), elementwise.square(y))),
    edges=mended(turned(complex_edges.tanh)),
)  # fmt: skip
asin_p = Elementwise(
    "asin", INEXACT, "chlo.asin", widened(np.arcsin),
    lambda t, y, x: strong_mul(t, elementwise.rsqrt(_one_minus_square(x))),
    edges=mended(turned(complex_edges.asinh)),
)  # fmt: skip
acos_p = Elementwise(
    "acos", INEXACT, "chlo.acos", widened(np.arccos),
    lambda t, y, x: strong_mul(t, elementwise.neg(elementwise.rsqrt(_one_minus_square(x)))), edges=mended(complex_edges.acos),
)  # fmt: skip
atan_p = Elementwise(
    "atan", INEXACT, "chlo.atan", widened(np.arctan),
    lambda t, y, x: strong_mul(t, elementwise.reciprocal(elementwise.add(_one(x), elementwise.square(x)))),
    edges=mended(turned(complex_edges.atanh)),
)  # fmt: skip

sinh_p = Elementwise(
    "sinh",
    INEXACT,
    _formulas(lambda x: _sinh_formula(x), complex_edges.sinh),
    widened(np.sinh),
    lambda t, y, x: strong_mul(t, cosh(x)),
)
cosh_p = Elementwise(
    "cosh",
    INEXACT,
    _formulas(lambda x: _cosh_formula(x), complex_edges.cosh),
    widened(np.cosh),
    lambda t, y, x: strong_mul(t, sinh(x)),
)
tanh_p = Elementwise(
    "tanh",
    INEXACT,
    "stablehlo.tanh",
    widened(np.tanh),
    lambda t, y, x: elementwise.mul(t, _one_minus_square(y, elementwise.mul)),
    edges=mended(complex_edges.tanh),
)
asinh_p = Elementwise(
    "asinh", INEXACT, "chlo.asinh", widened(np.arcsinh),
    lambda t, y, x: strong_mul(t, elementwise.rsqrt(elementwise.add(elementwise.square(x), _one(x)))),
    edges=mended(complex_edges.asinh),
)  # fmt: skip
acosh_p = Elementwise(
    "acosh", INEXACT, "chlo.acosh", widened(np.arccosh),
    lambda t, y, x: strong_mul(
        t, strong_product(elementwise.rsqrt(elementwise.sub(x, _one(x))), elementwise.rsqrt(elementwise.add(x, _one(x))))
    ),
    edges=mended(complex_edges.acosh),
)  # fmt: skip
atanh_p = Elementwise(
    "atanh",
    INEXACT,
    _lower_atanh,
    widened(np.arctanh),
    lambda t, y, x: strong_mul(t, elementwise.reciprocal(_one_minus_square(x))),
    edges=mended(complex_edges.atanh),
)


def _arctan2(x: Any, y: Any) -> Any:
    if not dtypes.is_complex(x.dtype):
        return np.arctan2(x, y)
    return -1j * np.log((y + 1j * x) / np.sqrt(x * x + y * y))


def _atan2_slope(along: Any, x: Any, y: Any) -> Any:
    """along / (x^2 + y^2), scaled so that squares neither overflow nor vanish."""
    if dtypes.is_complex(aval_of(x).dtype):
        return elementwise.div(along, elementwise.add(elementwise.square(x), elementwise.square(y)))
    scale = elementwise.max(elementwise.abs(x), elementwise.abs(y))
    u, v, w = (elementwise.div(part, scale) for part in (x, y, along))
    return elementwise.div(w, strong_product(scale, elementwise.add(elementwise.square(u), elementwise.square(v))))


atan2_p = Elementwise(
    "atan2", (INEXACT, INEXACT), "stablehlo.atan2", widened(_arctan2),
    lambda t, z, x, y: strong_mul(t, _atan2_slope(y, x, y)),
    lambda t, z, x, y: strong_mul(t, elementwise.neg(_atan2_slope(x, x, y))),
)  # fmt: skip


# --- formulas where those of the compiler lose digits ---------------------------------------------------------------


def _power_of_two(n: Any) -> Any:
    """2^n for floats n that are integers, exactly: the exponent is written into the bits."""
    dtype = aval_of(n).dtype
    word, fraction, bias = (dtypes.int32, 23, 127) if dtype == np.float32 else (dtypes.int64, 52, 1023)
    exponent = elementwise.add(cast.convert_element_type(n, word), bias)
    return cast.bitcast_convert_type(elementwise.shift_left(exponent, fraction), dtype)


def _exp2_formula(x: Any) -> Any:
    """2^x = exp(f ln 2) 2^n for the nearest integer n: x ln 2 alone would lose digits as x grows."""
    aval = aval_of(x)
    if dtypes.is_complex(aval.dtype):
        return exp(by_parts(lambda a, b: (elementwise.mul(a, LN_2), elementwise.mul(b, LN_2)))(x))
    limit = 127 if aval.dtype == np.float32 else 1023
    whole = elementwise.round(x, elementwise.RoundingMethod.TO_NEAREST_EVEN)
    part = elementwise.select(elementwise.eq(x, whole), shape.full_like(x, 0), elementwise.sub(x, whole))
    whole = elementwise.clamp(-2.0 * limit + 2, whole, 2.0 * limit)
    half = elementwise.floor(elementwise.mul(whole, 0.5))
    result = elementwise.mul(exp(elementwise.mul(part, LN_2)), _power_of_two(half))
    return elementwise.mul(result, _power_of_two(elementwise.sub(whole, half)))


def _half_exponentials(x: Any) -> tuple[Any, Any]:
    """exp(|x|) / 2 by squaring, which overflows only where the result does, and exp(-|x|) / 2."""
    root = exp(elementwise.mul(elementwise.abs(x), 0.5))
    return elementwise.mul(elementwise.mul(root, 0.5), root), elementwise.div(elementwise.div(0.5, root), root)


def _cosh_formula(x: Any) -> Any:
    return elementwise.add(*_half_exponentials(x))


def _sinh_formula(x: Any) -> Any:
    """With u = exp(|x|) - 1 near 0: (u + u / (u + 1)) / 2."""
    size = elementwise.abs(x)
    u = expm1(size)
    near = elementwise.mul(elementwise.add(u, elementwise.div(u, elementwise.add(u, 1))), 0.5)
    far = elementwise.sub(*_half_exponentials(x))
    return elementwise.mul(elementwise.sign(x), elementwise.select(elementwise.lt(size, 1), near, far))


# --- the user's functions -------------------------------------------------------------------------------------------


def exp(x: Any, *, accuracy: Any = None) -> Any:
    """e to the power of each element: inexact[...] -> inexact[...]."""
    return exp_p.apply(x, accuracy)


def exp2(x: Any, *, accuracy: Any = None) -> Any:
    """2 to the power of each element: inexact[...] -> inexact[...]."""
    return exp2_p.apply(x, accuracy)


def expm1(x: Any, *, accuracy: Any = None) -> Any:
    """`exp(x) - 1` of each element, exact near 0: inexact[...] -> inexact[...]."""
    return expm1_p.apply(x, accuracy)


def log(x: Any, *, accuracy: Any = None) -> Any:
    """Natural logarithm of each element; NaN for negative floats: inexact[...] -> inexact[...]."""
    return log_p.apply(x, accuracy)


def log1p(x: Any, *, accuracy: Any = None) -> Any:
    """`log(1 + x)` of each element, exact near 0: inexact[...] -> inexact[...]."""
    return log1p_p.apply(x, accuracy)


def logistic(x: Any, *, accuracy: Any = None) -> Any:
    """`1 / (1 + exp(-x))` of each element: inexact[...] -> inexact[...]."""
    return logistic_p.apply(x, accuracy)


def sin(x: Any, *, accuracy: Any = None) -> Any:
    """Sine of each element, in radians: inexact[...] -> inexact[...]."""
    return sin_p.apply(x, accuracy)


def cos(x: Any, *, accuracy: Any = None) -> Any:
    """Cosine of each element, in radians: inexact[...] -> inexact[...]."""
    return cos_p.apply(x, accuracy)


def tan(x: Any, *, accuracy: Any = None) -> Any:
    """Tangent of each element, in radians: inexact[...] -> inexact[...]."""
    return tan_p.apply(x, accuracy)


def asin(x: Any) -> Any:
    """Arc sine of each element; NaN for floats outside [-1, 1]: inexact[...] -> inexact[...]."""
    return asin_p.bind1(operands.lift(x))


def acos(x: Any) -> Any:
    """Arc cosine of each element; NaN for floats outside [-1, 1]: inexact[...] -> inexact[...]."""
    return acos_p.bind1(operands.lift(x))


def atan(x: Any) -> Any:
    """Arc tangent of each element: inexact[...] -> inexact[...]."""
    return atan_p.bind1(operands.lift(x))


def atan2(x: Any, y: Any) -> Any:
    """Angle of the point (y, x), in radians: arc tangent of `x / y` in the quadrant that the signs tell. Operands as in `add`."""
    return atan2_p.bind1(*operands.coerce("atan2", x, y))


def sinh(x: Any) -> Any:
    """Hyperbolic sine of each element: inexact[...] -> inexact[...]."""
    return sinh_p.bind1(operands.lift(x))


def cosh(x: Any) -> Any:
    """Hyperbolic cosine of each element: inexact[...] -> inexact[...]."""
    return cosh_p.bind1(operands.lift(x))


def tanh(x: Any, *, accuracy: Any = None) -> Any:
    """Hyperbolic tangent of each element: inexact[...] -> inexact[...]."""
    return tanh_p.apply(x, accuracy)


def asinh(x: Any) -> Any:
    """Inverse hyperbolic sine of each element: inexact[...] -> inexact[...]."""
    return asinh_p.bind1(operands.lift(x))


def acosh(x: Any) -> Any:
    """Inverse hyperbolic cosine of each element; NaN for floats below 1: inexact[...] -> inexact[...]."""
    return acosh_p.bind1(operands.lift(x))


def atanh(x: Any) -> Any:
    """Inverse hyperbolic tangent of each element; NaN for floats outside [-1, 1]: inexact[...] -> inexact[...]."""
    return atanh_p.bind1(operands.lift(x))
