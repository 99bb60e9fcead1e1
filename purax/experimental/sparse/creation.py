# SPDX-License-Identifier: Apache-2.0
"""Sparse arrays made of nothing: `empty`, `eye`, `random_bcoo`."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from purax import numpy as pnp
from purax import random
from purax.experimental.sparse.bcoo import BCOO
from purax.experimental.sparse.bcsr import BCSR
from purax.experimental.sparse.layout import unravel
from purax.experimental.sparse.matrices import COO, CSC, CSR
from purax.transforms.vmap import vmap

__all__ = ["empty", "eye", "random_bcoo"]

_FORMATS: dict[str, Any] = {"bcoo": BCOO, "bcsr": BCSR, "coo": COO, "csr": CSR, "csc": CSC}


def _format(name: str) -> Any:
    if name not in _FORMATS:
        raise ValueError(f"sparse_format must be one of {sorted(_FORMATS)}, got {name!r}")
    return _FORMATS[name]


def empty(
    shape: Sequence[int], dtype: Any = None, index_dtype: Any = "int32", sparse_format: str = "bcoo", **options: Any
) -> Any:
    """A sparse array that stores nothing.

    Parameters
    ----------
    shape : sequence of int
    dtype, index_dtype : dtype
    sparse_format : {"bcoo", "bcsr", "coo", "csr", "csc"}
    **options
        `n_batch`, `n_dense` and `nse` (elements of padding) for "bcoo" and "bcsr".

    Returns
    -------
    BCOO, BCSR, COO, CSR or CSC
    """
    return _format(sparse_format)._empty(tuple(shape), dtype=dtype, index_dtype=index_dtype, **options)


def eye(
    N: int,
    M: int | None = None,
    k: int = 0,
    dtype: Any = None,
    index_dtype: Any = "int32",
    sparse_format: str = "bcoo",
    **options: Any,
) -> Any:
    """A sparse matrix with ones on a diagonal.

    Parameters
    ----------
    N, M : int
        Rows and columns; as many columns as rows by default.
    k : int
        Which diagonal; the main one is 0, those above are positive.
    dtype, index_dtype : dtype
    sparse_format : {"bcoo", "coo", "csr", "csc"}
    **options
        `n_batch` and `n_dense` for "bcoo".

    Returns
    -------
    BCOO, COO, CSR or CSC
    """
    rows, cols = operator.index(N), operator.index(N if M is None else M)
    return _format(sparse_format)._eye(rows, cols, operator.index(k), dtype=dtype, index_dtype=index_dtype, **options)


def random_bcoo(
    key: Any, shape: Sequence[int], *, dtype: Any = None, indices_dtype: Any = None, nse: float = 0.2, n_batch: int = 0,
    n_dense: int = 0, unique_indices: bool = True, generator: Callable[..., Any] = random.uniform, **options: Any,
) -> BCOO:  # fmt: skip
    """A sparse array with random values at random places.

    Parameters
    ----------
    key : random key
    shape : sequence of int
    dtype, indices_dtype : dtype
    nse : int or float
        Number of stored elements per batch, or their share of all, if below 1.
    n_batch, n_dense : int
    unique_indices : bool
        Draw places without replacement.
    generator : callable
        `generator(key, shape=..., dtype=..., **options)` draws the values.
    options
        Of the generator.

    Returns
    -------
    BCOO

    Raises
    ------
    ValueError
        More elements than places.
    """
    shape = tuple(operator.index(n) for n in shape)
    sizes, batch = shape[n_batch : len(shape) - n_dense], shape[:n_batch]
    places = math.prod(sizes)
    count = math.ceil(nse * places) if 0 <= nse < 1 else int(nse)
    if count > places and unique_indices:
        raise ValueError(f"random_bcoo: nse={count} exceeds the {places} places of sparse shape {sizes}")
    values_key, places_key = random.split(key)

    def draw(key: Any) -> Any:
        if unique_indices:
            return random.choice(key, places, shape=(count,), replace=False)
        return random.randint(key, (count,), 0, max(places, 1))

    many = math.prod(batch)
    drawn = vmap(draw)(random.split(places_key, many)) if many else pnp.zeros((0, count), np.int32)
    data = generator(values_key, shape=(*batch, count, *shape[len(shape) - n_dense :]), dtype=dtype or float, **options)
    indices = unravel(drawn, sizes, np.dtype(indices_dtype or np.int32)).reshape(*batch, count, len(sizes))
    return BCOO((data, indices), shape=shape, unique_indices=unique_indices)
