# SPDX-License-Identifier: Apache-2.0
"""`checkpoint`: the same values and derivatives, with fewer values kept."""

import numpy as np
import pytest

import purax
from purax import checkpoint_policies as policies
from purax import lax
from purax import numpy as pnp
from purax.ad_checkpoint import checkpoint_name, print_saved_residuals, saved_residuals

X = np.array([0.4, -1.1, 0.7], np.float32)
SAVE_COS = lambda primitive, *_, **__: primitive.name == "cos"


def deep(x):
    return pnp.sin(pnp.sin(pnp.sin(x))).sum()


def looped(x):
    (last, _), rows = lax.scan(lambda c, r: ((pnp.sin(c[0]) * r, c[1]), pnp.cos(c[0])), (x[0], x[1]), x)
    return last + rows.sum()


def branching(x):
    return lax.cond(x[0] > 0, lambda v: pnp.sin(v).sum(), lambda v: pnp.exp(v).sum(), x) + purax.jit(deep)(x)


POLICIES = [
    None, policies.everything_saveable, policies.nothing_saveable, policies.dots_saveable, SAVE_COS,
    policies.save_only_these_names("kept"), policies.save_any_names_but_these("other"),
    policies.save_anything_except_these_names("kept"), policies.save_from_both_policies(SAVE_COS, policies.dots_saveable),
]  # fmt: skip


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("fun", [deep, looped, branching])
def test_no_policy_changes_a_derivative(fun, policy):
    checked = purax.checkpoint(fun, policy=policy)
    for transform in (lambda f: f, purax.grad, purax.hessian, lambda f: purax.jit(purax.grad(f))):
        np.testing.assert_allclose(transform(checked)(X), transform(fun)(X), rtol=1e-4, atol=1e-5)
    found = purax.vmap(purax.grad(checked))(np.stack([X, 2 * X]))
    np.testing.assert_allclose(found, purax.vmap(purax.grad(fun))(np.stack([X, 2 * X])), rtol=1e-4, atol=1e-5)


def backward_text(fun, policy=None, **options):
    return str(purax.make_jaxpr(purax.vjp(purax.checkpoint(fun, policy=policy, **options), X)[1])(1.0))


def test_without_a_policy_values_are_computed_again():
    text = backward_text(deep)
    assert text.count(" sin ") == 2 and text.count(" cos ") == 3 and "optimization_barrier" in text


@pytest.mark.parametrize(("policy", "sines", "cosines"), [(SAVE_COS, 0, 0), (policies.everything_saveable, 0, 0)])
def test_what_is_saved_is_not_computed_again(policy, sines, cosines):
    text = backward_text(deep, policy)
    assert (text.count(" sin "), text.count(" cos ")) == (sines, cosines)


@pytest.mark.parametrize(
    "fun",
    [
        lambda x: lax.scan(lambda c, r: (pnp.sin(c) * r, None), x[0], x)[0],
        lambda x: lax.cond(x[0] > 0, lambda v: pnp.sin(v).sum(), lambda v: v.sum(), x),
    ],
)
def test_policies_reach_into_loops_and_branches(fun):
    text = backward_text(fun, SAVE_COS)
    assert text.count(" cos ") == 0
    assert backward_text(fun, policies.nothing_saveable).count(" cos ") == 1


def test_names_say_what_is_kept():
    fun = lambda x: pnp.sin(checkpoint_name(pnp.sin(pnp.sin(x)), "kept")).sum()
    assert backward_text(fun, policies.save_only_these_names("kept")).count(" sin ") == 1
    assert backward_text(fun, policies.save_only_these_names("other")).count(" sin ") == 2
    offloaded = policies.save_and_offload_only_these_names(
        names_which_can_be_saved=[],
        names_which_can_be_offloaded=["kept"],
        offload_src="device",
        offload_dst="pinned_host",
    )
    assert backward_text(fun, offloaded).count(" sin ") == 1
    with pytest.raises(ValueError, match="in both"):
        policies.save_and_offload_only_these_names(
            names_which_can_be_saved=["a"],
            names_which_can_be_offloaded=["a"],
            offload_src="device",
            offload_dst="pinned_host",
        )


def test_the_barrier_can_be_left_out_for_all_or_some_arguments():
    assert "optimization_barrier" not in backward_text(deep, prevent_cse=False)
    fun = purax.checkpoint(
        lambda w, x: (pnp.sin(x) * w["a"] + np.ones(3, np.float32)).sum(), prevent_cse=({"a": False}, True)
    )
    jaxpr = purax.make_jaxpr(purax.grad(fun, (0, 1)))({"a": X}, X)
    (barrier,) = [e for e in jaxpr.eqns if e.primitive.name == "optimization_barrier"]
    assert len(barrier.invars) == 2


def test_the_program_is_traced_once_per_type():
    traces = []

    @purax.checkpoint
    def fun(x):
        traces.append(1)
        return pnp.sin(x)

    for _ in range(3):
        purax.grad(fun)(1.0)
    assert len(traces) == 1


def test_static_arguments_are_values():
    fun = purax.checkpoint(lambda x, flag: x * 2 if flag else x, static_argnums=(1,))
    assert float(purax.grad(fun)(1.0, True)) == 2 and float(purax.grad(fun)(1.0, False)) == 1
    with pytest.raises(ValueError, match="static_argnums"):
        fun(1.0)


def test_the_user_s_own_rules_are_kept():
    fun = purax.custom_jvp(pnp.sin)
    fun.defjvp(lambda p, t: (fun(*p), 2.0 * pnp.cos(p[0]) * t[0]))
    twice = purax.checkpoint(lambda x: fun(fun(x)))
    np.testing.assert_allclose(
        purax.grad(purax.grad(twice))(2.0), purax.grad(purax.grad(lambda x: fun(fun(x))))(2.0), rtol=1e-5
    )


def test_checkpoints_nest():
    inner = purax.checkpoint(lambda x: pnp.sin(pnp.sin(x)))
    outer = purax.checkpoint(lambda x: inner(inner(x)).sum())
    plain = lambda x: pnp.sin(pnp.sin(pnp.sin(pnp.sin(x)))).sum()
    np.testing.assert_allclose(purax.grad(outer)(X), purax.grad(plain)(X), rtol=1e-5)
    np.testing.assert_allclose(purax.hessian(outer)(X), purax.hessian(plain)(X), rtol=1e-4, atol=1e-6)


# --- what is kept


def layers(wrap):
    step = wrap(lambda w, x: checkpoint_name(pnp.sin(pnp.tanh(x @ w)), "kept"))
    return lambda ws, x: lax.scan(lambda x, w: (step(w, x), None), x, ws)[0].sum()


def test_checkpoints_keep_less_and_the_bytes_are_told(capsys):
    ws, x = pnp.ones((5, 4, 4)), pnp.ones((8, 4))
    plain, checked = layers(lambda f: f), layers(purax.checkpoint)
    sizes = [sum(r.nbytes for r in saved_residuals(fun, ws, x)) for fun in (plain, checked)]
    step = 5 * 8 * 4 * 4  # bytes of one array per step of the loop
    assert sizes == [
        4 * 5 * 4 * 4 + 3 * step,
        4 * 5 * 4 * 4 + step,
    ]  # the weights; x, tanh and its sine's slope; x alone
    print_saved_residuals(checked, ws, x)
    text = capsys.readouterr().out
    assert f"total {sizes[1]:,} B in 2 arrays; without checkpoints {sizes[0]:,} B in 4 arrays" in text
    assert "float32[5,4,4]" in text and "argument ws" in text and "output of scan" in text


def test_each_value_that_is_kept_is_told_with_its_origin():
    captured = pnp.arange(3.0)
    fun = lambda x: pnp.sin(checkpoint_name(pnp.exp(x["a"]), "e") * captured).sum()
    found = saved_residuals(fun, {"a": X})
    origins = " | ".join(r.origin for r in found)
    assert "output of exp" in origins and "a constant" in origins and __file__ in origins
    named = saved_residuals(lambda x: pnp.sin(checkpoint_name(pnp.exp(x), "e")).sum() + checkpoint_name(x, "f") @ x, X)
    assert any(r.origin.startswith("named 'f'") for r in named)
    assert all(r.aval.shape == (3,) for r in found)


@pytest.mark.parametrize("outer", [lambda f: f, purax.jit, purax.vmap], ids=["eager", "jit", "vmap"])
@pytest.mark.parametrize("asked", [True, False])
def test_functions_that_ask_for_it_run_themselves_in_the_forward_part(asked, outer):
    ran = []

    @purax.custom_vjp
    def fun(x):
        purax.debug.callback(lambda: ran.append("function"))
        return pnp.sin(x)

    def forward(x):
        purax.debug.callback(lambda: ran.append("rule"))
        return pnp.sin(x), x

    fun.defvjp(forward, lambda x, c: (c * pnp.cos(x),), optimize_remat=asked)
    value = pnp.ones(1) if outer is purax.vmap else 1.0
    found = outer(purax.grad(purax.checkpoint(lambda x: 2 * fun(x))))(value)
    np.testing.assert_allclose(found, 2 * np.cos(value), rtol=1e-6)
    assert ran == ["function" if asked else "rule"]
