# SPDX-License-Identifier: Apache-2.0
"""Roots, fixed points and least squares: against SciPy, and their implicit derivatives against closed forms and differences."""

import numpy as np
import pytest
import scipy.optimize

import purax
from purax import errors
from purax import numpy as pnp
from purax.scipy import optimize


@pytest.fixture(autouse=True)
def _x64():
    with purax.enable_x64(True):
        yield


def central(fun, x, h=1e-6):
    return (fun(x + h) - fun(x - h)) / (2 * h)


def system(x, a):
    return pnp.stack([x[0] ** 2 + x[1] ** 2 - a, x[0] - x[1] ** 3])


@pytest.mark.parametrize("method", ["newton", "lm"])
def test_a_system_of_equations(method):
    found = optimize.root(system, np.array([1.0, 0.5]), (4.0,), method)
    exact = scipy.optimize.root(lambda x: np.asarray(system(x, 4.0)), [1.0, 0.5]).x
    assert bool(found.success)
    np.testing.assert_allclose(found.x, exact, rtol=1e-8)
    solution = lambda a: optimize.root(system, np.array([1.0, 0.5]), (a,), method).x[0]
    for transform in (purax.grad, purax.jacfwd, lambda f: purax.jit(purax.grad(f))):
        np.testing.assert_allclose(transform(solution)(4.0), central(solution, 4.0), rtol=1e-6)
    np.testing.assert_allclose(purax.grad(purax.grad(solution))(4.0), central(purax.grad(solution), 4.0), rtol=1e-5)


def test_steps_that_are_too_long_are_halved():
    # Newton's full steps diverge for arctan from here
    assert float(optimize.root(pnp.arctan, 3.0).x) == pytest.approx(0, abs=1e-12)


def test_a_root_that_does_not_exist_is_no_success():
    for method in ("newton", "lm"):
        assert not bool(optimize.root(lambda x: x**2 + 1, 1.0, method=method).success)


def test_roots_of_lanes_and_what_is_captured():
    a = pnp.array([1.0, 4.0, 9.0])
    roots = purax.vmap(lambda a: optimize.root(lambda x: x**2 - a, 1.5).x)
    np.testing.assert_allclose(roots(a), [1, 2, 3], rtol=1e-10)
    np.testing.assert_allclose(purax.grad(lambda a: pnp.sum(roots(a)))(a), [1 / 2, 1 / 4, 1 / 6], rtol=1e-8)


@pytest.mark.parametrize("how", [{"bracket": (0.0, 3.0)}, {"x0": 1.0}], ids=["bracket", "newton"])
def test_functions_of_one_variable(how):
    solution = lambda a: optimize.root_scalar(lambda x, a: x**3 - a, (a,), **how).x
    np.testing.assert_allclose(solution(2.0), 2 ** (1 / 3), rtol=1e-12)
    np.testing.assert_allclose(purax.grad(solution)(2.0), 2 ** (-2 / 3) / 3, rtol=1e-10)


def test_brackets_work_elementwise_and_say_when_they_hold_nothing():
    a = np.array([1.0, 2.0, 3.0])
    found = optimize.root_scalar(lambda x: x**2 - a, bracket=(np.zeros(3), np.full(3, 5.0)))
    np.testing.assert_allclose(found.x, np.sqrt(a), rtol=1e-14)
    nothing = optimize.root_scalar(lambda x: x**2 + 1, bracket=(0.0, 1.0))
    assert np.isnan(nothing.x)
    assert not bool(nothing.success)


def test_fixed_points():
    found = optimize.fixed_point(pnp.cos, 1.0)
    np.testing.assert_allclose(found.x, scipy.optimize.fixed_point(np.cos, 1.0), rtol=1e-10)
    solution = lambda a: optimize.fixed_point(lambda x, a: a * pnp.cos(x), 1.0, (a,)).x
    np.testing.assert_allclose(purax.grad(solution)(0.9), central(solution, 0.9), rtol=1e-6)


# --- least squares ------------------------------------------------------------------------------------------------------------

T = np.linspace(0, 2, 15)
Y = 2.5 * np.exp(-1.3 * T) + 0.3 + 0.05 * np.random.default_rng(0).normal(size=15)


def misfit(p, y):
    return p[0] * pnp.exp(p[1] * T) + p[2] - y


def test_a_curve_is_fitted_as_scipy_fits_it():
    found = optimize.least_squares(misfit, np.array([1.0, -0.5, 0.0]), (Y,))
    exact = scipy.optimize.least_squares(lambda p: np.asarray(misfit(p, Y)), [1.0, -0.5, 0.0], xtol=1e-14, gtol=1e-14)
    assert bool(found.success)
    np.testing.assert_allclose(found.x, exact.x, rtol=1e-6)
    np.testing.assert_allclose(found.cost, exact.cost, rtol=1e-10)


def test_the_fit_moves_with_the_data():
    fit = lambda y: optimize.least_squares(misfit, np.array([1.0, -0.5, 0.0]), (y,)).x[1]
    direction = np.random.default_rng(1).normal(size=15)
    expected = central(lambda h: fit(Y + h * direction), 0.0, 1e-4)
    np.testing.assert_allclose(purax.grad(fit)(Y) @ direction, expected, rtol=1e-4)
    np.testing.assert_allclose(purax.jvp(fit, (Y,), (direction,))[1], expected, rtol=1e-4)


def test_valleys_and_singular_starts():
    rosenbrock = lambda x: pnp.stack([10 * (x[1] - x[0] ** 2), 1 - x[0]])
    np.testing.assert_allclose(optimize.least_squares(rosenbrock, np.array([-1.2, 1.0])).x, [1, 1], rtol=1e-8)
    # the Jacobian is zero at the start
    found = optimize.least_squares(lambda x: pnp.stack([x[0] * x[1] - 1, x[0] - x[1]]), np.array([0.0, 1e-3]))
    np.testing.assert_allclose(np.abs(found.x), [1, 1], rtol=1e-6)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: optimize.root(lambda x: x[:1], np.ones(2)), errors.ShapeError, "as many equations"),
        (lambda: optimize.root(lambda x: x, 1.0, method="hybr"), ValueError, "'newton' or 'lm'"),
        (lambda: optimize.root_scalar(lambda x: x), ValueError, "either bracket"),
        (lambda: optimize.fixed_point(lambda x: x[:1], np.ones(2)), errors.ShapeError, "returned shape"),
        (lambda: optimize.least_squares(lambda x: x, 1j), ValueError, "must be real"),
    ],
    ids=["equations", "method", "start", "shape", "complex"],
)
def test_mistakes_are_named(call, error, words):
    with pytest.raises(error, match=words):
        call()
