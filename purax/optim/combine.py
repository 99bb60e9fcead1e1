# SPDX-License-Identifier: Apache-2.0
"""Putting transformations together: one after another (`chain`), or on groups of parameters (`partition`)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, NamedTuple

from purax import tree
from purax.optim.base import (
    GradientTransformation,
    GradientTransformationExtraArgs,
    OptState,
    Params,
    Updates,
    set_to_zero,
    with_extra_args_support,
)
from purax.optim.mask import masked

__all__ = [
    "MultiTransformState",
    "PartitionState",
    "chain",
    "groups",
    "multi_transform",
    "named_chain",
    "partition",
]


def chain(*args: GradientTransformation) -> GradientTransformationExtraArgs:
    """Apply transformations one after another, each to what the one before gave.

    Parameters
    ----------
    *args : GradientTransformation
        In order of application.

    Returns
    -------
    GradientTransformationExtraArgs
        Its state is the tuple of their states; extra named arguments reach those that take them.

    Raises
    ------
    ValueError
        (By `update`.) A state of another number of parts.

    Examples
    --------
    >>> from purax import optim
    >>> optimizer = optim.chain(optim.clip_by_global_norm(1.0), optim.adam(1e-3))
    """
    members = [with_extra_args_support(member) for member in args]

    def init(params: Params) -> OptState:
        return tuple(member.init(params) for member in members)

    def update(
        updates: Updates, state: OptState, params: Params | None = None, **extra_args: Any
    ) -> tuple[Updates, OptState]:
        if len(state) != len(members):
            raise ValueError(
                f"chain of {len(members)} transformations got a state of {len(state)} parts; "
                "make the state by this chain's own init()"
            )
        new_state = []
        for member, part in zip(members, state, strict=True):
            updates, part = member.update(updates, part, params, **extra_args)
            new_state.append(part)
        return updates, tuple(new_state)

    return GradientTransformationExtraArgs(init, update)


def named_chain(*args: tuple[str, GradientTransformation]) -> GradientTransformationExtraArgs:
    """Apply named transformations one after another; the state is a dictionary by name.

    Parameters
    ----------
    *args : tuple of (str, GradientTransformation)
        In order of application, each name once.

    Returns
    -------
    GradientTransformationExtraArgs
        Its state is a dictionary from name to state.

    Raises
    ------
    ValueError
        If a name occurs twice.
    """
    names = [name for name, _ in args]
    if len(set(names)) != len(names):
        raise ValueError(f"named_chain: each name may occur once, got {names}")
    members = [(name, with_extra_args_support(member)) for name, member in args]

    def init(params: Params) -> OptState:
        return {name: member.init(params) for name, member in members}

    def update(
        updates: Updates, state: OptState, params: Params | None = None, **extra_args: Any
    ) -> tuple[Updates, OptState]:
        new_state = {}
        for name, member in members:
            updates, new_state[name] = member.update(updates, state[name], params, **extra_args)
        return updates, new_state

    return GradientTransformationExtraArgs(init, update)


class PartitionState(NamedTuple):
    """The state of each group's transformation, by label."""

    inner_states: Mapping[Hashable, OptState]


MultiTransformState = PartitionState


def partition(
    transforms: Mapping[Hashable, GradientTransformation],
    param_labels: Any | Callable[[Params], Any],
    *,
    mask_compatible_extra_args: bool = False,
) -> GradientTransformationExtraArgs:
    """Give each labelled group of parameters its own transformation.

    Parameters
    ----------
    transforms : mapping from label to GradientTransformation
        One for each group.
    param_labels : tree of labels, or callable from params to such a tree
        A label for each parameter, or for a whole subtree of parameters.
    mask_compatible_extra_args : bool
        Mask extra arguments of the parameters' structure too.

    Returns
    -------
    GradientTransformationExtraArgs
        Its state is a `PartitionState`.

    Raises
    ------
    ValueError
        If a label has no transformation.
    """
    members = {label: with_extra_args_support(member) for label, member in transforms.items()}

    def labels_of(params: Params) -> Any:
        return param_labels(params) if callable(param_labels) else param_labels

    def restricted(label: Hashable, labels: Any) -> GradientTransformationExtraArgs:
        mask = tree.map(lambda own: own == label, labels)
        return masked(members[label], mask, mask_compatible_extra_args=mask_compatible_extra_args)

    def init(params: Params) -> PartitionState:
        labels = labels_of(params)
        unknown = {label for label in tree.leaves(labels) if label not in members}
        if unknown:
            raise ValueError(
                f"partition: no transformation for the labels {sorted(map(str, unknown))}; "
                f"there are transformations for {sorted(map(str, members))}"
            )
        return PartitionState({label: restricted(label, labels).init(params) for label in members})

    def update(
        updates: Updates, state: OptState, params: Params | None = None, **extra_args: Any
    ) -> tuple[Updates, OptState]:
        labels = labels_of(updates)
        new_states = {}
        for label in members:
            # Each leaf has one label, so a group sees raw gradients and passes on what the earlier groups made.
            updates, new_states[label] = restricted(label, labels).update(
                updates, state.inner_states[label], params, **extra_args
            )
        return updates, PartitionState(new_states)

    return GradientTransformationExtraArgs(init, update)


multi_transform = partition


def groups(
    transforms: Mapping[Hashable, GradientTransformation],
    param_labels: Any | Callable[[Params], Any],
    *,
    otherwise: GradientTransformation | None = None,
) -> GradientTransformationExtraArgs:
    """Give labelled groups of parameters their own transformation, and leave all other parameters as they are.

    `partition` refuses a label without a transformation; here such parameters get `otherwise`, by default a zero
    update. (`masked`, in contrast, passes the raw gradient of what it leaves out.)

    Parameters
    ----------
    transforms : mapping from label to GradientTransformation
        One for each group that is trained.
    param_labels : tree of labels, or callable from params to such a tree
        A label for each parameter, or for a whole subtree of parameters.
    otherwise : GradientTransformation, optional
        For labels that are not in `transforms`; `set_to_zero()` if left out.

    Returns
    -------
    GradientTransformationExtraArgs
        Its state is a `PartitionState`.

    Raises
    ------
    ValueError
        If a label is called "otherwise".
    """
    rest = "otherwise"
    if rest in transforms:
        raise ValueError("groups: the label 'otherwise' is taken; pass that transformation as otherwise=")
    members = {**transforms, rest: set_to_zero() if otherwise is None else otherwise}

    def known(params: Params) -> Any:
        labels = param_labels(params) if callable(param_labels) else param_labels
        return tree.map(lambda label: label if label in transforms else rest, labels)

    return partition(members, known)
