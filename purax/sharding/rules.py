# SPDX-License-Identifier: Apache-2.0
"""How operations spread their results over explicit mesh axes: what the `spread` rules of primitives are made of.

A rule takes the spread of each operand (never None) and gives one for each result. A result whose spread the operands do not
determine is a ShardingTypeError; the user then says it: `out_sharding=`, `reshard` or `auto_axes`.

Parameters
----------
primitive : Primitive
spread : Spread
    Of the one operand.
ins : sequence of Spread
    Of all operands.
avals, outs : sequence of aval
    Of operands and results.
params : dict
shape, before, after : sequence of int
    Shapes of an operand, and of one before and after the operation.
shapes : sequence of shapes
    Of the operands.
sizes : sequence of int
    Of an operand, or of the slices that a gather takes.
dims : sequence of int
    The result's axis for each of the operand's.
numbers, dimension_numbers
    As of the operation.
operand, indices : Spread
    Of a gather.
update_shape : sequence of int
    That of the updates of a scatter.
ndim : int
    Number of axes of the result.
name : str
    Of the operation, for messages.
ranks : sequence of int
    How many last axes of each operand are those of one problem.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NoReturn

from purax import errors
from purax.core.hooks import hooks
from purax.sharding.spread import Spread, uncut

__all__ = [
    "added", "batch_axes", "batched", "broadcast", "changed_sizes", "contracted", "each", "elementwise", "equal", "gathered", "joined", "multiplied", "one_sum", "refuse_sums", "reshaped",
    "same", "scattered", "solved", "without",
]  # fmt: skip

_NONE: frozenset[str] = frozenset()


def same(primitive: Any, ins: Sequence[Spread], avals: Any, outs: Any, params: Any) -> list[Spread]:
    """All results lie as the first operand, which has their number of axes; sums that are yet to be taken stay so."""
    return [ins[0]] * len(outs)


def each(primitive: Any, ins: Sequence[Spread], avals: Any, outs: Any, params: Any) -> list[Spread]:
    """Each result lies as the operand at its place."""
    return list(ins)


def elementwise(primitive: Any, ins: Sequence[Spread], avals: Any, outs: Any, params: Any) -> list[Spread]:
    """Operands of one shape, or scalars, meet; the operation is not linear."""
    refuse_sums(primitive.name, ins)
    return [joined(ins, [a.shape for a in avals])] * len(outs)


def added(primitive: Any, ins: Sequence[Spread], avals: Any, outs: Any, params: Any) -> list[Spread]:
    """Operands of one shape meet in an operation that is linear in all of them together."""
    return [joined(ins, [a.shape for a in avals]).replace(unreduced=one_sum(ins))] * len(outs)


def multiplied(primitive: Any, ins: Sequence[Spread], avals: Any, outs: Any, params: Any) -> list[Spread]:
    """A product: one factor may be a term of a sum if the other is reduced along its axes.

    Raises
    ------
    ShardingTypeError
        Both are terms of sums, or the other one is not reduced.
    """
    x, y = ins
    if x.unreduced and y.unreduced:
        raise errors.ShardingTypeError(
            f"both factors are unreduced ({primitive.name} is bilinear): `reshard` one of them, got {x.spec} and {y.spec}"
        )
    if not (x.unreduced or y.unreduced):
        return elementwise(primitive, ins, avals, outs, params)
    term, other = (x, y) if x.unreduced else (y, x)
    if term.unreduced != other.reduced:
        raise errors.ShardingTypeError(
            f"one factor is unreduced along {sorted(term.unreduced)}, so the other must be reduced along the same mesh axes, got {other.spec}"
        )
    plain = [s.replace(unreduced=_NONE, reduced=_NONE) for s in ins]
    return [joined(plain, [a.shape for a in avals]).replace(unreduced=term.unreduced)]


def batch_axes(primitive: Any, ins: Sequence[Spread], avals: Any, outs: Any, params: Any) -> list[Spread]:
    """Operations on the last axes of each operand, `primitive.ranks` of them (2 by default)."""
    ranks = getattr(primitive, "ranks", None) or [2] * len(ins)
    return batched(primitive.name, ins, ranks, outs)


def solved(primitive: Any, ins: Sequence[Spread], avals: Any, outs: Any, params: Any) -> list[Spread]:
    """Solutions of linear systems for the columns of the last operand, which lie as they did."""
    *matrices, right = ins
    axis = len(right.parts) - (1 if params.get("left_side", True) else 2)
    part = right.parts[axis]
    ranks = getattr(primitive, "ranks", None) or [2] * len(ins)
    if not part:
        return batched(primitive.name, ins, ranks, outs)
    own = [() if i == axis else p for i, p in enumerate(right.parts)]
    (found,) = batched(primitive.name, [*matrices, right.replace(own)], ranks, outs)
    return [found.replace([part if i == axis else p for i, p in enumerate(found.parts)])]


def joined(ins: Sequence[Spread], shapes: Sequence[Sequence[int]]) -> Spread:
    """The one spread that operands of one shape agree on; an uncut axis gives way to a cut one. Scalars have no say.

    Raises
    ------
    ShardingTypeError
        Two operands are cut in different ways.
    """
    ndim = max(map(len, shapes))
    cut = [s for s, shape in zip(ins, shapes, strict=True) if len(shape) == ndim]
    first = cut[0]
    if all(s.parts == first.parts for s in cut):
        parts = first.parts
    else:
        found = []
        for axis, row in enumerate(zip(*[s.parts for s in cut], strict=True)):
            ways = {part for part in row if part}
            if len(ways) > 1:
                told = " and ".join(str(s.spec) for s in cut)
                raise errors.ShardingTypeError(
                    f"operands have incompatible shardings for broadcasting: axis {axis} is cut differently by {told}; `reshard` one of them"
                )
            found.append(ways.pop() if ways else ())
        parts = tuple(found)
    return first.replace(parts, unreduced=_NONE, reduced=one_reduced(ins))


def one_reduced(ins: Sequence[Spread]) -> frozenset[str]:
    """The mesh axes that results are reduced along: those of the operands.

    Raises
    ------
    ShardingTypeError
        Operands are reduced along different axes, or one is cut along an axis that another is reduced along.
    """
    found = {s.reduced for s in ins if s.reduced}
    if not found:
        return _NONE
    if len(found) > 1:
        raise errors.ShardingTypeError(
            f"all operands must be reduced along the same mesh axes, got {sorted(map(sorted, found))}"
        )
    (reduced,) = found
    for s in ins:
        clash = reduced & s.names()
        if clash:
            raise errors.ShardingTypeError(
                f"an operand is cut along mesh axes that another is reduced along ({', '.join(sorted(clash))}): `reshard` the one "
                "that is reduced to be cut along them"
            )
    return reduced


def one_sum(ins: Sequence[Spread]) -> frozenset[str]:
    """The mesh axes that all operands of a sum or a joining are unreduced along.

    Raises
    ------
    ShardingTypeError
        They differ.
    """
    found = {s.unreduced for s in ins}
    if len(found) > 1:
        raise errors.ShardingTypeError(
            f"all operands must be unreduced along the same mesh axes, got {[sorted(u) for u in found]}"
        )
    return found.pop()


def refuse_sums(name: str, ins: Sequence[Spread]) -> None:
    """Check that no operand is a term of a sum that is yet to be taken.

    Raises
    ------
    UnreducedError
        One is.
    """
    for s in ins:
        if s.unreduced:
            raise errors.UnreducedError(
                f"{name} of a value that is unreduced along {', '.join(sorted(s.unreduced))}: the operation is not linear, and its operand is "
                "a term of a sum; `reshard` it first"
            )


def equal(what: str, ins: Sequence[Spread]) -> Spread:
    """The one spread of operands that must lie in the same way; an uncut axis gives way to a cut one.

    Raises
    ------
    ShardingTypeError
        They do not.
    """
    first = ins[0]
    if all(s is first for s in ins[1:]):
        return first
    parts = []
    for row in zip(*[s.parts for s in ins], strict=True):
        ways = {part for part in row if part}
        if len(ways) > 1:
            told = ", ".join(str(s.spec) for s in ins)
            raise errors.ShardingTypeError(f"all operands of {what} must have the same sharding, got {told}")
        parts.append(ways.pop() if ways else ())
    return first.replace(parts, unreduced=one_sum(ins), reduced=one_reduced(ins))


def without(spread: Spread, axes: Collection[int]) -> Spread:
    """The spread of a result that lacks these array axes."""
    return spread.replace([part for axis, part in enumerate(spread.parts) if axis not in axes])


def changed_sizes(spread: Spread, before: Sequence[int], after: Sequence[int]) -> Spread:
    """The spread of a result with the same axes, of which some have another size.

    Raises
    ------
    ShardingTypeError
        The new size of a cut axis is not divisible by the number of its pieces.
    """
    for axis, (a, b, part, pieces) in enumerate(zip(before, after, spread.parts, spread.counts(), strict=True)):
        if a != b and part and b % pieces:
            raise errors.ShardingTypeError(
                f"axis {axis} is cut along {', '.join(part)} into {pieces} pieces, which do not divide its new size {b} (it was {a}); "
                "`reshard` the operand so that the axis is not cut, or give out_sharding="
            )
    return spread


def broadcast(spread: Spread, shape: Sequence[int], dims: Sequence[int], sizes: Sequence[int]) -> Spread:
    """The spread after axis `i` became axis `dims[i]` of `shape`."""
    parts: list[tuple[str, ...]] = [()] * len(shape)
    for part, dim, size in zip(spread.parts, dims, sizes, strict=True):
        if size == shape[dim]:
            parts[dim] = part
    return spread.replace(parts)


def contracted(ins: Sequence[Spread], dimension_numbers: Any) -> Spread:
    """The spread of a product: batch axes, then the free axes of both operands.

    Raises
    ------
    ShardingTypeError
        Batch axes are cut differently, or both contracted axes are cut, which leaves the choice of a sum or a gather.
    """
    lhs, rhs = ins
    (lc, rc), (lb, rb) = dimension_numbers
    batch = tuple(lhs.parts[i] for i in lb)
    if batch != tuple(rhs.parts[i] for i in rb):
        raise errors.ShardingTypeError(
            f"batch axes of the operands must be cut in the same way, got {lhs.spec} (axes {tuple(lb)}) and {rhs.spec} (axes {tuple(rb)})"
        )
    pairs = [(lhs.parts[i], rhs.parts[j]) for i, j in zip(lc, rc, strict=True)]
    for left, right in pairs:
        if left and right:
            told = f"{lhs.spec} (axes {tuple(lc)}) and {rhs.spec} (axes {tuple(rc)})"
            if left != right:
                raise errors.ShardingTypeError(f"contracted axes must have consistent sharding, got {told}")
            raise errors.ShardingTypeError(
                f"contracted axes are both cut, by {told}, so it is ambiguous how the result should be sharded; say it: out_sharding=P(...)"
            )
    free = [part for i, part in enumerate(lhs.parts) if i not in (*lc, *lb)]
    free += [part for i, part in enumerate(rhs.parts) if i not in (*rc, *rb)]
    return lhs.replace([*batch, *free], unreduced=_NONE, reduced=_NONE)


def _no_reshape(spread: Spread, before: Sequence[int], after: Sequence[int]) -> NoReturn:
    raise errors.ShardingTypeError(
        f"it is ambiguous how the result of a reshape from {tuple(before)} cut by {spread.spec} to {tuple(after)} should be sharded; "
        "give out_sharding="
    )


def reshaped(spread: Spread, before: Sequence[int], after: Sequence[int]) -> Spread:
    """The spread after a reshape that splits or merges axes: cuts stay with the outermost part.

    Raises
    ------
    ShardingTypeError
        A cut axis lies neither whole nor outermost in the result.
    """
    parts = _reshaped_parts(spread, tuple(before), tuple(after)) if any(spread.parts) else [()] * len(after)
    if parts is None:
        _no_reshape(spread, before, after)
    return spread.replace(parts)


def _reshaped_parts(spread: Spread, before: tuple[int, ...], after: tuple[int, ...]) -> list[tuple[str, ...]] | None:
    sizes = spread.mesh.shape
    result: list[tuple[str, ...]] = [()] * len(after)
    i = j = 0
    while i < len(before) or j < len(after):
        first_i, first_j = i, j
        a = b = 1
        if i < len(before) and before[i] == 1:  # axes of one element come and go
            if any(sizes[name] > 1 for name in spread.parts[i]):
                return None
            i += 1
            continue
        if j < len(after) and after[j] == 1:
            j += 1
            continue
        while True:  # the smallest groups of axes with one size
            if a == b and i > first_i:
                break
            if a <= b and i < len(before):
                a *= before[i]
                i += 1
            elif j < len(after):
                b *= after[j]
                j += 1
            else:
                return None
        olds = [k for k in range(first_i, i) if before[k] != 1]
        news = [k for k in range(first_j, j) if after[k] != 1]
        names = [name for k in olds for name in spread.parts[k]]
        if not names:
            continue
        if len(olds) > 1 and len(news) > 1:
            return None
        cut = [bool(spread.parts[k]) for k in olds]
        if cut != sorted(cut, reverse=True):  # an axis that is cut within one that is not
            return None
        left = iter(names)
        name = next(left, None)
        for k in news:
            room, part = after[k], []
            while name is not None and room > 1:
                if room % sizes[name]:
                    return None
                room //= sizes[name]
                part.append(name)
                name = next(left, None)
            result[k] = tuple(part)
            if name is not None and room > 1:
                return None
        if name is not None:
            return None
    return result


def batched(name: str, ins: Sequence[Spread], ranks: Sequence[int], outs: Sequence[Any]) -> list[Spread]:
    """Results of an operation on the last `ranks` axes of each operand, which must not be cut; the others are batch axes.

    Raises
    ------
    ShardingTypeError
        One is cut, or the batch axes of two operands are cut differently.
    """
    batch = None
    for place, (s, rank) in enumerate(zip(ins, ranks, strict=True)):
        split = len(s.parts) - rank
        if any(s.parts[split:]):
            raise errors.ShardingTypeError(
                f"operand {place} of {name} must not be cut along its last {rank} axes, got {s.spec}; `reshard` it"
            )
        own = s.parts[:split]
        if batch is not None and own != batch:
            if len(own) != len(batch) or any(a and b and a != b for a, b in zip(own, batch, strict=True)):
                raise errors.ShardingTypeError(f"the batch axes of the operands of {name} must be cut in the same way")
            own = tuple([a or b for a, b in zip(own, batch, strict=True)])
        batch = own
    refuse_sums(name, ins)
    lead: tuple[tuple[str, ...], ...] = batch or ()
    return [ins[0].replace([*lead, *[()] * (out.ndim - len(lead))], reduced=_NONE) for out in outs]


def uncut_along(name: str, spread: Spread, axes: Collection[int]) -> Spread:
    """The spread of a result of the same axes, computed along some that must not be cut.

    Raises
    ------
    ShardingTypeError
        One is.
    """
    for axis in axes:
        if spread.parts[axis]:
            raise errors.ShardingTypeError(
                f"{name} works along axis {axis}, which is cut along {', '.join(spread.parts[axis])}; `reshard` the operand first"
            )
    return spread


def gathered(
    operand: Spread, indices: Spread, shape: Sequence[int], numbers: Any, sizes: Sequence[int], ndim: int
) -> Spread:
    """The spread of what a gather takes: offset axes lie as those of the operand, the others as those of the indices.

    Raises
    ------
    ShardingTypeError
        An axis that is indexed, or taken in part, is cut.
    """
    own = list(indices.parts[:-1])
    for od, idim in zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True):
        if operand.parts[od] and own[idim] and operand.parts[od] != own[idim]:
            raise errors.ShardingTypeError("batching axes of operand and indices are cut in different ways")
        own[idim] = own[idim] or operand.parts[od]
    batching = set(numbers.operand_batching_dims)
    for axis, part in enumerate(operand.parts):
        if part and axis not in batching and sizes[axis] != shape[axis]:
            raise errors.ShardingTypeError(
                f"axis {axis} is indexed and cut along {', '.join(part)}, so devices would have to exchange rows; say how the result is to "
                "lie: .at[...].get(out_sharding=P(...))"
            )
    if indices.parts[-1]:
        raise errors.ShardingTypeError("the last axis of the indices must not be cut")
    kept = iter([p for a, p in enumerate(operand.parts) if a not in numbers.collapsed_slice_dims and a not in batching])
    rest = iter(own)
    return operand.replace([next(kept) if d in numbers.offset_dims else next(rest) for d in range(ndim)])


def scattered(ins: Sequence[Spread], shape: Sequence[int], numbers: Any, update_shape: Any) -> Spread:
    """The spread of an update of the operand: that of the operand.

    Raises
    ------
    ShardingTypeError
        An axis that is indexed is cut, or updates do not lie as what they update.
    """
    operand, _, updates = ins
    batching = set(numbers.operand_batching_dims)
    window = [a for a in range(len(shape)) if a not in numbers.inserted_window_dims and a not in batching]
    place = dict(zip(window, numbers.update_window_dims, strict=True))
    for axis, part in enumerate(operand.parts):
        if axis in batching:
            continue
        update = updates.parts[place[axis]] if axis in place else ()
        full = axis in place and update_shape[place[axis]] == shape[axis]
        if (part and not full) or (update and update != part):
            raise errors.ShardingTypeError(
                f"axis {axis} is updated in part and cut by {operand.spec} (updates by {updates.spec}), so devices would have to exchange "
                "rows; say how the result is to lie: .at[...].set(..., out_sharding=P(...))"
            )
    return operand


def spreads(primitive: Any, avals: Sequence[Any], outs: Sequence[Any], params: dict[str, Any]) -> Sequence[Spread]:
    """How the results of a primitive lie, from how its operands do.

    Raises
    ------
    ShardingTypeError
        The operands lie on different meshes, or the primitive has no rule and an operand is cut.
    """
    mesh = None
    for aval in avals:
        if aval.spread is not None:
            if mesh is not None and aval.spread.mesh != mesh:
                raise errors.ShardingTypeError(
                    f"the mesh of all operands must be the same, got {mesh} and {aval.spread.mesh}; `reshard` one of them"
                )
            mesh = aval.spread.mesh
    ins = [uncut(mesh, a.ndim) if a.spread is None else a.spread for a in avals]  # type: ignore[arg-type]
    if not outs:
        return ()
    if primitive.spread is not None:
        return primitive.spread(ins, avals, outs, params)
    refuse_sums(primitive.name, ins)
    if all(s.uncut() for s in ins):
        return [uncut(mesh, out.ndim) for out in outs]  # type: ignore[arg-type]
    raise errors.ShardingTypeError(
        "there is no rule for how its result lies on explicit mesh axes; leave that to the partitioner: "
        "`auto_axes(fun, out_sharding=P(...))`, or `reshard` the operands"
    )


hooks.spread = spreads
