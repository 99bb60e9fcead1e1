# SPDX-License-Identifier: Apache-2.0
"""The contract of a primitive: what every transformation needs to know of one operation, in one class.

A primitive is a subclass of `Primitive` that defines the rules below and is instantiated once. Operands are positional, static
data goes by keyword and is hashable, inputs and outputs are always tuples. A missing rule is an error at definition; a rule
that cannot exist is declared with `Undefined(reason)`.
"""

from __future__ import annotations

from typing import Any, ClassVar

from purax import dtypes, errors
from purax.core.hooks import hooks
from purax.core.source import current_source, format_source
from purax.core.trace import current

__all__ = ["Linear", "Primitive", "Undefined", "registry"]

registry: dict[str, Primitive] = {}
_REQUIRED = ("infer", "reference", "jvp", "batch", "lower")
_NO_EFFECTS: frozenset[Any] = frozenset()
_NO_AXES: frozenset[Any] = frozenset()


class Undefined:
    """A rule that cannot exist, with the reason; calling it raises MissingRuleError."""

    def __init__(self, reason: str) -> None:
        self.reason = reason

    def __set_name__(self, owner: type, name: str) -> None:
        self.owner, self.rule = owner, name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Raise MissingRuleError."""
        whose = "" if self.owner is Primitive else f"{self.owner.__name__}: "
        raise errors.MissingRuleError(f"{whose}there is no {self.rule} rule: {self.reason}")


class Linear:
    """Marks, in `transpose`, an operand that is linear: only its aval is known."""

    __slots__ = ("aval",)

    def __init__(self, aval: Any) -> None:
        self.aval = aval

    def __repr__(self) -> str:
        return f"Linear({self.aval.str_short()})"

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise errors.MissingRuleError(
            f"it is not linear: the transpose would need the value of an operand ({self.aval.str_short()}) that the function is to be "
            "linear in"
        )


class Primitive:
    """One operation; see the module's docstring. Subclasses define the rules, instances are the primitives.

    Rules
    -----
    infer(*avals, **params) -> tuple of avals
        Shapes and dtypes of the outputs; raises ShapeError or DTypeError with its own sentence only.
    reference(*operands, **params) -> tuple of numpy.ndarray
        The meaning, in NumPy.
    jvp(primals, tangents, **params) -> (outputs, output tangents)
        A tangent is an array or None, the symbolic zero.
    transpose(cotangents, operands, **params) -> tuple of cotangents
        For operations linear in the operands marked `Linear`.
    batch(axis, operands, dims, **params) -> (outputs, output dims)
    lower(b, ins, outs, **params) -> list of Values
        StableHLO through the Builder `b`.

    Optional
    --------
    exact : bool or (avals, params) -> bool
        `reference` gives XLA's bits on CPU: small arrays are computed on the host without a compile.
    spread(spreads of operands, avals, output avals, params) -> sequence of Spread
        How the outputs lie on explicit mesh axes (`sharding/rules.py`); without it, operands must be whole on each device.
    effects(params) -> frozenset
    run(operands, params), stage(trace, operands, params), linearize(primals, tangents, params)
        Replace evaluation, recording and linearization; for primitives that hold functions or programs.
    """

    name: str
    listed: ClassVar[bool] = True  # in the registry, under a name of its own
    multiple_results: bool = True  # `bind` returns a tuple, whatever the number of outputs
    types_spread: ClassVar[bool] = False  # `infer` says how the outputs lie on explicit mesh axes (holders of programs)
    spread: Any = None  # (spreads of operands, avals, output avals, params) -> spreads of outputs
    infer: Any
    reference: Any
    jvp: Any
    batch: Any
    lower: Any
    exact: Any = False
    names_axes: ClassVar[bool] = False  # collectives: params["axes"] names mapped axes
    types_axes: ClassVar[bool] = (
        False  # `infer` says over which named axes the outputs vary (collectives, holders of programs)
    )
    run: Any = None
    stage: Any = None
    linearize: Any = None
    batch_call: Any = (
        None  # (trace, operands, dims, params) -> (outputs, dims); in place of `batch`, for calls of functions
    )
    unfold: Any = None  # (operands, params) -> outputs by simpler operations, or None; for calls on tangents
    dce: Any = None  # (used outputs, equation) -> equation
    passes: ClassVar[bool] = False  # output i is operand i: the others do not matter to it
    split: Any = None  # (equation, checkpoint policy) -> two equations and what the first saves for the second, or None
    transpose: Any = Undefined("it is not linear")
    _impl: Any = None  # the user's way to evaluate it

    def __init__(self, name: str) -> None:
        missing = [rule for rule in _REQUIRED if not hasattr(self, rule)]
        if missing:
            raise errors.MissingRuleError(f"primitive {name!r} lacks rules: {', '.join(missing)}; see CONTRIBUTING.md")
        if self.listed and name in registry:
            raise errors.MissingRuleError(f"a primitive named {name!r} exists already")
        self.name = self.label = name  # the label stands in locations and profiles
        self.pure = type(self).effects is Primitive.effects
        self._inferred: dict[Any, tuple[Any, ...]] = {}
        self.kernels: dict[Any, Any] = {}  # filled by pipeline.evaluate: (avals, params) -> kernel
        if self.listed:
            registry[name] = self

    def get_bind_params(self, params: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """What interpreters of programs hand to `bind` before and beside the operands; no primitive takes functions as operands."""
        return [], dict(params)

    def bind(self, *operands: Any, **params: Any) -> tuple[Any, ...]:
        """Apply the primitive in the current trace; returns the tuple of outputs."""
        trace = current.get()
        if trace is None:
            return hooks.evaluate(self, operands, params)
        return trace.process(self, operands, params)

    def bind1(self, *operands: Any, **params: Any) -> Any:
        """Apply a primitive with one output; returns that output."""
        trace = current.get()
        if trace is None:
            return hooks.evaluate(self, operands, params)[0]
        return trace.process(self, operands, params)[0]

    @property
    def impl(self) -> Any:
        """What evaluates the primitive, as a function of operands and parameters that returns the output, or a list of several."""
        return self._impl or self._evaluated

    def def_impl(self, function: Any) -> Any:
        """Evaluate the primitive by `function`, which takes and returns what `impl` does, wherever it is bound eagerly."""
        if function == self._evaluated:
            self._impl, self.run = None, type(self).run
            return function

        def run(operands: tuple[Any, ...], params: dict[str, Any]) -> tuple[Any, ...]:
            out = function(*operands, **params)
            return tuple(out) if isinstance(out, (tuple, list)) else (out,)

        self._impl, self.run = function, run
        return function

    def _evaluated(self, *operands: Any, **params: Any) -> Any:
        if type(self).run is not None:
            outs = type(self).run(self, operands, params)
        else:
            outs = hooks.evaluate(self, operands, params, False)
        return outs[0] if len(outs) == 1 else list(outs)

    def outputs(self, avals: tuple[Any, ...], params: dict[str, Any]) -> tuple[Any, ...]:
        """`infer`, remembered, with errors that name the operation, its operands and the user's line."""
        key = (avals, tuple(params.items())) if params else avals
        try:
            found = self._inferred.get(key)
        except TypeError:
            raise errors.NonHashableStaticArgumentError(self._unhashable(params)) from None
        if found is None:
            try:
                found = self._infer(avals, params)
            except (TypeError, ValueError, IndexError) as error:
                if isinstance(error, errors.PuraxError) and not error.located:
                    operands = ", ".join(a.str_short() for a in avals)
                    error.args = (f"{self.name}({operands}) at {format_source(current_source(3))}: {error.args[0]}",)
                    error.located = True
                raise
            self._inferred[key] = found
        return found

    def _infer(self, avals: tuple[Any, ...], params: dict[str, Any]) -> tuple[Any, ...]:
        """`infer`; results vary over the named axes that any operand varies over, unless `infer` itself says so."""
        if any(a.dtype == dtypes.float0 for a in avals):
            raise errors.DTypeError(
                "float0s do not support any operations by design: they are the tangents of integers and booleans"
            )
        if not self.types_spread and any([a.spread is not None for a in avals]):
            outs = self._infer(tuple([a.with_spread(None) for a in avals]), params)
            spreads = hooks.spread(self, avals, outs, params)
            return tuple([a.with_spread(s) for a, s in zip(outs, spreads, strict=True)])
        varying = _NO_AXES.union(*[a.varying for a in avals])
        if self.types_axes or not varying:
            return self.infer(*avals, **params)
        plain = self.infer(*[a.with_varying(_NO_AXES) for a in avals], **params)
        return tuple([a.with_varying(varying) for a in plain])

    def _unhashable(self, params: dict[str, Any]) -> str:
        for name, value in params.items():
            try:
                hash(value)
            except TypeError:
                return f"{self.name}: parameter {name!r} of type {type(value).__name__} cannot be hashed; pass a tuple"
        return f"{self.name}: a parameter cannot be hashed"

    def effects(self, params: dict[str, Any]) -> frozenset[Any]:
        """Effects of one application."""
        return _NO_EFFECTS

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> Any:
        return _by_name, (self.name,)


def _by_name(name: str) -> Primitive:
    return registry[name]
