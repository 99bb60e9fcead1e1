# SPDX-License-Identifier: Apache-2.0
"""Normalization layers: statistics by NumPy, and data with a large mean."""

import numpy as np
import pytest

import purax
from purax import linen as nn
from purax import numpy as pnp
from purax import random, tree

KEY = random.key(0)
RNG = np.random.default_rng(0)


def normal(*shape):
    return RNG.normal(2.0, 3.0, size=shape).astype(np.float32)


def expected(x, axes, epsilon):
    x = x.astype(np.float64)
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + epsilon)


def test_batch_norm_keeps_the_spread_of_data_with_a_large_mean():
    x = RNG.normal(1e4, 0.1, size=(256, 2)).astype(np.float32)
    layer = nn.BatchNorm(use_running_average=False)
    variables = layer.init(KEY, x)
    for run in (layer.apply, purax.jit(layer.apply, static_argnames="mutable")):
        y, _ = run(variables, x, mutable=("batch_stats",))
        np.testing.assert_allclose(np.asarray(y).std(0), 0.9995, atol=5e-4)
    for module in (nn.LayerNorm(), nn.GroupNorm(num_groups=1), nn.InstanceNorm()):
        data = x.T[:, :, None] if isinstance(module, nn.InstanceNorm) else x.T
        y = module.init_with_output(KEY, data)[0]
        np.testing.assert_allclose(np.asarray(y).std(1), 1.0, atol=2e-3)


def test_init_does_not_move_running_averages_even_when_called_twice():
    class Twice(nn.Module):
        @nn.compact
        def __call__(self, x, train):
            norm = nn.BatchNorm(use_running_average=not train)
            return norm(norm(x))

    x = normal(8, 3)
    for train in (True, False):
        stats = Twice().init(KEY, x, train)["batch_stats"]["BatchNorm_0"]
        np.testing.assert_array_equal(stats["mean"], np.zeros(3))
        np.testing.assert_array_equal(stats["var"], np.ones(3))
    variables = Twice().init(KEY, x, True)
    _, changed = Twice().apply(variables, x, True, mutable=["batch_stats"])
    assert not np.allclose(changed["batch_stats"]["BatchNorm_0"]["mean"], 0)


def test_batch_norm_trains_on_the_batch_and_evaluates_with_averages():
    x = normal(16, 5, 3)
    layer = nn.BatchNorm(momentum=0.9)
    variables = layer.init(KEY, x, use_running_average=False)
    y, changed = layer.apply(variables, x, use_running_average=False, mutable=["batch_stats"])
    np.testing.assert_allclose(y, expected(x, (0, 1), 1e-5), rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(changed["batch_stats"]["mean"], 0.1 * x.mean((0, 1)), rtol=1e-4)
    np.testing.assert_allclose(changed["batch_stats"]["var"], 0.9 + 0.1 * x.var((0, 1)), rtol=1e-4)
    still = layer.apply(variables, x, use_running_average=True)
    np.testing.assert_allclose(still, x / np.sqrt(1 + 1e-5), rtol=1e-5)
    with pytest.raises(ValueError, match="use_running_average"):
        layer.apply(variables, x)


def test_batch_norm_of_another_axis_without_scale_and_with_a_mask():
    x = normal(6, 3, 4)
    y = nn.BatchNorm(False, axis=1, use_scale=False, use_bias=False).init_with_output(KEY, x)[0]
    np.testing.assert_allclose(y, expected(x, (0, 2), 1e-5), rtol=1e-3, atol=1e-4)
    mask = np.arange(6) < 4
    y = nn.BatchNorm(False).init_with_output(KEY, x, mask=mask[:, None, None])[0]
    np.testing.assert_allclose(y[:4], expected(x[:4], (0, 1), 1e-5), rtol=1e-3, atol=1e-4)


def test_fast_variance_is_an_option():
    x = normal(64, 3)
    fast = nn.BatchNorm(False, use_fast_variance=True).init_with_output(KEY, x)[0]
    np.testing.assert_allclose(fast, nn.BatchNorm(False).init_with_output(KEY, x)[0], rtol=1e-3, atol=1e-4)


def test_half_precision_data_have_float32_statistics():
    x = (RNG.normal(size=(512, 2)) * 300).astype(np.float16)
    y, variables = nn.BatchNorm(False, dtype=pnp.float16).init_with_output(KEY, x)
    assert y.dtype == pnp.float16
    assert variables["batch_stats"]["var"].dtype == pnp.float32
    np.testing.assert_allclose(np.asarray(y, np.float32).std(0), 1.0, atol=5e-3)


@pytest.mark.parametrize(
    ("layer", "axes"),
    [
        (nn.LayerNorm(), (3,)),
        (nn.LayerNorm(reduction_axes=(1, 2, 3)), (1, 2, 3)),
        (nn.InstanceNorm(), (1, 2)),
        (nn.GroupNorm(num_groups=1), (1, 2, 3)),
        (nn.GroupNorm(num_groups=None, group_size=1), (1, 2)),
    ],
)
def test_other_norms_equal_numpy(layer, axes):
    x = normal(2, 3, 5, 4)
    np.testing.assert_allclose(layer.init_with_output(KEY, x)[0], expected(x, axes, 1e-6), rtol=1e-3, atol=1e-4)


def test_group_norm_normalizes_groups_of_channels():
    x = normal(2, 5, 6)
    y = nn.GroupNorm(num_groups=3).init_with_output(KEY, x)[0]
    grouped = expected(x.reshape(2, 5, 3, 2), (1, 3), 1e-6).reshape(2, 5, 6)
    np.testing.assert_allclose(y, grouped, rtol=1e-3, atol=1e-4)
    for wrong in (nn.GroupNorm(num_groups=4), nn.GroupNorm(group_size=2), nn.GroupNorm(num_groups=None, group_size=4)):
        with pytest.raises(ValueError, match="GroupNorm"):
            wrong.init(KEY, x)


def test_rms_norm_divides_by_the_root_mean_square():
    x = normal(3, 4)
    y, variables = nn.RMSNorm().init_with_output(KEY, x)
    np.testing.assert_allclose(y, x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6), rtol=1e-5)
    assert list(variables["params"]) == ["scale"]


def test_gradient_of_layer_norm_equals_finite_differences():
    x = normal(2, 4)
    weights = normal(2, 4)

    def loss(x):
        return (nn.LayerNorm().apply(variables, x) * weights).sum()

    variables = nn.LayerNorm().init(KEY, x)
    gradient = np.asarray(purax.grad(loss)(pnp.asarray(x)))
    for index in np.ndindex(2, 4):
        step = np.zeros_like(x)
        step[index] = 1e-2
        numeric = (float(loss(x + step)) - float(loss(x - step))) / 2e-2
        np.testing.assert_allclose(gradient[index], numeric, atol=3e-3)


def test_spectral_norm_divides_by_the_largest_singular_value():
    x = normal(2, 5)
    layer = nn.SpectralNorm(nn.Dense(4), n_steps=30)
    variables = layer.init(KEY, x, update_stats=False)
    kernel = np.asarray(variables["params"]["layer_instance"]["kernel"])
    y, changed = layer.apply(variables, x, update_stats=True, mutable=["batch_stats"])
    largest = np.linalg.svd(kernel, compute_uv=False)[0]
    np.testing.assert_allclose(y, x @ kernel / largest, rtol=1e-2, atol=1e-3)
    sigma = changed["batch_stats"]["layer_instance/kernel/sigma"]
    np.testing.assert_allclose(sigma, largest, rtol=1e-2)
    with pytest.raises(ValueError, match="error_on_non_matrix"):
        nn.SpectralNorm(nn.Conv(2, (2, 2)), error_on_non_matrix=True).init(KEY, normal(1, 3, 3, 2), update_stats=False)


def test_weight_norm_gives_columns_the_length_of_their_scale():
    x = normal(2, 5)
    layer = nn.WeightNorm(nn.Dense(4))
    variables = layer.init(KEY, x)
    kernel = normal(5, 4)
    scale = np.arange(1.0, 5.0, dtype=np.float32)
    params = tree.map(np.asarray, variables["params"])
    params["layer_instance"]["kernel"] = kernel
    params["layer_instance/kernel/scale"] = scale
    y = layer.apply({"params": params}, x)
    np.testing.assert_allclose(y, x @ (kernel / np.linalg.norm(kernel, axis=0) * scale), rtol=1e-4, atol=1e-4)
