# SPDX-License-Identifier: Apache-2.0
from typing import Any

import numpy as np
import pytest

from purax import numpy as pnp
from purax import optim, tree
from purax.control.jit import jit
from purax.train import TrainState


def test_a_jitted_step_is_traced_once():
    traces = []

    @jit
    def step(state):
        traces.append(1)
        return state.apply_gradients(grads=state.params)

    state = TrainState.create(apply_fn=lambda x: x, params={"w": pnp.ones(2)}, tx=optim.sgd(0.5, momentum=0.0))
    for _ in range(3):
        state = step(state)
    assert int(state.step) == 3
    np.testing.assert_allclose(np.asarray(state.params["w"]), 0.125)
    assert len(traces) == 1
    assert state.apply_fn(4) == 4


class WithStats(TrainState):
    batch_stats: Any


def test_a_subclass_carries_more_fields_through_trees_and_steps():
    state = WithStats.create(
        apply_fn=None, params={"w": pnp.ones(2)}, tx=optim.sgd(1.0), batch_stats={"mean": pnp.zeros(2)}
    )
    assert len(tree.leaves(state)) == 3
    state = state.apply_gradients(grads={"w": pnp.ones(2)}, batch_stats={"mean": pnp.ones(2)})
    assert isinstance(state, WithStats)
    assert float(state.batch_stats["mean"][0]) == 1.0
    assert isinstance(tree.map(lambda x: x, state), WithStats)


def test_a_state_is_changed_by_replacement_only():
    state = TrainState.create(apply_fn=None, params=pnp.ones(2), tx=optim.sgd(1.0))
    with pytest.raises(AttributeError):
        state.step = 3
    assert state.replace(step=3).step == 3
