# SPDX-License-Identifier: Apache-2.0
"""Iterative solvers: `purax.scipy.sparse.linalg`."""

from purax.scipy.sparse import linalg

__all__ = ["linalg"]
