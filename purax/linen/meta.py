# SPDX-License-Identifier: Apache-2.0
"""Boxes around variables: data that says something about an array, such as the mesh axes of its dimensions.

An initializer may return a box. Modules see the array inside; `init` returns the box; lifted transformations tell the box
which axis they add or take away.

Results are tree like `values` unless a function says otherwise.

Parameters
----------
values : pytree of arrays and boxes
index : int
    The axis.
params : mapping
    What the box is told, such as the name of the axis.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from purax import tree
from purax.linen.errors import PartitioningUnspecifiedError
from purax.sharding import Mesh, NamedSharding, PartitionSpec

__all__ = [
    "PARTITION_NAME",
    "AxisMetadata",
    "Partitioned",
    "add_axis",
    "get_partition_spec",
    "get_sharding",
    "is_box",
    "map_boxes",
    "remove_axis",
    "replace_boxed",
    "unbox",
    "with_partitioning",
]

PARTITION_NAME = "partition_name"


class AxisMetadata:
    """Base of all boxes. A subclass is a pytree whose leaves are those of the boxed value."""

    def unbox(self) -> Any:
        """Return the value inside."""
        raise NotImplementedError(f"{type(self).__name__} must define unbox.")

    def replace_boxed(self, value: Any) -> AxisMetadata:
        """Return the same box around another value."""
        raise NotImplementedError(f"{type(self).__name__} must define replace_boxed.")

    def add_axis(self, index: int, params: Mapping[Any, Any]) -> AxisMetadata:
        """Return the box after an axis was inserted at `index`; `params` is the transformation's metadata_params."""
        raise NotImplementedError(f"{type(self).__name__} must define add_axis.")

    def remove_axis(self, index: int, params: Mapping[Any, Any]) -> AxisMetadata:
        """Return the box after the axis at `index` was taken away."""
        raise NotImplementedError(f"{type(self).__name__} must define remove_axis.")


def is_box(value: Any) -> bool:
    """Whether `value` is a box."""
    return isinstance(value, AxisMetadata)


def map_boxes(function: Callable[[AxisMetadata], Any], values: Any) -> Any:
    """Apply `function` to each box of a tree; other leaves stay."""
    return tree.map(lambda leaf: function(leaf) if is_box(leaf) else leaf, values, is_leaf=is_box)


def unbox(values: Any) -> Any:
    """Replace each box of a tree by the value inside."""
    if hasattr(values, "shape"):  # the usual case: one array
        return values
    return map_boxes(lambda box: unbox(box.unbox()), values)


def replace_boxed(values: Any, updates: Any) -> Any:
    """Put the leaves of `updates` into the boxes of `values`."""
    return tree.map(
        lambda leaf, update: leaf.replace_boxed(update) if is_box(leaf) else update, values, updates, is_leaf=is_box
    )


def add_axis(values: Any, index: int, params: Mapping[Any, Any]) -> Any:
    """Tell each box of a tree about a new axis."""
    return map_boxes(lambda box: box.add_axis(index, params), values)


def remove_axis(values: Any, index: int, params: Mapping[Any, Any]) -> Any:
    """Tell each box of a tree about an axis that is taken away."""
    return map_boxes(lambda box: box.remove_axis(index, params), values)


@dataclasses.dataclass(frozen=True)
class Partitioned(AxisMetadata):
    """An array with a mesh axis name, or None, for each of its dimensions.

    Parameters
    ----------
    value : Array
        The array inside.
    names : tuple of str or None
        One entry per dimension.
    mesh : Mesh, optional
        Mesh that the names belong to.
    """

    value: Any
    names: tuple[Any, ...]
    mesh: Mesh | None = None

    def unbox(self, apply_constraint: bool = True) -> Any:
        """Return the array inside."""
        del apply_constraint  # placement is given at the boundary of jit
        return self.value

    def replace_boxed(self, value: Any) -> Partitioned:
        """Return the same names around another array."""
        return dataclasses.replace(self, value=value)

    def _axis_name(self, params: Mapping[Any, Any]) -> Any:
        if PARTITION_NAME not in params:
            raise PartitioningUnspecifiedError(self)
        return params[PARTITION_NAME]

    def add_axis(self, index: int, params: Mapping[Any, Any]) -> Partitioned:
        """Insert the name `params[PARTITION_NAME]` at `index`."""
        names = list(self.names)
        names.extend([None] * (index - len(names)))
        names.insert(index if index >= 0 else len(names) + 1 + index, self._axis_name(params))
        return dataclasses.replace(self, names=tuple(names))

    def remove_axis(self, index: int, params: Mapping[Any, Any]) -> Partitioned:
        """Take away the name at `index`."""
        self._axis_name(params)
        names = list(self.names)
        del names[index]
        return dataclasses.replace(self, names=tuple(names))

    def get_partition_spec(self) -> PartitionSpec:
        """Return the PartitionSpec of the array."""
        return PartitionSpec(*self.names)

    def get_sharding(self, mesh: Mesh) -> NamedSharding:
        """Return the NamedSharding of the array on `mesh`."""
        return NamedSharding(mesh, self.get_partition_spec())


def register_box(cls: type) -> None:
    """Make a dataclass box a pytree: the field `value` is its child, the others are static."""
    static = [field.name for field in dataclasses.fields(cls) if field.name != "value"]
    tree.register_pytree_with_keys(
        cls,
        lambda box: (((tree.GetAttrKey("value"), box.value),), tuple(getattr(box, name) for name in static)),
        lambda aux, children: cls(children[0], **dict(zip(static, aux, strict=True))),
    )


register_box(Partitioned)


def with_partitioning(
    fn: Callable[..., Any], names: tuple[Any, ...], mesh: Mesh | None = None
) -> Callable[..., Partitioned]:
    """Return an initializer whose result is boxed with mesh axis names.

    Parameters
    ----------
    fn : callable
        Initializer, `fn(key, shape, dtype)`.
    names : tuple of str or None
        Mesh axis of each dimension.
    mesh : Mesh, optional
        Mesh that the names belong to.

    Returns
    -------
    callable
    """

    def init(*args: Any, **kwargs: Any) -> Partitioned:
        return Partitioned(fn(*args, **kwargs), names, mesh)

    return init


def get_partition_spec(values: Any) -> Any:
    """Return the PartitionSpec of each variable of a tree; unboxed arrays get the empty one."""

    def spec(leaf: Any) -> Any:
        if isinstance(leaf, Partitioned):
            return leaf.get_partition_spec()
        return PartitionSpec() if hasattr(leaf, "shape") else None

    return tree.map(spec, values, is_leaf=is_box)


def get_sharding(values: Any, mesh: Mesh) -> Any:
    """Return the NamedSharding on `mesh` of each variable of a tree."""

    def sharding(leaf: Any) -> Any:
        if isinstance(leaf, Partitioned):
            return leaf.get_sharding(mesh)
        return NamedSharding(mesh, PartitionSpec()) if hasattr(leaf, "shape") else None

    return tree.map(sharding, values, is_leaf=is_box)
