# SPDX-License-Identifier: Apache-2.0
"""Smaller steps when the loss stops falling."""

from __future__ import annotations

from typing import Any, NamedTuple

from purax import numpy as pnp
from purax import tree
from purax.optim.base import GradientTransformationExtraArgs, OptState, Params, Updates

__all__ = ["ReduceLROnPlateauState", "reduce_on_plateau"]


class ReduceLROnPlateauState(NamedTuple):
    """The factor on updates, the best value, how long there was none better, and the running mean of values."""

    scale: Any
    best_value: Any
    plateau_count: Any
    cooldown_count: Any
    count: Any
    avg_value: Any


def reduce_on_plateau(
    factor: float = 0.1,
    patience: int = 10,
    rtol: float = 1e-4,
    atol: float = 0.0,
    cooldown: int = 0,
    accumulation_size: int = 1,
    min_scale: float = 0.0,
) -> GradientTransformationExtraArgs:
    """Multiply updates by a factor that shrinks whenever the loss has not improved for a while.

    Parameters
    ----------
    factor : float
        What the factor is multiplied by, in (0, 1).
    patience : int
        How many values in a row may be no better.
    rtol, atol : float
        A value is better if it is below (1 - rtol) * best - atol.
    cooldown : int
        How many values are passed over after a reduction.
    accumulation_size : int
        How many values are averaged into one.
    min_scale : float
        The least factor.

    Returns
    -------
    GradientTransformationExtraArgs
        u' = scale * u; `update` needs `value=`, the loss. Its state is a `ReduceLROnPlateauState`.

    Raises
    ------
    ValueError
        If the factor is not in (0, 1), or a tolerance is negative or both are zero.
    """
    if not 0.0 < factor < 1.0:
        raise ValueError(f"reduce_on_plateau: factor must lie between 0 and 1, got {factor}")
    if rtol < 0.0 or atol < 0.0 or rtol == atol == 0.0 or rtol > 1.0:
        raise ValueError(f"reduce_on_plateau: needs a tolerance above 0 (rtol at most 1), got rtol={rtol}, atol={atol}")

    def init(params: Params) -> ReduceLROnPlateauState:
        del params
        zero = pnp.zeros((), pnp.int32)
        return ReduceLROnPlateauState(
            pnp.ones((), pnp.float32),
            pnp.asarray(pnp.inf, pnp.float32),
            zero,
            zero,
            zero,
            pnp.zeros((), pnp.float32),
        )

    def judged(state: ReduceLROnPlateauState, average: Any) -> ReduceLROnPlateauState:
        better = average < (1 - rtol) * state.best_value - atol
        resting = state.cooldown_count > 0
        waited = pnp.where(better, 0, state.plateau_count + 1)
        reduce = ~resting & (waited == patience)
        smaller = pnp.maximum(state.scale * factor, min_scale)
        return ReduceLROnPlateauState(
            scale=pnp.where(reduce, smaller, state.scale),
            best_value=pnp.where(better, average, state.best_value),
            plateau_count=pnp.where(resting | reduce, 0, waited).astype(pnp.int32),
            cooldown_count=pnp.where(resting, state.cooldown_count - 1, pnp.where(reduce, cooldown, 0)).astype(
                pnp.int32
            ),
            count=pnp.zeros((), pnp.int32),
            avg_value=pnp.zeros((), pnp.float32),
        )

    def update(
        updates: Updates, state: Any, params: Params | None = None, *, value: Any, **extra_args: Any
    ) -> tuple[Updates, OptState]:
        del params, extra_args
        count = state.count + 1
        average = ((state.count * state.avg_value + value) / count).astype(pnp.float32)
        complete, waiting = judged(state, average), state._replace(count=count, avg_value=average)
        state = tree.map(lambda a, b: pnp.where(count == accumulation_size, a, b), complete, waiting)
        return tree.map(lambda u: state.scale.astype(u.dtype) * u, updates), state

    return GradientTransformationExtraArgs(init, update)
