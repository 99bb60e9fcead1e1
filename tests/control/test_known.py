# SPDX-License-Identifier: Apache-2.0
"""Evaluation of what is known beside what is traced."""

import numpy as np
import pytest

import purax
import purax.numpy as pnp
from purax import errors
from purax.core import ShapedArray
from purax.extend.linear_util import wrap_init
from purax.interpreters import partial_eval


def test_known_values_are_computed_while_tracing():
    @purax.jit
    def fun(x):
        with purax.ensure_compile_time_eval():
            size = int(purax.jit(lambda: pnp.arange(4).sum())() + purax.grad(lambda y: y * y)(1.0))
        return x * size

    assert float(fun(2.0)) == 16


def test_traced_values_are_recorded_beside_them():
    @purax.jit
    def fun(x):
        with purax.ensure_compile_time_eval():
            return pnp.where(x > 0, pnp.sin(x), 2.0)

    assert fun(-1.0) == 2 and purax.grad(fun)(0.5) == pnp.cos(0.5)
    np.testing.assert_array_equal(purax.vmap(fun)(pnp.array([-1.0, 0.0])), [2, 2])

    @purax.jit
    def branches(x):
        with purax.ensure_compile_time_eval():
            return bool(x > 0)

    with pytest.raises(errors.TracerBoolConversionError):
        branches(1.0)


def test_partial_evaluation_computes_what_it_can():
    known, unknown = partial_eval.PartialVal.known, partial_eval.PartialVal.unknown
    fun = wrap_init(lambda x, y: (pnp.sin(x) * 2, x + y, y))
    jaxpr, (first, second, third), consts = partial_eval.trace_to_jaxpr_nounits(
        fun, [known(pnp.float32(1.0)), unknown(ShapedArray((3,), np.float32))]
    )
    assert first.is_known() and first.get_known() == 2 * pnp.sin(1.0) and first.get_aval().shape == ()
    assert not second.is_known() and tuple(second) == (ShapedArray((3,), np.float32), None) and not third.is_known()
    assert [e.primitive.name for e in jaxpr.eqns][-1] == "add" and "sin" not in str(jaxpr)
    np.testing.assert_array_equal(purax.core.eval_jaxpr(jaxpr, consts, pnp.ones(3))[0], [2, 2, 2])
    every, outs, _ = partial_eval.trace_to_jaxpr_nounits(fun, [known(1.0), known(2.0)], instantiate=True)
    assert len(every.outvars) == 3 and not any(o.is_known() for o in outs)


def test_partial_evaluation_within_a_program_stays_in_it():
    def fun(x):
        inner = wrap_init(lambda a, b: (pnp.sin(a), a + b))
        pvals = [partial_eval.PartialVal.known(x), partial_eval.PartialVal.unknown(ShapedArray((), np.float32))]
        _, (first, second), _ = partial_eval.trace_to_jaxpr_nounits(inner, pvals)
        assert first.is_known() and not second.is_known()
        return first.get_known()

    assert purax.jit(fun)(1.0) == pnp.sin(1.0) and purax.grad(fun)(1.0) == pnp.cos(1.0)


def test_a_program_of_flat_values():
    jaxpr, avals, consts = partial_eval.trace_to_jaxpr_dynamic(
        wrap_init(lambda x: [x * 2, pnp.ones(2) + 0 * x]), [ShapedArray((2,), np.float32)]
    )
    assert avals == [ShapedArray((2,), np.float32)] * 2
    np.testing.assert_array_equal(purax.core.eval_jaxpr(jaxpr, consts, pnp.ones(2))[0], [2, 2])
