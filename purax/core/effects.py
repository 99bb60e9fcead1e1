# SPDX-License-Identifier: Apache-2.0
"""What programs do beside computing their results.

`Primitive.effects` names the effects of one application; a jaxpr has those of its equations. No pass removes, doubles or merges
an equation with effects. Equations with ordered effects happen in the order of the program: `core/tokens.py` sees to that.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = ["CHECK", "DEBUG", "IO", "ORDERED_DEBUG", "ORDERED_IO", "Effect", "any_ordered"]


class Effect:
    """One kind of effect; `ordered` effects of all kinds keep the order of the program."""

    __slots__ = ("name", "ordered")

    def __init__(self, name: str, ordered: bool = False) -> None:
        self.name = name
        self.ordered = ordered

    def __repr__(self) -> str:
        return self.name


IO = Effect("IO")
ORDERED_IO = Effect("ordered IO", ordered=True)
DEBUG = Effect("debug")
ORDERED_DEBUG = Effect("ordered debug", ordered=True)
CHECK = Effect("check")


def any_ordered(effects: Iterable[Any]) -> bool:
    """Whether one of the effects is ordered."""
    return any(effect.ordered for effect in effects)
