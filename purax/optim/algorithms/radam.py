# SPDX-License-Identifier: Apache-2.0
"""RAdam: Adam that starts as momentum until its second average can be trusted."""

from __future__ import annotations

from typing import Any

from purax import numpy as pnp
from purax import tree
from purax.optim import tree as optim_tree
from purax.optim.algorithms.adam import ScaleByAdamState
from purax.optim.base import GradientTransformation, OptState, Params, ScalarOrSchedule, Updates
from purax.optim.combine import chain
from purax.optim.numeric import safe_increment
from purax.optim.scale import scale_by_learning_rate

__all__ = ["radam", "scale_by_radam"]


def scale_by_radam(
    b1: Any = 0.9,
    b2: Any = 0.999,
    eps: Any = 1e-8,
    eps_root: Any = 0.0,
    threshold: Any = 5.0,
    *,
    nesterov: bool = False,
) -> GradientTransformation:
    """Scale as Adam does once the variance of its divisor is tractable, with a rectifying factor.

    Parameters
    ----------
    b1, b2 : float scalars
        Decay of the two averages.
    eps, eps_root : float scalars
        Added outside and inside the root.
    threshold : float scalar
        The length rho of the average from which on the divisor is used.
    nesterov : bool
        Look one step ahead.

    Returns
    -------
    GradientTransformation
        rho_inf = 2 / (1 - b2) - 1; rho = rho_inf - 2 t b2^t / (1 - b2^t);
        r = sqrt((rho - 4)(rho - 2) rho_inf / ((rho_inf - 4)(rho_inf - 2) rho));
        u = r m_hat / (sqrt(v_hat + eps_root) + eps) if rho >= threshold, else m_hat.
        Its state is a `ScaleByAdamState`. Source: Liu et al. 2020.
    """
    rho_inf = 2.0 / (1.0 - b2) - 1.0

    def init(params: Params) -> ScaleByAdamState:
        return ScaleByAdamState(pnp.zeros((), pnp.int32), optim_tree.zeros_like(params), optim_tree.zeros_like(params))

    def update(updates: Updates, state: Any, params: Params | None = None) -> tuple[Updates, OptState]:
        del params
        count = safe_increment(state.count)
        mu = optim_tree.update_moment(updates, state.mu, b1, 1)
        nu = optim_tree.update_moment_per_elem_norm(updates, state.nu, b2, 2)
        power = b2**count
        rho = rho_inf - 2 * count * power / (1 - power)
        trusted = rho >= threshold
        # Where rho is small the radicand is negative: give the root something harmless there.
        safe_rho = pnp.where(trusted, rho, rho_inf)
        rectifier = pnp.sqrt(
            (safe_rho - 4.0) * (safe_rho - 2.0) * rho_inf / ((rho_inf - 4.0) * (rho_inf - 2.0) * safe_rho)
        )
        if nesterov:
            ahead = optim_tree.bias_correction(mu, b1, safe_increment(count))
            here = optim_tree.bias_correction(updates, b1, count)
            mu_hat = tree.map(lambda m, g: b1 * m + (1 - b1) * g, ahead, here)
        else:
            mu_hat = optim_tree.bias_correction(mu, b1, count)
        nu_hat = optim_tree.bias_correction(nu, b2, count)
        updates = tree.map(
            lambda m, v: pnp.where(trusted, rectifier.astype(m.dtype) * m / (pnp.sqrt(v + eps_root) + eps), m),
            mu_hat,
            nu_hat,
        )
        return updates, ScaleByAdamState(count, mu, nu)

    return GradientTransformation(init, update)


def radam(
    learning_rate: ScalarOrSchedule,
    b1: Any = 0.9,
    b2: Any = 0.999,
    eps: Any = 1e-8,
    eps_root: Any = 0.0,
    threshold: Any = 5.0,
    *,
    nesterov: bool = False,
) -> GradientTransformation:
    """RAdam: Adam that needs no warm-up.

    Parameters
    ----------
    learning_rate : float scalar or callable
        The learning rate, or a schedule for it.
    b1, b2, eps, eps_root, threshold, nesterov
        As in `scale_by_radam`.

    Returns
    -------
    GradientTransformation
        The equation is in `scale_by_radam`. Source: Liu et al. 2020.
    """
    return chain(
        scale_by_radam(b1, b2, eps, eps_root, threshold, nesterov=nesterov), scale_by_learning_rate(learning_rate)
    )
