# SPDX-License-Identifier: Apache-2.0
"""AdEMAMix: Adam with a second, much slower average of gradients."""

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

__all__ = ["ScaleByAdemamixState", "ademamix", "scale_by_ademamix"]


class ScaleByAdemamixState(NamedTuple):
    """Steps taken (for the fast and the slow average), both averages, and the average of squares."""

    count: Any
    count_m2: Any
    m1: Any
    m2: Any
    nu: Any


def scale_by_ademamix(
    b1: Any = 0.9,
    b2: Any = 0.999,
    b3: ScalarOrSchedule = 0.9999,
    alpha: ScalarOrSchedule = 6.0,
    eps: Any = 1e-8,
    eps_root: Any = 0.0,
    mu_dtype: Any = None,
) -> GradientTransformation:
    """Divide a mix of two averages by the root of averaged squares.

    Parameters
    ----------
    b1, b2 : float scalars
        Decay of the fast average and of the squares.
    b3 : float scalar or callable
        Decay of the slow average, or a schedule for it.
    alpha : float scalar or callable
        Weight of the slow average, or a schedule for it.
    eps, eps_root : float scalars
        Added outside and inside the root.
    mu_dtype : dtype, optional
        The dtype of the averages; that of the parameters if left out.

    Returns
    -------
    GradientTransformation
        u = (m1_hat + alpha m2) / (sqrt(v_hat + eps_root) + eps). Its state is a `ScaleByAdemamixState`.
        Source: Pagliardini et al. 2024.
    """

    def init(params: Params) -> ScaleByAdemamixState:
        zero, average = pnp.zeros((), pnp.int32), optim_tree.zeros_like(params, mu_dtype)
        return ScaleByAdemamixState(zero, zero, average, average, optim_tree.zeros_like(params))

    def update(updates: Updates, state: Any, params: Params | None = None) -> tuple[Updates, OptState]:
        del params
        slow = b3(state.count_m2) if callable(b3) else b3
        weight = alpha(state.count_m2) if callable(alpha) else alpha
        m1 = optim_tree.update_moment(updates, state.m1, b1, 1)
        m2 = optim_tree.update_moment(updates, state.m2, slow, 1)
        nu = optim_tree.update_moment_per_elem_norm(updates, state.nu, b2, 2)
        count = safe_increment(state.count)
        m1_hat = optim_tree.bias_correction(m1, b1, count)
        nu_hat = optim_tree.bias_correction(nu, b2, count)
        updates = tree.map(lambda a, b, v: (a + weight * b) / (pnp.sqrt(v + eps_root) + eps), m1_hat, m2, nu_hat)
        return updates, ScaleByAdemamixState(
            count,
            safe_increment(state.count_m2),
            optim_tree.cast(m1, mu_dtype),
            optim_tree.cast(m2, mu_dtype),
            nu,
        )

    return GradientTransformation(init, update)


def ademamix(
    learning_rate: ScalarOrSchedule,
    b1: Any = 0.9,
    b2: Any = 0.999,
    b3: ScalarOrSchedule = 0.9999,
    alpha: ScalarOrSchedule = 5.0,
    eps: Any = 1e-8,
    eps_root: Any = 0.0,
    mu_dtype: Any = None,
    weight_decay: Any = 0.0,
    mask: Any | Callable[[Params], Any] | None = None,
) -> GradientTransformation:
    """AdEMAMix: remembers gradients of thousands of steps ago.

    Parameters
    ----------
    learning_rate : float scalar or callable
        a in the equation, or a schedule for it.
    b1, b2, b3, alpha, eps, eps_root, mu_dtype
        As in `scale_by_ademamix`.
    weight_decay : float scalar or callable
        lambda in the equation, or a schedule for it.
    mask : tree of bool or callable from params to it, optional
        Where to decay; everywhere if left out.

    Returns
    -------
    GradientTransformation
        p <- p - a * (u + lambda * p) with u of `scale_by_ademamix`. Source: Pagliardini et al. 2024.
    """
    return chain(
        scale_by_ademamix(b1, b2, b3, alpha, eps, eps_root, mu_dtype),
        add_decayed_weights(weight_decay, mask),
        scale_by_learning_rate(learning_rate),
    )
