# SPDX-License-Identifier: Apache-2.0
"""The names of `jax.interpreters.ad` that purax has."""

from purax.transforms.defined import (
    UndefinedPrimal,
    Zero,
    defbilinear,
    defjvp,
    deflinear,
    deflinear2,
    instantiate_zeros,
    is_undefined_primal,
    primitive_jvps,
    primitive_transposes,
)
from purax.transforms.jvp import JVPTrace, JVPTracer

__all__ = [
    "JVPTrace", "JVPTracer", "UndefinedPrimal", "Zero", "defbilinear", "defjvp", "deflinear", "deflinear2", "instantiate_zeros",
    "is_undefined_primal", "primitive_jvps", "primitive_transposes",
]  # fmt: skip
