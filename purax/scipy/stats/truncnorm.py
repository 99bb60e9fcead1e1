# SPDX-License-Identifier: Apache-2.0
"""The normal distribution, cut to [loc + a scale, loc + b scale].

Operands are real and broadcast; results have their common shape and inexact dtype.

The density is that of `norm` over the probability of [a, b], inside; NaN unless b > a.

Parameters
----------
x : real[...]
    Where to evaluate.
a, b : real[...]
    Limits, in units of `scale` from `loc`.
loc, scale : real[...]
    Shift and stretch: y = (x - loc) / scale.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from purax import numpy as pnp
from purax.numpy.promotion import promote_inexact
from purax.scipy import special
from purax.scipy.stats import _common as common
from purax.scipy.stats import norm

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]


def logpdf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Logarithm of the density."""
    x, a, b, loc, scale = promote_inexact("truncnorm.logpdf", x, a, b, loc, scale)
    y = common.unit(x, loc, scale)
    value = norm.logpdf(y) - pnp.log(scale) - _log_mass(a, b)
    return pnp.where(b > a, pnp.where((y >= a) & (y <= b), value, common.outside(y)), np.nan)


def pdf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Density."""
    return pnp.exp(logpdf(x, a, b, loc, scale))


def cdf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Probability of values up to x."""
    return pnp.exp(logcdf(x, a, b, loc, scale))


def logcdf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Logarithm of `cdf`."""
    x, a, b, loc, scale = promote_inexact("truncnorm.logcdf", x, a, b, loc, scale)
    y = common.unit(x, loc, scale)
    value = pnp.minimum(_log_mass(a, pnp.clip(y, a, b)) - _log_mass(a, b), 0)
    return pnp.where(b > a, value, np.nan)


def sf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Probability of values above x."""
    return pnp.exp(logsf(x, a, b, loc, scale))


def logsf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Logarithm of `sf`."""
    x, a, b, loc, scale = promote_inexact("truncnorm.logsf", x, a, b, loc, scale)
    y = common.unit(x, loc, scale)
    value = pnp.minimum(_log_mass(pnp.clip(y, a, b), b) - _log_mass(a, b), 0)
    return pnp.where(b > a, value, np.nan)


def _log_mass(a: Any, b: Any) -> Any:
    """Logarithm of the normal probability of [a, b], from the side where it is not lost against 1."""
    right = a > 0
    low, high = pnp.where(right, -b, a), pnp.where(right, -a, b)
    empty = low >= high
    upper, lower = special.log_ndtr(high), special.log_ndtr(pnp.where(empty, high - 1, low))
    gap = pnp.where(pnp.isinf(lower), np.inf, upper - lower)
    return pnp.where(empty, -np.inf, upper + common.log1mexp(gap))
