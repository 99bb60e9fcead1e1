# SPDX-License-Identifier: Apache-2.0
"""`composite`: a function that goes into the program as one named operation, which a backend may replace by its own.

References
----------
StableHLO specification, section "composite".
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from purax import errors, tree
from purax.core.hooks import hooks
from purax.core.interpret import reference_eval
from purax.core.ir import Jaxpr, intern
from purax.core.primitive import Primitive
from purax.core.stage import StageTrace, recording
from purax.core.trace import aval_of, current, is_tracer
from purax.lowering.emit import attribute
from purax.primitives import shape
from purax.transforms.flat import flat_function, name_of
from purax.transforms.vmap import batch_jaxpr

__all__ = ["composite", "composite_p"]


class Composite(Primitive):
    """A named operation and the program that it stands for.

    Params
    ------
    jaxpr : Jaxpr
        The decomposition; without constants.
    name : str
    version : int
    attributes : tuple of (str, str)
        Names, and texts of StableHLO attributes.
    """

    types_axes = True
    types_spread = True

    def infer(self, *avals: Any, jaxpr: Jaxpr, name: str, version: int, attributes: Any) -> Any:
        """Types of the outputs of the decomposition."""
        return jaxpr.out_avals

    def effects(self, params: dict[str, Any]) -> frozenset[Any]:
        """Effects of the program."""
        return params["jaxpr"].effects

    def reference(self, *operands: Any, jaxpr: Jaxpr, name: str, version: int, attributes: Any) -> Any:
        """The decomposition."""
        return tuple(reference_eval(jaxpr, (), *operands))

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> Any:
        """Refused: what stands for the operation in a backend need not have the derivative of its decomposition."""
        raise ValueError(
            errors.explain(
                f"the composite operation {params['name']!r} has no derivative",
                "the program of its derivative would not have the operation in it",
                "give the derivative by custom_jvp or custom_vjp around the composite function",
            )
        )

    def batch(self, axis: Any, operands: Any, dims: Any, *, jaxpr: Jaxpr, **params: Any) -> Any:
        """The operation of this name that stands for the mapped decomposition."""
        mapped, out_batched = batch_jaxpr(jaxpr, axis, tuple([d is not None for d in dims]))
        moved = [x if d is None else shape.move_batch_axis(x, d, 0) for x, d in zip(operands, dims, strict=True)]
        return self.bind(*moved, jaxpr=mapped, **params), tuple([0 if b else None for b in out_batched])

    def lower(self, b: Any, ins: Any, outs: Any, *, jaxpr: Jaxpr, name: str, version: int, attributes: Any) -> Any:
        """`stablehlo.composite` with the decomposition as a private function."""
        settings = [f"{key} = {text}" for key, text in sorted(attributes)]
        entries = [f"composite_attributes = {{{', '.join(settings)}}}"] if settings else []
        entries.append(f"decomposition = @{b.function(jaxpr, name)}")
        entries += [f"version = {version} : i32"] if version else []
        types = ", ".join(a.hlo for a in outs)
        results = types if len(outs) == 1 else f"({types})"
        given = f" {', '.join(map(str, ins))}" if ins else ""
        text = f'stablehlo.composite "{name}"{given} {{{", ".join(entries)}}} : ({", ".join(x.hlo for x in ins)}) -> {results}'
        return b.emit_many(text, outs)


composite_p = Composite("composite")


def composite(decomposition: Callable[..., Any], name: str, version: int = 0) -> Callable[..., Any]:
    """`decomposition` as one operation of the program, called `name`.

    Backends that know the operation run it their own way; others run the decomposition.

    Parameters
    ----------
    decomposition : callable
        Takes arrays (or pytrees of them) by position and attributes by keyword: numbers, strings, dtypes, NumPy arrays, sequences
        of these; None leaves the attribute out.
    name : str
        With a namespace: "my.square".
    version : int
        Of the operation's meaning.

    Returns
    -------
    callable
        It has no derivative: wrap it by `custom_jvp` or `custom_vjp` to give it one.

    Raises
    ------
    UnexpectedTracerError
        The decomposition, or an attribute, holds a value that is traced outside of it.

    Examples
    --------
    >>> from purax import lax
    >>> float(lax.composite(lax.square, "my.square")(3.0))
    9.0
    """

    @functools.wraps(decomposition)
    def operation(*args: Any, **attributes: Any) -> Any:
        for key, value in attributes.items():
            if is_tracer(value):
                raise errors.UnexpectedTracerError(
                    f"the attribute {key!r} of the composite operation {name!r} is a traced value of type "
                    f"{value.aval.str_short()}; attributes are written into the program: use NumPy arrays and Python numbers"
                )
        texts = tuple([(key, attribute(value)) for key, value in attributes.items() if value is not None])
        leaves, treedef = tree.flatten(args)
        operands = [hooks.as_array(x) for x in leaves]
        flat, store = flat_function(functools.partial(decomposition, **attributes), treedef)
        jaxpr = _staged(flat, [aval_of(x) for x in operands], name)
        outs = composite_p.bind(*operands, jaxpr=jaxpr, name=name, version=version, attributes=texts)
        return store.out_tree.unflatten(outs)

    operation.__name__ = name_of(decomposition)
    return operation


def _staged(flat: Callable[..., Any], avals: list[Any], name: str) -> Jaxpr:
    """The decomposition as a program; arrays that it uses from outside are written into it."""
    trace = StageTrace(current.get(), name, "composite", embed=True)
    inputs = [trace.new_input(aval) for aval in avals]
    with recording(trace):
        outputs = flat(*inputs)
    closed = trace.close(inputs, outputs)
    if closed.consts:
        found = ", ".join(aval_of(x).str_short() for x in closed.consts)
        raise errors.UnexpectedTracerError(
            f"the decomposition of the composite operation {name!r} uses values that are traced outside of it ({found}); pass them "
            "as arguments"
        )
    return intern(closed.jaxpr)
