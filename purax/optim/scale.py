# SPDX-License-Identifier: Apache-2.0
"""Small transformations that scale, average, decay or clean updates: the parts that optimizers are chained from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from purax import numpy as pnp
from purax import random, tree
from purax.optim import tree as optim_tree
from purax.optim.base import (
    EmptyState,
    GradientTransformation,
    OptState,
    Params,
    ScalarOrSchedule,
    Schedule,
    Updates,
    init_empty_state,
    require_params,
    stateless_with_tree_map,
)
from purax.optim.mask import masked
from purax.optim.numeric import safe_increment, safe_norm, safe_root_mean_squares

__all__ = [
    "AddDecayedWeightsState",
    "AddNoiseState",
    "ApplyEvery",
    "EmaState",
    "NonNegativeParamsState",
    "ScaleByScheduleState",
    "ScaleByTrustRatioState",
    "ScaleState",
    "TraceState",
    "ZeroNansState",
    "add_decayed_weights",
    "add_noise",
    "apply_every",
    "centralize",
    "ema",
    "keep_params_nonnegative",
    "normalize_by_update_norm",
    "scale",
    "scale_by_learning_rate",
    "scale_by_param_block_norm",
    "scale_by_param_block_rms",
    "scale_by_schedule",
    "scale_by_sign",
    "scale_by_trust_ratio",
    "trace",
    "zero_nans",
]

AddDecayedWeightsState = NonNegativeParamsState = ScaleByTrustRatioState = ScaleState = EmptyState


def _times(factor: Any, updates: Updates) -> Updates:
    """Multiply each leaf by a scalar, in the dtype of the leaf."""
    if not hasattr(factor, "astype"):
        return tree.map(lambda u: factor * u, updates)
    return tree.map(lambda u: factor.astype(u.dtype) * u, updates)


def _zero_count() -> Any:
    return pnp.zeros((), pnp.int32)


def scale(step_size: Any) -> GradientTransformation:
    """Multiply updates by a constant s.

    Parameters
    ----------
    step_size : float scalar
        s in the equation.

    Returns
    -------
    GradientTransformation
        u' = s * u.
    """

    def update(updates: Updates, state: OptState, params: Params | None = None) -> tuple[Updates, OptState]:
        del params
        return _times(step_size, updates), state

    return GradientTransformation(init_empty_state, update)


class ScaleByScheduleState(NamedTuple):
    """The number of steps taken, int32[]."""

    count: Any


def scale_by_schedule(step_size_fn: Schedule) -> GradientTransformation:
    """Multiply updates by a value that depends on the step t, which starts at 0.

    Parameters
    ----------
    step_size_fn : callable
        s in the equation.

    Returns
    -------
    GradientTransformation
        u' = s(t) * u. Its state is a `ScaleByScheduleState`.
    """

    def init(params: Params) -> ScaleByScheduleState:
        del params
        return ScaleByScheduleState(_zero_count())

    def update(updates: Updates, state: Any, params: Params | None = None) -> tuple[Updates, OptState]:
        del params
        factor = pnp.asarray(step_size_fn(state.count))
        return _times(factor, updates), ScaleByScheduleState(safe_increment(state.count))

    return GradientTransformation(init, update)


def scale_by_learning_rate(learning_rate: ScalarOrSchedule, *, flip_sign: bool = True) -> GradientTransformation:
    """Multiply updates by the learning rate, and by -1 so that adding them descends.

    Parameters
    ----------
    learning_rate : float scalar or callable
        A value, or a schedule from step to value.
    flip_sign : bool
        False leaves the sign as it is.

    Returns
    -------
    GradientTransformation
        u' = -learning_rate * u.

    Raises
    ------
    TypeError
        The learning rate is None or text.
    """
    sign = -1 if flip_sign else 1
    if callable(learning_rate):
        return scale_by_schedule(lambda count: sign * learning_rate(count))
    if learning_rate is None or isinstance(learning_rate, str):
        raise TypeError(f"the learning rate is a number or a schedule, got {learning_rate!r}")
    return scale(sign * learning_rate)


class TraceState(NamedTuple):
    """The accumulated updates, of the structure of the parameters."""

    trace: Any


def trace(decay: Any, nesterov: bool = False, accumulator_dtype: Any = None) -> GradientTransformation:
    """Accumulate updates with decay (momentum; not an average, see `ema`).

    Parameters
    ----------
    decay : float scalar
        mu in the equation.
    nesterov : bool
        Look one step ahead.
    accumulator_dtype : dtype, optional
        The dtype of the accumulator; that of the parameters if left out.

    Returns
    -------
    GradientTransformation
        m <- u + mu * m; u' = m, or u + mu * m with the new m for nesterov. Source: Sutskever et al. 2013.
    """

    def init(params: Params) -> TraceState:
        return TraceState(optim_tree.zeros_like(params, accumulator_dtype))

    def update(updates: Updates, state: Any, params: Params | None = None) -> tuple[Updates, OptState]:
        del params

        def accumulate(g: Any, t: Any) -> Any:
            return g + decay * t

        new_trace = tree.map(accumulate, updates, state.trace)
        updates = tree.map(accumulate, updates, new_trace) if nesterov else new_trace
        return updates, TraceState(optim_tree.cast(new_trace, accumulator_dtype))

    return GradientTransformation(init, update)


class EmaState(NamedTuple):
    """The number of steps taken and the average, of the structure of the parameters."""

    count: Any
    ema: Any


def ema(decay: Any, debias: bool = True, accumulator_dtype: Any = None) -> GradientTransformation:
    """Replace updates by their exponential moving average.

    Parameters
    ----------
    decay : float scalar
        b in the equation.
    debias : bool
        Divide by 1 - b**t, which undoes the start at zero.
    accumulator_dtype : dtype, optional
        The dtype of the average; that of the parameters if left out.

    Returns
    -------
    GradientTransformation
        m <- b * m + (1 - b) * u; u' = m / (1 - b**t).
    """

    def init(params: Params) -> EmaState:
        return EmaState(_zero_count(), optim_tree.zeros_like(params, accumulator_dtype))

    def update(updates: Updates, state: Any, params: Params | None = None) -> tuple[Updates, OptState]:
        del params
        average = optim_tree.update_moment(updates, state.ema, decay, 1)
        count = safe_increment(state.count)
        updates = optim_tree.bias_correction(average, decay, count) if debias else average
        return updates, EmaState(count, optim_tree.cast(average, accumulator_dtype))

    return GradientTransformation(init, update)


def add_decayed_weights(weight_decay: Any = 0.0, mask: Any | Callable[[Params], Any] | None = None) -> Any:
    """Add a fraction of each parameter to its update.

    Parameters
    ----------
    weight_decay : float scalar or callable
        lambda in the equation, or a schedule for it.
    mask : tree of bool or callable from params to it, optional
        Where to decay; everywhere if left out.

    Returns
    -------
    GradientTransformation
        u' = u + lambda * p. Source: Loshchilov and Hutter 2019.
    """

    def add(updates: Updates, params: Params | None, decay: Any) -> Updates:
        require_params(params, "add_decayed_weights")
        factor = decay if not hasattr(decay, "astype") else None
        return tree.map(
            lambda u, p: None if u is None else u + (factor if factor is not None else decay.astype(p.dtype)) * p,
            updates,
            params,
            is_leaf=lambda x: x is None,
        )

    if callable(weight_decay):

        def init(params: Params) -> ScaleByScheduleState:
            del params
            return ScaleByScheduleState(_zero_count())

        def update(updates: Updates, state: Any, params: Params | None = None) -> tuple[Updates, OptState]:
            updates = add(updates, params, pnp.asarray(weight_decay(state.count)))
            return updates, ScaleByScheduleState(safe_increment(state.count))

        tx = GradientTransformation(init, update)
    else:

        def update_constant(updates: Updates, state: OptState, params: Params | None = None) -> Any:
            return add(updates, params, weight_decay), state

        tx = GradientTransformation(init_empty_state, update_constant)
    return tx if mask is None else masked(tx, mask)


def scale_by_sign() -> GradientTransformation:
    """Replace each element of the updates by its sign.

    Returns
    -------
    GradientTransformation
        u' = sign(u).
    """
    return stateless_with_tree_map(lambda u, _: pnp.sign(u))


def scale_by_trust_ratio(min_norm: Any = 0.0, trust_coefficient: Any = 1.0, eps: Any = 0.0) -> GradientTransformation:
    """Make the size of each leaf's update a multiple of the size of its parameter.

    Parameters
    ----------
    min_norm : float scalar
        The least norm counted.
    trust_coefficient : float scalar
        eta in the equation.
    eps : float scalar
        Added to the norm of the update.

    Returns
    -------
    GradientTransformation
        u' = eta * ||p|| / (||u|| + eps) * u, and u where either norm is zero. Source: You et al. 2017 and 2020.
    """

    def update(updates: Updates, state: OptState, params: Params | None = None) -> tuple[Updates, OptState]:
        require_params(params, "scale_by_trust_ratio")

        def scaled(u: Any, p: Any) -> Any:
            param_norm, update_norm = safe_norm(p, min_norm), safe_norm(u, min_norm)
            zero = pnp.logical_or(param_norm <= 0, update_norm <= 0)
            ratio = trust_coefficient * param_norm / pnp.where(zero, 1.0, update_norm + eps)
            return u * pnp.where(zero, 1.0, ratio).astype(u.dtype)

        return tree.map(scaled, updates, params), state

    return GradientTransformation(init_empty_state, update)


def scale_by_param_block_norm(min_scale: Any = 1e-3) -> GradientTransformation:
    """Multiply each leaf's update by the norm of its parameter.

    Parameters
    ----------
    min_scale : float scalar
        The least factor.

    Returns
    -------
    GradientTransformation
        u' = u * max(||p||, min_scale).
    """
    return _scale_by_param(lambda p: safe_norm(p, min_scale), "scale_by_param_block_norm")


def scale_by_param_block_rms(min_scale: Any = 1e-3) -> GradientTransformation:
    """Multiply each leaf's update by the root mean square of its parameter.

    Parameters
    ----------
    min_scale : float scalar
        The least factor.

    Returns
    -------
    GradientTransformation
        u' = u * max(rms(p), min_scale). Source: Shazeer and Stern 2018, section 8.
    """
    return _scale_by_param(lambda p: safe_root_mean_squares(p, min_scale), "scale_by_param_block_rms")


def _scale_by_param(size: Callable[[Any], Any], name: str) -> GradientTransformation:
    def update(updates: Updates, state: OptState, params: Params | None = None) -> tuple[Updates, OptState]:
        require_params(params, name)
        return tree.map(lambda u, p: u * size(p), updates, params), state

    return GradientTransformation(init_empty_state, update)


def normalize_by_update_norm(scale_factor: Any = 1.0, eps: Any = 1e-6) -> GradientTransformation:
    """Give all updates together one norm s.

    Parameters
    ----------
    scale_factor : float scalar
        s in the equation.
    eps : float scalar
        Added to the norm.

    Returns
    -------
    GradientTransformation
        u' = s * u / (||u|| + eps).
    """

    def update(updates: Updates, state: OptState, params: Params | None = None) -> tuple[Updates, OptState]:
        del params
        return _times(scale_factor / (optim_tree.norm(updates) + eps), updates), state

    return GradientTransformation(init_empty_state, update)


def centralize() -> GradientTransformation:
    """Remove from each leaf of rank 2 and more its mean over all axes but the first.

    Returns
    -------
    GradientTransformation
        u' = u - mean(u over all axes but the first). Source: Yong et al. 2020.
    """

    def centred(u: Any, _: Any) -> Any:
        return u - pnp.mean(u, axis=tuple(range(1, u.ndim)), keepdims=True) if u.ndim > 1 else u

    return stateless_with_tree_map(centred)


class ZeroNansState(NamedTuple):
    """Whether the last update of each leaf held a NaN, bool[] for each leaf."""

    found_nan: Any


def zero_nans() -> GradientTransformation:
    """Replace NaN elements of the updates by zero, and remember where there were any.

    Returns
    -------
    GradientTransformation
        u' = 0 where u is NaN, u elsewhere. Its state is a `ZeroNansState`.
    """

    def init(params: Params) -> ZeroNansState:
        return ZeroNansState(tree.map(lambda p: pnp.zeros((), pnp.bool_), params))

    def update(updates: Updates, state: OptState, params: Params | None = None) -> tuple[Updates, OptState]:
        del state, params
        found = tree.map(lambda u: pnp.any(pnp.isnan(u)), updates)
        clean = tree.map(lambda u: pnp.where(pnp.isnan(u), pnp.zeros_like(u), u), updates)
        return clean, ZeroNansState(found)

    return GradientTransformation(init, update)


def keep_params_nonnegative() -> GradientTransformation:
    """Shorten updates so that no parameter falls below zero.

    Returns
    -------
    GradientTransformation
        u' = max(u, -p).
    """

    def update(updates: Updates, state: OptState, params: Params | None = None) -> tuple[Updates, OptState]:
        require_params(params, "keep_params_nonnegative")
        return tree.map(lambda p, u: pnp.where(p + u < 0.0, -p, u), params, updates), state

    return GradientTransformation(init_empty_state, update)


class AddNoiseState(NamedTuple):
    """The number of steps taken and the random key of the next one."""

    count: Any
    rng_key: Any


def add_noise(eta: Any, gamma: Any, key: Any = None, *, seed: int | None = None) -> GradientTransformation:
    """Add normal noise whose variance falls with the step t, which starts at 1.

    Parameters
    ----------
    eta, gamma : float scalars
        In the equation.
    key : random key or int
        Where the noise comes from.
    seed : int, optional
        Another name for an int key.

    Returns
    -------
    GradientTransformation
        u' = u + n, n ~ N(0, eta / t**gamma). Source: Neelakantan et al. 2015.

    Raises
    ------
    ValueError
        If neither key nor seed is given, or both.
    """
    if (key is None) == (seed is None):
        raise ValueError("add_noise: pass either key= or seed=")
    source = seed if key is None else key
    first_key = random.key(source) if isinstance(source, int) else source

    def init(params: Params) -> AddNoiseState:
        del params
        return AddNoiseState(_zero_count(), first_key)

    def update(updates: Updates, state: Any, params: Params | None = None) -> tuple[Updates, OptState]:
        del params
        count = safe_increment(state.count)
        deviation = pnp.sqrt(eta / count**gamma)
        next_key, draw_key = random.split(state.rng_key)
        noise = optim_tree.random_like(draw_key, updates)
        return optim_tree.add_scale(updates, deviation, noise), AddNoiseState(count, next_key)

    return GradientTransformation(init, update)


class ApplyEvery(NamedTuple):
    """The position within k steps and the sum of the updates so far."""

    count: Any
    grad_acc: Any


def apply_every(k: int = 1) -> GradientTransformation:
    """Add updates up, and let their sum through every k-th step; zero in between.

    Parameters
    ----------
    k : int
        How many steps make one.

    Returns
    -------
    GradientTransformation
        Put it last in a chain. For averaged gradients of micro-batches use `MultiSteps`.
    """

    def init(params: Params) -> ApplyEvery:
        return ApplyEvery(_zero_count(), optim_tree.zeros_like(params))

    def update(updates: Updates, state: Any, params: Params | None = None) -> tuple[Updates, OptState]:
        del params
        position = state.count % k
        first, last = position == 0, position == k - 1
        total = tree.map(lambda g, acc: pnp.where(first, g, acc + g), updates, state.grad_acc)
        emitted = tree.map(lambda acc: pnp.where(last, acc, pnp.zeros_like(acc)), total)
        return emitted, ApplyEvery(safe_increment(state.count) % k, total)

    return GradientTransformation(init, update)
