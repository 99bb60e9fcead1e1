# SPDX-License-Identifier: Apache-2.0
"""Calls of LAPACK kernels on CPU from a program, and what the factorizations built on them share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from purax import dtypes, errors
from purax.core.aval import ShapedArray, array_aval
from purax.core.primitive import Primitive
from purax.core.trace import aval_of
from purax.primitives import cast, contraction, elementwise, joining, shape
from purax.primitives import complex as complex_parts
from purax.sharding import rules

_LETTERS = {
    np.dtype(np.float32): "s",
    np.dtype(np.float64): "d",
    np.dtype(np.complex64): "c",
    np.dtype(np.complex128): "z",
}
_HIGHEST = (contraction.Precision.HIGHEST, contraction.Precision.HIGHEST)


# --- calls --------------------------------------------------------------------------------------------------------------------


def call(
    b: Any, name: str, ins: Sequence[Any], outs: Sequence[ShapedArray], matrices: tuple[Sequence[bool], Sequence[bool]],
    attributes: dict[str, Any] | None = None, aliases: Sequence[tuple[int, int]] = (),
) -> list[Any]:  # fmt: skip
    """Emit the call of a kernel.

    Parameters
    ----------
    b : Builder
    name : str
        Of the kernel, with ``{}`` for the letter of the first operand's dtype: ``"{}potrf"``. Without, the kernel knows all dtypes.
    ins, outs : sequences of Value and of ShapedArray
    matrices : pair of sequences of bool
        Which operands and results are matrices (column-major over their last two axes); the others are vectors or scalars.
    attributes : dict, optional
        A str is a LAPACK character.
    aliases : sequence of (result, operand)
        Results that overwrite an operand's copy.
    """
    b.module.uses_lapack = True
    target = f"lapack_{name.format(_LETTERS[np.dtype(ins[0].dtype)])}_ffi" if "{}" in name else name
    texts = [f"{key} = {_attribute(value)}" for key, value in (attributes or {}).items()]

    def layouts(avals: Sequence[Any], flags: Sequence[bool]) -> str:
        return ", ".join(_layout(len(a.shape), m) for a, m in zip(avals, flags, strict=True))

    alias = ", ".join(
        "#stablehlo.output_operand_alias<output_tuple_indices = "
        f"[{result if len(outs) > 1 else ''}], operand_index = {operand}, operand_tuple_indices = []>"
        for result, operand in aliases
    )
    results = ", ".join(o.hlo for o in outs)
    text = (
        f"stablehlo.custom_call @{target}({', '.join(map(str, ins))}) {{api_version = 4 : i32, backend_config = {{{', '.join(texts)}}}, "
        f"operand_layouts = [{layouts(ins, matrices[0])}], result_layouts = [{layouts(outs, matrices[1])}], "
        f"output_operand_aliases = [{alias}]}} : ({', '.join(x.hlo for x in ins)}) -> {results if len(outs) == 1 else f'({results})'}"
    )
    return b.emit_many(text, outs)


def _attribute(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{ord(value)} : ui8" if isinstance(value, str) else f"{value} : i32"


def _layout(rank: int, matrix: bool) -> str:
    order = [rank - 2, rank - 1, *range(rank - 3, -1, -1)] if matrix else list(range(rank - 1, -1, -1))
    return f"dense<{order}> : tensor<{rank}xindex>" if rank else "dense<> : tensor<0xindex>"


def info_aval(aval: ShapedArray, drop: int = 2) -> ShapedArray:
    """Type of LAPACK's `info` for a batch of matrices."""
    return array_aval(aval.shape[: len(aval.shape) - drop], np.dtype(np.int32))


def unless_failed(b: Any, info: Any, value: Any, negative_only: bool = False) -> Any:
    """`value`, NaN where `info` tells of a failure."""

    def select(info: Any, value: Any) -> Any:
        test = (elementwise.ge if negative_only else elementwise.eq)(info, shape.full_like(info, 0))
        sizes = aval_of(value).shape
        test = shape.broadcast_in_dim(test, sizes, tuple(range(aval_of(info).ndim)))
        return elementwise.select(test, value, shape.full_like(value, np.nan))

    return b.inline(select, [info, value])[0]


# --- matrices of primitives ---------------------------------------------------------------------------------------------------


def matmul(x: Any, y: Any) -> Any:
    """Product of matrices, batched over equal leading axes."""
    rank = aval_of(x).ndim
    leading = tuple(range(rank - 2))
    return contraction.dot_general_p.bind1(
        x,
        y,
        dimension_numbers=(((rank - 1,), (rank - 2,)), (leading, leading)),
        precision=_HIGHEST,
        preferred_element_type=None,
    )


def transposed(x: Any) -> Any:
    """The last two axes swapped."""
    rank = aval_of(x).ndim
    return shape.transpose(x, (*range(rank - 2), rank - 1, rank - 2))


def conjugated(x: Any) -> Any:
    """The complex conjugate, also of real arrays."""
    return complex_parts.conj(x) if dtypes.is_complex(aval_of(x).dtype) else x


def adjoint(x: Any) -> Any:
    """The conjugate transpose."""
    return conjugated(transposed(x))


def real_part(x: Any) -> Any:
    """The real part, also of real arrays."""
    return complex_parts.real(x) if dtypes.is_complex(aval_of(x).dtype) else x


def triangle(x: Any, lower: bool, offset: int = 0) -> Any:
    """`x` with zeros above (lower) or below the diagonal `offset`."""
    aval = aval_of(x)
    rows = shape.broadcasted_iota(np.int32, aval.shape, aval.ndim - 2)
    columns = shape.broadcasted_iota(np.int32, aval.shape, aval.ndim - 1)
    shifted = elementwise.add(rows, shape.full_like(rows, offset))
    inside = (elementwise.ge if lower else elementwise.le)(shifted, columns)
    return elementwise.select(inside, x, shape.full_like(x, 0))


def diagonal_mask(aval: Any, offset: int = 0) -> Any:
    """Where the diagonal `offset` of matrices of type `aval` is."""
    rows = shape.broadcasted_iota(np.int32, aval.shape, aval.ndim - 2)
    columns = shape.broadcasted_iota(np.int32, aval.shape, aval.ndim - 1)
    return elementwise.eq(elementwise.add(rows, shape.full_like(rows, offset)), columns)


def diagonal(x: Any, offset: int = 0) -> Any:
    """The diagonal `offset` of the last two axes: in the flattened matrix it is every (columns + 1)th element."""
    *outer, rows, columns = aval_of(x).shape
    length = max(min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns), 0)
    if length == 0:
        return shape.full((*outer, 0), 0, aval_of(x).dtype)
    flat = shape.reshape(x, (*outer, rows * columns))
    start = offset if offset >= 0 else -offset * columns
    stop = start + (length - 1) * (columns + 1) + 1
    return joining.slice_in_dim(flat, start, stop, columns + 1, axis=len(outer))


def with_diagonal(x: Any, rows: int, columns: int) -> Any:
    """Matrices with the vectors `x` on their main diagonal and zeros elsewhere."""
    aval = aval_of(x)
    full = shape.broadcast_in_dim(x, (*aval.shape, aval.shape[-1]), tuple(range(aval.ndim)))
    square = elementwise.select(diagonal_mask(aval_of(full)), full, shape.full_like(full, 0))
    return padded(square, rows - aval.shape[-1], columns - aval.shape[-1])


def eye(like: Any, rows: int, columns: int) -> Any:
    """Identity matrices of the dtype and leading axes of `like`."""
    aval = aval_of(like)
    target = array_aval((*aval.shape[:-2], rows, columns), aval.dtype)
    return elementwise.select(
        diagonal_mask(target), shape.full(target.shape, 1, target.dtype), shape.full(target.shape, 0, target.dtype)
    )


def block_of(x: Any, rows: int, columns: int, start: tuple[int, int] = (0, 0)) -> Any:
    """Rows and columns of matrices."""
    aval = aval_of(x)
    lead = [0] * (aval.ndim - 2)
    return joining.slice(x, [*lead, *start], [*aval.shape[:-2], start[0] + rows, start[1] + columns])


def padded(x: Any, rows: int, columns: int) -> Any:
    """Matrices with rows and columns of zeros added at the end."""
    if rows == columns == 0:
        return x
    aval = aval_of(x)
    return joining.pad(x, shape.scalar(0, aval.dtype), [(0, 0, 0)] * (aval.ndim - 2) + [(0, rows, 0), (0, columns, 0)])


def columns_scaled(x: Any, scale: Any) -> Any:
    """Matrices whose columns are multiplied by the entries of vectors (broadcast over rows)."""
    aval = aval_of(x)
    full = shape.broadcast_in_dim(scale, aval.shape, (*range(aval.ndim - 2), aval.ndim - 1))
    return elementwise.mul(x, cast.convert_element_type(full, aval.dtype))


def reciprocal_or_zero(x: Any) -> Any:
    """1 / x, zero where x is zero; safe to differentiate there."""
    zero = elementwise.eq(x, shape.full_like(x, 0))
    safe = elementwise.select(zero, shape.full_like(x, 1), x)
    return elementwise.select(zero, shape.full_like(x, 0), elementwise.div(shape.full_like(x, 1), safe))


class MatrixFunction(Primitive):
    """Functions of matrices (last two axes) that map over any leading axes."""

    ranks: ClassVar[tuple[int, ...]] = ()  # axes of one problem, per operand; two of each where it is empty
    spread = rules.batch_axes

    def batch(self, axis: Any, values: Any, dims: Any, **params: Any) -> Any:
        """The mapped axis in front, as one more leading axis."""
        moved = [shape.align_batch(x, d, axis.size, 0) for x, d in zip(values, dims, strict=True)]
        outs = self.bind(*moved, **params)
        return outs, (0,) * len(outs)

    def constants(self, b: Any, ins: Any, outs: Any, **params: Any) -> list[Any] | None:
        """The results for operands without elements, which no kernel needs to see; None for all others."""
        if all(x.aval.size for x in ins):
            return None
        found = self.reference(*[np.zeros(x.shape, x.dtype) for x in ins], **params)
        return [b.constant(value, aval) for value, aval in zip(found, outs, strict=True)]


def check_matrix(aval: ShapedArray, square: bool = False, what: str = "the operand") -> None:
    """Raise unless the aval is of matrices that LAPACK takes."""
    if aval.dtype not in _LETTERS:
        raise errors.DTypeError(f"takes float32, float64, complex64 or complex128, got {aval.dtype}")
    if aval.ndim < 2:
        raise errors.ShapeError(f"{what} must have at least two axes, got shape {aval.shape}")
    if square and aval.shape[-1] != aval.shape[-2]:
        raise errors.ShapeError(f"{what} must be square in its last two axes, got shape {aval.shape}")


def numpy_batched(
    function: Any, *xs: np.ndarray, cores: Sequence[int], outs: Sequence[ShapedArray]
) -> tuple[np.ndarray, ...]:
    """Apply a NumPy function of single matrices or vectors (`cores`: their ranks) over leading axes."""
    results = [np.empty(o.shape, o.dtype) for o in outs]
    lead = xs[0].shape[: xs[0].ndim - cores[0]]
    for place in np.ndindex(*lead):
        found = function(*[x[place] for x in xs])
        for out, value in zip(results, found if isinstance(found, tuple) else (found,), strict=True):
            out[place] = value
    return tuple(results)
