# SPDX-License-Identifier: Apache-2.0
"""Pooling over channels-last arrays, shape (*batch, *space, channels).

Results have shape (*batch, *windows, channels) and the dtype of the inputs.

Parameters
----------
inputs, window_shape, strides, padding
    See `pool`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from purax import numpy as pnp
from purax.primitives.elementwise import add
from purax.primitives.elementwise import max as maximum
from purax.primitives.elementwise import min as minimum
from purax.primitives.window import reduce_window

__all__ = ["avg_pool", "max_pool", "min_pool", "pool"]


def pool(
    inputs: Any,
    init: Any,
    reduce_fn: Callable[[Any, Any], Any],
    window_shape: Sequence[int],
    strides: Sequence[int] | None,
    padding: Any,
) -> Any:
    """Reduce each window of the spatial axes to one value.

    Parameters
    ----------
    inputs : Array
        Shape (*batch, *space, channels); the batch may be missing.
    init : scalar
        Neutral value of `reduce_fn`.
    reduce_fn : callable
        Associative function of two values.
    window_shape : sequence of int
        Size of the window along each spatial axis.
    strides : sequence of int, optional
        Steps between windows; 1 by default.
    padding : str or sequence of pairs
        "SAME", "VALID" or what to add along each spatial axis.

    Returns
    -------
    Array
        Shape (*batch, *windows, channels).

    Raises
    ------
    ValueError
        Lengths that differ, or too few axes.
    """
    window_shape = tuple(window_shape)
    strides = tuple(strides) if strides else (1,) * len(window_shape)
    if len(strides) != len(window_shape):
        raise ValueError(f"strides {strides} and window_shape {window_shape} must have the same length.")
    batch = inputs.ndim - len(window_shape) - 1
    if batch < 0:
        raise ValueError(f"Pooling over {len(window_shape)} axes needs as many and channels, got shape {inputs.shape}.")
    if not isinstance(padding, str):
        pairs = tuple(tuple(pair) for pair in padding)
        if len(pairs) != len(window_shape) or any(len(pair) != 2 for pair in pairs):
            raise ValueError(f"padding must be a name or a pair for each of {len(window_shape)} axes, got {padding!r}.")
        padding = ((0, 0),) * batch + pairs + ((0, 0),)
    ones = (1,) * batch
    return reduce_window(inputs, init, reduce_fn, (*ones, *window_shape, 1), (*ones, *strides, 1), padding)


def avg_pool(
    inputs: Any,
    window_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: Any = "VALID",
    count_include_pad: bool = True,
) -> Any:
    """Return the mean of each window; padding counts as zeros, or not at all without `count_include_pad`.

    See `purax.linen.layers.pooling` for the arguments that its functions share.
    """
    total = pool(inputs, 0.0, add, window_shape, strides, padding)
    if count_include_pad:
        return total / prod(window_shape)
    batch = inputs.ndim - len(window_shape) - 1
    counted = pnp.ones((1,) * batch + inputs.shape[batch:-1] + (1,), inputs.dtype)
    return total / pool(counted, 0.0, add, window_shape, strides, padding)


def _limit(dtype: Any, sign: int) -> Any:
    """Return the largest (`sign` 1) or smallest (-1) value of a dtype."""
    if pnp.issubdtype(dtype, pnp.inexact):
        return sign * np.inf
    if pnp.issubdtype(dtype, pnp.bool_):
        return sign > 0
    return pnp.iinfo(dtype).max if sign > 0 else pnp.iinfo(dtype).min


def max_pool(
    inputs: Any, window_shape: Sequence[int], strides: Sequence[int] | None = None, padding: Any = "VALID"
) -> Any:
    """Return the maximum of each window; padding never wins. See `pool` for the parameters."""
    return pool(inputs, _limit(inputs.dtype, -1), maximum, window_shape, strides, padding)


def min_pool(
    inputs: Any, window_shape: Sequence[int], strides: Sequence[int] | None = None, padding: Any = "VALID"
) -> Any:
    """Return the minimum of each window; padding never wins. See `pool` for the parameters."""
    return pool(inputs, _limit(inputs.dtype, 1), minimum, window_shape, strides, padding)
