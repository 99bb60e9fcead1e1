# SPDX-License-Identifier: Apache-2.0
"""Optimizers: limits of zero, states that come back whole."""

import numpy as np
import pytest

from purax import numpy as pnp
from purax import optim, tree
from purax.train.checkpoint import from_bytes, to_bytes

# --- nothing, limited to nothing (optax PR#1752) -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "transformation",
    [
        optim.clip_by_global_norm(0.0),
        optim.clip_by_global_norm(1.0),
        optim.clip_by_block_rms(0.0),
        optim.clip(0.0),
        optim.adaptive_grad_clip(0.0),
        optim.normalize_by_update_norm(),
        optim.lars(0.1),
        optim.lamb(0.1),
        optim.adafactor(0.1),
    ],
    ids=["global-0", "global-1", "block", "elements", "adaptive", "normalize", "lars", "lamb", "adafactor"],
)
def test_zero_gradients_give_zero_updates_whatever_the_limit(transformation):
    params = {"w": pnp.zeros((2, 2)), "b": pnp.zeros(2)}
    updates, _ = transformation.update(params, transformation.init(params), params)
    for leaf in tree.leaves(updates):
        np.testing.assert_array_equal(leaf, np.zeros(leaf.shape))


def test_zero_gradients_of_examples_stay_zero_under_a_limit_of_zero():
    total, limited = optim.per_example_global_norm_clip([pnp.zeros((2, 3))], 0.0)
    np.testing.assert_array_equal(total[0], [0, 0, 0])
    assert int(limited) == 0
    total, _ = optim.per_example_layer_norm_clip([pnp.zeros((2, 3))], 0.0)
    np.testing.assert_array_equal(total[0], [0, 0, 0])


def test_a_limit_of_zero_silences_and_a_wide_one_changes_nothing():
    gradient = {"w": pnp.array([3.0, 4.0])}
    for limit, expected in ((0.0, [0, 0]), (1.0, [0.6, 0.8]), (5.0, [3, 4]), (10.0, [3, 4])):
        clipped, _ = optim.clip_by_global_norm(limit).update(gradient, optim.EmptyState())
        np.testing.assert_allclose(clipped["w"], expected, rtol=1e-6)


# --- a state through bytes (jax#3759, flax PR#1432) ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "optimizer",
    [
        optim.adam(1e-3),
        optim.adamw(optim.cosine_decay_schedule(1e-3, 10)),
        optim.chain(optim.clip_by_global_norm(1.0), optim.sgd(0.1, momentum=0.9)),
        optim.masked(optim.adam(1e-3), {"w": True, "b": False}),
        optim.inject_hyperparams(optim.sgd)(learning_rate=0.1),
    ],
    ids=["adam", "adamw", "chain", "masked", "injected"],
)
def test_an_optimizer_state_comes_back_from_bytes_with_its_types_and_names(optimizer):
    params = {"w": pnp.ones((2, 2)), "b": pnp.zeros(2, pnp.bfloat16)}
    state = optimizer.init(params)
    _, state = optimizer.update(params, state, params)
    restored = from_bytes(optimizer.init(params), to_bytes(state))
    assert tree.structure(restored) == tree.structure(state)
    for got, want in zip(tree.leaves(restored), tree.leaves(state), strict=True):
        assert np.asarray(got).dtype == np.asarray(want).dtype
        np.testing.assert_array_equal(got, want)


def test_the_fields_of_an_adam_state_keep_their_names():
    state = optim.adam(1e-3).init({"w": pnp.ones(2)})
    restored = from_bytes(state, to_bytes(state))
    assert type(restored[0]) is optim.ScaleByAdamState
    assert restored[0]._fields == ("count", "mu", "nu")
    assert set(restored[0].mu) == {"w"}
