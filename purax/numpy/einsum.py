# SPDX-License-Identifier: Apache-2.0
"""Einstein sums: each is taken apart into diagonals, sums, and `dot_general` of two operands at a time.

Results have the common dtype of the operands.
"""

from __future__ import annotations

import operator
from functools import lru_cache
from typing import Any

from purax import dtypes, errors
from purax.config import current as settings
from purax.lazy import lazy
from purax.numpy import _ops as ops
from purax.numpy.creation import placed
from purax.numpy.matrices import diagonal
from purax.numpy.promotion import as_operand, check_arraylike, promote_dtypes, refuse
from purax.primitives.contraction import canonical_precision, dot_general_p
from purax.primitives.resharding import is_explicit, out_sharded

__all__ = ["einsum", "einsum_path"]

opt_einsum = lazy("opt_einsum", "einsum of three or more operands")

_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def einsum(
    subscripts: Any, /, *operands: Any, out: None = None, optimize: Any = "auto", precision: Any = None,
    preferred_element_type: Any = None, _dot_general: Any = None, out_sharding: Any = None,
) -> Any:  # fmt: skip
    """Sum of products of elements whose axes are named by letters.

    Parameters
    ----------
    subscripts : str, or array
        Such as "bij,bjk->bik", with "..." for axes without letters. Without "->" the result has the letters that occur once, in
        alphabetical order. Or operands and lists of axis numbers by turns, as in NumPy.
    *operands : array
    optimize : "auto", "optimal", "greedy", bool, or path
        Order of pairwise products, found by opt_einsum for three operands or more.
    precision, preferred_element_type
        As in `dot`.
    out : None
    _dot_general : callable, optional
        Takes the place of `purax.lax.dot_general`.
    out_sharding : Sharding, optional
        Where the result lies.

    Returns
    -------
    array of the common dtype

    Raises
    ------
    ValueError
        Subscripts that are malformed or name another number of operands.
    ShapeError
        Another number of axes than letters, or sizes that differ.

    Examples
    --------
    >>> pnp.einsum("ij,j->i", pnp.array([[1, 2], [3, 4]]), pnp.array([1, 1])).tolist()
    [3, 7]
    """
    if out_sharding is not None and is_explicit(out_sharding):
        return out_sharded(
            einsum, out_sharding, subscripts, *operands, optimize=optimize, precision=precision,
            preferred_element_type=preferred_element_type, _dot_general=_dot_general or ops.dot_general,
        )  # fmt: skip
    plain = precision is None and preferred_element_type is None and _dot_general is None and out_sharding is None
    if plain and len(operands) == 2 and out is None and type(subscripts) is str:
        first, second = (getattr(x, "aval", None) for x in operands)
        key = (subscripts, first, second, settings().trace_key)
        found = _known_products.get(key)
        if found is None and first is not None and second is not None and first.dtype == second.dtype:
            found = _known_products[key] = _product(subscripts, first, second)
        if found:
            params, swapped, order = found
            value = dot_general_p.bind1(*operands[::-1] if swapped else operands, **params)
            return value if order is None else ops.transpose_p.bind1(value, permutation=order)
    refuse("einsum", out=out)
    text, arrays = _arguments(subscripts, operands)
    check_arraylike("einsum", *arrays)
    values = promote_dtypes(*arrays) if len(arrays) > 1 else [as_operand(arrays[0])]
    terms, result = _parse(text, tuple([x.aval.ndim for x in values]))
    product = _dot_general or ops.dot_general
    preferred = values[0].aval.dtype if preferred_element_type is None else dtypes.named(preferred_element_type)
    pairs = [(x, labels) for x, labels in zip(values, terms, strict=True)]
    pairs = _squeeze_ones(pairs)
    path = _path(pairs, result, optimize) if len(pairs) > 2 else [tuple(range(len(pairs)))]
    for places in path:
        taken = [pairs[i] for i in sorted(places)]
        pairs = [pair for i, pair in enumerate(pairs) if i not in places]
        needed = set(result).union(*[labels for _, labels in pairs])
        merged = _single(*taken[0], needed | set().union(*[labels for _, labels in taken[1:]]))
        for number, other in enumerate(taken[1:], 2):
            later = needed.union(*[labels for _, labels in taken[number:]])
            merged = _double(merged, other, later, precision, preferred, product)
        pairs.append(merged)
    value, labels = _single(*pairs[0], set(result))
    if value.aval.dtype != preferred:
        value = ops.convert_element_type(value, preferred)
    return placed(ops.transpose(value, [labels.index(label) for label in result]), out_sharding)


# How two operands are multiplied by one `dot_general` and a transpose; False where that is not enough.
_known_products: dict[Any, Any] = {}


def _product(subscripts: str, a: Any, b: Any) -> Any:
    (left, right), result = _parse(subscripts.replace(" ", ""), (a.ndim, b.ndim))
    sizes = dict(zip(left, a.shape, strict=True)) | dict(zip(right, b.shape, strict=True))
    fits = all(
        sizes[label] == size for term, x in ((left, a), (right, b)) for label, size in zip(term, x.shape, strict=True)
    )
    alone = [x for x in sizes if x not in result and not (x in left and x in right)]
    if not fits or alone or len(set(left)) != len(left) or len(set(right)) != len(right):
        return False
    batch = [x for x in left if x in right and x in result]
    rows, columns = ([x for x in term if x in result and x not in batch] for term in (left, right))
    # With the operands exchanged the result may need no transpose.
    swapped = [*batch, *rows, *columns] != list(result) and [*batch, *columns, *rows] == list(result)
    if swapped:
        left, right, rows, columns = right, left, columns, rows
    labels = [*batch, *rows, *columns]
    contracted = [x for x in left if x in right and x not in result]
    numbers = tuple(
        [tuple([tuple([term.index(x) for x in group]) for term in (left, right)]) for group in (contracted, batch)]
    )
    params = {"dimension_numbers": numbers, "precision": canonical_precision(None), "preferred_element_type": a.dtype}
    order = tuple([labels.index(x) for x in result])
    return params, swapped, None if labels == list(result) else order


def _arguments(subscripts: Any, operands: Any) -> tuple[str, list[Any]]:
    """Text and arrays, also from the form ``einsum(x, [0, 1], y, [1, 2], [0, 2])``."""
    if isinstance(subscripts, str):
        return subscripts.replace(" ", ""), list(operands)
    parts = [subscripts, *operands]
    arrays, terms = parts[0 : len(parts) // 2 * 2 : 2], parts[1::2]
    text = ",".join(map(_from_list, terms))
    if len(parts) % 2:
        text += "->" + _from_list(parts[-1])
    return text, arrays


def _from_list(axes: Any) -> str:
    return "".join("..." if axis is Ellipsis else _LETTERS[operator.index(axis)] for axis in axes)


@lru_cache(maxsize=1024)
def _parse(text: str, ranks: tuple[int, ...]) -> tuple[tuple[str, ...], str]:
    """Labels of each operand and of the result; axes behind "..." get labels from outside the alphabet."""
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise ValueError(f"einsum: {text!r} names {len(terms)} operands, and {len(ranks)} are given")
    widths = []
    for term, rank in zip(terms, ranks, strict=True):
        named = term.replace("...", "", 1)
        if not all(label in _LETTERS or not label.isascii() for label in named):
            raise ValueError(f"einsum: {text!r} has a character that is no letter")
        width = rank - len(named) if "..." in term else 0
        if width < 0 or ("..." not in term and len(named) != rank):
            raise errors.ShapeError(f"einsum: {term!r} names {len(named)} axes, and the operand has {rank}")
        widths.append(width)
    extra = "".join(chr(0x4E00 + i) for i in range(max(widths, default=0)))
    expanded = tuple(
        term.replace("...", extra[len(extra) - width :]) for term, width in zip(terms, widths, strict=True)
    )
    if arrow:
        result = right.replace("...", extra)
    else:
        letters = "".join(expanded)
        result = extra + "".join(sorted({x for x in letters if letters.count(x) == 1 and x not in extra}))
    if len(set(result)) != len(result):
        raise ValueError(f"einsum: the result of {text!r} names an axis twice")
    for label in result:
        if not any(label in term for term in expanded):
            raise ValueError(f"einsum: the result of {text!r} names {label!r}, which no operand has")
    return expanded, result


def _squeeze_ones(pairs: list[Any]) -> list[Any]:
    """Sizes of labels checked; axes of size 1 that meet larger ones dropped, which broadcasts them."""
    sizes: dict[str, int] = {}
    for x, labels in pairs:
        for label, size in zip(labels, x.aval.shape, strict=True):
            if sizes.setdefault(label, size) != size:
                if 1 not in (size, sizes[label]):
                    raise errors.ShapeError(f"einsum: sizes {sizes[label]} and {size} meet at axis {label!r}")
                sizes[label] = max(size, sizes[label]) if 0 not in (size, sizes[label]) else 0
    result = []
    for x, labels in pairs:
        dropped = [i for i, label in enumerate(labels) if x.aval.shape[i] == 1 and sizes[label] != 1]
        if dropped:
            x = ops.squeeze(x, dropped)
            labels = "".join(label for i, label in enumerate(labels) if i not in dropped)
        result.append((x, labels))
    return result


def _single(x: Any, labels: str, needed: set[str]) -> tuple[Any, str]:
    """One operand with diagonals of repeated labels taken and labels that nobody needs summed."""
    for label in sorted(set(labels)):
        while labels.count(label) > 1:
            i = labels.index(label)
            j = labels.index(label, i + 1)
            x = diagonal(x, 0, i, j)
            labels = labels[:i] + labels[i + 1 : j] + labels[j + 1 :] + label
    summed = tuple([i for i, label in enumerate(labels) if label not in needed])
    if summed:
        # An operation that keeps the dtype, as products do: small integers and booleans are not widened.
        x = ops.reduce_or(x, summed) if dtypes.is_bool(x.aval.dtype) else ops.reduce_sum(x, summed)
        labels = "".join(label for label in labels if label in needed)
    return x, labels


def _double(first: Any, second: Any, needed: set[str], precision: Any, preferred: Any, product: Any) -> tuple[Any, str]:
    """The product of two operands, summed over labels that neither the result nor later operands need."""
    a, left = _single(first[0], first[1], needed | set(second[1]))
    b, right = _single(second[0], second[1], needed | set(left))
    shared = [label for label in left if label in right]
    batch = [label for label in shared if label in needed]
    contracted = [label for label in shared if label not in needed]
    numbers = (
        (tuple(left.index(x) for x in contracted), tuple(right.index(x) for x in contracted)),
        (tuple(left.index(x) for x in batch), tuple(right.index(x) for x in batch)),
    )
    value = product(a, b, numbers, precision=precision, preferred_element_type=preferred)
    labels = batch + [x for x in left if x not in shared] + [x for x in right if x not in shared]
    return value, "".join(labels)


def _path(pairs: list[Any], result: str, optimize: Any) -> list[tuple[int, ...]]:
    text = ",".join(labels for _, labels in pairs) + "->" + result
    if isinstance(optimize, (list, tuple)):
        return [tuple(step) for step in optimize if isinstance(step, (list, tuple))]
    if optimize is False:
        return [tuple(range(len(pairs)))]
    return _best_path(text, tuple([x.aval.shape for x, _ in pairs]), "optimal" if optimize is True else optimize)


@lru_cache(maxsize=256)
def _best_path(text: str, shapes: tuple[tuple[int, ...], ...], optimize: str) -> list[tuple[int, ...]]:
    path, _ = opt_einsum.contract_path(text, *shapes, shapes=True, optimize=optimize)
    return [tuple(step) for step in path]


def einsum_path(subscripts: Any, /, *operands: Any, optimize: Any = "auto") -> tuple[list[tuple[int, ...]], Any]:
    """The order in which `einsum` multiplies its operands, and opt_einsum's account of its cost.

    Parameters
    ----------
    subscripts, operands
        As in `einsum`.
    optimize : "auto", "optimal", "greedy", bool, or path

    Returns
    -------
    (list of tuple of int, PathInfo)
    """
    text, arrays = _arguments(subscripts, operands)
    if isinstance(optimize, bool):
        optimize = "optimal" if optimize else [tuple(range(len(arrays)))]
    path, info = opt_einsum.contract_path(text, *arrays, optimize=optimize)
    return path, info
