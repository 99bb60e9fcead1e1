# SPDX-License-Identifier: Apache-2.0
"""Attributes for the compiler on the operation that gives a value."""

from __future__ import annotations

from typing import Any

from purax.primitives.base import LinearUnary

__all__ = ["xla_metadata_value_p"]


class XlaMetadataValue(LinearUnary):
    """The identity; the operation that gave the operand gets attributes. Tangents and cotangents do not."""

    exact = True

    def infer(self, x: Any, *, xla_metadata_kvs: Any) -> Any:
        """Type of the operand."""
        return (x,)

    def reference(self, x: Any, *, xla_metadata_kvs: Any) -> Any:
        """The operand."""
        return (x,)

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> Any:
        """The tangent as it is."""
        return self.bind(*primals, **params), tangents

    def transpose(self, cotangents: Any, operands: Any, *, xla_metadata_kvs: Any) -> Any:
        """The identity."""
        return cotangents

    def batch(self, axis: Any, operands: Any, dims: Any, *, xla_metadata_kvs: Any) -> Any:
        """The identity."""
        return self.bind(operands[0], xla_metadata_kvs=xla_metadata_kvs), dims

    def lower(self, b: Any, ins: Any, outs: Any, *, xla_metadata_kvs: Any) -> Any:
        """The operand."""
        b.tag(ins[0], xla_metadata_kvs)
        return ins


xla_metadata_value_p = XlaMetadataValue("xla_metadata_value")
