# SPDX-License-Identifier: Apache-2.0
"""Minimization of functions of one vector."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from purax import dtypes
from purax import numpy as pnp
from purax.control.loop import while_loop
from purax.numpy.promotion import promote_inexact
from purax.transforms.grad import value_and_grad

__all__ = ["OptimizeResults", "minimize"]


class OptimizeResults(NamedTuple):
    """Result of `minimize`.

    Parameters
    ----------
    x : float[n]
        The last point.
    success : bool[]
        Whether the gradient is small there.
    status : int32[]
        0: success, 1: as many steps as allowed, 3: no step that makes the function smaller.
    fun, jac : float[], float[n]
        Value and gradient at `x`.
    hess_inv : float[n, n]
        Approximate inverse of the matrix of second derivatives.
    nfev, njev, nit : int32[]
        Evaluations of the function and the gradient; steps.
    """

    x: Any
    success: Any
    status: Any
    fun: Any
    jac: Any
    hess_inv: Any
    nfev: Any
    njev: Any
    nit: Any


class _Search(NamedTuple):
    """State of a line search: bounds of the step, the step, value and gradient there, what ended the search."""

    low: Any
    high: Any
    step: Any
    value: Any
    gradient: Any
    done: Any
    tries: Any


def _line_search(both: Any, x: Any, value: Any, gradient: Any, direction: Any, first: Any, limit: int) -> _Search:
    """A step by Wolfe's conditions: shorter (by a parabola) where the value is too large, longer where it still falls steeply."""
    slope = pnp.dot(gradient, direction, precision="highest")

    def at(step: Any) -> Any:
        return both(x + step * direction)

    def goes_on(s: _Search) -> Any:
        return ~s.done & (s.tries < limit)

    def improve(s: _Search) -> _Search:
        found, new_gradient = at(s.step)
        high_up = ~(found <= value + 1e-4 * s.step * slope)
        steep = pnp.dot(new_gradient, direction, precision="highest") < 0.9 * slope
        low, high = pnp.where(~high_up & steep, s.step, s.low), pnp.where(high_up, s.step, s.high)
        done = ~high_up & ~steep
        # the parabola through value and slope at `low`, and the value at a step that was too long
        width, fall = s.step - s.low, pnp.dot(s.gradient, direction, precision="highest")
        lowest = -0.5 * fall * width / (found - s.value - fall * width) * width
        lowest = pnp.where(pnp.isfinite(lowest), pnp.clip(lowest, 1e-3 * width, 0.6 * width), 0.5 * width)
        following = pnp.where(high_up, s.low + lowest, pnp.where(pnp.isinf(high), 2 * low, (low + high) / 2))
        # the value falls at `low`, so that the last such point is kept where the tries run out
        keep = ~high_up
        return _Search(
            low, high, pnp.where(done, s.step, following), pnp.where(keep, found, s.value),
            pnp.where(keep, new_gradient, s.gradient), done, s.tries + 1,
        )  # fmt: skip

    zero = pnp.zeros((), x.dtype)
    start = _Search(zero, zero + np.inf, first, value, gradient, pnp.asarray(False), np.int32(0))
    end = while_loop(goes_on, improve, start)
    return end._replace(step=pnp.where(end.done, end.step, end.low))


class _State(NamedTuple):
    """State of the minimization."""

    x: Any
    value: Any
    gradient: Any
    inverse: Any
    steps: Any
    evaluations: Any
    stuck: Any


def _bfgs(fun: Any, x0: Any, gtol: float, norm: Any, maxiter: int, line_search_maxiter: int) -> OptimizeResults:
    """Steps along -inverse @ gradient; the inverse is corrected by what the gradient did (Nocedal, Wright, chapter 6)."""
    both = value_and_grad(fun)

    def size(gradient: Any) -> Any:
        return pnp.linalg.norm(gradient, ord=norm)

    def goes_on(s: _State) -> Any:
        return ~s.stuck & (size(s.gradient) >= gtol) & (s.steps < maxiter)

    def step(s: _State) -> _State:
        direction = -pnp.matmul(s.inverse, s.gradient, precision="highest")
        # nothing is known of the scale before the first step
        first = pnp.where(s.steps == 0, pnp.minimum(1, 1.01 / pnp.linalg.norm(s.gradient)), 1).astype(s.x.dtype)
        found = _line_search(both, s.x, s.value, s.gradient, direction, first, line_search_maxiter)
        move, change = found.step * direction, found.gradient - s.gradient
        curvature = pnp.dot(move, change, precision="highest")
        usable = curvature > 0
        rho = 1 / pnp.where(usable, curvature, 1)
        one = pnp.eye(s.x.shape[0], dtype=s.x.dtype)
        # the first step tells the scale of the inverse
        length = pnp.sum(change * change)
        scale = curvature / pnp.where(length > 0, length, 1)
        before = pnp.where((s.steps == 0) & usable, scale * one, s.inverse)
        rest = one - rho * pnp.outer(move, change)
        new = pnp.matmul(pnp.matmul(rest, before, precision="highest"), rest.T, precision="highest")
        new = new + rho * pnp.outer(move, move)
        return _State(
            s.x + move, found.value, found.gradient, pnp.where(usable, new, s.inverse), s.steps + 1,
            s.evaluations + found.tries, found.step == 0,
        )  # fmt: skip

    value, gradient = both(x0)
    start = _State(
        x0, value, gradient, pnp.eye(x0.shape[0], dtype=x0.dtype), np.int32(0), np.int32(1), pnp.asarray(False)
    )
    end = while_loop(goes_on, step, start)
    success = size(end.gradient) < gtol
    status = pnp.where(success, 0, pnp.where(end.stuck, 3, 1)).astype(np.int32)
    return OptimizeResults(
        end.x, success, status, end.value, end.gradient, end.inverse, end.evaluations, end.evaluations, end.steps
    )


def minimize(
    fun: Callable[..., Any], x0: Any, args: tuple[Any, ...] = (), *, method: str, tol: float | None = None,
    options: Mapping[str, Any] | None = None,
) -> OptimizeResults:  # fmt: skip
    """Minimize a smooth function.

    Parameters
    ----------
    fun : callable
        `fun(x, *args)` -> float[].
    x0 : float[n]
        Where to begin.
    args : tuple
    method : "BFGS"
    tol : float, optional
        Norm of the gradient that is small enough; `gtol` in the options.
    options : mapping, optional
        `gtol` (1e-5), `norm` (inf), `maxiter` (200 n), `line_search_maxiter` (30).

    Returns
    -------
    OptimizeResults
    """
    if not isinstance(args, tuple):
        raise TypeError(f"args argument to purax.scipy.optimize.minimize must be a tuple, got {args}")
    if method.lower() != "bfgs":
        raise ValueError(f"Method {method} not recognized; minimize knows 'BFGS'")
    given = dict(options or {})
    gtol = given.pop("gtol", 1e-5 if tol is None else tol)
    norm, maxiter = given.pop("norm", np.inf), given.pop("maxiter", None)
    line_search_maxiter = given.pop("line_search_maxiter", 30)
    if given:
        raise TypeError(f"minimize: unknown options {sorted(given)}")
    (x0,) = promote_inexact("minimize", x0)
    if x0.ndim != 1 or dtypes.is_complex(x0.dtype):
        raise ValueError(f"minimize takes a vector of reals to begin with, got {x0.dtype}{list(x0.shape)}")
    limit = 200 * x0.shape[0] if maxiter is None else maxiter
    return _bfgs(lambda x: fun(x, *args), x0, gtol, norm, limit, line_search_maxiter)
