# SPDX-License-Identifier: Apache-2.0
"""What a tree is made of: a name and a description for each node and leaf, and the difference between two trees."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from purax import numpy as pnp
from purax import random, tree
from purax.errors import CheckpointMismatchError

__all__ = ["check_same", "describe", "named_leaves", "rebuild", "store"]

_PYTHON_NUMBERS = {bool: np.bool_, int: np.int64, float: np.float64, complex: np.complex128}


def _key_text(key: Any) -> str:
    for attribute in ("key", "idx", "name"):
        if hasattr(key, attribute):
            return str(getattr(key, attribute))
    return str(key)


def named_leaves(value: Any) -> list[tuple[str, Any]]:
    """List the leaves of a tree with a name each: the keys on the way, joined by dots.

    Parameters
    ----------
    value : tree
        Any tree.

    Returns
    -------
    list of (str, leaf)
        In the order of `tree.leaves`. Names are unique: a second one of its kind gets "~2" at its end.
    """
    seen: dict[str, int] = {}
    named = []
    for path, leaf in tree.leaves_with_path(value):
        name = ".".join(_key_text(key) for key in path) or "value"
        seen[name] = seen.get(name, 0) + 1
        named.append((name if seen[name] == 1 else f"{name}~{seen[name]}", leaf))
    return named


def _describe_leaf(leaf: Any) -> str:
    if type(leaf) in _PYTHON_NUMBERS:
        return type(leaf).__name__
    if not hasattr(leaf, "dtype") or not hasattr(leaf, "shape"):
        raise TypeError(
            f"a checkpoint holds arrays and numbers, not {type(leaf).__name__} ({leaf!r}); leave it out of the tree"
        )
    return f"{leaf.dtype}[{','.join(str(extent) for extent in leaf.shape)}]"


def describe(value: Any) -> dict[str, str]:
    """Say of each node of a tree its type, and of each leaf its dtype and shape.

    Parameters
    ----------
    value : tree
        Of arrays and numbers.

    Returns
    -------
    dict from str to str
        By name, such as {"opt": "ScaleByAdamState", "opt.count": "int32[]"}.

    Raises
    ------
    TypeError
        If a leaf is neither an array nor a number.
    """
    description = {name: _describe_leaf(leaf) for name, leaf in named_leaves(value)}

    def visit(prefix: str, node: Any) -> None:
        if not tree.is_tree_node(type(node)) and not (isinstance(node, tuple) and hasattr(node, "_fields")):
            return
        description[prefix + "()"] = type(node).__name__
        if node is None:
            return
        children, _ = tree.flatten_one_level_with_keys(node)
        for key, child in children:
            visit(f"{prefix}.{_key_text(key)}" if prefix else _key_text(key), child)

    visit("", value)
    return description


def check_same(saved: Mapping[str, str], target: Mapping[str, str], source: str) -> None:
    """Raise an error that lists how what was saved differs from what is wanted.

    Parameters
    ----------
    saved, target : mappings from name to description
        As `describe` gives.
    source : str
        What was saved, for the message.

    Raises
    ------
    CheckpointMismatchError
        If they differ.
    """
    lines = []
    for name in sorted({*saved, *target}):
        have, want = saved.get(name), target.get(name)
        if have == want:
            continue
        if have is None:
            lines.append(f"  + {name}: not saved, the target has {want}")
        elif want is None:
            lines.append(f"  - {name}: saved as {have}, the target has no such value")
        else:
            lines.append(f"  ! {name}: saved as {have}, the target has {want}")
    if lines:
        shown = lines[:20] + ([f"  ... and {len(lines) - 20} more"] if len(lines) > 20 else [])
        raise CheckpointMismatchError(
            f"{source} does not fit the target; {len(lines)} difference(s):\n" + "\n".join(shown)
        )


def _is_key(leaf: Any) -> bool:
    return hasattr(leaf, "dtype") and not isinstance(leaf.dtype, np.dtype)


def store(leaf: Any) -> np.ndarray:
    """Give the array that stands for a leaf in a file.

    Parameters
    ----------
    leaf : array, random key or number
        A leaf.

    Returns
    -------
    array
        In host memory.
    """
    if type(leaf) in _PYTHON_NUMBERS:
        return np.asarray(leaf, _PYTHON_NUMBERS[type(leaf)])
    return np.asarray(random.key_data(leaf) if _is_key(leaf) else leaf)


def rebuild(array: np.ndarray, like: Any) -> Any:
    """Make a leaf of the kind of another from the array that stands for it.

    Parameters
    ----------
    array : array
        From `store`.
    like : array, random key or number
        A leaf of the kind wanted.

    Returns
    -------
    leaf
        Of the type of `like`.
    """
    if type(like) in _PYTHON_NUMBERS:
        return type(like)(array[()])
    if _is_key(like):
        return random.wrap_key_data(array, impl=random.key_impl(like))
    if isinstance(like, np.ndarray):
        return array.copy()
    if isinstance(like, np.generic):
        return array[()]
    return pnp.asarray(array)
