# SPDX-License-Identifier: Apache-2.0
"""Texts with fields that are filled in when a program runs, looked at when it is traced."""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import Any

import numpy as np

from purax import errors
from purax.core.source import here

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
        positional = [i for i in range(len(args)) if i not in used_args]
        named = [name for name in kwargs if name not in used_args]
        if positional:
            raise ValueError(f"Unused positional arguments to `{self.name}`: {positional}")
        if named:
            raise ValueError(f"Unused keyword arguments to `{self.name}`: {named}")


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
    TextFieldError
        A field names an argument that is not there, an argument is named by no field, or the text is malformed.
    """
    try:
        _Fields(name).vformat(text, args, kwargs)
    except (LookupError, ValueError) as error:
        given = [f"{len(args)} positional arguments"] if args else []
        given += [f"the keywords {', '.join(kwargs)}"] if kwargs else []
        raise errors.TextFieldError(
            errors.explain(
                f"{name} got the text {text!r} with {' and '.join(given) or 'no arguments'}, at {here()}",
                _wrong(error),
                "give each argument a field, and each field an argument. You may be passing an f-string, whose values are filled in "
                "before the program runs: pass a plain text with fields",
            )
        ) from None


def _wrong(error: Exception) -> str:
    match error:
        case KeyError():
            return f"there is no argument for the field {{{error.args[0]}}}"
        case IndexError():
            return "it has more fields without a name than there are positional arguments"
    return str(error)


def formatted(text: str, args: Sequence[Any], kwargs: dict[str, Any]) -> str:
    """The text with its fields filled in.

    Parameters
    ----------
    text : str
    args, kwargs : arguments of `text.format`

    Returns
    -------
    str

    Raises
    ------
    TextFieldError
        A value cannot be written as its field says.
    """
    try:
        return _formatter.vformat(text, args, kwargs)
    except (LookupError, ValueError, TypeError, AttributeError) as error:
        raise errors.TextFieldError(
            f"the text {text!r} cannot be filled in: {_wrong(error)}. Write the field for such a value."
        ) from error
