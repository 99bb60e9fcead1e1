# SPDX-License-Identifier: Apache-2.0
"""The names of `jax.dlpack`."""

from purax.runtime.dlpack import from_dlpack as from_dlpack
from purax.runtime.dlpack import is_supported_dtype as is_supported_dtype
from purax.runtime.dlpack import to_dlpack as to_dlpack
