# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from purax import numpy as pnp
from purax import optim, random, tree


def state_of(optimizer, steps=2):
    params = {"w": pnp.ones(2), "b": pnp.zeros(())}
    state = optimizer.init(params)
    for _ in range(steps):
        _, state = optimizer.update(params, state, params)
    return state


def test_values_in_a_state_are_found_by_name_and_several_raise():
    state = state_of(optim.adam(optim.linear_schedule(1.0, 0.0, 4)))
    assert tree.structure(optim.tree.get(state, "mu")).num_leaves == 2
    assert isinstance(optim.tree.get(state, "ScaleByAdamState"), optim.ScaleByAdamState)
    assert optim.tree.get(state, "nothing", default=7) == 7
    with pytest.raises(KeyError, match="2 values are named 'count'"):
        optim.tree.get(state, "count")
    one = optim.tree.get(state, "count", filtering=lambda path, value: path[-1].tuple_name == "ScaleByAdamState")
    assert int(one) == 2


def test_values_in_a_state_are_set_by_name():
    state = state_of(optim.inject_hyperparams(optim.adam)(0.1))
    changed = optim.tree.set(state, learning_rate=pnp.asarray(0.5))
    assert float(changed.hyperparams["learning_rate"]) == 0.5
    assert tree.structure(changed) == tree.structure(state)
    with pytest.raises(KeyError, match="no value named 'nothing'"):
        optim.tree.set(state, nothing=1)


def test_map_params_reaches_moments_and_leaves_counters():
    optimizer = optim.adam(0.1)
    state = state_of(optimizer)
    mapped = optim.tree_map_params(optimizer, lambda leaf: "moment", state, transform_non_params=lambda leaf: "other")
    assert mapped[0].count == "other"
    assert mapped[0].mu == {"w": "moment", "b": "moment"}


def test_norms_treat_all_leaves_as_one_vector():
    values = {"a": pnp.asarray([3.0, 0.0]), "b": pnp.asarray(-4.0)}
    assert float(optim.tree.norm(values)) == 5.0
    assert float(optim.tree.norm(values, squared=True)) == 25.0
    assert float(optim.tree.norm(values, ord=1)) == 7.0
    assert float(optim.tree.norm(values, ord="inf")) == 4.0
    assert float(optim.tree.norm({})) == 0.0
    with pytest.raises(ValueError, match="ord=3"):
        optim.tree.norm(values, ord=3)


def test_arithmetic_goes_leaf_by_leaf():
    x = {"a": pnp.asarray([1.0, 2.0]), "b": pnp.asarray(3.0)}
    assert float(optim.tree.sum(optim.tree.add(x, x, x))) == 18.0
    assert float(optim.tree.sum(optim.tree.mul(x, x), associative_reduction=True)) == 14.0
    assert float(optim.tree.vdot(x, optim.tree.scale(2.0, x))) == 28.0
    assert float(optim.tree.max(x)) == 3.0
    assert float(optim.tree.min(x)) == 1.0
    assert optim.tree.size(x) == 3
    assert bool(optim.tree.allclose(optim.tree.sub(optim.tree.add_scale(x, 2.0, x), x), optim.tree.scale(2.0, x)))


def test_the_dtype_of_a_tree_is_one_or_asked_for():
    mixed = {"a": pnp.ones(2, pnp.bfloat16), "b": pnp.ones(2)}
    assert optim.tree.dtype({"a": pnp.ones(2)}) == pnp.float32
    assert optim.tree.dtype(mixed, "promote") == pnp.float32
    assert optim.tree.dtype(mixed, "lowest") == pnp.bfloat16
    with pytest.raises(ValueError, match="different dtypes"):
        optim.tree.dtype(mixed)


def test_random_trees_have_one_key_for_each_leaf():
    target = {"a": pnp.zeros(3), "b": pnp.zeros(3)}
    draws = optim.tree.random_like(random.key(0), target)
    assert not np.array_equal(np.asarray(draws["a"]), np.asarray(draws["b"]))


def test_a_counter_stays_at_its_largest_value():
    largest = pnp.asarray(np.int32(2**31 - 1))
    assert int(optim.safe_increment(largest)) == 2**31 - 1
    assert int(optim.safe_increment(pnp.asarray(np.int32(4)))) == 5
