# SPDX-License-Identifier: Apache-2.0
"""Arrays from Python and NumPy values, from buffers, and from a shape and a rule.

A dtype that is not given follows from the values, or is the default float.

Parameters
----------
shape : int or sequence of int
dtype : dtype, optional
    Kept as it is named, also if it has 64 bits.
device, out_sharding : Device or Sharding, optional
    Where the result lies.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from purax import dtypes, errors
from purax.core.aval import ShapeDtypeStruct, array_aval, refuse_masked, unwrapped
from purax.core.dims import Dim, max_dim
from purax.core.hooks import hooks
from purax.core.trace import Tracer, aval_of
from purax.lazy import lazy
from purax.numpy import _ops as ops
from purax.numpy.promotion import (
    as_operand,
    broadcast_to_shape,
    check_arraylike,
    convert,
    inexact,
    promote_dtypes_inexact,
    promote_shapes,
    spread,
    wider,
)
from purax.primitives.resharding import destination, is_explicit, reshard_to
from purax.primitives.shape import canonical_shape
from purax.runtime import dlpack, transfer
from purax.runtime.array import Array
from purax.transforms.vmap import vmap

__all__ = [
    "arange",
    "array",
    "asarray",
    "copy",
    "empty",
    "empty_like",
    "from_dlpack",
    "frombuffer",
    "fromfile",
    "fromfunction",
    "fromiter",
    "fromstring",
    "full",
    "full_like",
    "geomspace",
    "linspace",
    "logspace",
    "ones",
    "ones_like",
    "zeros",
    "zeros_like",
]  # fmt: skip

_control = lazy("purax.control.staging")


# ---- from values


def array(
    object: Any, dtype: Any = None, *args: Any, copy: bool = True, order: str | None = "K", ndmin: int = 0, device: Any = None,
    out_sharding: Any = None,
) -> Any:  # fmt: skip
    """An array of a value: a scalar, an array, nested sequences of them, or an object of the buffer or array protocols.

    Parameters
    ----------
    object : array-like
        Python scalars give weakly typed arrays. NumPy data of 64 bits narrows to 32 unless `enable_x64` is on.
    dtype : dtype, optional
        Kept as it is named, also if it has 64 bits.
    copy : bool
        Whether an Array is copied; anything else always is.
    order : {"K", "C", None}
        Arrays have no memory order; other values raise.
    ndmin : int
        Axes of size 1 are put in front until there are so many.
    device, out_sharding : Device or Sharding, optional
        Where it is to lie.
    args
        No more positional arguments are taken.

    Returns
    -------
    Array

    Raises
    ------
    TypeError
        It is no array of numbers.
    OverflowError
        An integer does not fit.
    NotImplementedError
        `order` is neither "K" nor "C".
    """
    if args:
        raise TypeError("array takes copy, order and ndmin by keyword, not by position")
    if order is not None and order not in ("K", "C"):
        raise NotImplementedError(f"Only implemented for order='K': arrays have no memory order, got order={order!r}")
    target = None if dtype is None else dtypes.named(dtype)
    if hasattr(object, "aval"):
        result = object
        if target is not None:
            result = convert(object, target)
        if copy and result is object:
            result = ops.copy(object)
    else:
        result = _from_value(object, target)
    if ndmin > result.aval.ndim:
        result = ops.reshape(result, (1,) * (ndmin - result.aval.ndim) + result.aval.shape)
    return placed(result, out_sharding if device is None else device)


def asarray(
    a: Any,
    dtype: Any = None,
    order: str | None = None,
    *,
    copy: bool | None = None,
    device: Any = None,
    out_sharding: Any = None,
) -> Any:
    """As `array`, but an Array that already is what is asked for is returned itself.

    See `purax.numpy.creation` for the arguments that its functions share.

    Parameters
    ----------
    a : array-like
    order : "K", "C" or None
    copy : bool, optional
        True: never the same array.

    Returns
    -------
    Array
    """
    if (
        dtype is None
        and device is None
        and copy is None
        and out_sharding is None
        and order is None
        and hasattr(a, "aval")
    ):
        return a
    return array(a, dtype, copy=bool(copy), order=order, device=device, out_sharding=out_sharding)


def copy(a: Any, order: str | None = None) -> Any:
    """A copy of an array, of its dtype and shape. `order` is "K", "C" or None."""
    check_arraylike("copy", a)
    return array(a, copy=True, order=order)


def placed(x: Any, target: Any) -> Any:
    """`x` on a device or sharding, if one is given."""
    if target is None:
        return x
    if is_explicit(target):
        return reshard_to(x, *destination(target, aval_of(x).ndim))
    if isinstance(x, Tracer):
        return _control.device_put(x, target)
    return transfer.device_put(x, target)


def _from_value(value: Any, dtype: Any) -> Any:
    kind = type(value)
    if kind is bool or kind is int or kind is float or kind is complex:
        if dtype is None:
            return hooks.as_array(value)
        if kind is int and dtypes.is_integer(dtype):
            return convert(value, dtype)
        return transfer.put(_plain(value, dtype), array_aval((), dtype))
    if value is None:
        raise ValueError("None is not a valid value for purax.numpy.array")
    given = unwrapped(value)
    if given is not value:
        return array(given, dtype)
    if isinstance(value, (list, tuple)) and value:
        return _from_sequence(value, dtype)
    if isinstance(value, (list, tuple)):
        return _of_host(np.zeros(0), dtypes.default_float() if dtype is None else dtype)
    if isinstance(value, (np.ndarray, np.generic)):
        return _of_host(value, dtype)
    if isinstance(value, (bool, int, float, complex)):
        plain: Any = next(k for k in (bool, int, float, complex) if isinstance(value, k))
        return _from_value(plain(value), dtype)
    try:
        found = np.asarray(value)
    except TypeError as error:
        raise _no_array(value, type(value).__name__) from error
    return _of_host(found, dtype, original=value)


def _plain(value: Any, dtype: Any) -> np.ndarray:
    """A scalar in a dtype; refuses what has no meaning there (NaN as an integer)."""
    if dtypes.is_complex(dtype) or not isinstance(value, complex):
        with np.errstate(all="ignore"):
            return np.array(value, dtype)
    raise errors.DTypeError(f"the complex number {value} was given for an array of dtype {dtype}; take its real part")


def _of_host(value: Any, dtype: Any, original: Any = None) -> Any:
    refuse_masked(value)
    own = value.dtype
    if own not in dtypes.HLO_NAMES and dtypes.native(own) not in dtypes.HLO_NAMES:
        if original is None or own.kind in "OUSV":
            raise _no_array(value if original is None else original, str(own))
    target = dtypes.narrow(dtypes.named(own)) if dtype is None else dtype
    if isinstance(value, np.generic) and dtypes.is_integer(target) and own.kind == "f" and not np.isfinite(value):
        raise ValueError(f"cannot convert float {value} to an integer")
    return transfer.put(value, array_aval(value.shape, target))


def _no_array(value: Any, dtype: str) -> Exception:
    return errors.NonArrayArgumentError(
        f"Value {value!r} with dtype {dtype} is not a valid array type. Only arrays of numeric types are supported."
    )


def _from_sequence(value: Any, dtype: Any) -> Any:
    items: list[Any] = []
    _collect(value, items)
    kinds = set(map(type, items))
    if type(None) in kinds:
        raise ValueError("None is not a valid value for purax.numpy.array")
    if kinds <= _PYTHON:
        if dtype is None:
            dtype = dtypes.python_scalar_dtype(max(kinds, key=_ORDER.__getitem__)) if kinds else dtypes.default_float()
        return _of_nested(value, dtype)
    if all(isinstance(item, _HOST) for item in items):
        for item in items:
            refuse_masked(item)
        if dtype is None:
            if any(getattr(item, "dtype", np.dtype(bool)).kind in "OUS" for item in items):
                raise _no_array(value, "object")
            dtype = dtypes.lattice_result_type(*{_type_key(item): item for item in items}.values())[0]
        return _of_nested(value, dtype)
    if dtype is None:
        for item in items:
            if not isinstance(item, _HOST) and not hasattr(item, "aval"):
                _check_item(item)
        dtype = dtypes.lattice_result_type(*items)[0]
    return _stacked(value, dtype)


def _collect(value: Any, items: list[Any]) -> None:
    for item in value:
        if isinstance(item, (list, tuple)):
            _collect(item, items)
        else:
            items.append(item)


_PYTHON = {bool, int, float, complex}
_HOST = (bool, int, float, complex, np.ndarray, np.generic)
_ORDER = {bool: 0, int: 1, float: 2, complex: 3}


def _type_key(item: Any) -> Any:
    return getattr(item, "dtype", None) or type(item)


def _check_item(item: Any) -> None:
    if isinstance(item, str) or not any(hasattr(item, name) for name in _PROTOCOLS):
        raise _no_array(item, type(item).__name__)


_PROTOCOLS = ("__purax_array__", "__jax_array__", "__array__", "__array_interface__", "__buffer__", "__dlpack__")


def _of_nested(value: Any, dtype: Any) -> Any:
    with np.errstate(all="ignore"):
        if dtypes.is_integer(dtype) or dtypes.is_bool(dtype) or dtypes.is_complex(dtype):
            host = np.array(value, dtype)
        else:
            host = np.array(value)
            if host.dtype.kind == "c":
                raise errors.DTypeError(
                    f"complex numbers were given for an array of dtype {dtype}; take their real part"
                )
            host = host.astype(dtype) if host.dtype.kind != "O" else np.array(value, dtype)
    return transfer.put(host, array_aval(host.shape, dtype))


def _stacked(value: Any, dtype: Any) -> Any:
    """Nested sequences with arrays inside, joined level by level."""
    if not isinstance(value, (list, tuple)):
        return array(value, dtype, copy=False)
    if not value:
        return ops.full((0,), 0, dtype)
    parts = [_stacked(item, dtype) for item in value]
    first = parts[0].aval.shape
    for part in parts:
        if part.aval.shape != first:
            raise errors.ShapeError(
                f"array got nested sequences of unequal shapes: {first} and {part.aval.shape}; arrays are rectangular"
            )
    return ops.concatenate([ops.reshape(part, (1, *first)) for part in parts], 0)


# ---- filled


def _size(shape: Any) -> tuple[int, ...]:
    return canonical_shape(shape)


def zeros(shape: Any, dtype: Any = None, *, device: Any = None, out_sharding: Any = None) -> Any:
    """Zeros of a shape; of the default float unless `dtype` is given.

    See `purax.numpy.creation` for the arguments that its functions share.
    """
    return _constant(shape, 0, dtype, device, out_sharding)


def ones(shape: Any, dtype: Any = None, *, device: Any = None, out_sharding: Any = None) -> Any:
    """Ones of a shape; of the default float unless `dtype` is given.

    See `purax.numpy.creation` for the arguments that its functions share.
    """
    return _constant(shape, 1, dtype, device, out_sharding)


def empty(shape: Any, dtype: Any = None, *, device: Any = None, out_sharding: Any = None) -> Any:
    """Zeros of a shape: nothing is left uninitialized.

    See `purax.numpy.creation` for the arguments that its functions share.
    """
    return _constant(shape, 0, dtype, device, out_sharding)


def _constant(shape: Any, value: int, dtype: Any, device: Any, out_sharding: Any) -> Any:
    dtype = dtypes.default_float() if dtype is None else dtypes.named(dtype)
    return placed(ops.full(_size(shape), value, dtype), out_sharding if device is None else device)


def full(shape: Any, fill_value: Any, dtype: Any = None, *, device: Any = None, out_sharding: Any = None) -> Any:
    """An array of a shape filled with a value, or with an array that broadcasts to the shape.

    See `purax.numpy.creation` for the arguments that its functions share.

    Parameters
    ----------
    fill_value : array or scalar

    Returns
    -------
    array of the shape
        Without `dtype`, that of the value.
    """
    check_arraylike("full", fill_value)
    if dtype is None:
        value = as_operand(fill_value)
    elif isinstance(dtype, dtypes.KeyDtype):
        value = ops.full((), fill_value, dtype)
    else:
        value = array(fill_value, dtype, copy=False)
    return placed(broadcast_to_shape(value, _size(shape)), out_sharding if device is None else device)


def zeros_like(a: Any, dtype: Any = None, shape: Any = None, *, device: Any = None, out_sharding: Any = None) -> Any:
    """Zeros of the shape and dtype (and weak type) of `a`, or of the ones given.

    See `purax.numpy.creation` for the arguments that its functions share.

    Parameters
    ----------
    a : array

    Returns
    -------
    array
    """
    return _like("zeros_like", a, 0, dtype, shape, device, out_sharding)


def ones_like(a: Any, dtype: Any = None, shape: Any = None, *, device: Any = None, out_sharding: Any = None) -> Any:
    """Ones of the shape and dtype (and weak type) of `a`, or of the ones given.

    See `purax.numpy.creation` for the arguments that its functions share.

    Parameters
    ----------
    a : array

    Returns
    -------
    array
    """
    return _like("ones_like", a, 1, dtype, shape, device, out_sharding)


def empty_like(prototype: Any, dtype: Any = None, shape: Any = None, *, device: Any = None) -> Any:
    """Zeros of the shape and dtype (and weak type) of `prototype`, or of the ones given.

    See `purax.numpy.creation` for the arguments that its functions share.

    Parameters
    ----------
    prototype : array

    Returns
    -------
    array
    """
    return _like("empty_like", prototype, 0, dtype, shape, device, None)


def full_like(
    a: Any, fill_value: Any, dtype: Any = None, shape: Any = None, *, device: Any = None, out_sharding: Any = None
) -> Any:
    """An array of the shape and dtype of `a` (or the ones given) filled with a value.

    See `purax.numpy.creation` for the arguments that its functions share.

    Parameters
    ----------
    a : array
    fill_value : array or scalar

    Returns
    -------
    array
    """
    return _like("full_like", a, fill_value, dtype, shape, device, out_sharding)


def _like(name: str, a: Any, value: Any, dtype: Any, shape: Any, device: Any, out_sharding: Any) -> Any:
    if hasattr(a, "dtype") and hasattr(a, "shape") and not isinstance(a, (np.ndarray, np.generic)):
        own_shape, own_dtype, weak = tuple(a.shape), dtypes.named(a.dtype), bool(getattr(a, "weak_type", False))
    else:
        check_arraylike(name, a)
        aval = aval_of(a)
        own_shape, own_dtype, weak = aval.shape, aval.dtype, aval.weak_type
    if dtype is not None:
        own_dtype, weak = dtypes.named(dtype), False
    check_arraylike(name, value)
    sizes = own_shape if shape is None else _size(shape)
    if dtypes.is_key(own_dtype):
        filled = ops.full((), value, own_dtype)
    elif type(value) in _PYTHON:
        with np.errstate(all="ignore"):
            filled = convert(value, own_dtype, weak) if type(value) is int else transfer.put(
                np.array(value).astype(own_dtype), array_aval((), own_dtype, weak)
            )  # fmt: skip
    else:
        filled = ops.convert_element_type(as_operand(value), own_dtype)
    target = out_sharding if device is None else device
    if target is None and shape is None and (isinstance(a, ShapeDtypeStruct) or (type(a) is Array and a.committed)):
        target = a.sharding
    elif target is None and shape is None and isinstance(a, Tracer) and a.aval.spread is not None:
        target = a.aval.spread.replace(unreduced=frozenset()).sharding
    return placed(broadcast_to_shape(filled, sizes), target)


# ---- ranges


def _number(name: str, what: str, value: Any) -> Any:
    """A bound of a range as a NumPy scalar; traced bounds raise ConcretizationTypeError."""
    if value is None:
        return None
    aval = aval_of(value)
    if aval.shape:
        raise errors.ShapeError(f"{name} takes scalars, got {what} of shape {aval.shape}")
    if isinstance(value, Tracer):
        return aval.dtype.type(value.item())
    if hasattr(value, "aval"):
        return np.asarray(value)[()]
    return value


def arange(
    start: Any, stop: Any = None, step: Any = None, dtype: Any = None, *, device: Any = None, out_sharding: Any = None
) -> Any:
    """Numbers from `start` (default 0) up to `stop`, `stop` left out, in steps of `step` (default 1).

    The dtype is that at which the arguments meet; the arguments must be known when traced, since they make the shape.

    See `purax.numpy.creation` for the arguments that its functions share.

    Parameters
    ----------
    start, stop, step : real scalar
        With one alone, it is `stop`.

    Returns
    -------
    array[max(ceil((stop - start) / step), 0)]

    Raises
    ------
    DTypeError
        `dtype` is bool.
    ValueError
        A complex argument.
    ZeroDivisionError
        `step` is 0.

    Examples
    --------
    >>> pnp.arange(2, 8, 3).tolist()
    [2, 5]
    """
    if (
        type(start) is int
        and stop is None
        and step is None
        and dtype is None
        and device is None
        and out_sharding is None
    ):
        return ops.iota(dtypes.default_int(), max(start, 0))
    if any(type(value) is Dim for value in (start, stop, step)):
        return placed(_open_range(start, stop, step, dtype), out_sharding if device is None else device)
    for position, value in enumerate((start, stop, step)):
        if value is not None:
            _check_bound(position, value)
    bounds = [value for value in (start, stop, step) if value is not None]
    target = dtypes.named(dtype) if dtype is not None else dtypes.lattice_result_type(*bounds)[0]
    if dtypes.is_bool(target):
        raise errors.DTypeError("arange does not accept dtype bool")
    if any(dtypes.is_complex(aval_of(value).dtype) for value in bounds):
        raise ValueError("arange takes real start, stop and step: complex numbers have no order")
    first, last, stride = (_number("arange", what, v) for what, v in (("start", start), ("stop", stop), ("step", step)))
    if last is None:
        first, last = 0, first
    if stride is None:
        stride = 1
    elif stride == 0:
        raise ZeroDivisionError("arange: step must not be zero")
    whole = all(isinstance(v, (int, np.integer)) for v in (first, last, stride))
    if whole:
        count = max(len(range(int(first), int(last), int(stride))), 0)
        result = _progression(int(first), int(stride), count, target)
    else:
        count = max(math.ceil((float(last) - float(first)) / float(stride)), 0)
        if float(first) == 0 and float(stride) == 1:
            result = ops.iota(target, count)
        else:
            wide = np.arange(float(first), float(last), float(stride))
            with np.errstate(all="ignore"):
                result = transfer.put(wide.astype(target), array_aval(wide.shape, target))
    return placed(result, out_sharding if device is None else device)


def _check_bound(position: int, value: Any) -> None:
    try:
        check_arraylike("arange", value)
    except errors.NonArrayArgumentError:
        raise errors.NonArrayArgumentError(
            f"arange requires ndarray, scalar, or None arguments, got {type(value)} at position {position}."
        ) from None


def _open_range(start: Any, stop: Any, step: Any, dtype: Any) -> Any:
    """`arange` with sizes that are not known yet among its bounds."""
    first, last = (0, start) if stop is None else (start, stop)
    stride = 1 if step is None else operator.index(step)
    count = max_dim((last - first + stride - (1 if stride > 0 else -1)) // stride, 0)
    target = dtypes.default_int() if dtype is None else dtypes.named(dtype)
    steps = ops.mul(ops.iota(target, count), np.asarray(stride, target))
    return ops.add(steps, ops.convert_element_type(as_operand(first), target))


def _progression(first: int, stride: int, count: int, dtype: Any) -> Any:
    steps = ops.iota(dtype, count)
    if count == 0:
        return steps
    if dtypes.is_integer(dtype):
        limits = dtypes.iinfo(dtype)
        for value in (first, first + stride * (count - 1)):
            if not limits.min <= value <= limits.max:
                raise errors.IntegerOverflowError(f"arange reaches {value}, which does not fit {dtype}")
        if stride != 1 and not limits.min <= stride <= limits.max:  # wrapped arithmetic gives the same numbers
            stride = (stride - int(limits.min)) % (int(limits.max) - int(limits.min) + 1) + int(limits.min)
    elif not dtypes.is_inexact(dtype) or dtypes.itemsize_bits(dtype) < 32:
        host = np.arange(first, first + stride * count, stride).astype(dtype)
        return transfer.put(host, array_aval(host.shape, dtype))
    if stride != 1:
        steps = ops.mul(steps, ops.full((count,), stride, dtype))
    return ops.add(steps, ops.full((count,), first, dtype)) if first else steps


def linspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, retstep: bool = False, dtype: Any = None, axis: int = 0, *,
    device: Any = None,
) -> Any:  # fmt: skip
    """`num` evenly spaced numbers from `start` to `stop`, which broadcast; the new axis is `axis`.

    With `retstep` also the distance of neighbours. Integer dtypes round down.

    See `purax.numpy.creation` for the arguments that its functions share.

    Parameters
    ----------
    start, stop : array or scalar
    num : int
        Not negative, else ValueError.
    endpoint : bool
        Whether `stop` is the last number; else it would be the next one.
    retstep : bool
    axis : int

    Returns
    -------
    array, or (array, array)
    """
    num = _count("linspace", num)
    check_arraylike("linspace", start, stop)
    target = None if dtype is None else dtypes.named(dtype)
    start, stop = promote_dtypes_inexact(start, stop)
    start, stop = promote_shapes("linspace", start, stop)
    own = start.aval.dtype
    result_dtype = own if target is None else target
    computed = wider(own, inexact(result_dtype, False)[0])
    wide = dtypes.float32 if dtypes.is_float(computed) and dtypes.itemsize_bits(computed) < 32 else computed
    start, stop = convert(start, wide), convert(stop, wide)
    shape = start.aval.shape
    steps = num - 1 if endpoint else num
    stride = ops.div(ops.sub(stop, start), ops.full(shape, steps if steps > 0 else np.nan, wide))
    result = _spaced(start, stop, num, steps, endpoint)
    if dtypes.is_integer(result_dtype) and dtypes.is_inexact(wide) and not dtypes.is_complex(wide):
        result = ops.floor(result)
    axis = operator.index(axis)
    axis = axis + len(shape) + 1 if axis < 0 else axis
    if axis:
        result = ops.transpose(result, (*range(1, axis + 1), 0, *range(axis + 1, len(shape) + 1)))
    result = placed(convert(result, result_dtype), device)
    return (result, convert(stride, computed)) if retstep else result


def _spaced(start: Any, stop: Any, num: int, steps: int, endpoint: bool) -> Any:
    """`num` points in front of the axes of `start`; the last one exactly `stop` if that is wanted."""
    dtype, shape = start.aval.dtype, start.aval.shape
    if num <= 1:
        return ops.broadcast_in_dim(start, (num, *shape), range(1, len(shape) + 1))
    inner = steps if endpoint else num
    real = dtypes.real_dtype(dtype)
    share = ops.div(ops.iota(real, inner), ops.full((inner,), steps, real))
    share = ops.convert_element_type(ops.broadcast_in_dim(share, (inner, *shape), (0,)), dtype)
    first, last = (ops.broadcast_in_dim(x, (inner, *shape), range(1, len(shape) + 1)) for x in (start, stop))
    points = ops.add(ops.mul(first, ops.sub(ops.full_like(share, 1), share)), ops.mul(last, share))
    return ops.concatenate([points, ops.reshape(stop, (1, *shape))], 0) if endpoint else points


def _count(name: str, num: Any) -> int:
    if isinstance(num, Tracer):
        num = num.item()
    num = operator.index(num)
    if num < 0:
        raise ValueError(f"Number of samples, {num}, must be non-negative.")
    return num


def logspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, base: Any = 10.0, dtype: Any = None, axis: int = 0
) -> Any:
    """`num` numbers from ``base ** start`` to ``base ** stop``, evenly spaced in the exponent.

    See `purax.numpy.creation` for the arguments that its functions share.

    Parameters
    ----------
    start, stop : array or scalar
        Exponents.
    num : int
    endpoint : bool
        Whether ``base ** stop`` is the last number.
    base : array or scalar
    axis : int

    Returns
    -------
    array
    """
    check_arraylike("logspace", start, stop, base)
    target = None if dtype is None else dtypes.named(dtype)
    computed = dtypes.lattice_result_type(start, stop, base)[0] if target is None else target
    computed = inexact(computed, False)[0]
    exponents = linspace(start, stop, num, endpoint, dtype=computed, axis=axis)
    base = convert(as_operand(base), computed)
    if base.aval.shape:
        base = ops.expand_dims(base, (axis,))
    base = spread(base, exponents.aval.shape)
    result = ops.pow(base, exponents)
    return convert(result, inexact(computed, False)[0] if target is None else target)


def geomspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0) -> Any:
    """`num` numbers from `start` to `stop` with a constant quotient; not through 0. Ends are exact.

    See `purax.numpy.creation` for the arguments that its functions share.

    Parameters
    ----------
    start, stop : array or scalar
        Of one sign, or complex.
    num : int
    endpoint : bool
        Whether `stop` is the last number.
    axis : int

    Returns
    -------
    array

    Examples
    --------
    >>> pnp.geomspace(1, 8, 4).round(4).tolist()
    [1.0, 2.0, 4.0, 8.0]
    """
    check_arraylike("geomspace", start, stop)
    target = None if dtype is None else dtypes.named(dtype)
    computed = inexact(dtypes.lattice_result_type(start, stop)[0] if target is None else target, False)[0]
    computed = wider(computed, inexact(dtypes.lattice_result_type(start, stop)[0], False)[0])
    start, stop = promote_shapes("geomspace", convert(start, computed), convert(stop, computed))
    # Everything is a multiple of the sign of `start`: the quotient stop / start is then positive, or complex.
    unit = ops.sign(start)
    first, last = ops.div(start, unit), ops.div(stop, unit)
    log_first, log_last = ops.log(first), ops.log(last)
    points = ops.exp(linspace(log_first, log_last, num, endpoint, dtype=computed, axis=0))
    points = ops.mul(points, ops.broadcast_in_dim(unit, points.aval.shape, range(1, points.aval.ndim)))
    points = _exact_ends(points, start, stop, endpoint)
    axis = operator.index(axis)
    axis = axis + points.aval.ndim if axis < 0 else axis
    points = ops.transpose(points, (*range(1, axis + 1), 0, *range(axis + 1, points.aval.ndim)))
    return convert(points, computed if target is None else target)


def _exact_ends(points: Any, start: Any, stop: Any, endpoint: bool) -> Any:
    count = points.aval.shape[0]
    shape = points.aval.shape[1:]
    if count == 0:
        return points
    parts = [ops.reshape(start, (1, *shape))]
    inner = count - 1 if endpoint and count > 1 else count
    parts.append(ops.slice_in_dim(points, 1, inner, axis=0))
    if endpoint and count > 1:
        parts.append(ops.reshape(stop, (1, *shape)))
    return ops.concatenate(parts, 0)


# ---- from functions, buffers, text


def fromfunction(function: Callable[..., Any], shape: Any, *, dtype: Any = float, **kwargs: Any) -> Any:
    """The array whose element at each index is ``function(*index)``; the function is mapped by `vmap`, index by index.

    See `purax.numpy.creation` for the arguments that its functions share.

    Parameters
    ----------
    function : callable
        Takes a scalar for each axis, and `kwargs`.
    kwargs
        Passed to the function.

    Returns
    -------
    array, or what the function gives of arrays
    """
    sizes = _size(shape)
    mapped = function
    for axis in range(len(sizes)):
        chosen = [None] * len(sizes)
        chosen[len(sizes) - 1 - axis] = 0  # type: ignore[call-overload]
        mapped = vmap(mapped, in_axes=tuple(chosen))
    return (lambda *indices: mapped(*indices, **kwargs))(*[arange(size, dtype=dtype) for size in sizes])


def frombuffer(buffer: Any, dtype: Any = float, count: int = -1, offset: int = 0) -> Any:
    """The elements that a buffer holds; 64-bit data narrows as that of NumPy arrays does.

    See `purax.numpy.creation` for the arguments that its functions share.

    Parameters
    ----------
    buffer : object of the buffer protocol
    count : int
        How many elements; -1 is all.
    offset : int
        Bytes that are left out in front.

    Returns
    -------
    array[n]
    """
    host = np.frombuffer(buffer, dtype=_host_dtype(dtype), count=count, offset=offset)
    return asarray(host)


def fromstring(string: str, dtype: Any = float, count: int = -1, *, sep: str) -> Any:
    """Numbers from text.

    See `purax.numpy.creation` for the arguments that its functions share.

    Parameters
    ----------
    string : str
    count : int
        How many numbers; -1 is all.
    sep : str
        What stands between them.

    Returns
    -------
    array[n]
    """
    return asarray(np.fromstring(string, dtype=_host_dtype(dtype), count=count, sep=sep))


def _host_dtype(dtype: Any) -> Any:
    """NumPy's dtype of the same name: `float` means 8 bytes in a buffer, and the byte order is that of the buffer."""
    if isinstance(dtype, (str, type, np.dtype)) and dtype in (float, int, complex, bool):
        return dtype
    native = dtypes.named(dtype)
    swapped = native.newbyteorder()
    return swapped if swapped == dtype else native


def fromfile(*args: Any, **kwargs: Any) -> Any:
    """Not available, whatever the arguments (`kwargs`, too): reading files is not pure. Use ``asarray(numpy.fromfile(...))``.

    Raises
    ------
    NotImplementedError
        Always.
    """
    raise NotImplementedError("fromfile reads a file, which is not pure: use purax.numpy.asarray(numpy.fromfile(...))")


def fromiter(*args: Any, **kwargs: Any) -> Any:
    """Not available, whatever the arguments (`kwargs`, too): iterators change as they are read. Use ``asarray(numpy.fromiter(...))``.

    Raises
    ------
    NotImplementedError
        Always.
    """
    raise NotImplementedError(
        "fromiter consumes an iterator, which is not pure: use purax.numpy.asarray(numpy.fromiter(...))"
    )


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Any:
    """The array of an object with `__dlpack__`, without a copy where devices allow.

    See `purax.numpy.creation` for the arguments that its functions share.

    Parameters
    ----------
    x : object with `__dlpack__` and `__dlpack_device__`
    copy : bool, optional

    Returns
    -------
    Array
    """
    return dlpack.from_dlpack(x, device, copy)
