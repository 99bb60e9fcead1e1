# SPDX-License-Identifier: Apache-2.0
"""Derivative rules given by users: `custom_jvp` and `custom_vjp`.

In eager code the primitives below carry callables, so the user's function may look at values. Under `jit` and in loop bodies the
function becomes a program and the rules stay callables, wrapped in objects that are equal when the user's rule is.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from purax import dtypes, errors, tree
from purax.control.program import build
from purax.core.axes import Axis
from purax.core.interpret import eval_jaxpr, reference_eval
from purax.core.ir import intern, open_constants
from purax.core.primitive import Linear, Primitive, Undefined
from purax.core.stage import stage
from purax.core.trace import Tracer, aval_of
from purax.primitives import cast, reduction, shape
from purax.primitives.base import instantiate, is_differentiable, is_linear, zeros_of
from purax.transforms.flat import float0_zeros, name_of
from purax.transforms.transpose import backward_pass
from purax.transforms.vmap import batch_flat, batch_jaxpr, batched_function, to_front

__all__ = ["closure_convert", "custom_gradient", "custom_jvp", "custom_vjp"]


# --- rules as values --------------------------------------------------------------------------------------------------------


class _Rule:
    """A flat callable that is equal to another made of the same parts."""

    def __init__(self, *parts: Any) -> None:
        self.parts = parts
        try:
            self._hash = hash(parts)
        except TypeError:  # a part cannot be hashed: equal to itself only
            self.parts = (object(),)
            self._hash = id(self)
        self.__name__ = type(self).__name__.lower().strip("_")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.parts == other.parts  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return self._hash


class _Flat(_Rule):
    """The user's function on leaves; remembers the structure of its output."""

    def __init__(self, fun: Any, in_tree: Any, static: Any, extra: Any = None) -> None:
        super().__init__(fun, in_tree, static, extra)
        self.fun, self.in_tree, self.static = fun, in_tree, static
        self.out_tree: Any = None
        self.__name__ = name_of(fun)

    def arguments(self, leaves: Sequence[Any]) -> list[Any]:
        """All arguments, the non-differentiated ones in their places."""
        return _insert(list(self.in_tree.unflatten(leaves)), self.static)

    def __call__(self, *leaves: Any) -> list[Any]:
        outs, self.out_tree = tree.flatten(self.fun(*self.arguments(leaves)))
        return outs


class _JvpRule(_Rule):
    """The user's jvp rule on leaves: `(primals, tangents) -> (outputs, output tangents)`."""

    def __init__(self, jvp: Any, flat: _Flat, symbolic: bool) -> None:
        super().__init__(jvp, flat, symbolic)
        self.jvp, self.flat, self.symbolic = jvp, flat, symbolic

    def __call__(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        if self.symbolic:
            given = [SymbolicZero(aval_of(p)) if t is None else t for t, p in zip(tangents, primals, strict=True)]
        else:
            given = [_explicit(t, p) for t, p in zip(tangents, primals, strict=True)]
        in_tree = self.flat.in_tree
        result = self.jvp(*[v for _, v in self.flat.static], tuple(in_tree.unflatten(primals)), tuple(in_tree.unflatten(given)))
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
        return outs, [_checked_tangent(t, o, self) for t, o in zip(out_tangents, outs, strict=True)]


def _checked_tangent(tangent: Any, out: Any, rule: Any) -> Any:
    aval = aval_of(out)
    if type(tangent) is SymbolicZero or getattr(tangent, "dtype", None) == dtypes.float0 or not is_differentiable(aval.dtype):
        return None
    given = aval_of(tangent)
    if given.shape != aval.shape or (given.dtype != aval.dtype and not given.weak_type):
        raise TypeError(
            f"Custom JVP rule {name_of(rule.jvp)} for function {rule.flat.__name__} must produce primal and tangent outputs with corresponding "
            f"shapes and dtypes. Expected {aval.str_short()} but got {given.str_short()}."
        )
    return tangent


def _explicit(tangent: Any, primal: Any) -> Any:
    aval = aval_of(primal)
    return instantiate(tangent, primal) if is_differentiable(aval.dtype) else float0_zeros(aval.shape)


class SymbolicZero:
    """A tangent or cotangent known to be zero, given to rules that ask for symbolic zeros."""

    def __init__(self, aval: Any) -> None:
        self.aval = aval if is_differentiable(aval.dtype) else aval.update(dtype=dtypes.float0)
        self.shape, self.dtype = self.aval.shape, self.aval.dtype

    def __repr__(self) -> str:
        return f"SymbolicZero({self.aval.str_short()})"


def _insert(args: list[Any], static: Sequence[tuple[int, Any]]) -> list[Any]:
    for position, value in static:
        args.insert(position, value)
    return args


# --- forward rules ------------------------------------------------------------------------------------------------------------


class CustomJvpCall(Primitive):
    """Call of a function with a jvp rule. `fun` is callable (eager) or None; then `jaxpr` is the function, constants first."""

    types_axes = True

    def run(self, operands: tuple[Any, ...], params: dict[str, Any]) -> tuple[Any, ...]:
        """Run the function."""
        if params["jaxpr"] is not None:
            return tuple(eval_jaxpr(params["jaxpr"], (), *operands))
        return tuple(params["fun"](*operands))

    def stage(self, trace: Any, operands: tuple[Any, ...], params: dict[str, Any]) -> tuple[Any, ...]:
        """Record the function as a program, with its rule."""
        if params["jaxpr"] is None:
            closed = stage(params["fun"], [aval_of(x) for x in operands], params["fun"].__name__, kind="custom_jvp")
            jaxpr, consts = open_constants(closed)
            operands = (*consts, *operands)
            params = {"fun": None, "jaxpr": intern(jaxpr), "rule": params["rule"], "consts": len(consts)}
        return trace.record(self, operands, params)  # type: ignore[no-any-return]

    def infer(self, *avals: Any, fun: Any, jaxpr: Any, rule: Any, consts: int) -> Any:
        """Types of the outputs of the program."""
        return jaxpr.out_avals

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

    def batch(self, axis: Any, operands: Any, dims: Any, *, fun: Any, jaxpr: Any, rule: Any, consts: int) -> Any:
        """Call of the mapped function with the mapped rule."""
        mapped_rule = _BatchedJvp(rule, axis, dims[consts:])
        if jaxpr is None:
            mapped = _BatchedFun(fun, axis, dims)
            outs = self.bind(*operands, fun=mapped, jaxpr=None, rule=mapped_rule, consts=consts)
            return outs, tuple([0] * len(outs))
        everything = tuple([True] * len(jaxpr.outvars))
        moved = [x if d is None else shape.move_batch_axis(x, d, 0) for x, d in zip(operands, dims, strict=True)]
        mapped_jaxpr, _ = batch_jaxpr(jaxpr, axis, tuple([d is not None for d in dims]), everything)
        mapped_rule = _BatchedJvp(rule, axis, tuple([None if d is None else 0 for d in dims[consts:]]))
        outs = self.bind(*moved, fun=None, jaxpr=mapped_jaxpr, rule=mapped_rule, consts=consts)
        return outs, tuple([0] * len(outs))

    def lower(self, b: Any, ins: Any, outs: Any, *, fun: Any, jaxpr: Any, rule: Any, consts: int) -> Any:
        """The program in place."""
        return b.jaxpr(jaxpr, ins)


class _BatchedFun(_Rule):
    def __init__(self, fun: Any, axis: Axis, dims: Any) -> None:
        super().__init__(fun, axis, dims)
        self.mapped = batched_function(fun, axis, dims)
        self.__name__ = fun.__name__

    def __call__(self, *operands: Any) -> list[Any]:
        return self.mapped(*operands)


class _BatchedJvp(_Rule):
    def __init__(self, rule: Any, axis: Axis, dims: Any) -> None:
        super().__init__(rule, axis, dims)
        self.rule, self.axis, self.dims = rule, axis, dims
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
        results, out_dims = batch_flat(both, self.axis, [*primals, *given], dims)
        front = [to_front(r, d, self.axis.size) for r, d in zip(results, out_dims, strict=True)]
        rest = iter(front[len(mask) :])
        return front[: len(mask)], [next(rest) if m else None for m in mask]


custom_jvp_call_p = CustomJvpCall("custom_jvp_call")


# --- backward rules -----------------------------------------------------------------------------------------------------------


class _VjpRule(_Rule):
    """The user's forward and backward functions on leaves."""

    def __init__(self, forward: Any, backward: Any, flat: _Flat, symbolic: bool) -> None:
        super().__init__(forward, backward, flat, symbolic)
        self.forward, self.backward, self.flat, self.symbolic = forward, backward, flat, symbolic

    def run_forward(self, primals: Sequence[Any], perturbed: Sequence[bool]) -> tuple[list[Any], list[Any], Any]:
        """Outputs, array residuals, and how to put the residuals together again."""
        given = primals
        if self.symbolic:
            given = [CustomVJPPrimal(p, m) for p, m in zip(primals, perturbed, strict=True)]
        result = self.forward(*self.flat.arguments(given))
        if not isinstance(result, (tuple, list)) or len(result) != 2:
            raise TypeError(
                f"Custom VJP fwd rule {name_of(self.forward)} for function {self.flat.__name__} must produce a pair (list or tuple of length two) "
                f"where the first element represents the primal output and the second element represents residuals (i.e. values stored from "
                f"the forward pass for use on the backward pass), but got {result!r}."
            )
        outs, out_tree = tree.flatten(result[0])
        if self.flat.out_tree is not None and self.flat.out_tree != out_tree:
            raise TypeError(
                f"Custom VJP fwd rule {name_of(self.forward)} for function {self.flat.__name__} must produce a pair (list or tuple of length two) "
                f"where the first element represents the primal output (equal to the output of the custom_vjp-decorated function "
                f"{self.flat.__name__}) of structure {self.flat.out_tree}, but got {out_tree}."
            )
        self.flat.out_tree = out_tree
        leaves, residual_tree = tree.flatten(result[1])
        arrays = [_is_array(x) for x in leaves]
        rebuild = _Residuals(residual_tree, tuple(arrays), tuple([x for x, a in zip(leaves, arrays, strict=True) if not a]), out_tree)
        return outs, [x for x, a in zip(leaves, arrays, strict=True) if a], rebuild

    def run_backward(self, residuals: Any, values: Sequence[Any], cotangents: Sequence[Any], out_avals: Sequence[Any], in_avals: Sequence[Any]) -> list[Any]:
        """Cotangents of the leaves of the arguments (None where zero)."""
        if self.symbolic:
            given = [SymbolicZero(a) if c is None else c for c, a in zip(cotangents, out_avals, strict=True)]
        else:
            given = [
                c if c is not None else zeros_of(a.strip_weak()) if is_differentiable(a.dtype) else float0_zeros(a.shape)
                for c, a in zip(cotangents, out_avals, strict=True)
            ]
        out = self.backward(*[v for _, v in self.flat.static], residuals.unflatten(values), residuals.out_tree.unflatten(given))
        return self._flat_cotangents(out, in_avals)

    def _flat_cotangents(self, out: Any, in_avals: Sequence[Any]) -> list[Any]:
        in_tree = self.flat.in_tree
        name = f"Custom VJP bwd rule {name_of(self.backward)} for function {self.flat.__name__}"
        if isinstance(out, list) and len(out) == in_tree.num_leaves and len(tree.treedef_children(in_tree)) == len(out):
            out = tuple(out)
        if not isinstance(out, tuple) or len(out) != len(tree.treedef_children(in_tree)):
            raise TypeError(
                f"{name} must produce a tuple of length equal to the primal args tuple, but the bwd output {out!r} has "
                f"{'length ' + str(len(out)) if isinstance(out, (tuple, list)) else 'type ' + type(out).__name__}, "
                f"whereas {len(tree.treedef_children(in_tree))} were expected."
            )
        flat: list[Any] = []
        for child, value in zip(tree.treedef_children(in_tree), out, strict=True):
            try:
                entries = tree.flatten_axes(name, child, value)
            except errors.TreeMismatchError:
                raise TypeError(
                    f"{name} must produce an output with the same container (pytree) structure as the args tuple of the primal "
                    f"function, and in particular must produce a tuple of length equal to the number of arguments to the primal "
                    f"function, but got output structure {tree.structure(value)} for an argument of structure {child}."
                ) from None
            flat += [_nothing_if_zero(e) for e in entries]
        for i, (c, a) in enumerate(zip(flat, in_avals, strict=True)):
            if c is None or not is_differentiable(a.dtype):
                flat[i] = None
                continue
            have = aval_of(c)
            if have.shape != a.shape:
                raise ValueError(
                    f"{name} must produce cotangents with the shapes of the primal inputs, but output {i} is "
                    f"{have.str_short()} where the input is {a.str_short()}."
                )
            if have.dtype != a.dtype or have.weak_type:
                flat[i] = cast.convert_element_type(c, a.dtype)
        return flat


def _nothing_if_zero(x: Any) -> Any:
    return None if type(x) is SymbolicZero or getattr(x, "dtype", None) == dtypes.float0 else x


def _is_array(x: Any) -> bool:
    try:
        aval_of(x)
    except TypeError:
        return False
    return True


class CustomVJPPrimal:
    """Argument of a forward rule that asks for symbolic zeros: the value, and whether it is differentiated."""

    def __init__(self, value: Any, perturbed: bool) -> None:
        self.value, self.perturbed = value, perturbed


class _Residuals(_Rule):
    """How the leaves saved by a forward rule go back into the user's structure; leaves that are no arrays stay as they are."""

    def __init__(self, residual_tree: Any, arrays: tuple[bool, ...], others: tuple[Any, ...], out_tree: Any) -> None:
        super().__init__(residual_tree, arrays, others, out_tree)
        self.residual_tree, self.arrays, self.others, self.out_tree = residual_tree, arrays, others, out_tree

    def unflatten(self, values: Sequence[Any]) -> Any:
        """The residuals as the user made them."""
        rest, others = iter(values), iter(self.others)
        return self.residual_tree.unflatten([next(rest) if a else next(others) for a in self.arrays])


class CustomVjpCall(Primitive):
    """Call of a function with forward and backward rules; see CustomJvpCall."""

    types_axes = True

    run = CustomJvpCall.run
    transpose = Undefined("the derivative of a custom_vjp function is given by its rules")

    def stage(self, trace: Any, operands: tuple[Any, ...], params: dict[str, Any]) -> tuple[Any, ...]:
        """Record the function as a program, with its rules."""
        if params["jaxpr"] is None:
            closed = stage(params["fun"], [aval_of(x) for x in operands], params["fun"].__name__, kind="custom_vjp")
            jaxpr, consts = open_constants(closed)
            operands = (*consts, *operands)
            params = {"fun": None, "jaxpr": intern(jaxpr), "rule": params["rule"], "consts": len(consts)}
        return trace.record(self, operands, params)  # type: ignore[no-any-return]

    def infer(self, *avals: Any, fun: Any, jaxpr: Any, rule: Any, consts: int) -> Any:
        """Types of the outputs of the program."""
        return jaxpr.out_avals

    def reference(self, *operands: Any, fun: Any, jaxpr: Any, rule: Any, consts: int) -> Any:
        """The program by its references."""
        return tuple(reference_eval(jaxpr, (), *operands))

    def _forward(self, primals: Any, tangents: Any, rule: Any, consts: int) -> Any:
        if any(t is not None for t in tangents[:consts]):
            raise errors.UnexpectedTracerError(
                f"custom_vjp function {rule.flat.__name__} closes over a value that is being differentiated; pass it as an argument."
            )
        return rule.run_forward(primals[consts:], [t is not None for t in tangents[consts:]])

    def jvp(self, primals: Any, tangents: Any, *, fun: Any, jaxpr: Any, rule: Any, consts: int) -> Any:
        """Forward mode from the backward rule: its transpose, which is the derivative again."""
        outs, residuals, rebuild = self._forward(primals, tangents, rule, consts)
        return self._with_tangents(outs, residuals, rebuild, primals, tangents, rule, consts)

    def _with_tangents(self, outs: Any, residuals: Any, rebuild: Any, primals: Any, tangents: Any, rule: Any, consts: int) -> Any:
        operands = primals[consts:]
        given = tangents[consts:]
        out_avals = tuple([aval_of(o) for o in outs])
        mask = tuple([t is not None for t in given])
        results = custom_linear_p.bind(
            *residuals, *[t for t in given if t is not None], rule=rule, rebuild=rebuild, mask=mask,
            in_avals=tuple([aval_of(x) for x in operands]), out_avals=out_avals,
        )  # fmt: skip
        rest = iter(results)
        return tuple(outs), tuple([next(rest) if is_differentiable(a.dtype) else None for a in out_avals])

    def batch(self, axis: Any, operands: Any, dims: Any, *, fun: Any, jaxpr: Any, rule: Any, consts: int) -> Any:
        """Call of the mapped function with the mapped rules."""
        if jaxpr is None:
            outs = self.bind(
                *operands, fun=_BatchedFun(fun, axis, dims), jaxpr=None, rule=_BatchedVjp(rule, axis, dims), consts=0
            )
            return outs, tuple([0] * len(outs))
        everything = tuple([True] * len(jaxpr.outvars))
        moved = [x if d is None else shape.move_batch_axis(x, d, 0) for x, d in zip(operands, dims, strict=True)]
        front = tuple([None if d is None else 0 for d in dims])
        mapped, _ = batch_jaxpr(jaxpr, axis, tuple([d is not None for d in dims]), everything)
        outs = self.bind(*moved, fun=None, jaxpr=mapped, rule=_BatchedVjp(rule, axis, front[consts:]), consts=consts)
        return outs, tuple([0] * len(outs))

    def lower(self, b: Any, ins: Any, outs: Any, *, fun: Any, jaxpr: Any, rule: Any, consts: int) -> Any:
        """The program in place."""
        return b.jaxpr(jaxpr, ins)


class CustomLinear(Primitive):
    """The derivative given by a backward rule: `(residuals, tangents) -> output tangents`, linear in the tangents."""

    def infer(self, *avals: Any, rule: Any, rebuild: Any, mask: Any, in_avals: Any, out_avals: Any) -> Any:
        """Tangent types of the outputs."""
        return tuple([a.strip_weak() for a in out_avals if is_differentiable(a.dtype)])

    def _program(self, values: Sequence[Any], rule: Any, rebuild: Any, mask: Any, in_avals: Any, out_avals: Any) -> Any:
        """The backward rule as a program: `(residuals, cotangents) -> cotangents of the tangents given`."""
        count = len(values)

        def backward(*xs: Any) -> list[Any]:
            rest = iter(xs[count:])
            cotangents = [next(rest) if is_differentiable(a.dtype) else None for a in out_avals]
            found = rule.run_backward(rebuild, xs[:count], cotangents, out_avals, in_avals)
            return [zeros_of(a.strip_weak()) if c is None else c for c, a, m in zip(found, in_avals, mask, strict=True) if m]

        avals = [aval_of(v) for v in values]
        avals += [a.strip_weak() for a in out_avals if is_differentiable(a.dtype)]
        return open_constants(stage(backward, avals, rule.flat.__name__, kind="custom_vjp"))

    def _apply(self, operands: Sequence[Any], *, rule: Any, rebuild: Any, mask: Any, in_avals: Any, out_avals: Any) -> list[Any]:
        count = len(operands) - sum(mask)
        values, tangents = operands[:count], operands[count:]
        jaxpr, consts = self._program(values, rule, rebuild, mask, in_avals, out_avals)
        outs = [a.strip_weak() for a in out_avals if is_differentiable(a.dtype)]
        results = backward_pass(jaxpr, [*consts, *values, *(Linear(a) for a in outs)], tangents)[len(consts) + count :]
        return [zeros_of(a) if c is None else c for c, a in zip(results, outs, strict=True)]

    def run(self, operands: tuple[Any, ...], params: dict[str, Any]) -> tuple[Any, ...]:
        """Push tangents forward by transposing the backward rule."""
        return tuple(self._apply(operands, **params))

    def stage(self, trace: Any, operands: tuple[Any, ...], params: dict[str, Any]) -> tuple[Any, ...]:
        """In a program the transposed rule is written out."""
        return tuple(self._apply(operands, **params))

    def reference(self, *operands: Any, **params: Any) -> Any:
        """As `run`."""
        return tuple([np.asarray(x) for x in self._apply(operands, **params)])

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> Any:
        """Derivative of the written-out form."""
        from_forward = [*self._apply(primals, **params)]
        count = len(primals) - sum(params["mask"])
        if any(t is not None for t in tangents[:count]):
            raise NotImplementedError("custom_vjp: derivative of a forward-mode derivative with respect to its residuals")
        given = [instantiate(t, p) for t, p in zip(tangents[count:], primals[count:], strict=True)]
        return tuple(from_forward), tuple(self._apply([*primals[:count], *given], **params))

    def transpose(self, cotangents: Any, operands: Any, *, rule: Any, rebuild: Any, mask: Any, in_avals: Any, out_avals: Any) -> Any:
        """The user's backward rule."""
        count = len(operands) - sum(mask)
        rest = iter(cotangents)
        full = [next(rest) if is_differentiable(a.dtype) else None for a in out_avals]
        found = rule.run_backward(rebuild, operands[:count], full, out_avals, in_avals)
        kept = [c for c, m in zip(found, mask, strict=True) if m]
        return (*(None for _ in range(count)), *[c if is_linear(x) else None for c, x in zip(kept, operands[count:], strict=True)])

    def batch(self, axis: Any, operands: Any, dims: Any, **params: Any) -> Any:
        """Map the written-out form."""
        outs, out_dims = batch_flat(lambda *xs: self._apply(xs, **params), axis, operands, dims)
        return tuple(outs), tuple(out_dims)

    def lower(self, b: Any, ins: Any, outs: Any, **params: Any) -> Any:
        """The written-out form."""
        return b.inline(lambda *xs: self._apply(xs, **params), ins)


class _BatchedVjp(_Rule):
    """Forward and backward rules, mapped; residuals and outputs carry the axis in front."""

    def __init__(self, rule: Any, axis: Axis, dims: Any) -> None:
        super().__init__(rule, axis, dims)
        self.rule, self.axis, self.dims, self.flat = rule, axis, dims, rule.flat

    def run_forward(self, primals: Sequence[Any], perturbed: Sequence[bool]) -> tuple[list[Any], list[Any], Any]:
        """Mapped forward rule."""
        saved: list[Any] = []

        def forward(*xs: Any) -> list[Any]:
            outs, residuals, rebuild = self.rule.run_forward(xs, perturbed)
            saved[:] = [len(outs), rebuild, [aval_of(o) for o in outs], [aval_of(x) for x in xs]]
            return [*outs, *residuals]

        results, dims = batch_flat(forward, self.axis, primals, self.dims)
        count, rebuild, out_avals, in_avals = saved
        outs = [to_front(r, d, self.axis.size) for r, d in zip(results[:count], dims[:count], strict=True)]
        residuals = [r if d is None else shape.move_batch_axis(r, d, 0) for r, d in zip(results[count:], dims[count:], strict=True)]
        mapped = tuple([d is not None for d in dims[count:]])
        return outs, residuals, _BatchedResiduals(rebuild, mapped, tuple(out_avals), tuple(in_avals))

    def run_backward(self, residuals: Any, values: Sequence[Any], cotangents: Sequence[Any], out_avals: Sequence[Any], in_avals: Sequence[Any]) -> list[Any]:
        """Mapped backward rule; cotangents of arguments shared by all lanes are summed."""
        nonzero = [c is not None for c in cotangents]
        mask: list[bool] = []

        def backward(*xs: Any) -> list[Any]:
            rest = iter(xs[len(values) :])
            given = [next(rest) if n else None for n in nonzero]
            found = self.rule.run_backward(residuals.inner, xs[: len(values)], given, residuals.out_avals, residuals.in_avals)
            mask[:] = [c is not None for c in found]
            return [c for c in found if c is not None]

        given = [c for c in cotangents if c is not None]
        dims = [*(0 if m else None for m in residuals.mapped), *(0 for _ in given)]
        results, out_dims = batch_flat(backward, self.axis, [*values, *given], dims)
        front = iter([to_front(r, d, self.axis.size) for r, d in zip(results, out_dims, strict=True)])
        out = []
        for m, dim in zip(mask, self.dims, strict=True):
            if not m:
                out.append(None)
            elif dim is None:
                out.append(reduction.reduce_sum(next(front), (0,)))
            else:
                out.append(shape.move_batch_axis(next(front), 0, dim))
        return out


class _BatchedResiduals(_Rule):
    def __init__(self, inner: Any, mapped: Any, out_avals: Any, in_avals: Any) -> None:
        super().__init__(inner, mapped, out_avals, in_avals)
        self.inner, self.mapped, self.out_avals, self.in_avals = inner, mapped, out_avals, in_avals


custom_vjp_call_p = CustomVjpCall("custom_vjp_call")
custom_linear_p = CustomLinear("custom_linear")


# --- the decorators -------------------------------------------------------------------------------------------------------------


class _Custom:
    """What both decorators share: resolution of arguments, the non-differentiated ones apart."""

    def __init__(self, fun: Callable[..., Any], nondiff_argnums: Sequence[int] = (), nondiff_argnames: Sequence[str] = ()) -> None:
        self.fun = fun
        nums = (nondiff_argnums,) if isinstance(nondiff_argnums, int) else tuple(nondiff_argnums)
        names = (nondiff_argnames,) if isinstance(nondiff_argnames, str) else tuple(nondiff_argnames)
        self.signature = _signature(fun)
        if self.signature is not None and names:
            order = list(self.signature.parameters)
            nums = (*nums, *(order.index(n) for n in names))
        self.nondiff_argnums = tuple(sorted(set(nums)))
        for field in ("__name__", "__qualname__", "__doc__", "__module__"):
            if hasattr(fun, field):
                setattr(self, field, getattr(fun, field))
        self.__wrapped__ = fun

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else _Method(self, instance)

    def _resolve(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], list[tuple[int, Any]], Any]:
        args = _positional(self.signature, args, kwargs, self.fun)
        count = len(args)
        positions = {n + count if n < 0 else n for n in self.nondiff_argnums}
        static = [(i, args[i]) for i in sorted(positions) if i < count]
        for i, value in static:
            if isinstance(value, Tracer) and type(self) is custom_vjp:
                raise errors.UnexpectedTracerError(
                    f"Found a JAX Tracer object passed as an argument to a custom_vjp function in a position indicated by nondiff_argnums as "
                    f"non-differentiable: argument {i} of {name_of(self.fun)}. Tracers cannot be passed as non-differentiable arguments to "
                    "custom_vjp functions; instead, nondiff_argnums should only be used for arguments that can't be or contain tracers, "
                    "e.g. function-valued arguments. Return None for its cotangent instead."
                )
        leaves, in_tree = tree.flatten(tuple(a for i, a in enumerate(args) if i not in positions))
        return leaves, static, in_tree


class _Method:
    """A custom-derivative method bound to its instance, which is not differentiated unless it is a pytree of arrays."""

    def __init__(self, function: Any, instance: Any) -> None:
        self.function, self.__self__ = function, instance
        self.__name__ = name_of(function.fun)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(self.__self__, *args, **kwargs)


def _signature(fun: Any) -> inspect.Signature | None:
    try:
        return inspect.signature(fun)
    except (TypeError, ValueError):
        return None


def _positional(signature: Any, args: tuple[Any, ...], kwargs: dict[str, Any], fun: Any) -> tuple[Any, ...]:
    """Arguments by position, defaults filled in."""
    if signature is None:
        if kwargs:
            raise TypeError(f"{name_of(fun)}: keyword arguments of a function with custom derivatives need a signature")
        return args
    if any(p.kind in (p.KEYWORD_ONLY, p.VAR_KEYWORD) for p in signature.parameters.values()) and kwargs:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        if bound.kwargs:
            raise TypeError(
                f"The following keyword arguments could not be resolved to positions: {', '.join(bound.kwargs)} of {name_of(fun)}; "
                "functions with custom derivatives take their arguments by position."
            )
        return bound.args
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.args


class custom_jvp(_Custom):  # noqa: N801 (public name)
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
        flat = _Flat(self.fun, in_tree, tuple(static))
        outs = custom_jvp_call_p.bind(
            *leaves, fun=flat, jaxpr=None, rule=_JvpRule(self.jvp, flat, self.symbolic_zeros), consts=0
        )
        return flat_out_tree(flat, leaves).unflatten(outs)


class custom_vjp(_Custom):  # noqa: N801 (public name)
    """Give a function its own reverse-mode rule; forward mode is derived from it.

    Parameters
    ----------
    fun : callable
    nondiff_argnums : int or sequence of int
        Arguments that are not differentiated; the backward rule gets them first.

    Examples
    --------
    ``f.defvjp(forward, backward)`` with ``forward(*args) -> (output, residuals)`` and
    ``backward(residuals, cotangent) -> tuple of cotangents``.
    """

    forward: Any = None
    backward: Any = None
    symbolic_zeros = False

    def defvjp(self, fwd: Callable[..., Any], bwd: Callable[..., Any], symbolic_zeros: bool = False, optimize_remat: bool = False) -> None:
        """Set the forward and backward rules."""
        del optimize_remat
        self.forward, self.backward, self.symbolic_zeros = fwd, bwd, symbolic_zeros

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        if self.forward is None or self.backward is None:
            raise AttributeError(f"No VJP defined for custom_vjp function {name_of(self.fun)} using defvjp.")
        leaves, static, in_tree = self._resolve(args, kwargs)
        flat = _Flat(self.fun, in_tree, tuple(static))
        rule = _VjpRule(self.forward, self.backward, flat, self.symbolic_zeros)
        outs = custom_vjp_call_p.bind(*leaves, fun=flat, jaxpr=None, rule=rule, consts=0)
        return flat_out_tree(flat, leaves).unflatten(outs)


def flat_out_tree(flat: _Flat, leaves: Sequence[Any]) -> Any:
    """Structure of the output; found by tracing when only the user's rule has run."""
    if flat.out_tree is None:
        stage(flat, [aval_of(x) for x in leaves], flat.__name__)
    return flat.out_tree


def custom_gradient(fun: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator for a function that returns its output and the function that pulls cotangents back."""

    def primal(*args: Any) -> Any:
        return fun(*args)[0]

    def forward(*args: Any) -> Any:
        out, pullback = fun(*args)
        saved_out, out_tree = tree.flatten(out)
        cotangents = [aval_of(o) for o in saved_out]
        leaves_tree = None

        def flat(*cts: Any) -> list[Any]:
            nonlocal leaves_tree
            result = pullback(out_tree.unflatten(cts))
            result = result if isinstance(result, tuple) else (result,)
            leaves, leaves_tree = tree.flatten(result)
            return leaves

        jaxpr, consts = open_constants(stage(flat, [a.strip_weak() for a in cotangents], "custom_gradient"))
        return out, (consts, _Program(intern(jaxpr), leaves_tree, tuple([aval_of(x) for x in tree.leaves(args)])))

    def backward(residuals: Any, cotangent: Any) -> Any:
        consts, program = residuals
        return program.tree.unflatten(eval_jaxpr(program.jaxpr, (), *consts, *tree.leaves(cotangent)))

    wrapped = custom_vjp(primal)
    wrapped.defvjp(forward, backward)
    wrapped.__name__ = name_of(fun)
    return wrapped


def closure_convert(fun: Callable[..., Any], *example_args: Any) -> tuple[Callable[..., Any], list[Any]]:
    """Turn the traced values that `fun` captures into arguments.

    Returns
    -------
    converted : callable
        `converted(*args, *captured)` computes `fun(*args)`.
    captured : list of arrays
    """
    leaves, in_tree = tree.flatten(example_args)
    flat = _Flat(fun, in_tree, ())
    closed = stage(flat, [aval_of(x) for x in leaves], name_of(fun))
    jaxpr, consts = open_constants(closed)
    out_tree = flat.out_tree
    moved = [isinstance(c, Tracer) and is_differentiable(c.aval.dtype) for c in consts]
    captured = [c for c, m in zip(consts, moved, strict=True) if m]

    def converted(*args_and_captured: Any) -> Any:
        split = len(args_and_captured) - len(captured)
        args, given = args_and_captured[:split], iter(args_and_captured[split:])
        values, given_tree = tree.flatten(args)
        if given_tree != in_tree:
            raise TypeError(f"function converted for arguments of structure {in_tree} was called with {given_tree}")
        all_consts = [next(given) if m else c for c, m in zip(consts, moved, strict=True)]
        return out_tree.unflatten(eval_jaxpr(jaxpr, (), *all_consts, *values))

    converted.__name__ = name_of(fun)
    return converted, captured


class _Program(_Rule):
    def __init__(self, jaxpr: Any, leaves_tree: Any, in_avals: Any) -> None:
        super().__init__(jaxpr, leaves_tree, in_avals)
        self.jaxpr, self.tree = jaxpr, leaves_tree
