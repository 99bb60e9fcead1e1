# SPDX-License-Identifier: Apache-2.0
"""The names of `jax.ffi`: compiled kernels of users, called from programs.

`ffi_lowering` and `build_ffi_lowering_function` are left out: they give objects of MLIR's bindings, and programs here are text;
`register_ffi_type_id` raises in JAX.
"""

from purax.control.foreign import ffi_call
from purax.runtime.ffi import (
    include_dir,
    pycapsule,
    register_ffi_target,
    register_ffi_target_as_batch_partitionable,
    register_ffi_type,
)

__all__ = [
    "ffi_call",
    "include_dir",
    "pycapsule",
    "register_ffi_target",
    "register_ffi_target_as_batch_partitionable",
    "register_ffi_type",
]
