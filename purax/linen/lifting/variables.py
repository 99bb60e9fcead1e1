# SPDX-License-Identifier: Apache-2.0
"""Functions of scopes that see variables or keys in another form.

What is returned is a callable `(scopes, *args)`.

Parameters
----------
fn : callable
    A function of scopes.
variables, rngs : filter
    Collections and streams that it sees.
mapped_collections, trans_in_fn, trans_out_fn, init, mutable, variable_axes, metadata_params
    As in `purax.linen.map_variables` and `purax.linen.add_metadata_axis`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from purax.linen import meta
from purax.linen.filters import DenyList, Filter, intersect
from purax.linen.frozen_dict import unfreeze
from purax.linen.lifting.pack import Packed

__all__ = ["add_metadata_axis", "fold_rngs", "map_variables"]


def map_variables(
    fn: Callable[..., Any],
    mapped_collections: Filter,
    trans_in_fn: Callable[..., Any],
    trans_out_fn: Callable[..., Any],
    init: bool = False,
    mutable: bool = False,
    rngs: Filter = True,
    variables: Filter = True,
) -> Callable[..., Any]:
    """Let a function of scopes see some collections through `trans_in_fn`, and store them through `trans_out_fn`."""
    comes_out = mutable or init
    rest = intersect(variables, DenyList(mapped_collections))
    outputs = (mapped_collections, variables) if comes_out else (False, rest)

    def call(scopes: Any, *args: Any, **kwargs: Any) -> Any:
        packed = Packed(scopes, (mapped_collections, variables), outputs, (rngs,))
        mapped, others = packed.variables
        if init and any(root.mutable is not False for root in packed.roots):
            fn(packed.enter((mapped, others), packed.rngs), *args, **kwargs)
            made, _ = packed.leave()
            mapped = tuple(trans_out_fn(members) for members in made)
        mapped = tuple(trans_in_fn(unfreeze(members)) for members in mapped)
        allowed = True if comes_out else DenyList(mapped_collections)
        result = fn(packed.enter((mapped, others), packed.rngs, allowed), *args, **kwargs)
        changed, changed_others = packed.leave()
        if comes_out:
            changed = tuple(trans_out_fn(members) for members in changed)
        packed.publish((changed, changed_others))
        return result

    return call


def fold_rngs(fn: Callable[..., Any], variables: Filter = True, rngs: Filter = True) -> Callable[..., Any]:
    """Fold the path into the keys before the call, so that the function sees streams without a path."""

    def call(scopes: Any, *args: Any, **kwargs: Any) -> Any:
        packed = Packed(scopes, (variables,), (variables,), (rngs,))
        keys = tuple(
            tuple({name: type(rng)(rng.as_jax_rng()) for name, rng in members.items()} for members in group)
            for group in packed.rngs
        )
        result = fn(packed.enter(packed.variables, keys), *args, **kwargs)
        packed.publish(packed.leave())
        return result

    return call


def add_metadata_axis(
    fn: Callable[..., Any],
    variable_axes: Mapping[Filter, Any] = {},
    metadata_params: Mapping[Any, Any] = {},
) -> Callable[..., Any]:
    """Tell the boxes of variables about an axis that the function itself does not see."""

    def call(scopes: Any, *args: Any, **kwargs: Any) -> Any:
        filters, axes = tuple(variable_axes), tuple(variable_axes.values())
        packed = Packed(scopes, (*filters, True), (*filters, True), (True,))

        def each(change: Callable[..., Any], groups: Any) -> Any:
            changed = (change(held, axis, metadata_params) for held, axis in zip(groups, axes, strict=False))
            return (*changed, groups[-1])

        result = fn(packed.enter(each(meta.remove_axis, packed.variables), packed.rngs), *args, **kwargs)
        packed.publish(each(meta.add_axis, packed.leave()))
        return result

    return call
