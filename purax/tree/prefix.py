# SPDX-License-Identifier: Apache-2.0
"""Trees that stop earlier than others: `in_axes`, `out_axes`, shardings; and where two trees differ."""

from collections.abc import Callable, Iterator
from typing import Any

from purax.errors import TreeMismatchError, explain
from purax.tree._native import PyTreeDef, registry
from purax.tree.path import KeyPath, keystr

__all__ = ["broadcast_prefix", "flatten_axes", "mismatch", "prefix_sizes"]

_flatten = registry.flatten


def broadcast_prefix(prefix_tree: Any, full_tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    """Return the leaves of a prefix, each as often as the full tree has leaves in its place.

    Parameters
    ----------
    prefix_tree : pytree
        A tree that stops earlier than `full_tree`.
    full_tree : pytree
    is_leaf : callable, optional
        Asked at each node of `prefix_tree` whether to stop there.

    Returns
    -------
    list
        As long as the full tree has leaves.

    Raises
    ------
    TreeMismatchError
        It is not a prefix.
    """
    leaves, prefix = _flatten(prefix_tree, is_leaf)
    sizes = prefix_sizes(prefix, _flatten(full_tree)[1])
    if sizes is None:
        problem = mismatch(prefix_tree, full_tree, is_leaf) or "the structures differ."
        raise TreeMismatchError(explain(f"a tree is not a prefix of another: {problem}"))
    return _repeat(leaves, sizes)


def _repeat(leaves: list[Any], sizes: list[int]) -> list[Any]:
    return [leaf for leaf, size in zip(leaves, sizes, strict=True) for _ in range(size)]


def _is_none(value: Any) -> bool:
    return value is None


def flatten_axes(
    name: str, treedef: PyTreeDef, axis_tree: Any, *, is_leaf: Callable[[Any], bool] = _is_none
) -> list[Any]:
    """Return one entry of a specification for each leaf of a structure.

    Parameters
    ----------
    name : str
        What the specification is called, for the message: "vmap in_axes".
    treedef : PyTreeDef
        The structure of the values.
    axis_tree : pytree
        A prefix of it; None is an entry like any other.
    is_leaf : callable
        What counts as an entry besides leaves.

    Returns
    -------
    list

    Raises
    ------
    TreeMismatchError
        The specification is not a prefix of the structure.
    """
    leaves, prefix = _flatten(axis_tree, is_leaf)
    sizes = prefix_sizes(prefix, treedef)
    if sizes is None:
        raise TreeMismatchError(
            explain(
                f"the {name} specification {axis_tree!r} must be a tree prefix of the corresponding value, "
                f"which has the structure {treedef}.",
                "each of its entries stands for all leaves below one place of the value.",
                "give one entry for the whole value, or a container of the same kind and size.",
            )
        )
    return _repeat(leaves, sizes)


_sizes: dict[tuple[PyTreeDef, PyTreeDef], list[int] | None] = {}


def prefix_sizes(prefix: PyTreeDef, full: PyTreeDef) -> list[int] | None:
    """Return how many leaves of `full` lie below each leaf of `prefix`, or None if it is not a prefix."""
    key = (prefix, full)
    try:
        return _sizes[key]
    except KeyError:
        pass
    except TypeError:  # static data that cannot be hashed: allowed until such a tree reaches a cache
        return _count(prefix, full)
    if len(_sizes) > 4096:
        _sizes.clear()
    result = _sizes[key] = _count(prefix, full)
    return result


def _count(prefix: PyTreeDef, full: PyTreeDef) -> list[int] | None:
    data = prefix.node_data()
    if data is None:
        # A leaf; None is a node without children and has data.
        return [full.num_leaves]
    if data != full.node_data():
        return None
    ours, theirs = prefix.children(), full.children()
    if len(ours) != len(theirs):
        return None
    sizes: list[int] = []
    for our, their in zip(ours, theirs, strict=True):
        below = _count(our, their)
        if below is None:
            return None
        sizes += below
    return sizes


def mismatch(prefix_tree: Any, full_tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> str | None:
    """Return a sentence about the first place where `prefix_tree` is not a prefix of `full_tree`, or None.

    Parameters
    ----------
    prefix_tree, full_tree : pytree
    is_leaf : callable, optional
        Asked at each node of `prefix_tree` whether to stop there.

    Returns
    -------
    str or None
    """
    return next(_mismatches(prefix_tree, full_tree, is_leaf, ()), None)


def _mismatches(prefix: Any, full: Any, is_leaf: Callable[[Any], bool] | None, path: KeyPath) -> Iterator[str]:
    if is_leaf is not None and is_leaf(prefix):
        return
    ours = registry.flatten_one_level_with_keys(prefix) if registry.is_node(type(prefix)) or _named(prefix) else None
    if ours is None:
        return
    place = f"at {keystr(path)}" if path else "at the root"
    if type(prefix) is not type(full):
        yield f"{place} one has a {type(prefix).__name__}, the other a {type(full).__name__}."
        return
    theirs = registry.flatten_one_level_with_keys(full)
    our_children, their_children = list(ours[0]), list(theirs[0])
    if isinstance(prefix, dict):
        here, there = set(prefix), set(full)
        if here != there:
            yield (
                f"{place} the keys differ: only the first has {_listed(here - there)}, "
                f"only the other has {_listed(there - here)}."
            )
            return
    if len(our_children) != len(their_children):
        yield f"{place} a {type(prefix).__name__} has {len(our_children)} children, the other {len(their_children)}."
        return
    if ours[1] != theirs[1]:
        yield f"{place} the static data of {type(prefix).__name__} differ: {ours[1]!r} and {theirs[1]!r}."
        return
    for (key, our), (_, their) in zip(our_children, their_children, strict=True):
        yield from _mismatches(our, their, is_leaf, (*path, key))


def _named(value: Any) -> bool:
    return isinstance(value, tuple) and hasattr(value, "_fields")


def _listed(keys: set[Any]) -> str:
    return "nothing" if not keys else ", ".join(sorted(repr(key) for key in keys))
