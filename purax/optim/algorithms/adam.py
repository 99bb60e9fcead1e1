# SPDX-License-Identifier: Apache-2.0
"""Adam and its next of kin: AdamW, NAdam, NAdamW."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from purax import numpy as pnp
from purax import tree
from purax.optim import tree as optim_tree
from purax.optim.base import GradientTransformation, OptState, Params, ScalarOrSchedule, Updates
from purax.optim.combine import chain
from purax.optim.numeric import safe_increment
from purax.optim.scale import add_decayed_weights, scale_by_learning_rate

__all__ = ["ScaleByAdamState", "adam", "adamw", "nadam", "nadamw", "scale_by_adam"]


class ScaleByAdamState(NamedTuple):
    """The number of steps taken, and the averages of the gradients and of their squares."""

    count: Any
    mu: Any
    nu: Any


def scale_by_adam(
    b1: Any = 0.9,
    b2: Any = 0.999,
    eps: Any = 1e-8,
    eps_root: Any = 0.0,
    mu_dtype: Any = None,
    *,
    nesterov: bool = False,
) -> GradientTransformation:
    """Divide averaged gradients by the root of their averaged squares.

    Parameters
    ----------
    b1, b2 : float scalars
        Decay of the two averages.
    eps, eps_root : float scalars
        Added outside and inside the root; eps_root > 0 lets gradients flow through the update.
    mu_dtype : dtype, optional
        The dtype of the first average; that of the parameters if left out.
    nesterov : bool
        Look one step ahead (NAdam).

    Returns
    -------
    GradientTransformation
        m <- b1 m + (1 - b1) g; v <- b2 v + (1 - b2) |g|^2;
        u = (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t) + eps_root) + eps); with nesterov the numerator is
        b1 m / (1 - b1^(t+1)) + (1 - b1) g / (1 - b1^t). Its state is a `ScaleByAdamState`.
        Source: Kingma and Ba 2015; Dozat 2016.
    """

    def init(params: Params) -> ScaleByAdamState:
        mu = optim_tree.zeros_like(params, mu_dtype)
        return ScaleByAdamState(pnp.zeros((), pnp.int32), mu, optim_tree.zeros_like(params))

    def update(updates: Updates, state: Any, params: Params | None = None) -> tuple[Updates, OptState]:
        del params
        mu = optim_tree.update_moment(updates, state.mu, b1, 1)
        nu = optim_tree.update_moment_per_elem_norm(updates, state.nu, b2, 2)
        count = safe_increment(state.count)
        if nesterov:
            ahead = optim_tree.bias_correction(mu, b1, safe_increment(count))
            here = optim_tree.bias_correction(updates, b1, count)
            mu_hat = tree.map(lambda m, g: b1 * m + (1 - b1) * g, ahead, here)
        else:
            mu_hat = optim_tree.bias_correction(mu, b1, count)
        nu_hat = optim_tree.bias_correction(nu, b2, count)
        updates = tree.map(
            lambda m, v: None if m is None else m / (pnp.sqrt(v + eps_root) + eps),
            mu_hat,
            nu_hat,
            is_leaf=lambda x: x is None,
        )
        return updates, ScaleByAdamState(count, optim_tree.cast(mu, mu_dtype), nu)

    return GradientTransformation(init, update)


def adam(
    learning_rate: ScalarOrSchedule,
    b1: Any = 0.9,
    b2: Any = 0.999,
    eps: Any = 1e-8,
    eps_root: Any = 0.0,
    mu_dtype: Any = None,
    *,
    nesterov: bool = False,
) -> GradientTransformation:
    """Adam: averaged gradients, scaled by the root of their averaged squares.

    Parameters
    ----------
    learning_rate : float scalar or callable
        a in the equation, or a schedule for it.
    b1, b2, eps, eps_root, mu_dtype, nesterov
        As in `scale_by_adam`.

    Returns
    -------
    GradientTransformation
        p <- p - a * m_hat / (sqrt(v_hat + eps_root) + eps). Source: Kingma and Ba 2015.

    Examples
    --------
    >>> from purax import numpy as pnp
    >>> from purax import optim
    >>> optimizer = optim.adam(0.1)
    >>> params = pnp.zeros(2)
    >>> updates, state = optimizer.update(pnp.ones(2), optimizer.init(params))
    >>> bool(pnp.allclose(optim.apply_updates(params, updates), -0.1))
    True
    """
    return chain(
        scale_by_adam(b1, b2, eps, eps_root, mu_dtype, nesterov=nesterov), scale_by_learning_rate(learning_rate)
    )


def nadam(
    learning_rate: ScalarOrSchedule,
    b1: Any = 0.9,
    b2: Any = 0.999,
    eps: Any = 1e-8,
    eps_root: Any = 0.0,
    mu_dtype: Any = None,
    *,
    nesterov: bool = True,
) -> GradientTransformation:
    """NAdam: Adam that looks one step ahead (`adam` with nesterov=True).

    Parameters
    ----------
    learning_rate : float scalar or callable
        The learning rate, or a schedule for it.
    b1, b2, eps, eps_root, mu_dtype, nesterov
        As in `scale_by_adam`.

    Returns
    -------
    GradientTransformation
        The equation is in `scale_by_adam`. Source: Dozat 2016.
    """
    return adam(learning_rate, b1, b2, eps, eps_root, mu_dtype, nesterov=nesterov)


def adamw(
    learning_rate: ScalarOrSchedule,
    b1: Any = 0.9,
    b2: Any = 0.999,
    eps: Any = 1e-8,
    eps_root: Any = 0.0,
    mu_dtype: Any = None,
    weight_decay: Any = 1e-4,
    mask: Any | Callable[[Params], Any] | None = None,
    *,
    nesterov: bool = False,
) -> GradientTransformation:
    """AdamW: Adam with weight decay that the adaptive scaling does not touch.

    Parameters
    ----------
    learning_rate : float scalar or callable
        a in the equation, or a schedule for it.
    b1, b2, eps, eps_root, mu_dtype, nesterov
        As in `scale_by_adam`.
    weight_decay : float scalar or callable
        lambda in the equation (multiplied by the learning rate), or a schedule for it.
    mask : tree of bool or callable from params to it, optional
        Where to decay; everywhere if left out.

    Returns
    -------
    GradientTransformation
        p <- p - a * (m_hat / (sqrt(v_hat + eps_root) + eps) + lambda * p). Source: Loshchilov and Hutter 2019.
    """
    return chain(
        scale_by_adam(b1, b2, eps, eps_root, mu_dtype, nesterov=nesterov),
        add_decayed_weights(weight_decay, mask),
        scale_by_learning_rate(learning_rate),
    )


def nadamw(
    learning_rate: ScalarOrSchedule,
    b1: Any = 0.9,
    b2: Any = 0.999,
    eps: Any = 1e-8,
    eps_root: Any = 0.0,
    mu_dtype: Any = None,
    weight_decay: Any = 1e-4,
    mask: Any | Callable[[Params], Any] | None = None,
    *,
    nesterov: bool = True,
) -> GradientTransformation:
    """NAdamW: AdamW that looks one step ahead (`adamw` with nesterov=True).

    Parameters
    ----------
    learning_rate, b1, b2, eps, eps_root, mu_dtype, weight_decay, mask, nesterov
        As in `adamw`.

    Returns
    -------
    GradientTransformation
        The equation is in `adamw`. Source: Dozat 2016; Loshchilov and Hutter 2019.
    """
    return adamw(learning_rate, b1, b2, eps, eps_root, mu_dtype, weight_decay, mask, nesterov=nesterov)
