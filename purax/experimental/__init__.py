# SPDX-License-Identifier: Apache-2.0
"""Parts with the names that `jax.experimental` gives them. Each is loaded when it is first read."""

import importlib as _importlib
from typing import Any as _Any

from purax.control.callback import io_callback as io_callback

__all__ = [
    "checkify", "jet", "mesh_utils", "multihost_utils", "ode", "pjit", "random", "rnn", "scheduling_groups",
    "serialize_executable", "shard_alike", "sparse", "topologies", "xla_metadata",
]  # fmt: skip


def __getattr__(name: str) -> _Any:
    if name in __all__:
        return _importlib.import_module(f"purax.experimental.{name}")
    raise AttributeError(f"module 'purax.experimental' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
