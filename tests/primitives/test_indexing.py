# SPDX-License-Identifier: Apache-2.0
"""Dynamic slices, gather, scatter: samples for the laws, and plain loops as the oracle."""

import numpy as np
import pytest

from purax import errors, grad, jit, vmap
from purax.primitives import elementwise, indexing, reduction, shape
from purax.primitives.indexing import GatherDimensionNumbers, GatherScatterMode, ScatterDimensionNumbers
from tests.laws.sample import BadSample, Sample

_X = np.arange(12, dtype=np.float32).reshape(3, 4)
_UPDATE = np.array([[-1.0, -2.0]], np.float32)
_I = [np.int32(i).reshape(()) for i in (1, 2, 9)]
_ROWS = GatherDimensionNumbers((1,), (0,), (0,))
_ROW_INDICES = np.array([[2], [0], [2]], np.int32)
_POINTS = GatherDimensionNumbers((), (0, 1), (0, 1))
_POINT_INDICES = np.array([[2, 3], [0, 1], [9, 0]], np.int32)
_PAIRED = GatherDimensionNumbers((), (1,), (1,), (0,), (0,))
_PAIRED_INDICES = np.array([[[1], [3]], [[0], [2]], [[3], [3]]], np.int32)
_PROMISE = {"indices_are_sorted": False, "unique_indices": False}
_CLIP, _FILL = GatherScatterMode.CLIP, GatherScatterMode.FILL_OR_DROP


def _gather(numbers, sizes, mode=_CLIP, fill=None):
    return {"dimension_numbers": numbers, "slice_sizes": sizes, "mode": mode, "fill_value": fill, **_PROMISE}


def _scatter(numbers, mode=_FILL, unique=False):
    return {
        "dimension_numbers": ScatterDimensionNumbers(*numbers),
        "indices_are_sorted": False,
        "unique_indices": unique,
        "mode": mode,
    }


_ROW_UPDATES = np.arange(1, 13, dtype=np.float32).reshape(3, 4) / 4
_POINT_UPDATES = np.array([0.5, -1.5, 2.0], np.float32)
_DISTINCT = np.array([[2], [0]], np.int32)

SAMPLES = [
    Sample(indexing.dynamic_slice_p, (_X, *_I[:2]), {"slice_sizes": (2, 2)}, linear=(0,)),
    Sample(indexing.dynamic_slice_p, (_X, _I[0], _I[2]), {"slice_sizes": (1, 3)}, linear=(0,)),
    Sample(indexing.dynamic_update_slice_p, (_X, _UPDATE, *_I[:2]), {}, linear=(0, 1)),
    Sample(indexing.dynamic_update_slice_p, (_X, _UPDATE, _I[2], _I[0]), {}, linear=(0, 1)),
    Sample(indexing.gather_p, (_X, _ROW_INDICES), _gather(_ROWS, (1, 4)), linear=(0,)),
    Sample(indexing.gather_p, (_X, _ROW_INDICES), _gather(_ROWS, (1, 2), _FILL), linear=(0,)),
    Sample(indexing.gather_p, (_X, _POINT_INDICES), _gather(_POINTS, (1, 1)), linear=(0,)),
    Sample(indexing.gather_p, (_X, _POINT_INDICES), _gather(_POINTS, (1, 1), _FILL, -1.0)),
    Sample(indexing.gather_p, (_X, _PAIRED_INDICES), _gather(_PAIRED, (1, 1)), linear=(0,)),
    Sample(indexing.gather_p, (_X > 3, _POINT_INDICES), _gather(_POINTS, (1, 1), _FILL)),
    Sample(indexing.scatter_p, (_X, _DISTINCT, _ROW_UPDATES[:2]), _scatter(_ROWS, unique=True), linear=(0, 2)),
    Sample(indexing.scatter_p, (_X, _ROW_INDICES, _ROW_UPDATES), _scatter(_ROWS)),
    Sample(indexing.scatter_add_p, (_X, _ROW_INDICES, _ROW_UPDATES), _scatter(_ROWS), linear=(0, 2)),
    Sample(indexing.scatter_add_p, (_X, _POINT_INDICES, _POINT_UPDATES), _scatter(_POINTS), linear=(0, 2)),
    Sample(indexing.scatter_add_p, (_X, _POINT_INDICES, _POINT_UPDATES), _scatter(_POINTS, _CLIP), linear=(0, 2)),
    Sample(indexing.scatter_add_p, (_X, _PAIRED_INDICES, _ROW_UPDATES[:, :2]), _scatter(_PAIRED), linear=(0, 2)),
    Sample(indexing.scatter_sub_p, (_X, _ROW_INDICES, _ROW_UPDATES), _scatter(_ROWS), linear=(0, 2)),
    Sample(indexing.scatter_mul_p, (_X, _ROW_INDICES, _ROW_UPDATES), _scatter(_ROWS), linear=(0,)),
    Sample(indexing.scatter_mul_p, (_X, _DISTINCT, _ROW_UPDATES[:2]), _scatter(_ROWS, unique=True), linear=(0,)),
    Sample(indexing.scatter_min_p, (_X, _ROW_INDICES, _ROW_UPDATES * 7 + 0.1), _scatter(_ROWS)),
    Sample(indexing.scatter_max_p, (_X, _ROW_INDICES, _ROW_UPDATES * 7 + 0.1), _scatter(_ROWS)),
    Sample(indexing.scatter_max_p, (_X.astype(np.int32), _ROW_INDICES, 3 * np.ones((3, 4), np.int32)), _scatter(_ROWS)),
]

BAD_SAMPLES = [
    BadSample(indexing.dynamic_slice_p, (_X, *_I[:2]), {"slice_sizes": (4, 1)}, errors.ShapeError, "fit into"),
    BadSample(indexing.dynamic_slice_p, (_X, _I[0]), {"slice_sizes": (1, 1)}, errors.ShapeError, "one entry"),
    BadSample(
        indexing.dynamic_slice_p,
        (_X, _X[0, 0].reshape(()), _X[0, 0].reshape(())),
        {"slice_sizes": (1, 1)},
        errors.DTypeError,
        "integers",
    ),
    BadSample(
        indexing.dynamic_update_slice_p, (_X, _UPDATE.astype(np.int32), *_I[:2]), {}, errors.DTypeError, "equal dtypes"
    ),
    BadSample(indexing.gather_p, (_X, _X), _gather(_ROWS, (1, 4)), errors.DTypeError, "integer"),
    BadSample(indexing.gather_p, (_X, _ROW_INDICES), _gather(_POINTS, (1, 1)), errors.ShapeError, "start_index_map"),
    BadSample(indexing.gather_p, (_X, _ROW_INDICES), _gather(_ROWS, (2, 4)), errors.ShapeError, "must be 1 at"),
    BadSample(
        indexing.gather_p,
        (_X, _ROW_INDICES),
        _gather(_ROWS._replace(offset_dims=(5,)), (1, 4)),
        errors.ShapeError,
        "offset_dims",
    ),
    BadSample(
        indexing.scatter_p,
        (_X, _ROW_INDICES, _ROW_UPDATES[:2]),
        _scatter(_ROWS),
        errors.ShapeError,
        "updates must have",
    ),
    BadSample(
        indexing.scatter_p,
        (_X, _ROW_INDICES, _ROW_UPDATES.astype(np.int32)),
        _scatter(_ROWS),
        errors.DTypeError,
        "equal dtypes",
    ),
]


def _sum(x):
    return reduction.reduce_sum(x, tuple(range(x.aval.ndim)))


@pytest.mark.parametrize("run", [lambda f: f, jit])
def test_dynamic_slices_at_places_on_the_device_are_moved_inside_and_negative_starts_count_from_the_end(run):
    def slices(x, i):
        return indexing.dynamic_slice(x, (i, 2), (2, 2)), indexing.dynamic_slice_in_dim(x, -3, 2, axis=1)

    a, b = run(slices)(_X, shape.full((), 5, np.int32))
    np.testing.assert_array_equal(a, _X[1:3, 2:4])
    np.testing.assert_array_equal(b, _X[:, 1:3])


def test_dynamic_updates_are_moved_inside():
    far = shape.full((), 7, np.int32)
    got = indexing.dynamic_update_slice(_X, _UPDATE, (far, far))
    want = _X.copy()
    want[2:3, 2:4] = _UPDATE
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(indexing.dynamic_update_index_in_dim(_X, _X[0], -1, 0)[2], _X[0])


@pytest.mark.parametrize(("dtype", "fill"), [(np.float32, np.nan), (np.int8, -128), (np.uint8, 255), (bool, True)])
def test_gather_out_of_bounds_fills_with_the_default_of_the_dtype(dtype, fill):
    x = np.zeros((3, 4), dtype)
    for run in (lambda f: f, jit):
        got = run(lambda v: indexing.gather(v, np.array([[5], [0]]), _ROWS, (1, 4), mode="fill"))(x)
        np.testing.assert_array_equal(got, np.array([[fill] * 4, [0] * 4], dtype))


def test_scatter_set_keeps_the_last_of_repeated_updates_and_so_does_its_gradient():
    def total(updates):
        out = indexing.scatter(_X, _ROW_INDICES, updates, ScatterDimensionNumbers(*_ROWS))
        return _sum(elementwise.mul(out, _X + 1))

    want = np.stack([0 * _X[2], _X[0] + 1, _X[2] + 1])
    np.testing.assert_array_equal(grad(total)(_ROW_UPDATES), want)
    np.testing.assert_array_equal(jit(grad(total))(_ROW_UPDATES), want)


def test_scatter_mul_has_the_gradient_of_the_product_of_all_that_meet_even_with_a_zero_among_them():
    x = np.array([2.0, 3.0], np.float32)
    updates = np.array([5.0, 0.0, 7.0], np.float32)
    numbers = ScatterDimensionNumbers((), (0,), (0,))

    def total(u):
        return _sum(indexing.scatter_mul(x, np.array([[0], [0], [1]]), u, numbers))

    np.testing.assert_allclose(grad(total)(updates), [0.0, 10.0, 3.0])


def test_scatter_max_shares_the_gradient_among_all_that_reach_the_maximum():
    numbers = ScatterDimensionNumbers((), (0,), (0,))

    def total(x, u):
        return _sum(indexing.scatter_max(x, np.array([[0], [0], [1]]), u, numbers))

    x, u = np.array([4.0, 1.0], np.float32), np.array([4.0, 4.0, 2.0], np.float32)
    d_x, d_u = grad(total, (0, 1))(x, u)
    np.testing.assert_allclose(d_x, [1 / 3, 0.0])
    np.testing.assert_allclose(d_u, [1 / 3, 1 / 3, 1.0])


def test_scatter_apply_applies_once_for_each_window_and_has_the_derivative_of_the_repetition():
    numbers = ScatterDimensionNumbers((), (0,), (0,))
    indices = np.array([[0], [0], [1], [7]])
    x = np.array([0.5, 0.25, 3.0], np.float32)

    def apply(v):
        return indexing.scatter_apply(v, indices, lambda e: elementwise.mul(e, e), numbers, update_shape=(4,))

    np.testing.assert_allclose(apply(x), [0.5**4, 0.25**2, 3.0])
    np.testing.assert_allclose(grad(lambda v: _sum(apply(v)))(x), [4 * 0.5**3, 0.5, 1.0])
    np.testing.assert_allclose(vmap(apply)(np.stack([x, x + 1])), np.stack([apply(x), apply(x + 1)]))


def test_vmap_over_axis_2_of_a_scatter_add_is_stacking():
    operand = np.arange(3 * 2 * 4, dtype=np.float32).reshape(3, 2, 4)
    updates = np.arange(2 * 2 * 4, dtype=np.float32).reshape(2, 2, 4)
    indices = np.array([[0, 2, 1, 1], [2, 2, 0, 1]], np.int32)
    numbers = ScatterDimensionNumbers((1,), (0,), (0,))

    def one(x, i, u):
        return indexing.scatter_add(x, shape.expand_dims(i, (1,)), u, numbers)

    want = np.stack([one(operand[:, :, k], indices[:, k], updates[:, :, k]) for k in range(4)], 2)
    np.testing.assert_array_equal(vmap(one, (2, 1, 2), 2)(operand, indices, updates), want)
    want = np.stack([one(operand[:, :, k], indices[:, 0], updates[:, :, k]) for k in range(4)], 2)
    np.testing.assert_array_equal(vmap(one, (2, None, 2), 2)(operand, indices[:, 0], updates), want)
    want = np.stack([one(operand[:, :, 0], indices[:, k], updates[:, :, 0]) for k in range(4)], 2)
    np.testing.assert_array_equal(vmap(one, (None, 1, None), 2)(operand[:, :, 0], indices, updates[:, :, 0]), want)


def test_vmap_over_no_elements_of_a_gather_is_empty():
    got = vmap(lambda x, i: indexing.gather(x, i, _ROWS, (1, 4)))(
        np.zeros((0, 3, 4), np.float32), np.zeros((0, 2, 1), np.int32)
    )
    assert got.shape == (0, 2, 4)


def test_index_take_takes_points():
    got = indexing.index_take(_X, (np.array([0, -1]), np.array([1, 2])), (0, 1))
    np.testing.assert_array_equal(got, _X[[0, -1], [1, 2]])


def test_modes_are_read_from_strings():
    assert GatherScatterMode.from_any("clip") is GatherScatterMode.CLIP
    assert GatherScatterMode.from_any(None) is GatherScatterMode.FILL_OR_DROP
    with pytest.raises(ValueError, match="Unknown gather mode"):
        GatherScatterMode.from_any("foo")
