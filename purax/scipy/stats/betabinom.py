# SPDX-License-Identifier: Apache-2.0
"""The beta-binomial distribution: successes in n trials whose probability is beta distributed.

Operands are real and broadcast; results have their common shape and inexact dtype.

The probability of k is C(n, y) B(y + a, n - y + b) / B(a, b) for 0 <= y <= n.

Parameters
----------
k : real[...]
    Successes.
n : real[...]
    Trials.
a, b : real[...]
    Of the beta distribution, positive.
loc : real[...]
    Shift: y = k - loc.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from purax import numpy as pnp
from purax.numpy.promotion import promote_inexact
from purax.scipy import special
from purax.scipy.stats import _common as common

__all__ = ["logpmf", "pmf"]


def logpmf(k: Any, n: Any, a: Any, b: Any, loc: Any = 0) -> Any:
    """Logarithm of the probability of k."""
    k, n, a, b, loc = promote_inexact("betabinom.logpmf", k, n, a, b, loc)
    y = k - loc
    valid = (y >= 0) & (y <= n)
    safe = pnp.where(valid, y, 0)
    rest = pnp.where(valid, n - safe, 1)
    count = -pnp.log1p(pnp.where(valid, n, 1)) - special.betaln(rest + 1, safe + 1)
    value = count + special.betaln(safe + a, rest + b) - special.betaln(a, b)
    wrong = (n < 0) | (a <= 0) | (b <= 0)
    return pnp.where(wrong, np.nan, pnp.where(valid, value, common.outside(y)))


def pmf(k: Any, n: Any, a: Any, b: Any, loc: Any = 0) -> Any:
    """Probability of k."""
    return pnp.exp(logpmf(k, n, a, b, loc))
