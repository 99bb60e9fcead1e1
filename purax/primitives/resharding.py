# SPDX-License-Identifier: Apache-2.0
"""Values moved to another place on the explicit axes of a mesh, and out of the hands of types for a while.

What the types do not determine is left to the partitioner: the operands lose their spread (`free`), the operation runs, and its
result gets the spread that was asked for (`reshard`). Derivatives do so for every transpose rule: rules know nothing of meshes,
and each cotangent ends up as the operand lies.

Parameters
----------
x : array
    Results have its shape and dtype.
to : Spread or None
mesh : Mesh, optional
    With the devices, where these are known.

Returns
-------
array
    Of the shape and dtype of `x`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any

from purax import errors, tree
from purax.core.hooks import hooks
from purax.core.ir import open_constants
from purax.core.primitive import Linear, Primitive
from purax.core.stage import stage
from purax.core.trace import aval_of, current
from purax.lowering.emit import Value
from purax.pipeline import placed
from purax.runtime.array import Array, wrap_placed
from purax.runtime.transfer import device_put
from purax.sharding import (
    AbstractMesh,
    Mesh,
    NamedSharding,
    PartitionSpec,
    current_mesh,
    get_abstract_mesh,
    mesh_like,
    placement_of,
)
from purax.sharding.spread import Spread, spread_of, uncut

__all__ = ["destination", "free", "is_explicit", "out_sharded", "reshard_p", "reshard_to", "settle"]


class Reshard(Primitive):
    """The identity, on a value that then lies as `to` says on the explicit axes of a mesh; None: as the partitioner likes.

    `mesh` is the mesh with its devices, where these are known.
    """

    types_spread = True

    terms = True

    def infer(self, x: Any, *, to: Spread | None, mesh: Mesh | None) -> Any:
        if to is not None and len(to.parts) != x.ndim:
            raise errors.ShardingTypeError(f"{to.spec} names {len(to.parts)} axes, but the operand has {x.ndim}")
        return (x.with_spread(to),)

    def reference(self, x: Any, **_: Any) -> Any:
        return (x,)

    def run(self, operands: tuple[Any, ...], params: dict[str, Any]) -> tuple[Any, ...]:
        """Give the array another type; move it where that asks for it."""
        (x,), to = operands, params["to"]
        x = x if type(x) is Array else device_put(x)
        if to is None:
            place, mesh = x._placement, params["mesh"]
            if (
                mesh is not None
                and place is not None
                and type(place.sharding) is NamedSharding
                and not place.sharding.unreduced
            ):
                place = placement_of(NamedSharding(mesh, PartitionSpec(*place.sharding.spec)))
            return (wrap_placed(x.aval.with_spread(None), x.buffer, place),)
        if to is x.aval.spread:
            return (x,)
        own = getattr(x.sharding, "mesh", None)
        known = [with_devices(to.mesh, mesh) for mesh in (params["mesh"], own, current_mesh()) if type(mesh) is Mesh]
        mesh = next((mesh for mesh in known if mesh is not None), None) or own or mesh_like(to.mesh)
        if to.unreduced or (x.aval.spread is not None and x.aval.spread.unreduced):
            return hooks.evaluate(self, (x,), {"to": to, "mesh": mesh}, False)
        if mesh is None:
            raise errors.ShardingTypeError(
                f"reshard to {to.spec}: the devices of the mesh are not known; use `set_mesh(mesh)`"
            )
        return (device_put(x, NamedSharding(mesh, to.spec)),)

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> Any:
        out = self.bind1(*primals, **params)
        return (out,), (None if tangents[0] is None else self.bind1(tangents[0], **params),)

    def transpose(self, cotangents: Any, operands: Any, **params: Any) -> Any:
        return (reshard_to(cotangents[0], dual(operands[0].aval), params["mesh"]),)

    def batch(self, axis: Any, operands: Any, dims: Any, *, to: Spread | None, mesh: Mesh | None) -> Any:
        (dim,) = dims
        return self.bind(*operands, to=None if to is None else to.with_axis(dim, axis.spmd), mesh=mesh), dims

    def lower(self, b: Any, ins: Any, outs: Any, *, to: Spread | None, mesh: Mesh | None) -> Any:
        (x,), (out,) = ins, outs
        known = x.aval.spread
        if to is not None and to.unreduced and known is not None and not known.unreduced:
            return [b.terms_of(x, out)]
        return [Value(x.name, out)]  # every value with a spread is told to the partitioner


reshard_p = Reshard("reshard")

# Mesh axes along which sums within products and reductions are left to be taken later.
summed_later: ContextVar[frozenset[str]] = ContextVar("summed_later", default=frozenset())


def free(x: Any) -> Any:
    """The value, of its shape and dtype, left to the partitioner."""
    return x if aval_of(x).spread is None else reshard_p.bind1(x, to=None, mesh=None)


def reshard_to(x: Any, to: Spread | None, mesh: Mesh | None = None) -> Any:
    """The value, of its shape and dtype, with this spread.

    Where it is to be unreduced, one device has it and the others have zeros.
    """
    aval = aval_of(x)
    if aval.spread is to:
        return x
    if to is not None and to.unreduced and aval.spread is None:
        # Told of the sum only, XLA would take what each device has for a term of it (jaxlib 0.10.2): first it is whole everywhere.
        x = reshard_p.bind1(x, to=uncut(to.mesh, aval.ndim), mesh=mesh)
    return reshard_p.bind1(x, to=to, mesh=mesh)


def destination(sharding: Any, ndim: int, what: str = "out_sharding") -> tuple[Spread, Mesh | None]:
    """What an `out_sharding` argument asks of a result.

    Parameters
    ----------
    sharding : PartitionSpec or NamedSharding
        A spec is one of the current mesh.
    ndim : int
        Number of axes of the result.
    what : str
        Name of the argument.

    Returns
    -------
    (Spread, Mesh or None)
        The mesh with its devices where these are known.

    Raises
    ------
    ValueError
        There is no current mesh, it lacks an axis that the spec names, or the spec is longer than the result has axes.
    ShardingTypeError
        The spec names mesh axes that are not explicit.
    TypeError
        It is no sharding.
    """
    if isinstance(sharding, PartitionSpec):
        spec, mesh = sharding, get_abstract_mesh()
        if not mesh.axis_names:
            raise ValueError(
                errors.explain(
                    f"{what}={sharding} was given, and there is no current mesh.",
                    "A PartitionSpec names axes of a mesh.",
                    "use `with purax.set_mesh(mesh):`, or pass NamedSharding(mesh, spec).",
                )
            )
    elif isinstance(sharding, NamedSharding):
        spec, mesh = sharding.spec, sharding.mesh.abstract_mesh
        if sharding.memory_kind not in (None, "device"):
            raise ValueError(
                f"{what}: a sharding with memory_kind is not allowed, got {sharding}; types do not say in which memory values lie: leave it out"
            )
    else:
        raise TypeError(
            f"{what} must be a PartitionSpec or a NamedSharding, got {sharding!r} of type {type(sharding).__name__}"
        )
    if len(spec) > ndim and not any(spec.partitions[ndim:]):
        spec = PartitionSpec(*spec.partitions[:ndim], unreduced=spec.unreduced, reduced=spec.reduced)
    if len(spec) > ndim:
        raise ValueError(f"{what}={spec} has {len(spec)} entries, but the result has {ndim} axes")
    unknown = [n for n in (*spec.axis_names(), *spec.unreduced, *spec.reduced) if n not in mesh.axis_names]
    if unknown:
        raise ValueError(
            f"{what}={spec}: Resource axis: {unknown[0]} of {spec} is not found in mesh: {mesh.axis_names}; name axes of the mesh"
        )
    wrong = [n for n in (*spec.axis_names(), *spec.unreduced, *spec.reduced) if n not in mesh.explicit_axes]
    if wrong or not mesh.explicit_axes:
        kinds = ", ".join(f"{n!r}: {t.name}" for n, t in zip(mesh.axis_names, mesh.axis_types, strict=True))
        raise errors.ShardingTypeError(
            f"{what}={spec} cannot contain mesh axes whose type is Auto or Manual: only the types of explicit axes say how values lie, "
            f"and the mesh has {kinds}; use `with_sharding_constraint`, or a mesh with axis_types=(AxisType.Explicit, ...)"
        )
    spread = spread_of(NamedSharding(mesh, spec), ndim)
    return spread, _with_devices(sharding, mesh)  # type: ignore[return-value]


def _with_devices(sharding: Any, mesh: AbstractMesh) -> Mesh | None:
    own = getattr(sharding, "mesh", None)
    return with_devices(mesh, own if isinstance(own, Mesh) else current_mesh())


def with_devices(mesh: AbstractMesh, found: Mesh | None) -> Mesh | None:
    """The devices of `found` as a mesh with the axes of `mesh`, if they have its names and sizes."""
    if found is None or found.shape_tuple != mesh.shape_tuple:
        return None
    return found if found.axis_types == mesh.axis_types else found.update(axis_types=mesh.axis_types)


def is_explicit(sharding: Any) -> bool:
    """Whether a sharding is one of a mesh with explicit axes; a spec refers to the current mesh."""
    if isinstance(sharding, NamedSharding):
        return bool(sharding.mesh.explicit_axes)
    return isinstance(sharding, PartitionSpec) and bool(get_abstract_mesh().explicit_axes)


def out_sharded(function: Any, out_sharding: Any, *args: Any, **kwargs: Any) -> Any:
    """The result of `function(*args, **kwargs)`, an array, lying as is asked for; how it is computed is the partitioner's choice.

    Parameters
    ----------
    function : callable
    out_sharding : PartitionSpec or NamedSharding
    *args, **kwargs
        Arrays among them lose what their types say of explicit mesh axes.

    Returns
    -------
    array

    Raises
    ------
    ShardingTypeError
        `out_sharding` is not one of explicit axes, or asks for an unreduced result that the operation does not have.
    """
    leaves, treedef = tree.flatten((args, kwargs))
    typed = [i for i, x in enumerate(leaves) if getattr(getattr(x, "aval", None), "spread", None) is not None]
    later = out_sharding.spec.unreduced if isinstance(out_sharding, NamedSharding) else out_sharding.unreduced

    def compute(*arrays: Any) -> list[Any]:
        given = list(leaves)
        for i, x in zip(typed, arrays, strict=True):
            given[i] = x if later else free(x)
        positional, named = treedef.unflatten(given)
        token = summed_later.set(later)
        try:
            out = function(*positional, **named)
        finally:
            summed_later.reset(token)
        to, mesh = destination(out_sharding, aval_of(out).ndim)
        spread = aval_of(out).spread
        if later and (spread is None or spread.unreduced != later):
            raise errors.ShardingTypeError(
                f"out_sharding={to.spec} of {getattr(function, '__name__', 'a function')}: the unreduced axes must be those that contracted or "
                f"summed axes are cut along, but the result has type {aval_of(out).str_short()}"
            )
        return [reshard_to(out, to, mesh)]

    arrays = [leaves[i] for i in typed]
    if current.get() is not None:
        return compute(*arrays)[0]
    name = getattr(function, "__name__", "")
    jaxpr, consts = open_constants(stage(compute, [x.aval for x in arrays], name))  # as a whole: sums can stay open
    return placed.call(jaxpr, name, [*map(hooks.as_array, consts), *arrays])[0]


def settle(primitive: Any, cotangents: Sequence[Any], operands: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    """The transpose rule of a primitive, some of whose operands or results lie on explicit mesh axes.

    Parameters
    ----------
    primitive : Primitive
    cotangents : sequence of arrays or None
    operands : sequence of arrays or Linear
    params : dict

    Returns
    -------
    list of arrays or None
        One per operand, which lies as cotangents of the operand do.
    """
    rule = None
    if primitive.types_spread or any(c is not None and _is_term(c) for c in cotangents):
        rule = (
            primitive.transpose
        )  # terms of a sum go through what is linear: to let go of them here would take the sum
    elif _leaves_terms(primitive, cotangents, operands):
        rule = primitive.transpose_terms
    try:
        results = None if rule is None else rule(cotangents, operands, **params)
    except errors.ShardingTypeError:
        if primitive.types_spread:
            raise
        results = None
    if results is None:
        plain = [None if c is None else free(c) for c in cotangents]
        given = [Linear(x.aval.with_spread(None)) if type(x) is Linear else free(x) for x in operands]
        results = primitive.transpose(tuple(plain), tuple(given), **params)
    return [
        None if c is None else reshard_to(c, dual(x.aval if isinstance(x, Linear) else aval_of(x)))
        for c, x in zip(results, operands, strict=True)
    ]


def _leaves_terms(primitive: Any, cotangents: Sequence[Any], operands: Sequence[Any]) -> bool:
    """Whether the cotangent of an operand of a product is a sum over devices which the operand's type leaves open.

    It is, along a mesh axis that both its factors are cut along.
    """
    if not hasattr(primitive, "transpose_terms"):
        return False
    for i, x in enumerate(operands):
        to = dual(x.aval) if type(x) is Linear else None
        if to is not None and to.unreduced:
            return to.unreduced <= _names(cotangents[0]) & _names(operands[1 - i])
    return False


def _names(x: Any) -> frozenset[str]:
    """The mesh axes that a value is cut along."""
    spread = None if x is None else x.aval.spread if isinstance(x, Linear) else aval_of(x).spread
    return frozenset() if spread is None else spread.names()


def _is_term(x: Any) -> bool:
    spread = aval_of(x).spread
    return spread is not None and bool(spread.unreduced)


def dual(aval: Any) -> Spread | None:
    """The spread of cotangents of values of this type."""
    return None if aval.spread is None else aval.spread.dual()


def settled(cotangent: Any, aval: Any) -> Any:
    """A cotangent, as cotangents of values of this type lie."""
    return cotangent if cotangent is None else reshard_to(cotangent, dual(aval))
