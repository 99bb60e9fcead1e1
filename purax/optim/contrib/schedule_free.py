# SPDX-License-Identifier: Apache-2.0
"""Schedule-free optimizers: averaging in place of a falling learning rate."""

from __future__ import annotations

from typing import Any, NamedTuple

from purax import numpy as pnp
from purax import tree
from purax.optim import tree as optim_tree
from purax.optim.algorithms.rmsprop import scale_by_rms
from purax.optim.algorithms.sgd import sgd
from purax.optim.apply import apply_updates
from purax.optim.base import (
    GradientTransformation,
    GradientTransformationExtraArgs,
    OptState,
    Params,
    ScalarOrSchedule,
    Updates,
    require_params,
    with_extra_args_support,
)
from purax.optim.combine import chain
from purax.optim.scale import add_decayed_weights, scale_by_learning_rate
from purax.optim.schedule import warmup_constant_schedule

__all__ = [
    "ScheduleFreeState",
    "schedule_free",
    "schedule_free_adamw",
    "schedule_free_eval_params",
    "schedule_free_sgd",
]


class ScheduleFreeState(NamedTuple):
    """The weight of the average, the sum of weights, steps, the largest rate, the base's state, and its iterate z."""

    b1: Any
    weight_sum: Any
    step_count: Any
    max_lr: Any
    base_optimizer_state: OptState
    z: Any


def schedule_free_eval_params(state: OptState, params: Params) -> Params:
    """Give the averaged parameters, which are the ones to test with.

    Parameters
    ----------
    state : tree
        The state of a schedule-free optimizer, alone or within a chain.
    params : tree of arrays
        The parameters that are trained (y).

    Returns
    -------
    tree
        x = (y - (1 - b1) z) / b1.
    """
    b1, z = optim_tree.get(state, "b1"), optim_tree.get(state, "z")
    return tree.map(lambda y, at: ((y - (1.0 - b1) * at) / b1).astype(y.dtype), params, z)


def schedule_free(
    base_optimizer: GradientTransformation,
    learning_rate: ScalarOrSchedule,
    b1: Any = 0.9,
    weight_lr_power: Any = 2.0,
    state_dtype: Any = None,
) -> GradientTransformationExtraArgs:
    """Take gradients between the iterate of an optimizer and its running average.

    Parameters
    ----------
    base_optimizer : GradientTransformation
        Without momentum.
    learning_rate : float scalar or callable
        The rate that the base uses, which weighs the average.
    b1 : float scalar
        How near to the average gradients are taken.
    weight_lr_power : float scalar
        The power of the largest rate that a step weighs.
    state_dtype : dtype, optional
        The dtype of z; that of the parameters if left out.

    Returns
    -------
    GradientTransformationExtraArgs
        z <- z - base(g at y); x <- (1 - c) x + c z, c the share of the step's weight; y <- b1 x + (1 - b1) z.
        The trained parameters are y; test with `schedule_free_eval_params`. Source: Defazio et al. 2024.
    """
    base = with_extra_args_support(base_optimizer)

    def init(params: Params) -> ScheduleFreeState:
        return ScheduleFreeState(
            pnp.asarray(b1, pnp.float32),
            pnp.zeros((), pnp.float32),
            pnp.ones((), pnp.int32),
            pnp.zeros((), pnp.float32),
            base.init(params),
            optim_tree.cast(params, state_dtype),
        )

    def update(
        updates: Updates, state: Any, params: Params | None = None, **extra_args: Any
    ) -> tuple[Updates, OptState]:
        require_params(params, "schedule_free")
        rate = learning_rate(state.step_count) if callable(learning_rate) else learning_rate
        max_lr = pnp.maximum(state.max_lr, rate).astype(pnp.float32)
        weight = max_lr**weight_lr_power
        total = state.weight_sum + weight
        share = pnp.where(total > 0, weight / pnp.where(total > 0, total, 1), 0)
        base_updates, base_state = base.update(updates, state.base_optimizer_state, params, **extra_args)
        z = apply_updates(state.z, base_updates)

        def moved(y: Any, old: Any, new: Any) -> Any:
            average = (y - (1.0 - b1) * old) / b1
            average = (1.0 - share) * average + share * new
            return (b1 * average + (1.0 - b1) * new - y).astype(y.dtype)

        moves = tree.map(moved, params, state.z, z)
        return moves, ScheduleFreeState(state.b1, total, state.step_count + 1, max_lr, base_state, z)

    return GradientTransformationExtraArgs(init, update)


def _with_warmup(learning_rate: Any, warmup_steps: int | None) -> ScalarOrSchedule:
    return learning_rate if warmup_steps is None else warmup_constant_schedule(0.0, learning_rate, warmup_steps)


def schedule_free_sgd(
    learning_rate: Any = 1.0,
    warmup_steps: int | None = None,
    b1: Any = 0.9,
    weight_decay: Any = None,
    weight_lr_power: Any = 2.0,
    state_dtype: Any = None,
) -> GradientTransformationExtraArgs:
    """Gradient descent without a schedule.

    Parameters
    ----------
    learning_rate : float scalar
        The rate.
    warmup_steps : int, optional
        Rise to it over so many steps.
    weight_decay : float scalar, optional
        A multiple of the parameters that is added to the gradients.
    b1, weight_lr_power, state_dtype
        As in `schedule_free`.

    Returns
    -------
    GradientTransformationExtraArgs
        The equation is in `schedule_free`. Source: Defazio et al. 2024.
    """
    rate = _with_warmup(learning_rate, warmup_steps)
    base = sgd(rate) if weight_decay is None else chain(add_decayed_weights(weight_decay), sgd(rate))
    return schedule_free(base, rate, b1, weight_lr_power, state_dtype)


def schedule_free_adamw(
    learning_rate: Any = 0.0025,
    warmup_steps: int | None = None,
    b1: Any = 0.9,
    b2: Any = 0.999,
    eps: Any = 1e-8,
    weight_decay: Any = 0.0,
    weight_lr_power: Any = 2.0,
    state_dtype: Any = None,
) -> GradientTransformationExtraArgs:
    """AdamW without a schedule: the average takes the place of momentum.

    Parameters
    ----------
    learning_rate : float scalar
        The rate.
    warmup_steps : int, optional
        Rise to it over so many steps.
    b2, eps : float scalars
        Decay of averaged squares, and what is added outside the root.
    weight_decay : float scalar
        Decoupled decay.
    b1, weight_lr_power, state_dtype
        As in `schedule_free`.

    Returns
    -------
    GradientTransformationExtraArgs
        The equation is in `schedule_free`. Source: Defazio et al. 2024.
    """
    rate = _with_warmup(learning_rate, warmup_steps)
    base = chain(
        scale_by_rms(b2, eps, eps_in_sqrt=False, bias_correction=True),
        add_decayed_weights(weight_decay),
        scale_by_learning_rate(rate),
    )
    return schedule_free(base, rate, b1, weight_lr_power, state_dtype)
