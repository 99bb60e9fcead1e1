# SPDX-License-Identifier: Apache-2.0
"""Forward-mode differentiation.

`JVPTrace` pairs every value with its tangent and asks each primitive for its `jvp` rule. The symbolic zero is None: operations
on values without tangents are passed on untouched.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from purax import config, dtypes, errors, tree
from purax.core.hooks import hooks
from purax.core.interpret import eval_jaxpr
from purax.core.ir import Jaxpr, intern
from purax.core.leaks import check_leaks
from purax.core.name_stack import JVP
from purax.core.source import opened
from purax.core.stage import StageTrace, recording
from purax.core.trace import Trace, Tracer, aval_of, bind_in, current
from purax.primitives import cast
from purax.primitives.base import instantiate, is_differentiable
from purax.transforms.flat import flat_function, float0_zeros

__all__ = ["jvp", "jvp_flat", "jvp_jaxpr"]


class JVPTracer(Tracer):
    """A primal value and its (nonzero) tangent."""

    __slots__ = ("primal", "tangent")
    has_tangent = True

    def __init__(self, trace: Any, primal: Any, tangent: Any) -> None:
        self._trace = trace
        self.aval = aval_of(primal)
        self.primal = primal
        self.tangent = tangent

    def concrete(self) -> Any:
        """The primal, if it is known."""
        return self.primal.concrete() if isinstance(self.primal, Tracer) else self.primal


class JVPTrace(Trace):
    """Pushes tangents forward."""

    __slots__ = ()
    kind = "jvp"

    def process(self, primitive: Any, operands: tuple[Any, ...], params: dict[str, Any]) -> tuple[Any, ...]:
        """Apply the primitive's jvp rule in the parent trace."""
        primals, tangents, active = [], [], False
        for x in operands:
            if type(x) is JVPTracer and x._trace is self:
                primals.append(x.primal)
                tangents.append(x.tangent)
                active = True
            else:
                primals.append(x)
                tangents.append(None)
        parent = self.parent
        if active and parent is None:
            plan = fused.jvp_plan(primitive, primals, tangents, params)
            if plan is not None:
                return self._outputs(*plan(primals, tangents))
        token = current.set(parent)
        try:
            if not active:
                return bind_in(parent, primitive, operands, params)
            if primitive.linearize is not None and _on_a_tape(parent):
                # One program for values and tangents would put the values on the tape, too: keep the two apart.
                outs, out_tangents = primitive.linearize(tuple(primals), tuple(tangents), params)
            else:
                outs, out_tangents = primitive.jvp(tuple(primals), tuple(tangents), **params)
        finally:
            current.reset(token)
        return self._outputs(outs, out_tangents)

    def _outputs(self, outs: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, ...]:
        return tuple([o if t is None else JVPTracer(self, o, t) for o, t in zip(outs, tangents, strict=True)])


def _on_a_tape(trace: Any) -> bool:
    """Whether a linearization is among the traces that enclose this one."""
    while trace is not None:
        if trace.kind == "linearize":
            return True
        trace = trace.parent
    return False


def jvp_flat(
    fun: Callable[..., Sequence[Any]], primals: Sequence[Any], tangents: Sequence[Any]
) -> tuple[list[Any], list[Any]]:
    """Outputs and output tangents (None where zero) of a function of flat values.

    Parameters
    ----------
    fun : callable
    primals : sequence of arrays
    tangents : sequence of arrays or None

    Returns
    -------
    (list of arrays, list of arrays or None)
    """
    trace = JVPTrace(current.get(), getattr(fun, "__name__", ""))
    inputs = [p if t is None else JVPTracer(trace, p, t) for p, t in zip(primals, tangents, strict=True)]
    token = current.set(trace)
    try:
        outputs = fun(*inputs)
    finally:
        current.reset(token)
    outs, out_tangents, x = [], [], None
    for x in outputs:
        if type(x) is JVPTracer and x._trace is trace:
            outs.append(x.primal)
            out_tangents.append(x.tangent)
        else:
            outs.append(x)
            out_tangents.append(None)
    if config.check_tracer_leaks:
        ended = weakref.ref(trace)
        del trace, inputs, outputs, x
        check_leaks(ended)
    return outs, out_tangents


def jvp_jaxpr(
    jaxpr: Jaxpr, nonzero: tuple[bool, ...], wanted: tuple[bool, ...] | None = None
) -> tuple[Jaxpr, tuple[bool, ...]]:
    """The program `(primals, nonzero tangents) -> (outputs, nonzero output tangents)` of an inner jaxpr.

    Parameters
    ----------
    jaxpr : Jaxpr
        Without constants.
    nonzero : tuple of bool
        Which inputs have a tangent.
    wanted : tuple of bool, optional
        Outputs whose tangent is made explicit even if zero (loop carries need that).

    Returns
    -------
    jaxpr : Jaxpr
        Interned, and remembered on the jaxpr it is made from.
    out_nonzero : tuple of bool
    """
    key = ("jvp", nonzero, wanted)
    found = jaxpr.derived.get(key)
    if found is None:
        trace = StageTrace(None, jaxpr.name, "jvp", embed=True)
        primals = [trace.new_input(a) for a in jaxpr.in_avals]
        given = [trace.new_input(a) for a, n in zip(jaxpr.in_avals, nonzero, strict=True) if n]
        rest = iter(given)
        tangents = [next(rest) if n else None for n in nonzero]
        with recording(trace):
            outs, out_tangents = jvp_flat(lambda *xs: eval_jaxpr(jaxpr, (), *xs), primals, tangents)
            if wanted is not None:
                out_tangents = [
                    instantiate(t, o) if w else t for t, o, w in zip(out_tangents, outs, wanted, strict=True)
                ]
        kept = [t for t in out_tangents if t is not None]
        closed = trace.close([*primals, *given], [*outs, *kept])
        found = jaxpr.derived[key] = (intern(closed.jaxpr), tuple([t is not None for t in out_tangents]))
    return found


def jvp(fun: Callable[..., Any], primals: Any, tangents: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """Value and directional derivative of `fun`.

    Parameters
    ----------
    fun : callable
        Function of arrays or pytrees of arrays.
    primals, tangents : tuple or list
        Positional arguments and the direction, with the same structure, shapes and dtypes (`float0` for integer primals).
    has_aux : bool
        `fun` returns `(output, auxiliary data)`.

    Returns
    -------
    primals_out, tangents_out : pytrees
        And the auxiliary data, if `has_aux`.

    Raises
    ------
    TypeError
        `fun` cannot be called, primals and tangents are no tuples or lists, or differ in structure or dtype.
    ValueError
        They differ in shape.

    Examples
    --------
    >>> value, slope = purax.jvp(lambda x: x**2, (3.0,), (1.0,))
    >>> value.item(), slope.item()
    (9.0, 6.0)
    """
    if not callable(fun):
        raise TypeError(f"jvp: the first argument must be callable, got {fun!r}")
    for name, given in (("primals", primals), ("tangents", tangents)):
        if not isinstance(given, (tuple, list)):
            raise TypeError(
                f"primal and tangent arguments to jax.jvp must be tuples or lists; found {name} of type {type(given).__name__}"
            )
    primals_flat, treedef = tree.flatten(tuple(primals))
    tangents_flat, tangent_treedef = tree.flatten(tuple(tangents))
    if treedef != tangent_treedef:
        raise TypeError(
            f"primal and tangent arguments to jvp must have the same tree structure; primals have {treedef} whereas "
            f"tangents have {tangent_treedef}."
        )
    flat, store = flat_function(fun, treedef, has_aux=has_aux)
    checked = [_check_tangent(p, t) for p, t in zip(primals_flat, tangents_flat, strict=True)]
    with opened(JVP if current.get() is not None else None):
        outs, out_tangents = jvp_flat(flat, [hooks.as_array(p) for p in primals_flat], checked)
    out_tree, count = store.out_tree, store.count
    full = [_explicit_tangent(t, o) for t, o in zip(out_tangents[:count], outs[:count], strict=True)]
    result = out_tree.unflatten(outs[:count]), out_tree.unflatten(full)
    return (*result, store.aux(outs)) if has_aux else result


def _explicit_tangent(tangent: Any, out: Any) -> Any:
    if type(tangent) is hooks.array_type:
        return tangent
    aval = aval_of(out)
    return instantiate(tangent, out) if is_differentiable(aval.dtype) else float0_zeros(aval.shape)


def _check_tangent(primal: Any, tangent: Any) -> Any:
    aval = aval_of(primal)
    if type(tangent) is hooks.array_type and tangent.aval is aval and is_differentiable(aval.dtype):
        return tangent
    if getattr(tangent, "dtype", None) == dtypes.float0:
        if is_differentiable(aval.dtype):
            raise TypeError(_mismatch(aval, "float0"))
        if np.shape(tangent) != aval.shape:
            raise ValueError(f"jvp called with different primal and tangent shapes; got primal shape {aval.shape} and tangent shape {np.shape(tangent)}")  # fmt: skip
        return None
    given = aval_of(tangent)
    if not is_differentiable(aval.dtype):
        raise TypeError(_mismatch(aval, given.str_short()))
    if given.dtype != aval.dtype:
        raise TypeError(_mismatch(aval, given.str_short()))
    if given.shape != aval.shape:
        raise ValueError(
            f"jvp called with different primal and tangent shapes; got primal shape {aval.shape} and tangent shape {given.shape}"
        )
    return cast.as_type(hooks.as_array(tangent), aval)


def _mismatch(aval: Any, got: str) -> str:
    want = aval.str_short() if is_differentiable(aval.dtype) else f"float0[{','.join(map(str, aval.shape))}]"
    return errors.explain(
        f"primal and tangent arguments to jvp do not match: primal {aval.str_short()}, tangent {got}",
        "the tangent of a value has its shape and dtype (float0 for integers and booleans)",
        f"pass a tangent of type {want}",
    )


from purax.transforms import fused  # noqa: E402  (plans are made of the derived programs above)
