# SPDX-License-Identifier: Apache-2.0
"""Partition specs: which mesh axes cut which axis of an array."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn, Self
from weakref import WeakValueDictionary

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

    Axes past the last entry are not cut. Equal specs are one object.

    Parameters
    ----------
    *partitions : None, str, tuple of str, or PartitionSpec.UNCONSTRAINED
    unreduced, reduced : set of str
        Mesh axes over which the pieces are terms of a sum, or come from one.

    Raises
    ------
    ValueError
        A tuple holds a tuple, None is said to be unreduced or reduced, or one mesh axis is used in two ways.
    TypeError
        A class is derived from it.

    Examples
    --------
    >>> PartitionSpec("data", None)
    P('data', None)
    >>> PartitionSpec(("x",)) == PartitionSpec("x")
    True
    """

    __slots__ = ("__weakref__", "_hash", "partitions", "reduced", "unreduced")
    UNCONSTRAINED = UNCONSTRAINED
    partitions: tuple[Any, ...]
    unreduced: frozenset[str]
    reduced: frozenset[str]
    _hash: int

    def __new__(cls, *partitions: Any, unreduced: Any = frozenset(), reduced: Any = frozenset()) -> Self:
        """The spec with these entries."""
        key = (tuple(map(_canonical, partitions)), _names("unreduced", unreduced), _names("reduced", reduced))
        found = _SPECS.get(key)
        if found is not None:
            return found
        self = super().__new__(cls)
        self.partitions, self.unreduced, self.reduced = key
        self._hash = hash(key)
        both = {*self.unreduced, *self.reduced}.intersection(self.axis_names())
        if both or self.unreduced & self.reduced:
            raise ValueError(
                f"{self}: a mesh axis cuts an array axis, or is unreduced, or is reduced; not two of these."
            )
        return _SPECS.setdefault(key, self)

    def __init_subclass__(cls) -> NoReturn:
        raise TypeError(f"PartitionSpec has no subclasses, since equal specs are one object; {cls.__name__} cannot be.")

    def axis_names(self) -> tuple[str, ...]:
        """Every mesh axis that is used, in the order of the entries."""
        return tuple(name for part in self.partitions for name in names_of(part))

    def index(self, value: Any) -> int:
        """The array axis whose entry this is."""
        return self.partitions.index(_canonical(value))

    def count(self, value: Any) -> int:
        """How many entries are this."""
        return self.partitions.count(_canonical(value))

    def update(self, **changes: Any) -> PartitionSpec:
        """A copy with other `partitions`, `unreduced` or `reduced`."""
        fields = {"partitions": self.partitions, "unreduced": self.unreduced, "reduced": self.reduced} | changes
        return PartitionSpec(*fields.pop("partitions"), **fields)

    def _sums(self) -> tuple[frozenset[str], frozenset[str]]:
        return self.unreduced, self.reduced

    def __len__(self) -> int:
        return len(self.partitions)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.partitions)

    def __getitem__(self, index: Any) -> Any:
        return self.partitions[index]

    def __add__(self, other: Any) -> PartitionSpec:
        if not isinstance(other, PartitionSpec):
            if any(self._sums()):
                raise TypeError(f"{self} has unreduced or reduced axes: add a PartitionSpec to it, not {other!r}.")
            return PartitionSpec(*self.partitions, *other)
        return PartitionSpec(
            *self.partitions, *other, unreduced=self.unreduced | other.unreduced, reduced=self.reduced | other.reduced
        )

    def __radd__(self, other: Any) -> PartitionSpec:
        return PartitionSpec(*other) + self if not any(self._sums()) else NotImplemented

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (  # two threads may have made the same spec at once
            isinstance(other, PartitionSpec)
            and self._hash == other._hash
            and self.partitions == other.partitions
            and self._sums() == other._sums()
        )

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        sums = [
            f"{name}={set(axes)}" for name, axes in zip(("unreduced", "reduced"), self._sums(), strict=True) if axes
        ]
        last = "," if len(self.partitions) == 1 and not sums else ""
        return f"P({', '.join([*map(repr, self.partitions), *sums])}{last})"

    def __reduce__(self) -> Any:
        return _restored, (self.partitions, *self._sums())


_SPECS: WeakValueDictionary[Any, Any] = WeakValueDictionary()


def _restored(partitions: tuple[Any, ...], unreduced: frozenset[str], reduced: frozenset[str]) -> PartitionSpec:
    return PartitionSpec(*partitions, unreduced=unreduced, reduced=reduced)


def _names(what: str, axes: Any) -> frozenset[str]:
    axes = frozenset(axes)
    if None in axes:
        raise ValueError(f"PartitionSpec: {what} names mesh axes; got None among {set(axes)}.")
    return axes


def names_of(part: Any) -> tuple[str, ...]:
    """The mesh axes of one entry, as a tuple."""
    if part is None or part is UNCONSTRAINED:
        return ()
    return part if isinstance(part, tuple) else (part,)


def _canonical(part: Any) -> Any:
    if isinstance(part, list):
        part = tuple(part)
    if isinstance(part, tuple):
        if any(isinstance(name, (tuple, list)) for name in part):
            raise ValueError(f"PartitionSpec: the entry {part} is a tuple with a tuple inside; name mesh axes only.")
        return part[0] if len(part) == 1 else part or None
    return part


P = PartitionSpec
