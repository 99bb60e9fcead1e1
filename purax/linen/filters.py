# SPDX-License-Identifier: Apache-2.0
"""Filters over names of collections and random streams.

A filter is a bool (all or none), a name, a container of names, or a `DenyList` (everything except).

Parameters
----------
left, right, filter : filter
filters : sequence of filter
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from purax.linen.errors import InvalidFilterError

__all__ = ["CollectionFilter", "DenyList", "Filter", "group", "hashable", "in_filter", "intersect", "union"]


@dataclass(frozen=True)
class DenyList:
    """The filter that passes every name which `deny` does not pass.

    Parameters
    ----------
    deny : filter
        What to leave out, such as `"intermediates"`.
    """

    deny: Any


Filter: TypeAlias = bool | str | Collection[str] | DenyList
CollectionFilter: TypeAlias = Filter


def in_filter(filter: Filter, name: str) -> bool:
    """Whether `filter` passes `name`.

    Raises
    ------
    InvalidFilterError
        `filter` is no filter.
    """
    if isinstance(filter, bool):
        return filter
    if isinstance(filter, str):
        return filter == name
    if isinstance(filter, DenyList):
        return not in_filter(filter.deny, name)
    if isinstance(filter, Collection):
        return name in filter
    raise InvalidFilterError(filter)


def _names(filter: Filter) -> frozenset[str]:
    if isinstance(filter, str):
        return frozenset((filter,))
    if isinstance(filter, Collection):
        return frozenset(filter)
    raise InvalidFilterError(filter)


def _denied(filter: Filter) -> tuple[bool, frozenset[str]]:
    """Normal form: (False, names passed) or (True, names denied)."""
    if isinstance(filter, bool):
        return filter, frozenset()
    if isinstance(filter, DenyList):
        negated, names = _denied(filter.deny)
        return not negated, names
    return False, _names(filter)


def _from_denied(negated: bool, names: frozenset[str]) -> Filter:
    if not names:
        return negated
    return DenyList(names) if negated else names


def hashable(filter: Filter) -> Any:
    """Return a hashable filter that passes the same names."""
    negated, names = _denied(filter)
    return negated, names


def union(left: Filter, right: Filter) -> Filter:
    """Return the filter that passes what either filter passes."""
    (left_negated, a), (right_negated, b) = _denied(left), _denied(right)
    if left_negated and right_negated:
        return _from_denied(True, a & b)
    if left_negated:
        return _from_denied(True, a - b)
    if right_negated:
        return _from_denied(True, b - a)
    return _from_denied(False, a | b)


def intersect(left: Filter, right: Filter) -> Filter:
    """Return the filter that passes what both filters pass."""
    (left_negated, a), (right_negated, b) = _denied(left), _denied(right)
    if left_negated and right_negated:
        return _from_denied(True, a | b)
    if left_negated:
        return _from_denied(False, b - a)
    if right_negated:
        return _from_denied(False, a - b)
    return _from_denied(False, a & b)


def group(entries: Mapping[str, Any], filters: Sequence[Filter]) -> tuple[dict[str, Any], ...]:
    """Sort the entries of a dictionary by the first filter that passes their name; the others are left out.

    Returns
    -------
    tuple of dict
        One dictionary per filter.
    """
    groups: tuple[dict[str, Any], ...] = tuple({} for _ in filters)
    for name, value in entries.items():
        for filter, members in zip(filters, groups, strict=True):
            if in_filter(filter, name):
                members[name] = value
                break
    return groups
