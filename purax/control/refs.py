# SPDX-License-Identifier: Apache-2.0
"""Mutable references: `new_ref`, reading and writing by index, `freeze`.

A reference is a cell that holds an array. Programs know nothing of it: jit, loops, branches and checkpoints of functions that
touch a reference are those of functions that take its value and return the new one (`ref_scope.py`).

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

import itertools
import threading
from collections.abc import Callable, Sequence
from typing import Any

from purax import errors, tree
from purax.control import ref_scope
from purax.control.program import holds
from purax.core.aval import ShapeDtypeStruct
from purax.core.hooks import hooks
from purax.core.source import current_source, format_source
from purax.core.trace import Tracer, aval_of, current
from purax.primitives import cast, shape
from purax.primitives.base import zeros_of

__all__ = [
    "Ref", "RefView", "addupdate", "bury", "check_apart", "check_distinct", "empty_ref", "free_ref", "freeze", "get", "is_ref", "new_ref", "set", "swap",
    "unburied",
]  # fmt: skip


class _Access:
    """Reading and writing by index; what `Ref` and its views share."""

    __slots__ = ()
    is_reference = True  # for those who may not import this class

    @property
    def base(self) -> Ref:
        """The reference that it is a view of."""
        raise NotImplementedError

    def _load(self) -> Any:
        raise NotImplementedError

    def _store(self, value: Any) -> None:
        raise NotImplementedError

    def __getitem__(self, index: Any) -> Any:
        return self._load()[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        with self.base._lock:
            now = self._load()
            value = _fitting(value, aval_of(now))
            whole = index is Ellipsis or (isinstance(index, tuple) and all(i is Ellipsis for i in index))
            if whole and aval_of(value).shape == aval_of(now).shape:
                self._store(value)
            else:
                self._store(now.at[index].set(value))

    def addupdate(self, value: Any, index: Any = ()) -> None:
        """Add to the elements at `index`; to all by default."""
        with self.base._lock:
            now = self._load()
            self._store(now.at[index].add(_fitting(value, aval_of(now))))

    def swap(self, value: Any, index: Any = ()) -> Any:
        """Write at `index` and return what was there."""
        with self.base._lock:
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


_numbers = itertools.count()


class Ref(_Access):
    """A place that holds an array; made by `new_ref`.

    Attributes
    ----------
    shape, dtype, ndim, size
        Of the array.
    at : view
        `ref.at[index]` refers to some elements.
    """

    __slots__ = ("__weakref__", "_freed", "_home", "_kept", "_kind", "_lock", "_number", "_origin", "_value")

    def __init__(self, value: Any, kind: str | None = None, origin: Any = None) -> None:
        self._value, self._home, self._kind, self._freed = value, current.get(), kind, ""
        self._origin = origin or current_source(3)
        self._kept = False  # whether a rule of the user's has it, which may run when the trace has ended
        self._lock, self._number = threading.RLock(), next(_numbers)

    @property
    def base(self) -> Ref:
        """Itself."""
        return self

    def _load(self) -> Any:
        self._check_alive()
        return ref_scope.value_in(self, current.get())

    def _store(self, value: Any) -> None:
        self._check_alive()
        ref_scope.store(self, value)

    @property
    def kind(self) -> str | None:
        """What `new_ref` was told of derivatives."""
        return self._kind

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


class RefType:
    """The type of a reference: that of the array that it holds, told apart.

    Attributes
    ----------
    inner_aval : ShapedArray
        Of the array.
    shape, dtype, ndim, size, weak_type, sharding
        Its own.
    """

    __slots__ = ("inner_aval",)

    def __init__(self, inner_aval: Any) -> None:
        self.inner_aval = inner_aval

    def __getattr__(self, name: str) -> Any:
        if name in ("shape", "dtype", "ndim", "size", "weak_type", "sharding"):
            return getattr(self.inner_aval, name)
        raise AttributeError(f"the type of a reference has no attribute {name!r}")

    def __eq__(self, other: object) -> bool:
        return type(other) is RefType and self.inner_aval == other.inner_aval

    def __hash__(self) -> int:
        return hash((RefType, self.inner_aval))

    def __repr__(self) -> str:
        return f"Ref{{{self.inner_aval.str_short()}}}"


class RefView(_Access):
    """A reference to some elements of another one."""

    __slots__ = ("index", "ref")

    def __init__(self, ref: Any, index: Any) -> None:
        self.ref, self.index = ref, index

    @property
    def base(self) -> Ref:
        """The reference that it is a view of."""
        base: Ref = self.ref.base
        return base

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


# --- references among arguments -----------------------------------------------------------------------------------------------


class _Buried:
    """A reference as part of the structure of an argument, so that it is no leaf."""

    __slots__ = ("ref",)

    def __init__(self, ref: Any) -> None:
        self.ref = ref


class _Held:
    """What a reference holds, in its place among arguments: derivatives reach it."""

    __slots__ = ("ref", "value")

    def __init__(self, ref: Any, value: Any) -> None:
        self.ref, self.value = ref, value


tree.register_pytree_node(_Buried, lambda node: ((), node.ref), lambda ref, _: _Buried(ref))
tree.register_pytree_node(_Held, lambda node: ((node.value,), node.ref), lambda ref, values: _Held(ref, *values))


def is_ref(x: Any) -> bool:
    """Whether `x` is a reference or a view of one."""
    return isinstance(x, _Access)


def check_distinct(what: str, leaves: Sequence[Any], names: Callable[[], Sequence[str]]) -> None:
    """Check that no reference is at two places among the arguments.

    Parameters
    ----------
    what : str
        For the message.
    leaves : sequence
    names : callable
        Gives the names of the leaves.

    Raises
    ------
    ReferenceUseError
        One is.
    """
    seen: dict[Any, int] = {}
    for i, x in enumerate(leaves):
        if is_ref(x) and seen.setdefault(id(x), i) != i:
            raise errors.ReferenceUseError(
                f"{what}: only one reference to a mutable array may be passed as an argument, but {x!r} appeared at both "
                f"{names()[seen[id(x)]]} and {names()[i]}: code that writes to one of two would change the other."
            )


def check_apart(given: Sequence[Any], captured: Sequence[Any], name: str) -> None:
    """Check that arguments of a function are not captured by it, too.

    Parameters
    ----------
    given, captured : sequence of references
    name : str
        Of the argument, for the message.

    Raises
    ------
    ReferenceUseError
        One is.
    """
    bases = {id(ref.base) for ref in captured}
    for ref in given:
        if id(ref.base) in bases:
            raise errors.ReferenceUseError(
                errors.explain(
                    f"{ref!r} was closed over and passed as the argument {name}: the program has one place for it",
                    "code that writes to one of two would change the other",
                    "pass it, or close over it",
                )
            )


def standing_for(ref: Any, value: Any) -> Ref:
    """A new reference like another one, as a program has it."""
    base = ref.base
    return Ref(value, base.kind, base._origin)


def promised(args: Any) -> Any:
    """`args` with references in the place of types that stand for some."""
    if not any(map(_promises, tree.leaves(args))):
        return args
    return tree.map(lambda x: Ref(x) if _promises(x) else x, args)


def _promises(x: Any) -> bool:
    return type(x) is ShapeDtypeStruct and x.is_ref


def bury(what: str, args: Any, differentiated: bool = False) -> Any:
    """`args` with references as structure; the same object if there are none.

    Parameters
    ----------
    what : str
        For the message.
    args : pytree
    differentiated : bool
        What references hold that were made inside of a differentiation stays a leaf; they may be read only.

    Returns
    -------
    pytree
        Like `args`.

    Raises
    ------
    ReferenceUseError
        One reference is at two places.
    """
    leaves, treedef = tree.flatten(args)
    if not any(map(is_ref, leaves)):
        return args
    check_distinct(what, leaves, lambda: [tree.keystr(p) for p, _ in tree.leaves_with_path(args)])

    def placed(ref: Any) -> Any:
        home = ref.base._home
        active = differentiated and home is not None and home.kind in ("grad", "jvp", "linearize")
        return _Held(ref, ref._load()) if active else _Buried(ref)

    return treedef.unflatten([placed(x) if is_ref(x) else x for x in leaves])


def unburied(fun: Callable[..., Any]) -> Callable[..., Any]:
    """`fun` for arguments with buried references.

    Raises
    ------
    ReferenceUseError
        The function, once it is called, writes a reference that it may only read.
    """

    def run(*args: Any, **kwargs: Any) -> Any:
        held = []

        def opened(x: Any) -> Any:
            if type(x) is not _Held:
                return x.ref if type(x) is _Buried else x
            held.append((standing_for(x.ref, x.value), x.value))
            return held[-1][0]

        args, kwargs = tree.map(opened, (args, kwargs), is_leaf=lambda x: type(x) in (_Buried, _Held))
        out = fun(*args, **kwargs)
        for ref, value in held:
            if ref._value is not value:
                raise errors.ReferenceUseError(
                    errors.explain(
                        f"{ref!r} was written by {run.__name__}, a function with rules of its own for derivatives",
                        "the rules do not tell how the derivative of what it holds changes",
                        "return the new value, and write it outside",
                    )
                )
        return out

    run.__name__ = getattr(fun, "__name__", type(fun).__name__)
    return run


# --- the user's functions -----------------------------------------------------------------------------------------------------


def new_ref(init_val: Any, *, memory_space: Any = None, kind: str | None = None) -> Ref:
    """A place that holds an array, read and written by index: `ref[...]`, `ref[i] = x`, `ref.at[i].addupdate(x)`.

    References may be used inside `jit`, loops, branches, checkpoints and functions that are differentiated or mapped, and passed to
    them; they cannot be returned. Writes by index, `addupdate`, `swap` and calls of programs are one step for other threads;
    `ref[...] += x` is a read and a write, as of any Python object.

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
    return Ref(value, kind)


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
    if isinstance(ref, Ref) and ref_scope.innermost_stage(ref, current.get()) is None:
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
