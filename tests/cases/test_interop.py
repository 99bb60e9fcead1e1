# SPDX-License-Identifier: Apache-2.0
"""The border of compiled programs: traces, donated arguments, memory of the caller, other libraries' arrays."""

import numpy as np
import pytest

import purax
from purax import errors
from purax import numpy as pnp

# --- how often a function is traced (jax#3163) ----------------------------------------------------------------------------


def test_a_value_that_goes_round_through_a_jitted_function_is_traced_once():
    traces = []

    @purax.jit
    def advance(x, i):
        traces.append((x, i))
        return x + i

    x = 0
    for i in range(10):
        x = advance(x, i)
    assert int(x) == 45
    assert len(traces) == 1


def test_a_new_trace_is_made_for_a_new_type_only():
    traces = []

    @purax.jit
    def double(x):
        traces.append(x)
        return x * 2

    for value in (1.0, 2.0, pnp.asarray(3.0)):  # weakly typed scalars
        double(value)
    assert len(traces) == 1
    for value in (np.float32(1), pnp.float32(2), np.float64(3)):  # 64-bit data are narrowed first
        double(value)
    assert len(traces) == 2
    for value in (np.ones(2), pnp.ones(2)):
        double(value)
    assert len(traces) == 3


# --- an array that is given away (jax#9635) ---------------------------------------------------------------------------------


def test_one_array_as_two_arguments_of_which_one_is_donated_is_a_clear_error():
    add = purax.jit(lambda x, y: x + y, donate_argnums=0)
    x = pnp.ones(3)
    with pytest.raises(errors.DonationError, match="one array twice"):
        add(x, x)
    both = purax.jit(lambda x, y: (x + y, x - y), donate_argnums=(0, 1))
    with pytest.raises(errors.DonationError, match="one array twice"):
        both(x, x)
    of_tree = purax.jit(lambda d: (d["a"] + d["b"], d["a"] - d["b"]), donate_argnums=0)
    with pytest.raises(errors.DonationError, match="one array twice"):
        of_tree({"a": x, "b": x})
    np.testing.assert_array_equal(x, [1, 1, 1])  # nothing was given away
    np.testing.assert_array_equal(add(x, x.copy()), [2, 2, 2])


def test_a_donated_array_says_where_it_went():
    add = purax.jit(lambda x, y: x + y, donate_argnames="x")
    x = pnp.ones(3)
    add(x=x, y=2.0)
    with pytest.raises(RuntimeError, match="deleted"):
        x + 1


# --- memory of the caller (jax#37830) ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "take",
    [
        purax.device_put,
        pnp.array,
        pnp.asarray,
        purax.jit(lambda a: a + 0),
        purax.jit(lambda a: a),
        lambda a: pnp.zeros(a.size) + a,
        lambda a: purax.jit(lambda x: x + a)(0.0),
    ],
    ids=["device_put", "array", "asarray", "jit", "identity", "operand", "captured"],
)
def test_memory_of_the_caller_is_not_read_after_the_call(take):
    for _ in range(10):
        own = np.zeros(10**5, np.float32)
        taken = take(own)
        own[:] = 1
        np.testing.assert_array_equal(taken, 0)


def test_a_trace_takes_what_it_captures_at_once():
    own = np.zeros(3, np.float32)
    add = purax.jit(lambda x: x + own)
    np.testing.assert_array_equal(add(0.0), [0, 0, 0])
    own[:] = 1
    np.testing.assert_array_equal(add(0.0), [0, 0, 0])


# --- arrays of other libraries (jax#19352) ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int32", "float16", "float32", "complex64"])
def test_dlpack_goes_both_ways(dtype):
    values = np.array([0, 1, 1]).astype(dtype)
    taken = pnp.from_dlpack(values)
    assert taken.dtype == dtype
    np.testing.assert_array_equal(taken, values)
    np.testing.assert_array_equal(np.from_dlpack(taken), values)


@pytest.mark.parametrize("dtype", ["int64", "float64", "complex128"])
def test_dlpack_keeps_64_bits(dtype):
    assert pnp.from_dlpack(np.ones(2, dtype)).dtype == dtype


def test_dlpack_takes_any_layout_and_read_only_memory():
    frozen = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    frozen.flags.writeable = False
    for values in (frozen, frozen.T, frozen[:, ::2], frozen[:0], frozen[1, 1:2].reshape(())):
        np.testing.assert_array_equal(pnp.from_dlpack(values), values)
