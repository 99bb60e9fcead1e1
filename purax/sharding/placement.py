# SPDX-License-Identifier: Apache-2.0
"""Placements: a sharding, and whether the user asked for it, as one interned object.

Equality of placements is identity, so the key of a compiled function holds them as they are. An array without a placement
(None) lies on the default device and follows the other operands of an operation.
"""

from __future__ import annotations

from typing import Any

from purax.sharding.named import NamedSharding, Sharding
from purax.sharding.spread import spread_of

__all__ = ["Placement", "placement_of"]


class Placement:
    """A sharding in use. Made by `placement_of` only.

    Attributes
    ----------
    sharding : Sharding
    committed : bool
        True when the user asked for it: operations then run there, and mixing two of them is an error.
    devices : tuple of Device
        In the order in which the compiler numbers them.
    compiled_forms : dict
        The runtime's own objects for it; by number of array axes, among others.
    explicit : bool
        Its mesh has explicit axes, which the types of arrays tell of.
    """

    __slots__ = ("__weakref__", "committed", "compiled_forms", "devices", "explicit", "sharding")
    sharding: Sharding
    committed: bool
    devices: tuple[Any, ...]
    compiled_forms: dict[Any, Any]
    explicit: bool

    def typed(self, aval: Any) -> Any:
        """The type of an array of type `aval` that lies here."""
        return aval.with_spread(spread_of(self.sharding, aval.ndim) if self.explicit else None)

    def __repr__(self) -> str:
        return f"Placement({self.sharding}, committed={self.committed})"


_PLACEMENTS: dict[tuple[Sharding, bool], Placement] = {}


def placement_of(sharding: Sharding, committed: bool = True) -> Placement:
    """The interned placement of a sharding; `committed` where the user asked for it."""
    key = (sharding, committed)
    placement = _PLACEMENTS.get(key)
    if placement is None:
        placement = Placement()
        placement.sharding, placement.committed = sharding, committed
        placement.devices, placement.compiled_forms = sharding.device_assignment, {}
        placement.explicit = type(sharding) is NamedSharding and bool(sharding.mesh.explicit_axes)
        placement = _PLACEMENTS.setdefault(key, placement)
    return placement
