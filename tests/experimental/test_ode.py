# SPDX-License-Identifier: Apache-2.0
"""`odeint` against SciPy and solutions in closed form; its derivatives against finite differences in float64."""

import numpy as np
import pytest
import scipy.integrate

import purax
from purax import errors
from purax import numpy as pnp
from purax.experimental.ode import odeint, odeint_event

DIRECT = {"derivative": "direct", "max_steps": 200}
BOTH = pytest.mark.parametrize("options", [{}, DIRECT], ids=["adjoint", "direct"])
LOOSE = {"rtol": 1e-6, "atol": 1e-6}


def pendulum(y, t, damping, gravity):
    angle, speed = y
    return [speed, -damping * speed - gravity * pnp.sin(angle)]


def central(fun, x, h=1e-5):
    """Derivative by central differences."""
    return (fun(x + h) - fun(x - h)) / (2 * h)


@pytest.fixture
def x64():
    with purax.enable_x64(True):
        yield


# --- solutions ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "times", [np.linspace(0, 2, 7), np.linspace(2, 0, 7), np.array([0, 0.1, 1.9, 2])], ids=["up", "down", "uneven"]
)
@BOTH
def test_a_pendulum_swings_as_scipy_says(x64, times, options):
    exact = scipy.integrate.odeint(
        lambda y, t: [y[1], -0.25 * y[1] - 9.8 * np.sin(y[0])], [1.0, 0.0], times, rtol=1e-10, atol=1e-10
    )
    found = odeint(pendulum, np.array([1.0, 0.0]), times, 0.25, 9.8, **options)
    np.testing.assert_allclose(found, exact, rtol=1e-6, atol=1e-6)


@BOTH
def test_the_first_output_is_the_initial_state_and_one_time_is_enough(options):
    out = odeint(lambda y, t: -y, pnp.array([1.0, 2.0]), pnp.array([3.0]), **options)
    np.testing.assert_array_equal(out, [[1, 2]])


def test_a_state_of_several_dtypes_keeps_them():
    y0 = {"real": np.float32(1), "complex": np.ones(2, np.complex64), "whole": np.int32(2)}
    rate = lambda y, t: {"real": -y["real"], "complex": 1j * y["complex"], "whole": 0 * y["whole"]}
    out = odeint(rate, y0, pnp.array([0.0, 1.0]), **LOOSE)
    assert {k: str(v.dtype) for k, v in out.items()} == {"real": "float32", "complex": "complex64", "whole": "float32"}
    np.testing.assert_allclose(out["complex"][1], np.full(2, np.exp(1j)), rtol=1e-5)
    np.testing.assert_allclose(out["real"][1], np.exp(-1), rtol=1e-5)


@pytest.mark.parametrize("t0", [0.0, 1e4])
def test_times_far_from_zero_do_not_stall(t0):
    out = odeint(lambda y, t: -y, 1.0, t0 + pnp.array([0.0, 1.0]), **LOOSE)
    np.testing.assert_allclose(out[1], np.exp(-1), rtol=1e-4)


def test_a_narrow_bump_is_found_by_short_steps():
    bump = lambda y, t: pnp.where(pnp.abs(t - 5) < 0.5, 1.0, 0.0)
    t = pnp.array([0.0, 4.0, 10.0])
    np.testing.assert_allclose(odeint(bump, 0.0, t, hmax=0.2, **LOOSE), [0, 0, 1], atol=1e-3)


@BOTH
def test_what_was_not_reached_is_nan(options):
    blow_up = lambda y, t: y**2  # infinite at t = 1
    out = odeint(blow_up, 1.0, pnp.array([0.0, 0.5, 2.0, 3.0]), **LOOSE, **options)
    np.testing.assert_allclose(out[:2], [1, 2], rtol=1e-4)
    assert np.isnan(out[2:]).all()
    few = {**options, "max_steps": 3} if options else {"mxstep": 3}
    out = odeint(lambda y, t: pnp.sin(40 * t), 0.0, pnp.array([0.0, 50.0]), **LOOSE, **few)
    assert out[0] == 0
    assert np.isnan(out[1])


@BOTH
@pytest.mark.parametrize("start", [0.0, np.nan])
def test_a_derivative_that_is_nan_ends_the_integration(options, start):
    out = odeint(lambda y, t: pnp.log(y - 1), start, pnp.array([0.0, 1.0]), **LOOSE, **options)
    assert np.isnan(out[1])


def test_an_event_is_not_searched_for_where_the_derivative_is_nan():
    found = odeint_event(lambda y, t: pnp.log(y - 1), lambda y, t: y - 5, 0.0, pnp.array([0.0, 1.0]), **LOOSE)
    assert not found.found and np.isnan(found.y)


@BOTH
@pytest.mark.parametrize("start", [1.0, np.nan, np.inf])
def test_a_slope_that_is_not_finite_ends_the_integration(options, start):
    solve = purax.jit(lambda y, bad: odeint(lambda y, t: y * bad, y, pnp.array([0.0, 1.0]), **LOOSE, **options))
    out = solve(start, np.nan if start == 1.0 else 1.0)
    np.testing.assert_array_equal(out[0], start)
    assert not np.isfinite(out[1])


@BOTH
def test_lanes_of_vmap_go_their_own_way(options):
    t = pnp.linspace(0, 1, 4)
    rates = pnp.array([0.5, 2.0, 30.0])
    together = purax.vmap(lambda rate: odeint(lambda y, t: -rate * y, 1.0, t, **LOOSE, **options))(rates)
    np.testing.assert_allclose(together, np.exp(-np.outer(rates, t)), atol=1e-4)


def test_nothing_is_compiled_with_the_setting_that_forbids_it():
    with purax.disable_jit():
        out = odeint(lambda y, t: -y, pnp.ones(2), pnp.array([0.0, 0.3]), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(out[1], np.exp([-0.3, -0.3]), rtol=1e-3)


# --- derivatives --------------------------------------------------------------------------------------------------------------


@BOTH
def test_gradients_by_state_times_and_arguments(x64, options):
    y0, t, rate = np.array([1.0, 0.3]), np.array([0.1, 0.5, 1.2]), 2.0
    weights = np.random.default_rng(0).normal(size=(3, 2))

    @purax.jit
    def loss(y0, t, rate):
        swing = lambda y, t, rate: pnp.stack([y[1] * t, -rate * y[0]])
        return pnp.sum(weights * odeint(swing, y0, t, rate, **options))

    found = purax.grad(loss, (0, 1, 2))(y0, t, rate)
    for i, step in enumerate(np.eye(2)):
        np.testing.assert_allclose(found[0][i], central(lambda h, d=step: loss(y0 + h * d, t, rate), 0.0), rtol=1e-5)
    for i, step in enumerate(np.eye(3)):
        np.testing.assert_allclose(found[1][i], central(lambda h, d=step: loss(y0, t + h * d, rate), 0.0), rtol=1e-5)
    np.testing.assert_allclose(found[2], central(lambda r: loss(y0, t, r), rate), rtol=1e-5)


@BOTH
def test_second_derivatives(x64, options):
    solution = lambda rate: odeint(lambda y, t: -rate * y, 1.0, pnp.array([0.0, 1.5]), **options)[1]
    np.testing.assert_allclose(purax.grad(purax.grad(solution))(0.7), 1.5**2 * np.exp(-0.7 * 1.5), rtol=1e-5)


def test_forward_mode_through_the_steps(x64):
    solution = lambda rate: odeint(lambda y, t: -rate * y, 1.0, pnp.array([0.0, 1.5]), **DIRECT)[1]
    np.testing.assert_allclose(purax.jacfwd(solution)(0.7), -1.5 * np.exp(-0.7 * 1.5), rtol=1e-5)
    np.testing.assert_allclose(purax.jacfwd(purax.grad(solution))(0.7), 1.5**2 * np.exp(-0.7 * 1.5), rtol=1e-4)


def test_forward_mode_of_the_adjoint_says_what_to_do():
    with pytest.raises(TypeError, match=r"can't apply forward-mode .* odeint_adjoint"):
        purax.jacfwd(lambda rate: odeint(lambda y, t: -rate * y, 1.0, pnp.array([0.0, 1.0])))(0.5)


@BOTH
def test_gradients_reach_what_is_captured_under_jit_and_vmap(options):
    t = pnp.array([0.0, 1.0])
    gradient = purax.grad(lambda rate: odeint(lambda y, t: -rate * y, 1.0, t, **LOOSE, **options)[1])
    rates = pnp.array([0.1, 0.5, 1.0])
    np.testing.assert_allclose(purax.jit(purax.vmap(gradient))(rates), -np.exp(-rates), rtol=1e-3)


def test_complex_states_and_integer_arguments():
    def real(factor, power):
        rate = lambda y, t, f, n: f * y * t**n
        return odeint(rate, 1.0 + 0j, pnp.array([0.0, 1.0]), factor, power, **LOOSE)[1].real

    factor = 0.3 + 0.4j
    # y(1) = exp(f / 2), so that dy = y / 2 df
    np.testing.assert_allclose(purax.grad(real)(factor, 1), np.exp(factor / 2) / 2, rtol=1e-4)


# --- events -------------------------------------------------------------------------------------------------------------------


def hit(height, gravity=9.81, **options):
    """When and how a ball that falls from a height comes to the ground."""
    y0 = {"height": height, "speed": 0.0}
    falling = lambda y, t, gravity: {"height": y["speed"], "speed": -gravity}
    return odeint_event(falling, lambda y, t, gravity: y["height"], y0, pnp.array([0.0, 5.0]), gravity, **options)


@BOTH
def test_a_ball_hits_the_ground(x64, options):
    ground = hit(10.0, **options)
    assert bool(ground.found)
    np.testing.assert_allclose(ground.t, np.sqrt(2 * 10 / 9.81), rtol=1e-9)
    np.testing.assert_allclose(ground.y["height"], 0, atol=1e-8)
    np.testing.assert_allclose(ground.y["speed"], -np.sqrt(2 * 10 * 9.81), rtol=1e-9)


@BOTH
def test_time_and_state_of_an_event_are_differentiable(x64, options):
    by_height = purax.grad(lambda h: hit(h, **options).t)
    np.testing.assert_allclose(by_height(10.0), np.sqrt(1 / (2 * 9.81 * 10)), rtol=1e-7)
    np.testing.assert_allclose(purax.grad(by_height)(10.0), -0.5 * np.sqrt(1 / (2 * 9.81 * 1000)), rtol=1e-6)
    by_gravity = purax.grad(lambda g: hit(10.0, g, **options).t)
    np.testing.assert_allclose(by_gravity(9.81), -0.5 * np.sqrt(20 / 9.81**3), rtol=1e-7)
    speed = purax.grad(lambda h: hit(h, **options).y["speed"])
    np.testing.assert_allclose(speed(10.0), -np.sqrt(2 * 9.81 / 10) / 2, rtol=1e-7)


def test_an_event_that_does_not_happen_ends_at_the_last_time():
    decay = lambda end: odeint_event(lambda y, t: -y, lambda y, t: y, 1.0, pnp.stack([0.0, end]), **LOOSE)
    nothing = decay(2.0)
    assert not bool(nothing.found)
    np.testing.assert_allclose([nothing.t, nothing.y], [2, np.exp(-2)], rtol=1e-4)
    np.testing.assert_allclose(purax.grad(lambda end: decay(end).t)(2.0), 1.0)


def test_an_event_that_is_zero_at_the_start_is_the_next_one(x64):
    thrown = lambda y, t: pnp.stack([y[1], -9.81 + 0 * t])
    found = odeint_event(thrown, lambda y, t: y[0], pnp.array([0.0, 4.0]), pnp.array([0.0, 5.0]))
    np.testing.assert_allclose(found.t, 2 * 4 / 9.81, rtol=1e-8)


def test_events_of_lanes():
    found = purax.vmap(lambda h: hit(h).t)(pnp.array([1.0, 10.0]))
    np.testing.assert_allclose(found, np.sqrt(2 * np.array([1, 10]) / 9.81), rtol=1e-4)


# --- mistakes -----------------------------------------------------------------------------------------------------------------

UNIT = pnp.array([0.0, 1.0])


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: odeint(lambda y, t: y, 1.0, pnp.arange(3)), errors.DTypeError, "array of floats, but got int32"),
        (lambda: odeint(lambda y, t: y, 1.0, pnp.zeros((2, 2))), errors.ShapeError, "vector of times"),
        (lambda: odeint(lambda y, t: pnp.ones(3), pnp.ones(2), UNIT), errors.ShapeError, r"\(3,\).*\(2,\)"),
        (lambda: odeint(lambda y, t: 1j * y, 1.0, UNIT), errors.DTypeError, "imaginary"),
        (lambda: odeint(lambda y, t, a: y, 1.0, UNIT, "text"), errors.NonArrayArgumentError, "args"),
        (lambda: odeint(lambda y, t: y, 1.0, UNIT, derivative="exact"), ValueError, "'adjoint' or 'direct'"),
        (lambda: odeint(lambda y, t: y, 1.0, UNIT, derivative="direct"), ValueError, "max_steps"),
        (lambda: odeint(lambda y, t: y, 1.0, UNIT, rtol=-1.0), ValueError, "rtol must not be negative"),
        (lambda: odeint(lambda y, t: y, 1.0, UNIT, rtol=0.0, atol=0.0), ValueError, "both 0"),
        (lambda: odeint_event(lambda y, t: y, lambda y, t: y, 1.0, UNIT, hmax=np.nan), ValueError, "hmax"),
    ],
    ids=[
        "integer-times",
        "matrix-of-times",
        "wrong-size",
        "complex-rate",
        "text",
        "derivative",
        "no-steps",
        "rtol",
        "exact",
        "hmax",
    ],
)
def test_mistakes_are_named(call, error, words):
    with pytest.raises(error, match=words):
        call()
