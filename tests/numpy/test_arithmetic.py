# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from purax import grad, jit
from purax import numpy as pnp

RNG = np.random.default_rng(0)
X, Y = (RNG.normal(size=(3, 4)).astype(np.float32) for _ in range(2))
I, J = RNG.integers(-9, 9, (3, 4)).astype(np.int32), RNG.integers(1, 9, (3, 4)).astype(np.int32)


@pytest.mark.parametrize(
    "name",
    "add subtract multiply true_divide floor_divide remainder fmod divmod maximum minimum fmax fmin logaddexp logaddexp2 "
    "arctan2 hypot copysign heaviside nextafter".split(),
)
def test_floats_give_what_numpy_gives(name):
    for x, y in ((X, Y), (X, Y[0]), (X[:, :1], Y)):
        np.testing.assert_allclose(getattr(pnp, name)(x, y), getattr(np, name)(x, y), rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("name", "add subtract multiply floor_divide remainder fmod maximum minimum gcd lcm".split())
def test_integers_give_what_numpy_gives(name):
    np.testing.assert_array_equal(getattr(pnp, name)(I, J), getattr(np, name)(I, J))
    np.testing.assert_array_equal(getattr(pnp, name)(I, -J), getattr(np, name)(I, -J))


@pytest.mark.parametrize("name", ["floor_divide", "remainder", "fmod"])
def test_integer_division_by_zero_gives_zero(name):
    n = pnp.array([0, 1, 2, -1])
    assert getattr(pnp, name)(n, 0).tolist() == [0, 0, 0, 0]
    assert getattr(pnp, name)(n.astype("uint8"), pnp.uint8(0)).tolist() == [0, 0, 0, 0]


def test_float_floor_division_by_zero_is_infinite():
    assert pnp.floor_divide(pnp.array([1.0, -1.0]), 0).tolist() == [np.inf, -np.inf]


def test_integers_to_negative_powers_raise_when_known():
    with pytest.raises(ValueError, match="negative integer powers"):
        2 ** pnp.arange(-1, 5)
    with pytest.raises(ValueError, match="negative integer powers"):
        pnp.arange(3) ** -1
    assert jit(lambda n: 2**n)(pnp.arange(-1, 5)).tolist() == [0, 1, 2, 4, 8, 16]
    np.testing.assert_array_equal(pnp.power(I, J), np.power(I, J))


def test_powers_have_right_derivatives_at_zero():
    assert grad(lambda x: x**2)(0.0) == 0
    assert grad(lambda x: x**2.0)(0.0) == 0
    mixed = grad(grad(lambda x, y: x**y, 0), 1)(23.0, 0.0)
    np.testing.assert_allclose(mixed, grad(grad(lambda x, y: x**y, 1), 0)(23.0, 0.0), rtol=1e-6)
    np.testing.assert_allclose(mixed, 1 / 23, rtol=1e-6)


def test_gradients_at_singular_points_are_finite():
    assert np.isfinite(grad(lambda x: pnp.hypot(x, 0.0 * x))(0.0))
    assert grad(lambda x: pnp.logaddexp(x, 1.0))(1.0) == 0.5
    assert grad(lambda x: pnp.logaddexp(x, -np.inf))(2.0) == 1
    assert grad(lambda x: pnp.maximum(x, 1.0))(1.0) == 0.5


@pytest.mark.parametrize("function", [pnp.logaddexp, pnp.logaddexp2])
@pytest.mark.parametrize("x", [-np.inf, -3.0, 0.0, 0.5, np.inf])
@pytest.mark.parametrize("y", [-np.inf, -3.0, 0.0, 0.5, np.inf])
def test_slopes_of_logarithms_of_sums_add_up_to_one(function, x, y):
    left, right = grad(function, (0, 1))(x, y)
    np.testing.assert_allclose(left + right, 1, rtol=1e-6)
    assert left == right if x == y else (left > right) == (x > y)


def test_the_second_derivative_of_logaddexp_at_equal_operands_is_a_quarter():
    np.testing.assert_allclose(grad(grad(pnp.logaddexp))(1.0, 1.0), 0.25, rtol=1e-6)
    np.testing.assert_allclose(grad(grad(pnp.logaddexp2))(1.0, 1.0), np.log(2) / 4, rtol=1e-6)


def test_ldexp_does_not_overflow_on_the_way():
    assert pnp.ldexp(pnp.float32(2.0**-140), 260).item() == 2.0**120
    np.testing.assert_array_equal(pnp.ldexp(X, J), np.ldexp(X, J))


def test_a_quotient_that_is_rounded_to_zero_keeps_its_sign():
    x, y = np.meshgrid(np.array([-0.0, 0.0, 0.5, -0.5], np.float32), np.array([1.0, -1.0], np.float32))
    for function in (pnp.floor_divide, jit(pnp.floor_divide)):
        got, want = function(x, y), np.floor_divide(x, y)
        np.testing.assert_array_equal(got, want)
        np.testing.assert_array_equal(np.signbit(got), np.signbit(want))
    assert grad(pnp.floor_divide)(-0.0, 1.0) == 0
