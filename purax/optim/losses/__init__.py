# SPDX-License-Identifier: Apache-2.0
"""Loss functions, one value for each example."""

from purax.optim.losses.classification import *  # ruff: ignore[undefined-local-with-import-star]
from purax.optim.losses.regression import *  # ruff: ignore[undefined-local-with-import-star]
