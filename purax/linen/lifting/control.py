# SPDX-License-Identifier: Apache-2.0
"""Loops, branches, compilation and recomputation of functions of scopes, `fn(scopes, *args)`.

What is returned is a callable `(scopes, *args)`. Arguments are those of the functions of `purax.linen.lift` of the same names.

Parameters
----------
fn, true_fun, false_fun, cond_fn, body_fn, branches : callable
    Functions of scopes.
variables, rngs : filter
    Collections and streams that they see.
carry_variables, broadcast_variables, split_rngs
    As in `purax.linen.while_loop`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from purax import random, tree
from purax.control import branch, loop
from purax.control.jit import jit as jit_arrays
from purax.control.remat import checkpoint as checkpoint_arrays
from purax.linen.filters import Filter
from purax.linen.lifting.pack import Packed

__all__ = ["Programs", "checkpoint", "cond", "jit", "shifted", "switch", "while_loop"]


def while_loop(
    cond_fn: Callable[..., Any],
    body_fn: Callable[..., Any],
    carry_variables: Filter = False,
    broadcast_variables: Filter = True,
    split_rngs: Mapping[Filter, bool] = {},
) -> Callable[..., Any]:
    """Repeat `body_fn(scopes, carry) -> carry` while `cond_fn(scopes, carry)` is true."""
    splits = tuple(split_rngs.values())

    def call(scopes: Any, init: Any) -> Any:
        packed = Packed(scopes, (carry_variables, broadcast_variables), (carry_variables,), tuple(split_rngs))
        carried, shared = packed.variables

        def keys(index: Any) -> Any:
            return tuple(
                tree.map(lambda key: random.fold_in(key, index), members) if split else members
                for members, split in zip(packed.rngs, splits, strict=True)
            )

        def condition(state: Any) -> Any:
            index, carried, carry = state
            result = cond_fn(packed.enter((carried, shared), keys(-index), mutable=False), carry)
            packed.leave()
            return result

        def body(state: Any) -> Any:
            index, carried, carry = state
            carry = body_fn(packed.enter((carried, shared), keys(index)), carry)
            (changed,) = packed.leave()
            carried = tuple({**given, **made} for given, made in zip(carried, changed, strict=True))
            return index + 1, carried, carry

        _, carried, carry = loop.while_loop(condition, body, (0, carried, init))
        packed.publish((carried,))
        return carry

    return call


def _branches(
    functions: Sequence[Callable[..., Any]], variables: Filter, rngs: Filter, choose: Callable[..., Any]
) -> Callable[..., Any]:
    def call(scopes: Any, *operands: Any) -> Any:
        packed = Packed(scopes, (variables,), (variables,), (rngs,))

        def branch_of(fn: Callable[..., Any]) -> Callable[..., Any]:
            def chosen(*operands: Any) -> Any:
                result = fn(packed.enter(packed.variables, packed.rngs), *operands)
                return result, packed.leave()

            return chosen

        result, changed = choose([branch_of(fn) for fn in functions], *operands)
        packed.publish(changed)
        return result

    return call


def cond(
    true_fun: Callable[..., Any],
    false_fun: Callable[..., Any],
    pred: Any,
    variables: Filter = True,
    rngs: Filter = True,
) -> Callable[..., Any]:
    """Call one of two functions of scopes, by `pred`; both must change the same variables."""
    return _branches((true_fun, false_fun), variables, rngs, lambda fns, *ops: branch.cond(pred, *fns, *ops))


def switch(
    *branches: Callable[..., Any], index: Any, variables: Filter = True, rngs: Filter = True
) -> Callable[..., Any]:
    """Call one of several functions of scopes, by `index`; all must change the same variables."""
    return _branches(branches, variables, rngs, lambda fns, *ops: branch.switch(index, fns, *ops))


class Programs:
    """The compiled forms of one lifted method, shared by all modules that are alike.

    A program is found by a fingerprint of the module, its scopes and settings: Python code runs once for each. What the
    run did to the counters of the random streams is noted, and done again when the program is used without running it.
    """

    def __init__(self, **options: Any) -> None:
        self.draws: dict[Any, dict[Any, int]] = {}
        self._running = threading.local()
        self._compiled = jit_arrays(self._run, **options)
        self._options = options

    def fresh(self) -> Programs:
        """Return the same without programs."""
        return Programs(**self._options)

    def _run(self, fingerprint: Any, *args: Any, **kwargs: Any) -> Any:
        return self._running.functions[-1](*args, **kwargs)

    def __call__(self, function: Callable[..., Any], fingerprint: Any, *args: Any, **kwargs: Any) -> Any:
        """Return `function(*args, **kwargs)`, by a program made from an earlier function with the same fingerprint."""
        functions = self._running.__dict__.setdefault("functions", [])
        functions.append(function)
        try:
            return self._compiled(fingerprint, *args, **kwargs)
        finally:
            functions.pop()


def jit(
    fn: Callable[..., Any],
    programs: Programs,
    fingerprint: Any,
    variables: Filter = True,
    rngs: Filter = True,
) -> Callable[..., Any]:
    """Compile a function of scopes; `programs` keeps what was compiled, `fingerprint` tells functions apart."""

    def call(scopes: Any, *args: Any, **kwargs: Any) -> Any:
        packed = Packed(scopes, (variables,), (variables,), (rngs,))
        key = (fingerprint, packed.fingerprint())
        ran = False

        def traced(groups: Any, keys: Any, *args: Any, **kwargs: Any) -> Any:
            nonlocal ran
            ran = True
            before = packed.count()
            result = fn(packed.enter(groups, keys), *args, **kwargs)
            after = packed.count()
            programs.draws[key] = {place: after[place] - before.get(place, 0) for place in after}
            return result, packed.leave()

        result, changed = programs(traced, key, packed.variables, packed.rngs, *args, **kwargs)
        if not ran:
            packed.draw(programs.draws.get(key, {}))
        packed.publish(changed)
        return result

    return call


def shifted(numbers: Any, by: int = 1) -> tuple[int, ...]:
    """Return argument numbers, the module as 0, after the module gave way to `by` more arguments than one.

    Returns
    -------
    tuple of int
    """
    return tuple(number + by for number in ((numbers,) if isinstance(numbers, int) else numbers) if number > 0)


def checkpoint(
    fn: Callable[..., Any],
    variables: Filter = True,
    rngs: Filter = True,
    concrete: bool = False,
    prevent_cse: bool = True,
    static_argnums: Any = (),
    policy: Callable[..., bool] | None = None,
) -> Callable[..., Any]:
    """Compute a function of scopes again in the backward pass instead of keeping its intermediate values.

    Parameters
    ----------
    concrete, prevent_cse, static_argnums, policy
        As in `purax.linen.checkpoint`.

    Returns
    -------
    callable

    Raises
    ------
    ValueError
        `concrete` is set.
    """
    if concrete:
        raise ValueError("checkpoint: name the arguments that Python code depends on in static_argnums.")

    def call(scopes: Any, *args: Any, **kwargs: Any) -> Any:
        packed = Packed(scopes, (variables,), (variables,), (rngs,))

        def again(groups: Any, keys: Any, *args: Any, **kwargs: Any) -> Any:
            result = fn(packed.enter(groups, keys), *args, **kwargs)
            return result, packed.leave()

        run = checkpoint_arrays(again, prevent_cse=prevent_cse, static_argnums=shifted(static_argnums), policy=policy)
        result, changed = run(packed.variables, packed.rngs, *args, **kwargs)
        packed.publish(changed)
        return result

    return call
