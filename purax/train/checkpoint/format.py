# SPDX-License-Identifier: Apache-2.0
"""Named arrays as bytes in the safetensors format, with a checksum; files that are whole or not there at all."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from purax.errors import DamagedFileError
from purax.lazy import lazy

__all__ = ["dumps", "loads", "read_file", "write_file"]

_INSTALL = "install it by `pip install 'purax[train]'`, to save and load parameters"
_safetensors = lazy("safetensors", _INSTALL)
_safetensors_numpy = lazy("safetensors.numpy", _INSTALL)

_DTYPES: dict[str, Any] = {
    "BOOL": np.bool_,
    "I8": np.int8,
    "I16": np.int16,
    "I32": np.int32,
    "I64": np.int64,
    "U8": np.uint8,
    "U16": np.uint16,
    "U32": np.uint32,
    "U64": np.uint64,
    "F16": np.float16,
    "F32": np.float32,
    "F64": np.float64,
    "BF16": ml_dtypes.bfloat16,
    "F8_E4M3": ml_dtypes.float8_e4m3fn,
    "F8_E5M2": ml_dtypes.float8_e5m2,
    "C64": np.complex64,
}
_STORABLE = {np.dtype(dtype).name for dtype in _DTYPES.values()}
_CHECKSUM = "purax.checksum"
_VIEWED = "purax.dtypes"


def _checksum(arrays: Mapping[str, np.ndarray]) -> str:
    """CRC-32 of names, dtypes, shapes and elements."""
    value = 0
    for name in sorted(arrays):
        array = arrays[name]
        value = zlib.crc32(f"{name} {array.dtype.name} {array.shape}".encode(), value)
        value = zlib.crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data, value)
    return f"{value:08x}"


def dumps(arrays: Mapping[str, np.ndarray], metadata: Mapping[str, str] | None = None) -> bytes:
    """Write named arrays as bytes in the safetensors format.

    Parameters
    ----------
    arrays : mapping from str to array
        Of any dtype of fixed size; dtypes that the format does not know are stored as bytes and named in the metadata.
    metadata : mapping from str to str, optional
        Text that goes into the header.

    Returns
    -------
    bytes
        What `loads` reads, and any other reader of safetensors.
    """
    stored: dict[str, np.ndarray] = {}
    viewed: dict[str, str] = {}
    for name, array in arrays.items():
        # ascontiguousarray makes rank 0 into rank 1.
        whole = np.ascontiguousarray(array).reshape(np.shape(array))
        if whole.dtype.name not in _STORABLE:
            viewed[name] = whole.dtype.name
            whole = whole[..., None].view(np.uint8)
        stored[name] = whole
    header = {**(metadata or {}), _CHECKSUM: _checksum(stored)}
    if viewed:
        header[_VIEWED] = json.dumps(viewed)
    return bytes(_safetensors_numpy.save(stored, metadata=header))


def loads(data: bytes, source: str = "the data") -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Read named arrays from bytes in the safetensors format.

    Parameters
    ----------
    data : bytes
        From `dumps`, or from another writer of safetensors.
    source : str
        What to call the data in an error, such as the name of the file.

    Returns
    -------
    tuple of (dict from str to array, dict from str to str)
        The arrays, which are read-only, and the metadata.

    Raises
    ------
    DamagedFileError
        If the data are no safetensors data, are cut off, or have another checksum than when they were written.
    """
    try:
        arrays = {
            name: np.frombuffer(view["data"], _DTYPES[view["dtype"]]).reshape(view["shape"])
            for name, view in _safetensors.deserialize(data)
        }
        length = int.from_bytes(data[:8], "little")
        metadata: dict[str, str] = json.loads(data[8 : 8 + length]).get("__metadata__", {})
    except (_safetensors.SafetensorError, ValueError) as error:
        raise DamagedFileError(
            f"{source} does not hold whole safetensors data ({len(data)} bytes; {error}); "
            "copy it again, or take an older checkpoint"
        ) from error
    except KeyError as error:
        raise DamagedFileError(f"{source} holds a dtype that is not known here: {error}") from error
    if _CHECKSUM in metadata and metadata[_CHECKSUM] != _checksum(arrays):
        raise DamagedFileError(
            f"{source} is damaged: its checksum is not the one it was written with; "
            "copy it again, or take an older checkpoint"
        )
    for name, dtype in json.loads(metadata.pop(_VIEWED, "{}")).items():
        arrays[name] = arrays[name].view(np.dtype(dtype))[..., 0]
    metadata.pop(_CHECKSUM, None)
    return arrays, metadata


def write_file(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file so that at every moment the old or the new one is there, whole.

    Parameters
    ----------
    path : path
        The file; missing folders are made.
    data : bytes
        All of it.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        # mkstemp lets only the owner read; an ordinary new file follows the process's mask.
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def read_file(path: str | os.PathLike[str]) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Read the named arrays of a safetensors file.

    Parameters
    ----------
    path : path
        The file.

    Returns
    -------
    tuple of (dict from str to array, dict from str to str)
        As `loads` gives.

    Raises
    ------
    DamagedFileError
        If the file is not whole.
    """
    return loads(Path(path).read_bytes(), str(path))
