# SPDX-License-Identifier: Apache-2.0
"""`checkpoint` (`remat`): derivatives that compute intermediate values again instead of keeping them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from purax import config, tree
from purax.control.jit import Jit
from purax.control.program import build, stage_tree
from purax.core.axes import axis_environment
from purax.core.ir import Jaxpr, Literal, Var, intern
from purax.core.passes import dead_code
from purax.core.trace import Tracer, aval_of
from purax.primitives import barrier
from purax.primitives.base import LinearUnary, is_linear
from purax.transforms.flat import argument_names, check_arrays, name_of
from purax.transforms.jvp import jvp_jaxpr
from purax.transforms.reverse import DualTracer, linearize_flat
from purax.transforms.transpose import backward_pass

__all__ = ["checkpoint", "checkpoint_name", "checkpoint_policies", "remat_p"]


class Remat(Jit):
    """Call of a program whose residuals are not kept, save those that the policy names."""

    def infer(self, *avals: Any, jaxpr: Jaxpr, name: str, inline: bool, policy: Any, prevent_cse: bool) -> Any:
        """Types of the outputs of the program."""
        return jaxpr.out_avals

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> Any:
        """Call of the derivative program, checkpointed, too."""
        jaxpr = params["jaxpr"]
        derived, out_nonzero = jvp_jaxpr(jaxpr, tuple([t is not None for t in tangents]))
        results = self.bind(*primals, *[t for t in tangents if t is not None], **{**params, "jaxpr": derived})
        count = len(jaxpr.outvars)
        rest = iter(results[count:])
        return results[:count], tuple([next(rest) if n else None for n in out_nonzero])

    def linearize(self, primals: Any, tangents: Any, params: dict[str, Any]) -> Any:
        """Run forward, keeping what the policy allows; one linear operation on the tape stands for all the rest."""
        jaxpr, policy = params["jaxpr"], params["policy"]
        forward, saved = _with_saved(jaxpr, policy)
        count = len(jaxpr.outvars)
        results = super().bind(*primals, **{**params, "jaxpr": forward})
        mask = tuple([t is not None for t in tangents])
        program, out_nonzero = _tangent_program(jaxpr, mask, saved)
        given = [t for t in tangents if t is not None]
        out_tangents = remat_linear_p.bind(
            *primals, *results[count:], *given, jaxpr=program, name=params["name"], inline=True, prevent_cse=params["prevent_cse"]
        )
        rest = iter(out_tangents)
        return results[:count], tuple([next(rest) if n else None for n in out_nonzero])

    def transpose(self, cotangents: Any, operands: Any, **params: Any) -> Any:
        """Transposition needs no residuals of its own: as a plain call."""
        plain = {k: params[k] for k in ("jaxpr", "name", "inline")}
        return _jit_p().transpose(cotangents, operands, **plain)

    def batch(self, axis: Any, operands: Any, dims: Any, **params: Any) -> Any:
        """Call of the mapped program."""
        mapped, out_dims = _mapped(self, axis, operands, dims, params)
        return mapped, out_dims

    def reference(self, *operands: Any, jaxpr: Jaxpr, **_: Any) -> Any:
        """The program by its references."""
        return _jit_p().reference(*operands, jaxpr=jaxpr, name="", inline=False)

    def lower(self, b: Any, ins: Any, outs: Any, *, jaxpr: Jaxpr, **_: Any) -> Any:
        """The program in place."""
        return b.jaxpr(jaxpr, ins)


def _jit_p() -> Any:
    return jit_module.jit_p


def _mapped(primitive: Any, axis: Any, operands: Any, dims: Any, params: dict[str, Any]) -> Any:
    batched = tuple([d is not None for d in dims])
    mapped, out_batched = batch_jaxpr(params["jaxpr"], axis, batched)
    moved = [shape.move_batch_axis(x, d, 0) if d else x for x, d in zip(operands, dims, strict=True)]
    return primitive.bind(*moved, **{**params, "jaxpr": mapped}), tuple([0 if b else None for b in out_batched])


def _with_saved(jaxpr: Jaxpr, policy: Any) -> tuple[Jaxpr, tuple[tuple[int, int], ...]]:
    """The program with the values that the policy saves as extra outputs, and their places (equation, output)."""
    if policy is None:
        return jaxpr, ()
    places, extra = [], []
    for i, eqn in enumerate(jaxpr.eqns):
        if policy(eqn.primitive, *[a.aval for a in eqn.invars], **eqn.params):
            for j, var in enumerate(eqn.outvars):
                places.append((i, j))
                extra.append(var)
    return intern(Jaxpr([], jaxpr.invars, [*jaxpr.outvars, *extra], jaxpr.eqns, jaxpr.names, jaxpr.name)), tuple(places)


def _tangent_program(jaxpr: Jaxpr, mask: tuple[bool, ...], saved: tuple[tuple[int, int], ...]) -> tuple[Jaxpr, tuple[bool, ...]]:
    """The program `(primals, saved values, nonzero tangents) -> nonzero output tangents`; remembered on the jaxpr."""
    key = ("remat", mask, saved)
    found = jaxpr.derived.get(key)
    if found is None:
        count = len(mask)
        out_nonzero: list[bool] = []
        avals = [*jaxpr.in_avals, *(jaxpr.eqns[i].outvars[j].aval for i, j in saved)]
        avals += [a.strip_weak() for a, m in zip(jaxpr.in_avals, mask, strict=True) if m]

        def tangents_only(*xs: Any) -> list[Any]:
            kept = dict(zip(saved, xs[count : count + len(saved)], strict=True))
            _, tape = linearize_flat(lambda *ps: _eval_with_saved(jaxpr, ps, kept), xs[:count], mask)
            rest = iter(xs[count + len(saved) :])
            outs = tape.forward([next(rest) if m else None for m in mask])
            out_nonzero[:] = [o is not None for o in outs]
            return [o for o in outs if o is not None]

        program = build(tangents_only, avals, jaxpr.name)
        found = jaxpr.derived[key] = (intern(dead_code(program)[0]), tuple(out_nonzero))
    return found  # type: ignore[no-any-return]


class RematLinear(Jit):
    """The derivative of a checkpointed call, linear in the tangents; computes what it needs from the primals again.

    A barrier keeps the compiler from merging that computation with the first one.
    """

    types_axes = True

    def infer(self, *avals: Any, jaxpr: Jaxpr, name: str, inline: bool, prevent_cse: bool) -> Any:
        """Types of the outputs of the program."""
        return jaxpr.out_avals

    def reference(self, *operands: Any, jaxpr: Jaxpr, **_: Any) -> Any:
        """The program by its references."""
        return _jit_p().reference(*operands, jaxpr=jaxpr, name="", inline=False)

    def jvp(self, primals: Any, tangents: Any, *, jaxpr: Jaxpr, name: str, inline: bool, prevent_cse: bool) -> Any:
        """As a plain call."""
        return _jit_p().jvp(primals, tangents, jaxpr=jaxpr, name=name, inline=True)

    def linearize(self, primals: Any, tangents: Any, params: dict[str, Any]) -> Any:
        """As a plain call."""
        return _jit_p().linearize(primals, tangents, {k: params[k] for k in ("jaxpr", "name", "inline")})

    def batch(self, axis: Any, operands: Any, dims: Any, **params: Any) -> Any:
        """Call of the mapped program."""
        return _mapped(self, axis, operands, dims, params)

    def transpose(self, cotangents: Any, operands: Any, *, jaxpr: Jaxpr, name: str, inline: bool, prevent_cse: bool) -> Any:
        """Compute again, then pull back."""
        linear = [is_linear(x) for x in operands]
        inputs = [*(x for x, m in zip(operands, linear, strict=True) if not m), *(c for c in cotangents if c is not None)]
        if prevent_cse and inputs:
            inputs = list(barrier.optimization_barrier_p.bind(*inputs))
        rest = iter(inputs)
        values = [x if m else next(rest) for x, m in zip(operands, linear, strict=True)]
        given = [None if c is None else next(rest) for c in cotangents]
        return tuple(backward_pass(jaxpr, values, given))

    def lower(self, b: Any, ins: Any, outs: Any, *, jaxpr: Jaxpr, **_: Any) -> Any:
        """The program in place."""
        return b.jaxpr(jaxpr, ins)


def _eval_with_saved(jaxpr: Jaxpr, operands: Sequence[Any], saved: dict[tuple[int, int], Any]) -> list[Any]:
    """Run the program with saved primals in place of computed ones; tangents flow as if computed."""
    env: dict[Var, Any] = dict(zip(jaxpr.invars, operands, strict=True))

    def read(atom: Any) -> Any:
        return atom.val if type(atom) is Literal else env[atom]

    for i, eqn in enumerate(jaxpr.eqns):
        outs = eqn.primitive.bind(*[read(a) for a in eqn.invars], **eqn.params)
        for j, (var, out) in enumerate(zip(eqn.outvars, outs, strict=True)):
            kept = saved.get((i, j))
            if kept is not None:
                out = DualTracer(out._trace, kept, out.tangent) if type(out) is DualTracer else kept
            env[var] = out
    return [read(a) for a in jaxpr.outvars]


class Name(LinearUnary):
    """The identity, with a name that checkpoint policies can ask for."""

    def infer(self, x: Any, *, name: str) -> Any:
        """Type of the operand."""
        return (x,)

    def reference(self, x: Any, *, name: str) -> Any:
        """The operand."""
        return (x,)

    exact = True

    def transpose(self, cotangents: Any, operands: Any, *, name: str) -> Any:
        """The identity."""
        return cotangents

    def batch(self, axis: Any, operands: Any, dims: Any, *, name: str) -> Any:
        """The identity."""
        return self.bind(operands[0], name=name), dims

    def lower(self, b: Any, ins: Any, outs: Any, *, name: str) -> Any:
        """The operand."""
        return ins


from purax.control import jit as jit_module  # noqa: E402
from purax.primitives import shape  # noqa: E402
from purax.transforms.vmap import batch_jaxpr  # noqa: E402

remat_p = Remat("checkpoint")
remat_linear_p = RematLinear("checkpoint_tangent")
name_p = Name("name")


def checkpoint_name(x: Any, name: str) -> Any:
    """The value itself, named for checkpoint policies (`save_only_these_names`)."""
    return tree.map(lambda leaf: name_p.bind1(leaf, name=name), x)


def checkpoint(
    fun: Callable[..., Any] | None = None, *, concrete: bool = False, prevent_cse: bool = True, static_argnums: Any = (),
    policy: Callable[..., bool] | None = None,
) -> Any:  # fmt: skip
    """Make reverse-mode differentiation of `fun` compute intermediate values again instead of keeping them.

    Parameters
    ----------
    fun : callable
    prevent_cse : bool
        Keep the compiler from merging the second computation with the first (not needed inside `scan`).
    static_argnums : int or sequence of int
        Arguments that are no arrays.
    policy : callable, optional
        One of `purax.checkpoint_policies`: which values are kept all the same.

    Returns
    -------
    callable
        With the value and the derivatives of `fun`.
    """
    del concrete
    if fun is None:
        return lambda f: checkpoint(f, prevent_cse=prevent_cse, static_argnums=static_argnums, policy=policy)
    positions = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)
    programs: dict[Any, Any] = {}  # traced once per type of the arguments, unless traced values are captured

    def checkpointed(*args: Any, **kwargs: Any) -> Any:
        static = {p % len(args) if p < 0 else p for p in positions}
        if any(p >= len(args) for p in static):
            raise ValueError(f"the `static_argnums` argument to `jax.checkpoint` can only take integer values less than the number of positional arguments, but got {positions} for {len(args)} arguments")  # noqa: E501
        dynamic = tuple(a for i, a in enumerate(args) if i not in static)
        leaves, in_tree = tree.flatten((dynamic, kwargs))
        check_arrays(f"checkpoint({name_of(fun)})", leaves, lambda: argument_names(fun, dynamic, kwargs))

        def call(dynamic: Any, kwargs: Any) -> Any:
            rest = iter(dynamic)
            return fun(*[args[i] if i in static else next(rest) for i in range(len(args))], **kwargs)

        call.__name__ = name_of(fun)
        avals = tuple([aval_of(x) for x in leaves])
        key = (in_tree, avals, config.trace_key(), tuple(axis_environment.get().items()))
        key = (*key, *[(i, type(args[i]), args[i]) for i in sorted(static)])
        found = programs.get(key)
        if found is None:
            jaxpr, consts, out_tree = stage_tree(call, in_tree, avals, name_of(fun), "checkpoint")
            found = (intern(jaxpr), consts, out_tree)
            if not any(isinstance(c, Tracer) for c in consts):
                programs[key] = found
        jaxpr, consts, out_tree = found
        outs = remat_p.bind(
            *consts, *leaves, jaxpr=jaxpr, name=name_of(fun), inline=True, policy=policy, prevent_cse=prevent_cse
        )
        return out_tree.unflatten(outs)

    checkpointed.__name__ = name_of(fun)
    checkpointed.__qualname__ = name_of(fun)
    checkpointed.__doc__ = getattr(fun, "__doc__", None)
    checkpointed.__wrapped__ = fun  # type: ignore[attr-defined]
    return checkpointed


# --- policies -------------------------------------------------------------------------------------------------------------------


def _everything_saveable(*_: Any, **__: Any) -> bool:
    return True


def _nothing_saveable(*_: Any, **__: Any) -> bool:
    return False


def _dots_saveable(primitive: Any, *_: Any, **__: Any) -> bool:
    return primitive.name in ("dot_general", "conv_general_dilated")


def _dots_with_no_batch_dims_saveable(primitive: Any, *_: Any, **params: Any) -> bool:
    return primitive.name == "dot_general" and not any(params["dimension_numbers"][1])


def _save_only_these_names(*names: str) -> Callable[..., bool]:
    return lambda primitive, *_, **params: primitive is name_p and params["name"] in names


def _save_any_names_but_these(*names: str) -> Callable[..., bool]:
    return lambda primitive, *_, **params: primitive is name_p and params["name"] not in names


def _save_anything_except_these_names(*names: str) -> Callable[..., bool]:
    return lambda primitive, *_, **params: not (primitive is name_p and params["name"] in names)


def _save_from_both_policies(first: Callable[..., bool], second: Callable[..., bool]) -> Callable[..., bool]:
    return lambda primitive, *args, **params: first(primitive, *args, **params) or second(primitive, *args, **params)


checkpoint_policies = SimpleNamespace(
    everything_saveable=_everything_saveable,
    nothing_saveable=_nothing_saveable,
    dots_saveable=_dots_saveable,
    checkpoint_dots=_dots_saveable,
    dots_with_no_batch_dims_saveable=_dots_with_no_batch_dims_saveable,
    checkpoint_dots_with_no_batch_dims=_dots_with_no_batch_dims_saveable,
    save_only_these_names=_save_only_these_names,
    save_any_names_but_these=_save_any_names_but_these,
    save_anything_except_these_names=_save_anything_except_these_names,
    save_from_both_policies=_save_from_both_policies,
)
