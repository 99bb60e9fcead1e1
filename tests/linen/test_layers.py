# SPDX-License-Identifier: Apache-2.0
"""Linear layers, convolutions, pooling, dropout, combinators: values by NumPy and SciPy."""

import numpy as np
import pytest
import scipy.signal

import purax
from purax import linen as nn
from purax import numpy as pnp
from purax import random, tree

KEY = random.key(0)
RNG = np.random.default_rng(0)


def image(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def params(variables):
    return tree.map(np.asarray, variables["params"])


def test_dense_computes_in_the_dtype_asked_for():
    x = pnp.ones((2, 4), pnp.bfloat16)
    assert nn.Dense(3).init_with_output(KEY, x)[0].dtype == pnp.float32
    y, variables = nn.Dense(3, dtype=pnp.bfloat16).init_with_output(KEY, x)
    assert y.dtype == pnp.bfloat16
    assert variables["params"]["kernel"].dtype == pnp.float32
    assert nn.Dense(3, param_dtype=pnp.bfloat16).init_with_output(KEY, x)[0].dtype == pnp.bfloat16
    assert nn.Dense(3).init_with_output(KEY, pnp.ones((2, 4), int))[0].dtype == pnp.float32
    with pytest.raises(ValueError, match="float or complex"):
        nn.Dense(3, dtype=int).init(KEY, x)


def test_dense_takes_another_product():
    calls = []

    def product(x, y, dimensions, precision=None):
        calls.append(dimensions)
        return pnp.tensordot(x, y, 1)

    y, variables = nn.Dense(3, dot_general=product).init_with_output(KEY, pnp.ones((2, 4)))
    np.testing.assert_allclose(y, np.ones((2, 4)) @ params(variables)["kernel"], rtol=1e-5)
    assert calls == [(((1,), (0,)), ((), ()))]


def test_dense_general_contracts_its_axes_and_keeps_batch_axes():
    x = image(2, 3, 4, 5)
    y, variables = nn.DenseGeneral((6, 7), axis=(1, -1)).init_with_output(KEY, x)
    np.testing.assert_allclose(y, np.einsum("abcd,bdef->acef", x, params(variables)["kernel"]), rtol=1e-4, atol=1e-5)
    layer = nn.DenseGeneral(6, axis=-1, batch_dims=(0,), bias_init=nn.initializers.normal(1.0))
    y, variables = layer.init_with_output(KEY, x)
    kernel, bias = params(variables)["kernel"], params(variables)["bias"]
    assert kernel.shape == (2, 5, 6)
    expected = np.einsum("abcd,ade->abce", x, kernel) + bias[:, None, None]
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="leading"):
        nn.DenseGeneral(6, batch_dims=(1,)).init(KEY, x)


def test_einsum_adds_a_bias_over_the_axes_of_the_kernel():
    x = image(2, 3, 4)
    layer = nn.Einsum((4, 5), "...d,de->...e", bias_init=nn.initializers.normal(1.0))
    y, variables = layer.init_with_output(KEY, x)
    kernel, bias = params(variables)["kernel"], params(variables)["bias"]
    np.testing.assert_allclose(y, x @ kernel + bias, rtol=1e-5, atol=1e-5)
    with pytest.raises(ValueError, match="einsum_str"):
        nn.Einsum((4, 5), "ad,de").init(KEY, x)


def test_embed_looks_up_and_attends():
    layer = nn.Embed(5, 3)
    variables = layer.init(KEY, pnp.array([0]))
    table = params(variables)["embedding"]
    np.testing.assert_array_equal(layer.apply(variables, pnp.array([[4, 1]])), table[[[4, 1]]])
    query = image(2, 3)
    np.testing.assert_allclose(layer.apply(variables, query, method="attend"), query @ table.T, rtol=1e-5)
    gradient = purax.grad(lambda v: layer.apply(v, pnp.array([1, 1])).sum())(variables)["params"]["embedding"]
    np.testing.assert_array_equal(gradient, np.array([0, 2, 0, 0, 0])[:, None] * np.ones(3))
    with pytest.raises(ValueError, match="integers"):
        layer.apply(variables, query)


def correlate(x, kernel, padded):
    """Sum of two-dimensional correlations over channels, "valid" on a padded image."""
    x = np.pad(x, [*padded, (0, 0)]) if isinstance(padded, list) else padded
    channels, features = kernel.shape[-2:]
    outs = [
        sum(scipy.signal.correlate2d(x[..., c], kernel[..., c, f], "valid") for c in range(channels))
        for f in range(features)
    ]
    return np.stack(outs, -1)


@pytest.mark.parametrize(
    ("padding", "pads"),
    [("VALID", [(0, 0), (0, 0)]), ("SAME", [(1, 1), (0, 1)]), (1, [(1, 1), (1, 1)]), (((2, 0), 1), [(2, 0), (1, 1)])],
)
def test_conv_equals_correlation(padding, pads):
    x = image(1, 6, 7, 3)
    y, variables = nn.Conv(4, (3, 2), padding=padding).init_with_output(KEY, x)
    np.testing.assert_allclose(y[0], correlate(x[0], params(variables)["kernel"], pads), rtol=1e-4, atol=1e-5)


def test_circular_conv_wraps_both_axes():
    grid = pnp.array([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]])[None, :, :, None]
    left = {"params": {"kernel": pnp.array([[0.0, 0, 0], [1, 0, 0], [0, 0, 0]])[:, :, None, None]}}
    y = nn.Conv(1, (3, 3), padding="CIRCULAR", use_bias=False).apply(left, grid)
    np.testing.assert_array_equal(y[0, ..., 0], [[2, 0, 1], [5, 3, 4]])
    above = {"params": {"kernel": left["params"]["kernel"].swapaxes(0, 1)}}
    y = nn.Conv(1, (3, 3), padding="CIRCULAR", use_bias=False).apply(above, grid)
    np.testing.assert_array_equal(y[0, ..., 0], [[3, 4, 5], [0, 1, 2]])


def test_causal_conv_sees_no_later_input():
    layer = nn.Conv(2, 3, padding="CAUSAL", kernel_dilation=2)
    x = image(1, 8, 3)
    variables = layer.init(KEY, x)
    moved = x.copy()
    moved[:, 5:] += 1
    np.testing.assert_array_equal(layer.apply(variables, x)[:, :5], layer.apply(variables, moved)[:, :5])
    with pytest.raises(ValueError, match="CAUSAL"):
        nn.Conv(2, (3, 3), padding="CAUSAL").init(KEY, image(1, 4, 4, 2))


def test_conv_groups_dilation_masks_and_batches():
    x = image(2, 3, 6, 6, 4)
    y, variables = nn.Conv(6, (2, 2), feature_group_count=2, kernel_dilation=2, padding="VALID").init_with_output(
        KEY, x
    )
    assert variables["params"]["kernel"].shape == (2, 2, 2, 6)
    assert y.shape == (2, 3, 4, 4, 6)
    spread = np.zeros((3, 3, 2, 6), np.float32)
    spread[::2, ::2] = params(variables)["kernel"]
    for group in range(2):
        part = correlate(x[1, 2][..., 2 * group : 2 * group + 2], spread[..., 3 * group : 3 * group + 3], [(0, 0)] * 2)
        np.testing.assert_allclose(y[1, 2][..., 3 * group : 3 * group + 3], part, rtol=1e-4, atol=1e-5)
    mask = np.zeros((2, 2, 4, 6), np.float32)
    masked, variables = nn.Conv(6, (2, 2), mask=mask).init_with_output(KEY, x)
    assert not np.asarray(masked).any()
    with pytest.raises(ValueError, match="mask"):
        nn.Conv(5, (2, 2), mask=mask).init(KEY, x)
    with pytest.raises(ValueError, match="groups"):
        nn.Conv(6, (2, 2), feature_group_count=3).init(KEY, x)
    assert nn.Conv(6, (2, 2)).init_with_output(KEY, x[0, 0])[0].shape == (6, 6, 6)


def test_conv_local_has_a_kernel_at_each_position():
    x = image(2, 5, 3)
    layer = nn.ConvLocal(4, 2, padding="VALID", bias_init=nn.initializers.normal(1.0))
    y, variables = layer.init_with_output(KEY, x)
    kernel, bias = params(variables)["kernel"], params(variables)["bias"]
    assert kernel.shape == (4, 6, 4)
    assert bias.shape == (4, 4)
    for position in range(4):
        patch = x[:, position : position + 2].swapaxes(1, 2).reshape(2, 6)  # channel by channel
        np.testing.assert_allclose(y[:, position], patch @ kernel[position] + bias[position], rtol=1e-4, atol=1e-5)


def test_transposed_conv_in_both_layouts():
    x = pnp.array([1.0, 2.0, 3.0])[None, :, None]
    kernel = pnp.array([1.0, 10.0, 100.0])[:, None, None]
    for flipped, expected in ((False, [100, 10, 201, 20, 302, 30, 3]), (True, [1, 10, 102, 20, 203, 30, 300])):
        layer = nn.ConvTranspose(1, 3, strides=(2,), padding="VALID", use_bias=False, transpose_kernel=flipped)
        np.testing.assert_allclose(layer.apply({"params": {"kernel": kernel}}, x)[0, :, 0], expected)


def test_flipped_transposed_conv_is_the_transpose_of_conv():
    x, ct = image(1, 6, 6, 3), image(1, 3, 3, 4)
    kernel = image(3, 3, 3, 4)
    conv = nn.Conv(4, (3, 3), strides=2, use_bias=False)
    forward = lambda x: conv.apply({"params": {"kernel": kernel}}, x)
    (expected,) = purax.vjp(forward, x)[1](ct)
    up = nn.ConvTranspose(3, (3, 3), strides=(2, 2), use_bias=False, transpose_kernel=True)
    np.testing.assert_allclose(up.apply({"params": {"kernel": kernel}}, ct), expected, rtol=1e-4, atol=1e-5)


def test_circular_transposed_conv_commutes_with_shifts():
    x = image(1, 4, 4, 2)
    layer = nn.ConvTranspose(3, (5, 3), strides=(2, 2), padding="CIRCULAR")
    variables = layer.init(KEY, x)
    y, moved = layer.apply(variables, x), layer.apply(variables, np.roll(x, 1, axis=(1, 2)))
    assert y.shape == (1, 8, 8, 3)
    np.testing.assert_allclose(moved, np.roll(y, 2, axis=(1, 2)), rtol=1e-4, atol=1e-5)


def test_pooling_equals_numpy():
    x = image(2, 4, 6, 3)
    blocks = x.reshape(2, 2, 2, 3, 2, 3).swapaxes(2, 3)
    np.testing.assert_array_equal(nn.max_pool(x, (2, 2), (2, 2)), blocks.max((3, 4)))
    np.testing.assert_array_equal(nn.min_pool(x, (2, 2), (2, 2)), blocks.min((3, 4)))
    np.testing.assert_allclose(nn.avg_pool(x, (2, 2), (2, 2)), blocks.mean((3, 4)), rtol=1e-5, atol=1e-6)
    assert nn.max_pool(x, (3, 3)).shape == (2, 2, 4, 3)
    assert nn.max_pool(x[0], (2, 2), (2, 2)).shape == (2, 3, 3)
    np.testing.assert_array_equal(nn.max_pool(pnp.arange(6).reshape(1, 6, 1), (2,), (2,))[0, :, 0], [1, 3, 5])


def test_padding_of_average_pooling_counts_or_not():
    x = pnp.ones((1, 3, 3, 1))
    np.testing.assert_allclose(nn.avg_pool(x, (2, 2), (2, 2), "SAME")[0, ..., 0], [[1, 0.5], [0.5, 0.25]])
    np.testing.assert_allclose(nn.avg_pool(x, (2, 2), (2, 2), "SAME", count_include_pad=False), np.ones((1, 2, 2, 1)))
    np.testing.assert_allclose(nn.max_pool(-x, (2, 2), padding=((1, 1), (0, 0)))[0, ..., 0], -np.ones((4, 2)))
    with pytest.raises(ValueError, match="padding"):
        nn.max_pool(x, (2, 2), padding=((1, 1),))
    with pytest.raises(ValueError, match="strides"):
        nn.max_pool(x, (2, 2), strides=(1,))


def test_gradients_of_pooling_go_to_the_winners():
    x = pnp.array([1.0, 3.0, 2.0, 0.0])[None, :, None]
    np.testing.assert_array_equal(purax.grad(lambda x: nn.max_pool(x, (2,), (2,)).sum())(x)[0, :, 0], [0, 1, 1, 0])
    np.testing.assert_array_equal(purax.grad(lambda x: nn.avg_pool(x, (2,), (2,)).sum())(x)[0, :, 0], [0.5] * 4)


def test_dropout_keeps_the_mean_and_can_be_switched_off():
    x = pnp.ones((100, 100))
    layer = nn.Dropout(0.25)
    y = layer.apply({}, x, deterministic=False, rngs={"dropout": KEY})
    assert set(np.unique(y)) == {0.0, np.float32(1 / 0.75)}
    assert abs(float(y.mean()) - 1) < 0.03
    np.testing.assert_array_equal(layer.apply({}, x, deterministic=True), x)
    np.testing.assert_array_equal(nn.Dropout(0.0, deterministic=False).apply({}, x), x)
    np.testing.assert_array_equal(nn.Dropout(1.0, deterministic=False).apply({}, x), 0 * x)
    with pytest.raises(ValueError, match="deterministic"):
        layer.apply({}, x, rngs={"dropout": KEY})


def test_dropout_broadcasts_one_draw_along_axes_and_takes_a_key():
    x = pnp.ones((20, 30))
    y = nn.Dropout(0.5, broadcast_dims=(0,), deterministic=False).apply({}, x, rng=KEY)
    assert (np.asarray(y) == np.asarray(y)[0]).all()
    gradient = purax.grad(lambda x: nn.Dropout(0.5, deterministic=False).apply({}, x, rng=KEY).sum())(x)
    np.testing.assert_array_equal(gradient, nn.Dropout(0.5, deterministic=False).apply({}, x, rng=KEY))


def test_sequential_passes_tuples_and_dictionaries_on():
    def split(x):
        return x, 2 * x

    def join(a, b):
        return {"left": a, "right": b}

    def add(left, right):
        return left + right

    np.testing.assert_array_equal(nn.Sequential([split, join, add]).apply({}, pnp.ones(2)), [3, 3])
    with pytest.raises(ValueError, match="sequence"):
        nn.Sequential(nn.Dense(3))
    with pytest.raises(ValueError, match="no layers"):
        nn.Sequential([]).apply({}, 1)


def test_batch_apply_merges_leading_axes():
    seen = []

    def function(x, scale):
        seen.append(x.shape)
        return x[..., 0] * scale

    y = nn.BatchApply(function)(image(2, 3, 4), 2.0)
    assert seen == [(6, 4)]
    assert y.shape == (2, 3)
    with pytest.raises(ValueError, match="BatchApply"):
        nn.BatchApply(function)(1.0, 2.0)


def test_prelu_learns_its_slope():
    y, variables = nn.PReLU().init_with_output(KEY, pnp.array([-2.0, 3.0]))
    np.testing.assert_allclose(y, [-0.02, 3.0], rtol=1e-6)
    assert variables["params"]["negative_slope"].shape == ()


def test_activations_and_initializers_are_at_hand():
    assert float(nn.relu(pnp.array(-1.0))) == 0.0
    assert nn.initializers.zeros_init()(KEY, (2,)).shape == (2,)
    np.testing.assert_array_equal(nn.ones_init()(KEY, (2,)), [1, 1])
    np.testing.assert_allclose(nn.normalize(pnp.arange(4.0)).mean(), 0, atol=1e-6)


@pytest.mark.parametrize("product", [nn.Fp8DirectDotGeneralOp, nn.Fp8DotGeneralOp, nn.NANOOFp8DotGeneralOp])
def test_eight_bit_products_are_close_and_their_scales_follow_the_data(product):
    x = image(16, 32) * 50
    layer = nn.Dense(8, dot_general_cls=lambda: product(amax_history_length=2))
    variables = layer.init(KEY, x)
    state = variables["_overwrite_with_gradient"]

    def loss(variables, x):
        return (layer.apply(variables, x) ** 2).sum()

    for _ in range(3):
        variables = {"params": variables["params"], "_overwrite_with_gradient": state}
        gradient, of_x = purax.grad(loss, argnums=(0, 1))(variables, x)
        state = gradient["_overwrite_with_gradient"]
    kernel = params(variables)["kernel"]
    (inner,) = state.values()
    largest = float(pnp.finfo(product.e4m3_dtype).max)
    np.testing.assert_allclose(inner["input_scale"], [np.abs(x).max() / largest], rtol=1e-6)
    np.testing.assert_allclose(inner["kernel_amax_history"], [np.abs(kernel).max()] * 2, rtol=1e-6)
    exact = x @ kernel
    assert np.abs(np.asarray(layer.apply(variables, x)) - exact).max() < 0.06 * np.abs(exact).max()
    exact_gradient = x.T @ (2 * exact)
    assert np.abs(np.asarray(gradient["params"]["kernel"]) - exact_gradient).max() < 0.1 * np.abs(exact_gradient).max()
    exact_of_x = 2 * exact @ kernel.T
    assert np.abs(np.asarray(of_x) - exact_of_x).max() < 0.1 * np.abs(exact_of_x).max()


def test_eight_bit_einsum_is_close():
    x, y = image(2, 3, 4), image(4, 5)
    out, _ = nn.Fp8Einsum(amax_history_length=1).init_with_output(KEY, "abc,cd->abd", x, y)
    np.testing.assert_allclose(out, np.einsum("abc,cd->abd", x, y), atol=0.3)


def test_einsum_kernels_may_have_an_ellipsis():
    x = image(2, 3, 4)
    layer = nn.Einsum((4, 5), "abc,c...->ab...", bias_init=nn.initializers.normal(1.0))
    y, variables = layer.init_with_output(KEY, x)
    np.testing.assert_allclose(y, x @ params(variables)["kernel"] + params(variables)["bias"], rtol=1e-5, atol=1e-5)
    layer = nn.Einsum((3, 4, 5), "...c,...cd->...d", bias_init=nn.initializers.normal(1.0))
    y, variables = layer.init_with_output(KEY, x)
    kernel, bias = params(variables)["kernel"], params(variables)["bias"]
    assert bias.shape == (3, 5)
    np.testing.assert_allclose(y, np.einsum("abc,bcd->abd", x, kernel) + bias, rtol=1e-4, atol=1e-5)
