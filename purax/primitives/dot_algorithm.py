# SPDX-License-Identifier: Apache-2.0
"""Products computed in a chosen number format: the `DotAlgorithm` that may stand for `precision` in `dot_general`."""

from __future__ import annotations

import enum
from typing import Any, NamedTuple

import numpy as np

from purax import dtypes, errors
from purax.core.trace import aval_of
from purax.primitives import cast, contraction, elementwise, shape

__all__ = ["DotAlgorithm", "DotAlgorithmPreset", "scaled_dot"]


class DotAlgorithm(NamedTuple):
    """Formats of a product.

    Attributes
    ----------
    lhs_precision_type, rhs_precision_type : dtype
        What the operands are rounded to; "tensorfloat32" stands for the 19-bit format of tensor units.
    accumulation_type : dtype
    lhs_component_count, rhs_component_count, num_primitive_operations : int
        How many parts each operand is split into, and how many products of parts are taken.
    allow_imprecise_accumulation : bool
    """

    lhs_precision_type: Any
    rhs_precision_type: Any
    accumulation_type: Any
    lhs_component_count: int = 1
    rhs_component_count: int = 1
    num_primitive_operations: int = 1
    allow_imprecise_accumulation: bool = False


class DotAlgorithmPreset(enum.Enum):
    """Known algorithms: formats of the operands and of the sum; X3, X6, X9 split float32 operands into that many products."""

    DEFAULT = enum.auto()
    ANY_F8_ANY_F8_F32 = enum.auto()
    ANY_F8_ANY_F8_F32_FAST_ACCUM = enum.auto()
    ANY_F8_ANY_F8_ANY = enum.auto()
    ANY_F8_ANY_F8_ANY_FAST_ACCUM = enum.auto()
    F16_F16_F16 = enum.auto()
    F16_F16_F32 = enum.auto()
    BF16_BF16_BF16 = enum.auto()
    BF16_BF16_F32 = enum.auto()
    BF16_BF16_F32_X3 = enum.auto()
    BF16_BF16_F32_X6 = enum.auto()
    BF16_BF16_F32_X9 = enum.auto()
    TF32_TF32_F32 = enum.auto()
    TF32_TF32_F32_X3 = enum.auto()
    F32_F32_F32 = enum.auto()
    F64_F64_F64 = enum.auto()


_FORMATS = {"F16": dtypes.float16, "BF16": np.dtype(dtypes.bfloat16), "F32": dtypes.float32, "F64": dtypes.float64}


def named(precision: Any) -> DotAlgorithm | DotAlgorithmPreset | None:
    """The algorithm that stands in the place of a precision, by itself or by its name; None for a precision proper."""
    if isinstance(precision, (DotAlgorithm, DotAlgorithmPreset)):
        return precision
    return DotAlgorithmPreset.__members__.get(precision) if isinstance(precision, str) else None


def plan_of(algorithm: Any) -> tuple[Any, Any, Any]:
    """(dtype of the operands or None, dtype of the sum or None, Precision) of an algorithm."""
    if isinstance(algorithm, DotAlgorithm):
        parts = max(algorithm.lhs_component_count, algorithm.rhs_component_count)
        total = np.dtype(dtypes.named(algorithm.accumulation_type))
        if "tensorfloat32" in (str(algorithm.lhs_precision_type), str(algorithm.rhs_precision_type)):
            return dtypes.float32, total, contraction.Precision.HIGH if parts == 1 else contraction.Precision.HIGHEST
        if parts > 1:
            return dtypes.float32, total, contraction.Precision.HIGH if parts == 2 else contraction.Precision.HIGHEST
        left, right = dtypes.named(algorithm.lhs_precision_type), dtypes.named(algorithm.rhs_precision_type)
        return dtypes.promote_types(left, right), total, contraction.Precision.HIGHEST
    if algorithm is DotAlgorithmPreset.DEFAULT:
        return None, None, contraction.Precision.DEFAULT
    left, _, total, *rest = algorithm.name.split("_")
    if left == "ANY":
        return None, dtypes.float32, contraction.Precision.DEFAULT
    if left == "TF32" or rest:
        exact = rest in (["X6"], ["X9"])
        return dtypes.float32, dtypes.float32, contraction.Precision.HIGHEST if exact else contraction.Precision.HIGH
    return _FORMATS[left], _FORMATS[total], contraction.Precision.HIGHEST


def dot_general(lhs: Any, rhs: Any, dimension_numbers: Any, algorithm: Any, preferred: Any) -> Any:
    """`dot_general` by an algorithm; the result is `preferred`, or the operands' common dtype, as without it."""
    operand, total, precision = plan_of(algorithm)
    left, right = aval_of(lhs).dtype, aval_of(rhs).dtype
    out = contraction.result_dtype(left, right, None if preferred is None else dtypes.named(preferred))
    if operand is not None and not dtypes.is_complex(left) and not dtypes.is_complex(right):
        lhs, rhs = cast.convert_element_type(lhs, operand), cast.convert_element_type(rhs, operand)
    else:
        total = None
    product = contraction.dot_general(lhs, rhs, dimension_numbers, precision, total)
    return cast.convert_element_type(product, out)


def scaled_dot(
    lhs: Any, rhs: Any, *, lhs_scale: Any = None, rhs_scale: Any = None, dimension_numbers: Any = None,
    preferred_element_type: Any = None,
) -> Any:  # fmt: skip
    """Product of operands that carry one scale for each block of elements, as 8-bit floats do.

    Parameters
    ----------
    lhs, rhs : float arrays
    lhs_scale, rhs_scale : float arrays, optional
        As many axes as the operand; each size divides the operand's.
    dimension_numbers : optional
        As in `dot_general`; by default products of matrices, batched over the first of three axes.
    preferred_element_type : dtype
        Of the result, bfloat16 by default; the sum is taken in float32.

    Returns
    -------
    array
        Shape as of `dot_general`, in `preferred_element_type`.

    Raises
    ------
    ShapeError
        A scale does not divide its operand into blocks, or the rank has no default dimension numbers.
    """
    left, right = aval_of(lhs), aval_of(rhs)
    if dimension_numbers is None:
        if left.ndim != right.ndim or left.ndim not in (2, 3):
            raise errors.ShapeError(
                f"scaled_dot needs dimension_numbers for operands of shapes {left.shape} and {right.shape}"
            )
        batch = tuple(range(left.ndim - 2))
        dimension_numbers = (((left.ndim - 1,), (left.ndim - 2,)), (batch, batch))
    wide = np.dtype(np.float32)
    out = np.dtype(dtypes.bfloat16) if preferred_element_type is None else dtypes.named(preferred_element_type)
    product = contraction.dot_general(_scaled(lhs, lhs_scale), _scaled(rhs, rhs_scale), dimension_numbers, None, wide)
    return cast.convert_element_type(product, out)


def _scaled(x: Any, scale: Any) -> Any:
    sizes = aval_of(x).shape
    x = cast.convert_element_type(x, np.float32)
    if scale is None:
        return x
    blocks = aval_of(scale).shape
    if len(blocks) != len(sizes) or any(b == 0 or n % b for n, b in zip(sizes, blocks, strict=True)):
        raise errors.ShapeError(f"a scale of shape {blocks} does not divide an operand of shape {sizes} into blocks")
    fine = tuple(part for n, b in zip(sizes, blocks, strict=True) for part in (b, n // b))
    factor = shape.broadcast_in_dim(cast.convert_element_type(scale, np.float32), fine, range(0, len(fine), 2))
    return elementwise.mul(x, shape.reshape(factor, sizes))
