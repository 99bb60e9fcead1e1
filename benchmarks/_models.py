# SPDX-License-Identifier: Apache-2.0
"""Training steps of ordinary size, by the public names that purax and JAX share: `MODELS[name](ns) -> (step, arguments)`."""

import itertools

import numpy as np


def weights(*shape):
    """Numbers scaled by the number of inputs, the same on each side."""
    scale = 1 / np.sqrt(np.prod(shape[:-1]))
    return (np.random.default_rng(np.prod(shape)).standard_normal(shape) * scale).astype(np.float32)


def descend(ns, loss, rate=0.01):
    """One step of gradient descent on a loss."""

    def step(params, *data):
        value, slopes = ns.root.value_and_grad(loss)(params, *data)
        return value, ns.tree.map(lambda p, g: p - rate * g, params, slopes)

    return step


def cross_entropy(ns, logits, labels):
    """Mean cross entropy of logits [n, classes] and labels [n]."""
    return -ns.np.mean(ns.np.take_along_axis(ns.nn.log_softmax(logits), labels[:, None], axis=-1))


def on_device(ns, *trees):
    """Arrays of the side."""
    return ns.tree.map(ns.np.asarray, trees)


def mlp(ns):
    """Three layers of 256 on 128 rows of 64 features."""

    def loss(params, x, y):
        for w, b in params[:-1]:
            x = ns.nn.relu(x @ w + b)
        w, b = params[-1]
        return cross_entropy(ns, x @ w + b, y)

    sizes = (64, 256, 256, 10)
    params = [(weights(m, n), np.zeros(n, np.float32)) for m, n in itertools.pairwise(sizes)]
    return descend(ns, loss), on_device(ns, params, weights(128, 64), np.arange(128, dtype=np.int32) % 10)


def cnn(ns):
    """Two convolutions and a dense layer on 64 images of 16 by 16."""

    def loss(params, x, y):
        for kernel in params[:-1]:
            x = ns.lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
            x = ns.lax.reduce_window(ns.nn.relu(x), -np.inf, ns.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        return cross_entropy(ns, x.reshape(x.shape[0], -1) @ params[-1], y)

    params = [weights(3, 3, 1, 16), weights(3, 3, 16, 32), weights(512, 10)]
    return descend(ns, loss), on_device(ns, params, weights(64, 16, 16, 1), np.arange(64, dtype=np.int32) % 10)


def gpt_block(ns):
    """Embedding, one block of attention and two dense layers, logits: 4 texts of 64 tokens, width 128, 4 heads."""
    width, heads, length = 128, 4, 64

    def normal(x):
        return (x - x.mean(-1, keepdims=True)) * ns.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)

    def loss(params, tokens):
        x = params["embed"][tokens[:, :-1]] + params["position"]
        q, k, v = ns.np.split((normal(x) @ params["qkv"]).reshape(*x.shape[:2], heads, -1), 3, axis=-1)
        scores = ns.np.einsum("bqhd,bkhd->bhqk", q, k) / np.float32(np.sqrt(width / heads))
        visible = np.tril(np.ones((length, length), bool))
        mixed = ns.np.einsum("bhqk,bkhd->bqhd", ns.nn.softmax(ns.np.where(visible, scores, -1e9)), v)
        x = x + mixed.reshape(x.shape) @ params["out"]
        x = x + ns.nn.gelu(normal(x) @ params["up"]) @ params["down"]
        logits = normal(x) @ params["embed"].T
        return cross_entropy(ns, logits.reshape(-1, logits.shape[-1]), tokens[:, 1:].reshape(-1))

    params = {
        "embed": weights(256, width), "position": weights(length, width), "qkv": weights(width, 3 * width),
        "out": weights(width, width), "up": weights(width, 4 * width), "down": weights(4 * width, width),
    }  # fmt: skip
    tokens = (np.arange(4 * (length + 1), dtype=np.int32).reshape(4, -1) * 7) % 256
    return descend(ns, loss), on_device(ns, params, tokens)


MODELS = {"mlp": mlp, "cnn": cnn, "gpt block": gpt_block}
