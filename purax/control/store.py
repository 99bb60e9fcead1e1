# SPDX-License-Identifier: Apache-2.0
"""What was traced and compiled of jitted functions, kept by function and options."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

from purax.control import refs
from purax.control.call import put_back
from purax.control.ref_scope import NO_CELLS, Cells
from purax.core.ir import ClosedJaxpr, Jaxpr, intern, open_constants
from purax.core.passes import pruned
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
    places : tuple of int
        Which inputs are what references among the arguments hold; outputs with their new values follow those of the function.
    kept : tuple of references
        These, if the program is theirs alone; then they are among `cells`.
    cells : Cells
        The references that the function captures; their values are the last inputs and outputs.
    keep_unused : bool
        What runs takes all inputs, not only those that it needs.
    """

    __slots__ = (
        "_jaxpr", "_pruned", "cells", "closed", "consts", "keep_unused", "kept", "out_tree", "places", "touches", "zeros",
    )  # fmt: skip

    def __init__(
        self, closed: ClosedJaxpr, out_tree: Any, zeros: tuple[tuple[int, Any], ...] = (), places: tuple[int, ...] = (),
        kept: tuple[Any, ...] = (), cells: Cells = NO_CELLS, keep_unused: bool = False,
    ) -> None:  # fmt: skip
        self.closed = closed
        self.keep_unused = keep_unused
        self.places, self.kept, self.cells = places, kept, cells
        self.touches = (0 if kept else len(places)) + len(cells)
        self.consts = closed.consts
        self.out_tree = out_tree
        self.zeros = zeros
        self._jaxpr: Jaxpr | None = None
        self._pruned: tuple[Jaxpr, tuple[int, ...] | None] | None = None

    def fits(self) -> bool:
        """Whether captured references hold what the program was traced for: the axes over which a value varies may have changed."""
        avals = self.closed.in_avals[len(self.closed.in_avals) - len(self.cells) :]
        return not len(self.cells) or self.cells.avals() == list(avals)

    @property
    def jaxpr(self) -> Jaxpr:
        """The program with its constants as inputs; interned when first wanted, which tracing alone never does."""
        if self._jaxpr is None:
            self._jaxpr = intern(open_constants(self.closed)[0])
        return self._jaxpr

    @property
    def pruned(self) -> tuple[Jaxpr, tuple[int, ...] | None]:
        """What is compiled: the program, without the inputs that it does not need, and the numbers of those that it takes (None: all)."""
        if self._pruned is None:
            self._pruned = (self.jaxpr, None) if self.keep_unused else pruned(self.jaxpr)
        return self._pruned

    def pick(self, values: Sequence[Any]) -> Sequence[Any]:
        """Of a sequence with one value per input (constants, arguments, captured references) those that what is compiled takes."""
        used = self.pruned[1]
        return values if used is None else [values[i] for i in used]

    def unflatten(self, outs: Sequence[Any]) -> Any:
        """The output of the user's function."""
        outs = outs[: len(outs) - self.touches] if self.touches else outs
        return self.out_tree.unflatten(put_back(outs, self.zeros))

    def through(self, leaves: Sequence[Any], run: Callable[[Sequence[Any], Sequence[Any]], Sequence[Any]]) -> Any:
        """The output for arguments with references among them, which are written.

        Parameters
        ----------
        leaves : sequence of arrays and references
        run : callable
            `run(leaves, values of captured references)` gives the outputs of the program.
        """
        given = [leaves[i] for i in self.places]
        for x in given:
            if not refs.is_ref(x):
                raise TypeError(f"The function was compiled for a mutable reference in the place of {x!r}.")
        if self.kept:
            if given != list(self.kept):
                raise TypeError(
                    "The function was compiled for other mutable references: a rule of derivatives in it holds them."
                )
            leaves = [x._load() if refs.is_ref(x) else x for x in leaves]
            given = []
        if not self.touches:
            return self.unflatten(run(leaves, ()))
        names = self.closed.jaxpr.names
        for i, x in zip(self.places, given, strict=False):
            refs.check_apart([x], self.cells.refs, names[i] if names else str(i))
        jaxpr = self.closed.jaxpr
        first = len(jaxpr.outvars) - self.touches
        written = [jaxpr.outvars[first + k] is not jaxpr.invars[i] for k, i in enumerate(self.places[: len(given)])]

        def bound(values: Sequence[Any]) -> Sequence[Any]:
            full = list(leaves)
            for i, value in zip(self.places, values, strict=False):
                full[i] = value
            return run(full, values[len(given) :])

        outs = Cells((*given, *self.cells.refs), (*written, *self.cells.written)).through((jaxpr,), bound)
        return self.out_tree.unflatten(put_back(outs, self.zeros))


class Store:
    """What was traced and compiled of one function under one set of options.

    Attributes
    ----------
    quick, quick_keyword : dict
        The short way: (structure, settings, avals) -> what runs; without and with keyword arguments.
    picked : dict
        The same for functions that take less than they are given: there what is not needed is not even looked at.
    placed : dict
        The same for arrays that were placed on purpose.
    programs : dict
        `Call.key` -> Program.
    """

    __slots__ = ("__weakref__", "picked", "placed", "programs", "quick", "quick_keyword")

    def __init__(self) -> None:
        self.picked: dict[Any, Any] = {}
        self.placed: dict[Any, Any] = {}
        self.quick: dict[Any, Any] = {}
        self.quick_keyword: dict[Any, Any] = {}
        self.programs: dict[Any, Program] = {}
        _STORES.add(self)

    def clear(self) -> None:
        """Forget everything, in memory."""
        programs = [program for program in self.programs.values() if isinstance(program, Program)]
        forget([program.jaxpr for program in programs] + [p._pruned[0] for p in programs if p._pruned is not None])
        self.picked.clear()
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
