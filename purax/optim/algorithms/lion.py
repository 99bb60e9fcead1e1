# SPDX-License-Identifier: Apache-2.0
"""Lion: the sign of an interpolation between gradient and momentum."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from purax import numpy as pnp
from purax import tree
from purax.optim import tree as optim_tree
from purax.optim.base import GradientTransformation, OptState, Params, ScalarOrSchedule, Updates
from purax.optim.combine import chain
from purax.optim.numeric import safe_increment
from purax.optim.scale import add_decayed_weights, scale_by_learning_rate

__all__ = ["ScaleByLionState", "lion", "scale_by_lion"]


class ScaleByLionState(NamedTuple):
    """The number of steps taken and the average of gradients."""

    count: Any
    mu: Any


def scale_by_lion(
    b1: Any = 0.9,
    b2: Any = 0.99,
    mu_dtype: Any = None,
    *,
    mode: Literal["hard", "smooth"] = "hard",
    smooth_beta: Any = 1.0,
) -> GradientTransformation:
    """Replace gradients by the sign of their interpolation with the average.

    Parameters
    ----------
    b1, b2 : float scalars
        Weight of the average in the update, and decay of the average.
    mu_dtype : dtype, optional
        The dtype of the average; that of the parameters if left out.
    mode : "hard" or "smooth"
        Take the sign, or tanh(smooth_beta * x).
    smooth_beta : float scalar
        Steepness of the smooth mode.

    Returns
    -------
    GradientTransformation
        u = sign((1 - b1) g + b1 m); m <- b2 m + (1 - b2) g. Its state is a `ScaleByLionState`.
        Source: Chen et al. 2023.

    Raises
    ------
    ValueError
        If the mode is not known.
    """
    if mode not in ("hard", "smooth"):
        raise ValueError(f"scale_by_lion: mode must be 'hard' or 'smooth', got {mode!r}")
    squash = pnp.sign if mode == "hard" else (lambda x: pnp.tanh(smooth_beta * x))

    def init(params: Params) -> ScaleByLionState:
        return ScaleByLionState(pnp.zeros((), pnp.int32), optim_tree.zeros_like(params, mu_dtype))

    def update(updates: Updates, state: Any, params: Params | None = None) -> tuple[Updates, OptState]:
        del params
        direction = tree.map(lambda g, m: squash((1.0 - b1) * g + b1 * m), updates, state.mu)
        mu = optim_tree.cast(optim_tree.update_moment(updates, state.mu, b2, 1), mu_dtype)
        return direction, ScaleByLionState(safe_increment(state.count), mu)

    return GradientTransformation(init, update)


def lion(
    learning_rate: ScalarOrSchedule,
    b1: Any = 0.9,
    b2: Any = 0.99,
    mu_dtype: Any = None,
    weight_decay: Any = 1e-3,
    mask: Any | Callable[[Params], Any] | None = None,
) -> GradientTransformation:
    """Lion: steps of equal size, one average in memory; wants a learning rate 3 to 10 times below Adam's.

    Parameters
    ----------
    learning_rate : float scalar or callable
        a in the equation, or a schedule for it.
    b1, b2, mu_dtype
        As in `scale_by_lion`.
    weight_decay : float scalar or callable
        lambda in the equation, or a schedule for it.
    mask : tree of bool or callable from params to it, optional
        Where to decay; everywhere if left out.

    Returns
    -------
    GradientTransformation
        p <- p - a * (sign((1 - b1) g + b1 m) + lambda * p). Source: Chen et al. 2023.
    """
    return chain(
        scale_by_lion(b1, b2, mu_dtype),
        add_decayed_weights(weight_decay, mask),
        scale_by_learning_rate(learning_rate),
    )
