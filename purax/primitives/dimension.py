# SPDX-License-Identifier: Apache-2.0
"""The value of a size that is not known while the program is written."""

from __future__ import annotations

from typing import Any

import numpy as np

from purax import errors
from purax.core.aval import array_aval
from purax.core.dims import Dim, writing
from purax.core.hooks import hooks
from purax.core.primitive import Primitive, Undefined
from purax.core.trace import current

__all__ = ["dimension_p"]

_TYPE = array_aval((), np.dtype(np.int32), True)


class Dimension(Primitive):
    """`size` as a weakly typed integer; a constant once the sizes of a program are filled in."""

    reference = Undefined("its value is known when the program is called")
    jvp = Undefined("it has no operands")
    batch = Undefined("it has no operands")

    def infer(self, *, size: Dim) -> Any:
        """A scalar."""
        return (_TYPE,)

    def lower(self, b: Any, ins: Any, outs: Any, *, size: Dim) -> list[Any]:
        """A constant that is filled in."""
        with writing():
            return [b.emit(f"stablehlo.constant dense<{size}> : {outs[0].hlo}", outs[0])]


dimension_p = Dimension("dimension")


def _value(size: Dim) -> Any:
    if current.get() is None:
        raise errors.InconclusiveDimensionOperation(
            f"the size {size} has a value within an exported program only, and is used outside of one"
        )
    return dimension_p.bind1(size=size)


hooks.dim_value = _value
