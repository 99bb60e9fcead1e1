# SPDX-License-Identifier: Apache-2.0
"""Backends and devices: made on first use, chosen by `config.platforms`, `config.num_cpu_devices` and what is installed."""

from __future__ import annotations

import functools
import importlib.util
import os
import pathlib
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import numpy as np

from purax import config, errors
from purax.lazy import lazy
from purax.runtime import xla_flags
from purax.sharding import AxisType, Mesh, Placement, SingleDeviceSharding, placement_of

__all__ = [
    "Backend",
    "backend",
    "backends",
    "clear_backends",
    "default_backend",
    "default_device",
    "default_placement",
    "described_devices",
    "device_count",
    "devices",
    "initialize_distributed",
    "is_cpu_default",
    "local_device_count",
    "local_devices",
    "make_mesh",
    "platform_of",
    "process_count",
    "process_index",
    "process_indices",
    "shutdown_distributed",
]

_jaxlib = lazy("purax.runtime._jaxlib")
_ALIASES = {"gpu": ("cuda", "rocm")}
_SHAPING = ("platforms", "num_cpu_devices", "threads", "allocator")


class Backend:
    """One platform in use: jaxlib's client and its devices."""

    __slots__ = ("client", "devices", "local_devices", "name", "process_index")

    def __init__(self, name: str, client: Any) -> None:
        self.name, self.client = name, client
        self.devices: list[Any] = list(client.devices())
        self.local_devices: list[Any] = list(client.local_devices())
        self.process_index: int = client.process_index()

    def __repr__(self) -> str:
        return f"<Backend {self.name}: {len(self.devices)} devices>"


_lock = threading.RLock()
_backends: dict[str, Backend] = {}
_distributed: dict[str, Any] = {}


def backends() -> dict[str, Backend]:
    """The platforms in use by name, the default one first; starts them on the first call.

    Raises
    ------
    PlatformError
        `config.platforms` names a platform that is not there.
    """
    return _backends or _start()


def _start() -> dict[str, Backend]:
    with _lock:
        if not _backends:
            xla_flags.check()
            wanted = _wanted()
            started = {}
            for name, is_optional in wanted:
                try:
                    started[name] = Backend(name, _MAKERS[name]())
                except (RuntimeError, OSError, ImportError) as error:
                    if not is_optional:
                        why = f"Its backend could not be started: {error}"
                        raise errors.PlatformError(_explain_platform(name, why)) from error
            config.seal(*_SHAPING, why="The backends have started, and they were shaped by this setting.")
            _backends.update(started)  # in one step: other threads test whether it is empty
    return _backends


# ---- forks: a child has the memory of its parent and none of its threads, so whatever waits for a device would wait for ever

_forked = False
on_fork: list[Callable[[], None]] = []


def _after_fork() -> None:
    global _forked
    if _backends:
        _forked = True
        for stop in on_fork:
            stop()


def check_fork() -> None:
    """Raise ForkedProcessError in the child of a process that had started its devices."""
    if _forked:
        refuse_fork()


def refuse_fork(*_: Any) -> NoReturn:
    """Raise ForkedProcessError."""
    raise errors.ForkedProcessError(
        errors.explain(
            f"process {os.getpid()} was forked from one that had started its devices.",
            "The threads that compile and compute exist in the parent only.",
            'start processes by multiprocessing.get_context("spawn"), or fork before the first computation.',
        )
    )


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _wanted() -> list[tuple[str, bool]]:
    """Names of the platforms to start, and whether each may fail."""
    text = config.platforms
    if not text:
        return [(name, True) for name in ("cuda", "rocm", "tpu") if _installed(name)] + [("cpu", False)]
    wanted = []
    for name in filter(None, (part.strip().lower() for part in text.split(","))):
        candidates = _ALIASES.get(name, (name,))
        found = next((candidate for candidate in candidates if _installed(candidate)), None)
        if found is None:
            raise errors.PlatformError(_explain_platform(name, "No such platform is installed."))
        wanted.append((found, False))
    return wanted


def _explain_platform(name: str, why: str) -> str:
    available = [platform for platform in _MAKERS if _installed(platform)]
    return errors.explain(
        f"the platform {name!r} was asked for.",
        f"{why} Installed here: {', '.join(available)}.",
        "set PURAX_PLATFORMS (or config.platforms) to one of these, or install the extra that brings the platform.",
    )


# ---- the platforms


def _installed(name: str) -> bool:
    if name == "cpu":
        return True
    finder = _LIBRARIES.get(name)
    return finder is not None and finder() is not None


@functools.cache
def _package_folders(package: str) -> list[pathlib.Path]:
    spec = importlib.util.find_spec(package)
    return [] if spec is None else [pathlib.Path(folder) for folder in spec.submodule_search_locations or ()]


def _plugin_library(pattern: str) -> str | None:
    """The shared library of a GPU plugin, found by its path: importing its package would import jax."""
    for folder in _package_folders("jax_plugins"):
        for library in sorted(folder.glob(pattern), reverse=True):
            return str(library)
    return None


def _tpu_library() -> str | None:
    chosen = os.environ.get("TPU_LIBRARY_PATH")
    if chosen:
        return chosen
    for folder in _package_folders("libtpu"):
        if (folder / "libtpu.so").exists():
            return str(folder / "libtpu.so")
    return None


_LIBRARIES: dict[str, Callable[[], str | None]] = {
    "cuda": lambda: _plugin_library("xla_cuda*/xla_cuda_plugin.so"),
    "rocm": lambda: _plugin_library("xla_rocm*/xla_rocm_plugin.so"),
    "tpu": _tpu_library,
}


def _make_cpu() -> Any:
    number = config.num_cpu_devices
    with _thread_count(_cpu_threads(number)):
        return _jaxlib.cpu_client(number if number > 0 else None, _distributed.get("cpu"))


def _make_gpu(name: str) -> Any:
    _preload_nvidia_libraries()
    library = _LIBRARIES[name]()
    options = _jaxlib.gpu_plugin_options() | {"platform_name": name}
    connection = _distributed.get("cpu")
    if connection is not None:
        options |= {"node_id": connection[1], "num_nodes": connection[2]}
    client = _jaxlib.plugin_client(name, library, options, connection and connection[0])
    if _jaxlib.plugin_package(name) is not None:
        _jaxlib.load_gpu_kernels(name)
    return client


def _make_tpu() -> Any:
    return _jaxlib.plugin_client("tpu", _tpu_library(), {}, None)


_MAKERS: dict[str, Callable[[], Any]] = {
    "cpu": _make_cpu,
    "cuda": lambda: _make_gpu("cuda"),
    "rocm": lambda: _make_gpu("rocm"),
    "tpu": _make_tpu,
}


def described_devices(platform: str, topology: str, options: dict[str, Any]) -> list[Any]:
    """Devices that the plugin of a platform describes and that need not be attached.

    Parameters
    ----------
    platform : str
    topology : str
        In the words of the plugin.
    options : dict

    Returns
    -------
    list of Device

    Raises
    ------
    NotImplementedError
        The platform has none.
    PlatformError
        It is not installed.
    """
    name = next((n for n in _ALIASES.get(platform, (platform,)) if _installed(n)), platform)
    if name == "cpu":
        raise NotImplementedError(
            errors.explain(
                "topology not implemented for cpu.",
                "The CPU client of jaxlib describes attached devices only.",
                "use get_attached_topology(), with PURAX_NUM_CPU_DEVICES for as many devices as wanted.",
            )
        )
    library = _LIBRARIES[name]() if name in _LIBRARIES else None
    if library is None:
        raise errors.PlatformError(_explain_platform(name, "Its plugin, which describes topologies, is not installed."))
    if name != "tpu":
        _preload_nvidia_libraries()
    return _jaxlib.described_devices(name, library, topology, options)


def _preload_nvidia_libraries() -> None:
    """Open the CUDA libraries of the `nvidia-*` wheels, which are on no search path of the system."""
    names = (
        "libcudart",
        "libnvJitLink",
        "libcublasLt",
        "libcublas",
        "libcudnn",
        "libcufft",
        "libcusolver",
        "libcusparse",
    )
    libraries = [path for folder in _package_folders("nvidia") for path in folder.glob("**/lib/lib*.so.*")]
    for name in names:
        for path in libraries:
            if path.name.startswith(f"{name}.so"):
                _jaxlib.ctypes.CDLL(str(path), mode=_jaxlib.ctypes.RTLD_GLOBAL)


def _cpu_threads(num_devices: int) -> int | None:
    """How many worker threads the CPU client gets; None leaves it one per core.

    Collectives of several virtual devices wait for each other inside worker threads, so there must be one per device.
    """
    if config.threads > 0:
        return int(config.threads)
    if num_devices < 1:
        forced = re.search(r"xla_force_host_platform_device_count=(\d+)", os.environ.get("XLA_FLAGS", ""))
        num_devices = int(forced.group(1)) if forced else 1
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return num_devices if num_devices > cores and "NPROC" not in os.environ else None


@contextmanager
def _thread_count(number: int | None) -> Iterator[None]:
    """XLA reads the size of its thread pool from the environment when a client is made."""
    before = os.environ.get("NPROC")
    if number is not None:
        os.environ["NPROC"] = str(number)
    try:
        yield
    finally:
        if number is not None:
            if before is None:
                del os.environ["NPROC"]
            else:
                os.environ["NPROC"] = before


# ---- questions


def backend(name: Any = None) -> Backend:
    """The backend of a platform; the default one for None.

    Raises
    ------
    PlatformError
        The platform is not in use; the message lists those that are.
    """
    known = backends()
    if name is None:
        return next(iter(known.values()))
    if isinstance(name, Backend):
        return name
    for candidate in _ALIASES.get(name, (name,)):
        if candidate in known:
            return known[candidate]
    raise errors.PlatformError(
        errors.explain(
            f"Unknown backend {name!r}.",
            f"Available backends are {list(known)}.",
            "choose one of these, or set PURAX_PLATFORMS.",
        )
    )


_chosen = backend  # the questions below have a parameter of that name, as in JAX


def devices(backend: Any = None) -> list[Any]:
    """All devices of a platform, those of other processes too.

    Parameters
    ----------
    backend : str, optional
        `cpu`, `gpu`, `cuda`, `rocm` or `tpu`; the default platform when left out.

    Returns
    -------
    list of Device
    """
    return list(_chosen(backend).devices)


def local_devices(process_index: int | None = None, backend: Any = None, host_id: int | None = None) -> list[Any]:
    """The devices of one process, of this one when none is named.

    Parameters
    ----------
    process_index, host_id : int, optional
        Two names of one number.
    backend : str, optional
        As in `devices`.

    Returns
    -------
    list of Device

    Raises
    ------
    ValueError
        There is no such process.
    """
    chosen = _chosen(backend)
    index = host_id if process_index is None else process_index
    if index is None:
        return list(chosen.local_devices)
    if index not in process_indices(backend):
        raise ValueError(f"There is no process {index}; the processes are {process_indices(backend)}.")
    return [device for device in chosen.devices if device.process_index == index]


def device_count(backend: Any = None) -> int:
    """Number of devices of all processes."""
    return len(_chosen(backend).devices)


def local_device_count(backend: Any = None) -> int:
    """Number of devices of this process."""
    return len(_chosen(backend).local_devices)


def default_backend() -> str:
    """Name of the default platform: `cpu`, `gpu` or `tpu`."""
    name = backend().name
    return "gpu" if name in _ALIASES["gpu"] else name


def process_index(backend: Any = None) -> int:
    """Index of this process among those that compute together."""
    return _chosen(backend).process_index


def process_indices(backend: Any = None) -> list[int]:
    """Indices of all processes."""
    return sorted({device.process_index for device in _chosen(backend).devices})


def process_count(backend: Any = None) -> int:
    """Number of processes."""
    return len(process_indices(backend))


def device_named(platform: str, number: int) -> Any:
    """The device of a platform with this `id`.

    Raises
    ------
    PlatformError
        There is none in this process: shardings are unpickled where there are as many devices as where they were pickled.
    """
    for device in backend(platform).devices:
        if device.id == number:
            return device
    raise errors.PlatformError(f"There is no {platform} device with the number {number} here.")


def platform_of(device: Any) -> str:
    """Name of the backend that a device belongs to."""
    for chosen in backends().values():
        if chosen.client is device.client:
            return chosen.name
    return str(device.platform)


def default_device() -> Any:
    """The device of new arrays: `config.default_device`, else the first device of the default platform.

    Returns
    -------
    Device
    """
    chosen = config.current().default_device
    if chosen is None:
        return backend().local_devices[0]
    if isinstance(chosen, str):
        name, _, number = chosen.partition(":")
        return backend(name).local_devices[int(number or 0)]
    if isinstance(chosen, SingleDeviceSharding):
        return chosen.device
    return chosen


def default_placement() -> Placement | None:
    """Placement of new arrays; None in the usual case, the first device of the default platform."""
    if config.current().default_device is None:
        return None
    device = default_device()
    return None if device is backend().local_devices[0] else placement_of(SingleDeviceSharding(device), False)


def is_cpu_default() -> bool:
    """Whether new arrays lie on a CPU; answered without starting a backend where only a CPU can be had."""
    if _backends:
        return next(iter(_backends)) == "cpu"
    return _wanted()[0][0] == "cpu"


def make_mesh(
    axis_shapes: Sequence[int],
    axis_names: Sequence[str],
    axis_types: Any = None,
    *,
    devices: Sequence[Any] | None = None,
) -> Mesh:
    """Make a mesh of the first devices of the default platform.

    Parameters
    ----------
    axis_shapes : sequence of int
        Size of each axis.
    axis_names : sequence of str
        Name of each axis.
    axis_types : sequence of AxisType, optional
        One for each axis. All explicit by default: types of values say how they lie (see `purax.sharding.reshard`).
    devices : sequence of Device, optional
        The devices to use.

    Returns
    -------
    Mesh

    Raises
    ------
    ValueError
        There are fewer devices than the mesh has places, or not one name and one type for each axis.
    """
    needed = int(np.prod(axis_shapes, dtype=np.int64))
    chosen = list(backend().devices if devices is None else devices)
    if len(chosen) < needed:
        raise ValueError(
            errors.explain(
                f"make_mesh got the shape {tuple(axis_shapes)}, which needs {needed} devices, and there are {len(chosen)}.",
                fix="use a smaller shape, or set PURAX_NUM_CPU_DEVICES to have more virtual CPU devices.",
            )
        )
    grid = np.empty(needed, dtype=object)
    grid[:] = chosen[:needed]
    types = (AxisType.Explicit,) * len(tuple(axis_shapes)) if axis_types is None else axis_types
    return Mesh(grid.reshape(tuple(axis_shapes)), axis_names, types)


# ---- several processes


def initialize_distributed(coordinator_address: str, num_processes: int, process_id: int) -> None:
    """Join the other processes of a computation; call it before anything else that needs a device.

    Parameters
    ----------
    coordinator_address : str
        `host:port` of the first process.
    num_processes : int
    process_id : int
        0 for the process that holds the coordinator.

    Raises
    ------
    RuntimeError
        A backend has started already, or this process has joined before.
    """
    with _lock:
        if _backends or _distributed:
            raise RuntimeError("initialize must be called once, before the first use of a device.")
        if process_id == 0:
            _distributed["service"] = _jaxlib.distributed_service(coordinator_address, num_processes)
        client = _jaxlib.distributed_client(coordinator_address, process_id)
        _distributed["cpu"] = (client, process_id, num_processes)


def shutdown_distributed() -> None:
    """Leave the other processes."""
    with _lock:
        connection = _distributed.pop("cpu", None)
        if connection is not None:
            connection[0].shutdown()
        service = _distributed.pop("service", None)
        if service is not None:
            service.shutdown()


def clear_backends() -> None:
    """Forget the backends; the next use of a device starts new ones. Arrays that live on the old ones keep them alive."""
    with _lock:
        _backends.clear()
        for forget in _on_clear:
            forget()


_on_clear: list[Callable[[], None]] = []
