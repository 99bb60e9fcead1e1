# SPDX-License-Identifier: Apache-2.0
"""Sort, argsort, top_k: samples for the laws, and the order of special values."""

import ml_dtypes
import numpy as np
import pytest

import purax
from purax import errors, jit, lax
from purax.core.aval import array_aval
from purax.primitives import sorting
from purax.runtime.array import wrap_host
from tests.laws.sample import BadSample, Sample

_RANDOM = np.random.default_rng(0)
_X = _RANDOM.permutation(12).astype(np.float32).reshape(3, 4)
_TIES = np.array([[2, 1, 2, 1], [0, 0, 3, 3]], np.int32)
_NAN = np.array([np.nan, -0.0, 0.0, 1.0, -np.inf, -np.nan, np.inf, -1.0, 0.0, -0.0], np.float32)
_PLAIN = {"dimension": 1, "is_stable": True, "num_keys": 1}

SAMPLES = [
    Sample(sorting.sort_p, (_X,), _PLAIN),
    Sample(sorting.sort_p, (_X,), {**_PLAIN, "dimension": 0}),
    Sample(sorting.sort_p, (_X, _X[::-1].copy()), _PLAIN),
    Sample(sorting.sort_p, (_TIES, np.arange(8, dtype=np.float32).reshape(2, 4)), _PLAIN),
    Sample(sorting.sort_p, (_TIES, _TIES[:, ::-1].copy(), _X[:2]), {**_PLAIN, "num_keys": 2}),
    Sample(sorting.sort_p, (_NAN,), {**_PLAIN, "dimension": 0}, differentiable=()),
    Sample(sorting.sort_p, (_X.astype(np.uint8),), _PLAIN),
    Sample(sorting.sort_p, (_X > 5,), _PLAIN),
    Sample(sorting.sort_p, (_X + 1j * _X[::-1],), _PLAIN),
    Sample(sorting.argsort_p, (_NAN,), {"dimension": 0}, differentiable=()),
    Sample(sorting.argsort_p, (_TIES, _X[:2]), {"dimension": 1}, differentiable=()),
    Sample(sorting.top_k_p, (_X,), {"k": 2, "axis": 1}),
    Sample(sorting.top_k_p, (_X,), {"k": 3, "axis": 0}),
    Sample(sorting.top_k_p, (_TIES,), {"k": 3, "axis": 1}),
]

BAD_SAMPLES = [
    BadSample(sorting.sort_p, (_X, _TIES), _PLAIN, errors.ShapeError, "equal shapes"),
    BadSample(sorting.sort_p, (_X,), {**_PLAIN, "num_keys": 2}, errors.ShapeError, "num_keys"),
    BadSample(sorting.sort_p, (_X,), {**_PLAIN, "dimension": 2}, errors.ShapeError, "not an axis"),
    BadSample(sorting.argsort_p, (np.float32(1).reshape(()),), {"dimension": 0}, errors.ShapeError, "not an axis"),
    BadSample(sorting.top_k_p, (_X,), {"k": 5, "axis": 1}, errors.ShapeError, "k must be between"),
    BadSample(sorting.top_k_p, (_X.astype(np.complex64),), {"k": 1, "axis": 1}, errors.DTypeError, "not defined"),
]

_DTYPES = [
    np.float32, np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, np.int8, np.uint8, np.int16,
    np.uint16, np.int32, np.uint32, bool, np.complex64,
]  # fmt: skip


def _data(dtype, size):
    if np.dtype(dtype).kind == "u":
        return _RANDOM.integers(0, np.iinfo(dtype).max, size, dtype, endpoint=True)
    x = (_RANDOM.normal(size=size) * 50).astype(np.float32).astype(dtype)
    x[::7] = x[0]
    return x


@pytest.mark.parametrize("dtype", _DTYPES)
@pytest.mark.parametrize("axis", [0, 1])
def test_compiled_sorts_give_the_bits_of_the_reference(dtype, axis):
    x = _data(dtype, (11, 23))
    order = jit(lambda v: sorting.argsort_p.bind1(v, dimension=axis))(x)
    np.testing.assert_array_equal(order, sorting.argsort_p.reference(x, dimension=axis)[0])
    got = np.asarray(jit(lambda v: sorting.sort(v, axis))(x))
    assert got.tobytes() == np.take_along_axis(x, np.asarray(order), axis).tobytes()


def test_nans_come_last_whatever_their_sign_and_zeros_keep_their_order():
    want = np.argsort(_NAN, kind="stable")
    for run in (lambda f: f, jit):
        np.testing.assert_array_equal(run(lambda v: sorting.argsort_p.bind1(v, dimension=0))(_NAN), want)
        got = np.asarray(run(sorting.sort)(_NAN))
        np.testing.assert_array_equal(got, np.sort(_NAN))
        np.testing.assert_array_equal(np.signbit(got[2:6]), [True, False, False, True])


def test_argsort_of_zeros_of_both_signs_is_the_identity():
    np.testing.assert_array_equal(sorting.argsort_p.bind1(np.array([0.0, -0.0], np.float32), dimension=0), [0, 1])


@pytest.mark.parametrize("dtype", [np.float64, np.int64, np.uint64])
def test_wide_dtypes_sort_like_numpy(dtype):
    x = _data(dtype, 50)
    got = jit(lambda v: sorting.argsort_p.bind1(v, dimension=0))(_wide(x))
    np.testing.assert_array_equal(got, np.argsort(x, kind="stable"))


def _wide(x):
    return wrap_host(array_aval(x.shape, x.dtype), x)


def test_payloads_follow_the_keys():
    keys, values = sorting.sort_key_val(_TIES, np.arange(8).reshape(2, 4))
    np.testing.assert_array_equal(keys, np.sort(_TIES))
    np.testing.assert_array_equal(values, [[1, 3, 0, 2], [4, 5, 6, 7]])


def test_later_keys_break_ties():
    first, second = np.array([1, 0, 1, 0]), np.array([3, 2, 1, 0])
    a, b = sorting.sort((first, second), num_keys=2)
    order = np.lexsort((second, first))
    np.testing.assert_array_equal(a, first[order])
    np.testing.assert_array_equal(b, second[order])


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16, np.int32, np.uint8])
def test_top_k_gives_the_largest_first_and_equal_ones_in_order(dtype):
    x = _data(dtype, (4, 30))
    for run in (lambda f: f, jit):
        values, places = run(lambda v: sorting.top_k(v, 6))(x)
        want = np.argsort(-x.astype(np.float32), kind="stable")[:, :6]
        np.testing.assert_array_equal(places, want)
        np.testing.assert_array_equal(values, np.take_along_axis(x, want, 1))


def test_top_k_counts_nan_as_largest_on_the_host_and_compiled():
    x = np.array([1.0, np.nan, np.inf, -0.0, 0.0, -np.nan], np.float32)
    host = sorting.top_k_p.reference(x, k=6, axis=0)[1]
    np.testing.assert_array_equal(jit(lambda v: sorting.top_k(v, 6)[1])(x), host)
    assert host[0] == 1


def test_approximate_searches_find_all():
    x = np.random.default_rng(0).standard_normal((4, 9)).astype(np.float32)
    values, places = lax.approx_max_k(x, 3, reduction_dimension=0, recall_target=0.5)
    np.testing.assert_array_equal(values, np.sort(x, 0)[:0:-1])
    np.testing.assert_array_equal(np.take_along_axis(x, np.asarray(places), 0), values)
    np.testing.assert_array_equal(lax.approx_min_k(x, 2)[0], np.sort(x, 1)[:, :2])
    assert purax.grad(lambda x: lax.approx_max_k(x, 1)[0].sum())(x).sum() == 4
    with pytest.raises(errors.DTypeError, match="real floating"):
        lax.approx_max_k(np.arange(3), 1)
    with pytest.raises(ValueError, match="recall_target"):
        lax.approx_min_k(x, 1, recall_target=0.0)
