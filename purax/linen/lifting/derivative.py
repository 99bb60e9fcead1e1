# SPDX-License-Identifier: Apache-2.0
"""Derivatives of functions of scopes, `fn(scopes, *args)`.

What is returned is a callable `(scopes, *args)`. Arguments are those of the functions of `purax.linen.lift` of the same names.

Parameters
----------
fn, forward_fn, backward_fn : callable
    Functions of scopes, the last of residuals and cotangents.
variables, rngs, vjp_variables, grad_vars : filter
    Collections and streams that they see, or whose derivatives are taken.
has_aux, multi_scope, nondiff_argnums
    As in `purax.linen.vjp` and `purax.linen.custom_vjp`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from purax import numpy as pnp
from purax import tree
from purax.control.custom import custom_vjp as custom_vjp_of_arrays
from purax.linen.filters import Filter
from purax.linen.lifting.pack import Packed
from purax.transforms import jvp as forward
from purax.transforms import vjp as reverse

__all__ = ["custom_vjp", "jvp", "value_and_grad", "vjp"]


def vjp(
    fn: Callable[..., Any],
    has_aux: bool = False,
    vjp_variables: Filter = "params",
    variables: Filter = True,
    rngs: Filter = True,
    multi_scope: bool = False,
) -> Callable[..., Any]:
    """Return `(result, pullback)`, or with aux; the pullback gives cotangents of the variables, then of the arguments."""

    def call(scopes: Any, *primals: Any) -> Any:
        packed = Packed(scopes, (vjp_variables, variables), (variables,), (rngs,))
        chosen, others = packed.variables

        def function(chosen: Any, *primals: Any) -> Any:
            result = fn(packed.enter((chosen, others), packed.rngs), *primals)
            result, aux = result if has_aux else (result, None)
            return result, (aux, packed.leave())

        result, pull, (aux, changed) = reverse.vjp(function, chosen, *primals, has_aux=True)
        packed.publish(changed)

        pullback = tree.Partial(functools.partial(_pull, multi_scope), pull)  # a pytree, so that it may be a residual
        return (result, pullback, aux) if has_aux else (result, pullback)

    return call


def _pull(multi_scope: bool, pull: Callable[..., Any], cotangent: Any) -> Any:
    of_variables, *rest = pull(cotangent)
    return (list(of_variables) if multi_scope else of_variables[0], *rest)


def value_and_grad(
    fn: Callable[..., Any], has_aux: bool = False, variables: Filter = True, rngs: Filter = True
) -> Callable[..., Any]:
    """Return the value and the gradients with respect to the arguments."""

    def call(scopes: Any, *primals: Any) -> Any:
        packed = Packed(scopes, (variables,), (variables,), (rngs,))

        def function(*primals: Any) -> Any:
            result = fn(packed.enter(packed.variables, packed.rngs), *primals)
            result, aux = result if has_aux else (result, None)
            return result, (aux, packed.leave())

        result, pull, (aux, changed) = reverse.vjp(function, *primals, has_aux=True)
        packed.publish(changed)
        gradients = pull(pnp.ones_like(result))
        gradients = gradients[0] if len(gradients) == 1 else gradients
        return ((result, aux), gradients) if has_aux else (result, gradients)

    return call


def jvp(fn: Callable[..., Any], variables: Filter = True, rngs: Filter = True) -> Callable[..., Any]:
    """Return `(result, tangent)`; called with `(scopes, primals, tangents, variable_tangents)`."""

    def call(scopes: Any, primals: Any, tangents: Any, variable_tangents: Any) -> Any:
        chosen = tuple(variable_tangents)
        packed = Packed(scopes, (chosen, variables), (variables,), (rngs,))
        moving, others = packed.variables
        given = {name: variable_tangents[name] for name in (moving[0] if moving else {})}
        directions = tuple(given if index == 0 else {} for index in range(len(packed.roots)))

        def function(moving: Any, primals: Any) -> Any:
            result = fn(packed.enter((moving, others), packed.rngs), *primals)
            return result, packed.leave()

        result, tangent, changed = forward.jvp(
            function, (moving, tuple(primals)), (directions, tuple(tangents)), has_aux=True
        )
        packed.publish(changed)
        return result, tangent

    return call


def custom_vjp(
    fn: Callable[..., Any],
    forward_fn: Callable[..., Any],
    backward_fn: Callable[..., Any],
    grad_vars: Filter = "params",
    nondiff_argnums: Sequence[int] = (),
) -> Callable[..., Any]:
    """Give a function of scopes its own derivative: `forward_fn` returns residuals, `backward_fn` the cotangents."""

    def call(scopes: Any, *args: Any) -> Any:
        packed = Packed(scopes, (grad_vars, True), (True,), (True,))
        static = {number - 1: args[number - 1] for number in nondiff_argnums}
        moving = tuple(arg for index, arg in enumerate(args) if index not in static)

        def all_args(moving: Sequence[Any]) -> list[Any]:
            remaining = iter(moving)
            return [static[index] if index in static else next(remaining) for index in range(len(args))]

        def plain(groups: Any, keys: Any, *moving: Any) -> Any:
            result = fn(packed.enter(groups, keys), *all_args(moving))
            return result, packed.leave()

        def ahead(groups: Any, keys: Any, *moving: Any) -> Any:
            result, residuals = forward_fn(packed.enter(groups, keys), *all_args(moving))
            return (result, packed.leave()), residuals

        def back(residuals: Any, cotangents: Any) -> Any:
            of_variables, *of_args = backward_fn(*static.values(), residuals, cotangents[0])
            first = tuple(of_variables if index == 0 else None for index in range(len(packed.roots)))
            return (first, None), None, *of_args

        run = custom_vjp_of_arrays(plain)
        run.defvjp(ahead, back)
        result, changed = run(packed.variables, packed.rngs, *moving)
        packed.publish(changed)
        return result

    return call
