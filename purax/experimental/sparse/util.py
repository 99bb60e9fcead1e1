# SPDX-License-Identifier: Apache-2.0
"""Names that users of sparse arrays look for beside the formats."""

from purax.experimental.sparse.base import CuSparseEfficiencyWarning, SparseEfficiencyError, SparseEfficiencyWarning

__all__ = ["CuSparseEfficiencyWarning", "SparseEfficiencyError", "SparseEfficiencyWarning"]
