# SPDX-License-Identifier: Apache-2.0
"""SciPy's functions on purax arrays, with the names and signatures of `jax.scipy`. Each part is loaded when it is first read."""

import importlib as _importlib
from typing import Any as _Any

__all__ = [
    "cluster", "fft", "integrate", "interpolate", "linalg", "ndimage", "optimize", "signal", "sparse", "spatial", "special", "stats",
]  # fmt: skip


def __getattr__(name: str) -> _Any:
    if name in __all__:
        return _importlib.import_module(f"purax.scipy.{name}")
    raise AttributeError(f"module 'purax.scipy' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
