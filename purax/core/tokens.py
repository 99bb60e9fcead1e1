# SPDX-License-Identifier: Apache-2.0
"""Order made visible: a program with ordered effects, rewritten so that each of them needs the one before.

A compiler may run operations that do not use each other's results in any order. So each ordered effect takes a token, an
array of one element, and gives the next one. The token goes through calls, branches and loops as any value does; right before a
program is lowered it gets its first token, and the last one is dropped.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from purax.core.aval import array_aval
from purax.core.effects import any_chained, any_ordered
from purax.core.hooks import hooks
from purax.core.ir import Equation, Jaxpr, Literal, Var, intern
from purax.core.rules import RuleTable

__all__ = ["token_aval", "token_rules", "with_token_operand", "with_tokens"]

token_aval = array_aval((), np.dtype(bool))

token_rules = RuleTable("token")
"""`rule(equation, token) -> equation` that takes the token and gives the next one as its first output."""


def with_tokens(jaxpr: Jaxpr) -> Jaxpr:
    """The same program with its ordered effects in a chain; remembered."""
    if not any_chained(jaxpr.effects):
        return jaxpr
    found = jaxpr.derived.get("tokens")
    if found is None:
        first = Literal(hooks.as_array(np.zeros((), bool)), token_aval)
        eqns, _ = _chained(jaxpr, first)
        found = Jaxpr(jaxpr.constvars, jaxpr.invars, jaxpr.outvars, eqns, jaxpr.names, jaxpr.name)
        jaxpr.derived["tokens"] = found
    return found


def with_token_operand(jaxpr: Jaxpr) -> Jaxpr:
    """The program `(token, inputs) -> (token, outputs)`; remembered."""
    found = jaxpr.derived.get("token operand")
    if found is None:
        first = Var(token_aval)
        eqns, last = _chained(jaxpr, first)
        found = intern(Jaxpr([], [first, *jaxpr.invars], [last, *jaxpr.outvars], eqns, (), jaxpr.name))
        jaxpr.derived["token operand"] = found
    return found


def _chained(jaxpr: Jaxpr, token: Any) -> tuple[list[Equation], Any]:
    eqns = []
    for eqn in jaxpr.eqns:
        if any_ordered(eqn.effects) or (any_chained(eqn.effects) and eqn.primitive in token_rules):
            eqn = token_rules[eqn.primitive](eqn, token)
            token = eqn.outvars[0]
        eqns.append(eqn)
    return eqns, token
