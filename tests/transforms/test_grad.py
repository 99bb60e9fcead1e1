# SPDX-License-Identifier: Apache-2.0
"""Gradients of scalar functions, and what they are not defined for."""

import numpy as np
import pytest

import purax
from purax import lax
from purax import numpy as pnp


def test_gradients_have_the_structure_of_the_arguments():
    def loss(params, x):
        return ((params["w"] * x + params["b"]) ** 2).sum()

    params, x = {"w": pnp.arange(3.0), "b": 1.0}, np.array([1.0, -2.0, 0.5], np.float32)
    value, gradient = purax.value_and_grad(loss)(params, x)
    residual = np.arange(3) * x + 1
    np.testing.assert_allclose(value, (residual**2).sum(), rtol=1e-6)
    np.testing.assert_allclose(gradient["w"], 2 * residual * x, rtol=1e-6)
    np.testing.assert_allclose(gradient["b"], 2 * residual.sum(), rtol=1e-6)


def test_argnums_choose_the_arguments():
    fun = lambda x, y, z: x * y + z
    assert float(purax.grad(fun, argnums=-2)(2.0, 3.0, 4.0)) == 2
    assert [float(g) for g in purax.grad(fun, argnums=(2, 0))(2.0, 3.0, 4.0)] == [1, 3]
    assert float(purax.grad(fun)(2.0, y=3.0, z=4.0)) == 3


def test_a_value_used_twice_gets_both_cotangents():
    np.testing.assert_allclose(
        purax.grad(lambda x: x * pnp.sin(x) + x)(0.5), np.sin(0.5) + 0.5 * np.cos(0.5) + 1, rtol=1e-6
    )


def test_gradients_keep_the_weak_type_of_the_argument():
    assert purax.grad(lambda x: x * 2.0)(1.0).weak_type
    assert purax.grad(lambda x: (x * pnp.ones(3)).sum())(1.0).weak_type
    assert purax.grad(lambda x: 3.0)(1.0).weak_type
    assert not purax.grad(lambda x: x * 2.0)(pnp.float32(1)).weak_type
    assert purax.grad(lambda x: x * 2.0)(pnp.float16(1)).dtype == np.float16
    assert purax.grad(lambda x: lax.scan(lambda c, r: (c * r, c), x, pnp.arange(1.0, 3.0))[0])(1.0).weak_type


def test_higher_derivatives_of_a_polynomial():
    fun = lambda x: x**4
    for order, want in enumerate([4 * 8.0, 12 * 4.0, 24 * 2.0, 24.0, 0.0]):
        derivative = fun
        for _ in range(order + 1):
            derivative = purax.grad(derivative)
        np.testing.assert_allclose(derivative(2.0), want, rtol=1e-6)


def test_auxiliary_data_may_be_anything():
    gradient, aux = purax.grad(lambda x: (x**2, {"x": 2 * x, "text": "t"}), has_aux=True)(3.0)
    assert float(gradient) == 6 and float(aux["x"]) == 6 and aux["text"] == "t"
    (value, aux), gradient = purax.value_and_grad(lambda x: (x**2, x), has_aux=True)(3.0)
    assert (float(value), float(aux), float(gradient)) == (9, 3, 6)


def test_holomorphic_functions_have_complex_gradients():
    found = purax.grad(lambda z: z**3, holomorphic=True)(pnp.complex64(1 + 2j))
    np.testing.assert_allclose(found, 3 * (1 + 2j) ** 2, rtol=1e-5)


def test_the_gradient_of_the_imaginary_part_follows_the_convention():
    # The real function of (re, im) has the gradient re - i im of its partial derivatives.
    found = purax.grad(lambda z: pnp.real(z * z))(pnp.complex64(1 + 2j))
    np.testing.assert_allclose(found, 2 * (1 + 2j), rtol=1e-6)


@pytest.mark.parametrize(
    ("fun", "argument", "part"),
    [
        (lambda x: x, np.ones(3, np.float32), "scalar-output"),
        (lambda x: (x, x), 1.0, "scalar-output"),
        (lambda x: x * 2, 1, "real- or complex-valued inputs"),
        (lambda x: x > 0, 1.0, "real-valued outputs"),
        (lambda x: x * 1j, 1.0, "real-valued outputs"),
        (lambda x: x, "text", "not a valid"),
        (lambda x: (x, x, x), 1.0, "scalar-output"),
    ],
)
def test_functions_without_gradient_are_refused(fun, argument, part):
    with pytest.raises(TypeError, match=part):
        purax.grad(fun)(argument)


def test_the_argument_that_cannot_be_differentiated_is_named():
    with pytest.raises(TypeError, match=r"params\['n'\]"):
        purax.grad(lambda params: params["x"])({"x": 1.0, "n": 3})
    with pytest.raises(TypeError, match="requires at least 2 positional arguments"):
        purax.grad(lambda x, y: x, argnums=1)(1.0)
    with pytest.raises(TypeError, match="must be callable"):
        purax.grad(3.0)
    with pytest.raises(TypeError, match="pair"):
        purax.grad(lambda x: x, has_aux=True)(1.0)


def test_gradients_within_a_mapped_function_are_each_lane_s_own():
    fun = lambda x, w: pnp.sin(w * x)
    found = purax.vmap(purax.grad(fun, argnums=1), in_axes=(0, None))(pnp.arange(3.0), 0.5)
    np.testing.assert_allclose(found, np.arange(3) * np.cos(0.5 * np.arange(3)), rtol=1e-5)


@pytest.mark.parametrize("argnums", ["x", 1.5, None, (0, "y"), (0, 1.0)])
@pytest.mark.parametrize("transform", [purax.grad, purax.value_and_grad, purax.jacfwd, purax.jacrev, purax.hessian])
def test_argument_numbers_are_integers(transform, argnums):
    with pytest.raises(TypeError, match="argnums must be an integer or a sequence of integers"):
        transform(lambda x, y: x * y, argnums)(1.0, 2.0)
