# SPDX-License-Identifier: Apache-2.0
"""Logarithms of sums of two powers: log(b^x + b^y) for b = e and b = 2, without overflow.

With the larger operand taken out, log_b(b^x + b^y) = max(x, y) + log_b(1 + b^-|x - y|). The derivative by x is the share of b^x
in the sum, 1 / (1 + b^(y - x)): a logistic function of the difference. The shares add up to one; operands that are equal have one
half each, also where both are the same infinity.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from purax import dtypes
from purax.core.trace import aval_of
from purax.primitives import elementwise as ops
from purax.primitives.base import zeros_of
from purax.primitives.family import INEXACT, Elementwise, inline, widened
from purax.primitives.transcendental import LN_2

__all__ = ["logaddexp2_p", "logaddexp_p"]


def _sum(x: Any, y: Any, scale: float) -> Any:
    """The formula above, for the base whose natural logarithm is `scale`."""
    if dtypes.is_complex(aval_of(x).dtype):
        first = ops.gt(ops.real(x), ops.real(y))
        larger, smaller = ops.select(first, x, y), ops.select(first, y, x)
    else:
        larger, smaller = ops.max(x, y), ops.min(x, y)
    gap = ops.sub(smaller, larger)
    power, log1p = (ops.exp, ops.log1p) if scale == 1 else (ops.exp2, _log2_1p)
    return ops.select(ops.ne(gap, gap), ops.add(x, y), ops.add(larger, log1p(power(gap))))  # inf - inf, or NaN


def _log2_1p(x: Any) -> Any:
    return ops.div(ops.log1p(x), LN_2)


def _share(x: Any, y: Any, scale: float) -> Any:
    """The derivative by x."""
    gap = ops.sub(x, y)
    same_infinity = ops.bitwise_and(ops.ne(gap, gap), ops.eq(x, y))
    gap = ops.select(same_infinity, zeros_of(gap), gap)
    return ops.logistic(gap if scale == 1 else ops.mul(gap, scale))


def _complex_or(real: Callable[..., Any], base: float) -> Callable[..., Any]:
    """NumPy's function, and the same for complex numbers."""

    def compute(x: Any, y: Any) -> Any:
        if not dtypes.is_complex(x.dtype):
            return real(x, y)
        larger = np.where(x.real > y.real, x, y)
        smaller = np.where(x.real > y.real, y, x)
        return larger + np.log1p(np.power(x.dtype.type(base), smaller - larger)) / x.real.dtype.type(np.log(base))

    return compute


def _row(name: str, base: float, scale: float, real: Callable[..., Any]) -> Elementwise:
    return Elementwise(
        name, (INEXACT, INEXACT), inline(lambda x, y: _sum(x, y, scale)), widened(_complex_or(real, base)),
        lambda t, z, x, y: ops.mul(t, _share(x, y, scale)),
        lambda t, z, x, y: ops.mul(t, _share(y, x, scale)),
    )  # fmt: skip


logaddexp_p = _row("logaddexp", np.e, 1.0, np.logaddexp)
logaddexp2_p = _row("logaddexp2", 2.0, LN_2, np.logaddexp2)
