# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from purax import numpy as pnp

RNG = np.random.default_rng(5)
I, J = RNG.integers(-99, 99, (3, 11)).astype(np.int32), RNG.integers(0, 9, (3, 11)).astype(np.int32)
U = RNG.integers(0, 255, (3, 5)).astype(np.uint8)


@pytest.mark.parametrize("name", "bitwise_and bitwise_or bitwise_xor left_shift right_shift".split())
def test_operations_on_bits_give_what_numpy_gives(name):
    np.testing.assert_array_equal(getattr(pnp, name)(I, J), getattr(np, name)(I, J))


def test_bits_are_flipped_and_counted():
    np.testing.assert_array_equal(pnp.invert(I), np.invert(I))
    np.testing.assert_array_equal(pnp.invert(I > 0), np.invert(I > 0))
    np.testing.assert_array_equal(pnp.bitwise_count(I), np.bitwise_count(I))


@pytest.mark.parametrize("order", ["big", "little"])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_bits_are_packed_and_unpacked(axis, order):
    np.testing.assert_array_equal(pnp.packbits(I > 0, axis, order), np.packbits(I > 0, axis, order))
    np.testing.assert_array_equal(pnp.unpackbits(U, axis, bitorder=order), np.unpackbits(U, axis, bitorder=order))
    for count in (3, -2, 50):
        np.testing.assert_array_equal(pnp.unpackbits(U, axis, count, order), np.unpackbits(U, axis, count, order))
