# SPDX-License-Identifier: Apache-2.0
"""Between host arrays and raw buffers: one array in, one buffer out, and back. No Array here.

A raw buffer holds what a device can hold: random keys lie there as their uint32 words, float0 as booleans.

Parameters
----------
aval : ShapedArray
buffer : raw buffer
placement : Placement or None
    None is the default device.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from purax import dtypes, errors, events
from purax.core.aval import ShapedArray, array_aval
from purax.lazy import lazy
from purax.runtime import client
from purax.runtime.tensor import HOST_ONLY, PACKED
from purax.sharding import Placement, SingleDeviceSharding, placement_of
from purax.sharding.mesh import is_local
from purax.sharding.named import shard_slices

__all__ = [
    "compiled_form",
    "default_form",
    "move_raw",
    "physical",
    "piece_of",
    "put_raw",
    "read_raw",
    "shards_raw",
    "single_placement",
]

_jaxlib = lazy("purax.runtime._jaxlib")
_executable = lazy("purax.runtime.executable")  # imports this module

_PHYSICAL: dict[ShapedArray, ShapedArray] = {}


def physical(aval: ShapedArray) -> ShapedArray:
    """The aval of what a device holds for a value of this aval."""
    found = _PHYSICAL.get(aval)
    if found is None:
        dtype = aval.dtype
        if isinstance(dtype, dtypes.KeyDtype):
            spread = aval.spread
            if spread is not None:  # the axes of a key are whole on each device
                spread = spread.replace((*spread.parts, *[()] * len(dtype.key_shape)))
            shape = (*aval.shape, *dtype.key_shape)
            found = array_aval(shape, np.dtype(np.uint32), False, aval.varying, spread)
        else:
            found = array_aval(aval.shape, np.dtype(bool)) if dtype == dtypes.float0 else aval
        _PHYSICAL[aval] = found
    return found


_default: list[tuple[Any, tuple[Any, ...], bool]] = []
client._on_clear.append(_default.clear)


def default_form() -> tuple[Any, tuple[Any, ...], bool]:
    """The default device as jaxlib's sharding, as a tuple of one device, and whether it is a CPU."""
    if not _default:
        backend = client.backend()
        devices = (backend.local_devices[0],)
        _default.append((_jaxlib.raw_sharding(devices, "{replicated}"), devices, backend.name == "cpu"))
    return _default[0]


def single_placement(device: Any, committed: bool = True) -> Placement:
    """The placement on one device; `committed` where the user asked for it."""
    return placement_of(SingleDeviceSharding(device), committed)


def compiled_form(placement: Placement, ndim: int) -> tuple[Any, tuple[Any, ...], bool]:
    """jaxlib's sharding of a placement for arrays with `ndim` axes, its devices in this process, and whether they are CPUs."""
    form = placement.compiled_forms.get(ndim)
    if form is None:
        sharding = _jaxlib.raw_sharding(placement.devices, placement.sharding.hlo_sharding_text(ndim))
        local = tuple(device for device in placement.devices if is_local(device))
        form = (sharding, local, placement.devices[0].platform == "cpu")
        form = placement.compiled_forms.setdefault(ndim, form)
    return form


def piece_of(aval: ShapedArray, placement: Placement) -> ShapedArray:
    """The aval of what one device of a placement holds."""
    held = physical(aval)
    return array_aval((*placement.sharding.shard_shape(aval.shape), *held.shape[aval.ndim :]), held.dtype)


def put_raw(aval: ShapedArray, value: np.ndarray, placement: Placement | None, owned: bool = False) -> Any:
    """Copy a host array of the physical shape and dtype of `aval` into a new buffer.

    Parameters
    ----------
    aval : ShapedArray
    value : numpy.ndarray
        Not read after the call returns, unless `owned`.
    placement : Placement or None
        None is the default device.
    owned : bool
        Nobody will write to the memory of `value` any more, so the buffer may use it as it is.

    Returns
    -------
    raw buffer

    Raises
    ------
    DTypeError
        XLA has no such dtype.
    """
    held = physical(aval)
    if held.dtype in HOST_ONLY:
        raise errors.DTypeError(
            errors.explain(
                f"a value of type {aval.str_short()} was to be put onto a device.",
                "XLA has no such dtype: its arrays live on the host.",
                "convert it first, for instance with x.astype('int8').",
            )
        )
    if value.dtype != held.dtype:  # float0
        value = np.zeros(held.shape, held.dtype)
    copy = _jaxlib.put_alias if owned else _jaxlib.put
    if events.listening:
        events.emit(events.Transferred(value.nbytes, "host to device", _names(placement)))
    if placement is None:
        sharding, devices, _ = _default[0] if _default else default_form()
        return copy(held, sharding, (value,), devices)
    sharding, devices, _ = compiled_form(placement, held.ndim)
    if len(placement.devices) == 1:
        return copy(held, sharding, (value,), devices)
    if placement.sharding.unreduced:
        return _assemble(aval, _terms_of(value, aval, placement), placement)
    pieces = [  # jaxlib 0.10.2 fails (bad_function_call) on repeated elements, that is strides of zero
        np.ascontiguousarray(value[index]) if value.ndim else value
        for device, index in zip(placement.devices, shard_slices(placement.sharding, aval.shape), strict=True)
        if is_local(device)
    ]
    cuts = math.prod(placement.sharding.dimension_cuts(aval.ndim))
    if cuts == 1 or (cuts == len(placement.devices) and value.size):
        return copy(held, sharding, pieces, devices)
    # jaxlib 0.10.2 fails (bad_function_call) where pieces lie on several devices each, and on pieces without elements
    return _assemble(aval, pieces, placement)


def _terms_of(value: np.ndarray, aval: ShapedArray, placement: Placement) -> list[np.ndarray]:
    """A value as a sum over devices: the first along the unreduced axes has it, the others have zeros."""
    sharding = placement.sharding
    rows = zip(placement.devices, shard_slices(sharding, aval.shape), sharding.terms(), strict=True)
    return [
        np.ascontiguousarray(value[index]) if first else np.zeros_like(value[index])
        for device, index, (first, _) in rows
        if is_local(device)
    ]


def move_raw(aval: ShapedArray, pieces: list[Any], placement: Placement) -> Any:
    """Copy the buffers `pieces`, one for each device of a placement, to these devices; a piece that lies there already is shared.

    Returns
    -------
    raw buffer
    """
    held = physical(aval)
    sharding, devices, _ = compiled_form(placement, held.ndim)
    if events.listening:
        events.emit(events.Transferred(aval.size * aval.dtype.itemsize, "device to device", _names(placement)))
    if len(placement.devices) == 1:
        return _jaxlib.put(held, sharding, pieces, devices)
    return _assemble(aval, pieces, placement)


def _names(placement: Placement | None) -> str:
    return ", ".join(map(str, default_form()[1] if placement is None else placement.devices))


def _assemble(aval: ShapedArray, pieces: list[Any], placement: Placement) -> Any:
    held, piece = physical(aval), piece_of(aval, placement)
    sharding, devices, _ = compiled_form(placement, held.ndim)
    moved = [
        _jaxlib.put(piece, compiled_form(single_placement(device), 0)[0], [part], [device])
        for part, device in zip(pieces, devices, strict=True)
    ]
    return _jaxlib.assemble(held, sharding, moved)


def shards_raw(buffer: Any, aval: ShapedArray, placement: Placement | None) -> list[Any]:
    """The buffers on the single devices of this process, in the order of the devices of the placement.

    Returns
    -------
    list of raw buffers
    """
    if placement is None or len(placement.devices) == 1:
        return [buffer]
    held = physical(aval)
    _, devices, on_cpu = compiled_form(placement, held.ndim)
    if not on_cpu:
        parts: list[Any] = _jaxlib.shards(buffer)
        return parts
    piece = piece_of(aval, placement)
    if held.dtype in PACKED:
        whole = read_raw(buffer, aval, placement)
        windows = [
            whole[index]
            for device, index in zip(placement.devices, shard_slices(placement.sharding, aval.shape), strict=True)
            if is_local(device)
        ]
    else:
        windows = _windows(buffer, held, piece, placement)
    return [
        _jaxlib.put_alias(piece, compiled_form(single_placement(device), 0)[0], [part], [device])
        for part, device in zip(windows, devices, strict=True)
    ]


def _windows(buffer: Any, held: ShapedArray, piece: ShapedArray, placement: Placement) -> list[np.ndarray]:
    """The pieces of a buffer over several CPU devices as host arrays over its memory, in the order of the devices.

    jaxlib shows the first piece only, so each in turn is made the first.
    """
    text = placement.sharding.hlo_sharding_text(held.ndim)
    seen = []
    for device in compiled_form(placement, held.ndim)[1]:
        key = (held.ndim, device)
        turned = placement.compiled_forms.get(key)
        if turned is None:
            order = [device, *(other for other in placement.devices if other is not device)]
            turned = placement.compiled_forms.setdefault(key, _jaxlib.raw_sharding(order, text))
        seen.append(_jaxlib.read_piece(_jaxlib.first_piece_elsewhere(buffer, turned), piece.dtype, piece.shape))
    return seen


def _summed(buffer: Any, aval: ShapedArray, placement: Placement) -> np.ndarray:
    """The sum of the terms that devices hold."""
    sharding, held = placement.sharding, physical(aval)
    total = np.zeros(held.shape, held.dtype)
    parts = shards_raw(buffer, aval, placement)
    for part, device, index, (_, own) in zip(
        parts, placement.devices, shard_slices(sharding, aval.shape), sharding.terms(), strict=True
    ):
        if own:
            total[index] += read_raw(part, piece_of(aval, placement), single_placement(device))
    total.setflags(write=False)
    return total


def read_raw(buffer: Any, aval: ShapedArray, placement: Placement | None) -> np.ndarray:
    """The elements of a buffer as a read-only host array of the physical shape and dtype; waits for them.

    On CPU the array is a window on the memory of the buffer, which it keeps alive.

    Raises
    ------
    JaxRuntimeError
        The computation that was to fill the buffer failed.
    RuntimeError
        Part of the array lies with other processes.
    """
    held = physical(aval)
    if placement is not None and placement.sharding.unreduced:
        return _summed(buffer, aval, placement)
    try:
        if held.dtype in PACKED:
            buffer, wide = _executable.widen(buffer, held, placement)
            return read_raw(buffer, wide, placement).astype(held.dtype)
        if placement is None:
            value = _read_one(buffer, held, default_form()[2])
        elif len(placement.devices) == 1:
            value = _read_one(buffer, held, compiled_form(placement, held.ndim)[2])
        else:
            value = _read_many(buffer, aval, held, placement)
    except _jaxlib.RawError as error:
        failed = _jaxlib.clean_error(error)
        raise failed from failed.__cause__
    if aval.dtype == dtypes.float0:
        value = np.zeros(aval.shape, dtypes.float0)
    value.setflags(write=False)
    return value


def _read_one(buffer: Any, held: ShapedArray, on_cpu: bool) -> np.ndarray:
    if on_cpu:
        value: np.ndarray = _jaxlib.read_cpu(buffer, held.dtype, held.shape)
        return value
    if events.listening:
        events.emit(events.Transferred(held.size * held.dtype.itemsize, "device to host"))
    value = _jaxlib.read_copy(buffer)
    return value


def _read_many(buffer: Any, aval: ShapedArray, held: ShapedArray, placement: Placement) -> np.ndarray:
    sharding, on_cpu, piece = placement.sharding, compiled_form(placement, held.ndim)[2], piece_of(aval, placement)
    if sharding.is_fully_replicated:
        if on_cpu:
            return _jaxlib.read_piece(buffer, held.dtype, held.shape)
        return _jaxlib.read_copy(_jaxlib.shards(buffer)[0])
    if not sharding.is_fully_addressable:
        raise RuntimeError(
            errors.explain(
                f"the elements of an array of type {aval.str_short()} were read.",
                "Part of it lies on devices of other processes.",
                "read `x.addressable_shards`, or replicate the array first.",
            )
        )
    parts = _windows(buffer, held, piece, placement) if on_cpu else map(_jaxlib.read_copy, _jaxlib.shards(buffer))
    whole = np.empty(held.shape, held.dtype)
    for part, index in zip(parts, shard_slices(sharding, aval.shape), strict=True):
        whole[index] = part
    return whole
