# SPDX-License-Identifier: Apache-2.0
"""The functional core: a Scope is a cursor into a dictionary of variables.

Variables are nested dictionaries, `{collection: {module: {...: {name: value}}}}`. A `Store` holds them for one `init`,
`apply` or lifted call; a `Scope` is a store and a path. Modules read and write through scopes and so stay pure: the store is
made from the caller's variables and its mutable part is handed back.
"""

from __future__ import annotations

import functools
import itertools
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary, WeakValueDictionary

import numpy as np

from purax import random, tree
from purax.errors import explain
from purax.linen import errors, meta
from purax.linen._support import current_trace, eval_shape
from purax.linen.filters import CollectionFilter, in_filter
from purax.linen.frozen_dict import FrozenDict, unfreeze
from purax.linen.keys import LazyRng

__all__ = ["Scope", "Store", "Variable", "apply", "bind", "init", "is_key"]

T = TypeVar("T")


class Store:
    """What the scopes of one call share: variables, what may change, flags, counters of the random streams.

    Parameters
    ----------
    variables : dict
        Collections; owned by the store.
    mutable : filter
        Names of the collections that may be written.
    flags : mapping
        `{"initializing": True}` within `init`.
    base : tuple of str
        Path of the module whose subtrees `variables` holds; not empty inside lifted calls.
    counters : dict, optional
        Draws so far by (path, stream); lifted calls go on counting in the dictionary of their caller.
    """

    def __init__(
        self,
        variables: dict[str, Any],
        mutable: CollectionFilter,
        flags: Mapping[str, Any],
        base: tuple[str, ...] = (),
        counters: dict[tuple[tuple[str, ...], str], int] | None = None,
    ) -> None:
        self.variables = variables
        self.mutable = mutable
        self.flags = flags
        self.base = base
        self.counters = {} if counters is None else counters
        self.adopted: WeakValueDictionary[int, Any] = WeakValueDictionary()
        self.valid = True
        trace = current_trace()
        self.trace = None if trace is None else weakref.ref(trace)  # a module that is kept must not keep the trace


class Variable(Generic[T]):
    """One variable of a module; `value` reads and writes it.

    Parameters
    ----------
    scope : Scope
        Where it is.
    collection, name : str
        Its collection and its name there.
    unbox : bool
        Whether `value` is the array inside a box.
    """

    def __init__(self, scope: Scope, collection: str, name: str, unbox: bool = True) -> None:
        self.scope = scope
        self.collection = collection
        self.name = name
        self.unbox = unbox

    @property
    def value(self) -> T:
        """Current value."""
        value = self.scope.get_variable(self.collection, self.name)
        return meta.unbox(value) if self.unbox else value

    @value.setter
    def value(self, value: T) -> None:
        if self.unbox:
            held = self.scope.get_variable(self.collection, self.name)
            if any(meta.is_box(leaf) for leaf in tree.leaves(held, is_leaf=meta.is_box)):
                value = meta.replace_boxed(held, value)
        self.scope.put_variable(self.collection, self.name, value)

    def is_mutable(self) -> bool:
        """Whether `value` may be assigned."""
        return self.scope.is_mutable_collection(self.collection)


class Scope:
    """A cursor into the variables of a store, with the random streams of its place.

    Parameters
    ----------
    variables : dict
        Collections; those that are mutable are written in place.
    rngs : dict of keys, optional
        Random streams by name.
    mutable : filter
        Collections that may be written.
    path : tuple of str
        Names from the root module to here.
    flags : mapping, optional
        See `Store`.
    """

    def __init__(
        self,
        variables: dict[str, Any],
        rngs: Mapping[str, Any] | None = None,
        *,
        mutable: CollectionFilter = False,
        path: tuple[str, ...] = (),
        flags: Mapping[str, Any] | None = None,
    ) -> None:
        self.path = tuple(path)
        self.store = Store(variables, mutable, flags or {}, self.path)
        self.rngs = {name: LazyRng.create(key) for name, key in (rngs or {}).items()}
        self.reservations: dict[str, set[str | None]] = {}

    @classmethod
    def at(cls, store: Store, path: tuple[str, ...], rngs: dict[str, LazyRng]) -> Scope:
        """Return a cursor into a store that exists."""
        scope = cls.__new__(cls)
        scope.store, scope.path, scope.rngs, scope.reservations = store, path, rngs, {}
        return scope

    # -- identity ------------------------------------------------------------------------------------------------------
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Scope) and self.store is other.store and self.path == other.path

    def __hash__(self) -> int:
        return hash((id(self.store), self.path))

    @property
    def name(self) -> str | None:
        """Last name of the path; None at the root."""
        return self.path[-1] if self.path else None

    @property
    def path_text(self) -> str:
        """Path such as "/encoder/Dense_0", for messages."""
        return "/" + "/".join(self.path)

    @property
    def flags(self) -> Mapping[str, Any]:
        """Flags of the running call."""
        return self.store.flags

    @property
    def mutable(self) -> CollectionFilter:
        """Which collections may be written."""
        return self.store.mutable

    @property
    def invalid(self) -> bool:
        """Whether the call that made this scope has ended."""
        return not self.store.valid

    def has_flag(self, key: str) -> bool:
        """Whether a flag is set."""
        return key in self.store.flags

    def get_flag(self, key: str, default: Any = None) -> Any:
        """Value of a flag."""
        return self.store.flags.get(key, default)

    def _check_usable(self) -> None:
        if not self.store.valid:
            raise errors.InvalidScopeError(self.path_text)
        trace = self.store.trace
        if current_trace() is not (None if trace is None else trace()):
            raise errors.JaxTransformError

    # -- names ---------------------------------------------------------------------------------------------------------
    def name_reserved(self, name: str, collection: str | None = None) -> bool:
        """Whether a submodule (`collection` None) or a variable can not take `name`."""
        taken = self.reservations.get(name)
        return taken is not None and (collection is None or None in taken or collection in taken)

    def reserve(self, name: str, collection: str | None = None) -> None:
        """Take a name for a submodule, or for a variable of a collection."""
        if not isinstance(name, str):
            raise TypeError(f"A name must be a string, got {name!r}.")
        if self.name_reserved(name, collection):
            raise errors.NameInUseError("scope" if collection is None else "variable", name, self.path_text)
        self.reservations.setdefault(name, set()).add(collection)

    def push(self, name: str, reuse: bool = False) -> Scope:
        """Return the scope of the submodule `name`.

        Parameters
        ----------
        name : str
            Reserved here, unless `reuse` and already so.
        reuse : bool
            Whether the name may be taken.
        """
        self._check_usable()
        if not reuse or name not in self.reservations:
            self.reserve(name)
        rngs = {stream: LazyRng(rng.rng, (*rng.suffix, name)) for stream, rng in self.rngs.items()}
        return Scope.at(self.store, (*self.path, name), rngs)

    def rewound(self) -> Scope:
        """Return the same place without reserved names, so that its submodules may be made again."""
        return Scope.at(self.store, self.path, self.rngs)

    # -- collections -----------------------------------------------------------------------------------------------------
    def is_mutable_collection(self, collection: str) -> bool:
        """Whether variables of a collection may be written."""
        return in_filter(self.store.mutable, collection)

    def is_collection_empty(self, collection: str) -> bool:
        """Whether the whole collection is empty or missing."""
        return not self.store.variables.get(collection)

    def collection(self, collection: str) -> Mapping[str, Any]:
        """Return what a collection holds at this place; an empty mapping if nothing."""
        held = self.store.variables.get(collection, {})
        for name in self.path[len(self.store.base) :]:
            held = held.get(name)
            if not isinstance(held, Mapping):
                return {}
        return held

    def variables(self) -> dict[str, Any]:
        """Return all collections at this place, without the empty ones."""
        found = {name: self.collection(name) for name in self.store.variables}
        return {name: held for name, held in found.items() if held}

    def has_variable(self, collection: str, name: str) -> bool:
        """Whether the collection has a variable of this name here."""
        return name in self.collection(collection)

    def get_variable(self, collection: str, name: str, default: Any = None) -> Any:
        """Return a variable of this place, or `default`."""
        return self.collection(collection).get(name, default)

    def put_variable(self, collection: str, name: str, value: Any) -> None:
        """Set a variable of this place; ModifyScopeVariableError if the collection is immutable."""
        self._check_usable()
        if not self.is_mutable_collection(collection):
            raise errors.ModifyScopeVariableError(collection, name, self.path_text)
        held = self.store.variables.setdefault(collection, {})
        for part in self.path[len(self.store.base) :]:
            held = held.setdefault(part, {})
        held[name] = unfreeze(value) if isinstance(value, FrozenDict) else value

    def mutable_variables(self) -> dict[str, Any]:
        """Return the collections at this place that may be written."""
        return {name: self.collection(name) for name in self.store.variables if self.is_mutable_collection(name)}

    @contextmanager
    def temporary(self) -> Iterator[Scope]:
        """End the validity of the scope, and of all others of its store, when the block ends."""
        try:
            yield self
        finally:
            self.store.valid = False

    def default_name(self, prefix: str) -> str:
        """Return the first of `prefix0`, `prefix1`, ... that is free."""
        return next(
            name for name in (f"{prefix}{index}" for index in itertools.count()) if name not in self.reservations
        )

    def child(self, fn: Callable[..., Any], name: str | None = None, prefix: str | None = None) -> Callable[..., Any]:
        """Return a function of a scope as a function that runs at a new place below this one.

        Parameters
        ----------
        fn : callable
            Takes a scope first.
        name : str, optional
            Name of the place; by default the function's, with a number.
        prefix : str, optional
            What to number instead of the function's name.
        """
        if name is None:
            name = self.default_name(f"{fn.__name__}_" if prefix is None else prefix)
        return functools.partial(fn, self.push(name))

    # -- random keys -----------------------------------------------------------------------------------------------------
    def has_rng(self, name: str) -> bool:
        """Whether a random stream of this name was given."""
        return name in self.rngs

    def make_rng(self, name: str = "params") -> Any:
        """Return a new key from a stream; the stream "params" stands in for one that was not given."""
        if name not in self.rngs:
            if "params" not in self.rngs:
                given = sorted(self.rngs)
                raise errors.InvalidRngError(
                    explain(
                        f'The module at {self.path_text!r} needs the random stream "{name}"; the call has {given}.',
                        fix=f'Pass rngs={{"{name}": key}} to apply or init.',
                    )
                )
            name = "params"
        self._check_usable()
        place = (self.path, name)
        count = self.store.counters.get(place, 0) + 1
        self.store.counters[place] = count
        rng = self.rngs[name]
        return LazyRng(rng.rng, (*rng.suffix, count)).as_jax_rng()

    # -- variables and parameters ------------------------------------------------------------------------------------------
    def variable(
        self, collection: str, name: str, init_fn: Any = None, *init_args: Any, unbox: bool = True, **init_kwargs: Any
    ) -> Variable[Any]:
        """Declare a variable; make it with `init_fn(*init_args, **init_kwargs)` if it is missing."""
        self.reserve(name, collection)
        if not self.has_variable(collection, name):
            if init_fn is None or not self.is_mutable_collection(collection):
                if self.is_collection_empty(collection):
                    raise errors.ScopeCollectionNotFound(collection, name, self.path_text)
                raise errors.ScopeVariableNotFoundError(name, collection, self.path_text)
            self.put_variable(collection, name, init_fn(*init_args, **init_kwargs))
        return Variable(self, collection, name, unbox)

    def param(
        self, name: str, init_fn: Callable[..., Any], *init_args: Any, unbox: bool = True, **init_kwargs: Any
    ) -> Any:
        """Declare a parameter; make it with `init_fn(key, *init_args, **init_kwargs)` if it is missing.

        Raises
        ------
        ScopeParamShapeError
            If the given parameter has another shape than `init_fn` makes.
        """
        self.reserve(name, "params")
        if self.has_variable("params", name):
            value = self.get_variable("params", name)
            given = [np.shape(leaf) for leaf in _array_leaves(value)]
            expected = _initial_shapes(init_fn, init_args, init_kwargs)
            for shape, wanted in zip(given, expected, strict=False):
                if shape != wanted:
                    raise errors.ScopeParamShapeError(name, self.path_text, shape, wanted)
        else:
            if not self.is_mutable_collection("params"):
                if self.is_collection_empty("params"):
                    raise errors.ScopeCollectionNotFound("params", name, self.path_text)
                raise errors.ScopeParamNotFoundError(name, self.path_text)
            value = init_fn(self.make_rng("params"), *init_args, **init_kwargs)
            self.put_variable("params", name, value)
        return meta.unbox(value) if unbox else value


# -- the shapes that an initializer makes ------------------------------------------------------------------------------
_known_shapes: WeakKeyDictionary[Any, dict[Any, list[tuple[int, ...]]]] = WeakKeyDictionary()


def _array_leaves(value: Any) -> list[Any]:
    return [value] if hasattr(value, "shape") else tree.leaves(value)


def _initial_shapes(
    init_fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> list[tuple[int, ...]]:
    """Return the shapes that an initializer makes; remembered per function and arguments, since tracing it is slow."""
    key = _hashable((args, tuple(sorted(kwargs.items()))))
    try:
        known = _known_shapes.setdefault(init_fn, {})
    except TypeError:  # a callable without weak references
        known = {}
    if key is not None and key in known:
        return known[key]
    abstract = eval_shape(lambda: init_fn(random.key(0), *args, **kwargs))
    shapes = [tuple(leaf.shape) for leaf in tree.leaves(abstract)]
    if key is not None:
        known[key] = shapes
    return shapes


def _hashable(value: Any) -> Any:
    """Return a hashable form of nested arguments, or None if there is none."""
    if isinstance(value, (list, tuple)):
        parts = tuple(_hashable(part) for part in value)
        return None if any(part is None for part in parts) else parts
    try:
        hash(value)
    except TypeError:
        return None
    return None if hasattr(value, "shape") else (type(value), value)


# -- running a function of a scope -------------------------------------------------------------------------------------
def is_key(value: Any) -> bool:
    """Whether `value` is one random key, typed or raw."""
    if isinstance(value, LazyRng):
        return True
    if not (hasattr(value, "dtype") and hasattr(value, "shape")):
        return False
    if not isinstance(value.dtype, np.dtype):  # a typed key
        return value.shape == ()
    return len(value.shape) == 1 and value.dtype == np.uint32


def _streams(rngs: Any, function: str) -> dict[str, LazyRng]:
    if rngs is None:
        return {}
    if is_key(rngs):
        rngs = {"params": rngs}
    if not isinstance(rngs, Mapping) or not all(isinstance(k, str) and is_key(v) for k, v in rngs.items()):
        raise errors.InvalidRngError(
            explain(f"{function}: rngs must be a random key or a dictionary from names to random keys, got {rngs!r}.")
        )
    return {name: LazyRng.create(key) for name, key in rngs.items()}


def bind(
    variables: Mapping[str, Any],
    rngs: Any = None,
    mutable: CollectionFilter = False,
    flags: Mapping[str, Any] | None = None,
) -> Scope:
    """Return a root scope over a copy of `variables`.

    Parameters
    ----------
    variables : mapping
        Collections.
    rngs : key or dict of keys, optional
        Random streams.
    mutable : filter
        Collections that may be written.
    flags : mapping, optional
        See `Store`.

    Returns
    -------
    Scope

    Raises
    ------
    ApplyScopeInvalidVariablesTypeError
        `variables` are not dictionaries of dictionaries with names for keys.
    """
    if not isinstance(variables, Mapping) or not all(
        isinstance(name, str) and isinstance(held, Mapping) and all(isinstance(key, str) for key in held)
        for name, held in variables.items()
    ):
        raise errors.ApplyScopeInvalidVariablesTypeError
    owned = {name: unfreeze(held) if in_filter(mutable, name) else held for name, held in variables.items()}
    return Scope(owned, _streams(rngs, "bind"), mutable=mutable, flags=flags)


def apply(
    fn: Callable[..., Any], mutable: CollectionFilter = False, flags: Mapping[str, Any] | None = None
) -> Callable[..., Any]:
    """Make a function of a scope into a function of variables.

    Parameters
    ----------
    fn : callable
        Takes a scope first.
    mutable : filter
        Collections that may be written.
    flags : mapping, optional
        See `Store`.

    Returns
    -------
    callable
        `(variables, *args, rngs=None, **kwargs) -> result`, or `(result, changed variables)` if `mutable` is not False.

    Raises
    ------
    ApplyScopeInvalidVariablesStructureError
        (By the callable.) The collection "params" holds another "params".
    """

    def wrapper(variables: Mapping[str, Any], *args: Any, rngs: Any = None, **kwargs: Any) -> Any:
        params = variables.get("params") if isinstance(variables, Mapping) else None
        if isinstance(params, Mapping) and "params" in params:
            raise errors.ApplyScopeInvalidVariablesStructureError(variables)
        with bind(variables, rngs, mutable, flags).temporary() as root:
            result = fn(root, *args, **kwargs)
        return result if mutable is False else (result, root.mutable_variables())

    return wrapper


def init(
    fn: Callable[..., Any], mutable: CollectionFilter = True, flags: Mapping[str, Any] | None = None
) -> Callable[..., Any]:
    """Make a function of a scope into one that makes its variables: `(rngs, *args, **kwargs) -> (result, variables)`.

    Parameters
    ----------
    fn : callable
        Takes a scope first.
    mutable : filter
        Collections to make.
    flags : mapping, optional
        See `Store`.

    Returns
    -------
    callable
    """

    def wrapper(rngs: Any, *args: Any, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        streams = _streams(rngs, "init")
        return apply(fn, mutable, {**(flags or {}), "initializing": True})({}, *args, rngs=streams, **kwargs)

    return wrapper
