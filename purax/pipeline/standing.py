# SPDX-License-Identifier: Apache-2.0
"""What meshes without devices stand for: the devices of the mesh that a program runs on, or nobody in particular."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from purax import errors
from purax.sharding import AbstractMesh, Mesh

__all__ = ["StandIn", "settle"]


class StandIn(NamedTuple):
    """Stands for a device of a program that is written and not run."""

    id: int
    platform: str
    client: Any = None


def settle(
    abstract: Sequence[AbstractMesh], chosen: Any, meshes: Sequence[Mesh], devices: tuple[Any, ...] | str | None
) -> Callable[[AbstractMesh], Mesh]:
    """What meshes without devices stand for in a program.

    Parameters
    ----------
    abstract : sequence of AbstractMesh
        All of them.
    chosen : Placement or None
        Where the program runs.
    meshes : sequence of Mesh
        The other meshes.
    devices : tuple of Device, or str, or None
        What they are to stand for where nothing else tells; the name of a platform if the program is not run.

    Returns
    -------
    callable
        Gives the mesh with devices for one of them.

    Raises
    ------
    ValueError
        They are of different sizes, or of another size than the number of devices, or no devices are known.
    """
    first = abstract[0]
    for mesh in abstract:
        if mesh.size != first.size:
            raise ValueError(f"AbstractMesh should be of the same size across all shardings. Got {first} and {mesh}")
    if meshes:
        devices = tuple(meshes[0].devices.flat)
    elif chosen is not None and chosen.committed:
        devices = chosen.devices
    elif devices is None and first.abstract_device is not None:
        devices = first.abstract_device.platform
    if devices is None:
        raise ValueError(
            errors.explain(
                "Passing lowering_platforms via export or jit(f).trace(*args).lower(lowering_platforms=...) is required when only "
                f"AbstractMesh exists in a jitted computation. Got {first}",
                "It has no devices, and no argument lies on some",
                "call the function within `with purax.set_mesh(mesh):`, or with an argument that lies on a mesh",
            )
        )
    if isinstance(devices, str):
        devices = tuple([StandIn(i, devices) for i in range(first.size)])
    if len(devices) != first.size:
        raise ValueError(
            f"AbstractMesh size: {first.size} does not match the device assignment size: {len(devices)} ({first}, devices {list(devices)})"
        )
    flat = np.empty(len(devices), object)
    flat[:] = devices
    known = {mesh.abstract_mesh._key()[:3]: mesh for mesh in reversed(meshes) if tuple(mesh.devices.flat) == devices}

    def settled(mesh: AbstractMesh) -> Mesh:
        return known.get(mesh._key()[:3]) or mesh.over(flat)

    return settled
