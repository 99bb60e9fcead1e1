# SPDX-License-Identifier: Apache-2.0
"""`custom_vjp`: reverse-mode rules given by users; forward mode is derived from them by transposing once more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from purax import dtypes, errors, tree
from purax.control import refs
from purax.control.custom_jvp import CustomJvpCall
from purax.control.custom_rules import (
    BatchedFunction,
    CustomFunction,
    FlatFunction,
    Rule,
    SymbolicZero,
    as_program,
    called,
)
from purax.core.axes import Axis
from purax.core.hooks import hooks
from purax.core.interpret import reference_eval
from purax.core.ir import open_constants
from purax.core.primitive import Linear, Primitive
from purax.core.stage import stage
from purax.core.trace import aval_of, current
from purax.primitives import cast, reduction, shape
from purax.primitives.base import is_differentiable, is_linear, zeros_of
from purax.transforms.flat import float0_zeros, name_of
from purax.transforms.jvp import jvp_flat
from purax.transforms.transpose import backward_pass
from purax.transforms.vmap import batch_flat, batch_jaxpr, to_front

__all__ = ["CustomVJPPrimal", "custom_vjp", "custom_vjp_call_p", "custom_vjp_primal_tree_values"]


class _VjpRule(Rule):
    """The user's forward and backward functions on leaves."""

    def __init__(self, forward: Any, backward: Any, flat: FlatFunction, symbolic: bool, optimize_remat: bool) -> None:
        super().__init__(forward, backward, flat, symbolic, optimize_remat)
        self.forward, self.backward, self.flat, self.symbolic = forward, backward, flat, symbolic
        self.optimize_remat = optimize_remat

    def run_forward(self, primals: Sequence[Any], perturbed: Sequence[bool]) -> tuple[list[Any], list[Any], Any]:
        """Outputs, array residuals, and how to put the residuals together again."""
        given = primals
        if self.symbolic:
            given = [CustomVJPPrimal(p, m) for p, m in zip(primals, perturbed, strict=True)]
        result = called(f"custom VJP fwd rule of {self.flat.__name__}", self.forward, self.flat.arguments(given))
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
        self.flat.rule_tree = out_tree
        leaves, residual_tree = tree.flatten(result[1])
        for ref in filter(refs.is_ref, leaves):
            if ref.base._home is current.get() is not None:
                raise errors.ReferenceUseError(
                    errors.explain(
                        f"the custom_vjp fwd function {name_of(self.forward)} gave {ref!r}, which it made, as a residual",
                        "the reference ends with the function",
                        "give what it holds, purax.freeze(ref)",
                    )
                )
        arrays = [_is_array(x) for x in leaves]
        rebuild = _Residuals(
            residual_tree, tuple(arrays), tuple([x for x, a in zip(leaves, arrays, strict=True) if not a]), out_tree
        )
        return outs, [x for x, a in zip(leaves, arrays, strict=True) if a], rebuild

    def run_backward(
        self,
        residuals: Any,
        values: Sequence[Any],
        cotangents: Sequence[Any],
        out_avals: Sequence[Any],
        in_avals: Sequence[Any],
    ) -> list[Any]:
        """Cotangents of the leaves of the arguments (None where zero)."""
        if self.symbolic:
            given = [SymbolicZero(a) if c is None else c for c, a in zip(cotangents, out_avals, strict=True)]
        else:
            given = [
                c
                if c is not None
                else zeros_of(a.strip_weak())
                if is_differentiable(a.dtype)
                else float0_zeros(a.shape)
                for c, a in zip(cotangents, out_avals, strict=True)
            ]
        args = [v for _, v in self.flat.static]
        args += [residuals.unflatten(values), residuals.out_tree.unflatten(given)]
        out = called(f"custom VJP bwd rule of {self.flat.__name__}", self.backward, args)
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
            flat += entries
        for i, (c, a) in enumerate(zip(flat, in_avals, strict=True)):
            if c is None or not is_differentiable(a.dtype) or getattr(c, "dtype", None) == dtypes.float0:
                flat[i] = None
                continue
            have = aval_of(c)
            if have.shape != a.shape and type(c) is SymbolicZero:
                raise ValueError(
                    f"{name} gave the zero of an argument of another shape ({c!r}) for argument {i}, {a.str_short()}. Consider just returning a None here."
                )
            if have.shape != a.shape:
                raise ValueError(
                    f"{name} must produce cotangents with the shapes of the primal inputs, but output {i} is "
                    f"{have.str_short()} where the input is {a.str_short()}."
                )
            flat[i] = None if type(c) is SymbolicZero else cast.as_type(c, a)
        return flat


_PYTHON = (
    bool,
    int,
    float,
    complex,
)  # residuals of these types stay what they are: the backward rule may branch on them


def _is_array(x: Any) -> bool:
    if type(x) in _PYTHON:
        return False
    try:
        aval_of(x)
    except (TypeError, errors.ReferenceUseError):
        return False
    return True


class CustomVJPPrimal:
    """Argument of a forward rule that asks for symbolic zeros: the value, and whether it is differentiated."""

    def __init__(self, value: Any, perturbed: bool) -> None:
        self.value, self.perturbed = value, perturbed


def custom_vjp_primal_tree_values(primals: Any) -> Any:
    """The values in a pytree of `CustomVJPPrimal`s: a tree like it."""
    return tree.map(
        lambda p: p.value if type(p) is CustomVJPPrimal else p, primals, is_leaf=lambda p: type(p) is CustomVJPPrimal
    )


class _Residuals(Rule):
    """How the leaves saved by a forward rule go back into the user's structure; leaves that are no arrays stay as they are."""

    def __init__(self, residual_tree: Any, arrays: tuple[bool, ...], others: tuple[Any, ...], out_tree: Any) -> None:
        # True equals 1, and 0.0 equals -0.0, so scalars are told apart by their names.
        super().__init__(
            residual_tree, arrays, tuple([(type(x), repr(x)) if type(x) in _PYTHON else x for x in others]), out_tree
        )
        self.residual_tree, self.arrays, self.others, self.out_tree = residual_tree, arrays, others, out_tree

    def unflatten(self, values: Sequence[Any]) -> Any:
        """The residuals as the user made them."""
        rest, others = iter(values), iter(self.others)
        return self.residual_tree.unflatten([next(rest) if a else next(others) for a in self.arrays])


class CustomVjpCall(Primitive):
    """Call of a function with forward and backward rules; see CustomJvpCall."""

    types_axes = True
    types_spread = True

    run = CustomJvpCall.run
    unfold = CustomJvpCall.unfold
    transpose = CustomJvpCall.transpose  # where it is called on cotangents, its own operations are linear

    def stage(self, trace: Any, operands: tuple[Any, ...], params: dict[str, Any]) -> tuple[Any, ...]:
        """Record the function as a program, with its rules."""
        operands, params = as_program(params, operands, "custom_vjp")
        return trace.record(self, operands, params)

    def infer(self, *avals: Any, fun: Any, jaxpr: Any, rule: Any, consts: int) -> Any:
        """Types of the outputs of the program."""
        return jaxpr.out_avals

    effects = CustomJvpCall.effects

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

    def _with_tangents(
        self, outs: Any, residuals: Any, rebuild: Any, primals: Any, tangents: Any, rule: Any, consts: int
    ) -> Any:
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

    def batch_call(self, trace: Any, operands: Any, dims: Any, params: dict[str, Any]) -> Any:
        """Call of the mapped function with the mapped rules, which may close over values of the mapping."""
        mapped = BatchedFunction(params["fun"], trace.axis, dims, trace.tag)
        rule = _BatchedVjp(params["rule"], trace.axis, dims, mapped)
        outs = self.bind(*operands, **{**params, "fun": mapped, "rule": rule})
        return outs, mapped.out_dims

    def batch(self, axis: Any, operands: Any, dims: Any, *, fun: Any, jaxpr: Any, rule: Any, consts: int) -> Any:
        """Call of the mapped program with the mapped rules."""
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

    types_spread = True

    def infer(self, *avals: Any, rule: Any, rebuild: Any, mask: Any, in_avals: Any, out_avals: Any) -> Any:
        """Tangent types of the outputs."""
        return tuple([a.strip_weak() for a in out_avals if is_differentiable(a.dtype)])

    def _program(self, values: Sequence[Any], rule: Any, rebuild: Any, mask: Any, in_avals: Any, out_avals: Any) -> Any:
        """The backward rule as a program: `(residuals, cotangents) -> cotangents of the tangents given`; last come its references."""
        count = len(values)
        taken: Any = None

        def backward(*xs: Any) -> list[Any]:
            nonlocal taken
            taken = hooks.take_references(current.get(), True)
            rest = iter(xs[count:])
            cotangents = [next(rest) if is_differentiable(a.dtype) else None for a in out_avals]
            found = rule.run_backward(rebuild, xs[:count], cotangents, out_avals, in_avals)
            return [
                zeros_of(a.strip_weak()) if c is None else c for c, a, m in zip(found, in_avals, mask, strict=True) if m
            ]

        avals = [aval_of(v) for v in values]
        avals += [a.strip_weak() for a in out_avals if is_differentiable(a.dtype)]
        closed = stage(backward, avals, rule.flat.__name__, kind="custom_vjp")
        return *open_constants(closed), taken.cells()

    def _apply(self, operands: Sequence[Any], **params: Any) -> list[Any]:
        return self._pushed(operands, params, self._program(operands[: len(operands) - sum(params["mask"])], **params))

    def _pushed(self, operands: Sequence[Any], params: dict[str, Any], program: Any) -> list[Any]:
        """Output tangents by the transpose of the backward rule."""
        jaxpr, consts, cells = program
        name = params["rule"].flat.__name__
        held = _read(cells, name)
        count = len(operands) - sum(params["mask"])
        values, tangents = operands[:count], operands[count:]
        outs = [a.strip_weak() for a in params["out_avals"] if is_differentiable(a.dtype)]
        try:
            given = [*consts, *values, *(Linear(a) for a in outs), *held]
            found = backward_pass(jaxpr, given, [*tangents, *[None] * len(held)])
            results = found[len(consts) + count : len(found) - len(held)]
        except (errors.MissingRuleError, errors.ReverseModeError) as error:
            raise errors.DifferentiationTypeError(
                errors.explain(
                    f"can't apply forward-mode differentiation (jvp) to {name}.",
                    f"It has a rule for reverse mode only, which cannot be transposed: {error}",
                    "Use reverse mode (grad, vjp), or give it a rule by custom_jvp.",
                )
            ) from error
        return [zeros_of(a) if c is None else c for c, a in zip(results, outs, strict=True)]

    def run(self, operands: tuple[Any, ...], params: dict[str, Any]) -> tuple[Any, ...]:
        """Push tangents forward by transposing the backward rule."""
        return tuple(self._apply(operands, **params))

    def stage(self, trace: Any, operands: tuple[Any, ...], params: dict[str, Any]) -> tuple[Any, ...]:
        """In a program the transposed rule is written out.

        One that touches references is kept in programs that are derived of others, to be transposed again.
        """
        program = self._program(operands[: len(operands) - sum(params["mask"])], **params)
        derived = trace.taken is None or trace.taken.derived
        if len(program[2]) and derived:
            return trace.record(self, operands, params)
        return tuple(self._pushed(operands, params, program))

    def reference(self, *operands: Any, **params: Any) -> Any:
        """As `run`."""
        return tuple([np.asarray(x) for x in self._apply(operands, **params)])

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> Any:
        """Derivative of the written-out form."""
        outs, out_tangents = jvp_flat(lambda *xs: self._apply(xs, **params), primals, tangents)
        return tuple(outs), tuple(out_tangents)

    def transpose(
        self, cotangents: Any, operands: Any, *, rule: Any, rebuild: Any, mask: Any, in_avals: Any, out_avals: Any
    ) -> Any:
        """The user's backward rule."""
        count = len(operands) - sum(mask)
        rest = iter(cotangents)
        full = [next(rest) if is_differentiable(a.dtype) else None for a in out_avals]
        found = rule.run_backward(rebuild, operands[:count], full, out_avals, in_avals)
        kept = [c for c, m in zip(found, mask, strict=True) if m]
        return (
            *(None for _ in range(count)),
            *[c if is_linear(x) else None for c, x in zip(kept, operands[count:], strict=True)],
        )

    def batch(self, axis: Any, operands: Any, dims: Any, **params: Any) -> Any:
        """Map the written-out form."""
        outs, out_dims = batch_flat(lambda *xs: self._apply(xs, **params), axis, operands, dims)
        return tuple(outs), tuple(out_dims)

    def lower(self, b: Any, ins: Any, outs: Any, **params: Any) -> Any:
        """The written-out form."""

        def written(*xs: Any) -> list[Any]:
            program = self._program(xs[: len(xs) - sum(params["mask"])], **params)
            _read(program[2], params["rule"].flat.__name__, kept=True)
            return self._pushed(xs, params, program)

        return b.inline(written, ins)


def _read(cells: Any, name: str, kept: bool = False) -> list[Any]:
    """What the references hold that a backward rule reads, for forward mode, which transposes the rule; not in a program that is kept."""
    for ref, written in zip(cells.refs, cells.written, strict=True):
        if written:
            raise errors.ReferenceUseError(
                errors.explain(
                    f"{ref!r} is written by the backward rule of {name}, which forward mode transposes",
                    "forward mode takes the derivative from the rule and never runs it, so what it writes would be lost",
                    "use reverse mode (grad, vjp, jacrev), or give the function a rule by custom_jvp",
                )
            )
    cause: Exception | None = None
    try:
        values: list[Any] = cells.read()
        if not (kept and values):
            return values
    except errors.ReferenceUseError as error:
        cause = error
    raise errors.ReferenceUseError(
        errors.explain(
            f"{cells.refs[0]!r} is read by the backward rule of {name}, which forward mode transposes",
            "of a program (jit, a loop, a branch) forward mode derives another program, which cannot take references in",
            "let the forward rule return what the reference holds as a residual, use reverse mode, or put jit outside: jit(jvp(f))",
        )
    ) from cause


class _BatchedVjp(Rule):
    """Forward and backward rules, mapped; mapped residuals and outputs carry the axis in front. See `_BatchedJvp`."""

    def __init__(self, rule: Any, axis: Axis, dims: Any, mapped: BatchedFunction | None = None) -> None:
        super().__init__(rule, axis, dims)
        self.rule, self.axis, self.dims, self.mapped, self.flat = rule, axis, dims, mapped, rule.flat
        self.tag = None if mapped is None else mapped.tag
        self.optimize_remat = rule.optimize_remat

    def run_forward(self, primals: Sequence[Any], perturbed: Sequence[bool]) -> tuple[list[Any], list[Any], Any]:
        """Mapped forward rule."""
        saved: list[Any] = []

        def forward(*xs: Any) -> list[Any]:
            outs, residuals, rebuild = self.rule.run_forward(xs, perturbed)
            saved[:] = [len(outs), rebuild, [aval_of(o) for o in outs], [aval_of(x) for x in xs]]
            return [*outs, *residuals]

        results, dims = batch_flat(forward, self.axis, primals, self.dims, self.tag)
        count, rebuild, out_avals, in_avals = saved
        if self.mapped is None:
            results[:count] = [
                to_front(r, d, self.axis.size) for r, d in zip(results[:count], dims[:count], strict=True)
            ]
            dims[:count] = [0] * count
        else:
            self.mapped.out_dims = tuple([None if d is None else 0 for d in dims[:count]])
        values = [r if d is None else shape.move_batch_axis(r, d, 0) for r, d in zip(results, dims, strict=True)]
        batched = tuple([d is not None for d in dims])
        return values[:count], values[count:], _BatchedResiduals(rebuild, batched, tuple(out_avals), tuple(in_avals))

    def run_backward(
        self,
        residuals: Any,
        values: Sequence[Any],
        cotangents: Sequence[Any],
        out_avals: Sequence[Any],
        in_avals: Sequence[Any],
    ) -> list[Any]:
        """Mapped backward rule; cotangents of arguments shared by all lanes are summed."""
        nonzero = [c is not None for c in cotangents]
        count = len(cotangents)
        mask: list[bool] = []

        def backward(*xs: Any) -> list[Any]:
            rest = iter(xs[len(values) :])
            given = [next(rest) if n else None for n in nonzero]
            found = self.rule.run_backward(
                residuals.inner, xs[: len(values)], given, residuals.out_avals, residuals.in_avals
            )
            mask[:] = [c is not None for c in found]
            return [c for c in found if c is not None]

        given = [c for c in cotangents if c is not None]
        batched = [
            *residuals.batched[count:],
            *(m for m, n in zip(residuals.batched[:count], nonzero, strict=True) if n),
        ]
        results, out_dims = batch_flat(
            backward, self.axis, [*values, *given], [0 if m else None for m in batched], self.tag
        )
        rest = iter(zip(results, out_dims, strict=True))
        out: list[Any] = []
        for m, dim in zip(mask, self.dims, strict=True):
            if not m:
                out.append(None)
                continue
            found, found_dim = next(rest)
            if dim is not None:
                out.append(shape.move_batch_axis(to_front(found, found_dim, self.axis.size), 0, dim))
            else:  # what is not mapped comes from outputs that are not
                out.append(found if found_dim is None else reduction.reduce_sum(found, (found_dim,)))
        return out


class _BatchedResiduals(Rule):
    """Which outputs and residuals of a mapped forward rule are mapped, and their types within a lane."""

    def __init__(self, inner: Any, batched: Any, out_avals: Any, in_avals: Any) -> None:
        super().__init__(inner, batched, out_avals, in_avals)
        self.inner, self.batched, self.out_avals, self.in_avals = inner, batched, out_avals, in_avals


custom_vjp_call_p = CustomVjpCall("custom_vjp_call")
custom_linear_p = CustomLinear("custom_linear")


class custom_vjp(CustomFunction):
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
    symbolic_zeros = optimize_remat = False
    traced_statics = False

    def defvjp(
        self,
        fwd: Callable[..., Any],
        bwd: Callable[..., Any],
        symbolic_zeros: bool = False,
        optimize_remat: bool = False,
    ) -> None:
        """Set the forward and backward rules.

        With `optimize_remat`, a `checkpoint` around the function that keeps none of its residuals runs the function itself in its
        forward part, not the forward rule.
        """
        self.forward, self.backward = fwd, bwd
        self.symbolic_zeros, self.optimize_remat = symbolic_zeros, optimize_remat

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        if self.forward is None or self.backward is None:
            raise AttributeError(f"No VJP defined for custom_vjp function {name_of(self.fun)} using defvjp.")
        leaves, static, in_tree = self._resolve(args, kwargs)
        if any(map(refs.is_ref, leaves)):
            rules = (refs.unburied(self.forward), self.backward, self.symbolic_zeros, self.optimize_remat)
            return self._with_buried_refs(lambda other: other.defvjp(*rules), args, kwargs)
        flat = FlatFunction(self.fun, in_tree, tuple(static))
        rule = _VjpRule(self.forward, self.backward, flat, self.symbolic_zeros, self.optimize_remat)
        outs = custom_vjp_call_p.bind(*leaves, fun=flat, jaxpr=None, rule=rule, consts=0)
        return self.out_tree(flat, leaves).unflatten(outs)
