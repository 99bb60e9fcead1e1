# SPDX-License-Identifier: Apache-2.0
"""Adamax and AdamaxW: Adam with the largest gradient in place of the mean square."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from purax import numpy as pnp
from purax.optim import tree as optim_tree
from purax.optim.algorithms.adam import ScaleByAdamState
from purax.optim.base import GradientTransformation, OptState, Params, ScalarOrSchedule, Updates
from purax.optim.combine import chain
from purax.optim.numeric import safe_increment
from purax.optim.scale import add_decayed_weights, scale_by_learning_rate

__all__ = ["adamax", "adamaxw", "scale_by_adamax"]


def scale_by_adamax(b1: Any = 0.9, b2: Any = 0.999, eps: Any = 1e-8) -> GradientTransformation:
    """Divide averaged gradients by a decaying maximum of their sizes.

    Parameters
    ----------
    b1, b2 : float scalars
        Decay of the average and of the maximum.
    eps : float scalar
        Added to the size of each gradient.

    Returns
    -------
    GradientTransformation
        m <- b1 m + (1 - b1) g; v <- max(|g| + eps, b2 v); u = (m / (1 - b1^t)) / v.
        Its state is a `ScaleByAdamState`. Source: Kingma and Ba 2015, section 7.1.
    """

    def init(params: Params) -> ScaleByAdamState:
        return ScaleByAdamState(pnp.zeros((), pnp.int32), optim_tree.zeros_like(params), optim_tree.zeros_like(params))

    def update(updates: Updates, state: Any, params: Params | None = None) -> tuple[Updates, OptState]:
        del params
        count = safe_increment(state.count)
        mu = optim_tree.update_moment(updates, state.mu, b1, 1)
        nu = optim_tree.update_infinity_moment(updates, state.nu, b2, eps)
        mu_hat = optim_tree.bias_correction(mu, b1, count)
        return optim_tree.div(mu_hat, nu), ScaleByAdamState(count, mu, nu)

    return GradientTransformation(init, update)


def adamax(learning_rate: ScalarOrSchedule, b1: Any = 0.9, b2: Any = 0.999, eps: Any = 1e-8) -> GradientTransformation:
    """Adamax: Adam in the infinity norm.

    Parameters
    ----------
    learning_rate : float scalar or callable
        The learning rate, or a schedule for it.
    b1, b2, eps
        As in `scale_by_adamax`.

    Returns
    -------
    GradientTransformation
        The equation is in `scale_by_adamax`. Source: Kingma and Ba 2015, section 7.1.
    """
    return chain(scale_by_adamax(b1, b2, eps), scale_by_learning_rate(learning_rate))


def adamaxw(
    learning_rate: ScalarOrSchedule,
    b1: Any = 0.9,
    b2: Any = 0.999,
    eps: Any = 1e-8,
    weight_decay: Any = 1e-4,
    mask: Any | Callable[[Params], Any] | None = None,
) -> GradientTransformation:
    """AdamaxW: Adamax with decoupled weight decay.

    Parameters
    ----------
    learning_rate : float scalar or callable
        a in the equation, or a schedule for it.
    b1, b2, eps
        As in `scale_by_adamax`.
    weight_decay : float scalar or callable
        lambda in the equation, or a schedule for it.
    mask : tree of bool or callable from params to it, optional
        Where to decay; everywhere if left out.

    Returns
    -------
    GradientTransformation
        p <- p - a * (u + lambda * p) with u of `scale_by_adamax`. Source: Loshchilov and Hutter 2019.
    """
    return chain(
        scale_by_adamax(b1, b2, eps), add_decayed_weights(weight_decay, mask), scale_by_learning_rate(learning_rate)
    )
