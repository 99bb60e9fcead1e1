# SPDX-License-Identifier: Apache-2.0
"""Updates of symmetric matrices by a product with its own transpose."""

from __future__ import annotations

from typing import Any

import numpy as np

from purax import errors
from purax.core.aval import ShapedArray, array_aval
from purax.core.primitive import Undefined
from purax.core.trace import aval_of
from purax.lazy import lazy
from purax.primitives import base, elementwise, joining, lapack, reflecting, shape, solving, spectral
from purax.primitives.lapack import MatrixFunction, matmul, transposed

__all__ = ["cholesky_update", "symmetric_product"]

scipy_linalg = lazy("scipy.linalg", "the reference of a factorization needs SciPy")


class CholeskyUpdate(MatrixFunction):
    """The upper triangular R' with R'^T R' = R^T R + w w^T, its diagonal not negative."""

    transpose = Undefined("it is not linear")

    ranks = (2, 1)

    def infer(self, r: ShapedArray, w: ShapedArray) -> tuple[ShapedArray, ...]:
        """The type of R."""
        lapack.check_matrix(r, True)
        if w.shape != r.shape[:-1] or w.dtype != r.dtype:
            raise errors.ShapeError(
                f"the vector must have the shape {r.shape[:-1]} and dtype {r.dtype} of a row of the matrix, got {w.dtype}{w.shape}"
            )
        return (r.strip_weak(),)

    def reference(self, r: Any, w: Any) -> tuple[np.ndarray, ...]:
        """SciPy's qr of R with w as one more row."""

        def update(r: Any, w: Any) -> Any:
            found = scipy_linalg.qr(np.vstack([r, w]), mode="r")[0][: len(w)]
            return found * np.where(np.diagonal(found) < 0, -1, 1)[:, None]

        return lapack.numpy_batched(update, r, w, cores=(2, 1), outs=[array_aval(r.shape, r.dtype)])

    def jvp(self, primals: Any, tangents: Any) -> Any:
        """dR' = Phi(R'^-T dS R'^-1) R' with dS the tangent of R^T R + w w^T, Phi the upper triangle with half the diagonal."""
        (r, w), (dr, dw) = primals, tangents
        out = self.bind1(r, w)
        ds = None
        for x, dx in ((r, dr), (self._row(w), None if dw is None else self._row(dw))):
            if dx is not None:
                part = matmul(transposed(x), dx)
                ds = base.add_tangents(ds, elementwise.add(part, transposed(part)))
        if ds is None:
            return (out,), (None,)
        inner = solving.triangular_solve(out, ds, left_side=True, lower=False, transpose_a=True)
        inner = solving.triangular_solve(out, inner, left_side=False, lower=False)
        halved = elementwise.select(lapack.diagonal_mask(aval_of(inner)), spectral.half(inner), inner)
        return (out,), (matmul(lapack.triangle(halved, False), out),)

    @staticmethod
    def _row(w: Any) -> Any:
        return shape.expand_dims(w, (aval_of(w).ndim - 1,))

    def lower(self, b: Any, ins: Any, outs: Any) -> list[Any]:
        """Reflections bring R, with w as one more row, to triangular form."""

        def update(r: Any, w: Any) -> Any:
            rank = aval_of(r).ndim
            _, found = reflecting.qr(joining.concatenate([r, self._row(w)], rank - 2), full_matrices=False)
            entries = lapack.diagonal(found)
            negative = elementwise.lt(entries, shape.full_like(entries, 0))
            signs = elementwise.select(negative, shape.full_like(entries, -1), shape.full_like(entries, 1))
            return elementwise.mul(found, spectral.column_of(signs, found))

        return b.inline(update, ins)


class SymmetricProduct(MatrixFunction):
    """alpha a a^T + beta c."""

    transpose = Undefined("it is not linear")

    def infer(self, a: ShapedArray, c: ShapedArray, *, alpha: float, beta: float) -> tuple[ShapedArray, ...]:
        """The type of c."""
        lapack.check_matrix(a)
        if c.shape != (*a.shape[:-1], a.shape[-2]) or c.dtype != a.dtype:
            raise errors.ShapeError(
                f"takes a[..., n, k] and c[..., n, n] of one dtype, got {a.dtype}{a.shape} and {c.dtype}{c.shape}"
            )
        return (c.strip_weak(),)

    def reference(self, a: Any, c: Any, *, alpha: float, beta: float) -> tuple[np.ndarray, ...]:
        """By its definition."""
        return (np.asarray(alpha * (a @ np.swapaxes(a, -1, -2)) + beta * c, a.dtype),)

    def jvp(self, primals: Any, tangents: Any, *, alpha: float, beta: float) -> Any:
        """alpha (da a^T + a da^T) + beta dc."""
        (a, c), (da, dc) = primals, tangents
        change = None
        if da is not None:
            part = matmul(da, transposed(a))
            both = elementwise.add(part, transposed(part))
            change = elementwise.mul(both, shape.full_like(both, alpha))
        if dc is not None:
            change = base.add_tangents(change, elementwise.mul(dc, shape.full_like(dc, beta)))
        return (self.bind1(a, c, alpha=alpha, beta=beta),), (change,)

    def lower(self, b: Any, ins: Any, outs: Any, *, alpha: float, beta: float) -> list[Any]:
        """A product of matrices and a sum."""

        def combine(a: Any, c: Any) -> Any:
            product = matmul(a, transposed(a))
            return elementwise.add(
                elementwise.mul(product, shape.full_like(product, alpha)),
                elementwise.mul(c, shape.full_like(c, beta)),
            )

        return b.inline(combine, ins)


cholesky_update_p = CholeskyUpdate("cholesky_update")
symmetric_product_p = SymmetricProduct("symmetric_product")


def cholesky_update(r_matrix: Any, w_vector: Any) -> Any:
    """The Cholesky factor of a matrix to which a product w w^T is added.

    Parameters
    ----------
    r_matrix : float[..., n, n]
        Upper triangular R.
    w_vector : float[..., n]

    Returns
    -------
    float[..., n, n]
        Upper triangular R' with R'^T R' = R^T R + w w^T.
    """
    return cholesky_update_p.bind1(r_matrix, w_vector)


def symmetric_product(
    a_matrix: Any, c_matrix: Any, *, alpha: float = 1.0, beta: float = 0.0, symmetrize_output: bool = False
) -> Any:
    """alpha a a^T + beta c.

    Parameters
    ----------
    a_matrix : inexact[..., n, k]
    c_matrix : inexact[..., n, n]
        Symmetric.
    alpha, beta : float
    symmetrize_output : bool
        Make the result exactly symmetric; else only its lower triangle counts.

    Returns
    -------
    inexact[..., n, n]
    """
    out = symmetric_product_p.bind1(a_matrix, c_matrix, alpha=float(alpha), beta=float(beta))
    if not symmetrize_output:
        return out
    strict = lapack.triangle(out, True, -1)
    return elementwise.add(lapack.triangle(out, True), transposed(strict))
