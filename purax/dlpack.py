# SPDX-License-Identifier: Apache-2.0
"""The names of `jax.dlpack`."""

from purax.runtime.dlpack import from_dlpack as from_dlpack
from purax.runtime.dlpack import to_dlpack as to_dlpack
