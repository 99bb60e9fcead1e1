# SPDX-License-Identifier: Apache-2.0
"""Mutable references: `new_ref`, reading and writing by index, `freeze`.

A reference is a cell that holds an array. Programs know nothing of it: while a function is being staged, the staging trace keeps
the value that the cell has at this point of the program, and what is written last becomes an output. So jit, loops, branches and
checkpoints of functions that touch a reference are those of functions that take its value and return the new one. A function is
traced once as if it touched none; where it did, it is traced again with the values of these references among its inputs.

Each reference belongs to the trace that was current when it was made. Traces that stage nothing (`grad`, `jvp`, `vmap`) see the
cell itself: what is written into a reference made inside them may carry derivatives or lanes, in one made outside it may not.

Parameters
----------
fun : callable
token : object
    What tells this attempt from others.
held : sequence of Ref
    References that the program knows.
reads : bool
    Reading counts as touching.
memory_space : optional
    Without effect.
ref : Ref
idx : index or None
    None: all elements.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from purax import errors, tree
from purax.control.program import holds
from purax.core.hooks import hooks
from purax.core.source import current_source, format_source
from purax.core.stage import StageTrace
from purax.core.trace import Tracer, aval_of, check_escape, current
from purax.primitives import cast, shape
from purax.primitives.base import zeros_of

__all__ = [
    "Ref", "RefView", "Touched", "addupdate", "bury", "empty_ref", "free_ref", "freeze", "get", "is_ref", "new_ref", "opened", "set", "settled",
    "swap", "unburied", "watched",
]  # fmt: skip


class _Access:
    """Reading and writing by index; what `Ref` and its views share."""

    __slots__ = ()

    def _load(self) -> Any:
        raise NotImplementedError

    def _store(self, value: Any) -> None:
        raise NotImplementedError

    def __getitem__(self, index: Any) -> Any:
        return self._load()[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        now = self._load()
        value = _fitting(value, aval_of(now))
        whole = index is Ellipsis or (isinstance(index, tuple) and all(i is Ellipsis for i in index))
        if whole and aval_of(value).shape == aval_of(now).shape:
            self._store(value)
        else:
            self._store(now.at[index].set(value))

    def addupdate(self, value: Any, index: Any = ()) -> None:
        """Add to the elements at `index`; to all by default."""
        now = self._load()
        self._store(now.at[index].add(_fitting(value, aval_of(now))))

    def swap(self, value: Any, index: Any = ()) -> Any:
        """Write at `index` and return what was there."""
        before = self[index]
        self[index] = value
        return before

    def get(self, index: Any = ()) -> Any:
        """The elements at `index`; all by default."""
        return self[index]

    def set(self, value: Any, index: Any = ()) -> None:
        """Write at `index`; all elements by default."""
        self[index] = value

    def __len__(self) -> int:
        return len(self._load())

    @property
    def at(self) -> Any:
        """`ref.at[index]` is a view: a reference to these elements of `ref`."""
        return _At(self)

    @property
    def aval(self) -> Any:
        """Raise: a reference is no array."""
        raise errors.ReferenceUseError(
            errors.explain(
                f"{self!r} was used as an array: an operand, or an output; a function that was traced for jit, a loop, or a branch "
                "may have returned a mutable array reference",
                "a reference is a place that holds an array, and places are not values",
                "read it (ref[...]), or return purax.freeze(ref)",
            )
        )

    @property
    def dtype(self) -> Any:
        """Data type of the elements."""
        return aval_of(self._load()).dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array."""
        return aval_of(self._load()).shape

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return aval_of(self._load()).size

    def __deepcopy__(self, memo: Any) -> Any:
        return self


class Ref(_Access):
    """A place that holds an array; made by `new_ref`.

    Attributes
    ----------
    shape, dtype, ndim, size
        Of the array.
    at : view
        `ref.at[index]` refers to some elements.
    """

    __slots__ = ("__weakref__", "_freed", "_home", "_kind", "_origin", "_value")

    def __init__(self, value: Any, kind: str | None = None) -> None:
        self._value, self._home, self._kind, self._freed = value, current.get(), kind, ""
        self._origin = current_source(3)

    def _load(self) -> Any:
        self._check_alive()
        return _value_in(self, current.get())

    def _store(self, value: Any) -> None:
        self._check_alive()
        stage = _innermost_stage(self, current.get())
        scope = None if stage is None else _scopes.get(stage)
        if stage is not None and scope is None:
            raise errors.ReferenceUseError(
                errors.explain(
                    f"{self!r} was written inside {stage.kind} of {stage.name or 'a function'}",
                    "what is written there could not leave it: jit, loops, branches and checkpoints let references be written, "
                    "rules and solvers do not",
                    "return the value, and write it outside",
                )
            )
        value = _detached(self, value, self._home if stage is None else stage)
        if scope is None:
            self._value = value
        else:
            scope.values[self] = value
            scope.touched[self] = True

    def _check_alive(self) -> None:
        if self._freed:
            raise errors.ReferenceUseError(f"{self!r} was {self._freed} before: it can be read and written no more.")

    @property
    def sharding(self) -> Any:
        """Where the array lies."""
        return self._load().sharding

    def __repr__(self) -> str:
        where = format_source(self._origin)
        return f"Ref<{aval_of(self._value).str_short()}, created at {where}>"


class RefView(_Access):
    """A reference to some elements of another one."""

    __slots__ = ("index", "ref")

    def __init__(self, ref: Any, index: Any) -> None:
        self.ref, self.index = ref, index

    def _load(self) -> Any:
        return self.ref[self.index]

    def _store(self, value: Any) -> None:
        self.ref[self.index] = value

    def __repr__(self) -> str:
        return f"{self.ref!r}.at[{self.index!r}]"


class _At:
    __slots__ = ("ref",)

    def __init__(self, ref: Any) -> None:
        self.ref = ref

    def __getitem__(self, index: Any) -> RefView:
        return RefView(self.ref, index)


def _fitting(value: Any, aval: Any) -> Any:
    """`value` in the dtype of the reference, if it has it or gives way."""
    have = aval_of(value)
    if have.dtype != aval.dtype and not (have.weak_type and holds(have.dtype, aval.dtype)):
        raise errors.ReferenceUseError(
            errors.explain(
                f"a value of dtype {have.dtype} was written into a reference of dtype {aval.dtype}",
                "what a reference holds keeps its type",
                f"convert it: x.astype({str(aval.dtype)!r})",
            )
        )
    return cast.as_type(
        hooks.as_array(value) if not isinstance(value, Tracer) else value, aval.update(shape=have.shape)
    )


# --- where the value is -------------------------------------------------------------------------------------------------------


class _Scope:
    """The references of one staging trace: their values at this point of the program, and which were touched (True: written)."""

    __slots__ = ("touched", "values")

    def __init__(self, held: Sequence[Ref], values: Sequence[Any]) -> None:
        self.values: dict[Ref, Any] = dict(zip(held, values, strict=True))
        self.touched: dict[Ref, bool] = {}


_scopes: weakref.WeakKeyDictionary[Any, _Scope] = weakref.WeakKeyDictionary()


def _innermost_stage(ref: Ref, trace: Any) -> Any:
    """The innermost staging trace between here and the home of the reference; None if there is none."""
    home, stage = ref._home, None
    while trace is not None:
        if trace is home or (home is not None and trace.tag is not None and trace.tag is home.tag):
            return stage
        if stage is None and type(trace) is StageTrace:
            stage = trace
        trace = trace.parent
    if home is not None:
        raise errors.UnexpectedTracerError(
            f"{ref!r} escaped from a {home.kind} of {home.name or 'a function'}: it holds a value that exists only there. "
            "Return what it holds (purax.freeze(ref))."
        )
    return stage


def _value_in(ref: Ref, trace: Any) -> Any:
    stage = _innermost_stage(ref, trace)
    if stage is None:
        return ref._value
    scope = _scopes.get(stage)
    if scope is not None and ref in scope.values:
        return scope.values[ref]
    value = _value_in(ref, stage.parent)
    if scope is not None and not isinstance(
        value, Tracer
    ):  # a program with a traced constant is not kept for another time
        scope.touched.setdefault(ref, False)
    return value


def _detached(ref: Ref, value: Any, level: Any) -> Any:
    """`value` as it may be kept at a level: without tangents, if the reference is said to have none; never of one lane."""
    while isinstance(value, Tracer) and not (level is not None and level.encloses(value._trace)):
        primal = getattr(value, "primal", None)
        if primal is not None and (ref._kind or "").startswith("no_grad"):
            value = primal
        elif primal is not None:
            raise errors.ReferenceUseError(
                errors.explain(
                    f"a value that is being differentiated was written into {ref!r}, which was made outside the differentiation",
                    "its derivative would be lost",
                    "Move the array reference into the function that is differentiated, make it with kind='no_grad_no_remat', or write "
                    "purax.lax.stop_gradient(x)",
                )
            )
        elif value._trace.kind == "vmap":
            raise errors.ReferenceUseError(
                errors.explain(
                    f"a value of one lane of vmap was written into an unbatched array reference, {ref!r}",
                    "it has room for one value, and each lane has its own",
                    "make the reference inside the mapped function, or pass one with a mapped axis as an argument",
                )
            )
        else:
            check_escape(value, level)
            break
    return value


# --- functions that touch references ------------------------------------------------------------------------------------------


class Touched(Exception):
    """A function under trace touched references that are not among its inputs."""

    def __init__(self, token: Any, refs: tuple[Ref, ...]) -> None:
        super().__init__(f"touched {len(refs)} references")
        self.token, self.refs = token, refs

    def unsupported(self, where: str) -> Exception:
        """The error where references cannot be among the inputs."""
        return errors.ReferenceUseError(
            errors.explain(
                f"{self.refs[0]!r} was touched by {where}",
                "its value would be an input, and an output, that no caller knows of",
                "pass what it holds (ref[...]), return the new value, and write it outside",
            )
        )


@contextmanager
def _scope(token: Any, held: Sequence[Ref], values: Sequence[Any], reads: bool) -> Iterator[_Scope]:
    """Hold references in the current staging trace; raise Touched afterwards if others were written (or read)."""
    trace = current.get()
    if type(trace) is not StageTrace:  # run as Python (disable_jit): cells are cells
        yield _Scope(held, values)
        return
    scope = _scopes[trace] = _Scope(held, values)
    yield scope
    missing = tuple([r for r, written in scope.touched.items() if (written or reads) and r not in held])
    if missing:
        raise Touched(token, missing)


def watched(fun: Callable[..., Any], token: Any, reads: bool = False) -> Callable[..., Any]:
    """`fun`, which raises Touched when it has touched a reference made outside."""

    def run(*args: Any, **kwargs: Any) -> Any:
        with _scope(token, (), (), reads):
            return fun(*args, **kwargs)

    run.__name__ = getattr(fun, "__name__", type(fun).__name__)
    return run


def opened(fun: Callable[..., Any], token: Any, held: Sequence[Ref], reads: bool = False) -> Callable[..., Any]:
    """`(values of references, *args) -> (fun(*args), new values)`."""

    def run(values: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        with _scope(token, held, values, reads) as scope:
            out = fun(*args, **kwargs)
        return out, [scope.values[r] for r in held]

    run.__name__ = getattr(fun, "__name__", type(fun).__name__)
    return run


def settled(attempt: Callable[[Any, tuple[Ref, ...]], Any]) -> Any:
    """The result of `attempt(token, references)`, tried with more references until its functions touch no others.

    Without references it returns the result, else the result and the new values, which are written.
    """
    held: tuple[Ref, ...] = ()
    token = object()
    while True:
        try:
            found = attempt(token, held)
        except Touched as touched:
            if touched.token is not token:
                raise
            held = (*held, *touched.refs)
            continue
        if not held:
            return found
        out, values = found
        for ref, value in zip(held, values, strict=True):
            ref._store(value)
        return out


# --- references among arguments -----------------------------------------------------------------------------------------------


class _Buried:
    """A reference as part of the structure of an argument, so that it is no leaf."""

    __slots__ = ("ref",)

    def __init__(self, ref: Any) -> None:
        self.ref = ref


tree.register_pytree_node(_Buried, lambda node: ((), node.ref), lambda ref, _: _Buried(ref))


def is_ref(x: Any) -> bool:
    """Whether `x` is a reference or a view of one."""
    return isinstance(x, _Access)


def bury(what: str, args: Any) -> Any:
    """`args` with references as structure; the same object if there are none.

    Raises
    ------
    ReferenceUseError
        One reference is at two places.
    """
    leaves, treedef = tree.flatten(args)
    if not any(map(is_ref, leaves)):
        return args
    seen: dict[Any, int] = {}
    for i, x in enumerate(leaves):
        if is_ref(x) and seen.setdefault(id(x), i) != i:
            paths = [tree.keystr(p) for p, _ in tree.leaves_with_path(args)]
            raise errors.ReferenceUseError(
                f"{what}: only one reference to a mutable array may be passed as an argument, but {x!r} appeared at both "
                f"{paths[seen[id(x)]]} and {paths[i]}: code that writes to one of two would change the other."
            )
    return treedef.unflatten([_Buried(x) if is_ref(x) else x for x in leaves])


def unburied(fun: Callable[..., Any]) -> Callable[..., Any]:
    """`fun` for arguments with buried references."""

    def run(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = tree.map(
            lambda x: x.ref if type(x) is _Buried else x, (args, kwargs), is_leaf=lambda x: type(x) is _Buried
        )
        return fun(*args, **kwargs)

    run.__name__ = getattr(fun, "__name__", type(fun).__name__)
    return run


# --- the user's functions -----------------------------------------------------------------------------------------------------


def new_ref(init_val: Any, *, memory_space: Any = None, kind: str | None = None) -> Ref:
    """A place that holds an array, read and written by index: `ref[...]`, `ref[i] = x`, `ref.at[i].addupdate(x)`.

    References may be used inside `jit`, loops, branches, checkpoints and functions that are differentiated or mapped, and passed to
    them; they cannot be returned.

    Parameters
    ----------
    init_val : array
    kind : str, optional
        "no_grad_no_remat": what is written keeps no derivative.

    Returns
    -------
    Ref

    Raises
    ------
    ReferenceUseError
        `init_val` is a reference.
    """
    del memory_space
    if is_ref(init_val):
        raise errors.ReferenceUseError(f"new_ref takes an array, got {init_val!r}")
    value = init_val if isinstance(init_val, Tracer) else hooks.as_array(init_val)
    return Ref(cast.as_type(value, aval_of(value).strip_weak()), kind)


def empty_ref(ty: Any, memory_space: Any = None) -> Ref:
    """A place for an array of the shape and dtype of `ty`; it holds zeros until it is written."""
    del memory_space
    return Ref(zeros_of(shape.full(ty.shape, 0, ty.dtype)))


def freeze(ref: Ref) -> Any:
    """What the reference holds; it can be used no more."""
    value = ref[...]
    _end(ref, "frozen")
    return value


def free_ref(ref: Ref) -> tuple[()]:
    """End the use of a reference."""
    ref[...]
    _end(ref, "freed")
    return ()


def _end(ref: Ref, how: str) -> None:
    if isinstance(ref, Ref) and _innermost_stage(ref, current.get()) is None:
        ref._freed = how


def get(ref: Any, idx: Any = None) -> Any:
    """`ref[idx]`; all elements by default."""
    return ref[... if idx is None else idx]


def set(ref: Any, idx: Any, value: Any) -> None:
    """`ref[idx] = value`."""
    ref[... if idx is None else idx] = value


def swap(ref: Any, idx: Any, value: Any) -> Any:
    """Write `value` at `idx` and return what was there, an array of the dtype of the reference."""
    return ref.swap(value, ... if idx is None else idx)


def addupdate(ref: Any, idx: Any, x: Any) -> None:
    """Add `x` to the elements at `idx`."""
    ref.addupdate(x, ... if idx is None else idx)
