# SPDX-License-Identifier: Apache-2.0
"""Comparisons, logical functions, and tests of whole arrays.

Comparisons with a Python integer that the array's dtype cannot hold give the exact answer. Complex numbers are ordered by
real, then by imaginary part.

Results are boolean.

Parameters
----------
x, y, a, b, a1, a2 : array or scalar
    Operands, which broadcast and promote.
out, where : None
    NumPy's; anything else raises NotImplementedError.
rtol, atol : real array or scalar
    Tolerances.
equal_nan : bool
    Whether NaN equals NaN.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from purax import dtypes, errors
from purax.numpy import _ops as ops
from purax.numpy.elementwise import isfinite, isnan
from purax.numpy.promotion import (
    Binary,
    as_operand,
    check_arraylike,
    common_shape,
    convert,
    promote_dtypes,
    promote_shapes,
    refuse,
)

__all__ = [
    "allclose", "array_equal", "array_equiv", "equal", "greater", "greater_equal", "isclose", "less", "less_equal",
    "logical_and", "logical_not", "logical_or", "logical_xor", "not_equal",
]  # fmt: skip


def _ordered(strict: Any, tie: Any) -> Any:
    """The comparison of a dtype: `strict` of real parts, and `tie` of imaginary parts where those are equal."""

    def lexicographic(x: Any, y: Any) -> Any:
        a, b = ops.real(x), ops.real(y)
        return ops.select_n(ops.eq(a, b), strict(a, b), tie(ops.imag(x), ops.imag(y)))

    return lambda dtype: lexicographic if dtypes.is_complex(dtype) else tie


_equal = Binary("equal", lambda dtype: ops.eq_p.bind1, bounds=operator.eq)
_equal_known = _equal.known


def equal(x: Any, y: Any, /) -> Any:
    """``x == y``, a boolean array."""
    found = _equal_known.get((getattr(x, "aval", None), getattr(y, "aval", None)))
    return _equal(x, y) if found is None else found(x, y)


_not_equal = Binary("not_equal", lambda dtype: ops.ne_p.bind1, bounds=operator.ne)
_not_equal_known = _not_equal.known


def not_equal(x: Any, y: Any, /) -> Any:
    """``x != y``, a boolean array; NaN differs from itself."""
    found = _not_equal_known.get((getattr(x, "aval", None), getattr(y, "aval", None)))
    return _not_equal(x, y) if found is None else found(x, y)


_less = Binary("less", _ordered(ops.lt_p.bind1, ops.lt_p.bind1), bounds=operator.lt)
_less_known = _less.known


def less(x: Any, y: Any, /) -> Any:
    """``x < y``, a boolean array."""
    found = _less_known.get((getattr(x, "aval", None), getattr(y, "aval", None)))
    return _less(x, y) if found is None else found(x, y)


_less_equal = Binary("less_equal", _ordered(ops.lt_p.bind1, ops.le_p.bind1), bounds=operator.le)
_less_equal_known = _less_equal.known


def less_equal(x: Any, y: Any, /) -> Any:
    """``x <= y``, a boolean array."""
    found = _less_equal_known.get((getattr(x, "aval", None), getattr(y, "aval", None)))
    return _less_equal(x, y) if found is None else found(x, y)


_greater = Binary("greater", _ordered(ops.gt_p.bind1, ops.gt_p.bind1), bounds=operator.gt)
_greater_known = _greater.known


def greater(x: Any, y: Any, /) -> Any:
    """``x > y``, a boolean array."""
    found = _greater_known.get((getattr(x, "aval", None), getattr(y, "aval", None)))
    return _greater(x, y) if found is None else found(x, y)


_greater_equal = Binary("greater_equal", _ordered(ops.gt_p.bind1, ops.ge_p.bind1), bounds=operator.ge)
_greater_equal_known = _greater_equal.known


def greater_equal(x: Any, y: Any, /) -> Any:
    """``x >= y``, a boolean array."""
    found = _greater_equal_known.get((getattr(x, "aval", None), getattr(y, "aval", None)))
    return _greater_equal(x, y) if found is None else found(x, y)


# ---- logic


def truth(x: Any) -> Any:
    """An Array or Tracer as booleans: whether each element differs from zero."""
    return x if dtypes.is_bool(x.aval.dtype) else ops.ne(x, ops.full_like(x, 0))


def _logical(name: str, primitive: Any, x: Any, y: Any, out: None, where: None) -> Any:
    refuse(name, out=out, where=where)
    check_arraylike(name, x, y)
    return primitive.bind1(*promote_shapes(name, truth(as_operand(x)), truth(as_operand(y))))


def logical_and(x: Any, y: Any, /, out: None = None, where: None = None) -> Any:
    """Whether both elements differ from zero."""
    return _logical("logical_and", ops.and_p, x, y, out, where)


def logical_or(x: Any, y: Any, /, out: None = None, where: None = None) -> Any:
    """Whether at least one of the elements differs from zero."""
    return _logical("logical_or", ops.or_p, x, y, out, where)


def logical_xor(x: Any, y: Any, /, out: None = None, where: None = None) -> Any:
    """Whether exactly one of the elements differs from zero."""
    return _logical("logical_xor", ops.xor_p, x, y, out, where)


def logical_not(x: Any, /) -> Any:
    """Whether each element is zero."""
    check_arraylike("logical_not", x)
    return ops.not_p.bind1(truth(as_operand(x)))


# ---- nearness


def isclose(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False) -> Any:
    """Whether ``abs(a - b) <= atol + rtol * abs(b)``; infinities are close to themselves only, NaN to NaN if `equal_nan`."""
    check_arraylike("isclose", a, b, rtol, atol)
    a, b = promote_shapes("isclose", *promote_dtypes(a, b))
    dtype = a.aval.dtype
    if dtypes.is_bool(dtype) or dtypes.is_key(dtype):
        return ops.eq(a, b)
    if dtypes.is_integer(dtype):
        a, b = convert(a, dtypes.default_float()), convert(b, dtypes.default_float())
        dtype = dtypes.default_float()
    real = dtypes.real_dtype(dtype)
    shape = common_shape("isclose", a.aval.shape, np.shape(rtol), np.shape(atol))
    a, b = ops.broadcast_to(a, shape), ops.broadcast_to(b, shape)
    relative, absolute = (ops.broadcast_to(convert(t, real), shape) for t in (rtol, atol))
    near = ops.le(ops.abs(ops.sub(a, b)), ops.add(absolute, ops.mul(relative, ops.abs(b))))
    both_finite = ops.bitwise_and(isfinite(a), isfinite(b))
    result = ops.select_n(both_finite, ops.eq(a, b), near)
    if equal_nan:
        result = ops.bitwise_or(result, ops.bitwise_and(isnan(a), isnan(b)))
    return result


def allclose(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False) -> Any:
    """Whether all elements are close; see `isclose`. A boolean array of shape ()."""
    return _all(isclose(a, b, rtol, atol, equal_nan))


def _all(x: Any) -> Any:
    return ops.reduce_and(x, tuple(range(x.aval.ndim)))


def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> Any:
    """Whether two arrays have one shape and equal elements; a boolean array of shape ().

    See `purax.numpy.comparison` for the arguments that its functions share.
    """
    return _array_equal("array_equal", a1, a2, equal_nan, broadcast=False)


def array_equiv(a1: Any, a2: Any) -> Any:
    """Whether two arrays broadcast to each other and have equal elements; a boolean array of shape ()."""
    return _array_equal("array_equiv", a1, a2, False, broadcast=True)


def _array_equal(name: str, a: Any, b: Any, equal_nan: bool, broadcast: bool) -> Any:
    a, b = (as_operand(np.asarray(x) if isinstance(x, (list, tuple)) else x) for x in (a, b))
    if a.aval.shape != b.aval.shape:
        try:
            if not broadcast:
                raise errors.ShapeError
            common_shape(name, a.aval.shape, b.aval.shape)
        except errors.ShapeError:
            return ops.full((), False, dtypes.bool_)
    same = equal(a, b)
    if equal_nan:
        same = ops.bitwise_or(same, ops.bitwise_and(isnan(a), isnan(b)))
    return _all(same)
