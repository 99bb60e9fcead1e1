# SPDX-License-Identifier: Apache-2.0
"""The names of `jax.ad_checkpoint`."""

from purax.control.remat import checkpoint as checkpoint
from purax.control.remat import checkpoint_name as checkpoint_name
from purax.control.remat import checkpoint_policies as checkpoint_policies
from purax.control.residuals import print_saved_residuals as print_saved_residuals
from purax.control.residuals import saved_residuals as saved_residuals
