# SPDX-License-Identifier: Apache-2.0
"""Activations as primitives: one equation in a program, one kernel in eager code, and a derivative written by hand.

Each is a row of the table of elementwise primitives: its formula, its meaning in NumPy, and its tangent, which uses the output
where that saves keeping the input. Floats of 16 bits are computed in 32.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from purax.lazy import lazy
from purax.primitives import elementwise as ops
from purax.primitives import special
from purax.primitives.base import zeros_of
from purax.primitives.family import FLOAT, REAL, Elementwise, inline, widened

__all__ = ["gelu_exact_p", "gelu_p", "relu6_p", "relu_p", "silu_p", "softplus_p"]

scipy_special = lazy("scipy.special")

_ROOT_HALF = math.sqrt(0.5)
_ROOT_2_OVER_PI = math.sqrt(2 / math.pi)
_CUBIC = 0.044715


def _only(test: Any, t: Any) -> Any:
    return ops.select(test, t, zeros_of(t))


relu_p = Elementwise(
    "relu", REAL, inline(lambda x: ops.max(x, 0)), lambda x: np.maximum(x, np.zeros((), x.dtype)),
    lambda t, y, x: _only(ops.gt(y, 0), t),
)  # fmt: skip
relu6_p = Elementwise(
    "relu6", REAL, inline(lambda x: ops.min(ops.max(x, 0), 6)),
    lambda x: np.minimum(np.maximum(x, np.zeros((), x.dtype)), np.full((), 6, x.dtype)),
    lambda t, y, x: _only(ops.bitwise_and(ops.gt(x, 0), ops.lt(x, 6)), t),
)  # fmt: skip

# log(1 + exp(x)) without overflow; its derivative is the logistic function.
softplus_p = Elementwise(
    "softplus", FLOAT, inline(lambda x: ops.add(ops.max(x, 0), ops.log1p(ops.exp(ops.neg(ops.abs(x)))))),
    widened(lambda x: np.logaddexp(x, 0)), lambda t, y, x: ops.mul(t, ops.logistic(x)),
)  # fmt: skip

# x s(x) with the logistic function s; derivative s + x s (1 - s) = s + y (1 - s).
silu_p = Elementwise(
    "silu", FLOAT, inline(lambda x: ops.mul(x, ops.logistic(x))), widened(lambda x: x * scipy_special.expit(x)),
    lambda t, y, x: ops.mul(t, _silu_slope(y, x)),
)  # fmt: skip


def _silu_slope(y: Any, x: Any) -> Any:
    """Derivative of silu from its output and input."""
    s = ops.logistic(x)
    return ops.add(s, ops.mul(y, ops.sub(1, s)))


# x Phi(x) with the normal distribution function Phi; derivative Phi + x phi.
gelu_exact_p = Elementwise(
    "gelu_exact", FLOAT, inline(lambda x: ops.mul(ops.mul(x, 0.5), special.erfc(ops.mul(x, -_ROOT_HALF)))),
    widened(lambda x: x * scipy_special.ndtr(x)),
    lambda t, y, x: ops.mul(t, _exact_slope(x)),
)  # fmt: skip


def _exact_slope(x: Any) -> Any:
    density = ops.mul(ops.exp(ops.mul(ops.square(x), -0.5)), 1 / math.sqrt(2 * math.pi))
    return ops.add(ops.mul(special.erfc(ops.mul(x, -_ROOT_HALF)), 0.5), ops.strong_mul(density, x))


# The same with Phi(x) about (1 + tanh(u)) / 2, u = sqrt(2 / pi) (x + 0.044715 x^3).
gelu_p = Elementwise(
    "gelu", FLOAT, inline(lambda x: ops.mul(x, ops.add(ops.mul(ops.tanh(_inner(x)), 0.5), 0.5))),
    widened(lambda x: x * 0.5 * (1 + np.tanh(_ROOT_2_OVER_PI * (x + _CUBIC * x**3)))),
    lambda t, y, x: ops.mul(t, _tanh_slope(x)),
)  # fmt: skip


def _inner(x: Any) -> Any:
    return ops.mul(x, ops.add(ops.mul(ops.square(x), _ROOT_2_OVER_PI * _CUBIC), _ROOT_2_OVER_PI))


def _tanh_slope(x: Any) -> Any:
    """(1 + tanh u) / 2 + x / 2 (1 - tanh^2 u) u'."""
    bent = ops.tanh(_inner(x))
    growth = ops.mul(x, ops.add(ops.mul(ops.square(x), 1.5 * _ROOT_2_OVER_PI * _CUBIC), 0.5 * _ROOT_2_OVER_PI))
    steep = ops.sub(1, ops.square(bent))
    return ops.add(ops.add(ops.mul(bent, 0.5), 0.5), ops.strong_mul(steep, growth))
