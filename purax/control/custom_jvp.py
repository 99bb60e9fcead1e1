# SPDX-License-Identifier: Apache-2.0
"""`custom_jvp`: forward-mode rules given by users; reverse mode follows by transposition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from purax import dtypes, errors, tree
from purax.control import refs
from purax.control.custom_rules import (
    BatchedFunction,
    CustomFunction,
    FlatFunction,
    Rule,
    SymbolicZero,
    as_program,
    called,
    explicit_tangent,
)
from purax.control.program import build
from purax.core.axes import Axis
from purax.core.interpret import eval_jaxpr, reference_eval
from purax.core.primitive import Primitive
from purax.core.trace import aval_of
from purax.primitives import shape
from purax.primitives.base import is_differentiable, zeros_of
from purax.transforms.flat import name_of
from purax.transforms.transpose import backward_pass
from purax.transforms.vmap import batch_flat, batch_jaxpr, to_front

__all__ = ["custom_jvp", "custom_jvp_call_p"]


class _JvpRule(Rule):
    """The user's jvp rule on leaves: `(primals, tangents) -> (outputs, output tangents)`."""

    def __init__(self, jvp: Any, flat: FlatFunction, symbolic: bool) -> None:
        super().__init__(jvp, flat, symbolic)
        self.jvp, self.flat, self.symbolic = jvp, flat, symbolic

    def __call__(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        if self.symbolic:
            given = [SymbolicZero(aval_of(p)) if t is None else t for t, p in zip(tangents, primals, strict=True)]
        else:
            given = [explicit_tangent(t, p) for t, p in zip(tangents, primals, strict=True)]
        in_tree = self.flat.in_tree
        args = [v for _, v in self.flat.static]
        args += [tuple(in_tree.unflatten(primals)), tuple(in_tree.unflatten(given))]
        result = called(f"custom JVP rule of {self.flat.__name__}", self.jvp, args)
        if not isinstance(result, (tuple, list)) or len(result) != 2:
            raise TypeError(
                f"Custom JVP rule {name_of(self.jvp)} for function {self.flat.__name__} must produce a pair (list or tuple of length two) "
                f"representing primal and tangent outputs, but got {result!r}."
            )
        outs, out_tree = tree.flatten(result[0])
        out_tangents, tangent_tree = tree.flatten(result[1], is_leaf=lambda x: type(x) is SymbolicZero)
        if tangent_tree != out_tree:
            raise TypeError(
                f"Custom JVP rule {name_of(self.jvp)} for function {self.flat.__name__} must produce primal and tangent outputs with equal "
                f"container (pytree) structures, but got {out_tree} and {tangent_tree} respectively."
            )
        if self.flat.out_tree is not None and out_tree != self.flat.out_tree:
            raise TypeError(
                f"Custom JVP rule {name_of(self.jvp)} for function {self.flat.__name__} must produce a pair (list or tuple of length two) where "
                f"the first element represents the primal output (equal in value to the output of the custom_jvp-decorated function "
                f"{self.flat.__name__}, and in particular of the same container/pytree structure), but instead the JVP rule output's first element "
                f"had container/pytree structure:\n    {out_tree}\nwhile the function had output container/pytree structure:\n    {self.flat.out_tree}."
            )
        self.flat.rule_tree = out_tree
        return outs, [_checked_tangent(t, o, self) for t, o in zip(out_tangents, outs, strict=True)]


def _checked_tangent(tangent: Any, out: Any, rule: Any) -> Any:
    aval = aval_of(out)
    if (
        type(tangent) is SymbolicZero
        or getattr(tangent, "dtype", None) == dtypes.float0
        or not is_differentiable(aval.dtype)
    ):
        return None
    given = aval_of(tangent)
    if given.shape != aval.shape or (given.dtype != aval.dtype and not given.weak_type):
        raise TypeError(
            f"Custom JVP rule {name_of(rule.jvp)} for function {rule.flat.__name__} must produce primal and tangent outputs with corresponding "
            f"shapes and dtypes. Expected {aval.str_short()} but got {given.str_short()}."
        )
    return tangent


class CustomJvpCall(Primitive):
    """Call of a function with a jvp rule. `fun` is callable (eager) or None; then `jaxpr` is the function, constants first."""

    types_axes = True
    types_spread = True

    def run(self, operands: tuple[Any, ...], params: dict[str, Any]) -> tuple[Any, ...]:
        """Run the function."""
        if params["jaxpr"] is not None:
            return tuple(eval_jaxpr(params["jaxpr"], (), *operands))
        return tuple(params["fun"](*operands))

    def unfold(self, operands: tuple[Any, ...], params: dict[str, Any]) -> tuple[Any, ...] | None:
        """The operations of the function, where it is called on tangents: it is linear then, and needs no rule."""
        return None if params["jaxpr"] is not None else tuple(params["fun"](*operands))

    def stage(self, trace: Any, operands: tuple[Any, ...], params: dict[str, Any]) -> tuple[Any, ...]:
        """Record the function as a program, with its rule."""
        operands, params = as_program(params, operands, "custom_jvp")
        return trace.record(self, operands, params)

    def infer(self, *avals: Any, fun: Any, jaxpr: Any, rule: Any, consts: int) -> Any:
        """Types of the outputs of the program."""
        return jaxpr.out_avals

    def effects(self, params: dict[str, Any]) -> frozenset[Any]:
        """Effects of the program; a function that is not recorded yet has none of its own."""
        return params["jaxpr"].effects if params["jaxpr"] is not None else frozenset()

    def reference(self, *operands: Any, fun: Any, jaxpr: Any, rule: Any, consts: int) -> Any:
        """The program by its references."""
        return tuple(reference_eval(jaxpr, (), *operands))

    def jvp(self, primals: Any, tangents: Any, *, fun: Any, jaxpr: Any, rule: Any, consts: int) -> Any:
        """The user's rule."""
        if any(t is not None for t in tangents[:consts]):
            raise errors.UnexpectedTracerError(
                f"custom_jvp function {rule.flat.__name__} closes over a value that is being differentiated; pass it as an argument."
            )
        return rule(primals[consts:], tangents[consts:])

    def transpose(self, cotangents: Any, operands: Any, *, fun: Any, jaxpr: Any, rule: Any, consts: int) -> Any:
        """Transpose of the function itself."""
        if jaxpr is None:
            avals = [aval_of(x) for x in operands]
            jaxpr = build(fun, avals, fun.__name__)
        return tuple(backward_pass(jaxpr, operands, cotangents))

    def batch_call(self, trace: Any, operands: Any, dims: Any, params: dict[str, Any]) -> Any:
        """Call of the mapped function with the mapped rule, which may close over values of the mapping."""
        mapped = BatchedFunction(params["fun"], trace.axis, dims, trace.tag)
        rule = _BatchedJvp(params["rule"], trace.axis, dims, mapped)
        outs = self.bind(*operands, **{**params, "fun": mapped, "rule": rule})
        return outs, mapped.out_dims

    def batch(self, axis: Any, operands: Any, dims: Any, *, fun: Any, jaxpr: Any, rule: Any, consts: int) -> Any:
        """Call of the mapped program with the mapped rule."""
        everything = tuple([True] * len(jaxpr.outvars))
        moved = [x if d is None else shape.move_batch_axis(x, d, 0) for x, d in zip(operands, dims, strict=True)]
        mapped, _ = batch_jaxpr(jaxpr, axis, tuple([d is not None for d in dims]), everything)
        rule = _BatchedJvp(rule, axis, tuple([None if d is None else 0 for d in dims[consts:]]))
        outs = self.bind(*moved, fun=None, jaxpr=mapped, rule=rule, consts=consts)
        return outs, tuple([0] * len(outs))

    def lower(self, b: Any, ins: Any, outs: Any, *, fun: Any, jaxpr: Any, rule: Any, consts: int) -> Any:
        """The program in place."""
        return b.jaxpr(jaxpr, ins)


class _BatchedJvp(Rule):
    """A jvp rule, mapped. For a function under way it tells which outputs are mapped; for a program all are."""

    def __init__(self, rule: Any, axis: Axis, dims: Any, mapped: BatchedFunction | None = None) -> None:
        super().__init__(rule, axis, dims)
        self.rule, self.axis, self.dims, self.mapped = rule, axis, dims, mapped
        self.flat = rule.flat

    def __call__(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        nonzero = [t is not None for t in tangents]
        mask: list[bool] = []

        def both(*values: Any) -> list[Any]:
            rest = iter(values[len(primals) :])
            outs, out_tangents = self.rule(values[: len(primals)], [next(rest) if n else None for n in nonzero])
            mask[:] = [t is not None for t in out_tangents]
            return [*outs, *(t for t in out_tangents if t is not None)]

        given = [t for t in tangents if t is not None]
        dims = [*self.dims, *(d for d, n in zip(self.dims, nonzero, strict=True) if n)]
        results, out_dims = batch_flat(
            both, self.axis, [*primals, *given], dims, None if self.mapped is None else self.mapped.tag
        )
        count = len(mask)
        rest = iter(zip(results[count:], out_dims[count:], strict=True))
        outs, out_tangents, found = [], [], []
        for out, dim, m in zip(results[:count], out_dims[:count], mask, strict=True):
            tangent, tangent_dim = next(rest) if m else (None, None)
            batched = self.mapped is None or dim is not None or tangent_dim is not None
            outs.append(to_front(out, dim, self.axis.size) if batched else out)
            out_tangents.append(to_front(tangent, tangent_dim, self.axis.size) if batched and m else tangent)
            found.append(0 if batched else None)
        if self.mapped is not None:
            self.mapped.out_dims = tuple(found)
        return outs, out_tangents


custom_jvp_call_p = CustomJvpCall("custom_jvp_call")


class custom_jvp(CustomFunction):
    """Give a function its own forward-mode rule (reverse mode follows by transposition).

    Parameters
    ----------
    fun : callable
    nondiff_argnums : int or sequence of int
        Arguments that are not differentiated, such as functions; the rule gets them first.

    Examples
    --------
    ``@custom_jvp`` on ``f``, then ``@f.defjvp`` on ``def rule(primals, tangents): ... return f(*primals), tangent``.
    """

    jvp: Any = None
    symbolic_zeros = False

    def defjvp(self, jvp: Callable[..., Any], symbolic_zeros: bool = False) -> Callable[..., Any]:
        """Set the rule `(primals, tangents) -> (output, output tangent)`."""
        self.jvp, self.symbolic_zeros = jvp, symbolic_zeros
        return jvp

    def defjvps(self, *jvps: Callable[..., Any] | None) -> None:
        """Set one rule per argument, `(tangent, output, *primals) -> output tangent`; None: the argument has no influence."""
        if self.nondiff_argnums:
            raise TypeError("Can't use ``defjvps`` with ``nondiff_argnums``.")

        def rule(primals: Any, tangents: Any) -> Any:
            out = self(*primals)
            pieces = [j(t, out, *primals) for j, t in zip(jvps, tangents, strict=True) if j is not None]
            total = tree.map(lambda o: zeros_of(aval_of(o).strip_weak()), out)
            for piece in pieces:
                total = tree.map(lambda a, b: a + b, total, piece)
            return out, total

        self.defjvp(rule)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        if self.jvp is None:
            raise AttributeError(f"No JVP defined for custom_jvp function {name_of(self.fun)} using defjvp.")
        leaves, static, in_tree = self._resolve(args, kwargs)
        if any(map(refs.is_ref, leaves)):
            rule = refs.unburied(self.jvp)
            return self._with_buried_refs(lambda other: other.defjvp(rule, self.symbolic_zeros), args, kwargs)
        flat = FlatFunction(self.fun, in_tree, tuple(static))
        outs = custom_jvp_call_p.bind(
            *leaves, fun=flat, jaxpr=None, rule=_JvpRule(self.jvp, flat, self.symbolic_zeros), consts=0
        )
        return self.out_tree(flat, leaves).unflatten(outs)
