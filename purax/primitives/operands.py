# SPDX-License-Identifier: Apache-2.0
"""Operands of all primitives: what the user functions accept, brought to the strict form that `bind` takes; axes; batching.

Parameters
----------
name : str
    Of the user's function or argument, for messages.
ndim : int
    Rank of the array.
axis : int
    The one that is meant; a mapped axis in `to_front`.
x, xs, values : array-like
    Operands.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from purax import dtypes, errors
from purax.core.hooks import hooks
from purax.core.source import here
from purax.core.trace import Tracer, aval_of

__all__ = [
    "align", "broadcast_shapes", "canonical_axes", "canonical_axis", "coerce", "dtype_name", "lift", "move_axis", "repeat",
    "scalar", "spread", "to_front", "unify",
]  # fmt: skip

_PYTHON = (float, int, bool, complex)


def dtype_name(aval: Any) -> str:
    """Name of a dtype, for messages."""
    dtype = getattr(aval, "dtype", aval)
    return getattr(dtype, "name", str(dtype))


# --- values ---------------------------------------------------------------------------------------------------------


def lift(x: Any) -> Any:
    """`x` as an Array or Tracer of its shape and dtype (objects with `__purax_array__` may give either)."""
    if isinstance(x, (hooks.array_type, Tracer)):
        return x
    convert = getattr(x, "__purax_array__", None) or getattr(x, "__jax_array__", None)
    if convert is not None and not isinstance(x, type):
        return lift(convert())
    return hooks.as_array(x)


def scalar(value: Any, dtype: Any, weak_type: bool = False) -> Any:
    """The Python number `value` as an Array of shape () and of `dtype`.

    Parameters
    ----------
    value : bool, int, float or complex
    dtype : dtype
    weak_type : bool

    Returns
    -------
    dtype[]

    Raises
    ------
    IntegerOverflowError
        An integer that the dtype cannot hold.
    DTypeError
        The number is of a kind above the dtype's: a float for integers, a complex number for floats.
    """
    if dtypes.is_integer(dtype):
        if not isinstance(value, (int, np.integer)):
            raise errors.DTypeError(f"the number {value!r} meets an operand of dtype {dtype.name}; convert one of them")
        limits = _LIMITS[dtype]
        if not limits[0] <= value <= limits[1]:
            raise errors.IntegerOverflowError(
                f"Python integer {value} does not fit {dtype.name}: {limits[0]} to {limits[1]}; use a wider dtype"
            )
    elif isinstance(value, complex) and not dtypes.is_complex(dtype):
        raise errors.DTypeError(f"the number {value!r} meets an operand of dtype {dtype.name}; convert one of them")
    elif dtypes.is_bool(dtype) and not isinstance(value, (bool, np.bool_)):
        raise errors.DTypeError(f"the number {value!r} meets an operand of dtype bool; convert one of them")
    return shape.scalar(value, dtype, weak_type)


_LIMITS = {
    dtype: (int(dtypes.iinfo(dtype).min), int(dtypes.iinfo(dtype).max)) for dtype in (*dtypes.SIGNED, *dtypes.UNSIGNED)
}


def coerce(name: str, *xs: Any) -> tuple[Any, ...]:
    """Bring the operands of the user function `name` to equal shapes and dtypes, as strictly as `lax` does.

    Python numbers take the dtype of the other operands; shapes () and sizes of 1 are repeated; nothing else is promoted.

    Parameters
    ----------
    name : str
        For messages.
    *xs : array-like

    Returns
    -------
    tuple of Array or Tracer

    Raises
    ------
    DTypeError, ShapeError
        Operands differ in dtype or shape.
    """
    first = getattr(xs[0], "aval", None)
    if first is not None:
        for x in xs:
            if getattr(x, "aval", None) is not first:
                break
        else:
            return xs
    values = unify(name, xs)
    return tuple(spread(name, values))


def unify(name: str, xs: Sequence[Any]) -> list[Any]:
    """The operands as Arrays and Tracers of one dtype.

    Raises
    ------
    DTypeError
        Operands of different dtypes, none of which is weak.
    """
    strong = None
    for x in xs:
        if type(x) not in _PYTHON:
            aval = aval_of(x)
            if not aval.weak_type:
                strong = aval.dtype
                break
    if strong is None:
        avals = [aval_of(x) for x in xs]
        target, _ = dtypes.promote([(a.dtype, a.weak_type) for a in avals])
        if all(type(x) in _PYTHON for x in xs) and any(a.dtype != target for a in avals):
            found = " and ".join(dtype_name(a) for a in avals)
            raise errors.DTypeError(
                f"{name}: operands have dtypes {found}; write numbers of one kind, or use the function of purax.numpy, which promotes"
            )
        return [_convert_weak(name, x, target, keep=True) for x in xs]
    return [_convert_weak(name, x, strong) for x in xs]


def _convert_weak(name: str, x: Any, dtype: Any, keep: bool = False) -> Any:
    if type(x) in _PYTHON:
        return scalar(x, dtype, keep) if isinstance(dtype, np.dtype) else lift(x)
    x = lift(x)
    aval = x.aval
    if aval.dtype == dtype:
        return x
    if aval.weak_type and dtypes.promote_pair(aval.dtype, True, dtype, keep)[0] == dtype:
        return cast.convert_element_type_p.bind1(x, new_dtype=dtype, weak_type=keep)
    raise errors.DTypeError(
        f"{name}: operands have dtypes {dtype_name(dtype)} and {dtype_name(aval)}; convert one of them with astype, "
        f"or use the function of purax.numpy, which promotes"
    )


def spread(name: str, values: Sequence[Any]) -> list[Any]:
    """Repeat operands of shape () and sizes of 1 so that all have one shape; equal ranks otherwise."""
    shapes = [v.aval.shape for v in values]
    first = shapes[0]
    if all(s == first for s in shapes):
        return list(values)
    target = broadcast_shapes(*shapes, name=name)
    return [v if v.aval.shape == target else shape.broadcast_in_dim(v, target, _own_axes(v.aval)) for v in values]


def _own_axes(aval: Any) -> tuple[int, ...]:
    return tuple(range(aval.ndim))


def broadcast_shapes(*shapes: Sequence[int], name: str = "broadcast_shapes") -> tuple[int, ...]:
    """The common shape of shapes of one rank (and of ()), where sizes of 1 are repeated.

    Raises
    ------
    ShapeError
        Ranks or sizes differ.
    """
    ranked = [tuple(s) for s in shapes if len(s)]
    if not ranked:
        return ()
    if len({len(s) for s in ranked}) > 1:
        raise errors.ShapeError(
            f"{name}, at {here()}: operands have shapes {', '.join(map(str, map(tuple, shapes)))}; their numbers of axes must be equal: "
            "add axes of size 1 by reshape, or use the function of purax.numpy, which broadcasts"
        )
    result = []
    for sizes in zip(*ranked, strict=True):
        others = {s for s in sizes if s != 1}
        if len(others) > 1:
            raise errors.ShapeError(
                f"{name}, at {here()}: operands have shapes {' and '.join(map(str, map(tuple, shapes)))}, which do not fit together: "
                "along each axis sizes must be equal or 1"
            )
        result.append(others.pop() if others else 1)
    return tuple(result)


# --- axes -----------------------------------------------------------------------------------------------------------


def canonical_axis(axis: Any, ndim: int, name: str = "axis") -> int:
    """`axis` counted from the front.

    Returns
    -------
    int

    Raises
    ------
    ShapeError
        There is no such axis.
    """
    index = operator.index(axis)
    if not -ndim <= index < ndim:
        raise errors.ShapeError(f"{name} {index} is out of bounds for an array with {ndim} axes")
    return index + ndim if index < 0 else index


def canonical_axes(axes: Any, ndim: int, name: str = "axis") -> tuple[int, ...]:
    """Axes (None: all, an integer: one) counted from the front.

    Parameters
    ----------
    axes : int, sequence of int or None

    Returns
    -------
    tuple of int

    Raises
    ------
    ShapeError
        There is no such axis, or it is named twice.
    """
    if axes is None:
        return tuple(range(ndim))
    if isinstance(axes, (int, np.integer)):
        return (canonical_axis(axes, ndim, name),)
    found = tuple(canonical_axis(a, ndim, name) for a in axes)
    if len(set(found)) != len(found):
        raise errors.ShapeError(f"{name} {tuple(axes)} names an axis twice")
    return found


# --- batching -------------------------------------------------------------------------------------------------------


def move_axis(x: Any, source: int, destination: int) -> Any:
    """`x` with one axis moved.

    Parameters
    ----------
    source, destination : int

    Returns
    -------
    array of the operand's dtype
    """
    if source == destination:
        return x
    order = [i for i in range(aval_of(x).ndim) if i != source]
    order.insert(destination, source)
    return shape.transpose(x, tuple(order))


def repeat(x: Any, size: int, dim: int) -> Any:
    """`x` repeated along a new axis `dim`.

    Parameters
    ----------
    size, dim : int

    Returns
    -------
    array of the operand's dtype
    """
    aval = aval_of(x)
    target = (*aval.shape[:dim], size, *aval.shape[dim:])
    return shape.broadcast_in_dim(x, target, [i for i in range(len(target)) if i != dim])


def to_front(axis: Any, x: Any, dim: int | None) -> Any:
    """`x` with the mapped axis in front; repeated along it if it has none.

    Parameters
    ----------
    dim : int or None
        Where the mapped axis lies now.

    Returns
    -------
    array of the operand's dtype
    """
    return repeat(x, axis.size, 0) if dim is None else move_axis(x, dim, 0)


def align(axis: Any, values: Sequence[Any], dims: Sequence[int | None]) -> tuple[list[Any], int]:
    """Give all operands the mapped axis at one place: the others are moved, unmapped operands are repeated.

    Parameters
    ----------
    axis : Axis
    values : sequence of array-like
        Of equal rank apart from the mapped axis.
    dims : sequence of int or None

    Returns
    -------
    list
        The aligned operands.
    int
        The place of the mapped axis.
    """
    dim = next(d for d in dims if d is not None)
    return [
        repeat(x, axis.size, dim) if own is None else move_axis(x, own, dim)
        for x, own in zip(values, dims, strict=True)
    ], dim


from purax.primitives import cast, shape  # noqa: E402  (siblings import this module's names)
