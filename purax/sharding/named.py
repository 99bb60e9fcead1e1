# SPDX-License-Identifier: Apache-2.0
"""Shardings: how the pieces of an array are spread over devices, and the two texts the compiler reads."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from purax.lazy import lazy
from purax.sharding.mesh import AbstractMesh, Mesh, axis_text, is_local, named
from purax.sharding.spec import UNCONSTRAINED, PartitionSpec, names_of

_client = lazy("purax.runtime.client")  # which knows the devices, and imports this module

__all__ = ["NamedSharding", "Sharding", "SingleDeviceSharding", "make_single_device_sharding"]

Index = tuple[slice, ...]


class Sharding:
    """How an array is spread over devices. Subclasses fill `device_assignment` and `dimension_cuts`."""

    __slots__ = ()

    @property
    def device_assignment(self) -> tuple[Any, ...]:
        """The devices, in the order that the compiler numbers them."""
        raise NotImplementedError(f"{type(self).__name__} does not say which devices it uses.")

    def dimension_cuts(self, ndim: int) -> tuple[int, ...]:
        """Into how many pieces each array axis is cut."""
        return (1,) * ndim

    def device_indices(self, ndim: int) -> list[tuple[int, ...]]:
        """For each device, which piece along each array axis it holds."""
        return [(0,) * ndim] * self.num_devices

    @property
    def memory_kind(self) -> str | None:
        """The memory of the devices that is used: always `device`. Of a mesh without devices, the one that was asked for."""
        return "device"

    @property
    def num_devices(self) -> int:
        """Number of devices."""
        return len(self.device_assignment)

    @property
    def device_set(self) -> set[Any]:
        """The devices as a set."""
        return set(self.device_assignment)

    @property
    def addressable_devices(self) -> set[Any]:
        """The devices of this process."""
        return {device for device in self.device_assignment if is_local(device)}

    @property
    def is_fully_addressable(self) -> bool:
        """Whether every device belongs to this process."""
        return all(map(is_local, self.device_assignment))

    @property
    def is_fully_replicated(self) -> bool:
        """Whether every device holds the whole array."""
        return True

    @property
    def unreduced(self) -> frozenset[Any]:
        """Mesh axes along which devices hold terms of a sum that is yet to be taken."""
        return frozenset()

    def terms(self) -> list[tuple[bool, bool]]:
        """For each device, whether it is the first along the unreduced axes, and whether its piece is no copy of another term."""
        return [(True, True)] * self.num_devices

    def shard_shape(self, global_shape: tuple[int, ...]) -> tuple[int, ...]:
        """Shape of the piece that one device holds.

        Raises
        ------
        ValueError
            An axis is not divisible by the number of its pieces.
        """
        cuts = self.dimension_cuts(len(global_shape))
        for axis, (size, parts) in enumerate(zip(global_shape, cuts, strict=True)):
            if size % parts:
                raise ValueError(
                    f"{self} cuts axis {axis} of an array of shape {tuple(global_shape)} into {parts} pieces, "
                    f"but its size {size} is not divisible by {parts}."
                )
        return tuple(size // parts for size, parts in zip(global_shape, cuts, strict=True))

    def devices_indices_map(self, global_shape: tuple[int, ...]) -> dict[Any, Index]:
        """For each device, the slices of the array that it holds."""
        return dict(zip(self.device_assignment, shard_slices(self, tuple(global_shape)), strict=True))

    def addressable_devices_indices_map(self, global_shape: tuple[int, ...]) -> dict[Any, Index]:
        """The same for the devices of this process."""
        return {device: index for device, index in self.devices_indices_map(global_shape).items() if is_local(device)}

    def is_equivalent_to(self, other: Sharding, ndim: int) -> bool:
        """Whether both give each device the same piece of an array with `ndim` axes."""
        return (
            self.device_assignment == other.device_assignment
            and self.dimension_cuts(ndim) == other.dimension_cuts(ndim)
            and self.device_indices(ndim) == other.device_indices(ndim)
            and self.unreduced == other.unreduced
        )

    @property
    def has_addressable_devices(self) -> bool:
        """Whether some device belongs to this process."""
        return any(map(is_local, self.device_assignment))

    def with_memory_kind(self, kind: str) -> Sharding:
        """The sharding with its arrays in another memory of the devices; there is one, `device`."""
        if kind != self.memory_kind:
            raise NotImplementedError(
                f"Arrays lie in the memory {self.memory_kind!r} of devices; {kind!r} is not used."
            )
        return self

    def check_compatible_aval(self, shape: tuple[int, ...]) -> None:
        """Raise ValueError when an array of this shape cannot be spread in this way."""
        self.shard_shape(shape)

    def hlo_sharding_text(self, ndim: int) -> str:
        """The sharding in XLA's notation."""
        return "{replicated}"


class SingleDeviceSharding(Sharding):
    """The whole array on one device.

    Parameters
    ----------
    device : Device
    """

    __slots__ = ("device",)

    def __init__(self, device: Any, *, memory_kind: str | None = None) -> None:
        _check_memory_kind(memory_kind)
        self.device = device

    @property
    def device_assignment(self) -> tuple[Any, ...]:
        """The one device."""
        return (self.device,)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SingleDeviceSharding) and self.device == other.device

    def __hash__(self) -> int:
        return hash((SingleDeviceSharding, self.device))

    def __repr__(self) -> str:
        return f"SingleDeviceSharding(device={self.device!r}, memory_kind=device)"

    def __reduce__(self) -> Any:
        return _restored, named(self.device)


def make_single_device_sharding(device: Any, *, memory_kind: str | None = None) -> SingleDeviceSharding:
    """The sharding that puts whole arrays onto one device, into its memory of the kind `memory_kind`."""
    return SingleDeviceSharding(device, memory_kind=memory_kind)


_MEMORY_KINDS = ("device", "pinned_host", "unpinned_host")


def _check_memory_kind(kind: str | None) -> None:
    if kind is not None and kind not in _MEMORY_KINDS:
        raise ValueError(
            f"Got invalid memory kind: {kind!r}. Devices have the memory kinds {', '.join(_MEMORY_KINDS)}."
        )


def _restored(platform: str, number: int) -> SingleDeviceSharding:
    return SingleDeviceSharding(_client.device_named(platform, number))


class NamedSharding(Sharding):
    """An array cut along mesh axes by a partition spec.

    Parameters
    ----------
    mesh : Mesh or AbstractMesh
    spec : PartitionSpec
    memory_kind : "device", "pinned_host" or "unpinned_host", optional
        Said of meshes without devices only: arrays lie in the memory `device`.

    Raises
    ------
    ValueError
        The spec names an axis that the mesh lacks, or one axis twice, or leaves to the partitioner what types say.
    """

    __slots__ = ("__weakref__", "_hash", "_kind", "mesh", "spec")
    mesh: Any  # Mesh or AbstractMesh
    spec: PartitionSpec
    _kind: str | None

    def __init__(self, mesh: Mesh | AbstractMesh, spec: PartitionSpec, *, memory_kind: str | None = None) -> None:
        _check_memory_kind(memory_kind)
        if not isinstance(spec, PartitionSpec):
            raise TypeError(f"NamedSharding needs a PartitionSpec, not {type(spec).__name__}: write P{spec!r}.")
        used = spec.axis_names()
        for name in used:
            if name not in mesh.axis_names:
                raise ValueError(f"{spec} names the axis {name!r}, but the mesh has the axes {mesh.axis_names}.")
            if used.count(name) > 1:
                raise ValueError(f"{spec} uses the mesh axis {name!r} twice; an axis can cut an array only once.")
        for name in (*spec.unreduced, *spec.reduced):
            if name not in mesh.explicit_axes:
                raise ValueError(
                    f"{spec}: only axes of the mesh whose type is Explicit can be unreduced or reduced; {name!r} is not among "
                    f"them, the mesh has the axes {mesh.axis_names} of types {mesh.axis_types}."
                )
        if UNCONSTRAINED in spec.partitions and mesh.are_all_axes_explicit:
            raise ValueError(
                f"{spec} cannot contain `P.UNCONSTRAINED` when no mesh axis_types are `Auto`: types say how values lie on explicit axes; "
                "write None, or name an axis."
            )
        self.mesh, self.spec = mesh, spec
        self._kind = memory_kind if isinstance(mesh, AbstractMesh) else "device"
        self._hash = hash((mesh, spec, self._kind))

    @property
    def memory_kind(self) -> str | None:
        """The memory of the devices that is used: always `device`. Of a mesh without devices, the one that was asked for."""
        return self._kind

    @property
    def is_abstract(self) -> bool:
        """Whether the mesh has no devices."""
        return isinstance(self.mesh, AbstractMesh)

    @property
    def device_assignment(self) -> tuple[Any, ...]:
        """The devices of the mesh, last axis fastest."""
        return () if self.mesh.empty else tuple(self.mesh.devices.flat)

    @property
    def num_devices(self) -> int:
        """Number of devices."""
        return self.mesh.size

    @property
    def is_fully_replicated(self) -> bool:
        """Whether every device holds the whole array."""
        shape = self.mesh.shape
        return all(shape[name] == 1 for name in (*self.spec.axis_names(), *self.spec.unreduced))

    @property
    def unreduced(self) -> frozenset[Any]:
        """Mesh axes along which devices hold terms of a sum that is yet to be taken."""
        return self.spec.unreduced

    def terms(self) -> list[tuple[bool, bool]]:
        """For each device, whether it is the first along the unreduced axes, and whether its piece is no copy of another term."""
        used = {*self.spec.axis_names(), *self.spec.unreduced}
        found = []
        for place in np.ndindex(*self.mesh.devices.shape):
            named = dict(zip(self.mesh.axis_names, place, strict=True))
            first = not any(named[name] for name in self.spec.unreduced)
            found.append((first, not any(i for name, i in named.items() if name not in used)))
        return found

    @property
    def replicated_axes(self) -> frozenset[Any]:
        """Mesh axes along which devices hold the same."""
        return frozenset(self.mesh.axis_names).difference(self.spec.axis_names(), self.spec.unreduced)

    def is_equivalent_to(self, other: Sharding, ndim: int) -> bool:
        """Whether both give each device the same piece of an array with `ndim` axes."""
        if self == other:
            return True
        if self.is_abstract or (isinstance(other, NamedSharding) and other.is_abstract):
            return False
        return super().is_equivalent_to(other, ndim)

    def _entries(self, ndim: int) -> tuple[tuple[str, ...], ...]:
        if len(self.spec) > ndim:
            raise ValueError(f"{self.spec} has {len(self.spec)} entries, but the array has {ndim} axes.")
        return tuple(map(names_of, self.spec)) + ((),) * (ndim - len(self.spec))

    def dimension_cuts(self, ndim: int) -> tuple[int, ...]:
        """Product of the sizes of the mesh axes that cut each array axis."""
        shape = self.mesh.shape
        return tuple(math.prod(shape[name] for name in names) for names in self._entries(ndim))

    def device_indices(self, ndim: int) -> list[tuple[int, ...]]:
        """For each device, which piece along each array axis it holds."""
        shape, axis_of = self.mesh.shape, {name: axis for axis, name in enumerate(self.mesh.axis_names)}
        entries = self._entries(ndim)
        places = []
        for coordinates in np.ndindex(*self.mesh.axis_sizes):
            piece = []
            for names in entries:
                position = 0
                for name in names:
                    position = position * shape[name] + coordinates[axis_of[name]]
                piece.append(position)
            places.append(tuple(piece))
        return places

    def hlo_sharding_text(self, ndim: int) -> str:
        """XLA's notation: ``{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}``.

        The devices are numbered as in the mesh; the tile order lists the axes that cut first, then the others, over which
        the array is replicated.
        """
        cuts = self.dimension_cuts(ndim)
        if math.prod(cuts) == 1:
            return "{replicated}"
        names = self.mesh.axis_names
        used = [name for part in self._entries(ndim) for name in part]
        order = [names.index(name) for name in (*used, *(name for name in names if name not in used))]
        copies = self.mesh.size // math.prod(cuts)
        tiles = ",".join(map(str, cuts if copies == 1 else (*cuts, copies)))
        sizes = ",".join(map(str, self.mesh.axis_sizes))
        numbers = f"[{self.mesh.size}]" if order == sorted(order) else f"[{sizes}]T({','.join(map(str, order))})"
        last = "" if copies == 1 else " last_tile_dim_replicate"
        return f"{{devices=[{tiles}]<={numbers}{last}}}"

    def sdy_text(self, ndim: int, mesh_name: str = "mesh") -> str:
        """The Shardy attribute: ``#sdy.sharding<@mesh, [{"x"}, {}]>``; ``{?}`` where the partitioner may choose."""
        open_axes = [part is UNCONSTRAINED for part in self.spec] + [False] * (ndim - len(self.spec))
        axes = [
            "{?}" if is_open else "{" + ", ".join(map(axis_text, names)) + "}"
            for names, is_open in zip(self._entries(ndim), open_axes, strict=True)
        ]
        sums = ", ".join(map(axis_text, sorted(self.spec.unreduced)))
        terms = f", unreduced={{{sums}}}" if sums else ""
        return f"#sdy.sharding<@{mesh_name}, [{', '.join(axes)}]{terms}>"

    def with_memory_kind(self, kind: str) -> NamedSharding:
        """The sharding with its arrays in another memory of the devices; there is one, `device`, where there are devices."""
        if isinstance(self.mesh, AbstractMesh):
            return NamedSharding(self.mesh, self.spec, memory_kind=kind)
        super().with_memory_kind(kind)
        return self

    def update(
        self, *, mesh: Mesh | None = None, spec: PartitionSpec | None = None, memory_kind: str | None = None
    ) -> NamedSharding:
        """The sharding with another mesh, spec or memory."""
        kind = self._kind if memory_kind is None else memory_kind
        return NamedSharding(mesh or self.mesh, self.spec if spec is None else spec, memory_kind=kind)

    def __reduce__(self) -> Any:
        return functools.partial(NamedSharding, memory_kind=self._kind), (self.mesh, self.spec)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, NamedSharding)
            and self._hash == other._hash
            and self.spec == other.spec
            and self.mesh == other.mesh
            and self._kind == other._kind
        )

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        kind = "" if self._kind is None else f", memory_kind={self._kind}"
        return f"NamedSharding(mesh={self.mesh}, spec={self.spec}{kind})"


def from_tiles(mesh: Mesh, ndim: int, tiles: tuple[list[int], list[int]] | None) -> NamedSharding:
    """The sharding that XLA describes by cuts per axis and a list of device numbers, in the axes of a mesh where they can say it.

    Parameters
    ----------
    mesh : Mesh
    ndim : int
        Number of array axes; entries past it count copies.
    tiles : (cuts, device numbers) or None
        None: whole on each device. Devices are numbered as in the mesh.
    """
    if tiles is None:
        return NamedSharding(mesh, PartitionSpec())
    cuts, numbers = tiles
    grid = np.empty(mesh.size, np.int64)
    grid[np.asarray(numbers)] = np.arange(mesh.size)  # place of each device among the tiles
    places = np.stack(np.unravel_index(grid, cuts), -1)[:, :ndim].reshape(*mesh.devices.shape, ndim)
    parts: list[list[tuple[int, str]]] = [[] for _ in range(ndim)]
    origin = places[(0,) * mesh.devices.ndim]
    for axis, name in enumerate(mesh.axis_names):
        if mesh.devices.shape[axis] > 1:
            step = places[tuple(int(i == axis) for i in range(mesh.devices.ndim))] - origin
            for dim in np.flatnonzero(step):
                parts[dim].append((-int(step[dim]), name))
    spec = [tuple(name for _, name in sorted(part)) for part in parts]
    while spec and not spec[-1]:
        spec.pop()
    used = [name for part in spec for name in part]
    if len(set(used)) == len(used):
        found = NamedSharding(mesh, PartitionSpec(*spec))
        if found.device_indices(ndim) == [tuple(map(int, p)) for p in places.reshape(-1, ndim)]:
            return found
    names = [f"axis{i}" for i in range(len(cuts))]
    devices = np.array(mesh.devices.flat, dtype=object)[np.asarray(numbers)].reshape(cuts)
    return NamedSharding(Mesh(devices, names), PartitionSpec(*names[:ndim]))


@functools.lru_cache(maxsize=4096)
def shard_slices(sharding: Sharding, shape: tuple[int, ...]) -> tuple[Index, ...]:
    """The slices of an array of this shape that each device holds, in the order of the devices."""
    piece = sharding.shard_shape(shape)
    whole = tuple(size == part for size, part in zip(shape, piece, strict=True))
    return tuple(
        tuple(
            slice(None) if uncut else slice(position * size, (position + 1) * size)
            for position, size, uncut in zip(positions, piece, whole, strict=True)
        )
        for positions in sharding.device_indices(len(shape))
    )
