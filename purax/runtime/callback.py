# SPDX-License-Identifier: Apache-2.0
"""Python functions that compiled programs call, and what becomes of their exceptions.

XLA hands a callback read-only arrays of its own and turns an exception into a line of text. The exception itself is kept here
under a number that the text carries, so that whoever meets the text raises the exception as the cause. A program over several
devices is not left in the middle, where its other devices would wait for ever: there the callback gives zeros, the program
ends, and the exception is raised then.
"""

from __future__ import annotations

import itertools
import re
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from purax import errors
from purax.core.trace import current

__all__ = ["HostFunction", "failure_of"]

_kept: OrderedDict[int, tuple[BaseException, str]] = OrderedDict()
_KEPT_LIMIT = 64
_numbers = itertools.count(1)
_MARK = re.compile(r"<callback failure (\d+)>")


class _Failure(Exception):
    """Stands for the exception of a callback while XLA carries it as text."""


class HostFunction:
    """A flat Python function as a program calls it.

    Parameters
    ----------
    function : callable
        Arrays in, tuple of arrays out.
    outs : sequence of ShapedArray
    name : str
        What the user called, for messages.
    """

    __slots__ = ("failures", "function", "name", "outs", "survives")

    def __init__(self, function: Callable[..., Any], outs: Sequence[Any], name: str) -> None:
        self.function, self.outs, self.name = function, tuple(outs), name
        self.survives = False  # set by a program over several devices
        self.failures: list[BaseException] = []

    def __call__(self, *operands: Any) -> Any:
        """Called by XLA, in a thread of the program."""
        token = current.set(None)
        try:
            if self.failures:
                return self._zeros()
            return tuple(self.function(*[np.asarray(x) for x in operands]))
        except BaseException as error:
            if self.survives:
                self.failures.append(error)
                return self._zeros()
            raise _Failure(f"<callback failure {_keep(error, self.name)}> {type(error).__name__}: {error}") from error
        finally:
            current.reset(token)

    def _zeros(self) -> tuple[np.ndarray, ...]:
        return tuple([np.zeros(a.shape, a.dtype) for a in self.outs])

    def raise_failure(self) -> None:
        """Raise what the last run kept back."""
        if self.failures:
            error = self.failures[0]
            self.failures.clear()
            raised = _as_error(error, self.name)
            raise raised from (None if raised is error else error)


def _keep(error: BaseException, name: str) -> int:
    number = next(_numbers)
    _kept[number] = (error, name)
    while len(_kept) > _KEPT_LIMIT:
        _kept.popitem(last=False)
    return number


def failure_of(text: str) -> BaseException | None:
    """The error to raise for XLA's text about a callback that failed, with the callback's exception as its cause."""
    found = _MARK.search(text)
    error, name = _kept.get(int(found[1]), (None, "")) if found else (None, "")
    return None if error is None else _as_error(error, name)


def _as_error(error: BaseException, name: str) -> BaseException:
    """An interruption goes through as it is; what the user's function raised is wrapped."""
    if not isinstance(error, Exception):
        return error
    said = str(error).partition("\nWhy:")[0]  # the cause tells the rest
    raised = errors.JaxRuntimeError(
        errors.explain(
            f"{name} failed: {type(error).__name__}: {said}",
            "the function that the program called raised the exception shown above",
        )
    )
    raised.__cause__ = error
    return raised
