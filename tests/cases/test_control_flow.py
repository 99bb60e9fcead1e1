# SPDX-License-Identifier: Apache-2.0
"""Loops: their derivatives, their empty and unrolled forms."""

import numpy as np
import pytest

import purax
from purax import grad, lax, nn, random
from purax import numpy as pnp

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
