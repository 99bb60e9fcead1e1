# SPDX-License-Identifier: Apache-2.0
"""Flat positions and index tuples: `unravel_index`, `ravel_multi_index`."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from purax import dtypes, errors
from purax.core.hooks import hooks
from purax.core.trace import Tracer, aval_of
from purax.numpy import _ops as ops
from purax.numpy.promotion import as_operand, check_arraylike, promote_dtypes, promote_shapes
from purax.primitives import shape as shapes

__all__ = ["ravel_multi_index", "unravel_index"]


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
        Indices are outside and `mode` is "raise".
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
