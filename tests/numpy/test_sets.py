# SPDX-License-Identifier: Apache-2.0
"""Set functions against NumPy, with and without `size`."""

import numpy as np
import pytest

from purax import errors, grad, jit
from purax import numpy as pnp

_X = np.array([[3, 1, 2], [1, 3, 3]])
_Y = np.array([3, 7, 1, 7])


@pytest.mark.parametrize("dtype", [np.int32, np.float32, np.uint8, np.complex64, bool])
def test_unique_follows_numpy(dtype):
    x = _X.astype(dtype)
    got = pnp.unique(x, True, True, True)
    for a, b in zip(got, np.unique(x, True, True, True), strict=True):
        np.testing.assert_array_equal(a, b)
    traced = jit(lambda v: pnp.unique(v, True, True, True, size=len(got[0])))(x)
    for a, b in zip(traced, got, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_unique_along_an_axis_follows_numpy(axis):
    x = np.array([[1, 0, 1, 0], [1, 0, 1, 0], [0, 2, 0, 1]])
    want = np.unique(x, True, True, True, axis=axis)
    n = want[0].shape[axis]
    for got in (pnp.unique(x, True, True, True, axis), jit(lambda v: pnp.unique(v, True, True, True, axis, size=n))(x)):
        for a, b in zip(got, want, strict=True):
            np.testing.assert_array_equal(a, np.reshape(b, a.shape))


@pytest.mark.parametrize("equal_nan", [True, False])
def test_unique_of_nans(equal_nan):
    x = np.array([3.0, np.nan, 1.0, np.nan], np.float32)
    want = np.unique(x, True, True, True, equal_nan=equal_nan)
    n = len(want[0])
    traced = jit(lambda v: pnp.unique(v, True, True, True, equal_nan=equal_nan, size=n))(x)
    for got in (pnp.unique(x, True, True, True, equal_nan=equal_nan), traced):
        for a, b in zip(got, want, strict=True):
            np.testing.assert_array_equal(a, b)


def test_unique_with_a_size_fills_or_cuts():
    values, index, inverse, counts = pnp.unique(_X, True, True, True, size=5)
    np.testing.assert_array_equal(values, [1, 2, 3, 1, 1])
    np.testing.assert_array_equal(index, [1, 2, 0, 1, 1])
    np.testing.assert_array_equal(inverse, [[2, 0, 1], [0, 2, 2]])
    np.testing.assert_array_equal(counts, [2, 1, 3, 0, 0])
    np.testing.assert_array_equal(pnp.unique(_X, size=5, fill_value=9), [1, 2, 3, 9, 9])
    np.testing.assert_array_equal(pnp.unique(_X, size=2), [1, 2])
    with pytest.raises(errors.ConcretizationTypeError, match="size"):
        jit(pnp.unique)(_X)


def test_unique_is_differentiable():
    np.testing.assert_array_equal(
        grad(lambda v: (pnp.unique(v) ** 2).sum())(np.array([3.0, 1.0, 3.0], np.float32)), [6, 2, 0]
    )


def test_named_results():
    result = pnp.unique_all(_X)
    np.testing.assert_array_equal(result.values, [1, 2, 3])
    np.testing.assert_array_equal(result.inverse_indices, np.unique(_X, return_inverse=True)[1])
    np.testing.assert_array_equal(pnp.unique_counts(_X).counts, [2, 1, 3])
    np.testing.assert_array_equal(pnp.unique_inverse(_X).inverse_indices, result.inverse_indices)
    np.testing.assert_array_equal(pnp.unique_values(_X), [1, 2, 3])


@pytest.mark.parametrize("name", ["union1d", "intersect1d", "setdiff1d", "setxor1d"])
def test_two_sets_follow_numpy_with_and_without_size(name):
    want = getattr(np, name)(_X.ravel(), _Y)
    function = getattr(pnp, name)
    np.testing.assert_array_equal(function(_X.ravel(), _Y), want)
    traced = jit(lambda a, b: function(a, b, size=len(want) + 2, fill_value=-1))(_X.ravel(), _Y)
    np.testing.assert_array_equal(traced, [*want, -1, -1])


def test_intersect1d_gives_first_positions():
    want = np.intersect1d(_X, _Y, return_indices=True)
    for got in (pnp.intersect1d(_X, _Y, return_indices=True), pnp.intersect1d(_X, _Y, return_indices=True, size=2)):
        for a, b in zip(got, want, strict=True):
            np.testing.assert_array_equal(a, b)
    _, first, second = jit(lambda a, b: pnp.intersect1d(a, b, return_indices=True, size=4))(_X, _Y)
    np.testing.assert_array_equal(first, [1, 0, 6, 6])
    np.testing.assert_array_equal(second, [2, 0, 4, 4])


@pytest.mark.parametrize("method", ["auto", "compare_all", "binary_search", "sort"])
@pytest.mark.parametrize("count", [2, 40])
def test_isin_follows_numpy(method, count):
    tests = np.arange(0, 2 * count, 2)
    np.testing.assert_array_equal(pnp.isin(_X, tests, method=method), np.isin(_X, tests))
    np.testing.assert_array_equal(
        jit(lambda a, b: pnp.isin(a, b, invert=True, method=method))(_X, tests), ~np.isin(_X, tests)
    )
    nan = np.array([np.nan, 1.0], np.float32)
    np.testing.assert_array_equal(pnp.isin(nan, nan, method=method), [False, True])
