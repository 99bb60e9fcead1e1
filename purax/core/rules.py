# SPDX-License-Identifier: Apache-2.0
"""Open tables of rules for interpreters other than the transforms named in the primitive contract.

An interpreter that only some users need (cost models, sparsity, interval arithmetic) makes a `RuleTable` and registers rules
in it; neither the contract nor any primitive changes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from purax import errors

__all__ = ["RuleTable"]


class RuleTable:
    """Rules of one interpreter, by primitive."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._rules: dict[Any, Callable[..., Any]] = {}

    def register(self, primitive: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Decorator: the function is the rule of `primitive`."""

        def decorate(rule: Callable[..., Any]) -> Callable[..., Any]:
            self._rules[primitive] = rule
            return rule

        return decorate

    def __contains__(self, primitive: Any) -> bool:
        return primitive in self._rules

    def __getitem__(self, primitive: Any) -> Callable[..., Any]:
        try:
            return self._rules[primitive]
        except KeyError:
            raise errors.MissingRuleError(f"{primitive.name} has no {self.name} rule") from None
