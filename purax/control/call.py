# SPDX-License-Identifier: Apache-2.0
"""The arguments of a jitted call: which are static, which are donated, what names they go by, and the key they give."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from purax import config, dtypes, errors, tree
from purax.control import refs
from purax.core.axes import axis_environment, lane_axes
from purax.core.trace import aval_of
from purax.sharding import get_abstract_mesh
from purax.transforms.flat import argument_names, check_arrays, name_of

__all__ = ["Call", "Chosen", "check_outputs", "choose", "put_back", "take_zeros"]


class Call:
    """The arguments of one call, split into leaves and static values, and the key they give.

    Attributes
    ----------
    leaves : list
        Arrays, in the order of the inputs of the program.
    zeros : tuple of (int, numpy.ndarray)
        Leaves of dtype float0 with their places: they hold nothing, so they are no inputs.
    statics : tuple of (position or name, value)
    donated : tuple of bool
        One per leaf, or () when nothing is donated.
    key : tuple
        What a trace depends on: structure, avals, static values, settings, named axes.
    refs : tuple of (int, reference)
        Leaves that are mutable references, with their places; `leaves` has what they hold.
    held : list
        What references hold that the program takes in beside its arguments.
    kept : bool
        The program is that of these references and no others: rules of the user's hold them.
    """

    __slots__ = (
        "args",
        "donated",
        "function",
        "held",
        "kept",
        "key",
        "kwargs",
        "leaves",
        "refs",
        "statics",
        "treedef",
        "zeros",
    )

    def __init__(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.function, self.args, self.kwargs = function, args, kwargs
        self.refs: tuple[tuple[int, Any], ...] = ()
        self.held: Sequence[Any] = ()
        self.kept = False
        self.statics: tuple[tuple[Any, Any], ...] = ()
        self.zeros: tuple[tuple[int, Any], ...] = ()
        dynamic_args, dynamic_kwargs = args, kwargs
        if function.static:
            dynamic_args, dynamic_kwargs, self.statics = self._split_statics()
        self.leaves, self.treedef = tree.flatten((dynamic_args, dynamic_kwargs))
        try:
            check_arrays(f"jit({function.name})", self.leaves, self.names)
        except errors.ReferenceUseError:
            self._take_references()
            check_arrays(f"jit({function.name})", self.leaves, self.names)
        avals = tuple([aval_of(x) for x in self.leaves])
        self.donated = self._donations() if function.donated else ()
        self.key: tuple[Any, ...] = (
            self.treedef, avals, tuple([(where, type(value), value) for where, value in self.statics]),
            config.current().trace_key, (*axis_environment.get().items(), lane_axes.get(), get_abstract_mesh()),
        )  # fmt: skip
        if any(a.dtype == dtypes.float0 for a in avals):
            self.zeros = tuple(
                [(i, x) for i, (x, a) in enumerate(zip(self.leaves, avals, strict=True)) if a.dtype == dtypes.float0]
            )
            kept = [a.dtype != dtypes.float0 for a in avals]
            self.leaves = [x for x, k in zip(self.leaves, kept, strict=True) if k]
            self.donated = tuple([d for d, k in zip(self.donated, kept, strict=True) if k]) if self.donated else ()
            self._move_references(kept)
        if self.refs:
            self._extend_key(tuple([(i, ref.base.kind) for i, ref in self.refs]))
        try:
            hash(self.key)
        except TypeError:
            raise self._unhashable() from None

    def _take_references(self) -> None:
        refs.check_distinct(f"jit({self.function.name})", self.leaves, self.names)
        found: list[tuple[int, Any]] = [(i, x) for i, x in enumerate(self.leaves) if refs.is_ref(x)]
        self.refs = tuple(found)
        self.leaves = [x._load() if refs.is_ref(x) else x for x in self.leaves]

    def _move_references(self, kept: Sequence[bool]) -> None:
        self.refs = tuple([(sum(kept[:i]), ref) for i, ref in self.refs])

    def given(self, leaves: Sequence[Any] | None = None) -> list[Any]:
        """The leaves, with references in their places."""
        leaves = list(self.leaves if leaves is None else leaves)
        for i, ref in self.refs:
            leaves[i] = ref
        return leaves

    def keep(self) -> None:
        """Take the references themselves into the program."""
        self.kept = True
        self._extend_key(tuple([ref for _, ref in self.refs]))

    def _extend_key(self, more: Any) -> None:
        self.key = (*self.key[:-1], (*self.key[-1], more))

    def local(self, leaves: Sequence[Any]) -> tuple[Sequence[Any], list[Any]]:
        """Leaves of the program, with new references that hold what those of the caller held; and these."""
        if not self.refs:
            return leaves, []
        if self.kept:
            return self.given(leaves), []
        leaves, made = list(leaves), []
        for i, ref in self.refs:
            leaves[i] = refs.standing_for(ref, leaves[i])
            made.append(leaves[i])
        return leaves, made

    def _split_statics(self) -> tuple[tuple[Any, ...], dict[str, Any], tuple[tuple[Any, Any], ...]]:
        chosen = self.function.static
        positions = {i if i >= 0 else i + len(self.args) for i in chosen.positions}
        statics: list[tuple[Any, Any]] = [(i, a) for i, a in enumerate(self.args) if i in positions]
        statics += [(n, self.kwargs[n]) for n in sorted(self.kwargs) if n in chosen.names]
        args = tuple([None if i in positions else a for i, a in enumerate(self.args)])
        return args, {n: v for n, v in self.kwargs.items() if n not in chosen.names}, tuple(statics)

    def _unhashable(self) -> Exception:
        for where, value in self.statics:
            try:
                hash(value)
            except TypeError:
                which = f"at position {where}" if isinstance(where, int) else f"{where!r}"
                return errors.NonHashableStaticArgumentError(
                    errors.explain(
                        f"Non-hashable static arguments are not supported: jit({self.function.name}) got static argument {which} of type {type(value).__name__}.",
                        "Static values are part of the key of the compiled program, so they must be hashable (and not change).",
                        "pass a tuple instead of a list, a frozen dataclass instead of a dict, or make the argument an array.",
                    )
                )
        return TypeError(f"jit({self.function.name}): an argument of the call cannot be hashed")

    def incomparable(self) -> Exception:
        """The error for static values whose `__eq__` raises."""
        given = ", ".join(f"{where!r} of type {type(value).__name__}" for where, value in self.statics)
        return errors.NonHashableStaticArgumentError(
            f"static arguments should be comparable using __eq__: jit({self.function.name}) got static arguments {given}, and comparing them failed."
        )

    def _donations(self) -> tuple[bool, ...]:
        chosen, static = self.function.donated, {where for where, _ in self.statics}
        positions = {i if i >= 0 else i + len(self.args) for i in chosen.positions}
        out: list[bool] = []
        for i, arg in enumerate(self.args):
            out += [i in positions] * (0 if i in static else len(tree.leaves(arg)))
        for name in sorted(self.kwargs):
            out += [name in chosen.names] * (0 if name in static else len(tree.leaves(self.kwargs[name])))
        return tuple(out)

    def names(self) -> list[str]:
        """Argument path of each leaf that is an input of the program."""
        static = {where for where, _ in self.statics}
        args = [None if i in static else a for i, a in enumerate(self.args)]
        names = argument_names(self.function.fun, args, {n: v for n, v in self.kwargs.items() if n not in static})
        left_out = {i for i, _ in self.zeros}
        return [name for i, name in enumerate(names) if i not in left_out] if left_out else names

    def rebuild(self, leaves: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments with `leaves` in place of the arrays."""
        args, kwargs = self.treedef.unflatten(put_back(leaves, self.zeros))
        if self.statics:
            args, kwargs = list(args), dict(kwargs)
            for where, value in self.statics:
                if isinstance(where, int):
                    args[where] = value
                else:
                    kwargs[where] = value
        return tuple(args), kwargs


def put_back(values: Sequence[Any], others: Sequence[tuple[int, Any]]) -> Sequence[Any]:
    """`values` with the `others` inserted at their places (in ascending order), a list."""
    if not others:
        return values
    values = list(values)
    for i, value in others:
        values.insert(i, value)
    return values


def take_zeros(values: Sequence[Any]) -> tuple[list[Any], tuple[tuple[int, Any], ...]]:
    """`values` without those of dtype float0, and those with their places."""
    zeros = tuple([(i, x) for i, x in enumerate(values) if getattr(x, "dtype", None) == dtypes.float0])
    left_out = {i for i, _ in zeros}
    return [x for i, x in enumerate(values) if i not in left_out], zeros


def check_outputs(name: str, outs: Sequence[Any], out_tree: Any) -> None:
    """Check that all outputs of a function are arrays.

    Parameters
    ----------
    name : str
        Of the function.
    outs : sequence
        Leaves of the output.
    out_tree : structure

    Raises
    ------
    TypeError
        One is not; the message names its path.
    """
    for i, out in enumerate(outs):
        try:
            aval_of(out)
        except TypeError:
            paths = [tree.keystr(path) for path in tree.paths(out_tree)]
            raise TypeError(
                errors.explain(
                    f"function {name} to be traced for jit must return arrays, scalars, or pytrees of them, but output{paths[i]} is "
                    f"{out!r} of type {type(out).__name__}, which is not a valid JAX type",
                    "only arrays leave a compiled program",
                    "return arrays; compute other things outside",
                )
            ) from None


# --- which arguments --------------------------------------------------------------------------------------------------------


class Chosen(NamedTuple):
    """Arguments of a function by position and by name."""

    positions: tuple[int, ...]
    names: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.positions or self.names)


def choose(
    fun: Any,
    static_argnums: Any = None,
    static_argnames: Any = None,
    donate_argnums: Any = None,
    donate_argnames: Any = None,
) -> tuple[Chosen, Chosen]:
    """The static and the donated arguments of `fun`; positions and names complete each other where the signature tells.

    Parameters
    ----------
    fun : callable
    static_argnums, donate_argnums : int or sequence of int, optional
    static_argnames, donate_argnames : str or sequence of str, optional

    Returns
    -------
    (Chosen, Chosen)

    Raises
    ------
    TypeError
        A position that is no int, a name that is no string.
    ValueError
        The function has no such argument, or an argument is both static and donated.
    """
    wanted = (_integers("static_argnums", static_argnums), _strings("static_argnames", static_argnames))
    given = (_integers("donate_argnums", donate_argnums), _strings("donate_argnames", donate_argnames))
    if wanted == given == (None, None):
        return Chosen((), ()), Chosen((), ())
    try:
        parameters = list(inspect.signature(fun).parameters.values())
    except (TypeError, ValueError) as error:
        if given[1]:
            raise ValueError(
                f"Getting the signature of function {name_of(fun)} failed. Pass donate_argnums instead of donate_argnames."
            ) from error
        return Chosen(wanted[0] or (), wanted[1] or ()), Chosen(given[0] or (), ())
    static = _complete(parameters, "static", *wanted)
    donated = _complete(parameters, "donate", *given)
    both = set(static.names) & set(donated.names)
    if both:
        raise ValueError(f"static_argnames and donate_argnames cannot intersect: {sorted(both)} are in both.")
    if set(static.positions) & set(donated.positions):
        raise ValueError(
            f"static_argnums and donate_argnums cannot intersect: {static.positions} and {donated.positions}."
        )
    return static, donated


def _integers(what: str, given: Any) -> tuple[int, ...] | None:
    if given is None:
        return None
    try:
        return tuple([operator.index(i) for i in (given if isinstance(given, (tuple, list, set, range)) else (given,))])
    except TypeError:
        raise TypeError(f"jit: {what} must be an int or a tuple of ints, got {given!r}") from None


def _strings(what: str, given: Any) -> tuple[str, ...] | None:
    if given is None:
        return None
    names = (given,) if isinstance(given, str) or not isinstance(given, Iterable) else tuple(given)
    if not all(isinstance(name, str) for name in names):
        raise TypeError(f"jit: {what} must be a string or a tuple of strings, got {given!r}")
    return names


def _complete(
    parameters: Sequence[Any], what: str, nums: tuple[int, ...] | None, names: tuple[str, ...] | None
) -> Chosen:
    """Positions and names, checked against the signature; where only one of the two was given, the other follows from it."""
    by_position = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    by_name = {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    count, kinds = len(by_position), {p.kind for p in parameters}
    for p in nums or ():
        if inspect.Parameter.VAR_POSITIONAL not in kinds and not -count <= p < count:
            raise ValueError(
                f"Jitted function has {what}_argnums={nums}, but only accepts {count} positional arguments."
            )
    wrong = {n for n in names or () if n not in by_name}
    if inspect.Parameter.VAR_KEYWORD in kinds:  # takes any name but those of its own positional arguments
        wrong &= {p.name for p in parameters}
    if wrong:
        raise ValueError(
            f"Jitted function has invalid argnames {wrong} in {what}_argnames. Function does not take these args by name: {sorted(by_name)}"
        )
    if names is None:
        names = tuple([by_position[p] for p in nums or () if -count <= p < count and by_position[p] in by_name])
    elif nums is None:
        nums = tuple([by_position.index(n) for n in names if n in by_position])
    if inspect.Parameter.VAR_POSITIONAL not in kinds:
        nums = tuple([p % count for p in nums or ()])
    return Chosen(tuple(dict.fromkeys(nums or ())), tuple(dict.fromkeys(names)))
