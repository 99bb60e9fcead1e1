# SPDX-License-Identifier: Apache-2.0
"""The family of elementwise primitives: one class, each primitive a row that says what differs.

A row gives the dtypes it takes, its StableHLO operation, its meaning in NumPy, and the tangent that each operand contributes:
``sin_p = Elementwise("sin", INEXACT, "stablehlo.sine", np.sin, lambda t, y, x: mul(t, cos(x)))``.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from purax import dtypes, errors
from purax.core.aval import array_aval
from purax.core.primitive import Primitive
from purax.sharding import rules

__all__ = [
    "ANY",
    "ARITHMETIC",
    "BITS",
    "BOOL",
    "COMPLEX",
    "FLOAT",
    "HOST",
    "HOST_FLOAT",
    "HOST_INTEGER",
    "INEXACT",
    "INTEGER",
    "ORDERED",
    "REAL",
    "SIGNED_OR_INEXACT",
    "AccuracyMode",
    "Elementwise",
    "Kinds",
    "Tolerance",
    "in_float32",
    "inline",
    "on",
    "result_aval",
    "widened",
]  # fmt: skip


class Kinds(frozenset[Any]):
    """A set of dtypes with the words that name it in messages."""

    words: str

    def __new__(cls, words: str, members: Iterable[Any]) -> Kinds:
        """`members`, called `words`."""
        made = super().__new__(cls, members)
        made.words = words
        return made


_INTS = (*dtypes.SIGNED, *dtypes.UNSIGNED)
FLOAT = Kinds("real floating", dtypes.FLOATS)
COMPLEX = Kinds("complex", dtypes.COMPLEXES)
INTEGER = Kinds("integer", _INTS)
BOOL = Kinds("bool", (dtypes.bool_,))
INEXACT = Kinds("floating or complex", (*dtypes.FLOATS, *dtypes.COMPLEXES))
SIGNED_OR_INEXACT = Kinds("signed integer, floating or complex", (*dtypes.SIGNED, *INEXACT))
ARITHMETIC = Kinds("integer, floating or complex", (*_INTS, *INEXACT))
REAL = Kinds("integer or real floating", (*_INTS, *dtypes.FLOATS))
ORDERED = Kinds("bool, integer or real floating", (dtypes.bool_, *REAL))
BITS = Kinds("bool or integer", (dtypes.bool_, *_INTS))
ANY = Kinds("bool, integer, floating or complex", dtypes.ALL)

_HOST_INTS = [np.dtype(f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)]
HOST = Kinds("host", (dtypes.bool_, dtypes.float32, dtypes.float64, *_HOST_INTS))  # NumPy's bits are XLA's here
HOST_INTEGER = Kinds("host integer", (dtypes.bool_, *_HOST_INTS))
HOST_FLOAT = Kinds("host float", (dtypes.float32, dtypes.float64))


def on(kinds: Kinds) -> Callable[[Any, Any], bool]:
    """An `exact` rule: the host computes XLA's bits when all operands are of these dtypes."""
    return lambda avals, params: all(aval.dtype in kinds for aval in avals)


def widened(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` computed in float32 for narrower floats and rounded back once."""

    def compute(*xs: Any, **params: Any) -> Any:
        dtype = xs[0].dtype
        if dtype.itemsize <= 2 and dtypes.is_float(dtype):
            return np.asarray(function(*[x.astype(np.float32) for x in xs], **params)).astype(dtype)
        return np.asarray(function(*xs, **params), dtype)

    return compute


def in_float32(formula: Callable[..., Any]) -> Callable[..., Any]:
    """A formula over primitives, evaluated in float32 for narrower floats."""

    def compute(*xs: Any, **params: Any) -> Any:
        dtype = xs[0].aval.dtype
        if dtype.itemsize <= 2 and dtypes.is_float(dtype):
            wide = [cast.convert_element_type(x, dtypes.float32) for x in xs]
            return cast.convert_element_type(formula(*wide, **params), dtype)
        return formula(*xs, **params)

    return compute


def inline(formula: Callable[..., Any]) -> Callable[..., Any]:
    """A `lower` rule that writes a formula over other primitives, in float32 for narrower floats."""
    wide = in_float32(formula)
    return lambda b, ins, outs, **params: b.inline(wide, ins, **params)


class AccuracyMode(enum.Enum):
    """How exact a transcendental function is asked to be."""

    HIGHEST = 1
    DEFAULT = 2


@dataclasses.dataclass(frozen=True)
class Tolerance:
    """The error that a transcendental function may have: absolute, relative, and in units in the last place."""

    atol: float = 0.0
    rtol: float = 0.0
    ulps: int = 0


def accuracy_text(accuracy: AccuracyMode | Tolerance) -> str:
    """The StableHLO attribute of a hint."""
    limits, mode = "", "TOLERANCE"
    if isinstance(accuracy, AccuracyMode):
        mode = accuracy.name
    else:
        limits = f"atol = {accuracy.atol:e}, rtol = {accuracy.rtol:e}, ulps = {accuracy.ulps}, "
    return f"#stablehlo.result_accuracy<{limits}mode = #stablehlo.result_accuracy_mode<{mode}>>"


class Elementwise(Primitive):
    """Operations that give each element of one output from the same element of each operand.

    Parameters
    ----------
    name : str
    accepts : Kinds or tuple of Kinds
        Dtypes of the operand; a tuple has one entry per operand.
    hlo : str or callable
        StableHLO or CHLO operation, or a `lower` rule.
    numpy : callable
        The meaning, for `reference`; parameters come by keyword.
    *tangents : callable or None
        Per operand: `(tangent, output, *operands, **params) -> contribution`; None if the derivative is zero.
    result : callable, optional
        Dtype of the output from that of the first operand.
    transposed : callable, optional
        `(cotangent, *operands, **params) -> cotangents`, for operations that are linear.
    exact : bool or callable
        See `Primitive`.
    ufunc : numpy.ufunc, optional
        What computes the operation on the host where it is exact.
    edges : callable, optional
        A formula of operand and result that mends what the operation gives of complex numbers with parts that are 0, inf or NaN.
    spread : callable, optional
        The rule of `sharding/rules.py` that says how the output lies on explicit mesh axes; that of operations that are not linear
        by default.
    """

    def __init__(
        self, name: str, accepts: Kinds | tuple[Kinds, ...], hlo: str | Callable[..., Any], numpy: Callable[..., Any],
        *tangents: Callable[..., Any] | None, result: Callable[[Any], Any] | None = None,
        transposed: Callable[..., Any] | None = None, exact: Any = False, ufunc: Any = None,
        edges: Callable[[Any, Any], Any] | None = None, spread: Callable[..., Any] | None = None,
    ) -> None:  # fmt: skip
        self.accepts = accepts if isinstance(accepts, tuple) else (accepts,)
        self.hlo = hlo
        self.numpy = numpy
        if len(tangents) != len(self.accepts):
            raise errors.MissingRuleError(
                f"{name}: {len(self.accepts)} operands but {len(tangents)} tangents; give one per operand, None where the derivative is zero"
            )
        self.tangents = tangents
        self.result = result
        self.exact = exact
        self.ufunc = ufunc
        self.edges = edges
        if spread is not None:
            self.spread = functools.partial(spread, self)  # type: ignore[method-assign]
            self.terms = True  # type: ignore[misc]
        if transposed is not None:
            self.transposed = transposed
            self.transpose = self._transpose
        super().__init__(name)

    def apply(self, x: Any, accuracy: AccuracyMode | Tolerance | None) -> Any:
        """Bind to one array-like, with a hint of accuracy."""
        x = operands.lift(x)
        return self.bind1(x) if accuracy is None else self.bind1(x, accuracy=accuracy)

    spread = rules.elementwise

    def infer(self, *avals: Any, **params: Any) -> tuple[Any, ...]:
        """The common shape; the common dtype or what the row makes of it."""
        first = avals[0]
        if len(avals) != len(self.accepts):
            raise errors.ShapeError(f"takes {len(self.accepts)} operands, got {len(avals)}")
        for position, (aval, kinds) in enumerate(zip(avals, self.accepts, strict=True)):
            if aval.dtype not in kinds:
                place = f" {position}" if len(avals) > 1 else ""
                raise errors.DTypeError(
                    f"operand{place} has dtype {operands.dtype_name(aval)}; {kinds.words} is needed"
                )
            if aval.shape != first.shape:
                raise errors.ShapeError(f"operands have shapes {first.shape} and {aval.shape}; they must be equal")
            if aval.dtype is not first.dtype and aval.dtype != first.dtype:
                raise errors.DTypeError(
                    f"operands have dtypes {operands.dtype_name(first)} and {operands.dtype_name(aval)}; they must be equal"
                )
        dtype = first.dtype if self.result is None else self.result(first.dtype)
        return (result_aval(avals, dtype),)

    def reference(self, *operands: Any, **params: Any) -> tuple[Any, ...]:
        """The row's NumPy function."""
        params.pop("accuracy", None)
        return (self.numpy(*operands, **params),)

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> Any:
        """The sum of what each operand's tangent contributes."""
        out = self.bind1(*primals, **params)
        params.pop("accuracy", None)
        total = None
        for tangent, rule in zip(tangents, self.tangents, strict=False):
            if tangent is not None and rule is not None:
                total = base.add_tangents(total, rule(tangent, out, *primals, **params))
        return (out,), (total,)

    def _transpose(self, cotangents: Any, operands: Any, **params: Any) -> tuple[Any, ...]:
        if cotangents[0] is None:
            return (None,) * len(operands)
        return self.transposed(cotangents[0], *operands, **params)

    def batch(self, axis: Any, values: Any, dims: Any, **params: Any) -> Any:
        """The same operation on operands that are brought to one mapped axis."""
        aligned, dim = operands.align(axis, values, dims)
        return self.bind(*aligned, **params), (dim,)

    def lower(self, b: Any, ins: Any, outs: Any, **params: Any) -> list[Any]:
        """The row's operation, a constant where the operands are known numbers; of complex numbers with its edges mended."""
        known = [b.splat(x) for x in ins]
        if None not in known and (self.exact is True or (self.exact and self.exact([x.aval for x in ins], params))):
            with np.errstate(all="ignore"):
                (value,) = self.reference(*known, **params)
            return [b.broadcast(b.constant(value, outs[0].update(shape=())), (), outs[0])]
        results = self._operation(b, ins, outs, **params)
        if self.edges is None or not dtypes.is_complex(ins[0].dtype):
            return results
        return b.inline(self.edges, [*ins, *results])

    def _operation(self, b: Any, ins: Any, outs: Any, **params: Any) -> list[Any]:
        """One operation, or the row's own rule (which needs no hint of accuracy: it is accurate)."""
        accuracy = params.pop("accuracy", None)
        if callable(self.hlo):
            return self.hlo(b, ins, outs, **params)
        (out,) = outs
        names, types = ", ".join(map(str, ins)), ", ".join(x.hlo for x in ins)
        if self.hlo.startswith("chlo."):
            return [b.emit(f"{self.hlo} {names} : {types} -> {out.hlo}", out)]
        if self.result is not None:
            return [b.emit(f"{self.hlo} {names} : ({types}) -> {out.hlo}", out)]
        hint = "" if accuracy is None else f" {{result_accuracy = {accuracy_text(accuracy)}}}"
        return [b.emit(f"{self.hlo} {names}{hint} : {out.hlo}", out)]


def result_aval(avals: Any, dtype: Any) -> Any:
    """Aval of the first operand's shape: weak if all are (and `dtype` is not bool), varying where one is."""
    first = avals[0]
    weak = all([a.weak_type for a in avals]) and dtype != np.bool_
    varying = first.varying.union(*(a.varying for a in avals[1:])) if len(avals) > 1 else first.varying
    return array_aval(first.shape, dtype, weak, varying)


from purax.primitives import base, cast, operands  # noqa: E402  (siblings import this module's names)
