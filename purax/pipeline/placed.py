# SPDX-License-Identifier: Apache-2.0
"""Programs away from the default device: on another one, or split over the devices of a mesh.

A program runs over a mesh when an operand lies on several devices, when a result is asked for there, or when it names a mesh
itself (`shard_map`, sharding constraints). Operands that were not placed on purpose are then copied to every device; results
lie as they were asked for, else as the partitioner chose.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from purax import errors
from purax.core.ir import Jaxpr
from purax.core.verify import inner_jaxprs
from purax.pipeline import debug
from purax.pipeline.compile import Compilation, compile_jaxpr
from purax.runtime import client
from purax.runtime.transfer import device_put
from purax.sharding import Mesh, NamedSharding, PartitionSpec, placement_of

__all__ = ["Plan", "call", "elsewhere", "mesh_of", "moved", "plan"]


class Plan:
    """How one program runs on operands with given placements.

    Attributes
    ----------
    how : Compilation
    placements : tuple of Placement or None
        Where each operand must lie.
    """

    __slots__ = ("executable", "how", "jaxpr", "name", "placements")

    def __init__(self, jaxpr: Jaxpr, name: str, placements: tuple[Any, ...], how: Compilation) -> None:
        self.jaxpr, self.name, self.placements, self.how = jaxpr, name, placements, how
        self.executable: Any = None

    def compiled(self) -> Any:
        """The executable; made on first use."""
        if self.executable is None:
            self.executable = compile_jaxpr(self.jaxpr, self.name, self.how)
        return self.executable

    def move(self, arrays: Sequence[Any]) -> list[Any]:
        """The operands, where they must lie."""
        return moved(arrays, self.placements)

    def call(self, arrays: Sequence[Any]) -> tuple[Any, ...]:
        """Outputs for arrays that may lie elsewhere."""
        outs = tuple(self.compiled().call(self.move(arrays)))
        if debug.active():
            debug.check(self.name, outs)
        return outs


def moved(arrays: Sequence[Any], placements: Sequence[Any]) -> list[Any]:
    """The arrays, where they must lie.

    Parameters
    ----------
    arrays : sequence of Array
    placements : sequence of Placement or None
        One for each; None is the default device.

    Returns
    -------
    list of Array
    """
    return [x if x._placement is place else device_put(x, place) for x, place in zip(arrays, placements, strict=True)]


def call(jaxpr: Jaxpr, name: str, arrays: Sequence[Any]) -> tuple[Any, ...]:
    """Run a program where its operands live.

    Parameters
    ----------
    jaxpr : Jaxpr
    name : str
    arrays : sequence of Array

    Returns
    -------
    tuple of Array
    """
    return plan(jaxpr, name, tuple([x._placement for x in arrays])).call(arrays)


def plan(
    jaxpr: Jaxpr, name: str, placements: tuple[Any, ...], donated: tuple[bool, ...] = (), out_placements: tuple[Any, ...] = (),
    options: tuple[Any, ...] = (),
) -> Plan:  # fmt: skip
    """How a program runs on operands with these placements; remembered on the program.

    Parameters
    ----------
    jaxpr : Jaxpr
        Its constants are inputs.
    placements : tuple of Placement or None
        One per input.
    donated : tuple of bool
    out_placements : tuple of Placement or None
        Where results are wanted.
    options : tuple of (flag, value)
    name : str
        Of the function, for messages.

    Returns
    -------
    Plan

    Raises
    ------
    ValueError
        Operands or results are committed to different devices.
    """
    default = client.default_placement()
    key = ("plan", placements, donated, out_placements, options, default)
    found = jaxpr.derived.get(key)
    if found is None:
        found = _plan(jaxpr, name, placements, donated, out_placements, options, default)
        found = jaxpr.derived.setdefault(key, found)
    return found


def _plan(
    jaxpr: Jaxpr, name: str, placements: Any, donated: Any, out_placements: Any, options: Any, default: Any
) -> Plan:
    meshes = [
        p.sharding.mesh for p in (*placements, *out_placements) if p is not None and type(p.sharding) is NamedSharding
    ]
    held = mesh_of(jaxpr)
    if held is not None:
        meshes.append(held)
    chosen = common_placement(name, placements, out_placements, meshes) or default
    if not meshes:
        outs = () if chosen is None else (chosen,) * len(jaxpr.outvars)
        return Plan(jaxpr, name, (chosen,) * len(placements), Compilation(chosen, donated, (), outs, options))
    mesh = meshes[0]
    whole = placement_of(NamedSharding(mesh, PartitionSpec()))
    order = whole.devices
    ready = tuple(
        [p if p is not None and p.devices == order and type(p.sharding) is NamedSharding else whole for p in placements]
    )
    wanted = tuple(out_placements)
    return Plan(jaxpr, name, ready, Compilation(whole, donated, ready, wanted, options, mesh))


def elsewhere(jaxpr: Jaxpr, arrays: Sequence[Any]) -> bool:
    """Whether a program on these arrays runs elsewhere than on the default device."""
    for x in arrays:
        if x._placement is not None:
            return True
    return client.default_placement() is not None or mesh_of(jaxpr) is not None


def mesh_of(jaxpr: Jaxpr) -> Mesh | None:
    """The mesh that a program names, if it does."""
    try:
        return jaxpr.derived["mesh"]
    except KeyError:
        pass
    found = None
    for eqn in jaxpr.eqns:
        mesh = eqn.params.get("mesh")
        if isinstance(mesh, Mesh):
            found = mesh
            break
        found = next(filter(None, map(mesh_of, inner_jaxprs(eqn.params))), None)
        if found is not None:
            break
    jaxpr.derived["mesh"] = found
    return found


def common_placement(
    name: str, placements: Sequence[Any], out_placements: Sequence[Any] = (), meshes: Sequence[Mesh] = ()
) -> Any:
    """Where a computation runs: the one set of devices that the user asked for, else a placement that nobody asked for, or None.

    Raises
    ------
    ValueError
        There are several.
    """
    chosen = None
    loose = None
    devices: tuple[Any, ...] | None = None
    wanted = [p for p in (*placements, *out_placements) if p is not None]
    for placement in [*wanted, *[placement_of(NamedSharding(mesh, PartitionSpec())) for mesh in meshes]]:
        if not placement.committed:
            loose = loose or placement
        elif chosen is None:
            chosen, devices = placement, placement.devices
        elif placement.devices != devices and set(placement.devices) != set(devices or ()):
            raise ValueError(
                errors.explain(
                    f"Received incompatible devices for {name}: operands are committed to {list(devices or ())} and {list(placement.devices)}.",
                    "An operation runs on one set of devices, and purax does not move arrays that were placed on purpose.",
                    "move one of them: purax.device_put(x, device).",
                )
            )
    return chosen or loose
