# SPDX-License-Identifier: Apache-2.0
"""Determinants, systems of equations and inverses of matrices: what `purax.numpy.linalg` offers of them.

Results have the inexact dtype of the operands, and map over leading axes.
"""

from __future__ import annotations

import functools
import operator
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
from purax.numpy.decompositions import svd
from purax.numpy.elementwise import abs as absolute
from purax.numpy.elementwise import conj, isnan, log, real, sign, square
from purax.numpy.norms import adjoint, inexact, matrices_of, norm, widened
from purax.numpy.promotion import as_operand, check_arraylike
from purax.numpy.selection import where
from purax.numpy.shape import broadcast_shapes, broadcast_to, expand_dims, squeeze
from purax.primitives import linalg as factors
from purax.primitives.stop_gradient import stop_gradient

__all__ = [
    "LinAlgError",
    "SlogdetResult",
    "cond",
    "det",
    "inv",
    "lstsq",
    "matrix_power",
    "matrix_rank",
    "pinv",
    "slogdet",
    "solve",
]


LinAlgError = np.linalg.LinAlgError


class SlogdetResult(NamedTuple):
    """Result of `slogdet`."""

    sign: Any
    logabsdet: Any


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

    Returns
    -------
    SlogdetResult(sign [...], logabsdet float[...])

    Raises
    ------
    ValueError
        Another method.
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

    Raises
    ------
    ShapeError
        `a` is not square, or `b` has other rows.
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

    Raises
    ------
    ShapeError
        Not a matrix, and a vector or matrix with as many rows.
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

    Returns
    -------
    array [..., n, m]

    Raises
    ------
    ValueError
        Both limits.
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
    hermitian : bool
        The matrices are Hermitian.

    Returns
    -------
    int32[...]

    Raises
    ------
    ValueError
        Both limits.
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
