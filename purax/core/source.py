# SPDX-License-Identifier: Apache-2.0
"""Where in the user's code an operation was called.

A source is kept as `(code, lasti)`: finding it costs about 0.1 us; the line number is worked out only when somebody asks.
Within `named_scope` the names follow as a third part.
"""

from __future__ import annotations

import os
import sys
from contextvars import ContextVar
from types import CodeType, FrameType
from typing import Any

__all__ = ["Source", "current_source", "format_source", "here", "scope", "source_line", "source_scope"]

Source = tuple[CodeType, int] | tuple[CodeType, int, str]
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_OURS: dict[CodeType, bool] = {}
_LINES: dict[tuple[CodeType, int], int] = {}

# Names of the parts of a program that are being traced, each followed by a slash.
scope: ContextVar[str] = ContextVar("scope", default="")


# What operations derived from one of the user's (the rest of a derivative rule, a transpose) are attributed to.
pinned: ContextVar[Any] = ContextVar("pinned", default=None)


def is_ours(code: CodeType) -> bool:
    """Whether code is part of purax."""
    ours = _OURS[code] = code.co_filename.startswith(_PACKAGE)
    return ours


def current_source(depth: int = 2) -> Source | None:
    """The pinned source, or the innermost frame outside purax, looking from `depth` frames up."""
    known = pinned.get()
    if known is not None:
        return known
    frame: FrameType | None = sys._getframe(depth)
    while frame is not None:
        code = frame.f_code
        ours = _OURS.get(code)
        if ours is None:
            ours = is_ours(code)
        if not ours:
            names = scope.get()
            return (code, frame.f_lasti, names) if names else (code, frame.f_lasti)
        frame = frame.f_back
    return None


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


def source_scope(source: Any) -> str:
    """Names of the parts of the program that a source lies in."""
    return source[2] if source is not None and len(source) == 3 else ""


def format_source(source: Any) -> str:
    """`file.py:12 (function)`, or a word that says it is unknown."""
    if source is None:
        return "an unknown line"
    code = source[0]
    return f"{code.co_filename}:{source_line(source)} ({code.co_name})"


def here() -> str:
    """The user's line, for messages of functions that fail before they bind a primitive."""
    return format_source(current_source(2))
