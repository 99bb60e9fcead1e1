# SPDX-License-Identifier: Apache-2.0
"""What linen needs from the transformations and the pytree registry, under one roof."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from purax import tree
from purax.control.jit import jit
from purax.control.sharded import with_sharding_constraint
from purax.control.staging import eval_shape
from purax.core.aval import ShapeDtypeStruct
from purax.core.trace import current
from purax.transforms.grad import grad

__all__ = [
    "ShapeDtypeStruct",
    "current_trace",
    "eval_shape",
    "flops_of",
    "grad",
    "register_mapping",
    "register_node",
    "with_sharding_constraint",
]


def flops_of(function: Callable[..., Any], *shapes: Any) -> int:
    """Compile a function for arguments given by shape and return its estimated number of operations."""
    costs = jit(function).lower(*shapes).compile().cost_analysis()
    return int((costs[0] if isinstance(costs, list) else costs).get("flops", 0))


def current_trace() -> Any:
    """Return the innermost running trace, None outside of every transformation."""
    return current.get()


def register_node(cls: type, flatten: Callable[[Any], Any], unflatten: Callable[[Any, Any], Any]) -> None:
    """Make `cls` a pytree: `flatten(x) -> (children, static)`, `unflatten(static, children) -> x`."""
    tree.register_pytree_node(cls, flatten, unflatten)


def register_mapping(
    cls: type, entries: Callable[[Any], dict[Any, Any]], build: Callable[[dict[Any, Any]], Any]
) -> None:
    """Make a mapping class a pytree with sorted keys: `entries(x) -> dict`, `build(dict) -> x`."""

    def flatten_with_keys(mapping: Any) -> Any:
        held = entries(mapping)
        names = tuple(sorted(held))
        return [(tree.DictKey(name), held[name]) for name in names], names

    tree.register_pytree_with_keys(
        cls, flatten_with_keys, lambda names, children: build(dict(zip(names, children, strict=True)))
    )
