# SPDX-License-Identifier: Apache-2.0
"""Laws that every optimizer keeps."""

import numpy as np
import pytest

from purax import numpy as pnp
from purax import optim, tree
from purax.control.jit import jit
from purax.control.loop import scan
from purax.transforms.grad import value_and_grad

# Each optimizer with a learning rate that suits the two problems below, and the steps it is given.
OPTIMIZERS = {
    "sgd": (lambda: optim.sgd(0.1), 300),
    "momentum": (lambda: optim.sgd(0.03, momentum=0.9), 300),
    "nesterov": (lambda: optim.sgd(0.03, momentum=0.9, nesterov=True), 300),
    "schedule": (lambda: optim.sgd(optim.cosine_decay_schedule(0.2, 300)), 300),
    "adam": (lambda: optim.adam(0.1), 300),
    "adamw": (lambda: optim.adamw(0.1, weight_decay=1e-5), 300),
    "nadam": (lambda: optim.nadam(0.1), 300),
    "nadamw": (lambda: optim.nadamw(0.1, weight_decay=1e-5), 300),
    "adamax": (lambda: optim.adamax(0.1), 300),
    "adamaxw": (lambda: optim.adamaxw(0.1, weight_decay=1e-5), 300),
    "amsgrad": (lambda: optim.amsgrad(0.1), 300),
    "adabelief": (lambda: optim.adabelief(0.1), 300),
    "adadelta": (lambda: optim.adadelta(30.0), 600),
    "adafactor": (lambda: optim.adafactor(0.2, multiply_by_parameter_scale=False), 600),
    "adagrad": (lambda: optim.adagrad(1.0), 300),
    "adan": (lambda: optim.adan(0.1), 300),
    "fromage": (lambda: optim.fromage(0.01), 600),
    "lamb": (lambda: optim.lamb(optim.cosine_decay_schedule(0.1, 600)), 600),
    "lars": (lambda: optim.lars(optim.cosine_decay_schedule(3.0, 600), trust_coefficient=0.01), 600),
    "lion": (lambda: optim.lion(optim.cosine_decay_schedule(0.1, 300), weight_decay=0.0), 300),
    "noisy_sgd": (lambda: optim.noisy_sgd(0.1, eta=1e-4, key=0), 300),
    "novograd": (lambda: optim.novograd(optim.cosine_decay_schedule(0.1, 300)), 300),
    "optimistic": (lambda: optim.optimistic_gradient_descent(0.1), 300),
    "radam": (lambda: optim.radam(0.1), 300),
    "rmsprop": (lambda: optim.rmsprop(optim.cosine_decay_schedule(0.1, 300)), 300),
    "rmsprop_centered": (lambda: optim.rmsprop(0.01, centered=True, momentum=0.9), 300),
    "rprop": (lambda: optim.rprop(0.1), 300),
    "sign_sgd": (lambda: optim.sign_sgd(optim.linear_schedule(0.1, 0.0, 300)), 300),
    "signum": (lambda: optim.signum(optim.linear_schedule(0.1, 0.0, 300)), 300),
    "sm3": (lambda: optim.sm3(1.0), 300),
    "yogi": (lambda: optim.yogi(0.1), 300),
}
TARGET = {"w": np.array([[1.0, -0.5], [0.25, 2.0]], np.float32), "b": np.array([0.5, -1.5], np.float32)}


def loss(params):
    return optim.tree.norm(optim.tree.sub(params, TARGET), squared=True)


def first():
    return {"w": pnp.full((2, 2), 0.1, pnp.float32), "b": pnp.full((2,), 0.1, pnp.float32)}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_finds_the_least_of_a_quadratic_inside_jit_and_scan(name):
    make, steps = OPTIMIZERS[name]
    optimizer = make()

    def step(carry, _):
        params, state = carry
        value, grads = value_and_grad(loss)(params)
        updates, state = optimizer.update(grads, state, params)
        return (optim.apply_updates(params, updates), state), value

    params = first()
    state = optimizer.init(params)
    (last, last_state), losses = jit(lambda carry: scan(step, carry, None, length=steps))((params, state))
    assert np.all(np.isfinite(np.asarray(losses)))
    assert float(loss(last)) < 0.02 * float(losses[0])
    assert tree.structure(last_state) == tree.structure(state)
    for before, after in zip(tree.leaves((params, state)), tree.leaves((last, last_state)), strict=True):
        assert (before.shape, before.dtype) == (after.shape, after.dtype)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_one_step_is_the_same_inside_and_outside_jit_and_keeps_shapes_and_dtypes(name):
    optimizer = OPTIMIZERS[name][0]()
    params = {"w": first()["w"], "half": pnp.ones((3,), pnp.bfloat16), "scalar": pnp.asarray(0.5)}
    grads = tree.map(lambda p: (0.3 * pnp.ones_like(p) - p / 4).astype(p.dtype), params)
    state = optimizer.init(params)
    eager, eager_state = optimizer.update(grads, state, params)
    compiled, compiled_state = jit(optimizer.update)(grads, state, params)
    assert tree.structure(eager) == tree.structure(params)
    assert tree.structure(eager_state) == tree.structure(compiled_state) == tree.structure(state)
    for param, left, right in zip(*map(tree.leaves, (params, eager, compiled)), strict=True):
        assert left.shape == param.shape
        assert left.dtype == right.dtype
        tolerance = 2e-2 if param.dtype == pnp.bfloat16 else 2e-6
        np.testing.assert_allclose(
            np.asarray(left, np.float32), np.asarray(right, np.float32), rtol=tolerance, atol=tolerance
        )
    for param, new in zip(tree.leaves(params), tree.leaves(optim.apply_updates(params, eager)), strict=True):
        assert (new.shape, new.dtype) == (param.shape, param.dtype)


def test_adam_descends_the_valley_of_rosenbrock():
    def rosenbrock(p):
        return (1 - p[0]) ** 2 + 100 * (p[1] - p[0] ** 2) ** 2

    optimizer = optim.adam(0.02)

    def step(carry, _):
        p, state = carry
        value, grad = value_and_grad(rosenbrock)(p)
        updates, state = optimizer.update(grad, state, p)
        return (optim.apply_updates(p, updates), state), value

    p = pnp.asarray([-1.0, 1.0])
    (p, _), _ = jit(lambda carry: scan(step, carry, None, length=3000))((p, optimizer.init(p)))
    np.testing.assert_allclose(np.asarray(p), [1.0, 1.0], atol=0.02)


def test_polyak_steps_straight_to_the_least_loss():
    optimizer = optim.polyak_sgd(max_learning_rate=10.0)
    p = pnp.asarray([3.0, -4.0])
    state = optimizer.init(p)
    for _ in range(20):
        value, grad = value_and_grad(lambda p: pnp.sum(p**2))(p)
        updates, state = optimizer.update(grad, state, p, value=value)
        p = optim.apply_updates(p, updates)
    np.testing.assert_allclose(np.asarray(p), [0.0, 0.0], atol=1e-3)


def test_the_first_moment_may_have_a_dtype_of_its_own():
    optimizer = optim.adam(0.1, mu_dtype=pnp.bfloat16)
    params = pnp.ones(3)
    state = optimizer.init(params)
    _, state = optimizer.update(pnp.ones(3), state, params)
    assert state[0].mu.dtype == pnp.bfloat16
    assert state[0].nu.dtype == pnp.float32


def test_adam_takes_complex_gradients():
    optimizer = optim.adam(0.1)
    params = pnp.asarray(np.array([1 + 2j, -1j], np.complex64))
    updates, _ = optimizer.update(params, optimizer.init(params), params)
    assert updates.dtype == pnp.complex64
    magnitude = np.abs(np.asarray(updates))
    np.testing.assert_allclose(magnitude, 0.1, rtol=1e-4)


def test_algorithms_that_read_parameters_say_so_when_they_get_none():
    optimizer = optim.adamw(0.1)
    params = pnp.ones(2)
    with pytest.raises(ValueError, match=r"add_decayed_weights reads the parameters.*params=None"):
        optimizer.update(params, optimizer.init(params))
