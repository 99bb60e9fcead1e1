# SPDX-License-Identifier: Apache-2.0
"""Where a leaf stands: key paths, and the functions that hand them out."""

from collections import OrderedDict, defaultdict
from collections.abc import Callable
from typing import Any

from purax.tree._native import DictKey, FlattenedIndexKey, GetAttrKey, PyTreeDef, SequenceKey, registry

__all__ = [
    "KeyEntry", "KeyPath", "generate_key_paths", "keystr", "paths", "tree_flatten_with_path", "tree_leaves_with_path",
]  # fmt: skip

KeyEntry = Any  # DictKey, SequenceKey, GetAttrKey, FlattenedIndexKey, or a hashable of the user's
KeyPath = tuple[KeyEntry, ...]


def keystr(keys: KeyPath, *, simple: bool = False, separator: str = "") -> str:
    """Write a key path as Python would reach the leaf.

    Parameters
    ----------
    keys : tuple of keys
    simple : bool
        Whether to write bare keys, without brackets, quotes and dots.
    separator : str
        What to put between them.

    Returns
    -------
    str

    Examples
    --------
    >>> path = (DictKey("params"), SequenceKey(0), GetAttrKey("w"))
    >>> keystr(path), keystr(path, simple=True, separator="/")
    ("['params'][0].w", 'params/0/w')
    """
    return separator.join(_simple(key) if simple else str(key) for key in keys)


def _simple(key: KeyEntry) -> str:
    match key:
        case DictKey() | FlattenedIndexKey():
            return str(key.key)
        case SequenceKey():
            return str(key.idx)
        case GetAttrKey():
            return str(key.name)
    return str(key)


def tree_flatten_with_path(
    tree: Any, is_leaf: Callable[..., bool] | None = None, is_leaf_takes_path: bool = False
) -> tuple[list[tuple[KeyPath, Any]], PyTreeDef]:
    """Take a tree apart, each leaf with its path.

    Parameters
    ----------
    tree : pytree
    is_leaf : callable, optional
        Asked at each node whether to stop there.
    is_leaf_takes_path : bool
        Whether `is_leaf` takes the path and the node, instead of the node alone.

    Returns
    -------
    leaves : list of (path, leaf)
    treedef : PyTreeDef

    Examples
    --------
    >>> tree_flatten_with_path({"a": [1]})[0]
    [((DictKey(key='a'), SequenceKey(idx=0)), 1)]
    """
    ask = is_leaf
    if is_leaf is not None and not is_leaf_takes_path:
        given = is_leaf

        def ask(path: KeyPath, node: Any) -> bool:
            del path
            return given(node)

    return registry.flatten_with_path(tree, ask)


def tree_leaves_with_path(
    tree: Any, is_leaf: Callable[..., bool] | None = None, is_leaf_takes_path: bool = False
) -> list[tuple[KeyPath, Any]]:
    """Return the leaves of a tree, each with its path; see `tree_flatten_with_path`.

    Parameters
    ----------
    tree : pytree
    is_leaf, is_leaf_takes_path
        As in `tree_flatten_with_path`.

    Returns
    -------
    list of (path, leaf)
    """
    return tree_flatten_with_path(tree, is_leaf, is_leaf_takes_path)[0]


def generate_key_paths(tree: Any, is_leaf: Callable[..., bool] | None = None) -> list[tuple[KeyPath, Any]]:
    """Return the list of leaves of a tree, each with its path: `tree_leaves_with_path`, with its `is_leaf`, under an older name."""
    return tree_leaves_with_path(tree, is_leaf)


def paths(treedef: PyTreeDef) -> list[KeyPath]:
    """The paths of the leaves that a tree of this structure has.

    Nodes of users may look at their children when they are made, so where one cannot be made of numbers, its children are numbered.

    Parameters
    ----------
    treedef : PyTreeDef

    Returns
    -------
    list of tuple of keys
    """
    count = treedef.num_leaves
    try:
        found = [path for path, _ in tree_leaves_with_path(treedef.unflatten(range(count)))]
    except Exception:  # what a user's constructor makes of a number
        found = []
    return found if len(found) == count else list(_structural(treedef, ()))


def _structural(treedef: PyTreeDef, prefix: KeyPath) -> Any:
    data = treedef.node_data()
    children = treedef.children()
    if data is None:
        return [prefix]
    kind, aux = data
    keys: Any = map(FlattenedIndexKey, range(len(children)))
    if kind in (dict, OrderedDict):
        keys = map(DictKey, aux)
    elif kind is defaultdict:
        keys = map(DictKey, aux[1])
    elif kind in (tuple, list):
        keys = map(SequenceKey, range(len(children)))
    elif issubclass(kind, tuple) and hasattr(kind, "_fields"):
        keys = map(GetAttrKey, kind._fields)
    return [path for key, child in zip(keys, children, strict=True) for path in _structural(child, (*prefix, key))]
