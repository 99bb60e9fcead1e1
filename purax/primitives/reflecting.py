# SPDX-License-Identifier: Apache-2.0
"""Factorizations of matrices by reflections: QR, and the reduced forms that eigensolvers begin with."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from purax import dtypes, errors
from purax.core.aval import ShapedArray, array_aval
from purax.core.primitive import Undefined
from purax.core.trace import aval_of
from purax.lazy import lazy
from purax.primitives import complex as complex_parts
from purax.primitives import elementwise, factoring, joining, lapack, shape
from purax.primitives.lapack import MatrixFunction, adjoint, matmul, triangle

__all__ = ["geqp3", "geqrf", "hessenberg", "householder_product", "ormqr", "qr", "tridiagonal"]

scipy_linalg = lazy("scipy.linalg", "the reference of a factorization needs SciPy")


# --- QR -----------------------------------------------------------------------------------------------------------------------


class Geqrf(MatrixFunction):
    """QR by reflections, packed: R above, the reflectors below the diagonal; and their factors tau."""

    jvp = Undefined("differentiate qr: the packed reflectors are an intermediate form")
    transpose = Undefined("it is not linear")

    def infer(self, a: ShapedArray) -> tuple[ShapedArray, ...]:
        """The packed matrix and min(m, n) factors."""
        lapack.check_matrix(a)
        return a.strip_weak(), array_aval((*a.shape[:-2], min(a.shape[-2:])), a.dtype)

    def reference(self, a: Any) -> tuple[np.ndarray, ...]:
        """LAPACK through SciPy."""
        outs = self.infer(array_aval(a.shape, a.dtype))
        if a.size == 0:
            return np.zeros(a.shape, a.dtype), np.zeros(outs[1].shape, a.dtype)
        geqrf = scipy_linalg.get_lapack_funcs(("geqrf",), (a,))[0]
        return lapack.numpy_batched(lambda x: geqrf(x)[:2], a, cores=(2,), outs=outs)

    def lower(self, b: Any, ins: Any, outs: Any) -> list[Any]:
        """LAPACK's geqrf."""
        return self.constants(b, ins, outs) or lapack.call(
            b, "{}geqrf", ins, outs, ([True], [True, False]), None, [(0, 0)]
        )


class Geqp3(MatrixFunction):
    """QR of a with its columns permuted so that the diagonal of R decreases; operands (a, initial pivots)."""

    jvp = Undefined("differentiate qr with pivoting=True")
    transpose = Undefined("it is not linear")

    ranks = (2, 1)

    def infer(self, a: ShapedArray, pivots: ShapedArray) -> tuple[ShapedArray, ...]:
        """The packed matrix, the pivots (from 1), min(m, n) factors."""
        lapack.check_matrix(a)
        return a.strip_weak(), pivots.strip_weak(), array_aval((*a.shape[:-2], min(a.shape[-2:])), a.dtype)

    def reference(self, a: Any, pivots: Any) -> tuple[np.ndarray, ...]:
        """LAPACK through SciPy."""
        outs = self.infer(array_aval(a.shape, a.dtype), array_aval(pivots.shape, pivots.dtype))
        if a.size == 0:
            columns = np.broadcast_to(np.arange(1, a.shape[-1] + 1, dtype=np.int32), pivots.shape)
            return np.zeros(a.shape, a.dtype), columns.copy(), np.zeros(outs[2].shape, a.dtype)
        geqp3 = scipy_linalg.get_lapack_funcs(("geqp3",), (a,))[0]
        return lapack.numpy_batched(lambda x, _: geqp3(x)[:3], a, pivots, cores=(2, 1), outs=outs)

    def lower(self, b: Any, ins: Any, outs: Any) -> list[Any]:
        """LAPACK's geqp3."""
        return self.constants(b, ins, outs) or lapack.call(
            b, "{}geqp3", ins, outs, ([True, False], [True, False, False]), None, [(0, 0), (1, 1)]
        )


class HouseholderProduct(MatrixFunction):
    """The product of the reflections packed in a with factors taus: as many columns as a has."""

    jvp = Undefined("differentiate qr: the packed reflectors are an intermediate form")
    transpose = Undefined("it is not linear")

    ranks = (2, 1)

    def infer(self, a: ShapedArray, taus: ShapedArray) -> tuple[ShapedArray, ...]:
        """The type of a."""
        lapack.check_matrix(a)
        m, n = a.shape[-2:]
        if m < n:
            raise errors.ShapeError(f"takes at least as many rows as columns, got shape {a.shape}")
        if taus.shape[:-1] != a.shape[:-2] or taus.shape[-1] > n or taus.dtype != a.dtype:
            raise errors.ShapeError(f"taus of type {taus.str_short()} do not fit reflectors of type {a.str_short()}")
        return (a.strip_weak(),)

    def reference(self, a: Any, taus: Any) -> tuple[np.ndarray, ...]:
        """Reflection after reflection."""
        m, n = a.shape[-2:]

        def product(x: Any, tau: Any) -> Any:
            out = np.eye(m, dtype=x.dtype)
            for i in range(tau.shape[0]):
                v = np.concatenate([np.zeros(i), [1], x[i + 1 :, i]]).astype(x.dtype)
                out = out - tau[i] * np.outer(out @ v, v.conj())
            return out[:, :n]

        return lapack.numpy_batched(product, a, taus, cores=(2, 1), outs=(array_aval(a.shape, a.dtype),))

    def lower(self, b: Any, ins: Any, outs: Any) -> list[Any]:
        """LAPACK's orgqr or ungqr."""
        kernel = "{}ungqr" if dtypes.is_complex(outs[0].dtype) else "{}orgqr"
        if ins[1].aval.size == 0:
            return [
                b.constant(value, aval)
                for value, aval in zip(self.reference(*[np.zeros(x.shape, x.dtype) for x in ins]), outs, strict=True)
            ]
        return lapack.call(b, kernel, ins, outs, ([True, False], [True]), None, [(0, 0)])


class Ormqr(MatrixFunction):
    """c multiplied by the orthogonal matrix packed in (a, taus), from the left or right, or by its adjoint."""

    jvp = Undefined("differentiate qr: the packed reflectors are an intermediate form")
    transpose = Undefined("it is not linear")

    ranks = (2, 1, 2)

    def infer(
        self, a: ShapedArray, taus: ShapedArray, c: ShapedArray, *, left: bool, transpose: bool
    ) -> tuple[ShapedArray, ...]:
        """The type of c."""
        lapack.check_matrix(a)
        lapack.check_matrix(c)
        if c.shape[-2 if left else -1] != a.shape[-2]:
            raise errors.ShapeError(
                f"reflectors of shape {a.shape} do not act on matrices of shape {c.shape} (left={left})"
            )
        return (c.strip_weak(),)

    def reference(self, a: Any, taus: Any, c: Any, *, left: bool, transpose: bool) -> tuple[np.ndarray, ...]:
        """The product with the whole matrix."""
        m, n = a.shape[-2:]
        full = np.concatenate([a, np.zeros((*a.shape[:-1], m - n), a.dtype)], -1) if m > n else a[..., :m]
        (q,) = householder_product_p.reference(full, taus)
        q = np.conj(np.swapaxes(q, -1, -2)) if transpose else q
        return ((q @ c if left else c @ q).astype(c.dtype),)

    def lower(self, b: Any, ins: Any, outs: Any, *, left: bool, transpose: bool) -> list[Any]:
        """LAPACK's ormqr or unmqr."""
        kernel = "{}unmqr" if dtypes.is_complex(outs[0].dtype) else "{}ormqr"
        return lapack.call(
            b, kernel, ins, outs, ([True, False, True], [True]), {"left": left, "transpose": transpose}, [(0, 2)]
        )


class QR(MatrixFunction):
    """q and r of a, and with pivoting the permutation of columns p: a[:, p] = q r."""

    transpose = Undefined("it is not linear")

    def infer(self, a: ShapedArray, *, full_matrices: bool, pivoting: bool) -> tuple[ShapedArray, ...]:
        """(m, k), (k, n) and (n,), with k = m if full, else min(m, n)."""
        lapack.check_matrix(a)
        *lead, m, n = a.shape
        k = m if full_matrices else min(m, n)
        outs = array_aval((*lead, m, k), a.dtype), array_aval((*lead, k, n), a.dtype)
        return (*outs, array_aval((*lead, n), np.dtype(np.int32))) if pivoting else outs

    def reference(self, a: Any, *, full_matrices: bool, pivoting: bool) -> tuple[np.ndarray, ...]:
        """SciPy's qr."""
        outs = self.infer(array_aval(a.shape, a.dtype), full_matrices=full_matrices, pivoting=pivoting)

        def factor(x: Any) -> Any:
            return scipy_linalg.qr(x, mode="full" if full_matrices else "economic", pivoting=pivoting)

        if a.size == 0:
            q = np.broadcast_to(np.eye(*outs[0].shape[-2:], dtype=a.dtype), outs[0].shape).copy()
            r = np.zeros(outs[1].shape, a.dtype)
            return (
                (q, r, np.broadcast_to(np.arange(a.shape[-1], dtype=np.int32), outs[2].shape).copy())
                if pivoting
                else (q, r)
            )
        return lapack.numpy_batched(factor, a, cores=(2,), outs=outs)

    def jvp(self, primals: Any, tangents: Any, *, full_matrices: bool, pivoting: bool) -> Any:
        """With W the anti-Hermitian Q^H dQ whose lower triangle is that of Q^H da R^-1: dQ = Q W + ..., dR = Q^H da - W R.

        The columns that complete a full Q are free to turn among themselves; their tangent is the one without such turns.
        """
        (a,), (da,) = primals, tangents
        outs = self.bind(a, full_matrices=full_matrices, pivoting=pivoting)
        if da is None:
            return outs, (None,) * len(outs)
        q, r = outs[:2]
        *_, m, n = aval_of(a).shape
        k = min(m, n)
        if pivoting:
            da = lapack.transposed(factoring.rows_of(lapack.transposed(da), outs[2]))
        head = triangle(lapack.block_of(r, k, k), False)
        ratio = factoring.solve(head, lapack.block_of(da, m, k), left_side=False, lower=False)
        inner = matmul(adjoint(q), ratio)  # rows of all columns of q
        square = lapack.block_of(inner, k, k)
        strict = triangle(square, True, -1)
        turn = elementwise.sub(strict, adjoint(strict))
        if dtypes.is_complex(aval_of(a).dtype):
            imaginary = complex_parts.complex(
                elementwise.mul(complex_parts.real(square), 0), complex_parts.imag(square)
            )
            mask = lapack.diagonal_mask(aval_of(square))
            turn = elementwise.add(turn, elementwise.select(mask, imaginary, shape.full_like(imaginary, 0)))
        if full_matrices and m > k:
            below = lapack.block_of(inner, m - k, k, (k, 0))
            upper = elementwise.neg(adjoint(below))
            turn = joining.concatenate(
                [joining.concatenate([turn, upper], aval_of(turn).ndim - 1), lapack.padded(below, 0, m - k)],
                aval_of(turn).ndim - 2,
            )
            dq = matmul(q, turn)
        else:
            dq = elementwise.add(matmul(q, elementwise.sub(turn, inner)), ratio)
        dr = triangle(elementwise.sub(matmul(adjoint(q), da), matmul(turn, r)), False)
        return outs, (dq, dr, None) if pivoting else (dq, dr)

    def lower(self, b: Any, ins: Any, outs: Any, *, full_matrices: bool, pivoting: bool) -> list[Any]:
        """Reflections, then their product."""
        empty = self.constants(b, ins, outs, full_matrices=full_matrices, pivoting=pivoting)
        if empty is not None:
            return empty

        def compose(a: Any) -> Any:
            *lead, m, n = aval_of(a).shape
            k = m if full_matrices else min(m, n)
            if pivoting:
                packed, pivots, taus = geqp3_p.bind(a, shape.full((*lead, n), 0, np.int32))
                pivots = (elementwise.sub(pivots, shape.full_like(pivots, 1)),)
            else:
                (packed, taus), pivots = geqrf_p.bind(a), ()
            left = lapack.block_of(packed, m, min(n, k))
            q = householder_product_p.bind1(lapack.padded(left, 0, k - min(n, k)), taus)
            return q, triangle(lapack.block_of(packed, k, n), False), *pivots

        return b.inline(compose, ins)


# --- reduced forms ------------------------------------------------------------------------------------------------------------


class Hessenberg(MatrixFunction):
    """Reduction of square matrices to Hessenberg form, packed with its reflectors, and their factors."""

    jvp = Undefined("the packed reflectors are an intermediate form")
    transpose = Undefined("it is not linear")

    def infer(self, a: ShapedArray) -> tuple[ShapedArray, ...]:
        """The packed matrix and n - 1 factors."""
        lapack.check_matrix(a, True)
        return a.strip_weak(), array_aval((*a.shape[:-2], max(0, a.shape[-1] - 1)), a.dtype)

    def reference(self, a: Any) -> tuple[np.ndarray, ...]:
        """LAPACK through SciPy."""
        outs = self.infer(array_aval(a.shape, a.dtype))
        if a.shape[-1] <= 1 or a.size == 0:
            return a, np.zeros(outs[1].shape, a.dtype)
        gehrd = scipy_linalg.get_lapack_funcs(("gehrd",), (a,))[0]
        return lapack.numpy_batched(lambda x: gehrd(x)[:2], a, cores=(2,), outs=outs)

    def lower(self, b: Any, ins: Any, outs: Any) -> list[Any]:
        """LAPACK's gehrd."""
        if outs[1].size == 0:
            return [ins[0], b.constant(np.zeros(outs[1].shape, outs[1].dtype), outs[1])]
        size = outs[0].shape[-1]
        packed, taus, info = lapack.call(
            b,
            "{}gehrd",
            ins,
            [*outs, lapack.info_aval(outs[0])],
            ([True], [True, False, False]),
            {"low": 1, "high": size},
            [(0, 0)],
        )
        return [lapack.unless_failed(b, info, packed), lapack.unless_failed(b, info, taus)]


class Tridiagonal(MatrixFunction):
    """Reduction of Hermitian matrices to tridiagonal form: packed reflectors, diagonal, off-diagonal, factors."""

    jvp = Undefined("the packed reflectors are an intermediate form")
    transpose = Undefined("it is not linear")

    def infer(self, a: ShapedArray, *, lower: bool) -> tuple[ShapedArray, ...]:
        """The packed matrix, n and n - 1 reals, n - 1 factors."""
        lapack.check_matrix(a, True)
        if a.shape[-1] == 0:
            raise errors.ShapeError("takes matrices of at least one row")
        real = np.dtype(dtypes.real_dtype(a.dtype))
        *lead, n, _ = a.shape
        return (
            a.strip_weak(),
            array_aval((*lead, n), real),
            array_aval((*lead, n - 1), real),
            array_aval((*lead, n - 1), a.dtype),
        )

    def reference(self, a: Any, *, lower: bool) -> tuple[np.ndarray, ...]:
        """LAPACK through SciPy."""
        outs = self.infer(array_aval(a.shape, a.dtype), lower=lower)
        kernel = scipy_linalg.get_lapack_funcs(("hetrd" if dtypes.is_complex(a.dtype) else "sytrd",), (a,))[0]
        return lapack.numpy_batched(lambda x: kernel(x, lower=int(lower))[:4], a, cores=(2,), outs=outs)

    def lower(self, b: Any, ins: Any, outs: Any, *, lower: bool) -> list[Any]:
        """LAPACK's sytrd or hetrd."""
        kernel = "{}hetrd" if dtypes.is_complex(outs[0].dtype) else "{}sytrd"
        *found, info = lapack.call(
            b, kernel, ins, [*outs, lapack.info_aval(outs[0])], ([True], [True, False, False, False, False]),
            {"uplo": "L" if lower else "U"}, [(0, 0)],
        )  # fmt: skip
        return [lapack.unless_failed(b, info, x) if math.prod(x.shape) else x for x in found]


geqrf_p = Geqrf("geqrf")
geqp3_p = Geqp3("geqp3")
householder_product_p = HouseholderProduct("householder_product")
ormqr_p = Ormqr("ormqr")
qr_p = QR("qr")
hessenberg_p = Hessenberg("hessenberg")
tridiagonal_p = Tridiagonal("tridiagonal")


# --- functions ----------------------------------------------------------------------------------------------------------------


def geqrf(a: Any) -> tuple[Any, Any]:
    """QR in packed form: R above the reflectors, and their factors.

    Of inexact[..., m, n] they are inexact[..., m, n] and inexact[..., min(m, n)].
    """
    return geqrf_p.bind(a)


def geqp3(a: Any, jpvt: Any) -> tuple[Any, Any, Any]:
    """QR with column pivoting in packed form: packed matrix, pivots counted from 1, factors.

    `jpvt`, int32[..., n], are the initial pivots as LAPACK has them: zeros leave all columns free.
    """
    return geqp3_p.bind(a, jpvt)


def householder_product(a: Any, taus: Any) -> Any:
    """The orthogonal (unitary) matrix that packed reflectors amount to.

    Parameters
    ----------
    a : inexact[..., m, n], m >= n
        The reflectors, below the diagonal.
    taus : inexact[..., k], k <= n
        Their factors.

    Returns
    -------
    inexact[..., m, n]

    Raises
    ------
    ShapeError, DTypeError
    """
    return householder_product_p.bind1(a, taus)


def ormqr(a: Any, taus: Any, c: Any, *, left: bool = True, transpose: bool = False) -> Any:
    """Product with the orthogonal (unitary) matrix Q that packed reflectors amount to.

    Parameters
    ----------
    a, taus : inexact arrays
        As for `householder_product`.
    c : inexact[..., p, q]
    left : bool
        Q c, else c Q.
    transpose : bool
        Use the adjoint of Q.

    Returns
    -------
    inexact[..., p, q]

    Raises
    ------
    ShapeError, DTypeError
    """
    return ormqr_p.bind1(a, taus, c, left=bool(left), transpose=bool(transpose))


def qr(x: Any, *, pivoting: bool = False, full_matrices: bool = True, use_magma: bool | None = None) -> Any:
    """QR factorization of matrices.

    Parameters
    ----------
    x : inexact[..., m, n]
    pivoting : bool
        Exchange columns, so that the diagonal of R decreases.
    full_matrices : bool
        m columns in Q, else min(m, n).
    use_magma
        Of no effect on CPU.

    Returns
    -------
    (q, r), and with `pivoting` int32[..., n] p, the columns' order: x[..., p] = q r

    Raises
    ------
    ShapeError, DTypeError
    """
    return qr_p.bind(x, full_matrices=bool(full_matrices), pivoting=bool(pivoting))


def hessenberg(a: Any) -> tuple[Any, Any]:
    """Reduction of matrices to Hessenberg form, a = Q h Q^H.

    Parameters
    ----------
    a : inexact[..., n, n]

    Returns
    -------
    packed : inexact[..., n, n]
        h, and below its first subdiagonal the reflectors that Q consists of.
    taus : inexact[..., n - 1]
        Their factors.

    Raises
    ------
    ShapeError, DTypeError
    """
    return hessenberg_p.bind(a)


def tridiagonal(a: Any, *, lower: bool = True) -> tuple[Any, Any, Any, Any]:
    """Reduction of Hermitian matrices to tridiagonal form, a = Q t Q^H.

    Parameters
    ----------
    a : inexact[..., n, n]
    lower : bool
        Which triangle is read.

    Returns
    -------
    packed : inexact[..., n, n]
        The reflectors that Q consists of.
    diagonal, off_diagonal : float[..., n], float[..., n - 1]
        Of t.
    taus : inexact[..., n - 1]
        Factors of the reflectors.

    Raises
    ------
    ShapeError, DTypeError
    """
    return tridiagonal_p.bind(a, lower=bool(lower))
