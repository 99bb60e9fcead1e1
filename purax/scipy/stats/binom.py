# SPDX-License-Identifier: Apache-2.0
"""The binomial distribution: successes in n trials of probability p.

Operands are real and broadcast; results have their common shape and inexact dtype.

The probability of k is C(n, y) p^y (1 - p)^(n - y) for 0 <= y <= n.

Parameters
----------
k : real[...]
    Successes.
n : real[...]
    Trials.
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
    k, n, p, loc = promote_inexact("binom.logpmf", k, n, p, loc)
    y = k - loc
    valid = (y >= 0) & (y <= n)
    safe = pnp.where(valid, y, 0)
    count = -pnp.log1p(n) - special.betaln(pnp.where(valid, n - safe + 1, 1), safe + 1)
    return pnp.where(valid, count + special.xlogy(safe, p) + special.xlog1py(n - safe, -p), common.outside(y))


def pmf(k: Any, n: Any, p: Any, loc: Any = 0) -> Any:
    """Probability of k."""
    return pnp.exp(logpmf(k, n, p, loc))
