# SPDX-License-Identifier: Apache-2.0
"""Modules: declaration, names, sharing, running, copies, what may be written where."""

from typing import Any

import numpy as np
import pytest

import purax
from purax import linen as nn
from purax import numpy as pnp
from purax import random, tree
from purax.linen import errors

KEY = random.key(0)
X = pnp.ones((2, 4))


def shapes(variables):
    return tree.map(lambda leaf: leaf.shape, variables)


class MLP(nn.Module):
    features: int = 3

    @nn.compact
    def __call__(self, x):
        x = nn.relu(nn.Dense(8)(x))
        return nn.Dense(self.features)(x)


class Coder(nn.Module):
    def setup(self):
        self.encoder = nn.Dense(3)
        self.decoder = nn.Dense(4)

    def __call__(self, x):
        return self.decode(self.encode(x))

    def encode(self, x):
        return self.encoder(x)

    def decode(self, z):
        return self.decoder(z)


def test_compact_submodules_are_named_after_their_class():
    assert shapes(MLP().init(KEY, X)) == {
        "params": {"Dense_0": {"bias": (8,), "kernel": (4, 8)}, "Dense_1": {"bias": (3,), "kernel": (8, 3)}}
    }


def test_setup_submodules_are_named_after_their_attribute():
    assert sorted(Coder().init(KEY, X)["params"]) == ["decoder", "encoder"]


def test_submodules_in_lists_and_dictionaries_get_suffixes():
    class Stack(nn.Module):
        def setup(self):
            self.layers = [nn.Dense(3), (nn.Dense(3), nn.Dense(3))]
            self.heads = {"a": nn.Dense(2), "b": {"c": nn.Dense(2)}}

        def __call__(self, x):
            x = self.layers[1][1](self.layers[1][0](self.layers[0](x)))
            return self.heads["a"](x) + self.heads["b"]["c"](x)

    assert sorted(Stack().init(KEY, X)["params"]) == ["heads_a", "heads_b_c", "layers_0", "layers_1_0", "layers_1_1"]


def test_init_is_deterministic_and_depends_on_the_key():
    first, second, other = (MLP().init(random.key(seed), X) for seed in (1, 1, 2))
    assert tree.all(tree.map(lambda a, b: bool((a == b).all()), first, second))
    assert not np.array_equal(first["params"]["Dense_0"]["kernel"], other["params"]["Dense_0"]["kernel"])


def test_parameters_do_not_depend_on_what_else_is_initialized():
    class Two(nn.Module):
        first: bool

        @nn.compact
        def __call__(self, x):
            if self.first:
                x = x + nn.Dense(4, name="extra")(x)
            return nn.Dense(3, name="kept")(x)

    with_extra, without = (Two(first).init(KEY, X)["params"]["kept"] for first in (True, False))
    np.testing.assert_array_equal(with_extra["kernel"], without["kernel"])


def test_raw_keys_work_and_other_arrays_do_not():
    raw = nn.Dense(3).init(random.PRNGKey(0), X)
    np.testing.assert_array_equal(raw["params"]["kernel"], nn.Dense(3).init(KEY, X)["params"]["kernel"])
    with pytest.raises(errors.InvalidRngError):
        nn.Dense(3).init(0, X)
    with pytest.raises(errors.InvalidRngError):
        nn.Dense(3).init({"params": X}, X)


def test_apply_equals_the_formula():
    variables = MLP().init(KEY, X)
    params = tree.map(np.asarray, variables["params"])
    hidden = np.maximum(np.asarray(X) @ params["Dense_0"]["kernel"], 0)
    np.testing.assert_allclose(MLP().apply(variables, X), hidden @ params["Dense_1"]["kernel"], rtol=1e-5)


def test_method_is_a_name_a_method_or_a_function():
    coder = Coder()
    variables = coder.init(KEY, X)
    latent = coder.apply(variables, X, method="encode")
    assert latent.shape == (2, 3)
    np.testing.assert_array_equal(latent, coder.apply(variables, X, method=Coder.encode))
    np.testing.assert_array_equal(latent, coder.apply(variables, X, method=coder.encode))
    np.testing.assert_array_equal(latent, coder.apply(variables, X, method=lambda module, x: module.encoder(x)))
    np.testing.assert_array_equal(latent, coder.apply(variables, X, method="encoder"))
    assert sorted(coder.init(KEY, X, method="encode")["params"]) == ["encoder"]
    with pytest.raises(errors.ApplyModuleInvalidMethodError):
        coder.apply(variables, X, method=3)
    with pytest.raises(AttributeError, match="missing"):
        coder.apply(variables, X, method="missing")


def test_apply_works_under_jit_grad_and_vmap():
    model = MLP()
    variables = model.init(KEY, X)

    def loss(variables, x):
        return (model.apply(variables, x) ** 2).sum()

    plain = purax.grad(loss)(variables, X)
    compiled = purax.jit(purax.grad(loss))(variables, X)
    tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), plain, compiled)
    each = purax.vmap(lambda x: model.apply(variables, x))(X)
    np.testing.assert_allclose(each, model.apply(variables, X), rtol=1e-5)
    in_jit = purax.jit(model.init)(KEY, X)
    tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), in_jit, model.init(KEY, X))


def test_a_module_called_twice_shares_its_parameters():
    class Twice(nn.Module):
        @nn.compact
        def __call__(self, x):
            dense = nn.Dense(4)
            return dense(dense(x))

    assert list(Twice().init(KEY, X)["params"]) == ["Dense_0"]


def test_one_dense_shared_by_two_parents_works_when_only_the_second_is_called():
    class Parent(nn.Module):
        dense: nn.Module

        def __call__(self, x):
            return self.dense(x)

    class InSetup(nn.Module):
        def setup(self):
            dense = nn.Dense(3)
            self.first = Parent(dense)
            self.second = Parent(dense)

        def __call__(self, x, both=False):
            return self.second(x) + (self.first(x) if both else 0)

    class InCompact(nn.Module):
        @nn.compact
        def __call__(self, x, both=False):
            dense = nn.Dense(3)
            first, second = Parent(dense), Parent(dense)
            return second(x) + (first(x) if both else 0)

    class AsFields(nn.Module):
        first: nn.Module
        second: nn.Module

        def __call__(self, x, both=False):
            return self.second(x) + (self.first(x) if both else 0)

    dense = nn.Dense(3)
    for model in (InSetup(), InCompact(), AsFields(Parent(dense), Parent(dense))):
        variables = model.init(KEY, X)
        assert len(tree.leaves(variables)) == 2
        alone = model.apply(variables, X)
        assert alone.shape == (2, 3)
        np.testing.assert_allclose(model.apply(variables, X, both=True), 2 * alone, rtol=1e-6)


def test_a_module_made_outside_is_not_bound_by_its_use():
    dense = nn.Dense(3)
    model = nn.Sequential([dense, dense])
    model = nn.Sequential([nn.Dense(4), model.layers[0]])
    model.init(KEY, X)
    assert dense.scope is None
    assert dense.name is None


def test_modules_are_dataclasses_with_inheritance_and_keyword_only_fields():
    class Base(nn.Module):
        width: int

        @nn.compact
        def __call__(self, x):
            return nn.Dense(self.width)(x)

    class Wider(Base):
        extra: int = 1

        @nn.compact
        def __call__(self, x):
            return super().__call__(x) + self.extra

    class Keyword(nn.Module, kw_only=True):
        size: int = 1
        depth: int

    assert Wider(3).init(KEY, X)["params"]["Dense_0"]["kernel"].shape == (4, 3)
    assert Keyword(depth=2).depth == 2
    with pytest.raises(TypeError):
        Keyword(1, 2)
    assert Base(3) == Base(3)
    assert Base(3) != Base(4)
    assert hash(Base(3)) == hash(Base(3))
    assert {Base(3): 1}[Base(3)] == 1


def test_variables_of_other_collections_change_only_where_mutable():
    class Counter(nn.Module):
        @nn.compact
        def __call__(self):
            ready = self.has_variable("counts", "n")
            count = self.variable("counts", "n", lambda: pnp.zeros((), int))
            if ready:
                count.value = count.value + 1
            return count.value

    variables = Counter().init({})
    assert int(variables["counts"]["n"]) == 0
    value, changed = Counter().apply(variables, mutable=["counts"])
    assert int(value) == int(changed["counts"]["n"]) == 1
    assert int(variables["counts"]["n"]) == 0
    with pytest.raises(errors.ModifyScopeVariableError, match="counts"):
        Counter().apply(variables)


def test_get_put_and_has_variable():
    class Store(nn.Module):
        @nn.compact
        def __call__(self, x):
            assert not self.has_variable("cache", "x")
            assert self.get_variable("cache", "x", 7) == 7
            assert self.is_mutable_collection("cache")
            self.put_variable("cache", "x", x)
            assert self.is_initializing()
            return self.get_variable("cache", "x")

    assert Store().init(KEY, X)["cache"]["x"].shape == (2, 4)


def test_make_rng_gives_a_new_key_at_each_call_and_falls_back_to_params():
    class Draws(nn.Module):
        @nn.compact
        def __call__(self):
            assert self.has_rng("params")
            return [random.key_data(self.make_rng("noise")) for _ in range(3)]

    draws = Draws().apply({}, rngs={"params": KEY})
    assert len({tuple(np.asarray(draw).tolist()) for draw in draws}) == 3
    alone = Draws().apply({}, rngs=KEY)
    np.testing.assert_array_equal(np.asarray(draws), np.asarray(alone))
    with pytest.raises(errors.InvalidRngError, match="dropout"):
        nn.Dropout(0.5, deterministic=False).apply({}, X)


def test_sow_collects_values_and_capture_intermediates_sows_outputs():
    class Sower(nn.Module):
        @nn.compact
        def __call__(self, x):
            for _ in range(2):
                self.sow("intermediates", "x", x)
            self.sow("sums", "total", x.sum(), reduce_fn=lambda a, b: a + b, init_fn=lambda: 0.0)
            return nn.Dense(3)(x)

    variables = Sower().init(KEY, X)
    assert "intermediates" not in variables
    params = {"params": variables["params"]}
    y, state = Sower().apply(params, X, mutable=["intermediates", "sums"], capture_intermediates=True)
    assert len(state["intermediates"]["x"]) == 2
    assert float(state["sums"]["total"]) == 8.0
    np.testing.assert_array_equal(state["intermediates"]["Dense_0"]["__call__"][0], y)
    only = lambda module, method: isinstance(module, nn.Dense)
    _, state = Sower().apply(params, X, capture_intermediates=only, mutable=["intermediates"])
    assert sorted(state["intermediates"]) == ["Dense_0", "x"]


def test_perturbations_give_gradients_of_intermediate_values():
    class Watched(nn.Module):
        @nn.compact
        def __call__(self, x):
            return (self.perturb("hidden", nn.Dense(3)(x)) ** 2).sum()

    model = Watched()
    variables = model.init(KEY, X)
    assert variables["perturbations"]["hidden"].shape == (2, 3)
    grads = purax.grad(lambda moved: model.apply({**variables, "perturbations": moved}, X))(variables["perturbations"])
    hidden = nn.Dense(3).apply({"params": variables["params"]["Dense_0"]}, X)
    np.testing.assert_allclose(grads["hidden"], 2 * hidden, rtol=1e-5)
    assert np.isfinite(model.apply({"params": variables["params"]}, X))


def test_bind_gives_a_module_to_use_directly_and_unbind_takes_it_apart():
    coder = Coder()
    variables = coder.init(KEY, X)
    bound = coder.bind(variables)
    np.testing.assert_array_equal(bound(X), coder.apply(variables, X))
    dense, inner = bound.encoder.unbind()
    assert dense.scope is None
    np.testing.assert_array_equal(dense.apply(inner, X), coder.apply(variables, X, method="encode"))
    assert bound.variables["params"].keys() == variables["params"].keys()
    assert bound.encoder.path == ("encoder",)
    with pytest.raises(errors.CallUnbindOnUnboundModuleError):
        coder.unbind()


def test_clone_and_copy_replace_fields():
    assert MLP(3).clone(features=5).features == 5

    class Copies(nn.Module):
        @nn.compact
        def __call__(self, x):
            first = nn.Dense(4)
            return first.copy()(first(x))

    assert sorted(Copies().init(KEY, X)["params"]) == ["Dense_0", "Dense_1"]


def test_lazy_init_takes_shapes_and_equals_init():
    shape = purax.ShapeDtypeStruct((2, 4), pnp.float32)
    lazy, eager = MLP().lazy_init(KEY, shape), MLP().init(KEY, X)
    tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), lazy, eager)

    class FromData(nn.Module):
        @nn.compact
        def __call__(self, x):
            return self.param("mean", lambda key: x.mean())

    with pytest.raises(errors.LazyInitError):
        FromData().lazy_init(KEY, shape)


def test_share_scope_puts_variables_at_one_place():
    class Wrapper(nn.Module):
        def setup(self):
            self.inner = nn.Dense(3)
            nn.share_scope(self, self.inner)

        def __call__(self, x):
            return self.inner(x)

    assert sorted(Wrapper().init(KEY, X)["params"]) == ["bias", "kernel"]


def test_compact_name_scope_puts_submodules_below_the_method():
    class Named(nn.Module):
        @nn.compact_name_scope
        def up(self, x):
            return nn.Dense(8)(x)

        @nn.compact_name_scope
        def down(self, x):
            return nn.Dense(4)(x)

        def __call__(self, x):
            return self.down(self.up(x)) + self.down(self.up(x))

    assert shapes(Named().init(KEY, X)["params"]) == {
        "down": {"Dense_0": {"bias": (4,), "kernel": (8, 4)}},
        "up": {"Dense_0": {"bias": (8,), "kernel": (4, 8)}},
    }


def test_nowrap_methods_and_properties_work_on_unbound_modules():
    class Sized(nn.Module):
        size: int

        @nn.nowrap
        def double(self):
            return 2 * self.size

        @property
        def triple(self):
            return 3 * self.size

        @property
        def broken(self):
            return self.no_such_name

    assert Sized(2).double() == 4
    assert Sized(2).triple == 6
    with pytest.raises(errors.DescriptorAttributeError, match="broken"):
        Sized(2).broken


def test_interceptors_run_from_the_outer_block_to_the_inner():
    order = []

    def interceptor(name):
        def run(function, args, kwargs, context):
            order.append((name, type(context.module).__name__, context.method_name))
            return function(*args, **kwargs) + 1

        return run

    dense = nn.Dense(3)
    variables = dense.init(KEY, X)
    with nn.intercept_methods(interceptor("outer")), nn.intercept_methods(interceptor("inner")):
        y = dense.apply(variables, X)
    assert order == [("outer", "Dense", "__call__"), ("inner", "Dense", "__call__")]
    np.testing.assert_allclose(y, dense.apply(variables, X) + 2, rtol=1e-6)


def test_functional_init_and_apply_take_functions_of_a_module():
    run = lambda module, x: module.encode(x) * 2
    variables = nn.init(run, Coder())(KEY, X)
    assert sorted(variables["params"]) == ["encoder"]
    np.testing.assert_array_equal(
        nn.apply(run, Coder())(variables, X), 2 * Coder().apply(variables, X, method="encode")
    )
    assert nn.init_with_output(run, Coder())(KEY, X)[0].shape == (2, 3)


def test_repr_shows_fields():
    assert repr(MLP(7)) == "MLP(\n    # attributes\n    features = 7\n)"


def test_attributes_may_be_set_in_setup_only():
    class InCall(nn.Module):
        def __call__(self):
            self.count = 1

    class OfField(nn.Module):
        size: int = 1

        def setup(self):
            self.size = 2

        def __call__(self):
            return self.size

    with pytest.raises(errors.SetAttributeFrozenModuleError):
        InCall().apply({})
    with pytest.raises(errors.SetAttributeFrozenModuleError):
        MLP().bind({}).features = 4
    with pytest.raises(errors.SetAttributeInModuleSetupError):
        OfField().apply({})


def test_misuse_raises_its_own_error():
    class Loose(nn.Module):
        def __call__(self, x):
            return nn.Dense(3)(x)

    class SameName(nn.Module):
        @nn.compact
        def __call__(self, x):
            return nn.Dense(4, name="a")(nn.Dense(4, name="a")(x))

    class NoSuper(nn.Module):
        def __post_init__(self):
            pass

        def __call__(self, x):
            return x

    with pytest.raises(errors.CallCompactUnboundModuleError):
        MLP()(X)
    with pytest.raises(errors.AssignSubModuleError, match="Dense"):
        Loose().init(KEY, X)
    with pytest.raises(errors.NameInUseError, match='"a"'):
        SameName().init(KEY, X)
    with pytest.raises(errors.CallSetupUnboundModuleError):
        Coder().setup()
    with pytest.raises(errors.InvalidInstanceModuleError):
        MLP.init(KEY, X)
    with pytest.raises(errors.IncorrectPostInitOverrideError):
        NoSuper()(X)
    with pytest.raises(errors.ReservedModuleAttributeError):

        class Reserved(nn.Module):
            parent: Any = None

    with pytest.raises(AttributeError, match="setup"):
        Coder().encoder


def test_missing_and_misplaced_variables_raise():
    dense = nn.Dense(3)
    params = dense.init(KEY, X)["params"]
    with pytest.raises(errors.ScopeParamNotFoundError, match="bias"):
        dense.apply({"params": {"kernel": params["kernel"]}}, X)
    with pytest.raises(errors.ScopeCollectionNotFound, match="params"):
        dense.apply({}, X)
    with pytest.raises(errors.ApplyScopeInvalidVariablesTypeError):
        dense.apply(params, X)
    with pytest.raises(errors.ApplyScopeInvalidVariablesStructureError):
        dense.apply({"params": {"params": params}}, X)
    norm = nn.BatchNorm(use_running_average=True)
    with pytest.raises(errors.ScopeCollectionNotFound, match="batch_stats"):
        norm.apply({"params": {}}, X)


def test_a_kernel_of_the_wrong_shape_raises_with_both_shapes():
    wrong = {"params": {"kernel": pnp.zeros((5, 3)), "bias": pnp.zeros(3)}}
    for _ in range(2):
        with pytest.raises(errors.ScopeParamShapeError, match=r"kernel.*\(5, 3\).*\(4, 3\)"):
            nn.Dense(3).apply(wrong, X)
    with pytest.raises(errors.ScopeParamShapeError, match=r"/Dense_0.*\(4, 8\).*\(6, 8\)"):
        MLP().apply(MLP().init(KEY, X), pnp.ones((2, 6)))


def test_scopes_end_with_the_call():
    kept = []

    class Keeper(nn.Module):
        @nn.compact
        def __call__(self, x):
            kept.append(self)
            return nn.Dense(3)(x)

    Keeper().init(KEY, X)
    with pytest.raises(errors.InvalidScopeError):
        kept[0].put_variable("cache", "x", X)


def test_a_plain_transformation_inside_a_module_is_refused():
    class Inside(nn.Module):
        @nn.compact
        def __call__(self, x):
            return purax.vmap(lambda row: nn.Dense(3)(row))(x)

    with pytest.raises(errors.JaxTransformError):
        Inside().init(KEY, X)


def test_frozen_dictionaries_are_accepted_as_variables():
    variables = nn.FrozenDict(MLP().init(KEY, X))
    assert MLP().apply(variables, X).shape == (2, 3)
    _, changed = MLP().apply(variables, X, mutable=True)
    assert isinstance(changed["params"], dict)


def test_merge_param_takes_exactly_one():
    assert nn.merge_param("x", None, 1) == 1
    with pytest.raises(ValueError, match="twice"):
        nn.merge_param("x", 1, 1)
    with pytest.raises(ValueError, match="must be given"):
        nn.merge_param("x", None, None)


def test_every_error_tells_cause_wrong_and_right():
    for name in errors.__all__:
        text = getattr(errors, name).__doc__
        assert "Cause:" in text and "Wrong:" in text and "Right:" in text, name


def test_named_calls_leave_results_as_they_are():
    model = MLP()
    variables = model.init(KEY, X)
    with nn.override_named_call():
        named = model.apply(variables, X)
    np.testing.assert_array_equal(named, model.apply(variables, X))
