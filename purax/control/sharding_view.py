# SPDX-License-Identifier: Apache-2.0
"""How arrays lie on devices, seen from inside of programs: `debug.inspect_array_sharding`, `debug.visualize_array_sharding`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from purax import tree
from purax.core.effects import Effect
from purax.core.primitive import Primitive
from purax.core.trace import aval_of
from purax.lazy import lazy
from purax.pipeline.evaluate import as_array
from purax.runtime import client
from purax.sharding import Mesh, NamedSharding, PartitionSpec, Sharding
from purax.sharding.named import SingleDeviceSharding, from_tiles

__all__ = ["inspect_array_sharding", "visualize_array_sharding", "visualize_sharding"]

_jaxlib = lazy("purax.runtime._jaxlib")

INSPECTION = Effect("inspection")


class InspectSharding(Primitive):
    """Tell a function how the operand lies: at once in eager code, else when the program is compiled; no result.

    Params
    ------
    callback : callable
        Takes a Sharding.
    """

    def infer(self, x: Any, *, callback: Any) -> Any:
        """No results."""
        return ()

    def effects(self, params: dict[str, Any]) -> frozenset[Any]:
        """Somebody is told."""
        return frozenset((INSPECTION,))

    def reference(self, x: Any, *, callback: Any) -> Any:
        """Nothing: NumPy's arrays lie nowhere."""
        return ()

    def run(self, operands: tuple[Any, ...], params: dict[str, Any]) -> tuple[Any, ...]:
        """Tell how the array lies."""
        params["callback"](as_array(operands[0]).sharding)
        return ()

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> Any:
        """Of the value."""
        return self.bind(*primals, **params), ()

    def transpose(self, cotangents: Any, operands: Any, **_: Any) -> Any:
        """Nothing to pull back."""
        return (None,)

    def batch(self, axis: Any, operands: Any, dims: Any, **params: Any) -> Any:
        """Of the whole array, all lanes in it."""
        return self.bind(*operands, **params), ()

    def lower(self, b: Any, ins: Any, outs: Any, *, callback: Any) -> Any:
        """On one device it is known; over several the partitioner tells, through a call that it takes out of the program."""
        (x,) = ins
        devices = list(b.module.order)
        if len(devices) <= 1:
            callback(SingleDeviceSharding(devices[0] if devices else client.local_devices()[0]))
            return []
        mesh = next((m for m in b.module.meshes if isinstance(m, Mesh)), None) or Mesh(np.array(devices), ("devices",))
        if b.module.manual is not None:
            callback(NamedSharding(mesh, PartitionSpec()))
            return []
        told = lambda found: callback(from_tiles(mesh, x.aval.ndim, _jaxlib.tiles_of(found)))
        key = _jaxlib.sharding_callback(told)
        b.module.kept.append(told)
        config = "".join(f"\\{byte:02X}" for byte in key)
        attributes = f'has_side_effect = true, api_version = 1 : i32, backend_config = "{config}"'
        b.emit(f"stablehlo.custom_call @InspectSharding({x}) {{{attributes}}} : ({x.hlo}) -> {x.hlo}", x.aval)
        return []


inspect_sharding_p = InspectSharding("inspect_sharding")


def inspect_array_sharding(value: Any, *, callback: Callable[[Sharding], Any]) -> None:
    """Tell a function how arrays lie on devices.

    Parameters
    ----------
    value : pytree of arrays
    callback : callable
        Called with the Sharding of each array: at once in eager code; within `jit` when the program is compiled, as the
        partitioner chose it.
    """
    for leaf in tree.leaves(value):
        inspect_sharding_p.bind(leaf, callback=callback)


def visualize_array_sharding(arr: Any, **options: Any) -> None:
    """Print which device holds which part of an array of one or two axes; `options` as of `visualize_sharding`."""
    shape = aval_of(arr).shape
    inspect_array_sharding(arr, callback=lambda sharding: visualize_sharding(shape, sharding, **options))


def visualize_sharding(
    shape: Sequence[int], sharding: Sharding, *, use_color: bool = True, scale: float = 1.0, min_width: int = 9,
    max_width: int = 80, color_map: Any = None,
) -> None:  # fmt: skip
    """Print a table in which each cell is a part of an array, with the devices that hold it.

    Parameters
    ----------
    shape : sequence of int
        One or two sizes.
    sharding : Sharding
    scale : float
        The table is about ten lines high, times this, and as wide as the array in proportion.
    min_width, max_width : int
        Columns of a cell with its borders.
    use_color, color_map
        No effect.

    Raises
    ------
    ValueError
        The array has no axis, or more than two.
    """
    del use_color, color_map
    if len(shape) not in (1, 2):
        raise ValueError(f"visualize_sharding draws arrays of one or two axes, got shape {tuple(shape)}")
    holders: dict[tuple[int, ...], list[Any]] = {}
    for device, index in sharding.devices_indices_map(tuple(shape)).items():
        start = tuple([s.indices(size)[0] for s, size in zip(index, shape, strict=True)])
        holders.setdefault(start if len(shape) == 2 else (0, *start), []).append(device)
    rows, columns = [sorted({start[k] for start in holders}) for k in (0, 1)]
    kind = next(iter(sharding.device_set)).platform.upper()
    lines = int(10 * scale)
    whole = int(lines * (shape[1] if len(shape) == 2 else 1) / shape[0]) * _LETTER
    room = min(max(int(whole / len(columns)), min_width), max_width) - 2
    cells = [[_centred(_label(kind, holders[row, column]), room) for column in columns] for row in rows]
    width = max(len(text) for row in cells for text in row)
    margin = max(int(lines / len(rows)) - 2, 0) // 2 if len(shape) == 2 else 0
    top, between, bottom = [a + b.join(["─" * width] * len(columns)) + c for a, b, c in ("┌┬┐", "├┼┤", "└┴┘")]
    empty = [f"│{'│'.join([' ' * width] * len(columns))}│"] * margin
    body = ["\n".join([*empty, f"│{'│'.join(text.center(width) for text in row)}│", *empty]) for row in cells]
    sys.stdout.write("\n".join([top, f"\n{between}\n".join(body), bottom, ""]))


_LETTER = 2.5
"""How much higher than wide a letter is."""


def _label(kind: str, devices: Sequence[Any]) -> str:
    return f"{kind} {','.join(map(str, sorted(device.id for device in devices)))}"


def _centred(text: str, width: int) -> str:
    left = max(width - len(text), 0) // 2
    return (" " * left + text).ljust(width)
