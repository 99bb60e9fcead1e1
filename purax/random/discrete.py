# SPDX-License-Identifier: Apache-2.0
"""Integers, coins, categories, orders: draws that follow from uniform and Gumbel numbers."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

from purax import dtypes, errors
from purax import numpy as pnp
from purax.core.trace import aval_of
from purax.numpy.promotion import check_arraylike, promote_dtypes_inexact
from purax.primitives import cast, elementwise
from purax.primitives import shape as shapes
from purax.primitives.random_bits import random_bits
from purax.primitives.sorting import sort_key_val, top_k
from purax.random.bits import UINTS, _uniform
from purax.random.continuous import _gumbel, gumbel_mode, two_keys
from purax.random.draw import common_shape, integer_dtype, placed, sampler
from purax.random.keys import single_key

__all__ = ["bernoulli", "categorical", "choice", "geometric", "permutation", "rademacher", "randint"]


# --- integers -------------------------------------------------------------------------------------------------------------------


@sampler
def _randint(key: Any, low: Any, high: Any, *, shape: Any, dtype: Any) -> Any:
    """A number of twice the bits of the dtype, modulo the span; by arithmetic on its upper and lower half."""
    info = dtypes.iinfo(dtype)
    half, unsigned = 2 ** (info.bits // 2), UINTS[info.bits]
    beyond = high > _clipped(shapes.scalar(int(info.max), dtype), aval_of(high).dtype)
    low, high = (shapes.broadcast_to_rank(_clipped(x, dtype), len(shape)) for x in (low, high))
    upper, lower = (
        random_bits(k, info.bits, shape) for k in two_keys(key)
    )  # limits keep sizes of 1: little to compute
    empty = high <= low
    span = pnp.where(empty, shapes.scalar(1, unsigned), cast.convert_element_type(high - low, unsigned))
    # A limit one above the largest number of the dtype was clipped: add it back.
    beyond = elementwise.bitwise_and(shapes.broadcast_to_rank(beyond, len(shape)), elementwise.bitwise_not(empty))
    span = span + beyond.astype(unsigned)
    factor = elementwise.rem(half, span)
    factor = elementwise.rem(factor * factor, span)
    offset = elementwise.rem(elementwise.rem(upper, span) * factor + elementwise.rem(lower, span), span)
    return low + cast.convert_element_type(offset, dtype)


def _clipped(x: Any, dtype: Any) -> Any:
    """Integers as `dtype`, those beyond it at its limits."""
    own, info = dtypes.iinfo(aval_of(x).dtype), dtypes.iinfo(dtype)
    x = pnp.clip(x, max(int(info.min), int(own.min)), min(int(info.max), int(own.max)))
    return cast.convert_element_type(x, dtype)


def _limit(value: Any, dtype: Any) -> Any:
    """A limit of `randint` as an integer array; a Python integer takes `dtype` where the default integer is too narrow."""
    if type(value) is int:
        info, default = dtypes.iinfo(dtype), dtypes.default_int()
        if not dtypes.iinfo(default).min <= value <= dtypes.iinfo(default).max and info.min <= value <= info.max:
            return shapes.scalar(value, dtype)
    value = pnp.asarray(value)
    return value if dtypes.is_integer(value.dtype) else value.astype(dtypes.default_int())


def randint(key: Any, shape: Any, minval: Any, maxval: Any, dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """Draw integers from [minval, maxval).

    Parameters
    ----------
    key : key[] or uint32[2]
    shape : sequence of int
    minval, maxval : integer[...]
        Broadcast to `shape`. Where `maxval <= minval`, the draw is `minval`.
    dtype : integer dtype, optional
    out_sharding : sharding, optional
        Layout of the result over devices.

    Returns
    -------
    integer[shape]
        Each value is equally likely up to one part in 2**32 (2**64 for 64-bit dtypes) and a little more for narrow dtypes.

    Raises
    ------
    IntegerOverflowError
        A Python integer that no default integer and no `dtype` holds.
    TypeError
        `dtype` is not an integer dtype.

    Examples
    --------
    >>> purax.random.randint(purax.random.key(0), (4,), 0, 10).dtype
    dtype('int32')
    """
    key, wanted = single_key("randint", key), integer_dtype("randint", dtype)
    check_arraylike("randint", minval, maxval)
    info, sampled = dtypes.iinfo(wanted), wanted
    low, high = _limit(minval, wanted), _limit(maxval, wanted)
    if info.bits < 32:  # few bits would favour small numbers
        sampled = dtypes.int32
        low = pnp.clip(low.astype(sampled), int(info.min), int(info.max))
        high = pnp.clip(high.astype(sampled), int(info.min), int(info.max) + 1)
    shape = common_shape("randint", shape, low, high)
    drawn = _randint(key, low, high, shape=shape, dtype=sampled)
    return placed(cast.convert_element_type(drawn, wanted), out_sharding)


@sampler
def _bernoulli(key: Any, p: Any, *, shape: Any, mode: str) -> Any:
    dtype = aval_of(p).dtype
    if mode == "high":
        first, second = _uniform.core(key, shape=(2, *shape), dtype=dtype)
        return second * 2.0 ** -dtypes.finfo(dtype).nmant < p - first
    return _uniform.core(key, shape=shape, dtype=dtype) < p


def bernoulli(key: Any, p: Any = 0.5, shape: Any = None, mode: str = "low", *, out_sharding: Any = None) -> Any:
    """Draw True with probability `p`.

    Parameters
    ----------
    key : key[] or uint32[2]
    p : floating[...]
        Broadcasts to `shape`.
    shape : sequence of int, optional
        Default: the shape of `p`.
    mode : "low" or "high"
        "high" resolves probabilities below the spacing of uniform numbers.
    out_sharding : sharding, optional
        Layout of the result over devices.

    Returns
    -------
    bool[shape]

    Raises
    ------
    TypeError
        `p` is not floating.
    ValueError
        Another mode, or `p` does not broadcast to `shape`.
    """
    if mode not in ("high", "low"):
        raise ValueError(f"got {mode=}, expected 'high' or 'low'")
    key = single_key("bernoulli", key)
    dtype = aval_of(p).dtype
    if not dtypes.is_float(dtype):
        raise TypeError(f"bernoulli: the probability p must be a float, got {dtype}")
    shape = common_shape("bernoulli", shape, p)
    return placed(_bernoulli(key, cast.convert_element_type(p, dtype), shape=shape, mode=mode), out_sharding)


@sampler
def _rademacher(key: Any, *, shape: Any, dtype: Any) -> Any:
    positive = _uniform.core(key, shape=shape, dtype=dtypes.default_float()) < 0.5
    return cast.convert_element_type(2 * cast.convert_element_type(positive, dtype) - 1, dtype)


def rademacher(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """Draw -1 or 1, each with probability one half: dtype[shape], int by default.

    Parameters
    ----------
    key : key[] or uint32[2]
    shape : sequence of int
    dtype : dtype, optional
    out_sharding : sharding, optional
        Layout of the result over devices.

    Returns
    -------
    dtype[shape]
    """
    key = single_key("rademacher", key)
    dtype = dtypes.default_int() if dtype is None or dtype is int else dtypes.named(dtype)
    return placed(_rademacher(key, shape=shapes.canonical_shape(shape), dtype=dtype), out_sharding)


@sampler
def _geometric(key: Any, p: Any, *, shape: Any, dtype: Any) -> Any:
    drawn = _uniform.core(key, shape=shape, dtype=aval_of(p).dtype)
    drawn = pnp.where(drawn == 0, 1, drawn)
    trials = elementwise.floor(elementwise.log(drawn) / shapes.broadcast_to(elementwise.log1p(-p), shape)) + 1
    return cast.convert_element_type(trials, dtype)


def geometric(key: Any, p: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """Draw the number of trials until the first success, each of probability `p`: P(k) = p (1 - p)**(k - 1) for k >= 1.

    Parameters
    ----------
    key : key[] or uint32[2]
    p : real[...]
        Broadcasts to `shape`.
    shape : sequence of int, optional
        Default: the shape of `p`.
    dtype : integer dtype, optional
    out_sharding : sharding, optional
        Layout of the result over devices.

    Returns
    -------
    dtype[shape]

    Raises
    ------
    ValueError
        `dtype` is not an integer dtype.
    """
    key = single_key("geometric", key)
    dtype = dtypes.default_int() if dtype is None or dtype is int else dtypes.named(dtype)
    if not dtypes.is_integer(dtype):
        raise ValueError(f"geometric: dtype must be an integer dtype, got {dtype}")
    check_arraylike("geometric", p)
    shape = common_shape("geometric", shape, p)
    return placed(_geometric(key, promote_dtypes_inexact(p)[0], shape=shape, dtype=dtype), out_sharding)


# --- categories -----------------------------------------------------------------------------------------------------------------


@sampler
def _categorical(key: Any, logits: Any, *, shape: Any, axis: int, mode: str) -> Any:
    """The place of the largest sum of logits and Gumbel numbers."""
    sizes = aval_of(logits).shape
    batch = len(sizes) - 1
    lead, own = shape[: len(shape) - batch], list(shape[len(shape) - batch :])
    own.insert(axis % len(sizes), sizes[axis])
    noise = _gumbel.core(key, shape=(*lead, *own), dtype=aval_of(logits).dtype, mode=mode)
    spread = shapes.expand_dims(logits, tuple(range(len(lead))))
    return pnp.argmax(noise + spread, axis=axis)


@sampler
def _categorical_distinct(key: Any, logits: Any, *, shape: Any, axis: int, mode: str) -> Any:
    """The places of the k largest sums."""
    sizes = aval_of(logits).shape
    count = math.prod(shape[: len(shape) - len(sizes) + 1])
    noisy = logits + _gumbel.core(key, shape=sizes, dtype=aval_of(logits).dtype, mode=mode)
    _, found = top_k(pnp.moveaxis(noisy, axis, -1), count)
    return shapes.reshape(pnp.moveaxis(found, -1, 0), shape)


def categorical(
    key: Any, logits: Any, axis: int = -1, shape: Any = None, replace: bool = True, mode: Any = None, *,
    out_sharding: Any = None,
) -> Any:  # fmt: skip
    """Draw categories with probabilities `softmax(logits)`.

    Parameters
    ----------
    key : key[] or uint32[2]
    logits : floating[...]
        Log-probabilities up to a constant.
    axis : int
        Along which the categories lie.
    shape : sequence of int, optional
        Ends with the shape of `logits` without `axis`, which is the default.
    replace : bool
        Whether a category may be drawn several times along the leading axes of `shape`.
    mode : str, optional
        As in `gumbel`.
    out_sharding : sharding, optional
        Layout of the result over devices.

    Returns
    -------
    int[shape]

    Raises
    ------
    ValueError
        `shape` does not fit, or asks for more distinct categories than there are.
    """
    key, mode = single_key("categorical", key), gumbel_mode(mode)
    check_arraylike("categorical", logits)
    logits = pnp.asarray(logits)
    sizes = aval_of(logits).shape
    axis = shapes.canonical_axis(axis, len(sizes)) - len(sizes)
    batch = tuple(n for i, n in enumerate(sizes) if i != axis + len(sizes))
    shape = batch if shape is None else shapes.canonical_shape(shape)
    if shapes.broadcast_shapes(shape, batch) != shape:
        raise ValueError(
            f"categorical: shape {shape} must end with the shape {batch} of the logits without the axis of categories"
        )
    if replace:
        return placed(_categorical(key, logits, shape=shape, axis=axis, mode=mode), out_sharding)
    count = math.prod(shape[: len(shape) - len(batch)])
    if count > sizes[axis]:
        raise ValueError(
            f"Number of samples without replacement ({count}) cannot exceed number of categories ({sizes[axis]})."
        )
    return placed(_categorical_distinct(key, logits, shape=shape, axis=axis, mode=mode), out_sharding)


# --- orders -----------------------------------------------------------------------------------------------------------------------


@sampler
def _shuffle(key: Any, x: Any, *, axis: int) -> Any:
    """Sort by random numbers, as many times as make equal numbers harmless."""
    sizes = aval_of(x).shape
    rounds = math.ceil(3 * math.log(max(1, math.prod(sizes))) / math.log(0xFFFFFFFF))
    for _ in range(rounds):
        key, drawing = two_keys(key)
        _, x = sort_key_val(random_bits(drawing, 32, sizes), x, axis)
    return x


def _concrete(name: str, x: Any) -> int:
    """A size that must be known."""
    try:
        return operator.index(x)
    except errors.TracerError as error:
        raise errors.ConcretizationTypeError(
            f"random.{name}: a size must be known while the program is traced. {error}"
        ) from None


def permutation(key: Any, x: Any, axis: int = 0, independent: bool = False, *, out_sharding: Any = None) -> Any:
    """Put the elements of an array, or the numbers below an integer, in random order.

    Parameters
    ----------
    key : key[] or uint32[2]
    x : int or array
    axis : int
        Along which to shuffle.
    independent : bool
        Shuffle each line along `axis` in its own order, instead of all in the same.
    out_sharding : sharding, optional
        Layout of the result over devices.

    Returns
    -------
    array
        Of the shape and dtype of `x` (int[x] for an integer).

    Raises
    ------
    TypeError
        A scalar that is not an integer.
    """
    key = single_key("permutation", key)
    check_arraylike("permutation", x)
    aval = aval_of(x)
    axis = shapes.canonical_axis(axis, aval.ndim or 1)
    if not aval.ndim:
        if not dtypes.is_integer(aval.dtype):
            raise TypeError(
                f"permutation takes an array with an axis, or an integer n for arange(n), got a scalar of dtype {aval.dtype}"
            )
        return placed(_shuffle(key, pnp.arange(_concrete("permutation", x)), axis=axis), out_sharding)
    x = pnp.asarray(x)
    if independent or aval.ndim == 1:
        return placed(_shuffle(key, x, axis=axis), out_sharding)
    order = _shuffle(key, pnp.arange(aval.shape[axis]), axis=0)
    return placed(pnp.take(x, order, axis, unique_indices=True), out_sharding)


def choice(
    key: Any, a: Any, shape: Any = (), replace: bool = True, p: Any = None, axis: int = 0, mode: Any = None
) -> Any:
    """Draw elements of an array along an axis, or numbers below an integer.

    Parameters
    ----------
    key : key[] or uint32[2]
    a : int or array
    shape : sequence of int
    replace : bool
        Whether an element may be drawn several times.
    p : floating[n], optional
        Probabilities, up to a factor; default: all equal.
    axis : int
    mode : str, optional
        As in `gumbel`; for draws without replacement that have probabilities.

    Returns
    -------
    array
        Of the dtype of `a`, with `shape` in place of `axis`.

    Raises
    ------
    ValueError
        More draws without replacement than elements, nothing to draw from, or `p` of another size.
    TypeError
        `shape` is not a sequence.
    """
    key = single_key("choice", key)
    if not isinstance(shape, Sequence):
        raise TypeError(f"choice: shape is a sequence of ints, got {shape!r}")
    check_arraylike("choice", a)
    shape = shapes.canonical_shape(shape)
    array = pnp.asarray(a)
    if array.ndim:
        axis = shapes.canonical_axis(axis, array.ndim)
        size = array.shape[axis]
    else:
        size = _concrete("choice", a)
    count = math.prod(shape)
    if count == 0:
        return pnp.zeros(shape, array.dtype)
    if size <= 0:
        raise ValueError("choice: there is nothing to choose from")
    if not replace and count > size:
        raise ValueError(f"choice without replacement: {count} were asked for of {size}")
    if p is None and not replace:
        drawn = permutation(key, array if array.ndim else size, axis)
        drawn = shapes.slice_in_dim(drawn, 0, count, axis=axis if array.ndim else 0)
    else:
        places = randint(key, shape, 0, size) if p is None else _places(key, p, size, shape, replace, mode)
        drawn = pnp.take(array, places, axis) if array.ndim else places
    sizes = array.shape
    return shapes.reshape(drawn, (*sizes[:axis], *shape, *sizes[axis + 1 :]) if array.ndim else shape)


def _places(key: Any, p: Any, size: int, shape: tuple[int, ...], replace: bool, mode: Any) -> Any:
    check_arraylike("choice", p)
    (p,) = promote_dtypes_inexact(p)
    if p.shape != (size,):
        raise ValueError(
            f"choice: p has one probability for each of the {size} things along the axis, got shape {p.shape}"
        )
    if replace:
        return _weighted(key, p, shape=shape)
    return _weighted_distinct(key, p, count=math.prod(shape), mode=gumbel_mode(mode))


@sampler
def _weighted(key: Any, p: Any, *, shape: Any) -> Any:
    total = pnp.cumsum(p)
    drawn = total[-1] * (1 - _uniform.core(key, shape=shape, dtype=total.dtype))
    return pnp.searchsorted(total, drawn).astype(dtypes.default_int())


@sampler
def _weighted_distinct(key: Any, p: Any, *, count: int, mode: str) -> Any:
    noisy = _gumbel.core(key, shape=aval_of(p).shape, dtype=aval_of(p).dtype, mode=mode) + elementwise.log(p)
    return top_k(noisy, count)[1].astype(dtypes.default_int())
