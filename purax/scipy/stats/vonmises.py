# SPDX-License-Identifier: Apache-2.0
"""Von Mises' distribution of angles around 0 with concentration kappa; NaN for negative kappa.

Operands are real and broadcast; results have their common shape and inexact dtype.

The density is exp(kappa cos(x)) / (2 pi I_0(kappa)).

Parameters
----------
x : real[...]
    Where to evaluate.
kappa : real[...]
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from purax import numpy as pnp
from purax.numpy.promotion import promote_inexact
from purax.scipy import special

__all__ = ["logpdf", "pdf"]


def logpdf(x: Any, kappa: Any) -> Any:
    """Logarithm of the density."""
    x, kappa = promote_inexact("vonmises.logpdf", x, kappa)
    value = kappa * (pnp.cos(x) - 1) - math.log(2 * math.pi) - pnp.log(special.i0e(kappa))
    return pnp.where(kappa >= 0, value, np.nan)


def pdf(x: Any, kappa: Any) -> Any:
    """Density."""
    return pnp.exp(logpdf(x, kappa))
