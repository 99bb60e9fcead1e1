# SPDX-License-Identifier: Apache-2.0
"""The small libraries of layers and optimizers as pairs and triples of functions."""

import numpy as np
import pytest

import purax
from purax import numpy as pnp
from purax import random
from purax.example_libraries import optimizers, stax

pytestmark = pytest.mark.xla
IMAGE = (2, 5, 6, 4)


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (stax.Conv(3, (2, 3), (2, 1), "SAME"), IMAGE),
        (stax.ConvTranspose(3, (2, 2), (2, 2)), IMAGE),
        (stax.Conv1DTranspose(3, (2,)), (2, 5, 4)),
        (stax.BatchNorm((0, 2, 3)), IMAGE),
        (stax.MaxPool((2, 3), (2, 1), spec="WHCN"), IMAGE),
        (stax.AvgPool((2, 2), padding="SAME"), IMAGE),
        (stax.serial(stax.Conv(3, (2, 2)), stax.Relu, stax.Flatten, stax.Dropout(0.5), stax.Dense(4), stax.LogSoftmax), IMAGE),
        (stax.serial(stax.FanOut(2), stax.parallel(stax.Dense(3), stax.Identity), stax.FanInConcat(-1)), (2, 5)),
        (stax.shape_dependent(lambda shape: stax.Dense(2 * shape[-1])), (2, 5)),
    ],
)  # fmt: skip
def test_the_shape_told_is_that_of_the_output(layer, shape):
    init, apply = layer
    told, params = init(random.PRNGKey(0), shape)
    assert apply(params, pnp.ones(shape), rng=random.PRNGKey(1)).shape == told


def test_means_of_windows_count_what_lies_inside():
    _, apply = stax.AvgPool((3, 3), padding="SAME")
    np.testing.assert_allclose(apply((), pnp.ones((1, 4, 4, 1))), 1, rtol=1e-6)


def test_dropout_keeps_the_mean_and_needs_a_key():
    _, apply = stax.Dropout(0.25)
    out = apply((), pnp.ones((100, 100)), rng=random.PRNGKey(0))
    assert abs(float(out.mean()) - 1) < 0.05 and set(np.unique(out)) == {0, 4}
    assert (stax.Dropout(0.25, mode="test")[1]((), pnp.ones(3), rng=random.PRNGKey(0)) == 1).all()
    with pytest.raises(ValueError, match="rng="):
        apply((), pnp.ones(3))


@pytest.mark.parametrize(
    "triple",
    [
        optimizers.sgd(0.1),
        optimizers.momentum(0.05, 0.5),
        optimizers.nesterov(0.05, 0.5),
        optimizers.adagrad(0.5),
        optimizers.rmsprop(0.05),
        optimizers.rmsprop_momentum(optimizers.polynomial_decay(0.02, 50, 0.002)),
        optimizers.adam(optimizers.inverse_time_decay(0.2, 3, 0.1, staircase=True)),
        optimizers.adamax(optimizers.piecewise_constant([30, 60], [0.1, 0.05, 0.01])),
        optimizers.sm3(0.5),
    ],
)
def test_optimizers_find_the_least_value(triple):
    init, update, get_params = triple

    def loss(p):
        return (p["a"] ** 2).sum() + ((p["b"] - 1) ** 2).sum()

    @purax.jit
    def step(i, state):
        return update(i, purax.grad(loss)(get_params(state)), state)

    state = init({"a": pnp.ones(2), "b": pnp.zeros((2, 3))})
    for i in range(120):
        state = step(i, state)
    assert loss(get_params(state)) < 1e-2


def test_states_can_be_taken_apart_and_put_together():
    state = optimizers.momentum(0.1, 0.9)[0]({"w": pnp.ones(2), "b": pnp.zeros(())})
    again = optimizers.pack_optimizer_state(optimizers.unpack_optimizer_state(state))
    assert purax.tree.structure(again) == purax.tree.structure(state)
    with pytest.raises(TypeError, match="JoinPoint"):
        optimizers.pack_optimizer_state({"w": 1.0})


def test_a_state_that_changes_its_structure_is_told():
    @optimizers.optimizer
    def grows():
        return (lambda x: {"x": x}), (lambda i, g, s: {"x": s["x"], "g": g}), (lambda s: s["x"])

    init, update, _ = grows()
    with pytest.raises(TypeError, match="keep its structure"):
        update(0, pnp.ones(2), init(pnp.ones(2)))


def test_gradients_are_cut_to_a_norm():
    g = {"a": pnp.full(4, 3.0)}
    np.testing.assert_allclose(optimizers.clip_grads(g, 100.0)["a"], 3)
    np.testing.assert_allclose(optimizers.l2_norm(optimizers.clip_grads(g, 2.0)), 2, rtol=1e-6)
