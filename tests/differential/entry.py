# SPDX-License-Identifier: Apache-2.0
"""What a table says of a function: how its arguments are drawn, and what its results are compared with."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from tests.differential.draw import Drawer


@dataclasses.dataclass(frozen=True)
class Call:
    """The arguments of one call; arrays are NumPy's, and may lie inside lists, tuples and keyword arguments."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def call(*args: Any, **kwargs: Any) -> Call:
    """The arguments, as they are written."""
    return Call(args, kwargs)


@dataclasses.dataclass(frozen=True)
class Entry:
    """One function.

    Attributes
    ----------
    arguments : function of a Drawer to a Call
    reference : function or None
        What gives the right answer; None means the function of this name in NumPy or SciPy.
    function : function or None
        How purax is called, where its signature is not that of the reference.
    view : function of the results and the arguments
        What is compared of the results, such as the product of factors that are not unique.
    ulps : float
        How far off a finite result may be, in units of the last place of its dtype.
    absolute : float
        The same relative to the largest number among arguments and results, where sums cancel.
    scale : float
        The size of terms that cancel within the function, where no argument or result is as large.
    widen : bool
        Whether the reference gets 64-bit numbers: the right answer, where NumPy's own is rounded on the way.
    inexact : bool
        Whether the reference gets floating numbers in place of integers, which NumPy would turn into half precision.
    compiled : bool
        Whether the shapes of results follow from those of the arguments, so that the function can be compiled.
    dtypes : bool
        Whether integer results have NumPy's dtype and floating ones that of the arguments.
    signs : bool
        Whether zeros have signs that count.
    """

    arguments: Callable[[Drawer], Call]
    reference: Callable[..., Any] | None = None
    function: Callable[..., Any] | None = None
    view: Callable[..., Any] = lambda out, *args, **kwargs: out
    ulps: float = 32
    absolute: float = 0
    scale: float = 0
    widen: bool = True
    inexact: bool = False
    compiled: bool = True
    dtypes: bool = True
    signs: bool = False


@dataclasses.dataclass(frozen=True)
class Other:
    """A public name that is not compared by value, and why."""

    reason: str


def unary(kinds: str, low: float = -6, high: float = 6, **options: Any) -> Entry:
    """A function of one array, element by element."""
    options.setdefault("signs", True)
    return Entry(lambda d: call(d.array(kinds, low=low, high=high)), **options)


def binary(kinds: str, low: float = -6, high: float = 6, **options: Any) -> Entry:
    """A function of two operands that broadcast."""
    options.setdefault("signs", True)
    return Entry(lambda d: call(*d.pair(kinds, low=low, high=high)), **options)


def reduction(kinds: str, low: float = -6, high: float = 6, *, where: bool = False, **options: Any) -> Entry:
    """A function that takes `axis` and `keepdims`, and `where` if it says so."""
    options.setdefault("absolute", 32)

    def arguments(d: Drawer) -> Call:
        x = d.array(kinds, low=low, high=high)
        extra = {"where": d.array("b", x.shape)} if where and d.one_of(False, True) else {}
        return call(x, axis=d.axes(x.ndim), keepdims=d.one_of(False, True), **extra)

    return Entry(arguments, **options)


def along(kinds: str, low: float = -6, high: float = 6, **options: Any) -> Entry:
    """A function of an array along one axis, or of the flattened array."""

    def arguments(d: Drawer) -> Call:
        x = d.array(kinds, low=low, high=high)
        return call(x, axis=d.one_of(None, d.axis(x.ndim)) if x.ndim else None)

    return Entry(arguments, **options)
