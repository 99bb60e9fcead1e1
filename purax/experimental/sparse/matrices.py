# SPDX-License-Identifier: Apache-2.0
"""`COO`, `CSR` and `CSC`: matrices with two sparse axes, without batch or dense axes.

Parameters
----------
mat : COO or CSR[m, n]; array[m, n] to be stored
nse : int, optional
    Number of elements to store; all nonzero ones if left out, which needs a concrete array.
index_dtype : dtype
transpose : bool
    Take the transpose of `mat`.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from purax import numpy as pnp
from purax import tree
from purax.experimental.sparse.base import JAXSparse
from purax.experimental.sparse.bcoo import BCOO, bcoo_fromdense
from purax.experimental.sparse.bcsr import BCSR
from purax.tree import GetAttrKey

__all__ = [
    "COO", "CSC", "CSR", "coo_fromdense", "coo_matmat", "coo_matvec", "coo_todense", "csr_fromdense", "csr_matmat", "csr_matvec",
    "csr_todense",
]  # fmt: skip


class _Matrix(JAXSparse):
    """What the three have in common; a subclass names its buffers and turns itself into a `BCOO` and back."""

    _names: tuple[str, ...]

    def __init__(self, args: Any, *, shape: Sequence[int]) -> None:
        for name, x in zip(self._names, args, strict=True):
            setattr(self, name, pnp.asarray(x))
        self.shape = tuple(operator.index(n) for n in shape)
        if len(self.shape) != 2:
            raise ValueError(f"{type(self).__name__} is a matrix, got shape {self.shape}")

    @property
    def nse(self) -> int:
        """Number of stored elements."""
        return self.data.size

    def tree_flatten(self) -> Any:
        """Buffers; the shape."""
        return tuple([getattr(self, name) for name in self._names]), self.shape

    def tree_flatten_with_keys(self) -> Any:
        """As `tree_flatten`, with the names of the buffers."""
        return tuple([(GetAttrKey(name), getattr(self, name)) for name in self._names]), self.shape

    @classmethod
    def tree_unflatten(cls, shape: Any, children: Any) -> Any:
        """The matrix of any objects."""
        new = object.__new__(cls)
        for name, x in zip(cls._names, children, strict=True):
            setattr(new, name, x)
        new.shape = shape
        return new

    def to_bcoo(self) -> BCOO:
        """The same matrix as `BCOO`."""
        raise NotImplementedError

    @classmethod
    def from_bcoo(cls, mat: BCOO) -> Any:
        """A matrix of this format."""
        raise NotImplementedError

    @classmethod
    def fromdense(cls, mat: Any, *, nse: int | None = None, index_dtype: Any = np.int32) -> Any:
        """Store the nonzero elements of a matrix; `nse` must be given where it is traced."""
        return cls.from_bcoo(bcoo_fromdense(mat, nse=nse, index_dtype=index_dtype))

    @classmethod
    def _empty(cls, shape: Sequence[int], *, dtype: Any = None, index_dtype: Any = np.int32) -> Any:
        return cls.from_bcoo(BCOO._empty(shape, dtype=dtype, index_dtype=index_dtype))

    @classmethod
    def _eye(cls, N: int, M: int, k: int, *, dtype: Any = None, index_dtype: Any = np.int32) -> Any:
        return cls.from_bcoo(BCOO._eye(N, M, k, dtype=dtype, index_dtype=index_dtype))

    def todense(self) -> Any:
        """The matrix with its zeros written out."""
        return self.to_bcoo().todense()

    def astype(self, dtype: Any) -> Any:
        """The matrix with its values cast."""
        return self.from_bcoo(self.to_bcoo().astype(dtype))

    def __matmul__(self, other: Any) -> Any:
        return self.to_bcoo() @ other

    def __rmatmul__(self, other: Any) -> Any:
        return other @ self.to_bcoo()


@tree.register_pytree_with_keys_class
class COO(_Matrix):
    """Sparse matrix by coordinates.

    Parameters
    ----------
    args : (data, row, col)
        Each [nse]. Elements of equal coordinates add up; those out of bounds are padding.
    shape : (int, int)
    rows_sorted, cols_sorted : bool
        What is known of the order.
    """

    _names = ("data", "row", "col")
    row: Any
    col: Any

    def __init__(
        self, args: Any, *, shape: Sequence[int], rows_sorted: bool = False, cols_sorted: bool = False
    ) -> None:
        super().__init__(args, shape=shape)
        del rows_sorted, cols_sorted

    def to_bcoo(self) -> BCOO:
        """The same matrix as `BCOO`."""
        return BCOO((self.data, pnp.stack([self.row, self.col], axis=-1)), shape=self.shape)

    @classmethod
    def from_bcoo(cls, mat: BCOO) -> COO:
        """The coordinates in two vectors."""
        return cls((mat.data, mat.indices[:, 0], mat.indices[:, 1]), shape=mat.shape)

    def transpose(self, axes: Any = None) -> COO:
        """The transposed matrix; no values move."""
        return self if axes in {(0, 1)} else COO((self.data, self.col, self.row), shape=self.shape[::-1])


@tree.register_pytree_with_keys_class
class CSR(_Matrix):
    """Sparse matrix with compressed rows.

    Parameters
    ----------
    args : (data, indices, indptr)
        Values and columns [nse], and where each row begins [rows + 1].
    shape : (int, int)
    """

    _names = ("data", "indices", "indptr")
    indices: Any
    indptr: Any

    def to_bcoo(self) -> BCOO:
        """The same matrix as `BCOO`."""
        return BCSR((self.data, self.indices, self.indptr), shape=self.shape).to_bcoo()

    @classmethod
    def from_bcoo(cls, mat: BCOO) -> CSR:
        """The rows compressed."""
        rows = BCSR.from_bcoo(mat)
        return cls((rows.data, rows.indices, rows.indptr), shape=mat.shape)

    def transpose(self, axes: Any = None) -> Any:
        """The transposed matrix, by columns; no values move."""
        return self if axes in {(0, 1)} else CSC((self.data, self.indices, self.indptr), shape=self.shape[::-1])


@tree.register_pytree_with_keys_class
class CSC(_Matrix):
    """Sparse matrix with compressed columns.

    Parameters
    ----------
    args : (data, indices, indptr)
        Values and rows [nse], and where each column begins [columns + 1].
    shape : (int, int)
    """

    _names = ("data", "indices", "indptr")
    indices: Any
    indptr: Any

    def to_bcoo(self) -> BCOO:
        """The same matrix as `BCOO`."""
        return self.transpose().to_bcoo().T

    @classmethod
    def from_bcoo(cls, mat: BCOO) -> CSC:
        """The columns compressed."""
        rows = BCSR.from_bcoo(mat.T)
        return cls((rows.data, rows.indices, rows.indptr), shape=mat.shape)

    def transpose(self, axes: Any = None) -> Any:
        """The transposed matrix, by rows; no values move."""
        return self if axes in {(0, 1)} else CSR((self.data, self.indices, self.indptr), shape=self.shape[::-1])


def coo_fromdense(mat: Any, *, nse: int | None = None, index_dtype: Any = np.int32) -> COO:
    """Store the nonzero elements of a matrix by coordinates."""
    return COO.fromdense(mat, nse=nse, index_dtype=index_dtype)


def csr_fromdense(mat: Any, *, nse: int | None = None, index_dtype: Any = np.int32) -> CSR:
    """Store the nonzero elements of a matrix by rows."""
    return CSR.fromdense(mat, nse=nse, index_dtype=index_dtype)


def coo_todense(mat: COO) -> Any:
    """The matrix with its zeros written out."""
    return mat.todense()


def csr_todense(mat: CSR) -> Any:
    """The matrix with its zeros written out."""
    return mat.todense()


def coo_matvec(mat: COO, v: Any, transpose: bool = False) -> Any:
    """Product of a matrix, or its transpose, and a vector `v`: an array of shape [m], or [n]."""
    return (mat.T if transpose else mat) @ v


def csr_matvec(mat: CSR, v: Any, transpose: bool = False) -> Any:
    """Product of a matrix, or its transpose, and a vector `v`: an array of shape [m], or [n]."""
    return (mat.T if transpose else mat) @ v


def coo_matmat(mat: COO, B: Any, *, transpose: bool = False) -> Any:
    """Product of a matrix, or its transpose, and a dense matrix `B`: an array of shape [m, k], or [n, k]."""
    return (mat.T if transpose else mat) @ B


def csr_matmat(mat: CSR, B: Any, *, transpose: bool = False) -> Any:
    """Product of a matrix, or its transpose, and a dense matrix `B`: an array of shape [m, k], or [n, k]."""
    return (mat.T if transpose else mat) @ B
