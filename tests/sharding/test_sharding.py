# SPDX-License-Identifier: Apache-2.0
"""Meshes, specs and shardings, on stand-ins for devices: no backend is needed."""

import operator
import pickle
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pytest

from purax.sharding import (
    AbstractMesh,
    AxisType,
    Mesh,
    NamedSharding,
    P,
    PartitionSpec,
    SingleDeviceSharding,
    current_mesh,
    get_abstract_mesh,
    get_mesh,
    placement_of,
    set_mesh,
    use_mesh,
)
from purax.sharding.named import shard_slices


class Client:
    """The process 0."""

    def process_index(self):
        return 0


CLIENT = Client()


@dataclass(frozen=True)
class Device:
    """A stand-in for a device."""

    id: int
    process_index: int = 0
    client = CLIENT


DEVICES = [Device(index) for index in range(8)]
MESH = Mesh(np.array(DEVICES).reshape(2, 4), ("x", "y"))


def test_specs_compare_by_what_they_mean_and_print_as_written():
    assert P is PartitionSpec
    assert repr(P("x", None, ("y", "z"))) == "P('x', None, ('y', 'z'))" and repr(P()) == "P()"
    assert P(("x",)) == P("x") and P("x", None) != P("x") and P("x") != ("x",)
    assert hash(P(["x", "y"])) == hash(P(("x", "y")))
    assert len(P("x", None)) == 2 and list(P("x", None)) == ["x", None] and P("x", "y")[1] == "y"
    assert P("x") + P("y") == P("x", "y") and operator.add(("x",), P("y")) == P("x", "y")
    assert pickle.loads(pickle.dumps(P("x", P.UNCONSTRAINED))) == P("x", P.UNCONSTRAINED)
    assert P("x", ("y", "z"), None).axis_names() == ("x", "y", "z")


def test_specs_say_where_sums_are_open():
    spec = P("a", None, unreduced={"c"}, reduced={"d"})
    assert repr(spec) == "P('a', None, unreduced={'c'}, reduced={'d'})" and spec.partitions == ("a", None)
    assert spec == P("a", None, unreduced=["c"], reduced=["d"]) != P("a", None, unreduced={"c"})
    assert pickle.loads(pickle.dumps(spec)) == spec and hash(spec) == hash(spec.update())
    assert P("x", unreduced={"z"}) + P("a", unreduced={"b"}) == P("x", "a", unreduced={"z", "b"})
    assert spec.update(partitions=("b",), reduced=()) == P("b", unreduced={"c"})
    assert P("x", "y", ("z",)).index("z") == 2 and P(None, (), "x").count(None) == 2
    with pytest.raises(TypeError, match="add a PartitionSpec"):
        operator.add(spec, (None,))


@pytest.mark.parametrize(
    ("partitions", "sums", "message"),
    [
        ((("a", ("b",)),), {}, "a tuple inside"), (("a",), {"unreduced": {None}}, "got None"),
        (("a",), {"unreduced": {"a"}}, "not two of these"), ((), {"unreduced": {"a"}, "reduced": {"a"}}, "not two of these"),
    ],
)  # fmt: skip
def test_specs_that_say_nothing_are_refused(partitions, sums, message):
    with pytest.raises(ValueError, match=message):
        P(*partitions, **sums)


def test_meshes_tell_their_axes_by_type():
    kinds = (AxisType.Explicit, AxisType.Auto, AxisType.Manual)
    for mesh in (
        Mesh(np.array(DEVICES).reshape(2, 2, 2), ("x", "y", "z"), kinds),
        AbstractMesh((2, 2, 2), ("x", "y", "z"), kinds),
    ):
        assert (mesh.explicit_axes, mesh.auto_axes, mesh.manual_axes) == (("x",), ("y",), ("z",))
        assert not mesh.are_all_axes_auto and not mesh.empty and mesh.size == 8
        assert mesh.shape_tuple == (("x", 2), ("y", 2), ("z", 2))
        assert mesh.update(axis_types=(AxisType.Manual,) * 3).are_all_axes_manual
        with pytest.raises(ValueError, match="one axis type for each"):
            mesh.update(axis_types=AxisType.Manual)
        assert mesh.abstract_mesh.update_axis_types({"y": AxisType.Explicit}).explicit_axes == ("x", "y")
    for wrong in ("explicit", ("explicit", AxisType.Auto)):
        with pytest.raises(TypeError, match="must be of type AxisType"):
            AbstractMesh((2, 2), ("x", "y"), wrong)


def test_a_mesh_without_axes_has_no_devices():
    for mesh in (AbstractMesh((), ()), Mesh(np.empty((), object), [])):
        assert mesh.empty and mesh.size == 0 and mesh.abstract_mesh.empty


def test_the_abstract_mesh_is_that_of_the_current_one():
    assert get_abstract_mesh().empty
    with use_mesh(MESH):
        assert get_abstract_mesh() == MESH.abstract_mesh


def test_a_mesh_gives_the_part_of_this_process():
    devices = [Device(i, process_index=i // 4) for i in range(8)]
    mesh = Mesh(np.array(devices).reshape(2, 4), ("x", "y"))
    assert mesh.local_mesh == Mesh(np.array(devices[:4]).reshape(1, 4), ("x", "y"))


def test_a_mesh_says_what_it_is():
    assert dict(MESH.shape) == {"x": 2, "y": 4} and MESH.size == 8 and MESH.axis_sizes == (2, 4) and not MESH.empty
    assert MESH == Mesh(np.array(DEVICES).reshape(2, 4), ["x", "y"]) and hash(MESH) == hash(
        Mesh(MESH.devices, ("x", "y"))
    )
    assert MESH != Mesh(np.array(DEVICES).reshape(4, 2), ("x", "y")) and MESH != Mesh(MESH.devices, ("x", "z"))
    assert str(MESH) == "Mesh('x': 2, 'y': 4, axis_types=(Auto, Auto))"
    assert repr(MESH) == "Mesh(axis_sizes=(2, 4), axis_names=('x', 'y'), axis_types=(Auto, Auto))"
    assert MESH.device_ids.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]] and MESH.local_devices == DEVICES
    assert not MESH.is_multi_process and MESH.axis_types == (AxisType.Auto, AxisType.Auto)
    assert MESH.abstract_mesh == AbstractMesh((2, 4), ("x", "y")) and dict(MESH.abstract_mesh.shape) == dict(MESH.shape)
    assert MESH.sdy_text() == '<["x"=2, "y"=4]>'
    assert Mesh(DEVICES, "x").axis_names == ("x",)
    with pytest.raises(ValueError, match=r"2 axes .* 1 axis names"):
        Mesh(MESH.devices, ("x",))
    with pytest.raises(ValueError, match="name of its own"):
        Mesh(MESH.devices, ("x", "x"))


def test_equal_meshes_and_equal_specs_are_one_object():
    assert Mesh(DEVICES, "x") is Mesh(np.array(DEVICES), ("x",))
    assert P((), "x", ("y",)) is P(None, "x", "y") is not P(None, "x")
    with pytest.raises(TypeError, match="has no subclasses"):
        type("Mine", (PartitionSpec,), {})


def test_threads_enter_and_leave_one_mesh_in_any_order():
    entered, left = threading.Event(), threading.Event()

    def other():
        with MESH:
            entered.set()
            left.wait(60)
            return current_mesh()

    with ThreadPoolExecutor(1) as pool:
        with MESH:
            found = pool.submit(other)
            assert entered.wait(60)
        left.set()
        assert found.result() is MESH and current_mesh() is None


def test_the_current_mesh_follows_with_blocks():
    assert current_mesh() is None and get_mesh().empty
    other = Mesh(DEVICES[:2], ("z",))
    with MESH as inner:
        assert current_mesh() is inner is MESH
        with use_mesh(other):
            assert get_mesh() is other
            with MESH:
                assert current_mesh() is MESH
        assert current_mesh() is MESH
    with set_mesh(other):
        assert current_mesh() is other
    assert current_mesh() is None


@pytest.mark.parametrize(
    ("spec", "hlo", "sdy"),
    [
        (P(), "{replicated}", "[{}, {}]"),
        (P("x"), "{devices=[2,1,4]<=[8] last_tile_dim_replicate}", '[{"x"}, {}]'),
        (P("y"), "{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}", '[{"y"}, {}]'),
        (P(None, "y"), "{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}", '[{}, {"y"}]'),
        (P("x", "y"), "{devices=[2,4]<=[8]}", '[{"x"}, {"y"}]'),
        (P("y", "x"), "{devices=[4,2]<=[2,4]T(1,0)}", '[{"y"}, {"x"}]'),
        (P(("x", "y")), "{devices=[8,1]<=[8]}", '[{"x", "y"}, {}]'),
        (P(("y", "x")), "{devices=[8,1]<=[2,4]T(1,0)}", '[{"y", "x"}, {}]'),
        (P("x", P.UNCONSTRAINED), "{devices=[2,1,4]<=[8] last_tile_dim_replicate}", '[{"x"}, {?}]'),
    ],
    ids=str,
)
def test_the_two_texts_of_a_named_sharding(spec, hlo, sdy):
    sharding = NamedSharding(MESH, spec)
    assert sharding.hlo_sharding_text(2) == hlo
    assert sharding.sdy_text(2) == f"#sdy.sharding<@mesh, {sdy}>"
    if P.UNCONSTRAINED not in tuple(spec):
        assert_pieces_cover(sharding)


def assert_pieces_cover(sharding):
    counted = np.zeros((8, 8), int)
    for index in sharding.devices_indices_map((8, 8)).values():
        assert counted[index].shape == sharding.shard_shape((8, 8))
        counted[index] += 1
    assert (counted == 8 // np.prod(sharding.dimension_cuts(2))).all()


def test_pieces_follow_the_order_of_the_axes():
    index = NamedSharding(MESH, P(("y", "x"))).devices_indices_map((8,))
    assert index[DEVICES[4]] == (slice(1, 2),) and index[DEVICES[1]] == (slice(2, 3),)
    assert shard_slices(NamedSharding(MESH, P()), (3,)) == ((slice(None),),) * 8


def test_a_named_sharding_refuses_what_cannot_be():
    with pytest.raises(ValueError, match=r"'z'.*'x', 'y'"):
        NamedSharding(MESH, P("z"))
    with pytest.raises(ValueError, match="twice"):
        NamedSharding(MESH, P("x", "x"))
    with pytest.raises(TypeError, match="PartitionSpec"):
        NamedSharding(MESH, ("x",))
    with pytest.raises(ValueError, match=r"axis 0 .* 2 pieces"):
        NamedSharding(MESH, P("x")).shard_shape((3,))
    with pytest.raises(ValueError, match="2 entries, but the array has 1"):
        NamedSharding(MESH, P("x", None)).shard_shape((4,))


def test_shardings_compare_by_value_and_by_effect():
    first = NamedSharding(MESH, P("x"))
    assert first == NamedSharding(MESH, P("x")) and hash(first) == hash(NamedSharding(MESH, P("x")))
    assert first != NamedSharding(MESH, P("x", None)) and first.is_equivalent_to(NamedSharding(MESH, P("x", None)), 2)
    assert not first.is_equivalent_to(NamedSharding(MESH, P("y")), 1)
    assert NamedSharding(MESH, P()).is_fully_replicated and not first.is_fully_replicated
    assert first.device_set == set(DEVICES) == first.addressable_devices and first.num_devices == 8
    single = SingleDeviceSharding(DEVICES[3])
    assert (
        single.is_fully_replicated
        and single.shard_shape((5, 3)) == (5, 3)
        and single == SingleDeviceSharding(DEVICES[3])
    )
    assert single.devices_indices_map((5,)) == {DEVICES[3]: (slice(None),)}
    assert single.is_equivalent_to(NamedSharding(Mesh([DEVICES[3]], "x"), P("x")), 1)
    assert first.update(spec=P("y")) == NamedSharding(MESH, P("y"))


def test_devices_of_other_processes_are_not_addressable():
    devices = [Device(0), Device(1, process_index=1)]
    sharding = NamedSharding(Mesh(devices, "x"), P("x"))
    assert not sharding.is_fully_addressable and sharding.addressable_devices == {devices[0]}
    assert sharding.addressable_devices_indices_map((4,)) == {devices[0]: (slice(0, 2),)}


def test_named_shardings_of_meshes_without_devices_compare_by_value():
    spec = NamedSharding(MESH.abstract_mesh, P("x"))
    assert spec.is_equivalent_to(NamedSharding(MESH.abstract_mesh, P("x")), 2)
    assert not spec.is_equivalent_to(NamedSharding(MESH.abstract_mesh, P("y")), 2)


def test_a_named_sharding_knows_where_copies_lie_and_which_axes_may_be_open():
    assert NamedSharding(MESH, P("y")).replicated_axes == {"x"}
    assert NamedSharding(MESH, P("y")).has_addressable_devices
    with pytest.raises(ValueError, match="Explicit"):
        NamedSharding(MESH, P("x", unreduced={"y"}))
    assert NamedSharding(MESH, P()).with_memory_kind("device") == NamedSharding(MESH, P())
    with pytest.raises(NotImplementedError, match="pinned_host"):
        NamedSharding(MESH, P()).with_memory_kind("pinned_host")


def test_a_sharding_without_devices_says_in_which_memory_arrays_shall_lie():
    plain = NamedSharding(MESH.abstract_mesh, P("x"))
    pinned = NamedSharding(MESH.abstract_mesh, P("x"), memory_kind="pinned_host")
    assert plain.memory_kind is None and pinned.memory_kind == "pinned_host" and plain != pinned
    assert plain.with_memory_kind("pinned_host") == pinned == pickle.loads(pickle.dumps(pinned)) == pinned.update()
    assert NamedSharding(MESH, P("x")).memory_kind == "device"
    for make in (lambda: NamedSharding(MESH, P(), memory_kind="disk"), lambda: SingleDeviceSharding(DEVICES[0], memory_kind="disk")):  # fmt: skip
        with pytest.raises(ValueError, match="invalid memory kind"):
            make()


def test_placements_are_interned():
    first = placement_of(NamedSharding(MESH, P("x")))
    assert first is placement_of(NamedSharding(MESH, P("x"))) and first.committed and first.devices == tuple(DEVICES)
    assert first is not placement_of(NamedSharding(MESH, P("x")), False)


def test_no_part_of_it_needs_jaxlib():
    code = "import purax.sharding, sys; assert not [m for m in sys.modules if m.split('.')[0] in ('jax', 'jaxlib')]"
    code = (
        "import sys, types; m = types.ModuleType('purax'); m.__path__ = sys.argv[1:]; sys.modules['purax'] = m; " + code
    )
    import purax

    subprocess.run([sys.executable, "-c", code, *purax.__path__], check=True)
