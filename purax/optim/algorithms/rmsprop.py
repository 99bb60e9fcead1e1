# SPDX-License-Identifier: Apache-2.0
"""RMSProp, plain and centred."""

from __future__ import annotations

from typing import Any, NamedTuple

from purax import numpy as pnp
from purax import tree
from purax.optim import tree as optim_tree
from purax.optim.base import GradientTransformation, OptState, Params, ScalarOrSchedule, Updates, identity
from purax.optim.combine import chain
from purax.optim.numeric import abs_sq, safe_increment
from purax.optim.scale import scale_by_learning_rate, trace
from purax.primitives.elementwise import rsqrt

__all__ = [
    "ScaleByRStdDevState",
    "ScaleByRmsState",
    "ScaleByRmsWithCountState",
    "rmsprop",
    "scale_by_rms",
    "scale_by_stddev",
]


class ScaleByRmsState(NamedTuple):
    """The average of squared gradients."""

    nu: Any


class ScaleByRmsWithCountState(NamedTuple):
    """The number of steps taken and the average of squared gradients."""

    count: Any
    nu: Any


class ScaleByRStdDevState(NamedTuple):
    """The averages of gradients and of their squares."""

    mu: Any
    nu: Any


class ScaleByRStdDevWithCountState(NamedTuple):
    """The number of steps taken, and the averages of gradients and of their squares."""

    count: Any
    mu: Any
    nu: Any


def _divide_by_root(updates: Updates, squares: Any, eps: Any, eps_in_sqrt: bool) -> Updates:
    if eps_in_sqrt:
        return tree.map(lambda g, s: g * rsqrt(s + eps), updates, squares)
    return tree.map(lambda g, s: g / (pnp.sqrt(s) + eps), updates, squares)


def scale_by_rms(
    decay: Any = 0.9,
    eps: Any = 1e-8,
    initial_scale: Any = 0.0,
    eps_in_sqrt: bool = True,
    bias_correction: bool = False,
) -> GradientTransformation:
    """Divide gradients by the root of their averaged squares.

    Parameters
    ----------
    decay : float scalar
        b in the equation.
    eps : float scalar
        Keeps the divisor from zero.
    initial_scale : float scalar
        Where the average starts.
    eps_in_sqrt : bool
        Add eps inside the root; otherwise outside.
    bias_correction : bool
        Undo the start at zero; then the state also counts the steps.

    Returns
    -------
    GradientTransformation
        v <- b v + (1 - b) |g|^2; u = g / sqrt(v + eps). Its state is a `ScaleByRmsState`.
        Source: Hinton 2012, lecture 6a.
    """

    def init(params: Params) -> OptState:
        nu = optim_tree.full_like(params, initial_scale)
        return ScaleByRmsWithCountState(pnp.zeros((), pnp.int32), nu) if bias_correction else ScaleByRmsState(nu)

    def update(updates: Updates, state: Any, params: Params | None = None) -> tuple[Updates, OptState]:
        del params
        nu = optim_tree.update_moment_per_elem_norm(updates, state.nu, decay, 2)
        if not bias_correction:
            return _divide_by_root(updates, nu, eps, eps_in_sqrt), ScaleByRmsState(nu)
        count = safe_increment(state.count)
        nu_hat = optim_tree.bias_correction(nu, decay, count)
        return _divide_by_root(updates, nu_hat, eps, eps_in_sqrt), ScaleByRmsWithCountState(count, nu)

    return GradientTransformation(init, update)


def scale_by_stddev(
    decay: Any = 0.9,
    eps: Any = 1e-8,
    initial_scale: Any = 0.0,
    eps_in_sqrt: bool = True,
    bias_correction: bool = False,
) -> GradientTransformation:
    """Divide gradients by a running estimate of their standard deviation.

    Parameters
    ----------
    decay, eps, initial_scale, eps_in_sqrt, bias_correction
        As in `scale_by_rms`.

    Returns
    -------
    GradientTransformation
        m <- b m + (1 - b) g; v <- b v + (1 - b) |g|^2; u = g / sqrt(v - |m|^2 + eps).
        Its state is a `ScaleByRStdDevState`. Source: Graves 2013, equations 38 to 45.
    """

    def init(params: Params) -> OptState:
        mu, nu = optim_tree.zeros_like(params), optim_tree.full_like(params, initial_scale)
        if bias_correction:
            return ScaleByRStdDevWithCountState(pnp.zeros((), pnp.int32), mu, nu)
        return ScaleByRStdDevState(mu, nu)

    def update(updates: Updates, state: Any, params: Params | None = None) -> tuple[Updates, OptState]:
        del params
        mu = mu_hat = optim_tree.update_moment(updates, state.mu, decay, 1)
        nu = nu_hat = optim_tree.update_moment_per_elem_norm(updates, state.nu, decay, 2)
        new_state: Any = ScaleByRStdDevState(mu, nu)
        if bias_correction:
            count = safe_increment(state.count)
            mu_hat = optim_tree.bias_correction(mu, decay, count)
            nu_hat = optim_tree.bias_correction(nu, decay, count)
            new_state = ScaleByRStdDevWithCountState(count, mu, nu)
        variance = tree.map(lambda m, v: v - abs_sq(m), mu_hat, nu_hat)
        return _divide_by_root(updates, variance, eps, eps_in_sqrt), new_state

    return GradientTransformation(init, update)


def rmsprop(
    learning_rate: ScalarOrSchedule,
    decay: Any = 0.9,
    eps: Any = 1e-8,
    initial_scale: Any = 0.0,
    eps_in_sqrt: bool = True,
    centered: bool = False,
    momentum: Any = None,
    nesterov: bool = False,
    bias_correction: bool = False,
) -> GradientTransformation:
    """RMSProp: gradients divided by the root of their averaged squares.

    Parameters
    ----------
    learning_rate : float scalar or callable
        a in the equation, or a schedule for it.
    decay, eps, initial_scale, eps_in_sqrt, bias_correction
        As in `scale_by_rms`.
    centered : bool
        Divide by the standard deviation (`scale_by_stddev`).
    momentum : float scalar, optional
        Accumulate the scaled updates with this decay.
    nesterov : bool
        Look one step ahead.

    Returns
    -------
    GradientTransformation
        p <- p - a * g / sqrt(v + eps). Source: Hinton 2012; Graves 2013.
    """
    scaling = scale_by_stddev if centered else scale_by_rms
    return chain(
        scaling(decay, eps, initial_scale, eps_in_sqrt, bias_correction),
        scale_by_learning_rate(learning_rate),
        identity() if momentum is None else trace(momentum, nesterov),
    )
