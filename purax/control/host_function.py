# SPDX-License-Identifier: Apache-2.0
"""Flat functions of NumPy arrays that stand for the user's function in a program, one class per thing that a program adds to it.

They are parameters of equations, so they are compared by what they call: a program that is traced again is the same program.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from purax import dtypes, errors, tree
from purax.control.custom_rules import Rule
from purax.core.aval import array_aval
from purax.core.trace import aval_of
from purax.primitives import cast
from purax.primitives.random_bits import random_unwrap, random_wrap
from purax.runtime.array import Array, wrap_host
from purax.runtime.tensor import PACKED, wider

__all__ = ["Flattened", "Lanes", "Static", "Tokened", "checked", "received", "sent"]


def sent(x: Any) -> Any:
    """An operand as it travels to the host: an array of its shape, whose dtype NumPy has."""
    dtype = aval_of(x).dtype
    if isinstance(dtype, dtypes.KeyDtype):
        return random_unwrap(x)
    return cast.convert_element_type(x, wider(dtype)) if dtype in PACKED else x


def received(value: np.ndarray, dtype: Any) -> Array:
    """What the user's function is given for an operand of `dtype`."""
    if isinstance(dtype, dtypes.KeyDtype):
        return random_wrap(value, dtype.impl)  # type: ignore[arg-type]
    value = np.ascontiguousarray(value).astype(dtype, copy=False).reshape(np.shape(value))
    return wrap_host(array_aval(value.shape, value.dtype), value)


class Flattened(Rule):
    """The user's function on flat arrays.

    Parameters
    ----------
    fun : callable
    in_tree : structure of `(args, kwargs)`
    given : tuple
        One entry per leaf: the dtype of an array, or a `Static`.
    out_tree : structure of the result, or None
        None: the result is ignored.
    outs : tuple of ShapedArray
        Types of the result.
    """

    def __init__(self, fun: Any, in_tree: Any, given: tuple[Any, ...], out_tree: Any, outs: tuple[Any, ...]) -> None:
        super().__init__(fun, in_tree, given, out_tree, outs)
        self.fun, self.in_tree, self.given, self.out_tree, self.outs = fun, in_tree, given, out_tree, outs

    def __call__(self, *values: np.ndarray) -> tuple[np.ndarray, ...]:
        """Run the function."""
        rest = iter(values)
        leaves = [entry.value if type(entry) is Static else received(next(rest), entry) for entry in self.given]
        args, kwargs = self.in_tree.unflatten(leaves)
        result = self.fun(*args, **kwargs)
        return () if self.out_tree is None else checked(result, self.out_tree, self.outs)

    def promising(self, shapes: Sequence[tuple[int, ...]]) -> Flattened:
        """The same function, whose results have other shapes."""
        outs = tuple([a.update(shape=s) for a, s in zip(self.outs, shapes, strict=True)])
        return Flattened(self.fun, self.in_tree, self.given, self.out_tree, outs)


class Static(Rule):
    """An argument that is no array; it goes to the function as it is."""

    def __init__(self, value: Any) -> None:
        super().__init__(value)
        self.value = value


def checked(result: Any, out_tree: Any, outs: Sequence[Any]) -> tuple[np.ndarray, ...]:
    """The result of a user's function as arrays of the promised types.

    Parameters
    ----------
    result : pytree of array-likes
    out_tree : structure
        What was promised.
    outs : sequence of aval
        What was promised.

    Returns
    -------
    tuple of NumPy arrays

    Raises
    ------
    CallbackResultError
        The number of its leaves, a shape or a dtype is another one.
    """
    leaves, treedef = tree.flatten(result)
    if len(leaves) != len(outs):
        raise errors.CallbackResultError(
            errors.explain(
                f"the function returned {treedef} where {out_tree} was promised.",
                "A program is compiled for the types that it was told.",
                "return what `result_shape_dtypes` says, or change that.",
            )
        )
    return tuple([_checked_leaf(i, leaf, aval) for i, (leaf, aval) in enumerate(zip(leaves, outs, strict=True))])


def _checked_leaf(i: int, leaf: Any, aval: Any) -> np.ndarray:
    value = np.asarray(leaf)
    if value.shape != aval.shape:
        raise errors.CallbackResultError(
            errors.explain(f"result {i} of the function has shape {value.shape} where {aval.str_short()} was promised.")
        )
    weak = type(leaf) in (bool, int, float, complex) and value.dtype.kind == np.dtype(aval.dtype).kind
    if not weak and aval.dtype not in (value.dtype, dtypes.narrow(value.dtype)):
        raise errors.CallbackResultError(
            errors.explain(f"result {i} of the function has dtype {value.dtype} where {aval.str_short()} was promised.")
        )
    return np.array(value, wider(aval.dtype) if aval.dtype in PACKED else aval.dtype, order="C")


class Lanes(Rule):
    """A function called once per lane, in order.

    `mapped` says which operands have the axis of the lanes in front, `outs` are the types of one lane's results.
    """

    def __init__(self, function: Any, size: int, mapped: tuple[bool, ...], outs: tuple[Any, ...]) -> None:
        super().__init__(function, size, mapped, outs)
        self.function, self.size, self.mapped, self.outs = function, size, mapped, outs

    def __call__(self, *values: np.ndarray) -> tuple[np.ndarray, ...]:
        """Run the function for every lane."""
        results = [np.empty((self.size, *a.shape), a.dtype) for a in self.outs]
        for lane in range(self.size):
            given = [np.asarray(x[lane]) if m else x for x, m in zip(values, self.mapped, strict=True)]
            found = self.function(*given)
            for rows, row in zip(results, found, strict=True):
                rows[lane] = row
        return tuple(results)


class Tokened(Rule):
    """A function that passes on the token that it is given first."""

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        self.function = function

    def __call__(self, token: np.ndarray, *values: np.ndarray) -> tuple[np.ndarray, ...]:
        """Run the function."""
        return (token, *self.function(*values))
