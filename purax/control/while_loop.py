# SPDX-License-Identifier: Apache-2.0
"""`while`: a loop that runs until its condition says no; differentiable forward, mapped lane by lane."""

from __future__ import annotations

from typing import Any

import numpy as np

from purax import errors
from purax.control import lanes
from purax.control.program import build, permuted
from purax.control.program_call import Jit
from purax.control.scan import while_loop as emit_while
from purax.core.interpret import eval_jaxpr, reference_eval
from purax.core.ir import Jaxpr, intern
from purax.core.name_stack import Instead
from purax.core.passes import silent
from purax.core.primitive import Primitive
from purax.core.source import opened
from purax.core.trace import aval_of
from purax.primitives import cast, reduction, shape
from purax.primitives.base import instantiate, zeros_of
from purax.transforms.jvp import jvp_jaxpr
from purax.transforms.vmap import batch_jaxpr

__all__ = ["While", "while_p"]

_PREDICATE = Instead("body_pred")  # the condition of each lane, which a step of a mapped loop asks for


class While(Primitive):
    """Operands are constants of the condition, constants of the body, initial values; outputs are the final values.

    Params
    ------
    cond_jaxpr : Jaxpr
        `(its constants, values) -> scalar bool` (mapped: any shape, one per lane).
    body_jaxpr : Jaxpr
        `(its constants, values) -> values`.
    cond_nconsts, body_nconsts : int
    max_steps : int or None
        A bound on the number of steps that the condition keeps by itself; with it the loop has a reverse mode.
    """

    types_axes = True
    types_spread = True

    terms = True

    def infer(self, *avals: Any, **params: Any) -> Any:
        """Types of the values."""
        return params["body_jaxpr"].out_avals

    def effects(self, params: dict[str, Any]) -> frozenset[Any]:
        """Effects of both programs."""
        return params["cond_jaxpr"].effects | params["body_jaxpr"].effects

    def reference(self, *operands: Any, **params: Any) -> Any:
        """A Python loop."""
        condition, body = params["cond_jaxpr"], params["body_jaxpr"]
        start, n_body = params["cond_nconsts"], params["body_nconsts"]
        cond_fixed, body_fixed = operands[:start], operands[start : start + n_body]
        values = list(operands[start + n_body :])
        while reference_eval(condition, (), *cond_fixed, *values)[0]:
            values = reference_eval(body, (), *body_fixed, *values)
        return tuple(values)

    def _tangent_body(self, tangents: Any, body: Jaxpr, start: int, n_body: int) -> Any:
        """Derivative of the body with a fixed set of values that have tangents."""
        const_mask = [t is not None for t in tangents[start : start + n_body]]
        carried = [t is not None for t in tangents[start + n_body :]]
        while True:
            derived, out_nonzero = jvp_jaxpr(body, (*const_mask, *carried), tuple(carried))
            grown = [a or b for a, b in zip(carried, out_nonzero, strict=True)]
            if grown == carried:
                return derived, const_mask, carried
            carried = grown

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> Any:
        """The loop over values and tangents; the condition sees values only."""
        start, n_body = params["cond_nconsts"], params["body_nconsts"]
        derived, _, carried = self._tangent_body(tangents, params["body_jaxpr"], start, n_body)
        consts, values = primals[start : start + n_body], primals[start + n_body :]
        const_t = [t for t in tangents[start : start + n_body] if t is not None]
        value_t = [instantiate(t, p) for t, p, m in zip(tangents[start + n_body :], values, carried, strict=True) if m]
        count, n_values = len(consts) + len(values), len(values)
        order = [
            *range(n_body), *range(count, count + len(const_t)), *range(n_body, count),
            *range(count + len(const_t), count + len(const_t) + len(value_t)),
        ]  # fmt: skip
        body = permuted(derived, order, range(len(derived.outvars)))
        condition = params["cond_jaxpr"]

        def wider(*xs: Any) -> Any:
            return eval_jaxpr(condition, (), *xs[: start + n_values])

        avals = [*condition.in_avals, *(aval_of(t) for t in value_t)]
        results = self.bind(
            *primals[:start], *consts, *const_t, *values, *value_t,
            cond_jaxpr=build(wider, avals, condition.name), body_jaxpr=body, cond_nconsts=start,
            body_nconsts=n_body + len(const_t), max_steps=params["max_steps"],
        )  # fmt: skip
        rest = iter(results[n_values:])
        return results[:n_values], tuple([next(rest) if m else None for m in carried])

    def linearize(self, primals: Any, tangents: Any, params: dict[str, Any]) -> Any:
        """Run the loop now; its derivative, a second loop, goes on the tape as one linear operation.

        It can be transposed if there is a bound on the number of steps.
        """
        _, _, carried = self._tangent_body(
            tangents, params["body_jaxpr"], params["cond_nconsts"], params["body_nconsts"]
        )
        if params["max_steps"] is not None:
            return self._linearize_bounded(primals, tangents, tuple(carried), params)
        outs = self.bind(*primals, **params)
        given = [t for t in tangents if t is not None]
        mask = [t is not None for t in tangents]

        again = {**params, "cond_jaxpr": silent(params["cond_jaxpr"]), "body_jaxpr": silent(params["body_jaxpr"])}

        def pushforward(*xs: Any) -> list[Any]:
            rest = iter(xs[len(primals) :])
            _, out_tangents = self.jvp(xs[: len(primals)], tuple([next(rest) if m else None for m in mask]), **again)
            return [t for t in out_tangents if t is not None]

        avals = [*(aval_of(p) for p in primals), *(aval_of(t) for t in given)]
        program = build(pushforward, avals, "while_loop")
        rest = iter(forward_only_p.bind(*primals, *given, jaxpr=program, name="while_loop", inline=False))
        return outs, tuple([next(rest) if m else None for m in carried])

    def _linearize_bounded(self, primals: Any, tangents: Any, carried: tuple[bool, ...], params: Any) -> Any:
        """Count the steps of the loop, too: its derivative does as many."""
        start, n_body, limit, body = (params[k] for k in ("cond_nconsts", "body_nconsts", "max_steps", "body_jaxpr"))
        counter, condition, step = rewind.counted(params["cond_jaxpr"], body, start, n_body)
        fixed, values = primals[: start + n_body], primals[start + n_body :]
        changed = {"cond_jaxpr": condition, "body_jaxpr": step}
        steps, *outs = self.bind(*fixed, zeros_of(counter), *values, **{**params, **changed})
        consts = tuple([t is not None for t in tangents[start : start + n_body]])
        given = [t for t in tangents[start : start + n_body] if t is not None]
        given += [instantiate(t, p) for t, p, m in zip(tangents[start + n_body :], values, carried, strict=True) if m]
        body = silent(body)
        results = rewind.rewound_p.bind(
            steps, *fixed[start:], *values, *given, jaxpr=rewind.pushed(body, consts, carried, limit, counter),
            name=body.name, inline=False, body=body, consts=consts, carried=carried, limit=limit,
        )  # fmt: skip
        rest = iter(results)
        return tuple(outs), tuple([next(rest) if m else None for m in carried])

    def batch(self, axis: Any, operands: Any, dims: Any, **params: Any) -> Any:
        """All lanes in one loop that runs while any lane is live; a lane that has finished keeps its values."""
        condition, body = params["cond_jaxpr"], params["body_jaxpr"]
        start, n_body = params["cond_nconsts"], params["body_nconsts"]
        batched = [d is not None for d in dims]
        cond_mask, const_mask = batched[:start], batched[start : start + n_body]
        carried = batched[start + n_body :]
        while True:
            mapped_cond, (by_lane,) = batch_jaxpr(condition, axis, (*cond_mask, *carried))
            if by_lane:
                carried = [True] * len(carried)
                mapped_cond, (by_lane,) = batch_jaxpr(condition, axis, (*cond_mask, *carried))
            mapped_body, out_batched = batch_jaxpr(body, axis, (*const_mask, *carried), tuple(carried))
            grown = [a or b for a, b in zip(carried, out_batched, strict=True)]
            if grown == carried:
                break
            carried = grown
        mask = (*cond_mask, *const_mask, *carried)
        moved = []
        for x, d, m in zip(operands, dims, mask, strict=True):
            if d is None:
                moved.append(shape.broadcast_batch(x, axis.size, 0) if m else x)
            else:
                moved.append(shape.move_batch_axis(x, d, 0))
        if by_lane and lanes.checks((condition, body)):
            inside = (*condition.in_avals[:start], *body.in_avals)
            return lanes.with_reports(self, axis, operands, dims, inside, params)
        if not by_lane:
            results = self.bind(*moved, **{**params, "cond_jaxpr": mapped_cond, "body_jaxpr": mapped_body})
            return results, tuple([0 if c else None for c in carried])
        fixed = moved[: start + n_body]

        def any_live(*xs: Any) -> list[Any]:
            live = eval_jaxpr(mapped_cond, (), *xs[:start], *xs[start + n_body :])[0]
            return [reduction.reduce_or(live, tuple(range(aval_of(live).ndim)))]

        def masked(*xs: Any) -> list[Any]:
            values = xs[start + n_body :]
            inputs: Any = xs[start:]

            def ask() -> Any:
                with opened(_PREDICATE):
                    return eval_jaxpr(mapped_cond, (), *xs[:start], *values)[0]

            if lanes.apart((body,), axis):
                return lanes.by_lane(step_if, axis, (ask(), *inputs), (True, *mask[start:]), (body,))
            if lanes.has_open_loop(body):
                live = ask()
                new = eval_jaxpr(mapped_body, (), *lanes.like_live(live, inputs, mask[start:]))
            else:
                new = eval_jaxpr(mapped_body, (), *inputs)
                live = ask()
            return [lanes.keep_where(live, n, v) for n, v in zip(new, values, strict=True)]

        def step_if(programs: Any, live: Any, *inputs: Any) -> Any:
            (step,) = programs
            stay = intern(Jaxpr([], step.invars, step.invars[n_body:], [], (), body.name))
            return branch.cond_p.bind(cast.convert_element_type(live, np.int32), *inputs, branches=(stay, step))

        avals = [aval_of(x) for x in moved]
        results = self.bind(
            *fixed, *fixed, *moved[start + n_body :],
            cond_jaxpr=build(any_live, avals, condition.name), body_jaxpr=build(masked, avals, body.name),
            cond_nconsts=start + n_body, body_nconsts=start + n_body, max_steps=params["max_steps"],
        )  # fmt: skip
        return results, tuple([0] * len(carried))

    def lower(self, b: Any, ins: Any, outs: Any, **params: Any) -> Any:
        """`stablehlo.while`; a condition with lanes is reduced to one."""
        condition, body = params["cond_jaxpr"], params["body_jaxpr"]
        start, n_body = params["cond_nconsts"], params["body_nconsts"]
        cond_fixed, body_fixed, values = ins[:start], ins[start : start + n_body], ins[start + n_body :]
        avals = [v.aval for v in values]
        return emit_while(
            b, values, avals,
            lambda inner, *xs: inner.jaxpr(condition, [*cond_fixed, *xs], "while", "cond"),
            lambda inner, *xs: inner.jaxpr(body, [*body_fixed, *xs], "while", "body"),
        )  # fmt: skip


class ForwardOnly(Jit):
    """A linear program that cannot be transposed: the tangent of a loop with an unknown number of steps."""

    def transpose(self, cotangents: Any, operands: Any, **params: Any) -> Any:
        """Raise ReverseModeError."""
        raise errors.ReverseModeError(
            errors.explain(
                "Reverse-mode differentiation does not work for lax.while_loop or lax.fori_loop with dynamic start/stop values.",
                "the number of steps is not known when the program is compiled, so no memory can be set aside for what the steps computed",
                "pass max_steps=N, a bound on the number of steps (the loop is then rewound from a few kept values), use lax.scan or "
                "lax.fori_loop with static start/stop, or forward mode (jvp, jacfwd)",
            )
        )


while_p = While("while")
forward_only_p = ForwardOnly("forward_only")


from purax.control import branch, rewind  # noqa: E402  (a loop is rewound by loops; a lane takes a step or does not)
