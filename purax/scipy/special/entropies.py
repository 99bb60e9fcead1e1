# SPDX-License-Identifier: Apache-2.0
"""Logarithms and exponentials: entropies, softmax, logistic function, power transforms. Products with log(0) are 0 at 0.

Operands broadcast; results have their common shape and inexact dtype unless a function says otherwise.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from purax import numpy as pnp
from purax.control.jit import jit
from purax.numpy.exponentials import logsumexp
from purax.numpy.promotion import promote_inexact
from purax.primitives import elementwise as ops
from purax.primitives.family import INEXACT, Elementwise, inline, widened
from purax.primitives.stop_gradient import stop_gradient
from purax.scipy.special._series import apply

__all__ = [
    "boxcox", "boxcox1p", "entr", "expit", "kl_div", "log_softmax", "logit", "logsumexp", "rel_entr", "softmax", "xlog1py", "xlogy",
]  # fmt: skip


def _product(logarithm: Any) -> Any:
    """x logarithm(y), 0 where x is 0 and y is not NaN."""

    def formula(x: Any, y: Any) -> Any:
        absent = pnp.logical_and(x == 0, pnp.logical_not(pnp.isnan(y)))
        return pnp.where(absent, 0, x * logarithm(y))

    return formula


def _numpy_product(logarithm: Any) -> Any:
    def compute(x: Any, y: Any) -> Any:
        with np.errstate(all="ignore"):
            return np.where((x == 0) & ~np.isnan(y), 0, x * logarithm(y))

    return widened(compute)


xlogy_p = Elementwise(
    "xlogy", (INEXACT, INEXACT), inline(_product(pnp.log)), _numpy_product(np.log),
    lambda t, out, x, y: ops.strong_mul(t, pnp.log(y)),
    lambda t, out, x, y: ops.strong_mul(t, _share(x, y)),
)  # fmt: skip
xlog1py_p = Elementwise(
    "xlog1py", (INEXACT, INEXACT), inline(_product(pnp.log1p)), _numpy_product(np.log1p),
    lambda t, out, x, y: ops.strong_mul(t, pnp.log1p(y)),
    lambda t, out, x, y: ops.strong_mul(t, _share(x, 1 + y)),
)  # fmt: skip


def _share(x: Any, y: Any) -> Any:
    """x / y, 0 where both are 0."""
    return x / pnp.where((x == 0) & (y == 0), 1, y)


def xlogy(x: Any, y: Any) -> Any:
    """x log(y), 0 where x is 0."""
    return apply(xlogy_p, x, y)


def xlog1py(x: Any, y: Any) -> Any:
    """x log(1 + y), 0 where x is 0."""
    return apply(xlog1py_p, x, y)


def entr(x: Any) -> Any:
    """-x log(x); 0 at 0, -inf below."""
    (x,) = promote_inexact("entr", x)
    below = x < 0
    return pnp.where(below, -np.inf, -xlogy(*[pnp.where(below, 1, x)] * 2))


def rel_entr(p: Any, q: Any) -> Any:
    """p log(p / q); 0 where p is 0 and q is not negative, inf where either is negative or q alone is 0."""
    p, q = promote_inexact("rel_entr", p, q)
    both, nothing = (p > 0) & (q > 0), (p == 0) & (q >= 0)
    p, q = pnp.where(both, p, 1), pnp.where(both, q, 1)
    return pnp.where(both, p * pnp.log(p / q), pnp.where(nothing, 0, np.inf))


def kl_div(p: Any, q: Any) -> Any:
    """p log(p / q) - p + q, as `rel_entr` at the borders."""
    p, q = promote_inexact("kl_div", p, q)
    return rel_entr(p, q) - p + q


def expit(x: Any) -> Any:
    """1 / (1 + exp(-x))."""
    return ops.logistic(*promote_inexact("expit", x))


def logit(x: Any) -> Any:
    """log(x / (1 - x)), the inverse of `expit`."""
    (x,) = promote_inexact("logit", x)
    middle = pnp.abs(x - 0.5) < 0.2
    inner = pnp.where(middle, x, 0.5)
    return pnp.where(middle, pnp.log1p((2 * inner - 1) / (1 - inner)), pnp.log(x / (1 - x)))


def log_softmax(x: Any, /, *, axis: Any = None) -> Any:
    """x - logsumexp(x) along `axis` (None: all axes)."""
    (x,) = promote_inexact("log_softmax", x)
    if not x.size:
        return x
    top = stop_gradient(pnp.max(x, axis=axis, keepdims=True))
    x = x - pnp.where(pnp.isfinite(top), top, 0)
    return x - logsumexp(x, axis=axis, keepdims=True)


def softmax(x: Any, /, *, axis: Any = None) -> Any:
    """exp(x) over the sum of them along `axis` (None: all axes)."""
    return pnp.exp(log_softmax(x, axis=axis))


@jit
def _box_cox(logarithm: Any, power: Any) -> Any:
    """(exp(power logarithm) - 1) / power, its limit and the derivative of that at power 0."""
    u = power * pnp.where((power == 0) & pnp.isinf(logarithm), 0, logarithm)
    small = pnp.abs(u) < 1e-2
    series = logarithm * (1 + u / 2 * (1 + u / 3 * (1 + u / 4 * (1 + u / 5 * (1 + u / 6)))))
    small |= power == 0
    plain = pnp.expm1(pnp.where(small, 1, u)) / pnp.where(small, 1, power)
    return pnp.where(small, pnp.where(small, series, 0), plain)


def boxcox(x: Any, lmbda: Any) -> Any:
    """(x^lmbda - 1) / lmbda, log(x) where lmbda is 0."""
    x, lmbda = promote_inexact("boxcox", x, lmbda)
    return _box_cox(pnp.log(x), lmbda)


def boxcox1p(x: Any, lmbda: Any) -> Any:
    """`boxcox(1 + x, lmbda)`, with all digits for small x."""
    x, lmbda = promote_inexact("boxcox1p", x, lmbda)
    return _box_cox(pnp.log1p(x), lmbda)
