# SPDX-License-Identifier: Apache-2.0
"""Levenberg-Marquardt steps: Gauss-Newton far from singular, gradient descent near it.

References
----------
.. [1] K. Madsen, H. B. Nielsen, O. Tingleff, "Methods for non-linear least squares problems", 2nd ed., DTU 2004, algorithm 3.16.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from purax import numpy as pnp
from purax.control.loop import while_loop
from purax.numpy import linalg
from purax.primitives.solving import triangular_solve
from purax.transforms.jacobian import jacfwd

__all__ = ["Damped", "damped_steps"]


class Damped(NamedTuple):
    """State: point, residual, gradient of half the sum of squares, damping, its growth, steps, whether a step was too small."""

    x: Any
    residual: Any
    gradient: Any
    damping: Any
    growth: Any
    steps: Any
    stuck: Any


def damped_steps(f: Any, x0: Any, gtol: float, xtol: float, least: Any, maxiter: int) -> Damped:
    """Make `sum(f(x)**2)` small; the last state, of the dtype of `x0`. Stops on a small gradient, step or residual.

    Parameters
    ----------
    f : callable
        float[n] -> float[m].
    x0 : float[n]
    gtol : float
        Largest component of the gradient of half the sum that counts as zero.
    xtol : float
        Smallest step, relative to the norm of x.
    least : float
        Largest residual that counts as zero.
    maxiter : int

    Returns
    -------
    Damped
    """
    jacobian = jacfwd(f)
    dtype = x0.dtype

    def gradient(x: Any, residual: Any) -> Any:
        return pnp.matmul(jacobian(x).T, residual, precision="highest")

    def goes_on(s: Damped) -> Any:
        done = pnp.all(pnp.abs(s.gradient) <= gtol) | pnp.all(pnp.abs(s.residual) <= least)
        return ~done & ~s.stuck & (s.steps < maxiter)

    def body(s: Damped) -> Damped:
        matrix = jacobian(s.x)
        step = _solve(matrix, s.residual, s.damping)
        x = s.x + step
        residual = f(x)
        gain = pnp.sum(s.residual**2) - pnp.sum(residual**2)
        expected = pnp.sum(step * (s.damping * step - s.gradient))
        better = (gain > 0) & (expected > 0)
        ratio = gain / pnp.where(expected > 0, expected, 1)
        small = linalg.norm(step) <= xtol * (linalg.norm(s.x) + xtol)
        # nothing moves any more, whatever the damping
        small = small | (pnp.all(x == s.x) & pnp.all(pnp.isfinite(residual)))
        kept_x, kept = pnp.where(better, x, s.x), pnp.where(better, residual, s.residual)
        less = pnp.maximum(1 / 3, 1 - (2 * ratio - 1) ** 3)
        damping = s.damping * pnp.where(better, less, s.growth)
        growth = pnp.where(better, 2, 2 * s.growth)
        return Damped(
            kept_x, kept, gradient(kept_x, kept), damping.astype(dtype), growth.astype(dtype), s.steps + 1, small
        )

    first = f(x0)
    matrix = jacobian(x0)
    damping = 1e-3 * pnp.max(pnp.sum(matrix**2, axis=0), initial=0)
    damping = pnp.where(damping > 0, damping, 1).astype(dtype)
    start = Damped(x0, first, gradient(x0, first), damping, pnp.full((), 2, dtype), np.int32(0), pnp.asarray(False))
    return while_loop(goes_on, body, start)


def _solve(matrix: Any, residual: Any, damping: Any) -> Any:
    """Minimize `|matrix step + residual|^2 + damping |step|^2` by a factorization that does not square the condition."""
    n = matrix.shape[1]
    tall = pnp.concatenate([matrix, pnp.sqrt(damping) * pnp.eye(n, dtype=matrix.dtype)])
    right = pnp.concatenate([-residual, pnp.zeros(n, residual.dtype)])
    q, r = linalg.qr(tall)
    return triangular_solve(r, pnp.matmul(q.T, right, precision="highest")[:, None], left_side=True)[:, 0]
