# SPDX-License-Identifier: Apache-2.0
"""Functions of complex numbers where a part is zero, infinite or NaN.

The compiler's own formulas lose the sign of a zero part, and with it the side of a branch cut, and give two NaN where one part is
known. The formulas here give the parts that C's Annex G, NumPy and the Python array API standard have. `edges` of a row of
`Elementwise` names one that mends what the compiler's operation gives: `mended` makes it of a function of the parts of the result
(re, im) and of the operand (a, b).

References
----------
ISO C, Annex G.6. W. Kahan, Branch cuts for complex elementary functions, 1987.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from purax import dtypes
from purax.primitives import cast, elementwise, shape

__all__: list[str] = []  # for the rows of primitives alone

Parts = tuple[Any, Any]
INF, NAN = float("inf"), float("nan")


def sign_bit(x: Any) -> Any:
    """Whether the sign bit of each float is set."""
    word = np.dtype(f"int{dtypes.itemsize_bits(x.aval.dtype)}")
    return elementwise.lt(cast.bitcast_convert_type(x, word), 0)


def with_sign_of(x: Any, y: Any) -> Any:
    """Floats `x` with the signs of `y`."""
    return elementwise.select(elementwise.ne(sign_bit(x), sign_bit(y)), elementwise.neg(x), x)


def by_parts(formula: Callable[[Any, Any], Parts]) -> Callable[[Any], Any]:
    """A function of complex numbers from one of their parts."""
    return lambda x: elementwise.complex(*formula(elementwise.real(x), elementwise.imag(x)))


def mended(formula: Callable[[Any, Any, Any, Any], Parts]) -> Callable[[Any, Any], Any]:
    """A function of operand and result from one of the parts of both."""

    def compute(x: Any, w: Any) -> Any:
        parts = [part(z) for z in (w, x) for part in (elementwise.real, elementwise.imag)]
        return elementwise.complex(*formula(*parts))

    return compute


def _where(test: Any, value: Any, other: Any) -> Any:
    return elementwise.select(test, shape.full_like(other, value) if isinstance(value, float) else value, other)


def _both(*tests: Any) -> Any:
    first, *rest = tests
    for test in rest:
        first = elementwise.bitwise_and(first, test)
    return first


def _not_finite(x: Any) -> Any:
    return elementwise.bitwise_not(elementwise.is_finite(x))


def _infinite(x: Any) -> Any:
    return elementwise.eq(elementwise.abs(x), INF)


def _nan(x: Any) -> Any:
    return elementwise.ne(x, x)


def _zero(x: Any) -> Any:
    return elementwise.eq(x, 0)


def _times(x: Any, y: Any) -> Any:
    """`x * y` for floats, zero where either is though the other is inf or NaN: with the sign of the product, NaN as a plus."""
    signs = [_where(_nan(v), 1.0, with_sign_of(shape.full_like(v, 1), v)) for v in (x, y)]
    nothing = with_sign_of(shape.full_like(x, 0), elementwise.mul(*signs))
    return _where(elementwise.bitwise_or(_zero(x), _zero(y)), nothing, elementwise.mul(x, y))


# --- exponentials and logarithms ------------------------------------------------------------------------------------


def exp(re: Any, im: Any, a: Any, b: Any) -> Parts:
    """exp(-inf + i b) = 0 and exp(inf + i b) = inf for any b; real numbers give real ones, with the sign of their zero."""
    unknown = _not_finite(b)
    none, all_ = _both(unknown, elementwise.eq(a, -INF)), _both(unknown, elementwise.eq(a, INF))
    re = _where(none, 0.0, _where(all_, INF, re))
    im = _where(none, with_sign_of(shape.full_like(b, 0), b), im)
    return re, _where(_zero(b), b, im)


def expm1(re: Any, im: Any, a: Any, b: Any) -> Parts:
    """Real numbers give real ones, with the sign of their zero."""
    return re, _where(_zero(b), b, im)


def log(re: Any, im: Any, a: Any, b: Any) -> Parts:
    """The real part of any infinite number is infinite."""
    return _where(elementwise.bitwise_or(_infinite(a), _infinite(b)), INF, re), im


def size(x: Any, y: Any) -> Any:
    """The size y of a number x with an infinite part is infinite."""
    return log(y, None, elementwise.real(x), elementwise.imag(x))[0]


def sqrt(re: Any, im: Any, a: Any, b: Any) -> Parts:
    """The imaginary part has the sign of the operand's: the cut is continuous from the side that the sign tells."""
    unknown = _nan(b)
    re = _where(_both(unknown, elementwise.eq(a, INF)), INF, re)
    im = _where(_both(unknown, elementwise.eq(a, -INF)), INF, im)
    return _where(_infinite(b), INF, re), _where(_infinite(b), b, with_sign_of(im, b))


# --- hyperbolic functions, and circular ones as those of i z -------------------------------------------------------------


def cosh(a: Any, b: Any) -> Parts:
    """cosh(a) cos(b) + i sinh(a) sin(b)."""
    re = elementwise.mul(elementwise.cosh(a), elementwise.cos(b))
    re = _where(_both(_infinite(a), _not_finite(b)), INF, re)
    return re, _times(elementwise.sinh(a), elementwise.sin(b))


def sinh(a: Any, b: Any) -> Parts:
    """sinh(a) cos(b) + i cosh(a) sin(b)."""
    re = _times(elementwise.sinh(a), elementwise.cos(b))
    re = _where(_both(_infinite(a), _not_finite(b)), a, re)
    return re, _times(elementwise.cosh(a), elementwise.sin(b))


def cos(a: Any, b: Any) -> Parts:
    """cosh(i z) = cosh(-b + i a)."""
    re, im = cosh(b, a)
    return re, elementwise.neg(im)


def sin(a: Any, b: Any) -> Parts:
    """-i sinh(i z)."""
    im, re = sinh(b, a)
    return re, im


def tanh(re: Any, im: Any, a: Any, b: Any) -> Parts:
    """Odd in either part; 0 in the part that is 0 though the other is unknown, and at infinity."""
    start = _both(_zero(a), _not_finite(b))
    re, im = _where(start, a, with_sign_of(re, a)), _where(start, NAN, im)
    im = _where(_both(_infinite(a), _not_finite(b)), with_sign_of(shape.full_like(b, 0), b), im)
    return re, _where(_zero(b), b, im)


def asinh(re: Any, im: Any, a: Any, b: Any) -> Parts:
    """Odd in either part, which tells the side of the cut; asinh(NaN + 0i) is NaN + 0i."""
    return with_sign_of(re, a), _where(_both(_nan(a), _zero(b)), b, with_sign_of(im, b))


def acosh(re: Any, im: Any, a: Any, b: Any) -> Parts:
    """The imaginary part has the sign of the operand's; a right angle where the real part is 0."""
    unknown = _both(_zero(a), _nan(b))
    return re, _where(unknown, np.pi / 2, with_sign_of(im, b))


def acos(re: Any, im: Any, a: Any, b: Any) -> Parts:
    """As `acosh`, turned: the imaginary part has the other sign."""
    unknown = _both(_zero(a), _nan(b))
    return _where(unknown, np.pi / 2, re), with_sign_of(im, elementwise.neg(b))


def atanh(re: Any, im: Any, a: Any, b: Any) -> Parts:
    """Odd in either part, which tells the side of the cut; of NaN only what the other part decides."""
    unknown = elementwise.bitwise_or(_nan(a), _nan(b))
    far = elementwise.bitwise_or(_infinite(a), _infinite(b))
    known = elementwise.bitwise_or(far, _zero(a))
    re = _where(unknown, _where(known, with_sign_of(shape.full_like(a, 0), a), shape.full_like(a, NAN)), re)
    im = _where(
        unknown, _where(_infinite(b), with_sign_of(shape.full_like(b, np.pi / 2), b), shape.full_like(b, NAN)), im
    )
    return with_sign_of(re, a), with_sign_of(im, b)


def turned(formula: Callable[[Any, Any, Any, Any], Parts]) -> Callable[[Any, Any, Any, Any], Parts]:
    """f(z) = -i g(i z) from the formula of an odd g: the parts change places."""

    def compute(re: Any, im: Any, a: Any, b: Any) -> Parts:
        im, re = formula(im, re, b, a)
        return re, im

    return compute
