# SPDX-License-Identifier: Apache-2.0
"""Where arrays live: meshes of devices, partition specs and shardings, all plain data."""

from purax.sharding.mesh import (
    AbstractDevice,
    AbstractMesh,
    AxisType,
    Mesh,
    current_mesh,
    get_abstract_mesh,
    get_mesh,
    running_mesh,
    set_mesh,
    use_abstract_mesh,
    use_mesh,
)
from purax.sharding.named import NamedSharding, Sharding, SingleDeviceSharding, make_single_device_sharding
from purax.sharding.placement import Placement, placement_of
from purax.sharding.spec import ManualAxisType, P, PartitionSpec

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
    "current_mesh",
    "get_abstract_mesh",
    "get_mesh",
    "make_single_device_sharding",
    "placement_of",
    "running_mesh",
    "set_mesh",
    "use_abstract_mesh",
    "use_mesh",
]
