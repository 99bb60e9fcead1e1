# SPDX-License-Identifier: Apache-2.0
"""Exported functions mean what the function means: for every size, in another process, differentiated, inside of others."""

import collections
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import purax
from purax import errors, export, lax, linen, nn, random
from purax import numpy as pnp
from purax.core.dims import is_open
from purax.sharding import AbstractMesh, AxisType, Mesh, NamedSharding, P

pytestmark = pytest.mark.xla

RNG = np.random.default_rng(0)
WEIGHTS = RNG.normal(size=(4, 6)).astype(np.float32)
KERNEL = RNG.normal(size=(3, 3, 2, 5)).astype(np.float32)


def struct(shape, dtype=np.float32, **more):
    return purax.ShapeDtypeStruct(export.symbolic_shape(shape, **more), dtype)


def again(exported, vjp_order=0):
    return export.deserialize(exported.serialize(vjp_order))


# --- all sizes --------------------------------------------------------------------------------------------------------------


def counted(x):
    return lax.fori_loop(0, x.shape[0], lambda i, total: total + pnp.asarray(x)[i], pnp.zeros(x.shape[1]))


FUNCTIONS = {
    "elementwise": (lambda x: pnp.sin(x) + 1, "b, 4"),
    "dense": (lambda x: nn.relu(x @ WEIGHTS), "b, 4"),
    "both open": (lambda x: x @ x.T, "b, c"),
    "reshape to one axis": (lambda x: x.reshape(-1), "b, 4"),
    "reshape by known sizes": (lambda x: x.reshape(x.shape[0] * 2, -1), "b, 4"),
    "concatenate": (lambda x: pnp.concatenate([x, x, x[:1]]), "b, 4"),
    "mean": (lambda x: x.mean(0), "b, 4"),
    "variance": (lambda x: x.var(0), "b, 4"),
    "softmax": (lambda x: nn.softmax(x, axis=0), "b, 4"),
    "arange": (lambda x: x[:, 0] * pnp.arange(x.shape[0], dtype=x.dtype), "b, 4"),
    "arange in steps": (lambda x: pnp.arange(1, 3 * x.shape[0], 2), "b, 4"),
    "the size as a value": (lambda x: (x.shape[0] + x) / x.size, "b, 4"),
    "first and last": (lambda x: x[0] + x[-1], "b, 4"),
    "slices": (lambda x: (x[1:], x[:-1], x[::-1], x[:, 1:3]), "b, 4"),
    "pad": (lambda x: pnp.pad(x, ((1, 2), (0, 0))), "b, 4"),
    "running sum": (lambda x: pnp.cumsum(x, 0), "b, 4"),
    "sorted": (lambda x: (pnp.sort(x, 0), x.argmax(0)), "b, 4"),
    "vmap": (lambda x: purax.vmap(lambda row: row @ WEIGHTS)(x), "b, 4"),
    "scan": (lambda x: lax.scan(lambda c, row: (c + row, c), pnp.zeros(4), x), "b, 4"),
    "loop": (counted, "b, 4"),
    "update": (lambda x: pnp.asarray(x).at[0].add(x[-1]), "b, 4"),
    "take": (lambda x: pnp.take(x, pnp.array([0, 0]), axis=0), "b, 4"),
    "convolution": (lambda x: lax.conv_general_dilated(x, KERNEL, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")), "b, 6, 6, 2"),
    "pooling": (lambda x: linen.max_pool(x, (2, 2), (2, 2)), "b, 6, 6, 2"),
    "gradient": (lambda x: purax.grad(lambda x: (x**2).mean())(x), "b, 4"),
    "random": (lambda x: x + random.uniform(random.key(0), x.shape), "b, 4"),
    "factored": (lambda x: pnp.linalg.qr(x[:, :, None] * x[:, None, :] + pnp.eye(4))[1], "b, 4"),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_one_program_serves_all_sizes(name):
    function, shape = FUNCTIONS[name]
    exported = again(export.export(purax.jit(function))(struct(shape)))
    assert is_open(exported.in_avals[0].shape)
    for size in (1, 2, 5):
        sizes = [size if text in "bc" else int(text) for text in shape.split(", ")]
        x = RNG.normal(size=sizes).astype(np.float32)
        have, want = exported.call(x), function(x)
        assert purax.tree.structure(have) == purax.tree.structure(want)
        for one, other in zip(purax.tree.leaves(have), purax.tree.leaves(want), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_a_network_is_exported_with_an_open_batch():
    model = linen.Sequential([linen.Dense(8), nn.tanh, linen.LayerNorm(), linen.Dense(3)])
    x = RNG.normal(size=(7, 4)).astype(np.float32)
    params = model.init(random.key(0), x)
    exported = again(export.export(purax.jit(lambda x: model.apply(params, x)))(struct("batch, 4")))
    assert str(exported.out_avals[0].shape) == "(batch, 3)"
    np.testing.assert_allclose(exported.call(x), model.apply(params, x), rtol=1e-5, atol=1e-6)


def test_types_of_outputs_are_expressions():
    scope = export.SymbolicScope()
    shapes = [export.symbolic_shape(text, scope=scope) for text in ("2*w, h", "w, h")]
    specs = [purax.ShapeDtypeStruct(shape, np.float32) for shape in shapes]
    exported = export.export(purax.jit(lambda a, b: pnp.concatenate([a, b])))(*specs)
    assert str(exported.out_avals[0].shape) == "(3*w, h)"
    assert exported.call(np.ones((4, 3), np.float32), np.ones((2, 3), np.float32)).shape == (6, 3)
    with pytest.raises(errors.ShapeError, match=r"args\[1\]\.shape\[0\] is 3, and by .* it is w = 2"):
        exported.call(np.ones((4, 3), np.float32), np.ones((3, 3), np.float32))


@pytest.mark.parametrize(
    ("shape", "given", "message"),
    [
        ("3, 4, 12", (3, 4, 13), r"args\[0\].shape\[2\] is 13"),
        ("a, 6*a", (2, 13), "13, and by .* it is 6.a = 12"),
        ("6*a,", (13,), "gives no whole number for 'a'"),
        ("a + 1,", (1,), "'a' in a . 1 is 0, and dimension variables are at least 1"),
        ("a, b", (3,), "has shape .3,., and was exported with 2 axes"),
        ("a*a,", (4,), "the dimension variables a cannot be found"),
    ],
)
def test_sizes_that_do_not_fit_are_told(shape, given, message):
    exported = export.export(purax.jit(lambda x: x + 1))(struct(shape))
    with pytest.raises(ValueError, match=message):
        exported.call(np.zeros(given, np.float32))


def test_constraints_decide_at_export_and_are_checked_at_the_call():
    function = purax.jit(lambda x: lax.dynamic_slice_in_dim(x, 1, 3, 0))
    with pytest.raises(errors.InconclusiveDimensionOperation):
        export.export(function)(struct("a, 2"))
    exported = again(export.export(function)(struct("a, 2", constraints=["a >= 3"])))
    assert exported.call(np.zeros((4, 2), np.float32)).shape == (3, 2)
    with pytest.raises(errors.ShapeError, match="the constraint 'a >= 3' does not hold for a = 2"):
        exported.call(np.zeros((2, 2), np.float32))
    with pytest.raises(ValueError, match="no argument tells the dimension variable 'n'"):
        export.export(function)(struct("a, 2", constraints=["a >= n + 3"]))
    with pytest.raises(ValueError, match="belongs to another scope"):
        export.export(purax.jit(lambda x, y: (x, y)))(struct("a"), struct("b"))


def test_an_exported_function_is_exported_within_another():
    inner = export.export(purax.jit(lambda x: x.reshape(-1, x.shape[1]) * 2))(struct("3, a, a + 8"))
    outer = purax.jit(lambda x: inner.call(x) + 1)
    exported = again(export.export(outer)(struct("3, c + 2, c + 10")))
    x = RNG.normal(size=(3, 4, 12)).astype(np.float32)
    np.testing.assert_allclose(exported.call(x), 2 * x.reshape(-1, 4) + 1, rtol=1e-6)
    with pytest.raises(errors.ShapeError):
        export.export(outer)(struct("3, c, c"))


def test_shapes_of_arguments_are_written_in_one_scope():
    args = {"x": np.zeros((2, 3)), "y": np.zeros((3,), np.int32)}
    specs = export.symbolic_args_specs(args, {"x": "a, ...", "y": "_"})
    assert str(specs["x"].shape) == "(a, 3)" and specs["y"].shape == (3,)
    same = export.symbolic_args_specs((args["x"], args["y"]), ("b, c", "c"))
    assert same[0].shape[1] == same[1].shape[0]
    for wrong, like in (("(a", None), ("_, a", None), ("a, ...", None), ("a, b", (1,)), ("a, 4", (2, 3))):
        with pytest.raises(ValueError):
            export.symbolic_shape(wrong, like=like)


# --- the calling convention -------------------------------------------------------------------------------------------------


class Pair:
    def __init__(self, first, name):
        self.first, self.name = first, name


purax.tree_util.register_pytree_node(Pair, lambda p: ((p.first,), p.name), lambda name, children: Pair(*children, name))
Point = collections.namedtuple("Point", "x y")
export.register_pytree_node_serialization(
    Pair, serialized_name="tests.Pair", serialize_auxdata=str.encode, deserialize_auxdata=bytes.decode
)
export.register_namedtuple_serialization(Point, serialized_name="tests.Point")


def test_an_open_shape_is_a_value():
    exported = export.export(purax.jit(lambda x: lax.shape_as_value(x.shape)))(struct("a, 3, b"))
    np.testing.assert_array_equal(exported.call(np.ones((2, 3, 5), np.float32)), [2, 3, 5])


def test_structures_survive():
    x = np.ones(2, np.float32)
    args = (Point(x, [x, None]), {"b": Pair(x, "name"), "a": collections.OrderedDict(z=x, y=())})
    exported = export.export(purax.jit(lambda *args: (args, args[0].x)))(*args)
    loaded = again(exported)
    assert (loaded.in_tree, loaded.out_tree) == (exported.in_tree, exported.out_tree)
    assert (loaded.in_avals, loaded.fun_name, loaded.platforms) == (exported.in_avals, exported.fun_name, ("cpu",))
    assert purax.tree.structure(loaded.call(*args)) == purax.tree.structure((args, x))


def test_structures_that_cannot_be_written_are_told():
    other = collections.namedtuple("other", "x")
    with pytest.raises(ValueError, match="other, which is not registered for serialization"):
        export.export(purax.jit(lambda x: x))(other(1)).serialize()
    with pytest.raises(TypeError, match="strings as keys"):
        export.export(purax.jit(lambda x: x))({(0, 1): 1}).serialize()
    with pytest.raises(ValueError, match="registered already"):
        export.register_namedtuple_serialization(Point, serialized_name="tests.Other")
    with pytest.raises(ValueError, match="belongs to Point already"):
        export.register_namedtuple_serialization(other, serialized_name="tests.Point")
    with pytest.raises(ValueError, match="no named tuple"):
        export.register_namedtuple_serialization(str, serialized_name="text")


@pytest.mark.parametrize("impl", ["threefry2x32", "rbg", "unsafe_rbg"])
def test_random_keys_travel_as_words(impl):
    key = random.key(7, impl=impl)
    function = purax.jit(lambda key: (random.split(key), random.bits(key, (3,))))
    split, bits = again(export.export(function)(key)).call(key)
    assert split.dtype == key.dtype and (split == function(key)[0]).all()
    np.testing.assert_array_equal(bits, function(key)[1])


def test_static_arguments_and_constants_are_in_the_program():
    table = RNG.normal(size=(50, 30)).astype(np.float32)
    function = purax.jit(lambda x, n, *, scale: scale * (x + table) ** n, static_argnums=1, static_argnames="scale")
    x = np.ones((50, 30), np.float32)
    exported = again(export.export(function)(x, 2, scale=3.0))
    np.testing.assert_allclose(exported.call(x), 3 * (x + table) ** 2, rtol=1e-6)


def test_leaves_that_are_not_needed_are_no_arguments_of_the_program():
    exported = export.export(purax.jit(lambda x, d: {"y": x + d["w"]}))(1.0, {"unused": np.ones(3), "w": 2.0})
    for found in (exported, again(exported, 1)):
        assert found.module_kept_var_idx == (0, 2) and len(found.in_avals) == 3
        assert found.call(3.0, {"unused": np.ones(3, np.float32), "w": 4.0})["y"] == 7
        text = found.mlir_module()
        assert """loc("d['w']")""" in text and """{jax.result_info = "result['y']"}""" in text
        slope = purax.grad(lambda x: found.call(x, {"unused": np.ones(3, np.float32), "w": x})["y"])(1.0)
        assert slope == 2
    text = purax.jit(lambda x: exported.call(x, {"unused": np.ones(3, np.float32), "w": x})).lower(1.0).as_text()
    assert text.count("result_info") == 1


def test_wrong_calls_are_told():
    exported = export.export(purax.jit(lambda x, *, y: x + y))(np.ones(3, np.float32), y=np.ones(3, np.float32))
    with pytest.raises(errors.TreeMismatchError, match="takes arguments of the structure"):
        exported.call(np.ones(3, np.float32))
    with pytest.raises(errors.ExportedCallError, match=r"kwargs\['y'\] has dtype int32"):
        exported.call(np.ones(3, np.float32), y=np.ones(3, np.int32))
    with pytest.raises(ValueError, match="takes a function made by jit"):
        export.export(lambda x: x)
    other = export.export(purax.jit(lambda x: x + 1), platforms=["tpu"])(1.0)
    with pytest.raises(errors.ExportedCallError, match="exported for tpu, and is called on cpu"):
        other.call(1.0)
    checks = [export.DisabledSafetyCheck.platform()]
    assert export.export(purax.jit(lambda x: x + 1), platforms=["tpu"], disabled_checks=checks)(1.0).call(1.0) == 2


def test_damaged_bytes_are_refused():
    blob = bytes(export.export(purax.jit(pnp.sin))(1.0).serialize())
    for wrong in (blob[:-1], b"", blob[:40] + b"x" + blob[41:], b"x" + blob):
        with pytest.raises(errors.DamagedFileError):
            export.deserialize(wrong)


# --- inside of other functions ----------------------------------------------------------------------------------------------


def test_derivatives_of_every_order_that_was_kept():
    exported = export.export(purax.jit(lambda x, n: (x**3 * n, n)))(2.0, 3)
    first = lambda f: purax.grad(lambda x: f(x, 3)[0])
    loaded = again(exported, vjp_order=2).call
    assert (first(loaded)(2.0), purax.grad(first(loaded))(2.0)) == (36.0, 36.0)
    assert purax.jit(first(loaded))(2.0) == 36.0
    with pytest.raises(ValueError, match="has no derivative"):
        purax.grad(first(again(exported, vjp_order=1).call))(2.0)
    assert not again(exported).has_vjp()


def test_derivatives_with_open_sizes():
    exported = again(export.export(purax.jit(lambda x, w: pnp.tanh(x @ w).sum()))(struct("b, 4"), WEIGHTS), vjp_order=1)
    x = RNG.normal(size=(5, 4)).astype(np.float32)
    want = (1 - np.tanh(x @ WEIGHTS) ** 2).astype(np.float64)
    for have, right in zip(purax.grad(exported.call, (0, 1))(x, WEIGHTS), (want @ WEIGHTS.T, x.T @ want), strict=True):
        np.testing.assert_allclose(have, right, rtol=1e-4, atol=1e-5)


def test_functions_of_the_caller_keep_their_names():
    inner = purax.jit(lambda x: lax.fori_loop(0, 3, lambda i, c: pnp.sin(c) * i + pnp.cos(c) + c, x))
    exported = export.export(inner)(1.0)
    outer = purax.jit(lambda x: exported.call(x) + inner(x) + exported.call(inner(x)))
    np.testing.assert_allclose(outer(1.0), 2 * inner(1.0) + inner(inner(1.0)), rtol=1e-6)


# --- files ------------------------------------------------------------------------------------------------------------------

LOAD = """
import sys, numpy as np, purax
f = purax.load(sys.argv[1])
print(float(f(np.arange(3, dtype=np.float32), bias=np.float32(2))), float(purax.jit(f)(np.ones(3, np.float32), bias=np.float32(0))))
"""


def test_a_saved_function_runs_in_another_process(tmp_path):
    function = purax.jit(lambda x, n, *, bias: (x**n).sum() + bias, static_argnums=1)
    with pytest.raises(ValueError, match="called with 0 signatures"):
        function.save(tmp_path / "f")
    function(np.zeros(3, np.float32), 2, bias=np.float32(0))
    function.save(tmp_path / "f")
    root = str(Path(purax.__file__).parents[1])
    done = subprocess.run([sys.executable, "-c", LOAD, str(tmp_path / "f")], capture_output=True, text=True, cwd=root)
    assert done.stdout.split() == ["7.0", "3.0"], done.stderr
    function(np.zeros(4, np.float32), 2, bias=np.float32(0))
    with pytest.raises(ValueError, match="called with 2 signatures"):
        function.save(tmp_path / "f")
    function.save(tmp_path / "g", struct("n"), 3, bias=np.float32(0))
    assert purax.load(tmp_path / "g")(np.full(5, 2, np.float32), bias=np.float32(1)) == 41
    assert [file.name for file in sorted(tmp_path.iterdir())] == ["f", "g"]


# --- many devices -----------------------------------------------------------------------------------------------------------


def meshes():
    devices = purax.devices()
    return Mesh(np.array(devices[:2]), ("x",)), Mesh(np.array(devices[4:6][::-1]), ("other",))


def spread_by_jit(mesh):
    places = dict(in_shardings=NamedSharding(mesh, P("x")), out_shardings=NamedSharding(mesh, P(None, "x")))
    return purax.jit(lambda x: pnp.sin(2 * x), **places)


def spread_by_hand(mesh):
    turn = lambda x: lax.ppermute(x, "x", [(0, 1), (1, 0)]) + lax.axis_index("x")
    return purax.jit(purax.shard_map(turn, mesh=mesh, in_specs=P("x"), out_specs=P("x")))


@pytest.mark.devices
@pytest.mark.parametrize("shape", ["16, 4", "2*b, 4"])
@pytest.mark.parametrize("spread", [spread_by_jit, spread_by_hand])
def test_a_program_over_devices_runs_on_others(spread, shape):
    mesh, other = meshes()
    function = spread(mesh)
    exported = again(export.export(function)(struct(shape)), vjp_order=1)
    x = RNG.normal(size=(16, 4)).astype(np.float32)
    placed = purax.device_put(x, NamedSharding(other, P()))
    result = exported.call(placed)
    assert exported.nr_devices == 2 and set(result.devices()) == set(other.devices.flat)
    np.testing.assert_allclose(result, function(x), rtol=1e-6)
    slope = lambda f, x: purax.grad(lambda x: (f(x) ** 2).sum())(x)
    np.testing.assert_allclose(slope(exported.call, placed), slope(function, x), rtol=1e-5, atol=1e-6)
    with pytest.raises(errors.ExportedCallError, match="exported for 2 devices, and is called on 1"):
        exported.call(x)


@pytest.mark.devices
def test_a_program_for_one_device_runs_on_many():
    _, other = meshes()
    function = purax.jit(lambda x: (x**2).sum(0), in_shardings=NamedSharding(Mesh(purax.devices()[:1], ("x",)), P("x")))
    x = RNG.normal(size=(8, 4)).astype(np.float32)
    exported = again(export.export(function)(x))
    assert exported.nr_devices == 1
    for spec in (P(), P("other")):
        np.testing.assert_allclose(
            exported.call(purax.device_put(x, NamedSharding(other, spec))), (x**2).sum(0), rtol=1e-6
        )
    np.testing.assert_allclose(
        purax.pmap(exported.call)(np.stack([x, 2 * x])), [(x**2).sum(0), (4 * x**2).sum(0)], rtol=1e-6
    )


@pytest.mark.devices
def test_shardings_of_arguments_are_told_for_a_mesh():
    mesh, other = meshes()
    exported = again(export.export(spread_by_jit(mesh))(np.zeros((4, 4), np.float32)))
    renamed = Mesh(other.devices, ("x",))
    assert exported.in_shardings_jax(renamed) == (NamedSharding(renamed, P("x")),)
    assert exported.out_shardings_jax(renamed) == (NamedSharding(renamed, P(None, "x")),)


@pytest.mark.devices
def test_a_program_for_a_mesh_without_devices_runs_on_any_two():
    abstract = AbstractMesh((2,), ("x",))
    rows, columns = NamedSharding(abstract, P("x", None)), NamedSharding(abstract, P(None, "x"))
    function = purax.jit(lambda a, unused: purax.lax.with_sharding_constraint(a @ a.T, columns))
    spec = purax.ShapeDtypeStruct((4, 4), np.float32, sharding=rows)
    exported = again(export.export(function)(spec, 1.0))
    assert exported.nr_devices == 2 and exported.in_specs == (P("x", None), None)
    x = RNG.normal(size=(4, 4)).astype(np.float32)
    placed = purax.device_put(x, NamedSharding(Mesh(purax.devices()[2:4], ("x",)), P("x", None)))
    result = exported.call(placed, 1.0)
    np.testing.assert_allclose(result, x @ x.T, rtol=1e-6)
    assert [shard.index for shard in result.addressable_shards] == [
        (slice(None), slice(0, 2)),
        (slice(None), slice(2, 4)),
    ]


@pytest.mark.devices
def test_an_exported_program_leaves_sums_where_its_function_does():
    mesh = Mesh(purax.devices()[:2], ("x",), (AxisType.Explicit,))
    with purax.set_mesh(mesh):
        x = np.arange(4).reshape(2, 2)
        left, right = purax.device_put(x, P(None, "x")), purax.device_put(x, P("x", None))
        terms = P(None, None, unreduced={"x"})
        function = purax.jit(lambda a, b: pnp.einsum("ab,bc->ac", a, b, out_sharding=terms))
        want, have = function(left, right), again(export.export(function)(left, right)).call(left, right)
        assert have.sharding == want.sharding == NamedSharding(mesh, terms)
        for a, b in zip(have.addressable_shards, want.addressable_shards, strict=True):
            np.testing.assert_array_equal(a.data, b.data)


@pytest.mark.devices
def test_only_shardings_that_somebody_asked_for_are_in_the_derivative():
    rows = NamedSharding(meshes()[0], P("x"))
    x = np.ones((4, 3), np.float32)
    for ins, outs, wanted in ((rows, None, (True, False, True)), (None, rows, (False, True, False))):
        function = purax.jit(lambda x: pnp.sin(x) * 2, in_shardings=ins, out_shardings=outs)
        derivative = export.export(function)(x).vjp()
        head = next(line for line in derivative.mlir_module().splitlines() if "@main" in line)
        assert tuple("sdy.sharding" in part for part in head.split("tensor<4x3xf32>")[1:]) == wanted


def test_an_exported_function_of_several_devices_is_kept_with_its_shardings():
    mesh = purax.make_mesh((2,), ("d",))
    rows, columns = NamedSharding(mesh, P("d", None)), NamedSharding(mesh, P(None, "d"))
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    fun = purax.jit(lambda x: pnp.sin(x.T), in_shardings=columns, out_shardings=rows)
    exported = export.deserialize(export.export(fun)(x).serialize(vjp_order=1))
    assert exported.nr_devices == exported.vjp().nr_devices == 2
    assert exported.vjp().in_specs == (P(None, "d"), P("d", None)) and exported.vjp().out_specs == (P(None, "d"),)
    assert "sdy.sharding" in exported.mlir_module()
    everywhere = NamedSharding(mesh, P())
    call = purax.jit(exported.call, in_shardings=everywhere)
    np.testing.assert_allclose(call(x), np.sin(x.T), rtol=1e-6)
    pull = purax.jit(exported.vjp().call, in_shardings=(everywhere, everywhere))
    np.testing.assert_allclose(pull(x, x.T)[0], np.cos(x) * x, rtol=1e-5)


def test_a_caller_of_a_program_with_open_sizes_uses_global_constants():
    inner = export.export(purax.jit(lambda x: x + 1))(purax.ShapeDtypeStruct(export.symbolic_shape("a"), np.float32))
    outer = export.export(purax.jit(lambda x: purax.jit(inner.call)(x)))(np.ones(3, np.float32))
    assert export.deserialize(outer.serialize()).uses_global_constants
    assert not export.export(purax.jit(pnp.sin))(np.ones(3, np.float32)).uses_global_constants


def test_donation_is_refused_where_some_platforms_are_unknown():
    fun = purax.jit(pnp.sin, donate_argnums=0)
    export.export(fun, platforms=["cpu", "tpu"])(np.ones(3, np.float32))
    with pytest.raises(NotImplementedError, match="donat"):
        export.export(fun, platforms=["cpu", "other"])(np.ones(3, np.float32))


def test_a_mapped_call_of_an_exported_function_says_that_it_has_no_rule():
    exported = export.export(purax.jit(pnp.sin))(np.ones(3, np.float32))
    with pytest.raises(NotImplementedError, match="map the function before it is exported"):
        purax.vmap(exported.call)(np.ones((2, 3), np.float32))


def test_references_that_begin_and_end_inside_are_exported():
    def fun(x):
        ref = purax.new_ref(x)

        def step(_, factor):
            purax.jit(lambda r: r.__setitem__(..., pnp.sin(r[...]) * factor))(ref)
            return None, ref[0]

        _, firsts = lax.scan(step, None, pnp.arange(1.0, 4.0))
        return purax.freeze(ref).sum() + firsts.sum()

    x = pnp.array([0.3, 0.5])
    kept = again(export.export(purax.jit(fun))(struct("n")), vjp_order=1)
    np.testing.assert_allclose(kept.call(x), fun(x), rtol=1e-6)
    np.testing.assert_allclose(purax.grad(kept.call)(x), purax.grad(fun)(x), rtol=1e-5)
