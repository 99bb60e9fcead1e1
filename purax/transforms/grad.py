# SPDX-License-Identifier: Apache-2.0
"""`grad` and `value_and_grad`: gradients of scalar functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from purax import dtypes, errors, tree
from purax.core.hooks import hooks
from purax.core.trace import aval_of
from purax.primitives import shape
from purax.primitives.base import is_differentiable
from purax.transforms.flat import argument_names, check_arrays, checked_argnums, like, name_of, normal_argnums, pair
from purax.transforms.reverse import linearize_flat
from purax.transforms.vjp import explicit, own_lanes

__all__ = ["grad", "value_and_grad"]


def grad(
    fun: Callable[..., Any], argnums: Any = 0, has_aux: bool = False, holomorphic: bool = False, allow_int: bool = False,
    reduce_axes: Any = (),
) -> Callable[..., Any]:  # fmt: skip
    """Function that computes the gradient of a scalar-valued `fun`.

    Parameters
    ----------
    fun : callable
        Returns a scalar of floating dtype (complex if `holomorphic`).
    argnums : int or sequence of int
        Which positional arguments to differentiate with respect to.
    has_aux : bool
        `fun` returns `(output, auxiliary data)`; the gradient function then returns `(gradient, auxiliary data)`.
    holomorphic, allow_int : bool
        Promise that `fun` is holomorphic; allow integer arguments (their gradient is `float0`).
    reduce_axes : optional
        Without effect.

    Returns
    -------
    callable
        With the arguments of `fun`; its output has the structure of the arguments named by `argnums`.

    Examples
    --------
    >>> purax.grad(lambda x: x**3)(2.0).item()
    12.0
    """
    both = value_and_grad(fun, argnums, has_aux, holomorphic, allow_int)

    def gradient(*args: Any, **kwargs: Any) -> Any:
        value, result = both(*args, **kwargs)
        return (result, value[1]) if has_aux else result

    return like(gradient, fun, "grad")


def value_and_grad(
    fun: Callable[..., Any], argnums: Any = 0, has_aux: bool = False, holomorphic: bool = False, allow_int: bool = False,
    reduce_axes: Any = (),
) -> Callable[..., Any]:  # fmt: skip
    """Function that computes both `fun` and its gradient; see `grad`.

    Parameters
    ----------
    fun, argnums, has_aux, holomorphic, allow_int
        As in `grad`.
    reduce_axes : optional
        Without effect.

    Returns
    -------
    callable
        Returns `(value, gradient)`; the value is `(output, auxiliary data)` with `has_aux`.

    Raises
    ------
    TypeError
        `fun` cannot be called. By the callable: it returns no scalar, or inputs or output have a dtype without a
        gradient.
    """
    del reduce_axes
    if not callable(fun):
        raise TypeError(f"grad: the first argument must be callable, got {fun!r}")
    name = name_of(fun)
    argnums = checked_argnums(argnums, f"grad({name})")
    single = isinstance(argnums, int)

    def value_and_gradient(*args: Any, **kwargs: Any) -> Any:
        positions = normal_argnums(argnums, len(args), name)
        leaves, treedef = tree.flatten(args[positions[0]] if single else tuple([args[i] for i in positions]))
        names = lambda: _chosen_names(fun, args, positions)
        arrays = own_lanes(_inputs(name, leaves, names, holomorphic, allow_int))
        structures: list[Any] = []  # of the output and of the auxiliary data

        def call(*leaves: Any) -> list[Any]:
            chosen = treedef.unflatten(leaves)
            full = list(args)
            for i, value in zip(positions, (chosen,) if single else chosen, strict=True):
                full[i] = value
            out = fun(*full, **kwargs)
            aux: list[Any] = []
            if has_aux:
                out, aux = pair(name, out)
                aux, structure = tree.flatten(aux)
                structures.append(structure)
            outs, out_tree = tree.flatten(out)
            if out_tree != _LEAF:
                raise TypeError(
                    f"Gradient only defined for scalar-output functions. {name} returned a pytree of structure {out_tree}; "
                    "use has_aux=True for extra outputs, or jacrev for several."
                )
            return outs + aux

        call.__name__ = name
        outs, tape = linearize_flat(call, arrays, named=True)
        seed = shape.full_like_aval(_check_output(outs[0], holomorphic, name), 1)
        tape.outputs = tape.outputs[:1]
        gradient = [explicit(c, aval_of(x)) for c, x in zip(tape.backward([seed]), arrays, strict=True)]
        value = (outs[0], structures[0].unflatten(outs[1:])) if has_aux else outs[0]
        return value, treedef.unflatten(gradient)

    return like(value_and_gradient, fun, "value_and_grad")


_LEAF = tree.structure(0)


def _chosen_names(fun: Any, args: tuple[Any, ...], positions: tuple[int, ...]) -> list[str]:
    names = iter(argument_names(fun, args))
    per_argument = [[next(names) for _ in tree.leaves(arg)] for arg in args]
    return [name for i in positions for name in per_argument[i]]


def _inputs(
    name: str, leaves: list[Any], names: Callable[[], list[str]], holomorphic: bool, allow_int: bool
) -> list[Any]:
    """The values to differentiate by, as arrays of dtypes that have gradients."""
    check_arrays(f"grad({name})", leaves, names)
    arrays = [hooks.as_array(x) for x in leaves]
    for i, x in enumerate(arrays):
        dtype = aval_of(x).dtype
        if holomorphic:
            if not dtypes.issubdtype(dtype, np.complexfloating):
                raise TypeError(
                    f"grad with holomorphic=True requires inputs with complex dtype, but got {dtype} for argument {names()[i]}."
                )
        elif not is_differentiable(dtype) and (dtypes.is_key(dtype) or not allow_int):
            raise TypeError(
                errors.explain(
                    f"grad requires real- or complex-valued inputs (input dtype that is a sub-dtype of np.inexact), but got {dtype} for argument {names()[i]}",
                    "integers and booleans have no tangents",
                    "convert the argument to a float, differentiate another one (argnums), or pass allow_int=True",
                )
            )
    return arrays


def _check_output(out: Any, holomorphic: bool, name: str) -> Any:
    aval = aval_of(out)
    if aval.shape != ():
        raise TypeError(
            f"Gradient only defined for scalar-output functions. Output of {name} had shape: {aval.shape}. "
            "Sum or average it, or use jacrev or jacfwd."
        )
    if holomorphic:
        if not dtypes.issubdtype(aval.dtype, np.complexfloating):
            raise TypeError(f"grad with holomorphic=True requires outputs with complex dtype, but got {aval.dtype}.")
    elif dtypes.issubdtype(aval.dtype, np.complexfloating):
        raise TypeError(
            f"grad requires real-valued outputs (output dtype that is a sub-dtype of np.floating), but got {aval.dtype}. "
            "For holomorphic differentiation, pass holomorphic=True. For differentiation of non-holomorphic functions "
            "involving complex outputs, use vjp directly."
        )
    elif not is_differentiable(aval.dtype):
        raise TypeError(
            f"grad requires real-valued outputs (output dtype that is a sub-dtype of np.floating), but got {aval.dtype}. "
            "For differentiation of functions with integer outputs, use vjp directly."
        )
    return aval
