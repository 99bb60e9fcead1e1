# SPDX-License-Identifier: Apache-2.0
"""Collectives: operations across the lanes of named axes, which are the lanes of `vmap` or the devices of `pmap` and `shard_map`.

Types say over which named axes a value may differ (`aval.varying`). A sum over an axis no longer varies over it; everything else
varies where an operand does. Transposition follows from the types alone, see docs/design/005-varying-axes.md: the transpose of
`psum` marks the cotangent as varying, and `settle` sums the cotangent of a value that does not vary over an axis but was used
in an operation that does.

Parameters
----------
axis_name : hashable, or tuple of them
    Names of mapped axes; NameError if one is not in scope.
axis_index_groups : sequence of sequences of int, optional
    Lanes that work among themselves, each in one group, groups of one size; else ValueError.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from purax import dtypes, errors, tree
from purax.core.aval import array_aval
from purax.core.axes import axis_size as bound_size
from purax.core.primitive import Primitive, Undefined
from purax.core.trace import Tracer, aval_of
from purax.primitives import cast, comparison, elementwise, gather, reduction, shape, slicing
from purax.sharding import rules

__all__ = [
    "all_gather", "all_gather_p", "all_to_all", "all_to_all_p", "axis_index", "axis_index_p", "axis_size", "pbroadcast", "pcast",
    "pmax", "pmax_p", "pmean", "pmin", "pmin_p", "ppermute", "ppermute_p", "pshuffle", "psum", "psum_p", "psum_scatter",
    "pswapaxes", "pvary",
]  # fmt: skip

_INT32 = np.dtype(np.int32)


class Collective(Primitive):
    """What collectives share. `axes` are the names of the axes, the first one major."""

    names_axes = True
    types_axes = True

    def reference(self, *operands: Any, axes: Any, **params: Any) -> Any:
        """One lane alone does not know the others."""
        raise NameError(f"unbound axis name: {axes[0]}. {self.name} means something only among the lanes of its axes")


def settle(
    primitive: Any, params: dict[str, Any], operands: Sequence[Any], outs: Sequence[Any], cotangents: Sequence[Any]
) -> list[Any]:
    """Cotangents from a transpose rule, summed over the axes that the operation varies over and the operand does not.

    Parameters
    ----------
    primitive : Primitive
    operands, outs : sequences of avals
    cotangents : sequence of arrays or None
        One per operand.
    """
    if primitive.names_axes:
        common = frozenset(params["axes"])
    elif primitive.types_axes:
        common = None  # programs: the types in the transposed program say it
    else:
        common = frozenset().union(*[a.varying for a in outs])
    settled = []
    for aval, cotangent in zip(operands, cotangents, strict=True):
        if cotangent is not None:
            cotangent = _summed(cotangent, (aval_of(cotangent).varying if common is None else common) - aval.varying)
        settled.append(cotangent)
    return settled


def total(cotangent: Any, aval: Any) -> Any:
    """A given cotangent of a value of type `aval`, summed over the axes that it varies over and the value does not."""
    return _summed(cotangent, aval_of(cotangent).varying - aval.varying)


def _summed(x: Any, axes: frozenset[Any]) -> Any:
    return psum_p.bind1(x, axes=tuple(sorted(axes, key=str)), groups=None) if axes else x


# --- reductions over lanes ----------------------------------------------------------------------------------------------------


class AllReduce(Collective):
    """Reduction over lanes of any number of operands, of the same types. `groups`: lanes that reduce among themselves, or None."""

    op: str

    spread = rules.each

    def infer(self, *avals: Any, axes: Any, groups: Any) -> Any:
        """The operands' types; the results no longer vary over the axes, but for groups."""
        named = frozenset(axes)
        return tuple([a.with_varying(a.varying | named if groups else a.varying - named) for a in avals])

    def over_lanes(self, x: Any, dim: int) -> Any:
        """Reduction over the mapped axis."""
        raise NotImplementedError

    def of_equals(self, x: Any, size: int) -> Any:
        """Reduction of a value that all lanes hold."""
        return x

    def batch(self, axis: Any, operands: Any, dims: Any, *, axes: Any, groups: Any) -> Any:
        """Reduce the mapped axis if it is named, then over the other lanes."""
        if axis.name not in axes:
            return self.bind(*operands, axes=axes, groups=groups), dims
        _no_groups(groups)
        outs: Sequence[Any] = [
            self.of_equals(x, axis.size) if d is None else self.over_lanes(x, d)
            for x, d in zip(operands, dims, strict=True)
        ]
        rest = tuple([name for name in axes if name != axis.name])
        if rest:
            outs = self.bind(*outs, axes=rest, groups=None)
        return tuple(outs), (None,) * len(outs)

    def lower(self, b: Any, ins: Any, outs: Any, *, axes: Any, groups: Any) -> Any:
        """One `stablehlo.all_reduce` per operand (with several, it cannot be told how the results are spread); XLA joins them."""
        return [self._reduce(b, x, out, axes, groups) for x, out in zip(ins, outs, strict=True)]

    def _reduce(self, b: Any, x: Any, out: Any, axes: Any, groups: Any) -> Any:
        scalar = array_aval((), x.dtype)
        region = b.block(
            [scalar, scalar], lambda inner, y, z: [inner.emit(f"stablehlo.{self.op} {y}, {z} : {scalar.hlo}", scalar)]
        )
        return b.emit(
            f'"stablehlo.all_reduce"({x}) <{{{_among(b, axes, groups)}}}> ({region}) : ({x.hlo}) -> {out.hlo}', out
        )


class PSum(AllReduce):
    """Sum over lanes."""

    op = "add"

    def over_lanes(self, x: Any, dim: int) -> Any:
        """Sum over the mapped axis."""
        return reduction.reduce_sum(x, (dim,))

    def of_equals(self, x: Any, size: int) -> Any:
        """As many times the value as there are lanes."""
        return elementwise.mul_p.bind1(x, _like(size, x))

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> Any:
        """The sums of the tangents."""
        outs = self.bind(*primals, **params)
        given = [t for t in tangents if t is not None]
        rest = iter(self.bind(*given, **params) if given else ())
        return outs, tuple([None if t is None else next(rest) for t in tangents])

    def transpose(self, cotangents: Any, operands: Any, *, axes: Any, groups: Any) -> Any:
        """Every lane gets the cotangent of the sum."""
        known = [c for c in cotangents if c is not None]
        if groups:
            passed = iter(self.bind(*known, axes=axes, groups=groups))
        else:
            passed = iter(pvary_p.bind(*known, axes=axes))
        return tuple([None if c is None else next(passed) for c in cotangents])


class PExtremum(AllReduce):
    """Maximum or minimum over lanes; lanes that attain it share the derivative equally."""

    transpose = Undefined("an extremum is not linear")

    def __init__(self, name: str, op: str, over_lanes: Callable[..., Any]) -> None:
        self.op = op
        self.over_lanes = over_lanes  # type: ignore[method-assign]
        super().__init__(name)

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> Any:
        """The mean of the tangents of the lanes that attain the extremum."""
        outs = self.bind(*primals, **params)
        derived: list[Any] = []
        for x, t, out in zip(primals, tangents, outs, strict=True):
            if t is None:
                derived.append(None)
                continue
            hits = comparison.eq_p.bind1(x, out)
            count = cast.convert_element_type(hits, aval_of(t).dtype)
            kept = elementwise.select_n_p.bind1(hits, shape.full_like_aval(aval_of(t), 0), t)
            count = psum_p.bind1(count, **params)
            derived.append(elementwise.div(psum_p.bind1(kept, **params), count))
        return outs, tuple(derived)


class PVary(Collective):
    """The identity, on values that are to count as different in each lane; any number of operands."""

    exact = True

    spread = rules.each

    def infer(self, *avals: Any, axes: Any) -> Any:
        """The operands' types, varying over the axes."""
        named = frozenset(axes)
        return tuple([a.with_varying(a.varying | named) for a in avals])

    def reference(self, *operands: Any, axes: Any) -> Any:  # type: ignore[override]
        """The operands."""
        return operands

    def jvp(self, primals: Any, tangents: Any, *, axes: Any) -> Any:
        """The identity on the tangents."""
        return self.bind(*primals, axes=axes), tuple(
            [None if t is None else self.bind1(t, axes=axes) for t in tangents]
        )

    def transpose(self, cotangents: Any, operands: Any, *, axes: Any) -> Any:
        """The identity; `settle` adds the lanes up."""
        return cotangents

    def batch(self, axis: Any, operands: Any, dims: Any, *, axes: Any) -> Any:
        """The identity; the type of the result says that it varies."""
        rest = tuple([name for name in axes if name != axis.name])
        return self.bind(*operands, axes=rest) if rest else operands, dims

    def lower(self, b: Any, ins: Any, outs: Any, *, axes: Any) -> Any:
        """The operands."""
        return ins


psum_p = PSum("psum")
pmax_p = PExtremum("pmax", "maximum", lambda x, dim: reduction.reduce_max(x, (dim,)))
pmin_p = PExtremum("pmin", "minimum", lambda x, dim: reduction.reduce_min(x, (dim,)))
pvary_p = PVary("pvary")


# --- lanes by number, exchange between lanes ----------------------------------------------------------------------------------


class AxisIndex(Collective):
    """Number of the lane along one axis; no operands."""

    def infer(self, *, axes: Any, size: int) -> Any:
        """A scalar int32 that varies over the axis."""
        return (array_aval((), _INT32, False, frozenset(axes)),)

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> Any:
        """A constant."""
        return self.bind(**params), (None,)

    def batch(self, axis: Any, operands: Any, dims: Any, *, axes: Any, size: int) -> Any:
        """The numbers of all lanes."""
        return (shape.iota(_INT32, axis.size),), (0,)

    def lower(self, b: Any, ins: Any, outs: Any, *, axes: Any, size: int) -> Any:
        """A piece of an iota that is spread over the devices."""
        return [_region(b, axes).index(b, axes[0])]


class Exchange(Collective):
    """What exchanges between lanes share: one linear operand, a result that varies over the axes."""

    def spread(self, ins: Any, avals: Any, outs: Any, params: Any) -> Any:
        """As the operand along the axes of the mesh that are not those of the lanes, where the result can be cut so."""
        return [rules.changed_sizes(ins[0], avals[0].shape, outs[0].shape)]

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> Any:
        """The same exchange of the tangents."""
        out = self.bind1(*primals, **params)
        return (out,), (None if tangents[0] is None else self.bind1(*tangents, **params),)

    def batch(self, axis: Any, operands: Any, dims: Any, **params: Any) -> Any:
        """Over lanes of the mapped axis: a rearrangement of it. Over other axes: the mapped axis goes along."""
        (x,), (dim,) = operands, dims
        if axis.name not in params["axes"]:
            front = shape.move_batch_axis(x, dim, 0)
            return self.bind(front, **self.beside(params)), (0,)
        _no_groups(params.get("groups"))
        if len(params["axes"]) > 1:
            raise NotImplementedError(
                f"{self.name} over several axes at once, one of them of vmap: name one axis at a time"
            )
        out, out_dim = self.rearrange(shape.align_batch(x, dim, axis.size, 0), axis.size, params)
        return (out,), (out_dim,)

    def beside(self, params: dict[str, Any]) -> dict[str, Any]:
        """Parameters for operands with one more axis in front."""
        return params

    def rearrange(self, x: Any, size: int, params: dict[str, Any]) -> tuple[Any, int | None]:
        """The exchange among lanes that lie along axis 0 of `x`; the result and its mapped axis."""
        raise NotImplementedError


class PPermute(Exchange):
    """Send values from lane to lane by `(source, target)` pairs; lanes that are no target get zeros."""

    def infer(self, x: Any, *, axes: Any, perm: Any) -> Any:
        """The operand's type."""
        return (x.with_varying(x.varying | frozenset(axes)),)

    def transpose(self, cotangents: Any, operands: Any, *, axes: Any, perm: Any) -> Any:
        """Send back."""
        return (self.bind1(cotangents[0], axes=axes, perm=tuple([(target, source) for source, target in perm])),)

    def rearrange(self, x: Any, size: int, params: dict[str, Any]) -> tuple[Any, int | None]:
        """Rows in another order."""
        source = np.zeros(size, np.int32)
        reached = np.zeros(size, bool)
        for s, t in params["perm"]:
            source[t], reached[t] = s, True
        rows = gather.index_take(x, [source], (0,))
        if reached.all():
            return rows, 0
        aval = aval_of(rows)
        mask = shape.broadcast_in_dim(reached, aval.shape, (0,))
        return elementwise.select_n_p.bind1(mask, shape.full_like_aval(aval.strip_weak(), 0), rows), 0

    def lower(self, b: Any, ins: Any, outs: Any, *, axes: Any, perm: Any) -> Any:
        """`stablehlo.collective_permute`."""
        groups = _region(b, axes).groups(axes)
        pairs = [[group[s], group[t]] for group in groups for s, t in perm]
        text = f"source_target_pairs = dense<{pairs}> : tensor<{len(pairs)}x2xi64>, {_channel(b)}"
        if not pairs:
            text = f"source_target_pairs = dense<> : tensor<0x2xi64>, {_channel(b)}"
        return [
            b.emit(f'"stablehlo.collective_permute"({ins[0]}) <{{{text}}}> : ({ins[0].hlo}) -> {outs[0].hlo}', outs[0])
        ]


class AllGather(Exchange):
    """Values of all lanes, one after the other along axis `dim`. `size` is the number of lanes in a group.

    The result counts as varying over the axes; with `shared` it does not.
    """

    def infer(self, x: Any, *, axes: Any, dim: int, size: int, groups: Any, shared: bool) -> Any:
        """`size` times longer along `dim`."""
        sizes = (*x.shape[:dim], x.shape[dim] * size, *x.shape[dim + 1 :])
        named = frozenset(axes)
        return (x.update(shape=sizes).with_varying(x.varying - named if shared else x.varying | named),)

    def transpose(
        self, cotangents: Any, operands: Any, *, axes: Any, dim: int, size: int, groups: Any, shared: bool
    ) -> Any:
        """Sum the cotangents of all lanes, each lane its own part; of a shared result there is one cotangent to take part of."""
        (cotangent,) = cotangents
        if not shared:
            return (psum_scatter_p.bind1(cotangent, axes=axes, dim=dim, size=size, groups=groups),)
        part = aval_of(cotangent).shape[dim] // size
        start = elementwise.mul(axis_index_p.bind1(axes=axes, size=size), np.int32(part))
        return (slicing.dynamic_slice_in_dim(cotangent, start, part, dim),)

    def beside(self, params: dict[str, Any]) -> dict[str, Any]:
        """One axis further."""
        return {**params, "dim": params["dim"] + 1}

    def rearrange(self, x: Any, size: int, params: dict[str, Any]) -> tuple[Any, int | None]:
        """The mapped axis becomes part of `dim`."""
        dim, sizes = params["dim"], aval_of(x).shape[1:]
        moved = shape.move_batch_axis(x, 0, dim)
        return shape.reshape(moved, (*sizes[:dim], size * sizes[dim], *sizes[dim + 1 :])), None

    def lower(self, b: Any, ins: Any, outs: Any, *, axes: Any, dim: int, size: int, groups: Any, shared: bool) -> Any:
        """`stablehlo.all_gather`."""
        text = f"all_gather_dim = {dim} : i64, {_among(b, axes, groups)}"
        return [b.emit(f'"stablehlo.all_gather"({ins[0]}) <{{{text}}}> : ({ins[0].hlo}) -> {outs[0].hlo}', outs[0])]


class PSumScatter(Exchange):
    """Sum over lanes of which each lane keeps its part along axis `dim`."""

    def infer(self, x: Any, *, axes: Any, dim: int, size: int, groups: Any) -> Any:
        """`size` times shorter along `dim`."""
        if x.shape[dim] % size:
            raise errors.ShapeError(f"axis {dim} of size {x.shape[dim]} cannot be divided among {size} lanes")
        sizes = (*x.shape[:dim], x.shape[dim] // size, *x.shape[dim + 1 :])
        return (x.update(shape=sizes).with_varying(x.varying | frozenset(axes)),)

    def transpose(self, cotangents: Any, operands: Any, **params: Any) -> Any:
        """Gather the parts."""
        return (all_gather_p.bind1(cotangents[0], **params, shared=False),)

    def beside(self, params: dict[str, Any]) -> dict[str, Any]:
        """One axis further."""
        return {**params, "dim": params["dim"] + 1}

    def rearrange(self, x: Any, size: int, params: dict[str, Any]) -> tuple[Any, int | None]:
        """Part of `dim` becomes the mapped axis."""
        dim = params["dim"]
        total = reduction.reduce_sum(x, (0,))
        sizes = aval_of(total).shape
        return shape.reshape(total, (*sizes[:dim], size, sizes[dim] // size, *sizes[dim + 1 :])), dim

    def lower(self, b: Any, ins: Any, outs: Any, *, axes: Any, dim: int, size: int, groups: Any) -> Any:
        """`stablehlo.reduce_scatter`."""
        scalar = array_aval((), ins[0].dtype)
        region = b.block(
            [scalar, scalar], lambda inner, x, y: [inner.emit(f"stablehlo.add {x}, {y} : {scalar.hlo}", scalar)]
        )
        text = f"scatter_dimension = {dim} : i64, {_among(b, axes, groups)}"
        return [
            b.emit(
                f'"stablehlo.reduce_scatter"({ins[0]}) <{{{text}}}> ({region}) : ({ins[0].hlo}) -> {outs[0].hlo}',
                outs[0],
            )
        ]


class AllToAll(Exchange):
    """Lane i sends part j along axis `split` to lane j, which joins what it gets along axis `joined`."""

    def infer(self, x: Any, *, axes: Any, split: int, joined: int, size: int, groups: Any) -> Any:
        """Shorter along `split`, longer along `joined`."""
        sizes = list(x.shape)
        if sizes[split] % size:
            raise errors.ShapeError(f"axis {split} of size {sizes[split]} cannot be divided among {size} lanes")
        sizes[split] //= size
        sizes[joined] *= size
        return (x.update(shape=tuple(sizes)).with_varying(x.varying | frozenset(axes)),)

    def transpose(
        self, cotangents: Any, operands: Any, *, axes: Any, split: int, joined: int, size: int, groups: Any
    ) -> Any:
        """Send the parts back."""
        return (self.bind1(cotangents[0], axes=axes, split=joined, joined=split, size=size, groups=groups),)

    def beside(self, params: dict[str, Any]) -> dict[str, Any]:
        """One axis further."""
        return {**params, "split": params["split"] + 1, "joined": params["joined"] + 1}

    def rearrange(self, x: Any, size: int, params: dict[str, Any]) -> tuple[Any, int | None]:
        """Part of `split` and the mapped axis change places."""
        split, joined, sizes = params["split"], params["joined"], list(aval_of(x).shape[1:])
        parted = shape.reshape(x, (size, *sizes[:split], size, sizes[split] // size, *sizes[split + 1 :]))
        # Axes now: sender, those before `split`, receiver, the rest. The receiver becomes the mapped axis.
        swapped = shape.move_batch_axis(parted, 1 + split, 0)
        at = 1 + joined  # where the sender goes, counted behind receiver and without itself
        merged = shape.move_batch_axis(swapped, 1, at)
        sizes[split] //= size
        sizes[joined] *= size
        return shape.reshape(merged, (size, *sizes)), 0

    def lower(self, b: Any, ins: Any, outs: Any, *, axes: Any, split: int, joined: int, size: int, groups: Any) -> Any:
        """`stablehlo.all_to_all`."""
        text = f"split_dimension = {split} : i64, concat_dimension = {joined} : i64, split_count = {size} : i64, {_ids(b, axes, groups)}, {_channel(b)}"
        return [b.emit(f'"stablehlo.all_to_all"({ins[0]}) <{{{text}}}> : ({ins[0].hlo}) -> {outs[0].hlo}', outs[0])]


axis_index_p = AxisIndex("axis_index")
ppermute_p = PPermute("ppermute")
all_gather_p = AllGather("all_gather")
psum_scatter_p = PSumScatter("psum_scatter")
all_to_all_p = AllToAll("all_to_all")


# --- text for lowering --------------------------------------------------------------------------------------------------------


def _region(b: Any, axes: Any) -> Any:
    """The manual region that the operation is in; it knows the numbers of the devices."""
    region = b.module.manual
    if region is None or not set(axes) <= set(region.mesh.axis_names):
        raise NameError(
            f"unbound axis name: {axes[0]}. The program was compiled outside the vmap, pmap or shard_map of its axis"
        )
    return region


def _channel(b: Any) -> str:
    b.module.channels += 1
    return f"channel_handle = #stablehlo.channel_handle<handle = {b.module.channels}, type = 1>"


def _ids(b: Any, axes: Any, groups: Any) -> str:
    found = _region(b, axes).groups(axes)
    if groups:
        width = max(map(len, groups))  # shorter groups are filled up with -1
        found = [[*[row[i] for i in group], *[-1] * (width - len(group))] for row in found for group in groups]
    return f"replica_groups = dense<{found}> : tensor<{len(found)}x{len(found[0])}xi64>"


def _among(b: Any, axes: Any, groups: Any) -> str:
    return f"{_ids(b, axes, groups)}, {_channel(b)}, use_global_device_ids"


def _no_groups(groups: Any) -> None:
    if groups:
        raise NotImplementedError("axis_index_groups not supported in vmap collectives")


def _like(value: Any, x: Any) -> Any:
    aval = aval_of(x)
    return shape.full_like_aval(aval.strip_weak().with_varying(frozenset()), value)


# --- the user's functions -----------------------------------------------------------------------------------------------------


def _split_names(axis_name: Any) -> tuple[tuple[Any, ...], tuple[int, ...]]:
    """Names, which must be in scope, and numbers of positional axes."""
    parts = tuple(axis_name) if isinstance(axis_name, (tuple, list, set, frozenset)) else (axis_name,)
    names = tuple([p for p in parts if not isinstance(p, int)])
    for name in names:
        bound_size(name)
    return names, tuple([p for p in parts if isinstance(p, int)])


def _groups(groups: Any, names: tuple[Any, ...], even: bool = True) -> Any:
    if groups is None:
        return None
    rows = tuple([tuple([operator.index(i) for i in group]) for group in groups])
    size = bound_size(names)
    if sorted(i for row in rows for i in row) != list(range(size)):
        raise ValueError(
            f"axis_index_groups must cover all indices exactly once: got {groups} for an axis of size {size}"
        )
    if even and len({len(row) for row in rows}) > 1:
        raise ValueError(f"axis_index_groups must all have the same size, got {groups}")
    return rows


def _reduced(
    primitive: Any, x: Any, axis_name: Any, groups: Any, positional: Callable[..., Any], constant: Callable[..., Any]
) -> Any:
    names, numbers = _split_names(axis_name)
    rows = _groups(groups, names, even=False)
    leaves, treedef = tree.flatten(x)
    if numbers:
        leaves = [positional(leaf, tuple([n % aval_of(leaf).ndim for n in numbers])) for leaf in leaves]
    if not names or not leaves:
        return treedef.unflatten(leaves)
    if not any(isinstance(leaf, Tracer) for leaf in leaves):
        _groups(groups, names)  # each lane's share must be the same
        return treedef.unflatten([constant(leaf, len(rows[0]) if rows else bound_size(names)) for leaf in leaves])
    leaves = [cast.convert_element_type(leaf, _INT32) if aval_of(leaf).dtype == np.bool_ else leaf for leaf in leaves]
    return treedef.unflatten(primitive.bind(*leaves, axes=names, groups=rows))


def _times(leaf: Any, size: int) -> Any:
    return (
        leaf * size
        if isinstance(leaf, (bool, int, float, complex))
        else elementwise.mul(leaf, np.asarray(size, aval_of(leaf).dtype))
    )


def psum(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """Sum over the lanes of one or more named axes.

    Parameters
    ----------
    x : pytree of arrays
        Python scalars and other constants are multiplied by the number of lanes: ``psum(1, "i")`` is the size of the axis.
    axis_name : hashable, or tuple of them
        Names of mapped axes; ints are positions of array axes, as in `purax.numpy.sum`.
    axis_index_groups : sequence of sequences of int, optional
        Lanes that sum among themselves.

    Returns
    -------
    pytree like `x`

    Raises
    ------
    NameError
        No axis of that name is in scope.
    """
    return _reduced(psum_p, x, axis_name, axis_index_groups, reduction.reduce_sum, _times)


def pmean(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """Mean over the lanes of one or more named axes, in float32 for integers.

    See `purax.primitives.collective` for the arguments that its functions share.

    Parameters
    ----------
    x : pytree of arrays

    Returns
    -------
    pytree like `x`
    """
    names, numbers = _split_names(axis_name)
    _groups(axis_index_groups, names)
    total = psum(x, axis_name, axis_index_groups=axis_index_groups)
    size = len(axis_index_groups[0]) if axis_index_groups is not None else bound_size(names)

    def mean(leaf: Any, whole: Any) -> Any:
        count = size * math.prod([aval_of(whole).shape[n] for n in numbers])
        if isinstance(leaf, (bool, int, float, complex)):
            return leaf / count
        dtype = aval_of(leaf).dtype
        if not dtypes.is_inexact(dtype):
            leaf = cast.convert_element_type(leaf, np.float32)
        return elementwise.div(leaf, np.asarray(count, aval_of(leaf).dtype))

    return tree.map(mean, total, x)


def pmax(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """Maximum over the lanes of one or more named axes; dtypes and shapes stay as they are.

    See `purax.primitives.collective` for the arguments that its functions share.
    """
    return _reduced(pmax_p, x, axis_name, axis_index_groups, reduction.reduce_max, lambda leaf, size: leaf)


def pmin(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """Minimum over the lanes of one or more named axes; dtypes and shapes stay as they are.

    See `purax.primitives.collective` for the arguments that its functions share.
    """
    return _reduced(pmin_p, x, axis_name, axis_index_groups, reduction.reduce_min, lambda leaf, size: leaf)


def ppermute(x: Any, axis_name: Any, perm: Sequence[tuple[int, int]]) -> Any:
    """Send values from lane to lane.

    Parameters
    ----------
    x : pytree of arrays
    axis_name : hashable
    perm : sequence of (source, target)
        No lane twice as a target or as a source; lanes that are no target get zeros.

    Returns
    -------
    pytree like `x`

    Raises
    ------
    ValueError
        A lane occurs twice, or does not exist.
    """
    names, _ = _split_names(axis_name)
    size = bound_size(names)
    pairs = tuple([(operator.index(s), operator.index(t)) for s, t in perm])
    for what, lanes in (("sources", [s for s, _ in pairs]), ("targets", [t for _, t in pairs])):
        if len(set(lanes)) != len(lanes) or not all(0 <= i < size for i in lanes):
            raise ValueError(
                f"ppermute {what} and destinations must be unique lanes of an axis of size {size}, got {pairs}"
            )
    return tree.map(lambda leaf: ppermute_p.bind1(leaf, axes=names, perm=pairs), x)


def pshuffle(x: Any, axis_name: Any, perm: Sequence[int]) -> Any:
    """Lane i gets the value of lane `perm[i]`.

    See `purax.primitives.collective` for the arguments that its functions share.

    Parameters
    ----------
    x : pytree of arrays
    perm : sequence of int
        A permutation of the lanes.

    Returns
    -------
    pytree like `x`

    Raises
    ------
    ValueError
        `perm` is no permutation.
    """
    if set(perm) != set(range(len(perm))):
        raise ValueError(f"`perm` does not represent a permutation: {perm}")
    return ppermute(x, axis_name, [(source, target) for target, source in enumerate(perm)])


def all_gather(
    x: Any, axis_name: Any, *, axis_index_groups: Any = None, axis: int = 0, tiled: bool = False, to: str = "varying"
) -> Any:
    """Values of all lanes, in every lane.

    See `purax.primitives.collective` for the arguments that its functions share.

    Parameters
    ----------
    x : pytree of arrays
    axis_name : hashable, or tuple of them
    axis : int
        The new axis along which the values lie; with `tiled`, the axis along which they are joined.
    tiled : bool
    to : str
        "varying": the result counts as varying over the axis, though all lanes hold the same. "invarying": it does not, and its
        cotangent is one for all lanes.

    Returns
    -------
    pytree like `x`

    Raises
    ------
    ValueError
        Another `to`.
    """
    if to not in ("varying", "invarying"):
        raise ValueError(f"all_gather: to must be 'varying' or 'invarying', got {to!r}")
    names, _ = _split_names(axis_name)
    rows = _groups(axis_index_groups, names)

    def gathered(leaf: Any) -> Any:
        ndim = aval_of(leaf).ndim + (not tiled)
        dim = shape.canonical_axis(axis, ndim)
        if not tiled:
            leaf = shape.expand_dims(leaf, (dim,))
        for name in [names] if rows else [(n,) for n in reversed(names)]:
            size = len(rows[0]) if rows else bound_size(name)
            leaf = all_gather_p.bind1(
                leaf, axes=tuple(name), dim=dim, size=size, groups=rows, shared=to == "invarying" and not rows
            )
        return leaf

    return tree.map(gathered, x)


def psum_scatter(
    x: Any, axis_name: Any, *, scatter_dimension: int = 0, axis_index_groups: Any = None, tiled: bool = False
) -> Any:
    """Sum over lanes of which each lane keeps one part.

    See `purax.primitives.collective` for the arguments that its functions share.

    Parameters
    ----------
    x : pytree of arrays
    axis_name : hashable, or tuple of them
    scatter_dimension : int
        The axis that is divided among the lanes.
    tiled : bool
        Keep the axis, shorter; otherwise its size must be the number of lanes, and it goes.

    Returns
    -------
    pytree like `x`, with `scatter_dimension` shorter or gone

    Raises
    ------
    ValueError
        Without `tiled`, a size that is not the number of lanes.
    """
    names, _ = _split_names(axis_name)
    rows = _groups(axis_index_groups, names)
    count = len(rows[0]) if rows else bound_size(names)

    def scattered(leaf: Any) -> Any:
        sizes = aval_of(leaf).shape
        dim = shape.canonical_axis(scatter_dimension, len(sizes))
        if not tiled and sizes[dim] != count:
            raise ValueError(
                f"reduce_scatter operand scatter dimension size {sizes[dim]} must match shard_count {count}"
            )
        for name in [names] if rows else [(n,) for n in names]:
            size = len(rows[0]) if rows else bound_size(name)
            leaf = psum_scatter_p.bind1(leaf, axes=tuple(name), dim=dim, size=size, groups=rows)
        return leaf if tiled else shape.squeeze(leaf, (dim,))

    return tree.map(scattered, x)


def all_to_all(
    x: Any, axis_name: Any, split_axis: int, concat_axis: int, *, axis_index_groups: Any = None, tiled: bool = False
) -> Any:
    """Divide `split_axis` among the lanes, and join what comes from them along `concat_axis`.

    See `purax.primitives.collective` for the arguments that its functions share.

    Parameters
    ----------
    x : pytree of arrays
    axis_name : hashable
    split_axis, concat_axis : int
    tiled : bool
        Otherwise `split_axis`, of as many elements as there are lanes, goes, and `concat_axis` is new.

    Returns
    -------
    pytree like `x`

    Raises
    ------
    ValueError
        Without `tiled`, a size that is not the number of lanes.
    ShapeError
        With `tiled`, a size that they do not divide.
    """
    names, _ = _split_names(axis_name)
    rows = _groups(axis_index_groups, names)
    size = len(rows[0]) if rows else bound_size(names)

    def exchanged(leaf: Any) -> Any:
        sizes = aval_of(leaf).shape
        split, joined = shape.canonical_axis(split_axis, len(sizes)), shape.canonical_axis(concat_axis, len(sizes))
        gone: tuple[int, ...] = ()
        if tiled and sizes[split] % size:
            raise errors.ShapeError(
                f"all_to_all: axis {split} of size {sizes[split]} cannot be divided among {size} lanes"
            )
        if not tiled:
            if sizes[split] != size:
                raise ValueError(
                    f"all_to_all requires the size of the mapped axis axis_name to equal x.shape[split_axis], but they are {size} and {sizes[split]} respectively."
                )
            if split < joined:
                joined += 1
            elif split > joined:
                split += 1
            if split != joined:
                leaf, gone = shape.expand_dims(leaf, (joined,)), (split,)
        if rows or len(names) == 1:
            out = all_to_all_p.bind1(leaf, axes=names, split=split, joined=joined, size=size, groups=rows)
        else:
            out = _in_turn(leaf, names, split, joined, size)
        return shape.squeeze(out, gone) if gone else out

    return tree.map(exchanged, x)


def _in_turn(x: Any, names: tuple[Any, ...], split: int, joined: int, size: int) -> Any:
    """`all_to_all` over several axes: `split` gets an axis of receivers for each, `joined` an axis of senders in front."""
    sizes = list(aval_of(x).shape)
    lanes = [bound_size(name) for name in names]
    parts = [[n] for n in sizes]
    parts[split] = [*lanes, sizes[split] // size]
    parts[joined] = [*[1] * len(names), *parts[joined]]
    starts = [sum(map(len, parts[:i])) for i in range(len(parts))]
    receivers = starts[split] + (len(names) if split == joined else 0)
    x = shape.reshape(x, [n for part in parts for n in part])
    for i, (name, count) in enumerate(zip(names, lanes, strict=True)):
        x = all_to_all_p.bind1(x, axes=(name,), split=receivers + i, joined=starts[joined] + i, size=count, groups=None)
    sizes[split] //= size
    sizes[joined] *= size
    return shape.reshape(x, sizes)


def pswapaxes(x: Any, axis_name: Any, axis: int, *, axis_index_groups: Any = None) -> Any:
    """Exchange the mapped axis with an axis of the array of the same size.

    See `purax.primitives.collective` for the arguments that its functions share.

    Parameters
    ----------
    x : pytree of arrays
    axis : int

    Returns
    -------
    pytree like `x`
    """
    return all_to_all(x, axis_name, axis, axis, axis_index_groups=axis_index_groups)


def pbroadcast(x: Any, axis_name: Any, source: int) -> Any:
    """The value of lane `source`, in every lane.

    See `purax.primitives.collective` for the arguments that its functions share.

    Parameters
    ----------
    x : pytree of arrays
    source : int

    Returns
    -------
    pytree like `x`
    """
    here = comparison.eq(axis_index(axis_name), np.int32(source))

    def sent(leaf: Any) -> Any:
        aval = aval_of(leaf)
        kept = elementwise.select_n_p.bind1(
            shape.broadcast(here, aval.shape),
            shape.full_like_aval(aval.with_varying(frozenset()).strip_weak(), 0),
            leaf,
        )
        return cast.convert_element_type(psum(kept, axis_name), aval.dtype)

    return tree.map(sent, x)


def axis_index(axis_name: Any) -> Any:
    """Number of the lane along a named axis (along several: the first is major), an int32 scalar.

    See `purax.primitives.collective` for the arguments that its functions share.

    Raises
    ------
    NameError
        No axis of that name is in scope.
    """
    names, _ = _split_names(axis_name)
    total: Any = None
    for name in names:
        index = axis_index_p.bind1(axes=(name,), size=bound_size(name))
        total = index if total is None else elementwise.add(elementwise.mul(total, np.int32(bound_size(name))), index)
    return np.int32(0) if total is None else total


def axis_size(axis_name: Any) -> int:
    """Number of lanes of a named axis (of several: the product), a Python int.

    See `purax.primitives.collective` for the arguments that its functions share.

    Raises
    ------
    NameError
        No axis of that name is in scope.
    """
    return bound_size(axis_name)


def pvary(x: Any, axis_name: Any) -> Any:
    """The same values, dtypes and shapes, counted as different in each lane: what is differentiated by them is each lane's own.

    See `purax.primitives.collective` for the arguments that its functions share.
    """
    names, _ = _split_names(axis_name)

    def marked(leaf: Any) -> Any:
        axes = tuple([name for name in names if name not in aval_of(leaf).varying])
        return pvary_p.bind1(leaf, axes=axes) if axes else leaf

    return tree.map(marked, x)


def pcast(x: Any, axis_name: Any, *, to: str) -> Any:
    """The same values with another type: ``to="varying"`` is `pvary`.

    See `purax.primitives.collective` for the arguments that its functions share.

    Parameters
    ----------
    x : pytree of arrays
    to : "varying"

    Returns
    -------
    pytree like `x`

    Raises
    ------
    ValueError
        `to` is something else; a value that varies becomes one that does not by a collective only.
    """
    if to != "varying":
        raise ValueError(
            f"pcast: to must be 'varying', got {to!r}; use psum, pmax or another reduction for the way back"
        )
    return pvary(x, axis_name)
