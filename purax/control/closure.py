# SPDX-License-Identifier: Apache-2.0
"""Functions made into programs for the sake of their derivatives: `custom_gradient`, `closure_convert`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from purax import tree
from purax.control.custom_rules import FlatFunction, Rule
from purax.control.custom_vjp import custom_vjp
from purax.core.interpret import eval_jaxpr
from purax.core.ir import intern, open_constants
from purax.core.stage import stage
from purax.core.trace import Tracer, aval_of
from purax.primitives.base import is_differentiable
from purax.transforms.flat import name_of

__all__ = ["closure_convert", "custom_gradient"]


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
    wrapped.__name__ = name_of(fun)  # type: ignore[attr-defined]
    return wrapped


def closure_convert(fun: Callable[..., Any], *example_args: Any) -> tuple[Callable[..., Any], list[Any]]:
    """Turn the traced values that `fun` captures into arguments.

    Parameters
    ----------
    fun : callable
    example_args : pytrees of arrays
        Their types are what counts.

    Returns
    -------
    converted : callable
        `converted(*args, *captured)` computes `fun(*args)`.
    captured : list of arrays

    Raises
    ------
    TypeError
        (By `converted`.) Arguments of another structure.
    """
    leaves, in_tree = tree.flatten(example_args)
    flat = FlatFunction(fun, in_tree, ())
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


class _Program(Rule):
    def __init__(self, jaxpr: Any, leaves_tree: Any, in_avals: Any) -> None:
        super().__init__(jaxpr, leaves_tree, in_avals)
        self.jaxpr, self.tree = jaxpr, leaves_tree
