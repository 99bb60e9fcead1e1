# SPDX-License-Identifier: Apache-2.0
"""`associative_scan`: prefix combination in a logarithmic number of steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from purax import tree
from purax.core.trace import aval_of
from purax.primitives import shape

__all__ = ["associative_scan"]


def associative_scan(fn: Callable[[Any, Any], Any], elems: Any, reverse: bool = False, axis: int = 0) -> Any:
    """All prefixes of `elems` combined by the associative function `fn`.

    Parameters
    ----------
    fn : callable
        `fn(a, b)` combines two pytrees like `elems`, elementwise along `axis`.
    elems : pytree of arrays
        With equal sizes along `axis`.
    reverse : bool
        Combine suffixes instead.
    axis : int

    Returns
    -------
    pytree like `elems`

    Raises
    ------
    ValueError
        Sizes along the axis differ.

    References
    ----------
    G. E. Blelloch, "Prefix sums and their applications", 1990: combine neighbours, scan the half-size result, fill the gaps.
    """
    if not callable(fn):
        raise TypeError("lax.associative_scan: fn argument should be callable.")
    leaves, treedef = tree.flatten(elems)
    if not leaves:
        return elems
    ndim = aval_of(leaves[0]).ndim
    if not -ndim <= axis < ndim:
        raise ValueError(f"axis {axis} is out of bounds for array of dimension {ndim}")
    axis %= ndim
    sizes = [aval_of(x).shape[axis] for x in leaves]
    if any(s != sizes[0] for s in sizes):
        raise ValueError(
            f"Array inputs to associative_scan must have the same first dimension. (saw: {[aval_of(x).shape for x in leaves]})"
        )

    def combine(a: Sequence[Any], b: Sequence[Any]) -> list[Any]:
        out, out_tree = tree.flatten(fn(treedef.unflatten(a), treedef.unflatten(b)))
        if out_tree != treedef:
            raise TypeError(
                f"associative_scan: fn must return the structure of its arguments, {treedef}, but returned {out_tree}"
            )
        return out

    if reverse:
        leaves = [shape.rev(x, (axis,)) for x in leaves]
    results = _scan(combine, leaves, sizes[0], axis)
    if reverse:
        results = [shape.rev(x, (axis,)) for x in results]
    return treedef.unflatten(results)


def _scan(combine: Callable[..., list[Any]], xs: Sequence[Any], size: int, axis: int) -> Sequence[Any]:
    if size < 2:
        return xs

    def part(x: Any, start: int, stop: int, step: int = 1) -> Any:
        return shape.slice_in_dim(x, start, stop, step, axis)

    pairs = combine([part(x, 0, size - 1, 2) for x in xs], [part(x, 1, size, 2) for x in xs])
    odd = _scan(combine, pairs, size // 2, axis)  # prefixes that end at 1, 3, 5, ...
    if size % 2 == 0:
        before = [part(x, 0, size // 2 - 1) for x in odd]
    else:
        before = list(odd)
    even = combine(before, [part(x, 2, size, 2) for x in xs])  # prefixes that end at 2, 4, 6, ...
    even = [shape.concatenate([part(x, 0, 1), e], axis) for x, e in zip(xs, even, strict=True)]
    return [_interleave(e, o, size, axis) for e, o in zip(even, odd, strict=True)]


def _interleave(even: Any, odd: Any, size: int, axis: int) -> Any:
    """Elements of `even` at 0, 2, ... and of `odd` at 1, 3, ... of one array."""
    aval = aval_of(odd)
    if size % 2:
        odd = shape.concatenate([odd, shape.slice_in_dim(even, 0, 1, 1, axis)], axis)  # a filler, cut off below
    paired = shape.concatenate([shape.expand_dims(even, (axis + 1,)), shape.expand_dims(odd, (axis + 1,))], axis + 1)
    flat = shape.reshape(paired, (*aval.shape[:axis], size + size % 2, *aval.shape[axis + 1 :]))
    return shape.slice_in_dim(flat, 0, size, 1, axis)
