# SPDX-License-Identifier: Apache-2.0
"""Second derivatives of a loss, without ever making the whole matrix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from purax import numpy as pnp
from purax import tree
from purax.transforms.grad import grad
from purax.transforms.jvp import jvp
from purax.transforms.vmap import vmap

__all__ = ["fisher_diag", "hessian_diag", "hvp"]

LossFn = Callable[[Any, Any, Any], Any]


def _raveled(values: Any) -> Any:
    return pnp.concatenate([pnp.ravel(leaf) for leaf in tree.leaves(values)])


def _unraveled(vector: Any, like: Any) -> Any:
    leaves, structure = tree.flatten(like)
    pieces, begin = [], 0
    for leaf in leaves:
        pieces.append(vector[begin : begin + leaf.size].reshape(leaf.shape).astype(leaf.dtype))
        begin += leaf.size
    return tree.unflatten(structure, pieces)


def hvp(loss: LossFn, v: Any, params: Any, inputs: Any, targets: Any) -> Any:
    """Multiply the Hessian of a loss with a vector.

    Parameters
    ----------
    loss : callable
        `loss(params, inputs, targets) -> scalar`.
    v : floating[n]
        The vector, n the number of elements in params.
    params : tree of arrays
        Where to differentiate.
    inputs, targets
        Passed to the loss.

    Returns
    -------
    tree
        H v, of the structure of params.
    """
    return jvp(lambda p: grad(loss)(p, inputs, targets), (params,), (_unraveled(v, params),))[1]


def hessian_diag(loss: LossFn, params: Any, inputs: Any, targets: Any) -> Any:
    """Give the diagonal of the Hessian of a loss.

    Parameters
    ----------
    loss, params, inputs, targets
        As in `hvp`.

    Returns
    -------
    floating[n]
        By n products with unit vectors.
    """
    units = pnp.eye(sum(leaf.size for leaf in tree.leaves(params)))
    return vmap(lambda unit: pnp.vdot(unit, _raveled(hvp(loss, unit, params, inputs, targets))))(units)


def fisher_diag(negative_log_likelihood: LossFn, params: Any, inputs: Any, targets: Any) -> Any:
    """Give the diagonal of the observed Fisher information.

    Parameters
    ----------
    negative_log_likelihood : callable
        As the loss of `hvp`.
    params, inputs, targets
        As in `hvp`.

    Returns
    -------
    floating[n]
        The squared gradient.
    """
    return pnp.square(_raveled(grad(negative_log_likelihood)(params, inputs, targets)))
