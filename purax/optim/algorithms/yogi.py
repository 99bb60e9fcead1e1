# SPDX-License-Identifier: Apache-2.0
"""Yogi: Adam whose second average moves by small steps only."""

from __future__ import annotations

from typing import Any

from purax import numpy as pnp
from purax import tree
from purax.optim import tree as optim_tree
from purax.optim.algorithms.adam import ScaleByAdamState
from purax.optim.base import GradientTransformation, OptState, Params, ScalarOrSchedule, Updates
from purax.optim.combine import chain
from purax.optim.numeric import abs_sq, safe_increment
from purax.optim.scale import scale_by_learning_rate

__all__ = ["scale_by_yogi", "yogi"]


def scale_by_yogi(
    b1: Any = 0.9, b2: Any = 0.999, eps: Any = 1e-3, eps_root: Any = 0.0, initial_accumulator_value: Any = 1e-6
) -> GradientTransformation:
    """Divide averaged gradients by the root of a sum that follows their squares in steps of sign.

    Parameters
    ----------
    b1, b2 : float scalars
        Decay of the first average, and 1 - the step of the second.
    eps, eps_root : float scalars
        Added outside and inside the root.
    initial_accumulator_value : float scalar
        Where both averages start.

    Returns
    -------
    GradientTransformation
        m <- b1 m + (1 - b1) g; v <- v - (1 - b2) sign(v - |g|^2) |g|^2;
        u = (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t) + eps_root) + eps). Its state is a `ScaleByAdamState`.
        Source: Zaheer et al. 2018.
    """

    def init(params: Params) -> ScaleByAdamState:
        start = optim_tree.full_like(params, initial_accumulator_value)
        return ScaleByAdamState(pnp.zeros((), pnp.int32), start, start)

    def update(updates: Updates, state: Any, params: Params | None = None) -> tuple[Updates, OptState]:
        del params
        count = safe_increment(state.count)
        mu = optim_tree.update_moment(updates, state.mu, b1, 1)
        squares = tree.map(abs_sq, updates)
        nu = tree.map(lambda v, s: v - (1 - b2) * pnp.sign(v - s) * s, state.nu, squares)
        mu_hat = optim_tree.bias_correction(mu, b1, count)
        nu_hat = optim_tree.bias_correction(nu, b2, count)
        updates = tree.map(lambda m, v: m / (pnp.sqrt(v + eps_root) + eps), mu_hat, nu_hat)
        return updates, ScaleByAdamState(count, mu, nu)

    return GradientTransformation(init, update)


def yogi(learning_rate: ScalarOrSchedule, b1: Any = 0.9, b2: Any = 0.999, eps: Any = 1e-3) -> GradientTransformation:
    """Yogi: the effective learning rate cannot jump when gradients become rare.

    Parameters
    ----------
    learning_rate : float scalar or callable
        The learning rate, or a schedule for it.
    b1, b2, eps
        As in `scale_by_yogi`.

    Returns
    -------
    GradientTransformation
        The equation is in `scale_by_yogi`. Source: Zaheer et al. 2018.
    """
    return chain(scale_by_yogi(b1, b2, eps), scale_by_learning_rate(learning_rate))
