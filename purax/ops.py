# SPDX-License-Identifier: Apache-2.0
"""The names of `jax.ops`: sums and other reductions over segments."""

from purax.numpy.segment import *
