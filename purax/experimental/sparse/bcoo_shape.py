# SPDX-License-Identifier: Apache-2.0
"""Shapes of `BCOO` arrays: transposition, slices, reshapes, joining, indexing, sums over axes.

Functions take a `BCOO`, here called `mat`, and make new ones by `mat.make`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from purax import errors
from purax import numpy as pnp
from purax.core.trace import aval_of
from purax.experimental.sparse.bcoo_order import bcoo_sum_duplicates, bcoo_update_layout
from purax.experimental.sparse.bcoo_product import bcoo_dot_general
from purax.experimental.sparse.layout import broadcast_to, in_bounds, keys, over_batch, unravel, zeroed

__all__ = [
    "bcoo_broadcast_in_dim", "bcoo_concatenate", "bcoo_dynamic_slice", "bcoo_gather", "bcoo_reduce_sum", "bcoo_reshape", "bcoo_rev",
    "bcoo_slice", "bcoo_squeeze", "bcoo_transpose",
]  # fmt: skip


def _groups(mat: Any, axes: Sequence[int]) -> tuple[list[int], list[int], list[int]]:
    """Batch, sparse and dense ones among axes, each counted from the first of its kind."""
    start, stop = mat.n_batch, mat.n_batch + mat.n_sparse
    axes = [operator.index(a) % max(mat.ndim, 1) for a in axes]
    return (
        [a for a in axes if a < start],
        [a - start for a in axes if start <= a < stop],
        [a - stop for a in axes if a >= stop],
    )


def bcoo_transpose(mat: Any, *, permutation: Sequence[int]) -> Any:
    """Permute the axes of a sparse array.

    Parameters
    ----------
    mat : BCOO
    permutation : sequence of int
        Batch, sparse and dense axes may be permuted among themselves only.

    Returns
    -------
    BCOO

    Raises
    ------
    NotImplementedError
        Axes of different kinds would change places.
    ValueError
        No permutation of the axes.
    """
    permutation = [operator.index(p) for p in permutation]
    if sorted(permutation) != list(range(mat.ndim)):
        raise ValueError(f"bcoo_transpose: {permutation} is no permutation of the {mat.ndim} axes")
    batch, sparse, dense = _groups(mat, permutation)
    expected = [*batch, *[mat.n_batch + a for a in sparse], *[mat.n_batch + mat.n_sparse + a for a in dense]]
    if permutation != expected:
        raise NotImplementedError(
            f"bcoo_transpose: permutation {permutation} mixes the batch, sparse and dense axes of {mat!r}; change update_layout first"
        )
    n = mat.n_batch
    data = mat.data.transpose(*batch, n, *[n + 1 + a for a in dense])
    indices = mat.indices.transpose(*batch, n, n + 1)
    if sparse != list(range(mat.n_sparse)):
        indices = indices[..., np.asarray(sparse, int)]
    kept = sparse == list(range(mat.n_sparse))
    shape = tuple(mat.shape[p] for p in permutation)
    return mat.make(
        (data, indices), shape, indices_sorted=mat.indices_sorted and kept, unique_indices=mat.unique_indices
    )


def bcoo_slice(
    mat: Any, *, start_indices: Sequence[int], limit_indices: Sequence[int], strides: Sequence[int] | None = None
) -> Any:
    """Slice a sparse array along all axes, as `lax.slice` does.

    Parameters
    ----------
    mat : BCOO
    start_indices, limit_indices, strides : sequence of int
        One per axis.

    Returns
    -------
    BCOO
        In the layout of `mat`; never more stored elements than places.

    Raises
    ------
    ValueError
        Not one entry per axis, or a slice that reaches out.
    """
    steps = [1] * mat.ndim if strides is None else [operator.index(s) for s in strides]
    starts, limits = [operator.index(s) for s in start_indices], [operator.index(s) for s in limit_indices]
    if not len(starts) == len(limits) == len(steps) == mat.ndim:
        raise ValueError(f"bcoo_slice: starts, limits and strides need one entry for each of the {mat.ndim} axes")
    if any(not 0 <= a <= b <= n or s < 1 for a, b, s, n in zip(starts, limits, steps, mat.shape, strict=True)):
        raise ValueError(f"bcoo_slice: [{starts}:{limits}:{steps}] does not lie within shape {mat.shape}")
    n, stop = mat.n_batch, mat.n_batch + mat.n_sparse
    shape = tuple(-(-(b - a) // s) for a, b, s in zip(starts, limits, steps, strict=True))
    cuts = [slice(a, b, s) for a, b, s in zip(starts, limits, steps, strict=True)]
    data, indices = mat.full()
    data = data[(*cuts[:n], slice(None), *cuts[stop:])]
    indices = indices[tuple(cuts[:n])]
    return _cut(mat, data, indices, starts[n:stop], steps[n:stop], shape)


def _cut(mat: Any, data: Any, indices: Any, starts: Sequence[Any], steps: Sequence[int], shape: tuple[int, ...]) -> Any:
    """Sparse axes cut to `shape`: elements outside of the cut become padding."""
    sizes = shape[mat.n_batch : mat.n_batch + mat.n_sparse]
    if mat.n_sparse:
        moved = indices - pnp.stack([pnp.asarray(s, indices.dtype) for s in starts]).reshape(
            (1,) * (indices.ndim - 1) + (-1,)
        )
        step = np.asarray(steps, indices.dtype).reshape((1,) * (indices.ndim - 1) + (-1,))
        keep = in_bounds(indices, mat.sparse_shape) & pnp.all(moved % step == 0, axis=-1)
        moved = moved // step
        keep = keep & in_bounds(moved, sizes)
        outside = np.asarray(sizes, indices.dtype).reshape((1,) * (indices.ndim - 1) + (-1,))
        indices, data = pnp.where(keep[..., None], moved, outside), zeroed(data, keep)
    out = mat.make((data, indices), shape, unique_indices=mat.unique_indices)
    places = math.prod(sizes)
    return bcoo_sum_duplicates(out, nse=places) if out.nse > places else out


def bcoo_dynamic_slice(mat: Any, start_indices: Sequence[Any], slice_sizes: Sequence[int]) -> Any:
    """Slice of static size that begins at values of the program, moved inside where it would reach out, as `lax.dynamic_slice`.

    Parameters
    ----------
    mat : BCOO
    start_indices : sequence of int scalars
    slice_sizes : sequence of int

    Returns
    -------
    BCOO
        In the layout of `mat`; never more stored elements than places.

    Raises
    ------
    ValueError
        Not one entry per axis, or sizes larger than the array.
    """
    sizes = tuple(operator.index(s) for s in slice_sizes)
    if not len(sizes) == len(start_indices) == mat.ndim:
        raise ValueError(f"bcoo_dynamic_slice: starts and sizes need one entry for each of the {mat.ndim} axes")
    if any(not 0 <= s <= n for s, n in zip(sizes, mat.shape, strict=True)):
        raise ValueError(f"bcoo_dynamic_slice: sizes {sizes} do not fit shape {mat.shape}")
    starts = []
    for start, size, extent in zip(start_indices, sizes, mat.shape, strict=True):
        start = pnp.asarray(start, mat.indices.dtype)
        start = pnp.where(start < 0, start + extent, start)
        starts.append(pnp.clip(start, 0, extent - size))
    n, stop = mat.n_batch, mat.n_batch + mat.n_sparse
    data, indices = mat.full()
    for axis in range(n):
        places = starts[axis] + pnp.arange(sizes[axis], dtype=indices.dtype)
        data, indices = pnp.take(data, places, axis, mode="clip"), pnp.take(indices, places, axis, mode="clip")
    for axis in range(stop, mat.ndim):
        places = starts[axis] + pnp.arange(sizes[axis], dtype=indices.dtype)
        data = pnp.take(data, places, axis - mat.n_sparse + 1, mode="clip")
    return _cut(mat, data, indices, starts[n:stop], [1] * mat.n_sparse, sizes)


def bcoo_squeeze(mat: Any, *, dimensions: Sequence[int]) -> Any:
    """Remove axes of size 1.

    Parameters
    ----------
    mat : BCOO
    dimensions : sequence of int

    Returns
    -------
    BCOO

    Raises
    ------
    ValueError
        An axis of another size.
    """
    gone = {operator.index(d) % mat.ndim for d in dimensions}
    if any(mat.shape[d] != 1 for d in gone):
        raise ValueError(f"bcoo_squeeze: axes {sorted(gone)} of shape {mat.shape} are not all of size 1")
    batch, sparse, dense = _groups(mat, sorted(gone))
    data, indices = mat.full()
    if sparse:
        kept = [i for i in range(mat.n_sparse) if i not in sparse]
        data = zeroed(data, in_bounds(indices, mat.sparse_shape))
        indices = indices[..., np.asarray(kept, int)]
    data = data.squeeze(tuple([*batch, *[mat.n_batch + 1 + d for d in dense]]))
    indices = indices.squeeze(tuple(batch))
    shape = tuple(n for i, n in enumerate(mat.shape) if i not in gone)
    return mat.make((data, indices), shape, indices_sorted=mat.indices_sorted, unique_indices=mat.unique_indices)


def bcoo_rev(mat: Any, dimensions: Sequence[int]) -> Any:
    """Reverse the order of the elements along some axes.

    Parameters
    ----------
    mat : BCOO
    dimensions : sequence of int

    Returns
    -------
    BCOO
    """
    batch, sparse, dense = _groups(mat, dimensions)
    data, indices = mat.full()
    data = pnp.flip(data, tuple([*batch, *[mat.n_batch + 1 + d for d in dense]])) if batch or dense else data
    indices = pnp.flip(indices, tuple(batch)) if batch else indices
    for axis in sparse:
        size, column = mat.sparse_shape[axis], indices[..., axis]
        turned = pnp.where((column >= 0) & (column < size), size - 1 - column, size).astype(indices.dtype)
        indices = indices.at[..., axis].set(turned)
    return mat.make((data, indices), mat.shape, unique_indices=mat.unique_indices)


def bcoo_broadcast_in_dim(
    mat: Any, *, shape: Sequence[int], broadcast_dimensions: Sequence[int], sharding: Any = None
) -> Any:
    """Place the axes of a sparse array among those of a larger one and repeat it along the others.

    New axes in front of the first sparse axis are batch axes, those behind the first dense one are dense, and the rest are sparse.

    Parameters
    ----------
    mat : BCOO
    shape : sequence of int
    broadcast_dimensions : sequence of int
        Where each axis goes, in rising order.
    sharding : optional
        Without effect.

    Returns
    -------
    BCOO

    Raises
    ------
    ValueError
        The axes do not fit.
    """
    del sharding
    shape, places = tuple(map(operator.index, shape)), [operator.index(d) for d in broadcast_dimensions]
    fits = len(places) == mat.ndim and places == sorted(set(places)) and all(0 <= p < len(shape) for p in places)
    if not fits or any(n not in {1, shape[p]} for n, p in zip(mat.shape, places, strict=True)):
        raise ValueError(f"bcoo_broadcast_in_dim: shape {mat.shape} does not go to axes {places} of shape {shape}")
    n, s = mat.n_batch, mat.n_sparse
    batch = places[n] if n < mat.ndim else len(shape)
    dense = len(shape) - places[n + s] if n + s < mat.ndim else 0
    if not s and mat.n_dense:  # what stands between batch and dense axes is batch
        batch = len(shape) - dense
    data, indices = mat.full()
    # batch and dense axes: new ones of size 1, then repeated
    for axis in range(batch):
        if axis not in places:
            data, indices = pnp.expand_dims(data, axis), pnp.expand_dims(indices, axis)
    for axis in range(len(shape) - dense, len(shape)):
        if axis not in places:
            data = pnp.expand_dims(data, axis - (len(shape) - dense) + batch + 1)
    data = broadcast_to(data, (*shape[:batch], data.shape[batch], *shape[len(shape) - dense :]))
    indices = broadcast_to(indices, (*shape[:batch], *indices.shape[batch:]))
    outs = over_batch(lambda d, i: _spread(mat, d, i, shape, places, batch, dense), shape[:batch], data, indices)
    return mat.make(outs, shape, unique_indices=mat.unique_indices)


def _spread(mat: Any, data: Any, indices: Any, shape: Any, places: Any, batch: int, dense: int) -> tuple[Any, Any]:
    """Sparse axes: every element is repeated along the axes that are new or had size 1."""
    keep = in_bounds(indices, mat.sparse_shape)
    of = {p: i for i, p in enumerate(places[mat.n_batch : mat.n_batch + mat.n_sparse])}
    axes = range(batch, len(shape) - dense)
    new = [a for a in axes if a not in of or (mat.sparse_shape[of[a]] == 1 and shape[a] != 1)]
    copies = math.prod([shape[a] for a in new])
    nse = indices.shape[0]
    counts = np.indices([shape[a] for a in new]).reshape(len(new), copies)
    rows = []
    for axis in axes:
        column = (
            pnp.asarray(counts[new.index(axis)], indices.dtype)[None] if axis in new else indices[:, of[axis], None]
        )
        column = broadcast_to(column, (nse, copies))
        rows.append(pnp.where(keep[:, None], column, np.asarray(shape[axis], indices.dtype)).reshape(-1))
    data = broadcast_to(zeroed(data, keep)[:, None], (nse, copies, *data.shape[1:])).reshape(-1, *data.shape[1:])
    indices = pnp.stack(rows, axis=-1) if rows else pnp.zeros((nse * copies, 0), indices.dtype)
    return data, indices


def bcoo_concatenate(operands: Sequence[Any], *, dimension: int) -> Any:
    """Join sparse arrays along a batch or a sparse axis.

    Parameters
    ----------
    operands : sequence of BCOO
        Of one layout.
    dimension : int

    Returns
    -------
    BCOO

    Raises
    ------
    NotImplementedError
        The axis is dense.
    ValueError
        Operands of different layouts.
    ShapeError
        Shapes that differ beside the axis.
    """
    first = operands[0]
    axis = operator.index(dimension) % max(first.ndim, 1)
    layout = {(x.n_batch, x.n_sparse, x.n_dense) for x in operands}
    if len(layout) > 1:
        raise ValueError(f"bcoo_concatenate: the operands have different layouts: {list(operands)}; use update_layout")
    others = {tuple(n for i, n in enumerate(x.shape) if i != axis) for x in operands}
    if len(others) > 1:
        raise errors.ShapeError(f"bcoo_concatenate: shapes {[x.shape for x in operands]} differ beside axis {axis}")
    if axis >= first.n_batch + first.n_sparse:
        raise NotImplementedError("bcoo_concatenate: concatenation along dense axes")
    shape = list(first.shape)
    shape[axis] = sum(x.shape[axis] for x in operands)
    full = [x.full() for x in operands]
    n = first.n_batch
    if axis < n:
        nse = max(x.nse for x in operands)
        padded = [_padded(x, d, i, nse) for x, (d, i) in zip(operands, full, strict=True)]
        data, indices = (pnp.concatenate(parts, axis) for parts in zip(*padded, strict=True))
    else:
        starts = np.cumsum([0, *[x.shape[axis] for x in operands]])[:-1]
        moved = []
        for x, (_, i), start in zip(operands, full, starts.tolist(), strict=True):
            outside = pnp.full((), shape[axis], i.dtype)
            column = pnp.where(in_bounds(i, x.sparse_shape), i[..., axis - n] + start, outside)
            moved.append(i.at[..., axis - n].set(column.astype(i.dtype)))
        data, indices = pnp.concatenate([d for d, _ in full], n), pnp.concatenate(moved, n)
    return first.make((data, indices), tuple(shape), unique_indices=all(x.unique_indices for x in operands))


def _padded(mat: Any, data: Any, indices: Any, nse: int) -> tuple[Any, Any]:
    more, n = nse - mat.nse, mat.n_batch
    if not more:
        return data, indices
    outside = np.asarray(mat.sparse_shape, indices.dtype).reshape((1,) * (n + 1) + (-1,))
    padding = broadcast_to(pnp.asarray(outside), (*indices.shape[:n], more, mat.n_sparse))
    zeros = pnp.zeros((*data.shape[:n], more, *data.shape[n + 1 :]), data.dtype)
    return pnp.concatenate([data, zeros], n), pnp.concatenate([indices, padding], n)


def bcoo_reshape(
    mat: Any, *, new_sizes: Sequence[int], dimensions: Sequence[int] | None = None, sharding: Any = None
) -> Any:
    """Reshape batch axes among themselves and sparse axes among themselves.

    Parameters
    ----------
    mat : BCOO
    new_sizes : sequence of int
    dimensions : sequence of int, optional
        Order in which the axes are read.
    sharding : optional
        Without effect.

    Returns
    -------
    BCOO

    Raises
    ------
    ValueError
        Batch and sparse axes would mix.
    NotImplementedError
        Dense axes would change, or batch axes are not stored in full.
    ShapeError
        Another number of elements.
    """
    del sharding
    sizes = tuple(operator.index(s) for s in new_sizes)
    if math.prod(sizes) != mat.size:
        raise errors.ShapeError(f"bcoo_reshape: {mat!r} has {mat.size} elements and does not fit shape {sizes}")
    if dimensions is not None:
        mat = bcoo_transpose(mat, permutation=dimensions)
    n, stop = mat.n_batch, mat.n_batch + mat.n_sparse
    if mat.n_dense:
        if sizes[len(sizes) - mat.n_dense :] != mat.dense_shape:
            raise NotImplementedError(f"bcoo_reshape: dense axes of {mat!r} cannot change, got shape {sizes}")
    inner = sizes[: len(sizes) - mat.n_dense] if mat.n_dense else sizes
    count = math.prod(mat.shape[:n])
    cut = _cut_at(inner, count, math.prod(mat.shape[n:stop]), mat.n_sparse > 0)
    if cut is None:
        raise ValueError(
            f"bcoo_reshape: cannot mix batch and sparse dimensions: {mat!r} to shape {sizes}; use update_layout"
        )
    if mat.data.shape[:n] != mat.shape[:n] or mat.indices.shape[:n] != mat.shape[:n]:
        raise NotImplementedError("bcoo_reshape: reshape of arrays with broadcasted batch dimensions.")
    batch, sparse = inner[:cut], inner[cut:]
    data = mat.data.reshape(*batch, *mat.data.shape[n:])
    indices = unravel(keys(mat.coordinates(), mat.sparse_shape), sparse, mat.indices.dtype)
    indices = indices.reshape(*batch, mat.nse, len(sparse))
    data = zeroed(data, in_bounds(mat.coordinates(), mat.sparse_shape).reshape(*batch, mat.nse)) if not sparse else data
    return mat.make((data, indices), sizes, indices_sorted=mat.indices_sorted, unique_indices=mat.unique_indices)


def _cut_at(sizes: tuple[int, ...], batch: int, sparse: int, has_sparse: bool) -> int | None:
    """How many of the new axes are batch axes."""
    found = [i for i in range(len(sizes) + 1) if math.prod(sizes[:i]) == batch and math.prod(sizes[i:]) == sparse]
    if not found:
        return None
    return found[0] if has_sparse else found[-1]


def bcoo_reduce_sum(mat: Any, *, axes: Sequence[int], out_sharding: Any = None) -> Any:
    """Sum over axes.

    Parameters
    ----------
    mat : BCOO
    axes : sequence of int
    out_sharding : optional
        Without effect.

    Returns
    -------
    BCOO
        Without these axes.
    """
    del out_sharding
    gone = {operator.index(a) % mat.ndim for a in axes}
    batch, sparse, dense = _groups(mat, sorted(gone))
    data, indices = mat.full()
    n = mat.n_batch
    if dense:
        data = data.sum(tuple([n + 1 + a for a in dense]), dtype=data.dtype)
    if sparse:
        kept = [i for i in range(mat.n_sparse) if i not in sparse]
        data = zeroed(data, in_bounds(indices, mat.sparse_shape))
        indices = indices[..., np.asarray(kept, int)]
    if batch:  # elements of all batches are elements of one
        left = [a for a in range(n) if a not in batch]
        data = data.transpose(*left, *batch, *range(n, data.ndim))
        indices = indices.transpose(*left, *batch, n, n + 1)
        outer = data.shape[: len(left)]
        many = math.prod(data.shape[len(left) : n + 1])
        data = data.reshape(*outer, many, *data.shape[n + 1 :])
        indices = indices.reshape(*outer, many, indices.shape[-1])
    shape = tuple(size for i, size in enumerate(mat.shape) if i not in gone)
    return mat.make((data, indices), shape)


def bcoo_gather(mat: Any, index: Any) -> Any:
    """`mat[index]` with the indices of NumPy: integers, slices, None, `...`, arrays of integers or booleans.

    Parameters
    ----------
    mat : BCOO
    index : index or tuple of indices

    Returns
    -------
    BCOO
        Basic indices keep the layout; arrays of integers give an array without batch axes.

    Raises
    ------
    IndexOutOfBoundsError
        An integer outside.
    """
    entries = _spelled_out(mat, index)
    arrays = [i for i, e in enumerate(entries) if hasattr(e, "shape")]
    starts, limits, steps, flipped, dropped, axis = [], [], [], [], [], 0
    advanced: dict[Any, Any] = {}
    basic: list[Any] = []
    for place, entry in enumerate(entries):
        if entry is None:
            basic.append(None)
            continue
        size = mat.shape[axis]
        start, stop, step = 0, size, 1
        if place in arrays:
            advanced[axis] = entry
        elif isinstance(entry, slice):
            start, stop, step = _forward(entry, size)
            if entry.step is not None and entry.step < 0:
                flipped.append(axis)
        else:
            start = entry + size if entry < 0 else entry
            if not 0 <= start < size:
                raise errors.IndexOutOfBoundsError(
                    f"index {entry} is out of bounds for axis {axis} of size {size} of {mat!r}"
                )
            stop = start + 1
            dropped.append(axis)
        basic.append(axis)
        starts.append(start)
        limits.append(stop)
        steps.append(step)
        axis += 1
    if (starts, limits, steps) != ([0] * mat.ndim, list(mat.shape), [1] * mat.ndim):
        mat = bcoo_slice(mat, start_indices=starts, limit_indices=limits, strides=steps)
    mat = bcoo_rev(mat, flipped) if flipped else mat
    if advanced:
        # integers beside arrays are arrays: they broadcast with them
        advanced.update({a: np.zeros((), int) for a in dropped})
        return _select(mat, advanced, basic)
    mat = bcoo_squeeze(mat, dimensions=dropped) if dropped else mat
    left = [b for b in basic if b is None or b not in dropped]
    if None in left:
        shape, sizes = [], iter(mat.shape)
        shape = [1 if b is None else next(sizes) for b in left]
        mat = bcoo_broadcast_in_dim(
            mat, shape=shape, broadcast_dimensions=[i for i, b in enumerate(left) if b is not None]
        )
    return mat


def _forward(entry: slice, size: int) -> tuple[int, int, int]:
    """Start, limit and stride of a slice, of the reversed one where the step is negative."""
    places = range(size)[entry]
    if not places:
        return 0, 0, 1
    low, high = min(places[0], places[-1]), max(places[0], places[-1])
    return low, high + 1, abs(places.step)


def _spelled_out(mat: Any, index: Any) -> list[Any]:
    """One entry per axis, and None for new ones; masks as arrays of integers."""
    entries = list(index) if isinstance(index, tuple) else [index]
    spelled: list[Any] = []
    for entry in entries:
        if entry is None or entry is Ellipsis or isinstance(entry, slice):
            spelled.append(entry)
        elif isinstance(entry, bool) or not hasattr(entry, "__index__") or bool(getattr(entry, "ndim", 0)):
            entry = pnp.asarray(entry) if not isinstance(entry, np.ndarray) else entry
            if aval_of(entry).dtype == np.bool_:
                spelled += list(np.nonzero(np.asarray(entry)))
            else:
                spelled.append(entry)
        else:
            spelled.append(operator.index(entry))
    taken = sum(e is not None and e is not Ellipsis for e in spelled)
    if taken > mat.ndim:
        raise IndexError(f"too many indices: {mat!r} has {mat.ndim} axes, but {taken} were indexed")
    if Ellipsis not in [e for e in spelled if not hasattr(e, "shape")]:
        spelled.append(Ellipsis)
    at = next(i for i, e in enumerate(spelled) if e is Ellipsis)
    return [*spelled[:at], *[slice(None)] * (mat.ndim - taken), *spelled[at + 1 :]]


def _select(mat: Any, advanced: dict[int, Any], basic: Sequence[Any]) -> Any:
    """Arrays of integers along some axes, as a product with the sparse array that has a one at each of the places."""
    if any(axis >= mat.n_batch + mat.n_sparse for axis in advanced):
        raise NotImplementedError(f"indexing of dense axes of {mat!r} by arrays")
    mat = bcoo_update_layout(mat, n_batch=0)
    axes = sorted(advanced)
    dtype = mat.indices.dtype
    parts = [pnp.asarray(advanced[a], dtype) for a in axes]
    shape = np.broadcast_shapes(*[p.shape for p in parts])
    parts = [
        broadcast_to(pnp.where(p < 0, p + mat.shape[a], p), shape).reshape(-1) for p, a in zip(parts, axes, strict=True)
    ]
    count = math.prod(shape)
    rows = pnp.stack([pnp.arange(count, dtype=dtype), *parts], axis=-1)
    one = mat.make((pnp.ones(count, mat.dtype), rows), (count, *[mat.shape[a] for a in axes]), unique_indices=True)
    if mat.n_dense:
        raise NotImplementedError(f"indexing of {mat!r}, which has dense axes, by arrays")
    out = bcoo_dot_general(one, mat, dimension_numbers=((range(1, len(axes) + 1), axes), ((), ())))
    rest = [a for a in range(mat.ndim) if a not in axes]
    out = bcoo_reshape(out, new_sizes=(*shape, *[mat.shape[a] for a in rest]))
    # NumPy's rule: the axes of the arrays stand where the arrays stood if they stood together, else in front
    together = [i for i, b in enumerate(basic) if b in axes]
    joined = together == list(range(together[0], together[-1] + 1))
    lead = [b for b in basic[: together[0]]] if joined else []
    tail = [b for i, b in enumerate(basic) if b not in axes and not (joined and i < together[0])]
    order = [len(shape) + rest.index(b) for b in lead if b is not None]
    order += [*range(len(shape)), *[len(shape) + rest.index(b) for b in tail if b is not None]]
    out = bcoo_transpose(out, permutation=order)
    final = [*lead, *[-1] * len(shape), *tail]
    if None in final:
        sizes = iter(out.shape)
        wide = [1 if b is None else next(sizes) for b in final]
        out = bcoo_broadcast_in_dim(
            out, shape=wide, broadcast_dimensions=[i for i, b in enumerate(final) if b is not None]
        )
    return out
