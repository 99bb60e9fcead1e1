# SPDX-License-Identifier: Apache-2.0
"""Passes over jaxprs: dead code, common subexpressions, inlining. None touches an equation with effects.

`silent` does, on purpose: it makes a program that may run a second time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from purax.core.ir import Equation, Jaxpr, Literal, Var, intern
from purax.core.verify import inner_jaxprs

__all__ = ["common_subexpressions", "dead_code", "finds", "inline", "needed", "pruned", "silent"]


def dead_code(jaxpr: Jaxpr, used: Sequence[bool] | None = None, keep_inputs: bool = True) -> tuple[Jaxpr, list[bool]]:
    """Drop equations that no used output needs.

    Parameters
    ----------
    jaxpr : Jaxpr
    used : sequence of bool, optional
        Which outputs are wanted; the others are dropped. Default: all.
    keep_inputs : bool
        Keep unused inputs in the signature.

    Returns
    -------
    jaxpr : Jaxpr
    used_inputs : list of bool
        Which inputs the wanted outputs need.
    """
    outvars = jaxpr.outvars if used is None else [v for v, u in zip(jaxpr.outvars, used, strict=True) if u]
    live = {v for v in outvars if type(v) is Var}
    eqns: list[Equation] = []
    for eqn in reversed(jaxpr.eqns):
        wanted = [v in live for v in eqn.outvars]
        if not any(wanted) and not eqn.effects:
            continue
        if eqn.primitive.dce is not None and not all(wanted):
            eqn = eqn.primitive.dce(wanted, eqn)
        eqns.append(eqn)
        live.update(a for a in eqn.invars if type(a) is Var)
    eqns.reverse()
    used_inputs = [v in live for v in jaxpr.invars]
    invars, names = jaxpr.invars, jaxpr.names
    if not keep_inputs:
        invars = [v for v, u in zip(invars, used_inputs, strict=True) if u]
        names = tuple(n for n, u in zip(names, used_inputs, strict=True) if u) if names else ()
    if len(eqns) == len(jaxpr.eqns) and len(outvars) == len(jaxpr.outvars) and len(invars) == len(jaxpr.invars):
        same = all(a is b for a, b in zip(eqns, jaxpr.eqns, strict=True))
        if same:
            return jaxpr, used_inputs
    return Jaxpr(jaxpr.constvars, invars, outvars, eqns, names, jaxpr.name), used_inputs


def needed(jaxpr: Jaxpr) -> tuple[list[Equation], tuple[bool, ...]]:
    """What a compiler must see of a program: the equations that outputs or effects need, and which inputs these need; remembered.

    Calls of programs take and give only what is needed, as dead inputs of a call would hold on to those of the caller.
    """
    found = jaxpr.derived.get("needed")
    if found is None:
        live: set[Any] = set(jaxpr.outvars)
        eqns: list[Equation] = []
        same = True
        for eqn in reversed(jaxpr.eqns):
            if live.isdisjoint(eqn.outvars) and not eqn.effects:
                same = False
                continue
            primitive = eqn.primitive
            if primitive.dce is not None:
                wanted = [v in live for v in eqn.outvars]
                if not all(wanted) or (primitive.name == "jit" and not all(needed(eqn.params["jaxpr"])[1])):
                    eqn = primitive.dce(wanted, eqn)
                    same = False
            live.update(eqn.invars)
            eqns.append(eqn)
        eqns.reverse()
        mask = tuple([v in live for v in jaxpr.invars])
        found = jaxpr.derived["needed"] = (jaxpr.eqns if same else eqns, mask)
    return found


def pruned(jaxpr: Jaxpr) -> tuple[Jaxpr, tuple[int, ...] | None]:
    """A program without the inputs that it does not need, and the numbers of the others; None where it needs all. Remembered."""
    eqns, mask = needed(jaxpr)
    if all(mask):
        return jaxpr, None
    found = jaxpr.derived.get("pruned")
    if found is None:
        kept = tuple([i for i, m in enumerate(mask) if m])
        names = tuple([jaxpr.names[i] for i in kept]) if jaxpr.names else ()
        inner = Jaxpr(jaxpr.constvars, [jaxpr.invars[i] for i in kept], jaxpr.outvars, eqns, names, jaxpr.name)
        inner.derived["needed"] = (eqns, (True,) * len(kept))
        found = jaxpr.derived["pruned"] = (inner, kept)
    return found


def common_subexpressions(jaxpr: Jaxpr) -> Jaxpr:
    """Merge equations that compute the same thing from the same operands."""
    renamed: dict[Var, Var] = {}
    seen: dict[Any, list[Var]] = {}
    eqns: list[Equation] = []
    for eqn in jaxpr.eqns:
        invars = [renamed.get(a, a) if type(a) is Var else a for a in eqn.invars]
        if eqn.effects:
            eqns.append(eqn.replace(invars=invars))
            continue
        key = (eqn.primitive, tuple([a if isinstance(a, Var) else a.key() for a in invars]), tuple(eqn.params.items()))
        found = seen.get(key)
        if found is None:
            seen[key] = eqn.outvars
            eqns.append(eqn.replace(invars=invars) if invars != eqn.invars else eqn)
        else:
            renamed.update(zip(eqn.outvars, found, strict=True))
    if not renamed:
        return jaxpr
    outvars = [renamed.get(a, a) if type(a) is Var else a for a in jaxpr.outvars]
    return Jaxpr(jaxpr.constvars, jaxpr.invars, outvars, eqns, jaxpr.names, jaxpr.name)


def inline(jaxpr: Jaxpr, names: frozenset[str] = frozenset({"jit"})) -> Jaxpr:
    """Replace calls of the primitives `names` (by default `jit`) by the equations of the programs that they call."""
    env: dict[Var, Any] = {}
    eqns: list[Equation] = []

    def read(atom: Any, env: dict[Var, Any]) -> Any:
        return env.get(atom, atom) if type(atom) is Var else atom

    def walk(program: Jaxpr, env: dict[Var, Any]) -> None:
        for eqn in program.eqns:
            invars = [read(a, env) for a in eqn.invars]
            if eqn.primitive.name in names:
                inner = eqn.params["jaxpr"]
                inner_env: dict[Var, Any] = dict(zip(inner.invars, invars, strict=True))
                walk(inner, inner_env)
                env.update(zip(eqn.outvars, [read(a, inner_env) for a in inner.outvars], strict=True))
                continue
            outvars = [Var(v.aval) for v in eqn.outvars]
            env.update(zip(eqn.outvars, outvars, strict=True))
            eqns.append(eqn.replace(invars=invars, outvars=outvars))

    walk(jaxpr, env)
    outvars: list[Var | Literal] = [read(a, env) for a in jaxpr.outvars]
    return Jaxpr(jaxpr.constvars, jaxpr.invars, outvars, eqns, jaxpr.names, jaxpr.name)


def silent(jaxpr: Jaxpr) -> Jaxpr:
    """The program without what it only prints, tells or checks, for computing the same values again; remembered.

    Effects that give values stay: nothing else gives these.
    """
    if not jaxpr.effects:
        return jaxpr
    found = jaxpr.derived.get("silent")
    if found is None:
        eqns = [_silent_equation(eqn) if eqn.effects else eqn for eqn in jaxpr.eqns if eqn.outvars or not eqn.effects]
        found = intern(Jaxpr(jaxpr.constvars, jaxpr.invars, jaxpr.outvars, eqns, jaxpr.names, jaxpr.name))
        jaxpr.derived["silent"] = found
    return found


def _silent_equation(eqn: Equation) -> Equation:
    def changed(value: Any) -> Any:
        if isinstance(value, Jaxpr):
            return silent(value)
        if isinstance(value, tuple) and any(isinstance(v, Jaxpr) for v in value):
            parts = [changed(v) for v in value]
            return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
        return value

    params = {name: changed(value) for name, value in eqn.params.items()}
    return eqn.replace(params=params, effects=eqn.primitive.effects(params))


def finds(jaxpr: Jaxpr, key: Any, wanted: Callable[[Equation], bool]) -> bool:
    """Whether an equation is wanted, of the program or of one that it holds; remembered by the key.

    Parameters
    ----------
    jaxpr : Jaxpr
    key : hashable
        Of the question.
    wanted : callable

    Returns
    -------
    bool
    """
    found = jaxpr.derived.get(key)
    if found is None:
        found = jaxpr.derived[key] = any(
            wanted(eqn) or any(finds(inner, key, wanted) for inner in inner_jaxprs(eqn.params)) for eqn in jaxpr.eqns
        )
    return bool(found)
