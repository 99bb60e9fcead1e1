# SPDX-License-Identifier: Apache-2.0
"""Filters, FrozenDict, key streams, scopes, boxes, partition names, and the summary table."""

import gc
import hashlib
import pickle

import numpy as np
import pytest

import purax
from purax import linen as nn
from purax import numpy as pnp
from purax import random, tree
from purax.linen import errors, filters, frozen_dict, meta, scope
from purax.linen.keys import LazyRng
from purax.sharding import PartitionSpec

KEY = random.key(0)
X = pnp.ones((2, 4))


@pytest.mark.parametrize(
    "a", [True, False, "x", ["x", "y"], nn.DenyList("x"), nn.DenyList(["y", "z"]), nn.DenyList(True)]
)
@pytest.mark.parametrize("b", [True, False, "y", ("x", "z"), nn.DenyList(nn.DenyList("x")), nn.DenyList(("x", "y"))])
def test_union_and_intersection_of_filters_pass_what_either_or_both_pass(a, b):
    for name in "xyzw":
        passes = filters.in_filter(a, name), filters.in_filter(b, name)
        assert filters.in_filter(filters.union(a, b), name) == any(passes)
        assert filters.in_filter(filters.intersect(a, b), name) == all(passes)


def test_groups_take_the_first_filter_that_passes():
    assert filters.group({"a": 1, "b": 2, "c": 3}, ["a", nn.DenyList("c")]) == ({"a": 1}, {"b": 2})
    with pytest.raises(errors.InvalidFilterError):
        filters.in_filter(3, "a")


def test_frozen_dict_is_an_immutable_pytree():
    frozen = nn.FrozenDict({"b": {"c": 1}, "a": 2})
    assert isinstance(frozen["b"], nn.FrozenDict)
    assert frozen.unfreeze() == {"b": {"c": 1}, "a": 2}
    assert tree.leaves(frozen) == [2, 1]
    assert isinstance(tree.map(lambda x: x, frozen), nn.FrozenDict)
    assert frozen.copy({"a": 3})["a"] == 3
    assert frozen.pop("a") == (nn.FrozenDict({"b": {"c": 1}}), 2)
    assert hash(frozen) == hash(nn.FrozenDict({"a": 2, "b": {"c": 1}}))
    assert pickle.loads(pickle.dumps(frozen)) == frozen
    assert frozen_dict.copy({"a": 1}, {"b": 2}) == {"a": 1, "b": 2}
    assert frozen_dict.pop({"a": 1, "b": 2}, "a") == ({"b": 2}, 1)
    assert repr(nn.FrozenDict({"a": {"b": 1}})) == "FrozenDict({\n    'a': {\n        'b': 1,\n    },\n})"
    with pytest.raises(TypeError):
        frozen["a"] = 3


def test_keys_fold_in_the_hash_of_their_path():
    digest = hashlib.sha1(b"encoderDense_0\x01").digest()
    expected = random.fold_in(KEY, np.uint32(int.from_bytes(digest[:4], "big")))
    lazy = LazyRng.create(LazyRng.create(KEY, "encoder"), "Dense_0", 1)
    np.testing.assert_array_equal(random.key_data(lazy.as_jax_rng()), random.key_data(expected))
    assert LazyRng(KEY).as_jax_rng() is KEY
    assert len(tree.leaves(lazy)) == 1


def test_functions_of_a_scope_run_without_modules():
    def dense(place, x, features):
        kernel = place.param("kernel", nn.initializers.lecun_normal(), (x.shape[-1], features))
        return x @ kernel

    def model(place, x):
        return dense(place.push("a"), dense(place.push("b"), x, 5), 2)

    y, variables = scope.init(model)(KEY, X)
    assert tree.map(lambda leaf: leaf.shape, variables) == {
        "params": {"a": {"kernel": (5, 2)}, "b": {"kernel": (4, 5)}}
    }
    np.testing.assert_allclose(scope.apply(model)(variables, X), y, rtol=1e-6)
    with pytest.raises(errors.NameInUseError):
        scope.init(lambda place: (place.push("a"), place.push("a")))(KEY)


def test_partitioned_parameters_are_boxed_in_variables_and_plain_in_modules():
    init = nn.with_partitioning(nn.initializers.lecun_normal(), (None, "model"))
    layer = nn.Dense(3, kernel_init=init)
    variables = layer.init(KEY, X)
    kernel = variables["params"]["kernel"]
    assert isinstance(kernel, nn.Partitioned)
    assert nn.get_partition_spec(variables)["params"] == {
        "kernel": PartitionSpec(None, "model"),
        "bias": PartitionSpec(),
    }
    np.testing.assert_array_equal(layer.apply(variables, X), nn.Dense(3).apply(nn.unbox(variables), X))
    gradient = purax.grad(lambda v: layer.apply(v, X).sum())(variables)
    assert isinstance(gradient["params"]["kernel"], nn.Partitioned)


def test_lifted_transformations_name_the_axis_that_they_add():
    init = nn.with_partitioning(nn.initializers.lecun_normal(), (None, "model"))
    options = {"variable_axes": {"params": 0}, "split_rngs": {"params": True}}
    lanes = nn.vmap(nn.Dense, metadata_params={nn.PARTITION_NAME: "lanes"}, **options)(3, kernel_init=init)
    variables = lanes.init(KEY, X)
    assert variables["params"]["kernel"].names == ("lanes", None, "model")
    assert lanes.apply(variables, X).shape == (2, 3)
    with pytest.raises(errors.PartitioningUnspecifiedError):
        nn.vmap(nn.Dense, **options)(3, kernel_init=init).init(KEY, X)


def test_boxed_variables_keep_their_box_when_written():
    class Counter(nn.Module):
        @nn.compact
        def __call__(self):
            count = self.variable("c", "n", lambda: meta.Partitioned(pnp.zeros(2), ("x",)))
            count.value = count.value + 1
            return count.value

    assert Counter().init({})["c"]["n"].names == ("x",)


def test_logical_names_follow_the_first_rule_whose_mesh_axis_is_free():
    rules = (("batch", "data"), ("embed", "model"), ("heads", "model"), ("mlp", None), ("heads", "data"))
    assert nn.logical_to_mesh_axes(("batch", "embed"), rules) == PartitionSpec("data", "model")
    assert nn.logical_to_mesh_axes(("embed", "heads"), rules) == PartitionSpec("model", "data")
    assert nn.logical_to_mesh_axes(("mlp", None, "unknown"), rules) == PartitionSpec(None, None, None)
    with nn.logical_axis_rules(rules):
        assert nn.get_logical_axis_rules() == rules
        assert nn.logical_to_mesh({"w": PartitionSpec("batch")}) == {"w": PartitionSpec("data")}
    assert nn.get_logical_axis_rules() == ()
    with pytest.raises(ValueError, match="once"):
        nn.logical_to_mesh_axes(("a", "a"), rules)
    init = nn.with_logical_partitioning(nn.initializers.lecun_normal(), ("embed", "mlp"))
    box = nn.Dense(3, kernel_init=init).init(KEY, X)["params"]["kernel"]
    assert isinstance(box, nn.LogicallyPartitioned)
    assert nn.with_logical_constraint(X, ("batch", None)) is X


class MLP(nn.Module):
    @nn.compact
    def __call__(self, x):
        dense = nn.Dense(4)
        x = dense(dense(x))
        return nn.BatchNorm(use_running_average=True)(nn.Dense(2)(x))


def test_tabulate_shows_shapes_and_counts():
    table = MLP().tabulate(KEY, X)
    assert "MLP Summary" in table
    for text in ("Dense_0", "float32[2,4]", "kernel: float32[4,2]", "20 (80 B)", "Total Parameters: 38 (152 B)"):
        assert text in table, text
    assert table.count("Dense_0") == 1
    assert MLP().tabulate(KEY, X, show_repeated=True).count("Dense_0") == 2
    assert MLP().tabulate(KEY, X, depth=0).count(" Dense ") == 0
    assert "Total Parameters: 38 (152 B)" in nn.tabulate(MLP(), KEY, depth=0)(X)


def test_tabulate_counts_operations():
    table = nn.Dense(3).tabulate(KEY, X, compute_flops=True, compute_vjp_flops=True)
    assert "flops" in table and "vjp_flops" in table


def test_module_paths_maps_paths_to_unbound_modules():
    paths = MLP().module_paths(KEY, X)
    assert {path: type(module).__name__ for path, module in paths.items()} == {
        "": "MLP",
        "Dense_0": "Dense",
        "Dense_1": "Dense",
        "BatchNorm_0": "BatchNorm",
    }
    assert all(module.scope is None for module in paths.values())


def test_public_names_exist():
    for name in nn.__all__:
        assert hasattr(nn, name)
    assert len(set(nn.__all__)) == len(nn.__all__)


def test_tabulate_shows_methods_and_leaves_out_what_can_not_run_alone():
    class Encoder(nn.Module):
        @nn.compact
        def encode(self, x):
            return nn.SpectralNorm(nn.Dense(3))(x, update_stats=False)

        def __call__(self, x):
            return self.encode(x)

    table = Encoder().tabulate(KEY, X, show_repeated=True, compute_flops=True)
    assert "Encoder (encode)" in table
    assert "_spectral" not in table
    assert "_padded" not in nn.Conv(2, (2,)).tabulate(KEY, pnp.ones((1, 5, 2)))


def test_a_module_that_is_kept_does_not_keep_its_trace():
    kept = []

    class Keeper(nn.Module):
        @nn.compact
        def __call__(self, x):
            kept.append(self)
            return x * 2

    purax.jit(lambda x: Keeper().apply({}, x))(X)
    gc.collect()
    assert kept[0].scope.store.trace() is None


def test_scopes_can_be_made_by_hand():
    place = scope.Scope({}, {"params": KEY}, mutable=True, path=("top",))
    dense = nn.Dense(3, parent=place)
    dense(X)
    assert place.path == ("top",)
    assert sorted(place.variables()["params"]) == ["bias", "kernel"]
    run = place.child(lambda inner, x: inner.param("w", nn.initializers.ones, (2,)) * x, prefix="f")
    np.testing.assert_array_equal(run(2.0), [2, 2])
    assert sorted(place.mutable_variables()["params"]) == ["bias", "f0", "kernel"]
    with place.temporary():
        pass
    with pytest.raises(errors.InvalidScopeError):
        place.push("x")
