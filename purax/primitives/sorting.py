# SPDX-License-Identifier: Apache-2.0
"""Sort, argsort, top-k.

The order is NumPy's: NaNs last, whatever their sign; -0.0 equal to 0.0; complex numbers by real, then imaginary part; equal
elements keep their order.

XLA sorts integers by a plain comparison several times faster than floats by a comparison that looks after NaNs, and one operand
several times faster than two. So floats are mapped to integers in the same order, and a key of 32 bits is sorted together with its
position in one 64-bit integer; payloads then follow by gather.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from purax import dtypes, errors
from purax.core.aval import array_aval
from purax.core.primitive import Primitive, Undefined
from purax.core.trace import aval_of
from purax.sharding import rules

__all__ = ["approx_max_k", "approx_min_k", "argsort_p", "sort", "sort_key_val", "sort_p", "top_k", "top_k_p"]

_INDEX = np.dtype(np.int32)


def _check_same(operands: Sequence[Any], dimension: int) -> None:
    first = operands[0]
    if any(x.shape != first.shape for x in operands):
        raise errors.ShapeError(
            f"operands of sort must have equal shapes, got {', '.join(str(x.shape) for x in operands)}"
        )
    if not 0 <= dimension < max(first.ndim, 1) or not first.ndim:
        raise errors.ShapeError(f"dimension {dimension} is not an axis of operands of shape {first.shape}")


def _plain(x: np.ndarray) -> np.ndarray:
    """The same order in a dtype whose NaNs NumPy knows to sort last."""
    return x.astype(np.float32) if x.dtype.kind == "V" or (dtypes.is_float(x.dtype) and x.dtype.itemsize < 4) else x


def host_order(keys: Sequence[np.ndarray], dimension: int) -> np.ndarray:
    """The stable order of the first key, ties broken by the next."""
    order = np.argsort(_plain(keys[-1]), dimension, kind="stable")
    for key in reversed(keys[:-1]):
        plain = _plain(np.take_along_axis(key, order, dimension))
        order = np.take_along_axis(order, np.argsort(plain, dimension, kind="stable"), dimension)
    return order.astype(_INDEX)


class Argsort(Primitive):
    """Positions, as int32, that sort the first operand along `dimension`, ties broken by the others, then by position."""

    exact = True
    transpose = Undefined("positions are integers")

    def spread(self, ins: Any, avals: Any, outs: Any, params: Any) -> Any:
        """As the keys."""
        rules.refuse_sums(self.name, ins)
        return [rules.joined(ins, [a.shape for a in avals])]

    def infer(self, *keys: Any, dimension: int) -> Any:
        _check_same(keys, dimension)
        return (array_aval(keys[0].shape, _INDEX),)

    def reference(self, *keys: Any, dimension: int) -> Any:
        return (host_order(keys, dimension),)

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> Any:
        return self.bind(*primals, **params), (None,)

    def batch(self, axis: Any, operands: Any, dims: Any, *, dimension: int) -> Any:
        place = next(d for d in dims if d is not None)
        keys = [shape.align_batch(x, d, axis.size, place) for x, d in zip(operands, dims, strict=True)]
        return self.bind(*keys, dimension=dimension + (dimension >= place)), (place,)

    def lower(self, b: Any, ins: Any, outs: Any, *, dimension: int) -> Any:
        if len(ins) == 1 and ins[0].dtype.itemsize == 8 and dtypes.is_integer(ins[0].dtype):
            place = b.emit(f"stablehlo.iota dim = {dimension} : {outs[0].hlo}", outs[0])
            return emit_sort(b, [ins[0], place], [ins[0].aval, outs[0]], dimension, True, 1)[1:]
        return b.inline(_order, ins, dimension=dimension)


class Sort(Primitive):
    """Operands sorted together along `dimension` by the first `num_keys` of them."""

    exact = True
    transpose = Undefined("sort is not linear")

    def spread(self, ins: Any, avals: Any, outs: Any, params: Any) -> Any:
        """As the operands, which must lie in one way."""
        rules.refuse_sums(self.name, ins)
        return [rules.joined(ins, [a.shape for a in avals])] * len(outs)

    def infer(self, *operands: Any, dimension: int, is_stable: bool, num_keys: int) -> Any:
        _check_same(operands, dimension)
        if not 1 <= num_keys <= len(operands):
            raise errors.ShapeError(
                f"num_keys must be between 1 and the number of operands {len(operands)}, got {num_keys}"
            )
        return operands

    def reference(self, *operands: Any, dimension: int, is_stable: bool, num_keys: int) -> Any:
        order = host_order(operands[:num_keys], dimension)
        return tuple([np.take_along_axis(x, order, dimension) for x in operands])

    def jvp(self, primals: Any, tangents: Any, *, dimension: int, is_stable: bool, num_keys: int) -> Any:
        if all(t is None for t in tangents):
            outs = self.bind(*primals, dimension=dimension, is_stable=is_stable, num_keys=num_keys)
            return outs, (None,) * len(outs)
        order = argsort_p.bind1(*primals[:num_keys], dimension=dimension)
        outs = tuple([gather.take_along(x, order, dimension) for x in primals])
        return outs, tuple([None if t is None else gather.take_along(t, order, dimension) for t in tangents])

    def batch(self, axis: Any, operands: Any, dims: Any, *, dimension: int, is_stable: bool, num_keys: int) -> Any:
        place = next(d for d in dims if d is not None)
        moved = [shape.align_batch(x, d, axis.size, place) for x, d in zip(operands, dims, strict=True)]
        outs = self.bind(*moved, dimension=dimension + (dimension >= place), is_stable=is_stable, num_keys=num_keys)
        return outs, (place,) * len(outs)

    def lower(self, b: Any, ins: Any, outs: Any, *, dimension: int, is_stable: bool, num_keys: int) -> Any:
        if len(ins) == 1 and not dtypes.is_inexact(ins[0].dtype):
            dtype = dtypes.whole_bytes(ins[0].dtype)  # XLA mixes up neighbours of less than a byte
            sorted_ = emit_sort(b, [b.convert(ins[0], dtype)], [outs[0].update(dtype=dtype)], dimension, False, 1)
            return [b.convert(sorted_[0], outs[0].dtype)]
        return b.inline(_sorted_by_order, ins, dimension=dimension, num_keys=num_keys)


class TopK(Primitive):
    """The `k` largest elements along `axis`, largest first, and their positions; NaN counts as larger than all."""

    exact = True
    transpose = Undefined("top_k is not linear")

    def spread(self, ins: Any, avals: Any, outs: Any, params: Any) -> Any:
        """As the operand, which must not be cut along the axis that is searched."""
        rules.refuse_sums(self.name, ins)
        return [rules.uncut_along(self.name, ins[0], (params["axis"] % avals[0].ndim,))] * len(outs)

    def infer(self, x: Any, *, k: int, axis: int) -> Any:
        if not 0 <= axis < x.ndim:
            raise errors.ShapeError(f"top_k needs an axis of the operand of shape {x.shape}, got {axis}")
        if not 0 <= k <= x.shape[axis]:
            raise errors.ShapeError(f"k must be between 0 and the size {x.shape[axis]} of axis {axis}, got {k}")
        if x.shape[axis] > np.iinfo(_INDEX).max:
            raise errors.ShapeError(f"top_k gives int32 positions, which an axis of size {x.shape[axis]} overflows")
        if dtypes.is_complex(x.dtype) or dtypes.is_key(x.dtype):
            raise errors.DTypeError(f"top_k is not defined for dtype {x.dtype}")
        sizes = (*x.shape[:axis], k, *x.shape[axis + 1 :])
        return (x.update(shape=sizes), array_aval(sizes, _INDEX))

    def reference(self, x: Any, *, k: int, axis: int) -> Any:
        key = _plain(x)
        if key.dtype.kind == "f":  # total order: the bits of the number as a signed integer, negative ones reversed
            bits = key.view(f"i{key.dtype.itemsize}")
            key = bits ^ ((bits >> (8 * key.dtype.itemsize - 1)) & np.iinfo(bits.dtype).max)
        key = ~key if key.dtype.kind in "biu" else key
        order = np.argsort(key, axis, kind="stable")
        order = order[(*(slice(None),) * axis, slice(0, k))].astype(_INDEX)
        return np.take_along_axis(x, order, axis), order

    def jvp(self, primals: Any, tangents: Any, *, k: int, axis: int) -> Any:
        values, places = self.bind(*primals, k=k, axis=axis)
        tangent = None if tangents[0] is None else gather.take_along(tangents[0], places, axis)
        return (values, places), (tangent, None)

    def batch(self, axis_data: Any, operands: Any, dims: Any, *, k: int, axis: int) -> Any:
        (d,) = dims
        return self.bind(operands[0], k=k, axis=axis + (axis >= d)), (d, d)

    def lower(self, b: Any, ins: Any, outs: Any, *, k: int, axis: int) -> Any:
        (x,) = ins
        last = x.aval.ndim - 1
        if axis == last:
            x = b.convert(x, dtypes.whole_bytes(x.dtype))
            held = [outs[0].update(dtype=x.dtype), outs[1]]
            values, places = b.emit_many(f"chlo.top_k({x}, k = {k}) : {x.hlo} -> ({held[0].hlo}, {held[1].hlo})", held)
            return [b.convert(values, outs[0].dtype), places]
        return b.inline(_top_k_last, ins, k=k, axis=axis)


argsort_p = Argsort("argsort")
sort_p = Sort("sort")
top_k_p = TopK("top_k")


def emit_sort(b: Any, ins: Any, outs: Any, dimension: int, is_stable: bool, num_keys: int) -> Any:
    """A stablehlo.sort by the plain order of the first operands, which are integers or booleans."""

    def smaller(inner: Any, *pairs: Any) -> Any:
        def compare(direction: str, k: int) -> Any:
            x, y = pairs[2 * k], pairs[2 * k + 1]
            kind = "SIGNED" if dtypes.is_signed(x.dtype) else "UNSIGNED"
            return inner.emit(
                f"stablehlo.compare {direction}, {x}, {y}, {kind} : ({x.hlo}, {y.hlo}) -> tensor<i1>", _BOOL
            )

        result = compare("LT", num_keys - 1)
        for k in reversed(range(num_keys - 1)):
            both = inner.emit(f"stablehlo.and {compare('EQ', k)}, {result} : tensor<i1>", _BOOL)
            result = inner.emit(f"stablehlo.or {compare('LT', k)}, {both} : tensor<i1>", _BOOL)
        return [result]

    region = b.block([array_aval((), x.dtype) for x in ins for _ in range(2)], smaller)
    types = ", ".join(x.hlo for x in ins)
    results = outs[0].hlo if len(outs) == 1 else f"({', '.join(a.hlo for a in outs)})"
    text = (
        f'"stablehlo.sort"({", ".join(map(str, ins))}) <{{dimension = {dimension} : i64, is_stable = {str(is_stable).lower()}}}> '
        f"({region}) : ({types}) -> {results}"
    )
    return b.emit_many(text, outs)


_BOOL = array_aval((), np.dtype(bool))


def integer_keys(x: Any) -> list[Any]:
    """Integers, of 32 or 64 bits, in the order of `x`; a complex operand gives two."""
    dtype = aval_of(x).dtype
    if dtypes.is_complex(dtype):
        return [*integer_keys(elementwise.real(x)), *integer_keys(elementwise.imag(x))]
    integer: Any = np.dtype(np.int64 if dtype.itemsize == 8 else np.int32)
    if dtypes.is_float(dtype):
        if dtype.itemsize < 4:
            x = cast.convert_element_type(x, np.float32)
        zero = shape.full_like_aval(aval_of(x), 0)
        x = elementwise.select(elementwise.eq(x, zero), zero, x)
        x = elementwise.select(elementwise.ne(x, x), shape.full_like_aval(aval_of(x), np.nan), x)
        bits = cast.bitcast_convert_type(x, integer)
        aval = aval_of(bits)
        sign = elementwise.shift_right_arithmetic(bits, shape.full_like_aval(aval, 8 * integer.itemsize - 1))
        largest = shape.full_like_aval(aval, int(np.iinfo(integer).max))
        return [elementwise.bitwise_xor(bits, elementwise.bitwise_and(sign, largest))]
    if dtype in (np.uint32, np.uint64):
        signed = cast.bitcast_convert_type(x, integer)
        return [elementwise.bitwise_xor(signed, shape.full_like_aval(aval_of(signed), int(np.iinfo(integer).min)))]
    return [x if dtype == integer else cast.convert_element_type(x, integer)]


def _order(*keys: Any, dimension: int) -> Any:
    """The stable order by integer keys: sort by the last, then, as that is stable, by those before it."""
    parts = [part for key in keys for part in integer_keys(key)]
    order = _order_of(parts[-1], dimension)
    for key in reversed(parts[:-1]):
        step = _order_of(gather.take_along(key, order, dimension), dimension)
        order = gather.take_along(order, step, dimension)
    return order


def _order_of(key: Any, dimension: int) -> Any:
    aval = aval_of(key)
    if aval.dtype.itemsize == 8:
        return argsort_p.bind1(key, dimension=dimension)
    wide = np.dtype(np.int64)
    place = shape.broadcasted_iota(wide, aval.shape, dimension)
    high = cast.convert_element_type(key, wide)
    high = elementwise.shift_left(high, shape.full_like_aval(aval_of(high), 32))
    both = sort_p.bind1(elementwise.bitwise_or(high, place), dimension=dimension, is_stable=False, num_keys=1)
    low = elementwise.bitwise_and(both, shape.full_like_aval(aval_of(both), 0xFFFFFFFF))
    return cast.convert_element_type(low, _INDEX)


def _sorted_by_order(*operands: Any, dimension: int, num_keys: int) -> Any:
    order = argsort_p.bind1(*operands[:num_keys], dimension=dimension)
    return [gather.take_along(x, order, dimension) for x in operands]


def _top_k_last(x: Any, k: int, axis: int) -> Any:
    last = aval_of(x).ndim - 1
    outs = top_k_p.bind(shape.move_batch_axis(x, axis, last), k=k, axis=last)
    return [shape.move_batch_axis(out, last, axis) for out in outs]


# --- the user's functions ---------------------------------------------------------------------------------------------


def sort(operand: Any, dimension: int = -1, is_stable: bool = True, num_keys: int = 1) -> Any:
    """Sort along one axis, smallest first.

    Parameters
    ----------
    operand : array, or sequence of arrays of equal shape
        Several arrays are sorted together, by the first of them.
    dimension : int
    is_stable : bool
        Accepted; the order of equal elements is always kept.
    num_keys : int
        How many of the leading arrays decide; later ones break ties.

    Returns
    -------
    array, or list of arrays

    Raises
    ------
    ShapeError
        Shapes differ, or `num_keys` is not between 1 and their number.
    """
    if isinstance(operand, (tuple, list)):
        if not operand:
            raise errors.ShapeError("sort requires at least one operand")
        axis = shape.canonical_axis(dimension, aval_of(operand[0]).ndim)
        outs = sort_p.bind(*operand, dimension=axis, is_stable=bool(is_stable), num_keys=operator.index(num_keys))
        return tuple(outs)
    axis = shape.canonical_axis(dimension, aval_of(operand).ndim)
    return sort_p.bind1(operand, dimension=axis, is_stable=bool(is_stable), num_keys=1)


def sort_key_val(keys: Any, values: Any, dimension: int = -1, is_stable: bool = True) -> tuple[Any, Any]:
    """Sort `keys` along one axis and apply the same order to `values`, of the same shape.

    Parameters
    ----------
    keys, values : arrays
    dimension : int
    is_stable : bool
        Equal keys keep their order.

    Returns
    -------
    (array like `keys`, array like `values`)
    """
    axis = shape.canonical_axis(dimension, aval_of(keys).ndim)
    key, value = sort_p.bind(keys, values, dimension=axis, is_stable=bool(is_stable), num_keys=1)
    return key, value


def top_k(operand: Any, k: int, *, axis: int = -1) -> tuple[Any, Any]:
    """The `k` largest elements along one axis, largest first, and their positions.

    Parameters
    ----------
    operand : array, not complex
        With at least one axis. NaN counts as larger than all numbers, equal elements keep their order.
    k : int
        At most the size of the axis.
    axis : int

    Returns
    -------
    values : array of the operand's dtype
    indices : int32 array

    Raises
    ------
    ShapeError, DTypeError
        `k` or `axis` do not fit, or the operand is complex.
    """
    count = operator.index(k)
    values, places = top_k_p.bind(operand, k=count, axis=shape.canonical_axis(axis, aval_of(operand).ndim))
    return values, places


def approx_max_k(
    operand: Any, k: int, reduction_dimension: int = -1, recall_target: float = 0.95, reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
) -> tuple[Any, Any]:  # fmt: skip
    """The `k` largest elements along one axis, and their positions, as `top_k` gives them: all of them, whatever recall is asked for.

    Parameters
    ----------
    operand : float array
    k : int
    reduction_dimension : int
    recall_target, reduction_input_size_override, aggregate_to_topk
        Taken, and of no effect: they tune searches that miss some.

    Returns
    -------
    values : array of the operand's dtype
    indices : int32 array

    Raises
    ------
    ShapeError, DTypeError
        `k` or the axis do not fit, or the operand is not floating.
    """
    del reduction_input_size_override, aggregate_to_topk
    _check_search("approx_max_k", operand, recall_target)
    return top_k(operand, k, axis=reduction_dimension)


def approx_min_k(
    operand: Any, k: int, reduction_dimension: int = -1, recall_target: float = 0.95, reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
) -> tuple[Any, Any]:  # fmt: skip
    """The `k` smallest elements along one axis, and their positions; see `approx_max_k`.

    Parameters
    ----------
    operand : float array
    k : int
    reduction_dimension : int
    recall_target, reduction_input_size_override, aggregate_to_topk
        Of no effect.

    Returns
    -------
    (array of the operand's dtype, int32 array)

    Raises
    ------
    ShapeError, DTypeError
        `k` or the axis do not fit, or the operand is not floating.
    ValueError
        `recall_target` is not above 0 and at most 1.
    """
    del reduction_input_size_override, aggregate_to_topk
    _check_search("approx_min_k", operand, recall_target)
    values, places = top_k(elementwise.neg(operand), k, axis=reduction_dimension)
    return elementwise.neg(values), places


def _check_search(name: str, operand: Any, recall_target: float) -> None:
    dtype = aval_of(operand).dtype
    if not dtypes.is_float(dtype):
        raise errors.DTypeError(f"{name}: the operand has dtype {operands.dtype_name(dtype)}; real floating is needed")
    if not 0 < recall_target <= 1:
        raise ValueError(f"{name}: recall_target must be above 0 and at most 1, got {recall_target}")


from purax.primitives import cast, elementwise, gather, operands, shape  # noqa: E402  (siblings import this module's names)
