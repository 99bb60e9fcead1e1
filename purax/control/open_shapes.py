# SPDX-License-Identifier: Apache-2.0
"""Shapes with dimension variables: written by the user, and solved for the shapes of a call."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from purax import errors, tree
from purax.core.aval import ShapeDtypeStruct
from purax.core.dims import Dim, SymbolicScope, evaluate, parse, variables, writing
from purax.core.trace import aval_of

__all__ = ["fill", "is_symbolic_dim", "solve", "symbolic_args_specs", "symbolic_shape"]


def is_symbolic_dim(size: Any) -> bool:
    """Whether a size is an expression of dimension variables."""
    return type(size) is Dim


def symbolic_shape(
    shape_spec: str | None,
    *,
    constraints: Sequence[str] = (),
    scope: SymbolicScope | None = None,
    like: Sequence[Any] | None = None,
) -> tuple[Any, ...]:
    """Make a shape whose sizes are expressions of dimension variables.

    Parameters
    ----------
    shape_spec : str
        Sizes separated by commas, such as ``"a, 2*b + 1, 4"``. ``_`` takes the size from `like`, ``...`` all that are not named.
    constraints : sequence of str
        What is known of the variables beside that they are at least 1: ``"a >= 8"``, ``"mod(b, 2) == 0"``.
    scope : SymbolicScope, optional
        Where the variables belong; a new scope when left out. Shapes of one program need one scope.
    like : sequence of int, optional
        A shape to take sizes from.

    Returns
    -------
    tuple of int or Dim

    Raises
    ------
    ValueError
        The text is no shape, or `constraints` and `scope` are both given.

    Examples
    --------
    >>> from purax import export
    >>> batch, features = export.symbolic_shape("batch, 4")
    >>> 2 * batch + 1, features
    (2*batch + 1, 4)
    """
    if scope is not None and constraints:
        raise ValueError(
            "symbolic_shape takes constraints or a scope, which has constraints of its own; both are given"
        )
    scope = SymbolicScope(constraints) if scope is None else scope
    text = "..." if shape_spec is None else str(shape_spec).strip()
    if text.startswith("(") and text.endswith(")") and _splits(text[1:-1]) is not None:
        text = text[1:-1]
    parts = _splits(text)
    if parts is None:
        raise ValueError(f"{shape_spec!r} is no shape: its parentheses do not match")
    given = None if like is None else tuple(like)
    if "..." in parts:
        if parts.index("...") != len(parts) - 1 or given is None:
            raise ValueError(f"'...' in {shape_spec!r} stands at the end, and takes the sizes that `like` has there")
        parts = [*parts[:-1], *["_"] * (len(given) - len(parts) + 1)]
    if given is not None and len(given) != len(parts):
        raise ValueError(f"{shape_spec!r} has {len(parts)} sizes, and the shape {given} has {len(given)}")
    return tuple([_size(part, i, given, scope) for i, part in enumerate(parts)])


def _size(text: str, place: int, given: tuple[Any, ...] | None, scope: SymbolicScope) -> Any:
    if text == "_":
        if given is None:
            raise ValueError("'_' in a shape takes its size from `like`, which is not given")
        return given[place]
    size = parse(text, scope)
    if given is not None and type(size) is not Dim and size != given[place]:
        raise ValueError(f"size {size} of axis {place} differs from the size {given[place]} of the array")
    return size


def _splits(text: str) -> list[str] | None:
    """The parts between commas outside of parentheses; None where parentheses do not match."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if depth < 0:
            return None
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    parts = [part.strip() for part in parts]
    return None if depth else parts[:-1] if parts[-1] == "" else parts


def symbolic_args_specs(
    args: Any, shapes_specs: Any, constraints: Sequence[str] = (), scope: SymbolicScope | None = None
) -> Any:
    """Types of arguments, with shapes of `shapes_specs`, in one scope.

    Parameters
    ----------
    args : pytree of arrays or ShapeDtypeStructs
    shapes_specs : pytree prefix of str or None
        As `symbolic_shape` takes them; None leaves shapes as they are.
    constraints, scope
        See `symbolic_shape`.

    Returns
    -------
    pytree of ShapeDtypeStruct

    Raises
    ------
    ValueError
        Both constraints and a scope.
    """
    if scope is not None and constraints:
        raise ValueError("symbolic_args_specs takes constraints or a scope; both are given")
    scope = SymbolicScope(constraints) if scope is None else scope
    leaves, structure = tree.flatten(args)
    texts = tree.leaves(tree.broadcast(shapes_specs, args, is_leaf=lambda x: x is None), is_leaf=lambda x: x is None)
    avals = [x if isinstance(x, ShapeDtypeStruct) else aval_of(x) for x in leaves]
    return structure.unflatten(
        [
            ShapeDtypeStruct(symbolic_shape(text, scope=scope, like=aval.shape), aval.dtype)
            for aval, text in zip(avals, texts, strict=True)
        ]
    )


# --- shapes of a call -------------------------------------------------------------------------------------------------------


def solve(shapes: Sequence[Sequence[Any]], given: Sequence[Sequence[Any]], names: Sequence[str]) -> dict[str, Any]:
    """The values of the variables in `shapes` for the shapes of a call.

    Parameters
    ----------
    shapes : sequence of shapes
    given : sequence of shapes
        Of the same ranks. Their sizes may be expressions of an outer program.
    names : sequence of str
        What to call the arguments in errors.

    Returns
    -------
    dict from variables to sizes

    Raises
    ------
    ShapeError
        The shapes do not fit. Sizes of an outer program must fit for all values of its variables.
    """
    values: dict[str, Any] = {}
    waiting = []
    for shape, have, name in zip(shapes, given, names, strict=True):
        waiting += [
            (size, number, f"{name}.shape[{i}]") for i, (size, number) in enumerate(zip(shape, have, strict=True))
        ]
    told = ", ".join(f"{name}.shape = {tuple(shape)}" for shape, name in zip(shapes, names, strict=True) if shape)
    while waiting:
        later = [entry for entry in waiting if not _settle(*entry, values, told)]
        if len(later) == len(waiting):
            unknown = sorted(set().union(*[variables(size) for size, _, _ in later]) - set(values))
            raise errors.ShapeError(
                errors.explain(
                    f"the dimension variables {', '.join(unknown)} cannot be found from the shapes of the arguments ({told}).",
                    "Each variable is computed from a size that is linear in it and has no other unknown variable.",
                    "add an argument, or an axis, whose size is the variable itself.",
                )
            )
        waiting = later
    return values


def _settle(size: Any, number: Any, name: str, values: dict[str, Any], told: str) -> bool:
    """Use one size: check it where it is known, or find the one variable that it leaves; False if it must wait."""
    unknown = variables(size) - set(values)
    if not unknown:
        expected = evaluate(size, values)
        if expected != number:
            raise errors.ShapeError(f"{name} is {number}, and by {told} it is {size} = {expected}")
        return True
    if len(unknown) > 1:
        return False
    (variable,) = unknown
    terms = [(mono, c) for mono, c in size.terms if any(_holds(atom, variable) for atom, _ in mono)]
    if len(terms) != 1 or terms[0][0] != ((variable, 1),):
        return False
    factor = terms[0][1]
    rest = number - evaluate(size - Dim((terms[0],), size.scope), values)
    value, left_over = divmod(rest, factor) if factor > 0 else divmod(-rest, -factor)
    if not (type(left_over) is not Dim and left_over == 0):
        raise errors.ShapeError(f"{name} is {number}, which gives no whole number for {variable!r} in {size} ({told})")
    if not _at_least_one(value):
        raise errors.ShapeError(
            f"{name} is {number}, so {variable!r} in {size} is {value}, and dimension variables are at least 1 ({told})"
        )
    values[variable] = value
    return True


def _holds(atom: Any, variable: str) -> bool:
    return atom == variable if isinstance(atom, str) else variable in variables(atom[1]) | variables(atom[2])


def _at_least_one(value: Any) -> bool:
    try:
        return bool(value >= 1)
    except errors.InconclusiveDimensionOperation:
        return False


def check_constraints(scope: SymbolicScope, values: Mapping[str, Any]) -> None:
    """Raise ShapeError where values of the variables break what the scope says of them."""
    for text in scope.texts:
        sign = next(sign for sign in (">=", "<=", "==") if sign in text)
        left, right = [parse(side, values) for side in text.split(sign)]
        try:
            holds = left == right if sign == "==" else left >= right if sign == ">=" else left <= right
        except errors.InconclusiveDimensionOperation:
            holds = False
        if not holds:
            told = ", ".join(f"{name} = {value}" for name, value in values.items())
            raise errors.ShapeError(f"the constraint {text!r} does not hold for {told}")


_OPEN = re.compile("«(.+?)»")


def fill(text: str, values: Mapping[str, Any]) -> str:
    """The text of a program with its sizes filled in, from `values` of their variables."""
    with writing():
        return _OPEN.sub(lambda found: str(parse(found[1], values)), text)
