# SPDX-License-Identifier: Apache-2.0
"""`debug.breakpoint`: stop a program and look at the values that the user's functions had there."""

from __future__ import annotations

import cmd
import linecache
import pprint
import sys
import traceback
from collections.abc import Iterator, Sequence
from types import CodeType, FrameType
from typing import IO, Any, NamedTuple

from purax import tree
from purax.control.callback import look
from purax.core.source import is_ours
from purax.core.trace import Tracer, current

__all__ = ["debug_breakpoint"]


class _Place(NamedTuple):
    """Where a function of the user's stood when the program was traced."""

    code: CodeType
    line: int

    def last(self) -> int:
        """The last line of the function, those defined in it included."""
        lines = [line for *_, line in self.code.co_lines() if line is not None]
        inner = [_Place(c, 0).last() for c in self.code.co_consts if isinstance(c, CodeType)]
        return max([*lines, *inner])

    def text(self) -> str:
        """As in a traceback."""
        return f'File "{self.code.co_filename}", line {self.line}, in {self.code.co_name}'


def debug_breakpoint(
    *, backend: str | None = None, filter_frames: bool = True, num_frames: int | None = None, ordered: bool = False,
    token: Any = None, stdin: IO[str] | None = None, stdout: IO[str] | None = None,
) -> None:  # fmt: skip
    """Stop here when the program runs, and ask what to do; `help` lists the commands.

    Parameters
    ----------
    backend, filter_frames, token
        No effect: there is one debugger, for the terminal, and it shows the frames of the user alone.
    num_frames : int, optional
        How many frames it knows, from the innermost; default: all.
    ordered : bool
        Keep the order that ordered effects have in the program.
    stdin, stdout : text files, optional
        In place of the terminal.

    Notes
    -----
    A compiled program has no Python frames: the debugger shows the places and local variables that there were when the program was
    traced, with the values of the run. It cannot step.
    """
    del backend, filter_frames, token
    places, others, arrays = [], [], []
    for frame in list(_frames(sys._getframe(1)))[:num_frames]:
        places.append(_Place(frame.f_code, frame.f_lineno))
        others.append(dict(frame.f_locals))
        arrays.append({name: value for name, value in frame.f_locals.items() if _holds_arrays(value)})

    def stop(arrays: Sequence[dict[str, Any]]) -> None:
        variables = [{**a, **b} for a, b in zip(others, arrays, strict=True)]
        _Debugger(places, variables, stdin, stdout).cmdloop()

    look(stop, (arrays,), {}, ordered, False, "debug.breakpoint")


def _frames(frame: FrameType | None) -> Iterator[FrameType]:
    """Frames outside of purax, innermost first."""
    while frame is not None:
        if not is_ours(frame.f_code):
            yield frame
        frame = frame.f_back


_CONTAINERS = (tuple, list, dict)


def _holds_arrays(value: Any) -> bool:
    """Whether a variable is an array or a plain container of arrays, none of them of a transformation that has ended."""
    try:
        leaves = tree.leaves(value, is_leaf=lambda x: not isinstance(x, _CONTAINERS))
    except (TypeError, ValueError):  # a dictionary whose keys have no order is no pytree
        return False
    return bool(leaves) and all(hasattr(leaf, "aval") and _lives(leaf) for leaf in leaves)


def _lives(x: Any) -> bool:
    trace = current.get()
    return not isinstance(x, Tracer) or (trace is not None and trace.encloses(x._trace))


class _Debugger(cmd.Cmd):
    """Commands on the frames of a stop; names and output as in `pdb`."""

    prompt = "(jdb) "

    def __init__(
        self,
        places: Sequence[_Place],
        variables: Sequence[dict[str, Any]],
        stdin: IO[str] | None,
        stdout: IO[str] | None,
    ) -> None:
        super().__init__(stdin=stdin, stdout=stdout)
        self.use_rawinput = stdin is None
        self.places, self.variables, self.index = places, variables, 0
        self.intro = "Entering jdb:"

    def _say(self, text: str) -> None:
        self.stdout.write(text + "\n")

    def _value(self, expression: str) -> tuple[bool, Any]:
        names = {**self.places_globals(), **self.variables[self.index]}
        try:
            return True, eval(expression, names)
        except Exception as error:
            self._say("*** " + "".join(traceback.format_exception_only(error)).rstrip())
            return False, None

    def places_globals(self) -> dict[str, Any]:
        """Global names of the module of the frame."""
        filename = self.places[self.index].code.co_filename
        module = next((m for m in list(sys.modules.values()) if getattr(m, "__file__", None) == filename), None)
        return vars(module) if module is not None else {}

    def default(self, line: str) -> None:
        """Evaluate what is no command."""
        self.do_p(line)

    def emptyline(self) -> bool:
        """Nothing."""
        return False

    def do_p(self, arg: str) -> None:
        """p EXPRESSION: print a value."""
        known, value = self._value(arg)
        if known:
            self._say(repr(value))

    def do_pp(self, arg: str) -> None:
        """pp EXPRESSION: print a value over several lines."""
        known, value = self._value(arg)
        if known:
            self._say(pprint.pformat(value))

    def do_list(self, arg: str) -> None:
        """list: show the source of the function around the line."""
        del arg
        place = self.places[self.index]
        self._say(f"> {place.code.co_filename}({place.line})")
        for number in range(max(place.code.co_firstlineno, place.line - 5), min(place.last(), place.line + 5) + 1):
            text = linecache.getline(place.code.co_filename, number).rstrip()
            self._say(f"{'->' if number == place.line else '  '}  {text}")
        self._say("")

    def do_bt(self, arg: str) -> None:
        """bt: show all frames, outermost first."""
        del arg
        self._say("Traceback:")
        for place in reversed(self.places):
            self._say(f"  {place.text()}")

    def do_up(self, arg: str) -> None:
        """up: go to the caller."""
        del arg
        self._go(1, "At topmost frame.")

    def do_down(self, arg: str) -> None:
        """down: go to the called function."""
        del arg
        self._go(-1, "At bottommost frame.")

    def _go(self, by: int, at_end: str) -> None:
        if 0 <= self.index + by < len(self.places):
            self.index += by
            self.do_list("")
        else:
            self._say(at_end)

    def do_continue(self, arg: str) -> bool:
        """continue: let the program go on."""
        del arg
        return True

    def do_quit(self, arg: str) -> bool:
        """quit: end the program by SystemExit."""
        del arg
        raise SystemExit(0)

    do_l, do_u, do_d, do_c, do_q, do_EOF = do_list, do_up, do_down, do_continue, do_quit, do_quit
    do_backtrace = do_bt
