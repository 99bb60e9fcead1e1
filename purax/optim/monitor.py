# SPDX-License-Identifier: Apache-2.0
"""Looking at updates as they pass: transformations that change nothing, and keep what they saw in their state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from purax.optim.base import (
    GradientTransformation,
    GradientTransformationExtraArgs,
    OptState,
    Params,
    Updates,
    stateless,
    with_extra_args_support,
)
from purax.optim.combine import chain
from purax.optim.scale import ema

__all__ = ["MonitorState", "SnapshotState", "measure_with_ema", "monitor", "snapshot"]


class SnapshotState(NamedTuple):
    """What was measured last, by name."""

    measurement: dict[str, Any]


def snapshot(measure_name: str, measure: Callable[[Updates], Any]) -> GradientTransformation:
    """Keep a measure of the updates in the state, where `optim.tree.get(state, measure_name)` finds it.

    Parameters
    ----------
    measure_name : str
        Its name.
    measure : callable
        `measure(updates) -> tree of arrays`.

    Returns
    -------
    GradientTransformation
        u' = u. Its state is a `SnapshotState`.
    """

    def init(params: Params) -> SnapshotState:
        return SnapshotState({measure_name: measure(params)})

    def update(updates: Updates, state: OptState, params: Params | None = None) -> tuple[Updates, OptState]:
        del state, params
        return updates, SnapshotState({measure_name: measure(updates)})

    return GradientTransformation(init, update)


def measure_with_ema(
    measure: Callable[[Updates], Any], decay: Any, debias: bool = True, accumulator_dtype: Any = None
) -> GradientTransformationExtraArgs:
    """Measure updates, and average the measure over the steps (for `monitor`).

    Parameters
    ----------
    measure : callable
        `measure(updates) -> tree of arrays`.
    decay, debias, accumulator_dtype
        As in `ema`.

    Returns
    -------
    GradientTransformationExtraArgs
        u' = the averaged measure.
    """
    average = ema(decay, debias, accumulator_dtype)
    measured = stateless(lambda updates, params: measure(updates))

    def init_average(params: Params) -> OptState:
        return average.init(measure(params))

    return chain(measured, GradientTransformation(init_average, average.update))


class MonitorState(NamedTuple):
    """What was measured last, by name, and the states of the measures."""

    measurements: dict[str, Any]
    measure_states: tuple[OptState, ...]


def monitor(
    measures: Mapping[str, Callable[[Updates], Any] | GradientTransformation],
) -> GradientTransformationExtraArgs:
    """Keep several measures of the updates in the state.

    Parameters
    ----------
    measures : mapping from str to callable or GradientTransformation
        Functions of the updates, or transformations that give a measure, such as `measure_with_ema`.

    Returns
    -------
    GradientTransformationExtraArgs
        u' = u. Its state is a `MonitorState`, which starts with the measures of the parameters.
    """

    def as_transformation(measure: Any) -> GradientTransformationExtraArgs:
        if isinstance(measure, GradientTransformation):
            return with_extra_args_support(measure)
        return with_extra_args_support(stateless(lambda updates, params: measure(updates)))

    members = {name: as_transformation(measure) for name, measure in measures.items()}

    def init(params: Params) -> MonitorState:
        states = {name: member.init(params) for name, member in members.items()}
        # Measured once, so that the state has one structure from the start and fits into loops.
        seen = {name: member.update(params, states[name], params)[0] for name, member in members.items()}
        return MonitorState(seen, tuple(states.values()))

    def update(
        updates: Updates, state: Any, params: Params | None = None, **extra_args: Any
    ) -> tuple[Updates, OptState]:
        measurements, states = {}, []
        for (name, member), inner in zip(members.items(), state.measure_states, strict=True):
            measurements[name], inner = member.update(updates, inner, params, **extra_args)
            states.append(inner)
        return updates, MonitorState(measurements, tuple(states))

    return GradientTransformationExtraArgs(init, update)
