# SPDX-License-Identifier: Apache-2.0
"""Order statistics: quantiles, percentiles, medians, with and without NaN.

Results have the inexact dtype of the operand and the shape of `q`, followed by the axes that are left.

Parameters
----------
a : real[...]
axis : int, tuple of int or None
    None: all axes.
keepdims : bool
    Leave the axes, with size 1.
out : None
    NumPy's; anything else raises NotImplementedError.
overwrite_input : bool
    NumPy's; True raises ValueError.
q, method, weights
    As in `quantile`.
out_sharding : PartitionSpec or NamedSharding, optional
    How the result lies on explicit mesh axes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from purax import dtypes
from purax.numpy import _ops as ops
from purax.numpy.elementwise import isnan
from purax.numpy.indexing import take_along_axis
from purax.numpy.promotion import as_operand, check_arraylike, convert, promote_dtypes_inexact, refuse, spread
from purax.numpy.reduction import reduced_axes
from purax.primitives.resharding import is_explicit, out_sharded

__all__ = ["median", "nanmedian", "nanpercentile", "nanquantile", "percentile", "quantile"]

_METHODS = ("linear", "lower", "higher", "midpoint", "nearest", "inverted_cdf")


def quantile(
    a: Any, q: Any, axis: Any = None, out: None = None, overwrite_input: bool = False, method: str = "linear",
    keepdims: bool = False, *, weights: Any = None,
) -> Any:  # fmt: skip
    """Quantiles of the elements over axes; NaN if an element is.

    See `purax.numpy.quantile` for the arguments that its functions share.

    Parameters
    ----------
    q : float[] or float[k]
        In [0, 1].
    method : {"linear", "lower", "higher", "midpoint", "nearest", "inverted_cdf"}
        What to take between two elements.
    weights : array, optional
        How often each element counts; with "inverted_cdf" only.

    Returns
    -------
    array of shape ``q.shape + rest``, of inexact dtype

    Raises
    ------
    ValueError
        Complex elements, `q` with more than one axis, another method, or weights with it.

    Examples
    --------
    >>> pnp.quantile(pnp.arange(5.0), pnp.array([0.0, 0.125, 0.5])).tolist()
    [0.0, 0.5, 2.0]
    """
    return _quantile("quantile", a, q, axis, out, overwrite_input, method, keepdims, weights, skip_nan=False)


def nanquantile(
    a: Any, q: Any, axis: Any = None, out: None = None, overwrite_input: bool = False, method: str = "linear",
    keepdims: bool = False, *, weights: Any = None,
) -> Any:  # fmt: skip
    """As `quantile`, of the elements that are not NaN.

    See `purax.numpy.quantile` for the arguments that its functions share.
    """
    return _quantile("nanquantile", a, q, axis, out, overwrite_input, method, keepdims, weights, skip_nan=True)


def percentile(
    a: Any, q: Any, axis: Any = None, out: None = None, overwrite_input: bool = False, method: str = "linear",
    keepdims: bool = False, *, weights: Any = None, out_sharding: Any = None,
) -> Any:  # fmt: skip
    """As `quantile`, with `q` in [0, 100].

    See `purax.numpy.quantile` for the arguments that its functions share.
    """
    if out_sharding is not None and is_explicit(out_sharding):
        options = {"overwrite_input": overwrite_input, "method": method, "keepdims": keepdims, "weights": weights}
        return out_sharded(percentile, out_sharding, a, q, axis, out, **options)
    q = _hundredth("percentile", q)
    return _quantile("percentile", a, q, axis, out, overwrite_input, method, keepdims, weights, skip_nan=False)


def nanpercentile(
    a: Any, q: Any, axis: Any = None, out: None = None, overwrite_input: bool = False, method: str = "linear",
    keepdims: bool = False, *, weights: Any = None,
) -> Any:  # fmt: skip
    """As `nanquantile`, with `q` in [0, 100].

    See `purax.numpy.quantile` for the arguments that its functions share.
    """
    q = _hundredth("nanpercentile", q)
    return _quantile("nanpercentile", a, q, axis, out, overwrite_input, method, keepdims, weights, skip_nan=True)


def median(a: Any, axis: Any = None, out: None = None, overwrite_input: bool = False, keepdims: bool = False) -> Any:
    """Median over axes; NaN if an element is.

    See `purax.numpy.quantile` for the arguments that its functions share.
    """
    return _quantile("median", a, 0.5, axis, out, overwrite_input, "midpoint", keepdims, None, skip_nan=False)


def nanmedian(a: Any, axis: Any = None, out: None = None, overwrite_input: bool = False, keepdims: bool = False) -> Any:
    """Median over axes of the elements that are not NaN.

    See `purax.numpy.quantile` for the arguments that its functions share.
    """
    return _quantile("nanmedian", a, 0.5, axis, out, overwrite_input, "midpoint", keepdims, None, skip_nan=True)


def _hundredth(name: str, q: Any) -> Any:
    check_arraylike(name, q)
    (q,) = promote_dtypes_inexact(q)
    return ops.div(q, ops.full_like(q, 100))


def _quantile(
    name: str, a: Any, q: Any, axis: Any, out: None, overwrite_input: bool, method: str, keepdims: bool, weights: Any,
    skip_nan: bool,
) -> Any:  # fmt: skip
    refuse(name, out=out)
    if overwrite_input:
        raise ValueError(f"{name} does not support overwrite_input=True: arrays are immutable")
    if method not in _METHODS:
        raise ValueError("method can only be 'linear', 'lower', 'higher', 'midpoint', 'nearest' or 'inverted_cdf'")
    check_arraylike(name, a, q)
    (a,) = promote_dtypes_inexact(a)
    if dtypes.is_complex(a.aval.dtype):
        raise ValueError(f"{name} does not support complex input, as the operation is poorly defined.")
    q = convert(q, a.aval.dtype) if type(q) in (int, float, bool) else as_operand(q)
    if q.aval.ndim > 1:
        raise ValueError(f"q must be have rank <= 1, got shape {q.aval.shape}")
    if weights is not None and method != "inverted_cdf":
        raise ValueError(f"{method} doesn't support weights. Only method 'inverted_cdf' supports weights.")
    shape = a.aval.shape
    axes = reduced_axes(axis, len(shape))
    rest = tuple([i for i in range(len(shape)) if i not in axes])
    rows = _rows(a, rest, axes)
    places = ops.reshape(q, (q.aval.size,))
    if not rows.aval.shape[-1]:
        picked = ops.full((*rows.aval.shape[:-1], q.aval.size), np.nan, a.aval.dtype)
    elif weights is not None:
        picked = _weighted(
            rows, _weight_rows(as_operand(weights), a, axis, rest, axes), convert(places, a.aval.dtype), skip_nan
        )
    else:
        picked = _picked(rows, places, method, skip_nan)
    # picked: (*rest, k) -> (*q.shape, *rest)
    result = ops.transpose(picked, (len(rest), *range(len(rest))))
    kept = (
        tuple([1 if i in axes else shape[i] for i in range(len(shape))])
        if keepdims
        else tuple([shape[i] for i in rest])
    )
    return convert(ops.reshape(result, (*q.aval.shape, *kept)), a.aval.dtype)


def _rows(a: Any, rest: tuple[int, ...], axes: tuple[int, ...]) -> Any:
    """The axes that are reduced, merged and last."""
    moved = ops.transpose(a, (*rest, *axes))
    shape = a.aval.shape
    return ops.reshape(moved, (*[shape[i] for i in rest], int(np.prod([shape[i] for i in axes], dtype=np.int64))))


def _weight_rows(weights: Any, a: Any, axis: Any, rest: tuple[int, ...], axes: tuple[int, ...]) -> Any:
    shape = a.aval.shape
    if weights.aval.shape != shape:
        if axis is None:
            raise ValueError("Axis must be specified when shapes of a and weights differ.")
        if weights.aval.shape != tuple(shape[i] for i in axes):
            raise ValueError("Shape of weights must be consistent with shape of a along specified axis.")
        order = sorted(range(len(axes)), key=axes.__getitem__)
        weights = ops.broadcast_in_dim(ops.transpose(weights, order), shape, sorted(axes))
    return convert(_rows(weights, rest, axes), a.aval.dtype)


def _picked(rows: Any, places: Any, method: str, skip_nan: bool) -> Any:
    """Quantiles along the last axis: (*rest, n) and (k,) give (*rest, k)."""
    dtype = rows.aval.dtype
    wide = dtypes.float32 if dtypes.itemsize_bits(dtype) < 32 else dtype  # ranks need more than 16 bits
    *rest, n = rows.aval.shape
    k = places.aval.shape[0]
    shape = (*rest, k)
    ordered = ops.sort(rows, dimension=len(rest))  # NaN comes last
    missing = isnan(rows)
    count = ops.reduce_sum(ops.convert_element_type(ops.bitwise_not(missing), wide), (len(rest),))
    count = ops.broadcast_in_dim(count, shape, range(len(rest))) if skip_nan else ops.full(shape, n, wide)
    one, zero = ops.full(shape, 1, wide), ops.full(shape, 0, wide)
    q = spread(convert(places, wide), shape)
    if method == "inverted_cdf":
        rank = ops.sub(ops.ceil(ops.mul(q, count)), one)
    else:
        rank = ops.mul(q, ops.sub(count, one))
    last = ops.max(ops.sub(count, one), zero)
    low, high = (ops.clamp(zero, f(rank), last) for f in (ops.floor, ops.ceil))
    fraction = ops.sub(rank, ops.floor(rank))

    def at(place: Any) -> Any:
        index = ops.convert_element_type(place, dtypes.default_int())
        return convert(take_along_axis(ordered, index, len(rest)), wide)

    if method == "linear":
        below, above = at(low), at(high)
        # Equal neighbours give themselves exactly, infinite ones too.
        between = ops.add(ops.mul(below, ops.sub(one, fraction)), ops.mul(above, fraction))
        result = ops.select_n(ops.eq(below, above), ops.select_n(ops.eq(low, high), between, below), below)
    elif method == "midpoint":
        below, above = at(low), at(high)
        result = ops.select_n(ops.eq(low, high), ops.mul(ops.add(below, above), ops.full(shape, 0.5, wide)), below)
    elif method == "nearest":
        result = at(ops.clamp(zero, ops.round(rank, ops.RoundingMethod.TO_NEAREST_EVEN), last))
    else:
        result = at(high if method == "higher" else low)
    if skip_nan:
        undefined = ops.eq(count, zero)
    else:
        any_missing = ops.reduce_or(missing, (len(rest),))
        undefined = ops.broadcast_in_dim(any_missing, shape, range(len(rest)))
    return convert(ops.select_n(undefined, result, ops.full_like(result, np.nan)), dtype)


def _weighted(rows: Any, weights: Any, places: Any, skip_nan: bool) -> Any:
    """The first element whose share of the cumulated weight reaches q."""
    *rest, n = rows.aval.shape
    k = places.aval.shape[0]
    last = len(rest)
    missing = isnan(rows)
    if skip_nan:
        weights = ops.select_n(missing, weights, ops.full_like(weights, 0))
    ordered, weights = ops.sort((rows, weights), dimension=last, num_keys=1)
    running = ops.cumsum(weights, last)
    total = ops.slice_in_dim(running, n - 1, n, axis=last)
    wide = (*rest, k, n)
    share = ops.div(running, spread(total, running.aval.shape))
    share = ops.broadcast_in_dim(share, wide, (*range(last), last + 1))
    target = ops.broadcast_in_dim(places, wide, (last,))
    short = ops.lt(share, target)
    # An element without weight in front does not count, even for q = 0.
    empty = ops.broadcast_in_dim(ops.eq(running, ops.full_like(running, 0)), wide, (*range(last), last + 1))
    index = ops.reduce_sum(ops.convert_element_type(ops.bitwise_or(short, empty), dtypes.default_int()), (last + 1,))
    index = ops.min(index, ops.full_like(index, n - 1))
    result = take_along_axis(ordered, index, last)
    if not skip_nan:
        undefined = ops.broadcast_in_dim(ops.reduce_or(missing, (last,)), result.aval.shape, range(last))
        result = ops.select_n(undefined, result, ops.full_like(result, np.nan))
    return result
