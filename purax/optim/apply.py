# SPDX-License-Identifier: Apache-2.0
"""Adding updates to parameters, at once or slowly."""

from __future__ import annotations

from typing import Any

from purax import numpy as pnp
from purax import tree
from purax.control.branch import cond
from purax.optim.base import Params, Updates

__all__ = ["apply_updates", "incremental_update", "periodic_update"]


def apply_updates(params: Params, updates: Updates) -> Params:
    """Add updates to parameters.

    Parameters
    ----------
    params : tree of inexact arrays
        The parameters; None leaves are passed over.
    updates : tree of the same structure
        What an optimizer's `update` gave.

    Returns
    -------
    tree
        p + u, each in the dtype of its parameter.
    """
    return tree.map(
        lambda p, u: None if p is None else pnp.asarray(p + u).astype(pnp.asarray(p).dtype),
        params,
        updates,
        is_leaf=lambda x: x is None,
    )


def incremental_update(new_tensors: Params, old_tensors: Params, step_size: Any) -> Params:
    """Move old parameters a step towards new ones (an exponential moving average).

    Parameters
    ----------
    new_tensors, old_tensors : trees of inexact arrays
        Of one structure.
    step_size : float scalar
        s in s * new + (1 - s) * old.

    Returns
    -------
    tree
        The average. Source: Polyak and Juditsky 1992.
    """
    return tree.map(lambda new, old: step_size * new + (1.0 - step_size) * old, new_tensors, old_tensors)


def periodic_update(new_tensors: Params, old_tensors: Params, steps: Any, update_period: int) -> Params:
    """Replace old parameters by new ones once in a while.

    Parameters
    ----------
    new_tensors, old_tensors : trees of arrays
        Of one structure.
    steps : integer scalar
        How many steps were taken.
    update_period : int
        New parameters are taken when steps is a multiple of it.

    Returns
    -------
    tree
        new_tensors or old_tensors.
    """
    return cond(steps % update_period == 0, lambda: new_tensors, lambda: old_tensors)
