# SPDX-License-Identifier: Apache-2.0
"""Rprop: step sizes that grow and shrink by the signs of gradients, for full batches."""

from __future__ import annotations

from typing import Any, NamedTuple

from purax import numpy as pnp
from purax import tree
from purax.optim import tree as optim_tree
from purax.optim.base import GradientTransformation, OptState, Params, Updates
from purax.optim.combine import chain
from purax.optim.scale import scale

__all__ = ["ScaleByRpropState", "rprop", "scale_by_rprop"]


class ScaleByRpropState(NamedTuple):
    """The size of each element's step and the last updates."""

    step_sizes: Any
    prev_updates: Any


def scale_by_rprop(
    learning_rate: Any,
    eta_minus: Any = 0.5,
    eta_plus: Any = 1.2,
    min_step_size: Any = 1e-6,
    max_step_size: Any = 50.0,
) -> GradientTransformation:
    """Replace gradients by their sign times a step size that each element learns.

    Parameters
    ----------
    learning_rate : float scalar
        The first step size.
    eta_minus, eta_plus : float scalars
        What a step size is multiplied by when the gradient turned round, and when it kept its sign.
    min_step_size, max_step_size : float scalars
        The limits of step sizes.

    Returns
    -------
    GradientTransformation
        u = d * sign(g) where the gradient kept its sign, and 0 elsewhere (in the first step too);
        d <- clip(d * eta, min, max). After a turn the last sign counts as 0, so that d shrinks once only.
        Its state is a `ScaleByRpropState`. Source: Riedmiller and Braun 1993; Igel and Huesken 2000.
    """

    def init(params: Params) -> ScaleByRpropState:
        return ScaleByRpropState(optim_tree.full_like(params, learning_rate), optim_tree.zeros_like(params))

    def update(updates: Updates, state: Any, params: Params | None = None) -> tuple[Updates, OptState]:
        del params
        agreement = tree.map(lambda g, last: pnp.sign(g * last), updates, state.prev_updates)

        def resize(size: Any, sign: Any) -> Any:
            factor = pnp.where(sign > 0, eta_plus, eta_minus).astype(size.dtype)
            return pnp.where(sign == 0, size, pnp.clip(size * factor, min_step_size, max_step_size))

        sizes = tree.map(resize, state.step_sizes, agreement)
        steps = tree.map(lambda g, size: pnp.sign(g) * size, updates, sizes)
        emitted = tree.map(
            lambda last, sign: pnp.where(sign > 0, last, pnp.zeros_like(last)), state.prev_updates, agreement
        )
        remembered = tree.map(lambda u, sign: pnp.where(sign < 0, pnp.zeros_like(u), u), steps, agreement)
        return emitted, ScaleByRpropState(sizes, remembered)

    return GradientTransformation(init, update)


def rprop(
    learning_rate: Any,
    eta_minus: Any = 0.5,
    eta_plus: Any = 1.2,
    min_step_size: Any = 1e-6,
    max_step_size: Any = 50.0,
) -> GradientTransformation:
    """Rprop: only the signs of gradients count.

    Parameters
    ----------
    learning_rate, eta_minus, eta_plus, min_step_size, max_step_size
        As in `scale_by_rprop`.

    Returns
    -------
    GradientTransformation
        p <- p - d * sign(g). Source: Riedmiller and Braun 1993.
    """
    return chain(scale_by_rprop(learning_rate, eta_minus, eta_plus, min_step_size, max_step_size), scale(-1.0))
