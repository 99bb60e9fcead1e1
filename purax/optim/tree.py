# SPDX-License-Identifier: Apache-2.0
"""Arithmetic on whole trees of arrays, and ways to find and change what sits in an optimizer's state.

Every function keeps the dtype of each leaf unless told otherwise: a scalar never widens a leaf.

Results are tree like `tree_x`, the target or the moments, unless a function says otherwise.

Parameters
----------
tree_x, tree_y, other_trees, other_tree, target_tree, a, b : pytree of arrays
    Of one structure; arrays of one place broadcast.
updates, moments, moment : pytree of arrays
    Of one structure.
scalar : number or array[]
rng_key : key
dtype : dtype, optional
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from purax import numpy as pnp
from purax import random, tree
from purax.optim.numeric import abs_sq

__all__ = [
    "NamedTupleKey",
    "add",
    "add_scale",
    "allclose",
    "bias_correction",
    "cast",
    "cast_like",
    "clip",
    "conj",
    "div",
    "dtype",
    "full_like",
    "get",
    "get_all_with_path",
    "map_params",
    "max",
    "min",
    "mul",
    "norm",
    "ones_like",
    "random_like",
    "real",
    "scale",
    "set",
    "size",
    "split_key_like",
    "sub",
    "sum",
    "update_infinity_moment",
    "update_moment",
    "update_moment_per_elem_norm",
    "vdot",
    "where",
    "zeros_like",
]


# Arithmetic ----------------------------------------------------------------------------------------------------------


def add(tree_x: Any, tree_y: Any, *other_trees: Any) -> Any:
    """Return the leafwise sum of two or more trees."""
    return tree.map(lambda *leaves: functools.reduce(operator.add, leaves), tree_x, tree_y, *other_trees)


def sub(tree_x: Any, tree_y: Any) -> Any:
    """Return the leafwise difference of two trees."""
    return tree.map(operator.sub, tree_x, tree_y)


def mul(tree_x: Any, tree_y: Any) -> Any:
    """Return the leafwise product of two trees."""
    return tree.map(operator.mul, tree_x, tree_y)


def div(tree_x: Any, tree_y: Any) -> Any:
    """Return the leafwise quotient of two trees."""
    return tree.map(operator.truediv, tree_x, tree_y)


def scale(scalar: Any, tree_x: Any) -> Any:
    """Return scalar * x for each leaf x."""
    return tree.map(lambda x: scalar * x, tree_x)


def add_scale(tree_x: Any, scalar: Any, tree_y: Any) -> Any:
    """Return x + scalar * y leaf by leaf, in the dtype of x."""
    return tree.map(lambda x, y: x + _like(scalar, x) * y, tree_x, tree_y)


def _like(scalar: Any, leaf: Any) -> Any:
    """Give a scalar array the dtype of a leaf, and leave Python numbers (weakly typed) alone."""
    return scalar.astype(leaf.dtype) if hasattr(scalar, "astype") and hasattr(leaf, "dtype") else scalar


def clip(tree_x: Any, min_value: Any = None, max_value: Any = None) -> Any:
    """Return each leaf limited to [min_value, max_value].

    Parameters
    ----------
    min_value, max_value : scalar, optional

    Returns
    -------
    tree like `tree_x`
    """
    return tree.map(lambda x: pnp.clip(x, min_value, max_value), tree_x)


def conj(tree_x: Any) -> Any:
    """Return the complex conjugate of each leaf."""
    return tree.map(pnp.conj, tree_x)


def real(tree_x: Any) -> Any:
    """Return the real part of each leaf."""
    return tree.map(pnp.real, tree_x)


def where(condition: Any, tree_x: Any, tree_y: Any) -> Any:
    """Choose leaf by leaf between two trees, by one `condition`."""
    return tree.map(lambda x, y: pnp.where(condition, x, y), tree_x, tree_y)


# Reductions ----------------------------------------------------------------------------------------------------------


def sum(tree_x: Any, associative_reduction: bool = False) -> Any:
    """Return the sum of all elements of all leaves; `associative_reduction` adds the leaves pairwise."""
    sums = [pnp.sum(x) for x in tree.leaves(tree_x)]
    while associative_reduction and len(sums) > 1:
        pairs = [left + right for left, right in zip(sums[::2], sums[1::2], strict=False)]
        sums = pairs + sums[len(pairs) * 2 :]
    return functools.reduce(operator.add, sums, 0)


def max(tree_x: Any) -> Any:
    """Return the largest element of all leaves, -inf for a tree without elements."""
    values = [pnp.max(pnp.asarray(x)) for x in tree.leaves(tree_x) if np.size(x)]
    return functools.reduce(pnp.maximum, values) if values else -pnp.inf


def min(tree_x: Any) -> Any:
    """Return the smallest element of all leaves, inf for a tree without elements."""
    values = [pnp.min(pnp.asarray(x)) for x in tree.leaves(tree_x) if np.size(x)]
    return functools.reduce(pnp.minimum, values) if values else pnp.inf


def size(tree_x: Any) -> int:
    """Return the number of elements in all leaves."""
    return functools.reduce(operator.add, (int(np.prod(np.shape(x))) for x in tree.leaves(tree_x)), 0)


def vdot(tree_x: Any, tree_y: Any) -> Any:
    """Return the sum over the leaves of conj(x) . y."""
    products = tree.leaves(tree.map(pnp.vdot, tree_x, tree_y))
    return functools.reduce(operator.add, products, 0)


def norm(tree_x: Any, ord: int | float | str | None = None, squared: bool = False) -> Any:
    """Return the norm of all elements of all leaves, taken as one long vector.

    Parameters
    ----------
    tree_x : tree of inexact arrays
        Half-precision leaves are squared and added in float32, so the norm of a large gradient stays finite.
    ord : 1, 2, inf, None
        Which norm; None means 2.
    squared : bool
        Give the square instead (spares the root for ord 2).

    Returns
    -------
    real[]
        The norm, 0 for a tree without elements.

    Raises
    ------
    ValueError
        If ord is none of these.
    """
    leaves = [pnp.asarray(x) for x in tree.leaves(tree_x)]
    if not leaves:
        return pnp.zeros(())
    dtype = pnp.real(pnp.zeros((), pnp.result_type(*leaves))).dtype
    wide = [x.astype(np.float32) if x.dtype.itemsize == 2 else x for x in leaves]  # float16 and bfloat16
    if ord is None or ord == 2:
        square = functools.reduce(operator.add, [pnp.sum(abs_sq(x)) for x in wide])
        return (square if squared else pnp.sqrt(square)).astype(dtype)
    if ord == 1:
        value = functools.reduce(operator.add, [pnp.sum(pnp.abs(x)) for x in wide])
    elif ord in (np.inf, "inf", "infinity"):
        value = functools.reduce(pnp.maximum, [pnp.max(pnp.abs(x)) for x in wide])
    else:
        raise ValueError(f"norm of a tree: ord={ord!r} is not one of 1, 2, inf, None")
    return (pnp.square(value) if squared else value).astype(dtype)


def allclose(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False) -> Any:
    """Return whether all leaves of two trees are equal within tolerances.

    Parameters
    ----------
    rtol, atol : float
        Tolerances.
    equal_nan : bool
        Whether NaN equals NaN.

    Returns
    -------
    bool[]
    """
    close = tree.leaves(tree.map(lambda x, y: pnp.allclose(x, y, rtol, atol, equal_nan), a, b))
    return functools.reduce(pnp.logical_and, close, pnp.asarray(True))


# Making and casting --------------------------------------------------------------------------------------------------


def zeros_like(tree_x: Any, dtype: Any = None) -> Any:
    """Return zeros of each leaf's shape, in its dtype or the one given."""
    return tree.map(lambda x: pnp.zeros_like(x, dtype=dtype), tree_x)


def ones_like(tree_x: Any, dtype: Any = None) -> Any:
    """Return ones of each leaf's shape, in its dtype or the one given."""
    return tree.map(lambda x: pnp.ones_like(x, dtype=dtype), tree_x)


def full_like(tree_x: Any, fill_value: Any, dtype: Any = None) -> Any:
    """Return arrays of each leaf's shape filled with one value.

    Parameters
    ----------
    fill_value : scalar

    Returns
    -------
    tree like `tree_x`
    """
    return tree.map(lambda x: pnp.full_like(x, fill_value, dtype=dtype), tree_x)


def cast(tree_x: Any, dtype: Any) -> Any:
    """Return each leaf in one dtype; None changes nothing."""
    return tree_x if dtype is None else tree.map(lambda x: pnp.asarray(x).astype(dtype), tree_x)


def cast_like(tree_x: Any, other_tree: Any) -> Any:
    """Return each leaf in the dtype of the other tree's leaf."""
    return tree.map(lambda x, y: pnp.asarray(x).astype(y.dtype), tree_x, other_tree)


def dtype(tree_x: Any, mixed_dtype_handler: str | Callable[[Any], Any] | None = None) -> Any:
    """Return the one dtype of all leaves.

    Parameters
    ----------
    tree_x : tree of arrays
        A tree without leaves has the default float dtype.
    mixed_dtype_handler : None, "promote", "highest", "lowest" or callable
        What to do when they differ: raise ValueError, promote, or take the first or last in promotion order.

    Returns
    -------
    dtype
        The common dtype.

    Raises
    ------
    ValueError
        If the dtypes differ and no handler settles it.
    """
    dtypes = [pnp.asarray(x).dtype for x in tree.leaves(tree_x)]
    distinct = list(dict.fromkeys(dtypes))
    if not distinct:
        return pnp.zeros(()).dtype
    if len(distinct) == 1:
        return distinct[0]
    if callable(mixed_dtype_handler):
        return mixed_dtype_handler(tree_x)
    if mixed_dtype_handler == "promote":
        return pnp.result_type(*distinct)
    if mixed_dtype_handler in ("highest", "lowest"):
        up = [d for d in distinct if pnp.result_type(*distinct) == d]
        down = [d for d in distinct if all(pnp.result_type(d, other) == other for other in distinct)]
        chosen = up if mixed_dtype_handler == "highest" else down
        if chosen:
            return chosen[0]
    names = ", ".join(str(d) for d in distinct)
    raise ValueError(f"the leaves of the tree have different dtypes ({names}); pass mixed_dtype_handler='promote'")


def split_key_like(rng_key: Any, target_tree: Any) -> Any:
    """Return a tree of independent keys, one for each leaf of the target."""
    structure = tree.structure(target_tree)
    return tree.unflatten(structure, list(random.split(rng_key, structure.num_leaves)))


def random_like(rng_key: Any, target_tree: Any, sampler: Callable[..., Any] = random.normal, dtype: Any = None) -> Any:
    """Return a tree of random draws with the target's shapes and dtypes, one key for each leaf.

    Parameters
    ----------
    sampler : callable
        `sampler(key, shape, dtype)`.

    Returns
    -------
    tree like the target
    """
    keys = split_key_like(rng_key, target_tree)
    return tree.map(lambda leaf, key: sampler(key, leaf.shape, dtype or leaf.dtype), target_tree, keys)


# Moments -------------------------------------------------------------------------------------------------------------


def update_moment(updates: Any, moments: Any, decay: Any, order: int) -> Any:
    """Return decay * m + (1 - decay) * g**order for each leaf; a None gradient keeps None.

    Parameters
    ----------
    decay : scalar
    order : int

    Returns
    -------
    tree like the moments
    """
    return tree.map(
        lambda g, m: None if g is None else (1 - decay) * (g**order if order != 1 else g) + decay * m,
        updates,
        moments,
        is_leaf=lambda x: x is None,
    )


def update_moment_per_elem_norm(updates: Any, moments: Any, decay: Any, order: int) -> Any:
    """Return decay * m + (1 - decay) * |g|**order for each leaf (the magnitude, so complex gradients work).

    Parameters
    ----------
    decay : scalar
    order : int

    Returns
    -------
    tree like the moments
    """

    def power(g: Any) -> Any:
        if order == 2:
            return abs_sq(g)
        return pnp.abs(g) ** order

    return tree.map(
        lambda g, m: None if g is None else (1 - decay) * power(g) + decay * m,
        updates,
        moments,
        is_leaf=lambda x: x is None,
    )


def update_infinity_moment(updates: Any, moments: Any, decay: Any, eps: Any) -> Any:
    """Return max(|g| + eps, decay * m) for each leaf.

    Parameters
    ----------
    decay : scalar
    eps : scalar

    Returns
    -------
    tree like the moments
    """
    return tree.map(
        lambda g, m: None if g is None else pnp.maximum(pnp.abs(g) + eps, decay * m),
        updates,
        moments,
        is_leaf=lambda x: x is None,
    )


def bias_correction(moment: Any, decay: Any, count: Any) -> Any:
    """Return m / (1 - decay**count): the moment freed of its start at zero, in its own dtype.

    Parameters
    ----------
    decay : scalar
    count : integer scalar
        Steps that were made, at least 1.

    Returns
    -------
    tree like `moment`
    """
    correction = 1 - decay**count
    return tree.map(lambda m: m / _like(correction, m), moment)


# Inside a state ------------------------------------------------------------------------------------------------------


class NamedTupleKey(NamedTuple):
    """One step of a path through a state: field `name` of the named tuple `tuple_name`."""

    tuple_name: str
    name: str

    def __str__(self) -> str:
        """Return "TupleName.field"."""
        return f"{self.tuple_name}.{self.name}"


def _is_named_tuple(node: Any) -> bool:
    return isinstance(node, tuple) and hasattr(node, "_fields")


def _children(node: Any) -> list[tuple[Any, Any]]:
    """List (key, child) of one level; a leaf has none."""
    if _is_named_tuple(node):
        return [(NamedTupleKey(type(node).__name__, name), getattr(node, name)) for name in node._fields]
    pairs = tree.leaves_with_path(node, is_leaf=lambda x: x is not node)
    return [] if len(pairs) == 1 and pairs[0][1] is node else [(path[0], child) for path, child in pairs]


def _key_name(key: Any) -> Any:
    for attribute in ("name", "key", "idx"):
        if hasattr(key, attribute):
            return getattr(key, attribute)
    return key


def get_all_with_path(
    tree_x: Any, key: Any, filtering: Callable[[Any, Any], bool] | None = None
) -> list[tuple[tuple[Any, ...], Any]]:
    """Find everything in a state that has one name.

    Parameters
    ----------
    tree_x : tree
        Usually an optimizer's state.
    key : str or hashable
        A field, a dictionary key, an attribute, or the class name of a named tuple.
    filtering : callable, optional
        `filtering(path, value) -> bool`; what it refuses is left out.

    Returns
    -------
    list of (path, value)
        In depth-first order; a path is a tuple of keys.
    """
    found: list[tuple[tuple[Any, ...], Any]] = []

    def visit(path: tuple[Any, ...], node: Any) -> None:
        named = bool(path) and _key_name(path[-1]) == key
        if (named or (_is_named_tuple(node) and type(node).__name__ == key)) and (
            filtering is None or filtering(path, node)
        ):
            found.append((path, node))
        for step, child in _children(node):
            visit((*path, step), child)

    visit((), tree_x)
    return found


def get(tree_x: Any, key: Any, default: Any = None, filtering: Callable[[Any, Any], bool] | None = None) -> Any:
    """Return the one value of that name in a state, or the default.

    Parameters
    ----------
    tree_x, key, filtering
        As in `get_all_with_path`.
    default : object
        What to give when nothing has the name.

    Returns
    -------
    object
        The value.

    Raises
    ------
    KeyError
        If several values have the name.
    """
    found = get_all_with_path(tree_x, key, filtering)
    if len(found) > 1:
        paths = ", ".join("".join(f"[{step}]" for step in path) for path, _ in found)
        raise KeyError(f"{len(found)} values are named {key!r} ({paths}); narrow it with filtering=")
    return found[0][1] if found else default


def set(tree_x: Any, filtering: Callable[[Any, Any], bool] | None = None, /, **values: Any) -> Any:
    """Return a copy of a state with every value of the given names replaced.

    Parameters
    ----------
    tree_x : tree
        Usually an optimizer's state.
    filtering : callable, optional
        `filtering(path, value) -> bool`; what it refuses is kept.
    **values
        New values by name.

    Returns
    -------
    tree
        The changed copy.

    Raises
    ------
    KeyError
        If nothing has one of the names.
    """
    for name in values:
        if not get_all_with_path(tree_x, name, filtering):
            raise KeyError(f"no value named {name!r} to set in this state")

    def visit(path: tuple[Any, ...], node: Any) -> Any:
        name = _key_name(path[-1]) if path else None
        if isinstance(name, str) and name in values and (filtering is None or filtering(path, node)):
            return values[name]
        pairs = _children(node)
        if not pairs:
            return node
        children = [visit((*path, step), child) for step, child in pairs]
        if _is_named_tuple(node):
            return type(node)(*children)
        structure = tree.structure(node, is_leaf=lambda x: x is not node)
        return tree.unflatten(structure, children)

    return visit((), tree_x)


class _ParamsMark(NamedTuple):
    """Stands for all parameters while a state is made (a node without leaves): shows where the state repeats them."""


def map_params(
    initable: Any,
    f: Callable[..., Any],
    state: Any,
    /,
    *rest: Any,
    transform_non_params: Callable[..., Any] | None = None,
    is_leaf: Callable[[Any], bool] | None = None,
) -> Any:
    """Apply a function to those leaves of a state that stand for parameters (moments, averages), not to counters.

    Parameters
    ----------
    initable : GradientTransformation or its `init`
        What made the state.
    f : callable
        `f(leaf, *rest_leaves) -> leaf` for parameter-like leaves.
    state : tree
        The state.
    *rest : trees of the structure of the parameters
        Passed to f leaf by leaf.
    transform_non_params : callable, optional
        Applied to the other leaves.
    is_leaf : callable, optional
        As in `purax.tree.map`, for the parameter-like trees.

    Returns
    -------
    tree
        The mapped state.
    """
    init = initable.init if hasattr(initable, "init") else initable
    marked = init(_ParamsMark())

    def apply(mark: Any, subtree: Any) -> Any:
        if isinstance(mark, _ParamsMark):
            return tree.map(f, subtree, *rest, is_leaf=is_leaf)
        return subtree if transform_non_params is None else tree.map(transform_non_params, subtree)

    return tree.map(apply, marked, state, is_leaf=lambda x: isinstance(x, _ParamsMark))
