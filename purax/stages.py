# SPDX-License-Identifier: Apache-2.0
"""The names of `jax.stages`."""

from purax.control.jit import JitFunction as Wrapped
from purax.pipeline.stages import ArgInfo, Compiled, Lowered, Traced

__all__ = ["ArgInfo", "Compiled", "Lowered", "Traced", "Wrapped"]
