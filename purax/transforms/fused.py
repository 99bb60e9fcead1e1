# SPDX-License-Identifier: Apache-2.0
"""Derivative rules of single primitives as prepared programs, for eager derivatives.

Run one by one, the operations of a rule (`sin`, `cos`, a product) cost a dispatch through every trace, and a device call each.
Rules are ours and pure, so the program of a rule is made once per (primitive, avals, params): operations that the host
computes exactly run there one after the other, anything else is compiled as a whole and takes one call. The tape of reverse
mode then holds one entry per primitive of the user's, which knows the program of its own transpose.

Parameters
----------
primitive : Primitive
primals : list of arrays
    Made Arrays in place.
tangents : sequence of arrays or None
params : dict
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from purax.core.interpret import eval_jaxpr
from purax.core.ir import Equation, Jaxpr, Literal, Var
from purax.core.primitive import Linear
from purax.pipeline.evaluate import kernel_of, on_host, one_equation, operand, program_kernel
from purax.runtime.array import Array
from purax.transforms import jvp as forward_mode
from purax.transforms import transpose

__all__ = ["FusedEntry", "JvpPlan", "TapePlan", "jvp_plan", "tape_plan"]

_MISSING = object()


def _key(kind: str, primals: list[Any], tangents: Sequence[Any], params: dict[str, Any]) -> Any:
    for i, x in enumerate(primals):
        if type(x) is not Array:
            primals[i] = operand(x)
    avals = tuple([x.aval for x in primals])
    mask = tuple([t is not None for t in tangents])
    return (kind, avals, mask, tuple(params.items())) if params else (kind, avals, mask)


def _program(primitive: Any, primals: Sequence[Any], params: dict[str, Any]) -> Jaxpr | None:
    """The program of one application, or None where the rule is not to be prepared."""
    if primitive.run is not None or primitive.linearize is not None or primitive.names_axes:
        return None
    if any(isinstance(v, Jaxpr) for v in params.values()):
        return None
    avals = tuple([x.aval for x in primals])
    return one_equation(primitive, avals, params, primitive.outputs(avals, params))


# --- programs of rules --------------------------------------------------------------------------------------------------


def _runner(jaxpr: Jaxpr, name: str) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """A function from the Arrays that go in to those that come out."""
    for eqn in jaxpr.eqns:
        avals, outs = tuple([a.aval for a in eqn.invars]), tuple([v.aval for v in eqn.outvars])
        if eqn.primitive.run is not None or not on_host(eqn.primitive, avals, eqn.params, outs):
            return program_kernel(jaxpr, name)
    return _chain(jaxpr)


def _chain(jaxpr: Jaxpr) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """The equations one after the other on the host; values (inputs, literals, results) are found by their position."""
    atoms = [a for eqn in jaxpr.eqns for a in eqn.invars] + jaxpr.outvars
    literals = [a for a in atoms if type(a) is Literal]
    place: dict[Any, int] = {a: i for i, a in enumerate([*jaxpr.invars, *literals])}
    first = len(place)
    steps = []
    for eqn in jaxpr.eqns:
        kernel = kernel_of(eqn.primitive, tuple([a.aval for a in eqn.invars]), eqn.params)
        steps.append((kernel, [place[a] for a in eqn.invars]))
        for v in eqn.outvars:
            place[v] = len(place)
    results = [place[a] for a in jaxpr.outvars]
    constants = [operand(a.val) for a in literals]
    if not steps and not literals:
        return lambda given: [given[i] for i in results]
    if len(steps) == 1 and not literals and results == list(range(first, len(place))):
        (kernel, places), *_ = steps
        return lambda given: kernel([given[i] for i in places])

    def run(given: Sequence[Any]) -> Sequence[Any]:
        values = [*given, *constants]
        for kernel, places in steps:
            values += kernel([values[i] for i in places])
        return [values[i] for i in results]

    return run


# --- forward mode -------------------------------------------------------------------------------------------------------


class JvpPlan:
    """A prepared jvp rule."""

    __slots__ = ("count", "out_nonzero", "run")

    def __init__(self, jaxpr: Jaxpr, mask: tuple[bool, ...], name: str) -> None:
        derived, self.out_nonzero = forward_mode.jvp_jaxpr(jaxpr, mask)
        self.count = len(jaxpr.outvars)
        self.run = _runner(derived, f"jvp of {name}")

    def __call__(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        """Outputs and output tangents."""
        given = [t if type(t) is Array else operand(t) for t in tangents if t is not None]
        results = self.run([*primals, *given])
        rest = iter(results[self.count :])
        return results[: self.count], [next(rest) if n else None for n in self.out_nonzero]


def jvp_plan(primitive: Any, primals: list[Any], tangents: Sequence[Any], params: dict[str, Any]) -> JvpPlan | None:
    """The plan for these types, made on first use; None where the rule is not to be prepared."""
    key = _key("jvp", primals, tangents, params)
    plan = primitive.kernels.get(key, _MISSING)
    if plan is _MISSING:
        jaxpr = _program(primitive, primals, params)
        plan = None if jaxpr is None else JvpPlan(jaxpr, key[2], primitive.name)
        primitive.kernels[key] = plan
    return plan


# --- reverse mode -------------------------------------------------------------------------------------------------------


class TapePlan:
    """A prepared primal part, the linear program that goes on the tape, and the transpose of that."""

    __slots__ = ("count", "linear", "name", "out_nonzero", "residuals", "run", "tangent_avals", "transposes")

    def __init__(self, jaxpr: Jaxpr, mask: tuple[bool, ...], name: str) -> None:
        parts = transpose.linearize_jaxpr(jaxpr, mask, None, False)
        self.name = name
        self.linear = parts.linear
        self.count = len(jaxpr.outvars)
        self.residuals = [i if where == "in" else i + len(jaxpr.invars) for where, i in parts.residuals]
        self.out_nonzero = parts.out_nonzero
        self.tangent_avals = parts.linear.out_avals
        self.run = _runner(parts.forward, name)
        self.transposes: dict[Any, Any] = {}

    def __call__(self, linear: Any, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        """Outputs and their tangents on the tape `linear`."""
        results = self.run(primals)
        values = (*primals, *results)
        given = [t for t in tangents if t is not None]
        outs = linear.append_fused(self, [values[i] for i in self.residuals], given)
        if len(outs) == self.count:
            return results[: self.count], outs
        rest = iter(outs)
        return results[: self.count], [next(rest) if n else None for n in self.out_nonzero]

    def pull(self, residuals: list[Any], cotangents: tuple[Any, ...]) -> Sequence[Any]:
        """Cotangents of the tangents that went in, None where zero."""
        nonzero = tuple([c is not None for c in cotangents])
        run, given = self.transposes.get(nonzero) or self._transposed(nonzero)
        results = run([*residuals, *[c for c in cotangents if c is not None]])
        if len(results) == len(given):
            return results
        rest = iter(results)
        return [next(rest) if g else None for g in given]

    def _transposed(self, nonzero: tuple[bool, ...]) -> Any:
        """How to run the transpose where these cotangents are given, and which of its results are nonzero."""
        first = len(self.residuals)
        linear = tuple([i >= first for i in range(len(self.linear.invars))])
        jaxpr, given, _ = transpose.transpose_jaxpr(self.linear, linear, nonzero)
        found = self.transposes[nonzero] = (_runner(jaxpr, f"transpose of {self.name}"), given)
        return found


class FusedEntry:
    """One primitive of the user's on the tape: its linear program, what that needs, and the tangents in and out."""

    __slots__ = ("operands", "outs", "plan", "residuals")
    source = None  # of eager code

    def __init__(self, plan: TapePlan, residuals: list[Any], operands: list[Any], outs: list[Any]) -> None:
        self.plan, self.residuals, self.operands, self.outs = plan, residuals, operands, outs

    def push(self, env: dict[int, Any]) -> Sequence[Any]:
        """Output tangents from those in `env`."""
        return eval_jaxpr(self.plan.linear, (), *self.residuals, *[env[t.index] for t in self.operands])

    def pull(self, cotangents: tuple[Any, ...], evaluating: bool) -> Sequence[Any]:
        """Cotangents of `operands`."""
        if evaluating and all([c is None or type(c) is Array for c in cotangents]):
            return self.plan.pull(self.residuals, cotangents)
        count = len(self.residuals)
        operands = [*self.residuals, *[Linear(t.aval) for t in self.operands]]
        return transpose.backward_pass(self.plan.linear, operands, cotangents)[count:]

    def record(self, atom: Callable[[Any], Any], variables: dict[int, Any], eqns: list[Equation]) -> None:
        """Write the linear program into another one: values become atoms by `atom`, tangents have their variables."""
        linear = self.plan.linear
        env = dict(zip(linear.invars, [atom(x) for x in (*self.residuals, *self.operands)], strict=True))
        for eqn in linear.eqns:
            invars = [env[a] if type(a) is Var else a for a in eqn.invars]
            env.update((v, Var(v.aval)) for v in eqn.outvars)
            eqns.append(eqn.replace(invars=invars, outvars=[env[v] for v in eqn.outvars]))
        for out, a in zip(self.outs, linear.outvars, strict=True):
            variables[out.index] = env[a] if type(a) is Var else a


def tape_plan(primitive: Any, primals: list[Any], tangents: Sequence[Any], params: dict[str, Any]) -> TapePlan | None:
    """The plan for these types, made on first use; None where the rule is not to be prepared."""
    key = _key("tape", primals, tangents, params)
    plan = primitive.kernels.get(key, _MISSING)
    if plan is _MISSING:
        jaxpr = _program(primitive, primals, params)
        plan = None if jaxpr is None else TapePlan(jaxpr, key[2], primitive.name)
        primitive.kernels[key] = plan
    return plan
