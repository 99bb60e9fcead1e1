# SPDX-License-Identifier: Apache-2.0
"""Settings as context managers: `with enable_x64(True): ...` holds in one thread, for one block.

Each also decorates a function, and tells its value in force as `enable_x64.value`. `purax.config` holds the settings.
"""

from typing import Any

from purax.config import Accepted, Override, UserContext

__all__ = [
    "allow_f16_reductions",
    "array_garbage_collection_guard",
    "auto_pcast",
    "check_tracer_leaks",
    "checking_leaks",
    "debug_bounds",
    "debug_infs",
    "debug_key_reuse",
    "debug_nans",
    "default_device",
    "default_matmul_precision",
    "default_prng_impl",
    "disable_jit",
    "enable_checks",
    "enable_custom_prng",
    "enable_x64",
    "explain_cache_misses",
    "jax2tf_associative_scan_reductions",
    "legacy_prng_key",
    "log_compiles",
    "make_user_context",
    "no_execution",
    "no_tracing",
    "numpy_dtype_promotion",
    "numpy_rank_promotion",
    "remove_size_one_mesh_axis_from_type",
    "softmax_custom_jvp",
    "thread_guard",
    "threefry_partitionable",
    "transfer_guard",
    "transfer_guard_device_to_device",
    "transfer_guard_device_to_host",
    "transfer_guard_host_to_device",
]

allow_f16_reductions = Override("allow_f16_reductions")
check_tracer_leaks = Override("check_tracer_leaks")
checking_leaks = check_tracer_leaks
debug_bounds = Override("debug_bounds")
debug_infs = Override("debug_infs")
debug_key_reuse = Override("debug_key_reuse")
debug_nans = Override("debug_nans")
default_device = Override("default_device")
default_matmul_precision = Override("default_matmul_precision")
default_prng_impl = Override("default_prng_impl")
disable_jit = Override("disable_jit")
enable_checks = Override("enable_checks")
enable_x64 = Override("enable_x64")
explain_cache_misses = Override("explain_cache_misses")
log_compiles = Override("log_compiles")
no_execution = Override("no_execution")
no_tracing = Override("no_tracing")
numpy_dtype_promotion = Override("numpy_dtype_promotion")
numpy_rank_promotion = Override("numpy_rank_promotion")
threefry_partitionable = Override("threefry_partitionable")

# Names of JAX for parts that purax does not have: they are taken, and change nothing.
array_garbage_collection_guard = Accepted("jax_array_garbage_collection_guard")
auto_pcast = Accepted("jax_auto_pcast")
enable_custom_prng = Accepted("jax_enable_custom_prng")
jax2tf_associative_scan_reductions = Accepted("jax2tf_associative_scan_reductions")
legacy_prng_key = Accepted("jax_legacy_prng_key")
remove_size_one_mesh_axis_from_type = Accepted("jax_remove_size_one_mesh_axis_from_type")
softmax_custom_jvp = Accepted("jax_softmax_custom_jvp")
thread_guard = Accepted("jax_thread_guard")
transfer_guard = Accepted("jax_transfer_guard")
transfer_guard_device_to_device = Accepted("jax_transfer_guard_device_to_device")
transfer_guard_device_to_host = Accepted("jax_transfer_guard_device_to_host")
transfer_guard_host_to_device = Accepted("jax_transfer_guard_host_to_device")


def make_user_context(default_value: Any = None) -> UserContext:
    """Make a context of one's own, whose value is part of the key of each jitted function.

    Parameters
    ----------
    default_value : object, optional
        Hashable; in force outside of all `with` blocks.

    Returns
    -------
    UserContext
    """
    return UserContext(default_value)
