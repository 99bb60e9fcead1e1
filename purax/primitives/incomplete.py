# SPDX-License-Identifier: Apache-2.0
"""The incomplete gamma and beta integrals as StableHLO loops, computed in float64 whatever the dtype.

Gamma: a power series where x <= max(1, a), else Legendre's continued fraction, each carried along with its derivative to `a`.
Beta: the continued fraction of DLMF 8.17.22, at 1 - x where that converges faster. Fractions run by the modified Lentz method.
Every loop ends when no element changes in float64 any more.

References
----------
DLMF, sections 8.7, 8.9 and 8.17. W. Lentz, Applied Optics 15 (1976), 668.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from purax import dtypes
from purax.lazy import lazy
from purax.primitives import elementwise, reduction, shape, special
from purax.primitives.elementwise import (
    add,
    bitwise_and,
    bitwise_or,
    div,
    eq,
    exp,
    gt,
    le,
    log,
    lt,
    mul,
    neg,
    select,
    sub,
)

__all__ = [
    "betainc_reference",
    "betainc_slope",
    "gamma_sample_gradient",
    "igamma_gradient",
    "lower_betainc",
    "lower_betainc_slope",
    "lower_igamma",
]

scipy_special = lazy("scipy.special")
EPSILON = 2.0**-53
LIMIT = 20_000.0  # rounds; the series takes about 9 sqrt(a), so this is enough up to a of about 5 million
TINY = 1e-300


def _loop(
    b: Any, condition: Callable[..., Any], step: Callable[..., Any], state: Sequence[Any], fixed: Sequence[Any]
) -> list[Any]:
    """Repeat `step(*state, *fixed) -> state` while `condition(*state, *fixed)`, a scalar, holds."""
    avals = [v.aval for v in state]
    test = b.block(avals, lambda inner, *values: inner.inline(condition, [*values, *fixed]))
    body = b.block(avals, lambda inner, *values: inner.inline(step, [*values, *fixed]))
    types = ", ".join(a.hlo for a in avals)
    result_types = types if len(avals) == 1 else f"({types})"
    text = f'"stablehlo.while"({", ".join(map(str, state))}) ({{test}}, {{body}}) : ({types}) -> {result_types}'
    return b.emit_many(text.replace("{test}", test).replace("{body}", body), avals)


def _widen(b: Any, ins: Sequence[Any]) -> list[Any]:
    return [b.convert(x, dtypes.float64) for x in ins]


def _any(flags: Any) -> Any:
    return reduction.reduce_or(flags, tuple(range(flags.aval.ndim)))


def _unsettled(change: Any, total: Any) -> Any:
    return gt(elementwise.abs(change), mul(elementwise.abs(total), EPSILON))


def _full(x: Any, value: float) -> Any:
    return shape.full_like(x, value)


# --- gamma ----------------------------------------------------------------------------------------------------------


def _series_start(a: Any) -> Any:
    one, zero = _full(a, 1), _full(a, 0)
    return one, one, _full(a, 0), zero, zero


def _series_step(term: Any, total: Any, slope: Any, slopes: Any, n: Any, a: Any, x: Any) -> Any:
    """Next term of sum x^n / ((a + 1) ... (a + n)) and of its derivative to a."""
    n = add(n, 1)
    place = add(a, n)
    ratio = div(x, place)
    slope = sub(mul(slope, ratio), div(mul(term, ratio), place))
    term = mul(term, ratio)
    return term, add(total, term), slope, add(slopes, slope), n


def _series_goes_on(term: Any, total: Any, slope: Any, slopes: Any, n: Any, a: Any, x: Any) -> Any:
    moving = bitwise_or(_unsettled(term, total), _unsettled(slope, slopes))
    return _any(bitwise_and(moving, lt(n, LIMIT)))


def _fraction_start(a: Any, x: Any) -> Any:
    base = sub(add(x, 1), a)
    d, zero = div(1, base), _full(a, 0)
    large = _full(a, 1 / TINY)
    # c, d, value, their derivatives to a (the value's: logarithmic), the round, whether this element still changes
    return large, d, d, zero, elementwise.square(d), d, zero, eq(a, a)


def _fraction_step(
    c: Any, d: Any, value: Any, dc: Any, dd: Any, log_slope: Any, n: Any, moving: Any, a: Any, x: Any
) -> Any:
    """One round of Lentz's method for 1 / (x + 1 - a - 1 (1 - a) / (x + 3 - a - ...)), with derivatives."""
    n = add(n, 1)
    numerator = neg(mul(n, sub(n, a)))  # its derivative to a is n, that of the base -1
    base = add(sub(add(x, 1), a), mul(n, 2))
    denominator = add(mul(numerator, d), base)
    new_d = div(1, denominator)
    new_dd = neg(mul(elementwise.square(new_d), sub(add(mul(n, d), mul(numerator, dd)), 1)))
    new_c = add(base, div(numerator, c))
    new_dc = sub(add(_full(n, -1), div(n, c)), div(div(mul(numerator, dc), c), c))
    factor = mul(new_d, new_c)
    change = add(div(new_dd, new_d), div(new_dc, new_c))
    still = bitwise_or(gt(elementwise.abs(sub(factor, 1)), EPSILON * 2), _unsettled(change, log_slope))
    new_state = (new_c, new_d, mul(value, factor), new_dc, new_dd, add(log_slope, change))
    old_state = (c, d, value, dc, dd, log_slope)
    kept = [select(moving, new, old) for new, old in zip(new_state, old_state, strict=True)]
    return *kept, n, bitwise_and(moving, still)


def _fraction_goes_on(
    c: Any, d: Any, value: Any, dc: Any, dd: Any, log_slope: Any, n: Any, moving: Any, a: Any, x: Any
) -> Any:
    return _any(bitwise_and(moving, lt(n, LIMIT)))


def _regions(a: Any, x: Any) -> tuple[Any, ...]:
    """Whether the series applies, and operands for series and fraction that are harmless where they do not."""
    proper = bitwise_and(bitwise_and(gt(a, 0.0), gt(x, 0.0)), bitwise_and(lt(a, np.inf), lt(x, np.inf)))
    by_series = le(x, elementwise.max(a, 1.0))
    near, far = bitwise_and(proper, by_series), bitwise_and(proper, elementwise.bitwise_not(by_series))
    one, two = _full(a, 1), _full(a, 2)
    return near, select(near, a, one), select(near, x, one), select(far, a, one), select(far, x, two)


def _edges(a: Any, x: Any, value: Any, at_zero: float, at_infinity: float) -> Any:
    """The value at the border of the quadrant, NaN outside. `at_zero`: for x = 0; `at_infinity`: for x = inf or a = 0."""
    value = select(bitwise_or(eq(x, 0.0), eq(a, np.inf)), _full(x, at_zero), value)
    value = select(bitwise_or(eq(x, np.inf), eq(a, 0.0)), _full(x, at_infinity), value)
    nothing = bitwise_or(bitwise_or(lt(x, 0.0), lt(a, 0.0)), bitwise_or(elementwise.ne(x, x), elementwise.ne(a, a)))
    both = bitwise_or(bitwise_and(eq(x, 0.0), eq(a, 0.0)), bitwise_and(eq(x, np.inf), eq(a, np.inf)))
    return select(bitwise_or(nothing, both), _full(x, np.nan), value)


def lower_igamma(kind: str) -> Callable[..., Any]:
    """The `lower` rule of the integral from 0 ("lower"), to infinity ("upper"), its "gradient" to a, or of a "sample"."""

    def finish(
        near: Any,
        sa: Any,
        sx: Any,
        fa: Any,
        fx: Any,
        total: Any,
        slopes: Any,
        value: Any,
        log_slope: Any,
        a: Any,
        x: Any,
    ) -> Any:
        log_sx, log_fx = log(sx), log(fx)
        series_scale = exp(sub(sub(mul(sa, log_sx), sx), special.lgamma(add(sa, 1))))
        fraction_scale = exp(sub(sub(mul(fa, log_fx), fx), special.lgamma(fa)))
        if kind in ("lower", "upper"):
            low, high = mul(series_scale, total), mul(fraction_scale, value)
            if kind == "lower":
                return _edges(a, x, select(near, low, sub(1, high)), 0.0, 1.0)
            return _edges(a, x, select(near, sub(1, low), high), 1.0, 0.0)
        # Derivatives to a of the series and of minus the fraction, both without their scale.
        rise = add(mul(total, sub(log_sx, special.digamma(add(sa, 1)))), slopes)
        fall = neg(mul(value, add(sub(log_fx, special.digamma(fa)), log_slope)))
        if kind == "gradient":
            return _edges(a, x, select(near, mul(series_scale, rise), mul(fraction_scale, fall)), 0.0, 0.0)
        return _edges(a, x, select(near, neg(mul(div(sx, sa), rise)), neg(mul(fx, fall))), 0.0, np.inf)

    def lower(b: Any, ins: Any, outs: Any) -> list[Any]:
        a, x = _widen(b, ins)
        near, sa, sx, fa, fx = b.inline(_regions, [a, x])
        series = _loop(b, _series_goes_on, _series_step, b.inline(_series_start, [sa]), [sa, sx])
        fraction = _loop(b, _fraction_goes_on, _fraction_step, b.inline(_fraction_start, [fa, fx]), [fa, fx])
        pieces = [near, sa, sx, fa, fx, series[1], series[3], fraction[2], fraction[5], a, x]
        return [b.convert(b.inline(finish, pieces)[0], outs[0].dtype)]

    return lower


def gamma_sample_gradient(a: Any, x: Any) -> Any:
    """Minus the derivative of the regularized lower integral up to x to a, over the density: the series, or Gauss-Laguerre beyond."""
    a, x = np.asarray(a, np.float64)[..., None], np.asarray(x, np.float64)[..., None]
    inside = (a > 0) & (x > 0) & np.isfinite(a) & np.isfinite(x)
    a, x = np.where(inside, a, np.nan), np.where(inside, x, np.nan)
    near = x <= np.maximum(a, 1.0)
    sx = np.where(near, x, 1.0)
    term, slope = np.ones_like(a), np.zeros_like(a)
    total, slopes, n = term, slope, 0
    while n < LIMIT and np.any((term > EPSILON * total) | (np.abs(slope) > EPSILON * np.abs(slopes))):
        n += 1
        ratio = sx / (a + n)
        slope = slope * ratio - term * ratio / (a + n)
        term = term * ratio
        total, slopes = total + term, slopes + slope
    series = -sx / a * (total * (np.log(sx) - scipy_special.digamma(a + 1)) + slopes)
    nodes, weights = np.polynomial.laguerre.laggauss(100)
    tail = weights * (1 + nodes / x) ** (a - 1) * (np.log(x + nodes) - scipy_special.digamma(a))
    return np.where(near, series, tail.sum(-1, keepdims=True))[..., 0]


def igamma_gradient(a: Any, x: Any) -> Any:
    """The derivative of the regularized lower integral up to x to its parameter a, float64[...]."""
    a, x = np.asarray(a, np.float64), np.asarray(x, np.float64)
    density = np.exp((a - 1) * np.log(x) - x - scipy_special.gammaln(a))
    nothing = (a < 0) | (x < 0) | np.isnan(a) | np.isnan(x) | ((a == 0) & (x == 0)) | (np.isinf(a) & np.isinf(x))
    inside = (a > 0) & (x > 0) & np.isfinite(a) & np.isfinite(x)
    value = -gamma_sample_gradient(a, x) * density
    return np.where(nothing, np.nan, np.where(inside, value, 0.0))


# --- beta -----------------------------------------------------------------------------------------------------------


def _beta_regions(a: Any, b: Any, x: Any) -> tuple[Any, ...]:
    """Whether the integral is taken from the other end, and harmless operands of the fraction."""
    inside = bitwise_and(bitwise_and(gt(a, 0.0), gt(b, 0.0)), bitwise_and(gt(x, 0.0), lt(x, 1.0)))
    inside = bitwise_and(inside, bitwise_and(lt(a, np.inf), lt(b, np.inf)))
    one, half = _full(a, 1), _full(a, 0.5)
    a, b, x = select(inside, a, one), select(inside, b, one), select(inside, x, half)
    swapped = gt(x, div(add(a, 1), add(add(a, b), 2)))
    return inside, swapped, select(swapped, b, a), select(swapped, a, b), select(swapped, sub(1, x), x), sub(1, x), x


def _beta_start(a: Any, b: Any, x: Any) -> Any:
    d = div(1, _safe(sub(1, div(mul(add(a, b), x), add(a, 1)))))
    return _full(a, 1), d, d, _full(a, 0), eq(a, a)


def _safe(x: Any) -> Any:
    return select(lt(elementwise.abs(x), TINY), _full(x, TINY), x)


def _beta_step(c: Any, d: Any, value: Any, m: Any, moving: Any, a: Any, b: Any, x: Any) -> Any:
    """An even and an odd coefficient of the fraction."""
    m = add(m, 1)
    twice = mul(m, 2)
    even = div(mul(mul(m, sub(b, m)), x), mul(sub(add(a, twice), 1), add(a, twice)))
    odd = neg(div(mul(mul(add(a, m), add(add(a, b), m)), x), mul(add(a, twice), add(add(a, twice), 1))))
    new_c, new_d, new_value, factor = c, d, value, None
    for coefficient in (even, odd):
        new_d = div(1, _safe(add(mul(coefficient, new_d), 1)))
        new_c = _safe(add(div(coefficient, new_c), 1))
        factor = mul(new_c, new_d)
        new_value = mul(new_value, factor)
    still = gt(elementwise.abs(sub(factor, 1)), EPSILON * 2)
    kept = [select(moving, new, old) for new, old in ((new_c, c), (new_d, d), (new_value, value))]
    return *kept, m, bitwise_and(moving, still)


def _beta_goes_on(c: Any, d: Any, value: Any, m: Any, moving: Any, a: Any, b: Any, x: Any) -> Any:
    return _any(bitwise_and(moving, lt(m, LIMIT)))


def _beta_finish(
    inside: Any, swapped: Any, fa: Any, fb: Any, rest: Any, proper: Any, value: Any, a: Any, b: Any, x: Any
) -> Any:
    """Scale the fraction, turn it round where it was taken from the other end, and set the border."""
    own, other = log(proper), log(rest)
    powers = select(swapped, add(mul(fa, other), mul(fb, own)), add(mul(fa, own), mul(fb, other)))
    beta = sub(add(special.lgamma(fa), special.lgamma(fb)), special.lgamma(add(fa, fb)))
    part = div(mul(exp(sub(powers, beta)), value), fa)
    result = select(swapped, sub(1, part), part)
    zero, one, nothing = _full(x, 0), _full(x, 1), _full(x, np.nan)
    low = bitwise_or(eq(x, 0.0), bitwise_or(eq(b, 0.0), eq(a, np.inf)))
    high = bitwise_or(eq(x, 1.0), bitwise_or(eq(a, 0.0), eq(b, np.inf)))
    result = select(inside, result, nothing)
    result = select(high, one, select(low, zero, result))
    result = select(eq(x, 0.0), zero, result)
    outside = bitwise_or(bitwise_or(lt(a, 0.0), lt(b, 0.0)), bitwise_or(lt(x, 0.0), gt(x, 1.0)))
    unknown = bitwise_or(bitwise_or(elementwise.ne(a, a), elementwise.ne(b, b)), elementwise.ne(x, x))
    both = bitwise_or(bitwise_and(eq(a, 0.0), eq(b, 0.0)), bitwise_and(eq(a, np.inf), eq(b, np.inf)))
    return select(bitwise_or(bitwise_or(outside, unknown), both), nothing, result)


def lower_betainc(builder: Any, ins: Any, outs: Any) -> list[Any]:
    """The `lower` rule of the regularized incomplete beta function.

    Parameters
    ----------
    builder : Builder
    ins, outs : values and avals, as of every `lower` rule

    Returns
    -------
    list of values
    """
    a, b, x = _widen(builder, ins)
    inside, swapped, fa, fb, fx, rest, proper = builder.inline(_beta_regions, [a, b, x])
    fixed = [fa, fb, fx]
    state = _loop(builder, _beta_goes_on, _beta_step, builder.inline(_beta_start, fixed), fixed)
    pieces = [inside, swapped, fa, fb, rest, proper, state[2], a, b, x]
    return [builder.convert(builder.inline(_beta_finish, pieces)[0], outs[0].dtype)]


def _slope_start(a: Any, b: Any, x: Any, ta: Any, tb: Any) -> Any:
    """As `_beta_start`, with derivatives along (ta, tb) of c, d and of the value's logarithm."""
    c, d, value, m, moving = _beta_start(a, b, x)
    turn = div(sub(mul(add(ta, tb), add(a, 1)), mul(add(a, b), ta)), elementwise.square(add(a, 1)))
    dd = mul(elementwise.square(d), mul(turn, x))
    return c, d, value, _full(a, 0), dd, div(dd, d), m, moving


def _slope_step(
    c: Any,
    d: Any,
    value: Any,
    dc: Any,
    dd: Any,
    log_slope: Any,
    m: Any,
    moving: Any,
    a: Any,
    b: Any,
    x: Any,
    ta: Any,
    tb: Any,
) -> Any:
    """As `_beta_step`, with derivatives."""
    m = add(m, 1)
    place = add(a, mul(m, 2))
    before, after = mul(sub(place, 1), place), mul(place, add(place, 1))
    even = div(mul(mul(m, sub(b, m)), x), before)
    odd = neg(div(mul(mul(add(a, m), add(add(a, b), m)), x), after))
    even_slope = sub(div(mul(mul(m, tb), x), before), mul(even, mul(ta, add(div(1, sub(place, 1)), div(1, place)))))
    product = add(mul(ta, add(add(a, b), m)), mul(add(a, m), add(ta, tb)))
    odd_slope = sub(neg(div(mul(product, x), after)), mul(odd, mul(ta, add(div(1, place), div(1, add(place, 1))))))
    new = [c, d, value, dc, dd, log_slope]
    still = None
    for coefficient, slope in ((even, even_slope), (odd, odd_slope)):
        old_c, old_d, old_value, old_dc, old_dd, old_slope = new
        new_d = div(1, _safe(add(mul(coefficient, old_d), 1)))
        new_c = _safe(add(div(coefficient, old_c), 1))
        new_dd = neg(mul(elementwise.square(new_d), add(mul(slope, old_d), mul(coefficient, old_dd))))
        new_dc = div(sub(slope, div(mul(coefficient, old_dc), old_c)), old_c)
        factor, change = mul(new_c, new_d), add(div(new_dc, new_c), div(new_dd, new_d))
        total = add(old_slope, change)
        still = bitwise_or(gt(elementwise.abs(sub(factor, 1)), EPSILON * 2), _unsettled(change, total))
        new = [new_c, new_d, mul(old_value, factor), new_dc, new_dd, total]
    kept = [select(moving, x, y) for x, y in zip(new, (c, d, value, dc, dd, log_slope), strict=True)]
    return *kept, m, bitwise_and(moving, still)


def _slope_goes_on(
    c: Any, d: Any, value: Any, dc: Any, dd: Any, log_slope: Any, m: Any, moving: Any, *fixed: Any
) -> Any:
    return _any(bitwise_and(moving, lt(m, LIMIT)))


def _slope_finish(
    inside: Any,
    swapped: Any,
    fa: Any,
    fb: Any,
    fx: Any,
    ta: Any,
    tb: Any,
    value: Any,
    log_slope: Any,
    a: Any,
    b: Any,
    x: Any,
) -> Any:
    near, far, both = log(fx), elementwise.log1p(neg(fx)), add(fa, fb)
    beta = sub(add(special.lgamma(fa), special.lgamma(fb)), special.lgamma(both))
    part = div(mul(exp(sub(add(mul(fa, near), mul(fb, far)), beta)), value), fa)
    shared = special.digamma(both)
    rise = mul(ta, sub(add(sub(near, special.digamma(fa)), shared), div(1, fa)))
    rise = add(rise, mul(tb, add(sub(far, special.digamma(fb)), shared)))
    slope = mul(part, add(rise, log_slope))
    border = bitwise_and(bitwise_or(eq(x, 0.0), eq(x, 1.0)), bitwise_and(gt(a, 0.0), gt(b, 0.0)))
    outer = select(border, _full(x, 0), _full(x, np.nan))
    return select(inside, select(swapped, neg(slope), slope), outer)


def lower_betainc_slope(builder: Any, ins: Any, outs: Any, *, operand: int) -> list[Any]:
    """The `lower` rule of the derivative of `lower_betainc` to a (operand 0) or b (1).

    Parameters
    ----------
    builder : Builder
    ins, outs : values and avals, as of every `lower` rule
    operand : 0 or 1

    Returns
    -------
    list of values
    """
    a, b, x = _widen(builder, ins)
    inside, swapped, fa, fb, fx, _, _ = builder.inline(_beta_regions, [a, b, x])

    def directions(swapped: Any, x: Any) -> Any:
        one, zero = _full(x, 1), _full(x, 0)
        first, second = (one, zero) if operand == 0 else (zero, one)
        return select(swapped, second, first), select(swapped, first, second)

    fixed = [fa, fb, fx, *builder.inline(directions, [swapped, x])]
    state = _loop(builder, _slope_goes_on, _slope_step, builder.inline(_slope_start, fixed), fixed)
    pieces = [inside, swapped, *fixed, state[2], state[5], a, b, x]
    return [builder.convert(builder.inline(_slope_finish, pieces)[0], outs[0].dtype)]


def betainc_slope(a: Any, b: Any, x: Any, *, operand: int) -> Any:
    """Derivative of SciPy's betainc to a or b, by differences of sixth order.

    Parameters
    ----------
    a, b, x : float[...]
    operand : 0 or 1
        The derivative to a, or to b.

    Returns
    -------
    float64[...]
    """
    given = [np.asarray(v, np.float64) for v in (a, b, x)]
    step = 0.01 * given[operand]

    def at(k: int) -> Any:
        return scipy_special.betainc(*[v + k * step if i == operand else v for i, v in enumerate(given)])

    slope = (45 * (at(1) - at(-1)) - 9 * (at(2) - at(-2)) + at(3) - at(-3)) / (60 * step)
    return np.where((given[2] == 0) | (given[2] == 1), 0.0, slope)


def betainc_reference(a: Any, b: Any, x: Any) -> Any:
    """SciPy's, with the border set as here.

    Parameters
    ----------
    a, b, x : float[...]

    Returns
    -------
    float64[...]
    """
    a, b, x = (np.asarray(v, np.float64) for v in (a, b, x))
    low, high = (b == 0) | np.isinf(a), (a == 0) | np.isinf(b)
    value = np.where(x == 0, 0.0, np.where(high | (x == 1), 1.0, np.where(low, 0.0, scipy_special.betainc(a, b, x))))
    outside = (a < 0) | (b < 0) | (x < 0) | (x > 1) | np.isnan(a) | np.isnan(b) | np.isnan(x)
    return np.where(outside | ((a == 0) & (b == 0)) | (np.isinf(a) & np.isinf(b)), np.nan, value)
