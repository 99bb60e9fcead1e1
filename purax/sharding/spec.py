# SPDX-License-Identifier: Apache-2.0
"""Partition specs: which mesh axes cut which axis of an array."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from purax.core.axes import ManualAxisType

__all__ = ["UNCONSTRAINED", "ManualAxisType", "P", "PartitionSpec"]


class _Unconstrained:
    """The partitioner may choose how this axis is cut."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "UNCONSTRAINED"

    def __reduce__(self) -> str:
        return "UNCONSTRAINED"


UNCONSTRAINED = _Unconstrained()


class PartitionSpec:
    """One entry per array axis: None, the name of a mesh axis, or a tuple of names (the first is the major one).

    Axes past the last entry are not cut.

    Parameters
    ----------
    *parts : None, str, tuple of str, or PartitionSpec.UNCONSTRAINED

    Examples
    --------
    >>> PartitionSpec("data", None)
    P('data', None)
    >>> PartitionSpec(("x",)) == PartitionSpec("x")
    True
    """

    __slots__ = ("_parts",)
    UNCONSTRAINED = UNCONSTRAINED

    def __init__(self, *parts: Any) -> None:
        self._parts = tuple(map(_canonical, parts))

    def axis_names(self) -> tuple[str, ...]:
        """Every mesh axis that is used, in the order of the entries."""
        return tuple(name for part in self._parts for name in names_of(part))

    def __len__(self) -> int:
        return len(self._parts)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._parts)

    def __getitem__(self, index: Any) -> Any:
        return self._parts[index]

    def __add__(self, other: Any) -> PartitionSpec:
        return PartitionSpec(*self._parts, *other)

    def __radd__(self, other: Any) -> PartitionSpec:
        return PartitionSpec(*other, *self._parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PartitionSpec) and self._parts == other._parts

    def __hash__(self) -> int:
        return hash((PartitionSpec, self._parts))

    def __repr__(self) -> str:
        return f"P({', '.join(map(repr, self._parts))})"

    def __reduce__(self) -> Any:
        return PartitionSpec, self._parts


def names_of(part: Any) -> tuple[str, ...]:
    """The mesh axes of one entry, as a tuple."""
    if part is None or part is UNCONSTRAINED:
        return ()
    return part if isinstance(part, tuple) else (part,)


def _canonical(part: Any) -> Any:
    if isinstance(part, list):
        part = tuple(part)
    if isinstance(part, tuple):
        return part[0] if len(part) == 1 else part or None
    return part


P = PartitionSpec
