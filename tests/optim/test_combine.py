# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from purax import numpy as pnp
from purax import optim, tree

PARAMS = {"a": np.array([1.0, 2.0], np.float32), "b": np.array([3.0], np.float32)}
GRADS = {"a": np.array([0.5, -1.0], np.float32), "b": np.array([1.0], np.float32)}


def values():
    return tree.map(pnp.asarray, PARAMS), tree.map(pnp.asarray, GRADS)


def test_masked_passes_on_the_raw_gradient_of_what_it_leaves_out():
    # The case of optax#296: adamw trains a only; b with gradient 1 gets the update 1.
    params, grads = values()
    optimizer = optim.masked(optim.adamw(0.1), {"a": True, "b": False})
    updates, _ = optimizer.update(grads, optimizer.init(params), params)
    assert float(updates["b"][0]) == 1.0
    assert np.all(np.asarray(updates["a"]) * GRADS["a"] < 0)


@pytest.mark.parametrize(
    "make",
    [
        lambda: optim.chain(optim.adamw(0.1, weight_decay=0.1), optim.freeze({"a": False, "b": True})),
        lambda: optim.selective_transform(optim.adamw(0.1, weight_decay=0.1), freeze_mask={"a": False, "b": True}),
        lambda: optim.groups({"train": optim.adamw(0.1, weight_decay=0.1)}, {"a": "train", "b": "rest"}),
        lambda: optim.partition(
            {"train": optim.adamw(0.1, weight_decay=0.1), "rest": optim.set_to_zero()}, {"a": "train", "b": "rest"}
        ),
        lambda: optim.selective_transform(
            optim.sgd(0.1, momentum=0.9), freeze_mask=lambda p: tree.map(lambda x: x.shape == (1,), p)
        ),
    ],
)
def test_frozen_weights_stay_bit_for_bit_under_weight_decay_and_momentum(make):
    params, grads = values()
    optimizer = make()
    state = optimizer.init(params)
    for _ in range(3):
        updates, state = optimizer.update(grads, state, params)
        params = optim.apply_updates(params, updates)
    assert np.asarray(params["b"]).tobytes() == PARAMS["b"].tobytes()
    assert not np.array_equal(np.asarray(params["a"]), PARAMS["a"])


def test_partition_trains_each_group_as_if_it_were_alone():
    params, grads = values()
    both = optim.partition({"x": optim.adam(0.1), "y": optim.sgd(0.5)}, lambda p: {"a": "x", "b": "y"})
    updates, _ = both.update(grads, both.init(params), params)
    alone = optim.adam(0.1)
    expected, _ = alone.update(grads["a"], alone.init(params["a"]), params["a"])
    np.testing.assert_array_equal(np.asarray(updates["a"]), np.asarray(expected))
    np.testing.assert_array_equal(np.asarray(updates["b"]), [-0.5])


def test_partition_names_labels_without_a_transformation():
    params, _ = values()
    with pytest.raises(ValueError, match=r"no transformation for the labels \['z'\]"):
        optim.partition({"x": optim.sgd(0.1)}, {"a": "x", "b": "z"}).init(params)


def test_labels_and_masks_may_stand_for_whole_subtrees():
    params = {"encoder": {"w": pnp.ones(2), "b": pnp.ones(1)}, "head": {"w": pnp.ones(2)}}
    optimizer = optim.partition({"slow": optim.sgd(0.1), "fast": optim.sgd(1.0)}, {"encoder": "slow", "head": "fast"})
    updates, _ = optimizer.update(params, optimizer.init(params), params)
    assert float(updates["encoder"]["b"][0]) == pytest.approx(-0.1)
    assert float(updates["head"]["w"][0]) == -1.0


def test_named_chain_gives_its_state_by_name_and_refuses_a_name_twice():
    params, grads = values()
    optimizer = optim.named_chain(("limit", optim.clip(0.1)), ("adam", optim.scale_by_adam()))
    _, state = optimizer.update(grads, optimizer.init(params), params)
    assert list(state) == ["limit", "adam"]
    with pytest.raises(ValueError, match="each name may occur once"):
        optim.named_chain(("x", optim.clip(0.1)), ("x", optim.clip(0.1)))


def test_chain_refuses_the_state_of_another_chain():
    params, grads = values()
    state = optim.sgd(0.1).init(params)
    with pytest.raises(ValueError, match="chain of 3 transformations got a state of 2 parts"):
        optim.adamw(0.1).update(grads, state, params)


def test_extra_arguments_reach_those_that_take_them_through_a_chain():
    def update(updates, state, params=None, *, factor, **extra):
        del params, extra
        return tree.map(lambda u: factor * u, updates), state

    scaled = optim.GradientTransformationExtraArgs(lambda params: optim.EmptyState(), update)
    optimizer = optim.chain(optim.clip(10.0), scaled, optim.scale(-1.0))
    params, grads = values()
    updates, _ = optimizer.update(grads, optimizer.init(params), params, factor=2.0)
    np.testing.assert_array_equal(np.asarray(updates["b"]), [-2.0])


def test_apply_updates_keeps_the_dtype_of_parameters_and_passes_over_none():
    params = {"half": pnp.ones(2, pnp.bfloat16), "none": None}
    updates = {"half": pnp.full(2, 0.5, pnp.float32), "none": None}
    new = optim.apply_updates(params, updates)
    assert new["half"].dtype == pnp.bfloat16
    assert new["none"] is None


def test_incremental_and_periodic_updates_follow_their_equations():
    new, old = {"x": pnp.asarray([4.0])}, {"x": pnp.asarray([0.0])}
    assert float(optim.incremental_update(new, old, 0.25)["x"][0]) == 1.0
    assert float(optim.periodic_update(new, old, pnp.asarray(4), 2)["x"][0]) == 4.0
    assert float(optim.periodic_update(new, old, pnp.asarray(5), 2)["x"][0]) == 0.0
