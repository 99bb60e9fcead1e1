# SPDX-License-Identifier: Apache-2.0
"""Command-line tools around programs, with the names that `jax.tools` gives them. Each is loaded when it is first read."""

import importlib as _importlib
from typing import Any as _Any

__all__ = ["jax_to_ir"]


def __getattr__(name: str) -> _Any:
    if name in __all__:
        return _importlib.import_module(f"purax.tools.{name}")
    raise AttributeError(f"module 'purax.tools' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
