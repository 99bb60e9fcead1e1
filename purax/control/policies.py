# SPDX-License-Identifier: Apache-2.0
"""What checkpointing keeps: policies, names for values that policies ask for, and the split of a program by a policy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from purax import tree
from purax.core.ir import Equation, Jaxpr, Var, intern
from purax.primitives.base import LinearUnary
from purax.sharding import rules

__all__ = ["Saving", "checkpoint_name", "checkpoint_policies", "name_p", "split_by_policy", "split_equation"]

Policy = Callable[..., Any]


class Name(LinearUnary):
    """The identity, with a name that checkpoint policies can ask for."""

    exact = True

    terms = True

    spread = rules.same

    def infer(self, x: Any, *, name: str) -> Any:
        """Type of the operand."""
        return (x,)

    def reference(self, x: Any, *, name: str) -> Any:
        """The operand."""
        return (x,)

    def transpose(self, cotangents: Any, operands: Any, *, name: str) -> Any:
        """The identity."""
        return cotangents

    def batch(self, axis: Any, operands: Any, dims: Any, *, name: str) -> Any:
        """The identity."""
        return self.bind(operands[0], name=name), dims

    def lower(self, b: Any, ins: Any, outs: Any, *, name: str) -> Any:
        """The operand."""
        return ins


name_p = Name("name")


def checkpoint_name(x: Any, name: str) -> Any:
    """The value itself, a tree like `x`, with `name` for checkpoint policies (`save_only_these_names`)."""
    return tree.map(lambda leaf: name_p.bind1(leaf, name=name), x)


# --- the split ----------------------------------------------------------------------------------------------------------------


class Saving:
    """A program in two forms, so that what a policy saves is computed once.

    Attributes
    ----------
    forward : Jaxpr
        `inputs -> (outputs, saved values)`.
    again : Jaxpr
        `(inputs, saved values) -> outputs`: the program without the equations whose values are saved.
    saved : int
        Number of saved values.
    """

    __slots__ = ("again", "forward", "saved")

    def __init__(self, forward: Jaxpr, again: Jaxpr, saved: int) -> None:
        self.forward, self.again, self.saved = forward, again, saved


def split_by_policy(jaxpr: Jaxpr, policy: Policy | None) -> Saving:
    """Split a program (without constants) by what `policy` saves, inner programs included; remembered on the program.

    Effects happen once: whatever the policy says, an equation with effects is not computed again, and its results are saved.
    """
    if policy is None:
        if not jaxpr.effects:
            return Saving(jaxpr, jaxpr, 0)
        policy = _nothing_saveable
    key = ("saving", policy)
    found = jaxpr.derived.get(key)
    if found is None:
        found = jaxpr.derived[key] = _split(jaxpr, policy)
    return found


def _split(jaxpr: Jaxpr, policy: Policy) -> Saving:
    forward: list[Equation] = []
    again: list[Equation] = []
    saved: list[Var] = []
    for eqn in jaxpr.eqns:
        if not eqn.effects and policy(eqn.primitive, *[a.aval for a in eqn.invars], **eqn.params):
            forward.append(eqn)
            saved += eqn.outvars
            continue
        parts = eqn.primitive.split(eqn, policy) if eqn.primitive.split is not None else None
        if parts is None and eqn.effects:
            forward.append(eqn)
            saved += eqn.outvars
        elif parts is None:
            forward.append(eqn)
            again.append(eqn)
        else:
            first, second, kept = parts
            forward.append(first)
            again.append(second)
            saved += kept
    if len(again) == len(forward) and not saved:
        return Saving(jaxpr, jaxpr, 0)
    full = Jaxpr([], jaxpr.invars, [*jaxpr.outvars, *saved], forward, jaxpr.names, jaxpr.name)
    rest = Jaxpr([], [*jaxpr.invars, *saved], jaxpr.outvars, again, (), jaxpr.name)
    return Saving(intern(full), intern(rest), len(saved))


def split_equation(
    eqn: Equation, inner: Sequence[Saving], forward: dict[str, Any], again: dict[str, Any], kept: Sequence[Any]
) -> tuple[Equation, Equation, list[Var]] | None:
    """The two equations of one that holds programs, which `inner` are the splits of.

    `kept` are the avals of the saved values: the last outputs of the first equation, the last inputs of the second.

    Parameters
    ----------
    eqn : Equation
    inner : sequence of Saving
    forward, again : dict
        Params of the first and the second equation that differ.
    kept : sequence of aval

    Returns
    -------
    (Equation, Equation, list of Var), or None if nothing is to be split
    """
    if not any(s.saved or s.forward is not s.again for s in inner):
        return None
    saved = [Var(aval) for aval in kept]
    held = ({**eqn.params, **forward}, {**eqn.params, **again})
    first, second = [eqn.replace(params=params, effects=eqn.primitive.effects(params)) for params in held]
    return first.replace(outvars=[*eqn.outvars, *saved]), second.replace(invars=[*eqn.invars, *saved]), saved


# --- policies -------------------------------------------------------------------------------------------------------------------


def _everything_saveable(*_: Any, **__: Any) -> bool:
    return True


def _nothing_saveable(*_: Any, **__: Any) -> bool:
    return False


def _dots_saveable(primitive: Any, *_: Any, **__: Any) -> bool:
    return primitive.name in ("dot_general", "conv_general_dilated")


def _dots_with_no_batch_dims_saveable(primitive: Any, *_: Any, **params: Any) -> bool:
    return primitive.name == "dot_general" and not any(params["dimension_numbers"][1])


def _save_only_these_names(*names: str) -> Policy:
    return lambda primitive, *_, **params: primitive is name_p and params["name"] in names


def _save_any_names_but_these(*names: str) -> Policy:
    return lambda primitive, *_, **params: primitive is name_p and params["name"] not in names


def _save_anything_except_these_names(*names: str) -> Policy:
    return lambda primitive, *_, **params: not (primitive is name_p and params["name"] in names)


def _save_from_both_policies(first: Policy, second: Policy) -> Policy:
    return lambda primitive, *args, **params: first(primitive, *args, **params) or second(primitive, *args, **params)


def _offload_dot_with_no_batch_dims(offload_src: str, offload_dst: str) -> Policy:
    del offload_src, offload_dst  # one memory: what would be moved to the host is kept where it is
    return _dots_with_no_batch_dims_saveable


def _save_and_offload_only_these_names(
    *,
    names_which_can_be_saved: Sequence[str],
    names_which_can_be_offloaded: Sequence[str],
    offload_src: str,
    offload_dst: str,
) -> Policy:
    del offload_src, offload_dst
    both = set(names_which_can_be_saved) & set(names_which_can_be_offloaded)
    if both:
        raise ValueError(f"names to be saved and names to be offloaded must differ, but {sorted(both)} are in both")
    return _save_only_these_names(*names_which_can_be_saved, *names_which_can_be_offloaded)


checkpoint_policies = SimpleNamespace(
    everything_saveable=_everything_saveable,
    nothing_saveable=_nothing_saveable,
    dots_saveable=_dots_saveable,
    checkpoint_dots=_dots_saveable,
    dots_with_no_batch_dims_saveable=_dots_with_no_batch_dims_saveable,
    checkpoint_dots_with_no_batch_dims=_dots_with_no_batch_dims_saveable,
    offload_dot_with_no_batch_dims=_offload_dot_with_no_batch_dims,
    save_and_offload_only_these_names=_save_and_offload_only_these_names,
    save_only_these_names=_save_only_these_names,
    save_any_names_but_these=_save_any_names_but_these,
    save_anything_except_these_names=_save_anything_except_these_names,
    save_from_both_policies=_save_from_both_policies,
)
