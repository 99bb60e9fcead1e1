# SPDX-License-Identifier: Apache-2.0
"""The geometric distribution: trials of probability p until the first success.

Operands are real and broadcast; results have their common shape and inexact dtype.

The probability of k is p (1 - p)^(y - 1) for y >= 1.

Parameters
----------
k : real[...]
    Trials up to and with the first success.
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


def logpmf(k: Any, p: Any, loc: Any = 0) -> Any:
    """Logarithm of the probability of k."""
    k, p, loc = promote_inexact("geom.logpmf", k, p, loc)
    y = k - loc
    valid = y > 0
    safe = pnp.where(valid, y, 1)
    return pnp.where(valid, special.xlog1py(safe - 1, -p) + pnp.log(p), common.outside(y))


def pmf(k: Any, p: Any, loc: Any = 0) -> Any:
    """Probability of k."""
    return pnp.exp(logpmf(k, p, loc))
