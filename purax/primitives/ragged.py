# SPDX-License-Identifier: Apache-2.0
"""Products with groups of rows of different sizes, each with a matrix of its own (mixtures of experts).

Parameters
----------
precision, preferred_element_type
    As in `dot_general`.
out_sharding : optional
    Without effect.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

from purax import errors
from purax.core.trace import aval_of
from purax.primitives import contraction, cumulative, elementwise, shape, slicing

__all__ = ["RaggedDotDimensionNumbers", "ragged_dot", "ragged_dot_general"]


class RaggedDotDimensionNumbers(NamedTuple):
    """Axes of a ragged product.

    Attributes
    ----------
    dot_dimension_numbers : ((lhs contracting, rhs contracting), (lhs batch, rhs batch))
    lhs_ragged_dimensions : sequence of int
        The one axis of `lhs` that is cut into groups.
    rhs_group_dimensions : sequence of int
        The axis of `rhs` that counts the groups, if the ragged axis is neither contracting nor batch.
    """

    dot_dimension_numbers: Any
    lhs_ragged_dimensions: Sequence[int]
    rhs_group_dimensions: Sequence[int]


def ragged_dot(
    lhs: Any, rhs: Any, group_sizes: Any, precision: Any = None, preferred_element_type: Any = None, group_offset: Any = None,
    out_sharding: Any = None,
) -> Any:  # fmt: skip
    """Multiply consecutive groups of rows of `lhs` by one matrix each.

    See `purax.primitives.ragged` for the arguments that its functions share.

    Parameters
    ----------
    lhs : array [m, k]
    rhs : array [g, k, n]
    group_sizes : integers [g]
        Rows of each group; rows beyond their sum give zeros.
    group_offset : integers [1], optional
        `rhs` holds the groups from this one on, and `group_sizes` tells of all.

    Returns
    -------
    array [m, n]
    """
    numbers = RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), (0,), (0,))
    return ragged_dot_general(lhs, rhs, group_sizes, numbers, precision, preferred_element_type, group_offset)


def _in_group(lhs: Any, group_sizes: Any, count: int, offset: Any, prefix: tuple[int, ...], ragged: int) -> Any:
    """bool[count, *lhs.shape]: which elements of `lhs` belong to which group; sizes of groups may differ along `prefix` axes."""
    sizes = aval_of(group_sizes)
    last = sizes.ndim - 1
    ends = cumulative.cumsum(group_sizes, last)
    starts = elementwise.sub(ends, group_sizes)
    if offset is not None:
        first = shape.reshape(offset, ())
        starts, ends = (slicing.dynamic_slice_in_dim(x, first, count, last) for x in (starts, ends))
    # The axes (prefix, groups) of the bounds, moved to where they stand in the result.
    places = (*(d + 1 for d in prefix), 0) if last else (0,)
    order = sorted(range(last + 1), key=lambda i: places[i])
    wide = (count, *aval_of(lhs).shape)
    starts, ends = (shape.broadcast_in_dim(shape.transpose(x, order), wide, sorted(places)) for x in (starts, ends))
    rows = shape.broadcasted_iota(sizes.dtype, wide, ragged + 1)
    return elementwise.bitwise_and(elementwise.ge(rows, starts), elementwise.lt(rows, ends))


def _check(left: Any, right: Any, sizes: Any, numbers: Any, prefix: tuple[int, ...], whole: bool) -> None:
    """Raise ShapeError unless the sizes of groups and the group axis of `rhs` fit; `whole`: `rhs` holds all groups."""
    (lc, rc), (lb, rb) = numbers.dot_dimension_numbers
    (ragged,), groups = numbers.lhs_ragged_dimensions, tuple(numbers.rhs_group_dimensions)
    expected = (*(left.shape[d] for d in prefix), *sizes.shape[-1:])
    if sizes.ndim != 1 and sizes.shape != expected:
        raise errors.ShapeError(
            f"ragged_dot_general: expected group_sizes to have shape {expected} or to be a vector, got {sizes.shape}"
        )
    if ragged in (*lc, *lb):
        if groups:
            raise errors.ShapeError(
                f"ragged_dot_general: the ragged axis {ragged} is contracting or batch, so rhs has no group axis; got {groups}"
            )
        return
    if len(groups) != 1 or not 0 <= groups[0] < right.ndim or groups[0] in (*rc, *rb):
        raise errors.ShapeError(
            f"ragged_dot_general: rhs needs one group axis among those that are neither contracting {tuple(rc)} nor batch "
            f"{tuple(rb)}, got {groups}"
        )
    if whole and right.shape[groups[0]] != sizes.shape[-1]:
        raise errors.ShapeError(
            f"ragged_dot_general: the group axis {groups[0]} of rhs has size {right.shape[groups[0]]}, but group_sizes tells "
            f"of {sizes.shape[-1]} groups"
        )


def ragged_dot_general(
    lhs: Any, rhs: Any, group_sizes: Any, ragged_dot_dimension_numbers: RaggedDotDimensionNumbers, precision: Any = None,
    preferred_element_type: Any = None, group_offset: Any = None, out_sharding: Any = None,
) -> Any:  # fmt: skip
    """`dot_general` in which one axis of `lhs` is cut into groups of sizes `group_sizes`.

    Three cases, by the part that the ragged axis plays: kept, each group meets its own slice of `rhs`; contracting, there is one
    result for each group, along a new first axis; batch, the groups make no difference.

    See `purax.primitives.ragged` for the arguments that its functions share.

    Parameters
    ----------
    lhs, rhs : arrays
    group_sizes : integers [g] or [..., g]
        The leading axes are the batch axes of `lhs` and those of the ragged axis's kind that stand before it.
    ragged_dot_dimension_numbers : RaggedDotDimensionNumbers
    group_offset : integers [1], optional
        As in `ragged_dot`.

    Returns
    -------
    array
        Shape as of `dot_general` (without the group axis of `rhs`), in the second case with the groups in front.

    Raises
    ------
    ShapeError
        More than one ragged axis, sizes of groups that do not fit, or a missing group axis.
    """
    numbers = ragged_dot_dimension_numbers
    (lc, rc), (lb, rb) = (
        tuple(tuple(operator.index(d) for d in side) for side in pair) for pair in numbers.dot_dimension_numbers
    )
    left, sizes = aval_of(lhs), aval_of(group_sizes)
    ragged_axes = tuple(operator.index(d) for d in numbers.lhs_ragged_dimensions)
    if len(ragged_axes) != 1 or not 0 <= ragged_axes[0] < left.ndim or sizes.ndim == 0:
        raise errors.ShapeError(
            f"ragged_dot_general takes one ragged axis of lhs (shape {left.shape}) and sizes of groups with at least one axis, "
            f"got axes {ragged_axes} and sizes of shape {sizes.shape}"
        )
    (ragged,) = ragged_axes
    if ragged in lb:
        prefix = lb[: lb.index(ragged)]
    else:
        alike = lc if ragged in lc else tuple(d for d in range(left.ndim) if d not in (*lc, *lb))
        prefix = (*lb, *alike[: alike.index(ragged)])
    _check(left, aval_of(rhs), sizes, numbers, prefix, group_offset is None)
    if ragged in lb:
        return contraction.dot_general(lhs, rhs, ((lc, rc), (lb, rb)), precision, preferred_element_type)
    groups = sizes.shape[-1]
    if ragged not in lc:
        (group_axis,) = (operator.index(d) for d in numbers.rhs_group_dimensions)
        groups = aval_of(rhs).shape[group_axis]
    mask = _in_group(lhs, group_sizes, groups, group_offset, prefix, ragged)
    spread = shape.broadcast_in_dim(lhs, (groups, *left.shape), range(1, left.ndim + 1))
    spread = elementwise.select(mask, spread, shape.full_like(spread, 0))
    lc, lb = tuple(d + 1 for d in lc), tuple(d + 1 for d in lb)
    if ragged + 1 in lc:
        out = contraction.dot_general(spread, rhs, ((lc, rc), (lb, rb)), precision, preferred_element_type)
        order = list(range(aval_of(out).ndim))
        order.insert(0, order.pop(len(lb)))
        return shape.transpose(out, order)
    return contraction.dot_general(
        spread, rhs, (((0, *lc), (group_axis, *rc)), (lb, rb)), precision, preferred_element_type
    )
