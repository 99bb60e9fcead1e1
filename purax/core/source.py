# SPDX-License-Identifier: Apache-2.0
"""Where in the user's code an operation was called, and in which named scopes and transformations.

A source is kept as `(code, lasti)`: finding it costs about 0.1 us; the line number is worked out only when somebody asks.
Where names are open, they follow as a third part.
"""

from __future__ import annotations

import os
import sys
from contextvars import ContextVar
from types import CodeType, FrameType
from typing import Any

from purax.core.name_stack import NOTHING, NameStack

__all__ = [
    "Source",
    "current_source",
    "format_source",
    "here",
    "names_here",
    "names_of",
    "opened",
    "source_line",
    "where",
    "within",
]  # fmt: skip

Source = tuple[CodeType, int] | tuple[CodeType, int, NameStack]
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_OURS: dict[CodeType, bool] = {}
_LINES: dict[tuple[CodeType, int], int] = {}

# One variable, since every recorded operation reads it: None where no name is open; a NameStack; or a whole source, which all
# operations are attributed to that are derived from one of the user's (the rest of a derivative rule, a transpose, the equations
# of a program that is evaluated).
where: ContextVar[Any] = ContextVar("where", default=None)


def is_ours(code: CodeType) -> bool:
    """Whether code is part of purax."""
    ours = _OURS[code] = code.co_filename.startswith(_PACKAGE)
    return ours


def current_source(depth: int = 2) -> Source | None:
    """The source that operations are attributed to, or the innermost frame outside purax, looking from `depth` frames up."""
    known = where.get()
    if type(known) is tuple:
        return known
    frame: FrameType | None = sys._getframe(depth)
    while frame is not None:
        code = frame.f_code
        ours = _OURS.get(code)
        if ours is None:
            ours = is_ours(code)
        if not ours:
            return (code, frame.f_lasti) if known is None else (code, frame.f_lasti, known)
        frame = frame.f_back
    return None


def names_here() -> NameStack:
    """The names that are open."""
    known = where.get()
    if known is None:
        return NOTHING
    return names_of(known) if type(known) is tuple else known


class opened:
    """Context in which one more name is open: a scope (a string) or a transformation (a Transform); None opens nothing."""

    __slots__ = ("_name", "_token")

    def __init__(self, name: Any) -> None:
        self._name = name

    def __enter__(self) -> None:
        name = self._name
        if name is None:
            return
        known = where.get()
        if type(known) is tuple:
            self._token = where.set((known[0], known[1], names_of(known).extend(name)))
        else:
            self._token = where.set(NameStack((name,)) if known is None else known.extend(name))

    def __exit__(self, *_: object) -> None:
        if self._name is not None:
            where.reset(self._token)


def within(names: NameStack, source: Any) -> Any:
    """What `where` is set to for an operation with `source`, a part of something in `names`: a source (a tuple), a NameStack or None."""
    if not names:
        return source
    return names if source is None else (source[0], source[1], names_of(source).under(names))


def names_of(source: Any) -> NameStack:
    """The names that a source lies in."""
    return source[2] if source is not None and len(source) == 3 else NOTHING


def source_line(source: Source) -> int:
    """Line number of a source in its file."""
    code, lasti = source[:2]
    line = _LINES.get((code, lasti))
    if line is None:
        line = code.co_firstlineno
        for start, end, number in code.co_lines():
            if start <= lasti < end and number is not None:
                line = number
                break
        _LINES[code, lasti] = line
    return line


def format_source(source: Any) -> str:
    """`file.py:12 (function)`, or a word that says it is unknown."""
    if source is None:
        return "an unknown line"
    code = source[0]
    return f"{code.co_filename}:{source_line(source)} ({code.co_name})"


def here() -> str:
    """The user's line, for messages of functions that fail before they bind a primitive."""
    return format_source(current_source(2))
