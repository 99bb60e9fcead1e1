# SPDX-License-Identifier: Apache-2.0
"""Indices outside of an axis: the one rule for `x[i]`, `.at`, `take`, and slices at dynamic places.

What Python or NumPy knows is checked at once. What lies on a device is not waited for, unless `debug_bounds` is on.

Parameters
----------
index : int
values : int array
    Indices.
axis : int
size : int
    Of the axis.
wrap : bool
    Negative indices count from the end.
fix : str
    What to do instead, for the message.
what : str
    What is out of bounds, for the message.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from purax import errors
from purax.config import current as settings
from purax.core.dims import Dim
from purax.core.hooks import hooks
from purax.core.source import here
from purax.core.trace import Tracer

__all__ = ["check_device", "check_known", "check_window", "out_of_bounds"]


def out_of_bounds(index: int, axis: int, size: int, fix: str = "", what: str = "index") -> errors.IndexOutOfBoundsError:
    """The error for an index.

    Returns
    -------
    IndexOutOfBoundsError
    """
    return errors.IndexOutOfBoundsError(
        errors.explain(f"{what} {index} is out of bounds for axis {axis} with size {size}, at {here()}.", fix=fix)
    )


def check_known(values: Any, axis: int, size: Any, wrap: bool = True, fix: str = "") -> None:
    """Raise IndexOutOfBoundsError if one of these integers is outside; negative ones count from the end if `wrap`.

    Raises
    ------
    IndexOutOfBoundsError
        An index is outside.
    """
    values = np.asarray(values)
    if values.size and type(size) is not Dim:
        lowest = -size if wrap else 0
        low, high = int(values.min()), int(values.max())
        if low < lowest or high >= size:
            raise out_of_bounds(low if low < lowest else high, axis, size, fix)


def check_device(values: Any, axis: int, size: int, wrap: bool = True, fix: str = "") -> None:
    """The same for an Array or Tracer where `debug_bounds` is on; elements that are not known yet are checked when they are.

    Raises
    ------
    IndexOutOfBoundsError
        An index that is known is outside.
    """
    if not settings().debug_bounds:
        return
    known = _known(values)
    if known is not None:
        check_known(known, axis, size, wrap, fix)
    else:
        hooks.check_indices(values, size, axis)


def check_window(start: Any, axis: int, size: Any, length: Any, wrap: bool) -> None:
    """Raise IndexOutOfBoundsError if a slice of `length` elements would leave the axis at a known start.

    Parameters
    ----------
    start : int or integer scalar
    length : int
        Of the slice.

    Raises
    ------
    IndexOutOfBoundsError
        The slice would leave the axis.
    """
    known = start if isinstance(start, (int, np.integer)) else _known(start) if settings().debug_bounds else None
    if type(size) is Dim or type(length) is Dim:  # known at the call, when the start is moved as arrays are
        return
    if known is None or length > size:  # the latter has an error of its own
        return
    place = int(known)
    if not 0 <= (place + size if wrap and place < 0 else place) <= size - length:
        fix = f"start at 0 to {size - length}; a start that is an array is moved there."
        raise out_of_bounds(place, axis, size, fix, f"a slice of {length} elements at index")


def _known(values: Any) -> Any:
    return values.concrete() if isinstance(values, Tracer) else values
