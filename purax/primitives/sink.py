# SPDX-License-Identifier: Apache-2.0
"""`dce_sink`: a use of a value that keeps its computation in the program."""

from __future__ import annotations

from typing import Any, ClassVar

from purax import tree
from purax.core.hooks import hooks
from purax.core.primitive import Primitive, Undefined

__all__ = ["dce_sink", "dce_sink_p"]


class Kept:
    """The effect of being used: no pass drops the equation."""

    ordered: ClassVar[bool] = False

    def __repr__(self) -> str:
        return "kept"


_KEPT = frozenset({Kept()})


class DceSink(Primitive):
    """Takes one value and gives none."""

    transpose = Undefined("it has no outputs, so no cotangent reaches it")

    def infer(self, x: Any, *, prevent_mlir_dce: bool) -> tuple[Any, ...]:
        """Nothing."""
        return ()

    def effects(self, params: dict[str, Any]) -> frozenset[Any]:
        """One that keeps the equation."""
        return _KEPT

    def reference(self, x: Any, *, prevent_mlir_dce: bool) -> tuple[Any, ...]:
        """Nothing."""
        return ()

    def run(self, operands: Any, params: dict[str, Any]) -> tuple[Any, ...]:
        """Nothing: an eager value is computed already."""
        return ()

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> Any:
        """The value is used; its tangent is not."""
        return self.bind(*primals, **params), ()

    def batch(self, axis: Any, operands: Any, dims: Any, **params: Any) -> Any:
        """A use of all lanes."""
        return self.bind(*operands, **params), ()

    def lower(self, b: Any, ins: Any, outs: Any, *, prevent_mlir_dce: bool) -> list[Any]:
        """Nothing, or a call that the compiler must keep."""
        if prevent_mlir_dce:
            b.statement(
                f"stablehlo.custom_call @dce_sink({ins[0]}) {{api_version = 4 : i32, has_side_effect = true}} : "
                f"({ins[0].hlo}) -> ()"
            )
        return []


dce_sink_p = DceSink("dce_sink")


def dce_sink(val: Any, *, prevent_mlir_dce: bool = False) -> None:
    """Use the arrays of a pytree, so that the passes over jaxprs keep what computes them.

    Parameters
    ----------
    val : pytree of arrays
    prevent_mlir_dce : bool
        Keep them through the compiler as well, by a call of a foreign function that has an effect.
    """
    for leaf in tree.leaves(val):
        dce_sink_p.bind(hooks.as_array(leaf), prevent_mlir_dce=prevent_mlir_dce)
