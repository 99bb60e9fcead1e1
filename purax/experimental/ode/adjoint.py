# SPDX-License-Identifier: Apache-2.0
"""Reverse mode by the adjoint equation: the derivative of the exact solution, integrated backwards with the same solver.

With the loss L and the adjoint a(t) = dL/dy(t), a row vector,

    a' = -a df/dy,    (dL/dargs)' = -a df/dargs,

from the last time to the first; at each time of the output, a jumps by the cotangent of that output. Moving a time t_i of the output
changes it by f(y_i, t_i). Starting later by dt is starting from y0 - f(y0, t0) dt.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from purax import numpy as pnp
from purax import tree
from purax.control.custom_vjp import custom_vjp
from purax.control.loop import scan
from purax.core.trace import aval_of
from purax.experimental.ode.dormand_prince import Limits
from purax.primitives.base import is_differentiable
from purax.transforms.vjp import vjp

__all__ = ["adjoint"]


def adjoint(integrate: Callable[..., Any], odeint: Callable[..., Any], rate: Any, limits: Limits) -> Callable[..., Any]:
    """`(y0, ts, args) -> outputs`, differentiable in reverse; `odeint` solves the adjoint equation, so that it is, too.

    Parameters
    ----------
    integrate : callable
        `(rate, y0, ts, limits) -> outputs`.
    odeint : callable
    rate : callable
        `(y, t, args) -> slope`, lists of arrays.
    limits : Limits

    Returns
    -------
    callable
    """

    @custom_vjp
    def odeint_adjoint(y0: list[Any], ts: Any, args: Any) -> list[Any]:
        return integrate(lambda y, t: rate(y, t, args), y0, ts, limits)

    def forward(y0: list[Any], ts: Any, args: Any) -> Any:
        ys = odeint_adjoint(y0, ts, args)
        return ys, (ys, ts, args)

    def backward(saved: Any, cotangents: list[Any]) -> Any:
        ys, ts, args = saved
        leaves, args_tree = tree.flatten(args)
        active = [is_differentiable(aval_of(x).dtype) for x in leaves]

        def with_active(values: list[Any]) -> Any:
            given = iter(values)
            return args_tree.unflatten([next(given) if a else x for x, a in zip(leaves, active, strict=True)])

        def augmented(state: Any, t: Any, args: Any) -> Any:
            y, y_bar, _ = state
            values = [x for x, a in zip(tree.leaves(args), active, strict=True) if a]
            slope, pull = vjp(lambda y, values: rate(y, t, with_active(values)), y, values)
            return slope, *[tree.map(pnp.negative, bar) for bar in pull(y_bar)]

        def moved(y: list[Any], t: Any, bar: list[Any]) -> Any:
            slope = rate(y, t, args)
            return sum(pnp.sum((s * b).real.astype(t.dtype)) for s, b in zip(slope, bar, strict=True))

        def interval(carry: Any, x: Any) -> Any:
            y_bar, args_bar = carry
            y, bar, end, start = x
            y_bar = [a + b for a, b in zip(y_bar, bar, strict=True)]
            _, y_bar, args_bar = tree.map(
                lambda leaf: leaf[1],
                odeint(
                    augmented, (y, y_bar, args_bar), pnp.stack([end, start]), args,
                    rtol=limits.rtol, atol=limits.atol, mxstep=limits.steps, hmax=limits.length,
                ),
            )  # fmt: skip
            return (y_bar, args_bar), moved(y, end, bar)

        zeros = [pnp.zeros_like(x) for x, a in zip(leaves, active, strict=True) if a]
        later = [y[1:] for y in ys], [c[1:] for c in cotangents], ts[1:], ts[:-1]
        first = [y[0] for y in ys]
        (y_bar, values_bar), ts_bar = scan(interval, ([pnp.zeros_like(y) for y in first], zeros), later, reverse=True)
        start_bar = -moved(first, ts[0], y_bar)
        y_bar = [a + c[0] for a, c in zip(y_bar, cotangents, strict=True)]
        given = iter(values_bar)
        args_bar = args_tree.unflatten([next(given) if a else None for a in active])
        return y_bar, pnp.concatenate([start_bar[None], ts_bar]), args_bar

    odeint_adjoint.defvjp(forward, backward)
    return odeint_adjoint
