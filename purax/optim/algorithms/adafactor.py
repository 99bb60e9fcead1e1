# SPDX-License-Identifier: Apache-2.0
"""Adafactor: second moments kept as a row and a column, and steps relative to the parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from purax import numpy as pnp
from purax import tree
from purax.optim.base import GradientTransformation, OptState, Params, ScalarOrSchedule, Updates, require_params
from purax.optim.clip import clip_by_block_rms
from purax.optim.combine import chain
from purax.optim.numeric import abs_sq, safe_increment
from purax.optim.scale import add_decayed_weights, ema, scale, scale_by_learning_rate, scale_by_param_block_rms
from purax.primitives.elementwise import rsqrt

__all__ = ["FactoredState", "adafactor", "scale_by_factored_rms"]


class FactoredState(NamedTuple):
    """The number of steps taken, and averaged squares by row and column (factored leaves) or in full (the others)."""

    count: Any
    v_row: Any
    v_col: Any
    v: Any


class _LeafResult(NamedTuple):
    update: Any
    v_row: Any
    v_col: Any
    v: Any


def _power_decay(step: Any, exponent: Any) -> Any:
    return 1.0 - pnp.asarray(step + 1, pnp.float32) ** -exponent


def _factored_axes(shape: tuple[int, ...], factored: bool, min_size: int) -> tuple[int, int] | None:
    """Give the axes of second largest and of largest extent, or None if the leaf is kept in full."""
    if not factored or len(shape) < 2:
        return None
    order = np.argsort(shape, kind="stable")
    if shape[order[-2]] < min_size:
        return None
    return int(order[-2]), int(order[-1])


def scale_by_factored_rms(
    factored: bool = True,
    decay_rate: Any = 0.8,
    step_offset: int = 0,
    min_dim_size_to_factor: int = 128,
    epsilon: Any = 1e-30,
    decay_rate_fn: Callable[[Any, Any], Any] = _power_decay,
) -> GradientTransformation:
    """Divide gradients by the root of averaged squares that are kept as the product of a row and a column.

    Parameters
    ----------
    factored : bool
        False keeps all averages in full.
    decay_rate : float scalar
        c in the equation.
    step_offset : int
        Subtracted from the step (for fine-tuning).
    min_dim_size_to_factor : int
        A leaf is factored if its two largest axes have at least this extent.
    epsilon : float scalar
        Added to squared gradients.
    decay_rate_fn : callable
        (step, decay_rate) -> decay.

    Returns
    -------
    GradientTransformation
        b = 1 - (t + 1)^-c; R <- b R + (1 - b) row means of g^2 + eps; C likewise for columns;
        u = g / sqrt(R C / mean(R)). Its state is a `FactoredState`. Source: Shazeer and Stern 2018.
    """

    def axes_of(leaf: Any) -> tuple[int, int] | None:
        return _factored_axes(tuple(leaf.shape), factored, min_dim_size_to_factor)

    def init(params: Params) -> FactoredState:
        def leaf_state(p: Any) -> _LeafResult:
            axes = axes_of(p)
            nothing = pnp.zeros((1,), p.dtype)
            if axes is None:
                return _LeafResult(nothing, nothing, nothing, pnp.zeros(p.shape, p.dtype))
            row = tuple(extent for axis, extent in enumerate(p.shape) if axis != axes[1])
            column = tuple(extent for axis, extent in enumerate(p.shape) if axis != axes[0])
            return _LeafResult(nothing, pnp.zeros(row, p.dtype), pnp.zeros(column, p.dtype), nothing)

        _, v_row, v_col, v = _transposed(params, tree.map(leaf_state, params))
        return FactoredState(pnp.zeros((), pnp.int32), v_row, v_col, v)

    def update(updates: Updates, state: Any, params: Params | None = None) -> tuple[Updates, OptState]:
        require_params(params, "scale_by_factored_rms")
        decay = decay_rate_fn(state.count - step_offset, decay_rate)

        def leaf_update(g: Any, row: Any, column: Any, full: Any) -> _LeafResult:
            b = decay.astype(g.dtype)
            square = abs_sq(g) + epsilon
            axes = axes_of(g)
            if axes is None:
                full = (b * full + (1.0 - b) * square).astype(full.dtype)
                return _LeafResult(g * rsqrt(full), row, column, full)
            second, largest = axes
            row = (b * row + (1.0 - b) * pnp.mean(square, axis=largest)).astype(row.dtype)
            column = (b * column + (1.0 - b) * pnp.mean(square, axis=second)).astype(column.dtype)
            second_in_row = second - 1 if second > largest else second
            row_factor = rsqrt(row / pnp.mean(row, axis=second_in_row, keepdims=True))
            column_factor = rsqrt(column)
            scaled = g * pnp.expand_dims(row_factor, largest) * pnp.expand_dims(column_factor, second)
            return _LeafResult(scaled, row, column, full)

        results = tree.map(leaf_update, updates, state.v_row, state.v_col, state.v)
        scaled, v_row, v_col, v = _transposed(updates, results)
        return scaled, FactoredState(safe_increment(state.count), v_row, v_col, v)

    return GradientTransformation(init, update)


def _transposed(like: Any, results: Any) -> list[Any]:
    """Turn a tree of results into a result of trees."""
    structure = tree.structure(like)
    leaves = tree.leaves(results, is_leaf=lambda x: isinstance(x, _LeafResult))
    return [tree.unflatten(structure, [leaf[field] for leaf in leaves]) for field in range(len(_LeafResult._fields))]


def adafactor(
    learning_rate: ScalarOrSchedule | None = None,
    min_dim_size_to_factor: int = 128,
    decay_rate: Any = 0.8,
    decay_offset: int = 0,
    multiply_by_parameter_scale: bool = True,
    clipping_threshold: Any = 1.0,
    momentum: Any = None,
    dtype_momentum: Any = np.float32,
    weight_decay_rate: Any = None,
    eps: Any = 1e-30,
    factored: bool = True,
    weight_decay_mask: Any | Callable[[Params], Any] | None = None,
) -> GradientTransformation:
    """Adafactor: adaptive steps in sublinear memory, for large models.

    Parameters
    ----------
    learning_rate : float scalar or callable, optional
        a in the equation; 1 if left out.
    min_dim_size_to_factor, decay_rate, factored
        As in `scale_by_factored_rms`.
    decay_offset : int
        Its step_offset.
    multiply_by_parameter_scale : bool
        Make steps relative to the root mean square of the parameters.
    clipping_threshold : float scalar or None
        d of `clip_by_block_rms`.
    momentum : float scalar, optional
        Average the updates with this decay.
    dtype_momentum : dtype
        The dtype of that average.
    weight_decay_rate : float scalar, optional
        lambda in the equation (not multiplied by the learning rate).
    eps : float scalar
        Its epsilon.
    weight_decay_mask : tree of bool or callable from params to it, optional
        Where to decay; everywhere if left out.

    Returns
    -------
    GradientTransformation
        p <- p - (a * max(rms(p), 1e-3) * clip(u) + lambda * p). Source: Shazeer and Stern 2018.
    """
    parts: list[GradientTransformation] = [
        scale_by_factored_rms(factored, decay_rate, decay_offset, min_dim_size_to_factor, eps)
    ]
    if clipping_threshold is not None:
        parts.append(clip_by_block_rms(clipping_threshold))
    if learning_rate is not None:
        parts.append(scale_by_learning_rate(learning_rate, flip_sign=False))
    if multiply_by_parameter_scale:
        parts.append(scale_by_param_block_rms())
    if momentum is not None:
        parts.append(ema(momentum, debias=False, accumulator_dtype=dtype_momentum))
    if weight_decay_rate is not None:
        parts.append(add_decayed_weights(weight_decay_rate, weight_decay_mask))
    parts.append(scale(-1))
    return chain(*parts)
