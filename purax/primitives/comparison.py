# SPDX-License-Identifier: Apache-2.0
"""Comparisons, tests, and choices by them.

Parameters
----------
x, y : array[...]
    As the operands of `add`, or bool.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from purax import dtypes, errors
from purax.core.aval import array_aval
from purax.core.primitive import Primitive
from purax.core.trace import aval_of
from purax.primitives import base, elementwise, operands, shape
from purax.primitives.base import is_linear
from purax.primitives.family import ANY, FLOAT, HOST, INTEGER, ORDERED, Elementwise, Kinds, on
from purax.sharding import rules

__all__ = [
    "clamp", "clamp_p", "eq", "eq_p", "eq_to_p", "ge", "ge_p", "gt", "gt_p", "is_finite", "is_finite_p", "le", "le_p", "le_to_p",
    "lt", "lt_p", "lt_to_p", "ne", "ne_p", "nonzero_divisor", "nonzero_divisor_p", "select", "select_n", "select_n_p",
]  # fmt: skip


def _bool(dtype: Any) -> Any:
    return dtypes.bool_


def _lower_compare(direction: str, total: bool = False) -> Any:
    def lower(b: Any, ins: Any, outs: Any) -> list[Any]:
        (x, y), (out,) = ins, outs
        if dtypes.is_inexact(x.dtype):
            kind = "TOTALORDER" if total else "FLOAT"
        else:
            kind = "SIGNED" if dtypes.is_signed(x.dtype) else "UNSIGNED"
        return [b.emit(f"stablehlo.compare {direction}, {x}, {y}, {kind} : ({x.hlo}, {y.hlo}) -> {out.hlo}", out)]

    return lower


def _comparison(name: str, kinds: Any, direction: str, ufunc: Any) -> Elementwise:
    return Elementwise(
        name, (kinds, kinds), _lower_compare(direction), ufunc, None, None, result=_bool,
        exact=lambda avals, params: avals[0].dtype in HOST or dtypes.is_complex(avals[0].dtype), ufunc=ufunc,
    )  # fmt: skip


class _WithKeys(Kinds):
    """The dtypes given, and those of random keys, whose words `transforms/keys.py` compares."""

    def __contains__(self, dtype: object) -> bool:
        return isinstance(dtype, dtypes.KeyDtype) or super().__contains__(dtype)


eq_p = _comparison("eq", _WithKeys(ANY.words, ANY), "EQ", np.equal)
ne_p = _comparison("ne", _WithKeys(ANY.words, ANY), "NE", np.not_equal)
lt_p = _comparison("lt", ORDERED, "LT", np.less)
le_p = _comparison("le", ORDERED, "LE", np.less_equal)
gt_p = _comparison("gt", ORDERED, "GT", np.greater)
ge_p = _comparison("ge", ORDERED, "GE", np.greater_equal)


def _ranks(x: Any) -> Any:
    """Integers ordered as the floats are in the total order: -NaN < -inf < ... < -0 < +0 < ... < inf < NaN."""
    x = np.asarray(x)
    if not dtypes.is_float(x.dtype):
        return x
    bits = x.view(f"i{x.dtype.itemsize}")
    return np.where(bits < 0, bits ^ np.iinfo(bits.dtype).max, bits)


def _total(name: str, direction: str, compare: Any) -> Elementwise:
    return Elementwise(
        name, (ORDERED, ORDERED), _lower_compare(direction, True), lambda x, y: compare(_ranks(x), _ranks(y)), None, None,
        result=_bool, exact=on(HOST),
    )  # fmt: skip


eq_to_p = _total("eq_to", "EQ", np.equal)
lt_to_p = _total("lt_to", "LT", np.less)
le_to_p = _total("le_to", "LE", np.less_equal)
is_finite_p = Elementwise(
    "is_finite", FLOAT, "stablehlo.is_finite", np.isfinite, None, result=_bool, exact=on(HOST), ufunc=np.isfinite
)


def _one_for_zero(x: Any) -> Any:
    return np.where(np.asarray(x) == 0, np.ones((), x.dtype), x)


# A primitive of its own, so that checks of divisors see what integers are divided by.
nonzero_divisor_p = Elementwise(
    "nonzero_divisor", INTEGER,
    lambda b, ins, outs: b.inline(lambda x: select(eq(x, shape.full_like(x, 0)), shape.full_like(x, 1), x), ins),
    _one_for_zero, None, exact=on(HOST),
)  # fmt: skip


# --- choices --------------------------------------------------------------------------------------------------------


class SelectN(Primitive):
    """Element by element, the case whose number `which` gives; `which` is bool (two cases) or int32, scalar or of the cases' shape."""

    exact = True

    terms = True

    def spread(self, ins: Any, avals: Any, outs: Any, params: Any) -> Any:
        """The cases must lie in one way, and the condition too unless it is a scalar."""
        shapes = [a.shape for a in avals]
        plain = [s.replace(unreduced=frozenset(), reduced=frozenset()) for s in ins]
        cases = rules.joined(plain, shapes)
        return [cases.replace(unreduced=rules.one_sum(ins[1:]), reduced=rules.one_reduced(ins[1:]))]

    def infer(self, which: Any, *cases: Any) -> tuple[Any, ...]:
        """The aval of the cases."""
        if not cases:
            raise errors.ShapeError("needs at least one case")
        first = cases[0]
        for case in cases[1:]:
            if case.shape != first.shape:
                raise errors.ShapeError(f"cases have shapes {first.shape} and {case.shape}; they must be equal")
            if case.dtype is not first.dtype and case.dtype != first.dtype:
                raise errors.DTypeError(
                    f"cases have dtypes {operands.dtype_name(first)} and {operands.dtype_name(case)}; they must be equal"
                )
        if which.shape not in ((), first.shape):
            raise errors.ShapeError(
                f"which has shape {which.shape}; it must be a scalar or have the shape {first.shape} of the cases"
            )
        if which.dtype != np.bool_ and which.dtype != np.int32:
            raise errors.DTypeError(f"which has dtype {operands.dtype_name(which)}; it must be bool or int32")
        if which.dtype == np.bool_ and len(cases) > 2:
            raise errors.DTypeError(f"a bool which chooses between two cases, and there are {len(cases)}; use int32")
        varying = which.varying.union(*(c.varying for c in cases))
        return (array_aval(first.shape, first.dtype, all(c.weak_type for c in cases), varying),)

    def reference(self, which: Any, *cases: Any) -> tuple[Any, ...]:
        """numpy.where, case by case."""
        if len(cases) == 1:
            return (cases[0],)
        extra = np.ndim(cases[0]) - np.ndim(which)
        if np.ndim(which) and extra:  # keys have axes of their own behind
            which = np.reshape(which, (*np.shape(which), *(1,) * extra))
        if which.dtype == np.bool_:
            return (np.where(which, cases[1], cases[0]),)
        chosen = cases[-1]
        for number in range(len(cases) - 2, -1, -1):
            chosen = np.where(which <= number, cases[number], chosen)
        return (chosen,)

    def jvp(self, primals: Any, tangents: Any) -> Any:
        """The same choice among the tangents."""
        which, *cases = primals
        out = self.bind1(*primals)
        if all(t is None for t in tangents[1:]):
            return (out,), (None,)
        return (out,), (self.bind1(which, *map(base.instantiate, tangents[1:], cases)),)

    def transpose(self, cotangents: Any, values: Any) -> Any:
        """Each case gets the cotangent where it was chosen, zero elsewhere."""
        (ct,), (which, *cases) = cotangents, values
        if ct is None:
            return (None,) * len(values)
        zero = base.zeros_of(ct)

        def part(number: int) -> Any:
            return self.bind1(which, *[ct if number == i else zero for i in range(len(cases))])

        return (None, *[part(i) if is_linear(case) else None for i, case in enumerate(cases)])

    def batch(self, axis: Any, values: Any, dims: Any) -> Any:
        """On aligned operands; a scalar `which` that is mapped is spread over the cases' shape."""
        which, *cases = values
        which_dim, *case_dims = dims
        if aval_of(which).ndim == (which_dim is not None):  # a scalar choice
            if which_dim is None:
                cases, dim = operands.align(axis, cases, case_dims)
                return self.bind(which, *cases), (dim,)
            cases = [operands.to_front(axis, c, d) for c, d in zip(cases, case_dims, strict=True)]
            which = shape.broadcast_in_dim(which, aval_of(cases[0]).shape, (0,))
            return self.bind(which, *cases), (0,)
        aligned, dim = operands.align(axis, values, dims)
        return self.bind(*aligned), (dim,)

    def lower(self, b: Any, ins: Any, outs: Any) -> list[Any]:
        """`select`, nested for more than two cases."""
        (which, *cases), (out,) = ins, outs
        if len(cases) == 1:
            return [cases[0]]
        chosen = cases[-1]
        for number in range(len(cases) - 2, -1, -1):
            if which.dtype == np.bool_:
                test, (first, second) = which, (chosen, cases[number])
            else:
                flags = which.aval.update(dtype=dtypes.bool_)
                limit = b.constant(number, which.aval)
                test = b.emit(
                    f"stablehlo.compare LE, {which}, {limit}, SIGNED : ({which.hlo}, {which.hlo}) -> {flags.hlo}", flags
                )
                first, second = cases[number], chosen
            if isinstance(out.dtype, dtypes.KeyDtype) and test.aval.ndim:
                physical = array_aval((*out.shape, *out.dtype.key_shape), dtypes.bool_)
                test = b.broadcast(test, range(test.aval.ndim), physical)
            chosen = b.emit(f"stablehlo.select {test}, {first}, {second} : {test.hlo}, {out.hlo}", out)
        return [chosen]


select_n_p = SelectN("select_n")


class Clamp(Primitive):
    """The operand, limited from below and above; limits are scalars or of its shape."""

    spread = rules.elementwise

    def infer(self, low: Any, operand: Any, high: Any) -> tuple[Any, ...]:
        """The operand's aval."""
        for word, limit in (("min", low), ("max", high)):
            if limit.dtype != operand.dtype:
                raise errors.DTypeError(
                    f"{word} has dtype {operands.dtype_name(limit)} and the operand {operands.dtype_name(operand)}; "
                    "they must be equal"
                )
            if limit.shape not in ((), operand.shape):
                raise errors.ShapeError(
                    f"{word} has shape {limit.shape}; it must be a scalar or have the operand's {operand.shape}"
                )
        if operand.dtype not in ORDERED:
            raise errors.DTypeError(f"the operand has dtype {operands.dtype_name(operand)}; {ORDERED.words} is needed")
        weak = operand.weak_type and low.weak_type and high.weak_type
        return (operand.update(weak_type=weak),)

    def reference(self, low: Any, operand: Any, high: Any) -> tuple[Any, ...]:
        """The smaller of the upper limit and the larger of the lower one."""
        return (elementwise.minimum(elementwise.maximum(operand, low), high),)

    def jvp(self, primals: Any, tangents: Any) -> Any:
        """The operand strictly between the limits, else the limit that holds."""
        low, x, high = primals
        out = self.bind1(*primals)
        sizes = aval_of(x).shape

        def full(v: Any) -> Any:
            return v if aval_of(v).shape == sizes else shape.broadcast_in_dim(v, sizes, ())

        low, high = full(low), full(high)
        total = None
        tests = (gt(low, x), elementwise.bitwise_and(gt(x, low), lt(x, high)), lt(high, x))
        for tangent, test in zip(tangents, tests, strict=True):
            if tangent is not None:
                tangent = full(tangent)
                total = base.add_tangents(total, select(test, tangent, base.zeros_of(tangent)))
        return (out,), (total,)

    def batch(self, axis: Any, values: Any, dims: Any) -> Any:
        """On aligned operands; limits that are scalars and not mapped stay scalars."""
        low, x, high = values
        low_dim, x_dim, high_dim = dims
        x = operands.to_front(axis, x, x_dim)
        sizes = aval_of(x).shape

        def limit(v: Any, dim: int | None) -> Any:
            ndim = aval_of(v).ndim
            if dim is None:
                return v if ndim == 0 else shape.broadcast_in_dim(v, sizes, range(1, len(sizes)))
            v = operands.move_axis(v, dim, 0)
            return shape.broadcast_in_dim(v, sizes, range(ndim))

        return self.bind(limit(low, low_dim), x, limit(high, high_dim)), (0,)

    def lower(self, b: Any, ins: Any, outs: Any) -> list[Any]:
        """`clamp`, which takes scalar limits as they are."""
        (out,) = outs
        types = ", ".join(x.hlo for x in ins)
        return [b.emit(f"stablehlo.clamp {', '.join(map(str, ins))} : ({types}) -> {out.hlo}", out)]


clamp_p = Clamp("clamp")


# --- the user's functions -------------------------------------------------------------------------------------------


def eq(x: Any, y: Any) -> Any:
    """Whether each pair of elements is equal: any[...], any[...] -> bool[...]. NaN equals nothing. Operands as in `add`."""
    return eq_p.bind1(*operands.coerce("eq", x, y))


def ne(x: Any, y: Any) -> Any:
    """Whether each pair of elements differs: any[...], any[...] -> bool[...]. Operands as in `add`."""
    return ne_p.bind1(*operands.coerce("ne", x, y))


def lt(x: Any, y: Any) -> Any:
    """`x < y` of each pair of elements, not complex; the result is bool[...]. Operands as in `add`."""
    return lt_p.bind1(*operands.coerce("lt", x, y))


def le(x: Any, y: Any) -> Any:
    """`x <= y` of each pair of elements, not complex; the result is bool[...]. Operands as in `add`."""
    return le_p.bind1(*operands.coerce("le", x, y))


def gt(x: Any, y: Any) -> Any:
    """`x > y` of each pair of elements, not complex; the result is bool[...]. Operands as in `add`."""
    return gt_p.bind1(*operands.coerce("gt", x, y))


def ge(x: Any, y: Any) -> Any:
    """`x >= y` of each pair of elements, not complex; the result is bool[...]. Operands as in `add`."""
    return ge_p.bind1(*operands.coerce("ge", x, y))


def nonzero_divisor(x: Any) -> Any:
    """`x` with ones in the place of zeros: integer[...]. Where checks of division are on, a zero fails."""
    return nonzero_divisor_p.bind1(operands.lift(x))


def is_finite(x: Any) -> Any:
    """Whether each element is neither infinite nor NaN: float[...] -> bool[...]."""
    return is_finite_p.bind1(operands.lift(x))


def select_n(which: Any, *cases: Any) -> Any:
    """Element by element, the case whose number `which` gives.

    Parameters
    ----------
    which : bool[...] or int32[...]
        False is case 0 and True case 1; integers outside clamp to the first and last case. Scalar, or of the shape of the cases.
    *cases : array
        Of one dtype and shape.

    Returns
    -------
    array
        Of the cases' shape and dtype.

    Raises
    ------
    DTypeError, ShapeError
        The cases differ, or `which` does not fit.
    """
    if not cases:
        raise errors.ShapeError("select_n: needs at least one case")
    which = operands.lift(which)
    return select_n_p.bind1(which, *operands.unify("select_n", cases))


def select(pred: Any, on_true: Any, on_false: Any) -> Any:
    """`on_true` where `pred` holds, else `on_false`; shapes and dtypes as in `select_n`.

    Parameters
    ----------
    pred : bool[...]
    on_true, on_false : array[...]

    Returns
    -------
    array of the cases' shape and dtype
    """
    return select_n(pred, on_false, on_true)


def clamp(min: Any, x: Any, max: Any) -> Any:
    """`x` limited to the range from `min` to `max`.

    Parameters
    ----------
    min, max : array
        Scalars, or of the shape of `x`; of its dtype. Python numbers adopt it.
    x : array, not complex

    Returns
    -------
    array
        Of the shape and dtype of `x`. The derivative to `x` is 1 strictly between the limits, else 0.
    """
    return clamp_p.bind1(*operands.unify("clamp", (min, x, max)))
