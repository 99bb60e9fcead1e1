# SPDX-License-Identifier: Apache-2.0
"""Interpolation between the points of a grid."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from purax import numpy as pnp
from purax.numpy.promotion import check_arraylike, promote_dtypes_inexact
from purax.tree import register_pytree_node_class

__all__ = ["RegularGridInterpolator"]


@register_pytree_node_class
class RegularGridInterpolator:
    """A function of n variables, given on a rectangular grid of uneven spacing.

    Parameters
    ----------
    points : sequence of n arrays real[size_i]
        Ascending coordinates of the grid.
    values : array[size_0, ..., size_{n-1}, ...]
    method : "linear" or "nearest"
    bounds_error : bool
        Must be False: arrays in a program cannot raise.
    fill_value : scalar or None
        Value outside the grid; None: continue the cells at the border.
    """

    def __init__(
        self,
        points: Sequence[Any],
        values: Any,
        method: str = "linear",
        bounds_error: bool = False,
        fill_value: Any = np.nan,
    ) -> None:
        if method not in ("linear", "nearest"):
            raise ValueError(f"method {method!r} is not defined")
        if bounds_error:
            raise NotImplementedError(
                "RegularGridInterpolator cannot raise for points outside, whose values a program does not know; set bounds_error=False"
            )
        check_arraylike("RegularGridInterpolator", values, *points)
        self.method, self.bounds_error, self.fill_value = method, bounds_error, fill_value
        values = pnp.asarray(values)
        if len(points) > values.ndim:
            raise ValueError(f"there are {len(points)} point arrays, but values has {values.ndim} dimensions")
        (self.values,) = promote_dtypes_inexact(values)
        self.grid = tuple(pnp.asarray(p) for p in points)
        for i, p in enumerate(self.grid):
            if p.ndim != 1 or p.shape[0] != values.shape[i]:
                raise ValueError(f"there are {p.shape} points and {values.shape[i]} values on dimension {i}")
            if isinstance(points[i], np.ndarray) and not np.all(np.diff(points[i]) > 0):
                raise ValueError(f"the points in dimension {i} must be strictly ascending")

    def tree_flatten(self) -> Any:
        """Grid, values and fill value; method."""
        return (self.grid, self.values, self.fill_value), (self.method, self.bounds_error)

    @classmethod
    def tree_unflatten(cls, aux_data: Any, children: Any) -> RegularGridInterpolator:
        """The object of these parts."""
        made = cls.__new__(cls)
        made.grid, made.values, made.fill_value = children
        made.method, made.bounds_error = aux_data
        return made

    def __call__(self, xi: Any, method: str | None = None) -> Any:
        """Values at points real[..., n]: array[..., *rest].

        Parameters
        ----------
        xi : array, or a tuple of n arrays that broadcast
        method : "linear" or "nearest", optional
        """
        method = self.method if method is None else method
        if method not in ("linear", "nearest"):
            raise ValueError(f"method {method!r} is not defined")
        n = len(self.grid)
        if isinstance(xi, (tuple, list)):
            xi = pnp.stack(pnp.broadcast_arrays(*[pnp.asarray(x) for x in xi]), axis=-1)
        (xi,) = promote_dtypes_inexact(pnp.asarray(xi))
        if xi.ndim == 1:
            xi = pnp.reshape(xi, (-1, 1) if n == 1 else (1, -1))
        if xi.shape[-1] != n:
            raise ValueError(f"points of this grid have {n} coordinates, got {xi.shape[-1]}")
        shape = xi.shape[:-1]
        flat = pnp.reshape(xi, (-1, n))
        cells, fractions, outside = [], [], pnp.zeros(flat.shape[0], bool)
        for i, p in enumerate(self.grid):
            x = flat[:, i]
            cell = pnp.clip(pnp.searchsorted(p, x, side="right") - 1, 0, max(p.shape[0] - 2, 0))
            after = pnp.minimum(cell + 1, p.shape[0] - 1)
            width = p[after] - p[cell]
            cells.append((cell, after))
            fractions.append(pnp.where(width == 0, 0, (x - p[cell]) / pnp.where(width == 0, 1, width)))
            outside |= (x < p[0]) | (x > p[-1])
        out = self._nearest(cells, fractions) if method == "nearest" else self._linear(cells, fractions)
        if self.fill_value is not None:
            mask = pnp.reshape(outside, (-1,) + (1,) * (out.ndim - 1))
            out = pnp.where(mask, self.fill_value, out)
        missing = pnp.reshape(pnp.any(pnp.isnan(flat), axis=-1), (-1,) + (1,) * (out.ndim - 1))
        return pnp.reshape(pnp.where(missing, np.nan, out), (*shape, *self.values.shape[n:]))

    def _nearest(self, cells: Any, fractions: Any) -> Any:
        return self.values[
            tuple(pnp.where(f <= 0.5, low, high) for (low, high), f in zip(cells, fractions, strict=True))
        ]

    def _linear(self, cells: Any, fractions: Any) -> Any:
        total = None
        for corner in itertools.product((0, 1), repeat=len(cells)):
            weight = 1
            for side, f in zip(corner, fractions, strict=True):
                weight = weight * (f if side else 1 - f)
            value = self.values[tuple(cell[side] for side, cell in zip(corner, cells, strict=True))]
            term = pnp.reshape(weight, (-1,) + (1,) * (value.ndim - 1)) * value
            total = term if total is None else total + term
        return total
