# SPDX-License-Identifier: Apache-2.0
"""The emitter that `lower` rules write StableHLO with.

Text rather than MLIR bindings: one f-string per operation, and XLA's own parser checks the result. Value numbers are unique in
the module, so a region may name any value of the regions around it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from purax import dtypes
from purax.core.aval import ShapedArray, array_aval
from purax.core.dims import Dim
from purax.core.ir import Jaxpr, Literal, Var
from purax.core.name_stack import NOTHING, NameStack
from purax.core.passes import needed
from purax.core.source import source_line, where
from purax.core.stage import stage
from purax.sharding import AbstractMesh

__all__ = [
    "Builder", "Module", "Value", "attribute", "dense", "integers", "signature_text", "symbol", "with_attributes",
]  # fmt: skip


class Value:
    """An SSA value: prints as its name, knows its aval."""

    __slots__ = ("aval", "name")

    def __init__(self, name: str, aval: Any) -> None:
        self.name = name
        self.aval = aval

    def __str__(self) -> str:
        return self.name

    __repr__ = __str__

    @property
    def hlo(self) -> str:
        """StableHLO type."""
        return str(self.aval.hlo)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape."""
        return self.aval.shape

    @property
    def dtype(self) -> Any:
        """Data type."""
        return self.aval.dtype


class Module:
    """What a whole module shares: the counter, private functions, locations, host callbacks, meshes.

    `devices` are those that the program is compiled for, in the order of their numbers.
    """

    def __init__(self, devices: Sequence[Any] = ()) -> None:
        self.count = 0
        self.functions: list[str] = []
        self.called: dict[Any, str] = {}
        self.names: set[str] = {"main"}
        self.locations: dict[Any, int] = {}
        self.callbacks: list[Any] = []
        self.kept: list[Any] = []  # what must live until the program is compiled
        self.order = {device: number for number, device in enumerate(devices)}
        self.meshes: dict[Any, str] = {}  # name by mesh
        self.mesh_bodies: dict[str, str] = {}  # name by definition
        self.concrete: list[Any] = []  # meshes with devices that stand for those without
        self.manual: Any = None  # the manual region being written
        self.channels = 0
        self.groups = -1  # number of the last group of values that lie alike
        self.uses_lapack = False
        self.splats: dict[str, np.ndarray] = {}  # the element of values that are known to be one number everywhere
        self.repeated: dict[
            str, tuple[Value, Sequence[int]]
        ] = {}  # what a value repeats, and where the axes of that are
        self.target = "cpu"

    def fresh(self) -> str:
        """A new value name."""
        self.count += 1
        return f"%{self.count}"

    @property
    def platform(self) -> str:
        """The kind of platform that the text is for: `cpu`, `gpu` or `tpu`; `target` tells `cuda` and `rocm` apart."""
        return "gpu" if self.target in ("cuda", "rocm") else self.target

    def unique(self, name: str) -> str:
        """A function name not used yet."""
        base = symbol(name)
        candidate, number = base, 0
        while candidate in self.names:
            number += 1
            candidate = f"{base}_{number}"
        self.names.add(candidate)
        return candidate

    def mesh(self, mesh: Any) -> str:
        """Name of a mesh; it is defined at the top of the module."""
        name = self.meshes.get(mesh)
        if name is None:
            text = self._definition(mesh)
            name = next((known for other, known in self.meshes.items() if self._definition(other) == text), None)
            if name is None:
                name = f"mesh_{len(self.meshes)}" if self.meshes else "mesh"
            self.meshes[mesh] = name
        return name

    def _definition(self, mesh: Any) -> str:
        """The numbers of the devices are told where they are not in order; a mesh without devices has all of the program."""
        order = ""
        if not isinstance(mesh, AbstractMesh):
            numbers = [self.order[device] for device in mesh.devices.flat]
            order = "" if numbers == sorted(numbers) else f", device_ids={numbers}"
        return f"{mesh.sdy_text()[:-1]}{order}>"

    def mesh_definitions(self) -> list[str]:
        """Definitions of all meshes."""
        named = {name: mesh for mesh, name in self.meshes.items()}
        return [f"sdy.mesh @{name} = {self._definition(mesh)}" for name, mesh in named.items()]

    def location(self, source: Any, name: str) -> str:
        """Reference to the location of an operation called `name`; the table is printed once at the end."""
        key = (None, None, name) if source is None else (source[0], source[1], name)
        number = self.locations.get(key)
        if number is None:
            number = self.locations[key] = len(self.locations) + 1
        return f" loc(#l{number})"

    def location_table(self) -> list[str]:
        """Definitions of all locations."""
        lines = []
        for (code, lasti, name), number in self.locations.items():
            name = _escaped(name)
            if code is None:
                lines.append(f'#l{number} = loc("{name}")')
            else:
                path = _escaped(code.co_filename)
                line = source_line((code, lasti))
                lines.append(f'#l{number} = loc("{name}"("{code.co_qualname}"("{path}":{line}:1)))')
        return lines


_TELLING = ("stablehlo.constant ", "sdy.")

_ESCAPES = {ord("\\"): r"\\", ord('"'): r"\"", **{code: f"\\{code:02X}" for code in (*range(32), 127)}}


def _escaped(text: str) -> str:
    """What stands between the quotes of a string of MLIR: names and paths may hold any character."""
    return text.translate(_ESCAPES)


class Builder:
    """Writes one block of operations.

    `emit` and its siblings append operations and return Values; `block` makes the region of a reduce, sort, while or case.

    Attributes
    ----------
    names : NameStack
        What the operations lie in; while an equation is written, its own names too.
    source : Source or None
        The user's line of the equation that is written.
    place : str
        The location that goes behind each operation.
    """

    def __init__(self, module: Module, parent: Builder | None = None, names: NameStack = NOTHING) -> None:
        self.module = module
        self.parent = parent
        self.names: NameStack = parent.names if parent else names
        self.source: Any = parent.source if parent else None
        self.lines: list[str] = []
        self.constants: dict[Any, Value] = {}
        self.place: str = parent.place if parent else ""

    # --- single operations

    def emit(self, text: str, aval: Any) -> Value:
        """Append `%n = text`; `aval` types the result."""
        name = self.module.fresh()
        self.lines.append(f"{name} = {text}{self.place}")
        return Value(name, aval)

    def emit_many(self, text: str, avals: Sequence[Any]) -> list[Value]:
        """Append `%n:k = text` with one result per aval."""
        if len(avals) == 1:
            return [self.emit(text, avals[0])]
        name = self.module.fresh()
        if not avals:
            self.lines.append(f"{text}{self.place}")
            return []
        self.lines.append(f"{name}:{len(avals)} = {text}{self.place}")
        return [Value(f"{name}#{i}", aval) for i, aval in enumerate(avals)]

    def statement(self, text: str) -> None:
        """Append an operation without results."""
        self.lines.append(f"{text}{self.place}")

    def constant(self, value: Any, aval: Any) -> Value:
        """The array (or scalar, splat to the aval's shape) `value` as a constant of type `aval`."""
        if type(value) is Dim:
            return self.emit(f"stablehlo.constant dense<{value}> : {aval.hlo}", aval)
        array = np.asarray(value).astype(aval.dtype)
        key = (array.tobytes(), array.shape, aval)
        builder: Builder | None = self
        while builder is not None:
            found = builder.constants.get(key)
            if found is not None:
                return found
            builder = builder.parent
        result = self.constants[key] = self.emit(f"stablehlo.constant {dense(array, aval.shape)} : {aval.hlo}", aval)
        if array.ndim == 0:
            self.module.splats[result.name] = array
        return result

    def broadcast(self, x: Value, dims: Sequence[int], aval: Any) -> Value:
        """`x` with its axes placed at `dims` of `aval`, repeated along the others."""
        if x.aval.shape == aval.shape:
            return x
        result = self.emit(
            f"stablehlo.broadcast_in_dim {x}, dims = [{', '.join(map(str, dims))}] : ({x.hlo}) -> {aval.hlo}", aval
        )
        self.module.repeated[result.name] = x, dims
        if x.name in self.module.splats:
            self.module.splats[result.name] = self.module.splats[x.name]
        return result

    def splat(self, x: Value) -> np.ndarray | None:
        """The number that all elements of `x` are known to be, if there is one."""
        return self.module.splats.get(x.name)

    def repeated(self, x: Value) -> tuple[Value, Sequence[int]] | None:
        """The value that `x` repeats, and the places of its axes among those of `x`, where that is known."""
        return self.module.repeated.get(x.name)

    def reshape(self, x: Value, shape: Sequence[int]) -> Value:
        """`x` with another shape of the same size."""
        if x.aval.shape == tuple(shape):
            return x
        aval = x.aval.update(shape=tuple(shape))
        return self.emit(f"stablehlo.reshape {x} : ({x.hlo}) -> {aval.hlo}", aval)

    def convert(self, x: Value, dtype: Any) -> Value:
        """`x` as another dtype (StableHLO's convert: no rounding rule of ours)."""
        if x.aval.dtype == dtype:
            return x
        aval = array_aval(x.aval.shape, np.dtype(dtype))
        return self.emit(f"stablehlo.convert {x} : ({x.hlo}) -> {aval.hlo}", aval)

    def tag(self, value: Value, attributes: Iterable[tuple[str, Any]]) -> None:
        """Give the operation that computed `value` attributes; arguments of the program have no operation."""
        name = value.name.partition("#")[0]
        builder: Builder | None = self
        while builder is not None:
            for i in reversed(range(len(builder.lines))):
                if builder.lines[i].startswith((f"{name} =", f"{name}:")):
                    builder.lines[i] = with_attributes(builder.lines[i], attributes)
                    return
            builder = builder.parent

    # --- regions, programs, calls

    def block(
        self, avals: Sequence[Any], body: Callable[..., Sequence[Value]], terminator: str = "stablehlo.return"
    ) -> str:
        """Text of a region with one block: `body(builder, *arguments)` returns the values that it yields."""
        inner = Builder(self.module, self)
        arguments = [Value(self.module.fresh().replace("%", "%a"), aval) for aval in avals]
        results = body(inner, *arguments)
        head = ", ".join(f"{a}: {a.hlo}" for a in arguments)
        label = f"^bb0({head}):\n" if arguments else ""
        yielded = f" {', '.join(map(str, results))} : {', '.join(r.hlo for r in results)}" if results else ""
        return "{\n" + label + "\n".join([*inner.lines, f"{terminator}{yielded}{self.place}"]) + "\n}"

    def jaxpr(self, jaxpr: Jaxpr, ins: Sequence[Value], *names: str) -> list[Value]:
        """Emit the equations of `jaxpr` that are needed here, within more names; returns its outputs."""
        env: dict[Var, Value] = dict(zip((*jaxpr.constvars, *jaxpr.invars), ins, strict=True))
        before = self.place, self.names, self.source
        outer = self.names.extend(*names)
        prefix = f"{outer}/" if outer else ""

        def read(atom: Any) -> Value:
            return env[atom] if type(atom) is Var else self.literal(atom)

        for eqn in needed(jaxpr)[0]:
            source = self.source = eqn.source
            if source is not None and len(source) == 3:
                self.names = source[2].under(outer)
                name = f"{self.names}/{eqn.primitive.label}"
            else:
                self.names = outer
                name = prefix + eqn.primitive.label
            self.place = self.module.location(source, name)
            first = len(self.lines)
            outs = eqn.primitive.lower(self, [read(a) for a in eqn.invars], [v.aval for v in eqn.outvars], **eqn.params)
            if source is not None and len(source) == 3 and source[2].metadata:
                for value in outs:
                    self.tag(value, source[2].metadata.items())
            for var, value in zip(eqn.outvars, outs, strict=True):
                env[var] = value if var.aval.spread is None else self._lying(value, var.aval, eqn, first)
        self.place, self.names, self.source = before
        return [read(a) for a in jaxpr.outvars]

    def spread(self, x: Value, aval: Any) -> Value:
        """`x`, with the partitioner told how its type says that it lies."""
        spread, region = aval.spread, self.module.manual
        if len(self.module.order) <= 1 or (region is not None and set(spread.mesh.explicit_axes) & set(region.axes)):
            return x
        text = spread.sdy_text(ndim_of(aval), self.module.mesh(spread.mesh))
        return self.emit(f"sdy.sharding_constraint {x} {text} : {x.hlo}", aval)

    def _lying(self, x: Value, aval: Any, eqn: Any, first: int) -> Value:
        """The same of a result of an equation whose lines begin at `first`.

        XLA carries terms of a sum through some operations, and takes what each device has for a term of the result of the others
        (jaxlib 0.10.2): told that these are whole, it sums before.
        """
        if aval.spread.unreduced:
            own = [line for line in self.lines[first:] if not line.partition(" = ")[2].startswith(_TELLING)]
            if len(own) > 1 or not eqn.primitive.carries_terms([a.aval for a in eqn.invars], eqn.params):
                whole = aval.with_spread(aval.spread.replace(unreduced=frozenset()))
                return self.terms_of(self.spread(x, whole), aval)
        return self.spread(x, aval)

    def terms_of(self, x: Value, aval: Any) -> Value:
        """A value that is whole on each device as terms of a sum: one device has it, the others have zeros."""
        if len(self.module.order) <= 1 or not dtypes.is_complex(x.dtype):
            return self.spread(Value(x.name, aval), aval)
        parts = []  # of a complex value XLA makes none, and ends the process (jaxlib 0.10.2): they are made of its parts
        for name in ("real", "imag"):
            part = aval.update(dtype=np.dtype(np.float32 if aval.dtype.itemsize == 8 else np.float64))
            whole = part.with_spread(aval.spread.replace(unreduced=frozenset()))
            value = self.spread(self.emit(f"stablehlo.{name} {x} : ({x.hlo}) -> {part.hlo}", whole), whole)
            parts.append(self.spread(Value(value.name, part), part))
        first, second = parts
        text = f"stablehlo.complex {first}, {second} : ({first.hlo}, {second.hlo}) -> {aval.hlo}"
        return self.spread(self.emit(text, aval), aval)

    def literal(self, literal: Literal) -> Value:
        """The constant of a literal."""
        return self.constant(np.asarray(literal.val), literal.aval)

    def inline(self, fun: Callable[..., Any], ins: Sequence[Value], **params: Any) -> list[Value]:
        """Emit `fun(*ins, **params)`, a function over primitives that returns a value or a sequence of values."""
        line = None if self.source is None else self.source[:2]

        def flat(*operands: Any) -> Sequence[Any]:
            where.set(line)  # `stage` resets it
            out = fun(*operands, **params)
            return out if isinstance(out, (tuple, list)) else (out,)

        avals = [x.aval.with_spread(None) for x in ins]  # types speak of whole operations
        closed = stage(flat, avals, kind="lowering")
        consts = [self.constant(np.asarray(c), c.aval) for c in closed.consts]
        return self.jaxpr(closed.jaxpr, [*consts, *ins])

    def function(self, jaxpr: Jaxpr, name: str) -> str:
        """Name of the private function that runs `jaxpr`, emitted once per module.

        Names within it begin anew: XLA puts those of the call before them where it inlines the function.
        """
        function = self.module.called.get(jaxpr)
        if function is None:
            function = self.module.called[jaxpr] = self.module.unique(name)
            self.module.functions.append(function_text(self.module, jaxpr, function))
        return str(function)

    def call(self, jaxpr: Jaxpr, ins: Sequence[Value], name: str) -> list[Value]:
        """Call `jaxpr` as a private function."""
        function = self.function(jaxpr, name)
        self.place = self.module.location(self.source, str(self.names.extend(f"jit({name})")))
        return self.call_named(function, ins, [v.aval for v in jaxpr.outvars])

    def shared(self, key: Any, name: str, avals: Sequence[Any], body: Callable[..., Sequence[Value]]) -> str:
        """Name of the private function that `body(builder, *arguments)` writes, emitted once per module and key."""
        function = self.module.called.get(key)
        if function is None:
            function = self.module.called[key] = self.module.unique(name)
            inner = Builder(self.module)
            arguments = [Value(f"%arg{i}", aval) for i, aval in enumerate(avals)]
            outs = body(inner, *arguments)
            head = ", ".join(f"{a}: {a.hlo}" for a in arguments)
            types = ", ".join(v.hlo for v in outs)
            results = types if len(outs) == 1 else f"({types})"
            lines = [*inner.lines, f"return {', '.join(map(str, outs))} : {types}"]
            self.module.functions.append(
                "\n".join([f"func.func private @{function}({head}) -> {results} {{", *lines, "}"])
            )
        return str(function)

    def call_named(
        self, function: str, ins: Sequence[Value], results: Sequence[Any], inline: bool = True
    ) -> list[Value]:
        """Call a function of the module; XLA writes it in place, and merges its work with the rest, only if `inline`."""
        types = ", ".join(x.hlo for x in ins)
        out_types = ", ".join(a.hlo for a in results)
        out_text = out_types if len(results) == 1 else f"({out_types})"
        hint = "" if inline else ' {mhlo.frontend_attributes = {inlineable = "false"}}'
        names = ", ".join(map(str, ins))
        return self.emit_many(f"func.call @{function}({names}){hint} : ({types}) -> {out_text}", results)


def function_text(
    module: Module, jaxpr: Jaxpr, name: str, names: NameStack = NOTHING, visibility: str = "private",
    attributes: Sequence[str] = (), out_attributes: Sequence[str] = (), paths: Sequence[str] = (),
) -> str:  # fmt: skip
    """A `func.func` that runs `jaxpr`; attribute texts go beside arguments and results.

    `paths` say what the user calls the arguments: they are their locations, which XLA shows in profiles.
    """
    builder = Builder(module, names=names)
    variables = (*jaxpr.constvars, *jaxpr.invars)
    arguments = [Value(f"%arg{i}", v.aval) for i, v in enumerate(variables)]
    outs = builder.jaxpr(jaxpr, arguments)
    head = signature_text([f"{a}: {a.hlo}" for a in arguments], attributes, paths)
    results = signature_text([v.hlo for v in outs], out_attributes)
    values = f" {', '.join(map(str, outs))} : {', '.join(v.hlo for v in outs)}" if outs else ""
    if len(outs) != 1 or visibility == "public":  # MLIR prints one result without
        results = f"({results})"
    lines = [f"func.func {visibility} @{name}({head}) -> {results} {{", *builder.lines, f"return{values}", "}"]
    return "\n".join(lines)


def ndim_of(aval: Any) -> int:
    """Number of axes on the device, where random keys are words."""
    return len(aval.shape) + len(getattr(aval.dtype, "key_shape", ()))


def signature_text(items: Sequence[str], attributes: Sequence[str] = (), paths: Sequence[str] = ()) -> str:
    """Arguments or results of a function, as they stand between its parentheses.

    Parameters
    ----------
    items : sequence of str
        Names and types.
    attributes : sequence of str
        An attribute dictionary or an empty text for each, or none.
    paths : sequence of str
        What the user calls them: their locations; or none.

    Returns
    -------
    str
    """
    texts: Iterable[str] = items
    if attributes:
        texts = [f"{item} {more}" if more else item for item, more in zip(texts, attributes, strict=True)]
    if paths:
        texts = [f'{text} loc("{_escaped(path)}")' if path else text for text, path in zip(texts, paths, strict=True)]
    return ", ".join(texts)


def symbol(name: str) -> str:
    """The name, made of letters that StableHLO takes."""
    return "".join(c if (c.isascii() and c.isalnum()) or c in "_." else "_" for c in name) or "f"


# --- attribute texts ----------------------------------------------------------------------------------------------------------


def integers(values: Sequence[int]) -> str:
    """`array<i64: 1, 2>`."""
    return f"array<i64: {', '.join(map(str, values))}>" if len(values) else "array<i64>"


def attribute(value: Any) -> str:
    """A Python or NumPy value as an attribute: numbers, strings, dtypes, arrays, sequences of these.

    Raises
    ------
    TypeError
        There is no attribute for values of this type.
    """
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"{value} : i64"
    if isinstance(value, float):
        return f"{_as_printed(value, np.dtype(np.float64))} : f64"
    if isinstance(value, str):
        return f'"{_escaped(value)}"'
    if isinstance(value, (np.dtype, type)):
        return dtypes.HLO_NAMES[dtypes.named(value)]
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(map(attribute, value))}]"
    if hasattr(value, "__array__"):
        array = np.asarray(value)
        aval = array_aval(array.shape, array.dtype)
        if aval.hlo:
            splat = array.size > 0 and bool((array == array.flat[0]).all())
            text = f"dense<{_as_printed(array.flat[0], array.dtype)}>" if splat else dense(array, array.shape)
            return f"{text} : {aval.hlo}"
    raise TypeError(f"no StableHLO attribute for {value!r} of type {type(value).__name__}")


_CONSTANT = re.compile(r"%\d+ = stablehlo\.constant ")
_TAGGED = re.compile(r"(.*mhlo\.frontend_attributes = \{)(.*?)(\}.*)", re.DOTALL)


def with_attributes(line: str, attributes: Iterable[tuple[str, Any]]) -> str:
    """The text of one operation with more `attributes` (`mhlo.frontend_attributes`); those that it has stay as they are."""
    head, tail = _before_type(line)
    given = {k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in attributes}
    new = [f'{k} = "{_escaped(v)}"' for k, v in sorted(given.items())]
    found = _TAGGED.fullmatch(head.rpartition("\n")[2])
    if found is not None:
        before = head[: len(head) - len(found[0])] + found[1]
        kept = [text for text, key in zip(new, sorted(given), strict=True) if f"{key} = " not in found[2]]
        return f"{before}{', '.join([found[2], *kept])}{found[3]}{tail}"
    text = f"mhlo.frontend_attributes = {{{', '.join(new)}}}"
    constant = _CONSTANT.match(head)
    if constant is not None:
        return f"{constant[0]}{{{text}}} {head[constant.end() :]}{tail}"
    if head.endswith("}"):  # other attributes stand there
        return f"{head[:-1]}, {text}}}{tail}"
    return f"{head} {{{text}}}{tail}"


def _before_type(line: str) -> tuple[str, str]:
    """The text of an operation in front of its type, and the type: what follows the last colon outside of brackets."""
    depth = 0
    for i in reversed(range(len(line))):
        c = line[i]
        if c in ")]}":
            depth += 1
        elif c in "([{":
            depth -= 1
        elif c == ":" and not depth and line[i - 1] == " ":
            return line[: i - 1], line[i - 1 :]
    raise AssertionError(f"an operation without a type: {line}")


def _as_printed(value: Any, dtype: np.dtype) -> str:
    """One element with the six digits that MLIR prints, if a float is no more than these."""
    short = f"{value:.6e}" if dtype in (np.float32, np.float64) else ""
    return short if short and np.isfinite(value) and dtype.type(short) == value else _element(dtype.type(value), dtype)


def dense(array: np.ndarray, shape: tuple[int, ...]) -> str:
    """`dense<...>` of a constant with `shape` (an array of one element is a splat)."""
    if array.size == 1:
        return f"dense<{_element(array.reshape(())[()], array.dtype)}>"
    if array.size == 0:
        return "dense<>"
    return f"dense<{_nested(array)}>"


def _nested(array: np.ndarray) -> str:
    if array.ndim == 0:
        return _element(array[()], array.dtype)
    return "[" + ", ".join(_nested(row) for row in array) + "]"


def _element(value: Any, dtype: np.dtype) -> str:
    if dtype == np.bool_:
        return "true" if value else "false"
    if dtypes.issubdtype(dtype, np.integer):
        return str(int(value))
    if dtype.kind == "c":
        part = np.dtype(np.float32 if dtype == np.complex64 else np.float64)
        return f"({_element(part.type(value.real), part)}, {_element(part.type(value.imag), part)})"
    if dtype.itemsize >= 4 and np.isfinite(value):
        return f"{float(value):.{9 if dtype.itemsize == 4 else 17}e}"
    bits = np.asarray(value, dtype).view(f"u{dtype.itemsize}")
    return f"0x{int(bits):0{2 * dtype.itemsize}X}"


def scalar_aval(dtype: Any) -> ShapedArray:
    """Aval of a scalar."""
    return array_aval((), np.dtype(dtype))
