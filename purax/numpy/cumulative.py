# SPDX-License-Identifier: Apache-2.0
"""Running sums and products.

Results have the shape of the operand (flat without `axis`) and its dtype; booleans count as integers.

Parameters
----------
a : number[...] or bool[...]
axis : int, optional
    Without it, the array is flattened.
dtype : dtype, optional
    Of the result, and of the sums or products.
out : None
    NumPy's; anything else raises NotImplementedError.
"""

from __future__ import annotations

from typing import Any

from purax import dtypes
from purax.numpy import _ops as ops
from purax.numpy.comparison import truth
from purax.numpy.elementwise import isnan
from purax.numpy.promotion import as_operand, check_arraylike, convert, refuse
from purax.numpy.reduction import reduced_axes

__all__ = ["cumprod", "cumsum", "cumulative_prod", "cumulative_sum", "nancumprod", "nancumsum"]


def _cumulate(name: str, operation: Any, a: Any, axis: int | None, dtype: Any, out: None, widen: bool = False) -> Any:
    refuse(name, out=out)
    check_arraylike(name, a)
    a = as_operand(a)
    if axis is None:
        a, axis = ops.reshape(a, (a.aval.size,)), 0
    (axis,) = reduced_axes(int(axis), a.aval.ndim)
    own = a.aval.dtype
    if dtype is not None:
        target = dtypes.named(dtype)
    elif dtypes.is_bool(own):
        target = dtypes.default_int()
    elif widen and dtypes.is_integer(own):
        wide = dtypes.default_int() if dtypes.is_signed(own) else dtypes.default_uint()
        target = wide if dtypes.itemsize_bits(own) < dtypes.itemsize_bits(wide) else own
    else:
        target = own
    if dtypes.is_bool(target):
        counted = operation(ops.convert_element_type(truth(a), dtypes.default_int()), axis)
        return truth(counted)
    return operation(convert(a, target), axis)


def cumsum(a: Any, axis: int | None = None, dtype: Any = None, out: None = None) -> Any:
    """Running sum along an axis, or of the flattened array; of the operand's dtype (booleans become integers)."""
    return _cumulate("cumsum", ops.cumsum, a, axis, dtype, out)


def cumprod(a: Any, axis: int | None = None, dtype: Any = None, out: None = None) -> Any:
    """Running product along an axis, or of the flattened array; of the operand's dtype (booleans become integers)."""
    return _cumulate("cumprod", ops.cumprod, a, axis, dtype, out)


def nancumsum(a: Any, axis: int | None = None, dtype: Any = None, out: None = None) -> Any:
    """Running sum with NaN counted as 0.

    See `purax.numpy.cumulative` for the arguments that its functions share.
    """
    return _cumulate("nancumsum", ops.cumsum, _filled("nancumsum", a, 0), axis, dtype, out)


def nancumprod(a: Any, axis: int | None = None, dtype: Any = None, out: None = None) -> Any:
    """Running product with NaN counted as 1.

    See `purax.numpy.cumulative` for the arguments that its functions share.
    """
    return _cumulate("nancumprod", ops.cumprod, _filled("nancumprod", a, 1), axis, dtype, out)


def _filled(name: str, a: Any, value: int) -> Any:
    check_arraylike(name, a)
    a = as_operand(a)
    return ops.select_n(isnan(a), a, ops.full_like(a, value)) if dtypes.is_inexact(a.aval.dtype) else a


def cumulative_sum(x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Any:
    """Running sum along an axis, with a 0 in front if `include_initial`; small integers are widened.

    See `purax.numpy.cumulative` for the arguments that its functions share.

    Parameters
    ----------
    x : number[...]
        Of at least one axis.
    include_initial : bool
        The axis is then longer by one.

    Returns
    -------
    array

    Raises
    ------
    ValueError
        A scalar, or no `axis` with more than one.
    """
    return _standard("cumulative_sum", ops.cumsum, 0, x, axis, dtype, include_initial)


def cumulative_prod(x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Any:
    """Running product along an axis, with a 1 in front if `include_initial`; small integers are widened.

    See `purax.numpy.cumulative` for the arguments that its functions share.

    Parameters
    ----------
    x : number[...]
        Of at least one axis.
    include_initial : bool
        The axis is then longer by one.

    Returns
    -------
    array

    Raises
    ------
    ValueError
        A scalar, or no `axis` with more than one.
    """
    return _standard("cumulative_prod", ops.cumprod, 1, x, axis, dtype, include_initial)


def _standard(name: str, operation: Any, start: int, x: Any, axis: Any, dtype: Any, include_initial: bool) -> Any:
    check_arraylike(name, x)
    x = as_operand(x)
    if x.aval.ndim == 0:
        raise ValueError(
            "The input must be non-scalar to take a cumulative sum or product, however a scalar was given."
        )
    if axis is None:
        if x.aval.ndim > 1:
            raise ValueError(
                f"The input array has rank {x.aval.ndim}, however axis was not set to an explicit value. The axis argument is only "
                "optional for one-dimensional arrays."
            )
        axis = 0
    (axis,) = reduced_axes(axis, x.aval.ndim)
    result = _cumulate(name, operation, x, axis, dtype, None, widen=True)
    if not include_initial:
        return result
    rows = [(1, 0, 0) if i == axis else (0, 0, 0) for i in range(x.aval.ndim)]
    return ops.pad(result, ops.full((), start, result.aval.dtype), rows)
