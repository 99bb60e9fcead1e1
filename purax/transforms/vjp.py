# SPDX-License-Identifier: Apache-2.0
"""`vjp` and `linearize`: the derivative at a point, as a function that pulls cotangents back or pushes tangents forward."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from purax import dtypes, errors, tree
from purax.core.axes import lane_axes
from purax.core.hooks import hooks
from purax.core.interpret import eval_jaxpr
from purax.core.ir import Jaxpr, intern
from purax.core.primitive import Linear
from purax.core.trace import aval_of
from purax.primitives import cast, collective
from purax.primitives.base import is_differentiable, zeros_of
from purax.transforms.flat import argument_names, check_arrays, flat_function, float0_zeros, name_of
from purax.transforms.reverse import Tape, linearize_flat
from purax.transforms.transpose import backward_pass

__all__ = ["DidntWant", "DontWant", "GradRef", "GradValue", "NotNeeded", "Pullback", "linearize", "vjp"]


def own_lanes(leaves: list[Any]) -> list[Any]:
    """Values to differentiate by: in vmap and pmap each lane's own, also where all lanes hold the same one."""
    lanes = lane_axes.get()
    return (
        [collective.pvary(x, tuple(lanes)) if is_differentiable(aval_of(x).dtype) else x for x in leaves]
        if lanes
        else leaves
    )


def vjp(fun: Callable[..., Any], *primals: Any, has_aux: bool = False, reduce_axes: Any = ()) -> Any:
    """Output of `fun` and the function that pulls cotangents back.

    Parameters
    ----------
    fun : callable
    *primals : pytrees of arrays
        Where to differentiate.
    has_aux : bool
        `fun` returns `(output, auxiliary data)`.
    reduce_axes : optional
        Without effect.

    Returns
    -------
    output : pytree
    pullback : callable
        Takes a cotangent with the structure, shapes and dtypes of the output; returns a tuple with one cotangent per primal.
        With `has_aux`, the auxiliary data follows.

    Examples
    --------
    >>> value, pullback = purax.vjp(lambda x, y: x * y, 2.0, 5.0)
    >>> [c.item() for c in pullback(1.0)]
    [5.0, 2.0]
    """
    del reduce_axes
    leaves, treedef = tree.flatten(primals)
    if any(map(_is_reference, leaves)):
        return _beside_references(fun, leaves, treedef, has_aux)
    check_arrays("vjp", leaves, lambda: argument_names(fun, primals))
    leaves = own_lanes([hooks.as_array(x) for x in leaves])
    flat, store = flat_function(fun, treedef, has_aux=has_aux)
    outs, tape = linearize_flat(flat, leaves, named=True)
    main = outs[: store.count]
    tape.outputs = tape.outputs[: store.count]
    types = Types(treedef, store.out_tree, [aval_of(x) for x in leaves], [aval_of(o) for o in main], name_of(fun))
    result = store.out_tree.unflatten(main), Pullback(types, tape, leaves)
    return (*result, store.aux(outs)) if has_aux else result


def _is_reference(x: Any) -> bool:
    return getattr(type(x), "is_reference", False)


def _beside_references(fun: Callable[..., Any], leaves: Sequence[Any], treedef: Any, has_aux: bool) -> Any:
    """`vjp` by the arguments that are no mutable references; these have no cotangents."""
    places = [i for i, x in enumerate(leaves) if not _is_reference(x)]

    def partial(*values: Any) -> Any:
        full = list(leaves)
        for i, value in zip(places, values, strict=True):
            full[i] = value
        return fun(*treedef.unflatten(full))

    partial.__name__ = name_of(fun)
    out, pull, *aux = vjp(partial, *[leaves[i] for i in places], has_aux=has_aux)

    def pullback(cotangent: Any) -> Any:
        full: list[Any] = [None] * len(leaves)
        for i, found in zip(places, pull(cotangent), strict=True):
            full[i] = found
        return treedef.unflatten(full)

    return out, pullback, *aux


class Types(NamedTuple):
    """Structures and types of a function that was differentiated at a point; hashable."""

    in_tree: Any
    out_tree: Any
    in_avals: Any
    out_avals: Any
    name: str


class NotNeeded:
    """In `Pullback.args_res`, the place of an argument that the derivative does not use."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "NotNeeded()"


@dataclass(frozen=True, slots=True)
class GradValue:
    """Given to `Pullback.with_refs` for an argument: return its cotangent."""


@dataclass(frozen=True, slots=True)
class DontWant:
    """Given to `Pullback.with_refs` for an argument: do not compute its cotangent."""


@dataclass(frozen=True, slots=True)
class DidntWant:
    """In the place of a cotangent that was not wanted."""


@dataclass(frozen=True, slots=True)
class GradRef:
    """In the place of a cotangent that was added to a reference."""


class Linearized:
    """Which inputs and outputs of a differentiated function its linear program has."""

    __slots__ = ("in_used", "key", "out_used", "types")

    def __init__(self, types: Types, tape: Tape) -> None:
        self.types = types
        self.in_used = tuple([i is not None for i in tape.inputs])
        self.out_used = tuple([o is not None for o in tape.outputs])
        self.key = (
            types.in_tree,
            types.out_tree,
            tuple(types.in_avals),
            tuple(types.out_avals),
            self.in_used,
            self.out_used,
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Linearized) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


class Pullback:
    """The function that `vjp` returns; a pytree of its residuals, so jitted functions take and return it.

    Attributes
    ----------
    args_res : list
        Per argument, the values of it that the derivative uses; `NotNeeded()` where it uses none. Entries may be taken out
        (to save memory) and put back before a call.
    opaque_residuals : list of arrays
        The other values that the derivative uses.
    """

    def __init__(self, types: Types, tape: Tape, leaves: Sequence[Any]) -> None:
        self._types = types
        self._tape: Any = tape  # until somebody asks for the residuals
        self._leaves: Any = leaves
        self._parts: Any = None
        self.__name__ = f"pullback of {types.name}"

    def __reduce__(self) -> Any:
        raise TypeError(
            errors.explain(
                f"{self.__name__} cannot be pickled",
                "it is a program, and rules of its operations that are functions",
                "pickle the arguments, and call vjp again where they are loaded; export(jit(f)).vjp() is a pullback that can be written to a file",
            )
        )

    def __deepcopy__(self, memo: Any) -> Pullback:
        copied: Pullback = tree.map(lambda x: copy.deepcopy(x, memo), self)
        return copied

    in_tree = property(lambda self: self._types.in_tree)
    out_tree = property(lambda self: self._types.out_tree)

    def __call__(self, cotangent: Any) -> Any:
        """Pull one cotangent back."""
        return self._pull(cotangent, None)

    def _pull(self, cotangent: Any, wanted: list[bool] | None) -> Any:
        types = self._types
        leaves, treedef = tree.flatten(cotangent)
        if treedef != types.out_tree:
            raise ValueError(
                f"unexpected tree structure of argument to vjp function: got {treedef}, but expected to match {types.out_tree}"
            )
        checked = [_check_cotangent(c, a) for c, a in zip(leaves, types.out_avals, strict=True)]
        if self._parts is None and wanted is None:
            results = self._tape.backward(checked)
        else:
            results = self.parts.backward(checked, wanted)
        told = zip(results, types.in_avals, wanted or (True,) * len(results), strict=True)
        return types.in_tree.unflatten([explicit(c, a) if w else None for c, a, w in told])

    def with_refs(self, *refs: Any) -> Callable[[Any], Any]:
        """The pullback, adding cotangents to mutable references.

        Parameters
        ----------
        *refs : references, pytrees of them like the argument, `GradValue()` or `DontWant()`
            One per argument. The cotangent is added to a reference, not computed at all for `DontWant()`, else returned.

        Returns
        -------
        callable
            Its result has `GradRef()` where a cotangent was added to a reference, and `DidntWant()` where none was wanted.
        """
        children = tree.treedef_children(self._types.in_tree)
        wanted = None
        if any(type(given) is DontWant for given in refs):
            wanted = [type(r) is not DontWant for r, child in zip(refs, children, strict=True) for _ in range(child.num_leaves)]  # fmt: skip

        def pull(cotangent: Any) -> Any:
            return tuple([_delivered(r, c) for r, c in zip(refs, self._pull(cotangent, wanted), strict=True)])

        return pull

    @property
    def parts(self) -> _Parts:
        """The linear program and its residuals, once they are looked at."""
        if self._parts is None:
            jaxpr, residuals = self._tape.program()
            places = {id(x): i for i, x in reversed(list(enumerate(self._leaves)))}
            where = tuple([places.get(id(r)) for r in residuals])
            rows: list[Any] = [NotNeeded()] * len(self._leaves)
            for i, r in zip(where, residuals, strict=True):
                if i is not None:
                    rows[i] = r
            given = iter(rows)
            children = tree.treedef_children(self._types.in_tree)
            args = [child.unflatten([next(given) for _ in range(child.num_leaves)]) for child in children]
            opaque = [r for i, r in zip(where, residuals, strict=True) if i is None]
            self._parts = _Parts(intern(jaxpr), Linearized(self._types, self._tape), where, args, opaque)
            self._tape = self._leaves = None
        return self._parts

    @property
    def jaxpr(self) -> Jaxpr:
        """The linear program `(residuals, tangents) -> output tangents` that is pulled back through."""
        return self.parts.jaxpr

    @property
    def args_res(self) -> list[Any]:
        """Values of the arguments that the derivative uses."""
        return self.parts.args

    @args_res.setter
    def args_res(self, values: Any) -> None:
        self.parts.args = list(values)

    @property
    def opaque_residuals(self) -> list[Any]:
        """Values that the derivative uses beside those of the arguments."""
        return self.parts.opaque

    @opaque_residuals.setter
    def opaque_residuals(self, values: Any) -> None:
        self.parts.opaque = list(values)


class _Parts:
    """A pullback as a program with residuals; `where` says which residual is which leaf of the arguments."""

    __slots__ = ("args", "jaxpr", "linearized", "opaque", "where")

    def __init__(
        self, jaxpr: Jaxpr, linearized: Linearized, where: tuple[int | None, ...], args: list[Any], opaque: list[Any]
    ) -> None:
        self.jaxpr, self.linearized, self.where, self.args, self.opaque = jaxpr, linearized, where, args, opaque

    def backward(self, cotangents: Sequence[Any], wanted: Sequence[bool] | None = None) -> list[Any]:
        """As `Tape.backward`; None also for inputs that are not `wanted`."""
        used = self.linearized
        rest = iter(self.opaque)
        leaves = self._argument_leaves()
        residuals = [next(rest) if i is None else leaves[i] for i in self.where]
        given = [c for c, u in zip(cotangents, used.out_used, strict=True) if u]
        given = [
            None if c is None else collective.total(c, a) for c, a in zip(given, self.jaxpr.out_avals, strict=True)
        ]
        linear = [Linear(a) for a in self.jaxpr.in_avals[len(residuals) :]]
        if wanted is not None:
            wanted = [*(False for _ in residuals), *(w for w, u in zip(wanted, used.in_used, strict=True) if u)]
        found = iter(backward_pass(self.jaxpr, [*residuals, *linear], given, wanted, named=True)[len(residuals) :])
        return [next(found) if u else None for u in used.in_used]

    def _argument_leaves(self) -> list[Any]:
        out: list[Any] = []
        for n, (child, value) in enumerate(
            zip(tree.treedef_children(self.linearized.types.in_tree), self.args, strict=True)
        ):
            leaves = tree.leaves(value, is_leaf=lambda x: isinstance(x, NotNeeded) or x is None)
            if len(leaves) != child.num_leaves or any(leaves[i - len(out)] is None for i in self.where if i is not None and 0 <= i - len(out) < len(leaves)):  # fmt: skip
                raise ValueError(
                    f"the pullback of {self.linearized.types.name} needs the value of argument {n}: set args_res[{n}] before the call"
                )
            out += leaves
        return out


def _delivered(given: Any, cotangent: Any) -> Any:
    """What `with_refs` returns for one argument."""
    if type(given) is DontWant:
        return DidntWant()
    places, treedef = tree.flatten(given)
    if not places or not all(hasattr(p, "addupdate") for p in places):
        return cotangent
    for place, c in zip(places, treedef.flatten_up_to(cotangent), strict=True):
        place.addupdate(c)
    return treedef.unflatten([GradRef()] * len(places))


def _flatten_pullback(pullback: Pullback) -> Any:
    parts = pullback.parts
    return (parts.args, parts.opaque), (parts.jaxpr, parts.linearized, parts.where)


def _unflatten_pullback(aux: Any, children: Any) -> Pullback:
    jaxpr, linearized, where = aux
    out = Pullback.__new__(Pullback)
    out._types, out._tape, out._leaves = linearized.types, None, None
    out._parts = _Parts(jaxpr, linearized, where, children[0], children[1])
    out.__name__ = f"pullback of {linearized.types.name}"
    return out


for _kind in (NotNeeded, GradValue, DontWant, DidntWant, GradRef):
    tree.register_pytree_node(_kind, lambda _: ((), None), lambda aux, children, kind=_kind: kind())  # type: ignore[misc]
tree.register_pytree_node(Pullback, _flatten_pullback, _unflatten_pullback)


def explicit(cotangent: Any, aval: Any) -> Any:
    """A cotangent as the user sees it: zeros where symbolic, float0 for integers."""
    if cotangent is not None:
        return cast.as_type(cotangent, aval)
    return zeros_of(aval.to_cotangent_aval()) if is_differentiable(aval.dtype) else float0_zeros(aval.shape)


def _check_cotangent(cotangent: Any, aval: Any) -> Any:
    given = aval_of(cotangent)
    if not is_differentiable(aval.dtype):  # float0, or anything like the output: it says nothing
        if given.shape != aval.shape or given.dtype not in (dtypes.float0, aval.dtype):
            raise ValueError(_cotangent_message(cotangent, aval))
        return None
    if given.shape != aval.shape or given.dtype != aval.dtype:
        raise ValueError(_cotangent_message(cotangent, aval))
    return cast.as_type(hooks.as_array(cotangent), aval)


def _cotangent_message(cotangent: Any, aval: Any) -> str:
    want = aval.str_short() if is_differentiable(aval.dtype) else f"float0[{','.join(map(str, aval.shape))}]"
    got = "float0" if getattr(cotangent, "dtype", None) == dtypes.float0 else aval_of(cotangent).str_short()
    return f"unexpected JAX type (e.g. shape/dtype) for argument to vjp function: got {got}, but expected {want} because the corresponding output of the function had type {aval.str_short()}"


def linearize(fun: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """Output of `fun` and its derivative at `primals` as a function of tangents, computed once and applied often.

    Parameters
    ----------
    fun : callable
    primals : pytrees of arrays
        Where to differentiate.
    has_aux : bool
        `fun` returns `(output, auxiliary data)`.

    Returns
    -------
    output : pytree
    pushforward : callable
        Takes tangents like `primals`, returns the output tangent. With `has_aux`, the auxiliary data follows.
    """
    leaves, treedef = tree.flatten(primals)
    check_arrays("linearize", leaves, lambda: argument_names(fun, primals))
    leaves = own_lanes([hooks.as_array(x) for x in leaves])
    flat, store = flat_function(fun, treedef, has_aux=has_aux)
    outs, tape = linearize_flat(flat, leaves, named=True)
    main = outs[: store.count]
    tape.outputs = tape.outputs[: store.count]
    jaxpr, residuals = tape.program()
    types = Types(treedef, store.out_tree, [aval_of(x) for x in leaves], [aval_of(o) for o in main], name_of(fun))
    pushforward = tree.Partial(functools.partial(_push, intern(jaxpr), Linearized(types, tape)), *residuals)
    result = store.out_tree.unflatten(main), pushforward
    return (*result, store.aux(outs)) if has_aux else result


def _check_tangents(types: Types, tangents: Any) -> list[Any]:
    """Leaves of the tangents, each of the type of its primal."""
    given, given_tree = tree.flatten(tangents)
    if given_tree != types.in_tree:
        raise ValueError(
            "linearized function called with tangents whose structure differs from that of the original primals: "
            f"got {given_tree}, expected {types.in_tree}"
        )
    for tangent, aval in zip(given, types.in_avals, strict=True):
        expected = aval if is_differentiable(aval.dtype) else aval.update(dtype=dtypes.float0)
        have = aval_of(tangent)
        if have.shape != aval.shape or have.dtype != expected.dtype:
            raise ValueError(
                "linearized function called on tangent values inconsistent with the original primal values: "
                f"got tangent aval {have.str_short()} for primal aval {aval.str_short()} but expected {expected.str_short()}"
            )
    return given


def _push(jaxpr: Jaxpr, linearized: Linearized, *residuals_and_tangents: Any) -> Any:
    types = linearized.types
    split = len(residuals_and_tangents) - len(tree.treedef_children(types.in_tree))
    residuals, tangents = residuals_and_tangents[:split], residuals_and_tangents[split:]
    given = _check_tangents(types, tangents)
    inputs = [t for t, used in zip(given, linearized.in_used, strict=True) if used]
    results = iter(eval_jaxpr(jaxpr, (), *residuals, *inputs))
    full = [next(results) if used else None for used in linearized.out_used]
    return types.out_tree.unflatten([explicit(t, a) for t, a in zip(full, types.out_avals, strict=True)])
