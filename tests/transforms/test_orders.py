# SPDX-License-Identifier: Apache-2.0
"""Derivatives, mapping and compilation in many orders, over functions with scan, cond, while and indexing.

Each letter turns a function from vectors to scalars into another one: J the directional derivative in forward mode, G the same
in reverse mode, V a weighted sum over lanes, C compilation. The oracle does the same with NumPy and finite differences.
"""

import itertools

import numpy as np
import pytest

import purax
from purax import enable_x64, lax
from purax import numpy as pnp

X = np.array([0.4, -0.7, 1.1])
FORWARD_DIRECTION = np.array([0.3, 1.0, -0.5])
REVERSE_DIRECTION = np.array([-0.8, 0.2, 0.6])
LANES = np.array([[1.0, 1.0, 1.0], [0.5, -1.0, 0.8], [1.2, 0.9, -0.6]])
WEIGHTS = np.array([0.7, -1.3, 0.4])
STEP = 1e-2


def looping(x):
    """A scan whose body has a cond, and indexing with repeated and traced indices."""
    picked = x[np.array([2, 0, 0, 1])] * x.at[1].multiply(2.0)[np.array([0, 1, 2, 2])]

    def body(carry, row):
        turned = lax.cond(row.sum() > 0.0, lambda r: pnp.sin(r).sum(), lambda r: (r * r * carry).sum(), row)
        carry = pnp.tanh(carry + turned)
        return carry, carry * row[0]

    last, rows = lax.scan(body, x[0], pnp.stack([picked, -picked, picked * x[1]]))
    return last * rows.sum() + lax.dynamic_index_in_dim(x, (x[0] > 0).astype(int), keepdims=False)


def looping_in_numpy(x):
    changed = x * np.array([1.0, 2.0, 1.0])
    picked = x[[2, 0, 0, 1]] * changed[[0, 1, 2, 2]]
    carry, rows = x[0], []
    for row in (picked, -picked, picked * x[1]):
        turned = np.sin(row).sum() if row.sum() > 0.0 else (row * row * carry).sum()
        carry = np.tanh(carry + turned)
        rows.append(carry * row[0])
    return carry * sum(rows) + x[int(x[0] > 0)]


def repeating(x):
    """A while loop, which has no reverse mode, and a fori_loop with a traced bound."""

    def more(state):
        return state[0] < 3.0

    def step(state):
        total, value = state
        return total + value**2 + 0.5, pnp.sin(value) + 0.1 * total

    total, value = lax.while_loop(more, step, (x[0] ** 2, x[2]))
    return lax.fori_loop(0, (x[0] > -9).astype(int) + 1, lambda i, v: v * x[1] + i, total * value)


def repeating_in_numpy(x):
    total, value = x[0] ** 2, x[2]
    while total < 3.0:
        total, value = total + value**2 + 0.5, np.sin(value) + 0.1 * total
    result = total * value
    for i in range(2):
        result = result * x[1] + i
    return result


OURS = {
    "J": lambda f: lambda x: purax.jvp(f, (x,), (pnp.asarray(FORWARD_DIRECTION),))[1],
    "G": lambda f: lambda x: (purax.grad(f)(x) * pnp.asarray(REVERSE_DIRECTION)).sum(),
    "V": lambda f: lambda x: (purax.vmap(f)(x * pnp.asarray(LANES)) * pnp.asarray(WEIGHTS)).sum(),
    "C": purax.jit,
}


def difference(f, direction):
    """Central differences of the fourth order."""
    d = STEP * direction
    return lambda x: (8 * (f(x + d) - f(x - d)) - (f(x + 2 * d) - f(x - 2 * d))) / (12 * STEP)


THEIRS = {
    "J": lambda f: difference(f, FORWARD_DIRECTION),
    "G": lambda f: difference(f, REVERSE_DIRECTION),
    "V": lambda f: lambda x: sum(w * f(x * lane) for w, lane in zip(WEIGHTS, LANES, strict=True)),
    "C": lambda f: f,
}

PAIRS = ["".join(p) for p in itertools.product("JGVC", repeat=2)]
TRIPLES = [
    "CGJ",
    "GCG",
    "VGC",
    "JVG",
    "GVJ",
    "CVG",
    "GGC",
    "VCG",
    "GCV",
    "GJC",
    "CJV",
    "VVG",
    "JJG",
    "VJC",
    "CGV",
    "GVV",
]


def applied(order, table, f):
    """Letters from right to left: the last one is innermost."""
    for letter in reversed(order):
        f = table[letter](f)
    return f


@pytest.mark.parametrize("order", [*"JGVC", *PAIRS, *TRIPLES])
def test_an_order_of_transformations_agrees_with_finite_differences(order):
    with enable_x64(True):
        found = applied(order, OURS, looping)(pnp.asarray(X))
    expected = applied(order, THEIRS, looping_in_numpy)(X)
    np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("order", ["J", "V", "C", "JJ", "JV", "VJ", "CJ", "JC", "VC", "CV", "JVC", "CJV", "VJJ"])
def test_an_order_over_a_while_loop_agrees_with_finite_differences(order):
    with enable_x64(True):
        found = applied(order, OURS, repeating)(pnp.asarray(X))
    expected = applied(order, THEIRS, repeating_in_numpy)(X)
    np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-5)


def test_many_functions_at_once_differentiate_as_each_alone():
    with enable_x64(True):
        both = purax.jit(purax.grad(lambda x: looping(x) + 2.0 * looping(2.0 * x)))(pnp.asarray(X))
        alone = purax.grad(looping)
        np.testing.assert_allclose(both, alone(pnp.asarray(X)) + 4.0 * alone(pnp.asarray(2 * X)), rtol=1e-10)
