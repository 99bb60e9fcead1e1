# SPDX-License-Identifier: Apache-2.0
"""The element that a window selects: gather the tangents that stand there, scatter cotangents to it.

They are the derivative of windowed extrema (max pooling), and each other's transpose. Of equal elements the first is selected.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from purax import dtypes, errors
from purax.core.aval import ShapedArray, array_aval
from purax.core.primitive import Primitive
from purax.core.trace import aval_of
from purax.primitives import barrier, base, elementwise, joining, operands, reduction, shape, window
from purax.primitives.convolution import dilated
from purax.sharding import rules

__all__ = [
    "select_and_gather_add_p", "select_and_scatter_add_p",
]  # fmt: skip


def _fill(select: str, dtype: Any) -> Any:
    return reduction.identity_of("maximum" if select == "max" else "minimum", dtype)


def _numpy_choice(operand: np.ndarray, g: Any, select: str) -> np.ndarray:
    """Place in each window (flat) of the first extremum; of the first NaN, if there is one."""
    work = operand.astype(reduction.accumulator(operand.dtype))
    windows = window.numpy_windows(work, g, _fill(select, work.dtype))
    return (np.argmax if select == "max" else np.argmin)(windows, -1)


def _beats(select: str, late: Any, early: Any) -> Any:
    """Whether a later element of the window takes the place of an earlier one."""
    better = (elementwise.gt if select == "max" else elementwise.lt)(late, early)
    if not dtypes.is_inexact(aval_of(late).dtype):
        return better
    fault = elementwise.bitwise_and(elementwise.ne(late, late), elementwise.eq(early, early))
    return elementwise.bitwise_or(better, fault)


class Selection(Primitive):
    """Primitives of (values, operand) that move values between windows and the element selected in each."""

    def exact(self, avals: Any, params: Any) -> bool:
        """Left to XLA."""
        return False

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> Any:
        """Linear in the values; the choice does not move."""
        (values, operand), (t, _) = primals, tangents
        return self.bind(values, operand, **params), (None if t is None else self.bind1(t, operand, **params),)

    def batch(self, axis: Any, values: Any, dims: Any, *, select: str, **params: Any) -> Any:
        """One more axis, along which nothing slides."""
        aligned, dim = operands.align(axis, values, dims)
        return self.bind(*aligned, select=select, **window.geometry_of(params).with_axis(dim).params()), (dim,)


class SelectAndGatherAdd(Selection):
    """The tangent at the selected element of each window; operands (tangents, operand)."""

    def spread(self, ins: Any, avals: Any, outs: Any, params: Any) -> Any:
        """As the operands, where the result can be cut so."""
        return [rules.changed_sizes(rules.joined(ins, [a.shape for a in avals]), avals[0].shape, outs[0].shape)]

    def infer(
        self, tangents: ShapedArray, operand: ShapedArray, *, select: str, **params: Any
    ) -> tuple[ShapedArray, ...]:
        """One element per window."""
        g = window.geometry_of(params)
        window.check_geometry(operand, g)
        if tangents.shape != operand.shape:
            raise errors.ShapeError(f"tangents of shape {tangents.shape} do not fit the operand's {operand.shape}")
        return (tangents.update(shape=g.out(operand.shape), weak_type=False),)

    def reference(self, tangents: Any, operand: Any, *, select: str, **params: Any) -> tuple[np.ndarray, ...]:
        """Look the choices up."""
        g = window.geometry_of(params)
        windows = window.numpy_windows(tangents, g, 0)
        return (np.take_along_axis(windows, _numpy_choice(operand, g, select)[..., None], -1)[..., 0],)

    def transpose(self, cotangents: Any, operands: Any, *, select: str, **params: Any) -> Any:
        """Scatter."""
        (ct,), (_, operand) = cotangents, operands
        return (None if ct is None else select_and_scatter_add_p.bind1(ct, operand, select=select, **params), None)

    def lower(self, b: Any, ins: Any, outs: Any, *, select: str, **params: Any) -> list[Any]:
        """A running choice over slices; over pairs in a `reduce_window` for windows of many places."""
        g = window.geometry_of(params)
        if math.prod(g.dimensions) <= window.SOME:
            return b.inline(_gather, ins, g=g, select=select)
        (tangents, operand), (out,) = ins, outs
        scalars = [array_aval((), operand.dtype), array_aval((), tangents.dtype)]

        def choose(p: Any, pt: Any, q: Any, qt: Any) -> Any:
            late = _beats(select, q, p)
            return elementwise.select(late, q, p), elementwise.select(late, qt, pt)

        region = b.block([*scalars, *scalars], lambda inner, *values: inner.inline(choose, values))
        initial = [b.constant(_fill(select, operand.dtype), scalars[0]), b.constant(0, scalars[1])]
        avals = [array_aval(out.shape, operand.dtype), out]
        return [window.native(b, [operand, tangents, *initial], avals, g, region)[1]]


class SelectAndScatterAdd(Selection):
    """Each value of `source` added to the element of `operand`'s shape that its window selects; operands (source, operand)."""

    def spread(self, ins: Any, avals: Any, outs: Any, params: Any) -> Any:
        """As the operand that is selected from."""
        return [ins[1]]

    def infer(
        self, source: ShapedArray, operand: ShapedArray, *, select: str, **params: Any
    ) -> tuple[ShapedArray, ...]:
        """The operand's shape, the source's dtype."""
        g = window.geometry_of(params)
        window.check_geometry(operand, g)
        if source.shape != g.out(operand.shape):
            raise errors.ShapeError(f"source of shape {source.shape} does not fit the windows, {g.out(operand.shape)}")
        return (array_aval(operand.shape, source.dtype),)

    def reference(self, source: Any, operand: Any, *, select: str, **params: Any) -> tuple[np.ndarray, ...]:
        """Add at the choices."""
        g = window.geometry_of(params)
        positions = window.numpy_windows(np.arange(1, operand.size + 1, dtype=np.int64).reshape(operand.shape), g, 0)
        chosen = np.take_along_axis(positions, _numpy_choice(operand, g, select)[..., None], -1)[..., 0]
        out = np.zeros(operand.size + 1, reduction.accumulator(source.dtype))
        np.add.at(out, chosen.ravel(), source.ravel())
        return (out[1:].reshape(operand.shape).astype(source.dtype),)

    def transpose(self, cotangents: Any, operands: Any, *, select: str, **params: Any) -> Any:
        """Gather."""
        (ct,), (_, operand) = cotangents, operands
        return (None if ct is None else select_and_gather_add_p.bind1(ct, operand, select=select, **params), None)

    def lower(self, b: Any, ins: Any, outs: Any, *, select: str, **params: Any) -> list[Any]:
        """The running choice, then one padded slice per place; `select_and_scatter` for windows of many places."""
        g = window.geometry_of(params)
        (source, operand), (out,) = ins, outs
        source = b.convert(source, reduction.accumulator(source.dtype))
        undilated = set(g.window_dilation) | set(g.base_dilation) <= {1}
        if math.prod(g.dimensions) <= window.SOME or not undilated:
            found = b.inline(_scatter, [source, operand], g=g, select=select)[0]
            return [b.convert(found, out.dtype)]
        if any(low < 0 or high < 0 for low, high in g.padding) or operand.dtype != source.dtype:
            found = b.inline(_scatter, [source, operand], g=g, select=select)[0]
            return [b.convert(found, out.dtype)]
        scalar = array_aval((), source.dtype)
        flag = array_aval((), np.dtype(np.bool_))
        direction = "GE" if select == "max" else "LE"
        choose = b.block([scalar, scalar], lambda inner, p, q: [
            inner.emit(f"stablehlo.compare {direction}, {p}, {q} : ({p.hlo}, {q.hlo}) -> {flag.hlo}", flag)
        ])  # fmt: skip
        add = b.block([scalar, scalar], lambda inner, p, q: [inner.emit(f"stablehlo.add {p}, {q} : {p.hlo}", scalar)])
        zero = b.constant(0, scalar)
        aval = array_aval(out.shape, source.dtype)
        found = b.emit(
            f'"stablehlo.select_and_scatter"({operand}, {source}, {zero}) ({choose}, {add}) '
            f"{{window_dimensions = array<i64: {', '.join(map(str, g.dimensions))}>, window_strides = array<i64: "
            f"{', '.join(map(str, g.strides))}>, padding = dense<{[list(p) for p in g.padding]}> : tensor<{len(g.padding)}x2xi64>}} "
            f": ({operand.hlo}, {source.hlo}, {zero.hlo}) -> {aval.hlo}", aval,
        )  # fmt: skip
        return [b.convert(found, out.dtype)]


def _gather(tangents: Any, operand: Any, g: Any, select: str) -> Any:
    values = window.places(window.padded(operand, g, _fill(select, aval_of(operand).dtype)), g)
    changes = window.places(window.padded(tangents, g, 0), g)
    best, chosen = values[0], changes[0]
    for value, change in zip(values[1:], changes[1:], strict=True):
        late = _beats(select, value, best)
        best, chosen = elementwise.select(late, value, best), elementwise.select(late, change, chosen)
    return chosen


def _scatter(source: Any, operand: Any, g: Any, select: str) -> Any:
    x = window.padded(operand, g, _fill(select, aval_of(operand).dtype))
    values = window.places(x, g)
    best, chosen = values[0], shape.full(aval_of(source).shape, 0, np.int32)
    for number, value in enumerate(values[1:], 1):
        late = _beats(select, value, best)
        best = elementwise.select(late, value, best)
        chosen = elementwise.select(late, shape.full_like(chosen, number), chosen)
    if g.strides < g.dimensions:  # windows overlap: the choice is read often, so have it once
        chosen = barrier.optimization_barrier(chosen)
    sizes = aval_of(x).shape
    zero = shape.full_like(source, 0)
    total = None
    for number, cut in enumerate(window.g_cuts(sizes, g)):
        own = elementwise.select(elementwise.eq(chosen, shape.full_like(chosen, number)), source, zero)
        config = [
            (start, n - start - dilated(count, stride), stride - 1)
            for (start, _, stride), n, count in zip(cut, sizes, aval_of(source).shape, strict=True)
        ]
        total = base.add_tangents(total, joining.pad(own, shape.scalar(0, aval_of(own).dtype), config))
    crop = [(-low, -high, 0) for low, high in g.padding]
    if any(c != (0, 0, 0) for c in crop):
        total = joining.pad(total, shape.scalar(0, aval_of(source).dtype), crop)
    return joining.strided(total, g.base_dilation)


select_and_gather_add_p = SelectAndGatherAdd("select_and_gather_add")
select_and_scatter_add_p = SelectAndScatterAdd("select_and_scatter_add")
