# SPDX-License-Identifier: Apache-2.0
"""Keys as users see them: how they are made, shown, split, and refused."""

import copy
import pickle

import numpy as np
import pytest

import purax
from purax import config, dtypes, random


def test_a_key_has_a_dtype_of_its_own():
    key = random.key(7)
    assert key.shape == ()
    assert str(key.dtype) == "key<fry>"
    assert key.dtype == random.key_dtype()
    assert dtypes.issubdtype(key.dtype, dtypes.prng_key)
    assert repr(key) == "Array((), dtype=key<fry>) overlaying:\n[0 7]"
    assert random.key_impl(key) == "threefry2x32"
    np.testing.assert_array_equal(random.key_data(key), np.array([0, 7], np.uint32))


def test_raw_and_typed_keys_draw_the_same():
    raw, typed = random.PRNGKey(3), random.key(3)
    assert raw.dtype == np.uint32
    assert raw.shape == (2,)
    np.testing.assert_array_equal(random.uniform(raw, (4,)), random.uniform(typed, (4,)))
    np.testing.assert_array_equal(random.split(raw, 3), random.key_data(random.split(typed, 3)))
    np.testing.assert_array_equal(random.fold_in(raw, 5), random.key_data(random.fold_in(typed, 5)))
    assert random.wrap_key_data(raw) == typed
    assert (random.clone(raw) == raw).all()
    assert random.clone(typed) == typed


def test_split_gives_an_array_of_keys():
    keys = random.split(random.key(0), (2, 3))
    assert keys.shape == (2, 3)
    first, second = random.split(random.key(0))
    assert not first == second
    assert len(list(keys)) == 2
    assert keys[1, 2] == random.split(random.key(0), 6).reshape(2, 3)[1, 2]


def test_folding_in_a_number_equals_splitting_at_it():
    key = random.key(72)
    for i, part in enumerate(random.split(key, 3)):
        assert random.fold_in(key, i) == part


def test_seeds_are_taken_modulo_two_to_the_32():
    np.testing.assert_array_equal(random.key_data(random.key(-1)), np.array([0, 0xFFFFFFFF], np.uint32))
    config.update("enable_x64", True)
    np.testing.assert_array_equal(random.key_data(random.key((1 << 40) + 3)), np.array([1 << 8, 3], np.uint32))
    with pytest.raises(OverflowError):
        random.key(1 << 64)


def test_seeds_may_be_traced_and_mapped():
    seeds = np.arange(3)
    mapped = purax.vmap(random.key)(seeds)
    assert (mapped == purax.jit(purax.vmap(random.key))(seeds)).all()
    assert mapped[2] == random.key(2)


@pytest.mark.parametrize("impl", ["rbg", "unsafe_rbg"])
def test_other_generators_have_keys_of_four_words(impl):
    key = random.key(1, impl=impl)
    assert random.key_data(key).shape == (4,)
    assert random.key_impl(key) == impl
    draws = random.uniform(random.split(key)[0], (1000,))
    assert 0 <= float(draws.min()) < 0.02 < 0.98 < float(draws.max()) < 1
    config.update("default_prng_impl", impl)
    assert random.key(1) == key
    assert random.PRNGKey(1).shape == (4,)


def test_what_is_no_key_is_refused():
    with pytest.raises(TypeError, match="key"):
        random.uniform([0, 1])
    with pytest.raises(TypeError, match="shape"):
        random.uniform(np.zeros(3, np.uint32))
    with pytest.raises(TypeError, match="uint32"):
        random.uniform(np.zeros(2, np.float32))
    with pytest.raises(ValueError, match="vmap"):
        random.uniform(random.split(random.key(0)))
    with pytest.raises(TypeError, match="integer"):
        random.key(1.5)
    with pytest.raises(TypeError, match="vmap"):
        random.key(np.arange(2))
    with pytest.raises(TypeError, match="was given a key"):
        random.key(random.key(0))
    with pytest.raises(ValueError, match="unrecognized"):
        random.key(0, impl="mersenne")
    with pytest.raises(TypeError, match="vmap"):
        random.fold_in(random.key(0), np.arange(2))
    with pytest.raises(TypeError, match="key_data"):
        np.asarray(random.key(0))


def test_keys_can_be_copied_and_pickled():
    key = random.split(random.key(4))
    for again in (copy.copy(key), copy.deepcopy(key), pickle.loads(pickle.dumps(key))):
        assert again.dtype == key.dtype
        assert (again == key).all()


def test_bits_do_not_depend_on_how_they_are_made():
    key = random.key(11)
    for width in (8, 16, 32):
        few, many = random.bits(key, (9,), f"uint{width}"), random.bits(key, (900,), f"uint{width}")
        np.testing.assert_array_equal(few, many[:9])  # on the host, and compiled
        np.testing.assert_array_equal(few, purax.jit(lambda k, w=width: random.bits(k, (9,), f"uint{w}"))(key))


def test_arrays_of_keys_are_reshaped_again_and_again():
    for _ in range(2):
        assert random.split(random.key(0), 4).reshape(2, 2).shape == (2, 2)
