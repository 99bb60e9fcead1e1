# SPDX-License-Identifier: Apache-2.0
"""The names of `jax.ops`: sums and other reductions over segments."""

from purax.numpy.segment import segment_max, segment_min, segment_prod, segment_sum

__all__ = ["segment_max", "segment_min", "segment_prod", "segment_sum"]
