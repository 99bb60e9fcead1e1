# SPDX-License-Identifier: Apache-2.0
"""Jacobians and Hessians."""

import numpy as np
import pytest

import purax
from purax import numpy as pnp

X = np.array([0.3, -1.2, 0.8], np.float32)
A = np.arange(6, dtype=np.float32).reshape(2, 3) / 3


def fun(x):
    return pnp.sin(A @ x)


def exact():
    return np.cos(A @ X)[:, None] * A


@pytest.mark.parametrize("transform", [purax.jacfwd, purax.jacrev, purax.jacobian])
def test_a_jacobian_has_rows_of_outputs_and_columns_of_inputs(transform):
    np.testing.assert_allclose(transform(fun)(X), exact(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(purax.jit(transform(fun))(X), exact(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("transform", [purax.jacfwd, purax.jacrev])
def test_structures_nest_outputs_over_inputs(transform):
    def pytrees(params, y):
        return {"a": params["w"] * y, "b": (params["w"].sum(),)}

    found = transform(pytrees, argnums=(0, 1))({"w": X}, 2.0)
    np.testing.assert_allclose(found["a"][0]["w"], 2 * np.eye(3), atol=1e-6)
    np.testing.assert_allclose(found["a"][1], X, rtol=1e-6)
    np.testing.assert_allclose(found["b"][0][0]["w"], np.ones(3))
    assert found["b"][0][1].shape == ()


@pytest.mark.parametrize("transform", [purax.jacfwd, purax.jacrev])
def test_auxiliary_data_come_along(transform):
    found, aux = transform(lambda x: (fun(x), {"x": x}), has_aux=True)(X)
    np.testing.assert_allclose(found, exact(), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(aux["x"], X)


def test_hessians_in_both_modes_agree_with_the_formula():
    loss = lambda x: (pnp.sin(x) * pnp.roll(x, 1)).sum()
    found = purax.hessian(loss)(X)
    other = purax.jacrev(purax.jacrev(loss))(X)
    step = 1e-3
    with purax.enable_x64(True):
        rows = [(purax.grad(loss)(X + step * e) - purax.grad(loss)(X - step * e)) / (2 * step) for e in np.eye(3)]
    np.testing.assert_allclose(found, np.stack(rows), atol=1e-4)
    np.testing.assert_allclose(found, other, atol=1e-5)
    np.testing.assert_allclose(found, np.transpose(found), atol=1e-5)


def test_the_jacobian_of_one_number_is_its_gradient():
    loss = lambda x, n: {"s": pnp.sin(x).sum()[None]}
    found = purax.jacrev(loss, (0, 1), allow_int=True)(X, np.int32(2))
    np.testing.assert_allclose(found["s"][0], np.cos(X)[None], rtol=1e-6)
    assert found["s"][1].shape == (1,) and found["s"][1].dtype == purax.float0
    assert purax.jacrev(lambda x: x * 2)(1.0).shape == ()
    text = str(purax.make_jaxpr(purax.jacrev(lambda x: pnp.sin(x).sum()))(X))
    assert "iota" not in text


def test_weak_types_and_integers():
    assert purax.jacfwd(lambda x: x)(1.0).weak_type and purax.jacrev(lambda x: x)(1.0).weak_type
    found = purax.jacrev(lambda x, n: x * n, argnums=(0, 1), allow_int=True)(2.0, 3)
    assert float(found[0]) == 3 and found[1].dtype == purax.float0


@pytest.mark.parametrize(
    ("transform", "argument", "part"),
    [
        (purax.jacfwd, 1, "real-valued inputs|real- or complex"),
        (purax.jacrev, 1, "real- or complex-valued inputs"),
        (purax.jacfwd, np.complex64(1), "real-valued inputs"),
    ],
)
def test_inputs_without_jacobian_are_refused(transform, argument, part):
    with pytest.raises(TypeError, match=part):
        transform(lambda x: x)(argument)
    with pytest.raises(TypeError, match="real-valued outputs"):
        purax.jacrev(lambda x: x > 0)(1.0)
