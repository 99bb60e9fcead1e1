# SPDX-License-Identifier: Apache-2.0
"""What was traced and compiled of jitted functions, kept by function and options."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

from purax.control.call import put_back
from purax.core.ir import ClosedJaxpr, Jaxpr, intern, open_constants
from purax.pipeline.compile import forget

__all__ = ["Program", "Store", "clear_programs", "store_of"]


class Program:
    """One traced form of a user's function.

    Attributes
    ----------
    closed : ClosedJaxpr
    out_tree : PyTreeDef
    zeros : tuple of (int, numpy.ndarray)
        Outputs of dtype float0, which the jaxpr does not have.
    """

    __slots__ = ("_jaxpr", "closed", "consts", "out_tree", "zeros")

    def __init__(self, closed: ClosedJaxpr, out_tree: Any, zeros: tuple[tuple[int, Any], ...] = ()) -> None:
        self.closed = closed
        self.consts = closed.consts
        self.out_tree = out_tree
        self.zeros = zeros
        self._jaxpr: Jaxpr | None = None

    @property
    def jaxpr(self) -> Jaxpr:
        """The program with its constants as inputs; interned when first wanted, which tracing alone never does."""
        if self._jaxpr is None:
            self._jaxpr = intern(open_constants(self.closed)[0])
        return self._jaxpr

    def unflatten(self, outs: Sequence[Any]) -> Any:
        """The output of the user's function."""
        return self.out_tree.unflatten(put_back(outs, self.zeros))


class Store:
    """What was traced and compiled of one function under one set of options.

    Attributes
    ----------
    quick, quick_keyword : dict
        The short way: (structure, settings, avals) -> what runs; without and with keyword arguments.
    placed : dict
        The same for arrays that were placed on purpose.
    programs : dict
        `Call.key` -> Program.
    """

    __slots__ = ("__weakref__", "placed", "programs", "quick", "quick_keyword")

    def __init__(self) -> None:
        self.placed: dict[Any, Any] = {}
        self.quick: dict[Any, Any] = {}
        self.quick_keyword: dict[Any, Any] = {}
        self.programs: dict[Any, Program] = {}
        _STORES.add(self)

    def clear(self) -> None:
        """Forget everything, in memory."""
        forget([program.jaxpr for program in self.programs.values()])
        self.placed.clear()
        self.quick.clear()
        self.quick_keyword.clear()
        self.programs.clear()


_STORES: weakref.WeakSet[Store] = weakref.WeakSet()
_BY_FUNCTION: dict[int, tuple[weakref.ref[Any], dict[Any, Store]]] = {}  # id of a live function -> stores by options


def store_of(fun: Any, options: tuple[Any, ...]) -> Store:
    """The store of a function and options; functions are told apart by identity, since equal objects may be changed later."""
    name = id(fun)
    try:
        found = _BY_FUNCTION.get(name)
        if found is None or found[0]() is not fun:
            found = _BY_FUNCTION[name] = (weakref.ref(fun, lambda _: _BY_FUNCTION.pop(name, None)), {})
        store = found[1].get(options)
        return store if store is not None else found[1].setdefault(options, Store())
    except TypeError:  # the function takes no weak references, or the options have no hash
        return Store()


def clear_programs() -> None:
    """Forget what all jitted functions have traced and compiled."""
    for store in list(_STORES):
        store.clear()
