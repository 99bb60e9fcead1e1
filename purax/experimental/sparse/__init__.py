# SPDX-License-Identifier: Apache-2.0
"""Sparse arrays: `BCOO` and `BCSR` in all transformations, `COO`, `CSR` and `CSC` for matrices, and `sparsify`.

They are pytrees of their buffers, so that they pass through `jit`, `vmap` (over batch axes), `scan` and the rest. `grad` and its
relatives of this module differentiate by the stored values.
"""

import importlib as _importlib
from typing import Any as _Any

from purax.experimental.sparse import bcoo, bcsr, transform, util
from purax.experimental.sparse.base import (
    CuSparseEfficiencyWarning,
    JAXSparse,
    SparseEfficiencyError,
    SparseEfficiencyWarning,
)
from purax.experimental.sparse.bcoo import BCOO, bcoo_fromdense, bcoo_todense
from purax.experimental.sparse.bcoo_order import (
    bcoo_extract,
    bcoo_sort_indices,
    bcoo_sum_duplicates,
    bcoo_update_layout,
)
from purax.experimental.sparse.bcoo_product import (
    bcoo_conv_general_dilated,
    bcoo_dot_general,
    bcoo_dot_general_sampled,
    bcoo_multiply_dense,
    bcoo_multiply_sparse,
)
from purax.experimental.sparse.bcoo_shape import (
    bcoo_broadcast_in_dim,
    bcoo_concatenate,
    bcoo_dynamic_slice,
    bcoo_gather,
    bcoo_reduce_sum,
    bcoo_reshape,
    bcoo_rev,
    bcoo_slice,
    bcoo_squeeze,
    bcoo_transpose,
)
from purax.experimental.sparse.bcsr import (
    BCSR,
    bcsr_broadcast_in_dim,
    bcsr_concatenate,
    bcsr_dot_general,
    bcsr_extract,
    bcsr_fromdense,
    bcsr_todense,
)
from purax.experimental.sparse.creation import empty, eye, random_bcoo
from purax.experimental.sparse.derivative import grad, jacfwd, jacobian, jacrev, value_and_grad
from purax.experimental.sparse.matrices import (
    COO,
    CSC,
    CSR,
    coo_fromdense,
    coo_matmat,
    coo_matvec,
    coo_todense,
    csr_fromdense,
    csr_matmat,
    csr_matvec,
    csr_todense,
)
from purax.experimental.sparse.transform import SparseTracer, sparsify, todense

__all__ = [
    "BCOO", "BCSR", "COO", "CSC", "CSR", "CuSparseEfficiencyWarning", "JAXSparse", "SparseEfficiencyError",
    "SparseEfficiencyWarning", "SparseTracer", "bcoo", "bcoo_broadcast_in_dim", "bcoo_concatenate", "bcoo_conv_general_dilated",
    "bcoo_dot_general", "bcoo_dot_general_sampled", "bcoo_dynamic_slice", "bcoo_extract", "bcoo_fromdense", "bcoo_gather",
    "bcoo_multiply_dense", "bcoo_multiply_sparse", "bcoo_reduce_sum", "bcoo_reshape", "bcoo_rev", "bcoo_slice", "bcoo_sort_indices",
    "bcoo_squeeze", "bcoo_sum_duplicates", "bcoo_todense", "bcoo_transpose", "bcoo_update_layout", "bcsr", "bcsr_broadcast_in_dim",
    "bcsr_concatenate", "bcsr_dot_general", "bcsr_extract", "bcsr_fromdense", "bcsr_todense", "coo_fromdense", "coo_matmat",
    "coo_matvec", "coo_todense", "csr_fromdense", "csr_matmat", "csr_matvec", "csr_todense", "empty", "eye", "grad", "jacfwd",
    "jacobian", "jacrev", "random_bcoo", "sparsify", "todense", "transform", "util", "value_and_grad",
]  # fmt: skip


def __getattr__(name: str) -> _Any:
    if name == "test_util":  # tests alone need it
        return _importlib.import_module("purax.experimental.sparse.test_util")
    raise AttributeError(f"module 'purax.experimental.sparse' has no attribute {name!r}")
