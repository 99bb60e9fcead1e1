# SPDX-License-Identifier: Apache-2.0
"""AdaBelief: Adam that divides by how far gradients stray from their average."""

from __future__ import annotations

from typing import Any, NamedTuple

from purax import numpy as pnp
from purax import tree
from purax.optim import tree as optim_tree
from purax.optim.base import GradientTransformation, OptState, Params, ScalarOrSchedule, Updates
from purax.optim.combine import chain
from purax.optim.numeric import safe_increment
from purax.optim.scale import scale_by_learning_rate

__all__ = ["ScaleByBeliefState", "adabelief", "scale_by_belief"]


class ScaleByBeliefState(NamedTuple):
    """The number of steps taken, the average of gradients, and the average square of their deviations."""

    count: Any
    mu: Any
    nu: Any


def scale_by_belief(
    b1: Any = 0.9, b2: Any = 0.999, eps: Any = 1e-16, eps_root: Any = 1e-16, *, nesterov: bool = False
) -> GradientTransformation:
    """Divide averaged gradients by the root of the averaged squared deviation from the average.

    Parameters
    ----------
    b1, b2 : float scalars
        Decay of the two averages.
    eps, eps_root : float scalars
        Added outside the root, and to the second average in each step.
    nesterov : bool
        Look one step ahead.

    Returns
    -------
    GradientTransformation
        m <- b1 m + (1 - b1) g; s <- b2 s + (1 - b2) |g - m|^2 + eps_root; u = m_hat / (sqrt(s_hat) + eps).
        Its state is a `ScaleByBeliefState`. Source: Zhuang et al. 2020.
    """

    def init(params: Params) -> ScaleByBeliefState:
        return ScaleByBeliefState(
            pnp.zeros((), pnp.int32), optim_tree.zeros_like(params), optim_tree.zeros_like(params)
        )

    def update(updates: Updates, state: Any, params: Params | None = None) -> tuple[Updates, OptState]:
        del params
        count = safe_increment(state.count)
        mu = optim_tree.update_moment(updates, state.mu, b1, 1)
        deviation = optim_tree.sub(updates, mu)
        nu = optim_tree.update_moment_per_elem_norm(deviation, state.nu, b2, 2)
        nu = tree.map(lambda v: v + eps_root, nu)
        if nesterov:
            ahead = optim_tree.bias_correction(mu, b1, safe_increment(count))
            here = optim_tree.bias_correction(updates, b1, count)
            mu_hat = tree.map(lambda m, g: b1 * m + (1 - b1) * g, ahead, here)
        else:
            mu_hat = optim_tree.bias_correction(mu, b1, count)
        nu_hat = optim_tree.bias_correction(nu, b2, count)
        updates = tree.map(lambda m, v: m / (pnp.sqrt(v) + eps), mu_hat, nu_hat)
        return updates, ScaleByBeliefState(count, mu, nu)

    return GradientTransformation(init, update)


def adabelief(
    learning_rate: ScalarOrSchedule,
    b1: Any = 0.9,
    b2: Any = 0.999,
    eps: Any = 1e-16,
    eps_root: Any = 1e-16,
    *,
    nesterov: bool = False,
) -> GradientTransformation:
    """AdaBelief: large steps where gradients agree with their average, small ones where they do not.

    Parameters
    ----------
    learning_rate : float scalar or callable
        The learning rate, or a schedule for it.
    b1, b2, eps, eps_root, nesterov
        As in `scale_by_belief`.

    Returns
    -------
    GradientTransformation
        The equation is in `scale_by_belief`. Source: Zhuang et al. 2020.
    """
    return chain(scale_by_belief(b1, b2, eps, eps_root, nesterov=nesterov), scale_by_learning_rate(learning_rate))
