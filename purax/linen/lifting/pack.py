# SPDX-License-Identifier: Apache-2.0
"""How a function of scopes goes through a transformation of arrays.

Variables and keys that scopes give access to are taken out as trees of arrays (`Packed.variables`, `Packed.rngs`), sorted by
filters into groups that the transformation treats differently. Inside, `enter` makes scopes over the transformed arrays;
`leave` takes the changed variables out again as results; outside, `publish` writes them back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from purax.linen.filters import Filter, group, hashable, in_filter, intersect, union
from purax.linen.frozen_dict import unfreeze
from purax.linen.scope import Scope, Store

__all__ = ["Packed"]

Groups = tuple[tuple[dict[str, Any], ...], ...]  # by filter, then by root scope


class Packed:
    """The arrays behind some scopes, in groups.

    Parameters
    ----------
    scopes : sequence of Scope
        Scopes that the function uses.
    inputs, outputs : sequence of filter
        Groups of collections that go in, and that may change and come out.
    streams : sequence of filter
        Groups of random streams.

    Attributes
    ----------
    variables, rngs : tuple of tuple of dict
        By filter and root scope. A root is a scope of the list that no other one contains.
    """

    def __init__(
        self, scopes: Sequence[Scope], inputs: Sequence[Filter], outputs: Sequence[Filter], streams: Sequence[Filter]
    ) -> None:
        self.places, self.roots = _roots(scopes)
        self.outputs = tuple(outputs)
        by_root = [group(root.variables(), inputs) for root in self.roots]
        self.variables: Groups = _by_filter(by_root, len(inputs))
        self.rngs: Groups = _by_filter([group(root.rngs, streams) for root in self.roots], len(streams))
        self.entered: list[Scope] = []

    @property
    def counters(self) -> dict[Any, int]:
        """The counters of the random streams, shared by all scopes of one call."""
        return self.roots[0].store.counters if self.roots else {}

    def count(self) -> dict[Any, int]:
        """Return the draws so far below each root, by number of the root, path below it, and stream."""
        return {
            (index, path[len(root.path) :], stream): count
            for index, root in enumerate(self.roots)
            for (path, stream), count in root.store.counters.items()
            if path[: len(root.path)] == root.path
        }

    def draw(self, counts: dict[Any, int]) -> None:
        """Add to the counters what `count` grew by elsewhere."""
        for (index, below, stream), count in counts.items():
            root = self.roots[index]
            place = ((*root.path, *below), stream)
            root.store.counters[place] = root.store.counters.get(place, 0) + count

    def fingerprint(self) -> Any:
        """Return what a program over these scopes depends on, arrays and paths aside; hashable."""
        scopes = tuple(
            (
                hashable(root.mutable),
                tuple(sorted(root.flags.items())),
                frozenset((name, frozenset(taken)) for name, taken in root.reservations.items()),
            )
            for root in self.roots
        )
        return scopes, tuple(self.places), frozenset(self.count().items())

    def enter(self, variables: Groups, rngs: Groups, mutable: Filter = True) -> list[Scope]:
        """Make scopes, one for each of the packed scopes, over variables and keys inside the transformation."""
        allowed: Filter = False
        for output in self.outputs:
            allowed = union(allowed, output)
        self.entered = []
        for index, root in enumerate(self.roots):
            held = {name: value for members in variables for name, value in members[index].items()}
            streams = {name: value for members in rngs for name, value in members[index].items()}
            writable = intersect(intersect(root.store.mutable, allowed), mutable)
            owned = {name: unfreeze(value) if in_filter(writable, name) else value for name, value in held.items()}
            store = Store(owned, writable, root.store.flags, root.path, root.store.counters)
            self.entered.append(Scope.at(store, root.path, streams))
        scopes = []
        for root_index, names in self.places:
            scope = self.entered[root_index]
            for name in names:
                scope = scope.push(name, reuse=True)
            scopes.append(scope)
        return scopes

    def leave(self) -> Groups:
        """Return the variables that may have changed since `enter`, by output filter and root; end the scopes."""
        by_root = []
        for scope in self.entered:
            scope.store.valid = False
            changed = {
                name: held for name, held in scope.store.variables.items() if in_filter(scope.store.mutable, name)
            }
            by_root.append(group(changed, self.outputs))
        self.entered = []  # traced values are not kept
        return _by_filter(by_root, len(self.outputs))

    def publish(self, variables: Groups) -> None:
        """Write variables that came out of the transformation into the packed scopes."""
        for members in variables:
            for root, collections in zip(self.roots, members, strict=True):
                for collection, held in collections.items():
                    if root.is_mutable_collection(collection):
                        for name, value in held.items():
                            root.put_variable(collection, name, value)


def _by_filter(by_root: list[tuple[dict[str, Any], ...]], count: int) -> Groups:
    return tuple(tuple(groups[index] for groups in by_root) for index in range(count))


def _roots(scopes: Sequence[Scope]) -> tuple[list[tuple[int, tuple[str, ...]]], list[Scope]]:
    """Return the place of each scope, as the index of its root and the names below it, and the roots."""

    def contains(outer: Scope, inner: Scope) -> bool:
        return outer.store is inner.store and inner.path[: len(outer.path)] == outer.path

    roots: list[Scope] = []
    for scope in scopes:
        if scope not in roots and not any(contains(other, scope) and other != scope for other in scopes):
            roots.append(scope)
    places = []
    for scope in scopes:
        index = next(index for index, root in enumerate(roots) if contains(root, scope))
        places.append((index, scope.path[len(roots[index].path) :]))
    return places, roots
