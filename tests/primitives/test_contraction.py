# SPDX-License-Identifier: Apache-2.0
"""Products of arrays: samples for the laws, dtypes, and the form of gradients."""

import itertools

import ml_dtypes
import numpy as np
import pytest

import purax
from purax import errors, lax
from purax import numpy as pnp
from purax.primitives import barrier, contraction, dot_algorithm, metadata, ragged, reduction
from tests.laws.sample import BadSample, Sample

rng = np.random.default_rng(0)


def normal(*sizes, dtype=np.float32):
    """Normal numbers."""
    return rng.standard_normal(sizes).astype(dtype)


def case(lhs, rhs, contracting, batch=((), ()), preferred=None, **kwargs):
    """A sample of dot_general."""
    params = {"dimension_numbers": (contracting, batch), "precision": None, "preferred_element_type": preferred}
    return Sample(contraction.dot_general_p, (lhs, rhs), params, **kwargs)


COMPLEX = normal(3, 4) + 1j * normal(3, 4)
BF16 = ml_dtypes.bfloat16
SAMPLES = [
    case(normal(3, 4), normal(4, 5), ((1,), (0,))),
    case(normal(4, 3), normal(5, 4), ((0,), (1,))),
    case(normal(2, 3, 4), normal(4, 5), ((2,), (0,))),
    case(normal(4, 5), normal(2, 3, 4), ((0,), (2,))),
    case(normal(2, 3, 4), normal(2, 4, 5), ((2,), (1,)), ((0,), (0,))),
    case(normal(2, 6, 3, 4), normal(2, 5, 3, 4), ((3,), (3,)), ((0, 2), (0, 2))),
    case(normal(2, 3, 4, 2), normal(4, 2, 3), ((1, 2), (2, 0)), ((3,), (1,))),
    case(normal(3), normal(3), ((0,), (0,))),
    case(normal(3), normal(4), ((), ())),
    case(normal(2, 3), normal(3, 4, 2), ((0, 1), (2, 0))),
    case(normal(3, 0), normal(0, 2), ((1,), (0,)), differentiable=()),
    case(COMPLEX, COMPLEX, ((1,), (1,))),
    case(normal(3, 4), COMPLEX, ((1,), (1,))),
    case(normal(3, 4, dtype=BF16), normal(4, 5, dtype=BF16), ((1,), (0,)), differentiable=()),
    case(normal(3, 4, dtype=BF16), normal(4, 5, dtype=BF16), ((1,), (0,)), preferred=np.dtype(np.float32), differentiable=()),
    case(normal(3, 4), normal(4, 5, dtype=BF16), ((1,), (0,)), differentiable=()),
    case(rng.integers(-9, 9, (3, 4)).astype(np.int8), rng.integers(-9, 9, (4, 2)).astype(np.int8), ((1,), (0,))),
    case(rng.integers(-9, 9, (3, 4)).astype(np.int8), rng.integers(-9, 9, (4, 2)).astype(np.int8), ((1,), (0,)),
         preferred=np.dtype(np.int32)),
    case(rng.integers(0, 2, (3, 4)).astype(bool), rng.integers(0, 2, (4, 2)).astype(bool), ((1,), (0,))),
    Sample(barrier.optimization_barrier_p, (normal(3), normal(2, 2))),
    Sample(metadata.xla_metadata_value_p, (normal(3),), {"xla_metadata_kvs": (("pass", "skip"),)}),
]  # fmt: skip
BAD_SAMPLES = [
    BadSample(
        contraction.dot_general_p, (normal(3, 4), normal(3, 4)), SAMPLES[0].params, errors.ShapeError, "equal sizes"
    ),
    BadSample(
        contraction.dot_general_p, (normal(3), normal(3)), SAMPLES[0].params, errors.ShapeError, "are not all among"
    ),
]


def test_dot_takes_vectors_and_matrices():
    a, v = normal(3, 4), normal(4)
    np.testing.assert_allclose(contraction.dot(a, v), a @ v, rtol=1e-5)
    np.testing.assert_allclose(contraction.dot(v, v), v @ v, rtol=1e-5)
    with pytest.raises(errors.ShapeError, match="fitting sizes"):
        contraction.dot(v, a)


def test_batch_matmul_is_matmul():
    a, b = normal(2, 5, 3, 4), normal(2, 5, 4, 2)
    np.testing.assert_allclose(contraction.batch_matmul(a, b), a @ b, rtol=1e-5, atol=1e-6)


def test_half_precision_products_accumulate_in_single_precision():
    x = np.full((1, 4096), 0.1, BF16)
    got = np.asarray(contraction.dot(x, x.T.copy()), np.float64)
    np.testing.assert_allclose(got, 4096 * float(x[0, 0]) ** 2, rtol=4e-3)


def test_precision_has_names_and_pairs():
    a = normal(2, 2)
    for precision in ("highest", contraction.Precision.HIGH, ("default", "float32"), None):
        np.testing.assert_allclose(contraction.dot(a, a, precision=precision), a @ a, rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="unknown precision"):
        contraction.dot(a, a, precision="exact")


def test_gradients_of_a_dense_layer_transpose_nothing():
    x, w = normal(2, 6, 3), normal(3, 5)

    def loss(x, w):
        y = contraction.dot_general(x, w, (((2,), (0,)), ((), ())))
        return reduction.reduce_sum(y, (0, 1, 2))

    jaxpr = purax.make_jaxpr(purax.grad(loss, (0, 1)))(x, w)
    names = [e.primitive.name for e in jaxpr.eqns]
    assert names.count("dot_general") >= 2
    assert "transpose" not in names
    dx, dw = purax.grad(loss, (0, 1))(x, w)
    np.testing.assert_allclose(dx, np.broadcast_to(w.sum(1), x.shape), rtol=1e-5)
    np.testing.assert_allclose(dw, np.broadcast_to(x.sum((0, 1))[:, None], w.shape), rtol=1e-5)


def test_merging_axes_leaves_matrices_in_the_program():
    text = (
        purax.jit(lambda x, w: contraction.dot_general(x, w, (((2,), (0,)), ((), ()))))
        .lower(normal(2, 6, 3), normal(3, 5))
        .as_text()
    )
    assert "tensor<12x3xf32>" in text


def test_algorithms_round_operands_and_keep_the_dtype():
    a, b = normal(8, 8), normal(8, 8)
    for preset in dot_algorithm.DotAlgorithmPreset:
        got = contraction.dot(a, b, precision=preset)
        assert got.dtype == np.float32
        np.testing.assert_allclose(got, a @ b, rtol=0.1, atol=0.1)
    rounded = contraction.dot(a, b, precision=dot_algorithm.DotAlgorithmPreset.BF16_BF16_F32)
    want = a.astype(BF16).astype(np.float32) @ b.astype(BF16).astype(np.float32)
    np.testing.assert_allclose(rounded, want, rtol=1e-5, atol=1e-5)
    custom = dot_algorithm.DotAlgorithm(BF16, BF16, np.float32)
    np.testing.assert_array_equal(contraction.dot(a, b, precision=custom), rounded)
    np.testing.assert_array_equal(contraction.dot(a, b, precision="BF16_BF16_F32"), rounded)
    with purax.default_matmul_precision("BF16_BF16_F32"):
        np.testing.assert_array_equal(contraction.dot(a, b), rounded)


def test_ragged_products_give_each_group_its_matrix():
    x, w, sizes = normal(6, 2), normal(3, 2, 4), np.array([2, 1, 2], np.int32)
    want = np.concatenate([x[:2] @ w[0], x[2:3] @ w[1], x[3:5] @ w[2], np.zeros((1, 4))])
    np.testing.assert_allclose(ragged.ragged_dot(x, w, sizes), want, rtol=1e-5, atol=1e-6)
    part = ragged.ragged_dot(x, w[1:], sizes, group_offset=np.array([1], np.int32))
    np.testing.assert_allclose(part, np.concatenate([np.zeros((2, 4)), want[2:]]), rtol=1e-5, atol=1e-6)
    gradient = purax.grad(lambda v: reduction.reduce_sum(ragged.ragged_dot(x, v, sizes), (0, 1)))(w)
    np.testing.assert_allclose(gradient[0], np.repeat(x[:2].sum(0)[:, None], 4, 1), rtol=1e-5, atol=1e-6)


def test_ragged_contracting_axes_give_a_result_for_each_group():
    x, y, sizes = normal(6, 2), normal(6, 3), np.array([2, 1, 2], np.int32)
    numbers = ragged.RaggedDotDimensionNumbers((((0,), (0,)), ((), ())), (0,), ())
    got = ragged.ragged_dot_general(x, y, sizes, numbers)
    want = np.stack([x[:2].T @ y[:2], x[2:3].T @ y[2:3], x[3:5].T @ y[3:5]])
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_groups_may_differ_from_batch_to_batch():
    x, w, sizes = normal(2, 5, 3), normal(2, 2, 3, 4), np.array([[2, 3], [4, 1]], np.int32)
    numbers = ragged.RaggedDotDimensionNumbers((((2,), (2,)), ((0,), (1,))), (1,), (0,))
    want = [np.concatenate([x[b, :n] @ w[0, b], x[b, n:] @ w[1, b]]) for b, n in enumerate(sizes[:, 0])]
    np.testing.assert_allclose(ragged.ragged_dot_general(x, w, sizes, numbers), want, rtol=1e-5, atol=1e-6)
    mapped = purax.vmap(ragged.ragged_dot, in_axes=(0, 1, 0))(x, w, sizes)
    np.testing.assert_allclose(mapped, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("ragged_axes", "group_axes", "sizes", "message"),
    [
        ((2,), (0,), (3,), "one ragged axis"),
        ((0,), (0,), (2,), "tells of 2 groups"),
        ((0,), (1,), (3,), "one group axis"),
        ((0,), (), (3,), "one group axis"),
        ((1,), (0,), (3,), "has no group axis"),
        ((0,), (0,), (2, 3), "group_sizes"),
        ((0,), (0,), (), "at least one axis"),
    ],
)
def test_groups_that_do_not_fit_are_told(ragged_axes, group_axes, sizes, message):
    numbers = ragged.RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), ragged_axes, group_axes)
    with pytest.raises(errors.ShapeError, match=message):
        ragged.ragged_dot_general(normal(11, 5), normal(3, 5, 7), np.ones(sizes, np.int32), numbers)


def test_scales_belong_to_blocks():
    x, y = normal(2, 64), normal(64, 3)
    scale = np.array([[1.0, 2.0], [4.0, 0.5]], np.float32)
    got = dot_algorithm.scaled_dot(x, y, lhs_scale=scale, preferred_element_type=np.float32)
    np.testing.assert_allclose(got, (x * np.repeat(scale, 32, 1)) @ y, rtol=1e-4, atol=1e-4)
    assert dot_algorithm.scaled_dot(x, y).dtype == BF16
    with pytest.raises(errors.ShapeError, match="does not divide"):
        dot_algorithm.scaled_dot(x, y, lhs_scale=scale[:, :1][:1].repeat(3, 1))


@pytest.mark.parametrize("preferred", [np.float32, ml_dtypes.float8_e5m2])
def test_floats_of_eight_bits_meet_where_the_result_is_named(preferred):
    kinds = (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.bfloat16)
    for left, right in itertools.product(kinds, kinds):
        x, y = pnp.full((2, 3), 2, left), pnp.full((3, 2), 0.5, right)
        product = lambda x, y=y: lax.dot(x, y, preferred_element_type=preferred)
        np.testing.assert_array_equal(product(x).astype(np.float32), np.full((2, 2), 3))
        gradient = purax.grad(lambda x, product=product: product(x).astype(np.float32).sum())(x)
        assert gradient.dtype == left
        np.testing.assert_array_equal(gradient.astype(np.float32), np.ones((2, 3)))
    with pytest.raises(errors.TypePromotionError):
        lax.dot(pnp.ones(2, kinds[0]), pnp.ones(2, kinds[1]))
