# SPDX-License-Identifier: Apache-2.0
"""Programs away from the default device: on another one, or split over the devices of a mesh.

A program runs over a mesh when an operand lies on several devices, when a result is asked for there, when it names a mesh
itself (`shard_map`, sharding constraints), or when a function of `jit` is called while a mesh is the current one. Operands that
were not placed on purpose are then copied to every device; results lie as they were asked for, else as the partitioner chose.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from purax import errors, events
from purax.core.ir import Jaxpr
from purax.core.verify import inner_jaxprs
from purax.pipeline import debug
from purax.pipeline.compile import Compilation, compile_jaxpr
from purax.pipeline.standing import StandIn, settle
from purax.runtime import client
from purax.runtime.transfer import device_put
from purax.sharding import (
    AbstractMesh,
    Mesh,
    NamedSharding,
    PartitionSpec,
    Placement,
    current_mesh,
    get_abstract_mesh,
    placement_of,
    running_mesh,
    spread_of,
)

__all__ = ["Asked", "Plan", "call", "common_placement", "context_mesh", "elsewhere", "mesh_of", "moved", "plan"]


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

    @property
    def devices(self) -> tuple[Any, ...] | None:
        """The devices that it runs on; None where only meshes without devices say it."""
        if self.how.placement is None:
            return (client.default_device(),)
        devices = self.how.placement.devices
        return None if isinstance(devices[0], StandIn) else devices

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


def call(jaxpr: Jaxpr, name: str, arrays: Sequence[Any], within: bool = False) -> tuple[Any, ...]:
    """Run a program where its operands live.

    Parameters
    ----------
    jaxpr : Jaxpr
    name : str
    arrays : sequence of Array
    within : bool
        On the devices of the current mesh, if there is one.

    Returns
    -------
    tuple of Array
    """
    context = context_mesh() if within else None
    return plan(jaxpr, name, tuple([x._placement for x in arrays]), context=context).call(arrays)


def plan(
    jaxpr: Jaxpr, name: str, placements: tuple[Any, ...], donated: tuple[bool, ...] = (), out_placements: tuple[Any, ...] = (),
    options: tuple[Any, ...] = (), context: Mesh | None = None, devices: tuple[Any, ...] | str | None = None,
    labels: Callable[[], Sequence[str]] | None = None,
) -> Plan:  # fmt: skip
    """How a program runs on operands with these placements; remembered on the program.

    Parameters
    ----------
    jaxpr : Jaxpr
        Its constants are inputs.
    placements : tuple of Placement, NamedSharding or None
        One per input; shardings over meshes without devices among them.
    donated : tuple of bool
    out_placements : tuple of Placement, NamedSharding or None
        Where results are wanted.
    options : tuple of (flag, value)
    context : Mesh, optional
        The program runs on its devices. Otherwise the current mesh is one that meshes without devices may stand for.
    devices : tuple of Device, or str, optional
        What meshes without devices stand for where nothing else tells; the name of a platform if that does not matter, as the
        program is not run.
    labels : callable, optional
        Gives the names of the inputs, for messages.
    name : str
        Of the function, for messages.

    Returns
    -------
    Plan

    Raises
    ------
    ValueError
        Operands or results are committed to different devices, or no devices are known.
    """
    default = client.default_placement()
    key = ("plan", placements, donated, out_placements, options, default, context, current_mesh(), devices)
    found = jaxpr.derived.get(key)
    if found is None:
        if events.wanted() and labels is not None:
            _tell_of_others(jaxpr, name, placements, labels)
        found = _plan(jaxpr, name, placements, donated, out_placements, options, default, context, devices, labels)
        found = jaxpr.derived.setdefault(key, found)
    return found


def _plan(
    jaxpr: Jaxpr, name: str, placements: Any, donated: Any, out_placements: Any, options: Any, default: Any, context: Any,
    devices: Any, labels: Any,
) -> Plan:  # fmt: skip
    held = mesh_of(jaxpr)
    asked = Asked(name, placements, out_placements, held, context, labels)
    meshes = asked.meshes()
    chosen = common_placement(asked)
    abstract = asked.abstract()
    if abstract:
        now = context_mesh(entered=True)
        if not meshes and now is not None and now.size == abstract[0].size and (chosen is None or not chosen.committed):
            meshes = [now]
        settled = settle(abstract, chosen, meshes, devices)
        meshes = meshes or [settled(abstract[0])]
        placements, out_placements = [
            tuple([placement_of(p.update(mesh=settled(p.mesh))) if type(p) is NamedSharding else p for p in ps])
            for ps in (placements, out_placements)
        ]
    if not meshes:
        chosen = chosen or default
        outs = () if chosen is None else (chosen,) * len(jaxpr.outvars)
        return Plan(jaxpr, name, (chosen,) * len(placements), Compilation(chosen, donated, (), outs, options))
    mesh = meshes[0]
    whole = placement_of(NamedSharding(mesh, PartitionSpec()))
    order = whole.devices
    ready = tuple(
        [p if p is not None and p.devices == order and type(p.sharding) is NamedSharding else whole for p in placements]
    )
    wanted = _typed(jaxpr, meshes, tuple(out_placements))
    return Plan(jaxpr, name, ready, Compilation(whole, donated, ready, wanted, options, mesh))


def _typed(jaxpr: Jaxpr, meshes: Sequence[Mesh], wanted: tuple[Any, ...]) -> tuple[Any, ...]:
    """Where results are wanted, with what their types say; results that no type speaks of are whole on explicit meshes."""
    explicit = next((mesh for mesh in meshes if mesh.explicit_axes), None)
    if explicit is None:
        return wanted
    given = wanted or (None,) * len(jaxpr.outvars)
    places = []
    for var, place in zip(jaxpr.outvars, given, strict=True):
        spread = var.aval.spread
        if spread is None:
            if place is None and explicit is meshes[0] and explicit.are_all_axes_explicit:
                place = placement_of(NamedSharding(explicit, PartitionSpec(*[None] * var.aval.ndim)))
            places.append(place)
        elif not explicit.are_all_axes_explicit:  # the partitioner has its part in it
            places.append(place)
        elif place is None or spread_of(place.sharding, var.aval.ndim) is not spread:
            mesh = next((m for m in meshes if m.abstract_mesh == spread.mesh), explicit)
            if mesh.shape_tuple != spread.mesh.shape_tuple and mesh.size == spread.mesh.size:  # of `use_abstract_mesh`
                mesh = spread.mesh.over(mesh.devices)
            places.append(placement_of(NamedSharding(mesh, spread.spec)))
        else:
            places.append(place)
    return tuple(places)


def _tell_of_others(jaxpr: Jaxpr, name: str, placements: Sequence[Any], labels: Callable[[], Sequence[str]]) -> None:
    """Tell who listens that a known program is to run on operands that lie elsewhere."""
    known = [key[1] for key in jaxpr.derived if type(key) is tuple and key[0] == "plan"]
    if known:
        told = zip(labels(), placements, known[-1], strict=True)
        text = "; ".join(
            [f"{label}: now {_where(new)} and before {_where(old)}" for label, new, old in told if new is not old]
        )
        events.emit(events.CacheMiss(name, "different placements", None, text or "the current mesh", "plan"))


def _where(place: Any) -> str:
    return "anywhere" if place is None else str(place.sharding if isinstance(place, Placement) else place)


def context_mesh(entered: bool = False) -> Mesh | None:
    """The mesh of `set_mesh`, or None; in the axes of `use_abstract_mesh`, if there are such.

    With `entered`, that of ``with mesh:``, too.
    """
    mesh = current_mesh() if entered else running_mesh()
    if mesh is None:
        return None
    axes = get_abstract_mesh()
    if axes.size != mesh.size or axes.shape_tuple == mesh.shape_tuple:
        return mesh
    return axes.over(mesh.devices)


def elsewhere(jaxpr: Jaxpr, arrays: Sequence[Any], entered: bool = False) -> bool:
    """Whether a program runs elsewhere than on the default device.

    Parameters
    ----------
    jaxpr : Jaxpr
    arrays : sequence of Array
        Its operands.
    entered : bool
        As in `context_mesh`.

    Returns
    -------
    bool
    """
    for x in arrays:
        if x._placement is not None:
            return True
    within = current_mesh() if entered else running_mesh()
    return within is not None or client.default_placement() is not None or mesh_of(jaxpr) is not None


def mesh_of(jaxpr: Jaxpr) -> Mesh | AbstractMesh | None:
    """The mesh that a program names, if it does: one with devices if there is such."""
    try:
        return jaxpr.derived["mesh"]
    except KeyError:
        pass
    found = None
    for eqn in jaxpr.eqns:
        named = [eqn.params.get("mesh"), *map(mesh_of, inner_jaxprs(eqn.params))]
        for mesh in named:
            if isinstance(mesh, (Mesh, AbstractMesh)) and (found is None or isinstance(mesh, Mesh)):
                found = mesh
        if isinstance(found, Mesh):
            break
    jaxpr.derived["mesh"] = found
    return found


class Asked:
    """What a computation is asked to run on, and by whom.

    Parameters
    ----------
    name : str
        Of the function.
    placements, out_placements : sequence of Placement, NamedSharding or None
        Of operands and results.
    held : Mesh, AbstractMesh or None
        That the program names.
    context : Mesh or None
        The current one.
    labels : callable, optional
        Gives the names of the operands.
    """

    def __init__(
        self, name: str, placements: Sequence[Any], out_placements: Sequence[Any] = (), held: Any = None, context: Any = None,
        labels: Callable[[], Sequence[str]] | None = None,
    ) -> None:  # fmt: skip
        self.name, self.placements, self.out_placements = name, placements, out_placements
        self.held, self.context, self.labels = held, context, labels

    def meshes(self) -> list[Mesh]:
        """The meshes with devices; the first is that of the results."""
        found = [] if self.context is None else [self.context]
        for p in (*self.placements, *self.out_placements):
            if isinstance(p, Placement) and type(p.sharding) is NamedSharding:
                found.append(p.sharding.mesh)
        return [*found, self.held] if isinstance(self.held, Mesh) else found

    def abstract(self) -> list[AbstractMesh]:
        """The meshes without devices."""
        found: list[Any] = [p.mesh for p in (*self.placements, *self.out_placements) if type(p) is NamedSharding]
        return [*found, self.held] if isinstance(self.held, AbstractMesh) else found

    def places(self) -> list[tuple[Placement, str, int]]:
        """Where it is to run, who says so, and the number among these."""
        found = [(p, "in", i) for i, p in enumerate(self.placements)]
        found += [(p, "out", i) for i, p in enumerate(self.out_placements)]
        for kind, mesh in (("program", self.held), ("context", self.context)):
            if isinstance(mesh, Mesh):
                found.append((placement_of(NamedSharding(mesh, PartitionSpec())), kind, 0))
        return [(p, kind, i) for p, kind, i in found if isinstance(p, Placement)]

    def told(self, placement: Placement, kind: str, number: int) -> str:
        """Who asks for a placement, in words."""
        ids = f"device ids {[d.id for d in placement.devices]} on platform {placement.devices[0].platform.upper()}"
        if kind == "in":
            names = self.labels() if self.labels is not None else [f"operand {i}" for i in range(len(self.placements))]
            return f"{names[number]} with {ids}"
        who = {"out": "explicit output sharding", "program": "a mesh inside of it", "context": "the context mesh"}
        return f"{who[kind]} with {ids}"


def common_placement(asked: Asked) -> Placement | None:
    """Where a computation runs: the one set of devices that the user asked for, else a placement that nobody asked for, or None.

    Raises
    ------
    ValueError
        There are several.
    """
    chosen, loose = None, None
    for found in asked.places():
        placement = found[0]
        if not placement.committed:
            loose = loose or placement
        elif chosen is None:
            chosen = found
        elif placement.devices != chosen[0].devices and set(placement.devices) != set(chosen[0].devices):
            of = "jitted computation" if asked.labels is not None else asked.name
            raise ValueError(
                errors.explain(
                    f"Received incompatible devices for {of}. Got {asked.told(*chosen)} and {asked.told(*found)}",
                    "A computation runs on one set of devices, and arrays that were placed on purpose are not moved",
                    "move one of them: purax.device_put(x, device)",
                )
            )
    return loose if chosen is None else chosen[0]
