# SPDX-License-Identifier: Apache-2.0
"""Roots and fixed points, differentiated implicitly: what solves `f(x, theta) = 0` moves by `-(df/dx)^-1 df/dtheta`.

The iterations themselves are never differentiated, so that memory does not depend on their number and both modes work.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from purax import errors
from purax import numpy as pnp
from purax.control.loop import while_loop
from purax.control.solve import custom_root
from purax.numpy import linalg
from purax.numpy.promotion import promote_inexact
from purax.primitives.stop_gradient import stop_gradient
from purax.scipy.optimize.damped import Damped, damped_steps
from purax.transforms.jacobian import jacfwd
from purax.transforms.vmap import vmap

__all__ = ["RootResults", "fixed_point", "root", "root_scalar"]


class RootResults(NamedTuple):
    """Result of `root`, `root_scalar` and `fixed_point`.

    Parameters
    ----------
    x : inexact[...]
        The root; differentiable by everything that the function depends on.
    success : bool[]
        Whether it was found within the steps allowed.
    fun : inexact[...]
        The function there.
    nit : int32[]
        Steps.
    """

    x: Any
    success: Any
    fun: Any
    nit: Any


def root(
    fun: Callable[..., Any], x0: Any, args: tuple[Any, ...] = (), method: str = "newton", *, tol: float | None = None,
    maxiter: int = 100,
) -> RootResults:  # fmt: skip
    """Find a root of a function of several variables.

    Parameters
    ----------
    fun : callable
        `fun(x, *args)` -> inexact[...] of the shape of `x`.
    x0 : inexact[...]
        Where to begin; nothing depends on it but which root is found.
    args : tuple of pytrees
    method : {"newton", "lm"}
        "newton": Newton's steps, halved until the norm falls. "lm": the damped steps of `least_squares`, for starts far away.
    tol : float, optional
        Largest absolute component of `fun` that counts as zero; by default the rounding errors of 100 operations.
    maxiter : int

    Returns
    -------
    RootResults

    Raises
    ------
    ShapeError
        `fun` does not return the shape of `x`.
    ValueError
        Another method.

    References
    ----------
    .. [1] J. Nocedal, S. J. Wright, "Numerical Optimization", 2nd ed., Springer 2006, section 11.2.
    .. [2] M. Blondel et al., "Efficient and modular implicit differentiation", NeurIPS 2022.

    Examples
    --------
    >>> found = root(lambda x, a: pnp.stack([x[0] ** 2 - a, x[1] - x[0]]), pnp.ones(2), (4.0,))
    >>> found.x.tolist()
    [2.0, 2.0]
    """
    if method not in {"newton", "lm"}:
        raise ValueError(f"root: method must be 'newton' or 'lm', got {method!r}")
    (x0,) = promote_inexact("root", x0)
    shape = x0.shape
    least = _smallest(x0, tol)

    def residual(x: Any) -> Any:
        out = pnp.asarray(fun(x.reshape(shape), *args))
        if out.shape != shape:
            raise errors.ShapeError(
                errors.explain(
                    f"root: the function returned shape {out.shape} for x of shape {shape}.",
                    "A root needs as many equations as unknowns.",
                    "least_squares takes any number of equations.",
                )
            )
        return out.astype(x.dtype).reshape(-1)

    def solve(f: Any, start: Any) -> Any:
        if method == "lm":
            end: Damped = damped_steps(f, start, 0.0, 0.0, least, maxiter)
            return end.x, end.steps
        return _newton(f, start, least, maxiter)

    x, steps = custom_root(residual, stop_gradient(x0.reshape(-1)), solve, solve_linear, has_aux=True)
    value = residual(x)
    return RootResults(x.reshape(shape), pnp.all(pnp.abs(value) <= least), value.reshape(shape), steps)


def _smallest(x: Any, tol: float | None) -> Any:
    return 100 * float(pnp.finfo(x.dtype).eps) if tol is None else tol


def solve_linear(g: Callable[[Any], Any], y: Any) -> Any:
    """Solve `g(x) = y` for a linear function of vectors, by its matrix."""
    return linalg.solve(vmap(g, out_axes=1)(pnp.eye(y.size, dtype=y.dtype)), y)


def _newton(f: Any, x0: Any, least: Any, maxiter: int) -> tuple[Any, Any]:
    jacobian = jacfwd(f)

    def goes_on(state: Any) -> Any:
        _, value, steps, moved = state
        return ~pnp.all(pnp.abs(value) <= least) & moved & (steps < maxiter)

    def body(state: Any) -> Any:
        x, value, steps, _ = state
        step = linalg.solve(jacobian(x), -value)
        size = linalg.norm(value)

        # an increase, or NaN, asks for a shorter step
        def too_long(trial: Any) -> Any:
            share, _, new = trial
            return ~(linalg.norm(new) < size) & (share > 1e-4)

        def shorter(trial: Any) -> Any:
            share = trial[0] / 2
            return share, x + share * step, f(x + share * step)

        share = pnp.ones((), pnp.finfo(x.dtype).dtype)
        share, new, new_value = while_loop(too_long, shorter, (share, x + step, f(x + step)))
        moved = linalg.norm(new_value) < size
        return pnp.where(moved, new, x), pnp.where(moved, new_value, value), steps + 1, moved

    x, _, steps, _ = while_loop(goes_on, body, (x0, f(x0), np.int32(0), pnp.asarray(True)))
    return x, steps


def root_scalar(
    f: Callable[..., Any], args: tuple[Any, ...] = (), *, bracket: Any = None, x0: Any = None, tol: float | None = None,
    maxiter: int = 200,
) -> RootResults:  # fmt: skip
    """Find roots of functions of one variable, elementwise.

    Parameters
    ----------
    f : callable
        `f(x, *args)`, elementwise.
    args : tuple of pytrees
    bracket : (float[...], float[...]), optional
        Two points between which `f` changes its sign; bisected to the last bit.
    x0 : float[...], optional
        Where Newton's method begins, if there is no bracket.
    tol : float, optional
        Width of the interval, or value of `f`, that is small enough; by default what rounding allows.
    maxiter : int

    Returns
    -------
    RootResults
        Without a change of sign in the bracket, `success` is False and `x` is NaN.

    Raises
    ------
    ValueError
        Both or neither of `bracket` and `x0`.

    Examples
    --------
    >>> round(float(root_scalar(lambda x: x**2 - 2, bracket=(0.0, 2.0)).x), 4)
    1.4142
    """
    if (bracket is None) == (x0 is None):
        raise ValueError("root_scalar: give either bracket=(a, b) or x0=")
    ends = bracket if bracket is not None else (x0, x0)
    low, high = (pnp.asarray(x) for x in promote_inexact("root_scalar", *stop_gradient(tuple(ends))))

    def value(x: Any) -> Any:
        return pnp.asarray(f(x, *args)).astype(x.dtype)

    def solve(g: Any, start: Any) -> Any:
        if bracket is not None:
            return _bisect(g, start, high, 0.0 if tol is None else tol, maxiter)
        return _newton(
            lambda x: g(x.reshape(start.shape)).reshape(-1), start.reshape(-1), _smallest(start, tol), maxiter
        )

    def solve_shaped(g: Any, start: Any) -> Any:
        x, steps = solve(g, start)
        return x.reshape(start.shape), steps

    x, steps = custom_root(value, low, solve_shaped, lambda g, y: y / g(pnp.ones_like(y)), has_aux=True)
    at_root = value(x)
    success = ~pnp.isnan(x) if bracket is not None else pnp.abs(at_root) <= _smallest(x, tol)
    return RootResults(x, pnp.all(success), at_root, steps)


def _bisect(g: Any, low: Any, high: Any, width: float, maxiter: int) -> tuple[Any, Any]:
    side = pnp.sign(g(low))

    def goes_on(state: Any) -> Any:
        a, b, steps = state
        middle = (a + b) / 2
        return pnp.any((middle != a) & (middle != b) & (pnp.abs(b - a) > width)) & (steps < maxiter)

    def body(state: Any) -> Any:
        a, b, steps = state
        middle = (a + b) / 2
        stays = pnp.sign(g(middle)) == side
        return pnp.where(stays, middle, a), pnp.where(stays, b, middle), steps + 1

    a, b, steps = while_loop(goes_on, body, (low, high, np.int32(0)))
    changes = pnp.sign(g(high)) * side <= 0
    better = pnp.where(pnp.abs(g(a)) < pnp.abs(g(b)), a, b)
    return pnp.where(changes, better, np.nan), steps


def fixed_point(
    func: Callable[..., Any], x0: Any, args: tuple[Any, ...] = (), *, xtol: float | None = None, maxiter: int = 500
) -> RootResults:
    """Find x with `func(x) = x` by repetition.

    Parameters
    ----------
    func : callable
        `func(x, *args)` -> inexact[...] of the shape of `x`; brings points closer together.
    x0 : inexact[...]
    args : tuple of pytrees
    xtol : float, optional
        Largest absolute change of `x` that counts as none; by default the rounding errors of 100 operations.
    maxiter : int

    Returns
    -------
    RootResults
        `fun` is `func(x) - x`.

    Raises
    ------
    ShapeError
        `func` does not return the shape of `x`.

    Examples
    --------
    >>> round(float(fixed_point(pnp.cos, 1.0).x), 4)
    0.7391
    """
    (x0,) = promote_inexact("fixed_point", x0)
    shape, least = x0.shape, _smallest(x0, xtol)

    def change(x: Any) -> Any:
        out = pnp.asarray(func(x.reshape(shape), *args))
        if out.shape != shape:
            raise errors.ShapeError(f"fixed_point: the function returned shape {out.shape} for x of shape {shape}")
        return out.astype(x.dtype).reshape(-1) - x

    def solve(f: Any, start: Any) -> Any:
        def goes_on(state: Any) -> Any:
            _, step, steps = state
            return pnp.any(pnp.abs(step) > least) & (steps < maxiter)

        def body(state: Any) -> Any:
            x, step, steps = state
            return x + step, f(x + step), steps + 1

        x, _, steps = while_loop(goes_on, body, (start, f(start), np.int32(0)))
        return x, steps

    x, steps = custom_root(change, stop_gradient(x0.reshape(-1)), solve, solve_linear, has_aux=True)
    rest = change(x)
    return RootResults(x.reshape(shape), pnp.all(pnp.abs(rest) <= least), rest.reshape(shape), steps)
