# SPDX-License-Identifier: Apache-2.0
"""Devices to compile for, attached to this machine or not, and meshes of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from purax import errors
from purax.runtime import client
from purax.sharding import Mesh

__all__ = ["TopologyDescription", "get_attached_topology", "get_topology_desc", "make_mesh"]


class TopologyDescription:
    """Devices that programs can be compiled for.

    Attributes
    ----------
    devices : list of Device
    """

    def __init__(self, devices: list[Any]) -> None:
        self.devices = devices

    def __repr__(self) -> str:
        return f"TopologyDescription({self.devices})"


def get_attached_topology(platform: str | None = None) -> TopologyDescription:
    """The devices of this process, of a platform or of the default one."""
    return TopologyDescription(client.devices(platform))


def get_topology_desc(topology_name: str = "", platform: str | None = None, **kwargs: Any) -> TopologyDescription:
    """Devices that need not be attached, as the plugin of a platform describes them.

    Parameters
    ----------
    topology_name : str
        In the words of the plugin; `1x1x1` is one GPU.
    platform : str, optional
        `cuda`, `rocm` or `tpu`; the last one when left out.
    **kwargs
        Options of the plugin, such as `target_config`.

    Returns
    -------
    TopologyDescription

    Raises
    ------
    NotImplementedError
        The platform describes no devices that are not attached; the CPU is one of these.
    PlatformError
        The plugin of the platform is not installed.
    """
    return TopologyDescription(client.described_devices(platform or "tpu", topology_name, kwargs))


def make_mesh(
    topo: TopologyDescription, mesh_shape: Sequence[int], axis_names: Sequence[str], *, contiguous_submeshes: bool = False
) -> Mesh:  # fmt: skip
    """A mesh of all devices of a topology, in their order.

    Parameters
    ----------
    topo : TopologyDescription
    mesh_shape : sequence of int
    axis_names : sequence of str
    contiguous_submeshes : bool
        Without effect.

    Returns
    -------
    Mesh

    Raises
    ------
    ValueError
        The mesh has another number of places than there are devices.
    """
    if math.prod(mesh_shape) != len(topo.devices):
        raise ValueError(
            errors.explain(
                f"Number of devices {len(topo.devices)} must equal the product of mesh_shape {tuple(mesh_shape)}.",
                fix="choose a shape with as many places as there are devices.",
            )
        )
    return client.make_mesh(mesh_shape, axis_names, devices=topo.devices)
