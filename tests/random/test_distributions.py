# SPDX-License-Identifier: Apache-2.0
"""Draws follow the laws that they are named after: Kolmogorov-Smirnov and chi-square tests on fixed keys."""

import numpy as np
import pytest
import scipy.stats

import purax
from purax import errors, random
from purax import numpy as pnp

N = 4000
KEY = random.key(42)

CONTINUOUS = {
    "uniform": (lambda: random.uniform(KEY, (N,), minval=-1, maxval=3), scipy.stats.uniform(-1, 4)),
    "normal": (lambda: random.normal(KEY, (N,)), scipy.stats.norm()),
    "truncated_normal": (lambda: random.truncated_normal(KEY, -0.5, 2.0, (N,)), scipy.stats.truncnorm(-0.5, 2.0)),
    "lognormal": (lambda: random.lognormal(KEY, 0.7, (N,)), scipy.stats.lognorm(0.7)),
    "exponential": (lambda: random.exponential(KEY, (N,)), scipy.stats.expon()),
    "cauchy": (lambda: random.cauchy(KEY, (N,)), scipy.stats.cauchy()),
    "laplace": (lambda: random.laplace(KEY, (N,)), scipy.stats.laplace()),
    "logistic": (lambda: random.logistic(KEY, (N,)), scipy.stats.logistic()),
    "gumbel": (lambda: random.gumbel(KEY, (N,)), scipy.stats.gumbel_r()),
    "gumbel high": (lambda: random.gumbel(KEY, (N,), mode="high"), scipy.stats.gumbel_r()),
    "gumbel highest": (lambda: random.gumbel(KEY, (N,), mode="highest"), scipy.stats.gumbel_r()),
    "maxwell": (lambda: random.maxwell(KEY, (N,)), scipy.stats.maxwell()),
    "double_sided_maxwell": (lambda: random.double_sided_maxwell(KEY, 1.0, 2.0, (N,)), scipy.stats.dweibull(1.0)),
    "pareto": (lambda: random.pareto(KEY, 2.5, (N,)), scipy.stats.pareto(2.5)),
    "rayleigh": (lambda: random.rayleigh(KEY, 1.5, (N,)), scipy.stats.rayleigh(scale=1.5)),
    "wald": (lambda: random.wald(KEY, 0.8, (N,)), scipy.stats.invgauss(0.8)),
    "weibull_min": (lambda: random.weibull_min(KEY, 2.0, 1.7, (N,)), scipy.stats.weibull_min(1.7, scale=2.0)),
    "triangular": (lambda: random.triangular(KEY, 1.0, 2.0, 5.0, (N,)), scipy.stats.triang(0.25, 1.0, 4.0)),
    "gamma": (lambda: random.gamma(KEY, 2.3, (N,)), scipy.stats.gamma(2.3)),
    "gamma below one": (lambda: random.gamma(KEY, 0.3, (N,)), scipy.stats.gamma(0.3)),
    "loggamma": (lambda: random.loggamma(KEY, 0.01, (N,)), scipy.stats.loggamma(0.01)),
    "beta": (lambda: random.beta(KEY, 0.6, 2.0, (N,)), scipy.stats.beta(0.6, 2.0)),
    "chisquare": (lambda: random.chisquare(KEY, 3.0, (N,)), scipy.stats.chi2(3.0)),
    "f": (lambda: random.f(KEY, 4.0, 6.0, (N,)), scipy.stats.f(4.0, 6.0)),
    "t": (lambda: random.t(KEY, 3.5, (N,)), scipy.stats.t(3.5)),
    "generalized_normal": (lambda: random.generalized_normal(KEY, 1.5, (N,)), scipy.stats.gennorm(1.5)),
    "ball": (lambda: random.ball(KEY, 3, shape=(N,)).__pow__(2).sum(-1) ** 1.5, scipy.stats.uniform()),
    "dirichlet": (lambda: random.dirichlet(KEY, np.array([0.7, 2.0], np.float32), (N,))[:, 0], scipy.stats.beta(0.7, 2.0)),
}  # fmt: skip


class _SignedSpeed:
    """Distribution function of a Maxwell speed with random sign, times 2, plus 1."""

    def cdf(self, x):
        z = (np.asarray(x) - 1) / 2
        return 0.5 + 0.5 * np.sign(z) * scipy.stats.maxwell.cdf(np.abs(z))


CONTINUOUS["double_sided_maxwell"] = (CONTINUOUS["double_sided_maxwell"][0], _SignedSpeed())


@pytest.mark.parametrize("name", CONTINUOUS)
def test_draws_follow_their_distribution(name):
    draw, law = CONTINUOUS[name]
    values = np.asarray(draw(), np.float64)
    assert values.shape == (N,)
    assert scipy.stats.kstest(values, law.cdf).pvalue > 1e-3


DISCRETE = {
    "poisson small": (lambda: random.poisson(KEY, 2.5, (N,)), scipy.stats.poisson(2.5)),
    "poisson large": (lambda: random.poisson(KEY, 40.0, (N,)), scipy.stats.poisson(40.0)),
    "binomial few": (lambda: random.binomial(KEY, 12.0, 0.2, (N,)), scipy.stats.binom(12, 0.2)),
    "binomial many": (lambda: random.binomial(KEY, 60.0, 0.7, (N,)), scipy.stats.binom(60, 0.7)),
    "geometric": (lambda: random.geometric(KEY, 0.3, (N,)), scipy.stats.geom(0.3)),
    "randint": (lambda: random.randint(KEY, (N,), -3, 9), scipy.stats.randint(-3, 9)),
    "rademacher": (lambda: (random.rademacher(KEY, (N,)) + 1) // 2, scipy.stats.bernoulli(0.5)),
    "bernoulli": (lambda: random.bernoulli(KEY, 0.2, (N,)).astype(int), scipy.stats.bernoulli(0.2)),
    "choice": (
        lambda: random.choice(KEY, 4, (N,), p=np.array([0.1, 0.2, 0.3, 0.4], np.float32)),
        scipy.stats.rv_discrete(values=(range(4), [0.1, 0.2, 0.3, 0.4])),
    ),
    "categorical": (
        lambda: random.categorical(KEY, np.log(np.array([0.1, 0.2, 0.3, 0.4], np.float32)), shape=(N,)),
        scipy.stats.rv_discrete(values=(range(4), [0.1, 0.2, 0.3, 0.4])),
    ),
    "multinomial": (
        lambda: random.multinomial(KEY, 15.0, np.array([0.3, 0.7], np.float32), shape=(N, 2))[:, 0],
        scipy.stats.binom(15, 0.3),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DISCRETE)
def test_counts_follow_their_distribution(name):
    draw, law = DISCRETE[name]
    values = np.asarray(draw())
    numbers = np.arange(values.min(), values.max() + 1)
    expected = law.pmf(numbers) * N
    common = expected >= 5
    observed = np.array([(values == number).sum() for number in numbers])
    seen = np.append(observed[common], N - observed[common].sum())
    want = np.append(expected[common], N - expected[common].sum())
    keep = want > 1e-6 * N
    assert seen[~keep].sum() == 0
    assert scipy.stats.chisquare(seen[keep], want[keep] * seen[keep].sum() / want[keep].sum()).pvalue > 1e-3


def test_parameters_broadcast_to_the_shape():
    rates = np.array([1.0, 100.0], np.float32)
    assert random.poisson(KEY, rates, (5, 2)).shape == (5, 2)
    assert random.gamma(KEY, rates).shape == (2,)
    assert random.multinomial(KEY, 5.0, np.full((3, 2), 0.5, np.float32)).sum(-1).tolist() == [5, 5, 5]
    with pytest.raises(ValueError, match="broadcast"):
        random.gamma(KEY, rates, (3,))


def test_impossible_parameters_give_nan():
    assert np.isnan(random.binomial(KEY, -1.0, 0.5))
    assert np.isnan(random.binomial(KEY, 5.0, np.nan))
    assert random.poisson(KEY, np.nan) == -1
    assert random.poisson(KEY, 0.0) == 0


def test_narrow_integers_are_drawn_evenly():
    counts = np.bincount(np.asarray(random.randint(KEY, (1_000_000,), 0, 100, "uint8")), minlength=100)
    assert abs(counts - 10_000).max() < 400


def test_integers_beyond_the_dtype_are_refused():
    with pytest.raises(OverflowError):
        random.randint(KEY, (), 0, 1 << 31)
    assert random.randint(KEY, (8,), 0, (1 << 32) - 1, "uint32").dtype == np.uint32
    with pytest.raises(TypeError, match="integer"):
        random.randint(KEY, (2,), 0, 5, "float32")


def test_permutations_hold_every_element_once():
    x = np.arange(12).reshape(4, 3)
    assert sorted(random.permutation(KEY, 50).tolist()) == list(range(50))
    rows = np.asarray(random.permutation(KEY, x))
    assert sorted(map(tuple, rows.tolist())) == sorted(map(tuple, x.tolist()))
    apart = np.asarray(random.permutation(KEY, x, axis=1, independent=True))
    np.testing.assert_array_equal(np.sort(apart, 1), x)
    chosen = np.asarray(random.choice(KEY, 20, (20,), replace=False))
    assert sorted(chosen.tolist()) == list(range(20))
    with pytest.raises(ValueError, match="without replacement"):
        random.choice(KEY, 3, (4,), replace=False)
    with pytest.raises(TypeError, match="traced"):
        purax.jit(lambda n: random.permutation(KEY, n))(5)


def test_uniform_draws_stay_below_the_upper_limit():
    for dtype in ("float16", "bfloat16", "float32"):
        draws = np.asarray(random.uniform(KEY, (20_000,), dtype), np.float64)
        assert draws.min() >= 0
        assert draws.max() < 1


@pytest.mark.parametrize("wrap", [lambda f: f, purax.jit], ids=["eager", "jit"])
def test_half_precision_draws_between_limits_are_rounded_once(wrap):
    low, high = np.float16(-3.1), np.float16(5.7)
    unit = np.asarray(random.uniform(KEY, (N,), "float16"))
    have = np.asarray(wrap(lambda key: random.uniform(key, (N,), "float16", low, high))(KEY))
    np.testing.assert_array_equal(have, (unit.astype(np.float64) * (high - low) + low).astype(np.float16))


def test_matrices_are_orthogonal_and_vectors_have_their_covariance():
    q = np.asarray(random.orthogonal(KEY, 4, (3,)))
    np.testing.assert_allclose(q @ q.transpose(0, 2, 1), np.broadcast_to(np.eye(4), (3, 4, 4)), atol=1e-5)
    cov = np.array([[2.0, 0.6], [0.6, 1.0]], np.float32)
    for method in ("cholesky", "eigh", "svd"):
        draws = np.asarray(random.multivariate_normal(KEY, np.ones(2, np.float32), cov, (N,), method=method))
        np.testing.assert_allclose(draws.mean(0), 1, atol=0.1)
        np.testing.assert_allclose(np.cov(draws.T), cov, atol=0.15)


def quantile_slope(law, a, value, step=1e-4):
    """How the quantile at the place of `value` moves with the parameter."""
    place = law.cdf(value, a)
    return (law.ppf(place, a + step) - law.ppf(place, a - step)) / (2 * step)


@pytest.mark.parametrize("a", [0.4, 1.0, 5.0])
def test_gamma_draws_move_along_their_quantile(a):
    keys = random.split(KEY, 5)
    for draw in (random.gamma, lambda k, a: pnp.exp(random.loggamma(k, a))):
        for key in keys:
            value = float(draw(key, a))
            np.testing.assert_allclose(
                purax.grad(draw, 1)(key, a), quantile_slope(scipy.stats.gamma, a, value), rtol=2e-3
            )


def test_draws_are_differentiable_in_their_limits():
    slope = purax.grad(lambda high: random.uniform(KEY, (), minval=0.0, maxval=high))(2.0)
    np.testing.assert_allclose(slope, random.uniform(KEY), rtol=1e-6)


def test_wrong_dtypes_and_modes_are_refused():
    for draw in (random.normal, random.uniform, random.exponential):
        with pytest.raises(ValueError, match="float"):
            draw(KEY, (2,), "int32")
    with pytest.raises(ValueError, match="unsigned"):
        random.bits(KEY, (2,), "int8")
    with pytest.raises(ValueError, match="mode"):
        random.gumbel(KEY, mode="medium")
    with pytest.raises(TypeError, match="must be a float"):
        random.bernoulli(KEY, 1)
    with pytest.raises(errors.TypePromotionError):
        random.beta(KEY, np.float32(1), np.float32(1), dtype="float16")
