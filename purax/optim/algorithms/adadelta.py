# SPDX-License-Identifier: Apache-2.0
"""Adadelta: steps in the units of the parameters, without a learning rate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from purax import numpy as pnp
from purax import tree
from purax.optim import tree as optim_tree
from purax.optim.base import GradientTransformation, OptState, Params, ScalarOrSchedule, Updates, identity
from purax.optim.combine import chain
from purax.optim.scale import add_decayed_weights, scale_by_learning_rate

__all__ = ["ScaleByAdaDeltaState", "adadelta", "scale_by_adadelta"]


class ScaleByAdaDeltaState(NamedTuple):
    """The averages of squared gradients and of squared updates."""

    e_g: Any
    e_x: Any


def scale_by_adadelta(rho: Any = 0.9, eps: Any = 1e-6) -> GradientTransformation:
    """Multiply gradients by the ratio of the roots of averaged squared updates and gradients.

    Parameters
    ----------
    rho : float scalar
        Decay of both averages.
    eps : float scalar
        Added inside both roots.

    Returns
    -------
    GradientTransformation
        G <- rho G + (1 - rho) |g|^2; u = sqrt(X + eps) / sqrt(G + eps) * g; X <- rho X + (1 - rho) |u|^2.
        Its state is a `ScaleByAdaDeltaState`. Source: Zeiler 2012.
    """

    def init(params: Params) -> ScaleByAdaDeltaState:
        return ScaleByAdaDeltaState(optim_tree.zeros_like(params), optim_tree.zeros_like(params))

    def update(updates: Updates, state: Any, params: Params | None = None) -> tuple[Updates, OptState]:
        del params
        e_g = optim_tree.update_moment_per_elem_norm(updates, state.e_g, rho, 2)
        updates = tree.map(lambda g, x, s: pnp.sqrt(x + eps) / pnp.sqrt(s + eps) * g, updates, state.e_x, e_g)
        e_x = optim_tree.update_moment_per_elem_norm(updates, state.e_x, rho, 2)
        return updates, ScaleByAdaDeltaState(e_g, e_x)

    return GradientTransformation(init, update)


def adadelta(
    learning_rate: ScalarOrSchedule | None = None,
    rho: Any = 0.9,
    eps: Any = 1e-6,
    weight_decay: Any = 0.0,
    weight_decay_mask: Any | Callable[[Params], Any] | None = None,
) -> GradientTransformation:
    """Adadelta: Adagrad that forgets, and whose steps have the units of the parameters.

    Parameters
    ----------
    learning_rate : float scalar or callable, optional
        a in the equation, or a schedule for it. If left out, the updates are given as they are, *not* turned to
        descend: follow with `scale_by_learning_rate`.
    rho, eps
        As in `scale_by_adadelta`.
    weight_decay : float scalar
        A multiple of the parameters that is added to the gradients.
    weight_decay_mask : tree of bool or callable from params to it, optional
        Where to decay; everywhere if left out.

    Returns
    -------
    GradientTransformation
        p <- p - a * u with u of `scale_by_adadelta`. Source: Zeiler 2012.
    """
    return chain(
        add_decayed_weights(weight_decay, weight_decay_mask),
        scale_by_adadelta(rho, eps),
        identity() if learning_rate is None else scale_by_learning_rate(learning_rate),
    )
