# SPDX-License-Identifier: Apache-2.0
"""The Threefry hash: published answers, and one meaning on the host, in NumPy and compiled."""

import numpy as np
import pytest

from purax import errors
from purax.primitives.threefry import hash_on_host, threefry2x32_p, threefry_2x32
from tests.laws.sample import BadSample, Sample

RNG = np.random.default_rng(7)


def words(*shape):
    return RNG.integers(0, 1 << 32, shape, np.uint32)


SAMPLES = [
    Sample(threefry2x32_p, (words(), words(), words(5), words(5))),
    Sample(threefry2x32_p, (words(2, 3), words(2, 3), words(2, 3), words(2, 3))),
]
BAD_SAMPLES = [
    BadSample(threefry2x32_p, (words(), words(), words(5), words(4)), {}, errors.ShapeError, "one shape"),
    BadSample(threefry2x32_p, (words(), words(), words(5), np.zeros(5, np.int32)), {}, errors.DTypeError, "uint32"),
]


# The answers of Random123 for 20 rounds: key, counter, result.
@pytest.mark.parametrize(
    "key, counter, result",
    [
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
    ],
)
def test_published_answers(key, counter, result):
    k, x = np.array(key, np.uint32), np.array(counter, np.uint32)
    assert tuple(np.asarray(threefry_2x32(k, x)).tolist()) == result


@pytest.mark.parametrize("keys", [(), (1,), (2, 3)])
@pytest.mark.parametrize("count", [0, 1, 7])
def test_the_host_hashes_as_numpy_does(keys, count):
    given = words(*keys, 2)
    numbers = np.broadcast_to(np.arange(count, dtype=np.uint32), (*keys, count))
    first, second = (np.broadcast_to(given[..., i, None], numbers.shape) for i in (0, 1))
    want = np.stack(threefry2x32_p.reference(first, second, np.zeros_like(numbers), numbers), -1)
    np.testing.assert_array_equal(hash_on_host(given, count), want)


def test_the_host_hashes_one_number_per_key():
    keys, data = words(4, 2), words(4)
    want = np.stack(threefry2x32_p.reference(keys[:, 0], keys[:, 1], np.zeros_like(data), data), -1)
    np.testing.assert_array_equal(hash_on_host(keys, data), want)
    np.testing.assert_array_equal(hash_on_host(keys[0], data[0]), want[0])


def test_an_odd_number_of_counters_is_padded():
    key, count = words(2), np.arange(5, dtype=np.uint32)
    padded = np.append(count, np.uint32(0))
    want = np.concatenate(threefry2x32_p.reference(key[0], key[1], padded[:3], padded[3:]))[:5]
    np.testing.assert_array_equal(np.asarray(threefry_2x32(key, count)), want)


def test_other_dtypes_are_refused():
    with pytest.raises(TypeError, match="uint32"):
        threefry_2x32(words(2), np.arange(4))
