# SPDX-License-Identifier: Apache-2.0
"""What the control-flow primitives share: staging of bodies, reordering of inner programs, masks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from purax import dtypes, errors, tree
from purax.core.hooks import hooks
from purax.core.ir import ClosedJaxpr, Jaxpr, Var, intern, open_constants
from purax.core.stage import stage
from purax.core.trace import aval_of, current
from purax.primitives import cast, collective
from purax.primitives.resharding import reshard_to

__all__ = ["build", "cast_weak", "holds", "merge", "partition", "permuted", "stage_touching", "stage_tree", "take"]


def stage_tree(
    fun: Callable[..., Any], in_tree: Any, avals: Sequence[Any], name: str, kind: str, names: Sequence[str] = ()
) -> tuple[Jaxpr, list[Any], Any]:
    """Program of a pytree function: jaxpr with constants as leading inputs, their values, structure of the output.

    Parameters
    ----------
    fun : callable
    in_tree : structure
        Of its arguments.
    avals : sequence of aval
    name : str
    kind : str
        What the program is for.
    names : sequence of str
        Of the inputs.

    Returns
    -------
    (Jaxpr, list of arrays, structure)

    Raises
    ------
    NonArrayArgumentError
        An output is no array.
    """
    out_tree = None

    def flat(*leaves: Any) -> list[Any]:
        nonlocal out_tree
        outs, out_tree = tree.flatten(fun(*in_tree.unflatten(leaves)))
        for i, out in enumerate(outs):
            try:
                aval_of(out)
            except TypeError:
                raise errors.NonArrayArgumentError(
                    errors.explain(
                        f"{kind}: output {i} of {name} is {out!r} of type {type(out).__name__}, which is not a valid JAX type",
                        "only arrays pass through a compiled loop or branch",
                        "return arrays, scalars, or pytrees of them",
                    )
                ) from None
        return outs

    closed = stage(flat, avals, name, names, kind)
    jaxpr, consts = open_constants(closed)
    return jaxpr, consts, out_tree


def stage_touching(
    fun: Callable[..., Any], in_tree: Any, avals: Sequence[Any], name: str, kind: str
) -> tuple[Jaxpr, list[Any], Any, Any]:
    """As `stage_tree`, for a function that may touch mutable references.

    Parameters
    ----------
    fun : callable
    in_tree : PyTreeDef
        Of the arguments.
    avals : sequence of ShapedArray
        Types of their leaves.
    name, kind : str
        What the user wrote, for messages.

    Returns
    -------
    (Jaxpr, list of arrays, PyTreeDef, Cells)
        The program, the values of its first inputs, the structure of the output; and the references, whose values are the last
        inputs and outputs (see `ref_scope.py`).
    """
    taken: Any = None

    def run(*args: Any) -> Any:
        nonlocal taken
        taken = hooks.take_references(current.get(), False)
        return fun(*args)

    jaxpr, consts, out_tree = stage_tree(run, in_tree, avals, name, kind)
    return jaxpr, consts, out_tree, taken.cells()


def permuted(jaxpr: Jaxpr, inputs: Sequence[int], outputs: Sequence[int]) -> Jaxpr:
    """The same program with its inputs and outputs reordered (outputs may be dropped or repeated).

    Parameters
    ----------
    jaxpr : Jaxpr
    inputs, outputs : sequence of int

    Returns
    -------
    Jaxpr
    """
    names = tuple(jaxpr.names[i] for i in inputs) if jaxpr.names else ()
    return intern(
        Jaxpr([], [jaxpr.invars[i] for i in inputs], [jaxpr.outvars[i] for i in outputs], jaxpr.eqns, names, jaxpr.name)
    )


def build(fun: Callable[..., Sequence[Any]], avals: Sequence[Any], name: str) -> Jaxpr:
    """Program of a flat function that captures no tracer; arrays that it captures are written in place.

    Parameters
    ----------
    fun : callable
    avals : sequence of aval
    name : str

    Returns
    -------
    Jaxpr

    Raises
    ------
    AssertionError
        It captured a tracer: a fault of purax.
    """
    jaxpr, consts = open_constants(stage(fun, avals, name, kind="derived", embed=True))
    if consts:
        raise AssertionError(f"a derived program of {name} captured {len(consts)} constants")
    return intern(jaxpr)


def closed_of(jaxpr: Jaxpr) -> ClosedJaxpr:
    """A jaxpr without constants as a ClosedJaxpr."""
    return ClosedJaxpr(jaxpr, ())


def partition(mask: Sequence[bool], values: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """`(values where the mask is false, values where it is true)`, two lists."""
    off = [v for m, v in zip(mask, values, strict=True) if not m]
    on = [v for m, v in zip(mask, values, strict=True) if m]
    return off, on


def merge(mask: Sequence[bool], off: Sequence[Any], on: Sequence[Any]) -> list[Any]:
    """Inverse of `partition`.

    Parameters
    ----------
    mask : sequence of bool
    off, on : sequence

    Returns
    -------
    list
    """
    rest_off, rest_on = iter(off), iter(on)
    return [next(rest_on) if m else next(rest_off) for m in mask]


def take(values: Sequence[Any], mask: Sequence[bool]) -> list[Any]:
    """A list of the values where the mask is true."""
    return [v for v, m in zip(values, mask, strict=True) if m]


def cast_weak(values: Sequence[Any], avals: Sequence[Any]) -> list[Any]:
    """Values converted to the dtypes (and weak types) of `avals`; shapes must agree already."""
    out = []
    for x, aval in zip(values, avals, strict=True):
        have = aval_of(x)
        if have.dtype != aval.dtype or have.weak_type != aval.weak_type:
            x = cast.convert_element_type_p.bind1(x, new_dtype=aval.dtype, weak_type=aval.weak_type)
        if aval.spread is not have.spread:
            x = reshard_to(x, aval.spread)
        out.append(varying_over(x, aval.varying - have.varying) if aval.varying else x)
    return out


def varying_over(x: Any, axes: frozenset[Any]) -> Any:
    """`x`, counted as varying over these named axes, too."""
    return collective.pvary_p.bind1(x, axes=tuple(sorted(axes, key=str))) if axes else x


def holds(narrow: Any, wide: Any) -> bool:
    """Whether a weakly typed scalar of kind `narrow` may become `wide` without loss of kind."""
    return _rank(narrow) <= _rank(wide)


def _rank(dtype: Any) -> int:
    kinds = (np.bool_, np.integer, np.floating)
    return next((i for i, kind in enumerate(kinds) if dtypes.issubdtype(dtype, kind)), len(kinds))


def variables(avals: Sequence[Any]) -> list[Var]:
    """New variables of these types."""
    return [Var(a) for a in avals]
