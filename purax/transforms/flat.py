# SPDX-License-Identifier: Apache-2.0
"""From functions of pytrees to functions of flat lists of values, for the public forms of the transformations."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from purax import dtypes, errors, tree
from purax.core.hooks import hooks
from purax.core.trace import aval_of

__all__ = [
    "OutStore", "argument_names", "check_arrays", "checked_argnums", "flat_function", "float0_zeros", "like", "name_of",
    "normal_argnums", "pair",
]  # fmt: skip


class OutStore:
    """What a flat function leaves behind: the structure of its output and of its auxiliary data.

    The leaves of the auxiliary data are the last outputs of the flat function, so they leave the transformation as outputs do.
    """

    __slots__ = ("aux_tree", "count", "out_tree")

    def __init__(self) -> None:
        self.out_tree: Any = None
        self.aux_tree: Any = None
        self.count = 0

    def aux(self, outs: Sequence[Any]) -> Any:
        """The auxiliary data among the outputs of the flat function."""
        return self.aux_tree.unflatten(outs[self.count :])


def flat_function(
    fun: Callable[..., Any], in_tree: Any, kwargs: dict[str, Any] | None = None, has_aux: bool = False
) -> tuple[Callable[..., list[Any]], OutStore]:
    """`fun` as a function of the leaves of its arguments; the store learns the output structure when it runs.

    Parameters
    ----------
    fun : callable
    in_tree : structure
    kwargs : dict, optional
        Passed on as they are.
    has_aux : bool
        `fun` returns `(output, auxiliary data)`.

    Returns
    -------
    (callable, OutStore)
    """
    store = OutStore()

    def flat(*leaves: Any) -> list[Any]:
        out = fun(*in_tree.unflatten(leaves), **(kwargs or {}))
        if has_aux:
            out, aux = pair(name_of(fun), out)
            outs, store.out_tree = tree.flatten(out)
            extra, store.aux_tree = tree.flatten(aux)
            store.count = len(outs)
            return [*outs, *extra]
        outs, store.out_tree = tree.flatten(out)
        store.count = len(outs)
        return outs

    flat.__name__ = name_of(fun)
    return flat, store


def pair(name: str, out: Any) -> Any:
    """The output and the auxiliary data that the function `name`, given has_aux=True, returned as `out`: a tuple or list of two.

    Raises
    ------
    TypeError
        It is no pair.
    """
    if not isinstance(out, (tuple, list)) or len(out) != 2:
        raise TypeError(
            f"{name} was given has_aux=True, so it must return a pair (output, auxiliary data); it returned {_shape_of(out)}"
        )
    return out


def _shape_of(out: Any) -> str:
    return f"a {type(out).__name__} of {len(out)}" if isinstance(out, (tuple, list)) else f"{type(out).__name__}"


def name_of(fun: Any) -> str:
    """Name of a callable for messages."""
    name = getattr(fun, "__name__", None)
    if name is None and hasattr(fun, "func"):
        return name_of(fun.func)
    return str(name) if name is not None else type(fun).__name__


def argument_names(fun: Any, args: Sequence[Any], kwargs: dict[str, Any] | None = None) -> list[str]:
    """Argument path of each leaf of `args` and `kwargs`: `params['w']`, `x`.

    Parameters
    ----------
    fun : callable
    args : sequence
    kwargs : dict, optional

    Returns
    -------
    list of str
    """
    code = getattr(getattr(fun, "__wrapped__", fun), "__code__", None)
    names = list(code.co_varnames[: code.co_argcount]) if code is not None else []
    rest = ("args", 0)
    if code is not None and code.co_flags & inspect.CO_VARARGS:
        rest = code.co_varnames[code.co_argcount + code.co_kwonlyargcount], code.co_argcount
    if getattr(fun, "__self__", None) is not None:
        names = names[1:]
        rest = rest[0], max(rest[1] - 1, 0)
    out = []
    for i, arg in enumerate(args):
        head = names[i] if i < len(names) else f"{rest[0]}[{i - rest[1]}]"
        out += [head + tree.keystr(path) for path, _ in tree.leaves_with_path(arg)]
    for key in sorted(kwargs or {}):
        out += [key + tree.keystr(path) for path, _ in tree.leaves_with_path((kwargs or {})[key])]
    return out


def like(wrapper: Any, fun: Any, transform: str) -> Any:
    """`wrapper` under the name and with the documentation of `fun`.

    Parameters
    ----------
    wrapper : callable
    fun : callable
    transform : str
        What made the one of the other.

    Returns
    -------
    `wrapper`
    """
    wrapper.__name__ = name_of(fun)
    wrapper.__qualname__ = f"{transform}({name_of(fun)})"
    wrapper.__doc__ = getattr(fun, "__doc__", None)
    wrapper.__wrapped__ = fun
    return wrapper


def check_arrays(what: str, leaves: Sequence[Any], names: Callable[[], Sequence[str]], role: str = "argument") -> None:
    """Check that leaves are arrays.

    Parameters
    ----------
    what : str
        For the message.
    leaves : sequence
    names : callable
        Gives the path of each.
    role : {"argument", "output"}
        What they are of the function.

    Raises
    ------
    NonArrayArgumentError
        One is not; the message names its path.
    """
    for i, leaf in enumerate(leaves):
        if type(leaf) is hooks.array_type:
            continue
        try:
            aval_of(leaf)
        except TypeError:
            raise errors.NonArrayArgumentError(
                errors.explain(
                    f"{what}: {role} {names()[i]} is {leaf!r} of type {type(leaf).__name__}, which is not a valid array type",
                    f"{role}s of transformed functions are arrays, scalars, or pytrees of them",
                    "convert it, close over it, or mark it static" if role == "argument" else "return arrays only",
                )
            ) from None


def normal_argnums(argnums: Any, count: int, what: str) -> tuple[int, ...]:
    """Non-negative positions of the arguments named by `argnums`.

    Parameters
    ----------
    argnums : int or sequence of int
    count : int
        How many arguments there are.
    what : str
        For the message.

    Returns
    -------
    tuple of int

    Raises
    ------
    TypeError
        There is no such argument.
    """
    if type(argnums) is int and 0 <= argnums < count:
        return (argnums,)
    given = (argnums,) if isinstance(argnums, (int, np.integer)) else argnums
    out = []
    for i in given:
        if not -count <= i < count:
            raise TypeError(
                f"{what}: differentiating with respect to argnums={argnums} requires at least {int(i) + 1 if i >= 0 else -int(i)} "
                f"positional arguments to be passed by the caller, but got only {count} positional arguments."
            )
        out.append(int(i) % count)
    return tuple(out)


def checked_argnums(argnums: Any, what: str) -> int | tuple[int, ...]:
    """`argnums` as an int or a tuple of ints; `what` is for the message.

    Raises
    ------
    TypeError
        It is neither an integer nor a sequence of them.
    """
    if isinstance(argnums, (int, np.integer)):
        return int(argnums)
    try:
        return tuple([operator.index(i) for i in argnums])
    except TypeError:
        raise TypeError(
            f"{what}: argnums must be an integer or a sequence of integers (positions of arguments), got {argnums!r}"
        ) from None


def float0_zeros(shape: tuple[int, ...]) -> np.ndarray:
    """The tangent of integers and booleans."""
    return np.zeros(shape, dtypes.float0)
