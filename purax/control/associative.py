# SPDX-License-Identifier: Apache-2.0
"""`associative_scan`: prefix combination in a logarithmic number of steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from purax import dtypes, tree
from purax.core.trace import aval_of
from purax.primitives import bits, elementwise, joining, shape

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
        Sizes along the axis differ, or there is no such axis.
    TypeError
        `fn` cannot be called, or returns another structure.

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
        for given, made in zip(map(aval_of, a), map(aval_of, out), strict=True):
            if made.shape != given.shape:
                raise ValueError(
                    f"associative_scan: fn must combine elementwise along axis {axis}, but made {made.str_short()} of two values of "
                    f"type {given.str_short()}. It is called with many elements at once; write it for one pair and pass vmap(fn), if need be."
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
    return [_woven(x, e, o, size, axis) for x, e, o in zip(xs, even, odd, strict=True)]


def _woven(x: Any, even: Any, odd: Any, size: int, axis: int) -> Any:
    """The first element of `x`, those of `odd` at 1, 3, ... and of `even` at 2, 4, ...

    By spreading and adding, which compilers write as one loop; joining pieces of one element copies them one by one. What is
    added is -0.0: that changes no number, not even the sign of a zero.
    """
    aval = aval_of(x)
    rest = shape.full_like_aval(aval.update(shape=()), -0.0 if dtypes.is_inexact(aval.dtype) else 0)

    def spread(y: Any, start: int) -> Any:
        behind = size - start - (2 * aval_of(y).shape[axis] - 1)
        config = [(start, behind, 1) if i == axis else (0, 0, 0) for i in range(aval.ndim)]
        return joining.pad(y, rest, config)

    join = bits.bitwise_or if dtypes.is_bool(aval.dtype) else elementwise.add
    first = shape.slice_in_dim(x, 0, 1, 1, axis)
    return join(spread(joining.concatenate([first, even], axis) if size > 2 else first, 0), spread(odd, 1))
