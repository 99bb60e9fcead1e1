# SPDX-License-Identifier: Apache-2.0
"""Optimistic gradient descent, for games and saddle points."""

from __future__ import annotations

from typing import Any, NamedTuple

from purax import numpy as pnp
from purax import tree
from purax.optim import tree as optim_tree
from purax.optim.algorithms.adam import scale_by_adam
from purax.optim.base import GradientTransformation, OptState, Params, ScalarOrSchedule, Updates
from purax.optim.combine import chain
from purax.optim.scale import scale, scale_by_learning_rate

__all__ = [
    "ScaleByOptimisticGradientState",
    "optimistic_adam",
    "optimistic_adam_v2",
    "optimistic_gradient_descent",
    "scale_by_optimistic_gradient",
]


class ScaleByOptimisticGradientState(NamedTuple):
    """Whether no gradient was seen yet, and the last gradients."""

    is_initial_step: Any
    previous_gradient: Any


def scale_by_optimistic_gradient(alpha: Any = 1.0, beta: Any = 1.0) -> GradientTransformation:
    """Extrapolate gradients from the last one.

    Parameters
    ----------
    alpha, beta : float scalars
        Weight of the gradient and of its change.

    Returns
    -------
    GradientTransformation
        u = alpha * g + beta * (g - last g). In the first step last g = g.
        Source: Mokhtari et al. 2019.
    """

    def init(params: Params) -> ScaleByOptimisticGradientState:
        return ScaleByOptimisticGradientState(pnp.asarray(True), optim_tree.zeros_like(params))

    def update(updates: Updates, state: Any, params: Params | None = None) -> tuple[Updates, OptState]:
        del params
        last = optim_tree.where(state.is_initial_step, updates, state.previous_gradient)
        ahead = tree.map(lambda g, before: alpha * g + beta * (g - before), updates, last)
        return ahead, ScaleByOptimisticGradientState(pnp.asarray(False), updates)

    return GradientTransformation(init, update)


def optimistic_gradient_descent(
    learning_rate: ScalarOrSchedule, alpha: Any = 1.0, beta: Any = 1.0
) -> GradientTransformation:
    """Optimistic gradient descent: converges in bilinear games, where plain descent circles.

    Parameters
    ----------
    learning_rate : float scalar or callable
        a in the equation, or a schedule for it.
    alpha, beta
        As in `scale_by_optimistic_gradient`.

    Returns
    -------
    GradientTransformation
        p <- p - a * (alpha * g + beta * (g - last g)). Source: Mokhtari et al. 2019.
    """
    return chain(scale_by_optimistic_gradient(alpha, beta), scale_by_learning_rate(learning_rate))


def optimistic_adam(
    learning_rate: Any,
    optimism: Any = None,
    b1: Any = 0.9,
    b2: Any = 0.999,
    eps: Any = 1e-8,
    eps_root: Any = 0.0,
    mu_dtype: Any = None,
    *,
    nesterov: bool = True,
) -> GradientTransformation:
    """Adam's updates, extrapolated, with an optimism that may differ from the learning rate.

    Parameters
    ----------
    learning_rate : float scalar
        a in the equation.
    optimism : float scalar, optional
        o in the equation; the learning rate if left out.
    b1, b2, eps, eps_root, mu_dtype, nesterov
        As in `scale_by_adam`.

    Returns
    -------
    GradientTransformation
        p <- p - (a * u + o * (u - last u)) with u of `scale_by_adam`. Source: Daskalakis et al. 2018.
    """
    return chain(
        scale_by_adam(b1, b2, eps, eps_root, mu_dtype, nesterov=nesterov),
        scale_by_optimistic_gradient(learning_rate, learning_rate if optimism is None else optimism),
        scale(-1.0),
    )


def optimistic_adam_v2(
    learning_rate: ScalarOrSchedule,
    *,
    alpha: Any = 1.0,
    beta: Any = 1.0,
    b1: Any = 0.9,
    b2: Any = 0.999,
    eps: Any = 1e-8,
    eps_root: Any = 0.0,
    mu_dtype: Any = None,
    nesterov: bool = True,
) -> GradientTransformation:
    """Adam's updates, extrapolated; takes a schedule.

    Parameters
    ----------
    learning_rate : float scalar or callable
        a in the equation, or a schedule for it.
    alpha, beta
        As in `scale_by_optimistic_gradient`.
    b1, b2, eps, eps_root, mu_dtype, nesterov
        As in `scale_by_adam`.

    Returns
    -------
    GradientTransformation
        p <- p - a * (alpha * u + beta * (u - last u)) with u of `scale_by_adam`. Source: Daskalakis et al. 2018.
    """
    return chain(
        scale_by_adam(b1, b2, eps, eps_root, mu_dtype, nesterov=nesterov),
        scale_by_optimistic_gradient(alpha, beta),
        scale_by_learning_rate(learning_rate),
    )
