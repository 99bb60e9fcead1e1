# SPDX-License-Identifier: Apache-2.0
"""Logical axis names: parameters name their dimensions ("embed", "heads"), rules say which mesh axes these are split over.

Rules are pairs (logical name, mesh axis, tuple of mesh axes or None). The first rule whose mesh axes are still free in the
array wins.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from purax import tree
from purax.linen._support import with_sharding_constraint
from purax.linen.meta import Partitioned, register_box
from purax.sharding import Mesh, NamedSharding, PartitionSpec

__all__ = [
    "LogicallyPartitioned",
    "get_logical_axis_rules",
    "logical_axis_rules",
    "logical_to_mesh",
    "logical_to_mesh_axes",
    "logical_to_mesh_sharding",
    "set_logical_axis_rules",
    "with_logical_constraint",
    "with_logical_partitioning",
]

Rules = Sequence[tuple[str, Any]]


class _Current(threading.local):
    def __init__(self) -> None:
        self.rules: Rules = ()


_current = _Current()


def set_logical_axis_rules(rules: Rules) -> None:
    """Set the rules of this thread."""
    _current.rules = tuple(rules)


def get_logical_axis_rules() -> Rules:
    """Return the rules of this thread."""
    return _current.rules


@contextmanager
def logical_axis_rules(rules: Rules) -> Iterator[None]:
    """Use other rules within the block."""
    before = _current.rules
    _current.rules = tuple(rules)
    try:
        yield
    finally:
        _current.rules = before


def _mesh_axes(value: Any) -> set[str]:
    names = value if isinstance(value, (tuple, list)) else (value,)
    return {name for name in names if isinstance(name, str)}


def logical_to_mesh_axes(array_dim_names: Sequence[Any] | None, rules: Rules | None = None) -> PartitionSpec | None:
    """Return the PartitionSpec of an array whose dimensions have logical names.

    Parameters
    ----------
    array_dim_names : sequence of str or None
        Name of each dimension; None gives None.
    rules : sequence of pairs, optional
        Rules; by default those of this thread.

    Returns
    -------
    PartitionSpec or None

    Raises
    ------
    ValueError
        If a name occurs twice.
    """
    if array_dim_names is None:
        return None
    named = [name for name in array_dim_names if isinstance(name, str)]
    if len(set(named)) < len(named):
        raise ValueError(f"A logical name may occur once in an array, got {tuple(array_dim_names)}.")
    assigned: dict[str, Any] = {}
    used: set[str] = set()
    for name, axes in _current.rules if rules is None else rules:
        if name in named and name not in assigned and not used & _mesh_axes(axes):
            assigned[name] = axes
            used |= _mesh_axes(axes)
    return PartitionSpec(*(assigned.get(name) if isinstance(name, str) else name for name in array_dim_names))


def _is_spec(value: Any) -> bool:
    return isinstance(value, PartitionSpec)


def logical_to_mesh(specs: Any, rules: Rules | None = None) -> Any:
    """Translate each PartitionSpec of logical names in a tree, by `rules` or those of this thread, to a tree like it."""
    return tree.map(lambda spec: logical_to_mesh_axes(spec, rules), specs, is_leaf=_is_spec)


def logical_to_mesh_sharding(specs: Any, mesh: Mesh, rules: Rules | None = None) -> Any:
    """Translate each PartitionSpec of logical names in a tree to a NamedSharding on `mesh`.

    Parameters
    ----------
    specs : tree of PartitionSpec
    mesh : Mesh
    rules : sequence of pairs, optional
        By default those of this thread.

    Returns
    -------
    tree of NamedSharding
    """
    return tree.map(lambda spec: NamedSharding(mesh, spec), logical_to_mesh(specs, rules), is_leaf=_is_spec)


def with_logical_constraint(
    x: Any, logical_axis_resources: Any, rules: Rules | None = None, mesh: Mesh | None = None
) -> Any:
    """Constrain how arrays of a tree are split over a mesh, by logical names.

    Parameters
    ----------
    x : tree of Array
        Arrays.
    logical_axis_resources : tree of tuple of str or None
        Names of the dimensions.
    rules : sequence of pairs, optional
        Rules; by default those of this thread. Without any the arrays come back as they are.
    mesh : Mesh, optional
        Mesh; without one the arrays come back as they are.

    Returns
    -------
    tree like `x`
    """
    rules = _current.rules if rules is None else rules
    if not rules or mesh is None or logical_axis_resources is None:
        return x

    def constrain(names: Any, leaf: Any) -> Any:
        return with_sharding_constraint(
            leaf, NamedSharding(mesh, logical_to_mesh_axes(names, rules) or PartitionSpec())
        )

    return tree.map(
        constrain, logical_axis_resources, x, is_leaf=lambda names: isinstance(names, tuple) or names is None
    )


@dataclasses.dataclass(frozen=True)
class LogicallyPartitioned(Partitioned):
    """An array with a logical name, or None, for each of its dimensions.

    Parameters
    ----------
    value, names, mesh
        As for `Partitioned`.
    rules : sequence of pairs, optional
        Rules of this array; by default those of the thread.
    """

    rules: Any = None

    def unbox(self, apply_constraint: bool = True) -> Any:
        """Return the array inside, constrained to the mesh if there is one."""
        if not apply_constraint or self.mesh is None:
            return self.value
        return with_logical_constraint(self.value, self.get_partition_spec(), self.rules, self.mesh)


register_box(LogicallyPartitioned)


def with_logical_partitioning(
    fn: Callable[..., Any], names: tuple[Any, ...], mesh: Mesh | None = None, rules: Rules | None = None
) -> Callable[..., LogicallyPartitioned]:
    """Return an initializer whose result is boxed with logical names.

    Parameters
    ----------
    fn : callable
        Initializer, `fn(key, shape, dtype)`.
    names : tuple of str or None
        Logical name of each dimension.
    mesh, rules
        As for `LogicallyPartitioned`.

    Returns
    -------
    callable
    """

    def init(*args: Any, **kwargs: Any) -> LogicallyPartitioned:
        return LogicallyPartitioned(fn(*args, **kwargs), names, mesh, rules)

    return init
