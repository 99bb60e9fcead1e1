# SPDX-License-Identifier: Apache-2.0
"""The normal distribution with mean `loc` and standard deviation `scale`.

Operands are real and broadcast; results have their common shape and inexact dtype.

The density is exp(-y^2 / 2) / (sqrt(2 pi) scale).

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

from purax import numpy as pnp
from purax.numpy.promotion import promote_inexact
from purax.scipy import special
from purax.scipy.stats import _common as common

__all__ = ["cdf", "isf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]


def _unit(x: Any, loc: Any, scale: Any) -> Any:
    x, loc, scale = promote_inexact("norm", x, loc, scale)
    return common.unit(x, loc, scale), loc, scale


def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Logarithm of the density."""
    y, _, scale = _unit(x, loc, scale)
    return -0.5 * (y * y) - 0.5 * math.log(2 * math.pi) - pnp.log(scale)


def pdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Density."""
    return pnp.exp(logpdf(x, loc, scale))


def cdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Probability of values up to x."""
    return special.ndtr(_unit(x, loc, scale)[0])


def logcdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Logarithm of `cdf`, without underflow."""
    return special.log_ndtr(_unit(x, loc, scale)[0])


def sf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Probability of values above x."""
    return special.ndtr(-_unit(x, loc, scale)[0])


def logsf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Logarithm of `sf`, without underflow."""
    return special.log_ndtr(-_unit(x, loc, scale)[0])


def ppf(q: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The inverse of `cdf`; NaN outside [0, 1]."""
    q, loc, scale = promote_inexact("norm.ppf", q, loc, scale)
    return special.ndtri(q) * scale + loc


def isf(q: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The inverse of `sf`; NaN outside [0, 1]."""
    q, loc, scale = promote_inexact("norm.isf", q, loc, scale)
    return loc - special.ndtri(q) * scale
