# SPDX-License-Identifier: Apache-2.0
"""Loops: their derivatives, their empty and unrolled forms."""

import numpy as np
import pytest

import purax
from purax import grad, lax, nn, random
from purax import numpy as pnp
from purax.experimental import io_callback

# --- the Jacobian of a running sum by its inputs (jax#753) ----------------------------------------------------------------


def running(xs, **options):
    return lax.scan(lambda total, x: (total + x, total + x), 0.0, xs, **options)[1]


def by_index(xs):
    """The running sum, written into an array that the loop carries."""
    step = lambda i, sums: sums.at[i].set(xs[i] + pnp.where(i > 0, sums[i - 1], 0.0))
    return lax.fori_loop(0, 3, step, pnp.zeros(3))


@pytest.mark.parametrize(
    "function",
    [running, pnp.cumsum, by_index, lambda xs: lax.associative_scan(pnp.add, xs)],
    ids=["scan", "cumsum", "fori", "associative"],
)
@pytest.mark.parametrize("jacobian", [purax.jacrev, purax.jacfwd])
def test_the_jacobian_of_a_running_sum_is_lower_triangular(function, jacobian):
    np.testing.assert_array_equal(jacobian(function)(pnp.arange(3.0)), np.tril(np.ones((3, 3))))


def test_the_jacobian_of_a_running_sum_from_the_end_is_upper_triangular():
    jacobian = purax.jacrev(lambda xs: running(xs, reverse=True))(pnp.arange(3.0))
    np.testing.assert_array_equal(jacobian, np.triu(np.ones((3, 3))))


# --- no steps, and numbers of steps to unroll (jax#994, jax#20481) --------------------------------------------------------


def test_a_scan_of_length_zero_returns_its_start():
    step = lambda carry, x: (carry * x, (carry, pnp.ones(2)))
    carry, (first, second) = lax.scan(step, 2.0, pnp.zeros(0))
    assert float(carry) == 2.0
    assert (first.shape, second.shape) == ((0,), (0, 2))
    assert float(lax.scan(lambda c, _: (c + 1, None), 1.0, None, length=0)[0]) == 1.0
    assert lax.map(lambda row: row.sum(), pnp.zeros((0, 2))).shape == (0,)
    assert int(lax.fori_loop(3, 0, lambda i, c: c + 1, 5)) == 5


def test_a_scan_of_length_zero_can_be_differentiated_and_mapped():
    last = lambda c, xs: lax.scan(lambda c, x: (c * x, c), c, xs)[0]
    assert float(grad(last)(2.0, pnp.zeros(0))) == 1.0
    assert grad(last, 1)(2.0, pnp.zeros(0)).shape == (0,)
    np.testing.assert_array_equal(purax.vmap(last, (0, None))(pnp.arange(3.0), pnp.zeros(0)), [0, 1, 2])


@pytest.mark.parametrize("unroll", [0, 1, 2, 3, 7, True, False])
def test_unrolling_changes_no_result(unroll):
    np.testing.assert_array_equal(running(pnp.arange(3.0), unroll=unroll), [0, 1, 3])
    assert running(pnp.zeros(0), unroll=unroll).shape == (0,)
    assert int(lax.fori_loop(0, 3, lambda i, c: c + i, 5, unroll=unroll)) == 8


def test_a_negative_number_of_steps_to_unroll_is_refused():
    with pytest.raises(ValueError, match="unroll"):
        running(pnp.arange(3.0), unroll=-1)


# --- gradients through a recurrent cell (elixir-nx/axon PR#644) --------------------------------------------------------------


def cell(weights, hidden, x):
    """One step of a gated recurrent unit."""
    update, reset, new = weights
    both = pnp.concatenate([hidden, x])
    z = nn.sigmoid(both @ update)
    candidate = pnp.tanh(pnp.concatenate([nn.sigmoid(both @ reset) * hidden, x]) @ new)
    return (1 - z) * candidate + z * hidden


def by_python(weights, xs):
    hidden = pnp.zeros(4)
    for i in range(xs.shape[0]):
        hidden = cell(weights, hidden, xs[i])
    return hidden.sum()


def by_scan(weights, xs):
    return lax.scan(lambda h, x: (cell(weights, h, x), None), pnp.zeros(4), xs)[0].sum()


def by_fori(weights, xs):
    return lax.fori_loop(0, xs.shape[0], lambda i, h: cell(weights, h, xs[i]), pnp.zeros(4)).sum()


def test_the_gradient_of_a_recurrent_cell_by_a_loop_equals_the_unrolled_one():
    xs = random.normal(random.key(0), (7, 3))
    weights = list(random.normal(random.key(1), (3, 7, 4)))
    expected = grad(by_python)(weights, xs)
    for loop in (by_scan, by_fori):
        for got, want in zip(purax.jit(grad(loop))(weights, xs), expected, strict=True):
            np.testing.assert_allclose(got, want, atol=1e-6)


# --- lanes that are not meant (jax#2947), loops of unknown length (jax#2469) -------------------------------------------------


def settle(goal):
    """A loop that ends at `goal` from its own side of zero, and never from the other one."""
    return lambda x: lax.while_loop(lambda v: v != goal, lambda v: pnp.where(v * goal > 0, goal, v * 2), x)


def test_a_branch_that_never_ends_with_the_values_of_other_lanes_ends():
    up, down = settle(1e-7), settle(-1e-7)
    one = lambda x: lax.cond(x >= 0, up, down, x)
    np.testing.assert_array_equal(purax.vmap(one)(pnp.array([1.0, -1.0])), np.float32([1e-7, -1e-7]))
    np.testing.assert_array_equal(purax.vmap(one)(pnp.array([3.0, 1.0])), np.float32([1e-7, 1e-7]))  # one side only
    nested = purax.jit(purax.vmap(purax.vmap(one)))(pnp.array([[1.0, -1.0], [-2.0, -3.0]]))
    np.testing.assert_array_equal(nested, np.float32([[1e-7, -1e-7], [-1e-7, -1e-7]]))
    three = lambda i, x: lax.switch(i, [up, down, lambda x: x], x)
    found = purax.vmap(three)(pnp.array([0, 1, 2, -5, 7]), pnp.array([1.0, -1.0, 5.0, 2.0, 6.0]))
    np.testing.assert_array_equal(found, np.float32([1e-7, -1e-7, 5, 1e-7, 6]))


def test_a_loop_inside_a_loop_ends_in_lanes_that_have_finished():
    inner = lambda v: lax.while_loop(lambda n: n != 0, lambda n: n - 1, 10 - v)  # never ends for v > 10
    outer = lambda v: lax.while_loop(lambda s: s[0] < 10, lambda s: (s[0] + 4, s[1] + inner(s[0])), (v, 0))
    value, zero = purax.vmap(outer)(pnp.array([1, 8, 30]))
    np.testing.assert_array_equal(value, [13, 12, 30])
    np.testing.assert_array_equal(zero, [0, 0, 0])


def test_derivatives_through_branches_with_loops_are_those_of_each_lane():
    grow = lambda x: lax.while_loop(lambda v: v < 100, lambda v: v * 2, x, max_steps=20)  # never ends for x <= 0
    one = lambda x: lax.cond(x > 0, grow, lambda x: 3 * x, x)
    xs = pnp.array([1.0, -2.0, 60.0])
    np.testing.assert_array_equal(purax.vmap(grad(one))(xs), [128, 3, 2])
    np.testing.assert_array_equal(grad(lambda xs: purax.vmap(one)(xs).sum())(xs), [128, 3, 2])


def test_the_gradient_of_doubling_until_a_hundred_is_a_power_of_two():
    double = lambda x: lax.while_loop(lambda v: v < 100, lambda v: 2 * v, x, max_steps=50)
    assert float(grad(double)(1.0)) == 128 and float(purax.jit(grad(double))(30.0)) == 4
    np.testing.assert_array_equal(purax.vmap(grad(double))(pnp.array([1.0, 50.0, 300.0])), [128, 2, 1])


# --- effects of lanes that are not meant (jax#19314) --------------------------------------------------------------------------


CALLS = {
    "debug": lambda seen, x: purax.debug.callback(lambda v: seen.append(float(v)), x),
    "io": lambda seen, x: io_callback(lambda v: seen.append(float(v)), None, x),
    "pure": lambda seen, x: purax.pure_callback(
        lambda v: (seen.append(float(v)), v)[1], purax.ShapeDtypeStruct((), "float32"), x, vmap_method="sequential"
    ),
}


@pytest.mark.parametrize("outer", [lambda f: f, purax.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("kind", CALLS)
def test_calls_of_python_fire_in_live_lanes_only(kind, outer):
    seen = []

    def touch(x):
        out = CALLS[kind](seen, x)
        return 2 * x if out is None else x + out  # a pure call whose result nobody wants need not be made

    branch = outer(purax.vmap(lambda x: lax.cond(x > 0, touch, lambda x: x, x)))
    np.testing.assert_array_equal(branch(pnp.array([-1.0, 2.0, -3.0])), [-1, 4, -3])
    purax.effects_barrier()
    assert seen == [2.0]
    seen.clear()
    nested = outer(purax.vmap(purax.vmap(lambda x: lax.cond(x > 0, touch, lambda x: x, x))))
    np.testing.assert_array_equal(nested(pnp.array([[-1.0, 2.0], [3.0, -4.0]])), [[-1, 4], [6, -4]])
    purax.effects_barrier()
    assert sorted(seen) == [2.0, 3.0]
    seen.clear()
    loop = outer(purax.vmap(lambda x: lax.while_loop(lambda v: v < 8, touch, x)))
    np.testing.assert_array_equal(loop(pnp.array([1.0, 4.0, 9.0])), [8, 8, 9])
    purax.effects_barrier()
    assert seen == [1.0, 4.0, 2.0, 4.0]
