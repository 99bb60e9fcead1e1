# SPDX-License-Identifier: Apache-2.0
"""Iterative solvers, minimization, vector quantization and rotations."""

import numpy as np
import pytest
import scipy.cluster.vq
import scipy.optimize
import scipy.spatial.transform as reference

import purax
from purax import numpy as pnp
from purax import random
from purax.scipy import cluster
from purax.scipy.optimize import minimize
from purax.scipy.sparse import linalg
from purax.scipy.spatial.transform import Rotation, Slerp

rng = np.random.default_rng(0)
A = rng.normal(size=(6, 6)).astype(np.float32)
H = (A @ A.T + 6 * np.eye(6)).astype(np.float32)
G = (A + 6 * np.eye(6)).astype(np.float32)
B = rng.normal(size=6).astype(np.float32)
SOLVERS = [
    ("cg", H, {}),
    ("bicgstab", G, {}),
    ("gmres", G, {}),
    ("gmres", G, {"restart": 3, "solve_method": "incremental"}),
]


def close(got, want, tolerance=1e-4):
    np.testing.assert_allclose(np.asarray(got), want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("name", "matrix", "options"), SOLVERS)
def test_solutions_and_their_derivatives(name, matrix, options):
    solve = getattr(linalg, name)
    x = np.linalg.solve(matrix, B)
    close(solve(matrix, B, tol=1e-6, **options)[0], x)
    close(solve(matrix, B, tol=1e-6, M=np.diag(1 / np.diag(matrix)), **options)[0], x)
    gradient = purax.grad(lambda a: solve(a, B, tol=1e-7, **options)[0].sum())(matrix)
    close(gradient, -np.outer(np.linalg.solve(matrix.T, np.ones(6)), x))


def test_operators_on_pytrees_and_wrong_operators():
    b = {"a": pnp.ones(3), "b": pnp.asarray(B)}
    x, _ = linalg.cg(lambda t: {"a": 4 * t["a"], "b": 2 * t["b"]}, b)
    close(x["b"], B / 2)
    with pytest.raises(ValueError, match="must be square"):
        linalg.cg(pnp.ones((2, 3)), pnp.ones(2))
    with pytest.raises(TypeError, match="function or a matrix"):
        linalg.cg([[1]], pnp.ones(1))


def rosenbrock(x):
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def himmelblau(x):
    return (x[0] ** 2 + x[1] - 11) ** 2 + (x[0] + x[1] ** 2 - 7) ** 2


METHODS = ("BFGS", "L-BFGS")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("transform", [lambda f: f, purax.jit])
def test_minimization_ends_where_the_gradient_is_small(method, transform):
    found = transform(
        lambda x: minimize(rosenbrock, x, method=method, options={"ftol": 0.0} if method != "BFGS" else None)
    )(np.zeros(5, np.float32))
    assert bool(found.success) and int(found.status) == 0
    assert np.abs(np.asarray(found.jac)).max() < 1e-5
    close(found.x, np.ones(5), 1e-3)
    steep = minimize(lambda x, a: pnp.mean((1e4 * (x - a)) ** 2), pnp.ones(2), (3.0,), method=method)
    close(steep.x, [3, 3])


@pytest.mark.parametrize("start", [(1, 1), (-3, 0), (92, 1e-3)])
def test_bfgs_finds_the_minimum_that_scipy_finds(start):
    """The function has four minima: which one is found depends on every step."""
    start = np.array(start, np.float64)
    close(
        minimize(himmelblau, start, method="BFGS").x, scipy.optimize.minimize(himmelblau, start, method="BFGS").x, 1e-4
    )


def test_bfgs_knows_the_second_derivatives_of_a_quadratic():
    matrix = np.array([[3, 1], [1, 2]], np.float32)
    found = minimize(lambda x: x @ matrix @ x / 2 - x.sum(), pnp.zeros(2), method="BFGS")
    close(found.hess_inv, np.linalg.inv(matrix), 1e-3)


def test_complex_vectors_are_pairs_of_reals():
    goal = np.array([1, 2 - 3j, -5j], np.complex64)
    weights = np.array([1, 2, 3], np.float32)
    with purax.numpy_dtype_promotion("strict"), purax.numpy_rank_promotion("raise"):
        found = minimize(lambda z: (weights * pnp.abs(z - goal) ** 2).sum(), np.zeros(3, np.complex64), method="L-BFGS")
    assert bool(found.success)
    close(found.x, goal)
    with pytest.raises(ValueError, match="reals"):
        minimize(lambda z: pnp.abs(z).sum(), goal, method="BFGS")


@pytest.mark.parametrize("method", METHODS)
def test_what_ends_a_minimization(method):
    few = minimize(rosenbrock, np.zeros(2, np.float32), method=method, options={"maxiter": 2})
    assert not bool(few.success) and int(few.status) == 1
    endless = minimize(lambda x: x.sum(), np.zeros(2, np.float32), method=method)
    assert not bool(endless.success) and int(endless.status) == 5
    with pytest.raises(TypeError, match="tuple"):
        minimize(rosenbrock, pnp.zeros(2), args=3, method=method)
    with pytest.raises(TypeError, match="no options"):
        minimize(rosenbrock, pnp.zeros(2), method=method, options={"step": 1})
    with pytest.raises(ValueError, match="not recognized"):
        minimize(rosenbrock, pnp.zeros(2), method="newton")


def test_nearest_codes():
    data, codes = rng.normal(size=(10, 3)).astype(np.float32), rng.normal(size=(4, 3)).astype(np.float32)
    for got, want in zip(cluster.vq.vq(data, codes), scipy.cluster.vq.vq(data, codes), strict=True):
        close(got, want)


Q = rng.normal(size=(7, 4)).astype(np.float32)
V = rng.normal(size=(7, 3)).astype(np.float32)
OURS, THEIRS = Rotation.from_quat(Q), reference.Rotation.from_quat(Q)


@pytest.mark.parametrize("seq", ["xyz", "XYZ", "zxz", "ZXZ", "yzx", "ZYX", "YXY"])
def test_angles_of_rotations(seq):
    close(OURS.as_euler(seq), THEIRS.as_euler(seq))
    close(Rotation.from_euler(seq, V, True).as_matrix(), reference.Rotation.from_euler(seq, V, True).as_matrix())


def test_forms_of_rotations():
    for name in ("as_matrix", "as_mrp", "as_quat", "as_rotvec", "magnitude"):
        close(getattr(OURS, name)(), getattr(THEIRS, name)())
        close(getattr(OURS[0], name)(), getattr(THEIRS[0], name)())
    close(OURS.as_quat(canonical=True, scalar_first=True), THEIRS.as_quat(canonical=True, scalar_first=True))
    for name, x in (("from_matrix", THEIRS.as_matrix()), ("from_mrp", V), ("from_rotvec", V), ("from_rotvec", 0 * V)):
        close(getattr(Rotation, name)(x).as_matrix(), getattr(reference.Rotation, name)(x).as_matrix())


def test_work_of_rotations():
    close(OURS.apply(V), THEIRS.apply(V))
    close(OURS[0].apply(V, inverse=True), THEIRS[0].apply(V, inverse=True))
    close((OURS * OURS[0]).as_matrix(), (THEIRS * THEIRS[0]).as_matrix())
    close(OURS.inv().as_matrix(), THEIRS.inv().as_matrix())
    close(OURS.mean().as_matrix(), THEIRS.mean().as_matrix())
    assert len(Rotation.concatenate([OURS, OURS[0]])) == 8
    close(pnp.linalg.norm(Rotation.random(random.key(0), 5).quat, axis=1), np.ones(5))
    times = np.arange(7.0)
    at = np.array([0.5, 3.2, 6.0])
    close(Slerp.init(times, OURS)(at).as_matrix(), reference.Slerp(times, THEIRS)(at).as_matrix())
