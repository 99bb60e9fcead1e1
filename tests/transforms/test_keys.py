# SPDX-License-Identifier: Apache-2.0
"""Arrays of random keys go wherever arrays go: each operation does to keys what it does to rows of words."""

import numpy as np
import pytest

import purax
from purax import lax, random
from purax import numpy as pnp
from purax.core.stage import stage
from purax.primitives.random_bits import random_bits_p
from purax.transforms.keys import physicalize


def keys(*shape):
    return random.split(random.key(0), shape)


def data(x):
    return np.asarray(random.key_data(x))


# Functions of an array of keys of shape (3, 2), written once for keys and once for their words.
MOVES = {
    "reshape": (lambda k: k.reshape(6), lambda w: w.reshape(6, 2)),
    "transpose": (lambda k: k.T, lambda w: w.transpose(1, 0, 2)),
    "element": (lambda k: k[1, 0], lambda w: w[1, 0]),
    "row": (lambda k: k[-1], lambda w: w[-1]),
    "slice": (lambda k: k[::2, 1:], lambda w: w[::2, 1:]),
    "new axis": (lambda k: k[:, None], lambda w: w[:, None]),
    "index array": (lambda k: k[np.array([2, 0])], lambda w: w[np.array([2, 0])]),
    "mask": (lambda k: k[np.array([True, False, True])], lambda w: w[np.array([True, False, True])]),
    "concatenate": (lambda k: pnp.concatenate([k, k], axis=1), lambda w: np.concatenate([w, w], axis=1)),
    "stack": (lambda k: pnp.stack([k, k[::-1]]), lambda w: np.stack([w, w[::-1]])),
    "where": (
        lambda k: pnp.where(np.array([True, False]), k, k[::-1]),
        lambda w: np.where(np.array([True, False])[None, :, None], w, w[::-1]),
    ),
    "broadcast": (lambda k: pnp.broadcast_to(k[0], (4, 2)), lambda w: np.broadcast_to(w[0], (4, 2, 2))),
    "squeeze": (lambda k: k[:1].squeeze(0), lambda w: w[0]),
    "take": (lambda k: pnp.take(k, np.array([1, 1]), axis=1), lambda w: np.take(w, [1, 1], axis=1)),
    "set": (lambda k: k.at[0].set(k[2]), lambda w: np.concatenate([w[2:], w[1:]])),
    "dynamic slice": (lambda k: lax.dynamic_slice(k, (1, 0), (2, 1)), lambda w: w[1:3, :1]),
    "dynamic update": (lambda k: lax.dynamic_update_slice(k, k[:1], (2, 0)), lambda w: np.concatenate([w[:2], w[:1]])),
}


@pytest.mark.parametrize("name", MOVES)
def test_keys_move_as_their_words_do(name):
    on_keys, on_words = MOVES[name]
    k = keys(3, 2)
    want = on_words(data(k))
    eager = on_keys(k)
    assert eager.dtype == k.dtype
    assert eager.shape == want.shape[:-1]
    np.testing.assert_array_equal(data(eager), want)
    np.testing.assert_array_equal(data(purax.jit(on_keys)(k)), want)
    mapped = purax.vmap(on_keys)(pnp.stack([k, k[::-1]]))
    np.testing.assert_array_equal(data(mapped[1]), on_words(data(k)[::-1]))


def test_keys_are_equal_where_all_their_words_are():
    k = keys(3)
    changed = k.at[1].set(random.key(9))
    np.testing.assert_array_equal(k == changed, [True, False, True])
    np.testing.assert_array_equal(purax.jit(lambda a, b: a != b)(k, changed), [False, True, False])
    assert random.key(1) == random.key(1)


def test_eager_moves_of_keys_compile_nothing():
    seen = []
    k = keys(4)
    with purax.events.listen(seen.append):
        _ = k[1], k.reshape(2, 2), random.split(k[0], 5), random.fold_in(k[2], 3), pnp.stack([k[0], k[3]]), tuple(k)
    assert not [e for e in seen if type(e).__name__ == "Compiled"]


def test_scan_over_keys_gives_each_step_its_own():
    k = keys(4)
    _, draws = lax.scan(lambda carry, key: (carry, random.uniform(key)), 0, k)
    np.testing.assert_array_equal(draws, [random.uniform(key) for key in k])
    _, lanes = lax.scan(lambda key, _: tuple(random.split(key)), random.key(5), length=3)
    assert len({tuple(row) for row in data(lanes).tolist()}) == 3


def test_loops_and_branches_carry_keys():
    def body(state):
        i, key = state
        return i + 1, random.fold_in(key, i)

    want = random.key(3)
    for i in range(3):
        want = random.fold_in(want, i)
    for run in (lambda f: f, purax.jit):
        _, got = run(lambda k: lax.while_loop(lambda s: s[0] < 3, body, (0, k)))(random.key(3))
        assert got == want
        chosen = run(lambda p, k: lax.cond(p, lambda k: random.split(k)[0], lambda k: k, k))
        assert chosen(False, random.key(3)) == random.key(3)
        assert chosen(True, random.key(3)) == random.split(random.key(3))[0]


def test_a_mapped_loop_over_keys_stops_lane_by_lane():
    def draw(key, n):
        return lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, random.fold_in(s[1], s[0])), (0, key))[1]

    k, counts = keys(3), np.array([0, 1, 3])
    want = [draw(key, n) for key, n in zip(k, counts.tolist(), strict=True)]
    np.testing.assert_array_equal(data(purax.vmap(draw)(k, counts)), [data(w) for w in want])


def test_derivatives_pass_keys_by():
    def loss(w, key):
        return (w * random.normal(key, w.shape)).sum()

    w, key = np.ones(3, np.float32), random.key(2)
    want = np.asarray(random.normal(key, (3,)))
    for f in (loss, purax.jit(loss), purax.checkpoint(loss)):
        np.testing.assert_allclose(purax.grad(f)(w, key), want, rtol=1e-6)
        np.testing.assert_allclose(purax.jit(purax.grad(f))(w, key), want, rtol=1e-6)
        np.testing.assert_allclose(purax.vmap(purax.grad(f), (None, 0))(w, key[None])[0], want, rtol=1e-6)
    with pytest.raises(TypeError, match="key<fry>"):
        purax.grad(loss, argnums=1)(w, key)


def test_keys_are_captured_by_compiled_functions():
    key = random.key(8)
    f = purax.jit(lambda x: x + random.uniform(key))
    np.testing.assert_array_equal(f(1.0), 1.0 + random.uniform(key))


def test_keys_are_leaves_of_trees():
    tree = {"rng": random.key(0), "step": 0}
    again = purax.jit(lambda t: {"rng": random.split(t["rng"])[0], "step": t["step"] + 1})(tree)
    assert again["rng"] == random.split(random.key(0))[0]
    assert again["step"] == 1


def test_a_program_over_words_has_no_keys_left():
    def f(key):
        key, inner = random.split(key)
        return lax.cond(True, lambda k: random.bits(k, (3,)), lambda k: random.bits(k, (3,)) + 1, inner), key

    closed = stage(lambda k: list(f(k)), [random.key(0).aval])
    assert closed.jaxpr.has_keys
    words = physicalize(closed.jaxpr)
    assert not words.has_keys
    assert not any(e.primitive is random_bits_p for e in words.eqns)
    assert physicalize(closed.jaxpr) is words
    assert [a.str_short() for a in words.in_avals] == ["uint32[2]"]


def test_equal_hashes_stand_once_in_a_program():
    f = purax.jit(lambda k: [random.bits(key, (7,)) for key in random.split(k, 4)])
    text = f.lower(random.key(0)).as_text()
    assert text.count("func.func private @threefry2x32") == 2  # one for splitting, one for drawing


def test_operations_without_meaning_for_keys_are_refused():
    with pytest.raises(TypeError):
        random.key(0) + 1
    with pytest.raises(TypeError, match="key"):
        pnp.sin(random.key(0))
    with pytest.raises(TypeError):
        pnp.argmax(keys(3))
