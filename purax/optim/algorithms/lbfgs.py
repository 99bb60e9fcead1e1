# SPDX-License-Identifier: Apache-2.0
"""L-BFGS: Newton's direction from the last few steps, for full-batch optimization."""

from __future__ import annotations

from typing import Any, NamedTuple

from purax import numpy as pnp
from purax import tree
from purax.control.loop import scan
from purax.optim import tree as optim_tree
from purax.optim.base import (
    GradientTransformation,
    GradientTransformationExtraArgs,
    OptState,
    Params,
    ScalarOrSchedule,
    Updates,
    identity,
    require_params,
)
from purax.optim.combine import chain
from purax.optim.linesearch import scale_by_zoom_linesearch
from purax.optim.numeric import safe_increment
from purax.optim.scale import scale, scale_by_learning_rate

__all__ = ["ScaleByLBFGSState", "lbfgs", "scale_by_lbfgs"]

_ZOOM = scale_by_zoom_linesearch(max_linesearch_steps=20, initial_guess_strategy="one")


class ScaleByLBFGSState(NamedTuple):
    """Steps taken, the last parameters and gradients, and the last m changes of both with 1 / <change, change>."""

    count: Any
    params: Any
    updates: Any
    diff_params_memory: Any
    diff_updates_memory: Any
    weights_memory: Any


def scale_by_lbfgs(memory_size: int = 10, scale_init_precond: bool = True) -> GradientTransformation:
    """Multiply gradients by an estimate of the inverse Hessian.

    Parameters
    ----------
    memory_size : int
        m, how many steps are remembered.
    scale_init_precond : bool
        Start the estimate from <s, y> / <y, y> of the last step instead of 1.

    Returns
    -------
    GradientTransformation
        The two-loop recursion over s = p - last p, y = g - last g. Its state is a `ScaleByLBFGSState`.
        Source: Nocedal and Wright 2006, algorithm 7.4.

    Raises
    ------
    ValueError
        If memory_size is below 1.
    """
    if memory_size < 1:
        raise ValueError(f"scale_by_lbfgs: memory_size must be at least 1, got {memory_size}")

    def init(params: Params) -> ScaleByLBFGSState:
        stacked = tree.map(lambda p: pnp.zeros((memory_size, *p.shape), p.dtype), params)
        zeros = optim_tree.zeros_like(params)
        weights = pnp.zeros(memory_size, optim_tree.dtype(params, "promote"))
        return ScaleByLBFGSState(pnp.zeros((), pnp.int32), zeros, zeros, stacked, stacked, weights)

    def update(updates: Updates, state: Any, params: Params | None = None) -> tuple[Updates, OptState]:
        require_params(params, "scale_by_lbfgs")
        first = state.count == 0
        s = tree.map(lambda p, last: pnp.where(first, pnp.zeros_like(p), p - last), params, state.params)
        y = tree.map(lambda g, last: pnp.where(first, pnp.zeros_like(g), g - last), updates, state.updates)
        product = pnp.real(optim_tree.vdot(y, s))
        weight = pnp.where(product == 0, 0, 1 / pnp.where(product == 0, 1, product))
        slot = (state.count - 1) % memory_size

        def remember(memory: Any, new: Any) -> Any:
            return tree.map(lambda m, n: m.at[slot].set(n), memory, new)

        steps, changes = remember(state.diff_params_memory, s), remember(state.diff_updates_memory, y)
        weights = state.weights_memory.at[slot].set(weight.astype(state.weights_memory.dtype))

        square = optim_tree.norm(y, squared=True)
        curved = pnp.where(square > 0, product / pnp.where(square > 0, square, 1), 1)
        length = optim_tree.norm(updates)
        # Nothing is known in the first step: a step no longer than the gradient, and no longer than 1.
        start = pnp.minimum(1, 1 / pnp.where(length > 0, length, 1))
        initial = pnp.where(first, start, curved) if scale_init_precond else pnp.ones_like(curved)
        direction = _two_loops(updates, steps, changes, weights, initial, (slot + 1) % memory_size)
        return direction, ScaleByLBFGSState(safe_increment(state.count), params, updates, steps, changes, weights)

    return GradientTransformation(init, update)


def _two_loops(gradient: Any, steps: Any, changes: Any, weights: Any, initial: Any, oldest: Any) -> Any:
    """Apply the estimate of the inverse Hessian; slots that were never filled have weight 0 and change nothing."""
    order = (oldest + pnp.arange(weights.shape[0])) % weights.shape[0]

    def pick(memory: Any, slot: Any) -> Any:
        return tree.map(lambda m: m[slot], memory)

    def backward(vector: Any, slot: Any) -> tuple[Any, Any]:
        factor = weights[slot] * pnp.real(optim_tree.vdot(pick(steps, slot), vector)).astype(weights.dtype)
        return optim_tree.add_scale(vector, -factor, pick(changes, slot)), factor

    def forward(vector: Any, slot_and_factor: Any) -> tuple[Any, None]:
        slot, factor = slot_and_factor
        other = weights[slot] * pnp.real(optim_tree.vdot(pick(changes, slot), vector)).astype(weights.dtype)
        return optim_tree.add_scale(vector, factor - other, pick(steps, slot)), None

    vector, factors = scan(backward, gradient, order, reverse=True)
    vector = tree.map(lambda v: initial.astype(v.dtype) * v, vector)
    return scan(forward, vector, (order, factors))[0]


def lbfgs(
    learning_rate: ScalarOrSchedule | None = None,
    memory_size: int = 10,
    scale_init_precond: bool = True,
    linesearch: GradientTransformation | None = _ZOOM,
) -> GradientTransformationExtraArgs:
    """L-BFGS with a line search; `update` needs `value=`, `grad=` and `value_fn=`.

    Parameters
    ----------
    learning_rate : float scalar or callable, optional
        A factor on the direction; 1 if left out.
    memory_size, scale_init_precond
        As in `scale_by_lbfgs`.
    linesearch : GradientTransformation or None
        What finds the length of the step.

    Returns
    -------
    GradientTransformationExtraArgs
        p <- p - s H g, H the estimate of the inverse Hessian. Source: Liu and Nocedal 1989.

    Examples
    --------
    >>> from purax import numpy as pnp
    >>> from purax import optim
    >>> def loss(p):
    ...     return pnp.sum((p - 3.0) ** 2)
    >>> optimizer = optim.lbfgs()
    >>> p = pnp.zeros(2)
    >>> state = optimizer.init(p)
    >>> value_and_grad = optim.value_and_grad_from_state(loss)
    >>> for _ in range(3):
    ...     value, grad = value_and_grad(p, state=state)
    ...     updates, state = optimizer.update(grad, state, p, value=value, grad=grad, value_fn=loss)
    ...     p = optim.apply_updates(p, updates)
    >>> bool(pnp.allclose(p, 3.0, atol=1e-4))
    True
    """
    return chain(
        scale_by_lbfgs(memory_size, scale_init_precond),
        scale(-1.0) if learning_rate is None else scale_by_learning_rate(learning_rate),
        identity() if linesearch is None else linesearch,
    )
