# SPDX-License-Identifier: Apache-2.0
"""A progress bar that redraws itself on a terminal, and prints a few plain lines anywhere else."""

from __future__ import annotations

import shutil
import sys
import time
from types import TracebackType
from typing import Any, Self, TextIO

__all__ = ["Progress"]

_REDRAW_SECONDS = 0.1
_PLAIN_LINES = 10
_BAR_WIDTH = 24


class Progress:
    """Show how far a piece of work has come.

    Parameters
    ----------
    total : int
        How many steps there are.
    label : str
        What the work is called.
    stream : text stream, optional
        Where to write; standard error if left out, so that results on standard output stay clean.
    enabled : bool
        False writes nothing.

    Examples
    --------
    >>> import io
    >>> out = io.StringIO()
    >>> with Progress(2, "work", out) as bar:
    ...     bar.update(loss=0.5)
    ...     bar.update(loss=0.25)
    >>> out.getvalue().splitlines()[-1].startswith("work 100 %")
    True
    """

    def __init__(self, total: int, label: str, stream: TextIO | None = None, enabled: bool = True) -> None:
        self._total = total
        self._label = label
        self._stream = sys.stderr if stream is None else stream
        self._enabled = enabled
        self._terminal = bool(getattr(self._stream, "isatty", lambda: False)())
        self._done = 0
        self._values: dict[str, Any] = {}
        self._started = time.monotonic()
        self._drawn_at = float("-inf")
        self._drawn_share = 0
        self._width = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def update(self, steps: int = 1, **values: Any) -> None:
        """Move on.

        Parameters
        ----------
        steps : int
            How many steps were done.
        **values
            Numbers or words to show at the end of the line; they stay until changed.
        """
        self._done += steps
        self._values.update(values)
        if not steps and not values:
            return
        if not self._enabled:
            return
        if self._terminal:
            now = time.monotonic()
            if now - self._drawn_at >= _REDRAW_SECONDS:
                self._drawn_at = now
                self._redraw()
        else:
            share = self._done * _PLAIN_LINES // max(self._total, 1)
            if share > self._drawn_share:
                self._drawn_share = share
                self._stream.write(self._line(bar=False) + "\n")
                self._stream.flush()

    def close(self) -> None:
        """Draw the last state, and leave the line."""
        if self._enabled and self._terminal:
            self._redraw()
            self._stream.write("\n")
            self._stream.flush()
        self._enabled = False

    def _redraw(self) -> None:
        columns = shutil.get_terminal_size().columns
        line = self._line(bar=True)[: columns - 1]
        self._stream.write("\r" + line.ljust(self._width))
        self._stream.flush()
        self._width = len(line)

    def _line(self, bar: bool) -> str:
        share = min(self._done / self._total, 1.0) if self._total else 1.0
        elapsed = time.monotonic() - self._started
        parts = [f"{self._label} {round(100 * share):3d} %"]
        if bar:
            filled = int(share * _BAR_WIDTH)
            parts.append("[" + "#" * filled + "." * (_BAR_WIDTH - filled) + "]")
        parts.append(f"{self._done}/{self._total}")
        remaining = elapsed / share - elapsed if share else 0.0
        parts.append(f"{elapsed:.1f} s, {remaining:.1f} s left" if self._done < self._total else f"{elapsed:.1f} s")
        parts += [
            f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
            for name, value in self._values.items()
        ]
        return "  ".join(parts)
