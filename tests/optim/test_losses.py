# SPDX-License-Identifier: Apache-2.0
import itertools

import numpy as np
import pytest

from purax import numpy as pnp
from purax import optim
from purax.transforms.grad import grad


def test_integer_labels_give_the_loss_of_one_hot_labels_over_any_axes():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(3, 4, 5)).astype(np.float32)
    labels = rng.integers(0, 20, 3)
    one_hot = np.eye(20, dtype=np.float32)[labels].reshape(3, 4, 5)
    got = optim.softmax_cross_entropy_with_integer_labels(pnp.asarray(logits), pnp.asarray(labels), axis=(1, 2))
    expected = optim.softmax_cross_entropy(pnp.asarray(logits), pnp.asarray(one_hot), axis=(1, 2))
    np.testing.assert_allclose(np.asarray(got), np.asarray(expected), rtol=1e-5)


def test_cross_entropies_are_finite_for_large_logits_with_finite_gradients():
    logits = pnp.asarray([[1000.0, -1000.0]])
    labels = pnp.asarray([1])
    loss = optim.softmax_cross_entropy_with_integer_labels(logits, labels)
    np.testing.assert_allclose(np.asarray(loss), [2000.0])
    slope = grad(lambda z: pnp.sum(optim.sigmoid_binary_cross_entropy(z, pnp.asarray([[0.0, 1.0]]))))(logits)
    np.testing.assert_allclose(np.asarray(slope), [[1.0, -1.0]])


def test_an_excluded_class_with_probability_zero_gives_neither_nan_values_nor_nan_gradients():
    logits = pnp.asarray([0.5, -np.inf, 1.0])
    labels = pnp.asarray([0.5, 0.0, 0.5])
    assert np.isfinite(float(optim.safe_softmax_cross_entropy(logits, labels)))
    slope = grad(lambda z: optim.safe_softmax_cross_entropy(z, labels))(logits)
    assert np.all(np.isfinite(np.asarray(slope)))


def test_divergences_are_zero_between_equal_distributions_with_zeros():
    p = pnp.asarray([0.25, 0.75, 0.0])
    log_p = pnp.log(pnp.where(p > 0, p, 1e-30))
    assert float(optim.kl_divergence(log_p, p)) == pytest.approx(0.0, abs=1e-6)
    slope = grad(lambda q: optim.kl_divergence(log_p, q))(p)
    assert np.all(np.isfinite(np.asarray(slope)))


def test_the_cosine_of_a_zero_vector_is_zero_with_a_finite_gradient():
    zero, one = pnp.zeros(3), pnp.ones(3)
    assert float(optim.cosine_similarity(zero, one)) == 0.0
    assert np.all(np.isfinite(np.asarray(grad(lambda x: optim.cosine_similarity(x, one))(zero))))


def test_wrong_dtypes_and_shapes_are_refused_in_words():
    with pytest.raises(TypeError, match="logits must be of floating dtype, got int32"):
        optim.softmax_cross_entropy(pnp.asarray([1, 2]), pnp.asarray([0.5, 0.5]))
    with pytest.raises(TypeError, match="labels must be of integer dtype"):
        optim.softmax_cross_entropy_with_integer_labels(pnp.asarray([1.0, 2.0]), pnp.asarray(1.0))
    with pytest.raises(ValueError, match=r"shape \(2,\) and targets of shape \(2, 1\)"):
        optim.l2_loss(pnp.ones(2), pnp.ones((2, 1)))


def test_the_loss_of_a_sequence_adds_up_all_its_alignments():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(1, 5, 3)).astype(np.float32)
    labels = [1, 1]
    log_p = logits[0] - np.log(np.exp(logits[0]).sum(-1, keepdims=True))
    total = 0.0
    for path in itertools.product(range(3), repeat=5):
        if [c for c, _ in itertools.groupby(path) if c != 0] == labels:
            total += np.exp(sum(log_p[time, c] for time, c in enumerate(path)))
    loss = optim.ctc_loss(pnp.asarray(logits), pnp.zeros((1, 5)), pnp.asarray([labels]), pnp.zeros((1, 2)))
    np.testing.assert_allclose(np.asarray(loss), [-np.log(total)], rtol=1e-5)


def test_the_overlap_of_equal_regions_costs_nothing():
    targets = pnp.asarray(np.eye(3, dtype=np.float32)[np.array([[0, 1, 2, 2]])])
    np.testing.assert_allclose(np.asarray(optim.dice_loss(targets, targets, apply_softmax=False)), [0.0], atol=1e-6)
    with pytest.raises(ValueError, match="'mean', 'sum' or 'none', got 'max'"):
        optim.dice_loss(targets, targets, reduction="max")
