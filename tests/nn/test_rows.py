# SPDX-License-Identifier: Apache-2.0
"""Samples of the activations that are primitives, and what they do at the edges."""

import numpy as np
import pytest

import purax
from purax import errors, nn
from purax.nn.rows import gelu_exact_p, gelu_p, relu6_p, relu_p, silu_p, softplus_p
from purax.nn.softmax import log_softmax_p, softmax_p
from tests.laws.sample import BadSample, Sample

RNG = np.random.default_rng(5)
X = (RNG.standard_normal((3, 4)) * 3).astype(np.float32)

SAMPLES = [
    *(Sample(p, (X,)) for p in (relu_p, relu6_p, softplus_p, silu_p, gelu_p, gelu_exact_p)),
    *(Sample(p, (X.astype(np.float16),)) for p in (relu_p, silu_p, gelu_p)),
    Sample(relu_p, (np.array([-3, 0, 4], np.int32),)),
    Sample(softmax_p, (X,), {"axes": (1,)}),
    Sample(softmax_p, (X,), {"axes": (0, 1)}),
    Sample(log_softmax_p, (X,), {"axes": (0,)}),
    Sample(log_softmax_p, (X.reshape(3, 2, 2),), {"axes": (1, 2)}),
]
BAD_SAMPLES = [
    BadSample(gelu_p, (np.arange(3, dtype=np.int32),), {}, errors.DTypeError, "real floating"),
    BadSample(softmax_p, (np.arange(3, dtype=np.int32),), {"axes": (0,)}, errors.DTypeError, "real floating"),
]


def test_the_slope_of_relu_is_zero_at_zero():
    assert purax.grad(nn.relu)(0.0) == 0
    assert purax.grad(nn.relu)(np.float32(1e-30)) == 1
    assert purax.grad(nn.relu6)(0.0) == purax.grad(nn.relu6)(6.0) == 0


@pytest.mark.parametrize("name, slopes", [("softplus", (0, 1)), ("silu", (0, 1)), ("gelu", (0, 1))])
def test_slopes_far_out_are_those_of_the_limits(name, slopes):
    for x, want in zip((-1e4, 1e4), slopes, strict=True):
        assert float(purax.grad(getattr(nn, name))(x)) == want
    if name == "gelu":
        assert [float(purax.grad(lambda x: nn.gelu(x, approximate=False))(x)) for x in (-1e4, 1e4)] == [0, 1]


def test_nan_goes_through():
    for f in (nn.relu, nn.relu6, nn.softplus, nn.silu, nn.gelu):
        assert np.isnan(f(np.nan))
