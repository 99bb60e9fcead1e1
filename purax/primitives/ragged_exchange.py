# SPDX-License-Identifier: Apache-2.0
"""`ragged_all_to_all`: lanes send one another slices of different lengths."""

from __future__ import annotations

from typing import Any

import numpy as np

from purax import dtypes, errors
from purax.core.trace import aval_of
from purax.primitives import cast, collective, elementwise, gather, operands, reduction, shape

__all__ = ["ragged_all_to_all"]


def ragged_all_to_all(
    operand: Any, output: Any, input_offsets: Any, send_sizes: Any, output_offsets: Any, recv_sizes: Any, *, axis_name: Any,
    axis_index_groups: Any = None,
) -> Any:  # fmt: skip
    """Send slices of rows to the lanes of an axis, and write those that come from them into `output`.

    Of the k slices, each lane is sent k / lanes, in order.

    Parameters
    ----------
    operand : array [n, ...]
        Rows to send.
    output : array [m, ...]
        What the received rows are written into; of the dtype of `operand`.
    input_offsets, send_sizes : integers [k]
        Where in `operand` each slice begins, and how many rows it has.
    output_offsets : integers [k]
        Where in the `output` of its receiver each slice is written.
    recv_sizes : integers [k]
        How many rows the slices that arrive have: `all_to_all` of `send_sizes`.
    axis_name : hashable
    axis_index_groups : sequence of sequences of int, optional
        Lanes exchange within their group.

    Returns
    -------
    array of the shape and dtype of `output`

    Raises
    ------
    ShapeError, DTypeError
        The operands do not fit one another, or the axis.

    Notes
    -----
    Every lane gathers the rows of all lanes and picks its own.
    """
    tables = [operands.lift(x) for x in (input_offsets, send_sizes, output_offsets, recv_sizes)]
    _check(aval_of(operand), aval_of(output), [aval_of(x) for x in tables])

    def gathered(x: Any) -> Any:
        return collective.all_gather(x, axis_name, axis_index_groups=axis_index_groups)

    def received(x: Any) -> Any:
        return collective.all_to_all(
            cast.convert_element_type(x, np.int32), axis_name, 0, 0, axis_index_groups=axis_index_groups, tiled=True
        )

    begin, _, target, count = tables
    begin, target, count = received(begin), received(target), cast.convert_element_type(count, np.int32)
    rows = gathered(operand)
    lanes, n = aval_of(rows).shape[:2]
    k, m = aval_of(begin).shape[0], aval_of(output).shape[0]
    if k % lanes:
        raise errors.ShapeError(f"ragged_all_to_all: {k} slices cannot be divided among {lanes} lanes")
    # For each row of the output, the last slice that is written there, if there is one.
    place = shape.broadcasted_iota(np.dtype(np.int32), (m, k), 0)
    first, end, number = (
        shape.broadcast_in_dim(x, (m, k), (1,))
        for x in (target, elementwise.add(target, count), shape.iota(np.int32, k))
    )
    inside = elementwise.bitwise_and(elementwise.ge(place, first), elementwise.lt(place, end))
    chosen = reduction.reduce_max(elementwise.select(inside, number, shape.full_like(number, -1)), (1,))
    found = elementwise.ge(chosen, np.int32(0))
    chosen = elementwise.max(chosen, np.int32(0))
    offset = elementwise.add(
        gather.index_take(begin, [chosen], (0,)),
        elementwise.sub(shape.iota(np.int32, m), gather.index_take(target, [chosen], (0,))),
    )
    sender = elementwise.div(chosen, np.int32(k // lanes))
    source = elementwise.add(elementwise.mul(sender, np.int32(n)), elementwise.clamp(0, offset, n - 1))
    flat = shape.reshape(rows, (lanes * n, *aval_of(rows).shape[2:]))
    arrived = gather.index_take(flat, [source], (0,))
    return elementwise.select(shape.broadcast_in_dim(found, aval_of(output).shape, (0,)), arrived, output)


def _check(operand: Any, output: Any, tables: list[Any]) -> None:
    if operand.ndim == 0 or operand.shape[1:] != output.shape[1:] or operand.dtype != output.dtype:
        raise errors.ShapeError(
            f"ragged_all_to_all: operand {operand.str_short()} and output {output.str_short()} must agree in dtype and in all axes "
            "but the first"
        )
    for name, aval in zip(("input_offsets", "send_sizes", "output_offsets", "recv_sizes"), tables, strict=True):
        if not dtypes.is_integer(aval.dtype):
            raise errors.DTypeError(f"ragged_all_to_all: {name} must be integers, got {aval.str_short()}")
        if aval.ndim != 1 or aval.shape != tables[0].shape or aval.size == 0:
            raise errors.ShapeError(
                f"ragged_all_to_all: {name} must be a vector with one entry for each slice, got shape {aval.shape} beside "
                f"{tables[0].shape}"
            )
