# SPDX-License-Identifier: Apache-2.0
"""What reverse mode keeps: the values between the forward and the backward part of a function, and the memory that they take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from purax import tree
from purax.control.policies import name_p
from purax.control.remat import remat_p
from purax.core.interpret import eval_jaxpr
from purax.core.ir import ClosedJaxpr, Jaxpr, Var, intern, open_constants
from purax.core.source import format_source
from purax.core.stage import StageTrace, StageTracer, recording, stage
from purax.core.trace import aval_of, bind_in, current
from purax.transforms.flat import argument_names, check_arrays, flat_function, name_of
from purax.transforms.reverse import linearize_flat

__all__ = ["Residual", "print_saved_residuals", "saved_residuals"]


class Residual(NamedTuple):
    """A value that is kept: its type, and where it comes from."""

    aval: Any
    origin: str

    @property
    def nbytes(self) -> int:
        """Bytes of its elements."""
        return int(self.aval.size * self.aval.dtype.itemsize)


def saved_residuals(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> list[Residual]:
    """The values that reverse mode of `fun` keeps between its forward and its backward part.

    Parameters
    ----------
    fun : callable
    *args, **kwargs : pytrees of arrays
        What is differentiated; only types are looked at.

    Returns
    -------
    list of Residual
        In the order of their use. Values inside a `scan` have its length as leading axis.
    """
    return _residuals(*_program(fun, args, kwargs))


def print_saved_residuals(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Print what reverse mode of `fun` keeps, and how many bytes that is; and how many it is without checkpoints.

    Parameters
    ----------
    fun : callable
    *args, **kwargs : pytrees of arrays
        As of `saved_residuals`.
    """
    jaxpr, consts, names = _program(fun, args, kwargs)
    kept = _residuals(jaxpr, consts, names)
    rows = [f"  {r.aval.str_short():<24} {r.nbytes:>14,} B  {r.origin}" for r in kept]
    total = f"total {_sum(kept)}; without checkpoints {_sum(_residuals(_unchecked(jaxpr), consts, names))}"
    print("\n".join([f"kept for the derivative of {name_of(fun)}:", *rows, total]))  # noqa: T201  (what it is for)


def _sum(residuals: list[Residual]) -> str:
    return f"{sum(r.nbytes for r in residuals):,} B in {len(residuals)} arrays"


def _program(fun: Callable[..., Any], args: Any, kwargs: Any) -> tuple[Jaxpr, int, list[str]]:
    """The program of `fun`, how many of its inputs are constants, and the names of the others."""
    leaves, treedef = tree.flatten((args, kwargs))
    names = argument_names(fun, args, kwargs)
    check_arrays("saved_residuals", leaves, lambda: names)
    flat, _ = flat_function(lambda args, kwargs: fun(*args, **kwargs), treedef)
    jaxpr, consts = open_constants(stage(flat, [aval_of(x) for x in leaves], name_of(fun), names, "saved_residuals"))
    return intern(jaxpr), len(consts), names


def _residuals(jaxpr: Jaxpr, consts: int, names: list[str]) -> list[Residual]:
    trace = StageTrace(None, jaxpr.name, "grad", embed=True)
    inputs = [trace.new_input(a) for a in jaxpr.in_avals]
    needed = [i >= consts for i in range(len(inputs))]
    with recording(trace):
        _, tape = linearize_flat(lambda *xs: eval_jaxpr(jaxpr, (), *xs), inputs, needed)
    origins = {t.variable: "a constant" for t in inputs[:consts]}
    origins.update((t.variable, f"argument {name}") for t, name in zip(inputs[consts:], names, strict=True))
    for eqn in trace.eqns:
        what = f"named {eqn.params['name']!r}" if eqn.primitive is name_p else f"output of {eqn.primitive.name}"
        origins.update(dict.fromkeys(eqn.outvars, f"{what} at {format_source(eqn.source)}"))
    kept = dict.fromkeys(x.variable for x in tape.program()[1] if type(x) is StageTracer)
    return [Residual(v.aval, origins[v]) for v in kept]


def _unchecked(jaxpr: Jaxpr) -> Jaxpr:
    """The program without checkpoints, those of inner programs included."""
    found = jaxpr.derived.get("unchecked")
    if found is None:
        trace = StageTrace(None, jaxpr.name, "grad", embed=True)
        inputs = [trace.new_input(a) for a in jaxpr.in_avals]
        with recording(trace):
            outs = _eval_unchecked(jaxpr, inputs)
        found = jaxpr.derived["unchecked"] = intern(trace.close(inputs, outs).jaxpr)
    return found


def _eval_unchecked(jaxpr: Jaxpr, values: Any) -> list[Any]:
    env = dict(zip(jaxpr.invars, values, strict=True))
    for eqn in jaxpr.eqns:
        operands = [env[a] if type(a) is Var else a.val for a in eqn.invars]
        if eqn.primitive is remat_p:
            outs = _eval_unchecked(eqn.params["jaxpr"], operands)
        else:
            params = {k: _turned(v) for k, v in eqn.params.items()}
            outs = list(bind_in(current.get(), eqn.primitive, tuple(operands), params))
        env.update(zip(eqn.outvars, outs, strict=True))
    return [env[a] if type(a) is Var else a.val for a in jaxpr.outvars]


def _turned(value: Any) -> Any:
    if isinstance(value, Jaxpr):
        return _unchecked(value)
    if isinstance(value, ClosedJaxpr):
        return value.replace(jaxpr=_unchecked(value.jaxpr))
    if isinstance(value, tuple) and any(isinstance(v, (Jaxpr, ClosedJaxpr)) for v in value):
        return tuple([_turned(v) for v in value])
    return value
