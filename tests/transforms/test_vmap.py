# SPDX-License-Identifier: Apache-2.0
"""Mapping: a function over one axis of its arguments equals a loop over slices."""

import numpy as np
import pytest

import purax
from purax import lax
from purax import numpy as pnp
from purax.core import ir
from purax.core.axes import Axis
from purax.transforms.vmap import batch_jaxpr

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4) / 10


def looped(fun, *lanes):
    return np.stack([np.asarray(fun(*lane)) for lane in zip(*lanes, strict=True)])


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
def test_any_axis_can_be_mapped(axis):
    fun = lambda x: pnp.sin(x).sum(0) * x[0]
    np.testing.assert_allclose(purax.vmap(fun, in_axes=axis)(X), looped(fun, np.moveaxis(X, axis, 0)), rtol=1e-5)


@pytest.mark.parametrize("out_axes", [0, 1, 2, -1])
def test_the_axis_comes_out_where_it_is_wanted(out_axes):
    found = purax.vmap(lambda x: x * 2.0, in_axes=1, out_axes=out_axes)(X)
    np.testing.assert_allclose(found, np.moveaxis(np.moveaxis(X * 2, 1, 0), 0, out_axes))


def test_axes_follow_the_structure_of_arguments_and_outputs():
    def fun(state, y):
        return {"a": state["w"] * y, "b": (state["n"], y.sum())}

    found = purax.vmap(fun, in_axes=({"w": 0, "n": None}, 1), out_axes={"a": 1, "b": (None, 0)})(
        {"w": pnp.arange(3.0), "n": 7.0}, pnp.asarray(X[0].T)
    )
    np.testing.assert_allclose(found["a"], (np.arange(3)[:, None] * X[0]).T, rtol=1e-6)
    assert float(found["b"][0]) == 7
    np.testing.assert_allclose(found["b"][1], X[0].sum(1), rtol=1e-6)


def test_keyword_arguments_are_mapped_over_their_first_axis():
    np.testing.assert_allclose(
        purax.vmap(lambda x, y: x + y.sum())(pnp.arange(2.0), y=X), np.arange(2) + X.sum((1, 2)), rtol=1e-6
    )


def test_what_is_not_mapped_may_be_anything():
    found = purax.vmap(lambda f, x: f(x), in_axes=(None, 0))(lambda x: x + 1, pnp.arange(3))
    np.testing.assert_array_equal(found, [1, 2, 3])


def test_outputs_that_are_the_same_in_each_lane():
    np.testing.assert_array_equal(purax.vmap(lambda x: 3.0)(pnp.arange(2.0)), [3, 3])
    assert float(purax.vmap(lambda x: 3.0, out_axes=None)(pnp.arange(2.0))) == 3
    with pytest.raises(ValueError, match="out_axes is None"):
        purax.vmap(lambda x: x, out_axes=None)(pnp.arange(2.0))
    np.testing.assert_array_equal(purax.vmap(lambda: pnp.ones(2), axis_size=3)(), np.ones((3, 2)))


def test_mapped_twice_over_different_axes():
    fun = lambda x, y: (x * y).sum() - x[0]
    found = purax.vmap(purax.vmap(fun, in_axes=(1, None)), in_axes=(0, 0))(X, X[:, :, 0])
    want = [[fun(X[i, :, j], X[i, :, 0]) for j in range(4)] for i in range(2)]
    np.testing.assert_allclose(found, np.array(want), rtol=1e-5)


def test_a_lane_does_not_stop_for_the_others():
    count = lambda n: lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] * 2), (0, 1))[1]
    np.testing.assert_array_equal(purax.vmap(count)(pnp.array([0, 3, 1, 5])), [1, 8, 2, 32])


def test_a_condition_per_lane_selects():
    fun = lambda x: lax.cond(x > 1, lambda v: v * 10, lambda v: -v, x)
    np.testing.assert_array_equal(purax.vmap(fun)(pnp.arange(4)), [0, -1, 20, 30])


def test_indices_per_lane_read_and_write():
    take = lambda row, i: row[i]
    np.testing.assert_array_equal(purax.vmap(take)(X[0], pnp.array([1, 3, -1])), [X[0][0, 1], X[0][1, 3], X[0][2, -1]])
    put = lambda row, i: row.at[i].add(100.0)
    want = X[0].copy()
    want[np.arange(3), [1, 3, 0]] += 100
    np.testing.assert_allclose(purax.vmap(put)(X[0], pnp.array([1, 3, 0])), want)


def test_collectives_see_the_named_axis():
    found = purax.vmap(lambda x: (lax.psum(x, "i"), lax.axis_index("i")), axis_name="i")(pnp.arange(4.0))
    np.testing.assert_array_equal(found[0], [6, 6, 6, 6])
    np.testing.assert_array_equal(found[1], [0, 1, 2, 3])
    with pytest.raises(NameError, match="unbound axis name"):
        purax.vmap(lambda x: lax.psum(x, "j"), axis_name="i")(pnp.arange(4.0))


@pytest.mark.parametrize(
    ("make", "args", "error", "part"),
    [
        (lambda f: purax.vmap(f), (np.ones(2), np.ones(3)), ValueError, "inconsistent sizes"),
        (lambda f: purax.vmap(f, in_axes=(0,)), (np.ones(2), np.ones(2)), ValueError, "len"),
        (lambda f: purax.vmap(f, in_axes=(0, 1)), (np.ones(2), np.ones(2)), ValueError, "rank"),
        (lambda f: purax.vmap(f, in_axes=None), (np.ones(2), np.ones(2)), ValueError, "at least one non-None"),
        (lambda f: purax.vmap(f, in_axes="x"), (1, 2), TypeError, "in_axes"),
        (lambda f: purax.vmap(f, out_axes="x"), (1, 2), TypeError, "out_axes"),
        (lambda f: purax.vmap(f, out_axes=3), (np.ones(2), np.ones(2)), ValueError, "out of bounds"),
        (lambda f: purax.vmap(3), (), TypeError, "callable"),
    ],
)
def test_axes_that_do_not_fit_are_refused(make, args, error, part):
    with pytest.raises(error, match=part):
        make(lambda x, y: x + y)(*args)


def test_sizes_that_differ_are_listed_with_their_arguments():
    with pytest.raises(ValueError) as caught:
        purax.vmap(lambda params, x: x)({"w": pnp.ones(2)}, pnp.ones(3))
    assert "params['w']: axis 0" in str(caught.value) and "x: axis 0" in str(caught.value)


def test_the_mapped_form_of_a_program_is_made_once():
    jaxpr = ir.intern(purax.make_jaxpr(lambda x, y: (x * y, y + 1.0))(1.0, 2.0).jaxpr)
    first, batched = batch_jaxpr(jaxpr, Axis(None, 3), (True, False))
    assert batched == (True, False) and batch_jaxpr(jaxpr, Axis(None, 3), (True, False))[0] is first
    assert batch_jaxpr(jaxpr, Axis(None, 4), (True, False))[0] is not first


def test_documentation_and_name_are_kept():
    def fun(x):
        """Doubles."""
        return 2 * x

    mapped = purax.vmap(fun)
    assert mapped.__name__ == "fun" and "Vectorized version of fun" in mapped.__doc__ and "Doubles." in mapped.__doc__


def test_a_program_that_names_the_axis_is_mapped_whatever_it_is_given():
    lane = lambda x: x + lax.axis_index("i")
    count = lambda x: lax.while_loop(lambda x: x < lax.axis_index("i"), lambda x: x + 2, x)
    chosen = lambda x: lax.cond(lax.axis_index("i") > 1, lambda: x, lambda: -x)
    summed = lambda x: lax.scan(lambda c, _: (c + lax.psum(lax.axis_index("i"), "i"), None), x, None, length=2)[0]
    for fun, expected in (
        (lane, [1, 2, 3, 4]),
        (count, [1, 1, 3, 3]),
        (chosen, [-1, -1, 1, 1]),
        (summed, [13, 13, 13, 13]),
    ):
        for run in (fun, purax.jit(fun), purax.checkpoint(fun)):
            found = purax.vmap(lambda _, x, run=run: run(x), axis_name="i", in_axes=(0, None))(pnp.zeros(4), 1)
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("inner", [purax.jit, lambda f: lambda x: lax.scan(lambda c, _: (f(c), None), x, None, 1)[0]])
def test_no_type_of_a_named_lane_is_left_outside(inner):
    base = inner(lambda x: pnp.sin(x) * x.sum())
    fun = purax.custom_vjp(base)
    fun.defvjp(lambda x: (base(x), x), lambda x, c: purax.vjp(base, x)[1](c))
    named = purax.vmap(lambda y: fun(lax.pmean(y, "lane")), axis_name="lane")
    x, v = pnp.array([0.3, -0.4]), pnp.array([1.0, 0.5])
    second = lambda f: purax.grad(lambda x: purax.grad(lambda x: f(x).sum())(x) @ v)(x)
    np.testing.assert_allclose(second(lambda x: named(pnp.stack([x, x]))[0]), second(base), rtol=1e-5)
    pulled = purax.custom_vjp(base)
    pulled.defvjp(lambda x: purax.vjp(base, x), lambda pull, c: pull(c))
    forward = lambda x: purax.vmap(lambda y: pulled(lax.pmean(y, "lane")), axis_name="lane")(pnp.stack([x, x]))[0]
    np.testing.assert_allclose(purax.jvp(forward, (x,), (v,))[1], purax.jvp(base, (x,), (v,))[1], rtol=1e-5)


@pytest.mark.parametrize("outer", [lambda f: f, purax.jit], ids=["eager", "jit"])
def test_rules_name_the_axis_also_where_no_operand_is_mapped(outer):
    @purax.custom_vjp
    def fun(x):
        return x

    fun.defvjp(lambda x: (x, None), lambda _, c: (c * (1 + lax.axis_index("lane")),))
    inner = outer(purax.grad(fun))
    named = purax.vmap(lambda y: inner(lax.pmean(y, "lane")), axis_name="lane")
    np.testing.assert_array_equal(named(pnp.ones(3)), [1, 2, 3])
    tangents = purax.vmap(lambda y: purax.jvp(outer(fun), (y,), (1.0,))[1], axis_name="lane")
    np.testing.assert_array_equal(tangents(pnp.ones(3)), [1, 2, 3])
