# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from purax import numpy as pnp
from purax import optim
from purax.control.jit import jit


def test_a_schedule_may_be_jitted():
    schedule = optim.warmup_cosine_decay_schedule(0.0, 1.0, 3, 9)
    counts = np.arange(12)
    eager = [float(schedule(int(count))) for count in counts]
    np.testing.assert_allclose([float(jit(schedule)(pnp.asarray(count))) for count in counts], eager, atol=1e-6)
    assert max(eager) == 1.0
    assert eager[-1] == 0.0


def test_schedules_refuse_what_cannot_be():
    with pytest.raises(ValueError, match="decay_steps must be positive, got 0"):
        optim.cosine_decay_schedule(1.0, 0)
    with pytest.raises(ValueError, match="factors may not be negative"):
        optim.piecewise_constant_schedule(1.0, {3: -0.5})
    with pytest.raises(ValueError, match="'linear' or 'cosine', got 'cubic'"):
        optim.piecewise_interpolate_schedule("cubic", 1.0)
    with pytest.raises(ValueError, match="transition_steps must be positive"):
        optim.cosine_onecycle_schedule(0, 1.0)


def test_the_learning_rate_of_an_optimizer_follows_its_schedule_from_step_zero():
    optimizer = optim.sgd(optim.piecewise_constant_schedule(1.0, {2: 0.1}))
    params = pnp.zeros(1)
    state = optimizer.init(params)
    seen = []
    for _ in range(4):
        updates, state = optimizer.update(pnp.ones(1), state)
        seen.append(-float(updates[0]))
    np.testing.assert_allclose(seen, [1.0, 1.0, 0.1, 0.1], rtol=1e-6)


def test_steps_shrink_when_the_loss_stops_falling_and_rest_afterwards():
    tx = optim.contrib.reduce_on_plateau(factor=0.5, patience=2, cooldown=1)
    state = tx.init(None)
    scales = []
    for value in (1.0, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.1):
        updates, state = tx.update(pnp.ones(1), state, value=value)
        scales.append(float(updates[0]))
    assert scales == [1.0, 1.0, 1.0, 0.5, 0.5, 0.5, 0.25, 0.25]
    with pytest.raises(ValueError, match="factor must lie between 0 and 1"):
        optim.contrib.reduce_on_plateau(factor=2.0)
    with pytest.raises(ValueError, match="needs a tolerance above 0"):
        optim.contrib.reduce_on_plateau(rtol=0.0)
