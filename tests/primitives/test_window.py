# SPDX-License-Identifier: Apache-2.0
"""Sliding windows: samples for the laws, pooling derivatives, windows of many places, any function."""

import ml_dtypes
import numpy as np
import pytest

import purax
from purax import errors, tree
from purax.core.aval import array_aval
from purax.primitives import elementwise, reducer, reduction, selecting, window
from tests.laws.sample import BadSample, Sample

rng = np.random.default_rng(0)


def distinct(*sizes, dtype=np.float32):
    """Distinct numbers in random order."""
    return rng.permutation(int(np.prod(sizes))).reshape(sizes).astype(dtype)


def geometry(dimensions, strides=None, padding=None, base=None, spread=None):
    """Parameters with defaults."""
    n = len(dimensions)
    return {
        "window_dimensions": dimensions, "window_strides": strides or (1,) * n, "padding": padding or ((0, 0),) * n,
        "base_dilation": base or (1,) * n, "window_dilation": spread or (1,) * n,
    }  # fmt: skip


X = distinct(2, 7, 6, 3)
GEOMETRIES = [
    geometry((1, 2, 2, 1), (1, 2, 2, 1)),
    geometry((1, 3, 3, 1), (1, 2, 1, 1), ((0, 0), (1, 1), (0, 2), (0, 0))),
    geometry((2, 3, 1, 2), padding=((0, 1), (2, -1), (0, 0), (1, 1)), spread=(1, 2, 1, 1)),
    geometry((1, 5, 4, 1), (1, 1, 2, 1)),
    geometry((1, 2, 2, 1), base=(1, 2, 3, 1), padding=((0, 0), (1, 0), (0, 1), (0, 0))),
]
LINE = distinct(200)
LONG = geometry((70,), (3,), ((2, 1),))
COMPUTATION = reducer.stage_computation(elementwise.mul, tree.structure(0.0), [array_aval((), np.dtype(np.float32))])
SMALL = rng.standard_normal((3, 5)).astype(np.float32)

SAMPLES = [
    *(Sample(window.reduce_window_sum_p, (X,), g) for g in GEOMETRIES),
    *(Sample(p, (X,), g) for g in GEOMETRIES[:-1] for p in (window.reduce_window_max_p, window.reduce_window_min_p)),
    Sample(window.reduce_window_max_p, (X,), GEOMETRIES[-1], differentiable=()),
    *(Sample(p, (LINE,), LONG) for p in (window.reduce_window_sum_p, window.reduce_window_max_p)),
    *(Sample(p, (X.astype(np.int32),), GEOMETRIES[1]) for p in (window.reduce_window_sum_p, window.reduce_window_max_p)),
    *(Sample(p, (X.astype(ml_dtypes.bfloat16),), GEOMETRIES[1], differentiable=()) for p in (
        window.reduce_window_sum_p, window.reduce_window_max_p)),
    Sample(window.reduce_window_sum_p, ((X + 1j).astype(np.complex64),), GEOMETRIES[0]),
    *(Sample(selecting.select_and_gather_add_p, (distinct(*X.shape), X), g | {"select": s}, differentiable=(0,), linear=(0,))
      for g in GEOMETRIES for s in ("max", "min")),
    *(Sample(selecting.select_and_scatter_add_p,
             (distinct(*window.geometry_of(g).out(X.shape)), X), g | {"select": "max"}, differentiable=(0,), linear=(0,))
      for g in GEOMETRIES),
    Sample(selecting.select_and_gather_add_p, (distinct(200), LINE), LONG | {"select": "max"}, differentiable=(0,), linear=(0,)),
    Sample(selecting.select_and_scatter_add_p, (distinct(45), LINE), LONG | {"select": "max"}, differentiable=(0,), linear=(0,)),
    Sample(window.reduce_window_p, (SMALL, np.float32(1)), geometry((2, 2), (1, 2), ((1, 0), (0, 1))) | {"jaxpr": COMPUTATION}),
]  # fmt: skip
BAD_SAMPLES = [
    BadSample(window.reduce_window_sum_p, (X,), geometry((2, 2)), errors.ShapeError, "one entry per axis"),
    BadSample(window.reduce_window_max_p, (LINE,), geometry((0,)), errors.ShapeError, "must be positive"),
]


def pool(x):
    """Max pooling by two."""
    return window.reduce_window(x, -np.inf, elementwise.max, (2,), (1,), "VALID")


def test_max_pooling_sends_the_derivative_to_the_first_of_a_tie():
    x = np.array([1.0, 2.0, 2.0, 0.0], np.float32)
    np.testing.assert_array_equal(purax.grad(lambda v: reduction.reduce_sum(pool(v), (0,)))(x), [0, 2, 1, 0])


def test_second_derivatives_of_max_pooling():
    x = np.array([1.0, 2.0, 2.0, 0.0], np.float32)
    hessian = purax.hessian(lambda v: reduction.reduce_sum(elementwise.mul(pool(v), pool(v)), (0,)))(x)
    np.testing.assert_array_equal(hessian, np.diag([0.0, 4, 2, 0]))


def test_nan_is_the_maximum_of_its_windows():
    x = np.array([1.0, np.nan, 0.0, 5.0], np.float32)
    np.testing.assert_array_equal(pool(x), [np.nan, np.nan, 5])
    np.testing.assert_array_equal(purax.grad(lambda v: reduction.reduce_sum(pool(v), (0,)))(x), [0, 2, 0, 1])


def test_average_pooling_counts_with_padding_by_name():
    x = np.ones((1, 5, 5, 1), np.float32)
    got = window.reduce_window(x, 0.0, elementwise.add, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
    np.testing.assert_array_equal(np.asarray(got)[0, :, :, 0], [[4, 6, 4], [6, 9, 6], [4, 6, 4]])


def test_known_operations_find_their_primitives():
    jaxpr = purax.make_jaxpr(pool)(np.ones(4, np.float32))
    assert [e.primitive.name for e in jaxpr.eqns] == ["reduce_window_max"]


def test_any_function_reduces_windows_and_differentiates():
    x = np.array([1.0, 2.0, 2.0, 0.5], np.float32)

    def product(v):
        return window.reduce_window(v, 1.0, elementwise.mul, (2,), (1,), "VALID")

    np.testing.assert_array_equal(product(x), [2, 4, 1])
    np.testing.assert_array_equal(purax.grad(lambda v: reduction.reduce_sum(product(v), (0,)))(x), [2, 3, 2.5, 2])
    bits = window.reduce_window(np.array([1, 2, 4, 8]), 0, elementwise.bitwise_or, (2,), (2,), "VALID")
    np.testing.assert_array_equal(bits, [3, 12])


def test_several_operands_reduce_together():
    x = np.array([3.0, 1.0, 2.0, 5.0], np.float32)
    index = np.arange(4, dtype=np.int32)

    def later(a, b):
        wins = elementwise.gt(b[0], a[0])
        return elementwise.select(wins, b[0], a[0]), elementwise.select(wins, b[1], a[1])

    values, where = window.reduce_window((x, index), (np.float32(-np.inf), np.int32(-1)), later, (2,), (1,), "VALID")
    np.testing.assert_array_equal(values, [3, 2, 5])
    np.testing.assert_array_equal(where, [0, 2, 3])


def test_each_window_begins_with_the_start_and_skips_padding():
    got = window.reduce_window(np.ones(3, np.float32), 2.0, elementwise.add, (2,), (1,), ((1, 0),))
    np.testing.assert_array_equal(got, [3, 4, 4])


def test_wrong_windows_are_told():
    with pytest.raises(errors.ShapeError, match="one entry per axis"):
        window.reduce_window(X, 0.0, elementwise.add, (2, 2), (1, 1), "VALID")
    for padding in ("VALID", "SAME", ((0, 0),)):
        with pytest.raises(errors.ShapeError, match="window_strides must be positive"):
            window.reduce_window(np.ones(3, np.float32), 0.0, elementwise.add, (2,), (0,), padding)
    with pytest.raises(errors.ShapeError, match="pair for each axis"):
        window.reduce_window(np.ones(3, np.float32), 0.0, elementwise.add, (2,), (1,), (3,))
    with pytest.raises(errors.ShapeError, match="structure of its operands"):
        window.reduce_window(np.ones(3, np.float32), 0.0, lambda x, y: [x + y], (2,), (1,), "VALID")


@pytest.mark.parametrize(("padding", "rows"), [("VALID", 3), ("SAME", 3), ("SAME_LOWER", 3), (((0, 1), (0, 0)), 4)])
def test_padding_by_name_is_that_of_the_operand_before_dilation(padding, rows):
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    got = window.reduce_window(x, 0.0, elementwise.add, (2, 1), (2, 1), padding, base_dilation=(2, 1))
    spread = np.zeros((8, 6), np.float32)
    spread[:7:2] = x
    np.testing.assert_array_equal(got, [spread[2 * i] + spread[2 * i + 1] for i in range(rows)])
