# SPDX-License-Identifier: Apache-2.0
"""Cauchy's distribution around `loc` with half width `scale`.

Operands are real and broadcast; results have their common shape and inexact dtype.

The density is 1 / (pi scale (1 + y^2)).

Parameters
----------
x : real[...]
    Where to evaluate.
q : real[...]
    Probabilities.
loc, scale : real[...]
    Shift and stretch: y = (x - loc) / scale.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from purax import numpy as pnp
from purax.numpy.promotion import promote_inexact
from purax.scipy.stats import _common as common

__all__ = ["cdf", "isf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]


def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Logarithm of the density."""
    x, loc, scale = promote_inexact("cauchy.logpdf", x, loc, scale)
    y = common.unit(x, loc, scale)
    return -math.log(math.pi) - pnp.log(scale) - pnp.log1p(y * y)


def pdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Density."""
    return pnp.exp(logpdf(x, loc, scale))


def cdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Probability of values up to x."""
    x, loc, scale = promote_inexact("cauchy.cdf", x, loc, scale)
    y = common.unit(x, loc, scale)
    return pnp.arctan2(pnp.ones_like(y), -y) / math.pi


def logcdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Logarithm of `cdf`."""
    return pnp.log(cdf(x, loc, scale))


def sf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Probability of values above x."""
    x, loc, scale = promote_inexact("cauchy.sf", x, loc, scale)
    y = common.unit(x, loc, scale)
    return pnp.arctan2(pnp.ones_like(y), y) / math.pi


def logsf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Logarithm of `sf`."""
    return pnp.log(sf(x, loc, scale))


def _quantile(q: Any) -> Any:
    """-1 / tan(pi q), from the nearer end."""
    low = q < 0.5
    angle = math.pi * pnp.where(low, q, 1 - q)
    value = pnp.where(low, -1, 1) / pnp.tan(angle)
    return pnp.where((q >= 0) & (q <= 1), value, np.nan)


def ppf(q: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The inverse of `cdf`; NaN outside [0, 1]."""
    q, loc, scale = promote_inexact("cauchy.ppf", q, loc, scale)
    return loc + scale * _quantile(q)


def isf(q: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The inverse of `sf`; NaN outside [0, 1]."""
    q, loc, scale = promote_inexact("cauchy.isf", q, loc, scale)
    return loc - scale * _quantile(q)
