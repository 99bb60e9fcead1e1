# SPDX-License-Identifier: Apache-2.0
"""Running reductions: samples for the laws, the loop's shapes, ties and zeros."""

import ml_dtypes
import numpy as np
import pytest

import purax
from purax import errors
from purax.primitives import cumulative, elementwise, reduction
from tests.laws.sample import BadSample, Sample

rng = np.random.default_rng(0)
X = rng.standard_normal((3, 5, 2)).astype(np.float32)
INTS = rng.integers(-9, 9, (4, 7)).astype(np.int32)
FAMILY = (
    cumulative.cumsum_p,
    cumulative.cumprod_p,
    cumulative.cummax_p,
    cumulative.cummin_p,
    cumulative.cumlogsumexp_p,
)

SAMPLES = [
    *(
        Sample(p, (X,), {"axis": axis, "reverse": reverse})
        for p in FAMILY
        for axis in range(3)
        for reverse in (False, True)
    ),
    *(Sample(p, (INTS,), {"axis": 1, "reverse": False}) for p in FAMILY[:4]),
    *(Sample(p, (X.astype(ml_dtypes.bfloat16),), {"axis": 1, "reverse": True}, differentiable=()) for p in FAMILY),
    *(Sample(p, ((X + 1j * X[::-1]).astype(np.complex64),), {"axis": 1, "reverse": False}) for p in FAMILY[:2]),
    *(Sample(p, (X[:, :0],), {"axis": 1, "reverse": False}, differentiable=()) for p in FAMILY),
]
BAD_SAMPLES = [
    BadSample(cumulative.cumsum_p, (X,), {"axis": 3, "reverse": False}, errors.ShapeError, "axis 3 is out of bounds"),
    BadSample(cumulative.cumlogsumexp_p, (INTS,), {"axis": 0, "reverse": False}, errors.DTypeError, "int32"),
]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("sizes", [(10_007,), (16, 600), (7, 600), (600, 7), (5, 40, 3), (4, 30, 100)])
def test_every_shape_of_the_loop_gives_the_running_sum(sizes, reverse):
    x = rng.integers(-99, 99, sizes).astype(np.float32)
    for axis in range(len(sizes)):
        want = np.flip(np.cumsum(np.flip(x, axis), axis), axis) if reverse else np.cumsum(x, axis)
        np.testing.assert_array_equal(cumulative.cumsum(x, axis, reverse), want)


def test_a_negative_axis_counts_from_the_end():
    np.testing.assert_array_equal(cumulative.cummax(X, -1), np.maximum.accumulate(X, -1))


def test_nan_stays_from_where_it_stands():
    x = np.array([1, np.nan, 3, 0], np.float32)
    np.testing.assert_array_equal(cumulative.cummax(x), [1, np.nan, np.nan, np.nan])
    np.testing.assert_array_equal(cumulative.cumsum(x, 0, True), [np.nan, np.nan, 3, 0])


def test_ties_share_the_derivative_of_a_running_maximum():
    x = np.array([1.0, 2.0, 2.0, 0.0], np.float32)
    gradient = purax.grad(lambda v: reduction.reduce_sum(cumulative.cummax(v), (0,)))(x)
    np.testing.assert_allclose(gradient, [1, 2, 1, 0], rtol=1e-6)


def test_the_derivative_of_a_running_product_is_right_at_zeros():
    x = np.array([2.0, 0.0, 3.0, 0.0], np.float32)
    jacobian = purax.jacfwd(cumulative.cumprod)(x)
    np.testing.assert_allclose(jacobian, [[1, 0, 0, 0], [0, 2, 0, 0], [0, 6, 0, 0], [0, 0, 0, 0]])
    np.testing.assert_allclose(purax.jacrev(cumulative.cumprod)(x), jacobian)


def test_log_sum_exp_runs_over_extreme_values():
    x = np.array([-np.inf, -1000.0, -1000.0, 0.0, 1000.0, np.inf], np.float32)
    np.testing.assert_allclose(cumulative.cumlogsumexp(x), np.logaddexp.accumulate(x), rtol=1e-6)
    y = np.array([-np.inf, 3.0, 3.0, 500.0], np.float32)
    gradient = purax.grad(
        lambda v: reduction.reduce_sum(elementwise.mul(cumulative.cumlogsumexp(v), np.float32([0, 0, 1, 0])), (0,))
    )(y)
    np.testing.assert_allclose(gradient, [0, 0.5, 0.5, 0], rtol=1e-6)


def test_second_derivative_of_log_sum_exp_at_a_tie():
    hessian = purax.hessian(
        lambda v: reduction.reduce_sum(elementwise.mul(cumulative.cumlogsumexp(v), np.float32([0, 1])), (0,))
    )
    np.testing.assert_allclose(hessian(np.float32([2.0, 2.0])), [[0.25, -0.25], [-0.25, 0.25]], rtol=1e-6)
