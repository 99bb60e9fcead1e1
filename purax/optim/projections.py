# SPDX-License-Identifier: Apache-2.0
"""The nearest point of a set: what keeps parameters inside constraints (apply after `apply_updates`).

Results are tree like: the same structure, shapes and dtypes.

Parameters
----------
tree : pytree of arrays
scale : float
    Size of the set.
"""

from __future__ import annotations

from typing import Any

from purax import numpy as pnp
from purax import tree as trees
from purax.optim import tree as optim_tree

__all__ = [
    "projection_box",
    "projection_halfspace",
    "projection_hypercube",
    "projection_hyperplane",
    "projection_l1_ball",
    "projection_l1_sphere",
    "projection_l2_ball",
    "projection_l2_sphere",
    "projection_linf_ball",
    "projection_non_negative",
    "projection_simplex",
    "projection_vector",
]


def _flat(values: Any) -> Any:
    return pnp.concatenate([pnp.ravel(leaf) for leaf in trees.leaves(values)])


def _shaped(vector: Any, like: Any) -> Any:
    leaves, structure = trees.flatten(like)
    pieces, begin = [], 0
    for leaf in leaves:
        pieces.append(vector[begin : begin + leaf.size].reshape(leaf.shape).astype(leaf.dtype))
        begin += leaf.size
    return trees.unflatten(structure, pieces)


def projection_non_negative(tree: Any) -> Any:
    """Return max(x, 0) for each leaf."""
    return projection_box(tree, 0.0, pnp.inf)


def _bounds(bound: Any, like: Any) -> Any:
    return bound if trees.structure(bound) == trees.structure(like) else optim_tree.full_like(like, bound)


def projection_box(tree: Any, lower: Any, upper: Any) -> Any:
    """Return each leaf limited to [lower, upper].

    Parameters
    ----------
    tree : tree of floating arrays
        The point.
    lower, upper : scalars, or trees of the same structure
        The limits.

    Returns
    -------
    tree
        The nearest point of the box.
    """
    return trees.map(lambda x, low, high: pnp.clip(x, low, high), tree, _bounds(lower, tree), _bounds(upper, tree))


def projection_hypercube(tree: Any, scale: Any = 1.0) -> Any:
    """Return each leaf limited to [0, scale]."""
    return projection_box(tree, 0.0, scale)


def projection_simplex(tree: Any, scale: Any = 1.0) -> Any:
    """Return the nearest point with non-negative elements that sum to a number.

    Parameters
    ----------
    tree : tree of floating arrays
        The point; all leaves are taken as one vector x.
    scale : float scalar
        The sum s.

    Returns
    -------
    tree
        max(x - t, 0), t such that the sum is s. Source: Duchi et al. 2008.
    """
    x = _flat(tree)
    descending = -pnp.sort(-x)
    counts = pnp.arange(1, x.size + 1).astype(x.dtype)
    excess = (pnp.cumsum(descending) - scale) / counts
    # The threshold of the largest support that is consistent with itself.
    support = pnp.sum(descending > excess)
    return _shaped(pnp.maximum(x - excess[support - 1], 0), tree)


def projection_l1_sphere(tree: Any, scale: Any = 1.0) -> Any:
    """Return the nearest point whose absolute values sum to `scale`."""
    signs = trees.map(lambda x: pnp.where(x < 0, -1, 1).astype(x.dtype), tree)
    sizes = projection_simplex(trees.map(pnp.abs, tree), scale)
    return optim_tree.mul(signs, sizes)


def projection_l1_ball(tree: Any, scale: Any = 1.0) -> Any:
    """Return the nearest point whose absolute values sum to at most `scale`."""
    inside = optim_tree.norm(tree, ord=1) <= scale
    return optim_tree.where(inside, tree, projection_l1_sphere(tree, scale))


def projection_l2_sphere(tree: Any, scale: Any = 1.0) -> Any:
    """Return the nearest point of Euclidean norm `scale`."""
    factor = scale / optim_tree.norm(tree)
    return trees.map(lambda x: factor.astype(x.dtype) * x, tree)


def projection_l2_ball(tree: Any, scale: Any = 1.0) -> Any:
    """Return the nearest point of Euclidean norm at most `scale`."""
    norm = optim_tree.norm(tree)
    outside = norm > scale
    factor = pnp.where(outside, scale / pnp.where(outside, norm, 1), 1)
    return trees.map(lambda x: factor.astype(x.dtype) * x, tree)


def projection_linf_ball(tree: Any, scale: Any = 1.0) -> Any:
    """Return each leaf limited to [-scale, scale]."""
    return projection_box(tree, -scale, scale)


def projection_vector(x: Any, a: Any) -> Any:
    """Return the nearest multiple of a.

    Parameters
    ----------
    x, a : trees of floating arrays
        Of one structure; all leaves are taken as one vector.

    Returns
    -------
    tree
        <x, a> / <a, a> * a.
    """
    factor = optim_tree.vdot(x, a) / optim_tree.norm(a, squared=True)
    return trees.map(lambda leaf: factor.astype(leaf.dtype) * leaf, a)


def projection_hyperplane(x: Any, a: Any, b: Any) -> Any:
    """Return the nearest point of the plane <a, x> = b.

    Parameters
    ----------
    x, a : trees of floating arrays
        Of one structure; all leaves are taken as one vector.
    b : float scalar
        The right-hand side.

    Returns
    -------
    tree
        x - (<a, x> - b) / <a, a> * a.
    """
    excess = (optim_tree.vdot(a, x) - b) / optim_tree.norm(a, squared=True)
    return optim_tree.add_scale(x, -excess, a)


def projection_halfspace(x: Any, a: Any, b: Any) -> Any:
    """Return the nearest point with <a, x> <= b.

    Parameters
    ----------
    x, a : trees of floating arrays
        Of one structure; all leaves are taken as one vector.
    b : float scalar
        The right-hand side.

    Returns
    -------
    tree
        x - max(<a, x> - b, 0) / <a, a> * a.
    """
    excess = pnp.maximum(optim_tree.vdot(a, x) - b, 0) / optim_tree.norm(a, squared=True)
    return optim_tree.add_scale(x, -excess, a)
