# SPDX-License-Identifier: Apache-2.0
"""Newer optimizers, under the names of `optax.contrib`."""

from purax.optim.contrib.ademamix import ScaleByAdemamixState, ademamix, scale_by_ademamix
from purax.optim.contrib.plateau import ReduceLROnPlateauState, reduce_on_plateau
from purax.optim.contrib.schedule_free import (
    ScheduleFreeState,
    schedule_free,
    schedule_free_adamw,
    schedule_free_eval_params,
    schedule_free_sgd,
)

__all__ = [
    "ReduceLROnPlateauState",
    "ScaleByAdemamixState",
    "ScheduleFreeState",
    "ademamix",
    "reduce_on_plateau",
    "scale_by_ademamix",
    "schedule_free",
    "schedule_free_adamw",
    "schedule_free_eval_params",
    "schedule_free_sgd",
]
