# SPDX-License-Identifier: Apache-2.0
"""Reverse-mode differentiation: a tape of linear operations.

`DualTrace` runs the primal computation in the parent trace and each primitive's jvp rule with `LinearTrace` current. What the
rule does with primal values alone is evaluated; what it does with tangents is appended to the tape as
`(primitive, operands with concrete residuals, params)`. Walking the tape backwards with the `transpose` rules pulls cotangents
back; walking it forwards pushes tangents. So the contract needs no vjp rules, and eager derivatives stage nothing.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

from purax import config
from purax.core.ir import Equation, Jaxpr, Var
from purax.core.leaks import check_leaks
from purax.core.name_stack import JVP, TRANSPOSE
from purax.core.passes import dead_code
from purax.core.primitive import Linear
from purax.core.source import current_source, names_here, names_of, opened, where, within
from purax.core.trace import Trace, Tracer, aval_of, bind_in, current
from purax.primitives import collective, elementwise, resharding
from purax.primitives.base import instantiate, is_differentiable

__all__ = ["DualTrace", "LinearTrace", "Tape", "linearize_flat"]


class LinearTracer(Tracer):
    """A tangent on the tape: known by its number only."""

    __slots__ = ("index",)

    def __init__(self, trace: Any, aval: Any, index: int) -> None:
        self._trace = trace
        self.aval = aval
        self.index = index


class Entry:
    """One linear operation of the tape."""

    __slots__ = ("operands", "outs", "params", "primitive", "source", "trace")

    def __init__(
        self, trace: Any, primitive: Any, operands: tuple[Any, ...], params: dict[str, Any], outs: list[LinearTracer],
        source: Any,
    ) -> None:  # fmt: skip
        self.trace = trace
        self.primitive = primitive
        self.operands = operands
        self.params = params
        self.outs = outs
        self.source = source

    def push(self, env: dict[int, Any]) -> Sequence[Any]:
        """Output tangents from those in `env`."""
        operands = tuple([env[x.index] if self._own(x) else x for x in self.operands])
        return bind_in(current.get(), self.primitive, operands, self.params)

    def pull(self, cotangents: tuple[Any, ...], evaluating: bool) -> Sequence[Any]:
        """Cotangents of `operands`, None where zero or not on the tape."""
        primitive, given = self.primitive, self.operands
        operands = tuple([Linear(x.aval) if self._own(x) else x for x in given])
        if any([o.aval.spread is not None for o in self.outs]):
            results = resharding.settle(primitive, cotangents, operands, self.params)
        else:
            results = primitive.transpose(cotangents, operands, **self.params)
        if primitive.types_axes or self.outs[0].aval.varying:
            outs = [o.aval for o in self.outs]
            results = collective.settle(primitive, self.params, [aval_of(x) for x in given], outs, results)
        return [c if self._own(x) else None for x, c in zip(given, results, strict=True)]

    def record(self, atom: Callable[[Any], Any], variables: dict[int, Any], eqns: list[Equation]) -> None:
        """Append the operation to a program: values become atoms by `atom`, tangents have their variables."""
        operands = [atom(x) for x in self.operands]
        outs = [Var(o.aval) for o in self.outs]
        variables.update(zip([o.index for o in self.outs], outs, strict=True))
        eqns.append(Equation(operands, outs, self.primitive, self.params, self.trace.inner(self.source)))

    def _own(self, x: Any) -> bool:
        return type(x) is LinearTracer and x._trace is self.trace


class LinearTrace(Trace):
    """Records the operations that touch tangents, evaluates the rest in the parent."""

    __slots__ = ("count", "depth", "entries")
    kind = "linearize"

    def __init__(self, parent: Any, name: str = "") -> None:
        super().__init__(parent, name)
        self.depth = 0 if parent is None else len(names_here())  # of the names that the linearization itself lies in
        self.entries: list[Any] = []  # of Entry and FusedEntry
        self.count = 0

    def new_input(self, aval: Any) -> LinearTracer:
        """A new tangent."""
        self.count += 1
        return LinearTracer(self, aval, self.count)

    def process(self, primitive: Any, operands: tuple[Any, ...], params: dict[str, Any]) -> tuple[Any, ...]:
        """Append to the tape if an operand is on it."""
        for x in operands:
            if type(x) is LinearTracer and x._trace is self:
                break
        else:
            token = current.set(self.parent)
            try:
                return bind_in(self.parent, primitive, operands, params)
            finally:
                current.reset(token)
        if primitive.unfold is not None:
            outs = primitive.unfold(operands, params)
            if outs is not None:
                return outs
        avals = primitive.outputs(tuple([aval_of(x) for x in operands]), params)
        return tuple(self.append(primitive, operands, params, avals))

    def append(
        self, primitive: Any, operands: tuple[Any, ...], params: dict[str, Any], avals: Sequence[Any]
    ) -> list[LinearTracer]:
        """Record one operation; returns the tangents that it gives."""
        outs = [self.new_input(aval) for aval in avals]
        source = None if self.parent is None else current_source(5)
        self.entries.append(Entry(self, primitive, operands, params, outs, source))
        return outs

    def inner(self, source: Any) -> Any:
        """The source of an entry without the names that the linearization lies in."""
        if not self.depth or source is None:
            return source
        names = names_of(source).below(self.depth)
        return (source[0], source[1], names) if names else source[:2]

    def append_fused(self, plan: Any, residuals: list[Any], tangents: list[Any]) -> list[LinearTracer]:
        """Record the linear program of a plan; returns the tangents that it gives."""
        outs = [self.new_input(aval) for aval in plan.tangent_avals]
        self.entries.append(fused.FusedEntry(plan, residuals, tangents, outs))
        return outs


class DualTracer(Tracer):
    """A primal value and its tangent on the tape."""

    __slots__ = ("primal", "tangent")
    has_tangent = True

    def __init__(self, trace: Any, primal: Any, tangent: LinearTracer) -> None:
        self._trace = trace
        self.aval = aval_of(primal)
        self.primal = primal
        self.tangent = tangent

    def concrete(self) -> Any:
        """The primal, if it is known."""
        return self.primal.concrete() if isinstance(self.primal, Tracer) else self.primal


class DualTrace(Trace):
    """Runs primals in the parent and tangents on the tape."""

    __slots__ = ("linear",)
    kind = "grad"

    def __init__(self, parent: Any, linear: LinearTrace, name: str = "") -> None:
        super().__init__(parent, name)
        self.linear = linear

    def process(self, primitive: Any, operands: tuple[Any, ...], params: dict[str, Any]) -> tuple[Any, ...]:
        """Apply the primitive's jvp (or linearize) rule with the tape as current trace."""
        primals: list[Any] = []
        tangents: list[LinearTracer | None] = []
        active = False
        for x in operands:
            if type(x) is DualTracer and x._trace is self:
                primals.append(x.primal)
                tangents.append(x.tangent)
                active = True
            else:
                primals.append(x)
                tangents.append(None)
        parent = self.parent
        if not active:
            token = current.set(parent)
            try:
                return bind_in(parent, primitive, operands, params)
            finally:
                current.reset(token)
        if parent is None:
            plan = fused.tape_plan(primitive, primals, tangents, params)
            if plan is not None:
                return self._outputs(*plan(self.linear, primals, tangents))
        token = current.set(self.linear)
        # All that the rule does stands for the user's line; evaluation, which records nothing, does not look for it.
        pin = where.set(None if parent is None else current_source(3))
        try:
            if primitive.linearize is not None:
                outs, out_tangents = primitive.linearize(tuple(primals), tuple(tangents), params)
            else:
                outs, out_tangents = primitive.jvp(tuple(primals), tuple(tangents), **params)
        finally:
            where.reset(pin)
            current.reset(token)
        return self._outputs(outs, out_tangents)

    def _outputs(self, outs: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, ...]:
        # A tangent that is not on the tape (zeros, or a constant of a user's rule) depends on no input.
        return tuple(
            [DualTracer(self, o, t) if type(t) is LinearTracer else o for o, t in zip(outs, tangents, strict=True)]
        )


class Tape:
    """A linear map: inputs, recorded operations, outputs (None where the output does not depend on the inputs)."""

    __slots__ = ("entries", "inputs", "outputs", "trace")

    def __init__(self, trace: LinearTrace, inputs: list[LinearTracer | None], outputs: list[Any]) -> None:
        self.trace = trace
        self.entries = trace.entries
        self.inputs = inputs
        self.outputs = outputs

    def forward(self, tangents: Sequence[Any]) -> list[Any]:
        """Push tangents (None: zero) through; returns the output tangents, None where zero."""
        env: dict[int, Any] = {
            i.index: instantiate(t, i) for i, t in zip(self.inputs, tangents, strict=True) if i is not None
        }
        for entry in self.entries:
            env.update(zip([o.index for o in entry.outs], entry.push(env), strict=True))
        return [env[o.index] if self._own(o) else o for o in self.outputs]

    def backward(self, cotangents: Sequence[Any]) -> list[Any]:
        """Pull cotangents (None: zero) back; returns one cotangent per input, None where zero.

        What is recorded lies in the names of the entry, as a transpose.
        """
        found: dict[int, Any] = {}
        for out, cotangent in zip(self.outputs, cotangents, strict=True):
            if out is not None and cotangent is not None:
                cotangent = collective.total(cotangent, out.aval)
                if out.aval.spread is not None:
                    cotangent = resharding.settled(cotangent, out.aval)
                _accumulate(found, out.index, cotangent)
        evaluating = current.get() is None
        names = names_here().extend(TRANSPOSE)
        pin = where.set(None)
        try:
            for entry in reversed(self.entries):
                outs = tuple([found.pop(o.index, None) for o in entry.outs])
                for c in outs:
                    if c is not None:
                        break
                else:
                    continue
                if not evaluating:
                    where.set(within(names, self.trace.inner(entry.source)))
                for x, cotangent in zip(entry.operands, entry.pull(outs, evaluating), strict=True):
                    if cotangent is not None:
                        _accumulate(found, x.index, cotangent)
        finally:
            where.reset(pin)
        return [None if i is None else found.get(i.index) for i in self.inputs]

    def program(self) -> tuple[Jaxpr, list[Any]]:
        """The map as a jaxpr `(residuals, tangents) -> nonzero output tangents`, and its residuals."""
        residuals: dict[int, tuple[Any, Var]] = {}
        variables: dict[int, Any] = {i.index: Var(i.aval) for i in self.inputs if i is not None}

        def atom(x: Any) -> Any:
            if self._own(x):
                return variables[x.index]
            return residuals.setdefault(id(x), (x, Var(aval_of(x))))[1]

        inputs = list(variables.values())
        eqns: list[Equation] = []
        for entry in self.entries:
            entry.record(atom, variables, eqns)
        outvars = [atom(o) for o in self.outputs if o is not None]
        jaxpr = Jaxpr([], [*(v for _, v in residuals.values()), *inputs], outvars, eqns, (), self.trace.name)
        jaxpr, used = dead_code(jaxpr)
        kept = [x for (x, _), u in zip(residuals.values(), used, strict=False) if u]
        invars = [v for (_, v), u in zip(residuals.values(), used, strict=False) if u]
        return Jaxpr([], [*invars, *inputs], jaxpr.outvars, jaxpr.eqns, (), self.trace.name), kept

    def _own(self, x: Any) -> bool:
        return type(x) is LinearTracer and x._trace is self.trace


def _accumulate(found: dict[int, Any], index: int, cotangent: Any) -> None:
    have = found.get(index)
    found[index] = cotangent if have is None else elementwise.add_p.bind1(have, cotangent)


def linearize_flat(
    fun: Callable[..., Sequence[Any]], primals: Sequence[Any], needed: Sequence[bool] | None = None, named: bool = False
) -> tuple[list[Any], Tape]:
    """Outputs of `fun` at `primals`, and its derivative there as a tape.

    Parameters
    ----------
    fun : callable
    primals : sequence of arrays
    needed : sequence of bool, optional
        Which are differentiated; all by default.
    named : bool
        Tell the derivative in the names of what is recorded.

    Returns
    -------
    (list of arrays, Tape)
    """
    linear = LinearTrace(current.get(), getattr(fun, "__name__", ""))
    dual = DualTrace(linear.parent, linear, linear.name)
    inputs: list[LinearTracer | None] = []
    operands = []
    for i, primal in enumerate(primals):
        aval = aval_of(primal)
        if (needed is None or needed[i]) and is_differentiable(aval.dtype):
            tangent = linear.new_input(aval)
            inputs.append(tangent)
            operands.append(DualTracer(dual, primal, tangent))
        else:
            inputs.append(None)
            operands.append(primal)
    token = current.set(dual)
    try:
        with opened(JVP if named and linear.parent is not None else None):
            outputs = fun(*operands)
    finally:
        current.reset(token)
    outs, out_tangents = [], []
    x = None
    for x in outputs:
        own = type(x) is DualTracer and x._trace is dual
        outs.append(x.primal if own else x)
        out_tangents.append(_as_varying(x) if own else None)
    if config.check_tracer_leaks:
        ended = weakref.ref(dual)
        del dual, operands, outputs, x
        check_leaks(ended)
    return outs, Tape(linear, inputs, out_tangents)


def _as_varying(x: DualTracer) -> Any:
    """The tangent of an output; it varies over the named axes that the output varies over."""
    missing = x.aval.varying - x.tangent.aval.varying
    if not missing:
        return x.tangent
    return x._trace.linear.process(collective.pvary_p, (x.tangent,), {"axes": tuple(sorted(missing, key=str))})[0]


from purax.transforms import fused  # noqa: E402  (plans are made of programs that are linearized with the traces above)
