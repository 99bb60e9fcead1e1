# SPDX-License-Identifier: Apache-2.0
"""Attributes for XLA: on operations, on values, on calls."""

import numpy as np
import pytest

import purax
from purax import lax
from purax import numpy as pnp
from purax.experimental.scheduling_groups import scheduling_group, xla_metadata_call
from purax.experimental.xla_metadata import set_xla_metadata
from purax.lowering.emit import with_attributes


def tagged(fun, *args):
    """Operations of the lowered program that have attributes, with these."""
    found = []
    for line in purax.jit(fun).lower(*args).as_text().splitlines():
        head, mark, rest = line.partition("mhlo.frontend_attributes = {")
        if mark:
            found.append((head.split("(")[0].split(" %")[0].rsplit(" ", 1)[-1].strip('"'), rest.partition("}")[0]))
    return found


def test_operations_within_the_context_have_its_attributes():
    def f(x):
        y = x + 1
        with set_xla_metadata(a="b", on=True):
            y = lax.sin(y)
            with set_xla_metadata(on=None, c=2):
                return lax.cos(y)

    assert tagged(f, 1.0) == [
        ("stablehlo.sine", 'a = "b", on = "true"'),
        ("stablehlo.cosine", 'a = "b", c = "2"'),
    ]
    purax.jit(f).lower(1.0).compile()


def test_programs_within_programs_and_derivatives_keep_them():
    def f(x):
        with set_xla_metadata(a="b"):
            return lax.cond(x > 0, lax.sin, lambda x: purax.jit(lax.cos)(x), x)

    found = dict(tagged(purax.vmap(purax.grad(f)), pnp.ones(3)))
    assert {"stablehlo.sine", "stablehlo.cosine"} <= set(found) and set(found.values()) == {'a = "b"'}


def test_a_jitted_function_is_traced_anew_for_other_attributes():
    f = set_xla_metadata(a="b")(purax.jit(lambda x: x + 1))
    plain = purax.jit(lambda x: x + 1)
    assert 'a = "b"' in f.lower(1.0).as_text() and f(1.0) == 2
    assert f.trace(1.0).jaxpr.eqns[0].ctx.xla_metadata == {"a": "b"}
    assert "frontend" not in plain.lower(1.0).as_text()
    with set_xla_metadata(c="d"):
        assert 'c = "d"' in plain.lower(1.0).as_text()


def test_values_mark_the_operations_that_gave_them():
    def f(x):
        return set_xla_metadata({"s": lax.sin(x), "c": lax.cos(x) + 1}, a="b")

    assert tagged(f, 1.0) == [("stablehlo.sine", 'a = "b"'), ("stablehlo.add", 'a = "b"')]
    np.testing.assert_allclose(purax.grad(lambda x: f(x)["s"])(0.5), np.cos(0.5), rtol=1e-6)


def test_calls_with_attributes_are_functions_of_their_own():
    @xla_metadata_call(inlineable="false")
    def g(x, scale=2):
        return x * scale

    text = purax.jit(lambda x: g(x)).lower(1.0).as_text()
    assert 'call @xla_metadata_call(%arg0) {mhlo.frontend_attributes = {inlineable = "false"}}' in text
    assert 'inlineable="false"' in purax.jit(purax.grad(lambda x: lax.sin(g(x)))).lower(1.0).compile().as_text()
    assert g(2.0) == 4 and scheduling_group("first")(lax.sin)(0.0) == 0


@pytest.mark.parametrize(
    ("function", "operation"),
    [(purax.grad(pnp.sin), "cosine"), (purax.grad(lambda x: 1 / x), "negate"), (pnp.sinc, "call")],
)
def test_values_are_marked_at_what_computes_them(function, operation):
    text = purax.jit(lambda x: set_xla_metadata(function(x), part="last")).lower(0.5).as_text()
    (line,) = [line for line in text.splitlines() if "mhlo.frontend_attributes" in line]
    assert operation in line and 'part = "last"' in line


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("%1 = stablehlo.sine %0 : tensor<f32>", "%1 = stablehlo.sine %0 {mhlo.frontend_attributes = {a = \"b\"}} : tensor<f32>"),
        ("%1 = stablehlo.constant dense<1> : tensor<i32>", "%1 = stablehlo.constant {mhlo.frontend_attributes = {a = \"b\"}} dense<1> : tensor<i32>"),
        ("%1 = \"stablehlo.sort\"(%0) ({\n}) {dimension = 0 : i64} : (tensor<3xi32>) -> tensor<3xi32>", "%1 = \"stablehlo.sort\"(%0) ({\n}) {dimension = 0 : i64, mhlo.frontend_attributes = {a = \"b\"}} : (tensor<3xi32>) -> tensor<3xi32>"),
        ("%1 = stablehlo.sine %0 {mhlo.frontend_attributes = {a = \"c\"}} : tensor<f32>", "%1 = stablehlo.sine %0 {mhlo.frontend_attributes = {a = \"c\"}} : tensor<f32>"),
        ("%1 = stablehlo.sine %0 {mhlo.frontend_attributes = {z = \"c\"}} : tensor<f32>", "%1 = stablehlo.sine %0 {mhlo.frontend_attributes = {z = \"c\", a = \"b\"}} : tensor<f32>"),
    ],
)  # fmt: skip
def test_attributes_are_written_where_the_operation_takes_them(line, found):
    assert with_attributes(line, {"a": "b"}.items()) == found
