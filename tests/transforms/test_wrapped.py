# SPDX-License-Identifier: Apache-2.0
"""Functions with a stack of transformations, in JAX's older form."""

import numpy as np
import pytest

import purax
from purax import api_util
from purax.extend import linear_util as lu


def wrapped(fun, **params):
    return lu.wrap_init(fun, params, debug_info=api_util.debug_info("test", fun, (), {}))


@lu.transformation
def scaled_in_turn(factor, *args):
    out = yield args, {}
    yield factor * out


@lu.transformation_with_aux
def counted_in_turn(*args):
    out = yield args, {}
    yield out, len(args)


@lu.transformation2
def scaled(fun, factor, *args):
    return factor * fun(*args)


@lu.transformation_with_aux2
def counted(fun, store, *args):
    store.store(len(args))
    return fun(*args)


@pytest.mark.parametrize(("scale", "count"), [(scaled_in_turn, counted_in_turn), (scaled, counted)])
def test_transformations_stack(scale, count):
    fun, number = count(scale(wrapped(lambda x, y: x + y), 10))
    with pytest.raises(lu.StoreException, match="not run"):
        number()
    assert fun.call_wrapped(1, 2) == 30 and number() == 2
    with pytest.raises(lu.StoreException, match="already"):
        fun.call_wrapped(1, 2)


def test_parameters_go_with_the_function():
    assert wrapped(lambda x, y: x - y, y=2).call_wrapped(5) == 3


def test_functions_are_equal_if_their_transformations_are():
    def fun(x):
        return x

    assert scaled(wrapped(fun), 2) == scaled(wrapped(fun), 2) != scaled(wrapped(fun), 3)
    assert len({scaled(wrapped(fun), 2), scaled(wrapped(fun), 2)}) == 1


def test_results_are_remembered_and_stores_filled_again():
    calls = []

    @lu.cache
    def run(fun, x):
        calls.append(x)
        return fun.call_wrapped(x)

    def fun(x):
        return x + 1

    for _ in range(2):
        counting, number = counted(wrapped(fun))
        assert run(counting, 1) == 2 and number() == 1
    assert calls == [1]


def test_of_two_functions_the_one_that_has_run_tells():
    one, first = counted(wrapped(abs))
    _, second = counted(wrapped(abs))
    with pytest.raises(lu.StoreException, match="neither"):
        lu.merge_linear_aux(first, second)
    one.call_wrapped(1)
    assert lu.merge_linear_aux(first, second) == (True, 1)
    assert lu.merge_linear_aux(second, first) == (False, 1)


def test_functions_of_trees_become_functions_of_leaves():
    leaves, structure = purax.tree.flatten(((1, {"a": 2}), {"b": 3}))
    fun, out = api_util.flatten_fun(wrapped(lambda x, y, b: {"sum": x + y["a"] + b}), structure)
    assert fun.call_wrapped(*leaves) == [6] and out() == purax.tree.structure({"sum": 0})
    fun, out = api_util.flatten_fun_nokwargs(wrapped(lambda x: (x, x)), purax.tree.structure((0,)))
    assert purax.jit(fun.call_wrapped)(1.5) == [1.5, 1.5] and out() == purax.tree.structure((0, 0))


def test_some_arguments_are_kept():
    fun, dynamic = api_util.argnums_partial(wrapped(lambda x, y, z: (x, y, z)), (2, 0), (1, 2, 3))
    assert dynamic == (3, 1) and fun.call_wrapped(30, 10) == (10, 2, 30)
    with pytest.raises(ValueError, match="argument 1 of type list"):
        api_util.argnums_partial(wrapped(abs), 0, (1, [2]))


def test_donated_arguments_are_marked_leaf_by_leaf():
    structure = purax.tree.structure(((1, (2, 3)), {"a": 4, "b": (5, 6)}))
    assert api_util.donation_vector((1,), ("b",), structure) == (False, True, True, False, True, True)
    assert api_util.rebase_donate_argnums((0, 2), (1,)) == (0, 1)
    with pytest.raises(ValueError, match="both static and donated"):
        api_util.rebase_donate_argnums((1,), (1,))
    assert api_util.flatten_axes("axes", purax.tree.structure((1, (2, 3))), (0, 1)) == [0, 1, 1]


def test_names_for_messages():
    info = api_util.debug_info("test", lambda x, y, **k: x, ({"a": 1}, "static"), {"k": 2}, static_argnums=(1,))
    assert info.arg_names == ("x['a']", "k") and info.func_name == "<lambda>" and info.traced_for == "test"
    assert api_util.shaped_abstractify(np.ones(2, np.float32)).str_short() == "float32[2]"
    with pytest.raises(ValueError):
        api_util.safe_map(abs, [1, 2], [1])


def test_donated_positions_are_counted_once():
    assert api_util.rebase_donate_argnums((3, 3), (0, 1)) == (1,)
