# SPDX-License-Identifier: Apache-2.0
"""AMSGrad: Adam whose divisor never falls."""

from __future__ import annotations

from typing import Any, NamedTuple

from purax import numpy as pnp
from purax import tree
from purax.optim import tree as optim_tree
from purax.optim.base import GradientTransformation, OptState, Params, ScalarOrSchedule, Updates
from purax.optim.combine import chain
from purax.optim.numeric import safe_increment
from purax.optim.scale import scale_by_learning_rate

__all__ = ["ScaleByAmsgradState", "amsgrad", "scale_by_amsgrad"]


class ScaleByAmsgradState(NamedTuple):
    """The number of steps taken, the two averages of Adam, and the largest second average so far."""

    count: Any
    mu: Any
    nu: Any
    nu_max: Any


def scale_by_amsgrad(
    b1: Any = 0.9,
    b2: Any = 0.999,
    eps: Any = 1e-8,
    eps_root: Any = 0.0,
    mu_dtype: Any = None,
    bias_correction_mu: bool = True,
    bias_correction_nu: bool = True,
) -> GradientTransformation:
    """Divide averaged gradients by the root of the largest averaged square so far.

    Parameters
    ----------
    b1, b2 : float scalars
        Decay of the two averages.
    eps, eps_root : float scalars
        Added outside and inside the root.
    mu_dtype : dtype, optional
        The dtype of the first average; that of the parameters if left out.
    bias_correction_mu, bias_correction_nu : bool
        Undo the start at zero of either average.

    Returns
    -------
    GradientTransformation
        m, v as in `scale_by_adam`; w <- max(w, v_hat); u = m_hat / (sqrt(w + eps_root) + eps).
        Its state is a `ScaleByAmsgradState`. Source: Reddi et al. 2018.
    """

    def init(params: Params) -> ScaleByAmsgradState:
        zeros = optim_tree.zeros_like
        return ScaleByAmsgradState(pnp.zeros((), pnp.int32), zeros(params, mu_dtype), zeros(params), zeros(params))

    def update(updates: Updates, state: Any, params: Params | None = None) -> tuple[Updates, OptState]:
        del params
        count = safe_increment(state.count)
        mu = optim_tree.update_moment(updates, state.mu, b1, 1)
        nu = optim_tree.update_moment_per_elem_norm(updates, state.nu, b2, 2)
        mu_hat = optim_tree.bias_correction(mu, b1, count) if bias_correction_mu else mu
        nu_hat = optim_tree.bias_correction(nu, b2, count) if bias_correction_nu else nu
        nu_max = tree.map(pnp.maximum, state.nu_max, nu_hat)
        updates = tree.map(lambda m, v: m / (pnp.sqrt(v + eps_root) + eps), mu_hat, nu_max)
        return updates, ScaleByAmsgradState(count, optim_tree.cast(mu, mu_dtype), nu, nu_max)

    return GradientTransformation(init, update)


def amsgrad(
    learning_rate: ScalarOrSchedule,
    b1: Any = 0.9,
    b2: Any = 0.999,
    eps: Any = 1e-8,
    eps_root: Any = 0.0,
    mu_dtype: Any = None,
    bias_correction_mu: bool = True,
    bias_correction_nu: bool = True,
) -> GradientTransformation:
    """AMSGrad: Adam whose divisor never falls, which mends its proof of convergence.

    Parameters
    ----------
    learning_rate : float scalar or callable
        The learning rate, or a schedule for it.
    b1, b2, eps, eps_root, mu_dtype, bias_correction_mu, bias_correction_nu
        As in `scale_by_amsgrad`.

    Returns
    -------
    GradientTransformation
        The equation is in `scale_by_amsgrad`. Source: Reddi et al. 2018.
    """
    return chain(
        scale_by_amsgrad(b1, b2, eps, eps_root, mu_dtype, bias_correction_mu, bias_correction_nu),
        scale_by_learning_rate(learning_rate),
    )
