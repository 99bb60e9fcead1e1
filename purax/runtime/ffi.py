# SPDX-License-Identifier: Apache-2.0
"""Compiled kernels of users: functions in shared libraries that programs call by name through XLA's FFI."""

from __future__ import annotations

import ctypes
import os
from typing import Any

from purax.lazy import lazy

__all__ = [
    "include_dir", "pycapsule", "register_ffi_target", "register_ffi_target_as_batch_partitionable", "register_ffi_type",
    "register_library",
]  # fmt: skip

_jaxlib = lazy("purax.runtime._jaxlib")
_FUNCTION: Any = ctypes.CFUNCTYPE(None).__mro__[1]  # what all functions of ctypes are


def register_ffi_target(name: str, fn: Any, platform: str = "cpu", api_version: int = 1) -> None:
    """Make a kernel known to the compiler.

    Parameters
    ----------
    name : str
        What programs call it: the target of a `stablehlo.custom_call`.
    fn : PyCapsule or ctypes function
        Address of an XLA FFI handler.
    platform : str
        `cpu`, `cuda` or `rocm`.
    api_version : int
        1 for typed FFI handlers; 0 for functions of the old untyped interface.
    """
    capsule = pycapsule(fn) if isinstance(fn, _FUNCTION) else fn
    target = {"cpu": "cpu", "gpu": "CUDA", "cuda": "CUDA", "rocm": "ROCM"}.get(platform.lower(), platform)
    _jaxlib.register_kernel(name, capsule, target, api_version)


def register_ffi_type(name: str, type_registration: Any, platform: str = "cpu") -> None:
    """Make a type of state that kernels keep between their stages known to the compiler; `name` is unique in the process.

    Parameters
    ----------
    name : str
    type_registration : dict from str to PyCapsule
    platform : str
    """
    _jaxlib.register_type(name, type_registration, platform)


def register_ffi_target_as_batch_partitionable(name: str) -> None:
    """Say that a kernel works on each index of the leading axes by itself, so that programs over devices may cut these."""
    _jaxlib.register_batch_partitionable(name)


def register_library(path: str | os.PathLike[str] | None, symbols: dict[str, str], platform: str = "cpu") -> Any:
    """Open a shared library and register kernels of it.

    Parameters
    ----------
    path : path, optional
        None stands for what the process has loaded already.
    symbols : dict
        For each kernel, the name that programs use and the symbol in the library.
    platform : str

    Returns
    -------
    ctypes.CDLL
        The library, which stays loaded.

    Raises
    ------
    OSError
        The library cannot be opened.
    AttributeError
        It lacks a symbol.
    """
    library = ctypes.CDLL(None if path is None else os.fspath(path))
    for name, symbol in symbols.items():
        register_ffi_target(name, getattr(library, symbol), platform)
    return library


def pycapsule(function: Any) -> Any:
    """The address of a ctypes function as a PyCapsule.

    Returns
    -------
    PyCapsule
    """
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    return new(ctypes.cast(function, ctypes.c_void_p), None, None)


def include_dir() -> str:
    """The folder of XLA's FFI headers, for compiling kernels."""
    return os.path.join(os.path.dirname(_jaxlib.jaxlib.__file__), "include")
