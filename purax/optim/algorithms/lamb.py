# SPDX-License-Identifier: Apache-2.0
"""LAMB: AdamW whose steps are sized layer by layer, for very large batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from purax.optim.algorithms.adam import scale_by_adam
from purax.optim.base import GradientTransformation, Params, ScalarOrSchedule
from purax.optim.combine import chain
from purax.optim.scale import add_decayed_weights, scale_by_learning_rate, scale_by_trust_ratio

__all__ = ["lamb"]


def lamb(
    learning_rate: ScalarOrSchedule,
    b1: Any = 0.9,
    b2: Any = 0.999,
    eps: Any = 1e-6,
    eps_root: Any = 0.0,
    weight_decay: Any = 0.0,
    mask: Any | Callable[[Params], Any] | None = None,
) -> GradientTransformation:
    """LAMB: Adam's update with weight decay, given the size of each leaf's parameter.

    Parameters
    ----------
    learning_rate : float scalar or callable
        a in the equation, or a schedule for it.
    b1, b2, eps, eps_root
        As in `scale_by_adam`.
    weight_decay : float scalar or callable
        lambda in the equation, or a schedule for it.
    mask : tree of bool or callable from params to it, optional
        Where to decay; everywhere if left out.

    Returns
    -------
    GradientTransformation
        u = adam + lambda * p; p <- p - a * ||p|| / ||u|| * u. Source: You et al. 2020.
    """
    return chain(
        scale_by_adam(b1, b2, eps, eps_root),
        add_decayed_weights(weight_decay, mask),
        scale_by_trust_ratio(),
        scale_by_learning_rate(learning_rate),
    )
