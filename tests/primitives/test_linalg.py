# SPDX-License-Identifier: Apache-2.0
"""Factorizations: samples for the laws, reconstruction, and derivatives where values repeat or matrices are singular."""

import numpy as np
import pytest

import purax
from purax import errors
from purax.primitives import elementwise, lapack, linalg, reduction
from tests.laws.sample import BadSample, Sample

rng = np.random.default_rng(7)


def normal(*sizes, dtype=np.float32):
    """Normal numbers, complex if asked for."""
    x = rng.standard_normal(sizes)
    return (x + 1j * rng.standard_normal(sizes) if np.dtype(dtype).kind == "c" else x).astype(dtype)


def definite(n, dtype=np.float32):
    """A well conditioned positive definite matrix with distinct eigenvalues."""
    q = np.linalg.qr(normal(n, n, dtype=np.complex128 if np.dtype(dtype).kind == "c" else np.float64))[0]
    return ((q * np.linspace(1, 4, n)) @ q.conj().T).astype(dtype)


F, C = np.float32, np.complex64
SOLVE = {"left_side": True, "lower": True, "transpose_a": False, "conjugate_a": False, "unit_diagonal": False}
VARIANTS = [
    SOLVE, SOLVE | {"lower": False}, SOLVE | {"left_side": False}, SOLVE | {"transpose_a": True}, SOLVE | {"unit_diagonal": True},
    SOLVE | {"left_side": False, "lower": False, "transpose_a": True},
]  # fmt: skip
SVD = {"full_matrices": False, "compute_uv": True, "algorithm": None}
QR = {"full_matrices": False, "pivoting": False}


def gauge(primitive, operands, params):
    """A sample whose vectors are free to turn: derivatives are tested below by what does not depend on them."""
    return Sample(primitive, operands, params, differentiable=())


def factored(a, b):
    """Operands of factored_solve."""
    packed, _, permutation = linalg.lu_p.reference(a[::-1].copy())
    return a[::-1].copy(), packed, permutation, b


SAMPLES = [
    *(Sample(linalg.triangular_solve_p, (definite(3, d), normal(3, 3, dtype=d)), v, tolerance=1e-3) for d in (F, C) for v in VARIANTS),
    Sample(linalg.triangular_solve_p, (definite(3, C), normal(3, 2, dtype=C)), SOLVE | {"transpose_a": True, "conjugate_a": True},
           tolerance=1e-3, differentiable=(1,)),
    *(Sample(linalg.factored_solve_p, factored(definite(3, d), normal(3, 2, dtype=d)), {"transposed": t}, differentiable=(3,),
             tolerance=1e-3) for d in (F, C) for t in (False, True)),
    *(Sample(linalg.tridiagonal_solve_p, (normal(4, dtype=d), normal(4, dtype=d) + d(5), normal(4, dtype=d), normal(4, 2, dtype=d)),
             {"perturbed": p}, tolerance=1e-3) for d in (F, C) for p in (False, True)),
    *(Sample(linalg.cholesky_p, (definite(4, d),), tolerance=1e-3) for d in (F, C)),
    *(Sample(linalg.lu_p, (normal(*s, dtype=d),), tolerance=2e-3) for d in (F, C) for s in ((3, 3), (4, 2), (2, 4))),
    *(Sample(linalg.qr_p, (normal(*s, dtype=d),), QR, tolerance=2e-3) for d in (F, C) for s in ((3, 3), (4, 2), (2, 4))),
    Sample(linalg.qr_p, (normal(3, 3),), {"full_matrices": True, "pivoting": True}, tolerance=2e-3),
    gauge(linalg.qr_p, (normal(4, 2),), {"full_matrices": True, "pivoting": False}),
    *(Sample(linalg.svd_p, (normal(*s, dtype=d),), SVD | {"compute_uv": False}, tolerance=1e-3) for d in (F, C) for s in ((3, 3), (4, 2), (2, 4))),
    Sample(linalg.svd_p, (normal(3, 3),), SVD, tolerance=2e-3),
    Sample(linalg.svd_p, (normal(4, 2),), SVD | {"algorithm": linalg.SvdAlgorithm.QR}, tolerance=2e-3),
    gauge(linalg.svd_p, (normal(2, 4, dtype=C),), SVD),
    *(Sample(linalg.eigh_p, (definite(3),), {"lower": lower}, tolerance=2e-3) for lower in (True, False)),
    gauge(linalg.eigh_p, (definite(3, C),), {"lower": True}),
    *(gauge(linalg.eig_p, (np.tril(normal(3, 3, dtype=d)) + np.diag([1, 5, 9]).astype(d),), {"left": both, "right": both})
      for d in (F, C) for both in (False, True)),
    Sample(linalg.schur_p, (normal(3, 3),), {"vectors": True}, differentiable=(), tolerance=2e-3),
    Sample(linalg.hessenberg_p, (normal(4, 4),), {}, differentiable=(), tolerance=1e-3),
    *(Sample(linalg.tridiagonal_p, (definite(4, d),), {"lower": True}, differentiable=(), tolerance=1e-3) for d in (F, C)),
    *(Sample(linalg.geqrf_p, (normal(4, 3, dtype=d),), {}, differentiable=(), tolerance=1e-3) for d in (F, C)),
    Sample(linalg.geqp3_p, (normal(4, 3), np.zeros(3, np.int32)), {}, differentiable=(), tolerance=1e-3),
    Sample(linalg.householder_product_p, linalg.geqrf_p.reference(normal(4, 3)), {}, differentiable=(), tolerance=1e-3),
    *(Sample(linalg.ormqr_p, (*linalg.geqrf_p.reference(normal(4, 3)), normal(4, 4)), {"left": left, "transpose": transpose},
             differentiable=(), tolerance=1e-3) for left in (True, False) for transpose in (True, False)),
    Sample(linalg.lu_pivots_to_permutation_p, (np.array([[2, 1, 3], [1, 3, 3]], np.int32),), {"permutation_size": 5}),
    *(Sample(linalg.det_p, (normal(n, n, dtype=d),), tolerance=1e-3) for d in (F, C) for n in (1, 2, 3, 4)),
    *(Sample(linalg.slogdet_p, (normal(2, 3, 3, dtype=d),), tolerance=1e-3) for d in (F, C)),
    Sample(linalg.cholesky_update_p, (np.triu(normal(3, 3)) + 2 * np.eye(3, dtype=F), normal(3)), tolerance=1e-3),
    *(Sample(linalg.symmetric_product_p, (normal(2, 3, 2, dtype=d), normal(2, 3, 3, dtype=d)), {"alpha": 2.0, "beta": 0.5}, tolerance=1e-3)
      for d in (F, C)),
    *(gauge(p, (np.zeros((0, 0), F),), params) for p, params in (
        (linalg.cholesky_p, {}), (linalg.lu_p, {}), (linalg.det_p, {}), (linalg.eigh_p, {"lower": True}), (linalg.svd_p, SVD))),
    gauge(linalg.qr_p, (np.zeros((3, 0), F),), {"full_matrices": True, "pivoting": False}),
]  # fmt: skip
BAD_SAMPLES = [
    BadSample(linalg.cholesky_p, (normal(3, 4),), {}, errors.ShapeError, "must be square"),
    BadSample(linalg.svd_p, (np.ones((2, 2), np.int32),), SVD, errors.DTypeError, "int32"),
    BadSample(linalg.triangular_solve_p, (normal(3, 3), normal(2, 3)), SOLVE, errors.ShapeError, "do not fit"),
    BadSample(linalg.cholesky_update_p, (normal(3, 3), normal(4)), {}, errors.ShapeError, "row of the matrix"),
    BadSample(
        linalg.symmetric_product_p,
        (normal(3, 2), normal(2, 2)),
        {"alpha": 1.0, "beta": 1.0},
        errors.ShapeError,
        "takes a",
    ),
]


def total(x):
    """Sum of squared absolute values."""
    x = lapack.real_part(elementwise.mul(x, lapack.conjugated(x)))
    return reduction.reduce_sum(x, tuple(range(np.ndim(x))))


def rebuilt(a):
    """The matrix from its own decomposition."""
    u, s, vh = linalg.svd(a, full_matrices=False)
    return lapack.matmul(lapack.columns_scaled(u, s), vh)


def test_the_gradient_through_svd_is_right_at_repeated_singular_values():
    a = np.diag([1.0, 1.0, 2.0, 3.0]).astype(np.float32)
    gradient = purax.grad(lambda x: elementwise.sqrt(total(rebuilt(x))))(a)
    np.testing.assert_allclose(gradient, a / np.sqrt(15.0), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("sizes", [(3, 3), (4, 2), (2, 4)])
@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("dtype", [F, C])
def test_what_svd_rebuilds_has_the_identity_as_derivative(sizes, full, dtype):
    a, da = normal(*sizes, dtype=dtype), normal(*sizes, dtype=dtype)

    def rebuild(x):
        u, s, vh = linalg.svd(x, full_matrices=full)
        k = min(sizes)
        return lapack.matmul(
            lapack.columns_scaled(lapack.block_of(u, sizes[0], k), s), lapack.block_of(vh, k, sizes[1])
        )

    out, tangent = purax.jvp(rebuild, (a,), (da,))
    np.testing.assert_allclose(out, a, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(tangent, da, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("pivoting", [False, True])
@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("sizes", [(3, 3), (4, 2), (2, 4)])
def test_what_qr_rebuilds_has_the_identity_as_derivative(sizes, full, pivoting):
    a, da = normal(*sizes), normal(*sizes)

    def rebuild(x):
        q, r, *_ = linalg.qr(x, full_matrices=full, pivoting=pivoting)
        return lapack.matmul(q, r), lapack.matmul(lapack.adjoint(q), q)

    (out, gram), (tangent, turned) = purax.jvp(rebuild, (a,), (da,))
    order = linalg.qr(a, pivoting=True)[2] if pivoting else np.arange(sizes[1])
    np.testing.assert_allclose(out, a[:, np.asarray(order)], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(tangent, da[:, np.asarray(order)], rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(turned, np.zeros_like(gram), atol=1e-4)


@pytest.mark.parametrize("dtype", [F, C])
def test_what_eigh_rebuilds_has_the_identity_as_derivative(dtype):
    a, da = definite(3, dtype), definite(3, dtype)

    def rebuild(x):
        v, w = linalg.eigh(x)
        return lapack.matmul(lapack.columns_scaled(v, w), lapack.adjoint(v))

    out, tangent = purax.jvp(rebuild, (a,), (da,))
    np.testing.assert_allclose(out, a, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(tangent, da, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("dtype", [F, C])
def test_what_eig_rebuilds_has_the_identity_as_derivative(dtype):
    a, da = normal(3, 3, dtype=dtype), normal(3, 3, dtype=dtype)

    def rebuild(x):
        w, vl, vr = linalg.eig(x)
        right = lapack.matmul(lapack.columns_scaled(vr, w), linalg.linear_solve(vr, lapack.eye(vr, 3, 3)))
        left = lapack.matmul(
            lapack.columns_scaled(vl, lapack.conjugated(w)), linalg.linear_solve(vl, lapack.eye(vl, 3, 3))
        )
        return right, lapack.adjoint(left), lapack.real_part(lapack.diagonal(lapack.matmul(lapack.adjoint(vr), vr)))

    outs, tangents = purax.jvp(rebuild, (a,), (da,))
    for out, tangent in zip(outs[:2], tangents[:2], strict=True):
        np.testing.assert_allclose(out, a, rtol=1e-3, atol=1e-3)
        np.testing.assert_allclose(tangent, da, rtol=1e-2, atol=1e-2)
    np.testing.assert_allclose(outs[2], np.ones(3), rtol=1e-5)
    np.testing.assert_allclose(tangents[2], np.zeros(3), atol=1e-4)


@pytest.mark.parametrize("dtype", [F, C])
def test_linear_solve_differentiates_by_the_matrix_and_factors_once(dtype):
    a, b, da = definite(3, dtype), normal(3, 2, dtype=dtype), normal(3, 3, dtype=dtype)
    x, tangent = purax.jvp(lambda m: linalg.linear_solve(m, b), (a,), (da,))
    np.testing.assert_allclose(x, np.linalg.solve(a, b), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(tangent, -np.linalg.solve(a, da @ np.linalg.solve(a, b)), rtol=1e-3, atol=1e-3)
    out, pullback = purax.vjp(lambda m, v: linalg.linear_solve(m, v), a, b)
    ct = normal(3, 2, dtype=dtype)
    by_b = np.linalg.solve(a.T, ct)
    ga, gb = pullback(ct)
    np.testing.assert_allclose(gb, by_b, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(ga, -by_b @ np.asarray(out).T, rtol=1e-3, atol=1e-3)
    names = [
        e.primitive.name for e in purax.make_jaxpr(lambda m, v: purax.vjp(linalg.linear_solve, m, v)[1](ct))(a, b).eqns
    ]
    assert names.count("lu") == 1


def test_eigenvalues_of_a_repeated_matrix_have_a_finite_gradient():
    gradient = purax.grad(lambda x: reduction.reduce_sum(elementwise.square(linalg.eigh(x)[1]), (0,)))(
        np.eye(3, dtype=F)
    )
    np.testing.assert_allclose(gradient, 2 * np.eye(3), atol=1e-6)
    gradient = purax.grad(lambda x: total(linalg.svd(x, compute_uv=False)))(np.zeros((3, 2), F))
    np.testing.assert_array_equal(gradient, np.zeros((3, 2)))


def test_the_gradient_of_det_is_right_at_singular_matrices():
    def gradient(a):
        return np.asarray(
            purax.grad(lambda x: reduction.reduce_sum(linalg.det(x), tuple(range(a.ndim - 2))))(a.astype(F))
        )

    np.testing.assert_allclose(gradient(np.ones((2, 2))), [[1, -1], [-1, 1]], atol=1e-6)
    np.testing.assert_array_equal(gradient(np.zeros((3, 3))), np.zeros((3, 3)))
    np.testing.assert_array_equal(gradient(np.zeros((5, 5))), np.zeros((5, 5)))
    np.testing.assert_allclose(gradient(np.diag([2.0, 3.0, 0.0, 5.0])), np.diag([0, 0, 30.0, 0]), atol=1e-5)
    pair = np.stack([np.diag([2.0, 3.0]), np.diag([4.0, 5.0])])
    np.testing.assert_allclose(gradient(pair), [[[3, 0], [0, 2]], [[5, 0], [0, 4]]], atol=1e-6)


@pytest.mark.parametrize("n", [2, 4])
def test_second_derivatives_of_det_at_the_identity(n):
    a, b = normal(n, n), normal(n, n)
    eye = np.eye(n, dtype=F)
    _, second = purax.jvp(lambda x: purax.jvp(linalg.det, (x,), (a,))[1], (eye,), (b,))
    np.testing.assert_allclose(second, np.trace(a) * np.trace(b) - np.trace(a @ b), rtol=1e-3, atol=1e-4)


def test_slogdet_of_a_singular_matrix_keeps_unselected_gradients_clean():
    sign, log = linalg.slogdet(np.zeros((2, 2), F))
    assert float(sign) == 0 and float(log) == -np.inf

    def guarded(x):
        return elementwise.select(np.bool_(False), linalg.slogdet(x)[1], np.float32(1.0))

    np.testing.assert_array_equal(purax.grad(guarded)(np.zeros((2, 2), F)), np.zeros((2, 2)))


def test_failures_give_nan():
    assert np.isnan(np.asarray(linalg.cholesky(-np.eye(2, dtype=F)))).any()
    stacked = np.stack([np.eye(2), -np.eye(2)]).astype(F)
    got = np.asarray(linalg.cholesky(stacked))
    np.testing.assert_array_equal(got[0], np.eye(2))
    assert np.isnan(got[1]).any()


def test_small_functions_of_factorizations():
    r, w = np.linalg.cholesky(definite(3)).T.astype(F), normal(3)
    new = np.asarray(linalg.cholesky_update(r, w))
    np.testing.assert_allclose(new.T @ new, r.T @ r + np.outer(w, w), rtol=1e-4, atol=1e-4)
    a, c = normal(3, 2), definite(3)
    np.testing.assert_allclose(
        linalg.symmetric_product(a, c, alpha=2.0, beta=3.0, symmetrize_output=True), 2 * a @ a.T + 3 * c, rtol=1e-4
    )
    u, *_ = linalg.qdwh(normal(4, 3))
    np.testing.assert_allclose(np.asarray(u).T @ np.asarray(u), np.eye(3), atol=1e-5)
    b = normal(3)
    np.testing.assert_allclose(
        linalg.triangular_solve(np.tril(c), b, left_side=True, lower=True), np.linalg.solve(np.tril(c), b), rtol=1e-4
    )


@pytest.mark.parametrize("transform", [lambda f: f, purax.vmap])
def test_singular_tridiagonal_systems_have_large_solutions_when_perturbed(transform):
    """The second pivot is zero although no entry of the diagonal is."""
    parts = [np.array(x, F) for x in ([0, 1], [1, 3], [3, 0], [[1], [4]])]
    if transform is purax.vmap:
        parts = [np.stack([x, x]) for x in parts]
    plain = transform(lambda *x: linalg.tridiagonal_solve(*x))(*parts)
    assert not np.isfinite(np.asarray(plain)).all()
    found = np.asarray(transform(lambda *x: linalg.tridiagonal_solve(*x, perturb_singular=True))(*parts))
    assert np.isfinite(found).all() and (np.abs(found) > 1e6).all()


@pytest.mark.parametrize("transform", [lambda f: f, purax.jit])
def test_polar_decomposition_of_a_part_of_a_matrix(transform):
    a = normal(5, 5)
    u, h, _, converged = transform(lambda x, m, n: linalg.qdwh(x, dynamic_shape=(m, n)))(a, 4, 3)
    u, h = np.asarray(u)[:4, :3], np.asarray(h)[:3, :3]
    np.testing.assert_allclose(u @ h, a[:4, :3], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(u.T @ u, np.eye(3), atol=1e-5)
    assert bool(converged)


def test_polar_decomposition_of_a_singular_matrix_is_a_partial_isometry():
    a = np.zeros((4, 3), F)
    a[1, 2] = -np.finfo(F).tiny
    u, h, *_ = linalg.qdwh(a)
    np.testing.assert_array_equal(u, np.sign(a))
    np.testing.assert_array_equal(h, np.diag([0, 0, np.finfo(F).tiny]).astype(F))
