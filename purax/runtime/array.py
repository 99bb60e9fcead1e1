# SPDX-License-Identifier: Apache-2.0
"""Array: an immutable n-dimensional value that lies on one or more devices, on the host, or both.

The value has up to two storages, `_np` (host) and `_buf` (device). Each is filled from the other when it is first asked for;
neither is ever changed. An array without both has been deleted or donated. README.md has the table of who owns what.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from purax import dtypes, errors
from purax.core.aval import ShapedArray, array_aval
from purax.core.hooks import hooks
from purax.core.operators import Operators
from purax.lazy import lazy
from purax.runtime import buffers, client
from purax.sharding import Placement, Sharding, SingleDeviceSharding
from purax.sharding.mesh import is_local
from purax.sharding.named import shard_slices

__all__ = ["Array", "Shard", "wrap_buffer", "wrap_host", "wrap_placed"]

_jaxlib = lazy("purax.runtime._jaxlib")
_transfer = lazy("purax.runtime.transfer")  # both import this module
_dlpack = lazy("purax.runtime.dlpack")
_ndarray = np.ndarray


class Array(Operators):
    """An immutable array. Made by purax's functions, never by calling the class."""

    __slots__ = ("__weakref__", "_buf", "_fate", "_np", "_placement", "aval")
    aval: ShapedArray
    _np: np.ndarray | None
    _buf: Any
    _placement: Placement | None
    _fate: str  # set only once the array is gone: what happened to it
    __array_priority__ = 100

    # ---- where it is

    @property
    def sharding(self) -> Sharding:
        """How it is spread over devices."""
        placement = self._placement
        return SingleDeviceSharding(client.backend().local_devices[0]) if placement is None else placement.sharding

    @property
    def committed(self) -> bool:
        """Whether it was put on its devices on purpose, so that operations on it run there."""
        return self._placement is not None and self._placement.committed

    @property
    def device(self) -> Any:
        """Its device; the sharding when there are several."""
        sharding = self.sharding
        return sharding.device_assignment[0] if sharding.num_devices == 1 else sharding

    def devices(self) -> set[Any]:
        """The set of its devices."""
        return self.sharding.device_set

    @property
    def is_fully_addressable(self) -> bool:
        """Whether this process can read all of it."""
        return self._placement is None or self._placement.sharding.is_fully_addressable

    @property
    def is_fully_replicated(self) -> bool:
        """Whether each of its devices holds all of it."""
        return self._placement is None or self._placement.sharding.is_fully_replicated

    @property
    def addressable_shards(self) -> list[Shard]:
        """The pieces on the devices of this process."""
        pieces = iter(self._pieces())
        return [replace(shard, data=next(pieces)) for shard in self._shard_table() if is_local(shard.device)]

    @property
    def global_shards(self) -> list[Shard]:
        """The pieces on all devices; those of other processes without data."""
        pieces = iter(self._pieces())
        return [replace(shard, data=next(pieces)) if is_local(shard.device) else shard for shard in self._shard_table()]

    def addressable_data(self, index: int) -> Array:
        """The piece on the given device of this process, counted from 0, as an array on that device alone."""
        return self._pieces()[index]

    def _shard_table(self) -> list[Shard]:
        sharding = self.sharding
        copies: dict[Any, int] = {}
        table = []
        for device, index in zip(sharding.device_assignment, shard_slices(sharding, self.aval.shape), strict=True):
            key = tuple((part.start, part.stop) for part in index)
            copies[key] = copies.get(key, -1) + 1
            table.append(Shard(device, index, copies[key], None))
        return table

    def _pieces(self) -> list[Array]:
        placement = self._placement
        if placement is None or len(placement.devices) == 1:
            return [self]
        shape = placement.sharding.shard_shape(self.aval.shape)
        aval = array_aval(shape, self.aval.dtype, self.aval.weak_type)
        local = [device for device in placement.devices if is_local(device)]
        parts = buffers.shards_raw(self.buffer, self.aval, placement)
        return [
            wrap_placed(aval, part, buffers.single_placement(device)) for part, device in zip(parts, local, strict=True)
        ]

    # ---- its storages

    @property
    def host(self) -> np.ndarray:
        """The elements as a read-only host array that shares memory where it can; waits for them.

        Arrays of random keys give their uint32 words.
        """
        value = self._np
        if value is None:
            value = self._read()
        owner = value.base
        if value.flags.writeable or owner is None or (type(owner) is _ndarray and owner.flags.writeable):
            # The caller gets a view: a read-only array that owns its memory could be made writable again, and so could a
            # view of a writable one.
            if owner is None:
                owner = value
            if isinstance(owner, _ndarray):
                owner.setflags(write=False)
            value = value.view()
            value.setflags(write=False)
            self._np = value
        return value

    def _read(self) -> np.ndarray:
        buffer = self._buf
        if buffer is None:
            value = self._np  # filled by another thread since the caller looked
            if value is None:
                raise self._gone()
            return value
        if buffer.is_deleted():
            raise self._gone()
        value = buffers.read_raw(buffer, self.aval, self._placement)
        self._np = value
        return value

    @property
    def buffer(self) -> Any:
        """The raw device buffer; made from the host value when there is none yet."""
        buffer = self._buf
        if buffer is None:
            value = self._np
            if value is None:
                raise self._gone()
            buffer = self._buf = buffers.put_raw(self.aval, value, self._placement)
        return buffer

    @property
    def base(self) -> Array:
        """The uint32 words of an array of random keys, the axes of a key last."""
        result = Array()
        result.aval = buffers.physical(self.aval)
        result._np, result._buf, result._placement = self._np, self._buf, self._placement
        if result._np is None and result._buf is None:
            raise self._gone()
        return result

    def is_ready(self) -> bool:
        """Whether the elements have been computed."""
        buffer = self._buf
        if buffer is None:
            if self._np is None:
                raise self._gone()
            return True
        return bool(buffer.is_ready())

    def block_until_ready(self) -> Array:
        """Wait until the elements have been computed, and return the array."""
        buffer = self._buf
        if buffer is not None:
            try:
                buffer.block_until_ready()
            except _jaxlib.RawError as error:
                failed = self._gone() if buffer.is_deleted() else _jaxlib.clean_error(error)
                raise failed from failed.__cause__
        elif self._np is None:
            raise self._gone()
        return self

    def copy_to_host_async(self) -> None:
        """Begin the copy to the host that a later read will wait for."""
        if self._np is None:
            buffer = self.buffer
            if not all(device.platform == "cpu" for device in self.sharding.device_assignment):
                for part in buffers.shards_raw(buffer, self.aval, self._placement):
                    _jaxlib.start_copy_out(part)

    def delete(self) -> None:
        """Give up the memory. Views of it that other libraries hold stay valid; the array does not."""
        self._lose("deleted by its `delete` method")

    def is_deleted(self) -> bool:
        """Whether the elements are gone: deleted, or donated to a computation."""
        if self._np is not None:
            return False
        buffer = self._buf
        return buffer is None or bool(buffer.is_deleted())

    def donate(self, to: str = "a compiled function") -> Any:
        """Hand the raw buffer over to a computation that may write into it; the array is gone afterwards."""
        buffer = self.buffer
        self._lose(f"donated to {to}")
        return buffer

    def _lose(self, fate: str) -> None:
        if self._np is not None or self._buf is not None:
            self._fate = fate
        self._np = self._buf = None

    def _gone(self) -> errors.DeletedArrayError:
        fate = getattr(self, "_fate", "deleted or donated")
        return errors.DeletedArrayError(
            errors.explain(
                f"Array has been deleted with shape={self.aval.str_short()}.",
                f"It was {fate}, and its memory is no longer its own.",
                "use the result of that computation, or a copy made before (x.copy()).",
            )
        )

    def on_device_size_in_bytes(self) -> int:
        """Bytes on the device, all shards of this process together."""
        buffer = self._buf
        return self.nbytes if buffer is None else int(buffer.on_device_size_in_bytes())

    def unsafe_buffer_pointer(self) -> int:
        """Address of the device memory. Only for reading, only while the array lives, and only on one device."""
        buffer, device = self.buffer, self.device
        if getattr(device, "platform", "") == "cpu":
            return int(_jaxlib.address(buffer))
        return int(buffer.unsafe_buffer_pointer())

    def to_device(self, device: Any, *, stream: Any = None) -> Array:
        """The same value on another device (array API)."""
        del stream
        return _transfer.device_put(self, device)

    # ---- to NumPy, Python and other libraries

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if type(self.aval.dtype) is dtypes.KeyDtype:
            raise _no_numpy(self)
        value = self.host
        if dtype is not None and value.dtype != dtype:
            if copy is False:
                raise ValueError(f"An array of dtype {value.dtype} cannot become {np.dtype(dtype)} without a copy.")
            return value.astype(dtype)
        return value.copy() if copy else value

    def __buffer__(self, flags: int, /) -> memoryview:
        # Python asks for it from 3.12 on.
        if type(self.aval.dtype) is dtypes.KeyDtype:
            raise BufferError("random keys have no elements that the buffer protocol could show")
        elements: Any = self.host
        try:
            return memoryview(elements)
        except ValueError:
            raise BufferError(f"the buffer protocol has no elements of dtype {self.aval.dtype}") from None

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        return _dlpack.to_dlpack(self, stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        return _dlpack.dlpack_device(self)

    def _scalar(self) -> Any:
        if self.aval.ndim:
            raise TypeError(
                f"Only scalar arrays can be converted to Python scalars; got an array of shape {self.aval.shape}."
            )
        if type(self.aval.dtype) is dtypes.KeyDtype:
            raise _no_numpy(self)
        value = self._np
        return (self._read() if value is None else value).item()

    def __float__(self) -> float:
        return float(self._scalar())

    def __int__(self) -> int:
        return int(self._scalar())

    def __complex__(self) -> complex:
        return complex(self._scalar())

    def __bool__(self) -> bool:
        if self.aval.size != 1:
            what = "an empty array" if self.aval.size == 0 else "an array with more than one element"
            raise ValueError(f"The truth value of {what} is ambiguous. Use a.any() or a.all()")
        return bool(self.__array__())

    def __index__(self) -> int:
        if self.aval.ndim or self.aval.dtype.kind not in "iub":
            raise TypeError(f"Only integer scalar arrays can be an index; got {self.aval.str_short()}.")
        return operator.index(self._scalar())

    def __len__(self) -> int:
        if not self.aval.shape:
            raise TypeError("len() of unsized object")
        return self.aval.shape[0]

    def __iter__(self) -> Iterator[Array]:
        if not self.aval.shape:
            raise TypeError("iteration over a 0-d array")
        placement = self._placement
        if placement is not None and len(placement.devices) > 1:
            spread = self.aval.spread
            if spread is None or not spread.parts[0]:
                return iter([self[index] for index in range(self.aval.shape[0])])
            placement = None  # no row can lie so: they are read, and free to go anywhere
        value = self._np
        if value is None:
            value = self._read()
        row = array_aval(self.aval.shape[1:], self.aval.dtype, self.aval.weak_type)
        return iter([_host_row(row, value[index, ...], placement) for index in range(self.aval.shape[0])])

    def item(self, *index: Any) -> Any:
        """One element as a Python scalar."""
        if len(index) == 1 and isinstance(index[0], tuple):
            (index,) = index
        return self.__array__().item(*map(operator.index, index))

    def tolist(self) -> Any:
        """The elements as nested lists of Python scalars."""
        return self.__array__().tolist()

    def tobytes(self, order: Any = "C") -> bytes:
        """The elements as raw bytes."""
        return self.__array__().tobytes(order)

    def __repr__(self) -> str:
        aval = self.aval
        if self.is_deleted():
            return f"Array(<deleted>, {_describe(aval)})"
        if not self.is_fully_addressable and not self.is_fully_replicated:
            return f"Array({aval.str_short()}, {self.sharding})"
        if type(aval.dtype) is dtypes.KeyDtype:
            return f"Array({aval.shape}, dtype={aval.dtype.name}) overlaying:\n{self.host}"
        text = np.array2string(self.host, separator=", ", prefix="Array(") if aval.size else "[]"
        shape = f"shape={aval.shape}, " if aval.size == 0 and aval.shape != (0,) else ""
        return f"Array({text}, {shape}{_describe(aval)})"

    def __str__(self) -> str:
        if type(self.aval.dtype) is dtypes.KeyDtype:
            return repr(self)
        return str(self.host)

    def __format__(self, specification: str) -> str:
        if self.aval.ndim == 0 and type(self.aval.dtype) is not dtypes.KeyDtype:
            return format(self.host[()], specification)
        return format(str(self), specification)

    def __reduce__(self) -> Any:
        return _restore, (np.array(self.host), self.aval)

    def __copy__(self) -> Array:
        # A host value may be shared, since nobody writes to it; a buffer may not: one of its arrays could be donated.
        if self._buf is not None:
            return hooks.numpy.copy(self)
        result = Array()
        result.aval, result._placement, result._np, result._buf = self.aval, self._placement, self._np, None
        if result._np is None:
            raise self._gone()
        return result

    def __deepcopy__(self, memo: Any) -> Array:
        value = self.host if self._buf is None else np.array(self.host)
        result = Array()
        result.aval, result._np, result._buf, result._placement = self.aval, value, None, self._placement
        return result

    clone = __copy__


@dataclass(frozen=True, slots=True)
class Shard:
    """One piece of an array: the device that holds it, its slices, which of the equal copies it is, and its elements."""

    device: Any
    index: tuple[slice, ...]
    replica_id: int
    data: Array | None


def wrap_buffer(aval: ShapedArray, buffer: Any) -> Array:
    """An array over a raw buffer on the default device."""
    result = Array()
    result.aval = aval
    result._np = None
    result._buf = buffer
    result._placement = None
    return result


def wrap_host(aval: ShapedArray, value: np.ndarray) -> Array:
    """An array over a host value that nobody will write to any more, of the physical shape and dtype of `aval`."""
    if type(value) is not _ndarray:
        value = np.asarray(value)
    result = Array()
    result.aval = aval
    result._np = value
    result._buf = None
    result._placement = None
    return result


def wrap_placed(aval: ShapedArray, buffer: Any, placement: Placement | None) -> Array:
    """An array over a raw buffer on the devices of a placement.

    Parameters
    ----------
    aval : ShapedArray
    buffer : raw buffer
    placement : Placement or None

    Returns
    -------
    Array
    """
    result = Array()
    result.aval = aval
    result._np = None
    result._buf = buffer
    result._placement = placement
    return result


def _host_row(aval: ShapedArray, value: np.ndarray, placement: Placement | None) -> Array:
    result = Array()
    result.aval, result._np, result._buf, result._placement = aval, value, None, placement
    return result


def _restore(value: np.ndarray, aval: ShapedArray) -> Array:
    return wrap_host(aval.with_spread(None), value)


def _describe(aval: ShapedArray) -> str:
    return f"dtype={aval.dtype.name}{', weak_type=True' if aval.weak_type else ''}"


def _no_numpy(array: Array) -> TypeError:
    return TypeError(
        errors.explain(
            f"an array of random keys ({array.aval.str_short()}) was converted to NumPy.",
            "Keys are opaque: NumPy has no dtype for them.",
            "take the words explicitly: purax.random.key_data(keys).",
        )
    )
