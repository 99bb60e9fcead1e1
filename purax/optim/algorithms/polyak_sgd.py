# SPDX-License-Identifier: Apache-2.0
"""Gradient descent with Polyak's step size, which reads the loss."""

from __future__ import annotations

from typing import Any, Literal

from purax import numpy as pnp
from purax import tree
from purax.optim import tree as optim_tree
from purax.optim.algorithms.sgd import sgd
from purax.optim.base import (
    GradientTransformationExtraArgs,
    OptState,
    Params,
    ScalarOrSchedule,
    Updates,
    init_empty_state,
)
from purax.optim.combine import chain

__all__ = ["polyak_sgd", "scale_by_polyak"]


def scale_by_polyak(
    f_min: Any = 0.0, max_learning_rate: Any = 1.0, eps: Any = 0.0, variant: Literal["sps", "sps+"] = "sps"
) -> GradientTransformationExtraArgs:
    """Multiply updates by the step that would reach the least loss, were the loss linear.

    Parameters
    ----------
    f_min : float scalar
        The least value of the loss, f* in the equation.
    max_learning_rate : float scalar
        The largest step.
    eps : float scalar
        Added to the squared norm.
    variant : "sps" or "sps+"
        "sps+" never steps back when the loss is below f_min.

    Returns
    -------
    GradientTransformationExtraArgs
        u' = min((f - f*) / (||u||^2 + eps), max_learning_rate) * u, and 0 where u = 0; `update` needs `value=f`.
        Source: Loizou et al. 2021; Garrigos et al. 2023.

    Raises
    ------
    ValueError
        If the variant is not known.
    """
    if variant not in ("sps", "sps+"):
        raise ValueError(f"scale_by_polyak: variant must be 'sps' or 'sps+', got {variant!r}")

    def update(
        updates: Updates, state: OptState, params: Params | None = None, *, value: Any, **extra_args: Any
    ) -> tuple[Updates, OptState]:
        del params, extra_args
        square = optim_tree.norm(updates, squared=True)
        gap = pnp.asarray(value - f_min).astype(square.dtype)
        gap = pnp.maximum(gap, 0) if variant == "sps+" else gap
        still = square + eps <= pnp.finfo(square.dtype).eps
        step = pnp.where(still, 0.0, pnp.minimum(gap / pnp.where(still, 1.0, square + eps), max_learning_rate))
        return tree.map(lambda u: step.astype(u.dtype) * u, updates), state

    return GradientTransformationExtraArgs(init_empty_state, update)


def polyak_sgd(
    max_learning_rate: Any = 1.0,
    scaling: ScalarOrSchedule = 1.0,
    f_min: Any = 0.0,
    eps: Any = 0.0,
    variant: Literal["sps", "sps+"] = "sps",
) -> GradientTransformationExtraArgs:
    """Gradient descent with Polyak's step size; `update` needs `value=`, the loss.

    Parameters
    ----------
    max_learning_rate, f_min, eps, variant
        As in `scale_by_polyak`.
    scaling : float scalar or callable
        A factor on the step, or a schedule for it.

    Returns
    -------
    GradientTransformationExtraArgs
        p <- p - scaling * min((f - f*) / (||g||^2 + eps), max_learning_rate) * g. Source: Loizou et al. 2021.
    """
    return chain(sgd(scaling), scale_by_polyak(f_min, max_learning_rate, eps, variant))
