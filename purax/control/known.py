# SPDX-License-Identifier: Apache-2.0
"""Evaluation of what is known while the rest is traced: `ensure_compile_time_eval` and partial evaluation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from purax.core.aval import ShapedArray
from purax.core.ir import Jaxpr
from purax.core.stage import StageTrace, stage
from purax.core.trace import Trace, Tracer, aval_of, bind_in, current

__all__ = [
    "PartialVal",
    "ensure_compile_time_eval",
    "find_top_trace",
    "trace_to_jaxpr_dynamic",
    "trace_to_jaxpr_nounits",
]


class _KnownTrace(Trace):
    """Hands operations on values that `traced` holds for to its parent, and all others to `outer` (None: evaluate)."""

    __slots__ = ("outer", "traced")
    kind = "evaluation of what is known"

    def __init__(self, parent: Any, outer: Any, traced: Callable[[Any], bool]) -> None:
        super().__init__(parent)
        self.outer, self.traced = outer, traced

    def process(self, primitive: Any, operands: tuple[Any, ...], params: dict[str, Any]) -> tuple[Any, ...]:
        """Interpret one primitive in the trace that knows all of its operands."""
        level = self.parent if any(map(self.traced, operands)) else self.outer
        token = current.set(level)
        try:
            return bind_in(level, primitive, operands, params)
        finally:
            current.reset(token)


@contextmanager
def ensure_compile_time_eval() -> Iterator[None]:
    """Context in which operations on known values are evaluated at once, even while a function is traced.

    Operations on traced values are recorded as they are outside of it.
    """
    parent = current.get()
    token = current.set(None if parent is None else _KnownTrace(parent, None, lambda x: isinstance(x, Tracer)))
    try:
        yield
    finally:
        current.reset(token)


class PartialVal(tuple[Any, Any]):
    """A pair: None and a value that is known, or the type of one that is not, and None."""

    def __new__(cls, pair: tuple[Any, Any]) -> PartialVal:
        """Of such a pair."""
        return super().__new__(cls, pair)

    @classmethod
    def known(cls, value: Any) -> PartialVal:
        """A value that is known."""
        return cls((None, value))

    @classmethod
    def unknown(cls, aval: ShapedArray) -> PartialVal:
        """A value of which the type is known."""
        return cls((aval, None))

    def is_known(self) -> bool:
        """Whether it is a value."""
        return self[0] is None

    def get_known(self) -> Any:
        """The value, or None."""
        return self[1]

    def get_aval(self) -> Any:
        """The type."""
        return aval_of(self[1]) if self[0] is None else self[0]


def trace_to_jaxpr_nounits(
    fun: Any, pvals: Sequence[PartialVal], instantiate: bool | Sequence[bool] = False
) -> tuple[Jaxpr, list[PartialVal], list[Any]]:
    """Evaluate what a function does with known values, and record what it does with the others.

    Parameters
    ----------
    fun : WrappedFun
        Of flat values.
    pvals : sequence of PartialVal
        One per argument.
    instantiate : bool or sequence of bool
        Outputs that are to be outputs of the program although they are known.

    Returns
    -------
    jaxpr : Jaxpr
        From constants and unknown arguments to unknown outputs. A call of a compiled function is recorded as a whole if any of
        its arguments is unknown.
    pvals : list of PartialVal
        One per output.
    consts : list of arrays
    """
    outer = current.get()
    trace = StageTrace(outer, kind="partial evaluation")

    def traced(x: Any) -> bool:
        return isinstance(x, Tracer) and x._trace is trace

    inputs = [pval[1] if pval.is_known() else trace.new_input(pval[0]) for pval in pvals]
    token = current.set(_KnownTrace(trace, outer, traced))
    try:
        outs = fun.call_wrapped(*inputs)
    finally:
        current.reset(token)
    wanted = [instantiate] * len(outs) if isinstance(instantiate, bool) else instantiate
    recorded = [w or traced(out) for w, out in zip(wanted, outs, strict=True)]
    closed = trace.close([x for x in inputs if traced(x)], [x for x, r in zip(outs, recorded, strict=True) if r])
    types = iter(closed.out_avals)
    found = [PartialVal.unknown(next(types)) if r else PartialVal.known(x) for x, r in zip(outs, recorded, strict=True)]
    return closed.jaxpr, found, list(closed.consts)


def trace_to_jaxpr_dynamic(fun: Any, in_avals: Sequence[ShapedArray]) -> tuple[Jaxpr, list[Any], list[Any]]:
    """Program of a WrappedFun of flat values that have the types `in_avals`.

    Returns
    -------
    (Jaxpr, list of ShapedArray, list of arrays)
        The program, the types of its outputs, its constants.
    """
    closed = stage(fun.call_wrapped, in_avals)
    return closed.jaxpr, list(closed.out_avals), list(closed.consts)


def find_top_trace(xs: Any) -> Trace | None:
    """The Trace object that operations on the values would be handed to now, or None where they would be evaluated."""
    del xs
    return current.get()
