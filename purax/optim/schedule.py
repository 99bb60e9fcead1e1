# SPDX-License-Identifier: Apache-2.0
"""Schedules: functions from the number of steps taken to a value, such as the learning rate."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from purax import numpy as pnp
from purax.optim.base import Schedule

__all__ = [
    "constant_schedule",
    "cosine_decay_schedule",
    "cosine_onecycle_schedule",
    "exponential_decay",
    "join_schedules",
    "linear_onecycle_schedule",
    "linear_schedule",
    "piecewise_constant_schedule",
    "piecewise_interpolate_schedule",
    "polynomial_schedule",
    "sgdr_schedule",
    "warmup_constant_schedule",
    "warmup_cosine_decay_schedule",
    "warmup_exponential_decay_schedule",
]


def constant_schedule(value: Any) -> Schedule:
    """Give one value in every step.

    Parameters
    ----------
    value : float scalar
        The value.

    Returns
    -------
    callable
        count -> value.
    """
    return lambda count: value


def polynomial_schedule(
    init_value: Any, end_value: Any, power: Any, transition_steps: int, transition_begin: int = 0
) -> Schedule:
    """Go from one value to another along a power of the remaining fraction.

    Parameters
    ----------
    init_value, end_value : float scalars
        a and b in the equation.
    power : float scalar
        k in the equation.
    transition_steps : int
        T, the length of the way; if it is not positive the value stays at a.
    transition_begin : int
        t0, the steps spent at a before; negative counts as 0.

    Returns
    -------
    callable
        t -> b + (a - b) * (1 - clip(t - t0, 0, T) / T)**k.
    """
    if transition_steps <= 0:
        return constant_schedule(init_value)
    begin = max(transition_begin, 0)

    def schedule(count: Any) -> Any:
        remaining = 1 - pnp.clip(count - begin, 0, transition_steps) / transition_steps
        return (init_value - end_value) * remaining**power + end_value

    return schedule


def linear_schedule(init_value: Any, end_value: Any, transition_steps: int, transition_begin: int = 0) -> Schedule:
    """Go from one value to another on a straight line.

    Parameters
    ----------
    init_value, end_value, transition_steps, transition_begin
        As in `polynomial_schedule`.

    Returns
    -------
    callable
        t -> b + (a - b) * (1 - clip(t - t0, 0, T) / T).
    """
    return polynomial_schedule(init_value, end_value, 1, transition_steps, transition_begin)


def piecewise_constant_schedule(init_value: Any, boundaries_and_scales: Mapping[int, Any] | None = None) -> Schedule:
    """Multiply the value by a factor at each boundary.

    Parameters
    ----------
    init_value : float scalar
        The value before the first boundary.
    boundaries_and_scales : mapping from int to float, optional
        For each boundary the factor that counts from that step on; factors are not negative.

    Returns
    -------
    callable
        t -> init_value times the product of the factors whose boundary is <= t.

    Raises
    ------
    ValueError
        If a factor is negative.
    """
    steps = sorted((boundaries_and_scales or {}).items())
    if any(factor < 0 for _, factor in steps):
        raise ValueError(f"piecewise_constant_schedule: factors may not be negative, got {dict(steps)}")

    def schedule(count: Any) -> Any:
        value = init_value
        for boundary, factor in steps:
            value = pnp.where(count < boundary, value, factor * value)
        return value

    return schedule


def _linear(start: Any, end: Any, fraction: Any) -> Any:
    return start + (end - start) * fraction


def _cosine(start: Any, end: Any, fraction: Any) -> Any:
    return end + (start - end) * (0.5 + 0.5 * pnp.cos(np.pi * fraction))


_INTERPOLATIONS: dict[str, Callable[[Any, Any, Any], Any]] = {"linear": _linear, "cosine": _cosine}


def piecewise_interpolate_schedule(
    interpolate_type: Literal["linear", "cosine"],
    init_value: Any,
    boundaries_and_scales: Mapping[int, Any] | None = None,
) -> Schedule:
    """Go through a row of values, on straight lines or half cosines between them.

    Parameters
    ----------
    interpolate_type : "linear" or "cosine"
        The form of the way between two boundaries.
    init_value : float scalar
        The value in step 0.
    boundaries_and_scales : mapping from int to float, optional
        For each boundary the factor that its value is of the value at the boundary before.

    Returns
    -------
    callable
        t -> the interpolated value, constant after the last boundary.

    Raises
    ------
    ValueError
        If the type is not known or a factor is negative.
    """
    if interpolate_type not in _INTERPOLATIONS:
        raise ValueError(f"interpolate_type must be 'linear' or 'cosine', got {interpolate_type!r}")
    interpolate = _INTERPOLATIONS[interpolate_type]
    pairs = sorted((boundaries_and_scales or {}).items())
    if any(factor < 0 for _, factor in pairs):
        raise ValueError(f"piecewise_interpolate_schedule: factors may not be negative, got {dict(pairs)}")
    bounds = [0, *(boundary for boundary, _ in pairs)]
    values = list(itertools.accumulate([init_value, *(factor for _, factor in pairs)], lambda v, factor: v * factor))

    def schedule(count: Any) -> Any:
        result = values[-1]
        # From the last piece to the first: the earliest piece that count lies before the end of wins.
        for low, high, start, end in reversed(list(zip(bounds[:-1], bounds[1:], values[:-1], values[1:], strict=True))):
            fraction = pnp.clip((count - low) / max(high - low, 1), 0.0, 1.0)
            result = pnp.where(count < high, interpolate(start, end, fraction), result)
        return result

    return schedule


def exponential_decay(
    init_value: Any,
    transition_steps: int,
    decay_rate: Any,
    transition_begin: int = 0,
    staircase: bool = False,
    end_value: Any = None,
) -> Schedule:
    """Multiply the value by a rate every T steps, smoothly or at once.

    Parameters
    ----------
    init_value : float scalar
        a in the equation.
    transition_steps : int
        T; if it is not positive the value stays at a.
    decay_rate : float scalar
        r in the equation; 0 keeps the value at a.
    transition_begin : int
        t0, the steps spent at a before; negative counts as 0.
    staircase : bool
        Round the exponent down.
    end_value : float scalar, optional
        Where the decay stops: the least value for r < 1, the largest for r > 1.

    Returns
    -------
    callable
        t -> a * r**((t - t0) / T), and a up to t0.
    """
    if transition_steps <= 0 or decay_rate == 0:
        return constant_schedule(init_value)
    begin = max(transition_begin, 0)
    limit = pnp.maximum if decay_rate < 1.0 else pnp.minimum

    def schedule(count: Any) -> Any:
        exponent = (count - begin) / transition_steps
        exponent = pnp.floor(exponent) if staircase else exponent
        value = pnp.where(count <= begin, init_value, init_value * pnp.power(decay_rate, exponent))
        return value if end_value is None else limit(value, end_value)

    return schedule


def cosine_decay_schedule(init_value: Any, decay_steps: int, alpha: Any = 0.0, exponent: Any = 1.0) -> Schedule:
    """Go down half a cosine to a fraction of the first value.

    Parameters
    ----------
    init_value : float scalar
        a in the equation.
    decay_steps : int
        T, positive.
    alpha : float scalar
        The last value as a fraction of the first.
    exponent : float scalar
        k in the equation.

    Returns
    -------
    callable
        t -> a * ((1 - alpha) * ((1 + cos(pi * min(t, T) / T)) / 2)**k + alpha). Source: Loshchilov and Hutter 2017.

    Raises
    ------
    ValueError
        If decay_steps is not positive.
    """
    if not decay_steps > 0:
        raise ValueError(f"cosine_decay_schedule: decay_steps must be positive, got {decay_steps}")

    def schedule(count: Any) -> Any:
        cosine = 0.5 * (1 + pnp.cos(np.pi * pnp.minimum(count, decay_steps) / decay_steps))
        return init_value * ((1 - alpha) * cosine**exponent + alpha)

    return schedule


def join_schedules(schedules: Sequence[Schedule], boundaries: Sequence[int]) -> Schedule:
    """Run schedules one after another, each counting from its own start.

    Parameters
    ----------
    schedules : sequence of callables
        n schedules.
    boundaries : sequence of int
        The n - 1 steps at which the next one takes over.

    Returns
    -------
    callable
        count -> value.
    """

    def schedule(count: Any) -> Any:
        value = schedules[0](count)
        for boundary, following in zip(boundaries, schedules[1:], strict=False):
            value = pnp.where(count < boundary, value, following(count - boundary))
        return value

    return schedule


def warmup_constant_schedule(init_value: Any, peak_value: Any, warmup_steps: int) -> Schedule:
    """Rise on a straight line, then stay.

    Parameters
    ----------
    init_value, peak_value : float scalars
        First and last value.
    warmup_steps : int
        The length of the rise.

    Returns
    -------
    callable
        count -> value.
    """
    return linear_schedule(init_value, peak_value, warmup_steps)


def warmup_cosine_decay_schedule(
    init_value: Any,
    peak_value: Any,
    warmup_steps: int,
    decay_steps: int,
    end_value: Any = 0.0,
    exponent: Any = 1.0,
) -> Schedule:
    """Rise on a straight line, then go down half a cosine.

    Parameters
    ----------
    init_value, peak_value, end_value : float scalars
        The values at the start, after the rise and at the end.
    warmup_steps : int
        The length of the rise.
    decay_steps : int
        The length of the whole, the rise included.
    exponent : float scalar
        As in `cosine_decay_schedule`.

    Returns
    -------
    callable
        count -> value.
    """
    alpha = end_value / peak_value if peak_value else 0.0
    rise = linear_schedule(init_value, peak_value, warmup_steps)
    fall = cosine_decay_schedule(peak_value, decay_steps - warmup_steps, alpha, exponent)
    return join_schedules([rise, fall], [warmup_steps])


def warmup_exponential_decay_schedule(
    init_value: Any,
    peak_value: Any,
    warmup_steps: int,
    transition_steps: int,
    decay_rate: Any,
    transition_begin: int = 0,
    staircase: bool = False,
    end_value: Any = None,
) -> Schedule:
    """Rise on a straight line, then decay exponentially.

    Parameters
    ----------
    init_value, peak_value : float scalars
        The values at the start and after the rise.
    warmup_steps : int
        The length of the rise.
    transition_steps, decay_rate, transition_begin, staircase, end_value
        As in `exponential_decay`, counted from the end of the rise.

    Returns
    -------
    callable
        count -> value.
    """
    rise = linear_schedule(init_value, peak_value, warmup_steps)
    fall = exponential_decay(peak_value, transition_steps, decay_rate, transition_begin, staircase, end_value)
    return join_schedules([rise, fall], [warmup_steps])


def cosine_onecycle_schedule(
    transition_steps: int,
    peak_value: Any,
    pct_start: float = 0.3,
    div_factor: float = 25.0,
    final_div_factor: float = 1e4,
) -> Schedule:
    """Rise and fall once on half cosines.

    Parameters
    ----------
    transition_steps : int
        T, the length of the cycle, positive.
    peak_value : float scalar
        p, the largest value.
    pct_start : float
        The fraction of the cycle that rises.
    div_factor, final_div_factor : float
        The first value is p / div_factor, the last p / (div_factor * final_div_factor).

    Returns
    -------
    callable
        count -> value. Source: Smith and Topin 2018.

    Raises
    ------
    ValueError
        If transition_steps is not positive.
    """
    if transition_steps <= 0:
        raise ValueError(f"cosine_onecycle_schedule: transition_steps must be positive, got {transition_steps}")
    return piecewise_interpolate_schedule(
        "cosine",
        peak_value / div_factor,
        {int(pct_start * transition_steps): div_factor, int(transition_steps): 1.0 / (div_factor * final_div_factor)},
    )


def linear_onecycle_schedule(
    transition_steps: int,
    peak_value: Any,
    pct_start: float = 0.3,
    pct_final: float = 0.85,
    div_factor: float = 25.0,
    final_div_factor: float = 1e4,
) -> Schedule:
    """Rise and fall once on straight lines, with a last slow fall.

    Parameters
    ----------
    transition_steps : int
        T, the length of the cycle, positive.
    peak_value : float scalar
        p, the largest value.
    pct_start, pct_final : float
        The fractions of the cycle at which the peak is reached and the last fall begins.
    div_factor, final_div_factor : float
        The first value is p / div_factor, the last p / (div_factor * final_div_factor).

    Returns
    -------
    callable
        count -> value. Source: Smith and Topin 2018.

    Raises
    ------
    ValueError
        If transition_steps is not positive.
    """
    if transition_steps <= 0:
        raise ValueError(f"linear_onecycle_schedule: transition_steps must be positive, got {transition_steps}")
    return piecewise_interpolate_schedule(
        "linear",
        peak_value / div_factor,
        {
            int(pct_start * transition_steps): div_factor,
            int(pct_final * transition_steps): 1.0 / div_factor,
            transition_steps: 1.0 / final_div_factor,
        },
    )


def sgdr_schedule(cosine_kwargs: Iterable[dict[str, Any]]) -> Schedule:
    """Repeat warm-up and cosine decay (stochastic gradient descent with warm restarts).

    Parameters
    ----------
    cosine_kwargs : iterable of dict
        The arguments of `warmup_cosine_decay_schedule` for each cycle.

    Returns
    -------
    callable
        count -> value. Source: Loshchilov and Hutter 2017.
    """
    cycles = list(cosine_kwargs)
    boundaries = list(itertools.accumulate(cycle["decay_steps"] for cycle in cycles))
    return join_schedules([warmup_cosine_decay_schedule(**cycle) for cycle in cycles], boundaries[:-1])
