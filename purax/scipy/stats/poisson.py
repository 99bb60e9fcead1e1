# SPDX-License-Identifier: Apache-2.0
"""Poisson's distribution of mean mu.

Operands are real and broadcast; results have their common shape and inexact dtype.

The probability of k is mu^y exp(-mu) / y! for whole y >= 0.

Parameters
----------
k : real[...]
    Counts.
mu : real[...]
    Mean.
loc : real[...]
    Shift: y = k - loc.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from purax import numpy as pnp
from purax.numpy.promotion import promote_inexact
from purax.scipy import special
from purax.scipy.stats import _common as common

__all__ = ["cdf", "entropy", "logpmf", "pmf"]


def logpmf(k: Any, mu: Any, loc: Any = 0) -> Any:
    """Logarithm of the probability of k."""
    k, mu, loc = promote_inexact("poisson.logpmf", k, mu, loc)
    y = k - loc
    valid = (y >= 0) & (y == pnp.floor(y))
    safe = pnp.where(valid, y, 0)
    return pnp.where(valid, special.xlogy(safe, mu) - special.gammaln(safe + 1) - mu, common.outside(y))


def pmf(k: Any, mu: Any, loc: Any = 0) -> Any:
    """Probability of k."""
    return pnp.exp(logpmf(k, mu, loc))


def cdf(k: Any, mu: Any, loc: Any = 0) -> Any:
    """Probability of values up to k."""
    k, mu, loc = promote_inexact("poisson.cdf", k, mu, loc)
    y = k - loc
    return pnp.where(y < 0, 0, special.gammaincc(pnp.where(y < 0, 0, pnp.floor(y)) + 1, mu))


def entropy(mu: Any, loc: Any = 0) -> Any:
    """Entropy: its sum up to a mean of 100, an asymptotic series beyond; NaN for negative means. `loc` changes nothing."""
    mu, _ = promote_inexact("poisson.entropy", mu, loc)
    near = (mu > 0) & (mu < 100)
    small, large = pnp.where(near, mu, 1), pnp.where(mu < 100, 100, mu)
    k = np.arange(260).astype(mu.dtype).reshape((1,) * mu.ndim + (-1,))
    terms = logpmf(k, small[..., None])
    total = -pnp.sum(pnp.exp(terms) * terms, axis=-1)
    inverse = 1 / large
    series = inverse * (1 / 12 + inverse * (1 / 24 + inverse * (19 / 360)))
    value = pnp.where(mu < 100, total, 0.5 * pnp.log(2 * math.pi * math.e * large) - series)
    return pnp.where(mu == 0, 0, pnp.where(mu > 0, value, np.nan))
