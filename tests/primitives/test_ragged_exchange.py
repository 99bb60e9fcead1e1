# SPDX-License-Identifier: Apache-2.0
"""Slices of different lengths between lanes, against a loop over senders and slices."""

import numpy as np
import pytest

import purax
from purax import errors, lax


def exchange(*operands):
    return purax.vmap(lambda *xs: lax.ragged_all_to_all(*xs, axis_name="i"), axis_name="i")(*operands)


def in_loops(operand, output, begin, sizes, target, _):
    out = output.copy()
    lanes, slices = sizes.shape
    for sender in range(lanes):
        for i in range(slices):
            to = i // (slices // lanes)
            out[to, target[sender, i] : target[sender, i] + sizes[sender, i]] = operand[
                sender, begin[sender, i] : begin[sender, i] + sizes[sender, i]
            ]
    return out


def plan(lanes, each, rng):
    """Sizes, and offsets at which slices lie side by side: sent, and where they arrive."""
    sizes = rng.integers(0, 3, (lanes, lanes * each)).astype(np.int32)
    begin = np.cumsum(sizes, 1, dtype=np.int32) - sizes
    arriving = sizes.reshape(lanes, lanes, each).transpose(1, 0, 2).reshape(lanes, -1)
    places = np.cumsum(arriving, 1, dtype=np.int32) - arriving
    target = places.reshape(lanes, lanes, each).transpose(1, 0, 2).reshape(lanes, -1)
    return begin, sizes, target, arriving


@pytest.mark.parametrize(("lanes", "each"), [(2, 1), (3, 1), (2, 2)])
def test_slices_arrive_where_their_sender_says(lanes, each):
    rng = np.random.default_rng(lanes + each)
    operand = rng.standard_normal((lanes, 12, 2)).astype(np.float32)
    output = rng.standard_normal((lanes, 14, 2)).astype(np.float32)
    tables = plan(lanes, each, rng)
    np.testing.assert_array_equal(exchange(operand, output, *tables), in_loops(operand, output, *tables))


def test_cotangents_go_back_to_the_rows_that_were_sent():
    rng = np.random.default_rng(0)
    operand, output = np.ones((2, 6), np.float32), np.ones((2, 8), np.float32)
    tables = plan(2, 1, rng)
    weights = rng.standard_normal((2, 8)).astype(np.float32)

    def loss(operand, output):
        return (exchange(operand, output, *tables) * weights).sum()

    sent, kept = purax.grad(loss, (0, 1))(operand, output)
    written = in_loops(np.ones((2, 6)), np.zeros((2, 8)), *tables)
    np.testing.assert_array_equal(kept, np.where(written, 0, weights))
    np.testing.assert_allclose(np.sum(sent), np.sum(weights * written), rtol=1e-5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({1: np.ones((2, 8, 3), np.float32)}, "must agree"),
        ({1: np.ones((2, 8), np.int32)}, "must agree"),
        ({2: np.ones((2, 3), np.int32)}, "one entry for each slice"),
        ({2: np.ones((2, 2), np.float32)}, "must be integers"),
        (dict.fromkeys((2, 3, 4, 5), np.zeros((2, 3), np.int32)), "cannot be divided among 2"),
    ],
)
def test_operands_that_do_not_fit_are_told(change, message):
    given = [np.ones((2, 6), np.float32), np.ones((2, 8), np.float32), *plan(2, 1, np.random.default_rng(0))]
    with pytest.raises((errors.ShapeError, errors.DTypeError), match=message):
        exchange(*[change.get(i, x) for i, x in enumerate(given)])
