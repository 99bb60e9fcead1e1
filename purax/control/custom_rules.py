# SPDX-License-Identifier: Apache-2.0
"""What custom derivative rules are made of: user functions on leaves that compare equal when their parts do.

In eager code the primitives of `custom_jvp.py` and `custom_vjp.py` carry callables, so the user's function may look at values.
Under `jit` and in loop bodies the function becomes a program and the rules stay callables, wrapped in these objects.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from purax import errors, tree
from purax.control import refs
from purax.core.axes import Axis
from purax.core.ir import intern, open_constants
from purax.core.stage import stage
from purax.core.trace import Tracer, aval_of
from purax.primitives import shape
from purax.primitives.base import instantiate, is_differentiable
from purax.transforms.flat import float0_zeros, name_of
from purax.transforms.vmap import batch_flat

__all__ = ["BatchedFunction", "CustomFunction", "FlatFunction", "Rule", "SymbolicZero"]


class Rule:
    """A flat callable that is equal to another made of the same parts."""

    def __init__(self, *parts: Any) -> None:
        self.parts = parts
        try:
            self._hash = hash(parts)
        except TypeError:  # a part cannot be hashed: equal to itself only
            self.parts = (object(),)
            self._hash = id(self)
        self.__name__ = type(self).__name__.lower().strip("_")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.parts == other.parts

    def __hash__(self) -> int:
        return self._hash


class FlatFunction(Rule):
    """The user's function on leaves; remembers the structure of its output."""

    def __init__(self, fun: Any, in_tree: Any, static: Any, extra: Any = None) -> None:
        super().__init__(fun, in_tree, static, extra)
        self.fun, self.in_tree, self.static = fun, in_tree, static
        self.out_tree: Any = None
        self.rule_tree: Any = None  # what the rule says, which may run in place of the function
        self.__name__ = name_of(fun)

    def arguments(self, leaves: Sequence[Any]) -> list[Any]:
        """All arguments, the non-differentiated ones in their places."""
        return insert(list(self.in_tree.unflatten(leaves)), self.static)

    def __call__(self, *leaves: Any) -> list[Any]:
        """Leaves of the output."""
        outs, self.out_tree = tree.flatten(called("function with custom derivatives", self.fun, self.arguments(leaves)))
        for out in filter(refs.is_ref, outs):
            aval_of(out)  # raises
        return outs


class BatchedFunction(Rule):
    """A flat function, mapped; mapped outputs carry the axis in front.

    Whether its rule runs or itself, `out_dims` tells afterwards which outputs are mapped. `tag` is that of the mapping under
    way, whose values the function may close over.
    """

    def __init__(self, fun: Any, axis: Axis, dims: Any, tag: Any) -> None:
        super().__init__(fun, axis, dims)
        self.fun, self.axis, self.dims, self.tag = fun, axis, dims, tag
        self.out_dims: tuple[int | None, ...] = ()
        self.__name__ = fun.__name__

    def __call__(self, *operands: Any) -> list[Any]:
        """Outputs of all lanes."""
        outs, dims = batch_flat(self.fun, self.axis, operands, self.dims, self.tag)
        self.out_dims = tuple([None if d is None else 0 for d in dims])
        return [o if d is None else shape.move_batch_axis(o, d, 0) for o, d in zip(outs, dims, strict=True)]


class SymbolicZero:
    """A tangent or cotangent known to be zero, given to rules that ask for symbolic zeros."""

    def __init__(self, aval: Any) -> None:
        self.aval = aval.to_tangent_aval()
        self.shape, self.dtype = self.aval.shape, self.aval.dtype

    def __repr__(self) -> str:
        return f"SymbolicZero({self.aval.str_short()})"


def explicit_tangent(tangent: Any, primal: Any) -> Any:
    """A tangent as rules get it: zeros where symbolic, float0 for integers."""
    aval = aval_of(primal)
    return instantiate(tangent, primal) if is_differentiable(aval.dtype) else float0_zeros(aval.shape)


def zero_from_primal(val: Any, symbolic_zeros: bool = False) -> Any:
    """The zero tangent of a value, or of the leaves of a pytree.

    Parameters
    ----------
    val : pytree of arrays
    symbolic_zeros : bool
        Return `SymbolicZero`s.
    """
    return tree.map(lambda x: SymbolicZero(aval_of(x)) if symbolic_zeros else explicit_tangent(None, x), val)


def insert(args: list[Any], static: Sequence[tuple[int, Any]]) -> list[Any]:
    for position, value in static:
        args.insert(position, value)
    return args


def called(what: str, function: Any, args: Sequence[Any]) -> Any:
    """What a rule of the user's returns; where it touches a traced value that it was not given, the error says so."""
    try:
        return function(*args)
    except errors.UnexpectedTracerError as error:
        error.add_note(
            f"This is in {name_of(function)}, the {what}. Such a function is given what is differentiated as its arguments and "
            "residuals: make what it closes over, or what stands in nondiff_argnums, an argument if it may be traced."
        )
        raise


def as_program(params: dict[str, Any], operands: tuple[Any, ...], kind: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Operands and params of a call whose function has become a program, its constants first."""
    if params["jaxpr"] is not None:
        return operands, params
    closed = stage(params["fun"], [aval_of(x) for x in operands], params["fun"].__name__, kind=kind)
    jaxpr, consts = open_constants(closed)
    return (*consts, *operands), {"fun": None, "jaxpr": intern(jaxpr), "rule": params["rule"], "consts": len(consts)}


# --- the decorators -----------------------------------------------------------------------------------------------------------


class CustomFunction:
    """What both decorators share: resolution of arguments, the non-differentiated ones apart."""

    traced_statics = True  # whether arguments that are not differentiated may be traced

    def __init__(
        self, fun: Callable[..., Any], nondiff_argnums: Sequence[int] = (), nondiff_argnames: Sequence[str] = ()
    ) -> None:
        self.fun = fun
        nums = (nondiff_argnums,) if isinstance(nondiff_argnums, int) else tuple(nondiff_argnums)
        names = (nondiff_argnames,) if isinstance(nondiff_argnames, str) else tuple(nondiff_argnames)
        self.signature = _signature(fun)
        if self.signature is not None and names:
            order = list(self.signature.parameters)
            nums = (*nums, *(order.index(n) for n in names))
        self.nondiff_argnums = tuple(sorted(set(nums)))
        for field in ("__name__", "__qualname__", "__doc__", "__module__"):
            if hasattr(fun, field):
                setattr(self, field, getattr(fun, field))
        self.__wrapped__ = fun
        self.checked: set[Any] = set()  # types of arguments for which rule and function were found to agree

    def out_tree(self, flat: FlatFunction, leaves: Sequence[Any]) -> Any:
        """Structure of the output. Where only the rule has run, the function is traced once to see that they agree.

        Raises
        ------
        TypeError
            They do not.
        """
        if flat.out_tree is not None:
            return flat.out_tree
        key = (flat.in_tree, tuple([aval_of(x) for x in leaves]))
        if key not in self.checked:
            try:
                stage(flat, key[1], flat.__name__)
            except errors.TracerError:  # it looks at values: the rule is believed
                flat.out_tree = None
            if flat.out_tree is not None and flat.rule_tree is not None and flat.out_tree != flat.rule_tree:
                raise TypeError(
                    f"The rule of the function {flat.__name__} with custom derivatives gives an output of structure {flat.rule_tree}, "
                    f"in particular not of the same container/pytree structure as the function itself, {flat.out_tree}."
                )
            self.checked.add(key)
        return flat.rule_tree if flat.rule_tree is not None else flat.out_tree

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else _Method(self, instance)

    def __getattr__(self, name: str) -> Any:
        if name in ("defjvp", "defjvps", "defvjp", "def_vmap") and "fun" in self.__dict__:
            return getattr(self.fun, name)  # a function with custom rules of two kinds
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _resolve(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], list[tuple[int, Any]], Any]:
        args = _positional(self.signature, args, kwargs, self.fun)
        count = len(args)
        positions = {n + count if n < 0 else n for n in self.nondiff_argnums}
        if beyond := [n for n in self.nondiff_argnums if not -count <= n < count]:
            raise IndexError(
                f"{name_of(self.fun)} has nondiff_argnums={self.nondiff_argnums}, but was called with {count} arguments: "
                f"there is none at {beyond[0]}. Give the positions of arguments that are not differentiated."
            )
        static = [(i, args[i]) for i in sorted(positions)]
        for i, value in static:
            if isinstance(value, Tracer) and not self.traced_statics:
                raise errors.UnexpectedTracerError(
                    f"Found a JAX Tracer object passed as an argument to a custom_vjp function in a position indicated by nondiff_argnums as "
                    f"non-differentiable: argument {i} of {name_of(self.fun)}. Tracers cannot be passed as non-differentiable arguments to "
                    "custom_vjp functions; instead, nondiff_argnums should only be used for arguments that can't be or contain tracers, "
                    "e.g. function-valued arguments. Return None for its cotangent instead."
                )
        leaves, in_tree = tree.flatten(tuple(a for i, a in enumerate(args) if i not in positions))
        return leaves, static, in_tree

    def _with_buried_refs(self, define: Callable[[Any], Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a function like this one, to which `define` gives its rules, with references as structure of the arguments."""
        for ref in filter(refs.is_ref, tree.leaves((args, kwargs))):
            ref.base._kept = True
        other: Any = type(self)(refs.unburied(self.fun), self.nondiff_argnums)
        define(other)
        return other(*refs.bury(name_of(self.fun), _positional(self.signature, args, kwargs, self.fun), True))


class _Method:
    """A custom-derivative method bound to its instance, which is not differentiated unless it is a pytree of arrays."""

    def __init__(self, function: Any, instance: Any) -> None:
        self.function, self.__self__ = function, instance
        self.__name__ = name_of(function.fun)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(self.__self__, *args, **kwargs)


def _signature(fun: Any) -> inspect.Signature | None:
    try:
        return inspect.signature(fun)
    except (TypeError, ValueError):
        return None


def _positional(signature: Any, args: tuple[Any, ...], kwargs: dict[str, Any], fun: Any) -> tuple[Any, ...]:
    """Arguments by position, defaults filled in."""
    if signature is None:
        if kwargs:
            raise TypeError(f"{name_of(fun)}: keyword arguments of a function with custom derivatives need a signature")
        return args
    if any(p.kind in (p.KEYWORD_ONLY, p.VAR_KEYWORD) for p in signature.parameters.values()) and kwargs:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        if bound.kwargs:
            raise TypeError(
                f"The following keyword arguments could not be resolved to positions: {', '.join(bound.kwargs)} of {name_of(fun)}; "
                "functions with custom derivatives take their arguments by position."
            )
        return bound.args
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.args
