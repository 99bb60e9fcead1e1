# SPDX-License-Identifier: Apache-2.0
"""Implicit differentiation of linear solves and roots."""

import numpy as np
import pytest

import purax
from purax import lax
from purax import numpy as pnp
from purax.experimental import checkify

RNG = np.random.default_rng(3)
A = (RNG.standard_normal((3, 3)) + 4 * np.eye(3)).astype(np.float32)
B = RNG.standard_normal(3).astype(np.float32)


def gauss(matvec, b):
    """Solve by writing the matrix out and eliminating: no derivative rule of its own is ever used."""
    matrix = purax.vmap(matvec, out_axes=1)(pnp.eye(3))
    augmented = pnp.concatenate([matrix, b[:, None]], 1)
    for i in range(3):
        augmented = augmented.at[i].divide(augmented[i, i])
        factor = augmented[:, i].at[i].set(0.0)
        augmented = augmented - factor[:, None] * augmented[i]
    return lax.stop_gradient(augmented[:, 3])


def solve(a, b, **options):
    return lax.custom_linear_solve(lambda x: a @ x, b, gauss, gauss, **options)


def loss(a, b):
    return (solve(a, b) ** 3).sum()


def test_the_solution_solves():
    np.testing.assert_allclose(solve(A, B), np.linalg.solve(A, B), rtol=1e-4)
    np.testing.assert_allclose(purax.jit(solve)(A, B), np.linalg.solve(A, B), rtol=1e-4)


def test_derivatives_are_implicit_in_both_modes():
    x = np.linalg.solve(A, B)
    adjoint = np.linalg.solve(A.T, 3 * x**2)
    for grad in (purax.grad(loss, (0, 1)), purax.jit(purax.grad(loss, (0, 1)))):
        by_a, by_b = grad(A, B)
        np.testing.assert_allclose(by_a, -np.outer(adjoint, x), rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(by_b, adjoint, rtol=1e-3, atol=1e-4)
    da, db = RNG.standard_normal((3, 3)).astype(np.float32), RNG.standard_normal(3).astype(np.float32)
    _, tangent = purax.jvp(solve, (A, B), (da, db))
    np.testing.assert_allclose(tangent, np.linalg.solve(A, db - da @ x), rtol=1e-3, atol=1e-4)


def test_second_derivatives():
    found = purax.hessian(loss, 1)(A, B)
    inverse = np.linalg.inv(A)
    np.testing.assert_allclose(found, inverse.T @ np.diag(6 * inverse @ B) @ inverse, rtol=1e-3, atol=1e-3)


def test_systems_are_mapped():
    np.testing.assert_allclose(purax.vmap(solve, (None, 0))(A, np.stack([B, 2 * B])), np.stack([np.linalg.solve(A, b) for b in (B, 2 * B)]), rtol=1e-3)  # fmt: skip
    many = np.stack([A, A.T])
    np.testing.assert_allclose(
        purax.vmap(solve, (0, None))(many, B), np.stack([np.linalg.solve(a, B) for a in many]), rtol=1e-3
    )
    gradients = purax.vmap(purax.grad(loss), (0, None))(many, B)
    np.testing.assert_allclose(gradients[1], purax.grad(loss)(A.T, B), rtol=1e-3, atol=1e-4)


def test_symmetric_systems_need_one_solver():
    s = A + A.T
    fun = lambda s, b: lax.custom_linear_solve(lambda x: s @ x, b, gauss, symmetric=True).sum()
    np.testing.assert_allclose(purax.grad(fun, 1)(s, B), np.linalg.solve(s, np.ones(3)), rtol=1e-3, atol=1e-5)
    with pytest.raises(TypeError, match="transpose_solve required"):
        purax.grad(lambda b: lax.custom_linear_solve(lambda x: s @ x, b, gauss).sum())(B)


def test_solvers_may_return_more():
    with_steps = lambda matvec, b: (gauss(matvec, b), {"steps": 3})
    _, aux = lax.custom_linear_solve(lambda x: A @ x, B, with_steps, with_steps, has_aux=True)
    assert int(aux["steps"]) == 3
    fun = lambda b: lax.custom_linear_solve(lambda x: A @ x, b, with_steps, with_steps, has_aux=True)[0].sum()
    np.testing.assert_allclose(purax.grad(fun)(B), np.linalg.solve(A.T, np.ones(3)), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(
    ("matvec", "solver", "error", "part"),
    [
        (lambda x: [x], lambda f, b: b, TypeError, r"matvec\(\) output pytree"),
        (lambda x: x, lambda f, b: [b], TypeError, r"solve\(\) output pytree"),
        (lambda x: x, lambda f, b: b[:2], ValueError, r"solve\(\) output shapes"),
    ],
)
def test_functions_that_do_not_fit_are_refused(matvec, solver, error, part):
    with pytest.raises(error, match=part):
        lax.custom_linear_solve(matvec, B, solver)


# --- roots


def newton(f, guess):
    def step(_, x):
        value, slope = purax.jvp(f, (x,), (1.0,))
        return x - value / slope

    return lax.fori_loop(0, 30, step, guess)


def cube_root(c):
    return lax.custom_root(lambda x: x**3 - c, 1.0, newton, lambda g, y: y / g(1.0))


def test_a_root_and_its_derivatives():
    np.testing.assert_allclose(cube_root(8.0), 2.0, rtol=1e-5)
    for order, want in ((1, 1 / 12), (2, -2 / 9 * 8 ** (-5 / 3))):
        fun = cube_root
        for _ in range(order):
            fun = purax.grad(fun)
        np.testing.assert_allclose(fun(8.0), want, rtol=1e-4)
    np.testing.assert_allclose(purax.jvp(cube_root, (8.0,), (2.0,))[1], 1 / 6, rtol=1e-5)
    np.testing.assert_allclose(
        purax.vmap(purax.jit(purax.grad(cube_root)))(pnp.array([1.0, 8.0])), [1 / 3, 1 / 12], rtol=1e-4
    )


def test_a_root_with_more_outputs_and_structure():
    def both(c):
        solver = lambda f, guess: (guess | {"x": newton(lambda x: f({"x": x})["x"], guess["x"])}, 30)
        root, steps = lax.custom_root(
            lambda x: {"x": x["x"] ** 2 - c},
            {"x": 1.0},
            solver,
            lambda g, y: {"x": y["x"] / g({"x": 1.0})["x"]},
            has_aux=True,
        )
        return root["x"], steps

    (root, steps), gradient = purax.value_and_grad(lambda c: (both(c)[0], both(c)[1]), has_aux=True)(9.0)
    assert int(steps) == 30
    np.testing.assert_allclose([root, gradient], [3, 1 / 6], rtol=1e-5)


def test_a_root_of_another_structure_is_refused():
    with pytest.raises(TypeError, match=r"f\(\) output pytree"):
        lax.custom_root(lambda x: (x,), 1.0, newton, lambda g, y: y)
    with pytest.raises(TypeError, match=r"solve\(\) output pytree"):
        lax.custom_root(lambda x: x, 1.0, lambda f, x: (x,), lambda g, y: y)


@pytest.mark.parametrize("transform", [lambda f: f, purax.jit, purax.vmap], ids=["eager", "jit", "vmap"])
def test_solvers_may_check(transform):
    def linear(b):
        def solve(matvec, b):
            purax.check((b > 0).all(), "b is {}", b)
            return b / 2

        return lax.custom_linear_solve(lambda x: 2 * x, b, solve, symmetric=True)

    def root(x):
        def solve(f, guess):
            purax.check((x > 0).all(), "x is {}", x)
            return pnp.sqrt(x)

        return lax.custom_root(lambda y: y * y - x, pnp.ones_like(x), solve, lambda g, y: y / g(pnp.ones_like(y)))

    good = pnp.array([[4.0], [16.0]])
    for f, want in ((linear, [[2], [8]]), (root, [[2], [4]])):
        np.testing.assert_allclose(transform(f)(good), want)
        np.testing.assert_allclose(transform(lambda x, f=f: purax.grad(lambda x: f(x).sum())(x))(good) > 0, True)
        with pytest.raises(purax.errors.FailedCheckError, match="lane 1" if transform is purax.vmap else "is"):
            transform(f)(good.at[1].set(-1.0))
        error, _ = transform(checkify.checkify(f, errors=checkify.all_checks))(good.at[1].set(-1.0))
        assert error.get() is not None
