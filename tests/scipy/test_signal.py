# SPDX-License-Identifier: Apache-2.0
"""Signals, cosine transforms, interpolation and images against SciPy."""

import itertools

import numpy as np
import pytest
import scipy.fft
import scipy.interpolate
import scipy.ndimage
import scipy.signal as reference

import purax
from purax import image
from purax.scipy import fft, integrate, interpolate, ndimage, signal

rng = np.random.default_rng(0)


def real(*shape):
    return rng.normal(size=shape).astype(np.float32)


def compound(*shape):
    return (real(*shape) + 1j * real(*shape)).astype(np.complex64)


def close(got, want, tolerance=2e-4):
    got = got if isinstance(got, tuple) else (got,)
    want = want if isinstance(want, tuple) else (want,)
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(np.asarray(g), w, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("make", [real, compound])
@pytest.mark.parametrize("shapes", [((6, 5), (3, 2)), ((3, 2), (6, 5)), ((7,), (4,)), ((4,), (7,))])
def test_convolutions_and_correlations(make, shapes):
    a, b = make(*shapes[0]), make(*shapes[1])
    for mode, name, method in itertools.product(
        ("full", "same", "valid"), ("convolve", "correlate"), ("direct", "fft")
    ):
        close(getattr(signal, name)(a, b, mode, method), getattr(reference, name)(a, b, mode, method))
    if a.ndim == 2:
        for mode, name in itertools.product(("full", "same", "valid"), ("convolve2d", "correlate2d")):
            close(getattr(signal, name)(a, b, mode), getattr(reference, name)(a, b, mode))


@pytest.mark.parametrize(("boundary", "value"), [("fill", 2), ("wrap", 0), ("symm", 0)])
def test_boundaries_of_matrices(boundary, value):
    a, b = real(6, 5), real(3, 2)
    for mode, name in itertools.product(("full", "same", "valid"), ("convolve2d", "correlate2d")):
        want = getattr(reference, name)(a, b, mode, boundary, value)
        close(getattr(signal, name)(a, b, mode, boundary, value), want)


def test_convolution_along_some_axes():
    a, b = real(3, 8), real(3, 5)
    close(signal.fftconvolve(a, b, axes=1), reference.fftconvolve(a, b, axes=1))
    with pytest.raises(ValueError, match="as many axes"):
        signal.convolve(a, b[0])


@pytest.mark.parametrize("kind", ["linear", "constant"])
def test_trends(kind):
    x = real(3, 60)
    close(signal.detrend(x, type=kind), reference.detrend(x, type=kind))
    if kind == "linear":
        close(signal.detrend(x.T, axis=0, bp=[20, 50]), reference.detrend(x.T, axis=0, bp=[20, 50]))


OPTIONS = [
    {"nperseg": 16}, {"nperseg": 17, "noverlap": 3, "nfft": 32, "fs": 10.0, "detrend": "constant"},
    {"nperseg": 16, "boundary": None, "padded": False, "window": "boxcar"}, {"nperseg": 16, "boundary": "even"},
    {"nperseg": 16, "boundary": "odd", "axis": 0},
]  # fmt: skip


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_short_time_transforms(options):
    x = real(3, 100)
    x = x.T if options.get("axis") == 0 else x
    close(signal.stft(x, **options), reference.stft(x, **options))
    close(
        signal.stft(x * 1j, return_onesided=False, **options), reference.stft(x * 1j, return_onesided=False, **options)
    )


def test_spectra():
    x, y = real(3, 100), real(3, 90)
    for options in (
        {"nperseg": 16}, {"nperseg": 17, "noverlap": 3, "nfft": 32, "detrend": "linear"}, {"average": "median", "nperseg": 8},
        {"scaling": "spectrum", "nperseg": 80},
    ):  # fmt: skip
        close(signal.csd(x, y, **options), reference.csd(x, y, **options))
        close(signal.welch(x, **options), reference.welch(x, **options))


def test_signals_come_back_from_their_transforms():
    x = real(3, 100)
    z = reference.stft(x, nperseg=16)[2].astype(np.complex64)
    close(signal.istft(z), reference.istft(z))
    close(signal.istft(z[0], 3.0, "boxcar", boundary=False), reference.istft(z[0], 3.0, "boxcar", boundary=False))
    close(signal.istft(z.T, time_axis=0, freq_axis=1), reference.istft(z.T, time_axis=0, freq_axis=1))
    close(
        signal.istft(signal.stft(x * 1j, nperseg=15, return_onesided=False)[2], input_onesided=False)[1][:, :100],
        x * 1j,
    )


def test_cosine_transforms():
    for n, norm, axis in itertools.product((None, 4, 7, 12), (None, "ortho", "forward"), (-1, 0)):
        x = real(3, 8)
        for name in ("dct", "idct"):
            close(
                getattr(fft, name)(x, n=n, axis=axis, norm=norm), getattr(scipy.fft, name)(x, n=n, axis=axis, norm=norm)
            )
    for options in ({}, {"axes": (0,)}, {"s": (4, 5)}, {"s": (5,), "axes": (1,), "norm": "ortho"}):
        for name in ("dctn", "idctn"):
            close(getattr(fft, name)(x, **options), getattr(scipy.fft, name)(x, **options))


def test_values_between_the_points_of_an_array():
    x, places = real(5, 6), [rng.uniform(-3, 8, 20).astype(np.float32) for _ in range(2)]
    for mode, order in itertools.product(("constant", "nearest", "wrap", "mirror", "reflect"), (0, 1)):
        theirs = {"wrap": "grid-wrap", "constant": "grid-constant"}.get(mode, mode)
        want = scipy.ndimage.map_coordinates(x, places, order=order, mode=theirs, cval=1.5)
        close(ndimage.map_coordinates(x, places, order, mode, cval=1.5), want)
    with pytest.raises(ValueError, match="coordinates for"):
        ndimage.map_coordinates(x, places[:1], 1)


@pytest.mark.parametrize("method", ["linear", "nearest"])
@pytest.mark.parametrize("fill", [np.nan, None])
def test_values_between_the_points_of_a_grid(method, fill):
    grid, values = (np.array([0.0, 1, 3]), np.array([0.0, 2, 3, 5])), rng.normal(size=(3, 4, 2))
    points = rng.uniform(-1, 6, (10, 2))
    want = scipy.interpolate.RegularGridInterpolator(grid, values, method, False, fill)(points)
    close(interpolate.RegularGridInterpolator(grid, values, method, False, fill)(points), want)


def test_trapezoids():
    x = np.sort(real(9))
    close(integrate.trapezoid(x**2, x), np.trapezoid(x**2, x), 1e-5)


@pytest.mark.parametrize("method", ["linear", "cubic", "lanczos3", "lanczos5", "area", "cubic-pytorch"])
@pytest.mark.parametrize("antialias", [True, False])
def test_resampled_constants_stay_and_weights_are_local(method, antialias):
    for new in (4, 9, 16):
        weights = np.asarray(image.resize(np.eye(6, dtype=np.float32), (6, new), method, antialias))
        np.testing.assert_allclose(weights.sum(0), 1, rtol=1e-5)
        np.testing.assert_allclose(weights, weights[::-1, ::-1], atol=1e-5)
    if method == "linear":
        ramp = np.arange(6, dtype=np.float32)
        inner = np.asarray(image.resize(ramp, (12,), method))[1:-1]
        np.testing.assert_allclose(inner, ((np.arange(12) + 0.5) / 2 - 0.5)[1:-1], rtol=1e-5)


def test_images_of_other_shapes_and_dtypes():
    x = rng.integers(0, 255, (5, 7, 3))
    assert image.resize(x, (5, 14, 3), "nearest").dtype == np.int32
    np.testing.assert_array_equal(image.resize(x, (5, 14, 3), "nearest"), np.repeat(x, 2, 1))
    assert image.resize(x, (4, 4, 3), "bilinear").dtype == np.float32
    moved = image.scale_and_translate(
        x.astype(np.float32), (5, 7, 3), (0,), np.ones(1, np.float32), np.ones(1, np.float32), "linear"
    )
    np.testing.assert_allclose(moved[1:], x[:-1], rtol=1e-5)
    np.testing.assert_array_equal(moved[0], 0)
    with pytest.raises(ValueError, match="Unknown resize method"):
        image.resize(x, (5, 7, 3), "sharpest")
    gradient = purax.grad(lambda s: image.scale_and_translate(x / 255.0, (5, 7, 3), (1,), s, 0 * s, "cubic").sum())
    assert np.isfinite(gradient(np.array([0.7], np.float32))).all()
