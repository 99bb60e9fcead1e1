# SPDX-License-Identifier: Apache-2.0
"""Pareto's distribution, from loc + scale on, with exponent b.

Operands are real and broadcast; results have their common shape and inexact dtype.

The density is b y^-(b + 1) / scale for y >= 1.

Parameters
----------
x : real[...]
    Where to evaluate.
q : real[...]
    Probabilities.
b : real[...]
    Positive.
loc, scale : real[...]
    Shift and stretch: y = (x - loc) / scale.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from purax import numpy as pnp
from purax.numpy.promotion import promote_inexact
from purax.scipy.stats import _common as common

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]


def logpdf(x: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Logarithm of the density."""
    x, b, loc, scale = promote_inexact("pareto.logpdf", x, b, loc, scale)
    y = common.unit(x, loc, scale)
    value = common.inside(y >= 1, lambda y: -(b + 1) * pnp.log(y), y, 1.0)
    return value + pnp.log(b) - pnp.log(scale)


def pdf(x: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Density."""
    return pnp.exp(logpdf(x, b, loc, scale))


def cdf(x: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Probability of values up to x."""
    return -pnp.expm1(logsf(x, b, loc, scale))


def logcdf(x: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Logarithm of `cdf`."""
    x, b, loc, scale = promote_inexact("pareto.logcdf", x, b, loc, scale)
    y = common.unit(x, loc, scale)
    return common.inside(y > 1, lambda y: common.log1mexp(b * pnp.log(y)), y, 2.0)


def sf(x: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Probability of values above x."""
    return pnp.exp(logsf(x, b, loc, scale))


def logsf(x: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Logarithm of `sf`."""
    x, b, loc, scale = promote_inexact("pareto.logsf", x, b, loc, scale)
    y = common.unit(x, loc, scale)
    return -b * pnp.log(pnp.maximum(y, 1))


def ppf(q: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The inverse of `cdf`; NaN outside [0, 1]."""
    q, b, loc, scale = promote_inexact("pareto.ppf", q, b, loc, scale)
    return pnp.where((q >= 0) & (q <= 1), loc + scale * pnp.exp(-pnp.log1p(-q) / b), np.nan)
