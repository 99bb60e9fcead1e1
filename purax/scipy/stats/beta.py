# SPDX-License-Identifier: Apache-2.0
"""The beta distribution on [loc, loc + scale] with exponents a - 1 and b - 1.

Operands are real and broadcast; results have their common shape and inexact dtype.

The density is y^(a - 1) (1 - y)^(b - 1) / (B(a, b) scale) for 0 <= y <= 1.

Parameters
----------
x : real[...]
    Where to evaluate.
a, b : real[...]
    Positive.
loc, scale : real[...]
    Shift and stretch: y = (x - loc) / scale.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from purax import numpy as pnp
from purax.numpy.promotion import promote_inexact
from purax.scipy import special
from purax.scipy.stats import _common as common

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]


def logpdf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Logarithm of the density."""
    x, a, b, loc, scale = promote_inexact("beta.logpdf", x, a, b, loc, scale)
    y = common.unit(x, loc, scale)
    valid = (y >= 0) & (y <= 1)
    value = common.inside(valid, lambda y: special.xlogy(a - 1, y) + special.xlog1py(b - 1, -y), y, 0.5)
    return pnp.where((a > 0) & (b > 0), value - special.betaln(a, b) - pnp.log(scale), np.nan)


def pdf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Density."""
    return pnp.exp(logpdf(x, a, b, loc, scale))


def cdf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Probability of values up to x."""
    x, a, b, loc, scale = promote_inexact("beta.cdf", x, a, b, loc, scale)
    y = common.unit(x, loc, scale)
    return special.betainc(a, b, pnp.clip(y, 0, 1))


def logcdf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Logarithm of `cdf`."""
    return pnp.log(cdf(x, a, b, loc, scale))


def sf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Probability of values above x."""
    x, a, b, loc, scale = promote_inexact("beta.sf", x, a, b, loc, scale)
    y = common.unit(x, loc, scale)
    return special.betainc(b, a, pnp.clip(1 - y, 0, 1))


def logsf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Logarithm of `sf`."""
    return pnp.log(sf(x, a, b, loc, scale))
