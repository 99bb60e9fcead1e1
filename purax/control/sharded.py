# SPDX-License-Identifier: Apache-2.0
"""Values spread over a mesh: `with_sharding_constraint`, and `jit` on arguments that were placed on purpose."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from purax import config, dtypes, errors, tree
from purax.core.primitive import Primitive
from purax.core.trace import Tracer, aval_of
from purax.pipeline import placed
from purax.pipeline.debug import active as debugging
from purax.primitives import shape
from purax.runtime.array import Array, wrap_placed
from purax.runtime.transfer import device_put
from purax.sharding import (
    Mesh,
    NamedSharding,
    PartitionSpec,
    Sharding,
    SingleDeviceSharding,
    current_mesh,
    placement_of,
)
from purax.sharding.spec import UNCONSTRAINED

__all__ = ["sharding_constraint_p", "with_sharding_constraint"]


class ShardingConstraint(Primitive):
    """The identity, on a value that is spread over `mesh` by `spec`."""

    def infer(self, x: Any, *, mesh: Mesh, spec: PartitionSpec) -> Any:
        """The operand's type."""
        return (x,)

    def reference(self, x: Any, *, mesh: Mesh, spec: PartitionSpec) -> Any:
        """The operand."""
        return (x,)

    def run(self, operands: tuple[Any, ...], params: dict[str, Any]) -> tuple[Any, ...]:
        """Move the array."""
        return (device_put(operands[0], NamedSharding(params["mesh"], _closed(params["spec"]))),)

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> Any:
        """The same constraint on the tangent."""
        out = self.bind1(*primals, **params)
        return (out,), (None if tangents[0] is None else self.bind1(*tangents, **params),)

    def transpose(self, cotangents: Any, operands: Any, **params: Any) -> Any:
        """The same constraint on the cotangent."""
        return (self.bind1(cotangents[0], **params),)

    def batch(self, axis: Any, operands: Any, dims: Any, *, mesh: Mesh, spec: PartitionSpec) -> Any:
        """The partitioner may choose what becomes of the mapped axis, unless vmap said it."""
        moved = shape.move_batch_axis(operands[0], dims[0], 0)
        return self.bind(
            moved, mesh=mesh, spec=PartitionSpec(UNCONSTRAINED if axis.spmd is None else axis.spmd, *spec)
        ), (0,)

    def lower(self, b: Any, ins: Any, outs: Any, *, mesh: Mesh, spec: PartitionSpec) -> Any:
        """`sdy.sharding_constraint`; inside a manual region its axes are cut already.

        Raises
        ------
        ValueError
            The spec names an axis of the manual region around it.
        """
        if mesh.size == 1:
            return ins
        if b.module.manual is not None:
            if set(spec.axis_names()) & set(b.module.manual.axes):
                raise ValueError(
                    f"a sharding constraint by {spec} contains a manual axes {b.module.manual.axes} of mesh {mesh}: its values are pieces already"
                )
            if len(b.module.manual.axes) == len(mesh.axis_names):
                return ins
        text = NamedSharding(mesh, spec).sdy_text(ins[0].aval.ndim, b.module.mesh(mesh)).removeprefix("#sdy.sharding")
        return [b.emit(f"sdy.sharding_constraint {ins[0]} {text} : {ins[0].hlo}", outs[0])]


sharding_constraint_p = ShardingConstraint("sharding_constraint")


def _closed(spec: PartitionSpec) -> PartitionSpec:
    return PartitionSpec(*[None if part is UNCONSTRAINED else part for part in spec])


def with_sharding_constraint(x: Any, shardings: Any) -> Any:
    """The same values, spread over devices in a given way.

    Parameters
    ----------
    x : pytree of arrays
    shardings : pytree prefix of Sharding or PartitionSpec
        Specs refer to the current mesh; None leaves a leaf as it is. Outside a program arrays are moved.

    Returns
    -------
    pytree like `x`

    Raises
    ------
    RuntimeError
        A PartitionSpec is given, and there is no current mesh.
    ValueError
        A leaf cannot be cut as its sharding says.
    """
    leaves, treedef = tree.flatten(x)
    wanted = tree.flatten_axes("with_sharding_constraint shardings", treedef, shardings)
    return treedef.unflatten([constrained(leaf, resolve(s)) for leaf, s in zip(leaves, wanted, strict=True)])


def constrained(x: Any, sharding: Any) -> Any:
    """`x`, spread by `sharding`; None leaves it."""
    if sharding is None:
        return x
    aval = aval_of(x)
    if isinstance(sharding, NamedSharding):
        if len(sharding.spec) > aval.ndim:
            raise ValueError(
                f"{sharding.spec} has {len(sharding.spec)} entries, but the value has type {aval.str_short()}, of {aval.ndim} axes."
            )
        return sharding_constraint_p.bind1(x, mesh=sharding.mesh, spec=sharding.spec)
    return x if isinstance(x, Tracer) else device_put(x, sharding)


def resolve(sharding: Any) -> Any:
    """A sharding from what users write: a Sharding, a PartitionSpec of the current mesh, a device, None."""
    if sharding is None or isinstance(sharding, Sharding):
        return sharding
    if isinstance(sharding, PartitionSpec):
        mesh = current_mesh()
        if mesh is None:
            raise RuntimeError(
                errors.explain(
                    "with_sharding_constraint requires a non-empty mesh in context if you are passing `PartitionSpec`s to shardings.",
                    f"{sharding} names axes of a mesh, and there is no current mesh.",
                    "use `with purax.set_mesh(mesh):`, or pass NamedSharding(mesh, spec).",
                )
            )
        return NamedSharding(mesh, sharding)
    if hasattr(sharding, "device_kind"):
        return SingleDeviceSharding(sharding)
    raise TypeError(
        f"a sharding must be a Sharding or a PartitionSpec, got {sharding!r} of type {type(sharding).__name__}"
    )


def committed_elsewhere(x: Any, sharding: Sharding) -> bool:
    """Whether an array was put on purpose where `sharding` does not want it."""
    if type(x) is not Array or not x.committed:
        return False
    return not x.sharding.is_equivalent_to(sharding, x.ndim)


# --- jit over placed arguments ------------------------------------------------------------------------------------------------


class Shardings:
    """What the user of `jit` asks for: where arguments must lie, and where results are to lie.

    Parameters
    ----------
    in_shardings, out_shardings : pytree prefixes of Sharding, PartitionSpec or None
    device : Device, optional
        For everything.
    """

    def __init__(self, in_shardings: Any, out_shardings: Any, device: Any) -> None:
        everywhere = None if device is None else SingleDeviceSharding(device)
        self.ins: Any = everywhere or in_shardings
        self.outs: Any = everywhere or out_shardings
        self.strict = device is None

    def inputs(self, call: Any) -> list[Any]:
        """Wanted sharding of each leaf of the arguments, or None."""
        if self.ins is None:
            return [None] * len(call.leaves)
        ins = tuple(self.ins) if isinstance(self.ins, list) else self.ins
        gone = {i for i, _ in call.zeros}
        wanted = tree.flatten_axes("jit in_shardings", call.treedef, (ins, ins if _single(ins) else None))
        found = [resolve(s) for i, s in enumerate(wanted) if i not in gone]
        for i, (x, sharding) in enumerate(zip(call.leaves, found, strict=True)):
            if sharding is None:
                continue
            sharding.check_compatible_aval(aval_of(x).shape)
            if self.strict and committed_elsewhere(x, sharding):
                raise ValueError(
                    errors.explain(
                        f"Sharding passed to jit does not match the sharding on the respective arg. Got jit sharding: {sharding}, arg sharding: "
                        f"{x.sharding} for arg {call.names()[i]} of type {aval_of(x).str_short()}",
                        "arrays that were placed on purpose are not moved",
                        "device_put the argument, or leave in_shardings out",
                    )
                )
        return found

    constraints = inputs  # what the program says of its inputs

    def outputs(self, out_tree: Any) -> list[Any] | None:
        """Wanted sharding of each leaf of the result, or None."""
        if self.outs is None:
            return None
        return [resolve(s) for s in tree.flatten_axes("jit out_shardings", out_tree, self.outs)]


def _single(sharding: Any) -> bool:
    return isinstance(sharding, (Sharding, PartitionSpec))


def asked(options: dict[str, Any]) -> Shardings | None:
    """The shardings among the options of `jit`, if there are any."""
    given = [options.get(name) for name in ("in_shardings", "out_shardings", "device")]
    return None if all(s is None for s in given) else Shardings(*given)


def constrain(values: Sequence[Any], wanted: Sequence[Any] | None) -> list[Any]:
    """Values of a program that is being traced, spread as is wanted."""
    if wanted is None:
        return list(values)
    return [
        constrained(x, s) if isinstance(s, NamedSharding) and aval_of(x).dtype != dtypes.float0 else x
        for x, s in zip(values, wanted, strict=True)
    ]


def key_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], Any]:
    """Leaves of the arguments, and the key of the short way for placed arrays; None where a leaf is no array."""
    leaves, treedef = tree.flatten((args, kwargs))
    key: list[Any] = [treedef, config.trace_key()]
    for x in leaves:
        if type(x) is not Array:
            return leaves, None
        key += (x.aval, x._placement)
    return leaves, tuple(key)


def outputs_of(function: Any, program: Any) -> list[Any]:
    """Wanted sharding of each result that a program computes, or None; nothing where no result has one."""
    found = None if function.shardings is None else function.shardings.outputs(program.out_tree)
    gone = {i for i, _ in program.zeros}
    return [s for i, s in enumerate(found or ()) if i not in gone]


def plan_of(function: Any, call: Any, program: Any) -> Any:
    """The plan of a jitted function for the arguments of a call (arrays, or types of them with a sharding) that it needs."""
    consts = program.consts
    places = places_of(function, call)
    outs: tuple[Any, ...] = ()
    if function.shardings is not None:
        outs = tuple([None if s is None else placement_of(s) for s in outputs_of(function, program)])
        outs = () if all(p is None for p in outs) else outs
    held = program.cells.read()
    places, outs = [*places, *map(_place, held)], (*outs, *[None] * program.touches) if outs else ()
    donated = (*(False for _ in consts), *call.donated, *(False for _ in held)) if any(call.donated) else ()
    places, donated = program.pick((*map(_place, consts), *places)), program.pick(donated) if donated else ()
    return placed.plan(program.pruned[0], function.name, tuple(places), tuple(donated), outs, function.flags)


def places_of(function: Any, call: Any) -> list[Any]:
    """Placement of each leaf of the arguments of a call, as it lies or as is asked for; None where neither says anything."""
    places = [_place(x) for x in call.leaves]
    if function.shardings is None:
        return places
    wanted = function.shardings.inputs(call)
    return [p if s is None else placement_of(s) for p, s in zip(places, wanted, strict=True)]


def _place(x: Any) -> Any:
    if type(x) is Array:
        return x._placement
    sharding = getattr(x, "sharding", None) if not isinstance(x, Tracer) else None
    return placement_of(sharding) if isinstance(sharding, Sharding) else None


def run(function: Any, call: Any, program: Any, values: Sequence[Any]) -> Sequence[Any]:
    """Outputs of a jitted function whose arguments, results or program lie elsewhere than on the default device.

    Parameters
    ----------
    function : JitFunction
    call : Call
    program : Program
    values : sequence of Array
        What the program takes: constants, arguments and what captured references hold, as far as they are needed.

    Returns
    -------
    sequence of Array
    """
    plan = plan_of(function, call, program)
    moved = plan.move(values)
    used, first = program.pruned[1], len(program.consts)
    start = first if used is None else sum(i < first for i in used)
    if all(x is y for x, y in zip(moved[start:], values[start:], strict=True)) and not (
        program.touches or call.zeros or call.statics or debugging()
    ):
        key = key_of(call.args, call.kwargs)[1]
        if key is not None and program is function.programs.get(call.key):
            taken = None if used is None else [i - first for i in used[start:]]
            function.store.placed[key] = _short(plan.compiled(), moved[:start], taken, program)
    return plan.call(moved)


def _short(executable: Any, consts: list[Any], taken: list[int] | None, program: Any) -> Callable[[list[Any]], Any]:
    """The short way: arrays of the right types, where they must lie; of these, the program takes some or all."""
    run = _short_for(executable, consts, program)
    return run if taken is None else lambda leaves: run([leaves[i] for i in taken])


def _short_for(executable: Any, consts: list[Any], program: Any) -> Callable[[list[Any]], Any]:
    execute, avals, places = executable.run, executable.out_avals, executable.out_placements
    unflatten = program.unflatten if program.zeros else program.out_tree.unflatten
    fixed = [x.buffer for x in consts]

    def quick(leaves: list[Any]) -> Any:
        outs = execute(fixed + [x.buffer for x in leaves])
        return unflatten([wrap_placed(a, b, p) for a, b, p in zip(avals, outs, places)])  # noqa: B905

    return (lambda leaves: unflatten(executable.call([*consts, *leaves]))) if executable.donate else quick
