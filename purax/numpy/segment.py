# SPDX-License-Identifier: Apache-2.0
"""Reductions over segments of the leading axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from purax import dtypes
from purax.core.hooks import hooks
from purax.core.trace import Tracer, aval_of
from purax.primitives import shape
from purax.primitives.indexing import ScatterDimensionNumbers, scatter_add, scatter_max, scatter_min, scatter_mul

__all__ = ["segment_max", "segment_min", "segment_prod", "segment_sum"]


def _reduce(
    name: str, scatter: Any, identity: Any, data: Any, segment_ids: Any, num_segments: Any, sorted_ids: bool, unique: bool,
    bucket_size: Any, mode: Any,
) -> Any:  # fmt: skip
    pnp = hooks.numpy
    data, ids = pnp.asarray(data), pnp.asarray(segment_ids)
    if not dtypes.issubdtype(ids.dtype, np.integer):
        raise TypeError(f"{name}: segment_ids must be integers, got dtype {ids.dtype}")
    if num_segments is None:
        if isinstance(ids, Tracer) and ids.concrete() is None:
            raise ValueError(
                f"{name}: num_segments must be given when segment_ids are traced; their largest value is not known"
            )
        num_segments = int(np.max(np.asarray(ids), initial=-1)) + 1
    num_segments = int(num_segments)
    if num_segments < 0:
        raise ValueError(f"{name}: num_segments must be non-negative, got {num_segments}")
    if bucket_size is not None and data.shape[0] > bucket_size:
        parts = [
            _reduce(
                name,
                scatter,
                identity,
                data[i : i + bucket_size],
                ids[i : i + bucket_size],
                num_segments,
                sorted_ids,
                unique,
                None,
                mode,
            )
            for i in range(0, data.shape[0], bucket_size)
        ]
        combine = {"segment_sum": pnp.sum, "segment_prod": pnp.prod, "segment_max": pnp.max, "segment_min": pnp.min}[
            name
        ]
        return combine(pnp.stack(parts), axis=0)
    window = data.ndim - ids.ndim
    start = shape.full((num_segments, *data.shape[ids.ndim :]), identity(data.dtype), data.dtype)
    numbers = ScatterDimensionNumbers(
        update_window_dims=tuple(range(ids.ndim, ids.ndim + window)),
        inserted_window_dims=(0,),
        scatter_dims_to_operand_dims=(0,),
    )
    indices = shape.reshape(ids, (*aval_of(ids).shape, 1))
    return scatter(
        start, indices, data, numbers, indices_are_sorted=sorted_ids, unique_indices=unique, mode=mode or "drop"
    )


def _lowest(dtype: Any) -> Any:
    if dtype.kind == "b":
        return False
    return -np.inf if dtypes.issubdtype(dtype, np.inexact) else np.iinfo(dtype).min


def _highest(dtype: Any) -> Any:
    if dtype.kind == "b":
        return True
    return np.inf if dtypes.issubdtype(dtype, np.inexact) else np.iinfo(dtype).max


def segment_sum(
    data: Any, segment_ids: Any, num_segments: int | None = None, indices_are_sorted: bool = False, unique_indices: bool = False,
    bucket_size: int | None = None, mode: Any = None,
) -> Any:  # fmt: skip
    """Sum of the rows of `data` with equal segment id.

    Parameters
    ----------
    data : array [n, ...]
    segment_ids : integer array [n]
        Ids outside `[0, num_segments)` are dropped, unless `mode` says otherwise.
    num_segments : int, optional
        Needed under `jit`; by default one more than the largest id.

    Returns
    -------
    array [num_segments, ...]
    """
    return _reduce(
        "segment_sum",
        scatter_add,
        lambda d: np.zeros((), d)[()],
        data,
        segment_ids,
        num_segments,
        indices_are_sorted,
        unique_indices,
        bucket_size,
        mode,
    )


def segment_prod(
    data: Any, segment_ids: Any, num_segments: int | None = None, indices_are_sorted: bool = False, unique_indices: bool = False,
    bucket_size: int | None = None, mode: Any = None,
) -> Any:  # fmt: skip
    """Product of the rows of `data` with equal segment id; see `segment_sum`."""
    return _reduce(
        "segment_prod",
        scatter_mul,
        lambda d: np.ones((), d)[()],
        data,
        segment_ids,
        num_segments,
        indices_are_sorted,
        unique_indices,
        bucket_size,
        mode,
    )


def segment_max(
    data: Any, segment_ids: Any, num_segments: int | None = None, indices_are_sorted: bool = False, unique_indices: bool = False,
    bucket_size: int | None = None, mode: Any = None,
) -> Any:  # fmt: skip
    """Largest of the rows of `data` with equal segment id (the lowest value where there is none); see `segment_sum`."""
    return _reduce(
        "segment_max",
        scatter_max,
        _lowest,
        data,
        segment_ids,
        num_segments,
        indices_are_sorted,
        unique_indices,
        bucket_size,
        mode,
    )


def segment_min(
    data: Any, segment_ids: Any, num_segments: int | None = None, indices_are_sorted: bool = False, unique_indices: bool = False,
    bucket_size: int | None = None, mode: Any = None,
) -> Any:  # fmt: skip
    """Smallest of the rows of `data` with equal segment id (the highest value where there is none); see `segment_sum`."""
    return _reduce(
        "segment_min",
        scatter_min,
        _highest,
        data,
        segment_ids,
        num_segments,
        indices_are_sorted,
        unique_indices,
        bucket_size,
        mode,
    )
