# SPDX-License-Identifier: Apache-2.0
"""Derivative rules of single primitives as compiled programs, for eager derivatives.

Run one by one, the operations of a rule (`sin`, `cos`, a product) are one device call each. Rules are ours and pure, so the
whole rule is compiled once per (primitive, avals, params) and takes one call. Operations that the host computes exactly need
no program: for them there is no plan and the rule runs as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from purax.core.ir import Jaxpr, Literal, Var
from purax.pipeline.evaluate import as_array, one_equation, program_kernel
from purax.runtime.array import Array
from purax.runtime.transfer import HOST_LIMIT
from purax.transforms import jvp as forward_mode
from purax.transforms import transpose

__all__ = ["JvpPlan", "TapePlan", "jvp_plan", "tape_plan"]

_MISSING = object()


def _key(kind: str, primals: list[Any], tangents: Sequence[Any], params: dict[str, Any]) -> Any:
    for i, x in enumerate(primals):
        if type(x) is not Array:
            primals[i] = as_array(x)
    avals = tuple([x.aval for x in primals])
    mask = tuple([t is not None for t in tangents])
    return (kind, avals, mask, tuple(params.items())) if params else (kind, avals, mask)


def _program(primitive: Any, primals: Sequence[Any], params: dict[str, Any]) -> Jaxpr | None:
    """The program of one application, or None where the host computes it or the rule is not to be compiled."""
    if primitive.run is not None or primitive.linearize is not None or primitive.names_axes:
        return None
    avals = tuple([x.aval for x in primals])
    outs = primitive.outputs(avals, params)
    exact = primitive.exact
    small = max((a.size for a in (*avals, *outs)), default=0) <= HOST_LIMIT
    if small and exact and (exact is True or exact(avals, params)):
        return None
    if any(isinstance(v, Jaxpr) for v in params.values()):
        return None
    return one_equation(primitive, avals, params, outs)


class JvpPlan:
    """A compiled jvp rule."""

    __slots__ = ("count", "kernel", "out_nonzero")

    def __init__(self, jaxpr: Jaxpr, mask: tuple[bool, ...], name: str) -> None:
        derived, self.out_nonzero = forward_mode.jvp_jaxpr(jaxpr, mask)
        self.count = len(jaxpr.outvars)
        self.kernel = program_kernel(derived, f"jvp of {name}")

    def __call__(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        """Outputs and output tangents."""
        given = [t if type(t) is Array else as_array(t) for t in tangents if t is not None]
        results = self.kernel([*primals, *given])
        rest = iter(results[self.count :])
        return results[: self.count], [next(rest) if n else None for n in self.out_nonzero]


def jvp_plan(primitive: Any, primals: list[Any], tangents: Sequence[Any], params: dict[str, Any]) -> JvpPlan | None:
    """The plan for these types, made on first use."""
    key = _key("jvp", primals, tangents, params)
    plan = primitive.kernels.get(key, _MISSING)
    if plan is _MISSING:
        jaxpr = _program(primitive, primals, params)
        plan = None if jaxpr is None else JvpPlan(jaxpr, key[2], primitive.name)
        primitive.kernels[key] = plan
    return plan


class TapePlan:
    """A compiled primal part, and the operations that go on the tape."""

    __slots__ = ("count", "kernel", "outputs", "parts", "rows", "tangents")

    def __init__(self, jaxpr: Jaxpr, mask: tuple[bool, ...], name: str) -> None:
        parts = transpose.linearize_jaxpr(jaxpr, mask, None, False)
        self.parts = parts
        self.count = len(jaxpr.outvars)
        self.kernel = program_kernel(parts.forward, name)
        # Values of the linear program by position: residuals, tangents, then what its equations define.
        number: dict[Var, int] = {v: i for i, v in enumerate(parts.linear.invars)}
        self.tangents = len(parts.linear.invars)
        self.rows: list[Any] = []
        for eqn in parts.linear.eqns:
            atoms = [a.val if type(a) is Literal else number[a] for a in eqn.invars]
            for v in eqn.outvars:
                number[v] = len(number)
            self.rows.append((eqn.primitive, atoms, eqn.params, [v.aval for v in eqn.outvars]))
        self.outputs = [number[v] if type(v) is Var else v.val for v in parts.linear.outvars]

    def __call__(self, linear: Any, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        """Outputs and their tangents on the tape `linear`."""
        results = self.kernel(primals)
        values = [primals[i] if where == "in" else results[i] for where, i in self.parts.residuals]
        values += [t for t in tangents if t is not None]
        for primitive, atoms, params, avals in self.rows:
            operands = tuple([values[a] if type(a) is int else a for a in atoms])
            values += linear.append(primitive, operands, params, avals)
        rest = iter([values[o] if type(o) is int else o for o in self.outputs])
        return results[: self.count], [next(rest) if n else None for n in self.parts.out_nonzero]


def tape_plan(primitive: Any, primals: list[Any], tangents: Sequence[Any], params: dict[str, Any]) -> TapePlan | None:
    """The plan for these types, made on first use."""
    key = _key("tape", primals, tangents, params)
    plan = primitive.kernels.get(key, _MISSING)
    if plan is _MISSING:
        jaxpr = _program(primitive, primals, params)
        plan = None if jaxpr is None else TapePlan(jaxpr, key[2], primitive.name)
        primitive.kernels[key] = plan
    return plan
