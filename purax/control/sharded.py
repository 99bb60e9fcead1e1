# SPDX-License-Identifier: Apache-2.0
"""Values spread over a mesh: `with_sharding_constraint`, and `jit` on arguments that were placed on purpose."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from purax import config, dtypes, errors, tree
from purax.core.primitive import Primitive
from purax.core.trace import Tracer, aval_of, current
from purax.pipeline import placed
from purax.pipeline.debug import active as debugging
from purax.primitives import shape
from purax.primitives.resharding import reshard_to
from purax.runtime import client
from purax.runtime.array import Array, wrap_placed
from purax.runtime.transfer import device_put
from purax.sharding import (
    AbstractMesh,
    Mesh,
    NamedSharding,
    PartitionSpec,
    Sharding,
    SingleDeviceSharding,
    current_mesh,
    get_abstract_mesh,
    placement_of,
    rules,
    spread_of,
    uncut,
)
from purax.sharding.spec import UNCONSTRAINED, names_of

__all__ = ["sharding_constraint_p", "with_sharding_constraint"]


class ShardingConstraint(Primitive):
    """The identity, on a value that is spread over `mesh` by `spec`; a mesh without devices stands for those of the program."""

    spread = rules.same

    def infer(self, x: Any, *, mesh: Mesh, spec: PartitionSpec) -> Any:
        """The operand's type."""
        return (x,)

    def reference(self, x: Any, *, mesh: Mesh, spec: PartitionSpec) -> Any:
        """The operand."""
        return (x,)

    def run(self, operands: tuple[Any, ...], params: dict[str, Any]) -> tuple[Any, ...]:
        """Move the array; by a mesh without devices, within those that it lies on.

        Raises
        ------
        ValueError, TypeError
            It lies on other devices, or on no mesh that the mesh without devices could stand for.
        """
        (x,), mesh = operands, params["mesh"]
        if isinstance(mesh, AbstractMesh):
            mesh = _mesh_under(x, mesh)
        target = placement_of(NamedSharding(mesh, _closed(params["spec"])))
        if type(x) is Array and x.committed:
            placed.common_placement(placed.Asked("with_sharding_constraint", [x._placement], [target]))
        return (device_put(x, target),)

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


def _mesh_under(x: Any, mesh: AbstractMesh) -> Mesh:
    """The mesh with devices that a mesh without stands for, of the sharding of an array."""
    sharding = getattr(x, "sharding", None)
    found = (
        sharding.mesh if isinstance(sharding, NamedSharding) and not sharding.is_abstract else placed.context_mesh(True)
    )
    text = f"value of type {aval_of(x).str_short()}"
    if found is None:
        fix = "device_put it onto a mesh, or call this within `with purax.set_mesh(mesh):`"
        if not isinstance(x, Array):
            raise ValueError(
                errors.explain(
                    f"Target sharding contains a `jax.sharding.AbstractMesh` which requires the input passed should be a `jax.Array`. Got a {text} and class {type(x).__name__}",
                    fix=fix,
                )
            )
        raise TypeError(
            errors.explain(
                f"The sharding on the input must be a `NamedSharding` since the target sharding has an `AbstractMesh` in it. Got {sharding} for a {text}",
                fix=fix,
            )
        )
    if found.shape_tuple != mesh.shape_tuple:
        raise ValueError(
            f"Mesh shape of the input {found.shape_tuple} does not match the mesh shape of the target sharding {mesh.shape_tuple} for a {text}"
        )
    return found


def _closed(spec: PartitionSpec) -> PartitionSpec:
    return PartitionSpec(*[None if part is UNCONSTRAINED else part for part in spec])


def with_sharding_constraint(x: Any, shardings: Any) -> Any:
    """The same values, spread over devices in a given way.

    Parameters
    ----------
    x : pytree of arrays
    shardings : pytree prefix of Sharding or PartitionSpec
        Specs refer to the current mesh, and None is the empty spec. A mesh without devices stands for the devices of the
        program. Outside a program arrays are moved.

    Returns
    -------
    pytree like `x`

    Raises
    ------
    RuntimeError
        A PartitionSpec is given, and there is no current mesh.
    ValueError
        A leaf has fewer axes than its sharding says, or its sharding is None and there is no current mesh.
    """
    leaves, treedef = tree.flatten(x)
    wanted = tree.flatten_axes("with_sharding_constraint shardings", treedef, shardings)
    if None in wanted:
        if current_mesh() is None:
            raise ValueError(
                "One of with_sharding_constraint arguments got sharding None which is not allowed where there is no current mesh. "
                "Please only pass `jax.sharding.Sharding` instances, or PartitionSpec.UNCONSTRAINED for axes that are left open."
            )
        wanted = [PartitionSpec() if s is None else s for s in wanted]
    return treedef.unflatten([constrained(leaf, resolve(s)) for leaf, s in zip(leaves, wanted, strict=True)])


def constrained(x: Any, sharding: Any, what: str = "with_sharding_constraint arguments", path: str = "") -> Any:
    """`x`, spread by `sharding`; None leaves it. `what` and `path` name it in messages."""
    if sharding is None:
        return x
    if isinstance(sharding, NamedSharding):
        _check_rank(aval_of(x), sharding, what, path)
        if sharding.mesh.explicit_axes:
            _check_explicit(aval_of(x), sharding)
            if sharding.mesh.are_all_axes_explicit:
                return x
            sharding = sharding.update(spec=_with_explicit(aval_of(x), sharding))
        return sharding_constraint_p.bind1(x, mesh=sharding.mesh, spec=sharding.spec)
    if isinstance(x, Tracer):
        _check_lanes(x, sharding)
        return x
    return device_put(x, sharding)


def _check_lanes(x: Tracer, sharding: Any) -> None:
    trace = x._trace
    while trace is not None:
        if getattr(getattr(trace, "axis", None), "spmd", None) is not None:
            raise ValueError(
                "If you are using spmd_axis_name parameter of jax.vmap, please make sure to run your jitted function inside the mesh context "
                f"manager, and to give NamedShardings or PartitionSpecs: a mapped value cannot lie by {sharding}, which has no axes."
            )
        trace = trace.parent


def _with_explicit(aval: Any, sharding: NamedSharding) -> PartitionSpec:
    """The spec with what the type of the value says of explicit axes."""
    if aval.spread is None:
        return sharding.spec
    explicit = frozenset(sharding.mesh.explicit_axes)
    asked = [*sharding.spec, *[None] * (aval.ndim - len(sharding.spec))]
    parts = [
        part if part is UNCONSTRAINED else (*own, *[name for name in names_of(part) if name not in explicit])
        for own, part in zip(aval.spread.parts, asked, strict=True)
    ]
    return PartitionSpec(*parts)


def _check_explicit(aval: Any, sharding: NamedSharding) -> None:
    if not frozenset(sharding.mesh.explicit_axes).intersection(sharding.spec.axis_names(), sharding.spec.unreduced):
        if not sharding.mesh.are_all_axes_explicit:
            return
    wanted = spread_of(sharding, aval.ndim)
    known = aval.spread if aval.spread is not None else uncut(sharding.mesh.abstract_mesh, aval.ndim)
    if wanted is not None and (known.parts, known.unreduced) != (wanted.parts, wanted.unreduced):
        raise errors.ShardingAssertionError(
            errors.explain(
                f"with_sharding_constraint was given {sharding.spec}, but the value has type {aval.str_short()}.",
                "On explicit mesh axes the type says how a value lies, and the constraint is an assertion about it.",
                "use purax.sharding.reshard(x, spec) to have it lie in another way.",
            )
        )


def _check_rank(aval: Any, sharding: Any, what: str, path: str) -> None:
    if isinstance(sharding, NamedSharding) and len(sharding.spec) > aval.ndim:
        raise ValueError(
            f"One of {what}{' with pytree key path ' * bool(path)}{path} is incompatible with its sharding annotation {sharding}: it is only "
            f"valid for values of rank at least {len(sharding.spec)}, but was applied to a value of rank {aval.ndim}, of type {aval.str_short()}"
        )


def _check_fits(aval: Any, sharding: Any, what: str, path: str) -> None:
    """Check that a value can be cut as its sharding says; `what` and `path` name it."""
    _check_rank(aval, sharding, what, path)
    try:
        sharding.check_compatible_aval(aval.shape)
    except ValueError as error:
        raise ValueError(
            f"One of {what} with pytree key path {path} is incompatible with its sharding annotation: {error} The sizes of mesh axes should "
            f"evenly divide the shape of {aval.str_short()}; pad it, or leave the axis out of the spec."
        ) from None


class _Whole:
    """In place of a sharding: the whole on each device of the current mesh, and nothing where there is none."""

    def __repr__(self) -> str:
        return "None"


WHOLE = _Whole()


def resolve(sharding: Any, api: str = "with_sharding_constraint", what: str = "shardings") -> Any:
    """A sharding from what users write: a Sharding, a PartitionSpec of the current mesh, a device, None.

    In programs a spec is one of a mesh without devices, so that they are the same on the devices of each current mesh.

    Parameters
    ----------
    sharding : Sharding, PartitionSpec, Device or None
    api, what : str
        What the user called, and which argument it is.

    Returns
    -------
    Sharding or None

    Raises
    ------
    RuntimeError
        There is no current mesh.
    ValueError
        It is a sharding over no devices.
    TypeError
        It is none of these.
    """
    if sharding is WHOLE:
        sharding = None if get_abstract_mesh().empty else PartitionSpec()
    if isinstance(sharding, NamedSharding) and sharding.mesh.empty:
        raise ValueError(f"{api} got an empty NamedSharding: {sharding} in {what}; its mesh has no devices.")
    if sharding is None or isinstance(sharding, Sharding):
        return sharding
    if isinstance(sharding, PartitionSpec):
        mesh: Any = placed.context_mesh(entered=True) if current.get() is None else None
        mesh = mesh or get_abstract_mesh()
        if mesh.empty:
            raise RuntimeError(
                errors.explain(
                    f"{api} requires a non-empty mesh in context if you are passing `PartitionSpec`s to {what}.",
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
    if isinstance(sharding, NamedSharding) and sharding.is_abstract:
        here: Any = x.sharding
        return here.num_devices == sharding.num_devices and (
            here.dimension_cuts(x.ndim) != sharding.dimension_cuts(x.ndim)
            or here.device_indices(x.ndim) != sharding.device_indices(x.ndim)
        )
    return not x.sharding.is_equivalent_to(sharding, x.ndim)


# --- jit over placed arguments ------------------------------------------------------------------------------------------------


class Shardings:
    """What the user of `jit` asks for: where arguments must lie, and where results are to lie.

    Parameters
    ----------
    in_shardings, out_shardings : pytree prefixes of Sharding, PartitionSpec or None
    device : Device, optional
        For everything.

    Raises
    ------
    ValueError
        A device beside shardings, or one that is left open.
    TypeError
        What is no sharding.
    """

    def __init__(self, in_shardings: Any, out_shardings: Any, device: Any) -> None:
        if device is not None:
            for name, given in (("in_shardings", in_shardings), ("out_shardings", out_shardings)):
                if given is not None:
                    raise ValueError(f"If backend or device is specified on jit, then {name} should not be specified.")
        for name, given in (("in_shardings", in_shardings), ("out_shardings", out_shardings)):
            for leaf in tree.leaves(given):
                _check_asked(name, leaf)
        everywhere = None if device is None else SingleDeviceSharding(device)
        self.ins: Any = everywhere or (tuple(in_shardings) if isinstance(in_shardings, list) else in_shardings)
        self.outs: Any = everywhere or out_shardings
        self.strict = device is None

    def check(self, call: Any) -> None:
        """Check that shardings can be asked for in this call.

        Raises
        ------
        ValueError
            Arguments have names, or there is a device and a current mesh.
        """
        if call.kwargs and self.ins is not None and self.strict:
            raise ValueError(
                "pjit does not support kwargs when in_shardings is specified: pass the arguments by position, "
                f"got {', '.join(map(repr, call.kwargs))} by name."
            )
        if not self.strict and placed.context_mesh(call.function.entered) is not None:
            raise ValueError(
                "Mesh context manager should not be used with jit when backend or device is also specified as an argument to jit."
            )

    def inputs(self, call: Any) -> list[Any]:
        """Wanted sharding of each leaf of the arguments, or None."""
        self.check(call)
        if self.ins is None:
            return [None] * len(call.leaves)
        gone = {i for i, _ in call.zeros}
        wanted = _argument_prefix(call, self.ins)
        found = [resolve(s, "jit", "in_shardings") for i, s in enumerate(wanted) if i not in gone]
        for i, (x, sharding) in enumerate(zip(call.leaves, found, strict=True)):
            if sharding is None:
                continue
            _check_fits(aval_of(x), sharding, "jit arguments", call.names()[i])
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

    def outputs(self, out_tree: Any, avals: Sequence[Any] = ()) -> list[Any] | None:
        """Wanted sharding of each leaf of the result, or None; checked where the types of the leaves are given."""
        if self.outs is None:
            return None
        wanted = tree.flatten_axes("jit out_shardings", out_tree, self.outs)
        found = [resolve(s, "jit", "out_shardings") for s in wanted]
        for i, (aval, sharding) in enumerate(zip(avals, found, strict=False)):
            if sharding is not None:
                paths = [tree.keystr(p) for p in tree.paths(out_tree)]
                _check_fits(aval, sharding, "jit outputs", f"result{paths[i]}")
        return found


def _check_asked(name: str, leaf: Any) -> None:
    spec = leaf.spec if isinstance(leaf, NamedSharding) else leaf
    if isinstance(spec, PartitionSpec) and UNCONSTRAINED in spec.partitions:
        raise ValueError(
            f"jit: Unconstrained dims are not allowed in {name}, got {leaf}: leave the sharding out (None), so that the partitioner chooses; or use with_sharding_constraint."
        )
    if not (isinstance(leaf, (Sharding, PartitionSpec, _Whole)) or hasattr(leaf, "device_kind")):
        raise TypeError(
            f"jit: {name} leaf specifications are expected to be PartitionSpec instances or None, but got {leaf}, of type {type(leaf).__name__}"
        )


def _argument_prefix(call: Any, ins: Any) -> list[Any]:
    """What `in_shardings` say of each leaf of the arguments."""
    statics = {where for where, _ in call.statics}
    count = len([i for i in range(len(call.args)) if i not in statics])
    if isinstance(ins, tuple) and not hasattr(ins, "_fields"):
        if len(ins) != count:
            raise ValueError(
                "pjit in_shardings specification must be a tree prefix of the positional arguments tuple. In particular, pjit in_shardings "
                "must either be a Sharding, a PartitionSpec, or a tuple of length equal to the number of positional arguments. But pjit "
                f"in_shardings is the wrong length: got a tuple or list of length {len(ins)} for an args tuple of length {count}."
            )
        rest = iter(ins)
        ins = tuple([None if i in statics else next(rest) for i in range(len(call.args))])
    elif not _single(ins):
        raise ValueError(
            f"jit: in_shardings is not a tuple, but {ins!r} of type {type(ins).__name__}: it is to be a prefix of the tuple of positional "
            "arguments, so with one argument it might need to be wrapped in a tuple, as (in_shardings,)."
        )
    return tree.flatten_axes("jit in_shardings", call.treedef, (ins, ins if _single(ins) else None))


def _single(sharding: Any) -> bool:
    return isinstance(sharding, (Sharding, PartitionSpec, _Whole)) or hasattr(sharding, "device_kind")


def asked(options: dict[str, Any]) -> Shardings | None:
    """The shardings among the options of `jit`, if there are any."""
    given = [options.get(name) for name in ("in_shardings", "out_shardings", "device")]
    if options.get("backend") is not None:
        if given[2] is not None:
            raise ValueError(
                f"can't specify both a device and a backend for jit, got device={given[2]} and backend={options['backend']!r}"
            )
        given[2] = client.backend(options["backend"]).local_devices[0]
    return None if all(s is None for s in given) else Shardings(*given)


def constrain(values: Sequence[Any], wanted: Sequence[Any] | None) -> list[Any]:
    """Values of a program that is being traced, spread as is wanted."""
    if wanted is None:
        return list(values)
    return [
        laid_out(x, s) if isinstance(s, NamedSharding) and aval_of(x).dtype != dtypes.float0 else x
        for x, s in zip(values, wanted, strict=True)
    ]


def laid_out(x: Any, sharding: NamedSharding) -> Any:
    """`x`, spread by `sharding`, as its type then says where axes of the mesh are explicit."""
    if sharding.mesh.explicit_axes:
        sharding.check_compatible_aval(aval_of(x).shape)
        mesh = sharding.mesh if isinstance(sharding.mesh, Mesh) else None
        x = reshard_to(x, spread_of(sharding, aval_of(x).ndim), mesh)
        if sharding.mesh.are_all_axes_explicit:
            return x
    return constrained(x, sharding)


def key_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], Any]:
    """Leaves of the arguments, and the key of the short way for placed arrays; None where a leaf is no array."""
    leaves, treedef = tree.flatten((args, kwargs))
    key: list[Any] = [treedef, config.trace_key(), current_mesh()]
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


def plan_of(function: Any, call: Any, program: Any, devices: Any = None) -> Any:
    """The plan of a jitted function for the arguments of a call (arrays, or types of them with a sharding) that it needs.

    `devices` are those that meshes without devices stand for where nothing else tells, or the name of a platform.
    """
    consts = program.consts
    places = places_of(function, call)
    outs: tuple[Any, ...] = ()
    if function.shardings is not None:
        outs = tuple([_placed(s) for s in outputs_of(function, program)])
        outs = () if all(p is None for p in outs) else outs
    held = program.cells.read()
    places, outs = [*places, *map(_place, held)], (*outs, *[None] * program.touches) if outs else ()
    donated = (*(False for _ in consts), *call.donated, *(False for _ in held)) if any(call.donated) else ()

    def labels() -> list[str]:
        given = [
            f"argument {n} of {function.name} with shape {a.str_short()}"
            for n, a in zip(call.names(), avals, strict=False)
        ]
        return list(
            program.pick(
                [
                    *[f"a captured constant of {function.name}" for _ in consts], *given,
                    *["what a reference holds" for _ in held],
                ]
            )
        )  # fmt: skip

    avals = [aval_of(x) for x in call.leaves]
    places, donated = program.pick((*map(_place, consts), *places)), program.pick(donated) if donated else ()
    return placed.plan(
        program.pruned[0], function.name, tuple(places), tuple(donated), outs, function.flags,
        placed.context_mesh(function.entered), devices, labels,
    )  # fmt: skip


def places_of(function: Any, call: Any) -> list[Any]:
    """Placement of each leaf of the arguments of a call, as it lies or as is asked for; None where neither says anything."""
    places = [_place(x) for x in call.leaves]
    if function.shardings is None:
        return places
    wanted = function.shardings.inputs(call)
    return [p if s is None else _placed(s) for p, s in zip(places, wanted, strict=True)]


def _place(x: Any) -> Any:
    if type(x) is Array:
        return x._placement
    sharding = getattr(x, "sharding", None) if not isinstance(x, Tracer) else None
    return _placed(sharding) if isinstance(sharding, Sharding) else None


def _placed(sharding: Any) -> Any:
    """The placement of a sharding; one over a mesh without devices is left as it is."""
    if sharding is None:
        return None
    if isinstance(sharding, NamedSharding):
        if sharding.mesh.empty:
            return None
        if sharding.is_abstract:
            return sharding
    return placement_of(sharding)


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
