# SPDX-License-Identifier: Apache-2.0
"""Effects in lanes, branches and loops."""

import numpy as np
import pytest

import purax
from purax import debug, lax
from purax import numpy as pnp
from purax.experimental import checkify, io_callback

# --- effects in a branch that one lane of three takes (jax#19314) -----------------------------------------------------------

CALLS = {
    "debug": lambda f, x: debug.callback(f, x),
    "io": lambda f, x: io_callback(f, None, x),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("transform", [lambda f: f, purax.jit], ids=["eager", "jit"])
def test_an_effect_in_a_branch_happens_in_the_lanes_that_take_it(transform, call):
    seen = []

    def yes(x):
        call(lambda a: seen.append(float(a)), x)
        return x

    f = lambda x: lax.cond(x > 0, yes, lambda x: -x, x)
    np.testing.assert_array_equal(transform(purax.vmap(f))(np.array([-1.0, 2, -3])), [1, 2, 3])
    assert seen == [2]


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_an_effect_in_a_mapped_loop_happens_once_per_step_of_each_lane(call):
    seen = []

    def body(i):
        call(lambda a: seen.append(int(a)), i)
        return i + 1

    out = purax.jit(purax.vmap(lambda i: lax.while_loop(lambda i: i < 4, body, i)))(np.array([1, 3, 7]))
    np.testing.assert_array_equal(out, [4, 4, 7])
    assert sorted(seen) == [1, 2, 3, 3]


def test_a_check_in_a_branch_or_a_mapped_loop_looks_at_the_lanes_that_are_there():
    def step(x):
        purax.check(x < 5, "not below five: {}", x)
        return x + 1

    loop = purax.vmap(lambda x: lax.while_loop(lambda x: x < 5, step, x))
    branch = purax.vmap(lambda x: lax.cond(x < 5, step, lambda x: x, x))
    for f in (loop, branch, purax.jit(loop), purax.jit(branch)):
        np.testing.assert_array_equal(f(np.array([4, 5, 9])), [5, 5, 9])
    assert checkify.checkify(loop)(np.array([1, 9]))[0].get() is None
    wrong = purax.vmap(lambda x: lax.cond(x < 7, step, lambda x: x, x))
    assert "not below five: 6" in checkify.checkify(wrong)(np.array([1, 9, 6]))[0].get()


def test_nested_maps_and_branches_call_once_per_lane_that_is_meant():
    seen = []
    inner = lambda x, y: lax.cond(
        x > y, lambda: (debug.callback(lambda a, b: seen.append((int(a), int(b))), x, y), x)[1], lambda: y
    )
    out = purax.jit(purax.vmap(purax.vmap(inner, (None, 0)), (0, None)))(np.arange(3), np.arange(3))
    np.testing.assert_array_equal(out, np.maximum.outer(np.arange(3), np.arange(3)))
    assert sorted(seen) == [(1, 0), (2, 0), (2, 1)]


# --- an effect whose result nothing uses, in every transformation -------------------------------------------------------------


@pytest.mark.parametrize(
    "transform",
    [
        purax.jit, purax.grad, lambda f: purax.jit(purax.grad(f)), lambda f: purax.grad(purax.jit(f)), purax.checkpoint,
        lambda f: purax.grad(purax.checkpoint(f)), lambda f: purax.jit(purax.hessian(f)),
        lambda f: lambda x: purax.jvp(f, (x,), (x,)), lambda f: lambda x: purax.linearize(f, x)[0],
        lambda f: lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=1),
        lambda f: lambda x: lax.cond(True, f, f, x), lambda f: lambda x: purax.vmap(f)(pnp.ones(1) * x),
    ],
)  # fmt: skip
@pytest.mark.parametrize("ordered", [False, True])
def test_an_effect_happens_once_in_every_transformation(transform, ordered):
    seen = []

    def f(x):
        debug.callback(lambda a: seen.append(float(a)), x, ordered=ordered)
        return pnp.sin(x) * x

    transform(f)(2.0)
    assert seen == [2.0]


@pytest.mark.parametrize("transform", [lambda f: f, purax.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("bound", [None, 20])
def test_a_loop_that_is_run_again_for_its_derivative_tells_things_once(transform, bound):
    seen = []

    def condition(x):
        debug.callback(lambda a: seen.append(("condition", float(a))), x)
        return x < 100

    def body(x):
        debug.callback(lambda a: seen.append(("body", float(a))), x)
        purax.check(x > 0, "positive")
        return 2 * x

    f = lambda x: lax.while_loop(condition, body, x, max_steps=bound)
    derivative = purax.grad(f) if bound else lambda x: purax.linearize(f, x)[1](1.0)
    assert transform(derivative)(40.0) == 4
    assert [s for s in seen if s[0] == "body"] == [("body", 40), ("body", 80)]
    assert [s for s in seen if s[0] == "condition"] == [("condition", 40), ("condition", 80), ("condition", 160)]
    if bound:
        with pytest.raises(purax.errors.FailedCheckError, match="positive"):
            transform(derivative)(-1.0)


def test_effects_in_solvers_and_composites_keep_their_order():
    seen = []
    note = lambda tag: io_callback(lambda: seen.append(tag), None, ordered=True)

    def solve(_, b):
        note("solve")
        return b / 2

    composite = lax.composite(lambda x: (note("composite"), x + 1)[1], name="my.add")

    @purax.jit
    def f(x):
        note("first")
        y = lax.custom_linear_solve(lambda x: 2 * x, x, solve)
        y = composite(y)
        note("last")
        return y

    assert f(4.0) == 3
    assert seen == ["first", "solve", "composite", "last"]
