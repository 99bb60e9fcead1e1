# SPDX-License-Identifier: Apache-2.0
"""NumPy's meaning of integers, indices and narrow floats."""

import numpy as np
import pytest

import purax
from purax import errors, lax, random
from purax import numpy as pnp

# --- an integer divided by zero (jax#11990, jax#37819) ---------------------------------------------------------------

NUMBERS = np.array([0, 1, 2, -1], np.int32)


@pytest.mark.parametrize("zero", [0, np.int32(0), np.zeros(4, np.int32)], ids=["python", "scalar", "array"])
def test_an_integer_floor_divided_by_zero_is_zero(zero):
    def parts(n):
        return n // zero, n % zero, *pnp.divmod(n, zero)

    for part in (*parts(pnp.asarray(NUMBERS)), *purax.jit(parts)(NUMBERS)):
        np.testing.assert_array_equal(part, [0, 0, 0, 0])


def test_an_unsigned_integer_floor_divided_by_zero_is_zero_too():
    np.testing.assert_array_equal(pnp.array([0, 1, 255], "uint8") // pnp.uint8(0), [0, 0, 0])


def test_the_smallest_integer_over_minus_one_wraps_to_itself():
    np.testing.assert_array_equal(pnp.array([-(2**31), 5]) // -1, [-(2**31), -5])


# --- a float divided by zero (jax#37752) ------------------------------------------------------------------------------


def test_a_float_floor_divided_by_zero_is_infinite():
    np.testing.assert_array_equal(pnp.floor_divide(pnp.array([1.0, -1.0]), 0.0), [np.inf, -np.inf])
    np.testing.assert_array_equal(pnp.floor_divide(pnp.array([1.0, -1.0]), -0.0), [-np.inf, np.inf])
    assert np.isnan(pnp.floor_divide(0.0, 0.0))
    assert np.isnan(pnp.array([1.0]) % 0.0).all()


# --- a constant index out of bounds (jax#11277) -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "read",
    [
        lambda x: x[10],
        lambda x: x[-4],
        lambda x: x[np.array([0, 3])],
        lambda x: x.at[3].set(1),
        lambda x: x.at[-4].add(1),
        lambda x: x.at[np.array([0, 7])].get(),
        lambda x: pnp.take(x, np.array([0, 5])),
    ],
    ids=["int", "negative", "numpy", "set", "add", "get", "take"],
)
def test_an_index_that_is_out_of_bounds_for_all_to_see_raises(read):
    with pytest.raises(IndexError, match="out of bounds for axis 0 with size 3"):
        read(pnp.arange(3))
    with pytest.raises(IndexError, match="out of bounds for axis 0 with size 3"):
        purax.jit(read)(pnp.arange(3))


def test_an_index_that_lies_on_the_device_follows_the_mode():
    x, far = pnp.arange(3), pnp.array(7)
    assert int(x[far]) == 2
    np.testing.assert_array_equal(x.at[far].set(9), [0, 1, 2])
    assert int(x.at[far].get(mode="fill", fill_value=-5)) == -5
    assert int(x.at[7].get(mode="clip")) == 2  # asked for by name, also for a constant


# --- rows by negative index (jax#5766) ---------------------------------------------------------------------------------


@pytest.mark.parametrize("array", [np.array, pnp.array], ids=["numpy", "device"])
def test_take_counts_negative_indices_from_the_end(array):
    table = pnp.array([[1, 2], [3, 4], [5, 6]])
    np.testing.assert_array_equal(pnp.take(table, array([0, -1]), axis=0), [[1, 2], [5, 6]])
    np.testing.assert_array_equal(table[array([0, -1])], [[1, 2], [5, 6]])
    np.testing.assert_array_equal(pnp.take_along_axis(table, array([[-1], [0], [-2]]), axis=1), [[2], [3], [5]])


# --- Python integers that do not fit (jax#3840, jax#2006, jax#1218; NumPy 2 for the others) ------------------------------


@pytest.mark.parametrize(
    "use",
    [
        lambda: lax.neg(1 << 32),
        lambda: pnp.negative(1 << 32),
        lambda: random.randint(random.key(0), (3,), 0, 2**31),
        lambda: lax.fori_loop(0, 10**14, lambda i, c: c + 1, 0),
        lambda: purax.jit(lambda n: n + 1)(2**31),
    ],
    ids=["neg", "negative", "randint", "fori_loop", "jit"],
)
def test_a_python_integer_beyond_the_default_dtype_raises(use):
    with pytest.raises(OverflowError):
        use()


@pytest.mark.parametrize(
    "use",
    [
        lambda x: x + 300,
        lambda x: x - 129,
        lambda x: 300 * x,
        lambda x: x.at[0].set(300),
        lambda x: pnp.where(True, x, 300),
        lambda x: pnp.full_like(x, 300),
    ],
    ids=["add", "sub", "mul", "set", "where", "full_like"],
)
def test_a_python_integer_beyond_the_dtype_of_the_array_raises(use):
    small = pnp.ones(2, "int8")
    for call in (use, purax.jit(use)):
        with pytest.raises(OverflowError, match="int8"):
            call(small)


def test_a_negative_python_integer_does_not_fit_an_unsigned_array():
    with pytest.raises(OverflowError, match="uint8"):
        pnp.array([1], "uint8") + (-1)


def test_comparisons_with_integers_that_do_not_fit_are_exact():
    small = pnp.array([-128, 127], "int8")
    np.testing.assert_array_equal(small < 300, [True, True])
    np.testing.assert_array_equal(small == 300, [False, False])
    np.testing.assert_array_equal(pnp.array([0], "uint8") > -1, [True])


def test_a_python_float_that_does_not_fit_is_infinite_as_in_numpy():
    assert np.isinf(pnp.float16(1) + 1e6)


# --- statistics of half-precision numbers (numpy#23075, numpy#21941; jax PR#17792) ---------------------------------------


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_means_of_half_precision_numbers_are_summed_wider(dtype):
    tolerance = 2e-3 if dtype == "float16" else 8e-3
    tiny = pnp.mean(pnp.full((2**20,), 1e-5, dtype))
    np.testing.assert_allclose(np.float64(tiny), 1e-5, rtol=10 * tolerance)
    large = pnp.full((4350,), 300.0, dtype)
    weights = pnp.ones(4350, dtype)
    for value in (pnp.mean(large), pnp.nanmean(large), pnp.average(large), pnp.average(large, weights=weights)):
        assert value.dtype == dtype
        np.testing.assert_allclose(np.float64(value), 300, rtol=tolerance)


def test_variances_of_half_precision_numbers_are_summed_wider():
    numbers = np.random.default_rng(0).standard_normal(10**5).astype(np.float16)
    for variance in (pnp.var, pnp.nanvar, pnp.std, pnp.nanstd):
        np.testing.assert_allclose(np.float64(variance(numbers)), 1.0, rtol=2e-2)


# --- weak types through jit and Python's functions (jax PR#4682, jax PR#4744) ----------------------------------------------


@pytest.mark.parametrize(
    ("function", "operands", "dtype"),
    [
        (lambda x, y: x + abs(y), (np.ones(2, np.float16), 1.0), "float16"),
        (lambda x, y: x * -y, (np.ones(2, np.int8), 2), "int8"),
        (lambda x, y: x * round(y), (np.ones(2, np.float16), 1.5), "float16"),
        (lambda x, y: x + y, (np.float32(1), 1j), "complex64"),
        (lambda x, y: x * y, (np.ones(2, np.int8), 2.0), "float32"),
        (lambda x, y: pnp.where(x > 0, x, y), (np.ones(2, np.float16), 0.0), "float16"),
    ],
    ids=["abs", "neg", "round", "complex", "kind", "where"],
)
def test_a_python_scalar_takes_the_dtype_of_the_array_under_jit_too(function, operands, dtype):
    assert function(pnp.asarray(operands[0]), operands[1]).dtype == dtype
    assert purax.jit(function)(*operands).dtype == dtype


def test_the_overflow_error_says_what_does_not_fit():
    with pytest.raises(errors.IntegerOverflowError, match="300 is out of bounds for int8"):
        pnp.int8(1) + 300
