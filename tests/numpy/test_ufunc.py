# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from purax import jit
from purax import numpy as pnp

X = np.arange(1, 13, dtype=np.float32).reshape(3, 4)


@pytest.mark.parametrize(
    "name", "add multiply subtract maximum minimum logaddexp logical_and logical_or logical_xor".split()
)
def test_methods_give_what_numpy_gives(name):
    mine, theirs = getattr(pnp, name), getattr(np, name)
    np.testing.assert_allclose(mine.reduce(X), theirs.reduce(X), rtol=1e-5)
    np.testing.assert_allclose(
        mine.reduce(X, axis=1, keepdims=True), theirs.reduce(X, axis=1, keepdims=True), rtol=1e-5
    )
    np.testing.assert_allclose(mine.accumulate(X, axis=1), theirs.accumulate(X, axis=1), rtol=1e-5)
    np.testing.assert_allclose(mine.outer(X[0], X), theirs.outer(X[0], X), rtol=1e-5)
    places = np.array([2, 0, 0, 1])
    np.testing.assert_allclose(mine.reduceat(X, places), theirs.reduceat(X, places), rtol=1e-5)


@pytest.mark.parametrize("name", "add subtract multiply maximum logaddexp".split())
def test_repeated_indices_are_applied_one_after_another(name):
    want = X[0].copy()
    getattr(np, name).at(want, [1, 1, 3], np.float32(2))
    got = getattr(pnp, name).at(pnp.asarray(X[0]), np.array([1, 1, 3]), 2.0, inplace=False)
    np.testing.assert_allclose(got, want, rtol=1e-6)


@pytest.mark.parametrize("attribute", ["nin", "nout", "nargs", "identity", "_func"])
def test_what_a_ufunc_is_cannot_be_changed(attribute):
    function = pnp.frompyfunc(lambda x, y: x + y, 2, 1, identity=0)
    before = getattr(function, attribute)
    with pytest.raises(AttributeError):
        setattr(function, attribute, None)
    assert getattr(function, attribute) is before


def test_functions_of_two_scalars_become_ufuncs():
    product = pnp.frompyfunc(lambda a, b: a * b + 1.0, 2, 1, identity=0)
    assert product(pnp.arange(3.0), 2.0).tolist() == [1, 3, 5]
    assert jit(product.reduce)(pnp.array([1.0, 2.0])) == 3
    assert isinstance(product, pnp.ufunc)
    assert isinstance(pnp.add, pnp.ufunc)
    assert not isinstance(pnp.sin, pnp.ufunc)
    with pytest.raises(AttributeError):
        product.nin = 3


def test_reductions_are_for_binary_functions():
    with pytest.raises(ValueError, match="binary"):
        pnp.negative.reduce(X)
    with pytest.raises(NotImplementedError, match="inplace=False"):
        pnp.add.at(X, 0, 1)


def test_vectorized_functions_map_over_leading_axes():
    product = pnp.vectorize(lambda a, b: a @ b, signature="(m,n),(n)->(m)")
    np.testing.assert_allclose(product(np.stack([X, 2 * X]), X[0]), np.stack([X, 2 * X]) @ X[0], rtol=1e-6)
    assert pnp.vectorize(lambda a, b: a if b is None else a + b)(pnp.arange(3), None).tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="not a valid gufunc signature"):
        pnp.vectorize(lambda a: a, signature="(n->()")
    with pytest.raises(ValueError, match="inconsistent size"):
        product(X, X[0, :2])
