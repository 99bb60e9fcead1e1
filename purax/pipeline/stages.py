# SPDX-License-Identifier: Apache-2.0
"""The stages of `jit`, one object each: `jit(f).trace(x)` -> Traced, `.lower()` -> Lowered, `.compile()` -> Compiled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from purax import tree
from purax.core.aval import ShapeDtypeStruct
from purax.core.ir import ClosedJaxpr
from purax.core.trace import Tracer, aval_of
from purax.lowering.module import Lowered as LoweredText
from purax.lowering.module import strip_locations
from purax.pipeline.compile import compile_lowered, lower_jaxpr
from purax.pipeline.evaluate import as_array
from purax.pipeline.placed import Plan, moved
from purax.runtime import client
from purax.runtime.executable import unoptimized_hlo
from purax.sharding import SingleDeviceSharding

__all__ = ["ArgInfo", "Compiled", "Convention", "Lowered", "Traced"]


class ArgInfo:
    """Type of an argument, and whether its memory is given away."""

    __slots__ = ("_aval", "donated")

    def __init__(self, aval: Any, donated: bool) -> None:
        self._aval = aval
        self.donated = donated

    shape = property(lambda self: self._aval.shape)
    dtype = property(lambda self: self._aval.dtype)

    def __repr__(self) -> str:
        return f"ArgInfo({self._aval.str_short()}, donated={self.donated})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ArgInfo) and (self._aval, self.donated) == (other._aval, other.donated)

    def __hash__(self) -> int:
        return hash((self._aval, self.donated))


class Traced:
    """A traced function.

    Attributes
    ----------
    jaxpr : ClosedJaxpr
    fun_name : str
    in_avals : tuple
    out_info : pytree of ShapeDtypeStruct
    """

    def __init__(self, function: Any, call: Any, program: Any) -> None:
        self.fun_name = function.name
        self._function, self._call, self._program = function, call, program

    @property
    def jaxpr(self) -> ClosedJaxpr:
        """The program."""
        return self._program.closed

    @property
    def in_avals(self) -> tuple[Any, ...]:
        """Types of the flat arguments."""
        return self.jaxpr.in_avals[: len(self._call.leaves)]

    @property
    def in_tree(self) -> Any:
        """Structure of `(args, kwargs)`, without static arguments."""
        call = self._call
        if not call.statics:
            return call.treedef
        static = {where for where, _ in call.statics}
        args, kwargs = tree.treedef_children(call.treedef)
        kept = [a for i, a in enumerate(tree.treedef_children(args)) if i not in static]
        return tree.treedef_tuple((tree.treedef_tuple(kept), kwargs))

    @property
    def out_tree(self) -> Any:
        """Structure of the output."""
        return self._program.out_tree

    @property
    def args_info(self) -> Any:
        """Types of the arguments, in their structure."""
        call = self._call
        return _args_info(self.in_tree, self.in_avals, call.donated, call.zeros)

    @property
    def out_info(self) -> Any:
        """Types of the output, in its structure."""
        wanted = self._function.out_shardings(self._program)
        return self._program.unflatten([_struct(a, s) for a, s in zip(self.jaxpr.out_avals, wanted, strict=True)])

    out_avals = property(lambda self: self.jaxpr.out_avals)
    effects = property(lambda self: self.jaxpr.effects)

    def lower(self, *, lowering_platforms: Sequence[str] | None = None, **_: Any) -> Lowered:
        """Write the program as StableHLO.

        Parameters
        ----------
        lowering_platforms : sequence of str, optional
            The platform that it is for (`cpu`, `cuda`, `rocm`, `tpu`; the first of them): that of the devices by default.
            Needed where shardings over meshes without devices are all that is known of these.
        **_
            Other named arguments are without effect.

        Raises
        ------
        ValueError
            No devices and no platform are known, or arguments lie on different devices.
        """
        platform = lowering_platforms[0] if lowering_platforms else None
        plan = self._function.plan(self._call, self._program, platform)
        program = self._program
        names = program.closed.jaxpr.names
        paths = program.pick((*[""] * len(program.consts), *names)) if names else ()
        lowered = lower_jaxpr(plan.jaxpr, self.fun_name, plan.how, platform, paths, self.result_paths())
        return Lowered(self, lowered, plan)

    def convention(self, plan: Plan) -> Convention:
        """How the program is called when it is compiled by this plan."""
        call, program = self._call, self._program
        return Convention(
            self.in_tree, self.out_tree, self.in_avals, self.out_avals[: len(self.out_avals) - program.touches],
            call.donated or (False,) * len(self.in_avals), tuple(call.names()), call.zeros, program.zeros,
            frozenset([where for where, _ in call.statics]), tuple(program.consts), program.pruned[1], plan.placements,
        )  # fmt: skip

    def result_paths(self) -> list[str]:
        """What each result of the program is called: `result[0]`, ..."""
        paths = [f"result{tree.keystr(path)}" for path in tree.paths(self.out_tree)]
        gone = {i for i, _ in self._program.zeros}
        return [path for i, path in enumerate(paths) if i not in gone]


class _Text(str):
    __slots__ = ()

    def as_hlo_text(self) -> str:
        """The text."""
        return str(self)


class Lowered:
    """A program as StableHLO."""

    def __init__(self, traced: Traced, lowered: LoweredText, plan: Plan) -> None:
        self._traced, self._lowered, self._plan = traced, lowered, plan

    in_tree = property(lambda self: self._traced.in_tree)
    out_tree = property(lambda self: self._traced.out_tree)
    args_info = property(lambda self: self._traced.args_info)
    out_info = property(lambda self: self._traced.out_info)
    in_avals = property(lambda self: self._traced.in_avals)
    out_avals = property(lambda self: self._traced.out_avals)
    donate_argnums = property(lambda self: tuple(i for i, d in enumerate(self._traced._call.donated) if d))

    def as_text(self, dialect: str | None = None, *, debug_info: bool = False) -> str:
        """The StableHLO text.

        Raises
        ------
        ValueError
            A dialect other than "stablehlo".
        """
        if dialect == "hlo":
            return unoptimized_hlo(self._lowered.text, debug_info)
        if dialect not in (None, "stablehlo"):
            raise ValueError(f"unknown dialect {dialect!r}: lowered programs are written in 'stablehlo' or 'hlo'")
        return self._lowered.text if debug_info else strip_locations(self._lowered.text)

    def compiler_ir(self, dialect: str | None = None) -> str:
        """The StableHLO text; its method `as_hlo_text` gives it again, as that of XLA's modules does."""
        return _Text(self.as_text(dialect))

    def cost_analysis(self) -> Any:
        """The compiler's estimate of work (compiles the program)."""
        return self.compile().cost_analysis()

    def compile(self, compiler_options: Any = None, *, device_assignment: Sequence[Any] | None = None) -> Compiled:
        """Compile for the devices of the arguments.

        Parameters
        ----------
        compiler_options : dict, optional
            Options of XLA.
        device_assignment : sequence of Device, optional
            What meshes without devices stand for, where nothing else tells.

        Returns
        -------
        Compiled

        Raises
        ------
        RuntimeError
            Only meshes without devices say where it runs, and `device_assignment` is not given.
        ValueError
            `device_assignment` differs from the devices of the arguments, or has not as many devices as meshes have.
        """
        traced, plan = self._traced, self._plan
        if plan.devices is None:
            if device_assignment is None:
                raise RuntimeError(
                    "device_assignment cannot be `None` during compilation when only AbstractMesh says where the program runs. Please pass "
                    "a tuple of devices to `.compile(device_assignment=)`"
                )
            size = plan.how.mesh.size
            if len(device_assignment) != size:
                raise ValueError(
                    f"The size of abstract mesh {size} in {plan.how.mesh.abstract_mesh} must match the length of device assignment: {len(device_assignment)}"
                )
            plan = traced._function.plan(traced._call, traced._program, tuple(device_assignment))
        elif device_assignment is not None and tuple(device_assignment) != plan.devices:
            raise ValueError(
                "device_assignment passed to `.compile` must match the device_assignment calculated from array shardings and out_shardings. "
                f"Got {[d.id for d in device_assignment]} passed to `.compile`, and {[d.id for d in plan.devices]} from arguments and results"
            )
        how = plan.how
        if compiler_options:
            how = how.with_options(compiler_options)
        traced, lowered = self._traced, self._lowered
        executable = compile_lowered(lowered, traced.fun_name, traced.jaxpr.out_avals, how)
        return Compiled(traced.convention(plan), executable, traced, self._bound())

    def _bound(self) -> str:
        """What binds the program to this process, so that it cannot be kept in a file; nothing if it is free."""
        program = self._traced._program
        if len(program.cells):
            return "a closed-over mutable reference, whose value is of this process"
        if program.places:
            return "a mutable reference among its arguments"
        if self._lowered.callbacks or self._lowered.checks or self._lowered.kept:
            return "functions or checks that it calls in this process"
        return ""


class Convention(NamedTuple):
    """How a compiled program is called: all that it needs of the function that it was made from.

    Attributes
    ----------
    in_tree, out_tree : PyTreeDef
        Structure of `(args, kwargs)`, and of the output.
    in_avals, out_avals : tuple of aval
        Types of their leaves, without those of dtype float0.
    donated : tuple of bool
        One per leaf of the arguments.
    names : tuple of str
        Their paths.
    in_zeros, out_zeros : tuple of (int, numpy.ndarray)
        Leaves of dtype float0, with their places.
    statics : frozenset
        Positions and names of arguments that are part of the program.
    consts : tuple of arrays
        Inputs before those of the caller.
    used : tuple of int, optional
        Which of all inputs the program takes; None says all.
    placements : tuple of Placement or None
        Where the inputs that it takes must lie.
    """

    in_tree: Any
    out_tree: Any
    in_avals: tuple[Any, ...]
    out_avals: tuple[Any, ...]
    donated: tuple[bool, ...]
    names: tuple[str, ...]
    in_zeros: tuple[tuple[int, Any], ...]
    out_zeros: tuple[tuple[int, Any], ...]
    statics: frozenset[Any]
    consts: tuple[Any, ...]
    used: tuple[int, ...] | None
    placements: tuple[Any, ...]

    def unflatten(self, outs: Sequence[Any]) -> Any:
        """The output of the function."""
        return self.out_tree.unflatten(_put_back(list(outs), self.out_zeros))

    def through(self, leaves: Sequence[Any], run: Callable[[Sequence[Any], Sequence[Any]], Sequence[Any]]) -> Any:
        """The output for flat arguments without references."""
        return self.unflatten(run(leaves, ()))


class Compiled:
    """A compiled program; call it with arguments of the types it was made for.

    Static arguments may be left out, since they are part of the program.
    """

    def __init__(self, convention: Convention, executable: Any, traced: Traced | None, bound: str = "") -> None:
        self._convention, self._executable, self._bound = convention, executable, bound
        self._through = convention.through if traced is None else traced._program.through

    in_tree = property(lambda self: self._convention.in_tree)
    out_tree = property(lambda self: self._convention.out_tree)
    in_avals = property(lambda self: self._convention.in_avals)
    out_avals = property(lambda self: self._convention.out_avals)
    donate_argnums = property(lambda self: tuple(i for i, d in enumerate(self._convention.donated) if d))

    @property
    def args_info(self) -> Any:
        """Types of the arguments, in their structure."""
        told = self._convention
        return _args_info(told.in_tree, told.in_avals, told.donated, told.in_zeros)

    @property
    def input_shardings(self) -> Any:
        """Where the arguments are expected, in the structure of `(args, kwargs)`; others are moved there. Of those that the program does not need, None."""
        told = self._convention
        first, count = len(told.consts), len(told.in_avals)
        used = range(first + count) if told.used is None else told.used
        found = dict(zip(used, map(_sharding, told.placements), strict=False))
        values = [found.get(first + i) for i in range(count)]
        return told.in_tree.unflatten(_put_back(values, [(i, None) for i, _ in told.in_zeros]))

    @property
    def output_shardings(self) -> Any:
        """How the results lie, in the structure of the output."""
        return self._convention.unflatten(self._places())

    @property
    def out_info(self) -> Any:
        """Types of the output and how it lies, in its structure."""
        told = self._convention
        return told.unflatten([_struct(a, s) for a, s in zip(told.out_avals, self._places(), strict=True)])

    def _places(self) -> list[Any]:
        places = self._executable.out_placements[: len(self._convention.out_avals)]
        return [_sharding(p) for p in places]

    def as_text(self) -> str:
        """The optimized program, in HLO."""
        return self._executable.as_text()

    def cost_analysis(self) -> Any:
        """The compiler's estimate of work: flops, bytes."""
        return self._executable.cost_analysis()

    def memory_analysis(self) -> Any:
        """Bytes of arguments, outputs and temporaries."""
        return self._executable.memory_analysis()

    def runtime_executable(self) -> Any:
        """The runtime's object."""
        return self._executable

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program; static arguments are part of it, and need not be given.

        Raises
        ------
        TypeError
            The structure, shapes or dtypes differ from what was compiled.
        """
        told = self._convention
        given = _without_statics(told, args, kwargs) if told.statics else (args, kwargs)
        leaves, treedef = tree.flatten(given)
        if treedef != told.in_tree:
            raise TypeError(
                f"Function compiled with input pytree does not match the input pytree it was called with: compiled for {told.in_tree}, called with {treedef}."
            )
        for x in leaves:
            if isinstance(x, Tracer):
                raise TypeError(
                    "Cannot apply JAX transformations to a function lowered and compiled for a particular signature. "
                    f"Detected {x!r} in the arguments; transform the jitted function itself."
                )
        zeros = {i for i, _ in told.in_zeros}
        return self._through([x for i, x in enumerate(leaves) if i not in zeros], self._run)

    def _run(self, leaves: Sequence[Any], held: Sequence[Any]) -> Sequence[Any]:
        """Flat outputs; `held` is what captured references hold."""
        told = self._convention
        for i, (x, aval) in enumerate(zip(leaves, told.in_avals, strict=True)):
            have = aval_of(x)
            if have.shape != aval.shape or have.dtype != aval.dtype:
                raise TypeError(
                    f"Argument types differ from the types for which this computation was compiled. The mismatches are: Argument {told.names[i]!r} compiled with {aval.str_short()} and called with {have.str_short()}"
                )
        values = (*told.consts, *leaves, *held)
        taken = [as_array(x) for x in (values if told.used is None else [values[i] for i in told.used])]
        outs: Sequence[Any] = self._executable.call(moved(taken, told.placements))
        return outs


def _without_statics(told: Convention, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
    """The arguments without those that are static, if they were given all the same."""
    places = [where for where in told.statics if isinstance(where, int)]
    if len(args) == len(told.in_tree.children()[0].children()) + len(places):
        args = tuple([a for i, a in enumerate(args) if i not in places])
    return args, {n: v for n, v in kwargs.items() if n not in told.statics}


def _args_info(treedef: Any, avals: Sequence[Any], donated: Sequence[bool], zeros: Sequence[Any]) -> Any:
    infos = [ArgInfo(a, d) for a, d in zip(avals, donated or (False,) * len(avals), strict=True)]
    return treedef.unflatten(_put_back(infos, [(i, ArgInfo(aval_of(x), False)) for i, x in zeros]))


def _put_back(values: list[Any], others: Sequence[tuple[int, Any]]) -> list[Any]:
    for i, value in others:
        values.insert(i, value)
    return values


def _struct(aval: Any, sharding: Any) -> ShapeDtypeStruct:
    known = ShapeDtypeStruct.of(aval)
    return known if sharding is None else known.update(sharding=sharding)


def _sharding(placement: Any) -> Any:
    return SingleDeviceSharding(client.default_device()) if placement is None else placement.sharding
