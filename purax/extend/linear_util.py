# SPDX-License-Identifier: Apache-2.0
"""The names of `jax.extend.linear_util`."""

from purax.transforms.wrapped import (
    StoreException,
    WrappedFun,
    cache,
    merge_linear_aux,
    transformation,
    transformation2,
    transformation_with_aux,
    transformation_with_aux2,
    wrap_init,
)

__all__ = [
    "StoreException", "WrappedFun", "cache", "merge_linear_aux", "transformation", "transformation2", "transformation_with_aux",
    "transformation_with_aux2", "wrap_init",
]  # fmt: skip
