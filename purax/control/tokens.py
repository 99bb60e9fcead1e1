# SPDX-License-Identifier: Apache-2.0
"""How a token goes through the primitives that hold programs: calls, branches, loops, regions of a mesh (see `core/tokens.py`)."""

from __future__ import annotations

from typing import Any

from purax.control.branch import cond_p
from purax.control.composite import composite_p
from purax.control.custom_jvp import custom_jvp_call_p
from purax.control.custom_vjp import custom_vjp_call_p
from purax.control.custom_vmap import custom_vmap_call_p
from purax.control.program import build, permuted
from purax.control.program_call import jit_p
from purax.control.remat import remat_linear_p, remat_p
from purax.control.rewind import rewound_p
from purax.control.scan import scan_p
from purax.control.shard_map import shard_map_p
from purax.control.solve import custom_linear_solve_p, solver_of
from purax.control.while_loop import forward_only_p, while_p
from purax.core.effects import any_chained
from purax.core.interpret import eval_jaxpr
from purax.core.ir import Equation, Jaxpr, Var
from purax.core.tokens import token_aval, token_rules, with_token_operand
from purax.sharding import PartitionSpec

__all__: list[str] = []


def _threaded(eqn: Equation, operands: list[Any], params: dict[str, Any], primitive: Any = None) -> Equation:
    """The equation on other operands; its outputs are the token and those that it had."""
    outvars = [Var(token_aval), *eqn.outvars]
    return eqn.replace(invars=operands, outvars=outvars, params=params, primitive=primitive or eqn.primitive)


@token_rules.register(jit_p)
def _call(eqn: Equation, token: Any) -> Equation:
    return _threaded(eqn, [token, *eqn.invars], {**eqn.params, "jaxpr": with_token_operand(eqn.params["jaxpr"])})


@token_rules.register(remat_p)
@token_rules.register(remat_linear_p)
@token_rules.register(custom_jvp_call_p)
@token_rules.register(custom_vjp_call_p)
@token_rules.register(custom_vmap_call_p)
@token_rules.register(composite_p)
@token_rules.register(forward_only_p)
@token_rules.register(rewound_p)
def _written_out(eqn: Equation, token: Any) -> Equation:
    """What is written in place when it is lowered is a plain call from here on."""
    jaxpr = with_token_operand(eqn.params["jaxpr"])
    return _threaded(eqn, [token, *eqn.invars], {"jaxpr": jaxpr, "name": jaxpr.name, "inline": True}, jit_p)


@token_rules.register(custom_linear_solve_p)
def _solver(eqn: Equation, token: Any) -> Equation:
    """Only the solver itself is run."""
    jaxpr, operands = solver_of(eqn)
    params = {"jaxpr": with_token_operand(jaxpr), "name": jaxpr.name, "inline": True}
    return _threaded(eqn, [token, *operands], params, jit_p)


@token_rules.register(cond_p)
def _branches(eqn: Equation, token: Any) -> Equation:
    index, *operands = eqn.invars
    branches = tuple([with_token_operand(j) for j in eqn.params["branches"]])
    return _threaded(eqn, [index, token, *operands], {"branches": branches})


@token_rules.register(scan_p)
def _scan(eqn: Equation, token: Any) -> Equation:
    params, consts = eqn.params, eqn.params["consts"]
    body = with_token_operand(params["jaxpr"])
    order = [*range(1, consts + 1), 0, *range(consts + 1, len(body.invars))]
    body = permuted(body, order, range(len(body.outvars)))
    operands = [*eqn.invars[:consts], token, *eqn.invars[consts:]]
    return _threaded(eqn, operands, {**params, "jaxpr": body, "carry": params["carry"] + 1})


@token_rules.register(shard_map_p)
def _region(eqn: Equation, token: Any) -> Equation:
    """Each device has a chain of its own."""
    params = eqn.params
    specs = {name: (PartitionSpec(), *params[name]) for name in ("in_specs", "out_specs")}
    changed = {**params, **specs, "jaxpr": with_token_operand(params["jaxpr"])}
    return _threaded(eqn, [token, *eqn.invars], changed)


@token_rules.register(while_p)
def _while(eqn: Equation, token: Any) -> Equation:
    params, start, n_body = eqn.params, eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
    condition, body = params["cond_jaxpr"], with_token_operand(params["body_jaxpr"])
    fixed, consts, values = eqn.invars[:start], eqn.invars[start : start + n_body], eqn.invars[start + n_body :]
    if any_chained(condition.effects):
        return _while_with_condition(eqn, token, with_token_operand(condition), body)
    order = [*range(1, n_body + 1), 0, *range(n_body + 1, len(body.invars))]
    body = permuted(body, order, range(len(body.outvars)))
    condition = _ignoring(condition, start)
    changed = {**params, "cond_jaxpr": condition, "body_jaxpr": body}
    return _threaded(eqn, [*fixed, *consts, token, *values], changed)


def _ignoring(condition: Jaxpr, start: int) -> Jaxpr:
    """The condition of a loop with a token before its values."""
    invars = [*condition.invars[:start], Var(token_aval), *condition.invars[start:]]
    return Jaxpr([], invars, condition.outvars, condition.eqns, (), condition.name)


def _while_with_condition(eqn: Equation, token: Any, condition: Jaxpr, body: Jaxpr) -> Equation:
    """A condition with ordered effects is part of the steps: the loop carries what it said last."""
    start, n_body = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]

    def whole(token: Any, *xs: Any) -> list[Any]:
        fixed, consts, values = xs[:start], xs[start : start + n_body], xs[start + n_body :]
        first, going = eval_jaxpr(condition, (), token, *fixed, *values)

        def step(*state: Any) -> list[Any]:
            fixed, consts = state[:start], state[start : start + n_body]
            _, token, *values = state[start + n_body :]
            token, *values = eval_jaxpr(body, (), token, *consts, *values)
            token, going = eval_jaxpr(condition, (), token, *fixed, *values)
            return [going, token, *values]

        avals = [a.aval for a in (going, first, *values)]
        held = [x.aval for x in (*fixed, *consts)]
        results = while_p.bind(
            *fixed, *consts, going, first, *values, cond_jaxpr=build(lambda going, *_: [going], avals, condition.name),
            body_jaxpr=build(step, [*held, *avals], body.name), cond_nconsts=0, body_nconsts=len(held),
            max_steps=eqn.params["max_steps"],
        )  # fmt: skip
        return list(results[1:])

    program = build(whole, [token_aval, *[a.aval for a in eqn.invars]], condition.name)
    return _threaded(eqn, [token, *eqn.invars], {"jaxpr": program, "name": program.name, "inline": True}, jit_p)
