# SPDX-License-Identifier: Apache-2.0
"""Programs that name the axes of a mesh and no devices, what `jit` asks of shardings, and the mesh that it runs on."""

import numpy as np
import pytest

import purax
from purax import events, export, lax
from purax import numpy as pnp
from purax.experimental.pjit import pjit
from purax.experimental.shard_alike import shard_alike
from purax.pipeline.debug import unusual
from purax.sharding import (
    AbstractDevice,
    AbstractMesh,
    AxisType,
    Mesh,
    NamedSharding,
    SingleDeviceSharding,
    get_abstract_mesh,
    get_mesh,
    use_abstract_mesh,
)
from purax.sharding import PartitionSpec as P

pytestmark = pytest.mark.devices

TABLE = np.arange(32, dtype=np.float32).reshape(8, 4)
AXES = AbstractMesh((2,), ("x",))
CUT = NamedSharding(AXES, P("x"))


def pair(first=0):
    return Mesh(purax.devices()[first : first + 2], ("x",))


def on(mesh, *parts):
    return purax.device_put(TABLE, NamedSharding(mesh, P(*parts)))


def lowered_of(seen):
    return [e for e in seen if isinstance(e, events.Lowered)]


@pytest.mark.parametrize("kind", ["constraint", "shard_map", "current mesh"])
def test_one_program_serves_the_devices_of_its_arguments(kind):
    def fun(x):
        if kind == "constraint":
            return lax.with_sharding_constraint(x, CUT) * 2
        if kind == "shard_map":
            return purax.shard_map(lambda x: x * 2, mesh=AXES, in_specs=P("x"), out_specs=P("x"))(x)
        return lax.with_sharding_constraint(x * 2, P("x"))

    compiled = purax.jit(fun)
    with events.listen() as seen:
        for mesh in (pair(), pair(2)):
            x = on(mesh)
            if kind == "current mesh":
                with purax.set_mesh(mesh):
                    out = compiled(x)
            else:
                out = compiled(x)
            np.testing.assert_array_equal(out, TABLE * 2)
            assert out.sharding == NamedSharding(mesh, P("x"))
    assert len([e for e in seen if isinstance(e, events.Traced)]) == 1 and len(lowered_of(seen)) <= 1


def test_eager_constraints_stay_on_the_mesh_of_the_array():
    x = on(pair(2))
    assert lax.with_sharding_constraint(x, CUT).sharding == NamedSharding(pair(2), P("x"))
    twice = purax.shard_map(lambda x: x * 2, mesh=AXES, in_specs=P("x"), out_specs=P("x"))
    assert twice(x).sharding == NamedSharding(pair(2), P("x"))
    with purax.set_mesh(pair()):
        assert lax.with_sharding_constraint(TABLE, CUT).sharding == NamedSharding(pair(), P("x"))
    gradient = purax.grad(lambda x: pnp.sum(lax.with_sharding_constraint(x, CUT) ** 2))
    np.testing.assert_array_equal(gradient(x), TABLE * 2)


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: lax.with_sharding_constraint(TABLE, CUT), ValueError, "input passed should be a `jax.Array`"),
        (lambda: lax.with_sharding_constraint(pnp.ones(8), CUT), TypeError, "must be a `NamedSharding`"),
        (lambda: lax.with_sharding_constraint(on(Mesh(purax.devices()[:2], ("y",))), CUT), ValueError, "Mesh shape"),
        (lambda: purax.shard_map(abs, mesh=AXES, in_specs=P("x"), out_specs=P("x"))(TABLE), ValueError, "NamedSharding"),
        (lambda: purax.jit(abs, out_shardings=CUT)(TABLE), ValueError, "Passing lowering_platforms"),
        (lambda: purax.jit(abs, out_shardings=CUT)(on(Mesh(purax.devices()[:4], "x"))), ValueError, "size: 2 does not"),
        (lambda: NamedSharding(AXES, P("x")).device_set, ValueError, "no devices"),
        (lambda: purax.sharding.use_abstract_mesh(pair()), ValueError, "abstract_mesh"),
        (lambda: purax.set_mesh(AXES), ValueError, "Expected mesh of type"),
        (lambda: purax.set_mesh(Mesh(purax.devices()[:2], "x", AxisType.Manual)), ValueError, "contains manual axes"),
        (lambda: purax.jit(lambda x: get_mesh().size * x)(1.0), ValueError, "get_abstract_mesh"),
    ],
)  # fmt: skip
def test_what_a_mesh_without_devices_cannot_stand_for(call, kind, message):
    with pytest.raises(kind, match=message):
        call()


def test_programs_for_no_devices_are_lowered_and_compiled_later():
    spec = purax.ShapeDtypeStruct((8, 4), np.float32, sharding=CUT)
    traced = purax.jit(lambda x: x * 2).trace(spec)
    with pytest.raises(ValueError, match="Passing lowering_platforms"):
        traced.lower()
    lowered = traced.lower(lowering_platforms=("cpu",))
    assert "num_partitions = 2" in lowered.as_text() and '[{"x"}, {}]' in lowered.as_text()
    with pytest.raises(RuntimeError, match="cannot be `None`"):
        lowered.compile()
    with pytest.raises(ValueError, match="must match the length of device assignment: 1"):
        lowered.compile(device_assignment=purax.devices()[:1])
    out = lowered.compile(device_assignment=purax.devices()[2:4])(on(pair(2), "x"))
    np.testing.assert_array_equal(out, TABLE * 2)
    assert out.sharding == NamedSharding(pair(2), P("x"))
    with pytest.raises(ValueError, match="same size"):
        other = purax.ShapeDtypeStruct((8,), np.float32, sharding=NamedSharding(AbstractMesh((4,), ("y",)), P()))
        purax.jit(lambda x, y: (x, y)).trace(spec, other).lower(lowering_platforms=("cpu",))
    device = AbstractDevice("TPU", 1, "cpu")
    kind = NamedSharding(AbstractMesh((2,), ("x",), abstract_device=device), P("x"))
    text = purax.jit(lambda x: x * 2).lower(purax.ShapeDtypeStruct((8,), np.float32, sharding=kind)).as_text()
    assert "num_partitions = 2" in text


def test_exported_for_a_number_of_devices_and_called_on_some():
    def fun(x):
        return lax.with_sharding_constraint(x @ x.T, NamedSharding(AXES, P(None, "x")))

    exported = export.export(purax.jit(fun))(purax.ShapeDtypeStruct((8, 4), np.float32, sharding=CUT))
    assert exported.nr_devices == 2
    out = exported.call(on(pair(), "x"))
    np.testing.assert_allclose(out, TABLE @ TABLE.T)
    assert [shard.data.shape for shard in out.addressable_shards] == [(8, 4)] * 2


def test_axes_in_force_without_devices():
    assert get_abstract_mesh().empty
    with use_abstract_mesh(AXES) as now:
        assert get_abstract_mesh() is now is AXES
        purax.jit(lambda x: lax.with_sharding_constraint(x, P("x"))).trace(TABLE)
        with pytest.raises(ValueError, match="cannot change the size"), use_abstract_mesh(AbstractMesh((4,), ("x",))):
            pass
    assert get_abstract_mesh().empty
    with purax.set_mesh(pair()), use_abstract_mesh(AbstractMesh((2,), ("y",))):
        out = purax.jit(lambda x: lax.with_sharding_constraint(x, P("y")))(TABLE)
    assert out.sharding == NamedSharding(Mesh(purax.devices()[:2], ("y",)), P("y"))


# --- the mesh that jit runs on


def test_jit_runs_on_the_devices_of_the_mesh_that_is_set():
    fun = purax.jit(lambda x: x * 3)
    assert fun(TABLE).sharding == SingleDeviceSharding(purax.devices()[0])
    with purax.set_mesh(pair()):
        assert fun(TABLE).sharding == NamedSharding(pair(), P())
        assert purax.jit(lambda: 1)().sharding == NamedSharding(pair(), P())
        with pytest.raises(
            ValueError, match=r"argument x of .* device ids \[3\].*context mesh with device ids \[0, 1\]"
        ):
            fun(purax.device_put(TABLE, purax.devices()[3]))
        with pytest.raises(ValueError, match="should not be used with jit when backend or device"):
            purax.jit(abs, device=purax.devices()[0])(TABLE)
        with pytest.raises(ValueError, match="outside of `jit`"):
            purax.jit(lambda x: purax.set_mesh(pair()) and x)(1.0)
    assert fun(TABLE).sharding == SingleDeviceSharding(purax.devices()[0])
    with pair():  # specs mean it; nothing is moved
        assert fun(TABLE).sharding == SingleDeviceSharding(purax.devices()[0])


def test_a_mesh_that_is_no_longer_set_leaves_no_trace():
    before = unusual.count
    with purax.set_mesh(pair()), pair(), use_abstract_mesh(AXES), purax.set_mesh(None):
        assert purax.jit(abs)(TABLE).sharding == SingleDeviceSharding(purax.devices()[0])
    assert unusual.count == before
    purax.set_mesh(None)
    assert unusual.count == before


def test_pjit_runs_on_the_devices_of_the_mesh_that_is_entered():
    fun = pjit(lambda x: x * 3)
    assert fun(TABLE).sharding == SingleDeviceSharding(purax.devices()[0])
    whole = pjit(lambda x: x * 3, P("x"), None)
    with pair() as mesh:
        assert fun(TABLE).sharding == whole(TABLE).sharding == NamedSharding(mesh, P())

    @pair()
    def decorated():
        return fun(TABLE).sharding

    assert decorated() == NamedSharding(pair(), P())


def test_specs_of_types_mean_the_current_mesh():
    spec = purax.ShapeDtypeStruct((8, 4), np.float32, sharding=P("x"))
    with pytest.raises(TypeError, match="context mesh cannot be empty"):
        spec.sharding
    with purax.set_mesh(pair()):
        assert spec.sharding == NamedSharding(pair(), P("x")) == pnp.zeros_like(spec).sharding
        assert pnp.zeros_like(purax.ShapeDtypeStruct((8,), np.float32, sharding=CUT)).sharding.mesh is pair()
    with pytest.raises(ValueError, match="rank at least 3"):
        purax.ShapeDtypeStruct((8, 4), np.float32, sharding=P(None, "x", None))


# --- errors and stages


OPEN = P(P.UNCONSTRAINED, "x")


@pytest.mark.parametrize(
    ("options", "args", "kind", "message"),
    [
        ({"in_shardings": OPEN}, (TABLE,), ValueError, "Unconstrained dims are not allowed in in_shardings"),
        ({"out_shardings": OPEN}, (TABLE,), ValueError, "Unconstrained dims are not allowed in out_shardings"),
        ({"in_shardings": "x"}, (TABLE,), TypeError, "expected to be PartitionSpec"),
        ({"in_shardings": P("x")}, (TABLE,), RuntimeError, "jit requires a non-empty mesh.*in_shardings"),
        ({"in_shardings": [None, None]}, (TABLE,), ValueError, "length 2 for an args tuple of length 1"),
        ({"in_shardings": {"x": None}}, (TABLE,), ValueError, "in_shardings is not a tuple"),
        ({"in_shardings": "cut"}, (TABLE[:3],), ValueError, "pytree key path x .*evenly divide"),
        ({"in_shardings": "cut"}, (TABLE[0, 0],), ValueError, "path x .*rank at least 1, but .* rank 0"),
        ({"out_shardings": "cut"}, (TABLE[:3],), ValueError, "path result.*evenly divide"),
        ({"out_shardings": "none"}, (TABLE,), ValueError, "empty NamedSharding"),
        ({"device": "first", "in_shardings": "cut"}, (TABLE,), ValueError, "then in_shardings should not"),
        ({"device": "first", "backend": "cpu"}, (TABLE,), ValueError, "both a device and a backend"),
    ],
)  # fmt: skip
def test_what_cannot_be_asked_for(options, args, kind, message):
    given = {"cut": NamedSharding(pair(), P("x")), "first": purax.devices()[0]}
    given["none"] = NamedSharding(Mesh(np.empty((), object), ()), P())
    options = {name: given.get(value, value) if isinstance(value, str) else value for name, value in options.items()}
    with pytest.raises(kind, match=message):
        purax.jit(lambda x: x, **options)(*args)


def test_arguments_on_different_devices_are_named():
    x, y = on(pair(), "x"), purax.device_put(TABLE, purax.devices()[3])
    fun = purax.jit(lambda a, b: a + b["c"])
    message = r"argument a of .* device ids \[0, 1\].* and argument b\['c'\] of .* device ids \[3\]"
    with pytest.raises(ValueError, match=message):
        fun(x, {"c": y})
    with pytest.raises(ValueError, match="explicit output sharding with device ids"):
        purax.jit(abs, out_shardings=NamedSharding(pair(), P("x")))(y)
    with pytest.raises(ValueError, match="a mesh inside of it with device ids"):
        purax.jit(lambda x: lax.with_sharding_constraint(x, NamedSharding(pair(), P("x"))))(y)
    with pytest.raises(ValueError, match="kwargs"):
        purax.jit(abs, in_shardings=NamedSharding(pair(), P("x")))(x=x)
    inner = purax.jit(abs, compiler_options={"xla_cpu_enable_fast_math": False})
    with pytest.raises(ValueError, match="top-level"):
        purax.jit(lambda x: inner(x) + 1)(TABLE)
    with pytest.raises(ValueError, match="spmd_axis_name"):
        one = SingleDeviceSharding(purax.devices()[0])
        purax.jit(purax.vmap(lambda x: lax.with_sharding_constraint(x, one), spmd_axis_name="x"))(TABLE)


def test_uneven_constraints_within_a_program():
    def fun(x):
        return pnp.pad(lax.with_sharding_constraint(x[:3] * 2, NamedSharding(pair(), P("x"))), ((0, 1), (0, 0)))

    np.testing.assert_array_equal(purax.jit(fun)(TABLE)[:3], TABLE[:3] * 2)
    uneven = purax.jit(lambda x: lax.with_sharding_constraint(x * 2, NamedSharding(pair(), P("x"))))(TABLE[:3])
    np.testing.assert_array_equal(uneven, TABLE[:3] * 2)


def test_compiled_programs_tell_where_things_lie():
    x = on(pair(), "x")
    compiled = purax.jit(lambda x, y, n: {"out": x * n + y}, static_argnums=2).lower(x, 1.0, 3).compile()
    (first, second), keywords = compiled.input_shardings
    assert first == NamedSharding(pair(), P("x")) and second == NamedSharding(pair(), P()) and keywords == {}
    assert compiled.output_shardings == {"out": NamedSharding(pair(), P("x"))}
    assert compiled.out_info["out"].sharding == NamedSharding(pair(), P("x"))
    np.testing.assert_array_equal(compiled(x, 1.0)["out"], TABLE * 3 + 1)
    single = purax.jit(abs).lower(TABLE).compile()
    assert single.input_shardings == ((SingleDeviceSharding(purax.devices()[0]),), {})
    with pytest.raises(ValueError, match="must match the device_assignment calculated"):
        purax.jit(abs).lower(x).compile(device_assignment=purax.devices()[:1])


def test_arrays_are_donated_where_their_memory_is_taken():
    x, y = on(pair(), "x"), on(pair(), "x")
    with pytest.warns(UserWarning, match="not usable"):
        purax.jit(lambda x: x @ x.T, donate_argnums=0)(x)
    purax.jit(lambda x: x + 1, donate_argnums=0)(y)
    assert not x.is_deleted() and y.is_deleted()
    a, b = on(pair(), "x"), on(pair(), "x")
    purax.device_put((a, b), NamedSharding(pair(), P()), donate=(True, False))
    assert a.is_deleted() and not b.is_deleted()


def test_a_device_put_within_a_program_spreads_the_value():
    cut = NamedSharding(pair(), P("x"))
    assert purax.jit(lambda x: purax.device_put(x, cut) * 2)(TABLE).sharding == cut
    assert purax.jit(lambda x: pnp.array(x, device=cut))(TABLE).sharding == cut
    assert lax.full_like(on(pair(), "x"), 1.0).sharding == cut


def test_values_that_lie_alike():
    x, y = on(pair(), "x"), np.ones((8, 4), np.float32)
    for fun in (shard_alike, purax.jit(shard_alike)):
        for out, want in zip(fun({"a": x}, {"a": y}), (TABLE, y), strict=True):
            assert out["a"].sharding == NamedSharding(pair(), P("x"))
            np.testing.assert_array_equal(out["a"], want)
    mapped = purax.jit(lambda x, y: purax.vmap(shard_alike, in_axes=(0, None))(x, y[0])[1])
    assert mapped(x, y).shape == (8, 4)
    twice = lambda x: pnp.sum(shard_alike(x, pnp.ones((8, 4)) * x)[1] ** 2)
    np.testing.assert_allclose(purax.grad(twice)(x), 2 * TABLE)
    np.testing.assert_array_equal(shard_alike(y, y)[0], y)
    with pytest.raises(ValueError, match=r"leaves shapes .* `x\['a'\]` of shape \(8, 4\)"):
        shard_alike({"a": x}, {"a": y[0]})
    with pytest.raises(ValueError, match="Trees should be equal"):
        shard_alike({"a": x}, y)
