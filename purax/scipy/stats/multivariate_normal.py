# SPDX-License-Identifier: Apache-2.0
"""The normal distribution of vectors.

Results have the inexact dtype of the operands, and the shape of `x` without its last axis.

The density is exp(-(x - mean)^T cov^-1 (x - mean) / 2) / sqrt(det(2 pi cov)).

Parameters
----------
x : float[..., n]
mean : float[] or float[..., n]
cov : float[] or float[..., n, n]
    Positive definite; a scalar times the identity.
"""

from __future__ import annotations

import math
from typing import Any

from purax import numpy as pnp
from purax.numpy.promotion import check_arraylike, promote_dtypes_inexact
from purax.scipy import linalg

__all__ = ["logpdf", "pdf"]


def logpdf(x: Any, mean: Any, cov: Any, allow_singular: None = None) -> Any:
    """Logarithm of the density.

    Parameters
    ----------
    allow_singular : None

    Returns
    -------
    float[...]

    Raises
    ------
    ValueError
        `allow_singular` is given, or `cov` is not of the size of the vectors.
    """
    if allow_singular is not None:
        raise ValueError("multivariate_normal.logpdf takes no allow_singular: singular covariances have no density")
    check_arraylike("multivariate_normal.logpdf", x, mean, cov)
    x, mean, cov = promote_dtypes_inexact(x, mean, cov)
    if mean.ndim == 0 and cov.ndim == 0:
        return -0.5 * (x - mean) ** 2 / cov - 0.5 * (math.log(2 * math.pi) + pnp.log(cov))
    y = pnp.atleast_1d(x - mean)
    n = y.shape[-1]
    if cov.ndim == 0:
        return -0.5 * pnp.sum(y * y, axis=-1) / cov - n / 2 * (math.log(2 * math.pi) + pnp.log(cov))
    if cov.ndim < 2 or cov.shape[-2:] != (n, n):
        raise ValueError(f"multivariate_normal.logpdf got incompatible shapes: {n} variables and cov {cov.shape}")
    low = linalg.cholesky(cov, lower=True)
    white = linalg.solve_triangular(low, y[..., None], lower=True)[..., 0]
    logdet = pnp.sum(pnp.log(pnp.diagonal(low, axis1=-2, axis2=-1)), axis=-1)
    return -0.5 * pnp.sum(white * white, axis=-1) - n / 2 * math.log(2 * math.pi) - logdet


def pdf(x: Any, mean: Any, cov: Any) -> Any:
    """Density; parameters as in `logpdf`."""
    return pnp.exp(logpdf(x, mean, cov))
