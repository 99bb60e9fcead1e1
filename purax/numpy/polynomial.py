# SPDX-License-Identifier: Apache-2.0
"""Polynomials as vectors of coefficients, the highest power first.

Results have the common inexact dtype of the operands.

Parameters
----------
a1, a2, u, v, p : array
    Coefficients.
trim_leading_zeros : bool
    Needs known values.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from purax import dtypes
from purax.control.loop import scan
from purax.core.trace import Tracer
from purax.lazy import lazy
from purax.numpy import _ops as ops
from purax.numpy.contraction import dot, outer
from purax.numpy.matrices import diag, vander
from purax.numpy.promotion import (
    as_operand,
    check_arraylike,
    common_shape,
    convert,
    numeric,
    promote_dtypes,
    promote_dtypes_inexact,
    promote_dtypes_numeric,
    promote_shapes,
)
from purax.numpy.reduction import sum
from purax.numpy.shape import ravel
from purax.numpy.statistics import convolve

__all__ = ["poly", "polyadd", "polyder", "polydiv", "polyfit", "polyint", "polymul", "polysub", "polyval", "roots"]

linalg = lazy("purax.numpy.linalg")


def polyval(p: Any, x: Any, *, unroll: int = 16) -> Any:
    """The value of a polynomial at each element of `x`, by Horner's scheme; `unroll` steps per turn of the loop.

    Parameters
    ----------
    x : array
    unroll : int

    Returns
    -------
    array of the shape of `x`
        Of the common dtype, integers for booleans.

    Examples
    --------
    >>> pnp.polyval(pnp.array([1, 2, 3]), 10).item()
    123
    """
    check_arraylike("polyval", p, x)
    p, x = promote_dtypes(p, x)
    shape = x.aval.shape if p.aval.ndim <= 1 else common_shape("polyval", p.aval.shape[1:], x.aval.shape)
    dtype = numeric(x.aval.dtype, False)[0]
    p, x = convert(p, dtype), ops.broadcast_to(convert(x, dtype), shape)
    total = ops.full(shape, 0, dtype)
    if p.aval.shape[0] == 0:
        return total

    if p.aval.shape[0] <= unroll:
        for coefficient in ops.unstack(p):
            total = ops.add(ops.mul(total, x), ops.broadcast_to(coefficient, shape))
        return total

    def step(value: Any, coefficient: Any) -> Any:
        return ops.add(ops.mul(value, x), ops.broadcast_to(coefficient, shape)), None

    return scan(step, total, p, unroll=unroll)[0]


def _vectors(name: str, a: Any, b: Any, promote: Any = promote_dtypes_numeric) -> list[Any]:
    check_arraylike(name, a, b)
    return [ops.reshape(x, (1,)) if x.aval.ndim == 0 else x for x in promote(as_operand(a), as_operand(b))]


def polyadd(a1: Any, a2: Any) -> Any:
    """Sum of two polynomials, of their common dtype."""
    a, b = _vectors("polyadd", a1, a2)
    size = max(a.aval.shape[0], b.aval.shape[0])
    return ops.add(*promote_shapes("polyadd", _lengthened(a, size), _lengthened(b, size)))


def polysub(a1: Any, a2: Any) -> Any:
    """Difference of two polynomials, of their common dtype."""
    a, b = _vectors("polysub", a1, a2)
    return polyadd(a, ops.neg(b))


def _lengthened(p: Any, size: int) -> Any:
    zero = ops.full((), 0, p.aval.dtype)
    return ops.pad(p, zero, [(size - p.aval.shape[0], 0, 0), *[(0, 0, 0)] * (p.aval.ndim - 1)])


def _trimmed(p: Any) -> Any:
    """Without leading zeros; the polynomial must be known."""
    nonzero = np.flatnonzero(np.asarray(p))
    return p[int(nonzero[0]) :] if len(nonzero) else p[-1:]


def polymul(a1: Any, a2: Any, *, trim_leading_zeros: bool = False) -> Any:
    """Product of two polynomials; leading zeros stay unless `trim_leading_zeros` (outside of `jit` only)."""
    a, b = _vectors("polymul", a1, a2, promote_dtypes_inexact)
    if trim_leading_zeros and (a.aval.size > 1 or b.aval.size > 1):
        a, b = _trimmed(a), _trimmed(b)
    if a.aval.size == 0:
        a = ops.full((1,), 0, b.aval.dtype)
    if b.aval.size == 0:
        b = ops.full((1,), 0, a.aval.dtype)
    return convolve(a, b, mode="full")


def polydiv(u: Any, v: Any, *, trim_leading_zeros: bool = False) -> tuple[Any, Any]:
    """Quotient and remainder of two polynomials; leading zeros of the remainder stay unless `trim_leading_zeros`."""
    u, v = _vectors("polydiv", u, v, promote_dtypes_inexact)
    m, n = u.aval.shape[0] - 1, v.aval.shape[0] - 1
    if m < n:
        return ops.full((1,), 0, u.aval.dtype), u
    scale = ops.div(ops.full((), 1, v.aval.dtype), v[0])
    quotient = []
    for k in range(m - n + 1):
        d = ops.mul(scale, u[k])
        quotient.append(ops.reshape(d, (1,)))
        product = ops.mul(ops.broadcast_to(d, v.aval.shape), v)
        u = ops.sub(u, ops.pad(product, ops.full((), 0, u.aval.dtype), [(k, m - n - k, 0)]))
    if trim_leading_zeros:
        u = _trimmed_remainder(u)
    return ops.concatenate(quotient, 0), u


def _trimmed_remainder(u: Any) -> Any:
    # NumPy's 1e-8 for float64 is about the root of the machine epsilon, and other dtypes have their own.
    close = np.abs(np.asarray(u)) <= float(dtypes.finfo(u.aval.dtype).eps) ** 0.5
    first = int(np.argmin(close)) if not close.all() else u.aval.shape[0] - 1
    return u[first:]


def polyder(p: Any, m: int = 1) -> Any:
    """The `m`-th derivative of a polynomial, of inexact dtype.

    Raises
    ------
    ValueError
        `m` is negative.
    """
    check_arraylike("polyder", p)
    m = operator.index(m.item() if isinstance(m, Tracer) else m)
    (p,) = promote_dtypes_inexact(p)
    if m < 0:
        raise ValueError("Order of derivative must be positive")
    if m == 0:
        return p
    size = p.aval.shape[0]
    # The power k becomes k (k - 1) ... (k - m + 1).
    factors = np.array([math.perm(power, m) for power in range(size - 1, m - 1, -1)], np.float64)
    kept = ops.slice_in_dim(p, 0, max(size - m, 0))
    return ops.mul(kept, ops.convert_element_type(as_operand(factors), p.aval.dtype))


def polyint(p: Any, m: int = 1, k: Any = None) -> Any:
    """The `m`-fold integral of a polynomial, with constants `k` (a scalar or one for each), of inexact dtype.

    Raises
    ------
    ValueError
        `m` is negative, or `k` has another length.
    """
    m = operator.index(m.item() if isinstance(m, Tracer) else m)
    k = 0 if k is None else k
    check_arraylike("polyint", p, k)
    p, constants = promote_dtypes_inexact(p, k)
    if m < 0:
        raise ValueError("Order of integral must be positive")
    constants = ravel(constants)
    if constants.aval.size == 1:
        constants = ops.broadcast_to(constants, (m,))
    if constants.aval.shape != (m,):
        raise ValueError("k must be a scalar or a rank-1 array of length 1 or m.")
    if m == 0:
        return p
    dtype = p.aval.dtype
    grown = ops.concatenate([p, constants], 0)
    size = p.aval.shape[0]
    # A coefficient of power q becomes one of power q + m; the j-th constant has been integrated m - 1 - j times.
    divisors = [math.perm(power + m, m) for power in range(size - 1, -1, -1)] + [
        math.factorial(m - 1 - j) for j in range(m)
    ]
    return ops.div(grown, ops.convert_element_type(as_operand(np.array(divisors, np.float64)), dtype))


def poly(seq_of_zeros: Any) -> Any:
    """The polynomial with given roots, or the characteristic polynomial of a square matrix; the leading coefficient is 1.

    Raises
    ------
    ValueError
        More than one axis, and no square matrix.
    """
    check_arraylike("poly", seq_of_zeros)
    (zeros,) = promote_dtypes_inexact(seq_of_zeros)
    shape = zeros.aval.shape
    if len(shape) == 2 and shape[0] == shape[1] and shape[0] != 0:
        zeros = linalg.eigvals(zeros)
    elif len(shape) == 0:
        zeros = ops.reshape(zeros, (1,))
    elif len(shape) > 1:
        raise ValueError("input must be 1d or non-empty square 2d array.")
    dtype = zeros.aval.dtype
    result = ops.full((1,), 1, dtype)
    for i in range(zeros.aval.shape[0]):
        factor = ops.concatenate([ops.full((1,), 1, dtype), ops.neg(zeros[i : i + 1])], 0)
        result = convolve(result, factor, mode="full")
    return result


def roots(p: Any, *, strip_zeros: bool = True) -> Any:
    """The roots of a polynomial, complex.

    Parameters
    ----------
    p : array
        One axis.
    strip_zeros : bool
        Take away leading zeros, whose number must be known; False keeps the number of roots fixed, as `jit` needs, with NaN for
        each leading zero.

    Returns
    -------
    complex[n - 1]

    Raises
    ------
    ValueError
        `p` has not one axis.
    """
    check_arraylike("roots", p)
    (p,) = promote_dtypes_inexact(p)
    if p.aval.ndim != 1:
        raise ValueError("Input must be a rank-1 array.")
    result_dtype = dtypes.to_complex(p.aval.dtype)
    if p.aval.shape[0] < 2:
        return ops.full((0,), 0, result_dtype)
    zero = ops.eq(p, ops.full_like(p, 0))
    if strip_zeros:
        nonzero = np.flatnonzero(~np.asarray(zero))
        if not len(nonzero):
            return ops.full((0,), 0, result_dtype)
        trailing = p.aval.shape[0] - 1 - int(nonzero[-1])
        found = _companion_roots(p[int(nonzero[0]) : int(nonzero[-1]) + 1], result_dtype)
        return ops.concatenate([found, ops.full((trailing,), 0, result_dtype)], 0)
    size = p.aval.shape[0]
    leading = ops.argmin(ops.convert_element_type(zero, np.int32), 0, dtypes.default_int())
    nothing = ops.reduce_and(zero, (0,))
    # Leading zeros move to the end: they stand for roots 0 of a polynomial of full degree, which are then marked.
    twice = ops.concatenate([p, p], 0)
    rolled = ops.dynamic_slice_in_dim(twice, leading, size, 0)
    found = _companion_roots(rolled, result_dtype)
    place = ops.iota(dtypes.default_int(), size - 1)
    real_count = ops.broadcast_to(ops.sub(ops.full_like(leading, size - 1), leading), place.aval.shape)
    order = ops.sort((ops.neg(ops.abs(found)), place), dimension=0, num_keys=1)[1]
    found = found[order]
    marked = ops.bitwise_or(ops.ge(place, real_count), ops.broadcast_to(nothing, place.aval.shape))
    return ops.select_n(marked, found, ops.full_like(found, complex(np.nan, np.nan)))


def _companion_roots(p: Any, result_dtype: Any) -> Any:
    size = p.aval.shape[0]
    if size < 2:
        return ops.full((0,), 0, result_dtype)
    below = diag(ops.full((size - 2,), 1, p.aval.dtype), -1)
    first = ops.neg(ops.div(p[1:], ops.broadcast_to(p[0], (size - 1,))))
    matrix = ops.concatenate([ops.reshape(first, (1, size - 1)), below[1:]], 0)
    return convert(linalg.eigvals(matrix), result_dtype)


def polyfit(
    x: Any, y: Any, deg: int, rcond: float | None = None, full: bool = False, w: Any = None, cov: bool | str = False
) -> Any:
    """The polynomial of degree `deg` that fits points best in the sense of least squares.

    Parameters
    ----------
    x : real[n]
    y : array[n] or array[n, k]
    deg : int
    rcond : float, optional
        Relative size of singular values that count as zero; default n times the machine epsilon.
    full : bool
        Return also residuals, rank, singular values, rcond.
    w : real[n], optional
        Weights of the residuals.
    cov : bool or "unscaled"
        Return also the covariance of the coefficients.

    Returns
    -------
    array[deg + 1] or array[deg + 1, k], then what `full` or `cov` add

    Raises
    ------
    ValueError
        `deg` is negative, or too few points for the covariance.
    TypeError
        Points or weights of other ranks or lengths.
    """
    check_arraylike("polyfit", x, y)
    deg = operator.index(deg)
    if deg < 0:
        raise ValueError("expected deg >= 0")
    x, y = promote_dtypes_inexact(x, y)
    if x.aval.ndim != 1:
        raise TypeError("expected 1D vector for x")
    if x.aval.size == 0:
        raise TypeError("expected non-empty vector for x")
    if not 1 <= y.aval.ndim <= 2:
        raise TypeError("expected 1D or 2D array for y")
    if x.aval.shape[0] != y.aval.shape[0]:
        raise TypeError("expected x and y to have same length")
    count = x.aval.shape[0]
    if rcond is None:
        rcond = count * float(dtypes.finfo(x.aval.dtype).eps)
    left, right = vander(x, deg + 1), y
    if w is not None:
        check_arraylike("polyfit", w)
        (w,) = promote_dtypes_inexact(w)
        if w.aval.ndim != 1:
            raise TypeError("expected a 1-d array for weights")
        if w.aval.shape[0] != count:
            raise TypeError("expected w and y to have the same length")
        w = convert(w, left.aval.dtype)
        left = ops.mul(left, ops.broadcast_in_dim(w, left.aval.shape, (0,)))
        right = ops.mul(right, ops.broadcast_in_dim(w, right.aval.shape, (0,)))
    # Columns of one length make the problem well conditioned.
    scale = ops.sqrt(sum(ops.mul(left, left), 0))
    left = ops.div(left, ops.broadcast_in_dim(scale, left.aval.shape, (1,)))
    solution, residuals, rank, singular = linalg.lstsq(left, right, rcond)
    solution = ops.div(solution, ops.broadcast_in_dim(scale, solution.aval.shape, (0,)))
    if full:
        return solution, residuals, rank, singular, as_operand(rcond)
    if not cov:
        return solution
    base = linalg.inv(dot(left.T, left))
    base = ops.div(base, outer(scale, scale))
    if cov == "unscaled":
        factor: Any = ops.full((), 1, base.aval.dtype)
    else:
        if count <= deg + 1:
            raise ValueError("the number of data points must exceed order to scale the covariance matrix")
        factor = ops.div(residuals, ops.full_like(residuals, count - deg - 1))
    if y.aval.ndim == 1:
        return solution, ops.mul(base, ops.broadcast_to(ops.reshape(factor, (1, 1)), base.aval.shape))
    shape = (*base.aval.shape, y.aval.shape[1])
    factor = ops.broadcast_to(ops.reshape(factor, (1, 1, factor.aval.size)), shape)
    return solution, ops.mul(ops.broadcast_in_dim(base, shape, (0, 1)), factor)
