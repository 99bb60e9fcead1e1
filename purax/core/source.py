# SPDX-License-Identifier: Apache-2.0
"""Where in the user's code an operation was called.

A source is kept as `(code, lasti)`: finding it costs about 0.1 us; the line number is worked out only when somebody asks.
"""

from __future__ import annotations

import os
import sys
from types import CodeType, FrameType
from typing import Any

__all__ = ["Source", "current_source", "format_source", "source_line"]

Source = tuple[CodeType, int]
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_OURS: dict[CodeType, bool] = {}
_LINES: dict[Source, int] = {}


def _is_ours(code: CodeType) -> bool:
    ours = _OURS[code] = code.co_filename.startswith(_PACKAGE)
    return ours


def current_source(depth: int = 2) -> Source | None:
    """The innermost frame outside purax, looking from `depth` frames up."""
    frame: FrameType | None = sys._getframe(depth)
    while frame is not None:
        code = frame.f_code
        ours = _OURS.get(code)
        if ours is None:
            ours = _is_ours(code)
        if not ours:
            return code, frame.f_lasti
        frame = frame.f_back
    return None


def source_line(source: Source) -> int:
    """Line number of a source in its file."""
    line = _LINES.get(source)
    if line is None:
        code, lasti = source
        line = code.co_firstlineno
        for start, end, number in code.co_lines():
            if start <= lasti < end and number is not None:
                line = number
                break
        _LINES[source] = line
    return line


def format_source(source: Any) -> str:
    """`file.py:12 (function)`, or a word that says it is unknown."""
    if source is None:
        return "an unknown line"
    code, _ = source
    return f"{code.co_filename}:{source_line(source)} ({code.co_name})"
