# SPDX-License-Identifier: Apache-2.0
"""Reductions by a user's function: `reduce`, and what `reduce_window` shares with it.

The function is staged once on scalars. A function that is one known operation becomes the primitive of that operation; any other
stays a jaxpr, which is run elementwise through the batching rules of its operations, and differentiated through their jvp rules.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from purax import errors, tree
from purax.core.aval import array_aval
from purax.core.axes import Axis
from purax.core.hooks import hooks
from purax.core.interpret import reference_eval
from purax.core.ir import Jaxpr, Var, intern
from purax.core.primitive import Primitive
from purax.core.stage import stage
from purax.core.trace import aval_of, bind_in, current, is_tracer
from purax.primitives import base, elementwise, joining, operands, reduction, shape
from purax.sharding import rules

__all__ = [
    "reduce", "reduce_p",
]  # fmt: skip


# --- the user's function ------------------------------------------------------------------------------------------------------


def stage_computation(computation: Callable[..., Any], structure: Any, avals: Sequence[Any]) -> Jaxpr:
    """`computation(accumulated, element)`, functions of pytrees with scalar leaves of types `avals`, as a jaxpr.

    Raises
    ------
    ShapeError
        It returns other types than it takes, or uses arrays from outside.
    """

    def flat(*values: Any) -> Sequence[Any]:
        half = len(avals)
        out = computation(tree.unflatten(structure, values[:half]), tree.unflatten(structure, values[half:]))
        results, out_structure = tree.flatten(out)
        if out_structure != structure:
            raise errors.ShapeError(
                f"the computation of a reduction must return the structure of its operands, {structure}, it returns {out_structure}"
            )
        return results

    scalars = [array_aval((), a.dtype) for a in avals]
    closed = stage(flat, [*scalars, *scalars], name=getattr(computation, "__name__", ""), kind="reduce")
    if closed.jaxpr.constvars:
        raise errors.ShapeError(
            "the computation of a reduction cannot use arrays or traced values from outside; pass them as operands"
        )
    found = [a.strip_weak() for a in closed.out_avals]
    if found != scalars:
        given = ", ".join(a.str_short() for a in scalars)
        raise errors.ShapeError(
            f"the computation of a reduction must return what it takes ({given}), it returns ({', '.join(a.str_short() for a in found)})"
        )
    return intern(closed.jaxpr)


_KINDS = {"add": "add", "mul": "multiply", "max": "maximum", "min": "minimum", "and": "and", "or": "or", "xor": "xor"}


def monoid_of(jaxpr: Jaxpr) -> str | None:
    """The operation ("add", "maximum", ...) that the jaxpr of one pair is, or None."""
    if len(jaxpr.eqns) != 1 or len(jaxpr.invars) != 2:
        return None
    (eqn,) = jaxpr.eqns
    if set(eqn.invars) != set(jaxpr.invars) or eqn.outvars != jaxpr.outvars:
        return None
    return _KINDS.get(eqn.primitive.name)


def starts_at_identity(initial: Any, kind: str, dtype: Any) -> bool:
    """Whether an initial value is known to be the identity of the operation."""
    if is_tracer(initial):
        return False
    value = np.asarray(hooks.as_array(initial))
    return value.ndim == 0 and bool(value.astype(dtype) == reduction.identity_of(kind, dtype))


# --- a scalar jaxpr on arrays -------------------------------------------------------------------------------------------------


def elementwise_eval(jaxpr: Jaxpr, *arrays: Any) -> list[Any]:
    """`jaxpr`, of scalars, on each element of arrays of one shape."""
    sizes = aval_of(arrays[0]).shape
    axis = Axis(None, math.prod(sizes))
    env: dict[Var, Any] = {v: (shape.reshape(x, (axis.size,)), 0) for v, x in zip(jaxpr.invars, arrays, strict=True)}

    def read(atom: Any) -> Any:
        return env[atom] if type(atom) is Var else (atom.val, None)

    for eqn in jaxpr.eqns:
        values, dims = zip(*[read(a) for a in eqn.invars], strict=True) if eqn.invars else ((), ())
        if all(d is None for d in dims):
            outs, out_dims = bind_in(current.get(), eqn.primitive, values, eqn.params), (None,) * len(eqn.outvars)
        else:
            outs, out_dims = eqn.primitive.batch(axis, values, dims, **eqn.params)
        env.update(zip(eqn.outvars, zip(outs, out_dims, strict=True), strict=True))
    results = []
    for atom in jaxpr.outvars:
        value, dim = read(atom)
        results.append(shape.broadcast_in_dim(value, sizes, ()) if dim is None else shape.reshape(value, sizes))
    return results


def tangent_jaxpr(jaxpr: Jaxpr) -> Jaxpr:
    """The program (values, tangents) -> (outputs, output tangents) of a jaxpr; remembered on it."""
    found = jaxpr.derived.get("scalar tangent")
    if found is None:
        avals = [a.strip_weak() for a in jaxpr.in_avals]
        moving = [base.is_differentiable(a.dtype) for a in avals]

        def run(*values: Any) -> list[Any]:
            given = iter(values[len(avals) :])
            env = {
                v: (x, next(given) if m else None)
                for v, x, m in zip(jaxpr.invars, values[: len(avals)], moving, strict=True)
            }

            def read(atom: Any) -> Any:
                return env[atom] if type(atom) is Var else (atom.val, None)

            for eqn in jaxpr.eqns:
                primals, tangents = zip(*[read(a) for a in eqn.invars], strict=True) if eqn.invars else ((), ())
                if all(t is None for t in tangents):
                    found = bind_in(current.get(), eqn.primitive, primals, eqn.params)
                    outs, touts = list(found), (None,) * len(eqn.outvars)
                else:
                    outs, touts = eqn.primitive.jvp(primals, tangents, **eqn.params)
                env.update(zip(eqn.outvars, zip(outs, touts, strict=True), strict=True))
            outs = [read(a) for a in jaxpr.outvars]
            return [p for p, _ in outs] + [
                base.instantiate(t, p) for p, t in outs if base.is_differentiable(aval_of(p).dtype)
            ]

        closed = stage(run, [*avals, *(a for a, m in zip(avals, moving, strict=True) if m)], kind="jvp")
        found = jaxpr.derived["scalar tangent"] = intern(closed.jaxpr)
    return found


def pair_combine(jaxpr: Jaxpr, values: Sequence[Any]) -> Callable[[Sequence[Any], Sequence[Any]], list[Any]]:
    """`combine(early, late)` of lists made by `pack_pairs`: the values' reduction with its tangents."""
    program, count = tangent_jaxpr(jaxpr), len(values)

    def combine(early: Sequence[Any], late: Sequence[Any]) -> list[Any]:
        return elementwise_eval(program, *early[:count], *late[:count], *early[count:], *late[count:])

    return combine


def pack_pairs(values: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
    """Values, then the tangents of those that have any, zeros written out."""
    return [
        *values,
        *(
            base.instantiate(t, p)
            for p, t in zip(values, tangents, strict=True)
            if base.is_differentiable(aval_of(p).dtype)
        ),
    ]


def unpack_tangents(values: Sequence[Any], packed: Sequence[Any]) -> tuple[Any, ...]:
    """The tangents in a list made as by `pack_pairs`, None where there is none."""
    rest = iter(packed[len(values) :])
    return tuple(next(rest) if base.is_differentiable(aval_of(p).dtype) else None for p in values)


def fold(combine: Callable[..., Any], state: Sequence[Any]) -> list[Any]:
    """Fold arrays over their leading axis (not empty) by halves."""
    size = aval_of(state[0]).shape[0]
    state = list(state)
    while size > 1:
        half = size // 2
        merged = combine(
            [joining.slice_in_dim(s, 0, half) for s in state], [joining.slice_in_dim(s, half, 2 * half) for s in state]
        )
        if size % 2:
            merged = [
                joining.concatenate([m, joining.slice_in_dim(s, 2 * half, size)], 0)
                for m, s in zip(merged, state, strict=True)
            ]
        state, size = merged, size - half
    return [shape.squeeze(s, (0,)) for s in state]


# --- reduce -------------------------------------------------------------------------------------------------------------------


class Reduce(Primitive):
    """Reduction of k operands at once by a jaxpr of 2k scalars; operands are k arrays, then k initial scalars."""

    def spread(self, ins: Any, avals: Any, outs: Any, params: Any) -> Any:
        """The axes that stay, lie as they did."""
        rules.refuse_sums(self.name, ins)
        return [rules.without(s, params["dimensions"]) for s in ins[: len(outs)]]

    def infer(self, *avals: Any, jaxpr: Jaxpr, dimensions: tuple[int, ...]) -> tuple[Any, ...]:
        """The arrays' types without `dimensions`."""
        arrays, initial = avals[: len(avals) // 2], avals[len(avals) // 2 :]
        for aval, start in zip(arrays, initial, strict=True):
            if aval.shape != arrays[0].shape:
                raise errors.ShapeError(
                    f"all operands must have one shape, got {', '.join(str(a.shape) for a in arrays)}"
                )
            if start.shape != () or start.dtype != aval.dtype:
                raise errors.ShapeError(
                    f"an initial value must be a scalar of its operand's dtype {aval.dtype}, got {start.str_short()}"
                )
            reduction.check_axes(aval, dimensions)
        return tuple(array_aval(reduction.dropped(a.shape, dimensions), a.dtype) for a in arrays)

    def reference(self, *operands: Any, jaxpr: Jaxpr, dimensions: tuple[int, ...]) -> tuple[np.ndarray, ...]:
        """Element after element."""
        arrays, initial = operands[: len(operands) // 2], operands[len(operands) // 2 :]
        rest = reduction.kept_axes(arrays[0].ndim, dimensions)
        sizes = tuple(arrays[0].shape[a] for a in rest)
        rows = [a.transpose(*rest, *dimensions).reshape(*sizes, -1) for a in arrays]
        outs = [np.empty(sizes, a.dtype) for a in arrays]
        for place in np.ndindex(*sizes):
            state = list(initial)
            for i in range(rows[0].shape[-1]):
                state = reference_eval(jaxpr, (), *state, *(r[(*place, i)] for r in rows))
            for out, value in zip(outs, state, strict=True):
                out[place] = value
        return tuple(outs)

    def jvp(self, primals: Any, tangents: Any, *, jaxpr: Jaxpr, dimensions: tuple[int, ...]) -> Any:
        """The fold of (value, tangent) pairs, by halves."""
        outs = self.bind(*primals, jaxpr=jaxpr, dimensions=dimensions)
        half = len(primals) // 2
        rest = reduction.kept_axes(aval_of(primals[0]).ndim, dimensions)
        values = [_rows(p, dimensions, rest) for p in primals[:half]]
        changes = [None if t is None else _rows(t, dimensions, rest) for t in tangents[:half]]
        sizes = aval_of(values[0]).shape
        start = [shape.broadcast_in_dim(s, sizes[1:], ()) for s in pack_pairs(primals[half:], tangents[half:])]
        combine = pair_combine(jaxpr, values)
        found = combine(start, fold(combine, pack_pairs(values, changes))) if sizes[0] else start
        return outs, unpack_tangents(values, found)

    def batch(self, axis: Any, operands_: Any, dims: Any, *, jaxpr: Jaxpr, dimensions: tuple[int, ...]) -> Any:
        """The same over the shifted axes; mapped initial values are folded in afterwards."""
        half = len(dims) // 2
        arrays, initial = list(operands_[:half]), list(operands_[half:])
        if all(d is None for d in dims[half:]):
            arrays, dim = operands.align(axis, arrays, dims[:half])
            outs = self.bind(*arrays, *initial, jaxpr=jaxpr, dimensions=reduction.shifted(dimensions, dim))
            return outs, (dim - sum(a < dim for a in dimensions),) * half
        if all(d is None for d in dims[:half]):
            arrays = [
                shape.broadcast_in_dim(a, (axis.size, *aval_of(a).shape), range(1, aval_of(a).ndim + 1)) for a in arrays
            ]
            dim = 0
        else:
            arrays, dim = operands.align(axis, arrays, dims[:half])
        shifted = reduction.shifted(dimensions, dim)
        rest = tuple(a for a in range(aval_of(arrays[0]).ndim) if a not in shifted and a != dim)
        rows = [_rows(a, shifted, (dim, *rest)) for a in arrays]
        sizes = aval_of(rows[0]).shape
        start = [
            shape.broadcast_in_dim(s, sizes[1:], () if d is None else (0,))
            for s, d in zip(initial, dims[half:], strict=True)
        ]

        def combine(early: Sequence[Any], late: Sequence[Any]) -> list[Any]:
            return elementwise_eval(jaxpr, *early, *late)

        return combine(start, fold(combine, rows)) if sizes[0] else start, (0,) * half

    def lower(self, b: Any, ins: Any, outs: Any, *, jaxpr: Jaxpr, dimensions: tuple[int, ...]) -> list[Any]:
        """`stablehlo.reduce` with the jaxpr as its body."""
        half = len(ins) // 2
        region = region_of(b, jaxpr, ins[half:])
        names = ", ".join(map(str, ins))
        types = ", ".join(x.hlo for x in ins)
        results = ", ".join(o.hlo for o in outs)
        dims = ", ".join(map(str, dimensions))
        attributes = f"{{dimensions = array<i64{': ' if dims else ''}{dims}>}}"
        return b.emit_many(f'"stablehlo.reduce"({names}) ({region}) {attributes} : ({types}) -> ({results})', outs)


def _rows(x: Any, axes: Sequence[int], rest: Sequence[int]) -> Any:
    """`x` with `axes` merged into one leading axis, before the axes `rest`."""
    sizes = aval_of(x).shape
    return shape.reshape(
        shape.transpose(x, (*axes, *rest)), (math.prod(sizes[a] for a in axes), *(sizes[a] for a in rest))
    )


def region_of(b: Any, jaxpr: Jaxpr, initial: Sequence[Any]) -> str:
    """The body of a reduction: accumulated scalars, then elements."""
    scalars = [x.aval.strip_weak() for x in initial]
    return b.block([*scalars, *scalars], lambda inner, *values: inner.jaxpr(jaxpr, values))


reduce_p = Reduce("reduce")

_REDUCTIONS = {
    "add": "reduce_sum", "multiply": "reduce_prod", "maximum": "reduce_max", "minimum": "reduce_min",
    "and": "reduce_and", "or": "reduce_or", "xor": "reduce_xor",
}  # fmt: skip
_PAIRWISE = {
    "add": "add", "multiply": "mul", "maximum": "max", "minimum": "min",
    "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
}  # fmt: skip


def reduce(
    operands: Any,
    init_values: Any,
    computation: Callable[[Any, Any], Any],
    dimensions: Sequence[int],
    out_sharding: Any = None,
) -> Any:
    """Reduce arrays over axes by an associative, commutative function.

    Parameters
    ----------
    operands : pytree of arrays
        Of one shape.
    init_values : pytree of scalars
        Same structure; the fold begins with them.
    computation : callable
        `(accumulated, element) -> accumulated` on pytrees of scalars.
    dimensions : sequence of int
    out_sharding : optional
        Without effect.

    Returns
    -------
    pytree of arrays

    Raises
    ------
    ShapeError
        The structures, shapes or dtypes differ, or `computation` returns other types than it takes.
    """
    arrays, structure = tree.flatten(operands)
    initial, initial_structure = tree.flatten(init_values)
    if structure != initial_structure:
        raise errors.ShapeError(f"reduce: operands have structure {structure}, init_values {initial_structure}")
    if not arrays:
        raise errors.ShapeError("reduce needs at least one operand")
    initial = matched(arrays, initial)
    jaxpr = stage_computation(computation, structure, [aval_of(x) for x in arrays])
    kind = monoid_of(jaxpr)
    axes = reduction.normalized(dimensions)
    if kind is not None:
        (x,), (start,) = arrays, initial
        out = getattr(reduction, _REDUCTIONS[kind])(x, axes)
        if not starts_at_identity(start, kind, aval_of(x).dtype):
            out = getattr(elementwise, _PAIRWISE[kind])(out, shape.broadcast_in_dim(start, aval_of(out).shape, ()))
        return tree.unflatten(structure, [out])
    return tree.unflatten(structure, reduce_p.bind(*arrays, *initial, jaxpr=jaxpr, dimensions=axes))


def matched(arrays: Sequence[Any], initial: Sequence[Any]) -> list[Any]:
    """Initial values, those that are weakly typed in the dtype of their operand."""
    return [
        operands.scalar(s, aval_of(x).dtype)
        if not is_tracer(s) and aval_of(s).weak_type and aval_of(s).dtype != aval_of(x).dtype
        else s
        for x, s in zip(arrays, initial, strict=True)
    ]
