# SPDX-License-Identifier: Apache-2.0
"""What the distributions share: standardized variables and logarithms of differences."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from purax import numpy as pnp

__all__ = ["inside", "log1mexp", "outside", "unit"]


def unit(x: Any, loc: Any, scale: Any) -> Any:
    """(x - loc) / scale."""
    return (x - loc) / scale


def inside(mask: Any, formula: Any, y: Any, safe: float) -> Any:
    """`formula(y)` where the mask holds, without derivative elsewhere: there it is given `safe`, and `outside` is the value."""
    return pnp.where(mask, formula(pnp.where(mask, y, safe)), outside(y))


def outside(y: Any) -> Any:
    """The logarithm of the density of numbers that lie outside; NaN for NaN, which lies nowhere."""
    return pnp.where(pnp.isnan(y), np.nan, -np.inf)


def log1mexp(x: Any) -> Any:
    """log(1 - exp(-x)) for x >= 0 (Maechler, 2012)."""
    small = x < math.log(2)
    low, high = pnp.where(small, x, 1), pnp.where(small, 1, x)
    return pnp.where(small, pnp.log(-pnp.expm1(-low)), pnp.log1p(-pnp.exp(-high)))
