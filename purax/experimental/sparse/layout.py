# SPDX-License-Identifier: Apache-2.0
"""Helpers for arrays of coordinates: `indices` [nse, n_sparse], one row per stored element; coordinates out of bounds are padding.

Coordinates that the user gives may count from the end; `counted` makes them count from the start. The other helpers want these.

Parameters
----------
indices : int[nse, n_sparse]
sizes : sequence of int
    Of the sparse axes.
dtype : integer dtype
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from purax import dtypes, errors
from purax import numpy as pnp
from purax.transforms.vmap import vmap

__all__ = [
    "broadcast_to",
    "columns",
    "counted",
    "first_of",
    "grid",
    "in_bounds",
    "keys",
    "over_batch",
    "unravel",
    "values_at",
    "zeroed",
]


def over_batch(fun: Callable[..., Any], batch: Sequence[int], *arrays: Any) -> Any:
    """Map a function of arrays over leading axes of shape `batch`; an axis of an array may have size 1 instead.

    Parameters
    ----------
    fun : callable
        Of arrays without the leading axes.
    batch : sequence of int
    arrays : arrays

    Returns
    -------
    array or tuple of arrays
    """
    batch = tuple(batch)
    if not batch:
        return fun(*arrays)
    n, many = len(batch), math.prod(batch)
    flat = [broadcast_to(x, (*batch, *x.shape[n:])).reshape(many, *x.shape[n:]) for x in arrays]
    outs = vmap(fun)(*flat)
    if isinstance(outs, tuple):
        return tuple([x.reshape(*batch, *x.shape[1:]) for x in outs])
    return outs.reshape(*batch, *outs.shape[1:])


def broadcast_to(x: Any, shape: Sequence[int]) -> Any:
    """`x` with axes of size 1 repeated until its shape is `shape`."""
    shape = tuple(shape)
    return x if x.shape == shape else pnp.broadcast_to(x, shape)


def counted(indices: Any, sizes: Sequence[int]) -> Any:
    """Coordinates counted from the start where they count from the end, as in NumPy; before the first place is out of bounds.

    Returns
    -------
    int[..., nse, n_sparse]
        In the dtype of `indices`, if that counts to the sizes.
    """
    if not len(sizes) or dtypes.issubdtype(indices.dtype, np.unsignedinteger):
        return indices
    if max(sizes) > np.iinfo(indices.dtype).max:
        indices = indices.astype(dtypes.default_int())
    limits = np.asarray(sizes, indices.dtype).reshape(_along(indices))
    return pnp.where(indices >= 0, indices, pnp.where(indices >= -limits, indices + limits, limits))


def in_bounds(indices: Any, sizes: Sequence[int]) -> Any:
    """Which rows of coordinates lie inside of an array of these sizes."""
    if not sizes:
        return pnp.ones(indices.shape[:-1], bool)
    most = np.iinfo(indices.dtype).max
    last = np.asarray([min(n - 1, most) for n in sizes], np.int64)
    if last.min() < 0:  # an axis without places
        return pnp.zeros(indices.shape[:-1], bool)
    return pnp.all((indices >= 0) & (indices <= last.astype(indices.dtype).reshape(_along(indices))), axis=-1)


def _along(indices: Any) -> tuple[int, ...]:
    return (1,) * (indices.ndim - 1) + (-1,)


def zeroed(data: Any, keep: Any) -> Any:
    """`data` where `keep` holds, else zero; `keep` has the leading axes of `data`."""
    keep = keep.reshape(keep.shape + (1,) * (data.ndim - keep.ndim))
    return pnp.where(keep, data, pnp.zeros((), data.dtype))


def columns(indices: Any) -> tuple[Any, ...]:
    """The coordinates, one array per axis."""
    return tuple([indices[..., i] for i in range(indices.shape[-1])])


def grid(sizes: Sequence[int], dtype: Any, behind: int = 0) -> tuple[Any, ...]:
    """For each axis an array of `dtype` that counts along it and has size 1 along the others, and along `behind` more."""
    count = len(sizes) + behind
    return tuple(
        [pnp.arange(n, dtype=dtype).reshape([n if j == i else 1 for j in range(count)]) for i, n in enumerate(sizes)]
    )


def keys(indices: Any, sizes: Sequence[int]) -> Any:
    """One integer per row of coordinates, in the order of the rows; the number of elements for rows that are out of bounds.

    Raises
    ------
    ShapeError
        An array of these sizes has more elements than the integers count.
    """
    total = math.prod(sizes)
    dtype = dtypes.default_int()
    if total > np.iinfo(dtype).max:
        raise errors.ShapeError(
            errors.explain(
                f"a sparse array of sparse shape {tuple(sizes)} has {total} places, more than {dtype} counts.",
                "sorting and merging of stored elements number the places.",
                "Set enable_x64, or make some of the axes batch axes.",
            )
        )
    key = pnp.zeros(indices.shape[:-1], dtype)
    for column, size in zip(columns(indices), sizes, strict=True):
        key = key * size + column.astype(dtype)
    return pnp.where(in_bounds(indices, sizes), key, np.asarray(total, dtype))


def unravel(key: Any, sizes: Sequence[int], dtype: Any) -> Any:
    """Rows of coordinates, `dtype`, of the integers `key`; those out of bounds become `sizes`."""
    total = math.prod(sizes)
    if not sizes:
        return pnp.zeros((*key.shape, 0), dtype)
    rest, out = key, []
    for size in reversed(sizes):
        out.append(rest % max(size, 1))
        rest = rest // max(size, 1)
    outside = key >= total
    found = [pnp.where(outside, np.asarray(n, key.dtype), c) for n, c in zip(sizes, reversed(out), strict=True)]
    return pnp.stack(found, axis=-1).astype(dtype)


def values_at(indices: Any, arr: Any, sizes: Sequence[int], unique: bool) -> Any:
    """Values of `arr`, in its dtype, at rows of coordinates; unless `unique`, zero for all but the first of equal rows."""
    if sizes:
        data = arr.at[columns(indices)].get(mode="fill", fill_value=0)
    else:
        data = broadcast_to(arr[None], (indices.shape[0], *arr.shape))
    return data if unique else zeroed(data, first_of(keys(indices, sizes)))


def first_of(key: Any) -> Any:
    """Which entries are the first of their value."""
    order = pnp.argsort(key, stable=True)
    ordered = key[order]
    first = pnp.concatenate([pnp.ones(min(key.size, 1), bool), ordered[1:] != ordered[:-1]])
    return pnp.zeros(key.shape, bool).at[order].set(first)
