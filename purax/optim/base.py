# SPDX-License-Identifier: Apache-2.0
"""What every optimizer is made of: a pair of pure functions, `init` and `update`.

An optimizer never touches parameters. `init(params)` makes a state, `update(updates, state, params)` turns gradients
into what has to be *added* to the parameters (`apply_updates` adds it) and gives the next state. Small
transformations compose into large ones by `chain`, because all of them have this one form.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

from purax import numpy as pnp
from purax import tree

__all__ = [
    "EmptyState",
    "GradientTransformation",
    "GradientTransformationExtraArgs",
    "OptState",
    "Params",
    "ScalarOrSchedule",
    "Schedule",
    "TransformInitFn",
    "TransformUpdateExtraArgsFn",
    "TransformUpdateFn",
    "Updates",
    "identity",
    "init_empty_state",
    "require_params",
    "set_to_zero",
    "stateless",
    "stateless_with_tree_map",
    "with_extra_args_support",
]

Params = Any
Updates = Any
OptState = Any
Schedule = Callable[[Any], Any]
ScalarOrSchedule = Any


class TransformInitFn(Protocol):
    """Makes the first state from the parameters."""

    def __call__(self, params: Params) -> OptState:
        """Return the state before the first step."""


class TransformUpdateFn(Protocol):
    """Turns gradients and a state into updates and the next state."""

    def __call__(self, updates: Updates, state: OptState, params: Params | None = None) -> tuple[Updates, OptState]:
        """Return the transformed updates and the next state."""


@runtime_checkable
class TransformUpdateExtraArgsFn(Protocol):
    """An update function that also takes named arguments, such as the loss value a line search needs."""

    def __call__(
        self, updates: Updates, state: OptState, params: Params | None = None, **extra_args: Any
    ) -> tuple[Updates, OptState]:
        """Return the transformed updates and the next state."""


class GradientTransformation(NamedTuple):
    """A pair of pure functions: `init(params) -> state`, `update(updates, state, params) -> (updates, state)`."""

    init: TransformInitFn
    update: Any


class GradientTransformationExtraArgs(GradientTransformation):
    """A transformation whose `update` takes further named arguments, and ignores those it does not know."""


class EmptyState(NamedTuple):
    """The state of a transformation that remembers nothing."""


def init_empty_state(params: Params) -> EmptyState:
    """Return an `EmptyState` whatever the parameters are."""
    del params
    return EmptyState()


def require_params(params: Params | None, name: str) -> None:
    """Raise ValueError when a transformation that reads the parameters got none.

    Parameters
    ----------
    params : tree of arrays or None
        The third argument of `update`.
    name : str
        The transformation, for the message.

    Raises
    ------
    ValueError
        If params is None.
    """
    if params is None:
        raise ValueError(
            f"{name} reads the parameters, but update() got params=None; "
            "call update(gradients, state, params) with the current parameters"
        )


def identity() -> GradientTransformation:
    """Pass the updates on unchanged.

    Returns
    -------
    GradientTransformation
        u' = u, without state.
    """

    def update(updates: Updates, state: OptState, params: Params | None = None) -> tuple[Updates, OptState]:
        del params
        return updates, state

    return GradientTransformation(init_empty_state, update)


def set_to_zero() -> GradientTransformation:
    """Replace every update by zero, so that the parameters it meets stay bit for bit as they are.

    Returns
    -------
    GradientTransformation
        u' = 0, without state.
    """

    def update(updates: Updates, state: OptState, params: Params | None = None) -> tuple[Updates, OptState]:
        del params
        return tree.map(pnp.zeros_like, updates), state

    return GradientTransformation(init_empty_state, update)


def stateless(f: Callable[[Updates, Params | None], Updates]) -> GradientTransformation:
    """Make a transformation from a function of the whole tree of updates.

    Parameters
    ----------
    f : callable
        `f(updates, params) -> updates`; params may be None.

    Returns
    -------
    GradientTransformation
        u' = f(u, params), without state.
    """

    def update(updates: Updates, state: OptState, params: Params | None = None) -> tuple[Updates, OptState]:
        return f(updates, params), state

    return GradientTransformation(init_empty_state, update)


def stateless_with_tree_map(f: Callable[[Any, Any], Any]) -> GradientTransformation:
    """Make a transformation from a function of one update and its parameter.

    Parameters
    ----------
    f : callable
        `f(update, param) -> update` for each leaf; param is None when `update` got no params.

    Returns
    -------
    GradientTransformation
        u' = f(u, p) leaf by leaf, without state.
    """

    def update(updates: Updates, state: OptState, params: Params | None = None) -> tuple[Updates, OptState]:
        if params is None:
            return tree.map(lambda leaf: f(leaf, None), updates), state
        return tree.map(f, updates, params), state

    return GradientTransformation(init_empty_state, update)


def with_extra_args_support(tx: GradientTransformation) -> GradientTransformationExtraArgs:
    """Let a transformation accept, and ignore, extra named arguments.

    Parameters
    ----------
    tx : GradientTransformation
        Returned as it is when it takes extra arguments already.

    Returns
    -------
    GradientTransformationExtraArgs
        The same transformation; `update` drops unknown named arguments.
    """
    if isinstance(tx, GradientTransformationExtraArgs):
        return tx

    def update(
        updates: Updates, state: OptState, params: Params | None = None, **extra_args: Any
    ) -> tuple[Updates, OptState]:
        del extra_args
        return tx.update(updates, state, params)

    return GradientTransformationExtraArgs(tx.init, update)
