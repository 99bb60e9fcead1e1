# SPDX-License-Identifier: Apache-2.0
"""Random keys are words: the laws hold for what their primitives do to the words; here, the quick way of the host."""

import numpy as np
import pytest

from purax import errors
from purax.pipeline.evaluate import as_array
from purax.primitives import random_bits
from purax.primitives.random_bits import rbg, threefry2x32, unsafe_rbg
from tests.laws.sample import BadSample, KeySample

RNG = np.random.default_rng(11)


def words(*shape):
    return RNG.integers(0, 1 << 32, shape, np.uint32)


def split(shape, partitionable=True):
    return {"shape": shape, "partitionable": partitionable, "impl": threefry2x32}


SAMPLES = [
    KeySample(random_bits.random_seed_p, (np.array([0, -5, 7], np.int32),), {"impl": threefry2x32}, keys=()),
    KeySample(random_bits.random_seed_p, (np.array(2, np.uint32),), {"impl": rbg}, keys=()),
    KeySample(random_bits.random_split_p, (words(2),), split((3,))),
    KeySample(random_bits.random_split_p, (words(4, 2),), split((2, 2))),
    KeySample(random_bits.random_split_p, (words(2),), split((3,), partitionable=False)),
    KeySample(random_bits.random_split_p, (words(3, 4),), {**split((2,)), "impl": rbg}),
    KeySample(random_bits.random_fold_in_p, (words(2), words()), {"impl": threefry2x32}),
    KeySample(random_bits.random_fold_in_p, (words(3, 4), words(3)), {"impl": rbg}),
    *[KeySample(random_bits.random_bits_p, (words(2),), {**split((5,)), "bit_width": width}) for width in (8, 16, 32)],
    KeySample(random_bits.random_bits_p, (words(3, 2),), {**split((2, 3)), "bit_width": 32}),
    KeySample(random_bits.random_bits_p, (words(2),), {**split((5,), partitionable=False), "bit_width": 32}),
    KeySample(random_bits.random_bits_p, (words(2),), {**split((0, 3)), "bit_width": 32}),
    KeySample(random_bits.random_wrap_p, (words(3, 2),), {"impl": threefry2x32}, keys=()),
    KeySample(random_bits.random_unwrap_p, (words(4),), {"impl": rbg}),
    KeySample(random_bits.random_clone_p, (words(2, 2),), {"impl": threefry2x32}),
]
BAD_SAMPLES = [
    BadSample(
        random_bits.random_wrap_p,
        (words(3),),
        {"impl": threefry2x32},
        errors.ShapeError,
        "end with axes (2,), got shape (3,)",
    ),
    BadSample(
        random_bits.random_wrap_p,
        (np.zeros(2, np.float32),),
        {"impl": threefry2x32},
        errors.DTypeError,
        "dtype uint32, got float32",
    ),
    BadSample(
        random_bits.random_split_p,
        (words(2),),
        split((3,)),
        errors.DTypeError,
        "are needed, got an array of dtype uint32",
    ),
]


QUICK = [s for s in SAMPLES if s.params["impl"] is threefry2x32 and s.params.get("partitionable", True)]


@pytest.mark.parametrize("sample", QUICK, ids=str)
def test_the_host_hashes_what_a_program_would(sample):
    outs = sample.apply(*[as_array(x) for x in sample.operands])
    for out, want in zip(outs, sample.reference(*sample.operands), strict=True):
        np.testing.assert_array_equal(out, want)


def test_kinds_of_keys_differ_in_their_words_only():
    assert {g.name: g.key_shape for g in (threefry2x32, rbg, unsafe_rbg)} == {
        "threefry2x32": (2,),
        "rbg": (4,),
        "unsafe_rbg": (4,),
    }
    with pytest.raises(ValueError, match="exists already"):
        random_bits.register(random_bits.Generator("rbg", "x", (4,), rbg.seed, rbg.split, rbg.fold_in, rbg.random_bits))
