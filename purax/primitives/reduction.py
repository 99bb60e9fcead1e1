# SPDX-License-Identifier: Apache-2.0
"""Reductions over axes: sum, product, extrema, logical operations, positions of extrema.

Narrow floats (16 bits and fewer) are accumulated in float32 and rounded once.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from purax import config, dtypes, errors
from purax.core.aval import ShapedArray, array_aval
from purax.core.primitive import Primitive, Undefined
from purax.core.trace import aval_of
from purax.primitives import cast, elementwise, joining, resharding, shape
from purax.sharding import rules

__all__ = [
    "argmax", "argmax_p", "argmin", "argmin_p", "reduce_and", "reduce_and_p", "reduce_max", "reduce_max_p",
    "reduce_min", "reduce_min_p", "reduce_or", "reduce_or_p", "reduce_prod", "reduce_prod_p", "reduce_sum",
    "reduce_sum_p", "reduce_xor", "reduce_xor_p",
]  # fmt: skip


# --- what reductions share ----------------------------------------------------------------------------------------------------


@functools.cache
def identity_of(kind: str, dtype: Any) -> Any:
    """The value that leaves a reduction of the kind ("add", "multiply", "maximum", ...) as it is, as a NumPy scalar."""
    dtype = np.dtype(dtype)
    if kind in ("add", "or", "xor"):
        return dtype.type(0)
    if kind == "multiply":
        return dtype.type(1)
    if kind == "and":
        return dtype.type(True) if dtype == np.bool_ else np.zeros((), dtype).__invert__()[()]
    if kind not in ("maximum", "minimum"):
        raise ValueError(f"no identity of {kind!r}")
    low = kind == "maximum"
    if dtype == np.bool_:
        return np.bool_(not low)
    if dtypes.is_complex(dtype):
        return dtype.type(complex(-np.inf, -np.inf) if low else complex(np.inf, np.inf))
    if dtypes.is_float(dtype):
        if dtypes.supports_inf(dtype):
            return dtype.type(-np.inf if low else np.inf)
        info = dtypes.finfo(dtype)
        return dtype.type(info.min if low else info.max)
    limits = dtypes.iinfo(dtype)
    return dtype.type(limits.min if low else limits.max)


@functools.cache
def accumulator(dtype: Any) -> Any:
    """Dtype in which sums and products of `dtype` are accumulated."""
    return np.dtype(np.float32) if dtypes.is_float(dtype) and np.dtype(dtype).itemsize < 4 else dtype


def host_accumulator(dtype: Any) -> Any:
    """Dtype in which NumPy accumulates `dtype`: that of `accumulator`, or a whole byte."""
    return dtypes.whole_bytes(accumulator(dtype))


def check_axes(operand: ShapedArray, axes: tuple[int, ...]) -> None:
    """Raise ShapeError unless `axes` are distinct axes of `operand`, counted from the front."""
    if len(set(axes)) != len(axes):
        raise errors.ShapeError(f"duplicate value in axes {axes}")
    for axis in axes:
        if not 0 <= axis < operand.ndim:
            raise errors.ShapeError(
                f"axis {axis} is out of bounds for an operand of {operand.ndim} axes; axes count from 0 at the front"
            )


def dropped(sizes: Sequence[int], axes: Sequence[int]) -> tuple[int, ...]:
    """`sizes` without the entries at `axes`."""
    return tuple(size for axis, size in enumerate(sizes) if axis not in axes)


def kept_axes(ndim: int, axes: Sequence[int]) -> tuple[int, ...]:
    """The axes that a reduction over `axes` leaves."""
    return tuple(axis for axis in range(ndim) if axis not in axes)


def expand(x: Any, sizes: Sequence[int], axes: Sequence[int]) -> Any:
    """The result of a reduction over `axes`, repeated along them to shape `sizes`."""
    return shape.broadcast_in_dim(x, tuple(sizes), kept_axes(len(sizes), axes))


def shifted(axes: Sequence[int], dim: int) -> tuple[int, ...]:
    """`axes` as seen when a batch axis is put in at `dim`."""
    return tuple(axis + (axis >= dim) for axis in axes)


def normalized(axes: Any) -> tuple[int, ...]:
    """`axes` as a tuple of ints."""
    return (operator.index(axes),) if isinstance(axes, int) else tuple(operator.index(a) for a in axes)


def reduce_text(x: Any, initial: Any, op: str, axes: Sequence[int], out: Any) -> str:
    """StableHLO of a reduction by one named operation."""
    dims = ", ".join(map(str, axes))
    return (
        f"stablehlo.reduce({x} init: {initial}) applies stablehlo.{op} across dimensions = [{dims}] "
        f": ({x.hlo}, {initial.hlo}) -> {out.hlo}"
    )


class Reduction(Primitive):
    """Reduction of one operand over `axes` by an associative operation with an identity."""

    op: str  # name of the operation in StableHLO
    numpy_op: Any
    accepts: tuple[Any, ...]  # dtype tests, one of which must hold
    wide = False  # narrow floats accumulate in float32

    def spread(self, ins: Any, avals: Any, outs: Any, params: Any) -> Any:
        """The axes that stay, lie as they did."""
        if self.name != "reduce_sum":
            rules.refuse_sums(self.name, ins)
        if self.name in ("reduce_and", "reduce_or", "reduce_xor") and avals[0].dtype != np.bool_:
            rules.uncut_along(self.name, ins[0], params["axes"])  # XLA has no such sum over devices
        return [rules.without(ins[0], params["axes"])]

    def infer(self, operand: ShapedArray, *, axes: tuple[int, ...]) -> tuple[ShapedArray, ...]:
        """The operand's type without `axes`."""
        if not any(test(operand.dtype) for test in self.accepts):
            raise errors.DTypeError(f"does not accept dtype {operand.dtype}")
        check_axes(operand, axes)
        return (operand.update(shape=dropped(operand.shape, axes)),)

    def reference(self, operand: Any, *, axes: tuple[int, ...]) -> tuple[np.ndarray, ...]:
        """NumPy's reduction."""
        dtype = operand.dtype
        wide = host_accumulator(dtype)
        work = operand if wide == dtype else operand.astype(wide)
        start = identity_of(self.op, dtype)
        out = (
            self.numpy_op.reduce(work, axis=axes, dtype=wide, initial=np.asarray(start).astype(wide)) if axes else work
        )
        return (np.asarray(out, dtype),)

    def exact(self, avals: Any, params: Any) -> bool:
        """Integers and booleans have one right answer whatever the order."""
        return not dtypes.is_inexact(avals[0].dtype)

    def jvp(self, primals: Any, tangents: Any, *, axes: tuple[int, ...]) -> Any:
        """Integers and booleans have no tangent."""
        return self.bind(*primals, axes=axes), (None,)

    def batch(self, axis: Any, operands: Any, dims: Any, *, axes: tuple[int, ...]) -> Any:
        """The same over the shifted axes."""
        (dim,) = dims
        return self.bind(*operands, axes=shifted(axes, dim)), (dim - sum(a < dim for a in axes),)

    def lower(self, b: Any, ins: Any, outs: Any, *, axes: tuple[int, ...]) -> list[Any]:
        """`stablehlo.reduce`."""
        (x,), (out,) = ins, outs
        if not axes:
            return [x]
        if self.wide:
            x = b.convert(x, accumulator(x.dtype))
        aval = array_aval(out.shape, x.dtype)
        initial = b.constant(identity_of(self.op, x.dtype), array_aval((), x.dtype))
        if dtypes.is_complex(x.dtype) and self.op in ("maximum", "minimum"):
            choose = elementwise.max if self.op == "maximum" else elementwise.min
            scalar = initial.aval
            region = b.block([scalar, scalar], lambda inner, p, q: inner.inline(choose, [p, q]))
            dims = ", ".join(map(str, axes))
            text = f'"stablehlo.reduce"({x}, {initial}) ({region}) {{dimensions = array<i64: {dims}>}} : ({x.hlo}, {initial.hlo}) -> {out.hlo}'
            return [b.emit(text, aval)]
        return [b.convert(b.emit(reduce_text(x, initial, self.op, axes, aval), aval), out.dtype)]


def _is_number(dtype: Any) -> bool:
    return not isinstance(dtype, dtypes.KeyDtype) and (dtypes.is_inexact(dtype) or dtypes.is_integer(dtype))


def _is_plain(dtype: Any) -> bool:
    return _is_number(dtype) or (not isinstance(dtype, dtypes.KeyDtype) and dtypes.is_bool(dtype))


def _is_bits(dtype: Any) -> bool:
    return _is_plain(dtype) and not dtypes.is_inexact(dtype)


# --- sum and product ----------------------------------------------------------------------------------------------------------


class ReduceSum(Reduction):
    """Sum; linear."""

    terms = True
    op, numpy_op, accepts, wide = "add", np.add, (_is_number,), True

    def jvp(self, primals: Any, tangents: Any, *, axes: tuple[int, ...]) -> Any:
        """The sum of the tangent."""
        (t,) = tangents
        return self.bind(*primals, axes=axes), (None if t is None else self.bind1(t, axes=axes),)

    def transpose(self, cotangents: Any, operands: Any, *, axes: tuple[int, ...]) -> Any:
        """The cotangent, repeated."""
        (ct,), (operand,) = cotangents, operands
        return (None if ct is None else expand(ct, operand.aval.shape, axes),)


class ReduceSumTerms(ReduceSum):
    """The same, unreduced along the mesh axes that the summed axes are cut along."""

    def spread(self, ins: Any, avals: Any, outs: Any, params: Any) -> Any:
        """As of the sum; along the mesh axes of summed axes each device has a term."""
        rules.refuse_sums(self.name, ins)
        (s,), axes = ins, params["axes"]
        return [rules.without(s, axes).replace(unreduced=frozenset(name for axis in axes for name in s.parts[axis]))]

    def transpose(self, cotangents: Any, operands: Any, **params: Any) -> Any:
        """That of the sum: its cotangent is whole."""
        return reduce_sum_p.transpose(cotangents, operands, **params)


class ReduceProd(Reduction):
    """Product. The derivative multiplies the other elements pairwise in a tree: right at zeros, in any order."""

    op, numpy_op, accepts, wide = "multiply", np.multiply, (_is_number,), True

    def jvp(self, primals: Any, tangents: Any, *, axes: tuple[int, ...]) -> Any:
        """d(ab) = a db + b da up a binary tree of halves."""
        (x,), (t,) = primals, tangents
        out = self.bind1(x, axes=axes)
        if t is None:
            return (out,), (None,)
        aval = aval_of(x)
        rest = kept_axes(aval.ndim, axes)
        sizes = tuple(aval.shape[a] for a in rest)
        count = int(np.prod([aval.shape[a] for a in axes], dtype=np.int64))
        if count == 0:
            return (out,), (None,)

        def flat(value: Any) -> Any:
            return shape.reshape(shape.transpose(value, (*axes, *rest)), (count, *sizes))

        wide = accumulator(aval.dtype)
        p = cast.convert_element_type(flat(x), wide)
        t = cast.convert_element_type(flat(t), wide)
        while count > 1:
            half = count // 2
            (p1, p2, p3), (t1, t2, t3) = _split(p, half, count), _split(t, half, count)
            p = elementwise.mul(p1, p2)
            t = elementwise.add(elementwise.mul(t1, p2), elementwise.mul(p1, t2))
            if count % 2:
                p, t = joining.concatenate([p, p3], 0), joining.concatenate([t, t3], 0)
            count -= half
        return (out,), (cast.convert_element_type(shape.reshape(t, sizes), aval.dtype),)


def _split(x: Any, half: int, count: int) -> tuple[Any, Any, Any]:
    pieces = [joining.slice_in_dim(x, 0, half, axis=0), joining.slice_in_dim(x, half, 2 * half, axis=0)]
    return pieces[0], pieces[1], joining.slice_in_dim(x, 2 * half, count, axis=0) if count % 2 else None


# --- extrema ------------------------------------------------------------------------------------------------------------------


class Extremum(Reduction):
    """Maximum or minimum; NaN wins; of equal zeros the larger (smaller) sign wins; ties share the derivative equally."""

    accepts = (_is_plain,)

    def reference(self, operand: Any, *, axes: tuple[int, ...]) -> tuple[np.ndarray, ...]:
        """NumPy's extremum with XLA's choice among zeros of either sign."""
        (out,) = super().reference(operand, axes=axes)
        zero = out == 0 if axes and dtypes.is_float(operand.dtype) else False
        if np.any(zero):
            negative = np.signbit(operand.astype(np.float64))
            wanted = ~negative if self.op == "maximum" else negative
            found = np.any((operand == 0) & wanted, axis=axes)
            positive = found if self.op == "maximum" else ~found
            out = np.where(zero, np.where(positive, 0.0, -0.0).astype(operand.dtype), out)
        return (np.asarray(out, operand.dtype),)

    def exact(self, avals: Any, params: Any) -> bool:
        """No rounding; complex numbers are left to XLA."""
        return not dtypes.is_complex(avals[0].dtype)

    def jvp(self, primals: Any, tangents: Any, *, axes: tuple[int, ...]) -> Any:
        """The mean of the tangents at the places that attain the extremum (the NaNs, if there are any)."""
        (x,), (t,) = primals, tangents
        out = self.bind1(x, axes=axes)
        if t is None:
            return (out,), (None,)
        aval = aval_of(x)
        hits = _hits(x, out, axes)
        count = reduce_sum(cast.convert_element_type(hits, accumulator(aval.dtype)), axes)
        chosen = elementwise.select(hits, t, shape.full_like(t, 0))
        count = elementwise.max(count, shape.full_like(count, 1))
        total = cast.convert_element_type(reduce_sum(chosen, axes), aval_of(count).dtype)
        return (out,), (cast.convert_element_type(elementwise.div(total, count), aval.dtype),)


def _hits(x: Any, extremum: Any, axes: tuple[int, ...]) -> Any:
    """Where `x` attains the extremum. A NaN extremum is attained at the NaNs."""
    aval = aval_of(x)
    hits = elementwise.eq(x, expand(extremum, aval.shape, axes))
    if dtypes.is_inexact(aval.dtype):
        hits = elementwise.bitwise_or(hits, elementwise.ne(x, x))
    return hits


class ReduceMax(Extremum):
    """Maximum."""

    op, numpy_op = "maximum", np.maximum


class ReduceMin(Extremum):
    """Minimum."""

    op, numpy_op = "minimum", np.minimum


# --- bits ---------------------------------------------------------------------------------------------------------------------


class ReduceAnd(Reduction):
    """Bitwise (logical) and."""

    op, numpy_op, accepts = "and", np.bitwise_and, (_is_bits,)


class ReduceOr(Reduction):
    """Bitwise (logical) or."""

    op, numpy_op, accepts = "or", np.bitwise_or, (_is_bits,)


class ReduceXor(Reduction):
    """Bitwise (logical) exclusive or."""

    op, numpy_op, accepts = "xor", np.bitwise_xor, (_is_bits,)


# --- positions ----------------------------------------------------------------------------------------------------------------


class ArgExtremum(Primitive):
    """Position of the first extremum along the one axis of `axes`; the first NaN, if there is one."""

    exact = True
    transpose = Undefined("positions are integers")
    find: Any  # NumPy's function
    extremum: Any  # name of the reduction

    def spread(self, ins: Any, avals: Any, outs: Any, params: Any) -> Any:
        """The axes that stay, lie as they did."""
        rules.refuse_sums(self.name, ins)
        return [rules.without(ins[0], params["axes"])]

    def infer(self, operand: ShapedArray, *, axes: tuple[int, ...], index_dtype: Any) -> tuple[ShapedArray, ...]:
        """The operand's shape without the axis, in `index_dtype`."""
        if len(axes) != 1:
            raise errors.ShapeError(f"takes one axis, got {axes}")
        if not _is_plain(operand.dtype):
            raise errors.DTypeError(f"does not accept dtype {operand.dtype}")
        check_axes(operand, axes)
        if not dtypes.is_integer(index_dtype):
            raise errors.DTypeError(f"index_dtype must be an integer dtype, got {index_dtype}")
        if operand.shape[axes[0]] == 0:
            raise errors.ShapeError(f"axis {axes[0]} is empty: there is no extremum")
        return (array_aval(dropped(operand.shape, axes), np.dtype(index_dtype)),)

    def reference(self, operand: Any, *, axes: tuple[int, ...], index_dtype: Any) -> tuple[np.ndarray, ...]:
        """NumPy's argmax or argmin."""
        work = operand.astype(accumulator(operand.dtype))
        return (np.asarray(type(self).find(work, axis=axes[0]), index_dtype),)

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> Any:
        """Integers have no tangent."""
        return self.bind(*primals, **params), (None,)

    def batch(self, axis: Any, operands: Any, dims: Any, *, axes: tuple[int, ...], index_dtype: Any) -> Any:
        """The same along the shifted axis."""
        (dim,) = dims
        return self.bind(*operands, axes=shifted(axes, dim), index_dtype=index_dtype), (dim - (axes[0] < dim),)

    def lower(self, b: Any, ins: Any, outs: Any, *, axes: tuple[int, ...], index_dtype: Any) -> list[Any]:
        """Two plain reductions (faster than one over pairs): the extremum, then the first place that attains it."""

        def find(x: Any) -> Any:
            sizes = aval_of(x).shape
            index = np.dtype(np.int32) if sizes[axes[0]] < 2**31 else np.dtype(np.int64)
            hits = _hits(x, globals()[self.extremum](x, axes), axes)
            places = shape.broadcasted_iota(index, sizes, axes[0])
            beyond = shape.full_like(places, sizes[axes[0]] - 1)
            return cast.convert_element_type(reduce_min(elementwise.select(hits, places, beyond), axes), index_dtype)

        return b.inline(find, ins)


class ArgMax(ArgExtremum):
    """Position of the maximum."""

    find, extremum = np.argmax, "reduce_max"


class ArgMin(ArgExtremum):
    """Position of the minimum."""

    find, extremum = np.argmin, "reduce_min"


reduce_sum_p = ReduceSum("reduce_sum")
reduce_sum_terms_p = ReduceSumTerms("reduce_sum_terms")
reduce_prod_p = ReduceProd("reduce_prod")
reduce_max_p = ReduceMax("reduce_max")
reduce_min_p = ReduceMin("reduce_min")
reduce_and_p = ReduceAnd("reduce_and")
reduce_or_p = ReduceOr("reduce_or")
reduce_xor_p = ReduceXor("reduce_xor")
argmax_p = ArgMax("argmax")
argmin_p = ArgMin("argmin")


# --- functions ----------------------------------------------------------------------------------------------------------------


_HALVES = frozenset(map(np.dtype, (dtypes.float16, dtypes.bfloat16)))


def reduce_sum(operand: Any, axes: Sequence[int], *, out_sharding: Any = None) -> Any:
    """Sum of a numeric array over `axes` (non-negative), of the operand's dtype.

    Parameters
    ----------
    operand : number[...]
    axes : sequence of int
    out_sharding : PartitionSpec or NamedSharding, optional
        How the result lies on explicit mesh axes.

    Returns
    -------
    array of the operand's dtype, without `axes`

    Raises
    ------
    ValueError
        The operand is a 16-bit float, and the setting `allow_f16_reductions` is off.
    """
    if out_sharding is not None:
        return resharding.out_sharded(reduce_sum, out_sharding, operand, axes)
    aval, axes = aval_of(operand), normalized(axes)
    if aval.dtype in _HALVES and not config.allow_f16_reductions:
        if any(aval.shape[axis] != 1 for axis in axes):
            raise ValueError(
                f"reduce_sum of {aval.str_short()} is not allowed while allow_f16_reductions is off: the sum is taken in float32, but "
                "rounded to 16 bits; convert the operand with astype('float32') first"
            )
    later = resharding.summed_later.get()
    if later and aval.spread is not None:
        return _summed_later(operand, axes, later)
    return reduce_sum_p.bind1(operand, axes=axes)


def _summed_later(operand: Any, axes: tuple[int, ...], later: frozenset[str]) -> Any:
    """The sum, unreduced along those of the mesh axes `later` that the operand is unreduced along, or cut along what is summed."""
    spread = aval_of(operand).spread
    names = later.intersection(name for axis in axes for name in spread.parts[axis])
    known = spread.unreduced & later
    if not known:
        operand = resharding.reshard_to(operand, spread.replace(unreduced=frozenset()))
        if not names:
            return reduce_sum_p.bind1(operand, axes=axes)
        now = tuple([axis for axis in axes if spread.parts[axis] and not later.intersection(spread.parts[axis])])
        if now:  # along these the sum is taken
            operand = reduce_sum_p.bind1(operand, axes=now)
            axes = tuple([axis - sum(n < axis for n in now) for axis in axes if axis not in now])
        spread = aval_of(operand).spread
        own = [
            tuple([n for n in part if i not in axes or n in later]) for i, part in enumerate(spread.parts)
        ]  # an axis that is cut along others, too
        return reduce_sum_terms_p.bind1(resharding.reshard_to(operand, spread.replace(own)), axes=axes)
    total = reduce_sum_p.bind1(resharding.reshard_to(operand, spread.replace(unreduced=known)), axes=axes)
    if names:  # of terms along some axes none are made along others: the sum is taken first
        whole = aval_of(total).spread.replace(unreduced=frozenset())
        total = resharding.reshard_to(resharding.reshard_to(total, whole), whole.replace(unreduced=known | names))
    return total


def reduce_prod(operand: Any, axes: Sequence[int]) -> Any:
    """Product of a numeric array over `axes`."""
    return reduce_prod_p.bind1(operand, axes=normalized(axes))


def reduce_max(operand: Any, axes: Sequence[int]) -> Any:
    """Maximum over `axes`; NaN if there is one; complex numbers compare lexicographically."""
    return reduce_max_p.bind1(operand, axes=normalized(axes))


def reduce_min(operand: Any, axes: Sequence[int]) -> Any:
    """Minimum over `axes`; NaN if there is one; complex numbers compare lexicographically."""
    return reduce_min_p.bind1(operand, axes=normalized(axes))


def reduce_and(operand: Any, axes: Sequence[int]) -> Any:
    """Bitwise and of booleans or integers over `axes`."""
    return reduce_and_p.bind1(operand, axes=normalized(axes))


def reduce_or(operand: Any, axes: Sequence[int]) -> Any:
    """Bitwise or of booleans or integers over `axes`."""
    return reduce_or_p.bind1(operand, axes=normalized(axes))


def reduce_xor(operand: Any, axes: Sequence[int]) -> Any:
    """Bitwise exclusive or of booleans or integers over `axes`."""
    return reduce_xor_p.bind1(operand, axes=normalized(axes))


def argmax(operand: Any, axis: int, index_dtype: Any) -> Any:
    """Position (`index_dtype`) of the first maximum, or the first NaN, along `axis`.

    Parameters
    ----------
    operand : real[...] or bool[...]
    axis : int
        Not negative.
    index_dtype : integer dtype

    Returns
    -------
    index_dtype array without `axis`
    """
    return argmax_p.bind1(operand, axes=(operator.index(axis),), index_dtype=dtypes.named(index_dtype))


def argmin(operand: Any, axis: int, index_dtype: Any) -> Any:
    """Position (`index_dtype`) of the first minimum, or the first NaN, along `axis`.

    Parameters
    ----------
    operand : real[...] or bool[...]
    axis : int
        Not negative.
    index_dtype : integer dtype

    Returns
    -------
    index_dtype array without `axis`
    """
    return argmin_p.bind1(operand, axes=(operator.index(axis),), index_dtype=dtypes.named(index_dtype))
