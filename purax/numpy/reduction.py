# SPDX-License-Identifier: Apache-2.0
"""Reductions over axes.

Floats of 16 bits and fewer are accumulated in float32. Results have the dtype of the operand unless a function says otherwise.

Parameters
----------
a : array or scalar
axis : int, tuple of int or None
    None: all axes. Negative ones count from the end; ValueError for one that does not exist.
dtype : dtype, optional
    Of the result, and of the sum.
keepdims : bool
    Leave reduced axes, with size 1.
where : bool[...], optional
    Broadcasts to the operand: what counts.
initial : scalar, optional
    A value to start from, converted to the dtype of the result.
out : None
    NumPy's; anything else raises NotImplementedError.
"""

from __future__ import annotations

import builtins
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from purax import dtypes, errors
from purax.config import current as settings
from purax.core.dims import Dim
from purax.numpy import _ops as ops
from purax.numpy.alias import alias
from purax.numpy.comparison import truth
from purax.numpy.elementwise import isnan
from purax.numpy.promotion import (
    as_operand,
    broadcast_to_shape,
    check_arraylike,
    constant,
    convert,
    inexact,
    joint_shape,
    promote_dtypes_inexact,
    refuse,
    spread,
)
from purax.primitives.reduction import identity_of

__all__ = [
    "all", "amax", "amin", "any", "argmax", "argmin", "average", "count_nonzero", "max", "mean", "min", "nanargmax",
    "nanargmin", "nanmax", "nanmean", "nanmin", "nanprod", "nanstd", "nansum", "nanvar", "prod", "ptp", "std", "sum", "var",
]  # fmt: skip


# ---- what they share


def reduced_axes(axis: Any, ndim: int) -> tuple[int, ...]:
    """The axes that `axis=` names, counted from the front.

    Raises
    ------
    ValueError
        An axis does not exist, or is named twice.
    """
    if axis is None:
        return tuple(range(ndim))
    if isinstance(axis, (tuple, list)):
        axes = tuple([_axis(a, ndim) for a in axis])
        if len(set(axes)) != len(axes):
            raise ValueError(f"duplicate value in 'axis': {axis}")
        return axes
    return (_axis(axis, ndim),)


def _axis(axis: Any, ndim: int) -> int:
    index = operator.index(axis)
    if not -ndim <= index < ndim:
        raise errors.ShapeError(f"axis {index} is out of bounds for array of dimension {ndim}")
    return index + ndim if index < 0 else index


def keep(x: Any, shape: tuple[int, ...], axes: tuple[int, ...]) -> Any:
    """A reduction's result with the reduced axes put back at size 1."""
    return ops.reshape(x, tuple([1 if axis in axes else size for axis, size in enumerate(shape)]))


def _strong(x: Any) -> Any:
    aval = x.aval
    return convert(x, aval.dtype) if aval.weak_type else x


def _mask(name: str, where: Any) -> Any:
    check_arraylike(name, where)
    mask = as_operand(where)
    if not dtypes.is_bool(mask.aval.dtype):
        raise ValueError(
            f"where argument to {name} must be boolean, got dtype {mask.aval.dtype}: compare it with something first"
        )
    return mask


def _masked(name: str, x: Any, where: Any, fill: Any) -> Any:
    """`x` where the mask holds, the neutral value elsewhere."""
    mask = _mask(name, where)
    shape = joint_shape(name, mask.aval.shape, x.aval.shape)
    x = spread(x, shape)
    return ops.select_n(spread(mask, shape), ops.full_like(x, fill), x)


def _is_small_float(dtype: Any) -> bool:
    return dtypes.is_float(dtype) and dtypes.itemsize_bits(dtype) < 32


def _reduce(
    name: str, a: Any, axis: Any, dtype: Any, out: None, keepdims: builtins.bool, initial: Any, where: Any,
    primitive: Any, combine: Callable[..., Any], identity: str, neutral: builtins.bool,
) -> Any:  # fmt: skip
    """One reduction by a primitive; `neutral` tells whether it has a value for the empty array."""
    if out is not None:
        refuse(name, out=out)
    shape = a.aval.shape
    axes = reduced_axes(axis, len(shape))
    if dtype is not None and a.aval.dtype != dtype:
        narrow = _is_small_float(dtype) and dtypes.is_inexact(a.aval.dtype)
        a = convert(a, dtypes.float32 if narrow and not dtypes.is_complex(a.aval.dtype) else dtype)
    a = _strong(a)
    if where is not None:
        if initial is None and not neutral:
            raise ValueError(
                f"reduction operation {name} does not have an identity, so to use a where mask one has to specify 'initial'"
            )
        a = _masked(name, a, where, identity_of(identity, a.aval.dtype))
        shape = a.aval.shape
    if not neutral and initial is None:
        for i in axes:
            if shape[i] == 0:
                raise ValueError(f"zero-size array to reduction operation {name} which has no identity")
    result = primitive.bind1(a, axes=axes) if axes else a
    if initial is not None:
        check_arraylike(name, initial)
        start = convert(initial, result.aval.dtype) if hasattr(initial, "aval") else _cast(initial, result.aval.dtype)
        if start.aval.shape:
            raise ValueError(f"initial value must be a scalar. Got array of shape {start.aval.shape}")
        result = combine(spread(start, result.aval.shape), result)
    if dtype is not None and result.aval.dtype != dtype:
        result = convert(result, dtype)
    return keep(result, shape, axes) if keepdims else result


def _cast(value: Any, dtype: Any) -> Any:
    return ops.convert_element_type(as_operand(value), dtype)


# ---- plain reductions, remembered per type: no mask, no start, no dtype asked for

_plans: dict[Any, Any] = {}


def _planned(kind: str, a: Any, axis: Any, keepdims: builtins.bool) -> Any:
    """The reduction if its type has been met before, else None."""
    if axis is not None and type(axis) is not int and type(axis) is not tuple:
        return None
    aval = getattr(a, "aval", None)
    if aval is None:
        return None
    key = (kind, aval, axis, keepdims, settings().trace_key)
    plan = _plans.get(key)
    if plan is None:
        plan = _plans[key] = _plan(kind, a, axis, keepdims)
    if plan is False:
        return None
    primitive, axes, before, divisor, after, shape = plan
    if before is not None:
        a = convert(a, before)
    result = primitive.bind1(a, axes=axes)
    if divisor is not None:
        result = ops.div_p.bind1(result, constant(divisor, result.aval))
    if after is not None:
        result = convert(result, after)
    return result if shape is None else ops.reshape_p.bind1(result, new_sizes=shape)


def _plan(kind: str, a: Any, axis: Any, keepdims: builtins.bool) -> Any:
    """(primitive, axes, dtype to convert to before, divisor, dtype after, shape with kept axes); False for special cases."""
    aval = a.aval
    axes = reduced_axes(axis, aval.ndim)
    count = math.prod([aval.shape[i] for i in axes])
    if not axes or count == 0 or dtypes.is_key(aval.dtype):
        return False
    before, divisor, after = aval.dtype, None, None
    if kind == "mean":
        if type(count) is Dim:
            return False
        before, after = _mean_dtypes(a, None)
        divisor = float(count)
    elif kind in ("sum", "prod"):
        before = _sum_dtype(a, None, True)
    elif dtypes.is_bool(aval.dtype):
        return False
    if dtypes.is_bool(before):
        return False
    convert_first = before if before != aval.dtype or aval.weak_type else None
    shape = tuple([1 if i in axes else n for i, n in enumerate(aval.shape)]) if keepdims else None
    return _PRIMITIVES[kind], axes, convert_first, divisor, after if after != before else None, shape


_PRIMITIVES = {
    "sum": ops.reduce_sum_p,
    "mean": ops.reduce_sum_p,
    "prod": ops.reduce_prod_p,
    "max": ops.reduce_max_p,
    "min": ops.reduce_min_p,
}


# ---- sums and products


def _sum_dtype(a: Any, dtype: Any, promote_integers: builtins.bool) -> Any:
    if dtype is not None:
        return dtypes.named(dtype)
    own = a.aval.dtype
    if dtypes.is_bool(own):
        return dtypes.default_int()
    if promote_integers and dtypes.is_integer(own):
        wide = dtypes.default_int() if dtypes.is_signed(own) else dtypes.default_uint()
        return wide if dtypes.itemsize_bits(own) < dtypes.itemsize_bits(wide) else own
    return own


def sum(
    a: Any, axis: Any = None, dtype: Any = None, out: None = None, keepdims: builtins.bool = False, initial: Any = None,
    where: Any = None, promote_integers: builtins.bool = True,
) -> Any:  # fmt: skip
    """Sum over axes, of `dtype`; by default of the operand's, small integers and booleans widened to the default integer.

    See `purax.numpy.reduction` for the arguments that its functions share.

    Parameters
    ----------
    promote_integers : bool
        Widen small integers.

    Returns
    -------
    array without the axes

    Examples
    --------
    >>> pnp.sum(pnp.array([[1, 2], [3, 4]]), axis=0).tolist()
    [4, 6]
    """
    if dtype is None and where is None and initial is None and out is None and promote_integers:
        result = _planned("sum", a, axis, keepdims)
        if result is not None:
            return result
    return _total("sum", a, axis, dtype, out, keepdims, initial, where, promote_integers)


def prod(
    a: Any, axis: Any = None, dtype: Any = None, out: None = None, keepdims: builtins.bool = False, initial: Any = None,
    where: Any = None, promote_integers: builtins.bool = True,
) -> Any:  # fmt: skip
    """Product over axes, of `dtype`; by default of the operand's, small integers and booleans widened to the default integer.

    See `purax.numpy.reduction` for the arguments that its functions share.

    Parameters
    ----------
    promote_integers : bool
        Widen small integers.

    Returns
    -------
    array without the axes
    """
    return _total("prod", a, axis, dtype, out, keepdims, initial, where, promote_integers)


def _total(
    name: str, a: Any, axis: Any, dtype: Any, out: None, keepdims: builtins.bool, initial: Any, where: Any,
    promote_integers: builtins.bool = True,
) -> Any:  # fmt: skip
    if not hasattr(a, "aval"):
        check_arraylike(name, a)
        a = as_operand(a)
    dtype = _sum_dtype(a, dtype, promote_integers)
    primitive: Any
    if dtypes.is_bool(dtype):
        a = truth(a)
        primitive, combine, identity = (
            (ops.reduce_or_p, ops.bitwise_or, "or") if name == "sum" else (ops.reduce_and_p, ops.bitwise_and, "and")
        )
    elif name == "sum":
        primitive, combine, identity = ops.reduce_sum_p, ops.add, "add"
    else:
        primitive, combine, identity = ops.reduce_prod_p, ops.mul, "multiply"
    return _reduce(name, a, axis, dtype, out, keepdims, initial, where, primitive, combine, identity, True)


# ---- extrema


def max(
    a: Any, axis: Any = None, out: None = None, keepdims: builtins.bool = False, initial: Any = None, where: Any = None
) -> Any:
    """Largest element over axes; NaN if there is one. Equal largest elements share the gradient.

    Without `initial`, no elements or a `where` raise ValueError.

    See `purax.numpy.reduction` for the arguments that its functions share.
    """
    if where is None and initial is None and out is None:
        result = _planned("max", a, axis, keepdims)
        if result is not None:
            return result
    return _extremum("max", a, axis, out, keepdims, initial, where)


def min(
    a: Any, axis: Any = None, out: None = None, keepdims: builtins.bool = False, initial: Any = None, where: Any = None
) -> Any:
    """Smallest element over axes; NaN if there is one. Equal smallest elements share the gradient.

    Without `initial`, no elements or a `where` raise ValueError.

    See `purax.numpy.reduction` for the arguments that its functions share.
    """
    if where is None and initial is None and out is None:
        result = _planned("min", a, axis, keepdims)
        if result is not None:
            return result
    return _extremum("min", a, axis, out, keepdims, initial, where)


amax, amin = alias(max, "amax"), alias(min, "amin")


def _extremum(name: str, a: Any, axis: Any, out: None, keepdims: builtins.bool, initial: Any, where: Any) -> Any:
    if not hasattr(a, "aval"):
        check_arraylike(name, a)
        a = as_operand(a)
    largest = name in ("max", "nanmax")
    primitive: Any
    if dtypes.is_bool(a.aval.dtype):
        primitive, combine = (ops.reduce_or_p, ops.bitwise_or) if largest else (ops.reduce_and_p, ops.bitwise_and)
    else:
        primitive, combine = (ops.reduce_max_p, ops.max) if largest else (ops.reduce_min_p, ops.min)
    identity = "maximum" if largest else "minimum"
    return _reduce(name, a, axis, None, out, keepdims, initial, where, primitive, combine, identity, False)


def ptp(a: Any, axis: Any = None, out: None = None, keepdims: builtins.bool = False) -> Any:
    """Largest minus smallest element over axes.

    See `purax.numpy.reduction` for the arguments that its functions share.
    """
    refuse("ptp", out=out)
    check_arraylike("ptp", a)
    return ops.sub(max(a, axis, None, keepdims), min(a, axis, None, keepdims))


def argmax(a: Any, axis: int | None = None, out: None = None, keepdims: builtins.bool | None = None) -> Any:
    """Index (the default integer) of the first largest element, or of the first NaN; of the flattened array without `axis`.

    ValueError if there are no elements.

    See `purax.numpy.reduction` for the arguments that its functions share.
    """
    return _position("argmax", ops.argmax, a, axis, out, keepdims)


def argmin(a: Any, axis: int | None = None, out: None = None, keepdims: builtins.bool | None = None) -> Any:
    """Index (the default integer) of the first smallest element, or of the first NaN; of the flattened array without `axis`.

    ValueError if there are no elements.

    See `purax.numpy.reduction` for the arguments that its functions share.
    """
    return _position("argmin", ops.argmin, a, axis, out, keepdims)


def _position(name: str, operation: Any, a: Any, axis: Any, out: None, keepdims: Any) -> Any:
    refuse(name, out=out)
    check_arraylike(name, a)
    a = as_operand(a)
    shape = a.aval.shape
    axes: tuple[int, ...] = tuple(range(len(shape)))
    if axis is None:
        a, index = ops.reshape(a, (a.aval.size,)), 0
    else:
        index = _axis(axis, len(shape))
        axes = (index,)
    if a.aval.shape[index] == 0:
        raise ValueError(f"attempt to get {name} of an empty sequence")
    result = operation(a, index, dtypes.default_int())
    return keep(result, shape, axes) if keepdims else result


# ---- logic and counts


def all(a: Any, axis: Any = None, out: None = None, keepdims: builtins.bool = False, *, where: Any = None) -> Any:
    """Whether all elements over axes differ from zero.

    See `purax.numpy.reduction` for the arguments that its functions share.
    """
    check_arraylike("all", a)
    a = truth(as_operand(a))
    return _reduce("all", a, axis, None, out, keepdims, None, where, ops.reduce_and_p, ops.bitwise_and, "and", True)


def any(a: Any, axis: Any = None, out: None = None, keepdims: builtins.bool = False, *, where: Any = None) -> Any:
    """Whether any element over axes differs from zero.

    See `purax.numpy.reduction` for the arguments that its functions share.
    """
    check_arraylike("any", a)
    a = truth(as_operand(a))
    return _reduce("any", a, axis, None, out, keepdims, None, where, ops.reduce_or_p, ops.bitwise_or, "or", True)


def count_nonzero(a: Any, axis: Any = None, keepdims: builtins.bool = False) -> Any:
    """Number of elements that differ from zero over axes, as the default integer.

    See `purax.numpy.reduction` for the arguments that its functions share.
    """
    check_arraylike("count_nonzero", a)
    return sum(truth(as_operand(a)), axis, dtypes.default_int(), None, keepdims)


# ---- means and variances


def _mean_dtypes(a: Any, dtype: Any) -> tuple[Any, Any]:
    """The dtype to compute in and that of the result."""
    if dtype is None:
        result = inexact(a.aval.dtype, False)[0]
    else:
        result = dtypes.named(dtype)
    if dtypes.is_complex(a.aval.dtype) and not dtypes.is_complex(result) and dtypes.is_inexact(result):
        return a.aval.dtype, result
    return (dtypes.float32 if _is_small_float(result) else result), result


def _count(name: str, a: Any, axes: tuple[int, ...], keepdims: builtins.bool, where: Any, dtype: Any) -> Any:
    """How many elements go into each result: a Python int, or with a mask an array of `dtype`."""
    if where is None:
        return math.prod([a.aval.shape[i] for i in axes])
    mask = _mask(name, where)
    shape = joint_shape(name, mask.aval.shape, a.aval.shape)
    return sum(spread(mask, shape), axes, dtype, None, keepdims)


def _divide(total: Any, count: Any) -> Any:
    dtype = total.aval.dtype
    if isinstance(count, int):
        return ops.div(total, constant(float(count) if dtypes.is_inexact(dtype) else count, total.aval))
    divisor = convert(count, dtype)
    return ops.div(total, spread(divisor, total.aval.shape))


def mean(
    a: Any, axis: Any = None, dtype: Any = None, out: None = None, keepdims: builtins.bool = False, *, where: Any = None
) -> Any:
    """Arithmetic mean over axes, of `dtype`; by default of the operand's if that is inexact, else of the default float.

    See `purax.numpy.reduction` for the arguments that its functions share.
    """
    if dtype is None and where is None and out is None:
        result = _planned("mean", a, axis, keepdims)
        if result is not None:
            return result
    check_arraylike("mean", a)
    return _mean("mean", as_operand(a), axis, dtype, out, keepdims, where)


def _mean(name: str, a: Any, axis: Any, dtype: Any, out: None, keepdims: builtins.bool, where: Any) -> Any:
    refuse(name, out=out)
    computed, result = _mean_dtypes(a, dtype)
    axes = reduced_axes(axis, a.aval.ndim)
    if where is not None:
        a = spread(a, joint_shape(name, _mask(name, where).aval.shape, a.aval.shape))
        axes = reduced_axes(axis, a.aval.ndim)
    total = sum(a, axes, computed, None, keepdims, None, where)
    count = _count(name, a, axes, keepdims, where, computed)
    return convert(_divide(total, count), result)


def var(
    a: Any, axis: Any = None, dtype: Any = None, out: None = None, ddof: int = 0, keepdims: builtins.bool = False, *,
    where: Any = None, mean: Any = None, correction: Any = None,
) -> Any:  # fmt: skip
    """Variance over axes: the mean squared distance to the mean, divided by N - `ddof`; real also for complex numbers.

    See `purax.numpy.reduction` for the arguments that its functions share.

    Parameters
    ----------
    ddof : number
    mean : array, optional
        The mean, if it is known already (with `keepdims`).
    correction : number, optional
        Another name of `ddof`.

    Returns
    -------
    array without the axes, of inexact dtype

    Raises
    ------
    ValueError
        `ddof` and `correction`, or a real dtype for complex numbers.
    """
    check_arraylike("var", a)
    if correction is not None:
        if ddof != 0:
            raise ValueError("ddof and correction can't be provided simultaneously.")
        ddof = correction
    return _variance("var", as_operand(a), axis, dtype, out, ddof, keepdims, where, mean)


def std(
    a: Any, axis: Any = None, dtype: Any = None, out: None = None, ddof: int = 0, keepdims: builtins.bool = False, *,
    where: Any = None, mean: Any = None, correction: Any = None,
) -> Any:  # fmt: skip
    """Standard deviation over axes, the root of `var`. Its gradient where all elements are equal is 0, not NaN.

    See `purax.numpy.reduction` for the arguments that its functions share.

    Parameters
    ----------
    ddof, mean, correction
        As in `var`.

    Returns
    -------
    array without the axes, of inexact dtype

    Raises
    ------
    ValueError
        `ddof` and `correction`, or a dtype that does not fit.

    Examples
    --------
    >>> pnp.std(pnp.array([1.0, 3.0])).item()
    1.0
    """
    check_arraylike("std", a)
    _check_float_dtype("std", dtype)
    if correction is not None:
        if ddof != 0:
            raise ValueError("ddof and correction can't be provided simultaneously.")
        ddof = correction
    return _root(_variance("std", as_operand(a), axis, dtype, out, ddof, keepdims, where, mean))


def _root(variance: Any) -> Any:
    """Square root with derivative 0 at 0."""
    zero = ops.eq(variance, ops.full_like(variance, 0))
    return ops.select_n(
        zero, ops.sqrt(ops.select_n(zero, variance, ops.full_like(variance, 1))), ops.full_like(variance, 0)
    )


def _check_float_dtype(name: str, dtype: Any) -> None:
    if dtype is not None and not dtypes.is_inexact(dtypes.named(dtype)):
        raise ValueError(f"dtype argument to {name} must be inexact; got {dtype}")


def _variance(
    name: str, a: Any, axis: Any, dtype: Any, out: None, ddof: Any, keepdims: builtins.bool, where: Any, mean_: Any
) -> Any:
    refuse(name, out=out)
    if dtype is not None and dtypes.is_complex(a.aval.dtype) and not dtypes.is_complex(dtypes.named(dtype)):
        if dtypes.is_inexact(dtypes.named(dtype)):
            raise ValueError(
                f"{name} does not yet support real dtype parameters when computing the variance of an array of complex values. The "
                "semantics of numpy.var seem unclear in this case. Please comment on the data's real and imaginary parts instead."
            )
    computed, result = _mean_dtypes(a, dtype)
    if dtypes.itemsize_bits(a.aval.dtype) > dtypes.itemsize_bits(computed) and dtypes.is_inexact(a.aval.dtype):
        computed = a.aval.dtype  # what is narrower is the result alone
    axes = reduced_axes(axis, a.aval.ndim)
    if where is not None:
        a = spread(a, joint_shape(name, _mask(name, where).aval.shape, a.aval.shape))
        axes = reduced_axes(axis, a.aval.ndim)
    a = convert(a, computed)
    center = _mean(name, a, axes, computed, None, True, where) if mean_ is None else convert(mean_, computed)
    distance = ops.sub(a, broadcast_to_shape(as_operand(center), a.aval.shape))
    if dtypes.is_complex(computed):
        squared = ops.add(ops.square(ops.real(distance)), ops.square(ops.imag(distance)))
    else:
        squared = ops.square(distance)
    real = squared.aval.dtype
    total = sum(squared, axes, real, None, keepdims, None, where)
    count = _count(name, a, axes, keepdims, where, real)
    if isinstance(count, int) and isinstance(ddof, (int, float)):
        divisor = convert(float(count - ddof) if count > ddof else np.nan, real)
    else:
        divisor = ops.sub(
            convert(count if hasattr(count, "aval") or type(count) is Dim else float(count), real), _cast(ddof, real)
        )
        divisor = ops.select_n(ops.gt(divisor, ops.full_like(divisor, 0)), ops.full_like(divisor, np.nan), divisor)
    return convert(
        ops.div(total, spread(divisor, total.aval.shape)), dtypes.real_dtype(result) if dtype is None else result
    )


def average(
    a: Any, axis: Any = None, weights: Any = None, returned: builtins.bool = False, keepdims: builtins.bool = False
) -> Any:
    """Weighted mean over axes; with `returned` also the sum of weights, both of inexact dtype.

    See `purax.numpy.reduction` for the arguments that its functions share.

    Parameters
    ----------
    weights : array, optional
        Of the shape of `a`, or that of the named axes in their order; else ValueError.
    returned : bool

    Returns
    -------
    array without the axes, or two
    """
    if weights is None:
        check_arraylike("average", a)
        (a,) = promote_dtypes_inexact(a)
        result = mean(a, axis, None, None, keepdims)
        axes = reduced_axes(axis, a.aval.ndim)
        total = ops.full_like(result, int(np.prod([a.aval.shape[i] for i in axes], dtype=np.int64)))
        return (result, total) if returned else result
    check_arraylike("average", a, weights)
    a, weights = promote_dtypes_inexact(a, weights)
    computed, dtype = _mean_dtypes(a, None)
    a, weights = convert(a, computed), convert(weights, computed)
    shape = a.aval.shape
    axes = reduced_axes(axis, len(shape))
    if weights.aval.shape != shape:
        weights = _placed_weights(weights, shape, axis, axes)
    total = sum(weights, axes, None, None, keepdims)
    result = convert(ops.div(sum(ops.mul(a, weights), axes, None, None, keepdims), total), dtype)
    return (result, convert(total, dtype)) if returned else result


def _placed_weights(weights: Any, shape: tuple[int, ...], axis: Any, axes: tuple[int, ...]) -> Any:
    if axis is None:
        raise ValueError("Axis must be specified when shapes of a and weights differ.")
    if weights.aval.shape != tuple(shape[i] for i in axes):
        if weights.aval.ndim == 1 and len(axes) == 1:
            raise ValueError("Length of weights not compatible with specified axis.")
        raise ValueError("Shape of weights must be consistent with shape of a along specified axis.")
    order = sorted(range(len(axes)), key=axes.__getitem__)
    return ops.broadcast_in_dim(ops.transpose(weights, order), shape, sorted(axes))


# ---- reductions that leave NaN out


def _without_nan(name: str, a: Any, fill: Any) -> tuple[Any, Any]:
    """The operand with NaN replaced, and where it was; (operand, None) for dtypes without NaN."""
    check_arraylike(name, a)
    a = as_operand(a)
    if not dtypes.is_inexact(a.aval.dtype):
        return a, None
    missing = isnan(a)
    return ops.select_n(missing, a, ops.full_like(a, fill if np.isscalar(fill) else fill(a.aval.dtype))), missing


def nansum(
    a: Any, axis: Any = None, dtype: Any = None, out: None = None, keepdims: builtins.bool = False, initial: Any = None,
    where: Any = None,
) -> Any:  # fmt: skip
    """Sum over axes with NaN counted as 0.

    See `purax.numpy.reduction` for the arguments that its functions share.
    """
    return _total("sum", _without_nan("nansum", a, 0)[0], axis, dtype, out, keepdims, initial, where)


def nanprod(
    a: Any, axis: Any = None, dtype: Any = None, out: None = None, keepdims: builtins.bool = False, initial: Any = None,
    where: Any = None,
) -> Any:  # fmt: skip
    """Product over axes with NaN counted as 1.

    See `purax.numpy.reduction` for the arguments that its functions share.
    """
    return _total("prod", _without_nan("nanprod", a, 1)[0], axis, dtype, out, keepdims, initial, where)


def nanmax(
    a: Any, axis: Any = None, out: None = None, keepdims: builtins.bool = False, initial: Any = None, where: Any = None
) -> Any:
    """Largest element over axes, NaN left out; NaN where there is nothing else.

    See `purax.numpy.reduction` for the arguments that its functions share.
    """
    return _nan_extremum("nanmax", "maximum", a, axis, out, keepdims, initial, where)


def nanmin(
    a: Any, axis: Any = None, out: None = None, keepdims: builtins.bool = False, initial: Any = None, where: Any = None
) -> Any:
    """Smallest element over axes, NaN left out; NaN where there is nothing else.

    See `purax.numpy.reduction` for the arguments that its functions share.
    """
    return _nan_extremum("nanmin", "minimum", a, axis, out, keepdims, initial, where)


def _nan_extremum(
    name: str, kind: str, a: Any, axis: Any, out: None, keepdims: builtins.bool, initial: Any, where: Any
) -> Any:
    filled, missing = _without_nan(name, a, lambda dtype: identity_of(kind, dtype))
    result = _extremum(name, filled, axis, out, keepdims, initial, where)
    if missing is None or initial is not None:
        return result
    nothing = all(missing, axis, None, keepdims, where=where)
    return ops.select_n(nothing, result, ops.full_like(result, np.nan))


def nanargmax(a: Any, axis: int | None = None, out: None = None, keepdims: builtins.bool | None = None) -> Any:
    """Index of the first largest element, NaN left out; -1 where all are NaN (NumPy raises).

    See `purax.numpy.reduction` for the arguments that its functions share.
    """
    return _nan_position("nanargmax", argmax, "maximum", a, axis, out, keepdims)


def nanargmin(a: Any, axis: int | None = None, out: None = None, keepdims: builtins.bool | None = None) -> Any:
    """Index of the first smallest element, NaN left out; -1 where all are NaN (NumPy raises).

    See `purax.numpy.reduction` for the arguments that its functions share.
    """
    return _nan_position("nanargmin", argmin, "minimum", a, axis, out, keepdims)


def _nan_position(name: str, position: Any, kind: str, a: Any, axis: Any, out: None, keepdims: Any) -> Any:
    refuse(name, out=out)
    filled, missing = _without_nan(name, a, lambda dtype: identity_of(kind, dtype))
    result = position(filled, axis, None, keepdims)
    if missing is None:
        return result
    nothing = all(missing, axis, None, builtins.bool(keepdims))
    return ops.select_n(nothing, result, ops.full_like(result, -1))


def _valid(name: str, a: Any, where: Any) -> Any:
    """The mask of elements that are not NaN and that `where` lets through; None if all are."""
    if not dtypes.is_inexact(a.aval.dtype):
        return where
    valid = ops.bitwise_not(isnan(a))
    if where is None:
        return valid
    mask = _mask(name, where)
    shape = joint_shape(name, valid.aval.shape, mask.aval.shape)
    return ops.bitwise_and(spread(valid, shape), spread(mask, shape))


def nanmean(
    a: Any, axis: Any = None, dtype: Any = None, out: None = None, keepdims: builtins.bool = False, where: Any = None
) -> Any:
    """Arithmetic mean over axes of the elements that are not NaN; NaN where there are none.

    See `purax.numpy.reduction` for the arguments that its functions share.
    """
    check_arraylike("nanmean", a)
    a = as_operand(a)
    return _mean("nanmean", a, axis, dtype, out, keepdims, _valid("nanmean", a, where))


def nanvar(
    a: Any, axis: Any = None, dtype: Any = None, out: None = None, ddof: int = 0, keepdims: builtins.bool = False,
    where: Any = None, mean: Any = None,
) -> Any:  # fmt: skip
    """Variance over axes of the elements that are not NaN; NaN where `ddof` or fewer are left.

    See `purax.numpy.reduction` for the arguments that its functions share.

    Parameters
    ----------
    ddof, mean
        As in `var`.

    Returns
    -------
    array without the axes, of inexact dtype
    """
    check_arraylike("nanvar", a)
    a = as_operand(a)
    return _variance("nanvar", a, axis, dtype, out, ddof, keepdims, _valid("nanvar", a, where), mean)


def nanstd(
    a: Any, axis: Any = None, dtype: Any = None, out: None = None, ddof: int = 0, keepdims: builtins.bool = False,
    where: Any = None, mean: Any = None,
) -> Any:  # fmt: skip
    """Standard deviation over axes of the elements that are not NaN.

    See `purax.numpy.reduction` for the arguments that its functions share.

    Parameters
    ----------
    ddof, mean
        As in `var`.

    Returns
    -------
    array without the axes, of inexact dtype
    """
    return _root(nanvar(a, axis, dtype, out, ddof, keepdims, where, mean))
