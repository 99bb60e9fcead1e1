# SPDX-License-Identifier: Apache-2.0
"""The names of `jax.extend` that purax has."""

from purax.extend import core as core
from purax.extend import linear_util as linear_util
