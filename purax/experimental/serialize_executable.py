# SPDX-License-Identifier: Apache-2.0
"""Compiled programs as bytes: compiled in one process, run in another one with the same jaxlib on the same kind of processor.

Bytes hold machine code, and loading them runs what they hold: never load bytes that you do not trust. `purax.export` keeps
programs that are compiled where they are loaded, and can be read by later versions.

The bytes are a first line with the version of the format, a SHA-256 of what follows, the length of a JSON header, the header (what
they were made for), the executable, and the pickled calling convention. Devices are written as their numbers in the program.
"""

from __future__ import annotations

import hashlib
import json
import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np

from purax import errors
from purax.lazy import lazy
from purax.pipeline.evaluate import as_array
from purax.pipeline.stages import Compiled, Convention
from purax.runtime import cache, client
from purax.runtime import executable as runtime_executable
from purax.sharding import Mesh, NamedSharding, SingleDeviceSharding, placement_of

__all__ = ["deserialize_and_load", "serialize"]

_jaxlib = lazy("purax.runtime._jaxlib")
_MAGIC = b"purax compiled program 1\n"
_HEAD = len(_MAGIC) + hashlib.sha256().digest_size


def serialize(compiled: Compiled) -> tuple[bytes, Any, Any]:
    """A compiled program as bytes, and the structures of its arguments and its output, which are not in them.

    Arrays that the function captured are written along.

    Parameters
    ----------
    compiled : Compiled
        What `jit(f).lower(...).compile()` gave.

    Returns
    -------
    (bytes, PyTreeDef, PyTreeDef)
        `pickle` can keep all three, if it can keep the types of nodes.

    Raises
    ------
    ValueError
        The program needs something of this process: mutable references, Python functions, checks.

    Examples
    --------
    >>> from purax.experimental.serialize_executable import deserialize_and_load, serialize
    >>> compiled = purax.jit(lambda x: {"twice": 2 * x}).lower(np.float32(1)).compile()
    >>> deserialize_and_load(*serialize(compiled))(np.float32(21))
    {'twice': Array(42., dtype=float32)}
    """
    told, executable = compiled._convention, compiled._executable
    if compiled._bound:
        raise ValueError(
            errors.explain(
                f"can't serialize with {compiled._bound}: the program of {executable.name or 'a function'} needs it.",
                fix="pass values as arguments and return them.",
            )
        )
    numbers = {device: number for number, device in enumerate(executable.devices)}
    text = executable.as_text()
    header = {
        "jaxlib": _jaxlib.VERSION,
        "platform": client.platform_of(executable.devices[0]),
        "kind": executable.devices[0].device_kind,
        "processor": cache.processor_features(),
        "devices": [device.id for device in executable.devices],
        "lapack": "lapack_" in text or "tridiagonal_solve_perturbed_ffi" in text,
    }
    # Structures go apart: their nodes may have types that cannot be pickled.
    convention = told._replace(
        in_tree=None, out_tree=None,
        consts=tuple([as_array(x) for x in told.consts]),
        placements=tuple([_form(p, numbers) for p in told.placements]),
    )  # fmt: skip
    outs = executable.out_avals, [_form(p, numbers) for p in executable.out_placements]
    parts = [
        json.dumps(header).encode(),
        executable.serialize(),
        pickle.dumps((tuple(convention), outs, executable.donate, executable.name)),
    ]
    body = b"".join([*[len(part).to_bytes(8, "little") for part in parts], *parts])
    return _MAGIC + hashlib.sha256(body).digest() + body, told.in_tree, told.out_tree


def deserialize_and_load(
    serialized: bytes, in_tree: Any, out_tree: Any, backend: Any = None, execution_devices: Sequence[Any] | None = None
) -> Compiled:  # fmt: skip
    """Load what `serialize` gave. Runs code of the bytes: never load what you do not trust.

    Parameters
    ----------
    serialized : bytes
    in_tree, out_tree : PyTreeDef
        The structures that `serialize` gave.
    backend : str or backend, optional
        Platform to run on; the default one.
    execution_devices : sequence of Device, optional
        As many as the program was compiled for; by default those with the same numbers.

    Returns
    -------
    Compiled

    Raises
    ------
    DamagedFileError
        The bytes are no compiled program, or not whole.
    ValueError
        They were made for another version, platform or processor; or the devices do not fit.
    """
    header, blob, rest = _parts(bytes(serialized))
    devices = _devices(header, backend, execution_devices)
    _check_origin(header, devices[0])
    if header["lapack"]:
        _jaxlib.ensure_lapack()
    fields, (out_avals, out_forms), donate, name = pickle.loads(rest)
    told = Convention(*fields)
    if told.donated and in_tree.num_leaves != len(told.donated) + len(told.in_zeros):
        raise ValueError(
            f"the program of {name} takes {len(told.donated) + len(told.in_zeros)} leaves, and in_tree has {in_tree.num_leaves}: {in_tree}"
        )
    unplaced = None if execution_devices is None else placement_of(SingleDeviceSharding(devices[0]))
    outs = [_placed(form, devices, unplaced) for form in out_forms]
    executable = runtime_executable.load_serialized(
        blob, out_avals=out_avals, devices=devices, out_placements=outs, donate=donate, name=name
    )
    told = told._replace(
        in_tree=in_tree, out_tree=out_tree,
        placements=tuple([_placed(form, devices, unplaced) for form in told.placements]),
    )  # fmt: skip
    return Compiled(told, executable, None)


def _parts(content: bytes) -> tuple[dict[str, Any], bytes, bytes]:
    body = content[_HEAD:]
    if not content.startswith(_MAGIC) or content[len(_MAGIC) : _HEAD] != hashlib.sha256(body).digest():
        raise errors.DamagedFileError(
            f"these {len(content)} bytes are no compiled program of this version of purax, or they are not whole; compile it again"
        )
    sizes = [int.from_bytes(body[i : i + 8], "little") for i in (0, 8, 16)]
    header, blob, rest = (body[24 + sum(sizes[:i]) :][: sizes[i]] for i in range(3))
    return json.loads(header), blob, rest


def _devices(header: dict[str, Any], backend: Any, wanted: Sequence[Any] | None) -> tuple[Any, ...]:
    """The devices that the program is loaded onto, in the order of their numbers in it."""
    chosen = client.backend(backend)
    if wanted is None:
        by_id = {device.id: device for device in chosen.devices}
        missing = [number for number in header["devices"] if number not in by_id]
        if missing:
            raise ValueError(
                errors.explain(
                    f"the program was compiled for the devices {header['devices']}, and there are {len(by_id)}.",
                    fix="pass execution_devices=[...], as many as the program is for.",
                )
            )
        return tuple([by_id[number] for number in header["devices"]])
    if any(device not in chosen.devices for device in wanted):
        raise ValueError(
            f"Execution devices belong to a client other than `backend`: {list(wanted)} are not among {list(chosen.devices)}."
        )
    if len(wanted) != len(header["devices"]):
        raise ValueError(
            f"the program was compiled for {len(header['devices'])} devices, and execution_devices has {len(wanted)}."
        )
    return tuple(wanted)


def _check_origin(header: dict[str, Any], device: Any) -> None:
    """Refuse machine code of another compiler, or for another processor."""
    have = {"jaxlib": _jaxlib.VERSION, "platform": client.platform_of(device), "kind": device.device_kind}
    wrong = [f"{name} {header[name]!r} and not {found!r}" for name, found in have.items() if header[name] != found]
    lacking = sorted(set(header["processor"]).difference(cache.processor_features()))
    if not wrong and have["platform"] == "cpu" and lacking:
        wrong = [f"a processor with {', '.join(lacking)}, which this one lacks"]
    if wrong:
        raise ValueError(
            errors.explain(
                f"the program was compiled for {'; '.join(wrong)}.",
                "Bytes of an executable hold machine code of one compiler for one kind of processor.",
                "compile it here, or keep it by purax.export, which is compiled where it is loaded.",
            )
        )


# --- placements -------------------------------------------------------------------------------------------------------------


def _form(placement: Any, numbers: dict[Any, int]) -> Any:
    """A placement without devices; None is the default device."""
    if placement is None:
        return None
    sharding = placement.sharding
    if isinstance(sharding, NamedSharding):
        mesh = sharding.mesh
        grid = np.vectorize(numbers.__getitem__, otypes=[np.int64])(mesh.devices)
        return placement.committed, grid, mesh.axis_names, mesh.axis_types, sharding.spec
    return placement.committed, numbers[placement.devices[0]]


def _placed(form: Any, devices: Sequence[Any], default: Any) -> Any:
    """The placement on these devices; `default` where none was said."""
    if form is None:
        return default
    if len(form) == 2:
        return placement_of(SingleDeviceSharding(devices[form[1]]), form[0])
    committed, grid, names, types, spec = form
    chosen = np.empty(grid.size, object)
    chosen[:] = [devices[number] for number in grid.flat]
    return placement_of(NamedSharding(Mesh(chosen.reshape(grid.shape), names, types), spec), committed)
