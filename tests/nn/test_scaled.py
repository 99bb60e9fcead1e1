# SPDX-License-Identifier: Apache-2.0
"""Products of operands rounded in blocks, against products in float64."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import purax
from purax import errors, nn

DIMENSIONS = (((3, 1), (1, 3)), ((0,), (0,)))
MODES = ("mxfp8", "nvfp4")


def operands(seed=0):
    draw = np.random.default_rng(seed).normal
    return draw(size=(2, 3, 64, 64)).astype(np.float32), draw(size=(2, 64, 32, 3)).astype(np.float32)


def test_scales_apply_to_blocks_of_rows():
    draw = np.random.default_rng(1).normal
    lhs, rhs = draw(size=(2, 3, 8)).astype(np.float32), draw(size=(2, 5, 8)).astype(np.float32)
    left, right = draw(size=(2, 3, 4)).astype(np.float32), draw(size=(2, 5, 4)).astype(np.float32)
    wanted = np.einsum("bmk,bnk->bmn", lhs * np.repeat(left, 2, -1), rhs * np.repeat(right, 2, -1))
    found = nn.scaled_matmul(lhs, rhs, left, right)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
    assert nn.scaled_matmul(lhs, rhs, left, right, np.float16).dtype == np.float16


@pytest.mark.parametrize(
    "shapes",
    [
        ((2, 3, 8), (2, 5, 8), (2, 3, 3), (2, 5, 3)),
        ((2, 3, 8), (2, 5, 4), (2, 3, 4), (2, 5, 4)),
        ((3, 8), (5, 8), (3, 4), (5, 4)),
    ],
)
def test_sizes_that_do_not_fit(shapes):
    with pytest.raises(errors.ShapeError, match="scaled_matmul takes"):
        nn.scaled_matmul(*[np.ones(s, np.float32) for s in shapes])


@pytest.mark.parametrize("mode", MODES)
def test_product_is_near_the_exact_one(mode):
    lhs, rhs = operands()
    wanted = np.einsum("bimk,bkni->bmn", lhs.astype(float), rhs.astype(float))
    found = nn.scaled_dot_general(lhs, rhs, DIMENSIONS, configs=[nn.get_scaled_dot_general_config(mode)] * 3)
    assert found.shape == (2, 64, 32)
    spread = np.linalg.norm(found - wanted) / np.linalg.norm(wanted)
    assert spread < {"mxfp8": 0.04, "nvfp4": 0.15}[mode]


def test_powers_of_two_are_exact():
    """Values of eight bits times a power of two for each block lose nothing."""
    draw = np.random.default_rng(2)
    codes = draw.integers(-8, 9, (1, 4, 64)).astype(np.float32)
    codes[..., ::32] = 448  # the largest of the dtype: the scale is the power itself
    powers = np.repeat(2.0 ** draw.integers(-30, 30, (1, 4, 2)), 32, -1).astype(np.float32)
    eye = np.eye(64, dtype=np.float32)[None]
    found = nn.scaled_dot_general(
        codes * powers, eye, (((2,), (1,)), ((0,), (0,))), configs=[nn.get_scaled_dot_general_config("mxfp8")] * 3
    )
    np.testing.assert_array_equal(found, codes * powers)


@pytest.mark.parametrize("mode", MODES)
def test_blocks_of_zeros_are_zero(mode):
    lhs, rhs = np.zeros((1, 4, 32), np.float32), np.ones((1, 4, 32), np.float32)
    configs = [nn.get_scaled_dot_general_config(mode)] * 3
    np.testing.assert_array_equal(nn.scaled_dot_general(lhs, rhs, (((2,), (2,)), ((0,), (0,))), configs=configs), 0)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("transform", [lambda f: f, purax.jit])
def test_derivative_is_that_of_the_product(mode, transform):
    lhs, rhs = operands(3)
    weights = np.random.default_rng(4).normal(size=(2, 64, 32)).astype(np.float32)
    configs = [nn.get_scaled_dot_general_config(mode)] * 3

    def loss(x, y):
        return (nn.scaled_dot_general(x, y, DIMENSIONS, configs=configs) * weights).sum()

    found = transform(purax.grad(loss, (0, 1)))(lhs, rhs)
    wanted = np.einsum("bmn,bjni->bimj", weights, rhs), np.einsum("bmn,bimj->bjni", weights, lhs)
    for got, exact in zip(found, wanted, strict=True):
        assert np.linalg.norm(got - exact) / np.linalg.norm(exact) < 0.06


def test_values_that_are_cut_off_have_no_derivative():
    lhs, rhs = np.full((1, 1, 16), 1e4, np.float32), np.ones((1, 1, 16), np.float32)
    lhs[..., :8] = 1
    configs = [nn.get_scaled_dot_general_config("nvfp4")] * 3
    slope = purax.grad(lambda x: nn.scaled_dot_general(x, rhs, (((2,), (2,)), ((0,), (0,))), configs=configs).sum())(
        lhs
    )
    np.testing.assert_array_equal(slope[0, 0], [1] * 8 + [0] * 8)


def test_global_scale_leaves_the_product():
    lhs, rhs = operands(5)
    half = nn.get_scaled_dot_general_config("nvfp4", purax.numpy.full((1,), 0.5, np.float32))
    one = nn.get_scaled_dot_general_config("nvfp4")
    found = nn.scaled_dot_general(lhs, rhs, DIMENSIONS, configs=[half] * 3)
    wanted = nn.scaled_dot_general(lhs, rhs, DIMENSIONS, configs=[one] * 3)
    assert np.linalg.norm(found - wanted) / np.linalg.norm(wanted) < 0.1


def test_what_is_refused():
    ones = np.ones((1, 4, 24), np.float32)
    dimensions = (((2,), (2,)), ((0,), (0,)))
    configs = [nn.get_scaled_dot_general_config("mxfp8")] * 3
    with pytest.raises(errors.ShapeError, match="blocks of 32 elements"):
        nn.scaled_dot_general(ones, ones, dimensions, configs=configs)
    with pytest.raises(errors.DTypeError, match="preferred_element_type"):
        nn.scaled_dot_general(ones, ones, dimensions, ml_dtypes.float8_e4m3fn, configs=configs)
    with pytest.raises(ValueError, match="mxfp8"):
        nn.get_scaled_dot_general_config("int4")
