# SPDX-License-Identifier: Apache-2.0
"""The dtypes that exist: NumPy's, those of ml_dtypes, and the extended dtype of random keys."""

from typing import Any, Protocol

import ml_dtypes
import numpy as np

from purax.config import current
from purax.errors import DTypeError, explain

DType = Any  # np.dtype or KeyDtype: typed code tells them apart by `isinstance(dtype, KeyDtype)`

bool_ = np.dtype(np.bool_)
int1 = np.dtype(ml_dtypes.int1)
int2 = np.dtype(ml_dtypes.int2)
int4 = np.dtype(ml_dtypes.int4)
int8 = np.dtype(np.int8)
int16 = np.dtype(np.int16)
int32 = np.dtype(np.int32)
int64 = np.dtype(np.int64)
uint1 = np.dtype(ml_dtypes.uint1)
uint2 = np.dtype(ml_dtypes.uint2)
uint4 = np.dtype(ml_dtypes.uint4)
uint8 = np.dtype(np.uint8)
uint16 = np.dtype(np.uint16)
uint32 = np.dtype(np.uint32)
uint64 = np.dtype(np.uint64)
float4_e2m1fn = np.dtype(ml_dtypes.float4_e2m1fn)
float6_e2m3fn = np.dtype(ml_dtypes.float6_e2m3fn)
float6_e3m2fn = np.dtype(ml_dtypes.float6_e3m2fn)
float8_e3m4 = np.dtype(ml_dtypes.float8_e3m4)
float8_e4m3 = np.dtype(ml_dtypes.float8_e4m3)
float8_e4m3b11fnuz = np.dtype(ml_dtypes.float8_e4m3b11fnuz)
float8_e4m3fn = np.dtype(ml_dtypes.float8_e4m3fn)
float8_e4m3fnuz = np.dtype(ml_dtypes.float8_e4m3fnuz)
float8_e5m2 = np.dtype(ml_dtypes.float8_e5m2)
float8_e5m2fnuz = np.dtype(ml_dtypes.float8_e5m2fnuz)
float8_e8m0fnu = np.dtype(ml_dtypes.float8_e8m0fnu)
float16 = np.dtype(np.float16)
bfloat16 = np.dtype(ml_dtypes.bfloat16)
float32 = np.dtype(np.float32)
float64 = np.dtype(np.float64)
complex64 = np.dtype(np.complex64)
complex128 = np.dtype(np.complex128)
float0 = np.dtype([("float0", np.void)])
"""The dtype of a tangent of integers and booleans: an array of it holds no data."""

SIGNED = (int1, int2, int4, int8, int16, int32, int64)
UNSIGNED = (uint1, uint2, uint4, uint8, uint16, uint32, uint64)
NARROW_FLOATS = (
    float4_e2m1fn, float6_e2m3fn, float6_e3m2fn, float8_e3m4, float8_e4m3, float8_e4m3b11fnuz, float8_e4m3fn,
    float8_e4m3fnuz, float8_e5m2, float8_e5m2fnuz, float8_e8m0fnu,
)  # fmt: skip
FLOATS = (*NARROW_FLOATS, float16, bfloat16, float32, float64)
COMPLEXES = (complex64, complex128)
ALL = (bool_, *SIGNED, *UNSIGNED, *FLOATS, *COMPLEXES)

# StableHLO element types. NumPy has no signless integers: signed ones are StableHLO's `iN`, unsigned ones `uiN`.
HLO_NAMES: dict[DType, str] = {
    bool_: "i1",
    **{dtype: f"i{dtype.name[3:]}" for dtype in SIGNED},
    **{dtype: f"ui{dtype.name[4:]}" for dtype in UNSIGNED},
    float4_e2m1fn: "f4E2M1FN",
    float6_e2m3fn: "f6E2M3FN",
    float6_e3m2fn: "f6E3M2FN",
    float8_e3m4: "f8E3M4",
    float8_e4m3: "f8E4M3",
    float8_e4m3b11fnuz: "f8E4M3B11FNUZ",
    float8_e4m3fn: "f8E4M3FN",
    float8_e4m3fnuz: "f8E4M3FNUZ",
    float8_e5m2: "f8E5M2",
    float8_e5m2fnuz: "f8E5M2FNUZ",
    float8_e8m0fnu: "f8E8M0FNU",
    float16: "f16",
    bfloat16: "bf16",
    float32: "f32",
    float64: "f64",
    complex64: "complex<f32>",
    complex128: "complex<f64>",
    float0: "i1",
}


# ---- extended dtypes


class extended(np.generic):
    """The abstract scalar type above all dtypes that NumPy cannot hold; only for `issubdtype`."""


class prng_key(extended):
    """The abstract scalar type of all typed random keys; only for `issubdtype`."""


class KeyImplementation(Protocol):
    """What a kind of random key tells its dtype."""

    @property
    def name(self) -> str:
        """The full name, such as `threefry2x32`."""

    @property
    def tag(self) -> str:
        """Three letters, such as `fry`."""

    @property
    def key_shape(self) -> tuple[int, ...]:
        """The shape of the uint32 words behind one key."""


class KeyDtype:
    """The dtype of typed random keys of one implementation; made by `key_dtype`, so identity is equality.

    Attributes
    ----------
    impl : KeyImplementation
        The implementation.
    name : str
        Such as `key<fry>`.
    itemsize : int
        Bytes of one key.
    key_shape : tuple of int
        The trailing dimensions that one key has as an array of `physical_dtype`.
    """

    __slots__ = ("impl", "itemsize", "key_shape", "name")
    type = prng_key
    kind = "V"
    physical_dtype = uint32

    def __init__(self, impl: KeyImplementation) -> None:
        self.impl = impl
        self.name = f"key<{impl.tag}>"
        self.key_shape = tuple(impl.key_shape)
        self.itemsize = 4 * int(np.prod(self.key_shape))

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Any, tuple[KeyImplementation]]:
        return key_dtype, (self.impl,)


_key_dtypes: dict[str, KeyDtype] = {}


def key_dtype(impl: KeyImplementation) -> KeyDtype:
    """Return the one dtype of the keys of an implementation."""
    found = _key_dtypes.get(impl.name)
    if found is None:
        found = _key_dtypes.setdefault(impl.name, KeyDtype(impl))
    return found


# ---- abstract kinds

_ABSTRACT_PARENTS: dict[Any, tuple[Any, ...]] = {
    **{dtype.type: (np.signedinteger, np.integer, np.number, np.generic) for dtype in SIGNED},
    **{dtype.type: (np.unsignedinteger, np.integer, np.number, np.generic) for dtype in UNSIGNED},
    **{dtype.type: (np.floating, np.inexact, np.number, np.generic) for dtype in FLOATS},
}


def _scalar_type(dtype: Any) -> Any:
    if isinstance(dtype, type) and issubclass(dtype, np.generic):
        return dtype
    if isinstance(dtype, (np.dtype, KeyDtype)):
        return dtype.type
    found = getattr(dtype, "dtype", dtype)
    return found.type if isinstance(found, (np.dtype, KeyDtype)) else np.dtype(found).type


_subdtypes: dict[tuple[Any, Any], bool] = {}


def issubdtype(dtype: Any, kind: Any) -> bool:
    """Tell whether a dtype is of a kind, as `numpy.issubdtype` does, for every dtype that purax has.

    Parameters
    ----------
    dtype : dtype, scalar type, or name
        The dtype that is asked about.
    kind : dtype, scalar type, abstract scalar type, or name
        Such as `np.floating`, `float32`, or `prng_key`.

    Returns
    -------
    bool

    Examples
    --------
    >>> issubdtype(bfloat16, np.floating), issubdtype(int4, np.floating)
    (True, False)
    """
    try:
        return _subdtypes[dtype, kind]
    except (KeyError, TypeError):
        pass
    child, parent = _scalar_type(dtype), _scalar_type(kind)
    result = bool(issubclass(child, parent) or parent in _ABSTRACT_PARENTS.get(child, ()))
    try:
        _subdtypes[dtype, kind] = result
    except TypeError:
        pass
    return result


def is_float(dtype: DType) -> bool:
    """Tell whether a dtype is a real floating one."""
    return dtype in _FLOAT_SET


def is_complex(dtype: DType) -> bool:
    """Tell whether a dtype is complex."""
    return dtype in _COMPLEX_SET


def is_inexact(dtype: DType) -> bool:
    """Tell whether a dtype is floating or complex: whether it has a tangent."""
    return dtype in _INEXACT_SET


def is_integer(dtype: DType) -> bool:
    """Tell whether a dtype is a signed or unsigned integer; bool is not."""
    return dtype in _INTEGER_SET


def is_signed(dtype: DType) -> bool:
    """Tell whether a dtype is a signed integer."""
    return dtype in _SIGNED_SET


def is_unsigned(dtype: DType) -> bool:
    """Tell whether a dtype is an unsigned integer; bool is not."""
    return dtype in _UNSIGNED_SET


def is_bool(dtype: DType) -> bool:
    """Tell whether a dtype is bool."""
    return dtype is bool_ or dtype == bool_


def is_key(dtype: DType) -> bool:
    """Tell whether a dtype is that of typed random keys."""
    return type(dtype) is KeyDtype


_FLOAT_SET = frozenset(FLOATS)
_COMPLEX_SET = frozenset(COMPLEXES)
_INEXACT_SET = frozenset(FLOATS + COMPLEXES)
_SIGNED_SET = frozenset(SIGNED)
_UNSIGNED_SET = frozenset(UNSIGNED)
_INTEGER_SET = _SIGNED_SET | _UNSIGNED_SET


_bits: dict[Any, int] = {}


def itemsize_bits(dtype: Any) -> int:
    """Return the bits that one element of a dtype has on a device: 4 for int4, 1 for int1, 8 for bool."""
    found = _bits.get(dtype)
    if found is None:
        if dtype is None:
            raise ValueError("itemsize_bits: dtype cannot be None")
        known = named(dtype)
        small = is_integer(known) or known in NARROW_FLOATS
        found = int(_digits(known.name)) if small else int(known.itemsize) * 8
        if isinstance(dtype, (np.dtype, KeyDtype)):
            _bits[dtype] = found
    return found


def _digits(name: str) -> str:
    return "".join(letter for letter in name.split("_")[0] if letter.isdigit())


def whole_bytes(dtype: DType) -> DType:
    """Return the dtype, or for numbers of less than a byte the int8, uint8 or float16 that holds them.

    NumPy has no functions for such numbers, and XLA's CPU compiler few.
    """
    if is_bool(dtype) or not (is_integer(dtype) or is_float(dtype)) or itemsize_bits(dtype) >= 8:
        return dtype
    return int8 if is_signed(dtype) else uint8 if is_unsigned(dtype) else float16


def supports_inf(dtype: DType) -> bool:
    """Tell whether a floating or complex dtype has infinities."""
    return dtype not in _WITHOUT_INF


_WITHOUT_INF = frozenset(NARROW_FLOATS) - {float8_e3m4, float8_e4m3, float8_e5m2}


# ---- defaults and narrowing

_NARROWED: dict[DType, DType] = {int64: int32, uint64: uint32, float64: float32, complex128: complex64}
WIDE = frozenset(_NARROWED)
PYTHON_DTYPES: dict[type, tuple[DType, DType]] = {
    bool: (bool_, bool_),
    int: (int32, int64),
    float: (float32, float64),
    complex: (complex64, complex128),
}


def narrow(dtype: DType) -> DType:
    """Return the dtype that data of `dtype` has once it enters: its 32-bit form unless `enable_x64` is on.

    Parameters
    ----------
    dtype : np.dtype or KeyDtype
        A dtype; names and types go through `named`.
    """
    found = _NARROWED.get(dtype)
    return dtype if found is None or current().enable_x64 else found


def python_scalar_dtype(kind: type) -> DType:
    """Return the dtype of a Python `bool`, `int`, `float` or `complex`: 64 bits if `enable_x64` is on."""
    return PYTHON_DTYPES[kind][current().enable_x64]


def default_int() -> DType:
    """Return int32, or int64 if `enable_x64` is on."""
    return int64 if current().enable_x64 else int32


def default_uint() -> DType:
    """Return uint32, or uint64 if `enable_x64` is on."""
    return uint64 if current().enable_x64 else uint32


def default_float() -> DType:
    """Return float32, or float64 if `enable_x64` is on."""
    return float64 if current().enable_x64 else float32


def default_complex() -> DType:
    """Return complex64, or complex128 if `enable_x64` is on."""
    return complex128 if current().enable_x64 else complex64


_BY_NAME: dict[Any, DType] = {
    written: dtype for dtype in (*ALL, float0) for written in (dtype, dtype.name, dtype.type) if written is not np.void
}


def named(dtype: Any) -> DType:
    """Return the dtype that a user asked for by name: 64 bits if the name says so.

    Parameters
    ----------
    dtype : dtype, scalar type, Python scalar type, name, or object with a `dtype`
        `float`, `int` and `complex` mean the default dtype of their kind.

    Returns
    -------
    np.dtype or KeyDtype

    Raises
    ------
    TypeError
        It names no dtype.
    ValueError
        It is an array.
    DTypeError
        It names one that arrays cannot have (strings, objects, records).

    Examples
    --------
    >>> named("float64"), named(float), named("bfloat16")
    (dtype('float64'), dtype('float32'), dtype(bfloat16))
    """
    if type(dtype) is KeyDtype:
        return dtype
    if type(dtype) is type and dtype in PYTHON_DTYPES:
        return python_scalar_dtype(dtype)
    try:
        found = _BY_NAME.get(dtype)
    except TypeError:
        found = None
    if found is not None:
        return found
    own = None if isinstance(dtype, type) and issubclass(dtype, np.generic) else getattr(dtype, "dtype", None)
    if own is not None and hasattr(dtype, "shape") and not isinstance(dtype, (type, np.dtype)):
        raise ValueError(explain("an array was given as a dtype.", fix="give its dtype: x.dtype."))
    if type(own) is KeyDtype:
        return own
    found = native(np.dtype(dtype if own is None else own))
    if found not in HLO_NAMES:
        raise DTypeError(explain(f"arrays cannot have the dtype {found}.", fix="use bool, a number or a key dtype."))
    return found


def native(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype in the byte order of the machine; strings of variable width have none and stay as they are."""
    return dtype if dtype.isnative else dtype.newbyteorder("=")


def canonicalize_dtype(dtype: Any, allow_extended_dtype: bool = False) -> DType:
    """Return the dtype that default-made data has in place of `dtype`: narrowed unless `enable_x64` is on.

    Parameters
    ----------
    dtype : dtype-like
        Anything that `named` takes.
    allow_extended_dtype : bool
        Whether key dtypes pass; otherwise they raise.
    """
    found = named(dtype)
    if not allow_extended_dtype and is_key(found):
        raise ValueError(f"an array dtype is needed, and {found} is the dtype of random keys")
    return narrow(found)


_SHORT_NAMES = {dtype: dtype.name.replace("uint", "u").replace("int", "i").replace("complex", "c") for dtype in ALL} | {
    dtype: dtype.name.replace("bfloat", "bf").replace("float", "f") for dtype in FLOATS
}


def short_name(dtype: DType) -> str:
    """Return the name of a dtype as jaxprs write it: f32, bf16, i8, u32, c64, bool, key<fry>."""
    return _SHORT_NAMES.get(dtype) or str(getattr(dtype, "name", dtype) if dtype != float0 else "float0")


# ---- from one kind to another

_COMPLEX_OF = {float64: complex128, int64: complex128, uint64: complex128, complex128: complex128}
_REAL_OF = {complex64: float32, complex128: float64}


def to_inexact(dtype: DType) -> DType:
    """Return `dtype` if it is floating or complex, else the float for it: float64 for 64-bit integers, else float32.

    Integers of 64 bits give float32 unless `enable_x64` is on or they were asked for by name.
    """
    if dtype in _INEXACT_SET:
        return dtype
    return float64 if dtype in (int64, uint64) else float32


def to_floating(dtype: DType) -> DType:
    """Return the real floating dtype for `dtype`: of its parts if it is complex."""
    return _REAL_OF.get(dtype) or to_inexact(dtype)


def to_numeric(dtype: DType) -> DType:
    """Return `dtype`, or the default integer for bool."""
    return default_int() if is_bool(dtype) else dtype


def to_complex(dtype: DType) -> DType:
    """Return the complex dtype that holds `dtype`: complex128 for 64-bit dtypes, else complex64."""
    return _COMPLEX_OF.get(dtype, complex64)


def real_dtype(dtype: DType) -> DType:
    """Return the dtype of the real part: that of the parts for complex, else `dtype` itself."""
    return _REAL_OF.get(dtype, dtype)


def tangent_dtype(dtype: DType) -> DType:
    """Return the dtype of tangents: `dtype` if it is inexact, else float0."""
    return dtype if dtype in _INEXACT_SET else float0
