# SPDX-License-Identifier: Apache-2.0
"""`odeint_event`: integrate until a function of the state changes its sign."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from purax import numpy as pnp
from purax.control.closure import closure_convert
from purax.control.custom_vjp import custom_vjp
from purax.control.loop import fori_loop, while_loop
from purax.experimental.ode.dormand_prince import Limits, State, Step, attempt, begin, interpolate, moves
from purax.experimental.ode.problem import Problem, direction
from purax.experimental.ode.solve import odeint
from purax.transforms.vjp import vjp

__all__ = ["EventSolution", "odeint_event"]


class EventSolution(NamedTuple):
    """Result of `odeint_event`.

    Parameters
    ----------
    t : float[]
        When it happened; the last time, if it did not.
    y : pytree of inexact[...]
        The state then.
    found : bool[]
        Whether it happened.
    """

    t: Any
    y: Any
    found: Any


def odeint_event(
    func: Callable[..., Any], event: Callable[..., Any], y0: Any, t: Any, *args: Any, rtol: float = 1.4e-8, atol: float = 1.4e-8,
    mxstep: float = np.inf, hmax: float = np.inf, derivative: str = "adjoint", max_steps: int | None = None,
) -> EventSolution:  # fmt: skip
    """Solve `dy/dt = func(y, t, *args)` until `event(y, t, *args)` changes its sign.

    Parameters
    ----------
    func, y0, *args, rtol, atol, mxstep, hmax, derivative, max_steps
        As for `odeint`.
    event : callable
        `event(y, t, *args)` -> float[]. It is looked at after each step, so `hmax` must be shorter than the time for which it stays
        on the other side. An event that is 0 at the start happens when it is next 0.
    t : float[2]
        The first time, and the last.

    Returns
    -------
    EventSolution
        Time and state are differentiable by everything that they depend on: `event(y(t), t) = 0` defines the time implicitly.

    Raises
    ------
    ShapeError
        As for `odeint`, and if `event` does not return a scalar.

    References
    ----------
    .. [1] R. T. Q. Chen, B. Amos, M. Nickel, "Learning neural event functions for ordinary differential equations", ICLR 2021.

    Examples
    --------
    >>> def falling(y, t):
    ...     return {"height": y["speed"], "speed": -9.81}
    >>> ground = odeint_event(falling, lambda y, t: y["height"], {"height": 10.0, "speed": 0.0}, pnp.array([0.0, 5.0]))
    >>> np.allclose(ground.t, np.sqrt(2 * 10 / 9.81), rtol=1e-4)
    True
    """
    options: dict[str, Any] = {
        "rtol": rtol,
        "atol": atol,
        "mxstep": mxstep,
        "hmax": hmax,
        "derivative": derivative,
        "max_steps": max_steps,
    }
    Limits(rtol, atol, mxstep, hmax).checked()
    problem = Problem(func, y0, t, args)
    start = problem.tree.unflatten(problem.leaves)
    converted, captured = closure_convert(event, start, problem.t[0], *args)
    inner = (problem.args, (*args, *captured))

    def value(leaves: list[Any], t: Any, inner: Any) -> Any:
        return converted(problem.tree.unflatten(leaves), t, *inner[1]).reshape(())

    def solution(leaves: list[Any], start: Any, end: Any, inner: Any) -> list[Any]:
        ys = odeint(lambda y, t, args: problem.rate(y, t, args), leaves, pnp.stack([start, end]), inner[0], **options)
        return [y[1] for y in ys]

    @custom_vjp
    def when(leaves: list[Any], ts: Any, inner: Any) -> tuple[Any, Any]:
        limits = Limits(rtol, atol, mxstep, hmax)
        return _find(lambda y, t: problem.rate(y, t, inner[0]), lambda y, t: value(y, t, inner), leaves, ts, limits)

    def forward(leaves: list[Any], ts: Any, inner: Any) -> Any:
        end, found = when(leaves, ts, inner)
        return (end, found), (leaves, ts, inner, end, found)

    def backward(saved: Any, cotangents: Any) -> Any:
        leaves, ts, inner, end, found = saved
        # 0 = g(parameters, t), so dt = -dg/dparameters / (dg/dt)
        _, pull = vjp(lambda *p: value(solution(p[0], p[1], p[3], p[2]), p[3], p[2]), leaves, ts[0], inner, end)
        speed = pull(pnp.ones((), end.dtype))[3]
        share = pnp.where(found, -cotangents[0] / pnp.where(found, speed, 1), 0)
        leaves_bar, start_bar, inner_bar, _ = pull(share)
        return leaves_bar, pnp.stack([start_bar, pnp.where(found, 0, cotangents[0])]), inner_bar

    when.defvjp(forward, backward)
    end, found = when(problem.leaves, problem.t, inner)
    y = problem.tree.unflatten(solution(problem.leaves, problem.t[0], end, inner))
    return EventSolution(end, y, found)


class _Search(NamedTuple):
    """State of the search: integration, tries, side of the event at the start of the last step, whether that step crossed."""

    state: State
    tries: Any
    side: Any
    crossed: Any


def _find(rate: Any, value: Any, y0: list[Any], ts: Any, limits: Limits) -> tuple[Any, Any]:
    """The time of the event, and whether it lies before the last time."""
    sign = direction(ts)

    def goes_on(s: _Search) -> Any:
        return ~s.crossed & (sign * (ts[1] - s.state.t) > 0) & moves(s.state, sign) & (s.tries < limits.steps)

    def body(s: _Search) -> _Search:
        state, _ = attempt(rate, s.state, sign, limits)
        side = pnp.sign(value(state.y, state.t))
        crossed = (s.side != 0) & (side != s.side)
        return _Search(state, s.tries + 1, pnp.where(crossed, s.side, side), crossed)

    side = pnp.sign(value(y0, ts[0]))
    start = _Search(begin(rate, ts[0], y0, sign, limits), np.int32(0), side, pnp.asarray(False))
    end = while_loop(goes_on, body, start)
    t = _bisect(value, end.state.last, end.side)
    found = end.crossed & (sign * (ts[1] - t) >= 0)
    return pnp.where(found, t, ts[1]), found


def _bisect(value: Any, taken: Step, side: Any) -> Any:
    """Where, within a step, the event leaves its side; to the last bit of the time."""

    def halve(_: Any, bounds: tuple[Any, Any]) -> tuple[Any, Any]:
        before, after = bounds
        middle = (before + after) / 2
        stays = pnp.sign(value(interpolate(taken, middle), middle)) == side
        return pnp.where(stays, middle, before), pnp.where(stays, after, middle)

    bits = pnp.finfo(taken.start.dtype).nmant + 2
    return fori_loop(0, int(bits), halve, (taken.start, taken.start + taken.length))[1]
