# SPDX-License-Identifier: Apache-2.0
"""Named axes: the axis a batching rule works over, and the names that collectives can see."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

__all__ = ["Axis", "ManualAxisType", "axis_environment", "axis_size", "lane_axes", "manual_axes", "named_axes"]


class Axis(NamedTuple):
    """The axis being mapped: its name (None when anonymous), its size, and the mesh axes that it is cut along, if any."""

    name: Any
    size: int
    spmd: Any = None


# name -> size of every named axis in scope, outermost first; vmap, pmap and shard_map extend it while they trace.
axis_environment: ContextVar[dict[Any, int]] = ContextVar("axis_environment", default={})  # noqa: B039 (never mutated)


# The axes in scope whose lanes are programs of their own (vmap, pmap): what a lane differentiates by is the lane's own value,
# also where all lanes happen to hold the same one. Axes of shard_map are not among them.
lane_axes: ContextVar[frozenset[Any]] = ContextVar("lane_axes", default=frozenset())


# The axes in scope that are axes of a mesh, in the hands of a shard_map or pmap.
manual_axes: ContextVar[frozenset[Any]] = ContextVar("manual_axes", default=frozenset())


@contextmanager
def named_axes(sizes: dict[Any, int], lanes: bool, manual: bool = False) -> Iterator[None]:
    """Bring named axes into scope, for the block.

    Parameters
    ----------
    sizes : dict from name to int
    lanes : bool
        They are lanes of `vmap` or `pmap`, where each lane has values of its own.
    manual : bool
        They are axes of a manual region of `shard_map`.

    Yields
    ------
    None
    """
    names = frozenset(sizes)
    own, held = lane_axes.get(), manual_axes.get()
    tokens = (
        (axis_environment, axis_environment.set({**axis_environment.get(), **sizes})),
        (lane_axes, lane_axes.set(own | names if lanes else own - names)),
        (manual_axes, manual_axes.set(held | names if manual else held - names)),
    )
    try:
        yield
    finally:
        for variable, token in tokens:
            variable.reset(token)  # type: ignore[arg-type]


def axis_size(name: Any) -> int:
    """Size of the named axis in scope (the product for a tuple of names).

    Raises
    ------
    NameError
        No axis of that name is in scope.
    """
    if isinstance(name, (tuple, list)):
        size = 1
        for part in name:
            size *= axis_size(part)
        return size
    known = axis_environment.get()
    if name not in known:
        names = ", ".join(repr(n) for n in known) or "none"
        raise NameError(
            f"unbound axis name: {name}. Axes in scope: {names}. Call this inside vmap(..., axis_name={name!r}), "
            "pmap or shard_map."
        )
    return known[name]


class ManualAxisType(NamedTuple):
    """How a value inside a manual region depends on the axes of the mesh, by JAX's names; sums are never left undone here."""

    varying: frozenset[str] = frozenset()
    unreduced: frozenset[str] = frozenset()
    reduced: frozenset[str] = frozenset()
