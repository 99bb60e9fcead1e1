# SPDX-License-Identifier: Apache-2.0
"""Integrals of exp(x) / x and sin(x) / x, exponential integrals of any order, and the dilogarithm.

Operands broadcast; results have their common shape and inexact dtype unless a function says otherwise.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from purax import dtypes
from purax import numpy as pnp
from purax.control.loop import fori_loop
from purax.lazy import lazy
from purax.numpy.promotion import promote_inexact
from purax.primitives import special
from purax.primitives.elementwise import strong_mul
from purax.primitives.family import FLOAT, Elementwise
from purax.scipy.special._series import apply, chebyshev, double, whole_line

__all__ = ["exp1", "expi", "expn", "sici", "spence"]

scipy_special = lazy("scipy.special")
EULER = 0.5772156649015329
ROOT, ROOT_REST = 0.37250741078136663, 1.3140183414386028e-17  # the zero of expi, in two parts


def _numpy(name: str) -> Any:
    """SciPy's function, computed in float64."""
    return lambda *xs: np.asarray(getattr(scipy_special, name)(*[x.astype(np.float64) for x in xs])).astype(xs[0].dtype)


# --- exp(x) / x ---------------------------------------------------------------------------------------------------------------


def _exp1_near(x: Any) -> Any:
    return scipy_special.exp1(x) + np.log(x)


def _exp1_far(t: Any) -> Any:
    """(x + 1) exp(x) exp1(x) at x = 2 (1 + t) / (1 - t)."""
    x = 2 * (1 + t) / (1 - t)
    # the scaled function by its continued fraction: exp(x) overflows
    value = x + 241
    for k in range(120, 0, -1):
        value = x + 2 * k - 1 - k * k / value
    return (x + 1) / value


def _positive_exp1(x: Any) -> Any:
    """exp1 for x > 0."""
    near = x < 2
    small, large = pnp.where(near, x, 1), pnp.where(near, 2, x)
    inner = chebyshev(_exp1_near, 0.0, 2.0, 24, small) - pnp.log(small)
    outer = chebyshev(_exp1_far, 0.0, 1.0, 50, whole_line(large, 2.0)) * pnp.exp(-large) / (large + 1)
    return pnp.where(near, inner, outer)


def _exp1_formula(x: Any) -> Any:
    value = _positive_exp1(pnp.where(x > 0, x, 1))
    return pnp.where(x > 0, value, pnp.where(x == 0, np.inf, np.nan))


def _expi_near(x: Any) -> Any:
    """(expi(x) - log(x / ROOT)) / (x - ROOT), an entire function."""
    shift = x - ROOT
    close = np.abs(shift) < 1e-4
    safe = np.where(close, 1.0, shift)
    direct = (scipy_special.expi(x) - np.log(x / ROOT)) / safe
    slope, curve = (math.exp(ROOT) - 1) / ROOT, (math.exp(ROOT) * (ROOT - 1) + 1) / ROOT**2
    return np.where(close, slope + curve * shift / 2, direct)


def _expi_far(u: Any) -> Any:
    """x exp(-x) expi(x) at x = 1 / u."""
    x = 1 / np.maximum(u, 1e-300)
    late, terms = np.ones_like(x), np.ones_like(x)
    for k in range(1, 40):
        terms = terms * np.minimum(k / x, 1.0)
        late = late + terms
    early = np.minimum(x, 60.0)
    return np.where(x > 60, late, early * np.exp(-early) * scipy_special.expi(early))


def _expi_formula(x: Any) -> Any:
    positive = x > 0
    near = x <= 6
    small = pnp.where(positive & near, x, 1)
    shift = (small - ROOT) - ROOT_REST
    close = small > 0.2
    root_log = pnp.where(close, pnp.log1p(pnp.where(close, shift, 0) / ROOT), pnp.log(small / ROOT))
    inner = root_log + shift * chebyshev(_expi_near, 0.0, 6.0, 40, small)
    large = pnp.where(near, 6, x)
    u = 1 / large
    outer = chebyshev(_expi_far, 0.0, 1 / 48, 30, pnp.minimum(u, 1 / 48))
    for low, high in ((24.0, 48.0), (12.0, 24.0), (6.0, 12.0)):
        piece = chebyshev(_expi_far, 1 / high, 1 / low, 36, pnp.clip(u, 1 / high, 1 / low))
        outer = pnp.where(large < high, piece, outer)
    half = pnp.exp(large / 2)
    outer = outer * half / large * half
    negative = -_positive_exp1(pnp.where(x < 0, -x, 1))
    found = pnp.where(positive, pnp.where(near, inner, outer), negative)
    edge = pnp.where(x == 0, -np.inf, pnp.where(x == np.inf, np.inf, found))
    return pnp.where(pnp.isnan(x), np.nan, edge)


exp1_p = Elementwise(
    "exp1", FLOAT, double(_exp1_formula), _numpy("exp1"), lambda t, y, x: strong_mul(t, -pnp.exp(-x) / x)
)
expi_p = Elementwise(
    "expi", FLOAT, double(_expi_formula), _numpy("expi"), lambda t, y, x: strong_mul(t, pnp.exp(x) / x)
)


def exp1(x: Any) -> Any:
    """Integral of exp(-t) / t from x > 0 to infinity; inf at 0, NaN below."""
    return apply(exp1_p, x)


def expi(x: Any) -> Any:
    """Principal value of the integral of exp(t) / t from -infinity to x."""
    return apply(expi_p, x)


def _expn_formula(n: Any, x: Any) -> Any:
    """A power series up to 1, a continued fraction beyond."""
    low = x <= 1
    small, large = pnp.where(low & (x > 0), x, 0.5), pnp.where(low, 2, x)
    order = pnp.maximum(n, 1)
    total, power = pnp.zeros_like(x), pnp.ones_like(x)
    for m in range(24):
        bottom = m + 1 - order
        same = bottom == 0
        singular = -power * (pnp.log(small) - special.digamma(order))
        total = total + pnp.where(same, singular, -power / pnp.where(same, 1, bottom))
        power = power * -small / (m + 1)
    # from order 24 on, the singular term is less than 1 / 23! of the sum

    def step(i: Any, value: Any) -> Any:
        k = (120 - i).astype(x.dtype)
        return large + order + 2 * (k - 1) - k * (order - 1 + k) / value

    fraction = fori_loop(0, 120, step, large + order + 240)
    found = pnp.where(low, total, pnp.exp(-large) / fraction)
    found = pnp.where(n == 0, pnp.exp(-x) / x, found)
    at_zero = pnp.where(n <= 1, np.inf, 1 / pnp.where(n <= 1, 1, n - 1))
    found = pnp.where(x == 0, at_zero, pnp.where(x == np.inf, 0, found))
    return pnp.where((n < 0) | (x < 0) | (n != pnp.floor(n)) | pnp.isnan(x), np.nan, found)


expn_p: Elementwise = Elementwise(
    "expn", (FLOAT, FLOAT), double(_expn_formula), _numpy("expn"), special.no_derivative("expn", "n"),
    lambda t, y, n, x: strong_mul(t, pnp.where(n == 0, -y * (1 + 1 / x), -expn_p.bind1(pnp.maximum(n - 1, 0), x))),
)  # fmt: skip


def expn(n: Any, x: Any) -> Any:
    """Integral of exp(-x t) / t^n from 1 to infinity, for whole n >= 0 and x >= 0."""
    return apply(expn_p, n, x)


# --- sin(x) / x ---------------------------------------------------------------------------------------------------------------


def _sine_near(square: Any) -> Any:
    x = np.sqrt(square)
    return scipy_special.sici(x)[0] / x


def _cosine_near(square: Any) -> Any:
    """(cosine integral - log x - Euler's constant) / x^2, by its series."""
    total, term = np.zeros_like(square), np.ones_like(square)
    for k in range(1, 24):
        term = -term / ((2 * k) * (2 * k - 1)) * (square if k > 1 else 1)
        total = total + term / (2 * k)
    return total


def _rotated(t: Any) -> Any:
    """exp(ix) exp1(ix) at x = 4 (1 + t) / (1 - t), by its continued fraction."""
    z = 4j * (1 + t) / (1 - t)
    value = z + 401
    for k in range(200, 0, -1):
        value = z + 2 * k - 1 - k * k / value
    return 1 / value


def _sici_f(t: Any) -> Any:
    return -_rotated(t).imag * 4 * (1 + t) / (1 - t)


def _sici_g(t: Any) -> Any:
    return _rotated(t).real * (4 * (1 + t) / (1 - t)) ** 2


def _sici_formula(x: Any, *, cosine: bool) -> Any:
    size = pnp.abs(x)
    near = size < 4
    small, large = pnp.where(near, size, 1), pnp.where(near, 4, pnp.minimum(size, 1e18))
    t = whole_line(large, 4.0)
    f = chebyshev(_sici_f, 0.0, 1.0, 60, t) / large
    g = chebyshev(_sici_g, 0.0, 1.0, 60, t) / (large * large)
    s, c = pnp.sin(large), pnp.cos(large)
    square = small * small
    if cosine:
        inner = EULER + pnp.log(small) + square * chebyshev(_cosine_near, 0.0, 16.0, 24, square)
        value = pnp.where(near, inner, f * s - g * c)
        return pnp.where(pnp.isinf(x), pnp.where(x > 0, 0, np.nan), value)
    value = pnp.where(near, small * chebyshev(_sine_near, 0.0, 16.0, 24, square), math.pi / 2 - f * c - g * s)
    return pnp.where(pnp.isnan(x), np.nan, pnp.sign(x) * value)


def _sici_numpy(x: Any, *, cosine: bool) -> Any:
    return scipy_special.sici(x.astype(np.float64))[int(cosine)].astype(x.dtype)


sici_p = Elementwise(
    "sici", FLOAT, double(_sici_formula), _sici_numpy,
    lambda t, y, x, cosine: strong_mul(t, pnp.cos(x) / x if cosine else pnp.sinc(x / math.pi)),
)  # fmt: skip


def sici(x: Any) -> tuple[Any, Any]:
    """Integral of sin(t) / t from 0 to x; Euler's constant + log|x| + the integral of (cos(t) - 1) / t from 0 to x.

    Raises
    ------
    ValueError
        `x` is complex.
    """
    (x,) = promote_inexact("sici", x)
    if dtypes.is_complex(x.dtype):
        raise ValueError(f"sici takes real numbers, got {x.dtype}")
    return sici_p.bind1(x, cosine=False), sici_p.bind1(x, cosine=True)


# --- the dilogarithm ----------------------------------------------------------------------------------------------------------


def _dilogarithm(u: Any) -> Any:
    """spence(1 - u) / u."""
    safe = np.where(np.abs(u) < 1e-3, 1.0, u)
    series = 1 + u / 4 + u**2 / 9 + u**3 / 16 + u**4 / 25 + u**5 / 36
    return np.where(np.abs(u) < 1e-3, series, scipy_special.spence(1 - safe) / safe)


def _spence_formula(x: Any) -> Any:
    """A series around 1; values above 1.5 by inversion, values below 1/2 by reflection."""
    above = x > 1.5
    inner = pnp.where(above, 1 / pnp.where(above, x, 1), x)
    below = inner < 0.5
    start = pnp.where(below, 1 - inner, inner)
    u = 1 - start
    value = u * chebyshev(_dilogarithm, -0.5, 0.5, 40, u)
    safe = pnp.where(below & (inner > 0), inner, 0.5)
    product = pnp.where(inner == 0, 0, pnp.log(safe) * pnp.log1p(-safe))
    value = pnp.where(below, math.pi**2 / 6 - product - value, value)
    value = pnp.where(above, -0.5 * pnp.log(pnp.where(above, x, 1)) ** 2 - value, value)
    return pnp.where((x < 0) | pnp.isnan(x), np.nan, value)


def _log_slope(x: Any) -> Any:
    """log(x) / (1 - x), smooth at 1."""
    u = x - 1
    close = pnp.abs(u) < 1e-2
    series = -(1 - u * (1 / 2 - u * (1 / 3 - u * (1 / 4 - u * (1 / 5 - u * (1 / 6 - u / 7))))))
    return pnp.where(close, series, pnp.log(x) / pnp.where(close, -1, -u))


spence_p = Elementwise(
    "spence", FLOAT, double(_spence_formula), _numpy("spence"), lambda t, y, x: strong_mul(t, _log_slope(x))
)


def spence(x: Any) -> Any:
    """Spence's function, the integral of log(t) / (1 - t) from 1 to x; NaN for negative x."""
    return apply(spence_p, x)
