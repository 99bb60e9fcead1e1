# SPDX-License-Identifier: Apache-2.0
"""The grammar of a jaxpr, checked: on in all tests (`config.enable_checks`), so an ill-formed program fails where it was made."""

from __future__ import annotations

from typing import Any

from purax import errors
from purax.core.ir import ClosedJaxpr, Jaxpr, Literal, Var
from purax.core.source import format_source

__all__ = ["inner_jaxprs", "verify"]


def inner_jaxprs(params: dict[str, Any]) -> list[Jaxpr]:
    """Jaxprs held by the parameters of an equation, directly or in tuples."""
    found: list[Jaxpr] = []
    for value in params.values():
        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, ClosedJaxpr):
                found.append(item.jaxpr)
            elif isinstance(item, Jaxpr):
                found.append(item)
    return found


def verify(jaxpr: Jaxpr) -> None:
    """Check that variables are defined once and before use, and that types are what `infer` says.

    Raises
    ------
    errors.VerifierError
        With the equation and the user's line.
    """
    defined: set[Var] = set()
    for var in (*jaxpr.constvars, *jaxpr.invars):
        _define(var, defined, "an input", None)
    for eqn in jaxpr.eqns:
        for atom in eqn.invars:
            _check_atom(atom, defined, eqn)
        want = eqn.primitive.outputs(tuple(a.aval for a in eqn.invars), eqn.params)
        have = tuple(v.aval for v in eqn.outvars)
        if want != have:
            raise errors.VerifierError(
                f"{eqn.primitive.name} at {format_source(eqn.source)}: outputs are typed {_types(have)} but infer gives {_types(want)}"
            )
        for inner in inner_jaxprs(eqn.params):
            verify(inner)
        for var in eqn.outvars:
            _define(var, defined, eqn.primitive.name, eqn.source)
    for atom in jaxpr.outvars:
        _check_atom(atom, defined, None)


def _types(avals: tuple[Any, ...]) -> str:
    return "(" + ", ".join(repr(a) for a in avals) + ")"


def _define(var: Any, defined: set[Var], what: str, source: Any) -> None:
    if type(var) is not Var or var in defined:
        raise errors.VerifierError(f"{var!r} is defined twice or is no variable: {what} at {format_source(source)}")
    defined.add(var)


def _check_atom(atom: Any, defined: set[Var], eqn: Any) -> None:
    if isinstance(atom, Literal) or atom in defined:
        return
    where = f"{eqn.primitive.name} at {format_source(eqn.source)}" if eqn is not None else "the outputs"
    raise errors.VerifierError(f"{where} uses {atom!r}, which is not defined before it")
