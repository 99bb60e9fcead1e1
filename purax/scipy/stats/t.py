# SPDX-License-Identifier: Apache-2.0
"""Student's distribution of `df` degrees of freedom, around `loc` with scale `scale`.

Operands are real and broadcast; results have their common shape and inexact dtype.

The density is (1 + y^2 / df)^(-(df + 1) / 2) / (sqrt(df) B(1/2, df / 2) scale).

Parameters
----------
x : real[...]
    Where to evaluate.
df : real[...]
    Positive.
loc, scale : real[...]
    Shift and stretch: y = (x - loc) / scale.
"""

from __future__ import annotations

from typing import Any

from purax import numpy as pnp
from purax.numpy.promotion import promote_inexact
from purax.scipy import special
from purax.scipy.stats import _common as common

__all__ = ["logpdf", "pdf"]


def logpdf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Logarithm of the density."""
    x, df, loc, scale = promote_inexact("t.logpdf", x, df, loc, scale)
    y = common.unit(x, loc, scale)
    constant = -special.betaln(0.5, df / 2) - 0.5 * pnp.log(df) - pnp.log(scale)
    return constant - (df + 1) / 2 * pnp.log1p(y * y / df)


def pdf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Density."""
    return pnp.exp(logpdf(x, df, loc, scale))
