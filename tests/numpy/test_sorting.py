# SPDX-License-Identifier: Apache-2.0
"""Sorting and searching against NumPy."""

import numpy as np
import pytest

from purax import errors, grad, jit
from purax import numpy as pnp

_RANDOM = np.random.default_rng(0)
_X = _RANDOM.integers(0, 5, (4, 7)).astype(np.float32)


@pytest.mark.parametrize("axis", [0, 1, -1, None])
def test_sort_and_argsort_follow_numpy(axis):
    np.testing.assert_array_equal(pnp.sort(_X, axis), np.sort(_X, axis))
    np.testing.assert_array_equal(pnp.argsort(_X, axis), np.argsort(_X, axis, kind="stable"))
    falling = pnp.argsort(_X, axis, descending=True)
    np.testing.assert_array_equal(falling, np.argsort(-_X, axis, kind="stable"))
    np.testing.assert_array_equal(pnp.sort(_X, axis, descending=True), -np.sort(-_X, axis))


def test_row_4_nans_are_last_and_zeros_keep_their_order():
    x = np.array([-np.nan, np.nan, -np.inf, np.inf, -1, 1], np.float32)
    for run in (lambda f: f, jit):
        np.testing.assert_array_equal(run(pnp.sort)(x), [-np.inf, -1, 1, np.inf, np.nan, np.nan])
        np.testing.assert_array_equal(run(pnp.argsort)(np.array([0.0, -0.0])), [0, 1])


def test_the_gradient_of_sort_goes_back_by_the_permutation():
    weights = np.arange(7, dtype=np.float32)
    x = _RANDOM.permutation(7).astype(np.float32)
    np.testing.assert_array_equal(grad(lambda v: (pnp.sort(v) * weights).sum())(x), x)


def test_unsupported_arguments_are_refused_by_name():
    with pytest.raises(TypeError, match="'kind'"):
        pnp.sort(_X, kind="stable")
    with pytest.raises(TypeError, match="'order'"):
        pnp.argsort(_X, order="f")
    with pytest.raises(ValueError, match="out of bounds"):
        pnp.sort(3.0)


@pytest.mark.parametrize("axis", [0, -1])
def test_lexsort_follows_numpy(axis):
    keys = (_X, _X[::-1], _X % 2)
    np.testing.assert_array_equal(pnp.lexsort(keys, axis), np.lexsort(keys, axis))
    np.testing.assert_array_equal(pnp.lexsort(_X), np.lexsort(_X))


def test_partition_puts_the_kth_element_in_its_place():
    got = np.asarray(pnp.partition(_X, 3, axis=1))
    np.testing.assert_array_equal(got[:, 3], np.sort(_X, 1)[:, 3])
    assert (got[:, :3] <= got[:, 3:4]).all()
    order = np.asarray(pnp.argpartition(_X, 3, axis=1))
    np.testing.assert_array_equal(np.take_along_axis(_X, order, 1)[:, 3], got[:, 3])
    with pytest.raises(ValueError, match="out of bounds"):
        pnp.partition(_X, 7, axis=1)


@pytest.mark.parametrize("method", ["scan", "scan_unrolled", "sort", "compare_all"])
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.uint32, np.complex64])
def test_searchsorted_follows_numpy(method, side, dtype):
    a = np.sort(_RANDOM.integers(0, 9, 13).astype(dtype))
    v = np.arange(12).reshape(3, 4).astype(dtype)
    want = np.searchsorted(a, v, side)
    np.testing.assert_array_equal(pnp.searchsorted(a, v, side, method=method), want)
    np.testing.assert_array_equal(jit(lambda x, y: pnp.searchsorted(x, y, side, method=method))(a, v), want)


def test_searchsorted_counts_nan_as_largest_and_takes_a_sorter():
    a, v = np.array([0.0, 1.0, np.nan, np.nan], np.float32), np.array([np.nan, 0.5, -0.0], np.float32)
    for side in ("left", "right"):
        np.testing.assert_array_equal(
            jit(lambda x, y, s=side: pnp.searchsorted(x, y, s))(a, v), np.searchsorted(a, v, side)
        )
    mixed = np.array([3, 1, 2])
    np.testing.assert_array_equal(pnp.searchsorted(mixed, 2, sorter=np.argsort(mixed)), 1)
    assert pnp.searchsorted(np.array([], np.float32), 1.0) == 0
    with pytest.raises(errors.ShapeError, match="1-dimensional"):
        pnp.searchsorted(_X, 1.0)


def test_sort_complex_gives_complex_numbers():
    got = pnp.sort_complex(_X[0])
    np.testing.assert_array_equal(got, np.sort_complex(_X[0]))
    assert got.dtype == np.complex64
