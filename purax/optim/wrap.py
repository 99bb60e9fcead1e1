# SPDX-License-Identifier: Apache-2.0
"""Transformations around a whole optimizer: accumulation, look-ahead, protection from bad gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

from purax import numpy as pnp
from purax import tree
from purax.control.branch import cond
from purax.optim import tree as optim_tree
from purax.optim.base import (
    GradientTransformation,
    GradientTransformationExtraArgs,
    OptState,
    Params,
    Updates,
    with_extra_args_support,
)
from purax.optim.numeric import safe_increment

__all__ = [
    "ApplyIfFiniteState",
    "LookaheadParams",
    "LookaheadState",
    "MultiSteps",
    "MultiStepsState",
    "ShouldSkipUpdateFunction",
    "apply_if_finite",
    "flatten",
    "lookahead",
    "skip_large_updates",
    "skip_not_finite",
]


def flatten(inner: GradientTransformation) -> GradientTransformationExtraArgs:
    """Run a transformation on one long vector instead of a tree of many small arrays.

    Parameters
    ----------
    inner : GradientTransformation
        One that treats all elements alike; all leaves are promoted to one dtype.

    Returns
    -------
    GradientTransformationExtraArgs
        The same updates, from fewer and larger operations.
    """
    inner = with_extra_args_support(inner)

    def joined(values: Any) -> Any:
        return pnp.concatenate([pnp.ravel(leaf) for leaf in tree.leaves(values)])

    def split(vector: Any, like: Any) -> Any:
        leaves, structure = tree.flatten(like)
        ends = np.cumsum([leaf.size for leaf in leaves])
        pieces = [
            vector[end - leaf.size : end].reshape(leaf.shape).astype(leaf.dtype)
            for leaf, end in zip(leaves, ends.tolist(), strict=True)
        ]
        return tree.unflatten(structure, pieces)

    def init(params: Params) -> OptState:
        return inner.init(joined(params))

    def update(
        updates: Updates, state: OptState, params: Params | None = None, **extra_args: Any
    ) -> tuple[Updates, OptState]:
        flat_params = None if params is None else joined(params)
        flat, state = inner.update(joined(updates), state, flat_params, **extra_args)
        return split(flat, updates), state

    return GradientTransformationExtraArgs(init, update)


class ApplyIfFiniteState(NamedTuple):
    """Faults in a row, whether the last update was finite, faults in all, and the optimizer's state."""

    notfinite_count: Any
    last_finite: Any
    total_notfinite: Any
    inner_state: Any


def _all_finite(updates: Updates) -> Any:
    checks = [pnp.all(pnp.isfinite(leaf)) for leaf in tree.leaves(updates)]
    return pnp.all(pnp.stack(checks)) if checks else pnp.asarray(True)


def apply_if_finite(inner: GradientTransformation, max_consecutive_errors: int) -> GradientTransformationExtraArgs:
    """Skip steps whose gradients hold NaN or inf: zero updates, and the optimizer's state stands still.

    Parameters
    ----------
    inner : GradientTransformation
        The optimizer.
    max_consecutive_errors : int
        After more faults in a row than this, the updates are let through, so that the fault shows.

    Returns
    -------
    GradientTransformationExtraArgs
        Its state is an `ApplyIfFiniteState`.
    """
    inner = with_extra_args_support(inner)

    def init(params: Params) -> ApplyIfFiniteState:
        zero = pnp.zeros((), pnp.int32)
        return ApplyIfFiniteState(zero, pnp.asarray(True), zero, inner.init(params))

    def update(
        updates: Updates, state: Any, params: Params | None = None, **extra_args: Any
    ) -> tuple[Updates, OptState]:
        finite = _all_finite(updates)
        in_a_row = pnp.where(finite, pnp.zeros((), pnp.int32), safe_increment(state.notfinite_count))

        def step() -> tuple[Updates, OptState]:
            return inner.update(updates, state.inner_state, params, **extra_args)

        def skip() -> tuple[Updates, OptState]:
            return tree.map(pnp.zeros_like, updates), state.inner_state

        result, inner_state = cond(pnp.logical_or(finite, in_a_row > max_consecutive_errors), step, skip)
        total = pnp.where(finite, state.total_notfinite, safe_increment(state.total_notfinite))
        return result, ApplyIfFiniteState(in_a_row, finite, total, inner_state)

    return GradientTransformationExtraArgs(init, update)


class LookaheadState(NamedTuple):
    """The fast optimizer's state and the number of steps since the slow parameters were moved."""

    fast_state: OptState
    steps_since_sync: Any


class LookaheadParams(NamedTuple):
    """Two sets of parameters: fast ones, which the optimizer trains, and slow ones, which follow."""

    fast: Params
    slow: Params

    @classmethod
    def init_synced(cls, params: Params) -> LookaheadParams:
        """Make both sets equal.

        Parameters
        ----------
        params : tree of arrays
            The first parameters.

        Returns
        -------
        LookaheadParams
            (params, params).
        """
        return cls(fast=params, slow=params)


def lookahead(
    fast_optimizer: GradientTransformation, sync_period: int, slow_step_size: Any, reset_state: bool = False
) -> GradientTransformationExtraArgs:
    """Let slow parameters follow fast ones every k steps.

    Parameters
    ----------
    fast_optimizer : GradientTransformation
        Trains the fast parameters.
    sync_period : int
        k, at least 1.
    slow_step_size : float scalar
        a in the equation.
    reset_state : bool
        Start the fast optimizer afresh after each move.

    Returns
    -------
    GradientTransformationExtraArgs
        Every k steps slow <- slow + a * (fast - slow) and fast <- slow. `update` takes gradients at the fast
        parameters and `LookaheadParams`, and gives updates for both. Source: Zhang et al. 2019.

    Raises
    ------
    ValueError
        If sync_period is below 1.
    """
    if sync_period < 1:
        raise ValueError(f"lookahead: sync_period must be at least 1, got {sync_period}")
    fast_optimizer = with_extra_args_support(fast_optimizer)

    def pair(params: Any, where: str) -> LookaheadParams:
        if not isinstance(params, LookaheadParams):
            raise ValueError(
                f"lookahead: {where}() needs params of type LookaheadParams, got {type(params).__name__}; "
                "make them by LookaheadParams.init_synced(params)"
            )
        return params

    def init(params: Params) -> LookaheadState:
        return LookaheadState(fast_optimizer.init(pair(params, "init").fast), pnp.zeros((), pnp.int32))

    def update(
        updates: Updates, state: Any, params: Params | None = None, **extra_args: Any
    ) -> tuple[Updates, OptState]:
        fast, slow = pair(params, "update")
        fast_updates, fast_state = fast_optimizer.update(updates, state.fast_state, fast, **extra_args)
        sync = state.steps_since_sync == sync_period - 1
        distance = tree.map(lambda u, f, s: f + u - s, fast_updates, fast, slow)
        slow_updates = tree.map(lambda d: pnp.where(sync, slow_step_size * d, pnp.zeros_like(d)), distance)
        fast_updates = tree.map(
            lambda u, f, s, su: pnp.where(sync, s + su - f, u), fast_updates, fast, slow, slow_updates
        )
        if reset_state:
            fast_state = optim_tree.where(sync, fast_optimizer.init(fast), fast_state)
        steps = (state.steps_since_sync + 1) % sync_period
        return LookaheadParams(fast_updates, slow_updates), LookaheadState(fast_state, steps)

    return GradientTransformationExtraArgs(init, update)


class ShouldSkipUpdateFunction(Protocol):
    """Says whether a mini-step is left out, and why."""

    def __call__(self, updates: Updates, gradient_step: Any, params: Params | None) -> tuple[Any, Any]:
        """Return a bool scalar and a tree of arrays that tells the reason."""


def skip_not_finite(updates: Updates, gradient_step: Any, params: Params | None) -> tuple[Any, Any]:
    """Leave out gradients with NaN or inf (for `MultiSteps`).

    Parameters
    ----------
    updates : tree of inexact arrays
        The gradients of one mini-step.
    gradient_step, params
        Not used.

    Returns
    -------
    tuple
        Whether to skip, bool[], and {"should_skip", "num_not_finite"}.
    """
    del gradient_step, params
    count = optim_tree.sum(tree.map(lambda u: pnp.sum(pnp.logical_not(pnp.isfinite(u))), updates))
    skip = pnp.asarray(count > 0)
    return skip, {"should_skip": skip, "num_not_finite": count}


def skip_large_updates(
    updates: Updates, gradient_step: Any, params: Params | None, max_squared_norm: Any
) -> tuple[Any, Any]:
    """Leave out gradients whose squared norm is at or above a limit, or NaN (for `MultiSteps`, by functools.partial).

    Parameters
    ----------
    updates : tree of inexact arrays
        The gradients of one mini-step.
    gradient_step, params
        Not used.
    max_squared_norm : float scalar
        The limit.

    Returns
    -------
    tuple
        Whether to skip, bool[], and {"should_skip", "norm_squared"}.
    """
    del gradient_step, params
    square = optim_tree.norm(updates, squared=True)
    skip = pnp.logical_not(square < max_squared_norm)
    return skip, {"should_skip": skip, "norm_squared": square}


class MultiStepsState(NamedTuple):
    """Mini-steps since the last step, steps taken, the optimizer's state, accumulated gradients, reason of a skip."""

    mini_step: Any
    gradient_step: Any
    inner_opt_state: Any
    acc_grads: Any
    skip_state: Any = ()


def _never_skip(updates: Updates, gradient_step: Any, params: Params | None) -> tuple[Any, Any]:
    del updates, gradient_step, params
    return pnp.asarray(False), ()


class MultiSteps:
    """Accumulate the gradients of k mini-batches into one step of an optimizer.

    Parameters
    ----------
    opt : GradientTransformation
        The optimizer.
    every_k_schedule : int or callable
        k, or a function from the number of steps taken to k.
    use_grad_mean : bool
        Average the gradients; otherwise add them up.
    should_skip_update_fn : callable, optional
        Says which mini-steps are left out; see `skip_not_finite`.
    accumulator_dtype : dtype
        The dtype of the accumulated gradients; None takes that of the parameters.

    Notes
    -----
    In mini-steps 1 to k - 1 the updates are zero; in the k-th they are the optimizer's update for the mean.
    """

    def __init__(
        self,
        opt: GradientTransformation,
        every_k_schedule: int | Callable[[Any], Any],
        use_grad_mean: bool = True,
        should_skip_update_fn: ShouldSkipUpdateFunction | None = None,
        accumulator_dtype: Any = np.float32,
    ) -> None:
        self._opt = with_extra_args_support(opt)
        self._every_k: Callable[[Any], Any] = (
            every_k_schedule if callable(every_k_schedule) else lambda step: every_k_schedule
        )
        self._use_grad_mean = use_grad_mean
        self._should_skip = _never_skip if should_skip_update_fn is None else should_skip_update_fn
        self._accumulator_dtype = accumulator_dtype

    @property
    def inner_opt(self) -> GradientTransformationExtraArgs:
        """The optimizer."""
        return self._opt

    def init(self, params: Params) -> MultiStepsState:
        """Make the first state.

        Parameters
        ----------
        params : tree of arrays
            The parameters.

        Returns
        -------
        MultiStepsState
            Zero gradients, zero steps.
        """
        zero = pnp.zeros((), pnp.int32)
        gradients = optim_tree.zeros_like(params, self._accumulator_dtype)
        _, reason = self._should_skip(optim_tree.zeros_like(params), zero, params)
        return MultiStepsState(zero, zero, self._opt.init(params), gradients, reason)

    def update(
        self, updates: Updates, state: MultiStepsState, params: Params | None = None, **extra_args: Any
    ) -> tuple[Updates, MultiStepsState]:
        """Take in the gradients of one mini-batch.

        Parameters
        ----------
        updates : tree of inexact arrays
            The gradients.
        state : MultiStepsState
            From `init` or the last `update`.
        params : tree of arrays, optional
            The parameters.
        **extra_args
            Passed to the optimizer.

        Returns
        -------
        tuple
            Updates (zero, except in every k-th call) in the dtypes of the gradients, and the next state.
        """
        k = self._every_k(state.gradient_step)
        skip, reason = self._should_skip(updates, state.gradient_step, params)

        def add(g: Any, total: Any) -> Any:
            g = g.astype(total.dtype)
            return total + (g - total) / (state.mini_step + 1).astype(total.dtype) if self._use_grad_mean else total + g

        gradients = tree.map(add, updates, state.acc_grads)
        emit = pnp.logical_and(state.mini_step >= k - 1, pnp.logical_not(skip))

        def step() -> tuple[Updates, OptState, Any]:
            final, inner_state = self._opt.update(gradients, state.inner_opt_state, params, **extra_args)
            inner_state = tree.map(
                lambda new, old: new if new.dtype == old.dtype else new.astype(old.dtype),
                inner_state,
                state.inner_opt_state,
            )
            return optim_tree.cast_like(final, updates), inner_state, optim_tree.zeros_like(gradients)

        def wait() -> tuple[Updates, OptState, Any]:
            kept = optim_tree.where(skip, state.acc_grads, gradients)
            return tree.map(pnp.zeros_like, updates), state.inner_opt_state, kept

        result, inner_state, kept = cond(emit, step, wait)
        return result, MultiStepsState(
            pnp.where(skip, state.mini_step, pnp.where(emit, 0, state.mini_step + 1)),
            pnp.where(emit, safe_increment(state.gradient_step), state.gradient_step),
            inner_state,
            kept,
            reason,
        )

    def has_updated(self, state: MultiStepsState) -> Any:
        """Say whether the last `update` was a step of the optimizer.

        Parameters
        ----------
        state : MultiStepsState
            What `update` gave.

        Returns
        -------
        bool[]
            True after every k-th mini-step.
        """
        return pnp.logical_and(state.mini_step == 0, state.gradient_step > 0)

    def gradient_transformation(self) -> GradientTransformationExtraArgs:
        """Give the same as a pair of functions, for `chain`.

        Returns
        -------
        GradientTransformationExtraArgs
            (init, update).
        """
        return GradientTransformationExtraArgs(self.init, self.update)
