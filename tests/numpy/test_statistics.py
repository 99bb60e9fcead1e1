# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from purax import errors, grad, jit
from purax import numpy as pnp

RNG = np.random.default_rng(4)
X, V = RNG.normal(size=20).astype(np.float32), RNG.normal(size=5).astype(np.float32)
N = RNG.integers(0, 6, 20).astype(np.int32)
M = RNG.normal(size=(3, 6)).astype(np.float32)


def test_counts_give_what_numpy_gives():
    np.testing.assert_array_equal(pnp.bincount(N, minlength=9), np.bincount(N, minlength=9))
    np.testing.assert_allclose(pnp.bincount(N, weights=X), np.bincount(N, weights=X), rtol=1e-5)
    assert jit(lambda n: pnp.bincount(n, length=3))(N).tolist() == np.bincount(N)[:3].tolist()
    with pytest.raises(errors.ConcretizationTypeError, match="length="):
        jit(pnp.bincount)(N)


@pytest.mark.parametrize("bins", [7, np.array([-2, 0, 0.5, 3], np.float32)])
@pytest.mark.parametrize("density", [False, True])
def test_histograms_give_what_numpy_gives(bins, density):
    for got, want in zip(pnp.histogram(X, bins, density=density), np.histogram(X, bins, density=density), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5)
    for got, want in zip(pnp.histogram2d(X, X[::-1], bins), np.histogram2d(X, X[::-1], bins), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5)


def test_bins_are_found():
    for edges in ([-1.0, 0.0, 1.0], [1.0, 0.0, -1.0]):
        for right in (False, True):
            np.testing.assert_array_equal(pnp.digitize(X, np.array(edges), right), np.digitize(X, edges, right))


def test_covariances_give_what_numpy_gives():
    np.testing.assert_allclose(pnp.cov(M), np.cov(M), rtol=1e-5)
    np.testing.assert_allclose(
        pnp.cov(M, rowvar=False, bias=True), np.cov(M, rowvar=False, bias=True), rtol=1e-4, atol=1e-6
    )
    weights = {"fweights": np.array([1, 2, 1, 1, 3, 1]), "aweights": np.abs(M[0])}
    np.testing.assert_allclose(pnp.cov(M, **weights), np.cov(M, **weights), rtol=1e-4)
    np.testing.assert_allclose(pnp.corrcoef(M), np.corrcoef(M), rtol=1e-5)


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
def test_convolutions_give_what_numpy_gives(mode):
    for a, b in ((X, V), (V, X), (X, V[:4]), (V[:4], X)):
        np.testing.assert_allclose(pnp.convolve(a, b, mode), np.convolve(a, b, mode), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(pnp.correlate(a, b, mode), np.correlate(a, b, mode), rtol=1e-4, atol=1e-5)


def test_differences_and_slopes_give_what_numpy_gives():
    places = np.array([0, 1, 3, 4, 7], np.float32)
    np.testing.assert_allclose(pnp.diff(M, 2, 0, prepend=1.0), np.diff(M, 2, 0, prepend=1.0), rtol=1e-5)
    np.testing.assert_allclose(pnp.ediff1d(V, 1.0, 2.0), np.ediff1d(V, 1.0, 2.0), rtol=1e-5)
    for order in (1, 2):
        np.testing.assert_allclose(pnp.gradient(V, edge_order=order), np.gradient(V, edge_order=order), rtol=1e-4)
        np.testing.assert_allclose(
            pnp.gradient(V, places, edge_order=order), np.gradient(V, places, edge_order=order), rtol=1e-4
        )
    np.testing.assert_allclose(pnp.trapezoid(V, places), np.trapezoid(V, places), rtol=1e-5)
    np.testing.assert_allclose(pnp.unwrap(X * 6), np.unwrap(X * 6), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(pnp.unwrap(N, period=3), np.unwrap(N, period=3))


def test_interpolation_gives_what_numpy_gives():
    xp, fp = np.array([-2, 0, 1], np.float32), np.array([1, 2, 5], np.float32)
    np.testing.assert_allclose(pnp.interp(X, xp, fp), np.interp(X, xp, fp), rtol=1e-5)
    np.testing.assert_allclose(
        pnp.interp(X, xp, fp, left=7.0, right=8.0), np.interp(X, xp, fp, left=7, right=8), rtol=1e-5
    )
    np.testing.assert_allclose(pnp.interp(X, xp, fp, period=4.0), np.interp(X, xp, fp, period=4.0), rtol=1e-4)
    assert pnp.interp(3.0, xp, fp, right="extrapolate") == 11
    assert grad(lambda x: pnp.interp(x, xp, fp))(0.5) == 3


def test_lines_may_have_points_of_several_dtypes():
    x, xp, fp = np.array([0.5, 1.5, 7], np.float16), np.array([0, 1, 2], np.float32), np.array([0, 2, 6], np.float16)
    got = pnp.interp(x, xp, fp)
    assert got.tolist() == [1, 4, 6]
    assert got.dtype == np.float32


def test_interp_of_narrow_heights_has_the_digits_of_its_places():
    points, heights = np.float32([-1, 0, 0.5, 3]), np.float16([-3.15, 1.406, -5.05, -4.617])
    found = pnp.interp(np.float32([-0.6396, 0.3]), points, heights)
    np.testing.assert_allclose(found, np.interp([-0.6396, 0.3], points, heights), rtol=1e-6)
    assert found.dtype == np.float32
