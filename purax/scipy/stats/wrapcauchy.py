# SPDX-License-Identifier: Apache-2.0
"""Cauchy's distribution wrapped around the circle, on [0, 2 pi], with 0 < c < 1.

Operands are real and broadcast; results have their common shape and inexact dtype.

The density is (1 - c^2) / (2 pi (1 + c^2 - 2 c cos(x))).

Parameters
----------
x : real[...]
    Where to evaluate.
c : real[...]
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from purax import numpy as pnp
from purax.numpy.promotion import promote_inexact
from purax.scipy.stats import _common as common

__all__ = ["logpdf", "pdf"]


def logpdf(x: Any, c: Any) -> Any:
    """Logarithm of the density."""
    x, c = promote_inexact("wrapcauchy.logpdf", x, c)
    value = pnp.log1p(-c * c) - math.log(2 * math.pi) - pnp.log1p(c * c - 2 * c * pnp.cos(x))
    inside = (x >= 0) & (x <= 2 * math.pi)
    return pnp.where((c > 0) & (c < 1), pnp.where(inside, value, common.outside(x)), np.nan)


def pdf(x: Any, c: Any) -> Any:
    """Density."""
    return pnp.exp(logpdf(x, c))
