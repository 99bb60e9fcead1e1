# SPDX-License-Identifier: Apache-2.0
"""Fromage: steps of a fixed relative size."""

from __future__ import annotations

from typing import Any

from purax import numpy as pnp
from purax.optim.base import GradientTransformation
from purax.optim.combine import chain
from purax.optim.scale import add_decayed_weights, scale_by_learning_rate, scale_by_trust_ratio

__all__ = ["fromage"]


def fromage(learning_rate: Any, min_norm: Any = 1e-6) -> GradientTransformation:
    """Fromage: each leaf moves by a fixed fraction of its size, which hardly needs tuning.

    Parameters
    ----------
    learning_rate : float scalar
        a in the equation (a schedule cannot be used here).
    min_norm : float scalar
        The least norm counted.

    Returns
    -------
    GradientTransformation
        p <- (p - a * ||p|| / ||g|| * g) / sqrt(1 + a^2). Source: Bernstein et al. 2020.
    """
    shrink = 1 / pnp.sqrt(1 + learning_rate**2)
    return chain(
        scale_by_trust_ratio(min_norm),
        scale_by_learning_rate(learning_rate * shrink),
        add_decayed_weights(shrink - 1),
    )
