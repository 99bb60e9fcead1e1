# SPDX-License-Identifier: Apache-2.0
"""The exponential distribution from `loc` on with mean `scale`.

Operands are real and broadcast; results have their common shape and inexact dtype.

The density is exp(-y) / scale for y >= 0.

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

from typing import Any

import numpy as np

from purax import numpy as pnp
from purax.numpy.promotion import promote_inexact
from purax.scipy.stats import _common as common

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]


def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Logarithm of the density."""
    x, loc, scale = promote_inexact("expon.logpdf", x, loc, scale)
    y = common.unit(x, loc, scale)
    return pnp.where(y < 0, -np.inf, -y - pnp.log(scale))


def pdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Density."""
    return pnp.exp(logpdf(x, loc, scale))


def cdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Probability of values up to x."""
    x, loc, scale = promote_inexact("expon.cdf", x, loc, scale)
    y = common.unit(x, loc, scale)
    return -pnp.expm1(-pnp.maximum(y, 0))


def logcdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Logarithm of `cdf`."""
    x, loc, scale = promote_inexact("expon.logcdf", x, loc, scale)
    y = common.unit(x, loc, scale)
    return common.inside(y > 0, common.log1mexp, y, 1.0)


def sf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Probability of values above x."""
    x, loc, scale = promote_inexact("expon.sf", x, loc, scale)
    y = common.unit(x, loc, scale)
    return pnp.exp(-pnp.maximum(y, 0))


def logsf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Logarithm of `sf`."""
    x, loc, scale = promote_inexact("expon.logsf", x, loc, scale)
    y = common.unit(x, loc, scale)
    return -pnp.maximum(y, 0)


def ppf(q: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The inverse of `cdf`; NaN outside [0, 1]."""
    q, loc, scale = promote_inexact("expon.ppf", q, loc, scale)
    return pnp.where((q >= 0) & (q <= 1), loc - scale * pnp.log1p(-q), np.nan)
