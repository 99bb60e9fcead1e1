# SPDX-License-Identifier: Apache-2.0
"""The error function, its relatives in the complex plane, and the normal distribution.

Operands broadcast; results have their common shape and inexact dtype unless a function says otherwise.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from purax import dtypes
from purax import numpy as pnp
from purax.lazy import lazy
from purax.numpy.promotion import check_arraylike, promote_dtypes_complex, promote_inexact
from purax.primitives import special
from purax.primitives.elementwise import strong_mul
from purax.primitives.family import COMPLEX, FLOAT, INEXACT, Elementwise
from purax.scipy.special._series import apply, chebyshev, double, split_square, whole_line

__all__ = [
    "dawsn", "erf", "erfc", "erfcx", "erfinv", "fresnel", "log_ndtr", "ndtr", "ndtri", "owens_t", "wofz",
]  # fmt: skip

scipy_special = lazy("scipy.special")
ROOT_PI = math.sqrt(math.pi)


# --- the Faddeeva function ----------------------------------------------------------------------------------------------------


def _upper_w(z: Any) -> Any:
    """exp(-z^2) erfc(-iz) in the upper half plane: Weideman's rational series (1994); the continued fraction where |z| is large."""
    size = 40
    scale = math.sqrt(size / math.sqrt(2))
    steps = np.arange(-2 * size + 1, 2 * size) * np.pi / (2 * size)
    t = scale * np.tan(steps / 2)
    values = np.concatenate([[0.0], np.exp(-t * t) * (scale * scale + t * t)])
    found = np.real(np.fft.fft(np.fft.fftshift(values)))[1 : size + 1] / (4 * size)
    far = pnp.abs(z) > 30
    near = pnp.where(far, 1j, z)
    ratio = (scale + 1j * near) / (scale - 1j * near)
    total = pnp.zeros_like(z)
    for coefficient in found[::-1].tolist():
        total = total * ratio + coefficient
    rest = scale - 1j * near
    inner = 2 * total / (rest * rest) + (1 / ROOT_PI) / rest
    w = pnp.where(far, z, 30j)
    fraction = w
    for k in (3.0, 2.5, 2.0, 1.5, 1.0, 0.5):
        fraction = w - k / fraction
    return pnp.where(far, (1j / ROOT_PI) / fraction, inner)


def _wofz_formula(z: Any) -> Any:
    """The series above; below, by w(z) = 2 exp(-z^2) - w(-z)."""
    below = pnp.imag(z) < 0
    w = _upper_w(pnp.where(below, -z, z))
    return pnp.where(below, 2 * pnp.exp(-pnp.where(below, z * z, 0)) - w, w)


def _scipy_in_double(name: str) -> Any:
    def compute(*xs: Any) -> Any:
        wide = np.complex128 if dtypes.is_complex(xs[0].dtype) else np.float64
        return np.asarray(getattr(scipy_special, name)(*[x.astype(wide) for x in xs])).astype(xs[0].dtype)

    return compute


wofz_p = Elementwise(
    "wofz", COMPLEX, double(_wofz_formula), _scipy_in_double("wofz"),
    lambda t, w, z: t * (2j / ROOT_PI - 2 * z * w),
)  # fmt: skip


def wofz(z: Any) -> Any:
    """exp(-z^2) erfc(-iz), the Faddeeva function: inexact[...] -> complex[...]."""
    check_arraylike("wofz", z)
    return wofz_p.bind1(*promote_dtypes_complex(z))


# --- error functions ----------------------------------------------------------------------------------------------------------


def erf(x: Any) -> Any:
    """2 / sqrt(pi) times the integral of exp(-t^2) from 0 to x."""
    return apply(special.erf_p, x)


def erfc(x: Any) -> Any:
    """1 - erf(x), with all digits for large x."""
    return apply(special.erfc_p, x)


def erfinv(x: Any) -> Any:
    """The inverse of `erf`; NaN outside [-1, 1]."""
    return apply(special.erf_inv_p, x)


def _erfcx_scaled(t: Any) -> Any:
    """(1 + 2 x) erfcx(x) at x = 3.75 (1 + t) / (1 - t)."""
    x = 3.75 * (1 + t) / (1 - t)
    return (1 + 2 * x) * scipy_special.erfcx(x)


def erfcx_formula(x: Any) -> Any:
    """exp(x^2) erfc(x)."""
    if dtypes.is_complex(x.aval.dtype):
        return _wofz_formula(1j * x)
    size = pnp.abs(x)
    value = chebyshev(_erfcx_scaled, -1.0, 1.0, 40, whole_line(size, 3.75)) / (1 + 2 * size)
    below = x < 0
    grown = pnp.where(below, pnp.maximum(x, -30.0), 0)  # at -30 it overflows
    return pnp.where(below, 2 / split_square(grown) - value, value)


erfcx_p = Elementwise(
    "erfcx", INEXACT, double(erfcx_formula), _scipy_in_double("erfcx"), lambda t, y, x: t * (2 * x * y - 2 / ROOT_PI)
)


def erfcx(x: Any) -> Any:
    """exp(x^2) erfc(x), without overflow for large x: inexact[...] -> the same."""
    return apply(erfcx_p, x)


def _dawsn_scaled(t: Any) -> Any:
    """(1 + 2 x^2) dawsn(x) / x at x^2 = 4 (1 + t) / (1 - t)."""
    x = np.sqrt(4 * (1 + t) / (1 - t))
    return (1 + 2 * x * x) * scipy_special.dawsn(x) / x


def _dawsn_formula(x: Any) -> Any:
    square = x * x
    value = chebyshev(_dawsn_scaled, -1.0, 1.0, 120, whole_line(square, 4.0))
    far = pnp.abs(x) > 1e6
    return pnp.where(far, 0.5 / pnp.where(far, x, 1), x * value / (1 + 2 * pnp.where(far, 0, square)))


dawsn_p = Elementwise(
    "dawsn", FLOAT, double(_dawsn_formula), _scipy_in_double("dawsn"), lambda t, y, x: strong_mul(t, 1 - 2 * x * y)
)


def dawsn(x: Any) -> Any:
    """exp(-x^2) times the integral of exp(t^2) from 0 to x."""
    return apply(dawsn_p, x)


# --- the normal distribution --------------------------------------------------------------------------------------------------


def ndtr(x: Any) -> Any:
    """Distribution function of the standard normal distribution."""
    (x,) = promote_inexact("ndtr", x)
    return 0.5 * erfc(-x * math.sqrt(0.5))


def _log_ndtr_formula(x: Any) -> Any:
    """By erfcx on the left, where the function itself underflows; by its complement on the right."""
    left = x < -1
    low = pnp.where(left, x, -1)
    scaled = pnp.log(0.5 * erfcx_formula(-low * math.sqrt(0.5))) - 0.5 * low * low
    high = pnp.where(left, 0, x)
    return pnp.where(left, scaled, pnp.log1p(-0.5 * special.erfc(high * math.sqrt(0.5))))


log_ndtr_p = Elementwise(
    "log_ndtr", FLOAT, double(_log_ndtr_formula), _scipy_in_double("log_ndtr"),
    # The density over the distribution function; erfcx has the same scale.
    lambda t, y, x: strong_mul(t, math.sqrt(2 / math.pi) / erfcx(-x * math.sqrt(0.5))),
)  # fmt: skip


def log_ndtr(x: Any, series_order: int = 3) -> Any:
    """Logarithm of `ndtr`, without underflow: float[...] -> the same.

    Parameters
    ----------
    x : float[...]
    series_order : int
        Not needed: values have all digits.

    Returns
    -------
    float[...]
    """
    return apply(log_ndtr_p, x)


def _ndtri_formula(p: Any) -> Any:
    """By the inverse error function in the middle; in the tails, Newton's steps on the logarithm of `ndtr`."""
    tail = pnp.minimum(p, 1 - p)
    middle = math.sqrt(2) * special.erf_inv(2 * p - 1)
    inside = tail > 0
    small = pnp.where(inside & (tail < 0.2), tail, 0.1)
    goal = pnp.log(small)
    root = pnp.sqrt(-2 * goal)
    x = -(root - pnp.log(root * math.sqrt(2 * math.pi)) / root)
    for _ in range(4):
        slope = math.sqrt(2 / math.pi) / erfcx_formula(-x * math.sqrt(0.5))
        x = x - (_log_ndtr_formula(x) - goal) / slope
    outer = pnp.where(p < 0.5, x, -x)
    found = pnp.where(tail < 0.2, outer, middle)
    edge = pnp.where(p == 0, -np.inf, pnp.where(p == 1, np.inf, np.nan))
    return pnp.where(inside, found, edge)


ndtri_p = Elementwise(
    "ndtri", FLOAT, double(_ndtri_formula), _scipy_in_double("ndtri"),
    lambda t, y, p: strong_mul(t, math.sqrt(2 * math.pi) * pnp.exp(0.5 * y * y)),
)  # fmt: skip


def ndtri(p: Any) -> Any:
    """The inverse of `ndtr`; NaN outside [0, 1]."""
    return apply(ndtri_p, p)


def _owens_t_formula(h: Any, a: Any) -> Any:
    """Gauss's quadrature of the integral over [0, a], a <= 1, cut where its integrand is nothing; larger a by reflection."""
    size, slope = pnp.abs(h), pnp.abs(a)
    steep = slope > 1
    reach = pnp.where(steep, 1 / pnp.where(steep, slope, 1), slope)
    height = pnp.where(steep, size * pnp.where(steep, slope, 1), size)
    height = pnp.where(pnp.isnan(height), 0, pnp.minimum(height, 40.0))
    width = pnp.minimum(reach, 10.0 / pnp.maximum(height, 1.0))
    points, weights = np.polynomial.legendre.leggauss(32)
    total = pnp.zeros_like(h)
    for point, weight in zip((points / 2 + 0.5).tolist(), (weights / 2).tolist(), strict=True):
        s = width * point
        grown = 1 + s * s
        total = total + weight * pnp.exp(-0.5 * height * height * grown) / grown
    flat = total * width / (2 * math.pi)
    q = 0.5 * special.erfc(size * math.sqrt(0.5))
    p = 0.5 * special.erfc(pnp.where(steep, height, 0) * math.sqrt(0.5))
    out = pnp.where(steep, 0.5 * (q + p) - q * p - flat, flat)
    unknown = pnp.isnan(h) | pnp.isnan(a)
    return pnp.where(unknown, np.nan, pnp.sign(a) * out)


owens_t_p = Elementwise(
    "owens_t", (FLOAT, FLOAT), double(_owens_t_formula), _scipy_in_double("owens_t"),
    lambda t, y, h, a: strong_mul(t, -erf(a * h * math.sqrt(0.5)) * pnp.exp(-0.5 * h * h) / math.sqrt(8 * math.pi)),
    lambda t, y, h, a: strong_mul(t, pnp.exp(-0.5 * h * h * (1 + a * a)) / (2 * math.pi * (1 + a * a))),
)  # fmt: skip


def owens_t(h: Any, a: Any) -> Any:
    """Owen's T: the probability that X > h and 0 < Y < a X for independent standard normal X, Y."""
    return apply(owens_t_p, h, a)


# --- Fresnel's integrals ------------------------------------------------------------------------------------------------------


def _fresnel_sine(x4: Any) -> Any:
    x = x4**0.25
    return scipy_special.fresnel(x)[0] / x**3


def _fresnel_cosine(x4: Any) -> Any:
    x = x4**0.25
    return scipy_special.fresnel(x)[1] / x


def _fresnel_parts(t: Any) -> Any:
    """x (g + i f) at x = 1.6 (1 + t) / (1 - t), the slowly varying factors of the integrals."""
    x = 1.6 * (1 + t) / (1 - t)
    return x * (0.5 + 0.5j) * scipy_special.wofz((0.5 + 0.5j) * np.sqrt(np.pi) * x)


def _fresnel_f(t: Any) -> Any:
    return _fresnel_parts(t).imag


def _fresnel_g(t: Any) -> Any:
    return _fresnel_parts(t).real


def _fresnel_formula(x: Any, *, cosine: bool) -> Any:
    size = pnp.abs(x)
    near = size < 1.6
    small = pnp.where(near, size, 0)
    square = small * small
    if cosine:
        inner = small * chebyshev(_fresnel_cosine, 0.0, 1.6**4, 24, square * square)
    else:
        inner = small * square * chebyshev(_fresnel_sine, 0.0, 1.6**4, 24, square * square)
    large = pnp.where(near, 1.6, pnp.minimum(size, 1e15))
    t = whole_line(large, 1.6)
    f, g = (chebyshev(part, 0.0, 1.0, 60, t) / large for part in (_fresnel_f, _fresnel_g))
    # the phase pi x^2 / 2 modulo 2 pi: x = n + r gives x^2 = n^2 + 2 n r + r^2
    whole = pnp.floor(large)
    rest = large - whole
    turns = pnp.fmod(pnp.fmod(whole, 2.0) ** 2 + pnp.fmod(2 * whole * rest, 4.0) + rest * rest, 4.0)
    phase = (math.pi / 2) * turns
    s, c = pnp.sin(phase), pnp.cos(phase)
    outer = 0.5 + f * s - g * c if cosine else 0.5 - f * c - g * s
    return pnp.where(pnp.isnan(x), np.nan, pnp.sign(x) * pnp.where(near, inner, outer))


def _fresnel_numpy(x: Any, *, cosine: bool) -> Any:
    return scipy_special.fresnel(x.astype(np.float64))[int(cosine)].astype(x.dtype)


fresnel_p = Elementwise(
    "fresnel", FLOAT, double(_fresnel_formula), _fresnel_numpy,
    lambda t, y, x, cosine: strong_mul(t, (pnp.cos if cosine else pnp.sin)((math.pi / 2) * x * x)),
)  # fmt: skip


def fresnel(x: Any) -> tuple[Any, Any]:
    """The integrals of sin(pi t^2 / 2) and cos(pi t^2 / 2) from 0 to x."""
    (x,) = promote_inexact("fresnel", x)
    return fresnel_p.bind1(x, cosine=False), fresnel_p.bind1(x, cosine=True)
