# SPDX-License-Identifier: Apache-2.0
"""One iteration of a lowered `scan`: rows of the stacked inputs are read, the body is written, rows of the outputs are stored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from purax.control.program_call import Jit
from purax.core.aval import array_aval
from purax.core.ir import Jaxpr, Var
from purax.primitives import barrier, cast, comparison, joining, rolling, shape, slicing
from purax.primitives.family import Elementwise

__all__ = ["INDEX", "Step"]

INDEX = array_aval((), np.dtype(np.int32))

_CUTS: dict[Any, int] = {  # what reads or places parts of a value, and how many; a split counts its results
    joining.concatenate_p: 1, joining.pad_p: 1, joining.slice_p: 1, joining.split_p: 0, rolling.roll_p: 2,
    slicing.dynamic_slice_p: 1, slicing.dynamic_update_slice_p: 1,
}  # fmt: skip
_PASSES = {cast.convert_element_type_p, comparison.select_n_p, shape.reshape_p, shape.squeeze_p}


class Step:
    """Writes one iteration of a scan.

    XLA on CPU merges the reading of a row with what uses it. Loops that read or place several parts of the row become slow by
    this (3 to 5 times on stencils: they are not vectorized any more), so such rows are read by a call, which nothing is merged
    with; other rows are better merged, as this saves a copy.
    """

    def __init__(
        self, b: Any, jaxpr: Jaxpr, fixed: Sequence[Any], xs: Sequence[Any], carry: int, length: int, reverse: bool
    ) -> None:
        self.jaxpr, self.fixed, self.xs, self.carry = jaxpr, fixed, xs, carry
        self.length, self.reverse = length, reverse
        alone = b.module.platform == "cpu" and len(b.module.order) <= 1 and b.module.manual is None
        self.apart = parts_of_rows(jaxpr, len(jaxpr.invars) - len(xs)) if alone and xs else [0] * len(xs)

    def __call__(
        self, b: Any, index: Any, state: list[Any], rows: list[Any], known: bool = False
    ) -> tuple[list[Any], list[Any]]:
        """Write the iteration `index`, which may be `known` when the program is compiled; returns carry and outputs."""
        if self.reverse:
            last = b.constant(self.length - 1, INDEX)
            index = b.emit(f"stablehlo.subtract {last}, {index} : tensor<i32>", INDEX)
        slices = [
            _read_apart(b, x, index) if parts > 1 and not known else _read(b, x, index)
            for x, parts in zip(self.xs, self.apart, strict=True)
        ]
        results = b.jaxpr(self.jaxpr, [*self.fixed, *state, *slices], "while", "body")
        written = [_write(b, row, y, index) for row, y in zip(rows, results[self.carry :], strict=True)]
        return results[: self.carry], written


def parts_of_rows(jaxpr: Jaxpr, first: int) -> list[int]:
    """How many parts of each input from number `first` on are cut out or placed, elementwise operations between them aside."""
    counts = [0] * (len(jaxpr.invars) - first)
    _count(jaxpr, [0] * first + [1 << i for i in range(len(counts))], counts)
    return counts


def _count(jaxpr: Jaxpr, marks: Sequence[int], counts: list[int]) -> list[int]:
    """Add to `counts`; marks say from which rows a value is made, as bits."""
    made: dict[Any, int] = {v: m for v, m in zip(jaxpr.invars, marks, strict=True) if m}
    for eqn in jaxpr.eqns if made else ():
        found = [made.get(a, 0) if type(a) is Var else 0 for a in eqn.invars]
        mark = 0
        for m in found:
            mark |= m
        if not mark:
            continue
        primitive = eqn.primitive
        if primitive is barrier.optimization_barrier_p:
            made.update(zip(eqn.outvars, found, strict=True))
            continue
        if isinstance(primitive, Jit):
            made.update(zip(eqn.outvars, _count(eqn.params["jaxpr"], found, counts), strict=True))
            continue
        parts = len(eqn.outvars) if primitive is joining.split_p else _CUTS.get(primitive)
        if parts:
            for i in range(len(counts)):
                counts[i] += parts * (mark >> i & 1)
        elif not isinstance(primitive, Elementwise) and primitive not in _PASSES:
            continue
        made.update((v, mark) for v in eqn.outvars)
    return [made.get(a, 0) if type(a) is Var else 0 for a in jaxpr.outvars]


def _read(b: Any, x: Any, index: Any) -> Any:
    """Row `index` of `x`."""
    aval = x.aval
    one = aval.update(shape=(1, *aval.shape[1:]))
    sizes = ", ".join(map(str, one.shape))
    starts = ", ".join([str(index), *(str(b.constant(0, INDEX)) for _ in aval.shape[1:])])
    types = ", ".join(["tensor<i32>"] * aval.ndim)
    piece = b.emit(f"stablehlo.dynamic_slice {x}, {starts}, sizes = [{sizes}] : ({x.hlo}, {types}) -> {one.hlo}", one)
    return b.reshape(piece, aval.shape[1:])


def _read_apart(b: Any, x: Any, index: Any) -> Any:
    """Row `index` of `x`, by a function that is not inlined."""
    row = x.aval.update(shape=x.shape[1:])
    function = b.shared(("row", x.aval.strip_weak()), "row", [x.aval, INDEX], lambda inner, *ins: [_read(inner, *ins)])
    return b.call_named(function, [x, index], [row], inline=False)[0]


def _write(b: Any, rows: Any, y: Any, index: Any) -> Any:
    aval = rows.aval
    piece = b.reshape(y, (1, *aval.shape[1:]))
    starts = ", ".join([str(index), *(str(b.constant(0, INDEX)) for _ in aval.shape[1:])])
    types = ", ".join(["tensor<i32>"] * aval.ndim)
    return b.emit(
        f"stablehlo.dynamic_update_slice {rows}, {piece}, {starts} : ({rows.hlo}, {piece.hlo}, {types}) -> {rows.hlo}",
        aval,
    )
