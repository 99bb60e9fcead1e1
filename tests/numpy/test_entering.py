# SPDX-License-Identifier: Apache-2.0
"""What NumPy's values become when they enter: one rule for each way in."""

import numpy as np
import pytest

import purax
from purax import errors, lax
from purax import numpy as pnp

WAYS_IN = {
    "asarray": pnp.asarray,
    "array": pnp.array,
    "array of a list": lambda x: pnp.array([x, x])[0],
    "array with a dtype": lambda x: pnp.array(x, np.float32),
    "device_put": purax.device_put,
    "function": lambda x: pnp.add(x, 0),
    "operator": lambda x: pnp.zeros(3) + x,
    "reflected operator": lambda x: x + pnp.zeros(3),
    "lax": lambda x: lax.add(x, x) / 2,
    "jit": lambda x: purax.jit(lambda y: y)(x),
    "jit, twice": lambda x: [purax.jit(lambda y: y)(x) for _ in range(2)][1],
    "captured": lambda x: purax.jit(lambda: pnp.asarray(x))(),
    "vmap": lambda x: purax.vmap(lambda y: y + 0)(x),
    "scan": lambda x: lax.scan(lambda c, y: (c, y), 0, x)[1],
    "stack": lambda x: pnp.stack([x, x])[0],
    "where": lambda x: pnp.where(True, x, 0),
    "update": lambda x: pnp.zeros(3).at[:].set(x),
    "full": lambda x: pnp.full(3, x),
    "from_callback": lambda x: purax.make_array_from_callback((3,), pnp.ones(3).sharding, lambda index: x[index]),
    "from_local_data": lambda x: purax.make_array_from_process_local_data(pnp.ones(3).sharding, x),
}


@pytest.mark.parametrize("way", WAYS_IN.values(), ids=WAYS_IN)
@pytest.mark.parametrize("dtype", [">f4", ">f8", ">i2"])
def test_data_in_the_other_byte_order_are_their_values_wherever_they_enter(way, dtype):
    found = way(np.array([1, 2, 300], dtype))
    assert found.dtype.isnative
    assert found.tolist() == [1, 2, 300]


@pytest.mark.parametrize("way", WAYS_IN.values(), ids=WAYS_IN)
def test_a_masked_array_raises_wherever_it_enters(way):
    with pytest.raises(errors.MaskedArrayError, match=r"shape \(3,\) and dtype float32.*\n.*\n.*filled"):
        way(np.ma.masked_array(np.float32([1, 2, 3]), [0, 1, 0]))


def test_a_masked_index_raises():
    places = np.ma.masked_array([0, 1, 2], [0, 1, 0])
    for read in (lambda: pnp.arange(3)[places], lambda: pnp.arange(3).at[places].get(), lambda: pnp.arange(3)[places[1]],
                 lambda: pnp.take(pnp.arange(3), places), lambda: pnp.arange(3)[([places],)]):  # fmt: skip
        with pytest.raises(errors.MaskedArrayError):
            read()


def test_indices_in_the_other_byte_order_mean_their_values():
    assert pnp.arange(300)[np.array([299, 1], ">i4")].tolist() == [299, 1]
    assert pnp.take(pnp.arange(300), np.array([299, 1], ">i4")).tolist() == [299, 1]


def test_dtypes_are_named_in_any_byte_order_and_are_those_of_the_machine():
    assert pnp.zeros(2, ">f4").dtype == pnp.ones(2).astype(">f4").dtype == np.dtype("f4").newbyteorder("=")
    struct = purax.ShapeDtypeStruct((2,), ">f4")
    assert struct == purax.ShapeDtypeStruct((2,), np.float32)
    assert purax.eval_shape(lambda x: x, struct).dtype == np.float32


@pytest.mark.parametrize("dtype", [">i4", "<i4", np.dtype(">i2"), ">f8", "u1"])
def test_frombuffer_reads_the_byte_order_that_is_named(dtype):
    data = np.array([1, 2, 77], dtype)
    assert pnp.frombuffer(data.tobytes(), dtype).tolist() == [1, 2, 77]


class Wrapped:
    """An object of the array protocol, with nothing else that an array has."""

    def __init__(self, value):
        self.value = value

    def __purax_array__(self):
        return pnp.asarray(self.value)


@pytest.mark.parametrize(
    ("function", "arguments", "wrapped"),
    [
        (pnp.shape, ([[1, 2]],), 1), (pnp.ndim, ([[1, 2]],), 1), (pnp.size, ([[1, 2]],), 1), (pnp.iscomplexobj, ([1j],), 1),
        (pnp.isrealobj, ([1j],), 1), (pnp.convolve, ([1, 2], [3, 4]), 2), (pnp.correlate, ([1, 2], [3, 4]), 2),
        (pnp.interp, (1.5, [1, 2], [3, 4]), 3), (pnp.delete, ([1, 2, 3], 1), 2), (pnp.insert, ([1, 2, 3], 1, 7), 3),
        (pnp.diag_indices_from, ([[1, 2], [3, 4]],), 1), (pnp.tril_indices_from, ([[1, 2], [3, 4]],), 1),
        (pnp.triu_indices_from, ([[1, 2], [3, 4]],), 1), (pnp.take, ([1, 2, 3], 1), 2), (pnp.isscalar, (1,), 1),
    ],
)  # fmt: skip
def test_functions_take_objects_of_the_array_protocol(function, arguments, wrapped):
    plain = [np.asarray(a) for a in arguments]
    found = function(*[Wrapped(a) if k < wrapped else a for k, a in enumerate(plain)])
    np.testing.assert_array_equal(found, function(*[pnp.asarray(a) for a in plain]))


@pytest.mark.parametrize(
    "enter",
    [pnp.asarray, pnp.array, purax.device_put, pnp.sum, purax.jit(lambda x: x), lambda x: pnp.zeros(2, x.dtype)],
)
@pytest.mark.parametrize("dtype", [np.dtypes.StringDType(), "U4", "S4", object, "datetime64[s]"], ids=str)
def test_what_are_no_numbers_is_refused_by_its_dtype(enter, dtype):
    with pytest.raises(TypeError, match=r"dtype|type"):
        enter(np.zeros(2, dtype))
