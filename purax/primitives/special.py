# SPDX-License-Identifier: Apache-2.0
"""Special functions: error functions, the gamma and zeta families, Bessel functions, incomplete gamma and beta integrals.

CHLO has operations for the first half. Bessel functions are Chebyshev series fitted to SciPy's values when they are first
lowered; the incomplete integrals are series and continued fractions in float64, iterated until they stand still
(`purax.primitives.incomplete`).
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from purax import dtypes, errors
from purax.core.trace import aval_of
from purax.lazy import lazy
from purax.primitives import cast, elementwise, incomplete, operands, shape
from purax.primitives.elementwise import add, div, exp, log, mul, neg, select, strong_mul, strong_product, sub
from purax.primitives.family import FLOAT, Elementwise, inline, widened

__all__ = [
    "bessel_i", "bessel_i0e", "bessel_i0e_p", "bessel_i1e", "bessel_i1e_p", "bessel_i_p", "bessel_ive_p", "betainc", "betainc_slope_p", "digamma",
    "digamma_p", "erf", "erf_inv", "erf_inv_p", "erf_p", "erfc", "erfc_p", "igamma", "igamma_grad_a", "igamma_grad_a_p",
    "igamma_p", "igammac", "igammac_p", "lgamma", "lgamma_p", "polygamma", "polygamma_p", "random_gamma_grad",
    "regularized_incomplete_beta_p", "zeta", "zeta_p",
]  # fmt: skip

scipy_special = lazy("scipy.special")


def scipy(name: str) -> Any:
    """SciPy's function of that name, looked up when it is called."""
    return widened(lambda *xs: getattr(scipy_special, name)(*xs))


def no_derivative(name: str, operand: str) -> Any:
    """A tangent rule that says that there is none."""

    def rule(*args: Any, **params: Any) -> Any:
        raise errors.MissingRuleError(
            f"the derivative of {name} with respect to {operand} has no closed form here; stop_gradient({operand}) if it is a constant"
        )

    return rule


def _chlo(name: str, carrier: Any = dtypes.float32) -> Any:
    """The CHLO operation, in float32 for narrower floats; in float64 where its float32 form loses digits."""

    def lower(b: Any, ins: Any, outs: Any) -> list[Any]:
        (out,) = outs
        wide = ins if out.dtype == np.float64 else [b.convert(x, carrier) for x in ins]
        types = ", ".join(x.hlo for x in wide)
        result = b.emit(f"chlo.{name} {', '.join(map(str, wide))} : {types} -> {wide[0].hlo}", wide[0].aval)
        return [b.convert(result, out.dtype)]

    return lower


# --- error functions ------------------------------------------------------------------------------------------------


def _gauss(x: Any) -> Any:
    """2 / sqrt(pi) exp(-x^2)."""
    return mul(exp(neg(elementwise.square(x))), 2 / math.sqrt(math.pi))


erf_p = Elementwise("erf", FLOAT, _chlo("erf"), scipy("erf"), lambda t, y, x: strong_mul(t, _gauss(x)))
erfc_p = Elementwise("erfc", FLOAT, _chlo("erfc"), scipy("erfc"), lambda t, y, x: strong_mul(t, neg(_gauss(x))))
erf_inv_p = Elementwise(
    "erf_inv", FLOAT, _chlo("erf_inv"), scipy("erfinv"),
    lambda t, y, x: strong_mul(t, mul(exp(elementwise.square(y)), math.sqrt(math.pi) / 2)),
)  # fmt: skip

# --- gamma and zeta -------------------------------------------------------------------------------------------------


def _digamma(x: Any) -> Any:
    return np.where((x <= 0) & (x == np.floor(x)), np.nan, scipy_special.digamma(x))


def _lower_digamma(b: Any, ins: Any, outs: Any) -> list[Any]:
    """CHLO's; NaN at zero, where versions of XLA differ."""
    (found,) = _chlo("digamma", dtypes.float64)(b, ins, outs)
    return b.inline(
        lambda x, y: select(elementwise.eq(x, shape.full_like(x, 0)), shape.full_like(y, np.nan), y), [*ins, found]
    )


def _zeta(s: Any, q: Any) -> Any:
    """SciPy's Hurwitz zeta, shifted into its domain for negative q."""
    s, q = np.asarray(s, np.float64), np.asarray(q, np.float64)
    return scipy_special.zeta(s, q)


def _polygamma(m: Any, x: Any) -> Any:
    m, x = np.asarray(m, np.float64), np.asarray(x, np.float64)
    whole = (m == np.floor(m)) & (m >= 0)
    order = np.where(whole, m, 1.0)
    high = np.where(order % 2 == 1, 1.0, -1.0) * scipy_special.gamma(order + 1) * scipy_special.zeta(order + 1, x)
    return np.where(whole, np.where(order == 0, scipy_special.digamma(x), high), np.nan)


lgamma_p = Elementwise(
    "lgamma", FLOAT, _chlo("lgamma", dtypes.float64), scipy("gammaln"), lambda t, y, x: strong_mul(t, digamma(x))
)
digamma_p = Elementwise(
    "digamma", FLOAT, _lower_digamma, widened(_digamma),
    lambda t, y, x: strong_mul(t, polygamma(shape.full_like(x, 1), x)),
)  # fmt: skip
polygamma_p = Elementwise(
    "polygamma", (FLOAT, FLOAT), _chlo("polygamma", dtypes.float64), widened(_polygamma), no_derivative("polygamma", "m"),
    lambda t, y, m, x: strong_mul(t, polygamma(add(m, 1), x)),
)  # fmt: skip
zeta_p = Elementwise(
    "zeta", (FLOAT, FLOAT), _chlo("zeta", dtypes.float64), widened(_zeta),
    lambda t, y, s, q: strong_mul(t, _zeta_slope(s, q)),
    lambda t, y, s, q: strong_mul(t, neg(strong_product(s, zeta(add(s, 1), q)))),
)  # fmt: skip

# B_2j / (2j)!
_CORRECTIONS = (1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000, 1 / 74724249600)


def _zeta_slope(s: Any, q: Any) -> Any:
    """Minus the sum of log(q + k) (q + k)^-s, in float64, by Euler and Maclaurin's formula.

    That is, with w = q + 12 and p = w^-s: the first terms, p / 2 and the integral w p / (s - 1) for the others, and corrections
    B_2j / (2j)! s (s + 1) ... (s + 2j - 2) p w^(1 - 2j), each differentiated to s.
    """
    dtype = aval_of(s).dtype
    s, q = (cast.convert_element_type(x, dtypes.float64) for x in (s, q))
    w = add(q, 12)
    size = log(w)
    power = exp(neg(mul(s, size)))
    above = div(1, sub(s, 1))
    total = neg(mul(power, add(mul(size, 0.5), mul(mul(w, above), add(size, above)))))
    for k in range(12):
        near = log(add(q, k))
        total = sub(total, mul(near, exp(neg(mul(s, near)))))
    factor, growth = div(mul(s, power), w), sub(div(1, s), size)  # of a correction, and its logarithmic derivative
    for j, correction in enumerate(_CORRECTIONS, 1):
        total = add(total, mul(mul(factor, growth), correction))
        one, two = add(s, 2 * j - 1), add(s, 2 * j)
        factor = div(div(mul(mul(factor, one), two), w), w)
        growth = add(growth, add(div(1, one), div(1, two)))
    return cast.convert_element_type(total, dtype)


# --- modified Bessel functions --------------------------------------------------------------------------------------


@functools.cache
def _bessel_series(order: int, wide: bool) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Chebyshev coefficients for exp(-x) I_n(x): times ((x + 8) / x)^n in x / 4 - 1 on [0, 8], times sqrt(x) in 16 / x - 1 beyond."""

    def near(t: Any) -> Any:
        x = 4 * (t + 1)
        large = np.maximum(x, 1e-6)
        start = np.exp(-x) * ((x + 8) / 2) ** order / math.factorial(order)  # the first term of the power series
        return np.where(x < large, start, scipy_special.ive(order, large) * ((large + 8) / large) ** order)

    def far(t: Any) -> Any:
        x = 16 / np.maximum(t + 1, 1e-12)
        return np.sqrt(x) * scaled_bessel(x, order=order)

    sizes = (32, 30) if wide else (20, 12)
    return _chebyshev(near, sizes[0]), _chebyshev(far, sizes[1])


def _chebyshev(function: Any, size: int) -> tuple[float, ...]:
    """Coefficients of the polynomial that interpolates at Chebyshev's points."""
    angles = (np.arange(size) + 0.5) * np.pi / size
    terms = np.cos(np.outer(angles, np.arange(size)))
    coefficients = function(np.cos(angles)) @ terms * (2 / size)
    coefficients[0] /= 2
    return tuple(coefficients.tolist())


def scaled_bessel(x: Any, *, order: int) -> Any:
    """SciPy's exp(-|x|) I_n(x), with its limit where that gives NaN."""
    size = np.maximum(np.abs(np.asarray(x, np.float64)), 1e8)
    limit = (1 - (4 * order * order - 1) / (8 * size)) / np.sqrt(2 * np.pi * size) * np.sign(x) ** order
    return np.where(np.abs(x) > 1e8, limit, scipy_special.ive(order, x))


def _clenshaw(coefficients: tuple[float, ...], t: Any) -> Any:
    """Sum of a Chebyshev series at t."""
    after, last = shape.full_like(t, 0), shape.full_like(t, 0)
    double = mul(t, 2)
    for coefficient in coefficients[:0:-1]:
        after, last = add(sub(mul(double, after), last), coefficient), after
    return add(sub(mul(t, after), last), coefficients[0])


def _bessel_formula(x: Any, *, order: int) -> Any:
    """exp(-|x|) I_n(x)."""
    near, far = _bessel_series(order, x.aval.dtype == np.float64)
    size = elementwise.abs(x)
    close = elementwise.le(size, 8.0)
    small = elementwise.min(size, 8.0)
    inner = _clenshaw(near, sub(mul(small, 0.25), 1))
    if order:
        inner = mul(inner, elementwise.integer_pow(div(small, add(small, 8.0)), order))
    outer = mul(
        _clenshaw(far, sub(div(16.0, elementwise.max(size, 8.0)), 1)), elementwise.rsqrt(elementwise.max(size, 8.0))
    )
    value = select(close, inner, outer)
    return mul(value, elementwise.sign(x)) if order % 2 else value


def _scaled(order: int, x: Any) -> Any:
    if order < 2:
        return (bessel_i0e_p, bessel_i1e_p)[order].bind1(x)
    return bessel_ive_p.bind1(x, order=order)


def _scaled_tangent(t: Any, y: Any, x: Any, order: int) -> Any:
    """exp(-|x|) (I_{n-1} + I_{n+1}) / 2 - sign(x) y, without 1 / x: right at 0 in every order of derivative."""
    slope = _scaled(1, x) if order == 0 else mul(add(_scaled(order - 1, x), _scaled(order + 1, x)), 0.5)
    return mul(t, sub(slope, mul(elementwise.sign(x), y)))


def _plain_tangent(t: Any, y: Any, x: Any, order: int) -> Any:
    slope = bessel_i(1, x) if order == 0 else mul(add(bessel_i(order - 1, x), bessel_i(order + 1, x)), 0.5)
    return strong_mul(t, slope)


def _bessel_lower(order: int) -> Any:
    return inline(functools.partial(_bessel_formula, order=order))


bessel_i0e_p = Elementwise(
    "bessel_i0e", FLOAT, _bessel_lower(0), scipy("i0e"), lambda t, y, x: _scaled_tangent(t, y, x, 0)
)
bessel_i1e_p = Elementwise(
    "bessel_i1e", FLOAT, _bessel_lower(1), scipy("i1e"), lambda t, y, x: _scaled_tangent(t, y, x, 1)
)
bessel_ive_p = Elementwise("bessel_ive", FLOAT, inline(_bessel_formula), widened(scaled_bessel), _scaled_tangent)
bessel_i_p = Elementwise(
    "bessel_i", FLOAT,
    inline(lambda x, *, order: mul(exp(elementwise.abs(x)), _scaled(order, x))),
    widened(lambda x, *, order: scipy_special.iv(order, x)), _plain_tangent,
)  # fmt: skip

# --- incomplete integrals -------------------------------------------------------------------------------------------


def _gamma_density(a: Any, x: Any) -> Any:
    """x^(a-1) exp(-x) / gamma(a): the derivative of `igamma` to x."""
    return exp(sub(sub(strong_product(sub(a, 1), log(x)), x), lgamma(a)))


def _beta_density(a: Any, b: Any, x: Any) -> Any:
    """x^(a-1) (1-x)^(b-1) / beta(a, b)."""
    beta = sub(add(lgamma(a), lgamma(b)), lgamma(add(a, b)))
    powers = add(strong_product(sub(a, 1), log(x)), strong_product(sub(b, 1), elementwise.log1p(neg(x))))
    return exp(sub(powers, beta))


def _beta_density_slope(a: Any, b: Any, x: Any, operand: int) -> Any:
    """The derivative of the density to a or b."""
    own, other = (log(x), a) if operand == 0 else (elementwise.log1p(neg(x)), b)
    return strong_product(_beta_density(a, b, x), add(sub(own, digamma(other)), digamma(add(a, b))))


def _igamma(a: Any, x: Any) -> Any:
    return np.where((a == 0) & (x > 0), 1.0, scipy_special.gammainc(a, x))


def _igammac(a: Any, x: Any) -> Any:
    return np.where((a == 0) & (x > 0), 0.0, scipy_special.gammaincc(a, x))


igamma_p = Elementwise(
    "igamma", (FLOAT, FLOAT), incomplete.lower_igamma("lower"), widened(_igamma),
    lambda t, y, a, x: strong_mul(t, igamma_grad_a(a, x)), lambda t, y, a, x: strong_mul(t, _gamma_density(a, x)),
)  # fmt: skip
igammac_p = Elementwise(
    "igammac", (FLOAT, FLOAT), incomplete.lower_igamma("upper"), widened(_igammac),
    lambda t, y, a, x: strong_mul(t, neg(igamma_grad_a(a, x))), lambda t, y, a, x: strong_mul(t, neg(_gamma_density(a, x))),
)  # fmt: skip
igamma_grad_a_p = Elementwise(
    "igamma_grad_a", (FLOAT, FLOAT), incomplete.lower_igamma("gradient"), widened(incomplete.igamma_gradient),
    no_derivative("igamma_grad_a", "a"),
    # The mixed derivative: that of the density to a.
    lambda t, y, a, x: strong_mul(t, strong_product(_gamma_density(a, x), sub(log(x), digamma(a)))),
)  # fmt: skip
random_gamma_grad_p = Elementwise(
    "random_gamma_grad", (FLOAT, FLOAT), incomplete.lower_igamma("sample"), widened(incomplete.gamma_sample_gradient),
    no_derivative("random_gamma_grad", "a"), no_derivative("random_gamma_grad", "sample"),
)  # fmt: skip
regularized_incomplete_beta_p = Elementwise(
    "regularized_incomplete_beta", (FLOAT, FLOAT, FLOAT), incomplete.lower_betainc, widened(incomplete.betainc_reference),
    lambda t, y, a, b, x: strong_mul(t, betainc_slope_p.bind1(a, b, x, operand=0)),
    lambda t, y, a, b, x: strong_mul(t, betainc_slope_p.bind1(a, b, x, operand=1)),
    lambda t, y, a, b, x: strong_mul(t, _beta_density(a, b, x)),
)  # fmt: skip
betainc_slope_p: Elementwise = Elementwise(
    "betainc_slope", (FLOAT, FLOAT, FLOAT), incomplete.lower_betainc_slope, widened(incomplete.betainc_slope),
    no_derivative("betainc_slope", "a"), no_derivative("betainc_slope", "b"),
    lambda t, y, a, b, x, operand: strong_mul(t, _beta_density_slope(a, b, x, operand)),
)  # fmt: skip


# --- the user's functions -------------------------------------------------------------------------------------------


def erf(x: Any) -> Any:
    """Error function, 2 / sqrt(pi) times the integral of exp(-t^2) from 0 to x: float[...] -> float[...]."""
    return erf_p.bind1(operands.lift(x))


def erfc(x: Any) -> Any:
    """`1 - erf(x)`, with all digits for large x: float[...] -> float[...]."""
    return erfc_p.bind1(operands.lift(x))


def erf_inv(x: Any) -> Any:
    """Inverse of `erf`; NaN outside [-1, 1]: float[...] -> float[...]."""
    return erf_inv_p.bind1(operands.lift(x))


def lgamma(x: Any) -> Any:
    """Logarithm of |gamma(x)|: float[...] -> float[...]."""
    return lgamma_p.bind1(operands.lift(x))


def digamma(x: Any) -> Any:
    """Derivative of `lgamma`; NaN at its poles: float[...] -> float[...]."""
    return digamma_p.bind1(operands.lift(x))


def polygamma(m: Any, x: Any) -> Any:
    """Derivative of order m (a float that is a whole number) of `digamma` at x. Operands as in `add`."""
    return polygamma_p.bind1(*operands.coerce("polygamma", m, x))


def zeta(x: Any, q: Any) -> Any:
    """Hurwitz zeta function, the sum of (q + k)^-x over k = 0, 1, ...; x > 1. Operands as in `add`."""
    return zeta_p.bind1(*operands.coerce("zeta", x, q))


def bessel_i0e(x: Any) -> Any:
    """Modified Bessel function of order 0, times exp(-|x|): float[...] -> float[...]."""
    return bessel_i0e_p.bind1(operands.lift(x))


def bessel_i1e(x: Any) -> Any:
    """Modified Bessel function of order 1, times exp(-|x|): float[...] -> float[...]."""
    return bessel_i1e_p.bind1(operands.lift(x))


def bessel_i(order: int, x: Any) -> Any:
    """Modified Bessel function of a whole order at x, not scaled: float[...] -> float[...]."""
    return bessel_i_p.bind1(operands.lift(x), order=order)


def igamma(a: Any, x: Any) -> Any:
    """Regularized lower incomplete gamma function, the integral of t^(a-1) exp(-t) from 0 to x over gamma(a).

    Operands as in `add`; a >= 0 and x >= 0, else NaN.
    """
    return igamma_p.bind1(*operands.coerce("igamma", a, x))


def igammac(a: Any, x: Any) -> Any:
    """`1 - igamma(a, x)`, with all digits for large x. Operands as in `add`."""
    return igammac_p.bind1(*operands.coerce("igammac", a, x))


def igamma_grad_a(a: Any, x: Any) -> Any:
    """Derivative of `igamma` at a and x to a: float[...], float[...] -> float[...]. Operands as in `add`."""
    return igamma_grad_a_p.bind1(*operands.coerce("igamma_grad_a", a, x))


def random_gamma_grad(a: Any, x: Any) -> Any:
    """Derivative to a of a gamma sample x at a fixed quantile: minus `igamma_grad_a` over the density. Operands as in `add`."""
    return random_gamma_grad_p.bind1(*operands.coerce("random_gamma_grad", a, x))


def betainc(a: Any, b: Any, x: Any) -> Any:
    """Regularized incomplete beta function, the integral of t^(a-1) (1-t)^(b-1) from 0 to x over beta(a, b).

    Operands as in `add`; a, b >= 0 and x in [0, 1], else NaN.

    Parameters
    ----------
    a, b, x : float[...]

    Returns
    -------
    float[...]
    """
    return regularized_incomplete_beta_p.bind1(*operands.coerce("betainc", a, b, x))
