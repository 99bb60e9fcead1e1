# SPDX-License-Identifier: Apache-2.0
"""Activation functions against their formulas in NumPy."""

import numpy as np
import pytest
import scipy.special

import purax
from purax import nn
from purax import numpy as pnp

X = np.linspace(-7, 7, 57).astype(np.float64)
SOFTPLUS = np.logaddexp(X, 0)
SELU = 1.0507009873554804934 * np.where(X > 0, X, 1.6732632423543772848 * np.expm1(np.minimum(X, 0)))

FORMULAS = {
    "relu": np.maximum(X, 0),
    "relu6": np.clip(X, 0, 6),
    "sigmoid": scipy.special.expit(X),
    "tanh": np.tanh(X),
    "softplus": SOFTPLUS,
    "log_sigmoid": scipy.special.log_expit(X),
    "silu": X * scipy.special.expit(X),
    "swish": X * scipy.special.expit(X),
    "mish": X * np.tanh(SOFTPLUS),
    "gelu": 0.5 * X * (1 + np.tanh(np.sqrt(2 / np.pi) * (X + 0.044715 * X**3))),
    "elu": np.where(X > 0, X, np.expm1(np.minimum(X, 0))),
    "celu": np.where(X > 0, X, np.expm1(np.minimum(X, 0))),
    "selu": SELU,
    "leaky_relu": np.where(X >= 0, X, 0.01 * X),
    "hard_tanh": np.clip(X, -1, 1),
    "hard_sigmoid": np.clip(X + 3, 0, 6) / 6,
    "hard_silu": X * np.clip(X + 3, 0, 6) / 6,
    "hard_swish": X * np.clip(X + 3, 0, 6) / 6,
    "soft_sign": X / (1 + np.abs(X)),
    "squareplus": (X + np.sqrt(X**2 + 4)) / 2,
    "sparse_plus": np.where(X <= -1, 0, np.where(X >= 1, X, (X + 1) ** 2 / 4)),
    "sparse_sigmoid": np.clip((X + 1) / 2, 0, 1),
    "identity": X,
}


@pytest.mark.parametrize("name", FORMULAS)
def test_values_and_slopes_are_those_of_the_formula(name):
    f, x = getattr(nn, name), X.astype(np.float32)
    np.testing.assert_allclose(f(x), FORMULAS[name], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(purax.jit(f)(x), FORMULAS[name], rtol=1e-5, atol=1e-6)
    assert f(x.astype("bfloat16")).dtype == "bfloat16"
    apart = X + 0.013  # away from corners
    with purax.enable_x64(True):
        slope = purax.grad(lambda x: f(x).sum())(apart)
        want = (np.asarray(f(apart + 1e-6)) - np.asarray(f(apart - 1e-6))) / 2e-6
    np.testing.assert_allclose(slope, want, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("f", [nn.mish, nn.squareplus])
def test_values_and_slopes_at_infinity_are_the_limits(f):
    for x, value, slope in ((-np.inf, 0, 0), (np.inf, np.inf, 1)):
        assert f(x) == value and purax.grad(f)(x) == slope and purax.jacfwd(f)(x) == slope


def test_squareplus_neither_overflows_nor_cancels():
    np.testing.assert_allclose(nn.squareplus(np.float32([-1e4, 1e30])), [1e-4, 1e30], rtol=1e-6)
    np.testing.assert_allclose(nn.squareplus(np.float16([-300, 300])), [1 / 300, 300], rtol=2e-3)
    np.testing.assert_allclose(purax.grad(nn.squareplus, (0, 1))(-3.0, 4.0), [0.08397486, 0.06933752], rtol=1e-5)


def test_exact_gelu_uses_the_normal_distribution():
    np.testing.assert_allclose(
        nn.gelu(X.astype(np.float32), approximate=False), X * scipy.special.ndtr(X), rtol=2e-5, atol=1e-6
    )


def test_parameters_shape_the_curves():
    x = np.float32([-2.0, 3.0])
    np.testing.assert_allclose(nn.elu(x, 0.5), [0.5 * np.expm1(-2), 3], rtol=1e-6)
    np.testing.assert_allclose(nn.celu(x, 2.0), [2 * np.expm1(-1), 3], rtol=1e-6)
    np.testing.assert_allclose(nn.leaky_relu(x, 0.1), [-0.2, 3], rtol=1e-6)
    np.testing.assert_allclose(nn.squareplus(x, 0.0), [0, 3], atol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("f", [nn.mish, nn.squareplus])
def test_smooth_steps_and_their_slopes_are_those_of_relu_far_out(f, dtype):
    x = np.array([-np.inf, np.finfo(dtype).min, np.finfo(dtype).max, np.inf, np.nan], dtype)
    np.testing.assert_allclose(f(x), np.maximum(x, 0), rtol=0, atol=2e-5)  # squareplus is 1 / |x| beside it
    np.testing.assert_array_equal(purax.vmap(purax.grad(f))(x), np.array([0, 0, 1, 1, np.nan], dtype))


def test_squareplus_does_not_cancel():
    np.testing.assert_allclose(nn.squareplus(np.float32([-1e4, -300.0])), [1e-4, 1 / 300.00333], rtol=1e-6)
    np.testing.assert_allclose(purax.grad(nn.squareplus, 1)(-2.0, 1.0), 1 / (4 * np.sqrt(5)), rtol=1e-6)


def test_glu_gates_the_first_half_by_the_second():
    x = np.float32([[1, 2, 0, -1]])
    np.testing.assert_allclose(nn.glu(x), [[0.5, 2 * scipy.special.expit(-1)]], rtol=1e-6)
    with pytest.raises(ValueError, match="is odd"):
        nn.glu(x[:, :3])


def test_log1mexp_is_accurate_at_both_ends():
    x = np.float32([1e-6, 0.5, 1.0, 30.0])
    want = np.where(x < 0.7, np.log(-np.expm1(-x.astype(np.float64))), np.log1p(-np.exp(-x.astype(np.float64))))
    np.testing.assert_allclose(nn.log1mexp(x), want, rtol=1e-6)
    np.testing.assert_allclose(purax.grad(nn.log1mexp)(0.5), 1 / np.expm1(0.5), rtol=1e-6)


def test_one_hot_marks_places():
    np.testing.assert_array_equal(nn.one_hot(np.array([0, 2, 5]), 3), np.float32([[1, 0, 0], [0, 0, 1], [0, 0, 0]]))
    np.testing.assert_array_equal(nn.one_hot([1], 2, dtype=int, axis=0), np.array([[0], [1]]))
    lanes = purax.vmap(lambda _: nn.one_hot(1, 3, axis="i"), axis_name="i")(pnp.arange(3))
    np.testing.assert_array_equal(lanes, [0, 1, 0])
    with pytest.warns(DeprecationWarning, match="integer"):
        nn.one_hot(np.float32([1.0]), 2)


def test_lists_are_no_arrays():
    with pytest.raises(TypeError, match="relu"):
        nn.relu([1.0])
