# SPDX-License-Identifier: Apache-2.0
"""`jit`: the primitive that calls a program, and the user's decorator.

The cache of traced programs is `pipeline/stages.py`'s business only in so far as `lower` and `compile` show it; its key is here,
in `JitFunction._key`: structure of the arguments, their avals, static values, the settings that change tracing, named axes.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from purax import config, errors, events, tree
from purax.core.axes import axis_environment
from purax.core.interpret import reference_eval
from purax.core.ir import ClosedJaxpr, Jaxpr, intern, open_constants
from purax.core.passes import dead_code
from purax.core.primitive import Primitive
from purax.core.stage import stage
from purax.core.trace import Tracer, aval_of, check_escape, current
from purax.pipeline.compile import Compilation, compile_jaxpr
from purax.pipeline.debug import active as debugging
from purax.pipeline.evaluate import as_array, program_kernel
from purax.pipeline.stages import Lowered, Traced
from purax.primitives import shape
from purax.primitives.base import is_linear
from purax.runtime.array import Array, wrap_buffer
from purax.transforms.flat import argument_names, check_arrays, name_of
from purax.transforms.jvp import jvp_jaxpr
from purax.transforms.transpose import linearize_jaxpr, transpose_jaxpr
from purax.transforms.vmap import batch_jaxpr

__all__ = ["JitFunction", "jit", "jit_p"]

_current = current.get
_flatten = tree.flatten
_trace_key = config.trace_key


class Jit(Primitive):
    """Call of a program: `jaxpr` (no constants) on the operands. Every transformation of the call is a call of a program."""

    types_axes = True

    def infer(self, *avals: Any, jaxpr: Jaxpr, name: str, inline: bool) -> Any:
        """Types of the outputs of the program."""
        return jaxpr.out_avals

    def effects(self, params: dict[str, Any]) -> frozenset[Any]:
        """Effects of the program."""
        return params["jaxpr"].effects  # type: ignore[no-any-return]

    def reference(self, *operands: Any, jaxpr: Jaxpr, name: str, inline: bool) -> Any:
        """The program by its references."""
        return tuple(reference_eval(jaxpr, (), *operands))

    def run(self, operands: tuple[Any, ...], params: dict[str, Any]) -> tuple[Any, ...]:
        """Run the compiled program."""
        jaxpr = params["jaxpr"]
        kernel = jaxpr.derived.get("kernel")
        if kernel is None:
            kernel = jaxpr.derived["kernel"] = program_kernel(jaxpr, params["name"])
        return kernel([x if type(x) is Array else as_array(x) for x in operands])  # type: ignore[no-any-return]

    def jvp(self, primals: Any, tangents: Any, *, jaxpr: Jaxpr, name: str, inline: bool) -> Any:
        """Call the derivative program."""
        nonzero = tuple([t is not None for t in tangents])
        derived, out_nonzero = jvp_jaxpr(jaxpr, nonzero)
        given = [t for t in tangents if t is not None]
        results = self.bind(*primals, *given, jaxpr=derived, name=name, inline=inline)
        count = len(jaxpr.outvars)
        rest = iter(results[count:])
        return results[:count], tuple([next(rest) if n else None for n in out_nonzero])

    def linearize(self, primals: Any, tangents: Any, params: dict[str, Any]) -> Any:
        """Call the primal part now; the linear part goes on the tape."""
        jaxpr, name, inline = params["jaxpr"], params["name"], params["inline"]
        parts = linearize_jaxpr(jaxpr, tuple([t is not None for t in tangents]))
        results = self.bind(*primals, jaxpr=parts.forward, name=name, inline=inline)
        given = [t for t in tangents if t is not None]
        out_tangents = self.bind(*parts.pick(primals, results), *given, jaxpr=parts.linear, name=name, inline=inline)
        rest = iter(out_tangents)
        return results[: len(jaxpr.outvars)], tuple([next(rest) if n else None for n in parts.out_nonzero])

    def transpose(self, cotangents: Any, operands: Any, *, jaxpr: Jaxpr, name: str, inline: bool) -> Any:
        """Call the transposed program."""
        linear = tuple([is_linear(x) for x in operands])
        nonzero = tuple([c is not None for c in cotangents])
        transposed, out_nonzero = transpose_jaxpr(jaxpr, linear, nonzero)
        values = [x for x, m in zip(operands, linear, strict=True) if not m]
        given = [c for c in cotangents if c is not None]
        results = iter(self.bind(*values, *given, jaxpr=transposed, name=name, inline=inline))
        found = iter([next(results) if n else None for n in out_nonzero])
        return tuple([next(found) if m else None for m in linear])

    def batch(self, axis: Any, operands: Any, dims: Any, *, jaxpr: Jaxpr, name: str, inline: bool) -> Any:
        """Call the mapped program."""
        batched = tuple([d is not None for d in dims])
        mapped, out_batched = batch_jaxpr(jaxpr, axis, batched)
        moved = [shape.move_batch_axis(x, d, 0) if d else x for x, d in zip(operands, dims, strict=True)]
        return self.bind(*moved, jaxpr=mapped, name=name, inline=inline), tuple([0 if b else None for b in out_batched])

    def lower(self, b: Any, ins: Any, outs: Any, *, jaxpr: Jaxpr, name: str, inline: bool) -> Any:
        """A private function, emitted once per module; small or inlined programs are written in place."""
        if inline or len(jaxpr.eqns) <= 2:
            return b.jaxpr(jaxpr, ins)
        return b.call(jaxpr, ins, name or "call")

    def dce(self, wanted: Sequence[bool], eqn: Any) -> Any:
        """Drop unused outputs of the program."""
        jaxpr, used = dead_code(eqn.params["jaxpr"], tuple(wanted), keep_inputs=False)
        return eqn.replace(
            invars=[a for a, u in zip(eqn.invars, used, strict=True) if u],
            outvars=[v for v, w in zip(eqn.outvars, wanted, strict=True) if w],
            params={**eqn.params, "jaxpr": intern(jaxpr)},
        )


jit_p = Jit("jit")


# --- the decorator ----------------------------------------------------------------------------------------------------------


class Program:
    """One traced form of a user's function."""

    __slots__ = ("_jaxpr", "closed", "consts", "out_tree")

    def __init__(self, closed: ClosedJaxpr, out_tree: Any) -> None:
        self.closed = closed
        self.consts = closed.consts
        self.out_tree = out_tree
        self._jaxpr: Jaxpr | None = None

    @property
    def jaxpr(self) -> Jaxpr:
        """The program with its constants as inputs; interned when first wanted, which tracing alone never does."""
        if self._jaxpr is None:
            self._jaxpr = intern(open_constants(self.closed)[0])
        return self._jaxpr


class JitFunction:
    """A function compiled for each type of its arguments; made by `jit`.

    Attributes
    ----------
    trace, lower, eval_shape : methods
        The stages, one by one.
    """

    def __init__(self, fun: Callable[..., Any], options: dict[str, Any]) -> None:
        self.fun = fun
        self.name = name_of(fun)
        self.static_positions, self.static_names = _static(fun, options["static_argnums"], options["static_argnames"])
        self.donated_positions, self.donated_names = _static(fun, options["donate_argnums"], options["donate_argnames"])
        self.inline = options["inline"]
        self.plain = not (self.static_positions or self.static_names or self.donated_positions or self.donated_names)
        self.cache: dict[Any, Any] = {}  # the short way, by structure, settings and avals of the leaves
        self.keyword_cache: dict[Any, Any] = {}
        self.programs: dict[Any, Program] = {}
        self.__dict__.update(getattr(fun, "__dict__", {}) if inspect.isfunction(fun) else {})
        self.__wrapped__ = fun
        for field in ("__name__", "__qualname__", "__doc__", "__module__", "__annotations__"):
            if hasattr(fun, field):
                setattr(self, field, getattr(fun, field))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the compiled function, tracing and compiling it first where its arguments are of a new type."""
        if self.plain and _current() is None:
            leaves, treedef = _flatten((args, kwargs) if kwargs else args)
            key: list[Any] = [treedef, _trace_key()]
            buffers = []
            for x in leaves:
                if type(x) is not Array or x._placement is not None:
                    break
                key.append(x.aval)
                buffer = x._buf
                buffers.append(x.buffer if buffer is None else buffer)
            else:
                entry = (self.keyword_cache if kwargs else self.cache).get(tuple(key))
                if entry is not None:
                    run, consts, out_avals, unflatten = entry
                    outs = run(consts + buffers if consts else buffers)
                    if unflatten is None:
                        return wrap_buffer(out_avals, outs[0])
                    return unflatten([wrap_buffer(aval, buffer) for aval, buffer in zip(out_avals, outs)])  # noqa: B905
        return self._slow_call(args, kwargs)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else _Bound(self, instance)

    def __repr__(self) -> str:
        return f"<jit of {self.name}>"

    # --- the way through every case

    def _slow_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if config.current().disable_jit:
            return self.fun(*args, **kwargs)
        call = Call(self, args, kwargs)
        trace = current.get()
        if trace is None:
            for i, x in enumerate(call.leaves):
                if isinstance(x, Tracer):
                    check_escape(x, None)
                call.leaves[i] = x if type(x) is Array else as_array(x)
        program = self._program(call)
        if trace is not None or any(call.donated) and debugging():
            outs = jit_p.bind(*program.consts, *call.leaves, jaxpr=program.jaxpr, name=self.name, inline=self.inline)
            return program.out_tree.unflatten(outs)
        return self._run(call, program)

    def _run(self, call: Call, program: Program) -> Any:
        consts = [x if type(x) is Array else as_array(x) for x in program.consts]
        leaves = call.leaves
        if any(call.donated):
            outs = self._run_donating(call, program, consts)
        else:
            outs = jit_p.run((*consts, *leaves), {"jaxpr": program.jaxpr, "name": self.name, "inline": self.inline})
            self._install(call, program, consts)
        return program.out_tree.unflatten(outs)

    def _run_donating(self, call: Call, program: Program, consts: list[Any]) -> list[Any]:
        how = Compilation(donated=(*(False for _ in consts), *call.donated))
        executable = compile_jaxpr(program.jaxpr, self.name, how)
        return executable.call([*consts, *call.leaves])  # type: ignore[no-any-return]

    def _install(self, call: Call, program: Program, consts: list[Any]) -> None:
        """Make the next call with these types take the short way."""
        executable = program.jaxpr.derived.get(("executable", Compilation().key))
        if executable is None or not self.plain or debugging() or any(x._placement is not None for x in consts):
            return
        if program is not self.programs.get(call.key):
            return
        treedef = call.treedef if call.kwargs else tree.structure(call.args)
        key = (treedef, _trace_key(), *(x.aval for x in call.leaves))
        out_avals, unflatten = program.jaxpr.out_avals, program.out_tree.unflatten
        if tree.is_leaf_structure(program.out_tree):
            out_avals, unflatten = out_avals[0], None
        cache = self.keyword_cache if call.kwargs else self.cache
        cache[key] = (executable.run, [x.buffer for x in consts], out_avals, unflatten)

    def _program(self, call: Call) -> Program:
        program = self.programs.get(call.key)
        if program is None:
            if events.listening:
                part, old, new = _difference(self.programs, call.key)
                events.emit(events.CacheMiss(self.name, part, old, new))
            program = self._trace(call)
            if not any(isinstance(c, Tracer) for c in program.consts):
                program = self.programs.setdefault(call.key, program)
        return program

    def _trace(self, call: Call) -> Program:
        started = time.perf_counter()
        out_tree = None

        def flat(*leaves: Any) -> list[Any]:
            nonlocal out_tree
            args, kwargs = call.rebuild(leaves)
            outs, out_tree = tree.flatten(self.fun(*args, **kwargs))
            check_outputs(self.name, outs, out_tree)
            return outs

        closed = stage(flat, [aval_of(x) for x in call.leaves], self.name, call.names())
        if events.listening:
            events.emit(events.Traced(self.name, len(closed.jaxpr.eqns), time.perf_counter() - started))
        return Program(closed, out_tree)

    # --- stages

    def trace(self, *args: Any, **kwargs: Any) -> Traced:
        """Trace for these arguments (arrays or ShapeDtypeStructs) without running."""
        call = Call(self, args, kwargs)
        program = self._program(call)
        return Traced(self, call, program)

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """Trace and lower to StableHLO for these arguments."""
        return self.trace(*args, **kwargs).lower()

    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """Shapes and dtypes of the output."""
        return self.trace(*args, **kwargs).out_info

    def clear_cache(self) -> None:
        """Forget what was traced and compiled."""
        self.cache.clear()
        self.keyword_cache.clear()
        self.programs.clear()

    def _cache_size(self) -> int:
        return len(self.programs)


class _Bound:
    """A jitted method bound to its instance."""

    def __init__(self, function: JitFunction, instance: Any) -> None:
        self.function = function
        self.__self__ = instance
        self.__wrapped__ = function.fun.__get__(instance)
        self.__name__ = function.name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(self.__self__, *args, **kwargs)

    def trace(self, *args: Any, **kwargs: Any) -> Traced:
        """As JitFunction.trace."""
        return self.function.trace(self.__self__, *args, **kwargs)

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """As JitFunction.lower."""
        return self.function.lower(self.__self__, *args, **kwargs)


class Call:
    """The arguments of one call, split into leaves and static values, and the key they give."""

    __slots__ = ("args", "donated", "function", "key", "kwargs", "leaves", "statics", "treedef")

    def __init__(self, function: JitFunction, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.function, self.args, self.kwargs = function, args, kwargs
        self.statics: tuple[tuple[Any, Any], ...] = ()
        dynamic_args, dynamic_kwargs = args, kwargs
        if function.static_positions or function.static_names:
            dynamic_args, dynamic_kwargs = self._split_statics()
        self.leaves, self.treedef = tree.flatten((dynamic_args, dynamic_kwargs))
        check_arrays(f"jit({function.name})", self.leaves, self.names)
        self.donated = self._donations() if function.donated_positions or function.donated_names else ()
        self.key = (
            self.treedef,
            tuple([aval_of(x) for x in self.leaves]),
            tuple([(where, type(value), value) for where, value in self.statics]),
            config.current().trace_key,
            tuple(axis_environment.get().items()),
        )
        try:
            hash(self.key)
        except TypeError:
            raise self._unhashable() from None

    def _split_statics(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        positions = {i if i >= 0 else i + len(self.args) for i in self.function.static_positions}
        statics: list[tuple[Any, Any]] = [(i, a) for i, a in enumerate(self.args) if i in positions]
        statics += [(n, self.kwargs[n]) for n in sorted(self.kwargs) if n in self.function.static_names]
        self.statics = tuple(statics)
        args = tuple([None if i in positions else a for i, a in enumerate(self.args)])
        return args, {n: v for n, v in self.kwargs.items() if n not in self.function.static_names}

    def _unhashable(self) -> Exception:
        for where, value in self.statics:
            try:
                hash(value)
            except TypeError:
                which = f"at position {where}" if isinstance(where, int) else f"{where!r}"
                return errors.NonHashableStaticArgumentError(
                    errors.explain(
                        f"Non-hashable static arguments are used in a jit function: jit({self.function.name}) got static argument {which} of type {type(value).__name__}.",
                        "Static values are part of the key of the compiled program, so they must be hashable (and not change).",
                        "pass a tuple instead of a list, a frozen dataclass instead of a dict, or make the argument an array.",
                    )
                )
        return TypeError(f"jit({self.function.name}): an argument of the call cannot be hashed")

    def _donations(self) -> tuple[bool, ...]:
        positions = {i if i >= 0 else i + len(self.args) for i in self.function.donated_positions}
        out: list[bool] = []
        for i, arg in enumerate(self.args):
            static = any(i == where for where, _ in self.statics)
            out += [i in positions] * (0 if static else len(tree.leaves(arg)))
        for name in sorted(self.kwargs):
            if name not in self.function.static_names:
                out += [name in self.function.donated_names] * len(tree.leaves(self.kwargs[name]))
        return tuple(out)

    def names(self) -> list[str]:
        """Argument path of each leaf."""
        static = {where for where, _ in self.statics}
        args = [None if i in static else a for i, a in enumerate(self.args)]
        return argument_names(self.function.fun, args, {n: v for n, v in self.kwargs.items() if n not in static})

    def rebuild(self, leaves: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments with `leaves` in place of the arrays."""
        args, kwargs = self.treedef.unflatten(leaves)
        if self.statics:
            args, kwargs = list(args), dict(kwargs)
            for where, value in self.statics:
                if isinstance(where, int):
                    args[where] = value
                else:
                    kwargs[where] = value
        return tuple(args), kwargs


def _difference(programs: dict[Any, Program], key: Any) -> tuple[str, Any, Any]:
    """Which part of the key is new, beside the most recent program."""
    if not programs:
        return "function", None, None
    last = next(reversed(programs))
    parts = ("structure of the arguments", "shapes and dtypes", "static arguments", "settings", "named axes")
    for part, old, new in zip(parts, last, key, strict=True):
        if old != new:
            return part, old, new
    return "captured values", None, None


def check_outputs(name: str, outs: Sequence[Any], out_tree: Any) -> None:
    """Raise TypeError for the first output that is no array, naming its path."""
    for i, out in enumerate(outs):
        try:
            aval_of(out)
        except TypeError:
            paths = [tree.keystr(path) for path, _ in tree.leaves_with_path(out_tree.unflatten(range(len(outs))))]
            raise TypeError(
                errors.explain(
                    f"function {name} to be traced for jit must return arrays, scalars, or pytrees of them, but output{paths[i]} is "
                    f"{out!r} of type {type(out).__name__}, which is not a valid JAX type",
                    "only arrays leave a compiled program",
                    "return arrays; compute other things outside",
                )
            ) from None


def _static(fun: Callable[..., Any], nums: Any, names: Any) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Positions and names, each completed by the other where the signature tells."""
    positions = () if nums is None else (nums,) if isinstance(nums, (int, np.integer)) else tuple(nums)
    keywords = () if names is None else (names,) if isinstance(names, str) else tuple(names)
    for p in positions:
        if not isinstance(p, (int, np.integer)):
            raise TypeError(f"jit: static_argnums and donate_argnums must be ints or tuples of ints, got {nums!r}")
    for k in keywords:
        if not isinstance(k, str):
            raise TypeError(f"jit: static_argnames and donate_argnames must be strings or tuples of strings, got {names!r}")
    if not positions and not keywords:
        return (), ()
    return _from_signature(fun, tuple(int(p) for p in positions), keywords)


def _from_signature(fun: Any, positions: tuple[int, ...], keywords: tuple[str, ...]) -> Any:
    try:
        parameters = list(inspect.signature(fun).parameters.values())
    except (TypeError, ValueError):
        return positions, keywords
    plain = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    variadic = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    known = {p.name for p in parameters}
    open_names = any(p.kind is p.VAR_KEYWORD for p in parameters)
    for p in positions:
        if not variadic and not -len(plain) <= p < len(plain):
            raise ValueError(
                f"jitted function has static_argnums={positions}, donate_argnums={positions} but only accepts {len(plain)} positional arguments."
            )
    for k in keywords:
        if k not in known and not open_names:
            raise ValueError(
                f"jitted function has invalid argnames {{{k!r}}} in static_argnames or donate_argnames. Function does not take these args: {sorted(known)}"
            )
    by_keyword = {plain[p]: None for p in positions if -len(plain) <= p < len(plain)}
    normal = [p + len(plain) if p < 0 and not variadic else p for p in positions]
    by_position = [plain.index(k) for k in keywords if k in plain]
    return tuple(dict.fromkeys((*normal, *by_position))), tuple(dict.fromkeys((*keywords, *by_keyword)))


def jit(
    fun: Callable[..., Any] | None = None, /, *, in_shardings: Any = None, out_shardings: Any = None,
    static_argnums: Any = None, static_argnames: Any = None, donate_argnums: Any = None, donate_argnames: Any = None,
    keep_unused: bool = False, device: Any = None, backend: Any = None, inline: bool = False, compiler_options: Any = None,
) -> Any:  # fmt: skip
    """Compile a function with XLA, once per type of its arguments.

    Parameters
    ----------
    fun : callable
        Pure function of arrays and pytrees of arrays.
    static_argnums, static_argnames : int, str, or sequences of them, optional
        Arguments that are part of the program (hashable; a new value compiles anew).
    donate_argnums, donate_argnames : int, str, or sequences of them, optional
        Arguments whose memory the result may take over; they cannot be used afterwards.
    inline : bool
        Write the program in place where it is called from another one.

    Returns
    -------
    JitFunction

    Raises
    ------
    NonHashableStaticArgumentError, NonArrayArgumentError, ConcretizationTypeError
        See `purax.errors`.
    """
    options = {
        "static_argnums": static_argnums, "static_argnames": static_argnames, "donate_argnums": donate_argnums,
        "donate_argnames": donate_argnames, "inline": inline, "in_shardings": in_shardings, "out_shardings": out_shardings,
        "compiler_options": compiler_options,
    }  # fmt: skip
    if fun is None:
        return lambda function: JitFunction(function, options)
    if not callable(fun):
        raise TypeError(f"Expected a callable value, got {fun!r}")
    return JitFunction(fun, options)
