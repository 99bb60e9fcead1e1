# SPDX-License-Identifier: Apache-2.0
"""From transformations of functions of scopes to transformations of module classes, methods and functions of modules."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

from purax import tree
from purax.linen import errors
from purax.linen._support import register_node
from purax.linen.declare import map_attribute, name_of, wrap_method
from purax.linen.keys import LazyRng
from purax.linen.module import Module
from purax.linen.scope import Scope, Variable

__all__ = ["lift", "lift_call"]


class _Stand:
    """Stands for a bound module or a Variable among the arguments; a pytree without leaves."""

    def __init__(self, index: int) -> None:
        self.index = index


register_node(_Stand, lambda stand: ((), stand.index), lambda index, _: _Stand(index))


class _Taken:
    """The scopes of a module, of the bound modules and Variables in its fields, and of those among the arguments."""

    def __init__(self, module: Module, args: Any, kwargs: Any) -> None:
        self.module = module
        self._places: dict[int, int] = {}
        self._held: list[Any] = []
        self._take(module)
        self.args, self.kwargs = tree.map(self._stand_in, (args, kwargs))

    def _take(self, value: Any) -> int:
        """Note a module or Variable, and what is in its fields; return its number."""
        key = id(value) if isinstance(value, Variable) else value._id
        if key not in self._places:
            if isinstance(value, Module):
                for held in _fields(value).values():
                    map_attribute(lambda _, leaf: self._take(leaf) if _is_bound(leaf) else None, held)
            self._places[key] = len(self._held)
            self._held.append(value)
        return self._places[key]

    @property
    def scopes(self) -> list[Scope]:
        """The scopes of everything that was taken; none for a module that is not bound."""
        return [value.scope for value in self._held if value.scope is not None]

    def fingerprint(self) -> Any:
        """Return a hashable value, equal for modules and arguments that run alike.

        Raises
        ------
        TypeError
            If a field is not hashable.
        """
        return tuple(_fingerprint(value, self._places) for value in self._held)

    def _stand_in(self, leaf: Any) -> Any:
        return _Stand(self._take(leaf)) if _is_bound(leaf) else leaf

    def rebuild(self, scopes: list[Scope], args: Any, kwargs: Any, cls: type | None = None) -> tuple[Module, Any, Any]:
        """Return the module and the arguments over other scopes; `cls` is the class of the module."""
        built: dict[int, Any] = {}
        remaining = iter(scopes)
        places: list[Any] = [next(remaining) if value.scope is not None else None for value in self._held]

        def build(value: Any, cls: type | None = None) -> Any:
            index = self._places[id(value) if isinstance(value, Variable) else value._id]
            if index not in built:
                if isinstance(value, Variable):
                    built[index] = Variable(places[index], value.collection, value.name, value.unbox)
                else:
                    held = {
                        name: map_attribute(lambda _, leaf: build(leaf) if _is_bound(leaf) else leaf, field)
                        for name, field in _fields(value).items()
                    }
                    built[index] = (cls or type(value))(parent=places[index], **held)
            return built[index]

        module = build(self.module, cls)
        args, kwargs = tree.map(
            lambda leaf: build(self._held[leaf.index]) if isinstance(leaf, _Stand) else leaf,
            (args, kwargs),
            is_leaf=lambda leaf: isinstance(leaf, _Stand),
        )
        return module, args, kwargs


def _is_bound(value: Any) -> bool:
    return isinstance(value, (Module, Variable)) and value.scope is not None


def _fields(module: Module) -> dict[str, Any]:
    return {f.name: getattr(module, f.name) for f in dataclasses.fields(module) if f.init and f.name != "parent"}


def _fingerprint(value: Any, places: Mapping[int, int]) -> Any:
    """Return what the behaviour of a setting depends on; modules within it by their number in `places`."""
    if isinstance(value, Module) and _is_bound(value) and places:
        held = tuple(
            (name, _fingerprint_field(field, places)) for name, field in _fields(value).items() if name != "name"
        )
        state = value._state
        cursor = tuple(sorted(state.autoname_cursor.items()))
        return type(value), held, state.in_compact_method, state.in_setup, state.setup_called, cursor
    return _fingerprint_field(value, places)


def _fingerprint_field(value: Any, places: Mapping[int, int]) -> Any:
    if isinstance(value, Variable):
        return Variable, value.collection, value.name, value.unbox
    if isinstance(value, Module):
        if value._id in places:
            return Module, places[value._id]
        held = tuple((name, _fingerprint_field(field, places)) for name, field in _fields(value).items())
        return type(value), held
    if isinstance(value, Mapping):
        return Mapping, tuple((key, _fingerprint_field(held, places)) for key, held in value.items())
    if isinstance(value, (list, tuple)):
        return type(value), tuple(_fingerprint_field(held, places) for held in value)
    if hasattr(value, "aval"):  # an array or tracer: its identity says nothing about its content
        raise TypeError("An array is no part of a fingerprint.")
    hash(value)
    return type(value), value


def _check_result(result: Any, name: str) -> None:
    if any(isinstance(leaf, (Module, Variable)) for leaf in tree.leaves(result)):
        raise errors.TransformedMethodReturnValueError(name)


@contextmanager
def _forked(module: Module) -> Iterator[None]:
    """Give the module's scope fresh streams for one call, so that a program which is traced once serves every call."""
    scope = module._bound("a lifted call")
    streams = scope.rngs
    scope.rngs = {name: LazyRng(scope.make_rng(name)) for name in streams}
    try:
        yield
    finally:
        scope.rngs = streams


def _lifted(
    transform: Callable[..., Any],
    functions: tuple[Callable[..., Any], ...],
    name: str,
    cls: type | None,
    fork: bool,
    options: dict[str, Any],
) -> Callable[..., Any]:
    """Return `(module, *args) -> transform(*functions)(scopes, *args)` with modules rebuilt over the inner scopes."""

    def call(self: Module, *args: Any, **kwargs: Any) -> Any:
        state = self._state.export()
        with _forked(self) if fork and self.scope is not None else nullcontext():
            taken = _Taken(self, args, kwargs)
            settings = options
            if "programs" in options:
                try:
                    settings = {**options, "fingerprint": (name, taken.fingerprint())}
                except TypeError:  # a field without hash: this call gets a program of its own
                    settings = {**options, "programs": options["programs"].fresh(), "fingerprint": None}

            def on_scopes(function: Callable[..., Any], scopes: list[Scope], *args: Any, **kwargs: Any) -> Any:
                module, args, kwargs = taken.rebuild(scopes, args, kwargs, cls)
                module.__dict__["_state"] = dataclasses.replace(
                    state, autoname_cursor=dict(state.autoname_cursor), children={}
                )
                result = function(module, *args, **kwargs)
                self._state.reimport(module._state)
                _check_result(result, name)
                return result

            inner = [functools.partial(on_scopes, function) for function in functions]
            return transform(*inner, **settings)(taken.scopes, *taken.args, **taken.kwargs)

    return call


def lift(transform: Callable[..., Any], target: Any, methods: Any = None, fork: bool = False, /, **options: Any) -> Any:
    """Transform a module class, or a method or function that takes a module first.

    Parameters
    ----------
    transform : callable
        `transform(function, **options)` for functions of a list of scopes.
    target : type, partial of a type, or function
        What to transform.
    methods : sequence of str or dict, optional
        Which methods of a class, or options for each; `__call__` by default.
    fork : bool
        Whether each call gets fresh random streams.
    options
        Of the transformation.

    Returns
    -------
    as `target`

    Raises
    ------
    TransformTargetError
        `target` is a module or cannot be called.
    """
    bound: tuple[Any, ...] = ()
    if isinstance(target, functools.partial) and isinstance(target.func, type):
        target, bound = target.func, (target,)
    if isinstance(target, type) and issubclass(target, Module):
        if methods is None:
            chosen: Mapping[str, dict[str, Any]] = {"__call__": options}
        else:
            chosen = methods if isinstance(methods, Mapping) else dict.fromkeys(methods, options)
        body = {}
        for name, settings in chosen.items():
            method = getattr(target, name)
            body[name] = functools.wraps(method)(_lifted(transform, (method,), name, target, fork, dict(settings)))
        lifted = type(transform.__name__.capitalize() + target.__name__, (target,), body)
        return functools.partial(lifted, *bound[0].args, **bound[0].keywords) if bound else lifted
    if isinstance(target, Module) or not callable(target):
        raise errors.TransformTargetError(target)
    method = wrap_method(target)
    return functools.wraps(method)(_lifted(transform, (method,), name_of(target), None, fork, options))


def lift_call(
    transform: Callable[..., Any], functions: tuple[Callable[..., Any], ...], module: Module, *args: Any, **options: Any
) -> Any:
    """Call `transform(*functions, **options)` on a module and arguments, for functions that take the module first.

    Parameters
    ----------
    transform : callable
        `transform(*functions, **options)` for functions of a list of scopes.
    functions : tuple of callable
    module : Module
    args : pytrees of arrays
    options
        Of the transformation.

    Returns
    -------
    what the transformed function returns

    Raises
    ------
    TransformTargetError
        `module` is no module.
    """
    if not isinstance(module, Module):
        raise errors.TransformTargetError(module)
    unbound = (getattr(f, "__func__", f) if isinstance(getattr(f, "__self__", None), Module) else f for f in functions)
    wrapped = tuple(wrap_method(function) for function in unbound)
    return _lifted(transform, wrapped, name_of(functions[0]), None, False, options)(module, *args)
