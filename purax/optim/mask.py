# SPDX-License-Identifier: Apache-2.0
"""Transformations that act on some parameters or in some steps only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from purax import numpy as pnp
from purax import tree
from purax.control.branch import cond
from purax.optim.base import (
    GradientTransformation,
    GradientTransformationExtraArgs,
    OptState,
    Params,
    Updates,
    set_to_zero,
    with_extra_args_support,
)
from purax.optim.numeric import safe_increment

__all__ = [
    "ConditionallyMaskState",
    "ConditionallyTransformState",
    "MaskedNode",
    "MaskedState",
    "conditionally_mask",
    "conditionally_transform",
    "freeze",
    "masked",
    "selective_transform",
]


class MaskedNode(NamedTuple):
    """Stands in a state for a parameter that the mask leaves out: a node without leaves."""


class MaskedState(NamedTuple):
    """The state of the masked transformation, with `MaskedNode` where the mask is False."""

    inner_state: OptState


def _hide(mask: Any, values: Any) -> Any:
    """Replace by MaskedNode what the mask (a prefix of the tree) leaves out."""
    return tree.map(lambda keep, value: value if keep else MaskedNode(), mask, values)


def masked(
    inner: GradientTransformation,
    mask: Any | Callable[[Params], Any],
    *,
    mask_compatible_extra_args: bool = False,
) -> GradientTransformationExtraArgs:
    """Apply a transformation where a mask is True, and pass the updates on unchanged where it is False.

    What the mask leaves out keeps its *raw gradient*. To leave parameters as they are, use `freeze`, `groups` or
    `selective_transform`, which give them the update zero.

    Parameters
    ----------
    inner : GradientTransformation
        The transformation.
    mask : tree of bool, or callable from params to such a tree
        A bool for each parameter, or for a whole subtree of parameters.
    mask_compatible_extra_args : bool
        Mask those extra named arguments too whose structure fits the mask.

    Returns
    -------
    GradientTransformationExtraArgs
        Its state is a `MaskedState`.
    """
    inner = with_extra_args_support(inner)

    def mask_of(values: Any) -> Any:
        return mask(values) if callable(mask) else mask

    def hide_if_fitting(mask_tree: Any, value: Any) -> Any:
        if not mask_compatible_extra_args:
            return value
        try:
            return _hide(mask_tree, value)
        except (ValueError, TypeError):
            return value

    def init(params: Params) -> MaskedState:
        return MaskedState(inner.init(_hide(mask_of(params), params)))

    def update(
        updates: Updates, state: OptState, params: Params | None = None, **extra_args: Any
    ) -> tuple[Updates, OptState]:
        mask_tree = mask_of(updates)
        hidden_params = None if params is None else _hide(mask_tree, params)
        extra_args = {name: hide_if_fitting(mask_tree, value) for name, value in extra_args.items()}
        inner_updates, inner_state = inner.update(
            _hide(mask_tree, updates), state.inner_state, hidden_params, **extra_args
        )
        merged = tree.map(lambda keep, new, old: new if keep else old, mask_tree, inner_updates, updates)
        return merged, MaskedState(inner_state)

    return GradientTransformationExtraArgs(init, update)


def freeze(mask: Any | Callable[[Params], Any]) -> GradientTransformationExtraArgs:
    """Set the updates of frozen parameters to zero.

    Put it last in a chain: then neither momentum nor weight decay moves a frozen parameter by a single bit.

    Parameters
    ----------
    mask : tree of bool, or callable from params to such a tree
        True for each parameter (or subtree) that stays as it is.

    Returns
    -------
    GradientTransformationExtraArgs
        u' = 0 where mask is True, u elsewhere.
    """
    return masked(set_to_zero(), mask)


def selective_transform(
    optimizer: GradientTransformation, *, freeze_mask: Any | Callable[[Params], Any]
) -> GradientTransformationExtraArgs:
    """Train the parameters that a mask leaves free, and keep state for those only.

    Parameters
    ----------
    optimizer : GradientTransformation
        What trains the free parameters.
    freeze_mask : tree of bool, or callable from params to such a tree
        True for each parameter (or subtree) that stays as it is.

    Returns
    -------
    GradientTransformationExtraArgs
        u' = 0 where freeze_mask is True, the optimizer's update elsewhere. Its state is a pair of `MaskedState`.
    """

    def free(params: Params) -> Any:
        frozen = freeze_mask(params) if callable(freeze_mask) else freeze_mask
        return tree.map(lambda value: not value, frozen)

    trained, kept = masked(optimizer, free), masked(set_to_zero(), freeze_mask)

    def init(params: Params) -> OptState:
        return trained.init(params), kept.init(params)

    def update(
        updates: Updates, state: OptState, params: Params | None = None, **extra_args: Any
    ) -> tuple[Updates, OptState]:
        updates, trained_state = trained.update(updates, state[0], params, **extra_args)
        updates, kept_state = kept.update(updates, state[1], params)
        return updates, (trained_state, kept_state)

    return GradientTransformationExtraArgs(init, update)


class ConditionallyTransformState(NamedTuple):
    """The state of the transformation and the number of steps seen."""

    inner_state: OptState
    step: Any


class ConditionallyMaskState(NamedTuple):
    """The number of steps seen and the state of the transformation."""

    step: Any
    inner_state: OptState


def _in_some_steps(
    inner: GradientTransformation,
    should_transform: Callable[..., Any],
    forward_extra_args: bool,
    otherwise: Callable[[Updates], Updates],
    make_state: Callable[[Any, OptState], Any],
) -> GradientTransformationExtraArgs:
    inner = with_extra_args_support(inner)

    def init(params: Params) -> Any:
        return make_state(pnp.zeros((), pnp.int32), inner.init(params))

    def update(
        updates: Updates, state: Any, params: Params | None = None, **extra_args: Any
    ) -> tuple[Updates, OptState]:
        condition_args = extra_args if forward_extra_args else {}

        def transform() -> tuple[Updates, OptState]:
            return inner.update(updates, state.inner_state, params, **extra_args)

        def leave() -> tuple[Updates, OptState]:
            return otherwise(updates), state.inner_state

        updates, inner_state = cond(should_transform(state.step, **condition_args), transform, leave)
        return updates, make_state(safe_increment(state.step), inner_state)

    return GradientTransformationExtraArgs(init, update)


def conditionally_transform(
    inner: GradientTransformation, should_transform_fn: Callable[..., Any], forward_extra_args: bool = False
) -> GradientTransformationExtraArgs:
    """Apply a transformation in some steps, and pass the updates on unchanged in the others.

    Parameters
    ----------
    inner : GradientTransformation
        The transformation; its state stands still in the other steps.
    should_transform_fn : callable
        `should_transform_fn(step, **extra_args) -> bool scalar`; the first step is 0.
    forward_extra_args : bool
        Give extra named arguments to should_transform_fn.

    Returns
    -------
    GradientTransformationExtraArgs
        Its state is a `ConditionallyTransformState`.
    """
    return _in_some_steps(
        inner,
        should_transform_fn,
        forward_extra_args,
        lambda updates: updates,
        lambda step, inner_state: ConditionallyTransformState(inner_state, step),
    )


def conditionally_mask(
    inner: GradientTransformation, should_transform_fn: Callable[..., Any], forward_extra_args: bool = False
) -> GradientTransformationExtraArgs:
    """Apply a transformation in some steps, and give zero updates in the others.

    Parameters
    ----------
    inner : GradientTransformation
        The transformation; its state stands still in the other steps.
    should_transform_fn : callable
        `should_transform_fn(step, **extra_args) -> bool scalar`; the first step is 0.
    forward_extra_args : bool
        Give extra named arguments to should_transform_fn.

    Returns
    -------
    GradientTransformationExtraArgs
        Its state is a `ConditionallyMaskState`.
    """
    return _in_some_steps(
        inner,
        should_transform_fn,
        forward_extra_args,
        lambda updates: tree.map(pnp.zeros_like, updates),
        lambda step, inner_state: ConditionallyMaskState(step, inner_state),
    )
