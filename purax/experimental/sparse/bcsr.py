# SPDX-License-Identifier: Apache-2.0
"""`BCSR`: rows compressed, with batch axes in front and dense axes behind. Its operations are those of `BCOO`."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from purax import errors, tree
from purax import numpy as pnp
from purax.experimental.sparse import arithmetic
from purax.experimental.sparse.base import JAXSparse
from purax.experimental.sparse.bcoo import BCOO, bcoo_fromdense
from purax.experimental.sparse.bcoo_order import bcoo_extract
from purax.experimental.sparse.bcoo_product import bcoo_dot_general
from purax.experimental.sparse.bcoo_shape import bcoo_broadcast_in_dim, bcoo_concatenate
from purax.experimental.sparse.layout import over_batch
from purax.tree import GetAttrKey

__all__ = [
    "BCSR", "bcsr_broadcast_in_dim", "bcsr_concatenate", "bcsr_dot_general", "bcsr_extract", "bcsr_fromdense", "bcsr_todense",
]  # fmt: skip


@tree.register_pytree_with_keys_class
class BCSR(JAXSparse):
    """Sparse array in the format "batched compressed sparse rows".

    The axes are batch axes, two sparse axes and dense axes. The stored elements of a batch stand row by row.

    Parameters
    ----------
    args : (data, indices, indptr)
        `data`: [*batch, nse, *dense]; `indices`: int[*batch, nse], columns; `indptr`: int[*batch, rows + 1], where each row begins.
        Elements behind the last row are padding.
    shape : sequence of int
    indices_sorted, unique_indices : bool
        As for `BCOO`.

    Examples
    --------
    >>> BCSR.fromdense(pnp.array([[0, 2, 0], [1, 0, 3]])).indptr.tolist()
    [0, 1, 3]
    """

    n_sparse = 2

    def __init__(
        self, args: Any, *, shape: Sequence[int], indices_sorted: bool = False, unique_indices: bool = False
    ) -> None:
        data, indices, indptr = (pnp.asarray(x) for x in args)
        shape = tuple(operator.index(n) for n in shape)
        n = indices.ndim - 1
        fits = n >= 0 and len(shape) >= n + 2 and indptr.ndim == n + 1 and data.ndim == len(shape) - 1
        if not fits or data.shape[n:] != (indices.shape[n], *shape[n + 2 :]) or indptr.shape[n] != shape[n] + 1:
            raise errors.ShapeError(
                errors.explain(
                    f"BCSR of shape {shape} got data, indices and indptr of shapes {data.shape}, {indices.shape} and {indptr.shape}.",
                    "data are [*batch, nse, *dense], indices [*batch, nse], indptr [*batch, rows + 1].",
                )
            )
        self.data, self.indices, self.indptr = data, indices, indptr
        self._tail = shape[n:]
        self.indices_sorted, self.unique_indices = bool(indices_sorted), bool(unique_indices)

    @property
    def n_batch(self) -> int:
        """Number of batch axes."""
        return self.indices.ndim - 1

    @property
    def n_dense(self) -> int:
        """Number of dense axes."""
        return len(self._tail) - 2

    @property
    def nse(self) -> int:
        """Number of stored elements per batch."""
        return self.indices.shape[-1]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the dense array."""
        n = self.n_batch
        if n < 0:
            raise errors.ShapeError("vmap can map the batch axes of a BCSR array only")
        return (*np.broadcast_shapes(self.data.shape[:n], self.indices.shape[:n], self.indptr.shape[:n]), *self._tail)

    def _layout(self) -> str:
        parts = {"n_batch": self.n_batch, "n_dense": self.n_dense}
        return "".join(f", {name}={n}" for name, n in parts.items() if n)

    def tree_flatten(self) -> Any:
        """Buffers; what is static."""
        return (self.data, self.indices, self.indptr), (self._tail, self.indices_sorted, self.unique_indices)

    def tree_flatten_with_keys(self) -> Any:
        """As `tree_flatten`, with the names of the buffers."""
        children, static = self.tree_flatten()
        names = ("data", "indices", "indptr")
        return tuple([(GetAttrKey(k), x) for k, x in zip(names, children, strict=True)]), static

    @classmethod
    def tree_unflatten(cls, static: Any, children: Any) -> BCSR:
        """The array of any three objects."""
        new = object.__new__(cls)
        new.data, new.indices, new.indptr = children
        new._tail, new.indices_sorted, new.unique_indices = static
        return new

    # --- conversions

    @classmethod
    def fromdense(
        cls, mat: Any, *, nse: int | None = None, index_dtype: Any = np.int32, n_dense: int = 0, n_batch: int = 0
    ) -> BCSR:
        """Store the nonzero elements of an array; see `bcsr_fromdense`."""
        return bcsr_fromdense(mat, nse=nse, index_dtype=index_dtype, n_dense=n_dense, n_batch=n_batch)

    @classmethod
    def from_bcoo(cls, mat: BCOO) -> BCSR:
        """Compress the rows of an array with two sparse axes."""
        if mat.n_sparse != 2:
            raise ValueError(f"BCSR.from_bcoo: {mat!r} has {mat.n_sparse} sparse axes, not 2")
        mat = mat if mat.indices_sorted else mat.sort_indices()
        rows = mat.sparse_shape[0]
        data, indices = mat.full()

        def starts(row: Any) -> Any:
            return pnp.searchsorted(row, pnp.arange(rows + 1, dtype=row.dtype)).astype(row.dtype)

        indptr = over_batch(starts, mat.shape[: mat.n_batch], indices[..., 0])
        return cls(
            (data, indices[..., 1], indptr), shape=mat.shape, indices_sorted=True, unique_indices=mat.unique_indices
        )

    @classmethod
    def from_scipy_sparse(cls, mat: Any, *, index_dtype: Any = None, n_batch: int = 0, n_dense: int = 0) -> BCSR:
        """Take over a matrix of `scipy.sparse`."""
        if n_dense or n_batch:
            raise NotImplementedError("BCSR.from_scipy_sparse: batch and dense axes")
        csr = mat.tocsr()
        dtype = index_dtype or csr.indices.dtype
        return cls((csr.data, csr.indices.astype(dtype), csr.indptr.astype(dtype)), shape=csr.shape)

    @classmethod
    def _empty(
        cls,
        shape: Sequence[int],
        *,
        dtype: Any = None,
        index_dtype: Any = np.int32,
        n_dense: int = 0,
        n_batch: int = 0,
        nse: int = 0,
    ) -> BCSR:
        return cls.from_bcoo(
            BCOO._empty(shape, dtype=dtype, index_dtype=index_dtype, n_dense=n_dense, n_batch=n_batch, nse=nse)
        )

    def to_bcoo(self) -> BCOO:
        """The same array with the coordinates written out."""
        rows, nse, batch = self._tail[0], self.nse, self.shape[: self.n_batch]

        def row_of(indptr: Any) -> Any:
            place = pnp.arange(nse, dtype=indptr.dtype)
            return pnp.where(place < indptr[-1], pnp.searchsorted(indptr, place, side="right") - 1, rows).astype(
                indptr.dtype
            )

        row = over_batch(row_of, batch, self.indptr)
        column = pnp.broadcast_to(self.indices, row.shape).astype(row.dtype)
        indices = pnp.stack([row, column], axis=-1)
        return BCOO(
            (self.data, indices),
            shape=self.shape,
            indices_sorted=self.indices_sorted,
            unique_indices=self.unique_indices,
        )

    def todense(self) -> Any:
        """The array with its zeros written out."""
        return self.to_bcoo().todense()

    # --- methods of arrays

    def transpose(self, axes: Sequence[int] | None = None) -> BCSR:
        """Permute axes of one kind among themselves."""
        return self.from_bcoo(self.to_bcoo().transpose(axes))

    def sum_duplicates(self, nse: int | None = None, remove_zeros: bool = True) -> BCSR:
        """Merge elements of equal coordinates; see `bcoo_sum_duplicates`."""
        return self.from_bcoo(self.to_bcoo().sum_duplicates(nse=nse, remove_zeros=remove_zeros))

    def on_values(self, fun: Any) -> BCSR:
        """Apply a linear function to the values."""
        return BCSR(
            (fun(self.data), self.indices, self.indptr), shape=self.shape, indices_sorted=self.indices_sorted,
            unique_indices=self.unique_indices,
        )  # fmt: skip

    def astype(self, dtype: Any) -> BCSR:
        """The array with its values cast."""
        return self.on_values(lambda x: x.astype(dtype))

    def __getitem__(self, index: Any) -> Any:
        return _compressed(self.to_bcoo()[index])

    def __neg__(self) -> BCSR:
        return self.on_values(lambda x: -x)

    def __pos__(self) -> BCSR:
        return self

    def __mul__(self, other: Any) -> Any:
        return _compressed(arithmetic.multiply(self.to_bcoo(), _coordinates(other)))

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        return _compressed(arithmetic.divide(self.to_bcoo(), other))

    def __add__(self, other: Any) -> Any:
        return _compressed(arithmetic.add(self.to_bcoo(), _coordinates(other)))

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return _compressed(arithmetic.add(self.to_bcoo(), -_coordinates(other)))

    def __matmul__(self, other: Any) -> Any:
        return _compressed(arithmetic.matmul(self.to_bcoo(), _coordinates(other)))

    def __rmatmul__(self, other: Any) -> Any:
        return _compressed(arithmetic.matmul(_coordinates(other), self.to_bcoo()))


def _coordinates(x: Any) -> Any:
    return x.to_bcoo() if isinstance(x, BCSR) else x


def _compressed(x: Any) -> Any:
    """A result as BCSR where it has two sparse axes."""
    return BCSR.from_bcoo(x) if isinstance(x, BCOO) and x.n_sparse == 2 else x


def bcsr_fromdense(
    mat: Any, *, nse: int | None = None, n_batch: int = 0, n_dense: int = 0, index_dtype: Any = np.int32
) -> BCSR:
    """Store the nonzero elements of an array whose axes are batch axes, two sparse axes and dense axes; as `bcoo_fromdense`.

    Parameters
    ----------
    mat : array
    nse, n_batch, n_dense, index_dtype
        As in `bcoo_fromdense`.

    Returns
    -------
    BCSR
    """
    return BCSR.from_bcoo(bcoo_fromdense(mat, nse=nse, n_batch=n_batch, n_dense=n_dense, index_dtype=index_dtype))


def bcsr_todense(mat: BCSR) -> Any:
    """Write out the zeros of a sparse array: an array of its shape and dtype."""
    return mat.todense()


def bcsr_extract(indices: Any, indptr: Any, mat: Any) -> Any:
    """Values of a dense array at the coordinates of a `BCSR`.

    Parameters
    ----------
    indices : int[*batch, nse]
    indptr : int[*batch, rows + 1]
    mat : array[*batch, rows, columns, *dense]

    Returns
    -------
    array[*batch, nse, *dense]
    """
    indices, indptr, mat = pnp.asarray(indices), pnp.asarray(indptr), pnp.asarray(mat)
    n = indices.ndim - 1
    data = pnp.zeros((*indices.shape, *mat.shape[n + 2 :]), mat.dtype)
    places = BCSR((data, indices, indptr), shape=mat.shape, unique_indices=True)
    return bcoo_extract(places.to_bcoo(), mat).data


def bcsr_dot_general(
    lhs: Any, rhs: Any, *, dimension_numbers: Any, precision: Any = None, preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Any:  # fmt: skip
    """Contract axes of a sparse array and a dense one; as `bcoo_dot_general`.

    Parameters
    ----------
    lhs, rhs : BCSR or array
    dimension_numbers, precision, preferred_element_type, out_sharding
        As in `bcoo_dot_general`.

    Returns
    -------
    array or BCOO
    """
    return bcoo_dot_general(
        _coordinates(lhs), _coordinates(rhs), dimension_numbers=dimension_numbers, precision=precision,
        preferred_element_type=preferred_element_type, out_sharding=out_sharding,
    )  # fmt: skip


def bcsr_concatenate(operands: Sequence[BCSR], *, dimension: int) -> BCSR:
    """Join sparse arrays along `dimension`, a batch or a sparse axis; as `bcoo_concatenate`."""
    return BCSR.from_bcoo(bcoo_concatenate([_coordinates(x) for x in operands], dimension=dimension))


def bcsr_broadcast_in_dim(
    mat: BCSR, *, shape: Sequence[int], broadcast_dimensions: Sequence[int], sharding: Any = None
) -> BCSR:
    """Repeat a sparse array along new batch or dense axes; as `bcoo_broadcast_in_dim`.

    Parameters
    ----------
    mat : BCSR
    shape, broadcast_dimensions, sharding
        As in `bcoo_broadcast_in_dim`.

    Returns
    -------
    BCSR
    """
    out = bcoo_broadcast_in_dim(
        mat.to_bcoo(), shape=shape, broadcast_dimensions=broadcast_dimensions, sharding=sharding
    )
    return BCSR.from_bcoo(out)
