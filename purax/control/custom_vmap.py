# SPDX-License-Identifier: Apache-2.0
"""`custom_vmap`: batching rules given by users."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from purax import errors, tree
from purax.control import loop
from purax.control.custom_jvp import CustomJvpCall
from purax.control.custom_rules import CustomFunction, FlatFunction, Rule, as_program
from purax.core.axes import Axis
from purax.core.primitive import Primitive, Undefined
from purax.core.stage import stage
from purax.core.trace import aval_of
from purax.primitives import shape
from purax.primitives.base import instantiate, is_differentiable
from purax.transforms.flat import name_of
from purax.transforms.jvp import jvp_flat, jvp_jaxpr
from purax.transforms.vmap import batch_flat, batch_jaxpr

__all__ = ["custom_vmap", "custom_vmap_call_p", "sequential_vmap"]


class CustomVmapCall(Primitive):
    """Call of a function with a batching rule; `fun` and `jaxpr` are as in `CustomJvpCall`."""

    types_axes = True
    types_spread = True
    transpose = Undefined("a function with a batching rule of the user's is not known to be linear")

    run = CustomJvpCall.run
    unfold = CustomJvpCall.unfold
    infer = CustomJvpCall.infer
    effects = CustomJvpCall.effects
    reference = CustomJvpCall.reference
    lower = CustomJvpCall.lower

    def stage(self, trace: Any, operands: tuple[Any, ...], params: dict[str, Any]) -> tuple[Any, ...]:
        """Record the function as a program, with its rule."""
        operands, params = as_program(params, operands, "custom_vmap")
        return trace.record(self, operands, params)

    def jvp(self, primals: Any, tangents: Any, *, fun: Any, jaxpr: Any, rule: Any, consts: int) -> Any:
        """Call of the derivative with the derivative of the rule."""
        if any(t is not None for t in tangents[:consts]):
            raise errors.UnexpectedTracerError(
                f"custom_vmap function {rule.flat.__name__} closes over a value that is being differentiated; pass it as an argument."
            )
        mask = tuple([t is not None for t in tangents[consts:]])
        given = [t for t in tangents if t is not None]
        derived_rule = _RuleJvp(rule, mask)
        if jaxpr is None:
            outs = self.bind(*primals, *given, fun=_FunctionJvp(fun, mask), jaxpr=None, rule=derived_rule, consts=0)
            count = rule.flat.out_tree.num_leaves
        else:
            count = len(jaxpr.outvars)
            wanted = tuple([is_differentiable(a.dtype) for a in jaxpr.out_avals])
            derived, _ = jvp_jaxpr(jaxpr, (*[False] * consts, *mask), wanted)
            outs = self.bind(*primals, *given, fun=None, jaxpr=derived, rule=derived_rule, consts=consts)
        rest = iter(outs[count:])
        return outs[:count], tuple([next(rest) if is_differentiable(aval_of(o).dtype) else None for o in outs[:count]])

    def linearize(self, primals: Any, tangents: Any, params: dict[str, Any]) -> Any:
        """Raise: the derivative of a rule depends on values and tangents together."""
        raise ValueError(
            "Linearization failed to produce known values for all output primals: functions with custom_vmap have no reverse mode. "
            "Wrap the function in custom_vjp."
        )

    def batch(self, axis: Any, operands: Any, dims: Any, *, fun: Any, jaxpr: Any, rule: Any, consts: int) -> Any:
        """The user's rule; a program that closes over mapped values is mapped itself."""
        moved = [x if d is None else shape.move_batch_axis(x, d, 0) for x, d in zip(operands, dims, strict=True)]
        batched = tuple([d is not None for d in dims])
        if any(batched[:consts]):
            mapped, found = batch_jaxpr(jaxpr, axis, batched)
            return self.bind(*moved, fun=None, jaxpr=mapped, rule=rule, consts=len(moved)), tuple(
                [0 if b else None for b in found]
            )
        outs, found = rule(axis, batched[consts:], moved[consts:])
        return tuple(outs), tuple([0 if b else None for b in found])


custom_vmap_call_p = CustomVmapCall("custom_vmap_call")


class _VmapRule(Rule):
    """The user's rule on leaves: `(axis, which operands are batched, operands) -> (outputs, which are batched)`."""

    def __init__(self, rule: Any, flat: FlatFunction) -> None:
        super().__init__(rule, flat)
        self.rule, self.flat = rule, flat

    def __call__(self, axis: Axis, batched: Sequence[bool], operands: Sequence[Any]) -> tuple[list[Any], list[bool]]:
        in_tree, name = self.flat.in_tree, name_of(self.rule)
        args = in_tree.unflatten(operands)
        out, out_batched = self.rule(axis.size, list(in_tree.unflatten(batched)), *args)
        outs, out_tree = tree.flatten(out)
        flags, flags_tree = tree.flatten(out_batched)
        if flags_tree != out_tree:
            raise ValueError(
                f"structure of output value and output batching specification returned by custom vmap rule ({name}) do not match: "
                f"{out_tree} and {flags_tree}"
            )
        if out_tree != self.flat.out_tree:
            raise ValueError(
                f"structure of output returned by custom vmap rule ({name}) does not match that of original custom-vmapped function: "
                f"{out_tree} and {self.flat.out_tree}"
            )
        return outs, [bool(f) for f in flags]


class _FunctionJvp(Rule):
    """`(primals, nonzero tangents) -> (outputs, tangents of those that have one)`."""

    def __init__(self, fun: Any, mask: tuple[bool, ...]) -> None:
        super().__init__(fun, mask)
        self.fun, self.mask = fun, mask
        self.__name__ = getattr(fun, "__name__", "function")

    def __call__(self, *values: Any) -> list[Any]:
        count = len(self.mask)
        rest = iter(values[count:])
        outs, tangents = jvp_flat(self.fun, values[:count], [next(rest) if m else None for m in self.mask])
        full = [instantiate(t, o) for t, o in zip(tangents, outs, strict=True) if is_differentiable(aval_of(o).dtype)]
        return [*outs, *full]


class _RuleJvp(Rule):
    """The derivative of a rule.

    The rule sees as batched what is batched in value and tangent alike; its derivative is mapped over what is batched in one
    of the two only.
    """

    def __init__(self, rule: Any, mask: tuple[bool, ...]) -> None:
        super().__init__(rule, mask)
        self.rule, self.mask, self.flat = rule, mask, rule.flat

    def __call__(self, axis: Axis, batched: Sequence[bool], operands: Sequence[Any]) -> tuple[list[Any], list[bool]]:
        count = len(self.mask)
        primals = batched[:count]
        rest = iter(batched[count:])
        tangents = [next(rest) if m else False for m in self.mask]
        both = list(map(operator.and_, primals, tangents))
        found: list[bool] = []

        def rule(*values: Any) -> list[Any]:
            outs, found[:] = self.rule(axis, both, values)
            return outs

        alone = [p and not b for p, b in zip(primals, both, strict=True)]
        alone += [t and not b for t, b, m in zip(tangents, both, self.mask, strict=True) if m]
        derived = _FunctionJvp(rule, self.mask)
        outs, dims = batch_flat(derived, axis, operands, [0 if a else None for a in alone])
        number = len(found)
        differentiable = [f for f, o in zip(found, outs[:number], strict=True) if is_differentiable(aval_of(o).dtype)]
        flags = [f or d is not None for f, d in zip([*found, *differentiable], dims, strict=True)]
        return [o if d is None else shape.move_batch_axis(o, d, 0) for o, d in zip(outs, dims, strict=True)], flags


class custom_vmap(CustomFunction):
    """Give a function its own batching rule.

    Parameters
    ----------
    fun : callable

    Examples
    --------
    ``@custom_vmap`` on ``f``, then ``@f.def_vmap`` on ``def rule(axis_size, in_batched, *args): ... return out, out_batched``.
    `in_batched` holds, per argument, a pytree of bools like it; batched arguments and outputs have the axis in front.
    """

    rule: Any = None

    def __init__(self, fun: Callable[..., Any]) -> None:
        super().__init__(fun)
        self.trees: dict[Any, Any] = {}

    def def_vmap(self, vmap_rule: Callable[..., Any]) -> Callable[..., Any]:
        """Set the rule `(axis size, in_batched, *args) -> (output, out_batched)`."""
        self.rule = vmap_rule
        return vmap_rule

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        if self.rule is None:
            raise AttributeError(
                f"No batching rule defined for custom_vmap function {name_of(self.fun)} using def_vmap"
            )
        leaves, _, in_tree = self._resolve(args, kwargs)
        flat = FlatFunction(self.fun, in_tree, ())
        key = (in_tree, tuple([aval_of(x) for x in leaves]))
        if key not in self.trees:
            stage(flat, key[1], flat.__name__)
            self.trees[key] = flat.out_tree
        flat.out_tree = self.trees[key]
        outs = custom_vmap_call_p.bind(*leaves, fun=flat, jaxpr=None, rule=_VmapRule(self.rule, flat), consts=0)
        return flat.out_tree.unflatten(outs)


def sequential_vmap(f: Callable[..., Any]) -> custom_vmap:
    """`f` with a batching rule that runs lane after lane, as `lax.map` does."""
    wrapped = custom_vmap(f)

    def rule(axis_size: int, in_batched: Any, *args: Any) -> Any:
        del axis_size
        leaves, treedef = tree.flatten(args)
        flags = tree.leaves(in_batched)
        mapped = [x for x, b in zip(leaves, flags, strict=True) if b]

        def lane(xs: Any) -> Any:
            rest = iter(xs)
            return wrapped(*treedef.unflatten([next(rest) if b else x for x, b in zip(leaves, flags, strict=True)]))

        out = loop.map(lane, mapped)
        return out, tree.map(lambda _: True, out)

    wrapped.def_vmap(rule)
    return wrapped
