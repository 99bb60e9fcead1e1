# SPDX-License-Identifier: Apache-2.0
"""Minimization with an approximate inverse of the second derivatives.

Source: Nocedal and Wright, "Numerical optimization" (2006), chapters 6 (BFGS) and 7 (L-BFGS). Results have the dtype of the
start.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from purax import dtypes
from purax import numpy as pnp
from purax.control.loop import scan, while_loop
from purax.scipy.optimize.line_search import inner, line_search
from purax.transforms.grad import value_and_grad

__all__ = ["Minimum", "minimize_bfgs", "minimize_lbfgs"]


class Minimum(NamedTuple):
    """State and result of both methods."""

    x: Any
    value: Any
    gradient: Any
    memory: Any  # what is known of the second derivatives
    steps: Any
    evaluations: Any
    converged: Any
    status: Any


def _first_step(value: Any, before: Any, slope: Any) -> Any:
    """The step that would repeat the last decrease, at most 1."""
    step = 2.02 * (value - before) / slope
    return pnp.where((step > 0) & (step <= 1), step, 1)


def minimize_bfgs(
    fun: Callable[[Any], Any], x0: Any, gtol: float, norm: Any, maxiter: int, line_search_maxiter: int
) -> Minimum:
    """Steps along -inverse @ gradient; the inverse is corrected by what the gradient did.

    Status: 0 converged, 1 as many steps as allowed, 3 or 5 the line search found no point (with or without an interval), -1 else.

    Parameters
    ----------
    fun : callable
        float[n] -> float[].
    x0 : float[n]
    gtol : float
        Converged where the norm of the gradient is below it.
    norm : order, as in `purax.numpy.linalg.norm`
    maxiter, line_search_maxiter : int
        Steps, and evaluations in a line search, at most.

    Returns
    -------
    Minimum
    """
    both = value_and_grad(fun)
    one = pnp.eye(x0.shape[0], dtype=x0.dtype)
    digits = float(dtypes.finfo(x0.dtype).eps) ** 0.5

    def goes_on(s: Minimum) -> Any:
        return ~s.converged & (s.status == 0) & (s.steps < maxiter)

    def step(s: Minimum) -> Minimum:
        inverse, before = s.memory
        direction = -pnp.matmul(inverse, s.gradient, precision="highest")
        first = _first_step(s.value, before, inner(s.gradient, direction))
        found = line_search(both, s.x, s.value, s.gradient, direction, first, line_search_maxiter)
        move, change = found.point.step * direction, found.point.gradient - s.gradient
        curvature = inner(move, change)
        rho = 1 / curvature
        # the unit matrix would drown what the first move tells of an inverse that is much smaller (Nocedal and Wright, 6.20)
        scale = curvature / inner(change, change)
        inverse = pnp.where((s.steps == 0) & (scale < digits), scale * one, inverse)
        rest = one - rho * pnp.outer(move, change)
        new = pnp.matmul(pnp.matmul(rest, inverse, precision="highest"), rest.T, precision="highest")
        new = new + rho * pnp.outer(move, move)
        return Minimum(
            s.x + move, found.point.value, found.point.gradient, (pnp.where(pnp.isfinite(rho), new, inverse), s.value),
            s.steps + 1, s.evaluations + found.evaluations, pnp.linalg.norm(found.point.gradient, ord=norm) < gtol,
            pnp.where(found.status == 0, 0, 2 + found.status).astype(np.int32),
        )  # fmt: skip

    value, gradient = both(x0)
    memory = (one, value + pnp.linalg.norm(gradient) / 2)
    converged = pnp.linalg.norm(gradient, ord=norm) < gtol
    end = while_loop(
        goes_on, step, Minimum(x0, value, gradient, memory, np.int32(0), np.int32(1), converged, np.int32(0))
    )
    over = pnp.where(end.status != 0, end.status, pnp.where(end.steps >= maxiter, 1, -1))
    return end._replace(memory=end.memory[0], status=pnp.where(end.converged, 0, over))


class _History(NamedTuple):
    """The last moves and changes of the gradient, oldest first, and 1 / (move . change), zero where there is none yet."""

    moves: Any
    changes: Any
    rho: Any


def _direction(gradient: Any, history: _History, scale: Any) -> Any:
    """-inverse @ gradient for the inverse that the history amounts to (two loops over it)."""

    def back(q: Any, pair: Any) -> Any:
        move, change, rho = pair
        share = rho * inner(move, q)
        return q - share.astype(q.dtype) * change, share

    def forth(q: Any, pair: Any) -> Any:
        (move, change, rho), share = pair
        return q + (share - rho * inner(change, q)).astype(q.dtype) * move, None

    q, shares = scan(back, -gradient, history, reverse=True)
    return scan(forth, scale.astype(q.dtype) * q, (history, shares))[0]


def minimize_lbfgs(
    fun: Callable[[Any], Any], x0: Any, maxiter: Any, norm: Any, maxcor: int, ftol: float, gtol: float, maxfun: Any,
    maxgrad: Any, maxls: int,
) -> Minimum:  # fmt: skip
    """BFGS from the last `maxcor` moves only, for real or complex vectors (Sorber, Van Barel, De Lathauwer, 2012).

    Status: 0 converged; what ended the search else: 1 steps, 2 values, 3 gradients, 4 a decrease below ftol, 5 the line search.

    Parameters
    ----------
    fun : callable
        inexact[n] -> float[].
    x0 : inexact[n]
    maxiter, maxfun, maxgrad : int, optional
        Steps, values and gradients at most; None for any number.
    norm : order, as in `purax.numpy.linalg.norm`
    maxcor : int
    ftol, gtol : float
        Least decrease of a step; converged where the norm of the gradient is below `gtol`.
    maxls : int
        Evaluations in a line search at most.

    Returns
    -------
    Minimum
    """

    def both(x: Any) -> tuple[Any, Any]:
        value, gradient = value_and_grad(fun)(x)
        return value, pnp.conj(gradient)

    def goes_on(s: Minimum) -> Any:
        return ~s.converged & (s.status == 0)

    def step(s: Minimum) -> Minimum:
        history, scale = s.memory
        direction = _direction(s.gradient, history, scale)
        found = line_search(both, s.x, s.value, s.gradient, direction, pnp.ones_like(s.value), maxls)
        move, change = found.point.step.astype(s.x.dtype) * direction, found.point.gradient - s.gradient
        curvature = inner(move, change)
        newest = _History(move, change, 1 / curvature)
        history = _History(
            *(pnp.concatenate([old[1:], new[None].astype(old.dtype)]) for old, new in zip(history, newest, strict=True))
        )
        status = pnp.where(found.status != 0, 5, 0)
        for reason, count, limit in ((1, s.steps, maxiter), (2, s.evaluations, maxfun), (3, s.evaluations, maxgrad)):
            if limit is not None:
                status = pnp.where((status == 0) & (count >= limit), reason, status)
        status = pnp.where((status == 0) & (s.value - found.point.value < ftol), 4, status)
        converged = pnp.linalg.norm(found.point.gradient, ord=norm) < gtol
        return Minimum(
            s.x + move, found.point.value, found.point.gradient, (history, curvature / inner(change, change)), s.steps + 1,
            s.evaluations + found.evaluations, converged, pnp.where(converged, 0, status).astype(np.int32),
        )  # fmt: skip

    value, gradient = both(x0)
    real = dtypes.real_dtype(x0.dtype)
    rows = pnp.zeros((maxcor, x0.shape[0]), x0.dtype)
    memory = (_History(rows, rows, pnp.zeros((maxcor,), real)), pnp.ones((), real))
    return while_loop(
        goes_on, step, Minimum(x0, value, gradient, memory, np.int32(0), np.int32(1), pnp.asarray(False), np.int32(0))
    )
