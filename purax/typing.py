# SPDX-License-Identifier: Apache-2.0
"""Types for annotations: what counts as an array, and as a dtype."""

from typing import Any

import numpy as np

from purax.core.operators import Operators

__all__ = ["ArrayLike", "DTypeLike"]

ArrayLike = Operators | np.ndarray | np.bool_ | np.number | bool | int | float | complex
DTypeLike = Any
