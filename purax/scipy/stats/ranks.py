# SPDX-License-Identifier: Apache-2.0
"""Statistics by sorting: the most frequent value, ranks; and the standard error of the mean.

Results have the shape of the operand without the axis, or with size 1 there if `keepdims`; ranks have its shape.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from purax import dtypes
from purax import numpy as pnp
from purax.numpy.promotion import check_arraylike, promote_dtypes_inexact
from purax.primitives.cumulative import cummax

__all__ = ["mode", "rankdata", "sem"]


class ModeResult(NamedTuple):
    """Result of `mode`."""

    mode: Any
    count: Any


def _operand(name: str, a: Any, axis: int | None, nan_policy: str, policies: tuple[str, ...]) -> tuple[Any, int]:
    """The checked array, flat without axis, and the axis."""
    check_arraylike(name, a)
    if nan_policy not in policies:
        raise ValueError(f"Illegal nan_policy value {nan_policy!r}; expected one of {set(policies)}")
    a = pnp.asarray(a)
    if axis is None or a.ndim == 0:
        a, axis = pnp.ravel(a), 0
    return a, axis % a.ndim if -a.ndim <= axis < a.ndim else axis


def _starts(rows: Any) -> Any:
    """Where a run of equal values begins, along the last axis of sorted rows."""
    first = pnp.ones_like(rows[..., :1], dtype=bool)
    return pnp.concatenate([first, rows[..., 1:] != rows[..., :-1]], axis=-1)


def mode(a: Any, axis: int | None = 0, nan_policy: str = "propagate", keepdims: bool = False) -> ModeResult:
    """The most frequent value (the smallest of several) and how often it occurs.

    Parameters
    ----------
    a : real[...]
    axis : int or None
        None: of all elements.
    nan_policy : "propagate" or "omit"
        NaNs equal nothing, not even each other.
    keepdims : bool

    Returns
    -------
    ModeResult(mode, count)
    """
    shape = pnp.shape(a)
    a, place = _operand("mode", a, axis, nan_policy, ("propagate", "omit"))
    if a.size == 0:
        sizes = [n for i, n in enumerate(a.shape) if i != place]
        empty = pnp.full(sizes, np.nan, dtypes.to_inexact(a.dtype))
        found, count = empty, pnp.zeros_like(empty)
    else:
        rows = pnp.sort(pnp.moveaxis(a, place, -1), axis=-1)
        index = pnp.broadcast_to(pnp.arange(rows.shape[-1]), rows.shape)
        lengths = index - cummax(pnp.where(_starts(rows), index, 0), axis=rows.ndim - 1) + 1
        best = pnp.argmax(lengths, axis=-1, keepdims=True)
        found = pnp.take_along_axis(rows, best, axis=-1)[..., 0]
        count = pnp.take_along_axis(lengths, best, axis=-1)[..., 0]
    if keepdims:
        sizes = [1] * len(shape) if axis is None else [1 if i == place else n for i, n in enumerate(shape)]
        found, count = pnp.reshape(found, sizes), pnp.reshape(count, sizes)
    return ModeResult(found, count)


def _ranks(rows: Any, method: str) -> Any:
    """Ranks along the last axis."""
    n = rows.shape[-1]
    order = pnp.argsort(rows, axis=-1)
    back = pnp.argsort(order, axis=-1)
    if method == "ordinal":
        return back + 1
    starts = _starts(pnp.take_along_axis(rows, order, axis=-1))
    if method == "dense":
        return pnp.take_along_axis(pnp.cumsum(starts, axis=-1), back, axis=-1)
    index = pnp.broadcast_to(pnp.arange(n), rows.shape)
    lowest = cummax(pnp.where(starts, index, 0), axis=rows.ndim - 1) + 1
    ends = pnp.concatenate([starts[..., 1:], pnp.ones_like(starts[..., :1])], axis=-1)
    later = cummax(pnp.where(pnp.flip(ends, -1), index, 0), axis=rows.ndim - 1)
    highest = pnp.flip(n - later, -1)
    ranks = {"min": lowest, "max": highest, "average": (lowest + highest) / 2}[method]
    return pnp.take_along_axis(ranks, back, axis=-1)


def rankdata(a: Any, method: str = "average", *, axis: int | None = None, nan_policy: str = "propagate") -> Any:
    """Ranks of the elements, from 1 on.

    Parameters
    ----------
    a : real[...]
    method : "average", "min", "max", "dense" or "ordinal"
        What equal elements get: the mean, lowest or highest of their ranks, numbers without gaps, ranks in order of place.
    axis : int, optional
        None: ranks of all elements, flat.
    nan_policy : "propagate"
        Rows with NaN have NaN for ranks.

    Returns
    -------
    float[...]

    Raises
    ------
    ValueError
        An unknown method or nan_policy.
    """
    if method not in ("average", "min", "max", "dense", "ordinal"):
        raise ValueError(f"unknown method '{method}'")
    a, place = _operand("rankdata", a, axis, nan_policy, ("propagate",))
    dtype = dtypes.default_float()
    if a.size == 0:
        return pnp.zeros(a.shape, dtype)
    rows = pnp.moveaxis(a, place, -1)
    ranks = _ranks(rows, method).astype(dtype)
    if not dtypes.is_integer(a.dtype):
        ranks = pnp.where(pnp.any(pnp.isnan(rows), axis=-1, keepdims=True), np.nan, ranks)
    return pnp.moveaxis(ranks, -1, place)


def sem(a: Any, axis: int | None = 0, ddof: int = 1, nan_policy: str = "propagate", *, keepdims: bool = False) -> Any:
    """Standard error of the mean: the standard deviation over the root of the number of elements.

    Parameters
    ----------
    a : real[...]
    axis : int or None
    ddof : int
        What is taken off the number of elements in the variance.
    nan_policy : "propagate" or "omit"
    keepdims : bool

    Returns
    -------
    float array of the inexact dtype of `a`

    Raises
    ------
    ValueError
        An unknown nan_policy.
    """
    check_arraylike("sem", a)
    if nan_policy not in ("propagate", "omit"):
        raise ValueError(f"{nan_policy!r} is not supported, expected one of {{'propagate', 'omit'}}")
    (a,) = promote_dtypes_inexact(a)
    if nan_policy == "propagate":
        size = a.size if axis is None else a.shape[axis]
        return pnp.std(a, axis, ddof=ddof, keepdims=keepdims) / np.sqrt(size).astype(a.dtype)
    count = pnp.sum(~pnp.isnan(a), axis, keepdims=keepdims)
    return pnp.nanstd(a, axis, ddof=ddof, keepdims=keepdims) / pnp.sqrt(count.astype(a.dtype))
