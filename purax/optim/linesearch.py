# SPDX-License-Identifier: Apache-2.0
"""Line searches: the length of a step found by trying, for full-batch optimization."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from purax import numpy as pnp
from purax import tree
from purax.control.branch import cond
from purax.control.loop import while_loop
from purax.optim import tree as optim_tree
from purax.optim.base import GradientTransformationExtraArgs, OptState, Params, Updates, require_params
from purax.transforms.grad import value_and_grad

__all__ = [
    "BacktrackingLinesearchInfo",
    "ScaleByBacktrackingLinesearchState",
    "ScaleByZoomLinesearchState",
    "ZoomLinesearchInfo",
    "scale_by_backtracking_linesearch",
    "scale_by_zoom_linesearch",
    "value_and_grad_from_state",
]


class BacktrackingLinesearchInfo(NamedTuple):
    """How many lengths were tried, and by how much the accepted one missed the decrease asked for."""

    num_linesearch_steps: Any
    decrease_error: Any


class ScaleByBacktrackingLinesearchState(NamedTuple):
    """The accepted length, the value (and gradient, if kept) where it leads, and how the search went."""

    learning_rate: Any
    value: Any
    grad: Any
    info: BacktrackingLinesearchInfo


class ZoomLinesearchInfo(NamedTuple):
    """How many lengths were tried, and by how much the accepted one missed the two conditions."""

    num_linesearch_steps: Any
    decrease_error: Any
    curvature_error: Any


class ScaleByZoomLinesearchState(NamedTuple):
    """The accepted length, the value and gradient where it leads, and how the search went."""

    learning_rate: Any
    value: Any
    grad: Any
    info: ZoomLinesearchInfo


def _accepted_arguments(function: Callable[..., Any], extra_args: dict[str, Any]) -> dict[str, Any]:
    """Keep the named arguments that a function takes."""
    parameters = inspect.signature(function).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return extra_args
    names = {parameter.name for parameter in parameters}
    return {name: value for name, value in extra_args.items() if name in names}


def _real_dtype(params: Params) -> Any:
    return pnp.real(pnp.zeros((), optim_tree.dtype(params, "promote"))).dtype


def _slope(grad: Any, direction: Any) -> Any:
    return pnp.real(optim_tree.vdot(grad, direction))


def scale_by_backtracking_linesearch(
    max_backtracking_steps: int,
    slope_rtol: float = 1e-4,
    decrease_factor: float = 0.8,
    increase_factor: float = 1.5,
    max_learning_rate: float | None = 1.0,
    atol: float = 0.0,
    rtol: float = 0.0,
    store_grad: bool = False,
    verbose: bool = False,
) -> GradientTransformationExtraArgs:
    """Shorten the step until the function falls enough (Armijo's condition).

    Parameters
    ----------
    max_backtracking_steps : int
        How often the step may be shortened.
    slope_rtol : float
        c in the condition.
    decrease_factor, increase_factor : float
        What a failing step is multiplied by, and what the last step is multiplied by for a first guess.
    max_learning_rate : float or None
        The longest step.
    atol, rtol : float
        Tolerances of the condition.
    store_grad : bool
        Keep the gradient at the accepted step for `value_and_grad_from_state`.
    verbose : bool
        Accepted for Optax's sake; what happened is in `state.info`.

    Returns
    -------
    GradientTransformationExtraArgs
        u' = s u, the first s with f(p + s u) <= (1 + rtol) f(p) + c s <g, u> + atol. `update` needs `value=`,
        `grad=` and `value_fn=`; further named arguments go to value_fn. Source: Vaswani et al. 2019.
    """
    del verbose
    longest = float("inf") if max_learning_rate is None else max_learning_rate

    def init(params: Params) -> ScaleByBacktrackingLinesearchState:
        dtype = _real_dtype(params)
        start = pnp.asarray(1.0 if max_learning_rate is None else max_learning_rate, dtype)
        info = BacktrackingLinesearchInfo(pnp.zeros((), pnp.int32), pnp.asarray(pnp.inf, dtype))
        grad = optim_tree.zeros_like(params) if store_grad else None
        return ScaleByBacktrackingLinesearchState(start, pnp.asarray(pnp.inf, dtype), grad, info)

    def update(
        updates: Updates,
        state: Any,
        params: Params | None = None,
        *,
        value: Any,
        grad: Any,
        value_fn: Callable[..., Any],
        **extra_args: Any,
    ) -> tuple[Updates, OptState]:
        require_params(params, "scale_by_backtracking_linesearch")
        dtype = state.learning_rate.dtype
        function_args = _accepted_arguments(value_fn, extra_args)
        slope = _slope(grad, updates)

        def at(length: Any) -> Any:
            return optim_tree.add_scale(params, length, updates)

        def error(length: Any, new_value: Any) -> Any:
            missed = new_value - ((1.0 + rtol) * value + slope_rtol * length * slope + atol)
            return pnp.where(pnp.isnan(missed), pnp.inf, pnp.maximum(missed, 0.0)).astype(dtype)

        def attempt(length: Any) -> tuple[Any, Any]:
            new_value = pnp.asarray(value_fn(at(length), **function_args)).astype(dtype)
            return new_value, error(length, new_value)

        def shorten(carry: Any) -> Any:
            length, _, _, count = carry
            length = (decrease_factor * length).astype(dtype)
            return (length, *attempt(length), count + 1)

        first = pnp.minimum(increase_factor * state.learning_rate, longest).astype(dtype)
        length, new_value, missed, count = while_loop(
            lambda carry: pnp.logical_and(carry[2] > 0.0, carry[3] < max_backtracking_steps),
            shorten,
            (first, *attempt(first), pnp.zeros((), pnp.int32)),
        )
        new_grad = value_and_grad(value_fn)(at(length), **function_args)[1] if store_grad else None
        info = BacktrackingLinesearchInfo(count, missed)
        scaled = tree.map(lambda u: length.astype(u.dtype) * u, updates)
        return scaled, ScaleByBacktrackingLinesearchState(length, new_value, new_grad, info)

    return GradientTransformationExtraArgs(init, update)


class _Point(NamedTuple):
    """A step length, with the value, the slope along the direction, and the gradient where it leads."""

    length: Any
    value: Any
    slope: Any
    grad: Any


class _Search(NamedTuple):
    """The state of a zoom search; `low` is the best point that falls enough, the solution lies between it and `high`."""

    count: Any
    zooming: Any
    done: Any
    low: _Point
    high: _Point
    next_length: Any


def _interpolated(low: _Point, high: _Point) -> Any:
    """Give the least point of the cubic through both ends, or the middle where that is near an end or undefined."""
    width = high.length - low.length
    d1 = low.slope + high.slope - 3 * (low.value - high.value) / pnp.where(width == 0, 1, low.length - high.length)
    radicand = d1**2 - low.slope * high.slope
    d2 = pnp.sign(width) * pnp.sqrt(pnp.maximum(radicand, 0))
    divisor = high.slope - low.slope + 2 * d2
    share = 1 - (high.slope + d2 - d1) / pnp.where(divisor == 0, 1, divisor)
    usable = (radicand > 0) & (divisor != 0) & (share > 0.1) & (share < 0.9)
    return low.length + pnp.where(usable, share, 0.5) * width


def scale_by_zoom_linesearch(
    max_linesearch_steps: int,
    max_learning_rate: float | None = None,
    tol: float = 0.0,
    increase_factor: float = 2.0,
    slope_rtol: float = 1e-4,
    curv_rtol: float = 0.9,
    approx_dec_rtol: float | None = 1e-6,
    stepsize_precision: float = 1e-5,
    initial_guess_strategy: Literal["keep", "one"] = "keep",
    verbose: bool = False,
) -> GradientTransformationExtraArgs:
    """Find a step that falls enough and ends in a gentler slope (the strong Wolfe conditions).

    Parameters
    ----------
    max_linesearch_steps : int
        How many lengths may be tried.
    max_learning_rate : float or None
        The longest step.
    tol : float
        By how much the conditions may be missed.
    increase_factor : float
        What the length is multiplied by while the function still falls steeply.
    slope_rtol, curv_rtol : float
        c1 and c2 in the conditions.
    approx_dec_rtol : float or None
        Near a minimum, where values no longer tell, judge the decrease by slopes (Hager and Zhang 2006) if the value
        rises by at most this fraction.
    stepsize_precision : float
        The shortest interval that is searched.
    initial_guess_strategy : "keep" or "one"
        Start from the last length, or from 1.
    verbose : bool
        Accepted for Optax's sake; what happened is in `state.info`.

    Returns
    -------
    GradientTransformationExtraArgs
        u' = s u with f(p + s u) <= f(p) + c1 s <g, u> and |<f'(p + s u), u>| <= c2 |<g, u>|. `update` needs
        `value=`, `grad=` and `value_fn=`; further named arguments go to value_fn.
        Source: Nocedal and Wright 2006, algorithms 3.5 and 3.6.

    Raises
    ------
    ValueError
        If the strategy is not known.
    """
    del verbose
    if initial_guess_strategy not in ("keep", "one"):
        raise ValueError(f"initial_guess_strategy must be 'keep' or 'one', got {initial_guess_strategy!r}")
    longest = float("inf") if max_learning_rate is None else max_learning_rate

    def init(params: Params) -> ScaleByZoomLinesearchState:
        dtype = _real_dtype(params)
        infinite = pnp.asarray(pnp.inf, dtype)
        info = ZoomLinesearchInfo(pnp.zeros((), pnp.int32), infinite, infinite)
        return ScaleByZoomLinesearchState(pnp.ones((), dtype), infinite, optim_tree.zeros_like(params), info)

    def update(
        updates: Updates,
        state: Any,
        params: Params | None = None,
        *,
        value: Any,
        grad: Any,
        value_fn: Callable[..., Any],
        **extra_args: Any,
    ) -> tuple[Updates, OptState]:
        require_params(params, "scale_by_zoom_linesearch")
        dtype = state.learning_rate.dtype
        derivative = value_and_grad(value_fn)
        function_args = _accepted_arguments(value_fn, extra_args)
        start = _Point(
            pnp.zeros((), dtype), pnp.asarray(value).astype(dtype), _slope(grad, updates).astype(dtype), grad
        )

        def at(length: Any) -> _Point:
            new_value, new_grad = derivative(optim_tree.add_scale(params, length, updates), **function_args)
            return _Point(length, new_value.astype(dtype), _slope(new_grad, updates).astype(dtype), new_grad)

        def decrease_error(point: _Point) -> Any:
            missed = point.value - start.value - slope_rtol * point.length * start.slope
            if approx_dec_rtol is not None:
                by_slope = point.slope - (2 * slope_rtol - 1) * start.slope
                rise = point.value - start.value - approx_dec_rtol * pnp.abs(start.value)
                missed = pnp.minimum(missed, pnp.maximum(by_slope, rise))
            return pnp.where(pnp.isnan(missed), pnp.inf, pnp.maximum(missed, 0.0)).astype(dtype)

        def curvature_error(point: _Point) -> Any:
            missed = pnp.abs(point.slope) - curv_rtol * pnp.abs(start.slope)
            return pnp.where(pnp.isnan(missed), pnp.inf, pnp.maximum(missed, 0.0)).astype(dtype)

        def attempt(search: _Search) -> _Search:
            point, low, high = at(search.next_length), search.low, search.high
            too_high = (decrease_error(point) > tol) | ((search.count > 0) & ~(point.value < low.value))
            good = ~too_high & (curvature_error(point) <= tol)
            # Past the valley: seen from the new point, the minimum lies back towards the old low end.
            back = point.slope * pnp.where(search.zooming, high.length - low.length, 1.0) >= 0
            turned = ~too_high & back
            new_high = optim_tree.where(too_high, point, optim_tree.where(turned, low, high))
            new_low = optim_tree.where(too_high, low, point)
            zooming = search.zooming | too_high | turned
            longer = pnp.minimum(increase_factor * point.length, longest).astype(dtype)
            narrow = pnp.abs(new_high.length - new_low.length) <= stepsize_precision
            at_limit = ~zooming & (point.length >= longest)
            return _Search(
                search.count + 1,
                zooming,
                good | (zooming & narrow) | at_limit,
                new_low,
                new_high,
                pnp.where(zooming, _interpolated(new_low, new_high), longer).astype(dtype),
            )

        guess = pnp.ones((), dtype) if initial_guess_strategy == "one" else state.learning_rate
        guess = pnp.minimum(pnp.where(guess > 0, guess, 1.0), longest).astype(dtype)
        false = pnp.asarray(False)
        search = while_loop(
            lambda s: ~s.done & (s.count < max_linesearch_steps),
            attempt,
            _Search(pnp.zeros((), pnp.int32), false, false, start, start, guess),
        )
        # No length fell enough, and values no longer tell: the last interval's end may still be an improvement.
        best = optim_tree.where((search.low.length == 0) & (search.high.value < start.value), search.high, search.low)
        info = ZoomLinesearchInfo(search.count, decrease_error(best), curvature_error(best))
        scaled = tree.map(lambda u: best.length.astype(u.dtype) * u, updates)
        return scaled, ScaleByZoomLinesearchState(best.length, best.value, best.grad, info)

    return GradientTransformationExtraArgs(init, update)


def value_and_grad_from_state(value_fn: Callable[..., Any]) -> Callable[..., tuple[Any, Any]]:
    """Make a function that takes the value and gradient which a line search left in a state, instead of computing them.

    Parameters
    ----------
    value_fn : callable
        `value_fn(params, *args, **kwargs) -> scalar`.

    Returns
    -------
    callable
        `f(params, *args, state=state, **kwargs) -> (value, grad)`; computes both when the state has no finite value.

    Raises
    ------
    ValueError
        If the state keeps no gradient.
    """

    def from_state(params: Params, *args: Any, state: OptState, **kwargs: Any) -> tuple[Any, Any]:
        value = optim_tree.get(state, "value")
        grad = optim_tree.get(state, "grad")
        if value is None or grad is None:
            raise ValueError(
                "value_and_grad_from_state: the state keeps no value and gradient; use scale_by_zoom_linesearch, or "
                "scale_by_backtracking_linesearch with store_grad=True"
            )

        def compute() -> tuple[Any, Any]:
            new_value, new_grad = value_and_grad(value_fn)(params, *args, **kwargs)
            return new_value.astype(value.dtype), optim_tree.cast_like(new_grad, grad)

        return cond(pnp.isfinite(value), lambda: (value, grad), compute)

    return from_state
