# SPDX-License-Identifier: Apache-2.0
"""`BCOO`: values and their coordinates, with batch axes in front and dense axes behind."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from purax import dtypes, errors, tree
from purax import numpy as pnp
from purax.experimental.sparse import arithmetic, bcoo_order, bcoo_shape
from purax.experimental.sparse.base import JAXSparse
from purax.experimental.sparse.layout import broadcast_to, columns, counted, in_bounds, over_batch, zeroed
from purax.tree import GetAttrKey

__all__ = ["BCOO", "bcoo_fromdense", "bcoo_todense"]


@tree.register_pytree_with_keys_class
class BCOO(JAXSparse):
    """Sparse array in the format "batched coordinates".

    The axes are, in this order, `n_batch` batch axes, `n_sparse` sparse axes and `n_dense` dense axes. For each place along the batch
    axes, `nse` blocks of the dense axes are stored, at coordinates along the sparse axes. Blocks of equal coordinates add up; blocks
    whose coordinates are out of bounds are padding and count as zero. A negative coordinate counts from the end of its axis.

    Parameters
    ----------
    args : (data, indices)
        `data`: [*batch, nse, *dense]; `indices`: int[*batch, nse, n_sparse]. Batch axes may have size 1 in one of them.
    shape : sequence of int
    indices_sorted, unique_indices : bool
        What is known of the indices: that their rows rise, that no row comes twice in a batch.

    Attributes
    ----------
    data, indices : array
    shape : tuple of int
    nse, n_batch, n_sparse, n_dense : int

    Examples
    --------
    >>> mat = BCOO.fromdense(pnp.array([[0, 2, 0], [1, 0, 3]]))
    >>> mat
    BCOO(int32[2, 3], nse=3)
    >>> (mat @ pnp.array([1, 1, 1])).tolist()
    [2, 4]
    """

    def __init__(
        self, args: Any, *, shape: Sequence[int], indices_sorted: bool = False, unique_indices: bool = False
    ) -> None:
        data, indices = (pnp.asarray(x) for x in args)
        shape = tuple(operator.index(n) for n in shape)
        if indices.ndim < 2 or not dtypes.issubdtype(indices.dtype, np.integer):
            raise errors.ShapeError(
                f"BCOO: indices must be integers [..., nse, n_sparse], got {indices.dtype}{list(indices.shape)}"
            )
        n = indices.ndim - 2
        tail = shape[n + indices.shape[-1] :]
        fits = data.ndim == n + 1 + len(tail) and data.shape[n:] == (indices.shape[n], *tail)
        batch = zip(shape[:n], data.shape[:n], indices.shape[:n], strict=True) if fits and len(shape) >= n else ()
        if (
            not fits
            or len(shape) < n + indices.shape[-1]
            or any(a not in {1, s} or b not in {1, s} for s, a, b in batch)
        ):
            raise errors.ShapeError(
                errors.explain(
                    f"BCOO of shape {shape} got data of shape {data.shape} and indices of shape {indices.shape}.",
                    "data are [*batch, nse, *dense], indices are [*batch, nse, n_sparse].",
                )
            )
        if tuple(np.broadcast_shapes(data.shape[:n], indices.shape[:n])) != shape[:n]:
            indices = broadcast_to(indices, (*shape[:n], *indices.shape[n:]))
        self.data, self.indices = data, indices
        self._tail = shape[n:]
        self.indices_sorted, self.unique_indices = bool(indices_sorted), bool(unique_indices)

    def make(self, args: Any, shape: Sequence[int], indices_sorted: bool = False, unique_indices: bool = False) -> BCOO:
        """A new array of this class."""
        return BCOO(args, shape=shape, indices_sorted=indices_sorted, unique_indices=unique_indices)

    # --- layout

    @property
    def n_batch(self) -> int:
        """Number of batch axes."""
        return self.indices.ndim - 2

    @property
    def n_sparse(self) -> int:
        """Number of sparse axes."""
        return self.indices.shape[-1]

    @property
    def n_dense(self) -> int:
        """Number of dense axes."""
        return len(self._tail) - self.n_sparse

    @property
    def nse(self) -> int:
        """Number of stored elements per batch."""
        return self.indices.shape[-2]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the dense array; batch axes have the size that they have in the buffers, so that `vmap` takes them away."""
        n = self.n_batch
        if n < 0:
            raise errors.ShapeError(
                "vmap can map the batch axes of a BCOO array only: use update_layout(n_batch=...) first"
            )
        return (*np.broadcast_shapes(self.data.shape[:n], self.indices.shape[:n]), *self._tail)

    @property
    def sparse_shape(self) -> tuple[int, ...]:
        """Sizes of the sparse axes."""
        return self._tail[: self.n_sparse]

    @property
    def dense_shape(self) -> tuple[int, ...]:
        """Sizes of the dense axes."""
        return self._tail[self.n_sparse :]

    def full(self) -> tuple[Any, Any]:
        """Data and coordinates with all batch axes written out."""
        batch, n = self.shape[: self.n_batch], self.n_batch
        return (
            broadcast_to(self.data, (*batch, *self.data.shape[n:])),
            broadcast_to(self.coordinates(), (*batch, *self.indices.shape[n:])),
        )

    def coordinates(self) -> Any:
        """The indices, counted from the start."""
        return counted(self.indices, self.sparse_shape)

    def _layout(self) -> str:
        parts = {"n_batch": self.n_batch, "n_dense": self.n_dense}
        _ = self.shape
        if self.data.ndim != self.n_batch + 1 + self.n_dense:
            raise ValueError("the buffers do not fit each other")
        return "".join(f", {name}={n}" for name, n in parts.items() if n)

    def tree_flatten(self) -> Any:
        """Buffers; what is static."""
        return (self.data, self.indices), (self._tail, self.indices_sorted, self.unique_indices)

    def tree_flatten_with_keys(self) -> Any:
        """As `tree_flatten`, with the names of the buffers."""
        (data, indices), static = self.tree_flatten()
        return ((GetAttrKey("data"), data), (GetAttrKey("indices"), indices)), static

    @classmethod
    def tree_unflatten(cls, static: Any, children: Any) -> BCOO:
        """The array of any two objects."""
        new = object.__new__(cls)
        new.data, new.indices = children
        new._tail, new.indices_sorted, new.unique_indices = static
        return new

    # --- conversions

    @classmethod
    def fromdense(
        cls, mat: Any, *, nse: int | None = None, index_dtype: Any = np.int32, n_dense: int = 0, n_batch: int = 0
    ) -> BCOO:
        """Store the nonzero elements of an array; see `bcoo_fromdense`."""
        return bcoo_fromdense(mat, nse=nse, index_dtype=index_dtype, n_dense=n_dense, n_batch=n_batch)

    @classmethod
    def from_scipy_sparse(cls, mat: Any, *, index_dtype: Any = None, n_dense: int = 0, n_batch: int = 0) -> BCOO:
        """Take over a matrix of `scipy.sparse`."""
        if n_dense or n_batch:
            raise NotImplementedError("BCOO.from_scipy_sparse: batch and dense axes; use update_layout")
        coo = mat.tocoo()
        indices = np.stack([coo.row, coo.col], axis=-1).astype(index_dtype or coo.row.dtype)
        return cls((coo.data, indices), shape=coo.shape)

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
    ) -> BCOO:
        shape = tuple(operator.index(n) for n in shape)
        sparse = shape[n_batch : len(shape) - n_dense]
        data = pnp.zeros((*shape[:n_batch], nse, *shape[len(shape) - n_dense :]), dtype)
        outside = np.broadcast_to(np.asarray(sparse, index_dtype), (*shape[:n_batch], nse, len(sparse)))
        return cls((data, outside), shape=shape, indices_sorted=True, unique_indices=True)

    @classmethod
    def _eye(
        cls,
        N: int,
        M: int,
        k: int,
        *,
        dtype: Any = None,
        index_dtype: Any = np.int32,
        n_dense: int = 0,
        n_batch: int = 0,
    ) -> BCOO:
        row = np.arange(max(-k, 0), max(min(N, M - k), max(-k, 0)))
        mat = cls(
            (pnp.ones(row.size, dtype), np.stack([row, row + k], -1).astype(index_dtype)),
            shape=(N, M),
            unique_indices=True,
        )
        if not n_batch and not n_dense:
            mat.indices_sorted = True
            return mat
        return bcoo_fromdense(mat.todense(), n_batch=n_batch, n_dense=n_dense, index_dtype=index_dtype)

    def todense(self) -> Any:
        """The array with its zeros written out."""
        return bcoo_todense(self)

    # --- methods of arrays

    def transpose(self, axes: Sequence[int] | None = None) -> BCOO:
        """Permute axes of one kind among themselves."""
        order = tuple(range(self.ndim))[::-1] if axes is None else axes
        return bcoo_shape.bcoo_transpose(self, permutation=order)

    def reshape(self, *shape: Any) -> BCOO:
        """Reshape axes of one kind among themselves; one size may be -1."""
        sizes = list(shape[0] if len(shape) == 1 and not hasattr(shape[0], "__index__") else shape)
        if -1 in sizes:
            rest = int(np.prod([n for n in sizes if n != -1], dtype=np.int64))
            sizes[sizes.index(-1)] = self.size // max(rest, 1)
        return bcoo_shape.bcoo_reshape(self, new_sizes=sizes)

    def sum(self, axis: Any = None) -> Any:
        """Sum over axes; dense where no axis is left."""
        axes = range(self.ndim) if axis is None else [axis] if hasattr(axis, "__index__") else axis
        out = bcoo_shape.bcoo_reduce_sum(self, axes=tuple(axes))
        return out if out.ndim else out.todense()

    def astype(self, dtype: Any) -> BCOO:
        """The array with its values cast."""
        return arithmetic.on_values(self, lambda x: x.astype(dtype))

    def sort_indices(self) -> BCOO:
        """Sort the stored elements; see `bcoo_sort_indices`."""
        return bcoo_order.bcoo_sort_indices(self)

    def sum_duplicates(self, nse: int | None = None, remove_zeros: bool = True) -> BCOO:
        """Merge elements of equal coordinates; see `bcoo_sum_duplicates`."""
        return bcoo_order.bcoo_sum_duplicates(self, nse=nse, remove_zeros=remove_zeros)

    def update_layout(
        self, *, n_batch: int | None = None, n_dense: int | None = None, on_inefficient: str | None = "error"
    ) -> BCOO:
        """Change the numbers of batch and dense axes; see `bcoo_update_layout`."""
        return bcoo_order.bcoo_update_layout(self, n_batch=n_batch, n_dense=n_dense, on_inefficient=on_inefficient)

    def __getitem__(self, index: Any) -> BCOO:
        return bcoo_shape.bcoo_gather(self, index)

    def __iter__(self) -> Any:
        return iter([self[i] for i in range(len(self))])

    def __neg__(self) -> BCOO:
        return arithmetic.on_values(self, lambda x: -x)

    def __pos__(self) -> BCOO:
        return self

    def __abs__(self) -> BCOO:
        return arithmetic.on_merged(self, abs)

    def __add__(self, other: Any) -> Any:
        return arithmetic.add(self, other)

    def __radd__(self, other: Any) -> Any:
        return arithmetic.add(self, other)

    def __sub__(self, other: Any) -> Any:
        return arithmetic.add(self, -other)

    def __rsub__(self, other: Any) -> Any:
        return arithmetic.add(-self, other)

    def __mul__(self, other: Any) -> Any:
        return arithmetic.multiply(self, other)

    def __rmul__(self, other: Any) -> Any:
        return arithmetic.multiply(self, other)

    def __truediv__(self, other: Any) -> Any:
        return arithmetic.divide(self, other)

    def __pow__(self, exponent: Any) -> Any:
        return arithmetic.power(self, exponent)

    def __matmul__(self, other: Any) -> Any:
        return arithmetic.matmul(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return arithmetic.matmul(other, self)


def bcoo_todense(mat: BCOO) -> Any:
    """Write out the zeros of a sparse array.

    Parameters
    ----------
    mat : BCOO

    Returns
    -------
    array
        Of the shape of `mat`.
    """
    sizes = mat.sparse_shape

    def one(data: Any, indices: Any) -> Any:
        if not sizes:
            return data.sum(0, dtype=data.dtype)
        data = zeroed(data, in_bounds(indices, sizes))
        return pnp.zeros((*sizes, *mat.dense_shape), data.dtype).at[columns(indices)].add(data, mode="drop")

    return over_batch(one, mat.shape[: mat.n_batch], mat.data, mat.coordinates())


def bcoo_fromdense(
    mat: Any, *, nse: int | None = None, n_batch: int = 0, n_dense: int = 0, index_dtype: Any = np.int32
) -> BCOO:
    """Store the nonzero elements of an array.

    Parameters
    ----------
    mat : array
    nse : int, optional
        Number of elements to store, or of blocks of the dense axes; those beyond it are dropped. The most that a batch holds if left
        out, which needs a concrete array.
    n_batch, n_dense : int
        How many of the first axes are batch axes, and of the last ones dense axes.
    index_dtype : dtype

    Returns
    -------
    BCOO

    Raises
    ------
    ConcretizationTypeError
        `nse` is left out under a transformation that does not know the values.
    ValueError
        More batch and dense axes than there are axes.
    """
    mat = pnp.asarray(mat)
    if n_batch < 0 or n_dense < 0 or n_batch + n_dense > mat.ndim:
        raise ValueError(
            f"bcoo_fromdense: an array with {mat.ndim} axes cannot have {n_batch} batch and {n_dense} dense axes"
        )
    dense = tuple(range(mat.ndim - n_dense, mat.ndim))
    stored = (mat != 0).any(dense)
    sparse = stored.shape[n_batch:]
    if nse is None:
        nse = count_stored(mat, n_batch, n_dense)
    nse = operator.index(nse)

    def one(stored: Any, mat: Any) -> tuple[Any, Any]:
        if not sparse:
            data = broadcast_to(mat[None], (nse, *mat.shape))
            return zeroed(data, pnp.arange(nse) == 0), pnp.zeros((nse, 0), index_dtype)
        found = pnp.nonzero(stored, size=nse, fill_value=tuple(sparse))
        places = [p.astype(index_dtype) for p in found]
        return mat.at[tuple(places)].get(mode="fill", fill_value=0), pnp.stack(places, axis=-1)

    outs = over_batch(one, mat.shape[:n_batch], stored, mat)
    return BCOO(outs, shape=mat.shape, indices_sorted=True, unique_indices=True)


def count_stored(mat: Any, n_batch: int, n_dense: int) -> int:
    """The most nonzero blocks that a batch of a concrete array holds."""
    stored = (mat != 0).any(tuple(range(mat.ndim - n_dense, mat.ndim)))
    counts = stored.sum(tuple(range(n_batch, stored.ndim)))
    if counts.size == 0:
        return 0
    try:
        return int(counts.max())
    except errors.ConcretizationTypeError:
        raise errors.ConcretizationTypeError(
            errors.explain(
                "fromdense: the number of nonzero elements is not known while it is traced.",
                "The shape of the result depends on it.",
                "Give nse=, an upper bound.",
            )
        ) from None
