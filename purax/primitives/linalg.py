# SPDX-License-Identifier: Apache-2.0
"""The names of `lax.linalg`: factorizations, systems of equations, and small functions composed of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from purax.core.trace import aval_of
from purax.primitives import cast, elementwise, factoring, lapack, reduction, shape, spectral
from purax.primitives.determinant import det, det_p, slogdet, slogdet_p
from purax.primitives.factoring import (
    cholesky,
    cholesky_p,
    lu,
    lu_p,
    lu_pivots_to_permutation,
    lu_pivots_to_permutation_p,
)  # fmt: skip
from purax.primitives.reflecting import (
    geqp3,
    geqp3_p,
    geqrf,
    geqrf_p,
    hessenberg,
    hessenberg_p,
    householder_product,
    householder_product_p,
    ormqr,
    ormqr_p,
    qr,
    qr_p,
    tridiagonal,
    tridiagonal_p,
)  # fmt: skip
from purax.primitives.solving import (
    factored_solve_p,
    linear_solve,
    triangular_solve,
    triangular_solve_p,
    tridiagonal_solve,
    tridiagonal_solve_p,
)
from purax.primitives.spectral import (
    EighImplementation,
    EigImplementation,
    SvdAlgorithm,
    eig,
    eig_p,
    eigh,
    eigh_p,
    schur,
    schur_p,
    svd,
    svd_p,
)  # fmt: skip
from purax.primitives.updating import cholesky_update, cholesky_update_p, symmetric_product, symmetric_product_p

__all__ = [
    "EigImplementation", "EighImplementation", "SvdAlgorithm", "cholesky", "cholesky_p", "cholesky_update", "cholesky_update_p", "det", "det_p", "eig",
    "eig_p", "eigh", "eigh_p", "factored_solve_p", "geqp3", "geqp3_p", "geqrf", "geqrf_p", "hessenberg", "hessenberg_p", "householder_product",
    "householder_product_p", "linear_solve", "lu", "lu_p", "lu_pivots_to_permutation", "lu_pivots_to_permutation_p", "ormqr", "ormqr_p", "qdwh",
    "qr", "qr_p", "schur", "schur_p", "slogdet", "slogdet_p", "svd", "svd_p", "symmetric_product", "symmetric_product_p", "triangular_solve",
    "triangular_solve_p", "tridiagonal", "tridiagonal_p", "tridiagonal_solve", "tridiagonal_solve_p",
]  # fmt: skip


def qdwh(
    x: Any, *, is_hermitian: bool = False, max_iterations: int | None = None, eps: float | None = None,
    dynamic_shape: tuple[int, int] | None = None,
) -> tuple[Any, Any, Any, Any]:  # fmt: skip
    """Polar decomposition x = u h by singular values.

    Parameters
    ----------
    x : inexact[m, n], m >= n
    dynamic_shape : (int, int), optional
        Rows and columns of `x` that count; they may be traced. The others are taken for zeros.
    is_hermitian, max_iterations, eps
        Of no effect: the method is direct.

    Returns
    -------
    u : inexact[m, n]
        Orthonormal columns; of a matrix of lower rank the partial isometry that vanishes where x does.
    h : inexact[n, n]
        Positive semidefinite.
    iterations : int32[], 1
    converged : bool[]
        Whether all is finite.
    """
    if dynamic_shape is not None:
        counts = zip(dynamic_shape, range(2), strict=True)
        rows, columns = (
            elementwise.lt(
                shape.broadcasted_iota(np.int32, aval_of(x).shape, axis), cast.convert_element_type(n, np.int32)
            )
            for n, axis in counts
        )
        x = elementwise.select(elementwise.bitwise_and(rows, columns), x, shape.full_like(x, 0))
    u, s, vh = spectral.svd(x, full_matrices=False)
    unitary = lapack.matmul(lapack.columns_scaled(u, elementwise.gt(s, shape.full_like(s, 0))), vh)
    positive = factoring.symmetrized(lapack.matmul(lapack.adjoint(unitary), x))
    finite = reduction.reduce_and(elementwise.is_finite(s), tuple(range(aval_of(s).ndim)))
    return unitary, positive, cast.convert_element_type(shape.full((), 1, np.int32), np.int32), finite
