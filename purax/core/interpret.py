# SPDX-License-Identifier: Apache-2.0
"""Run a jaxpr, equation by equation, in the current trace."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from purax.core.ir import ClosedJaxpr, Jaxpr, Var
from purax.core.source import names_here, where, within
from purax.core.trace import bind_in, current

__all__ = ["eval_jaxpr", "jaxpr_as_fun", "reference_eval", "walk"]


def eval_jaxpr(jaxpr: Jaxpr, consts: Sequence[Any], *operands: Any) -> list[Any]:
    """Values of the outputs of `jaxpr`, each equation bound in the current trace.

    What is recorded has the line of the equation, and its names within those that are open.

    Parameters
    ----------
    jaxpr : Jaxpr
    consts : sequence of arrays
    operands : arrays

    Returns
    -------
    list of arrays
    """
    trace = current.get()
    if trace is None:
        return walk(
            jaxpr, consts, operands, lambda eqn, values: bind_in(None, eqn.primitive, tuple(values), eqn.params)
        )
    names = names_here()

    def bind(eqn: Any, values: Sequence[Any]) -> Any:
        source = eqn.source
        if source is not None:
            where.set(within(names, source) if names else source)
        return bind_in(trace, eqn.primitive, tuple(values), eqn.params)

    token = where.set(where.get())
    try:
        return walk(jaxpr, consts, operands, bind)
    finally:
        where.reset(token)


def reference_eval(jaxpr: Jaxpr, consts: Sequence[Any], *operands: Any) -> list[Any]:
    """Outputs by the `reference` rules alone: NumPy in, NumPy out, no device.

    Parameters
    ----------
    jaxpr : Jaxpr
    consts : sequence of array-likes
    operands : array-likes

    Returns
    -------
    list of NumPy arrays
    """
    return walk(
        jaxpr, [np.asarray(c) for c in consts], [np.asarray(x) for x in operands],
        lambda eqn, values: eqn.primitive.reference(*values, **eqn.params),
    )  # fmt: skip


def walk(
    jaxpr: Jaxpr, consts: Sequence[Any], operands: Sequence[Any], apply: Callable[..., Sequence[Any]]
) -> list[Any]:
    """Values of the outputs, equation by equation.

    Parameters
    ----------
    jaxpr : Jaxpr
    consts, operands : sequence of arrays
    apply : callable
        `apply(equation, values of its inputs)` gives the values of its outputs.

    Returns
    -------
    list of arrays
    """
    env: dict[Var, Any] = dict(zip(jaxpr.constvars, consts, strict=True))
    env.update(zip(jaxpr.invars, operands, strict=True))
    read = env.__getitem__
    for eqn in jaxpr.eqns:
        outs = apply(eqn, [read(a) if type(a) is Var else a.val for a in eqn.invars])
        env.update(zip(eqn.outvars, outs, strict=True))
    return [read(a) if type(a) is Var else a.val for a in jaxpr.outvars]


def jaxpr_as_fun(closed: ClosedJaxpr) -> Callable[..., list[Any]]:
    """The closed jaxpr as a function of flat values.

    Returns
    -------
    callable
    """
    return lambda *operands: eval_jaxpr(closed.jaxpr, closed.consts, *operands)
