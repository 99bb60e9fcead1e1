# SPDX-License-Identifier: Apache-2.0
"""Looking into running programs: `debug.callback`, `debug.print` and `debug.log`."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from purax.control.callback import look
from purax.control.formatting import check_fields, formatted
from purax.runtime.array import Array

__all__ = ["debug_callback", "debug_log", "debug_print"]


class _Print:
    """Formats its arguments and prints them, under the print options of NumPy at the time of the call."""

    __slots__ = ("format", "options")

    def __init__(self, text: str) -> None:
        self.format = text
        self.options = tuple(sorted((k, v) for k, v in np.get_printoptions().items() if v is None or type(v) in (int, float, bool, str)))  # fmt: skip

    def text(self, args: Sequence[Any], kwargs: dict[str, Any]) -> str:
        """The formatted text."""
        values = [_plain(a) for a in args]
        named = {name: _plain(a) for name, a in kwargs.items()}
        options: dict[str, Any] = dict(self.options)
        with np.printoptions(**options):
            return formatted(self.format, values, named)

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        sys.stdout.write(self.text(args, kwargs) + "\n")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and (self.format, self.options) == (other.format, other.options)

    def __hash__(self) -> int:
        return hash((type(self), self.format, self.options))


class _Log(_Print):
    """The same, given to a logger."""

    __slots__ = ("level",)

    def __init__(self, text: str, level: int) -> None:
        super().__init__(text)
        self.level = level

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        logging.getLogger("purax.debug").log(self.level, self.text(args, kwargs))


def _plain(value: Any) -> Any:
    return np.asarray(value) if type(value) is Array and isinstance(value.dtype, np.dtype) else value


def _options(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], known: Sequence[str]) -> None:
    """Refuse values beside options where only options are given."""
    extra = sorted(set(kwargs) - set(known))
    if args or extra:
        raise TypeError(
            f"{name} received unexpected arguments in the two-call form: only {', '.join(known)} may be given first, "
            f"got {len(args)} positional arguments and {extra}."
        )


def debug_callback(
    callback: Callable[..., Any] | None = None, *args: Any, ordered: bool = False, partitioned: bool = False, **kwargs: Any
) -> Any:  # fmt: skip
    """Call a Python function with values of a program; what it returns is ignored.

    The call happens once, in every transformation: under `vmap` once per lane, under derivatives with the values alone.

    Parameters
    ----------
    callback : callable, optional
        Left out, options are given first: ``debug.callback(ordered=True)(f, x)``.
    *args, **kwargs : pytrees
        Arrays, and static objects that go to the function as they are.
    ordered : bool
        Keep the order that ordered effects have in the program.
    partitioned : bool
        In a program over several devices each device calls with its own piece.

    Returns
    -------
    None, or without `callback` a callable that takes it

    Raises
    ------
    JaxRuntimeError
        The function raised; its exception is the cause. Outside of a program the exception itself is raised.
    """
    if callback is None:
        _options("debug_callback", args, kwargs, ("ordered", "partitioned"))
        return lambda function, *a, **k: _look("debug.callback", function, a, k, ordered, partitioned)
    return _look("debug.callback", callback, args, kwargs, ordered, partitioned)


def _look(name: str, callback: Any, args: Any, kwargs: Any, ordered: bool, partitioned: bool) -> None:
    if not callable(callback):
        raise TypeError(f"{name}: the first argument must be callable, got {callback!r}")
    look(callback, args, kwargs, ordered, partitioned, name)


def debug_print(
    fmt: str | None = None, *args: Any, ordered: bool = False, partitioned: bool = False, skip_format_check: bool = False,
    **kwargs: Any,
) -> Any:  # fmt: skip
    """Print values of a program.

    Parameters
    ----------
    fmt : str, optional
        As for `str.format`: ``debug.print("x: {x}, y: {:.2f}", y, x=x)``. Left out, options are given first.
    *args, **kwargs : pytrees
    ordered : bool
        Keep the order that ordered effects have in the program.
    partitioned : bool
        In a program over several devices each device prints its own piece.
    skip_format_check : bool
        Do not look at the fields before there are values.

    Returns
    -------
    None, or without `fmt` a callable that takes it

    Raises
    ------
    TextFieldError
        Fields and arguments do not fit.
    """
    if fmt is None:
        _options("debug_print", args, kwargs, ("ordered", "partitioned", "skip_format_check"))
        return lambda text, *a, **k: _print(text, a, k, ordered, partitioned, skip_format_check)
    return _print(fmt, args, kwargs, ordered, partitioned, skip_format_check)


def _print(fmt: str, args: Any, kwargs: Any, ordered: bool, partitioned: bool, skip: bool) -> None:
    if not skip:
        check_fields("purax.debug.print", fmt, args, kwargs)
    look(_Print(fmt), args, kwargs, ordered, partitioned, "debug.print")


def debug_log(fmt: str, *args: Any, level: int = logging.DEBUG, **kwargs: Any) -> None:
    """Give values of a program to the logger `purax.debug`; `fmt` and the values are those of `debug.print`.

    Parameters
    ----------
    fmt : str
    *args, **kwargs : pytrees
    level : int
        As in the module `logging`.
    """
    check_fields("purax.debug.log", fmt, args, kwargs)
    look(_Log(fmt, level), args, kwargs, True, False, "debug.log")
