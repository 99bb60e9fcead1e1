# SPDX-License-Identifier: Apache-2.0
"""Decompositions of matrices (last two axes) by NumPy's names: what `purax.numpy.linalg` offers of them.

Factors have the inexact dtype of the matrices, real where they are singular values or eigenvalues of Hermitian matrices.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from purax import dtypes
from purax.numpy.arithmetic import multiply
from purax.numpy.comparison import equal
from purax.numpy.elementwise import abs as absolute
from purax.numpy.elementwise import sign
from purax.numpy.indexing import take_along_axis
from purax.numpy.norms import adjoint, matrices_of, widened
from purax.numpy.selection import where
from purax.numpy.shape import broadcast_to, expand_dims
from purax.numpy.shape import matrix_transpose as matrix_transpose
from purax.numpy.sorting import argsort
from purax.primitives import linalg as factors

__all__ = [
    "EigResult",
    "EighResult",
    "QRResult",
    "SVDResult",
    "cholesky",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "qr",
    "svd",
    "svdvals",
]


class EigResult(NamedTuple):
    """Result of `eig`."""

    eigenvalues: Any
    eigenvectors: Any


class EighResult(NamedTuple):
    """Result of `eigh`."""

    eigenvalues: Any
    eigenvectors: Any


class QRResult(NamedTuple):
    """Result of `qr`."""

    Q: Any
    R: Any


class SVDResult(NamedTuple):
    """Result of `svd`."""

    U: Any
    S: Any
    Vh: Any


def rows_scaled(x: Any, values: Any) -> Any:
    """Columns of `x` scaled by `values`."""
    return multiply(x, expand_dims(values, -2))


def cholesky(a: Any, *, upper: bool = False, symmetrize_input: bool = True) -> Any:
    """Triangular factor of Hermitian positive definite matrices: a = L L^H, or U^H U if `upper`; NaN for others.

    Parameters
    ----------
    a : array [..., n, n]
    upper : bool
    symmetrize_input : bool
        Use the Hermitian part of `a`; else its lower (upper) triangle alone.

    Returns
    -------
    array [..., n, n]
    """
    a = matrices_of("linalg.cholesky", a, True)

    def factor(x: Any) -> Any:
        low = factors.cholesky(adjoint(x) if upper else x, symmetrize_input=symmetrize_input)
        return adjoint(low) if upper else low

    return widened(factor, a)


def qr(a: Any, mode: str = "reduced") -> Any:
    """QR factorization of matrices [..., m, n].

    Parameters
    ----------
    a : array
    mode : "reduced", "complete", "r" or "raw"

    Returns
    -------
    QRResult(Q, R), for "r" R alone, for "raw" the transposed packed reflectors and their factors

    Raises
    ------
    ValueError
        Another mode.
    """
    a = matrices_of("linalg.qr", a)
    if mode == "raw":
        packed, taus = factors.geqrf(a)
        return QRResult(matrix_transpose(packed), taus)
    if mode not in ("reduced", "r", "full", "complete"):
        raise ValueError(f"Unsupported QR decomposition mode '{mode}'")
    q, r = widened(lambda x: factors.qr(x, full_matrices=mode in ("full", "complete")), a)
    return r if mode == "r" else QRResult(q, r)


def svd(
    a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False,
    subset_by_index: tuple[int, int] | None = None,
) -> Any:  # fmt: skip
    """Singular value decomposition of matrices [..., m, n].

    Parameters
    ----------
    a : array
    full_matrices, compute_uv : bool
    hermitian : bool
        `a` is Hermitian: the values come from its eigenvalues.
    subset_by_index : (int, int), optional
        First and end (exclusive) of the values to return.

    Returns
    -------
    SVDResult(U, S, Vh), or S alone without `compute_uv`
    """
    a = matrices_of("linalg.svd", a, hermitian)

    def decompose(x: Any) -> Any:
        if not hermitian:
            found = factors.svd(x, full_matrices=full_matrices, compute_uv=compute_uv, subset_by_index=subset_by_index)
            return SVDResult(*found) if compute_uv else found
        v, w = factors.eigh(x)
        s = absolute(w)
        order = argsort(s, axis=-1, descending=True)
        s = take_along_axis(s, order, axis=-1)
        if not compute_uv:
            return s
        columns = broadcast_to(expand_dims(order, -2), v.shape)
        v, signs = take_along_axis(v, columns, axis=-1), take_along_axis(sign(w), order, axis=-1)
        signs = where(equal(signs, 0), 1, signs)
        return SVDResult(v, s, adjoint(rows_scaled(v, signs)))

    return widened(decompose, a)


def svdvals(x: Any, /) -> Any:
    """Singular values of matrices.

    Parameters
    ----------
    x : array [..., m, n]

    Returns
    -------
    float[..., min(m, n)]
        In decreasing order.
    """
    return svd(x, compute_uv=False)


def eigh(a: Any, UPLO: str | None = None, symmetrize_input: bool = True) -> EighResult:
    """Ascending eigenvalues and eigenvectors (columns) of Hermitian matrices [..., n, n].

    Parameters
    ----------
    a : array
    UPLO : "L" or "U", optional
        Triangle that is read when `symmetrize_input` is off.
    symmetrize_input : bool
        Use the Hermitian part of `a`; else one triangle alone.

    Returns
    -------
    EighResult(eigenvalues float[..., n], eigenvectors [..., n, n])

    Raises
    ------
    ValueError
        Another `UPLO`.
    """
    if UPLO not in (None, "L", "U"):
        raise ValueError(f"eigh: UPLO names a triangle, 'L' or 'U', got {UPLO!r}")
    a = matrices_of("linalg.eigh", a, True)
    v, w = widened(lambda x: factors.eigh(x, lower=UPLO != "U", symmetrize_input=symmetrize_input), a)
    return EighResult(w, v)


def eigvalsh(a: Any, UPLO: str | None = "L", *, symmetrize_input: bool = True) -> Any:
    """Eigenvalues of Hermitian matrices.

    Parameters
    ----------
    a : array [..., n, n]
    UPLO : "L" or "U"
        Triangle that is read when `symmetrize_input` is off.
    symmetrize_input : bool
        Use the Hermitian part of `a`.

    Returns
    -------
    float[..., n]
        Ascending.

    Raises
    ------
    ShapeError
        The matrices are not square.
    """
    return eigh(a, UPLO, symmetrize_input).eigenvalues


def eig(a: Any) -> EigResult:
    """Eigenvalues and right eigenvectors of matrices.

    Parameters
    ----------
    a : array [..., n, n]

    Returns
    -------
    EigResult(eigenvalues complex[..., n], eigenvectors complex[..., n, n])
        The vectors are columns of unit length. Their derivatives keep the length, and the largest entry real.

    Raises
    ------
    ShapeError
        The matrices are not square.
    """
    a = _wide(matrices_of("linalg.eig", a, True))
    w, v = factors.eig(a, compute_left_eigenvectors=False)
    return EigResult(w, v)


def eigvals(a: Any) -> Any:
    """Eigenvalues of matrices.

    Parameters
    ----------
    a : array [..., n, n]

    Returns
    -------
    complex[..., n]
        In no particular order.

    Raises
    ------
    ShapeError
        The matrices are not square.
    """
    a = _wide(matrices_of("linalg.eigvals", a, True))
    return factors.eig(a, compute_left_eigenvectors=False, compute_right_eigenvectors=False)[0]


def _wide(x: Any) -> Any:
    return x.astype(np.float32) if dtypes.is_float(x.aval.dtype) and x.aval.dtype.itemsize < 4 else x
