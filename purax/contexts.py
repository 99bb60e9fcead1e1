# SPDX-License-Identifier: Apache-2.0
"""Settings as context managers: `with enable_x64(True): ...` holds in one thread, for one block.

Each also decorates a function, and tells its value in force as `enable_x64.value`. `purax.config` holds the settings.
"""

from purax.config import Override

__all__ = [
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
    "enable_x64",
    "explain_cache_misses",
    "log_compiles",
    "numpy_dtype_promotion",
    "numpy_rank_promotion",
    "threefry_partitionable",
]

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
numpy_dtype_promotion = Override("numpy_dtype_promotion")
numpy_rank_promotion = Override("numpy_rank_promotion")
threefry_partitionable = Override("threefry_partitionable")
