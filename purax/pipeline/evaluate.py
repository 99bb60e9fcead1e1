# SPDX-License-Identifier: Apache-2.0
"""Evaluation of one primitive outside every transformation.

A *kernel* per (primitive, avals, params) is made once and kept in the primitive. Exact operations on small CPU arrays are run
by NumPy on the host, where they take a microsecond and compile nothing; everything else is a compiled program of one equation.
The choice depends on avals only, and both give the same bits, so it shows in no result.

Parameters
----------
primitive : Primitive
avals, outs : tuple of aval
    Of operands and outputs.
params : dict
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import Context
from typing import Any

import numpy as np

from purax import config, dtypes
from purax.core import trace as tracing
from purax.core.hooks import hooks
from purax.core.ir import Equation, Jaxpr, Var
from purax.core.primitive import registry
from purax.core.trace import Tracer, aval_of
from purax.pipeline import debug, placed
from purax.pipeline.compile import compile_jaxpr
from purax.pipeline.debug import unusual
from purax.runtime import client
from purax.runtime.array import Array, wrap_buffer, wrap_host
from purax.runtime.transfer import HOST_LIMIT, put
from purax.sharding import running_mesh

__all__ = ["as_array", "evaluate", "kernel_of", "on_host", "operand", "quiet"]

Kernel = Callable[[Any], tuple[Any, ...]]


def as_array(x: Any) -> Any:
    """The Array of an array-like (tracers pass through).

    Returns
    -------
    Array or Tracer

    Raises
    ------
    NonArrayArgumentError
        `x` is no array, scalar, or object that converts to one.
    """
    kind = type(x)
    if kind is Array or isinstance(x, Tracer):
        return x
    convert = getattr(x, "__purax_array__", None) or getattr(x, "__jax_array__", None)
    if convert is not None and not isinstance(x, type):
        return as_array(convert())
    return put(x, aval_of(x))


def evaluate(primitive: Any, operands: tuple[Any, ...], params: dict[str, Any], own: bool = True) -> tuple[Any, ...]:
    """Outputs of a primitive on concrete operands, by its `run` if it has one and `own` says so.

    Parameters
    ----------
    operands : tuple of array-likes
    own : bool

    Returns
    -------
    tuple of Array
    """
    if own and primitive.run is not None:
        return primitive.run(operands, params)
    arrays = operands
    for x in operands:
        if type(x) is not Array:
            arrays = tuple([x if type(x) is Array else operand(x) for x in operands])
            break
    avals = tuple([x.aval for x in arrays])
    key = (avals, tuple(params.items())) if params else avals
    try:
        kernel = primitive.kernels.get(key)
    except TypeError:
        primitive.outputs(avals, params)  # raises, naming the parameter that cannot be hashed
        raise
    if kernel is None:
        kernel = _kernel(primitive, avals, params, key)
    return kernel(arrays)


def kernel_of(primitive: Any, avals: tuple[Any, ...], params: dict[str, Any]) -> Kernel:
    """What computes a primitive on Arrays of these types."""
    key = (avals, tuple(params.items())) if params else avals
    return primitive.kernels.get(key) or _kernel(primitive, avals, params, key)


def on_host(primitive: Any, avals: tuple[Any, ...], params: dict[str, Any], outs: tuple[Any, ...]) -> bool:
    """Whether NumPy computes a primitive on arrays of these types exactly, and they are small."""
    exact = primitive.exact
    if not exact or max((a.size for a in (*avals, *outs)), default=0) > HOST_LIMIT:
        return False
    return exact is True or bool(exact(avals, params))


def operand(x: Any) -> Array:
    """The Array of an array-like that is used outside every transformation.

    Raises
    ------
    UnexpectedTracerError
        `x` is a value of a transformation that has ended.
    """
    x = as_array(x)
    if isinstance(x, Tracer):
        tracing.check_escape(x, None)
    return x


def _kernel(primitive: Any, avals: tuple[Any, ...], params: dict[str, Any], key: Any) -> Kernel:
    holder = next((v for v in params.values() if isinstance(v, Jaxpr)), None)
    if holder is not None:  # programs own the kernels made of them, so that both go together
        key = (primitive, key, config.trace_key())
        kernel = holder.derived.get(key)
        if kernel is None:
            kernel = holder.derived.setdefault(key, _make(primitive, avals, params))
        return kernel
    return primitive.kernels.setdefault(key, _make(primitive, avals, params))


def _make(primitive: Any, avals: tuple[Any, ...], params: dict[str, Any]) -> Kernel:
    outs = primitive.outputs(avals, params)
    if any(isinstance(a.dtype, dtypes.KeyDtype) for a in (*avals, *outs)):
        compiled = _compiled_kernel(primitive, avals, params, outs)
        return hooks.key_kernel(primitive, avals, params, outs, compiled)
    if config.current().automatic_checks:
        return program_kernel(hooks.instrument(one_equation(primitive, avals, params, outs)), primitive.name)
    if on_host(primitive, avals, params, outs):
        compiled = _compiled_kernel(primitive, avals, params, outs)
        ufunc, reference = getattr(primitive, "ufunc", None), primitive.reference
        if ufunc is not None:
            return host_kernel(primitive, outs, compiled, ufunc, single=True)
        return host_kernel(primitive, outs, compiled, lambda *values: reference(*values, **params))
    return _compiled_kernel(primitive, avals, params, outs)


def one_equation(primitive: Any, avals: tuple[Any, ...], params: dict[str, Any], outs: tuple[Any, ...]) -> Jaxpr:
    """The program that applies one primitive."""
    invars, outvars = [Var(a) for a in avals], [Var(a) for a in outs]
    eqn = Equation(list(invars), outvars, primitive, params, None, primitive.effects(params))
    return Jaxpr([], invars, list(outvars), [eqn], (), primitive.name)


# --- compiled kernels -------------------------------------------------------------------------------------------------------


def _compiled_kernel(primitive: Any, avals: tuple[Any, ...], params: dict[str, Any], outs: tuple[Any, ...]) -> Kernel:
    jaxpr = one_equation(primitive, avals, params, outs)
    return program_kernel(jaxpr, primitive.name)


def program_kernel(jaxpr: Jaxpr, name: str, within: bool = False) -> Kernel:
    """A function of Arrays that runs the compiled `jaxpr` (`within` the current mesh); compiled on first use."""
    outs = jaxpr.out_avals
    single = outs[0] if len(outs) == 1 else None
    run: Any = None

    def kernel(arrays: Any) -> tuple[Any, ...]:
        nonlocal run
        buffers = []
        for x in arrays:
            if x._placement is not None:
                return placed.call(jaxpr, name, arrays, within)
            buffer = x._buf
            buffers.append(x.buffer if buffer is None else buffer)
        if unusual.count or run is None:
            if (
                client.default_placement() is not None
                or placed.mesh_of(jaxpr) is not None
                or (within and running_mesh() is not None)
            ):
                return placed.call(jaxpr, name, arrays, within)
            run = compile_jaxpr(jaxpr, name).run
        results = run(buffers)
        if single is not None and not unusual.count:
            return (wrap_buffer(single, results[0]),)
        out = tuple([wrap_buffer(aval, buffer) for aval, buffer in zip(outs, results, strict=True)])
        if debug.active():
            debug.check(name, out)
        return out

    return kernel


# --- host kernels -----------------------------------------------------------------------------------------------------------

_contexts = threading.local()


def quiet(function: Callable[..., Any], *operands: Any, **params: Any) -> Any:
    """Call `function` with NumPy's floating-point warnings off: values speak for themselves, as on a device.

    Parameters
    ----------
    function : callable
    operands : arrays
    params : any

    Returns
    -------
    what the function returns
    """
    try:
        context = _contexts.context
    except AttributeError:
        context = _contexts.context = Context()
        context.run(np.seterr, all="ignore")
    try:
        return context.run(function, *operands, **params)
    except RuntimeError:
        with np.errstate(all="ignore"):  # the context is in use further up this thread's stack (a finalizer)
            return function(*operands, **params)


def host_kernel(
    primitive: Any, outs: tuple[Any, ...], compiled: Kernel, function: Callable[..., Any], single: bool = False
) -> Kernel:
    """Arrays through `function` of NumPy arrays where they lie on the host, else through `compiled`.

    Parameters
    ----------
    function : callable
        Returns a tuple of arrays, one per output; the array itself if `single`.
    """
    out_aval = outs[0]

    def kernel(arrays: Any) -> tuple[Any, ...]:
        values = []
        for x in arrays:
            if x._placement is not None:
                return compiled(arrays)
            value = x._np
            if value is None:
                if not x.is_ready():
                    return compiled(arrays)
                value = x.host
            values.append(value)
        if (unusual.count or not _cpu_is_default) and not _on_host():
            return compiled(arrays)
        results = quiet(function, *values)
        if single and not unusual.count:
            return (wrap_host(out_aval, results),)
        out = tuple(
            [wrap_host(aval, value) for aval, value in zip(outs, (results,) if single else results, strict=True)]
        )
        if debug.active():
            debug.check(primitive.name, out)
        return out

    return kernel


_cpu_is_default: list[bool] = []  # filled once it is known to be so, emptied when backends change
client._on_clear.append(_cpu_is_default.clear)


def _on_host() -> bool:
    if not client.is_cpu_default():
        return False
    _cpu_is_default[:] = [True]
    return config.current().default_device is None


def _forget_kernels(_: int) -> None:
    """Kernels of single operations are made with or without automatic checks: called when that changes."""
    for primitive in registry.values():
        primitive.kernels.clear()


config.watch("automatic_checks", _forget_kernels)
hooks.evaluate = evaluate
hooks.as_array = as_array
hooks.array_type = Array
