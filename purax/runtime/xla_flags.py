# SPDX-License-Identifier: Apache-2.0
"""The flags of XLA that a user sets by the environment variable XLA_FLAGS, checked before a backend starts."""

from __future__ import annotations

import os
import pathlib
import re
import shlex

from purax import errors
from purax.lazy import lazy

__all__ = ["check"]

_jaxlib = lazy("purax.runtime._jaxlib")


def check() -> None:
    """Check the environment variable XLA_FLAGS for what XLA would end the process for.

    Raises
    ------
    SettingValueError
        A flag that it does not know, or a word that is no flag.
    """
    text = os.environ.get("XLA_FLAGS", "").strip()
    if text and not text.startswith("-"):  # the name of a file that holds the flags
        try:
            text = pathlib.Path(text).read_text(encoding="utf-8")
        except OSError as error:
            why = f"It does not begin with '-', so XLA takes it for the name of a file with flags ({error.strerror})."
            raise errors.SettingValueError(_explain(text, why)) from None
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise errors.SettingValueError(_explain(text, f"It cannot be cut into words: {error}.")) from None
    for word in words:
        name, _, value = word.partition("=")
        if not name.startswith("--"):
            raise errors.SettingValueError(_explain(word, "XLA's flags are written --name=value."))
        if not _jaxlib.has_flag(name.removeprefix("--")):
            raise errors.SettingValueError(_explain(name, f"jaxlib {_jaxlib.VERSION} has no such flag."))
        if name == "--xla_force_host_platform_device_count" and not re.fullmatch("0*[1-9][0-9]*", value):
            raise errors.SettingValueError(_explain(word, "The number of devices is a positive integer."))


def _explain(word: str, why: str) -> str:
    return errors.explain(
        f"the environment variable XLA_FLAGS holds {word!r}.", why, "correct the name or leave it out."
    )
