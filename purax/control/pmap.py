# SPDX-License-Identifier: Apache-2.0
"""`pmap`: one lane of a function per device. It is a jitted `shard_map` over a mesh of one axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from purax import errors, tree
from purax.control import pieces
from purax.control.call import check_outputs, put_back, take_zeros
from purax.control.jit import JitFunction, jit
from purax.control.program import stage_touching
from purax.control.refs import is_ref
from purax.control.shard_map import check_nesting, local_aval, region, shard_map_p
from purax.core.ir import intern
from purax.core.trace import aval_of
from purax.primitives import shape
from purax.runtime import client
from purax.sharding import Mesh, NamedSharding, PartitionSpec
from purax.transforms.flat import argument_names, float0_zeros, name_of

__all__ = ["pmap"]

_NO_NAME = "_pmap_axis"


class Lanes:
    """Over which devices the arguments of a call are spread, and how; a JitFunction asks it where arguments must lie."""

    def __init__(self, fun: Any, axis: Any, in_axes: Any, devices: Any, backend: Any, axis_size: int | None) -> None:
        self.fun, self.axis, self.in_axes, self.backend, self.axis_size = fun, axis, in_axes, backend, axis_size
        self.devices = None if devices is None else tuple(devices)
        self.meshes: dict[int, Mesh] = {}

    def mesh(self, size: int) -> Mesh:
        """The mesh of the first `size` devices."""
        found = self.meshes.get(size)
        if found is None:
            known = self.devices or tuple(client.local_devices(backend=self.backend))
            name = name_of(self.fun)
            if self.devices is not None and size != len(known):
                raise ValueError(
                    f"Leading axis size of input to pmapped function `{name}` must equal the number of devices passed to pmap. Got axis_size={size}, num_local_devices={len(known)}."
                )
            if not size:
                raise ValueError(
                    f"pmap({name}): the mapped axis has size 0, and each lane is a device: there is none. Use vmap."
                )
            if size > len(known):
                raise ValueError(
                    errors.explain(
                        f"compiling computation `{name}` that requires {size} logical devices, but only {len(known)} XLA devices are available (num_replicas={size}).",
                        "pmap runs each lane on a device of its own.",
                        "map over at most as many lanes as there are devices, use vmap, or set PURAX_NUM_CPU_DEVICES to have more virtual CPU devices.",
                    )
                )
            found = self.meshes[size] = Mesh(known[:size], (self.axis,))
        return found

    def axes(
        self, treedef: Any, leaves: Sequence[Any], names: Callable[[], Sequence[str]]
    ) -> tuple[Mesh, list[int | None]]:
        """The mesh, and the mapped axis of each leaf of `(args, kwargs)`."""
        given = tree.flatten_axes("pmap in_axes", treedef, (self.in_axes, 0))
        dims, sizes = [], {}
        for i, (axis, leaf) in enumerate(zip(given, leaves, strict=True)):
            aval = aval_of(leaf)
            if axis is not None and not -aval.ndim <= axis < aval.ndim:
                raise ValueError(
                    f"pmap was requested to map its argument along axis {axis}, which implies that its rank should be at least "
                    f"{axis + 1 if axis >= 0 else -axis}, but argument {names()[i]} has rank only {aval.ndim} (its shape is {aval.shape})"
                )
            dims.append(None if axis is None else axis % aval.ndim)
            if axis is not None:
                sizes[i] = aval.shape[axis]
        found = set(sizes.values()) | ({self.axis_size} if self.axis_size is not None else set())
        if not found:
            raise ValueError("pmap requires at least one argument with a mapped axis.")
        if len(found) > 1:
            rows = "\n".join(
                f"  * {names()[i]}: axis {dims[i]} of shape {aval_of(leaves[i]).shape} has size {n}"
                for i, n in sizes.items()
            )
            extra = f"\n  * axis_size={self.axis_size}" if self.axis_size is not None else ""
            raise ValueError(f"pmap got inconsistent sizes for array axes to be mapped:\n{rows}{extra}")
        return self.mesh(found.pop()), dims

    def inputs(self, call: Any) -> list[Any]:
        """Where the leaves of a call must lie."""
        mesh, dims = self.axes(
            call.treedef, put_back(call.leaves, call.zeros), lambda: argument_names(self.fun, call.args, call.kwargs)
        )
        gone = {i for i, _ in call.zeros}
        return [NamedSharding(mesh, spec_of(d, self.axis)) for i, d in enumerate(dims) if i not in gone]

    def constraints(self, call: Any) -> None:
        """The program says itself how its arguments are cut."""

    def outputs(self, out_tree: Any, avals: Any = ()) -> None:
        """Results lie as the program puts them together."""


def spec_of(dim: int | None, axis: Any) -> PartitionSpec:
    """Cut along the mapped axis, if there is one."""
    return PartitionSpec() if dim is None else PartitionSpec(*[None] * dim, axis)


def pmap(
    fun: Callable[..., Any], axis_name: Any = None, *, in_axes: Any = 0, out_axes: Any = 0, static_broadcasted_argnums: Any = (),
    devices: Sequence[Any] | None = None, backend: str | None = None, axis_size: int | None = None, donate_argnums: Any = (),
) -> Any:  # fmt: skip
    """Map `fun` over an axis of its arguments, each lane on a device of its own, in one compiled program.

    Parameters
    ----------
    fun : callable
    axis_name : hashable, optional
        Name for collectives (`purax.lax.psum`).
    in_axes, out_axes : int, None, or pytree prefixes
        Mapped axis of each argument (None: the same value on all devices) and of each result (None: all devices hold the same,
        and one copy is returned).
    static_broadcasted_argnums : int or sequence of int
        Arguments that are no arrays, part of the program.
    devices : sequence of Device, optional
        One per lane; by default the first devices of this process.
    backend : str, optional
        Platform of the devices.
    axis_size : int, optional
    donate_argnums : int or sequence of int
        Arguments whose memory the results may take over.

    Returns
    -------
    callable
        Its results are spread over the devices along the mapped axis. Keyword arguments are mapped over axis 0.

    Raises
    ------
    ValueError
        More lanes than devices, mapped axes of different sizes, or nothing mapped.
    TypeError
        `fun` cannot be called, or an axis is no int.
    """
    if not callable(fun):
        raise TypeError(f"pmap: the first argument must be callable, got {fun!r}")
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    for leaf in tree.leaves((in_axes, out_axes)):
        if isinstance(leaf, bool) or not isinstance(leaf, (int, np.integer)):
            raise TypeError(f"pmap: each entry of in_axes and out_axes must be an int or None, got {leaf!r}")
    if devices is not None and not len(devices):
        raise ValueError("'devices' argument to pmap must be non-empty, or None.")
    axis = _NO_NAME if axis_name is None else axis_name
    lanes = Lanes(fun, axis, in_axes, devices, backend, axis_size)
    positions = (
        (static_broadcasted_argnums,)
        if isinstance(static_broadcasted_argnums, int)
        else tuple(static_broadcasted_argnums)
    )

    def mapped(*args: Any, **kwargs: Any) -> Any:
        if not all(-len(args) <= p < len(args) for p in positions):
            raise ValueError(
                f"pmapped function has static_broadcasted_argnums={positions} but was called with only {len(args)} positional "
                "argument(s); pass static arguments by position"
            )
        static = {p % len(args): args[p] for p in positions}
        dynamic = tuple([None if i in static else a for i, a in enumerate(args)])
        leaves, in_tree = tree.flatten((dynamic, kwargs))
        names: Callable[[], Sequence[str]] = lambda: argument_names(fun, dynamic, kwargs)
        mesh, dims = lanes.axes(in_tree, pieces.values_of(leaves), names)
        check_nesting(f"pmap({name_of(fun)})", mesh, (axis,))
        _, empty = take_zeros(pieces.values_of(leaves))
        aside = {i: _lane_of(x, dims[i]) for i, x in empty}
        # A reference without a mapped axis is for all lanes, as one that is captured.
        aside.update({i: x for i, x in enumerate(leaves) if dims[i] is None and is_ref(x)})
        kept = [i for i in range(len(leaves)) if i not in aside]
        in_dims = [dims[i] for i in kept]
        specs = [spec_of(d, axis) for d in in_dims]
        touched = pieces.Pieces([leaves[i] for i in kept], specs, (axis,), in_dims)
        given = pieces.values_of([leaves[i] for i in kept])
        one_lane = _OneLane(fun, static, in_tree, in_dims, sorted(aside.items()), out_axes, touched)
        avals = [local_aval(aval_of(x), s, mesh, (axis,)) for x, s in zip(given, specs, strict=True)]
        flat_tree = tree.structure(tuple(range(len(given))))
        with region(mesh, (axis,), lanes=True):
            jaxpr, consts, _, captured = stage_touching(one_lane, flat_tree, avals, name_of(fun), "pmap")
        cells = touched.cells(jaxpr, len(consts), captured, lambda: [names()[i] for i in kept])
        whole = [PartitionSpec()] * len(captured)
        last, cuts = jaxpr.out_avals[len(jaxpr.outvars) - len(cells) :], [*touched.specs, *whole]
        pieces.refuse_different(f"pmap({name_of(fun)})", cells, last, cuts, (axis,))

        def run(held: Sequence[Any]) -> Sequence[Any]:
            return shard_map_p.bind(
                *consts, *touched.filled(given, held), jaxpr=intern(jaxpr), mesh=mesh, axes=(axis,), lanes=True,
                in_specs=(*[PartitionSpec()] * len(consts), *specs, *whole),
                out_specs=(*[spec_of(d, axis) for d in one_lane.out_dims], *cuts),
            )  # fmt: skip

        return one_lane.unflatten(cells.through((jaxpr,), run), mesh.size)

    mapped.__name__ = name_of(fun)
    mapped.__qualname__ = f"pmap({name_of(fun)})"
    mapped.__doc__ = getattr(fun, "__doc__", None)
    mapped.__wrapped__ = fun  # type: ignore[attr-defined]
    function: JitFunction = jit(
        mapped, static_argnums=positions or None, donate_argnums=None if donate_argnums == () else donate_argnums
    )
    function.shardings, function.__wrapped__ = lanes, fun
    return function


class _OneLane:
    """The user's function on pieces: one lane in, one lane out, each with an axis of size 1 where the mapped axis is.

    Arrays of dtype float0 hold nothing: they go around the program. References of mapped arguments are to the lane's own row.
    """

    def __init__(
        self, fun: Any, static: dict[int, Any], in_tree: Any, in_dims: list[int | None], aside: list[Any], out_axes: Any,
        touched: pieces.Pieces,
    ) -> None:  # fmt: skip
        self.fun, self.static, self.in_tree, self.in_dims = fun, static, in_tree, in_dims
        self.aside, self.out_axes, self.touched = aside, out_axes, touched
        self.__name__ = name_of(fun)
        self.out_tree: Any = None
        self.out_dims: list[int | None] = []  # of the results that are not empty
        self.zeros: list[tuple[int, Any, int | None]] = []  # those that are: place, lane, mapped axis

    def __call__(self, *own: Any) -> list[Any]:
        lane = list(map(pieces.without_lane, own, self.in_dims))
        args, kwargs = self.in_tree.unflatten(put_back(self.touched.opened(lane), self.aside))
        outs, self.out_tree = tree.flatten(self.fun(*[self.static.get(i, a) for i, a in enumerate(args)], **kwargs))
        check_outputs(self.__name__, outs, self.out_tree)
        wanted = tree.flatten_axes("pmap out_axes", self.out_tree, self.out_axes)
        dims = [
            None if w is None else shape.canonical_axis(w, aval_of(x).ndim + 1)
            for x, w in zip(outs, wanted, strict=True)
        ]
        outs, zeros = take_zeros(outs)
        self.zeros = [(i, x, dims[i]) for i, x in zeros]
        gone = {i for i, _ in zeros}
        self.out_dims = [d for i, d in enumerate(dims) if i not in gone]
        return [*map(pieces.with_lane, outs, self.out_dims), *self.touched.last()]

    def unflatten(self, outs: Sequence[Any], size: int) -> Any:
        """The user's result for all lanes."""
        rows = [
            (i, float0_zeros(x.shape if d is None else (*x.shape[:d], size, *x.shape[d:]))) for i, x, d in self.zeros
        ]
        return self.out_tree.unflatten(put_back(outs, rows))


def _lane_of(x: Any, dim: int | None) -> Any:
    """One lane of an array of dtype float0."""
    sizes = aval_of(x).shape
    return float0_zeros(sizes if dim is None else (*sizes[:dim], *sizes[dim + 1 :]))
