# SPDX-License-Identifier: Apache-2.0
"""Products computed in a chosen number format: the `DotAlgorithm` that may stand for `precision` in `dot_general`."""

from __future__ import annotations

import enum
from typing import Any, NamedTuple

import numpy as np

from purax import dtypes
from purax.core.trace import aval_of
from purax.primitives import cast, contraction

__all__ = ["DotAlgorithm", "DotAlgorithmPreset"]


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


_FORMATS = {"F16": dtypes.float16, "BF16": dtypes.bfloat16, "F32": dtypes.float32, "F64": dtypes.float64}


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
