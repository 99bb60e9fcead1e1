# SPDX-License-Identifier: Apache-2.0
"""`vmap(..., chunk=N)`: the same values as without, in a loop."""

import numpy as np
import pytest

import purax
from purax import numpy as pnp

X = np.random.default_rng(0).standard_normal((7, 3)).astype(np.float32)


@pytest.mark.parametrize("chunk", [1, 2, 3, 7, 10])
def test_chunks_change_no_value_and_no_derivative(chunk):
    def fun(x, shared, *, scale):
        return {"sum": pnp.sin(x).sum() * shared, "rows": x * scale, "same": shared}

    out_axes = {"sum": 0, "rows": 1, "same": None}
    options = {"in_axes": (1, None), "out_axes": out_axes}
    whole, cut = (purax.vmap(fun, **options, **more) for more in ({}, {"chunk": chunk}))
    arguments, scale = (X.T, 2.0), np.arange(7.0, dtype=np.float32)
    want = whole(*arguments, scale=scale)
    for run in (cut, purax.jit(cut)):
        found = run(*arguments, scale=scale)
        for name in want:
            assert np.shape(found[name]) == np.shape(want[name])
            np.testing.assert_allclose(found[name], want[name], rtol=1e-6)
    loss = lambda mapped: lambda x, s: sum(pnp.sum(v) for v in mapped(x, s, scale=scale).values())
    for argnum in (0, 1):
        derivatives = [purax.grad(loss(mapped), argnum)(*arguments) for mapped in (whole, cut)]
        np.testing.assert_allclose(*derivatives, rtol=1e-5, atol=1e-6)


def test_memory_is_that_of_one_chunk():
    def temporary(**options):
        fun = purax.vmap(lambda r: pnp.sort(pnp.outer(r, r), axis=0).sum(), **options)
        return purax.jit(fun).lower(np.ones((64, 100), np.float32)).compile().memory_analysis().temp_size_in_bytes

    assert temporary(chunk=4) < temporary()


@pytest.mark.parametrize(
    ("options", "error", "part"),
    [
        ({"chunk": 0}, ValueError, "chunk"),
        ({"chunk": 2.0}, ValueError, "chunk"),
        ({"chunk": 2, "axis_name": "i"}, ValueError, "axis_name"),
        ({"chunk": 2, "out_axes": None}, ValueError, "out_axes"),
        ({"chunk": 2, "in_axes": 5}, ValueError, "rank"),
        ({"chunk": 2, "in_axes": None}, ValueError, "in_axes"),
        ({"chunk": 2, "in_axes": "a"}, TypeError, "in_axes"),
    ],
)
def test_wrong_uses_are_refused(options, error, part):
    with pytest.raises(error, match=part):
        purax.vmap(lambda x: x * 2, **options)(X)


def test_mapped_axes_of_different_sizes_are_refused():
    with pytest.raises(ValueError, match="inconsistent sizes"):
        purax.vmap(lambda x, y: x, chunk=2)(X, X[:3])
