# SPDX-License-Identifier: Apache-2.0
"""What programs do beside computing their results.

`Primitive.effects` names the effects of one application; a jaxpr has those of its equations. No pass removes, doubles or merges
an equation with effects. Ordered effects happen in the order of the program: `core/tokens.py` sees to that.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = ["CHECK", "DEBUG", "IO", "ORDERED_DEBUG", "ORDERED_IO", "Effect", "any_chained", "any_ordered"]


class Effect:
    """One kind of effect.

    Attributes
    ----------
    ordered : bool
        Effects of all kinds that are ordered keep the order of the program, whatever they are in.
    chained : bool
        The same, where it can be had: prints are read from top to bottom.
    """

    __slots__ = ("chained", "name", "ordered")

    def __init__(self, name: str, ordered: bool = False, chained: bool = False) -> None:
        self.name = name
        self.ordered = ordered
        self.chained = chained or ordered

    def __repr__(self) -> str:
        return self.name


IO = Effect("IO")
ORDERED_IO = Effect("ordered IO", ordered=True)
DEBUG = Effect("debug", chained=True)
ORDERED_DEBUG = Effect("ordered debug", ordered=True)
CHECK = Effect("check")


def any_chained(effects: Iterable[Any]) -> bool:
    """Whether one of the effects is kept in order."""
    return any(effect.chained for effect in effects)


def any_ordered(effects: Iterable[Any]) -> bool:
    """Whether one of the effects must be kept in order."""
    return any(effect.ordered for effect in effects)
