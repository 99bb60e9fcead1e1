# SPDX-License-Identifier: Apache-2.0
"""Norms of vectors and matrices, and what the functions of `purax.numpy.linalg` share."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from purax import dtypes, errors
from purax.numpy import reduction as totals
from purax.numpy.arithmetic import multiply, power
from purax.numpy.comparison import equal, not_equal
from purax.numpy.elementwise import abs as absolute
from purax.numpy.elementwise import conj, real, sqrt, square
from purax.numpy.promotion import check_arraylike, promote_dtypes_inexact
from purax.numpy.selection import where
from purax.numpy.shape import expand_dims, matrix_transpose, moveaxis
from purax.primitives import linalg as factors

__all__ = ["matrix_norm", "norm", "vector_norm"]


# --- operands -----------------------------------------------------------------------------------------------------------------


def inexact(name: str, *xs: Any) -> list[Any]:
    """Checked operands in their common inexact dtype."""
    check_arraylike(name, *xs)
    return promote_dtypes_inexact(*xs)


def matrices_of(name: str, x: Any, square_only: bool = False) -> Any:
    """A checked operand of matrices."""
    (x,) = inexact(name, x)
    sizes = x.aval.shape
    if len(sizes) < 2 or (square_only and sizes[-1] != sizes[-2]):
        raise errors.ShapeError(
            f"Argument to {name} must have shape [..., {'n, n' if square_only else 'm, n'}], got {sizes}"
        )
    return x


def widened(compute: Callable[..., Any], *xs: Any) -> Any:
    """`compute(*xs)`, in float32 for narrower floats and rounded back."""
    dtype = xs[0].aval.dtype
    if not dtypes.is_float(dtype) or dtype.itemsize >= 4:
        return compute(*xs)
    out = compute(*[x.astype(np.float32) for x in xs])

    def narrowed(value: Any) -> Any:
        return value.astype(dtype) if value.dtype == np.float32 else value

    if isinstance(out, tuple):
        values = [narrowed(v) for v in out]
        return type(out)(*values) if hasattr(out, "_fields") else tuple(values)
    return narrowed(out)


def adjoint(x: Any) -> Any:
    """The conjugate transpose."""
    return conj(matrix_transpose(x))


# --- norms --------------------------------------------------------------------------------------------------------------------


def _root_of_squares(x: Any, axes: Any, keepdims: bool) -> Any:
    """Square root of the sum of squares; its gradient at zeros is zero."""
    total = totals.sum(
        real(multiply(x, conj(x))) if dtypes.is_complex(x.aval.dtype) else square(x), axis=axes, keepdims=keepdims
    )
    none = equal(total, 0)
    return where(none, 0, sqrt(where(none, 1, total))).astype(dtypes.real_dtype(x.aval.dtype))


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """Norm of vectors or matrices; the gradient of Euclidean norms at zeros is zero.

    Parameters
    ----------
    x : array
    ord : None, "fro", "nuc", inf, -inf, or a number
        None: the Euclidean norm of all elements (Frobenius).
    axis : int or pair of int, optional
        One axis for vector norms, two for matrix norms; all of a vector or matrix by default.
    keepdims : bool

    Returns
    -------
    real array

    Raises
    ------
    ShapeError
        Neither one axis nor two different ones, or one that does not exist.
    ValueError
        Another `ord`.

    Examples
    --------
    >>> pnp.linalg.norm(pnp.array([3.0, 4.0])).item()
    5.0
    """
    (x,) = inexact("linalg.norm", x)
    ndim = x.ndim
    if axis is None:
        if ord is None:
            return _root_of_squares(x, None, keepdims)
        axes: tuple[int, ...] = tuple(range(ndim))
        if ndim not in (1, 2):
            raise errors.ShapeError(f"norm is of vectors (one axis) or matrices (two different axes), got axes {axes}")
    else:
        given = axis if isinstance(axis, (tuple, list)) else (axis,)
        axes = tuple(_axis(a, ndim) for a in given)
    if len(axes) == 1:
        return _vector_norm(x, 2 if ord is None else ord, axes, keepdims)
    if len(axes) != 2 or axes[0] == axes[1]:
        raise errors.ShapeError(f"norm is of vectors (one axis) or matrices (two different axes), got axes {axes}")
    return _matrix_norm(x, ord, axes, keepdims)


def _axis(axis: Any, ndim: int) -> int:
    index = operator.index(axis)
    if not -ndim <= index < ndim:
        raise errors.ShapeError(f"the array has {ndim} axes, and axis {index} is none of them")
    return index % ndim


def _vector_norm(x: Any, ord: Any, axes: Any, keepdims: bool) -> Any:
    if isinstance(ord, str):
        raise ValueError(
            f"Invalid order '{ord}' for vector norm." if ord != "inf" and ord != "-inf" else "Give inf as a number."
        )
    if ord == 2:
        return _root_of_squares(x, axes, keepdims)
    size = absolute(x)
    if ord == np.inf:
        return totals.max(size, axis=axes, keepdims=keepdims, initial=0)
    if ord == -np.inf:
        return totals.min(size, axis=axes, keepdims=keepdims, initial=np.inf)
    if ord == 0:
        return totals.sum(not_equal(x, 0), axis=axes, keepdims=keepdims, dtype=size.dtype)
    if ord == 1:
        return totals.sum(size, axis=axes, keepdims=keepdims)
    total = totals.sum(power(size, ord), axis=axes, keepdims=keepdims)
    if ord < 0:
        return power(total, 1 / ord)
    none = equal(total, 0)
    return where(none, 0, power(where(none, 1, total), 1 / ord)).astype(size.dtype)


def _largest(sizes: Any, axis: int) -> Any:
    """The maximum of numbers that are not negative: 0 of none."""
    return totals.max(sizes, axis=axis, initial=None if sizes.shape[axis] else 0)


def _matrix_norm(x: Any, ord: Any, axes: Any, keepdims: bool) -> Any:
    row, column = axes
    if ord in (None, "fro", "f"):
        return _root_of_squares(x, axes, keepdims)
    if (isinstance(ord, str) and ord != "nuc") or (
        not isinstance(ord, str) and ord not in (1, -1, 2, -2, np.inf, -np.inf)
    ):
        raise ValueError(f"Invalid order '{ord}' for matrix norm.")
    if ord in ("nuc", 2, -2):
        s = widened(lambda y: factors.svd(y, compute_uv=False), moveaxis(x, axes, (-2, -1)))
        out = totals.sum(s, axis=-1) if ord == "nuc" else _largest(s, -1) if ord == 2 else totals.min(s, axis=-1)
    else:
        summed, kept = (row, column) if ord in (1, -1) else (column, row)
        sizes = totals.sum(absolute(x), axis=summed)
        left = kept - (kept > summed)
        out = _largest(sizes, left) if ord > 0 else totals.min(sizes, axis=left)
    return expand_dims(out, tuple(sorted(axes))) if keepdims else out


def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    """Norm of vectors along axes: (sum |x|^ord)^(1/ord).

    Parameters
    ----------
    x : array
    axis : int or sequence of int, optional
        All elements by default.
    keepdims : bool
    ord : number
        inf, -inf and 0 as limits: the largest and the least absolute value, and the number of elements that are not 0.

    Returns
    -------
    float array
        The gradient of the Euclidean norm at zeros is zero.
    """
    (x,) = inexact("linalg.vector_norm", x)
    axes = (
        tuple(range(x.ndim))
        if axis is None
        else tuple(_axis(a, x.ndim) for a in (axis if isinstance(axis, (tuple, list)) else (axis,)))
    )
    return _vector_norm(x, ord, axes, keepdims)


def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    """Norm of matrices.

    Parameters
    ----------
    x : array [..., m, n]
    keepdims : bool
    ord : "fro", "nuc", 1, -1, 2, -2, inf or -inf
        Root of squares; sum of singular values; extreme sums of columns (1), singular values (2) and sums of rows (inf).

    Returns
    -------
    float[...]

    Raises
    ------
    ValueError
        Another order.
    """
    x = matrices_of("linalg.matrix_norm", x)
    return _matrix_norm(x, ord, (x.ndim - 2, x.ndim - 1), keepdims)
