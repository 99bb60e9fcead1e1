# SPDX-License-Identifier: Apache-2.0
"""Products that sum over axes: dot, matmul, tensordot, outer, kron, cross.

Results have the common dtype of the operands, or `preferred_element_type`.

Parameters
----------
a, b, x1, x2 : array
    Operands, whose dtypes promote; ShapeError if sizes that meet differ.
precision : str, Precision or a pair of these, optional
    As in `purax.lax.dot_general`.
preferred_element_type : dtype, optional
    Dtype of the sum and the result.
out_sharding : Sharding, optional
    Where the result lies.
"""

from __future__ import annotations

import operator
from typing import Any

from purax import dtypes, errors
from purax.config import current as settings
from purax.numpy import _ops as ops
from purax.numpy.arithmetic import multiply
from purax.numpy.creation import placed
from purax.numpy.promotion import (
    as_operand,
    check_arraylike,
    common_shape,
    promote_dtypes,
    promote_dtypes_numeric,
    refuse,
    spread,
)
from purax.numpy.reduction import reduced_axes
from purax.numpy.shape import expand_dims, moveaxis
from purax.primitives.contraction import canonical_precision, dot_general_p
from purax.primitives.resharding import is_explicit, out_sharded

__all__ = ["cross", "dot", "inner", "kron", "matmul", "matvec", "outer", "tensordot", "vdot", "vecdot", "vecmat"]


def _pair(name: str, a: Any, b: Any) -> list[Any]:
    check_arraylike(name, a, b)
    return promote_dtypes(a, b)


def _contract(a: Any, b: Any, axes: Any, batch: Any, precision: Any, preferred: Any) -> Any:
    """One `dot_general` of operands of equal dtype."""
    preferred = a.aval.dtype if preferred is None else dtypes.named(preferred)
    return ops.dot_general(a, b, (axes, batch), precision, preferred)


def dot(a: Any, b: Any, *, precision: Any = None, preferred_element_type: Any = None, out_sharding: Any = None) -> Any:
    """Sum of products over the last axis of `a` and the second to last (or only) axis of `b`; with a scalar, the product.

    See `purax.numpy.contraction` for the arguments that its functions share.
    """
    if out_sharding is not None and is_explicit(out_sharding):
        return out_sharded(dot, out_sharding, a, b, precision=precision, preferred_element_type=preferred_element_type)
    a, b = _pair("dot", a, b)
    m, n = a.aval.ndim, b.aval.ndim
    if m == 0 or n == 0:
        axes: Any = ((), ())
    elif n == 1:
        axes = ((m - 1,), (0,))
    else:
        axes = ((m - 1,), (n - 2,))
    return placed(_contract(a, b, axes, ((), ()), precision, preferred_element_type), out_sharding)


def matmul(
    a: Any, b: Any, *, precision: Any = None, preferred_element_type: Any = None, out_sharding: Any = None
) -> Any:
    """Matrix product [..., m, k] by [..., k, n]; leading axes broadcast, vectors are rows on the left and columns on the right.

    See `purax.numpy.contraction` for the arguments that its functions share.

    Raises
    ------
    ShapeError
        An operand has no axes, or sizes that meet differ.
    """
    if precision is None and preferred_element_type is None and out_sharding is None:
        params = _known_products.get((getattr(a, "aval", None), getattr(b, "aval", None), settings().trace_key))
        if params is not None:
            return dot_general_p.bind1(a, b, **params)
    if out_sharding is not None and is_explicit(out_sharding):
        preferred = dtypes.result_type(a, b) if preferred_element_type is None else preferred_element_type
        return out_sharded(matmul, out_sharding, a, b, precision=precision, preferred_element_type=preferred)
    a, b = _pair("matmul", a, b)
    m, n = a.aval.ndim, b.aval.ndim
    if m == 0 or n == 0:
        raise errors.ShapeError(
            f"matmul takes arrays with at least one axis, got shapes {a.aval.shape} and {b.aval.shape}; use multiply"
        )
    if m > 2 or n > 2:
        return placed(_batched("matmul", a, b, precision, preferred_element_type), out_sharding)
    if precision is None and preferred_element_type is None:
        pair = canonical_precision(None)
        numbers = (((m - 1,), (0,)), ((), ()))
        params = {"dimension_numbers": numbers, "precision": pair, "preferred_element_type": a.aval.dtype}
        _known_products[a.aval, b.aval, settings().trace_key] = params
    return placed(_contract(a, b, ((m - 1,), (0,)), ((), ()), precision, preferred_element_type), out_sharding)


# Parameters of products of vectors and matrices of equal dtype, per pair of types and settings.
_known_products: dict[Any, dict[str, Any]] = {}


def _batched(name: str, a: Any, b: Any, precision: Any, preferred: Any) -> Any:
    """Matrix products over leading axes that broadcast."""
    row, column = a.aval.ndim == 1, b.aval.ndim == 1
    if row:
        a = expand_dims(a, 0)
    if column:
        b = expand_dims(b, 1)
    left, right = a.aval.shape, b.aval.shape
    if left[-1] != right[-2]:
        raise errors.ShapeError(
            f"{name} got incompatible shapes {left} and {right}: sizes {left[-1]} and {right[-2]} are contracted"
        )
    rank = max(len(left), len(right)) - 2
    a, b = ops.broadcast_to_rank(a, rank + 2), ops.broadcast_to_rank(b, rank + 2)
    left, right = a.aval.shape, b.aval.shape
    outer = common_shape(name, left[:-2], right[:-2])
    # Axes of size 1 on one side are not repeated but left out of the batch: they are rows or columns of the other operand.
    batch = [i for i in range(rank) if left[i] == right[i]]
    only_left = [i for i in range(rank) if left[i] != right[i] and right[i] == 1]
    only_right = [i for i in range(rank) if left[i] != right[i] and left[i] == 1]
    a, b = ops.squeeze(a, only_right), ops.squeeze(b, only_left)
    a_axes = [i for i in range(rank) if i not in only_right]
    b_axes = [i for i in range(rank) if i not in only_left]
    result = _contract(
        a, b, ((len(a_axes) + 1,), (len(b_axes),)),
        (tuple(a_axes.index(i) for i in batch), tuple(b_axes.index(i) for i in batch)), precision, preferred,
    )  # fmt: skip
    order = [*batch, *only_left, "row", *only_right, "column"]
    target = [*range(rank), "row", "column"]
    result = ops.transpose(result, [order.index(axis) for axis in target])
    rows, columns = result.aval.shape[-2:]
    shape = (*outer, *(() if row else (rows,)), *(() if column else (columns,)))
    return ops.reshape(result, shape)


def matvec(x1: Any, x2: Any, /) -> Any:
    """Matrix-vector product [..., m, n] by [..., n]; leading axes broadcast.

    Raises
    ------
    ShapeError
        Too few axes, or sizes that meet differ.
    """
    a, b = _pair("matvec", x1, x2)
    if a.aval.ndim < 2 or b.aval.ndim < 1:
        raise errors.ShapeError(f"matvec takes a matrix and a vector, got shapes {a.aval.shape} and {b.aval.shape}")
    result = _batched("matvec", a, expand_dims(b, -1), None, None)
    return ops.squeeze(result, (result.aval.ndim - 1,))


def vecmat(x1: Any, x2: Any, /) -> Any:
    """Vector-matrix product [..., n] (conjugated) by [..., n, m]; leading axes broadcast.

    Raises
    ------
    ShapeError
        Too few axes, or sizes that meet differ.
    """
    a, b = _pair("vecmat", x1, x2)
    if a.aval.ndim < 1 or b.aval.ndim < 2:
        raise errors.ShapeError(f"vecmat takes a vector and a matrix, got shapes {a.aval.shape} and {b.aval.shape}")
    result = _batched("vecmat", expand_dims(_conjugate(a), -2), b, None, None)
    return ops.squeeze(result, (result.aval.ndim - 2,))


def _conjugate(x: Any) -> Any:
    return ops.conj(x) if dtypes.is_complex(x.aval.dtype) else x


def vdot(a: Any, b: Any, *, precision: Any = None, preferred_element_type: Any = None) -> Any:
    """Sum of products of all elements, those of `a` conjugated.

    See `purax.numpy.contraction` for the arguments that its functions share.
    """
    a, b = _pair("vdot", a, b)
    a, b = ops.reshape(_conjugate(a), (a.aval.size,)), ops.reshape(b, (b.aval.size,))
    return _contract(a, b, ((0,), (0,)), ((), ()), precision, preferred_element_type)


def vecdot(x1: Any, x2: Any, /, *, axis: int = -1, precision: Any = None, preferred_element_type: Any = None) -> Any:
    """Sum of products along an axis, the elements of `x1` conjugated; the other axes broadcast.

    See `purax.numpy.contraction` for the arguments that its functions share.

    Parameters
    ----------
    axis : int

    Returns
    -------
    array of the other axes

    Raises
    ------
    ShapeError
        The axes have different sizes.
    """
    a, b = _pair("vecdot", x1, x2)
    (first,), (second,) = (
        reduced_axes(operator.index(axis), a.aval.ndim),
        reduced_axes(operator.index(axis), b.aval.ndim),
    )
    if a.aval.shape[first] != b.aval.shape[second]:
        raise errors.ShapeError(
            f"vecdot needs vectors of one length, got {a.aval.shape} and {b.aval.shape} with {axis=}"
        )
    a, b = _conjugate(moveaxis(a, first, -1)), moveaxis(b, second, -1)
    shape = common_shape("vecdot", a.aval.shape, b.aval.shape)
    a, b = spread(a, shape), spread(b, shape)
    batch = tuple(range(len(shape) - 1))
    return _contract(a, b, ((len(shape) - 1,),) * 2, (batch, batch), precision, preferred_element_type)


def inner(a: Any, b: Any, *, precision: Any = None, preferred_element_type: Any = None) -> Any:
    """Sum of products over the last axes of both; with a scalar, the product.

    See `purax.numpy.contraction` for the arguments that its functions share.
    """
    a, b = _pair("inner", a, b)
    m, n = a.aval.ndim, b.aval.ndim
    axes = ((), ()) if m == 0 or n == 0 else ((m - 1,), (n - 1,))
    return _contract(a, b, axes, ((), ()), precision, preferred_element_type)


def outer(a: Any, b: Any, out: None = None) -> Any:
    """All products of an element of `a` and one of `b`, both flattened: a matrix [m, n]. `out` must be None."""
    refuse("outer", out=out)
    a, b = _pair("outer", a, b)
    shape = (a.aval.size, b.aval.size)
    return multiply(spread(ops.reshape(a, (shape[0], 1)), shape), spread(ops.reshape(b, (1, shape[1])), shape))


def tensordot(
    a: Any,
    b: Any,
    axes: Any = 2,
    *,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Any:
    """Sum of products over pairs of axes: the last n of `a` with the first n of `b`, or two lists of axes.

    See `purax.numpy.contraction` for the arguments that its functions share.

    Parameters
    ----------
    axes : int or (sequence of int, sequence of int)

    Returns
    -------
    array
        Other axes of `a`, then those of `b`.

    Raises
    ------
    ShapeError
        Lists of different lengths, more axes than there are, or sizes that differ.
    """
    if out_sharding is not None and is_explicit(out_sharding):
        options = {"precision": precision, "preferred_element_type": preferred_element_type}
        return out_sharded(tensordot, out_sharding, a, b, axes, **options)
    a, b = _pair("tensordot", a, b)
    m, n = a.aval.ndim, b.aval.ndim
    if isinstance(axes, (tuple, list)) and len(axes) == 2:
        first, second = (_axis_list(side, rank) for side, rank in zip(axes, (m, n), strict=True))
        if len(first) != len(second):
            raise errors.ShapeError(f"tensordot requires axes lists to have equal length, got {axes[0]} and {axes[1]}.")
    elif isinstance(axes, (tuple, list)):
        raise errors.ShapeError(
            f"tensordot axes argument must be an int, a pair of ints, or a pair of lists/tuples of ints, got {axes}"
        )
    else:
        count = operator.index(axes)
        if count > min(m, n):
            raise errors.ShapeError(
                f"Number of tensordot axes (axes {count}) exceeds input ranks ({a.aval.shape} and {b.aval.shape})"
            )
        first, second = tuple(range(m - count, m)), tuple(range(count))
    return placed(_contract(a, b, (first, second), ((), ()), precision, preferred_element_type), out_sharding)


def _axis_list(axes: Any, rank: int) -> tuple[int, ...]:
    return reduced_axes(axes, rank)


def kron(a: Any, b: Any) -> Any:
    """Kronecker product: each element of `a` times all of `b`."""
    a, b = _pair("kron", a, b)
    rank = max(a.aval.ndim, b.aval.ndim)
    a, b = ops.broadcast_to_rank(a, rank), ops.broadcast_to_rank(b, rank)
    left, right = a.aval.shape, b.aval.shape
    wide = tuple(n for pair in zip(left, right, strict=True) for n in pair)
    product = multiply(
        ops.broadcast_in_dim(a, wide, range(0, 2 * rank, 2)), ops.broadcast_in_dim(b, wide, range(1, 2 * rank, 2))
    )
    return ops.reshape(product, tuple(m * n for m, n in zip(left, right, strict=True)))


def cross(a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None) -> Any:
    """Cross product of vectors of length 3 (or 2, with a third component of 0) along axes; the other axes broadcast.

    Parameters
    ----------
    axisa, axisb, axisc : int
        Axes of the vectors of `a`, of `b`, and of the result.
    axis : int, optional
        All three.

    Returns
    -------
    array
        Without the axis if both vectors have length 2: their third component.

    Raises
    ------
    ValueError
        Vectors of another length.

    Examples
    --------
    >>> pnp.cross(pnp.array([1, 0, 0]), pnp.array([0, 1, 0])).tolist()
    [0, 0, 1]
    """
    check_arraylike("cross", a, b)
    a, b = promote_dtypes_numeric(as_operand(a), as_operand(b))
    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = moveaxis(a, axisa, -1), moveaxis(b, axisb, -1)
    sizes = a.aval.shape[-1], b.aval.shape[-1]
    if not {*sizes} <= {2, 3}:
        raise ValueError("Dimension must be either 2 or 3 for cross product")
    shape = common_shape("cross", a.aval.shape[:-1], b.aval.shape[:-1])
    zero = ops.full(shape, 0, a.aval.dtype)

    def parts(x: Any) -> list[Any]:
        x = spread(x, (*shape, x.aval.shape[-1]))
        found = [ops.squeeze(p, (len(shape),)) for p in ops.split(x, (1,) * x.aval.shape[-1], len(shape))]
        return found if len(found) == 3 else [*found, zero]

    (a0, a1, a2), (b0, b1, b2) = parts(a), parts(b)

    def minor(p: Any, q: Any, r: Any, s: Any) -> Any:
        return ops.sub(ops.mul(p, s), ops.mul(q, r))

    last = minor(a0, a1, b0, b1)
    if sizes == (2, 2):
        return last
    result = [minor(a1, a2, b1, b2), minor(a2, a0, b2, b0), last]
    return moveaxis(ops.concatenate([expand_dims(x, -1) for x in result], len(shape)), -1, axisc)
