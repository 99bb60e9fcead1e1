# SPDX-License-Identifier: Apache-2.0
"""Calls of Python functions from programs: how often, in which order, with what; results, errors, devices."""

import threading

import numpy as np
import pytest

import purax
import purax.numpy as pnp
from purax import config, errors, lax, random
from purax.experimental import io_callback
from purax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

FLOAT = purax.ShapeDtypeStruct((), np.float32)
CALLS = {
    "pure": purax.pure_callback,
    "io": io_callback,
    "ordered": lambda *args, **kwargs: io_callback(*args, ordered=True, **kwargs),
}
every_call = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)


def collecting(seen):
    """A function that keeps what it is called with."""
    return lambda x: seen.append(np.asarray(x).tolist())


# --- results


@every_call
@pytest.mark.parametrize("transform", [lambda f: f, purax.jit], ids=["eager", "jit"])
def test_a_function_computes_a_value_of_the_program(call, transform):
    f = transform(lambda x: call(lambda a: np.sin(a) + 1, FLOAT, x) * 2)
    np.testing.assert_allclose(f(0.5), 2 * (np.sin(0.5) + 1), rtol=1e-6)


@every_call
def test_arguments_and_results_keep_their_structure(call):
    def swap(pair, *, scale):
        return {"a": pair[1] * scale, "b": np.asarray(pair[0])}

    types = {"a": purax.ShapeDtypeStruct((3,), np.float32), "b": purax.ShapeDtypeStruct((2,), np.int32)}
    f = purax.jit(lambda x, y: call(swap, types, (x, y), scale=np.float32(3)))
    out = f(np.arange(2, dtype=np.int32), np.ones(3, np.float32))
    np.testing.assert_array_equal(out["a"], [3, 3, 3])
    np.testing.assert_array_equal(out["b"], [0, 1])


@every_call
@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint32", "float16", "bfloat16", "float32", "complex64", "int4", "uint2"]
)
def test_every_dtype_travels_both_ways(call, dtype):
    x = pnp.array([0, 1, 1, 0]).astype(dtype)
    out = purax.jit(lambda x: call(lambda a: a, x, x))(x)
    assert out.dtype == x.dtype
    np.testing.assert_array_equal(np.asarray(out).astype(complex), np.asarray(x).astype(complex))


@every_call
@pytest.mark.parametrize("shape", [(), (0,), (2, 0), (3, 1, 2)])
def test_every_shape_travels_both_ways_in_any_memory_order(call, shape):
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    out = purax.jit(lambda x: call(lambda a: np.array(a, order="F"), x, x))(x)
    np.testing.assert_array_equal(out, x)


def test_the_function_gets_arrays():
    seen = []
    purax.jit(lambda x: io_callback(seen.append, None, x))(1.0)
    io_callback(seen.append, None, np.float32(1))
    assert all(isinstance(x, purax.Array) for x in seen)


def test_keys_arrive_as_keys():
    seen = []
    purax.jit(lambda k: io_callback(lambda k: seen.append(random.uniform(k).item()), None, k))(random.key(3))
    assert seen == [random.uniform(random.key(3)).item()]


# --- how often, and in which order


def test_a_pure_call_that_nothing_uses_is_left_out_and_an_effect_is_not():
    seen = []

    @purax.jit
    def f(x):
        purax.pure_callback(lambda a: seen.append("pure") or a, x, x)
        io_callback(lambda: seen.append("io"), None)
        return x

    f(1.0)
    assert seen == ["io"]


@pytest.mark.parametrize("transform", [lambda f: f, purax.jit], ids=["eager", "jit"])
def test_ordered_effects_keep_the_order_of_the_program_through_loops_branches_and_calls(transform):
    seen = []
    note = lambda *x: io_callback(lambda *a: seen.append(tuple(v.item() for v in a)), None, *x, ordered=True)

    def f(n):
        note(n)
        lax.scan(lambda c, i: (note(n, i), (c, None))[1], 0, pnp.arange(3))
        lax.cond(n > 0, lambda: note(10), lambda: note(11))
        lax.while_loop(lambda i: (note(20, i), i < 2)[1], lambda i: (note(30, i), i + 1)[1], 0)
        purax.jit(lambda: note(40))()
        purax.checkpoint(lambda x: (note(50), x)[1])(1.0)
        note(60)

    transform(f)(1)
    loop = [(20, 0), (30, 0), (20, 1), (30, 1), (20, 2)]
    assert seen == [(1,), (1, 0), (1, 1), (1, 2), (10,), *loop, (40,), (50,), (60,)]


def test_effects_of_programs_that_follow_each_other_keep_their_order():
    seen = []
    f = purax.jit(lambda x: io_callback(collecting(seen), None, x, ordered=True))
    for i in range(20):
        f(i)
    assert seen == list(range(20))


def test_derivatives_run_an_effect_once():
    seen = []

    def f(x):
        io_callback(collecting(seen), None, lax.stop_gradient(x))
        return x * x

    for derivative in (
        purax.grad(f),
        purax.jit(purax.grad(f)),
        purax.grad(purax.jit(f)),
        lambda x: purax.jvp(f, (x,), (x,)),
    ):
        seen.clear()
        derivative(2.0)
        assert seen == [2.0]


def test_the_custom_rule_of_a_called_function_is_its_derivative():
    @purax.custom_jvp
    def sine(x):
        return purax.pure_callback(lambda a: np.sin(a), FLOAT, x)

    sine.defjvps(lambda t, _, x: t * purax.pure_callback(lambda a: np.cos(a), FLOAT, x))
    np.testing.assert_allclose(purax.jit(purax.grad(sine))(0.3), np.cos(0.3), rtol=1e-6)


@pytest.mark.parametrize("call", [purax.pure_callback, io_callback])
def test_a_derivative_through_a_call_is_refused(call):
    f = lambda x: call(lambda a: a, FLOAT, x)
    with pytest.raises(errors.CallbackDerivativeError, match="do not support JVP"):
        purax.grad(f)(1.0)
    with pytest.raises(errors.CallbackDerivativeError, match="do not support transpose"):
        purax.linear_transpose(f, 1.0)(1.0)


# --- vmap


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(
    ("method", "shapes"),
    [
        ("sequential", [((), ())] * 3),
        ("sequential_unrolled", [((), ())] * 3),
        ("expand_dims", [((3,), (1,))]),
        ("broadcast_all", [((3,), (3,))]),
        ("legacy_vectorized", [((3,), ())]),
    ],
)
def test_vmap_calls_as_the_method_says(method, shapes, compiled):
    seen = []

    def add(x, y):
        seen.append((x.shape, y.shape))
        return np.asarray(x) + np.asarray(y)

    f = purax.vmap(lambda x, y: purax.pure_callback(add, FLOAT, x, y, vmap_method=method), in_axes=(0, None))
    out = (purax.jit(f) if compiled else f)(pnp.arange(3.0), 10.0)
    np.testing.assert_array_equal(out, [10, 11, 12])
    assert seen == shapes


@pytest.mark.parametrize("method", ["sequential", "expand_dims", "broadcast_all"])
def test_nested_vmap_over_different_axes_equals_a_loop(method):
    x, y = np.arange(6, dtype=np.float32).reshape(2, 3), np.arange(4, dtype=np.float32)
    row = purax.ShapeDtypeStruct((3,), np.float32)
    f = lambda x, y: purax.pure_callback(
        lambda a, b: np.asarray(a) * np.expand_dims(b, -1), row, x, y, vmap_method=method
    )
    out = purax.vmap(purax.vmap(f, (None, 0)), (0, None))(x, y)
    np.testing.assert_array_equal(out, x[:, None, :] * y[None, :, None])


def test_vmap_without_a_method_and_of_ordered_effects_is_refused():
    with pytest.raises(errors.CallbackBatchingError, match="vmap is only supported"):
        purax.vmap(lambda x: purax.pure_callback(np.sin, FLOAT, x))(pnp.arange(3.0))
    with pytest.raises(errors.CallbackBatchingError, match="Cannot `vmap` ordered"):
        purax.vmap(lambda x: io_callback(print, None, x, ordered=True))(pnp.arange(3.0))


def test_vmap_of_an_effect_runs_it_once_per_lane_in_order():
    seen = []
    out = purax.vmap(lambda x: io_callback(lambda a: seen.append(a.item()) or a, FLOAT, x))(pnp.arange(4.0))
    assert seen == [0, 1, 2, 3]
    np.testing.assert_array_equal(out, np.arange(4))


# --- errors


def out_of_tea(*_):
    raise LookupError("out of tea")


@every_call
def test_what_the_function_raises_reaches_the_caller_as_the_cause(call):
    f = purax.jit(lambda x: call(out_of_tea, FLOAT, x) + 1)
    for _ in range(2):
        with pytest.raises(errors.JaxRuntimeError, match="out of tea") as caught:
            np.asarray(f(1.0))
        cause = caught.value.__cause__
        assert type(cause) is LookupError
        names = []
        trace = cause.__traceback__
        while trace is not None:
            names.append(trace.tb_frame.f_code.co_name)
            trace = trace.tb_next
        assert names[-1] == "out_of_tea"


@every_call
def test_in_eager_code_the_exception_is_the_users_own(call):
    with pytest.raises(LookupError, match="out of tea"):
        call(out_of_tea, FLOAT, 1.0)


def test_an_interruption_in_the_function_interrupts_the_caller():
    def interrupt():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        purax.jit(lambda: io_callback(interrupt, None))()


@every_call
@pytest.mark.parametrize(
    ("result", "message"),
    [
        (np.zeros(2, np.float32), "shape"),
        (np.zeros((), np.int16), "dtype"),
        ((np.float32(1), np.float32(2)), "promised"),
    ],
    ids=["shape", "dtype", "structure"],
)
def test_results_of_other_types_than_promised_raise(call, result, message):
    with pytest.raises(errors.JaxRuntimeError, match=message) as caught:
        np.asarray(purax.jit(lambda: call(lambda: result, FLOAT))())
    assert type(caught.value.__cause__) is errors.CallbackResultError and str(caught.value).count("Why:") == 1
    with pytest.raises(errors.CallbackResultError, match=message):
        call(lambda: result, FLOAT)


def test_wrong_arguments_of_the_calls_are_named():
    with pytest.raises(TypeError, match="callable"):
        purax.pure_callback("sin", FLOAT, 1.0)
    with pytest.raises(ValueError, match="vmap_method"):
        purax.pure_callback(np.sin, FLOAT, 1.0, vmap_method="parallel")
    with pytest.raises(ValueError, match="result_shape_dtypes"):
        purax.pure_callback(np.sin, "float32", 1.0)


def test_python_numbers_and_64_bit_results_become_the_promised_dtype():
    assert purax.jit(lambda: purax.pure_callback(lambda: 2, purax.ShapeDtypeStruct((), np.int32)))() == 2
    out = purax.jit(lambda: purax.pure_callback(lambda: np.ones(2), purax.ShapeDtypeStruct((2,), np.float32)))()
    assert out.dtype == np.float32


# --- programs are found again


def test_calling_again_with_the_same_function_traces_and_compiles_nothing():
    traced = []
    double = lambda a: a * 2

    @purax.jit
    def f(x):
        traced.append(1)
        return purax.pure_callback(double, FLOAT, x)

    assert [f(float(i)) for i in range(3)] == [0, 2, 4]
    assert len(traced) == 1


# --- threads and devices


def test_a_function_may_run_programs_that_call_functions():
    inner = purax.jit(lambda x: purax.pure_callback(lambda a: np.asarray(a) + 1, FLOAT, x))
    loop = purax.jit(lambda x: lax.fori_loop(0, 20, lambda _, y: pnp.tanh(y @ y), x))

    def outer(x):
        loop(pnp.ones((40, 40))).block_until_ready()
        return inner(inner(x))

    f = purax.jit(lambda x: lax.fori_loop(0, 3, lambda _, y: purax.pure_callback(outer, FLOAT, y), x))
    results = [f(float(i)) for i in range(8)]
    np.testing.assert_array_equal(np.asarray(results), 6 + np.arange(8))


def test_threads_that_run_one_program_get_their_own_results():
    f = purax.jit(lambda x: purax.pure_callback(lambda a: np.asarray(a) * 2, FLOAT, x))
    found = {}

    def run(i):
        found[i] = [f(float(i + 100 * k)).item() for k in range(20)]

    threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == {i: [2.0 * (i + 100 * k) for k in range(20)] for i in range(4)}


@pytest.fixture
def mesh():
    return Mesh(np.array(purax.devices()[:4]), ("x",))


@every_call
def test_a_sharded_program_calls_once_with_the_whole(call, mesh):
    seen = []

    def note(x):
        seen.append(np.asarray(x).tolist())
        return np.asarray(x) * 2

    sharding = NamedSharding(mesh, PartitionSpec("x"))
    f = purax.jit(lambda x: call(note, x + 1, x + 1), in_shardings=sharding, out_shardings=sharding)
    np.testing.assert_array_equal(f(np.arange(8.0, dtype=np.float32)), 2 * (np.arange(8) + 1))
    assert seen == [list(range(1, 9))]


@every_call
def test_each_device_of_a_region_calls_with_its_piece(call, mesh):
    seen = []

    def note(x):
        seen.append(np.asarray(x).tolist())
        return np.asarray(x) + 1

    f = purax.shard_map(
        lambda x: call(note, x, x), mesh=mesh, in_specs=PartitionSpec("x"), out_specs=PartitionSpec("x")
    )
    np.testing.assert_array_equal(purax.jit(f)(np.arange(8.0, dtype=np.float32)), np.arange(8) + 1)
    assert sorted(seen) == [[0, 1], [2, 3], [4, 5], [6, 7]]


@pytest.mark.parametrize("taken", [("x",), ("x", "z")])
def test_devices_that_share_the_pieces_of_a_region_call_once(taken):
    mesh = purax.make_mesh((2, 2, 2), ("x", "y", "z"), axis_types=(AxisType.Auto,) * 3)
    seen = []

    def note(x):
        seen.append(np.asarray(x).tolist())
        return np.asarray(x) > 1, np.asarray(x) * (1 + 2j)

    def f(x):
        results = [purax.ShapeDtypeStruct(x.shape, dtype) for dtype in (bool, np.complex64)]
        x = lax.with_sharding_constraint(x, PartitionSpec("y"))
        return lax.scan(lambda c, _: (c + 1, io_callback(note, results, c)), x, None, length=2)

    out_specs = (PartitionSpec("x"), PartitionSpec(None, "x"))
    g = purax.shard_map(f, in_specs=PartitionSpec("x"), out_specs=out_specs, axis_names=set(taken), check_vma=False)
    x = np.arange(4, dtype=np.float32)
    with purax.set_mesh(mesh):
        last, (large, turned) = purax.jit(g)(x)
    np.testing.assert_array_equal(last, x + 2)
    np.testing.assert_array_equal(large, [x > 1, x + 1 > 1])
    np.testing.assert_array_equal(turned, np.stack([x, x + 1]) * (1 + 2j))
    times = 2 ** (len(taken) - 1)  # regions along z are several
    assert sorted(seen) == sorted([[0, 1], [1, 2], [2, 3], [3, 4]] * times)


@every_call
def test_a_call_with_an_effect_within_a_region_of_some_axes(call):
    mesh = purax.make_mesh((2, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
    seen = []

    def note(x):
        seen.append(np.asarray(x).tolist())
        return np.asarray(x) + 1

    f = purax.shard_map(
        lambda x: call(note, x, x),
        mesh=mesh,
        in_specs=PartitionSpec("x"),
        out_specs=PartitionSpec("x"),
        axis_names={"x"},
    )
    np.testing.assert_array_equal(purax.jit(f)(np.arange(4.0, dtype=np.float32)), np.arange(4) + 1)
    assert {tuple(x) for x in seen} == {(0, 1), (2, 3)}


def test_each_device_keeps_the_order_of_its_effects(mesh):
    seen = []
    note = lambda x: io_callback(lambda a: seen.append(a.item()), None, x[0], ordered=True)
    f = purax.shard_map(
        lambda x: [note(x + 10 * i) for i in range(3)],
        mesh=mesh,
        in_specs=PartitionSpec("x"),
        out_specs=PartitionSpec(),
    )
    purax.jit(f)(np.arange(4))
    for device in range(4):
        assert [s for s in seen if s % 10 == device] == [device, device + 10, device + 20]


def test_an_exception_on_one_device_does_not_leave_the_others_waiting(mesh):
    def fail_on_two(x):
        if x[0] == 2:
            raise LookupError("device two")
        return x

    f = purax.pmap(
        lambda x: lax.psum(purax.pure_callback(fail_on_two, x, x), "i"), axis_name="i", devices=purax.devices()[:4]
    )
    with pytest.raises(errors.JaxRuntimeError, match="device two"):
        f(np.arange(4.0, dtype=np.float32)[:, None])
    np.testing.assert_array_equal(f(np.full((4, 1), 5.0, np.float32)), np.full((4, 1), 20.0))


def test_programs_with_calls_come_from_the_disk(cache_folder):
    f = lambda scale: purax.jit(lambda x: purax.pure_callback(lambda a: np.asarray(a) * scale, FLOAT, x))
    assert f(2)(3.0) == 6
    purax.clear_caches()
    assert f(5)(3.0) == 15
    config.update("cache", False)
