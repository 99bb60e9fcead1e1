# SPDX-License-Identifier: Apache-2.0
"""Transposition of linear programs, and the linearization of inner programs into a nonlinear and a linear part."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from purax import dtypes, errors, tree
from purax.core.aval import array_aval
from purax.core.axes import lane_axes
from purax.core.hooks import hooks
from purax.core.interpret import eval_jaxpr
from purax.core.ir import Equation, Jaxpr, Literal, Var, intern, open_constants
from purax.core.name_stack import TRANSPOSE, NameStack
from purax.core.passes import dead_code
from purax.core.primitive import Linear
from purax.core.source import format_source, names_here, where, within
from purax.core.stage import StageTrace, StageTracer, recording, stage
from purax.core.trace import aval_of, bind_in, current
from purax.primitives import collective, elementwise, resharding
from purax.primitives.base import instantiate, zeros_of
from purax.transforms.flat import flat_function
from purax.transforms.reverse import LinearTracer, Tape, linearize_flat

__all__ = ["LinearParts", "backward_pass", "linear_transpose", "linearize_jaxpr", "transpose_jaxpr"]


def backward_pass(
    jaxpr: Jaxpr,
    operands: Sequence[Any],
    cotangents: Sequence[Any],
    wanted: Sequence[bool] | None = None,
    named: bool = False,
) -> list[Any]:
    """Cotangents of the operands marked `Linear`; the others are values that the linear equations may use.

    Parameters
    ----------
    jaxpr : Jaxpr
        Without constants; linear, jointly, in the marked inputs.
    operands : sequence of values or Linear
    cotangents : sequence of values or None
        One per output; None is zero.
    wanted : sequence of bool, optional
        One per operand: whether the cotangent of a linear one is wanted. Nothing is done for the others alone.
    named : bool
        Tell in the names of what is recorded that it is a transpose.

    Returns
    -------
    list of arrays or None
    """
    if current.get() is None:
        return _backward_pass(jaxpr, operands, cotangents, wanted, None)
    token = where.set(where.get())
    try:
        names = names_here().extend(*[TRANSPOSE] if named else ())
        return _backward_pass(jaxpr, operands, cotangents, wanted, names)
    finally:
        where.reset(token)


def _backward_pass(
    jaxpr: Jaxpr, operands: Sequence[Any], cotangents: Sequence[Any], wanted: Sequence[bool] | None, names: NameStack | None
) -> list[Any]:  # fmt: skip
    """The same; what is recorded is attributed to the equations, within `names`."""
    values: dict[Var, Any] = {}
    linear: set[Var] = set()
    reached: set[Var] = set()  # what depends on wanted operands
    for i, (var, x) in enumerate(zip(jaxpr.invars, operands, strict=True)):
        if type(x) is Linear:
            linear.add(var)
            if wanted is None or wanted[i]:
                reached.add(var)
        else:
            values[var] = x
    try:
        return _pulled(jaxpr, cotangents, values, set(linear), set(reached), names, False)
    except errors.MissingRuleError:
        if not any(_mixed(eqn) for eqn in jaxpr.eqns):
            raise
    return _pulled(jaxpr, cotangents, values, linear, reached, names, True)


def _mixed(eqn: Equation) -> bool:
    """Whether some outputs may not depend on what others depend on."""
    return len(eqn.outvars) > 1 and (eqn.primitive.passes or eqn.primitive.dce is not None) and not eqn.effects


def _without(eqn: Equation, linear: set[Var]) -> tuple[Equation | None, Equation]:
    """The part of an equation whose outputs do not depend on linear variables, if there is one, and the rest."""
    if eqn.primitive.passes:
        known = [not (type(a) is Var and a in linear) for a in eqn.invars]
        parts = [
            eqn.replace(
                invars=[a for a, k in zip(eqn.invars, known, strict=True) if k is which],
                outvars=[v for v, k in zip(eqn.outvars, known, strict=True) if k is which],
            )
            for which in (True, False)
        ]
        return (parts[0] if any(known) else None), parts[1]
    count = len(eqn.outvars)
    alone = [eqn.primitive.dce([i == j for j in range(count)], eqn) for i in range(count)]
    known = [not any(type(a) is Var and a in linear for a in part.invars) for part in alone]
    if not any(known):
        return None, eqn
    return eqn.primitive.dce(known, eqn), eqn.primitive.dce([not k for k in known], eqn)


def _pulled(
    jaxpr: Jaxpr, cotangents: Sequence[Any], values: dict[Var, Any], linear: set[Var], reached: set[Var],
    names: NameStack | None, careful: bool,
) -> list[Any]:  # fmt: skip
    """The same, for the values of known variables; `careful` looks for outputs of equations that are known though others are linear.

    That takes time, so it is done where it did not work without. What was computed then is among the values.
    """
    pending: list[Equation] = []
    for eqn in jaxpr.eqns:
        if careful and eqn.outvars and eqn.outvars[0] in values:
            continue
        if any(type(a) is Var and a in linear for a in eqn.invars):
            if careful and _mixed(eqn):
                known, eqn = _without(eqn, linear)
                if known is not None:
                    outs = _evaluated(known, values, names)
                    values.update(zip(known.outvars, outs, strict=True))
            made = [v for v in eqn.outvars if v not in values] if careful else eqn.outvars
            linear.update(made)
            if any(type(a) is Var and a in reached for a in eqn.invars):
                reached.update(made)
                pending.append(eqn)
        elif eqn.outvars or not careful:
            values.update(zip(eqn.outvars, _evaluated(eqn, values, names), strict=True))
    found: dict[Var, Any] = {}

    def give(atom: Any, cotangent: Any) -> None:
        if cotangent is None or type(atom) is not Var or atom not in reached:
            return
        have = found.get(atom)
        found[atom] = cotangent if have is None else elementwise.add_p.bind1(have, cotangent)

    for atom, cotangent in zip(jaxpr.outvars, cotangents, strict=True):
        give(atom, resharding.settled(cotangent, atom.aval))
    for eqn in reversed(pending):
        outs = tuple([found.pop(v, None) for v in eqn.outvars])
        if not any(c is not None for c in outs):
            continue
        given = tuple(
            [a.val if type(a) is Literal else Linear(a.aval) if a in linear else values[a] for a in eqn.invars]
        )
        if names is not None:
            where.set(within(names, eqn.source))
        try:
            if any([v.aval.spread is not None for v in (*eqn.invars, *eqn.outvars)]):
                results = resharding.settle(eqn.primitive, outs, given, eqn.params)
            else:
                results = eqn.primitive.transpose(outs, given, **eqn.params)
        except errors.MissingRuleError as error:
            raise located(error, eqn) from None
        if eqn.primitive.types_axes or eqn.outvars[0].aval.varying:
            avals = [a.aval for a in eqn.invars]
            results = collective.settle(eqn.primitive, eqn.params, avals, [v.aval for v in eqn.outvars], results)
        for atom, cotangent in zip(eqn.invars, results, strict=True):
            give(atom, cotangent)
    return [found.get(v) for v in jaxpr.invars]


def _dual(aval: Any) -> Any:
    return aval if aval.spread is None else aval.with_spread(aval.spread.dual())


def _evaluated(eqn: Equation, values: dict[Var, Any], names: NameStack | None) -> Sequence[Any]:
    if names is not None:
        where.set(within(names, eqn.source))
    known = tuple([values[a] if type(a) is Var else a.val for a in eqn.invars])
    return bind_in(current.get(), eqn.primitive, known, eqn.params)


def located(error: errors.MissingRuleError, eqn: Equation) -> errors.MissingRuleError:
    """The error, naming the operation and the user's line."""
    if error.located:
        return error
    avals = ", ".join(a.aval.str_short() for a in eqn.invars)
    named = errors.MissingRuleError(f"{eqn.primitive.name}({avals}) at {format_source(eqn.source)}: {error}")
    named.located = True
    return named


def transpose_jaxpr(
    jaxpr: Jaxpr, linear: tuple[bool, ...], nonzero: tuple[bool, ...], wanted: tuple[bool, ...] | None = None
) -> tuple[Jaxpr, tuple[bool, ...], Any]:
    """The program `(values of the other inputs, nonzero cotangents) -> nonzero cotangents of the linear inputs`.

    `wanted` marks linear inputs whose cotangent is made explicit even if zero (indexed over the linear inputs).

    Parameters
    ----------
    jaxpr : Jaxpr
    linear : tuple of bool
        Which inputs are linear.
    nonzero : tuple of bool
        Which outputs have a cotangent.
    wanted : tuple of bool, optional

    Returns
    -------
    (Jaxpr, tuple of bool, Cells)
        The second says which linear inputs have a cotangent. The third has the mutable references that rules of the user's touch:
        their values are the last inputs and outputs (see `control/ref_scope.py`).
    """
    key = ("transpose", linear, nonzero, wanted)
    found = jaxpr.derived.get(key)
    if found is None:
        trace = StageTrace(None, jaxpr.name, "transpose", embed=True)
        taken = hooks.take_references(trace, True)
        values = [trace.new_input(a) for a, is_linear in zip(jaxpr.in_avals, linear, strict=True) if not is_linear]
        given = [trace.new_input(_dual(a)) for a, n in zip(jaxpr.out_avals, nonzero, strict=True) if n]
        rest_values, rest_given = iter(values), iter(given)
        operands = [Linear(a) if m else next(rest_values) for a, m in zip(jaxpr.in_avals, linear, strict=True)]
        with recording(trace):
            results = backward_pass(jaxpr, operands, [next(rest_given) if n else None for n in nonzero])
            results = [c for c, m in zip(results, linear, strict=True) if m]
            if wanted is not None:
                avals = [a for a, m in zip(jaxpr.in_avals, linear, strict=True) if m]
                results = [
                    zeros_of(a) if c is None and w else c for c, a, w in zip(results, avals, wanted, strict=True)
                ]
        closed = trace.close([*values, *given], [c for c in results if c is not None])
        found = (intern(closed.jaxpr), tuple([c is not None for c in results]), taken.cells())
        jaxpr.derived[key] = found
    return found


class LinearParts:
    """An inner program split for reverse mode.

    Attributes
    ----------
    forward : Jaxpr
        `inputs -> (outputs, computed residuals)`; interned when it is asked for.
    linear : Jaxpr
        `(residuals, nonzero tangents) -> nonzero output tangents`; interned when it is asked for.
    made : (Jaxpr, Jaxpr)
        Both as they were made, for those who make other programs of them.
    residuals : tuple of (str, int)
        Where each residual is found: ("in", i) is input i, ("out", j) is output j of `forward`.
    out_nonzero : tuple of bool
    """

    __slots__ = ("_interned", "made", "out_nonzero", "residuals")

    def __init__(
        self, forward: Jaxpr, linear: Jaxpr, residuals: tuple[Any, ...], out_nonzero: tuple[bool, ...]
    ) -> None:
        self.made = forward, linear
        self._interned: tuple[Jaxpr, Jaxpr] | None = None
        self.residuals = residuals
        self.out_nonzero = out_nonzero

    def _programs(self) -> tuple[Jaxpr, Jaxpr]:
        if self._interned is None:
            self._interned = intern(self.made[0]), intern(self.made[1])
        return self._interned

    @property
    def forward(self) -> Jaxpr:
        """The primal part."""
        return self._programs()[0]

    @property
    def linear(self) -> Jaxpr:
        """The linear part."""
        return self._programs()[1]

    def pick(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> list[Any]:
        """Values of the residuals."""
        return [inputs[i] if where == "in" else outputs[i] for where, i in self.residuals]


def linearize_jaxpr(
    jaxpr: Jaxpr, nonzero: tuple[bool, ...], wanted: tuple[bool, ...] | None = None, recompute: bool = True
) -> LinearParts:
    """Split an inner jaxpr into its primal and its linear part (see LinearParts); remembered on the jaxpr.

    `wanted` marks outputs whose tangent is made explicit even if zero. With `recompute`, the linear part may begin with a few
    cheap operations on residuals.

    Parameters
    ----------
    jaxpr : Jaxpr
    nonzero : tuple of bool
        Which inputs have a tangent.
    wanted : tuple of bool, optional
    recompute : bool

    Returns
    -------
    LinearParts
    """
    key = ("linearize", nonzero, wanted, recompute)
    found = jaxpr.derived.get(key)
    if found is None:
        trace = StageTrace(None, jaxpr.name, "grad", embed=True)
        inputs = [trace.new_input(a) for a in jaxpr.in_avals]
        with recording(trace):
            outs, tape = linearize_flat(lambda *xs: eval_jaxpr(jaxpr, (), *xs), inputs, nonzero)
            found = jaxpr.derived[key] = _split(trace, inputs, outs, tape, wanted, nonzero, recompute)
    return found


def _split(
    trace: StageTrace, inputs: list[StageTracer], outs: list[Any], tape: Tape, wanted: Any, nonzero: Sequence[bool],
    recompute: bool,
) -> LinearParts:  # fmt: skip
    out_tangents = [
        zeros_of(aval_of(o)) if t is None and wanted is not None and wanted[i] else t
        for i, (o, t) in enumerate(zip(outs, tape.outputs, strict=True))
    ]
    residual_vars: dict[Var, Var] = {}  # variable of the primal program -> variable of the linear one
    variables: dict[int, Any] = {}

    def atom(x: Any) -> Any:
        if type(x) is LinearTracer and x._trace is tape.trace:
            return variables[x.index]
        primal = trace.atom(x)
        if type(primal) is Literal:
            return primal
        return residual_vars.setdefault(primal, Var(primal.aval))

    tangent_vars = []
    for need, t in zip(nonzero, tape.inputs, strict=True):
        if t is not None:
            variables[t.index] = Var(t.aval)
            tangent_vars.append(variables[t.index])
        elif need:
            raise AssertionError("a tangent was promised for an input that has none")
    eqns: list[Equation] = []
    for entry in tape.entries:
        entry.record(atom, variables, eqns)
    out_atoms = [atom(t) for t in out_tangents if t is not None]
    linear = Jaxpr([], [*residual_vars.values(), *tangent_vars], out_atoms, eqns, (), trace.name)
    linear, used = dead_code(linear)
    kept = [(p, v) for (p, v), u in zip(residual_vars.items(), used, strict=False) if u]
    position = {t.variable: ("in", i) for i, t in reversed(list(enumerate(inputs)))}
    extra: list[Any] = []
    out_vars = [trace.atom(o) for o in outs]
    for j, var in enumerate(out_vars):
        if type(var) is Var:
            position.setdefault(var, ("out", j))
    again: list[Equation] = []
    if recompute:
        kept, again = _recompute_cheap(trace.eqns, kept, position)
    linear = Jaxpr([], [*(v for _, v in kept), *tangent_vars], linear.outvars, [*again, *linear.eqns], (), trace.name)
    for primal, _ in kept:
        if primal not in position:
            position[primal] = ("out", len(outs) + len(extra))
            extra.append(primal)
    forward = Jaxpr([], [t.variable for t in inputs], [*out_vars, *extra], trace.eqns, (), trace.name)
    forward, _ = dead_code(forward)
    return LinearParts(
        forward,
        linear,
        tuple([position[p] for p, _ in kept]),
        tuple([t is not None for t in out_tangents]),
    )


_CHEAP = frozenset({
    "add", "sub", "mul", "neg", "square", "integer_pow", "max", "min", "select_n", "convert_element_type", "broadcast_in_dim",
    "reshape", "eq", "ne", "lt", "le", "gt", "ge", "and", "or", "not", "squeeze", "expand_dims",
})  # fmt: skip
_FEW = 6


def _recompute_cheap(
    eqns: Sequence[Equation], kept: list[tuple[Var, Var]], position: dict[Var, Any]
) -> tuple[list[tuple[Var, Var]], list[Equation]]:
    """Residuals without those that a few cheap operations give from the others, and these operations.

    `y * (1 - y)` beside `y` is such a one: in a loop each residual is an array per step, written and read again.
    """
    index = {v: i for i, eqn in enumerate(eqns) for v in eqn.outvars}
    stored = {p for p, _ in kept}
    needed: set[int] = set()

    def closure(var: Var, found: set[int]) -> bool:
        """Collect the equations that compute `var` from stored values; False if that takes more than a few cheap ones."""
        i = index.get(var)
        if i is None or eqns[i].primitive.name not in _CHEAP or len(found) >= _FEW:
            return False
        found.add(i)
        return all(type(a) is Literal or a in stored or closure(a, found) for a in eqns[i].invars)

    for p, _ in sorted(kept, key=lambda pair: -index.get(pair[0], -1)):
        if p in position or p not in index:
            continue
        stored.discard(p)
        found: set[int] = set()
        if closure(p, found):
            needed |= found
        else:
            stored.add(p)
    names = dict(kept)
    renamed = {p: names[p] for p in stored}
    again = []
    for i in sorted(needed):
        eqn = eqns[i]
        outvars = [names.get(v) or Var(v.aval) for v in eqn.outvars]
        again.append(
            eqn.replace(invars=[renamed.get(a, a) if type(a) is Var else a for a in eqn.invars], outvars=outvars)
        )
        renamed.update(zip(eqn.outvars, outvars, strict=True))
    return [(p, v) for p, v in kept if p in stored], again


# --- public form ------------------------------------------------------------------------------------------------------------


def linear_transpose(fun: Callable[..., Any], *primals: Any, reduce_axes: Any = ()) -> Callable[..., Any]:
    """Transpose of a function that is promised to be linear.

    Parameters
    ----------
    fun : callable
    *primals : pytrees of arrays or ShapeDtypeStructs
        Shapes and dtypes of the arguments; values are not used.
    reduce_axes : optional
        Without effect.

    Returns
    -------
    callable
        Takes a cotangent like the output, returns a tuple of cotangents like `primals`.

    Raises
    ------
    TypeError
        Integers meet floats, or (by the callable) the cotangent has another structure or type than the output.
    """
    del reduce_axes
    leaves, treedef = tree.flatten(primals)
    avals = [_own(_shaped(x)) for x in leaves]
    flat, store = flat_function(fun, treedef)
    jaxpr, consts = open_constants(stage(flat, avals, getattr(fun, "__name__", ""), kind="linear_transpose"))
    in_kinds = {dtypes.is_inexact(a.dtype) for a in avals}
    out_kinds = {dtypes.is_inexact(a.dtype) for a in jaxpr.out_avals}
    if not (in_kinds <= {True} and out_kinds <= {True}) and not (in_kinds <= {False} and out_kinds <= {False}):
        raise TypeError(
            "linear_transpose only supports [float or complex] -> [float or complex], and integer -> integer functions, "
            f"but got {[a.str_short() for a in avals]} -> {[a.str_short() for a in jaxpr.out_avals]}."
        )

    out_tree = store.out_tree

    def transposed(consts: Sequence[Any], cotangent: Any) -> Any:
        given, given_tree = tree.flatten(cotangent)
        if given_tree != out_tree:
            raise TypeError(f"cotangent tree does not match function output, expected {out_tree} but got {given_tree}")
        for c, aval in zip(given, jaxpr.out_avals, strict=True):
            have = aval_of(c)
            if have.shape != aval.shape or have.dtype != aval.dtype:
                raise TypeError(
                    "cotangent type does not match function output, expected "
                    f"{aval.str_short()} but got {have.str_short()}"
                )
        results = backward_pass(jaxpr, [*consts, *(Linear(a) for a in avals)], given, named=True)[len(consts) :]
        return treedef.unflatten([instantiate(c, a) for c, a in zip(results, map(_Avaled, avals), strict=True)])

    return tree.Partial(transposed, consts)


def _own(aval: Any) -> Any:
    return aval.with_varying(aval.varying | lane_axes.get())


class _Avaled:
    """Carrier of an aval for `instantiate`."""

    __slots__ = ("aval",)

    def __init__(self, aval: Any) -> None:
        self.aval = aval


def _shaped(x: Any) -> Any:
    if hasattr(x, "shape") and hasattr(x, "dtype") and not hasattr(x, "aval"):
        return array_aval(tuple(x.shape), dtypes.narrow(x.dtype), bool(getattr(x, "weak_type", False)))
    return aval_of(x)
