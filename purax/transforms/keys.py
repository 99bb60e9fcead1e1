# SPDX-License-Identifier: Apache-2.0
"""Programs over random keys, turned into programs over their words.

The one idea: *an array of keys is an array of uint32 words that is mapped over its last axes.* So an operation that moves data
needs no rule for keys: its `batch` rule, told that the mapped axis is the last one, does to the words what the operation does
to the keys. Primitives that are about keys have a `words` rule of their own; those that hold programs hold the turned ones.
Programs are turned right before they are lowered, and remembered on the program; eager operations use the same rules.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from purax import dtypes
from purax.core.axes import Axis
from purax.core.hooks import hooks
from purax.core.ir import ClosedJaxpr, Equation, Jaxpr, Var, intern
from purax.core.stage import StageTrace, StageTracer, recording
from purax.pipeline.evaluate import Kernel, host_kernel
from purax.primitives import comparison, reduction, shape
from purax.primitives.random_bits import KeyPrimitive, random_clone_p, random_unwrap_p, random_wrap_p
from purax.primitives.resharding import free, reshard_to
from purax.runtime.array import Array
from purax.runtime.buffers import physical

__all__ = ["key_kernel", "physicalize", "words_of"]

_RELABELLED = (random_wrap_p, random_unwrap_p, random_clone_p)


def _is_key(aval: Any) -> bool:
    return isinstance(aval.dtype, dtypes.KeyDtype)


def words_of(primitive: Any, avals: Sequence[Any], operands: Sequence[Any], params: dict[str, Any]) -> Sequence[Any]:
    """Outputs of a primitive whose operands of key dtype are given by their words.

    Parameters
    ----------
    primitive : Primitive
        Holds no program.
    avals : sequence of ShapedArray
        Of the operands as keys.
    operands : sequence of array
        Words in place of keys.
    params : dict

    Returns
    -------
    sequence of array
        Words in place of keys.
    """
    if isinstance(primitive, KeyPrimitive):
        return primitive.words(*operands, **params)
    key_shape = next(a.dtype.key_shape for a in avals if _is_key(a))
    axis = Axis(None, math.prod(key_shape))
    # The axes of a key become one, the last.
    values = [
        shape.reshape(x, (*a.shape, axis.size)) if _is_key(a) else x for x, a in zip(operands, avals, strict=True)
    ]
    dims = tuple([a.ndim if _is_key(a) else None for a in avals])
    outs, out_dims = primitive.batch(axis, tuple(values), dims, **params)
    logical = primitive.outputs(tuple(avals), params)
    return [_finished(o, d, a, primitive) for o, d, a in zip(outs, out_dims, logical, strict=True)]


def _finished(x: Any, dim: int | None, aval: Any, primitive: Any) -> Any:
    if not _is_key(aval):
        if dim is None:
            return x
        # Keys are equal if all their words are.
        if primitive not in (comparison.eq_p, comparison.ne_p):
            raise TypeError(f"{primitive.name} is not defined for random keys; random.key_data(keys) gives their words")
        reduce = reduction.reduce_and if primitive is comparison.eq_p else reduction.reduce_or
        return reduce(x, (dim,))
    size = math.prod(aval.dtype.key_shape)
    last = shape.broadcast_batch(x, size, aval.ndim) if dim is None else shape.move_batch_axis(x, dim, aval.ndim)
    return shape.reshape(last, (*aval.shape, *aval.dtype.key_shape))


# --- programs -----------------------------------------------------------------------------------------------------------------


def physicalize(jaxpr: Jaxpr) -> Jaxpr:
    """The program over words: inputs, outputs and values of key dtype are arrays of uint32 with the axes of a key last."""
    if not jaxpr.has_keys:
        return jaxpr
    found = jaxpr.derived.get("words")
    if found is None:
        found = jaxpr.derived["words"] = _Words(jaxpr).program()
    return found


class _Words:
    """Interprets a program with keys and records the one with words."""

    def __init__(self, jaxpr: Jaxpr) -> None:
        self.jaxpr = jaxpr
        self.trace = StageTrace(None, jaxpr.name, "random keys", embed=True)
        self.env: dict[Any, Any] = {}

    def program(self) -> Jaxpr:
        """The program with words."""
        jaxpr, trace = self.jaxpr, self.trace
        inputs = []
        for var in (*jaxpr.constvars, *jaxpr.invars):
            inputs.append(trace.new_input(physical(var.aval)))
            self.env[var] = inputs[-1]
        with recording(trace):
            for eqn in jaxpr.eqns:
                before = len(trace.eqns)
                self.env.update(zip(eqn.outvars, self._equation(eqn), strict=True))
                for new in trace.eqns[before:]:
                    new.source = eqn.source
        closed = trace.close(inputs, [self._read(a) for a in jaxpr.outvars])
        if closed.consts:
            raise AssertionError("a program over words captured constants")
        return intern(Jaxpr([], closed.jaxpr.invars, closed.jaxpr.outvars, closed.jaxpr.eqns, jaxpr.names, jaxpr.name))

    def _read(self, atom: Any) -> Any:
        return self.env[atom] if type(atom) is Var else atom.val

    def _equation(self, eqn: Equation) -> Sequence[Any]:
        values = [self._read(a) for a in eqn.invars]
        keys = any(_is_key(a.aval) for a in (*eqn.invars, *eqn.outvars))
        params = {name: _turned(value) for name, value in eqn.params.items()}
        held = any(params[name] is not value for name, value in eqn.params.items())
        if keys and not held and not _holds_program(eqn.params):
            avals, outs = [a.aval for a in eqn.invars], [v.aval for v in eqn.outvars]
            if all(a.spread is None for a in (*avals, *outs)):
                return words_of(eqn.primitive, avals, values, eqn.params)
            plain = [a.with_spread(None) for a in avals]
            words = words_of(eqn.primitive, plain, [free(x) for x in values], eqn.params)
            return [reshard_to(x, physical(a).spread) for x, a in zip(words, outs, strict=True)]
        # The same operation on other variables; its outputs are as typed as the program it holds.
        outvars = [Var(physical(v.aval)) for v in eqn.outvars]
        atoms = [self.trace.atom(x) for x in values]
        self.trace.eqns.append(
            Equation(atoms, outvars, eqn.primitive, params if held else eqn.params, eqn.source, eqn.effects)
        )
        return [StageTracer(self.trace, var) for var in outvars]


def _holds_program(params: dict[str, Any]) -> bool:
    return any(
        isinstance(item, (Jaxpr, ClosedJaxpr))
        for value in params.values()
        for item in (value if isinstance(value, tuple) else (value,))
    )


def _turned(value: Any) -> Any:
    """A parameter with the programs in it turned."""
    if isinstance(value, Jaxpr):
        return physicalize(value)
    if isinstance(value, ClosedJaxpr):
        return value.replace(jaxpr=physicalize(value.jaxpr)) if value.jaxpr.has_keys else value
    if isinstance(value, tuple) and any(isinstance(v, (Jaxpr, ClosedJaxpr)) for v in value):
        turned = tuple([_turned(v) for v in value])
        return value if all(a is b for a, b in zip(value, turned, strict=True)) else turned
    return value


# --- eager operations ---------------------------------------------------------------------------------------------------------


def key_kernel(
    primitive: Any, avals: tuple[Any, ...], params: dict[str, Any], outs: tuple[Any, ...], compiled: Kernel
) -> Kernel:
    """How one primitive with keys runs on Arrays: relabelled, on the host, word by word, or compiled.

    Parameters
    ----------
    primitive : Primitive
    avals, outs : tuple of aval
    params : dict
    compiled : callable
        The kernel that XLA makes.

    Returns
    -------
    callable
    """
    if primitive in _RELABELLED:
        return lambda arrays: (_relabelled(arrays[0], outs[0]),)
    if isinstance(primitive, KeyPrimitive):
        if primitive.quick(avals, params):
            return host_kernel(primitive, outs, compiled, lambda *values: primitive.host(values, params))
        return compiled
    if _holds_program(params):
        return compiled

    def kernel(arrays: Any) -> tuple[Any, ...]:
        words = [x.base if _is_key(x.aval) else x for x in arrays]
        results = words_of(primitive, avals, words, params)
        return tuple([_relabelled(hooks.as_array(x), aval) for x, aval in zip(results, outs, strict=True)])

    return kernel


def _relabelled(x: Array, aval: Any) -> Array:
    """The same storage under another aval of the same words; keys are always a new array, since one may be spent and not the other."""
    if x.aval is aval and not _is_key(aval):
        return x
    result = Array()
    result.aval = aval
    result._np, result._buf, result._placement = x._np, x._buf, x._placement
    if result._np is None and result._buf is None:
        x.block_until_ready()  # raises, saying what became of it
    return result


hooks.physicalize = physicalize
hooks.key_kernel = key_kernel
