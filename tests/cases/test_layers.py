# SPDX-License-Identifier: Apache-2.0
"""Layers: statistics of data far from zero, layouts of convolutions, keys of dropout."""

import numpy as np
import pytest

import purax
from purax import lax, linen, nn, random
from purax import numpy as pnp

# --- normalization of data whose mean is large against its spread (flax#1491, tensorflow#118701) ----------------------------

FAR = np.random.default_rng(0).normal(1e4, 0.1, (256, 2)).astype(np.float32)


def test_batch_norm_keeps_the_spread_of_data_far_from_zero():
    layer = linen.BatchNorm(use_running_average=False)
    variables = layer.init(random.key(0), FAR)
    normal, moved = layer.apply(variables, FAR, mutable=["batch_stats"])
    np.testing.assert_allclose(np.asarray(normal).std(0), 0.9995, atol=5e-4)
    np.testing.assert_allclose(moved["batch_stats"]["var"], 0.99 + 0.01 * FAR.astype(np.float64).var(0), rtol=1e-4)
    slope = purax.grad(lambda x: (layer.apply(variables, x, mutable=["batch_stats"])[0] ** 3).sum())(FAR)
    assert np.abs(slope).max() < 1e3


def test_the_other_normalizations_keep_it_as_well():
    rows = FAR.T
    for layer, data in (
        (linen.LayerNorm(), rows),
        (linen.GroupNorm(num_groups=1), rows),
        (linen.InstanceNorm(), rows[:, :, None]),
    ):
        normal = layer.init_with_output(random.key(0), data)[0]
        np.testing.assert_allclose(np.asarray(normal).std(1), 1.0, atol=2e-3)
    np.testing.assert_allclose(np.asarray(nn.standardize(FAR, axis=0)).std(0), 1.0, atol=2e-3)


# --- running averages at initialization (flax PR#1254) ------------------------------------------------------------------------


class Twice(linen.Module):
    """One normalization, applied two times."""

    @linen.compact
    def __call__(self, x):
        layer = linen.BatchNorm(use_running_average=False)
        return layer(layer(x))


@pytest.mark.parametrize("module", [Twice(), linen.BatchNorm(use_running_average=False)], ids=["twice", "once"])
def test_initialization_does_not_move_running_averages(module):
    stats = module.init(random.key(0), np.arange(6.0).reshape(3, 2))["batch_stats"]
    stats = stats.get("BatchNorm_0", stats)
    np.testing.assert_array_equal(stats["mean"], [0, 0])
    np.testing.assert_array_equal(stats["var"], [1, 1])


# --- which end of the kernel a transposed convolution begins with (jax#11252, flax#3137) --------------------------------------

X, KERNEL = np.array([1.0, 2, 3], np.float32).reshape(1, 3, 1), np.array([1.0, 10, 100], np.float32).reshape(3, 1, 1)
AS_GRADIENT, AS_CONVOLUTION = [1, 10, 102, 20, 203, 30, 300], [100, 10, 201, 20, 302, 30, 3]


@pytest.mark.parametrize(("transpose_kernel", "expected"), [(True, AS_GRADIENT), (False, AS_CONVOLUTION)])
def test_a_transposed_convolution_has_both_kernel_orders(transpose_kernel, expected):
    layer = linen.ConvTranspose(
        1, (3,), strides=(2,), padding="VALID", use_bias=False, transpose_kernel=transpose_kernel
    )
    np.testing.assert_array_equal(layer.apply({"params": {"kernel": KERNEL}}, X).ravel(), expected)
    dimensions = ("NHC", "HIO", "NHC")
    direct = lax.conv_transpose(
        X, KERNEL, (2,), "VALID", dimension_numbers=dimensions, transpose_kernel=transpose_kernel
    )
    np.testing.assert_array_equal(direct.ravel(), expected)


def test_the_transposed_kernel_is_the_gradient_of_the_convolution():
    convolve = lambda y: lax.conv_general_dilated(y, KERNEL, (2,), "VALID", dimension_numbers=("NHC", "HIO", "NHC"))
    _, pull = purax.vjp(convolve, np.zeros((1, 7, 1), np.float32))
    np.testing.assert_array_equal(pull(pnp.asarray(X))[0].ravel(), AS_GRADIENT)


# --- padding goes to the axis it was asked for (pytorch#37844) -----------------------------------------------------------------

IMAGE = np.arange(6.0, dtype=np.float32).reshape(1, 2, 3, 1)


@pytest.mark.parametrize(
    ("row", "column", "expected"),
    [
        (1, 0, [[2, 0, 1], [5, 3, 4]]),
        (1, 2, [[1, 2, 0], [4, 5, 3]]),
        (0, 1, [[3, 4, 5], [0, 1, 2]]),
        (1, 1, [[0, 1, 2], [3, 4, 5]]),
    ],
    ids=["left", "right", "above", "centre"],
)
def test_circular_padding_wraps_the_axis_of_the_neighbour(row, column, expected):
    kernel = np.zeros((3, 3, 1, 1), np.float32)
    kernel[row, column] = 1
    layer = linen.Conv(1, (3, 3), padding="CIRCULAR", use_bias=False)
    np.testing.assert_array_equal(layer.apply({"params": {"kernel": kernel}}, IMAGE)[0, :, :, 0], expected)


def test_causal_padding_looks_back_only():
    layer = linen.Conv(1, (3,), padding="CAUSAL", use_bias=False)
    kernel = np.array([1.0, 0, 0], np.float32).reshape(3, 1, 1)
    past = layer.apply({"params": {"kernel": kernel}}, np.arange(1.0, 6.0, dtype=np.float32).reshape(1, 5, 1))
    np.testing.assert_array_equal(past.ravel(), [0, 0, 1, 2, 3])


# --- a key for each step and each lane (flax#4950, flax#4973) -------------------------------------------------------------------


class Drop(linen.Module):
    """Dropout of 64 ones; carry and input go by."""

    @linen.compact
    def __call__(self, carry, x):
        return carry, linen.Dropout(0.5, deterministic=False)(pnp.ones(64))


def masks(lifted):
    """How many different masks four steps or lanes draw."""
    drawn = lifted.apply({}, 0.0, pnp.zeros(4), rngs={"dropout": random.key(0)})[1]
    return len({tuple(row) for row in np.asarray(drawn).tolist()})


def test_dropout_draws_anew_in_each_step_and_lane():
    assert masks(linen.scan(Drop, variable_broadcast="params", split_rngs={"params": False, "dropout": True})()) == 4
    assert masks(linen.vmap(Drop, split_rngs={"dropout": True}, in_axes=(None, 0), out_axes=(None, 0))()) == 4


def test_dropout_shares_its_mask_where_the_key_is_not_split():
    assert masks(linen.vmap(Drop, split_rngs={"dropout": False}, in_axes=(None, 0), out_axes=(None, 0))()) == 1


def test_one_dropout_called_twice_draws_twice():
    class Pair(linen.Module):
        @linen.compact
        def __call__(self, x):
            drop = linen.Dropout(0.5, deterministic=False)
            return drop(x), drop(x)

    first, second = Pair().apply({}, pnp.ones(64), rngs={"dropout": random.key(0)})
    assert (np.asarray(first) != np.asarray(second)).any()
