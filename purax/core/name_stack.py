# SPDX-License-Identifier: Apache-2.0
"""The names that an operation lies in: scopes that the user opened, and the transformations between them."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any, NamedTuple

__all__ = ["JVP", "NOTHING", "TRANSPOSE", "VMAP", "Instead", "Metadata", "NameStack", "Transform"]


class Transform(NamedTuple):
    """A transformation among the names: it is written around the name that follows, ``vmap(layer)``."""

    name: str


class Instead(NamedTuple):
    """A name in the place of the scope right around it: of a part that lies beside the one that holds it."""

    name: str


class Metadata(NamedTuple):
    """Attributes among the names: pairs of name and value, for the operations within; no part of the text."""

    items: tuple[tuple[str, Any], ...]


class NameStack(tuple[Any, ...]):
    """Names from the outermost to the innermost: strings for scopes, Transforms for transformations, Metadata for attributes.

    As text, the names are joined by slashes.

    Examples
    --------
    >>> str(NameStack(["step", Transform("vmap"), Transform("jvp"), "layer", "dense"]))
    'step/vmap(jvp(layer))/dense'
    """

    __slots__ = ()

    def under(self, outer: NameStack) -> NameStack:
        """These names within others."""
        return _joined(outer, self) if outer else self

    def extend(self, *names: Any) -> NameStack:
        """The stack with more names inside."""
        return NameStack((*self, *names)) if names else self

    def below(self, depth: int) -> NameStack:
        """The stack without its `depth` outermost names."""
        return NameStack(self[depth:]) if depth else self

    @property
    def metadata(self) -> dict[str, Any]:
        """The attributes; inner ones win, and None takes one away."""
        return dict(_metadata(self))

    def __str__(self) -> str:
        return _text(self)

    def __repr__(self) -> str:
        return f"NameStack({_text(self)!r})"


NOTHING = NameStack()
JVP, TRANSPOSE, VMAP = Transform("jvp"), Transform("transpose"), Transform("vmap")


@functools.lru_cache(maxsize=4096)
def _joined(outer: Iterable[Any], inner: Iterable[Any]) -> NameStack:
    return NameStack((*outer, *inner))


@functools.lru_cache(maxsize=4096)
def _metadata(stack: NameStack) -> tuple[tuple[str, Any], ...]:
    found: dict[str, Any] = {}
    for element in stack:
        if isinstance(element, Metadata):
            found.update(element.items)
    return tuple([(k, v) for k, v in found.items() if v is not None])


@functools.lru_cache(maxsize=4096)
def _text(stack: NameStack) -> str:
    parts: list[str] = []  # the innermost first
    hidden = False
    for element in reversed(stack):
        if isinstance(element, str):
            if not hidden:
                parts.append(element)
            hidden = False
        elif isinstance(element, Instead):
            parts.append(element.name)
            hidden = True
        elif isinstance(element, Metadata):
            continue
        elif parts:
            parts[-1] = f"{element.name}({parts[-1]})"
        else:
            parts.append(f"{element.name}()")
    return "/".join(reversed(parts))
