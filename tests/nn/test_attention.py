# SPDX-License-Identifier: Apache-2.0
"""Attention against a loop in NumPy."""

import numpy as np
import pytest
import scipy.special

import purax
from purax import nn

RNG = np.random.default_rng(2)
B, T, S, N, K, H = 2, 4, 5, 4, 2, 3


def normal(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


Q, KEYS, VALUES = normal(B, T, N, H), normal(B, S, K, H), normal(B, S, K, H)


def loop(q, k, v, allowed=None, bias=None, scale=None):
    """Attention pair by pair; heads of keys are repeated."""
    k, v = (np.repeat(x, q.shape[2] // x.shape[2], axis=2) for x in (k, v))
    logits = np.einsum("btnh,bsnh->bnts", q, k) * (1 / np.sqrt(q.shape[-1]) if scale is None else scale)
    logits = logits if bias is None else logits + bias
    logits = logits if allowed is None else np.where(allowed, logits, -np.inf)
    return np.einsum("bnts,bsnh->btnh", scipy.special.softmax(logits, -1), v)


def test_plain_attention_and_grouped_heads():
    np.testing.assert_allclose(nn.dot_product_attention(Q, KEYS, VALUES), loop(Q, KEYS, VALUES), rtol=1e-4, atol=1e-6)
    one = nn.dot_product_attention(Q[0], KEYS[0], VALUES[0], scale=0.3)
    np.testing.assert_allclose(one, loop(Q, KEYS, VALUES, scale=0.3)[0], rtol=1e-4, atol=1e-6)


def test_masks_and_bias():
    place = np.arange(T)[:, None] - np.arange(S)[None, :]
    mask = RNG.random((B, N, T, S)) < 0.8
    mask[..., 0] = True
    bias = normal(1, N, T, S)
    for options, allowed in (
        ({"is_causal": True}, place >= 0),
        ({"local_window_size": 1}, abs(place) <= 1),
        ({"local_window_size": (2, 0)}, (place <= 2) & (place >= 0)),
        ({"mask": mask}, mask),
        ({"mask": mask[:, :1], "is_causal": True}, mask[:, :1] & (place >= 0)),
        ({"key_value_seq_lengths": np.int32([2, 5])}, (np.arange(S) < np.array([[2], [5]]))[:, None, None]),
    ):
        have = nn.dot_product_attention(Q, KEYS, VALUES, bias, **options)
        np.testing.assert_allclose(have, loop(Q, KEYS, VALUES, allowed, bias), rtol=1e-4, atol=1e-6)


def test_queries_beyond_their_length_give_zeros():
    out = np.asarray(nn.dot_product_attention(Q, KEYS, VALUES, query_seq_lengths=np.int32([1, 4])))
    assert (out[0, 1:] == 0).all()
    np.testing.assert_allclose(out[1], loop(Q, KEYS, VALUES)[1], rtol=1e-4, atol=1e-6)


def test_a_query_with_nothing_left_averages_and_harms_no_other():
    mask = np.ones((1, 1, T, S), bool)
    mask[0, 0, 0] = False
    out = np.asarray(nn.dot_product_attention(Q, KEYS, VALUES, mask=mask))
    np.testing.assert_allclose(out[:, 0], np.repeat(VALUES.mean(1), N // K, axis=1), rtol=1e-5)
    np.testing.assert_allclose(out[:, 1:], loop(Q, KEYS, VALUES)[:, 1:], rtol=1e-4, atol=1e-6)
    for gradient in purax.grad(lambda *x: nn.dot_product_attention(*x, mask=mask).sum(), (0, 1, 2))(Q, KEYS, VALUES):
        assert np.isfinite(gradient).all()


def test_the_residual_is_the_logarithm_of_the_sum():
    _, sums = nn.dot_product_attention(Q, KEYS, VALUES, return_residual=True)
    logits = np.einsum("btnh,bsnh->btns", Q, np.repeat(KEYS, N // K, axis=2)) / np.sqrt(H)
    np.testing.assert_allclose(sums, scipy.special.logsumexp(logits, -1), rtol=1e-4)


def test_what_does_not_fit_is_named():
    with pytest.raises(ValueError, match="value shape"):
        nn.dot_product_attention(Q, KEYS, VALUES[:, 1:])
    with pytest.raises(ValueError, match="query heads"):
        nn.dot_product_attention(Q[:, :, :3], KEYS, VALUES)
    with pytest.raises(ValueError, match="mask dtype"):
        nn.dot_product_attention(Q, KEYS, VALUES, mask=np.ones((1, 1, T, S), np.int32))
    with pytest.raises(ValueError, match="implementation"):
        nn.dot_product_attention(Q, KEYS, VALUES, implementation="cudnn")
