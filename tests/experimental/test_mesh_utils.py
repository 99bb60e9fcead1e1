# SPDX-License-Identifier: Apache-2.0
"""Grids of devices, on stand-ins for devices."""

from dataclasses import dataclass

import numpy as np
import pytest

from purax.experimental.mesh_utils import create_device_mesh, create_hybrid_device_mesh


@dataclass(frozen=True)
class Device:
    """A stand-in for a device."""

    id: int
    process_index: int = 0
    platform: str = "cpu"
    coords: tuple = ()


@dataclass(frozen=True)
class Slice(Device):
    """One of a slice."""

    slice_index: int = 0


def ids(grid):
    return np.vectorize(lambda device: device.id)(grid).tolist()


def test_devices_in_a_grid():
    devices = [Device(i, process_index=i // 2) for i in range(4)]
    assert ids(create_device_mesh((2, 2), devices)) == [[0, 1], [2, 3]]
    assert ids(create_device_mesh((2, 2), devices, contiguous_submeshes=True)) == [[0, 1], [2, 3]]
    chips = [Device(i, platform="tpu", coords=(i // 2, i % 2, 0)) for i in range(4)]
    assert ids(create_device_mesh([4], chips)) == [0, 2, 1, 3]
    with pytest.raises(ValueError, match="Number of devices 4 must equal the product"):
        create_device_mesh((2, 4), devices)
    with pytest.raises(ValueError, match="sequence of ints"):
        create_device_mesh((2.5,), devices)
    apart = [Device(i, process_index=i in (0, 3)) for i in range(4)]
    with pytest.raises(ValueError, match="form no block"):
        create_device_mesh((2, 2), apart, contiguous_submeshes=True)


def test_groups_of_devices_are_the_outer_parts_of_a_grid():
    devices = [Slice(i, slice_index=1 - i // 4, process_index=i // 4) for i in range(8)]
    assert ids(create_hybrid_device_mesh((2, 2), (2, 1), devices)) == [[4, 5], [6, 7], [0, 1], [2, 3]]
    assert ids(create_hybrid_device_mesh((2, 2), (1, 2), devices, process_is_granule=True)) == [
        [0, 1, 4, 5],
        [2, 3, 6, 7],
    ]
    assert ids(create_hybrid_device_mesh((4,), (2,), devices, should_sort_granules_by_key=False))[:1] == [0]
    with pytest.raises(ValueError, match="Number of slices 2 must equal"):
        create_hybrid_device_mesh((2, 1), (4, 1), devices)
    with pytest.raises(ValueError, match="does not have attribute slice_index"):
        create_hybrid_device_mesh((1,), (1,), [Device(0)])
    with pytest.raises(ValueError, match="one size each"):
        create_hybrid_device_mesh((1, 1), (1,), devices)
