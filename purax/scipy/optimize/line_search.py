# SPDX-License-Identifier: Apache-2.0
"""A step along a direction that satisfies the strong conditions of Wolfe.

Source: Nocedal and Wright, "Numerical optimization" (2006), algorithms 3.5 and 3.6: the step is doubled until an interval holds a good
one, and the interval is narrowed by cubic or quadratic interpolation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from purax import dtypes
from purax import numpy as pnp
from purax.control.loop import while_loop

__all__ = ["LineSearch", "Point", "inner", "line_search"]

_DECREASE, _CURVATURE = 1e-4, 0.9


class Point(NamedTuple):
    """A point of the line: how far along, the function's value there, its slope along the line, and its gradient."""

    step: Any
    value: Any
    slope: Any
    gradient: Any


class LineSearch(NamedTuple):
    """The best point that was found, the number of evaluations, and whether it is good: 0, 1 (an interval without), 3 (no interval)."""

    point: Point
    evaluations: Any
    status: Any


class _State(NamedTuple):
    low: Point  # the lowest point that decreases the function enough; its slope leads towards `high`
    high: Point  # the other end of the interval, infinitely far as long as there is none
    left: Point  # what was an end before
    trial: Any
    done: Any
    evaluations: Any


def inner(x: Any, y: Any) -> Any:
    """The inner product of the vectors x and y, a real scalar of their dtype; complex ones count as pairs of reals."""
    return pnp.real(pnp.dot(pnp.conj(x), y, precision="highest"))


def _chosen(test: Any, x: Point, y: Point) -> Point:
    return Point(*(pnp.where(test, a, b) for a, b in zip(x, y, strict=True)))


def _inside(low: Point, high: Point, left: Point) -> Any:
    """Where the cubic (else the parabola) through the ends is lowest; the middle where that is near an end."""
    width, other = high.step - low.step, left.step - low.step
    bent = (high.value - low.value - low.slope * width) / width**2
    bent_other = (left.value - low.value - low.slope * other) / other**2
    third = (bent - bent_other) / (width - other)
    second = bent - third * width
    cubic = low.step + (pnp.sqrt(second**2 - 3 * third * low.slope) - second) / (3 * third)
    parabola = low.step - low.slope / (2 * bent)
    start, end = pnp.minimum(low.step, high.step), pnp.maximum(low.step, high.step)

    def lies_within(x: Any, share: float) -> Any:
        margin = share * (end - start)
        return (x > start + margin) & (x < end - margin)

    middle = (low.step + high.step) / 2
    return pnp.where(lies_within(cubic, 0.2), cubic, pnp.where(lies_within(parabola, 0.1), parabola, middle))


def line_search(
    both: Callable[[Any], tuple[Any, Any]], x: Any, value: Any, gradient: Any, direction: Any, first: Any, limit: int
) -> LineSearch:
    """Search a step from `x` along `direction`.

    Parameters
    ----------
    both : callable
        Value and gradient of the function; of a complex function the direction of steepest ascent.
    x : inexact[n]
    value, gradient : float[], inexact[n]
        At `x`.
    direction : inexact[n]
    first : float[]
        The first step to try.
    limit : int
        Half of the evaluations that are allowed.

    Returns
    -------
    LineSearch
        Its status: 0 found, 1 or 3 not, with or without an interval that holds a good step.
    """
    slope = inner(gradient, direction)
    noise = float(dtypes.finfo(value.dtype).eps) * abs(value)

    def at(step: Any) -> Point:
        found, there = both(x + step.astype(x.dtype) * direction)
        return Point(step, found, inner(there, direction), there)

    def goes_on(s: _State) -> Any:
        return ~s.done & (s.evaluations < 2 * limit)

    def improve(s: _State) -> _State:
        new = at(s.trial)
        # near a minimum values differ by their rounding alone, and slopes decide
        flat = abs(new.value - value) <= noise
        falls = (new.value <= value + _DECREASE * new.step * slope) & (new.value < s.low.value)
        too_high = ~(falls | flat)
        done = ~too_high & (abs(new.slope) <= -_CURVATURE * slope)
        rises = (
            new.slope * (s.high.step - s.low.step) >= 0
        )  # towards `high`, so the lowest point lies on the other side
        moves = too_high | rises
        left = _chosen(moves, s.high, s.low)
        high = _chosen(too_high, new, _chosen(rises, s.low, s.high))
        low = _chosen(too_high, s.low, new)
        trial = pnp.where(pnp.isfinite(high.step), _inside(low, high, left), 2 * low.step)
        return _State(low, high, left, trial.astype(s.trial.dtype), done, s.evaluations + 1)

    zero = pnp.zeros_like(value)
    start = Point(zero, value, slope, gradient)
    far = start._replace(step=zero + np.inf)
    state = _State(start, far, far, first.astype(value.dtype), pnp.asarray(False), np.int32(0))
    end = while_loop(goes_on, improve, state)
    status = pnp.where(end.done, 0, pnp.where(pnp.isfinite(end.high.step), 1, 3))
    return LineSearch(end.low, end.evaluations, status)
