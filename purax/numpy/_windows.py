# SPDX-License-Identifier: Apache-2.0
"""Updates of a window at a known place that is nearly the whole array: by operations on all elements.

Written into the array in place, such a window keeps compilers from merging the update with what computes it, as that reads the
array, too: one step of a stencil like ``u.at[1:-1, 1:-1].add(f(u))`` is 3 to 10 times as fast by a padded sum. Of a small window
only the elements in it should be touched.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from purax import dtypes
from purax.core.dims import is_open
from purax.numpy import _ops as ops

__all__ = ["add", "is_most", "replace"]


def is_most(window: Sequence[int], sizes: Sequence[int]) -> bool:
    """Whether a window has at least seven of eight elements."""
    return not is_open((*window, *sizes)) and 8 * math.prod(window) >= 7 * math.prod(sizes)


def add(x: Any, values: Any, starts: Sequence[int], negative: bool = False) -> Any:
    """`x` with `values`, or their negatives, added to the window at `starts`; not even the sign of a zero changes elsewhere."""
    dtype = values.aval.dtype
    if dtypes.is_bool(dtype):
        return ops.bitwise_or(x, _spread(values, x.aval.shape, starts, False))
    zero = 0.0 if negative or not dtypes.is_inexact(dtype) else -0.0
    full = _spread(values, x.aval.shape, starts, complex(zero, zero) if dtypes.is_complex(dtype) else zero)
    return ops.sub(x, full) if negative else ops.add(x, full)


def replace(x: Any, values: Any, starts: Sequence[int]) -> Any:
    """`x` with the window at `starts` replaced by `values`."""
    inside = _spread(ops.full(values.aval.shape, True), x.aval.shape, starts, False)
    return ops.select(inside, _spread(values, x.aval.shape, starts, 0), x)


def _spread(values: Any, sizes: Sequence[int], starts: Sequence[int], rest: Any) -> Any:
    config = [(i, n - m - i, 0) for i, n, m in zip(starts, sizes, values.aval.shape, strict=True)]
    return ops.pad(values, np.asarray(rest).astype(values.aval.dtype), config)
