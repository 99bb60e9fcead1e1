# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from purax import grad, hessian, jit
from purax import numpy as pnp

X = np.array([-1.5, 0.0, 0.5, 3.0], np.float32)


def test_choices_give_what_numpy_gives():
    np.testing.assert_array_equal(pnp.where(X > 0, X, 7.0), np.where(X > 0, X, np.float32(7)))
    np.testing.assert_array_equal(pnp.clip(X, -1, 1), np.clip(X, -1, 1))
    np.testing.assert_array_equal(
        pnp.select([X < 0, X > 1], [X, 2 * X], 9.0), np.select([X < 0, X > 1], [X, 2 * X], 9.0)
    )
    np.testing.assert_array_equal(
        pnp.piecewise(X, [X < 0, X >= 1], [lambda v: -v, 5.0, lambda v: v * 2]),
        np.piecewise(X, [X < 0, X >= 1], [lambda v: -v, 5.0, lambda v: v * 2]),
    )
    for mode in ("wrap", "clip"):
        np.testing.assert_array_equal(
            pnp.choose(np.array([0, 5, -1, 1]), [X, 2 * X], mode=mode), np.choose([0, 5, -1, 1], [X, 2 * X], mode=mode)
        )
    np.testing.assert_array_equal(pnp.where(X > 0)[0], np.where(X > 0)[0])


def test_dtypes_of_a_choice():
    assert pnp.where(True, 1, 2).weak_type
    assert pnp.where(True, 1, pnp.float16(2)).dtype == np.float16
    assert pnp.where(True, pnp.int8(1), pnp.uint8(2)).dtype == np.int16


def test_what_is_not_chosen_stays_out_of_gradients_of_any_order():
    def safe(x):
        return pnp.where(x < 1, x, pnp.sqrt(x))

    assert grad(safe)(0.0) == 1
    assert jit(grad(safe))(-1.0) == 1
    assert grad(grad(safe))(0.0) == 0
    assert hessian(lambda v: pnp.where(v > 0, pnp.log(v), 0.0).sum())(pnp.array([0.0, 1.0])).tolist() == [
        [0, 0],
        [0, -1],
    ]


def test_choices_that_make_no_sense_raise():
    with pytest.raises(ValueError, match="Either both or neither"):
        pnp.where(X > 0, X)
    with pytest.raises(ValueError, match="Complex"):
        pnp.clip(1j, 0, 1)
    with pytest.raises(ValueError, match="invalid entry"):
        pnp.choose(np.array([0, 2]), [X[:2], X[:2]])
