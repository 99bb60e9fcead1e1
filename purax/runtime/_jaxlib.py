# SPDX-License-Identifier: Apache-2.0
"""The one file that imports jaxlib: XLA in a wheel, and nothing more.

Everything else in purax speaks to devices through the functions here. jaxlib's global switches, its pytree default registry
and its Python-facing classes are left alone, so JAX may live in the same process. Versions 0.10.2 to 0.12 are bridged here.

Some calls of jaxlib look for `jax` by an import of their own, and remember for good what they found: they would load an
installed JAX, or cripple one that is loaded later. Those calls (`ArrayImpl._arrays`, copies to the host, DLPack input) are
never made for CPU buffers: their memory is read through Python's buffer protocol and DLPack output, and one piece of a sharded
buffer by turning the order of its pieces. Only the functions marked so below make them, on accelerators.
"""

from __future__ import annotations

import ctypes
import importlib.util
import mmap
import os
import pathlib
import re
import sys
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from purax import config, errors
from purax.lazy import lazy
from purax.runtime import callback
from purax.runtime.tensor import address_of, tensor_of, window

# Both must happen before jaxlib is loaded: its logger reads the variable once, and its threads must find the tuned allocator.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")


def tune_allocator() -> bool:
    """Keep freed memory in the process instead of giving it back after each step.

    A training step frees and allocates the same tens of megabytes; glibc maps and unmaps them each time, at one page fault
    per 4 KB. The settings work only together. Memory of the process then never shrinks: PURAX_ALLOCATOR=system leaves the
    allocator as it is. With one arena for all, the threads of XLA's compiler would wait for each other a fifth of the time, so
    there is one per core and one more; they grow by 64 MB, and a pad of twice that keeps glibc from giving such a piece back.

    Returns
    -------
    bool
        Whether the allocator was tuned; False on other C libraries and on request.
    """
    if config.allocator == "system" or not sys.platform.startswith("linux"):
        return False
    library = ctypes.CDLL(None)
    if not hasattr(library, "gnu_get_libc_version"):
        return False
    mmap_max, trim_threshold, top_pad, arena_max = -4, -1, -2, -8
    arenas = 1 + (os.cpu_count() or 1)
    settings = ((mmap_max, 0), (trim_threshold, 2**31 - 1), (top_pad, 129 << 20), (arena_max, arenas))
    return all([bool(library.mallopt(name, value)) for name, value in settings])


ALLOCATOR_TUNED = tune_allocator()

import jaxlib  # noqa: E402
from jaxlib import _jax, xla_client  # noqa: E402

ir = lazy("jaxlib.mlir.ir")
stablehlo_dialect = lazy("jaxlib.mlir.dialects.stablehlo")
chlo_dialect = lazy("jaxlib.mlir.dialects.chlo")
sdy_dialect = lazy("jaxlib.mlir.dialects.sdy")
hlo = lazy("jaxlib._hlo")
mlir_extension = lazy("jaxlib.mlir._mlir_libs._jax_mlir_ext")
lapack = lazy("jaxlib.lapack")

VERSION: str = jaxlib.version.__version__
RawError = _jax.JaxRuntimeError
RawBuffer = _jax.ArrayImpl
Device = _jax.Device

_REPLICATED = xla_client.HloSharding.replicate()
_COPY = xla_client.HostBufferSemantics.IMMUTABLE_ONLY_DURING_CALL
_ALIAS = xla_client.HostBufferSemantics.ZERO_COPY


# ---- flags


def has_flag(name: str) -> bool:
    """Whether XLA has a flag of this name: jaxlib has no list of them, but its library holds the names."""
    files = (path for path in pathlib.Path(jaxlib.__file__).parent.iterdir() if path.is_file())
    library = max(files, key=lambda path: path.stat().st_size)
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return content.find(name.encode() + b"\0") >= 0


# ---- clients


def cpu_client(num_devices: int | None, distributed: tuple[Any, int, int] | None = None) -> Any:
    """Make a CPU client; `distributed` is (distributed client, index of this process, number of processes)."""
    if distributed is None:
        return xla_client.make_cpu_client(num_devices=num_devices)
    connection, index, processes = distributed
    collectives = _jax.make_gloo_tcp_collectives(distributed_client=connection, hostname="127.0.0.1")
    return xla_client.make_cpu_client(
        num_devices=num_devices,
        distributed_client=connection,
        node_id=index,
        num_nodes=processes,
        collectives=collectives,
    )


def plugin_client(name: str, library: str, options: dict[str, Any], distributed: Any = None) -> Any:
    """Make a client of a PJRT plugin: a shared library that brings a platform."""
    _load_plugin(name, library)
    return xla_client.make_c_api_client(name, options, distributed)


def described_devices(name: str, library: str, topology: str, options: dict[str, Any]) -> list[Any]:
    """The devices of a topology that a plugin knows: programs can be compiled for them, not run on them."""
    _load_plugin(name, library)
    return list(_jax.get_default_c_api_topology(name, topology, options)._make_compile_only_devices())


def _load_plugin(name: str, library: str) -> None:
    if not xla_client.pjrt_plugin_loaded(name):
        xla_client.load_pjrt_plugin_dynamically(name, library)
    if not xla_client.pjrt_plugin_initialized(name):
        xla_client.initialize_pjrt_plugin(name)


def gpu_plugin_options() -> dict[str, Any]:
    """Options of the GPU plugin, read from XLA's environment variables."""
    return dict(xla_client.generate_pjrt_gpu_plugin_options())


def distributed_service(address: str, processes: int) -> Any:
    """Start the service through which processes find each other; the first process holds it."""
    return _jax.get_distributed_runtime_service(address, processes)


def distributed_client(address: str, index: int) -> Any:
    """Make and connect this process's client of that service."""
    client = _jax.get_distributed_runtime_client(address, index)
    client.connect()
    return client


# ---- shardings and buffers


def raw_sharding(devices: Sequence[Any], hlo_text: str) -> Any:
    """Make jaxlib's object for a sharding written in XLA's notation."""
    hlo = _REPLICATED if hlo_text == "{replicated}" else xla_client.HloSharding.from_string(hlo_text)
    return _jax.GSPMDSharding(xla_client.DeviceList(tuple(devices)), hlo)


_batched_device_put = _jax.batched_device_put


def put(aval: Any, sharding: Any, shards: Sequence[Any], devices: Sequence[Any]) -> Any:
    """Copy host arrays (or buffers of other devices) into one new buffer, one shard per device.

    The memory of the shards is not read after the call returns.
    """
    return _batched_device_put(aval, sharding, shards, devices, True, host_buffer_semantics=_COPY, enable_x64=True)


def put_alias(aval: Any, sharding: Any, shards: Sequence[Any], devices: Sequence[Any]) -> Any:
    """The same without a copy where alignment allows; only for memory that nobody can write to any more."""
    return _batched_device_put(aval, sharding, shards, devices, True, host_buffer_semantics=_ALIAS, enable_x64=True)


def assemble(aval: Any, sharding: Any, buffers: Sequence[Any]) -> Any:
    """Make one buffer over several devices from a buffer on each, without a copy."""
    return _jax.ArrayImpl(aval, sharding, list(buffers), True, True)


def first_piece_elsewhere(buffer: Any, sharding: Any) -> Any:
    """The same buffer with its pieces in another order; none is copied."""
    return xla_client.reorder_shards(buffer, sharding, xla_client.ArrayCopySemantics.REUSE_INPUT)


def shards(buffer: Any) -> list[Any]:
    """The buffers on the single devices of this process. Looks for jax."""
    return list(buffer._arrays)


_NATIVE = frozenset(map(np.dtype, "?bBhHiIlLqQefdFD"))


def read_cpu(buffer: Any, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    """A read-only array over the memory of a buffer on one CPU device; waits for it to be computed."""
    if dtype in _NATIVE:
        return np.asarray(memoryview(buffer))
    return read_piece(buffer, dtype, shape)


def read_piece(buffer: Any, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    """The same for the first piece of a buffer over several CPU devices, and for dtypes without a name in Python.

    A capsule of DLPack keeps the memory alive and makes a donation copy instead of writing into what is seen. Not for the
    dtypes that XLA packs.
    """
    capsule = _jax.buffer_to_dlpack_managed_tensor(buffer)
    buffer.block_until_ready()
    return window((capsule, buffer), address_of(tensor_of(capsule)), shape, dtype)


def address(buffer: Any) -> int:
    """Address of the first element of a buffer on one CPU device. (jaxlib's own function looks for jax.)"""
    return address_of(tensor_of(_jax.buffer_to_dlpack_managed_tensor(buffer)))


def read_copy(buffer: Any) -> np.ndarray:
    """A host copy of a buffer on one device of any platform; waits for it to be computed. Looks for jax."""
    value: np.ndarray = buffer._single_device_array_to_np_array_did_copy()[0]
    value.setflags(write=False)
    return value


def start_copy_out(buffer: Any) -> None:
    """Begin the copy that `read_copy` will wait for. Looks for jax."""
    buffer._copy_single_device_array_to_host_async()


def dlpack_capsule(buffer: Any, stream: Any = None) -> Any:
    """Share a buffer on one device through DLPack."""
    return _jax.buffer_to_dlpack_managed_tensor(buffer, stream)


def from_dlpack_capsule(capsule: Any, device: Any, stream: Any) -> Any:
    """A buffer over memory that another library shares through DLPack. Looks for jax."""
    return _jax.dlpack_managed_tensor_to_buffer(capsule, device, stream)


def result_handler(aval: Any, sharding: Any) -> Any:
    """What turns a result of an executable into a buffer with an aval and a sharding."""
    try:
        return _jax.array_result_handler(aval, sharding, True, True)
    except TypeError:  # 0.12 has no fourth argument
        return _jax.array_result_handler(aval, sharding, True)


# ---- programs


# Options of a compilation that are no flags of XLA.
_BUILD_OPTIONS = frozenset(
    name
    for name in ("exec_time_optimization_effort", "memory_fitting_effort", "memory_fitting_level", "optimization_level")
    if hasattr(_jax.ExecutableBuildOptions, name)  # 0.12 has levels only
)


def compile_options(devices: Sequence[Any], replicas: int, partitions: int, flags: Sequence[tuple[str, Any]]) -> Any:
    """How a program is compiled: for which devices, split in which way, with which XLA flags."""
    options = xla_client.CompileOptions()
    build = options.executable_build_options
    options.num_replicas = build.num_replicas = replicas
    options.num_partitions = build.num_partitions = partitions
    build.use_spmd_partitioning = build.use_shardy_partitioner = partitions > 1
    ids = np.array([device.id for device in devices], np.int32).reshape(replicas, partitions)
    options.device_assignment = xla_client.DeviceAssignment.create(ids)
    for name, value in flags:
        if name in _BUILD_OPTIONS:
            setattr(build, name, value)
    others = [(name, value) for name, value in flags if name not in _BUILD_OPTIONS]
    if others:
        options.env_option_overrides = others
    return options


def compile_text(client: Any, text: str | bytes, devices: Sequence[Any], options: Any, callbacks: Sequence[Any]) -> Any:
    """Compile StableHLO text and load it onto the devices."""
    device_list = xla_client.DeviceList(tuple(devices))
    if callbacks:
        return client.compile_and_load(parse(text), device_list, options, host_callbacks=list(callbacks))
    return client.compile_and_load(text.encode() if isinstance(text, str) else text, device_list, options)


def load_executable(client: Any, blob: bytes, devices: Sequence[Any], options: Any, callbacks: Sequence[Any]) -> Any:
    """Load what `serialize` of a compiled program gave."""
    device_list = xla_client.DeviceList(tuple(devices))
    if callbacks:
        return client.deserialize_executable(blob, device_list, options, list(callbacks))
    return client.deserialize_executable(blob, device_list, options)


def output_tiles(raw: Any) -> list[Any] | None:
    """How a compiled program cuts its results: per result None (whole on each device) or (cuts, device numbers); None for one device.

    The cuts of a result that is held several times have one entry more than it has axes: the number of copies.
    """
    protos = raw.get_output_shardings()
    return None if protos is None else [tiles_of(xla_client.HloSharding.from_proto(proto)) for proto in protos]


def tiles_of(sharding: Any) -> Any:
    """One entry of `output_tiles`."""
    if sharding.is_replicated() or not sharding.is_tiled():
        return None
    return sharding.tile_assignment_dimensions(), sharding.tile_assignment_devices()


def sharding_callback(function: Any) -> bytes:
    """What an `InspectSharding` call carries so that the partitioner calls `function` with the sharding that it chose.

    The function must be kept alive until the program is compiled.
    """
    return bytes(_jax.encode_inspect_sharding_callback(function))


_context: Any = None
_context_lock = threading.Lock()


def mlir_context() -> Any:
    """The MLIR context with every dialect that programs use; made on first use (25 to 60 ms)."""
    global _context
    with _context_lock:
        if _context is None:
            registry = ir.DialectRegistry()
            mlir_extension.register_dialects(registry)
            context = ir.Context()
            context.append_dialect_registry(registry)
            context.load_all_available_dialects()
            for dialect in (stablehlo_dialect, chlo_dialect, sdy_dialect):
                dialect.register_dialect(context)
            _context = context
    return _context


def parse(text: str | bytes) -> Any:
    """Parse StableHLO text into an MLIR module."""
    with mlir_context():
        return ir.Module.parse(text)


def to_portable(text: str) -> bytes:
    """StableHLO text as a portable artifact: XLA of the next months and of the last twelve weeks reads it."""
    requirement = stablehlo_dialect.StablehloCompatibilityRequirement.WEEK_12
    version = stablehlo_dialect.get_version_from_compatibility_requirement(requirement)
    return bytes(_jax.mlir.serialize_portable_artifact(text, version, True))  # how it is split is written in Shardy


_UNNAMED = re.compile(r" loc\((?:#loc\d*|unknown|\"-\":\d+:\d+)\)|^#loc\d* = .*\n?", re.MULTILINE)


def from_portable(blob: bytes) -> str:
    """The text of a portable artifact; of the locations in it, the names of arguments."""
    with mlir_context():
        module = _jax.mlir.deserialize_portable_artifact(blob)
        return _UNNAMED.sub("", module.operation.get_asm(enable_debug_info=True))


def hlo_proto(text: str) -> bytes:
    """StableHLO text as a serialized HLO module, before any optimization."""
    computation = _jax.mlir.mlir_module_to_xla_computation(text.encode(), use_tuple_args=False, return_tuple=False)
    return bytes(computation.as_serialized_hlo_module_proto())


def hlo_text(text: str, metadata: bool = False) -> str:
    """StableHLO text as XLA's HLO text, before any optimization; `metadata` adds names and source lines."""
    computation = _jax.mlir.mlir_module_to_xla_computation(text.encode(), use_tuple_args=False, return_tuple=False)
    if not metadata:
        return str(computation.as_hlo_text())
    options = hlo.HloPrintOptions.short_parsable()
    options.print_metadata = True
    return str(computation.as_hlo_module().to_string(options))


_HEADLINE = "Failed to parse using StableHLO"


def clean_error(error: BaseException) -> BaseException:
    """Word an error of the compiler or a device as one of ours, without the misleading line about parsing.

    Where a callback failed, its exception is the cause.
    """
    failure = callback.failure_of(str(error))
    if failure is not None:
        return failure
    lines = [line for line in str(error).splitlines() if _HEADLINE not in line]
    return errors.JaxRuntimeError("\n".join(lines) or str(error))


# ---- kernels of other libraries


_lapack_lock = threading.Lock()
_lapack_ready = False


def ensure_lapack() -> None:
    """Make LAPACK's kernels known to the CPU compiler; needed once before a program that calls them is run."""
    global _lapack_ready
    with _lapack_lock:
        if not _lapack_ready:
            lapack._lapack.initialize()  # without it a call ends the process
            for name, kernel, version in lapack.registrations()["cpu"]:
                register_kernel(name, kernel, "cpu", version)
            _lapack_ready = True


def register_kernel(name: str, capsule: Any, platform: str, api_version: int = 1) -> None:
    """Make a kernel known to the compiler of a platform, as a PyCapsule of its address."""
    xla_client.register_custom_call_target(name, capsule, platform=platform, api_version=api_version)


def register_type(name: str, registration: Any, platform: str) -> None:
    """Make a type of state that kernels keep known."""
    xla_client.register_custom_type(name, registration, platform=platform)


def register_batch_partitionable(name: str) -> None:
    """Tell the partitioner that it may cut the leading axes of the operands of a kernel."""
    xla_client.register_custom_call_as_batch_partitionable(name)


def load_gpu_kernels(platform: str) -> None:
    """Register the kernels that a GPU plugin package brings along; `platform` is `cuda` or `rocm`."""
    target = platform.upper()
    extension = importlib.import_module(f"{plugin_package(platform)}.{platform}_plugin_extension")
    xla_client.register_custom_call_handler(target, extension.register_custom_call_target)
    xla_client.register_custom_type_handler(target, extension.register_custom_type)
    for module in ("gpu_solver", "gpu_linalg", "gpu_prng", "gpu_sparse"):
        for name, kernel, version in lazy(f"jaxlib.{module}").registrations().get(target, ()):
            register_kernel(name, kernel, target, version)


def plugin_package(platform: str) -> str | None:
    """Name of the installed package with the kernels of a GPU platform, or None."""
    names = {"cuda": ("jax_cuda13_plugin", "jax_cuda12_plugin"), "rocm": ("jax_rocm7_plugin", "jax_rocm60_plugin")}
    return next((name for name in names.get(platform, ()) if importlib.util.find_spec(name)), None)
