# SPDX-License-Identifier: Apache-2.0
"""Primitives that users define, with the names that JAX has for them and for their rules.

A primitive of purax's own states all its rules in one class. One of a user's is made by name and is given its rules one by one:
`def_abstract_eval` and `def_impl` are methods, derivatives, batching and lowering are entries in the tables below. What is
asked of a rule that nobody gave raises MissingRuleError, which names the line that would give it. Rules get and return what
JAX's do: one result is a value and several are a list, a zero tangent is a `Zero`, an operand that is linear an `UndefinedPrimal`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from purax import dtypes, errors
from purax.core.aval import ShapedArray
from purax.core.primitive import Linear, Primitive, Undefined
from purax.core.trace import aval_of
from purax.primitives import shape
from purax.primitives.base import add_tangents, zeros_of
from purax.transforms.flat import float0_zeros

__all__ = [
    "DefinedPrimitive", "LoweredFunction", "Rules", "UndefinedPrimal", "Zero", "axis_primitive_batchers", "bdim_at_front",
    "defbilinear", "defbroadcasting", "defjvp", "deflinear", "deflinear2", "defvectorized", "fancy_primitive_batchers",
    "instantiate_zeros", "is_undefined_primal", "lower_fun", "mapped_aval", "primitive_batchers", "primitive_jvps",
    "primitive_transposes", "register_lowering", "unmapped_aval",
]  # fmt: skip


class Zero:
    """A tangent or cotangent that is zero, known by its type alone.

    Parameters
    ----------
    aval : ShapedArray
        Type of the tangent: dtype float0 for integers and booleans.
    """

    __slots__ = ("aval",)

    def __init__(self, aval: Any) -> None:
        self.aval = aval

    @staticmethod
    def from_primal_value(value: Any) -> Zero:
        """The zero tangent of a value."""
        return Zero(aval_of(value).to_tangent_aval())

    def instantiate(self) -> Any:
        """The zeros themselves."""
        return float0_zeros(self.aval.shape) if self.aval.dtype == dtypes.float0 else zeros_of(self.aval)

    def __repr__(self) -> str:
        return f"Zero({self.aval.str_short()})"


class UndefinedPrimal:
    """Stands, in a transpose rule, for an operand that the primitive is linear in: only its type is known."""

    __slots__ = ("aval",)

    def __init__(self, aval: Any) -> None:
        self.aval = aval

    def __repr__(self) -> str:
        return f"UndefinedPrimal({self.aval.str_short()})"


def is_undefined_primal(x: Any) -> bool:
    """Whether an operand of a transpose rule is one that the primitive is linear in."""
    return type(x) is UndefinedPrimal


def instantiate_zeros(tangent: Any) -> Any:
    """`tangent`, or the zeros that a `Zero` stands for."""
    return tangent.instantiate() if type(tangent) is Zero else tangent


def _known(tangent: Any) -> Any:
    """A tangent as rules of purax give it: None where zero."""
    return None if tangent is None or tangent is Zero or type(tangent) is Zero else tangent


class Rules(dict[Any, Callable[..., Any]]):
    """Rules of one kind, by primitive; `how` is the line that gives one."""

    def __init__(self, kind: str, how: str) -> None:
        super().__init__()
        self.kind, self.how = kind, how

    def __setitem__(self, primitive: Any, rule: Callable[..., Any]) -> None:
        if not isinstance(primitive, DefinedPrimitive):
            raise TypeError(
                f"{primitive} is not a primitive made by extend.core.Primitive(name): the {self.kind} rules of purax's own "
                "primitives are part of them and cannot be replaced"
            )
        super().__setitem__(primitive, rule)

    def __missing__(self, primitive: Any) -> Callable[..., Any]:
        raise errors.MissingRuleError(f"primitive {primitive} has no {self.kind} rule; give one: {self.how}")


primitive_jvps = Rules("derivative", "interpreters.ad.primitive_jvps[p] = lambda primals, tangents, **params: ...")
primitive_transposes = Rules("transpose", "interpreters.ad.primitive_transposes[p] = lambda ct, *operands, **params: ...")  # fmt: skip
primitive_batchers = Rules("batching", "interpreters.batching.primitive_batchers[p] = lambda operands, dims, **params: ...")  # fmt: skip
axis_primitive_batchers = Rules("batching", "interpreters.batching.primitive_batchers[p] = lambda operands, dims, **params: ...")  # fmt: skip
fancy_primitive_batchers = Rules("batching", "interpreters.batching.primitive_batchers[p] = lambda operands, dims, **params: ...")  # fmt: skip
_lowerings: Any = Rules("lowering", "interpreters.mlir.register_lowering(p, interpreters.mlir.lower_fun(function, multiple_results=False))")  # fmt: skip


class DefinedPrimitive(Primitive):
    """A primitive that a user defines; see the module's docstring.

    Parameters
    ----------
    name : str
        For messages and printed programs; two primitives may have the same one.

    Attributes
    ----------
    multiple_results : bool
        Whether `bind` returns a list of results instead of one (False unless it is set).
    """

    listed: ClassVar[bool] = False
    reference: Any = Undefined("what a user's primitive means is known by its lowering only")

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.multiple_results = False
        self._abstract: Any = None

    def bind(self, *operands: Any, **params: Any) -> Any:
        """Apply the primitive; returns its result, or the list of them if `multiple_results`."""
        outs = super().bind(*operands, **params)
        return list(outs) if self.multiple_results else outs[0]

    def def_abstract_eval(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """`rule(*avals, **params)` gives the type of the result, or a sequence of them."""
        self._abstract = rule
        return rule

    def outputs(self, avals: tuple[Any, ...], params: dict[str, Any]) -> tuple[Any, ...]:
        """Types of the results. Nothing is remembered: parameters may be objects that are new in each call."""
        return self._infer(avals, params)

    def infer(self, *avals: Any, **params: Any) -> tuple[Any, ...]:
        """By `def_abstract_eval`."""
        if self._abstract is None:
            raise errors.MissingRuleError(f"primitive {self} has no type rule; give one: p.def_abstract_eval(lambda *avals, **params: ...)")  # fmt: skip
        outs = self._results(self._abstract(*avals, **params))
        for out in outs:
            if not isinstance(out, ShapedArray):
                raise TypeError(f"the type rule of {self} must give core.ShapedArray(shape, dtype), got {out!r}")
        return outs

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> Any:
        """By `primitive_jvps`."""
        given = [Zero.from_primal_value(x) if t is None else t for x, t in zip(primals, tangents, strict=True)]
        outs, out_tangents = primitive_jvps[self](list(primals), given, **params)
        return self._results(outs), tuple(map(_known, self._results(out_tangents)))

    def transpose(self, cotangents: Any, operands: Any, **params: Any) -> Any:
        """By `primitive_transposes`."""
        rule = primitive_transposes[self]
        given = [UndefinedPrimal(x.aval) if type(x) is Linear else x for x in operands]
        if any(ct is None for ct in cotangents):
            avals = self.outputs(tuple([aval_of(x) if type(x) is not Linear else x.aval for x in operands]), params)
            cotangents = [
                Zero(a.to_tangent_aval()) if ct is None else ct for ct, a in zip(cotangents, avals, strict=True)
            ]
        found = rule(list(cotangents) if self.multiple_results else cotangents[0], *given, **params)
        if found is Zero:  # "all of them"
            found = [None] * len(operands)
        return tuple([_known(ct) if type(x) is Linear else None for ct, x in zip(found, operands, strict=True)])

    def batch(self, axis: Any, operands: Any, dims: Any, **params: Any) -> Any:
        """By one of the tables of batching rules."""
        if self in fancy_primitive_batchers:
            outs, out_dims = fancy_primitive_batchers[self](axis, operands, dims, **params)
        elif self in axis_primitive_batchers:
            outs, out_dims = axis_primitive_batchers[self](axis.size, axis.name, None, operands, dims, **params)
        else:
            outs, out_dims = primitive_batchers[self](operands, dims, **params)
        if self.multiple_results and (out_dims is None or isinstance(out_dims, int)):
            out_dims = [out_dims] * len(outs)
        return self._results(outs), self._results(out_dims)

    def lower(self, b: Any, ins: Any, outs: Any, **params: Any) -> list[Any]:
        """The operations of the function that was registered."""
        rules, module = _lowerings[self], b.module
        rule = next((rules[name] for name in (module.target, module.platform, None) if name in rules), None)
        if rule is None:
            raise errors.MissingRuleError(
                f"primitive {self} has no lowering for the platform {module.target!r}, only for {', '.join(map(str, rules))}"
            )
        if not isinstance(rule, LoweredFunction):
            raise errors.MissingRuleError(
                f"the lowering of {self} is written for JAX's bindings of MLIR, and purax lowers to text; give a function of "
                "arrays: interpreters.mlir.register_lowering(p, interpreters.mlir.lower_fun(function, multiple_results=False))"
            )
        found: list[Any] = b.inline(rule.function, ins, **params)
        return found

    def def_effectful_abstract_eval(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """As `def_abstract_eval`, for a rule that gives a pair: types, and effects, of which there may be none."""

        def types(*avals: Any, **params: Any) -> Any:
            outs, effects = rule(*avals, **params)
            if effects:
                raise errors.MissingRuleError(f"primitive {self} has effects, which only purax's own primitives can")
            return outs

        self.def_abstract_eval(types)
        return rule

    def _results(self, outs: Any) -> tuple[Any, ...]:
        return tuple(outs) if self.multiple_results else (outs,)

    def __reduce__(self) -> Any:
        raise TypeError(f"primitive {self} was made while the program runs: it cannot be copied or pickled")

    def __deepcopy__(self, memo: Any) -> DefinedPrimitive:
        return self

    def __copy__(self) -> DefinedPrimitive:
        return self


class LoweredFunction:
    """A lowering that is given by a function of arrays."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function


def lower_fun(fun: Callable[..., Any], multiple_results: bool = True) -> LoweredFunction:
    """The lowering of a primitive that does what `fun` does, a function of arrays in terms of other primitives.

    Parameters
    ----------
    fun : callable
        Called with the operands and the parameters of the primitive.
    multiple_results : bool
        Whether it returns a sequence of arrays; one array otherwise.

    Returns
    -------
    LoweredFunction
    """
    del multiple_results  # either is understood
    return LoweredFunction(fun)


def register_lowering(prim: Any, rule: Any = None, platform: str | None = None, **options: Any) -> Any:
    """Lower `prim` by `rule`, made by `lower_fun`; a decorator without `rule`.

    Parameters
    ----------
    prim : Primitive
    rule : LoweredFunction, optional
    platform : str, optional
        `cpu`, `cuda`, `rocm`, `tpu`, or `gpu` for both `cuda` and `rocm`; all that have no rule of their own when left out.
    options
        Those of JAX, which say how its bindings are called.

    Returns
    -------
    `rule`, or the decorator that takes it
    """
    del options
    if rule is None:
        return lambda found: register_lowering(prim, found, platform)
    rules = _lowerings.get(prim) or {}
    _lowerings[prim] = {**rules, platform: rule}
    prim.kernels.clear()
    return rule


# --- rules by their form --------------------------------------------------------------------------------------------------


def defjvp(primitive: Any, *rules: Callable[..., Any] | None) -> None:
    """Derivative of a primitive with one result; `rules` are one per operand, `rule(tangent, *primals, **params)`, or None for zero."""

    def jvp(primals: Any, tangents: Any, **params: Any) -> Any:
        out, total = primitive.bind(*primals, **params), None
        for rule, tangent in zip(rules, tangents, strict=True):
            if rule is not None and type(tangent) is not Zero:
                total = add_tangents(total, rule(tangent, *primals, **params))
        return out, Zero.from_primal_value(out) if total is None else total

    primitive_jvps[primitive] = jvp


def deflinear2(primitive: Any, transpose_rule: Callable[..., Any]) -> None:
    """A primitive that is linear in all its operands; `transpose_rule(cotangent, *operands, **params)`."""

    def jvp(primals: Any, tangents: Any, **params: Any) -> Any:
        out = primitive.bind(*primals, **params)
        if all(type(t) is Zero for t in tangents):
            zeros = [Zero.from_primal_value(o) for o in (out if primitive.multiple_results else [out])]
            return out, zeros if primitive.multiple_results else zeros[0]
        return out, primitive.bind(*map(instantiate_zeros, tangents), **params)

    primitive_jvps[primitive] = jvp
    primitive_transposes[primitive] = transpose_rule


def deflinear(primitive: Any, transpose_rule: Callable[..., Any]) -> None:
    """As `deflinear2`, of `transpose_rule(cotangent, **params)`."""
    deflinear2(primitive, lambda cotangent, *operands, **params: transpose_rule(cotangent, **params))


def defbilinear(primitive: Any, lhs_rule: Callable[..., Any], rhs_rule: Callable[..., Any]) -> None:
    """A primitive that is linear in each of two operands.

    Parameters
    ----------
    primitive : Primitive
    lhs_rule : callable
        `lhs_rule(cotangent, x, y, **params)` gives the cotangent of `x`, which is an UndefinedPrimal then.
    rhs_rule : callable
        The same of `y`.

    Raises
    ------
    MissingRuleError
        (Later.) Something is linear in both operands at once.
    """
    defjvp(
        primitive,
        lambda t, x, y, **params: primitive.bind(t, y, **params),
        lambda t, x, y, **params: primitive.bind(x, t, **params),
    )

    def transpose(cotangent: Any, x: Any, y: Any, **params: Any) -> Any:
        if is_undefined_primal(x) is is_undefined_primal(y):
            raise errors.MissingRuleError(f"primitive {primitive} is linear in one operand at a time, not in both")
        if is_undefined_primal(x):
            return lhs_rule(cotangent, x, y, **params), None
        return None, rhs_rule(cotangent, x, y, **params)

    primitive_transposes[primitive] = transpose


def bdim_at_front(x: Any, bdim: int | None, size: int) -> Any:
    """`x` with its mapped axis first; one that has none gets one of this size.

    Parameters
    ----------
    x : array
    bdim : int or None
        The mapped axis.
    size : int

    Returns
    -------
    array[size, ...]
    """
    if bdim is None:
        return shape.broadcast_in_dim(x, (size, *aval_of(x).shape), tuple(range(1, aval_of(x).ndim + 1)))
    return shape.move_batch_axis(x, bdim, 0)


def defvectorized(primitive: Any) -> None:
    """A primitive of one operand that works element by element: mapping it is applying it."""
    primitive_batchers[primitive] = lambda operands, dims, **params: (primitive.bind(*operands, **params), dims[0])


def defbroadcasting(primitive: Any) -> None:
    """A primitive of operands of one shape that works element by element."""

    def batch(axis: Any, operands: Sequence[Any], dims: Sequence[Any], **params: Any) -> Any:
        moved = [bdim_at_front(x, d, axis.size) for x, d in zip(operands, dims, strict=True)]
        return primitive.bind(*moved, **params), 0

    fancy_primitive_batchers[primitive] = batch


def mapped_aval(size: int, axis: int | None, aval: Any) -> Any:
    """Type of one lane of an array that is mapped over `axis`.

    Parameters
    ----------
    size : int
        Number of lanes.
    axis : int or None
    aval : ShapedArray

    Returns
    -------
    ShapedArray
    """
    del size
    return aval if axis is None else aval.update(shape=(*aval.shape[:axis], *aval.shape[axis + 1 :]))


def unmapped_aval(size: int, axis: int | None, aval: Any) -> Any:
    """Type of `size` lanes, stacked at `axis`.

    Parameters
    ----------
    size : int
    axis : int or None
        None: all lanes are one.
    aval : ShapedArray
        Of one lane.

    Returns
    -------
    ShapedArray
    """
    return aval if axis is None else aval.update(shape=(*aval.shape[:axis], size, *aval.shape[axis:]))
