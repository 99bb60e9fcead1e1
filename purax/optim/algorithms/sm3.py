# SPDX-License-Identifier: Apache-2.0
"""SM3: Adagrad with one accumulator for each row and column."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from purax import numpy as pnp
from purax import tree
from purax.optim import tree as optim_tree
from purax.optim.base import GradientTransformation, OptState, Params, ScalarOrSchedule, Updates
from purax.optim.combine import chain
from purax.optim.numeric import abs_sq
from purax.optim.scale import scale_by_learning_rate
from purax.primitives.elementwise import rsqrt

__all__ = ["ScaleBySM3State", "scale_by_sm3", "sm3"]


class ScaleBySM3State(NamedTuple):
    """For each leaf a list of accumulators, one along each axis, and the averaged updates."""

    mu: Any
    nu: Any


def _along(axis: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(extent if index == axis else 1 for index, extent in enumerate(shape))


def scale_by_sm3(b1: Any = 0.9, b2: Any = 1.0, eps: Any = 1e-8) -> GradientTransformation:
    """Divide gradients by the root of the least of the accumulators that cover an element.

    Parameters
    ----------
    b1 : float scalar
        Decay of the averaged updates.
    b2 : float scalar
        Decay of the accumulators; 1 sums.
    eps : float scalar
        Added inside the root.

    Returns
    -------
    GradientTransformation
        s = b2 min_r(mu_r) + w |g|^2 with w = 1 - b2, or 1 if b2 is 1; mu_r <- max of s over the other axes;
        u = average of g / sqrt(s + eps) (0 where s = 0). Its state is a `ScaleBySM3State`. Source: Anil et al. 2019.
    """

    def init(params: Params) -> ScaleBySM3State:
        # A scalar has no axis; it gets one accumulator for itself.
        mu = tree.map(lambda p: [pnp.zeros(extent, p.dtype) for extent in p.shape] or [pnp.zeros((), p.dtype)], params)
        return ScaleBySM3State(mu, optim_tree.zeros_like(params))

    def accumulate(g: Any, accumulators: list[Any]) -> Any:
        shaped = [a.reshape(_along(axis, g.shape)) for axis, a in enumerate(accumulators)] if g.ndim else accumulators
        weight = pnp.where(pnp.asarray(b2) < 1, 1.0 - b2, 1.0).astype(g.dtype)
        return b2 * functools.reduce(pnp.minimum, shaped) + weight * abs_sq(g)

    def spread(s: Any, accumulators: list[Any]) -> list[Any]:
        if s.ndim == 0:
            return [s]
        others = [tuple(other for other in range(s.ndim) if other != axis) for axis in range(s.ndim)]
        return [pnp.max(s, axis=axes) if axes else s for axes in others]

    def update(updates: Updates, state: Any, params: Params | None = None) -> tuple[Updates, OptState]:
        del params
        sums = tree.map(accumulate, updates, state.mu)
        scaled = tree.map(lambda g, s: g * pnp.where(s > 0, rsqrt(pnp.where(s > 0, s + eps, 1)), 0.0), updates, sums)
        nu = optim_tree.update_moment(scaled, state.nu, b1, 1)
        return nu, ScaleBySM3State(tree.map(spread, sums, state.mu), nu)

    return GradientTransformation(init, update)


def sm3(learning_rate: ScalarOrSchedule, momentum: Any = 0.9) -> GradientTransformation:
    """SM3: adaptive steps for the memory of a few vectors.

    Parameters
    ----------
    learning_rate : float scalar or callable
        The learning rate, or a schedule for it.
    momentum : float scalar
        Decay of the averaged updates, b1 of `scale_by_sm3`.

    Returns
    -------
    GradientTransformation
        The equation is in `scale_by_sm3`. Source: Anil et al. 2019.
    """
    return chain(scale_by_sm3(momentum), scale_by_learning_rate(learning_rate))
