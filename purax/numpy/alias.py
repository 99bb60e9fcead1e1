# SPDX-License-Identifier: Apache-2.0
"""Second names of functions."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar, cast

__all__ = ["alias"]

_Function = TypeVar("_Function", bound=Callable[..., Any])


def alias(function: _Function, name: str) -> _Function:
    """The same function, shapes and dtypes of results included, under another name, which help, `repr`, pickles and tables keyed on names see; calls cost the same."""
    plain = cast(FunctionType, function)
    found = FunctionType(plain.__code__, plain.__globals__, name, plain.__defaults__, plain.__closure__)
    functools.update_wrapper(found, plain)
    del found.__wrapped__  # type: ignore[attr-defined]  # not a wrapper: it has the signature itself
    found.__kwdefaults__ = plain.__kwdefaults__
    found.__name__ = found.__qualname__ = name
    found.__doc__ = f"Alias of `{plain.__name__}`."
    return cast(_Function, found)
