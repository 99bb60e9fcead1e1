# SPDX-License-Identifier: Apache-2.0
"""Coordinate grids, and the objects that make arrays by index notation: `mgrid`, `ogrid`, `r_`, `c_`, `s_`."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from purax import dtypes
from purax.numpy import _ops as ops
from purax.numpy.creation import arange, array, linspace
from purax.numpy.positions import nonzero
from purax.numpy.promotion import as_operand, check_arraylike, promote_dtypes_anyhow
from purax.numpy.shape import concatenate, expand_dims, moveaxis

__all__ = ["c_", "index_exp", "indices", "ix_", "meshgrid", "mgrid", "ogrid", "r_", "s_"]


def meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> list[Any]:
    """Coordinate arrays of a grid from coordinate vectors.

    Parameters
    ----------
    *xi : array
        Vectors or scalars.
    copy : bool
        Must be True: there are no views.
    sparse : bool
        Leave the other axes at size 1.
    indexing : {"xy", "ij"}
        "xy" puts the second vector's axis first.

    Returns
    -------
    list of arrays
        One for each vector, of its dtype.

    Raises
    ------
    ValueError
        `copy` is False, another indexing, or more than one axis.
    """
    check_arraylike("meshgrid", *xi)
    vectors = [as_operand(x) for x in xi]
    if not copy:
        raise ValueError("purax.numpy.meshgrid only supports copy=True")
    if indexing not in ("xy", "ij"):
        raise ValueError(f"Valid values for indexing are 'xy' and 'ij', got {indexing}")
    if any(x.aval.ndim > 1 for x in vectors):
        raise ValueError(
            "Arguments to purax.numpy.meshgrid must be at most 1D, got shapes " + str([x.aval.shape for x in vectors])
        )
    vectors = [ops.reshape(x, (x.aval.size,)) for x in vectors]
    places = list(range(len(vectors)))
    if indexing == "xy" and len(vectors) >= 2:
        places[:2] = [1, 0]
    shape = [0] * len(vectors)
    for x, place in zip(vectors, places, strict=True):
        shape[place] = x.aval.size
    result = []
    for x, place in zip(vectors, places, strict=True):
        own = tuple(size if i == place or not sparse else 1 for i, size in enumerate(shape))
        result.append(ops.broadcast_in_dim(x, own, (place,)))
    return result


def indices(dimensions: Sequence[int], dtype: Any = None, sparse: bool = False) -> Any:
    """The index of each element along each axis: one array [n, *dimensions], or with `sparse` a tuple of n open arrays.

    Parameters
    ----------
    dimensions : sequence of int
    dtype : dtype, optional
        The default integer.
    sparse : bool

    Returns
    -------
    array, or tuple of arrays
    """
    dimensions = tuple(operator.index(d) for d in dimensions)
    dtype = dtypes.default_int() if dtype is None else dtypes.named(dtype)
    count = len(dimensions)
    parts = []
    for axis, size in enumerate(dimensions):
        own = tuple(size if i == axis else 1 for i in range(count)) if sparse else dimensions
        parts.append(ops.broadcasted_iota(dtype, own, axis))
    if sparse:
        return tuple(parts)
    if not parts:
        return ops.full((0,), 0, dtype)
    return ops.concatenate([ops.reshape(part, (1, *dimensions)) for part in parts], 0)


def ix_(*args: Any) -> tuple[Any, ...]:
    """Open grid of index vectors: ``x[ix_(rows, columns)]``; booleans stand for the indices where they hold.

    Raises
    ------
    ValueError
        An argument has not one axis.
    """
    check_arraylike("ix_", *args)
    result = []
    for place, vector in enumerate([as_operand(arg) for arg in args]):
        if vector.aval.ndim != 1:
            raise ValueError("Arguments to purax.numpy.ix_ must be 1-dimensional, got shape " + str(vector.aval.shape))
        if dtypes.is_bool(vector.aval.dtype):
            (vector,) = nonzero(vector)
        if vector.aval.size == 0:
            vector = ops.convert_element_type(vector, dtypes.default_int())
        shape = tuple(vector.aval.size if i == place else 1 for i in range(len(args)))
        result.append(ops.reshape(vector, shape))
    return tuple(result)


def _range(item: slice) -> Any:
    """What a slice stands for: a range, or with an imaginary step so many points with both ends."""
    start = 0 if item.start is None else item.start
    if isinstance(item.step, complex):
        return linspace(start, item.stop, int(abs(item.step)))
    return arange(start, item.stop, 1 if item.step is None else item.step)


def _as_slices(key: Any) -> tuple[list[Any], bool]:
    single = isinstance(key, slice)
    return [_range(k) for k in ((key,) if single else key)], single


class _Mgrid:
    """Dense grids: ``mgrid[0:2, 0:3]`` has shape (2, 2, 3); imaginary steps give numbers of points."""

    def __getitem__(self, key: Any) -> Any:
        axes, single = _as_slices(key)
        if single:
            return axes[0]
        if not axes:
            return ops.full((0,), 0, dtypes.default_int())
        grids = meshgrid(*promote_dtypes_anyhow(*axes), indexing="ij")
        return ops.concatenate([ops.reshape(grid, (1, *grid.aval.shape)) for grid in grids], 0)


class _Ogrid:
    """Open grids: ``ogrid[0:2, 0:3]`` gives arrays of shapes (2, 1) and (1, 3)."""

    def __getitem__(self, key: Any) -> Any:
        axes, single = _as_slices(key)
        if single:
            return axes[0]
        if not axes:
            return []
        return meshgrid(*promote_dtypes_anyhow(*axes), indexing="ij", sparse=True)


class _Concatenator:
    """Join slices, scalars and arrays by index notation; a string in front gives axis, minimal rank and place of axes."""

    def __init__(self, axis: int, ndmin: int, place: int) -> None:
        self.axis, self.ndmin, self.place = axis, ndmin, place

    def __getitem__(self, key: Any) -> Any:
        items = list(key) if isinstance(key, tuple) else [key]
        axis, ndmin, place, matrix, column = self.axis, self.ndmin, self.place, False, False
        if isinstance(items[0], str):
            directive = items.pop(0)
            if directive in ("r", "c"):
                matrix, column = True, directive == "c"
            else:
                try:
                    axis, ndmin, place = (
                        *[int(n) for n in directive.split(",")],
                        *(axis, ndmin, place)[directive.count(",") + 1 :],
                    )
                except ValueError as error:
                    raise ValueError(f"could not understand directive {directive!r}") from error
        parts = [self._part(item, ndmin, place) for item in items]
        result = concatenate(promote_dtypes_anyhow(*parts), axis)
        if matrix and result.aval.ndim < 2:
            result = ops.reshape(result, (result.aval.size, 1) if column else (1, result.aval.size))
        return result

    @staticmethod
    def _part(item: Any, ndmin: int, place: int) -> Any:
        if isinstance(item, str):
            raise ValueError("string directive must be placed at the beginning")
        grown = _range(item) if isinstance(item, slice) else array(item)
        own = 1 if grown.aval.ndim == 0 else grown.aval.ndim
        grown = ops.reshape(grown, (1,)) if grown.aval.ndim == 0 else grown
        if own >= ndmin:
            return grown
        missing = ndmin - own
        grown = expand_dims(grown, tuple(range(missing)))
        first = place if place >= 0 else place + ndmin - own + 1
        return moveaxis(grown, tuple(range(missing, ndmin)), tuple(range(first, first + own)))


class _IndexExpression:
    """Index notation as an object: ``s_[1:3, ...]`` is the tuple ``(slice(1, 3), Ellipsis)``."""

    def __init__(self, always_tuple: bool) -> None:
        self.always_tuple = always_tuple

    def __getitem__(self, key: Any) -> Any:
        return (key,) if self.always_tuple and not isinstance(key, tuple) else key


mgrid = _Mgrid()
ogrid = _Ogrid()
r_ = _Concatenator(0, 1, -1)
c_ = _Concatenator(-1, 2, 0)
s_ = _IndexExpression(False)
index_exp = _IndexExpression(True)
