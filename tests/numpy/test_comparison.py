# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from purax import numpy as pnp

X = np.array([[1.0, np.nan, -2.0], [0.0, 2.0, np.inf]], np.float32)
Y = np.array([[1.0, 1.0, -3.0], [-0.0, 3.0, np.inf]], np.float32)
C = np.array([1 + 2j, 1 - 1j, 0.5 + 3j], np.complex64)
D = np.array([1 + 1j, 1 - 1j, 2 - 9j], np.complex64)


@pytest.mark.parametrize(
    "name", "equal not_equal less less_equal greater greater_equal logical_and logical_or logical_xor".split()
)
def test_comparisons_give_what_numpy_gives(name):
    np.testing.assert_array_equal(getattr(pnp, name)(X, Y), getattr(np, name)(X, Y))
    np.testing.assert_array_equal(getattr(pnp, name)(X > 0, Y > 0), getattr(np, name)(X > 0, Y > 0))


@pytest.mark.parametrize("name", "equal not_equal less less_equal greater greater_equal".split())
def test_complex_numbers_compare_by_real_then_imaginary_part(name):
    np.testing.assert_array_equal(getattr(pnp, name)(C, D), getattr(np, name)(C, D))


def test_nearness_knows_infinities_and_nan():
    np.testing.assert_array_equal(pnp.isclose(X, Y), np.isclose(X, Y))
    np.testing.assert_array_equal(pnp.isclose(X, X, equal_nan=True), np.isclose(X, X, equal_nan=True))
    assert not pnp.allclose(X, X)
    assert pnp.allclose(X, X, equal_nan=True)
    assert pnp.array_equal(X, X, equal_nan=True)
    assert not pnp.array_equal(X, X[:1])
    assert pnp.array_equiv(Y[:1], np.broadcast_to(Y[:1], (4, 3)))
