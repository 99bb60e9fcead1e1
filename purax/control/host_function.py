# SPDX-License-Identifier: Apache-2.0
"""Flat functions of NumPy arrays that stand for the user's function in a program, one class per thing that a program adds to it.

They are parameters of equations, so they are compared by what they call: a program that is traced again is the same program.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from purax import dtypes, errors, tree
from purax.core.aval import array_aval
from purax.core.trace import aval_of
from purax.primitives import cast
from purax.primitives.random_bits import random_unwrap, random_wrap
from purax.runtime.array import Array, wrap_host
from purax.runtime.tensor import PACKED, wider

__all__ = ["Flattened", "Guarded", "Lanes", "Static", "Tokened", "checked", "received", "sent"]


def sent(x: Any) -> Any:
    """An operand as it travels to the host."""
    dtype = aval_of(x).dtype
    if isinstance(dtype, dtypes.KeyDtype):
        return random_unwrap(x)
    return cast.convert_element_type(x, wider(dtype)) if dtype in PACKED else x


def received(value: np.ndarray, dtype: Any) -> Array:
    """What the user's function is given for an operand of `dtype`."""
    if isinstance(dtype, dtypes.KeyDtype):
        return random_wrap(value, dtype.impl)  # type: ignore[no-any-return]
    value = np.ascontiguousarray(value).astype(dtype, copy=False).reshape(np.shape(value))
    return wrap_host(array_aval(value.shape, value.dtype), value)


class _Compared:
    """Equal where the class and the fields are; by identity where a field cannot be hashed."""

    __slots__ = ("_hash", "fields")

    def __init__(self, *fields: Any) -> None:
        self.fields = fields
        try:
            self._hash = hash((type(self), fields))
        except TypeError:
            self._hash = id(self)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        same = type(self) is type(other) and self._hash == other._hash  # type: ignore[attr-defined]
        return bool(same and self._hash != id(self) and self.fields == other.fields)  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return self._hash


class Flattened(_Compared):
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

    __slots__ = ()

    def __call__(self, *values: np.ndarray) -> tuple[np.ndarray, ...]:
        """Run the function."""
        fun, in_tree, given, out_tree, outs = self.fields
        rest = iter(values)
        leaves = [entry.value if type(entry) is Static else received(next(rest), entry) for entry in given]
        args, kwargs = in_tree.unflatten(leaves)
        result = fun(*args, **kwargs)
        return () if out_tree is None else checked(result, out_tree, outs)


    def promising(self, shapes: Sequence[tuple[int, ...]]) -> Flattened:
        """The same function, whose results have other shapes."""
        *fields, outs = self.fields
        return Flattened(*fields, tuple([a.update(shape=s) for a, s in zip(outs, shapes, strict=True)]))


class Static(_Compared):
    """An argument that is no array; it goes to the function as it is."""

    __slots__ = ()
    value = property(lambda self: self.fields[0])


def checked(result: Any, out_tree: Any, outs: Sequence[Any]) -> tuple[np.ndarray, ...]:
    """The result of a user's function as arrays of the promised types.

    Raises
    ------
    CallbackResultError
        Its structure, a shape or a dtype is another one.
    """
    leaves, treedef = tree.flatten(result)
    if treedef != out_tree:
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


class Lanes(_Compared):
    """A function called once per lane, in order: `Lanes(function, size, mapped, outs)`.

    `mapped` says which operands have the axis of the lanes in front, `outs` are the types of one lane's results.
    """

    __slots__ = ()

    def __call__(self, *values: np.ndarray) -> tuple[np.ndarray, ...]:
        """Run the function for every lane."""
        function, size, mapped, outs = self.fields
        results = [np.empty((size, *a.shape), a.dtype) for a in outs]
        for lane in range(size):
            found = function(*[np.asarray(x[lane]) if m else x for x, m in zip(values, mapped, strict=True)])
            for rows, row in zip(results, found, strict=True):
                rows[lane] = row
        return tuple(results)


class Guarded(_Compared):
    """A function called only where its first operand is true, else zeros: `Guarded(function, outs)`."""

    __slots__ = ()

    def __call__(self, live: np.ndarray, *values: np.ndarray) -> tuple[np.ndarray, ...]:
        """Run the function, if it is to run."""
        function, outs = self.fields
        return function(*values) if live else tuple([np.zeros(a.shape, a.dtype) for a in outs])


class Tokened(_Compared):
    """A function that passes on the token that it is given first: `Tokened(function)`."""

    __slots__ = ()

    def __call__(self, token: np.ndarray, *values: np.ndarray) -> tuple[np.ndarray, ...]:
        """Run the function."""
        return (token, *self.fields[0](*values))
