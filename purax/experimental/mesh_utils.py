# SPDX-License-Identifier: Apache-2.0
"""Devices in grids whose neighbours are near each other, for meshes."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from purax import errors
from purax.runtime import client

__all__ = ["create_device_mesh", "create_hybrid_device_mesh"]


def create_device_mesh(
    mesh_shape: Sequence[int], devices: Sequence[Any] | None = None, *, contiguous_submeshes: bool = False,
    allow_split_physical_axes: bool = False,
) -> np.ndarray:  # fmt: skip
    """Devices in a grid, along whose last axis neighbours are nearest.

    Devices that tell their coordinates (TPUs) are put in the order of these, others in that of their numbers; how wires lie
    between them is not looked at.

    Parameters
    ----------
    mesh_shape : sequence of int
        The axis with the most communication last.
    devices : sequence of Device, optional
        All devices by default.
    contiguous_submeshes : bool
        The devices of each process are to form a block of the grid.
    allow_split_physical_axes : bool
        Without effect.

    Returns
    -------
    numpy.ndarray
        Of devices, with the shape `mesh_shape`: what `Mesh` takes.

    Raises
    ------
    ValueError
        The shape has another number of places than there are devices, is no sequence of ints, or cuts a process apart.
    """
    del allow_split_physical_axes
    devices = list(client.devices() if devices is None else devices)
    shape = _sizes(mesh_shape)
    if math.prod(shape) != len(devices):
        raise ValueError(
            errors.explain(
                f"create_device_mesh: Number of devices {len(devices)} must equal the product of mesh_shape {shape}, which is {math.prod(shape)}.",
                fix=f"pass as many devices: devices=purax.devices()[:{math.prod(shape)}].",
            )
        )
    if devices[0].platform != "cpu":
        devices.sort(key=_place)
    grid = np.empty(len(devices), object)
    grid[:] = devices
    grid = grid.reshape(shape)
    if contiguous_submeshes:
        _check_blocks(grid)
    return grid


def create_hybrid_device_mesh(
    mesh_shape: Sequence[int], dcn_mesh_shape: Sequence[int], devices: Sequence[Any] | None = None, *,
    process_is_granule: bool = False, should_sort_granules_by_key: bool = True, allow_split_physical_axes: bool = False,
) -> np.ndarray:  # fmt: skip
    """Devices in a grid of groups (slices, or processes), between which the network is slower than within.

    Parameters
    ----------
    mesh_shape : sequence of int
        Of the devices of one group.
    dcn_mesh_shape : sequence of int
        Of the groups; of the same length.
    devices : sequence of Device, optional
        All devices by default.
    process_is_granule : bool
        The groups are processes; else devices with the same `slice_index`.
    should_sort_granules_by_key : bool
        Groups are in the order of their numbers; else in that in which `devices` has them.
    allow_split_physical_axes : bool
        Without effect.

    Returns
    -------
    numpy.ndarray
        Of devices; the size of each axis is the product of its sizes in both shapes.

    Raises
    ------
    ValueError
        Devices have no `slice_index`, or there is another number of groups, or of devices in one of them.
    """
    devices = list(client.devices() if devices is None else devices)
    inner, outer = _sizes(mesh_shape), _sizes(dcn_mesh_shape)
    attribute = "process_index" if process_is_granule else "slice_index"
    if len(inner) != len(outer):
        raise ValueError(
            f"create_hybrid_device_mesh: mesh_shape {inner} and dcn_mesh_shape {outer} must have one size each for every axis."
        )
    if not hasattr(devices[0], attribute):
        raise ValueError(
            f"Device {devices[0]} does not have attribute {attribute}. See the option `process_is_granule`: with it, processes are the groups."
        )
    groups: dict[int, list[Any]] = {}
    for device in devices:
        groups.setdefault(getattr(device, attribute), []).append(device)
    if math.prod(outer) != len(groups):
        raise ValueError(f"Number of slices {len(groups)} must equal the product of dcn_mesh_shape {outer}.")
    order = sorted(groups) if should_sort_granules_by_key else list(groups)
    blocks = [create_device_mesh(inner, groups[number]) for number in order]
    rank = len(inner)
    grid = np.stack(blocks).reshape(*outer, *inner)
    pairs = [axis for i in range(rank) for axis in (i, rank + i)]
    return grid.transpose(pairs).reshape([a * b for a, b in zip(outer, inner, strict=True)])


def _sizes(shape: Any) -> tuple[int, ...]:
    try:
        return tuple(map(operator.index, shape))
    except TypeError:
        raise ValueError(f"The shape of a mesh is a sequence of ints, got {shape!r}.") from None


def _place(device: Any) -> tuple[Any, ...]:
    place = tuple(getattr(device, "coords", ()))
    return (*place[::-1], getattr(device, "core_on_chip", 0), device.id)


def _check_blocks(grid: np.ndarray) -> None:
    """Raise ValueError where the devices of a process form no block."""
    numbers = np.vectorize(lambda device: device.process_index, otypes=[int])(grid)
    for number in np.unique(numbers):
        found = np.argwhere(numbers == number)
        if len(found) != math.prod(found.max(0) - found.min(0) + 1):
            raise ValueError(
                f"create_device_mesh: the devices of process {number} form no block in a grid of shape {grid.shape}; leave contiguous_submeshes out."
            )
