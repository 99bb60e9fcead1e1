# SPDX-License-Identifier: Apache-2.0
"""`scan`: a loop with a carry, a static number of steps, stacked inputs and outputs; differentiable in both modes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from purax.control.policies import split_by_policy, split_equation
from purax.control.program import build, merge, partition, permuted, take, varying_over
from purax.control.rows import INDEX, Step
from purax.core.aval import array_aval
from purax.core.dims import Dim
from purax.core.interpret import eval_jaxpr, reference_eval
from purax.core.ir import Jaxpr, Var, intern
from purax.core.passes import dead_code
from purax.core.primitive import Primitive
from purax.core.trace import aval_of
from purax.primitives import elementwise, shape
from purax.primitives.base import instantiate, is_linear, zeros_of
from purax.transforms.jvp import jvp_jaxpr
from purax.transforms.transpose import linearize_jaxpr, transpose_jaxpr
from purax.transforms.vmap import batch_jaxpr

__all__ = ["Scan", "scan_p"]


class Scan(Primitive):
    """Operands are constants, initial carry, stacked inputs; outputs are final carry, stacked outputs.

    Params
    ------
    jaxpr : Jaxpr
        `(constants, carry, slice of inputs) -> (carry, slice of outputs)`.
    length, unroll : int
    reverse : bool
    consts, carry : int
        How many operands are constants and carry.
    """

    types_axes = True
    types_spread = True

    terms = True

    def infer(self, *avals: Any, jaxpr: Jaxpr, length: int, reverse: bool, unroll: int, consts: int, carry: int) -> Any:
        """Types of the carry, and stacked types of the outputs."""
        outs = jaxpr.out_avals
        return (*outs[:carry], *(a.with_axis(0, length) for a in outs[carry:]))

    def effects(self, params: dict[str, Any]) -> frozenset[Any]:
        """Effects of the body."""
        return params["jaxpr"].effects

    def reference(
        self, *operands: Any, jaxpr: Jaxpr, length: int, reverse: bool, unroll: int, consts: int, carry: int
    ) -> Any:
        """A Python loop."""
        fixed, state, xs = operands[:consts], list(operands[consts : consts + carry]), operands[consts + carry :]
        rows: list[Any] = [None] * length
        for i in reversed(range(length)) if reverse else range(length):
            outs = reference_eval(jaxpr, (), *fixed, *state, *[x[i] for x in xs])
            state, rows[i] = outs[:carry], outs[carry:]
        stacked = [
            np.stack([row[j] for row in rows]) if length else np.zeros((0, *a.shape), a.dtype)
            for j, a in enumerate(jaxpr.out_avals[carry:])
        ]
        return (*state, *stacked)

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> Any:
        """A scan over values and tangents; which carries have tangents is a fixed point."""
        jaxpr, consts, carry = params["jaxpr"], params["consts"], params["carry"]
        nonzero = [t is not None for t in tangents]
        carried = nonzero[consts : consts + carry]
        while True:
            mask = (*nonzero[:consts], *carried, *nonzero[consts + carry :])
            wanted = (*carried, *(False for _ in jaxpr.outvars[carry:]))
            derived, out_nonzero = jvp_jaxpr(jaxpr, mask, wanted)
            grown = [a or b for a, b in zip(carried, out_nonzero[:carry], strict=True)]
            if grown == carried:
                break
            carried = grown
        given = [instantiate(t, p) if m else None for t, p, m in zip(tangents, primals, mask, strict=True)]
        count = len(primals)
        where = [count + sum(mask[:i]) for i in range(count)]  # position of each tangent among the inputs of `derived`
        groups = (range(consts), range(consts, consts + carry), range(consts + carry, count))
        inputs = [i for g in groups for i in (*g, *(where[j] for j in g if mask[j]))]
        outs = len(jaxpr.outvars)
        out_where = [outs + sum(out_nonzero[:i]) for i in range(outs)]
        out_groups = (range(carry), range(carry, outs))
        outputs = [i for g in out_groups for i in (*g, *(out_where[j] for j in g if out_nonzero[j]))]
        operands = [x for g in groups for x in (*[primals[j] for j in g], *[given[j] for j in g if mask[j]])]
        results = self.bind(
            *operands,
            **{
                **params,
                "jaxpr": permuted(derived, inputs, outputs),
                "consts": consts + sum(mask[:consts]),
                "carry": carry + sum(carried),
            },
        )
        found = dict(zip(outputs, results, strict=True))
        return tuple([found[i] for i in range(outs)]), tuple(
            [found[out_where[i]] if n else None for i, n in enumerate(out_nonzero)]
        )

    def linearize(self, primals: Any, tangents: Any, params: dict[str, Any]) -> Any:
        """Run forward keeping residuals per step; the linear scan over them goes on the tape.

        Residuals that are constants of the loop stay constants, those that are inputs or outputs are used as they are; only
        carries and computed values are stacked.
        """
        jaxpr, consts, carry, length = params["jaxpr"], params["consts"], params["carry"], params["length"]
        nonzero = [t is not None for t in tangents]
        carried = nonzero[consts : consts + carry]
        while True:
            mask = (*nonzero[:consts], *carried, *nonzero[consts + carry :])
            parts = linearize_jaxpr(jaxpr, mask, (*carried, *(False for _ in jaxpr.outvars[carry:])))
            grown = [a or b for a, b in zip(carried, parts.out_nonzero[:carry], strict=True)]
            if grown == carried:
                break
            carried = grown
        outs = len(jaxpr.outvars)
        extra: list[int] = []  # outputs of the forward body to stack, beyond its own
        position: dict[tuple[str, int], int] = {}
        forward, tangent = parts.made
        for place in dict.fromkeys(parts.residuals):
            where, i = place
            if where == "in" and consts <= i < consts + carry:
                position[place] = len(extra)
                extra.append(-1 - i)
            elif where == "out" and (i < carry or i >= outs):
                position[place] = len(extra)
                extra.append(i)
        outvars = [*forward.outvars[:outs], *(forward.invars[-1 - i] if i < 0 else forward.outvars[i] for i in extra)]
        body = intern(Jaxpr([], forward.invars, outvars, forward.eqns, (), jaxpr.name))
        results = self.bind(*primals, **{**params, "jaxpr": body})
        fixed, stacked, fixed_index, stacked_index = [], [], [], []
        for k, place in enumerate(parts.residuals):
            where, i = place
            if where == "in" and i < consts:
                fixed.append(primals[i])
                fixed_index.append(k)
                continue
            stacked_index.append(k)
            if place in position:
                stacked.append(results[outs + position[place]])
            else:
                stacked.append(primals[i] if where == "in" else results[i])
        given = [instantiate(t, p) for t, p, m in zip(tangents, primals, mask, strict=True) if m]
        n_consts, n_carry = sum(mask[:consts]), sum(carried)
        base = len(parts.residuals)
        order = [
            *fixed_index, *range(base, base + n_consts + n_carry), *stacked_index, *range(base + n_consts + n_carry, base + len(given)),
        ]  # fmt: skip
        linear = permuted(tangent, order, range(len(tangent.outvars)))
        out_tangents = self.bind(
            *fixed, *given[: n_consts + n_carry], *stacked, *given[n_consts + n_carry :],
            **{**params, "jaxpr": linear, "consts": len(fixed) + n_consts, "carry": n_carry, "length": length},
        )  # fmt: skip
        rest = iter(out_tangents)
        return tuple(results[:outs]), tuple([next(rest) if n else None for n in parts.out_nonzero])

    def transpose(self, cotangents: Any, operands: Any, **params: Any) -> Any:
        """A scan in the other direction; cotangents of linear constants are summed in the carry."""
        jaxpr, consts, carry, length = params["jaxpr"], params["consts"], params["carry"], params["length"]
        marked = [is_linear(x) for x in operands]
        linear = _spread_linear(jaxpr, marked, consts, carry)
        original = linear[consts : consts + carry]
        if not all(original):
            operands, linear, jaxpr, consts, carry, kept = _fix_carry(operands, linear, jaxpr, consts, carry, params)
            cotangents = [c for c, k in zip(cotangents, kept, strict=True) if k]
        fixed, fixed_linear = partition(linear[:consts], operands[:consts])
        xs, _ = partition(linear[consts + carry :], operands[consts + carry :])
        state = list(operands[consts : consts + carry])
        ct_state = [
            zeros_of(a) if c is None else varying_over(c, a.varying - aval_of(c).varying)
            for c, a in zip(cotangents[:carry], jaxpr.out_avals[:carry], strict=True)
        ]
        ct_ys = cotangents[carry:]
        nonzero = (*(True for _ in range(carry)), *(c is not None for c in ct_ys))
        wanted = tuple([True] * sum(linear))
        transposed, _, cells = transpose_jaxpr(jaxpr, tuple(linear), nonzero, wanted)
        n_fixed, n_acc, n_cells = len(fixed), len(fixed_linear), len(cells)

        def body(*values: Any) -> list[Any]:
            rest = list(values)
            constants, rest = rest[:n_fixed], rest[n_fixed:]
            held, rest = rest[:n_cells], rest[n_cells:]
            sums, rest = rest[:n_acc], rest[n_acc:]
            cts, rest = rest[:carry], rest[carry:]
            ct_slices, slices = rest[: len(rest) - len(xs)], rest[len(rest) - len(xs) :]
            results = eval_jaxpr(transposed, (), *constants, *slices, *cts, *ct_slices, *held)
            split = len(results) - n_cells
            found, results, held = results[:n_acc], results[n_acc:split], results[split:]
            sums = [elementwise.add_p.bind1(s, c) for s, c in zip(sums, found, strict=True)]
            return [*held, *sums, *results]

        given = [c for c in ct_ys if c is not None]
        sums = [zeros_of(x.aval) for x in fixed_linear]
        rows = [*given, *xs]
        avals = [aval_of(x) for x in (*fixed, *cells.read(), *sums, *ct_state)]
        avals += [aval_of(x).without_axis(0) for x in rows]
        program = build(body, avals, f"{jaxpr.name} transposed")
        changed = {
            **params, "jaxpr": program, "consts": n_fixed, "carry": n_cells + n_acc + carry, "reverse": not params["reverse"], "length": length,
        }  # fmt: skip

        def run(held: Sequence[Any]) -> list[Any]:
            outs = self.bind(*fixed, *held, *sums, *ct_state, *rows, **changed)
            return [*outs[n_cells:], *outs[:n_cells]]

        results = cells.through((program,), run)
        out_consts = merge(linear[:consts], [None] * n_fixed, results[:n_acc])
        out_xs = merge(linear[consts + carry :], [None] * len(xs), results[n_acc + carry :])
        if len(state) != params["carry"]:
            return _unfix_carry(out_consts, results[n_acc : n_acc + carry], out_xs, original)
        return (*out_consts, *results[n_acc : n_acc + carry], *out_xs)

    def batch(self, axis: Any, operands: Any, dims: Any, **params: Any) -> Any:
        """A scan over mapped values; which carries are mapped is a fixed point."""
        jaxpr, consts, carry = params["jaxpr"], params["consts"], params["carry"]
        batched = [d is not None for d in dims]
        carried = batched[consts : consts + carry]
        while True:
            mask = (*batched[:consts], *carried, *batched[consts + carry :])
            mapped, out_batched = batch_jaxpr(jaxpr, axis, mask, (*carried, *(False for _ in jaxpr.outvars[carry:])))
            grown = [a or b for a, b in zip(carried, out_batched[:carry], strict=True)]
            if grown == carried:
                break
            carried = grown
        moved = []
        for i, (x, d, m) in enumerate(zip(operands, dims, mask, strict=True)):
            target = 1 if i >= consts + carry else 0
            if d is None:
                moved.append(shape.broadcast_batch(x, axis.size, target) if m else x)
            else:
                moved.append(shape.move_batch_axis(x, d, target))
        results = self.bind(*moved, **{**params, "jaxpr": mapped})
        return results, tuple([None if not b else 0 if i < carry else 1 for i, b in enumerate(out_batched)])

    def split(self, eqn: Any, policy: Any) -> Any:
        """Two scans: saved values are stacked by the first and read slice by slice by the second."""
        inner = split_by_policy(eqn.params["jaxpr"], policy)
        length = eqn.params["length"]
        kept = [a.update(shape=(length, *a.shape)) for a in inner.forward.out_avals[len(eqn.outvars) :]]
        return split_equation(eqn, [inner], {"jaxpr": inner.forward}, {"jaxpr": inner.again}, kept)

    def dce(self, wanted: Sequence[bool], eqn: Any) -> Any:
        """Drop stacked outputs, and carries that only feed themselves."""
        params = eqn.params
        jaxpr, consts, carry = params["jaxpr"], params["consts"], params["carry"]
        kept = list(wanted[:carry])
        while True:
            body, used = dead_code(jaxpr, (*kept, *wanted[carry:]), keep_inputs=True)
            grown = [k or u for k, u in zip(kept, used[consts : consts + carry], strict=True)]
            if grown == kept:
                break
            kept = grown
        used = [*used[:consts], *kept, *used[consts + carry :]]
        body = Jaxpr([], take(body.invars, used), body.outvars, body.eqns, (), jaxpr.name)
        outs = (*kept, *wanted[carry:])
        return eqn.replace(
            invars=take(eqn.invars, used),
            outvars=take(eqn.outvars, outs),
            params={**params, "jaxpr": intern(body), "consts": sum(used[:consts]), "carry": sum(kept)},
        )

    def lower(self, b: Any, ins: Any, outs: Any, **params: Any) -> Any:
        """A while loop over an index; slices are read and written in place."""
        jaxpr, length, carry, consts = params["jaxpr"], params["length"], params["carry"], params["consts"]
        fixed, state, xs = ins[:consts], list(ins[consts : consts + carry]), ins[consts + carry :]
        unroll = max(1, min(params["unroll"], length))
        zero_rows = [b.broadcast(b.constant(0, _scalar(a)), (), a) for a in outs[carry:]]
        index = b.constant(0, INDEX)
        step = Step(b, jaxpr, fixed, xs, carry, length, params["reverse"])
        if type(length) is not Dim and unroll >= length:
            rows = zero_rows
            for i in range(length):
                state, rows = step(b, b.constant(i, INDEX), state, rows, known=True)
            return [*state, *rows]
        rounds, rest = divmod(length, unroll)
        init = [index, *state, *zero_rows]
        avals = [v.aval for v in init]
        limit = rounds * unroll

        def condition(inner: Any, i: Any, *_: Any) -> list[Any]:
            bound = inner.constant(limit, INDEX)
            return [
                inner.emit(
                    f"stablehlo.compare LT, {i}, {bound}, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>", _BOOL
                )
            ]

        def body(inner: Any, i: Any, *values: Any) -> list[Any]:
            now, rows = list(values[:carry]), list(values[carry:])
            for k in range(unroll):
                at = i if k == 0 else _plus(inner, i, k)
                now, rows = step(inner, at, now, rows)
            return [_plus(inner, i, unroll), *now, *rows]

        results = while_loop(b, init, avals, condition, body)
        state, rows = results[1 : 1 + carry], results[1 + carry :]
        for k in range(rest):
            state, rows = step(b, b.constant(limit + k, INDEX), state, rows, known=True)
        return [*state, *rows]


scan_p = Scan("scan")

_BOOL = array_aval((), np.dtype(bool))


def _scalar(aval: Any) -> Any:
    return array_aval((), aval.dtype)


def _plus(b: Any, x: Any, k: int) -> Any:
    return b.emit(f"stablehlo.add {x}, {b.constant(k, INDEX)} : tensor<i32>", INDEX)


def while_loop(b: Any, init: Sequence[Any], avals: Sequence[Any], condition: Any, body: Any) -> list[Any]:
    """Emit `stablehlo.while`; `condition` and `body` write their regions."""
    types = ", ".join(a.hlo for a in avals)
    cond_text = b.block(avals, condition)
    body_text = b.block(avals, body)
    text = f'"stablehlo.while"({", ".join(map(str, init))}) ({cond_text}, {body_text}) : ({types}) -> ({types})'
    return b.emit_many(text, avals)


def _spread_linear(jaxpr: Jaxpr, marked: Sequence[bool], consts: int, carry: int) -> list[bool]:
    """Which operands are linear, counting carries that start from explicit zeros but receive linear values."""
    linear = list(marked)
    while True:
        found = {v for v, m in zip(jaxpr.invars, linear, strict=True) if m}
        for eqn in jaxpr.eqns:
            if any(a in found for a in eqn.invars if type(a) is Var):
                found.update(eqn.outvars)
        grown = list(linear)
        for i, out in enumerate(jaxpr.outvars[:carry]):
            grown[consts + i] = grown[consts + i] or (type(out) is Var and out in found)
        if grown == linear:
            return linear
        linear = grown


def _fix_carry(operands: Any, linear: Any, jaxpr: Jaxpr, consts: int, carry: int, params: dict[str, Any]) -> Any:
    """Precompute carries that are not linear (loop counters): they become stacked inputs of a scan that is linear throughout."""
    state_linear = linear[consts : consts + carry]
    off = [i for i, m in enumerate(state_linear) if not m]
    # The part of the body that computes the nonlinear carries from nonlinear values.
    wanted = [i in off for i in range(len(jaxpr.outvars))]
    body, used = dead_code(jaxpr, wanted)
    if any(u and m for u, m in zip(used, linear, strict=True)):
        raise ValueError("transpose of scan: a carry that is not linear depends on linear values")
    keep = [not m for m in linear]
    program = Jaxpr(
        [],
        take(body.invars, keep),
        [*body.outvars, *[jaxpr.invars[consts + i] for i in off]],
        body.eqns,
        (),
        jaxpr.name,
    )
    n_consts = sum(keep[:consts])
    results = scan_p.bind(
        *take(operands, keep), **{**params, "jaxpr": intern(program), "consts": n_consts, "carry": len(off)}
    )
    rows = results[len(off) :]
    order = [
        *range(consts), *(consts + i for i in range(carry) if i not in off), *range(consts + carry, len(linear)),
        *(consts + i for i in off),
    ]  # fmt: skip
    outputs = [i for i in range(len(jaxpr.outvars)) if i not in off]
    fixed = permuted(jaxpr, order, outputs)
    new_operands = [*(operands[i] for i in order[: len(order) - len(off)]), *rows]
    new_linear = [*(linear[i] for i in order[: len(order) - len(off)]), *(False for _ in off)]
    kept = [i not in off for i in range(len(jaxpr.outvars))]
    return new_operands, new_linear, fixed, consts, carry - len(off), kept


def _unfix_carry(out_consts: Any, state: Any, out_xs: Any, original: Sequence[bool]) -> Any:
    """Cotangents for the operands before `_fix_carry`: the precomputed rows go, the fixed carries have none."""
    missing = len(original) - sum(original)
    return (*out_consts, *merge(original, [None] * missing, state), *out_xs[: len(out_xs) - missing])
