# SPDX-License-Identifier: Apache-2.0
"""Traces, tracers and the current trace.

A transformation runs the user's function on *tracers*. Every primitive that the function binds is handed to the innermost
trace, found in one context variable: new threads start without a trace, asyncio tasks inherit it. A trace that is given no
tracer of its own treats the operands as constants and passes the primitive on to its parent; the outermost parent is None,
which means evaluation. So nesting needs no levels: each trace knows only its parent.
"""

from __future__ import annotations

import threading
from contextvars import ContextVar
from typing import Any

import numpy as np

from purax import config, dtypes, errors
from purax.core.aval import ShapedArray, array_aval, host_aval, unwrapped
from purax.core.hooks import hooks
from purax.core.operators import Operators
from purax.core.source import current_source, format_source

__all__ = ["Trace", "Tracer", "aval_of", "bind_in", "check_escape", "current", "is_tracer"]

current: ContextVar[Any] = ContextVar("current_trace", default=None)


class Trace:
    """One running interpretation. Subclasses implement `process`.

    Parameters
    ----------
    parent : Trace or None
        The trace that was current when this one began; None means evaluation.
    tag : object, optional
        Traces of one tag are parts of one transformation: each accepts the tracers of the others. So a rule of the user's that
        runs later may close over values that were mapped when it was made.
    """

    __slots__ = ("__weakref__", "name", "parent", "tag", "thread")
    kind: str
    scalars: Any = None  # of a trace that records: variables of scalars that it has spread before, by (scalar, aval)

    def __init__(self, parent: Any, name: str = "", tag: Any = None) -> None:
        self.parent = parent
        self.name = name
        self.tag = tag
        self.thread = threading.get_ident()

    def process(self, primitive: Any, operands: tuple[Any, ...], params: dict[str, Any]) -> tuple[Any, ...]:
        """Interpret one bound primitive; returns its outputs."""
        raise NotImplementedError

    @property
    def main(self) -> Any:
        """What the tracers of one interpretation have in common: the trace."""
        return self

    def encloses(self, other: Any) -> bool:
        """Whether `other` is this trace or one of its ancestors."""
        trace: Any = self
        while trace is not None:
            if trace is other or (trace.tag is not None and trace.tag is other.tag):
                return True
            trace = trace.parent
        return False


class Tracer(Operators):
    """A value inside a transformation: an aval and the trace that it belongs to."""

    __slots__ = ("__weakref__", "_trace", "aval")
    aval: ShapedArray
    _trace: Any
    __array_priority__ = 1000
    has_tangent = False

    def concrete(self) -> Any:
        """The Array behind this tracer when its value is known (eager transforms), else None."""
        return None

    def origin(self) -> str:
        """Where the value comes from, for error messages."""
        return ""

    def __len__(self) -> int:
        return len(self.aval)

    def __iter__(self) -> Any:
        if self.aval.ndim == 0:
            raise TypeError("iteration over a value with no axes (shape ())")
        return iter([self[i] for i in range(self.aval.shape[0])])

    def _detached(self, error: type[Exception], use: str, instead: str) -> Any:
        """The value for uses that would drop its tangent: a derivative must not be cut without a word."""
        if self.has_tangent:
            where = format_source(current_source(3))
            raise error(
                f"A value of type {self.aval.str_short()} that is being differentiated was used as {use} at {where}.\n"
                "Why: NumPy and Python do not carry derivatives, so the gradient would silently be that of a constant.\n"
                f"Instead: {instead}; or purax.lax.stop_gradient(x) first, if it is meant to be a constant."
            )
        return self._known(error, use, instead)

    def _known(self, error: type[Exception], use: str, instead: str) -> Any:
        value = self.concrete()
        if value is None:
            raise error(_concrete_message(self, use, instead))
        return value

    def _one(self, what: str) -> Any:
        if self.aval.shape != ():
            raise TypeError(
                f"Only scalar arrays can be converted to Python scalars; got {what} of {self.aval.str_short()}"
            )

    def __bool__(self) -> bool:
        if self.aval.size != 1:
            which = "an empty array" if self.aval.size == 0 else "an array with more than one element"
            raise ValueError(
                f"The truth value of {which} is ambiguous ({self.aval.str_short()}). Use x.any(), x.all() or x.size."
            )
        return bool(self._known(errors.TracerBoolConversionError, "a Python bool (`if`, `while`, `and`)",
                                "use purax.lax.cond, purax.numpy.where, or mark the argument static (static_argnums)"))  # fmt: skip

    def __int__(self) -> int:
        self._one("int()")
        return int(self._known(errors.ConcretizationTypeError, "a Python int", "keep it an array: x.astype(int)"))

    def __float__(self) -> float:
        self._one("float()")
        return float(
            self._detached(errors.ConcretizationTypeError, "a Python float", "keep it an array: x.astype(float)")
        )

    def __complex__(self) -> complex:
        self._one("complex()")
        return complex(self._detached(errors.ConcretizationTypeError, "a Python complex", "keep it an array: x.astype(complex)"))  # fmt: skip

    def __index__(self) -> int:
        if self.aval.shape != () or not dtypes.issubdtype(self.aval.dtype, np.integer):
            raise TypeError(
                f"Only integer scalar arrays can be converted to a scalar index; got {self.aval.str_short()}"
            )
        return self._known(
            errors.TracerIntegerConversionError, "a Python index (shape, range, list index)",
            "mark the argument static (static_argnums), or index a purax array: purax.numpy.asarray(xs)[i]",
        ).__index__()  # fmt: skip

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        value = self._detached(errors.TracerArrayConversionError, "a NumPy array",
                            "call the purax.numpy function of the same name, or purax.pure_callback")  # fmt: skip
        return np.asarray(value, dtype)

    def item(self, *args: Any) -> Any:
        """The element as a Python scalar."""
        return np.asarray(self._detached(errors.ConcretizationTypeError, "a Python scalar", "keep it an array")).item(
            *args
        )

    def tolist(self) -> Any:
        """The elements as nested lists of Python scalars."""
        return self._detached(errors.ConcretizationTypeError, "a Python list", "keep it an array").tolist()

    def tobytes(self, order: Any = "C") -> bytes:
        """The elements as raw bytes."""
        known = self._detached(errors.ConcretizationTypeError, "bytes", "keep it an array")
        return np.asarray(known).tobytes(order)

    def __reduce__(self) -> Any:
        raise errors.ConcretizationTypeError(
            _concrete_message(self, "a pickle", "pickle it outside of the transformation")
        )

    def block_until_ready(self) -> Any:
        """Wait for the value, if there is one."""
        return self

    def __repr__(self) -> str:
        return f"{type(self).__name__}<{self.aval.str_short()}>"

    def __deepcopy__(self, memo: Any) -> Tracer:
        return self

    def __copy__(self) -> Tracer:
        return self

    def __hash__(self) -> int:  # type: ignore[override]  # says which class it is
        raise TypeError(f"unhashable type: {type(self).__name__}")


def _concrete_message(tracer: Tracer, use: str, instead: str) -> str:
    where = format_source(current_source(3))
    origin = tracer.origin()
    return (
        f"A traced value of type {tracer.aval.str_short()} was used as {use} at {where}.\n"
        f"Why: {origin or 'it is inside ' + tracer._trace.kind}, where only its shape and dtype are known, not its elements.\n"
        f"Instead: {instead}."
    )


def is_tracer(x: Any) -> bool:
    """Whether `x` is an abstract value of some trace."""
    return isinstance(x, Tracer)


def bind_in(trace: Any, primitive: Any, operands: tuple[Any, ...], params: dict[str, Any]) -> tuple[Any, ...]:
    """Bind `primitive` with `trace` as the interpreter (None: evaluate).

    Parameters
    ----------
    trace : Trace or None
    primitive : Primitive
    operands : tuple of arrays
    params : dict

    Returns
    -------
    tuple of arrays
    """
    if trace is None:
        return hooks.evaluate(primitive, operands, params)
    return trace.process(primitive, operands, params)


def check_escape(tracer: Tracer, trace: Any) -> None:
    """Check that `tracer` may be used where `trace` is current.

    Raises
    ------
    UnexpectedTracerError
        It may not: it escaped from its transformation.
    """
    home = tracer._trace
    if trace is not None and trace.encloses(home):
        return
    finished = f"the {home.kind} of {home.name}" if home.name else f"a {home.kind}"
    elsewhere = " It was made in another thread." if home.thread != threading.get_ident() else ""
    raise errors.UnexpectedTracerError(
        f"A traced value of type {tracer.aval.str_short()} escaped from {finished} and was used at {format_source(current_source(3))}.\n"
        f"Why: {tracer.origin() or 'it stands for a value of a transformation that has ended'}; it has no value outside.{elsewhere}\n"
        "Instead: return it from the transformed function (values stored in globals, attributes or lists do not leave it)."
    )


# --- avals of what users pass ---------------------------------------------------------------------------------------------

_SCALARS: dict[tuple[type, bool], ShapedArray] = {}


def _scalar_aval(kind: type) -> ShapedArray:
    key = (kind, config.enable_x64)
    aval = _SCALARS.get(key)
    if aval is None:
        aval = _SCALARS[key] = array_aval((), np.dtype(dtypes.python_scalar_dtype(kind)), kind is not bool)
    return aval


def aval_of(x: Any) -> ShapedArray:
    """The aval of an array, tracer, Python scalar or NumPy value.

    Raises
    ------
    NonArrayArgumentError
        `x` is not a valid array type. It is a TypeError.
    """
    aval = getattr(x, "aval", None)
    if aval is not None:
        return aval
    kind = type(x)
    if kind is float or kind is int or kind is bool or kind is complex:
        return _scalar_aval(kind)
    if isinstance(x, (np.ndarray, np.generic)):
        return host_aval(x)
    if isinstance(x, (bool, int, float, complex)):
        base = next(k for k in (bool, int, float, complex) if isinstance(x, k))
        return _scalar_aval(base)
    array = unwrapped(x)
    if array is not x:
        return aval_of(array)
    raise errors.NonArrayArgumentError(f"{x!r} of type {kind.__module__}.{kind.__qualname__} is not a valid array type")
