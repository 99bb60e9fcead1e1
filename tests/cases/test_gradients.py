# SPDX-License-Identifier: Apache-2.0
"""Derivatives beside and at the points where rules divide by zero."""

import numpy as np
import pytest

import purax
from purax import grad, nn
from purax import numpy as pnp

# --- what `where` did not select (jax#5798) ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "point", "slope"),
    [
        (lambda x: pnp.where(x < 1, x, pnp.sqrt(x)), 0.0, 1.0),
        (lambda x: pnp.where(x > 0, pnp.log(x), 0.0), 0.0, 0.0),
        (lambda x: pnp.where(x > 0, pnp.log(x), 0.0), -1.0, 0.0),
        (lambda x: pnp.where(x != 0, pnp.sin(x) / x, 1.0), 0.0, 0.0),
        (lambda x: pnp.where(x > 0, x**0.5, 0.0), 0.0, 0.0),
        (lambda x: pnp.where(x > 0, pnp.arctan2(x, 0.0), x), 0.0, 1.0),
        (lambda x: pnp.where(x < 10, pnp.exp(x) ** 2, x), 1000.0, 1.0),
        (lambda x: pnp.clip(pnp.log(x), -5, 5), 0.0, 0.0),
        (lambda x: pnp.minimum(1 / x, 5.0), 0.0, 0.0),
        (lambda x: nn.relu(pnp.log(x)), 0.0, 0.0),
    ],
    ids=["sqrt", "log", "log-negative", "quotient", "power", "arctan2", "overflow", "clip", "minimum", "relu"],
)
def test_a_value_that_was_not_selected_leaves_the_gradient_alone(function, point, slope):
    value, tangent = purax.jvp(function, (point,), (1.0,))
    assert np.isfinite(value)
    for got in (
        tangent,
        grad(function)(point),
        purax.jit(grad(function))(point),
        purax.vmap(grad(function))(pnp.array([point]))[0],
    ):
        assert float(got) == slope


def test_second_derivatives_are_left_alone_as_well():
    function = lambda x: pnp.where(x > 0, pnp.sqrt(x), x**2)
    for nested in (grad(grad(function)), purax.hessian(function), purax.jacrev(purax.jacfwd(function))):
        assert float(nested(0.0)) == 2.0


def test_an_infinite_slope_that_was_selected_still_shows():
    assert np.isposinf(grad(lambda x: pnp.where(x < 1, pnp.sqrt(x), x))(0.0))


# --- the norm at zero (jax#4177, jax#26248, jax PR#39792) ------------------------------------------------------------------


@pytest.mark.parametrize("order", [None, 2, 3])
def test_the_gradient_of_a_norm_at_zero_is_zero(order):
    norm = lambda x: pnp.linalg.norm(x, ord=order)
    np.testing.assert_array_equal(grad(norm)(pnp.zeros(2)), [0, 0])
    np.testing.assert_array_equal(grad(lambda x: norm(x) ** 2)(pnp.zeros(2)), [0, 0])


def test_relatives_of_the_norm_have_a_zero_gradient_at_zero():
    np.testing.assert_array_equal(grad(pnp.linalg.norm)(pnp.zeros((2, 2))), np.zeros((2, 2)))
    np.testing.assert_array_equal(grad(pnp.linalg.norm)(pnp.zeros(2, "complex64")), [0, 0])
    np.testing.assert_array_equal(grad(pnp.std)(pnp.ones(3)), [0, 0, 0])
    np.testing.assert_array_equal(purax.hessian(pnp.linalg.norm)(pnp.zeros(2)), np.zeros((2, 2)))
    columns = pnp.array([[0.0, 3.0], [0.0, 4.0]])
    by_column = grad(lambda x: pnp.linalg.norm(x, axis=0).sum())(columns)
    np.testing.assert_allclose(by_column, [[0, 0.6], [0, 0.8]], rtol=1e-6)


# --- mixed second derivatives of a power (jax#12033) -----------------------------------------------------------------------


def test_mixed_derivatives_of_a_power_agree_in_both_orders():
    power = lambda x, y: x**y
    for mixed in (grad(grad(power, 1), 0), grad(grad(power, 0), 1), purax.jacfwd(purax.jacfwd(power, 0), 1)):
        np.testing.assert_allclose(mixed(23.0, 0.0), 1 / 23, rtol=1e-6)
    np.testing.assert_allclose(purax.hessian(lambda v: v[0] ** v[1])(pnp.array([23.0, 0.0]))[0, 1], 1 / 23, rtol=1e-6)


@pytest.mark.parametrize(("exponent", "slope"), [(0.0, 0.0), (1.0, 1.0), (2.0, 0.0), (0, 0.0), (1, 1.0), (2, 0.0)])
def test_powers_of_zero_have_the_slope_of_the_polynomial(exponent, slope):
    assert float(grad(lambda x: x**exponent)(0.0)) == slope


# --- second derivatives where the first is zero by symmetry (jax#40627) ------------------------------------------------------


def test_the_second_derivative_of_even_functions_at_their_minimum_is_not_lost():
    np.testing.assert_allclose(grad(grad(lambda t: pnp.i0(2 * t - 1)))(0.5), 2.0, rtol=1e-5)
    np.testing.assert_allclose(grad(grad(pnp.i0))(0.0), 0.5, rtol=1e-5)
    np.testing.assert_allclose(grad(grad(pnp.sinc))(0.0), -(np.pi**2) / 3, rtol=1e-5)
    np.testing.assert_allclose(grad(grad(lambda x: abs(x) ** 2))(0.0), 2.0)


# --- NaN that a reduction leaves out (jax#9040) -----------------------------------------------------------------------------

WITH_NAN = np.array([np.nan, 1, 2, 3, 4], np.float32)


def test_the_gradient_of_a_mean_without_nan_is_zero_at_nan():
    np.testing.assert_allclose(grad(lambda x: pnp.nanmean(x**2))(WITH_NAN), [0, 0.5, 1, 1.5, 2])
    selected = lambda x: pnp.mean(x**2, where=~pnp.isnan(x))
    np.testing.assert_allclose(grad(selected)(WITH_NAN), [0, 0.5, 1, 1.5, 2])
    np.testing.assert_allclose(grad(lambda x: pnp.nanmean(pnp.sqrt(x)))(pnp.array([-1.0, 1, 4])), [0, 0.25, 0.125])


@pytest.mark.parametrize("name", ["nansum", "nanprod", "nanmax", "nanmin", "nanvar", "nanstd", "nanmedian"])
def test_the_gradient_of_every_reduction_without_nan_is_that_of_the_others(name):
    full = getattr(pnp, name.removeprefix("nan"))
    got = grad(lambda x: getattr(pnp, name)(x**2))(WITH_NAN)
    np.testing.assert_allclose(got, np.append(0, grad(lambda x: full(x**2))(WITH_NAN[1:])), rtol=1e-5)


# --- softmax with a mask (jax#17117) ------------------------------------------------------------------------------------------

MASK = np.array([True, True, False])


@pytest.mark.parametrize("function", [nn.softmax, nn.log_softmax])
def test_what_a_mask_leaves_out_of_softmax_touches_no_gradient(function):
    x = pnp.array([1.0, 1.0, 100.0])
    np.testing.assert_array_equal(grad(lambda x: function(x, where=MASK)[:2].sum())(x), [0, 0, 0])
    pinned = lambda x: function(pnp.where(MASK, x, -np.inf))[:2].sum()
    np.testing.assert_array_equal(grad(pinned)(x), [0, 0, 0])
    np.testing.assert_array_equal(grad(lambda x: function(x, where=MASK)[:2].sum())(x.at[2].set(np.nan)), [0, 0, 0])


def test_a_row_without_any_element_has_no_nan_in_its_gradient():
    nothing = np.array([False, False])
    np.testing.assert_array_equal(nn.softmax(pnp.array([1.0, 2.0]), where=nothing), [0, 0])
    for function in (nn.softmax, nn.log_softmax):
        np.testing.assert_array_equal(
            grad(lambda x, f=function: f(x, where=nothing).sum())(pnp.array([1.0, 2.0])), [0, 0]
        )


# --- complex gradients (jax#979) -----------------------------------------------------------------------------------------------


def test_two_ways_to_write_the_absolute_value_have_one_gradient():
    z, expected = 1 + 0.5j, np.conj(1 + 0.5j) / abs(1 + 0.5j)
    by_parts = lambda z: pnp.sqrt(pnp.real(z) ** 2 + pnp.imag(z) ** 2)
    by_product = lambda z: pnp.sqrt(pnp.real(z * pnp.conj(z)))
    for function in (pnp.abs, by_parts, by_product, lambda z: pnp.linalg.norm(pnp.array([z]))):
        np.testing.assert_allclose(grad(function)(z), expected, rtol=1e-6)


def test_a_step_against_the_conjugate_of_the_gradient_goes_down():
    z = 1 + 0.5j
    distance = lambda z: pnp.abs(z - (0.25 - 1j)) ** 2
    assert distance(z - 0.1 * pnp.conj(grad(distance)(z))) < distance(z)


# --- corners and ties (jax#10515, jax#37820): one rule each, listed in docs/edge_derivatives.md --------------------------------


def test_the_subgradient_at_each_corner_is_the_documented_one():
    assert float(grad(pnp.abs)(0.0)) == 1.0
    assert complex(grad(pnp.abs)(0j)) == 0
    np.testing.assert_array_equal(grad(pnp.max)(pnp.array([1.0, 1.0, 0.0])), [0.5, 0.5, 0])
    np.testing.assert_array_equal(grad(pnp.min)(pnp.array([0.0, 1.0, 0.0])), [0.5, 0, 0.5])
    for bound in (0.0, 1.0):
        assert float(grad(lambda x: pnp.clip(x, 0.0, 1.0))(bound)) == 0.5
    assert float(grad(nn.relu)(0.0)) == 0.0
    assert float(grad(lambda x: pnp.maximum(x, 0.0))(0.0)) == 0.5


def test_forward_and_reverse_mode_agree_at_corners():
    x = pnp.array([1.0, 1.0, 0.0])
    for function in (pnp.max, pnp.min, pnp.median, pnp.prod, lambda x: pnp.abs(x).sum(), lambda x: nn.relu(x).sum()):
        np.testing.assert_array_equal(purax.jacfwd(function)(x), purax.jacrev(function)(x))
