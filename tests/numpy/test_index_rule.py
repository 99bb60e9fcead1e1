# SPDX-License-Identifier: Apache-2.0
"""One rule for indices outside: what Python or NumPy knows raises, what lies on a device follows the mode."""

import numpy as np
import pytest

from purax import config, errors, jit, lax, linen, ops
from purax import numpy as pnp

X = pnp.arange(3.0)
TABLE = {"params": {"embedding": pnp.arange(3.0)[:, None]}}


def _scalar(i):
    return i if np.ndim(i) == 0 else i[0]


def _vector(i):
    return i if np.ndim(i) else (pnp if hasattr(i, "aval") else np).reshape(i, (1,))


# What is done with an index, and what an index on the device gives beyond the end and before the start.
USES = {
    "x[i]": (lambda i: X[i], [2], [0]),
    "x.at[i].get()": (lambda i: X.at[i].get(), [2], [0]),
    "x.at[i].set": (lambda i: X.at[i].set(9.0), [0, 1, 2], [0, 1, 2]),
    "x.at[i].add": (lambda i: X.at[i].add(9.0), [0, 1, 2], [0, 1, 2]),
    "x.at[i].apply": (lambda i: X.at[i].apply(pnp.exp), [0, 1, 2], [0, 1, 2]),
    "take": (lambda i: pnp.take(X, i), [np.nan], [np.nan]),
    "take_along_axis": (lambda i: pnp.take_along_axis(X, _vector(i), 0), [np.nan], [np.nan]),
    "put": (lambda i: pnp.put(X, i, 9.0, inplace=False), [0, 1, 2], [0, 1, 2]),
    "put_along_axis": (lambda i: pnp.put_along_axis(X, _vector(i), 9.0, 0, inplace=False), [0, 1, 2], [0, 1, 2]),
    "add.at": (lambda i: pnp.add.at(X, i, 9.0, inplace=False), [0, 1, 2], [0, 1, 2]),
    "dynamic_slice": (lambda i: lax.dynamic_slice(X, (_scalar(i),), (1,)), [2], [0]),
    "dynamic_slice_in_dim": (lambda i: lax.dynamic_slice_in_dim(X, _scalar(i), 2), [1, 2], [0, 1]),
    "dynamic_index_in_dim": (lambda i: lax.dynamic_index_in_dim(X, _scalar(i)), [2], [0]),
    "dynamic_update_slice": (lambda i: lax.dynamic_update_slice(X, pnp.ones(1), (_scalar(i),)), [0, 1, 1], [1, 1, 2]),
    "dynamic_update_index_in_dim": (lambda i: lax.dynamic_update_index_in_dim(X, 9.0, _scalar(i), 0), [0, 1, 9], [9, 1, 2]),
    "Embed": (lambda i: linen.Embed(3, 1).apply(TABLE, _vector(i)), [np.nan], [np.nan]),
}  # fmt: skip
PLACES = {"beyond": 10, "before": -10}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("known", [int, np.int32, lambda i: np.array([i])], ids=["int", "scalar", "array"])
def test_a_known_index_outside_raises_at_once_and_traced(use, place, known):
    function, index = USES[use][0], known(PLACES[place])
    if type(index) is int and use in ("take_along_axis", "put_along_axis", "Embed"):
        index = np.int32(index)
    for run in (function, lambda i: jit(lambda: function(i))()):
        with pytest.raises(
            errors.IndexOutOfBoundsError, match=rf"index {index if np.ndim(index) == 0 else index[0]} .*axis 0 "
        ):
            run(index)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("use", USES)
def test_an_index_on_the_device_follows_the_mode_and_raises_where_bounds_are_debugged(use, place):
    function, beyond, before = USES[use]
    for index in (pnp.asarray(PLACES[place]), pnp.asarray([PLACES[place]])):
        for run in (function, jit(function)):
            np.testing.assert_array_equal(np.ravel(run(index)), beyond if place == "beyond" else before)
        config.update("debug_bounds", True)
        with pytest.raises(errors.IndexOutOfBoundsError, match=f"index {PLACES[place]} "):
            function(index)
        config.update("debug_bounds", False)


@pytest.mark.parametrize("debug", [False, True])
@pytest.mark.parametrize("kind", [int, lambda i: np.array([i]), pnp.asarray], ids=["int", "array", "device"])
def test_an_explicit_mode_always_wins(kind, debug):
    config.update("debug_bounds", debug)
    index = kind(10)
    assert X.at[index].get(mode="clip").ravel() == 2
    assert np.isnan(X.at[index].get(mode="fill")).all()
    assert X.at[index].set(9, mode="drop").tolist() == [0, 1, 2]
    assert pnp.take(X, index, mode="clip").ravel() == 2
    assert pnp.take(X, index, mode="wrap").ravel() == 1
    assert ops.segment_sum(pnp.ones(1), _vector(np.int32(index)), 3, mode="drop").tolist() == [0, 0, 0]


@pytest.mark.parametrize("kind", [np.array, pnp.asarray], ids=["known", "device"])
def test_segment_ids_are_labels_whose_rows_are_left_out_where_there_is_no_such_segment(kind):
    ids = kind([0, 5, -1, 1])
    assert ops.segment_sum(pnp.arange(1.0, 5), ids, 2).tolist() == [1, 4]
    assert ops.segment_max(pnp.arange(1, 5), ids, 3).tolist() == [1, 4, -(2**31)]
    config.update("debug_bounds", True)
    with pytest.raises(errors.IndexOutOfBoundsError, match="index -1 "):
        ops.segment_sum(pnp.ones(4), ids, 2)
    assert ops.segment_sum(pnp.arange(1.0, 5), ids, 2, mode="drop").tolist() == [1, 4]


def test_a_slice_that_would_leave_the_array_names_itself_and_the_line():
    with pytest.raises(
        errors.IndexOutOfBoundsError,
        match=r"slice of 2 elements at index 2 .*axis 0 with size 3, at .*test_index_rule.py",
    ):
        lax.dynamic_slice(X, (2,), (2,))
    assert lax.dynamic_slice(X, (-2,), (2,)).tolist() == [1, 2]
    assert lax.dynamic_slice(X, (pnp.asarray(2),), (2,)).tolist() == [1, 2]
