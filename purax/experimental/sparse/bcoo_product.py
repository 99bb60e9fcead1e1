# SPDX-License-Identifier: Apache-2.0
"""Products of `BCOO` arrays: `dot_general` in all combinations with dense arrays, elementwise products, convolutions.

A product with a dense array gathers, for each stored element, the values of the dense array that it meets, and adds the products up
at the places of the result. Its derivatives are those of gather and scatter.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from purax import dtypes, errors
from purax import numpy as pnp
from purax.experimental.sparse.base import JAXSparse
from purax.experimental.sparse.bcoo_order import bcoo_sum_duplicates, bcoo_update_layout
from purax.experimental.sparse.layout import (
    broadcast_to,
    columns,
    counted,
    first_of,
    grid,
    in_bounds,
    keys,
    over_batch,
    values_at,
    zeroed,
)
from purax.numpy.promotion import promote_dtypes
from purax.primitives.contraction import dot_general

__all__ = [
    "bcoo_conv_general_dilated", "bcoo_dot_general", "bcoo_dot_general_sampled", "bcoo_multiply_dense", "bcoo_multiply_sparse",
    "values_met",
]  # fmt: skip

Numbers = tuple[tuple[tuple[int, ...], tuple[int, ...]], tuple[tuple[int, ...], tuple[int, ...]]]


def _numbers(dimension_numbers: Any, left: int, right: int) -> Numbers:
    """The dimension numbers as tuples of non-negative ints."""
    (a, b), (c, d) = dimension_numbers
    whole = [
        tuple([operator.index(i) % max(n, 1) for i in axes])
        for axes, n in ((a, left), (b, right), (c, left), (d, right))
    ]
    return (whole[0], whole[1]), (whole[2], whole[3])


def bcoo_dot_general(
    lhs: Any, rhs: Any, *, dimension_numbers: Any, precision: Any = None, preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Any:  # fmt: skip
    """Contract axes of two arrays, one of which or both are sparse, as `lax.dot_general` does.

    Parameters
    ----------
    lhs, rhs : BCOO or array
    dimension_numbers : ((lhs contracting, rhs contracting), (lhs batch, rhs batch))
    precision : ignored
        Products are exact.
    preferred_element_type : dtype, optional
    out_sharding : optional
        Without effect.

    Returns
    -------
    array or BCOO
        Dense if one of the operands is.

    Raises
    ------
    NotImplementedError
        Dense axes of a sparse operand are contracted, or axes that are not batch axes of it are batch axes of the product.
    ShapeError
        Axes that meet differ in size.
    """
    del precision, out_sharding
    numbers = _numbers(dimension_numbers, lhs.ndim, rhs.ndim)
    (left, right), (left_batch, right_batch) = numbers
    for a, b in (*zip(left, right, strict=True), *zip(left_batch, right_batch, strict=True)):
        if lhs.shape[a] != rhs.shape[b]:
            raise errors.ShapeError(
                f"bcoo_dot_general: axis {a} of {lhs.shape} and axis {b} of {rhs.shape} meet, but differ in size"
            )
    if isinstance(lhs, JAXSparse) and isinstance(rhs, JAXSparse):
        out = _sparse_sparse(lhs, rhs, numbers)
        return out if preferred_element_type is None else out.astype(preferred_element_type)
    if isinstance(lhs, JAXSparse):
        out = _sparse_dense(lhs, pnp.asarray(rhs), numbers)
    else:
        swapped = ((right, left), (right_batch, left_batch))
        out = _sparse_dense(rhs, pnp.asarray(lhs), swapped)
        n, free = len(left_batch), rhs.ndim - len(right) - len(right_batch)
        out = out.transpose(*range(n), *range(n + free, out.ndim), *range(n, n + free))
    return out if preferred_element_type is None else out.astype(preferred_element_type)


def _sparse_dense(mat: Any, arr: Any, numbers: Numbers) -> Any:
    (left, right), (left_batch, right_batch) = numbers
    n, stop = mat.n_batch, mat.n_batch + mat.n_sparse
    if any(a >= n for a in left_batch) or any(a >= stop for a in left):
        raise NotImplementedError(
            f"bcoo_dot_general: batch axes must be batch axes of the sparse array, contracted ones must not be dense: "
            f"{mat!r} with dimension numbers {numbers}"
        )
    data, indices = mat.full()
    data, arr = promote_dtypes(data, arr)
    batch = mat.shape[:n]
    # where each stored element stands along each axis; shapes broadcast to (*batch, nse)
    places = dict(enumerate(grid(batch, indices.dtype, behind=1)))
    places.update({n + i: column for i, column in enumerate(columns(indices))})
    met = [*zip(left_batch, right_batch, strict=True), *zip(left, right, strict=True)]
    free = [b for b in range(arr.ndim) if b not in right and b not in right_batch]
    values = arr.transpose(*[b for _, b in met], *free)
    full = (*batch, mat.nse)
    if met:
        values = values.at[tuple([broadcast_to(places[a], full) for a, _ in met])].get(mode="fill", fill_value=0)
    else:
        values = broadcast_to(values.reshape((1,) * len(full) + values.shape), (*full, *values.shape))
    # the terms: (*batch, nse, *dense axes, *free axes of the array)
    data = zeroed(data, in_bounds(indices, mat.sparse_shape))
    terms = data.reshape(data.shape + (1,) * len(free))
    terms = terms * values.reshape(full + (1,) * mat.n_dense + tuple(arr.shape[b] for b in free))
    kept = [*left_batch, *[a for a in range(stop) if a not in left and a not in left_batch]]
    shape = tuple(mat.shape[a] for a in kept)
    if not kept:
        return terms.sum(tuple(range(len(full))), dtype=terms.dtype)
    where = tuple([broadcast_to(places[a], full) for a in kept])
    return pnp.zeros(shape + terms.shape[len(full) :], terms.dtype).at[where].add(terms, mode="drop")


def _sparse_sparse(lhs: Any, rhs: Any, numbers: Numbers) -> Any:
    """All pairs of stored elements whose contracted coordinates agree."""
    (left, right), (left_batch, right_batch) = numbers
    if lhs.n_dense or rhs.n_dense:
        raise NotImplementedError("bcoo_dot_general: products of two sparse arrays with dense axes")
    if any(a >= lhs.n_batch for a in left_batch) or any(b >= rhs.n_batch for b in right_batch):
        raise NotImplementedError(
            "bcoo_dot_general: batch axes of the product must be batch axes of both sparse arrays"
        )
    if any(a < lhs.n_batch for a in left) or any(b < rhs.n_batch for b in right):
        raise NotImplementedError("bcoo_dot_general: contracted axes of two sparse arrays must be sparse")
    left_free = [a for a in range(lhs.n_batch) if a not in left_batch]
    right_free = [b for b in range(rhs.n_batch) if b not in right_batch]
    if right_free and lhs.n_sparse > len(left):
        raise ValueError("bcoo_dot_general: cannot have unused batch dims on rhs with unused sparse dims on lhs.")
    batch = tuple([lhs.shape[a] for a in (*left_batch, *left_free)] + [rhs.shape[b] for b in right_free])
    count = len(left_batch)
    data, indices = lhs.full()
    order = (*left_batch, *left_free)
    data = data.transpose(*order, lhs.n_batch)
    indices = indices.transpose(*order, lhs.n_batch, lhs.n_batch + 1)
    wide = len(order)
    data = data.reshape(*data.shape[:wide], *[1] * len(right_free), lhs.nse)
    indices = indices.reshape(*indices.shape[:wide], *[1] * len(right_free), lhs.nse, lhs.n_sparse)
    others, coordinates = rhs.full()
    order = (*right_batch, *right_free)
    others = others.transpose(*order, rhs.n_batch)
    coordinates = coordinates.transpose(*order, rhs.n_batch, rhs.n_batch + 1)
    head, rest = others.shape[:count], others.shape[count:]
    others = others.reshape(*head, *[1] * len(left_free), *rest)
    head, rest = coordinates.shape[:count], coordinates.shape[count:]
    coordinates = coordinates.reshape(*head, *[1] * len(left_free), *rest)
    data, others = promote_dtypes(data, others)
    contracted = [a - lhs.n_batch for a in left], [b - rhs.n_batch for b in right]
    kept = (
        [i for i in range(lhs.n_sparse) if i not in contracted[0]],
        [i for i in range(rhs.n_sparse) if i not in contracted[1]],
    )
    sizes = tuple([lhs.sparse_shape[i] for i in kept[0]] + [rhs.sparse_shape[i] for i in kept[1]])
    dtype = dtypes.result_type(indices.dtype, coordinates.dtype)

    def pairs(data: Any, indices: Any, others: Any, coordinates: Any) -> tuple[Any, Any]:
        n, m = data.shape[0], others.shape[0]
        both = in_bounds(indices, lhs.sparse_shape)[:, None] & in_bounds(coordinates, rhs.sparse_shape)[None]
        for i, j in zip(*contracted, strict=True):
            both = both & (indices[:, None, i].astype(dtype) == coordinates[None, :, j].astype(dtype))
        values = zeroed(data[:, None] * others[None], both)
        rows = [broadcast_to(indices[:, None, i].astype(dtype), (n, m)) for i in kept[0]]
        rows += [broadcast_to(coordinates[None, :, j].astype(dtype), (n, m)) for j in kept[1]]
        found = [pnp.where(both, c, np.asarray(size, dtype)) for c, size in zip(rows, sizes, strict=True)]
        stacked = pnp.stack(found, axis=-1) if found else pnp.zeros((n, m, 0), dtype)
        return values.reshape(-1), stacked.reshape(n * m, len(sizes))

    outs = over_batch(pairs, batch, data, indices, others, coordinates)
    out = lhs.make(outs, (*batch, *sizes))
    places = math.prod(sizes)
    return bcoo_sum_duplicates(out, nse=places) if out.nse > places else out


def bcoo_dot_general_sampled(A: Any, B: Any, indices: Any, *, dimension_numbers: Any) -> Any:
    """Values of `lax.dot_general(A, B)` at the given coordinates.

    Parameters
    ----------
    A, B : array
    indices : int[..., nse, n_sparse]
        Coordinates in the result, as those of a `BCOO`; coordinates that are repeated get the value once, and then zero.
    dimension_numbers : ((A contracting, B contracting), (A batch, B batch))

    Returns
    -------
    array[..., nse, ...]
        The data of a `BCOO` with these indices.
    """
    A, B, indices = pnp.asarray(A), pnp.asarray(B), pnp.asarray(indices)
    (left, right), (left_batch, right_batch) = _numbers(dimension_numbers, A.ndim, B.ndim)
    matrices = not left_batch and not right_batch and A.ndim == len(left) + 1 and B.ndim == len(right) + 1
    if matrices and indices.ndim == 2 and indices.shape[-1] == 2:
        sizes = (
            A.size // max(math.prod(A.shape[a] for a in left), 1),
            B.size // max(math.prod(B.shape[b] for b in right), 1),
        )
        indices = counted(indices, sizes)
        # only the rows and columns that are asked for
        rows = (
            pnp.moveaxis(A, [a for a in range(A.ndim) if a not in left], [0])
            .at[indices[:, 0]]
            .get(mode="fill", fill_value=0)
        )
        cols = pnp.moveaxis(B, [b for b in range(B.ndim) if b not in right], [0])
        cols = cols.transpose(0, *[1 + sorted(right).index(b) for b in _aligned(left, right)])
        cols = cols.at[indices[:, 1]].get(mode="fill", fill_value=0)
        rows, cols = promote_dtypes(rows, cols)
        values = (rows * cols).sum(tuple(range(1, rows.ndim)), dtype=rows.dtype)
        return zeroed(values, first_of(keys(indices, sizes)))
    product = dot_general(A, B, ((left, right), (left_batch, right_batch)), precision="highest")
    n = indices.ndim - 2
    sizes = product.shape[n : n + indices.shape[-1]]
    indices = counted(indices, sizes)
    return over_batch(lambda i, p: values_at(i, p, sizes, unique=False), product.shape[:n], indices, product)


def _aligned(left: Sequence[int], right: Sequence[int]) -> list[int]:
    """The contracted axes of the second operand in the order in which those of the first stand."""
    return [b for _, b in sorted(zip(left, right, strict=True))]


def bcoo_multiply_dense(mat: Any, arr: Any) -> Any:
    """Elementwise product of a sparse array and a dense one.

    Parameters
    ----------
    mat : BCOO
    arr : array
        Broadcasts to the shape of `mat`.

    Returns
    -------
    BCOO
        With the coordinates of `mat`.

    Raises
    ------
    ShapeError
        `arr` does not broadcast to the shape.
    """
    arr = pnp.asarray(arr)
    if arr.ndim > mat.ndim or any(a not in {1, b} for a, b in zip(arr.shape[::-1], mat.shape[::-1], strict=False)):
        raise errors.ShapeError(f"bcoo_multiply_dense: shape {arr.shape} does not broadcast to {mat.shape}")
    data, arr = promote_dtypes(mat.data, arr)
    return _with_data(mat, data * values_met(mat, arr))


def values_met(mat: Any, arr: Any, padding: int = 0) -> Any:
    """Values that the stored elements of `mat` meet in an array that broadcasts to its shape; they broadcast to its data.

    Parameters
    ----------
    mat : BCOO
    arr : array
    padding : scalar
        What elements out of bounds meet.

    Returns
    -------
    array
    """
    if arr.ndim == 0:
        return arr
    arr = arr.reshape((1,) * (mat.ndim - arr.ndim) + arr.shape)
    n, stop = mat.n_batch, mat.n_batch + mat.n_sparse
    dense = arr.shape[stop:]
    if all(size == 1 for size in arr.shape[n:stop]):
        return arr.reshape(*arr.shape[:n], 1, *dense)
    batch = tuple(np.broadcast_shapes(mat.indices.shape[:n], arr.shape[:n]))
    places = [*grid(batch, mat.indices.dtype, behind=1), *columns(mat.coordinates())]
    full = (*batch, mat.nse)
    zero = pnp.zeros((), mat.indices.dtype)
    where = [
        broadcast_to(p if size != 1 else zero.reshape((1,) * (n + 1)), full)
        for p, size in zip(places, arr.shape, strict=False)
    ]
    return arr.at[tuple(where)].get(mode="fill", fill_value=padding)


def _with_data(mat: Any, data: Any) -> Any:
    return mat.make(
        (data, mat.indices), mat.shape, indices_sorted=mat.indices_sorted, unique_indices=mat.unique_indices
    )


def bcoo_multiply_sparse(lhs: Any, rhs: Any) -> Any:
    """Elementwise product of two sparse arrays of one shape.

    Parameters
    ----------
    lhs, rhs : BCOO

    Returns
    -------
    BCOO
        With coordinates of `lhs`.

    Raises
    ------
    ShapeError
        Shapes that differ.
    """
    if lhs.shape != rhs.shape:
        raise errors.ShapeError(f"bcoo_multiply_sparse: shapes {lhs.shape} and {rhs.shape} differ")
    n, dense = min(lhs.n_batch, rhs.n_batch), min(lhs.n_dense, rhs.n_dense)
    lhs, rhs = (bcoo_update_layout(x, n_batch=n, n_dense=dense) for x in (lhs, rhs))
    sizes = lhs.sparse_shape
    # merged and sorted, so that each element of the other finds at most one
    rhs = bcoo_sum_duplicates(rhs, nse=rhs.nse, remove_zeros=False)
    data, others = promote_dtypes(lhs.full()[0], rhs.full()[0])

    def meet(data: Any, indices: Any, others: Any, coordinates: Any) -> Any:
        if others.shape[0] == 0:
            return pnp.zeros_like(data)
        mine, theirs = keys(indices, sizes), keys(coordinates, sizes)
        at = pnp.clip(pnp.searchsorted(theirs, mine), 0, theirs.size - 1)
        found = (theirs[at] == mine) & in_bounds(indices, sizes)
        return data * zeroed(others[at], found)

    values = over_batch(meet, lhs.shape[:n], data, lhs.full()[1], others, rhs.full()[1])
    return lhs.make(
        (values, lhs.full()[1]), lhs.shape, indices_sorted=lhs.indices_sorted, unique_indices=lhs.unique_indices
    )


def bcoo_conv_general_dilated(
    lhs: Any, rhs: Any, *, window_strides: Sequence[int], padding: Any, lhs_dilation: Any = None, rhs_dilation: Any = None,
    dimension_numbers: Any = None, feature_group_count: int = 1, batch_group_count: int = 1, precision: Any = None,
    preferred_element_type: Any = None,
) -> Any:  # fmt: skip
    """Convolve along one axis, with one channel and stride 1; one operand or both are sparse.

    Parameters
    ----------
    lhs, rhs : BCOO or array[1, 1, n]
        With two batch axes, if sparse.
    window_strides, padding, lhs_dilation, rhs_dilation, dimension_numbers, feature_group_count, batch_group_count
        As for `lax.conv_general_dilated`; strides, dilations and counts must be 1.
    preferred_element_type : dtype, optional
    precision : optional
        Without effect: products are exact.

    Returns
    -------
    BCOO

    Raises
    ------
    NotImplementedError
        Another kind of convolution.
    """
    del precision, dimension_numbers
    ones = [*window_strides, *(lhs_dilation or ()), *(rhs_dilation or ()), feature_group_count, batch_group_count]
    if any(one != 1 for one in ones) or lhs.ndim != 3 or lhs.shape[:2] != (1, 1) or rhs.shape[:2] != (1, 1):
        raise NotImplementedError("bcoo_conv_general_dilated: only one axis, one channel, strides and dilations of 1")
    sparse = lhs if isinstance(lhs, JAXSparse) else rhs
    lhs, rhs = (x if isinstance(x, JAXSparse) else _stored_in_full(sparse, pnp.asarray(x)) for x in (lhs, rhs))
    n, m = lhs.shape[2], rhs.shape[2]
    if isinstance(padding, str):
        total = max(m - 1, 0) if padding.upper().startswith("SAME") else 0
        before, after = (
            (total // 2, total - total // 2) if padding.upper() != "SAME_LOWER" else (total - total // 2, total // 2)
        )
    else:
        ((before, after),) = padding
    size = max(n + before + after - m + 1, 0)
    lhs, rhs = (bcoo_update_layout(x, n_batch=2, n_dense=0) for x in (lhs, rhs))
    data, others = promote_dtypes(lhs.data[0, 0], rhs.data[0, 0])
    # y[i] = sum over k of x[i + k - before] w[k]
    i, k = lhs.coordinates()[0, 0, :, 0], rhs.coordinates()[0, 0, :, 0]
    both = (i < n)[:, None] & (k < m)[None]
    at = i[:, None] - k[None].astype(i.dtype) + before
    both = both & (at >= 0) & (at < size)
    values = zeroed(data[:, None] * others[None], both).reshape(1, 1, -1)
    indices = pnp.where(both, at, np.asarray(size, i.dtype)).reshape(1, 1, -1, 1)
    values = values if preferred_element_type is None else values.astype(preferred_element_type)
    out = lhs.make((values, indices), (1, 1, size))
    return bcoo_sum_duplicates(out, nse=size) if out.nse > size else out


def _stored_in_full(like: Any, arr: Any) -> Any:
    indices = pnp.arange(arr.shape[-1], dtype=like.indices.dtype).reshape(1, 1, -1, 1)
    return like.make((arr, indices), arr.shape, indices_sorted=True, unique_indices=True)
