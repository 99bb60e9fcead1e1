# SPDX-License-Identifier: Apache-2.0
"""The dtype names: classes that make arrays when called and stand for their dtype everywhere else.

`float32(1.0)` is an Array, ``numpy.dtype(float32)`` a dtype, ``isinstance(numpy.float32(1), float32)`` True. A type asked for
by its name gives its own dtype: `float64(x)` has 64 bits whether or not `enable_x64` is on. `int_`, `uint`, `float_` and
`complex_` are the default of their kind instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from purax import dtypes
from purax.numpy.creation import array

__all__ = [
    "ComplexWarning",
    "bfloat16",
    "bool",
    "bool_",
    "can_cast",
    "cdouble",
    "character",
    "complex64",
    "complex128",
    "complex_",
    "complexfloating",
    "csingle",
    "double",
    "dtype",
    "e",
    "euler_gamma",
    "finfo",
    "flexible",
    "float4_e2m1fn",
    "float6_e2m3fn",
    "float6_e3m2fn",
    "float8_e3m4",
    "float8_e4m3",
    "float8_e4m3b11fnuz",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
    "float16",
    "float32",
    "float64",
    "float_",
    "floating",
    "generic",
    "iinfo",
    "inexact",
    "inf",
    "int1",
    "int2",
    "int4",
    "int8",
    "int16",
    "int32",
    "int64",
    "int_",
    "integer",
    "isdtype",
    "issubdtype",
    "nan",
    "newaxis",
    "number",
    "object_",
    "pi",
    "promote_types",
    "result_type",
    "signedinteger",
    "single",
    "uint",
    "uint1",
    "uint2",
    "uint4",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "unsignedinteger",
]  # fmt: skip


class ScalarType(type):
    """The class of the dtype names; see the module's docstring."""

    _find: Callable[[], Any]

    @property
    def dtype(cls) -> Any:
        """The dtype it stands for."""
        return cls._find()

    def __call__(cls, x: Any = 0) -> Any:
        """An array of `x` in this dtype."""
        return array(x, cls.dtype)

    def __hash__(cls) -> int:
        return hash(cls.dtype.type)

    def __eq__(cls, other: object) -> Any:
        if cls is other:
            return True
        own = cls.dtype
        return own.type == other or (isinstance(other, (np.dtype, ScalarType)) and own == np.dtype(other))

    def __ne__(cls, other: object) -> Any:
        return not cls == other

    def __instancecheck__(cls, instance: Any) -> Any:
        return isinstance(instance, cls.dtype.type)


def _scalar_type(name: str, find: Callable[[], Any], meaning: str) -> Any:
    made = ScalarType(name, (), {"_find": staticmethod(find), "__doc__": meaning})
    made.__module__ = "purax.numpy"
    return made


def _named(dtype: Any, name: str = "") -> Any:
    return _scalar_type(name or dtype.name, lambda: dtype, f"The dtype {dtype.name}; called, an array of it.")


bool_ = bool = _named(dtypes.bool_, "bool")
int1, int2, int4 = _named(dtypes.int1), _named(dtypes.int2), _named(dtypes.int4)
int8, int16, int32, int64 = _named(dtypes.int8), _named(dtypes.int16), _named(dtypes.int32), _named(dtypes.int64)
uint1, uint2, uint4 = _named(dtypes.uint1), _named(dtypes.uint2), _named(dtypes.uint4)
uint8, uint16, uint32, uint64 = (
    _named(dtypes.uint8),
    _named(dtypes.uint16),
    _named(dtypes.uint32),
    _named(dtypes.uint64),
)
float4_e2m1fn = _named(dtypes.float4_e2m1fn)
float6_e2m3fn, float6_e3m2fn = _named(dtypes.float6_e2m3fn), _named(dtypes.float6_e3m2fn)
float8_e3m4, float8_e4m3 = _named(dtypes.float8_e3m4), _named(dtypes.float8_e4m3)
float8_e4m3b11fnuz, float8_e4m3fn = _named(dtypes.float8_e4m3b11fnuz), _named(dtypes.float8_e4m3fn)
float8_e4m3fnuz, float8_e5m2 = _named(dtypes.float8_e4m3fnuz), _named(dtypes.float8_e5m2)
float8_e5m2fnuz, float8_e8m0fnu = _named(dtypes.float8_e5m2fnuz), _named(dtypes.float8_e8m0fnu)
float16, bfloat16, float32, float64 = (
    _named(dtypes.float16),
    _named(np.dtype(dtypes.bfloat16)),
    _named(dtypes.float32),
    _named(dtypes.float64),
)
complex64, complex128 = _named(dtypes.complex64), _named(dtypes.complex128)
single, double, csingle, cdouble = float32, float64, complex64, complex128

int_ = _scalar_type("int_", dtypes.default_int, "The default integer: int32, or int64 if `enable_x64` is on.")
uint = _scalar_type(
    "uint", dtypes.default_uint, "The default unsigned integer: uint32, or uint64 if `enable_x64` is on."
)
float_ = _scalar_type("float_", dtypes.default_float, "The default float: float32, or float64 if `enable_x64` is on.")
complex_ = _scalar_type(
    "complex_", dtypes.default_complex, "The default complex: complex64, or complex128 if `enable_x64` is on."
)

# Abstract kinds, and what NumPy has besides numbers, for `issubdtype`.
generic, number, inexact, flexible, character = np.generic, np.number, np.inexact, np.flexible, np.character
integer, signedinteger, unsignedinteger = np.integer, np.signedinteger, np.unsignedinteger
floating, complexfloating, object_ = np.floating, np.complexfloating, np.object_
ComplexWarning = np.exceptions.ComplexWarning

dtype = np.dtype
finfo, iinfo = dtypes.finfo, dtypes.iinfo
can_cast, isdtype = dtypes.can_cast, dtypes.isdtype
promote_types, result_type = dtypes.promote_types, dtypes.result_type


def issubdtype(arg1: Any, arg2: Any) -> Any:
    """Whether a dtype `arg1` is of a kind `arg2`: a dtype, a scalar type, or an abstract one such as `floating`."""
    return dtypes.issubdtype(arg1, arg2)


pi, e, euler_gamma, inf, nan, newaxis = np.pi, np.e, np.euler_gamma, np.inf, np.nan, None
