# SPDX-License-Identifier: Apache-2.0
"""Programs whose checks are results: `inputs -> (outputs, code, values)`.

The code is zero, or one more than the number of the first check that failed, in the order in which the program runs. Programs
held by calls, branches and loops are discharged on their own; what they report is joined with what was reported before, and the
first report stays. A loop adds the number of the step, a map the number of the lane.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from purax.control.branch import cond_p, places_in
from purax.control.check import CODE, Site, Table, check_p, exception_of
from purax.control.composite import composite_p
from purax.control.custom_jvp import custom_jvp_call_p
from purax.control.custom_rules import Rule
from purax.control.custom_vjp import custom_vjp_call_p
from purax.control.custom_vmap import custom_vmap_call_p
from purax.control.program import build
from purax.control.program_call import jit_p
from purax.control.remat import remat_linear_p, remat_p
from purax.control.rewind import rewound_p
from purax.control.scan import scan_p
from purax.control.shard_map import shard_map_p
from purax.control.solve import custom_linear_solve_p
from purax.control.while_loop import forward_only_p, while_p
from purax.core.effects import CHECK
from purax.core.hooks import hooks
from purax.core.interpret import eval_jaxpr
from purax.core.ir import Equation, Jaxpr, Var, intern
from purax.core.rules import RuleTable
from purax.core.stage import StageTrace, StageTracer, recording
from purax.core.trace import aval_of
from purax.primitives import bits, comparison, elementwise, joining, reduction, shape, slicing
from purax.primitives.base import zeros_of
from purax.sharding import PartitionSpec

__all__ = ["Report", "discharge"]


_EMPTY = Table((), ())


class Report:
    """What was reported up to some point of a program.

    Attributes
    ----------
    table : Table
    code : scalar int32
    slots : list of arrays
    """

    __slots__ = ("code", "slots", "table")

    def __init__(self, table: Table = _EMPTY, code: Any = None, slots: Sequence[Any] = ()) -> None:
        self.table, self.slots = table, list(slots)
        self.code = zeros_of(CODE) if code is None else code

    def values(self) -> list[Any]:
        """Code and slots."""
        return [self.code, *self.slots]

    def then(self, later: Report) -> Report:
        """Itself, or the later report where it tells of no failure."""
        if not later.table.sites:
            return self
        if not self.table.sites:
            return later
        table, place = _joined(self.table, later.table)
        slots = [*self.slots, *map(zeros_of, table.slots[len(self.slots) :])]
        return Report(table, self.code, slots).or_else(later, place, len(self.table.sites))

    def or_else(self, later: Report, place: Sequence[int], offset: int) -> Report:
        """The same, for a later report whose checks and slots have their places in the table of this one."""
        quiet = comparison.eq(self.code, np.int32(0))
        slots = list(self.slots)
        for i, new in zip(place, later.slots, strict=True):
            slots[i] = comparison.select_n(quiet, slots[i], new)
        return Report(self.table, comparison.select_n(quiet, self.code, _shifted(later.code, offset)), slots)


def _shifted(code: Any, offset: int) -> Any:
    """The number of a check in a table that has `offset` others before it."""
    if not offset:
        return code
    fails = comparison.ne(code, np.int32(0))
    return comparison.select_n(fails, code, elementwise.add(code, np.int32(offset)))


def _joined(first: Table, second: Table) -> tuple[Table, list[int]]:
    """One table for both, and where the slots of the second are in it. At most one check fails, so slots are shared."""
    slots = list(first.slots)
    place = places_in(slots, second.slots)
    return Table((*first.sites, *[s.moved(place) for s in second.sites]), tuple(slots)), place


def discharge(jaxpr: Jaxpr, raising: bool = False) -> tuple[Jaxpr, Table]:
    """The program with its checks as results; remembered on the program.

    Parameters
    ----------
    jaxpr : Jaxpr
        Its constants are inputs.
    raising : bool
        A failure will be raised, so that loops may stop at it; checks that are there for `checkify` only are left out.

    Returns
    -------
    (Jaxpr, Table)
    """
    key = ("discharge", raising)
    found = jaxpr.derived.get(key)
    if found is None:
        found = jaxpr.derived.setdefault(key, _Discharge(jaxpr, raising).run())
    return found


class _Discharge:
    """Walks over a program: equations without checks stay as they are."""

    def __init__(self, jaxpr: Jaxpr, raising: bool) -> None:
        self.jaxpr, self.raising = jaxpr, raising
        self.trace = StageTrace(None, jaxpr.name, "checks", embed=True)
        self.renamed: dict[Var, Any] = {}
        self.report = Report()

    def run(self) -> tuple[Jaxpr, Table]:
        """The discharged program and its table."""
        jaxpr, trace = self.jaxpr, self.trace
        with recording(trace):
            for eqn in jaxpr.eqns:
                before = len(trace.eqns)
                if CHECK in eqn.effects:
                    outs, later = check_rules[eqn.primitive](self, eqn, [self.value(a) for a in eqn.invars])
                    self.renamed.update(zip(eqn.outvars, [trace.atom(x) for x in outs], strict=True))
                    self.report = self.report.then(later)
                    for new in trace.eqns[before:]:
                        new.source = eqn.source
                else:
                    trace.eqns.append(eqn.replace(invars=[self.atom(a) for a in eqn.invars]))
            outs = [*[self.atom(a) for a in jaxpr.outvars], *[trace.atom(x) for x in self.report.values()]]
        invars = [*jaxpr.constvars, *jaxpr.invars]
        return intern(Jaxpr([], invars, outs, trace.eqns, jaxpr.names, jaxpr.name)), self.report.table

    def atom(self, a: Any) -> Any:
        """A variable or literal of the program, as it is called now."""
        return self.renamed.get(a, a) if type(a) is Var else a

    def value(self, a: Any) -> Any:
        """The same, for use in rules."""
        a = self.atom(a)
        return StageTracer(self.trace, a) if type(a) is Var else a.val

    def inner(self, jaxpr: Jaxpr) -> tuple[Jaxpr, Table]:
        """A program that the equation holds, discharged."""
        return discharge(jaxpr, self.raising)


check_rules = RuleTable("check")
"""`rule(discharge, equation, operands) -> (outputs, Report)`."""


@check_rules.register(check_p)
def _check(d: _Discharge, eqn: Equation, operands: list[Any]) -> Any:
    """The report of the first lane that failed."""
    table, lanes = eqn.params["table"], eqn.params["lanes"]
    if eqn.params["debug"] and d.raising:
        return [], Report()
    if not lanes:
        return [], Report(table, operands[0], operands[1:])
    return [], _first_lane(table, operands, aval_of(operands[0]).shape)


def _first_lane(table: Table, operands: Sequence[Any], sizes: tuple[int, ...]) -> Report:
    total = math.prod(sizes)
    if not total:
        return Report()
    flat = [shape.reshape(x, (total, *aval_of(x).shape[len(sizes) :])) for x in operands]
    fails = comparison.ne(flat[0], zeros_of(aval_of(flat[0])))
    first = reduction.argmax(fails, 0, np.int32)
    code, *slots = [slicing.dynamic_index_in_dim(x, first, 0, keepdims=False) for x in flat]
    numbers = []
    for size in reversed(sizes):
        numbers.append(elementwise.rem(first, np.int32(size)))
        first = elementwise.div(first, np.int32(size))
    lane = joining.concatenate([shape.reshape(n, (1,)) for n in reversed(numbers)], 0)
    sites = tuple([s._replace(lane=len(table.slots)) for s in table.sites])
    return Report(Table(sites, (*table.slots, aval_of(lane))), code, [*slots, lane])


@check_rules.register(jit_p)
def _call(d: _Discharge, eqn: Equation, operands: list[Any]) -> Any:
    jaxpr, table = d.inner(eqn.params["jaxpr"])
    results = jit_p.bind(*operands, **{**eqn.params, "jaxpr": jaxpr})
    count = len(eqn.outvars)
    return results[:count], Report(table, results[count], results[count + 1 :])


@check_rules.register(remat_p)
@check_rules.register(remat_linear_p)
def _checkpoint(d: _Discharge, eqn: Equation, operands: list[Any]) -> Any:
    jaxpr, table = d.inner(eqn.params["jaxpr"])
    results = eqn.primitive.bind(*operands, **{**eqn.params, "jaxpr": jaxpr})
    count = len(eqn.outvars)
    return results[:count], Report(table, results[count], results[count + 1 :])


@check_rules.register(composite_p)
@check_rules.register(custom_vmap_call_p)
@check_rules.register(forward_only_p)
@check_rules.register(rewound_p)
def _without_rule(d: _Discharge, eqn: Equation, operands: list[Any]) -> Any:
    """A function that reports is a call like any other: the rule that it had gives no report."""
    jaxpr, table = d.inner(eqn.params["jaxpr"])
    results = jit_p.bind(*operands, jaxpr=jaxpr, name=jaxpr.name, inline=True)
    count = len(eqn.outvars)
    return results[:count], Report(table, results[count], results[count + 1 :])


@check_rules.register(custom_linear_solve_p)
def _solver(d: _Discharge, eqn: Equation, operands: list[Any]) -> Any:
    """Only the solver is run; its report follows its solution, as auxiliary values do."""
    programs = eqn.params["programs"]
    jaxpr, table = d.inner(programs.solve)
    results = custom_linear_solve_p.bind(*operands, **{**eqn.params, "programs": programs._replace(solve=jaxpr)})
    count = len(eqn.outvars)
    return results[:count], Report(table, results[count], results[count + 1 :])


@check_rules.register(cond_p)
def _branches(d: _Discharge, eqn: Equation, operands: list[Any]) -> Any:
    branches = [d.inner(j) for j in eqn.params["branches"]]
    count = len(eqn.outvars)
    slots: list[Any] = []
    places = [places_in(slots, table.slots) for _, table in branches]
    sites: list[Site] = []
    programs = []
    for (jaxpr, table), place in zip(branches, places, strict=True):
        programs.append(_reporting(jaxpr, count, len(sites), slots, place))
        sites += [s.moved(place) for s in table.sites]
    results = cond_p.bind(*operands, branches=tuple(programs))
    return results[:count], Report(Table(tuple(sites), tuple(slots)), results[count], results[count + 1 :])


def _reporting(jaxpr: Jaxpr, count: int, offset: int, slots: Sequence[Any], place: Sequence[int]) -> Jaxpr:
    """A branch that reports by the numbers and slots that all branches share."""

    def run(*xs: Any) -> list[Any]:
        outs = eval_jaxpr(jaxpr, (), *xs)
        code = _shifted(outs[count], offset)
        own = dict(zip(place, outs[count + 1 :], strict=True))
        return [*outs[:count], code, *[own[i] if i in own else zeros_of(a) for i, a in enumerate(slots)]]

    return build(run, jaxpr.in_avals, jaxpr.name)


def _with_step(table: Table) -> Table:
    """The checks of the body of a loop, each with the number of the step."""
    count = len(table.slots)
    return Table(tuple([s._replace(steps=(count, *s.steps)) for s in table.sites]), (*table.slots, CODE))


@check_rules.register(scan_p)
def _scan(d: _Discharge, eqn: Equation, operands: list[Any]) -> Any:
    params = eqn.params
    consts, carry = params["consts"], params["carry"]
    jaxpr, inner = d.inner(params["jaxpr"])
    count = len(eqn.outvars)
    start = Report(_with_step(inner), zeros_of(CODE), [*map(zeros_of, inner.slots), zeros_of(CODE)])
    extra = len(start.values())

    def body(*xs: Any) -> list[Any]:
        fixed, rest = xs[:consts], xs[consts:]
        step, code, *slots = rest[: 1 + extra]
        outs = eval_jaxpr(jaxpr, (), *fixed, *rest[1 + extra :])
        now = Report(start.table, outs[count], [*outs[count + 1 :], step])
        report = Report(start.table, code, slots).or_else(now, range(len(slots)), 0)
        return [elementwise.add(step, np.int32(1)), *report.values(), *outs[:count]]

    fixed, rest = operands[:consts], operands[consts:]
    counters = [zeros_of(CODE), *start.values()]
    avals = [aval_of(x) for x in (*fixed, *counters)]
    avals += params["jaxpr"].in_avals[consts:]
    changed = {**params, "jaxpr": build(body, avals, jaxpr.name), "carry": carry + 1 + extra}
    _, code, *results = scan_p.bind(*fixed, *counters, *rest, **changed)
    return results[extra - 1 :], Report(start.table, code, results[: extra - 1])


@check_rules.register(while_p)
def _while(d: _Discharge, eqn: Equation, operands: list[Any]) -> Any:
    """The condition is part of the steps; the loop carries what it said last."""
    params, start, n_body = eqn.params, eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
    condition, cond_table = d.inner(params["cond_jaxpr"])
    body, body_table = d.inner(params["body_jaxpr"])
    count = len(eqn.outvars)
    fixed, consts, values = operands[:start], operands[start : start + n_body], operands[start + n_body :]
    step_cond, step_body = [_with_step(t) for t in (cond_table, body_table)]

    def ask(step: Any, fixed: Any, values: Any) -> tuple[Any, Report]:
        going, code, *slots = eval_jaxpr(condition, (), *fixed, *values)
        return going, Report(step_cond, code, [*slots, step])

    def advance(step: Any, consts: Any, values: Any) -> tuple[list[Any], Report]:
        outs = eval_jaxpr(body, (), *consts, *values)
        return outs[:count], Report(step_body, outs[count], [*outs[count + 1 :], step])

    zero = zeros_of(CODE)
    going, first = ask(zero, fixed, values)
    table, place = _joined(step_cond, step_body)
    begun = [*first.slots, *map(zeros_of, table.slots[len(first.slots) :])]
    shared = start + n_body

    def step(*xs: Any) -> list[Any]:
        fixed, consts = xs[:start], xs[start:shared]
        number, _, code, *rest = xs[shared:]
        slots, values = rest[: len(table.slots)], rest[len(table.slots) :]
        values, moved = advance(number, consts, values)
        number = elementwise.add(number, np.int32(1))
        going, asked = ask(number, fixed, values)
        report = Report(table, code, slots)
        for later, where, offset in ((moved, place, len(step_cond.sites)), (asked, range(len(asked.slots)), 0)):
            report = report.or_else(later, where, offset)
        return [number, going, *report.values(), *values]

    raising = d.raising

    def still(number: Any, going: Any, code: Any, *_: Any) -> list[Any]:
        del number
        if not raising:
            return [going]
        quiet = comparison.eq(code, np.int32(0))
        return [bits.bitwise_and(going, shape.broadcast_in_dim(quiet, aval_of(going).shape, ()))]

    state = [zero, going, first.code, *begun, *values]
    avals = [aval_of(x) for x in state]
    held = [aval_of(x) for x in (*fixed, *consts)]
    results = while_p.bind(
        *fixed, *consts, *state, cond_jaxpr=build(still, avals, condition.name), body_jaxpr=build(step, [*held, *avals], body.name),
        cond_nconsts=0, body_nconsts=len(held), max_steps=params["max_steps"],
    )  # fmt: skip
    _, _, code, *rest = results
    return rest[len(table.slots) :], Report(table, code, rest[: len(table.slots)])


@check_rules.register(shard_map_p)
def _region(d: _Discharge, eqn: Equation, operands: list[Any]) -> Any:
    """Each device reports on its own; of the reports side by side the first one with a failure stays."""
    params = eqn.params
    jaxpr, table = d.inner(params["jaxpr"])
    count = len(eqn.outvars)
    axes = params["axes"]

    def run(*xs: Any) -> list[Any]:
        outs = eval_jaxpr(jaxpr, (), *xs)
        return [*outs[:count], *[shape.reshape(x, (1, *aval_of(x).shape)) for x in outs[count:]]]

    trace = StageTrace(None, jaxpr.name, "shard_map", embed=True)
    inputs = [trace.new_input(a) for a in jaxpr.in_avals]
    with recording(trace):
        local = run(*inputs)
    program = intern(trace.close(inputs, local).jaxpr)
    specs = (*params["out_specs"], *[PartitionSpec(tuple(axes))] * (len(program.outvars) - count))
    results = shard_map_p.bind(*operands, **{**params, "jaxpr": program, "out_specs": specs})
    lanes = results[count:]
    return results[:count], _first_lane(table, lanes, aval_of(lanes[0]).shape)


class _Silent(Rule):
    """A rule of the user's, for the function that reports as well: derivatives of a report are zero."""

    def __init__(self, rule: Any, avals: tuple[Any, ...]) -> None:
        super().__init__(rule, avals)
        self.rule, self.avals, self.flat = rule, avals, rule.flat
        self.optimize_remat = getattr(rule, "optimize_remat", False)

    def _quiet(self) -> list[Any]:
        return [zeros_of(a) for a in self.avals]

    def __call__(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """The jvp rule."""
        outs, out_tangents = self.rule(primals, tangents)
        return [*outs, *self._quiet()], [*out_tangents, *[None] * len(self.avals)]

    def run_forward(self, primals: Sequence[Any], perturbed: Sequence[bool]) -> Any:
        """The forward rule."""
        outs, residuals, rebuild = self.rule.run_forward(primals, perturbed)
        return [*outs, *self._quiet()], residuals, rebuild

    def run_backward(self, residuals: Any, values: Any, cotangents: Any, out_avals: Any, in_avals: Any) -> list[Any]:
        """The backward rule."""
        count = len(out_avals) - len(self.avals)
        return self.rule.run_backward(residuals, values, cotangents[:count], out_avals[:count], in_avals)


@check_rules.register(custom_jvp_call_p)
@check_rules.register(custom_vjp_call_p)
def _with_rule(d: _Discharge, eqn: Equation, operands: list[Any]) -> Any:
    jaxpr, table = d.inner(eqn.params["jaxpr"])
    count = len(eqn.outvars)
    rule = _Silent(eqn.params["rule"], tuple(jaxpr.out_avals[count:]))
    results = eqn.primitive.bind(*operands, **{**eqn.params, "jaxpr": jaxpr, "rule": rule})
    return results[:count], Report(table, results[count], results[count + 1 :])


# --- what a compiled program with checks needs --------------------------------------------------------------------------------


def _compiled_form(jaxpr: Jaxpr) -> tuple[Jaxpr, tuple[Any, ...], Any]:
    """The program with its report as last results, their types, and what raises for them."""
    program, table = discharge(jaxpr, raising=True)

    def raise_for(read: Sequence[Callable[[], np.ndarray]]) -> None:
        code = int(read[0]())
        if code:
            raise exception_of(table, code, [value() for value in read[1:]])

    return program, program.out_avals[len(jaxpr.outvars) :], raise_for


hooks.discharge = _compiled_form
hooks.report = lambda jaxpr: discharge(jaxpr, raising=True)
