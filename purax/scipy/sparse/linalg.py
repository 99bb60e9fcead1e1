# SPDX-License-Identifier: Apache-2.0
"""Linear systems by iteration: conjugate gradients, stabilized biconjugate gradients, minimal residuals.

The operator is a matrix or a function of pytrees. Derivatives are implicit: one more solve, never a walk through the iterations.

Solutions have the structure, the shapes and the dtypes of `b`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from purax import dtypes, tree
from purax import numpy as pnp
from purax.control.loop import scan, while_loop
from purax.control.solve import custom_linear_solve
from purax.core.trace import aval_of
from purax.numpy.norms import adjoint
from purax.numpy.promotion import convert, promote_dtypes_inexact
from purax.primitives.stop_gradient import stop_gradient
from purax.scipy.linalg.factorizations import times

__all__ = ["bicgstab", "cg", "gmres"]


# --- pytrees as vectors -------------------------------------------------------------------------------------------------------


class _Space:
    """The vectors that stand for pytrees like `b`."""

    def __init__(self, b: Any) -> None:
        leaves, self.structure = tree.flatten(b)
        self.avals = [aval_of(x) for x in leaves]
        self.dtype = promote_dtypes_inexact(*leaves)[0].dtype if leaves else dtypes.default_float()
        self.size = sum(aval.size for aval in self.avals)

    def vector(self, x: Any) -> Any:
        """All elements of a pytree."""
        leaves = [pnp.ravel(pnp.asarray(leaf)).astype(self.dtype) for leaf in tree.leaves(x)]
        return pnp.concatenate(leaves) if leaves else pnp.zeros(0, self.dtype)

    def pytree(self, vector: Any) -> Any:
        """The pytree of these elements."""
        leaves, start = [], 0
        for aval in self.avals:
            leaf = pnp.reshape(vector[start : start + aval.size], aval.shape)
            leaves.append(convert(leaf, dtypes.to_inexact(aval.dtype), aval.weak_type))
            start += aval.size
        return self.structure.unflatten(leaves)

    def operator(self, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """A function of pytrees as one of vectors."""
        return lambda vector: self.vector(function(self.pytree(vector)))


def _as_function(a: Any, name: str) -> Callable[[Any], Any]:
    if callable(a):
        return a
    if not hasattr(a, "__matmul__"):
        raise TypeError(f"the operator is a function or a matrix, got {type(a).__name__}")
    shape = getattr(a, "shape", None)
    if shape is not None and (len(shape) != 2 or shape[0] != shape[1]):
        raise ValueError(f"the operator must be square, got shape {shape}")
    if not hasattr(a, "dtype"):
        return lambda x: a @ x
    return lambda x: pnp.matmul(a, x, precision="highest")


def _solve(
    run: Callable[..., Any], A: Any, b: Any, x0: Any, maxiter: int | None, M: Any, symmetric: bool
) -> tuple[Any, None]:
    """Check, go over to vectors, and give `run(operator, b, x0, maxiter, preconditioner)` implicit derivatives."""
    b = tree.map(pnp.asarray, b)
    x0 = tree.map(pnp.zeros_like, b) if x0 is None else tree.map(pnp.asarray, x0)
    matrix, preconditioner = _as_function(A, "A"), (lambda x: x) if M is None else _as_function(M, "M")
    space = _Space(b)
    if tree.structure(x0) != space.structure:
        raise ValueError(f"the start x0 is a pytree like b, got {tree.structure(x0)} and {space.structure}")
    shapes = [[aval_of(x).shape for x in tree.leaves(y)] for y in (x0, b)]
    if shapes[0] != shapes[1]:
        raise ValueError(f"the start x0 has the shapes of b, got {shapes[0]} and {shapes[1]}")
    limit = 10 * space.size if maxiter is None else maxiter
    start, inverse = stop_gradient(space.vector(x0)), space.operator(preconditioner)

    def solve(operator: Callable[[Any], Any], right: Any) -> Any:
        return run(operator, right, start, limit, inverse)

    x = custom_linear_solve(space.operator(matrix), space.vector(b), solve, solve, symmetric=symmetric)
    return space.pytree(x), None


def _inner(x: Any, y: Any) -> Any:
    return pnp.sum(pnp.conj(x) * y)


def _square(x: Any) -> Any:
    return pnp.sum(pnp.real(pnp.conj(x) * x))


def _limit(b: Any, tol: Any, atol: Any) -> Any:
    """The square of the residual's norm that is small enough."""
    return pnp.maximum(pnp.square(tol) * _square(b), pnp.square(atol))


# --- conjugate gradients ------------------------------------------------------------------------------------------------------


def cg(
    A: Any, b: Any, x0: Any = None, *, tol: float = 1e-5, atol: float = 0.0, maxiter: int | None = None, M: Any = None
) -> tuple[Any, None]:
    """Solve A x = b for Hermitian positive definite A by conjugate gradients.

    Parameters
    ----------
    A : inexact[n, n] or callable
        The matrix, or what multiplies it with a pytree like `b`.
    b : pytree of arrays
    x0 : pytree like b, optional
        First guess; zeros by default.
    tol, atol : float
        Stop when the norm of the residual is at most max(tol norm(b), atol).
    maxiter : int, optional
        Number of iterations at most; by default ten times the number of elements.
    M : as A, optional
        An approximation of the inverse of A.

    Returns
    -------
    (x, None)

    Raises
    ------
    ValueError
        `x0` has not the structure and shapes of `b`.
    """

    def run(operator: Any, b: Any, x0: Any, limit: Any, inverse: Any) -> Any:
        goal = _limit(b, tol, atol)

        def goes_on(state: Any) -> Any:
            _, r, _, _, k = state
            return (_square(r) > goal) & (k < limit)

        def step(state: Any) -> Any:
            x, r, p, gamma, k = state
            image = operator(p)
            alpha = gamma / _inner(p, image)
            x, r = x + alpha * p, r - alpha * image
            z = inverse(r)
            new = _inner(r, z)
            return x, r, z + new / gamma * p, new, k + 1

        r = b - operator(x0)
        z = inverse(r)
        return while_loop(goes_on, step, (x0, r, z, _inner(r, z), np.int32(0)))[0]

    return _solve(run, A, b, x0, maxiter, M, True)


def bicgstab(
    A: Any, b: Any, x0: Any = None, *, tol: float = 1e-5, atol: float = 0.0, maxiter: int | None = None, M: Any = None
) -> tuple[Any, None]:
    """Solve A x = b by stabilized biconjugate gradients (van der Vorst, 1992); A need not be Hermitian.

    Parameters
    ----------
    A, b, x0, tol, atol, maxiter, M
        As in `cg`.

    Returns
    -------
    (x, None)

    Raises
    ------
    ValueError
        `x0` has not the structure and shapes of `b`.
    """

    def run(operator: Any, b: Any, x0: Any, limit: Any, inverse: Any) -> Any:
        goal = _limit(b, tol, atol)

        def goes_on(state: Any) -> Any:
            _, r, *_, k = state
            return (_square(r) > goal) & (k < limit) & (k >= 0)

        def step(state: Any) -> Any:
            x, r, p, q, alpha, omega, rho, k = state
            new = _inner(shadow, r)
            p = r + new / rho * alpha / omega * (p - omega * q)
            p_hat = inverse(p)
            q = operator(p_hat)
            alpha = new / _inner(shadow, q)
            s = r - alpha * q
            done = _square(s) <= goal
            s_hat = inverse(s)
            t = operator(s_hat)
            omega = _inner(t, s) / _inner(t, t)
            x = pnp.where(done, x + alpha * p_hat, x + alpha * p_hat + omega * s_hat)
            r = pnp.where(done, s, s - omega * t)
            # a breakdown: the next direction is not defined
            stuck = ~done & ((omega == 0) | (alpha == 0) | (new == 0))
            return x, r, p, q, alpha, omega, new, pnp.where(stuck, -1, k + 1)

        shadow = r = b - operator(x0)
        one, zero = pnp.ones((), b.dtype), pnp.zeros_like(b)
        return while_loop(goes_on, step, (x0, r, zero, zero, one, one, one, np.int32(0)))[0]

    return _solve(run, A, b, x0, maxiter, M, False)


# --- minimal residuals --------------------------------------------------------------------------------------------------------


def _arnoldi(operator: Callable[[Any], Any], r: Any, steps: int) -> tuple[Any, Any, Any]:
    """An orthonormal basis [n, steps + 1] of r, A r, A A r, ..., the matrix [steps + 1, steps] of A in it, and the norm of r."""
    epsilon = float(dtypes.finfo(r.dtype).eps)

    def normalized(v: Any, scale: Any) -> tuple[Any, Any]:
        size = pnp.sqrt(_square(v))
        alive = size > epsilon * scale
        return pnp.where(alive, v / pnp.where(alive, size, 1), 0), pnp.where(alive, size, 0)

    def step(state: Any, k: Any) -> Any:
        basis, matrix = state
        image = operator(basis[:, k])
        rest, column = image, pnp.zeros(steps + 1, r.dtype)
        for _ in range(2):  # the second time takes away what rounding left
            part = times(adjoint(basis), rest[:, None])[:, 0]
            rest, column = rest - times(basis, part[:, None])[:, 0], column + part
        rest, size = normalized(rest, pnp.sqrt(_square(image)))
        column = column.at[k + 1].set(size.astype(r.dtype))
        return (basis.at[:, k + 1].set(rest), matrix.at[:, k].set(column)), None

    first, size = normalized(r, 0)
    basis = pnp.zeros((r.shape[0], steps + 1), r.dtype).at[:, 0].set(first)
    state = (basis, pnp.zeros((steps + 1, steps), r.dtype))
    return (*scan(step, state, np.arange(steps, dtype=np.int32))[0], size)


def gmres(
    A: Any, b: Any, x0: Any = None, *, tol: float = 1e-5, atol: float = 0.0, restart: int = 20, maxiter: int | None = None,
    M: Any = None, solve_method: str = "batched",
) -> tuple[Any, None]:  # fmt: skip
    """Solve A x = b by minimal residuals in Krylov spaces, begun anew after `restart` products.

    Parameters
    ----------
    restart : int
        Size of the spaces.
    maxiter : int, optional
        Number of spaces at most.
    solve_method : "batched" or "incremental"
        Both names solve the small least-squares problem once per space.
    A, b, x0, tol, atol, M
        As in `cg`; the stopping rule goes by the preconditioned residual.

    Returns
    -------
    (x, None)

    Raises
    ------
    ValueError
        Another `solve_method`, or `x0` has not the structure and shapes of `b`.
    """
    if solve_method not in ("batched", "incremental"):
        raise ValueError(f"gmres: solve_method is 'batched' or 'incremental', got {solve_method!r}")

    def run(operator: Any, b: Any, x0: Any, limit: Any, inverse: Any) -> Any:
        steps = min(restart, b.shape[0])
        goal = _limit(inverse(b), tol, atol)

        def goes_on(state: Any) -> Any:
            _, r, k = state
            return (_square(r) > goal) & (k < limit)

        def step(state: Any) -> Any:
            x, r, k = state
            basis, matrix, size = _arnoldi(lambda v: inverse(operator(v)), r, steps)
            right = pnp.zeros(steps + 1, b.dtype).at[0].set(size.astype(b.dtype))
            y = pnp.linalg.lstsq(matrix, right)[0]
            x = x + times(basis[:, :steps], y[:, None])[:, 0]
            return x, inverse(b - operator(x)), k + 1

        return while_loop(goes_on, step, (x0, inverse(b - operator(x0)), np.int32(0)))[0]

    return _solve(run, A, b, x0, maxiter, M, False)
