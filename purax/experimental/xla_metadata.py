# SPDX-License-Identifier: Apache-2.0
"""Attributes that XLA's passes read, on the operations of a program."""

from __future__ import annotations

import functools
from types import TracebackType
from typing import Any

from purax import config, tree
from purax.core.name_stack import Metadata
from purax.core.source import opened
from purax.primitives.metadata import xla_metadata_value_p

__all__ = ["set_xla_metadata"]


def set_xla_metadata(x: Any = None, **attributes: Any) -> Any:
    """Put attributes on operations: `mhlo.frontend_attributes` in StableHLO.

    Parameters
    ----------
    x : pytree of arrays, optional
        Mark the operations that gave these values.
    **attributes : object
        Values are written as text, True and False in small letters; None takes away an attribute of a context around.

    Returns
    -------
    pytree or context
        `x` as it is; without it a context, also a decorator, within which all operations that are traced get the attributes.

    Examples
    --------
    >>> import purax
    >>> @purax.jit
    ... def f(x):
    ...     with set_xla_metadata(my_pass="skip"):
    ...         return x + 1
    >>> 'my_pass = "skip"' in f.lower(1.0).as_text()
    True
    """
    if x is None:
        return _Context(attributes)
    items = tuple(sorted(attributes.items()))
    return tree.map(lambda leaf: xla_metadata_value_p.bind1(leaf, xla_metadata_kvs=items), x)


class _Context:
    """Within it operations get attributes: those recorded now by the open names, those of programs staged now by the setting."""

    __slots__ = ("_attributes", "_open")

    def __init__(self, attributes: dict[str, Any]) -> None:
        self._attributes = attributes
        self._open: list[Any] = []

    def __enter__(self) -> None:
        items = tuple(sorted(self._attributes.items()))
        around = dict(config.current().xla_metadata)
        merged = {k: v for k, v in {**around, **self._attributes}.items() if v is not None}
        entered = (config.Scope("xla_metadata", tuple(sorted(merged.items()))), opened(Metadata(items)))
        for context in entered:
            context.__enter__()
        self._open.append(entered)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for context in reversed(self._open.pop()):
            context.__exit__(kind, error, traceback)

    def __call__(self, fun: Any) -> _Decorated:
        """`fun`, and the methods of a jitted function, within this context."""
        return _Decorated(fun, self._attributes)


class _Decorated:
    """A function that is called, lowered and so on within a context."""

    def __init__(self, fun: Any, attributes: dict[str, Any]) -> None:
        self._fun, self._attributes = fun, attributes
        functools.update_wrapper(self, fun, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with _Context(self._attributes):
            return self._fun(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._fun, name)
        return _Decorated(found, self._attributes) if callable(found) else found
