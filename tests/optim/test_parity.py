# SPDX-License-Identifier: Apache-2.0
"""Numbers of Optax, stored by `tools/make_optim_parity.py`, against ours."""

import json
from pathlib import Path

import numpy as np
import pytest

from purax import numpy as pnp
from purax import optim

PARITY = json.loads((Path(__file__).parent / "parity.json").read_text())
STEPS = 6


def start():
    return {
        "w": pnp.asarray(np.array([1.0, -2.0, 0.5], np.float32)),
        "b": pnp.asarray(np.array([0.25, -0.75], np.float32)),
        "k": pnp.asarray(np.linspace(-1.0, 1.5, 6, dtype=np.float32).reshape(2, 3)),
    }


def gradient(name, value, step):
    rng = np.random.default_rng([ord(name), step])
    return (value + 0.7 * rng.standard_normal(value.shape)).astype(np.float32)


LOSS_INPUTS = {
    "Z": np.array([[0.5, -1.25, 2.0], [3.0, 0.0, -0.5]], np.float32),
    "P": np.array([[0.25, 0.75, 0.0], [0.1, 0.2, 0.7]], np.float32),
    "Y": np.array([2, 0], np.int32),
    "S": np.array([[1, -1, 1], [-1, -1, 1]], np.float32),
    "A": np.array([[0.1, 0.2, -0.4], [2.0, -1.0, 0.3]], np.float32),
    "B": np.array([[0.3, -0.2, 0.5], [1.5, -1.5, -2.0]], np.float32),
    "E": np.array([[1, 0, 0.5], [0, 2, 0], [0.5, 0.1, 1], [0.3, 1, -1]], np.float32),
    "K": np.array([0, 1, 0, 1], np.int32),
    "C": np.random.default_rng(0).standard_normal((2, 6, 4)).astype(np.float32),
    "T": np.array([[2, 2, 3], [3, 2, 1]], np.int32),
    "M": np.array([0, 0, 0, 0, 0, 1], np.float32),
}


@pytest.mark.parametrize("text", PARITY["optimizers"])
def test_six_steps_of_an_optimizer_end_where_optax_ends(text):
    optimizer = eval(text, {"o": optim})
    params = start()
    state = optimizer.init(params)
    for step in range(STEPS):
        grads = {name: pnp.asarray(gradient(name, np.asarray(value), step)) for name, value in params.items()}
        updates, state = optimizer.update(grads, state, params)
        params = optim.apply_updates(params, updates)
    # The length of radam's average is the small difference of two large float32 numbers.
    rtol = 3e-4 if "radam" in text else 3e-5
    for name, expected in PARITY["optimizers"][text].items():
        np.testing.assert_allclose(np.asarray(params[name]), expected, rtol=rtol, atol=rtol / 10, err_msg=name)


@pytest.mark.parametrize("text", PARITY["schedules"])
def test_a_schedule_goes_through_the_values_of_optax(text):
    schedule = eval(text, {"o": optim})
    values = [float(schedule(pnp.asarray(step))) for step in range(18)]
    np.testing.assert_allclose(values, PARITY["schedules"][text], rtol=2e-6, atol=2e-7)
    plain = [float(schedule(step)) for step in range(18)]
    np.testing.assert_allclose(plain, values, rtol=2e-6, atol=2e-7)


@pytest.mark.parametrize("text", PARITY["losses"])
def test_a_loss_gives_the_value_of_optax(text):
    value = eval(text, {"o": optim, **{name: pnp.asarray(array) for name, array in LOSS_INPUTS.items()}})
    np.testing.assert_allclose(np.asarray(value), PARITY["losses"][text], rtol=2e-6, atol=1e-6)
