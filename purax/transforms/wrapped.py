# SPDX-License-Identifier: Apache-2.0
"""Functions that carry a stack of transformations, in the form of `jax.extend.linear_util` and `jax.api_util`.

Libraries that lift transformations over state of their own are written in this form. purax's transformations do not use it: they
take plain functions.

Parameters
----------
gen : callable
    A function or generator that is put around another one.
fun, f : WrappedFun
static : any
    First arguments of `gen`, part of what tells functions apart.
use_eq_store, unk_names, kws, tupled_args, explain, signature : optional
    Without effect.
in_tree : structure
leaves : arrays
store : Store
"""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from purax import tree
from purax.core.trace import aval_of
from purax.transforms.flat import argument_names, name_of

__all__ = [
    "DebugInfo", "StoreException", "WrappedFun", "argnums_partial", "cache", "debug_info", "donation_vector", "flatten_axes", "flatten_fun",
    "flatten_fun_nokwargs", "merge_linear_aux", "rebase_donate_argnums", "safe_map", "shaped_abstractify", "transformation",
    "transformation2", "transformation_with_aux", "transformation_with_aux2", "wrap_init",
]  # fmt: skip


class DebugInfo(NamedTuple):
    """Names for messages: what a function is traced for, where it stands, names of its arguments and results."""

    traced_for: str
    func_src_info: str
    arg_names: tuple[str, ...] | None = None
    result_paths: Any = None

    @property
    def func_name(self) -> str:
        """Name of the function."""
        return self.func_src_info.split(" ")[0]


def debug_info(
    traced_for: str, fun: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], *, static_argnums: Sequence[int] = (),
    static_argnames: Sequence[str] = (), result_paths_thunk: Any = None, sourceinfo: str | None = None, signature: Any = None,
) -> DebugInfo:  # fmt: skip
    """Describe a function and the arrays among its arguments.

    Parameters
    ----------
    traced_for : str
    fun : callable
    args, kwargs : arguments
    static_argnums, static_argnames : sequence of int, of str
    result_paths_thunk : callable, optional
    sourceinfo : str, optional
        Where the function stands; found if left out.

    Returns
    -------
    DebugInfo
    """
    del signature
    static = {i % len(args) for i in static_argnums if -len(args) <= i < len(args)}
    shown = [None if i in static else arg for i, arg in enumerate(args)]
    named = {name: value for name, value in kwargs.items() if name not in static_argnames}
    if sourceinfo is None:
        code = getattr(inspect.unwrap(fun), "__code__", None)
        place = f" at {code.co_filename}:{code.co_firstlineno}" if code is not None else ""
        sourceinfo = name_of(fun) + place
    return DebugInfo(traced_for, sourceinfo, tuple(argument_names(fun, shown, named)), result_paths_thunk)


# --- functions and what they leave behind -------------------------------------------------------------------------------------


class StoreException(Exception):
    """A value was asked for before the function ran, or the function ran twice."""


class Store:
    """A place for one value that a transformation leaves behind when its function runs."""

    __slots__ = ("_filled", "_value")

    def __init__(self) -> None:
        self._filled = False
        self._value: Any = None

    def store(self, value: Any) -> None:
        """Put the value in."""
        if self._filled:
            raise StoreException("the function has run already")
        self._filled, self._value = True, value

    def reset(self) -> None:
        """Forget the value."""
        self._filled, self._value = False, None

    def __call__(self) -> Any:
        """The value."""
        if not self._filled:
            raise StoreException("the function has not run yet")
        return self._value


class WrappedFun:
    """A function, the transformations put on it, and parameters that it is called with.

    Attributes
    ----------
    f : callable
        The function itself.
    transforms : tuple of (callable, tuple)
        Each transformation with its static arguments, the last one first.
    """

    __slots__ = ("debug_info", "f", "f_transformed", "params", "stores", "transforms")

    def __init__(
        self, f: Callable[..., Any], f_transformed: Callable[..., Any], transforms: tuple[Any, ...], stores: tuple[Any, ...],
        params: tuple[tuple[str, Any], ...], debug_info: DebugInfo | None,
    ) -> None:  # fmt: skip
        self.f = f
        self.f_transformed = f_transformed
        self.transforms = transforms
        self.stores = stores
        self.params = params
        self.debug_info = debug_info

    @property
    def __name__(self) -> str:
        return name_of(self.f)

    def wrap(self, step: Callable[..., Any], key: tuple[Any, ...], store: Store | None) -> WrappedFun:
        """The function with one more transformation: `step(inner, *args, **params)`."""
        return WrappedFun(
            self.f, functools.partial(step, self.f_transformed), (key, *self.transforms), (store, *self.stores), self.params,
            self.debug_info,
        )  # fmt: skip

    def call_wrapped(self, *args: Any, **kwargs: Any) -> Any:
        """Call it with all its transformations."""
        return self.f_transformed(*args, **{**dict(self.params), **kwargs})

    def __repr__(self) -> str:
        return f"WrappedFun({', '.join([*(name_of(step) for step, _ in self.transforms), name_of(self.f)])})"

    def _key(self) -> tuple[Any, ...]:
        return self.f, self.transforms, self.params

    def __hash__(self) -> int:
        return hash(self._key())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WrappedFun) and self._key() == other._key()


def wrap_init(
    f: Callable[..., Any], params: dict[str, Any] | None = None, *, debug_info: DebugInfo | None = None
) -> WrappedFun:
    """A function without transformations yet.

    Parameters
    ----------
    f : callable
    params : dict, optional
        Named arguments of the transformations.
    debug_info : DebugInfo, optional

    Returns
    -------
    WrappedFun
    """
    return WrappedFun(f, f, (), (), tuple(sorted((params or {}).items())), debug_info)


def _curried(transform: Callable[..., Any]) -> Callable[..., Any]:
    """`transform(step, fun, *static)`, or in two calls: `transform(step)(fun, *static)`."""

    @functools.wraps(transform)
    def in_calls(step: Callable[..., Any], *rest: Any, **how: Any) -> Any:
        return transform(step, *rest, **how) if rest else functools.partial(transform, step, **how)

    return in_calls


@_curried
def transformation2(gen: Callable[..., Any], fun: WrappedFun, *static: Any) -> WrappedFun:
    """Put `gen(inner function, *static, *args, **params)` around a function."""
    return fun.wrap(lambda inner, *args, **params: gen(inner, *static, *args, **params), (gen, static), None)


@_curried
def transformation_with_aux2(
    gen: Callable[..., Any], fun: WrappedFun, *static: Any, use_eq_store: bool = False, unk_names: bool = False
) -> tuple[WrappedFun, Store]:
    """Put `gen(inner function, store, *static, *args, **params)` around a function; the second result gives what it stored."""
    del use_eq_store, unk_names
    store = Store()
    return (
        fun.wrap(lambda inner, *args, **params: gen(inner, store, *static, *args, **params), (gen, static), store),
        store,
    )


def _around(gen: Callable[..., Any], inner: Callable[..., Any], *args: Any, **params: Any) -> Any:
    """Run a generator that yields the arguments of the inner function, is sent its result, and yields the outcome."""
    steps = gen(*args, **params)
    inner_args, inner_params = next(steps)
    outcome = steps.send(inner(*inner_args, **inner_params))
    steps.close()
    return outcome


@_curried
def transformation(gen: Callable[..., Any], fun: WrappedFun, *static: Any) -> WrappedFun:
    """Put a generator around a function: it yields `(args, params)`, is sent the result, and yields the outcome."""
    return fun.wrap(lambda inner, *args, **params: _around(gen, inner, *static, *args, **params), (gen, static), None)


@_curried
def transformation_with_aux(
    gen: Callable[..., Any], fun: WrappedFun, *static: Any, use_eq_store: bool = False
) -> tuple[WrappedFun, Store]:
    """As `transformation`; the generator yields a pair at last, of which the second goes to the store."""
    del use_eq_store
    store = Store()

    def step(inner: Callable[..., Any], *args: Any, **params: Any) -> Any:
        outcome, aux = _around(gen, inner, *static, *args, **params)
        store.store(aux)
        return outcome

    return fun.wrap(step, (gen, static), store), store


def merge_linear_aux(aux1: Callable[[], Any], aux2: Callable[[], Any]) -> tuple[bool, Any]:
    """What the one of two functions, `aux1` and `aux2`, that has run left behind, and whether that is the first: (bool, any).

    Raises
    ------
    StoreException
        Both or neither have run.
    """
    found = []
    for first, aux in ((True, aux1), (False, aux2)):
        try:
            found.append((first, aux()))
        except StoreException:
            continue
    if len(found) != 1:
        raise StoreException("both functions have run" if found else "neither function has run")
    return found[0]


def cache(call: Callable[..., Any], *, explain: Any = None) -> Callable[..., Any]:
    """Remember the results of `call(fun, *args)` as long as the function itself lives; stores are filled again on a hit."""
    del explain
    remembered: weakref.WeakKeyDictionary[Any, dict[Any, Any]] = weakref.WeakKeyDictionary()

    @functools.wraps(call)
    def cached(fun: WrappedFun, *args: Any) -> Any:
        results = remembered.setdefault(fun.f, {})
        key = (fun.transforms, fun.params, args)
        if key in results:
            result, left = results[key]
            for store, value in zip(fun.stores, left, strict=True):
                if store is not None:
                    store.reset()
                    store.store(value)
            return result
        result = call(fun, *args)
        results[key] = result, [None if store is None else store() for store in fun.stores]
        return result

    cached.cache_clear = remembered.clear  # type: ignore[attr-defined]
    return cached


# --- functions of trees as functions of leaves --------------------------------------------------------------------------------


@transformation_with_aux2
def flatten_fun(fun: Callable[..., Any], store: Store, in_tree: Any, *leaves: Any) -> list[Any]:
    """`fun` on the leaves of `(args, kwargs)`, whose structure is `in_tree`; the store gets the structure of the result.

    Returns
    -------
    list of arrays
    """
    args, kwargs = tree.unflatten(in_tree, leaves)
    out, out_tree = tree.flatten(fun(*args, **kwargs))
    store.store(out_tree)
    return out


@transformation_with_aux2
def flatten_fun_nokwargs(fun: Callable[..., Any], store: Store, in_tree: Any, *leaves: Any) -> list[Any]:
    """`fun` on the leaves of its positional arguments, whose structure is `in_tree`; see `flatten_fun`.

    Returns
    -------
    list of arrays
    """
    out, out_tree = tree.flatten(fun(*tree.unflatten(in_tree, leaves)))
    store.store(out_tree)
    return out


def argnums_partial(
    f: WrappedFun, dyn_argnums: int | Sequence[int], args: Sequence[Any], require_static_args_hashable: bool = True
) -> tuple[WrappedFun, tuple[Any, ...]]:
    """The function of the arguments at `dyn_argnums` only, the others kept as they are, and the former.

    Parameters
    ----------
    dyn_argnums : int or sequence of int
    args : sequence
    require_static_args_hashable : bool

    Returns
    -------
    (WrappedFun, tuple)

    Raises
    ------
    ValueError
        A kept argument cannot be hashed, and must be.
    """
    numbers = (dyn_argnums,) if isinstance(dyn_argnums, int) else dyn_argnums
    chosen = tuple(i % len(args) for i in numbers)
    fixed = tuple((i, x) for i, x in enumerate(args) if i not in chosen)
    for i, x in fixed if require_static_args_hashable else ():
        try:
            hash(x)
        except TypeError:
            raise ValueError(
                f"Non-hashable static arguments are not supported: argument {i} of type {type(x).__name__} is kept fixed; pass a "
                "tuple instead of a list, or make it an array"
            ) from None

    def merged(inner: Callable[..., Any], *dynamic: Any, **params: Any) -> Any:
        given = dict([*fixed, *zip(chosen, dynamic, strict=True)])
        return inner(*[given[i] for i in range(len(args))], **params)

    return f.wrap(merged, (argnums_partial, (chosen, fixed)), None), tuple(args[i] for i in chosen)


def donation_vector(
    donate_argnums: Sequence[int], donate_argnames: Sequence[str], in_tree: Any, kws: bool = True
) -> tuple[bool, ...]:
    """For each leaf of the arguments, whether it is donated; `in_tree` is that of `(args, kwargs)`, or of `args` without `kws`.

    Parameters
    ----------
    donate_argnums : sequence of int
    donate_argnames : sequence of str
    kws : bool
    in_tree : structure

    Returns
    -------
    tuple of bool
    """
    args, *rest = tree.treedef_children(in_tree) if kws else (in_tree,)
    marks: list[bool] = []
    for i, child in enumerate(tree.treedef_children(args)):
        marks += [i in donate_argnums] * child.num_leaves
    for kwargs in rest:
        names = kwargs.node_data()[1] or ()
        for name, child in zip(names, tree.treedef_children(kwargs), strict=True):
            marks += [name in donate_argnames] * child.num_leaves
    return tuple(marks)


def rebase_donate_argnums(donate_argnums: Sequence[int], static_argnums: Sequence[int]) -> tuple[int, ...]:
    """Positions of donated arguments (`donate_argnums`) counted among those that are not static (in `static_argnums`).

    Raises
    ------
    ValueError
        An argument is both.
    """
    if set(donate_argnums) & set(static_argnums):
        raise ValueError(
            f"arguments cannot be both static and donated: {tuple(static_argnums)} and {tuple(donate_argnums)}"
        )
    return tuple(i - sum(s < i for s in static_argnums) for i in sorted(set(donate_argnums)))


def flatten_axes(name: str, treedef: Any, axis_tree: Any, *, kws: bool = False, tupled_args: bool = False) -> list[Any]:
    """One entry of a specification for each leaf of a structure; see `purax.tree.flatten_axes`.

    Parameters
    ----------
    name : str
        For messages.
    treedef : structure
    axis_tree : pytree prefix

    Returns
    -------
    list
    """
    del kws, tupled_args
    return tree.flatten_axes(name, treedef, axis_tree)


def shaped_abstractify(x: Any) -> Any:
    """The aval of an array-like: its shape and dtype."""
    return aval_of(x)


def safe_map(f: Callable[..., Any], *sequences: Any) -> list[Any]:
    """`f` on the elements of sequences of one length, as a list."""
    rows = list(zip(*sequences, strict=True))
    return [f(*row) for row in rows]
