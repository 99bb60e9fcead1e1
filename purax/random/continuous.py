# SPDX-License-Identifier: Apache-2.0
"""Continuous distributions that are functions of uniform and normal numbers.

Results are dtype[shape]. Parameters of distributions that `dtype` would take digits from raise TypePromotionError.

Parameters
----------
key : key[] or uint32[2]
shape : sequence of int, optional
    By default that to which the parameters broadcast, which must broadcast to it.
dtype : floating dtype, optional
    The default float; others raise ValueError.
out_sharding : sharding, optional
    Layout of the result over devices.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from purax import dtypes
from purax import numpy as pnp
from purax.primitives import cast, elementwise, special
from purax.primitives import shape as shapes
from purax.primitives.random_bits import random_bits, random_split
from purax.primitives.stop_gradient import stop_gradient
from purax.random.bits import _uniform
from purax.random.draw import check_castable, common_shape, float_dtype, placed, sampler, to
from purax.random.keys import single_key

__all__ = [
    "cauchy", "double_sided_maxwell", "exponential", "gumbel", "laplace", "logistic", "lognormal", "maxwell", "normal", "pareto",
    "rayleigh", "triangular", "truncated_normal", "wald", "weibull_min",
]  # fmt: skip


_ONE = np.float32(1)


def two_keys(key: Any) -> tuple[Any, Any]:
    """Two new keys."""
    keys = random_split(key, (2,))
    return keys[0], keys[1]


# --- normal -------------------------------------------------------------------------------------------------------------------


@sampler
def _normal(key: Any, *, shape: Any, dtype: Any) -> Any:
    """The inverse of the normal distribution function, of a number in (-1, 1); complex: one part from each of two keys."""
    if dtypes.is_complex(dtype):
        part = dtypes.real_dtype(dtype)
        real, imag = (_normal.core(k, shape=shape, dtype=part).astype(dtype) for k in two_keys(key))
        return (real + 1j * imag) / np.array(np.sqrt(2), dtype)
    low = np.nextafter(np.array(-1, dtype), np.array(0, dtype), dtype=dtype)
    drawn = _uniform.core(key, low, np.array(1, dtype), shape=shape, dtype=dtype)
    return elementwise.mul(shapes.scalar(np.sqrt(2), dtype), special.erf_inv(drawn))


def normal(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """Draw from the normal distribution with mean 0 and variance 1.

    Parameters
    ----------
    key : key[] or uint32[2]
    shape : sequence of int
    dtype : floating or complex dtype, optional
        The parts of complex draws have variance 1/2 each.
    out_sharding : sharding, optional
        Layout of the result over devices.

    Returns
    -------
    dtype[shape]

    Raises
    ------
    ValueError
        `dtype` is an integer dtype.

    Examples
    --------
    >>> purax.random.normal(purax.random.key(0), (2, 3)).shape
    (2, 3)
    """
    key = single_key("normal", key)
    dtype = float_dtype("normal", dtype, complex_too=True)
    return placed(_normal(key, shape=shapes.canonical_shape(shape), dtype=dtype), out_sharding)


@sampler
def _truncated_normal(key: Any, lower: Any, upper: Any, *, shape: Any, dtype: Any) -> Any:
    """As `normal`, of a number between the values of the distribution function at the limits."""
    root = np.array(np.sqrt(2), dtype)
    lower, upper = to(lower, dtype), to(upper, dtype)
    drawn = _uniform.core(key, special.erf(lower / root), special.erf(upper / root), shape=shape, dtype=dtype)
    out = root * special.erf_inv(drawn)
    return pnp.clip(
        out,
        elementwise.nextafter(stop_gradient(lower), shapes.scalar(np.inf, dtype)),
        elementwise.nextafter(stop_gradient(upper), shapes.scalar(-np.inf, dtype)),
    )


def truncated_normal(
    key: Any, lower: Any, upper: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Any:
    """Draw from the normal distribution between `lower` and `upper` (exclusive). Differentiable in the limits.

    See `purax.random.continuous` for the arguments that its functions share.

    Parameters
    ----------
    lower, upper : real[...]

    Returns
    -------
    dtype[shape]
    """
    key = single_key("truncated_normal", key)
    dtype = float_dtype("truncated_normal", dtype)
    shape = common_shape("truncated_normal", shape, lower, upper)
    return placed(_truncated_normal(key, lower, upper, shape=shape, dtype=dtype), out_sharding)


@sampler
def _lognormal(key: Any, sigma: Any, *, shape: Any, dtype: Any) -> Any:
    return elementwise.exp(_normal.core(key, shape=shape, dtype=dtype) * to(sigma, dtype))


def lognormal(key: Any, sigma: Any = _ONE, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """Draw from the distribution whose logarithm is normal with mean 0 and deviation `sigma`; the dtype may be complex.

    See `purax.random.continuous` for the arguments that its functions share.
    """
    key = single_key("lognormal", key)
    dtype = float_dtype("lognormal", dtype, complex_too=True)
    shape = common_shape("lognormal", shape, sigma)
    check_castable("lognormal", dtype, sigma)
    return placed(_lognormal(key, sigma, shape=shape, dtype=dtype), out_sharding)


@sampler
def _maxwell(key: Any, *, shape: Any, dtype: Any) -> Any:
    """The length of a normal vector in three dimensions."""
    vectors = _normal.core(key, shape=(*shape, 3), dtype=dtype)
    return elementwise.sqrt(pnp.sum(vectors * vectors, axis=-1))


def maxwell(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """Draw from Maxwell's distribution of speeds, with density `sqrt(2 / pi) x**2 exp(-x**2 / 2)`.

    See `purax.random.continuous` for the arguments that its functions share.
    """
    key = single_key("maxwell", key)
    dtype = float_dtype("maxwell", dtype)
    return placed(_maxwell(key, shape=shapes.canonical_shape(shape), dtype=dtype), out_sharding)


@sampler
def _double_sided_maxwell(key: Any, loc: Any, scale: Any, *, shape: Any, dtype: Any) -> Any:
    key_speed, key_sign = two_keys(key)
    speeds = _maxwell.core(key_speed, shape=shape, dtype=dtype)
    positive = _uniform.core(key_sign, shape=shape, dtype=dtypes.default_float()) < 0.5
    signs = 2 * positive.astype(dtype) - 1
    return signs * speeds * scale + loc


def double_sided_maxwell(key: Any, loc: Any, scale: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Draw from Maxwell's distribution with random signs, times `scale`, plus `loc`.

    Parameters
    ----------
    key : key[] or uint32[2]
    loc, scale : float[...]
        Of common shape S.
    shape : sequence of int
        Default: S.
    dtype : floating dtype, optional

    Returns
    -------
    floating[*shape, *S]
    """
    key = single_key("double_sided_maxwell", key)
    dtype = float_dtype("double_sided_maxwell", dtype)
    common = common_shape("double_sided_maxwell", None, loc, scale)
    shape = (*(shapes.canonical_shape(shape) or common), *common)
    return _double_sided_maxwell(key, loc, scale, shape=shape, dtype=dtype)


@sampler
def _wald(key: Any, mean: Any, *, shape: Any, dtype: Any) -> Any:
    """Michael, Schucany, Haas (1976): one of two roots of a quadratic in the square of a normal number."""
    key_normal, key_choice = two_keys(key)
    mean = to(mean, dtype, shape)
    y = elementwise.integer_pow(_normal.core(key_normal, shape=shape, dtype=dtype), 2)
    choice = _uniform.core(key_choice, shape=shape, dtype=dtype)
    mean_squared = elementwise.integer_pow(mean, 2)
    root = elementwise.sqrt(4 * mean * y + mean_squared * elementwise.integer_pow(y, 2))
    x = mean + mean_squared * y / 2 - mean / 2 * root
    return elementwise.select(choice <= mean / (mean + x), x, mean_squared / x)


def wald(key: Any, mean: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """Draw from Wald's distribution (inverse Gaussian) with scale 1 and the given `mean`.

    The density is `exp(-(x - mean)**2 / (2 mean**2 x)) / sqrt(2 pi x**3)`.

    See `purax.random.continuous` for the arguments that its functions share.
    """
    key = single_key("wald", key)
    dtype = float_dtype("wald", dtype)
    shape = common_shape("wald", shape, mean)
    check_castable("wald", dtype, mean)
    return placed(_wald(key, mean, shape=shape, dtype=dtype), out_sharding)


# --- functions of a uniform number ------------------------------------------------------------------------------------------------


@sampler
def _exponential(key: Any, *, shape: Any, dtype: Any) -> Any:
    return -elementwise.log1p(-_uniform.core(key, shape=shape, dtype=dtype))


def exponential(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """Draw from the exponential distribution with mean 1, with density `exp(-x)`.

    See `purax.random.continuous` for the arguments that its functions share.
    """
    key = single_key("exponential", key)
    dtype = float_dtype("exponential", dtype)
    return placed(_exponential(key, shape=shapes.canonical_shape(shape), dtype=dtype), out_sharding)


@sampler
def _cauchy(key: Any, *, shape: Any, dtype: Any) -> Any:
    drawn = _uniform.core(key, dtypes.finfo(dtype).eps, 1.0, shape=shape, dtype=dtype)
    return elementwise.tan(shapes.scalar(np.pi, dtype) * (drawn - 0.5))


def cauchy(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """Draw from Cauchy's distribution, with density `1 / (pi (1 + x**2))`.

    See `purax.random.continuous` for the arguments that its functions share.
    """
    key = single_key("cauchy", key)
    dtype = float_dtype("cauchy", dtype)
    return placed(_cauchy(key, shape=shapes.canonical_shape(shape), dtype=dtype), out_sharding)


@sampler
def _laplace(key: Any, *, shape: Any, dtype: Any) -> Any:
    drawn = _uniform.core(key, -1.0 + dtypes.finfo(dtype).epsneg, 1.0, shape=shape, dtype=dtype)
    return elementwise.sign(drawn) * elementwise.log1p(-elementwise.abs(drawn))


def laplace(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """Draw from Laplace's distribution, with density `exp(-|x|) / 2`.

    See `purax.random.continuous` for the arguments that its functions share.
    """
    key = single_key("laplace", key)
    dtype = float_dtype("laplace", dtype)
    return placed(_laplace(key, shape=shapes.canonical_shape(shape), dtype=dtype), out_sharding)


@sampler
def _logistic(key: Any, *, shape: Any, dtype: Any) -> Any:
    drawn = _uniform.core(key, dtypes.finfo(dtype).tiny, 1.0, shape=shape, dtype=dtype)
    return elementwise.log(drawn) - elementwise.log1p(-drawn)


def logistic(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """Draw from the logistic distribution, whose distribution function is the sigmoid.

    See `purax.random.continuous` for the arguments that its functions share.
    """
    key = single_key("logistic", key)
    dtype = float_dtype("logistic", dtype)
    return placed(_logistic(key, shape=shapes.canonical_shape(shape), dtype=dtype), out_sharding)


@sampler
def _gumbel(key: Any, *, shape: Any, dtype: Any, mode: str) -> Any:
    """Minus the logarithm of an exponential number; the modes differ in how far the tail reaches."""
    info = dtypes.finfo(dtype)
    if mode == "highest" and dtype == np.float32:
        return _gumbel_of_64_bits(random_bits(key, 32, (2, *shape)))
    if mode != "low":
        high, low = _uniform.core(key, 0.0, 1.0, shape=(2, *shape), dtype=dtype)
        x = pnp.where(high >= 0.5, high, high + 2.0**-(info.nmant) * low + info.tiny)
        return -elementwise.log(-elementwise.log1p(-x))
    return -elementwise.log(-elementwise.log(_uniform.core(key, info.tiny, 1.0, shape=shape, dtype=dtype)))


def _gumbel_of_64_bits(words: Any) -> Any:
    """From pairs of uint32 as fixed-point numbers of 64 bits: uint32[2, ...] -> float32[...].

    Numbers up to one half are taken as they are, others by their distance from one, so that both tails have full precision.
    """
    flip = words[0] < np.uint32(1 << 31)
    inverted = elementwise.bitwise_not(words)
    carry = (inverted[1] == np.uint32(0xFFFFFFFF)).astype(np.uint32)
    negated = pnp.stack([inverted[0] + carry, inverted[1] + np.uint32(1)])
    x = _fraction(pnp.where(flip, words, negated))
    return pnp.where(flip, -elementwise.log(-elementwise.log1p(-x)), -elementwise.log(-elementwise.log(x)))


def _fraction(words: Any) -> Any:
    """Fixed-point numbers `words / 2**64` as float32, truncated: built of exponent and mantissa, with no rounding."""
    high, low = words[0], words[1]
    high_zeros, low_zeros = elementwise.clz(high), elementwise.clz(low)
    empty = high_zeros == np.uint32(32)
    rest = pnp.where(
        empty, elementwise.shift_left(low, low_zeros), elementwise.shift_right_logical(low, np.uint32(32) - high_zeros)
    )
    mantissa = elementwise.bitwise_or(elementwise.shift_left(high, high_zeros), rest)
    mantissa = elementwise.bitwise_and(
        elementwise.shift_right_logical(mantissa, np.uint32(8)), np.uint32((1 << 23) - 1)
    )
    zeros = pnp.where(empty, np.uint32(32) + low_zeros, high_zeros)
    exponent = elementwise.shift_left(np.uint32(126) - zeros, np.uint32(23))
    exponent = elementwise.bitwise_and(exponent, np.uint32((1 << 30) - (1 << 22)))
    return cast.bitcast_convert_type(elementwise.bitwise_or(exponent, mantissa), np.float32)


def gumbel_mode(mode: Any) -> str:
    """The mode of `gumbel`, checked.

    Raises
    ------
    ValueError
        It is none of "low", "high", "highest".
    """
    if mode is None:
        return "low"
    if mode not in ("highest", "high", "low"):
        raise ValueError(f"gumbel: mode is 'low', 'high' or 'highest', got {mode!r}")
    return str(mode)


def gumbel(key: Any, shape: Any = (), dtype: Any = None, mode: Any = None, *, out_sharding: Any = None) -> Any:
    """Draw from Gumbel's distribution, with density `exp(-(x + exp(-x)))`.

    Parameters
    ----------
    key, shape, dtype, out_sharding
        As in `uniform`.
    mode : "low" (the default), "high" or "highest"
        How finely the tails are resolved: by one uniform number, by two, by 64 bits.

    Returns
    -------
    floating[shape]
    """
    key = single_key("gumbel", key)
    dtype, mode = float_dtype("gumbel", dtype), gumbel_mode(mode)
    return placed(_gumbel(key, shape=shapes.canonical_shape(shape), dtype=dtype, mode=mode), out_sharding)


@sampler
def _pareto(key: Any, b: Any, *, shape: Any, dtype: Any) -> Any:
    return elementwise.exp(_exponential.core(key, shape=shape, dtype=dtype) / to(b, dtype))


def pareto(key: Any, b: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """Draw from Pareto's distribution, with density `b / x**(b + 1)` for x >= 1.

    See `purax.random.continuous` for the arguments that its functions share.
    """
    key = single_key("pareto", key)
    dtype = float_dtype("pareto", dtype)
    shape = common_shape("pareto", shape, b)
    check_castable("pareto", dtype, b)
    return placed(_pareto(key, b, shape=shape, dtype=dtype), out_sharding)


@sampler
def _rayleigh(key: Any, scale: Any, *, shape: Any, dtype: Any) -> Any:
    drawn = _uniform.core(key, shape=shape, dtype=dtype)
    return to(scale, dtype, shape) * elementwise.sqrt(elementwise.log(drawn) * -2.0)


def rayleigh(key: Any, scale: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """Draw from Rayleigh's distribution, with density `x / scale**2 exp(-x**2 / (2 scale**2))`.

    See `purax.random.continuous` for the arguments that its functions share.
    """
    key = single_key("rayleigh", key)
    dtype = float_dtype("rayleigh", dtype)
    shape = common_shape("rayleigh", shape, scale)
    check_castable("rayleigh", dtype, scale)
    return placed(_rayleigh(key, scale, shape=shape, dtype=dtype), out_sharding)


@sampler
def _triangular(key: Any, left: Any, mode: Any, right: Any, *, shape: Any, dtype: Any) -> Any:
    left, mode, right = (to(x, dtype, shape) for x in (left, mode, right))
    turn = (mode - left) / (right - left)
    drawn = _uniform.core(key, shape=shape, dtype=dtype)
    rising = left + elementwise.sqrt(drawn * (right - left) * (mode - left))
    falling = right - elementwise.sqrt((1 - drawn) * (right - left) * (right - mode))
    return elementwise.select(drawn < turn, rising, falling)


def triangular(
    key: Any, left: Any, mode: Any, right: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Any:
    """Draw from the triangular distribution on [left, right] with its peak at `mode`.

    See `purax.random.continuous` for the arguments that its functions share.

    Parameters
    ----------
    left, mode, right : real[...]

    Returns
    -------
    dtype[shape]
    """
    key = single_key("triangular", key)
    dtype = float_dtype("triangular", dtype)
    shape = common_shape("triangular", shape, left, mode, right)
    check_castable("triangular", dtype, left, mode, right)
    return placed(_triangular(key, left, mode, right, shape=shape, dtype=dtype), out_sharding)


@sampler
def _weibull_min(key: Any, scale: Any, concentration: Any, *, shape: Any, dtype: Any) -> Any:
    drawn = _uniform.core(key, shape=shape, dtype=dtype)
    return pnp.power(-elementwise.log1p(-drawn), 1.0 / concentration) * scale


def weibull_min(key: Any, scale: Any, concentration: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Draw from Weibull's distribution, with density `c / s * (x / s)**(c - 1) * exp(-(x / s)**c)`.

    `scale` (s) and `concentration` (c) broadcast against `shape`.

    See `purax.random.continuous` for the arguments that its functions share.

    Parameters
    ----------
    scale, concentration : real[...]

    Returns
    -------
    dtype[...]
    """
    key = single_key("weibull_min", key)
    dtype = float_dtype("weibull_min", dtype)
    return _weibull_min(key, scale, concentration, shape=shapes.canonical_shape(shape), dtype=dtype)
