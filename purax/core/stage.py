# SPDX-License-Identifier: Apache-2.0
"""Staging: run a flat function on typed placeholders and record a jaxpr."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from purax import config
from purax.core import verify
from purax.core.hooks import hooks
from purax.core.ir import ClosedJaxpr, Equation, Jaxpr, Literal, Var
from purax.core.leaks import check_leaks
from purax.core.name_stack import Metadata, NameStack
from purax.core.source import current_source, format_source, where
from purax.core.trace import Trace, Tracer, check_escape, current

__all__ = ["StageTrace", "StageTracer", "recording", "stage"]

_NO_EFFECTS: frozenset[Any] = frozenset()


class StageTracer(Tracer):
    """A value of a program being recorded."""

    __slots__ = ("_origin", "variable")
    variable: Var
    _origin: Any

    def __init__(self, trace: Any, var: Var, origin: Any = None) -> None:
        self._trace = trace
        self.aval = var.aval
        self.variable = var
        self._origin = origin

    def origin(self) -> str:
        """`argument x['w'] of jit(f)` or the line that computed the value."""
        home = f"{self._trace.kind}({self._trace.name})" if self._trace.name else self._trace.kind
        if isinstance(self._origin, str):
            return f"it is argument {self._origin} of {home}"
        return f"it was computed inside {home}"


class StageTrace(Trace):
    """Records equations; values that are not its own become constants (or literals, if scalar).

    With `embed`, array constants become literals, too: programs derived from programs have no constants of the user's, only
    small index tables of the rules. Mutable references that the program takes in (`taken`) are its last inputs and outputs.
    """

    __slots__ = ("constants", "embed", "eqns", "kind", "scalars", "taken")

    def __init__(self, parent: Any, name: str = "", kind: str = "jit", embed: bool = False) -> None:
        super().__init__(parent, name)
        self.embed = embed
        self.eqns: list[Equation] = []
        self.constants: dict[int, tuple[Any, Var]] = {}
        self.scalars: dict[Any, Var] = {}
        self.kind = kind
        self.taken: Any = None

    def new_input(self, aval: Any, origin: Any = None) -> StageTracer:
        """A placeholder of type `aval`."""
        return StageTracer(self, Var(aval), origin)

    def atom(self, x: Any) -> Any:
        """Var or Literal that stands for `x` in this program."""
        if type(x) is StageTracer and x._trace is self:
            return x.variable
        if isinstance(x, Tracer):
            check_escape(x, self)
            return self._constant(x, x.aval)
        if type(x) is not hooks.array_type:
            x = hooks.as_array(x)  # caller-owned memory may change before the program runs: take it now
            if isinstance(x, Tracer):  # the value of a size that is not known yet
                return self.atom(x)
        aval = x.aval
        if isinstance(aval.dtype, np.dtype) and (self.embed or (aval.ndim == 0 and x._np is not None)):
            return Literal(x, aval)
        return self._constant(x, aval)

    def _constant(self, x: Any, aval: Any) -> Var:
        found = self.constants.get(id(x))
        if found is None:
            found = self.constants[id(x)] = (x, Var(aval))
        return found[1]

    def process(self, primitive: Any, operands: tuple[Any, ...], params: dict[str, Any]) -> tuple[Any, ...]:
        """Record one equation."""
        if primitive.stage is not None:
            return primitive.stage(self, operands, params)
        return self.record(primitive, operands, params)

    def record(self, primitive: Any, operands: Sequence[Any], params: dict[str, Any]) -> tuple[Any, ...]:
        """Append the equation of a primitive and return tracers of its outputs."""
        atoms, types = [], []
        for x in operands:
            atom = x.variable if type(x) is StageTracer and x._trace is self else self.atom(x)
            atoms.append(atom)
            types.append(atom.aval)
        known = tuple(types)
        try:  # what `outputs` remembers, without a call
            avals = primitive._inferred[(known, tuple(params.items())) if params else known]
        except (KeyError, TypeError):
            avals = primitive.outputs(known, params)
        source = current_source(4)
        effects = _NO_EFFECTS if primitive.pure else primitive.effects(params)
        if len(avals) == 1:
            out = Var(avals[0])
            self.eqns.append(Equation(atoms, [out], primitive, params, source, effects))
            return (StageTracer(self, out, source),)
        outvars = [Var(aval) for aval in avals]
        self.eqns.append(Equation(atoms, outvars, primitive, params, source, effects))
        return tuple([StageTracer(self, var, source) for var in outvars])

    def spread_scalar(self, key: Any, spread: Callable[[], Any]) -> StageTracer:
        """The tracer of a scalar that was spread to a shape; `spread` records that where `key` is new."""
        var = self.scalars.get(key)
        if var is None:
            token = current.set(self)
            try:
                tracer: StageTracer = spread()
            finally:
                current.reset(token)
            self.scalars[key] = tracer.variable
            return tracer
        return StageTracer(self, var)

    def close(self, inputs: Sequence[StageTracer], outputs: Sequence[Any], names: tuple[str, ...] = ()) -> ClosedJaxpr:
        """The recorded program."""
        if self.taken is not None and self.taken.inputs:
            inputs, outputs = [*inputs, *self.taken.inputs], [*outputs, *self.taken.outputs()]
            names = (*names, *["a reference"] * len(self.taken.inputs)) if names else names
        outvars = [self.atom(x) for x in outputs]
        constants = list(self.constants.values())
        jaxpr = Jaxpr([var for _, var in constants], [t.variable for t in inputs], outvars, self.eqns, names, self.name)
        if config.enable_checks:
            verify.verify(jaxpr)
        return ClosedJaxpr(jaxpr, [value for value, _ in constants])


class recording:
    """Context in which `trace` records: what a program holds is named from its own start, within `names`."""

    __slots__ = ("_names", "_trace", "_trace_token", "_where_token")

    def __init__(self, trace: StageTrace, names: NameStack | None = None) -> None:
        self._trace, self._names = trace, names

    def __enter__(self) -> None:
        self._trace_token, self._where_token = current.set(self._trace), where.set(self._names)

    def __exit__(self, *_: object) -> None:
        where.reset(self._where_token)
        current.reset(self._trace_token)


class _CollectorPaused:
    """Python's cycle collector waits while a program is recorded.

    Recording makes objects by the thousand and drops none of them, which sets off collections of the whole heap, the slower
    the more libraries are loaded. Reference counting goes on. Counted, for recordings within each other and in threads.
    """

    __slots__ = ("_count", "_enabled", "_lock")

    def __init__(self) -> None:
        self._count, self._enabled, self._lock = 0, False, threading.Lock()

    def __enter__(self) -> None:
        with self._lock:
            if not self._count:
                self._enabled = gc.isenabled()
                gc.disable()
            self._count += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._count -= 1
            if not self._count and self._enabled:
                gc.enable()


_COLLECTOR_PAUSED = _CollectorPaused()


def stage(
    fun: Callable[..., Sequence[Any]],
    avals: Sequence[Any],
    name: str = "",
    names: Sequence[str] = (),
    kind: str = "jit",
    embed: bool = False,
) -> ClosedJaxpr:
    """Record `fun`, which takes and returns flat sequences of values.

    Parameters
    ----------
    fun : callable
        Called with one tracer per aval; returns a sequence of array-likes.
    avals : sequence of ShapedArray
    name, names : str and sequence of str
        Name of the function and argument paths of the inputs, for messages.
    kind : str
        What the user wrote: "jit", "scan", "vmap", ...
    embed : bool
        Write array constants into the program (see StageTrace).

    Returns
    -------
    ClosedJaxpr
    """
    with _COLLECTOR_PAUSED:
        return _stage(fun, avals, name, names, kind, embed)


def _stage(
    fun: Callable[..., Sequence[Any]], avals: Sequence[Any], name: str, names: Sequence[str], kind: str, embed: bool
) -> ClosedJaxpr:
    trace = StageTrace(current.get(), name, kind, embed)
    origins = names or [None] * len(avals)  # type: ignore[list-item]
    inputs = [trace.new_input(aval, origin) for aval, origin in zip(avals, origins, strict=True)]
    attributes = config.current().xla_metadata
    with recording(trace, NameStack([Metadata(attributes)]) if attributes else None):
        outputs = fun(*inputs)
    closed = trace.close(inputs, outputs, tuple(names))
    if config.check_tracer_leaks:
        ended = weakref.ref(trace)
        del trace, inputs, outputs
        check_leaks(ended)
    return closed


def describe_source(eqn: Equation) -> str:
    """The user's line of an equation."""
    return format_source(eqn.source)
