# SPDX-License-Identifier: Apache-2.0
"""Running reductions along an axis: sum, product, extrema, log-sum-exp.

Notes
-----
On CPU they are lowered to one loop that carries the running value. The loop steps over rows of a few *lanes*: neighbouring
elements of the axes behind, several of the axes before, or, for a long single line, the heads of equal pieces of it. XLA compiles
such a loop to a single function: 4 million float32 take 5 ms, a `reduce_window` of that size seconds.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from purax import dtypes, errors
from purax.core.aval import ShapedArray, array_aval
from purax.core.primitive import Primitive
from purax.core.trace import aval_of
from purax.primitives import cast, elementwise, joining, operands, reduction, shape
from purax.sharding import rules

__all__ = [
    "cumlogsumexp", "cumlogsumexp_p", "cummax", "cummax_p", "cummin", "cummin_p", "cumprod", "cumprod_p", "cumsum",
    "cumsum_p",
]  # fmt: skip

_LANES = 8
_LONG = 4096  # elements from which a line is worth cutting in pieces


class Cumulative(Primitive):
    """Running reduction along `axis`, from the end if `reverse`."""

    op: str  # StableHLO operation
    kind: str  # whose identity it is
    numpy_op: Any
    wide = True

    def spread(self, ins: Any, avals: Any, outs: Any, params: Any) -> Any:
        """As the operand."""
        if self.name != "cumsum":
            rules.refuse_sums(self.name, ins)
        return ins

    def infer(self, operand: ShapedArray, *, axis: int, reverse: bool) -> tuple[ShapedArray, ...]:
        """The operand's type."""
        reduction.check_axes(operand, (axis,))
        if not self.accepts(operand.dtype):
            raise errors.DTypeError(f"does not accept dtype {operand.dtype}")
        return (operand,)

    def accepts(self, dtype: Any) -> bool:
        """Which dtypes it takes."""
        return not dtypes.is_key(dtype) and (dtypes.is_inexact(dtype) or dtypes.is_integer(dtype))

    def exact(self, avals: Any, params: Any) -> bool:
        """Integers have one right answer."""
        return not dtypes.is_inexact(avals[0].dtype)

    def reference(self, operand: Any, *, axis: int, reverse: bool) -> tuple[np.ndarray, ...]:
        """NumPy's accumulation."""
        work = np.flip(operand, axis) if reverse else operand
        wide = reduction.host_accumulator(operand.dtype)
        out = self.numpy_op.accumulate(work.astype(wide), axis=axis, dtype=wide) if operand.shape[axis] else work
        return (np.ascontiguousarray(np.flip(out, axis) if reverse else out).astype(operand.dtype),)

    def batch(self, axis_: Any, operands: Any, dims: Any, *, axis: int, reverse: bool) -> Any:
        """The same along the shifted axis."""
        (dim,) = dims
        return self.bind(*operands, axis=axis + (axis >= dim), reverse=reverse), (dim,)

    def identity(self, dtype: Any) -> Any:
        """Value that the reduction starts from."""
        return reduction.identity_of(self.kind, dtype)

    def combine(self, b: Any, x: Any, y: Any) -> Any:
        """Emit the operation on two values of one type."""
        return b.emit(f"stablehlo.{self.op} {x}, {y} : {x.hlo}", x.aval)

    def lower(self, b: Any, ins: Any, outs: Any, *, axis: int, reverse: bool) -> list[Any]:
        """A loop over rows of lanes; a `reduce_window` elsewhere than on CPU, where XLA has kernels for it."""
        (x,), (out,) = ins, outs
        if out.size == 0 or out.shape[axis] == 1:
            return [x]
        x = b.convert(x, reduction.accumulator(x.dtype))
        if getattr(b.module, "platform", "cpu") != "cpu":
            return [b.convert(self._by_window(b, x, axis, reverse), out.dtype)]
        before, length, behind = math.prod(out.shape[:axis]), out.shape[axis], math.prod(out.shape[axis + 1 :])
        if before == behind == 1 and length >= _LONG:
            return [b.reshape(b.convert(self._by_pieces(b, x, reverse), out.dtype), out.shape)]
        lanes = max(d for d in range(1, _LANES + 1) if before % d == 0 and (d == 1 or d * behind <= 2 * _LANES))
        view = b.reshape(x, (before // lanes, lanes, length, behind))
        return [b.reshape(b.convert(self._loop(b, view, reverse)[0], out.dtype), out.shape)]

    def _by_pieces(self, b: Any, x: Any, reverse: bool) -> Any:
        """One long line: run over equal pieces side by side, then add to each what the pieces before it give."""
        size = x.aval.size
        padded = -(-size // _LANES) * _LANES
        scalar = array_aval((), x.dtype)
        x = b.reshape(x, (size,))
        identity = b.constant(self.identity(x.dtype), scalar)
        if padded != size:
            low, high = (padded - size, 0) if reverse else (0, padded - size)
            aval = array_aval((padded,), x.dtype)
            x = b.emit(
                f"stablehlo.pad {x}, {identity}, low = [{low}], high = [{high}], interior = [0] : ({x.hlo}, {scalar.hlo}) -> {aval.hlo}",
                aval,
            )
        length = padded // _LANES
        runs, totals = self._loop(b, b.reshape(x, (1, _LANES, length, 1)), reverse)
        totals = b.reshape(totals, (_LANES,))
        edge = (-1, _LANES) if reverse else (_LANES, -1)
        earlier = self._window(b, totals, identity, (_LANES,), (edge,))
        earlier = b.broadcast(earlier, (1,), runs.aval)
        whole = b.reshape(self.combine(b, earlier, runs), (padded,))
        if padded != size:
            start = padded - size if reverse else 0
            aval = array_aval((size,), x.dtype)
            whole = b.emit(f"stablehlo.slice {whole} [{start}:{start + size}] : ({whole.hlo}) -> {aval.hlo}", aval)
        return whole

    def _window(self, b: Any, x: Any, identity: Any, sizes: Any, padding: Any) -> Any:
        scalar = identity.aval
        region = b.block([scalar, scalar], lambda inner, p, q: [self.combine(inner, p, q)])
        pads = ", ".join(f"[{low}, {high}]" for low, high in padding)
        return b.emit(
            f'"stablehlo.reduce_window"({x}, {identity}) ({region}) {{window_dimensions = array<i64: {", ".join(map(str, sizes))}>, '
            f"padding = dense<[{pads}]> : tensor<{len(sizes)}x2xi64>}} : ({x.hlo}, {scalar.hlo}) -> {x.hlo}", x.aval,
        )  # fmt: skip

    def _by_window(self, b: Any, x: Any, axis: int, reverse: bool) -> Any:
        identity = b.constant(self.identity(x.dtype), array_aval((), x.dtype))
        length = x.shape[axis]
        sizes, padding = [1] * len(x.shape), [(0, 0)] * len(x.shape)
        sizes[axis], padding[axis] = length, (0, length - 1) if reverse else (length - 1, 0)
        return self._window(b, x, identity, sizes, padding)

    def _loop(self, b: Any, x: Any, reverse: bool) -> tuple[Any, Any]:
        """Run along axis 2 of `x` (groups, lanes, length, behind), beginning anew for each group; also the last running values."""
        groups, lanes, length, behind = x.shape
        index = array_aval((), np.dtype(np.int32))
        row = array_aval((1, lanes, 1, behind), x.dtype)
        flag = array_aval((), np.dtype(np.bool_))
        zero, one = b.constant(0, index), b.constant(1, index)
        end, last = b.constant(length, index), b.constant(length - 1, index)
        start = b.constant(self.identity(x.dtype), row)
        rows = b.constant(groups, index)
        into = b.broadcast(b.constant(0, array_aval((), x.dtype)), (), x.aval)
        state = [index, index, row, x.aval, x.aval]

        def emit_flag(inner: Any, comparison: str, p: Any, q: Any) -> Any:
            return inner.emit(f"stablehlo.compare {comparison}, {p}, {q} : ({p.hlo}, {q.hlo}) -> {flag.hlo}", flag)

        def condition(inner: Any, group: Any, step: Any, run: Any, source: Any, target: Any) -> list[Any]:
            return [emit_flag(inner, "LT", group, rows)]

        def body(inner: Any, group: Any, step: Any, run: Any, source: Any, target: Any) -> list[Any]:
            place = inner.emit(f"stablehlo.subtract {last}, {step} : {index.hlo}", index) if reverse else step
            where = f"{group}, {zero}, {place}, {zero}"
            types = ", ".join([index.hlo] * 4)
            element = inner.emit(
                f"stablehlo.dynamic_slice {source}, {where}, sizes = [1, {lanes}, 1, {behind}] : ({source.hlo}, {types}) -> {row.hlo}",
                row,
            )
            run = self.combine(inner, element, run) if reverse else self.combine(inner, run, element)
            target = inner.emit(
                f"stablehlo.dynamic_update_slice {target}, {run}, {where} : ({target.hlo}, {row.hlo}, {types}) -> {target.hlo}",
                x.aval,
            )
            step = inner.emit(f"stablehlo.add {step}, {one} : {index.hlo}", index)
            if groups == 1:
                done = emit_flag(inner, "GE", step, end)
                group = inner.emit(f"stablehlo.select {done}, {one}, {zero} : {flag.hlo}, {index.hlo}", index)
                return [group, step, run, source, target]
            done = emit_flag(inner, "EQ", step, end)
            following = inner.emit(f"stablehlo.add {group}, {one} : {index.hlo}", index)
            group = inner.emit(f"stablehlo.select {done}, {following}, {group} : {flag.hlo}, {index.hlo}", index)
            step = inner.emit(f"stablehlo.select {done}, {zero}, {step} : {flag.hlo}, {index.hlo}", index)
            run = inner.emit(f"stablehlo.select {done}, {start}, {run} : {flag.hlo}, {row.hlo}", row)
            return [group, step, run, source, target]

        regions = f"{b.block(state, condition)}, {b.block(state, body)}"
        types = ", ".join(s.hlo for s in state)
        found = b.emit_many(
            f'"stablehlo.while"({zero}, {zero}, {start}, {x}, {into}) ({regions}) : ({types}) -> ({types})', state
        )
        return found[4], found[2]


def doubling(combine: Any, leaves: Any, identities: Any, axis: int, reverse: bool) -> list[Any]:
    """Running reduction of tuples by doubling steps, made of differentiable operations: the tangents of the primitives below.

    Parameters
    ----------
    combine : callable
        `(earlier leaves, later leaves) -> leaves`, associative.
    leaves, identities : sequences
        Arrays of one shape, and the scalars that stand before the first element.
    """
    leaves = list(leaves)
    aval = aval_of(leaves[0])
    step = 1
    while step < aval.shape[axis]:
        config = [(0, 0, 0)] * aval.ndim
        config[axis] = (-step, step, 0) if reverse else (step, -step, 0)
        earlier = [
            joining.pad(leaf, operands.scalar(identity, aval_of(leaf).dtype), config)
            for leaf, identity in zip(leaves, identities, strict=True)
        ]
        leaves = list(combine(earlier, leaves))
        step *= 2
    return leaves


# --- the primitives -----------------------------------------------------------------------------------------------------------


class CumSum(Cumulative):
    """Running sum; linear."""

    op, kind, numpy_op = "add", "add", np.add

    def jvp(self, primals: Any, tangents: Any, *, axis: int, reverse: bool) -> Any:
        """The running sum of the tangent."""
        (t,) = tangents
        return self.bind(*primals, axis=axis, reverse=reverse), (
            None if t is None else self.bind1(t, axis=axis, reverse=reverse),
        )

    def transpose(self, cotangents: Any, operands: Any, *, axis: int, reverse: bool) -> Any:
        """The running sum from the other end."""
        (ct,) = cotangents
        return (None if ct is None else self.bind1(ct, axis=axis, reverse=not reverse),)


class PairTangent(Cumulative):
    """Families whose tangent is a running reduction of tuples (value, tangent, ...)."""

    def pairs(self, x: Any, t: Any) -> Any:
        """(combine, leaves, identities, finish): the reduction, and its result as a tangent."""
        raise NotImplementedError

    def jvp(self, primals: Any, tangents: Any, *, axis: int, reverse: bool) -> Any:
        """The tuples' running reduction by doubling steps."""
        (x,), (t,) = primals, tangents
        outs = self.bind(x, axis=axis, reverse=reverse)
        if t is None:
            return outs, (None,)
        dtype = aval_of(x).dtype
        wide = reduction.accumulator(dtype)
        combine, leaves, identities, finish = self.pairs(
            cast.convert_element_type(x, wide), cast.convert_element_type(t, wide)
        )
        return outs, (cast.convert_element_type(finish(doubling(combine, leaves, identities, axis, reverse)), dtype),)


class CumProd(PairTangent):
    """Running product; the tangent is right at zeros, in any order."""

    op, kind, numpy_op = "multiply", "multiply", np.multiply

    def pairs(self, x: Any, t: Any) -> Any:
        """d(pq) = p dq + q dp."""

        def combine(early: Any, late: Any) -> Any:
            (p, dp), (q, dq) = early, late
            return elementwise.mul(p, q), elementwise.add(elementwise.mul(p, dq), elementwise.mul(dp, q))

        return combine, (x, t), (1, 0), lambda found: found[1]


class CumExtremum(PairTangent):
    """Running maximum or minimum; ties share the tangent equally."""

    def accepts(self, dtype: Any) -> bool:
        """Real numbers and booleans."""
        return not dtypes.is_key(dtype) and not dtypes.is_complex(dtype)

    def pairs(self, x: Any, t: Any) -> Any:
        """(extremum, sum of the tangents of those that attain it, their number)."""
        beats = elementwise.gt if self.op == "maximum" else elementwise.lt

        def combine(early: Any, late: Any) -> Any:
            (p, dp, np_), (q, dq, nq) = early, late
            p_wins = elementwise.bitwise_or(beats(p, q), elementwise.ne(p, p))
            q_wins = elementwise.bitwise_and(
                elementwise.bitwise_not(p_wins), elementwise.bitwise_or(beats(q, p), elementwise.ne(q, q))
            )

            def choose(first: Any, second: Any, both: Any) -> Any:
                return elementwise.select(p_wins, first, elementwise.select(q_wins, second, both))

            return (
                elementwise.select(q_wins, q, p),
                choose(dp, dq, elementwise.add(dp, dq)),
                choose(np_, nq, elementwise.add(np_, nq)),
            )

        identities = (self.identity(aval_of(x).dtype), 0, 0)
        return combine, (x, t, shape.full_like(t, 1)), identities, lambda found: elementwise.div(found[1], found[2])


class CumMax(CumExtremum):
    """Running maximum."""

    op, kind, numpy_op = "maximum", "maximum", np.maximum


class CumMin(CumExtremum):
    """Running minimum."""

    op, kind, numpy_op = "minimum", "minimum", np.minimum


class CumLogSumExp(PairTangent):
    """Running log of the sum of exponentials."""

    op, kind, numpy_op = "", "maximum", np.logaddexp

    def accepts(self, dtype: Any) -> bool:
        """Real floats."""
        return not dtypes.is_key(dtype) and dtypes.is_float(dtype)

    def identity(self, dtype: Any) -> Any:
        """The log of zero."""
        return np.dtype(dtype).type(-np.inf)

    def combine(self, b: Any, x: Any, y: Any) -> Any:
        """log(e^x + e^y)."""
        return b.inline(_log_add, [x, y])[0]

    def pairs(self, x: Any, t: Any) -> Any:
        """Means of the tangents, weighted by the exponentials."""

        def combine(early: Any, late: Any) -> Any:
            (p, dp), (q, dq) = early, late
            top = _finite(elementwise.max(p, q))
            left, right = elementwise.exp(elementwise.sub(p, top)), elementwise.exp(elementwise.sub(q, top))
            both = elementwise.add(left, right)
            total = elementwise.add(
                top, elementwise.log(both)
            )  # the derivative by `top` is zero in any order, ties included
            some = elementwise.select(elementwise.eq(both, shape.full_like(both, 0)), shape.full_like(both, 1), both)
            left, right = elementwise.div(left, some), elementwise.div(right, some)
            return total, elementwise.add(elementwise.strong_mul(dp, left), elementwise.strong_mul(dq, right))

        return combine, (x, t), (-np.inf, 0), lambda found: found[1]


def _finite(x: Any) -> Any:
    """`x`, zeros where it is infinite."""
    return elementwise.select(elementwise.is_finite(x), x, shape.full_like(x, 0))


def _log_add(x: Any, y: Any) -> Any:
    """log(e^x + e^y) of two floats."""
    top, low = elementwise.max(x, y), elementwise.min(x, y)
    total = elementwise.add(top, elementwise.log1p(elementwise.exp(elementwise.sub(low, top))))
    return elementwise.select(elementwise.eq(top, low), elementwise.add(top, shape.full_like(top, np.log(2.0))), total)


cumsum_p = CumSum("cumsum")
cumprod_p = CumProd("cumprod")
cummax_p = CumMax("cummax")
cummin_p = CumMin("cummin")
cumlogsumexp_p = CumLogSumExp("cumlogsumexp")


# --- functions ----------------------------------------------------------------------------------------------------------------


def _run(primitive: Any, operand: Any, axis: int, reverse: bool) -> Any:
    return primitive.bind1(
        operand, axis=operands.canonical_axis(operator.index(axis), aval_of(operand).ndim), reverse=bool(reverse)
    )


def cumsum(operand: Any, axis: int = 0, reverse: bool = False) -> Any:
    """Running sum along `axis`, from the end if `reverse`; of the operand's shape and dtype.

    Parameters
    ----------
    operand : array[...]
    axis : int
    reverse : bool

    Returns
    -------
    array like the operand
    """
    return _run(cumsum_p, operand, axis, reverse)


def cumprod(operand: Any, axis: int = 0, reverse: bool = False) -> Any:
    """Running product along `axis`, from the end if `reverse`.

    Parameters
    ----------
    operand : array[...]
    axis : int
    reverse : bool

    Returns
    -------
    array like the operand
    """
    return _run(cumprod_p, operand, axis, reverse)


def cummax(operand: Any, axis: int = 0, reverse: bool = False) -> Any:
    """Running maximum along `axis`, from the end if `reverse`; NaN from the first NaN on.

    Parameters
    ----------
    operand : array[...]
    axis : int
    reverse : bool

    Returns
    -------
    array like the operand
    """
    return _run(cummax_p, operand, axis, reverse)


def cummin(operand: Any, axis: int = 0, reverse: bool = False) -> Any:
    """Running minimum along `axis`, from the end if `reverse`; NaN from the first NaN on.

    Parameters
    ----------
    operand : array[...]
    axis : int
    reverse : bool

    Returns
    -------
    array like the operand
    """
    return _run(cummin_p, operand, axis, reverse)


def cumlogsumexp(operand: Any, axis: int = 0, reverse: bool = False) -> Any:
    """Running log of the sum of exponentials of floats along `axis`, from the end if `reverse`.

    Parameters
    ----------
    operand : float[...]
    axis : int
    reverse : bool

    Returns
    -------
    array like the operand
    """
    return _run(cumlogsumexp_p, operand, axis, reverse)
