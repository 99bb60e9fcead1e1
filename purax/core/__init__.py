# SPDX-License-Identifier: Apache-2.0
"""The machine: avals, primitives, traces, jaxprs. Knows no primitive, no text and no device.

The names of `jax.core` are offered here, too.
"""

from purax.core.aval import AbstractValue as AbstractValue
from purax.core.aval import ShapedArray as ShapedArray
from purax.core.interpret import eval_jaxpr as eval_jaxpr
from purax.core.ir import ClosedJaxpr as ClosedJaxpr
from purax.core.ir import Jaxpr as Jaxpr
from purax.core.ir import Literal as Literal
from purax.core.ir import Var as Var
from purax.core.primitive import Primitive as Primitive
from purax.core.trace import Trace as Trace
from purax.core.trace import Tracer as Tracer
