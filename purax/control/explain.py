# SPDX-License-Identifier: Apache-2.0
"""Why a jitted call had to trace anew: the event that says which part of its key is new."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from purax import events

__all__ = ["cache_miss"]

_SEEN: dict[tuple[str, int], str] = {}  # (file, line) of traced functions, while somebody listens -> name
_PARTS = ("input pytree", "input types", "static arguments", "tracing context", "named axes")


def cache_miss(call: Any, name: str, keys: Sequence[Any]) -> events.CacheMiss:
    """The event for a call that none of the `keys` seen before fits.

    Parameters
    ----------
    call : Call
    name : str
        Of the function.
    keys : sequence of tuple
        Keys of the programs that the function has, oldest first.

    Returns
    -------
    events.CacheMiss
    """
    where = _line(call.function.fun)
    if not keys:
        new = "never seen function"
        if where is not None:
            if where in _SEEN:
                new = f"never seen function, but another function defined on the same line, {where[0]}:{where[1]}, was traced; is it made anew on each call?"
            _SEEN[where] = name
        return events.CacheMiss(name, "function", None, new)
    key = call.key
    nearest = min(reversed(keys), key=lambda other: sum(a != b for a, b in zip(key, other, strict=True)))
    for part, old, new in zip(_PARTS, nearest, key, strict=True):
        if old != new:
            return events.CacheMiss(name, f"different {part}", *_described(part, old, new, call))
    return events.CacheMiss(name, "captured values", None, "the program holds traced values of an outer function")


def _described(part: str, old: Any, new: Any, call: Any) -> tuple[str, str]:
    if part == "input types" and len(old) == len(new):
        names = call.names()
        changed = [(n, a, b) for n, a, b in zip(names, old, new, strict=False) if a is not b]
        weak = any(a.strip_weak() is b.strip_weak() for _, a, b in changed)
        text = "; ".join([f"at {n}, now {_type(b, weak)} and before {_type(a, weak)}" for n, a, b in changed])
        return "", text + ("; a weak type comes from a Python scalar, and gives way to the other type" if weak else "")
    if part == "tracing context":
        return "", "; ".join(
            [f"{n}: now {b} and before {a}" for (n, a), (_, b) in zip(old.items, new.items, strict=True) if a != b]
        )
    if part == "static arguments":
        return "", "; ".join(
            [f"at {w}, now {v!r} and before {u!r}" for (w, _, u), (_, _, v) in zip(old, new, strict=False) if u != v]
        )
    return str(old), str(new)


def _type(aval: Any, weak: bool) -> str:
    return aval.str_short(short_dtypes=True) + (f"{{weak_type={aval.weak_type}}}" if weak else "")


def _line(fun: Any) -> tuple[str, int] | None:
    code = getattr(fun, "__code__", None)
    return None if code is None else (code.co_filename, code.co_firstlineno)
