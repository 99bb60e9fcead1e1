# SPDX-License-Identifier: Apache-2.0
"""Where arrays live: meshes of devices, partition specs and shardings, all plain data."""

from __future__ import annotations

from typing import Any

from purax.lazy import lazy
from purax.sharding.mesh import (
    AbstractDevice,
    AbstractMesh,
    AxisType,
    Mesh,
    current_mesh,
    get_abstract_mesh,
    get_mesh,
    mesh_like,
    running_mesh,
    set_mesh,
    use_abstract_mesh,
    use_mesh,
)
from purax.sharding.named import NamedSharding, Sharding, SingleDeviceSharding, make_single_device_sharding
from purax.sharding.placement import Placement, placement_of
from purax.sharding.spec import ManualAxisType, P, PartitionSpec
from purax.sharding.spread import Spread, spread_of, uncut

__all__ = [
    "AbstractDevice",
    "AbstractMesh",
    "AxisType",
    "ManualAxisType",
    "Mesh",
    "NamedSharding",
    "P",
    "PartitionSpec",
    "Placement",
    "Sharding",
    "SingleDeviceSharding",
    "Spread",
    "current_mesh",
    "get_abstract_mesh",
    "get_mesh",
    "make_single_device_sharding",
    "mesh_like",
    "placement_of",
    "running_mesh",
    "set_mesh",
    "spread_of",
    "uncut",
    "use_abstract_mesh",
    "use_mesh",
]


_explicit = lazy("purax.control.explicit")  # imports this module
_FUNCTIONS = ("auto_axes", "explicit_axes", "reshard")


def __getattr__(name: str) -> Any:
    if name in _FUNCTIONS:
        return getattr(_explicit, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
