# SPDX-License-Identifier: Apache-2.0
"""Reductions: samples for the laws, and what the laws do not see."""

import ml_dtypes
import numpy as np
import pytest

import purax
from purax import errors, lax
from purax.primitives import elementwise, reducer, reduction
from tests.laws.sample import BadSample, Sample

rng = np.random.default_rng(0)
X = rng.standard_normal((3, 4, 2)).astype(np.float32)
COMPLEX = (X + 1j * X[::-1]).astype(np.complex64)
INTS = rng.integers(-9, 9, (3, 4)).astype(np.int32)
HALF = X.astype(ml_dtypes.bfloat16)

SAMPLES = [
    *(Sample(p, (X,), {"axes": axes}) for axes in ((0,), (0, 2), (2, 1, 0), ())
      for p in (reduction.reduce_sum_p, reduction.reduce_prod_p, reduction.reduce_max_p, reduction.reduce_min_p)),
    *(Sample(p, (INTS,), {"axes": (1,)}) for p in (
        reduction.reduce_sum_p, reduction.reduce_prod_p, reduction.reduce_max_p, reduction.reduce_min_p,
        reduction.reduce_and_p, reduction.reduce_or_p, reduction.reduce_xor_p)),
    *(Sample(p, (INTS > 0,), {"axes": (0,)}) for p in (
        reduction.reduce_max_p, reduction.reduce_min_p, reduction.reduce_and_p, reduction.reduce_or_p, reduction.reduce_xor_p)),
    *(Sample(p, (COMPLEX,), {"axes": (1,)}) for p in (reduction.reduce_sum_p, reduction.reduce_prod_p)),
    *(Sample(p, (COMPLEX,), {"axes": (1,)}, differentiable=()) for p in (reduction.reduce_max_p, reduction.reduce_min_p)),
    *(Sample(p, (HALF,), {"axes": (1,)}, differentiable=()) for p in (reduction.reduce_sum_p, reduction.reduce_max_p)),
    *(Sample(p, (X[:, :0],), {"axes": (1,)}, differentiable=()) for p in (
        reduction.reduce_sum_p, reduction.reduce_prod_p, reduction.reduce_max_p)),
    *(Sample(p, (X,), {"axes": (1,), "index_dtype": np.dtype(np.int32)}) for p in (reduction.argmax_p, reduction.argmin_p)),
    *(Sample(p, (INTS,), {"axes": (0,), "index_dtype": np.dtype(np.int8)}) for p in (reduction.argmax_p, reduction.argmin_p)),
]  # fmt: skip
BAD_SAMPLES = [
    BadSample(reduction.reduce_sum_p, (X,), {"axes": (3,)}, errors.ShapeError, "axis 3 is out of bounds"),
    BadSample(reduction.reduce_sum_p, (X,), {"axes": (1, 1)}, errors.ShapeError, "duplicate"),
    BadSample(reduction.reduce_sum_p, (INTS > 0,), {"axes": (0,)}, errors.DTypeError, "bool"),
    BadSample(reduction.reduce_and_p, (X,), {"axes": (0,)}, errors.DTypeError, "float32"),
    BadSample(
        reduction.argmax_p, (X[:0],), {"axes": (0,), "index_dtype": np.dtype(np.int32)}, errors.ShapeError, "empty"
    ),
]


def test_ties_share_the_derivative_of_an_extremum():
    x = np.array([1.0, 3.0, 3.0, 3.0], np.float32)
    np.testing.assert_allclose(
        purax.grad(lambda v: reduction.reduce_max(v, (0,)))(x), [0, 1 / 3, 1 / 3, 1 / 3], rtol=1e-6
    )
    np.testing.assert_allclose(purax.grad(lambda v: reduction.reduce_min(v, (0,)))(x), [1, 0, 0, 0])


def test_nan_is_the_extremum_and_takes_the_derivative():
    x = np.array([1.0, np.nan, 3.0], np.float32)
    assert np.isnan(np.asarray(reduction.reduce_max(x, (0,)))) and np.isnan(np.asarray(reduction.reduce_min(x, (0,))))
    np.testing.assert_array_equal(purax.grad(lambda v: reduction.reduce_max(v, (0,)))(x), [0, 1, 0])


def test_of_equal_zeros_the_larger_sign_is_the_maximum():
    for x in ([0.0, -0.0], [-0.0, 0.0]):
        assert not np.signbit(np.asarray(reduction.reduce_max(np.array(x, np.float32), (0,))))
        assert np.signbit(np.asarray(reduction.reduce_min(np.array(x, np.float32), (0,))))


def test_positions_of_extrema_are_the_first_and_nan_wins():
    x = np.array([[1, 5, 5], [np.nan, 9, np.nan], [-np.inf, -np.inf, -np.inf]], np.float32)
    np.testing.assert_array_equal(reduction.argmax(x, 1, np.int32), np.argmax(x, 1))
    np.testing.assert_array_equal(reduction.argmin(x, 1, np.int32), np.argmin(x, 1))
    np.testing.assert_array_equal(purax.jit(lambda v: reduction.argmax(v, 1, np.int32))(x), np.argmax(x, 1))
    np.testing.assert_array_equal(purax.jit(lambda v: reduction.argmin(v, 1, np.int32))(x), np.argmin(x, 1))


def test_half_precision_sums_accumulate_in_single_precision():
    x = np.full(1 << 16, 1e-3, np.float16)
    np.testing.assert_allclose(
        np.asarray(reduction.reduce_sum(x, (0,)), np.float64), x.astype(np.float64).sum(), rtol=1e-3
    )


@pytest.mark.parametrize("zeros", [0, 1, 2])
def test_the_derivative_of_a_product_is_right_at_zeros(zeros):
    x = np.array([2.0, 3.0, 5.0, 7.0, 11.0], np.float32)
    x[:zeros] = 0
    gradient = [np.prod(np.delete(x, i)) for i in range(5)]
    np.testing.assert_allclose(purax.grad(lambda v: reduction.reduce_prod(v, (0,)))(x), gradient, rtol=1e-6)
    hessian = [[0 if i == j else np.prod(np.delete(x, [i, j])) for j in range(5)] for i in range(5)]
    np.testing.assert_allclose(purax.hessian(lambda v: reduction.reduce_prod(v, (0,)))(x), hessian, rtol=1e-6)


def test_reduce_knows_the_operations_that_have_primitives():
    x = INTS.astype(np.float32)
    np.testing.assert_allclose(reducer.reduce(x, 0.0, elementwise.add, (0,)), x.sum(0))
    np.testing.assert_allclose(reducer.reduce(x, 10.0, elementwise.add, (0,)), 10 + x.sum(0))
    np.testing.assert_allclose(reducer.reduce(x, -np.inf, elementwise.max, (1,)), x.max(1))
    np.testing.assert_allclose(reducer.reduce(x, 2.5, elementwise.min, (0, 1)), min(2.5, x.min()))
    np.testing.assert_array_equal(reducer.reduce(INTS > 0, True, elementwise.bitwise_and, (0,)), (INTS > 0).all(0))


def pair_product(early, late):
    """Product and sum of squares."""
    return {
        "p": elementwise.mul(early["p"], late["p"]),
        "s": elementwise.add(early["s"], elementwise.mul(late["s"], 1.0)),
    }


def test_reduce_folds_pytrees_by_any_function_and_differentiates():
    x = X[:, :, 0]

    def f(v):
        out = reducer.reduce({"p": v, "s": v}, {"p": 1.0, "s": 0.5}, pair_product, (1,))
        return out["p"], out["s"]

    product, plus = f(x)
    np.testing.assert_allclose(product, x.prod(1), rtol=1e-5)
    np.testing.assert_allclose(plus, 0.5 + x.sum(1), rtol=1e-5)
    gradient = purax.grad(lambda v: reduction.reduce_sum(f(v)[0], (0,)))(x)
    np.testing.assert_allclose(gradient, x.prod(1, keepdims=True) / x, rtol=1e-4)
    batched = purax.vmap(lambda v: f(v)[0], in_axes=2)(X)
    np.testing.assert_allclose(batched, X.prod(1).T, rtol=1e-5)
    starts = np.array([1.0, 2.0], np.float32)
    mapped = purax.vmap(lambda s: reducer.reduce({"p": x, "s": x}, {"p": s, "s": s}, pair_product, (1,))["p"])(starts)
    np.testing.assert_allclose(mapped, starts[:, None] * x.prod(1), rtol=1e-5)


def test_reduce_says_what_is_wrong_with_the_function():
    with pytest.raises(errors.ShapeError, match="must return what it takes"):
        reducer.reduce(X, 0.0, lambda a, b: elementwise.gt(a, b), (0,))
    with pytest.raises(errors.ShapeError, match="structure"):
        reducer.reduce((X,), 0.0, elementwise.add, (0,))


def test_sums_of_narrow_floats_may_be_forbidden():
    x = np.ones((1, 3), ml_dtypes.bfloat16)
    with purax.allow_f16_reductions(False):
        assert lax.reduce_sum(x, (0,)).shape == (3,)
        for call in (lax.reduce_sum, purax.jit(lax.reduce_sum, static_argnums=1)):
            with pytest.raises(ValueError, match="allow_f16_reductions"):
                call(x, (1,))
    assert float(purax.jit(lax.reduce_sum, static_argnums=1)(x, (1,))[0]) == 3
