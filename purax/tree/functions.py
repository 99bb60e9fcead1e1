# SPDX-License-Identifier: Apache-2.0
"""Flatten, map and reduce trees.

Parameters
----------
is_leaf : callable, optional
    Asked at each node whether to stop there.
"""

import functools
from collections.abc import Callable, Iterable
from typing import Any

from purax.errors import TreeMismatchError, explain
from purax.tree import _native
from purax.tree._native import PyTreeDef, registry
from purax.tree.path import tree_flatten_with_path
from purax.tree.prefix import broadcast_prefix, mismatch

__all__ = [
    "all_leaves",
    "flatten_up_to",
    "is_leaf_structure",
    "tree_all",
    "tree_broadcast",
    "tree_flatten",
    "tree_leaves",
    "tree_map",
    "tree_map_with_path",
    "tree_reduce",
    "tree_reduce_associative",
    "tree_structure",
    "tree_transpose",
    "tree_unflatten",
    "treedef_children",
    "treedef_is_leaf",
    "treedef_tuple",
]

Leaf = Any
IsLeaf = Callable[[Any], bool]

_registry_flatten = registry.flatten


def tree_flatten(tree: Any, is_leaf: IsLeaf | None = None) -> tuple[list[Leaf], PyTreeDef]:
    """Take a tree apart.

    Parameters
    ----------
    tree : pytree
        Nested lists, tuples, dicts (taken in the order of their sorted keys), None (no leaf), and registered types.
    is_leaf : callable, optional
        Asked at each node whether to stop there.

    Returns
    -------
    leaves : list
    treedef : PyTreeDef
        The structure; equal structures are equal and hash alike.

    Examples
    --------
    >>> tree_flatten({"b": [1, 2], "a": 3})[0]
    [3, 1, 2]

    Raises
    ------
    RecursionError
        The tree contains itself, or is nested too deep.
    """
    try:
        return _registry_flatten(tree, is_leaf)
    except SystemError as error:
        if not isinstance(error.__cause__, RecursionError):
            raise
        message = explain(
            f"a tree of type {type(tree).__name__} is nested deeper than Python's recursion limit",
            "it contains itself, or is a long chain of nodes",
            "pass a tree without cycles; a chain is better kept as one list",
        )
    raise RecursionError(message)


def tree_unflatten(treedef: PyTreeDef, leaves: Iterable[Leaf]) -> Any:
    """Put a tree together.

    Parameters
    ----------
    treedef : PyTreeDef
        The structure.
    leaves : iterable
        As many as the structure has.

    Returns
    -------
    pytree

    Raises
    ------
    ValueError
        Too few or too many leaves.
    """
    return treedef.unflatten(leaves)


def tree_leaves(tree: Any, is_leaf: IsLeaf | None = None) -> list[Leaf]:
    """Return the leaves of a tree, in the order of `tree_flatten`."""
    return tree_flatten(tree, is_leaf)[0]


def tree_structure(tree: Any, is_leaf: IsLeaf | None = None) -> PyTreeDef:
    """Return the structure of a tree."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: IsLeaf | None = None) -> Any:
    """Apply a function to each leaf.

    Parameters
    ----------
    f : callable
        Takes a leaf of `tree`, and what stands in its place in each of `rest`.
    tree : pytree
        Its structure is that of the result.
    *rest : pytree
        Trees that have the structure of `tree`, or go deeper than it.
    is_leaf : callable, optional
        Asked at each node of `tree` whether to stop there.

    Returns
    -------
    pytree
        Of the results of `f`.

    Raises
    ------
    TreeMismatchError
        `tree` is not a prefix of one of the others; the message names the place.

    Examples
    --------
    >>> tree_map(lambda x, y: x + y, {"a": 1}, {"a": 2})
    {'a': 3}
    """
    leaves, treedef = tree_flatten(tree, is_leaf)
    if not rest:
        return treedef.unflatten([f(leaf) for leaf in leaves])
    columns = [leaves]
    for other in rest:
        columns.append(flatten_up_to(treedef, tree, other, is_leaf))
    return treedef.unflatten([f(*row) for row in zip(*columns, strict=True)])


def flatten_up_to(treedef: PyTreeDef, tree: Any, other: Any, is_leaf: IsLeaf | None = None) -> list[Any]:
    """Return what stands in `other` where `tree`, of structure `treedef`, has its leaves.

    Parameters
    ----------
    treedef : PyTreeDef
    tree, other : pytree

    Returns
    -------
    list

    Raises
    ------
    TreeMismatchError
        `tree` is not a prefix of `other`.
    """
    try:
        return treedef.flatten_up_to(other)
    except (ValueError, TypeError) as error:
        problem = mismatch(tree, other, is_leaf)
        if problem is None:
            raise
        raise TreeMismatchError(
            explain(f"trees of different structure meet: {problem}", fix="give trees of one structure.")
        ) from error


def tree_map_with_path(
    f: Callable[..., Any],
    tree: Any,
    *rest: Any,
    is_leaf: Callable[..., bool] | None = None,
    is_leaf_takes_path: bool = False,
) -> Any:
    """Apply a function to the path and the value of each leaf; otherwise like `tree_map`.

    Parameters
    ----------
    f : callable
        `f(path, leaf, *others)`.
    tree, rest : pytree
    is_leaf_takes_path : bool
        `is_leaf` is called with path and node.

    Returns
    -------
    tree like `tree`

    Examples
    --------
    >>> from purax.tree.path import keystr
    >>> tree_map_with_path(lambda path, x: keystr(path) + f" = {x}", {"a": [1]})
    {'a': ["['a'][0] = 1"]}
    """
    pairs, treedef = tree_flatten_with_path(tree, is_leaf, is_leaf_takes_path)
    columns: list[Any] = [[path for path, _ in pairs], [leaf for _, leaf in pairs]]
    for other in rest:
        columns.append(flatten_up_to(treedef, tree, other, None if is_leaf_takes_path else is_leaf))
    return treedef.unflatten([f(*row) for row in zip(*columns, strict=True)])


_MISSING = object()


def tree_reduce(
    function: Callable[[Any, Any], Any], tree: Any, initializer: Any = _MISSING, is_leaf: Any = None
) -> Any:
    """Combine all leaves from the left.

    Parameters
    ----------
    function : callable
        Takes what is combined so far and the next leaf.
    tree : pytree
    initializer : object, optional
        What to start from; without it, the first leaf.
    is_leaf : callable, optional
        Asked at each node whether to stop there.

    Returns
    -------
    what the function gives

    Raises
    ------
    TypeError
        There is neither a leaf nor an initializer.

    Examples
    --------
    >>> tree_reduce(lambda x, y: x + y, [1, (2, 3)])
    6
    """
    leaves = tree_leaves(tree, is_leaf)
    return (
        functools.reduce(function, leaves)
        if initializer is _MISSING
        else functools.reduce(function, leaves, initializer)
    )


def tree_reduce_associative(
    operation: Callable[[Any, Any], Any], tree: Any, *, identity: Any = _MISSING, is_leaf: IsLeaf | None = None
) -> Any:
    """Combine all leaves by an associative operation, in pairs, so that the depth is logarithmic.

    Parameters
    ----------
    operation : callable
        Takes two neighbours.
    tree : pytree
    identity : object, optional
        The result for a tree without leaves.
    is_leaf : callable, optional
        Asked at each node whether to stop there.

    Returns
    -------
    what the operation gives

    Raises
    ------
    TypeError
        There is neither a leaf nor an identity.
    """
    values = tree_leaves(tree, is_leaf)
    if not values:
        if identity is _MISSING:
            raise TypeError("tree_reduce_associative() of a tree without leaves needs an identity")
        return identity
    while len(values) > 1:
        pairs = [operation(values[i], values[i + 1]) for i in range(0, len(values) - 1, 2)]
        values = pairs + values[len(pairs) * 2 :]
    return values[0]


def tree_all(tree: Any, *, is_leaf: IsLeaf | None = None) -> bool:
    """Tell whether all leaves are true."""
    return all(tree_leaves(tree, is_leaf))


def tree_broadcast(prefix_tree: Any, full_tree: Any, is_leaf: IsLeaf | None = None) -> Any:
    """Repeat the leaves of a prefix so that it has the structure of the full tree.

    Parameters
    ----------
    prefix_tree : pytree
        A tree that stops earlier than `full_tree`.
    full_tree : pytree
        Its structure is that of the result.
    is_leaf : callable, optional
        Asked at each node of `prefix_tree` whether to stop there.

    Returns
    -------
    tree like `full_tree`

    Raises
    ------
    TreeMismatchError
        It is not a prefix.

    Examples
    --------
    >>> tree_broadcast([1, 2], [{"a": 3, "b": 4}, 5])
    [{'a': 1, 'b': 1}, 2]
    """
    leaves = broadcast_prefix(prefix_tree, full_tree, is_leaf)
    return tree_structure(full_tree).unflatten(leaves)


def tree_transpose(outer_treedef: PyTreeDef, inner_treedef: PyTreeDef | None, pytree_to_transpose: Any) -> Any:
    """Turn a tree of trees inside out: a list of dicts becomes a dict of lists.

    Parameters
    ----------
    outer_treedef : PyTreeDef
        The structure outside in the argument, inside in the result.
    inner_treedef : PyTreeDef, optional
        The other structure; without it that of the first subtree.
    pytree_to_transpose : pytree

    Returns
    -------
    pytree

    Raises
    ------
    TypeError
        The argument does not have the structures, one inside the other.
    ValueError
        A structure has no leaves.

    Examples
    --------
    >>> tree_transpose(tree_structure([0, 0]), None, [{"a": 1}, {"a": 2}])
    {'a': [1, 2]}
    """
    leaves, treedef = tree_flatten(pytree_to_transpose)
    if inner_treedef is None:
        inner_treedef = tree_structure(outer_treedef.flatten_up_to(pytree_to_transpose)[0])
    outer_size, inner_size = outer_treedef.num_leaves, inner_treedef.num_leaves
    if not outer_size or not inner_size:
        raise ValueError("tree_transpose needs structures with leaves: one without leaves leaves nothing to place")
    columns = [leaves[start::inner_size] for start in range(inner_size)]
    # Put together again as asked, it must be the tree that was given. Structures of nodes whose static data holds the
    # structure below them do not compose, so the comparison is between trees.
    rows = [leaves[start : start + inner_size] for start in range(0, len(leaves), inner_size)]
    if len(leaves) != outer_size * inner_size or treedef != tree_structure(
        outer_treedef.unflatten([inner_treedef.unflatten(row) for row in rows])
    ):
        expected = outer_treedef.compose(inner_treedef)
        raise TypeError(explain(f"tree_transpose got a tree of structure\n  {treedef}.", f"expected\n  {expected}."))
    return inner_treedef.unflatten([outer_treedef.unflatten(column) for column in columns])


def all_leaves(iterable: Iterable[Any], is_leaf: IsLeaf | None = None) -> bool:
    """Tell whether all values are leaves: none is a container."""
    if is_leaf is None:
        return _native.all_leaves(iterable)
    values = list(iterable)
    leaves = tree_leaves(values, is_leaf)
    return len(values) == len(leaves) and all(a is b for a, b in zip(values, leaves, strict=True))


# ---- structures


def treedef_tuple(treedefs: Iterable[PyTreeDef]) -> PyTreeDef:
    """Return the structure of a tuple of trees of these structures."""
    return _native.treedef_tuple(treedefs)


def treedef_children(treedef: PyTreeDef) -> list[PyTreeDef]:
    """Return the structures right below the root."""
    return treedef.children()


def treedef_is_leaf(treedef: PyTreeDef) -> bool:
    """Tell whether a structure is a single node: a leaf, or None."""
    return bool(treedef.num_nodes == 1)


def is_leaf_structure(treedef: PyTreeDef) -> bool:
    """Tell whether a structure is that of one leaf; unlike `treedef_is_leaf`, None is none."""
    return bool(treedef.num_nodes == 1 and treedef.num_leaves == 1)
