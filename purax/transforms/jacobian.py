# SPDX-License-Identifier: Apache-2.0
"""Jacobians and Hessians: derivatives mapped over a standard basis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from purax import dtypes, tree
from purax.core.trace import aval_of
from purax.primitives import cast, elementwise, shape
from purax.transforms.flat import argument_names, check_arrays, checked_argnums, like, name_of, normal_argnums
from purax.transforms.jvp import jvp
from purax.transforms.vjp import vjp
from purax.transforms.vmap import vmap

__all__ = ["hessian", "jacfwd", "jacrev"]


def jacfwd(
    fun: Callable[..., Any], argnums: Any = 0, has_aux: bool = False, holomorphic: bool = False
) -> Callable[..., Any]:
    """Jacobian of `fun`, column by column in forward mode; see `jacrev`.

    Parameters
    ----------
    fun, argnums, has_aux, holomorphic
        As in `jacrev`.

    Returns
    -------
    callable
        Gives what that of `jacrev` gives.
    """

    def jacobian(*args: Any, **kwargs: Any) -> Any:
        chosen, rebuild = _chosen(fun, args, kwargs, argnums)
        leaves, treedef = tree.flatten(chosen)
        _check_inputs("jacfwd", leaves, holomorphic)
        pushforward = lambda tangent: jvp(rebuild, (chosen,), (tangent,), has_aux=has_aux)
        basis = _basis(chosen)
        if has_aux:
            out, columns, aux = vmap(pushforward, out_axes=(None, -1, None))(basis)
        else:
            out, columns = vmap(pushforward, out_axes=(None, -1))(basis)
        _check_outputs("jacfwd", tree.leaves(out), holomorphic)
        result = tree.map(lambda column: _split(column, leaves, treedef, -1), columns)
        return (result, aux) if has_aux else result

    return like(jacobian, fun, "jacfwd")


def jacrev(
    fun: Callable[..., Any], argnums: Any = 0, has_aux: bool = False, holomorphic: bool = False, allow_int: bool = False
) -> Callable[..., Any]:
    """Jacobian of `fun`, row by row in reverse mode.

    Parameters
    ----------
    fun : callable
        Returns an array or a pytree of arrays.
    argnums : int or sequence of int
    has_aux, holomorphic, allow_int : bool
        As in `grad`.

    Returns
    -------
    callable
        Its output has the structure of the output of `fun`, each leaf replaced by the structure of the arguments named by
        `argnums`; shapes are `output shape + input shape`.
    """

    def jacobian(*args: Any, **kwargs: Any) -> Any:
        chosen, rebuild = _chosen(fun, args, kwargs, argnums)
        leaves, treedef = tree.flatten(chosen)
        _check_inputs("jacrev", leaves, holomorphic, allow_int)
        if has_aux:
            out, pullback, aux = vjp(rebuild, chosen, has_aux=True)
        else:
            out, pullback = vjp(rebuild, chosen)
        outs, out_tree = tree.flatten(out)
        _check_outputs("jacrev", outs, holomorphic)
        if sum(aval_of(x).size for x in outs) == 1:  # one direction: nothing to map over
            (row,) = pullback(tree.map(lambda x: shape.full_like_aval(aval_of(x), 1), out))
            rows = tree.map(lambda x: x[None] if aval_of(x).dtype == dtypes.float0 else shape.expand_dims(x, (0,)), row)
        else:
            (rows,) = vmap(pullback)(_basis(out))
        flat_rows, _ = tree.flatten(rows)
        per_input = [_split(row, outs, out_tree, 0) for row in flat_rows]
        result = tree.transpose(treedef, out_tree, treedef.unflatten(per_input))
        return (result, aux) if has_aux else result

    return like(jacobian, fun, "jacrev")


def hessian(
    fun: Callable[..., Any], argnums: Any = 0, has_aux: bool = False, holomorphic: bool = False
) -> Callable[..., Any]:
    """Hessian of `fun`: forward over reverse; structure as from `jacfwd(jacrev(fun))`.

    Parameters
    ----------
    fun, argnums, has_aux, holomorphic
        As in `jacrev`.

    Returns
    -------
    callable

    Examples
    --------
    >>> purax.hessian(lambda x: pnp.sum(x**3))(pnp.array([1.0, 2.0])).tolist()
    [[6.0, 0.0], [0.0, 12.0]]
    """
    inner = jacrev(fun, argnums, has_aux=has_aux, holomorphic=holomorphic)
    return like(jacfwd(inner, argnums, has_aux=has_aux, holomorphic=holomorphic), fun, "hessian")


def _chosen(fun: Any, args: tuple[Any, ...], kwargs: dict[str, Any], argnums: Any) -> tuple[Any, Callable[[Any], Any]]:
    argnums = checked_argnums(argnums, name_of(fun))
    single = isinstance(argnums, int)
    positions = normal_argnums(argnums, len(args), name_of(fun))
    chosen = args[positions[0]] if single else tuple(args[i] for i in positions)
    check_arrays(name_of(fun), tree.leaves(chosen), lambda: argument_names(fun, [args[i] for i in positions]))

    def rebuild(chosen: Any) -> Any:
        full = list(args)
        for i, value in zip(positions, (chosen,) if single else chosen, strict=True):
            full[i] = value
        return fun(*full, **kwargs)

    return chosen, rebuild


def _basis(value: Any) -> Any:
    """One direction per element of all leaves, stacked in front: the rows of an identity matrix."""
    leaves, treedef = tree.flatten(value)
    avals = [aval_of(x) for x in leaves]
    total = sum(a.size for a in avals)
    out, start = [], 0
    for aval in avals:
        if not dtypes.is_inexact(aval.dtype):
            out.append(np.zeros((total, *aval.shape), dtypes.float0))
        else:
            out.append(
                shape.reshape(cast.as_type(_eye_rows(total, aval.size, start, aval.dtype), aval), (total, *aval.shape))
            )
        start += aval.size
    return treedef.unflatten(out)


def _eye_rows(rows: int, columns: int, start: int, dtype: Any) -> Any:
    """Zeros of shape (rows, columns) with an identity matrix from row `start` on."""
    row = shape.broadcasted_iota(np.int32, (rows, columns), 0)
    column = shape.broadcasted_iota(np.int32, (rows, columns), 1)
    return cast.convert_element_type(elementwise.eq(row, elementwise.add(column, np.int32(start))), dtype)


def _split(x: Any, leaves: list[Any], treedef: Any, axis: int) -> Any:
    """The stacked axis of `x` cut into pieces with the shapes of `leaves`."""
    aval = aval_of(x)
    axis %= aval.ndim
    if aval.dtype == dtypes.float0:
        rest = [s for i, s in enumerate(aval.shape) if i != axis]
        return treedef.unflatten(
            [np.zeros((*rest[:axis], *aval_of(leaf).shape, *rest[axis:]), dtypes.float0) for leaf in leaves]
        )
    pieces, start = [], 0
    for leaf in leaves:
        leaf_shape = aval_of(leaf).shape
        size = aval_of(leaf).size
        piece = shape.slice_in_dim(x, start, start + size, axis=axis)
        pieces.append(shape.reshape(piece, (*aval.shape[:axis], *leaf_shape, *aval.shape[axis + 1 :])))
        start += size
    return treedef.unflatten(pieces)


def _check_inputs(what: str, leaves: list[Any], holomorphic: bool, allow_int: bool = False) -> None:
    for leaf in leaves:
        dtype = aval_of(leaf).dtype
        is_complex = dtypes.issubdtype(dtype, np.complexfloating)
        if holomorphic and not is_complex:
            raise TypeError(f"{what} with holomorphic=True requires inputs with complex dtype, but got {dtype}.")
        if not dtypes.is_inexact(dtype) and not allow_int:
            raise TypeError(
                f"{what} requires real- or complex-valued inputs (input dtype that is a sub-dtype of np.inexact), but got {dtype}. If you want to use integer inputs, use vjp directly or set allow_int to True."
            )
        if what == "jacfwd" and is_complex and not holomorphic:
            raise TypeError(
                f"{what} requires real-valued inputs (input dtype that is a sub-dtype of np.floating), but got {dtype}. For holomorphic differentiation, pass holomorphic=True."
            )


def _check_outputs(what: str, leaves: list[Any], holomorphic: bool) -> None:
    for leaf in leaves:
        dtype = aval_of(leaf).dtype
        if holomorphic and not dtypes.issubdtype(dtype, np.complexfloating):
            raise TypeError(f"{what} with holomorphic=True requires outputs with complex dtype, but got {dtype}.")
        if what == "jacrev" and not holomorphic and not dtypes.issubdtype(dtype, np.floating):
            raise TypeError(
                f"{what} requires real-valued outputs (output dtype that is a sub-dtype of np.floating), but got {dtype}. For differentiation of functions with integer outputs, use vjp directly."
            )
