# SPDX-License-Identifier: Apache-2.0
"""The multinomial distribution: counts of outcomes in n trials.

Results have the inexact dtype of the operands, and the shape of `x` without its last axis.

The probability of counts is n! times the product of p_i^x_i / x_i!.

Parameters
----------
x : real[..., k]
    Counts.
n : int[...]
    Trials: the probability is 0 unless the counts add up to it.
p : float[..., k]
    Probabilities of the outcomes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from purax import numpy as pnp
from purax.numpy.promotion import check_arraylike, promote_dtypes_inexact
from purax.scipy import special

__all__ = ["logpmf", "pmf"]


def logpmf(x: Any, n: Any, p: Any) -> Any:
    """Logarithm of the probability of counts."""
    check_arraylike("multinomial.logpmf", x, n, p)
    (p,) = promote_dtypes_inexact(p)
    x, n = (pnp.asarray(v).astype(p.dtype) for v in (x, n))
    terms = special.xlogy(x, p) - special.gammaln(x + 1)
    value = special.gammaln(n + 1) + pnp.sum(terms, axis=-1)
    return pnp.where(pnp.sum(x, axis=-1) == n, value, -np.inf)


def pmf(x: Any, n: Any, p: Any) -> Any:
    """Probability of counts; parameters as in `logpmf`."""
    return pnp.exp(logpmf(x, n, p))
