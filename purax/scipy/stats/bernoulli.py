# SPDX-License-Identifier: Apache-2.0
"""The Bernoulli distribution: 1 with probability p, else 0.

Operands are real and broadcast; results have their common shape and inexact dtype.

Parameters
----------
k : real[...]
    Outcome.
q : real[...]
    Probabilities.
p : real[...]
    Probability of 1; `cdf` and `ppf` give NaN outside [0, 1].
loc : real[...]
    Shift: k - loc is 0 or 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from purax import numpy as pnp
from purax.numpy.promotion import promote_inexact
from purax.scipy import special
from purax.scipy.stats import _common as common

__all__ = ["cdf", "logpmf", "pmf", "ppf"]


def logpmf(k: Any, p: Any, loc: Any = 0) -> Any:
    """Logarithm of the probability of k."""
    k, p, loc = promote_inexact("bernoulli.logpmf", k, p, loc)
    y = k - loc
    valid = (y == 0) | (y == 1)
    return common.inside(valid, lambda y: special.xlogy(y, p) + special.xlog1py(1 - y, -p), y, 0.0)


def pmf(k: Any, p: Any, loc: Any = 0) -> Any:
    """Probability of k."""
    return pnp.exp(logpmf(k, p, loc))


def cdf(k: Any, p: Any) -> Any:
    """Probability of values up to k."""
    k, p = promote_inexact("bernoulli.cdf", k, p)
    wrong = pnp.isnan(k) | pnp.isnan(p) | (p < 0) | (p > 1)
    return pnp.where(wrong, np.nan, pnp.where(k < 0, 0, pnp.where(k < 1, 1 - p, 1)))


def ppf(q: Any, p: Any) -> Any:
    """The smallest k whose `cdf` is q or more; NaN outside [0, 1]."""
    q, p = promote_inexact("bernoulli.ppf", q, p)
    wrong = ~((q >= 0) & (q <= 1) & (p >= 0) & (p <= 1))
    return pnp.where(wrong, np.nan, pnp.where(q <= 1 - p, 0, 1).astype(q.dtype))
