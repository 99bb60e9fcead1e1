# SPDX-License-Identifier: Apache-2.0
"""`x[index]`, `x.at[index]` and the functions around them, against NumPy, run at once and compiled, with known and traced indices."""

import warnings

import numpy as np
import pytest

from purax import config, errors, grad, jit, vmap
from purax import numpy as pnp

_X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)

INDICES = [
    1, -1, np.int64(1), np.array(1), slice(1, 2), slice(None, None, -1), slice(5, 2), (0, slice(None, None, 2)), None, Ellipsis,
    (Ellipsis, 0), (1, None, Ellipsis, slice(3, 0, -2)), (slice(0, 0),), (slice(1, None), 1, slice(1, 3)), (),
    np.array([0, 1, 1]), (slice(None), np.array([0, -1])), (np.array([0, 1]), slice(None), np.array([[1], [2]])),
    (0, slice(None), np.array([1, 2])), (slice(None), 0, np.array([1, 2])), (np.array([1, 0]), None, 0),
    (Ellipsis, np.array([0]), None), (slice(None), slice(2, 0, -1), np.array([1, 3])), ([0, 1], slice(None)), ((0, 1),),
    (np.array([1]), slice(None, None, 3)), (np.array([], int),), (slice(None), np.array([True, False, True])), True, False,
    (None, True), (np.array([0, 1]), True), _X > 5, ((True, False),), (_X[0] > 100),
]  # fmt: skip
INDICES = [i for i in INDICES if not (isinstance(i, np.ndarray) and i.dtype == bool and i.shape != _X.shape)]


def _traced(index):
    """The index with integers replaced by purax arrays."""

    def convert(e):
        if (isinstance(e, np.ndarray) and e.dtype != bool) or type(e) is int:
            return pnp.asarray(e)
        return e

    return tuple(map(convert, index)) if isinstance(index, tuple) else convert(index)


def _name(index):
    return str(index).replace("\n", "")[:40]


@pytest.mark.parametrize("index", INDICES, ids=_name)
def test_reading_follows_numpy(index):
    x = pnp.asarray(_X)
    want = _X[index]
    for got in (x[index], x[_traced(index)], jit(lambda v: v[index])(x), jit(lambda v: v[_traced(index)])(x)):
        assert got.shape == want.shape
        np.testing.assert_array_equal(got, want)
    gradient = grad(lambda v: (v[index] * 2).sum())(x)
    counts = np.zeros_like(_X)
    np.add.at(counts, index, 2)
    np.testing.assert_array_equal(gradient, counts)


@pytest.mark.parametrize("index", INDICES, ids=_name)
@pytest.mark.parametrize("operation", ["set", "add", "subtract", "multiply", "min", "max"])
def test_updating_follows_numpy(index, operation):
    x = pnp.asarray(_X)
    ufunc = {"add": np.add, "subtract": np.subtract, "multiply": np.multiply, "min": np.minimum, "max": np.maximum}
    for values in (7.0, np.arange(_X[index].size, dtype=np.float32).reshape(_X[index].shape)):
        want = _X.copy()
        if operation == "set":
            want[index] = values
        else:
            ufunc[operation].at(want, index, values)
        np.testing.assert_array_equal(getattr(x.at[index], operation)(values), want)
        np.testing.assert_array_equal(getattr(x.at[_traced(index)], operation)(values), want)
    np.testing.assert_array_equal(jit(lambda v: getattr(v.at[_traced(index)], operation)(values))(x), want)


def test_divide_power_and_apply():
    x = pnp.asarray(_X[0, 0])
    np.testing.assert_allclose(x.at[np.array([1, 1, 3])].divide(2.0), [0, 0.25, 2, 1.5])
    np.testing.assert_allclose(x.at[2:].power(2), [0, 1, 4, 9])
    np.testing.assert_allclose(x.at[np.array([1, 1, 3])].apply(lambda v: v + 1), [0, 3, 2, 4])
    assert pnp.arange(3).at[0].divide(2).dtype == np.float32


# --- the index rule -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("index", [3, -4, np.int32(10), np.array([0, 10]), (Ellipsis, 3)])
def test_known_indices_out_of_bounds_raise_eager_and_traced(index):
    x = pnp.arange(3.0)
    run = {
        "read": lambda v: v[index],
        "set": lambda v: v.at[index].set(1.0),
        "add": lambda v: v.at[index].add(1.0),
        "take": lambda v: pnp.take(v, index if not isinstance(index, tuple) else index[-1]),
    }
    for f in run.values():
        for g in (f, jit(f)):
            with pytest.raises(IndexError, match=r"index -?\d+ is out of bounds for axis 0 with size 3"):
                g(x)


def test_device_indices_follow_the_mode():
    x = pnp.arange(3.0)
    far = pnp.asarray([10, -1, -7])
    for run in (lambda f: f, jit):
        np.testing.assert_array_equal(run(lambda v, i: v[i])(x, far), [2, 2, 0])
        np.testing.assert_array_equal(run(lambda v, i: v[i[0]])(x, far), 2)
        np.testing.assert_array_equal(run(lambda v, i: pnp.take(v, i))(x, far), [np.nan, 2, np.nan])
        np.testing.assert_array_equal(run(lambda v, i: pnp.take(v, i, mode="clip"))(x, far), [2, 0, 0])
        np.testing.assert_array_equal(run(lambda v, i: pnp.take(v, i, mode="wrap"))(x, far), [1, 2, 2])
        np.testing.assert_array_equal(run(lambda v, i: v.at[i].get(mode="fill", fill_value=7))(x, far), [7, 2, 7])
        np.testing.assert_array_equal(run(lambda v, i: v.at[i].set(9.0))(x, far), [0, 1, 9])
        np.testing.assert_array_equal(run(lambda v, i: v.at[i[0]].set(9.0))(x, far), [0, 1, 2])
        np.testing.assert_array_equal(run(lambda v, i: v.at[i].set(9.0, mode="clip"))(x, far), [9, 1, 9])
        np.testing.assert_array_equal(run(lambda v, i: v.at[i[0]].add(1.0, mode="clip"))(x, far), [0, 1, 3])


def test_an_explicit_mode_wins_over_the_check_of_known_indices():
    x = pnp.arange(3.0)
    np.testing.assert_array_equal(x.at[10].set(5.0, mode="drop"), [0, 1, 2])
    np.testing.assert_array_equal(x.at[10].set(5.0, mode="clip"), [0, 1, 5])
    assert np.isnan(x.at[10].get(mode="fill"))
    np.testing.assert_array_equal(x.at[np.array([1, 10])].get(mode="clip"), [1, 2])
    np.testing.assert_array_equal(x.at[pnp.asarray(-1)].get(mode="fill", fill_value=3, wrap_negative_indices=False), 3)


def test_debug_bounds_raises_for_device_indices():
    config.update("debug_bounds", True)
    with pytest.raises(errors.IndexOutOfBoundsError, match="index 10"):
        pnp.arange(3.0)[pnp.asarray([0, 10])]


def test_taking_rows_0_and_minus_1_gives_the_first_and_the_last():
    x = pnp.arange(6.0).reshape(3, 2)
    np.testing.assert_array_equal(pnp.take(x, pnp.asarray([0, -1]), axis=0), [[0, 1], [4, 5]])
    np.testing.assert_array_equal(pnp.take(x, np.array([0, -1]), axis=0), [[0, 1], [4, 5]])


@pytest.mark.parametrize(
    ("index", "error", "message"),
    [
        ([0, 1], TypeError, "non-tuple sequence"),
        ("a", TypeError, "cannot be a string"),
        (1.0, TypeError, "integer or boolean type"),
        (np.array([1.0]), TypeError, "integer or boolean type"),
        ((0, 0), IndexError, "Too many indices"),
        ((Ellipsis, Ellipsis), IndexError, "single ellipsis"),
        (np.array([True, False]), IndexError, "did not match shape"),
        (object(), IndexError, "only integers, slices"),
        (slice(0.5, 2), TypeError, "integer"),
    ],
)
def test_indices_of_no_valid_kind_are_refused(index, error, message):
    x = pnp.arange(3.0)
    for f in (lambda v: v[index], lambda v: v.at[index].set(0.0)):
        for g in (f, jit(f)):
            with pytest.raises(error, match=message):
                g(x)


def test_traced_masks_and_traced_slice_bounds_are_refused_with_advice():
    x = pnp.arange(3.0)
    with pytest.raises(errors.NonConcreteBooleanIndexError, match="where"):
        jit(lambda v: v[v > 1])(x)
    with pytest.raises(IndexError, match="dynamic_slice"):
        jit(lambda v, n: v[:n])(x, 2)


def test_masks_are_allowed_outside_of_compilation_and_in_grad():
    x = pnp.arange(4.0)
    np.testing.assert_array_equal(x[x > 1], [2, 3])
    np.testing.assert_array_equal(grad(lambda v: (v[v > 1] ** 2).sum())(x), [0, 0, 4, 6])


# --- values of updates --------------------------------------------------------------------------------------------------------


def test_nan_into_integers_raises_when_it_is_known():
    x = pnp.zeros(3, np.int32)
    for value in (np.nan, np.float32(np.nan), np.array([np.nan])):
        with pytest.warns(FutureWarning), pytest.raises(ValueError, match="NaN"):
            x.at[0:1].set(value)


def test_python_integers_that_do_not_fit_raise():
    with pytest.raises(OverflowError, match="300 is out of bounds for int8"):
        pnp.zeros(3, np.int8).at[0].set(300)
    with pytest.raises(OverflowError, match="out of bounds for uint8"):
        jit(lambda v: v.at[0].add(-1))(pnp.zeros(3, np.uint8))


def test_floats_into_integers_warn_and_truncate():
    with pytest.warns(FutureWarning, match="incompatible types"):
        np.testing.assert_array_equal(pnp.zeros(2, np.int32).at[0].set(1.5), [1, 0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(pnp.zeros(2).at[0].set(3), [3, 0])
        assert pnp.zeros(2, np.float16).at[0].set(1e6).dtype == np.float16


def test_values_that_do_not_broadcast_raise():
    with pytest.raises(ValueError, match="Incompatible shapes"):
        pnp.arange(4).at[:].set(pnp.ones(5, np.int32))


def test_an_update_leaves_the_array_unchanged():
    x = pnp.arange(3.0)
    y = x.at[1].set(9.0)
    np.testing.assert_array_equal(x, [0, 1, 2])
    np.testing.assert_array_equal(y, [0, 9, 2])
    with pytest.raises(TypeError, match="immutable"):
        x[1] = 2.0


@pytest.mark.parametrize("dtype", [np.float32, np.int16, np.complex64, np.bool_])
@pytest.mark.parametrize("operation", ["add", "subtract", "set"])
def test_windows_that_are_nearly_the_whole_array(dtype, operation):
    if dtype is np.bool_ and operation == "subtract":
        return
    rng = np.random.default_rng(0)
    x, v = (rng.integers(-9, 9, shape).astype(dtype) for shape in ((40, 70), (38, 69)))
    want = x.copy()
    x[0] = want[0] = -0.0
    window = want[1:-1, 1:]
    window[...] = v if operation == "set" else window - v if operation == "subtract" else window + v
    update = lambda x, v: getattr(x.at[1:-1, 1:], operation)(v)
    got = np.asarray(jit(update)(x, v))
    np.testing.assert_array_equal(got, want)
    assert got.dtype == want.dtype
    if dtype is np.float32:
        np.testing.assert_array_equal(np.signbit(got), np.signbit(want))
        d_x, d_v = grad(lambda x, v: (update(x, v) * want).sum(), (0, 1))(x, v)
        kept = want.copy()
        if operation == "set":
            kept[1:-1, 1:] = 0
        np.testing.assert_array_equal(d_x, kept)
        np.testing.assert_array_equal(d_v, want[1:-1, 1:] * (-1 if operation == "subtract" else 1))
        stacked = vmap(update, (0, None))(np.stack([x, x]), v)
        np.testing.assert_array_equal(stacked, [want, want])


def test_the_gradient_of_a_set_reaches_what_stays_and_what_is_put():
    def f(x, v, i):
        return (x.at[i].set(v) * pnp.asarray([1.0, 2.0, 3.0])).sum()

    for i in (np.array([1, 1]), pnp.asarray([1, 1]), pnp.asarray(1)):
        v = np.ones(np.shape(i), np.float32)
        d_x, d_v = grad(f, (0, 1))(pnp.ones(3), v, i)
        np.testing.assert_array_equal(d_x, [1, 0, 3])
        np.testing.assert_array_equal(d_v, [0, 2] if np.ndim(i) else 2)


def test_vmap_over_indices_and_updates_is_stacking():
    x = pnp.arange(12.0).reshape(3, 4)
    i, v = pnp.asarray([2, 0, 7]), pnp.asarray([1.0, 2.0, 3.0])
    np.testing.assert_array_equal(vmap(lambda a, k: a[k])(x, i), np.array([2, 4, 11], np.float32))
    got = vmap(lambda a, k, u: a.at[k].add(u))(x, i, v)
    want = np.array(x)
    want[0, 2] += 1
    want[1, 0] += 2
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(vmap(lambda k: x.at[k].set(0.0))(i)[0][2], np.zeros(4))


# --- take_along_axis, put, nonzero and friends -------------------------------------------------------------------------------------


@pytest.mark.parametrize("axis", [0, 1, -1, None])
def test_take_along_axis_and_put_along_axis_follow_numpy(axis):
    x = _X[0]
    order = np.argsort(-x, axis=axis)
    for indices in (order, pnp.asarray(order)):
        np.testing.assert_array_equal(pnp.take_along_axis(x, indices, axis), np.take_along_axis(x, order, axis))
        want = x.copy()
        np.put_along_axis(want, order, 5.0, axis)
        np.testing.assert_array_equal(pnp.put_along_axis(x, indices, 5.0, axis, inplace=False), want)


def test_take_along_axis_broadcasts_and_fills():
    got = pnp.take_along_axis(pnp.asarray(_X[0]), pnp.asarray([[0, 9, -1]]), 1)
    np.testing.assert_array_equal(got, [[0, np.nan, 3], [4, np.nan, 7], [8, np.nan, 11]])


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_take_follows_numpy(axis):
    indices = np.array([[0, 2], [1, -1]])
    for i in (indices, pnp.asarray(indices), 1):
        np.testing.assert_array_equal(pnp.take(_X[0], i, axis), np.take(_X[0], np.asarray(i), axis))


def test_put_and_place_need_inplace_false_and_follow_numpy():
    want = _X[0].copy()
    np.put(want, [0, -1, 5], [7.0, 8.0])
    np.testing.assert_array_equal(pnp.put(_X[0], np.array([0, -1, 5]), np.array([7.0, 8.0]), inplace=False), want)
    want = _X[0].copy()
    np.place(want, want > 4, [1.0, 2.0])
    np.testing.assert_array_equal(pnp.place(_X[0], _X[0] > 4, np.array([1.0, 2.0]), inplace=False), want)
    with pytest.raises(ValueError, match="inplace=False"):
        pnp.put(_X[0], np.array([0]), 1.0)


def test_nonzero_follows_numpy_and_takes_a_size():
    mask = _X[0] % 3 == 0
    for got, want in zip(pnp.nonzero(mask), np.nonzero(mask), strict=True):
        np.testing.assert_array_equal(got, want)
    rows, columns = jit(lambda m: pnp.nonzero(m, size=6, fill_value=(-1, 9)))(mask)
    np.testing.assert_array_equal(rows, [*np.nonzero(mask)[0], -1, -1])
    np.testing.assert_array_equal(columns, [*np.nonzero(mask)[1], 9, 9])
    np.testing.assert_array_equal(pnp.argwhere(mask), np.argwhere(mask))
    np.testing.assert_array_equal(pnp.flatnonzero(mask, size=2), np.flatnonzero(mask)[:2])
    with pytest.raises(errors.ConcretizationTypeError, match="size"):
        jit(pnp.nonzero)(mask)


def test_compress_and_extract_follow_numpy():
    condition = np.array([True, False, True])
    np.testing.assert_array_equal(pnp.compress(condition, _X[0], 0), np.compress(condition, _X[0], 0))
    np.testing.assert_array_equal(pnp.extract(_X[0] > 6, _X[0]), np.extract(_X[0] > 6, _X[0]))
    np.testing.assert_array_equal(pnp.compress(condition, _X[0], 0, size=3, fill_value=-1)[2], [-1] * 4)


def test_unravel_index_and_ravel_multi_index_are_inverse_and_follow_numpy():
    flat = np.array([[0, 5], [11, 7]])
    places = pnp.unravel_index(flat, (3, 4))
    for got, want in zip(places, np.unravel_index(flat, (3, 4)), strict=True):
        np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(pnp.ravel_multi_index(places, (3, 4)), flat)
    np.testing.assert_array_equal(pnp.ravel_multi_index(places, (3, 4), order="F"), np.ravel_multi_index(np.unravel_index(flat, (3, 4)), (3, 4), order="F"))  # fmt: skip
    for mode in ("wrap", "clip"):
        got = pnp.ravel_multi_index((np.array([5, -2]), np.array([-1, 4])), (3, 4), mode=mode)
        np.testing.assert_array_equal(
            got, np.ravel_multi_index((np.array([5, -2]), np.array([-1, 4])), (3, 4), mode=mode)
        )
    with pytest.raises(ValueError, match="invalid entry"):
        pnp.ravel_multi_index((np.array([5]), np.array([0])), (3, 4))


def test_put_with_mode_clip_moves_negative_indices_to_the_start():
    for mode in ("clip", "wrap"):
        want = _X[0].copy()
        np.put(want, [-2, 15], [7.0, 8.0], mode=mode)
        np.testing.assert_array_equal(
            pnp.put(_X[0], np.array([-2, 15]), np.array([7.0, 8.0]), mode, inplace=False), want
        )


def test_unravel_index_takes_narrow_and_traced_arguments():
    got = jit(lambda i, a, b: pnp.unravel_index(i, (a, b)))(np.array([5, 7]), 2, 300)
    np.testing.assert_array_equal(got, [[0, 0], [5, 7]])
    rows, columns = pnp.unravel_index(np.array([5, 120], np.int8), (2, 300))
    np.testing.assert_array_equal(columns, [5, 120])
    assert rows.dtype == np.int8


def test_an_index_into_an_axis_without_elements_raises():
    x = pnp.ones((2, 0))
    assert x[0].shape == (0,)
    for index in (0, pnp.asarray(0), np.array([0])):
        with pytest.raises(IndexError, match="out of bounds for axis 1 with size 0"):
            _ = x[0, index]


def test_strict_promotion_refuses_values_of_another_dtype():
    config.update("numpy_dtype_promotion", "strict")  # undone by the fixture of conftest.py
    with pytest.raises(ValueError, match="dtype"):
        pnp.zeros(3).at[0].set(np.float16(1))
    np.testing.assert_array_equal(pnp.zeros(2).at[0].set(1), [1, 0])


@pytest.mark.parametrize("shape", [(5,), (5, 5), (6,), (1,)], ids=str)
@pytest.mark.parametrize("index", [np.s_[::2], np.s_[::-2], np.s_[::5], np.s_[1::2], np.s_[::2, ::2]], ids=str)
def test_steps_from_end_to_end_along_every_axis(shape, index):
    if isinstance(index, tuple) and len(shape) < 2:
        index = index[0]
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    np.testing.assert_array_equal(jit(lambda v: v[index])(x), x[index])
    np.testing.assert_array_equal(vmap(lambda v: v[index])(x[None]), x[index][None])
    selected = np.zeros_like(x)
    selected[index] = 1
    np.testing.assert_array_equal(grad(lambda v: v[index].sum())(x), selected)


def test_no_lanes_at_all():
    x, i = np.zeros((0, 4), np.float32), np.zeros((0, 2), np.int32)
    assert vmap(grad(lambda v, j: v.at[j].get(mode="fill", fill_value=0).sum()))(x, i).shape == (0, 4)
    assert vmap(grad(lambda v, j: v.at[j].add(1.0).sum()))(x, i).shape == (0, 4)
    assert vmap(grad(lambda u, j: pnp.zeros(4).at[j].add(u, mode="drop").sum()))(x[:, :2], i).shape == (0, 2)
