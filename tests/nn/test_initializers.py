# SPDX-License-Identifier: Apache-2.0
"""Initial values: their spread, their shapes, and their draws, which are those of `purax.random`."""

import numpy as np
import pytest

from purax import random
from purax.nn import initializers

KEY = random.key(0)
SHAPE = (300, 200)


@pytest.mark.parametrize(
    "name, variance",
    [
        ("glorot_uniform", 2 / 500), ("glorot_normal", 2 / 500), ("lecun_uniform", 1 / 300), ("lecun_normal", 1 / 300),
        ("he_uniform", 2 / 300), ("he_normal", 2 / 300), ("xavier_normal", 2 / 500), ("kaiming_uniform", 2 / 300),
    ],
)  # fmt: skip
def test_the_variance_follows_from_the_fans(name, variance):
    drawn = np.asarray(getattr(initializers, name)()(KEY, SHAPE))
    assert drawn.dtype == np.float32
    np.testing.assert_allclose(drawn.var(), variance, rtol=0.03)
    np.testing.assert_allclose(drawn.mean(), 0, atol=3 * np.sqrt(variance / drawn.size) * 2)


def test_axes_of_convolutions_and_batches():
    drawn = np.asarray(initializers.lecun_normal()(KEY, (3, 3, 20, 50)))
    np.testing.assert_allclose(drawn.var(), 1 / 180, rtol=0.1)
    drawn = np.asarray(initializers.variance_scaling(1.0, "fan_out", "normal", 1, 2, batch_axis=0)(KEY, (40, 30, 20)))
    np.testing.assert_allclose(drawn.var(), 1 / 20, rtol=0.05)
    drawn = np.asarray(initializers.variance_scaling(1.0, "fan_geo_avg", "uniform")(KEY, SHAPE))
    np.testing.assert_allclose(drawn.var(), 1 / np.sqrt(300 * 200), rtol=0.03)


@pytest.mark.parametrize("distribution", ["truncated_normal", "normal", "uniform"])
def test_complex_values_have_the_same_variance(distribution):
    drawn = np.asarray(initializers.variance_scaling(1.0, "fan_in", distribution, dtype="complex64")(KEY, SHAPE))
    np.testing.assert_allclose((abs(drawn) ** 2).mean(), 1 / 300, rtol=0.03)


def test_simple_initializers():
    np.testing.assert_array_equal(initializers.zeros(KEY, (2,)), [0, 0])
    np.testing.assert_array_equal(initializers.ones(KEY, (2,), "int32"), [1, 1])
    np.testing.assert_array_equal(initializers.constant(np.float32([1, 2]))(KEY, (3, 2)), [[1, 2]] * 3)
    np.testing.assert_array_equal(initializers.normal(0.5)(KEY, (4,)), random.normal(KEY, (4,)) * 0.5)
    np.testing.assert_array_equal(initializers.uniform(2.0)(KEY, (4,)), random.uniform(KEY, (4,)) * 2)
    drawn = np.asarray(initializers.truncated_normal(0.1, lower=-1.0, upper=3.0)(KEY, (1000,)))
    assert -0.1 <= drawn.min() < drawn.max() <= 0.3
    assert initializers.normal(dtype="bfloat16")(KEY, (2,)).dtype == "bfloat16"


def test_orthogonal_matrices_keep_lengths():
    for shape in ((4, 6), (6, 4), (2, 3, 5)):
        q = np.asarray(initializers.orthogonal(2.0)(KEY, shape)).reshape(-1, shape[-1])
        gram = q @ q.T if q.shape[0] <= q.shape[1] else q.T @ q
        np.testing.assert_allclose(gram, 4 * np.eye(len(gram)), atol=1e-5)
    kernel = np.array(initializers.delta_orthogonal()(KEY, (3, 3, 4, 5)))
    middle = kernel[1, 1]
    np.testing.assert_allclose(middle @ middle.T, np.eye(4), atol=1e-5)
    kernel[1, 1] = 0
    assert not kernel.any()


def test_shapes_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match="in_axis"):
        initializers.glorot_normal()(KEY, (3,))
    with pytest.raises(ValueError, match="two axes"):
        initializers.orthogonal()(KEY, (3,))
    with pytest.raises(ValueError, match="as many outputs"):
        initializers.delta_orthogonal()(KEY, (3, 5, 4))
    with pytest.raises(ValueError, match="mode"):
        initializers.variance_scaling(1.0, "fan", "normal")(KEY, (2, 2))
    with pytest.raises(ValueError, match="distribution"):
        initializers.variance_scaling(1.0, "fan_in", "cauchy")(KEY, (2, 2))
