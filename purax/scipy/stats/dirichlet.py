# SPDX-License-Identifier: Apache-2.0
"""Dirichlet's distribution of vectors that sum to 1.

Results have the inexact dtype of the operands, and the shape of `x` without its first axis.

The density is gamma(sum alpha_i) times the product of x_i^(alpha_i - 1) / gamma(alpha_i).

Parameters
----------
x : float[k, ...] or float[k - 1, ...]
    Vectors along the first axis; the last entry may be left out.
alpha : float[k]
    Positive.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from purax import numpy as pnp
from purax.numpy.promotion import check_arraylike, promote_dtypes_inexact
from purax.scipy import special

__all__ = ["logpdf", "pdf"]


def logpdf(x: Any, alpha: Any) -> Any:
    """Logarithm of the density; -inf where the vector is not positive or does not sum to 1.

    Raises
    ------
    ValueError
        `alpha` is no vector, or `x` has neither as many entries nor one fewer.
    """
    check_arraylike("dirichlet.logpdf", x, alpha)
    x, alpha = promote_dtypes_inexact(x, alpha)
    if alpha.ndim != 1:
        raise ValueError(f"dirichlet: alpha is a vector, got shape {alpha.shape}")
    if x.ndim < 1 or x.shape[0] not in (alpha.shape[0], alpha.shape[0] - 1):
        raise ValueError(
            f"dirichlet: x has an entry for each of the {alpha.shape[0]} weights, of which the last may be left out, got shape {x.shape}"
        )
    if x.shape[0] != alpha.shape[0]:
        x = pnp.concatenate([x, 1 - pnp.sum(x, axis=0, keepdims=True)], axis=0)
    alpha = pnp.reshape(alpha, (-1,) + (1,) * (x.ndim - 1))
    valid = pnp.all(x > 0, axis=0) & (pnp.abs(pnp.sum(x, axis=0) - 1) < 1e-6)
    constant = pnp.sum(special.gammaln(alpha), axis=0) - special.gammaln(pnp.sum(alpha, axis=0))
    value = pnp.sum(special.xlogy(alpha - 1, pnp.where(valid, x, 0.5)), axis=0) - constant
    return pnp.where(valid, value, -np.inf)


def pdf(x: Any, alpha: Any) -> Any:
    """Density; parameters as in `logpdf`."""
    return pnp.exp(logpdf(x, alpha))
