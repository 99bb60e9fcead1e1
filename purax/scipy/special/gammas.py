# SPDX-License-Identifier: Apache-2.0
"""The gamma function and what is made of it: beta, factorials, binomial coefficients, incomplete integrals, zeta.

Operands broadcast; results have their common shape and inexact dtype unless a function says otherwise.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from purax import dtypes, errors
from purax import numpy as pnp
from purax.control.jit import jit
from purax.core.trace import aval_of
from purax.lazy import lazy
from purax.numpy.promotion import promote_inexact
from purax.primitives import special
from purax.primitives.elementwise import strong_mul
from purax.primitives.family import FLOAT, INEXACT, Elementwise
from purax.scipy.special._series import apply, double, in_double
from purax.transforms.jvp import jvp

__all__ = [
    "bernoulli", "beta", "betainc", "betaln", "comb", "digamma", "factorial", "gamma", "gammainc", "gammaincc", "gammaln", "gammasgn",
    "loggamma", "multigammaln", "poch", "polygamma", "zeta",
]  # fmt: skip

scipy_special = lazy("scipy.special")
HALF_LOG_TAU = 0.5 * math.log(2 * math.pi)
# B_2k / (2k (2k - 1)): the correction of Stirling's formula, in odd powers of 1 / x
STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156, -3617 / 122400)
# B_2k / (2k): that of its derivative, in even powers
SLOPES = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)


def _numpy(name: str) -> Any:
    """SciPy's function, computed in double."""

    def compute(*xs: Any) -> Any:
        wide = np.complex128 if dtypes.is_complex(xs[0].dtype) else np.float64
        return np.asarray(getattr(scipy_special, name)(*[x.astype(wide) for x in xs])).astype(xs[0].dtype)

    return compute


def _powers(coefficients: tuple[float, ...], x: Any) -> Any:
    total = pnp.zeros_like(x)
    for coefficient in coefficients[::-1]:
        total = total * x + coefficient
    return total


# --- complex arguments --------------------------------------------------------------------------------------------------------


def _mirrored(z: Any) -> tuple[Any, Any, Any]:
    """Whether z is left of 1/2, z reflected into the right half plane, and that moved to the right by 8."""
    left = pnp.real(z) < 0.5
    right = pnp.where(left, 1 - z, z)
    return left, right, right + 8


def _complex_loggamma(z: Any) -> Any:
    """Stirling's formula right of 8, the recurrence up to there, the reflection left of 1/2: all on the analytic branch."""
    left, right, far = _mirrored(z)
    value = (far - 0.5) * pnp.log(far) - far + HALF_LOG_TAU + _powers(STIRLING, 1 / (far * far)) / far
    for k in range(8):
        value = value - pnp.log(right + k)
    lower = pnp.signbit(pnp.imag(z))
    upper = pnp.where(lower, pnp.conj(z), z)
    # sin(pi z) = (i / 2) exp(-i pi z) (1 - exp(2 i pi z)); the last factor is at most 2 in the upper half plane
    turns = pnp.round(pnp.real(upper))
    sine = (
        1j * math.pi * (0.5 - upper) - math.log(2) + pnp.log(-pnp.expm1(2j * math.pi * (upper - turns.astype(z.dtype))))
    )
    sine = pnp.where(lower, pnp.conj(sine), sine)
    return pnp.where(left, math.log(math.pi) - sine - value, value)


def _complex_digamma(z: Any) -> Any:
    left, right, far = _mirrored(z)
    value = pnp.log(far) - 0.5 / far - _powers(SLOPES, 1 / (far * far)) / (far * far)
    for k in range(8):
        value = value - 1 / (right + k)
    return pnp.where(left, value - math.pi / pnp.tan(math.pi * pnp.where(left, z, 0.25)), value)


def _any_digamma(x: Any) -> Any:
    return _complex_digamma(x) if dtypes.is_complex(aval_of(x).dtype) else special.digamma(x)


# --- gamma --------------------------------------------------------------------------------------------------------------------


def _at_pole(z: Any) -> Any:
    real = pnp.real(z)
    return (pnp.imag(z) == 0) & (real <= 0) & (real == pnp.floor(real))


def _gamma_formula(x: Any) -> Any:
    if dtypes.is_complex(x.aval.dtype):
        return pnp.where(_at_pole(x), complex(math.nan, math.nan), pnp.exp(_complex_loggamma(x)))
    return gammasgn(x) * pnp.exp(special.lgamma(x))


def _loggamma_formula(x: Any) -> Any:
    if dtypes.is_complex(x.aval.dtype):
        return pnp.where(_at_pole(x), complex(math.nan, math.nan), _complex_loggamma(x))
    return pnp.where((x < 0) | ((x == 0) & pnp.signbit(x)), np.nan, special.lgamma(x))


gamma_p = Elementwise(
    "gamma", INEXACT, double(_gamma_formula), _numpy("gamma"), lambda t, y, x: strong_mul(t, y * _any_digamma(x))
)
loggamma_p = Elementwise(
    "loggamma", INEXACT, double(_loggamma_formula), _numpy("loggamma"), lambda t, y, x: strong_mul(t, _any_digamma(x))
)


def gamma(x: Any) -> Any:
    """The gamma function; NaN at negative integers: inexact[...] -> the same."""
    return apply(gamma_p, x)


def gammaln(x: Any) -> Any:
    """Logarithm of |gamma(x)|: float[...] -> the same."""
    (x,) = promote_inexact("gammaln", x)
    if dtypes.is_complex(x.aval.dtype):
        raise errors.DTypeError("gammaln takes no complex numbers; loggamma does")
    return special.lgamma_p.bind1(x)


def loggamma(x: Any) -> Any:
    """Principal branch of the logarithm of gamma; NaN for negative reals: inexact[...] -> the same."""
    return apply(loggamma_p, x)


def gammasgn(x: Any) -> Any:
    """Sign of gamma(x); NaN at negative integers."""
    (x,) = promote_inexact("gammasgn", x)
    if dtypes.is_complex(x.aval.dtype):
        raise errors.DTypeError("gammasgn takes no complex numbers: they have no sign")
    floor = pnp.floor(x)
    odd = pnp.where(floor - 2 * pnp.floor(floor / 2) == 0, 1, -1)
    negative = pnp.where(x == floor, np.nan, odd)
    sign = pnp.where(x == 0, pnp.copysign(1, x), pnp.where(x < 0, negative, 1)).astype(x.dtype)
    return pnp.where(pnp.isnan(x), np.nan, sign)


def digamma(x: Any) -> Any:
    """Derivative of `gammaln`; NaN at its poles."""
    return apply(special.digamma_p, x)


def polygamma(n: Any, x: Any) -> Any:
    """Derivative of order n, a whole number, of `digamma`."""
    return apply(special.polygamma_p, n, x)


def factorial(n: Any, exact: bool = False) -> Any:
    """gamma(n + 1); 0 for negative n.

    Raises
    ------
    ValueError
        `exact` is asked for: arrays hold no integers without bound.
    """
    if exact:
        raise ValueError("factorial: exact=True needs integers without bound; use math.factorial")
    (n,) = promote_inexact("factorial", n)
    below = n < 0
    return pnp.where(below, 0, gamma(pnp.where(below, 0, n) + 1))


def multigammaln(a: Any, d: Any) -> Any:
    """Logarithm of the multivariate gamma function of dimension d, a static int."""
    d = operator.index(d)
    (a,) = promote_inexact("multigammaln", a)
    return sum([gammaln(a - i / 2) for i in range(d)], d * (d - 1) / 4 * math.log(math.pi) + pnp.zeros_like(a))


def _pochhammer(z: Any, m: Any) -> Any:
    """By logarithms; at a pole of the denominator alone 0, at poles of both by reflection."""
    total = z + m
    bottom = (z <= 0) & (z == pnp.floor(z))
    both = bottom & (total <= 0) & (total == pnp.floor(total))
    # gamma(z + m) / gamma(z) = (-1)^m gamma(1 - z) / gamma(1 - z - m)
    above, below = pnp.where(both, 1 - z, total), pnp.where(both, 1 - total, z)
    below = pnp.where(bottom & ~both, 1, below)
    value = pnp.exp(special.lgamma(above) - special.lgamma(below))
    sign = pnp.where(both, pnp.where(m - 2 * pnp.floor(m / 2) == 0, 1, -1), gammasgn(above) * gammasgn(below))
    return pnp.where(m == 0, 1, pnp.where(bottom & ~both, 0, value * sign))


poch_p = Elementwise(
    "poch", (FLOAT, FLOAT), double(_pochhammer), _numpy("poch"),
    lambda t, y, z, m: strong_mul(t, y * (special.digamma(z + m) - special.digamma(z))),
    lambda t, y, z, m: strong_mul(t, y * special.digamma(z + m)),
)  # fmt: skip


def poch(z: Any, m: Any) -> Any:
    """Pochhammer's symbol gamma(z + m) / gamma(z)."""
    return apply(poch_p, z, m)


# --- beta ---------------------------------------------------------------------------------------------------------------------


def _correction(x: Any) -> Any:
    """What Stirling's formula lacks at x >= 8."""
    return _powers(STIRLING, 1 / (x * x)) / x


def _betaln_formula(a: Any, b: Any) -> Any:
    """Logarithms of gamma, their large parts cancelled by hand where an argument is 8 or more."""
    p, q = pnp.minimum(a, b), pnp.maximum(a, b)
    one, two = q >= 8, p >= 8
    large, other = pnp.where(one, q, 8), pnp.where(two, p, 8)
    both = (
        HALF_LOG_TAU - 0.5 * pnp.log(large) + (other - 0.5) * pnp.log(other / (other + large))
        - large * pnp.log1p(other / large) + _correction(other) + _correction(large) - _correction(other + large)
    )  # fmt: skip
    small = pnp.where(two | (p < 0), 1, p)
    single = (
        special.lgamma(small) + small * (1 - pnp.log(large + small)) - (large - 0.5) * pnp.log1p(small / large)
        + _correction(large) - _correction(large + small)
    )  # fmt: skip
    plain = special.lgamma(p) + special.lgamma(q) - special.lgamma(p + q)
    return pnp.where(two, both, pnp.where(one & (p >= 0), single, plain))


def _beta_sign(a: Any, b: Any) -> Any:
    return gammasgn(a) * gammasgn(b) * gammasgn(a + b)


betaln_p = Elementwise(
    "betaln", (FLOAT, FLOAT), double(_betaln_formula), _numpy("betaln"),
    lambda t, y, a, b: strong_mul(t, special.digamma(a) - special.digamma(a + b)),
    lambda t, y, a, b: strong_mul(t, special.digamma(b) - special.digamma(a + b)),
)  # fmt: skip
beta_p = Elementwise(
    "beta", (FLOAT, FLOAT), double(lambda a, b: _beta_sign(a, b) * pnp.exp(_betaln_formula(a, b))), _numpy("beta"),
    lambda t, y, a, b: strong_mul(t, y * (special.digamma(a) - special.digamma(a + b))),
    lambda t, y, a, b: strong_mul(t, y * (special.digamma(b) - special.digamma(a + b))),
)  # fmt: skip


def betaln(a: Any, b: Any) -> Any:
    """Logarithm of |beta(a, b)|."""
    return apply(betaln_p, a, b)


def beta(a: Any, b: Any) -> Any:
    """gamma(a) gamma(b) / gamma(a + b)."""
    return apply(beta_p, a, b)


def betainc(a: Any, b: Any, x: Any) -> Any:
    """Regularized incomplete beta function; a, b >= 0 and x in [0, 1], else NaN."""
    return apply(special.regularized_incomplete_beta_p, a, b, x)


def gammainc(a: Any, x: Any) -> Any:
    """Regularized lower incomplete gamma function; a, x >= 0, else NaN."""
    return apply(special.igamma_p, a, x)


def gammaincc(a: Any, x: Any) -> Any:
    """`1 - gammainc(a, x)`, with all digits for large x."""
    return apply(special.igammac_p, a, x)


@jit
def _binomial(n: Any, k: Any) -> Any:
    valid = (k >= 0) & (n >= k) & (n >= 0)
    n, k = pnp.where(valid, n, 1), pnp.where(valid, k, 0)
    return pnp.where(valid, 1 / ((n + 1) * beta(n - k + 1, k + 1)), 0)


def comb(N: Any, k: Any, *, repetition: bool = False) -> Any:
    """Number of ways to choose k of N things, a float; 0 outside 0 <= k <= N.

    Parameters
    ----------
    N, k : real[...]
    repetition : bool
        Things may be chosen again.
    """
    N, k = promote_inexact("comb", N, k)
    if not repetition:
        return _binomial(N, k)
    none = (N == 0) & (k == 0)
    return pnp.where(none, 1, pnp.where((N < 0) | (k < 0), 0, _binomial(N + k - 1, k)))


# --- zeta and Bernoulli numbers -----------------------------------------------------------------------------------------------


def zeta(x: Any, q: Any = None) -> Any:
    """Hurwitz's zeta function, the sum of (q + k)^-x over k = 0, 1, ...; x > 1.

    Without q, Riemann's: q is 1, and x below 1 is reached by continuation.
    """
    if q is None:
        return apply(riemann_zeta_p, x)
    return apply(special.zeta_p, x, q)


def _alternating_weights(size: int) -> tuple[float, ...]:
    """Borwein's (2000) weights for the sum of (-1)^k (k + 1)^-s, which is (1 - 2^(1-s)) zeta(s)."""
    terms = [
        size * math.factorial(size + i - 1) * 4**i // (math.factorial(size - i) * math.factorial(2 * i))
        for i in range(size + 1)
    ]
    total = sum(terms)
    return tuple((-1) ** k * (1 - sum(terms[: k + 1]) / total) for k in range(size))


def _riemann_formula(s: Any) -> Any:
    """Alternating sum right of 0, the functional equation left of it, the sum itself from 2 on."""
    left = s < 0
    right = pnp.where(left, 1 - s, s)
    large = right >= 2
    inner = pnp.where(large, 0.5, right)
    total = pnp.zeros_like(s)
    for k, weight in enumerate(_alternating_weights(24)):
        total = total + weight * pnp.exp(-inner * math.log(k + 1))
    value = pnp.where(
        large,
        special.zeta_p.bind1(pnp.where(large, right, 2), pnp.ones_like(s)),
        total / -pnp.expm1((1 - inner) * math.log(2)),
    )
    sine = pnp.sin((math.pi / 2) * pnp.fmod(pnp.where(left, s, 0), 4.0))
    sine = pnp.where(pnp.fmod(s, 2.0) == 0, 0, sine)
    mirror = 2 * pnp.exp((s - 1) * math.log(2 * math.pi) + special.lgamma(pnp.where(left, right, 1))) * sine * value
    return pnp.where(left, mirror, pnp.where(s == 1, np.inf, pnp.where(s > 64, 1, value)))


def _riemann_slope(s: Any) -> Any:
    return jvp(_riemann_formula, (s,), (pnp.ones_like(s),))[1]


riemann_zeta_p = Elementwise(
    "riemann_zeta",
    FLOAT,
    double(_riemann_formula),
    _numpy("zeta"),
    lambda t, y, s: strong_mul(t, in_double(_riemann_slope)(s)),
)


def bernoulli(n: int) -> Any:
    """Bernoulli numbers B_0 to B_n, floats; n is a static int."""
    n = operator.index(n)
    if n < 0:
        raise ValueError(f"bernoulli: n is the last index, at least 0, got {n}")
    return pnp.asarray(scipy_special.bernoulli(n), dtypes.default_float())
