# SPDX-License-Identifier: Apache-2.0
"""`cond` and `switch`: the chosen branch in every mode, and branches that must agree."""

import numpy as np
import pytest

import purax
from purax import errors, export, lax
from purax import numpy as pnp

BRANCHES = [lambda x: pnp.sin(x).sum(), lambda x: (x * x).sum(), lambda x: x[0] * 0.0 + 3.0]
X = np.array([0.4, -1.2], np.float32)


@pytest.mark.parametrize("index", [-2, 0, 1, 2, 9])
def test_an_index_out_of_range_is_clamped(index):
    want = BRANCHES[min(max(index, 0), 2)](X)
    np.testing.assert_allclose(lax.switch(index, BRANCHES, X), want, rtol=1e-6)
    np.testing.assert_allclose(purax.jit(lambda i: lax.switch(i, BRANCHES, X))(index), want, rtol=1e-6)


@pytest.mark.parametrize("index", [0, 1, 2])
@pytest.mark.parametrize("compiled", [False, True])
def test_derivatives_are_those_of_the_chosen_branch(index, compiled):
    fun = lambda x: lax.switch(index, BRANCHES, x) ** 2
    plain = lambda x: BRANCHES[index](x) ** 2
    wrap = purax.jit if compiled else lambda f: f
    np.testing.assert_allclose(wrap(purax.grad(fun))(X), purax.grad(plain)(X), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(wrap(purax.jacfwd(fun))(X), purax.jacfwd(plain)(X), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(wrap(purax.hessian(fun))(X), purax.hessian(plain)(X), rtol=1e-4, atol=1e-5)


def test_lanes_with_one_index_and_with_many():
    xs = np.stack([X, 2 * X, 3 * X])
    one = purax.vmap(lambda i, x: lax.switch(i, BRANCHES, x), in_axes=(None, 0))(1, xs)
    np.testing.assert_allclose(one, (xs**2).sum(1), rtol=1e-6)
    many = purax.vmap(lambda i, x: lax.switch(i, BRANCHES, x))(pnp.array([2, 0, 1]), xs)
    np.testing.assert_allclose(many, [3, np.sin(xs[1]).sum(), (xs[2] ** 2).sum()], rtol=1e-5)
    gradients = purax.vmap(purax.grad(lambda x, i: lax.switch(i, BRANCHES, x)))(xs, pnp.array([2, 0, 1]))
    np.testing.assert_allclose(gradients, [[0, 0], np.cos(xs[1]), 2 * xs[2]], rtol=1e-5, atol=1e-7)


def test_the_branch_not_taken_touches_no_gradient():
    fun = lambda x: lax.cond(x > 0, lambda v: pnp.sqrt(v), lambda v: v * 2.0, x)
    np.testing.assert_allclose(purax.vmap(purax.grad(fun))(pnp.array([4.0, 0.0, -1.0])), [0.25, 2, 2])


def test_what_branches_capture_may_differ_and_is_differentiated():
    def fun(p, a, b):
        return lax.cond(p, lambda x: a * x, lambda x: x + b, 2.0)

    assert [float(g) for g in purax.grad(fun, (1, 2))(True, 3.0, 5.0)] == [2, 0]
    assert [float(g) for g in purax.jit(purax.grad(fun, (1, 2)))(False, 3.0, 5.0)] == [0, 1]


def test_outputs_that_no_branch_changes_need_no_choice():
    x, y = pnp.arange(3), pnp.array(3.0)
    fun = lambda x, y: lax.cond(x < 2, lambda a, b: (a * 2, b), lambda a, b: (a * 3, b), x, y)
    _, same = purax.vmap(fun, in_axes=(0, None), out_axes=(0, None))(x, y)
    assert same is y


def test_residuals_of_branches_share_their_room():
    jaxpr = purax.make_jaxpr(purax.grad(lambda x: lax.switch(1, [pnp.sin, pnp.cos, pnp.tanh], x)))(0.5)
    first = next(e for e in jaxpr.eqns if e.primitive.name == "cond")
    assert len(first.outvars) == 1 or len(first.outvars) == 2


def test_weak_types_give_way():
    found = lax.cond(True, lambda x: 1.0, lambda x: x, pnp.float16(2))
    assert found.dtype == np.float16 and float(found) == 1


@pytest.mark.parametrize(
    ("run", "error", "part"),
    [
        (lambda: lax.cond(True, lambda: 1.0, lambda: (1.0, 2.0)), errors.BranchTypeError, "same structure"),
        (
            lambda: lax.cond(True, lambda: pnp.ones(2), lambda: pnp.ones(3)),
            errors.BranchTypeError,
            r"float32\[2\] from true_fun|float32\[3\] from false_fun",
        ),
        (lambda: lax.cond(True, lambda: pnp.int32(1), lambda: pnp.float32(1)), errors.BranchTypeError, "differ"),
        (lambda: lax.cond(pnp.ones(2), lambda: 1, lambda: 2), TypeError, "scalar"),
        (lambda: lax.cond("x", lambda: 1, lambda: 2), TypeError, "scalar"),
        (lambda: lax.cond(True, 1, 2), TypeError, "callable"),
        (lambda: lax.switch(0.5, BRANCHES, X), TypeError, "integer"),
        (lambda: lax.switch(0, [], X), ValueError, "Empty"),
        (lambda: lax.cond(lambda: 1, True, lambda: 2), TypeError, "callable|scalar"),
    ],
)
def test_branches_that_disagree_are_refused(run, error, part):
    with pytest.raises(error, match=part):
        run()


def test_the_leaf_that_differs_is_named():
    with pytest.raises(errors.BranchTypeError, match=r"\['b'\]: int32\[\] from false_fun, float32\[\] from true_fun"):
        lax.cond(True, lambda: {"a": 1, "b": pnp.float32(1)}, lambda: {"a": 2, "b": pnp.int32(1)})


def test_one_branch_alone_runs_at_once():
    assert lax.switch(7, [lambda x: x + 1], 1) == 2


def test_without_jit_only_the_chosen_branch_runs():
    with purax.disable_jit():
        assert lax.cond(True, lambda: 1, lambda: 1 / 0) == 1
        assert lax.switch(1, [lambda: 1 / 0, lambda: 2]) == 2


def test_none_is_an_operand_like_any_other():
    assert lax.cond(True, lambda x: x is None, lambda x: False, operand=None)
    assert lax.switch(1, [lambda x: False, lambda x: x is None], operand=None)
    assert lax.cond(False, lambda: 1, lambda: 2) == 2


def _by_platform(x):
    return lax.platform_dependent(x, cpu=pnp.sin, cuda=pnp.cos, default=pnp.tanh)


def test_a_function_is_chosen_by_the_platform_of_the_program():
    x = np.float32([0.3, 0.7])
    for run in (_by_platform, purax.jit(_by_platform), purax.vmap(_by_platform)):
        np.testing.assert_allclose(run(x), np.sin(x), rtol=1e-6)
    np.testing.assert_allclose(purax.grad(lambda x: _by_platform(x).sum())(x), np.cos(x), rtol=1e-6)
    np.testing.assert_allclose(purax.jit(purax.grad(lambda x: _by_platform(x).sum()))(x), np.cos(x), rtol=1e-6)


def test_only_the_function_of_the_platform_is_compiled():
    texts = export.export(purax.jit(_by_platform), platforms=("cpu", "cuda", "tpu"))(np.float32(1)).modules
    found = {
        name: [op for op in ("sine", "cosine", "tanh") if f"stablehlo.{op} " in text] for name, text in texts.items()
    }
    assert found == {"cpu": ["sine"], "cuda": ["cosine"], "tpu": ["tanh"]}


def test_a_platform_without_a_function_is_an_error():
    run = lambda x: lax.platform_dependent(x, tpu=pnp.sin, gpu=pnp.cos)
    for call in (run, purax.jit(run)):
        with pytest.raises(NotImplementedError, match="no function for the platform 'cpu' among tpu, gpu"):
            call(1.0)


def test_operands_may_be_callable():
    held = purax.tree_util.Partial(pnp.multiply, pnp.float32(3))
    for pred, expected in ((True, 6), (False, 4)):
        found = lax.cond(pred, lambda f, g: f(pnp.float32(2)), lambda f, g: g.args[0] + 1, held, held)
        assert found == expected


def test_each_branch_may_have_an_operand_of_its_own():
    def fun(x, y):
        return lax.cond(x > y, x, pnp.sin, {"y": y}, lambda d: d["y"] * 2)

    assert fun(1.0, 2.0) == 4 and purax.jit(fun)(1.0, 0.0) == pnp.sin(1.0)
    assert purax.grad(fun, (0, 1))(1.0, 2.0) == (0, 2)
