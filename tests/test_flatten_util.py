# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from purax import dtypes, errors
from purax.flatten_util import ravel_pytree


def test_a_tree_becomes_a_vector_and_comes_back():
    value = {"b": np.arange(4, dtype=np.float32).reshape(2, 2), "a": np.float32(7)}
    flat, unravel = ravel_pytree(value)
    np.testing.assert_array_equal(flat, np.array([7, 0, 1, 2, 3], np.float32))
    back = unravel(flat)
    assert back["b"].shape == (2, 2) and back["a"].shape == ()
    np.testing.assert_array_equal(back["b"], value["b"])


def test_leaves_of_several_dtypes_meet_and_get_theirs_back():
    value = [
        np.array([True, False]),
        np.array([1, 2], np.int32),
        np.array([0.5], np.float32),
        np.array([1j], np.complex64),
    ]
    flat, unravel = ravel_pytree(value)
    assert flat.dtype == np.complex64 and flat.shape == (6,)
    for before, after in zip(value, unravel(flat), strict=True):
        assert after.dtype == before.dtype
        np.testing.assert_array_equal(after, before)


def test_a_tree_without_leaves_is_an_empty_float_vector():
    flat, unravel = ravel_pytree([(), {}])
    assert flat.shape == (0,) and flat.dtype == dtypes.float32
    assert unravel(flat) == [(), {}]


def test_the_way_back_keeps_another_dtype_or_refuses_it():
    flat, unravel = ravel_pytree(np.zeros(3, np.float32))
    assert unravel(flat < 1).dtype == np.bool_
    mixed, unravel_mixed = ravel_pytree((np.zeros(3, np.float32), np.zeros(2, np.int32)))
    with pytest.raises(errors.DTypeError, match="expected dtype float32"):
        unravel_mixed(mixed < 1)
    with pytest.raises(errors.ShapeError, match=r"expected shape \(3,\)"):
        unravel(mixed)


def test_equal_trees_have_equal_ways_back():
    first, second = (ravel_pytree({"a": np.full(2, value, np.float32)})[1] for value in (1, 2))
    assert first == second and hash(first) == hash(second)
    assert first != ravel_pytree({"b": np.zeros(2, np.float32)})[1]
