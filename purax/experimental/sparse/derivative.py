# SPDX-License-Identifier: Apache-2.0
"""Derivatives by sparse arrays: by their stored values, as sparse arrays with the same coordinates.

Parameters
----------
fun : callable
    Of sparse and dense arrays.
argnums : int or sequence of int
    Which arguments to differentiate with respect to.
has_aux : bool
    `fun` returns `(output, auxiliary data)`.
options
    Of the transformation of the same name in `purax`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from purax import tree
from purax.experimental.sparse.base import JAXSparse
from purax.transforms import grad as dense_grad
from purax.transforms import jacobian as dense_jacobian

__all__ = ["grad", "jacfwd", "jacobian", "jacrev", "value_and_grad"]


class _Place:
    """A sparse array without its values; a leaf's worth of static data."""

    def __init__(self, mat: Any) -> None:
        self.buffers, self.tree = tree.flatten(mat)

    def with_data(self, data: Any) -> Any:
        """The array with other values (or with a derivative by the values in their place)."""
        more = data.ndim - self.buffers[0].ndim  # axes of the output of a Jacobian are batch axes
        others = [x.reshape((1,) * more + x.shape) for x in self.buffers[1:]] if more else self.buffers[1:]
        return self.tree.unflatten([data, *others])


def _is_sparse(x: Any) -> bool:
    return isinstance(x, JAXSparse)


def _split(argument: Any) -> tuple[list[Any], Callable[[Sequence[Any]], Any]]:
    """What of an argument is differentiated, and how such values (or derivatives by them) are put together again."""
    leaves, treedef = tree.flatten(argument, is_leaf=_is_sparse)
    places = [_Place(x) if _is_sparse(x) else None for x in leaves]
    values = [x.data if _is_sparse(x) else x for x in leaves]

    def join(values: Sequence[Any]) -> Any:
        return treedef.unflatten([v if p is None else p.with_data(v) for v, p in zip(values, places, strict=True)])

    return values, join


def _by_values(transform: Callable[..., Any], fun: Callable[..., Any], argnums: Any, args: Any, kwargs: Any) -> Any:
    """Apply a transformation to the function of the values alone; returns its result, and the joins of the arguments."""
    numbers = [argnums] if isinstance(argnums, int) else list(argnums)
    numbers = [n % len(args) for n in numbers]
    parts = [_split(args[n]) for n in numbers]

    def of_values(*values: Any) -> Any:
        given = list(args)
        for n, v, (_, join) in zip(numbers, values, parts, strict=True):
            given[n] = join(v)
        return fun(*given, **kwargs)

    out = transform(of_values, argnums=tuple(range(len(numbers))))(*[values for values, _ in parts])
    return out, [join for _, join in parts]


def value_and_grad(
    fun: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, **options: Any
) -> Any:
    """Value and gradient of a function of sparse and dense arrays; as `purax.value_and_grad`.

    Returns
    -------
    callable
        Gradients by sparse arrays are sparse arrays with the same coordinates: the derivatives by the stored values.
    """

    def both(*args: Any, **kwargs: Any) -> Any:
        transform = lambda f, argnums: dense_grad.value_and_grad(f, argnums=argnums, has_aux=has_aux, **options)
        (value, found), joins = _by_values(transform, fun, argnums, args, kwargs)
        grads = tuple([join(g) for join, g in zip(joins, found, strict=True)])
        return value, grads[0] if isinstance(argnums, int) else grads

    return both


def grad(fun: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, **options: Any) -> Any:
    """Gradient of a function of sparse and dense arrays, a callable; as `purax.grad`, with sparse gradients by sparse arrays."""
    both = value_and_grad(fun, argnums=argnums, has_aux=has_aux, **options)

    def gradient(*args: Any, **kwargs: Any) -> Any:
        value, found = both(*args, **kwargs)
        return (found, value[1]) if has_aux else found

    return gradient


def _jacobian(transform: Callable[..., Any], fun: Callable[..., Any], argnums: Any, has_aux: bool, options: Any) -> Any:
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        structures: list[Any] = []

        def flat(*given: Any, **named: Any) -> Any:
            out = fun(*given, **named)
            leaves, out_tree = tree.flatten(out[0] if has_aux else out)
            structures.append(out_tree)
            return (leaves, out[1]) if has_aux else leaves

        apply = lambda f, argnums: transform(f, argnums=argnums, has_aux=has_aux, **options)
        found, joins = _by_values(apply, flat, argnums, args, kwargs)
        rows = found[0] if has_aux else found
        blocks = [tuple([join(block) for join, block in zip(joins, row, strict=True)]) for row in rows]
        out = structures[0].unflatten([row[0] for row in blocks] if isinstance(argnums, int) else blocks)
        return (out, found[1]) if has_aux else out

    return jacobian


def jacfwd(fun: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, **options: Any) -> Any:
    """Jacobian by forward mode, a callable; derivatives by a sparse array have its coordinates, behind the axes of the output."""
    return _jacobian(dense_jacobian.jacfwd, fun, argnums, has_aux, options)


def jacrev(fun: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, **options: Any) -> Any:
    """Jacobian by reverse mode, a callable; see `jacfwd`."""
    return _jacobian(dense_jacobian.jacrev, fun, argnums, has_aux, options)


jacobian = jacrev
