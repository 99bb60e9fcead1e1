# SPDX-License-Identifier: Apache-2.0
"""Attention: the dot-product function, multi-head modules around it, and masks."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from math import sqrt
from typing import Any

from purax import nn, random
from purax import numpy as pnp
from purax.linen import initializers
from purax.linen.declare import compact, nowrap
from purax.linen.dtypes import promote_dtype
from purax.linen.layers.linear import DenseGeneral, default_kernel_init
from purax.linen.layers.normalization import LayerNorm
from purax.linen.module import Module, merge_param
from purax.primitives.slicing import dynamic_update_slice

__all__ = [
    "MultiHeadAttention",
    "MultiHeadDotProductAttention",
    "SelfAttention",
    "combine_masks",
    "dot_product_attention",
    "dot_product_attention_weights",
    "make_attention_mask",
    "make_causal_mask",
]


def _einsum(dot_general: Callable[..., Any] | None, precision: Any) -> Callable[..., Any]:
    if dot_general is None:
        return functools.partial(pnp.einsum, precision=precision)
    return functools.partial(pnp.einsum, precision=precision, _dot_general=dot_general)


def dot_product_attention_weights(
    query: Any,
    key: Any,
    bias: Any = None,
    mask: Any = None,
    broadcast_dropout: bool = True,
    dropout_rng: Any = None,
    dropout_rate: float = 0.0,
    deterministic: bool = False,
    dtype: Any = None,
    precision: Any = None,
    module: Module | None = None,
    force_fp32_for_softmax: bool = False,
    einsum_dot_general: Callable[..., Any] | None = None,
    einsum: Callable[..., Any] | None = None,
    zero_fully_masked: bool = False,
) -> Any:
    """Return `softmax(query key^T / sqrt(depth) + bias)`.

    Parameters
    ----------
    query, key : Array
        Shapes (..., queries, heads, depth) and (..., keys, heads, depth).
    bias : Array, optional
        Added to the logits, shape (..., heads, queries, keys) or broadcastable to it.
    mask : Array, optional
        False where a query may not see a key; shape as that of `bias`. A query that may see none attends to all keys
        alike, unless `zero_fully_masked`.
    broadcast_dropout : bool
        Whether batch entries and heads share the dropped weights.
    dropout_rng : key, optional
        Key for dropout.
    dropout_rate : float
        Probability that a weight becomes zero.
    deterministic : bool
        True for no dropout.
    dtype : dtype, optional
        What to compute in.
    precision : Precision, optional
        Of the product.
    module : Module, optional
        Module that stores the weights in "intermediates".
    force_fp32_for_softmax : bool
        Whether half precision logits go through softmax in float32.
    einsum_dot_general, einsum : callable, optional
        Another dot_general for einsum, or another einsum.
    zero_fully_masked : bool
        Whether a query that may see no key gets zero weights.

    Returns
    -------
    Array
        Shape (..., heads, queries, keys).

    Raises
    ------
    ValueError
        Shapes that do not fit.
    """
    query, key = promote_dtype(query, key, dtype=dtype)
    dtype = query.dtype
    if query.ndim != key.ndim or query.shape[:-3] != key.shape[:-3] or query.shape[-2:] != key.shape[-2:]:
        raise ValueError(f"Attention: batch, heads and depth of query {query.shape} and key {key.shape} must be equal.")
    einsum = einsum or _einsum(einsum_dot_general, precision)
    weights = einsum("...qhd,...khd->...hqk", query / pnp.asarray(sqrt(query.shape[-1]), dtype), key)
    if bias is not None:
        weights = weights + bias
    if mask is not None:
        weights = pnp.where(mask, weights, pnp.finfo(dtype).min)
    if force_fp32_for_softmax and dtype != pnp.float32:
        weights = nn.softmax(weights.astype(pnp.float32))
    else:
        weights = nn.softmax(weights).astype(dtype)
    if zero_fully_masked and mask is not None:
        weights = pnp.where(pnp.any(mask, axis=-1, keepdims=True), weights, 0)
    if module is not None:
        module.sow("intermediates", "attention_weights", weights)
    if deterministic or dropout_rate <= 0.0:
        return weights
    keep = 1.0 - dropout_rate
    shape = (1,) * (key.ndim - 2) + weights.shape[-2:] if broadcast_dropout else weights.shape
    kept = random.bernoulli(dropout_rng, keep, shape)
    return weights * (kept.astype(dtype) / pnp.asarray(keep, dtype))


def dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    bias: Any = None,
    mask: Any = None,
    broadcast_dropout: bool = True,
    dropout_rng: Any = None,
    dropout_rate: float = 0.0,
    deterministic: bool = False,
    dtype: Any = None,
    precision: Any = None,
    module: Module | None = None,
    force_fp32_for_softmax: bool = False,
    einsum_dot_general: Callable[..., Any] | None = None,
    qk_attn_weights_einsum: Callable[..., Any] | None = None,
    attn_weights_value_einsum: Callable[..., Any] | None = None,
    zero_fully_masked: bool = False,
) -> Any:
    """Return `softmax(query key^T / sqrt(depth) + bias) value`.

    Parameters
    ----------
    query, key, value : Array
        Shapes (..., queries, heads, depth), (..., keys, heads, depth) and (..., keys, heads, value depth).
    qk_attn_weights_einsum, attn_weights_value_einsum : callable, optional
        Other functions for the two products; given together.
    bias, mask, broadcast_dropout, dropout_rng, dropout_rate, deterministic, dtype, precision, module, \
force_fp32_for_softmax, einsum_dot_general, zero_fully_masked
        As for `dot_product_attention_weights`.

    Returns
    -------
    Array
        Shape (..., queries, heads, value depth).

    Raises
    ------
    ValueError
        Shapes that do not fit, or one of the two einsum functions without the other or beside `precision` or
        `einsum_dot_general`.
    """
    if (qk_attn_weights_einsum is None) != (attn_weights_value_einsum is None):
        raise ValueError("Attention: give both of qk_attn_weights_einsum and attn_weights_value_einsum, or neither.")
    if qk_attn_weights_einsum is not None and (precision is not None or einsum_dot_general is not None):
        raise ValueError("Attention: precision and einsum_dot_general do not go with other einsum functions.")
    query, key, value = promote_dtype(query, key, value, dtype=dtype)
    if key.shape[:-1] != value.shape[:-1]:
        raise ValueError(f"Attention: key {key.shape} and value {value.shape} may differ in their last axis only.")
    weights = dot_product_attention_weights(
        query,
        key,
        bias,
        mask,
        broadcast_dropout,
        dropout_rng,
        dropout_rate,
        deterministic,
        query.dtype,
        precision,
        module,
        force_fp32_for_softmax,
        einsum_dot_general,
        qk_attn_weights_einsum,
        zero_fully_masked,
    )
    combine = attn_weights_value_einsum or _einsum(einsum_dot_general, precision)
    return combine("...hqk,...khd->...qhd", weights, value)


class MultiHeadDotProductAttention(Module):
    """Attention with several heads, between learned linear maps.

    Parameters
    ----------
    num_heads : int
        Heads; divides `qkv_features`.
    dtype, param_dtype, precision, use_bias, kernel_init, bias_init
        As for `Dense`, for the maps of query, key and value.
    qkv_features, out_features : int, optional
        Sizes of heads together, and of the output; by default the size of the input.
    broadcast_dropout, dropout_rate, deterministic
        As for `dot_product_attention`; `deterministic` is given here or at the call.
    out_kernel_init, out_bias_init : callable, optional
        Initializers of the output map, if others.
    attention_fn : callable
        Function like `dot_product_attention`; it gets those keywords that it has.
    decode : bool
        Whether keys and values of earlier calls are kept in the collection "cache", for one position at a time.
    normalize_qk : bool
        Whether query and key go through LayerNorm.
    force_fp32_for_softmax : bool
        As for `dot_product_attention`.
    qkv_dot_general, out_dot_general, qkv_dot_general_cls, out_dot_general_cls : callable, optional
        Other products of the maps.
    qk_attn_weights_einsum_cls, attn_weights_value_einsum_cls : callable, optional
        Makers of other einsum functions.

    Examples
    --------
    >>> from purax import linen, numpy as pnp, random
    >>> layer = linen.MultiHeadDotProductAttention(num_heads=2)
    >>> layer.init_with_output(random.key(0), pnp.ones((1, 5, 8)))[0].shape
    (1, 5, 8)
    """

    num_heads: int
    dtype: Any = None
    param_dtype: Any = pnp.float32
    qkv_features: int | None = None
    out_features: int | None = None
    broadcast_dropout: bool = True
    dropout_rate: float = 0.0
    deterministic: bool | None = None
    precision: Any = None
    kernel_init: Callable[..., Any] = default_kernel_init
    out_kernel_init: Callable[..., Any] | None = None
    bias_init: Callable[..., Any] = initializers.zeros
    out_bias_init: Callable[..., Any] | None = None
    use_bias: bool = True
    attention_fn: Callable[..., Any] = dot_product_attention
    decode: bool = False
    normalize_qk: bool = False
    force_fp32_for_softmax: bool = False
    qkv_dot_general: Callable[..., Any] | None = None
    out_dot_general: Callable[..., Any] | None = None
    qkv_dot_general_cls: Any = None
    out_dot_general_cls: Any = None
    qk_attn_weights_einsum_cls: Callable[..., Any] | None = None
    attn_weights_value_einsum_cls: Callable[..., Any] | None = None

    @compact
    def __call__(
        self,
        inputs_q: Any,
        inputs_k: Any = None,
        inputs_v: Any = None,
        *,
        inputs_kv: Any = None,
        mask: Any = None,
        deterministic: bool | None = None,
        dropout_rng: Any = None,
        sow_weights: bool = False,
    ) -> Any:
        """Attend from `inputs_q` to `inputs_k` (itself by default), summing `inputs_v` (the keys by default).

        Parameters
        ----------
        inputs_q, inputs_k, inputs_v : Array
            Shape (..., length, features).
        inputs_kv : Array, optional
            Keys and values at once.
        mask : Array, optional
            Shape (..., heads, queries, keys), or with heads 1.
        deterministic : bool, optional
            True for no dropout.
        dropout_rng : key, optional
            Key for dropout; by default from the stream "dropout".
        sow_weights : bool
            Whether to store the attention weights in "intermediates".

        Returns
        -------
        Array
            Shape (..., queries, out_features).
        """
        inputs_k, inputs_v = self._keys_and_values(inputs_q, inputs_k, inputs_v, inputs_kv)
        features = self.qkv_features or inputs_q.shape[-1]
        if features % self.num_heads:
            raise ValueError(f"Attention: {features} features do not divide into {self.num_heads} heads.")
        options = {
            "dtype": self.dtype,
            "param_dtype": self.param_dtype,
            "use_bias": self.use_bias,
            "precision": self.precision,
        }
        dense = functools.partial(
            DenseGeneral,
            features=(self.num_heads, features // self.num_heads),
            kernel_init=self.kernel_init,
            bias_init=self.bias_init,
            dot_general=self.qkv_dot_general,
            dot_general_cls=self.qkv_dot_general_cls,
            **options,
        )
        query, key, value = dense(name="query")(inputs_q), dense(name="key")(inputs_k), dense(name="value")(inputs_v)
        if self.normalize_qk:
            norm = functools.partial(LayerNorm, use_bias=False, dtype=self.dtype, param_dtype=self.param_dtype)
            query, key = norm(name="query_ln")(query), norm(name="key_ln")(key)
        if self.decode:
            key, value, mask = self._cached(query, key, value, mask)
        quiet = True
        if self.dropout_rate > 0.0:
            quiet = merge_param("deterministic", self.deterministic, deterministic)
            if not quiet and dropout_rng is None:
                dropout_rng = self.make_rng("dropout")
        settings = {
            "mask": mask,
            "dropout_rng": dropout_rng,
            "dropout_rate": self.dropout_rate,
            "broadcast_dropout": self.broadcast_dropout,
            "deterministic": quiet,
            "dtype": self.dtype,
            "precision": self.precision,
            "force_fp32_for_softmax": self.force_fp32_for_softmax,
            "qk_attn_weights_einsum": self.qk_attn_weights_einsum_cls and self.qk_attn_weights_einsum_cls(),
            "attn_weights_value_einsum": self.attn_weights_value_einsum_cls and self.attn_weights_value_einsum_cls(),
        }
        known = inspect.signature(self.attention_fn).parameters
        settings = {name: setting for name, setting in settings.items() if name in known}
        if sow_weights:
            settings["module"] = self
        x = self.attention_fn(query, key, value, **settings)
        return DenseGeneral(
            features=self.out_features or inputs_q.shape[-1],
            axis=(-2, -1),
            kernel_init=self.out_kernel_init or self.kernel_init,
            bias_init=self.out_bias_init or self.bias_init,
            dot_general=self.out_dot_general,
            dot_general_cls=self.out_dot_general_cls,
            name="out",
            **options,
        )(x)

    @staticmethod
    def _keys_and_values(inputs_q: Any, inputs_k: Any, inputs_v: Any, inputs_kv: Any) -> tuple[Any, Any]:
        if inputs_kv is not None:
            if inputs_k is not None or inputs_v is not None:
                raise ValueError("Attention: give inputs_kv, or inputs_k and inputs_v, not both.")
            return inputs_kv, inputs_kv
        if inputs_k is None:
            if inputs_v is not None:
                raise ValueError("Attention: inputs_v without inputs_k; give inputs_k alone to use it for both.")
            inputs_k = inputs_q
        return inputs_k, inputs_k if inputs_v is None else inputs_v

    @nowrap
    def _cached(self, query: Any, key: Any, value: Any, mask: Any) -> tuple[Any, Any, Any]:
        """Put key and value of this position into the cache; return all of them and a mask of the positions so far.

        The first call, in `init`, makes the cache with the length of its input.
        """
        ready = self.has_variable("cache", "cached_key")
        cached_key = self.variable("cache", "cached_key", pnp.zeros, key.shape, key.dtype)
        cached_value = self.variable("cache", "cached_value", pnp.zeros, value.shape, value.dtype)
        cache_index = self.variable("cache", "cache_index", lambda: pnp.array(0, pnp.int32))
        if not ready:
            return key, value, mask
        *batch, length, heads, depth = cached_key.value.shape
        if query.shape != (*batch, 1, heads, depth):
            raise ValueError(f"Attention: decoding takes shape {(*batch, 1, heads, depth)}, got {query.shape}.")
        index = cache_index.value
        start = (0,) * len(batch) + (index, 0, 0)
        cached_key.value = dynamic_update_slice(cached_key.value, key, start)
        cached_value.value = dynamic_update_slice(cached_value.value, value, start)
        cache_index.value = index + 1
        seen = pnp.broadcast_to(pnp.arange(length) <= index, (*batch, 1, 1, length))
        return cached_key.value, cached_value.value, combine_masks(mask, seen)


class MultiHeadAttention(MultiHeadDotProductAttention):
    """The same as `MultiHeadDotProductAttention`, under its shorter name."""


class SelfAttention(MultiHeadDotProductAttention):
    """`MultiHeadDotProductAttention` of an input with itself."""

    @compact
    def __call__(  # type: ignore[override]
        self,
        inputs_q: Any,
        mask: Any = None,
        deterministic: bool | None = None,
        dropout_rng: Any = None,
        sow_weights: bool = False,
    ) -> Any:
        """Attend from `inputs_q`, shape (..., length, features), to itself."""
        return super().__call__(
            inputs_q, mask=mask, deterministic=deterministic, dropout_rng=dropout_rng, sow_weights=sow_weights
        )


def make_attention_mask(
    query_input: Any,
    key_input: Any,
    pairwise_fn: Callable[..., Any] = pnp.multiply,
    extra_batch_dims: int = 0,
    dtype: Any = pnp.float32,
) -> Any:
    """Return a mask from a value for each query and key position.

    Parameters
    ----------
    query_input, key_input : Array
        Shapes (..., queries) and (..., keys); for padding masks, whether a position holds data.
    pairwise_fn : callable
        Function of two arrays.
    extra_batch_dims : int
        Axes of size one to put in front.
    dtype : dtype
        Of the mask.

    Returns
    -------
    Array
        Shape (..., 1, queries, keys).
    """
    mask = pairwise_fn(pnp.expand_dims(query_input, -1), pnp.expand_dims(key_input, -2))
    mask = pnp.expand_dims(mask, -3)
    return pnp.expand_dims(mask, tuple(range(extra_batch_dims))).astype(dtype)


def make_causal_mask(x: Any, extra_batch_dims: int = 0, dtype: Any = pnp.float32) -> Any:
    """Return the mask by which each position sees itself and the earlier ones, shape (..., 1, length, length).

    Parameters
    ----------
    x : Array
        Shape (..., length); only its shape matters.
    extra_batch_dims : int
        Axes of size one to put in front.
    dtype : dtype
        Of the mask.

    Returns
    -------
    dtype[*extra, ..., 1, length, length]
    """
    positions = pnp.broadcast_to(pnp.arange(x.shape[-1], dtype=pnp.int32), x.shape)
    return make_attention_mask(positions, positions, pnp.greater_equal, extra_batch_dims, dtype)


def combine_masks(*masks: Any, dtype: Any = pnp.float32) -> Any:
    """Return the mask that is true where all masks are; those that are None do not count; None if all are.

    Parameters
    ----------
    masks : array or None
    dtype : dtype
        Of the mask.

    Returns
    -------
    dtype[...], or None

    Raises
    ------
    ValueError
        Masks of different rank.
    """
    given = [mask for mask in masks if mask is not None]
    if not given:
        return None
    if len({mask.ndim for mask in given}) > 1:
        raise ValueError(f"combine_masks: the masks must have the same rank, got {[mask.shape for mask in given]}.")
    return functools.reduce(pnp.logical_and, given).astype(dtype)
