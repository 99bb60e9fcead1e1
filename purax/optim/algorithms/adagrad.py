# SPDX-License-Identifier: Apache-2.0
"""Adagrad: gradients divided by the root of the sum of all their squares."""

from __future__ import annotations

from typing import Any, NamedTuple

from purax import numpy as pnp
from purax import tree
from purax.optim import tree as optim_tree
from purax.optim.base import GradientTransformation, OptState, Params, ScalarOrSchedule, Updates
from purax.optim.combine import chain
from purax.optim.numeric import abs_sq
from purax.optim.scale import scale_by_learning_rate
from purax.primitives.elementwise import rsqrt

__all__ = ["ScaleByRssState", "adagrad", "scale_by_rss"]


class ScaleByRssState(NamedTuple):
    """The sum of squared gradients."""

    sum_of_squares: Any


def scale_by_rss(initial_accumulator_value: Any = 0.1, eps: Any = 1e-7) -> GradientTransformation:
    """Divide gradients by the root of the sum of their squares.

    Parameters
    ----------
    initial_accumulator_value : float scalar
        Where the sum starts.
    eps : float scalar
        Added inside the root.

    Returns
    -------
    GradientTransformation
        s <- s + |g|^2; u = g / sqrt(s + eps), and 0 where s = 0. Its state is a `ScaleByRssState`.
        Source: Duchi et al. 2011.
    """

    def init(params: Params) -> ScaleByRssState:
        return ScaleByRssState(optim_tree.full_like(params, initial_accumulator_value))

    def update(updates: Updates, state: Any, params: Params | None = None) -> tuple[Updates, OptState]:
        del params
        total = tree.map(lambda g, s: abs_sq(g) + s, updates, state.sum_of_squares)
        factors = tree.map(lambda s: pnp.where(s > 0, rsqrt(pnp.where(s > 0, s + eps, 1)), 0.0), total)
        return optim_tree.mul(factors, updates), ScaleByRssState(total)

    return GradientTransformation(init, update)


def adagrad(
    learning_rate: ScalarOrSchedule, initial_accumulator_value: Any = 0.1, eps: Any = 1e-7
) -> GradientTransformation:
    """Adagrad: rare features get large steps, common ones small steps.

    Parameters
    ----------
    learning_rate : float scalar or callable
        a in the equation, or a schedule for it.
    initial_accumulator_value, eps
        As in `scale_by_rss`.

    Returns
    -------
    GradientTransformation
        p <- p - a * g / sqrt(s + eps). Source: Duchi et al. 2011.
    """
    return chain(scale_by_rss(initial_accumulator_value, eps), scale_by_learning_rate(learning_rate))
