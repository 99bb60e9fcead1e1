# SPDX-License-Identifier: Apache-2.0
"""Products of operands that are rounded to few bits, with one scale for each block of elements.

Along the contracted axis each block of values is divided by a scale that brings its largest value to the largest of the narrow
dtype. Two formats are known: "mxfp8" of the OCP Microscaling specification (blocks of 32 float8_e4m3fn, scales that are powers of
two) and "nvfp4" (blocks of 16 float4_e2m1fn, scales float8_e4m3fn, and one float32 scale for the whole operand).
"""

from __future__ import annotations

import dataclasses
import functools
import math
import warnings
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from purax import dtypes, errors
from purax import numpy as pnp
from purax.control.custom import custom_vjp
from purax.numpy.promotion import as_operand, check_arraylike
from purax.primitives import cast, contraction, dot_algorithm
from purax.primitives import shape as shapes

__all__ = ["get_scaled_dot_general_config", "scaled_dot_general", "scaled_matmul"]

_OUTPUTS = (np.dtype(np.float32), np.dtype(ml_dtypes.bfloat16), np.dtype(np.float16))
_BY_ROWS = (((2,), (2,)), ((0,), (0,)))  # [batch, m, k] times [batch, n, k]


@dataclasses.dataclass(frozen=True, eq=False)
class BlockScaleConfig:
    """How one operand of `scaled_dot_general` is rounded; made by `get_scaled_dot_general_config`.

    Parameters
    ----------
    mode : "mxfp8" or "nvfp4"
    block_size : int
        Elements that share a scale.
    data_type, scale_type : dtype
    global_scale : float32[] or float32[1], optional
        Divides the whole operand first ("nvfp4" only).
    infer_only : bool
        Kept for callers that read it.
    """

    mode: str
    block_size: int
    data_type: Any
    scale_type: Any
    global_scale: Any
    infer_only: bool


def get_scaled_dot_general_config(mode: str, global_scale: Any = None) -> BlockScaleConfig:
    """How `scaled_dot_general` rounds an operand.

    Parameters
    ----------
    mode : "mxfp8" or "nvfp4"
    global_scale : float32[1], optional
        Scale of the whole operand for "nvfp4", one by default.

    Returns
    -------
    BlockScaleConfig

    Raises
    ------
    ValueError
        Another mode.
    """
    if mode == "mxfp8":
        return BlockScaleConfig(mode, 32, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e8m0fnu, None, False)
    if mode == "nvfp4":
        whole = pnp.ones((1,), np.float32) if global_scale is None else global_scale
        return BlockScaleConfig(mode, 16, ml_dtypes.float4_e2m1fn, ml_dtypes.float8_e4m3fn, whole, False)
    raise ValueError(f"scaled_dot_general knows the modes 'mxfp8' and 'nvfp4', got {mode!r}")


# --- products of rounded operands ---------------------------------------------------------------------------------------------


def scaled_matmul(
    lhs: Any, rhs: Any, lhs_scales: Any, rhs_scales: Any, preferred_element_type: Any = np.float32
) -> Any:
    """Products of matrices that carry a scale for each block along their rows.

    Parameters
    ----------
    lhs : floating[batch, m, k]
    rhs : floating[batch, n, k]
    lhs_scales : floating[batch, m, blocks]
    rhs_scales : floating[batch, n, blocks]
        `blocks` divides k; element j of a row is multiplied by its row's scale number j // (k / blocks).
    preferred_element_type : dtype
        Of the result; sums are taken in float32.

    Returns
    -------
    array [batch, m, n]

    Raises
    ------
    ShapeError
        Not all have three axes, or their sizes do not fit.
    """
    check_arraylike("scaled_matmul", lhs, rhs, lhs_scales, rhs_scales)
    lhs, rhs, lhs_scales, rhs_scales = (as_operand(x) for x in (lhs, rhs, lhs_scales, rhs_scales))
    found = [x.aval.shape for x in (lhs, rhs, lhs_scales, rhs_scales)]
    if any(len(sizes) != 3 for sizes in found):
        raise errors.ShapeError(
            f"scaled_matmul takes four arrays of three axes, got shapes {', '.join(map(str, found))}"
        )
    (batch, m, k), (_, n, _), (_, _, blocks), _ = found
    if found[1:] != [(batch, n, k), (batch, m, blocks), (batch, n, blocks)] or blocks == 0 or k % blocks:
        raise errors.ShapeError(
            "scaled_matmul takes lhs [batch, m, k], rhs [batch, n, k], lhs_scales [batch, m, blocks] and rhs_scales "
            f"[batch, n, blocks] with k a multiple of blocks, got shapes {', '.join(map(str, found))}"
        )
    return dot_algorithm.scaled_dot(
        lhs, rhs, lhs_scale=lhs_scales, rhs_scale=rhs_scales, dimension_numbers=_BY_ROWS,
        preferred_element_type=preferred_element_type,
    )  # fmt: skip


def _rounded(x: Any, mode: str, whole: Any) -> tuple[Any, Any]:
    """Codes [..., k] and scales [..., blocks] of float32[..., k]."""
    config = get_scaled_dot_general_config(mode)
    size = config.block_size
    if x.shape[-1] % size or not x.shape[-1]:
        raise errors.ShapeError(
            f"{mode} rounds blocks of {size} elements along the contracted axis, whose size is {x.shape[-1]}: pad it to a multiple"
        )
    largest = np.float32(dtypes.finfo(config.data_type).max)
    blocks = shapes.reshape(x, (*x.shape[:-1], x.shape[-1] // size, size))
    if mode == "nvfp4":
        blocks = blocks / whole
    wanted = pnp.max(pnp.abs(blocks), axis=-1) / largest
    if mode == "mxfp8":
        scales, inverse = _power_above(wanted)
    else:
        scales = pnp.minimum(wanted, np.float32(dtypes.finfo(config.scale_type).max)).astype(config.scale_type)
        values = scales.astype(np.float32)
        inverse = pnp.where(values == 0, 0, 1 / pnp.where(values == 0, 1, values))
    codes = pnp.clip(blocks * inverse[..., None], -largest, largest).astype(config.data_type)
    return shapes.reshape(codes, x.shape), scales


def _power_above(x: Any) -> tuple[Any, Any]:
    """The least power of two from 2^-127 that is not below x, as float8_e8m0fnu, and its float32 inverse.

    The dtype holds an exponent as float32 does, so both are made of bits: 2^-127 itself is subnormal and would be flushed.
    """
    word = cast.bitcast_convert_type(x, np.uint32)
    exponent = pnp.where(word <= 0x400000, 0, (word + 0x7FFFFF) >> 23)
    scales = cast.bitcast_convert_type(exponent.astype(np.uint8), ml_dtypes.float8_e8m0fnu)
    return scales, cast.bitcast_convert_type(((254 - exponent) << 23).astype(np.uint32), np.float32)


def _product(lhs: Any, rhs: Any, modes: tuple[str, str], wholes: tuple[Any, Any], dtype: Any) -> Any:
    """lhs [batch, m, k] times rhs [batch, n, k], both rounded."""
    pairs = [
        _rounded(x.astype(np.float32), mode, whole) for x, mode, whole in zip((lhs, rhs), modes, wholes, strict=True)
    ]
    (left, left_scales), (right, right_scales) = pairs
    out = scaled_matmul(left, right, left_scales, right_scales)
    for whole in wholes:
        out = out if whole is None else out * whole
    return out.astype(dtype)


@functools.partial(custom_vjp, nondiff_argnums=(3, 4))
def _rounded_product(lhs: Any, rhs: Any, wholes: Any, modes: tuple[str, str, str], dtype: Any) -> Any:
    """`_product`, differentiated as the product of what it was given.

    With "mxfp8" the products of its derivative are rounded, too; with "nvfp4" values that were cut off have the derivative zero.
    """
    return _product(lhs, rhs, modes[:2], wholes, dtype)


def _forward(lhs: Any, rhs: Any, wholes: Any, modes: tuple[str, str, str], dtype: Any) -> tuple[Any, Any]:
    return _product(lhs, rhs, modes[:2], wholes, dtype), (lhs, rhs, wholes)


def _backward(modes: tuple[str, str, str], dtype: Any, saved: Any, ct: Any) -> tuple[Any, Any, Any]:
    lhs, rhs, wholes = saved
    swapped = [pnp.matrix_transpose(x) for x in (rhs, lhs)]
    parts = []
    for x, at, other, mode, whole in zip(
        (lhs, rhs), (ct, pnp.matrix_transpose(ct)), swapped, (modes[1], modes[0]), wholes, strict=True
    ):
        if modes[2] == "mxfp8" and mode == "mxfp8":
            part = _product(at, other, (modes[2], mode), (None, None), dtype)
        else:
            part = contraction.dot_general(at, other.astype(at.dtype), _BY_ROWS, preferred_element_type=dtype)
        if whole is not None:
            narrow = get_scaled_dot_general_config("nvfp4")
            limit = float(dtypes.finfo(narrow.data_type).max) * float(dtypes.finfo(narrow.scale_type).max)
            part = pnp.where(pnp.abs(x) <= whole * limit, part, 0)
        parts.append(part.astype(x.dtype))
    return parts[0], parts[1], tuple(None if w is None else pnp.zeros_like(w) for w in wholes)


_rounded_product.defvjp(_forward, _backward)


def scaled_dot_general(
    lhs: Any, rhs: Any, dimension_numbers: Any, preferred_element_type: Any = np.float32,
    configs: Sequence[BlockScaleConfig] | None = None, implementation: str | None = None,
) -> Any:  # fmt: skip
    """`lax.dot_general` of operands that are rounded to few bits with a scale for each block.

    Parameters
    ----------
    lhs, rhs : floating arrays
    dimension_numbers : ((lhs contracting, rhs contracting), (lhs batch, rhs batch))
        The product of the contracted sizes must be a multiple of the block size; with "mxfp8" derivatives ask the same of the
        product of the other sizes of each operand.
    preferred_element_type : float32, bfloat16 or float16
    configs : sequence of three, optional
        How lhs, rhs and the cotangent are rounded, from `get_scaled_dot_general_config`. None: `lax.dot_general` itself.
    implementation : None
        Anything else is ignored with a warning.

    Returns
    -------
    array
        Axes: batch, the rest of lhs, the rest of rhs.

    Raises
    ------
    DTypeError
        Another `preferred_element_type`.
    ShapeError
        A size is no multiple of the block size.
    """
    if implementation is not None:
        warnings.warn("scaled_dot_general ignores `implementation`", DeprecationWarning, stacklevel=2)
    if configs is None:
        return contraction.dot_general(lhs, rhs, dimension_numbers, preferred_element_type=preferred_element_type)
    dtype = dtypes.named(preferred_element_type)
    if dtype not in _OUTPUTS:
        raise errors.DTypeError(
            f"scaled_dot_general: preferred_element_type must be float32, bfloat16 or float16, got {dtype}"
        )
    check_arraylike("scaled_dot_general", lhs, rhs)
    lhs, rhs = as_operand(lhs), as_operand(rhs)
    (left_sum, right_sum), (left_batch, right_batch) = dimension_numbers
    left, batch, rows = _by_rows(lhs, left_sum, left_batch)
    right, _, columns = _by_rows(rhs, right_sum, right_batch)
    out = _rounded_product(
        left, right, tuple(c.global_scale for c in configs[:2]), tuple(c.mode for c in configs), dtype
    )
    return shapes.reshape(out, (*batch, *rows, *columns))


def _by_rows(x: Any, contracting: Sequence[int], batch: Sequence[int]) -> tuple[Any, tuple[int, ...], tuple[int, ...]]:
    """`x` as [batch, rows, contracted], and the sizes that the first two stand for."""
    kept = [axis for axis in range(x.ndim) if axis not in contracting and axis not in batch]
    groups = [tuple(x.shape[axis] for axis in axes) for axes in (batch, kept, contracting)]
    moved = shapes.transpose(x, (*batch, *kept, *contracting))
    return shapes.reshape(moved, tuple(math.prod(sizes) for sizes in groups)), groups[0], groups[1]
