# SPDX-License-Identifier: Apache-2.0
"""What the Python array API standard asks of a namespace: its version, and what it can do."""

from __future__ import annotations

from typing import Any

from purax import dtypes
from purax.core.hooks import hooks
from purax.runtime import client

__all__ = ["ArrayNamespaceInfo", "array_namespace"]

API_VERSION = "2024.12"

_KINDS = {
    "bool": ("bool",),
    "signed integer": ("int8", "int16", "int32", "int64"),
    "unsigned integer": ("uint8", "uint16", "uint32", "uint64"),
    "real floating": ("float32", "float64"),
    "complex floating": ("complex64", "complex128"),
}
_KINDS["integral"] = _KINDS["signed integer"] + _KINDS["unsigned integer"]
_KINDS["numeric"] = _KINDS["integral"] + _KINDS["real floating"] + _KINDS["complex floating"]


class ArrayNamespaceInfo:
    """The object that ``purax.numpy.__array_namespace_info__()`` gives."""

    def capabilities(self) -> dict[str, Any]:
        """Shapes are static: under `jit` neither boolean masks nor anything else makes them. Ranks go up to 64."""
        return {"boolean indexing": False, "data-dependent shapes": False, "max dimensions": 64}

    def default_device(self) -> Any:
        """The device of new arrays; None says: the process's default."""
        return None

    def devices(self) -> list[Any]:
        """All devices."""
        return [None, *client.devices()]

    def default_dtypes(self, *, device: Any = None) -> dict[str, Any]:
        """The dtypes that creation functions use."""
        del device
        return {
            "real floating": dtypes.default_float(),
            "complex floating": dtypes.default_complex(),
            "integral": dtypes.default_int(),
            "indexing": dtypes.default_int(),
        }

    def dtypes(self, *, device: Any = None, kind: str | tuple[str, ...] | None = None) -> dict[str, Any]:
        """The dtypes of one or several kinds by name; those of 64 bits with `enable_x64` only."""
        del device
        names: tuple[str, ...] = ()
        for one in ("bool", "numeric") if kind is None else (kind,) if isinstance(kind, str) else kind:
            names += _KINDS[one]
        found = {name: dtypes.named(name) for name in names}
        return {name: dtype for name, dtype in found.items() if dtypes.narrow(dtype) == dtype}


def array_namespace(api_version: str | None = None) -> Any:
    """The namespace of arrays: `purax.numpy`.

    Raises
    ------
    ValueError
        Another version of the standard is asked for.
    """
    if api_version is not None and api_version != API_VERSION:
        raise ValueError(f"api_version={api_version!r} is not available; available versions are: ['{API_VERSION}']")
    return hooks.numpy
