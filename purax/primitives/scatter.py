# SPDX-License-Identifier: Apache-2.0
"""Scatter: the operand with windows of it combined with updates: replaced, added, multiplied, min, max.

The mirror of gather (`gather.py`): index vectors lie along the last axis of the indices, windows that leave the array are dropped
unless the mode says otherwise. Where index vectors repeat, updates are combined in their order; `set` keeps the last.

Results have the operand's shape and dtype.

Parameters
----------
operand, scatter_indices, updates, dimension_numbers, indices_are_sorted, unique_indices, mode
    See `scatter`; functions differ in how they combine.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from purax import dtypes, errors
from purax.core.aval import array_aval
from purax.core.primitive import Linear, Primitive
from purax.core.trace import aval_of
from purax.primitives.gather import (
    GatherDimensionNumbers,
    GatherScatterMode,
    check_numbers,
    operand_indices,
    shifted,
    upper_limits,
    window_axes,
)
from purax.sharding import rules

__all__ = [
    "ScatterDimensionNumbers",
    "scatter",
    "scatter_add",
    "scatter_add_p",
    "scatter_max",
    "scatter_max_p",
    "scatter_min",
    "scatter_min_p",
    "scatter_mul",
    "scatter_mul_p",
    "scatter_p",
    "scatter_sub",
    "scatter_sub_p",
]


class ScatterDimensionNumbers(NamedTuple):
    """How axes of operand, indices and updates of a scatter correspond.

    Attributes
    ----------
    update_window_dims : tuple of int
        Axes of the updates that run over the window.
    inserted_window_dims : tuple of int
        Operand axes along which the window has size 1 and the updates have no axis.
    scatter_dims_to_operand_dims : tuple of int
        Operand axis of each component of an index vector.
    operand_batching_dims, scatter_indices_batching_dims : tuple of int
        Operand axes and index axes that run together.
    """

    update_window_dims: Sequence[int]
    inserted_window_dims: Sequence[int]
    scatter_dims_to_operand_dims: Sequence[int]
    operand_batching_dims: Sequence[int] = ()
    scatter_indices_batching_dims: Sequence[int] = ()


def of_gather(n: GatherDimensionNumbers) -> ScatterDimensionNumbers:
    """The scatter that writes where a gather reads."""
    return ScatterDimensionNumbers(*n)


def window_sizes(shape: Sequence[int], updates: Sequence[int], n: Any) -> tuple[int, ...]:
    """Size of the window along each operand axis."""
    window = iter([updates[d] for d in n.update_window_dims])
    kept = window_axes(len(shape), n.inserted_window_dims, n.operand_batching_dims)
    return tuple([next(window) if d in kept else min(1, shape[d]) for d in range(len(shape))])


class Scatter(Primitive):
    """`operand, indices, updates`; subclasses say how an update meets the old element, and differentiate that."""

    operation: str  # StableHLO operation on (old, update); "" replaces
    meets: Any = None  # NumPy ufunc of (old, update); None replaces
    exact_floats = True  # NumPy's ufunc.at gives XLA's bits for floats too

    def exact(self, avals: Any, params: Any) -> bool:
        """Replacing moves bits; integer arithmetic is exact; float32 and float64 sums run in the same order on the host."""
        dtype = avals[0].dtype
        if self.meets is None:
            return True
        return dtypes.is_integer(dtype) or (self.exact_floats and dtype in (np.float32, np.float64))

    def spread(self, ins: Any, avals: Any, outs: Any, params: Any) -> Any:
        """As the operand."""
        rules.refuse_sums(self.name, ins)
        return [rules.scattered(ins, avals[0].shape, params["dimension_numbers"], avals[2].shape)]

    def infer(self, x: Any, indices: Any, updates: Any, *, dimension_numbers: Any, **_: Any) -> Any:
        n = dimension_numbers
        if not dtypes.is_integer(indices.dtype):
            raise errors.DTypeError(f"scatter_indices must have integer dtype, got {indices.dtype}")
        if x.dtype != updates.dtype:
            raise errors.DTypeError("operand and updates must have equal dtypes")
        check_numbers(x, indices, n.inserted_window_dims, n.scatter_dims_to_operand_dims, n.operand_batching_dims,
                      n.scatter_indices_batching_dims, "inserted_window_dims", "scatter_dims_to_operand_dims")  # fmt: skip
        kept = window_axes(x.ndim, n.inserted_window_dims, n.operand_batching_dims)
        dims = n.update_window_dims
        if len(dims) != len(kept) or list(dims) != sorted(set(dims)) or any(not 0 <= d < updates.ndim for d in dims):
            raise errors.ShapeError(f"update_window_dims {dims} must be {len(kept)} increasing axes of the updates, "
                                    f"which have {updates.ndim}")  # fmt: skip
        outer = tuple([size for d, size in enumerate(updates.shape) if d not in dims])
        if outer != indices.shape[:-1]:
            raise errors.ShapeError(f"updates must have the axes of the indices {indices.shape[:-1]} apart from "
                                    f"update_window_dims {dims}, got shape {updates.shape}")  # fmt: skip
        if any(updates.shape[d] > x.shape[k] for d, k in zip(dims, kept, strict=True)):
            raise errors.ShapeError(f"windows of updates {updates.shape} must fit into the operand's shape {x.shape}")
        return (x.update(weak_type=x.weak_type and updates.weak_type),)

    def reference(self, x: Any, indices: Any, updates: Any, *, dimension_numbers: Any, mode: Any, **_: Any) -> Any:
        out = np.array(x)
        places, values = host_places(x, indices, updates, dimension_numbers, mode)
        if values.size:
            if self.meets is None:
                out[places] = values
            else:
                self.meets.at(out, places, values)
        return (out,)

    def _jvp_linear(self, primals: Any, tangents: Any, params: Any) -> Any:
        out = self.bind1(*primals, **params)
        if tangents[0] is None and tangents[2] is None:
            return (out,), (None,)
        t_x, t_updates = (base.instantiate(tangents[i], primals[i]) for i in (0, 2))
        return (out,), (self.bind1(t_x, primals[1], t_updates, **params),)

    def batch(self, axis: Any, operands: Any, dims: Any, *, dimension_numbers: Any, **params: Any) -> Any:
        (x, indices, updates), (dx, di, du) = operands, dims
        x = shape.align_batch(x, dx, axis.size, 0)
        updates = shape.align_batch(updates, du, axis.size, 0)
        indices = indices if di is None else shape.move_batch_axis(indices, di, 0)
        numbers = batched_numbers(dimension_numbers, di is not None)
        return (self.bind1(x, indices, updates, dimension_numbers=numbers, **params),), (0,)

    def lower(self, b: Any, ins: Any, outs: Any, **params: Any) -> Any:
        x, indices, updates = ins
        if updates.aval.size == 0 or x.aval.size == 0:
            return [x]
        return emit_scatter(
            b, [x], indices, [updates], outs, lambda inner, old, new: [self.combine(inner, old, new)], **params
        )

    def combine(self, b: Any, old: Any, new: Any) -> Any:
        """Emit the new element."""
        return b.emit(f"{self.operation} {old}, {new} : {old.hlo}", old.aval) if self.operation else new


def batched_numbers(n: ScatterDimensionNumbers, indices_batched: bool) -> ScatterDimensionNumbers:
    """The numbers with a leading batch axis of operand and updates, and of the indices if they have one."""
    up = shifted
    inserted, index_map = up(n.inserted_window_dims), up(n.scatter_dims_to_operand_dims)
    batching = up(n.operand_batching_dims)
    if not indices_batched:
        window = (0, *up(n.update_window_dims))
        return ScatterDimensionNumbers(window, inserted, index_map, batching, n.scatter_indices_batching_dims)
    paired = (0, *up(n.scatter_indices_batching_dims))
    return ScatterDimensionNumbers(up(n.update_window_dims), inserted, index_map, (0, *batching), paired)


def emit_scatter(
    b: Any, xs: Sequence[Any], indices: Any, updates: Sequence[Any], outs: Sequence[Any], body: Callable[..., Any], *,
    dimension_numbers: Any, indices_are_sorted: bool, unique_indices: bool, mode: Any,
) -> Any:  # fmt: skip
    """Emit one scatter of several operands; `body` takes the old elements, then the updates."""
    n, x = dimension_numbers, xs[0]
    if mode is GatherScatterMode.CLIP:
        sizes = window_sizes(x.shape, updates[0].shape, n)
        limits = [x.shape[d] - sizes[d] for d in n.scatter_dims_to_operand_dims]
        (indices,) = b.inline(_clamped, [indices], limits=limits)
    fields = [
        f"update_window_dims = {list(n.update_window_dims)}",
        f"inserted_window_dims = {list(n.inserted_window_dims)}",
    ]
    if n.operand_batching_dims:
        fields += [f"input_batching_dims = {list(n.operand_batching_dims)}",
                   f"scatter_indices_batching_dims = {list(n.scatter_indices_batching_dims)}"]  # fmt: skip
    fields += [f"scatter_dims_to_operand_dims = {list(n.scatter_dims_to_operand_dims)}",
               f"index_vector_dim = {indices.aval.ndim - 1}"]  # fmt: skip
    region = b.block([array_aval((), v.dtype) for v in (*xs, *updates)], body)
    ins = [*xs, indices, *updates]
    results = ", ".join(out.hlo for out in outs)
    text = (
        f'"stablehlo.scatter"({", ".join(map(str, ins))}) <{{indices_are_sorted = {str(indices_are_sorted).lower()}, '
        f"scatter_dimension_numbers = #stablehlo.scatter<{', '.join(fields)}>, "
        f"unique_indices = {str(unique_indices).lower()}}}> ({region}) : ({', '.join(v.hlo for v in ins)}) -> "
        + (results if len(outs) == 1 else f"({results})")
    )
    return b.emit_many(text, outs)


def host_places(x: Any, indices: Any, updates: Any, n: Any, mode: Any) -> tuple[tuple[Any, ...], Any]:
    """Flat index arrays of the operand elements that updates meet, and those updates, in order."""
    sizes = window_sizes(x.shape, updates.shape, n)
    index_map = n.scatter_dims_to_operand_dims
    limits = np.array([x.shape[d] - sizes[d] for d in index_map], np.int64)
    starts = np.clip(indices.astype(np.int64, copy=False), 0, limits)
    kept = window_axes(x.ndim, n.inserted_window_dims, n.operand_batching_dims)
    found = operand_indices(x.ndim, [sizes[d] for d in kept], starts, index_map, kept, n.operand_batching_dims,
                            n.scatter_indices_batching_dims, n.update_window_dims, updates.ndim)  # fmt: skip
    if not updates.size:
        return (), updates
    places = tuple([np.broadcast_to(i, updates.shape) for i in found])
    if mode is GatherScatterMode.CLIP:
        return places, updates
    inside = (indices == starts).all(-1)
    if inside.all():
        return places, updates
    outer = [1 if d in n.update_window_dims else size for d, size in enumerate(updates.shape)]
    mask = np.broadcast_to(inside.reshape(outer), updates.shape)
    return tuple([i[mask] for i in places]), updates[mask]


def _clamped(indices: Any, limits: Sequence[int]) -> Any:
    """Index vectors moved between 0 and `limits`."""
    aval = aval_of(indices)
    above = elementwise.max_p.bind1(indices, shape.full_like_aval(aval, 0))
    return elementwise.min_p.bind1(above, upper_limits(aval, limits))


def read_back(x: Any, indices: Any, updates: Any, params: Any, fill: Any = 0) -> Any:
    """The windows of `x` (an array of the operand's shape) that a scatter meets, laid out as its updates."""
    n = params["dimension_numbers"]
    sizes = window_sizes(aval_of(x).shape, aval_of(updates).shape, n)
    clip = params["mode"] is GatherScatterMode.CLIP
    return gather.gather_p.bind1(
        x, indices, dimension_numbers=GatherDimensionNumbers(*n), slice_sizes=sizes,
        indices_are_sorted=params["indices_are_sorted"], unique_indices=params["unique_indices"],
        mode=GatherScatterMode.CLIP if clip else GatherScatterMode.FILL_OR_DROP, fill_value=None if clip else fill,
    )  # fmt: skip


def _zeros(x: Any, like: Any) -> Any:
    return shape.full_like_aval(aval_of(x).update(dtype=aval_of(like).dtype), 0)


class ScatterSet(Scatter):
    """Replace. Linear in operand and updates when index vectors are distinct; else the last of the repeated ones counts."""

    operation = ""

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> Any:
        x, indices, updates = primals
        count = aval_of(indices).size // max(1, aval_of(indices).shape[-1])
        if params["unique_indices"] or count <= 1 or (tangents[0] is None and tangents[2] is None):
            return self._jvp_linear(
                primals, tangents, {**params, "unique_indices": params["unique_indices"] or count <= 1}
            )
        # Number the updates, scatter the numbers: an element's number tells which update it kept (0: none). The tangent is then
        # a sum without conflicts, so that it can be transposed.
        aval = aval_of(updates)
        dtype = np.dtype(np.int32 if aval.size < np.iinfo(np.int32).max else np.int64)
        from_zero = shape.reshape(shape.iota(dtype, aval.size), aval.shape)
        numbers = elementwise.add(from_zero, shape.full_like_aval(aval_of(from_zero), 1))
        kept = self.bind1(_zeros(x, numbers), indices, numbers, **params)
        out = self.bind1(*primals, **params)
        tangent = None
        if tangents[0] is not None:
            untouched = elementwise.eq(kept, shape.full_like_aval(aval_of(kept), 0))
            tangent = elementwise.select(untouched, tangents[0], _zeros(tangents[0], tangents[0]))
        if tangents[2] is not None:
            wins = elementwise.eq(read_back(kept, indices, updates, params), numbers)
            part = elementwise.select(wins, tangents[2], _zeros(tangents[2], tangents[2]))
            onto = _zeros(x, part) if tangent is None else tangent
            tangent = scatter_add_p.bind1(onto, indices, part, **params)
        return (out,), (tangent,)

    def transpose(self, cotangents: Any, operands: Any, **params: Any) -> Any:
        (t,), (x, indices, updates) = cotangents, operands
        if t is None:
            return (None, None, None)
        t_x = t_updates = None
        if type(x) is Linear:
            t_x = self.bind1(t, indices, _zeros(updates, t), **params)
        if type(updates) is Linear:
            t_updates = read_back(t, indices, updates, params)
        return (t_x, None, t_updates)


class ScatterAdd(Scatter):
    """Add."""

    operation = "stablehlo.add"
    meets: Any = np.add

    def combine(self, b: Any, old: Any, new: Any) -> Any:
        """The sum; booleans meet by `or`."""
        operation = "stablehlo.or" if old.dtype == np.bool_ else self.operation
        return b.emit(f"{operation} {old}, {new} : {old.hlo}", old.aval)

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> Any:
        return self._jvp_linear(primals, tangents, params)

    def transpose(self, cotangents: Any, operands: Any, **params: Any) -> Any:
        (t,), (x, indices, updates) = cotangents, operands
        if t is None:
            return (None, None, None)
        back = read_back(t, indices, updates, params) if type(updates) is Linear else None
        return (t if type(x) is Linear else None, None, back if back is None else self.signed(back))

    def signed(self, t: Any) -> Any:
        """Cotangent of the updates."""
        return t


class ScatterSub(ScatterAdd):
    """Subtract."""

    operation = "stablehlo.subtract"
    meets = np.subtract

    def signed(self, t: Any) -> Any:
        """Minus the cotangent."""
        return elementwise.neg(t)


class ScatterMul(Scatter):
    """Multiply. Linear in the operand."""

    operation = "stablehlo.multiply"
    meets = np.multiply

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> Any:
        x, indices, updates = primals
        out = self.bind1(*primals, **params)
        tangent = None if tangents[0] is None else self.bind1(tangents[0], indices, updates, **params)
        if tangents[2] is not None:
            if params["unique_indices"]:
                others = read_back(x, indices, updates, params)
            else:
                others = self._product_of_others(x, indices, updates, params)
            part = scatter_add_p.bind1(_zeros(x, out), indices, elementwise.mul(tangents[2], others), **params)
            tangent = base.add_tangents(tangent, part)
        return (out,), (tangent,)

    def _product_of_others(self, x: Any, indices: Any, updates: Any, params: Any) -> Any:
        """For each update the product of the old element and all other updates that meet it, zeros among them included."""
        zero, one = _zeros(updates, updates), shape.full_like_aval(aval_of(updates), 1)
        is_zero = elementwise.eq(updates, zero)
        nonzero = elementwise.select(is_zero, one, updates)
        product = read_back(self.bind1(x, indices, nonzero, **params), indices, updates, params)
        ones = elementwise.select(is_zero, one, zero)
        count = read_back(scatter_add_p.bind1(_zeros(x, ones), indices, ones, **params), indices, updates, params)
        own = elementwise.select(is_zero, one, zero)
        return elementwise.select(elementwise.eq(count, own), elementwise.div(product, nonzero), zero)

    def transpose(self, cotangents: Any, operands: Any, **params: Any) -> Any:
        (t,), (_, indices, updates) = cotangents, operands
        return (None if t is None else self.bind1(t, indices, updates, **params), None, None)


class ScatterExtremum(Scatter):
    """Minimum or maximum; the derivative is shared by all that reach it, the old element included."""

    exact_floats = False  # signed zeros and NaN payloads

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> Any:
        x, indices, updates = primals
        out = self.bind1(*primals, **params)
        if tangents[0] is None and tangents[2] is None:
            return (out,), (None,)
        kept = elementwise.eq(x, out)
        reached = elementwise.eq(updates, read_back(out, indices, updates, params))
        one, own = shape.full_like_aval(aval_of(updates), 1), shape.full_like_aval(aval_of(x), 1)
        count = scatter_add_p.bind1(
            elementwise.select(kept, own, _zeros(x, x)),
            indices,
            elementwise.select(reached, one, _zeros(one, one)),
            **params,
        )
        t_x = _zeros(x, x) if tangents[0] is None else elementwise.select(kept, tangents[0], _zeros(x, x))
        tangent = t_x
        if tangents[2] is not None:
            part = elementwise.select(reached, tangents[2], _zeros(updates, updates))
            tangent = scatter_add_p.bind1(t_x, indices, part, **params)
        return (out,), (elementwise.div(tangent, elementwise.max(count, own)),)


class ScatterMin(ScatterExtremum):
    """Minimum."""

    operation = "stablehlo.minimum"
    meets = np.minimum


class ScatterMax(ScatterExtremum):
    """Maximum."""

    operation = "stablehlo.maximum"
    meets = np.maximum


scatter_p = ScatterSet("scatter")
scatter_add_p = ScatterAdd("scatter_add")
scatter_sub_p = ScatterSub("scatter_sub")
scatter_mul_p = ScatterMul("scatter_mul")
scatter_min_p = ScatterMin("scatter_min")
scatter_max_p = ScatterMax("scatter_max")


# --- the user's functions ---------------------------------------------------------------------------------------------


def _scatter(
    primitive: Any, operand: Any, indices: Any, updates: Any, numbers: ScatterDimensionNumbers, indices_are_sorted: bool,
    unique_indices: bool, mode: Any,
) -> Any:  # fmt: skip
    if isinstance(updates, (bool, int, float, complex)):
        updates = shape.scalar(updates, aval_of(operand).dtype)
    return primitive.bind1(
        operand, indices, updates, dimension_numbers=plain_numbers(numbers), indices_are_sorted=bool(indices_are_sorted),
        unique_indices=bool(unique_indices), mode=GatherScatterMode.from_any(mode),
    )  # fmt: skip


def plain_numbers(numbers: ScatterDimensionNumbers) -> ScatterDimensionNumbers:
    return ScatterDimensionNumbers(*[tuple([operator.index(d) for d in axes]) for axes in numbers])


def scatter(
    operand: Any, scatter_indices: Any, updates: Any, dimension_numbers: ScatterDimensionNumbers, *,
    indices_are_sorted: bool = False, unique_indices: bool = False, mode: str | GatherScatterMode | None = None,
) -> Any:  # fmt: skip
    """`operand` with the windows at the index vectors replaced by updates.

    Parameters
    ----------
    operand : array
    scatter_indices : integer array
        Index vectors along the last axis.
    updates : array of the operand's dtype
        One window for each index vector.
    dimension_numbers : ScatterDimensionNumbers
    indices_are_sorted, unique_indices : bool
        Promises that may make it faster.
    mode : GatherScatterMode or str, optional
        What happens to windows that leave the operand; default: they are dropped.

    Returns
    -------
    array of the operand's shape and dtype

    Raises
    ------
    ShapeError, DTypeError
        The dimension numbers do not fit, dtypes differ, or indices are not integers.

    Notes
    -----
    Where index vectors repeat, the last update counts on CPU; elsewhere which one counts is not defined.

    References
    ----------
    https://openxla.org/stablehlo/spec#scatter
    """
    return _scatter(
        scatter_p, operand, scatter_indices, updates, dimension_numbers, indices_are_sorted, unique_indices, mode
    )


def scatter_add(
    operand: Any, scatter_indices: Any, updates: Any, dimension_numbers: ScatterDimensionNumbers, *,
    indices_are_sorted: bool = False, unique_indices: bool = False, mode: str | GatherScatterMode | None = None,
) -> Any:  # fmt: skip
    """Add updates to the windows at the index vectors; see `scatter`."""
    return _scatter(
        scatter_add_p, operand, scatter_indices, updates, dimension_numbers, indices_are_sorted, unique_indices, mode
    )


def scatter_sub(
    operand: Any, scatter_indices: Any, updates: Any, dimension_numbers: ScatterDimensionNumbers, *,
    indices_are_sorted: bool = False, unique_indices: bool = False, mode: str | GatherScatterMode | None = None,
) -> Any:  # fmt: skip
    """Subtract updates from the windows at the index vectors; see `scatter`."""
    return _scatter(
        scatter_sub_p, operand, scatter_indices, updates, dimension_numbers, indices_are_sorted, unique_indices, mode
    )


def scatter_mul(
    operand: Any, scatter_indices: Any, updates: Any, dimension_numbers: ScatterDimensionNumbers, *,
    indices_are_sorted: bool = False, unique_indices: bool = False, mode: str | GatherScatterMode | None = None,
) -> Any:  # fmt: skip
    """Multiply the windows at the index vectors by updates; see `scatter`."""
    return _scatter(
        scatter_mul_p, operand, scatter_indices, updates, dimension_numbers, indices_are_sorted, unique_indices, mode
    )


def scatter_min(
    operand: Any, scatter_indices: Any, updates: Any, dimension_numbers: ScatterDimensionNumbers, *,
    indices_are_sorted: bool = False, unique_indices: bool = False, mode: str | GatherScatterMode | None = None,
) -> Any:  # fmt: skip
    """Minimum of the windows at the index vectors and updates; see `scatter`."""
    return _scatter(
        scatter_min_p, operand, scatter_indices, updates, dimension_numbers, indices_are_sorted, unique_indices, mode
    )


def scatter_max(
    operand: Any, scatter_indices: Any, updates: Any, dimension_numbers: ScatterDimensionNumbers, *,
    indices_are_sorted: bool = False, unique_indices: bool = False, mode: str | GatherScatterMode | None = None,
) -> Any:  # fmt: skip
    """Maximum of the windows at the index vectors and updates; see `scatter`."""
    return _scatter(
        scatter_max_p, operand, scatter_indices, updates, dimension_numbers, indices_are_sorted, unique_indices, mode
    )


from purax.primitives import base, elementwise, gather, shape  # noqa: E402  (siblings import this module's names)
