# SPDX-License-Identifier: Apache-2.0
"""The program representation: variables, literals, equations, jaxprs.

A jaxpr is a straight-line list of equations over typed variables. Programs that hold programs carry them as parameters.
Inner jaxprs are interned by structure (`intern`): a lambda made anew on each call yields the same object, so whatever is
remembered per jaxpr (its derivative, its batched form, its executable) is found again.
"""

from __future__ import annotations

import weakref
from typing import Any, NamedTuple

import numpy as np

from purax import dtypes
from purax.core.name_stack import NameStack
from purax.core.source import format_source, names_of

__all__ = ["ClosedJaxpr", "Equation", "Jaxpr", "Literal", "Var", "intern", "open_constants"]

_NO_EFFECTS: frozenset[Any] = frozenset()


class Var:
    """A typed variable, defined once."""

    __slots__ = ("aval",)

    def __init__(self, aval: Any) -> None:
        self.aval = aval

    def __repr__(self) -> str:
        return f"Var({self.aval.str_short()})"


class Literal:
    """A scalar constant written in place: `val` is a host-resident Array, so it keeps its weak type."""

    __slots__ = ("aval", "val")

    def __init__(self, val: Any, aval: Any) -> None:
        self.val = val
        self.aval = aval

    def key(self) -> Any:
        """Structural identity: type and bits (NaN equals itself, 0.0 differs from -0.0)."""
        return self.aval, np.asarray(self.val).tobytes()

    def __repr__(self) -> str:
        return f"{self.val}:{self.aval.str_short()}"


class SourceInfo(NamedTuple):
    """Where an equation is from.

    Attributes
    ----------
    source : tuple or None
        The user's line (see `purax.core.source`).
    name_stack : NameStack
        The scopes and transformations that it lies in.
    """

    source: Any
    name_stack: NameStack

    def __str__(self) -> str:
        return format_source(self.source)


class EquationContext(NamedTuple):
    """What contexts of the user's said: attributes for the compiler (`set_xla_metadata`)."""

    xla_metadata: dict[str, Any]


class Equation:
    """`outvars = primitive[params](invars)`, with the user's source and effects."""

    __slots__ = ("effects", "invars", "outvars", "params", "primitive", "source")

    def __init__(
        self, invars: list[Any], outvars: list[Var], primitive: Any, params: dict[str, Any], source: Any = None,
        effects: frozenset[Any] = _NO_EFFECTS,
    ) -> None:  # fmt: skip
        self.invars = invars
        self.outvars = outvars
        self.primitive = primitive
        self.params = params
        self.source = source
        self.effects = effects

    @property
    def source_info(self) -> SourceInfo:
        """Where the equation is from: the user's line and the names that it lies in."""
        return SourceInfo(self.source, names_of(self.source))

    @property
    def ctx(self) -> EquationContext:
        """What contexts of the user's around the equation said."""
        return EquationContext(names_of(self.source).metadata)

    def replace(self, **changes: Any) -> Equation:
        """A copy with some fields changed."""
        fields = {name: getattr(self, name) for name in self.__slots__}
        fields.update(changes)
        return Equation(**fields)

    def __repr__(self) -> str:
        return f"{self.outvars} = {self.primitive.name} {self.invars}"


def _holds_keys(value: Any) -> bool:
    """Whether a parameter of an equation is a program with random keys, or a tuple with one."""
    if isinstance(value, (Jaxpr, ClosedJaxpr)):
        return value.jaxpr.has_keys
    return isinstance(value, tuple) and any(
        isinstance(item, (Jaxpr, ClosedJaxpr)) and item.jaxpr.has_keys for item in value
    )


class Jaxpr:
    """A program: `constvars` and `invars` in, `outvars` out.

    Attributes
    ----------
    constvars, invars : list of Var
    outvars : list of Var or Literal
    eqns : list of Equation
    names : tuple of str
        Argument path of each input (``params['w']``), where known.
    """

    __slots__ = (
        "__weakref__",
        "_has_keys",
        "constvars",
        "derived",
        "effects",
        "eqns",
        "invars",
        "name",
        "names",
        "outvars",
    )

    def __init__(
        self, constvars: list[Var], invars: list[Var], outvars: list[Any], eqns: list[Equation],
        names: tuple[str, ...] = (), name: str = "",
    ) -> None:  # fmt: skip
        self.constvars = constvars
        self.invars = invars
        self.outvars = outvars
        self.eqns = eqns
        self.names = names
        self.name = name
        effects = [e.effects for e in eqns if e.effects]
        self.effects = _NO_EFFECTS.union(*effects) if effects else _NO_EFFECTS
        self._has_keys: bool | None = None
        self.derived: dict[Any, Any] = {}  # what transformations made of this jaxpr, by (transformation, static data)

    def __reduce__(self) -> Any:
        raise TypeError(
            f"the program of {self.name or 'a function'} cannot be pickled: its operations may hold Python functions. "
            "purax.export writes programs to files."
        )

    def __copy__(self) -> Jaxpr:
        return self

    def __deepcopy__(self, memo: Any) -> Jaxpr:
        return self

    @property
    def has_keys(self) -> bool:
        """Whether there are keys of random numbers in it, which are words to a compiler."""
        if self._has_keys is None:
            self._has_keys = any(
                isinstance(v.aval.dtype, dtypes.KeyDtype)
                for vs in (self.invars, self.constvars, *(e.outvars for e in self.eqns))
                for v in vs
            ) or any(e.primitive.types_axes and any(map(_holds_keys, e.params.values())) for e in self.eqns)
        return self._has_keys

    @property
    def in_avals(self) -> tuple[Any, ...]:
        """Avals of the inputs."""
        return tuple([v.aval for v in self.invars])

    @property
    def out_avals(self) -> tuple[Any, ...]:
        """Avals of the outputs."""
        return tuple([v.aval for v in self.outvars])

    @property
    def jaxpr(self) -> Jaxpr:
        """Itself: programs held by equations have no constants, so they are closed."""
        return self

    @property
    def consts(self) -> list[Any]:
        """None: see `jaxpr`."""
        return []

    def pretty_print(self, **_: Any) -> str:
        """The program as text; options of JAX's printer are taken and have no effect."""
        return pretty.pretty(self)

    def __repr__(self) -> str:
        return pretty.pretty(self)

    __str__ = __repr__


class ClosedJaxpr:
    """A jaxpr and the values of its constants."""

    __slots__ = ("__weakref__", "consts", "jaxpr")

    def __init__(self, jaxpr: Jaxpr, consts: Any = ()) -> None:
        self.jaxpr = jaxpr
        self.consts = list(consts)

    @property
    def eqns(self) -> list[Equation]:
        """Equations of the jaxpr."""
        return self.jaxpr.eqns

    @property
    def in_avals(self) -> tuple[Any, ...]:
        """Avals of the inputs."""
        return self.jaxpr.in_avals

    @property
    def out_avals(self) -> tuple[Any, ...]:
        """Avals of the outputs."""
        return self.jaxpr.out_avals

    @property
    def effects(self) -> frozenset[Any]:
        """Effects of the equations."""
        return self.jaxpr.effects

    @property
    def literals(self) -> list[Any]:
        """The constants, under JAX's older name."""
        return self.consts

    def replace(self, *, jaxpr: Jaxpr | None = None, consts: Any = None) -> ClosedJaxpr:
        """A copy with some fields changed."""
        return ClosedJaxpr(jaxpr or self.jaxpr, self.consts if consts is None else consts)

    def pretty_print(self, **_: Any) -> str:
        """The program as text; options of JAX's printer are taken and have no effect."""
        return pretty.pretty(self.jaxpr)

    def __repr__(self) -> str:
        return pretty.pretty(self.jaxpr)

    __str__ = __repr__


def open_constants(closed: ClosedJaxpr) -> tuple[Jaxpr, list[Any]]:
    """The jaxpr with its constants as leading inputs, and their values."""
    jaxpr = closed.jaxpr
    if not jaxpr.constvars:
        return jaxpr, []
    names = jaxpr.names and (*("" for _ in jaxpr.constvars), *jaxpr.names)
    return Jaxpr([], [*jaxpr.constvars, *jaxpr.invars], jaxpr.outvars, jaxpr.eqns, names, jaxpr.name), closed.consts


_INTERNED: weakref.WeakValueDictionary[Any, Jaxpr] = weakref.WeakValueDictionary()


def intern(jaxpr: Jaxpr) -> Jaxpr:
    """The one jaxpr of this structure. Parameters that hold jaxprs must be interned already; needs no constvars."""
    key = _structure(jaxpr)
    try:
        return _INTERNED.setdefault(key, jaxpr)
    except TypeError:  # a parameter that cannot be hashed: stays its own
        return jaxpr


def _structure(jaxpr: Jaxpr) -> Any:
    number: dict[Any, int] = {}
    for var in jaxpr.invars:
        number[var] = len(number)
    rows: list[Any] = [*jaxpr.in_avals, None]  # flat, as a tuple of tuples takes longer to make and to compare
    for eqn in jaxpr.eqns:
        rows.append(eqn.primitive)
        rows.append(tuple(eqn.params.items()))
        for a in eqn.invars:
            rows.append(number[a] if type(a) is Var else a.key())
        for var in eqn.outvars:
            number[var] = len(number)
            rows.append(var.aval)
        source = eqn.source
        if source is not None and len(source) == 3:  # profiles show the names: programs under others are other programs
            rows.append(source[2])
    rows.append(tuple([number[a] if type(a) is Var else a.key() for a in jaxpr.outvars]))
    return tuple(rows)


from purax.core import pretty  # noqa: E402  (the printer needs the classes above)
