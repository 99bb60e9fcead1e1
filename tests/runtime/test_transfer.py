# SPDX-License-Identifier: Apache-2.0
"""Values onto devices and back: every dtype, memory that callers own, DLPack, arrays from pieces."""

import pickle

import numpy as np
import pytest

import purax
from purax import config, contexts, dtypes, errors, events
from purax.core.aval import array_aval
from purax.runtime import buffers, client
from purax.runtime.array import wrap_buffer
from purax.runtime.dlpack import from_dlpack
from purax.runtime.tensor import HOST_ONLY
from purax.runtime.transfer import (
    buffer_on,
    device_get,
    device_put,
    make_array_from_callback,
    make_array_from_process_local_data,
    make_array_from_single_device_arrays,
    put,
    to_placement,
)
from purax.sharding import Mesh, NamedSharding, P, SingleDeviceSharding

SMALL, LARGE = (3, 5), (150, 150)


def values_of(dtype, shape):
    rng = np.random.default_rng(0)
    dtype = np.dtype(dtype)
    if dtype == dtypes.float0:
        return np.zeros(shape, dtype)
    if dtype.kind == "c":
        return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype)
    if dtype.name.startswith(("int", "uint")):
        bits = dtypes.itemsize_bits(dtype)
        low = -(2 ** (bits - 1)) if dtypes.is_signed(dtype) else 0
        return rng.integers(low, low + 2 ** min(bits, 60), size=shape).astype(dtype)
    return rng.normal(size=shape).astype(dtype)


def bits(array):
    return np.ascontiguousarray(array).tobytes()


@pytest.mark.parametrize("dtype", [*dtypes.ALL, dtypes.float0], ids=lambda dtype: str(dtype)[:20])
@pytest.mark.parametrize("shape", [SMALL, LARGE, (), (0, 3)], ids=str)
def test_every_dtype_goes_to_a_device_and_back_unchanged(dtype, shape):
    given = values_of(dtype, shape)
    aval = array_aval(shape, dtype)
    array = put(given, aval)
    assert array.dtype == dtype and array.shape == shape
    reads = [np.asarray(array)]
    if dtype in HOST_ONLY:
        with pytest.raises(errors.DTypeError, match="no such dtype"):
            array.buffer
    else:
        reads.append(np.asarray(wrap_buffer(aval, array.buffer)))
    for read in reads:
        assert read.dtype == dtype and read.shape == shape
        assert dtype == dtypes.float0 or bits(read) == bits(given)
        assert not read.flags.writeable


def test_arrays_with_strides_and_byte_orders_arrive_in_order():
    given = np.arange(60.0, dtype=np.float32).reshape(3, 4, 5)
    for view in (
        given.T,
        given[:, ::-1],
        given[::2, 1:, ::3],
        np.broadcast_to(given[0, 0], (4, 5)),
        np.asfortranarray(given),
    ):
        array = device_put(view)
        np.testing.assert_array_equal(array, view)
        np.testing.assert_array_equal(wrap_buffer(array.aval, array.buffer), view)


@pytest.mark.parametrize("size", [10, 16384, 10**5])
def test_memory_of_the_caller_is_never_read_after_the_call(size):
    for _ in range(20):
        given = np.zeros(size, np.float32)
        array = device_put(given)
        given[:] = 1.0
        assert not np.asarray(array).any()
        assert not np.asarray(wrap_buffer(array.aval, array.buffer)).any()


def test_what_numpy_is_shown_cannot_be_written_to():
    owned = device_put(np.arange(4.0, dtype=np.float32))
    for array in (owned, wrap_buffer(owned.aval, owned.buffer)):
        shown = np.asarray(array)
        with pytest.raises(ValueError, match="read-only"):
            shown[0] = 9
        with pytest.raises(ValueError, match="WRITEABLE"):
            shown.setflags(write=True)
    copy = np.array(owned)
    copy[0] = 9
    assert float(np.asarray(owned)[0]) == 0.0


def test_64_bit_data_narrows_on_entry_and_stays_with_enable_x64():
    assert device_put(np.arange(3)).dtype == np.int32
    assert device_put(np.float64(1.5)).dtype == np.float32
    assert np.isinf(np.asarray(device_put(np.array([1e300]))))
    with contexts.enable_x64(True):
        assert device_put(np.arange(3.0)).dtype == np.float64


def test_python_scalars_are_weakly_typed_and_keep_the_sign_of_zero():
    array = device_put(2.5)
    assert array.weak_type and array.dtype == np.float32 and array.shape == ()
    assert not np.signbit(np.asarray(device_put(0.0))) and np.signbit(np.asarray(device_put(-0.0)))
    assert device_put(True).dtype == bool and not device_put(True).weak_type
    assert device_put(1).dtype == np.int32 and device_put(1j).dtype == np.complex64
    with pytest.raises(OverflowError):
        put(1 << 40, array_aval((), np.dtype(np.int32), True))


def test_device_get_gives_numpy_and_leaves_other_values():
    assert isinstance(device_get(device_put(np.ones(3))), np.ndarray)
    assert device_get("text") == "text"


def test_transfers_are_told():
    with events.listen() as seen:
        array = device_put(np.ones(10**5, np.float32))
        device_put(array, client.devices()[-1])
    directions = [(event.bytes, event.direction, event.device) for event in seen]
    assert directions[0] == (4 * 10**5, "host to device", "cpu:0")
    assert directions[1:] == [(4 * 10**5, "device to device", str(client.devices()[-1]))]


# ---- DLPack


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint16, np.int32, np.float16, np.float32, np.complex64])
@pytest.mark.parametrize("size", [5, 10**5])
def test_dlpack_both_ways(dtype, size):
    given = values_of(dtype, size) if np.dtype(dtype) != bool else np.arange(size) % 2 == 0
    array = from_dlpack(given)
    np.testing.assert_array_equal(array, given)
    np.testing.assert_array_equal(np.from_dlpack(array), given)
    np.testing.assert_array_equal(np.from_dlpack(wrap_buffer(array.aval, array.buffer)), given)


def test_a_bool_array_comes_in_through_dlpack():
    assert np.asarray(from_dlpack(np.array([True, False]))).tolist() == [True, False]


def test_memory_that_comes_in_through_dlpack_is_copied():
    given = np.zeros(10**5, np.float32)
    array = from_dlpack(given)
    given[:] = 1
    assert not np.asarray(array).any()


def test_what_dlpack_hands_out_as_a_copy_belongs_to_the_consumer():
    array = device_put(np.zeros(4, np.float32))
    taken = np.from_dlpack(array, copy=True)
    taken[:] = 1
    assert not np.asarray(array).any()


def test_bfloat16_crosses_dlpack_between_our_own_arrays():
    array = device_put(np.arange(4).astype(dtypes.bfloat16))

    class Foreign:
        def __dlpack__(self, **options):
            return array.__dlpack__(**options)

        def __dlpack_device__(self):
            return array.__dlpack_device__()

    np.testing.assert_array_equal(from_dlpack(Foreign()), array)


def test_dlpack_tells_which_dtypes_it_has_names_for():
    for name in ("bool", "int8", "uint64", "float16", "bfloat16", "complex64"):
        assert purax.dlpack.is_supported_dtype(name)
    for name in ("int4", "float4_e2m1fn", purax.random.key(0).dtype):
        assert not purax.dlpack.is_supported_dtype(name)


def test_dlpack_refuses_what_it_cannot_share():
    mesh = client.make_mesh((2,), ("x",))
    with pytest.raises(BufferError, match="2"):
        device_put(np.ones(4), NamedSharding(mesh, P("x"))).__dlpack__()
    with pytest.raises(TypeError, match="__dlpack__"):
        from_dlpack([1, 2])


# ---- several devices


@pytest.mark.devices
@pytest.mark.parametrize(
    "spec", [P(), P("x"), P(None, "y"), P("x", "y"), P("y", "x"), P(("x", "y")), P(None, ("y", "x"))], ids=str
)
@pytest.mark.parametrize(
    "dtype", [np.float32, dtypes.bfloat16, dtypes.int4, dtypes.uint2, dtypes.float4_e2m1fn, bool], ids=str
)
def test_sharded_arrays_hold_the_right_piece_on_each_device(spec, dtype):
    mesh = client.make_mesh((2, 4), ("x", "y"))
    sharding = NamedSharding(mesh, spec)
    given = (np.arange(16 * 8).reshape(16, 8) % 7).astype(dtype)
    array = device_put(given, sharding)
    assert array.sharding == sharding and array.committed and len(array.devices()) == 8
    fresh = buffers.read_raw(array.buffer, array.aval, array._placement)
    assert bits(fresh) == bits(given)
    shards = array.addressable_shards
    assert [shard.device for shard in shards] == list(mesh.devices.flat)
    for shard in shards:
        assert bits(np.asarray(shard.data)) == bits(given[shard.index])
        assert shard.data.devices() == {shard.device}
    copies = 8 // int(np.prod(sharding.dimension_cuts(2)))
    assert sorted(shard.replica_id for shard in shards) == sorted(list(range(copies)) * (8 // copies))
    assert array.is_fully_replicated == (spec == P())


@pytest.mark.devices
def test_arrays_move_between_devices_and_shardings():
    mesh, devices = client.make_mesh((8,), ("x",)), client.devices()
    given = np.arange(8 * 5000, dtype=np.float32).reshape(8, 5000)
    targets = [
        devices[3],
        NamedSharding(mesh, P("x")),
        NamedSharding(mesh, P(None, "x")),
        NamedSharding(mesh, P()),
        devices[0],
        "cpu",
    ]
    for source in targets:
        for target in targets:
            array = wrap_buffer(
                array_aval(given.shape, given.dtype), buffers.put_raw(array_aval(given.shape, given.dtype), given, None)
            )
            moved = device_put(device_put(array, source), target)
            np.testing.assert_array_equal(buffers.read_raw(moved.buffer, moved.aval, moved._placement), given)
            assert moved.sharding.device_set == to_placement(target).sharding.device_set


@pytest.mark.devices
def test_device_put_commits_and_the_default_device_does_not():
    second = client.devices()[1]
    array = device_put(1.0, second)
    assert array.committed and array.device == second
    with contexts.default_device(second):
        array = device_put(np.ones(3))
        large = device_put(np.ones(10**5))
    assert array.device == second and large.device == second and not array.committed
    assert buffer_on(array, None)._sharding is not None
    assert device_put(1.0).device == client.devices()[0] and config.default_device is None


@pytest.mark.devices
def test_pieces_become_one_array():
    mesh = client.make_mesh((4, 2), ("x", "y"))
    sharding = NamedSharding(mesh, P("x"))
    given = np.arange(24.0, dtype=np.float32).reshape(8, 3)
    pieces = [device_put(given[index], device) for device, index in sharding.devices_indices_map((8, 3)).items()]
    joined = make_array_from_single_device_arrays((8, 3), sharding, pieces[::-1])
    np.testing.assert_array_equal(joined, given)
    called = make_array_from_callback((8, 3), sharding, lambda index: given[index])
    np.testing.assert_array_equal(called, given)
    np.testing.assert_array_equal(make_array_from_process_local_data(sharding, given), given)
    with pytest.raises(ValueError, match="needs one array on each"):
        make_array_from_single_device_arrays((8, 3), sharding, pieces[:3])
    with pytest.raises(ValueError, match="Each piece must be"):
        make_array_from_single_device_arrays((8, 3), NamedSharding(mesh, P("y")), pieces)


@pytest.mark.devices
def test_trees_of_local_data_become_arrays_of_a_shape_that_is_checked():
    data = {"a": np.arange(10).reshape(2, 5), "b": [np.zeros((2, 5))]}
    for shape in (None, (2, 5), (None, 5), {"a": (2, 5), "b": None}):
        found = make_array_from_process_local_data(client.devices()[0], data, shape)
        np.testing.assert_array_equal(found["a"], data["a"])
        assert found["b"][0].devices() == {client.devices()[0]}
    for shape in ((2, 8), (10,), {"a": (2, 5), "b": [(3, 5)]}):
        with pytest.raises(ValueError, match="part of an array of shape"):
            make_array_from_process_local_data(client.devices()[0], data, shape)


def test_shardings_survive_pickling():
    for sharding in (
        NamedSharding(Mesh(np.array(client.devices()).reshape(4, 2), ("x", "y")), P("x")),
        SingleDeviceSharding(client.devices()[3]),
    ):
        assert pickle.loads(pickle.dumps(sharding)) == sharding


def test_pieces_that_have_no_elements_are_refused():
    sharding = SingleDeviceSharding(client.devices()[0])
    with pytest.raises(TypeError, match="list of arrays"):
        make_array_from_single_device_arrays((2,), sharding, put(np.zeros(2), array_aval((2,), np.dtype("f4"))))
    with pytest.raises(ValueError, match="with elements"):
        purax.jit(lambda x: make_array_from_single_device_arrays((2,), sharding, [x]))(np.zeros(2))
    with pytest.raises(errors.UnexpectedTracerError, match="callback gave a traced value"):
        purax.jit(lambda x: make_array_from_callback((2,), sharding, lambda index: x[index]))(np.zeros(2))


def test_an_axis_that_does_not_divide_is_refused_by_name():
    sharding = NamedSharding(client.make_mesh((8,), ("x",)), P(None, "x"))
    with pytest.raises(ValueError, match=r"axis 1 .* 8 pieces"):
        device_put(np.ones((8, 3)), sharding)
    with pytest.raises(ValueError, match="destination of type int"):
        device_put(1.0, 3)
    with pytest.raises(errors.PlatformError, match=r"Available backends are \['cpu'\]"):
        device_put(1.0, "gpuu")


def test_a_single_device_sharding_is_a_place():
    device = client.devices()[-1]
    assert device_put(np.ones(2), SingleDeviceSharding(device)).device == device
