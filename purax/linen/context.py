# SPDX-License-Identifier: Apache-2.0
"""What is running in this thread: the stack of modules, filters of captured outputs, recorded calls, interceptors."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

__all__ = [
    "Call",
    "InterceptorContext",
    "disable_named_call",
    "enable_named_call",
    "intercept_methods",
    "intercepted",
    "override_named_call",
    "running",
]


@dataclass(frozen=True)
class Call:
    """One call of a module's method, for the summary table.

    `path` and `function` say which; `args`, `kwargs` and `outputs` are trees of shapes; `module` is an unbound copy; `rngs` are
    the names of the random streams.
    """

    index: int
    path: tuple[str, ...]
    module: Any
    function: Callable[..., Any]
    args: Any
    kwargs: Any
    outputs: Any
    rngs: tuple[str, ...]


class _Running(threading.local):
    def __init__(self) -> None:
        self.modules: list[Any] = [None]
        self.captures: list[Any] = []
        self.calls: list[list[Call | None]] = []
        self.interceptors: list[Callable[..., Any]] = []


running = _Running()


class _NamedCalls:
    """Whether operations of a module carry its name in programs and profiles; one setting for all threads."""

    enabled = False


named_calls = _NamedCalls()


def enable_named_call() -> None:
    """Put the names of modules on the operations that they trace."""
    named_calls.enabled = True


def disable_named_call() -> None:
    """Stop putting the names of modules on operations."""
    named_calls.enabled = False


@contextmanager
def override_named_call(enable: bool = True) -> Iterator[None]:
    """Enable or disable the names of modules on operations within the block.

    Yields
    ------
    None
    """
    before = named_calls.enabled
    named_calls.enabled = enable
    try:
        yield
    finally:
        named_calls.enabled = before


@dataclass(frozen=True)
class InterceptorContext:
    """What an interceptor is told about the call.

    Attributes
    ----------
    module : Module
        Whose method is called.
    method_name : str
        Its name.
    orig_method : callable
        The method, bound; calling it skips the other interceptors.
    """

    module: Any
    method_name: str
    orig_method: Callable[..., Any]


@contextmanager
def intercept_methods(interceptor: Callable[..., Any]) -> Iterator[None]:
    """Let a function see, change or replace every method call of modules within the block.

    Parameters
    ----------
    interceptor : callable
        `interceptor(next_function, args, kwargs, context)` returns the result of the call; it may call
        `next_function(*args, **kwargs)`. The interceptor of the outer block runs first.

    Yields
    ------
    None
    """
    running.interceptors.append(interceptor)
    try:
        yield
    finally:
        running.interceptors.pop()


def intercepted(method: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return `method(module, *args, **kwargs)`, a method of this `name`, with the current interceptors around it."""

    def call(module: Any, *args: Any, **kwargs: Any) -> Any:
        function = functools.partial(method, module)
        context = InterceptorContext(module, name, function)
        for interceptor in reversed(running.interceptors):
            function = functools.partial(_intercept, interceptor, function, context)
        return function(*args, **kwargs)

    return call


def _intercept(interceptor: Any, function: Any, context: InterceptorContext, *args: Any, **kwargs: Any) -> Any:
    return interceptor(function, args, kwargs, context)
