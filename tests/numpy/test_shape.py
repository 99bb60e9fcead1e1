# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from purax import errors, jit
from purax import numpy as pnp

X = np.arange(12, dtype=np.float32).reshape(3, 4)
V = np.arange(5, dtype=np.float32)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("reshape", {"shape": (4, 3)}), ("reshape", {"shape": (2, -1), "order": "F"}), ("ravel", {"order": "F"}),
        ("transpose", {"axes": (1, 0)}), ("swapaxes", {"axis1": 0, "axis2": 1}), ("moveaxis", {"source": 0, "destination": -1}),
        ("expand_dims", {"axis": (0, 2)}), ("flip", {"axis": 0}), ("flip", {}), ("rot90", {"k": 3}), ("roll", {"shift": 2}),
        ("roll", {"shift": (1, -2), "axis": (0, 1)}), ("tile", {"reps": (2, 1, 2)}), ("repeat", {"repeats": 2}),
        ("repeat", {"repeats": np.array([1, 0, 2]), "axis": 0}), ("atleast_3d", {}), ("tril", {}), ("triu", {"k": 1}),
        ("diag", {"k": 1}), ("diagonal", {"offset": -1}), ("trace", {}), ("resize", {"new_shape": (5, 4)}),
        ("split", {"indices_or_sections": [1, 3], "axis": 1}), ("array_split", {"indices_or_sections": 3, "axis": 1}),
        ("broadcast_to", {"shape": (2, 3, 4)}), ("delete", {"obj": 1, "axis": 0}), ("delete", {"obj": slice(0, 2), "axis": 1}),
        ("insert", {"obj": 1, "values": 5.0, "axis": 1}), ("insert", {"obj": np.array([0, 2]), "values": np.array([1.0, 2.0])}),
        ("append", {"values": X, "axis": 0}), ("rollaxis", {"axis": 1}), ("unstack", {}),
    ],
)  # fmt: skip
def test_functions_of_one_array_give_what_numpy_gives(name, options):
    want = getattr(np, name)(X, **options)
    got = getattr(pnp, name)(pnp.asarray(X), **options)
    for a, b in zip(
        want if isinstance(want, (list, tuple)) else [want],
        got if isinstance(got, (list, tuple)) else [got],
        strict=True,
    ):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", "concatenate stack vstack hstack dstack column_stack".split())
def test_joins_give_what_numpy_gives(name):
    for pair in ([X, X + 1], [V, V * 2]):
        np.testing.assert_array_equal(getattr(np, name)(pair), getattr(pnp, name)(pair))
    assert getattr(pnp, name)([X, X.astype(np.int32)]).dtype == np.float32


def test_blocks_are_joined_from_inside_out():
    np.testing.assert_array_equal(np.block([[X, X], [X, X + 1]]), pnp.block([[X, X], [X, X + 1]]))


@pytest.mark.parametrize("mode", "constant edge linear_ramp maximum mean median minimum reflect symmetric wrap".split())
def test_padding_gives_what_numpy_gives(mode):
    for width in (1, ((1, 2), (3, 0)), ((4, 7), (6, 5))):
        np.testing.assert_allclose(
            np.pad(X, width, mode=mode), pnp.pad(pnp.asarray(X), width, mode=mode), rtol=1e-6, atol=1e-6
        )


def test_padding_takes_the_options_of_numpy():
    for options in (
        {"mode": "reflect", "reflect_type": "odd"}, {"mode": "symmetric", "reflect_type": "odd"},
        {"mode": "constant", "constant_values": ((1, 2), (3, 4))}, {"mode": "mean", "stat_length": 2},
        {"mode": "linear_ramp", "end_values": (5, -4)},
    ):  # fmt: skip
        np.testing.assert_allclose(np.pad(X, 6, **options), pnp.pad(pnp.asarray(X), 6, **options), rtol=1e-5, atol=1e-6)

    def fill(vector, width, axis, options):
        return vector.at[: width[0]].set(7.0)

    assert pnp.pad(pnp.zeros(2), (1, 1), fill).tolist() == [7, 0, 0, 0]


def test_sizes_are_checked_with_both_shapes_named():
    with pytest.raises(errors.ShapeError, match=r"\(3, 4\).*\(5, 3\)"):
        pnp.reshape(X, (5, 3))
    with pytest.raises(ValueError, match="axis 2 is out of bounds for array of dimension 2"):
        pnp.squeeze(X, 2)


def test_repeat_needs_a_length_where_the_counts_are_traced():
    repeated = jit(lambda n: pnp.repeat(pnp.arange(3), n, total_repeat_length=6))(pnp.array([1, 0, 3]))
    assert repeated.tolist() == [0, 2, 2, 2, 2, 2]
    with pytest.raises(errors.ConcretizationTypeError, match="total_repeat_length"):
        jit(lambda n: pnp.repeat(pnp.arange(3), n))(pnp.array([1, 0, 3]))


def test_traced_shifts_roll():
    np.testing.assert_array_equal(jit(lambda n: pnp.roll(V, n))(-7), np.roll(V, -7))


def test_views_reinterpret_bits():
    for dtype in ("int32", "uint8", "int16", "complex64"):
        np.testing.assert_array_equal(pnp.asarray(X).view(dtype), X.view(dtype))
    np.testing.assert_array_equal(pnp.asarray(X).view("uint8").view("float32"), X)


def test_functions_along_axes():
    np.testing.assert_array_equal(np.apply_along_axis(np.cumsum, 0, X), pnp.apply_along_axis(pnp.cumsum, 0, X))
    y = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4)
    np.testing.assert_array_equal(np.apply_along_axis(np.cumsum, 0, y), pnp.apply_along_axis(pnp.cumsum, 0, y))
    np.testing.assert_array_equal(np.apply_over_axes(np.sum, y, [0, 2]), pnp.apply_over_axes(pnp.sum, y, [0, 2]))


def test_traced_places_can_be_deleted_and_inserted():
    assert jit(lambda i: pnp.delete(V, i))(-1).tolist() == [0, 1, 2, 3]
    assert jit(lambda i: pnp.insert(V, i, 9.0))(2).tolist() == [0, 1, 9, 2, 3, 4]


def test_nothing_is_repeated_no_times():
    empty = np.zeros((2, 0), np.float32)
    assert pnp.repeat(empty, np.zeros(0, np.int32), axis=1).shape == (2, 0)
    assert pnp.repeat(empty, np.array([2, 1]), axis=0).shape == (3, 0)
