# SPDX-License-Identifier: Apache-2.0
"""Images of any rank: values between the grid points."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from purax import dtypes
from purax import numpy as pnp
from purax.numpy.promotion import check_arraylike

__all__ = ["map_coordinates"]


def _mirror(index: Any, size: int) -> Any:
    """Reflect at the centres of the outermost elements."""
    last = size - 1
    return pnp.abs((index + last) % (2 * last) - last) if last else pnp.zeros_like(index)


def _reflect(index: Any, size: int) -> Any:
    """Reflect at the outer edges of the outermost elements."""
    folded = index % (2 * size)
    return pnp.minimum(folded, 2 * size - 1 - folded)


_MODES: dict[str, Any] = {
    "constant": lambda index, size: index,
    "nearest": lambda index, size: pnp.clip(index, 0, size - 1),
    "wrap": lambda index, size: index % size,
    "mirror": _mirror,
    "reflect": _reflect,
}


def _round_half_away(x: Any) -> Any:
    if dtypes.is_integer(x.dtype):
        return x
    return pnp.where(x >= 0, pnp.floor(x + 0.5), pnp.ceil(x - 0.5))


def map_coordinates(input: Any, coordinates: Sequence[Any], order: int, mode: str = "constant", cval: Any = 0.0) -> Any:
    """Values of an array at any coordinates.

    Parameters
    ----------
    input : array[...]
    coordinates : sequence of real[...], one per axis
        They broadcast to the shape of the result.
    order : 0 or 1
        Take the nearest element, or interpolate linearly.
    mode : "constant", "nearest", "wrap", "mirror" or "reflect"
        What lies outside: `cval`, the border, the array again, the array reflected at centres or edges of border elements.
    cval : scalar

    Returns
    -------
    array of the dtype of `input`
        Of integers, the interpolated values are rounded.

    Raises
    ------
    ValueError
        Not one array of coordinates for each axis.
    NotImplementedError
        Another mode, or an order above 1.
    """
    check_arraylike("map_coordinates", input)
    source = pnp.asarray(input)
    points = [pnp.asarray(c) for c in coordinates]
    if len(points) != source.ndim:
        raise ValueError(
            f"map_coordinates: the input has {source.ndim} axes, and coordinates for {len(points)} were given"
        )
    wrapped = _MODES.get(mode)
    if wrapped is None:
        raise NotImplementedError(f"map_coordinates: mode is one of {sorted(_MODES)}, got {mode!r}")
    if order not in (0, 1):
        raise NotImplementedError("map_coordinates currently requires order<=1")
    fill = pnp.asarray(cval, source.dtype)
    per_axis = []
    for point, size in zip(points, source.shape, strict=True):
        inexact = point if not dtypes.is_integer(point.dtype) else point.astype(dtypes.default_float())
        low = _round_half_away(point) if order == 0 else pnp.floor(inexact)
        steps = [(low, 1)] if order == 0 else [(low, 1 - (inexact - low)), (low + 1, inexact - low)]
        choices = []
        for index, weight in steps:
            index = index.astype(np.int32)
            inside = (index >= 0) & (index < size) if mode == "constant" else True
            choices.append((pnp.clip(wrapped(index, size), 0, size - 1), inside, weight))
        per_axis.append(choices)
    terms = []
    for chosen in itertools.product(*per_axis):
        indices, inside, weights = zip(*chosen, strict=True)
        value = source[indices]
        if mode == "constant":
            value = pnp.where(functools.reduce(pnp.logical_and, inside), value, fill)
        terms.append(functools.reduce(lambda x, y: x * y, weights) * value if order else value)
    total = functools.reduce(lambda x, y: x + y, terms)
    if dtypes.is_integer(source.dtype):
        total = _round_half_away(total)
    return total.astype(source.dtype)
