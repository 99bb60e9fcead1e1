# SPDX-License-Identifier: Apache-2.0
"""Hypergeometric functions of real arguments, by their series in float64 after transformation to where these converge fast.

The terms' derivatives to the parameters are summed along with the terms.

Operands broadcast; results have their common shape and inexact dtype unless a function says otherwise.

Parameters
----------
a, b, c : float[...]
    Parameters; (a)_k is a (a + 1) ... (a + k - 1).
x : float[...]
"""

from __future__ import annotations

from typing import Any

import numpy as np

from purax import numpy as pnp
from purax.control.custom import custom_jvp
from purax.control.jit import jit
from purax.control.loop import while_loop
from purax.numpy.promotion import promote_inexact
from purax.scipy.special._series import in_double
from purax.scipy.special.gammas import gamma_p
from purax.transforms.jvp import jvp

__all__ = ["hyp1f1", "hyp2f1"]

LIMIT = 20_000


def _sum(term: Any, ratio: Any) -> Any:
    """Sum of terms, each `ratio(k)` times the last, until all stand still."""

    def goes_on(state: Any) -> Any:
        k, term, total = state
        return (k < LIMIT) & pnp.any(pnp.abs(term) > 1e-17 * pnp.abs(total))

    def step(state: Any) -> Any:
        k, term, total = state
        new = term * ratio(k.astype(term.dtype))
        return k + 1, new, total + new

    return while_loop(goes_on, step, (pnp.asarray(0, np.int32), term, term))[2]


def _by_partials(formula: Any) -> Any:
    """The elementwise formula, with derivatives by a forward pass per operand; reverse mode sees products alone."""
    wide = jit(in_double(formula))

    @custom_jvp
    def function(*xs: Any) -> Any:
        return wide(*xs)

    @function.defjvp
    def rule(primals: Any, tangents: Any) -> Any:
        ones, zeros = pnp.ones_like(primals[0]), pnp.zeros_like(primals[0])
        out, total = function(*primals), zeros
        for i, tangent in enumerate(tangents):
            directions = tuple(ones if j == i else zeros for j in range(len(primals)))
            total = total + tangent * jvp(wide, primals, directions)[1]
        return out, total

    return function


def _kummer(a: Any, b: Any, x: Any) -> Any:
    """Kummer's series; for negative x by exp(x) 1F1(b - a, b, -x), whose terms do not cancel."""
    negative = x < 0
    first, size = pnp.where(negative, b - a, a), pnp.abs(x)
    vanishes = (x == -np.inf) & (a > 0)  # as (-x)**-a
    size = pnp.where(vanishes, 0, size)
    total = _sum(pnp.ones_like(x), lambda k: (first + k) / (b + k) * size / (k + 1))
    return pnp.where(negative, pnp.exp(pnp.where(negative, x, 0)) * total, total)


def _gauss_series(a: Any, b: Any, c: Any, x: Any) -> Any:
    return _sum(pnp.ones_like(x), lambda k: (a + k) / (c + k) * ((b + k) / (k + 1)) * x)


def _gauss(a: Any, b: Any, c: Any, x: Any) -> Any:
    """Gauss's series in [0, 1): Pfaff's transformation for x < 0, Euler's where c - a - b < 0, Gauss's sum at 1."""
    negative = x < 0
    plain = pnp.where(negative, 0, x)
    moved = pnp.where(negative, x / (x - 1), plain)
    second = pnp.where(negative, c - b, b)
    excess = c - a - second
    finite = ((a <= 0) & (a == pnp.floor(a))) | ((second <= 0) & (second == pnp.floor(second)))
    euler = (excess < 0) & ~finite & (moved < 1)
    one = moved == 1
    inside = pnp.where((moved < 1) | finite, moved, 0)
    p, q = pnp.where(euler, c - a, a), pnp.where(euler, c - second, second)
    total = _gauss_series(p, q, c, inside)
    rest = pnp.where(moved < 1, 1 - moved, 1)
    total = total * pnp.where(euler, pnp.exp(pnp.where(euler, excess, 0) * pnp.log(rest)), 1)
    total = total * pnp.where(negative, pnp.exp(-a * pnp.log1p(pnp.where(negative, -x, 0))), 1)
    ends = one & (excess > 0)
    limit = pnp.where(ends, excess, 1)
    at_one = gamma_p.bind1(c) * gamma_p.bind1(limit) / (gamma_p.bind1(c - a) * gamma_p.bind1(c - b))
    beyond = pnp.where(moved >= 1, np.inf, np.nan)
    value = pnp.where(finite, total, pnp.where(ends, at_one, pnp.where(moved < 1, total, beyond)))
    # The larger of (-x)**-a and (-x)**-b; infinite with a sign that is not worked out here where one of them grows.
    lowest = pnp.minimum(a, b)
    far = pnp.where(lowest > 0, 0, pnp.where((a == 0) | (b == 0), 1, np.nan))
    return pnp.where(x == -np.inf, far, value)


_hyp1f1 = _by_partials(_kummer)
_hyp2f1 = _by_partials(_gauss)


def hyp1f1(a: Any, b: Any, x: Any) -> Any:
    """Confluent hypergeometric function of the first kind: the sum of (a)_k / (b)_k x^k / k!."""
    return _hyp1f1(*promote_inexact("hyp1f1", a, b, x))


def hyp2f1(a: Any, b: Any, c: Any, x: Any) -> Any:
    """Gauss's hypergeometric function, the sum of (a)_k (b)_k / (c)_k x^k / k!, for x <= 1; inf beyond."""
    return _hyp2f1(*promote_inexact("hyp2f1", a, b, c, x))
