# SPDX-License-Identifier: Apache-2.0
"""Tools for looking into programs, under the names of `jax.debug`."""

from purax.control.debugging import debug_callback as callback
from purax.control.debugging import debug_log as log
from purax.control.debugging import debug_print as print

__all__ = ["callback", "log", "print"]
