# SPDX-License-Identifier: Apache-2.0
"""`vjp`, `linearize` and what they return."""

import copy
import pickle

import numpy as np
import pytest

import purax
from purax import ad, float0
from purax import numpy as pnp
from purax.transforms.vjp import NotNeeded

X, W = np.linspace(0.2, 1.0, 6, dtype=np.float32).reshape(2, 3), np.linspace(-1, 1, 9, dtype=np.float32).reshape(3, 3)


def layer(x, w):
    return pnp.tanh(x @ w), pnp.cos(w).sum()


def expected(cotangent, other):
    inner = cotangent * (1 - np.tanh(X @ W) ** 2)
    return inner @ W.T, X.T @ inner - other * np.sin(W)


def test_cotangents_are_pulled_back():
    out, pull = purax.vjp(layer, X, W)
    np.testing.assert_allclose(out[0], np.tanh(X @ W), rtol=1e-5)
    for found, want in zip(pull((pnp.ones((2, 3)), 2.0)), expected(1.0, 2.0), strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-5)


def test_a_pullback_goes_into_and_out_of_jitted_functions():
    cotangent = (pnp.ones((2, 3)), 2.0)
    _, pull = purax.vjp(layer, X, W)
    inside = purax.jit(lambda pull: pull(cotangent))(pull)
    outside = purax.jit(lambda x, w: purax.vjp(layer, x, w)[1])(X, W)(cotangent)
    for found in (inside, outside):
        for a, b in zip(found, expected(1.0, 2.0), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_residuals_that_are_arguments_can_be_taken_out_and_put_back():
    _, pull = purax.vjp(lambda x, w: x * w, pnp.float32(2), pnp.float32(3))
    assert [float(a) for a in pull.args_res] == [2, 3] and not pull.opaque_residuals
    pull.args_res[1] = None
    with pytest.raises(ValueError, match="args_res"):
        pull(1.0)
    pull.args_res[1] = pnp.float32(5)
    assert [float(c) for c in pull(1.0)] == [5, 2]


def test_arguments_that_the_derivative_does_not_use_are_marked():
    _, pull = purax.vjp(lambda x: x + 1.0, 3.0)
    assert isinstance(pull.args_res[0], NotNeeded)
    _, pull = purax.vjp(pnp.sin, 3.0)
    assert len(pull.opaque_residuals) == 1


def test_outputs_that_do_not_depend_give_zeros():
    _, pull = purax.vjp(lambda x, y: (x, 3.0), 1.0, pnp.ones(2))
    x, y = pull((2.0, 5.0))
    assert float(x) == 2 and np.array_equal(y, np.zeros(2))


def test_integers_have_float0_cotangents():
    out, pull = purax.vjp(lambda x, n: (x * n, n), 2.0, 3)
    x, n = pull((1.0, np.zeros((), float0)))
    assert float(x) == 3 and n.dtype == float0 and int(out[1]) == 3
    x, n = purax.jit(pull)((1.0, np.zeros((), float0)))
    assert float(x) == 3 and n.dtype == float0


@pytest.mark.parametrize(
    ("cotangent", "part"),
    [((1.0,), "tree structure"), (pnp.ones(2), "expected float32"), (pnp.int32(1), "expected float32")],
)
def test_cotangents_must_be_like_the_output(cotangent, part):
    _, pull = purax.vjp(lambda x: x * 2.0, pnp.ones(3))
    with pytest.raises(ValueError, match=part):
        pull(cotangent)


def test_auxiliary_data_come_last():
    out, pull, aux = purax.vjp(lambda x: (x**2, {"x": x}), 3.0, has_aux=True)
    assert float(out) == 9 and float(pull(1.0)[0]) == 6 and float(aux["x"]) == 3
    out, push, aux = purax.linearize(lambda x: (x**2, x), 3.0, has_aux=True)
    assert float(push(2.0)) == 12 and float(aux) == 3


# --- linearize


def test_a_linearized_function_is_computed_once_and_applied_often():
    calls = []

    def fun(x, y):
        calls.append(1)
        return {"a": pnp.sin(x) * y}

    out, push = purax.linearize(fun, 1.0, 2.0)
    np.testing.assert_allclose(push(1.0, 0.0)["a"], 2 * np.cos(1), rtol=1e-6)
    np.testing.assert_allclose(purax.jit(push)(0.0, 1.0)["a"], np.sin(1), rtol=1e-6)
    np.testing.assert_allclose(
        purax.vmap(push)(pnp.arange(3.0), pnp.zeros(3))["a"], 2 * np.cos(1) * np.arange(3), rtol=1e-6
    )
    assert len(calls) == 1 and "a" in out


@pytest.mark.parametrize("tangent", [1, pnp.ones(2)])
def test_tangents_of_a_linearized_function_are_checked(tangent):
    _, push = purax.linearize(lambda x: x * 2.0, 1.0)
    with pytest.raises(ValueError, match="tangent values inconsistent"):
        push(tangent)
    _, push = purax.linearize(lambda x: x * 2, np.ones(2, np.int32))
    with pytest.raises(ValueError, match="tangent values inconsistent"):
        push(np.ones(2, np.int32))
    assert push(np.zeros(2, float0)).dtype == float0


def test_the_two_halves_of_a_derivative_compile_once_each():
    traces = []

    def fun(x, w):
        traces.append(1)
        return layer(x, w)

    forward, backward = purax.fwd_and_bwd(fun, argnums=(0, 1))
    for scale in (1.0, 2.0):
        _, residuals = forward(X, W)
        found = backward(residuals, (scale * pnp.ones((2, 3)), 0.0))
        np.testing.assert_allclose(found[0], expected(scale, 0.0)[0], rtol=1e-4, atol=1e-5)
    assert len(traces) == 1


def test_a_cotangent_that_is_not_wanted_is_not_computed():
    x, y, w = pnp.arange(3.0), pnp.ones(3), pnp.float32(2)
    _, pull = purax.vjp(lambda x, y, w: {"a": pnp.sin(x) * y["b"] * w}, x, {"b": y}, w)
    chosen = pull.with_refs(ad.DontWant(), ad.GradValue(), ad.DontWant())
    step = purax.jit(lambda c: chosen({"a": c}))
    first, second, third = step(y)
    assert first == third == ad.DidntWant()
    np.testing.assert_allclose(second["b"], 2 * np.sin(x), rtol=1e-6)
    assert len(step.trace(y).jaxpr.eqns) <= 3 < len(purax.make_jaxpr(lambda c: pull({"a": c}))(y).eqns)
    np.testing.assert_allclose(pull({"a": y})[0], 2 * np.cos(x), rtol=1e-6)


def test_pullbacks_and_programs_are_copied_but_not_pickled():
    _, pull = purax.vjp(pnp.sin, 1.0)
    for held in (pull, purax.linearize(pnp.sin, 1.0)[1], purax.make_jaxpr(pnp.sin)(1.0)):
        with pytest.raises(TypeError, match="cannot be pickled"):
            pickle.dumps(held)
    np.testing.assert_allclose(copy.deepcopy(pull)(1.0), pull(1.0))
