# SPDX-License-Identifier: Apache-2.0
"""Attention by NumPy; masks; caches; dropout."""

import numpy as np
import pytest

import purax
from purax import linen as nn
from purax import numpy as pnp
from purax import random, tree

KEY = random.key(0)
RNG = np.random.default_rng(0)


def normal(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def softmax(x):
    x = np.exp(x - x.max(-1, keepdims=True))
    return x / x.sum(-1, keepdims=True)


def reference(query, key, value, mask=None):
    logits = np.einsum("bqhd,bkhd->bhqk", query, key) / np.sqrt(query.shape[-1])
    if mask is not None:
        logits = np.where(mask, logits, -1e30)
    return np.einsum("bhqk,bkhd->bqhd", softmax(logits), value)


def test_dot_product_attention_equals_numpy():
    query, key, value = normal(2, 3, 2, 4), normal(2, 5, 2, 4), normal(2, 5, 2, 6)
    np.testing.assert_allclose(
        nn.dot_product_attention(query, key, value), reference(query, key, value), rtol=1e-4, atol=1e-5
    )
    mask = RNG.random((2, 2, 3, 5)) < 0.6
    mask[..., 0] = True
    y = nn.dot_product_attention(query, key, value, mask=mask)
    np.testing.assert_allclose(y, reference(query, key, value, mask), rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="query"):
        nn.dot_product_attention(query, key[:1], value[:1])
    with pytest.raises(ValueError, match="value"):
        nn.dot_product_attention(query, key, value[:, :4])


def test_a_fully_masked_query_leaves_others_and_gradients_alone():
    query, key, value = normal(1, 3, 1, 4), normal(1, 5, 1, 4), normal(1, 5, 1, 4)
    mask = np.ones((1, 1, 3, 5), bool)
    mask[:, :, 0] = False
    plain = nn.dot_product_attention(query, key, value, mask=mask)
    np.testing.assert_allclose(plain[0, 0, 0], value[0, :, 0].mean(0), rtol=1e-4, atol=1e-5)
    zero = nn.dot_product_attention(query, key, value, mask=mask, zero_fully_masked=True)
    assert not np.asarray(zero[0, 0]).any()
    np.testing.assert_allclose(zero[0, 1:], reference(query, key, value)[0, 1:], rtol=1e-4, atol=1e-5)
    loss = lambda q: nn.dot_product_attention(q, key, value, mask=mask, zero_fully_masked=True).sum()
    assert np.isfinite(purax.grad(loss)(query)).all()


def test_multi_head_attention_equals_the_formula():
    x = normal(2, 5, 8)
    layer = nn.MultiHeadDotProductAttention(num_heads=2, qkv_features=6, out_features=3)
    y, variables = layer.init_with_output(KEY, x)
    p = tree.map(np.asarray, variables["params"])
    assert p["query"]["kernel"].shape == (8, 2, 3)
    assert p["out"]["kernel"].shape == (2, 3, 3)
    parts = [np.einsum("bld,dhe->blhe", x, p[name]["kernel"]) for name in ("query", "key", "value")]
    expected = np.einsum("blhe,hef->blf", reference(*parts), p["out"]["kernel"])
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(nn.SelfAttention(2, qkv_features=6, out_features=3).apply(variables, x), y, rtol=1e-6)
    np.testing.assert_allclose(layer.apply(variables, x, inputs_kv=x), y, rtol=1e-6)
    with pytest.raises(ValueError, match="heads"):
        nn.MultiHeadDotProductAttention(num_heads=3).init(KEY, x)
    with pytest.raises(ValueError, match="inputs_v"):
        layer.apply(variables, x, inputs_v=x)
    with pytest.raises(ValueError, match="inputs_kv"):
        layer.apply(variables, x, x, inputs_kv=x)


def test_masks():
    causal = nn.make_causal_mask(pnp.ones((2, 3)))
    assert causal.shape == (2, 1, 3, 3)
    np.testing.assert_array_equal(causal[0, 0], np.tril(np.ones((3, 3))))
    valid = pnp.array([[1, 1, 0]])
    padding = nn.make_attention_mask(valid, valid)
    np.testing.assert_array_equal(padding[0, 0], [[1, 1, 0], [1, 1, 0], [0, 0, 0]])
    assert nn.make_attention_mask(valid, valid, extra_batch_dims=2).shape == (1, 1, 1, 1, 3, 3)
    both = nn.combine_masks(causal[:1], padding, None)
    np.testing.assert_array_equal(both[0, 0], [[1, 0, 0], [1, 1, 0], [0, 0, 0]])
    assert nn.combine_masks(None, None) is None
    with pytest.raises(ValueError, match="rank"):
        nn.combine_masks(causal, causal[0])


def test_decoding_position_by_position_equals_causal_attention():
    x = normal(1, 4, 6)
    layer = nn.MultiHeadDotProductAttention(num_heads=2, decode=True)
    variables = layer.init(KEY, x)
    params = {"params": variables["params"]}
    whole = nn.MultiHeadDotProductAttention(num_heads=2).apply(params, x, mask=nn.make_causal_mask(x[..., 0]))
    cache = variables["cache"]
    for position in range(4):
        step = x[:, position : position + 1]
        y, changed = layer.apply({**params, "cache": cache}, step, mutable=["cache"])
        cache = changed["cache"]
        np.testing.assert_allclose(y[:, 0], whole[:, position], rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="decoding"):
        layer.apply(variables, x, mutable=["cache"])


def test_dropout_and_stored_weights():
    x = normal(2, 4, 6)
    layer = nn.MultiHeadDotProductAttention(num_heads=2, dropout_rate=0.5)
    variables = layer.init(KEY, x, deterministic=True)
    _, state = layer.apply(
        variables, x, deterministic=False, rngs={"dropout": KEY}, sow_weights=True, mutable=["intermediates"]
    )
    weights = state["intermediates"]["attention_weights"][0]
    assert weights.shape == (2, 2, 4, 4)
    np.testing.assert_allclose(np.asarray(weights).sum(-1), 1, rtol=1e-5)
    args = {"dropout_rng": KEY, "dropout_rate": 0.5}
    query = normal(2, 3, 2, 4)
    shared = np.asarray(nn.dot_product_attention_weights(query, query, **args)) == 0
    assert (shared == shared[0, 0]).all()
    own = np.asarray(nn.dot_product_attention_weights(query, query, broadcast_dropout=False, **args)) == 0
    assert not (own == own[0, 0]).all()
