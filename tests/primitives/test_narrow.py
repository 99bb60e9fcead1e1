# SPDX-License-Identifier: Apache-2.0
"""Numbers of less than a byte: NumPy has no functions for many of them, and XLA's compiler trips over some."""

import numpy as np
import pytest

import purax
from purax import dtypes, lax
from purax import numpy as pnp

NARROW = [dtypes.int2, dtypes.uint4, dtypes.float4_e2m1fn]
VALUES = np.array([1, 0, 1, 1], np.float32)


@pytest.mark.parametrize("dtype", NARROW, ids=str)
@pytest.mark.parametrize(
    "function",
    [
        lambda x: lax.reduce_max(x, (0,)),
        lambda x: lax.reduce_min(x, (0,)),
        lambda x: lax.reduce_sum(x[1:3], (0,)),
        lambda x: lax.cummax(x, reverse=True),
        lax.cummin,
        lambda x: lax.cumsum(x[:2]),
        lambda x: lax.reduce_window_max(x, (2,), (1,), "SAME"),
        lax.sort,
        lambda x: lax.top_k(x, 2)[0],
        lambda x: lax.concatenate([x, x], 0),
        lambda x: lax.dot(x[:2], x[1:3]),
        lambda x: lax.conv(x.reshape(1, 1, 4), x[1:3].reshape(1, 1, 2), (1,), "VALID"),
        lambda x: x.at[pnp.array([1])].max(x[:1]),
    ],
    ids=lambda f: f.__code__.co_names[-1] if hasattr(f, "__code__") else f.__name__,
)
def test_operations_agree_with_those_on_wider_numbers(function, dtype):
    want = np.asarray(function(pnp.asarray(VALUES)))
    for call in (function, purax.jit(function)):
        got = call(pnp.asarray(VALUES.astype(dtype)))
        assert got.dtype == dtype
        np.testing.assert_array_equal(np.asarray(got).astype(np.float32), want.astype(dtype).astype(np.float32))
