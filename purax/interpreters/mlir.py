# SPDX-License-Identifier: Apache-2.0
"""The names of `jax.interpreters.mlir` that purax has: lowering by functions of arrays."""

from purax.transforms.defined import lower_fun, register_lowering

__all__ = ["lower_fun", "register_lowering"]
