# SPDX-License-Identifier: Apache-2.0
"""Scatter of a function: the elements in the windows of a scatter replaced by what a scalar program gives for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from purax import errors
from purax.core.aval import array_aval
from purax.core.interpret import reference_eval
from purax.core.ir import Jaxpr, Literal, intern
from purax.core.primitive import Primitive, Undefined
from purax.core.stage import stage
from purax.core.trace import aval_of
from purax.primitives.gather import GatherScatterMode

__all__ = ["scatter_apply", "scatter_apply_p"]


class ScatterApply(Primitive):
    """`*operands, indices`: a scalar program applied to the elements at each window, once for each window that meets them.

    The program takes and returns one scalar per operand; operands have equal shapes. Its derivative needs the values between
    repeated applications, so the jvp scatters the program together with its Jacobian.
    """

    transpose = Undefined("the program need not be linear")

    def infer(self, *operands: Any, dimension_numbers: Any, update_shape: Any, program: Jaxpr, **params: Any) -> Any:
        *xs, indices = operands
        for x in xs:
            scatter.scatter_p.infer(x, indices, x.update(shape=update_shape), dimension_numbers=dimension_numbers)
        if program.in_avals != program.out_avals or [a.dtype for a in program.in_avals] != [x.dtype for x in xs]:
            raise errors.DTypeError("the applied function must return a scalar of the operand's dtype")
        return tuple(xs)

    def reference(
        self, *operands: Any, dimension_numbers: Any, update_shape: Any, mode: Any, program: Jaxpr, **_: Any
    ) -> Any:
        *xs, indices = operands
        outs = [np.array(x) for x in xs]
        places, values = scatter.host_places(xs[0], indices, np.zeros(update_shape, bool), dimension_numbers, mode)
        if values.size:
            for place in zip(*[np.ravel(i) for i in places], strict=True):
                for out, new in zip(outs, reference_eval(program, (), *[out[place] for out in outs]), strict=True):
                    out[place] = new
        return tuple(outs)

    def jvp(self, primals: Any, tangents: Any, *, program: Jaxpr, **params: Any) -> Any:
        *xs, indices = primals
        count = len(xs)
        if all(t is None for t in tangents):
            return self.bind(*primals, program=program, **params), (None,) * count
        ones = [[shape.full_like_aval(aval_of(xs[i]), int(i == j)) for j in range(count)] for i in range(count)]
        widened = _with_jacobian(program)
        outs = self.bind(*xs, *[m for row in ones for m in row], indices, program=widened, **params)
        values, jacobian = outs[:count], outs[count:]
        out_tangents: list[Any] = []
        for i in range(count):
            total = None
            for j in range(count):
                if tangents[j] is not None:
                    part = elementwise.strong_mul(tangents[j], jacobian[i * count + j])
                    total = base.add_tangents(total, part)
            out_tangents.append(total)
        return values, tuple(out_tangents)

    def batch(
        self, axis: Any, operands: Any, dims: Any, *, dimension_numbers: Any, update_shape: Any, **params: Any
    ) -> Any:
        *xs, indices = operands
        *x_dims, d = dims
        xs = [shape.align_batch(x, dx, axis.size, 0) for x, dx in zip(xs, x_dims, strict=True)]
        indices = indices if d is None else shape.move_batch_axis(indices, d, 0)
        numbers = scatter.batched_numbers(dimension_numbers, d is not None)
        outs = self.bind(*xs, indices, dimension_numbers=numbers, update_shape=(axis.size, *update_shape), **params)
        return outs, (0,) * len(outs)

    def lower(self, b: Any, ins: Any, outs: Any, *, update_shape: Any, program: Jaxpr, **params: Any) -> Any:
        *xs, indices = ins
        if 0 in update_shape or 0 in xs[0].shape:
            return xs
        updates = [b.constant(0, x.aval.update(shape=update_shape, weak_type=False)) for x in xs]
        return scatter.emit_scatter(
            b, xs, indices, updates, outs, lambda inner, *old: inner.jaxpr(program, old[: len(xs)]), **params
        )


def _with_jacobian(program: Jaxpr) -> Jaxpr:
    """`(x, M) -> (f(x), J(x) M)` for the scalar program f: x of n scalars, M of n * n, row by row."""
    found = program.derived.get("jacobian")
    if found is None:
        n = len(program.invars)

        def widened(*operands: Any) -> Any:
            xs, matrix = operands[:n], operands[n:]
            values: Any = None
            columns = []
            for j in range(n):
                values, tangents = _push_forward(program, xs, [matrix[i * n + j] for i in range(n)])
                columns.append([base.instantiate(t, v) for t, v in zip(tangents, values, strict=True)])
            return [*values, *[columns[j][i] for i in range(n) for j in range(n)]]

        avals = program.in_avals
        closed = stage(widened, [*avals, *[a.strip_weak() for a in avals for _ in avals]], kind="lowering")
        found = program.derived["jacobian"] = intern(closed.jaxpr)
    return found


def _push_forward(program: Jaxpr, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Outputs and output tangents of a program, by the jvp rules of its primitives."""
    values: dict[Any, tuple[Any, Any]] = dict(zip(program.invars, zip(primals, tangents, strict=True), strict=True))

    def read(atom: Any) -> tuple[Any, Any]:
        return (atom.val, None) if type(atom) is Literal else values[atom]

    for eqn in program.eqns:
        xs, ts = zip(*[read(atom) for atom in eqn.invars], strict=True) if eqn.invars else ((), ())
        outs, out_tangents = eqn.primitive.jvp(xs, ts, **eqn.params)
        values.update(zip(eqn.outvars, zip(outs, out_tangents, strict=True), strict=True))
    pairs = [read(atom) for atom in program.outvars]
    return [p for p, _ in pairs], [t for _, t in pairs]


scatter_apply_p = ScatterApply("scatter_apply")


def scatter_apply(
    operand: Any, scatter_indices: Any, func: Callable[[Any], Any], dimension_numbers: Any, *,
    update_shape: Sequence[int] = (), indices_are_sorted: bool = False, unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
) -> Any:  # fmt: skip
    """Apply `func` to the elements in the windows at the index vectors, once for each window that meets them.

    Parameters
    ----------
    operand : array
    scatter_indices : integer array
        Index vectors along the last axis.
    func : callable
        Takes a scalar and returns a scalar; the result is converted to the operand's dtype.
    dimension_numbers : ScatterDimensionNumbers
    update_shape : sequence of int
        Shape that updates would have.
    indices_are_sorted, unique_indices, mode
        As in `scatter`.

    Returns
    -------
    array of the operand's shape and dtype

    Raises
    ------
    ShapeError
        `func` does not return a scalar.
    """
    aval = aval_of(operand)
    scalar = array_aval((), aval.dtype)

    def flat(x: Any) -> Any:
        out = func(x)
        if aval_of(out).shape:
            raise errors.ShapeError(f"scatter_apply: func must return a scalar, it returned shape {aval_of(out).shape}")
        return (cast.convert_element_type(out, aval.dtype),)

    closed = stage(flat, [scalar], kind="scatter_apply")
    numbers, parsed = scatter.plain_numbers(dimension_numbers), GatherScatterMode.from_any(mode)
    params = {"dimension_numbers": numbers, "indices_are_sorted": bool(indices_are_sorted),
              "unique_indices": bool(unique_indices), "mode": parsed}  # fmt: skip
    if not closed.consts:
        return scatter_apply_p.bind1(operand, scatter_indices, update_shape=shape.canonical_shape(update_shape),
                                     program=intern(closed.jaxpr), **params)  # fmt: skip
    # The function uses traced values from outside, which a scalar program cannot hold: apply it to all windows at once.
    like = shape.full(shape.canonical_shape(update_shape), 0, aval.dtype)
    windows = scatter.read_back(operand, scatter_indices, like, params)
    news = func(windows)
    if aval_of(news).shape != aval_of(windows).shape:
        raise errors.ShapeError("scatter_apply: a function that uses traced values must be elementwise")
    return scatter.scatter_p.bind1(operand, scatter_indices, cast.convert_element_type(news, aval.dtype), **params)


from purax.primitives import base, cast, elementwise, scatter, shape  # noqa: E402  (siblings import this module's names)
