# SPDX-License-Identifier: Apache-2.0
"""The names of `jax.custom_batching`."""

from purax.control.custom_vmap import custom_vmap as custom_vmap
from purax.control.custom_vmap import sequential_vmap as sequential_vmap

__all__ = ["custom_vmap", "sequential_vmap"]
