# SPDX-License-Identifier: Apache-2.0
"""`debug_key_reuse`: an account of which random keys were spent, and an error where one is spent again.

Each element of a key array has a number. Operations that move data move the numbers, by their own `reference` rules; making, splitting
and folding keys gives new ones; drawing and splitting spend them. Operations outside of programs are accounted when they run, programs
when they are called: a program is walked with the numbers of its operands, a loop for two rounds, and what any branch spends is spent.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from purax import config, dtypes, errors
from purax.control.branch import cond_p
from purax.control.scan import scan_p
from purax.control.while_loop import while_p
from purax.core.hooks import hooks
from purax.core.ir import Equation, Jaxpr, Literal, Var
from purax.core.source import current_source, format_source
from purax.pipeline.debug import unusual
from purax.pipeline.evaluate import evaluate
from purax.primitives.random_bits import KeyPrimitive, random_bits_p, random_split_p
from purax.runtime.array import Array

__all__ = ["account"]

Numbers = np.ndarray | None  # of the elements of a key array; None: not of keys

SPENDING: set[Any] = {random_bits_p, random_split_p}
_count = itertools.count()
_lock = threading.Lock()
_spent: set[int] = set()
_known: dict[int, tuple[Any, np.ndarray]] = {}  # by the id of an Array of keys: a weak reference, and its numbers


def _is_key(x: Any) -> bool:
    return isinstance(x.aval.dtype, dtypes.KeyDtype)


def _new(aval: Any) -> np.ndarray:
    """Numbers of keys that were never seen."""
    return np.array([next(_count) for _ in range(aval.size)], np.int64).reshape(aval.shape)


def _numbers_of(x: Any) -> Numbers:
    """The numbers of a concrete array."""
    if type(x) is not Array or not _is_key(x):
        return None
    found = _known.get(id(x))
    return found[1] if found is not None else _remember(x, _new(x.aval))


def _remember(x: Array, numbers: np.ndarray) -> np.ndarray:
    place = id(x)
    _known[place] = weakref.ref(x, lambda _: _known.pop(place, None)), numbers
    return numbers


def _known_value(atom: Any) -> Any:
    """The value of a literal or of a concrete operand, such as an index; None of a variable."""
    value = atom.val if type(atom) is Literal else atom
    return None if type(value) is Var else np.asarray(value)


class _Account:
    """What one operation or program spends, beyond what was spent before it."""

    def __init__(self, spent: set[int]) -> None:
        self.spent = spent

    def equation(self, eqn: Equation, given: Sequence[Numbers]) -> list[Numbers]:
        """The numbers of an operation's outputs."""
        primitive, params = eqn.primitive, eqn.params
        if primitive is scan_p:
            return self.scan(params, given)
        if primitive is while_p:
            return self.loop(params, given)
        if primitive is cond_p:
            return self.branches(params["branches"], given[1:])
        if primitive in SPENDING:
            self.spend(eqn, given[0])
        elif not isinstance(primitive, KeyPrimitive):
            for program in params.values():
                if isinstance(program, Jaxpr) and len(program.invars) == len(given):
                    return self.program(program, given)
            moved = [_known_value(a) if n is None else n for a, n in zip(eqn.invars, given, strict=True)]
            if moved and all(x is not None for x in moved) and all(map(_is_key, eqn.outvars)):
                return list(primitive.reference(*moved, **params))
        return [_new(v.aval) if _is_key(v) else None for v in eqn.outvars]

    def spend(self, eqn: Equation, numbers: Numbers) -> None:
        """Enter the numbers; raise KeyReuseError if one is there."""
        drawn = set() if numbers is None else set(numbers.reshape(-1).tolist())
        if drawn & self.spent:
            raise errors.KeyReuseError(
                errors.explain(
                    f"{eqn.primitive.name} at {format_source(eqn.source)} spends a random key that was spent before",
                    "what is drawn twice from one key is the same twice, and debug_key_reuse is on",
                    "split the key first (a, b = random.split(key)); where it is on purpose, pass random.clone(key)",
                )
            )
        self.spent |= drawn

    def program(self, jaxpr: Jaxpr, given: Sequence[Numbers]) -> list[Numbers]:
        """The numbers of a program's outputs."""
        env: dict[Any, Numbers] = dict(zip((*jaxpr.constvars, *jaxpr.invars), given, strict=True))

        def read(atom: Any) -> Numbers:
            return env.get(atom) if type(atom) is Var else _numbers_of(atom.val if type(atom) is Literal else atom)

        for eqn in jaxpr.eqns:
            env.update(zip(eqn.outvars, self.equation(eqn, [read(a) for a in eqn.invars]), strict=True))
        return [read(a) for a in jaxpr.outvars]

    def scan(self, params: dict[str, Any], given: Sequence[Numbers]) -> list[Numbers]:
        """The body for the first two rounds; what it spends of the inputs of one round it spends of all."""
        jaxpr, length, consts, carry = params["jaxpr"], params["length"], params["consts"], params["carry"]
        fixed, state, rows = given[:consts], list(given[consts : consts + carry]), given[consts + carry :]
        for i in range(min(length, 2)):
            row = [None if x is None else x[-1 - i if params["reverse"] else i] for x in rows]
            state = self.program(jaxpr, [*fixed, *state, *row])[:carry]
        for x in rows:
            if length > 2 and x is not None and self.spent & set(x[:2].reshape(-1).tolist()):
                self.spent |= set(x.reshape(-1).tolist())
        outs = [a.update(shape=(length, *a.shape)) for a in jaxpr.out_avals[carry:]]
        return [*state, *(_new(a) if isinstance(a.dtype, dtypes.KeyDtype) else None for a in outs)]

    def loop(self, params: dict[str, Any], given: Sequence[Numbers]) -> list[Numbers]:
        """Condition and body for two rounds."""
        first, second = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
        state = list(given[second:])
        for _ in range(2):
            self.program(params["cond_jaxpr"], [*given[:first], *state])
            state = self.program(params["body_jaxpr"], [*given[first:second], *state])
        return state

    def branches(self, branches: Sequence[Jaxpr], given: Sequence[Numbers]) -> list[Numbers]:
        """Each branch from the same start; outputs that the branches disagree on are new keys."""
        start, total = set(self.spent), set(self.spent)
        found = []
        for branch in branches:
            self.spent = set(start)
            found.append(self.program(branch, given))
            total |= self.spent
        self.spent = total
        return [
            first if first is None or all(np.array_equal(first, x) for x in rest) else _new(aval)
            for (first, *rest), aval in zip(zip(*found, strict=True), branches[0].out_avals, strict=True)
        ]


def account(primitive: Any, operands: Sequence[Any], params: dict[str, Any], outs: Sequence[Any]) -> None:
    """Enter what an operation on Arrays spends, and which of its outputs are which of its operands.

    Parameters
    ----------
    primitive : Primitive
    operands, outs : sequence of Array
    params : dict

    Raises
    ------
    KeyReuseError
        It spends a key that was spent before.
    """
    with _lock:
        given = [_numbers_of(x) for x in operands]
        book = _Account(set(_spent))
        eqn = Equation(list(operands), list(outs), primitive, params, current_source(2))
        found = book.equation(eqn, given)
        _spent.update(book.spent)
        for out, numbers in zip(outs, found, strict=True):
            if numbers is not None and type(out) is Array and id(out) not in _known:
                _remember(out, numbers)


def _observed(primitive: Any, operands: tuple[Any, ...], params: dict[str, Any]) -> tuple[Any, ...]:
    outs = evaluate(primitive, operands, params)
    if config.current().debug_key_reuse:
        account(primitive, operands, params, outs)
    return outs


_active = 0


def _step(by: int) -> None:
    """The setting was turned on (1) or off (-1) in some thread."""
    global _active
    _active += by
    unusual.step(by)
    hooks.evaluate = _observed if _active else evaluate


hooks.account_keys = account
config.watch("debug_key_reuse", _step)
