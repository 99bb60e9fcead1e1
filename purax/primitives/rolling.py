# SPDX-License-Identifier: Apache-2.0
"""`roll`: elements moved along an axis by a known number of places, those that leave one end coming in at the other."""

from __future__ import annotations

from typing import Any

import numpy as np

from purax import dtypes, errors
from purax.primitives.base import LinearUnary
from purax.sharding import rules

__all__ = ["roll_p"]


class Roll(LinearUnary):
    """Element `i` along `axis` of the result is element `i - shift` of the operand, counted around.

    An operation of its own, because its transpose is a roll again: written by slices and a concatenation it would be known by its
    pieces only, and the sums of padded pieces that these transpose to are slow.
    """

    exact = True

    spread = rules.same

    def infer(self, x: Any, *, shift: int, axis: int) -> Any:
        if not 0 <= axis < x.ndim:
            raise errors.ShapeError(f"axis {axis} is out of bounds for an operand with {x.ndim} axes")
        return (x,)

    def reference(self, x: Any, *, shift: int, axis: int) -> Any:
        return (np.roll(x, shift, axis),)

    def transpose(self, cotangents: Any, operands: Any, *, shift: int, axis: int) -> Any:
        (t,) = cotangents
        return (None if t is None else self.bind1(t, shift=-shift, axis=axis),)

    def batch(self, axis_data: Any, operands: Any, dims: Any, *, shift: int, axis: int) -> Any:
        (d,) = dims
        return (self.bind1(operands[0], shift=shift, axis=axis + (axis >= d)),), dims

    def lower(self, b: Any, ins: Any, outs: Any, *, shift: int, axis: int) -> Any:
        """Two pieces, joined; near the end, on CPU, the whole operand with one more piece at its side, and a window of these.

        XLA computes a concatenation along the last axis by copies, which nothing is merged with: the window then leaves one copy
        where two pieces would need two. A vector is the exception.
        """
        (x,), (out,) = ins, outs
        size = out.shape[axis]
        back = shift % size if size else 0  # how many elements of the end come in front
        if not back:
            return [x]
        dtype = dtypes.whole_bytes(out.dtype)  # XLA aborts the process over pieces of 2-bit integers
        x = b.convert(x, dtype)
        if b.module.platform != "cpu" or out.ndim == 1 or 4 * min(back, size - back) > size:
            rolled = _join(b, _cut(b, x, axis, size - back, size), _cut(b, x, axis, 0, size - back), axis)
        elif 2 * back <= size:
            rolled = _cut(b, _join(b, _cut(b, x, axis, size - back, size), x, axis), axis, 0, size)
        else:
            front = size - back
            rolled = _cut(b, _join(b, x, _cut(b, x, axis, 0, front), axis), axis, front, size + front)
        return [b.convert(rolled, out.dtype)]


roll_p = Roll("roll")


def _cut(b: Any, x: Any, axis: int, start: int, limit: int) -> Any:
    aval = x.aval.update(shape=(*x.shape[:axis], limit - start, *x.shape[axis + 1 :]))
    ranges = ", ".join(f"{start}:{limit}" if d == axis else f"0:{n}" for d, n in enumerate(x.shape))
    return b.emit(f"stablehlo.slice {x} [{ranges}] : ({x.hlo}) -> {aval.hlo}", aval)


def _join(b: Any, x: Any, y: Any, axis: int) -> Any:
    aval = x.aval.update(shape=(*x.shape[:axis], x.shape[axis] + y.shape[axis], *x.shape[axis + 1 :]))
    return b.emit(f"stablehlo.concatenate {x}, {y}, dim = {axis} : ({x.hlo}, {y.hlo}) -> {aval.hlo}", aval)
