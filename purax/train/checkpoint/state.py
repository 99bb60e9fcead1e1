# SPDX-License-Identifier: Apache-2.0
"""Saving and restoring whole trees: parameters, optimizer states, training states."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from purax import numpy as pnp
from purax import tree
from purax.errors import CheckpointMismatchError
from purax.train.checkpoint import format as file_format
from purax.train.checkpoint.structure import check_same, describe, named_leaves, rebuild, store

__all__ = ["from_bytes", "load_params", "restore", "save", "save_params", "to_bytes"]

_STRUCTURE = "purax.structure"


def to_bytes(target: Any, metadata: Mapping[str, str] | None = None) -> bytes:
    """Write a tree as bytes, in the safetensors format.

    Parameters
    ----------
    target : tree of arrays, random keys and numbers
        Such as a `TrainState` or an optimizer's state. Static fields (functions) are not written.
    metadata : mapping from str to str, optional
        Text that goes into the header.

    Returns
    -------
    bytes
        The values, with the names and types of all nodes.
    """
    arrays = {name: store(leaf) for name, leaf in named_leaves(target)}
    structure = json.dumps(describe(target), separators=(",", ":"))
    return file_format.dumps(arrays, {**(metadata or {}), _STRUCTURE: structure})


def from_bytes(target: Any, data: bytes, source: str = "the data") -> Any:
    """Read a tree from bytes.

    Parameters
    ----------
    target : tree
        Of the structure, shapes and dtypes that are wanted; its values are not used, its static fields are kept.
    data : bytes
        From `to_bytes`, or safetensors data with the same names.
    source : str
        What to call the data in an error.

    Returns
    -------
    tree
        Of the types of the target, with the saved values.

    Raises
    ------
    CheckpointMismatchError
        If structure, names, shapes or dtypes differ; the message lists the differences.
    DamagedFileError
        If the data are not whole.
    """
    arrays, metadata = file_format.loads(data, source)
    wanted = describe(target)
    if _STRUCTURE in metadata:
        check_same(json.loads(metadata[_STRUCTURE]), wanted, source)
    else:
        check_same(_leaves_only(describe(arrays)), _leaves_only(wanted), source)
    values = [rebuild(arrays[name], leaf) for name, leaf in named_leaves(target)]
    return tree.unflatten(tree.structure(target), values)


def _leaves_only(description: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in description.items() if not name.endswith("()")}


def save(path: str | os.PathLike[str], target: Any, metadata: Mapping[str, str] | None = None) -> None:
    """Save a tree in a file; a file of that name is replaced only once the new one is whole.

    Parameters
    ----------
    path : path
        The file; missing folders are made.
    target, metadata
        As in `to_bytes`.
    """
    file_format.write_file(path, to_bytes(target, metadata))


def restore(path: str | os.PathLike[str], target: Any) -> Any:
    """Restore a tree from a file.

    Parameters
    ----------
    path : path
        A file written by `save`.
    target : tree
        As in `from_bytes`.

    Returns
    -------
    tree
        Of the types of the target, with the saved values.

    Raises
    ------
    CheckpointMismatchError
        If structure, names, shapes or dtypes differ.
    DamagedFileError
        If the file is not whole.
    """
    return from_bytes(target, Path(path).read_bytes(), str(path))


def save_params(path: str | os.PathLike[str], params: Any, metadata: Mapping[str, str] | None = None) -> None:
    """Save nested dictionaries of arrays as a plain safetensors file, with names such as "dense.kernel".

    Parameters
    ----------
    path : path
        The file; missing folders are made.
    params : nested dict of arrays
        Keys are strings without dots.
    metadata : mapping from str to str, optional
        Text that goes into the header.

    Raises
    ------
    ValueError
        If a key holds a dot, so that the names could not be taken apart again.
    """
    for key_path, _ in tree.leaves_with_path(params):
        dotted = [str(key) for key in key_path if "." in str(getattr(key, "key", ""))]
        if dotted:
            raise ValueError(f"save_params: the key {dotted[0]} holds a dot; use save(), or rename it")
    arrays = {name: store(leaf) for name, leaf in named_leaves(params)}
    file_format.write_file(path, file_format.dumps(arrays, metadata))


def load_params(path: str | os.PathLike[str], target: Any = None) -> tuple[Any, dict[str, str]]:
    """Load nested dictionaries of arrays from a safetensors file, whoever wrote it.

    Parameters
    ----------
    path : path
        The file.
    target : nested dict of arrays (or of shapes and dtypes), optional
        What is wanted; anything goes if left out.

    Returns
    -------
    tuple of (nested dict of arrays, dict from str to str)
        The parameters and the metadata.

    Raises
    ------
    CheckpointMismatchError
        If names, shapes or dtypes differ from the target's, or one name is the beginning of another.
    DamagedFileError
        If the file is not whole.
    """
    arrays, metadata = file_format.read_file(path)
    params: dict[str, Any] = {}
    for name, array in arrays.items():
        *folders, last = name.split(".")
        place = params
        for folder in folders:
            place = place.setdefault(folder, {})
            if not isinstance(place, dict):
                raise CheckpointMismatchError(f"{path}: the name {name!r} goes on where another one ends")
        place[last] = pnp.asarray(array)
    if target is not None:
        check_same(_leaves_only(describe(params)), _leaves_only(describe(target)), str(path))
    metadata.pop(_STRUCTURE, None)
    return params, metadata
