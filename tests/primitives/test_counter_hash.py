# SPDX-License-Identifier: Apache-2.0
"""Hashes of counters: the known answers that are published with Random123, and the generators made of them."""

from __future__ import annotations

import numpy as np
import pytest

import purax
from purax import errors, random
from purax.primitives.counter_hash import philox2x32_p, philox4x32_p, threefry4x32_p
from tests.laws.sample import BadSample, Sample

GENERATORS = {"threefry4x32": ("fry4", 4), "philox2x32": ("phx2", 1), "philox4x32": ("phx4", 2)}
ONES, PI = "ffffffff", "243f6a88 85a308d3 13198a2e 03707344 a4093822 299f31d0 082efa98 ec4e6c89"
ANSWERS = [  # primitive, counter and key words, result
    (threefry4x32_p, "00000000 " * 4, "00000000 " * 4, "9c6ca96a e17eae66 fc10ecd4 5256a7d8"),
    (threefry4x32_p, f"{ONES} " * 4, f"{ONES} " * 4, "2a881696 57012287 f6c7446e a16a6732"),
    (philox2x32_p, "00000000 " * 2, "00000000", "ff1dae59 6cd10df2"),
    (philox2x32_p, f"{ONES} " * 2, ONES, "2c3f628b ab4fd7ad"),
    (philox2x32_p, PI[:17], PI[18:26], "dd7ce038 f62a4c12"),
    (philox4x32_p, "00000000 " * 4, "00000000 " * 2, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    (philox4x32_p, f"{ONES} " * 4, f"{ONES} " * 2, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    (philox4x32_p, PI[:35], PI[36:53], "d16cfe09 94fdcceb 5001e420 24126ea1"),
]


def words(text):
    return [np.uint32(int(word, 16)) for word in text.split()]


def some(primitive):
    draw = np.random.default_rng(0)
    return tuple(draw.integers(0, 2**32, (2, 3), np.uint32) for _ in range(primitive.key_size + primitive.size))


SAMPLES = [Sample(p, some(p)) for p in (threefry4x32_p, philox2x32_p, philox4x32_p)]
BAD_SAMPLES = [
    BadSample(philox2x32_p, (np.zeros(2, np.uint32),) * 2, {}, errors.ShapeError, "1 words of a key and 2"),
    BadSample(philox2x32_p, (np.zeros(2, np.int32),) * 3, {}, errors.DTypeError, "uint32"),
    BadSample(
        philox2x32_p, (np.zeros(2, np.uint32), *[np.zeros(3, np.uint32)] * 2), {}, errors.ShapeError, "one shape"
    ),
]


@pytest.mark.parametrize("primitive, counter, key, answer", ANSWERS)
@pytest.mark.parametrize("transform", [lambda f: f, purax.jit])
def test_known_answers(primitive, counter, key, answer, transform):
    found = transform(primitive.bind)(*words(key), *words(counter))
    assert [int(x) for x in found] == [int(x) for x in words(answer)]


@pytest.mark.parametrize("name", GENERATORS)
def test_keys_of_each_generator(name):
    tag, size = GENERATORS[name]
    key = random.key(2**31 - 1, impl=name)
    assert str(key.dtype) == f"key<{tag}>"
    assert random.key_impl(key) == name
    made = random.key_data(random.split(key, (2, 3)))
    assert made.shape == (2, 3, size) and made.dtype == np.uint32
    assert len(np.unique(np.asarray(made).reshape(6, size), axis=0)) == 6
    folded = purax.vmap(lambda i: random.key_data(random.fold_in(key, i)))(np.arange(6))
    np.testing.assert_array_equal(folded, np.asarray(made).reshape(6, size))
    with purax.enable_x64(True):  # a seed of more than 32 bits counts in full
        high = random.key_data(random.key(2**40 + 5, impl=name))
        low = random.key_data(random.key(5, impl=name))
    assert (np.asarray(high) != np.asarray(low)).any()


@pytest.mark.parametrize("name", GENERATORS)
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64"])
def test_each_bit_is_set_half_of_the_time(name, dtype):
    drawn = random.bits(random.key(1, impl=name), (4000,), dtype)
    assert drawn.dtype == dtype
    width = np.dtype(dtype).itemsize * 8
    share = [float(((np.asarray(drawn) >> np.array(i, dtype)) & np.array(1, dtype)).mean()) for i in range(width)]
    np.testing.assert_allclose(share, 0.5, atol=0.04)


@pytest.mark.parametrize("name", GENERATORS)
def test_draws_under_jit_and_vmap_are_the_same(name):
    keys = random.split(random.key(3, impl=name), 4)
    one_by_one = np.stack([random.uniform(k, (5,)) for k in keys])
    np.testing.assert_array_equal(purax.vmap(lambda k: random.uniform(k, (5,)))(keys), one_by_one)
    np.testing.assert_array_equal(purax.jit(purax.vmap(lambda k: random.uniform(k, (5,))))(keys), one_by_one)
