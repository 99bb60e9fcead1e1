# SPDX-License-Identifier: Apache-2.0
"""Roots and powers.

Parameters
----------
accuracy : AccuracyMode or Tolerance, optional
    A hint to the compiler.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from purax import dtypes, errors
from purax.core.primitive import Primitive
from purax.core.trace import aval_of
from purax.primitives import base, bits, cast, comparison, complex_edges, elementwise, operands, shape, transcendental
from purax.primitives.elementwise import div, mul, square, strong_mul, strong_product, sub
from purax.primitives.family import (
    ARITHMETIC,
    FLOAT,
    HOST,
    HOST_FLOAT,
    INEXACT,
    INTEGER,
    Elementwise,
    on,
    result_aval,
    widened,
)
from purax.sharding import rules

__all__ = [
    "cbrt", "cbrt_p", "integer_pow", "integer_pow_p", "pow", "pow_p", "rsqrt", "rsqrt_p", "sqrt", "sqrt_p",
]  # fmt: skip

sqrt_p = Elementwise(
    "sqrt", INEXACT, "stablehlo.sqrt", np.sqrt, lambda t, y, x: strong_mul(t, div(0.5, y)),
    exact=on(HOST_FLOAT), ufunc=np.sqrt, edges=complex_edges.mended(complex_edges.sqrt),
)  # fmt: skip
rsqrt_p = Elementwise(
    "rsqrt", INEXACT, "stablehlo.rsqrt", widened(lambda x: 1 / np.sqrt(x)),
    lambda t, y, x: strong_mul(t, mul(div(y, x), -0.5)),
)  # fmt: skip
cbrt_p = Elementwise(
    "cbrt", FLOAT, "stablehlo.cbrt", widened(np.cbrt), lambda t, y, x: strong_mul(t, div(1 / 3, square(y)))
)


def _power_by_squaring(x: Any, y: int, one: Any, multiply: Any) -> Any:
    """x ** y for y >= 0 by binary powers; the order of the products is the same on the host and in a program."""
    result = None
    while True:
        if y & 1:
            result = x if result is None else multiply(result, x)
        y >>= 1
        if not y:
            return one if result is None else result
        x = multiply(x, x)


def _integer_power(x: Any, *, y: int) -> Any:
    power = _power_by_squaring(x, -y if y < 0 else y, np.ones(np.shape(x), x.dtype), np.multiply)
    return 1 / power if y < 0 else power


def _lower_integer_pow(b: Any, ins: Any, outs: Any, *, y: int) -> list[Any]:
    (x,), (out,) = ins, outs
    narrow = out.dtype.itemsize <= 2 and dtypes.is_float(out.dtype)
    x = b.convert(x, dtypes.float32) if narrow else x  # one rounding, not one per product
    one = b.constant(1, x.aval)
    power = _power_by_squaring(
        x, -y if y < 0 else y, one, lambda u, v: b.emit(f"stablehlo.multiply {u}, {v} : {x.hlo}", x.aval)
    )
    return [b.convert(b.emit(f"stablehlo.divide {one}, {power} : {x.hlo}", x.aval) if y < 0 else power, out.dtype)]


class IntegerPow(Elementwise):
    """`x ** y` for a Python integer y."""

    def infer(self, *avals: Any, **params: Any) -> tuple[Any, ...]:
        """The operand's aval."""
        if params["y"] < 0 and dtypes.is_integer(avals[0].dtype):
            raise errors.DTypeError(
                f"integers cannot be raised to the negative power {params['y']}; convert to a float first"
            )
        return super().infer(*avals)


def _integer_pow_tangent(t: Any, z: Any, x: Any, y: int) -> Any:
    if y in (0, 1):
        return t if y else None
    return strong_mul(t, mul(x if y == 2 else integer_pow(x, y - 1), y))


integer_pow_p = IntegerPow(
    "integer_pow", ARITHMETIC, _lower_integer_pow, widened(_integer_power), _integer_pow_tangent, exact=on(HOST)
)


class Pow(Primitive):
    """`x ** y` for inexact x and y of the same dtype or integer."""

    spread = rules.elementwise

    def infer(self, x: Any, y: Any) -> tuple[Any, ...]:
        """The shape of both, the dtype of x."""
        if x.dtype not in INEXACT or not (y.dtype == x.dtype or y.dtype in INTEGER):
            raise errors.DTypeError(
                f"operands have dtypes {operands.dtype_name(x)} and {operands.dtype_name(y)}; the first must be floating or "
                "complex, the second of the same dtype or integer"
            )
        if x.shape != y.shape:
            raise errors.ShapeError(f"operands have shapes {x.shape} and {y.shape}; they must be equal")
        return (result_aval((x, y), x.dtype),)

    def reference(self, x: Any, y: Any) -> tuple[Any, ...]:
        """NumPy's power."""
        return (widened(np.power)(x, np.asarray(y).astype(x.dtype)),)

    def jvp(self, primals: Any, tangents: Any) -> Any:
        """y x^(y-1) to x and log(x) x^y to y; a factor of zero wins: exponents of 0, and bases of 0 in the second."""
        (x, y), (tx, ty) = primals, tangents
        out = self.bind1(x, y)
        total = None
        if tx is not None:
            exponent = cast.convert_element_type(y, aval_of(x).dtype)
            slope = strong_product(exponent, pow(x, sub(exponent, 1)))
            total = strong_mul(tx, slope)
        if ty is not None:
            safe = comparison.select(comparison.eq(x, shape.full_like(x, 0)), shape.full_like(x, 1), x)
            slope = strong_product(transcendental.log(safe), out)
            total = base.add_tangents(total, strong_mul(ty, slope))
        return (out,), (total,)

    def batch(self, axis: Any, values: Any, dims: Any) -> Any:
        """On aligned operands."""
        aligned, dim = operands.align(axis, values, dims)
        return self.bind(*aligned), (dim,)

    def lower(self, b: Any, ins: Any, outs: Any) -> list[Any]:
        """`power`, with an integer exponent converted; a known exponent of one half or three by square roots."""
        (x, y), (out,) = ins, outs
        known = b.splat(y)
        if known is not None and out.dtype in HOST_FLOAT and float(known) in (-1.5, -0.5, 0.5, 1.5):
            result: list[Any] = b.inline(_half_power, [x], y=float(known))
            return result
        return [b.emit(f"stablehlo.power {x}, {b.convert(y, out.dtype)} : {out.hlo}", out)]


def _half_power(x: Any, *, y: float) -> Any:
    """`x ** y` for y = +-1/2 or +-3/2, several times as fast as by logarithms; zeros and infinities of both signs as in `pow`."""
    infinite = shape.full_like(x, -np.inf)
    bad = bits.bitwise_and(comparison.lt(x, shape.full_like(x, 0)), comparison.gt(x, infinite))
    size = comparison.select(bad, shape.full_like(x, np.nan), elementwise.abs(x))
    if y > 0:
        return sqrt(size) if y == 0.5 else mul(size, sqrt(size))
    return rsqrt(size) if y == -0.5 else div(rsqrt(size), size)  # no product that over- or underflows on the way


pow_p = Pow("pow")


# --- the user's functions -------------------------------------------------------------------------------------------


def sqrt(x: Any, *, accuracy: Any = None) -> Any:
    """Square root of each element; NaN for negative floats: inexact[...] -> inexact[...].

    See `purax.primitives.power` for the arguments that its functions share.
    """
    return sqrt_p.apply(x, accuracy)


def rsqrt(x: Any, *, accuracy: Any = None) -> Any:
    """`1 / sqrt(x)` of each element: inexact[...] -> inexact[...].

    See `purax.primitives.power` for the arguments that its functions share.
    """
    return rsqrt_p.apply(x, accuracy)


def cbrt(x: Any, *, accuracy: Any = None) -> Any:
    """Real cube root of each element: float[...] -> float[...].

    See `purax.primitives.power` for the arguments that its functions share.
    """
    return cbrt_p.apply(x, accuracy)


def integer_pow(x: Any, y: int) -> Any:
    """`x ** y` of each element for a Python integer `y`.

    Raises
    ------
    DTypeError
        Integers to a negative power.
    TypeError
        `y` is not an integer.
    """
    return integer_pow_p.bind1(operands.lift(x), y=operator.index(y))


def pow(x: Any, y: Any) -> Any:
    """`x ** y` of each pair of elements.

    Parameters
    ----------
    x : inexact[...]
    y : of the dtype of `x`, or integer; a Python integer or float adopts it

    Returns
    -------
    array of the dtype of `x`
    """
    y_aval = None if type(y) in (int, float) else aval_of(y)
    if y_aval is None or not dtypes.is_integer(y_aval.dtype):
        return pow_p.bind1(*operands.coerce("pow", x, y))
    return pow_p.bind1(*operands.spread("pow", [operands.lift(x), operands.lift(y)]))
