# SPDX-License-Identifier: Apache-2.0
"""Broadcast, reshape, transpose, concatenate, pad, slice, iota: samples for the laws, and NumPy as the oracle of the functions."""

import numpy as np
import pytest

import purax
from purax import errors, jit, lax
from purax.primitives import joining, rolling, shape
from tests.laws.sample import BadSample, Sample

_X = np.arange(12, dtype=np.float32).reshape(3, 4)
_ONE = np.linspace(-1, 1, 6, dtype=np.float32).reshape(1, 6)
_SCALAR = np.float32(2.5).reshape(())

SAMPLES = [
    Sample(shape.broadcast_in_dim_p, (_X,), {"shape": (2, 3, 4), "broadcast_dimensions": (1, 2)}, linear=(0,)),
    Sample(shape.broadcast_in_dim_p, (_ONE,), {"shape": (5, 2, 6), "broadcast_dimensions": (0, 2)}, linear=(0,)),
    Sample(shape.broadcast_in_dim_p, (_SCALAR,), {"shape": (2, 3), "broadcast_dimensions": ()}, linear=(0,)),
    Sample(shape.reshape_p, (_X,), {"new_sizes": (2, 6)}, linear=(0,)),
    Sample(shape.reshape_p, (_X.astype(np.int8),), {"new_sizes": (12,)}),
    Sample(shape.transpose_p, (_X,), {"permutation": (1, 0)}, linear=(0,)),
    Sample(
        shape.transpose_p, (np.arange(24, dtype=np.float32).reshape(2, 3, 4),), {"permutation": (2, 0, 1)}, linear=(0,)
    ),
    Sample(shape.squeeze_p, (_ONE,), {"dimensions": (0,)}, linear=(0,)),
    Sample(shape.squeeze_p, (_X.reshape(1, 3, 1, 4),), {"dimensions": (0, 2)}, linear=(0,)),
    Sample(shape.rev_p, (_X,), {"dimensions": (0, 1)}, linear=(0,)),
    *[
        Sample(rolling.roll_p, (_X,), {"shift": shift, "axis": axis}, linear=(0,))
        for shift, axis in ((1, 1), (-1, 1), (6, 1), (1, 0), (-2, 0))
    ],
    Sample(rolling.roll_p, (_ONE[0],), {"shift": 1, "axis": 0}, linear=(0,)),
    Sample(rolling.roll_p, (_X[:0].astype(np.int8),), {"shift": 1, "axis": 0}),
    Sample(rolling.roll_p, (_X > 3,), {"shift": -1, "axis": 1}),
    Sample(shape.iota_p, (), {"dtype": np.dtype(np.float32), "shape": (3, 2), "dimension": 0}),
    Sample(shape.iota_p, (), {"dtype": np.dtype(np.int16), "shape": (300,), "dimension": 0}),
    Sample(joining.concatenate_p, (_X, 2 * _X[:, :1]), {"dimension": 1}, linear=(0, 1)),
    Sample(joining.concatenate_p, (_X > 3,), {"dimension": 0}),
    Sample(joining.split_p, (_X,), {"sizes": (1, 0, 3), "axis": 1}, linear=(0,)),
    Sample(joining.pad_p, (_X, _SCALAR), {"padding_config": ((1, 2, 0), (0, 1, 2))}, linear=(0, 1)),
    Sample(joining.pad_p, (_X, _SCALAR), {"padding_config": ((-1, 1, 1), (2, -2, 0))}, linear=(0, 1)),
    Sample(joining.slice_p, (_X,), {"start_indices": (0, 1), "limit_indices": (3, 4), "strides": (2, 2)}, linear=(0,)),
    Sample(joining.slice_p, (_X,), {"start_indices": (1, 2), "limit_indices": (1, 4), "strides": (1, 1)}, linear=(0,)),
]

BAD_SAMPLES = [
    BadSample(
        shape.broadcast_in_dim_p, (_X,), {"shape": (3, 4), "broadcast_dimensions": (0,)}, errors.ShapeError, "one axis"
    ),
    BadSample(
        shape.broadcast_in_dim_p,
        (_X,),
        {"shape": (4, 3), "broadcast_dimensions": (1, 0)},
        errors.ShapeError,
        "increasing",
    ),
    BadSample(
        shape.broadcast_in_dim_p,
        (_X,),
        {"shape": (3, 5), "broadcast_dimensions": (0, 1)},
        errors.ShapeError,
        "must be 1",
    ),
    BadSample(shape.reshape_p, (_X,), {"new_sizes": (5,)}, errors.ShapeError, "cannot reshape"),
    BadSample(shape.transpose_p, (_X,), {"permutation": (0, 0)}, errors.ShapeError, "not a permutation"),
    BadSample(shape.squeeze_p, (_X,), {"dimensions": (0,)}, errors.ShapeError, "cannot select an axis"),
    BadSample(shape.iota_p, (), {"dtype": np.dtype(bool), "shape": (2,), "dimension": 0}, errors.DTypeError, "bool"),
    BadSample(rolling.roll_p, (_X,), {"shift": 1, "axis": 2}, errors.ShapeError, "out of bounds"),
    BadSample(joining.concatenate_p, (_X, _ONE), {"dimension": 1}, errors.ShapeError, "equal shapes"),
    BadSample(joining.concatenate_p, (_X, _X.astype(np.int32)), {"dimension": 1}, errors.DTypeError, "equal dtypes"),
    BadSample(joining.split_p, (_X,), {"sizes": (1, 1), "axis": 1}, errors.ShapeError, "add up"),
    BadSample(joining.pad_p, (_X, _X), {"padding_config": ((0, 0, 0),) * 2}, errors.ShapeError, "scalar"),
    BadSample(joining.pad_p, (_X, _SCALAR), {"padding_config": ((-2, -2, 0),) * 2}, errors.ShapeError, "removes more"),
    BadSample(
        joining.slice_p,
        (_X,),
        {"start_indices": (0, 0), "limit_indices": (4, 4), "strides": (1, 1)},
        errors.ShapeError,
        "0 <= start",
    ),
]


def _padded_by_loops(x, value, config):
    """What pad means, element by element, for two axes."""
    (low0, high0, in0), (low1, high1, in1) = config
    rows = low0 + high0 + x.shape[0] + (x.shape[0] - 1) * in0
    columns = low1 + high1 + x.shape[1] + (x.shape[1] - 1) * in1
    out = np.full((rows, columns), value, x.dtype)
    for i, j in np.ndindex(x.shape):
        r, c = low0 + i * (in0 + 1), low1 + j * (in1 + 1)
        if 0 <= r < rows and 0 <= c < columns:
            out[r, c] = x[i, j]
    return out


@pytest.mark.parametrize("low", [-4, -1, 0, 2])
@pytest.mark.parametrize("high", [-1, 0, 3])
@pytest.mark.parametrize("interior", [0, 2])
def test_pad_puts_each_element_where_the_definition_says(low, high, interior):
    config = ((low, high, interior), (1, low, 1))
    if min(joining.padded_size(n, *c) for n, c in zip((3, 4), config, strict=True)) < 0:
        return
    want = _padded_by_loops(_X, 7.0, config)
    np.testing.assert_array_equal(shape.pad(_X, 7.0, config), want)
    np.testing.assert_array_equal(jit(lambda x: shape.pad(x, 7.0, config))(_X), want)


def test_functions_follow_numpy():
    np.testing.assert_array_equal(shape.tile(_X, (2, 3)), np.tile(_X, (2, 3)))
    np.testing.assert_array_equal(shape.stack([_X, _X + 1], 1), np.stack([_X, _X + 1], 1))
    np.testing.assert_array_equal(shape.expand_dims(_X, (0, -1)), _X[None, ..., None])
    np.testing.assert_array_equal(shape.broadcast(_X, (2,)), np.broadcast_to(_X, (2, 3, 4)))
    np.testing.assert_array_equal(shape.broadcast_to_rank(_X, 4), _X[None, None])
    np.testing.assert_array_equal(shape.reshape(_X, (2, 6), (1, 0)), _X.T.reshape(2, 6))
    np.testing.assert_array_equal(shape.collapse(_X[None], 1), _X.reshape(1, 12))
    np.testing.assert_array_equal(shape.collapse(_X[None], 0, 2), _X.reshape(3, 4))
    np.testing.assert_array_equal(shape.index_in_dim(_X, -1, 1, keepdims=False), _X[:, -1])
    np.testing.assert_array_equal(shape.slice_in_dim(_X, -2, None, axis=1), _X[:, -2:])
    for got, want in zip(shape.unstack(_X, 1), _X.T, strict=True):
        np.testing.assert_array_equal(got, want)
    for got, want in zip(shape.split(_X, (1, 3), 1), np.split(_X, [1], 1), strict=True):
        np.testing.assert_array_equal(got, want)


def test_full_keeps_the_weak_type_of_a_python_scalar_unless_a_dtype_is_given():
    assert shape.full((2,), 1.0).weak_type
    assert not shape.full((2,), 1.0, np.float32).weak_type
    assert shape.full((2,), 1, np.int8).dtype == np.int8
    assert shape.full_like(np.zeros(3, np.int16), 5).dtype == np.int16
    np.testing.assert_array_equal(shape.full_like(_X, -0.0), np.full_like(_X, -0.0))
    assert np.signbit(np.asarray(shape.full((1,), -0.0))).all()


def test_full_of_a_wide_dtype_asked_for_by_name_is_exact():
    assert np.asarray(shape.full((2,), 0.1, np.float64))[0] == 0.1


def test_full_refuses_fill_values_that_are_no_scalars():
    with pytest.raises(errors.ShapeError, match="scalar fill_value"):
        shape.full((3,), np.zeros(3))


def test_broadcast_shapes_follows_numpy_and_names_what_does_not_fit():
    assert shape.broadcast_shapes((3, 1), (1, 4), ()) == (3, 4)
    assert shape.broadcast_shapes((0, 1), (1,)) == (0, 1)
    with pytest.raises(errors.ShapeError, match="Incompatible shapes"):
        shape.broadcast_shapes((2,), (3,))


def test_negative_sizes_are_refused():
    with pytest.raises(errors.ShapeError, match="non-negative"):
        shape.reshape(_X, (-1,))


def test_shapes_are_values_and_examples():
    np.testing.assert_array_equal(lax.shape_as_value((2, 3)), np.array([2, 3], np.int32))
    assert lax.shape_as_value(()).shape == (0,)
    np.testing.assert_array_equal(lax.broadcast_like(np.arange(3), np.zeros((2, 3))), [[0, 1, 2]] * 2)
    assert isinstance(lax.stage(2), purax.Array) and lax.stage(2).weak_type
    assert len(purax.make_jaxpr(lambda: lax.stage(2))().eqns) == 1
