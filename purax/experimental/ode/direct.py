# SPDX-License-Identifier: Apache-2.0
"""Both modes of differentiation through the steps themselves.

The lengths of the steps are found first, as constants. Then the steps are taken once more, as a loop of known length with one state
kept per step; within a step everything is computed again for reverse mode. The steps begin at `t[0] + offset`, so that derivatives
by the times are right as well.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from purax import numpy as pnp
from purax.control.branch import cond
from purax.control.loop import scan, while_loop
from purax.control.remat import checkpoint
from purax.experimental.ode.dormand_prince import Limits, Rate, State, Step, attempt, begin, interpolate, moves, step
from purax.experimental.ode.problem import direction
from purax.primitives.stop_gradient import stop_gradient

__all__ = ["direct"]


def direct(rate: Any, y0: list[Any], ts: Any, args: Any, limits: Limits, count: int) -> list[Any]:
    """The solution at all times, by at most `count` steps.

    Parameters
    ----------
    rate : callable
        `(y, t, args) -> slope`, lists of arrays.
    y0 : list of arrays
    ts : float[n]
    args : pytree
    limits : Limits
    count : int

    Returns
    -------
    list of arrays [n, ...]
    """
    fixed_y0, fixed_ts, fixed_args = stop_gradient((y0, ts, args))
    sign = direction(fixed_ts)
    offsets, lengths, covered = _record(lambda y, t: rate(y, t, fixed_args), fixed_y0, fixed_ts, sign, limits, count)

    @checkpoint
    def take(state: tuple[list[Any], list[Any]], start: Any, h: Any) -> Any:
        y, slope, _, taken = step(lambda y, t: rate(y, t, args), start, *state, h)
        return (y, slope), taken

    def stay(state: tuple[list[Any], list[Any]], start: Any, h: Any) -> Any:
        zeros = [pnp.zeros_like(x) for x in state[0]]
        return state, Step(start, h, [state[0], zeros, zeros, zeros, zeros])

    def body(state: Any, x: Any) -> Any:
        offset, h = x
        return cond(h != 0, take, stay, state, ts[0] + offset, h)

    _, steps = scan(body, (y0, rate(y0, ts[0], args)), (offsets, lengths))
    # a step that was not taken begins nowhere
    begins = pnp.where(lengths == 0, np.inf, sign * offsets)
    elapsed = sign * (fixed_ts - fixed_ts[0])
    which = pnp.maximum(pnp.searchsorted(begins, elapsed, side="right") - 1, 0)
    chosen = Step(steps.start[which], steps.length[which], [[x[which] for x in row] for row in steps.polynomial])
    reached = elapsed <= covered
    return [
        pnp.where(reached.reshape(-1, *[1] * (y.ndim - 1)), y, np.nan)
        for y in interpolate(chosen, ts)
    ]  # fmt: skip


def _record(rate: Rate, y0: list[Any], ts: Any, sign: Any, limits: Limits, count: int) -> tuple[Any, Any, Any]:
    """Where the accepted steps begin after `ts[0]`, their lengths, and how much time they cover."""

    def goes_on(carry: Any) -> Any:
        state, taken, _, _ = carry
        return (sign * (ts[-1] - state.t) > 0) & moves(state, sign) & (taken < count)

    def body(carry: tuple[State, Any, Any, Any]) -> Any:
        state, taken, offsets, lengths = carry
        new, accepted = attempt(rate, state, sign, limits)
        offsets = offsets.at[taken].set(state.t - ts[0])
        lengths = lengths.at[taken].set(new.t - state.t)
        return new, taken + accepted.astype(taken.dtype), offsets, lengths

    zeros = pnp.zeros(count, ts.dtype)
    start = begin(rate, ts[0], y0, sign, limits)
    state, _, offsets, lengths = while_loop(goes_on, body, (start, np.int32(0), zeros, zeros))
    return offsets, lengths, sign * (state.t - ts[0])
