# SPDX-License-Identifier: Apache-2.0
"""Factorizations of matrices and systems of equations.

Matrices have the shape [..., m, n]; results have their inexact dtype, and map over leading axes.

Parameters
----------
overwrite_a, overwrite_b, overwrite_c, check_finite, lwork, lapack_driver, debug, turbo
    SciPy's, accepted without effect.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from purax import dtypes, errors
from purax import numpy as pnp
from purax.control.loop import fori_loop
from purax.numpy import linalg as base
from purax.numpy.norms import adjoint, inexact, matrices_of, widened
from purax.primitives import factoring
from purax.primitives import linalg as factors

__all__ = [
    "cho_factor", "cho_solve", "cholesky", "det", "eigh", "eigh_tridiagonal", "hessenberg", "inv", "lu", "lu_factor", "lu_solve",
    "qr", "qr_multiply", "rsf2csf", "schur", "solve", "solve_triangular", "svd",
]  # fmt: skip


def times(x: Any, y: Any) -> Any:
    """Product of matrices, in full precision."""
    return pnp.matmul(x, y, precision="highest")


def _with_columns(solver: Callable[[Any, Any], Any], name: str, a: Any, b: Any, stacked: bool = True) -> Any:
    """`solver(a, b)` with b as matrices that broadcast with `a`; b of one axis is a vector, and if `stacked` one vector per matrix."""
    vector = b.ndim == 1 or (stacked and b.shape == a.shape[:-1])
    column = b[..., None] if vector else b
    if a.ndim < 2 or a.shape[-1] != a.shape[-2] or column.shape[-2] != a.shape[-1]:
        raise errors.ShapeError(
            f"{name} takes matrices [..., n, n] and right-hand sides of n rows, got {a.shape} and {b.shape}"
        )
    lead = pnp.broadcast_shapes(a.shape[:-2], column.shape[:-2])
    a = pnp.broadcast_to(a, (*lead, *a.shape[-2:]))
    column = pnp.broadcast_to(column, (*lead, *column.shape[-2:]))
    out = widened(solver, a, column)
    return out[..., 0] if vector else out


# --- positive definite matrices -----------------------------------------------------------------------------------------------


def cholesky(a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """Triangular factor of Hermitian positive definite matrices: U^H U, or L L^H if `lower`. Only that triangle is read.

    Parameters
    ----------
    a : inexact[..., n, n]
    lower : bool

    Returns
    -------
    inexact[..., n, n]
        NaN where `a` is not positive definite.
    """
    return base.cholesky(a, upper=not lower, symmetrize_input=False)


def cho_factor(a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Any, bool]:
    """(factor of `cholesky`, `lower`), for `cho_solve`.

    Parameters
    ----------
    a : inexact[..., n, n]
    lower : bool

    Returns
    -------
    (inexact[..., n, n], bool)
    """
    return cholesky(a, lower), lower


def cho_solve(c_and_lower: tuple[Any, bool], b: Any, overwrite_b: bool = False, check_finite: bool = True) -> Any:
    """Solutions of a x = b from `cho_factor(a)`.

    Parameters
    ----------
    c_and_lower : (inexact[..., n, n], bool)
    b : inexact[n] or [..., n, k]

    Returns
    -------
    array of the shape of `b`
        Leading axes broadcast.

    Raises
    ------
    ShapeError
        The matrices are not square, or `b` has other rows.
    """
    c, lower = c_and_lower
    c, b = inexact("linalg.cho_solve", c, b)

    def solver(c: Any, b: Any) -> Any:
        for transposed in (not lower, bool(lower)):
            b = factors.triangular_solve(
                c, b, left_side=True, lower=lower, transpose_a=transposed, conjugate_a=transposed
            )
        return b

    return _with_columns(solver, "cho_solve", c, b)


# --- systems ------------------------------------------------------------------------------------------------------------------


def solve(
    a: Any, b: Any, lower: bool = False, overwrite_a: bool = False, overwrite_b: bool = False, debug: bool = False,
    check_finite: bool = True, assume_a: str = "gen",
) -> Any:  # fmt: skip
    """Solutions of a x = b.

    Parameters
    ----------
    a : inexact[..., n, n]
    b : inexact[n] or [..., n, k]
    lower : bool
        With "pos": which triangle is read.
    assume_a : "gen", "sym", "her" or "pos"

    Returns
    -------
    array of the shape of `b`
        Leading axes broadcast.

    Raises
    ------
    ShapeError
        `a` is not square, or `b` has other rows.
    ValueError
        Another `assume_a`.
    """
    if assume_a not in ("gen", "sym", "her", "pos"):
        raise ValueError(f"solve: assume_a is 'gen', 'sym', 'her' or 'pos', got {assume_a!r}")
    a, b = inexact("linalg.solve", a, b)
    if assume_a == "pos":
        return cho_solve(cho_factor(a, lower), b)
    return _with_columns(factors.linear_solve, "solve", a, b, stacked=False)


def solve_triangular(
    a: Any, b: Any, trans: int | str = 0, lower: bool = False, unit_diagonal: bool = False, overwrite_b: bool = False,
    debug: Any = None, check_finite: bool = True,
) -> Any:  # fmt: skip
    """Solutions of op(a) x = b for triangular a.

    Parameters
    ----------
    a : inexact[..., n, n]
        Only one triangle is read.
    b : inexact[n] or [..., n, k]
    trans : 0 or "N", 1 or "T", 2 or "C"
        Use `a`, its transpose, its adjoint.
    lower, unit_diagonal : bool
        Which triangle is read; whether ones stand on the diagonal, whatever is stored there.

    Returns
    -------
    array of the shape of `b`
        Leading axes broadcast.

    Raises
    ------
    ShapeError
        `a` is not square, or `b` has other rows.
    ValueError
        Another `trans`.
    """
    if trans not in (0, 1, 2, "N", "T", "C"):
        raise ValueError(f"Invalid 'trans' value {trans}")
    a, b = inexact("linalg.solve_triangular", a, b)

    def solver(a: Any, b: Any) -> Any:
        return factors.triangular_solve(
            a, b, left_side=True, lower=lower, transpose_a=trans not in (0, "N"), conjugate_a=trans in (2, "C"),
            unit_diagonal=unit_diagonal,
        )  # fmt: skip

    return _with_columns(solver, "solve_triangular", a, b)


def inv(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """Inverses of matrices [..., n, n]."""
    return base.inv(a)


def det(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """Determinants of matrices [..., n, n]."""
    return base.det(a)


# --- triangular factors -------------------------------------------------------------------------------------------------------


def lu_factor(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Any, Any]:
    """(L below and U above the diagonal, int32 pivots: row i was swapped with row pivots[i])."""
    a = matrices_of("linalg.lu_factor", a)
    packed, pivots, _ = widened(factors.lu, a)
    return packed, pivots


def lu_solve(
    lu_and_piv: tuple[Any, Any], b: Any, trans: int = 0, overwrite_b: bool = False, check_finite: bool = True
) -> Any:
    """Solutions of a x = b from `lu_factor(a)`; of a^T x = b (trans 1), of a^H x = b (2).

    Parameters
    ----------
    lu_and_piv : (inexact[..., n, n], int[..., n])
    b : inexact[n] or [..., n, k]
    trans : 0, 1 or 2

    Returns
    -------
    array of the shape of `b`
        Leading axes broadcast.

    Raises
    ------
    ShapeError
        The matrices are not square, or `b` has other rows.
    ValueError
        Another `trans`.
    """
    if trans not in (0, 1, 2):
        raise ValueError(f"lu_solve: trans is 0 (a), 1 (transposed) or 2 (adjoint), got {trans!r}")
    packed, pivots = lu_and_piv
    packed, b = inexact("linalg.lu_solve", packed, b)
    pivots = pnp.asarray(pivots)
    n = packed.shape[-1]
    order = factors.lu_pivots_to_permutation(pivots, n)

    def solver(packed: Any, b: Any) -> Any:
        rows = pnp.broadcast_to(order, (*packed.shape[:-2], n))
        if trans == 0:
            b = pnp.take_along_axis(b, rows[..., None], axis=-2)
        flags = {"left_side": True, "transpose_a": trans > 0, "conjugate_a": trans == 2}
        for lower in (False, True) if trans else (True, False):
            b = factors.triangular_solve(packed, b, lower=lower, unit_diagonal=lower, **flags)
        return pnp.take_along_axis(b, pnp.argsort(rows, axis=-1)[..., None], axis=-2) if trans else b

    return _with_columns(solver, "lu_solve", packed, b)


def lu(a: Any, permute_l: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Any, ...]:
    """(P, L, U) with a = P L U, or (P L, U) if `permute_l`."""
    a = matrices_of("linalg.lu", a)

    def factor(x: Any) -> tuple[Any, ...]:
        packed, _, order = factors.lu(x)
        m, n = x.shape[-2:]
        k = min(m, n)
        dtype = dtypes.real_dtype(x.dtype)
        p = (order[..., None, :] == pnp.arange(m)[:, None]).astype(dtype)
        low = pnp.tril(packed, -1)[..., :k] + pnp.eye(m, k, dtype=x.dtype)
        up = pnp.triu(packed)[..., :k, :]
        return (times(p.astype(x.dtype), low), up) if permute_l else (p, low, up)

    return widened(factor, a)


def qr(
    a: Any,
    overwrite_a: bool = False,
    lwork: Any = None,
    mode: str = "full",
    pivoting: bool = False,
    check_finite: bool = True,
) -> tuple[Any, ...]:
    """(Q, R) with a = Q R; with `pivoting` also the permutation p: a[:, p] = Q R.

    Parameters
    ----------
    a : inexact[..., m, n]
    mode : "full", "economic" or "r"
        All or min(m, n) columns of Q; R without Q.
    pivoting : bool

    Returns
    -------
    (inexact[..., m, k], inexact[..., k, n])
        k is m for "full", min(m, n) for "economic". With `pivoting`, int32[..., n] follows.

    Raises
    ------
    ValueError
        Another mode.
    """
    if mode not in ("full", "economic", "r"):
        raise ValueError(f"Unsupported QR decomposition mode '{mode}'")
    a = matrices_of("linalg.qr", a)
    out = widened(lambda x: factors.qr(x, pivoting=pivoting, full_matrices=mode != "economic"), a)
    return tuple(out[1:]) if mode == "r" else tuple(out)


def qr_multiply(
    a: Any, c: Any, mode: str = "right", pivoting: bool = False, conjugate: bool = False, overwrite_a: bool = False,
    overwrite_c: bool = False,
) -> tuple[Any, ...]:  # fmt: skip
    """(c Q, R) for a = Q R with min(m, n) columns in Q; (Q c, R) with mode "left"; with `pivoting` also the permutation.

    Parameters
    ----------
    a : inexact[m, n]
    c : inexact[m] or [k, m] ("right"), inexact[min(m, n)] or [min(m, n), k] ("left")
    conjugate : bool
        Multiply with the conjugate of Q.
    mode : "right" or "left"
    pivoting : bool

    Returns
    -------
    (array of the shape of `c` with k for the contracted size, inexact[k, n]), k = min(m, n)
        With `pivoting`, int32[n] follows.

    Raises
    ------
    ValueError
        Another mode.
    """
    if mode not in ("left", "right"):
        raise ValueError(f"qr_multiply: mode is 'left' or 'right', got {mode!r}")
    a, c = inexact("linalg.qr_multiply", a, c)
    q, *rest = qr(a, mode="economic", pivoting=pivoting)
    q = pnp.conj(q) if conjugate else q
    return (times(q, c) if mode == "left" else times(c, q), *rest)


# --- spectra ------------------------------------------------------------------------------------------------------------------


def svd(
    a: Any, full_matrices: bool = True, compute_uv: bool = True, overwrite_a: bool = False, check_finite: bool = True,
    lapack_driver: str = "gesdd",
) -> Any:  # fmt: skip
    """(U, s, Vh) with a = U diag(s) Vh, or s.

    Parameters
    ----------
    a : inexact[..., m, n]
    full_matrices : bool
        Square U and Vh; else min(m, n) columns and rows.
    compute_uv : bool
        All three; else s alone.

    Returns
    -------
    (inexact[..., m, k], float[..., min(m, n)] descending, inexact[..., l, n]), or the second
    """
    out = base.svd(a, full_matrices=full_matrices, compute_uv=compute_uv)
    return tuple(out) if compute_uv else out


def eigh(
    a: Any, b: Any = None, lower: bool = True, eigvals_only: bool = False, overwrite_a: bool = False, overwrite_b: bool = False,
    turbo: bool = True, eigvals: None = None, type: int = 1, check_finite: bool = True,
) -> Any:  # fmt: skip
    """Eigenvalues, and eigenvectors as columns, of Hermitian matrices.

    Parameters
    ----------
    a : inexact[..., n, n]
    b : inexact[..., n, n], optional
        Positive definite: generalized problems.
    lower : bool
        Which triangle is read.
    eigvals : None
        For a part of the spectrum, take a part of the result.
    type : 1, 2 or 3
        With `b`: a v = w b v, a b v = w v, or b a v = w v.
    eigvals_only : bool

    Returns
    -------
    (float[..., n] ascending, inexact[..., n, n]), or the former if `eigvals_only`

    Raises
    ------
    ValueError
        `eigvals` is given, or another type.
    """
    if eigvals is not None:
        raise ValueError(
            "eigh takes no eigvals: shapes of results must not depend on values; take a part of the result"
        )
    if type not in (1, 2, 3):
        raise ValueError(f"eigh: type must be 1, 2 or 3, got {type}")
    a = matrices_of("linalg.eigh", a, True)
    if b is None:
        v, w = widened(lambda x: factors.eigh(x, lower=lower, symmetrize_input=False), a)
        return w if eigvals_only else (w, v)
    a, b = inexact("linalg.eigh", a, b)

    def decompose(a: Any, b: Any) -> tuple[Any, Any]:
        a = _hermitian(a, lower)
        low = base.cholesky(_hermitian(b, lower))
        if type == 1:
            half = factors.triangular_solve(low, a, left_side=True, lower=True)
            inner = factors.triangular_solve(low, adjoint(half), left_side=True, lower=True)
        else:
            inner = times(adjoint(low), times(a, low))
        v, w = factors.eigh(factoring.symmetrized(inner))
        if type == 3:
            return times(low, v), w
        return factors.triangular_solve(low, v, left_side=True, lower=True, transpose_a=True, conjugate_a=True), w

    v, w = widened(decompose, a, b)
    return w if eigvals_only else (w, v)


def _hermitian(x: Any, lower: bool) -> Any:
    """The Hermitian matrix that one triangle tells."""
    half = pnp.tril(x, -1) if lower else pnp.triu(x, 1)
    return half + adjoint(half) + pnp.eye(x.shape[-1], dtype=x.dtype) * pnp.real(x).astype(x.dtype)


def eigh_tridiagonal(
    d: Any, e: Any, *, eigvals_only: bool = False, select: str = "a", select_range: tuple[float, float] | None = None,
    tol: float | None = None, key: Any = None,
) -> Any:  # fmt: skip
    """Eigenvalues and eigenvectors of a Hermitian tridiagonal matrix.

    Parameters
    ----------
    d : float[n]
        Diagonal.
    e : inexact[n - 1]
        Below the diagonal.
    select : "a", "v" or "i"
        All eigenvalues, those in the half-open interval `select_range` (values must be concrete), those with indices from
        the first to the second of it (inclusive).
    tol, key
        Not needed: the method is direct.
    eigvals_only : bool
    select_range : (float, float) or (int, int), optional

    Returns
    -------
    (float[k] ascending, inexact[n, k]), or the former if `eigvals_only`

    Raises
    ------
    ShapeError
        `d` is no vector, or `e` is not shorter by one.
    ValueError
        An unknown `select`, or a `select_range` that is missing, empty or outside.
    """
    if select not in ("a", "v", "i"):
        raise ValueError(f"eigh_tridiagonal: select is 'a' (all), 'v' (by values) or 'i' (by indices), got {select!r}")
    if select != "a" and (select_range is None or len(select_range) != 2):
        raise ValueError(f"for select='{select}', select_range must be a pair; got {select_range}")
    d, e = pnp.asarray(d), pnp.asarray(e)
    d, e = inexact("linalg.eigh_tridiagonal", d, e)
    if d.ndim != 1 or e.shape != (d.shape[0] - 1,):
        raise errors.ShapeError(
            f"eigh_tridiagonal takes n diagonal and n - 1 other entries, got {d.shape} and {e.shape}"
        )
    matrix = pnp.diag(pnp.real(d).astype(d.dtype)) + pnp.diag(e, -1)
    v, w = widened(lambda x: factors.eigh(_hermitian(x, True), symmetrize_input=False), matrix)
    if select == "i":
        first, last = (int(i) for i in select_range or ())
        if not 0 <= first <= last < d.shape[0]:
            raise ValueError(
                f"select_range must lie within 0 and {d.shape[0] - 1} and not be empty, got {select_range}"
            )
        v, w = v[:, first : last + 1], w[first : last + 1]
    elif select == "v":
        low, high = select_range or (-np.inf, np.inf)
        kept = np.flatnonzero((np.asarray(w) > low) & (np.asarray(w) <= high))
        v, w = v[:, kept], w[kept]
    return w if eigvals_only else (w, v)


def schur(a: Any, output: str = "real") -> tuple[Any, Any]:
    """(T, Z) with a = Z T Z^H, T triangular; with 2 by 2 blocks for real `a` and output "real".

    Raises
    ------
    ValueError
        Another output.
    """
    if output not in ("real", "complex"):
        raise ValueError(f"schur: output is 'real' or 'complex', got {output!r}")
    a = matrices_of("linalg.schur", a, True)
    if output == "complex":
        a = a.astype(dtypes.to_complex(a.dtype))
    return widened(factors.schur, a)


def rsf2csf(T: Any, Z: Any, check_finite: bool = True) -> tuple[Any, Any]:
    """The complex Schur form (T, Z) from the real one: rotations make each 2 by 2 block triangular.

    Parameters
    ----------
    T, Z : inexact[..., n, n]
        Leading axes broadcast.

    Returns
    -------
    (complex[..., n, n], complex[..., n, n])

    Raises
    ------
    ShapeError
        The matrices are not square, or of different sizes.
    """
    T, Z = inexact("linalg.rsf2csf", T, Z)
    if T.ndim < 2 or T.shape[-1] != T.shape[-2] or Z.ndim < 2 or Z.shape[-2:] != T.shape[-2:]:
        raise errors.ShapeError(f"rsf2csf takes square matrices of one size, got {T.shape} and {Z.shape}")
    dtype = dtypes.to_complex(T.dtype)
    return pnp.vectorize(_rotated, signature="(n,n),(n,n)->(n,n),(n,n)")(T.astype(dtype), Z.astype(dtype))


def _rotated(t: Any, z: Any) -> tuple[Any, Any]:
    """Rotate the pairs of rows and columns m - 1, m, from the last to the first, so that t[m, m - 1] becomes zero."""
    n, dtype = t.shape[0], t.dtype
    epsilon = float(dtypes.finfo(dtype).eps)
    place = np.arange(n)

    def rotate(i: Any, state: Any) -> Any:
        t, z = state
        m = n - 1 - i
        pair = pnp.stack([m - 1, m])
        block = t[pair][:, pair]
        below = block[1, 0]
        small = pnp.abs(below) <= epsilon * (pnp.abs(block[0, 0]) + pnp.abs(block[1, 1]))
        values = factors.eig(block, compute_left_eigenvectors=False, compute_right_eigenvectors=False)[0]
        mu = values[0] - block[1, 1]
        length = pnp.sqrt(pnp.abs(mu) ** 2 + pnp.abs(below) ** 2)
        length = pnp.where(small, 1, length).astype(dtype)
        c, s = pnp.where(small, 1, mu / length), pnp.where(small, 0, below / length)
        turn = pnp.stack([pnp.stack([pnp.conj(c), s]), pnp.stack([-s, c])]).astype(dtype)
        # left of the pair's rows and under its columns the form is zero
        t = t.at[pair].set(pnp.where(place >= m - 1, times(turn, t[pair]), t[pair]))
        t = t.at[:, pair].set(pnp.where(place[:, None] <= m, times(t[:, pair], adjoint(turn)), t[:, pair]))
        z = z.at[:, pair].set(times(z[:, pair], adjoint(turn)))
        return t.at[m, m - 1].set(0), z

    return fori_loop(0, n - 1, rotate, (t, z))


def hessenberg(a: Any, *, calc_q: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """H with a = Q H Q^H, zero below the first subdiagonal; (H, Q) if `calc_q`."""
    a = matrices_of("linalg.hessenberg", a, True)
    n = a.shape[-1]

    def reduce(x: Any) -> Any:
        packed, taus = factors.hessenberg(x)
        h = pnp.triu(packed, -1)
        if not calc_q:
            return h
        q = pnp.broadcast_to(pnp.eye(n, dtype=x.dtype), x.shape)
        if n > 1:
            q = q.at[..., 1:, 1:].set(factors.householder_product(packed[..., 1:, :-1], taus))
        return h, q

    return widened(reduce, a)
