# SPDX-License-Identifier: Apache-2.0
"""Statistics and signals: histograms, counts, covariance, differences, gradients, interpolation, convolution.

Results have the inexact dtype of the operands unless a function says otherwise.
"""

from __future__ import annotations

import builtins
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from purax import dtypes, errors
from purax.core.trace import Tracer, aval_of
from purax.numpy import _ops as ops
from purax.numpy.arithmetic import add, multiply, remainder, subtract, true_divide
from purax.numpy.comparison import less, not_equal
from purax.numpy.contraction import tensordot
from purax.numpy.creation import asarray, linspace
from purax.numpy.elementwise import conj
from purax.numpy.promotion import (
    as_operand,
    broadcast_to_shape,
    check_arraylike,
    convert,
    joint_shape,
    numeric,
    promote_dtypes,
    promote_dtypes_anyhow,
    promote_dtypes_inexact,
    spread,
)
from purax.numpy.reduction import average, max, min, reduced_axes, sum
from purax.numpy.selection import clip, where
from purax.numpy.shape import concatenate, ravel, take_rows
from purax.numpy.sorting import argsort, searchsorted
from purax.numpy.updating import index_update

__all__ = [
    "bincount", "convolve", "corrcoef", "correlate", "cov", "diff", "digitize", "ediff1d", "gradient", "histogram",
    "histogram2d", "histogram_bin_edges", "histogramdd", "interp", "trapezoid", "unwrap",
]  # fmt: skip


# ---- counts


def bincount(
    x: Any, weights: Any = None, minlength: int = 0, *, length: int | None = None, out_sharding: Any = None
) -> Any:
    """How often each integer from 0 on occurs in a vector, or the sum of its weights.

    Negative integers count as 0. `length` fixes the size of the result, which is needed when `x` is traced; larger ones are left out.

    Parameters
    ----------
    x : integer[n] or bool[n]
    weights : array[n], optional
    minlength : int
        The result is at least as long.
    length : int, optional
    out_sharding : optional
        Without effect.

    Returns
    -------
    int[length], or array[length] of the dtype of the weights

    Raises
    ------
    DTypeError
        `x` is not of integers.
    ValueError
        `x` has not one axis, weights of another shape, or a negative `minlength`.

    Examples
    --------
    >>> pnp.bincount(pnp.array([0, 2, 2])).tolist()
    [1, 0, 2]
    """
    del out_sharding
    check_arraylike("bincount", x)
    x = as_operand(x)
    if not dtypes.is_integer(x.aval.dtype) and not dtypes.is_bool(x.aval.dtype):
        raise errors.DTypeError(f"x argument to bincount must have an integer type; got {x.aval.dtype}")
    if x.aval.ndim != 1:
        raise ValueError("only 1-dimensional input supported.")
    minlength = operator.index(minlength)
    if minlength < 0:
        raise ValueError("'minlength' must not be negative.")
    if length is None:
        if isinstance(x, Tracer):
            x._known(errors.ConcretizationTypeError, "the length of the result of bincount", "give length=")
        known = np.asarray(x)
        length = builtins.max(minlength, int(known.max()) + 1 if known.size else 0)
    else:
        length = operator.index(length)
    if weights is None:
        weights = ops.full(x.aval.shape, 1, dtypes.default_int())
    else:
        check_arraylike("bincount", weights)
        weights = as_operand(weights)
        if weights.aval.shape != x.aval.shape:
            raise ValueError("shape of weights must match shape of x.")
    zeros = ops.full((length,), 0, weights.aval.dtype)
    return index_update(zeros)[clip(x, 0, None)].add(weights, mode="drop")


def digitize(x: Any, bins: Any, right: bool = False, *, method: str | None = None) -> Any:
    """For each element the number of the bin it falls into; `bins` rise or fall, and belong to the right if `right`.

    Parameters
    ----------
    x : real[...]
    bins : real[n]
    right : bool
    method : str, optional
        As in `searchsorted`.

    Returns
    -------
    int32[...]

    Raises
    ------
    ValueError
        `bins` has not one axis.
    """
    check_arraylike("digitize", x, bins)
    bins = as_operand(bins)
    if bins.aval.ndim != 1:
        raise ValueError(f"digitize: bins must be a 1-dimensional array; got {bins.aval.str_short()}")
    if bins.aval.shape[0] == 0:
        return ops.full(np.shape(x), 0, dtypes.int32)
    side = "right" if not right else "left"
    how = {} if method is None else {"method": method}
    up = searchsorted(bins, x, side=side, **how)
    down = ops.sub(ops.full_like(up, bins.aval.size), searchsorted(ops.rev(bins, (0,)), x, side=side, **how))
    rising = ops.ge(bins[-1], bins[0])
    return where(rising, up, down)


def histogram_bin_edges(a: Any, bins: Any = 10, range: Any = None, weights: Any = None) -> Any:
    """The edges of equal bins from the smallest to the largest element, or over `range`; `bins` itself if it is an array.

    Parameters
    ----------
    a : real[...]
    bins : int or real[n + 1]
    range : (float, float), optional
    weights : optional
        Without effect.

    Returns
    -------
    array[n + 1]

    Raises
    ------
    NotImplementedError
        `bins` is a string.
    ValueError
        `range` is no pair.
    """
    del weights
    if isinstance(bins, str):
        raise NotImplementedError("string values for `bins` are not supported: give a number of bins, or their edges")
    check_arraylike("histogram_bin_edges", a, bins)
    a = as_operand(a)
    if aval_of(bins).ndim == 1:
        return as_operand(bins)
    count = operator.index(bins.item() if isinstance(bins, Tracer) else bins)
    dtype = dtypes.to_inexact(a.aval.dtype)
    if range is None:
        flat = ravel(a)
        low, high = (min(flat), max(flat)) if flat.aval.size else (ops.full((), 0, dtype), ops.full((), 1, dtype))
    else:
        bounds = asarray(range)
        if bounds.aval.shape != (2,):
            raise ValueError(f"`range` must be either None or a sequence of scalars, got shape {bounds.aval.shape}")
        low, high = bounds[0], bounds[1]
    low, high = convert(low, dtype), convert(high, dtype)
    same = ops.eq(low, high)
    half = ops.full((), 0.5, dtype)
    low, high = where(same, ops.sub(low, half), low), where(same, ops.add(high, half), high)
    return linspace(low, high, count + 1, dtype=dtype)


def histogram(
    a: Any, bins: Any = 10, range: Any = None, weights: Any = None, density: bool | None = None
) -> tuple[Any, Any]:
    """Counts, or sums of weights, per bin, and the edges of the bins; with `density` divided by total and width.

    Parameters
    ----------
    a : real[...]
    bins, range
        As in `histogram_bin_edges`.
    weights : array like `a`, optional
    density : bool, optional

    Returns
    -------
    (array[n], array[n + 1])

    Raises
    ------
    ValueError
        Weights of another shape.
    """
    if weights is None:
        check_arraylike("histogram", a, bins)
        (a,) = promote_dtypes_inexact(a)
        weights = ops.full(a.aval.shape, 1, a.aval.dtype)
    else:
        check_arraylike("histogram", a, bins, weights)
        if np.shape(a) != np.shape(weights):
            raise ValueError("weights should have the same shape as a.")
        a, weights = promote_dtypes_inexact(a, weights)
    edges = histogram_bin_edges(a, bins, range)
    flat, weights = ravel(a), ravel(weights)
    counts = _count_bins([flat], [edges], weights)
    if density:
        counts = _density(counts, [edges])
    return counts, edges


def _density(counts: Any, edges: list[Any]) -> Any:
    """Counts divided by their sum and by the sizes of the boxes."""
    (counts,) = promote_dtypes_inexact(counts)
    counts = true_divide(counts, sum(counts))
    for axis, edge in enumerate(edges):
        widths = convert(diff(edge), counts.aval.dtype)
        counts = ops.div(counts, ops.broadcast_in_dim(widths, counts.aval.shape, (axis,)))
    return counts


def _count_bins(columns: list[Any], edges: list[Any], weights: Any) -> Any:
    """Sums of weights in the boxes that edges per axis span; the last edge of an axis belongs to its last bin."""
    shape = tuple(edge.aval.shape[0] - 1 for edge in edges)
    place = None
    inside = None
    for x, edge, size in zip(columns, edges, shape, strict=True):
        edge, x = promote_dtypes_anyhow(edge, x)
        index = ops.sub(searchsorted(edge, x, side="right"), ops.full(x.aval.shape, 1, dtypes.int32))
        last = ops.eq(x, ops.broadcast_to(edge[-1], x.aval.shape))
        index = ops.select_n(last, index, ops.full_like(index, size - 1))
        valid = ops.bitwise_and(ops.ge(index, ops.full_like(index, 0)), ops.lt(index, ops.full_like(index, size)))
        inside = valid if inside is None else ops.bitwise_and(inside, valid)
        place = index if place is None else ops.add(ops.mul(place, ops.full_like(index, size)), index)
    total = int(np.prod(shape))
    place = ops.select_n(inside, ops.full_like(place, total), place)
    sums = index_update(ops.full((total,), 0, weights.aval.dtype))[place].add(weights, mode="drop")
    return ops.reshape(sums, shape)


def histogram2d(
    x: Any, y: Any, bins: Any = 10, range: Any = None, weights: Any = None, density: bool | None = None
) -> tuple[Any, Any, Any]:
    """Counts, or sums of weights, of points (x, y) per box, and the edges along both axes.

    Parameters
    ----------
    x, y : real[n]
    bins : int, array, or a pair of these
    range : pair of (float, float) or None, optional
    weights : array[n], optional
    density : bool, optional
        Divide by total and area.

    Returns
    -------
    (array[k, l], array[k + 1], array[l + 1])
    """
    check_arraylike("histogram2d", x, y)
    try:
        several = len(bins)
    except TypeError:
        several = 1
    if several not in (1, 2):
        bins = [asarray(bins)] * 2
    sample = concatenate([ops.reshape(v, (v.aval.size, 1)) for v in promote_dtypes(x, y)], 1)
    counts, edges = histogramdd(sample, bins, range, weights, density)
    return counts, edges[0], edges[1]


def histogramdd(
    sample: Any, bins: Any = 10, range: Any = None, weights: Any = None, density: bool | None = None
) -> tuple[Any, list[Any]]:
    """Counts, or sums of weights, of points (rows of `sample`) per box, and the edges along each axis.

    Parameters
    ----------
    sample : real[n, d]
    bins : int, or sequence of d ints or arrays
    range : sequence of d pairs or None, optional
    weights : array[n], optional
    density : bool, optional
        Divide by total and volume.

    Returns
    -------
    (array with d axes, list of d arrays)

    Raises
    ------
    ValueError
        Shapes or numbers that do not fit.
    """
    if weights is None:
        check_arraylike("histogramdd", sample)
        sample = as_operand(sample)
        total_weights = ops.full(sample.aval.shape[:1], 1, dtypes.default_int())
    else:
        check_arraylike("histogramdd", sample, weights)
        sample = as_operand(sample)
        (total_weights,) = promote_dtypes_inexact(weights)
    (points,) = promote_dtypes_inexact(sample)
    if points.aval.ndim != 2:
        raise ValueError(f"histogramdd takes points as rows of a matrix, got shape {points.aval.shape}")
    if total_weights.aval.shape != points.aval.shape[:1]:
        raise ValueError("should have one weight for each sample.")
    count, rank = points.aval.shape
    if range is not None and (len(range) != rank or any(r is not None and len(r) != 2 for r in range)):
        raise ValueError(
            f"For sample.shape={(count, rank)}, range must be a sequence of {rank} pairs or Nones; got {range=}"
        )
    if isinstance(bins, (list, tuple)) or np.ndim(bins):
        if len(bins) != rank:
            raise ValueError("should be a bin for each dimension.")
        each = list(bins)
    else:
        each = [bins] * rank
    columns = [points[:, i] for i in builtins.range(rank)]
    edges = [
        histogram_bin_edges(column, choice, None if range is None else range[i])
        for i, (column, choice) in enumerate(zip(columns, each, strict=True))
    ]
    counts = _count_bins(columns, edges, total_weights)
    if density:
        counts = _density(counts, edges)
    return counts, edges


# ---- covariance


def cov(
    m: Any, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: int | None = None, fweights: Any = None,
    aweights: Any = None, dtype: Any = None,
) -> Any:  # fmt: skip
    """Covariance of variables.

    Parameters
    ----------
    m : array[n] or array[k, n]
        Variables are rows, or columns unless `rowvar`.
    y : array, optional
        More variables.
    rowvar : bool
    bias : bool
        Divide by n; else by n - 1.
    ddof : int, optional
        Divide by n - ddof, whatever `bias` is.
    fweights : integer[n], optional
        How often each observation counts.
    aweights : real[n], optional
        How much it counts.
    dtype : dtype, optional

    Returns
    -------
    array[k, k] of inexact dtype, without axes of size 1

    Raises
    ------
    ValueError
        More than two axes.
    """
    if y is not None:
        check_arraylike("cov", m, y)
        m, y = promote_dtypes_inexact(m, y)
        if y.aval.ndim > 2:
            raise ValueError("y has more than 2 dimensions")
    else:
        check_arraylike("cov", m)
        (m,) = promote_dtypes_inexact(m)
    if m.aval.ndim > 2:
        raise ValueError("m has more than 2 dimensions")
    x = _variables(m, rowvar)
    if y is not None:
        x = ops.concatenate([x, _variables(y, rowvar if y.aval.ndim > 1 else True)], 0)
    if dtype is not None:
        x = convert(x, dtypes.named(dtype))
    if ddof is None:
        ddof = 1 if not bias else 0
    weights = _observation_weights(x, fweights, aweights)
    center = average(x, axis=1, weights=weights)
    count = ops.full((), x.aval.shape[1], dtypes.real_dtype(dtypes.to_inexact(x.aval.dtype)))
    total = count if weights is None else sum(weights)
    if weights is None:
        factor: Any = ops.full_like(total, builtins.max(x.aval.shape[1] - ddof, 0))
    elif ddof == 0:
        factor = total
    elif aweights is None:
        factor = ops.sub(total, ops.full_like(total, ddof))
    else:
        factor = subtract(total, true_divide(multiply(sum(multiply(weights, asarray(aweights))), ddof), total))
    x = subtract(x, ops.broadcast_in_dim(center, x.aval.shape, (0,)))
    scaled = x if weights is None else multiply(x, ops.broadcast_in_dim(weights, x.aval.shape, (1,)))
    product = tensordot(x, conj(scaled), ((1,), (1,)))
    result = true_divide(product, ops.convert_element_type(factor, product.aval.dtype))
    return ops.reshape(result, tuple(n for n in result.aval.shape if n != 1)) if 1 in result.aval.shape else result


def _variables(m: Any, rowvar: bool) -> Any:
    x = ops.broadcast_to_rank(m, 2)
    return ops.transpose(x, (1, 0)) if not rowvar and m.aval.ndim > 1 else x


def _observation_weights(x: Any, fweights: Any, aweights: Any) -> Any:
    weights = None
    for name, given in (("fweights", fweights), ("aweights", aweights)):
        if given is None:
            continue
        check_arraylike("cov", given)
        given = as_operand(given)
        if given.aval.ndim > 1:
            raise RuntimeError(f"cannot handle multidimensional {name}")
        if given.aval.shape != x.aval.shape[1:]:
            raise RuntimeError(f"incompatible numbers of samples and {name}")
        if name == "fweights" and not dtypes.is_integer(given.aval.dtype):
            raise errors.DTypeError("fweights must be integer.")
        given = (
            convert(given, x.aval.dtype)
            if not dtypes.is_complex(x.aval.dtype)
            else convert(given, dtypes.real_dtype(x.aval.dtype))
        )
        weights = given if weights is None else ops.mul(weights, given)
    return weights


def corrcoef(x: Any, y: Any = None, rowvar: bool = True, dtype: Any = None) -> Any:
    """Correlation coefficients of variables; see `cov`.

    Parameters
    ----------
    x, y, rowvar, dtype
        As m, y, rowvar and dtype in `cov`.

    Returns
    -------
    array[k, k] of inexact dtype
        Parts lie between -1 and 1.
    """
    check_arraylike("corrcoef", x)
    matrix = cov(x, y, rowvar, dtype=dtype)
    if matrix.aval.ndim == 0:
        return true_divide(matrix, matrix)
    variances = ops.real(matrix.diagonal()) if dtypes.is_complex(matrix.aval.dtype) else matrix.diagonal()
    deviations = ops.sqrt(variances)
    shape = matrix.aval.shape
    for axis in (0, 1):
        matrix = true_divide(matrix, ops.broadcast_in_dim(deviations, shape, (axis,)))
    if dtypes.is_complex(matrix.aval.dtype):
        return ops.complex(clip(ops.real(matrix), -1, 1), clip(ops.imag(matrix), -1, 1))
    return clip(matrix, -1, 1)


# ---- differences


def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Any:
    """`n` times the differences of neighbours along an axis; of booleans, whether they differ.

    Parameters
    ----------
    a : array
    n : int
    axis : int
    prepend, append : array or scalar, optional
        Joined to the array first.

    Returns
    -------
    array of the dtype of `a`

    Raises
    ------
    ValueError
        `n` is negative, or `a` a scalar.

    Examples
    --------
    >>> pnp.diff(pnp.array([1, 4, 9])).tolist()
    [3, 5]
    """
    check_arraylike("diff", a)
    a = as_operand(a)
    n = operator.index(n)
    if n == 0:
        return a
    if n < 0:
        raise ValueError(f"order must be non-negative but got {n}")
    if a.aval.ndim == 0:
        raise ValueError("diff requires input that is at least one dimensional; got 0d")
    (axis,) = reduced_axes(operator.index(axis), a.aval.ndim)
    ends = [_end("diff", value, a, axis) for value in (prepend, append)]
    parts = [part for part in (ends[0], a, ends[1]) if part is not None]
    if len(parts) > 1:
        a = concatenate(parts, axis)
    for _ in builtins.range(n):
        size = a.aval.shape[axis]
        if size == 0:
            return a
        after = ops.slice_in_dim(a, 1, size, axis=axis)
        before = ops.slice_in_dim(a, 0, size - 1, axis=axis)
        a = not_equal(after, before) if dtypes.is_bool(a.aval.dtype) else ops.sub(after, before)
    return a


def _end(name: str, value: Any, a: Any, axis: int) -> Any:
    if value is None:
        return None
    check_arraylike(name, value)
    value = as_operand(value)
    if value.aval.ndim:
        return value
    return broadcast_to_shape(value, tuple([1 if i == axis else size for i, size in enumerate(a.aval.shape)]))


def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    """Differences of neighbours of the flattened array, with given numbers in front and behind.

    Parameters
    ----------
    ary : array
    to_end, to_begin : array or scalar, optional

    Returns
    -------
    array[n] of the dtype of `ary`
    """
    check_arraylike("ediff1d", ary, *[v for v in (to_end, to_begin) if v is not None])
    flat = ravel(ary)
    size = flat.aval.size
    result = ops.sub(ops.slice_in_dim(flat, 1, size), ops.slice_in_dim(flat, 0, size - 1)) if size else flat
    parts = [None if v is None else ops.convert_element_type(ravel(v), flat.aval.dtype) for v in (to_begin, to_end)]
    return ops.concatenate([p for p in (parts[0], result, parts[1]) if p is not None], 0)


def gradient(f: Any, *varargs: Any, axis: int | Sequence[int] | None = None, edge_order: int | None = None) -> Any:
    """Derivative along axes by central differences, one-sided at the ends.

    Parameters
    ----------
    f : array
    *varargs : scalar or array
        Distance of neighbours, or coordinates; one for all axes, or one for each.
    axis : int or sequence of int, optional
    edge_order : {1, 2, None}
        Order of the differences at the ends.

    Returns
    -------
    array, or list of arrays for several axes

    Raises
    ------
    ValueError
        Another `edge_order`, an axis that is too short, or distances that do not fit.
    TypeError
        Not as many distances as axes.
    """
    check_arraylike("gradient", f, *varargs)
    (a,) = promote_dtypes_inexact(f)
    order = 1 if edge_order is None else operator.index(edge_order)
    if order not in (1, 2):
        raise ValueError(f"edge_order must be 1 or 2, got {edge_order}")
    axes = reduced_axes(axis, a.aval.ndim)
    for i in axes:
        if a.aval.shape[i] < order + 1:
            raise ValueError(
                "Shape of array too small to calculate a numerical gradient, at least 2 elements are required."
            )
    if len(varargs) not in (0, 1, len(axes)):
        raise TypeError(f"Invalid number of spacing arguments {len(varargs)} for {axis=}")
    steps = list(varargs) or [1.0]
    steps = steps * len(axes) if len(steps) == 1 else steps
    results = [_derivative(a, step, i, order) for i, step in zip(axes, steps, strict=True)]
    return results[0] if len(axes) == 1 else results


def _derivative(a: Any, step: Any, axis: int, order: int) -> Any:
    step = as_operand(step)
    size = a.aval.shape[axis]
    if step.aval.ndim > 1:
        raise ValueError("Spacing arguments must be scalars or 1D arrays")
    if step.aval.ndim and step.aval.shape[0] != size:
        raise ValueError(
            f"when 1d, distances must match the length of the corresponding dimension: {step.aval.shape[0]} and {size}"
        )
    a, step = promote_dtypes_inexact(a, step)
    result_dtype = a.aval.dtype
    if (
        dtypes.is_float(result_dtype) and dtypes.itemsize_bits(result_dtype) < 32
    ):  # quotients of differences need more digits
        a, step = convert(a, dtypes.float32), convert(step, dtypes.float32)

    def rows(start: int, stop: int) -> Any:
        return ops.slice_in_dim(a, start, stop, axis=axis)

    def along(v: Any) -> Any:
        shape = tuple([v.aval.shape[0] if i == axis else n for i, n in enumerate(a.aval.shape)])
        return ops.broadcast_in_dim(v, shape, (axis,))

    if step.aval.ndim == 0:
        gaps = ops.broadcast_to(step, (size - 1,))
        middle = ops.div(
            ops.sub(rows(2, size), rows(0, size - 2)),
            along(ops.mul(gaps[1:], ops.full((size - 2,), 2, gaps.aval.dtype))),
        )
    else:
        gaps = ops.sub(step[1:], step[:-1])
        before, after = along(gaps[:-1]), along(gaps[1:])
        both = ops.add(before, after)
        low = ops.mul(ops.div(after, ops.mul(before, both)), ops.neg(rows(0, size - 2)))
        mid = ops.mul(ops.div(ops.sub(after, before), ops.mul(before, after)), rows(1, size - 1))
        high = ops.mul(ops.div(before, ops.mul(after, both)), rows(2, size))
        middle = ops.add(ops.add(low, mid), high)
    first = ops.div(ops.sub(rows(1, 2), rows(0, 1)), along(gaps[:1]))
    last = ops.div(ops.sub(rows(size - 1, size), rows(size - 2, size - 1)), along(gaps[-1:]))
    if order == 2:
        first, last = _second_order_ends(rows, along, gaps, size, first, last)
    return convert(ops.concatenate([first, middle, last], axis), result_dtype)


def _second_order_ends(rows: Any, along: Any, gaps: Any, size: int, first: Any, last: Any) -> tuple[Any, Any]:
    """One-sided differences of order two: the first slope and what it changes by over half a step."""
    second = ops.div(ops.sub(rows(2, 3), rows(1, 2)), along(gaps[1:2]))
    before_last = ops.div(ops.sub(rows(size - 2, size - 1), rows(size - 3, size - 2)), along(gaps[-2:-1]))

    def extrapolate(near: Any, far: Any, near_gap: Any, far_gap: Any) -> Any:
        share = ops.div(near_gap, ops.add(near_gap, far_gap))
        return ops.add(near, ops.mul(share, ops.sub(near, far)))

    return (
        extrapolate(first, second, along(gaps[:1]), along(gaps[1:2])),
        extrapolate(last, before_last, along(gaps[-1:]), along(gaps[-2:-1])),
    )


def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    """Integral along an axis by the trapezoidal rule, over coordinates `x` or steps `dx`.

    Parameters
    ----------
    y : array
    x : array, optional
        Of the axis, or of the shape of `y`.
    dx : scalar or array
    axis : int

    Returns
    -------
    array without the axis

    Examples
    --------
    >>> pnp.trapezoid(pnp.array([0.0, 1.0, 2.0])).item()
    2.0
    """
    if x is None:
        check_arraylike("trapezoid", y)
        (y,) = promote_dtypes_inexact(y)
        step: Any = asarray(dx)
    else:
        check_arraylike("trapezoid", y, x)
        y, x = promote_dtypes_inexact(y, x)
        step = diff(x) if x.aval.ndim == 1 else diff(x, axis=axis)
    (axis,) = reduced_axes(operator.index(axis), y.aval.ndim)
    size = y.aval.shape[axis]
    if x is not None and x.aval.ndim == 1:
        step = ops.reshape(step, [step.aval.size if i == axis else 1 for i in builtins.range(y.aval.ndim)])
    pairs = ops.add(
        ops.slice_in_dim(y, builtins.min(size, 1), size, axis=axis),
        ops.slice_in_dim(y, 0, builtins.max(size - 1, 0), axis=axis),
    )
    shape = joint_shape("trapezoid", step.aval.shape, pairs.aval.shape)
    return multiply(sum(multiply(spread(step, shape), spread(pairs, shape)), axis), 0.5)


def unwrap(p: Any, discont: Any = None, axis: int = -1, period: Any = 6.283185307179586) -> Any:
    """Take out jumps of more than half a period (or `discont`) between neighbours along an axis, by whole periods.

    Parameters
    ----------
    p : real[...]
    discont : scalar, optional
    axis : int
    period : scalar

    Returns
    -------
    array of the shape of `p`

    Raises
    ------
    ValueError
        Complex numbers.
    """
    check_arraylike("unwrap", p)
    p = as_operand(p)
    dtype = numeric(
        *dtypes.promote_pair(p.aval.dtype, p.aval.weak_type, aval_of(period).dtype, aval_of(period).weak_type)
    )[0]
    if dtypes.is_complex(dtype):
        raise ValueError("purax.numpy.unwrap does not support complex inputs.")
    (axis,) = reduced_axes(operator.index(axis), p.aval.ndim)
    p = convert(p, dtype)
    if p.aval.shape[axis] == 0:
        return p
    if dtypes.is_integer(dtype):
        half = ops.div(convert(period, dtype), ops.full((), 2, dtype))
        ambiguous = ops.eq(ops.rem(convert(period, dtype), ops.full((), 2, dtype)), ops.full((), 0, dtype))
    else:
        half = ops.mul(convert(period, dtype), ops.full((), 0.5, dtype))
        ambiguous = ops.full((), True, dtypes.bool_)
    jump = diff(p, axis=axis)
    low = ops.neg(half)
    folded = subtract(remainder(subtract(jump, low), convert(period, dtype)), half)
    at_low = ops.bitwise_and(
        ops.eq(folded, ops.broadcast_to(low, folded.aval.shape)), ops.gt(jump, ops.full_like(jump, 0))
    )
    at_low = ops.bitwise_and(at_low, ops.broadcast_to(ambiguous, folded.aval.shape))
    folded = ops.select_n(at_low, folded, ops.broadcast_to(half, folded.aval.shape))
    correction = ops.sub(folded, jump)
    small = less(ops.abs(jump), half if discont is None else discont)
    correction = ops.select_n(small, correction, ops.full_like(correction, 0))
    total = ops.cumsum(correction, axis)
    first = ops.slice_in_dim(p, 0, 1, axis=axis)
    rest = ops.add(ops.slice_in_dim(p, 1, p.aval.shape[axis], axis=axis), total)
    return ops.concatenate([first, rest], axis)


# ---- interpolation and convolution


def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None) -> Any:
    """Linear interpolation of points (xp, fp), `xp` rising, at `x`.

    Outside of the points the value is that of the nearest one, or `left` and `right`; either may be "extrapolate". With `period`
    the abscissas are taken modulo it.

    Parameters
    ----------
    x : real[...]
    xp : real[n]
    fp : array[n]
    left, right : scalar or "extrapolate", optional
    period : scalar, optional

    Returns
    -------
    array of the shape of `x` and the inexact dtype at which `fp` and `x` meet

    Raises
    ------
    ValueError
        Shapes that do not fit, complex abscissas, or another string.

    Examples
    --------
    >>> pnp.interp(1.5, pnp.array([1.0, 2.0]), pnp.array([10.0, 20.0])).item()
    15.0
    """
    for name, value in (("left", left), ("right", right)):
        if isinstance(value, str) and value != "extrapolate":
            raise ValueError(f"the only valid string value of `{name}` is 'extrapolate', but got: {value!r}")
    check_arraylike("interp", x, xp, fp)
    if aval_of(xp).shape != aval_of(fp).shape or aval_of(xp).ndim != 1:
        raise ValueError("xp and fp must be one-dimensional arrays of equal size")
    if not aval_of(xp).size:
        raise ValueError("interp: xp and fp are empty, so there is nothing to interpolate between")
    x, xp = promote_dtypes_inexact(x, xp)
    fp, _ = promote_dtypes_inexact(fp, x)  # differences of heights are of the result's dtype, too
    if dtypes.is_complex(x.aval.dtype):
        raise ValueError("purax.numpy.interp: complex x values not supported.")
    if period is not None:
        if aval_of(period).ndim:
            raise ValueError(f"period must be a scalar; got {period}")
        span = ops.abs(convert(period, x.aval.dtype))
        x, xp = remainder(x, span), remainder(xp, span)
        order = argsort(xp)
        xp, fp = take_rows(xp, order, 0), take_rows(fp, order, 0)
        xp = ops.concatenate(
            [ops.sub(xp[-1:], ops.reshape(span, (1,))), xp, ops.add(xp[:1], ops.reshape(span, (1,)))], 0
        )
        fp = ops.concatenate([fp[-1:], fp, fp[:1]], 0)
    size = xp.aval.shape[0]
    shape = x.aval.shape
    if size == 1:
        value = ops.broadcast_to(fp[0], shape)
    else:
        index = clip(searchsorted(xp, x, side="right"), 1, size - 1)
        flat = ravel(index)

        def at(points: Any, places: Any) -> Any:
            return ops.reshape(take_rows(points, places, 0), shape)

        before = ops.sub(flat, ops.full_like(flat, 1))
        x0, x1, f0, f1 = at(xp, before), at(xp, flat), at(fp, before), at(fp, flat)
        gap = ops.sub(x1, x0)
        empty = ops.eq(gap, ops.full_like(gap, 0))
        share = ops.div(ops.sub(x, x0), ops.select_n(empty, gap, ops.full_like(gap, 1)))
        value = where(empty, f0, add(f0, multiply(share, ops.sub(f1, f0))))
    first, last = ops.broadcast_to(xp[0], shape), ops.broadcast_to(xp[-1], shape)
    if period is None and not isinstance(left, str):
        value = where(ops.lt(x, first), fp[0] if left is None else left, value)
    if period is None and not isinstance(right, str):
        value = where(ops.gt(x, last), fp[-1] if right is None else right, value)
    return value


def convolve(a: Any, v: Any, mode: str = "full", *, precision: Any = None, preferred_element_type: Any = None) -> Any:
    """Convolution of two vectors; `mode` is "full", "same" or "valid". Integers are computed in floating point.

    Parameters
    ----------
    a, v : array[m], array[n]
    mode : str
        "full": m + n - 1 elements; "same": max(m, n); "valid": where one lies within the other.
    precision, preferred_element_type
        As in `dot`.

    Returns
    -------
    array of inexact dtype
    """
    return _convolve("convolve", a, v, mode, precision, preferred_element_type)


def correlate(a: Any, v: Any, mode: str = "valid", *, precision: Any = None, preferred_element_type: Any = None) -> Any:
    """Cross-correlation of two vectors, the second conjugated; `mode` is "valid", "same" or "full".

    Parameters
    ----------
    a, v : array[m], array[n]
    mode : str
        As in `convolve`.
    precision, preferred_element_type
        As in `dot`.

    Returns
    -------
    array of inexact dtype
    """
    return _convolve("correlate", a, v, mode, precision, preferred_element_type)


def _convolve(name: str, x: Any, y: Any, mode: str, precision: Any, preferred: Any) -> Any:
    check_arraylike(name, x, y)
    if aval_of(x).ndim != 1 or aval_of(y).ndim != 1:
        raise ValueError(f"{name}() only support 1-dimensional inputs.")
    x, y = promote_dtypes_inexact(x, y)
    if x.aval.size == 0 or y.aval.size == 0:
        raise ValueError(f"{name}: inputs cannot be empty, got shapes {x.aval.shape} and {y.aval.shape}.")
    backward = False
    if name == "correlate":
        y = conj(y)
        if x.aval.size < y.aval.size:
            # Correlation is not symmetric: with the operands exchanged the result runs backward.
            x, y, backward = y, x, True
        kernel = y
    else:
        if x.aval.size < y.aval.size:
            x, y = y, x
        kernel = ops.rev(y, (0,))
    width = kernel.aval.size
    if mode == "valid":
        padding = (0, 0)
    elif mode == "same":
        short = (width - 1) // 2
        padding = (width - 1 - short, short)
    elif mode == "full":
        padding = (width - 1, width - 1)
    else:
        raise ValueError("mode must be one of ['full', 'same', 'valid']")
    result = ops.conv_general_dilated(
        ops.reshape(x, (1, 1, x.aval.size)), ops.reshape(kernel, (1, 1, width)), window_strides=(1,), padding=(padding,),
        precision=precision, preferred_element_type=None if preferred is None else dtypes.named(preferred),
    )  # fmt: skip
    result = ops.reshape(result, result.aval.shape[2:])
    return ops.rev(result, (0,)) if backward else result
