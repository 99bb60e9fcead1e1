# SPDX-License-Identifier: Apache-2.0
"""Texts with fields that are filled in when a program runs, looked at when it is traced."""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["check_fields", "formatted"]


class _Formatter(string.Formatter):
    def format_field(self, value: Any, format_spec: str) -> str:
        """One value; a scalar array takes the format of its element."""
        if isinstance(value, np.ndarray) and value.ndim == 0 and format_spec:
            value = value.item()
        return str(super().format_field(value, format_spec))


class _Fields(string.Formatter):
    """Looks at fields and arguments alone: values are not known yet."""

    def __init__(self, name: str) -> None:
        self.name = name

    def format_field(self, value: Any, format_spec: str) -> str:
        """Nothing."""
        return ""

    def check_unused_args(self, used_args: Any, args: Sequence[Any], kwargs: Any) -> None:
        """Raise ValueError for arguments that no field names."""
        hint = "You may be passing an f-string, whose values are filled in before the program runs: pass a plain text with fields."
        positional = [i for i in range(len(args)) if i not in used_args]
        named = [name for name in kwargs if name not in used_args]
        if positional:
            raise ValueError(f"Unused positional arguments to `{self.name}`: {positional}. {hint}")
        if named:
            raise ValueError(f"Unused keyword arguments to `{self.name}`: {named}. {hint}")


_formatter = _Formatter()


def check_fields(name: str, text: str, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """Check that fields and arguments fit.

    Parameters
    ----------
    name : str
        For the message.
    text : str
    args, kwargs : arguments of `text.format`

    Raises
    ------
    KeyError, IndexError
        A field names an argument that is not there.
    ValueError
        An argument is named by no field, or the text is malformed.
    """
    _Fields(name).vformat(text, args, kwargs)


def formatted(text: str, args: Sequence[Any], kwargs: dict[str, Any]) -> str:
    """The text with its fields filled in.

    Parameters
    ----------
    text : str
    args, kwargs : arguments of `text.format`

    Returns
    -------
    str
    """
    return _formatter.vformat(text, args, kwargs)
