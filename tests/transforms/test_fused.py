# SPDX-License-Identifier: Apache-2.0
"""Prepared rules of single primitives in eager derivatives give what the staged derivatives give, wherever they are used."""

import numpy as np
import pytest

import purax
import purax.numpy as jnp
from purax import lax

X = jnp.asarray([0.3, -1.2, 2.0])
Y = jnp.asarray([1.5, 0.4, -0.7])
M = jnp.asarray(np.arange(9.0).reshape(3, 3) / 9)

FUNCTIONS = {
    "identity": lambda x, y: x,
    "sum of products": lambda x, y: x * y + y,
    "a scalar inside": lambda x, y: 2.0 * x - y / 3.0,
    "no dependence on the second": lambda x, y: jnp.sin(x) * 2,
    "constant": lambda x, y: jnp.ones(3),
    "matrix products": lambda x, y: jnp.tanh(M @ x) @ M + y,
    "reductions": lambda x, y: jnp.max(x) + jnp.sum(y, keepdims=True) * jnp.mean(x),
    "two outputs, one used": lambda x, y: lax.sort_key_val(x, y)[1] ** 2,
    "selection": lambda x, y: jnp.where(x > y, x * y, jnp.sqrt(jnp.abs(y))),
    "complex inside": lambda x, y: jnp.abs(jnp.fft.fft(x + 1j * y)),
    "cumulative and indexing": lambda x, y: jnp.cumsum(x)[::-1] * y[jnp.asarray([2, 0, 1])],
    "casts": lambda x, y: (x.astype(jnp.float16) * y.astype(jnp.float16)).astype(jnp.float32),
    "python control flow": lambda x, y: x * y if x[0] > 0 else y,
}


def close(want, have, tolerance=1e-3):
    for a, b in zip(purax.tree.leaves(want), purax.tree.leaves(have), strict=True):
        assert a.shape == b.shape
        assert a.dtype == b.dtype
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=tolerance, atol=tolerance)


def staged(fun):
    """The function with an equation where Python would decide, so that it can be recorded."""
    return (lambda x, y: x * y) if fun is FUNCTIONS["python control flow"] else fun


@pytest.mark.parametrize("name", FUNCTIONS)
def test_pullbacks_agree_with_compiled_ones_eagerly_and_under_jit(name):
    fun = FUNCTIONS[name]
    out, pull = purax.vjp(fun, X, Y)
    want = purax.jit(lambda x, y, c: purax.vjp(staged(fun), x, y)[1](c))(X, Y, jnp.cos(out))
    close(want, pull(jnp.cos(out)))
    close(want, purax.jit(pull)(jnp.cos(out)))
    close(want, purax.jit(lambda pull, c: pull(c))(pull, jnp.cos(out)))
    lanes = purax.vmap(pull)(jnp.stack([out, jnp.cos(out)]))
    close(want, purax.tree.map(lambda c: c[1], lanes))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_pushforwards_agree_with_compiled_ones(name):
    fun = FUNCTIONS[name]
    want = purax.jit(lambda x, y, t, s: purax.jvp(staged(fun), (x, y), (t, s)))(X, Y, Y, X)
    close(want, purax.jvp(fun, (X, Y), (Y, X)))
    out, push = purax.linearize(fun, X, Y)
    close(want, (out, push(Y, X)))
    close(want[1], purax.jit(push)(Y, X))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives_of_eager_derivatives(name):
    fun = FUNCTIONS[name]
    loss = lambda x: jnp.sum(fun(x, Y) ** 2)
    recorded = lambda x: jnp.sum(staged(fun)(x, Y) ** 2)
    close(purax.jit(purax.hessian(recorded))(X), purax.hessian(loss)(X), 1e-2)
    close(purax.jit(purax.hessian(recorded))(X), purax.jacrev(purax.jacrev(loss))(X), 1e-2)


def test_a_value_of_an_ended_transformation_is_refused():
    kept = []
    purax.jit(lambda x: kept.append(x) or x)(X)
    for transformed in (
        purax.grad(lambda x: jnp.sum(x * kept[0])),
        lambda x: purax.jvp(lambda x: x * kept[0], (x,), (x,)),
    ):
        with pytest.raises(purax.errors.UnexpectedTracerError):
            transformed(X)


def test_operations_of_the_host_compile_nothing():
    with purax.events.listen() as seen:
        purax.grad(lambda x: (x * 3 + x - x * 7)[1].reshape(()))(jnp.arange(5.0) + 11)
    assert not [event for event in seen if isinstance(event, purax.events.Lowered)]
    with purax.events.listen() as seen:
        purax.grad(lambda x: jnp.sum(jnp.sin(x)))(jnp.ones((7, 1, 11, 3)))
    assert [event for event in seen if isinstance(event, purax.events.Lowered)]
