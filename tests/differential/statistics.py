# SPDX-License-Identifier: Apache-2.0
"""Functions of `purax.numpy` that reduce, accumulate, sort, count, and treat arrays as sets or polynomials."""

from __future__ import annotations

from typing import Any

import numpy as np

import purax.numpy
from tests.differential.draw import REALS, Drawer
from tests.differential.entry import Call, Entry, along, call, reduction

ALL = "biufhc"


def indices_of(least: int = 1) -> Entry:
    """A function that gives the place of an extreme."""

    def arguments(d: Drawer) -> Call:
        x = d.array(REALS, d.shape(least))
        return call(x, axis=d.one_of(None, d.axis(x.ndim)), keepdims=d.one_of(False, True))

    return Entry(arguments)


def spread(d: Drawer) -> Call:
    """What variances are taken of."""
    x = d.array("biufc")
    return call(x, axis=d.axes(x.ndim), ddof=d.one_of(0, 1), keepdims=d.one_of(False, True))


def fractions(top: float, *, nan: bool) -> Entry:
    """A function that gives quantiles."""

    def arguments(d: Drawer) -> Call:
        x = d.array("if", d.shape(1, 3, (3, 2, 1)), special=nan)
        q = d.one_of(0.5 * top, 0.0, top, np.array([0.25, 0.9], np.float32) * np.float32(top))
        method = d.one_of("linear", "lower", "higher", "nearest", "midpoint", "inverted_cdf")
        return call(x, q, axis=d.axes(x.ndim), method=method, keepdims=d.one_of(False, True))

    return Entry(arguments, inexact=True, absolute=32)


def middle(d: Drawer) -> Call:
    """What medians are taken of."""
    x = d.array("if", d.shape(0, 3, (3, 2, 1)))
    return call(x, axis=d.axes(x.ndim), keepdims=d.one_of(False, True))


def weighted(d: Drawer) -> Call:
    """Numbers, and their weights at times."""
    x = d.array("iufc", d.shape(1, 3, (2, 3, 1)), special=False)
    axis = d.one_of(None, d.axis(x.ndim))
    weights = d.one_of(None, d.array("f", x.shape, low=0.5, high=2, special=False))
    return call(x, axis=axis, weights=weights, returned=d.one_of(False, True), keepdims=d.one_of(False, True))


def samples(d: Drawer) -> Call:
    """Rows of observations; equal ones have no correlation, but a quotient of rounding errors."""
    x = d.layout(d.array("ifc", (*d.shape(0, 1, (2, 3)), 4), special=False, plain=True))
    return call(x, rowvar=d.one_of(True, False))


def covered(d: Drawer) -> Call:
    """Rows of observations, and how they are weighed."""
    x = d.array("if", (*d.shape(0, 1, (2, 3)), 4), special=False)
    weights = np.array([1.0, 2.0, 0.5, 1.0], np.float32 if x.dtype.kind == "i" else x.dtype)
    extra = d.one_of({}, {"bias": True}, {"ddof": 0}, {"aweights": weights})
    return call(x, fweights=d.one_of(None, np.array([1, 2, 1, 3])), **extra)


def differences(d: Drawer) -> Call:
    """An array and how often neighbours are subtracted."""
    x = d.array(ALL, d.shape(1))
    return call(x, n=d.integer(0, 3), axis=d.axis(x.ndim))


def sloped(d: Drawer) -> Call:
    """An array and the distance of its points."""
    x = d.array("ifc", d.shape(1, 2, (3, 2, 4)), special=False)
    axis = d.axis(x.ndim)
    points = np.cumsum(np.arange(1, x.shape[axis] + 1)).astype(np.float32)
    return call(x, d.one_of(1.0, 0.5, points), axis=axis)


def area(d: Drawer) -> Call:
    """Heights along an axis."""
    x = d.array("ifc", d.shape(1), special=False)
    axis = d.axis(x.ndim)
    points = d.one_of(None, np.arange(x.shape[axis], dtype=np.float32) ** 2)
    return call(x, points, dx=d.one_of(1.0, 0.5), axis=axis)


def ordered(d: Drawer) -> Call:
    """Numbers that are sorted along an axis."""
    x = d.array("biuf", d.shape(1))
    return call(x, axis=d.axis(x.ndim))


def stable(x: np.ndarray, axis: int | None = -1) -> np.ndarray:
    """NumPy's sort that keeps the order of equals, which is the default here."""
    return np.argsort(x, axis=axis, kind="stable")


def divided(order: bool) -> Entry:
    """A function that brings the k smallest to the front, in any order."""

    def arguments(d: Drawer) -> Call:
        x = d.array("iuf", d.shape(1, 2, (3, 2, 4)))
        axis = d.axis(x.ndim)
        return call(x, d.integer(-x.shape[axis], x.shape[axis] - 1), axis=axis)

    def view(out: np.ndarray, x: np.ndarray, kth: int, axis: int) -> Any:
        out = np.take_along_axis(x, out, axis) if order else out
        kth %= x.shape[axis]
        parts = np.split(out, [kth, kth + 1], axis=axis)
        return [np.sort(part, axis=axis) for part in parts]

    return Entry(arguments, view=view, dtypes=False, widen=not order)


def keys(d: Drawer) -> Call:
    """Keys of a sort, the last counts first."""
    shape = d.shape(1, 2)
    return call([d.array("iuf", shape, low=0, high=2) for _ in range(d.integer(1, 3))], axis=d.axis(len(shape)))


def found(d: Drawer) -> Call:
    """A sorted vector and what is looked up in it."""
    dtype = d.dtype("iuf")
    line = np.sort(d.array(shape=d.shape(1, 1, (3, 0, 5)), dtype=dtype))
    return call(line, d.array(shape=d.shape(), dtype=dtype), side=d.one_of("left", "right"))


def binned(d: Drawer) -> Call:
    """Numbers, and the ends of bins that grow or fall."""
    ends = np.array([-2, 0, 0.5, 3], np.float32)
    return call(d.array("if", special=False), d.one_of(ends, ends[::-1]), right=d.one_of(False, True))


def counted(d: Drawer) -> Call:
    """What is counted, at times with weights."""
    x = d.array("i", d.shape(1, 1, (4, 0, 1)), low=0, high=5, special=False)
    weights = d.one_of(None, d.array("f", x.shape, special=False))
    return call(x, weights=weights, minlength=d.one_of(0, 8))


def heaps(d: Drawer) -> Call:
    """Numbers that are sorted into bins, of an odd number: equal ones lie in the middle of the range, up to rounding."""
    x = d.array("if", d.shape(0, 2), low=-2, high=3, special=False, dtype=d.one_of(np.float32, np.int32))
    bins = d.one_of(5, 1, np.array([-1, 0, 2, 5], np.float32))
    return call(x, bins=bins, range=d.one_of(None, (-2, 2)))


def heaps_in_a_plane(d: Drawer) -> Call:
    """Pairs of numbers that are sorted into bins, whose number is odd as in `heaps`."""
    return call(*(d.array(shape=(5,), dtype=np.float32, special=False) for _ in range(2)), bins=d.one_of(3, [1, 5]))


def unique(d: Drawer) -> Call:
    """Numbers of which some are equal."""
    x = d.array("biuf", low=0, high=2)
    extra = {"axis": d.one_of(None, d.axis(x.ndim))} if x.ndim else {}
    wanted = {name: True for name in ("return_index", "return_inverse", "return_counts") if d.one_of(False, True)}
    return call(x, **wanted, **extra)


def sets(low: int = 0, **extra: Any) -> Entry:
    """A function of two sets."""

    def arguments(d: Drawer) -> Call:
        dtype = d.dtype("iuf")
        return call(*(d.array(shape=d.shape(low, 2), dtype=dtype, low=0, high=3) for _ in range(2)), **extra)

    return Entry(arguments, compiled=False)


def members(d: Drawer) -> Call:
    """Elements, and a set."""
    dtype = d.dtype("iuf")
    return call(*(d.array(shape=d.shape(), dtype=dtype, low=0, high=3) for _ in range(2)), invert=d.one_of(False, True))


def polynomials(d: Drawer) -> Call:
    """Coefficients of two polynomials."""
    return call(*(d.array("ifc", d.shape(1, 1, (3, 1, 2)), low=1, special=False) for _ in range(2)))


def evaluated(d: Drawer) -> Call:
    """Coefficients and points."""
    return call(d.array("ifc", d.shape(1, 1, (3, 2, 1)), special=False), d.array("ifc", low=-2, high=2, special=False))


def points_of_a_line(d: Drawer) -> Call:
    """Where a line is looked up, and its points."""
    points = np.array([-1, 0, 0.5, 3], np.float32)
    extra = d.one_of({}, {"left": 9.0}, {"right": -9.0}, {"period": 4.0})
    x = d.array("f")
    return call(x, points, d.array(shape=(4,), dtype=x.dtype, special=False), **extra)


def fitted(d: Drawer) -> Call:
    """Points that a polynomial is fitted to."""
    x = np.arange(6, dtype=np.float32) - 2
    return call(x, d.array(shape=(6,), dtype=np.float32, special=False), d.integer(0, 3))


def phases(d: Drawer) -> Call:
    """Angles that jump."""
    x = d.array("f", d.shape(1), low=-12, high=12, special=False)
    return call(x, axis=d.axis(x.ndim), **d.one_of({}, {"period": 4.0}, {"discont": 5.0}))


def signals(d: Drawer) -> Call:
    """Two vectors and which part of their convolution is kept."""
    a, b = (d.array("ifc", d.shape(1, 1, (3, 1, 4)), special=False) for _ in range(2))
    return call(a, b, mode=d.one_of("full", "same", "valid"))


def with_axis(d: Drawer) -> Call:
    """An array and a function of its rows."""
    x = d.array("if", d.shape(1, 3, (2, 3)), special=False)
    return call(lambda row: row * 2 - row[0], d.axis(x.ndim), x)


def over_axes(d: Drawer) -> Call:
    """An array and a function that is applied along several axes."""
    x = d.array("if", d.shape(2, 3), special=False)
    return call(d.one_of(np.sum, np.cumsum), x, (0, -1))


def ours(f: Any, function: Any, *args: Any, **kwargs: Any) -> Any:
    """Apply purax's function of the same name in place of NumPy's."""
    return f(getattr(purax.numpy, function.__name__), *args, **kwargs)


def trimmed(f: Any, *args: Any) -> Any:
    """Ask for polynomials without leading zeros, whose shape depends on the values."""
    return f(*args, trim_leading_zeros=True)


def cumulated(d: Drawer) -> Call:
    """An array along an axis, with the start of the sum at times."""
    x = d.array("iufc", d.shape(1), low=-2, high=2)
    return call(x, axis=d.axis(x.ndim), include_initial=d.one_of(False, True))


CONVOLVE, SUM, QUANTILE = Entry(signals, absolute=256), 64, fractions(1, nan=False)

ENTRIES: dict[str, Entry] = {
    **{name: reduction(ALL, where=True, absolute=SUM) for name in ("sum",)},
    "prod": reduction(ALL, -2, 2, where=True, ulps=256),
    "nansum": reduction(ALL, absolute=SUM),
    "nanprod": reduction(ALL, -2, 2, ulps=256),
    **{name: reduction(ALL, where=True) for name in ("any", "all")},
    **{name: reduction("biufh") for name in "max min amax amin nanmax nanmin".split()},
    "ptp": reduction("iuf"),
    "mean": reduction(ALL, where=True, inexact=True, absolute=SUM),
    "nanmean": reduction("iufh", inexact=True, absolute=SUM),
    **{name: Entry(spread, inexact=True, absolute=256) for name in "std var nanstd nanvar".split()},
    "count_nonzero": reduction(ALL),
    **{name: indices_of() for name in "argmax argmin nanargmax nanargmin".split()},
    "median": Entry(middle, inexact=True, absolute=8),
    "nanmedian": Entry(middle, inexact=True, absolute=8),
    "quantile": QUANTILE,
    "nanquantile": fractions(1, nan=True),
    "percentile": fractions(100, nan=False),
    "nanpercentile": fractions(100, nan=True),
    "average": Entry(weighted, inexact=True, absolute=64),
    "cov": Entry(covered, inexact=True, absolute=1024, dtypes=False),
    "corrcoef": Entry(samples, inexact=True, absolute=64),
    **{name: along("biufc", -2, 2, absolute=SUM) for name in "cumsum nancumsum".split()},
    **{name: along("biufc", -2, 2, ulps=256) for name in "cumprod nancumprod".split()},
    "cumulative_sum": Entry(cumulated, absolute=SUM),
    "cumulative_prod": Entry(cumulated, ulps=256),
    "diff": Entry(differences, absolute=16),
    "ediff1d": Entry(lambda d: call(d.array("iufc"), *d.one_of((), (None, None))), absolute=8),
    "gradient": Entry(sloped, inexact=True, absolute=64),
    "trapezoid": Entry(area, inexact=True, absolute=512),
    "unwrap": Entry(phases, absolute=64),
    "sort": along(ALL, ulps=0),
    "argsort": Entry(ordered, stable),
    "sort_complex": Entry(lambda d: call(d.array("ifc", d.shape(1), special=False)), dtypes=False),
    "partition": divided(False),
    "argpartition": divided(True),
    "lexsort": Entry(keys),
    "searchsorted": Entry(found),
    "digitize": Entry(binned),
    "bincount": Entry(counted, compiled=False, dtypes=False, absolute=32),
    "histogram": Entry(heaps, dtypes=False, absolute=8),
    "histogram_bin_edges": Entry(heaps, dtypes=False, absolute=8),
    "histogram2d": Entry(heaps_in_a_plane, dtypes=False, absolute=8),
    "histogramdd": Entry(lambda d: call(d.array(shape=(5, 2), dtype=np.float32, special=False), bins=3), dtypes=False, absolute=8),
    "unique": Entry(unique, compiled=False),
    **{
        f"unique_{name}": Entry(lambda d: call(d.array("biuf", low=0, high=2)), compiled=False)
        for name in "all counts inverse".split()
    },
    # NumPy gives these in any order.
    "unique_values": Entry(lambda d: call(d.array("biuf", low=0, high=2)), view=lambda out, x: np.sort(out), compiled=False),
    **{name: sets() for name in "union1d intersect1d setdiff1d setxor1d".split()},
    "isin": Entry(members),
    "interp": Entry(points_of_a_line, absolute=64),
    "polyadd": Entry(polynomials, absolute=4),
    "polysub": Entry(polynomials, absolute=4),
    "polymul": Entry(polynomials, absolute=64),
    "polydiv": Entry(polynomials, function=trimmed, absolute=20000, dtypes=False, compiled=False),
    "polyval": Entry(evaluated, absolute=512),
    "polyder": Entry(lambda d: call(d.array("ifc", d.shape(1, 1, (3, 1)), special=False), d.integer(0, 3)), absolute=8, dtypes=False),
    "polyint": Entry(lambda d: call(d.array("ifc", d.shape(1, 1, (3, 1)), special=False), d.integer(1, 3)), inexact=True, absolute=8),
    "polyfit": Entry(fitted, absolute=4096),
    "poly": Entry(lambda d: call(d.array("if", d.shape(1, 1, (2, 1, 3)), low=-2, high=2, special=False)), inexact=True, absolute=128),
    "roots": Entry(
        lambda d: call(np.poly(d.generator().permutation([-2.0, 1.0, 3.0, 5.0])[: d.integer(1, 3)]).astype(np.float32)),
        view=lambda out, *args: np.sort(np.real(out)),
        absolute=4096,
        compiled=False,
        dtypes=False,
    ),
    **{name: CONVOLVE for name in ("convolve", "correlate")},
    "apply_along_axis": Entry(with_axis),
    "apply_over_axes": Entry(over_axes, function=ours, absolute=64),
}  # fmt: skip
