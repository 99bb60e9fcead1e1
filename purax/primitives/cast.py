# SPDX-License-Identifier: Apache-2.0
"""Changes of dtype: conversion of values, reinterpretation of bits, loss of precision, copies."""

from __future__ import annotations

from typing import Any

import numpy as np

from purax import dtypes, errors
from purax.core.aval import array_aval
from purax.core.hooks import hooks
from purax.core.primitive import Primitive, Undefined
from purax.core.trace import Tracer, aval_of, current
from purax.primitives import operands
from purax.primitives.base import LinearUnary
from purax.primitives.family import FLOAT, HOST, HOST_INTEGER
from purax.sharding import rules

__all__ = [
    "bitcast_convert_type", "bitcast_convert_type_p", "convert_element_type", "convert_element_type_p", "copy", "copy_p",
    "reduce_precision", "reduce_precision_p", "stage",
]  # fmt: skip


# --- conversion of values -------------------------------------------------------------------------------------------


class ConvertElementType(Primitive):
    """Values in another dtype.

    Floats round to nearest even; to integers they truncate and saturate, and NaN gives 0. Integers wrap. To bool: whether it is not
    zero (NaN is not). Complex to real drops the imaginary part.
    """

    terms = True

    spread = rules.same

    def infer(self, operand: Any, *, new_dtype: Any, weak_type: bool) -> tuple[Any, ...]:
        """The operand's shape, the new dtype."""
        if isinstance(operand.dtype, dtypes.KeyDtype) or isinstance(new_dtype, dtypes.KeyDtype):
            if operand.dtype is not new_dtype:
                raise errors.TypePromotionError(
                    f"random keys cannot be converted ({operands.dtype_name(operand)} to {operands.dtype_name(new_dtype)}); "
                    "use random.key_data and random.wrap_key_data"
                )
        elif new_dtype not in dtypes.HLO_NAMES or new_dtype == dtypes.float0:
            raise errors.DTypeError(f"arrays cannot have the dtype {new_dtype}")
        return (array_aval(operand.shape, new_dtype, weak_type, operand.varying),)

    def reference(self, operand: Any, *, new_dtype: Any, weak_type: bool) -> tuple[Any, ...]:
        """NumPy's cast, with float to integer made total."""
        return (cast_array(operand, new_dtype),)

    def jvp(self, primals: Any, tangents: Any, *, new_dtype: Any, weak_type: bool) -> Any:
        """The tangent, converted."""
        out = self.bind1(*primals, new_dtype=new_dtype, weak_type=weak_type)
        (tangent,) = tangents
        if tangent is None or not dtypes.is_inexact(new_dtype):
            return (out,), (None,)
        return (out,), (as_type(tangent, aval_of(tangent).update(dtype=new_dtype, weak_type=weak_type)),)

    def stage(self, trace: Any, operands: tuple[Any, ...], params: dict[str, Any]) -> tuple[Any, ...]:
        """Recorded, unless it changes nothing, or its operand is a scalar that is known."""
        (x,) = operands
        aval = aval_of(x)
        if aval.dtype == params["new_dtype"] and aval.weak_type == params["weak_type"]:
            return (x,)
        if aval.ndim == 0 and type(x) is hooks.array_type and x._np is not None:
            (out,) = hooks.evaluate(self, operands, params)
            assert out.host is not None  # it is read here: a literal of a program lies on the host
            return (out,)
        return trace.record(self, operands, params)

    def transpose(self, cotangents: Any, operands: Any, *, new_dtype: Any, weak_type: bool) -> Any:
        """The cotangent, converted back."""
        (cotangent,) = cotangents
        return (None if cotangent is None else as_type(cotangent, operands[0].aval),)

    def batch(self, axis: Any, operands: Any, dims: Any, **params: Any) -> Any:
        """The same conversion."""
        return self.bind(*operands, **params), dims

    def lower(self, b: Any, ins: Any, outs: Any, **params: Any) -> list[Any]:
        """`convert`; comparison with zero for bool."""
        (x,), (out,) = ins, outs
        if x.dtype == out.dtype:
            return [x]
        if out.dtype == np.bool_:
            kind = "UNSIGNED" if dtypes.is_unsigned(x.dtype) else "SIGNED" if dtypes.is_integer(x.dtype) else "FLOAT"
            zero = b.constant(0, x.aval)
            return [b.emit(f"stablehlo.compare NE, {x}, {zero}, {kind} : ({x.hlo}, {x.hlo}) -> {out.hlo}", out)]
        if dtypes.is_complex(x.dtype) and not dtypes.is_complex(out.dtype):
            part = array_aval(out.shape, dtypes.real_dtype(x.dtype))
            x = b.emit(f"stablehlo.real {x} : ({x.hlo}) -> {part.hlo}", part)
        if x.dtype in dtypes.NARROW_FLOATS:  # the compiler saturates at their largest value
            x = b.convert(x, dtypes.float32)
        return [b.convert(x, out.dtype)]

    @staticmethod
    def exact(avals: Any, params: Any) -> bool:
        """Where NumPy's cast has XLA's bits: not from floats to integers."""
        old, new = avals[0].dtype, params["new_dtype"]
        if old == new:
            return True
        if new in HOST_INTEGER:
            return old in HOST_INTEGER or (new == np.bool_ and old in HOST)
        return old in HOST and new in HOST


convert_element_type_p = ConvertElementType("convert_element_type")


def cast_array(x: np.ndarray, dtype: Any) -> np.ndarray:
    """`x` converted as the primitive says."""
    old = x.dtype
    if old == dtype:
        return x
    if dtype == np.bool_:
        return x != np.zeros((), old)
    if dtypes.is_complex(old) and not dtypes.is_complex(dtype):
        x = x.real
        old = x.dtype
    if dtypes.is_float(old) and dtypes.is_integer(dtype):
        limits = dtypes.iinfo(dtype)
        wide = np.trunc(np.asarray(x).astype(np.float64))
        low, high = wide <= float(limits.min), wide >= float(limits.max)
        safe = np.where(low | high | np.isnan(wide), 0.0, wide)
        return np.where(low, limits.min, np.where(high, limits.max, safe.astype(_carrier(dtype)))).astype(dtype)
    if dtypes.is_integer(old) and dtypes.itemsize_bits(dtype) < 8 and dtypes.is_integer(dtype):
        return _wrapped(x, dtype)
    if old in dtypes.NARROW_FLOATS or dtype in dtypes.NARROW_FLOATS:
        return np.asarray(x).astype(np.float32 if old.itemsize < 8 else old).astype(dtype)
    return x.astype(dtype)


def _carrier(dtype: Any) -> Any:
    return np.uint64 if dtype == np.uint64 else np.int64


def _wrapped(x: np.ndarray, dtype: Any) -> np.ndarray:
    bits = dtypes.itemsize_bits(dtype)
    low = np.asarray(x).astype(np.int64) & ((1 << bits) - 1)
    if dtypes.is_signed(dtype):
        low = np.where(low >= 1 << (bits - 1), low - (1 << bits), low)
    return low.astype(dtype)


def convert_element_type(operand: Any, new_dtype: Any) -> Any:
    """Convert the elements to another dtype.

    Parameters
    ----------
    operand : array
    new_dtype : dtype-like

    Returns
    -------
    array of `new_dtype`
        Floats truncate toward zero and saturate when they become integers (NaN gives 0); integers wrap; complex to real drops the
        imaginary part; to bool asks whether the element is not zero.

    Raises
    ------
    DTypeError
        To or from a dtype of random keys.
    """
    dtype = dtypes.named(new_dtype)
    if type(operand) is int and dtypes.is_inexact(dtype) and operand.bit_length() > 31:
        operand = np.asarray(float(operand)).astype(dtype)  # no integer array has to hold it on its way
    if type(operand) in (int, float, complex, bool):
        operand = hooks.as_array(operand)
    aval = aval_of(operand)
    if aval.dtype == dtype and not aval.weak_type:
        return operand if isinstance(operand, (hooks.array_type, Tracer)) else hooks.as_array(operand)
    return convert_element_type_p.bind1(operand, new_dtype=dtype, weak_type=False)


def as_type(operand: Any, aval: Any) -> Any:
    """`operand` with the dtype and weak type of `aval`."""
    have = aval_of(operand)
    if have.dtype == aval.dtype and have.weak_type == aval.weak_type:
        return operand
    return convert_element_type_p.bind1(operand, new_dtype=aval.dtype, weak_type=aval.weak_type)


# --- bits -----------------------------------------------------------------------------------------------------------


class BitcastConvertType(Primitive):
    """The same bits read as another dtype; between sizes, a last axis holds the pieces of an element."""

    transpose = Undefined("bits are not linear in values")

    def spread(self, ins: Any, avals: Any, outs: Any, params: Any) -> Any:
        """As the operand; an axis of the parts of an element that comes or goes is not cut."""
        rules.refuse_sums(self.name, ins)
        (s,), ndim = ins, outs[0].ndim
        if ndim < len(s.parts):
            rules.uncut_along(self.name, s, (ndim,))
        return [s.replace((*s.parts, ())[:ndim])]

    def infer(self, operand: Any, *, new_dtype: Any) -> tuple[Any, ...]:
        """The operand's shape, with a last axis more or less when the sizes differ."""
        if isinstance(operand.dtype, dtypes.KeyDtype) or isinstance(new_dtype, dtypes.KeyDtype):
            raise errors.DTypeError("the bits of random keys are not accessible; use random.key_data")
        if dtypes.is_bool(operand.dtype) != dtypes.is_bool(new_dtype):
            raise errors.DTypeError("bool has no bits to read; convert it to an integer first")
        if operand.dtype != new_dtype and (dtypes.is_complex(operand.dtype) or dtypes.is_complex(new_dtype)):
            raise errors.DTypeError(
                "the bits of complex numbers cannot be read as another dtype; take real and imag apart first"
            )
        old, new = dtypes.itemsize_bits(operand.dtype), dtypes.itemsize_bits(new_dtype)
        shape = operand.shape
        if old > new:
            shape = (*shape, old // new)
        elif old < new:
            if not shape or shape[-1] != new // old:
                raise errors.ShapeError(
                    f"{new // old} elements of {operands.dtype_name(operand)} make one of {operands.dtype_name(new_dtype)}: "
                    f"the last axis must have that size, and the shape is {shape}"
                )
            shape = shape[:-1]
        return (array_aval(shape, new_dtype, False, operand.varying),)

    def reference(self, operand: Any, *, new_dtype: Any) -> tuple[Any, ...]:
        """A view."""
        x = np.asarray(operand)
        old, new = x.dtype.itemsize, new_dtype.itemsize
        if old == new:
            return (x.view(new_dtype),)
        flat = np.ascontiguousarray(x)
        if old > new:
            return (flat.reshape((*x.shape, 1)).view(new_dtype).reshape((*x.shape, old // new)),)
        return (flat.view(new_dtype).reshape(x.shape[:-1]),)

    def jvp(self, primals: Any, tangents: Any, *, new_dtype: Any) -> Any:
        """No tangent: steps of bits have no derivative."""
        return self.bind(*primals, new_dtype=new_dtype), (None,)

    def batch(self, axis: Any, values: Any, dims: Any, *, new_dtype: Any) -> Any:
        """With the mapped axis in front, out of the way of the last."""
        (x,), (dim,) = values, dims
        return self.bind(operands.move_axis(x, dim, 0), new_dtype=new_dtype), (0,)

    def lower(self, b: Any, ins: Any, outs: Any, **params: Any) -> list[Any]:
        """`bitcast_convert`."""
        (x,), (out,) = ins, outs
        if x.dtype == out.dtype:
            return [x]
        return [b.emit(f"stablehlo.bitcast_convert {x} : ({x.hlo}) -> {out.hlo}", out)]

    @staticmethod
    def exact(avals: Any, params: Any) -> bool:
        """Views of whole bytes."""
        return avals[0].dtype in HOST and params["new_dtype"] in HOST


bitcast_convert_type_p = BitcastConvertType("bitcast_convert_type")


def bitcast_convert_type(operand: Any, new_dtype: Any) -> Any:
    """Read the bits of each element as another dtype.

    Parameters
    ----------
    operand : array
    new_dtype : dtype-like
        A smaller one adds a last axis, a larger one takes the last axis away.

    Returns
    -------
    array of `new_dtype`

    Raises
    ------
    DTypeError
        One of the two is bool or complex and they differ.
    ShapeError
        The last axis does not make up whole elements.
    """
    return bitcast_convert_type_p.bind1(operands.lift(operand), new_dtype=dtypes.named(new_dtype))


# --- precision ------------------------------------------------------------------------------------------------------


class ReducePrecision(LinearUnary):
    """Round to the values that a float with fewer bits can hold, keeping the dtype."""

    spread = rules.same

    def infer(self, operand: Any, *, exponent_bits: int, mantissa_bits: int) -> tuple[Any, ...]:
        """The operand's aval."""
        if operand.dtype not in FLOAT:
            raise errors.DTypeError(f"operand has dtype {operands.dtype_name(operand)}; real floating is needed")
        if exponent_bits < 1 or mantissa_bits < 0:
            raise errors.ShapeError(
                f"exponent_bits {exponent_bits} must be positive, mantissa_bits {mantissa_bits} not negative"
            )
        return (operand,)

    def reference(self, operand: Any, *, exponent_bits: int, mantissa_bits: int) -> tuple[Any, ...]:
        """Rounding of the bits to nearest even; exponents beyond the format give inf or zero."""
        x = np.asarray(operand)
        own = dtypes.finfo(x.dtype)
        bits = x.view(f"u{x.dtype.itemsize}")
        word = bits.dtype.type
        dropped = own.nmant - mantissa_bits
        if dropped > 0:
            last = (bits >> word(dropped)) & word(1)
            bits = (bits + last + word((1 << (dropped - 1)) - 1)) & ~word((1 << dropped) - 1)
        rounded = bits.view(x.dtype)
        if exponent_bits < own.nexp:
            bias = 2 ** (exponent_bits - 1) - 1
            size, zero = np.abs(rounded.astype(np.float64)), x.dtype.type(0)
            rounded = np.where(size >= 2.0 ** (bias + 1), np.copysign(x.dtype.type(np.inf), x), rounded)
            rounded = np.where(size < 2.0 ** (1 - bias), np.copysign(zero, x), rounded)
        return (np.where(np.isnan(x), x, rounded),)

    def transpose(self, cotangents: Any, operands: Any, **params: Any) -> Any:
        """The cotangent, rounded alike."""
        (cotangent,) = cotangents
        return (None if cotangent is None else self.bind1(cotangent, **params),)

    def batch(self, axis: Any, operands: Any, dims: Any, **params: Any) -> Any:
        """The same rounding."""
        return self.bind(*operands, **params), dims

    def lower(self, b: Any, ins: Any, outs: Any, *, exponent_bits: int, mantissa_bits: int) -> list[Any]:
        """`reduce_precision`."""
        (x,), (out,) = ins, outs
        return [b.emit(f"stablehlo.reduce_precision {x}, format = e{exponent_bits}m{mantissa_bits} : {out.hlo}", out)]


reduce_precision_p = ReducePrecision("reduce_precision")


def reduce_precision(operand: Any, exponent_bits: int, mantissa_bits: int) -> Any:
    """Round each element to a float of fewer bits, keeping the dtype.

    Parameters
    ----------
    operand : float[...]
    exponent_bits, mantissa_bits : int
        The format: 8 and 7 is bfloat16, 5 and 10 is float16.

    Returns
    -------
    float[...]
        Too large values become inf, too small ones 0.

    Raises
    ------
    DTypeError
        The operand is not real floating.
    """
    return reduce_precision_p.bind1(
        operands.lift(operand), exponent_bits=int(exponent_bits), mantissa_bits=int(mantissa_bits)
    )


# --- copies ---------------------------------------------------------------------------------------------------------


class Copy(LinearUnary):
    """The same value in a buffer of its own."""

    exact = True

    terms = True

    spread = rules.same

    def infer(self, operand: Any) -> tuple[Any, ...]:
        """The operand's aval."""
        return (operand,)

    def reference(self, operand: Any) -> tuple[Any, ...]:
        """A copy."""
        return (np.array(operand),)

    def transpose(self, cotangents: Any, operands: Any) -> Any:
        """A copy of the cotangent."""
        return (None if cotangents[0] is None else self.bind1(cotangents[0]),)

    def batch(self, axis: Any, operands: Any, dims: Any) -> Any:
        """A copy."""
        return self.bind(*operands), dims

    def lower(self, b: Any, ins: Any, outs: Any) -> list[Any]:
        """Values of a program are immutable: the same one."""
        return list(ins)


copy_p = Copy("copy")


def copy(operand: Any) -> Any:
    """The same value in a buffer of its own."""
    return copy_p.bind1(operands.lift(operand))


def stage(x: Any, /) -> Any:
    """`x` as a value of the program that is being traced; an Array outside of programs."""
    x = operands.lift(x)
    return x if current.get() is None else copy_p.bind1(x)
