# SPDX-License-Identifier: Apache-2.0
"""Manual regions: parts of a program over many devices that say what each device does, with collectives among them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from purax.core.aval import array_aval
from purax.lowering.emit import Builder, Value
from purax.sharding import AbstractMesh, Mesh, PartitionSpec
from purax.sharding.mesh import axis_text

__all__ = ["ManualRegion", "axes_text", "manual_computation"]

_INT32 = np.dtype(np.int32)


class ManualRegion:
    """What a collective asks of the region that it is in.

    Attributes
    ----------
    mesh : Mesh
    axes : tuple of str
        Those that the region has in its own hands.
    order : mapping
        Number of each device in the program.
    indices : dict
        Lane numbers that were asked for, by axis: block arguments of the region.
    """

    def __init__(self, mesh: Mesh, axes: Sequence[str], order: dict[Any, int]) -> None:
        self.mesh, self.axes, self.order = mesh, tuple(axes), order
        self.indices: dict[Any, Value] = {}

    def groups(self, axes: Sequence[Any]) -> list[list[int]]:
        """Numbers of the devices that differ along `axes` only, one list per group; the first axis is major."""
        if isinstance(self.mesh, AbstractMesh):
            grid = np.arange(self.mesh.size).reshape(self.mesh.axis_sizes)
        else:
            grid = np.vectorize(self.order.__getitem__, otypes=[np.int64])(self.mesh.devices)
        names = list(self.mesh.axis_names)
        last = [names.index(name) for name in axes]
        order = [i for i in range(len(names)) if i not in last] + last
        size = int(np.prod([grid.shape[i] for i in last]))
        rows: list[list[int]] = grid.transpose(order).reshape(-1, size).tolist()
        return rows

    def index(self, b: Builder, name: Any) -> Value:
        """Number of the device along one axis, a scalar int32."""
        return b.reshape(self.piece(b, name), ())

    def piece(self, b: Builder, name: Any) -> Value:
        """The number as an argument of the region, an array of one element."""
        piece = self.indices.get(name)
        if piece is None:
            piece = self.indices[name] = Value(b.module.fresh().replace("%", "%a"), array_aval((1,), _INT32))
        return piece


def manual_computation(
    b: Builder, mesh: Mesh, axes: Sequence[str], ins: Sequence[Value], in_specs: Sequence[PartitionSpec],
    outs: Sequence[Any], out_specs: Sequence[PartitionSpec], local: Sequence[Any], body: Any,
) -> list[Value]:  # fmt: skip
    """Emit `body(builder, *pieces)`, run by every device on its pieces of `ins`.

    Parameters
    ----------
    axes : sequence of str
        The axes of the mesh that the region takes into its own hands.
    in_specs, out_specs : sequences of PartitionSpec
        How the operands are cut into pieces, and the results made of them.
    outs, local : sequences of avals
        Types of the whole results, and of the pieces of the operands.
    b : Builder
    mesh : Mesh
    ins : sequence of Value
        The operands.
    body : callable

    Returns
    -------
    list of Value
    """
    module = b.module
    outer, name = module.manual, module.mesh(mesh)
    held = () if outer is None else outer.axes
    region = module.manual = ManualRegion(mesh, (*held, *axes), module.order)
    is_open = len(region.axes) < len(mesh.axis_names)
    if len(module.order) <= 1:  # the one device has the whole: the region would be an empty frame
        region.indices.update((axis, b.constant(0, array_aval((1,), _INT32))) for axis in axes)
        try:
            return list(body(b, *ins))
        finally:
            module.manual = outer
    inner = Builder(module, names=b.names)  # no parent: the region must not use constants from outside
    inner.place, inner.source = b.place, b.source
    pieces = [Value(module.fresh().replace("%", "%a"), aval) for aval in local]
    try:
        results = body(inner, *pieces)
    finally:
        module.manual = outer
    ins, in_specs = list(ins), list(in_specs)
    for axis, piece in region.indices.items():
        if axis in held:
            ins.append(outer.piece(b, axis))
            in_specs.append(PartitionSpec())
        else:
            numbers = array_aval((mesh.shape[axis],), _INT32)
            ins.append(b.emit(f"stablehlo.iota dim = 0 : {numbers.hlo}", numbers))
            in_specs.append(PartitionSpec(axis))
        pieces.append(piece)
    taken = [f"<@{name}, {axes_text(spec, x.aval.ndim, is_open)}>" for spec, x in zip(in_specs, ins, strict=True)]
    given = [f"<@{name}, {axes_text(spec, aval.ndim, is_open)}>" for spec, aval in zip(out_specs, outs, strict=True)]
    head = ", ".join(f"{p}: {p.hlo}" for p in pieces)
    names = ", ".join(map(axis_text, axes))
    returned = (
        f"sdy.return {', '.join(map(str, results))} : {', '.join(r.hlo for r in results)}" if results else "sdy.return"
    )
    text = (
        f"sdy.manual_computation({', '.join(map(str, ins))}) in_shardings=[{', '.join(taken)}] out_shardings=[{', '.join(given)}] "
        f"manual_axes={{{names}}} ({head}) {{\n"
        + "\n".join([*inner.lines, returned])
        + f"\n}} : ({', '.join(x.hlo for x in ins)}) -> ({', '.join(a.hlo for a in outs)})"
    )
    return b.emit_many(text, outs)


def axes_text(spec: PartitionSpec, ndim: int, is_open: bool) -> str:
    """`[{"x"}, {}]`: the mesh axes of each array axis; `{"x", ?}` where the partitioner may cut further.

    Parameters
    ----------
    spec : PartitionSpec
    ndim : int
    is_open : bool
        The partitioner may cut further.

    Returns
    -------
    str
    """
    parts = [part if isinstance(part, tuple) else () if part is None else (part,) for part in spec]
    parts += [()] * (ndim - len(parts))
    more = ("?",) if is_open else ()
    return "[" + ", ".join("{" + ", ".join([*map(axis_text, part), *more]) + "}" for part in parts) + "]"
