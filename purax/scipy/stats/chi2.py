# SPDX-License-Identifier: Apache-2.0
"""The chi-squared distribution of `df` degrees of freedom: that of a gamma variable of shape df / 2, doubled.

Operands are real and broadcast; results have their common shape and inexact dtype.

The density is y^(df / 2 - 1) exp(-y / 2) / (2^(df / 2) gamma(df / 2) scale) for y >= 0.

Parameters
----------
x : real[...]
    Where to evaluate.
df : real[...]
    Positive.
loc, scale : real[...]
    Shift and stretch: y = (x - loc) / scale.
"""

from __future__ import annotations

from typing import Any

from purax.numpy.promotion import promote_inexact
from purax.scipy.stats import gamma

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]


def _as_gamma(x: Any, df: Any, loc: Any, scale: Any) -> Any:
    x, df, loc, scale = promote_inexact("chi2", x, df, loc, scale)
    return x, df / 2, loc, 2 * scale


def logpdf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Logarithm of the density."""
    return gamma.logpdf(*_as_gamma(x, df, loc, scale))


def pdf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Density."""
    return gamma.pdf(*_as_gamma(x, df, loc, scale))


def cdf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Probability of values up to x."""
    return gamma.cdf(*_as_gamma(x, df, loc, scale))


def logcdf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Logarithm of `cdf`."""
    return gamma.logcdf(*_as_gamma(x, df, loc, scale))


def sf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Probability of values above x."""
    return gamma.sf(*_as_gamma(x, df, loc, scale))


def logsf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Logarithm of `sf`."""
    return gamma.logsf(*_as_gamma(x, df, loc, scale))
