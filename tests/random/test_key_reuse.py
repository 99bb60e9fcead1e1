# SPDX-License-Identifier: Apache-2.0
"""`debug_key_reuse`: which programs spend a key twice, and which only seem to."""

from __future__ import annotations

import numpy as np
import pytest

import purax
from purax import errors, lax, random


def twice(key):
    return random.uniform(key) + random.normal(key)


def drawn_after_split(key):
    random.split(key)
    return random.uniform(key)


def two_splits(key):
    return random.uniform(random.split(key)[0]) + random.uniform(random.split(key)[1])


def same_part(key):
    parts = random.split(key, 3)
    return random.uniform(parts[1]) + random.uniform(parts[1:][0])


def array_and_part(key):
    parts = random.split(key, 3)
    return purax.vmap(random.uniform)(parts).sum() + random.uniform(parts[2])


def reshaped(key):
    return random.uniform(key) + random.uniform(key.reshape(1)[0])


def in_a_program(key):
    draw = purax.jit(random.uniform)
    return draw(key) + draw(key)


def captured(key):
    draw = purax.jit(lambda: random.uniform(key))
    return draw() + draw()


def in_each_round(key):
    return lax.scan(lambda c, x: (c + random.uniform(key), x), 0.0, np.arange(3))[0]


def carried_along(key):
    return lax.while_loop(lambda c: c[1] < 2, lambda c: (c[0], c[1] + random.uniform(c[0])), (key, 0.0))[1]


def in_the_condition(key):
    return lax.while_loop(lambda c: c < random.uniform(key), lambda c: c + 1, 0.0)


def in_one_branch(key):
    chosen = lax.cond(random.uniform(random.clone(key)) < 2, random.uniform, lambda _: 0.0, key)
    return chosen + random.uniform(key)


def of_gamma(key):
    return random.gamma(key, 2.0) + random.gamma(key, 3.0)


BAD = [
    twice, drawn_after_split, two_splits, same_part, array_and_part, reshaped, in_a_program, captured, in_each_round, carried_along,
    in_the_condition, in_one_branch, of_gamma,
]  # fmt: skip


def parts(key):
    a, b = random.split(key)
    return random.uniform(a) + random.uniform(b)


def folded(key):
    return sum(random.uniform(random.fold_in(key, i)) for i in range(3)) + random.uniform(key)


def cloned(key):
    return random.uniform(random.clone(key)) + random.uniform(key)


def mapped(key):
    return purax.vmap(random.normal)(random.split(key, 3)).sum()


def chained(key):
    def step(key, _):
        key, part = random.split(key)
        return key, random.uniform(part)

    return lax.scan(step, key, None, length=4)[1].sum()


def over_keys(key):
    return lax.map(random.uniform, random.split(key, 5)).sum()


def each_branch(key):
    return lax.cond(key == key, random.uniform, random.normal, key)


def one_of_gamma_for_many(key):
    return purax.vmap(random.gamma, (None, 0))(key, np.arange(1.0, 4.0)).sum()


def differentiated(key):
    return purax.grad(lambda x: x * random.uniform(key))(1.0)


def only_looked_at(key):
    random.key_data(key)
    return random.uniform(key)


GOOD = [
    parts,
    folded,
    cloned,
    mapped,
    chained,
    over_keys,
    each_branch,
    one_of_gamma_for_many,
    differentiated,
    only_looked_at,
]


@pytest.mark.parametrize("function", BAD)
@pytest.mark.parametrize("transform", [lambda f: f, purax.jit])
def test_a_key_that_is_spent_twice(function, transform):
    transform(function)(random.key(0))  # without the setting nothing is said
    with purax.debug_key_reuse(True), pytest.raises(errors.KeyReuseError, match="spent before"):
        transform(function)(random.key(0))


@pytest.mark.parametrize("function", GOOD)
@pytest.mark.parametrize("transform", [lambda f: f, purax.jit])
def test_keys_that_are_spent_once(function, transform):
    with purax.debug_key_reuse(True):
        transform(function)(random.key(0))


def test_a_key_is_remembered_between_calls():
    key, draw = random.key(0), purax.jit(random.uniform)
    with purax.debug_key_reuse(True):
        draw(key)
        with pytest.raises(errors.KeyReuseError):
            draw(key)
        draw(random.key(0))  # the same words, made anew: another key
    draw(key)


def test_keys_in_results_keep_their_history():
    with purax.debug_key_reuse(True):
        key = random.key(0)
        kept, _ = purax.jit(lambda k: (k, random.uniform(k)))(key)
        with pytest.raises(errors.KeyReuseError):
            random.uniform(kept)
        first, second = purax.jit(random.split)(random.key(1))
        random.uniform(first)
        random.uniform(second)


def test_raw_words_are_not_followed():
    with purax.debug_key_reuse(True):
        words = random.PRNGKey(0)
        assert random.uniform(words) == random.uniform(words)
