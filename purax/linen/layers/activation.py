# SPDX-License-Identifier: Apache-2.0
"""The activation functions of `purax.nn` under the layer library's names, and PReLU."""

from __future__ import annotations

from typing import Any

from purax import numpy as pnp
from purax.linen.declare import compact
from purax.linen.module import Module
from purax.nn import (
    celu,
    elu,
    gelu,
    glu,
    hard_sigmoid,
    hard_silu,
    hard_swish,
    hard_tanh,
    leaky_relu,
    log_sigmoid,
    log_softmax,
    logsumexp,
    one_hot,
    relu,
    relu6,
    selu,
    sigmoid,
    silu,
    soft_sign,
    softmax,
    softplus,
    standardize,
    swish,
)
from purax.numpy import tanh

__all__ = [
    "PReLU",
    "celu",
    "elu",
    "gelu",
    "glu",
    "hard_sigmoid",
    "hard_silu",
    "hard_swish",
    "hard_tanh",
    "leaky_relu",
    "log_sigmoid",
    "log_softmax",
    "logsumexp",
    "normalize",
    "one_hot",
    "relu",
    "relu6",
    "selu",
    "sigmoid",
    "silu",
    "soft_sign",
    "softmax",
    "softplus",
    "standardize",
    "swish",
    "tanh",
]

normalize = standardize


class PReLU(Module):
    """`x` where it is not negative, `slope * x` elsewhere, with a learned slope.

    Parameters
    ----------
    param_dtype : dtype
        Dtype of the slope.
    negative_slope_init : float
        First value of the slope.
    """

    param_dtype: Any = pnp.float32
    negative_slope_init: float = 0.01

    @compact
    def __call__(self, inputs: Any) -> Any:
        """Apply to each element of `inputs`."""
        slope = self.param("negative_slope", lambda key: pnp.asarray(self.negative_slope_init, self.param_dtype))
        return pnp.where(inputs >= 0, inputs, pnp.asarray(slope, inputs.dtype) * inputs)
