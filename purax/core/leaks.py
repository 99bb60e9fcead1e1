# SPDX-License-Identifier: Apache-2.0
"""`check_tracer_leaks`: when a transformation has ended, nothing may refer to its tracers any more."""

from __future__ import annotations

import gc
import types
import weakref
from typing import Any

from purax import errors

__all__ = ["check_leaks"]

_DEPTH = 6


def check_leaks(reference: weakref.ref[Any]) -> None:
    """Raise TracerLeakError if the trace is still alive; the caller has dropped its own references.

    Raises
    ------
    TracerLeakError
        Names the tracers that are left, and what refers to them.
    """
    if reference() is None:
        return
    gc.collect()
    trace = reference()
    if trace is None:
        return
    tracers = [x for x in gc.get_referrers(trace) if getattr(x, "_trace", None) is trace][:3]
    what = f"{trace.kind}({trace.name})" if trace.name else trace.kind
    texts = [_describe(x, tracers) for x in tracers] or ["Something refers to the trace itself."]
    raise errors.TracerLeakError(
        errors.explain(
            f"Leaked trace {type(trace).__name__} of {what}: {len(texts)} of its values are still referred to.\n"
            + "\n".join(texts),
            "traced values stand for values of a transformation; when it has ended they stand for nothing",
            "return what is needed from the transformed function, and keep nothing in globals, attributes or lists",
        )
    )


def _describe(tracer: Any, tracers: list[Any]) -> str:
    kind = type(tracer).__name__
    lines = [
        f"This {kind} with object id {id(tracer)} was created on line:",
        f"  {tracer.aval.str_short()}: {tracer.origin() or 'unknown'}",
    ]
    seen, value = {id(tracers), id(lines)}, tracer
    for _ in range(_DEPTH):
        seen.add(id(value))
        found = _holder(value, seen)
        if found is None:
            break
        seen.add(id(found))
        holder, how = found
        lines.append(
            f"<{type(value).__name__} {id(value)}> is referred to by <{type(holder).__name__} {id(holder)}>{how}"
        )
        if isinstance(holder, types.ModuleType):
            break
        value = holder
    return "\n".join(lines)


def _holder(value: Any, seen: set[int]) -> tuple[Any, str] | None:
    """Something that refers to `value`, and how; frames and what this search made are left out."""
    # No comprehension may close over `value`: its cell would be found as a holder.
    for holder in gc.get_referrers(value):
        if id(holder) in seen or isinstance(holder, (types.FrameType, types.GeneratorType)):
            continue
        if isinstance(holder, types.CellType):
            function = _function_of(holder)
            if function is not None:
                return function, f" ({function.__name__}), which closes over it"
            continue
        if isinstance(holder, dict):
            return holder, f"[{_place(holder.items(), value)!r}]"
        if isinstance(holder, (list, tuple)):
            return holder, f"[{_place(enumerate(holder), value)}]"
        name = _place(getattr(holder, "__dict__", {}).items(), value)
        return holder, "" if name is None else f".{name}"
    return None


def _place(pairs: Any, value: Any) -> Any:
    for place, found in list(pairs):
        if found is value:
            return place
    return None


def _function_of(cell: Any) -> Any:
    """The function that a cell belongs to."""
    for closure in gc.get_referrers(cell):
        if isinstance(closure, tuple):
            for function in gc.get_referrers(closure):
                if isinstance(function, types.FunctionType) and function.__closure__ is closure:
                    return function
    return None
