# SPDX-License-Identifier: Apache-2.0
"""Decompositions by eigenvalues and singular values.

Notes
-----
The tangents of vectors divide by differences of eigenvalues (singular values). Where two are equal the vectors of their space may
turn freely, and that share of the tangent is set to zero. So at equal values these have their right derivatives: the spaces, what
depends on them alone, and functions of the values that do not tell equal ones apart. A function of the matrix, v f(w) v^H, has not:
it turns the vectors of equal values by an amount that depends on f. Such functions have derivatives of their own: `expm`, `sqrtm`,
`inv`, `pinv`, `lstsq`, `polar`.
"""

from __future__ import annotations

import enum
from typing import Any

import numpy as np

from purax import dtypes, errors
from purax.core.aval import ShapedArray, array_aval
from purax.core.primitive import Undefined
from purax.core.trace import aval_of
from purax.lazy import lazy
from purax.primitives import cast, elementwise, factoring, gather, joining, lapack, reduction, shape, solving
from purax.primitives import complex as complex_parts
from purax.primitives.lapack import MatrixFunction, adjoint, columns_scaled, matmul, reciprocal_or_zero

__all__ = ["EigImplementation", "EighImplementation", "SvdAlgorithm", "eig", "eigh", "schur", "svd"]

scipy_linalg = lazy("scipy.linalg", "the reference of a factorization needs SciPy")


class SvdAlgorithm(enum.Enum):
    """How singular values are found; on CPU QR is LAPACK's gesvd, all others are gesdd."""

    DEFAULT = "default"
    QR = "QR"
    JACOBI = "Jacobi"
    POLAR = "polar"
    DIVIDE_AND_CONQUER = "divide_and_conquer"


class EighImplementation(enum.Enum):
    """How Hermitian eigenvalues are found; on CPU all are LAPACK's syevd."""

    QR = "qr"
    JACOBI = "jacobi"
    QDWH = "qdwh"


class EigImplementation(enum.Enum):
    """How eigenvalues are found; on CPU all are LAPACK's geev."""

    CUSOLVER = "cusolver"
    MAGMA = "magma"
    LAPACK = "lapack"


def row_of(x: Any, like: Any) -> Any:
    """Vectors as matrices of equal rows, of the shape of `like`."""
    aval = aval_of(like)
    return shape.broadcast_in_dim(x, aval.shape, (*range(aval.ndim - 2), aval.ndim - 1))


def column_of(x: Any, like: Any) -> Any:
    """Vectors as matrices of equal columns, of the shape of `like`."""
    aval = aval_of(like)
    return shape.broadcast_in_dim(x, aval.shape, tuple(range(aval.ndim - 1)))


def half(x: Any) -> Any:
    """`x / 2`."""
    return elementwise.mul(x, shape.full_like(x, 0.5))


def scaled(x: Any, factor: Any) -> Any:
    """Product of matrices (perhaps complex) with real ones of their shape."""
    return elementwise.mul(x, cast.convert_element_type(factor, aval_of(x).dtype))


# --- singular values ----------------------------------------------------------------------------------------------------------


class SVD(MatrixFunction):
    """Singular values in decreasing order, and with `compute_uv` left vectors (columns) and adjoint right vectors (rows)."""

    transpose = Undefined("it is not linear")

    def infer(
        self, a: ShapedArray, *, full_matrices: bool, compute_uv: bool, algorithm: Any
    ) -> tuple[ShapedArray, ...]:
        """Real (k,), then (m, m or k) and (n or k, n)."""
        lapack.check_matrix(a)
        *lead, m, n = a.shape
        k = min(m, n)
        values = array_aval((*lead, k), np.dtype(dtypes.real_dtype(a.dtype)))
        if not compute_uv:
            return (values,)
        rows, columns = (m, n) if full_matrices else (k, k)
        return values, array_aval((*lead, m, rows), a.dtype), array_aval((*lead, columns, n), a.dtype)

    def reference(self, a: Any, *, full_matrices: bool, compute_uv: bool, algorithm: Any) -> tuple[np.ndarray, ...]:
        """NumPy's svd."""
        outs = self.infer(
            array_aval(a.shape, a.dtype), full_matrices=full_matrices, compute_uv=compute_uv, algorithm=algorithm
        )
        if a.size == 0:
            bases = [np.broadcast_to(np.eye(*o.shape[-2:], dtype=a.dtype), o.shape).copy() for o in outs[1:]]
            return np.zeros(outs[0].shape, outs[0].dtype), *bases
        if not compute_uv:
            return (np.linalg.svd(a, compute_uv=False).astype(outs[0].dtype),)
        u, s, vt = np.linalg.svd(a, full_matrices=full_matrices)
        return s.astype(outs[0].dtype), u, vt

    def jvp(self, primals: Any, tangents: Any, *, full_matrices: bool, compute_uv: bool, algorithm: Any) -> Any:
        """With P = U^H da V: ds = Re diag P; the turns of U and V follow from its Hermitian and anti-Hermitian parts.

        W_u = (E o (P + P^H) + G o (P - P^H)) / 2 and W_v = (E o (P + P^H) - G o (P - P^H)) / 2 with E = 1 / (s_j - s_i),
        G = 1 / (s_j + s_i); beyond the square part U turns by its complement's share of da V / s, and so does V.
        """
        (a,), (da,) = primals, tangents
        params = {"full_matrices": full_matrices, "algorithm": algorithm}
        if da is None:
            outs = self.bind(a, compute_uv=compute_uv, **params)
            return outs, (None,) * len(outs)
        *_, m, n = aval_of(a).shape
        k = min(m, n)
        s, u, vt = self.bind(a, compute_uv=True, **params)
        left, right = lapack.block_of(u, m, k), lapack.block_of(vt, k, n)
        away = matmul(da, adjoint(right))  # da V
        inner = matmul(adjoint(left), away)
        ds = lapack.real_part(lapack.diagonal(inner))
        if not compute_uv:
            return (s,), (ds,)
        hermitian, rest = half(elementwise.add(inner, adjoint(inner))), half(elementwise.sub(inner, adjoint(inner)))
        rows, columns = row_of(s, inner), column_of(s, inner)
        sharp = scaled(hermitian, reciprocal_or_zero(elementwise.sub(rows, columns)))
        blunt = scaled(rest, reciprocal_or_zero(elementwise.add(rows, columns)))
        inverse = reciprocal_or_zero(s)
        du = self._turned(u, elementwise.add(sharp, blunt), away, inverse)
        dv = self._turned(adjoint(vt), elementwise.sub(sharp, blunt), matmul(adjoint(da), left), inverse)
        return (s, u, vt), (ds, du, adjoint(dv))

    @staticmethod
    def _turned(basis: Any, turn: Any, away: Any, inverse: Any) -> Any:
        """Tangent of the columns of `basis`: they turn into one another by `turn`, and out of their span by `away / s`."""
        *_, m, width = aval_of(basis).shape
        k = aval_of(turn).shape[-1]
        left = lapack.block_of(basis, m, k)
        change = matmul(left, turn)
        if m == k:
            return change
        out = columns_scaled(away, inverse)
        out = elementwise.sub(out, matmul(left, matmul(adjoint(left), out)))
        change = elementwise.add(change, out)
        if width == k:
            return change
        rest = lapack.block_of(basis, m, width - k, (0, k))
        back = elementwise.neg(matmul(left, matmul(adjoint(out), rest)))
        return joining.concatenate([change, back], aval_of(change).ndim - 1)

    def lower(self, b: Any, ins: Any, outs: Any, *, full_matrices: bool, compute_uv: bool, algorithm: Any) -> list[Any]:
        """LAPACK's gesdd, or gesvd for `algorithm` QR."""
        empty = self.constants(b, ins, outs, full_matrices=full_matrices, compute_uv=compute_uv, algorithm=algorithm)
        if empty is not None:
            return empty
        (a,) = ins
        aval = array_aval(a.shape, a.dtype)
        bases = self.infer(aval, full_matrices=full_matrices, compute_uv=True, algorithm=algorithm)
        kernel = "{}gesvd" if algorithm is SvdAlgorithm.QR else "{}gesdd"
        mode = "N" if not compute_uv else "A" if full_matrices else "S"
        *_, info = found = lapack.call(
            b,
            kernel,
            ins,
            [aval, *bases, lapack.info_aval(aval)],
            ([True], [True, False, True, True, False]),
            {"mode": mode},
            [(0, 0)],
        )
        return [lapack.unless_failed(b, info, x) for x in found[1 : 1 + len(outs)]]


# --- Hermitian eigenvalues ----------------------------------------------------------------------------------------------------


class Eigh(MatrixFunction):
    """Eigenvectors (columns) and ascending eigenvalues of Hermitian matrices, of which one triangle is read."""

    transpose = Undefined("it is not linear")

    def infer(self, a: ShapedArray, *, lower: bool) -> tuple[ShapedArray, ...]:
        """Vectors of the operand's type, real values."""
        lapack.check_matrix(a, True)
        return a.strip_weak(), array_aval(a.shape[:-1], np.dtype(dtypes.real_dtype(a.dtype)))

    def reference(self, a: Any, *, lower: bool) -> tuple[np.ndarray, ...]:
        """NumPy's eigh."""
        if a.size == 0:
            return a, np.zeros(a.shape[:-1], dtypes.real_dtype(a.dtype))
        w, v = np.linalg.eigh(a, UPLO="L" if lower else "U")
        return v, w

    def jvp(self, primals: Any, tangents: Any, *, lower: bool) -> Any:
        """With P = V^H da V: dw = Re diag P, dV = V (P_ij / (w_j - w_i))."""
        (a,), (da,) = primals, tangents
        v, w = self.bind(a, lower=lower)
        if da is None:
            return (v, w), (None, None)
        da = factoring.from_lower(da if lower else adjoint(da))
        inner = matmul(matmul(adjoint(v), da), v)
        gaps = reciprocal_or_zero(elementwise.sub(row_of(w, inner), column_of(w, inner)))
        return (v, w), (matmul(v, scaled(inner, gaps)), lapack.real_part(lapack.diagonal(inner)))

    def lower(self, b: Any, ins: Any, outs: Any, *, lower: bool) -> list[Any]:
        """LAPACK's syevd or heevd."""
        empty = self.constants(b, ins, outs, lower=lower)
        if empty is not None:
            return empty
        kernel = "{}heevd" if dtypes.is_complex(outs[0].dtype) else "{}syevd"
        v, w, info = lapack.call(
            b, kernel, ins, [*outs, lapack.info_aval(outs[0])], ([True], [True, False, False]),
            {"mode": "V", "uplo": "L" if lower else "U"}, [(0, 0)],
        )  # fmt: skip
        return [lapack.unless_failed(b, info, v), lapack.unless_failed(b, info, w)]


# --- eigenvalues --------------------------------------------------------------------------------------------------------------


class Eig(MatrixFunction):
    """Complex eigenvalues of square matrices, and if asked for left and right eigenvectors of unit length (columns)."""

    transpose = Undefined("it is not linear")

    def infer(self, a: ShapedArray, *, left: bool, right: bool) -> tuple[ShapedArray, ...]:
        """Complex values and vectors."""
        lapack.check_matrix(a, True)
        dtype = np.dtype(dtypes.to_complex(a.dtype))
        vectors = array_aval(a.shape, dtype)
        return array_aval(a.shape[:-1], dtype), *((vectors,) if left else ()), *((vectors,) if right else ())

    def reference(self, a: Any, *, left: bool, right: bool) -> tuple[np.ndarray, ...]:
        """SciPy's eig."""
        outs = self.infer(array_aval(a.shape, a.dtype), left=left, right=right)

        def solve(x: Any) -> Any:
            found = scipy_linalg.eig(x, left=left, right=right)
            return found if isinstance(found, tuple) else (found,)

        return lapack.numpy_batched(solve, a, cores=(2,), outs=outs)

    def jvp(self, primals: Any, tangents: Any, *, left: bool, right: bool) -> Any:
        """dw = diag(V^-1 da V); vectors keep their length, and their largest entry real, as LAPACK makes it."""
        (a,), (da,) = primals, tangents
        if da is None:
            outs = self.bind(a, left=left, right=right)
            return outs, (None,) * len(outs)
        w, vl, vr = self.bind(a, left=True, right=True)
        da = cast.convert_element_type(da, aval_of(w).dtype)
        inner = solving.linear_solve(vr, matmul(da, vr))
        found, changes = [w], [lapack.diagonal(inner)]
        if left:
            found.append(vl)
            changes.append(self._vectors(vl, lapack.conjugated(w), solving.linear_solve(vl, matmul(adjoint(da), vl))))
        if right:
            found.append(vr)
            changes.append(self._vectors(vr, w, inner))
        return tuple(found), tuple(changes)

    @staticmethod
    def _vectors(v: Any, w: Any, inner: Any) -> Any:
        gaps = elementwise.sub(row_of(w, inner), column_of(w, inner))
        change = matmul(v, elementwise.mul(inner, reciprocal_or_zero(gaps)))
        rank = aval_of(v).ndim
        along = reduction.reduce_sum(elementwise.mul(lapack.conjugated(v), change), (rank - 2,))
        sizes = elementwise.abs(v)
        place = reduction.argmax(sizes, rank - 2, np.int32)
        index = shape.expand_dims(place, (rank - 2,))

        def largest(x: Any) -> Any:
            return shape.squeeze(gather.take_along(x, index, rank - 2), (rank - 2,))

        change = elementwise.sub(change, elementwise.mul(v, row_of(along, v)))
        turn = elementwise.div(complex_parts.imag(largest(change)), complex_parts.real(largest(v)))
        turn = complex_parts.complex(elementwise.mul(turn, shape.full_like(turn, 0)), turn)
        return elementwise.sub(change, elementwise.mul(v, row_of(turn, v)))

    def lower(self, b: Any, ins: Any, outs: Any, *, left: bool, right: bool) -> list[Any]:
        """LAPACK's geev."""
        empty = self.constants(b, ins, outs, left=left, right=right)
        if empty is not None:
            return empty
        (a,), values = ins, outs[0]
        vectors = array_aval(a.shape, values.dtype)
        attributes = {"compute_left": "V" if left else "N", "compute_right": "V" if right else "N"}
        info = lapack.info_aval(a.aval)
        if dtypes.is_complex(a.dtype):
            w, vl, vr, failed = lapack.call(
                b, "{}geev", ins, [values, vectors, vectors, info], ([True], [False, True, True, False]), attributes
            )
        else:
            part = array_aval(values.shape, a.dtype)
            real, imag, vl, vr, failed = lapack.call(
                b,
                "{}geev",
                ins,
                [part, part, vectors, vectors, info],
                ([True], [False, False, True, True, False]),
                attributes,
            )
            (w,) = b.inline(complex_parts.complex, [real, imag])
        chosen = [w, *([vl] if left else []), *([vr] if right else [])]
        return [lapack.unless_failed(b, failed, x) for x in chosen]


# --- Schur --------------------------------------------------------------------------------------------------------------------


class Schur(MatrixFunction):
    """The (quasi) triangular form T of square matrices, and the vectors Z with a = Z T Z^H."""

    jvp = Undefined("the form of real matrices changes by jumps where eigenvalues meet")
    transpose = Undefined("it is not linear")

    def infer(self, a: ShapedArray, *, vectors: bool) -> tuple[ShapedArray, ...]:
        """The operand's type, once or twice."""
        lapack.check_matrix(a, True)
        return (a.strip_weak(),) * (2 if vectors else 1)

    def reference(self, a: Any, *, vectors: bool) -> tuple[np.ndarray, ...]:
        """SciPy's schur."""
        outs = self.infer(array_aval(a.shape, a.dtype), vectors=vectors)
        if a.size == 0:
            return (a,) * len(outs)
        return lapack.numpy_batched(lambda x: scipy_linalg.schur(x)[: len(outs)], a, cores=(2,), outs=outs)

    def lower(self, b: Any, ins: Any, outs: Any, *, vectors: bool) -> list[Any]:
        """LAPACK's gees."""
        empty = self.constants(b, ins, outs, vectors=vectors)
        if empty is not None:
            return empty
        aval = outs[0]
        values = array_aval(aval.shape[:-1], aval.dtype)
        parts = [values] if dtypes.is_complex(aval.dtype) else [values, values]
        info = lapack.info_aval(aval)
        found = lapack.call(
            b, "{}gees", ins, [aval, aval, *parts, info, info], ([True], [True, True, *[False] * (len(parts) + 2)]),
            {"mode": "V" if vectors else "N", "sort": "N"}, [(0, 0)],
        )  # fmt: skip
        return [lapack.unless_failed(b, found[-1], x) for x in found[: len(outs)]]


svd_p = SVD("svd")
eigh_p = Eigh("eigh")
eig_p = Eig("eig")
schur_p = Schur("schur")


# --- functions ----------------------------------------------------------------------------------------------------------------


def svd(
    x: Any, *, full_matrices: bool = True, compute_uv: bool = True, subset_by_index: tuple[int, int] | None = None,
    algorithm: SvdAlgorithm | None = None,
) -> Any:  # fmt: skip
    """Singular value decomposition of inexact[..., m, n].

    Parameters
    ----------
    x : inexact[..., m, n]
    full_matrices : bool
        Square u and vh; else min(m, n) columns and rows.
    compute_uv : bool
    subset_by_index : (int, int), optional
        First and end (exclusive) of the singular values to return.
    algorithm : SvdAlgorithm, optional

    Returns
    -------
    (u, s, vh), or s without `compute_uv`
        x = u[..., :k] diag(s) vh[..., :k, :], k = min(m, n), s decreasing.

    Raises
    ------
    ShapeError, DTypeError
        Not matrices of inexact numbers, or a subset that is empty, outside, or asked for with square matrices.

    Notes
    -----
    Where singular values repeat, vectors have no derivative; see the notes at the head of this file for what has one all the same.
    """
    outs = svd_p.bind(x, full_matrices=bool(full_matrices), compute_uv=bool(compute_uv), algorithm=algorithm)
    if subset_by_index is not None:
        start, stop = subset_by_index
        k = aval_of(outs[0]).shape[-1]
        if not 0 <= start < stop <= k:
            raise errors.ShapeError(f"subset_by_index must lie within 0 and {k}, got {subset_by_index}")
        if full_matrices and (start, stop) != (0, k):
            raise errors.ShapeError("full_matrices and subset_by_index cannot be asked for together")
        axes = (-1, -1, -2)
        outs = tuple(joining.slice_in_dim(o, start, stop, axis=axis) for o, axis in zip(outs, axes, strict=False))
    return (outs[1], outs[0], outs[2]) if compute_uv else outs[0]


def eigh(
    x: Any, *, lower: bool = True, symmetrize_input: bool = True, sort_eigenvalues: bool = True,
    subset_by_index: tuple[int, int] | None = None, implementation: EighImplementation | None = None,
) -> tuple[Any, Any]:  # fmt: skip
    """Eigenvectors (columns) and ascending real eigenvalues of Hermitian matrices inexact[..., n, n].

    Parameters
    ----------
    lower : bool
        Which triangle is read when `symmetrize_input` is off.
    subset_by_index : (int, int), optional
        First and end (exclusive) of the eigenvalues to return.
    x : inexact[..., n, n]
    symmetrize_input : bool
        Take the Hermitian part of `x` first.
    sort_eigenvalues : bool
        They are ascending in any case.
    implementation : EighImplementation, optional
        Of no effect.

    Returns
    -------
    (inexact[..., n, n], float[..., n])

    Raises
    ------
    ShapeError, DTypeError
        Not square matrices of inexact numbers, or a subset that is empty or outside.

    Notes
    -----
    Where eigenvalues repeat, vectors have no derivative; see the notes at the head of this file for what has one all the same.
    """
    v, w = eigh_p.bind(factoring.symmetrized(x) if symmetrize_input else x, lower=bool(lower))
    if subset_by_index is not None:
        start, stop = subset_by_index
        if not 0 <= start < stop <= aval_of(w).shape[-1]:
            raise errors.ShapeError(
                f"subset_by_index must lie within 0 and {aval_of(w).shape[-1]}, got {subset_by_index}"
            )
        v, w = joining.slice_in_dim(v, start, stop, axis=-1), joining.slice_in_dim(w, start, stop, axis=-1)
    return v, w


def eig(
    x: Any, *, compute_left_eigenvectors: bool = True, compute_right_eigenvectors: bool = True,
    enable_eigvec_derivs: bool = False, implementation: EigImplementation | None = None, use_magma: bool | None = None,
) -> list[Any]:  # fmt: skip
    """Complex eigenvalues of inexact[..., n, n], then left and right eigenvectors (columns of unit length) where asked for.

    Parameters
    ----------
    x : inexact[..., n, n]
    compute_left_eigenvectors, compute_right_eigenvectors : bool
    enable_eigvec_derivs, implementation, use_magma
        Of no effect.

    Returns
    -------
    list of complex[..., n] and up to two complex[..., n, n]
    """
    return list(eig_p.bind(x, left=bool(compute_left_eigenvectors), right=bool(compute_right_eigenvectors)))


def schur(
    x: Any, *, compute_schur_vectors: bool = True, sort_eig_vals: bool = False, select_callable: Any = None
) -> tuple[Any, ...]:
    """Schur form of matrices, x = Z T Z^H.

    Parameters
    ----------
    x : inexact[..., n, n]
    compute_schur_vectors : bool
    sort_eig_vals : False
    select_callable : None

    Returns
    -------
    T : inexact[..., n, n]
        Triangular; with 2 by 2 blocks for complex pairs of eigenvalues of real matrices.
    Z : inexact[..., n, n]
        If `compute_schur_vectors`.

    Raises
    ------
    ShapeError, DTypeError
    ValueError
        Eigenvalues are to be sorted.
    """
    if sort_eig_vals or select_callable is not None:
        raise ValueError(
            "schur: LAPACK can sort eigenvalues only by calling back into Python; sort them afterwards instead"
        )
    return schur_p.bind(x, vectors=bool(compute_schur_vectors))
