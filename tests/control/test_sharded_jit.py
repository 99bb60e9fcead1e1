# SPDX-License-Identifier: Apache-2.0
"""jit and single operations on arrays that lie on several devices, or on another one than the default."""

import numpy as np
import pytest

import purax
from purax import events, lax
from purax import numpy as pnp
from purax.sharding import AxisType, Mesh, NamedSharding, SingleDeviceSharding
from purax.sharding import PartitionSpec as P
from purax.sharding.named import from_tiles

pytestmark = pytest.mark.devices

TABLE = np.arange(64, dtype=np.float32).reshape(16, 4)


def line():
    return purax.make_mesh((4,), ("batch",), (AxisType.Auto,))


def spread(*parts, mesh=None):
    return NamedSharding(mesh or line(), P(*parts))


def shapes(x):
    return [shard.data.shape for shard in x.addressable_shards]


def loss(p, x, y):
    return pnp.mean((pnp.tanh(x @ p["a"]) @ p["b"] - y) ** 2)


def step(p, x, y):
    value, gradient = purax.value_and_grad(loss)(p, x, y)
    return purax.tree.map(lambda p, g: p - 0.1 * g, p, gradient), value


def problem():
    rng = np.random.default_rng(0)
    params = {"a": rng.normal(size=(8, 16)).astype(np.float32), "b": rng.normal(size=(16, 3)).astype(np.float32)}
    return params, rng.normal(size=(32, 8)).astype(np.float32), rng.normal(size=(32, 3)).astype(np.float32)


def test_a_step_on_a_sharded_batch_equals_the_step_of_one_device():
    params, x, y = problem()
    fun = purax.jit(step)
    want, want_value = fun(params, x, y)
    placed = purax.device_put(params, spread())
    xs, ys = purax.device_put((x, y), spread("batch"))
    for _ in range(3):
        found, value = fun(placed, xs, ys)
        np.testing.assert_allclose(value, want_value, rtol=1e-6)
        for name in params:
            np.testing.assert_allclose(found[name], want[name], rtol=1e-5, atol=1e-6)
            assert found[name].sharding.is_fully_replicated
    assert shapes(found["a"]) == [(8, 16)] * 4
    mixed, value = fun(params, xs, ys)
    np.testing.assert_allclose(value, want_value, rtol=1e-6)
    assert mixed["b"].sharding.mesh == line()


def test_results_lie_as_the_partitioner_chose():
    mesh = purax.make_mesh((2, 4), ("x", "y"), (AxisType.Auto,) * 2)
    a = purax.device_put(TABLE, spread("x", "y", mesh=mesh))
    out = purax.jit(lambda a: (a.T, a * 2, a @ a.T, a.sum()))(a)
    assert [o.sharding.spec for o in out[:2]] == [P("y", "x"), P("x", "y")]
    for found, want in zip(out, (TABLE.T, TABLE * 2, TABLE @ TABLE.T, TABLE.sum()), strict=True):
        np.testing.assert_allclose(found, want)
        whole = np.zeros(found.shape, np.float32)
        for shard in found.addressable_shards:
            whole[shard.index] = shard.data
        np.testing.assert_allclose(whole, want)


def test_results_lie_where_they_are_wanted():
    fun = purax.jit(lambda x: {"a": x * 2, "b": x.sum(0)}, out_shardings={"a": spread("batch"), "b": None})
    out = fun(TABLE)
    assert out["a"].sharding == spread("batch")
    assert shapes(out["a"]) == [(4, 4)] * 4
    np.testing.assert_array_equal(out["b"], TABLE.sum(0))


def test_arguments_are_taken_where_they_are_wanted():
    fun = purax.jit(lambda x, y: x + y, in_shardings=(spread("batch"), None))
    out = fun(TABLE, 1.0)
    assert out.sharding == spread("batch")
    np.testing.assert_array_equal(out, TABLE + 1)
    np.testing.assert_array_equal(fun(purax.device_put(TABLE, spread("batch")), 1.0), TABLE + 1)
    with pytest.raises(ValueError, match=r"Sharding passed to jit does not match.*arg x"):
        fun(purax.device_put(TABLE, spread()), 1.0)
    with pytest.raises(ValueError, match="divisible"):
        fun(TABLE[:3], 1.0)


def test_a_current_mesh_gives_specs_their_meaning():
    with line():
        fun = purax.jit(lambda x: lax.with_sharding_constraint(x.T, P(None, "batch")) * 2)
        assert fun(TABLE).sharding.spec == P(None, "batch")
        assert purax.jit(lambda x: x, in_shardings=P("batch"))(TABLE).sharding.spec == P("batch")
    with pytest.raises(RuntimeError, match="non-empty mesh"):
        lax.with_sharding_constraint(TABLE, P("batch"))


def test_constraints_inside_programs_keep_values_and_derivatives():
    def fun(x):
        return pnp.sum(lax.with_sharding_constraint(pnp.sin(x), spread("batch")) ** 2)

    want = purax.grad(lambda x: pnp.sum(pnp.sin(x) ** 2))(TABLE)
    np.testing.assert_allclose(purax.grad(fun)(TABLE), want, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(purax.jit(purax.grad(fun))(TABLE), want, rtol=1e-5, atol=1e-6)
    mapped = purax.vmap(lambda row: lax.with_sharding_constraint(row * 2, spread("batch")))
    np.testing.assert_array_equal(mapped(TABLE), TABLE * 2)
    np.testing.assert_array_equal(purax.jit(mapped)(TABLE), TABLE * 2)
    assert lax.with_sharding_constraint(TABLE, spread("batch")).sharding == spread("batch")
    with pytest.raises(ValueError, match="rank at least 2"):
        purax.jit(lambda x: lax.with_sharding_constraint(x, spread("batch", None)))(TABLE[0])
    with pytest.raises(ValueError, match="divisible"):
        lax.with_sharding_constraint(TABLE[:3], spread("batch"))


def test_inner_jits_keep_their_shardings():
    inner = purax.jit(lambda x: x + 1, out_shardings=spread("batch"))
    out = purax.jit(lambda x: inner(x) * 2)(TABLE)
    assert out.sharding == spread("batch")
    np.testing.assert_array_equal(out, (TABLE + 1) * 2)


def test_single_operations_run_where_their_operands_lie():
    x = purax.device_put(TABLE, spread("batch"))
    for found, want in (
        (x + 1, TABLE + 1),
        (x * x, TABLE * TABLE),
        (pnp.sin(x), np.sin(TABLE)),
        (x.T, TABLE.T),
        (x[3], TABLE[3]),
    ):
        assert found.sharding.device_set == x.sharding.device_set
        np.testing.assert_allclose(found, want, rtol=1e-6)
    assert (x + 1).sharding == x.sharding
    np.testing.assert_allclose(purax.grad(lambda x: pnp.sum(pnp.sin(x)))(x), np.cos(TABLE), rtol=1e-5, atol=1e-6)


def test_donation_with_a_constraint_gives_the_same_numbers():
    fun = lambda x: lax.with_sharding_constraint(x * 2 + 1, spread("batch"))
    for options in ({}, {"donate_argnums": 0}):
        jitted = purax.jit(fun, **options)
        for _ in range(3):
            x = purax.device_put(TABLE, spread("batch")) + 0
            np.testing.assert_array_equal(jitted(x), TABLE * 2 + 1)
            assert x.is_deleted() == bool(options)


def test_another_device():
    device = purax.devices()[5]
    out = purax.jit(lambda x: x + 1, device=device)(TABLE)
    assert out.devices() == {device}
    x = purax.device_put(TABLE, device)
    out = purax.jit(lambda x: x + 1)(x)
    assert out.sharding == SingleDeviceSharding(device)
    np.testing.assert_array_equal(out, TABLE + 1)
    donated = purax.jit(lambda x: x + 1, donate_argnums=0)(x)
    assert donated.devices() == {device}
    with pytest.raises(ValueError, match="incompatible devices"):
        purax.jit(lambda x, y: x + y)(purax.device_put(TABLE, device), purax.device_put(TABLE, spread("batch")))


def test_meshes_in_another_order_and_of_one_device():
    devices = purax.devices()
    turned = Mesh([devices[2], devices[0], devices[3], devices[1]], ("batch",))
    x = purax.device_put(TABLE, NamedSharding(turned, P("batch")))
    np.testing.assert_array_equal(purax.jit(lambda x: x.sum(1))(x), TABLE.sum(1))
    y = purax.device_put(TABLE, spread("batch"))
    np.testing.assert_array_equal(purax.jit(lambda x, y: x + y)(x, y), TABLE * 2)
    summed = purax.shard_map(lambda x: lax.psum(x, "batch"), mesh=turned, in_specs=P("batch"), out_specs=P())
    np.testing.assert_array_equal(
        purax.jit(lambda x, y: summed(x) + y[:4])(x, y), TABLE.reshape(4, 4, 4).sum(0) + TABLE[:4]
    )
    one = Mesh(devices[3:4], ("batch",))
    alone = purax.shard_map(
        lambda x: lax.psum(x, "batch") * lax.axis_size("batch"), mesh=one, in_specs=P("batch"), out_specs=P()
    )
    np.testing.assert_array_equal(alone(TABLE), TABLE)


def test_the_stages_know_the_devices():
    params, x, y = problem()
    placed = purax.device_put(params, spread())
    xs, ys = purax.device_put((x, y), spread("batch"))
    lowered = purax.jit(step).lower(placed, xs, ys)
    assert 'sdy.mesh @mesh = <["batch"=4]>' in lowered.as_text()
    compiled = lowered.compile()
    np.testing.assert_allclose(compiled(placed, xs, ys)[1], loss(params, x, y), rtol=1e-6)
    np.testing.assert_allclose(compiled(params, xs, y)[1], loss(params, x, y), rtol=1e-6)
    by_type = (
        purax.jit(lambda x: x * 2)
        .lower(purax.ShapeDtypeStruct((16, 4), np.float32, sharding=spread("batch")))
        .compile()
    )
    assert by_type(TABLE).sharding == spread("batch")


def test_the_second_call_compiles_nothing():
    fun = purax.jit(lambda x: pnp.cos(x) * 3)
    x = purax.device_put(TABLE, spread("batch"))
    fun(x)
    with events.listen() as seen:
        fun(x)
        fun(x + 0)
    assert not [e for e in seen if type(e).__name__ in ("Traced", "Lowered") and e.name == fun.__name__]


def test_what_the_compiler_says_of_results_is_told_in_the_axes_of_the_mesh():
    mesh = purax.make_mesh((2, 4), ("x", "y"), (AxisType.Auto,) * 2)
    for spec in (P(), P("x"), P("y", "x"), P(None, ("x", "y")), P(("y", "x"))):
        sharding = NamedSharding(mesh, spec)
        places = np.array(sharding.device_indices(2))
        cuts = (*sharding.dimension_cuts(2), 8 // int(np.prod(sharding.dimension_cuts(2))))
        numbers = np.lexsort((np.arange(8), places[:, 1], places[:, 0]))
        assert from_tiles(mesh, 2, (cuts, numbers.tolist())).spec == spec
    part_of_an_axis = from_tiles(Mesh(purax.devices()[:4], ("x",)), 2, ((2, 2), [0, 1, 2, 3]))
    assert part_of_an_axis.shard_shape((4, 4)) == (2, 2)
