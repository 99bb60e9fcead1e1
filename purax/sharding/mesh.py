# SPDX-License-Identifier: Apache-2.0
"""Meshes: devices in an n-dimensional grid whose axes have names."""

from __future__ import annotations

import enum
import math
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar, Token
from typing import Any

import numpy as np

__all__ = ["AbstractMesh", "AxisType", "Mesh", "current_mesh", "get_mesh", "set_mesh", "use_mesh"]


class AxisType(enum.Enum):
    """Who decides how arrays are laid out over a mesh axis: the partitioner, the user's types, or the user's code."""

    Auto = enum.auto()
    Explicit = enum.auto()
    Manual = enum.auto()


class AbstractMesh:
    """Names and sizes of a mesh, without devices.

    Parameters
    ----------
    axis_sizes : tuple of int
    axis_names : tuple of str
    axis_types : tuple of AxisType, optional
        All `AxisType.Auto` by default.
    """

    __slots__ = ("axis_names", "axis_sizes", "axis_types")

    def __init__(self, axis_sizes: Sequence[int], axis_names: Any, axis_types: Any = None) -> None:
        self.axis_sizes = tuple(axis_sizes)
        self.axis_names, self.axis_types = _checked_axes(self.axis_sizes, axis_names, axis_types)

    @property
    def shape(self) -> OrderedDict[str, int]:
        """Size of each axis by its name."""
        return OrderedDict(zip(self.axis_names, self.axis_sizes, strict=True))

    @property
    def size(self) -> int:
        """Number of devices."""
        return math.prod(self.axis_sizes)

    def _key(self) -> tuple[Any, ...]:
        return self.axis_sizes, self.axis_names, self.axis_types

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AbstractMesh) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"AbstractMesh({_describe(self)})"


class Mesh:
    """Devices in a grid whose axes have names.

    Parameters
    ----------
    devices : array of Device, or a sequence
        One axis per name.
    axis_names : str or sequence of str
    axis_types : AxisType or tuple of AxisType, optional
        All `AxisType.Auto` by default.

    Raises
    ------
    ValueError
        The number of names differs from the number of axes, or a name occurs twice.

    Notes
    -----
    Meshes compare by value. ``with mesh:`` makes it the current one.
    """

    __slots__ = ("__weakref__", "_hash", "_tokens", "axis_names", "axis_types", "devices")
    devices: np.ndarray

    def __init__(self, devices: Any, axis_names: Any, axis_types: Any = None) -> None:
        grid = np.array(devices, dtype=object)
        if grid.ndim == 0 and isinstance(axis_names, (tuple, list)) and len(axis_names) == 1:
            grid = grid[None]
        grid.setflags(write=False)
        self.devices = grid
        self.axis_names, self.axis_types = _checked_axes(grid.shape, axis_names, axis_types)
        self._tokens: list[Token[Mesh | None]] = []
        self._hash = hash((tuple(grid.flat), grid.shape, self.axis_names, self.axis_types))

    @property
    def axis_sizes(self) -> tuple[int, ...]:
        """Size of each axis."""
        return self.devices.shape

    @property
    def shape(self) -> OrderedDict[str, int]:
        """Size of each axis by its name."""
        return OrderedDict(zip(self.axis_names, self.devices.shape, strict=True))

    @property
    def size(self) -> int:
        """Number of devices."""
        return self.devices.size

    @property
    def empty(self) -> bool:
        """Whether the mesh has no devices."""
        return self.devices.size == 0

    @property
    def device_ids(self) -> np.ndarray:
        """The `id` of every device, in the shape of the grid."""
        return np.array([device.id for device in self.devices.flat], dtype=int).reshape(self.devices.shape)

    @property
    def is_multi_process(self) -> bool:
        """Whether some device belongs to another process."""
        return len({device.process_index for device in self.devices.flat}) > 1

    @property
    def local_devices(self) -> list[Any]:
        """The devices of this process."""
        return [device for device in self.devices.flat if is_local(device)]

    @property
    def abstract_mesh(self) -> AbstractMesh:
        """Names and sizes alone."""
        return AbstractMesh(self.devices.shape, self.axis_names, self.axis_types)

    def sdy_text(self) -> str:
        """The body of the Shardy mesh, such as ``<["x"=2, "y"=4]>``; a program numbers its devices as the grid does."""
        axes = ", ".join(f'"{name}"={size}' for name, size in self.shape.items())
        return f"<[{axes}]>"

    def __enter__(self) -> Mesh:
        self._tokens.append(_current.set(self))
        return self

    def __exit__(self, *exc: object) -> None:
        _current.reset(self._tokens.pop())

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, Mesh)
            and self._hash == other._hash
            and self.axis_names == other.axis_names
            and self.axis_types == other.axis_types
            and self.devices.shape == other.devices.shape
            and all(a is b or a == b for a, b in zip(self.devices.flat, other.devices.flat, strict=True))
        )

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"Mesh({_describe(self)})"

    __str__ = __repr__


class OneDevice:
    """The mesh of an operation that one device of a program runs for all.

    Parameters
    ----------
    device : Device
    number : int
        Its number in the program.
    """

    __slots__ = ("devices", "number")

    def __init__(self, device: Any, number: int) -> None:
        self.devices = np.array([device], object)
        self.number = number

    def sdy_text(self) -> str:
        """The body of the Shardy mesh: no axes, one device."""
        return f"<[], device_ids=[{self.number}]>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OneDevice) and self.devices[0] is other.devices[0]

    def __hash__(self) -> int:
        return hash((OneDevice, self.devices[0]))


_current: ContextVar[Mesh | None] = ContextVar("purax_mesh", default=None)


def current_mesh() -> Mesh | None:
    """The mesh of the innermost ``with mesh:`` or `set_mesh`, or None."""
    return _current.get()


def get_mesh() -> Mesh:
    """The current mesh; an empty one when none is set."""
    return _current.get() or Mesh(np.empty((), dtype=object)[None][:0], ("_",))


class set_mesh:
    """Make a mesh the current one: at once, and until the end of the block when used in a ``with`` statement.

    Parameters
    ----------
    mesh : Mesh
    """

    def __init__(self, mesh: Mesh) -> None:
        self._mesh = mesh
        self._token = _current.set(mesh)

    def __enter__(self) -> Mesh:
        return self._mesh

    def __exit__(self, *exc: object) -> None:
        _current.reset(self._token)


@contextmanager
def use_mesh(mesh: Mesh) -> Iterator[Mesh]:
    """Make a mesh the current one within a ``with`` statement."""
    token = _current.set(mesh)
    try:
        yield mesh
    finally:
        _current.reset(token)


def is_local(device: Any) -> bool:
    """Whether this process can read and write the memory of a device."""
    return device.process_index == device.client.process_index()


def _checked_axes(sizes: tuple[int, ...], names: Any, types: Any) -> tuple[tuple[Any, ...], tuple[AxisType, ...]]:
    names = (names,) if isinstance(names, str) else tuple(names)
    if len(names) != len(sizes):
        raise ValueError(f"A mesh of {len(sizes)} axes (shape {sizes}) was given {len(names)} axis names: {names}.")
    if len(set(names)) != len(names):
        raise ValueError(f"Each axis of a mesh needs a name of its own; got {names}.")
    if types is None:
        types = AxisType.Auto
    types = (types,) * len(names) if isinstance(types, AxisType) else tuple(types)
    if len(types) != len(names):
        raise ValueError(f"A mesh with the axes {names} was given {len(types)} axis types.")
    return names, types


def _describe(mesh: Mesh | AbstractMesh) -> str:
    axes = ", ".join(f"{name!r}: {size}" for name, size in mesh.shape.items())
    return f"{axes}, axis_types=({', '.join(kind.name for kind in mesh.axis_types)})"
