# SPDX-License-Identifier: Apache-2.0
"""Generators that keep count of their draws."""

from __future__ import annotations

import numpy as np
import pytest

import purax
from purax import errors
from purax import random as keys
from purax.experimental.random import StatefulPRNG, stateful_rng
from purax.ref import new_ref


def test_draws_count_on_in_and_outside_of_programs():
    rng, other = stateful_rng(7), stateful_rng(7)
    draw = purax.jit(lambda rng: rng.uniform(size=2))
    mixed = [rng.uniform(size=2), draw(rng), draw(rng), rng.uniform(size=2)]
    np.testing.assert_array_equal(mixed, [other.uniform(size=2) for _ in range(4)])
    assert len(np.unique(np.asarray(mixed))) == 8
    assert int(rng._counter[...]) == 4


def test_draws_are_those_of_folded_keys():
    rng = stateful_rng(3, impl="philox4x32")
    assert keys.key_impl(rng.key()) == "philox4x32"
    wanted = keys.fold_in(keys.key(3, impl="philox4x32"), 1)
    np.testing.assert_array_equal(keys.key_data(rng.key()), keys.key_data(wanted))
    assert rng.key((2, 3)).shape == (2, 3)


@pytest.mark.parametrize("size", [None, 2, (5, 2)])
def test_shapes_dtypes_and_ranges(size):
    rng = stateful_rng(0)
    low, high = np.array([0, 1]), np.array([3, 5])
    sizes = (2,) if size is None else np.broadcast_shapes(size if isinstance(size, tuple) else (size,), (2,))
    uniform = np.asarray(rng.uniform(low, high, size, dtype="float16"))
    assert uniform.shape == sizes and uniform.dtype == np.float16
    assert ((uniform >= low) & (uniform < high)).all()
    integers = np.asarray(rng.integers(low, high, size, dtype="int8"))
    assert integers.shape == sizes and integers.dtype == np.int8
    assert ((integers >= low) & (integers < high)).all()
    assert rng.normal(low, 2, size).shape == sizes
    assert rng.random(4).shape == (4,)
    assert 0 <= int(rng.integers(3)) < 3


def test_normal_numbers_have_mean_and_deviation():
    drawn = np.asarray(stateful_rng(1).normal(3, 2, 20_000))
    np.testing.assert_allclose([drawn.mean(), drawn.std()], [3, 2], atol=0.05)


def test_children_are_independent_and_map():
    split = purax.vmap(lambda rng, x: x + rng.uniform())(stateful_rng(5).split(4), np.arange(4.0))
    spawned = [float(rng.uniform()) for rng in stateful_rng(5).spawn(4)]
    np.testing.assert_allclose(split, np.arange(4) + spawned, rtol=1e-6)
    assert len(set(spawned)) == 4
    with pytest.raises(errors.ShapeError, match="vmap"):
        stateful_rng(5).split(4).uniform()


def test_what_is_refused():
    with pytest.raises(ValueError, match="typed key"):
        StatefulPRNG(keys.PRNGKey(0), new_ref(0))
    with pytest.raises(ValueError, match="reference"):
        StatefulPRNG(keys.key(0), 0)
    with pytest.raises(TypeError, match="seed"):
        purax.jit(lambda: stateful_rng().uniform())()
    assert stateful_rng().uniform() != stateful_rng().uniform()
