# SPDX-License-Identifier: Apache-2.0
"""Linear algebra with NumPy's names: `purax.numpy.linalg`.

Functions of matrices work on the last two axes and map over the others. Integers become floats; 16-bit floats are computed in
float32 and rounded back.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from purax import dtypes, errors
from purax.control.custom import custom_jvp
from purax.numpy import contraction as products
from purax.numpy import matrices
from purax.numpy import reduction as totals
from purax.numpy.arithmetic import divide, multiply, subtract
from purax.numpy.comparison import equal, greater, not_equal
from purax.numpy.creation import asarray, zeros
from purax.numpy.elementwise import abs as absolute
from purax.numpy.elementwise import conj, isnan, log, real, sign, square
from purax.numpy.indexing import take_along_axis
from purax.numpy.norms import adjoint, inexact, matrices_of, matrix_norm, norm, vector_norm, widened
from purax.numpy.promotion import as_operand, check_arraylike
from purax.numpy.selection import where
from purax.numpy.shape import broadcast_shapes, broadcast_to, expand_dims, moveaxis, squeeze
from purax.numpy.shape import matrix_transpose as matrix_transpose
from purax.numpy.sorting import argsort
from purax.primitives import linalg as factors
from purax.primitives.stop_gradient import stop_gradient

__all__ = [
    "EigResult", "EighResult", "LinAlgError", "QRResult", "SVDResult", "SlogdetResult", "cholesky", "cond", "cross", "det",
    "diagonal", "eig", "eigh", "eigvals", "eigvalsh", "inv", "lstsq", "matmul", "matrix_norm", "matrix_power", "matrix_rank",
    "matrix_transpose", "multi_dot", "norm", "outer", "pinv", "qr", "slogdet", "solve", "svd", "svdvals", "tensordot",
    "tensorinv", "tensorsolve", "trace", "vecdot", "vector_norm",
]  # fmt: skip

LinAlgError = np.linalg.LinAlgError


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


class SlogdetResult(NamedTuple):
    """Result of `slogdet`."""

    sign: Any
    logabsdet: Any


class SVDResult(NamedTuple):
    """Result of `svd`."""

    U: Any
    S: Any
    Vh: Any


def rows_scaled(x: Any, values: Any) -> Any:
    """Columns of `x` scaled by `values`."""
    return multiply(x, expand_dims(values, -2))


# --- factorizations -----------------------------------------------------------------------------------------------------------


def cholesky(a: Any, *, upper: bool = False, symmetrize_input: bool = True) -> Any:
    """Triangular factor of Hermitian positive definite matrices: a = L L^H, or U^H U if `upper`; NaN for others.

    Parameters
    ----------
    a : array [..., n, n]
    upper : bool
    symmetrize_input : bool
        Use the Hermitian part of `a`; else its lower (upper) triangle alone.
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


# --- determinants and systems -------------------------------------------------------------------------------------------------


def det(a: Any) -> Any:
    """Determinants of matrices.

    Parameters
    ----------
    a : array [..., n, n]

    Returns
    -------
    array [...]
        Its gradient, the cofactors, is right at singular matrices too.

    Raises
    ------
    ShapeError
        The matrices are not square.
    """
    return widened(factors.det, matrices_of("linalg.det", a, True))


def slogdet(a: Any, *, method: str | None = None) -> SlogdetResult:
    """Sign and log of the absolute value of determinants of matrices [..., n, n].

    Parameters
    ----------
    a : array
    method : "lu" or "qr", optional
    """
    a = matrices_of("linalg.slogdet", a, True)
    if method not in (None, "lu", "qr"):
        raise ValueError(f"slogdet: method is 'lu' (the default) or 'qr', got {method!r}")
    if method == "qr":
        return widened(_slogdet_by_qr, a)
    return widened(lambda x: SlogdetResult(*factors.slogdet(x)), a)


def _slogdet_by_qr(x: Any) -> SlogdetResult:
    packed, taus = factors.geqrf(x)
    entries = matrices.diagonal(packed, axis1=-2, axis2=-1)
    # a reflection 1 - tau v v^H has determinant 1 - tau |v|^2, of absolute value one
    tails = matrices.tril(packed, -1)
    sizes = subtract(1, multiply(taus, 1 + totals.sum(real(multiply(tails, conj(tails))), axis=-2)))
    turned = where(equal(taus, 0), 1, sizes)
    return SlogdetResult(
        totals.prod(sign(entries), axis=-1) * totals.prod(turned, axis=-1), totals.sum(log(absolute(entries)), axis=-1)
    )


def inv(a: Any) -> Any:
    """Inverses of matrices, by LU with partial pivoting.

    Parameters
    ----------
    a : array [..., n, n]

    Returns
    -------
    array [..., n, n]
        inf or NaN for singular matrices.

    Raises
    ------
    ShapeError
        The matrices are not square.
    """
    a = matrices_of("linalg.inv", a, True)
    n = a.aval.shape[-1]
    return widened(lambda x: factors.linear_solve(x, broadcast_to(matrices.eye(n, dtype=x.dtype), x.shape)), a)


def solve(a: Any, b: Any) -> Any:
    """Solutions of a x = b.

    Parameters
    ----------
    a : array [..., n, n]
    b : array [n] or [..., n, k]
        Leading axes broadcast with those of `a`.

    Returns
    -------
    array of the shape of b, broadcast
    """
    a, b = inexact("linalg.solve", a, b)
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise errors.ShapeError(f"solve takes square matrices a[..., n, n], got shape {a.shape}")
    vector = b.ndim == 1
    column = expand_dims(b, 1) if vector else b
    if column.ndim < 2 or column.shape[-2] != a.shape[-1]:
        raise errors.ShapeError(
            f"Invalid shapes for solve: {a.shape}, {b.shape}; a batch of vectors needs an axis: solve(a, b[..., None])[..., 0]"
        )
    lead = broadcast_shapes(a.shape[:-2], column.shape[:-2])
    a, column = broadcast_to(a, (*lead, *a.shape[-2:])), broadcast_to(column, (*lead, *column.shape[-2:]))
    out = widened(factors.linear_solve, a, column)
    return squeeze(out, -1) if vector else out


def lstsq(a: Any, b: Any, rcond: float | None = None, *, numpy_resid: bool = False) -> tuple[Any, Any, Any, Any]:
    """Least-squares solution of a x = b with the smallest norm, from singular values.

    Parameters
    ----------
    a : array [m, n]
    b : array [m] or [m, k]
    rcond : float, optional
        Singular values below `rcond` times the largest count as zero; by default eps times max(m, n).
    numpy_resid : bool
        Return NumPy's residuals: empty unless m > n and the rank is n.

    Returns
    -------
    (x [n] or [n, k], sums of squared residuals [k], int32 rank, singular values)
    """
    a, b = inexact("linalg.lstsq", a, b)
    if a.ndim != 2 or b.ndim not in (1, 2) or a.shape[0] != b.shape[0]:
        raise errors.ShapeError(
            f"lstsq takes a matrix and a vector or matrix with as many rows, got shapes {a.shape} and {b.shape}"
        )
    m, n = a.shape
    columns = b[:, None] if b.ndim == 1 else b
    real_dtype = dtypes.real_dtype(a.dtype)
    if a.size == 0:
        s, rank = zeros(0, real_dtype), asarray(0, np.int32)
        x = zeros((n, columns.shape[1]), a.dtype)
    else:
        limit = float(dtypes.finfo(a.dtype).eps) * max(m, n) if rcond is None or rcond < 0 else rcond
        s, *known = _factors(a, limit)
        x, rank = _solution(a, columns, *known), totals.sum(not_equal(known[1], 0), dtype=np.int32)
    residuals = totals.sum(square(absolute(subtract(columns, products.matmul(a, x, precision="highest")))), axis=0)
    if numpy_resid and (m <= n or int(rank) < n):
        residuals = zeros(0, real_dtype)
    return (x[:, 0] if b.ndim == 1 else x), residuals, rank, s


def _times(*xs: Any) -> Any:
    return functools.reduce(functools.partial(products.matmul, precision="highest"), xs)


def _factors(a: Any, limit: Any, hermitian: bool = False) -> tuple[Any, Any, Any, Any]:
    """Singular values s, and what `_inverse` needs: u, the inverses [k, 1] of those above limit s[0] (else 0), vh."""
    u, s, vh = svd(a, full_matrices=False, hermitian=hermitian)
    large = greater(s, multiply(limit, s[..., :1]))
    inverse = where(large, divide(1, where(large, s, 1)), 0).astype(a.dtype)[..., None]
    return s, *(stop_gradient(x) for x in (u, inverse, vh))


@custom_jvp
def _inverse(a: Any, u: Any, inverse: Any, vh: Any) -> Any:
    """The pseudo-inverse p = v diag(inverse) u^H of a."""
    return _times(adjoint(vh), multiply(inverse, adjoint(u)))


@custom_jvp
def _solution(a: Any, b: Any, u: Any, inverse: Any, vh: Any) -> Any:
    """p b, without the rounding of p."""
    return _times(adjoint(vh), multiply(inverse, _times(adjoint(u), b)))


def _change(p: Any, a: Any, da: Any, b: Any, x: Any) -> Any:
    """The tangent of x = p b by that of a, of constant rank (Golub and Pereyra, 1973); it needs none of singular vectors.

    dx = -p da x + p p^H da^H (b - a x) + (1 - p a) da^H p^H x
    """
    turned, back = adjoint(da), adjoint(p)
    outside = _times(turned, back, x)
    within = _times(back, turned, subtract(b, _times(a, x))) - _times(da, x) - _times(a, outside)
    return _times(p, within) + outside


@_inverse.defjvp
def _inverse_rule(primals: Any, tangents: Any) -> Any:
    a, da = primals[0], tangents[0]
    p = _inverse(*primals)
    one = broadcast_to(matrices.eye(a.shape[-2], dtype=a.dtype), (*a.shape[:-2], a.shape[-2], a.shape[-2]))
    return p, _change(p, a, da, one, p)


@_solution.defjvp
def _solution_rule(primals: Any, tangents: Any) -> Any:
    (a, b, *known), (da, db, *_) = primals, tangents
    x, p = _solution(*primals), _inverse(a, *known)
    return x, _times(p, db) + _change(p, a, da, b, x)


def pinv(a: Any, rtol: Any = None, hermitian: bool = False, *, rcond: Any = None) -> Any:
    """Moore-Penrose inverses [..., n, m] of matrices [..., m, n].

    Parameters
    ----------
    a : array
    rtol, rcond : float or array, optional
        Singular values below this share of the largest count as zero; by default 10 max(m, n) eps.
    hermitian : bool
        `a` is Hermitian.
    """
    if rtol is not None and rcond is not None:
        raise ValueError("pinv: rtol and rcond are two names of one limit; give one of them")
    a = matrices_of("linalg.pinv", a, hermitian)
    share = rtol if rtol is not None else rcond
    m, n = a.shape[-2:]
    if a.size == 0:
        return zeros((*a.shape[:-2], n, m), a.dtype)

    def invert(x: Any) -> Any:
        limit = 10.0 * max(m, n) * float(dtypes.finfo(x.dtype).eps) if share is None else asarray(share)[..., None]
        return _inverse(x, *_factors(x, limit, hermitian)[1:])

    return widened(invert, a)


def matrix_rank(M: Any, rtol: Any = None, *, hermitian: bool = False, tol: Any = None) -> Any:
    """Number of singular values above a limit, int32[...].

    Parameters
    ----------
    M : array [..., m, n]; of fewer than two axes: 1 unless all zero
    rtol : float or array, optional
        Limit as a share of the largest; by default max(m, n) eps.
    tol : float or array, optional
        Limit itself.
    """
    if rtol is not None and tol is not None:
        raise ValueError("matrix_rank: tol and rtol both set the limit; give one of them")
    (M,) = inexact("linalg.matrix_rank", M)
    if M.ndim < 2:
        return totals.any(not_equal(M, 0)).astype(np.int32)
    s = svd(M, compute_uv=False, hermitian=hermitian)
    if tol is not None:
        limit = asarray(tol)[..., None]
    elif rtol is not None:
        limit = multiply(totals.max(s, axis=-1, keepdims=True), asarray(rtol)[..., None])
    else:
        limit = multiply(totals.max(s, axis=-1, keepdims=True), max(M.shape[-2:]) * float(dtypes.finfo(M.dtype).eps))
    return totals.sum(greater(s, limit), axis=-1, dtype=np.int32)


def matrix_power(a: Any, n: int) -> Any:
    """Integer powers of matrices, by repeated squaring.

    Parameters
    ----------
    a : array [..., n, n]
    n : int
        Negative powers are those of the inverse.

    Returns
    -------
    array [..., n, n]

    Raises
    ------
    ShapeError
        The matrices are not square.
    TypeError
        `n` is no int.
    """
    check_arraylike("linalg.matrix_power", a)
    a = as_operand(a)
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise errors.ShapeError(f"matrix_power takes square matrices [..., n, n], got shape {a.shape}")
    try:
        n = operator.index(n)
    except TypeError:
        raise TypeError(f"matrix_power: the exponent n counts factors, so it is an int, got {n!r}") from None
    if n < 0:
        a, n = inv(a), -n
    if n == 0:
        return broadcast_to(matrices.eye(a.shape[-1], dtype=a.dtype), a.shape)
    out = None
    while True:
        if n & 1:
            out = a if out is None else products.matmul(out, a)
        n >>= 1
        if not n:
            return out
        a = products.matmul(a, a)


def cond(x: Any, p: Any = None) -> Any:
    """Condition numbers of matrices.

    Parameters
    ----------
    x : array [..., m, n]
    p : None, 2, -2, or an order of `norm`
        None and 2: the ratio of the largest to the least singular value; -2: its inverse; others: norm(x, p) norm(inv(x), p),
        of square matrices.

    Returns
    -------
    float[...]
        inf for singular matrices.

    Raises
    ------
    LinAlgError
        Matrices without elements.
    ShapeError
        Matrices that are not square, with other orders than 2 and -2.
    """
    x = matrices_of("linalg.cond", x)
    if x.size == 0 and 0 in x.shape[-2:]:
        raise LinAlgError(f"cond: matrices without elements have no singular values, got shape {x.shape}")
    if p in (None, 2, -2):
        s = svd(x, compute_uv=False)
        out = divide(s[..., 0], s[..., -1]) if p != -2 else divide(s[..., -1], s[..., 0])
    else:
        if x.shape[-1] != x.shape[-2]:
            raise errors.ShapeError(f"cond with p={p!r} takes square matrices, got shape {x.shape}")
        out = multiply(norm(x, p, axis=(-2, -1)), norm(inv(x), p, axis=(-2, -1)))
    original = totals.any(isnan(x), axis=(-2, -1))
    return where(isnan(out) & ~original, np.inf, out)


# --- products and tensors -----------------------------------------------------------------------------------------------------


def matmul(x1: Any, x2: Any, /, *, precision: Any = None, preferred_element_type: Any = None) -> Any:
    """Products of matrices; see `purax.numpy.matmul`.

    Parameters
    ----------
    x1, x2 : array [..., m, k], [..., k, n]
    precision : Precision, optional
    preferred_element_type : dtype, optional

    Returns
    -------
    array [..., m, n]
    """
    return products.matmul(x1, x2, precision=precision, preferred_element_type=preferred_element_type)


def vecdot(x1: Any, x2: Any, /, *, axis: int = -1, precision: Any = None, preferred_element_type: Any = None) -> Any:
    """Sums of conj(x1) x2 along one axis.

    Parameters
    ----------
    x1, x2 : arrays that broadcast
    axis : int
    precision : Precision, optional
    preferred_element_type : dtype, optional

    Returns
    -------
    array without the axis
    """
    return products.vecdot(x1, x2, axis=axis, precision=precision, preferred_element_type=preferred_element_type)


def tensordot(
    x1: Any,
    x2: Any,
    /,
    *,
    axes: Any = 2,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Any:
    """Sums of products over several axes; see `purax.numpy.tensordot`.

    Parameters
    ----------
    x1, x2 : arrays
    axes : int or (sequence of int, sequence of int)
        The last axes of x1 with the first of x2, or pairs of axes.
    precision : Precision, optional
    preferred_element_type : dtype, optional
    out_sharding : Sharding, optional

    Returns
    -------
    array
        The other axes of x1, then those of x2.
    """
    return products.tensordot(x1, x2, axes=axes, precision=precision, preferred_element_type=preferred_element_type)


def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """Vector products of 3-vectors.

    Parameters
    ----------
    x1, x2 : arrays that broadcast, of size 3 along the axis
    axis : int

    Returns
    -------
    array

    Raises
    ------
    ShapeError
        Another size along the axis.
    """
    check_arraylike("linalg.cross", x1, x2)
    x1, x2 = as_operand(x1), as_operand(x2)
    if x1.shape[axis] != 3 or x2.shape[axis] != 3:
        raise errors.ShapeError(
            f"cross takes vectors of three entries along axis {axis}, got {x1.shape[axis]} and {x2.shape[axis]}"
        )
    return products.cross(x1, x2, axis=axis)


def outer(x1: Any, x2: Any, /) -> Any:
    """Products of all pairs of elements of two vectors.

    Parameters
    ----------
    x1, x2 : array [m], [n]

    Returns
    -------
    array [m, n]

    Raises
    ------
    ShapeError
        They are no vectors.
    """
    check_arraylike("linalg.outer", x1, x2)
    x1, x2 = as_operand(x1), as_operand(x2)
    if x1.ndim != 1 or x2.ndim != 1:
        raise errors.ShapeError(f"outer takes two vectors, got shapes {x1.shape} and {x2.shape}")
    return products.outer(x1, x2)


def diagonal(x: Any, /, *, offset: int = 0) -> Any:
    """Diagonals of matrices.

    Parameters
    ----------
    x : array [..., m, n]
    offset : int
        Above (positive) or below the main diagonal.

    Returns
    -------
    array [..., k]
    """
    return matrices.diagonal(x, offset=offset, axis1=-2, axis2=-1)


def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    """Sums of the diagonals of matrices.

    Parameters
    ----------
    x : array [..., m, n]
    offset : int
        Above (positive) or below the main diagonal.
    dtype : dtype, optional
        Of the sums.

    Returns
    -------
    array [...]
    """
    return matrices.trace(x, offset=offset, axis1=-2, axis2=-1, dtype=dtype)


def multi_dot(arrays: Sequence[Any], *, precision: Any = None) -> Any:
    """Product of several matrices, in the order with the fewest multiplications.

    Parameters
    ----------
    arrays : sequence of two or more arrays
        The first and the last may be vectors.
    precision : Precision, optional

    Returns
    -------
    array

    Raises
    ------
    ValueError
        Fewer than two arrays.
    ShapeError
        Other ranks, or sizes that do not fit.
    """
    check_arraylike("linalg.multi_dot", *arrays)
    values = [as_operand(a) for a in arrays]
    if len(values) < 2:
        raise ValueError(f"multi_dot multiplies two or more arrays, got {len(values)}")
    ends = (values[0].ndim, values[-1].ndim)
    if any(n not in (1, 2) for n in ends) or any(v.ndim != 2 for v in values[1:-1]):
        raise errors.ShapeError(
            f"multi_dot takes matrices, of which the first and last may be vectors, got shapes {[v.shape for v in values]}"
        )
    sizes = [
        1 if ends[0] == 1 else values[0].shape[0],
        *(v.shape[0] for v in values[1:]),
        1 if ends[1] == 1 else values[-1].shape[1],
    ]
    inner = [v.shape[-1] for v in values[:-1]]
    if inner != [v.shape[0] for v in values[1:]]:
        raise errors.ShapeError(
            f"multi_dot: each array needs as many columns as the next has rows, got shapes {[v.shape for v in values]}"
        )
    order = _chain_order(sizes)

    def product(i: int, j: int) -> Any:
        if i == j:
            return values[i]
        k = order[i, j]
        return products.matmul(product(i, k), product(k + 1, j), precision=precision)

    return product(0, len(values) - 1)


def _chain_order(sizes: Sequence[int]) -> dict[tuple[int, int], int]:
    """Where to split each run of a matrix chain (Cormen et al., Introduction to Algorithms, 15.2)."""
    n = len(sizes) - 1
    cost: dict[tuple[int, int], int] = {(i, i): 0 for i in range(n)}
    split: dict[tuple[int, int], int] = {}
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            choices = [(cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k) for k in range(i, j)]
            cost[i, j], split[i, j] = min(choices)
    return split


def tensorinv(a: Any, ind: int = 2) -> Any:
    """Inverse of a tensor as a linear map from its last axes to its first.

    Parameters
    ----------
    a : array
        The products of its first `ind` and of its other sizes are equal.
    ind : int

    Returns
    -------
    array
        The other axes of `a`, then the first.

    Raises
    ------
    ShapeError
        The products of sizes differ.
    ValueError
        `ind` is below 1.
    """
    check_arraylike("linalg.tensorinv", a)
    a = as_operand(a)
    ind = operator.index(ind)
    if ind <= 0:
        raise ValueError(f"tensorinv: ind counts the first axes, at least one, got {ind}")
    first, rest = a.shape[:ind], a.shape[ind:]
    if math.prod(first) != math.prod(rest):
        raise errors.ShapeError(f"product of dimensions {first} and {rest} must be equal, got shape {a.shape}")
    return inv(a.reshape(math.prod(first), math.prod(rest))).reshape(*rest, *first)


def tensorsolve(a: Any, b: Any, axes: tuple[int, ...] | None = None) -> Any:
    """Solution x of tensordot(a, x, x.ndim) = b.

    Parameters
    ----------
    a : array
        Its first axes are those of `b`, the product of the others is the size of `b`.
    b : array
    axes : sequence of int, optional
        Axes of `a` that are moved to its end first.

    Returns
    -------
    array
        Of the other sizes of `a`.

    Raises
    ------
    ShapeError
        The sizes do not fit.
    """
    check_arraylike("linalg.tensorsolve", a, b)
    a, b = as_operand(a), as_operand(b)
    if axes is not None:
        a = moveaxis(a, tuple(axes), tuple(range(a.ndim - len(axes), a.ndim)))
    rest = a.shape[b.ndim :]
    if a.shape[: b.ndim] != b.shape or math.prod(rest) != b.size:
        raise errors.ShapeError(f"tensorsolve: tensors of shapes {a.shape} and {b.shape} do not fit")
    return solve(a.reshape(b.size, math.prod(rest)), b.ravel()).reshape(rest)
