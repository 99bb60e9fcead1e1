# SPDX-License-Identifier: Apache-2.0
"""Choices: `where`, `clip`, `select`, `piecewise`. What is not chosen never touches a gradient.

Operands broadcast, and results have their common dtype.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from purax import dtypes, errors
from purax.config import current as settings
from purax.core.trace import Tracer, aval_of
from purax.numpy import _ops as ops
from purax.numpy.arithmetic import maximum, minimum, remainder
from purax.numpy.comparison import truth
from purax.numpy.positions import nonzero
from purax.numpy.promotion import (
    as_operand,
    broadcast_to_shape,
    check_arraylike,
    joint_shape,
    promote_dtypes,
    refuse,
    spread,
)
from purax.runtime.array import Array, wrap_host
from purax.runtime.transfer import HOST_LIMIT

__all__ = ["choose", "clip", "piecewise", "select", "where"]


# Settings and types of condition, x, y -> aval of the result where the host selects; None where not.
_host_types: dict[Any, Any] = {}
_SCALARS = (float, int, bool)


def _where_on_host(condition: Array, x: Any, y: Any) -> Any:
    """The selection by NumPy for small arrays on the host: it moves bits only, so they are XLA's."""
    values: list[Any] = []
    key: list[Any] = [settings().trace_key]
    for part in (condition, x, y):
        if type(part) is Array:
            value: Any = part._np
            if value is None or part._placement is not None:
                return None
            key.append(part.aval)
        elif type(part) in _SCALARS:
            value = part
            key.append(type(part))
        else:
            return None
        values.append(value)
    types = tuple(key)
    aval = _host_types.get(types, False)
    if aval is False:
        result = _where(condition, x, y)
        small = type(result) is Array and result.aval.size <= HOST_LIMIT and isinstance(result.aval.dtype, np.dtype)
        _host_types[types] = result.aval if small and condition.aval.dtype == bool else None
        return result
    if aval is None:
        return None
    dtype = aval.dtype
    chosen = [v.astype(dtype, copy=False) if isinstance(v, np.ndarray) else np.array(v, dtype) for v in values[1:]]
    return wrap_host(aval, np.where(values[0], *chosen))


def where(condition: Any, x: Any = None, y: Any = None, /, *, size: int | None = None, fill_value: Any = None) -> Any:
    """Elements of `x` where the condition holds, of `y` elsewhere; all three broadcast.

    With the condition alone: the indices where it holds, as `nonzero` gives; under `jit` that needs `size`.

    Parameters
    ----------
    condition : bool[...]
        Numbers count as whether they differ from 0.
    x, y : array or scalar
    size : int, optional
    fill_value : scalar, optional
        As in `nonzero`, with the condition alone.

    Returns
    -------
    array of the common dtype of `x` and `y`, or tuple of integer arrays

    Raises
    ------
    ValueError
        One of `x` and `y` alone, or with `size` or `fill_value`.
    """
    if x is None and y is None:
        check_arraylike("where", condition)
        return nonzero(condition, size=size, fill_value=fill_value)
    if x is None or y is None:
        raise ValueError("Either both or neither of the x and y arguments should be provided to purax.numpy.where")
    if size is not None or fill_value is not None:
        raise ValueError("size and fill_value arguments cannot be used in three-term where function.")
    if type(condition) is Array:
        found = _where_on_host(condition, x, y)
        if found is not None:
            return found
    return _where(condition, x, y)


def _where(condition: Any, x: Any, y: Any) -> Any:
    check_arraylike("where", condition, x, y)
    condition = truth(as_operand(condition))
    x, y = promote_dtypes(x, y)
    shape = joint_shape("where", condition.aval.shape, x.aval.shape, y.aval.shape)
    if condition.aval.ndim:
        condition = spread(condition, shape)
    return ops.select_n_p.bind1(condition, spread(y, shape), spread(x, shape))


def clip(arr: Any = None, /, min: Any = None, max: Any = None) -> Any:
    """Limit the elements to lie between `min` and `max`, either of which may be None; real numbers only.

    At a bound the gradient is halved, as at any tie of `maximum`.

    Parameters
    ----------
    arr : real[...]
    min, max : real array or scalar, optional

    Returns
    -------
    array

    Raises
    ------
    ValueError
        No array, or complex numbers.

    Examples
    --------
    >>> pnp.clip(pnp.array([-2, 0, 5]), 0, 3).tolist()
    [0, 0, 3]
    """
    if arr is None:
        raise ValueError("No input was provided to the clip function.")
    check_arraylike("clip", arr)
    for value in (arr, min, max):
        if value is not None and dtypes.is_complex(aval_of(value).dtype):
            raise ValueError(
                "Complex values have no ordering and cannot be clipped: clip their real and imaginary parts."
            )
    arr = as_operand(arr)
    if min is not None:
        arr = maximum(min, arr)
    if max is not None:
        arr = minimum(max, arr)
    return arr


def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Any:
    """For each element the choice of the first condition that holds, else `default`.

    Parameters
    ----------
    condlist : sequence of bool[...]
    choicelist : sequence of arrays
    default : array or scalar

    Returns
    -------
    array

    Raises
    ------
    ValueError
        Lists of different lengths, empty ones, or conditions that are not boolean.
    """
    if len(condlist) != len(choicelist):
        raise ValueError(f"condlist must have length equal to choicelist ({len(condlist)} vs {len(choicelist)})")
    if not len(condlist):
        raise ValueError("condlist must be non-empty")
    check_arraylike("select", *condlist, *choicelist, default)
    conditions = [as_operand(c) for c in condlist]
    for condition in conditions:
        if not dtypes.is_bool(condition.aval.dtype):
            raise ValueError(f"select takes boolean conditions, got dtype {condition.aval.dtype}")
    *choices, result = promote_dtypes(*choicelist, default)
    for condition, choice in zip(reversed(conditions), reversed(choices), strict=True):
        result = where(condition, choice, result)
    return result


def piecewise(x: Any, condlist: Any, funclist: Sequence[Any], *args: Any, **kw: Any) -> Any:
    """Apply to each element the function, or give the constant, of the last condition that holds.

    With one function more than conditions, the last is for elements where none holds; otherwise those are 0.

    Parameters
    ----------
    x : array
    condlist : sequence of bool[...], or one
    funclist : sequence of functions and scalars
    args, kw
        Passed to the functions.

    Returns
    -------
    array like `x`

    Raises
    ------
    ValueError
        Another number of functions.
    """
    check_arraylike("piecewise", x)
    x = as_operand(x)
    listed = (
        list(condlist)
        if isinstance(condlist, (list, tuple)) or getattr(condlist, "ndim", 0) > aval_of(x).ndim
        else [condlist]
    )
    functions = list(funclist)
    if len(functions) not in (len(listed), len(listed) + 1):
        raise ValueError(
            f"with {len(listed)} condition(s), either {len(listed)} or {len(listed) + 1} functions are expected; got {len(functions)}"
        )
    conditions = [broadcast_to_shape(truth(as_operand(c)), x.aval.shape) for c in listed]
    if len(functions) == len(conditions):
        functions.append(0)
    *pieces, rest = functions
    result = _piece(rest, x, args, kw)
    for condition, function in zip(conditions, pieces, strict=True):
        result = where(condition, _piece(function, x, args, kw), result)
    return result


def _piece(function: Any, x: Any, args: tuple[Any, ...], kw: dict[str, Any]) -> Any:
    value = function(x, *args, **kw) if callable(function) else function
    return spread(ops.convert_element_type(as_operand(value), x.aval.dtype), x.aval.shape)


def choose(a: Any, choices: Any, out: None = None, mode: str = "raise") -> Any:
    """For each element of the index array `a`, the element of the choice of that number; all broadcast.

    `mode` is "wrap", "clip" or "raise"; the last works on known indices only.

    Parameters
    ----------
    a : integer[...]
    choices : sequence of arrays
    out : None
    mode : "raise", "wrap" or "clip"

    Returns
    -------
    array of the common dtype of the choices

    Raises
    ------
    DTypeError
        `a` is not of integers.
    ValueError
        Another mode, or an index outside with "raise".
    """
    refuse("choose", out=out)
    check_arraylike("choose", a, *choices)
    a = as_operand(a)
    if not dtypes.is_integer(a.aval.dtype):
        raise errors.DTypeError(f"choose takes integer indices, got dtype {a.aval.dtype}")
    cases = promote_dtypes(*choices)
    count = len(cases)
    if mode == "raise":
        if isinstance(a, Tracer):
            a = a._known(
                errors.ConcretizationTypeError, "an index of choose with mode='raise'", "give mode='wrap' or 'clip'"
            )
        known = np.asarray(a)
        if known.size and not (0 <= known.min() and known.max() < count):
            raise ValueError(
                f"invalid entry in choice array: indices lie outside 0 to {count - 1}; give mode='wrap' or 'clip'"
            )
        index = a
    elif mode == "wrap":
        index = remainder(a, count)
    elif mode == "clip":
        index = clip(a, 0, count - 1)
    else:
        raise ValueError(f"mode={mode!r} not understood. Must be 'raise', 'wrap', or 'clip'")
    shape = joint_shape("choose", index.aval.shape, *[case.aval.shape for case in cases])
    index = spread(ops.convert_element_type(index, dtypes.int32), shape)
    cases = [spread(case, shape) for case in cases]
    return ops.select_n(index, *cases) if count > 1 else cases[0]
