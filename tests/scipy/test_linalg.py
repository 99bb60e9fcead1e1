# SPDX-License-Identifier: Apache-2.0
"""`purax.scipy.linalg` against SciPy."""

import numpy as np
import pytest
import scipy.linalg as reference

import purax
from purax import errors
from purax import numpy as pnp
from purax.scipy import linalg

rng = np.random.default_rng(0)
A = rng.normal(size=(5, 5)).astype(np.float32)
H = (A @ A.T + np.eye(5)).astype(np.float32)
W = rng.normal(size=(5, 3)).astype(np.float32)
B = rng.normal(size=5).astype(np.float32)
C = (A + 1j * A.T).astype(np.complex64)


def close(got, want, tolerance=2e-4):
    got = got if isinstance(got, tuple) else (got,)
    want = want if isinstance(want, tuple) else (want,)
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(np.asarray(g), w, rtol=tolerance, atol=tolerance)


def test_positive_definite_systems():
    for lower in (False, True):
        close(linalg.cholesky(H, lower), reference.cholesky(H, lower))
        close(linalg.cho_solve(linalg.cho_factor(H, lower), W), np.linalg.solve(H, W))
        close(linalg.cho_solve(linalg.cho_factor(H, lower), B), np.linalg.solve(H, B))
        close(linalg.solve(H, B, lower=lower, assume_a="pos"), np.linalg.solve(H, B))
    with pytest.raises(ValueError, match="assume_a"):
        linalg.solve(H, B, assume_a="nothing")


@pytest.mark.parametrize("trans", [0, 1, 2])
@pytest.mark.parametrize("a", [A, C], ids=["real", "complex"])
def test_triangular_and_factored_systems(a, trans):
    low = np.tril(a) + 3 * np.eye(5, dtype=a.dtype)
    close(linalg.solve_triangular(low, B, trans, lower=True), reference.solve_triangular(low, B, trans, lower=True))
    close(linalg.solve_triangular(low.T, W, "NTC"[trans]), reference.solve_triangular(low.T, W, trans))
    close(linalg.lu_solve(linalg.lu_factor(low), W, trans), reference.lu_solve(reference.lu_factor(low), W, trans))


@pytest.mark.parametrize("a", [A, W, W.T, C], ids=["square", "tall", "wide", "complex"])
def test_factors(a):
    close(linalg.lu(a), reference.lu(a))
    close(linalg.lu(a, permute_l=True), reference.lu(a, permute_l=True))
    for mode in ("full", "economic", "r"):
        for pivoting in (False, True):
            close(linalg.qr(a, mode=mode, pivoting=pivoting), reference.qr(a, mode=mode, pivoting=pivoting))
    for side in ("right", "left"):
        close(linalg.polar(a, side), reference.polar(a, side))
    close(linalg.svd(a, compute_uv=False), reference.svdvals(a))


def test_products_with_the_orthogonal_factor():
    close(linalg.qr_multiply(W, A), reference.qr_multiply(W, A))
    close(linalg.qr_multiply(W, A[:3], "left"), reference.qr_multiply(W, A[:3], "left"))


@pytest.mark.parametrize("kind", [1, 2, 3])
def test_generalized_eigenvalues(kind):
    a, b = (A + A.T), H / 5
    w, v = linalg.eigh(a, b, type=kind)
    close(w, reference.eigh(a, b, eigvals_only=True, type=kind), 1e-3)
    left, right = {1: (a @ v, b @ v), 2: (a @ b @ v, v), 3: (b @ a @ v, v)}[kind]
    close(left, np.asarray(right) * np.asarray(w), 5e-3)


def test_tridiagonal_eigenvalues():
    close(linalg.eigh_tridiagonal(B, B[:4], eigvals_only=True), reference.eigvalsh_tridiagonal(B, B[:4]))
    for select, limits in (("i", (1, 2)), ("v", (-0.5, 1.0))):
        want = reference.eigvalsh_tridiagonal(B, B[:4], select, limits)
        close(linalg.eigh_tridiagonal(B, B[:4], eigvals_only=True, select=select, select_range=limits), want)
    w, v = linalg.eigh_tridiagonal(B, B[:4])
    close((np.diag(B) + np.diag(B[:4], 1) + np.diag(B[:4], -1)) @ v, np.asarray(v) * np.asarray(w))


def test_schur_and_hessenberg_forms():
    for output in ("real", "complex"):
        close(linalg.schur(A, output), reference.schur(A, output))
    close(linalg.rsf2csf(*reference.schur(A)), reference.rsf2csf(*reference.schur(A)))
    close(linalg.hessenberg(A, calc_q=True), reference.hessenberg(A, calc_q=True))


def test_exponentials_and_their_derivatives():
    wide = A.astype(float)
    close(linalg.expm(A), reference.expm(wide))
    stack = np.stack([A, 3 * A, 0 * A])
    want = reference.expm(stack.astype(float))
    close(
        linalg.expm(stack) / np.abs(want).max((1, 2), keepdims=True),
        want / np.abs(want).max((1, 2), keepdims=True),
        1e-5,
    )
    close(linalg.expm(np.triu(A), upper_triangular=True), reference.expm(np.triu(wide)))
    assert np.isnan(linalg.expm(1e4 * A, max_squarings=3)).all()
    close(linalg.expm_frechet(A, H), reference.expm_frechet(wide, H.astype(float)), 1e-3)
    gradient = purax.grad(lambda a: linalg.expm(a).sum())(A)
    close(gradient, reference.expm_frechet(wide.T, np.ones((5, 5)))[1], 1e-3)


def test_other_functions_of_matrices():
    close(linalg.sqrtm(A), reference.sqrtm(A))
    close(linalg.funm(A, pnp.sin), reference.funm(A, np.sin), 1e-3)
    value, error = linalg.funm(A, pnp.cos, disp=False)
    close(value, reference.funm(A, np.cos), 1e-3)
    assert 0 < float(error) < 1e-3
    for method in ("schur", "eigen"):
        close(linalg.solve_sylvester(A, H[:3, :3], W, method=method), reference.solve_sylvester(A, H[:3, :3], W))


def test_matrices_made_of_vectors():
    close(linalg.block_diag(A, B, W, 1), reference.block_diag(A, B, W, 1))
    close(linalg.toeplitz(B[:3], B), reference.toeplitz(B[:3], B))
    close(linalg.hankel(B[:3], B), reference.hankel(B[:3], B))
    close(linalg.leslie(B, B[:4]), reference.leslie(B, B[:4]))
    for name in ("circulant", "companion", "fiedler", "fiedler_companion", "toeplitz", "hankel"):
        for n in (2, 3, 4, 5):
            close(getattr(linalg, name)(B[:n]), getattr(reference, name)(B[:n]), 1e-5)
    for mode in ("full", "same", "valid"):
        for n in (2, 5, 8):
            close(linalg.convolution_matrix(B, n, mode), reference.convolution_matrix(B, n, mode))
    assert linalg.toeplitz(W).shape == (5, 3, 3)


def test_matrices_made_of_a_size():
    for name in ("dft", "hadamard", "helmert", "hilbert", "invhilbert", "invpascal", "pascal"):
        close(getattr(linalg, name)(4), getattr(reference, name)(4), 1e-5)
    with pytest.raises(ValueError, match="1, 2, 4, 8"):
        linalg.hadamard(3)


def test_wrong_shapes_are_told():
    with pytest.raises(errors.ShapeError):
        linalg.solve_triangular(W, B)
    with pytest.raises(errors.ShapeError):
        linalg.expm(W)
    with pytest.raises(ValueError, match="mode"):
        linalg.qr(A, mode="raw?")


def test_leading_axes_broadcast():
    """Each function of several matrices gives what it gives for each pair of them."""
    many, one = rng.normal(size=(2, 1, 3, 3)).astype(np.float32), rng.normal(size=(3, 3)).astype(np.float32)
    right = rng.normal(size=(4, 3, 2)).astype(np.float32)
    lower = np.tril(many) + 3 * np.eye(3, dtype=np.float32)
    found = linalg.solve_triangular(lower, right, lower=True)
    close(found, np.linalg.solve(lower, right))
    close(linalg.solve_triangular(lower[:, 0], right[0], lower=True), np.linalg.solve(lower[:, 0], right[0]))
    close(
        linalg.solve_triangular(lower[:, 0], right[:2, :, 0], lower=True),
        np.linalg.solve(lower[:, 0], right[:2, :, :1])[..., 0],
    )
    small = rng.normal(size=(2, 2)).astype(np.float32)
    for method in ("schur", "eigen"):
        x = np.asarray(linalg.solve_sylvester(many, small, right, method=method))
        assert x.shape == (2, 4, 3, 2)
        close(many @ x + x @ small, np.broadcast_to(right, x.shape), 1e-3)
    forms = np.stack([reference.schur(x)[0] for x in many[:, 0]])[:, None]
    t, z = linalg.rsf2csf(forms, one)
    assert t.shape == z.shape == (2, 1, 3, 3)
    for place in (0, 1):
        close((t[place, 0], z[place, 0]), reference.rsf2csf(forms[place, 0], one))


def test_systems_of_stacked_vectors_are_told_by_their_shape():
    a = np.stack([np.eye(3), 2 * np.eye(3)]).astype(np.float32)
    assert linalg.solve_triangular(a, np.ones((2, 3), np.float32)).shape == (2, 3)
    assert linalg.solve_triangular(a, np.ones((3, 2), np.float32)).shape == (2, 3, 2)
    assert linalg.solve(a, np.ones(3, np.float32)).shape == (2, 3)
    with pytest.raises(errors.ShapeError, match="right-hand sides"):
        linalg.solve(a, np.ones((2, 3), np.float32))


def test_structured_matrices_refuse_what_they_cannot_be_made_of():
    with pytest.raises(ValueError, match="nonzero"):
        linalg.fiedler_companion(np.ones((2, 0), np.float32))
    with pytest.raises(ValueError, match="complex"):
        linalg.dft(4, dtype=np.float32)
    with purax.numpy_rank_promotion("raise"):
        assert linalg.leslie(np.ones((2, 3), np.float32), np.ones((2, 2), np.float32)).shape == (2, 3, 3)


def difference(function, x, direction, step=1e-5):
    """Derivative along a direction, by central differences in float64."""
    return (np.asarray(function(x + step * direction)) - np.asarray(function(x - step * direction))) / (2 * step)


@pytest.mark.parametrize(
    "matrix",
    [A.T @ A + np.eye(5), 3 * np.eye(5), np.triu(A) ** 2 + 4 * np.eye(5)],
    ids=["spread", "repeated", "defective"],
)
def test_square_roots_are_differentiable_where_eigenvalues_repeat(matrix):
    with purax.enable_x64(True):
        matrix, direction = matrix.astype(np.float64), np.asarray(A, np.float64)
        root, change = purax.jvp(linalg.sqrtm, (matrix,), (direction,))
        np.testing.assert_allclose(root @ root, matrix, atol=1e-9)
        np.testing.assert_allclose(change, difference(linalg.sqrtm, matrix, direction), atol=1e-6)
        gradient = purax.grad(lambda x: pnp.real(linalg.sqrtm(x)).sum())(matrix)
        np.testing.assert_allclose((gradient * direction).sum(), np.real(change).sum(), rtol=1e-7)


@pytest.mark.parametrize("method", ["schur", "eigen"])
@pytest.mark.parametrize("operand", [0, 1, 2])
def test_solutions_of_sylvesters_equation_are_differentiable(method, operand):
    with purax.enable_x64(True):
        given = [np.asarray(x, np.float64) for x in (H, A[:3, :3] + 3 * np.eye(3), W)]
        direction = np.cos(np.arange(given[operand].size)).reshape(given[operand].shape)

        def solve(x):
            return linalg.solve_sylvester(*[x if i == operand else y for i, y in enumerate(given)], method=method)

        change = purax.jvp(solve, (given[operand],), (direction,))[1]
        np.testing.assert_allclose(change, difference(solve, given[operand], direction), rtol=1e-5, atol=1e-7)
        gradient = purax.grad(lambda x: solve(x).sum())(given[operand])
        np.testing.assert_allclose((gradient * direction).sum(), change.sum(), rtol=1e-7)


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("sizes", [(5, 5), (5, 3), (3, 5)])
def test_polar_factors_are_differentiable_where_singular_values_repeat(side, sizes):
    with purax.enable_x64(True):
        start, direction = (
            np.linalg.qr(np.asarray(A, np.float64))[0][: sizes[0], : sizes[1]],
            np.cos(np.arange(25.0)).reshape(5, 5),
        )
        direction = direction[: sizes[0], : sizes[1]]
        start = start / np.linalg.norm(start, axis=0 if sizes[0] > sizes[1] else 1, keepdims=True)
        for place in (0, 1):
            change = purax.jvp(lambda x, i=place: linalg.polar(x, side)[i], (start,), (direction,))[1]
            wanted = difference(lambda x, i=place: linalg.polar(x, side)[i], start, direction)
            np.testing.assert_allclose(change, wanted, atol=1e-6)
            gradient = purax.grad(lambda x, i=place: (linalg.polar(x, side)[i] ** 3).sum())(start)
            factor = np.asarray(linalg.polar(start, side)[place])
            np.testing.assert_allclose(
                (gradient * direction).sum(), (3 * factor**2 * change).sum(), rtol=1e-6, atol=1e-9
            )


@pytest.mark.parametrize("size", [6, 20])
@pytest.mark.parametrize("seed", range(3))
def test_functions_that_jump_at_the_negative_axis_take_real_eigenvalues_as_real(size, seed):
    a = (3 * np.random.default_rng(seed).normal(size=(size, size))).astype(np.float32)
    values, vectors = np.linalg.eig(a.astype(np.float64))
    values = values.astype(complex)  # with an imaginary part of +0 where they are real
    for found, function in ((linalg.funm(a, lambda x: x**1.5), lambda x: x**1.5), (linalg.sqrtm(a), np.sqrt)):
        expected = vectors * function(values) @ np.linalg.inv(vectors)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4 * np.abs(expected).max())
