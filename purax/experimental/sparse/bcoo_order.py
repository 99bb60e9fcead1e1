# SPDX-License-Identifier: Apache-2.0
"""Order and number of the stored elements: sorting, merging, extraction from dense arrays, change of layout.

Functions take a `BCOO`, here called `mat`, and make new ones by `mat.make`.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from purax import errors
from purax import numpy as pnp
from purax.core.trace import Tracer
from purax.experimental.sparse.base import SparseEfficiencyError, SparseEfficiencyWarning
from purax.experimental.sparse.layout import (
    broadcast_to,
    columns,
    in_bounds,
    keys,
    over_batch,
    unravel,
    values_at,
    zeroed,
)

__all__ = ["bcoo_extract", "bcoo_sort_indices", "bcoo_sum_duplicates", "bcoo_update_layout"]


def bcoo_sort_indices(mat: Any) -> Any:
    """Sort the stored elements by their coordinates, row by row.

    Parameters
    ----------
    mat : BCOO

    Returns
    -------
    BCOO
        Equal to `mat`, with `indices_sorted`.
    """
    own, coordinates = mat.indices.shape[: mat.n_batch], mat.coordinates()
    order = over_batch(
        lambda i: pnp.lexsort(columns(i)[::-1]) if i.shape[-1] else pnp.arange(i.shape[0]), own, coordinates
    )
    batch = mat.shape[: mat.n_batch]
    indices = over_batch(lambda i, o: i[o], own, coordinates, order)
    data = over_batch(lambda d, o: d[o], batch, mat.data, order)
    return mat.make((data, indices), mat.shape, indices_sorted=True, unique_indices=mat.unique_indices)


def bcoo_sum_duplicates(mat: Any, nse: int | None = None, remove_zeros: bool = True) -> Any:
    """Merge stored elements of equal coordinates.

    Parameters
    ----------
    mat : BCOO
    nse : int, optional
        Number of elements to store; those beyond it are dropped. Found from the values if left out, which needs concrete ones.
    remove_zeros : bool
        Drop elements that are zero.

    Returns
    -------
    BCOO
        Equal to `mat`, with `unique_indices` and `indices_sorted`.

    Raises
    ------
    ConcretizationTypeError
        `nse` is left out under a transformation that does not know the values.
    """
    sizes, batch = mat.sparse_shape, mat.shape[: mat.n_batch]
    total = math.prod(sizes)

    def key(data: Any, indices: Any) -> Any:
        found = keys(indices, sizes)
        if not remove_zeros:
            return found
        stored = (data != 0).any(axis=tuple(range(1, data.ndim)))
        return pnp.where(stored, found, np.asarray(total, found.dtype))

    key_of = over_batch(key, batch, mat.data, mat.coordinates())
    if nse is None:
        nse = _count_distinct(key_of, total)
    count = int(nse)

    def merge(data: Any, key: Any) -> tuple[Any, Any]:
        order = pnp.argsort(key)
        data, key = data[order], key[order]
        first = pnp.concatenate([pnp.ones(min(key.size, 1), bool), key[1:] != key[:-1]])
        slot = pnp.cumsum(first) - 1
        data = zeroed(data, key < total)
        merged = pnp.zeros((count, *data.shape[1:]), data.dtype).at[slot].add(data, mode="drop")
        return merged, pnp.full(count, total, key.dtype).at[slot].set(key, mode="drop")

    data, key_of = over_batch(merge, batch, mat.data, key_of)
    indices = unravel(key_of, sizes, mat.indices.dtype)
    return mat.make((data, indices), mat.shape, indices_sorted=True, unique_indices=True)


def _count_distinct(key: Any, total: int) -> int:
    """The most places that one batch holds."""
    if isinstance(key, Tracer):
        known = key.concrete()
        if known is None:
            raise errors.ConcretizationTypeError(
                errors.explain(
                    "bcoo_sum_duplicates: the number of distinct indices is not known while it is traced.",
                    "The shape of the result depends on it.",
                    "Give nse=, an upper bound.",
                )
            )
        key = known
    rows = np.asarray(key).reshape(math.prod(key.shape[:-1]), key.shape[-1])
    return max((np.unique(row[row < total]).size for row in rows), default=0)


def bcoo_extract(mat: Any, arr: Any, *, assume_unique: bool | None = None) -> Any:
    """Values of a dense array at the coordinates of a sparse one.

    Parameters
    ----------
    mat : BCOO
        Its data are not looked at.
    arr : array
        Of the shape of `mat`.
    assume_unique : bool, optional
        Extract a value for each stored element; if False, only for the first of those with equal coordinates, and zero for the
        others, so that the sum is right. By default what `mat.unique_indices` says.

    Returns
    -------
    BCOO

    Raises
    ------
    ShapeError
        Shapes that differ.
    """
    arr = pnp.asarray(arr)
    if arr.shape != mat.shape:
        raise errors.ShapeError(
            errors.explain(
                f"bcoo_extract: the array has shape {arr.shape}, but the sparse array has shape {mat.shape}."
            )
        )
    unique = mat.unique_indices if assume_unique is None else assume_unique
    batch, sizes = mat.shape[: mat.n_batch], mat.sparse_shape
    data = over_batch(lambda i, a: values_at(i, a, sizes, unique), batch, mat.coordinates(), arr)
    return mat.make(
        (data, mat.indices), mat.shape, indices_sorted=mat.indices_sorted, unique_indices=mat.unique_indices
    )


def bcoo_update_layout(
    mat: Any, *, n_batch: int | None = None, n_dense: int | None = None, on_inefficient: str | None = "error"
) -> Any:
    """The same array with other numbers of batch and dense axes.

    Parameters
    ----------
    mat : BCOO
    n_batch, n_dense : int, optional
        As in `mat` if left out.
    on_inefficient : {"error", "warn", None}
        What to do where the result stores more elements than `mat`: more batch or dense axes.

    Returns
    -------
    BCOO

    Raises
    ------
    SparseEfficiencyError
        The layout is inefficient.
    ValueError
        There are not as many axes.
    """
    batch = mat.n_batch if n_batch is None else n_batch
    dense = mat.n_dense if n_dense is None else n_dense
    if batch < 0 or dense < 0 or batch + dense > mat.ndim:
        raise ValueError(
            f"bcoo_update_layout: an array with {mat.ndim} axes cannot have {batch} batch and {dense} dense axes"
        )
    if on_inefficient not in {"error", "warn", None}:
        raise ValueError(f"bcoo_update_layout: on_inefficient must be 'error', 'warn' or None, got {on_inefficient!r}")
    if batch > mat.n_batch or dense > mat.n_dense:
        text = f"a layout with n_batch={batch}, n_dense={dense} stores more elements than {mat!r}"
        if on_inefficient == "error":
            raise SparseEfficiencyError(errors.explain(text, "", "on_inefficient=None, if it is what you want."))
        if on_inefficient == "warn":
            warnings.warn(text, SparseEfficiencyWarning, stacklevel=2)
    # what becomes less goes first, by way of being sparse
    while mat.n_batch > batch:
        mat = _batch_to_sparse(mat)
    while mat.n_dense > dense:
        mat = _dense_to_sparse(mat)
    while mat.n_batch < batch:
        mat = _sparse_to_batch(mat)
    while mat.n_dense < dense:
        mat = _sparse_to_dense(mat)
    return mat


def _batch_to_sparse(mat: Any) -> Any:
    """The last batch axis as the first sparse one."""
    outer, size = mat.shape[: mat.n_batch - 1], mat.shape[mat.n_batch - 1]

    def fold(data: Any, indices: Any) -> tuple[Any, Any]:
        count = pnp.arange(size, dtype=indices.dtype).reshape(size, 1, 1)
        indices = pnp.concatenate([broadcast_to(count, (*indices.shape[:-1], 1)), indices], axis=-1)
        return data.reshape(-1, *data.shape[2:]), indices.reshape(-1, indices.shape[-1])

    data, indices = over_batch(fold, outer, *mat.full())
    return mat.make((data, indices), mat.shape, unique_indices=mat.unique_indices, indices_sorted=mat.indices_sorted)


def _dense_to_sparse(mat: Any) -> Any:
    """The first dense axis as the last sparse one."""
    size = mat.dense_shape[0]

    def unfold(data: Any, indices: Any) -> tuple[Any, Any]:
        n = indices.shape[0]
        rows = broadcast_to(indices[:, None], (n, size, indices.shape[-1]))
        count = broadcast_to(pnp.arange(size, dtype=indices.dtype).reshape(1, size, 1), (n, size, 1))
        indices = pnp.concatenate([rows, count], axis=-1).reshape(n * size, -1)
        return data.reshape(n * size, *data.shape[2:]), indices

    data, indices = over_batch(unfold, mat.shape[: mat.n_batch], *mat.full())
    return mat.make((data, indices), mat.shape, unique_indices=mat.unique_indices, indices_sorted=mat.indices_sorted)


def _sparse_to_batch(mat: Any) -> Any:
    """The first sparse axis as the last batch one: each element is stored once per place along it."""
    size, rest = mat.sparse_shape[0], mat.sparse_shape[1:]

    def spread(data: Any, indices: Any) -> tuple[Any, Any]:
        here = indices[None, :, 0] == pnp.arange(size, dtype=indices.dtype)[:, None]
        data = zeroed(broadcast_to(data[None], (size, *data.shape)), here)
        outside = np.asarray(rest, indices.dtype).reshape(1, 1, -1)
        return data, pnp.where(here[:, :, None], indices[None, :, 1:], outside)

    data, indices = over_batch(spread, mat.shape[: mat.n_batch], *mat.full())
    if not rest:  # nothing says any more which of the elements are padding
        data, indices = data.sum(axis=mat.n_batch + 1, keepdims=True, dtype=data.dtype), indices[..., :1, :]
    return mat.make((data, indices), mat.shape, unique_indices=mat.unique_indices and bool(rest))


def _sparse_to_dense(mat: Any) -> Any:
    """The last sparse axis as the first dense one: each element becomes a row of zeros with one value."""
    size, sizes = mat.sparse_shape[-1], mat.sparse_shape[:-1]

    def spread(data: Any, indices: Any) -> tuple[Any, Any]:
        here = indices[:, -1:] == pnp.arange(size, dtype=indices.dtype)[None]
        data = zeroed(broadcast_to(data[:, None], (data.shape[0], size, *data.shape[1:])), here)
        keep = in_bounds(indices[:, -1:], (size,))[:, None]
        return data, pnp.where(keep, indices[:, :-1], np.asarray(sizes, indices.dtype).reshape(1, -1))

    data, indices = over_batch(spread, mat.shape[: mat.n_batch], *mat.full())
    return mat.make((data, indices), mat.shape)
