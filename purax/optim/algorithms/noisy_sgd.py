# SPDX-License-Identifier: Apache-2.0
"""Stochastic gradient descent with falling noise."""

from __future__ import annotations

from typing import Any

from purax.optim.base import GradientTransformation, ScalarOrSchedule
from purax.optim.combine import chain
from purax.optim.scale import add_noise, scale_by_learning_rate

__all__ = ["noisy_sgd"]


def noisy_sgd(
    learning_rate: ScalarOrSchedule, eta: Any = 0.01, gamma: Any = 0.55, key: Any = None, *, seed: int | None = None
) -> GradientTransformation:
    """Gradient descent with normal noise of variance eta / t**gamma, which helps very deep networks to start.

    Parameters
    ----------
    learning_rate : float scalar or callable
        a in the equation, or a schedule for it.
    eta, gamma : float scalars
        First variance of the noise and how fast it falls.
    key : random key or int
        Where the noise comes from.
    seed : int, optional
        Another name for an int key.

    Returns
    -------
    GradientTransformation
        p <- p - a * (g + n), n ~ N(0, eta / t**gamma). Source: Neelakantan et al. 2015.
    """
    return chain(add_noise(eta, gamma, key, seed=seed), scale_by_learning_rate(learning_rate))
