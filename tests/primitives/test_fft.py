# SPDX-License-Identifier: Apache-2.0
"""Fourier transforms: samples for the laws, NumPy as oracle."""

import numpy as np
import pytest

import purax
from purax import errors
from purax.primitives import fft
from purax.primitives.fft import FftType
from tests.laws.sample import BadSample, Sample

rng = np.random.default_rng(0)
REAL = rng.standard_normal((2, 3, 4, 5)).astype(np.float32)
COMPLEX = (REAL + 1j * REAL[::-1]).astype(np.complex64)


def case(x, kind, lengths, **kwargs):
    """A sample of fft."""
    return Sample(fft.fft_p, (x,), {"fft_type": kind, "fft_lengths": lengths}, **kwargs)


HALF = np.fft.rfft(REAL).astype(np.complex64)
EVEN = np.fft.rfft(REAL[..., :4]).astype(np.complex64)
SAMPLES = [
    *(case(COMPLEX, kind, COMPLEX.shape[-rank:]) for kind in (FftType.FFT, FftType.IFFT) for rank in (1, 2, 3)),
    *(case(REAL, FftType.RFFT, REAL.shape[-rank:]) for rank in (1, 2, 3)),
    case(REAL[..., :4].copy(), FftType.RFFT, (4,)),
    *(case(HALF, FftType.IRFFT, (*HALF.shape[4 - rank : -1], 5)) for rank in (1, 2, 3)),
    case(EVEN, FftType.IRFFT, (4, 4)),
    case(COMPLEX[:0], FftType.FFT, (5,), differentiable=()),
]
BAD_SAMPLES = [
    BadSample(fft.fft_p, (REAL,), {"fft_type": FftType.FFT, "fft_lengths": (5,)}, errors.DTypeError, "takes complex64"),
    BadSample(
        fft.fft_p, (REAL,), {"fft_type": FftType.RFFT, "fft_lengths": (4,)}, errors.ShapeError, "takes last axes"
    ),
    BadSample(
        fft.fft_p,
        (COMPLEX,),
        {"fft_type": FftType.FFT, "fft_lengths": COMPLEX.shape},
        errors.ShapeError,
        "one to three",
    ),
]


def test_four_axes_are_transformed_three_at_a_time():
    x = rng.standard_normal((2, 3, 4, 3, 4)).astype(np.float32)
    np.testing.assert_allclose(fft.fft(x, "fft", x.shape), np.fft.fftn(x), rtol=1e-4, atol=1e-4)
    half = fft.fft(x, "RFFT", x.shape[1:])
    np.testing.assert_allclose(half, np.fft.rfftn(x, axes=(1, 2, 3, 4)), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(fft.fft(half, FftType.IRFFT, x.shape[1:]), x, rtol=1e-4, atol=1e-5)


def test_names_and_integers_are_taken():
    np.testing.assert_allclose(fft.fft(np.arange(4), "rfft", (4,)), np.fft.rfft(np.arange(4)), atol=1e-6)
    with pytest.raises(ValueError, match="unknown fft_type"):
        fft.fft(REAL, "dct", (5,))
    with pytest.raises(errors.DTypeError, match="real data"):
        fft.fft(COMPLEX, "rfft", (5,))


def test_double_precision_stays_double():
    with purax.enable_x64(True):
        got = fft.fft(REAL.astype(np.float64), "rfft", (5,))
        assert got.dtype == np.complex128
        np.testing.assert_allclose(got, np.fft.rfft(REAL.astype(np.float64)), rtol=1e-12, atol=1e-12)
