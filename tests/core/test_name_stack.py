# SPDX-License-Identifier: Apache-2.0
"""Names of scopes and transformations, in equations and in lowered programs."""

import functools
import re

import numpy as np
import pytest

import purax
from purax import lax
from purax import numpy as pnp
from purax.core.name_stack import Instead, NameStack, Transform


def names(fun, *args):
    """Name stack of each equation, those of inner programs after the one that holds them."""
    found = []

    def walk(jaxpr):
        for eqn in jaxpr.eqns:
            found.append((eqn.primitive.name, str(eqn.source_info.name_stack)))
            for value in eqn.params.values():
                for inner in value if isinstance(value, tuple) else (value,):
                    if hasattr(inner, "eqns"):
                        walk(inner)

    walk(purax.make_jaxpr(fun)(*args).jaxpr)
    return found


def locations(fun, *args):
    """Names of the operations in the lowered program."""
    return set(re.findall(r'loc\("([^"]*)"\("', purax.jit(fun).lower(*args).as_text(debug_info=True)))


def scoped(x):
    with purax.named_scope("layer"):
        return lax.sin(x)


@pytest.mark.parametrize(
    ("elements", "text"),
    [
        ([], ""),
        (["a", "b"], "a/b"),
        ([Transform("vmap")], "vmap()"),
        (["a", Transform("vmap"), Transform("jvp"), "b", "c"], "a/vmap(jvp(b))/c"),
        ([Transform("vmap"), "a", Transform("jvp")], "vmap(a)/jvp()"),
        (["a", Transform("vmap"), "loop", "body", Instead("asked"), "b"], "a/vmap(loop)/asked/b"),
    ],
)
def test_transformations_are_written_around_the_name_that_follows(elements, text):
    assert str(NameStack(elements)) == text


@pytest.mark.parametrize(
    ("transform", "stacks"),
    [
        (lambda f: f, ["layer"]),
        (purax.vmap, ["vmap(layer)"]),
        (lambda f: lambda x: purax.jvp(f, (x,), (x,)), ["jvp(layer)"]),
        (lambda f: purax.grad(lambda x: f(x).sum()), ["jvp(layer)", "transpose(jvp(layer))"]),
        (lambda f: purax.vmap(purax.grad(f)), ["vmap(jvp(layer))", "vmap(transpose(jvp(layer)))"]),
        (lambda f: purax.named_scope("net")(purax.vmap(f)), ["net/vmap(layer)"]),
        (purax.jit, ["", "layer"]),
        (lambda f: purax.named_scope("net")(purax.jit(f)), ["net", "layer"]),
        (lambda f: purax.vmap(purax.jit(f)), ["vmap()", "layer"]),
        (lambda f: purax.jit(f, inline=True), ["layer"]),
        (lambda f: purax.named_scope("net")(purax.jit(f, inline=True)), ["net/layer"]),
        (lambda f: purax.named_scope("net")(lambda x: purax.linearize(f, x)[1](x)), ["net/jvp(layer)"]),
    ],
)
def test_equations_lie_in_the_names_that_were_open(transform, stacks):
    found = [stack for _, stack in names(transform(scoped), pnp.ones(3))]
    assert [
        s for s in dict.fromkeys(found) if "(" not in s or s.endswith(("layer)", "layer))", "layer)))", "vmap()"))
    ] == stacks


def test_a_pullback_lies_where_it_is_called():
    def f(x):
        with purax.named_scope("forward"):
            out, pull = purax.vjp(scoped, x)
        with purax.named_scope("backward"):
            return pull(out)

    found = {stack for name, stack in names(f, pnp.ones(3)) if name in ("sin", "strong_mul")}
    assert found == {"forward/jvp(layer)", "backward/transpose(jvp(layer))"}


def test_lowered_programs_name_calls_loops_and_branches():
    @purax.named_scope("net")
    def f(x):
        inner = purax.named_scope("step")(lambda c: c + 1)
        x = lax.while_loop(lambda c: c[0] < 3, inner, x)
        x, _ = lax.scan(lambda c, _: (inner(c), None), x, None, length=2)
        return purax.jit(scoped)(lax.cond(x[0] > 0, inner, lambda c: c, x))

    found = locations(f, pnp.ones(2))
    assert {
        "jit(f)/net/while/body/step/add", "jit(f)/net/while/cond/lt", "jit(f)/net/cond/branch_1_fun/step/add",
        "jit(f)/net/jit(scoped)", "layer/sin",
    } <= found  # fmt: skip


def test_the_condition_of_a_lane_lies_beside_the_body_of_the_loop():
    @purax.named_scope("net")
    def f(x):
        return lax.while_loop(purax.named_scope("end")(lambda c: c < 5), purax.named_scope("step")(lambda c: c + 1), x)

    found = locations(purax.vmap(lambda x: purax.jvp(f, (x,), (x,))), pnp.ones(2))
    start = "jit(<lambda>)/vmap(jvp(net))/while"
    assert {f"{start}/body/step/add", f"{start}/cond/end/lt", f"{start}/body_pred/end/lt"} <= found


def test_a_quotient_is_differentiated_by_one():
    found = locations(purax.grad(lambda x: purax.named_scope("part")(lambda x: x / 3)(x).sum()), pnp.ones(2))
    assert "jit(<lambda>)/transpose(jvp(part))/div" in found


def test_names_reach_the_compiled_program():
    text = purax.jit(purax.named_scope("net")(purax.jit(scoped))).lower(pnp.ones(3)).compile().as_text()
    assert 'op_name="jit(scoped)/net/jit(scoped)/layer/sin"' in text


def test_names_with_quotes_are_written_into_programs():
    def f(x):
        with purax.named_scope('the "first" \\ part'):
            return lax.sin(x)

    lowered = purax.jit(f).lower(1.0)
    assert r"the \"first\" \\ part/sin" in lowered.as_text(debug_info=True)
    np.testing.assert_allclose(lowered.compile()(1.0), np.sin(1.0), rtol=1e-6)


def test_equal_programs_in_other_scopes_keep_their_own_names():
    def f(x, name):
        return lax.fori_loop(0, 3, lambda i, c: purax.named_scope(name)(lax.sin)(c), x)

    for name in ("first", "second"):
        assert any(f"/{name}/sin" in place for place in locations(functools.partial(f, name=name), 1.0))


def test_equations_of_derived_programs_keep_the_lines_of_the_users():
    line = scoped.__code__.co_firstlineno + 2

    def f(x):
        return lax.scan(lambda c, _: (scoped(c), None), x, None, length=2)[0]

    text = purax.jit(purax.vmap(purax.grad(f))).lower(pnp.ones(3)).as_text(debug_info=True)
    lines = re.findall(r'loc\("[^"]*layer/(?:sin|cos|mul)"\("[^"]*"\("[^"]*test_name_stack.py":(\d+)', text)
    assert lines and set(map(int, lines)) == {line}


def test_scopes_within_rules_of_users_are_told():
    @purax.custom_jvp
    def f(x):
        return x * 2

    @f.defjvp
    def _(primals, tangents):
        with purax.named_scope("rule"):
            return f(*primals), tangents[0] * 3

    assert "jvp(rule)" in {stack for _, stack in names(lambda x: purax.jvp(f, (x,), (x,)), 1.0)}


def test_hlo_text_has_metadata_on_request():
    lowered = purax.jit(scoped).lower(1.0)
    assert 'op_name="jit(scoped)/layer/sin"' in lowered.as_text("hlo", debug_info=True)
    assert "metadata" not in lowered.as_text("hlo")
