# SPDX-License-Identifier: Apache-2.0
"""`checkpoint` (`remat`): derivatives that compute intermediate values again instead of keeping them.

A checkpointed call is differentiated as any program is: into a forward part that gives residuals and a linear part that uses
them. Of the residuals only those that the policy saves are kept; on the tape goes one operation that computes the others again
from the inputs and the saved values, and is linear in the tangents.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from purax import config, tree
from purax.control import refs
from purax.control.custom_vjp import custom_vjp_call_p
from purax.control.policies import checkpoint_name, checkpoint_policies, split_by_policy
from purax.control.program import build, stage_touching, take
from purax.control.program_call import HeldCall, LinearCall, jit_p, plain
from purax.core.axes import axis_environment, lane_axes
from purax.core.interpret import eval_jaxpr
from purax.core.ir import Jaxpr, intern
from purax.core.passes import dead_code
from purax.core.source import opened
from purax.core.trace import Tracer, aval_of
from purax.primitives import barrier
from purax.primitives.base import is_linear
from purax.transforms.flat import argument_names, check_arrays, name_of
from purax.transforms.jvp import jvp_jaxpr
from purax.transforms.transpose import backward_pass, linearize_jaxpr

_AGAIN = "rematted_computation"  # JAX's name for what is computed a second time

__all__ = ["checkpoint", "checkpoint_name", "checkpoint_policies", "remat_p"]


class Remat(HeldCall):
    """Call of a program whose residuals are not kept, save those that the policy names.

    Params
    ------
    jaxpr, name, inline
        As of `jit`.
    policy : callable or None
    prevent_cse : tuple of bool
        Operands that a barrier hides from the compiler before they are used a second time.
    """

    def lower(self, b: Any, ins: Any, outs: Any, *, jaxpr: Jaxpr, **_: Any) -> Any:
        """The program in place."""
        return b.jaxpr(jaxpr, ins, "checkpoint")

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> Any:
        """Call of the derivative program, checkpointed, too."""
        jaxpr = params["jaxpr"]
        derived, out_nonzero = jvp_jaxpr(jaxpr, tuple([t is not None for t in tangents]))
        given = [t for t in tangents if t is not None]
        hidden = (*params["prevent_cse"], *[False] * len(given))
        results = self.bind(*primals, *given, **{**params, "jaxpr": derived, "prevent_cse": hidden})
        count = len(jaxpr.outvars)
        rest = iter(results[count:])
        return results[:count], tuple([next(rest) if n else None for n in out_nonzero])

    def linearize(self, primals: Any, tangents: Any, params: dict[str, Any]) -> Any:
        """Run forward, keeping what the policy saves; one linear operation on the tape stands for all the rest."""
        mask = tuple([t is not None for t in tangents])
        plan = _plan(params["jaxpr"], mask, params["policy"])
        results = self.bind(*primals, **{**params, "jaxpr": plan.forward})
        hidden = [*take(params["prevent_cse"], plan.inputs), *[False] * (len(plan.linear.invars) - sum(plan.inputs))]
        out_tangents = remat_linear_p.bind(
            *take(primals, plan.inputs), *results[plan.outs :], *[t for t in tangents if t is not None],
            jaxpr=plan.linear, name=params["name"], inline=True, prevent_cse=tuple(hidden),
        )  # fmt: skip
        rest = iter(out_tangents)
        return results[: plan.outs], tuple([next(rest) if n else None for n in plan.out_nonzero])

    def transpose(self, cotangents: Any, operands: Any, **params: Any) -> Any:
        """Transposition needs no residuals of its own: as a plain call."""
        return jit_p.transpose(cotangents, operands, **plain(params))


class _Plan:
    """A checkpointed program, ready for reverse mode.

    Attributes
    ----------
    forward : Jaxpr
        `inputs -> (outputs, saved values)`.
    linear : Jaxpr
        `(inputs that it needs, saved values, nonzero tangents) -> nonzero output tangents`.
    inputs : list of bool
        Which inputs the linear part needs.
    outs : int
    out_nonzero : tuple of bool
    """

    __slots__ = ("forward", "inputs", "linear", "out_nonzero", "outs")

    def __init__(
        self, forward: Jaxpr, linear: Jaxpr, inputs: list[bool], outs: int, out_nonzero: tuple[bool, ...]
    ) -> None:
        self.forward, self.linear, self.inputs, self.outs, self.out_nonzero = forward, linear, inputs, outs, out_nonzero


def _plan(jaxpr: Jaxpr, mask: tuple[bool, ...], policy: Any) -> _Plan:
    key = ("remat", mask, policy)
    found = jaxpr.derived.get(key)
    if found is None:
        found = jaxpr.derived[key] = _make_plan(jaxpr, mask, policy)
    return found


def _make_plan(jaxpr: Jaxpr, mask: tuple[bool, ...], policy: Any) -> _Plan:
    parts = linearize_jaxpr(jaxpr, mask)
    saving = split_by_policy(parts.forward, policy)
    count, total, outs = len(jaxpr.invars), len(parts.forward.outvars), len(jaxpr.outvars)
    places = [i for where, i in parts.residuals if where == "out"]
    wanted = [i in places for i in range(total)]
    again, used = dead_code(saving.again, wanted, keep_inputs=True)
    kept = used[count:]
    column = {i: k for k, i in enumerate([i for i, w in enumerate(wanted) if w])}

    def tangents_only(*xs: Any) -> list[Any]:
        inputs, rest = xs[:count], xs[count:]
        values = eval_jaxpr(again, (), *inputs, *rest[: len(kept)])
        residuals = [inputs[i] if where == "in" else values[column[i]] for where, i in parts.residuals]
        return eval_jaxpr(parts.linear, (), *residuals, *rest[len(kept) :])

    avals = [*saving.again.in_avals, *parts.linear.in_avals[len(parts.residuals) :]]
    linear, used = dead_code(build(tangents_only, avals, jaxpr.name))
    live = [*used[: count + len(kept)], *[True] * (len(avals) - count - len(kept))]
    linear = intern(Jaxpr([], take(linear.invars, live), linear.outvars, linear.eqns, (), jaxpr.name))
    saved = used[count : count + len(kept)]
    if any(saved) or not _optimized(jaxpr):
        forward, _ = dead_code(saving.forward, [*[True] * outs, *[False] * (total - outs), *saved])
    else:
        forward = jaxpr
    return _Plan(intern(forward), linear, used[:count], outs, parts.out_nonzero)


def _optimized(jaxpr: Jaxpr) -> bool:
    """Whether the program calls functions with backward rules, all of which ask to be run themselves where no residual is kept."""
    asked = [eqn.params["rule"].optimize_remat for eqn in _equations(jaxpr) if eqn.primitive is custom_vjp_call_p]
    return bool(asked) and all(asked)


def _equations(jaxpr: Jaxpr) -> Iterator[Any]:
    """The equations of a program and of those that it holds."""
    for eqn in jaxpr.eqns:
        yield eqn
        for value in eqn.params.values():
            for inner in value if isinstance(value, tuple) else (value,):
                if isinstance(inner, Jaxpr):
                    yield from _equations(inner)


class RematLinear(LinearCall):
    """The derivative of a checkpointed call, linear in the tangents; computes what it needs from the primals again.

    A barrier keeps the compiler from merging that computation with the first one.
    """

    def transpose(self, cotangents: Any, operands: Any, *, jaxpr: Jaxpr, **params: Any) -> Any:
        """Compute again, once the cotangents are there, then pull back."""
        hidden = [h and not is_linear(x) for h, x in zip(params["prevent_cse"], operands, strict=True)]
        if any(hidden):
            given = [c for c in cotangents if c is not None]
            results = iter(barrier.optimization_barrier_p.bind(*take(operands, hidden), *given))
            operands = [next(results) if h else x for h, x in zip(hidden, operands, strict=True)]
            cotangents = [None if c is None else next(results) for c in cotangents]
        with opened(_AGAIN):
            return tuple(backward_pass(jaxpr, operands, cotangents))

    def lower(self, b: Any, ins: Any, outs: Any, *, jaxpr: Jaxpr, **_: Any) -> Any:
        """The program in place."""
        return b.jaxpr(jaxpr, ins, _AGAIN)

    def dce(self, wanted: Sequence[bool], eqn: Any) -> Any:
        """Drop unused outputs, and the operands that only they need."""
        jaxpr, used = dead_code(eqn.params["jaxpr"], tuple(wanted), keep_inputs=False)
        hidden = tuple(take(eqn.params["prevent_cse"], used))
        return eqn.replace(
            invars=take(eqn.invars, used), outvars=take(eqn.outvars, wanted),
            params={**eqn.params, "jaxpr": intern(jaxpr), "prevent_cse": hidden},
        )  # fmt: skip


class _RematCall(Remat):
    def dce(self, wanted: Sequence[bool], eqn: Any) -> Any:
        """Drop unused outputs, and the operands that only they need."""
        return RematLinear.dce(self, wanted, eqn)  # type: ignore[arg-type]


remat_p = _RematCall("checkpoint")
remat_linear_p = RematLinear("checkpoint_tangent")


# --- the decorator --------------------------------------------------------------------------------------------------------------


def checkpoint(
    fun: Callable[..., Any] | None = None, *, concrete: bool = False, prevent_cse: Any = True, static_argnums: Any = (),
    policy: Callable[..., bool] | None = None,
) -> Any:  # fmt: skip
    """Make reverse-mode differentiation of `fun` compute intermediate values again instead of keeping them.

    Parameters
    ----------
    fun : callable
    prevent_cse : bool, or a tuple of bools or pytree prefixes with one entry per argument
        Keep the compiler from merging the second computation with the first (not needed inside `scan`): the arguments marked
        are hidden from it.
    static_argnums : int or sequence of int
        Arguments that are no arrays.
    policy : callable, optional
        One of `purax.checkpoint_policies`: which values are kept all the same.
    concrete : bool
        Without effect.

    Returns
    -------
    callable
        With the value and the derivatives of `fun`.

    Raises
    ------
    TypeError
        `fun` cannot be called.
    ValueError
        (By the callable.) Positions beyond the arguments.
    """
    del concrete
    if fun is None:
        return lambda f: checkpoint(f, prevent_cse=prevent_cse, static_argnums=static_argnums, policy=policy)
    if not callable(fun):
        raise TypeError(f"checkpoint: the first argument must be callable, got {fun!r}")
    if policy is not None and not callable(policy):
        raise TypeError(f"checkpoint: policy is a function such as those of checkpoint_policies, got {policy!r}")
    positions = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)
    programs: dict[Any, Any] = {}  # traced once per type of the arguments, unless traced values are captured

    def checkpointed(*args: Any, **kwargs: Any) -> Any:
        static = {p % len(args) if p < 0 else p for p in positions}
        if any(p >= len(args) for p in static):
            raise ValueError(
                f"the `static_argnums` argument to `jax.checkpoint` can only take integer values less than the number of positional arguments, but got {positions} for {len(args)} arguments"
            )
        given = tuple(a for i, a in enumerate(args) if i not in static)
        dynamic, kwargs = buried = refs.bury("checkpoint", (given, kwargs))

        def call(dynamic: Any, kwargs: Any) -> Any:
            rest = iter(dynamic)
            return fun(*[args[i] if i in static else next(rest) for i in range(len(args))], **kwargs)

        call.__name__ = name_of(fun)
        inner = call if dynamic is given else refs.unburied(call)

        leaves, in_tree = tree.flatten(buried)
        check_arrays(f"checkpoint({name_of(fun)})", leaves, lambda: argument_names(fun, dynamic, kwargs))
        avals = tuple([aval_of(x) for x in leaves])
        key = (in_tree, avals, config.trace_key(), *axis_environment.get().items(), lane_axes.get())
        key = (*key, *[(i, type(args[i]), args[i]) for i in sorted(static)])
        found = programs.get(key)
        if found is None:
            jaxpr, consts, out_tree, cells = stage_touching(inner, in_tree, avals, name_of(fun), "checkpoint")
            found = (intern(jaxpr), consts, out_tree, cells)
            if not any(isinstance(c, Tracer) for c in consts):
                programs[key] = found
        jaxpr, consts, out_tree, cells = found
        hidden = _hidden(prevent_cse, len(consts), dynamic, kwargs)
        hidden = (*hidden, *[prevent_cse is True] * len(cells))
        run = lambda held: remat_p.bind(
            *consts, *leaves, *held, jaxpr=jaxpr, name=name_of(fun), inline=True, policy=policy, prevent_cse=hidden
        )
        return out_tree.unflatten(cells.through((jaxpr,), run))

    checkpointed.__name__ = name_of(fun)
    checkpointed.__qualname__ = getattr(fun, "__qualname__", name_of(fun))
    checkpointed.__doc__ = getattr(fun, "__doc__", None)
    checkpointed.__wrapped__ = fun  # type: ignore[attr-defined]
    return checkpointed


def _hidden(prevent_cse: Any, consts: int, dynamic: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[bool, ...]:
    """Which operands go through a barrier: all or none, or leaf by leaf; then constants do not."""
    if isinstance(prevent_cse, bool):
        return (prevent_cse,) * (consts + len(tree.leaves((dynamic, kwargs))))
    flags = tree.flatten_axes("checkpoint prevent_cse", tree.structure(dynamic), tuple(prevent_cse))
    return (*[False] * consts, *[bool(f) for f in flags], *[any(flags)] * len(tree.leaves(kwargs)))
