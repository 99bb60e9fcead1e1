# SPDX-License-Identifier: Apache-2.0
"""`purax.numpy.linalg` and `purax.numpy.fft` against NumPy, and derivatives that NumPy cannot give."""

import ml_dtypes
import numpy as np
import pytest

import purax
from purax import errors
from purax import numpy as pnp
from purax.numpy import fft, linalg

rng = np.random.default_rng(3)
A = rng.standard_normal((3, 4)).astype(np.float32)
S = (rng.standard_normal((2, 3, 3)) + 3 * np.eye(3)).astype(np.float32)
H = (S @ np.swapaxes(S, -1, -2) + np.eye(3)).astype(np.float32)


def close(got, want, tolerance=2e-4):
    """Compare, with the tolerance of float32 algorithms."""
    np.testing.assert_allclose(np.asarray(got), want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("order", [None, "fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf])
def test_matrix_norms(order):
    close(linalg.norm(A, order), np.linalg.norm(A, order))
    close(linalg.norm(S, order, axis=(1, 2)), np.linalg.norm(S, order, axis=(1, 2)))
    close(linalg.norm(S, order, axis=(2, 0), keepdims=True), np.linalg.norm(S, order, axis=(2, 0), keepdims=True))


@pytest.mark.parametrize("shape", [(0, 2), (2, 0), (0, 0)])
@pytest.mark.parametrize("order", ["fro", "nuc", 1, 2, np.inf])
def test_the_norm_of_an_empty_matrix_is_zero(shape, order):
    assert linalg.norm(pnp.zeros(shape), order) == 0 == np.linalg.norm(np.zeros(shape), order)


@pytest.mark.parametrize("order", [None, 0, 1, 2, 3, -3, 0.5, np.inf, -np.inf])
def test_vector_norms(order):
    close(linalg.norm(A[0], order), np.linalg.norm(A[0], order))
    close(linalg.norm(A, order, axis=1, keepdims=True), np.linalg.norm(A, order, axis=1, keepdims=True))
    if order is not None:
        close(linalg.vector_norm(A, ord=order), np.linalg.vector_norm(A, ord=order))


def test_norm_has_a_zero_gradient_at_zeros_and_so_has_its_square():
    zeros = np.zeros(2, np.float32)
    for f in (
        linalg.norm,
        lambda x: linalg.norm(x) ** 2,
        lambda x: linalg.norm(x, 3),
        lambda x: linalg.norm(x[:, None], "fro"),
    ):
        np.testing.assert_array_equal(purax.grad(f)(zeros), zeros)
        np.testing.assert_array_equal(purax.jacfwd(f)(zeros), zeros)
    close(purax.grad(linalg.norm)(A[0]), A[0] / np.linalg.norm(A[0]))


def test_wrong_orders_and_axes_are_told():
    with pytest.raises(ValueError, match="Invalid order 'bad' for matrix norm"):
        linalg.norm(A, "bad")
    with pytest.raises(ValueError, match="Invalid order 'fro' for vector norm"):
        linalg.norm(A[0], "fro")
    with pytest.raises(ValueError, match="two different axes"):
        linalg.norm(S, axis=(0, 1, 2))
    with pytest.raises(ValueError, match="must have shape"):
        linalg.inv(A)


def test_systems_and_inverses():
    b = rng.standard_normal((2, 3, 2)).astype(np.float32)
    close(linalg.solve(S, b), np.linalg.solve(S, b))
    close(linalg.solve(S, b[0, :, 0]), np.linalg.solve(S, b[0, :, 0]))
    close(linalg.solve(S[0], b), np.linalg.solve(S[0], b))
    close(linalg.inv(S), np.linalg.inv(S))
    close(linalg.pinv(A), np.linalg.pinv(A))
    close(linalg.pinv(H, hermitian=True), np.linalg.pinv(H, hermitian=True), 2e-3)
    close(
        linalg.tensorsolve(S[0].reshape(3, 1, 3), b[0, :, :1]),
        np.linalg.tensorsolve(S[0].reshape(3, 1, 3), b[0, :, :1]),
    )
    close(linalg.tensorinv(S[0].reshape(3, 1, 3), ind=1), np.linalg.tensorinv(S[0].reshape(3, 1, 3), ind=1))
    with pytest.raises(ValueError, match="a batch of vectors"):
        linalg.solve(S, b[..., 0])


def test_least_squares():
    b = rng.standard_normal((4, 2)).astype(np.float32)
    for a, y in ((A.T, b), (A.T, b[:, 0]), (A, b[:3]), (A[:, :1] @ A[:1], b[:3])):
        x, residuals, rank, s = linalg.lstsq(a, y, numpy_resid=True)
        want = np.linalg.lstsq(a, y, rcond=1e-6)
        close(x, want[0], 2e-3)
        close(residuals, want[1], 2e-3)
        assert int(rank) == want[2]
        close(s, want[3], 2e-3)


def test_the_derivative_of_a_pseudo_inverse():
    da = rng.standard_normal(A.shape).astype(np.float32)
    _, tangent = purax.jvp(linalg.pinv, (A,), (da,))
    step = 1e-3
    wide = A.astype(np.float64)
    close(tangent, (np.linalg.pinv(wide + step * da) - np.linalg.pinv(wide - step * da)) / (2 * step), 5e-3)
    one = np.diag([1.0, 0.0]).astype(np.float32)
    assert np.isfinite(np.asarray(purax.grad(lambda x: linalg.pinv(x).sum())(one))).all()


def test_determinants():
    close(linalg.det(S), np.linalg.det(S))
    for method in (None, "lu", "qr"):
        got, want = (
            linalg.slogdet(S - 4 * np.eye(3, dtype=np.float32), method=method),
            np.linalg.slogdet(S - 4 * np.eye(3)),
        )
        close(got.sign, want.sign)
        close(got.logabsdet, want.logabsdet)
    close(purax.grad(linalg.det)(np.ones((2, 2), np.float32)), [[1, -1], [-1, 1]])
    close(purax.grad(lambda x: linalg.slogdet(x).logabsdet)(S[0]), np.linalg.inv(S[0]).T, 1e-3)


def test_factorizations():
    close(linalg.cholesky(H), np.linalg.cholesky(H), 1e-3)
    close(linalg.cholesky(H, upper=True), np.linalg.cholesky(H, upper=True), 1e-3)
    for mode in ("reduced", "complete"):
        q, r = linalg.qr(A.T, mode)
        close(q @ r, A.T)
        assert q.shape == np.linalg.qr(A.T, mode)[0].shape
    close(linalg.qr(A, "r"), np.linalg.qr(A, "r"))
    h, tau = linalg.qr(A, "raw")
    close(h, np.linalg.qr(A, "raw")[0])
    assert tau.shape == (3,)
    u, s, vh = linalg.svd(A, full_matrices=False)
    close((u * s) @ vh, A)
    close(linalg.svdvals(A), np.linalg.svd(A, compute_uv=False))
    u, s, vh = linalg.svd(H - 9 * np.eye(3, dtype=np.float32), hermitian=True)
    close((u * s[:, None]) @ vh, H - 9 * np.eye(3), 1e-3)
    w, v = linalg.eigh(H)
    close((v * w[:, None]) @ pnp.matrix_transpose(v), H, 1e-3)
    close(linalg.eigvalsh(H, "U"), np.linalg.eigvalsh(H), 1e-3)
    w, v = linalg.eig(S)
    close((S @ v) - v * w[:, None], np.zeros((2, 3, 3)), 1e-3)
    close(np.sort_complex(np.asarray(linalg.eigvals(S[0]))), np.sort_complex(np.linalg.eigvals(S[0])), 1e-3)


def test_ranks_powers_and_condition():
    low = A[:, :1] @ A[:1]
    assert int(linalg.matrix_rank(low)) == 1
    assert int(linalg.matrix_rank(A, rtol=10.0)) == 0
    np.testing.assert_array_equal(linalg.matrix_rank(np.stack([np.eye(3), np.zeros((3, 3))])), [3, 0])
    assert int(linalg.matrix_rank(np.zeros(3))) == 0
    for n in (0, 1, 5, -2):
        close(linalg.matrix_power(S, n), np.linalg.matrix_power(S, n), 2e-3)
    for p in (None, 1, -1, 2, -2, "fro", np.inf):
        close(linalg.cond(S, p), np.linalg.cond(S, p), 2e-3)
    assert np.isinf(float(linalg.cond(np.ones((2, 2)), 1)))


def test_products():
    x, y = A[0, :3], A[1, :3]
    close(linalg.multi_dot([A, A.T, A, A[0]]), np.linalg.multi_dot([A, A.T, A, A[0]]))
    close(linalg.cross(x, y), np.cross(x, y))
    close(linalg.outer(x, y), np.outer(x, y))
    close(linalg.vecdot(A, A), (A * A).sum(-1))
    close(linalg.tensordot(S, A, axes=1), np.tensordot(S, A, axes=1))
    close(linalg.trace(S), np.trace(S, axis1=1, axis2=2))
    close(linalg.diagonal(S, offset=1), np.diagonal(S, 1, 1, 2))
    close(linalg.matrix_norm(S, ord="nuc"), np.linalg.matrix_norm(S, ord="nuc"))
    with pytest.raises(ValueError, match="takes two vectors"):
        linalg.outer(A, x)


def test_half_precision_is_computed_in_single_precision():
    got = linalg.inv(H[0].astype(ml_dtypes.bfloat16))
    assert got.dtype == ml_dtypes.bfloat16
    np.testing.assert_allclose(np.asarray(got, np.float32), np.linalg.inv(H[0]), rtol=5e-2, atol=2e-2)


def test_vmap_agrees_with_leading_axes():
    for f in (linalg.inv, linalg.det, linalg.cholesky, lambda x: linalg.eigh(x).eigenvalues):
        close(purax.vmap(f)(H), f(H))


# --- Fourier transforms -------------------------------------------------------------------------------------------------------

X = rng.standard_normal((3, 4, 5)).astype(np.float32)
Z = (X + 1j * X[::-1]).astype(np.complex64)


@pytest.mark.parametrize("norm", [None, "ortho", "forward"])
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
def test_transforms_of_one_axis(name, norm):
    x = X if name in ("rfft", "ihfft") else Z
    for n, axis in ((None, -1), (3, 1), (7, 0)):
        close(getattr(fft, name)(x, n, axis, norm), getattr(np.fft, name)(x, n, axis, norm))


@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn", "irfftn"])
def test_transforms_of_several_axes(name):
    x = X if name == "rfftn" else Z
    close(getattr(fft, name)(x), getattr(np.fft, name)(x))
    close(getattr(fft, name)(x, (2, 6), (2, 0), "ortho"), getattr(np.fft, name)(x, (2, 6), (2, 0), "ortho"))
    plane = name[:-1] + "2"
    close(getattr(fft, plane)(x), getattr(np.fft, plane)(x))


def test_frequencies_and_shifts():
    close(fft.fftfreq(5, 0.1), np.fft.fftfreq(5, 0.1))
    close(fft.rfftfreq(6, 0.5), np.fft.rfftfreq(6, 0.5))
    for axes in (None, 1, (0, 2)):
        np.testing.assert_array_equal(fft.fftshift(X, axes), np.fft.fftshift(X, axes))
        np.testing.assert_array_equal(fft.ifftshift(X, axes), np.fft.ifftshift(X, axes))


def test_wrong_transforms_are_told():
    with pytest.raises(errors.DTypeError, match="takes real data"):
        fft.rfft(Z)
    with pytest.raises(ValueError, match="transforms each axis once"):
        fft.fftn(X, axes=(0, 0))
    with pytest.raises(ValueError, match="must be positive"):
        fft.fft(X, 0)
    with pytest.raises(ValueError, match="norm is None"):
        fft.fft(X, norm="unit")
    with pytest.raises(ValueError, match="one axis"):
        fft.fft(X, axis=(0,))


@pytest.mark.parametrize(
    "function, names", [(pnp.linalg.pinv, ("rtol", "rcond")), (pnp.linalg.matrix_rank, ("rtol", "tol"))]
)
def test_two_names_of_one_limit_cannot_be_given_together(function, names):
    with pytest.raises(ValueError, match="give one of them"):
        function(np.eye(2, dtype=np.float32), **dict.fromkeys(names, 0.1))


@pytest.mark.parametrize("n", [0, -1])
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft", "fftn", "irfftn"])
def test_fourier_transforms_have_positive_lengths(name, n):
    with pytest.raises(errors.ShapeError, match="positive"):
        getattr(pnp.fft, name)(np.ones(3, np.float32), (n,) if name.endswith("n") else n)


def test_fourier_transforms_of_nothing_are_empty():
    for name in ("fft", "ifft", "fftn", "ifftn"):
        out = getattr(pnp.fft, name)(np.ones((2, 0), np.float32))
        assert out.shape == (2, 0) and out.dtype == np.complex64


def difference(function, x, direction, step=1e-5):
    """Derivative along a direction, by central differences in float64."""
    return (np.asarray(function(x + step * direction)) - np.asarray(function(x - step * direction))) / (2 * step)


@pytest.mark.parametrize(
    "matrix",
    [np.eye(3), 2 * np.eye(4, 3), 3 * np.eye(3, 4), np.ones((3, 3)) + np.eye(3)],
    ids=["square", "tall", "wide", "pair"],
)
def test_least_squares_are_differentiable_where_singular_values_repeat(matrix):
    with purax.enable_x64(True):
        draw = np.random.default_rng(0).normal
        direction, right = draw(size=matrix.shape), draw(size=(matrix.shape[0], 2))

        def solve(a):
            return linalg.lstsq(a, right)[0]

        change = purax.jvp(solve, (matrix,), (direction,))[1]
        np.testing.assert_allclose(change, difference(solve, matrix, direction), atol=1e-7)
        gradient = purax.grad(lambda a: (solve(a) ** 2).sum())
        second = purax.jvp(gradient, (matrix,), (direction,))[1]
        np.testing.assert_allclose(second, difference(gradient, matrix, direction), atol=1e-5)
