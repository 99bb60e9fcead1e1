# SPDX-License-Identifier: Apache-2.0
"""Bessel functions and spherical harmonics.

Operands broadcast; results have their common shape and inexact dtype unless a function says otherwise.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from purax import dtypes, errors
from purax import numpy as pnp
from purax.control.jit import jit
from purax.control.loop import scan
from purax.core.trace import aval_of
from purax.numpy.promotion import promote_inexact
from purax.primitives import special
from purax.primitives.complex import complex as make_complex
from purax.scipy.special._series import apply

__all__ = ["bessel_jn", "i0", "i0e", "i1", "i1e", "sph_harm_y"]


def i0(x: Any) -> Any:
    """Modified Bessel function of order 0."""
    return special.bessel_i(0, *promote_inexact("i0", x))


def i1(x: Any) -> Any:
    """Modified Bessel function of order 1."""
    return special.bessel_i(1, *promote_inexact("i1", x))


def i0e(x: Any) -> Any:
    """exp(-|x|) i0(x)."""
    return apply(special.bessel_i0e_p, x)


def i1e(x: Any) -> Any:
    """exp(-|x|) i1(x)."""
    return apply(special.bessel_i1e_p, x)


def _miller(z: Any, *, v: int, n_iter: int) -> Any:
    """The recurrence from high to low orders, scaled when it grows large; normalized by J0 + 2 J2 + 2 J4 + ... = 1."""
    limit = 1e12 if z.dtype.itemsize <= 4 else 1e120
    zero = z == 0
    safe = pnp.where(zero, 1, z)

    first = np.arange(v + 1).reshape((v + 1,) + (1,) * z.ndim).astype(z.dtype)

    def step(carry: Any, k: Any) -> Any:
        after, here, total, kept = carry
        before = 2 * (k + 1) / safe * here - after
        even = pnp.where(k == 0, 1.0, pnp.where(k - 2 * pnp.floor(k / 2) == 0, 2.0, 0.0))
        total = total + even * before
        kept = pnp.where(first == k, before[None], kept)
        shrink = pnp.where(pnp.abs(before) > limit, 1 / limit, 1).astype(z.dtype)
        return (here * shrink, before * shrink, total * shrink, kept * shrink[None]), None

    start = (pnp.zeros_like(z), pnp.ones_like(z), pnp.zeros_like(z), pnp.zeros((v + 1, *z.shape), z.dtype))
    orders = np.arange(max(n_iter, v + 1) - 1, -1, -1).astype(z.dtype)
    _, _, total, kept = scan(step, start, orders)[0]
    return pnp.where(zero[None], (first == 0).astype(z.dtype), kept / total[None])


_miller_jit = jit(_miller, static_argnames=("v", "n_iter"))


def bessel_jn(z: Any, *, v: int, n_iter: int = 50) -> Any:
    """Bessel functions of the first kind of the orders 0 to v.

    Parameters
    ----------
    z : float[...]
    v : int
    n_iter : int
        Order at which the recurrence starts; it should exceed v and |z| by about 20.

    Returns
    -------
    float[v + 1, ...]

    Raises
    ------
    DTypeError
        `z` is complex.
    ValueError
        `v` is negative.
    """
    z = pnp.asarray(z)
    (z,) = promote_inexact("bessel_jn", z)
    if dtypes.is_complex(z.aval.dtype):
        raise errors.DTypeError("complex input not supported.")
    v, n_iter = operator.index(v), operator.index(n_iter)
    if v < 0:
        raise ValueError(f"bessel_jn: the order must not be negative, got {v}")
    return _miller_jit(z, v=v, n_iter=n_iter)


def _harmonics(n: Any, m: Any, theta: Any, phi: Any, *, n_max: int) -> Any:
    """Normalized Legendre functions by the recurrence in n from the first of order |m|, times exp(i m phi)."""
    dtype = theta.dtype
    x, sine = pnp.cos(theta), pnp.abs(pnp.sin(theta))
    order = pnp.abs(m)
    a = order.astype(dtype)
    # (2m - 1)!! / sqrt((2m)!) = sqrt((2m)!) / (2^m m!)
    scale = 0.5 * special.lgamma(2 * a + 1) - a * math.log(2) - special.lgamma(a + 1)
    first = pnp.sqrt((2 * a + 1) / (4 * math.pi)) * pnp.exp(scale)
    sign = pnp.where(order % 2 == 0, 1, -1).astype(dtype)
    raised = pnp.where(order == 0, 1, pnp.where(order == 0, 1, sine) ** a)
    start = sign * first * raised

    def step(carry: Any, k: Any) -> Any:
        before, here = carry
        level = k.astype(dtype)
        active = (k > order) & (k <= n)
        gap = pnp.where(active, level * level - a * a, 1)
        earlier = pnp.where(active, (level - 1) ** 2 - a * a, 0)
        first_factor = pnp.sqrt((4 * level * level - 1) / gap)
        ratio = earlier / pnp.where(active, 4 * (level - 1) ** 2 - 1, 1)
        inside = active & (earlier > 0)
        second_factor = pnp.where(inside, pnp.sqrt(pnp.where(inside, ratio, 1)), 0)
        new = first_factor * (x * here - second_factor * before)
        return (pnp.where(active, here, before), pnp.where(active, new, here)), None

    levels = np.arange(1, n_max + 1, dtype=np.int32)
    (_, value) = scan(step, (pnp.zeros_like(start), start), levels)[0]
    value = pnp.where(order > n, 0, value)
    value = pnp.where((m < 0) & (order % 2 == 1), -value, value)
    angle = m.astype(dtype) * phi
    return make_complex(value * pnp.cos(angle), value * pnp.sin(angle))


_harmonics_jit = jit(_harmonics, static_argnames=("n_max",))


def sph_harm_y(n: Any, m: Any, theta: Any, phi: Any, diff_n: int | None = None, n_max: int | None = None) -> Any:
    """Spherical harmonics with Condon and Shortley's phase.

    Parameters
    ----------
    n, m : int[...]
        Degree and order; 0 where |m| > n.
    theta, phi : float[...]
        Polar angle (from 0 to pi) and azimuth.
    diff_n : None
        Derivatives come from `purax.grad` and `purax.jvp`.
    n_max : int, optional
        The largest degree; by default that of `n`, which must then be concrete.

    Returns
    -------
    complex[...]

    Raises
    ------
    DTypeError
        `n` or `m` are not integers.
    ValueError
        `diff_n` is given.
    """
    if diff_n is not None:
        raise ValueError("sph_harm_y: diff_n is not taken; differentiate with purax.jvp or purax.grad")
    if n_max is None:
        n_max = int(np.max(np.asarray(n)))
    theta, phi = promote_inexact("sph_harm_y", theta, phi)
    n, m, theta, phi = pnp.broadcast_arrays(pnp.asarray(n), pnp.asarray(m), theta, phi)
    for name, x in (("n", n), ("m", m)):
        if not dtypes.is_integer(aval_of(x).dtype):
            raise errors.DTypeError(f"sph_harm_y: {name} must be of integers, got {aval_of(x).dtype}")
    return _harmonics_jit(n, m, theta, phi, n_max=operator.index(n_max))
