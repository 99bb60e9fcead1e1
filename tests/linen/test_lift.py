# SPDX-License-Identifier: Apache-2.0
"""Lifted transformations: variables and keys go through vmap, scan, jit, remat, branches and derivatives as asked."""

import numpy as np
import pytest

import purax
from purax import linen as nn
from purax import numpy as pnp
from purax import random, tree
from purax.linen import errors

KEY = random.key(0)
X = pnp.linspace(-1.0, 1.0, 12).reshape(4, 3)


def shapes(variables):
    return tree.map(lambda leaf: leaf.shape, variables)


class Key(nn.Module):
    @nn.compact
    def __call__(self, carry, _):
        data = random.key_data(self.make_rng("dropout"))
        return carry, data


def test_dropout_keys_differ_in_each_step_of_a_scan_and_each_lane_of_a_map():
    for split, count in ((True, 4), (False, 1)):
        scanned = nn.scan(Key, split_rngs={"dropout": split})()
        _, steps = scanned.apply({}, 0.0, X, rngs={"dropout": KEY})
        assert len(np.unique(np.asarray(steps), axis=0)) == count
        mapped = nn.vmap(Key, split_rngs={"dropout": split}, in_axes=(None, 0), out_axes=(None, 0))()
        _, lanes = mapped.apply({}, 0.0, X, rngs={"dropout": KEY})
        assert len(np.unique(np.asarray(lanes), axis=0)) == count


def test_vmap_gives_each_lane_its_parameters_or_shares_them():
    own = nn.vmap(nn.Dense, variable_axes={"params": 0}, split_rngs={"params": True})(2)
    variables = own.init(KEY, X)
    assert shapes(variables["params"]) == {"bias": (4, 2), "kernel": (4, 3, 2)}
    kernel = np.asarray(variables["params"]["kernel"])
    np.testing.assert_allclose(own.apply(variables, X), np.einsum("bi,bio->bo", X, kernel), rtol=1e-5, atol=1e-6)
    shared = nn.vmap(nn.Dense, variable_axes={"params": None}, split_rngs={"params": False})(2)
    assert shapes(shared.init(KEY, X)["params"]) == {"bias": (2,), "kernel": (3, 2)}
    other_axis = nn.vmap(nn.Dense, variable_axes={"params": 1}, split_rngs={"params": True}, in_axes=1, out_axes=1)(2)
    assert shapes(other_axis.init(KEY, X.T)["params"]) == {"bias": (2, 4), "kernel": (3, 4, 2)}
    ensemble = nn.vmap(
        nn.Dense, variable_axes={"params": 0}, split_rngs={"params": True}, in_axes=None, out_axes=0, axis_size=5
    )(2)
    assert ensemble.init_with_output(KEY, X)[0].shape == (5, 4, 2)


def test_vmap_with_an_axis_name_lets_batch_norm_average_over_lanes():
    norm = nn.vmap(
        nn.BatchNorm,
        variable_axes={"params": None, "batch_stats": None},
        split_rngs={"params": False},
        axis_name="lane",
    )(use_running_average=False, axis_name="lane")
    variables = norm.init(KEY, X[:, None])
    y, changed = norm.apply(variables, X[:, None], mutable=["batch_stats"])
    np.testing.assert_allclose(np.asarray(y).mean((0, 1)), 0, atol=1e-5)
    np.testing.assert_allclose(changed["batch_stats"]["mean"], 0.01 * np.asarray(X).mean(0), atol=1e-6)


class Step(nn.Module):
    @nn.compact
    def __call__(self, carry, x):
        carry = nn.tanh(nn.Dense(3)(carry + x))
        return carry, carry


def test_scan_with_shared_parameters_equals_a_loop():
    scanned = nn.scan(Step, variable_broadcast="params", split_rngs={"params": False})()
    carry = pnp.zeros(3)
    variables = scanned.init(KEY, carry, X)
    assert shapes(variables["params"]) == {"Dense_0": {"bias": (3,), "kernel": (3, 3)}}
    last, ys = scanned.apply(variables, carry, X)
    for row in X:
        carry, _ = Step().apply(variables, carry, row)
    np.testing.assert_allclose(last, carry, rtol=1e-5)
    np.testing.assert_allclose(ys[-1], carry, rtol=1e-5)
    gradient = purax.grad(lambda v: scanned.apply(v, pnp.zeros(3), X)[0].sum())(variables)

    def looped(variables):
        carry = pnp.zeros(3)
        for row in X:
            carry, _ = Step().apply(variables, carry, row)
        return carry.sum()

    tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6), gradient, purax.grad(looped)(variables)
    )


def test_scan_with_parameters_for_each_step_equals_a_stack_of_layers():
    scanned = nn.scan(Step, variable_axes={"params": 0}, split_rngs={"params": True}, length=4)()
    variables = scanned.init(KEY, pnp.zeros(3), X)
    assert variables["params"]["Dense_0"]["kernel"].shape == (4, 3, 3)
    kernels = np.asarray(variables["params"]["Dense_0"]["kernel"])
    assert not np.allclose(kernels[0], kernels[1])
    last, _ = scanned.apply(variables, pnp.zeros(3), X)
    carry = pnp.zeros(3)
    for index in range(4):
        carry, _ = Step().apply(tree.map(lambda leaf, index=index: leaf[index], variables), carry, X[index])
    np.testing.assert_allclose(last, carry, rtol=1e-5)


def test_scan_carries_variables_and_broadcasts_arguments_and_results():
    class Count(nn.Module):
        @nn.compact
        def __call__(self, carry, x, offset):
            count = self.variable("counts", "n", lambda: pnp.zeros(()))
            count.value = count.value + 1
            return carry + x + offset, (count.value, offset * 2)

    scanned = nn.scan(
        Count, variable_carry="counts", in_axes=(0, nn.broadcast), out_axes=(0, nn.broadcast), split_rngs={}
    )()
    variables = {"counts": {"n": pnp.zeros(())}}
    (carry, (counts, twice)), changed = scanned.apply(variables, 0.0, pnp.arange(3.0), 10.0, mutable=["counts"])
    assert float(carry) == 33.0
    np.testing.assert_array_equal(counts, [1.0, 2.0, 3.0])
    assert float(twice) == 20.0
    assert float(changed["counts"]["n"]) == 3.0


def test_scan_refuses_shared_parameters_with_split_keys():
    scanned = nn.scan(Step, variable_broadcast="params", split_rngs={"params": True})()
    with pytest.raises(errors.BroadcastVariableError):
        scanned.init(KEY, pnp.zeros(3), X)


def test_scan_stacks_sown_intermediates():
    class Sow(nn.Module):
        @nn.compact
        def __call__(self, carry, x):
            self.sow("intermediates", "x", x)
            return carry, x

    scanned = nn.scan(Sow, variable_axes={"intermediates": 0})()
    _, state = scanned.apply({}, 0.0, X, mutable=["intermediates"])
    np.testing.assert_array_equal(state["intermediates"]["x"][0], X)


def test_sizes_that_differ_or_are_unknown_raise():
    with pytest.raises(ValueError, match="sizes"):
        nn.vmap(Key, split_rngs={}, in_axes=0)().apply({}, pnp.ones(3), pnp.ones(4))
    with pytest.raises(ValueError, match="axis_size"):
        nn.vmap(Key, split_rngs={}, in_axes=None)().apply({}, pnp.ones(3), pnp.ones(4))
    with pytest.raises(ValueError, match="length"):
        nn.scan(Key, split_rngs={}, in_axes=nn.broadcast)().apply({}, 0.0, pnp.ones(4))


class MLP(nn.Module):
    @nn.compact
    def __call__(self, x, train=False):
        x = nn.tanh(nn.Dense(5)(x))
        if train:
            x = x + 1
        return nn.Dense(2)(x)


def test_remat_leaves_values_and_gradients_as_they_are():
    plain, again = MLP(), nn.remat(MLP, static_argnums=(2,))()
    variables = plain.init(KEY, X)
    tree.map(np.testing.assert_array_equal, variables, again.init(KEY, X, False))

    def loss(model):
        return lambda v: (model.apply(v, X, True) ** 2).sum()

    tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5),
        purax.grad(loss(plain))(variables),
        purax.grad(loss(again))(variables),
    )


def test_jit_of_a_class_and_of_a_method_equals_the_plain_module():
    class Inner(nn.Module):
        @nn.jit
        @nn.compact
        def __call__(self, x):
            return nn.BatchNorm(use_running_average=False)(nn.Dense(2)(x))

    for model in (nn.jit(MLP)(), Inner()):
        variables = model.init(KEY, X)
        first, _ = model.apply(variables, X, mutable=["batch_stats"])
        assert first.shape == (4, 2)
    variables = MLP().init(KEY, X)
    np.testing.assert_allclose(nn.jit(MLP)().apply(variables, X), MLP().apply(variables, X), rtol=1e-5)


def test_lifted_methods_write_variables_of_the_module():
    class Rows(nn.Module):
        def setup(self):
            self.dense = nn.Dense(2)

        def __call__(self, x):
            shared = {"variable_axes": {"params": None}, "split_rngs": {"params": False}}
            return nn.vmap(lambda module, row: module.dense(row), **shared)(self, x)

    model = Rows()
    variables = model.init(KEY, X)
    assert shapes(variables["params"]) == {"dense": {"bias": (2,), "kernel": (3, 2)}}
    np.testing.assert_allclose(
        model.apply(variables, X), nn.Dense(2).apply({"params": variables["params"]["dense"]}, X), rtol=1e-5
    )


def test_modules_passed_as_fields_and_arguments_go_through():
    class Outer(nn.Module):
        @nn.compact
        def __call__(self, x):
            dense = nn.Dense(3, name="shared")
            wrapped = nn.remat(Holder)(dense)
            return wrapped(x) + nn.remat(User)()(dense, x)

    class Holder(nn.Module):
        inner: nn.Module

        @nn.compact
        def __call__(self, x):
            return self.inner(x)

    class User(nn.Module):
        @nn.compact
        def __call__(self, module, x):
            return module(x)

    variables = Outer().init(KEY, X)
    assert shapes(variables["params"]) == {"shared": {"bias": (3,), "kernel": (3, 3)}}
    alone = nn.Dense(3).apply({"params": variables["params"]["shared"]}, X)
    np.testing.assert_allclose(Outer().apply(variables, X), 2 * alone, rtol=1e-5)


def test_cond_and_switch_choose_a_submodule():
    class Two(nn.Module):
        def setup(self):
            self.a = nn.Dense(2)
            self.b = nn.Dense(2)

        def __call__(self, x, index):
            branches = [lambda module, x: module.a(x), lambda module, x: module.b(x)]
            if self.is_initializing():
                for branch in branches:
                    y = branch(self, x)
                return y
            chosen = nn.switch(index, branches, self, x)
            return chosen + nn.cond(index == 0, *branches, self, x)

    variables = Two().init(KEY, X, 0)
    for index, name in enumerate("ab"):
        expected = nn.Dense(2).apply({"params": variables["params"][name]}, X)
        y = purax.jit(Two().apply)(variables, X, index)
        np.testing.assert_allclose(y, 2 * expected, rtol=1e-5, atol=1e-6)


def test_while_loop_carries_variables():
    class Loop(nn.Module):
        @nn.compact
        def __call__(self, x):
            count = self.variable("state", "n", lambda: pnp.zeros((), pnp.int32))

            def body(module, carry):
                n = module.get_variable("state", "n")
                module.put_variable("state", "n", n + 1)
                return carry * 2

            return nn.while_loop(
                lambda module, carry: module.get_variable("state", "n") < 3, body, self, x, carry_variables="state"
            ), count.value

    (y, _), changed = Loop().apply({"state": {"n": pnp.zeros((), pnp.int32)}}, 1.0, mutable=["state"])
    assert float(y) == 8.0
    assert int(changed["state"]["n"]) == 3


def test_map_variables_shows_a_module_transposed_weights():
    class Tied(nn.Module):
        @nn.compact
        def __call__(self, x):
            dense = nn.Dense(4, use_bias=False, name="dense")
            hidden = dense(x)

            def transposed(collections):
                return tree.map(lambda kernel: kernel.T, collections)

            back = nn.map_variables(
                lambda module, h: h @ module.get_variable("params", "kernel"), "params", trans_in_fn=transposed
            )
            return back(dense, hidden)

    variables = Tied().init(KEY, X)
    kernel = np.asarray(variables["params"]["dense"]["kernel"])
    np.testing.assert_allclose(Tied().apply(variables, X), np.asarray(X) @ kernel @ kernel.T, rtol=1e-4, atol=1e-5)


def test_vjp_jvp_and_grad_of_functions_of_a_module():
    class Derivatives(nn.Module):
        @nn.compact
        def __call__(self, x):
            dense = nn.Dense(2)

            def call(module, x):
                return module(x)

            y = dense(x)
            result, pullback = nn.vjp(call, dense, x)
            of_params, of_x = pullback(pnp.ones_like(result))
            tangents = {"params": tree.map(pnp.ones_like, dense.variables["params"])}
            _, tangent = nn.jvp(call, dense, (x,), (pnp.zeros_like(x),), tangents)
            gradient = nn.grad(lambda module, x: module(x).sum(), dense, x)
            return y, of_params, of_x, tangent, gradient

    model = Derivatives()
    variables = model.init(KEY, X)
    _, of_params, of_x, tangent, gradient = model.apply(variables, X)
    kernel = np.asarray(variables["params"]["Dense_0"]["kernel"])
    np.testing.assert_allclose(of_params["params"]["kernel"], np.asarray(X).T @ np.ones((4, 2)), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(of_x, np.ones((4, 2)) @ kernel.T, rtol=1e-5)
    np.testing.assert_allclose(gradient, of_x, rtol=1e-5)
    np.testing.assert_allclose(tangent, np.asarray(X) @ np.ones((3, 2)) + 1, rtol=1e-5, atol=1e-6)


def test_custom_vjp_replaces_the_gradient_of_the_parameters():
    class Signed(nn.Module):
        @nn.compact
        def __call__(self, x):
            def call(module, x):
                return module(x)

            def forward(module, x):
                return nn.vjp(call, module, x)

            def backward(pullback, cotangent):
                of_params, of_x = pullback(cotangent)
                return tree.map(pnp.sign, of_params), of_x

            return nn.custom_vjp(call, forward_fn=forward, backward_fn=backward)(nn.Dense(1), x).sum()

    model = Signed()
    variables = model.init(KEY, X)
    gradient = purax.grad(model.apply)(variables, X)["params"]["Dense_0"]
    np.testing.assert_array_equal(gradient["kernel"], np.sign(np.asarray(X).sum(0))[:, None])
    np.testing.assert_array_equal(gradient["bias"], [1.0])


def test_remat_scan_stacks_layers():
    class Layer(nn.Module):
        @nn.compact
        def __call__(self, x):
            return x + nn.Dense(3)(x)

    deep = nn.remat_scan(Layer, lengths=(2, 3))()
    variables = deep.init(KEY, X)
    assert variables["params"]["Dense_0"]["kernel"].shape == (2, 3, 3, 3)
    x = X
    for i in range(2):
        for j in range(3):
            x = Layer().apply(tree.map(lambda leaf, i=i, j=j: leaf[i, j], variables), x)
    np.testing.assert_allclose(deep.apply(variables, X), x, rtol=1e-4, atol=1e-5)


def test_lifted_classes_have_names_and_lift_chosen_methods():
    class Two(nn.Module):
        def setup(self):
            self.dense = nn.Dense(2)

        def __call__(self, x):
            return self.dense(x)

        def double(self, x):
            return 2 * self.dense(x)

    class Outer(nn.Module):
        @nn.compact
        def __call__(self, x):
            return nn.remat(MLP)()(x)

    assert list(Outer().init(KEY, X)["params"]) == ["CheckpointMLP_0"]
    lifted = nn.vmap(Two, variable_axes={"params": 0}, split_rngs={"params": True}, methods=["__call__", "double"])()
    variables = lifted.init(KEY, X)
    assert variables["params"]["dense"]["kernel"].shape == (4, 3, 2)
    np.testing.assert_allclose(lifted.apply(variables, X, method="double"), 2 * lifted.apply(variables, X), rtol=1e-6)


def test_misuse_of_lifting_raises():
    class Returns(nn.Module):
        @nn.compact
        def __call__(self, x):
            return nn.Dense(2)

    with pytest.raises(errors.TransformTargetError):
        nn.vmap(nn.Dense(2))
    with pytest.raises(errors.TransformedMethodReturnValueError):
        nn.remat(Returns)().init(KEY, X)
    with pytest.raises(TypeError, match="positional"):
        nn.vmap(nn.Dense, variable_axes={"params": 0}, split_rngs={"params": True})(2).init(KEY, inputs=X)


def test_jit_runs_python_code_once_for_modules_that_are_alike():
    runs = []

    class Traced(nn.Module):
        size: int = 2
        scale: object = None

        @nn.jit
        @nn.compact
        def __call__(self, x):
            runs.append(self.size)
            x = nn.Dropout(0.5, deterministic=False)(x)
            return nn.Dense(self.size)(x) * (1.0 if self.scale is None else self.scale)

    rngs = {"params": KEY, "dropout": KEY}
    variables = Traced().init(rngs, X)
    runs.clear()
    first = [Traced().apply(variables, X, rngs=rngs) for _ in range(3)]
    assert runs == [2]
    np.testing.assert_array_equal(first[0], first[1])
    other = Traced().apply(variables, X, rngs={"params": KEY, "dropout": random.key(1)})
    assert not np.allclose(first[0], other)
    Traced(3).init(rngs, X)
    assert runs == [2, 3]
    for scale in (2.0, 3.0):
        scaled = Traced(scale=pnp.asarray(scale)).apply(variables, X, rngs=rngs)
        np.testing.assert_allclose(scaled, scale * first[0], rtol=1e-5)

    class Twice(nn.Module):
        @nn.compact
        def __call__(self, x):
            return [Traced()(x), Traced()(x)]

    variables = Twice().init(rngs, X)
    runs.clear()
    a, b = Twice().apply(variables, X, rngs={"dropout": KEY})
    assert runs == [2]
    assert not np.allclose(a, b)


def test_jit_of_a_method_of_an_unbound_module():
    class Quick(nn.Module):
        @nn.compact
        def __call__(self, x):
            return nn.Dense(2)(x)

        @nn.jit
        def init_with_output(self, rngs, *args, **kwargs):
            return super().init_with_output(rngs, *args, **kwargs)

    y, variables = Quick().init_with_output(KEY, X)
    tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), variables, MLPlain().init(KEY, X))
    assert y.shape == (4, 2)


class MLPlain(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.Dense(2)(x)


def test_fold_rngs_gives_the_keys_that_jit_gives():
    folded, compiled = nn.fold_rngs(nn.Dense)(2), nn.jit(nn.Dense)(2)
    tree.map(np.testing.assert_array_equal, folded.init(KEY, X), compiled.init(KEY, X))


def test_methods_bound_to_a_module_may_be_branches():
    class Choose(nn.Module):
        def __call__(self, x, positive):
            return nn.cond(positive, self.double, self.negate, self, x)

        def double(self, x):
            return 2 * x

        def negate(self, x):
            return -x

    assert float(Choose().apply({}, 3.0, True)) == 6.0
    assert float(Choose().apply({}, 3.0, False)) == -3.0
