# SPDX-License-Identifier: Apache-2.0
"""Arrays as text and in files, and small questions about objects."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from purax.core.operators import Operators
from purax.numpy.creation import asarray

__all__ = [
    "array_repr", "array_str", "get_printoptions", "isscalar", "iterable", "load", "printoptions", "save", "savez",
    "set_printoptions",
]  # fmt: skip

get_printoptions, printoptions, set_printoptions = np.get_printoptions, np.printoptions, np.set_printoptions
iterable = np.iterable


def array_repr(
    arr: Any, max_line_width: int | None = None, precision: int | None = None, suppress_small: bool | None = None
) -> str:
    """The text that `repr` gives, with NumPy's formatting of numbers.

    Parameters
    ----------
    arr : array
    max_line_width, precision, suppress_small
        As in `numpy.array_repr`.

    Returns
    -------
    str
    """
    return np.array_repr(np.asarray(arr), max_line_width, precision, suppress_small).replace("array(", "Array(", 1)


def array_str(
    a: Any, max_line_width: int | None = None, precision: int | None = None, suppress_small: bool | None = None
) -> str:
    """The text that `str` gives, with NumPy's formatting of numbers.

    Parameters
    ----------
    a : array
    max_line_width, precision, suppress_small
        As in `numpy.array_str`.

    Returns
    -------
    str
    """
    return np.array_str(np.asarray(a), max_line_width, precision, suppress_small)


def save(file: Any, arr: Any, allow_pickle: bool = True) -> None:
    """Write an array to a ``.npy`` file; dtypes that NumPy lacks are kept as their bits and restored by `load`.

    Parameters
    ----------
    file : path or binary file
    arr : array
    allow_pickle : bool
        As in `numpy.save`.
    """
    np.save(file, np.asarray(arr), allow_pickle=allow_pickle)


def savez(file: Any, *args: Any, allow_pickle: bool = True, **kwds: Any) -> None:
    """Write several arrays to one ``.npz`` file, under the names of the keywords or as arr_0, arr_1, ...

    Parameters
    ----------
    file : path or binary file
    args, kwds : arrays
    allow_pickle : bool
        As in `numpy.savez`.
    """
    np.savez(
        file, *[np.asarray(x) for x in args], allow_pickle=allow_pickle, **{k: np.asarray(x) for k, x in kwds.items()}
    )


def load(file: Any, *args: Any, **kwargs: Any) -> Any:
    """Read an array from a ``.npy`` file; a ``.npz`` file gives NumPy's mapping of names to arrays.

    Parameters
    ----------
    file : path or binary file
    args, kwargs
        As in `numpy.load`.

    Returns
    -------
    array, or mapping of str to NumPy arrays
    """
    found = np.load(file, *args, **kwargs)
    if not isinstance(found, np.ndarray):
        return found
    if found.dtype == np.dtype("V2"):  # what NumPy makes of bfloat16
        found = found.view(ml_dtypes.bfloat16)
    return asarray(found)


def isscalar(element: Any) -> bool:
    """Whether an object is a Python or NumPy scalar, or an array without axes."""
    if isinstance(element, (Operators, np.ndarray)) or hasattr(element, "aval"):
        return bool(element.ndim == 0)
    if hasattr(element, "__purax_array__") or hasattr(element, "__jax_array__"):
        return bool(np.ndim(asarray(element)) == 0)
    return np.isscalar(element)
