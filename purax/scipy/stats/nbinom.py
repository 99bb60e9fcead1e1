# SPDX-License-Identifier: Apache-2.0
"""The negative binomial distribution: failures before n successes of probability p.

Operands are real and broadcast; results have their common shape and inexact dtype.

The probability of k is gamma(y + n) / (gamma(n) y!) p^n (1 - p)^y for y >= 0.

Parameters
----------
k : real[...]
    Failures.
n : real[...]
    Successes, positive.
p : real[...]
    Probability of a success.
loc : real[...]
    Shift: y = k - loc.
"""

from __future__ import annotations

from typing import Any

from purax import numpy as pnp
from purax.numpy.promotion import promote_inexact
from purax.scipy import special
from purax.scipy.stats import _common as common

__all__ = ["logpmf", "pmf"]


def logpmf(k: Any, n: Any, p: Any, loc: Any = 0) -> Any:
    """Logarithm of the probability of k."""
    k, n, p, loc = promote_inexact("nbinom.logpmf", k, n, p, loc)
    y = k - loc
    valid = y >= 0
    safe = pnp.where(valid, y, 0)
    count = special.gammaln(safe + n) - special.gammaln(n) - special.gammaln(safe + 1)
    return pnp.where(valid, count + special.xlogy(n, p) + special.xlog1py(safe, -p), common.outside(y))


def pmf(k: Any, n: Any, p: Any, loc: Any = 0) -> Any:
    """Probability of k."""
    return pnp.exp(logpmf(k, n, p, loc))
