# SPDX-License-Identifier: Apache-2.0
"""The names of `jax.interpreters.batching` that purax has."""

from purax.transforms.defined import (
    axis_primitive_batchers,
    bdim_at_front,
    defbroadcasting,
    defvectorized,
    fancy_primitive_batchers,
    primitive_batchers,
)

__all__ = [
    "axis_primitive_batchers", "bdim_at_front", "defbroadcasting", "defvectorized", "fancy_primitive_batchers", "not_mapped",
    "primitive_batchers",
]  # fmt: skip

not_mapped = None  # the axis of an operand that has none
