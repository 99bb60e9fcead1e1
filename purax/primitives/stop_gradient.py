# SPDX-License-Identifier: Apache-2.0
"""`stop_gradient`: the identity, constant as far as derivatives are concerned."""

from __future__ import annotations

from typing import Any

from purax import tree
from purax.core.primitive import Primitive
from purax.core.trace import aval_of
from purax.primitives.base import is_differentiable
from purax.sharding import rules

__all__ = ["stop_gradient", "stop_gradient_p"]


class StopGradient(Primitive):
    """The identity with no tangent."""

    exact = True

    terms = True

    spread = rules.same

    def infer(self, x: Any) -> Any:
        """Type of the operand."""
        return (x,)

    def reference(self, x: Any) -> Any:
        """The operand."""
        return (x,)

    def jvp(self, primals: Any, tangents: Any) -> Any:
        """The tangent is zero, to any order."""
        return self.bind(*primals), (None,)

    def batch(self, axis: Any, operands: Any, dims: Any) -> Any:
        """The identity keeps the batch axis."""
        return self.bind(*operands), dims

    def lower(self, b: Any, ins: Any, outs: Any) -> Any:
        """The operand."""
        return ins


stop_gradient_p = StopGradient("stop_gradient")


def stop_gradient(x: Any) -> Any:
    """`x`, treated as a constant by every derivative.

    Parameters
    ----------
    x : pytree of arrays

    Returns
    -------
    pytree like `x`
    """
    return tree.map(lambda leaf: stop_gradient_p.bind1(leaf) if is_differentiable(aval_of(leaf).dtype) else leaf, x)
