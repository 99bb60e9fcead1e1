# SPDX-License-Identifier: Apache-2.0
"""The generalized normal distribution, with density proportional to exp(-|x|^beta).

Operands are real and broadcast; results have their common shape and inexact dtype.

The density is beta exp(-|x|^beta) / (2 gamma(1 / beta)).

Parameters
----------
x : real[...]
    Where to evaluate.
beta : real[...]
    Positive: 1 is the Laplace distribution, 2 a normal one.
"""

from __future__ import annotations

from typing import Any

from purax import numpy as pnp
from purax.numpy.promotion import promote_inexact
from purax.scipy import special

__all__ = ["cdf", "logpdf", "pdf"]


def _power(x: Any, beta: Any) -> Any:
    """|x|^beta, with a derivative at 0."""
    zero = x == 0
    return pnp.where(zero, 0, pnp.where(zero, 1, pnp.abs(x)) ** beta)


def logpdf(x: Any, beta: Any) -> Any:
    """Logarithm of the density."""
    x, beta = promote_inexact("gennorm.logpdf", x, beta)
    return pnp.log(0.5 * beta) - special.gammaln(1 / beta) - _power(x, beta)


def pdf(x: Any, beta: Any) -> Any:
    """Density."""
    return pnp.exp(logpdf(x, beta))


def cdf(x: Any, beta: Any) -> Any:
    """Probability of values up to x."""
    x, beta = promote_inexact("gennorm.cdf", x, beta)
    return 0.5 * (1 + pnp.sign(x) * special.gammainc(1 / beta, _power(x, beta)))
