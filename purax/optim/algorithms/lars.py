# SPDX-License-Identifier: Apache-2.0
"""LARS: momentum whose steps are sized layer by layer, for very large batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from purax.optim.base import GradientTransformation, Params, ScalarOrSchedule
from purax.optim.combine import chain
from purax.optim.mask import masked
from purax.optim.scale import add_decayed_weights, scale_by_learning_rate, scale_by_trust_ratio, trace

__all__ = ["lars"]


def lars(
    learning_rate: ScalarOrSchedule,
    weight_decay: Any = 0.0,
    weight_decay_mask: Any | Callable[[Params], Any] = True,
    trust_coefficient: Any = 0.001,
    eps: Any = 0.0,
    trust_ratio_mask: Any | Callable[[Params], Any] = True,
    momentum: Any = 0.9,
    nesterov: bool = False,
) -> GradientTransformation:
    """LARS: gradients with weight decay, given a fraction of the size of each leaf's parameter, with momentum.

    Parameters
    ----------
    learning_rate : float scalar or callable
        a in the equation, or a schedule for it.
    weight_decay : float scalar
        lambda in the equation.
    weight_decay_mask, trust_ratio_mask : bool, tree of bool, or callable from params to it
        Where to decay, and where to size.
    trust_coefficient : float scalar
        eta in the equation.
    eps : float scalar
        Added to the norm of the update.
    momentum : float scalar
        mu in the equation.
    nesterov : bool
        Look one step ahead.

    Returns
    -------
    GradientTransformation
        u = g + lambda * p; m <- a * eta * ||p|| / (||u|| + eps) * u + mu * m; p <- p - m. Source: You et al. 2017.
    """
    return chain(
        add_decayed_weights(weight_decay, weight_decay_mask),
        masked(scale_by_trust_ratio(trust_coefficient=trust_coefficient, eps=eps), trust_ratio_mask),
        scale_by_learning_rate(learning_rate),
        trace(momentum, nesterov),
    )
