# SPDX-License-Identifier: Apache-2.0
"""Hyperparameters that live in the state, where they can be read, changed and scheduled."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from purax import numpy as pnp
from purax import tree
from purax.optim.base import (
    GradientTransformation,
    GradientTransformationExtraArgs,
    OptState,
    Params,
    Schedule,
    Updates,
    with_extra_args_support,
)
from purax.optim.numeric import safe_increment

__all__ = [
    "InjectHyperparamsState",
    "InjectStatefulHyperparamsState",
    "WrappedSchedule",
    "WrappedScheduleState",
    "inject_hyperparams",
    "inject_stateful_hyperparams",
]


class WrappedScheduleState(NamedTuple):
    """The number of steps taken, int32[]."""

    count: Any


class WrappedSchedule:
    """A schedule with its own counter as state.

    Parameters
    ----------
    schedule_fn : callable
        Function from step to value.
    """

    def __init__(self, schedule_fn: Schedule) -> None:
        self.schedule_fn = schedule_fn

    def init(self) -> WrappedScheduleState:
        """Return the state before the first step."""
        return WrappedScheduleState(pnp.zeros((), pnp.int32))

    def update(self, state: WrappedScheduleState, **extra_args: Any) -> WrappedScheduleState:
        """Return the state one step later; extra arguments are not used."""
        del extra_args
        return WrappedScheduleState(safe_increment(state.count))

    def __call__(self, state: WrappedScheduleState, **extra_args: Any) -> Any:
        """Return the value in this state."""
        del extra_args
        return self.schedule_fn(state.count)


class InjectStatefulHyperparamsState(NamedTuple):
    """Steps taken, the hyperparameters by name, the states of their schedules, and the optimizer's state."""

    count: Any
    hyperparams: dict[str, Any]
    hyperparams_states: dict[str, Any]
    inner_state: OptState


InjectHyperparamsState = InjectStatefulHyperparamsState


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, complex, np.number, np.ndarray)) or hasattr(value, "aval")


def inject_hyperparams(
    inner_factory: Callable[..., GradientTransformation],
    static_args: str | Iterable[str] = (),
    hyperparam_dtype: Any = None,
) -> Callable[..., GradientTransformationExtraArgs]:
    """Wrap an optimizer's maker so that its numbers live in the state instead of in the compiled program.

    Parameters
    ----------
    inner_factory : callable
        Such as `adam`.
    static_args : str or iterable of str
        Names of arguments that stay as they are. Bools and None always do.
    hyperparam_dtype : dtype, optional
        The dtype of the hyperparameters; that of the first parameter if left out.

    Returns
    -------
    callable
        Like inner_factory; numbers and schedules that it gets appear in `state.hyperparams`, where numbers may be
        changed between steps without compiling anew. The state is an `InjectStatefulHyperparamsState`.

    Raises
    ------
    ValueError
        If a static argument is not one of inner_factory's.

    Examples
    --------
    >>> from purax import numpy as pnp
    >>> from purax import optim
    >>> state = optim.inject_hyperparams(optim.sgd)(learning_rate=0.5).init(pnp.ones(2))
    >>> float(state.hyperparams["learning_rate"])
    0.5
    """
    static = {static_args} if isinstance(static_args, str) else set(static_args)
    signature = inspect.signature(inner_factory)
    unknown = static - set(signature.parameters)
    if unknown:
        raise ValueError(
            f"inject_hyperparams: {inner_factory.__name__} has no arguments named {sorted(unknown)}; "
            f"it has {list(signature.parameters)}"
        )

    @functools.wraps(inner_factory)
    def wrapped(*args: Any, **kwargs: Any) -> GradientTransformationExtraArgs:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        schedules: dict[str, Any] = {}
        numbers: dict[str, Any] = {}
        others: dict[str, Any] = {}
        for name, value in bound.arguments.items():
            if name in static or isinstance(value, bool):
                others[name] = value
            elif isinstance(value, type):
                others[name] = value
            elif isinstance(value, WrappedSchedule):
                schedules[name] = value
            elif callable(value):
                schedules[name] = WrappedSchedule(value)
            elif _is_number(value):
                numbers[name] = value
            else:
                others[name] = value
        return _injected(inner_factory, schedules, numbers, others, hyperparam_dtype)

    return wrapped


inject_stateful_hyperparams = inject_hyperparams


def _injected(
    inner_factory: Callable[..., GradientTransformation],
    schedules: dict[str, WrappedSchedule],
    numbers: dict[str, Any],
    others: dict[str, Any],
    hyperparam_dtype: Any,
) -> GradientTransformationExtraArgs:
    def dtype_for(values: Any) -> Any:
        if hyperparam_dtype is not None:
            return hyperparam_dtype
        return next((leaf.dtype for leaf in tree.leaves(values) if hasattr(leaf, "dtype")), None)

    def cast(hyperparams: dict[str, Any], values: Any) -> dict[str, Any]:
        return {name: pnp.asarray(value, dtype=dtype_for(values)) for name, value in hyperparams.items()}

    def make(hyperparams: dict[str, Any]) -> GradientTransformationExtraArgs:
        return with_extra_args_support(inner_factory(**others, **hyperparams))

    def init(params: Params) -> InjectStatefulHyperparamsState:
        states = {name: schedule.init() for name, schedule in schedules.items()}
        scheduled = {name: schedule(states[name]) for name, schedule in schedules.items()}
        hyperparams = cast({**numbers, **scheduled}, params)
        return InjectStatefulHyperparamsState(
            pnp.zeros((), pnp.int32), hyperparams, states, make(hyperparams).init(params)
        )

    def update(
        updates: Updates, state: Any, params: Params | None = None, **extra_args: Any
    ) -> tuple[Updates, OptState]:
        scheduled = {
            name: schedule(state.hyperparams_states[name], **extra_args) for name, schedule in schedules.items()
        }
        hyperparams = cast({**state.hyperparams, **scheduled}, updates)
        updates, inner_state = make(hyperparams).update(updates, state.inner_state, params, **extra_args)
        states = {
            name: schedule.update(state.hyperparams_states[name], **extra_args) for name, schedule in schedules.items()
        }
        return updates, InjectStatefulHyperparamsState(safe_increment(state.count), hyperparams, states, inner_state)

    return GradientTransformationExtraArgs(init, update)
