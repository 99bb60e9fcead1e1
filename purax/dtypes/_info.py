# SPDX-License-Identifier: Apache-2.0
"""Limits of dtypes, and which casts NumPy's rules allow."""

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from purax.dtypes import _kinds as k


def finfo(dtype: Any) -> Any:
    """Return the limits of a floating or complex dtype: `eps`, `max`, `min`, `tiny`, `bits`, ...

    Parameters
    ----------
    dtype : dtype-like, or array
        A complex dtype gives the limits of its parts.

    Raises
    ------
    ValueError
        The dtype is not inexact.

    Examples
    --------
    >>> float(finfo("bfloat16").eps)
    0.0078125
    """
    found = k.real_dtype(k.named(_of(dtype)))
    if not k.is_float(found):
        raise ValueError(f"data type {found} is not inexact: it has no finfo, use iinfo for integers")
    return np.finfo(found) if found in _NUMPY_FLOATS else ml_dtypes.finfo(found)


def _of(x: Any) -> Any:
    """The dtype of an array (of purax, NumPy or another library); what is no array is taken for a dtype."""
    return x.dtype if hasattr(x, "shape") and not isinstance(x, (type, np.dtype)) else x


_NUMPY_FLOATS = (k.float16, k.float32, k.float64)


def iinfo(int_type: Any) -> Any:
    """Return the limits of an integer dtype: `min`, `max`, `bits`.

    Parameters
    ----------
    int_type : dtype-like, or array
        An integer dtype.

    Raises
    ------
    ValueError
        The dtype is not an integer.

    Examples
    --------
    >>> iinfo("int8").max
    127
    """
    found = k.named(_of(int_type))
    if not k.is_integer(found):
        raise ValueError(f"data type {found} is not an integer: it has no iinfo, use finfo for floats")
    return ml_dtypes.iinfo(found) if k.itemsize_bits(found) < 8 else np.iinfo(found)


def can_cast(from_: Any, to: Any, casting: Any = "safe") -> bool:
    """Tell whether NumPy's rules allow a cast.

    Parameters
    ----------
    from_, to : dtype-like
        Dtypes; a Python scalar type means NumPy's own 64-bit dtype.
    casting : {"no", "equiv", "safe", "same_kind", "unsafe"}
        As in `numpy.can_cast`.
    """
    return bool(np.can_cast(from_, to, casting=casting))


_KIND_TESTS: dict[str, Callable[[Any], bool]] = {
    "bool": k.is_bool,
    "signed integer": k.is_signed,
    "unsigned integer": k.is_unsigned,
    "integral": k.is_integer,
    "real floating": k.is_float,
    "complex floating": k.is_complex,
    "numeric": lambda dtype: k.is_integer(dtype) or k.is_inexact(dtype),
}


def isdtype(dtype: Any, kind: Any) -> bool:
    """Tell whether a dtype is of one of the kinds that the array API standard names.

    Parameters
    ----------
    dtype : dtype-like
        The dtype that is asked about.
    kind : str, dtype, or tuple of them
        "bool", "signed integer", "unsigned integer", "integral", "real floating", "complex floating", "numeric", or dtypes.

    Raises
    ------
    ValueError
        A string that names neither a kind nor a dtype.
    """
    found = k.named(dtype)
    for one in kind if isinstance(kind, tuple) else (kind,):
        test = _KIND_TESTS.get(one) if isinstance(one, str) else None
        if test is not None:
            if test(found):
                return True
            continue
        try:
            wanted = k.named(one)
        except TypeError:
            raise ValueError(f"{one!r} is no kind of dtypes: use one of {', '.join(_KIND_TESTS)}, or a dtype") from None
        if found == wanted:
            return True
    return False
