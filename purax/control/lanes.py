# SPDX-License-Identifier: Apache-2.0
"""Programs that are run for some lanes of a mapping only.

All lanes of a mapping run one program, so a branch that one lane takes is run for the others, too, and a loop goes on until the
last lane has finished. What it gives in a lane that is not meant is thrown away. Three things could still be seen: a loop that
never ends with the values of such a lane, so such lanes run on the values of a lane that is meant; calls of Python and other
effects, so a program with such runs lane by lane (unless the mapping has a name, which collectives may use); and a program that no
lane is meant for, which is not run at all if it holds a loop.

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

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from purax.control.program import build, partition
from purax.control.scan import scan_p
from purax.core.ir import ClosedJaxpr, Jaxpr
from purax.core.trace import aval_of
from purax.primitives import elementwise, reduction, shape, slicing
from purax.primitives.stop_gradient import stop_gradient

__all__ = ["by_lane", "calls_host", "has_open_loop", "keep_where", "like_live"]


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


def _holds(jaxpr: Jaxpr, name: str) -> bool:
    found = jaxpr.derived.get(("holds", name))
    if found is None:
        found = jaxpr.derived["holds", name] = any(
            eqn.primitive.name == name or any(_value_holds(value, name) for value in eqn.params.values())
            for eqn in jaxpr.eqns
        )
    return found


def _value_holds(value: Any, name: str) -> bool:
    if isinstance(value, (Jaxpr, ClosedJaxpr)):
        return _holds(value.jaxpr, name)
    return isinstance(value, tuple) and any(_value_holds(item, name) for item in value)


def like_live(live: Any, values: Sequence[Any], mapped: Sequence[bool]) -> list[Any]:
    """Mapped `values`, mapped axis first, with those of the first live lane in the lanes that are not live: a list."""
    first = reduction.argmax(live, 0, np.int32)
    return [_like_lane(live, x, first) if m else x for x, m in zip(values, mapped, strict=True)]


def _like_lane(live: Any, x: Any, lane: Any) -> Any:
    aval = aval_of(x)
    one = slicing.dynamic_index_in_dim(stop_gradient(x), lane, 0, keepdims=False, allow_negative_indices=False)
    return keep_where(live, x, shape.broadcast_batch(one, aval.shape[0], 0))


def by_lane(
    fun: Callable[..., Sequence[Any]], size: int, operands: Sequence[Any], mapped: Sequence[bool], name: str
) -> list[Any]:
    """`fun` of one lane after the other; mapped operands and all outputs have the mapped axis first.

    Parameters
    ----------
    fun : callable
    size : int
        Number of lanes.
    operands : sequence of arrays

    Returns
    -------
    list of arrays
    """
    shared, rows = partition(mapped, operands)

    def body(*xs: Any) -> Sequence[Any]:
        rest, own = iter(xs[: len(shared)]), iter(xs[len(shared) :])
        return fun(*[next(own) if m else next(rest) for m in mapped])

    avals = [*map(aval_of, shared), *((a := aval_of(x)).update(shape=a.shape[1:]) for x in rows)]
    program = build(body, avals, name)
    return list(
        scan_p.bind(*shared, *rows, jaxpr=program, length=size, reverse=False, unroll=1, consts=len(shared), carry=0)
    )
