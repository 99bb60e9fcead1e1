# SPDX-License-Identifier: Apache-2.0
"""One step of the Runge-Kutta pair of Dormand and Prince, the polynomial through it, and the choice of the next step.

The solution is a list of arrays, the leaves of the user's state. Times and steps are real scalars.

Parameters
----------
rate : callable
    `(y, t) -> slope`, lists of arrays.
t : float[]
y, slope : list of arrays
h : float[]
    Length of the step, negative backwards.
state : State
sign : float[]
    1 forwards, -1 backwards.
limits : Limits

References
----------
.. [1] J. R. Dormand, P. J. Prince, "A family of embedded Runge-Kutta formulae", J. Comp. Appl. Math. 6 (1980), 19-26.
.. [2] E. Hairer, S. P. Norsett, G. Wanner, "Solving Ordinary Differential Equations I", 2nd ed., Springer 1993, sections II.4
   to II.6.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from purax import dtypes
from purax import numpy as pnp
from purax.control.loop import scan
from purax.core.trace import is_tracer

__all__ = ["Limits", "Rate", "State", "Step", "attempt", "begin", "interpolate", "moves", "step"]

Rate = Callable[[list[Any], Any], list[Any]]

# Table 5.2 of [2]. The last row of the matrix is the solution of order 5, so that the last slope is the first of the next step.
_NODES = np.array([1 / 5, 3 / 10, 4 / 5, 8 / 9, 1, 1])
_MATRIX = np.array([
    [1 / 5, 0, 0, 0, 0, 0, 0],
    [3 / 40, 9 / 40, 0, 0, 0, 0, 0],
    [44 / 45, -56 / 15, 32 / 9, 0, 0, 0, 0],
    [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729, 0, 0, 0],
    [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656, 0, 0],
    [35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84, 0],
])  # fmt: skip
# The solution of order 5 minus that of order 4.
_ERROR = np.array([71 / 57600, 0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40])
# The term of order 4 of the dense output, section II.6 of [2].
_DENSE = np.array([
    -12715105075 / 11282082432, 0, 87487479700 / 32700410799, -10690763975 / 1880347072,
    701980252875 / 199316789632, -1453857185 / 822651844, 69997945 / 29380423,
])  # fmt: skip


class Limits(NamedTuple):
    """What the user allows: relative and absolute error of a step, steps per interval, length of a step."""

    rtol: Any
    atol: Any
    steps: Any
    length: Any

    def checked(self) -> Limits:
        """These limits.

        Raises
        ------
        ValueError
            A known limit leaves no step that could be taken.
        """
        known = {"rtol": self.rtol, "atol": self.atol, "mxstep": self.steps, "hmax": self.length}
        known = {name: value for name, value in known.items() if not is_tracer(value)}
        for name, value in known.items():
            if not np.all(np.asarray(value) >= 0):
                raise ValueError(f"odeint: {name} must not be negative or NaN, got {value}")
        if "rtol" in known and "atol" in known and not (np.any(self.rtol) or np.any(self.atol)):
            raise ValueError(
                "odeint: rtol and atol are both 0, and no step is without error. Give one that is positive."
            )
        return self


class Step(NamedTuple):
    """A step: where it begins, how long it is (signed), and the polynomial through it (see `interpolate`)."""

    start: Any
    length: Any
    polynomial: list[list[Any]]


class State(NamedTuple):
    """State of the integration: time, solution, slope, length of the next step (not signed), the last step taken."""

    t: Any
    y: list[Any]
    slope: list[Any]
    length: Any
    last: Step


def step(
    rate: Rate, t: Any, y: Sequence[Any], slope: Sequence[Any], h: Any
) -> tuple[list[Any], list[Any], list[Any], Step]:
    """The solution and slope at `t + h`, the estimated error, and the step for `interpolate`.

    Returns
    -------
    (list of arrays, list of arrays, list of arrays, Step)
    """

    # A loop rather than six copies of the user's function: programs, and those of their derivatives, are six times smaller.
    def stage(carry: tuple[list[Any], list[Any]], x: Any) -> tuple[Any, None]:
        slopes, _ = carry
        i, node, row = x
        end = [a + b for a, b in zip(y, _weighted(h, row, slopes), strict=True)]
        slopes = [k.at[i].set(new) for k, new in zip(slopes, rate(end, t + node * h), strict=True)]
        return (slopes, end), None

    slopes = [pnp.zeros((7, *k.shape), k.dtype).at[0].set(k) for k in slope]
    rows = (np.arange(1, 7), pnp.asarray(_NODES, h.dtype), pnp.asarray(_MATRIX, h.dtype))
    (slopes, end), _ = scan(stage, (slopes, list(y)), rows)
    first, last = [k[0] for k in slopes], [k[6] for k in slopes]
    change = [a - b for a, b in zip(end, y, strict=True)]
    bend = [a - b for a, b in zip(_scaled(h, first), change, strict=True)]
    other = [a - b - c for a, b, c in zip(change, _scaled(h, last), bend, strict=True)]
    polynomial = [list(y), change, bend, other, _weighted(h, _DENSE, slopes)]
    return end, last, _weighted(h, _ERROR, slopes), Step(t, h, polynomial)


def interpolate(taken: Step, t: Any) -> list[Any]:
    """The solution at `t` within a step: of order 4, as `CONTD5` of [2]."""
    s = (t - taken.start) / pnp.where(taken.length == 0, 1, taken.length)
    out = []
    for a, b, c, d, e in zip(*taken.polynomial, strict=True):
        # the last step of an integration may have been stacked with others: times stand in front
        r = s.astype(dtypes.real_dtype(a.dtype)).reshape(s.shape + (1,) * (a.ndim - s.ndim))
        out.append(a + r * (b + (1 - r) * (c + r * (d + (1 - r) * e))))
    return out


def begin(rate: Rate, t: Any, y: list[Any], sign: Any, limits: Limits) -> State:
    """State at the initial time; the length of the first step is that of section II.4 of [2].

    Returns
    -------
    State
    """
    slope = rate(y, t)
    scale = _scale(y, y, limits)
    value, speed = _norm(y, scale), _norm(slope, scale)
    tiny = 1e-6 * pnp.ones_like(t)
    usable = (value > 1e-5) & (speed > 1e-5)
    short = pnp.where(usable, 0.01 * value / pnp.where(usable, speed, 1), tiny).astype(t.dtype)
    there = [x + d for x, d in zip(y, _scaled(sign * short, slope), strict=True)]
    bend = _norm([a - b for a, b in zip(rate(there, t + sign * short), slope, strict=True)], scale) / short
    most = pnp.maximum(speed, bend)
    flat = most <= 1e-15
    longer = pnp.where(flat, pnp.maximum(tiny, 1e-3 * short), (0.01 / pnp.where(flat, 1, most)) ** (1 / 5))
    # a step that does not move the time would end the integration
    least = 16 * float(dtypes.finfo(t.dtype).eps) * pnp.abs(t)
    length = pnp.minimum(pnp.maximum(pnp.minimum(100 * short, longer), least), limits.length).astype(t.dtype)
    # where the slope is not finite, a short step is tried, and shorter ones: they end, and a length that is NaN never does
    length = pnp.where(pnp.isnan(length), pnp.minimum(pnp.maximum(tiny, least), limits.length).astype(t.dtype), length)
    zeros = [pnp.zeros_like(x) for x in y]
    return State(t, y, slope, length, Step(t, pnp.zeros_like(t), [y, zeros, zeros, zeros, zeros]))


def attempt(rate: Rate, state: State, sign: Any, limits: Limits) -> tuple[State, Any]:
    """Try a step; return the state after it, unchanged but for the length where the error was too large, and whether it was taken.

    Returns
    -------
    (State, bool[])
    """
    t = state.t + sign * state.length
    h = t - state.t  # as it was rounded
    y, slope, error, taken = step(rate, state.t, state.y, state.slope, h)
    ratio = _norm(error, _scale(state.y, y, limits))
    ratio = pnp.where(pnp.isnan(ratio), pnp.inf, ratio)  # a step out of the domain was too long
    accepted = ratio <= 1
    factor = pnp.clip(0.9 * pnp.where(ratio > 0, ratio, 1e-9) ** (-1 / 5), 0.2, 10)
    length = pnp.minimum(state.length * factor, limits.length).astype(state.t.dtype)
    new = State(t, y, slope, length, taken)
    return _select(accepted, new, state._replace(length=length)), accepted


def moves(state: State, sign: Any) -> Any:
    """Whether the next step moves the time; one of unknown length (the slope is NaN) does not."""
    return sign * (state.t + sign * state.length - state.t) > 0


def _select(chosen: Any, new: Any, old: Any) -> Any:
    if isinstance(new, list):
        return [_select(chosen, a, b) for a, b in zip(new, old, strict=True)]
    if isinstance(new, tuple):
        return type(new)(*[_select(chosen, a, b) for a, b in zip(new, old, strict=True)])
    return pnp.where(chosen, new, old)


def _weighted(h: Any, weights: Any, slopes: Sequence[Any]) -> list[Any]:
    """`h` times the weighted sum of stacked slopes, leaf by leaf."""
    sums = [pnp.tensordot(pnp.asarray(weights, k.dtype), k, 1, precision="highest") for k in slopes]
    return _scaled(h, sums)


def _scaled(h: Any, slopes: Sequence[Any]) -> list[Any]:
    return [k * h.astype(dtypes.real_dtype(k.dtype)) for k in slopes]


def _scale(y: Sequence[Any], other: Sequence[Any], limits: Limits) -> list[Any]:
    return [limits.atol + limits.rtol * pnp.maximum(pnp.abs(a), pnp.abs(b)) for a, b in zip(y, other, strict=True)]


def _norm(x: Sequence[Any], scale: Sequence[Any]) -> Any:
    """Root of the mean square over all leaves, relative to the scale."""
    total = sum(pnp.sum((pnp.abs(a) / s) ** 2) for a, s in zip(x, scale, strict=True))
    return pnp.sqrt(total / max(sum(a.size for a in x), 1))
