# SPDX-License-Identifier: Apache-2.0
"""Positions: where elements are nonzero or a condition holds, flat positions and index tuples.

Positions are integers.

Parameters
----------
size : int, optional
    Length of the result; needed while tracing. Without it, as long as there are such elements.
fill_value : scalar, or tuple of scalars for `nonzero`, optional
    What fills the result where there are fewer; default 0.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from purax import dtypes, errors
from purax.core.aval import array_aval
from purax.core.hooks import hooks
from purax.core.trace import Tracer, aval_of
from purax.numpy import _ops as ops
from purax.numpy.indexing import read
from purax.numpy.promotion import as_operand, check_arraylike, promote_dtypes, promote_shapes, refuse
from purax.primitives import shape as shapes
from purax.runtime.array import wrap_host

__all__ = [
    "argwhere",
    "compress",
    "extract",
    "flatnonzero",
    "nonzero",
    "ravel_multi_index",
    "unravel_index",
]


def unravel_index(indices: Any, shape: Any) -> tuple[Any, ...]:
    """Index tuples of flat, row-major positions in an array of the given shape.

    Parameters
    ----------
    indices : integer array
        Negative ones count from the end; those outside are moved inside.
    shape : int or sequence of int

    Returns
    -------
    tuple of integer arrays of the shape of `indices`, one for each axis

    Raises
    ------
    DTypeError
        `indices` are not integers.
    """
    check_arraylike("unravel_index", indices)
    flat = as_operand(indices)
    dtype = flat.aval.dtype
    if not dtypes.is_integer(dtype):
        raise errors.DTypeError(f"unravel_index takes integer indices, got dtype {dtype}")
    sizes = list(shape) if np.iterable(shape) else [shape]
    traced = any(isinstance(n, Tracer) and n.concrete() is None for n in sizes)
    if not traced:
        sizes = list(shapes.canonical_shape(shape))
    if not sizes:
        return ()
    wide = dtype if dtype.itemsize == 8 else dtypes.int32
    flat = ops.convert_element_type(flat, wide)
    sizes = [ops.convert_element_type(n, wide) if traced else shapes.scalar(max(n, 1), wide) for n in sizes]
    total: Any = functools.reduce(ops.mul, sizes)
    if not dtypes.is_unsigned(dtype):
        flat = hooks.numpy.where(ops.lt(flat, shapes.full_like_aval(flat.aval, 0)), ops.add(flat, total), flat)
    flat = ops.clamp(shapes.scalar(0, wide), flat, ops.sub(total, shapes.scalar(1, wide)))
    places: list[Any] = []
    for n in reversed(sizes):
        places.append(ops.convert_element_type(ops.rem(flat, n), dtype))
        flat = ops.div(flat, n)
    return tuple(places[::-1])


def ravel_multi_index(
    multi_index: Sequence[Any], dims: Sequence[int], mode: str = "raise", order: str = "C", *, dtype: Any = None
) -> Any:
    """Flat positions of index tuples.

    Parameters
    ----------
    multi_index : tuple of integer arrays, one for each axis
    dims : sequence of int
        Shape of the array that is indexed.
    mode : "raise", "wrap", "clip" or "ignore"
        What happens to indices outside; "raise" needs known values.
    order : "C" or "F"
        Whether the last or the first axis varies fastest.
    dtype : dtype, optional
        Of the result; default: that of the indices.

    Returns
    -------
    integer array

    Raises
    ------
    ValueError
        Indices outside with mode "raise", another mode or order, or not one array for each axis.
    DTypeError
        Indices are not integers.
    ConcretizationTypeError
        A traced index, with mode "raise".
    """
    if len(multi_index) != len(dims):
        raise ValueError(f"len(multi_index)={len(multi_index)} != len(dims)={len(dims)}")
    sizes = shapes.canonical_shape(dims)
    check_arraylike("ravel_multi_index", *multi_index)
    for index in multi_index:
        if not dtypes.is_integer(aval_of(index).dtype):
            raise errors.DTypeError(f"only int indices permitted, got dtype {aval_of(index).dtype}")
    columns = promote_shapes("ravel_multi_index", *promote_dtypes(*multi_index))
    if mode == "raise":
        for column, n in zip(columns, sizes, strict=True):
            if isinstance(column, Tracer) and column.concrete() is None:
                raise errors.ConcretizationTypeError(
                    errors.explain(
                        "ravel_multi_index got a traced index and mode='raise'.",
                        "It cannot be checked, as its values are not known while tracing.",
                        "give mode='wrap' or mode='clip'.",
                    )
                )
            known = np.asarray(column)
            if ((known < 0) | (known >= n)).any():
                raise ValueError("invalid entry in coordinates array")
    elif mode == "ignore":
        pass
    elif mode == "clip":
        columns = [hooks.numpy.clip(c, 0, n - 1) for c, n in zip(columns, sizes, strict=True)]
    elif mode == "wrap":
        columns = [hooks.numpy.mod(c, n) for c, n in zip(columns, sizes, strict=True)]
    else:
        raise ValueError(f"invalid mode={mode!r}. Expected 'raise', 'wrap', 'clip' or 'ignore'")
    if order not in ("C", "F"):
        raise ValueError(f"invalid order={order!r}. Expected 'C' or 'F'")
    pairs = list(zip(columns, sizes, strict=True))
    found = columns[0].aval.dtype if columns else dtypes.default_int()
    target = found if dtype is None else dtypes.named(dtype)
    total: Any = shapes.full(columns[0].aval.shape if columns else (), 0, target)
    for column, n in pairs if order == "C" else reversed(pairs):
        total = ops.add(ops.mul(total, shapes.full_like_aval(total.aval, n)), ops.convert_element_type(column, target))
    return total


# --- nonzero, compress ---------------------------------------------------------------------------------------------------------


def _known(x: Any, name: str, advice: str = "size") -> np.ndarray:
    """The values of an array, for a function whose result's shape depends on them."""
    if isinstance(x, Tracer) and x.concrete() is None:
        raise errors.ConcretizationTypeError(
            errors.explain(
                f"{name} got a traced value of type {x.aval.str_short()}.",
                "The shape of its result depends on the values, which are not known while tracing.",
                f"say how long the result is: {name}(..., {advice}=n).",
            )
        )
    return np.asarray(x.concrete() if isinstance(x, Tracer) else x)


def nonzero(a: Any, *, size: int | None = None, fill_value: Any = None) -> tuple[Any, ...]:
    """Indices of the elements that are not zero, one integer array per axis.

    Parameters
    ----------
    a : array
        Of at least one axis.

    Returns
    -------
    tuple of integer arrays

    Raises
    ------
    ConcretizationTypeError
        `a` is traced and `size` is not given.
    ShapeError
        `a` is a scalar, or `fill_value` has not one entry for each axis.
    """
    check_arraylike("nonzero", a)
    a = as_operand(a)
    if a.aval.ndim == 0:
        raise errors.ShapeError("nonzero takes arrays with at least one axis; use atleast_1d(x)")
    index = dtypes.default_int()
    if size is None:
        found = np.nonzero(_known(a, "nonzero"))
        return tuple([wrap_host(array_aval(i.shape, index), i.astype(index)) for i in found])
    size = operator.index(size)
    fills = fill_value if isinstance(fill_value, tuple) else (0 if fill_value is None else fill_value,) * a.aval.ndim
    if len(fills) != a.aval.ndim:
        raise errors.ShapeError(
            f"fill_value must be a scalar or have one entry per axis ({a.aval.ndim}), got {len(fills)}"
        )
    shape = a.aval.shape
    mask = hooks.numpy.not_equal(a, 0) if not dtypes.is_bool(a.aval.dtype) else a
    mask = shapes.reshape(mask, (a.aval.size,))
    if a.aval.size == 0 or size == 0:
        return tuple([shapes.broadcast_in_dim(ops.convert_element_type(f, index), (size,), ()) for f in fills])
    # The k-th such element lies where the running count first exceeds k: scatter each position to its count.
    ones = ops.convert_element_type(mask, np.int32)
    rank = ops.sub_p.bind1(ops.cumsum(ones, 0), ones)
    count = ops.reduce_sum_p.bind1(ones, axes=(0,))
    outside = shapes.full_like_aval(rank.aval, size)
    target = ops.select(mask, rank, outside)
    position = ops.iota(np.int32, a.aval.size)
    numbers = ops.ScatterDimensionNumbers((), (0,), (0,))
    flat = ops.scatter(
        shapes.full((size,), 0, np.int32), shapes.expand_dims(target, (1,)), position, numbers, mode="drop"
    )  # fmt: skip
    filled = ops.ge(ops.iota(np.int32, size), shapes.broadcast_in_dim(count, (size,), ()))
    results = []
    for place, fill in zip(unravel(flat, shape), fills, strict=True):
        fill = ops.convert_element_type(fill, index)
        fill = shapes.broadcast_in_dim(fill, (size,), ()) if aval_of(fill).ndim == 0 else fill
        results.append(ops.select(filled, fill, ops.convert_element_type(place, index)))
    return tuple(results)


def unravel(flat: Any, shape: tuple[int, ...]) -> list[Any]:
    """Row-major indices of flat positions within bounds."""
    places: list[Any] = []
    for n in reversed(shape):
        size = shapes.full_like_aval(flat.aval, max(n, 1))
        places.append(ops.rem_p.bind1(flat, size))
        flat = ops.div_p.bind1(flat, size)
    return places[::-1]


def flatnonzero(a: Any, *, size: int | None = None, fill_value: Any = None) -> Any:
    """Indices into the flattened array of the elements that are not zero; see `nonzero`."""
    check_arraylike("flatnonzero", a)
    a = as_operand(a)
    return nonzero(shapes.reshape(a, (a.aval.size,)), size=size, fill_value=fill_value)[0]


def argwhere(a: Any, *, size: int | None = None, fill_value: Any = None) -> Any:
    """Indices of the elements that are not zero, one row for each; see `nonzero`."""
    check_arraylike("argwhere", a)
    a = as_operand(a)
    if a.aval.ndim == 0:  # one empty row if the element is not zero
        rows = nonzero(shapes.reshape(a, (1,)), size=size, fill_value=fill_value)[0].aval.shape[0]
        return shapes.full((rows, 0), 0, dtypes.default_int())
    return shapes.stack(nonzero(a, size=size, fill_value=fill_value), 1)


def compress(
    condition: Any, a: Any, axis: int | None = None, *, size: int | None = None, fill_value: Any = 0, out: None = None
) -> Any:
    """Slices of `a` along `axis` at which `condition` holds.

    Parameters
    ----------
    condition : boolean array with one axis
        At most as long as the axis, unless it is false beyond it.
    a : array
    axis : int, optional
        Default: `a` is flattened.
    size : int, optional
        Length of the result; needed while tracing.
    fill_value : scalar
        Fills the result where there are fewer.
    out : None

    Returns
    -------
    array of the dtype of `a`

    Raises
    ------
    ShapeError
        `condition` has not one axis, or holds beyond the end of the other.
    """
    refuse("compress", out=out)
    check_arraylike("compress", condition, a)
    condition, a = as_operand(condition), as_operand(a)
    if condition.aval.ndim != 1:
        raise errors.ShapeError("condition must be a 1D array")
    if axis is None:
        a, axis = shapes.reshape(a, (a.aval.size,)), 0
    axis = shapes.canonical_axis(axis, a.aval.ndim)
    n, m = a.aval.shape[axis], condition.aval.shape[0]
    if dtypes.is_bool(condition.aval.dtype) is False:
        condition = hooks.numpy.not_equal(condition, 0)
    if (
        m > n
        and not (isinstance(condition, Tracer) and condition.concrete() is None)
        and np.asarray(condition)[n:].any()
    ):
        raise errors.ShapeError("condition contains entries that are out of bounds")
    places = nonzero(condition, size=size, fill_value=max(n, m))[0]
    result = read(a, (*[slice(None)] * axis, places), mode="fill", fill_value=fill_value, wrap_negative_indices=False)
    return result


def extract(condition: Any, arr: Any, *, size: int | None = None, fill_value: Any = 0) -> Any:
    """Elements of the flattened `arr` at which the flattened `condition` holds; see `compress`."""
    check_arraylike("extract", condition, arr)
    condition = as_operand(condition)
    return compress(shapes.reshape(condition, (condition.aval.size,)), arr, size=size, fill_value=fill_value)
