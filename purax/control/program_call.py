# SPDX-License-Identifier: Apache-2.0
"""The primitive that calls a program; `jit.py` makes programs of functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from purax.control.policies import split_by_policy, split_equation
from purax.core.interpret import eval_jaxpr, reference_eval
from purax.core.ir import Jaxpr, intern
from purax.core.passes import dead_code
from purax.core.primitive import Primitive
from purax.pipeline.evaluate import as_array, program_kernel
from purax.primitives import shape
from purax.primitives.base import is_linear
from purax.runtime.array import Array
from purax.transforms.jvp import jvp_jaxpr
from purax.transforms.transpose import linearize_jaxpr, transpose_jaxpr
from purax.transforms.vmap import batch_jaxpr

__all__ = ["HeldCall", "Jit", "LinearCall", "jit_p", "plain"]


class Jit(Primitive):
    """Call of a program: `jaxpr` (no constants) on the operands. Every transformation of the call is a call of a program."""

    types_axes = True
    types_spread = True

    terms = True

    def infer(self, *avals: Any, jaxpr: Jaxpr, name: str, inline: bool) -> Any:
        """Types of the outputs of the program."""
        return jaxpr.out_avals

    def effects(self, params: dict[str, Any]) -> frozenset[Any]:
        """Effects of the program."""
        return params["jaxpr"].effects

    def reference(self, *operands: Any, jaxpr: Jaxpr, name: str, inline: bool) -> Any:
        """The program by its references."""
        return tuple(reference_eval(jaxpr, (), *operands))

    def run(self, operands: tuple[Any, ...], params: dict[str, Any]) -> tuple[Any, ...]:
        """Run the compiled program."""
        jaxpr = params["jaxpr"]
        kernel = jaxpr.derived.get("kernel")
        if kernel is None:
            kernel = jaxpr.derived["kernel"] = program_kernel(jaxpr, params["name"], within=True)
        return kernel([x if type(x) is Array else as_array(x) for x in operands])

    def stage(self, trace: Any, operands: tuple[Any, ...], params: dict[str, Any]) -> tuple[Any, ...]:
        """Record the call; the equations of an inlined program themselves."""
        if not params["inline"]:
            return trace.record(self, operands, params)
        return tuple(eval_jaxpr(params["jaxpr"], (), *operands))

    def jvp(self, primals: Any, tangents: Any, *, jaxpr: Jaxpr, name: str, inline: bool) -> Any:
        """Call the derivative program."""
        nonzero = tuple([t is not None for t in tangents])
        derived, out_nonzero = jvp_jaxpr(jaxpr, nonzero)
        given = [t for t in tangents if t is not None]
        results = self.bind(*primals, *given, jaxpr=derived, name=name, inline=inline)
        count = len(jaxpr.outvars)
        rest = iter(results[count:])
        return results[:count], tuple([next(rest) if n else None for n in out_nonzero])

    def linearize(self, primals: Any, tangents: Any, params: dict[str, Any]) -> Any:
        """Call the primal part now; the linear part goes on the tape."""
        jaxpr, name, inline = params["jaxpr"], params["name"], params["inline"]
        parts = linearize_jaxpr(jaxpr, tuple([t is not None for t in tangents]))
        results = self.bind(*primals, jaxpr=parts.forward, name=name, inline=inline)
        given = [t for t in tangents if t is not None]
        out_tangents = self.bind(*parts.pick(primals, results), *given, jaxpr=parts.linear, name=name, inline=inline)
        rest = iter(out_tangents)
        return results[: len(jaxpr.outvars)], tuple([next(rest) if n else None for n in parts.out_nonzero])

    def transpose(self, cotangents: Any, operands: Any, *, jaxpr: Jaxpr, name: str, inline: bool) -> Any:
        """Call the transposed program."""
        linear = tuple([is_linear(x) for x in operands])
        nonzero = tuple([c is not None for c in cotangents])
        transposed, out_nonzero, cells = transpose_jaxpr(jaxpr, linear, nonzero)
        values = [x for x, m in zip(operands, linear, strict=True) if not m]
        given = [c for c in cotangents if c is not None]
        params = {"jaxpr": transposed, "name": name, "inline": inline}
        results = iter(cells.through((transposed,), lambda held: self.bind(*values, *given, *held, **params)))
        found = iter([next(results) if n else None for n in out_nonzero])
        return tuple([next(found) if m else None for m in linear])

    def batch(self, axis: Any, operands: Any, dims: Any, *, jaxpr: Jaxpr, name: str, inline: bool) -> Any:
        """Call the mapped program."""
        batched = tuple([d is not None for d in dims])
        mapped, out_batched = batch_jaxpr(jaxpr, axis, batched)
        moved = [shape.move_batch_axis(x, d, 0) if d else x for x, d in zip(operands, dims, strict=True)]
        return self.bind(*moved, jaxpr=mapped, name=name, inline=inline), tuple([0 if b else None for b in out_batched])

    def lower(self, b: Any, ins: Any, outs: Any, *, jaxpr: Jaxpr, name: str, inline: bool) -> Any:
        """A private function, emitted once per module; inlined programs and those in manual regions are written in place."""
        if inline or b.module.manual is not None:
            return b.jaxpr(jaxpr, ins, f"jit({name})")
        return b.call(jaxpr, ins, name or "call")

    def split(self, eqn: Any, policy: Any) -> Any:
        """Two calls: of the program that saves values, and of the rest."""
        inner = split_by_policy(eqn.params["jaxpr"], policy)
        kept = inner.forward.out_avals[len(eqn.outvars) :]
        return split_equation(eqn, [inner], {"jaxpr": inner.forward}, {"jaxpr": inner.again}, kept)

    def dce(self, wanted: Sequence[bool], eqn: Any) -> Any:
        """Drop unused outputs of the program."""
        jaxpr, used = dead_code(eqn.params["jaxpr"], tuple(wanted), keep_inputs=False)
        return eqn.replace(
            invars=[a for a, u in zip(eqn.invars, used, strict=True) if u],
            outvars=[v for v, w in zip(eqn.outvars, wanted, strict=True) if w],
            params={**eqn.params, "jaxpr": intern(jaxpr)},
        )


jit_p = Jit("jit")


class HeldCall(Jit):
    """A call whose program is written in place, with parameters beside those of `jit`."""

    stage: Any = None
    split: Any = None

    def infer(self, *avals: Any, jaxpr: Jaxpr, **_: Any) -> Any:
        """Types of the outputs of the program."""
        return jaxpr.out_avals

    def reference(self, *operands: Any, jaxpr: Jaxpr, **_: Any) -> Any:
        """The program by its references."""
        return jit_p.reference(*operands, jaxpr=jaxpr, name="", inline=False)

    def batch(self, axis: Any, operands: Any, dims: Any, **params: Any) -> Any:
        """Call of the mapped program."""
        mapped, out_batched = batch_jaxpr(params["jaxpr"], axis, tuple([d is not None for d in dims]))
        moved = [shape.move_batch_axis(x, d, 0) if d else x for x, d in zip(operands, dims, strict=True)]
        return self.bind(*moved, **{**params, "jaxpr": mapped}), tuple([0 if b else None for b in out_batched])

    def lower(self, b: Any, ins: Any, outs: Any, *, jaxpr: Jaxpr, **_: Any) -> Any:
        """The program in place."""
        return b.jaxpr(jaxpr, ins)


class LinearCall(HeldCall):
    """A program that is linear in some operands, with a transpose of its own; differentiated again it is a plain call."""

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> Any:
        """As a plain call."""
        return jit_p.jvp(primals, tangents, **plain(params))

    def linearize(self, primals: Any, tangents: Any, params: dict[str, Any]) -> Any:
        """As a plain call."""
        return jit_p.linearize(primals, tangents, plain(params))


def plain(params: dict[str, Any]) -> dict[str, Any]:
    """The parameters that `jit` has, a dict."""
    return {k: params[k] for k in ("jaxpr", "name", "inline")}
