# SPDX-License-Identifier: Apache-2.0
"""Functions of scalars or small arrays made functions of arrays: `vectorize`."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection
from typing import Any

from purax import errors
from purax.numpy import _ops as ops
from purax.numpy.promotion import as_operand, check_arraylike, common_shape
from purax.transforms.vmap import vmap

__all__ = ["vectorize"]

_NAMES = r"\((?:\w+(?:,\w+)*)?\)"
_SIGNATURE = re.compile(rf"^(?:{_NAMES}(?:,{_NAMES})*)?->{_NAMES}(?:,{_NAMES})*$")


def vectorize(
    pyfunc: Callable[..., Any], *, excluded: Collection[int | str] = frozenset(), signature: str | None = None
) -> Any:
    """The function mapped over leading axes of its arguments, whose shapes broadcast; built of `vmap`.

    Parameters
    ----------
    pyfunc : callable
    excluded : set of int or str
        Positions and names of arguments that are passed as they are.
    signature : str, optional
        Axes that one call takes and gives, such as "(n),(n)->()"; by default scalars.

    Returns
    -------
    callable

    Raises
    ------
    ValueError
        The signature is malformed, or does not fit the arguments or results.
    TypeError
        `excluded` has something else, or another number of arguments comes than the signature names.
    """
    if any(not isinstance(item, (str, int)) for item in excluded):
        raise TypeError(
            f"purax.numpy.vectorize can only exclude integer or string arguments, but excluded={set(excluded)!r}"
        )
    if any(isinstance(item, int) and item < 0 for item in excluded):
        raise ValueError(f"excluded={set(excluded)!r} contains negative numbers")
    parsed = None if signature is None else _parse(signature)

    @functools.wraps(pyfunc)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        nothing = [i for i, value in enumerate(args) if value is None and i not in excluded]
        if nothing and parsed is not None:
            raise ValueError(
                f"None stands at positions {nothing} of a vectorized function, and its signature {signature!r} wants arrays there"
            )
        places = [i for i in range(len(args)) if i not in excluded and i not in nothing]
        names = [name for name in kwargs if name not in excluded and kwargs[name] is not None]
        if parsed is not None and len(places) + len(names) != len(parsed[0]):
            raise TypeError(
                f"wrong number of positional arguments: expected {len(parsed[0])}, got {len(places) + len(names)}"
            )
        operands = [args[i] for i in places] + [kwargs[name] for name in names]
        check_arraylike("vectorize", *operands)
        operands = [as_operand(x) for x in operands]

        def call(*values: Any) -> Any:
            every = list(args)
            for place, value in zip(places, values, strict=False):
                every[place] = value
            return pyfunc(*every, **{**kwargs, **dict(zip(names, values[len(places) :], strict=True))})

        return _map(call, operands, parsed)

    return mapped


def _parse(signature: str) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    text = re.sub(r"\s+", "", signature)
    if not _SIGNATURE.match(text):
        raise ValueError(f"not a valid gufunc signature: {signature}")
    before, after = text.split("->")
    inputs, outputs = (
        [tuple(name for name in term[1:-1].split(",") if name) for term in re.findall(_NAMES, side)]
        for side in (before, after)
    )
    return inputs, outputs


def _map(call: Callable[..., Any], operands: list[Any], parsed: Any) -> Any:
    """Call over all leading axes, those of size 1 not repeated but left unmapped."""
    core = [()] * len(operands) if parsed is None else parsed[0]
    sizes: dict[str, int] = {}
    leading = []
    for x, names in zip(operands, core, strict=True):
        shape = x.aval.shape
        if len(shape) < len(names):
            raise errors.ShapeError(
                f"input with shape {shape} does not have enough dimensions for all core dimensions {names} on vectorized function"
            )
        split = len(shape) - len(names)
        for name, size in zip(names, shape[split:], strict=True):
            _check_size(name, size, sizes)
        leading.append(shape[:split])
    outer = common_shape("vectorize", *leading)
    function = _checked(call, parsed, sizes)
    axes_of = []
    arrays = []
    for x, own in zip(operands, leading, strict=True):
        padded = (1,) * (len(outer) - len(own)) + own
        mapped = [size == total and size != 1 for size, total in zip(padded, outer, strict=True)]
        kept = [size for size, use in zip(padded, mapped, strict=True) if use]
        arrays.append(ops.reshape(x, (*kept, *x.aval.shape[len(own) :])))
        axes_of.append(mapped)
    ones = []
    for axis in range(len(outer))[::-1]:
        chosen = tuple([0 if mapped[axis] else None for mapped in axes_of])
        if any(place is not None for place in chosen):
            function = vmap(function, in_axes=chosen)
        else:
            ones.append(axis)
    result = function(*arrays)
    if not ones:
        return result
    restore = sorted(ones)
    if isinstance(result, tuple):
        return tuple([ops.expand_dims(x, restore) for x in result])
    return ops.expand_dims(result, restore)


def _check_size(name: str, size: int, sizes: dict[str, int]) -> None:
    if name.isdigit() and int(name) != size:
        raise errors.ShapeError(f"a core dimension has size {size}, and the signature fixes it at {name}")
    if sizes.setdefault(name, size) != size:
        raise errors.ShapeError(f"inconsistent size for core dimension {name!r}: {sizes[name]} vs {size}")


def _checked(call: Callable[..., Any], parsed: Any, sizes: dict[str, int]) -> Callable[..., Any]:
    """The call with its results made arrays and, if there is a signature, compared with it."""

    def function(*values: Any) -> Any:
        result = call(*values)
        results = tuple(result) if isinstance(result, (tuple, list)) else (result,)
        arrays = [as_operand(x) for x in results]
        if parsed is not None:
            if len(arrays) != len(parsed[1]):
                raise TypeError(
                    f"wrong number of outputs from vectorized function: expected {len(parsed[1])}, got {len(arrays)}"
                )
            known = dict(sizes)
            for x, names in zip(arrays, parsed[1], strict=True):
                if x.aval.ndim != len(names):
                    raise errors.ShapeError(
                        f"output shape {x.aval.shape} does not match core dimensions {names} of the signature"
                    )
                for name, size in zip(names, x.aval.shape, strict=True):
                    _check_size(name, size, known)
        return tuple(arrays) if isinstance(result, (tuple, list)) else arrays[0]

    return function
