# SPDX-License-Identifier: Apache-2.0
"""`optimization_barrier`: values that the compiler must have in memory, all together, before anything after them begins."""

from __future__ import annotations

from typing import Any

import numpy as np

from purax import tree
from purax.core.aval import ShapedArray
from purax.core.primitive import Primitive
from purax.sharding import rules

__all__ = [
    "optimization_barrier", "optimization_barrier_p",
]  # fmt: skip


class OptimizationBarrier(Primitive):
    """The identity on any number of operands, through which no optimisation passes."""

    exact = True
    passes = True

    spread = rules.each

    def infer(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        """The operands' types."""
        return avals

    def reference(self, *operands: Any) -> tuple[np.ndarray, ...]:
        """The operands."""
        return operands

    def jvp(self, primals: Any, tangents: Any) -> Any:
        """A barrier for the tangents of its own."""
        outs = self.bind(*primals)
        known = [t for t in tangents if t is not None]
        passed = iter(self.bind(*known) if known else ())
        return outs, tuple(None if t is None else next(passed) for t in tangents)

    def transpose(self, cotangents: Any, operands: Any) -> Any:
        """A barrier for the cotangents."""
        known = [ct for ct in cotangents if ct is not None]
        passed = iter(self.bind(*known) if known else ())
        return tuple(None if ct is None else next(passed) for ct in cotangents)

    def batch(self, axis: Any, operands: Any, dims: Any) -> Any:
        """The identity keeps the batch axes."""
        return self.bind(*operands), tuple(dims)

    def lower(self, b: Any, ins: Any, outs: Any) -> list[Any]:
        """`stablehlo.optimization_barrier`."""
        if not ins:
            return []
        names, types = ", ".join(map(str, ins)), ", ".join(x.hlo for x in ins)
        return b.emit_many(f"stablehlo.optimization_barrier {names} : {types}", outs)


optimization_barrier_p = OptimizationBarrier("optimization_barrier")


def optimization_barrier(operand: Any, /) -> Any:
    """Return the pytree of arrays as it is, shapes and dtypes too; the compiler neither moves nor merges work across it."""
    leaves, structure = tree.flatten(operand)
    return tree.unflatten(structure, optimization_barrier_p.bind(*leaves))
