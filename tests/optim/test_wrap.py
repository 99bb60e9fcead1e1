# SPDX-License-Identifier: Apache-2.0
import functools

import numpy as np
import pytest

from purax import numpy as pnp
from purax import optim, tree
from purax.control.jit import jit


def test_mini_steps_give_the_update_of_the_mean_gradient_in_every_kth_call():
    steps = optim.MultiSteps(optim.sgd(1.0), 3)
    params = {"w": pnp.zeros(2)}
    state = steps.init(params)
    update = jit(steps.update)
    seen = []
    for g in (1.0, 2.0, 6.0, 4.0):
        updates, state = update({"w": pnp.full(2, g, pnp.float32)}, state, params)
        seen.append((float(updates["w"][0]), bool(steps.has_updated(state))))
    assert seen == [(0.0, False), (0.0, False), (-3.0, True), (0.0, False)]
    assert int(state.gradient_step) == 1


def test_mini_steps_with_faults_are_left_out():
    steps = optim.MultiSteps(optim.sgd(1.0), 2, should_skip_update_fn=optim.skip_not_finite)
    params = pnp.zeros(2)
    state = steps.init(params)
    for g in ([1.0, 1.0], [np.nan, 1.0], [3.0, 3.0]):
        updates, state = steps.update(pnp.asarray(g, pnp.float32), state, params)
    np.testing.assert_array_equal(np.asarray(updates), [-2.0, -2.0])
    assert int(state.gradient_step) == 1


def test_mini_steps_with_large_gradients_are_left_out():
    skip = functools.partial(optim.skip_large_updates, max_squared_norm=10.0)
    steps = optim.MultiSteps(optim.sgd(1.0), 1, should_skip_update_fn=skip)
    params = pnp.zeros(2)
    updates, state = steps.update(pnp.asarray([3.0, 4.0]), steps.init(params), params)
    np.testing.assert_array_equal(np.asarray(updates), [0.0, 0.0])
    assert float(state.skip_state["norm_squared"]) == 25.0


def test_half_precision_gradients_are_accumulated_in_float32_and_the_state_keeps_its_dtypes():
    steps = optim.MultiSteps(optim.adam(0.1), 2)
    params = pnp.zeros(2, pnp.bfloat16)
    state = steps.init(params)
    assert state.acc_grads.dtype == pnp.float32
    for _ in range(2):
        updates, new = steps.update(pnp.ones(2, pnp.bfloat16), state, params)
        assert [x.dtype for x in tree.leaves(new)] == [x.dtype for x in tree.leaves(state)]
        state = new
    assert updates.dtype == pnp.bfloat16


def test_steps_with_nan_are_skipped_until_there_were_too_many_in_a_row():
    optimizer = optim.apply_if_finite(optim.sgd(1.0), 2)
    params = pnp.zeros(2)
    state = optimizer.init(params)
    bad = pnp.asarray([np.nan, 1.0])
    for count in (1, 2):
        updates, state = optimizer.update(bad, state, params)
        np.testing.assert_array_equal(np.asarray(updates), [0.0, 0.0])
        assert int(state.notfinite_count) == count
    updates, state = optimizer.update(bad, state, params)
    assert np.isnan(np.asarray(updates)[0])
    updates, state = optimizer.update(pnp.ones(2), state, params)
    assert (int(state.notfinite_count), int(state.total_notfinite), bool(state.last_finite)) == (0, 3, True)


def test_lookahead_moves_slow_parameters_every_k_steps():
    optimizer = optim.lookahead(optim.sgd(1.0), sync_period=2, slow_step_size=0.5)
    params = optim.LookaheadParams.init_synced(pnp.asarray([0.0]))
    state = optimizer.init(params)
    for expected in ((-1.0, 0.0), (-1.0, -1.0), (-2.0, -1.0)):
        updates, state = optimizer.update(pnp.asarray([1.0]), state, params)
        params = optim.apply_updates(params, updates)
        assert (float(params.fast[0]), float(params.slow[0])) == expected
    with pytest.raises(ValueError, match=r"LookaheadParams\.init_synced"):
        optimizer.init(pnp.asarray([0.0]))


def test_flatten_gives_the_updates_of_the_tree():
    params = {"a": pnp.ones((2, 2)), "b": pnp.asarray(2.0)}
    plain, flat = optim.adam(0.1), optim.flatten(optim.adam(0.1))
    expected, _ = plain.update(params, plain.init(params), params)
    updates, _ = flat.update(params, flat.init(params), params)
    for left, right in zip(tree.leaves(updates), tree.leaves(expected), strict=True):
        np.testing.assert_allclose(np.asarray(left), np.asarray(right), rtol=1e-6)


def test_injected_hyperparameters_may_be_changed_between_steps_of_one_program():
    optimizer = optim.inject_hyperparams(optim.sgd)(learning_rate=1.0)
    params = pnp.zeros(1)
    state = optimizer.init(params)
    traces = []

    @jit
    def update(grads, state):
        traces.append(1)
        return optimizer.update(grads, state)

    updates, state = update(pnp.ones(1), state)
    assert float(updates[0]) == -1.0
    hyperparams = {**state.hyperparams, "learning_rate": pnp.asarray(0.25, pnp.float32)}
    updates, state = update(pnp.ones(1), state._replace(hyperparams=hyperparams))
    assert float(updates[0]) == -0.25
    assert len(traces) == 1


def test_injected_schedules_show_their_value_in_the_state():
    optimizer = optim.inject_hyperparams(optim.adam)(optim.linear_schedule(1.0, 0.0, 4), b1=0.8)
    params = pnp.zeros(1)
    state = optimizer.init(params)
    for expected in (1.0, 0.75, 0.5):
        _, state = optimizer.update(pnp.ones(1), state)
        assert float(state.hyperparams["learning_rate"]) == expected
    assert float(state.hyperparams["b1"]) == pytest.approx(0.8)
    with pytest.raises(ValueError, match=r"no arguments named \['beta'\]"):
        optim.inject_hyperparams(optim.adam, static_args="beta")


def test_noise_falls_with_the_steps_and_repeats_with_the_key():
    def noise(key, steps):
        tx = optim.add_noise(1.0, 2.0, key)
        state = tx.init(None)
        for _ in range(steps):
            updates, state = tx.update(pnp.zeros(2000), state)
        return np.asarray(updates)

    np.testing.assert_array_equal(noise(1, 2), noise(1, 2))
    assert noise(0, 1).std() == pytest.approx(1.0, rel=0.1)
    assert noise(0, 4).std() == pytest.approx(0.25, rel=0.1)
    with pytest.raises(ValueError, match="either key= or seed="):
        optim.add_noise(1.0, 1.0)


def test_monitors_keep_what_passes_and_change_nothing():
    tx = optim.monitor({"sum": pnp.sum, "mean": optim.measure_with_ema(pnp.sum, 0.5)})
    state = tx.init(pnp.zeros(2))
    for factor in (1.0, 2.0):
        updates, state = tx.update(factor * pnp.ones(2), state)
    assert float(updates[0]) == 2.0
    assert float(state.measurements["sum"]) == 4.0
    assert float(state.measurements["mean"]) == pytest.approx(10 / 3)
    tx = optim.snapshot("largest", pnp.max)
    _, state = tx.update(pnp.asarray([1.0, 5.0]), tx.init(pnp.zeros(2)))
    assert float(optim.tree.get(state, "largest")) == 5.0
