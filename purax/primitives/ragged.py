# SPDX-License-Identifier: Apache-2.0
"""Products with groups of rows of different sizes, each with a matrix of its own (mixtures of experts)."""

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


def _in_group(size: int, group_sizes: Any, count: int, offset: Any) -> Any:
    """bool[count, size]: which rows belong to which group."""
    sizes = aval_of(group_sizes)
    ends = cumulative.cumsum(group_sizes)
    starts = elementwise.sub(ends, group_sizes)
    if offset is not None:
        first = shape.reshape(offset, ())
        starts, ends = (slicing.dynamic_slice(x, (first,), (count,)) for x in (starts, ends))
    rows = shape.broadcasted_iota(sizes.dtype, (count, size), 1)
    starts, ends = (shape.broadcast_in_dim(x, (count, size), (0,)) for x in (starts, ends))
    return elementwise.bitwise_and(elementwise.ge(rows, starts), elementwise.lt(rows, ends))


def ragged_dot_general(
    lhs: Any, rhs: Any, group_sizes: Any, ragged_dot_dimension_numbers: RaggedDotDimensionNumbers, precision: Any = None,
    preferred_element_type: Any = None, group_offset: Any = None, out_sharding: Any = None,
) -> Any:  # fmt: skip
    """`dot_general` in which one axis of `lhs` is cut into groups of sizes `group_sizes`.

    Three cases, by the part that the ragged axis plays: kept, each group meets its own slice of `rhs`; contracting, there is one
    result for each group, along a new first axis; batch, the groups make no difference.

    Parameters
    ----------
    lhs, rhs : arrays
    group_sizes : integers [g]
    ragged_dot_dimension_numbers : RaggedDotDimensionNumbers

    Returns
    -------
    array
        Shape as of `dot_general` (without the group axis of `rhs`), in the second case with the groups in front.

    Raises
    ------
    ShapeError
        More than one ragged axis, or sizes of groups that are not a vector.
    """
    numbers = ragged_dot_dimension_numbers
    (lc, rc), (lb, rb) = (
        tuple(tuple(operator.index(d) for d in side) for side in pair) for pair in numbers.dot_dimension_numbers
    )
    if len(numbers.lhs_ragged_dimensions) != 1 or aval_of(group_sizes).ndim != 1:
        raise errors.ShapeError(
            f"ragged_dot takes one ragged axis and a vector of sizes, got axes {tuple(numbers.lhs_ragged_dimensions)} and sizes of "
            f"shape {aval_of(group_sizes).shape}"
        )
    (ragged,) = (operator.index(d) for d in numbers.lhs_ragged_dimensions)
    left = aval_of(lhs)
    if ragged in lb:
        return contraction.dot_general(lhs, rhs, ((lc, rc), (lb, rb)), precision, preferred_element_type)
    groups = aval_of(group_sizes).shape[0]
    if ragged not in lc:
        if len(numbers.rhs_group_dimensions) != 1:
            raise errors.ShapeError("ragged_dot needs the axis of rhs that counts the groups")
        (group_axis,) = (operator.index(d) for d in numbers.rhs_group_dimensions)
        groups = aval_of(rhs).shape[group_axis]
    inside = _in_group(left.shape[ragged], group_sizes, groups, group_offset)
    wide = (groups, *left.shape)
    mask = shape.broadcast_in_dim(inside, wide, (0, ragged + 1))
    spread = shape.broadcast_in_dim(lhs, wide, range(1, left.ndim + 1))
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
