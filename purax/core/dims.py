# SPDX-License-Identifier: Apache-2.0
"""Sizes that are not known yet: integer expressions of dimension variables, in the place of ints in shapes.

A `Dim` is a polynomial with integer coefficients over atoms: variables, which are at least 1, and `floordiv`, `mod`, `max`, `min`
of other sizes. It is kept in one normal form, so equal polynomials are equal objects to a dictionary, and a polynomial that is
constant is an int. Order is decided by bounds; what bounds cannot decide raises `InconclusiveDimensionOperation`, except `==`,
which is then False. See docs/design/006-open-shapes.md.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from purax import errors
from purax.core.hooks import hooks

__all__ = [
    "Dim",
    "SymbolicScope",
    "as_size",
    "evaluate",
    "is_open",
    "max_dim",
    "min_dim",
    "parse",
    "variables",
    "writing",
]

_STEPS = 64  # of a division of polynomials; more terms than anybody writes
_LARGEST = 2**31 - 1  # of a dimension variable: indices have 32 bits
_writing: ContextVar[bool] = ContextVar("purax_writing_dims", default=False)


@contextmanager
def writing() -> Iterator[None]:
    """Within, sizes print between « and », so that the text of a program can be filled in."""
    token = _writing.set(True)
    try:
        yield
    finally:
        _writing.reset(token)


class SymbolicScope:
    """The dimension variables that belong together, and what is known of them.

    Parameters
    ----------
    constraints_str : sequence of str
        Such as ``"a >= 8"``, ``"b <= 2*a"``, ``"mod(a, 4) == 0"``. The left side of an equality is replaced by the right one.
    """

    def __init__(self, constraints_str: Sequence[str] = ()) -> None:
        if isinstance(constraints_str, str):
            raise ValueError(f"SymbolicScope takes a sequence of constraints, not the string {constraints_str!r}")
        self.texts = tuple(constraints_str)
        self.rules: dict[Any, Any] = {}
        self.not_negative: list[Any] = []
        for text in self.texts:
            self._add(text)

    def _add(self, text: str) -> None:
        sides = next(((text.split(sign), sign) for sign in (">=", "<=", "==") if sign in text), None)
        if sides is None or len(sides[0]) != 2:
            raise ValueError(f"a constraint is written 'a >= b', 'a <= b' or 'a == b', not {text!r}")
        left, right = [parse(side, self) for side in sides[0]]
        if sides[1] != "==":
            self.not_negative.append(left - right if sides[1] == ">=" else right - left)
            return
        atom = left.atom if isinstance(left, Dim) else None
        if atom is None:
            raise ValueError(
                f"the left side of an equality is a variable, floordiv, mod, max or min, not {left} in {text!r}"
            )
        self.rules[atom] = right

    def __str__(self) -> str:
        known = f" with {', '.join(self.texts)}" if self.texts else ""
        return f"scope {id(self):#x}{known}"


# --- the normal form --------------------------------------------------------------------------------------------------------


class Dim:
    """An integer expression of dimension variables. Made by `parse` and by arithmetic."""

    __slots__ = ("_hash", "scope", "terms")
    __array_ufunc__ = None  # arithmetic with NumPy's integers is ours

    def __init__(self, terms: tuple[tuple[Any, int], ...], scope: SymbolicScope) -> None:
        self.terms, self.scope = terms, scope
        self._hash = hash((terms, id(scope)))

    @property
    def atom(self) -> Any:
        """The one atom that this is, or None."""
        if (
            len(self.terms) == 1
            and self.terms[0][1] == 1
            and len(self.terms[0][0]) == 1
            and self.terms[0][0][0][1] == 1
        ):
            return self.terms[0][0][0][0]
        return None

    # what arrays have

    dtype = np.dtype(np.int32)
    weak_type = True

    # arithmetic

    def __add__(self, other: Any) -> Any:
        known = _operand(self, other)
        return _with_array(operator.add, self, other) if known is None else _sum(self, known, 1)

    def __sub__(self, other: Any) -> Any:
        known = _operand(self, other)
        return _with_array(operator.sub, self, other) if known is None else _sum(self, known, -1)

    def __rsub__(self, other: Any) -> Any:
        return -self + other

    def __neg__(self) -> Any:
        return _make({mono: -c for mono, c in self.terms}, self.scope)

    def __pos__(self) -> Any:
        return self

    def __mul__(self, other: Any) -> Any:
        known = _operand(self, other)
        if known is None:
            return _with_array(operator.mul, self, other)
        out: dict[Any, int] = {}
        for a, c in self.terms:
            for b, d in _terms(known):
                mono = _times(a, b)
                out[mono] = out.get(mono, 0) + c * d
        return _make(out, self.scope)

    def __pow__(self, power: Any) -> Any:
        return math.prod([self] * operator.index(power))

    def __floordiv__(self, other: Any) -> Any:
        known = _operand(self, other)
        return _with_array(operator.floordiv, self, other) if known is None else _divide(self, known)[0]

    def __rfloordiv__(self, other: Any) -> Any:
        return _divide(other, self)[0]

    def __mod__(self, other: Any) -> Any:
        known = _operand(self, other)
        return _with_array(operator.mod, self, other) if known is None else _divide(self, known)[1]

    def __rmod__(self, other: Any) -> Any:
        return _divide(other, self)[1]

    def __divmod__(self, other: Any) -> Any:
        return _divide(self, other)

    def __rdivmod__(self, other: Any) -> Any:
        return _divide(other, self)

    def __truediv__(self, other: Any) -> Any:
        return _with_array(operator.truediv, self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return other / self.__purax_array__()

    __radd__, __rmul__ = __add__, __mul__

    # order

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Dim):
            return self.scope is other.scope and self.terms == other.terms
        return False

    def __hash__(self) -> int:
        return self._hash

    def __ge__(self, other: Any) -> bool:
        low, high = bounds(self - other)
        if low >= 0:
            return True
        if high < 0:
            return False
        raise errors.InconclusiveDimensionOperation(
            errors.explain(
                f"whether {self} >= {other} depends on the values of dimension variables.",
                "A program for all sizes can take one branch only.",
                f"give a constraint when the variables are made: symbolic_shape(..., constraints=['{self} >= {other}']).",
            )
        )

    def __lt__(self, other: Any) -> bool:
        return not self >= other

    def __gt__(self, other: Any) -> bool:
        return self >= other + 1

    def __le__(self, other: Any) -> bool:
        return not self >= other + 1

    def __bool__(self) -> bool:
        return bounds(self) != (0, 0)

    def __index__(self) -> int:
        raise errors.InconclusiveDimensionOperation(
            errors.explain(
                f"the size {self} is used as a number that must be known while the program is written.",
                fix="compute with it as an array (purax.numpy.asarray(size)), or give this axis a fixed size.",
            )
        )

    __int__ = __index__
    __float__ = __index__

    def __purax_array__(self) -> Any:
        """The size as an integer of the program."""
        return hooks.dim_value(self)

    __jax_array__ = __purax_array__

    def __str__(self) -> str:
        text = _text(self)
        return f"«{text}»" if _writing.get() else text

    __repr__ = __str__

    def __copy__(self) -> Dim:
        return self

    def __deepcopy__(self, memo: Any) -> Dim:
        return self


def as_size(value: Any) -> Any:
    """`value` as an int or Dim."""
    return value if type(value) is Dim else operator.index(value)


def is_open(shape: Sequence[Any]) -> bool:
    """Whether a size of the shape is not known yet."""
    return any(type(d) is Dim for d in shape)


def _operand(dim: Dim, other: Any) -> Any:
    """`other` as an int or Dim of the same scope; None if it is neither."""
    if type(other) is Dim:
        if other.scope is not dim.scope:
            raise ValueError(
                errors.explain(
                    f"the sizes {dim} and {other} belong to two scopes.",
                    "Equal names of two scopes are different variables.",
                    "make all shapes of one program by one call of symbolic_shape or symbolic_args_specs, or pass scope= to each.",
                )
            )
        return other
    try:
        return operator.index(other)
    except TypeError:
        return None


def _with_array(operation: Callable[[Any, Any], Any], dim: Dim, other: Any) -> Any:
    return operation(dim.__purax_array__(), other)


def _terms(x: Any) -> tuple[tuple[Any, int], ...]:
    return x.terms if type(x) is Dim else ((((), x),) if x else ())


def _times(a: Any, b: Any) -> Any:
    powers = dict(a)
    for atom, power in b:
        powers[atom] = powers.get(atom, 0) + power
    return tuple(sorted(powers.items(), key=lambda item: _atom_text(item[0])))


def _sum(a: Any, b: Any, sign: int) -> Any:
    out = dict(_terms(a))
    for mono, c in _terms(b):
        out[mono] = out.get(mono, 0) + sign * c
    return _make(out, a.scope if type(a) is Dim else b.scope)


def _make(terms: Mapping[Any, int], scope: SymbolicScope) -> Any:
    kept = [(mono, c) for mono, c in terms.items() if c]
    if all(mono == () for mono, _ in kept):
        return kept[0][1] if kept else 0
    kept.sort(key=lambda term: (-sum(p for _, p in term[0]), term[0] == (), _reversed(_mono_text(term[0]))))
    return Dim(tuple(kept), scope)


def _reversed(text: str) -> tuple[int, ...]:
    return tuple([-ord(letter) for letter in text])


def _of_atom(atom: Any, scope: SymbolicScope) -> Any:
    found = scope.rules.get(atom)
    return Dim(((((atom, 1),), 1),), scope) if found is None else found


def _divide(a: Any, b: Any) -> tuple[Any, Any]:
    """Quotient and remainder, rounded down. The multiples of `b` among the terms are divided out exactly."""
    scope = a.scope if type(a) is Dim else b.scope
    if type(b) is not Dim and b == 0:
        raise ZeroDivisionError(f"the size {a} is divided by 0")
    quotient, rest = _divide_out(a, b, scope)
    if type(rest) is not Dim and rest == 0:
        return quotient, 0
    low, high = bounds(rest)
    if low >= 0 and (type(b) is not Dim and high < b):
        return quotient, rest
    if type(rest) is not Dim and type(b) is not Dim:
        return quotient + rest // b, rest % b
    more, left_over = _of_atom(("floordiv", rest, b), scope), _of_atom(("mod", rest, b), scope)
    if type(left_over) is not Dim and left_over == 0:
        return quotient + more, 0
    return quotient + more, left_over


def _divide_out(a: Any, b: Any, scope: SymbolicScope) -> tuple[Any, Any]:
    """The polynomial quotient where there is one; else only the terms that a divisor of one term divides are taken out."""
    lead, factor = _terms(b)[0]
    quotient: Any = 0
    rest = a
    if len(_terms(b)) == 1:
        for mono, c in _terms(a):
            left = _without(mono, lead)
            if left is not None and c % factor == 0:
                part = _make({left: c // factor}, scope)
                quotient, rest = quotient + part, rest - part * b
        return quotient, rest
    for _ in range(_STEPS):
        if type(rest) is not Dim:
            break
        left = _without(rest.terms[0][0], lead)
        if left is None or rest.terms[0][1] % factor:
            return 0, a
        part = _make({left: rest.terms[0][1] // factor}, scope)
        quotient, rest = quotient + part, rest - part * b
    return (quotient, 0) if type(rest) is int and rest == 0 else (0, a)


def _without(mono: Any, part: Any) -> Any:
    """The monomial divided by another one, or None."""
    powers = dict(mono)
    for atom, power in part:
        powers[atom] = powers.get(atom, 0) - power
        if powers[atom] < 0:
            return None
    return tuple([(atom, powers[atom]) for atom, _ in mono if powers[atom]])


def max_dim(a: Any, b: Any) -> Any:
    """The larger of two sizes a and b, an int or Dim."""
    return _extreme("max", a, b)


def min_dim(a: Any, b: Any) -> Any:
    """The smaller of two sizes a and b, an int or Dim."""
    return _extreme("min", a, b)


def _extreme(kind: str, a: Any, b: Any) -> Any:
    if type(a) is not Dim and type(b) is not Dim:
        return max(a, b) if kind == "max" else min(a, b)
    try:
        first = a >= b if type(a) is Dim else b <= a
    except errors.InconclusiveDimensionOperation:
        return _of_atom((kind, a, b), (a if type(a) is Dim else b).scope)
    return a if first == (kind == "max") else b


# --- bounds -----------------------------------------------------------------------------------------------------------------


def bounds(x: Any) -> tuple[float, float]:
    """Numbers that the expression is never below and never above."""
    if type(x) is not Dim:
        return x, x
    low, high = _interval(x)
    for known in x.scope.not_negative:  # x >= x - known, and x <= x + known
        low, high = max(low, _interval(x - known)[0]), min(high, _interval(x + known)[1])
    for mono, c in x.terms:  # c * mod(a, n) is between 0 and c * (n - 1)
        if len(mono) == 1 and mono[0][1] == 1 and mono[0][0][0] == "mod" and _interval(mono[0][0][2])[0] >= 1:
            rest = x - Dim(((mono, c),), x.scope)
            ends = [_interval(rest), _interval(rest + c * (mono[0][0][2] - 1))]
            low, high = max(low, min(ends)[0]), min(high, max(end[1] for end in ends))
    return low, high


def _interval(x: Any) -> tuple[float, float]:
    if type(x) is not Dim:
        return x, x
    low: float = 0
    high: float = 0
    for mono, c in x.terms:
        part: tuple[float, float] = (c, c)
        for atom, power in mono:
            for _ in range(power):
                ends = [_product(p, q) for p in part for q in _atom_interval(atom)]
                part = min(ends), max(ends)
        low, high = low + part[0], high + part[1]
    return low, high


def _product(a: float, b: float) -> float:
    return 0 if a == 0 or b == 0 else a * b


def _atom_interval(atom: Any) -> tuple[float, float]:
    if isinstance(atom, str):
        return 1, _LARGEST
    kind, a, b = atom
    (a_low, a_high), (b_low, b_high) = bounds(a), bounds(b)
    if kind == "max":
        return max(a_low, b_low), max(a_high, b_high)
    if kind == "min":
        return min(a_low, b_low), min(a_high, b_high)
    if b_low < 1:
        return -math.inf, math.inf
    if kind == "mod":
        return 0, min(b_high - 1, a_high if a_low >= 0 else math.inf)
    ends = [_floor(p, q) for p in (a_low, a_high) for q in (b_low, b_high)]
    return min(ends), max(ends)


def _floor(a: float, b: float) -> float:
    if math.isinf(b):
        return 0 if a >= 0 else -1
    return a if math.isinf(a) else a // b


# --- text -------------------------------------------------------------------------------------------------------------------


def _text(dim: Dim) -> str:
    parts = []
    for mono, c in dim.terms:
        letters = _mono_text(mono)
        size = abs(c)
        body = str(size) if not letters else letters if size == 1 else f"{size}*{letters}"
        parts.append(("- " if c < 0 else "+ ") + body)
    text = " ".join(parts)
    return text[2:] if text.startswith("+") else "-" + text[2:]


def _mono_text(mono: Any) -> str:
    return "*".join(_atom_text(atom) + (f"^{power}" if power > 1 else "") for atom, power in mono)


def _atom_text(atom: Any) -> str:
    if isinstance(atom, str):
        return atom
    a, b = [_text(x) if type(x) is Dim else str(x) for x in atom[1:]]
    return f"{atom[0]}({a}, {b})"


_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod, ast.Pow: operator.pow,
}  # fmt: skip
_FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "floordiv": operator.floordiv, "mod": operator.mod, "max": max_dim, "min": min_dim,
}  # fmt: skip


def parse(text: str, scope: SymbolicScope | Mapping[str, Any]) -> Any:
    """The size that a text such as ``2*a + mod(b, 3)`` means.

    Parameters
    ----------
    text : str
    scope : SymbolicScope, or mapping from str to int or Dim
        Where variables belong, or what they are.

    Returns
    -------
    int or Dim

    Raises
    ------
    ValueError
        The text is no such expression.
    """

    def value(node: Any) -> Any:
        if isinstance(node, ast.Constant) and type(node.value) is int:
            return node.value
        if isinstance(node, ast.Name):
            return _of_atom(node.id, scope) if isinstance(scope, SymbolicScope) else scope[node.id]
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -value(node.operand)
        if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
            return _BINARY[type(node.op)](value(node.left), value(node.right))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS:
            if len(node.args) == 2 and not node.keywords:
                return _FUNCTIONS[node.func.id](*map(value, node.args))
        raise ValueError(wrong)

    wrong = f"{text!r} is no size: write an integer expression of names, with + - * ^ // %, floordiv, mod, max and min"
    try:
        return value(ast.parse(text.strip().replace("^", "**"), mode="eval").body)
    except SyntaxError:
        raise ValueError(wrong) from None


def evaluate(size: Any, values: Mapping[str, Any]) -> Any:
    """The size with its variables replaced by `values`, ints or sizes of another scope: an int or Dim."""
    return parse(_text(size), values) if type(size) is Dim else size


def variables(size: Any) -> set[str]:
    """Names of the variables of a size."""
    if type(size) is not Dim:
        return set()
    found: set[str] = set()
    for mono, _ in size.terms:
        for atom, _ in mono:
            found |= {atom} if isinstance(atom, str) else variables(atom[1]) | variables(atom[2])
    return found
