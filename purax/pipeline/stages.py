# SPDX-License-Identifier: Apache-2.0
"""The stages of `jit`, one object each: `jit(f).trace(x)` -> Traced, `.lower()` -> Lowered, `.compile()` -> Compiled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from purax import tree
from purax.core.aval import ShapeDtypeStruct
from purax.core.ir import ClosedJaxpr
from purax.core.trace import Tracer, aval_of
from purax.lowering.module import Lowered as LoweredText
from purax.lowering.module import strip_locations
from purax.pipeline.compile import compile_lowered, lower_jaxpr
from purax.pipeline.evaluate import as_array
from purax.pipeline.placed import Plan
from purax.runtime import client
from purax.runtime.executable import unoptimized_hlo
from purax.sharding import SingleDeviceSharding

__all__ = ["ArgInfo", "Compiled", "Lowered", "Traced"]


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
        args, kwargs = call.treedef.unflatten(range(call.treedef.num_leaves))
        return tree.structure((tuple([a for i, a in enumerate(args) if i not in static]), kwargs))

    @property
    def out_tree(self) -> Any:
        """Structure of the output."""
        return self._program.out_tree

    @property
    def args_info(self) -> Any:
        """Types of the arguments, in their structure."""
        call = self._call
        donated = call.donated or (False,) * len(self.in_avals)
        infos = [ArgInfo(a, d) for a, d in zip(self.in_avals, donated, strict=True)]
        zeros = [(i, ArgInfo(aval_of(x), False)) for i, x in call.zeros]
        return self.in_tree.unflatten(_put_back(infos, zeros))

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
        return Lowered(self, lower_jaxpr(self._program.jaxpr, self.fun_name, plan.how, platform), plan)


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
        executable = compile_lowered(self._lowered, traced.fun_name, traced.jaxpr.out_avals, how)
        return Compiled(traced, executable, plan)


class Compiled:
    """A compiled program; call it with arguments of the types it was made for."""

    def __init__(self, traced: Traced, executable: Any, plan: Plan) -> None:
        self._traced, self._executable, self._plan = traced, executable, plan

    in_tree = property(lambda self: self._traced.in_tree)
    out_tree = property(lambda self: self._traced.out_tree)
    args_info = property(lambda self: self._traced.args_info)

    @property
    def input_shardings(self) -> Any:
        """Where the arguments are expected, in the structure of `(args, kwargs)`; others are moved there."""
        traced = self._traced
        first = len(traced._program.consts)
        found = [_sharding(p) for p in self._plan.placements[first : first + len(traced._call.leaves)]]
        return traced.in_tree.unflatten(_put_back(found, [(i, None) for i, _ in traced._call.zeros]))

    @property
    def output_shardings(self) -> Any:
        """How the results lie, in the structure of the output."""
        places = self._executable.out_placements
        return self._traced._program.unflatten([_sharding(p) for p in places])

    @property
    def out_info(self) -> Any:
        """Types of the output and how it lies, in its structure."""
        found = zip(self._traced.jaxpr.out_avals, self._executable.out_placements, strict=True)
        return self._traced._program.unflatten([_struct(a, _sharding(p)) for a, p in found])

    in_avals = property(lambda self: self._traced.in_avals)
    out_avals = property(lambda self: self._traced.out_avals)
    donate_argnums = property(lambda self: tuple(i for i, d in enumerate(self._traced._call.donated) if d))

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
        """Run the program; static arguments are part of it, and are not given.

        Raises
        ------
        TypeError
            The structure, shapes or dtypes differ from what was compiled.
        """
        traced = self._traced
        leaves, treedef = tree.flatten((args, kwargs))
        if treedef != traced.in_tree:
            dynamic = f" without the static arguments {[w for w, _ in traced._call.statics]}" * bool(
                traced._call.statics
            )
            raise TypeError(
                f"Function compiled with input pytree does not match the input pytree it was called with: compiled for {traced.in_tree}{dynamic}, called with {treedef}."
            )
        for x in leaves:
            if isinstance(x, Tracer):
                raise TypeError(
                    "Cannot apply JAX transformations to a function lowered and compiled for a particular signature. "
                    f"Detected {x!r} in the arguments; transform the jitted function itself."
                )
        zeros = {i for i, _ in traced._call.zeros}
        return traced._program.through([x for i, x in enumerate(leaves) if i not in zeros], self._run)

    def _run(self, leaves: Sequence[Any], held: Sequence[Any]) -> Sequence[Any]:
        """Flat outputs; `held` is what captured references hold."""
        traced = self._traced
        arrays = [as_array(x) for x in leaves]
        for i, (x, aval) in enumerate(zip(arrays, traced.in_avals, strict=True)):
            have = aval_of(x)
            if have.shape != aval.shape or have.dtype != aval.dtype:
                raise TypeError(
                    f"Argument types differ from the types for which this computation was compiled. The mismatches are: Argument {traced._call.names()[i]!r} compiled with {aval.str_short()} and called with {have.str_short()}"
                )
        values = [as_array(x) for x in (*traced._program.consts, *arrays, *held)]
        outs: Sequence[Any] = self._executable.call(self._plan.move(values))
        return outs


def _put_back(values: list[Any], others: list[tuple[int, Any]]) -> list[Any]:
    for i, value in others:
        values.insert(i, value)
    return values


def _struct(aval: Any, sharding: Any) -> ShapeDtypeStruct:
    return ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type, sharding=sharding)


def _sharding(placement: Any) -> Any:
    return SingleDeviceSharding(client.default_device()) if placement is None else placement.sharding
