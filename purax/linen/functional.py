# SPDX-License-Identifier: Apache-2.0
"""Modules as pure functions: `init` and `apply` for any function that takes a module first."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from purax import numpy as pnp
from purax import tree
from purax.control.jit import jit
from purax.linen import errors
from purax.linen import scope as core
from purax.linen._support import ShapeDtypeStruct, eval_shape
from purax.linen.context import running
from purax.linen.filters import CollectionFilter, DenyList, union
from purax.linen.scope import Scope
from purax.transforms.vmap import vmap

__all__ = ["apply", "check_instance", "init", "init_with_output", "lazy_init", "method_of"]

_no_intermediates = DenyList("intermediates")


def check_instance(module: Any) -> None:
    """Check that `module` is an instance of a module class.

    Raises
    ------
    InvalidInstanceModuleError
        It is a class, or something else.
    """
    if not hasattr(module, "_call_method") or isinstance(module, type):
        raise errors.InvalidInstanceModuleError


def method_of(module: Any, method: Any) -> Callable[..., Any]:
    """Return a function that takes the module first, from a name, a method or a function; None means `__call__`.

    Raises
    ------
    ApplyModuleInvalidMethodError
        It cannot be called, or takes no module.
    """
    check_instance(module)
    if method is None:
        method = "__call__"
    if isinstance(method, str):
        name = method

        def by_name(bound: Any, *args: Any, **kwargs: Any) -> Any:
            function = getattr(type(bound), name, None)
            if not inspect.isfunction(function):
                function = getattr(bound, name)
            if not callable(function):
                raise errors.ApplyModuleInvalidMethodError(function)
            return function(bound, *args, **kwargs) if inspect.isfunction(function) else function(*args, **kwargs)

        return by_name
    if inspect.ismethod(method) and hasattr(method.__self__, "_call_method"):
        method = method.__func__
    if not callable(method) or not inspect.signature(method).parameters:
        raise errors.ApplyModuleInvalidMethodError(method)
    return method


def _on_scope(fn: Callable[..., Any], module: Any, capture: Any) -> Callable[..., Any]:
    """Return `fn` as a function of a scope, with the filter of captured outputs set."""

    def run(scope: Scope, *args: Any, **kwargs: Any) -> Any:
        running.captures.append(capture)
        try:
            return fn(module.clone(parent=scope, _deep_clone=True), *args, **kwargs)
        finally:
            running.captures.pop()

    return run


def _captured(capture: Any, mutable: CollectionFilter) -> tuple[Any, CollectionFilter]:
    if capture is True:
        capture = lambda module, method: method == "__call__"
    return capture, union(mutable, "intermediates") if capture else mutable


def apply(
    fn: Callable[..., Any], module: Any, mutable: CollectionFilter = False, capture_intermediates: Any = False
) -> Callable[..., Any]:
    """Return `fn(module, ...)` as a function of variables.

    Parameters
    ----------
    fn : callable
        Takes a bound module first.
    module : Module
        Module to bind.
    mutable, capture_intermediates
        As in `Module.apply`.

    Returns
    -------
    callable
        `(variables, *args, rngs=None, **kwargs) -> result`, or `(result, changed variables)` if `mutable` is not False.
    """
    capture, mutable = _captured(capture_intermediates, mutable)
    return core.apply(_on_scope(fn, module, capture), mutable)


def init_with_output(
    fn: Callable[..., Any],
    module: Any,
    mutable: CollectionFilter = _no_intermediates,
    capture_intermediates: Any = False,
) -> Callable[..., Any]:
    """Return `fn(module, ...)` as a function `(rngs, *args, **kwargs) -> (result, variables)` that makes the variables.

    Parameters
    ----------
    fn : callable
        Takes the module first.
    module : Module
    mutable : filter
        Collections to make.
    capture_intermediates : bool or callable
        Which outputs of methods to keep in "intermediates": `(module, method name) -> bool`; True: those of
        `__call__`.

    Returns
    -------
    callable
    """
    capture, mutable = _captured(capture_intermediates, mutable)
    return core.init(_on_scope(fn, module, capture), mutable)


def init(
    fn: Callable[..., Any],
    module: Any,
    mutable: CollectionFilter = _no_intermediates,
    capture_intermediates: Any = False,
) -> Callable[..., Any]:
    """Return `fn(module, ...)` as a function `(rngs, *args, **kwargs) -> variables` that makes the variables.

    Parameters
    ----------
    fn : callable
        Takes the module first.
    module : Module
    mutable : filter
        Collections to make.
    capture_intermediates : bool or callable
        As in `init_with_output`.

    Returns
    -------
    callable
    """
    run = init_with_output(fn, module, mutable, capture_intermediates)

    @functools.wraps(fn)
    def made(rngs: Any, *args: Any, **kwargs: Any) -> Any:
        return run(rngs, *args, **kwargs)[1]

    return made


def lazy_init(fn: Callable[..., Any], module: Any, mutable: CollectionFilter = _no_intermediates) -> Callable[..., Any]:
    """Return `init` that also takes ShapeDtypeStruct for inputs whose content does not matter.

    The function is traced only; what it computes from such inputs is never run. They are given a mapped axis of size one, and a variable
    that comes out mapped depends on them.

    Parameters
    ----------
    fn : callable
        Takes the module first.
    module : Module
    mutable : filter
        Collections to make.

    Returns
    -------
    callable

    Raises
    ------
    LazyInitError
        (By the callable.) A variable depends on such an input.
    """

    def made(rngs: Any, *args: Any, **kwargs: Any) -> Any:
        leaves, structure = tree.flatten((args, kwargs))
        shaped = [index for index, leaf in enumerate(leaves) if isinstance(leaf, ShapeDtypeStruct)]

        def variables_from(rngs: Any, data: list[Any]) -> Any:
            held = list(leaves)
            for index, value in zip(shaped, data, strict=True):
                held[index] = value
            inner_args, inner_kwargs = tree.unflatten(structure, held)
            return init(fn, module, mutable)(rngs, *inner_args, **inner_kwargs)

        data = [leaves[index] for index in shaped]
        if data:
            mapped = [ShapeDtypeStruct((1, *leaf.shape), leaf.dtype) for leaf in data]
            try:
                eval_shape(vmap(variables_from, in_axes=(None, 0), out_axes=None), rngs, mapped)
            except ValueError as error:
                if "out_axes" not in str(error):
                    raise
                raise errors.LazyInitError(type(module).__name__) from error
        # zeros made inside the program, of which nothing is left once what no variable needs is removed
        return jit(lambda rngs: variables_from(rngs, [pnp.zeros(leaf.shape, leaf.dtype) for leaf in data]))(rngs)

    return made
