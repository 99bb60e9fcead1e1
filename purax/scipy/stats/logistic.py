# SPDX-License-Identifier: Apache-2.0
"""The logistic distribution around `loc` with scale `scale`.

Operands are real and broadcast; results have their common shape and inexact dtype.

The density is exp(-y) / ((1 + exp(-y))^2 scale).

Parameters
----------
x : real[...]
    Where to evaluate; probabilities for `ppf` and `isf`.
loc, scale : real[...]
    Shift and stretch: y = (x - loc) / scale.
"""

from __future__ import annotations

from typing import Any

from purax import numpy as pnp
from purax.numpy.promotion import promote_inexact
from purax.scipy import special
from purax.scipy.stats import _common as common

__all__ = ["cdf", "isf", "logpdf", "pdf", "ppf", "sf"]


def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Logarithm of the density."""
    x, loc, scale = promote_inexact("logistic.logpdf", x, loc, scale)
    y = common.unit(x, loc, scale)
    size = pnp.abs(y)
    return -size - 2 * pnp.log1p(pnp.exp(-size)) - pnp.log(scale)


def pdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Density."""
    return pnp.exp(logpdf(x, loc, scale))


def cdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Probability of values up to x."""
    x, loc, scale = promote_inexact("logistic.cdf", x, loc, scale)
    y = common.unit(x, loc, scale)
    return special.expit(y)


def sf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Probability of values above x."""
    x, loc, scale = promote_inexact("logistic.sf", x, loc, scale)
    y = common.unit(x, loc, scale)
    return special.expit(-y)


def ppf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The inverse of `cdf`; NaN outside [0, 1]."""
    x, loc, scale = promote_inexact("logistic.ppf", x, loc, scale)
    return loc + scale * special.logit(x)


def isf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The inverse of `sf`; NaN outside [0, 1]."""
    x, loc, scale = promote_inexact("logistic.isf", x, loc, scale)
    return loc - scale * special.logit(x)
