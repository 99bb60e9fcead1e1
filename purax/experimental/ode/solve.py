# SPDX-License-Identifier: Apache-2.0
"""`odeint`: what it takes, and the integration itself. Its derivatives are in `adjoint.py` and `direct.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from purax import numpy as pnp
from purax.control.loop import scan, while_loop
from purax.experimental.ode.adjoint import adjoint
from purax.experimental.ode.direct import direct
from purax.experimental.ode.dormand_prince import Limits, Rate, State, attempt, begin, interpolate, moves
from purax.experimental.ode.problem import Problem, direction

__all__ = ["odeint"]


def odeint(
    func: Callable[..., Any], y0: Any, t: Any, *args: Any, rtol: float = 1.4e-8, atol: float = 1.4e-8,
    mxstep: float = np.inf, hmax: float = np.inf, derivative: str = "adjoint", max_steps: int | None = None,
) -> Any:  # fmt: skip
    """Solve `dy/dt = func(y, t, *args)` by the pair of Dormand and Prince, with steps as short as the tolerances ask for.

    Parameters
    ----------
    func : callable
        `func(y, t, *args)` gives the derivative, with the structure and shapes of `y`. What it captures is differentiated as well.
    y0 : pytree of inexact[...]
        The state at `t[0]`. Integers count as floats.
    t : float[n]
        Times of the output, rising or falling.
    *args : pytrees of arrays
        More arguments of `func`.
    rtol, atol : float
        Error of a step: the root of the mean square of `error / (atol + rtol * |y|)` over the state is kept below 1.
    mxstep : int
        Steps from one time of the output to the next, rejected ones included.
    hmax : float
        The longest step.
    derivative : {"adjoint", "direct"}
        "adjoint" integrates the adjoint equation backwards [2]_: memory does not depend on the number of steps, reverse mode only.
        "direct" differentiates the steps that were taken, whose lengths count as constants: the exact derivative of the numbers
        returned, in both modes, with memory for `max_steps` states.
    max_steps : int, optional
        With "direct": the most accepted steps from `t[0]` to `t[-1]`; it takes the place of `mxstep`.

    Returns
    -------
    pytree like `y0`
        With a leading axis of length n. Times that were not reached within the allowed steps, and those after a state that has no
        finite successor, hold NaN.

    Raises
    ------
    DTypeError
        `t` is not of floats.
    ShapeError
        `t` is not a vector, or `func` does not return the shapes of `y0`.
    NonArrayArgumentError
        An argument is no array.
    ValueError
        Another `derivative`, or "direct" without `max_steps`.

    See Also
    --------
    odeint_event : Stops where a function of the state is zero.

    References
    ----------
    .. [1] J. R. Dormand, P. J. Prince, "A family of embedded Runge-Kutta formulae", J. Comp. Appl. Math. 6 (1980), 19-26.
    .. [2] L. S. Pontryagin et al., "The mathematical theory of optimal processes", 1962; R. T. Q. Chen et al., "Neural ordinary
       differential equations", NeurIPS 2018.

    Examples
    --------
    >>> decay = odeint(lambda y, t, rate: -rate * y, 1.0, pnp.array([0.0, 1.0, 2.0]), 0.5)
    >>> np.allclose(decay, np.exp([0.0, -0.5, -1.0]), rtol=1e-5)
    True
    """
    if derivative not in {"adjoint", "direct"}:
        raise ValueError(f"odeint: derivative must be 'adjoint' or 'direct', got {derivative!r}")
    problem = Problem(func, y0, t, args)
    limits = Limits(rtol, atol, mxstep, hmax).checked()
    if derivative == "direct":
        if max_steps is None:
            raise ValueError(
                "odeint: derivative='direct' keeps the steps, so it needs max_steps=, the most that there can be"
            )
        outs = direct(problem.rate, problem.leaves, problem.t, problem.args, limits, int(max_steps))
    else:
        outs = adjoint(_integrate, odeint, problem.rate, limits)(problem.leaves, problem.t, problem.args)
    return problem.tree.unflatten(outs)


def _integrate(rate: Rate, y0: list[Any], ts: Any, limits: Limits) -> list[Any]:
    """The solution at all times."""
    sign = direction(ts)

    def reach(state: State, target: Any) -> tuple[State, list[Any]]:
        def goes_on(carry: tuple[Any, State]) -> Any:
            tries, s = carry
            return (sign * (target - s.t) > 0) & moves(s, sign) & (tries < limits.steps)

        _, state = while_loop(goes_on, lambda c: (c[0] + 1, attempt(rate, c[1], sign, limits)[0]), (0, state))
        reached = sign * (target - state.t) <= 0
        return state, [pnp.where(reached, y, np.nan) for y in interpolate(state.last, target)]

    _, rest = scan(reach, begin(rate, ts[0], y0, sign, limits), ts[1:])
    return [pnp.concatenate([y[None], r]) for y, r in zip(y0, rest, strict=True)]
