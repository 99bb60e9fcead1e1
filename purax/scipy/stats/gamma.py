# SPDX-License-Identifier: Apache-2.0
"""The gamma distribution of shape a, from `loc` on, with scale `scale`.

Operands are real and broadcast; results have their common shape and inexact dtype.

The density is y^(a - 1) exp(-y) / (gamma(a) scale) for y >= 0.

Parameters
----------
x : real[...]
    Where to evaluate.
a : real[...]
    Positive.
loc, scale : real[...]
    Shift and stretch: y = (x - loc) / scale.
"""

from __future__ import annotations

from typing import Any

from purax import numpy as pnp
from purax.numpy.promotion import promote_inexact
from purax.scipy import special
from purax.scipy.stats import _common as common

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]


def logpdf(x: Any, a: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Logarithm of the density."""
    x, a, loc, scale = promote_inexact("gamma.logpdf", x, a, loc, scale)
    y = common.unit(x, loc, scale)
    value = common.inside(y >= 0, lambda y: special.xlogy(a - 1, y) - y, y, 1.0)
    return value - special.gammaln(a) - pnp.log(scale)


def pdf(x: Any, a: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Density."""
    return pnp.exp(logpdf(x, a, loc, scale))


def cdf(x: Any, a: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Probability of values up to x."""
    x, a, loc, scale = promote_inexact("gamma.cdf", x, a, loc, scale)
    y = common.unit(x, loc, scale)
    return special.gammainc(a, pnp.maximum(y, 0))


def logcdf(x: Any, a: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Logarithm of `cdf`."""
    return pnp.log(cdf(x, a, loc, scale))


def sf(x: Any, a: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Probability of values above x."""
    x, a, loc, scale = promote_inexact("gamma.sf", x, a, loc, scale)
    y = common.unit(x, loc, scale)
    return special.gammaincc(a, pnp.maximum(y, 0))


def logsf(x: Any, a: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Logarithm of `sf`."""
    return pnp.log(sf(x, a, loc, scale))
