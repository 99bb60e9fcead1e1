# SPDX-License-Identifier: Apache-2.0
import numpy as np

from purax import numpy as pnp
from purax.optim import second_order


def loss(params, inputs, targets):
    return pnp.mean((inputs @ params["w"] + params["b"] - targets) ** 2)


INPUTS = np.array([[1.0, 2.0], [3.0, -1.0], [0.5, 0.25]], np.float32)
TARGETS = np.array([1.0, 0.0, 2.0], np.float32)
PARAMS = {"b": np.float32(0.5), "w": np.array([0.3, -0.2], np.float32)}


def test_products_and_the_diagonal_agree_with_the_matrix():
    design = np.concatenate([np.ones((3, 1), np.float32), INPUTS], axis=1)
    matrix = 2 / 3 * design.T @ design
    params = {name: pnp.asarray(value) for name, value in PARAMS.items()}
    vector = np.array([1.0, -2.0, 0.5], np.float32)
    product = second_order.hvp(loss, pnp.asarray(vector), params, INPUTS, TARGETS)
    np.testing.assert_allclose(np.r_[float(product["b"]), np.asarray(product["w"])], matrix @ vector, rtol=1e-5)
    diagonal = second_order.hessian_diag(loss, params, INPUTS, TARGETS)
    np.testing.assert_allclose(np.asarray(diagonal), np.diag(matrix), rtol=1e-5)
    error = design @ np.r_[0.5, 0.3, -0.2] - TARGETS
    fisher = second_order.fisher_diag(loss, params, INPUTS, TARGETS)
    np.testing.assert_allclose(np.asarray(fisher), (2 / 3 * design.T @ error) ** 2, rtol=1e-5)
