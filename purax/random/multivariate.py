# SPDX-License-Identifier: Apache-2.0
"""Random vectors and matrices that need factorizations."""

from __future__ import annotations

import operator
from typing import Any

from purax import dtypes
from purax import numpy as pnp
from purax.core.trace import aval_of
from purax.lazy import lazy
from purax.numpy.promotion import promote_dtypes_inexact
from purax.primitives import elementwise
from purax.primitives import shape as shapes
from purax.random.continuous import _normal
from purax.random.draw import float_dtype, placed, sampler
from purax.random.keys import single_key

__all__ = ["multivariate_normal", "orthogonal"]

linalg = lazy("purax.numpy.linalg")


@sampler
def _multivariate_normal(key: Any, mean: Any, cov: Any, *, shape: Any, dtype: Any, method: str) -> Any:
    if method == "cholesky":
        factor = linalg.cholesky(cov)
    elif method == "eigh":
        values, vectors = linalg.eigh(cov)
        factor = vectors * elementwise.sqrt(values[..., None, :])
    else:
        vectors, values, _ = linalg.svd(cov)
        factor = vectors * elementwise.sqrt(values[..., None, :])
    drawn = _normal.core(key, shape=(*shape, aval_of(mean).shape[-1]), dtype=dtype)
    moved = pnp.einsum("...ij,...j->...i", factor, drawn)
    return shapes.broadcast_to(mean, aval_of(moved).shape) + moved


def multivariate_normal(
    key: Any,
    mean: Any,
    cov: Any,
    shape: Any = None,
    dtype: Any = None,
    method: str = "cholesky",
    *,
    out_sharding: Any = None,
) -> Any:
    """Draw vectors from the normal distribution with given mean and covariance.

    Parameters
    ----------
    key : key[] or uint32[2]
    mean : float[..., n]
    cov : float[..., n, n]
        Symmetric, positive semidefinite; positive definite for "cholesky".
    shape : sequence of int, optional
        Of the array of vectors; the leading axes of `mean` and `cov` broadcast to it, and give the default.
    dtype : floating dtype, optional
        Default: that of `mean` and `cov`.
    method : "cholesky", "eigh" or "svd"
        Which factor of `cov` is used.
    out_sharding : sharding, optional
        Layout of the result over devices.

    Returns
    -------
    floating[*shape, n]

    Raises
    ------
    ValueError
        Shapes do not fit, or an unknown method.
    """
    key = single_key("multivariate_normal", key)
    mean, cov = promote_dtypes_inexact(mean, cov)
    if method not in ("svd", "eigh", "cholesky"):
        raise ValueError(f"multivariate_normal: method is 'svd', 'eigh' or 'cholesky', got {method!r}")
    dtype = aval_of(mean).dtype if dtype is None else float_dtype("multivariate_normal", dtype)
    if not dtypes.is_float(dtype):
        raise ValueError(f"multivariate_normal: dtype must be floating, got {dtype}")
    if mean.ndim < 1:
        raise ValueError(f"multivariate_normal: mean is of vectors, got shape {mean.shape}")
    if cov.ndim < 2:
        raise ValueError(f"multivariate_normal: cov is of matrices, got shape {cov.shape}")
    n = mean.shape[-1]
    if cov.shape[-2:] != (n, n):
        raise ValueError(
            f"multivariate_normal: means of {n} entries need matrices [..., {n}, {n}], got cov of shape {cov.shape}"
        )
    common = shapes.broadcast_shapes(mean.shape[:-1], cov.shape[:-2])
    shape = common if shape is None else shapes.canonical_shape(shape)
    if shapes.broadcast_shapes(common, shape) != shape:
        raise ValueError(
            f"multivariate_normal: leading axes {common} of mean and cov do not broadcast to shape {shape}"
        )
    return placed(_multivariate_normal(key, mean, cov, shape=shape, dtype=dtype, method=method), out_sharding)


@sampler
def _orthogonal(key: Any, *, n: int, m: int, shape: Any, dtype: Any) -> Any:
    """Mezzadri (2007): the Q of a normal matrix, its columns turned so that the diagonal of R is positive."""
    q, r = linalg.qr(_normal.core(key, shape=(*shape, max(n, m), min(n, m)), dtype=dtype))
    x = q * pnp.expand_dims(pnp.sign(pnp.diagonal(r, axis1=-2, axis2=-1)), -2)
    return pnp.swapaxes(x, -1, -2) if n < m else x


def orthogonal(
    key: Any, n: int, shape: Any = (), dtype: Any = None, m: int | None = None, *, out_sharding: Any = None
) -> Any:
    """Draw orthogonal (complex: unitary) matrices uniformly.

    Parameters
    ----------
    key : key[] or uint32[2]
    n : int
        Rows.
    shape : sequence of int
    dtype : floating or complex dtype, optional
    m : int, optional
        Columns; default `n`.
    out_sharding : sharding, optional
        Layout of the result over devices.

    Returns
    -------
    dtype[*shape, n, m]
        With orthonormal columns if n >= m, else with orthonormal rows.
    """
    key = single_key("orthogonal", key)
    dtype, shape = float_dtype("orthogonal", dtype, complex_too=True), shapes.canonical_shape(shape)
    rows = operator.index(n)
    drawn = _orthogonal(key, n=rows, m=rows if m is None else operator.index(m), shape=shape, dtype=dtype)
    return placed(drawn, out_sharding)
