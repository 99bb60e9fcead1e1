# SPDX-License-Identifier: Apache-2.0
"""Logic and bits: samples for the laws, and values against Python's integers."""

import ml_dtypes
import numpy as np
import pytest

import purax
from purax import config, dtypes, errors
from purax.primitives import bits, comparison, elementwise
from tests.laws.sample import BadSample, Sample

INTS = np.array([[5, -7, 0], [2**31 - 1, -(2**31), -1]], np.int32)
MORE = np.array([[3, 1, 31], [32, -1, 33]], np.int32)
BYTES = np.array([0, 3, 200, 255], np.uint8)
FLAGS = np.array([[True, False], [True, True]])
NIBBLES = np.array([-8, -1, 3, 7]).astype(ml_dtypes.int4)
EMPTY = np.zeros((0, 2), np.int32)
LOGIC = [bits.and_p, bits.or_p, bits.xor_p]
SHIFTS = [bits.shift_left_p, bits.shift_right_logical_p, bits.shift_right_arithmetic_p]

SAMPLES = [
    *(Sample(p, (x, y)) for p in LOGIC for x, y in ((INTS, MORE), (BYTES, BYTES[::-1].copy()), (FLAGS, FLAGS.T.copy()), (EMPTY, EMPTY))),
    *(Sample(bits.not_p, (x,)) for x in (INTS, BYTES, FLAGS)),
    *(Sample(p, (x, y)) for p in SHIFTS for x, y in ((INTS, MORE), (BYTES, np.array([0, 1, 7, 8], np.uint8)))),
    *(Sample(p, (x,)) for p in (bits.population_count_p, bits.clz_p) for x in (INTS, BYTES, EMPTY, INTS[0, 0].reshape(()))),
    *(Sample(comparison.nonzero_divisor_p, (x,)) for x in (INTS, BYTES, EMPTY, np.zeros((), np.int32))),
    *(Sample(bits.mulhi_p, (x, y)) for x, y in ((INTS, MORE), (BYTES, BYTES[::-1].copy()))),
]  # fmt: skip
BAD_SAMPLES = [
    BadSample(bits.and_p, (INTS, INTS > 0), {}, errors.DTypeError, "int32 and bool"),
    BadSample(bits.or_p, (INTS, MORE[:1]), {}, errors.ShapeError, "must be equal"),
    BadSample(bits.not_p, (INTS.astype(np.float32),), {}, errors.DTypeError, "float32; bool or integer"),
    BadSample(bits.shift_left_p, (FLAGS, FLAGS), {}, errors.DTypeError, "bool; integer"),
    BadSample(comparison.nonzero_divisor_p, (INTS.astype(np.float32),), {}, errors.DTypeError, "float32; integer"),
    BadSample(bits.clz_p, (FLAGS,), {}, errors.DTypeError, "bool"),
]

DTYPES = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]


def numbers(dtype):
    """Edges of the dtype, and some between."""
    limits = np.iinfo(dtype)
    return np.array([0, 1, 2, 3, 100, limits.max, limits.max - 1, limits.min, limits.min + 1, limits.max // 3], dtype)


def wrapped(value, dtype):
    """A Python integer in the dtype."""
    width = np.iinfo(dtype).bits
    value &= (1 << width) - 1
    return value - (1 << width) if dtype.startswith("int") and value >> (width - 1) else value


@pytest.mark.parametrize("dtype", DTYPES)
def test_shifts_by_any_amount_are_those_of_wide_integers(dtype):
    config.update("enable_x64", True)
    width = np.iinfo(dtype).bits
    x, y = (
        a.ravel() for a in np.meshgrid(numbers(dtype), np.array([0, 1, 5, width - 1, width, width + 1, 100], dtype))
    )
    mask = (1 << width) - 1
    shift = purax.jit(
        lambda a, b: (bits.shift_left(a, b), bits.shift_right_logical(a, b), bits.shift_right_arithmetic(a, b))
    )
    left, logical, arithmetic = (np.asarray(v).tolist() for v in shift(x, y))
    signed = [wrapped(v, f"int{width}") for v in x.tolist()]
    amounts = [min(s, 2 * width) for s in y.tolist()]
    assert left == [wrapped(v << s, dtype) for v, s in zip(x.tolist(), amounts, strict=True)]
    assert logical == [wrapped((v & mask) >> s, dtype) for v, s in zip(x.tolist(), amounts, strict=True)]
    assert arithmetic == [wrapped(v >> s, dtype) for v, s in zip(signed, amounts, strict=True)]


@pytest.mark.parametrize("dtype", DTYPES)
def test_counts_and_high_products_are_those_of_wide_integers(dtype):
    config.update("enable_x64", True)
    width = np.iinfo(dtype).bits
    x, y = (a.ravel() for a in np.meshgrid(numbers(dtype), numbers(dtype)))
    unsigned = [v & ((1 << width) - 1) for v in x.tolist()]
    run = purax.jit(lambda a, b: (bits.population_count(a), bits.clz(a), bits.mulhi(a, b)))
    count, zeros, high = (np.asarray(v).tolist() for v in run(x, y))
    assert count == [v.bit_count() for v in unsigned]
    assert zeros == [width - v.bit_length() for v in unsigned]
    assert high == [(v * w) >> width for v, w in zip(x.tolist(), y.tolist(), strict=True)]


@pytest.mark.parametrize("primitive", [*SHIFTS, bits.mulhi_p, bits.population_count_p, bits.clz_p], ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_reference_is_what_the_compiler_computes(primitive, dtype):
    config.update("enable_x64", True)
    pair = [a.ravel() for a in np.meshgrid(numbers(dtype), numbers(dtype))][: len(primitive.accepts)]
    np.testing.assert_array_equal(primitive.reference(*pair)[0], primitive.bind1(*pair))


def test_logic_works_on_bools_and_small_integers():
    np.testing.assert_array_equal(bits.bitwise_not(FLAGS), ~FLAGS)
    np.testing.assert_array_equal(bits.bitwise_and(BYTES, 0x0F), BYTES & 0x0F)
    got = np.asarray(bits.bitwise_xor(NIBBLES, NIBBLES[::-1].copy())).astype(int)
    np.testing.assert_array_equal(got, NIBBLES.astype(int) ^ NIBBLES[::-1].astype(int))
    assert dtypes.itemsize_bits(bits.bitwise_or(NIBBLES, NIBBLES).dtype) == 4
    for x in (NIBBLES, np.array([0, 1, 15]).astype(ml_dtypes.uint4)):
        for primitive in (bits.not_p, elementwise.neg_p):
            np.testing.assert_array_equal(
                primitive.reference(x)[0].astype(int), np.asarray(primitive.bind1(x)).astype(int)
            )
