# SPDX-License-Identifier: Apache-2.0
"""Printing of jaxprs: one line an equation, inner programs indented, types on definitions.

``{ lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) }``
"""

from __future__ import annotations

from itertools import count
from typing import Any

import numpy as np

from purax.core.ir import ClosedJaxpr, Jaxpr, Literal, Var

__all__ = ["pretty"]


def pretty(jaxpr: Jaxpr) -> str:
    """The program as text."""
    return "\n".join(_Printer().jaxpr(jaxpr, ""))


class _Printer:
    def __init__(self) -> None:
        self.names: dict[Var, str] = {}
        self.counter = count()

    def name(self, var: Var) -> str:
        found = self.names.get(var)
        if found is None:
            number, letters = next(self.counter), ""
            while True:
                number, digit = divmod(number, 26)
                letters = chr(97 + digit) + letters
                if not number:
                    break
                number -= 1
            found = self.names[var] = letters
        return found

    def binder(self, var: Var) -> str:
        return f"{self.name(var)}:{var.aval.str_short(short_dtypes=True)}"

    def atom(self, atom: Any) -> str:
        if isinstance(atom, Literal):
            return f"{np.asarray(atom.val)}:{atom.aval.str_short(short_dtypes=True)}"
        return self.name(atom)

    def jaxpr(self, jaxpr: Jaxpr, indent: str) -> list[str]:
        consts = " ".join(self.binder(v) for v in jaxpr.constvars)
        inputs = " ".join(self.binder(v) for v in jaxpr.invars)
        lines = []
        for eqn in jaxpr.eqns:
            lines += self.equation(eqn, indent + "    ")
        outs = ", ".join(self.atom(a) for a in jaxpr.outvars) + ("," if len(jaxpr.outvars) == 1 else "")
        head = f"{{ lambda {consts}; {inputs}. let"
        return [head, *lines, f"{indent}  in ({outs}) }}"]

    def equation(self, eqn: Any, indent: str) -> list[str]:
        outs = " ".join(self.binder(v) for v in eqn.outvars)
        ins = " ".join(self.atom(a) for a in eqn.invars)
        plain: list[tuple[str, Any]] = []
        programs: list[tuple[str, Any]] = []
        for key, value in eqn.params.items():
            inner = value.jaxpr if isinstance(value, ClosedJaxpr) else value
            several = isinstance(inner, tuple) and any(isinstance(v, Jaxpr) for v in inner)
            (programs if several or isinstance(inner, Jaxpr) else plain).append((key, inner))
        text = " ".join(f"{k}={self.value(v)}" for k, v in plain)
        if not programs:
            return [f"{indent}{outs} = {eqn.primitive.name}{f'[{text}]' if text else ''} {ins}".rstrip()]
        lines = [f"{indent}{outs} = {eqn.primitive.name}[{text}"]
        for key, inner in programs:
            opening, closing = ("(", ")") if isinstance(inner, tuple) else ("", "")
            for i, one in enumerate(inner if isinstance(inner, tuple) else (inner,)):
                body = self.jaxpr(one, indent + "  ")
                lines += [f"{indent}  {'' if i else f'{key}={opening}'}{body[0]}", *body[1:]]
            lines[-1] += closing
        return [*lines, f"{indent}] {ins}".rstrip()]

    def value(self, value: Any) -> str:
        if callable(value) and hasattr(value, "__name__"):
            return str(value.__name__)
        return str(value)
