# SPDX-License-Identifier: Apache-2.0
"""The names of `jax.ad_checkpoint`."""

from purax.control.remat import checkpoint as checkpoint
from purax.control.remat import checkpoint_name as checkpoint_name
from purax.control.remat import checkpoint_policies as checkpoint_policies
