# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from purax import numpy as pnp
from purax import optim
from purax.transforms.grad import grad


def apply(tx, updates, params=None):
    return tx.update(updates, tx.init(params if params is not None else updates), params)[0]


@pytest.mark.parametrize("max_norm", [0.0, 1.0])
def test_clipping_zero_gradients_by_norm_gives_zeros(max_norm):
    # The case of optax PR#1752: 0 / 0 must not appear, not even for the norm 0.
    clipped = apply(optim.clip_by_global_norm(max_norm), {"w": pnp.zeros(3), "b": pnp.zeros(())})
    np.testing.assert_array_equal(np.asarray(clipped["w"]), np.zeros(3))
    assert float(clipped["b"]) == 0.0


def test_the_norm_zero_silences_all_gradients():
    np.testing.assert_array_equal(np.asarray(apply(optim.clip_by_global_norm(0.0), pnp.ones(3))), np.zeros(3))


def test_gradients_below_the_limit_pass_bit_for_bit_and_longer_ones_are_cut_to_it():
    short = pnp.asarray([0.3, 0.4])
    np.testing.assert_array_equal(np.asarray(apply(optim.clip_by_global_norm(0.6), short)), np.asarray(short))
    np.testing.assert_allclose(np.asarray(apply(optim.clip_by_global_norm(0.05), short)), [0.03, 0.04], rtol=1e-6)


def test_the_norm_of_large_half_precision_gradients_is_finite():
    gradients = pnp.full((4,), 300.0, pnp.float16)  # squares overflow float16
    assert float(optim.global_norm(gradients)) == 600.0
    clipped = apply(optim.clip_by_global_norm(1.0), gradients)
    assert clipped.dtype == pnp.float16
    np.testing.assert_allclose(np.asarray(clipped, np.float32), 0.5, rtol=1e-3)


def test_the_safe_norm_has_a_gradient_at_zero():
    slope = grad(lambda x: optim.safe_norm(x, 1e-3))(pnp.zeros(3))
    np.testing.assert_array_equal(np.asarray(slope), np.zeros(3))
    slope = grad(lambda x: optim.safe_root_mean_squares(x, 1e-3))(pnp.zeros(3))
    np.testing.assert_array_equal(np.asarray(slope), np.zeros(3))


def test_each_unit_is_clipped_by_the_norm_of_its_own_weights():
    params = pnp.asarray([[1.0, 10.0], [0.0, 0.0]])
    gradients = pnp.asarray([[3.0, 3.0], [4.0, 4.0]])
    clipped = np.asarray(apply(optim.adaptive_grad_clip(0.5), gradients, params))
    np.testing.assert_allclose(np.linalg.norm(clipped, axis=0), [0.5, 5.0], rtol=1e-5)


def test_unitwise_norms_ask_for_axes_of_high_ranks():
    with pytest.raises(ValueError, match=r"rank 5 .* needs axis="):
        optim.unitwise_norm(pnp.ones((2, 2, 2, 2, 2)))


def test_per_example_clipping_limits_each_example_before_adding():
    grads = {"w": pnp.asarray([[3.0, 4.0], [0.3, 0.4]])}
    total, clipped = optim.per_example_global_norm_clip(grads, 1.0)
    np.testing.assert_allclose(np.asarray(total["w"]), [0.9, 1.2], rtol=1e-6)
    assert int(clipped) == 1
    total, counts = optim.per_example_layer_norm_clip({"w": grads["w"], "v": grads["w"]}, np.sqrt(2.0))
    np.testing.assert_allclose(np.asarray(total["v"]), [0.9, 1.2], rtol=1e-6)
    assert int(counts["w"]) == 1
    with pytest.raises(ValueError, match="one leading batch axis"):
        optim.per_example_global_norm_clip([pnp.ones(2), pnp.ones(3)], 1.0)
