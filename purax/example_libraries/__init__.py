# SPDX-License-Identifier: Apache-2.0
"""Small libraries with the names that `jax.example_libraries` gives them; for new work see `purax.linen` and `purax.optim`."""

import importlib as _importlib
from typing import Any as _Any

__all__ = ["optimizers", "stax"]


def __getattr__(name: str) -> _Any:
    if name in __all__:
        return _importlib.import_module(f"purax.example_libraries.{name}")
    raise AttributeError(f"module 'purax.example_libraries' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
