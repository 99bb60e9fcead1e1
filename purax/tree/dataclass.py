# SPDX-License-Identifier: Apache-2.0
"""Frozen dataclasses that are nodes of trees, with the names of `flax.struct`."""

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar, dataclass_transform, overload

from purax.tree.nodes import register_dataclass

__all__ = ["PyTreeNode", "dataclass", "field"]

Class = TypeVar("Class", bound=type)


def field(pytree_node: bool = True, *, metadata: dict[str, Any] | None = None, **options: Any) -> Any:
    """Declare a field; takes the arguments of `dataclasses.field` as well.

    Parameters
    ----------
    pytree_node : bool
        False for static data: hashable, part of the structure, never traced.
    metadata : dict, optional
    options
        Of `dataclasses.field`.

    Returns
    -------
    dataclasses.Field
    """
    return dataclasses.field(
        metadata={**(metadata or {}), "pytree_node": pytree_node, "static": not pytree_node}, **options
    )


@overload
def dataclass(clz: Class, **options: Any) -> Class: ...
@overload
def dataclass(**options: Any) -> Callable[[Class], Class]: ...
@dataclass_transform(field_specifiers=(field,), frozen_default=True)
def dataclass(clz: Any = None, **options: Any) -> Any:
    """Make a class a frozen dataclass and a node, with a method `replace`; a decorator.

    Parameters
    ----------
    clz : type
    **options
        Of `dataclasses.dataclass`; `frozen` is True unless given.

    Returns
    -------
    type, or without `clz` a decorator

    Examples
    --------
    >>> @dataclass
    ... class State:
    ...     step: int
    ...     name: str = field(pytree_node=False, default="run")
    >>> State(1).replace(step=2)
    State(step=2, name='run')
    >>> from purax import tree
    >>> tree.leaves(State(1))
    [1]
    """
    if clz is None:
        return lambda cls: dataclass(cls, **options)
    # A class that was decorated is a node already: decorating it again changes nothing.
    if "_purax_dataclass" in clz.__dict__:
        return clz
    options.setdefault("frozen", True)
    made = dataclasses.dataclass(**options)(clz)
    if "replace" not in made.__dict__:
        made.replace = _replace
    made._purax_dataclass = True
    register_dataclass(made)
    return made


def _replace(self: Any, **updates: Any) -> Any:
    """Return a copy with some fields changed."""
    return dataclasses.replace(self, **updates)


@dataclass_transform(field_specifiers=(field,), frozen_default=True)
class PyTreeNode:
    """Base whose subclasses become such dataclasses without a decorator.

    Examples
    --------
    >>> class State(PyTreeNode):
    ...     step: int
    >>> State(1).replace(step=2).step
    2
    """

    def __init_subclass__(cls, **options: Any) -> None:
        """Turn the subclass into a dataclass, with the options in its class line."""
        super().__init_subclass__()
        dataclass(cls, **options)

    def replace(self, **updates: Any) -> Any:
        """Return a copy with some fields changed."""
        return dataclasses.replace(self, **updates)  # type: ignore[type-var]
