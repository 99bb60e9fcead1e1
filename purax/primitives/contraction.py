# SPDX-License-Identifier: Apache-2.0
"""Products of arrays summed over shared axes: `dot_general` and the functions built on it.

Parameters
----------
out_sharding : optional
    Without effect; `with_sharding_constraint` lays results out.

Notes
-----
Gradients are kept in *natural form*: of the two orders of operands that give a cotangent, the one whose result lies in memory as
the operand does. For a dense layer `y = x @ w` they are `dw = dot(x, g)` over the rows and `dx = dot(g, w)` over the columns of
both: no transposed copy of an activation is written. The lowering also merges neighbouring axes, so that the backend
meets matrices.
"""

from __future__ import annotations

import enum
import itertools
import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from purax import dtypes, errors
from purax.config import config
from purax.contexts import numpy_dtype_promotion
from purax.core.aval import ShapedArray, array_aval
from purax.core.primitive import Primitive
from purax.core.trace import aval_of
from purax.primitives import base, dot_algorithm, elementwise, reduction, resharding, shape
from purax.sharding import rules

__all__ = [
    "DotDimensionNumbers", "Precision", "PrecisionLike", "batch_matmul", "dot", "dot_general", "dot_general_p",
]  # fmt: skip


DotDimensionNumbers = tuple[tuple[Sequence[int], Sequence[int]], tuple[Sequence[int], Sequence[int]]]


class Precision(enum.Enum):
    """How a product of float32 arrays may be computed on devices with cheaper, narrower units."""

    DEFAULT = 0
    HIGH = 1
    HIGHEST = 2

    def __repr__(self) -> str:
        return f"Precision.{self.name}"

    __str__ = __repr__


_PRECISIONS = {
    "default": Precision.DEFAULT, "fastest": Precision.DEFAULT, "bfloat16": Precision.DEFAULT,
    "high": Precision.HIGH, "tensorfloat32": Precision.HIGH, "bfloat16_3x": Precision.HIGH,
    "highest": Precision.HIGHEST, "float32": Precision.HIGHEST,
}  # fmt: skip


PrecisionLike = str | Precision | tuple[str, str] | tuple[Precision, Precision] | None


def canonical_precision(precision: Any) -> tuple[Precision, Precision] | None:
    """A precision as users write it (None, a name, a member, a pair of these) as a pair, or None for the default.

    Raises
    ------
    ValueError
        An unknown name or type.
    """
    if precision is None:
        precision = config.default_matmul_precision
        if precision is None:
            return None
    pair = tuple(precision) if isinstance(precision, (tuple, list)) else (precision, precision)
    if len(pair) != 2:
        raise ValueError(f"precision must be one value or a pair, got {precision!r}")
    found = []
    for one in pair:
        member = _PRECISIONS.get(one.lower()) if isinstance(one, str) else Precision.DEFAULT if one is None else one
        if not isinstance(member, Precision):
            raise ValueError(f"unknown precision {one!r}; use one of {', '.join(_PRECISIONS)} or a Precision")
        found.append(member)
    return found[0], found[1]


def precision_text(precision: Any) -> str:
    """The names inside StableHLO's list of precisions."""
    left, right = precision or (Precision.DEFAULT, Precision.DEFAULT)
    return f"{left.name}, {right.name}"


def _common(a: Any, b: Any) -> Any:
    """The dtype in which both are computed, also where promotion of user operands is strict."""
    with numpy_dtype_promotion("standard"):
        return np.dtype(dtypes.promote_types(a, b))


def result_dtype(lhs: Any, rhs: Any, preferred: Any) -> Any:
    """Dtype of a product: `preferred`, or the operands' common dtype."""
    if preferred is not None:
        return np.dtype(preferred)
    return lhs if lhs == rhs else _common(lhs, rhs)


def _holding(a: Any, b: Any) -> Any:
    """A dtype that products of `a` and `b` are computed in.

    Floats of 8 bits, which have no common dtype with others, meet them where the caller names the dtype of the result, and in the
    cotangents of such products.
    """
    if a == b:
        return a
    if dtypes.is_float(a) and dtypes.is_float(b) and 1 in (a.itemsize, b.itemsize):
        wider = a if a.itemsize > b.itemsize else b
        return wider if wider.itemsize > 1 else np.dtype(np.float32)
    return _common(a, b)


def compute_dtypes(lhs: Any, rhs: Any, out: Any) -> tuple[Any, Any]:
    """(dtype of the operands, dtype of the sum) of a product: narrow floats are summed in float32."""
    operand = _holding(lhs, rhs)
    if dtypes.is_bool(operand) and not dtypes.is_bool(out):
        operand = out
    total = dtypes.whole_bytes(reduction.accumulator(_holding(operand, out)))
    operand = dtypes.whole_bytes(operand)
    narrow = dtypes.is_float(operand) and dtypes.is_float(total) and total.itemsize == 4
    return (operand if narrow else total), total


# --- the primitive ------------------------------------------------------------------------------------------------------------


def _kept(ndim: int, contracting: Sequence[int], batch: Sequence[int]) -> tuple[int, ...]:
    return tuple(d for d in range(ndim) if d not in contracting and d not in batch)


def _check_dims(side: str, aval: ShapedArray, contracting: Sequence[int], batch: Sequence[int]) -> None:
    dims = (*contracting, *batch)
    if any(not 0 <= d < aval.ndim for d in dims):
        raise errors.ShapeError(
            f"contracting {contracting} and batch {batch} axes of the {side} are not all among its {aval.ndim} axes"
        )
    if len(set(dims)) != len(dims):
        raise errors.ShapeError(
            f"an axis of the {side} stands twice among contracting {contracting} and batch {batch} axes"
        )


class DotGeneral(Primitive):
    """Sum of products over contracting axes, for each index of the batch axes.

    `dimension_numbers` is `((lhs contracting, rhs contracting), (lhs batch, rhs batch))`; the result has the batch axes, then
    what is left of `lhs`, then what is left of `rhs`.
    """

    def spread(self, ins: Any, avals: Any, outs: Any, params: Any) -> Any:
        """Batch axes, then the free axes of both operands."""
        rules.refuse_sums(self.name, ins)
        return [rules.contracted(ins, params["dimension_numbers"])]

    def infer(
        self, lhs: ShapedArray, rhs: ShapedArray, *, dimension_numbers: Any, precision: Any, preferred_element_type: Any
    ) -> tuple[ShapedArray, ...]:
        """Type of the result."""
        (lc, rc), (lb, rb) = dimension_numbers
        if any(isinstance(a.dtype, dtypes.KeyDtype) for a in (lhs, rhs)):
            raise errors.DTypeError("does not accept random keys")
        if len(lc) != len(rc) or len(lb) != len(rb):
            raise errors.ShapeError(
                f"the operands name different numbers of contracting ({lc}, {rc}) or batch ({lb}, {rb}) axes"
            )
        _check_dims("left operand", lhs, lc, lb)
        _check_dims("right operand", rhs, rc, rb)
        for what, left, right in (("contracting", lc, rc), ("batch", lb, rb)):
            sizes = tuple(lhs.shape[d] for d in left), tuple(rhs.shape[d] for d in right)
            if sizes[0] != sizes[1]:
                raise errors.ShapeError(
                    f"{what} axes must have equal sizes: axes {left} of the left operand are {sizes[0]}, axes {right} of the right {sizes[1]}"
                )
        out = tuple(lhs.shape[d] for d in (*lb, *_kept(lhs.ndim, lc, lb)))
        out += tuple(rhs.shape[d] for d in _kept(rhs.ndim, rc, rb))
        weak = lhs.weak_type and rhs.weak_type and preferred_element_type is None
        return (array_aval(out, result_dtype(lhs.dtype, rhs.dtype, preferred_element_type), weak),)

    def reference(
        self, lhs: Any, rhs: Any, *, dimension_numbers: Any, precision: Any, preferred_element_type: Any
    ) -> tuple[np.ndarray, ...]:
        """NumPy's matmul of the operands brought to batches of matrices."""
        (lc, rc), (lb, rb) = dimension_numbers
        out = result_dtype(lhs.dtype, rhs.dtype, preferred_element_type)
        lk, rk = _kept(lhs.ndim, lc, lb), _kept(rhs.ndim, rc, rb)
        batch = tuple(lhs.shape[d] for d in lb)
        inner = math.prod(lhs.shape[d] for d in lc)
        rows, columns = tuple(lhs.shape[d] for d in lk), tuple(rhs.shape[d] for d in rk)
        total = compute_dtypes(lhs.dtype, rhs.dtype, out)[1]
        left = lhs.transpose(*lb, *lk, *lc).reshape(*batch, math.prod(rows), inner).astype(total)
        right = rhs.transpose(*rb, *rc, *rk).reshape(*batch, inner, math.prod(columns)).astype(total)
        return (np.matmul(left, right).reshape((*batch, *rows, *columns)).astype(out),)

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> Any:
        """d(l r) = dl r + l dr."""
        (lhs, rhs), (dl, dr) = primals, tangents
        left = None if dl is None else self.bind1(dl, rhs, **params)
        right = None if dr is None else self.bind1(lhs, dr, **params)
        return self.bind(lhs, rhs, **params), (base.add_tangents(left, right),)

    def transpose(
        self, cotangents: Any, operands: Any, *, dimension_numbers: Any, precision: Any, preferred_element_type: Any
    ) -> Any:
        """The product of the cotangent with the other operand, in natural form."""
        return self._transposed(self, cotangents, operands, dimension_numbers, precision)

    def transpose_terms(self, cotangents: Any, operands: Any, **params: Any) -> Any:
        """The same, where the sums over devices that it takes are left open."""
        return self._transposed(
            dot_general_terms_p, cotangents, operands, params["dimension_numbers"], params["precision"]
        )

    def _transposed(self, product: Any, cotangents: Any, operands: Any, dimension_numbers: Any, precision: Any) -> Any:
        (ct,), (lhs, rhs) = cotangents, operands
        if ct is None:
            return None, None
        (lc, rc), (lb, rb) = dimension_numbers
        if base.is_linear(lhs):
            rows = len(_kept(lhs.aval.ndim, lc, lb))
            return self._cotangent(product, ct, lhs.aval, rhs, (lc, lb), (rc, rb), len(lb) + rows, precision), None
        columns = len(_kept(rhs.aval.ndim, rc, rb))
        first = len(lb) + len(_kept(aval_of(lhs).ndim, lc, lb))
        flipped = None if precision is None else (precision[1], precision[0])
        return None, self._cotangent(product, ct, rhs.aval, lhs, (rc, rb), (lc, lb), first, flipped, columns)

    def _cotangent(
        self,
        product: Any,
        ct: Any,
        aval: ShapedArray,
        other: Any,
        own_dims: Any,
        other_dims: Any,
        split: int,
        precision: Any,
        tail: int | None = None,
    ) -> Any:
        """Cotangent of the operand of type `aval`, whose partner in the product is `other`.

        `split` is the axis of `ct` at which the axes of the right operand begin; `tail`, given for the right operand, is their number.
        """
        (contracting, batch), (other_contracting, other_batch) = own_dims, other_dims
        other_kept = _kept(aval_of(other).ndim, other_contracting, other_batch)
        batch_axes = tuple(range(len(batch)))
        if tail is None:
            ct_other = tuple(range(split, aval_of(ct).ndim))
        else:
            ct_other = tuple(range(len(batch), split))
        kept = _kept(aval.ndim, contracting, batch)
        inner = tuple(
            sorted(range(len(contracting)), key=lambda i: other_contracting[i])
        )  # order in which `other` keeps them
        by_other = tuple(contracting[i] for i in inner)
        dtype = aval.dtype
        wanted = aval_of(ct).dtype if dtypes.is_complex(aval_of(ct).dtype) and not dtypes.is_complex(dtype) else dtype
        params = {"precision": precision, "preferred_element_type": wanted}
        # Where both orders are in place (vectors), the cotangent goes first: so does its mapped axis then.
        if kept and (*batch, *by_other, *kept) == tuple(range(aval.ndim)):
            flipped = None if precision is None else (precision[1], precision[0])
            params["precision"] = flipped
            result = product.bind1(
                other, ct, dimension_numbers=((other_kept, ct_other), (other_batch, batch_axes)), **params
            )
            order: tuple[int, ...] = (*batch, *by_other, *kept)
        else:
            result = product.bind1(
                ct, other, dimension_numbers=((ct_other, other_kept), (batch_axes, other_batch)), **params
            )
            order = (*batch, *kept, *by_other)
        if order != tuple(range(aval.ndim)):
            result = shape.transpose(result, tuple(int(i) for i in np.argsort(order)))
        return elementwise.real(result) if wanted != dtype else result

    def batch(self, axis: Any, operands: Any, dims: Any, *, dimension_numbers: Any, **params: Any) -> Any:
        """A batch axis of one operand is one more kept axis; of both, one more batch axis."""
        (lhs, rhs), (ld, rd) = operands, dims
        (lc, rc), (lb, rb) = dimension_numbers
        if ld is not None:
            lc, lb = reduction.shifted(lc, ld), reduction.shifted(lb, ld)
        if rd is not None:
            rc, rb = reduction.shifted(rc, rd), reduction.shifted(rb, rd)
        lk = _kept(aval_of(lhs).ndim, lc, lb)
        if ld is not None and rd is not None:
            lb, rb, out = (ld, *lb), (rd, *rb), 0
        elif ld is not None:
            out = len(lb) + lk.index(ld)
        else:
            out = len(lb) + len(lk) + _kept(aval_of(rhs).ndim, rc, rb).index(rd)
        return self.bind(lhs, rhs, dimension_numbers=((lc, rc), (lb, rb)), **params), (out,)

    def lower(
        self, b: Any, ins: Any, outs: Any, *, dimension_numbers: Any, precision: Any, preferred_element_type: Any
    ) -> list[Any]:
        """`stablehlo.dot_general` on merged axes."""
        (lhs, rhs), (out,) = ins, outs
        (lc, rc), (lb, rb) = dimension_numbers
        if dtypes.is_bool(out.dtype) and dtypes.is_bool(lhs.dtype) and dtypes.is_bool(rhs.dtype):
            count = np.dtype(np.int32)
            counts = self.lower(
                b, [b.convert(lhs, count), b.convert(rhs, count)], [out.update(dtype=count)],
                dimension_numbers=dimension_numbers, precision=precision, preferred_element_type=None,
            )  # fmt: skip
            return [b.convert(counts[0], out.dtype)]
        operand, total = compute_dtypes(lhs.dtype, rhs.dtype, out.dtype)
        lhs, rhs = b.convert(lhs, operand), b.convert(rhs, operand)
        lhs, rhs, (lc, rc), (lb, rb) = merge_axes(b, lhs, rhs, (lc, rc), (lb, rb))
        sizes = [lhs.shape[d] for d in (*lb, *_kept(len(lhs.shape), lc, lb))] + [
            rhs.shape[d] for d in _kept(len(rhs.shape), rc, rb)
        ]
        aval = array_aval(tuple(sizes), total)
        batching = f"batching_dims = {list(lb)} x {list(rb)}, " if lb else ""
        text = (
            f"stablehlo.dot_general {lhs}, {rhs}, {batching}contracting_dims = {list(lc)} x {list(rc)}, "
            f"precision = [{precision_text(precision)}] : ({lhs.hlo}, {rhs.hlo}) -> {aval.hlo}"
        )
        return [b.reshape(b.convert(b.emit(text, aval), out.dtype), out.shape)]


class DotGeneralTerms(DotGeneral):
    """The same, unreduced along the mesh axes that the contracted axes of both operands are cut along."""

    terms = True

    def spread(self, ins: Any, avals: Any, outs: Any, params: Any) -> Any:
        """As of the product; along the mesh axes of contracted axes each device has a term of the sum."""
        rules.refuse_sums(self.name, ins)
        (lc, rc), _ = params["dimension_numbers"]
        left, right = ins
        cut = [left.parts[i] for i in lc]
        if cut != [right.parts[i] for i in rc]:
            raise errors.ShardingTypeError(f"contracted axes must be cut alike, got {left.spec} and {right.spec}")
        plain = [
            s.replace([() if i in axes else part for i, part in enumerate(s.parts)])
            for s, axes in ((left, lc), (right, rc))
        ]
        names = frozenset(name for part in cut for name in part)
        return [rules.contracted(plain, params["dimension_numbers"]).replace(unreduced=names)]

    def transpose(self, cotangents: Any, operands: Any, **params: Any) -> Any:
        """That of the product: its cotangent is whole."""
        return dot_general_p.transpose(cotangents, operands, **params)


def merge_axes(b: Any, lhs: Any, rhs: Any, contracting: Any, batch: Any) -> Any:
    """Merge neighbouring axes that play the same part in both operands; returns the operands and their new numbers.

    In a program over several devices axes may be divided among them, and stay apart.
    """
    (lc, rc), (lb, rb) = contracting, batch
    if len(b.module.order) > 1 and b.module.manual is None:
        return lhs, rhs, contracting, batch
    order = sorted(range(len(lc)), key=lambda i: lc[i])
    lc, rc = tuple(lc[i] for i in order), tuple(rc[i] for i in order)
    if not (_adjacent(lc) and _adjacent(rc)):
        return lhs, rhs, (lc, rc), (lb, rb)
    if not (_adjacent(lb) and _adjacent(rb)):
        return lhs, rhs, (lc, rc), (lb, rb)
    lhs, lc, lb = _merge(b, lhs, lc, lb)
    rhs, rc, rb = _merge(b, rhs, rc, rb)
    return lhs, rhs, (lc, rc), (lb, rb)


def _adjacent(axes: Sequence[int]) -> bool:
    return all(q == p + 1 for p, q in itertools.pairwise(axes))


def _merge(b: Any, x: Any, contracting: Sequence[int], batch: Sequence[int]) -> Any:
    """Collapse each of the three groups of axes whose members are neighbours."""
    kept = _kept(len(x.shape), contracting, batch)
    groups = [g for g in (contracting, batch) if g] + ([kept] if _adjacent(kept) and kept else [(k,) for k in kept])
    groups.sort(key=lambda g: g[0])
    where = {g: i for i, g in enumerate(groups)}
    x = b.reshape(x, [math.prod(x.shape[d] for d in g) for g in groups])
    return x, (where[contracting],) if contracting else (), (where[batch],) if batch else ()


dot_general_p = DotGeneral("dot_general")
dot_general_terms_p = DotGeneralTerms("dot_general_terms")


# --- functions ----------------------------------------------------------------------------------------------------------------


def _ints(axes: Any) -> tuple[int, ...]:
    return tuple(operator.index(a) for a in axes)


def dot_general(
    lhs: Any,
    rhs: Any,
    dimension_numbers: Any,
    precision: Any = None,
    preferred_element_type: Any = None,
    *,
    out_sharding: Any = None,
) -> Any:
    """Sum of products over contracting axes, for each index of batch axes.

    See `purax.primitives.contraction` for the arguments that its functions share.

    Parameters
    ----------
    lhs, rhs : arrays
    dimension_numbers : ((lhs contracting, rhs contracting), (lhs batch, rhs batch))
        Sequences of axes.
    precision : None, str, Precision or a pair of these, DotAlgorithm, DotAlgorithmPreset or its name
    preferred_element_type : dtype, optional
        Dtype of the result (and of the accumulation, if wider); the operands' common dtype by default.

    Returns
    -------
    array
        Shape: batch axes, other axes of `lhs`, other axes of `rhs`.

    Raises
    ------
    ShapeError
        Axes out of bounds, repeated, or of different sizes.
    """
    if out_sharding is not None:
        return resharding.out_sharded(
            dot_general, out_sharding, lhs, rhs, dimension_numbers, precision, preferred_element_type
        )
    algorithm = dot_algorithm.named(config.default_matmul_precision if precision is None else precision)
    if algorithm is not None:
        return dot_algorithm.dot_general(lhs, rhs, dimension_numbers, algorithm, preferred_element_type)
    (lc, rc), (lb, rb) = dimension_numbers
    params = {
        "dimension_numbers": ((_ints(lc), _ints(rc)), (_ints(lb), _ints(rb))),
        "precision": canonical_precision(precision),
        "preferred_element_type": None if preferred_element_type is None else dtypes.named(preferred_element_type),
    }
    if resharding.summed_later.get():
        value = _summed_later(lhs, rhs, params)
        if value is not None:
            return value
    return dot_general_p.bind1(lhs, rhs, **params)


def _summed_later(lhs: Any, rhs: Any, params: dict[str, Any]) -> Any:
    """The product, unreduced along the mesh axes that the contracted axes of both operands are cut along; None where they are not."""
    (lc, rc), _ = params["dimension_numbers"]
    left, right = aval_of(lhs).spread, aval_of(rhs).spread
    if left is None or right is None:
        return None
    cut = [left.parts[i] for i in lc]
    if not any(cut) or cut != [right.parts[i] for i in rc]:
        return None
    return dot_general_terms_p.bind1(lhs, rhs, **params)


def dot(
    lhs: Any, rhs: Any, *, dimension_numbers: Any = None, precision: Any = None, preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Any:  # fmt: skip
    """Product of vectors and matrices, or `dot_general` when `dimension_numbers` are given.

    Without `dimension_numbers` both operands have one or two axes; the last of `lhs` meets the first of `rhs`.

    See `purax.primitives.contraction` for the arguments that its functions share.

    Parameters
    ----------
    lhs, rhs : arrays
    dimension_numbers, precision, preferred_element_type
        As in `dot_general`.

    Returns
    -------
    array

    Raises
    ------
    ShapeError
        Sizes that do not fit, or other ranks.
    """
    if dimension_numbers is None:
        left, right = aval_of(lhs), aval_of(rhs)
        if not (1 <= left.ndim <= 2 and 1 <= right.ndim <= 2 and left.shape[-1] == right.shape[0]):
            raise errors.ShapeError(
                f"dot takes vectors and matrices of fitting sizes, got shapes {left.shape} and {right.shape}"
            )
        dimension_numbers = (((left.ndim - 1,), (0,)), ((), ()))
    return dot_general(lhs, rhs, dimension_numbers, precision, preferred_element_type, out_sharding=out_sharding)


def batch_matmul(lhs: Any, rhs: Any, precision: Any = None) -> Any:
    """Matrix product over the last two axes, for each index of the leading axes (equal in both).

    Parameters
    ----------
    lhs : array[..., m, k]
    rhs : array[..., k, n]
    precision
        As in `dot_general`.

    Returns
    -------
    array[..., m, n]

    Raises
    ------
    ShapeError
        Ranks that differ or are below 2, or sizes that do not fit.
    """
    left, right = aval_of(lhs), aval_of(rhs)
    if left.ndim < 2 or right.ndim < 2 or left.ndim != right.ndim:
        raise errors.ShapeError(
            f"batch_matmul takes operands of equal rank, at least 2, got shapes {left.shape} and {right.shape}"
        )
    leading = tuple(range(left.ndim - 2))
    return dot_general(lhs, rhs, (((left.ndim - 1,), (left.ndim - 2,)), (leading, leading)), precision)
