# SPDX-License-Identifier: Apache-2.0
"""Functions of matrices: exponential, square root, any analytic function; Sylvester's equation.

Matrices have the shape [..., n, n]; results have their inexact dtype, complex where a function says so.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from purax import dtypes, errors
from purax import numpy as pnp
from purax.control.branch import cond
from purax.control.custom import custom_jvp
from purax.control.jit import jit
from purax.control.loop import fori_loop, scan
from purax.control.solve import custom_linear_solve
from purax.numpy.norms import adjoint, inexact, matrices_of, widened
from purax.primitives import linalg as factors
from purax.scipy.linalg.factorizations import rsf2csf, schur, times
from purax.transforms.jvp import jvp

__all__ = ["expm", "expm_frechet", "funm", "solve_sylvester", "sqrtm"]


# --- exponential --------------------------------------------------------------------------------------------------------------


def _pade(order: int) -> list[float]:
    """Coefficients of the numerator of the diagonal approximant of exp, scaled so that the first is 1."""
    factorial = math.factorial
    return [
        factorial(2 * order - j) * factorial(order) / (factorial(2 * order) * factorial(j) * factorial(order - j))
        for j in range(order + 1)
    ]


def _expm(a: Any, *, upper_triangular: bool, max_squarings: int) -> Any:
    """Scaling, Pade's approximant, squaring (Higham, 2005). More squarings than allowed give NaN."""
    double = a.dtype in (np.float64, np.complex128)
    order, radius = (13, 5.371920351148152) if double else (7, 3.925724783138660)
    size = pnp.max(pnp.sum(pnp.abs(a), axis=-2), axis=-1)
    count = pnp.maximum(0, pnp.ceil(pnp.log2(pnp.where(size > 0, size, 1) / radius)))
    scaled = a * pnp.exp2(-count)[..., None, None].astype(a.dtype)
    one = pnp.broadcast_to(pnp.eye(a.shape[-1], dtype=a.dtype), a.shape)
    coefficients = _pade(order)
    square = times(scaled, scaled)
    even, odd, power = coefficients[0] * one, coefficients[1] * one, one
    for j in range(2, order + 1, 2):
        power = times(power, square)
        even, odd = even + coefficients[j] * power, odd + coefficients[j + 1] * power
    odd = times(scaled, odd)
    if upper_triangular:
        value = factors.triangular_solve(even - odd, even + odd, left_side=True)
    else:
        value = factors.linear_solve(even - odd, even + odd)

    def square_again(value: Any, i: Any) -> Any:
        active = i.astype(count.dtype) < count

        def squared(value: Any) -> Any:
            return pnp.where(active[..., None, None], times(value, value), value)

        return cond(pnp.any(active), squared, lambda value: value, value), None

    if max_squarings:
        value = scan(square_again, value, np.arange(max_squarings, dtype=np.int32))[0]
    return pnp.where((count > max_squarings)[..., None, None], np.nan, value)


_expm_jit = jit(_expm, static_argnames=("upper_triangular", "max_squarings"))


def expm(A: Any, *, upper_triangular: bool = False, max_squarings: int = 16) -> Any:
    """Exponential of matrices.

    Parameters
    ----------
    A : inexact[..., n, n]
    upper_triangular : bool
        A is: a triangular system replaces a general one.
    max_squarings : int
        Matrices of a norm beyond about 4 * 2**max_squarings give NaN.

    Returns
    -------
    inexact[..., n, n]
    """
    A = matrices_of("linalg.expm", A, True)
    if A.size == 0:
        return A
    return widened(lambda x: _expm_jit(x, upper_triangular=upper_triangular, max_squarings=max_squarings), A)


def expm_frechet(A: Any, E: Any, *, method: str | None = None, compute_expm: bool = True) -> Any:
    """Derivative of `expm` at A in the direction E, after the exponential itself if `compute_expm`.

    Parameters
    ----------
    A, E : inexact[n, n]
    method : None
    compute_expm : bool

    Returns
    -------
    (inexact[n, n], inexact[n, n]), or the latter

    Raises
    ------
    ShapeError
        The matrices are not square, or of different shapes.
    """
    A, E = inexact("linalg.expm_frechet", A, E)
    if A.ndim < 2 or A.shape[-1] != A.shape[-2] or A.shape != E.shape:
        raise errors.ShapeError(f"expm_frechet takes square matrices of one shape, got {A.shape} and {E.shape}")
    value, derivative = jvp(expm, (A,), (E,))
    return (value, derivative) if compute_expm else derivative


# --- other functions ----------------------------------------------------------------------------------------------------------


def _by_diagonals(start: Any, entry: Callable[[Any], Any]) -> Any:
    """Fill the strict upper triangle diagonal by diagonal: `entry(so far)` gives all entries, right on the next diagonal."""
    n = start.shape[-1]
    gap = np.arange(n)[None, :] - np.arange(n)[:, None]
    return fori_loop(1, n, lambda p, value: pnp.where(gap == p, entry(value), value), start)


def _root_of_triangle(t: Any) -> Any:
    """Square root of an upper triangular matrix (Bjorck, Hammarling, 1983)."""
    roots = pnp.sqrt(pnp.diagonal(t))
    sums = roots[:, None] + roots[None, :]
    safe = pnp.where(sums == 0, 1, sums)
    return _by_diagonals(pnp.diag(roots), lambda u: pnp.where(sums == 0, 0, (t - times(u, u)) / safe))


def _triangular(a: Any) -> tuple[Any, Any]:
    """The complex Schur form. Real eigenvalues of a real matrix stay real: functions that jump at the negative axis depend on it."""
    return schur(a) if dtypes.is_complex(a.dtype) else rsf2csf(*schur(a))


@custom_jvp
def _root(a: Any) -> Any:
    t, z = _triangular(a)
    return times(times(z, _root_of_triangle(t)), adjoint(z))


@_root.defjvp
def _root_rule(primals: Any, tangents: Any) -> Any:
    """x dx + dx x = da."""
    (a,), (da,) = primals, tangents
    x = _root(a)
    return x, solve_sylvester(x, x, da.astype(x.dtype))


def sqrtm(A: Any, blocksize: int = 1) -> Any:
    """Principal square root of matrices, by their Schur forms (Bjorck and Hammarling, 1983).

    Parameters
    ----------
    A : inexact[..., n, n]
    blocksize : int
        Of no effect.

    Returns
    -------
    complex[..., n, n]
        Differentiable unless eigenvalues are zero or negative.
    """
    A = matrices_of("linalg.sqrtm", A, True)
    return pnp.vectorize(_root, signature="(n,n)->(n,n)")(A)


def funm(A: Any, func: Callable[[Any], Any], disp: bool = True) -> Any:
    """An analytic function of a matrix, by Parlett's recurrence on its Schur form.

    Parameters
    ----------
    A : inexact[n, n]
    func : callable
        Maps complex arrays element by element.
    disp : bool
        Return the value alone.

    Returns
    -------
    complex[n, n], or this and an estimate of the relative error

    Raises
    ------
    ShapeError
        Not one square matrix.
    """
    A = matrices_of("linalg.funm", A, True)
    if A.ndim != 2:
        raise errors.ShapeError(f"funm takes one square matrix, got shape {A.shape}")
    t, z = _triangular(A)
    eigenvalues = pnp.diagonal(t)
    start = pnp.diag(pnp.asarray(func(eigenvalues)).astype(t.dtype))
    gaps = eigenvalues[None, :] - eigenvalues[:, None]
    safe = pnp.where(gaps == 0, 1, gaps)
    value = _by_diagonals(start, lambda f: (times(t, f) - times(f, t)) / safe)
    value = times(times(z, value), adjoint(z))
    if disp:
        return value
    epsilon = float(dtypes.finfo(t.dtype).eps)
    above = np.triu(np.ones(t.shape, bool), 1)
    smallest = pnp.min(pnp.where(above & (gaps != 0), pnp.abs(gaps), np.inf), initial=np.inf)
    smallest = pnp.where(pnp.isinf(smallest) | pnp.any(above & (gaps == 0)), epsilon, smallest)
    norm = pnp.max(pnp.sum(pnp.abs(pnp.triu(t, 1)), axis=0))
    error = pnp.clip(epsilon / smallest * norm, epsilon, 1)
    return value, pnp.where(pnp.all(pnp.isfinite(value)), error, np.inf)


def solve_sylvester(A: Any, B: Any, C: Any, *, method: str = "schur", tol: float = 1e-8) -> Any:
    """The solution X of A X + X B = C.

    Parameters
    ----------
    A : inexact[..., m, m]
    B : inexact[..., n, n]
    C : inexact[..., m, n]
        Leading axes broadcast.
    method : "schur" or "eigen"
        Triangular systems in Schur's bases; or division by sums of eigenvalues in eigenvectors' bases.
    tol : float
        NaN where eigenvalues of A and -B are as close as this: the equation has no unique solution.

    Returns
    -------
    inexact[..., m, n]

    Raises
    ------
    ShapeError
        The sizes do not match.
    ValueError
        Another method.
    """
    if method not in _METHODS:
        raise ValueError(f"solve_sylvester: method is 'schur' or 'eigen', got {method!r}")
    A, B, C = inexact("linalg.solve_sylvester", A, B, C)
    cores = [x.shape[-2:] for x in (A, B, C)]
    if min(A.ndim, B.ndim, C.ndim) < 2 or cores[:2] != [(size, size) for size in cores[2]]:
        raise errors.ShapeError(
            f"solve_sylvester takes shapes [..., m, m], [..., n, n] and [..., m, n], got {A.shape}, {B.shape}, {C.shape}"
        )
    solve = functools.partial(_sylvester, method=_METHODS[method], tol=tol)
    return pnp.vectorize(solve, signature="(m,m),(n,n),(m,n)->(m,n)")(A, B, C)


def _sylvester(a: Any, b: Any, c: Any, *, method: Callable[..., Any], tol: float) -> Any:
    """One equation; its derivatives are solutions of equations with the same a and b."""

    def solver(a: Any, b: Any, c: Any) -> Any:
        dtype = dtypes.to_complex(c.dtype)
        x, sums = method(a.astype(dtype), b.astype(dtype), c.astype(dtype))
        x = x if dtypes.is_complex(c.dtype) else pnp.real(x)
        return pnp.where(pnp.any(pnp.abs(sums) < tol), np.nan, x)

    return custom_linear_solve(
        lambda x: times(a, x) + times(x, b), c, lambda _, c: solver(a, b, c), lambda _, c: solver(a.T, b.T, c)
    )


def _by_schur_forms(a: Any, b: Any, c: Any) -> tuple[Any, Any]:
    """The solution column by column in Schur's bases, and the sums of eigenvalues that it divides by."""
    (r, u), (s, v) = schur(a), schur(b)
    f = times(times(adjoint(u), c), v)

    def column(y: Any, k: Any) -> Any:
        right = f[:, k] - times(y, s[:, k])
        shifted = r + s[k, k] * pnp.eye(r.shape[0], dtype=r.dtype)
        return y.at[:, k].set(factors.triangular_solve(shifted, right[:, None], left_side=True)[:, 0]), None

    y = scan(column, pnp.zeros_like(f), np.arange(f.shape[1], dtype=np.int32))[0]
    return times(times(u, y), adjoint(v)), pnp.diagonal(r)[:, None] + pnp.diagonal(s)[None, :]


def _by_eigenvectors(a: Any, b: Any, c: Any) -> tuple[Any, Any]:
    """The solution in the bases of eigenvectors, and the sums of eigenvalues that it divides by."""
    (a, u), (b, v) = (factors.eig(x, compute_left_eigenvectors=False) for x in (a, b))
    sums = a[:, None] + b[None, :]
    f = times(factors.linear_solve(u, c), v) / sums
    x = pnp.matrix_transpose(factors.linear_solve(pnp.matrix_transpose(v), pnp.matrix_transpose(times(u, f))))
    return x, sums


_METHODS = {"schur": _by_schur_forms, "eigen": _by_eigenvectors}
