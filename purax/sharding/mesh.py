# SPDX-License-Identifier: Apache-2.0
"""Meshes: devices in an n-dimensional grid whose axes have names."""

from __future__ import annotations

import enum
import functools
import math
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar, Token
from typing import Any, NamedTuple, NoReturn, Self
from weakref import WeakValueDictionary

import numpy as np

from purax.core.trace import current as _current_trace
from purax.lazy import lazy

_client = lazy("purax.runtime.client")  # which knows the devices, and imports this module

__all__ = [
    "AbstractDevice", "AbstractMesh", "AxisType", "Mesh", "current_mesh", "get_abstract_mesh", "get_mesh", "mesh_like", "running_mesh",
    "set_mesh", "use_abstract_mesh", "use_mesh", "watchers",
]  # fmt: skip


class AxisType(enum.Enum):
    """Who decides how arrays are laid out over a mesh axis: the partitioner, the user's types, or the user's code."""

    Auto = enum.auto()
    Explicit = enum.auto()
    Manual = enum.auto()


class _Axes:
    """What meshes tell of their axes: `axis_names`, `axis_sizes` and `axis_types` come from the subclass."""

    __slots__ = ()
    axis_names: tuple[Any, ...]
    axis_types: tuple[AxisType, ...]
    axis_sizes: Any

    @property
    def shape(self) -> OrderedDict[str, int]:
        """Size of each axis by its name."""
        return OrderedDict(self.shape_tuple)

    @property
    def shape_tuple(self) -> tuple[tuple[Any, int], ...]:
        """Name and size of each axis."""
        return tuple(zip(self.axis_names, self.axis_sizes, strict=True))

    @property
    def size(self) -> int:
        """Number of devices; none without axes."""
        return math.prod(self.axis_sizes) if self.axis_names else 0

    @property
    def empty(self) -> bool:
        """Whether the mesh has no devices."""
        return self.size == 0

    def _of(self, kind: AxisType) -> tuple[Any, ...]:
        return tuple(name for name, found in zip(self.axis_names, self.axis_types, strict=True) if found is kind)

    @property
    def auto_axes(self) -> tuple[Any, ...]:
        """Names of the axes that are `AxisType.Auto`."""
        return self._of(AxisType.Auto)

    @property
    def explicit_axes(self) -> tuple[Any, ...]:
        """Names of the axes that are `AxisType.Explicit`."""
        return self._of(AxisType.Explicit)

    @property
    def manual_axes(self) -> tuple[Any, ...]:
        """Names of the axes that are `AxisType.Manual`."""
        return self._of(AxisType.Manual)

    @property
    def are_all_axes_auto(self) -> bool:
        """Whether all axes are `AxisType.Auto`."""
        return self.auto_axes == self.axis_names

    @property
    def are_all_axes_explicit(self) -> bool:
        """Whether all axes are `AxisType.Explicit`."""
        return self.explicit_axes == self.axis_names

    @property
    def are_all_axes_manual(self) -> bool:
        """Whether all axes are `AxisType.Manual`."""
        return self.manual_axes == self.axis_names

    def sdy_text(self) -> str:
        """The body of the Shardy mesh, such as ``<["x"=2, "y"=4]>``; a program numbers its devices as the grid does."""
        axes = ", ".join(f"{axis_text(name)}={size}" for name, size in self.shape_tuple)
        return f"<[{axes}]>"

    def __str__(self) -> str:
        axes = ", ".join(f"{name!r}: {size}" for name, size in self.shape_tuple)
        return f"{type(self).__name__}({axes}, axis_types={_kinds(self.axis_types)})"

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(axis_sizes={self.axis_sizes}, axis_names={self.axis_names}, "
            f"axis_types={_kinds(self.axis_types)})"
        )


class AbstractDevice(NamedTuple):
    """A kind of device, for meshes without devices."""

    device_kind: str
    num_cores: int | None
    platform: str


class AbstractMesh(_Axes):
    """Names and sizes of a mesh, without devices: programs that name it run on any devices of that number.

    Parameters
    ----------
    axis_sizes : tuple of int
    axis_names : tuple of str
    axis_types : tuple of AxisType, optional
        All `AxisType.Auto` by default.
    abstract_device : AbstractDevice, optional
        What the devices are; programs that have no others are lowered for its platform.
    """

    __slots__ = ("abstract_device", "axis_names", "axis_sizes", "axis_types")

    def __init__(
        self, axis_sizes: Sequence[int], axis_names: Any, axis_types: Any = None, *, abstract_device: Any = None
    ) -> None:
        self.axis_sizes = tuple(axis_sizes)
        self.axis_names, self.axis_types = _checked_axes(self.axis_sizes, axis_names, axis_types)
        self.abstract_device: AbstractDevice | None = abstract_device

    @property
    def abstract_mesh(self) -> AbstractMesh:
        """The mesh itself."""
        return self

    def update(
        self, axis_sizes: Any = None, axis_names: Any = None, axis_types: Any = None, **other: Any
    ) -> AbstractMesh:
        """A copy with other sizes, names, types or `abstract_device`."""
        return AbstractMesh(
            self.axis_sizes if axis_sizes is None else axis_sizes,
            self.axis_names if axis_names is None else axis_names,
            self.axis_types if axis_types is None else axis_types,
            **{"abstract_device": self.abstract_device, **other},
        )

    def update_axis_types(self, name_to_type: dict[Any, AxisType]) -> AbstractMesh:
        """A copy in which the named axes have other types."""
        kinds = zip(self.axis_names, self.axis_types, strict=True)
        return self.update(axis_types=tuple(name_to_type.get(name, kind) for name, kind in kinds))

    def over(self, devices: np.ndarray) -> Mesh:
        """The mesh of these axes whose grid has these devices, in their order."""
        return Mesh(devices.reshape(self.axis_sizes), self.axis_names, self.axis_types)

    def _refuse(self) -> NoReturn:
        raise ValueError(f"{self} stands for the axes of a mesh, and has no devices: use a Mesh for that.")

    @property
    def devices(self) -> NoReturn:
        """None: raises ValueError, as all that asks for devices."""
        self._refuse()

    device_ids = is_multi_process = local_devices = local_mesh = devices

    def __enter__(self) -> NoReturn:
        self._refuse()

    def __exit__(self, *exc: object) -> None:
        self._refuse()

    def _key(self) -> tuple[Any, ...]:
        return self.axis_sizes, self.axis_names, self.axis_types, self.abstract_device

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AbstractMesh) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())


class Mesh(_Axes):
    """Devices in a grid whose axes have names.

    Parameters
    ----------
    devices : array of Device, or a sequence
        One axis per name.
    axis_names : str or sequence of str
    axis_types : tuple of AxisType, optional
        All `AxisType.Auto` by default.

    Raises
    ------
    ValueError
        The number of names or types differs from the number of axes, or a name occurs twice.

    Notes
    -----
    Meshes of the same devices, names and types are one object. ``with mesh:`` makes it the current one, as far as the meaning of
    specs goes; `set_mesh` lets functions run on its devices, too.
    """

    __slots__ = ("__weakref__", "_axes", "_hash", "axis_names", "axis_types", "devices")
    devices: np.ndarray
    _axes: AbstractMesh
    _hash: int

    def __new__(cls, devices: Any, axis_names: Any, axis_types: Any = None) -> Self:
        """The mesh with these devices, names and types."""
        grid = np.array(devices, dtype=object)
        if grid.ndim == 0 and isinstance(axis_names, (tuple, list)) and len(axis_names) == 1:
            grid = grid[None]
        names, types = _checked_axes(grid.shape, axis_names, axis_types)
        key = (cls, tuple(grid.flat), grid.shape, names, types)
        found = _MESHES.get(key)
        if found is None:
            found = super().__new__(cls)
            grid.setflags(write=False)
            found.devices, found.axis_names, found.axis_types, found._hash = grid, names, types, hash(key[1:])
            found = _MESHES.setdefault(key, found)
        return found

    @property
    def axis_sizes(self) -> tuple[int, ...]:
        """Size of each axis."""
        return self.devices.shape

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
        try:
            return self._axes
        except AttributeError:
            self._axes = AbstractMesh(self.devices.shape, self.axis_names, self.axis_types)
            return self._axes

    @property
    def local_mesh(self) -> Mesh:
        """The part of the mesh that this process has; its devices lie in one block."""
        places = np.argwhere(np.vectorize(is_local, otypes=[bool])(self.devices))
        block = tuple(slice(first, last + 1) for first, last in zip(places.min(0), places.max(0), strict=True))
        return self.update(devices=self.devices[block])

    def update(self, devices: Any = None, axis_names: Any = None, axis_types: Any = None) -> Mesh:
        """A copy with other devices, names or types."""
        return Mesh(
            self.devices if devices is None else devices,
            self.axis_names if axis_names is None else axis_names,
            self.axis_types if axis_types is None else axis_types,
        )

    def __enter__(self) -> Mesh:
        _entered.set((*_entered.get(), _current.set(None if self.empty else self)))
        _watched(1)
        return self

    def __exit__(self, *exc: object) -> None:
        *outer, token = _entered.get()
        _entered.set(tuple(outer))
        _current.reset(token)
        _watched(-1)

    def __call__(self, fun: Callable[..., Any]) -> Callable[..., Any]:
        """`fun` within ``with mesh:``, so that a mesh is a decorator."""

        @functools.wraps(fun)
        def within(*args: Any, **kwargs: Any) -> Any:
            with self:
                return fun(*args, **kwargs)

        return within

    def __reduce__(self) -> Any:
        return _restored, (list(map(named, self.devices.flat)), self.devices.shape, self.axis_names, self.axis_types)

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


def axis_text(name: Any) -> str:
    """The name of an axis as programs have it, in quotes: XLA ends the process for letters that are not ASCII."""
    letters = [c if c.isascii() and (c.isalnum() or c == "_") else f"_{ord(c):x}_" for c in str(name)]
    return f'"{"".join(letters)}"'


_MESHES: WeakValueDictionary[Any, Any] = WeakValueDictionary()
_current: ContextVar[Mesh | None] = ContextVar("purax_mesh", default=None)
# Tokens of the open `with mesh:` blocks: here and not in the mesh, which several threads may enter.
_entered: ContextVar[tuple[Token[Mesh | None], ...]] = ContextVar("purax_entered_meshes", default=())


_running: ContextVar[Mesh | None] = ContextVar("purax_running_mesh", default=None)
_abstract: ContextVar[AbstractMesh | None] = ContextVar("purax_abstract_mesh", default=None)
watchers: list[Callable[[int], None]] = []
"""Told of each mesh that becomes current (1) or is so no longer (-1), in any thread."""


def _watched(by: int) -> None:
    for tell in watchers:
        tell(by)


def mesh_like(axes: AbstractMesh) -> Mesh | None:
    """The one mesh in use that has these axes; None where there is none, or where there are several."""
    found = [mesh for mesh in list(_MESHES.values()) if mesh.abstract_mesh == axes]
    return found[0] if len(found) == 1 else None


def current_mesh() -> Mesh | None:
    """The mesh of the innermost ``with mesh:`` or `set_mesh`, or None: what specs mean."""
    return _current.get()


def running_mesh() -> Mesh | None:
    """The mesh of the innermost `set_mesh`, or None: what functions of `jit` run on."""
    return _running.get()


def get_mesh() -> Mesh:
    """The current mesh; an empty one when none is set.

    Raises
    ------
    ValueError
        Within a program that is being traced, which may run on other devices: use `get_abstract_mesh`.
    """
    if _current_trace.get() is not None:
        raise ValueError(
            "`get_mesh` can only be used outside of `jit` and other transformations: programs do not depend on devices. "
            "Use `purax.sharding.get_abstract_mesh()`, which has the names and sizes of the axes."
        )
    return _current.get() or Mesh(np.empty((), dtype=object), ())


def get_abstract_mesh() -> AbstractMesh:
    """Names and sizes of the current mesh, or those of `use_abstract_mesh`; a mesh without axes when none is set."""
    abstract = _abstract.get()
    if abstract is not None:
        return abstract
    mesh = _current.get()
    return _NO_MESH if mesh is None else mesh.abstract_mesh


class set_mesh:
    """Make a mesh the current one: at once, and until the end of the block when used in a ``with`` statement.

    Functions made by `jit` run on the devices of the current mesh.

    Parameters
    ----------
    mesh : Mesh or None

    Raises
    ------
    ValueError
        It is no Mesh, or has manual axes, or a function is being traced.
    """

    def __init__(self, mesh: Mesh | None) -> None:
        if mesh is not None and not isinstance(mesh, Mesh):
            raise ValueError(
                f"set_mesh: Expected mesh of type `jax.sharding.Mesh`. Got {type(mesh).__name__}: {mesh!r}"
            )
        if mesh is not None and mesh.manual_axes:
            raise ValueError(
                f"set_mesh: the mesh {mesh} contains manual axes, which only the inside of `shard_map` has."
            )
        if _current_trace.get() is not None:
            raise ValueError("`set_mesh` can only be used outside of `jit` and other transformations.")
        self._mesh = mesh
        chosen = None if mesh is None or mesh.empty else mesh
        self._tokens = _current.set(chosen), _running.set(chosen), _abstract.set(None)
        self._count = 0 if chosen is None else 1
        _watched(self._count)

    def __enter__(self) -> Mesh | None:
        return self._mesh

    def __exit__(self, *exc: object) -> None:
        _watched(-self._count)
        current, running, abstract = self._tokens
        _current.reset(current)
        _running.reset(running)
        _abstract.reset(abstract)


@contextmanager
def use_mesh(mesh: Mesh) -> Iterator[Mesh]:
    """Make a mesh the current one within a ``with`` statement."""
    with set_mesh(mesh):
        yield mesh


class use_abstract_mesh:
    """Within a ``with`` statement, let specs mean the axes of a mesh without devices.

    Parameters
    ----------
    mesh : AbstractMesh

    Raises
    ------
    ValueError
        It is none, or has another number of devices than the current one.
    """

    def __init__(self, mesh: AbstractMesh) -> None:
        if not isinstance(mesh, AbstractMesh):
            raise ValueError(
                f"Expected mesh of type `jax.sharding.AbstractMesh`. Got type: {type(mesh).__name__}; that of a Mesh is its `abstract_mesh`."
            )
        self._mesh = mesh

    def __enter__(self) -> AbstractMesh:
        outer = get_abstract_mesh()
        if not (outer.empty or self._mesh.empty) and outer.size != self._mesh.size:
            raise ValueError(
                f"use_abstract_mesh cannot change the size of the mesh. Got new mesh: {self._mesh} with size={self._mesh.size} and prev "
                f"mesh: {outer} with size={outer.size}"
            )
        _entered_abstract.set((*_entered_abstract.get(), _abstract.set(self._mesh)))
        _watched(1)
        return self._mesh

    def __exit__(self, *exc: object) -> None:
        *outer, token = _entered_abstract.get()
        _entered_abstract.set(tuple(outer))
        _abstract.reset(token)
        _watched(-1)


_entered_abstract: ContextVar[tuple[Token[AbstractMesh | None], ...]] = ContextVar(
    "purax_entered_abstract_meshes", default=()
)


def named(device: Any) -> tuple[str, int]:
    """Platform and number of a device: what stands for it in a pickle."""
    return _client.platform_of(device), device.id


def _restored(devices: list[tuple[str, int]], shape: tuple[int, ...], names: Any, types: Any) -> Mesh:
    grid = np.empty(len(devices), dtype=object)
    grid[:] = [_client.device_named(*device) for device in devices]
    return Mesh(grid.reshape(shape), names, types)


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
        types = (AxisType.Auto,) * len(names)
    types = (types,) if isinstance(types, AxisType) else types
    if not isinstance(types, (tuple, list)) or not all(isinstance(kind, AxisType) for kind in types):
        raise TypeError(f"axis_types of a mesh must be of type AxisType, or a tuple of these; got {types!r}.")
    types = tuple(types)
    if len(types) != len(names):
        raise ValueError(f"A mesh with the axes {names} needs one axis type for each; got {_kinds(types)}.")
    return names, types


def _kinds(types: tuple[AxisType, ...]) -> str:
    return f"({', '.join(kind.name for kind in types)}{',' * (len(types) == 1)})"


_NO_MESH = AbstractMesh((), ())
