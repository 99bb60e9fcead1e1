# SPDX-License-Identifier: Apache-2.0
"""Automatic checks: programs whose operations are followed by checks of what they give, of divisors, and of indices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from purax import config, dtypes, errors, tree
from purax.control.check import INT32, Table, bind_failure, check_p, single
from purax.control.discharge import check_rules
from purax.control.program_call import jit_p
from purax.core.hooks import hooks
from purax.core.ir import Equation, Jaxpr, intern
from purax.core.rules import RuleTable
from purax.core.stage import StageTrace, StageTracer, recording
from purax.core.trace import aval_of
from purax.primitives import bits, comparison, elementwise, gather, joining, reduction, scatter, shape, slicing

__all__ = ["instrument", "with_automatic_checks"]

Kinds = frozenset[type[errors.CheckError]]
_BY_NAME: dict[str, type[errors.CheckError]] = {
    "nan": errors.NanCheckError,
    "div": errors.DivisionCheckError,
    "index": errors.IndexCheckError,
}

# What moves values, or gives NaN on request, makes none.
_MOVES = frozenset({
    "all_gather", "all_to_all", "bitcast_convert_type", "broadcast_in_dim", "complex", "concatenate", "convert_element_type",
    "copy", "dynamic_slice", "dynamic_update_slice", "gather", "imag", "io_callback", "name", "optimization_barrier", "pad",
    "ppermute", "pure_callback", "pvary", "real", "reshape", "rev", "roll", "scatter", "select_n", "sharding_constraint", "slice",
    "sort", "split", "squeeze", "stop_gradient", "transpose",
})  # fmt: skip


def with_automatic_checks(jaxpr: Jaxpr) -> Jaxpr:
    """A traced program with the checks that the setting `automatic_checks` asks for; programs that it calls have theirs."""
    names = config.current().automatic_checks
    if not names:
        return jaxpr
    return _instrumented(jaxpr, frozenset({errors.FailedCheckError, *[_BY_NAME[name] for name in names]}), calls=False)


hooks.instrument = with_automatic_checks


def instrument(jaxpr: Jaxpr, kinds: Kinds, calls: bool = True) -> Jaxpr:
    """The program with automatic checks of some kinds; remembered on the program.

    Parameters
    ----------
    jaxpr : Jaxpr
        Its constants are inputs.
    kinds : frozenset of CheckError classes
        Checks of other kinds, the user's among them, are left out.
    calls : bool
        Also instrument programs that it calls by `jit`; False where these have been instrumented on their own.

    Returns
    -------
    Jaxpr
    """
    key = ("instrument", kinds, calls)
    found = jaxpr.derived.get(key)
    if found is None:
        found = jaxpr.derived.setdefault(key, intern(_instrumented(jaxpr, kinds, calls)))
    return found


def _instrumented(jaxpr: Jaxpr, kinds: Kinds, calls: bool) -> Jaxpr:
    trace = StageTrace(None, jaxpr.name, "checks", embed=True)
    with recording(trace):
        for eqn in jaxpr.eqns:
            if eqn.primitive is check_p:
                if _wanted(eqn.params["table"], kinds):
                    trace.eqns.append(eqn)
                continue
            before = len(trace.eqns)
            held = eqn.primitive in check_rules
            if not held:
                _before(trace, eqn, kinds)
            trace.eqns.append(_inside(eqn, kinds, calls) if held else eqn)
            if not held and errors.NanCheckError in kinds and eqn.primitive.name not in _MOVES:
                _no_nan(trace, eqn)
            for new in trace.eqns[before:]:
                new.source = eqn.source
    return Jaxpr(jaxpr.constvars, jaxpr.invars, jaxpr.outvars, trace.eqns, jaxpr.names, jaxpr.name)


def _wanted(table: Table, kinds: Kinds) -> bool:
    return any(site.kind in kinds for site in table.sites)


def _inside(eqn: Equation, kinds: Kinds, calls: bool) -> Equation:
    """The equation that holds instrumented programs."""
    if eqn.primitive is jit_p and not calls:
        return eqn

    def changed(value: Any) -> Any:
        if isinstance(value, Jaxpr):
            return instrument(value, kinds, calls)
        if isinstance(value, tuple) and any(isinstance(v, Jaxpr) for v in value):
            parts = [changed(v) for v in value]
            return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
        return value

    params = {name: changed(value) for name, value in eqn.params.items()}
    return eqn.replace(params=params, effects=eqn.primitive.effects(params))


def _tracer(trace: StageTrace, atom: Any) -> Any:
    return StageTracer(trace, atom) if not hasattr(atom, "val") else atom.val


def _fails(kind: type[errors.CheckError], text: str, failed: Any, values: Sequence[Any], eqn: Equation) -> None:
    """Bind a check that fails where any element of `failed` is true."""
    ndim = aval_of(failed).ndim
    if ndim:
        failed = reduction.reduce_or(failed, tuple(range(ndim)))
    _, args_tree = tree.flatten((tuple(values), {}))
    bind_failure(failed, values, single(kind, text, args_tree, [aval_of(v) for v in values], eqn.source))


def _no_nan(trace: StageTrace, eqn: Equation) -> None:
    for var in eqn.outvars:
        if dtypes.is_inexact(var.aval.dtype) and var.aval.size:
            out = StageTracer(trace, var)
            text = f"nan generated by primitive: {eqn.primitive.name}"
            _fails(errors.NanCheckError, text, comparison.ne(out, out), (), eqn)


def _before(trace: StageTrace, eqn: Equation, kinds: Kinds) -> None:
    """Checks of operands."""
    if errors.DivisionCheckError in kinds and eqn.primitive.name in ("div", "rem", "nonzero_divisor"):
        divisor = _tracer(trace, eqn.invars[-1])
        if aval_of(divisor).size:
            zero = shape.full_like_aval(aval_of(divisor), 0)
            _fails(errors.DivisionCheckError, "division by zero", comparison.eq(divisor, zero), (), eqn)
    if errors.IndexCheckError in kinds and eqn.primitive in _bounds:
        found = _bounds[eqn.primitive](eqn, [_tracer(trace, a) for a in eqn.invars])
        if found is not None:
            _in_bounds(eqn, *found)


# --- indices --------------------------------------------------------------------------------------------------------------------

_bounds = RuleTable("bounds")
"""`rule(equation, operands) -> (index vectors [n, k], axis of each component, window size along it)`, or None."""


def _in_bounds(eqn: Equation, vectors: Any, axes: Sequence[int], windows: Sequence[int]) -> None:
    """Bind a check of index vectors; its message names the first index that is out of bounds."""
    sizes = eqn.invars[0].aval.shape
    aval = aval_of(vectors)
    if not aval.size:
        return
    largest = dtypes.iinfo(aval.dtype).max
    limits = np.array([min(sizes[a] - w, largest) for a, w in zip(axes, windows, strict=True)], aval.dtype)
    limit = shape.broadcast_in_dim(limits, aval.shape, (1,))
    outside = comparison.gt(vectors, limit)
    if not dtypes.is_unsigned(aval.dtype):
        outside = bits.bitwise_or(outside, comparison.lt(vectors, shape.full_like_aval(aval, 0)))
    flat = shape.reshape(outside, (aval.size,))
    first = reduction.argmax(flat, 0, INT32)
    component = elementwise.rem(first, np.int32(len(axes)))
    pick: Callable[[Any, Any], Any] = lambda table, i: slicing.dynamic_index_in_dim(table, i, 0, keepdims=False)
    index = pick(shape.reshape(vectors, (aval.size,)), first)
    axis = pick(np.array(axes, INT32), component)
    size = pick(np.array([sizes[a] for a in axes], INT32), component)
    text = f"out-of-bounds indexing for an array of shape {sizes}: index {{}} is out of bounds for axis {{}} with size {{}}"
    _fails(errors.IndexCheckError, text, flat, (index, axis, size), eqn)


@_bounds.register(gather.gather_p)
def _gather(eqn: Equation, operands: list[Any]) -> Any:
    axes = eqn.params["dimension_numbers"].start_index_map
    if not axes:
        return None
    sizes = eqn.params["slice_sizes"]
    return _vectors(operands[1], len(axes)), axes, [sizes[a] for a in axes]


def _vectors(indices: Any, count: int) -> Any:
    return shape.reshape(indices, (aval_of(indices).size // count, count))


def _scatter(eqn: Equation, operands: list[Any]) -> Any:
    numbers = eqn.params["dimension_numbers"]
    axes = tuple(numbers.scatter_dims_to_operand_dims)
    if not axes:
        return None
    x, updates = eqn.invars[0].aval, eqn.invars[2].aval
    dropped = {*numbers.inserted_window_dims, *numbers.operand_batching_dims}
    windows = dict.fromkeys(range(x.ndim), 1)
    kept = [a for a in range(x.ndim) if a not in dropped]
    windows.update((a, updates.shape[w]) for a, w in zip(kept, numbers.update_window_dims, strict=True))
    return _vectors(operands[1], len(axes)), axes, [windows[a] for a in axes]


for _primitive in (
    scatter.scatter_p, scatter.scatter_add_p, scatter.scatter_sub_p, scatter.scatter_mul_p, scatter.scatter_min_p, scatter.scatter_max_p,
):  # fmt: skip
    _bounds.register(_primitive)(_scatter)


def _starts(starts: Sequence[Any], windows: Sequence[int]) -> Any:
    if not starts:
        return None
    row = joining.concatenate([shape.reshape(s, (1,)) for s in starts], 0)
    return shape.reshape(row, (1, len(starts))), tuple(range(len(starts))), windows


@_bounds.register(slicing.dynamic_slice_p)
def _dynamic_slice(eqn: Equation, operands: list[Any]) -> Any:
    return _starts(operands[1:], eqn.params["slice_sizes"])


@_bounds.register(slicing.dynamic_update_slice_p)
def _dynamic_update_slice(eqn: Equation, operands: list[Any]) -> Any:
    return _starts(operands[2:], eqn.invars[1].aval.shape)
