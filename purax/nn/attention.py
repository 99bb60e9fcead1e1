# SPDX-License-Identifier: Apache-2.0
"""Attention: weighted sums of values, with weights from the products of queries and keys."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from purax import dtypes
from purax import numpy as pnp
from purax.nn.softmax import logsumexp, softmax
from purax.numpy.promotion import check_arraylike
from purax.primitives import shape as shapes
from purax.primitives.stop_gradient import stop_gradient

__all__ = ["dot_product_attention"]


def _four_axes(x: Any) -> Any:
    x = pnp.asarray(x)
    return pnp.expand_dims(x, tuple(range(4 - x.ndim))) if x.ndim < 4 else x


def _check(x: Any, sizes: tuple[int, ...], dtype: Any, name: str) -> None:
    """Raise ValueError unless `x` has these sizes (-1: any) and this dtype (None: any)."""
    if x is None:
        return
    if x.ndim != len(sizes):
        raise ValueError(f"{name} ndim should be {len(sizes)}, but got {x.ndim}")
    if dtype is not None and x.dtype != dtype:
        raise ValueError(f"{name} dtype should be {dtype}, but got {x.dtype}")
    if any(want not in (-1, have) for want, have in zip(sizes, x.shape, strict=True)):
        raise ValueError(f"{name} shape should be {sizes}: but got {x.shape}")


def _by_groups(x: Any, heads: int, groups: int) -> Any:
    """Heads of a bias or mask as (key head, query head of that key head); one head stays one."""
    b, n, t, s = x.shape
    return shapes.reshape(x, (b, 1, 1, t, s) if n == 1 else (b, heads, groups, t, s))


def _masks(
    mask: Any,
    causal: bool,
    query_lengths: Any,
    key_lengths: Any,
    window: tuple[int, int] | None,
    queries: int,
    keys: int,
) -> list[Any]:
    """What each restriction lets through, broadcast against (batch, key head, group, query, key)."""
    found = [] if mask is None else [mask]
    place = np.arange(queries)[:, None] - np.arange(keys)[None, :]
    if causal:
        found.append(pnp.asarray(place >= 0)[None, None, None])
    if window is not None:
        left, right = window
        found.append(pnp.asarray((place <= left) & (place >= -right))[None, None, None])
    if query_lengths is not None:
        inside = pnp.arange(queries)[None, :] < query_lengths[:, None]
        found.append(inside[:, None, None, :, None])
    if key_lengths is not None:
        inside = pnp.arange(keys)[None, :] < key_lengths[:, None]
        found.append(inside[:, None, None, None, :])
    return found


def dot_product_attention(
    query: Any, key: Any, value: Any, bias: Any = None, mask: Any = None, *, scale: float | None = None, is_causal: bool = False,
    query_seq_lengths: Any = None, key_value_seq_lengths: Any = None, local_window_size: int | tuple[int, int] | None = None,
    implementation: str | None = None, return_residual: bool = False,
) -> Any:  # fmt: skip
    """Attention of queries to keys: softmax(query key^T * scale + bias) value.

    Parameters
    ----------
    query : floating[batch, t, n, h]
        t queries of n heads; the batch axis may be missing.
    key, value : floating[batch, s, k, h]
        With n a multiple of k: each key head serves n / k query heads.
    bias : floating[batch, n, t, s], optional
        Added to the products; axes of size 1 are repeated.
    mask : bool[batch, n, t, s], optional
        False leaves a pair out. A query with nothing left attends to all keys alike.
    scale : float, optional
        Default 1 / sqrt(h).
    is_causal : bool
        Leave out keys behind the query's own place.
    query_seq_lengths, key_value_seq_lengths : int32[batch], optional
        Queries and keys behind these lengths are left out; such queries give zeros.
    local_window_size : int or (left, right), optional
        How far before and behind its own place a query looks.
    implementation : "xla" or None
    return_residual : bool
        Return the logarithms of the sums of exponentials, too: floating[batch, t, n], without derivative.

    Returns
    -------
    floating[batch, t, n, h], or a pair

    Raises
    ------
    ValueError
        Shapes or dtypes do not fit, or an implementation that this platform lacks.
    """
    check_arraylike("dot_product_attention", query, key, value)
    if implementation not in (None, "xla"):
        raise ValueError(f"Unsupported implementation option: {implementation}")
    out_shape = np.shape(query) if not hasattr(query, "aval") else query.aval.shape
    query, key, value = _four_axes(query), _four_axes(key), _four_axes(value)
    bias = None if bias is None else _four_axes(bias)
    mask = None if mask is None else _four_axes(mask)
    query_seq_lengths = None if query_seq_lengths is None else pnp.asarray(query_seq_lengths)
    key_value_seq_lengths = None if key_value_seq_lengths is None else pnp.asarray(key_value_seq_lengths)
    window = (local_window_size, local_window_size) if isinstance(local_window_size, int) else local_window_size
    batch, s, heads, size = key.shape
    _check(value, (batch, s, heads, size), key.dtype, "value")
    _check(query, (batch, -1, -1, size), key.dtype, "query")
    _check(mask, (-1,) * 4, np.bool_, "mask")
    _check(bias, (-1,) * 4, None, "bias")
    _check(query_seq_lengths, (batch,), np.int32, "query_seq_lengths")
    _check(key_value_seq_lengths, (batch,), np.int32, "key_value_seq_lengths")
    t, n = query.shape[1:3]
    if n % heads:
        raise ValueError(
            f"each of the {heads} key heads serves as many query heads as the others, but there are {n} query heads"
        )
    groups = n // heads
    query = shapes.reshape(query, (batch, t, heads, groups, size))
    products = pnp.einsum(
        "btkgh,bskh->bkgts", query, key, preferred_element_type=dtypes.promote_types(query.dtype, np.float32)
    )
    logits = products * (1 / math.sqrt(size) if scale is None else scale)
    if bias is not None:
        logits = (logits + _by_groups(bias, heads, groups)).astype(logits.dtype)
    mask = None if mask is None else _by_groups(mask, heads, groups)
    masks = _masks(mask, is_causal, query_seq_lengths, key_value_seq_lengths, window, t, s)
    if masks:
        allowed = functools.reduce(pnp.logical_and, [shapes.broadcast_to_rank(m, 5) for m in masks])
        # A large finite number: a query with nothing left gets equal weights, and no NaN.
        logits = pnp.where(allowed, logits, -0.7 * float(dtypes.finfo(np.float32).max))
    logits = logits.astype(np.float32)
    out = pnp.einsum("bkgts,bskh->btkgh", softmax(logits).astype(key.dtype), value)
    if query_seq_lengths is not None:
        inside = pnp.arange(t)[None, :] < query_seq_lengths[:, None]
        out = out * inside[:, :, None, None, None].astype(out.dtype)
    out = shapes.reshape(out, out_shape)
    if not return_residual:
        return out
    sums = stop_gradient(logsumexp(logits, axis=-1).astype(key.dtype))
    return out, shapes.reshape(pnp.moveaxis(sums, -1, 1), out_shape[:-1])
