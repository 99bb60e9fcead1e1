# SPDX-License-Identifier: Apache-2.0
"""Transposition of linear functions, and the split of programs into values and derivatives."""

import numpy as np
import pytest

import purax
from purax import errors, lax
from purax import numpy as pnp
from purax.core import ir
from purax.core.interpret import eval_jaxpr
from purax.transforms.transpose import linearize_jaxpr, transpose_jaxpr

A = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_the_transpose_of_a_matrix_product():
    (found,) = purax.linear_transpose(lambda x: A @ x, purax.ShapeDtypeStruct((3,), np.float32))(pnp.array([1.0, 2.0]))
    np.testing.assert_allclose(found, A.T @ [1, 2])


def test_a_transposed_scan_runs_backwards():
    fun = lambda x: lax.scan(lambda c, row: (0.5 * c + row, c), 0.0 * x[0], x)
    (found,) = purax.linear_transpose(fun, pnp.ones(4))((1.0, pnp.ones(4)))
    matrix = np.stack([np.concatenate([[fun(e)[0]], fun(e)[1]]) for e in np.eye(4, dtype=np.float32)])
    np.testing.assert_allclose(found, matrix @ np.ones(5), rtol=1e-6)


def test_a_transposed_function_goes_into_and_out_of_jitted_functions():
    transposed = purax.jit(lambda s: purax.linear_transpose(lambda x: s * x, 1.0))(3.0)
    assert float(purax.jit(lambda f, c: f(c))(transposed, 2.0)[0]) == 6


@pytest.mark.parametrize(
    ("fun", "cotangent", "part"),
    [
        (lambda x: [x, x], 1.0, "cotangent tree does not match"),
        (lambda x: pnp.stack([x, x]), 1.0, "cotangent type does not match"),
        (lambda x: x, 1j, "cotangent type does not match"),
    ],
)
def test_cotangents_must_be_like_the_output(fun, cotangent, part):
    with pytest.raises(TypeError, match=part):
        purax.linear_transpose(fun, 1.0)(cotangent)


def test_what_is_not_linear_is_refused():
    with pytest.raises(TypeError, match="linear_transpose only supports"):
        purax.linear_transpose(lambda x: 2.0 * x, 1)
    with pytest.raises(purax.errors.MissingRuleError):
        purax.linear_transpose(pnp.sin, 1.0)(1.0)


def test_a_program_splits_into_values_and_a_linear_part():
    jaxpr = ir.intern(purax.make_jaxpr(lambda x, y: (pnp.sin(x) * y, y))(1.0, 2.0).jaxpr)
    parts = linearize_jaxpr(jaxpr, (True, False))
    assert linearize_jaxpr(jaxpr, (True, False)) is parts and parts.out_nonzero == (True, False)
    outs = eval_jaxpr(parts.forward, (), 1.0, 2.0)
    (tangent,) = eval_jaxpr(parts.linear, (), *parts.pick([1.0, 2.0], outs), 3.0)
    np.testing.assert_allclose(tangent, 3 * 2 * np.cos(1), rtol=1e-6)
    transposed, nonzero, _ = transpose_jaxpr(parts.linear, (*[False] * len(parts.residuals), True), (True,))
    (cotangent,) = eval_jaxpr(transposed, (), *parts.pick([1.0, 2.0], outs), 3.0)
    np.testing.assert_allclose(cotangent, tangent, rtol=1e-6)
    assert nonzero == (True,)


def test_a_jitted_derivative_runs_the_values_once():
    fun = purax.jit(lambda x: pnp.exp(pnp.sin(x)))
    text = str(purax.make_jaxpr(purax.grad(fun))(1.0))
    assert text.count(" exp ") == 1 and text.count(" sin ") == 1 and text.count(" cos ") == 1


@pytest.mark.parametrize(
    ("function", "message"),
    [(pnp.sin, r"^sin\(float32\[\]\) at .*test_transpose.py"), (lambda x: x * x, r"^mul\(.*not linear"), (lambda x: 1 / x, "not linear"),
     (lambda x: purax.jit(pnp.sin)(x), "^sin"), (lambda x: pnp.dot(x[None], x[None]), "not linear")],
)  # fmt: skip
def test_a_function_that_is_not_linear_is_told_with_operation_and_line(function, message):
    with pytest.raises(errors.MissingRuleError, match=message):
        purax.linear_transpose(function, 1.0)(1.0)


def both(a, b):
    return pnp.sin(a), b * 2


MIXED = {
    "jit": lambda a, b: purax.jit(both)(a, b),
    "mapped jit": lambda a, b: purax.vmap(purax.jit(both))(a, b),
    "checkpoint": lambda a, b: purax.checkpoint(both)(a, b),
    "cond": lambda a, b: lax.cond(a[0] > 0, both, lambda a, b: (a, b), a, b),
    "scan": lambda a, b: lax.scan(lambda s, _: ((pnp.sin(s[0]), s[1] * s[0]), None), (a, b), None, 3)[0],
    "rows": lambda a, b: lax.map(lambda row: both(*row), (a, b)),
    "barrier": lambda a, b: lax.optimization_barrier((a, b)),
}


@pytest.mark.parametrize("kind", MIXED)
def test_what_does_not_depend_on_the_linear_operand_is_a_value(kind):
    x, c = pnp.array([0.3, 0.4]), pnp.array([2.0, 5.0])

    def fun(b):
        value, linear = MIXED[kind](x, b)
        return value * linear

    expected = fun(pnp.ones(2)) * c  # it is diagonal
    for run in (fun, purax.jit(fun)):
        np.testing.assert_allclose(purax.linear_transpose(run, x)(c)[0], expected, rtol=1e-6)
        np.testing.assert_allclose(
            purax.jit(lambda c: purax.linear_transpose(run, x)(c)[0])(c),
            expected,
            rtol=1e-6,
        )


def test_forward_mode_of_a_rule_that_pulls_a_checkpoint_back():
    inner = purax.checkpoint(lambda x: pnp.sin(x) * x.sum())
    fun = purax.custom_vjp(inner)
    fun.defvjp(lambda x: purax.vjp(inner, x), lambda pull, c: pull(c))
    x, v = pnp.array([0.3, -0.4]), pnp.array([1.0, 0.5])
    for run in (lambda f: f, purax.jit):
        np.testing.assert_allclose(
            run(lambda x: purax.jvp(fun, (x,), (v,))[1])(x), purax.jvp(inner, (x,), (v,))[1], rtol=1e-5
        )
