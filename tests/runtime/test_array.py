# SPDX-License-Identifier: Apache-2.0
"""Array: what it says of itself, what it becomes in Python and NumPy, and how it ends."""

import copy
import gc
import operator
import pickle
import sys
import weakref

import numpy as np
import pytest

import purax
from purax import dtypes, errors
from purax import numpy as pnp
from purax.core.aval import array_aval
from purax.runtime import client
from purax.runtime.array import Array, wrap_buffer, wrap_host
from purax.runtime.transfer import device_put, put
from purax.sharding import NamedSharding, P


class Words:
    """A stand-in for a kind of random key of two words."""

    name, tag, key_shape = "words", "wrd", (2,)


def keys(shape=(3,)):
    dtype = dtypes.KeyDtype(Words())
    words = np.arange(np.prod(shape) * 2, dtype=np.uint32).reshape(*shape, 2)
    return put(words, array_aval(shape, dtype)), words


def on_device(value):
    array = device_put(value)
    return wrap_buffer(array.aval, array.buffer)


@pytest.fixture(params=["host", "device"])
def make(request):
    return device_put if request.param == "host" else on_device


def test_it_says_what_it_is(make):
    array = make(np.ones((2, 3), np.int8))
    assert (array.shape, array.dtype, array.ndim, array.size, array.nbytes, array.itemsize) == (
        (2, 3),
        np.int8,
        2,
        6,
        6,
        1,
    )
    assert not array.weak_type and not array.committed and array.is_fully_addressable and array.is_fully_replicated
    assert array.device == client.devices()[0] and array.devices() == {client.devices()[0]}
    assert array.on_device_size_in_bytes() == 6 and array.unsafe_buffer_pointer() > 0
    assert array.is_ready() and array.block_until_ready() is array
    assert len(array) == 2 and array.addressable_data(0) is array
    array.copy_to_host_async()
    assert len(array.addressable_shards) == len(array.global_shards) == 1


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.array([1.0, 2.0], np.float32), "Array([1., 2.], dtype=float32)"),
        (1.5, "Array(1.5, dtype=float32, weak_type=True)"),
        (np.arange(3), "Array([0, 1, 2], dtype=int32)"),
        (np.ones((2, 2), dtypes.bfloat16), "Array([[1, 1],\n       [1, 1]], dtype=bfloat16)"),
        (np.zeros((0, 3), np.float32), "Array([], shape=(0, 3), dtype=float32)"),
        (np.zeros(0, bool), "Array([], dtype=bool)"),
        (np.arange(2000), "Array([   0,    1,    2, ..., 1997, 1998, 1999], dtype=int32)"),
    ],
)
def test_repr_reads_like_the_expression(make, value, text):
    assert repr(make(value)) == text


def test_str_and_format(make):
    assert str(make(np.array([1.0, 2.0]))) == "[1. 2.]"
    assert f"{make(1.2345):.2f}" == "1.23" and f"{make(np.arange(2))}" == "[0 1]"
    assert f"{make(7):03d}" == "007"


def test_scalars_become_python_numbers(make):
    assert float(make(1.5)) == 1.5 and int(make(3)) == 3 and complex(make(2j)) == 2j and bool(make(0.0)) is False
    assert operator.index(make(4)) == 4 and [5, 6, 7][make(1)] == 6
    assert make(np.array([[2.5]])).item() == 2.5 and make(np.arange(6).reshape(2, 3)).item(1, 2) == 5
    assert make(np.arange(3)).tolist() == [0, 1, 2] and make(np.arange(3, dtype=np.int8)).tobytes() == b"\0\1\2"
    assert bool(make(np.array([[1]])))


@pytest.mark.parametrize(
    ("use", "error", "match"),
    [
        (lambda a: bool(a), ValueError, "more than one element"),
        (lambda a: bool(a.to_device(None).__class__ and device_put(np.zeros(0))), ValueError, "empty"),
        (lambda a: int(a), TypeError, "Only scalar arrays"),
        (lambda a: float(a), TypeError, "Only scalar arrays"),
        (lambda a: operator.index(a), TypeError, "integer scalar"),
        (lambda a: operator.index(device_put(1.0)), TypeError, "integer scalar"),
        (lambda a: len(device_put(1.0)), TypeError, "unsized"),
        (lambda a: iter(device_put(1.0)), TypeError, "0-d"),
        (lambda a: hash(a), TypeError, "unhashable"),
        (lambda a: operator.setitem(a, 0, 1.0), TypeError, r"\.at\["),
    ],
)
def test_misuse_is_told_plainly(make, use, error, match):
    with pytest.raises(error, match=match):
        use(make(np.ones(2)))


def test_iteration_gives_rows_of_the_same_kind(make):
    given = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    rows = list(make(given))
    assert all(type(row) is Array and row.dtype == np.float32 for row in rows)
    np.testing.assert_array_equal(np.stack(rows), given)
    assert [int(number) for number in make(np.arange(3))] == [0, 1, 2]


def test_array_follows_numpy_2(make):
    array = make(np.arange(3))
    assert np.asarray(array, np.float64).dtype == np.float64
    assert np.array(array).flags.writeable and np.array(array, copy=True) is not np.asarray(array)
    np.asarray(array, copy=False)
    with pytest.raises(ValueError, match="without a copy"):
        array.__array__(np.float64, copy=False)


def test_copies_and_pickles_are_equal_and_independent(make):
    array = make(np.arange(4.0))
    others = [copy.copy(array), copy.deepcopy(array), pickle.loads(pickle.dumps(array)), array.clone()]
    array.delete()
    for other in others:
        np.testing.assert_array_equal(other, np.arange(4.0))
        assert other.aval is array.aval
    weak = pickle.loads(pickle.dumps(make(2.0)))
    assert weak.weak_type


# ---- the end


def test_a_deleted_array_says_what_happened(make):
    array = make(np.ones(3))
    array.delete()
    assert array.is_deleted() and array.shape == (3,) and array.sharding is not None and "<deleted>" in repr(array)
    uses = (
        np.asarray,
        list,
        float,
        copy.copy,
        operator.attrgetter("buffer"),
        operator.attrgetter("host"),
        Array.is_ready,
    )
    for use in (*uses, Array.block_until_ready, pickle.dumps):
        with (
            pytest.raises(RuntimeError, match=r"float32\[3\].*\n.*deleted by its `delete` method")
            if use is not float
            else pytest.raises(TypeError)
        ):
            use(array)
    array.delete()


def test_a_donated_array_says_to_what():
    array = device_put(np.ones(3))
    array.donate("the function step")
    with pytest.raises(errors.DeletedArrayError, match="donated to the function step"):
        np.asarray(array)


def test_views_outlive_a_deleted_array(make):
    array = make(np.arange(100.0))
    view = np.asarray(array)
    array.delete()
    gc.collect()
    np.testing.assert_array_equal(view, np.arange(100.0))


def test_arrays_are_freed_without_the_collector():
    gc.disable()
    try:
        array = device_put(np.ones(3))
        array.host, array.buffer
        reference = weakref.ref(array)
        del array
        assert reference() is None
    finally:
        gc.enable()


def test_a_host_value_that_is_a_view_is_shown_read_only():
    owner = np.arange(6.0)
    array = wrap_host(array_aval((3,), owner.dtype), owner[::2])
    with pytest.raises(ValueError, match="WRITEABLE"):
        np.asarray(array).setflags(write=True)


@pytest.mark.parametrize("writable", [True, False], ids=["writable view", "read-only view"])
def test_a_view_of_writable_memory_cannot_be_made_writable(writable):
    view = np.arange(6.0)[1:4]
    view.setflags(write=writable)
    array = wrap_host(array_aval((3,), view.dtype), view)
    with pytest.raises(ValueError, match="WRITEABLE"):
        np.asarray(array).setflags(write=True)


@pytest.mark.parametrize("size", [3, 20000])
def test_a_copy_outlives_a_donation_of_its_original(size):
    for copied in (copy.copy, copy.deepcopy, lambda x: x.copy()):
        array = pnp.zeros(size) + 1
        array.unsafe_buffer_pointer()
        other = copied(array)
        purax.jit(lambda x: x * 2, donate_argnums=0)(array)
        assert array.is_deleted() and not other.is_deleted()
        np.testing.assert_array_equal(other, np.ones(size))


# ---- random keys


def test_keys_hold_words_and_stay_opaque():
    array, words = keys()
    assert array.shape == (3,) and array.ndim == 1 and array.size == 3 and array.itemsize == 8 and array.nbytes == 24
    assert array.base.dtype == np.uint32 and array.base.shape == (3, 2)
    np.testing.assert_array_equal(array.base, words)
    np.testing.assert_array_equal(wrap_buffer(array.aval, array.buffer).base, words)
    for use in (np.asarray, lambda a: a.tolist(), lambda a: np.array(a, np.uint32), lambda a: a.item()):
        with pytest.raises(TypeError, match="key_data"):
            use(array)
    with pytest.raises(BufferError, match="key_data"):
        array.__dlpack__()
    assert repr(array).startswith("Array((3,), dtype=key<wrd>) overlaying:\n[[0 1]")
    rows = list(array)
    assert rows[1].shape == () and rows[1].dtype == array.dtype
    np.testing.assert_array_equal(rows[1].base, words[1])


@pytest.mark.devices
def test_keys_are_spread_over_devices():
    array, words = keys((8,))
    spread = device_put(array, NamedSharding(client.make_mesh((8,), ("x",)), P("x")))
    assert [shard.data.shape for shard in spread.addressable_shards] == [(1,)] * 8
    np.testing.assert_array_equal(wrap_placed_words(spread), words)


def wrap_placed_words(array):
    return np.concatenate([np.asarray(shard.data.base) for shard in array.addressable_shards])


@pytest.mark.skipif(sys.version_info < (3, 12), reason="classes take part in the buffer protocol from Python 3.12 on")
def test_the_buffer_protocol_shows_the_elements():
    x = pnp.arange(6.0).reshape(2, 3)
    view = memoryview(x)
    assert view.shape == (2, 3) and view.readonly and bytes(view) == np.arange(6, dtype=np.float32).tobytes()
    x.delete()
    assert view[1, 2] == 5
    for refused in (pnp.ones(2, "bfloat16"), purax.random.key(0)):
        with pytest.raises(BufferError):
            memoryview(refused)
    np.testing.assert_array_equal(np.asarray(pnp.ones(2, "bfloat16"), np.float32), [1, 1])


def test_an_array_is_no_dtype():
    x = pnp.arange(3)
    with pytest.raises(ValueError, match=r"give its dtype: x\.dtype"):
        pnp.zeros(3, x)
    if np.lib.NumpyVersion(np.__version__) >= "2.4.0":
        with pytest.warns(DeprecationWarning, match=r"x\.dtype"):
            assert np.dtype(x) == np.int32
