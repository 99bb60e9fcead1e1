# SPDX-License-Identifier: Apache-2.0
"""Taylor mode of the primitives that hold programs: calls are entered; loops and branches hold the program over coefficients."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from purax.control.branch import cond_p
from purax.control.custom_vjp import custom_vjp_call_p
from purax.control.program import build
from purax.control.program_call import jit_p
from purax.control.remat import remat_linear_p, remat_p
from purax.control.rewind import rewound_p
from purax.control.scan import scan_p
from purax.control.while_loop import forward_only_p, while_p
from purax.core.interpret import eval_jaxpr
from purax.core.trace import aval_of, current
from purax.primitives.base import instantiate, is_differentiable
from purax.transforms.jet import jet_flat, listed, taylor_rules

__all__: list[str] = []


def _entered(trace: Any, operands: Any, params: Any) -> Any:
    """A call is no more than its program."""
    return eval_jaxpr(params["jaxpr"], (), *operands)


for primitive in (jit_p, remat_p, remat_linear_p, forward_only_p, rewound_p):
    taylor_rules.register(primitive)(_entered)


@taylor_rules.register(custom_vjp_call_p)
def _custom_vjp(trace: Any, operands: Any, params: Any) -> Any:
    """The function itself: its rule says nothing about higher orders."""
    return params["fun"](*operands) if params["jaxpr"] is None else _entered(trace, operands, params)


def _terms(trace: Any, x: Any) -> list[Any]:
    """The coefficients of an operand, from the first on, zeros written out."""
    return [instantiate(trace.term(x, n), trace.term(x, 0)) for n in range(1, trace.order + 1)]


def _active(trace: Any, operands: Sequence[Any]) -> list[bool]:
    return [trace.owns(x) for x in operands]


def _outputs(trace: Any, count: int, results: Sequence[Any], mask: Sequence[bool]) -> list[Any]:
    """Outputs of a primitive bound outside the trace: `count` values, then the coefficients of those in the mask."""
    out = list(results[:count])
    rest = iter(results[count:])
    for i, m in enumerate(mask):
        if m:
            row = [next(rest) for _ in range(trace.order)]
            out[i] = trace.made(out[i], functools.partial(listed, row))
    return out


def _with_terms(jaxpr: Any, mask: Sequence[bool], wanted: Sequence[bool], order: int) -> tuple[Any, list[bool]]:
    """`(inputs, coefficients of those in the mask) -> (outputs, coefficients of those that have some)`.

    `wanted` outputs have coefficients even if they are zero.
    """
    key = ("taylor", tuple(mask), tuple(wanted), order)
    found = jaxpr.derived.get(key)
    if found is None:
        has: list[bool] = []

        def run(*xs: Any) -> list[Any]:
            primals, rest = xs[: len(mask)], iter(xs[len(mask) :])
            given = [[next(rest) for _ in range(order)] if m else None for m in mask]
            outs, terms = jet_flat(lambda *ys: eval_jaxpr(jaxpr, (), *ys), primals, given, order)
            has[:] = [t is not None or w for t, w in zip(terms, wanted, strict=True)]
            rows = [
                [instantiate(t, o) for t in (row or [None] * order)]
                for o, row, h in zip(outs, terms, has, strict=True)
                if h
            ]
            return [*outs, *(t for row in rows for t in row)]

        avals = [
            *jaxpr.in_avals,
            *(a.strip_weak() for a, m in zip(jaxpr.in_avals, mask, strict=True) if m for _ in range(order)),
        ]
        found = jaxpr.derived[key] = (build(run, avals, jaxpr.name), has)
    return found


def _differentiable(avals: Sequence[Any], mask: Sequence[bool]) -> list[bool]:
    return [m and is_differentiable(a.dtype) for a, m in zip(avals, mask, strict=True)]


def _first(trace: Any, operands: Sequence[Any]) -> list[Any]:
    return [trace.term(x, 0) for x in operands]


@taylor_rules.register(cond_p)
def _cond(trace: Any, operands: Any, params: Any) -> Any:
    index, *rest = operands
    branches, mask = params["branches"], _active(trace, operands[1:])
    nothing = [False] * len(branches[0].outvars)
    has = [
        any(column) for column in zip(*[_with_terms(j, mask, nothing, trace.order)[1] for j in branches], strict=True)
    ]
    wider = tuple([_with_terms(j, mask, has, trace.order)[0] for j in branches])
    given = [t for x, m in zip(rest, mask, strict=True) if m for t in _terms(trace, x)]
    results = _outside(trace, cond_p, (index, *_first(trace, rest), *given), {**params, "branches": wider})
    return _outputs(trace, len(has), results, has)


@taylor_rules.register(scan_p)
def _scan(trace: Any, operands: Any, params: Any) -> Any:
    jaxpr, consts, carry, order = params["jaxpr"], params["consts"], params["carry"], trace.order
    mask = _active(trace, operands)
    while True:
        wanted = [*mask[consts : consts + carry], *[False] * (len(jaxpr.outvars) - carry)]
        wider, has = _with_terms(jaxpr, mask, wanted, order)
        if has[:carry] == mask[consts : consts + carry]:
            break
        mask[consts : consts + carry] = has[:carry]
    groups = (range(consts), range(consts, consts + carry), range(consts + carry, len(operands)))
    counts = [sum(mask[i] for i in g) * order for g in groups]

    def body(*xs: Any) -> list[Any]:
        """The program with the coefficients of constants, carry and rows beside each of them."""
        values: list[Any] = []
        terms: list[Any] = []
        start = 0
        for g, n in zip(groups, counts, strict=True):
            values += xs[start : start + len(g)]
            terms += xs[start + len(g) : start + len(g) + n]
            start += len(g) + n
        outs = eval_jaxpr(wider, (), *values, *terms)
        count, split = len(has), len(has) + sum(has[:carry]) * order
        return [*outs[:carry], *outs[count:split], *outs[carry:count], *outs[split:]]

    given = []
    for g in groups:
        given += _first(trace, [operands[i] for i in g])
        given += [t for i in g if mask[i] for t in _terms(trace, operands[i])]
    avals = [aval_of(x) for x in given]
    rows = len(groups[0]) + counts[0] + len(groups[1]) + counts[1]
    avals[rows:] = [a.without_axis(0) for a in avals[rows:]]
    made = _built(trace, body, avals, jaxpr.name)
    changed = {"jaxpr": made, "consts": consts + counts[0], "carry": carry + counts[1]}
    results = _outside(trace, scan_p, tuple(given), {**params, **changed})
    total, count = carry + counts[1], len(has)
    ordered = [
        *results[:carry],
        *results[total : total + count - carry],
        *results[carry:total],
        *results[total + count - carry :],
    ]
    return _outputs(trace, count, ordered, has)


@taylor_rules.register(while_p)
def _while(trace: Any, operands: Any, params: Any) -> Any:
    start, n_body, order = params["cond_nconsts"], params["body_nconsts"], trace.order
    condition, body = params["cond_jaxpr"], params["body_jaxpr"]
    cond_fixed, fixed, values = operands[:start], operands[start : start + n_body], operands[start + n_body :]
    mask = _active(trace, (*fixed, *values))
    while True:
        wider, has = _with_terms(body, mask, mask[n_body:], order)
        if has == mask[n_body:]:
            break
        mask[n_body:] = has
    n_fixed, n_values = sum(mask[:n_body]) * order, len(values)

    def step(*xs: Any) -> list[Any]:
        own, rest = xs[: n_body + n_fixed], xs[n_body + n_fixed :]
        return eval_jaxpr(wider, (), *own[:n_body], *rest[:n_values], *own[n_body:], *rest[n_values:])

    fixed_terms = [t for x, m in zip(fixed, mask, strict=False) if m for t in _terms(trace, x)]
    value_terms = [t for x, m in zip(values, mask[n_body:], strict=True) if m for t in _terms(trace, x)]
    given = [*_first(trace, fixed), *fixed_terms, *_first(trace, values), *value_terms]
    made = _built(trace, step, [aval_of(x) for x in given], body.name)
    avals = [*condition.in_avals, *map(aval_of, value_terms)]
    verdict = _built(trace, lambda *xs: eval_jaxpr(condition, (), *xs[: start + n_values]), avals, condition.name)
    changed = {"cond_jaxpr": verdict, "body_jaxpr": made, "body_nconsts": n_body + n_fixed}
    results = _outside(trace, while_p, (*_first(trace, cond_fixed), *given), {**params, **changed})
    return _outputs(trace, n_values, results, has)


def _built(trace: Any, fun: Any, avals: Any, name: str) -> Any:
    token = current.set(trace.parent)
    try:
        return build(fun, avals, name)
    finally:
        current.reset(token)


def _outside(trace: Any, primitive: Any, operands: Any, params: Any) -> Any:
    token = current.set(trace.parent)
    try:
        return primitive.bind(*operands, **params)
    finally:
        current.reset(token)
