# SPDX-License-Identifier: Apache-2.0
"""Long short-term memory against a loop in NumPy, sequence by sequence."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

import purax
from purax import random
from purax.experimental import rnn

BATCH, STEPS, INPUTS, HIDDEN = 3, 5, 2, 4
LENGTHS = np.array([5, 0, 3], np.int32)


def arguments(layers, bidirectional):
    draw = np.random.default_rng(0).normal
    states = (layers * (2 if bidirectional else 1), BATCH, HIDDEN)
    weights = rnn.init_lstm_weight(random.key(0), INPUTS, HIDDEN, layers, bidirectional)
    return [
        x.astype(np.float32) for x in (draw(size=(BATCH, STEPS, INPUTS)), draw(size=states), draw(size=states))
    ], weights


def direction(rows, h, c, w, v, b, bias):
    out = []
    for x in rows:
        i, f, g, o = np.split(w @ x + v @ h + b + bias, 4)
        c = expit(f) * c + expit(i) * np.tanh(g)
        h = expit(o) * np.tanh(c)
        out.append(h)
    return np.array(out).reshape(len(rows), HIDDEN), h, c


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_each_sequence_is_run_to_its_own_end(layers, bidirectional):
    (x, h_0, c_0), weights = arguments(layers, bidirectional)
    y, h_n, c_n = rnn.lstm(x, h_0, c_0, weights, LENGTHS, INPUTS, HIDDEN, layers, 0.0, bidirectional)
    parts = rnn.unpack_lstm_weights(np.asarray(weights), INPUTS, HIDDEN, layers, bidirectional)
    directions = 2 if bidirectional else 1
    for k, length in enumerate(LENGTHS):
        rows = x[k, :length]
        for layer in range(layers):
            found = []
            for i in range(directions):
                n = layer * directions + i
                out, h, c = direction(rows[:: 1 - 2 * i], h_0[n, k], c_0[n, k], *(p[n] for p in parts))
                found.append(out[:: 1 - 2 * i])
                np.testing.assert_allclose(h_n[n, k], h, rtol=1e-4, atol=1e-5)
                np.testing.assert_allclose(c_n[n, k], c, rtol=1e-4, atol=1e-5)
            rows = np.concatenate(found, axis=-1)
        np.testing.assert_allclose(y[k, :length], rows, rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(y[k, length:], 0)


def test_padding_has_no_derivative():
    (x, h_0, c_0), weights = arguments(2, True)

    def total(x):
        return sum(part.sum() for part in rnn.lstm(x, h_0, c_0, weights, LENGTHS, INPUTS, HIDDEN, 2, 0.0, True))

    gradient = np.asarray(purax.jit(purax.grad(total))(x))
    for k, length in enumerate(LENGTHS):
        np.testing.assert_array_equal(gradient[k, length:], 0)
        assert (gradient[k, :length] != 0).all()


def test_weights_lie_in_one_vector():
    count = rnn.get_num_params_in_lstm(INPUTS, HIDDEN, 2, True)
    parts = rnn.unpack_lstm_weights(np.arange(count), INPUTS, HIDDEN, 2, True)
    assert sum(x.size for group in parts for x in group.values()) == count
    assert [x.shape for x in parts[0].values()] == [(16, 2), (16, 2), (16, 8), (16, 8)]
    assert parts[1][0][0, 0] == 32 and parts[2][0][0] == count - 8 * 16


def test_what_is_refused():
    (x, h_0, c_0), weights = arguments(1, False)
    with pytest.raises(NotImplementedError, match="dropout"):
        rnn.lstm(x, h_0, c_0, weights, LENGTHS, INPUTS, HIDDEN, 1, 0.5, False)
    with pytest.raises(NotImplementedError, match="int32"):
        rnn.lstm(x, h_0, c_0, weights, LENGTHS.astype(np.int16), INPUTS, HIDDEN, 1, 0.0, False)
