# SPDX-License-Identifier: Apache-2.0
"""Reductions over segments of the leading axis.

Results have the dtype of the data, and one row for each segment.

Parameters
----------
data, segment_ids, num_segments, indices_are_sorted, unique_indices, bucket_size, mode, out_sharding
    See `segment_sum`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from purax import dtypes, errors
from purax.core.hooks import hooks
from purax.core.trace import Tracer, aval_of
from purax.numpy.creation import placed
from purax.primitives import bounds, shape
from purax.primitives.indexing import ScatterDimensionNumbers, scatter_add, scatter_max, scatter_min, scatter_mul
from purax.primitives.resharding import free, is_explicit, out_sharded, reshard_to, summed_later

__all__ = ["segment_max", "segment_min", "segment_prod", "segment_sum"]


class _Kind(NamedTuple):
    """One reduction: its scatter, what an empty segment holds, and how results of parts are joined (NumPy's name)."""

    name: str
    scatter: Callable[..., Any]
    identity: Callable[[Any], Any]
    join: str


def _lowest(dtype: Any) -> Any:
    if dtype.kind == "b":
        return False
    return -np.inf if dtypes.issubdtype(dtype, np.inexact) else np.iinfo(dtype).min


def _highest(dtype: Any) -> Any:
    if dtype.kind == "b":
        return True
    return np.inf if dtypes.issubdtype(dtype, np.inexact) else np.iinfo(dtype).max


_SUM = _Kind("segment_sum", scatter_add, lambda dtype: np.zeros((), dtype)[()], "sum")
_PROD = _Kind("segment_prod", scatter_mul, lambda dtype: np.ones((), dtype)[()], "prod")
_MAX = _Kind("segment_max", scatter_max, _lowest, "max")
_MIN = _Kind("segment_min", scatter_min, _highest, "min")


def _parts(x: Any) -> tuple[Any, ...] | None:
    return None if x.aval.spread is None else x.aval.spread.parts


def _reduce(
    kind: _Kind, data: Any, segment_ids: Any, num_segments: Any, indices_are_sorted: bool, unique_indices: bool,
    bucket_size: Any, mode: Any, out_sharding: Any,
) -> Any:  # fmt: skip
    pnp, name = hooks.numpy, kind.name
    if out_sharding is not None and is_explicit(out_sharding):
        options = (num_segments, indices_are_sorted, unique_indices, bucket_size, mode, None)
        if kind is not _SUM and getattr(out_sharding, "spec", out_sharding).unreduced:
            raise errors.UnreducedError(
                f"{name}: out_sharding={out_sharding} asks for terms of a sum, and this is no sum; leave `unreduced` out"
            )
        return out_sharded(functools.partial(_reduce, kind), out_sharding, data, segment_ids, *options)
    data, ids = pnp.asarray(data), pnp.asarray(segment_ids)
    if not dtypes.issubdtype(ids.dtype, np.integer):
        raise TypeError(f"{name}: segment_ids must be integers, got dtype {ids.dtype}")
    if data.shape[: ids.ndim] != ids.shape:
        raise errors.ShapeError(
            f"{name}: each row of the data has a segment id, but the data have shape {data.shape} and segment_ids {ids.shape}"
        )
    if num_segments is None:
        if isinstance(ids, Tracer) and ids.concrete() is None:
            raise ValueError(
                f"{name}: num_segments must be given when segment_ids are traced; their largest value is not known"
            )
        num_segments = int(np.max(np.asarray(ids), initial=-1)) + 1
    num_segments = int(num_segments)
    if num_segments < 0:
        raise ValueError(f"{name}: num_segments must be non-negative, got {num_segments}")
    if mode is None:  # ids are labels: those of no segment are left out, wherever they lie
        bounds.check_device(ids, 0, num_segments, wrap=False, fix='say mode="drop" if rows outside shall be left out.')
    numbers = ScatterDimensionNumbers(
        update_window_dims=tuple(range(ids.ndim, data.ndim)),
        inserted_window_dims=(0,),
        scatter_dims_to_operand_dims=(0,),
    )
    start = shape.full((num_segments, *data.shape[ids.ndim :]), kind.identity(data.dtype), data.dtype)

    later = summed_later.get() if kind is _SUM else frozenset()
    spread = data.aval.spread
    if later and spread is not None and spread.parts[: ids.ndim] == _parts(ids) and not spread.unreduced:
        terms = later.intersection(name for part in spread.parts[: ids.ndim] for name in part)
        if terms:
            to = spread.replace([(), *spread.parts[ids.ndim :]], unreduced=terms)
            options = (num_segments, indices_are_sorted, unique_indices, None, mode, None)
            return reshard_to(_reduce(kind, free(data), free(ids), *options), to)

    def reduce(rows: Any, places: Any) -> Any:
        return kind.scatter(
            start, shape.reshape(places, (*aval_of(places).shape, 1)), rows, numbers,
            indices_are_sorted=indices_are_sorted, unique_indices=unique_indices, mode=mode or "drop",
        )  # fmt: skip

    if bucket_size is None or data.shape[0] <= bucket_size:
        return placed(reduce(data, ids), out_sharding)
    buckets = [slice(i, i + bucket_size) for i in range(0, data.shape[0], bucket_size)]
    parts = pnp.stack([reduce(data[bucket], ids[bucket]) for bucket in buckets])
    return placed(getattr(pnp, kind.join)(parts, axis=0), out_sharding)


def segment_sum(
    data: Any, segment_ids: Any, num_segments: int | None = None, indices_are_sorted: bool = False, unique_indices: bool = False,
    bucket_size: int | None = None, mode: Any = None, out_sharding: Any = None,
) -> Any:  # fmt: skip
    """Sum of the rows of `data` with equal segment id.

    Parameters
    ----------
    data : array [n, ...]
    segment_ids : integer array [n]
        Rows whose id is outside `[0, num_segments)` belong to no segment and are left out, unless `mode` says otherwise; with
        `debug_bounds` they raise.
    num_segments : int, optional
        Needed under `jit`; by default one more than the largest id.
    indices_are_sorted, unique_indices : bool
        Promises that may make it faster.
    bucket_size : int, optional
        Rows are reduced in buckets of so many, whose results are joined: sums of many rows lose fewer digits.
    mode : "drop", "clip" or "promise_in_bounds", optional
    out_sharding : Sharding, optional

    Returns
    -------
    array [num_segments, ...]

    Raises
    ------
    IndexOutOfBoundsError
        An id is outside, no mode is given, and `debug_bounds` is on.
    TypeError
        Ids are not integers.
    ValueError
        `num_segments` is negative, or missing while tracing.

    Examples
    --------
    >>> purax.ops.segment_sum(pnp.array([1, 2, 3]), pnp.array([0, 1, 0]), 2).tolist()
    [4, 2]
    """
    return _reduce(
        _SUM, data, segment_ids, num_segments, indices_are_sorted, unique_indices, bucket_size, mode, out_sharding
    )


def segment_prod(
    data: Any, segment_ids: Any, num_segments: int | None = None, indices_are_sorted: bool = False, unique_indices: bool = False,
    bucket_size: int | None = None, mode: Any = None, out_sharding: Any = None,
) -> Any:  # fmt: skip
    """Product of the rows of `data` with equal segment id; see `segment_sum`."""
    return _reduce(
        _PROD, data, segment_ids, num_segments, indices_are_sorted, unique_indices, bucket_size, mode, out_sharding
    )


def segment_max(
    data: Any, segment_ids: Any, num_segments: int | None = None, indices_are_sorted: bool = False, unique_indices: bool = False,
    bucket_size: int | None = None, mode: Any = None, out_sharding: Any = None,
) -> Any:  # fmt: skip
    """Largest of the rows of `data` with equal segment id (the lowest value where there is none); see `segment_sum`."""
    return _reduce(
        _MAX, data, segment_ids, num_segments, indices_are_sorted, unique_indices, bucket_size, mode, out_sharding
    )


def segment_min(
    data: Any, segment_ids: Any, num_segments: int | None = None, indices_are_sorted: bool = False, unique_indices: bool = False,
    bucket_size: int | None = None, mode: Any = None, out_sharding: Any = None,
) -> Any:  # fmt: skip
    """Smallest of the rows of `data` with equal segment id (the highest value where there is none); see `segment_sum`."""
    return _reduce(
        _MIN, data, segment_ids, num_segments, indices_are_sorted, unique_indices, bucket_size, mode, out_sharding
    )
