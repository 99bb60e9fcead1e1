# SPDX-License-Identifier: Apache-2.0
"""Events under the names that JAX-style test suites count: set `listener` to a function of a name and details."""

from collections.abc import Callable
from typing import Any

from purax import events

__all__ = ["listener"]

listener: Callable[..., Any] | None = None


def _tell(event: events.Event) -> None:
    if listener is None:
        return
    match event:
        case events.Traced(name):
            listener("trace_to_jaxpr", name)
        case events.Lowered(name):
            listener("lower_jaxpr_to_module")
            listener("lower_jaxpr_to_fun", name)
        case events.Compiled():
            listener("pxla_cached_compilation")
            listener("compile_after_persistent_compilation_miss")
        case events.CacheHit():
            listener("pxla_cached_compilation")
        case events.Transferred(direction="host to device"):
            listener("batched_device_put")
        case events.CacheMiss(where="memory" | "plan"):
            listener("jit_cpp_cache_miss")


events.subscribe(_tell)
