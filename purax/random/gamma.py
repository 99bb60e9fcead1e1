# SPDX-License-Identifier: Apache-2.0
"""The gamma distribution and what follows from it. Draws are differentiable in their parameters.

Results are dtype[shape].

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

import math
import operator
from typing import Any

import numpy as np

from purax import dtypes
from purax import numpy as pnp
from purax.control.key_reuse import SPENDING
from purax.control.loop import while_loop
from purax.core.interpret import eval_jaxpr
from purax.core.stage import stage
from purax.core.trace import aval_of
from purax.primitives import elementwise, special
from purax.primitives import shape as shapes
from purax.primitives.operands import dtype_name, to_front
from purax.primitives.random_bits import KeyPrimitive, random_split
from purax.primitives.stop_gradient import stop_gradient
from purax.random.bits import _uniform
from purax.random.continuous import _exponential, _normal, two_keys
from purax.random.discrete import _rademacher
from purax.random.draw import check_castable, common_shape, float_dtype, placed, sampler, to
from purax.random.keys import single_key
from purax.transforms.keys import physicalize
from purax.transforms.vmap import vmap

__all__ = [
    "ball", "beta", "chisquare", "dirichlet", "f", "gamma", "generalized_normal", "loggamma", "random_gamma_p", "t",
]  # fmt: skip


def _one_gamma(key: Any, alpha: Any, log_space: bool) -> Any:
    """Marsaglia, Tsang (2000): a cubed normal number, rejected seldom; for `alpha < 1`, a draw for `alpha + 1` times a power.

    In the logarithm, small `alpha` do not underflow.
    """
    dtype = aval_of(alpha).dtype
    zero, one = shapes.scalar(0.0, dtype), shapes.scalar(1.0, dtype)
    large = alpha >= 1
    raised = elementwise.select(large, alpha, alpha + 1)
    d = raised - shapes.scalar(1 / 3, dtype)
    c = shapes.scalar(1 / 3, dtype) / elementwise.sqrt(d)

    def rejected(state: Any) -> Any:
        _, x, v, u = state
        near = u >= 1 - shapes.scalar(0.0331, dtype) * (x * x)
        return elementwise.bitwise_and(near, elementwise.log(u) >= x * 0.5 + d * (one - v + elementwise.log(v)))

    def draw(state: Any) -> Any:
        keys = random_split(state[0], (3,))

        def propose(inner: Any) -> Any:
            key, subkey = two_keys(inner[0])
            x = _normal.core(subkey, shape=(), dtype=dtype)
            return key, x, one + x * c

        _, x, v = while_loop(lambda inner: inner[2] <= 0, propose, (keys[1], zero, -one))
        return keys[0], x * x, v * v * v, _uniform.core(keys[2], shape=(), dtype=dtype)

    key, boost_key = two_keys(key)
    v = while_loop(rejected, draw, (key, zero, one, shapes.scalar(2.0, dtype)))[2]
    if log_space:
        samples = -_exponential.core(boost_key, shape=(), dtype=dtype)
        boost = elementwise.select(elementwise.bitwise_or(large, samples == 0), zero, samples * (one / alpha))
        return elementwise.log(d) + elementwise.log(v) + boost
    samples = 1 - _uniform.core(boost_key, shape=(), dtype=dtype)
    return d * v * elementwise.select(large, one, elementwise.pow(samples, one / alpha))


def _many_gammas(keys: Any, alpha: Any, log_space: bool) -> Any:
    """A key of its own for each draw: key[K], floating[*K, *S] -> floating[*K, *S]."""
    sizes, lead = aval_of(alpha).shape, aval_of(keys).ndim
    apart = random_split(keys, (math.prod(sizes[lead:]),))
    count = math.prod(sizes)
    one = vmap(lambda key, a: _one_gamma(key, a, log_space))
    return shapes.reshape(one(shapes.reshape(apart, (count,)), shapes.reshape(alpha, (count,))), sizes)


class RandomGamma(KeyPrimitive):
    """A draw from the gamma distribution (its logarithm if `log_space`) for each `alpha`, whose first axes are those of the keys."""

    def infer(self, keys: Any, alpha: Any, *, log_space: bool, impl: Any) -> Any:
        """The aval of `alpha`."""
        if not dtypes.is_float(alpha.dtype) or alpha.shape[: keys.ndim] != keys.shape:
            raise TypeError(
                f"random_gamma of keys of shape {keys.shape} and {dtype_name(alpha)} of shape {alpha.shape}"
            )
        return (alpha.strip_weak(),)

    def words(self, words: Any, alpha: Any, *, log_space: bool, impl: Any) -> Any:
        """The sampler, turned into a program over words."""
        lead = aval_of(words).shape[: aval_of(words).ndim - len(impl.key_shape)]
        avals = [aval_of(alpha).update(shape=lead, dtype=impl.dtype, weak_type=False), aval_of(alpha)]
        closed = stage(lambda keys, alpha: [_many_gammas(keys, alpha, log_space)], avals, "gamma")
        return tuple(eval_jaxpr(physicalize(closed.jaxpr), closed.consts, words, alpha))

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> Any:
        """How the draw moves with `alpha` while its place in the distribution stays; none with the key."""
        out = self.bind1(*primals, **params)
        if tangents[1] is None:
            return (out,), (None,)
        alpha = primals[1]
        if not params["log_space"]:
            return (out,), (elementwise.strong_mul(tangents[1], special.random_gamma_grad(alpha, out)),)
        draw = elementwise.exp(out)
        draw = elementwise.select(draw == 0, shapes.full_like(draw, float(dtypes.finfo(draw.aval.dtype).tiny)), draw)
        return (out,), (elementwise.strong_mul(tangents[1], special.random_gamma_grad(alpha, draw) / draw),)

    def batch(self, axis: Any, values: Any, dims: Any, **params: Any) -> Any:
        """Keys and parameters with the mapped axis in front."""
        return self.bind(*[to_front(axis, x, d) for x, d in zip(values, dims, strict=True)], **params), (0,)


random_gamma_p = RandomGamma("random_gamma")
SPENDING.add(random_gamma_p)


@sampler
def _gamma(key: Any, a: Any, *, shape: Any, dtype: Any, log_space: bool = False) -> Any:
    return random_gamma_p.bind1(key, to(a, dtype, shape), log_space=log_space, impl=aval_of(key).dtype.impl)


def gamma(key: Any, a: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """Draw from the gamma distribution, with density proportional to `x**(a - 1) * exp(-x)`.

    Parameters
    ----------
    key : key[] or uint32[2]
    a : float[...]
        Shape parameter, positive; broadcasts to `shape`. Draws are differentiable in it.
    shape : sequence of int, optional
        Default: the shape of `a`.
    dtype : floating dtype, optional
    out_sharding : sharding, optional
        Layout of the result over devices.

    Returns
    -------
    floating[shape]

    Raises
    ------
    ValueError
        `dtype` is not floating, or `a` does not broadcast to `shape`.
    """
    key = single_key("gamma", key)
    dtype = float_dtype("gamma", dtype)
    return placed(_gamma(key, a, shape=common_shape("gamma", shape, a), dtype=dtype), out_sharding)


def loggamma(key: Any, a: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """Draw the logarithm of a gamma variable of shape `a`; exact for small `a`, where the variable itself underflows.

    See `purax.random.gamma` for the arguments that its functions share.
    """
    key = single_key("loggamma", key)
    dtype = float_dtype("loggamma", dtype)
    shape = common_shape("loggamma", shape, a)
    return placed(_gamma(key, a, shape=shape, dtype=dtype, log_space=True), out_sharding)


@sampler
def _beta(key: Any, a: Any, b: Any, *, shape: Any, dtype: Any) -> Any:
    """The share of one gamma variable in the sum of two, by their logarithms."""
    key_a, key_b = two_keys(key)
    log_a = _gamma.core(key_a, a, shape=shape, dtype=dtype, log_space=True)
    log_b = _gamma.core(key_b, b, shape=shape, dtype=dtype, log_space=True)
    top = elementwise.max(log_a, log_b)
    share_a, share_b = elementwise.exp(log_a - top), elementwise.exp(log_b - top)
    return share_a / (share_a + share_b)


def beta(key: Any, a: Any, b: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """Draw from the beta distribution, with density proportional to `x**(a - 1) * (1 - x)**(b - 1)` on (0, 1).

    See `purax.random.gamma` for the arguments that its functions share.
    """
    key = single_key("beta", key)
    dtype = float_dtype("beta", dtype)
    check_castable("beta", dtype, a, b)
    return placed(_beta(key, a, b, shape=common_shape("beta", shape, a, b), dtype=dtype), out_sharding)


@sampler
def _dirichlet(key: Any, alpha: Any, *, shape: Any, dtype: Any) -> Any:
    logs = _gamma.core(key, alpha, shape=(*shape, aval_of(alpha).shape[-1]), dtype=dtype, log_space=True)
    if not aval_of(logs).size:
        return logs
    parts = elementwise.exp(logs - stop_gradient(pnp.max(logs, axis=-1, keepdims=True)))
    return parts / pnp.sum(parts, axis=-1, keepdims=True)


def dirichlet(key: Any, alpha: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """Draw vectors of positive numbers with sum 1, of density proportional to the product of `x**(alpha - 1)`.

    Parameters
    ----------
    key : key[] or uint32[2]
    alpha : float[..., n]
    shape : sequence of int, optional
        Of the array of vectors; the leading axes of `alpha` broadcast to it. Default: those axes.
    dtype : floating dtype, optional
    out_sharding : sharding, optional
        Layout of the result over devices.

    Returns
    -------
    floating[*shape, n]

    Raises
    ------
    ValueError
        `alpha` is a scalar, or does not fit `shape`.
    """
    key = single_key("dirichlet", key)
    dtype = float_dtype("dirichlet", dtype)
    sizes = np.shape(alpha) if not hasattr(alpha, "aval") else alpha.aval.shape
    if not sizes:
        raise ValueError("dirichlet: alpha has an axis of weights, got a scalar")
    shape = sizes[:-1] if shape is None else shapes.canonical_shape(shape)
    if shapes.broadcast_shapes(shape, sizes[:-1]) != shape:
        raise ValueError(f"dirichlet: alpha of shape {sizes} does not broadcast to vectors of shape {shape}")
    return placed(_dirichlet(key, alpha, shape=shape, dtype=dtype), out_sharding)


@sampler
def _chisquare(key: Any, df: Any, *, shape: Any, dtype: Any) -> Any:
    return elementwise.exp(_gamma.core(key, to(df, dtype) / 2, shape=shape, dtype=dtype, log_space=True)) * 2


def chisquare(key: Any, df: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """Draw from the chi-square distribution with `df` degrees of freedom: twice a gamma variable of shape `df / 2`.

    See `purax.random.gamma` for the arguments that its functions share.
    """
    key = single_key("chisquare", key)
    dtype = float_dtype("chisquare", dtype)
    shape = common_shape("chisquare", shape, df)
    check_castable("chisquare", dtype, df)
    return placed(_chisquare(key, df, shape=shape, dtype=dtype), out_sharding)


@sampler
def _f(key: Any, dfnum: Any, dfden: Any, *, shape: Any, dtype: Any) -> Any:
    dfnum, dfden = to(dfnum, dtype), to(dfden, dtype)
    key_below, key_above = two_keys(key)
    above = _chisquare.core(key_above, dfnum, shape=shape, dtype=dtype)
    below = _chisquare.core(key_below, dfden, shape=shape, dtype=dtype)
    return above / dfnum / (below / dfden)


def f(key: Any, dfnum: Any, dfden: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """Draw from the F distribution: a quotient of chi-square variables, each over its degrees of freedom `dfnum` and `dfden`.

    See `purax.random.gamma` for the arguments that its functions share.
    """
    key = single_key("f", key)
    dtype = float_dtype("f", dtype)
    shape = common_shape("f", shape, dfnum, dfden)
    check_castable("f", dtype, dfnum, dfden)
    return placed(_f(key, dfnum, dfden, shape=shape, dtype=dtype), out_sharding)


@sampler
def _t(key: Any, df: Any, *, shape: Any, dtype: Any) -> Any:
    key_normal, key_gamma = two_keys(key)
    half = to(df, dtype) / 2
    drawn = _normal.core(key_normal, shape=shape, dtype=dtype)
    return drawn * elementwise.sqrt(half / _gamma.core(key_gamma, half, shape=shape, dtype=dtype))


def t(key: Any, df: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """Draw from Student's t distribution with `df` degrees of freedom.

    See `purax.random.gamma` for the arguments that its functions share.
    """
    key = single_key("t", key)
    dtype = float_dtype("t", dtype)
    shape = common_shape("t", shape, df)
    check_castable("t", dtype, df)
    return placed(_t(key, df, shape=shape, dtype=dtype), out_sharding)


@sampler
def _generalized_normal(key: Any, p: Any, *, shape: Any, dtype: Any) -> Any:
    key_size, key_sign = two_keys(key)
    drawn = _gamma.core(key_size, 1 / p, shape=shape, dtype=dtype)
    return _rademacher.core(key_sign, shape=shape, dtype=dtype) * drawn ** (1 / p)


def generalized_normal(key: Any, p: float, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """Draw from the distribution with density proportional to `exp(-|x|**p)`: floating[shape].

    See `purax.random.gamma` for the arguments that its functions share.
    """
    key = single_key("generalized_normal", key)
    dtype = float_dtype("generalized_normal", dtype)
    return placed(_generalized_normal(key, p, shape=shapes.canonical_shape(shape), dtype=dtype), out_sharding)


@sampler
def _ball(key: Any, p: Any, *, d: int, shape: Any, dtype: Any) -> Any:
    """Barthe, Guedon, Mendelson, Naor (2005): a vector of generalized normal numbers, divided by a norm with one more part."""
    key_vector, key_more = two_keys(key)
    vectors = _generalized_normal.core(key_vector, p, shape=(*shape, d), dtype=dtype)
    more = _exponential.core(key_more, shape=shape, dtype=dtype)
    norms = (pnp.sum(elementwise.abs(vectors) ** p, axis=-1) + more) ** (1 / p)
    return vectors / norms[..., None]


def ball(key: Any, d: int, p: float = 2, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """Draw uniformly from the unit ball of the p-norm in `d` dimensions: floating[*shape, d].

    See `purax.random.gamma` for the arguments that its functions share.
    """
    key = single_key("ball", key)
    dtype, shape = float_dtype("ball", dtype), shapes.canonical_shape(shape)
    return placed(_ball(key, p, d=operator.index(d), shape=shape, dtype=dtype), out_sharding)
