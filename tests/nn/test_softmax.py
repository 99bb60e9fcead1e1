# SPDX-License-Identifier: Apache-2.0
"""Softmax and its relatives against SciPy; masks that keep everything out."""

import numpy as np
import pytest
import scipy.special

import purax
from purax import nn

RNG = np.random.default_rng(3)
X = (RNG.standard_normal((3, 5)) * 4).astype(np.float32)
MASK = RNG.random((3, 5)) < 0.7


@pytest.mark.parametrize("axis", [0, 1, -1, (0, 1), None])
def test_softmax_and_its_logarithm_equal_scipys(axis):
    np.testing.assert_allclose(nn.softmax(X, axis), scipy.special.softmax(X, axis), rtol=1e-5)
    np.testing.assert_allclose(nn.log_softmax(X, axis), scipy.special.log_softmax(X, axis), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(nn.logsumexp(X, axis), scipy.special.logsumexp(X, axis), rtol=1e-5)
    np.testing.assert_allclose(nn.logmeanexp(X, axis), np.log(np.mean(np.exp(X.astype(np.float64)), axis)), rtol=1e-5)


def test_large_numbers_do_not_overflow():
    x = np.float32([1000.0, 1000.0, -np.inf])
    np.testing.assert_allclose(nn.softmax(x), [0.5, 0.5, 0])
    np.testing.assert_allclose(nn.logsumexp(x), 1000 + np.log(2), rtol=1e-6)
    assert nn.logsumexp(np.float32([-np.inf, -np.inf])) == -np.inf
    assert nn.logsumexp(np.float32([np.inf, 0])) == np.inf


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_the_derivative_is_that_of_the_definition(name):
    f = getattr(nn, name)

    def definition(x):
        powers = purax.numpy.exp(x)
        share = powers / powers.sum(-1, keepdims=True)
        return share if name == "softmax" else purax.numpy.log(share)

    weights = RNG.standard_normal(X.shape).astype(np.float32)
    for transform in (lambda g: g, purax.jit):
        have = transform(purax.grad(lambda x: (f(x) * weights).sum()))(X)
        want = purax.grad(lambda x: (definition(x) * weights).sum())(X)
        np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(purax.hessian(lambda x: (f(x) * weights[0]).sum())(X[0]),
                               purax.hessian(lambda x: (definition(x) * weights[0]).sum())(X[0]), rtol=1e-3, atol=1e-4)  # fmt: skip


def test_what_a_mask_leaves_out_has_no_part():
    kept = nn.softmax(X, where=MASK)
    np.testing.assert_allclose(kept.sum(-1), 1, rtol=1e-6)
    for row, mask, out in zip(X, MASK, np.asarray(kept), strict=True):
        np.testing.assert_allclose(out[mask], scipy.special.softmax(row[mask]), rtol=1e-5)
        assert (out[~mask] == 0).all()
    logs = np.asarray(nn.log_softmax(X, where=MASK))
    assert np.isneginf(logs[~MASK]).all()
    np.testing.assert_allclose(
        nn.logsumexp(X, axis=1, where=MASK),
        [scipy.special.logsumexp(r[m]) for r, m in zip(X, MASK, strict=True)],
        rtol=1e-5,
    )


@pytest.mark.parametrize("poison", [100.0, np.inf, np.nan])
def test_gradients_do_not_see_what_a_mask_leaves_out(poison):
    x, mask = np.float32([1.0, 1.0, poison]), np.array([True, True, False])
    for f in (nn.softmax, nn.log_softmax):
        for transform in (lambda g: g, purax.jit):
            gradient = transform(purax.grad(lambda x, f=f: f(x, where=mask)[:2].sum()))(x)
            np.testing.assert_allclose(gradient, [0, 0, 0], atol=1e-7)
    np.testing.assert_allclose(purax.grad(lambda x: nn.logsumexp(x, where=mask))(x), [0.5, 0.5, 0], rtol=1e-6)
    np.testing.assert_allclose(purax.grad(lambda x: nn.logmeanexp(x, where=mask))(x), [0.5, 0.5, 0], rtol=1e-6)


def test_a_row_that_is_left_out_whole_gives_zeros():
    nothing = np.zeros(3, bool)
    x = np.float32([1.0, 2.0, 3.0])
    np.testing.assert_array_equal(nn.softmax(x, where=nothing), [0, 0, 0])
    np.testing.assert_array_equal(purax.grad(lambda x: nn.softmax(x, where=nothing).sum())(x), [0, 0, 0])
    assert nn.logsumexp(x, where=nothing) == -np.inf


def test_no_infinity_appears_on_the_way():
    with purax.debug_infs(True):
        np.testing.assert_allclose(nn.logsumexp(np.ones(4, np.float32)), 1 + np.log(4), rtol=1e-6)


def test_factors_and_signs_of_logsumexp():
    b = np.float32([1.0, -2.0, 0.0, 0.5, 1.0])
    for row in X:
        want, sign = scipy.special.logsumexp(row, b=b, return_sign=True)
        have, have_sign = nn.logsumexp(row, b=b, return_sign=True)
        np.testing.assert_allclose((have, have_sign), (want, sign), rtol=1e-4)
    assert np.isnan(nn.logsumexp(np.float32([0.0, 1.0]), b=np.float32([1, -1])))
    z = (X[0] + 1j * X[1]).astype(np.complex64)
    np.testing.assert_allclose(nn.logsumexp(z), np.log(np.exp(z.astype(np.complex128)).sum()), rtol=1e-5)


def test_standardized_values_have_mean_zero_and_variance_one():
    for algorithm in ("fast", "stable"):
        out = np.asarray(nn.standardize(X, epsilon=0.0, algorithm=algorithm))
        np.testing.assert_allclose(out.mean(-1), 0, atol=1e-5)
        np.testing.assert_allclose(out.var(-1), 1, rtol=1e-4)
    np.testing.assert_allclose(nn.standardize(X, mean=1.0, variance=4.0, epsilon=0.0), (X - 1) / 2, rtol=1e-6)
    with pytest.raises(ValueError, match="algorithm"):
        nn.standardize(X, algorithm="slow")
