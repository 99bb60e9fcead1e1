# SPDX-License-Identifier: Apache-2.0
import numpy as np

import purax
from purax.primitives.stop_gradient import stop_gradient, stop_gradient_p
from tests.laws.sample import Sample

SAMPLES = [Sample(stop_gradient_p, (np.array([1.5, -2.0], np.float32),), differentiable=())]


def test_no_derivative_of_any_order_passes_in_either_mode():
    def f(x):
        return stop_gradient(x) * x

    x = np.float32(3.0)
    assert purax.grad(f)(x) == 3.0
    assert purax.jvp(f, (x,), (np.float32(1.0),))[1] == 3.0
    assert purax.grad(purax.grad(f))(x) == 0.0


def test_integers_and_trees_pass_unchanged():
    assert stop_gradient({"a": 1, "b": [2.0]}) == {"a": 1, "b": [2.0]}
