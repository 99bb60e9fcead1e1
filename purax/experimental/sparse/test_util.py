# SPDX-License-Identifier: Apache-2.0
"""Helpers for tests of functions of sparse arrays: random ones, their layouts, and comparisons with dense arrays.

With `absl` installed `SparseTestCase` takes part in its parametrized tests.

Parameters
----------
rng : numpy.random.RandomState
rand_method : callable
    `rand_method(rng)(shape, dtype)` draws the values.
nse : float
    A number of elements, or a share below 1.
n_batch, n_dense, min_n_batch : int
post : callable
"""

from __future__ import annotations

import itertools
import math
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from purax import numpy as pnp
from purax import tree
from purax.control.jit import jit
from purax.control.staging import eval_shape
from purax.experimental.sparse.base import JAXSparse
from purax.experimental.sparse.bcoo import BCOO
from purax.experimental.sparse.bcoo_shape import bcoo_broadcast_in_dim, bcoo_concatenate
from purax.experimental.sparse.bcsr import BCSR
from purax.experimental.sparse.transform import todense
from purax.lazy import lazy
from purax.transforms.jacobian import jacfwd, jacrev
from purax.transforms.vmap import vmap

__all__ = [
    "MATMUL_TOL", "BatchedDotGeneralProperties", "SparseLayout", "SparseTestCase", "is_sparse", "iter_bcsr_layouts",
    "iter_sparse_layouts", "iter_subsets", "rand_bcoo", "rand_bcsr", "rand_sparse",
]  # fmt: skip

MATMUL_TOL = {np.float32: 1e-5, np.float64: 1e-10, np.complex64: 1e-5, np.complex128: 1e-10}
_TOLERANCES = {
    "float16": 1e-2,
    "bfloat16": 2e-2,
    "float32": 1e-6,
    "float64": 1e-15,
    "complex64": 1e-6,
    "complex128": 1e-15,
}


class BatchedDotGeneralProperties(NamedTuple):
    """Shapes and axes of one product."""

    lhs_shape: tuple[int, ...]
    rhs_shape: tuple[int, ...]
    n_batch: int
    n_dense: int
    dimension_numbers: Any


class SparseLayout(NamedTuple):
    """How many axes of a sparse array are of which kind."""

    n_batch: int
    n_dense: int
    n_sparse: int


def is_sparse(x: Any) -> bool:
    """Whether `x` is a sparse array."""
    return isinstance(x, JAXSparse)


def iter_subsets(s: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    """All subsets, the small ones first, as tuples in the order of the elements: an iterator of tuple."""
    return itertools.chain.from_iterable(itertools.combinations(s, n) for n in range(len(s) + 1))


def iter_sparse_layouts(shape: Sequence[int], min_n_batch: int = 0) -> Iterator[SparseLayout]:
    """All layouts of `BCOO` arrays of a shape."""
    for n_batch in range(min_n_batch, len(shape) + 1):
        for n_dense in range(len(shape) + 1 - n_batch):
            yield SparseLayout(n_batch, n_dense, len(shape) - n_batch - n_dense)


def iter_bcsr_layouts(shape: Sequence[int], min_n_batch: int = 0) -> Iterator[SparseLayout]:
    """All layouts of `BCSR` arrays of a shape."""
    return (layout for layout in iter_sparse_layouts(shape, min_n_batch) if layout.n_sparse == 2)


# --- random arrays ------------------------------------------------------------------------------------------------------------


def _normal(rng: Any) -> Callable[..., Any]:
    def draw(shape: Sequence[int], dtype: Any) -> Any:
        dtype = np.dtype(dtype)
        values = 3 * rng.randn(*shape)
        if dtype.kind == "c":
            values = values + 3j * rng.randn(*shape)
        return np.asarray(np.abs(values) if dtype.kind == "u" else values).astype(dtype)

    return draw


def rand_sparse(
    rng: Any, nse: float = 0.5, post: Callable[[Any], Any] = lambda x: x, rand_method: Callable[..., Any] = _normal
) -> Callable[..., Any]:
    """Draws of dense arrays with zeros: `(shape, dtype, nse) -> post(array)`; `nse` is a number of elements, or a share below 1."""

    def draw(shape: Sequence[int], dtype: Any, nse: float = nse) -> Any:
        size = math.prod(shape)
        count = min(size, int(nse * size if 0 <= nse < 1 else nse))
        values = np.array(rand_method(rng)(shape, dtype))
        values.reshape(-1)[rng.choice(size, size - count, replace=False)] = 0
        return post(values)

    return draw


def rand_bcoo(
    rng: Any, rand_method: Callable[..., Any] = _normal, nse: float = 0.5, n_batch: int = 0, n_dense: int = 0
) -> Callable[..., BCOO]:
    """Draws of `BCOO` arrays whose indices may repeat: `(shape, dtype, n_batch, n_dense) -> BCOO`."""

    def draw(shape: Sequence[int], dtype: Any, n_batch: int = n_batch, n_dense: int = n_dense) -> BCOO:
        batch, sizes, dense = _split(shape, n_batch, n_dense)
        count = _count(nse, sizes)
        data = rand_method(rng)((*batch, count, *dense), dtype)
        indices = rng.randint(0, np.asarray(sizes, int), size=(*batch, count, len(sizes)), dtype=np.int32)
        return BCOO((data, indices), shape=shape)

    return draw


def rand_bcsr(
    rng: Any, rand_method: Callable[..., Any] = _normal, nse: float = 0.5, n_batch: int = 0, n_dense: int = 0
) -> Callable[..., BCSR]:
    """Draws of `BCSR` arrays whose indices may repeat: `(shape, dtype, n_batch, n_dense) -> BCSR`."""

    def draw(shape: Sequence[int], dtype: Any, n_batch: int = n_batch, n_dense: int = n_dense) -> BCSR:
        batch, sizes, dense = _split(shape, n_batch, n_dense)
        count = _count(nse, sizes)
        data = rand_method(rng)((*batch, count, *dense), dtype)
        indices = rng.randint(0, sizes[1], size=(*batch, count), dtype=np.int32)
        indptr = np.sort(rng.randint(0, count + 1, size=(*batch, sizes[0] + 1), dtype=np.int32), axis=-1)
        indptr[..., 0] = 0
        return BCSR((data, indices, indptr), shape=shape)

    return draw


def _split(
    shape: Sequence[int], n_batch: int, n_dense: int
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    stop = len(shape) - n_dense
    return tuple(shape[:n_batch]), tuple(shape[n_batch:stop]), tuple(shape[stop:])


def _count(nse: float, sizes: Sequence[int]) -> int:
    return math.ceil(nse * math.prod(sizes)) if 0 <= nse < 1 else int(nse)


# --- comparisons --------------------------------------------------------------------------------------------------------------


def _base() -> type:
    try:
        base: type = lazy("absl.testing.parameterized").TestCase
    except ModuleNotFoundError:
        base = lazy("unittest").TestCase
    return base


class SparseTestCase(_base()):  # type: ignore[misc]
    """Test case with comparisons of sparse and dense functions."""

    def setUp(self) -> None:
        """Random numbers that depend on the name of the test alone."""
        super().setUp()
        self._rng = np.random.RandomState(zlib.adler32(self._testMethodName.encode()))

    def rng(self) -> Any:
        """The random numbers of the test."""
        return self._rng

    def assertArraysEqual(self, x: Any, y: Any, *, check_dtypes: bool = True, **_: Any) -> None:
        """Equal element by element."""
        self.assertAllClose(x, y, check_dtypes=check_dtypes, atol=0, rtol=0)

    def assertArraysAllClose(self, x: Any, y: Any, **options: Any) -> None:
        """Alias of `assertAllClose`."""
        self.assertAllClose(x, y, **options)

    def assertAllClose(
        self, x: Any, y: Any, *, check_dtypes: bool = True, atol: Any = None, rtol: Any = None, **_: Any
    ) -> None:
        """Equal up to rounding, leaf by leaf."""
        mine, theirs = tree.leaves(x), tree.leaves(y)
        self.assertEqual(len(mine), len(theirs))
        for a, b in zip(mine, theirs, strict=True):
            a, b = (np.asarray(pnp.asarray(v)) for v in (a, b))
            self.assertEqual(a.shape, b.shape)
            if check_dtypes:
                self.assertEqual(a.dtype, b.dtype)
            names = (a.dtype.name, b.dtype.name)
            np.testing.assert_allclose(a, b, atol=_tolerance(atol, names), rtol=_tolerance(rtol, names))

    def assertSparseArraysEquivalent(self, x: Any, y: Any, **options: Any) -> None:
        """Equal buffers and equal static data."""
        self.assertEqual(tree.structure(x), tree.structure(y))
        self.assertAllClose(tree.leaves(x), tree.leaves(y), **options)

    def _CheckAgainstNumpy(self, numpy_fun: Any, fun: Any, args_maker: Any, tol: Any = None, **options: Any) -> None:
        args = args_maker()
        self.assertAllClose(numpy_fun(*args), fun(*args), **_with_tolerance(options, tol))

    def _CompileAndCheck(self, fun: Any, args_maker: Any, tol: Any = None, **options: Any) -> None:
        args = args_maker()
        expected, found = fun(*args), jit(fun)(*args)
        self.assertEqual(
            [(x.shape, x.dtype) for x in tree.leaves(eval_shape(fun, *args))],
            [(x.shape, x.dtype) for x in map(pnp.asarray, tree.leaves(expected))],
        )
        options.pop("check_cache_misses", None)
        self.assertAllClose(expected, found, **_with_tolerance(options, tol))

    def _CheckAgainstDense(
        self, dense_op: Any, sparse_op: Any, args_maker: Any, check_jit: bool = True, tol: Any = None, **options: Any
    ) -> None:
        args = args_maker()
        options = _with_tolerance(options, tol)
        found = sparse_op(*args)
        self.assertAllClose(dense_op(*_dense(args)), _dense(found), **options)
        if check_jit:
            options.pop("check_dtypes", None)
            self.assertSparseArraysEquivalent(found, jit(sparse_op)(*args), **options)

    def _CheckGradsSparse(
        self, dense_fun: Any, sparse_fun: Any, args_maker: Any, *, argnums: Any = None, modes: Sequence[str] = ("fwd", "rev"),
        atol: Any = None, rtol: Any = None,
    ) -> None:  # fmt: skip
        args = args_maker()
        leaves, structure = tree.flatten(args)
        starts = np.cumsum([0, *[len(tree.leaves(a)) for a in args]])[:-1].tolist()
        numbers = [starts[n] for n in (range(len(args)) if argnums is None else argnums)]
        of_dense = lambda *xs: dense_fun(*_dense(structure.unflatten(xs)))
        of_sparse = lambda *xs: _dense(sparse_fun(*structure.unflatten(xs)))
        for mode in modes:
            jacobian = {"fwd": jacfwd, "rev": jacrev}[mode]
            expected = jacobian(of_dense, argnums=numbers)(*leaves)
            self.assertAllClose(expected, jacobian(of_sparse, argnums=numbers)(*leaves), atol=atol, rtol=rtol)

    def _random_bdims(self, *counts: int) -> list[int]:
        return [self.rng().randint(0, n + 1) for n in counts]

    def _CheckBatchingSparse(
        self, dense_fun: Any, sparse_fun: Any, args_maker: Any, *, batch_size: int = 3, bdims: Any = None, check_jit: bool = False,
        **options: Any,
    ) -> None:  # fmt: skip
        if bdims is None:
            bdims = self._random_bdims(*[a.n_batch if is_sparse(a) else a.ndim for a in args_maker()])

        def batched() -> list[Any]:
            lanes = zip(*[args_maker() for _ in range(batch_size)], strict=True)
            return [row[0] if dim is None else _stacked(row, dim) for row, dim in zip(lanes, bdims, strict=True)]

        self._CheckAgainstDense(
            vmap(dense_fun, tuple(bdims)), vmap(sparse_fun, tuple(bdims)), batched, check_jit=check_jit, **options
        )


def _stacked(rows: Sequence[Any], dim: int) -> Any:
    """Lanes along a new batch axis."""
    if not is_sparse(rows[0]):
        return pnp.stack(rows, axis=dim)
    joined = bcoo_concatenate([_lane(x.to_bcoo() if isinstance(x, BCSR) else x, dim) for x in rows], dimension=dim)
    return BCSR.from_bcoo(joined) if isinstance(rows[0], BCSR) else joined


def _lane(mat: BCOO, dim: int) -> BCOO:
    shape = (*mat.shape[:dim], 1, *mat.shape[dim:])
    places = [i for i in range(mat.ndim + 1) if i != dim]
    return bcoo_broadcast_in_dim(mat, shape=shape, broadcast_dimensions=places)


def _dense(x: Any) -> Any:
    return tree.map(todense, x, is_leaf=is_sparse)


def _with_tolerance(options: dict[str, Any], tol: Any) -> dict[str, Any]:
    given = dict(options)
    for name in ("atol", "rtol"):
        given[name] = tol if given.get(name) is None else given[name]
    return given


def _tolerance(given: Any, names: Sequence[str]) -> float:
    """The larger of the tolerances of two dtypes; `given` is a number, a table by dtype, or None."""
    if isinstance(given, dict):
        table = {np.dtype(k).name: v for k, v in given.items()}
        return max(table.get(n, _TOLERANCES.get(n, 0.0)) for n in names)
    if given is not None:
        return float(given)
    return max(_TOLERANCES.get(n, 0.0) for n in names)
