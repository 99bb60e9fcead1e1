# SPDX-License-Identifier: Apache-2.0
"""The platform's generator: its numbers are its own, their types and ranges are not."""

import numpy as np
import pytest

import purax
from purax import lax

STATE = np.array([1, 2, 3, 4], np.uint32)


@pytest.mark.parametrize("width", [8, 16, 32, 64])
def test_bits_fill_their_dtype_and_the_state_moves_on(width):
    state, bits = lax.rng_bit_generator(STATE, (1000,), f"uint{width}")
    assert (bits.dtype, bits.shape) == (np.dtype(f"uint{width}"), (1000,))
    ones = np.unpackbits(np.asarray(bits).view(np.uint8)).mean()
    assert abs(ones - 0.5) < 0.03
    assert not np.array_equal(state, STATE)
    np.testing.assert_array_equal(lax.rng_bit_generator(STATE, (1000,), f"uint{width}")[1], bits)


def test_algorithms_differ():
    drawn = [lax.rng_bit_generator(STATE, (4,), algorithm=a)[1] for a in lax.RandomAlgorithm]
    assert not np.array_equal(drawn[1], drawn[2])


def test_lanes_differ():
    states, bits = purax.vmap(lambda s: lax.rng_bit_generator(s, (5,)))(np.stack([STATE, STATE]))
    assert states.shape == (2, 4)
    assert not np.array_equal(bits[0], bits[1])


def test_uniform_numbers_stay_between_their_limits():
    drawn = np.asarray(purax.jit(lambda low: lax.rng_uniform(low, 3.0, (500,)))(1.0))
    assert 1 <= drawn.min() < 1.1 < 2.9 < drawn.max() < 3
    lanes = np.asarray(purax.vmap(lambda low: lax.rng_uniform(low, 3.0, (500,)))(np.float32([0, 2])))
    assert lanes[0].min() < 0.1
    assert 2 <= lanes[1].min() < lanes[1].max() < 3


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(TypeError, match="unsupported"):
        lax.rng_bit_generator(STATE, (2,), np.int32)
    with pytest.raises(TypeError, match="uint32"):
        lax.rng_bit_generator(STATE[:3], (2,))
