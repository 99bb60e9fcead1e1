# SPDX-License-Identifier: Apache-2.0
"""The names of `jax.experimental.jet`. Nothing is defined here."""

from purax.control import taylor as _taylor  # noqa: F401  (its rules)
from purax.transforms.jet import fact as fact
from purax.transforms.jet import jet as jet
from purax.transforms.jet import jet2 as jet2

__all__ = ["fact", "jet", "jet2"]
