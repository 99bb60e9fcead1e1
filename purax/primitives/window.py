# SPDX-License-Identifier: Apache-2.0
"""Reductions over sliding windows.

Notes
-----
A window of a few places is lowered to as many strided slices and one pass over them: XLA vectorises that, its `reduce_window` and
`select_and_scatter` on CPU it does not (3x3 windows with stride 1: 1.3 against 11.5 ms forward, 9 against 149 ms backward).
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from purax import dtypes, errors, tree
from purax.core.aval import ShapedArray, array_aval
from purax.core.interpret import reference_eval
from purax.core.ir import Jaxpr
from purax.core.primitive import Primitive
from purax.core.trace import aval_of
from purax.primitives import convolution, elementwise, joining, operands, reducer, reduction, selecting, shape
from purax.primitives.convolution import Window, dilated
from purax.sharding import rules

__all__ = [
    "reduce_window", "reduce_window_max", "reduce_window_max_p", "reduce_window_min", "reduce_window_min_p",
    "reduce_window_p", "reduce_window_shape_tuple", "reduce_window_sum", "reduce_window_sum_p",
]  # fmt: skip

_FEW = 16  # places of a window that are laid out as slices in one pass
SOME = 64  # places along one axis that are laid out as slices


class Geometry(NamedTuple):
    """How windows lie; one entry per axis."""

    dimensions: tuple[int, ...]
    strides: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    base_dilation: tuple[int, ...]
    window_dilation: tuple[int, ...]

    def axes(self, sizes: Sequence[int]) -> list[Window]:
        """The axes of an operand of shape `sizes`."""
        return [Window(size, d, s, low, high, b, w) for size, d, s, (low, high), b, w in zip(sizes, *self, strict=True)]

    def out(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """Shape of the result."""
        return tuple(w.out for w in self.axes(sizes))

    def with_axis(self, dim: int) -> Geometry:
        """With one more axis, along which nothing slides."""
        trivial: tuple[Any, ...] = (1, 1, (0, 0), 1, 1)
        return Geometry(*[(*field[:dim], one, *field[dim:]) for field, one in zip(self, trivial, strict=True)])

    def params(self) -> dict[str, Any]:
        """As parameters of a primitive."""
        return dict(zip(_NAMES, self, strict=True))


_NAMES = ("window_dimensions", "window_strides", "padding", "base_dilation", "window_dilation")


def geometry_of(params: dict[str, Any]) -> Geometry:
    """The geometry among the parameters of a primitive."""
    return Geometry(*[params[name] for name in _NAMES])


def check_geometry(operand: ShapedArray, g: Geometry) -> None:
    """Raise ShapeError unless the geometry fits the operand."""
    fields: Any = zip(_NAMES, g, strict=True)
    for name, field in fields:
        if len(field) != operand.ndim:
            raise errors.ShapeError(f"{name} must have one entry per axis of the operand ({operand.ndim}), got {field}")
        if name != "padding" and any(v < 1 for v in field):
            raise errors.ShapeError(f"{name} must be positive, got {field}")


# --- NumPy --------------------------------------------------------------------------------------------------------------------


def numpy_windows(x: np.ndarray, g: Geometry, fill: Any) -> np.ndarray:
    """Copies of all windows of `x`: (*places of the window, places in the window, flat)."""
    for axis, w in enumerate(g.axes(x.shape)):
        sizes = list(x.shape)
        sizes[axis] = w.extent
        spread = np.full(sizes, fill, x.dtype)
        head = (slice(None),) * axis
        spread[(*head, slice(None, None, w.dilation))] = x
        spread = spread[(*head, slice(max(0, -w.low), max(0, w.extent + min(0, w.high))))]
        pads = [(0, 0)] * x.ndim
        pads[axis] = (max(0, w.low), max(0, w.high))
        x = np.pad(spread, pads, constant_values=fill)
    cuts = [x[tuple(slice(*cut) for cut in place)] for place in g_cuts(x.shape, g)]
    return np.stack(cuts, -1)


def g_cuts(padded: Sequence[int], g: Geometry) -> Iterator[tuple[tuple[int, int, int], ...]]:
    """(start, limit, stride) per axis, for each place in the window, of the elements of the padded operand that stand there."""
    counts = [
        max(0, (n - dilated(d, w)) // s + 1)
        for n, d, s, w in zip(padded, g.dimensions, g.strides, g.window_dilation, strict=True)
    ]
    for place in itertools.product(*(range(d) for d in g.dimensions)):
        yield tuple(
            (p * w, p * w + (c - 1) * s + 1 if c else p * w, s)
            for p, w, c, s in zip(place, g.window_dilation, counts, g.strides, strict=True)
        )


# --- programs of slices -------------------------------------------------------------------------------------------------------


def padded(x: Any, g: Geometry, fill: Any) -> Any:
    """`x` with its dilation and padding written out."""
    config = tuple((low, high, d - 1) for (low, high), d in zip(g.padding, g.base_dilation, strict=True))
    if all(c == (0, 0, 0) for c in config):
        return x
    return joining.pad(x, shape.scalar(fill, aval_of(x).dtype), config)


def places(x: Any, g: Geometry) -> list[Any]:
    """One strided slice of the padded `x` for each place in the window."""
    return [joining.slice(x, *zip(*cut, strict=True)) if cut else x for cut in g_cuts(aval_of(x).shape, g)]


def passes(g: Geometry) -> list[Geometry] | None:
    """The windows as steps of a few places each, to be taken one after another on the padded operand; None if there are too many."""
    plain = g._replace(padding=((0, 0),) * len(g.dimensions), base_dilation=(1,) * len(g.dimensions))
    if math.prod(g.dimensions) <= _FEW:
        return [plain]
    if max(g.dimensions) > SOME:
        return None
    steps = []
    for axis in reversed(range(len(g.dimensions))):
        if g.dimensions[axis] > 1 or g.strides[axis] > 1:
            one = [[1] * len(g.dimensions) for _ in range(3)]
            for row, field in zip(one, (g.dimensions, g.strides, g.window_dilation), strict=True):
                row[axis] = field[axis]
            steps.append(plain._replace(dimensions=tuple(one[0]), strides=tuple(one[1]), window_dilation=tuple(one[2])))
    return steps


def native(b: Any, ins: Any, outs: Any, g: Geometry, region: str) -> list[Any]:
    """`stablehlo.reduce_window` of arrays and then their initial values."""
    names, types = ", ".join(map(str, ins)), ", ".join(x.hlo for x in ins)
    results = ", ".join(o.hlo for o in outs)

    def ints(values: Sequence[int]) -> str:
        return f"array<i64: {', '.join(map(str, values))}>" if values else "array<i64>"

    pads = (
        f"dense<{[list(p) for p in g.padding]}> : tensor<{len(g.padding)}x2xi64>"
        if g.padding
        else "dense<> : tensor<0x2xi64>"
    )
    attributes = (
        f"window_dimensions = {ints(g.dimensions)}, window_strides = {ints(g.strides)}, base_dilations = {ints(g.base_dilation)}, "
        f"window_dilations = {ints(g.window_dilation)}, padding = {pads}"
    )
    return b.emit_many(
        f'"stablehlo.reduce_window"({names}) ({region}) {{{attributes}}} : ({types}) -> ({results})', outs
    )


# --- sum, maximum, minimum ----------------------------------------------------------------------------------------------------


class ReduceWindow(Primitive):
    """Windows reduced by one operation with an identity, which also fills the padding."""

    op: str
    numpy_op: Any
    wide = False

    def spread(self, ins: Any, avals: Any, outs: Any, params: Any) -> Any:
        """As the operand, where the result can be cut so."""
        rules.refuse_sums(self.name, ins) if self.name != "reduce_window_sum" else None
        return [rules.changed_sizes(ins[0], avals[0].shape, outs[0].shape)]

    def infer(self, operand: ShapedArray, **params: Any) -> tuple[ShapedArray, ...]:
        """The operand's dtype, one element per window."""
        g = geometry_of(params)
        check_geometry(operand, g)
        if (
            dtypes.is_key(operand.dtype)
            or (self.wide and dtypes.is_bool(operand.dtype))
            or (not self.wide and dtypes.is_complex(operand.dtype))
        ):
            raise errors.DTypeError(f"does not accept dtype {operand.dtype}")
        return (operand.update(shape=g.out(operand.shape)),)

    def exact(self, avals: Any, params: Any) -> bool:
        """Integers have one right answer."""
        return not dtypes.is_inexact(avals[0].dtype)

    def reference(self, operand: Any, **params: Any) -> tuple[np.ndarray, ...]:
        """All windows side by side, reduced."""
        wide = reduction.host_accumulator(operand.dtype)
        fill = np.asarray(reduction.identity_of(self.op, operand.dtype)).astype(wide)
        windows = numpy_windows(operand.astype(wide), geometry_of(params), fill)
        return (self.numpy_op.reduce(windows, axis=-1, dtype=wide).astype(operand.dtype),)

    def batch(self, axis: Any, operands: Any, dims: Any, **params: Any) -> Any:
        """One more axis, along which nothing slides."""
        (dim,) = dims
        return self.bind(*operands, **geometry_of(params).with_axis(dim).params()), (dim,)

    def lower(self, b: Any, ins: Any, outs: Any, **params: Any) -> list[Any]:
        """Passes over slices, or `reduce_window` for windows of many places."""
        (x,), (out,) = ins, outs
        g = geometry_of(params)
        if self.wide:
            x = b.convert(x, reduction.accumulator(x.dtype))
        steps = passes(g)
        if steps is None or out.size == 0:
            scalar = array_aval((), x.dtype)
            region = b.block(
                [scalar, scalar], lambda inner, p, q: [inner.emit(f"stablehlo.{self.op} {p}, {q} : {p.hlo}", p.aval)]
            )
            initial = b.constant(reduction.identity_of(self.op, x.dtype), scalar)
            found = native(b, [x, initial], [array_aval(out.shape, x.dtype)], g, region)[0]
        else:
            found = b.inline(self._slices, [x], g=g, steps=steps)[0]
        return [b.convert(found, out.dtype)]

    def _slices(self, x: Any, g: Geometry, steps: Sequence[Geometry]) -> Any:
        x = padded(x, g, reduction.identity_of(self.op, aval_of(x).dtype))
        pairwise = getattr(elementwise, {"add": "add", "maximum": "max", "minimum": "min"}[self.op])
        for step in steps:
            first, *rest = places(x, step)
            for other in rest:
                first = pairwise(first, other)
            x = first
        return x


class ReduceWindowSum(ReduceWindow):
    """Sums; linear."""

    op, numpy_op, wide = "add", np.add, True

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> Any:
        """The sums of the tangent."""
        (t,) = tangents
        return self.bind(*primals, **params), (None if t is None else self.bind1(t, **params),)

    def transpose(self, cotangents: Any, operands: Any, **params: Any) -> Any:
        """Sums again: each element collects the windows that it stands in."""
        (ct,), (operand,) = cotangents, operands
        if ct is None:
            return (None,)
        g = geometry_of(params)
        padding = []
        for w in g.axes(operand.aval.shape):
            low = w.kernel_extent - w.low - 1
            padding.append((low, w.extent + w.kernel_extent - 1 - dilated(w.out, w.stride) - low))
        back = Geometry(g.dimensions, g.base_dilation, tuple(padding), g.strides, g.window_dilation)
        return (self.bind1(ct, **back.params()),)


class ReduceWindowExtremum(ReduceWindow):
    """Extrema; the derivative goes to the first element of a window that attains it."""

    select: str

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> Any:
        """The tangent at the selected element of each window."""
        (x,), (t,) = primals, tangents
        outs = self.bind(x, **params)
        return outs, (
            None if t is None else selecting.select_and_gather_add_p.bind1(t, x, select=self.select, **params),
        )


class ReduceWindowMax(ReduceWindowExtremum):
    """Maxima."""

    op, numpy_op, select = "maximum", np.maximum, "max"


class ReduceWindowMin(ReduceWindowExtremum):
    """Minima."""

    op, numpy_op, select = "minimum", np.minimum, "min"


# --- any function -------------------------------------------------------------------------------------------------------------


class ReduceWindowGeneral(Primitive):
    """Windows of k operands reduced by a jaxpr of 2k scalars; operands are k arrays, then k initial scalars; padding counts for nothing."""

    def spread(self, ins: Any, avals: Any, outs: Any, params: Any) -> Any:
        """As the operands, where the results can be cut so."""
        rules.refuse_sums(self.name, ins)
        return [
            rules.changed_sizes(s, a.shape, o.shape) for s, a, o in zip(ins[: len(outs)], avals, outs, strict=False)
        ]

    def infer(self, *avals: Any, jaxpr: Jaxpr, **params: Any) -> tuple[Any, ...]:
        """The arrays' dtypes, one element per window."""
        arrays, initial = avals[: len(avals) // 2], avals[len(avals) // 2 :]
        g = geometry_of(params)
        for aval, start in zip(arrays, initial, strict=True):
            check_geometry(aval, g)
            if aval.shape != arrays[0].shape:
                raise errors.ShapeError(
                    f"all operands must have one shape, got {', '.join(str(a.shape) for a in arrays)}"
                )
            if start.shape != () or start.dtype != aval.dtype:
                raise errors.ShapeError(
                    f"an initial value must be a scalar of its operand's dtype {aval.dtype}, got {start.str_short()}"
                )
        return tuple(array_aval(g.out(a.shape), a.dtype) for a in arrays)

    def reference(self, *operands: Any, jaxpr: Jaxpr, **params: Any) -> tuple[np.ndarray, ...]:
        """Element after element of each window."""
        arrays, initial = operands[: len(operands) // 2], operands[len(operands) // 2 :]
        g = geometry_of(params)
        windows = [numpy_windows(a, g, 0) for a in arrays]
        inside = numpy_windows(np.ones(arrays[0].shape, bool), g, False)
        outs = [np.empty(w.shape[:-1], w.dtype) for w in windows]
        for place in np.ndindex(*outs[0].shape):
            state = list(initial)
            for i in np.flatnonzero(inside[place]):
                state = reference_eval(jaxpr, (), *state, *(w[(*place, i)] for w in windows))
            for out, value in zip(outs, state, strict=True):
                out[place] = value
        return tuple(outs)

    def jvp(self, primals: Any, tangents: Any, *, jaxpr: Jaxpr, **params: Any) -> Any:
        """The fold of (value, tangent) pairs over the places in the window."""
        outs = self.bind(*primals, jaxpr=jaxpr, **params)
        half = len(primals) // 2
        g = geometry_of(params)

        values, changes = primals[:half], tangents[:half]
        start = reducer.pack_pairs(primals[half:], tangents[half:])
        packed = reducer.pack_pairs(values, changes)
        found = _fold_places(reducer.pair_combine(jaxpr, values), start, packed, g, ())
        return outs, reducer.unpack_tangents(values, found)

    def batch(self, axis: Any, values: Any, dims: Any, *, jaxpr: Jaxpr, **params: Any) -> Any:
        """One more axis; with mapped initial values, a fold place by place."""
        half = len(dims) // 2
        arrays, initial = list(values[:half]), list(values[half:])
        g = geometry_of(params)
        if all(d is None for d in dims[half:]):
            arrays, dim = operands.align(axis, arrays, dims[:half])
            return self.bind(*arrays, *initial, jaxpr=jaxpr, **g.with_axis(dim).params()), (dim,) * half
        arrays = [shape.align_batch(x, d, axis.size, 0) for x, d in zip(arrays, dims[:half], strict=True)]
        starts = [shape.align_batch(x, d, axis.size, 0) for x, d in zip(initial, dims[half:], strict=True)]

        def combine(early: Sequence[Any], late: Sequence[Any]) -> list[Any]:
            return reducer.elementwise_eval(jaxpr, *early, *late)

        return _fold_places(combine, starts, arrays, g.with_axis(0), (0,)), (0,) * half

    def lower(self, b: Any, ins: Any, outs: Any, *, jaxpr: Jaxpr, **params: Any) -> list[Any]:
        """`stablehlo.reduce_window` with the jaxpr as its body."""
        return native(b, ins, outs, geometry_of(params), reducer.region_of(b, jaxpr, ins[len(ins) // 2 :]))


def _fold_places(
    combine: Any, start: Sequence[Any], arrays: Sequence[Any], g: Geometry, dims: tuple[int, ...]
) -> list[Any]:
    """Fold place by place in the window, from `start` (whose axes are `dims` of the result); padding is passed over."""
    inside = places(padded(shape.full_like(arrays[0], True, np.dtype(np.bool_)), g, False), g)
    rows = [places(padded(x, g, 0), g) for x in arrays]
    state = [shape.broadcast_in_dim(s, aval_of(inside[0]).shape, dims) for s in start]
    for here, *elements in zip(inside, *rows, strict=True):
        after = combine(state, elements)
        state = [elementwise.select(here, new, old) for new, old in zip(after, state, strict=True)]
    return state


reduce_window_sum_p = ReduceWindowSum("reduce_window_sum")
reduce_window_max_p = ReduceWindowMax("reduce_window_max")
reduce_window_min_p = ReduceWindowMin("reduce_window_min")
reduce_window_p = ReduceWindowGeneral("reduce_window")


# --- functions ----------------------------------------------------------------------------------------------------------------


def _ints(values: Any, default: Sequence[int]) -> tuple[int, ...]:
    return tuple(default) if values is None else tuple(map(operator.index, values))


def canonical_geometry(
    sizes: Sequence[int], dimensions: Any, strides: Any, padding: Any, base_dilation: Any, window_dilation: Any
) -> Geometry:
    """The geometry as users write it."""
    ones = (1,) * len(sizes)
    dimensions, strides = _ints(dimensions, ones), _ints(strides, ones)
    base_dilation, window_dilation = _ints(base_dilation, ones), _ints(window_dilation, ones)
    if isinstance(padding, str) or not isinstance(padding, Sequence):
        windows = [dilated(n, d) for n, d in zip(dimensions, window_dilation, strict=True)]
        padding = convolution.padtype_to_pads(sizes, windows, strides, padding)
    return Geometry(dimensions, strides, convolution.pairs_of(padding), base_dilation, window_dilation)


def _by(primitive: Any) -> Callable[..., Any]:
    def function(
        operand: Any, window_dimensions: Sequence[int], window_strides: Sequence[int], padding: Any,
        base_dilation: Sequence[int] | None = None, window_dilation: Sequence[int] | None = None,
    ) -> Any:  # fmt: skip
        g = canonical_geometry(
            aval_of(operand).shape, window_dimensions, window_strides, padding, base_dilation, window_dilation
        )
        return primitive.bind1(operand, **g.params())

    function.__name__ = function.__qualname__ = primitive.name
    function.__doc__ = f"`reduce_window` by {primitive.name.rpartition('_')[2]}, from its identity."
    return function


reduce_window_sum = _by(reduce_window_sum_p)
reduce_window_max = _by(reduce_window_max_p)
reduce_window_min = _by(reduce_window_min_p)
_KNOWN = {"add": reduce_window_sum_p, "maximum": reduce_window_max_p, "minimum": reduce_window_min_p}


def reduce_window(
    operand: Any, init_value: Any, computation: Callable[..., Any], window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None = None, padding: Any = "VALID", base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> Any:  # fmt: skip
    """Reduce sliding windows by an associative function.

    Parameters
    ----------
    operand : pytree of arrays
        Of one shape.
    init_value : pytree of scalars
        The fold of each window begins with them; padding counts for nothing.
    computation : callable
        `(accumulated, element) -> accumulated`; `add`, `max` and `min` from their identities are fast.
    window_dimensions, window_strides : sequence of int
        One per axis.
    padding : "VALID", "SAME", "SAME_LOWER" or sequence of (low, high)
        A name means the padding of the operand without its base dilation.
    base_dilation, window_dilation : sequence of int, optional
        Distance between neighbouring elements of the operand and of the window.

    Returns
    -------
    pytree of arrays

    Raises
    ------
    ShapeError
        The structures, shapes, dtypes or windows do not fit.
    """
    arrays, structure = tree.flatten(operand)
    initial, initial_structure = tree.flatten(init_value)
    if structure != initial_structure:
        raise errors.ShapeError(f"reduce_window: the operand has structure {structure}, init_value {initial_structure}")
    if not arrays:
        raise errors.ShapeError("reduce_window needs at least one operand")
    initial = reducer.matched(arrays, initial)
    avals = [aval_of(x) for x in arrays]
    if len(tuple(window_dimensions)) != avals[0].ndim:
        raise errors.ShapeError(
            f"window_dimensions must have one entry per axis ({avals[0].ndim}), got {tuple(window_dimensions)}"
        )
    g = canonical_geometry(avals[0].shape, window_dimensions, window_strides, padding, base_dilation, window_dilation)
    jaxpr = reducer.stage_computation(computation, structure, avals)
    kind = reducer.monoid_of(jaxpr)
    known = _KNOWN.get(kind) if kind else None
    real = not dtypes.is_complex(avals[0].dtype) and not dtypes.is_bool(avals[0].dtype)
    if (
        known is not None
        and (real or known is reduce_window_sum_p)
        and reducer.starts_at_identity(initial[0], str(kind), avals[0].dtype)
    ):
        return tree.unflatten(structure, [known.bind1(arrays[0], **g.params())])
    return tree.unflatten(structure, reduce_window_p.bind(*arrays, *initial, jaxpr=jaxpr, **g.params()))


def reduce_window_shape_tuple(
    operand_shape: Any, window_dimensions: Any, window_strides: Any, padding: Any, base_dilation: Any = None,
    window_dilation: Any = None,
) -> tuple[int, ...]:  # fmt: skip
    """Shape of the result of `reduce_window`.

    Parameters
    ----------
    operand_shape : sequence of int
    window_dimensions, window_strides : sequence of int
    padding : str or sequence of (low, high)
    base_dilation, window_dilation : sequence of int, optional

    Returns
    -------
    tuple of int
    """
    sizes = tuple(operand_shape)
    return canonical_geometry(sizes, window_dimensions, window_strides, padding, base_dilation, window_dilation).out(
        sizes
    )
