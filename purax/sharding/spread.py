# SPDX-License-Identifier: Apache-2.0
"""Sharding in types: how the explicit axes of a mesh cut a value, as a part of its aval.

A value that no explicit axis has to do with has no spread (None). The others have one that names every array axis, so that the
rules of primitives (`sharding/rules.py`) are functions of tuples.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from typing import Any

from purax import errors
from purax.core.hooks import hooks
from purax.sharding.mesh import AbstractMesh, axis_text, get_abstract_mesh
from purax.sharding.named import NamedSharding
from purax.sharding.spec import PartitionSpec, names_of

__all__ = ["Spread", "spread_of", "uncut"]

Part = tuple[str, ...]
_NONE: frozenset[str] = frozenset()


class Spread:
    """How a value lies on the explicit axes of a mesh. Made by `make` only; equal ones are one object.

    Attributes
    ----------
    mesh : AbstractMesh
    parts : tuple of tuple of str
        The mesh axes that cut each array axis; the first is the major one.
    unreduced : frozenset of str
        Axes along which devices hold terms of a sum that is yet to be taken.
    reduced : frozenset of str
        Axes along which the value is whole, and its cotangent is left unreduced.
    """

    __slots__ = ("mesh", "parts", "reduced", "unreduced")
    mesh: AbstractMesh
    parts: tuple[Part, ...]
    unreduced: frozenset[str]
    reduced: frozenset[str]

    @staticmethod
    def make(
        mesh: AbstractMesh, parts: Iterable[Part], unreduced: frozenset[str] = _NONE, reduced: frozenset[str] = _NONE
    ) -> Spread:
        """The spread with these fields.

        Raises
        ------
        ShardingTypeError
            A mesh axis is used twice.
        """
        return _made(mesh, tuple(parts), unreduced, reduced)

    def replace(self, parts: Iterable[Part] | None = None, unreduced: Any = None, reduced: Any = None) -> Spread:
        """A copy with other fields."""
        return _made(
            self.mesh,
            self.parts if parts is None else tuple(parts),
            self.unreduced if unreduced is None else unreduced,
            self.reduced if reduced is None else reduced,
        )

    def without(self, axis: int) -> Spread:
        """That of a value without one of the array axes."""
        return self.replace((*self.parts[:axis], *self.parts[axis + 1 :]))

    def with_axis(self, axis: int, names: Any = None) -> Spread:
        """That of a value with one more array axis, cut along these mesh axes."""
        return self.replace((*self.parts[:axis], names_of(names), *self.parts[axis:]))

    def dual(self) -> Spread:
        """That of cotangents: what is reduced has unreduced ones, and the other way round."""
        if not (self.unreduced or self.reduced):
            return self
        return self.replace(unreduced=self.reduced, reduced=self.unreduced)

    def uncut(self) -> bool:
        """Whether each device has the whole value."""
        return not (any(self.parts) or self.unreduced)

    def names(self) -> frozenset[str]:
        """The mesh axes that cut some array axis."""
        return frozenset([name for part in self.parts for name in part])

    def counts(self) -> list[int]:
        """How many pieces each array axis is cut into."""
        sizes = self.mesh.shape
        return [math.prod([sizes[name] for name in part]) for part in self.parts]

    def piece(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of what one device has of a value of this shape."""
        return tuple([size // count for size, count in zip(shape, self.counts(), strict=True)])

    def check(self, shape: Sequence[int]) -> None:
        """Check that the axes of a value of this shape can be cut so.

        Raises
        ------
        ShardingTypeError
            An axis has a size that the number of its pieces does not divide.
        """
        for axis, (size, part, pieces) in enumerate(zip(shape, self.parts, self.counts(), strict=True)):
            if pieces > 1 and size % pieces:
                raise errors.ShardingTypeError(
                    f"axis {axis} of the result has size {size}, which {pieces} pieces (mesh axes {', '.join(part)}) do not divide"
                )

    @property
    def spec(self) -> PartitionSpec:
        """The partition spec."""
        return PartitionSpec(*self.parts, unreduced=self.unreduced, reduced=self.reduced)

    @property
    def sharding(self) -> NamedSharding:
        """The same over the mesh without devices."""
        return NamedSharding(self.mesh, self.spec)

    def sdy_text(self, ndim: int, mesh_name: str) -> str:
        """The Shardy attribute for a value with `ndim` axes on the device; open where axes of the mesh are the partitioner's."""
        more = ("?",) if len(self.mesh.explicit_axes) < len(self.mesh.axis_names) else ()
        parts = [*self.parts, *[()] * (ndim - len(self.parts))]
        axes = ["{" + ", ".join([*map(axis_text, part), *more]) + "}" for part in parts]
        used = self.unreduced | self.names()
        whole = [axis_text(name) for name in self.mesh.explicit_axes if name not in used] if more else []
        sums = ", ".join(map(axis_text, sorted(self.unreduced)))
        tail = f", replicated={{{', '.join(whole)}}}" * bool(whole) + f", unreduced={{{sums}}}" * bool(sums)
        return f"<@{mesh_name}, [{', '.join(axes)}]{tail}>"

    def on(self, mesh: AbstractMesh) -> Spread | None:
        """The same on a mesh with the same axes of other types: axes that are not explicit there are left out."""
        explicit = frozenset(mesh.explicit_axes)
        if not explicit:
            return None
        parts = [tuple([name for name in part if name in explicit]) for part in self.parts]
        return _made(mesh, tuple(parts), self.unreduced & explicit, self.reduced & explicit)

    def suffix(self, axis: int) -> str:
        """What follows the size of an axis in the text of a type: `@x`, `@(x,y)` or nothing."""
        part = self.parts[axis]
        return "" if not part else f"@{part[0]}" if len(part) == 1 else f"@({','.join(part)})"

    def tail(self) -> str:
        """What follows the shape in the text of a type: `{U:x}`, `{R:(x,y)}`, or nothing."""
        sums = []
        for kind, names in (("U", self.unreduced), ("R", self.reduced)):
            if names:
                told = ",".join(sorted(names))
                sums.append(f"{kind}:{told if len(names) == 1 else f'({told})'}")
        return f"{{{', '.join(sums)}}}" if sums else ""

    def __repr__(self) -> str:
        return f"Spread({self.spec})"

    def __reduce__(self) -> Any:
        return _made, (self.mesh, self.parts, self.unreduced, self.reduced)


@functools.cache
def _made(mesh: AbstractMesh, parts: tuple[Part, ...], unreduced: frozenset[str], reduced: frozenset[str]) -> Spread:
    used = [name for part in parts for name in part]
    used += [*unreduced, *reduced]
    for name in used:
        if used.count(name) > 1:
            spec = "P(" + ", ".join(repr(part[0] if len(part) == 1 else part or None) for part in parts) + ")"
            raise errors.ShardingTypeError(
                f"the result would be spread by {spec}, which uses the mesh axis {name!r} twice; `reshard` an operand, or give out_sharding="
            )
    self = object.__new__(Spread)
    self.mesh, self.parts, self.unreduced, self.reduced = mesh, parts, unreduced, reduced
    return self


def uncut(mesh: AbstractMesh, ndim: int) -> Spread:
    """The spread of values with `ndim` axes that are whole on each device of `mesh`."""
    return _made(mesh, ((),) * ndim, _NONE, _NONE)


@functools.lru_cache(maxsize=4096)
def spread_of(sharding: Any, ndim: int) -> Spread | None:
    """What a sharding says of the explicit axes of its mesh.

    Parameters
    ----------
    sharding : Sharding
    ndim : int
        Number of axes of the value.

    Returns
    -------
    Spread or None
        None where the mesh has no explicit axes.
    """
    if type(sharding) is not NamedSharding:
        return None
    mesh, spec = sharding.mesh, sharding.spec
    explicit = set(mesh.explicit_axes)
    if not explicit:
        return None
    parts = [tuple([name for name in names_of(part) if name in explicit]) for part in spec.partitions]
    parts += [()] * (ndim - len(parts))
    return _made(mesh.abstract_mesh, tuple(parts), spec.unreduced, spec.reduced)


def _sharding_of(aval: Any) -> NamedSharding:
    """What `aval.sharding` is: the spread, or whole on the current mesh."""
    spread = aval.spread
    if spread is not None:
        return spread.sharding
    return NamedSharding(get_abstract_mesh(), PartitionSpec(*[None] * aval.ndim))


hooks.sharding_of, hooks.spread_of = _sharding_of, spread_of
