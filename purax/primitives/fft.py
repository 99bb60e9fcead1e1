# SPDX-License-Identifier: Apache-2.0
"""Discrete Fourier transforms over the last axes."""

from __future__ import annotations

import enum
import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from purax import dtypes, errors
from purax.core.aval import ShapedArray, array_aval
from purax.core.primitive import Primitive
from purax.core.trace import aval_of
from purax.primitives import cast, elementwise, joining, lapack, shape
from purax.primitives import complex as complex_parts
from purax.sharding import rules

__all__ = [
    "FftType", "fft", "fft_p",
]  # fmt: skip


class FftType(enum.Enum):
    """Kinds of transform: complex, its inverse, of real data (half of the spectrum), and the inverse of that."""

    FFT = 0
    IFFT = 1
    RFFT = 2
    IRFFT = 3


_NUMPY: dict[FftType, Any] = {
    FftType.FFT: np.fft.fftn,
    FftType.IFFT: np.fft.ifftn,
    FftType.RFFT: np.fft.rfftn,
    FftType.IRFFT: np.fft.irfftn,
}
_COMPLEX: dict[Any, Any] = {np.dtype(np.float32): np.dtype(np.complex64), np.dtype(np.float64): np.dtype(np.complex128)}
_REAL: dict[Any, Any] = {c: r for r, c in _COMPLEX.items()}


class FFT(Primitive):
    """Transform of the last one to three axes, of lengths `fft_lengths` (in the real domain); linear."""

    def spread(self, ins: Any, avals: Any, outs: Any, params: Any) -> Any:
        """As the operand, which must not be cut along the axes that are transformed."""
        ndim = avals[0].ndim
        return [rules.uncut_along(self.name, ins[0], range(ndim - len(params["fft_lengths"]), ndim))]

    def infer(self, x: ShapedArray, *, fft_type: FftType, fft_lengths: tuple[int, ...]) -> tuple[ShapedArray, ...]:
        """Complex, but real for IRFFT; the last axis is halved by RFFT and restored by IRFFT."""
        rank = len(fft_lengths)
        real = fft_type is FftType.RFFT
        if x.dtype not in (_COMPLEX if real else _REAL):
            raise errors.DTypeError(
                f"{fft_type.name} takes {'float32 or float64' if real else 'complex64 or complex128'}, got {x.dtype}"
            )
        if not 1 <= rank <= min(3, x.ndim):
            raise errors.ShapeError(f"takes one to three of the operand's {x.ndim} axes, got lengths {fft_lengths}")
        if any(n < 1 for n in fft_lengths):
            raise errors.ShapeError(f"lengths must be positive, got {fft_lengths}")
        half = (*fft_lengths[:-1], fft_lengths[-1] // 2 + 1)
        wanted = half if fft_type is FftType.IRFFT else fft_lengths
        if x.shape[x.ndim - rank :] != wanted:
            raise errors.ShapeError(
                f"{fft_type.name} of lengths {fft_lengths} takes last axes of sizes {wanted}, got shape {x.shape}"
            )
        lead = x.shape[: x.ndim - rank]
        if fft_type is FftType.RFFT:
            return (array_aval((*lead, *half), _COMPLEX[x.dtype]),)
        if fft_type is FftType.IRFFT:
            return (array_aval((*lead, *fft_lengths), _REAL[x.dtype]),)
        return (array_aval(x.shape, x.dtype),)

    def reference(self, x: Any, *, fft_type: FftType, fft_lengths: tuple[int, ...]) -> tuple[np.ndarray, ...]:
        """NumPy's transforms."""
        (out,) = self.infer(array_aval(x.shape, x.dtype), fft_type=fft_type, fft_lengths=fft_lengths)
        if out.size == 0:
            return (np.zeros(out.shape, out.dtype),)
        axes = tuple(range(x.ndim - len(fft_lengths), x.ndim))
        return (_NUMPY[fft_type](x, s=fft_lengths, axes=axes).astype(out.dtype),)

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> Any:
        """The transform of the tangent."""
        (t,) = tangents
        return self.bind(*primals, **params), (None if t is None else self.bind1(t, **params),)

    def transpose(self, cotangents: Any, operands: Any, *, fft_type: FftType, fft_lengths: tuple[int, ...]) -> Any:
        """The matrix of a transform is symmetric; real data see the real part, half spectra the doubled entries."""
        (ct,) = cotangents
        if ct is None:
            return (None,)
        if fft_type in (FftType.FFT, FftType.IFFT):
            return (self.bind1(ct, fft_type=fft_type, fft_lengths=fft_lengths),)
        size = fft_lengths[-1]
        if fft_type is FftType.RFFT:
            aval = aval_of(ct)
            config = [(0, 0, 0)] * (aval.ndim - 1) + [(0, size - aval.shape[-1], 0)]
            full = joining.pad(ct, shape.scalar(0, aval.dtype), config)
            return (complex_parts.real(self.bind1(full, fft_type=FftType.FFT, fft_lengths=fft_lengths)),)
        half = self.bind1(ct, fft_type=FftType.RFFT, fft_lengths=fft_lengths)
        weights = np.full(size // 2 + 1, 2.0 / math.prod(fft_lengths))
        weights[0] /= 2
        if size % 2 == 0:
            weights[-1] /= 2
        aval = aval_of(half)
        factor = shape.broadcast_in_dim(weights.astype(_REAL[aval.dtype]), aval.shape, (aval.ndim - 1,))
        return (elementwise.mul(lapack.conjugated(half), cast.convert_element_type(factor, aval.dtype)),)

    def batch(self, axis: Any, operands: Any, dims: Any, **params: Any) -> Any:
        """One more leading axis."""
        (x,), (dim,) = operands, dims
        return self.bind(shape.move_batch_axis(x, dim, 0), **params), (0,)

    def lower(self, b: Any, ins: Any, outs: Any, *, fft_type: FftType, fft_lengths: tuple[int, ...]) -> list[Any]:
        """`stablehlo.fft`."""
        (x,), (out,) = ins, outs
        if out.size == 0:
            return [b.constant(np.zeros(out.shape, out.dtype), out)]
        return [
            b.emit(
                f"stablehlo.fft {x}, type = {fft_type.name}, length = {list(fft_lengths)} : ({x.hlo}) -> {out.hlo}", out
            )
        ]


fft_p = FFT("fft")


def fft(x: Any, fft_type: FftType | str, fft_lengths: Sequence[int]) -> Any:
    """Fourier transform of the last axes.

    Parameters
    ----------
    x : array
        Real for RFFT, else made complex.
    fft_type : FftType or str
        FFT, IFFT, RFFT or IRFFT.
    fft_lengths : sequence of int
        Lengths of the last axes in the real domain; more than three are taken three at a time.

    Returns
    -------
    array
        Complex, but real for IRFFT.

    Raises
    ------
    DTypeError
        Complex data for RFFT.
    ValueError
        Another `fft_type`.
    ShapeError
        More lengths than axes, or lengths that do not fit.
    """
    if isinstance(fft_type, str):
        names = [kind.name for kind in FftType]
        if fft_type.upper() not in names:
            raise ValueError(f"unknown fft_type {fft_type!r}: use one of {', '.join(names)}")
        fft_type = FftType[fft_type.upper()]
    lengths = tuple(operator.index(n) for n in fft_lengths)
    if not lengths:
        return x
    dtype = aval_of(x).dtype
    if fft_type is FftType.RFFT:
        if dtypes.is_complex(dtype):
            raise errors.DTypeError("RFFT takes real data, got a complex array; use FFT")
        wanted = (
            dtype if dtype in _COMPLEX else np.dtype(np.float32) if dtypes.is_float(dtype) else dtypes.default_float()
        )
    else:
        wanted = (
            dtype
            if dtype in _REAL
            else _COMPLEX.get(dtype) or (np.dtype(np.complex64) if dtypes.is_float(dtype) else dtypes.default_complex())
        )
    x = cast.convert_element_type(x, wanted)
    if len(lengths) <= 3:
        return fft_p.bind1(x, fft_type=fft_type, fft_lengths=lengths)
    head, tail = lengths[:-3], lengths[-3:]
    if fft_type is not FftType.IRFFT:
        x = fft_p.bind1(x, fft_type=fft_type, fft_lengths=tail)
    x = _over_front(x, FftType.IFFT if fft_type in (FftType.IFFT, FftType.IRFFT) else FftType.FFT, head)
    return fft_p.bind1(x, fft_type=fft_type, fft_lengths=tail) if fft_type is FftType.IRFFT else x


def _over_front(x: Any, kind: FftType, lengths: tuple[int, ...]) -> Any:
    """Transform the axes before the last three."""
    rank = aval_of(x).ndim
    first = rank - 3 - len(lengths)
    order = [*range(first), *range(rank - 3, rank), *range(first, rank - 3)]
    out = fft(shape.transpose(x, order), kind, lengths)
    return shape.transpose(out, shape.inverse_permutation(order))
