# SPDX-License-Identifier: Apache-2.0
"""Jaxprs: structure, interning, printing, checking, passes."""

import numpy as np
import pytest

import purax
from purax import errors, lax
from purax import numpy as pnp
from purax.core import ir, passes
from purax.core.aval import array_aval
from purax.core.interpret import eval_jaxpr, jaxpr_as_fun, reference_eval
from purax.core.verify import verify
from purax.primitives import elementwise

F32 = array_aval((), np.dtype(np.float32))
INT = array_aval((), np.dtype(np.int32))


def traced(fun, *args):
    return purax.make_jaxpr(fun)(*args)


def test_equal_programs_are_one_object():
    first = ir.intern(traced(lambda x: x * 2.0 + 1.0, 1.0).jaxpr)
    second = ir.intern(traced(lambda y: y * 2.0 + 1.0, 3.0).jaxpr)
    assert first is second
    assert ir.intern(traced(lambda x: x * 2.0 + 1.5, 1.0).jaxpr) is not first
    assert ir.intern(traced(lambda x: x * 2.0 + 1.0, pnp.float32(1)).jaxpr) is not first


def test_literals_are_told_apart_by_type_and_bits():
    zero, minus, nan, other = (traced(lambda x, c=c: x + c, 1.0).jaxpr for c in (0.0, -0.0, float("nan"), float("nan")))
    assert ir.intern(zero) is not ir.intern(minus)
    assert ir.intern(nan) is ir.intern(other)


def test_constants_become_leading_inputs():
    table = np.arange(3, dtype=np.float32)
    closed = traced(lambda x: x + table, pnp.ones(3))
    jaxpr, consts = ir.open_constants(closed)
    assert not jaxpr.constvars and len(jaxpr.invars) == 2
    np.testing.assert_array_equal(consts[0], table)
    np.testing.assert_array_equal(eval_jaxpr(jaxpr, (), *consts, pnp.ones(3))[0], table + 1)


def test_what_is_captured_is_taken_at_once():
    table = np.ones(3, dtype=np.float32)
    closed = traced(lambda x: x + table, pnp.ones(3))
    table[:] = 7
    np.testing.assert_array_equal(jaxpr_as_fun(closed)(pnp.ones(3))[0], [2, 2, 2])


def test_a_program_by_its_references_equals_the_program():
    closed = traced(lambda x: pnp.sin(x) * 2.0, pnp.ones(3))
    np.testing.assert_allclose(
        reference_eval(closed.jaxpr, closed.consts, np.ones(3, np.float32))[0], np.sin(np.ones(3)) * 2, rtol=1e-6
    )


def test_a_program_prints_as_equations_with_types():
    def fun(x, rows):
        return lax.cond(x > 0.0, lambda v: lax.scan(lambda c, r: (c * r, None), v, rows)[0], pnp.sin, x)

    text = str(traced(fun, 1.0, pnp.ones(3)))
    assert text.splitlines()[0] == "{ lambda ; a:f32[] b:f32[3]. let"
    assert "c:bool[] = gt a 0.0:f32[]" in text
    assert "scan[length=3 reverse=False unroll=1 consts=0 carry=1" in text
    assert text.splitlines()[-1].strip().startswith("in (") and text == traced(fun, 1.0, pnp.ones(3)).pretty_print()


# --- the verifier


def equation(invars, outvars, primitive=elementwise.sin_p if hasattr(elementwise, "sin_p") else elementwise.neg_p):
    return ir.Equation(list(invars), list(outvars), primitive, {})


def test_a_variable_must_be_defined_before_it_is_used():
    a, b, c = ir.Var(F32), ir.Var(F32), ir.Var(F32)
    with pytest.raises(errors.VerifierError, match="not defined before"):
        verify(ir.Jaxpr([], [a], [c], [equation([b], [c]), equation([a], [b])]))
    with pytest.raises(errors.VerifierError, match="the outputs uses"):
        verify(ir.Jaxpr([], [a], [b], []))


def test_a_variable_is_defined_once():
    a, b = ir.Var(F32), ir.Var(F32)
    with pytest.raises(errors.VerifierError, match="defined twice"):
        verify(ir.Jaxpr([], [a], [b], [equation([a], [b]), equation([a], [b])]))


def test_types_of_outputs_are_those_that_infer_gives():
    a, b = ir.Var(F32), ir.Var(INT)
    with pytest.raises(errors.VerifierError, match="outputs are typed"):
        verify(ir.Jaxpr([], [a], [b], [equation([a], [b])]))


def test_inner_programs_are_checked_too():
    a, b, c = ir.Var(F32), ir.Var(F32), ir.Var(F32)
    bad = ir.Jaxpr([], [a], [b], [])
    outer = ir.Jaxpr([], [c], [d := ir.Var(F32)], [])
    closed = traced(lambda x: purax.jit(pnp.sin)(x), 1.0)
    eqn = closed.eqns[0]
    outer = ir.Jaxpr([], [c], [d], [eqn.replace(invars=[c], outvars=[d], params={**eqn.params, "jaxpr": bad})])
    with pytest.raises(errors.VerifierError):
        verify(outer)


# --- passes


def test_dead_equations_go_and_inputs_stay_unless_asked():
    jaxpr = traced(lambda x, y: (pnp.sin(x), pnp.cos(y)), 1.0, 2.0).jaxpr
    kept, used = passes.dead_code(jaxpr, [True, False])
    assert [e.primitive.name for e in kept.eqns] == ["sin"] and used == [True, False] and len(kept.invars) == 2
    narrow, _ = passes.dead_code(jaxpr, [True, False], keep_inputs=False)
    assert len(narrow.invars) == 1
    assert passes.dead_code(jaxpr)[0] is jaxpr


def test_dead_outputs_of_inner_programs_go_too():
    def fun(x, rows):
        a, _ = purax.jit(lambda v: (pnp.sin(v), pnp.cos(v)))(x)
        (c, _), _ = lax.scan(lambda s, r: ((s[0] * r, s[1] + r), pnp.exp(r)), (x, x), rows)
        return a + c

    kept, _ = passes.dead_code(traced(fun, 1.0, pnp.ones(3)).jaxpr)
    text = str(kept)
    assert "cos" not in text and "exp" not in text and "carry=1" in text


def test_carries_that_feed_the_wanted_ones_stay():
    def fun(rows):
        return lax.scan(lambda s, r: ((s[0] + s[1], s[1] * r), None), (0.0, 1.0), rows)[0][0]

    closed = traced(fun, pnp.arange(1.0, 4.0))
    kept, _ = passes.dead_code(closed.jaxpr)
    np.testing.assert_allclose(eval_jaxpr(kept, closed.consts, pnp.arange(1.0, 4.0))[0], 1 + 1 + 2)


def test_equal_equations_are_merged():
    jaxpr = traced(lambda x: pnp.sin(x) * pnp.sin(x) + pnp.sin(x + 0.0), 1.0).jaxpr
    merged = passes.common_subexpressions(jaxpr)
    assert sum(e.primitive.name == "sin" for e in merged.eqns) == 2
    np.testing.assert_allclose(eval_jaxpr(merged, (), 0.3)[0], np.sin(0.3) ** 2 + np.sin(0.3), rtol=1e-6)


def test_calls_are_replaced_by_what_they_call():
    inner = purax.jit(lambda v: purax.jit(pnp.sin)(v) + 1.0)
    jaxpr = traced(lambda x: inner(x) * inner(2.0 * x), 1.0).jaxpr
    flat = passes.inline(jaxpr)
    assert all(e.primitive.name != "jit" for e in flat.eqns)
    verify(flat)
    expected = (np.sin(0.3) + 1) * (np.sin(0.6) + 1)
    np.testing.assert_allclose(eval_jaxpr(flat, (), 0.3)[0], expected, rtol=1e-6)
