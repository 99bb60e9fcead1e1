# SPDX-License-Identifier: Apache-2.0
"""What all sparse arrays share."""

from __future__ import annotations

import math
from typing import Any

from purax import errors

__all__ = ["CuSparseEfficiencyWarning", "JAXSparse", "SparseEfficiencyError", "SparseEfficiencyWarning"]


class SparseEfficiencyError(errors.PuraxError, ValueError):
    """A sparse array is asked for in a layout that stores many more elements.

    Wrong: ``mat.update_layout(n_batch=1)`` of a matrix with ``n_batch=0``

    Right: ``mat.update_layout(n_batch=1, on_inefficient=None)``, if that is what is meant
    """


class SparseEfficiencyWarning(UserWarning):
    """A sparse array is stored in a layout that holds many more elements than it needs."""


class CuSparseEfficiencyWarning(SparseEfficiencyWarning):
    """A product of sparse arrays cannot use the library of the GPU; purax writes them as gathers and scatters and never warns."""


class JAXSparse:
    """Base class of sparse arrays; each has `shape`, `dtype`, `nse` (number of stored elements) and `todense`."""

    data: Any
    shape: Any
    nse: Any
    # NumPy arrays leave operators to sparse arrays.
    __array_priority__ = 100
    __array_ufunc__ = None
    __hash__ = None  # type: ignore[assignment]

    @property
    def dtype(self) -> Any:
        """Data type."""
        return self.data.dtype

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements of the dense array."""
        return math.prod(self.shape)

    @property
    def T(self) -> Any:
        """The array with its axes reversed."""
        return self.transpose()

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a sparse array with no axes")
        return int(self.shape[0])

    def __repr__(self) -> str:
        name = type(self).__name__
        try:
            shape = ", ".join(map(str, self.shape))
            return f"{name}({self.dtype}[{shape}], nse={self.nse}{self._layout()})"
        except (AttributeError, IndexError, TypeError, ValueError):
            return f"{name}(<invalid>)"

    def _layout(self) -> str:
        return ""

    def todense(self) -> Any:
        """The array with its zeros written out."""
        raise NotImplementedError(f"{type(self).__name__}.todense")

    def transpose(self, axes: Any = None) -> Any:
        """The array with its axes permuted."""
        raise NotImplementedError(f"{type(self).__name__}.transpose")

    def astype(self, dtype: Any) -> Any:
        """The array with its values cast."""
        raise NotImplementedError(f"{type(self).__name__}.astype")

    def block_until_ready(self) -> Any:
        """The array, once its values are computed."""
        self.data.block_until_ready()
        return self
