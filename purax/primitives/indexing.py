# SPDX-License-Identifier: Apache-2.0
"""The indexing family under one name: dynamic slices, gather, scatter, and the static slices of `joining`."""

from purax.primitives.gather import (
    GatherDimensionNumbers,
    GatherScatterMode,
    gather,
    gather_p,
    index_take,
)
from purax.primitives.joining import (
    index_in_dim,
    slice,
    slice_in_dim,
    slice_p,
)
from purax.primitives.scatter import (
    ScatterDimensionNumbers,
    scatter,
    scatter_add,
    scatter_add_p,
    scatter_max,
    scatter_max_p,
    scatter_min,
    scatter_min_p,
    scatter_mul,
    scatter_mul_p,
    scatter_p,
    scatter_sub,
    scatter_sub_p,
)
from purax.primitives.scatter_apply import scatter_apply, scatter_apply_p
from purax.primitives.slicing import (
    dynamic_index_in_dim,
    dynamic_slice,
    dynamic_slice_in_dim,
    dynamic_slice_p,
    dynamic_update_index_in_dim,
    dynamic_update_slice,
    dynamic_update_slice_in_dim,
    dynamic_update_slice_p,
)

__all__ = [
    "GatherDimensionNumbers",
    "GatherScatterMode",
    "ScatterDimensionNumbers",
    "dynamic_index_in_dim",
    "dynamic_slice",
    "dynamic_slice_in_dim",
    "dynamic_slice_p",
    "dynamic_update_index_in_dim",
    "dynamic_update_slice",
    "dynamic_update_slice_in_dim",
    "dynamic_update_slice_p",
    "gather",
    "gather_p",
    "index_in_dim",
    "index_take",
    "scatter",
    "scatter_add",
    "scatter_add_p",
    "scatter_apply",
    "scatter_apply_p",
    "scatter_max",
    "scatter_max_p",
    "scatter_min",
    "scatter_min_p",
    "scatter_mul",
    "scatter_mul_p",
    "scatter_p",
    "scatter_sub",
    "scatter_sub_p",
    "slice",
    "slice_in_dim",
    "slice_p",
]
