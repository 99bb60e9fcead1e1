# SPDX-License-Identifier: Apache-2.0
"""Looking at programs: `make_jaxpr`, `eval_shape`, `typeof`, and waiting for results."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np

from purax import dtypes, errors, tree
from purax.control import refs
from purax.control.jit import JitFunction, checked_callable
from purax.control.sharded import constrained, resolve
from purax.control.store import clear_programs
from purax.core.aval import ShapeDtypeStruct
from purax.core.axes import named_axes
from purax.core.primitive import registry
from purax.core.source import opened
from purax.core.trace import Tracer, aval_of, current
from purax.lazy import lazy
from purax.pipeline import compile as compiling
from purax.primitives.base import zeros_of
from purax.runtime import client, transfer
from purax.runtime.array import Array
from purax.sharding import NamedSharding, PartitionSpec
from purax.transforms.flat import name_of, normal_argnums
from purax.transforms.vjp import vjp

__all__ = [
    "block_until_ready", "clear_caches", "copy_to_host_async", "device_get", "device_put", "effects_barrier",
    "eval_shape", "fwd_and_bwd", "live_arrays", "make_jaxpr", "named_call", "named_scope", "print_environment_info", "typeof",
]  # fmt: skip

metadata = lazy("importlib.metadata")
platform = lazy("platform")

_NO_OPTIONS = {
    "static_argnums": None, "static_argnames": None, "donate_argnums": None, "donate_argnames": None, "inline": False,
    "in_shardings": None, "out_shardings": None, "compiler_options": None,
}  # fmt: skip


def make_jaxpr(
    fun: Callable[..., Any], static_argnums: Any = (), axis_env: Any = None, return_shape: bool = False,
) -> Callable[..., Any]:  # fmt: skip
    """Function that gives the program of `fun` for the types of its arguments.

    Parameters
    ----------
    fun : callable
    static_argnums : int or sequence of int
        Arguments taken as they are.
    return_shape : bool
        Also return the types of the output.
    axis_env : sequence of (name, size), optional
        Named axes that the program may use.

    Returns
    -------
    callable
        Returns a ClosedJaxpr, or a pair with `return_shape`.
    """
    checked_callable(fun)
    options = {**_NO_OPTIONS, "static_argnums": static_argnums if static_argnums != () else None}

    def program(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = tree.map(_as_struct, (args, kwargs))
        with named_axes(dict(axis_env), lanes=False) if axis_env else nullcontext():
            traced = JitFunction(fun, options).trace(*args, **kwargs)
        return (traced.jaxpr, traced.out_info) if return_shape else traced.jaxpr

    program.__name__ = f"make_jaxpr({name_of(fun)})"
    program.__qualname__ = f"make_jaxpr({getattr(fun, '__qualname__', name_of(fun))})"
    program.__module__ = "purax"
    program.__wrapped__ = fun  # type: ignore[attr-defined]
    return program


def eval_shape(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Types of `fun(*args, **kwargs)`, found without computing anything.

    Parameters
    ----------
    fun : callable
    *args, **kwargs
        Arrays or ShapeDtypeStructs (anything with `shape` and `dtype`). `fun` may return types, too: they are their own.

    Returns
    -------
    pytree of ShapeDtypeStruct
    """
    if type(fun) is JitFunction:
        return fun.eval_shape(*args, **kwargs)
    args, kwargs = tree.map(_as_struct, (args, kwargs))
    try:
        program = _traced(fun, args, kwargs)
    except errors.NonArrayArgumentError:  # perhaps since `fun` returns a type

        def valued(*args: Any, **kwargs: Any) -> Any:
            return tree.map(_valued, fun(*args, **kwargs))

        program = _traced(valued, args, kwargs)
    return program.unflatten(
        [ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type) for a in program.closed.out_avals]
    )


def _traced(fun: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    return JitFunction(fun, _NO_OPTIONS).trace(*args, **kwargs)._program


def _valued(x: Any) -> Any:
    of_numbers = isinstance(x, ShapeDtypeStruct) and isinstance(x.dtype, np.dtype)
    return zeros_of(x.aval) if of_numbers else x


def _as_struct(x: Any) -> Any:
    known = (
        not refs.is_ref(x)
        and (not isinstance(x, ShapeDtypeStruct))
        and (
            hasattr(x, "shape")
            and hasattr(x, "dtype")
            and not hasattr(x, "aval")
            and not isinstance(x, (np.ndarray, np.generic))
        )
    )
    return ShapeDtypeStruct(x.shape, x.dtype) if known else x


def typeof(x: Any) -> Any:
    """The type of a value as a program sees it: shape, dtype, weak type."""
    return aval_of(x)


def block_until_ready(x: Any) -> Any:
    """Wait until all arrays of a pytree are computed; the result is the tree itself, tree like `x`."""
    for leaf in tree.leaves(x):
        wait = getattr(leaf, "block_until_ready", None)
        if wait is not None:
            wait()
    return x


def device_put(x: Any, device: Any = None, *, src: Any = None, donate: Any = False, may_alias: Any = None) -> Any:
    """Put the leaves of a pytree on a device or sharding (a prefix tree of them); the default device when None.

    Parameters
    ----------
    x : pytree of arrays
    device : Device, Sharding, or a pytree prefix of them, optional
        In programs, a NamedSharding is a constraint of the value, and anything else is without effect.
    donate : bool, or a pytree prefix of them
        The arrays are not used any more: those that are moved are deleted.
    may_alias : bool, or a pytree prefix of them, optional
        False: return new arrays, also where nothing is to be moved.
    src : optional
        Without effect.

    Returns
    -------
    pytree of Array

    Raises
    ------
    ValueError
        Both `donate` and `may_alias`.
    """
    del src
    leaves, treedef = tree.flatten(x)
    given = [
        [asked] * len(leaves)
        if asked is None or isinstance(asked, bool)
        else tree.flatten_axes(f"device_put {name}", treedef, asked)
        for name, asked in (("donate", donate), ("may_alias", may_alias))
    ]
    if (True, True) in zip(*given, strict=True):
        raise ValueError("may_alias and donate cannot be True at the same time.")
    if device is None or not isinstance(device, (tuple, list, dict)):
        targets = [device] * len(leaves)
    else:
        targets = tree.flatten_axes("device_put device", treedef, device)
    out = []
    for value, target, given_away, shared in zip(leaves, targets, *given, strict=True):
        placed = _within(value, target) if isinstance(value, Tracer) else transfer.device_put(value, target)
        if placed is value and shared is False and type(value) is Array:
            placed = value.copy()
        if placed is not value and given_away and type(value) is Array:
            value.delete()
        out.append(placed)
    return treedef.unflatten(out)


def _within(value: Tracer, target: Any) -> Any:
    """A value of a program, spread over a mesh if that is asked for; on which device it is computed, its arguments say."""
    if isinstance(target, (NamedSharding, PartitionSpec)) and aval_of(value).dtype != dtypes.float0:
        return constrained(value, resolve(target, "device_put", "device"))
    return value


def device_get(x: Any) -> Any:
    """The leaves of a pytree as NumPy arrays of their dtypes."""
    leaves, treedef = tree.flatten(x)
    for leaf in leaves:
        if type(leaf) is Array:
            leaf.copy_to_host_async()
    return treedef.unflatten([transfer.device_get(v) for v in leaves])


def clear_caches() -> None:
    """Forget traced and compiled programs of this process (those on disk stay)."""
    clear_programs()
    compiling.clear()
    for primitive in registry.values():
        primitive.kernels.clear()


def named_call(fun: Callable[..., Any], *, name: str | None = None) -> Callable[..., Any]:
    """`fun` within `named_scope(name)`; the name of the function by default."""
    return named_scope(name or name_of(fun))(fun)


@contextmanager
def named_scope(name: str) -> Iterator[None]:
    """Context or decorator that names a part of a program: the names stand before those of its operations in profiles.

    Raises
    ------
    TypeError
        `name` is no string.
    """
    if not isinstance(name, str):
        raise TypeError(f"named_scope name argument must be a string, got {name!r}")
    with opened(name):
        yield


def live_arrays(platform: str | None = None) -> list[Any]:
    """A list of all arrays that somebody still refers to (and that were not deleted), on a `platform` or on all."""
    found = [x for x in gc.get_objects() if type(x) is Array and not x.is_deleted()]
    return found if platform is None else [x for x in found if all(d.platform == platform for d in x.devices())]


def fwd_and_bwd(
    fun: Callable[..., Any], argnums: Any, has_aux: bool = False, jitted: bool = True
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The two halves of a derivative as functions that are compiled once each.

    Parameters
    ----------
    fun : callable
    argnums : int or sequence of int
        Arguments to differentiate by.
    has_aux : bool
        `fun` returns `(output, auxiliary data)`.
    jitted : bool

    Returns
    -------
    forward : callable
        `forward(*args, **kwargs)` gives `(output, residuals)`, followed by the auxiliary data if there are any.
    backward : callable
        `backward(residuals, cotangent)` gives the cotangents of the arguments.
    """
    single = isinstance(argnums, int)

    def forward(*args: Any, **kwargs: Any) -> Any:
        positions = normal_argnums(argnums, len(args), name_of(fun))

        def partial(*chosen: Any) -> Any:
            full = list(args)
            for i, value in zip(positions, chosen, strict=True):
                full[i] = value
            return fun(*full, **kwargs)

        return vjp(partial, *[args[i] for i in positions], has_aux=has_aux)

    def backward(residuals: Any, cotangent: Any) -> Any:
        found = residuals(cotangent)
        return found[0] if single else found

    return (JitFunction(forward, _NO_OPTIONS), JitFunction(backward, _NO_OPTIONS)) if jitted else (forward, backward)


def effects_barrier() -> None:
    """Wait until the effects of all programs that were started have happened.

    Programs with effects are waited for when they are called, so they have.
    """


def copy_to_host_async(x: Any) -> Any:
    """Begin to copy the arrays of a pytree to the host; the result is the tree itself, tree like `x`."""
    for leaf in tree.leaves(x):
        begin = getattr(leaf, "copy_to_host_async", None)
        if begin is not None:
            begin()
    return x


def print_environment_info(return_string: bool = False) -> str | None:
    """Print versions, platform and devices (or return the text)."""
    lines = [
        f"purax: {sys.modules['purax'].__version__}",
        f"jaxlib: {metadata.version('jaxlib')}",
        f"numpy: {np.__version__}",
        f"python: {sys.version}",
        f"device info: {client.devices()[0].device_kind}-{client.device_count()}, {client.process_count()} local devices",
        f"process_count: {client.process_count()}",
        f"platform: {platform.uname()}",
    ]
    text = "\n".join(lines)
    if return_string:
        return text
    print(text)  # noqa: T201
    return None


def trace_state_clean() -> bool:
    """Whether no transformation is under way in this context."""
    return current.get() is None
