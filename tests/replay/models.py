# SPDX-License-Identifier: Apache-2.0
"""The corpus: small models of the kinds that people train, each a function and its operands."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

import purax
from purax import lax, linen, nn, optim, random, tree
from purax import numpy as pnp

__all__ = ["MODELS"]

MODELS: dict[str, Callable[[], tuple[Callable[..., Any], tuple[Any, ...]]]] = {}


def model(build: Callable[[], tuple[Callable[..., Any], tuple[Any, ...]]]) -> Any:
    """Put a program into the corpus, under its name."""
    MODELS[build.__name__] = build
    return build


def ones(*shape: int) -> np.ndarray:
    """Operands need shapes only: nothing is run."""
    return np.ones(shape, np.float32)


def labels(size: int) -> np.ndarray:
    """Classes, all 0."""
    return np.zeros(size, np.int32)


def cross_entropy(logits: Any, classes: Any) -> Any:
    """Mean cross entropy."""
    return optim.softmax_cross_entropy_with_integer_labels(logits, classes).mean()


def descend(loss: Callable[..., Any]) -> Callable[..., Any]:
    """One step of gradient descent."""

    def step(params: Any, *data: Any) -> Any:
        value, slopes = purax.value_and_grad(loss)(params, *data)
        return value, tree.map(lambda p, g: p - 0.1 * g, params, slopes)

    return step


@model
def mlp():
    def loss(params, x, y):
        for w, b in params[:-1]:
            x = nn.relu(x @ w + b)
        w, b = params[-1]
        return cross_entropy(x @ w + b, y)

    sizes = (16, 32, 32, 10)
    params = [(ones(m, n), ones(n)) for m, n in itertools.pairwise(sizes)]
    return descend(loss), (params, ones(8, 16), labels(8))


@model
def cnn():
    class Net(linen.Module):
        @linen.compact
        def __call__(self, x):
            for features in (8, 16):
                x = linen.relu(linen.Conv(features, (3, 3))(x))
                x = linen.max_pool(x, (2, 2), strides=(2, 2))
            return linen.Dense(10)(x.reshape(x.shape[0], -1))

    net = Net()
    shapes = purax.eval_shape(net.init, random.key(0), ones(4, 8, 8, 1))
    params = tree.map(lambda p: np.ones(p.shape, p.dtype), shapes)
    loss = lambda params, x, y: cross_entropy(net.apply(params, x), y)
    return descend(loss), (params, ones(4, 8, 8, 1), labels(4))


@model
def batch_norm():
    layer = linen.BatchNorm(use_running_average=False)
    variables = purax.eval_shape(layer.init, random.key(0), ones(8, 4))
    variables = tree.map(lambda p: np.ones(p.shape, p.dtype), variables)

    def loss(variables, x):
        y, moved = layer.apply(variables, x, mutable=["batch_stats"])
        return (y**2).sum(), moved

    return purax.grad(loss, has_aux=True), (variables, ones(8, 4))


def normalized(x: Any) -> Any:
    """Layer normalization without parameters."""
    return (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)


@model
def attention():
    def block(params, x):
        heads = lambda w: (normalized(x) @ w).reshape(*x.shape[:2], 2, -1)
        q, k, v = (heads(w) for w in params["qkv"])
        scores = pnp.einsum("bqhd,bkhd->bhqk", q, k) / np.float32(2.0)
        scores = pnp.where(pnp.tril(pnp.ones(scores.shape[-2:], bool)), scores, -np.inf)
        x = x + pnp.einsum("bhqk,bkhd->bqhd", nn.softmax(scores), v).reshape(x.shape) @ params["out"]
        return x + nn.gelu(normalized(x) @ params["up"]) @ params["down"]

    params = {"qkv": [ones(8, 8)] * 3, "out": ones(8, 8), "up": ones(8, 32), "down": ones(32, 8)}
    return descend(lambda params, x: purax.checkpoint(block)(params, x).sum()), (params, ones(2, 5, 8))


@model
def lstm():
    def cell(params, carry, x):
        c, h = carry
        gates = x @ params["x"] + h @ params["h"] + params["b"]
        i, f, g, o = pnp.split(gates, 4, axis=-1)
        c = nn.sigmoid(f + 1) * c + nn.sigmoid(i) * pnp.tanh(g)
        h = nn.sigmoid(o) * pnp.tanh(c)
        return (c, h), h

    def loss(params, xs):
        start = pnp.zeros((xs.shape[1], 8)), pnp.zeros((xs.shape[1], 8))
        return (lax.scan(lambda carry, x: cell(params, carry, x), start, xs)[1] ** 2).mean()

    params = {"x": ones(3, 32), "h": ones(8, 32), "b": ones(32)}
    return descend(loss), (params, ones(6, 4, 3))


@model
def adam_step():
    optimizer = optim.chain(optim.clip_by_global_norm(1.0), optim.adamw(optim.cosine_decay_schedule(1e-3, 100)))
    params = {"w": ones(8, 8), "b": ones(8)}
    state = purax.eval_shape(optimizer.init, params)
    state = tree.map(lambda s: np.ones(s.shape, s.dtype), state)

    def step(params, state, slopes):
        updates, state = optimizer.update(slopes, state, params)
        return optim.apply_updates(params, updates), state

    return step, (params, state, params)


@model
def newton_by_while():
    def root(a):
        def unfinished(state):
            x, steps = state
            return (abs(x * x - a) > 1e-6) & (steps < 50)

        return lax.while_loop(unfinished, lambda state: ((state[0] + a / state[0]) / 2, state[1] + 1), (a, 0))[0]

    return purax.vmap(root), (ones(4),)


@model
def branches():
    def function(which, x):
        return lax.switch(which, [pnp.sin, lambda x: x**3, lambda x: pnp.where(x > 0, pnp.log(x), x)], x).sum()

    return purax.value_and_grad(function, 1), (np.int32(1), ones(4))


@model
def gather_and_scatter():
    def loss(table, rows, x):
        picked = table[rows, ::-1]
        return ((table.at[rows].add(x) ** 2).sum() + picked.sum()) * pnp.take(table, rows, axis=0).max()

    return purax.grad(loss), (ones(5, 3), np.zeros(4, np.int32), ones(4, 3))


@model
def linear_algebra():
    def function(a, b):
        spd = a @ a.T + 5 * pnp.eye(3)
        return pnp.linalg.solve(spd, b).sum() + pnp.linalg.slogdet(spd)[1] + pnp.linalg.cholesky(spd).sum()

    return purax.grad(function), (ones(3, 3), ones(3))


@model
def second_order():
    function = lambda x: pnp.sum(pnp.tanh(x) ** 3 + pnp.sqrt(x))
    return purax.hessian(function), (ones(3),)


@model
def draws():
    def function(words):
        key = random.wrap_key_data(words)
        first, second = random.split(key)
        return random.normal(first, (4,)), random.permutation(second, 5), random.bernoulli(key, 0.3, (3,))

    return function, (np.zeros(2, np.uint32),)
