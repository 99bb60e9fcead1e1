# SPDX-License-Identifier: Apache-2.0
"""Softmax and its relatives: normalized exponentials, their logarithms, standardized values.

Softmax and its logarithm are primitives with derivatives by their outputs. A mask (`where=`) selects what takes part; what it leaves
out touches neither values nor derivatives, whatever it holds.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from purax import errors
from purax import numpy as pnp
from purax.control.jit import jit
from purax.core.primitive import Primitive
from purax.core.trace import aval_of
from purax.numpy.exponentials import logsumexp
from purax.numpy.promotion import check_arraylike, promote_dtypes_inexact
from purax.primitives import elementwise as ops
from purax.primitives import reduction
from purax.primitives import shape as shapes
from purax.primitives.family import FLOAT, inline, widened
from purax.primitives.operands import dtype_name
from purax.sharding import rules

__all__ = ["log_softmax", "logmeanexp", "logsumexp", "softmax", "standardize"]


def _spread(x: Any, axes: tuple[int, ...], like: Any) -> Any:
    """A reduced array, repeated along the reduced axes."""
    sizes = aval_of(like).shape
    return shapes.broadcast_in_dim(x, sizes, tuple(i for i in range(len(sizes)) if i not in axes))


def _exponentials(x: Any, axes: tuple[int, ...]) -> tuple[Any, Any, Any]:
    """x less its maximum, the exponentials of that, and their sum."""
    shifted = ops.sub(x, _spread(reduction.reduce_max(x, axes), axes, x))
    powers = ops.exp(shifted)
    return shifted, powers, reduction.reduce_sum(powers, axes)


class _Normalized(Primitive):
    """What softmax and its logarithm share: shapes and batching."""

    def spread(self, ins: Any, avals: Any, outs: Any, params: Any) -> Any:
        """As the operand."""
        rules.refuse_sums(self.name, ins)
        return ins

    def infer(self, x: Any, *, axes: tuple[int, ...]) -> Any:
        """The operand's aval."""
        if x.dtype not in FLOAT:
            raise errors.DTypeError(f"the operand has dtype {dtype_name(x)}; {FLOAT.words} is needed")
        return (x.strip_weak(),)

    def batch(self, axis: Any, values: Any, dims: Any, *, axes: Any) -> Any:
        """Axes behind the mapped one move on."""
        (d,) = dims
        return self.bind(values[0], axes=tuple(a + (a >= d) for a in axes)), dims


class Softmax(_Normalized):
    """exp(x) / sum(exp(x)) along `axes`; each row sums to 1."""

    def reference(self, x: Any, *, axes: Any) -> Any:
        """By its definition."""

        def compute(x: Any) -> Any:
            powers = np.exp(x - x.max(axes, keepdims=True))
            return powers / powers.sum(axes, keepdims=True)

        return (widened(compute)(x),)

    def jvp(self, primals: Any, tangents: Any, *, axes: Any) -> Any:
        """y (t - sum(y t))."""
        y = self.bind1(*primals, axes=axes)
        if tangents[0] is None:
            return (y,), (None,)
        scaled = ops.mul(tangents[0], y)
        total = _spread(reduction.reduce_sum(scaled, axes), axes, y)
        return (y,), (ops.sub(scaled, ops.mul(total, y)),)

    def lower(self, b: Any, ins: Any, outs: Any, *, axes: Any) -> Any:
        """Its formula, in float32 for narrower floats."""

        def formula(x: Any) -> Any:
            _, powers, total = _exponentials(x, axes)
            return ops.div(powers, _spread(total, axes, x))

        return inline(formula)(b, ins, outs)


class LogSoftmax(_Normalized):
    """x - log(sum(exp(x))) along `axes`."""

    def reference(self, x: Any, *, axes: Any) -> Any:
        """By its definition."""

        def compute(x: Any) -> Any:
            shifted = x - x.max(axes, keepdims=True)
            return shifted - np.log(np.exp(shifted).sum(axes, keepdims=True))

        return (widened(compute)(x),)

    def jvp(self, primals: Any, tangents: Any, *, axes: Any) -> Any:
        """t - sum(exp(y) t)."""
        y = self.bind1(*primals, axes=axes)
        (t,) = tangents
        if t is None:
            return (y,), (None,)
        return (y,), (ops.sub(t, _spread(reduction.reduce_sum(ops.mul(t, ops.exp(y)), axes), axes, y)),)

    def lower(self, b: Any, ins: Any, outs: Any, *, axes: Any) -> Any:
        """Its formula, in float32 for narrower floats."""

        def formula(x: Any) -> Any:
            shifted, _, total = _exponentials(x, axes)
            return ops.sub(shifted, _spread(ops.log(total), axes, x))

        return inline(formula)(b, ins, outs)


softmax_p = Softmax("softmax")
log_softmax_p = LogSoftmax("log_softmax")


def _axes(x: Any, axis: Any) -> tuple[int, ...]:
    ndim = aval_of(x).ndim
    return tuple(range(ndim)) if axis is None else shapes.canonical_axes(axis, ndim)


def _normalized(name: str, primitive: Any, x: Any, axis: Any, where: Any, outside: float) -> Any:
    check_arraylike(name, x)
    (x,) = promote_dtypes_inexact(x)
    axes = _axes(x, axis)
    if not axes or not aval_of(x).size:
        return pnp.ones_like(x) if primitive is softmax_p else pnp.zeros_like(x)
    if where is None:
        return primitive.bind1(x, axes=axes)
    rows = primitive.bind1(pnp.where(where, x, -np.inf), axes=axes)
    return pnp.where(where, rows, outside)


def softmax(x: Any, axis: Any = -1, where: Any = None) -> Any:
    """Exponentials, divided by their sum.

    Parameters
    ----------
    x : floating[...]
    axis : int, sequence of int or None
        Along which the results sum to 1 (None: over all).
    where : bool[...], optional
        Broadcasts to `x`; the result is 0 where it is false.

    Returns
    -------
    array like `x`

    Examples
    --------
    >>> purax.nn.softmax(pnp.array([0.0, 0.0])).tolist()
    [0.5, 0.5]
    """
    return _normalized("softmax", softmax_p, x, axis, where, 0.0)


def log_softmax(x: Any, axis: Any = -1, where: Any = None) -> Any:
    """The logarithm of `softmax`, without underflow; -inf where `where` is false.

    Parameters
    ----------
    x : array[...]
    axis : int, sequence of int or None
        Axes of the distributions; None for all.
    where : bool[...], optional
        What takes part.

    Returns
    -------
    inexact array of the shape of `x`
    """
    return _normalized("log_softmax", log_softmax_p, x, axis, where, -np.inf)


def logmeanexp(x: Any, axis: Any = None, where: Any = None, keepdims: bool = False) -> Any:
    """The logarithm of the mean of exponentials. Parameters as in `logsumexp`.

    Parameters
    ----------
    x : array[...]
    axis : int, sequence of int or None
        Axes that the mean goes over; None for all.
    where : bool[...], optional
        What takes part.
    keepdims : bool
        Keep the axes, of size 1.

    Returns
    -------
    inexact array without `axis`
        As accurate as `logsumexp`, less the logarithm of the number of elements.
    """
    total = logsumexp(x, axis=axis, where=where, keepdims=keepdims)
    sizes = aval_of(x).shape
    if where is None:
        count = np.prod([sizes[i] for i in _axes(x, axis)], dtype=np.float64)
        return total - np.log(count).astype(total.dtype)
    count = pnp.sum(pnp.broadcast_to(where, sizes), axis=axis, keepdims=keepdims, dtype=total.dtype)
    return total - pnp.log(count)


def standardize(
    x: Any, axis: Any = -1, mean: Any = None, variance: Any = None, epsilon: Any = 1e-5, where: Any = None, *,
    algorithm: str = "stable",
) -> Any:  # fmt: skip
    """Shift and scale to mean 0 and variance 1 along an axis: (x - mean) / sqrt(variance + epsilon).

    Parameters
    ----------
    x : float[...]
    axis : int or sequence of int
    mean, variance : float[...], optional
        Default: those of `x` along `axis`.
    epsilon : float
    where : bool[...], optional
        Elements that mean and variance are taken of.
    algorithm : "stable" or "fast"
        The variance as mean squared difference, or as mean square less squared mean, which reads `x` once and loses the
        variance of data whose mean is large against its spread.

    Returns
    -------
    floating[...]

    Raises
    ------
    ValueError
        Unknown algorithm.
    """
    check_arraylike("standardize", x)
    if algorithm not in ("fast", "stable"):
        raise ValueError(f"Unknown algorithm '{algorithm}'. Expected 'fast' or 'stable'.")
    return _standardize(x, mean, variance, epsilon, where, axis=_axes(x, axis), algorithm=algorithm)


def _standardize_formula(
    x: Any, mean: Any, variance: Any, epsilon: Any, where: Any, *, axis: Any, algorithm: str
) -> Any:
    if mean is None:
        mean = pnp.mean(x, axis, keepdims=True, where=where)
    if variance is None and algorithm == "stable":
        variance = pnp.mean(pnp.square(x - mean), axis, keepdims=True, where=where)
    elif variance is None:
        variance = pnp.mean(pnp.square(x), axis, keepdims=True, where=where) - pnp.square(mean)
        variance = pnp.clip(variance, 0)
    return (x - mean) * ops.rsqrt(variance + epsilon)


_standardize = jit(_standardize_formula, static_argnames=("axis", "algorithm"))
