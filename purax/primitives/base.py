# SPDX-License-Identifier: Apache-2.0
"""What the rules of many primitives share: symbolic zeros, families of primitives that are linear in one operand."""

from __future__ import annotations

from typing import Any

from purax import dtypes
from purax.core.aval import ShapedArray
from purax.core.primitive import Linear, Primitive
from purax.core.trace import aval_of

__all__ = ["LinearUnary", "add_tangents", "instantiate", "is_linear", "zeros_of"]


def zeros_of(x: Any) -> Any:
    """Zeros of the shape and dtype of a value or aval, named axes included."""
    aval = x if isinstance(x, ShapedArray) else aval_of(x)
    zeros = shape.full_like_aval(aval, 0)
    if aval.spread is not None:
        zeros = resharding.reshard_to(zeros, aval.spread)
    return collective.pvary_p.bind1(zeros, axes=tuple(sorted(aval.varying, key=str))) if aval.varying else zeros


def instantiate(tangent: Any, primal: Any) -> Any:
    """`tangent`, or explicit zeros of the shape and dtype of `primal` when it is the symbolic zero."""
    return zeros_of(aval_of(primal)) if tangent is None else tangent


def add_tangents(a: Any, b: Any) -> Any:
    """Sum of two tangents a and b of one shape and dtype, either of which may be the symbolic zero, as their sum then is."""
    if a is None:
        return b
    if b is None:
        return a
    return elementwise.add_p.bind1(a, b)


def is_linear(x: Any) -> bool:
    """Whether an operand of `transpose` is marked linear."""
    return type(x) is Linear


def is_differentiable(dtype: Any) -> bool:
    """Whether values of the dtype have tangents."""
    return not isinstance(dtype, dtypes.KeyDtype) and dtypes.is_inexact(dtype)


class LinearUnary(Primitive):
    """A primitive with one output that is linear in its first operand; other operands carry no tangent.

    Subclasses give `transpose`; the tangent of the output is the primitive applied to the tangent.
    """

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> Any:
        """The map itself, applied to the tangent."""
        out = self.bind1(*primals, **params)
        if tangents[0] is None:
            return (out,), (None,)
        return (out,), (self.bind1(tangents[0], *primals[1:], **params),)


from purax.primitives import collective, elementwise, resharding, shape  # noqa: E402  (siblings import this module's names)
