# SPDX-License-Identifier: Apache-2.0
"""Counts: the Poisson, binomial and multinomial distributions, by rejection in a loop that all draws share."""

from __future__ import annotations

from typing import Any

import numpy as np

from purax import dtypes
from purax import numpy as pnp
from purax.control.loop import scan, while_loop
from purax.core.trace import aval_of
from purax.numpy.promotion import check_arraylike, promote_dtypes_inexact
from purax.primitives import elementwise, special
from purax.primitives import shape as shapes
from purax.primitives.cumulative import cumsum
from purax.primitives.random_bits import random_split
from purax.random.bits import _uniform
from purax.random.continuous import two_keys
from purax.random.draw import common_shape, float_dtype, integer_dtype, placed, sampler, to
from purax.random.keys import single_key

__all__ = ["binomial", "multinomial", "poisson"]

_FLOAT32 = np.dtype(np.float32)


def _nan(x: Any) -> Any:
    return x != x


# --- Poisson --------------------------------------------------------------------------------------------------------------------


def _poisson_by_products(key: Any, rate: Any, shape: Any, dtype: Any, limit: int) -> Any:
    """Knuth: how many uniform numbers it takes until their product is below `exp(-rate)`. For small rates."""

    def draw(state: Any) -> Any:
        i, k, key, log_product = state
        key, subkey = two_keys(key)
        k = pnp.where(log_product > -rate, k + 1, k)
        return i + 1, k, key, log_product + elementwise.log(_uniform.core(subkey, shape=shape, dtype=_FLOAT32))

    def unfinished(state: Any) -> Any:
        return elementwise.bitwise_and(pnp.any(state[3] > -rate), state[0] < limit)

    start = (shapes.scalar(0, dtypes.int32), shapes.full(shape, 0, dtype), key, shapes.full(shape, 0.0, _FLOAT32))
    return while_loop(unfinished, draw, start)[1] - 1


def _poisson_by_rejection(key: Any, rate: Any, shape: Any, dtype: Any, limit: int) -> Any:
    """Hormann (1993), algorithm PTRS: transformed rejection with a squeeze. For rates of 10 and more."""
    log_rate = elementwise.log(rate)
    b = 0.931 + 2.53 * elementwise.sqrt(rate)
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    v_r = 0.9277 - 3.6224 / (b - 2)

    def draw(state: Any) -> Any:
        i, found, accepted, key = state
        keys = random_split(key, (3,))
        u = _uniform.core(keys[1], shape=shape, dtype=_FLOAT32) - 0.5
        v = _uniform.core(keys[2], shape=shape, dtype=_FLOAT32)
        shifted = 0.5 - elementwise.abs(u)
        k = elementwise.floor((2 * a / shifted + b) * u + rate + 0.43)
        s = elementwise.log(v * inverse_alpha / (a / (shifted * shifted) + b))
        inside = s <= -rate + k * log_rate - special.lgamma(k + 1)
        outside = (k < 0) | ((shifted < 0.013) & (v > shifted))
        accept = ((shifted >= 0.07) & (v <= v_r)) | (~outside & inside)
        return i + 1, pnp.where(accept, k, found), accepted | accept, keys[0]

    def unfinished(state: Any) -> Any:
        return elementwise.bitwise_and(pnp.any(~state[2]), state[0] < limit)

    start = (
        shapes.scalar(0, dtypes.int32),
        shapes.full(shape, -1.0, _FLOAT32),
        shapes.full(shape, False, np.bool_),
        key,
    )
    return while_loop(unfinished, draw, start)[1].astype(dtype)


@sampler
def _poisson(key: Any, rate: Any, *, shape: Any, dtype: Any) -> Any:
    rate = to(rate, _FLOAT32, shape)
    small = _nan(rate) | (rate < 10)
    limit = min(int(dtypes.iinfo(dtype).max), int(dtypes.iinfo(dtypes.int32).max))
    counts = pnp.where(
        small,
        _poisson_by_products(key, pnp.where(small, rate, 0.0), shape, dtype, limit),
        _poisson_by_rejection(key, pnp.where(small, 1e5, rate), shape, dtype, limit),
    )
    return pnp.where(rate == 0, pnp.zeros_like(counts), counts)


def poisson(key: Any, lam: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """Draw from the Poisson distribution.

    Parameters
    ----------
    key : key[] or uint32[2]
    lam : float[...]
        Rate; broadcasts to `shape`.
    shape : sequence of int, optional
        Default: the shape of `lam`.
    dtype : integer dtype, optional
    out_sharding : sharding, optional
        Layout of the result over devices.

    Returns
    -------
    integer[shape]
        -1 where the rate is NaN.

    Raises
    ------
    TypeError
        `dtype` is not an integer dtype.
    """
    key = single_key("poisson", key)
    dtype = integer_dtype("poisson", dtype)
    return placed(_poisson(key, lam, shape=common_shape("poisson", shape, lam), dtype=dtype), out_sharding)


# --- binomial -------------------------------------------------------------------------------------------------------------------

_STIRLING = (
    0.0810614667953272, 0.0413406959554092, 0.0276779256849983, 0.02079067210376509, 0.0166446911898211, 0.0138761288230707,
    0.0118967099458917, 0.0104112652619720, 0.00925546218271273, 0.00833056343336287,
)  # fmt: skip


def _stirling_error(k: Any) -> Any:
    """What Stirling's formula for `log(k!)` lacks: a table up to 9, three terms of the series beyond."""
    square = (k + 1) * (k + 1)
    series = (1 / 12 - (1 / 360 - 1 / 1260 / square) / square) / (k + 1)
    table = pnp.asarray(np.array(_STIRLING, aval_of(k).dtype))
    place = elementwise.floor(pnp.clip(k, 0.0, 9.0)).astype(dtypes.int32)
    return pnp.where(k <= 9, pnp.take(table, place, mode="clip"), series)


def _binomial_by_gaps(key: Any, count: Any, p: Any, shape: Any) -> Any:
    """How many geometric gaps between successes fit into the trials. For few expected successes."""
    dtype = aval_of(p).dtype
    log_failure = elementwise.log1p(-p)

    def draw(state: Any) -> Any:
        found, total, key = state
        subkey, key = two_keys(key)
        found = pnp.where(total <= count, found + 1, found)
        gap = elementwise.ceil(elementwise.log(_uniform.core(subkey, shape=shape, dtype=dtype)) / log_failure)
        return found, total + gap, key

    zeros = shapes.full(shape, 0.0, dtype)
    return while_loop(lambda state: pnp.any(state[1] <= count), draw, (zeros, zeros, key))[0] - 1


def _binomial_by_rejection(key: Any, count: Any, p: Any, shape: Any) -> Any:
    """Hormann (1993), algorithm BTRS: transformed rejection with a squeeze. For more than ten expected successes."""
    dtype = aval_of(p).dtype
    deviation = elementwise.sqrt(count * p * (1 - p))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * p
    c = count * p + 0.5
    v_r = 0.92 - 4.2 / b
    r = p / (1 - p)
    alpha = (2.83 + 5.1 / b) * deviation
    m = elementwise.floor((count + 1) * p)

    def draw(state: Any) -> Any:
        found, accepted, key = state
        keys = random_split(key, (3,))
        u = _uniform.core(keys[1], shape=shape, dtype=dtype) - 0.5
        v = _uniform.core(keys[2], shape=shape, dtype=dtype)
        shifted = 0.5 - elementwise.abs(u)
        quick = (shifted >= 0.07) & (v <= v_r)
        k = elementwise.floor((2 * a / shifted + b) * u + c)
        outside = (k < 0) | (k > count)
        v = elementwise.log(v * alpha / (a / (shifted * shifted) + b))
        bound = (
            (m + 0.5) * elementwise.log((m + 1) / (r * (count - m + 1)))
            + (count + 1) * elementwise.log((count - m + 1) / (count - k + 1))
            + (k + 0.5) * elementwise.log(r * (count - k + 1) / (k + 1))
            + _stirling_error(m)
            + _stirling_error(count - m)
            - _stirling_error(k)
            - _stirling_error(count - k)
        )
        accept = quick | (~outside & (v <= bound))
        return pnp.where(accept, k, found), accepted | accept, keys[0]

    start = (shapes.full(shape, -1.0, dtype), shapes.full(shape, False, np.bool_), key)
    return while_loop(lambda state: pnp.any(~state[1]), draw, start)[0]


@sampler
def _binomial(key: Any, count: Any, p: Any, *, shape: Any, dtype: Any) -> Any:
    """By the smaller of the probabilities of success and failure; NaN for impossible parameters."""
    count = to(count, aval_of(p).dtype, shape)
    p = shapes.broadcast_to(p, shape)
    rare = p < 0.5
    q = pnp.where(rare, p, 1.0 - p)
    wrong_count, endless = _nan(count) | (count < 0), pnp.isinf(count)
    q_nan, negative = _nan(q), q < 0
    q = pnp.where(q_nan | negative, 0.01, q)
    few = wrong_count | (count * q <= 10.0)
    count = elementwise.floor(count)
    counts = pnp.where(
        few,
        _binomial_by_gaps(key, pnp.where(few, count, 0.0), q, shape),
        _binomial_by_rejection(key, pnp.where(few, 1e4, count), pnp.where(few, 0.5, q), shape),
    ).astype(dtype)
    invalid = negative | q_nan | wrong_count
    counts = pnp.where(invalid, np.nan, counts)
    counts = pnp.where(endless & ~invalid, np.inf, counts)
    return pnp.where(rare | wrong_count | q_nan | endless, counts, count.astype(dtype) - counts)


def binomial(key: Any, n: Any, p: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Draw how many of `n` trials succeed that succeed with probability `p` each.

    Parameters
    ----------
    key : key[] or uint32[2]
    n, p : float[...]
        Broadcast to `shape`.
    shape : sequence of int, optional
        Default: what `n` and `p` broadcast to.
    dtype : floating dtype, optional

    Returns
    -------
    floating[shape]
        Whole numbers; NaN where `n` is negative or NaN or `p` is no probability.

    Raises
    ------
    ValueError
        `dtype` is not floating.
    """
    key = single_key("binomial", key)
    check_arraylike("binomial", n, p)
    dtype = float_dtype("binomial", dtype)
    shape = common_shape("binomial", shape, n, p)
    return _binomial(key, n, promote_dtypes_inexact(p)[0], shape=shape, dtype=dtype)


def multinomial(key: Any, n: Any, p: Any, *, shape: Any = None, dtype: Any = None, unroll: int | bool = 1) -> Any:
    """Draw how `n` trials fall into categories.

    Parameters
    ----------
    key : key[] or uint32[2]
    n : float[...]
        Broadcasts to the leading axes of `shape`.
    p : float[..., k]
        Probabilities of the categories; broadcast to `shape`.
    shape : sequence of int, optional
        With the axis of categories last. Default: the shape of `p`.
    dtype : dtype, optional
        Default float.
    unroll : int or bool
        How many categories one step of the loop treats.

    Returns
    -------
    dtype[shape]
    """
    key = single_key("multinomial", key)
    check_arraylike("multinomial", n, p)
    n, p = promote_dtypes_inexact(n, p)
    shape = p.shape if shape is None else shapes.canonical_shape(shape)
    n, p = pnp.broadcast_to(n, shape[:-1]), pnp.moveaxis(pnp.broadcast_to(p, shape), -1, 0)
    remaining = cumsum(p, 0, reverse=True)  # of each category and all behind it
    ratios = p / pnp.where(remaining == 0, 1, remaining)
    keys = random_split(key, (ratios.shape[0],))

    def category(rest: Any, step: Any) -> tuple[Any, Any]:
        ratio, key = step
        count = _binomial.core(key, rest, pnp.clip(ratio, 0, 1), shape=aval_of(rest).shape, dtype=aval_of(rest).dtype)
        return rest - count, count

    _, counts = scan(category, n, (ratios, keys), unroll=unroll)
    return pnp.moveaxis(counts, 0, -1).astype(dtypes.default_float() if dtype is None else dtypes.named(dtype))
