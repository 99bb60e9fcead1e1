# SPDX-License-Identifier: Apache-2.0
"""Stochastic gradient descent, with momentum if asked for."""

from __future__ import annotations

from typing import Any

from purax.optim.base import GradientTransformation, ScalarOrSchedule, identity
from purax.optim.combine import chain
from purax.optim.scale import scale_by_learning_rate, trace

__all__ = ["sgd"]


def sgd(
    learning_rate: ScalarOrSchedule,
    momentum: Any = None,
    nesterov: bool = False,
    accumulator_dtype: Any = None,
) -> GradientTransformation:
    """Stochastic gradient descent.

    Parameters
    ----------
    learning_rate : float scalar or callable
        a in the equation, or a schedule for it.
    momentum : float scalar, optional
        mu in the equation; without it there is no accumulator at all.
    nesterov : bool
        Look one step ahead.
    accumulator_dtype : dtype, optional
        The dtype of the accumulator; that of the parameters if left out.

    Returns
    -------
    GradientTransformation
        m <- g + mu * m; p <- p - a * m, or p - a * (g + mu * m) with the new m for nesterov.
        Source: Sutskever et al. 2013.

    Examples
    --------
    >>> from purax import numpy as pnp
    >>> from purax import optim
    >>> optimizer = optim.sgd(0.5)
    >>> params = pnp.ones(2)
    >>> updates, state = optimizer.update(pnp.ones(2), optimizer.init(params))
    >>> [float(p) for p in optim.apply_updates(params, updates)]
    [0.5, 0.5]
    """
    accumulate = identity() if momentum is None else trace(momentum, nesterov, accumulator_dtype)
    return chain(accumulate, scale_by_learning_rate(learning_rate))
