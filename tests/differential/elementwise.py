# SPDX-License-Identifier: Apache-2.0
"""Functions of `purax.numpy` that work element by element."""

from __future__ import annotations

import numpy as np

from tests.differential.draw import FLOATS, INTEGERS, REALS, Drawer
from tests.differential.entry import Call, Entry, binary, call, unary

ALL = "biufhc"


def smooth(kinds: str, low: float = -6, high: float = 6, **options: object) -> Entry:
    """A function with floating results, whatever it is given."""
    return unary(kinds, low, high, inexact=True, **{"absolute": 4, **options})


def shifts(d: Drawer) -> Call:
    """Integers, and by how many bits they are shifted."""
    x = d.array(INTEGERS)
    return call(x, d.array("i", x.shape, low=0, high=6, special=False, dtype=x.dtype))


def neighbours(d: Drawer) -> Call:
    """Numbers, and in which direction the next one lies."""
    x = d.array("f")
    return call(x, d.array(shape=x.shape, dtype=x.dtype))


def scaled(d: Drawer) -> Call:
    """Numbers and exponents."""
    x = d.array("f")
    return call(x, d.array("i", x.shape, low=-8, high=8, special=False, dtype=np.int32))


def raised(d: Drawer) -> Call:
    """Bases and exponents; a negative integer exponent raises where it is known, and does not where it is traced."""
    x, y = d.pair("iufh", low=0, high=3)
    return call(x, np.maximum(y, 0) if isinstance(y, np.ndarray) and y.dtype.kind == "i" else y)


def clipped(d: Drawer) -> Call:
    """An array and two bounds, of which one may be missing."""
    x = d.array(REALS)
    low, high = d.one_of((None, 2), (-1, None), (-1, 2), (2, -1), (None, None))
    return call(x, *(bound if bound is None or x.dtype.kind != "u" else abs(bound) for bound in (low, high)))


def close(d: Drawer) -> Call:
    """Two arrays that are equal in many places."""
    x = d.array("iufc")
    return call(x, np.where(d.array("b", x.shape, plain=True), x, d.array(shape=x.shape, dtype=x.dtype)))


def replaced(d: Drawer) -> Call:
    """Numbers, and what is put in place of those that are none."""
    return call(d.array(ALL), **d.one_of({}, {"nan": 1.0}, {"posinf": 2.0, "neginf": -2.0}))


def rounded(d: Drawer) -> Call:
    """Numbers and a number of decimals."""
    return call(d.array("iufc"), d.one_of(0, 1, 2))


ROUND = Entry(rounded, widen=False, ulps=4, absolute=4)
INVERT = unary("biu")
AND = binary("biu")
CLOSE = Entry(close)

ENTRIES: dict[str, Entry] = {
    **{name: unary(ALL) for name in "abs absolute isfinite isinf isnan logical_not real imag".split()},
    **{name: unary("iufhc") for name in "conj conjugate negative positive sign square".split()},
    **{name: unary(REALS) for name in "ceil floor trunc fabs signbit isposinf isneginf".split()},
    **{name: unary(ALL) for name in "isreal iscomplex".split()},
    **{name: smooth("iufhc") for name in "cos sin exp expm1 sqrt log log1p log2 log10 exp2 sinh cosh tanh arcsinh asinh".split()},
    **{name: smooth("iufhc", absolute=16) for name in "arctan atan arcsin asin arccos acos arccosh acosh arctanh atanh".split()},
    "tan": smooth("iufh", absolute=64),
    "cbrt": smooth("iufh"),
    "sinc": smooth("iufhc", -2, 2, absolute=64),
    "i0": smooth("iufh", ulps=128),
    "rint": unary("iufc"),
    "reciprocal": smooth("fhc"),
    "spacing": unary("f", widen=False),
    "angle": Entry(lambda d: call(d.array("iufhc"), deg=d.one_of(False, True)), inexact=True, absolute=4),
    **{name: smooth(REALS) for name in "deg2rad rad2deg radians degrees".split()},
    "frexp": unary("fh", signs=False),
    "modf": unary("fh"),
    "nan_to_num": Entry(replaced, widen=False),
    **{name: ROUND for name in "round around".split()},
    **{name: INVERT for name in "invert bitwise_not bitwise_invert".split()},
    "bitwise_count": unary("iu"),
    "clip": Entry(clipped, signs=True),
    **{name: binary("biufhc", absolute=4) for name in "add multiply".split()},
    "subtract": binary("iufhc", absolute=4),
    **{name: binary("iufhc", inexact=True, absolute=4) for name in "divide true_divide".split()},
    **{name: binary("iufh") for name in "floor_divide fmod mod remainder divmod".split()},
    **{name: Entry(raised, ulps=256, signs=True) for name in "power pow".split()},
    "float_power": binary("iufh", 0, 3, ulps=256, dtypes=False),
    **{name: binary("iufh", signs=False) for name in "maximum minimum fmax fmin".split()},
    "copysign": binary(REALS, inexact=True),
    "heaviside": binary(REALS, inexact=True),
    "hypot": binary(REALS, inexact=True),
    "nextafter": Entry(neighbours, widen=False),
    **{name: binary(REALS, inexact=True) for name in "arctan2 atan2".split()},
    **{name: binary(FLOATS, absolute=8) for name in "logaddexp logaddexp2".split()},
    **{name: binary(INTEGERS) for name in "gcd lcm".split()},
    "ldexp": Entry(scaled, signs=True),
    **{name: AND for name in "bitwise_and bitwise_or bitwise_xor".split()},
    **{name: Entry(shifts) for name in "left_shift right_shift bitwise_left_shift bitwise_right_shift".split()},
    **{name: binary(ALL) for name in "equal not_equal logical_and logical_or logical_xor".split()},
    **{name: binary("biufh") for name in "less less_equal greater greater_equal".split()},
    "isclose": CLOSE,
    "allclose": CLOSE,
    **{name: CLOSE for name in "array_equal array_equiv".split()},
}  # fmt: skip
