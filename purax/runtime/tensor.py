# SPDX-License-Identifier: Apache-2.0
"""Memory at an address as a NumPy array: what a capsule of DLPack holds, and the dtypes that XLA packs.

The structures are those of https://dmlc.github.io/dlpack/latest/c_api.html.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from purax import dtypes

__all__ = ["HOST_ONLY", "PACKED", "address_of", "read_tensor", "tensor_of", "wider", "window"]

_NUMBERS = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex", 6: "bool"}
_FLOAT8 = {7: "float8_e3m4", 8: "float8_e4m3", 9: "float8_e4m3b11fnuz", 10: "float8_e4m3fn", 11: "float8_e4m3fnuz",
           12: "float8_e5m2", 13: "float8_e5m2fnuz", 14: "float8_e8m0fnu"}  # fmt: skip


class _Tensor(ctypes.Structure):
    """`DLTensor`, the beginning of what a capsule of the unversioned protocol points at."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_kind", ctypes.c_int32),
        ("device_number", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )

    @property
    def sizes(self) -> tuple[int, ...]:
        """Shape."""
        return tuple(self.shape[axis] for axis in range(self.ndim))

    @property
    def numpy_dtype(self) -> np.dtype:
        """The dtype as NumPy's object."""
        name = _FLOAT8.get(self.code) or f"{_NUMBERS.get(self.code, '?')}{'' if self.code == 6 else self.bits}"
        if self.lanes != 1 or "?" in name:
            raise BufferError(
                f"DLPack's dtype (code {self.code}, {self.bits} bits, {self.lanes} lanes) is not known here."
            )
        found: np.dtype = dtypes.named(name)
        return found


def tensor_of(capsule: Any) -> Any:
    """What an unversioned capsule holds; valid while the capsule lives."""
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    return _Tensor.from_address(pointer(capsule, b"dltensor"))


def read_tensor(capsule: Any) -> np.ndarray:
    """A read-only array over the tensor in a capsule of host memory; the capsule stays alive with it."""
    tensor = tensor_of(capsule)
    shape, dtype = tensor.sizes, tensor.numpy_dtype
    strides = [tensor.strides[axis] for axis in range(tensor.ndim)] if tensor.strides else None
    if 0 in shape:
        return np.empty(shape, dtype)
    if strides is None:
        strides = [int(np.prod(shape[axis + 1 :], dtype=np.int64)) for axis in range(tensor.ndim)]
    reach = 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    flat = window(capsule, address_of(tensor), (reach,), dtype)
    return np.lib.stride_tricks.as_strided(flat, shape, [stride * dtype.itemsize for stride in strides])


def address_of(tensor: Any) -> int:
    """Address of the first element."""
    return int(tensor.data or 0) + int(tensor.byte_offset)


class _Window:
    """Memory that NumPy may read: an address, and what keeps it alive."""

    __slots__ = ("__array_interface__", "keep")
    __array_interface__: dict[str, Any]
    keep: Any


def window(keep: Any, address: int, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """A read-only array over memory that `keep` keeps alive.

    Parameters
    ----------
    keep : object
    address : int
    shape : tuple of int
    dtype : dtype

    Returns
    -------
    NumPy array
    """
    if 0 in shape:
        return np.empty(shape, dtype)
    seen = _Window()
    seen.keep = keep
    seen.__array_interface__ = {"data": (address, True), "shape": shape, "typestr": f"|V{dtype.itemsize}", "version": 3}
    return np.asarray(seen).view(dtype)


# ---- dtypes of less than a byte

_SIZES = {dtype: dtypes.itemsize_bits(dtype) for dtype in dtypes.ALL if not dtypes.is_bool(dtype)}
PACKED = frozenset(dtype for dtype, bits in _SIZES.items() if bits in {2, 4})
"""Dtypes of which several elements share a byte in XLA's memory, but none in NumPy's; DLPack has no names for them."""


def wider(dtype: np.dtype) -> np.dtype:
    """A dtype of whole bytes that holds each value of a packed one."""
    if dtypes.is_float(dtype):
        return np.dtype(np.float32)
    return np.dtype(np.int8 if dtypes.is_signed(dtype) else np.uint8)


HOST_ONLY = frozenset(dtype for dtype, bits in _SIZES.items() if bits in {1, 6})
"""Dtypes that StableHLO or XLA lacks: their arrays live on the host, whatever their size."""
