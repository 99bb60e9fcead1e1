# SPDX-License-Identifier: Apache-2.0
"""Values onto devices, between devices, and back.

Memory that a caller owns is read during the call and never after it: small arrays are copied on the host, large ones into a
device buffer. So whatever the caller writes into its NumPy array later, no purax array changes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from purax import dtypes, errors
from purax.core.aval import ShapedArray, array_aval, host_aval, refuse_masked, unwrapped
from purax.core.trace import Tracer, aval_of
from purax.lazy import lazy
from purax.runtime import buffers, client
from purax.runtime.array import Array, wrap_host, wrap_placed
from purax.runtime.tensor import HOST_ONLY
from purax.sharding import NamedSharding, PartitionSpec, Placement, Sharding, current_mesh, placement_of
from purax.sharding.mesh import is_local
from purax.sharding.named import shard_slices

__all__ = [
    "HOST_LIMIT",
    "buffer_on",
    "device_get",
    "device_put",
    "make_array_from_callback",
    "make_array_from_process_local_data",
    "make_array_from_single_device_arrays",
    "put",
    "to_placement",
]

_jaxlib = lazy("purax.runtime._jaxlib")
tree = lazy("purax.tree")  # which loads jaxlib

HOST_LIMIT = 16384
"""Arrays of up to this many elements stay on the host until a device needs them (CPU platform only)."""

_SCALAR_LIMIT = 4096
_scalars: dict[tuple[type, Any, ShapedArray], np.ndarray] = {}


# ---- host to device


def put(value: Any, aval: ShapedArray, placement: Placement | None = None) -> Array:
    """Make an array of a host value.

    Parameters
    ----------
    value : bool, int, float, complex, numpy scalar or array
        Its memory is not read after the call returns. For random keys, the uint32 words.
    aval : ShapedArray
        What the array is to be; the value is cast to its dtype, without warnings.
    placement : Placement, optional
        Where it is to lie. The default follows `config.default_device`.

    Returns
    -------
    Array
    """
    if placement is None:
        placement = client.default_placement()
    elif placement.explicit:
        aval = placement.typed(aval)
    kind = type(value)
    if kind is float or kind is int or kind is bool or kind is complex:
        host = _scalar(kind, value, aval)
    else:
        host, copied = _cast(value, aval)
        on_cpu = client.is_cpu_default() if placement is None else _is_cpu(placement)
        if not (on_cpu and aval.size <= HOST_LIMIT) and aval.dtype not in HOST_ONLY:
            return wrap_placed(aval, buffers.put_raw(aval, host, placement, owned=copied), placement)
        if not copied:
            host = np.array(host)
    result = wrap_host(aval, host)
    if placement is not None:
        result._placement = placement
        if len(placement.devices) > 1:
            result._buf = buffers.put_raw(aval, host, placement)
    return result


def _scalar(kind: type, value: Any, aval: ShapedArray) -> np.ndarray:
    """A 0-d array of a Python scalar; remembered, except for zero, whose sign equality does not see."""
    if value == 0 or value != value:
        return _fill(value, aval.dtype)
    key = (kind, value, aval)
    found = _scalars.get(key)
    if found is None:
        if len(_scalars) >= _SCALAR_LIMIT:
            _scalars.clear()
        found = _scalars[key] = _fill(value, aval.dtype)
    return found


def _fill(value: Any, dtype: Any) -> np.ndarray:
    try:
        with np.errstate(over="ignore"):
            return np.array(value, dtype)
    except OverflowError:
        raise errors.IntegerOverflowError(
            errors.explain(f"the Python integer {value} was met.", f"It does not fit {dtype}.", "use a wider dtype.")
        ) from None


def _cast(value: Any, aval: ShapedArray) -> tuple[np.ndarray, bool]:
    """The value as an array of the aval's dtype, and whether that made a copy."""
    host = value if type(value) is np.ndarray else np.asarray(value)
    dtype = aval.dtype
    if host.dtype == dtype or type(dtype) is dtypes.KeyDtype:
        return host, False
    with np.errstate(all="ignore"):
        return host.astype(dtype), True


def _is_cpu(placement: Placement) -> bool:
    return bool(placement.devices[0].platform == "cpu")


def to_placement(target: Any, committed: bool = True) -> Placement | None:
    """The placement that a device, a sharding, a platform name or None stands for; `committed` where the user asked for it.

    Raises
    ------
    ValueError
        `target` is none of these.
    """
    if target is None or isinstance(target, Placement):
        return target
    mesh = current_mesh()
    if isinstance(target, NamedSharding) and target.is_abstract and mesh is not None:
        if mesh.shape_tuple != target.mesh.shape_tuple:
            raise ValueError(f"{target} has no devices, and the current mesh has other axes: {mesh}.")
        target = NamedSharding(mesh, target.spec)
    if isinstance(target, Sharding):
        return placement_of(target, committed)
    if isinstance(target, PartitionSpec) and mesh is not None:
        return placement_of(NamedSharding(mesh, target), committed)
    if isinstance(target, str):
        return buffers.single_placement(client.backend(target).local_devices[0], committed)
    if isinstance(target, _jaxlib.Device):
        return buffers.single_placement(target, committed)
    raise ValueError(
        errors.explain(
            f"device_put got a destination of type {type(target).__name__}: {target!r}.",
            fix="give a device (purax.devices()[0]), a sharding, a PartitionSpec of the current mesh, or None.",
        )
    )


def device_put(value: Any, target: Any = None) -> Array:
    """Put one value onto devices.

    Parameters
    ----------
    value : array-like, no tracer
    target : Device, Sharding, Placement, str, optional
        Where it is to lie, which commits it there. None leaves an array where it is and puts other values onto the default
        device.

    Returns
    -------
    Array
        Of the same shape, dtype and weak type. It may share memory with `value` if that is an array already.

    Raises
    ------
    ValueError
        An axis is not divisible by the number of its pieces, or `target` is no place.
    """
    placement = to_placement(target)
    if isinstance(value, Array):
        return value if placement is None or placement is value._placement else _move(value, placement)
    aval = aval_of(value)
    if placement is not None:
        placement.sharding.shard_shape(aval.shape)
    array = unwrapped(value)
    if array is not value:
        return device_put(array, placement)
    return put(value, aval, placement)


def _move(value: Array, placement: Placement) -> Array:
    """The same value elsewhere: shared where it already lies, device to device where the pieces agree, else by the host."""
    aval, source = placement.typed(value.aval), value._placement
    target = placement.sharding
    target.shard_shape(aval.shape)
    if value._np is not None and (aval.size <= HOST_LIMIT or value._buf is None):
        result = wrap_host(aval, value._np)
        result._placement = placement
        if len(placement.devices) > 1 or not _is_cpu(placement):
            result._buf = buffers.put_raw(aval, result._np, placement)  # type: ignore[arg-type]
        return result
    here = value.sharding
    if here.is_equivalent_to(target, aval.ndim):
        return wrap_placed(aval, value.buffer, placement)
    pieces: dict[Any, Any] = {}
    if here.is_fully_addressable and target.is_fully_addressable and not (here.unreduced or target.unreduced):
        parts = buffers.shards_raw(value.buffer, aval, source)
        for part, index in zip(parts, shard_slices(here, aval.shape), strict=True):
            pieces.setdefault(_bounds(index), part)
        wanted = [_bounds(index) for index in shard_slices(target, aval.shape)]
        if all(index in pieces for index in wanted):
            return wrap_placed(aval, buffers.move_raw(aval, [pieces[index] for index in wanted], placement), placement)
    return wrap_placed(aval, buffers.put_raw(aval, value.host, placement), placement)


def buffer_on(array: Array, placement: Placement | None) -> Any:
    """The raw buffer of an array on the devices of a placement: its own where it lies there, else that of a copy.

    Returns
    -------
    raw buffer
    """
    if placement is array._placement:
        return array.buffer
    if placement is None:
        placement = buffers.single_placement(buffers.default_form()[1][0], False)
    return _move(array, placement).buffer


def _bounds(index: tuple[slice, ...]) -> tuple[Any, ...]:
    return tuple((part.start, part.stop) for part in index)


def device_get(value: Any) -> Any:
    """One value as a NumPy array; random keys, and what is no array of ours, are returned as they are.

    Returns
    -------
    numpy.ndarray
        Read-only, and sharing memory with the array where it can.
    """
    aval = getattr(value, "aval", None)
    return value if aval is None or type(aval.dtype) is dtypes.KeyDtype else value.__array__()


# ---- arrays from pieces


def make_array_from_single_device_arrays(
    shape: Sequence[int], sharding: Sharding, arrays: Sequence[Array], *, dtype: Any = None
) -> Array:
    """Join arrays, one on each device, into one array; no element is copied.

    Parameters
    ----------
    shape : sequence of int
        Shape of the whole.
    sharding : Sharding
    arrays : sequence of Array
        The pieces on the devices of this process, in any order.
    dtype : dtype, optional
        That of the pieces, which it must be.

    Returns
    -------
    Array

    Raises
    ------
    TypeError
        `arrays` is no list.
    ValueError
        A device of the sharding has no piece, or a piece has the wrong shape or dtype, or is traced.
    """
    if not isinstance(arrays, (list, tuple)):
        raise TypeError(f"make_array_from_single_device_arrays needs a list of arrays, got {type(arrays).__name__}.")
    for array in arrays:
        if not isinstance(array, Array):
            raise ValueError(f"make_array_from_single_device_arrays joins arrays with elements, got {array!r}.")
    shape = tuple(shape)
    piece = sharding.shard_shape(shape)
    by_device = {array.device: array for array in arrays}
    local = [device for device in sharding.device_assignment if is_local(device)]
    if set(local) != set(by_device):
        raise ValueError(f"The sharding needs one array on each of {local}; got arrays on {list(by_device)}.")
    chosen = [by_device[device] for device in local]
    kind = chosen[0].dtype if dtype is None else dtype
    for array in chosen:
        if array.shape != piece or array.dtype != kind:
            raise ValueError(
                f"Each piece must be {kind}{list(piece)} for the shape {shape} under {sharding}; got {array.aval.str_short()}."
            )
    placement = placement_of(sharding)
    aval = placement.typed(array_aval(shape, kind, chosen[0].weak_type))
    if sharding.num_devices == 1:
        return _move(chosen[0], placement)
    held = buffers.physical(aval)
    form = buffers.compiled_form(placement, held.ndim)[0]
    return wrap_placed(aval, _jaxlib.assemble(held, form, [array.buffer for array in chosen]), placement)


def make_array_from_callback(
    shape: Sequence[int], sharding: Sharding, data_callback: Callable[[Any], Any], dtype: Any = None
) -> Array:
    """Make an array whose pieces a function gives, one call for each piece of this process.

    Parameters
    ----------
    shape : sequence of int
        Shape of the whole.
    sharding : Sharding
    data_callback : callable
        Takes the slices of a piece, returns its elements.
    dtype : dtype, optional
        The dtype of the pieces by default.

    Returns
    -------
    Array

    Raises
    ------
    ValueError
        The callback gave another shape.
    """
    shape = tuple(shape)
    piece = sharding.shard_shape(shape)
    made: dict[Any, tuple[np.ndarray, ShapedArray]] = {}
    parts = []
    for device, index in zip(sharding.device_assignment, shard_slices(sharding, shape), strict=True):
        if is_local(device):
            key = _bounds(index)
            if key not in made:
                made[key] = _piece(data_callback(index), None if dtype is None else dtypes.named(dtype))
                if made[key][1].shape != piece:
                    raise ValueError(
                        f"The callback gave shape {made[key][1].shape} for the piece {index}, not {piece}."
                    )
            parts.append(put(*made[key], buffers.single_placement(device)))
    return make_array_from_single_device_arrays(shape, sharding, parts)


def _piece(value: Any, dtype: Any) -> tuple[np.ndarray, ShapedArray]:
    """A host value (of random keys, the words) and its aval; of `dtype` if one is given."""
    if isinstance(value, Tracer):
        raise errors.UnexpectedTracerError(
            f"make_array_from_callback: the callback gave a traced value of type {value.aval.str_short()}, whose elements are not "
            "known.\nInstead: call it outside of the transformation, or let the callback give NumPy arrays."
        )
    if isinstance(getattr(value, "dtype", None), dtypes.KeyDtype):
        return value.host, value.aval
    refuse_masked(value)
    host = np.asarray(value, dtype)
    return host, host_aval(host) if dtype is None else array_aval(host.shape, host.dtype)


def make_array_from_process_local_data(sharding: Any, local_data: Any, global_shape: Any = None) -> Any:
    """Make arrays of which each process holds a part: the parts are joined along the axes that the sharding cuts.

    Parameters
    ----------
    sharding : Sharding, Device or PartitionSpec
    local_data : numpy.ndarray, or tree of them
        The elements of this process.
    global_shape : sequence of int or None, or tree of them, optional
        Shape of the whole, for all leaves or for those below it. By default each cut axis is as many times longer as there are
        groups of processes along it; an axis of the length of the data is all there.

    Returns
    -------
    Array, or tree of them

    Raises
    ------
    ValueError
        The shape of the data is not what the sharding leaves of the whole to this process.
    """
    placement = to_placement(sharding)
    if placement is None:
        raise ValueError("make_array_from_process_local_data needs a sharding, a device or a PartitionSpec, got None.")

    def join(shape: Any, data: Any) -> Any:
        return tree.map(lambda leaf: _from_local(placement, leaf, shape), data)

    return tree.map(join, global_shape, local_data, is_leaf=_is_shape)


def _is_shape(x: Any) -> bool:
    return x is None or (isinstance(x, (tuple, list)) and all(n is None or isinstance(n, (int, np.integer)) for n in x))


def _from_local(placement: Placement, local_data: Any, global_shape: Sequence[int | None] | None) -> Array:
    refuse_masked(local_data)
    local_data = np.asarray(local_data)
    sharding, ndim = placement.sharding, local_data.ndim
    places = {
        device: place
        for device, place in zip(sharding.device_assignment, sharding.device_indices(ndim), strict=True)
        if is_local(device)
    }
    held = [sorted({place[axis] for place in places.values()}) for axis in range(ndim)]
    cuts = sharding.dimension_cuts(ndim)
    joined = [size * cut // len(own) for size, cut, own in zip(local_data.shape, cuts, held, strict=True)]
    wanted = (None,) * ndim if global_shape is None else tuple(global_shape)
    if len(wanted) != ndim or any(
        size not in (None, whole, part) for size, whole, part in zip(wanted, joined, local_data.shape, strict=True)
    ):
        raise ValueError(
            f"make_array_from_process_local_data: local data of shape {local_data.shape} are part of an array of shape "
            f"{tuple(joined)} under {sharding}, not of one of shape {wanted}."
        )
    shape = tuple(whole if size is None else size for size, whole in zip(wanted, joined, strict=True))
    if sharding.is_fully_addressable:
        return device_put(local_data, placement)
    piece = sharding.shard_shape(shape)
    aval = host_aval(local_data).update(shape=piece)
    for axis in range(ndim):
        if shape[axis] == local_data.shape[axis]:  # the whole axis is here, not the pieces of this process alone
            held[axis] = list(range(cuts[axis]))
    parts = []
    for device, place in places.items():
        starts = [own.index(position) * size for own, position, size in zip(held, place, piece, strict=True)]
        index = tuple(slice(start, start + size) for start, size in zip(starts, piece, strict=True))
        parts.append(put(local_data[index], aval, buffers.single_placement(device)))
    return make_array_from_single_device_arrays(shape, sharding, parts)
