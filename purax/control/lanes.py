# SPDX-License-Identifier: Apache-2.0
"""Programs that are run for some lanes of a mapping only.

All lanes of a mapping run one program, so a branch that one lane takes is run for the others, too, and a loop goes on until the
last lane has finished. What it gives in a lane that is not meant is thrown away. Four things could still be seen: a loop that
never ends with the values of such a lane, so such lanes run on the values of a lane that is meant; a check that fails in such a
lane, so checks become results first, which are thrown away, too; calls of Python and other effects, so a program with such runs
lane by lane (unless it works across the lanes, by the name of the mapping); and a program that no lane is meant for, which is
not run at all if it holds a loop.

Parameters
----------
live : bool[...]
    Which lanes are meant, mapped axes first.
mapped : sequence of bool
    Which operands have the mapped axis, in front.
name : str
    Of the program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from purax import errors
from purax.control.check import check_p
from purax.control.program import build, partition
from purax.control.program_call import jit_p
from purax.control.scan import scan_p
from purax.core.effects import CHECK, IO, ORDERED_IO
from purax.core.hooks import hooks
from purax.core.interpret import walk
from purax.core.ir import Equation, Jaxpr, intern
from purax.core.passes import finds
from purax.core.stage import StageTrace, recording
from purax.core.trace import aval_of, bind_in, current
from purax.pipeline.evaluate import one_equation
from purax.primitives import elementwise, reduction, shape, slicing
from purax.primitives.collective import pvary_p
from purax.primitives.stop_gradient import stop_gradient
from purax.transforms.vmap import batch_jaxpr

__all__ = [
    "apart",
    "by_lane",
    "calls_host",
    "calls_python",
    "checks",
    "has_open_loop",
    "keep_where",
    "like_live",
    "with_reports",
]


def keep_where(live: Any, new: Any, old: Any) -> Any:
    """`new` in live lanes, `old` in the others; arrays of one shape and dtype, whose leading axes `live` has."""
    aval = aval_of(new)
    live_aval = aval_of(live)
    if live_aval.ndim != aval.ndim:
        live = shape.broadcast_in_dim(live, aval.shape, tuple(range(live_aval.ndim)))
    return elementwise.select_n_p.bind1(live, old, new)


def has_open_loop(jaxpr: Jaxpr) -> bool:
    """Whether the program holds a loop whose number of steps depends on values."""
    return _holds(jaxpr, "while")


def calls_host(jaxpr: Jaxpr) -> bool:
    """Whether somebody outside could tell how often the program runs."""
    return bool(jaxpr.effects) or _holds(jaxpr, "pure_callback")


def calls_python(jaxpr: Jaxpr) -> bool:
    """Whether Python functions are called while the program runs."""
    return bool(jaxpr.effects - {CHECK}) or _holds(jaxpr, "pure_callback")


def _names_axis(jaxpr: Jaxpr, axis: Any) -> bool:
    """Whether an operation of the program works across the lanes of this axis, which is named."""
    works = lambda e: e.primitive.names_axes and e.primitive is not pvary_p and axis.name in e.params["axes"]
    return axis.name is not None and finds(jaxpr, ("axis", axis.name), works)


def apart(programs: Sequence[Jaxpr], axis: Any) -> bool:
    """Whether programs with effects can run lane by lane.

    Parameters
    ----------
    programs : sequence of Jaxpr
    axis : Axis
        Of the mapping.

    Returns
    -------
    bool

    Raises
    ------
    CallbackBatchingError
        They do input or output, and work across the lanes: then all lanes run them, those that are not meant, too.
    """
    if not any(map(calls_host, programs)):
        return False
    if not any(_names_axis(j, axis) for j in programs):
        return True
    if any(j.effects & {IO, ORDERED_IO} for j in programs):
        raise errors.CallbackBatchingError(
            errors.explain(
                f"io_callback is in a branch or a loop that works across the lanes of the mapped axis {axis.name!r}",
                "all lanes run such a program, and its effects would happen for lanes that do not take the branch or have left the loop",
                "move the io_callback out of the branch or loop, or the collective",
            )
        )
    return False


def _unnamed(jaxpr: Jaxpr, axis: Any) -> Jaxpr:
    """The program without the name of a mapped axis in the types of its values."""
    if axis.name is None:
        return jaxpr
    found = jaxpr.derived.get(("unnamed", axis.name))
    if found is None:
        trace = StageTrace(None, jaxpr.name, "vmap", embed=True)
        inputs = [trace.new_input(a.with_varying(a.varying - {axis.name})) for a in jaxpr.in_avals]
        with recording(trace):
            outs = walk(jaxpr, (), inputs, lambda eqn, values: _bind_unnamed(eqn, values, axis))
        found = jaxpr.derived["unnamed", axis.name] = intern(trace.close(inputs, outs).jaxpr)
    return found


def _bind_unnamed(eqn: Equation, values: Sequence[Any], axis: Any) -> Sequence[Any]:
    def changed(value: Any) -> Any:
        if isinstance(value, Jaxpr):
            return _unnamed(value, axis)
        return tuple([changed(v) for v in value]) if type(value) is tuple else value

    if eqn.primitive is pvary_p:
        rest = tuple([name for name in eqn.params["axes"] if name != axis.name])
        return eqn.primitive.bind(*values, axes=rest) if rest else values
    params = {name: changed(value) for name, value in eqn.params.items()}
    return bind_in(current.get(), eqn.primitive, tuple(values), params)


def _holds(jaxpr: Jaxpr, name: str) -> bool:
    return finds(jaxpr, ("holds", name), lambda eqn: eqn.primitive.name == name)


def checks(programs: Iterable[Jaxpr]) -> bool:
    """Whether programs hold checks whose results `with_reports` can give: none that is for `checkify` alone."""
    for_checkify = lambda eqn: eqn.primitive is check_p and eqn.params["debug"]
    programs = list(programs)
    return any(CHECK in j.effects for j in programs) and not any(
        finds(j, "debug check", for_checkify) for j in programs
    )


def with_reports(
    primitive: Any,
    axis: Any,
    operands: Sequence[Any],
    dims: Sequence[Any],
    avals: Sequence[Any],
    params: dict[str, Any],
) -> tuple[Any, tuple[int | None, ...]]:
    """Map an operation that holds programs with checks: what they found in each lane is a result, and is checked afterwards.

    Parameters
    ----------
    primitive, params
        The operation.
    axis : Axis
        Of the mapping.
    operands : sequence of arrays
    dims : sequence of int or None
        Their mapped axes.
    avals : sequence of ShapedArray
        Types of the operands within a lane.

    Returns
    -------
    (tuple of arrays, tuple of int or None)
        Outputs of the operation and their mapped axes.
    """
    outs = primitive.outputs(tuple(avals), params)
    jaxpr, table = hooks.report(intern(one_equation(primitive, tuple(avals), params, outs)))
    mask = tuple([d is not None for d in dims])
    wanted = (*[False] * len(outs), *[True] * (len(jaxpr.outvars) - len(outs)))
    mapped, batched = batch_jaxpr(jaxpr, axis, mask, wanted)
    moved = [x if d is None else shape.move_batch_axis(x, d, 0) for x, d in zip(operands, dims, strict=True)]
    results = jit_p.bind(*moved, jaxpr=mapped, name=primitive.name, inline=True)
    check_p.bind(*results[len(outs) :], table=table, lanes=1, debug=False)
    return tuple(results[: len(outs)]), tuple([0 if b else None for b in batched[: len(outs)]])


def like_live(live: Any, values: Sequence[Any], mapped: Sequence[bool]) -> list[Any]:
    """Mapped `values`, mapped axis first, with those of the first live lane in the lanes that are not live: a list."""
    first = reduction.argmax(live, 0, np.int32)
    return [_like_lane(live, x, first) if m else x for x, m in zip(values, mapped, strict=True)]


def _like_lane(live: Any, x: Any, lane: Any) -> Any:
    aval = aval_of(x)
    one = slicing.dynamic_index_in_dim(stop_gradient(x), lane, 0, keepdims=False, allow_negative_indices=False)
    return keep_where(live, x, shape.broadcast_batch(one, aval.shape[0], 0))


def by_lane(
    fun: Callable[..., Sequence[Any]],
    axis: Any,
    operands: Sequence[Any],
    mapped: Sequence[bool],
    programs: Sequence[Jaxpr],
) -> list[Any]:
    """`fun(programs, *operands)` of one lane after the other; mapped operands and all outputs have the mapped axis first.

    Parameters
    ----------
    fun : callable
    axis : Axis
    operands : sequence of arrays
    programs : sequence of Jaxpr
        What it runs; without the name of the axis they are handed to it.

    Returns
    -------
    list of arrays
    """
    shared, rows = partition(mapped, operands)
    size, name = axis.size, programs[0].name
    programs = tuple([_unnamed(j, axis) for j in programs])

    def body(*xs: Any) -> Sequence[Any]:
        rest, own = iter(xs[: len(shared)]), iter(xs[len(shared) :])
        return fun(programs, *[next(own) if m else next(rest) for m in mapped])

    avals = [*map(aval_of, shared), *(aval_of(x).without_axis(0) for x in rows)]
    program = build(body, avals, name)
    return list(
        scan_p.bind(*shared, *rows, jaxpr=program, length=size, reverse=False, unroll=1, consts=len(shared), carry=0)
    )
