# SPDX-License-Identifier: Apache-2.0
"""Whether two results are the same."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from tests.differential.draw import kind_of
from tests.differential.entry import Entry

NARROW = {"int64": "int32", "uint64": "uint32", "float64": "float32", "complex128": "complex64"}


def narrow(dtype: Any) -> np.dtype[Any]:
    """The 32-bit dtype that a 64-bit one becomes by default."""
    return np.dtype(NARROW.get(np.dtype(dtype).name, dtype))


def arrays_in(tree: Any) -> list[np.ndarray]:
    """All arrays in nested lists, tuples and dictionaries."""
    if isinstance(tree, np.ndarray | np.generic):
        return [np.asarray(tree)]
    if isinstance(tree, dict):
        tree = list(tree.values())
    return [one for part in tree for one in arrays_in(part)] if isinstance(tree, list | tuple) else []


def explain(got: Any, want: Any, entry: Entry, arguments: Any, x64: bool) -> str | None:
    """What is wrong with a result, or None."""
    if isinstance(want, list | tuple):
        if not isinstance(got, list | tuple) or len(got) != len(want):
            return f"{len(want)} results are wanted, not {got!r}"
        parts = [explain(g, w, entry, arguments, x64) for g, w in zip(got, want, strict=True)]
        return next((part for part in parts if part), None)
    if want is None or isinstance(got, str | int | float):
        return None if got == want else f"{got!r} is not {want!r}"
    got, want = np.asarray(got), np.asarray(want)
    if got.shape != want.shape:
        return f"shape {got.shape} is not {want.shape}"
    return dtype_fault(got, want, entry, arguments, x64) or value_fault(got, want, entry, arguments)


def dtype_fault(got: np.ndarray, want: np.ndarray, entry: Entry, arguments: Any, x64: bool) -> str | None:
    """What is wrong with a dtype."""
    kinds = [kind_of(x.dtype).replace("h", "f") for x in (got, want)]
    if not entry.dtypes:
        return None
    if (asked := arguments[1].get("dtype")) is not None:
        return None if got.dtype == asked else f"dtype {got.dtype} is not {asked}, which was asked for"
    if kinds[0] != kinds[1]:
        return f"dtype {got.dtype} is of another kind than {want.dtype}"
    expected = want.dtype if x64 else narrow(want.dtype)
    if kinds[1] in "biu":
        return None if got.dtype == expected else f"dtype {got.dtype} is not {expected}"
    given = {x.dtype for x in arrays_in(arguments) if kind_of(x.dtype) in "fhc"}
    if len(given) == 1:
        (dtype,) = given
        allowed = {dtype, np.ones((), dtype).real.dtype}
        if entry.inexact and any(kind_of(x.dtype) in "iu" for x in arrays_in(arguments)):
            allowed.add(expected)  # integers become numbers of the default dtype, which may be the wider one
        if got.dtype not in allowed and not (kinds[1] == "c" and dtype.kind != "c"):
            return f"dtype {got.dtype} of a result of {dtype}"
    return None


def value_fault(got: np.ndarray, want: np.ndarray, entry: Entry, arguments: Any) -> str | None:
    """What is wrong with the values."""
    if kind_of(got.dtype) not in "fhc":
        with np.errstate(all="ignore"):
            good = np.array_equal(got, want.astype(got.dtype))
        return None if good else f"{got!r} is not {want!r}"
    info = ml_dtypes.finfo(np.ones((), got.dtype).real.dtype)
    wide = np.complex128 if got.dtype.kind == "c" else np.float64
    # The reference is rounded to the dtype of the result first: what overflows there is infinite here.
    with np.errstate(all="ignore"):
        rounded = want.astype(got.dtype).astype(wide)
        got = got.astype(wide)
        sizes = [np.abs(x[np.isfinite(x)]).max(initial=0) for x in (*numbers(arguments), rounded)]
        largest = max(entry.scale, *sizes)
        bound = float(info.eps) * (entry.ulps * np.abs(rounded) + entry.absolute * largest) + float(info.tiny)
        finite = np.isfinite(rounded)
        near = np.abs(got - rounded) <= bound
        if wide is np.float64:
            near |= (got == rounded) | (np.isnan(got) & np.isnan(rounded))
        else:
            near |= ~finite & ~np.isfinite(got)
    good = np.where(finite, near & np.isfinite(got), near)
    if not good.all():
        return f"{got!r} is not {rounded!r}"
    zeros = (rounded == 0) & (got == 0) if entry.signs and wide is np.float64 else np.zeros(got.shape, bool)
    if (np.signbit(got.real) != np.signbit(rounded.real))[zeros].any():
        return f"signs of zeros: {got!r} is not {rounded!r}"
    return None


def numbers(arguments: Any) -> list[np.ndarray]:
    """All arrays among the arguments, as 64-bit numbers."""
    return [x.astype(np.complex128) for x in arrays_in(arguments) if kind_of(x.dtype) in "biufhc"]
