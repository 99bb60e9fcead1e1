# SPDX-License-Identifier: Apache-2.0
"""The names of `jax.lax.linalg`."""

from purax.primitives.linalg import *
