# SPDX-License-Identifier: Apache-2.0
"""Compiled programs as bytes that another process runs; topologies."""

import collections
import hashlib
import json
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import purax
from purax import errors, random
from purax import numpy as pnp
from purax.experimental import serialize_executable, topologies
from purax.experimental.serialize_executable import deserialize_and_load, serialize
from purax.sharding import NamedSharding
from purax.sharding import PartitionSpec as P

TABLE = np.linspace(0, 1, 5000, dtype=np.float32)
Pair = collections.namedtuple("Pair", "first second")


def again(compiled):
    return deserialize_and_load(*serialize(compiled))


def test_a_loaded_program_is_called_as_the_compiled_one():
    table = pnp.asarray(TABLE)

    def function(x, n, pair, unused, *, key, zero):
        return (
            {"sum": (x["w"] ** n).sum() + table.sum(), "pair": Pair(pair.second, pair.first)},
            random.split(key),
            zero,
        )

    x = {"w": np.arange(3, dtype=np.float32)}
    arguments = dict(key=random.key(0), zero=np.zeros(2, purax.float0))
    jitted = purax.jit(function, static_argnums=1, donate_argnums=2)

    def pair():
        return Pair(pnp.ones(2), pnp.zeros(2))

    compiled = jitted.lower(x, 2, pair(), 5.0, **arguments).compile()
    loaded = again(compiled)
    for name in ("in_tree", "out_tree", "args_info", "in_avals", "out_avals", "donate_argnums"):
        assert getattr(loaded, name) == getattr(compiled, name)
    assert str(loaded.out_info) == str(compiled.out_info)
    given = pair()
    want, have = compiled(x, 2, pair(), 5.0, **arguments), loaded(x, given, 5.0, **arguments)
    assert given.first.is_deleted() and have[2].dtype == purax.float0
    assert (have[1] == want[1]).all()
    for a, b in zip(purax.tree.leaves(have[0]), purax.tree.leaves(want[0]), strict=True):
        np.testing.assert_array_equal(a, b)
    with pytest.raises(TypeError, match=r"x\['w'\].*float32\[3\].*float32\[2\]"):
        loaded({"w": x["w"][:2]}, pair(), 5.0, **arguments)
    assert loaded.cost_analysis() and "HloModule" in loaded.as_text()


def test_static_arguments_may_be_left_out():
    compiled = (
        purax.jit(lambda n, x, *, m: x * n + m, static_argnums=0, static_argnames="m").lower(7, 8.0, m=1).compile()
    )
    assert compiled(8.0) == compiled(7, 8.0) == compiled(7, 8.0, m=1) == 57


LOAD = """
import pickle, sys
import numpy as np
import purax
from purax.experimental.serialize_executable import deserialize_and_load

saved = pickle.load(open(sys.argv[1], "rb"))
print(float(deserialize_and_load(*saved)(np.eye(3, dtype=np.float32), 1.0)))
"""


def test_a_program_runs_in_another_process_and_compiles_nothing(tmp_path):
    function = purax.jit(lambda x, y: pnp.linalg.inv(x * 2).sum() + TABLE.sum() * y)
    compiled = function.lower(np.eye(3, dtype=np.float32), 1.0).compile()
    path = tmp_path / "saved"
    path.write_bytes(pickle.dumps(serialize(compiled)))
    command = [sys.executable, "-c", LOAD, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(purax.__file__).parents[1])
    assert done.returncode == 0, done.stderr
    assert abs(float(done.stdout) - 2501.5) < 0.01


@pytest.mark.devices
def test_a_program_is_loaded_onto_other_devices():
    devices = purax.devices()
    one = serialize(purax.jit(lambda x: x + 1).lower(1.0).compile())
    assert deserialize_and_load(*one)(1.0) == 2
    assert deserialize_and_load(*one, execution_devices=devices[3:4])(1.0).devices() == {devices[3]}
    mesh = topologies.make_mesh(topologies.TopologyDescription(devices[:4]), (2, 2), ("x", "y"))
    spec = purax.ShapeDtypeStruct((4, 4), np.float32, sharding=NamedSharding(mesh, P("x", "y")))
    four = serialize(purax.jit(lambda x: x.sum(0)).lower(spec).compile())
    x = np.arange(16, dtype=np.float32).reshape(4, 4)
    for chosen in (None, devices[4:]):
        result = deserialize_and_load(*four, execution_devices=chosen)(x)
        np.testing.assert_array_equal(result, x.sum(0))
        assert result.devices() == set(chosen or devices[:4])
    with pytest.raises(ValueError, match="compiled for 4 devices, and execution_devices has 1"):
        deserialize_and_load(*four, execution_devices=devices[:1])


def test_what_needs_this_process_cannot_be_kept():
    ref = purax.new_ref(pnp.zeros(()))

    def adds(x):
        ref[...] += x

    def prints(x):
        purax.debug.print("{}", x)
        return x

    for function, why in (
        (adds, "can't serialize with a closed-over mutable reference"),
        (prints, "functions or checks"),
    ):
        with pytest.raises(ValueError, match=why):
            serialize(purax.jit(function).lower(1.0).compile())


def changed(blob, **entries):
    """The bytes with other entries in their header."""
    head = len(serialize_executable._MAGIC) + 32
    sizes = [int.from_bytes(blob[head + i : head + i + 8], "little") for i in (0, 8, 16)]
    start = head + 24
    header = json.dumps(json.loads(blob[start : start + sizes[0]]) | entries).encode()
    sizes[0], rest = len(header), blob[start + sizes[0] :]
    body = b"".join([*[size.to_bytes(8, "little") for size in sizes], header, rest])
    return serialize_executable._MAGIC + hashlib.sha256(body).digest() + body


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"jaxlib": "0.0.1"}, "compiled for jaxlib '0.0.1' and not"),
        ({"platform": "tpu"}, "compiled for platform 'tpu' and not 'cpu'"),
        ({"processor": ["no_such_feature"]}, "a processor with no_such_feature, which this one lacks"),
        ({"devices": [1000]}, r"compiled for the devices \[1000\]"),
    ],
)
def test_programs_for_others_are_refused(entries, message):
    blob, *structures = serialize(purax.jit(lambda x: x + 1).lower(1.0).compile())
    assert deserialize_and_load(changed(blob), *structures)(1.0) == 2
    with pytest.raises(ValueError, match=message):
        deserialize_and_load(changed(blob, **entries), *structures)


def test_damaged_bytes_and_wrong_structures_are_refused():
    blob, ins, outs = serialize(purax.jit(lambda x: x + 1).lower(1.0).compile())
    for wrong in (blob[:-1], b"", blob[:60] + b"x" + blob[61:], b"x" + blob):
        with pytest.raises(errors.DamagedFileError):
            deserialize_and_load(wrong, ins, outs)
    with pytest.raises(ValueError, match="takes 1 leaves, and in_tree has 2"):
        deserialize_and_load(blob, purax.tree.structure(((1, 2), {})), outs)
    with pytest.raises(errors.PlatformError):
        deserialize_and_load(blob, ins, outs, backend="tpu")


def test_topologies():
    topology = topologies.get_attached_topology()
    assert topology.devices == purax.devices() == topologies.get_attached_topology("cpu").devices
    mesh = topologies.make_mesh(topology, (len(topology.devices), 1), ("x", "y"))
    assert mesh.axis_names == ("x", "y") and list(mesh.devices.flat) == topology.devices
    with pytest.raises(ValueError, match="must equal the product of mesh_shape"):
        topologies.make_mesh(topology, (len(topology.devices) + 1,), ("x",))
    with pytest.raises(NotImplementedError, match="topology not implemented for cpu"):
        topologies.get_topology_desc(platform="cpu")
    with pytest.raises(errors.PlatformError, match="describes topologies, is not installed"):
        topologies.get_topology_desc("1x1x1", platform="no_such_platform")
