# SPDX-License-Identifier: Apache-2.0
"""Arithmetic of sparse arrays with sparse and dense ones, with the rules of NumPy for broadcasting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from purax import errors
from purax import numpy as pnp
from purax.experimental.sparse.base import JAXSparse
from purax.experimental.sparse.bcoo_order import bcoo_sum_duplicates, bcoo_update_layout
from purax.experimental.sparse.bcoo_product import (
    bcoo_dot_general,
    bcoo_multiply_dense,
    bcoo_multiply_sparse,
    values_met,
)
from purax.experimental.sparse.bcoo_shape import bcoo_broadcast_in_dim, bcoo_squeeze, bcoo_transpose
from purax.numpy.promotion import promote_dtypes, promote_dtypes_inexact

__all__ = ["add", "divide", "matmul", "multiply", "on_merged", "on_values", "power"]


def on_values(mat: Any, fun: Callable[[Any], Any]) -> Any:
    """Apply a linear function `fun` to the values: a sparse array of the same shape."""
    return mat.make((fun(mat.data), mat.indices), mat.shape, mat.indices_sorted, mat.unique_indices)


def on_merged(mat: Any, fun: Callable[[Any], Any]) -> Any:
    """Apply a function `fun` with `fun(0) = 0` to the values, which must be whole for it: elements of equal coordinates are merged.

    The result is a sparse array of the same shape.
    """
    mat = mat if mat.unique_indices else bcoo_sum_duplicates(mat, nse=mat.nse, remove_zeros=False)
    return on_values(mat, fun)


def add(lhs: Any, rhs: Any) -> Any:
    """Sum of a sparse array `lhs` and another array `rhs` of its shape; dense if the other is dense.

    Raises
    ------
    NotImplementedError
        A dense `rhs` of another shape.
    """
    if not isinstance(rhs, JAXSparse):
        rhs = pnp.asarray(rhs)
        if rhs.shape != lhs.shape:
            raise NotImplementedError(
                "Addition between a sparse array X and a dense array Y is not implemented unless their shapes are equal: "
                f"{lhs.shape} and {rhs.shape}"
            )
        return lhs.todense() + rhs
    if lhs.shape != rhs.shape:
        shape = np.broadcast_shapes(lhs.shape, rhs.shape)
        lhs, rhs = _widened(lhs, shape), _widened(rhs, shape)
    data, others = promote_dtypes(lhs.data, rhs.data)
    if lhs.indices is rhs.indices and data.shape == others.shape:
        return lhs.make((data + others, lhs.indices), lhs.shape, lhs.indices_sorted, lhs.unique_indices)
    lhs, rhs = (x.astype(data.dtype) for x in (lhs, rhs))
    n, dense = min(lhs.n_batch, rhs.n_batch), min(lhs.n_dense, rhs.n_dense)
    lhs, rhs = (bcoo_update_layout(x, n_batch=n, n_dense=dense) for x in (lhs, rhs))
    (data, indices), (others, coordinates) = lhs.full(), rhs.full()
    return lhs.make(
        (pnp.concatenate([data, others], n), pnp.concatenate([indices, coordinates.astype(indices.dtype)], n)),
        lhs.shape,
    )


def multiply(lhs: Any, rhs: Any) -> Any:
    """Elementwise product of a sparse array `lhs` and `rhs`, whose shapes broadcast; sparse."""
    if not isinstance(rhs, JAXSparse):
        if np.ndim(rhs) == 0:
            return on_values(lhs, lambda x: x * rhs)
        rhs = pnp.asarray(rhs)
        shape = np.broadcast_shapes(lhs.shape, rhs.shape)
        return bcoo_multiply_dense(_widened(lhs, shape), rhs)
    shape = np.broadcast_shapes(lhs.shape, rhs.shape)
    same = getattr(lhs, "indices", lhs) is getattr(rhs, "indices", rhs) and lhs.shape == rhs.shape
    if same and getattr(lhs, "unique_indices", False) and getattr(rhs, "unique_indices", False):
        return on_values(lhs, lambda x: x * rhs.data)
    return bcoo_multiply_sparse(_widened(lhs, shape), _widened(rhs, shape))


def divide(lhs: Any, rhs: Any) -> Any:
    """Quotient of a sparse array `lhs` by a dense one, `rhs`, whose shapes broadcast; its own zeros stay zero.

    Raises
    ------
    NotImplementedError
        `rhs` is sparse.
    """
    if isinstance(rhs, JAXSparse):
        raise NotImplementedError("division by a sparse array would give infinities or NaN wherever it is zero")
    if np.ndim(rhs) == 0:
        return on_values(lhs, lambda x: x / rhs)
    rhs = pnp.asarray(rhs)
    lhs = _widened(lhs, np.broadcast_shapes(lhs.shape, rhs.shape))
    data, rhs = promote_dtypes_inexact(lhs.data, rhs)
    met = values_met(lhs, rhs, padding=1)
    return lhs.make((data / met, lhs.indices), lhs.shape, lhs.indices_sorted, lhs.unique_indices)


def power(mat: Any, exponent: Any) -> Any:
    """A sparse array to a positive power, the scalar `exponent`.

    Raises
    ------
    NotImplementedError
        An exponent that is no positive scalar.
    """
    if np.ndim(exponent) or not float(exponent) > 0:
        raise NotImplementedError(
            f"sparse rule for integer_pow with non-positive exponent y={exponent}: the result would be dense"
        )
    return on_merged(mat, lambda x: x**exponent)


def matmul(lhs: Any, rhs: Any) -> Any:
    """Matrix product of `lhs` and `rhs`, one of them sparse, with shapes as NumPy's: leading axes broadcast.

    Raises
    ------
    ShapeError
        A scalar.
    """
    lhs, rhs = (x if isinstance(x, JAXSparse) else pnp.asarray(x) for x in (lhs, rhs))
    if not lhs.ndim or not rhs.ndim:
        raise errors.ShapeError("matmul takes no scalars; multiply by them")
    m, n = max(lhs.ndim - 2, 0), max(rhs.ndim - 2, 0)
    shared = min(m, n)
    # pairs of leading axes of equal size are batch axes, those of size 1 go, and the others stay where they are
    pairs = [(m - shared + i, n - shared + i) for i in range(shared)]
    gone = [a for a, b in pairs if lhs.shape[a] != rhs.shape[b] and lhs.shape[a] == 1]
    lost = [b for a, b in pairs if lhs.shape[a] != rhs.shape[b] and rhs.shape[b] == 1]
    both = [(a, b) for a, b in pairs if a not in gone and b not in lost]
    lhs, rhs = _without(lhs, gone), _without(rhs, lost)
    left = [a - sum(g < a for g in gone) for a, _ in both]
    right = [b - sum(g < b for g in lost) for _, b in both]
    contracting = ((lhs.ndim - 1,), (max(rhs.ndim - 2, 0),))
    out = bcoo_dot_general(lhs, rhs, dimension_numbers=(contracting, (left, right)))
    # now: pairs, the other leading axes and the rows of the left, the other leading axes and the columns of the right
    here: list[Any] = [("pair", pairs.index(p)) for p in both]
    here += [("left", a) for a in range(m) if a not in gone and a not in [p[0] for p in both]]
    here += [("rows", 0)] if lhs.ndim + len(gone) > 1 else []
    here += [("right", b) for b in range(n) if b not in lost and b not in [p[1] for p in both]]
    here += [("cols", 0)] if rhs.ndim + len(lost) > 1 else []
    order = [("left", a) for a in range(m - shared)] + [("right", b) for b in range(n - shared)]
    for i, (a, b) in enumerate(pairs):
        order += [key for key in (("pair", i), ("left", a), ("right", b)) if key in here and key not in order]
    order += [key for key in (("rows", 0), ("cols", 0)) if key in here]
    axes = [here.index(key) for key in order]
    if axes == list(range(out.ndim)):
        return out
    return bcoo_transpose(out, permutation=axes) if isinstance(out, JAXSparse) else out.transpose(axes)


def _without(x: Any, axes: list[int]) -> Any:
    if not axes:
        return x
    return bcoo_squeeze(x, dimensions=axes) if isinstance(x, JAXSparse) else x.squeeze(tuple(axes))


def _widened(mat: Any, shape: tuple[int, ...]) -> Any:
    if mat.shape == tuple(shape):
        return mat
    return bcoo_broadcast_in_dim(mat, shape=shape, broadcast_dimensions=range(len(shape) - mat.ndim, len(shape)))
