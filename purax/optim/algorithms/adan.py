# SPDX-License-Identifier: Apache-2.0
"""Adan: Adam with the momentum of gradient differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from purax import numpy as pnp
from purax import tree
from purax.optim import tree as optim_tree
from purax.optim.base import GradientTransformation, OptState, Params, ScalarOrSchedule, Updates
from purax.optim.combine import chain
from purax.optim.numeric import safe_increment
from purax.optim.scale import add_decayed_weights, scale_by_learning_rate

__all__ = ["ScaleByAdanState", "adan", "scale_by_adan"]


class ScaleByAdanState(NamedTuple):
    """The averages of gradients, of their differences and of squares, the last gradients, and the steps taken."""

    m: Any
    v: Any
    n: Any
    g: Any
    t: Any


def scale_by_adan(
    b1: Any = 0.98, b2: Any = 0.92, b3: Any = 0.99, eps: Any = 1e-8, eps_root: Any = 0.0
) -> GradientTransformation:
    """Divide averaged gradients and gradient differences by the root of averaged squares.

    Parameters
    ----------
    b1, b2, b3 : float scalars
        Decay of the averages of gradients, of differences and of squares.
    eps, eps_root : float scalars
        Added outside and inside the root.

    Returns
    -------
    GradientTransformation
        d = g - last g (0 in the first step); m, v, n average g, d, |g + (1 - b2) d|^2 with b1, b2, b3, bias
        corrected; u = (m + (1 - b2) v) / (sqrt(n + eps_root) + eps). Its state is a `ScaleByAdanState`.
        Source: Xie et al. 2022, whose weight of d is b2; 1 - b2 is Optax's, kept so that trainings carry over.
    """

    def init(params: Params) -> ScaleByAdanState:
        zeros = optim_tree.zeros_like(params)
        return ScaleByAdanState(m=zeros, v=zeros, n=zeros, g=zeros, t=pnp.zeros((), pnp.int32))

    def update(updates: Updates, state: Any, params: Params | None = None) -> tuple[Updates, OptState]:
        del params
        first = state.t == 0
        difference = tree.map(lambda g, last: pnp.where(first, pnp.zeros_like(g), g - last), updates, state.g)
        ahead = tree.map(lambda g, d: g + (1.0 - b2) * d, updates, difference)
        m = optim_tree.update_moment(updates, state.m, b1, 1)
        v = optim_tree.update_moment(difference, state.v, b2, 1)
        n = optim_tree.update_moment_per_elem_norm(ahead, state.n, b3, 2)
        t = safe_increment(state.t)
        m_hat = optim_tree.bias_correction(m, b1, t)
        v_hat = optim_tree.bias_correction(v, b2, t)
        n_hat = optim_tree.bias_correction(n, b3, t)
        scaled = tree.map(lambda a, b, c: (a + (1.0 - b2) * b) / (pnp.sqrt(c + eps_root) + eps), m_hat, v_hat, n_hat)
        return scaled, ScaleByAdanState(m, v, n, updates, t)

    return GradientTransformation(init, update)


def adan(
    learning_rate: ScalarOrSchedule,
    b1: Any = 0.98,
    b2: Any = 0.92,
    b3: Any = 0.99,
    eps: Any = 1e-8,
    eps_root: Any = 1e-8,
    weight_decay: Any = 0.0,
    mask: Any | Callable[[Params], Any] | None = None,
) -> GradientTransformation:
    """Adan: adaptive Nesterov momentum.

    Parameters
    ----------
    learning_rate : float scalar or callable
        a in the equation, or a schedule for it.
    b1, b2, b3, eps, eps_root
        As in `scale_by_adan`.
    weight_decay : float scalar or callable
        lambda in the equation, or a schedule for it.
    mask : tree of bool or callable from params to it, optional
        Where to decay; everywhere if left out.

    Returns
    -------
    GradientTransformation
        p <- p - a * (u + lambda * p) with u of `scale_by_adan`. Source: Xie et al. 2022.
    """
    return chain(
        scale_by_adan(b1, b2, b3, eps, eps_root),
        add_decayed_weights(weight_decay, mask),
        scale_by_learning_rate(learning_rate),
    )
