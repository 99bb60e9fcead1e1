# SPDX-License-Identifier: Apache-2.0
"""Gumbel's distribution of maxima, with mode `loc` and scale `scale`; NaN unless scale > 0.

Operands are real and broadcast; results have their common shape and inexact dtype.

The density is exp(-y - exp(-y)) / scale.

Parameters
----------
x : real[...]
    Where to evaluate.
p : real[...]
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
    x, loc, scale = promote_inexact("gumbel_r.logpdf", x, loc, scale)
    y = common.unit(x, loc, scale)
    return pnp.where(scale > 0, -y - pnp.exp(-y) - pnp.log(scale), np.nan)


def pdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Density."""
    return pnp.exp(logpdf(x, loc, scale))


def cdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Probability of values up to x."""
    return pnp.exp(logcdf(x, loc, scale))


def logcdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Logarithm of `cdf`."""
    x, loc, scale = promote_inexact("gumbel_r.logcdf", x, loc, scale)
    y = common.unit(x, loc, scale)
    return pnp.where(scale > 0, -pnp.exp(-y), np.nan)


def sf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Probability of values above x."""
    return -pnp.expm1(logcdf(x, loc, scale))


def logsf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Logarithm of `sf`."""
    x, loc, scale = promote_inexact("gumbel_r.logsf", x, loc, scale)
    y = common.unit(x, loc, scale)
    return pnp.where(scale > 0, common.log1mexp(pnp.exp(-y)), np.nan)


def ppf(p: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The inverse of `cdf`; NaN outside [0, 1]."""
    p, loc, scale = promote_inexact("gumbel_r.ppf", p, loc, scale)
    return pnp.where(scale > 0, loc - scale * pnp.log(-pnp.log(p)), np.nan)
