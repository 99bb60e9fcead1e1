# SPDX-License-Identifier: Apache-2.0
"""Tools for looking into programs, under the names of `jax.debug`."""

from purax.control.debugging import debug_callback as callback
from purax.control.debugging import debug_log as log
from purax.control.debugging import debug_print as print
from purax.control.sharding_view import inspect_array_sharding as inspect_array_sharding
from purax.control.sharding_view import visualize_array_sharding as visualize_array_sharding
from purax.control.sharding_view import visualize_sharding as visualize_sharding
from purax.control.stopping import debug_breakpoint as breakpoint

__all__ = [
    "breakpoint",
    "callback",
    "inspect_array_sharding",
    "log",
    "print",
    "visualize_array_sharding",
    "visualize_sharding",
]
