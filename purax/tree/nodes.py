# SPDX-License-Identifier: Apache-2.0
"""Which types are nodes of trees, and how to make a type one."""

import functools
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import MISSING, Field, field, fields, is_dataclass
from typing import Any, TypeVar

from purax.errors import explain
from purax.tree._native import DictKey, GetAttrKey, registry

__all__ = [
    "Partial",
    "flatten_one_level",
    "flatten_one_level_with_keys",
    "is_tree_node",
    "register_dataclass",
    "register_pytree_node",
    "register_pytree_node_class",
    "register_pytree_with_keys",
    "register_pytree_with_keys_class",
    "register_static",
    "static",
]

Class = TypeVar("Class", bound=type)


def register_pytree_node(
    nodetype: type,
    flatten_func: Callable[[Any], tuple[Iterable[Any], Hashable]],
    unflatten_func: Callable[[Any, Any], Any],
    flatten_with_keys_func: Callable[[Any], tuple[Iterable[tuple[Any, Any]], Hashable]] | None = None,
) -> None:
    """Make a type a node of trees.

    Parameters
    ----------
    nodetype : type
        The type; subclasses of it stay leaves.
    flatten_func : callable
        Takes an object and returns its children and its hashable static data.
    unflatten_func : callable
        Takes static data and children and returns an object; it must accept children of any type.
    flatten_with_keys_func : callable, optional
        Like `flatten_func`, each child paired with its key (`DictKey`, `GetAttrKey`, ...).

    Raises
    ------
    ValueError
        The type is a node already.
    """
    registry.register_node(nodetype, flatten_func, unflatten_func, flatten_with_keys_func)


def register_pytree_with_keys(
    nodetype: type,
    flatten_with_keys: Callable[[Any], tuple[Iterable[tuple[Any, Any]], Hashable]],
    unflatten_func: Callable[[Any, Any], Any],
    flatten_func: Callable[[Any], tuple[Iterable[Any], Hashable]] | None = None,
) -> None:
    """Make a type a node whose children have keys.

    Parameters
    ----------
    nodetype : type
        The type.
    flatten_with_keys : callable
        Takes an object and returns pairs of key and child, and its hashable static data.
    unflatten_func : callable
        Takes static data and children and returns an object.
    flatten_func : callable, optional
        A faster form of `flatten_with_keys` that leaves the keys out.
    """

    def drop_keys(node: Any) -> tuple[Iterable[Any], Hashable]:
        pairs, static_data = flatten_with_keys(node)
        return [child for _, child in pairs], static_data

    register_pytree_node(nodetype, flatten_func or drop_keys, unflatten_func, flatten_with_keys)


def register_pytree_node_class(cls: Class) -> Class:
    """Make a class with `tree_flatten` and a class method `tree_unflatten` a node; a decorator.

    Examples
    --------
    >>> @register_pytree_node_class
    ... class Pair:
    ...     def __init__(self, x, y):
    ...         self.x, self.y = x, y
    ...
    ...     def tree_flatten(self):
    ...         return (self.x, self.y), None
    ...
    ...     @classmethod
    ...     def tree_unflatten(cls, static_data, children):
    ...         return cls(*children)
    """
    node: Any = cls
    register_pytree_node(cls, lambda value: value.tree_flatten(), node.tree_unflatten)
    return cls


def register_pytree_with_keys_class(cls: Class) -> Class:
    """Make a class with `tree_flatten_with_keys` and a class method `tree_unflatten` a node; a decorator.

    A method `tree_flatten`, if there is one, is used where keys are not needed.
    """
    node: Any = cls
    plain = (lambda value: value.tree_flatten()) if hasattr(cls, "tree_flatten") else None
    register_pytree_with_keys(cls, lambda value: value.tree_flatten_with_keys(), node.tree_unflatten, plain)
    return cls


def static(**options: Any) -> Any:
    """Declare a dataclass field that is static data, not a child; takes the arguments of `dataclasses.field`.

    Returns
    -------
    dataclasses.Field
    """
    metadata = {"static": True} | dict(options.pop("metadata", None) or {})
    return field(metadata=metadata, **options)


def register_dataclass(
    nodetype: Class,
    data_fields: Sequence[str] | None = None,
    meta_fields: Sequence[str] | None = None,
    drop_fields: Sequence[str] = (),
) -> Class:
    """Make a dataclass a node; also as a decorator.

    Parameters
    ----------
    nodetype : type
        A dataclass, or a class whose constructor takes the fields by keyword.
    data_fields, meta_fields : sequence of str, optional
        The fields that are children, and those that are static data. Both or none; without them a dataclass says it itself:
        a field is static if it was made by `static()` or has `metadata={"static": True}`.
    drop_fields : sequence of str
        Fields that are neither, and take their default when a tree is put together.

    Returns
    -------
    type
        `nodetype`.

    Raises
    ------
    TypeError
        Only one of the two is given, or none and it is no dataclass.
    ValueError
        The names are not the fields that the constructor takes, or one is in both lists.
    """
    if (data_fields is None) != (meta_fields is None):
        raise TypeError("give data_fields and meta_fields together, or neither")
    if data_fields is None or meta_fields is None:
        if not is_dataclass(nodetype):
            raise TypeError(
                explain(
                    f"register_dataclass got {nodetype!r} without data_fields and meta_fields.",
                    "only a dataclass knows its fields.",
                    "decorate it with dataclasses.dataclass first, or name the fields.",
                )
            )
        own = [one for one in fields(nodetype) if one.init and one.name not in drop_fields]
        data_fields = [one.name for one in own if not one.metadata.get("static", False)]
        meta_fields = [one.name for one in own if one.metadata.get("static", False)]
    elif is_dataclass(nodetype):
        _check_fields(nodetype, fields(nodetype), {*data_fields, *meta_fields}, set(drop_fields))
    both = sorted(set(data_fields) & set(meta_fields))
    if both:
        raise ValueError(f"register_dataclass({nodetype.__name__}): {both} are in data_fields and in meta_fields")
    registry.register_dataclass_node(nodetype, list(data_fields), list(meta_fields))
    return nodetype


def _check_fields(nodetype: type, own: Iterable[Field[Any]], given: set[str], dropped: set[str]) -> None:
    taken = {one.name for one in own if one.init}
    missing, unknown = taken - given - dropped, (given | dropped) - taken
    if missing or unknown:
        raise ValueError(
            explain(
                f"register_dataclass({nodetype.__name__}): data_fields and meta_fields must name each field with init=True, "
                f"and no other; missing {sorted(missing)}, unexpected {sorted(unknown)}."
            )
        )
    for one in own:
        if one.name in dropped and one.default is MISSING and one.default_factory is MISSING:
            raise ValueError(f"register_dataclass({nodetype.__name__}): the dropped field {one.name!r} has no default")


def register_static(cls: Class) -> Class:
    """Make a class a node without children: its objects, which must be hashable, are static data; a decorator."""
    registry.register_node(cls, lambda value: ((), value), lambda value, _: value, lambda value: ((), value))
    return cls


def is_tree_node(typ: type) -> bool:
    """Tell whether objects of a type are nodes: containers, named tuples, None, and registered types."""
    return bool(registry.is_node(typ))


def flatten_one_level(tree: Any) -> tuple[Iterable[Any], Any]:
    """Return a tuple of the children of one node and its static data.

    Raises
    ------
    ValueError
        `tree` is a leaf.
    """
    found = registry.flatten_one_level(tree)
    if found is None:
        raise ValueError(f"can't flatten {type(tree).__name__}: it is a leaf, not a node")
    children, static_data = found
    return children, static_data


def flatten_one_level_with_keys(tree: Any) -> tuple[Iterable[tuple[Any, Any]], Any]:
    """Return a tuple of the children of one node, each with its key, and its static data.

    Raises
    ------
    ValueError
        `tree` is a leaf.
    """
    found = registry.flatten_one_level_with_keys(tree)
    if found is None:
        raise ValueError(f"can't flatten {type(tree).__name__}: it is a leaf, not a node")
    children, static_data = found
    return children, static_data


# ---- containers of the standard library that the C++ registry does not know by itself


def _flatten_ordered(value: Any) -> tuple[Any, Any]:
    return tuple(value.values()), tuple(value.keys())


def _flatten_ordered_with_keys(value: Any) -> tuple[Any, Any]:
    return tuple((DictKey(key), child) for key, child in value.items()), tuple(value.keys())


def _flatten_default(value: Any) -> tuple[Any, Any]:
    keys = tuple(sorted(value))
    return tuple(value[key] for key in keys), (value.default_factory, keys)


def _flatten_default_with_keys(value: Any) -> tuple[Any, Any]:
    keys = tuple(sorted(value))
    return tuple((DictKey(key), value[key]) for key in keys), (value.default_factory, keys)


def _unflatten_default(static_data: Any, children: Any) -> Any:
    factory, keys = static_data
    return defaultdict(factory, zip(keys, children, strict=True))


register_pytree_node(
    OrderedDict,
    _flatten_ordered,
    lambda keys, children: OrderedDict(zip(keys, children, strict=True)),
    _flatten_ordered_with_keys,
)
register_pytree_node(defaultdict, _flatten_default, _unflatten_default, _flatten_default_with_keys)


# ---- Partial


class _Whole:
    """A callable that `functools.partial` does not take apart, equal to others around an equal callable."""

    __slots__ = ("function",)

    def __init__(self, function: Any) -> None:
        self.function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    func = property(lambda self: self.function.func)
    args = property(lambda self: self.function.args)
    keywords = property(lambda self: self.function.keywords)

    def __hash__(self) -> int:
        return hash(self.function)

    def __eq__(self, other: object) -> bool:
        return self.function == (other.function if isinstance(other, _Whole) else other)

    def __repr__(self) -> str:
        return repr(self.function)


class Partial(functools.partial[Any]):
    """`functools.partial` as a node: arguments are children, the function is static data.

    Examples
    --------
    >>> from purax import tree
    >>> add_two = Partial(max, 2)
    >>> tree.leaves(add_two), add_two(1)
    ([2], 2)
    """

    def __new__(cls, func: Callable[..., Any], /, *args: Any, **kw: Any) -> "Partial":
        """Make the partial application; a partial inside stays a function of its own, so that its arguments are static."""
        if isinstance(func, functools.partial):
            func = _Whole(func)
        return super().__new__(cls, func, *args, **kw)


register_pytree_with_keys(
    Partial,
    lambda value: (((GetAttrKey("args"), value.args), (GetAttrKey("keywords"), value.keywords)), value.func),
    lambda func, children: Partial(func, *children[0], **children[1]),
    lambda value: ((value.args, value.keywords), value.func),
)
