# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from purax import numpy as pnp
from purax import optim
from purax.control.jit import jit
from purax.control.loop import scan


def rosenbrock(p):
    return 100 * (p["y"] - p["x"] ** 2) ** 2 + (1 - p["x"]) ** 2


def minimise(optimizer, function, params, steps):
    derivative = optim.value_and_grad_from_state(function)

    def step(carry, _):
        params, state = carry
        value, grad = derivative(params, state=state)
        updates, state = optimizer.update(grad, state, params, value=value, grad=grad, value_fn=function)
        return (optim.apply_updates(params, updates), state), value

    (params, state), values = jit(lambda carry: scan(step, carry, None, length=steps))((params, optimizer.init(params)))
    return params, state, np.asarray(values)


def test_lbfgs_finds_the_end_of_the_valley_of_rosenbrock_in_a_few_steps():
    params, _, values = minimise(optim.lbfgs(), rosenbrock, {"x": pnp.asarray(-1.2), "y": pnp.asarray(1.0)}, 40)
    np.testing.assert_allclose([float(params["x"]), float(params["y"])], [1.0, 1.0], atol=1e-3)
    assert np.all(np.diff(values) <= 1e-5)


def test_lbfgs_solves_an_ill_conditioned_quadratic():
    scales = pnp.asarray([1.0, 10.0, 100.0, 1000.0])
    params, _, _ = minimise(optim.lbfgs(memory_size=5), lambda p: pnp.sum(scales * (p - 1) ** 2), pnp.zeros(4), 40)
    np.testing.assert_allclose(np.asarray(params), 1.0, atol=1e-3)


def test_backtracking_accepts_only_steps_that_fall():
    optimizer = optim.chain(optim.sgd(1.0), optim.scale_by_backtracking_linesearch(30, store_grad=True))
    _, state, values = minimise(optimizer, lambda p: pnp.sum(p**4), pnp.asarray([3.0, -2.0]), 60)
    assert np.all(np.diff(values) <= 0)
    assert values[-1] < 1e-3
    assert float(optim.tree.get(state, "decrease_error")) == 0.0


def test_an_accepted_step_meets_both_conditions_of_wolfe():
    def function(p):
        return pnp.sum(pnp.cosh(p)) + 0.1 * pnp.sum(p)

    p = pnp.asarray([2.0, -1.0])
    optimizer = optim.chain(optim.sgd(10.0), optim.scale_by_zoom_linesearch(20))
    value, slope = optim.value_and_grad_from_state(function)(p, state=optimizer.init(p))
    updates, state = optimizer.update(slope, optimizer.init(p), p, value=value, grad=slope, value_fn=function)
    info = state[1].info
    assert (float(info.decrease_error), float(info.curvature_error)) == (0.0, 0.0)
    new = optim.apply_updates(p, updates)
    assert float(function(new)) == pytest.approx(float(state[1].value), rel=1e-6)
    direction = np.asarray(updates)
    assert abs(np.asarray(state[1].grad) @ direction) <= 0.9 * abs(np.asarray(slope) @ direction)


def test_a_state_without_a_gradient_is_refused_in_words():
    optimizer = optim.scale_by_backtracking_linesearch(3)
    p = pnp.ones(2)
    with pytest.raises(ValueError, match="store_grad=True"):
        optim.value_and_grad_from_state(lambda p: pnp.sum(p))(p, state=optimizer.init(p))
    with pytest.raises(ValueError, match="'keep' or 'one', got 'two'"):
        optim.scale_by_zoom_linesearch(3, initial_guess_strategy="two")
    with pytest.raises(ValueError, match="memory_size must be at least 1"):
        optim.scale_by_lbfgs(0)
