# SPDX-License-Identifier: Apache-2.0
"""`least_squares`: nonlinear least squares, differentiated implicitly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from purax import dtypes
from purax import numpy as pnp
from purax.control.solve import custom_root
from purax.numpy.promotion import promote_inexact
from purax.primitives.stop_gradient import stop_gradient
from purax.scipy.optimize.damped import damped_steps
from purax.scipy.optimize.root_finding import solve_linear
from purax.transforms.vjp import vjp

__all__ = ["LeastSquaresResults", "least_squares"]


class LeastSquaresResults(NamedTuple):
    """Result of `least_squares`.

    Parameters
    ----------
    x : float[...]
        Where the sum of squares is least; differentiable by everything that the residuals depend on.
    success : bool[]
        Whether the gradient, or the last step, is small.
    cost : float[]
        Half the sum of squares.
    fun : float[m]
        The residuals.
    grad : float[...]
        Gradient of the cost.
    nit : int32[]
        Steps tried.
    """

    x: Any
    success: Any
    cost: Any
    fun: Any
    grad: Any
    nit: Any


def least_squares(
    fun: Callable[..., Any], x0: Any, args: tuple[Any, ...] = (), *, gtol: float | None = None, xtol: float | None = None,
    maxiter: int = 200,
) -> LeastSquaresResults:  # fmt: skip
    """Minimize `0.5 * sum(fun(x)**2)` by the method of Levenberg and Marquardt.

    Parameters
    ----------
    fun : callable
        `fun(x, *args)` -> float[m], or any shape.
    x0 : float[...]
        Where to begin; nothing depends on it but which minimum is found.
    args : tuple of pytrees
    gtol : float, optional
        Largest absolute component of the gradient that counts as zero.
    xtol : float, optional
        Relative length of a step that counts as none. Both are rounding errors by default.
    maxiter : int

    Returns
    -------
    LeastSquaresResults
        The derivative of `x` comes from the gradient, which stays zero: `H dx = -d(gradient)`, with all second derivatives in H.

    Raises
    ------
    ValueError
        `x0` is complex.

    References
    ----------
    .. [1] K. Madsen, H. B. Nielsen, O. Tingleff, "Methods for non-linear least squares problems", 2nd ed., DTU 2004.
    .. [2] M. Blondel et al., "Efficient and modular implicit differentiation", NeurIPS 2022.

    Examples
    --------
    >>> t = pnp.array([0.0, 1.0, 2.0])
    >>> fit = least_squares(lambda p, y: p[0] * pnp.exp(p[1] * t) - y, pnp.array([1.0, 0.0]), (pnp.array([2.0, 1.0, 0.5]),))
    >>> np.allclose(fit.x, [2.0, np.log(0.5)], atol=1e-3)
    True
    """
    (x0,) = promote_inexact("least_squares", x0)
    if dtypes.is_complex(x0.dtype):
        raise ValueError(f"least_squares: x0 must be real, got {x0.dtype}; stack real and imaginary parts")
    shape = x0.shape
    eps = float(pnp.finfo(x0.dtype).eps)
    smallest, shortest = (eps if given is None else given for given in (gtol, xtol))

    def residual(x: Any) -> Any:
        return pnp.asarray(fun(x.reshape(shape), *args)).astype(x.dtype).reshape(-1)

    def gradient(x: Any) -> Any:
        value, pull = vjp(residual, x)
        return pull(value)[0]

    def solve(_: Any, start: Any) -> Any:
        end = damped_steps(lambda x: residual(x), start, smallest, shortest, 0.0, maxiter)
        return end.x, (end.stuck | pnp.all(pnp.abs(end.gradient) <= smallest), end.steps)

    x, (success, steps) = custom_root(gradient, stop_gradient(x0.reshape(-1)), solve, solve_linear, has_aux=True)
    value = residual(x)
    cost = 0.5 * pnp.sum(value**2)
    return LeastSquaresResults(x.reshape(shape), success, cost, value, gradient(x).reshape(shape), steps)
