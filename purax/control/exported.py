# SPDX-License-Identifier: Apache-2.0
"""Exported functions: StableHLO with all that is needed to call it, here or in another process.

A program whose sizes are all known is kept as a portable artifact of StableHLO. One with open sizes is kept as StableHLO text in
which sizes are expressions; a call fills in numbers (docs/design/006-open-shapes.md). The calling convention: `main` takes the
leaves of `(args, kwargs)` that it needs and returns the leaves of the output; random keys travel as their words; constants are in
the program.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from purax import dtypes, errors, tree
from purax.control.custom_vjp import custom_vjp
from purax.control.jit import jit
from purax.control.open_shapes import check_constraints, fill, solve
from purax.control.sharded import places_of
from purax.core.aval import ShapeDtypeStruct, array_aval
from purax.core.dims import Dim, SymbolicScope, evaluate, variables, writing
from purax.core.hooks import hooks
from purax.core.ir import Jaxpr
from purax.core.name_stack import NameStack
from purax.core.primitive import Primitive, Undefined
from purax.core.trace import aval_of
from purax.lazy import lazy
from purax.lowering.emit import Builder, Module, Value, signature_text, symbol
from purax.lowering.module import attributes, strip_locations, strip_paths
from purax.pipeline.evaluate import as_array
from purax.primitives import random_bits
from purax.runtime import client
from purax.sharding import Mesh, NamedSharding, PartitionSpec
from purax.transforms.vjp import vjp

_format = lazy("purax.control.export_format")  # imports this module

__all__ = ["DisabledSafetyCheck", "Exported", "default_export_platform", "export"]

CALLING_CONVENTION = 2
OLDEST_CALLING_CONVENTION = 1  # in it, `main` takes all leaves
_STABLE_TARGETS = re.compile(
    r"lapack_\w+|cusolver_\w+|hipsolver_\w+|cu_\w+|Qr|Eigh|ProductOfElementaryHouseholderReflectors|TopK|Sharding"
)


@dataclass(frozen=True)
class DisabledSafetyCheck:
    """A check that `export` leaves out.

    Attributes
    ----------
    kind : str
        `platform` or `custom_call`.
    target : str
        The custom call that is allowed; `ALL` allows every one.
    """

    kind: str
    target: str = ""

    @classmethod
    def platform(cls) -> DisabledSafetyCheck:
        """Let a program run on platforms that it was not exported for."""
        return cls("platform")

    @classmethod
    def custom_call(cls, target_name: str) -> DisabledSafetyCheck:
        """Let a program call a kernel that may be another one in the next version."""
        return cls("custom_call", target_name)


@dataclass(frozen=True, eq=False)
class Exported:
    """A function as StableHLO with its calling convention; made by `export` and `deserialize`.

    Attributes
    ----------
    fun_name : str
    in_tree, out_tree : PyTreeDef
        Structure of `(args, kwargs)`, and of the output.
    in_avals, out_avals : tuple of ShapedArray
        Types of their leaves; sizes may be expressions of dimension variables.
    platforms : tuple of str
    modules : dict from str to str
        The program for each platform: StableHLO text.
    disabled_safety_checks : tuple of DisabledSafetyCheck
    calling_convention_version : int
    nr_devices : int
        Over how many devices the program is split; a program for one runs on any number.
    in_specs, out_specs : tuple of PartitionSpec or None
        How arguments and results are spread over them; None leaves it to the partitioner.
    calls_global : bool
        Whether it calls an exported function that depends on sizes, or on the platform, of the call.
    kept : tuple of int, optional
        The leaves that `main` takes; None says all of them.
    """

    fun_name: str
    in_tree: Any
    in_avals: tuple[Any, ...]
    out_tree: Any
    out_avals: tuple[Any, ...]
    platforms: tuple[str, ...]
    modules: dict[str, str]
    disabled_safety_checks: tuple[DisabledSafetyCheck, ...] = ()
    get_vjp: Callable[[], Exported] | None = field(default=None, repr=False)
    derived: dict[str, Any] = field(default_factory=dict, repr=False)
    calling_convention_version: int = CALLING_CONVENTION
    nr_devices: int = 1
    in_specs: tuple[Any, ...] = ()
    out_specs: tuple[Any, ...] = ()
    ordered_effects: tuple[Any, ...] = ()
    unordered_effects: tuple[Any, ...] = ()
    calls_global: bool = False
    kept: tuple[int, ...] | None = None

    @property
    def scope(self) -> SymbolicScope | None:
        """Where the dimension variables belong, if there are any."""
        return next((d.scope for aval in self.in_avals for d in aval.shape if type(d) is Dim), None)

    @property
    def uses_global_constants(self) -> bool:
        """Whether the program depends on sizes, or on the platform, of the call."""
        return self.scope is not None or len(self.platforms) > 1 or self.calls_global

    @property
    def module_kept_var_idx(self) -> tuple[int, ...]:
        """The leaves that `main` takes."""
        return tuple(range(len(self.in_avals))) if self.kept is None else self.kept

    def mlir_module(self) -> str:
        """The program as StableHLO text, for the first platform."""
        return self.modules[self.platforms[0]]

    def __str__(self) -> str:
        types = ", ".join(aval.str_short() for aval in self.in_avals)
        return f"Exported({self.fun_name}({types}) for {', '.join(self.platforms)})"

    # --- calling

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function; inside of other functions too, and under `grad` where the export has a vjp.

        Raises
        ------
        TreeMismatchError
            The structure of the arguments is another one.
        ShapeError, ExportedCallError
            An argument has another type, or the program was exported for other platforms.
        """
        leaves, structure = tree.flatten((args, kwargs))
        if structure != self.in_tree:
            raise errors.TreeMismatchError(
                errors.explain(
                    f"the exported function {self.fun_name} takes arguments of the structure {self.in_tree}, and got {structure}.",
                    fix="pass the arguments as they were at export, without those that were static.",
                )
            )
        self._check(leaves)
        words = [random_bits.random_unwrap(x) if _is_key(a) else x for x, a in zip(leaves, self.in_avals, strict=True)]
        outs = self._function()(*words)
        return self.out_tree.unflatten(
            [
                random_bits.random_wrap(out, aval.dtype.impl) if _is_key(aval) else out
                for out, aval in zip(outs, self.out_avals, strict=True)
            ]
        )

    def names(self) -> list[str]:
        """What the leaves of the arguments are called."""
        args, kwargs = tree.treedef_children(self.in_tree)
        return [
            *[f"args{tree.keystr(path)}" for path in tree.paths(args)],
            *[f"kwargs{tree.keystr(path)}" for path in tree.paths(kwargs)],
        ]

    def _check(self, leaves: Sequence[Any]) -> None:
        names, have = self.names(), [aval_of(x) for x in leaves]
        for name, given, wanted in zip(names, have, self.in_avals, strict=True):
            if given.ndim != wanted.ndim:
                raise errors.ExportedCallError(
                    f"{self.fun_name}: {name} has shape {given.shape}, and was exported with {wanted.ndim} axes: {wanted.shape}"
                )
            if given.dtype != wanted.dtype:
                raise errors.ExportedCallError(
                    f"{self.fun_name}: {name} has dtype {given.dtype}, and was exported with {wanted.dtype}"
                )
        self.solve([aval.shape for aval in have])

    def solve(self, shapes: Sequence[Any]) -> dict[str, Any]:
        """The dimension variables for the shapes of a call."""
        values = solve([aval.shape for aval in self.in_avals], shapes, self.names())
        if self.scope is not None:
            check_constraints(self.scope, values)
        return values

    def _function(self) -> Any:
        found = self.derived.get("function")
        if found is None:
            found = self.derived["function"] = _differentiable(self)
        return found

    def module_for(self, platform: str) -> str:
        """The text for a platform of lowering: `cpu`, `gpu` or `tpu`."""
        names = ("cuda", "rocm") if platform == "gpu" else (platform,)
        found = next((name for name in names if name in self.modules), None)
        if found is None:
            if DisabledSafetyCheck.platform() not in self.disabled_safety_checks:
                raise errors.ExportedCallError(
                    errors.explain(
                        f"the function {self.fun_name} was exported for {', '.join(self.platforms)}, and is called on {names[0]}.",
                        fix=f"export it with platforms=[..., {names[0]!r}].",
                    )
                )
            found = self.platforms[0]
        return self.modules[found]

    def in_shardings_jax(self, mesh: Any) -> tuple[Any, ...]:
        """The shardings of the leaves of the arguments, over a mesh with the axes of the exported program."""
        return tuple([None if spec is None else _over(mesh, spec) for spec in self.in_specs])

    def out_shardings_jax(self, mesh: Any) -> tuple[Any, ...]:
        """The same of the results."""
        return tuple([None if spec is None else _over(mesh, spec) for spec in self.out_specs])

    # --- keeping

    def serialize(self, vjp_order: int = 0) -> bytearray:
        """The function as bytes that `deserialize` reads; `vjp_order` says how many times it can be differentiated then."""
        return _format.serialize(self, vjp_order)

    def save(self, path: str | os.PathLike[str], vjp_order: int = 0) -> None:
        """Write the function to a file that `purax.load` reads."""
        _format.save(self, path, vjp_order)

    # --- derivatives

    def has_vjp(self) -> bool:
        """Whether it can be differentiated."""
        return self.get_vjp is not None

    def vjp(self) -> Exported:
        """The exported function from arguments and cotangents of the floating outputs to cotangents of the floating arguments.

        Raises
        ------
        ValueError
            It was serialized with too small a `vjp_order`.
        """
        if self.get_vjp is None:
            raise ValueError(
                errors.explain(
                    f"the exported function {self.fun_name} has no derivative.",
                    fix="serialize it with vjp_order=1 or more.",
                )
            )
        found = self.derived.get("vjp")
        if found is None:
            found = self.derived["vjp"] = self.get_vjp()
        return found


def _is_key(aval: Any) -> bool:
    return isinstance(aval.dtype, dtypes.KeyDtype)


def _words(aval: Any) -> Any:
    """The type of what the program holds."""
    return array_aval((*aval.shape, *aval.dtype.key_shape), np.dtype(np.uint32)) if _is_key(aval) else aval


def _inexact(avals: Sequence[Any]) -> list[int]:
    return [i for i, aval in enumerate(avals) if dtypes.issubdtype(aval.dtype, np.inexact)]


def _differentiable(exported: Exported) -> Any:
    """The call on leaves, with the exported derivative as its rule."""

    @custom_vjp
    def function(*leaves: Any) -> Any:
        return exported_p.bind(*leaves, exported=exported)

    def forward(*leaves: Any) -> Any:
        return function(*leaves), leaves

    def backward(leaves: Any, cotangents: Any) -> Any:
        given = [cotangents[i] for i in _inexact(exported.out_avals)]
        found = exported.vjp().call(*leaves, *given)
        result: list[Any] = [None] * len(leaves)
        for i, cotangent in zip(_inexact(exported.in_avals), found, strict=True):
            result[i] = cotangent
        return tuple(result)

    function.defvjp(forward, backward)
    return function


def _over(mesh: Any, spec: PartitionSpec) -> NamedSharding:
    return NamedSharding(mesh, spec, memory_kind="device")


class ExportedCall(Primitive):
    """Call of an exported function on leaves."""

    reference = Undefined("the program is text")
    jvp = Undefined("the call has a derivative of its own")
    batch = Undefined("the program is text, written for these axes; map the function before it is exported")
    terms = True  # the program says itself where sums are left to be taken
    types_spread = True

    def infer(self, *avals: Any, exported: Exported) -> Any:
        """Types of the outputs, for the sizes of the call."""
        shapes = [aval.shape[: known.ndim] for aval, known in zip(avals, exported.in_avals, strict=True)]
        values = exported.solve(shapes)
        outs = [_words(a) for a in exported.out_avals]
        return tuple([a.update(shape=tuple(evaluate(d, values) for d in a.shape)).with_spread(a.spread) for a in outs])

    def lower(self, b: Any, ins: Any, outs: Any, *, exported: Exported) -> list[Any]:
        """The functions of the program under names of their own, and a call of its `main`."""
        shapes = [x.shape[: known.ndim] for x, known in zip(ins, exported.in_avals, strict=True)]
        values = exported.solve(shapes)
        devices = max(len(b.module.order), 1)
        if exported.nr_devices not in (1, devices):
            raise errors.ExportedCallError(
                errors.explain(
                    f"the function {exported.fun_name} was exported for {exported.nr_devices} devices, and is called on {devices}.",
                    fix="place the arguments on a mesh with as many devices: purax.device_put(x, NamedSharding(mesh, P())).",
                )
            )
        key = (exported, tuple(values.items()))
        name = b.module.called.get(key)
        if name is None:
            text = fill(exported.module_for(b.module.platform), values)
            name = b.module.called[key] = _include(b.module, text, exported.fun_name)
        return b.call_named(name, [ins[i] for i in exported.module_kept_var_idx], outs)


exported_p = ExportedCall("exported")


_MESH = re.compile(r"(sdy\.mesh @(\w+) = <\[([^\]]*)\](?:, device_ids=\[([^\]]*)\])?>)")


def _include(module: Module, text: str, name: str) -> str:
    """Write the functions of a whole program into another one; gives the new name of its `main`."""
    text = strip_paths(strip_locations(text))
    body = text[text.index("{\n", text.index("module @")) + 2 : text.rindex("}")]
    names = {old: module.unique(name if old == "main" else old) for old in re.findall(r"func\.func \w+ @(\w+)", body)}
    for line, old, axes, order in _MESH.findall(body):
        axes = dict(re.findall(r'"(\w+)"=(\d+)', axes))
        sizes = [int(size) for size in axes.values()]
        grid = np.empty(math.prod(sizes), object)
        grid[:] = list(module.order)
        grid = grid[[int(i) for i in order.split(",")]] if order else grid
        names[old] = module.mesh(Mesh(grid.reshape(sizes), tuple(axes)))
        body = body.replace(line, "")
    body = re.sub(r"@(\w+)\b", lambda found: f"@{names.get(found[1], found[1])}", body)
    module.functions.append(body.replace("func.func public", "func.func private"))
    return names["main"]


# --- making them ------------------------------------------------------------------------------------------------------------


def default_export_platform() -> str:
    """The platform that `export` writes for when none is named."""
    return client.backend().name


def export(
    fun_jit: Any,
    *,
    platforms: Sequence[str] | None = None,
    disabled_checks: Sequence[DisabledSafetyCheck] = (),
    **_: Any,
) -> Callable[..., Exported]:
    """Make StableHLO of a jitted function, to be kept and called elsewhere.

    Parameters
    ----------
    fun_jit : JitFunction
        Or a function of `purax` itself.
    platforms : sequence of str, optional
        `cpu`, `cuda`, `rocm`, `tpu`; the default one when left out.
    disabled_checks : sequence of DisabledSafetyCheck
    _
        Other named arguments are without effect.

    Returns
    -------
    callable
        Takes arguments, or ShapeDtypeStructs, whose sizes may come from `symbolic_shape`; gives an Exported.

    Raises
    ------
    ValueError
        It is no jitted function, or the program cannot be kept (it calls back into Python).

    Examples
    --------
    >>> from purax import export
    >>> rows, = export.symbolic_shape("rows,")
    >>> spec = purax.ShapeDtypeStruct((rows, 3), np.float32)
    >>> exported = export.export(purax.jit(lambda x: x.sum(1)))(spec)
    >>> export.deserialize(exported.serialize()).call(np.ones((2, 3), np.float32))
    Array([3., 3.], dtype=float32)
    """
    if not hasattr(fun_jit, "trace"):
        if not str(getattr(fun_jit, "__module__", "")).startswith("purax."):
            raise ValueError(f"export takes a function made by jit, and got {fun_jit!r}: write export(purax.jit(f))")
        fun_jit = jit(fun_jit)
    chosen = tuple(platforms) if platforms else (default_export_platform(),)
    checks = tuple(disabled_checks)

    def exporting(*args: Any, **kwargs: Any) -> Exported:
        return _export(fun_jit.trace(*args, **kwargs), chosen, checks)

    return exporting


def _export(traced: Any, platforms: tuple[str, ...], checks: tuple[DisabledSafetyCheck, ...]) -> Exported:
    call, program = traced._call, traced._program
    _check_references(traced.fun_name, [ref for _, ref in call.refs], program.cells.refs)
    if traced.effects:
        raise ValueError(
            f"{traced.fun_name} calls back into Python or has other effects, which cannot be kept with a program: {traced.effects}"
        )
    structure = traced.in_tree
    plan = traced._function.plan(call, program, platforms[0])
    devices = () if plan.how.mesh is None else plan.how.placement.devices
    _check_donation(traced.fun_name, call.donated, platforms)
    first, count, used = len(program.consts), len(traced.in_avals), program.pruned[1]
    kept = tuple([i - first for i in (range(first + count) if used is None else used) if i >= first])
    settled = dict(zip(kept, plan.placements[len(plan.placements) - len(kept) :], strict=True))
    asked = places_of(traced._function, call)
    shardings = _shardings([None if p is None else settled.get(i) for i, p in enumerate(asked)])
    out_shardings = _shardings(plan.how.out_placements or [None] * len(traced.out_avals))
    modules = {
        name: _text(traced, kept, name, devices, [shardings[i] for i in kept], out_shardings)
        for name in platforms
    }  # fmt: skip
    _check_targets(modules, checks)
    exported = Exported(
        traced.fun_name, structure, tuple(traced.in_avals), traced.out_tree, tuple(traced.out_avals), platforms, modules, checks,
        lambda: _export_vjp(traced, platforms, checks, shardings, out_shardings), nr_devices=max(len(devices), 1),
        in_specs=_specs(shardings), out_specs=_specs(out_shardings), calls_global=_calls_global(program.jaxpr), kept=kept,
    )  # fmt: skip
    _check_scope(exported)
    return exported


def _check_references(name: str, given: Sequence[Any], captured: Sequence[Any]) -> None:
    """Refuse a program that takes in references of its caller; those that begin and end inside of it are no part of it."""
    if captured:
        raise errors.ReferenceUseError(
            errors.explain(
                f"{name} cannot be exported: it would serialize with a closed-over mutable reference, {captured[0]!r}.",
                "A program that is kept is called where this reference is not.",
                "make the reference inside of the function, or take what it holds as an argument and return the new value.",
            )
        )
    if given:
        raise errors.ReferenceUseError(
            errors.explain(
                f"{name} cannot be exported for an argument that is a mutable reference, {given[0]!r}.",
                "A program that is kept has arrays as its inputs and outputs only.",
                "take what it holds as an argument, make a reference of it inside (purax.new_ref), and return purax.freeze(ref).",
            )
        )


def _shardings(placements: Sequence[Any]) -> list[Any]:
    """How the values are spread over a mesh; None where nobody said."""
    found = [None if p is None else p.sharding for p in placements]
    return [s if isinstance(s, NamedSharding) else None for s in found]


def _specs(shardings: Sequence[Any]) -> tuple[Any, ...]:
    return tuple([None if s is None else s.spec for s in shardings])


def _calls_global(jaxpr: Any) -> bool:
    """Whether the program calls an exported one that depends on sizes, or on the platform, of the call."""
    for eqn in jaxpr.eqns:
        if eqn.primitive is exported_p and eqn.params["exported"].uses_global_constants:
            return True
        for value in eqn.params.values():
            inner = value if isinstance(value, tuple) else (value,)
            if any(isinstance(program, Jaxpr) and _calls_global(program) for program in inner):
                return True
    return False


_DONATING = frozenset({"cpu", "cuda", "gpu", "rocm", "tpu"})


def _check_donation(name: str, donated: Sequence[bool], platforms: Sequence[str]) -> None:
    """Refuse donated arguments for platforms of which some are not known to take memory over."""
    other = [p for p in platforms if p not in _DONATING]
    if any(donated) and 0 < len(other) < len(platforms):
        raise NotImplementedError(
            errors.explain(
                f"In multi-platform lowering either all or no lowering platforms should support donation: {name} donates, and is "
                f"exported for {', '.join(platforms)}.",
                f"purax does not know whether {', '.join(other)} can take over the memory of arguments.",
                "export it without donate_argnums.",
            )
        )


def _text(
    traced: Any, kept: Sequence[int], platform: str, devices: Sequence[Any], shardings: Sequence[Any], out_shardings: Sequence[Any],
) -> str:  # fmt: skip
    """The program with its constants, whose `main` takes the leaves that are `kept`."""
    program, name = traced._program, traced.fun_name
    jaxpr = program.pruned[0]
    if jaxpr.has_keys:
        jaxpr = hooks.physicalize(jaxpr)
    needed = program.pick((*program.consts, *[None] * len(traced.in_avals)))
    consts = [
        as_array(random_bits.random_unwrap(c) if _is_key(c.aval) else c)
        for c in map(as_array, needed[: len(needed) - len(kept)])
    ]
    module = Module(devices)
    module.target = platform
    builder = Builder(module, names=NameStack([f"jit({name})"]))
    with writing():
        arguments = [Value(f"%arg{i}", v.aval) for i, v in enumerate(jaxpr.invars[len(consts) :])]
        fixed = [builder.constant(np.asarray(c), c.aval) for c in consts]
        outs = builder.jaxpr(jaxpr, [*fixed, *arguments])
    if module.callbacks:
        raise ValueError(f"{name} calls back into Python, which cannot be kept with a program")
    if len(devices) <= 1:  # for any number of devices
        shardings = out_shardings = ()
    told = attributes(module, arguments, (), shardings)
    out_told = attributes(module, outs, (), out_shardings, traced.result_paths())
    names = program.closed.jaxpr.names
    head = signature_text([f"{a}: {a.hlo}" for a in arguments], told, [names[i] for i in kept] if names else ())
    results = signature_text([out.hlo for out in outs], out_told)
    values = f" {', '.join(map(str, outs))} : {', '.join(out.hlo for out in outs)}" if outs else ""
    main = (
        f"module @jit_{symbol(name)} {{",
        *module.mesh_definitions(),
        f"func.func public @main({head}) -> ({results}) {{",
    )
    rest = strip_locations("\n".join([*builder.lines, f"return{values}", "}", *module.functions, "}", ""]))
    return "\n".join([*main, rest])


def _check_targets(modules: dict[str, str], checks: tuple[DisabledSafetyCheck, ...]) -> None:
    allowed = {check.target for check in checks if check.kind == "custom_call"}
    targets = {target for text in modules.values() for target in re.findall(r"custom_call @([\w.$]+)", text)}
    wrong = sorted(t for t in targets if not _STABLE_TARGETS.fullmatch(t) and t not in allowed and "ALL" not in allowed)
    if wrong:
        raise ValueError(
            errors.explain(
                f"the program calls the kernels {', '.join(wrong)}, which later versions may not have.",
                fix=f"allow it: disabled_checks=[DisabledSafetyCheck.custom_call({wrong[0]!r})].",
            )
        )


def _check_scope(exported: Exported) -> None:
    """Refuse shapes of several scopes, and variables that no argument tells."""
    known: set[str] = set()
    for name, aval in zip(exported.names(), exported.in_avals, strict=True):
        for size in aval.shape:
            known |= variables(size)
            if type(size) is Dim and size.scope is not exported.scope:
                raise ValueError(
                    errors.explain(
                        f"{exported.fun_name}: the size {size} of {name} belongs to another scope than those of earlier arguments.",
                        "Equal names of two scopes are different variables.",
                        "make all shapes by one call of symbolic_args_specs, or pass one scope= to symbolic_shape.",
                    )
                )
    scope = exported.scope
    if scope is not None:
        constrained: set[str] = set().union(*map(variables, scope.not_negative), *map(variables, scope.rules.values()))
        for name in sorted(constrained - known):
            raise ValueError(f"{exported.fun_name}: no argument tells the dimension variable {name!r} of a constraint")


def _export_vjp(
    traced: Any, platforms: tuple[str, ...], checks: tuple[DisabledSafetyCheck, ...], shardings: Sequence[Any],
    out_shardings: Sequence[Any],
) -> Exported:  # fmt: skip
    """Export the function from leaves and cotangents to cotangents; a cotangent is spread as its primal."""
    ins, outs = _inexact(traced.in_avals), _inexact(traced.out_avals)
    count = len(traced.in_avals)

    def backward(*operands: Any) -> Any:
        leaves = list(operands[:count])

        def forward(*values: Any) -> Any:
            for i, value in zip(ins, values, strict=True):
                leaves[i] = value
            args, kwargs = traced._call.rebuild(leaves)
            found = tree.leaves(traced._function(*args, **kwargs))
            return [found[i] for i in outs]

        pull = vjp(forward, *[leaves[i] for i in ins])[1]
        return tuple(pull(list(operands[count:])))

    backward.__name__ = f"{traced.fun_name}_vjp"
    specs = [*traced.in_avals, *[traced.out_avals[i].to_cotangent_aval() for i in outs]]
    given = (*shardings, *[out_shardings[i] for i in outs])
    options: dict[str, Any] = {}
    if any(s is not None for s in given):
        options = {"in_shardings": given, "out_shardings": tuple([shardings[i] for i in ins])}
    function = jit(backward, **options)
    structs = [ShapeDtypeStruct.of(a.update(weak_type=False)) for a in specs]
    return _export(function.trace(*structs), platforms, checks)
