# SPDX-License-Identifier: Apache-2.0
"""Products of arrays: samples for the laws, dtypes, and the form of gradients."""

import ml_dtypes
import numpy as np
import pytest

import purax
from purax import errors
from purax.primitives import barrier, contraction, reduction
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
