# SPDX-License-Identifier: Apache-2.0
"""Values that several processes hand to each other. With one process, each function is what it says, without communication.

All processes call these functions in the same order, with arrays of the same shapes and dtypes.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

from purax import tree
from purax.control.jit import jit
from purax.runtime import client
from purax.runtime.array import Array
from purax.runtime.transfer import make_array_from_process_local_data, make_array_from_single_device_arrays
from purax.sharding import Mesh, NamedSharding, PartitionSpec

__all__ = [
    "assert_equal", "broadcast_one_to_all", "global_array_to_host_local_array", "host_local_array_to_global_array",
    "process_allgather", "sync_global_devices",
]  # fmt: skip


def process_allgather(in_tree: Any, tiled: bool = False) -> Any:
    """The values of all processes, in the order of their numbers.

    Parameters
    ----------
    in_tree : pytree of arrays
        What this process gives; or arrays that are spread over the processes, which are read as a whole.
    tiled : bool
        Join along the first axis instead of stacking along a new one.

    Returns
    -------
    pytree of numpy.ndarray

    Raises
    ------
    ValueError
        An array that is spread over the processes was to be stacked.
    """
    return tree.map(lambda x: _gather(x, tiled), in_tree)


def broadcast_one_to_all(in_tree: Any, is_source: bool | None = None) -> Any:
    """The values of one process, in all of them.

    Parameters
    ----------
    in_tree : pytree of arrays
    is_source : bool, optional
        Whether this process is the one; by default the process 0 is.

    Returns
    -------
    pytree of numpy.ndarray

    Raises
    ------
    ValueError
        Not exactly one process says that it is the source.
    """
    if is_source is None:
        is_source = client.process_index() == 0
    sources = np.flatnonzero(_gather(np.array(is_source), tiled=False))
    if len(sources) != 1:
        raise ValueError(f"broadcast_one_to_all has one source; the processes {sources.tolist()} say that they are.")
    return tree.map(lambda x: _gather(x, tiled=False)[sources[0]], in_tree)


def sync_global_devices(name: str) -> None:
    """Wait until all processes are here.

    Parameters
    ----------
    name : str
        The same in all processes.

    Raises
    ------
    AssertionError
        The processes wait for different names.
    """
    assert_equal(
        np.uint32(zlib.crc32(name.encode())), f"sync_global_devices: processes wait for other names than {name!r}"
    )


def assert_equal(in_tree: Any, fail_message: str = "") -> None:
    """Raise unless all processes have the same values.

    Parameters
    ----------
    in_tree : pytree of arrays
    fail_message : str

    Raises
    ------
    AssertionError
        They differ.
    """
    for x in tree.leaves(in_tree):
        found = _gather(x, tiled=False)
        if not all(np.array_equal(found[0], other) for other in found):
            raise AssertionError(f"{fail_message or 'processes have different values'}: {found}")


def host_local_array_to_global_array(local_inputs: Any, global_mesh: Mesh, pspecs: Any) -> Any:
    """Arrays over all devices of a mesh, of which each process gives its part.

    Parameters
    ----------
    local_inputs : pytree of arrays
        The part of this process: what the devices of `global_mesh.local_mesh` hold.
    global_mesh : Mesh
    pspecs : pytree prefix of PartitionSpec

    Returns
    -------
    pytree of Array
    """
    return _with_specs(
        "host_local_array_to_global_array", local_inputs, pspecs, lambda x, spec: _to_global(x, global_mesh, spec)
    )


def global_array_to_host_local_array(global_inputs: Any, global_mesh: Mesh, pspecs: Any) -> Any:
    """The part of this process of arrays over all devices of a mesh.

    Parameters
    ----------
    global_inputs : pytree of Array
    global_mesh : Mesh
    pspecs : pytree prefix of PartitionSpec
        How the arrays are cut.

    Returns
    -------
    pytree of Array
        They lie on the devices of `global_mesh.local_mesh`.
    """
    return _with_specs(
        "global_array_to_host_local_array", global_inputs, pspecs, lambda x, spec: _to_local(x, global_mesh, spec)
    )


def _gather(x: Any, tiled: bool) -> np.ndarray:
    if isinstance(x, Array) and not x.is_fully_addressable:
        if not tiled:
            raise ValueError(
                f"an array that is spread over processes is one already: gather {x.aval.str_short()} with tiled=True."
            )
        sharding: Any = x.sharding
        return np.asarray(_whole(x, NamedSharding(sharding.mesh, PartitionSpec())))
    own = np.asarray(x)
    own = own if tiled and own.ndim else own[None]
    processes = client.process_count()
    if processes == 1:
        return own
    devices = np.array(client.devices(), object).reshape(processes, -1)
    mesh = Mesh(devices, ("process", "device"))
    spread = make_array_from_process_local_data(NamedSharding(mesh, PartitionSpec("process")), own)
    return np.asarray(_whole(spread, NamedSharding(mesh, PartitionSpec())))


def _whole(x: Any, sharding: NamedSharding) -> Any:
    return jit(lambda x: x, out_shardings=sharding)(x)


def _with_specs(name: str, values: Any, specs: Any, move: Any) -> Any:
    leaves, treedef = tree.flatten(values)
    chosen = tree.flatten_axes(name, treedef, specs)
    return treedef.unflatten([move(x, spec) for x, spec in zip(leaves, chosen, strict=True)])


def _to_global(x: Any, mesh: Mesh, spec: PartitionSpec) -> Any:
    if isinstance(x, Array) and not x.is_fully_addressable:
        return x
    return make_array_from_process_local_data(NamedSharding(mesh, spec), np.asarray(x))


def _to_local(x: Any, mesh: Mesh, spec: PartitionSpec) -> Any:
    if isinstance(x, Array) and x.is_fully_addressable:
        return x
    pieces = [shard.data for shard in x.addressable_shards]
    local = NamedSharding(mesh.local_mesh, spec)
    shape = tuple(n * cut for n, cut in zip(pieces[0].shape, local.dimension_cuts(x.ndim), strict=True))
    return make_array_from_single_device_arrays(shape, local, pieces)
