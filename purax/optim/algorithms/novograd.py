# SPDX-License-Identifier: Apache-2.0
"""NovoGrad: normalised gradients, one second moment for each leaf."""

from __future__ import annotations

from typing import Any, NamedTuple

from purax import numpy as pnp
from purax import tree
from purax.optim import tree as optim_tree
from purax.optim.base import GradientTransformation, OptState, Params, ScalarOrSchedule, Updates, require_params
from purax.optim.combine import chain
from purax.optim.numeric import abs_sq, safe_increment
from purax.optim.scale import scale_by_learning_rate

__all__ = ["ScaleByNovogradState", "novograd", "scale_by_novograd"]


class ScaleByNovogradState(NamedTuple):
    """The number of steps taken, the accumulated gradients, and one average squared norm for each leaf."""

    count: Any
    mu: Any
    nu: Any


def scale_by_novograd(
    b1: Any = 0.9,
    b2: Any = 0.25,
    eps: Any = 1e-8,
    eps_root: Any = 0.0,
    weight_decay: Any = 0.0,
    mu_dtype: Any = None,
) -> GradientTransformation:
    """Divide each leaf's gradient by its averaged norm, decay weights, and accumulate.

    Parameters
    ----------
    b1, b2 : float scalars
        Decay of the accumulator and of the averaged squared norm.
    eps, eps_root : float scalars
        Added outside and inside the root.
    weight_decay : float scalar
        lambda in the equation.
    mu_dtype : dtype, optional
        The dtype of the accumulator; that of the parameters if left out.

    Returns
    -------
    GradientTransformation
        v <- b2 v + (1 - b2) ||g||^2 (||g||^2 in the first step); d = g / (sqrt(v + eps_root) + eps) + lambda p;
        m <- b1 m + d (d in the first step); u = m. Its state is a `ScaleByNovogradState`.
        Source: Ginsburg et al. 2019.
    """

    def init(params: Params) -> ScaleByNovogradState:
        nu = tree.map(lambda p: pnp.zeros((), p.dtype), params)
        return ScaleByNovogradState(pnp.zeros((), pnp.int32), optim_tree.zeros_like(params, mu_dtype), nu)

    def update(updates: Updates, state: Any, params: Params | None = None) -> tuple[Updates, OptState]:
        require_params(params, "scale_by_novograd")
        first = state.count == 0

        def squared_norm(g: Any, v: Any) -> Any:
            square = pnp.sum(abs_sq(g))
            return pnp.where(first, square, (1 - b2) * square + b2 * v)

        nu = tree.map(squared_norm, updates, state.nu)

        def accumulate(g: Any, p: Any, v: Any, m: Any) -> Any:
            step = g / (pnp.sqrt(v + eps_root) + eps) + weight_decay * p
            return pnp.where(first, step, b1 * m + step)

        mu = tree.map(accumulate, updates, params, nu, state.mu)
        return mu, ScaleByNovogradState(safe_increment(state.count), optim_tree.cast(mu, mu_dtype), nu)

    return GradientTransformation(init, update)


def novograd(
    learning_rate: ScalarOrSchedule,
    b1: Any = 0.9,
    b2: Any = 0.25,
    eps: Any = 1e-6,
    eps_root: Any = 0.0,
    weight_decay: Any = 0.0,
) -> GradientTransformation:
    """NovoGrad: as robust as momentum, with the memory of one accumulator.

    Parameters
    ----------
    learning_rate : float scalar or callable
        The learning rate, or a schedule for it.
    b1, b2, eps, eps_root, weight_decay
        As in `scale_by_novograd`.

    Returns
    -------
    GradientTransformation
        The equation is in `scale_by_novograd`. Source: Ginsburg et al. 2019.
    """
    return chain(scale_by_novograd(b1, b2, eps, eps_root, weight_decay), scale_by_learning_rate(learning_rate))
