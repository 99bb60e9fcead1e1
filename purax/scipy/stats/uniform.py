# SPDX-License-Identifier: Apache-2.0
"""The uniform distribution on [loc, loc + scale].

Operands are real and broadcast; results have their common shape and inexact dtype.

The density is 1 / scale for 0 <= y <= 1.

Parameters
----------
x : real[...]
    Where to evaluate.
q : real[...]
    Probabilities.
loc, scale : real[...]
    Shift and stretch: y = (x - loc) / scale.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from purax import numpy as pnp
from purax.numpy.promotion import promote_inexact
from purax.scipy.stats import _common as common

__all__ = ["cdf", "logpdf", "pdf", "ppf"]


def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Logarithm of the density."""
    x, loc, scale = promote_inexact("uniform.logpdf", x, loc, scale)
    y = common.unit(x, loc, scale)
    return pnp.where((y >= 0) & (y <= 1), -pnp.log(scale), common.outside(y))


def pdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Density."""
    return pnp.exp(logpdf(x, loc, scale))


def cdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Probability of values up to x."""
    x, loc, scale = promote_inexact("uniform.cdf", x, loc, scale)
    y = common.unit(x, loc, scale)
    return pnp.clip(y, 0, 1)


def ppf(q: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The inverse of `cdf`; NaN outside [0, 1]."""
    q, loc, scale = promote_inexact("uniform.ppf", q, loc, scale)
    return pnp.where((q >= 0) & (q <= 1), loc + scale * q, np.nan)
