# SPDX-License-Identifier: Apache-2.0
"""Special functions against SciPy: samples for the laws, values, borders, derivatives."""

import ml_dtypes
import numpy as np
import pytest
import scipy.special

import purax
from purax import config, errors
from purax.primitives import incomplete, special
from tests.laws.sample import BadSample, Sample

rng = np.random.default_rng(0)
X = rng.uniform(-2.4, 2.4, (2, 3)).astype(np.float32)
POSITIVE = rng.uniform(0.6, 4.0, (2, 3)).astype(np.float32)
OTHER = rng.uniform(0.6, 4.0, (2, 3)).astype(np.float32)
UNIT = rng.uniform(-0.8, 0.8, (2, 3)).astype(np.float32)
FRACTION = rng.uniform(0.1, 0.9, (2, 3)).astype(np.float32)
ORDER = np.array([[0, 1, 2], [3, 1, 0]], np.float32)
UNARY = [
    (special.erf_p, X), (special.erfc_p, X), (special.erf_inv_p, UNIT), (special.lgamma_p, POSITIVE),
    (special.digamma_p, POSITIVE), (special.bessel_i0e_p, X), (special.bessel_i1e_p, X),
]  # fmt: skip
BINARY = [
    (special.igamma_p, POSITIVE, OTHER, (1,)), (special.igammac_p, POSITIVE, OTHER, (1,)),
    (special.igamma_grad_a_p, POSITIVE, OTHER, (1,)), (special.random_gamma_grad_p, POSITIVE, OTHER, ()),
    (special.zeta_p, POSITIVE + 1, OTHER, (0, 1)), (special.polygamma_p, ORDER, POSITIVE, (1,)),
]  # fmt: skip

SAMPLES = [
    *(Sample(p, (x,), tolerance=2e-5) for p, x in UNARY),
    *(Sample(p, (x.astype(t),), differentiable=()) for p, x in UNARY for t in (np.float16, ml_dtypes.bfloat16)),
    *(Sample(p, (x[:0],)) for p, x in UNARY[:1]), *(Sample(p, (x[0, 0].reshape(()),), tolerance=2e-5) for p, x in UNARY[3:4]),
    *(Sample(p, (x,), {"order": n}, tolerance=2e-5) for p in (special.bessel_i_p, special.bessel_ive_p) for n in (0, 1, 2, 3) for x in (X,)),
    *(Sample(p, (x, y), differentiable=d, tolerance=2e-5) for p, x, y, d in BINARY),
    *(Sample(p, (x.astype(np.float16), y.astype(np.float16)), differentiable=()) for p, x, y, _ in BINARY),
    Sample(special.igamma_p, (POSITIVE[:0], OTHER[:0]), differentiable=()),
    Sample(special.regularized_incomplete_beta_p, (POSITIVE, OTHER, FRACTION), differentiable=(2,), tolerance=2e-5),
    *(Sample(special.betainc_slope_p, (POSITIVE, OTHER, FRACTION), {"operand": i}, differentiable=(2,), tolerance=2e-5) for i in (0, 1)),
]  # fmt: skip
BAD_SAMPLES = [
    BadSample(special.erf_p, (np.ones(2, np.int32),), {}, errors.DTypeError, "int32; real floating"),
    BadSample(special.lgamma_p, (np.ones(2, np.complex64),), {}, errors.DTypeError, "complex64"),
    BadSample(special.igamma_p, (X, X[0]), {}, errors.ShapeError, "must be equal"),
    BadSample(special.zeta_p, (X, X.astype(np.float16)), {}, errors.DTypeError, "float32 and float16"),
    BadSample(special.regularized_incomplete_beta_p, (X, X, X[:1]), {}, errors.ShapeError, "must be equal"),
]

LINE = np.concatenate([np.linspace(-6, 6, 301), [20.0, -20.0, 300.0]])
RIGHT = np.concatenate([np.geomspace(1e-3, 150, 300), [1.0, 2.0]])
VALUES = [
    (special.erf, scipy.special.erf, LINE), (special.erf_inv, scipy.special.erfinv, np.linspace(-0.998, 0.998, 301)),
    (special.erfc, scipy.special.erfc, LINE[LINE < 5]), (special.bessel_i0e, scipy.special.i0e, LINE),
    (special.bessel_i1e, scipy.special.i1e, LINE), (special.lgamma, scipy.special.gammaln, RIGHT),
    (special.digamma, scipy.special.digamma, np.concatenate([RIGHT, -RIGHT[:200] - 0.01])),
    (lambda x: special.zeta(x, 1.5), lambda x: scipy.special.zeta(x, 1.5), np.linspace(1.1, 20, 100)),
    (lambda x: special.polygamma(2.0, x), lambda x: scipy.special.polygamma(2, x), RIGHT),
    (lambda x: special.bessel_i(0, x), scipy.special.i0, LINE[:301]), (lambda x: special.bessel_i(3, x), lambda x: scipy.special.iv(3, x), LINE[:301]),
]  # fmt: skip


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1.5e-6), ("float64", 3e-12)])
@pytest.mark.parametrize(("function", "oracle", "x"), VALUES)
def test_values_are_those_of_scipy(function, oracle, x, dtype, tolerance):
    config.update("enable_x64", True)
    x = x.astype(dtype)
    np.testing.assert_allclose(function(x), oracle(x.astype(np.float64)), rtol=tolerance, atol=tolerance * 1e-30)


A, B = (v.ravel() for v in np.meshgrid([1e-2, 0.5, 1.0, 2.5, 30.0, 400.0], [1e-3, 0.4, 1.0, 2.6, 29.0, 33.0, 450.0]))


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 2e-6), ("float64", 1e-11)])
def test_incomplete_gamma_integrals_are_those_of_scipy(dtype, tolerance):
    config.update("enable_x64", True)
    a, x = A.astype(dtype), B.astype(dtype)
    wide = a.astype(np.float64), x.astype(np.float64)
    tiny = float(np.finfo(dtype).tiny)
    np.testing.assert_allclose(special.igamma(a, x), scipy.special.gammainc(*wide), rtol=tolerance, atol=tiny)
    np.testing.assert_allclose(special.igammac(a, x), scipy.special.gammaincc(*wide), rtol=tolerance, atol=tiny)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 2e-6), ("float64", 1e-11)])
def test_incomplete_beta_integrals_are_those_of_scipy(dtype, tolerance):
    config.update("enable_x64", True)
    a, b, x = (
        v.ravel().astype(dtype) for v in np.meshgrid([0.1, 1.0, 5.0, 60.0], [0.3, 2.0, 90.0], [1e-4, 0.2, 0.5, 0.97])
    )
    want = scipy.special.betainc(*(v.astype(np.float64) for v in (a, b, x)))
    np.testing.assert_allclose(special.betainc(a, b, x), want, rtol=tolerance, atol=float(np.finfo(dtype).tiny))


def test_the_border_of_the_incomplete_integrals():
    inf, nan = np.inf, np.nan
    a, x = np.array([[0, 1], [0, 0], [1, 0], [1, inf], [inf, 1], [-1, 1], [1, -1], [nan, 1]], np.float32).T
    np.testing.assert_array_equal(special.igamma(a, x), [1, nan, 0, 1, 0, nan, nan, nan])
    np.testing.assert_array_equal(special.igammac(a, x), [0, nan, 1, 0, 1, nan, nan, nan])
    a, b, x = np.array(
        [[0, 1, 0.5], [1, 0, 0.5], [1, 2, 0], [1, 2, 1], [1, 2, 1.5], [-1, 1, 0.5], [1, 1, nan]], np.float32
    ).T
    np.testing.assert_array_equal(special.betainc(a, b, x), [1, 0, 0, 1, nan, nan, nan])


def test_gamma_functions_at_their_poles():
    np.testing.assert_array_equal(special.lgamma(np.array([0, -1, -2], np.float32)), [np.inf] * 3)
    np.testing.assert_array_equal(special.digamma(np.array([0, -1, -2], np.float32)), [np.nan] * 3)
    np.testing.assert_array_equal(special.erf_inv(np.array([-1, 1, 1.5], np.float32)), [-np.inf, np.inf, np.nan])


# --- derivatives ---------------------------------------------------------------------------------------------------


def test_the_derivative_of_the_gamma_integral_to_its_first_argument():
    config.update("enable_x64", True)
    a, x, h = A.astype(np.float64), B.astype(np.float64), 1e-4
    steps = [scipy.special.gammainc(a * (1 + k * h), x) for k in (-2, -1, 1, 2)]
    want = (steps[0] - 8 * steps[1] + 8 * steps[2] - steps[3]) / (12 * h * a)
    np.testing.assert_allclose(special.igamma_grad_a(a, x), want, rtol=1e-6, atol=1e-9)
    got = purax.vjp(special.igamma, a, x)[1](np.ones_like(a))[0]
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-9)


def test_a_gamma_sample_moves_along_its_quantile():
    config.update("enable_x64", True)
    a, quantile, h = np.array([0.3, 1.0, 4.0, 50.0]), np.array([0.1, 0.6, 0.95, 0.4]), 1e-4
    sample = scipy.special.gammaincinv(a, quantile)
    want = (scipy.special.gammaincinv(a + h, quantile) - scipy.special.gammaincinv(a - h, quantile)) / (2 * h)
    np.testing.assert_allclose(special.random_gamma_grad(a, sample), want, rtol=1e-6)


def test_mixed_derivatives_of_the_gamma_integral_agree():
    one_way = purax.grad(purax.grad(special.igamma, 0), 1)(1.5, 2.0)
    other_way = purax.grad(purax.grad(special.igamma, 1), 0)(1.5, 2.0)
    np.testing.assert_allclose(one_way, other_way, rtol=1e-5)


def test_every_derivative_of_bessel_functions_at_zero():
    """I_0 = 1 + x^2 / 4 + x^4 / 64 + ...: derivatives 1, 0, 1/2, 0, 3/8."""
    derivative, found = lambda x: special.bessel_i(0, x), []
    for _ in range(5):
        found.append(float(derivative(0.0)))
        derivative = purax.grad(derivative)
    np.testing.assert_allclose(found, [1, 0, 0.5, 0, 0.375], atol=1e-6)
    inner = lambda t: special.bessel_i(0, 2 * t - 1)
    np.testing.assert_allclose(purax.grad(purax.grad(inner))(0.5), 2.0, rtol=1e-6)
    np.testing.assert_allclose(purax.grad(special.bessel_i1e)(0.0), 0.5, rtol=1e-6)


def test_the_gamma_family_differentiates_into_itself():
    x = 1.7
    np.testing.assert_allclose(purax.grad(special.lgamma)(x), scipy.special.digamma(x), rtol=1e-5)
    np.testing.assert_allclose(purax.grad(purax.grad(special.lgamma))(x), scipy.special.polygamma(1, x), rtol=1e-5)
    third = purax.grad(purax.grad(purax.grad(special.lgamma)))(x)
    np.testing.assert_allclose(third, scipy.special.polygamma(2, x), rtol=1e-5)
    np.testing.assert_allclose(purax.grad(special.zeta, 1)(2.5, x), -2.5 * scipy.special.zeta(3.5, x), rtol=1e-5)


def test_derivatives_without_a_closed_form_say_so():
    with pytest.raises(errors.MissingRuleError, match="betainc_slope with respect to a"):
        purax.grad(purax.grad(special.betainc))(1.0, 2.0, 0.5)


def test_zeta_is_differentiable_in_its_exponent():
    s, q = (x.ravel() for x in np.meshgrid([1.05, 1.5, 4.0, 30.0], [0.1, 1.0, 7.5, 200.0]))
    k = np.arange(20_000.0)[:, None]
    place = q + k
    end = q + 20_000.0  # the sum to here, the integral from here on, half a term
    rest = end ** (1 - s) / (s - 1) * (np.log(end) + 1 / (s - 1)) + 0.5 * np.log(end) * end**-s
    want = -(np.log(place) * place**-s).sum(0) - rest
    with purax.enable_x64(True):
        slope = purax.vmap(purax.grad(special.zeta))
        np.testing.assert_allclose(slope(s, q), want, rtol=1e-9)
        turn = purax.vmap(purax.grad(purax.grad(special.zeta)))(s, q)
        np.testing.assert_allclose(turn, (slope(s + 1e-5, q) - slope(s - 1e-5, q)) / 2e-5, rtol=1e-5)
    np.testing.assert_allclose(slope(s.astype(np.float32), q.astype(np.float32)), want, rtol=1e-4, atol=1e-30)


@pytest.mark.parametrize("operand", [0, 1])
def test_the_incomplete_beta_function_is_differentiable_in_its_parameters(operand):
    a, b = np.geomspace(0.05, 200, 7), np.geomspace(300, 0.1, 7)
    grid = [np.asarray(x) for x in np.broadcast_arrays(a[:, None], b[:, None], np.linspace(0.02, 0.98, 9))]
    with purax.enable_x64(True):
        found = purax.grad(lambda *xs: special.betainc(*xs).sum(), operand)(*grid)
    np.testing.assert_allclose(found, incomplete.betainc_slope(*grid, operand=operand), rtol=1e-6, atol=1e-10)


def test_the_incomplete_beta_function_keeps_its_ends_when_parameters_move():
    one, ends = np.full(2, 1.5, np.float32), np.array([0, 1], np.float32)
    for operand in (0, 1):
        np.testing.assert_array_equal(purax.grad(lambda *xs: special.betainc(*xs).sum(), operand)(one, one, ends), 0)
