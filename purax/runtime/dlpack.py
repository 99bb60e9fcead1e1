# SPDX-License-Identifier: Apache-2.0
"""DLPack: arrays to and from other libraries without a trip through NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from purax import dtypes
from purax.core.aval import array_aval, refuse_masked
from purax.lazy import lazy
from purax.runtime import buffers, client
from purax.runtime.array import Array, wrap_host, wrap_placed
from purax.runtime.tensor import read_tensor, tensor_of
from purax.runtime.transfer import device_put, put, to_placement

__all__ = ["dlpack_device", "from_dlpack", "is_supported_dtype", "to_dlpack"]

_jaxlib = lazy("purax.runtime._jaxlib")

_KDL_CPU, _KDL_CUDA, _KDL_ROCM = 1, 2, 10


def dlpack_device(array: Array) -> tuple[int, int]:
    """The device of an array in DLPack's terms: a kind and a number."""
    device = _only_device(array)
    if device.platform == "cpu":
        return _KDL_CPU, 0
    kind = _KDL_ROCM if client.platform_of(device) == "rocm" else _KDL_CUDA
    return kind, int(device.local_hardware_id or 0)


def to_dlpack(
    array: Array,
    *,
    stream: Any = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None,
    copy: bool | None = None,
) -> Any:
    """Share an array with another library: a capsule of DLPack.

    The consumer sees the device memory and must not write to it. A value that lies on the host only, and any value when
    `copy` is true, is handed out as a copy that belongs to the consumer.

    Parameters
    ----------
    array : Array
    stream : int, optional
        The consumer's, on accelerators.
    max_version : (int, int), optional
        The newest version of DLPack that it knows.
    dl_device : (int, int), optional
        Kind and number of the device where it wants the data.
    copy : bool, optional

    Returns
    -------
    PyCapsule

    Raises
    ------
    BufferError
        The array lies on several devices, or its dtype has no name in DLPack.
    """
    if type(array.dtype) is dtypes.KeyDtype:
        raise BufferError("Arrays of random keys cannot be shared: use purax.random.key_data(keys).")
    on_cpu = _only_device(array).platform == "cpu"
    to_host = dl_device is not None and dl_device[0] == _KDL_CPU and not on_cpu
    if to_host and copy is False:
        raise BufferError("An array on an accelerator cannot be shared with the host without a copy.")
    if (array.dtype.kind in "biufc") and (copy or to_host or (on_cpu and array._buf is None)):
        return np.array(array.host).__dlpack__(max_version=max_version)
    try:
        return _jaxlib.dlpack_capsule(array.buffer, stream)
    except (_jaxlib.RawError, RuntimeError) as error:
        raise BufferError(f"An array of type {array.aval.str_short()} cannot be shared by DLPack: {error}") from None


def is_supported_dtype(dtype: Any) -> bool:
    """Whether DLPack has a name for a dtype."""
    found = dtypes.named(dtype)
    return not dtypes.is_key(found) and (found.kind in "biufc" or found == dtypes.bfloat16)


def _only_device(array: Array) -> Any:
    sharding = array.sharding
    if sharding.num_devices != 1:
        raise BufferError(f"DLPack shares arrays on one device; this one lies on {sharding.num_devices}.")
    return sharding.device_assignment[0]


def from_dlpack(external_array: Any, device: Any = None, copy: bool | None = None) -> Array:
    """Make an array of what another library shares through DLPack.

    Parameters
    ----------
    external_array : object with `__dlpack__` and `__dlpack_device__`
    device : Device or Sharding, optional
        Where the array is to lie; where it lies now by default.
    copy : bool, optional
        False uses the memory of the other library, which nobody may then write to. Host memory is copied otherwise.

    Returns
    -------
    Array

    Raises
    ------
    TypeError
        The object does not speak DLPack.
    """
    if isinstance(external_array, Array):
        return external_array if device is None else device_put(external_array, device)
    if not hasattr(external_array, "__dlpack__"):
        raise TypeError(
            f"from_dlpack needs an object with __dlpack__ and __dlpack_device__, not {type(external_array).__name__}."
        )
    refuse_masked(external_array)
    kind, number = map(int, external_array.__dlpack_device__())
    if kind == _KDL_CPU:
        try:
            value = np.from_dlpack(external_array)
        except (RuntimeError, BufferError):  # a dtype that NumPy has no name for
            value = read_tensor(external_array.__dlpack__())
        aval = array_aval(value.shape, value.dtype)
        if copy is False and device is None:
            return wrap_host(aval, value)
        return put(value, aval, to_placement(device))
    owner = _owner(kind, number)
    capsule = external_array.__dlpack__()
    tensor = tensor_of(capsule)
    aval = array_aval(tensor.sizes, tensor.numpy_dtype)
    placement = None if owner is client.backend().local_devices[0] else buffers.single_placement(owner, False)
    shared = wrap_placed(aval, _jaxlib.from_dlpack_capsule(capsule, owner, None), placement)
    return shared if device is None else device_put(shared, device)


def _owner(kind: int, number: int) -> Any:
    name = {_KDL_CUDA: "cuda", _KDL_ROCM: "rocm"}.get(kind)
    if name is None:
        raise BufferError(f"purax has no device of DLPack's kind {kind}.")
    for device in client.backend(name).local_devices:
        if device.local_hardware_id == number:
            return device
    raise BufferError(f"purax does not see the {name} device {number}.")
