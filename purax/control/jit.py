# SPDX-License-Identifier: Apache-2.0
"""`jit`: functions compiled for each type of their arguments.

The primitive that calls a program is in `program_call.py`. What a call depends on (structure of the arguments, avals, static
values, settings, named axes) is told in `call.py`; what was traced for it is kept in `store.py`.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from purax import config, events, tree
from purax.control import ref_scope, refs, sharded
from purax.control.call import Call, check_outputs, choose, take_zeros
from purax.control.explain import cache_miss
from purax.control.instrument import with_automatic_checks
from purax.control.program_call import jit_p
from purax.control.store import Program, store_of
from purax.core.aval import ShapeDtypeStruct
from purax.core.hooks import hooks
from purax.core.stage import StageTrace, stage
from purax.core.trace import Tracer, aval_of, check_escape, current
from purax.lazy import lazy
from purax.pipeline import placed
from purax.pipeline.compile import Compilation, compile_jaxpr, warn_of_unusable
from purax.pipeline.debug import active as debugging
from purax.pipeline.debug import unusual
from purax.pipeline.evaluate import as_array
from purax.pipeline.stages import Lowered, Traced
from purax.runtime import client
from purax.runtime.array import Array, wrap_buffer
from purax.transforms.flat import name_of

__all__ = ["JitFunction", "jit"]

_exported = lazy("purax.control.exported")  # imports this module
_current = current.get
_flatten = tree.flatten
_trace_key = config.trace_key
# Values of the host that calls take the short way with; they become arrays first.
_HOST_KINDS = frozenset({bool, int, float, complex, np.ndarray, np.bool_, np.int32, np.int64, np.float32, np.float64})
_SCALARS = frozenset({bool, int, float})
_remembered: dict[Any, Array] = {}
client._on_clear.append(_remembered.clear)


def _scalar(value: Any) -> Array:
    """A Python scalar as an array on the device; remembered, since only programs that take nothing over get to see it."""
    key = (type(value), value or str(value), _trace_key())  # 0.0 == -0.0: zeros are told apart by what they read
    found = _remembered.get(key)
    if found is None:
        found = as_array(value)
        if value == value:
            if len(_remembered) >= 1024:
                _remembered.clear()
            _remembered[key] = found
    return found


def _within_program() -> bool:
    """Whether a program is being recorded, by whatever rules in between."""
    trace = current.get()
    while trace is not None and not isinstance(trace, StageTrace):
        trace = trace.parent
    return trace is not None


_KEPT: Any = object()  # in place of a program: it is that of one set of references
_CHOICES = ("static_argnums", "static_argnames", "donate_argnums", "donate_argnames")


# --- the decorator ----------------------------------------------------------------------------------------------------------


class JitFunction:
    """A function compiled for each type of its arguments; made by `jit`.

    Attributes
    ----------
    trace, lower, eval_shape : methods
        The stages, one by one.
    static, donated : Chosen
        Which arguments are static, and which are donated.
    """

    def __init__(self, fun: Callable[..., Any], options: dict[str, Any]) -> None:
        self.fun = fun
        self.name = name_of(fun)
        self.options = options
        self.static, self.donated = choose(fun, *[options.get(o) for o in _CHOICES])
        self.inline = options["inline"]
        self.entered = options.get("entered", False)  # whether `with mesh:` says where it runs
        self.plain = not (self.static or self.donated)
        self.shardings: Any = sharded.asked(options)
        flags = options.get("compiler_options")
        self.flags = tuple(sorted(flags.items())) if flags else ()
        rest = tuple([(o, v) for o, v in options.items() if v and o not in _CHOICES and o != "compiler_options"])
        self.store = store = store_of(fun, (self.static, self.donated, rest, self.flags))
        self.cache, self.keyword_cache, self.programs = store.quick, store.quick_keyword, store.programs
        if inspect.isfunction(fun):  # what `functools.wraps` took from another jitted function is not ours
            self.__dict__ = {**fun.__dict__, **self.__dict__}
        self.__wrapped__ = fun
        for field in ("__name__", "__qualname__", "__doc__", "__module__", "__annotations__"):
            if hasattr(fun, field):
                setattr(self, field, getattr(fun, field))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the compiled function, tracing and compiling it first where its arguments are of a new type."""
        if self.plain and _current() is None and not unusual.count:
            leaves, treedef = _flatten((args, kwargs) if kwargs else args)
            key: list[Any] = [treedef, _trace_key()]
            buffers = []
            for x in leaves:
                if type(x) is not Array:
                    if type(x) not in _HOST_KINDS:
                        break
                    try:
                        x = _scalar(x) if type(x) in _SCALARS else as_array(x)
                    except (TypeError, ValueError, OverflowError):  # said in full on the longer way
                        break
                if x._placement is not None:
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
        try:
            return f"<PjitFunction of {self.__wrapped__!r}>"
        except Exception:  # the function has no representation
            return "<PjitFunction>"

    def __getstate__(self) -> dict[str, Any]:
        return {"function_name": self.name, "fun": self.fun, "options": self.options}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["fun"], state["options"])  # type: ignore[misc]

    # --- the way through every case

    def _slow_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        settings = config.current()
        if settings.disable_jit:
            return self.fun(*args, **kwargs)
        trace = current.get()
        if self.store.placed and trace is None and not self.static:
            leaves, key = sharded.key_of(args, kwargs)
            run = self.store.placed.get(key)
            if run is not None:
                return run(leaves)
        call = Call(self, args, kwargs)
        if trace is None:
            for i, x in enumerate(call.leaves):
                if isinstance(x, Tracer):
                    check_escape(x, None)
                call.leaves[i] = x if type(x) is Array else as_array(x)
        program = self._program(call)
        if not program.touches:
            return program.unflatten(self._outputs(call, program))

        def bound(leaves: Sequence[Any], held: Sequence[Any]) -> Sequence[Any]:
            call.leaves, call.held = list(leaves), held
            return self._outputs(call, program)

        return program.through(call.given(), bound)

    def _outputs(self, call: Call, program: Program) -> Sequence[Any]:
        if current.get() is not None or (any(call.donated) and debugging()):
            if self.flags and _within_program():
                raise ValueError(
                    f"`compiler_options` can only be passed to top-level `jax.jit`: jit({self.name}), with {dict(self.flags)}, is called within "
                    "another function that is compiled. Give the options to the outermost jit."
                )
            operands = (*program.consts, *call.leaves, *call.held)
            return jit_p.bind(*operands, jaxpr=program.jaxpr, name=self.name, inline=self.inline)
        if config.current().no_execution:
            raise RuntimeError(f"jit({self.name}) was to run a compiled program, but 'no_execution' is set")
        consts = [x if type(x) is Array else as_array(x) for x in program.consts]
        leaves = (*call.leaves, *call.held)
        outs: Sequence[Any]
        if (
            self.flags
            or self.shardings is not None
            or placed.elsewhere(program.jaxpr, (*consts, *leaves), self.entered)
        ):
            outs = sharded.run(self, call, program, consts)
        elif any(call.donated):
            outs = self._run_donating(call, program, consts)
        else:
            outs = jit_p.run((*consts, *leaves), {"jaxpr": program.jaxpr, "name": self.name, "inline": self.inline})
            if not program.touches:
                self._install(call, program, consts)
        if config.current().debug_key_reuse:
            hooks.account_keys(jit_p, (*consts, *leaves), {"jaxpr": program.jaxpr}, outs)
        return outs

    def _run_donating(self, call: Call, program: Program, consts: list[Any]) -> list[Any]:
        how = Compilation(donated=(*(False for _ in consts), *call.donated, *(False for _ in call.held)))
        executable = compile_jaxpr(program.jaxpr, self.name, how)
        return executable.call([*consts, *call.leaves, *call.held])

    def _install(self, call: Call, program: Program, consts: list[Any]) -> None:
        """Make the next call with these types take the short way."""
        executable = program.jaxpr.derived.get(("executable", Compilation().key))
        if (
            executable is None
            or not self.plain
            or call.zeros
            or debugging()
            or any(x._placement is not None for x in consts)
        ):
            return
        if program is not self.programs.get(call.key):
            return
        treedef = call.treedef if call.kwargs else tree.structure(call.args)
        key = (treedef, _trace_key(), *(x.aval for x in call.leaves))
        out_avals, unflatten = (
            program.jaxpr.out_avals,
            program.unflatten if program.zeros else program.out_tree.unflatten,
        )
        if tree.is_leaf_structure(program.out_tree) and not program.zeros:
            out_avals, unflatten = out_avals[0], None
        cache = self.keyword_cache if call.kwargs else self.cache
        cache[key] = (executable.run, [x.buffer for x in consts], out_avals, unflatten)

    def _program(self, call: Call) -> Program:
        try:
            program = self.programs.get(call.key)
        except Exception as error:  # a user's __eq__
            raise call.incomparable() from error
        if program is _KEPT:
            call.keep()
            return self._program(call)
        known = program
        if program is None or not program.fits():
            if config.current().no_tracing:
                raise RuntimeError(
                    f"jit({self.name}) was to be traced for new types of arguments, but 'no_tracing' is set"
                )
            if events.wanted():
                events.emit(cache_miss(call, self.name, list(self.programs)))
            program = self._trace(call)
            if program is None:
                self.programs.setdefault(call.key, _KEPT)
                call.keep()
                return self._program(call)
            if any(call.donated) and current.get() is None:
                warn_of_unusable(program.closed.in_avals, program.closed.out_avals, call.donated)
            if not any(isinstance(c, Tracer) for c in program.consts):
                if known is not None:  # it fits no more
                    self.programs.pop(call.key, None)
                program = self.programs.setdefault(call.key, program)
        return program

    def _trace(self, call: Call) -> Program | None:
        """The program for these arguments; None where it must be traced for these very references, which rules of the user's hold."""
        started = time.perf_counter()
        left: tuple[Any, Any] = (None, ())
        taken: Any = None
        kept = False

        def flat(*leaves: Any) -> list[Any]:
            nonlocal left, taken, kept
            taken = ref_scope.take(current.get())
            if self.shardings is not None:
                leaves = tuple(sharded.constrain(leaves, self.shardings.constraints(call)))
            given, local = call.local(leaves)
            args, kwargs = call.rebuild(given)
            outs, out_tree = tree.flatten(self.fun(*args, **kwargs))
            check_outputs(self.name, outs, out_tree)
            if self.shardings is not None:
                outs = sharded.constrain(outs, self.shardings.outputs(out_tree, [aval_of(x) for x in outs]))
            outs, zeros = take_zeros(outs)
            left = out_tree, zeros
            kept = any(ref._kept for ref in local)
            return [*outs, *[ref._load() for ref in local]]

        closed = stage(flat, [aval_of(x) for x in call.leaves], self.name, call.names())
        closed = closed.replace(jaxpr=with_automatic_checks(closed.jaxpr))
        if events.wanted():
            events.emit(events.Traced(self.name, len(closed.jaxpr.eqns), time.perf_counter() - started))
        if kept and not call.kept:
            return None
        kept_refs = tuple([ref for _, ref in call.refs]) if call.kept else ()
        return Program(closed, left[0], left[1], tuple([i for i, _ in call.refs]), kept_refs, taken.cells())

    # --- stages

    def trace(self, *args: Any, **kwargs: Any) -> Traced:
        """Trace for these arguments (arrays or ShapeDtypeStructs) without running."""
        args, kwargs = refs.promised((args, kwargs))
        call = Call(self, args, kwargs)
        return Traced(self, call, self._program(call))

    def out_shardings(self, program: Program) -> list[Any]:
        """How each result of a program is asked to be spread over devices; None where that is not said."""
        return sharded.outputs_of(self, program) or [None] * len(program.closed.out_avals)

    def plan(self, call: Call, program: Program, devices: Any = None) -> placed.Plan:
        """Where the program runs, and how it is compiled for these arguments; `devices` as in `placed.plan`."""
        return sharded.plan_of(self, call, program, program.consts, devices)

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """Trace and lower to StableHLO for these arguments."""
        return self.trace(*args, **kwargs).lower()

    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """Shapes and dtypes of the output."""
        return self.trace(*args, **kwargs).out_info

    def save(self, path: Any, *args: Any, **kwargs: Any) -> None:
        """Write the compiled-ready program of one signature to a file that `purax.load` reads.

        Parameters
        ----------
        path : path
        *args, **kwargs
            Arrays or ShapeDtypeStructs; may be left out where the function was called with one signature only.

        Raises
        ------
        ValueError
            No signature is given, and none or several are known.
        """
        if not (args or kwargs):
            args, kwargs = self._only_signature()
        _exported.export(self)(*args, **kwargs).save(path)

    def _only_signature(self) -> Any:
        if len(self.programs) != 1:
            raise ValueError(
                f"save({self.name}) needs arguments: the function was called with {len(self.programs)} signatures, not with one"
            )
        ((treedef, avals, statics, *_),) = self.programs
        args, kwargs = treedef.unflatten([ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type) for a in avals])
        places = {where: value for where, _, value in statics}
        named = {where: value for where, value in places.items() if isinstance(where, str)}
        return tuple([places.get(i, a) for i, a in enumerate(args)]), {**kwargs, **named}

    def clear_cache(self) -> None:
        """Forget what was traced and compiled."""
        self.store.clear()

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
    in_shardings, out_shardings : pytree prefixes of Sharding, PartitionSpec or None, optional
        How arguments and results are spread over devices. By default arguments are taken as they lie, and results lie as the
        partitioner chose.
    device : Device, optional
        Run there.
    inline : bool
        Write the program in place where it is called from another one.
    keep_unused : bool
        Without effect.
    backend : str, optional
        Run on the first device of this platform.
    compiler_options : dict, optional
        Options of XLA for this function.

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
        "compiler_options": compiler_options, "device": device, "backend": backend,
    }  # fmt: skip
    if fun is None:
        return lambda function: JitFunction(checked_callable(function), options)
    return JitFunction(checked_callable(fun), options)


def checked_callable(fun: Any) -> Any:
    """`fun`, if a program can be made of it.

    Raises
    ------
    TypeError
        It is not callable, or makes a generator.
    """
    if isinstance(fun, staticmethod):
        raise TypeError(f"staticmethod arguments are not supported, got {fun!r}: put @staticmethod above @jit")
    if not callable(fun):
        raise TypeError(f"Expected a callable value, got {fun!r}")
    if inspect.isgeneratorfunction(fun):
        raise TypeError(f"Expected a function, got a generator function: {fun!r}")
    return fun
