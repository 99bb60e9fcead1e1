# SPDX-License-Identifier: Apache-2.0
"""Window functions for signals, of the default float dtype."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from purax import dtypes
from purax.core.trace import aval_of
from purax.numpy import _ops as ops
from purax.numpy.elementwise import i0
from purax.numpy.promotion import convert, inexact

__all__ = ["bartlett", "blackman", "hamming", "hanning", "kaiser"]


def _steps(M: Any, dtype: Any) -> tuple[int, Any]:
    """The length and 0, 1, ..., M - 1."""
    count = operator.index(M.item() if hasattr(M, "aval") else M)
    return count, ops.iota(dtype, max(count, 0))


def _cosines(M: Any, *weights: float) -> Any:
    dtype = dtypes.default_float()
    count, n = _steps(M, dtype)
    if count <= 1:
        return ops.full((max(count, 0),), 1, dtype)
    total = ops.full((count,), weights[0], dtype)
    for order, weight in enumerate(weights[1:], 1):
        angle = ops.mul(n, ops.full((count,), 2 * np.pi * order / (count - 1), dtype))
        total = ops.add(total, ops.mul(ops.cos(angle), ops.full((count,), weight, dtype)))
    return total


def blackman(M: int) -> Any:
    """Blackman window of `M` points."""
    return _cosines(M, 0.42, -0.5, 0.08)


def hamming(M: int) -> Any:
    """Hamming window of `M` points."""
    return _cosines(M, 0.54, -0.46)


def hanning(M: int) -> Any:
    """Hann window of `M` points."""
    return _cosines(M, 0.5, -0.5)


def bartlett(M: int) -> Any:
    """Bartlett window of `M` points: a triangle."""
    dtype = dtypes.default_float()
    count, n = _steps(M, dtype)
    if count <= 1:
        return ops.full((max(count, 0),), 1, dtype)
    one = ops.full((count,), 1, dtype)
    return ops.sub(one, ops.abs(ops.sub(ops.mul(n, ops.full((count,), 2 / (count - 1), dtype)), one)))


def kaiser(M: int, beta: Any) -> Any:
    """Kaiser window of `M` points with shape parameter `beta`."""
    dtype = inexact(aval_of(beta).dtype, False)[0]
    count, n = _steps(M, dtype)
    if count <= 1:
        return ops.full((max(count, 0),), 1, dtype)
    shape = (count,)
    beta = ops.broadcast_to(convert(beta, dtype), shape)
    place = ops.sub(ops.mul(n, ops.full(shape, 2 / (count - 1), dtype)), ops.full(shape, 1, dtype))
    inside = ops.max(ops.sub(ops.full(shape, 1, dtype), ops.square(place)), ops.full(shape, 0, dtype))
    return ops.div(i0(ops.mul(beta, ops.sqrt(inside))), i0(beta))
