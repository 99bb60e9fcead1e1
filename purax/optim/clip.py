# SPDX-License-Identifier: Apache-2.0
"""Limits on the size of updates."""

from __future__ import annotations

from typing import Any

import numpy as np

from purax import numpy as pnp
from purax import tree
from purax.optim import tree as optim_tree
from purax.optim.base import (
    EmptyState,
    GradientTransformation,
    OptState,
    Params,
    Updates,
    init_empty_state,
    require_params,
    stateless,
    stateless_with_tree_map,
)
from purax.optim.numeric import abs_sq
from purax.transforms.vmap import vmap

__all__ = [
    "AdaptiveGradClipState",
    "ClipByGlobalNormState",
    "ClipState",
    "adaptive_grad_clip",
    "clip",
    "clip_by_block_rms",
    "clip_by_global_norm",
    "global_norm",
    "per_example_global_norm_clip",
    "per_example_layer_norm_clip",
    "unitwise_clip",
    "unitwise_norm",
]

AdaptiveGradClipState = ClipState = ClipByGlobalNormState = EmptyState


def clip(max_delta: Any) -> GradientTransformation:
    """Limit each element of the updates to [-max_delta, max_delta].

    Parameters
    ----------
    max_delta : float scalar
        The limit.

    Returns
    -------
    GradientTransformation
        u' = min(max(u, -max_delta), max_delta).
    """
    return stateless_with_tree_map(lambda u, _: pnp.clip(u, -max_delta, max_delta))


def clip_by_block_rms(threshold: Any) -> GradientTransformation:
    """Scale down each leaf whose root mean square exceeds a threshold d.

    Parameters
    ----------
    threshold : float scalar
        d in the equation.

    Returns
    -------
    GradientTransformation
        u' = u / max(1, rms(u) / d). Source: Shazeer and Stern 2018, section 6.
    """
    return stateless_with_tree_map(lambda u, _: u / _excess(pnp.sqrt(pnp.mean(abs_sq(u))), threshold))


def _excess(size: Any, limit: Any) -> Any:
    """max(1, size / limit), without the 0 / 0 of nothing under a limit of 0."""
    exceeds = size > limit
    return pnp.where(exceeds, size / pnp.where(exceeds, limit, 1), 1)


def global_norm(updates: Updates) -> Any:
    """Return the Euclidean norm of all updates taken as one vector, real[].

    Returns
    -------
    real[]
    """
    return optim_tree.norm(updates)


def clip_by_global_norm(max_norm: Any) -> GradientTransformation:
    """Scale all updates down together when their joint norm exceeds a limit c.

    Parameters
    ----------
    max_norm : float scalar
        c in the equation. With c = 0 every update becomes zero, and zero updates stay zero.

    Returns
    -------
    GradientTransformation
        u' = u * min(1, c / ||u||). Source: Pascanu et al. 2012.
    """

    def limit(updates: Updates, params: Params | None) -> Updates:
        del params
        norm = optim_tree.norm(updates)
        # The division is done only where the norm is above the limit, hence positive: 0 / 0 cannot occur.
        exceeds = norm > max_norm
        factor = pnp.where(exceeds, max_norm / pnp.where(exceeds, norm, 1), 1)
        return tree.map(lambda u: u * factor.astype(u.dtype), updates)

    return stateless(limit)


def _row_norms(x: Any, axes: tuple[int, ...]) -> Any:
    return pnp.sqrt(pnp.sum(abs_sq(x), axis=axes, keepdims=True))


def unitwise_norm(x: Any, axis: int | tuple[int, ...] | None = None) -> Any:
    """Return the norm of the weights that enter each unit.

    Parameters
    ----------
    x : inexact[...]
        A parameter: a scalar or bias, a dense kernel [in, out], or a convolution kernel [..., in, out].
    axis : int or tuple of int, optional
        The axes to sum over. If left out: everything for rank 0 and 1, the first axis of rank 2 and 3, all but the
        last axis of rank 4.

    Returns
    -------
    real[...]
        The norms, of the shape of x (repeated along the summed axes).

    Raises
    ------
    ValueError
        If the rank is above 4 and no axis is given.
    """
    shape = pnp.shape(x)
    if axis is not None:
        axes = (axis,) if isinstance(axis, int) else tuple(axis)
    elif sum(extent > 1 for extent in shape) <= 1:
        axes = tuple(range(len(shape)))
    elif len(shape) in (2, 3):
        axes = (0,)
    elif len(shape) == 4:
        axes = (0, 1, 2)
    else:
        raise ValueError(f"unitwise_norm: rank {len(shape)} (shape {shape}) needs axis=, the axes that enter one unit")
    return pnp.broadcast_to(_row_norms(x, axes), shape)


def unitwise_clip(g_norm: Any, max_norm: Any, grad: Any, div_eps: Any = 1e-6) -> Any:
    """Scale a gradient down wherever the norm of its unit exceeds a limit.

    Parameters
    ----------
    g_norm, max_norm : real[...]
        Norms of the gradient's units and their limits, of the gradient's shape.
    grad : inexact[...]
        The gradient.
    div_eps : float
        The least divisor.

    Returns
    -------
    inexact[...]
        g * min(1, max_norm / max(g_norm, div_eps)).
    """
    clipped = grad * (max_norm / pnp.maximum(g_norm, div_eps))
    return pnp.where(g_norm < max_norm, grad, clipped)


def adaptive_grad_clip(
    clipping: Any, eps: Any = 1e-3, axis: int | tuple[int, ...] | None = None
) -> GradientTransformation:
    """Keep the gradient of each unit below a fraction of the norm of its weights.

    Parameters
    ----------
    clipping : float scalar
        lambda, the largest ratio of gradient norm to weight norm.
    eps : float scalar
        The least weight norm, so that weights at zero can move.
    axis : int or tuple of int, optional
        As in `unitwise_norm`.

    Returns
    -------
    GradientTransformation
        g' = g * min(1, lambda * max(||w||, eps) / ||g||) for each unit. Source: Brock et al. 2021.
    """

    def update(updates: Updates, state: OptState, params: Params | None = None) -> tuple[Updates, OptState]:
        require_params(params, "adaptive_grad_clip")

        def limit(g: Any, p: Any) -> Any:
            max_norm = clipping * pnp.maximum(unitwise_norm(p, axis), eps)
            return unitwise_clip(unitwise_norm(g, axis), max_norm, g)

        return tree.map(limit, updates, params), state

    return GradientTransformation(init_empty_state, update)


def per_example_global_norm_clip(grads: Any, l2_norm_clip: Any) -> tuple[Any, Any]:
    """Limit the joint norm of each example's gradient, and add the gradients up.

    Parameters
    ----------
    grads : tree of inexact[batch, ...] (a list of leaves is fine)
        A gradient for each example.
    l2_norm_clip : float scalar
        C, the largest norm.

    Returns
    -------
    tuple
        The sum over examples of g * min(1, C / ||g||), and the number of examples that were limited, integer[].
        Source: Abadi et al. 2016.

    Raises
    ------
    ValueError
        If the leaves do not share one leading batch axis.
    """
    _check_batch(grads)
    norms = vmap(optim_tree.norm)(grads)
    divisors = _excess(norms, l2_norm_clip)
    summed = tree.map(lambda g: pnp.sum(g / _trailing(divisors, g), axis=0), grads)
    return summed, pnp.sum(pnp.greater(divisors, 1.0))


def per_example_layer_norm_clip(grads: Any, global_l2_norm_clip: Any, uniform: bool = True) -> tuple[Any, Any]:
    """Limit the norm of each example's gradient leaf by leaf, and add the gradients up.

    Parameters
    ----------
    grads : tree of inexact[batch, ...]
        A gradient for each example.
    global_l2_norm_clip : float scalar
        C, the limit on the joint norm that the limits of the leaves add up to.
    uniform : bool
        Give each of the k leaves C / sqrt(k); otherwise share by the number of elements.

    Returns
    -------
    tuple
        The summed gradients, and for each leaf the number of examples that were limited.
        Source: McMahan et al. 2018.

    Raises
    ------
    ValueError
        If the leaves do not share one leading batch axis.
    """
    _check_batch(grads)
    leaves = tree.leaves(grads)
    sizes = [float(np.prod(g.shape[1:])) for g in leaves]
    shares = [1.0 / len(leaves) if uniform else size / float(np.sum(sizes)) for size in sizes]
    limits = [global_l2_norm_clip * share**0.5 for share in shares]
    norms = [pnp.sqrt(pnp.sum(abs_sq(g).reshape(g.shape[0], -1), axis=1)) for g in leaves]
    divisors = [_excess(norm, limit) for norm, limit in zip(norms, limits, strict=True)]
    summed = [pnp.sum(g / _trailing(d, g), axis=0) for g, d in zip(leaves, divisors, strict=True)]
    counts = [pnp.sum(pnp.greater(d, 1.0)) for d in divisors]
    structure = tree.structure(grads)
    return tree.unflatten(structure, summed), tree.unflatten(structure, counts)


def _trailing(per_example: Any, like: Any) -> Any:
    return per_example.reshape((-1,) + (1,) * (like.ndim - 1))


def _check_batch(grads: Any) -> None:
    shapes = [pnp.shape(g) for g in tree.leaves(grads)]
    if not shapes or any(not shape or shape[0] != shapes[0][0] for shape in shapes):
        raise ValueError(f"per-example gradients need one leading batch axis in every leaf, got shapes {shapes}")
