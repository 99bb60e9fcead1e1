# SPDX-License-Identifier: Apache-2.0
"""Recurrent cells by their equations; RNN and Bidirectional by loops."""

import numpy as np
import pytest

import purax
from purax import linen as nn
from purax import numpy as pnp
from purax import random, tree

KEY = random.key(0)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(2, 5, 3)).astype(np.float32)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def loop(cell, variables, x, carry):
    outputs = []
    for step in range(x.shape[1]):
        carry, y = cell.apply(variables, carry, x[:, step])
        outputs.append(y)
    return carry, np.stack(outputs, 1)


def test_lstm_follows_its_equations_and_the_optimized_cell_equals_it():
    cell = nn.LSTMCell(4, bias_init=nn.initializers.normal(1.0))
    carry = cell.initialize_carry(KEY, X[:, 0].shape)
    assert [part.shape for part in carry] == [(2, 4), (2, 4)]
    carry = tuple(RNG.normal(size=(2, 4)).astype(np.float32) for _ in range(2))
    variables = cell.init(KEY, carry, X[:, 0])
    p = tree.map(np.asarray, variables["params"])
    assert sorted(p) == ["hf", "hg", "hi", "ho", "if", "ig", "ii", "io"]
    c, h = carry

    def total(gate):
        return X[:, 0] @ p[f"i{gate}"]["kernel"] + h @ p[f"h{gate}"]["kernel"] + p[f"h{gate}"]["bias"]

    new_c = sigmoid(total("f")) * c + sigmoid(total("i")) * np.tanh(total("g"))
    new_h = sigmoid(total("o")) * np.tanh(new_c)
    for one in (cell, nn.OptimizedLSTMCell(4)):
        (got_c, got_h), y = one.apply(variables, carry, X[:, 0])
        np.testing.assert_allclose(got_c, new_c, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(got_h, new_h, rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(y, got_h)


def test_gru_and_mgu_follow_their_equations():
    h = RNG.normal(size=(2, 4)).astype(np.float32)
    x = X[:, 0]
    cell = nn.GRUCell(4, bias_init=nn.initializers.normal(1.0))
    variables = cell.init(KEY, h, x)
    p = tree.map(np.asarray, variables["params"])
    dense = lambda name, v: v @ p[name]["kernel"] + p[name].get("bias", 0)
    r, z = (sigmoid(dense(f"i{g}", x) + dense(f"h{g}", h)) for g in "rz")
    n = np.tanh(dense("in", x) + r * dense("hn", h))
    np.testing.assert_allclose(cell.apply(variables, h, x)[0], (1 - z) * n + z * h, rtol=1e-4, atol=1e-5)
    cell = nn.MGUCell(4)
    variables = cell.init(KEY, h, x)
    p = tree.map(np.asarray, variables["params"])
    f = sigmoid(dense("if", x) + dense("hf", h))
    n = np.tanh(dense("in", x) + f * dense("hn", h))
    np.testing.assert_allclose(cell.apply(variables, h, x)[0], (1 - f) * n + f * h, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "cell", [nn.SimpleCell(4), nn.SimpleCell(3, residual=True), nn.GRUCell(4), nn.OptimizedLSTMCell(4)]
)
def test_rnn_equals_a_loop_over_its_cell(cell):
    model = nn.RNN(cell, return_carry=True)
    (carry, outputs), variables = model.init_with_output(KEY, X)
    inner = {"params": variables["params"]["cell"]}
    first = cell.initialize_carry(KEY, X[:, 0].shape)
    expected_carry, expected = loop(cell, inner, X, first)
    np.testing.assert_allclose(outputs, expected, rtol=1e-4, atol=1e-5)
    tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), carry, expected_carry)
    major = model.apply(variables, X.swapaxes(0, 1), time_major=True, return_carry=False)
    np.testing.assert_allclose(major.swapaxes(0, 1), outputs, rtol=1e-5, atol=1e-6)


def test_lengths_choose_the_carry_and_what_is_reversed():
    lengths = pnp.array([2, 5])
    cell = nn.GRUCell(4)
    model = nn.RNN(cell, return_carry=True)
    (carry, outputs), variables = model.init_with_output(KEY, X, seq_lengths=lengths)
    np.testing.assert_array_equal(carry[0], outputs[0, 1])
    np.testing.assert_array_equal(carry[1], outputs[1, 4])
    short = X.copy()
    short[0, :2] = X[0, 1::-1]
    short[1] = X[1, ::-1]
    carry_back, back = model.apply(variables, X, seq_lengths=lengths, reverse=True)
    carry_flipped, flipped = model.apply(variables, short, seq_lengths=lengths)
    np.testing.assert_allclose(carry_back, carry_flipped, rtol=1e-5)
    np.testing.assert_allclose(back[0, :2], flipped[0, :2], rtol=1e-5)
    _, kept = model.apply(variables, X, seq_lengths=lengths, reverse=True, keep_order=True)
    np.testing.assert_array_equal(kept[0, :2], back[0, 1::-1])
    np.testing.assert_array_equal(kept[1], back[1, ::-1])


def test_bidirectional_concatenates_both_directions():
    model = nn.Bidirectional(nn.RNN(nn.GRUCell(4)), nn.RNN(nn.GRUCell(2)), return_carry=True)
    (carries, y), variables = model.init_with_output(KEY, X)
    assert y.shape == (2, 5, 6)
    ahead = {"params": variables["params"]["forward_rnn"]}
    np.testing.assert_allclose(y[..., :4], nn.RNN(nn.GRUCell(4)).apply(ahead, X), rtol=1e-5)
    back = {"params": variables["params"]["backward_rnn"]}
    np.testing.assert_allclose(y[:, ::-1, 4:], nn.RNN(nn.GRUCell(2)).apply(back, X[:, ::-1]), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(carries[0], y[:, -1, :4], rtol=1e-5)
    np.testing.assert_allclose(carries[1], y[:, 0, 4:], rtol=1e-5)


def test_conv_lstm_runs_over_images_and_has_gradients():
    x = RNG.normal(size=(1, 3, 4, 4, 2)).astype(np.float32)
    model = nn.RNN(nn.ConvLSTMCell(3, (3, 3)))
    y, variables = model.init_with_output(KEY, x)
    assert y.shape == (1, 3, 4, 4, 3)
    gradient = purax.jit(purax.grad(lambda v: model.apply(v, x).sum()))(variables)
    assert all(np.isfinite(leaf).all() and np.any(leaf) for leaf in map(np.asarray, tree.leaves(gradient)))


def test_the_first_carry_and_its_key_may_be_given():
    cell = nn.SimpleCell(4, carry_init=nn.initializers.normal(1.0))
    model = nn.RNN(cell)
    variables = model.init(KEY, X)
    own = cell.initialize_carry(random.key(5), X[:, 0].shape)
    np.testing.assert_array_equal(
        model.apply(variables, X, init_key=random.key(5)), model.apply(variables, X, initial_carry=own)
    )
