# SPDX-License-Identifier: Apache-2.0
"""Matrices with structure: identity, triangles, diagonals, Vandermonde.

Results have the dtype of the operand, or the one that is given.

Parameters
----------
dtype : dtype, optional
k, offset : int
    Which diagonal: 0 the main one, above it positive.
axis1, axis2 : int
    The axes that make matrices.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from purax import dtypes, errors
from purax.core.dims import as_size
from purax.core.trace import Tracer, aval_of
from purax.numpy import _ops as ops
from purax.numpy.creation import placed
from purax.numpy.positions import nonzero
from purax.numpy.promotion import as_operand, check_arraylike, convert, refuse
from purax.numpy.reduction import reduced_axes, sum
from purax.primitives import lapack

__all__ = [
    "diag", "diag_indices", "diag_indices_from", "diagflat", "diagonal", "eye", "fill_diagonal", "identity", "mask_indices",
    "trace", "tri", "tril", "tril_indices", "tril_indices_from", "triu", "triu_indices", "triu_indices_from", "vander",
]  # fmt: skip


def _band(rows: int, columns: int, k: Any, compare: Any) -> Any:
    """A boolean matrix: where ``row + k`` compares to ``column``."""
    if isinstance(k, int):  # beyond the corners all diagonals are alike
        k = min(max(k, -rows), columns)
    integer = dtypes.default_int()
    row = ops.broadcasted_iota(integer, (rows, columns), 0)
    column = ops.broadcasted_iota(integer, (rows, columns), 1)
    shift = ops.broadcast_in_dim(convert(as_operand(k), integer), (rows, columns), ())
    return compare(ops.add(row, shift), column)


def _offset(name: str, k: Any) -> Any:
    if isinstance(k, Tracer):
        return k
    aval = getattr(k, "aval", None)
    if aval is not None and (aval.shape or not dtypes.is_integer(aval.dtype)):
        raise errors.DTypeError(f"{name}: k must be an integer scalar, got {aval.str_short()}")
    return operator.index(k)


def _length(name: str, what: str, n: Any) -> Any:
    n = as_size(n.item() if isinstance(n, Tracer) else n)
    if n < 0:
        raise ValueError(f"{name}: negative dimensions are not allowed, got {what}={n}")
    return n


def eye(N: Any, M: Any = None, k: Any = 0, dtype: Any = None, *, device: Any = None) -> Any:
    """The (N, M) matrix with ones on diagonal `k` (which may be traced), zeros elsewhere; of the default float by default.

    Parameters
    ----------
    N, M : int
        Rows and columns; as many by default. Negative numbers raise ValueError.
    device : Device or Sharding, optional
        Where the result lies.

    Returns
    -------
    dtype[N, M]
    """
    rows = _length("eye", "N", N)
    columns = rows if M is None else _length("eye", "M", M)
    dtype = dtypes.default_float() if dtype is None else dtypes.named(dtype)
    return placed(ops.convert_element_type(_band(rows, columns, _offset("eye", k), ops.eq), dtype), device)


def identity(n: Any, dtype: Any = None) -> Any:
    """The (n, n) identity matrix; of the default float by default.

    See `purax.numpy.matrices` for the arguments that its functions share.
    """
    return eye(n, dtype=dtype)


def tri(N: int, M: int | None = None, k: int = 0, dtype: Any = None) -> Any:
    """The (N, M) matrix with ones on and below diagonal `k`; of the default float by default.

    See `purax.numpy.matrices` for the arguments that its functions share.
    """
    rows = _length("tri", "N", N)
    columns = rows if M is None else _length("tri", "M", M)
    dtype = dtypes.default_float() if dtype is None else dtypes.named(dtype)
    return ops.convert_element_type(_band(rows, columns, k, ops.ge), dtype)


def _triangle(name: str, m: Any, k: Any, lower: bool) -> Any:
    check_arraylike(name, m)
    m = as_operand(m)
    shape = m.aval.shape
    if len(shape) < 2:
        raise ValueError(f"Argument to purax.numpy.{name} must be at least 2D")
    kept = _band(shape[-2], shape[-1], k, ops.ge) if lower else _band(shape[-2], shape[-1], k, ops.le)
    kept = ops.broadcast_in_dim(kept, shape, (len(shape) - 2, len(shape) - 1))
    return ops.select_n(kept, ops.full_like(m, 0), m)


def tril(m: Any, k: int = 0) -> Any:
    """The lower triangle of matrices [..., m, n]: zeros above diagonal `k`."""
    return _triangle("tril", m, k, True)


def triu(m: Any, k: int = 0) -> Any:
    """The upper triangle of matrices [..., m, n]: zeros below diagonal `k`."""
    return _triangle("triu", m, k, False)


def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """The diagonal of two axes, as the last axis of the result.

    Raises
    ------
    ValueError
        Fewer than two axes.
    """
    check_arraylike("diagonal", a)
    a = as_operand(a)
    ndim = a.aval.ndim
    if ndim < 2:
        raise ValueError("diagonal requires an array of at least two dimensions.")
    first, second = reduced_axes((axis1, axis2), ndim)
    offset = operator.index(offset)
    rest = [i for i in range(ndim) if i not in (first, second)]
    a = ops.transpose(a, (*rest, first, second))
    return lapack.diagonal(a, offset)


def trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: None = None) -> Any:
    """Sum of the diagonal of two axes; small integers are widened as in `sum`. `out` must be None."""
    refuse("trace", out=out)
    check_arraylike("trace", a)
    a = as_operand(a)
    if isinstance(offset, Tracer):
        return _traced_trace(a, offset, axis1, axis2, dtype)
    return sum(diagonal(a, offset, axis1, axis2), -1, dtype)


def _traced_trace(a: Any, offset: Any, axis1: int, axis2: int, dtype: Any) -> Any:
    first, second = reduced_axes((axis1, axis2), a.aval.ndim)
    rest = [i for i in range(a.aval.ndim) if i not in (first, second)]
    a = ops.transpose(a, (*rest, first, second))
    shape = a.aval.shape
    band = ops.broadcast_in_dim(_band(shape[-2], shape[-1], offset, ops.eq), shape, (len(shape) - 2, len(shape) - 1))
    return sum(ops.select_n(band, ops.full_like(a, 0), a), (-2, -1), dtype)


def diag(v: Any, k: int = 0) -> Any:
    """The matrix with the vector `v` on diagonal `k`, or diagonal `k` of the matrix `v`.

    Raises
    ------
    ValueError
        Neither one axis nor two.
    """
    check_arraylike("diag", v)
    v = as_operand(v)
    ndim = v.aval.ndim
    if ndim == 2:
        return diagonal(v, k)
    if ndim != 1:
        raise ValueError("diag input must be 1d or 2d")
    k = operator.index(k)
    size = v.aval.shape[0] + abs(k)
    flat = _every(v, size + 1, k if k >= 0 else -k * size, size * size)
    return ops.reshape(flat, (size, size))


def _every(v: Any, step: int, start: int, size: int) -> Any:
    """Zeros of a given size with the elements of a vector at `start`, `start + step`, ..."""
    zero = ops.full((), 0, v.aval.dtype)
    count = v.aval.shape[0]
    if count == 0:
        return ops.full((size,), 0, v.aval.dtype)
    return ops.pad(v, zero, [(start, size - start - (count - 1) * step - 1, step - 1)])


def diagflat(v: Any, k: int = 0) -> Any:
    """The matrix with the elements of `v`, flattened, on diagonal `k`."""
    check_arraylike("diagflat", v)
    v = as_operand(v)
    return diag(ops.reshape(v, (v.aval.size,)), k)


def fill_diagonal(a: Any, val: Any, wrap: bool = False, *, inplace: bool = True) -> Any:
    """`a` with its main diagonal replaced by `val`, repeated as needed; `inplace` must be False, since arrays are immutable.

    With `wrap` the diagonal of a tall matrix starts again below the first square.

    Parameters
    ----------
    a : array
        Of two axes, or of equal ones.
    val : array or scalar
    wrap : bool
    inplace : bool
        Must be False.

    Returns
    -------
    array like `a`

    Raises
    ------
    NotImplementedError
        `inplace` is True.
    ValueError
        Fewer than two axes, or more of different sizes.
    """
    if inplace:
        raise NotImplementedError(
            "fill_diagonal cannot write into an array, which is immutable: call it with inplace=False"
        )
    check_arraylike("fill_diagonal", a, val)
    a, val = as_operand(a), as_operand(val)
    shape, size = a.aval.shape, a.aval.size
    if len(shape) < 2:
        raise ValueError("array must be at least 2-d")
    if len(shape) > 2 and len(set(shape)) > 1:
        raise ValueError("All dimensions of input must be of equal length")
    if size == 0 or val.aval.size == 0:
        return a
    step = int(np.cumprod((1, *shape[:0:-1])).sum())  # from one diagonal element to the next in the flattened array
    count = -(-(size if wrap or len(shape) > 2 else min(size, shape[1] * shape[1])) // step)
    val = ops.reshape(ops.convert_element_type(val, a.aval.dtype), (val.aval.size,))
    if val.aval.size < count:
        val = ops.tile(val, (-(-count // val.aval.size),))
    chosen = _every(ops.full((count,), True, dtypes.bool_), step, 0, size)
    values = _every(ops.slice_in_dim(val, 0, count), step, 0, size)
    return ops.select_n(ops.reshape(chosen, shape), a, ops.reshape(values, shape))


def vander(x: Any, N: int | None = None, increasing: bool = False) -> Any:
    """Powers of a vector as columns, the highest first unless `increasing`; N columns (default: square).

    Parameters
    ----------
    x : array[n]
    N : int, optional
    increasing : bool

    Returns
    -------
    array[n, N]

    Raises
    ------
    ValueError
        `x` has not one axis, or N is negative.

    Examples
    --------
    >>> pnp.vander(pnp.array([2, 3]), 3).tolist()
    [[4, 2, 1], [9, 3, 1]]
    """
    check_arraylike("vander", x)
    x = as_operand(x)
    if x.aval.ndim != 1:
        raise ValueError("x must be a one-dimensional array")
    size = x.aval.shape[0]
    count = size if N is None else operator.index(N)
    if count < 0:
        raise ValueError("N must be nonnegative")
    x = convert(x, dtypes.default_int() if dtypes.is_bool(x.aval.dtype) else x.aval.dtype)
    columns = [ops.reshape(ops.integer_pow(x, power), (size, 1)) for power in range(count)]
    if not columns:
        return ops.full((size, 0), 0, x.aval.dtype)
    return ops.concatenate(columns if increasing else columns[::-1], 1)


# ---- indices of diagonals and triangles


def _indices(*found: Any) -> tuple[Any, ...]:
    return tuple([as_operand(np.asarray(index, dtypes.default_int())) for index in found])


def diag_indices(n: int, ndim: int = 2) -> tuple[Any, ...]:
    """Indices of the main diagonal of an array with `ndim` axes of size `n`.

    Raises
    ------
    ValueError
        A negative number.
    """
    n, ndim = operator.index(n), operator.index(ndim)
    if n < 0:
        raise ValueError(f"n argument to diag_indices must be nonnegative, got {n}")
    if ndim < 0:
        raise ValueError(f"ndim argument to diag_indices must be nonnegative, got {ndim}")
    return (ops.iota(dtypes.default_int(), n),) * ndim


def diag_indices_from(arr: Any) -> tuple[Any, ...]:
    """Indices of the main diagonal of an array whose axes have one size.

    Raises
    ------
    ValueError
        Fewer than two axes, or different sizes.
    """
    check_arraylike("diag_indices_from", arr)
    shape = aval_of(arr).shape
    if len(shape) < 2:
        raise ValueError("input array must be at least 2-d")
    if len(set(shape)) != 1:
        raise ValueError("All dimensions of input must be of equal length")
    return diag_indices(shape[0], len(shape))


def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Any, ...]:
    """Indices (rows, columns), integers, of the lower triangle of an (n, m) matrix; m is n by default.

    Parameters
    ----------
    n, m : int

    Returns
    -------
    (int[k], int[k])
    """
    return _indices(*np.tril_indices(operator.index(n), k, m))


def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Any, ...]:
    """Indices (rows, columns), integers, of the upper triangle of an (n, m) matrix; m is n by default.

    Parameters
    ----------
    n, m : int

    Returns
    -------
    (int[k], int[k])
    """
    return _indices(*np.triu_indices(operator.index(n), k, m))


def _matrix_shape(arr: Any) -> tuple[int, int]:
    shape = aval_of(arr).shape
    if len(shape) != 2:
        raise ValueError("Only 2-D inputs are accepted")
    return shape


def tril_indices_from(arr: Any, k: int = 0) -> tuple[Any, ...]:
    """Indices of the lower triangle of a matrix."""
    rows, columns = _matrix_shape(arr)
    return tril_indices(rows, k, columns)


def triu_indices_from(arr: Any, k: int = 0) -> tuple[Any, ...]:
    """Indices of the upper triangle of a matrix."""
    rows, columns = _matrix_shape(arr)
    return triu_indices(rows, k, columns)


def mask_indices(n: int, mask_func: Any, k: int = 0, *, size: int | None = None) -> tuple[Any, Any]:
    """Indices of the elements of an (n, n) matrix that ``mask_func(matrix, k)`` keeps, such as `triu`.

    Parameters
    ----------
    n : int
    mask_func : callable
    size : int, optional
        Length of the result; needed while tracing.

    Returns
    -------
    (int[size], int[size])
    """
    kept = mask_func(ops.full((n, n), 1, dtypes.default_int()), k)
    return nonzero(kept, size=size)
