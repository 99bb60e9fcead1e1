# SPDX-License-Identifier: Apache-2.0
"""Laplace's distribution around `loc` with mean distance `scale`.

Operands are real and broadcast; results have their common shape and inexact dtype.

The density is exp(-|y|) / (2 scale).

Parameters
----------
x : real[...]
    Where to evaluate.
loc, scale : real[...]
    Shift and stretch: y = (x - loc) / scale.
"""

from __future__ import annotations

from typing import Any

from purax import numpy as pnp
from purax.numpy.promotion import promote_inexact
from purax.scipy.stats import _common as common

__all__ = ["cdf", "logpdf", "pdf"]


def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Logarithm of the density."""
    x, loc, scale = promote_inexact("laplace.logpdf", x, loc, scale)
    y = common.unit(x, loc, scale)
    return -pnp.abs(y) - pnp.log(2 * scale)


def pdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Density."""
    return pnp.exp(logpdf(x, loc, scale))


def cdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Probability of values up to x."""
    x, loc, scale = promote_inexact("laplace.cdf", x, loc, scale)
    y = common.unit(x, loc, scale)
    half = 0.5 * pnp.exp(-pnp.abs(y))
    return pnp.where(y < 0, half, 1 - half)
