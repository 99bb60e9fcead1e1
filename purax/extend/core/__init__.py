# SPDX-License-Identifier: Apache-2.0
"""The names of `jax.extend.core` that purax has: programs, and primitives that users define."""

from purax.control.known import find_top_trace as find_top_trace
from purax.core.interpret import jaxpr_as_fun as jaxpr_as_fun
from purax.core.ir import ClosedJaxpr as ClosedJaxpr
from purax.core.ir import Equation as JaxprEqn
from purax.core.ir import Jaxpr as Jaxpr
from purax.core.ir import Literal as Literal
from purax.core.ir import Var as Var
from purax.extend.core import primitives as primitives
from purax.transforms.defined import DefinedPrimitive as Primitive
from purax.transforms.defined import mapped_aval as mapped_aval
from purax.transforms.defined import unmapped_aval as unmapped_aval

__all__ = [
    "ClosedJaxpr", "Jaxpr", "JaxprEqn", "Literal", "Primitive", "Var", "find_top_trace", "jaxpr_as_fun", "mapped_aval",
    "unmapped_aval",
]  # fmt: skip
