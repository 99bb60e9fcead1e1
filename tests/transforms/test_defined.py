# SPDX-License-Identifier: Apache-2.0
"""Primitives that users define."""

import copy
import pickle

import numpy as np
import pytest

import purax
import purax.numpy as pnp
from purax import errors, export, lax
from purax.core import ShapedArray
from purax.extend import core
from purax.interpreters import ad, batching, mlir


def multiply_add():
    """`x y + z`, with every rule written as users write them."""
    p = core.Primitive("multiply_add")
    p.def_impl(lambda x, y, z: pnp.asarray(np.multiply(x, y) + np.asarray(z)))
    p.def_abstract_eval(lambda x, y, z: ShapedArray(x.shape, x.dtype))
    mlir.register_lowering(p, mlir.lower_fun(lambda x, y, z: x * y + z, multiple_results=False))

    def jvp(primals, tangents):
        x, y, z = primals
        dx, dy, dz = map(ad.instantiate_zeros, tangents)
        return p.bind(x, y, z), p.bind(dx, y, p.bind(x, dy, dz))

    def transpose(ct, x, y, z):
        zero = np.zeros(np.shape(x if ad.is_undefined_primal(y) else y), np.float32)
        if ad.is_undefined_primal(x):
            return p.bind(ct, y, zero), None, ct
        return None, p.bind(x, ct, zero) if ad.is_undefined_primal(y) else None, ct

    def batch(operands, dims):
        size = next(x.shape[d] for x, d in zip(operands, dims, strict=True) if d is not None)
        return p.bind(*[batching.bdim_at_front(x, d, size) for x, d in zip(operands, dims, strict=True)]), 0

    ad.primitive_jvps[p], ad.primitive_transposes[p], batching.primitive_batchers[p] = jvp, transpose, batch
    return p.bind


def test_a_defined_primitive_goes_through_all_transformations_in_any_order():
    f = multiply_add()
    assert f(2.0, 10.0, 3.0) == purax.jit(f)(2.0, 10.0, 3.0) == 23

    def of_one(x):
        return f(x, 10.0, 3.0) * f(x, x, x)

    slope = 10 * 6 + 23 * 5
    for run in (
        purax.grad(of_one), purax.jit(purax.grad(of_one)), purax.grad(purax.jit(of_one)), purax.jacfwd(of_one),
        lambda x: purax.vmap(purax.grad(of_one))(pnp.stack([x, x]))[1], lambda x: purax.linearize(of_one, x)[1](1.0),
    ):  # fmt: skip
        assert run(2.0) == slope
    assert purax.hessian(lambda x: f(x, x, x))(3.0) == 2
    np.testing.assert_array_equal(purax.vmap(f, (0, None, 0))(pnp.arange(3.0), 2.0, pnp.ones(3)), [1, 3, 5])
    assert lax.scan(lambda c, x: (f(c, x, x), None), 1.0, pnp.arange(1.0, 4.0))[0] == 21
    assert "multiply_add a b c" in str(purax.make_jaxpr(f)(1.0, 2.0, 3.0))


def test_several_results_are_a_list():
    p = core.Primitive("pair")
    p.multiple_results = True
    p.def_abstract_eval(lambda x, k: (x, x))
    mlir.register_lowering(p, mlir.lower_fun(lambda x, k: (x * k, x + k), multiple_results=True))
    batching.axis_primitive_batchers[p] = lambda size, name, _, operands, dims, k: (p.bind(*operands, k=k), dims * 2)
    for run in (lambda x: p.bind(x, k=3), purax.jit(lambda x: p.bind(x, k=3)), purax.vmap(lambda x: p.bind(x, k=3))):
        outs = run(pnp.ones(2))
        assert isinstance(outs, list)
        np.testing.assert_array_equal(outs, [[3, 3], [4, 4]])


def test_a_platform_has_a_lowering_of_its_own():
    p = core.Primitive("by_platform")
    p.def_abstract_eval(lambda x: x)
    mlir.register_lowering(p, mlir.lower_fun(pnp.tanh, multiple_results=False))
    mlir.register_lowering(p, mlir.lower_fun(pnp.cos, multiple_results=False), platform="cuda")
    np.testing.assert_allclose(p.bind(0.5), np.tanh(0.5), rtol=1e-6)
    texts = export.export(purax.jit(p.bind), platforms=("cpu", "cuda", "rocm"))(np.float32(1)).modules
    assert [name for name, text in texts.items() if "stablehlo.cosine" in text] == ["cuda"]
    far = core.Primitive("far")
    far.def_abstract_eval(lambda x: x)
    mlir.register_lowering(far, mlir.lower_fun(pnp.cos, multiple_results=False), platform="tpu")
    with pytest.raises(errors.MissingRuleError, match="no lowering for the platform 'cpu', only for tpu"):
        far.bind(1.0)


def test_rules_by_their_form():
    sine = core.Primitive("sine")
    sine.def_abstract_eval(lambda x: x)
    mlir.register_lowering(sine, mlir.lower_fun(pnp.sin, multiple_results=False))
    ad.defjvp(sine, lambda t, x: t * pnp.cos(x))
    batching.defvectorized(sine)
    np.testing.assert_allclose(purax.vmap(purax.grad(sine.bind))(pnp.arange(3.0)), np.cos(np.arange(3.0)), rtol=1e-6)

    double = core.Primitive("double")
    double.def_abstract_eval(lambda x: x)
    mlir.register_lowering(double, mlir.lower_fun(lambda x: 2 * x, multiple_results=False))
    ad.deflinear2(double, lambda ct, x: (double.bind(ct),))
    batching.defbroadcasting(double)
    assert purax.grad(lambda x: double.bind(double.bind(x)))(1.0) == 4
    np.testing.assert_array_equal(purax.vmap(purax.grad(double.bind))(pnp.ones(2)), [2, 2])

    product = core.Primitive("product")
    product.def_abstract_eval(lambda x, y: x)
    mlir.register_lowering(product, mlir.lower_fun(lambda x, y: x * y, multiple_results=False))
    ad.defbilinear(product, lambda ct, x, y: product.bind(ct, y), lambda ct, x, y: product.bind(x, ct))
    assert purax.grad(product.bind, (0, 1))(3.0, 4.0) == (4, 3)


def test_an_integer_operand_has_a_zero_tangent():
    seen = []
    p = core.Primitive("pick")
    p.def_abstract_eval(lambda x, i: ShapedArray((), x.dtype))
    mlir.register_lowering(p, mlir.lower_fun(lambda x, i: x[i], multiple_results=False))

    def jvp(primals, tangents):
        seen.append(tangents[1])
        return p.bind(*primals), p.bind(tangents[0], primals[1])

    ad.primitive_jvps[p] = jvp
    assert purax.jvp(lambda x: p.bind(x, 1), (pnp.arange(3.0),), (pnp.ones(3),)) == (1, 1)
    assert type(seen[0]) is ad.Zero and seen[0].aval.dtype == purax.dtypes.float0
    assert ad.instantiate_zeros(seen[0]).dtype == purax.dtypes.float0
    assert ad.instantiate_zeros(ad.Zero.from_primal_value(2.0)) == 0


def test_what_nobody_gave_is_told():
    p = core.Primitive("bare")
    with pytest.raises(errors.MissingRuleError, match="primitive bare has no type rule"):
        purax.jit(p.bind)(1.0)
    p.def_abstract_eval(lambda x: x)
    with pytest.raises(
        errors.MissingRuleError, match=r"primitive bare has no lowering rule; give one: .*register_lowering"
    ):
        p.bind(1.0)
    with pytest.raises(errors.MissingRuleError, match="no derivative rule"):
        purax.grad(p.bind)(1.0)
    with pytest.raises(errors.MissingRuleError, match="no batching rule"):
        purax.vmap(p.bind)(pnp.ones(2))
    mlir.register_lowering(p, lambda context, x: [x])
    with pytest.raises(errors.MissingRuleError, match="purax lowers to text"):
        p.bind(1.0)
    with pytest.raises(TypeError, match="cannot be replaced"):
        ad.primitive_jvps[lax.sin_p] = lambda primals, tangents: None
    p.def_abstract_eval(lambda x: x.shape)
    with pytest.raises(TypeError, match="must give core"):
        purax.jit(p.bind)(1.0)
    with pytest.raises(TypeError, match="pickled"):
        pickle.dumps(p)
    assert copy.deepcopy(p) is p


def test_two_primitives_may_have_one_name_and_a_lowering_may_be_given_again():
    first, second = core.Primitive("again"), core.Primitive("again")
    for p, k in ((first, 1), (second, 2)):
        p.def_abstract_eval(lambda x: x)
        mlir.register_lowering(p, mlir.lower_fun(lambda x, k=k: x * k, multiple_results=False))
    assert purax.jit(lambda x: (first.bind(x), second.bind(x)))(1.0) == (1, 2) and second.bind(1.0) == 2
    mlir.register_lowering(second, mlir.lower_fun(lambda x: x * 3, multiple_results=False))
    assert second.bind(1.0) == 3


def test_users_write_their_own_interpreters_of_programs():
    p = core.Primitive("shift")
    p.def_impl(lambda x: x + 1)
    p.def_abstract_eval(lambda x: x)
    closed = purax.make_jaxpr(lambda x: pnp.split(pnp.tanh(p.bind(x)), 2)[1] * 2)(pnp.zeros(2))
    env = dict(zip(closed.jaxpr.invars, [pnp.ones(2)], strict=True))

    def read(atom):
        return atom.val if isinstance(atom, core.Literal) else env[atom]

    for eqn in closed.jaxpr.eqns:
        functions, params = eqn.primitive.get_bind_params(eqn.params)
        outs = eqn.primitive.bind(*functions, *map(read, eqn.invars), **params)
        env.update(zip(eqn.outvars, outs if eqn.primitive.multiple_results else [outs], strict=True))
    np.testing.assert_allclose(read(closed.jaxpr.outvars[0]), [2 * np.tanh(2.0)], rtol=1e-6)
