# SPDX-License-Identifier: Apache-2.0
"""`purax.scipy.stats` against SciPy."""

import inspect

import numpy as np
import pytest
import scipy.stats as reference

import purax
from purax import random
from purax.scipy import stats

rng = np.random.default_rng(0)
N = 40
X = rng.normal(size=N) * 3
K = rng.integers(-1, 12, N).astype(float)
P, R = rng.gamma(2, size=N) + 0.1, rng.gamma(2, size=N) + 0.1
U = rng.uniform(0.01, 0.99, size=N)
LOC = rng.normal(size=N)
COUNT = rng.integers(0, 15, N).astype(float)
PARAMETERS = {
    "bernoulli": (U,), "beta": (P, R), "betabinom": (COUNT, P, R), "binom": (COUNT, U), "cauchy": (), "chi2": (P * 3,), "expon": (),
    "gamma": (P,), "gennorm": (P,), "geom": (U,), "gumbel_l": (), "gumbel_r": (), "laplace": (), "logistic": (), "nbinom": (P, U),
    "norm": (), "pareto": (P,), "poisson": (P * 3,), "t": (P,), "truncnorm": (LOC - 1, LOC + P), "uniform": (), "vonmises": (P,),
    "wrapcauchy": (U,),
}  # fmt: skip
CASES = [(name, f) for name in PARAMETERS for f in getattr(stats, name).__all__]


@pytest.mark.parametrize(("name", "function"), CASES, ids=[f"{a}.{b}" for a, b in CASES])
def test_distributions_are_scipys(name, function):
    module = getattr(stats, name)
    discrete = hasattr(module, "logpmf")
    first = (
        ()
        if function == "entropy"
        else (U if function in ("ppf", "isf") else K if discrete else np.abs(X) if name == "wrapcauchy" else X,)
    )
    arguments = (*first, *PARAMETERS[name])
    if "scale" in inspect.signature(getattr(module, function)).parameters:
        arguments = (*arguments, LOC, R)
    arguments = [a.astype(np.float32) for a in arguments]
    got = getattr(module, function)(*arguments)
    with np.errstate(all="ignore"):
        want = getattr(getattr(reference, name), function)(*[a.astype(float) for a in arguments])
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, want, rtol=5e-5, atol=2e-6)


def test_tails_do_not_underflow_and_have_derivatives():
    np.testing.assert_allclose(stats.norm.logcdf(-50.0), reference.norm.logcdf(-50.0), rtol=1e-6)
    np.testing.assert_allclose(
        stats.truncnorm.logpdf(21.0, 20.0, 30.0), reference.truncnorm.logpdf(21.0, 20.0, 30.0), rtol=1e-5
    )
    for f in (stats.expon.logpdf, stats.gamma.logpdf, stats.beta.logpdf, stats.pareto.logpdf):
        extra = () if f is stats.expon.logpdf else (2.0, 2.0) if f is stats.beta.logpdf else (2.0,)
        assert np.isfinite(purax.grad(f)(-1.0, *extra)), f
    assert np.isfinite(purax.grad(stats.poisson.logpmf, 1)(-1.0, 2.0))


def test_distributions_of_vectors():
    x, mean = X[:6].reshape(2, 3).astype(np.float32), X[:3].astype(np.float32)
    root = rng.normal(size=(3, 3))
    cov = (root @ root.T + np.eye(3)).astype(np.float32)
    want = reference.multivariate_normal.logpdf(x, mean, cov)
    np.testing.assert_allclose(stats.multivariate_normal.logpdf(x, mean, cov), want, rtol=1e-5)
    np.testing.assert_allclose(stats.multivariate_normal.pdf(x, mean, cov), np.exp(want), rtol=1e-4)
    alpha = np.array([1.0, 2.0, 3.0], np.float32)
    points = np.array([[0.2, 0.5], [0.3, 0.25], [0.5, 0.25]], np.float32)
    np.testing.assert_allclose(
        stats.dirichlet.logpdf(points, alpha), reference.dirichlet.logpdf(points, alpha), rtol=1e-5
    )
    np.testing.assert_allclose(
        stats.dirichlet.logpdf(points[:2], alpha), reference.dirichlet.logpdf(points, alpha), rtol=1e-5
    )
    p = np.array([0.2, 0.3, 0.5], np.float32)
    np.testing.assert_allclose(
        stats.multinomial.logpmf(np.array([1, 2, 3]), 6, p), reference.multinomial.logpmf([1, 2, 3], 6, p), rtol=1e-5
    )
    assert float(stats.multinomial.pmf(np.array([1, 2, 3]), 5, p)) == 0


@pytest.mark.parametrize("axis", [0, 1, None])
def test_modes_ranks_and_errors_of_means(axis):
    a = rng.integers(0, 4, (5, 6))
    got, want = stats.mode(a, axis=axis), reference.mode(a, axis=axis)
    np.testing.assert_array_equal(got.mode, want.mode)
    np.testing.assert_array_equal(got.count, want.count)
    assert stats.mode(a, axis=axis, keepdims=True).mode.shape == reference.mode(a, axis=axis, keepdims=True).mode.shape
    for method in ("average", "min", "max", "dense", "ordinal"):
        np.testing.assert_array_equal(stats.rankdata(a, method, axis=axis), reference.rankdata(a, method, axis=axis))
    np.testing.assert_allclose(stats.sem(a, axis=axis), reference.sem(a, axis=axis), rtol=1e-6)


def test_density_estimates():
    data, weights = rng.normal(size=(2, 30)).astype(np.float32), U[:30].astype(np.float32)
    points = rng.normal(size=(2, 5)).astype(np.float32)
    for method in (None, "silverman", 0.3):
        got, want = stats.gaussian_kde(data, method, weights), reference.gaussian_kde(data, method, weights)
        np.testing.assert_allclose(got(points), want(points), rtol=1e-4)
        np.testing.assert_allclose(got.logpdf(points), want.logpdf(points), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(got.integrate_kde(got), want.integrate_kde(want), rtol=1e-4)
    np.testing.assert_allclose(
        got.integrate_gaussian(np.zeros(2), np.eye(2)), want.integrate_gaussian(np.zeros(2), np.eye(2)), rtol=1e-4
    )
    one, other = stats.gaussian_kde(data[0]), reference.gaussian_kde(data[0])
    np.testing.assert_allclose(one.integrate_box_1d(-1, 1), other.integrate_box_1d(-1, 1), rtol=1e-4)
    assert got.resample(random.key(0), (3,)).shape == (2, 3)
    np.testing.assert_allclose(purax.jit(lambda k, x: k(x))(got, points), got(points), rtol=1e-5)


@pytest.mark.parametrize(("name", "function"), [(a, b) for a, b in CASES if b != "entropy"])
def test_no_probability_is_known_of_a_number_that_is_none(name, function):
    operands = [np.float32(p[0]) for p in PARAMETERS[name]]
    assert np.isnan(getattr(getattr(stats, name), function)(np.float32(np.nan), *operands))


def test_a_quantile_has_the_dtype_of_its_operands():
    with purax.enable_x64():
        assert stats.bernoulli.ppf(np.float32(0.3), np.float32(0.5)).dtype == np.float32
