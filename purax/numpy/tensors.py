# SPDX-License-Identifier: Apache-2.0
"""Products of vectors, matrices and tensors, and systems of tensors: what `purax.numpy.linalg` offers of them.

Results have the common dtype of the operands.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

from purax import errors
from purax.numpy import contraction as products
from purax.numpy import matrices
from purax.numpy.promotion import as_operand, check_arraylike
from purax.numpy.shape import moveaxis
from purax.numpy.systems import inv, solve

__all__ = [
    "cross",
    "diagonal",
    "matmul",
    "multi_dot",
    "outer",
    "tensordot",
    "tensorinv",
    "tensorsolve",
    "trace",
    "vecdot",
]


def matmul(x1: Any, x2: Any, /, *, precision: Any = None, preferred_element_type: Any = None) -> Any:
    """Products of matrices; see `purax.numpy.matmul`.

    Parameters
    ----------
    x1, x2 : array [..., m, k], [..., k, n]
    precision : Precision, optional
    preferred_element_type : dtype, optional

    Returns
    -------
    array [..., m, n]
    """
    return products.matmul(x1, x2, precision=precision, preferred_element_type=preferred_element_type)


def vecdot(x1: Any, x2: Any, /, *, axis: int = -1, precision: Any = None, preferred_element_type: Any = None) -> Any:
    """Sums of conj(x1) x2 along one axis.

    Parameters
    ----------
    x1, x2 : arrays that broadcast
    axis : int
    precision : Precision, optional
    preferred_element_type : dtype, optional

    Returns
    -------
    array without the axis
    """
    return products.vecdot(x1, x2, axis=axis, precision=precision, preferred_element_type=preferred_element_type)


def tensordot(
    x1: Any,
    x2: Any,
    /,
    *,
    axes: Any = 2,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Any:
    """Sums of products over several axes; see `purax.numpy.tensordot`.

    Parameters
    ----------
    x1, x2 : arrays
    axes : int or (sequence of int, sequence of int)
        The last axes of x1 with the first of x2, or pairs of axes.
    precision : Precision, optional
    preferred_element_type : dtype, optional
    out_sharding : Sharding, optional

    Returns
    -------
    array
        The other axes of x1, then those of x2.
    """
    return products.tensordot(x1, x2, axes=axes, precision=precision, preferred_element_type=preferred_element_type)


def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """Vector products of 3-vectors.

    Parameters
    ----------
    x1, x2 : arrays that broadcast, of size 3 along the axis
    axis : int

    Returns
    -------
    array

    Raises
    ------
    ShapeError
        Another size along the axis.
    """
    check_arraylike("linalg.cross", x1, x2)
    x1, x2 = as_operand(x1), as_operand(x2)
    if x1.shape[axis] != 3 or x2.shape[axis] != 3:
        raise errors.ShapeError(
            f"cross takes vectors of three entries along axis {axis}, got {x1.shape[axis]} and {x2.shape[axis]}"
        )
    return products.cross(x1, x2, axis=axis)


def outer(x1: Any, x2: Any, /) -> Any:
    """Products of all pairs of elements of two vectors.

    Parameters
    ----------
    x1, x2 : array [m], [n]

    Returns
    -------
    array [m, n]

    Raises
    ------
    ShapeError
        They are no vectors.
    """
    check_arraylike("linalg.outer", x1, x2)
    x1, x2 = as_operand(x1), as_operand(x2)
    if x1.ndim != 1 or x2.ndim != 1:
        raise errors.ShapeError(f"outer takes two vectors, got shapes {x1.shape} and {x2.shape}")
    return products.outer(x1, x2)


def diagonal(x: Any, /, *, offset: int = 0) -> Any:
    """Diagonals of matrices.

    Parameters
    ----------
    x : array [..., m, n]
    offset : int
        Above (positive) or below the main diagonal.

    Returns
    -------
    array [..., k]
    """
    return matrices.diagonal(x, offset=offset, axis1=-2, axis2=-1)


def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    """Sums of the diagonals of matrices.

    Parameters
    ----------
    x : array [..., m, n]
    offset : int
        Above (positive) or below the main diagonal.
    dtype : dtype, optional
        Of the sums.

    Returns
    -------
    array [...]
    """
    return matrices.trace(x, offset=offset, axis1=-2, axis2=-1, dtype=dtype)


def multi_dot(arrays: Sequence[Any], *, precision: Any = None) -> Any:
    """Product of several matrices, in the order with the fewest multiplications.

    Parameters
    ----------
    arrays : sequence of two or more arrays
        The first and the last may be vectors.
    precision : Precision, optional

    Returns
    -------
    array

    Raises
    ------
    ValueError
        Fewer than two arrays.
    ShapeError
        Other ranks, or sizes that do not fit.
    """
    check_arraylike("linalg.multi_dot", *arrays)
    values = [as_operand(a) for a in arrays]
    if len(values) < 2:
        raise ValueError(f"multi_dot multiplies two or more arrays, got {len(values)}")
    ends = (values[0].ndim, values[-1].ndim)
    if any(n not in (1, 2) for n in ends) or any(v.ndim != 2 for v in values[1:-1]):
        raise errors.ShapeError(
            f"multi_dot takes matrices, of which the first and last may be vectors, got shapes {[v.shape for v in values]}"
        )
    sizes = [
        1 if ends[0] == 1 else values[0].shape[0],
        *(v.shape[0] for v in values[1:]),
        1 if ends[1] == 1 else values[-1].shape[1],
    ]
    inner = [v.shape[-1] for v in values[:-1]]
    if inner != [v.shape[0] for v in values[1:]]:
        raise errors.ShapeError(
            f"multi_dot: each array needs as many columns as the next has rows, got shapes {[v.shape for v in values]}"
        )
    order = _chain_order(sizes)

    def product(i: int, j: int) -> Any:
        if i == j:
            return values[i]
        k = order[i, j]
        return products.matmul(product(i, k), product(k + 1, j), precision=precision)

    return product(0, len(values) - 1)


def _chain_order(sizes: Sequence[int]) -> dict[tuple[int, int], int]:
    """Where to split each run of a matrix chain (Cormen et al., Introduction to Algorithms, 15.2)."""
    n = len(sizes) - 1
    cost: dict[tuple[int, int], int] = {(i, i): 0 for i in range(n)}
    split: dict[tuple[int, int], int] = {}
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            choices = [(cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k) for k in range(i, j)]
            cost[i, j], split[i, j] = min(choices)
    return split


def tensorinv(a: Any, ind: int = 2) -> Any:
    """Inverse of a tensor as a linear map from its last axes to its first.

    Parameters
    ----------
    a : array
        The products of its first `ind` and of its other sizes are equal.
    ind : int

    Returns
    -------
    array
        The other axes of `a`, then the first.

    Raises
    ------
    ShapeError
        The products of sizes differ.
    ValueError
        `ind` is below 1.
    """
    check_arraylike("linalg.tensorinv", a)
    a = as_operand(a)
    ind = operator.index(ind)
    if ind <= 0:
        raise ValueError(f"tensorinv: ind counts the first axes, at least one, got {ind}")
    first, rest = a.shape[:ind], a.shape[ind:]
    if math.prod(first) != math.prod(rest):
        raise errors.ShapeError(f"product of dimensions {first} and {rest} must be equal, got shape {a.shape}")
    return inv(a.reshape(math.prod(first), math.prod(rest))).reshape(*rest, *first)


def tensorsolve(a: Any, b: Any, axes: tuple[int, ...] | None = None) -> Any:
    """Solution x of tensordot(a, x, x.ndim) = b.

    Parameters
    ----------
    a : array
        Its first axes are those of `b`, the product of the others is the size of `b`.
    b : array
    axes : sequence of int, optional
        Axes of `a` that are moved to its end first.

    Returns
    -------
    array
        Of the other sizes of `a`.

    Raises
    ------
    ShapeError
        The sizes do not fit.
    """
    check_arraylike("linalg.tensorsolve", a, b)
    a, b = as_operand(a), as_operand(b)
    if axes is not None:
        a = moveaxis(a, tuple(axes), tuple(range(a.ndim - len(axes), a.ndim)))
    rest = a.shape[b.ndim :]
    if a.shape[: b.ndim] != b.shape or math.prod(rest) != b.size:
        raise errors.ShapeError(f"tensorsolve: tensors of shapes {a.shape} and {b.shape} do not fit")
    return solve(a.reshape(b.size, math.prod(rest)), b.ravel()).reshape(rest)
