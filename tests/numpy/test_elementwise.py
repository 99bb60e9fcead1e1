# SPDX-License-Identifier: Apache-2.0
import inspect
import pickle

import numpy as np
import pytest

import purax
from purax import grad
from purax import numpy as pnp

RNG = np.random.default_rng(1)
X = RNG.normal(size=(3, 4)).astype(np.float32)
I = RNG.integers(-9, 9, (3, 4)).astype(np.int32)
C = (X + 1j * X[::-1]).astype(np.complex64)


@pytest.mark.parametrize(
    "name",
    "sin cos tan arctan sinh cosh tanh arcsinh exp exp2 expm1 cbrt square abs fabs sign signbit floor ceil trunc rint round "
    "deg2rad rad2deg sinc i0 real imag conj angle isfinite isinf isnan iscomplex isreal logical_not spacing".split(),
)
def test_real_numbers_give_what_numpy_gives(name):
    np.testing.assert_allclose(getattr(pnp, name)(X), getattr(np, name)(X), rtol=3e-6, atol=3e-6)


@pytest.mark.parametrize("name", "sqrt log log2 log10 log1p reciprocal arccosh".split())
def test_positive_numbers_give_what_numpy_gives(name):
    x = np.abs(X) + 1
    np.testing.assert_allclose(getattr(pnp, name)(x), getattr(np, name)(x), rtol=3e-6, atol=3e-6)


@pytest.mark.parametrize(
    "name", "sin cos exp sqrt log square abs angle real imag conj sign reciprocal rint round".split()
)
def test_complex_numbers_give_what_numpy_gives(name):
    np.testing.assert_allclose(getattr(pnp, name)(C), getattr(np, name)(C), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", "floor ceil trunc abs sign square round isnan signbit".split())
def test_integers_keep_their_dtype(name):
    result = getattr(pnp, name)(I)
    np.testing.assert_array_equal(result, getattr(np, name)(I))
    assert result.dtype == getattr(np, name)(I).dtype


def test_mantissa_and_exponent_rebuild_the_number():
    x = np.array([0.0, 1.5, -3e-39, 1e-45, 3e38, np.inf], np.float32)
    mantissa, exponent = pnp.frexp(x)
    want = np.frexp(x)
    np.testing.assert_array_equal(mantissa, want[0])
    np.testing.assert_array_equal(np.asarray(exponent)[:-1], want[1][:-1])
    np.testing.assert_allclose(grad(lambda v: pnp.frexp(v)[0])(3.0), 0.25)


def test_rounding_to_decimals_goes_to_even():
    assert pnp.round(pnp.array([0.125, 0.375, -2.5]), 2).tolist() == pytest.approx([0.12, 0.38, -2.5])
    assert pnp.round(pnp.array([15, 25, -15, 5]), -1).tolist() == [20, 20, -20, 0]


def test_sinc_has_right_derivatives_at_zero():
    assert grad(pnp.sinc)(0.0) == 0
    np.testing.assert_allclose(grad(grad(pnp.sinc))(0.0), -(np.pi**2) / 3, rtol=1e-5)


def test_the_second_derivative_of_i0_at_zero_is_a_half():
    np.testing.assert_allclose(grad(grad(lambda t: pnp.i0(2 * t - 1)))(0.5), 2, rtol=1e-6)


def test_gradients_of_absolute_values_of_complex_numbers_agree():
    first = grad(pnp.abs)(1 + 0.5j)
    second = grad(lambda z: pnp.sqrt(z.real**2 + z.imag**2))(1 + 0.5j)
    np.testing.assert_allclose(first, second, rtol=1e-6)
    np.testing.assert_allclose(first, 0.8944272 - 0.4472136j, rtol=1e-6)


def test_nan_and_infinities_are_replaced():
    x = np.array([np.nan, np.inf, -np.inf, 1], np.float32)
    np.testing.assert_array_equal(pnp.nan_to_num(x), np.nan_to_num(x))
    assert pnp.nan_to_num(x, nan=1.0, posinf=2.0, neginf=3.0).tolist() == [1, 2, 3, 1]


@pytest.mark.parametrize("name", [n for n in dir(pnp) if inspect.isfunction(getattr(pnp, n)) and not n.startswith("_")])
def test_each_function_knows_its_public_name_and_survives_pickling(name):
    function = getattr(pnp, name)
    assert function.__name__ == name
    assert pickle.loads(pickle.dumps(function)) is function


def test_parts_of_a_number_have_its_sign_also_where_they_are_zero():
    x = np.array([-2.0, 2.0, -0.0, 0.0, -np.inf, np.inf, 1.25, -1.25], np.float32)
    for got, want in zip(pnp.modf(x), np.modf(x), strict=True):
        np.testing.assert_array_equal(got, want)
        np.testing.assert_array_equal(np.signbit(got), np.signbit(want))
    assert grad(lambda v: pnp.modf(v)[0])(-1.25) == 1


def test_squares_of_booleans_are_integers():
    assert pnp.square(np.array([True, False])).tolist() == [1, 0]
    assert pnp.square(True).dtype == np.int32


def test_complex_functions_have_numpys_values_where_a_part_is_zero_infinite_or_nan():
    names = (
        "abs arccos arccosh arcsin arcsinh arctan arctanh cos cosh exp log log1p log10 sin sinh sqrt tan tanh".split()
    )
    part = np.array([0.0, -0.0, 1.0, -2.5, np.inf, -np.inf, np.nan], np.float32)
    z = np.empty((7, 7), np.complex64)
    z.real, z.imag = part[:, None], part
    found = purax.jit(lambda z: [getattr(pnp, name)(z) for name in names])(z)
    for name, got in zip(names, found, strict=True):
        with np.errstate(all="ignore"):
            want = getattr(np, name)(z)
        # Beside a part that is NaN, C leaves the sign of the other one open.
        signs = np.isfinite(want)
        for a, b in ((np.real(got), np.real(want)), (np.imag(got), np.imag(want))):
            np.testing.assert_allclose(np.where(signs, a, np.abs(a)), np.where(signs, b, np.abs(b)), 1e-5, err_msg=name)
            np.testing.assert_array_equal(np.signbit(a)[signs], np.signbit(b)[signs], name)
