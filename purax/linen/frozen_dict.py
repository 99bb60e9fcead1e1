# SPDX-License-Identifier: Apache-2.0
"""FrozenDict: a dictionary that cannot be changed, and functions that treat it and `dict` alike."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from purax.linen._support import register_mapping

__all__ = ["FrozenDict", "copy", "freeze", "pop", "pretty_repr", "unfreeze"]

K = TypeVar("K")
V = TypeVar("V")


def _plain(value: Any) -> Any:
    """Copy nested mappings into nested dictionaries."""
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    return value


class FrozenDict(Mapping[K, V]):
    """An immutable, hashable mapping; nested dictionaries are frozen with it.

    Parameters are those of `dict`. It is a pytree whose keys are sorted.
    """

    __slots__ = ("_dict", "_hash")

    def __init__(self, *args: Any, __unsafe_skip_copy__: bool = False, **kwargs: Any) -> None:
        entries = dict(*args, **kwargs)
        self._dict: dict[Any, Any] = entries if __unsafe_skip_copy__ else _plain(entries)
        self._hash: int | None = None

    def __getitem__(self, key: Any) -> Any:
        value = self._dict[key]
        return FrozenDict(value, __unsafe_skip_copy__=True) if isinstance(value, dict) else value

    def __iter__(self) -> Iterator[Any]:
        return iter(self._dict)

    def __len__(self) -> int:
        return len(self._dict)

    def __contains__(self, key: object) -> bool:
        return key in self._dict

    def __repr__(self) -> str:
        return self.pretty_repr()

    def __reduce__(self) -> Any:
        return FrozenDict, (self.unfreeze(),)

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(frozenset(self.items()))
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mapping) and self._dict == _plain(other)

    def copy(self, add_or_replace: Mapping[Any, Any] | None = None) -> FrozenDict[Any, Any]:
        """Return a copy with the entries of `add_or_replace`."""
        return FrozenDict({**self._dict, **_plain(add_or_replace or {})})

    def pop(self, key: Any) -> tuple[FrozenDict[Any, Any], Any]:
        """Return a copy without `key`, and the value of `key`."""
        rest = dict(self._dict)
        value = rest.pop(key)
        return FrozenDict(rest), value

    def unfreeze(self) -> dict[Any, Any]:
        """Return nested dictionaries with the same leaves."""
        return _plain(self._dict)

    def pretty_repr(self, num_spaces: int = 4) -> str:
        """Text with one entry a line, `num_spaces` deeper at each level."""
        return f"FrozenDict({_braces(self._dict, num_spaces)})"


def _braces(value: Any, num_spaces: int, depth: int = 1) -> str:
    if not isinstance(value, Mapping):
        return repr(value)
    if not value:
        return "{}"
    pad = " " * num_spaces * depth
    lines = [f"{pad}{key!r}: {_braces(inner, num_spaces, depth + 1)},\n" for key, inner in value.items()]
    return "{\n" + "".join(lines) + " " * num_spaces * (depth - 1) + "}"


def freeze(xs: Mapping[Any, Any]) -> FrozenDict[Any, Any]:
    """Return the FrozenDict of a nested dictionary.

    Returns
    -------
    FrozenDict
    """
    return FrozenDict(xs)


def unfreeze(x: Any) -> dict[Any, Any]:
    """Return nested dictionaries with the leaves of a FrozenDict or a dictionary that holds some.

    Returns
    -------
    dict
    """
    return _plain(x)


def copy(x: Any, add_or_replace: Any = None) -> Any:
    """Return a copy of a dict or FrozenDict with the entries of `add_or_replace`; of the same kind.

    Raises
    ------
    TypeError
        `x` is neither.
    """
    if isinstance(x, FrozenDict):
        return x.copy(add_or_replace)
    if isinstance(x, dict):
        return {**_plain(x), **_plain(add_or_replace or {})}
    raise TypeError(f"copy got {type(x).__name__}; it takes a dict or a FrozenDict.")


def pop(x: Any, key: Any) -> tuple[Any, Any]:
    """Return a copy of a dictionary of either kind without `key`, of the same kind, and the value of `key`: a tuple of both.

    Raises
    ------
    TypeError
        `x` is neither.
    """
    if isinstance(x, FrozenDict):
        return x.pop(key)
    if isinstance(x, dict):
        rest = dict(x)
        return rest, rest.pop(key)
    raise TypeError(f"pop got {type(x).__name__}; it takes a dict or a FrozenDict.")


def pretty_repr(x: Any, num_spaces: int = 4) -> str:
    """Text of a dictionary of either kind, one entry a line, indented by `num_spaces` for each level."""
    if isinstance(x, FrozenDict):
        return x.pretty_repr(num_spaces)
    return _braces(x, num_spaces)


register_mapping(
    FrozenDict, lambda frozen: frozen._dict, lambda entries: FrozenDict(entries, __unsafe_skip_copy__=True)
)
