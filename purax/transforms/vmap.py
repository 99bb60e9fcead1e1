# SPDX-License-Identifier: Apache-2.0
"""Vectorization: every value may carry one extra axis, every primitive says by its `batch` rule what becomes of it."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from purax import config, dtypes, errors, tree
from purax.core.axes import Axis, named_axes
from purax.core.interpret import eval_jaxpr
from purax.core.ir import Jaxpr, intern
from purax.core.leaks import check_leaks
from purax.core.name_stack import VMAP
from purax.core.passes import finds
from purax.core.source import opened
from purax.core.stage import StageTrace, recording
from purax.core.trace import Trace, Tracer, aval_of, bind_in, current
from purax.core.verify import inner_jaxprs
from purax.primitives import shape as shapes
from purax.primitives.resharding import reshard_to
from purax.sharding.spec import names_of
from purax.sharding.spread import Spread, uncut
from purax.transforms.flat import argument_names, check_arrays, like, name_of

__all__ = ["BatchTrace", "batch_flat", "batch_jaxpr", "to_front", "vmap"]


@functools.lru_cache(maxsize=4096)
def _lane_aval(aval: Any, dim: int | None, name: Any) -> Any:
    """Type of one lane of a value that is mapped along `dim`."""
    if name is not None:
        aval = aval.with_varying(aval.varying | {name})
    return aval if dim is None else aval.without_axis(dim)


class BatchTracer(Tracer):
    """One lane of a value that has an extra axis at `dim`; None: of a value that is stored once and counts as varying."""

    __slots__ = ("dim", "value")

    def __init__(self, trace: Any, value: Any, dim: int | None) -> None:
        self._trace = trace
        self.aval = _lane_aval(aval_of(value), dim, trace.axis.name)
        self.value = value
        self.dim = dim

    def origin(self) -> str:
        """Why there is no single value."""
        return "inside vmap it stands for one lane of many"


class BatchTrace(Trace):
    """Applies batching rules along one axis."""

    __slots__ = ("axis",)
    kind = "vmap"

    def __init__(self, parent: Any, axis: Axis, name: str = "", tag: Any = None) -> None:
        super().__init__(parent, name, object() if tag is None else tag)
        self.axis = axis

    def process(self, primitive: Any, operands: tuple[Any, ...], params: dict[str, Any]) -> tuple[Any, ...]:
        """Apply the primitive's batching rule in the parent trace."""
        values: list[Any] = []
        dims: list[int | None] = []
        active = False
        name = self.axis.name
        for x in operands:
            if type(x) is BatchTracer and (x._trace is self or x._trace.tag is self.tag):
                values.append(x.value)
                dims.append(x.dim)
                active = True
            else:
                values.append(x)
                dims.append(None)
        if primitive.batch_call is not None and params["jaxpr"] is None:  # its function may close over mapped values
            token = current.set(self.parent)
            try:
                outs, out_dims = primitive.batch_call(self, tuple(values), tuple(dims), params)
            finally:
                current.reset(token)
            return tuple([o if d is None else BatchTracer(self, o, d) for o, d in zip(outs, out_dims, strict=True)])
        own = name is not None and (_names(primitive, params, name) or _types(params, name))
        token = current.set(self.parent)
        try:
            if not active and not own:
                return bind_in(self.parent, primitive, operands, params)
            if name is not None and not own and not any(d is not None for d in dims):
                outs = bind_in(self.parent, primitive, tuple(values), params)
                out_dims = (None,) * len(outs)
            else:
                outs, out_dims = primitive.batch(self.axis, tuple(values), tuple(dims), **params)
        finally:
            current.reset(token)
        if name is not None and None in out_dims:
            return self._typed(primitive, operands, params, outs, out_dims)
        return tuple([o if d is None else BatchTracer(self, o, d) for o, d in zip(outs, out_dims, strict=True)])

    def _typed(
        self, primitive: Any, operands: Any, params: dict[str, Any], outs: Any, out_dims: Any
    ) -> tuple[Any, ...]:
        """Outputs without a mapped axis vary over the named axis all the same where their types say so."""
        avals = primitive.outputs(tuple([aval_of(x) for x in operands]), params)
        return tuple([
            o if d is None and self.axis.name not in a.varying else BatchTracer(self, o, d)
            for o, d, a in zip(outs, out_dims, avals, strict=True)
        ])  # fmt: skip


def _names(primitive: Any, params: dict[str, Any], name: Any) -> bool:
    """Whether an operation, or a program that it holds, names the axis: then it is mapped, whatever its operands are."""
    if primitive.names_axes:
        return name in params["axes"]

    def wanted(eqn: Any) -> bool:
        return bool(eqn.primitive.names_axes and name in eqn.params["axes"])

    return any(finds(jaxpr, ("names", name), wanted) for jaxpr in inner_jaxprs(params))


def _types(params: dict[str, Any], name: Any) -> bool:
    """Whether an operation is of the mapping although none of its operands is mapped.

    A program that it holds may have inputs that vary over the axis: outside of the mapping nothing does. And a rule of the user's
    may name the axis when it runs.
    """
    return "rule" in params or any(name in v.aval.varying for jaxpr in inner_jaxprs(params) for v in jaxpr.invars)


def batch_flat(
    fun: Callable[..., Sequence[Any]], axis: Axis, operands: Sequence[Any], dims: Sequence[int | None], tag: Any = None
) -> tuple[list[Any], list[int | None]]:
    """Outputs of a flat function mapped over `dims` of its operands, with the axis of each output (None: not mapped).

    `tag` makes it part of a mapping that is under way.

    Parameters
    ----------
    fun : callable
    axis : Axis
    operands : sequence of arrays
    dims : sequence of int or None
    tag : object, optional

    Returns
    -------
    (list of arrays, list of int or None)
    """
    trace = BatchTrace(current.get(), axis, getattr(fun, "__name__", ""), tag)
    inputs = [x if d is None else BatchTracer(trace, x, d) for x, d in zip(operands, dims, strict=True)]
    if axis.name is None:
        outputs = _run(trace, fun, inputs)
    else:
        with named_axes({axis.name: axis.size}, lanes=True):
            outputs = _run(trace, fun, inputs)
    outs: list[Any] = []
    out_dims: list[int | None] = []
    x = None
    for x in outputs:
        own = type(x) is BatchTracer and x._trace.tag is trace.tag
        outs.append(x.value if own else x)
        out_dims.append(x.dim if own else None)
    if config.check_tracer_leaks:
        ended = weakref.ref(trace)
        del trace, inputs, outputs, x
        check_leaks(ended)
    return outs, out_dims


def _run(trace: BatchTrace, fun: Callable[..., Any], inputs: Sequence[Any]) -> Sequence[Any]:
    token = current.set(trace)
    try:
        return fun(*inputs)
    finally:
        current.reset(token)


def to_front(x: Any, dim: int | None, size: int) -> Any:
    """`x` with its mapped axis first; repeated along it if it has none.

    Parameters
    ----------
    x : array
    dim : int or None
    size : int

    Returns
    -------
    array[size, ...]
    """
    return _repeated(x, size, 0) if dim is None else shapes.move_batch_axis(x, dim, 0)


def _repeated(x: Any, size: int, axis: int) -> Any:
    if aval_of(x).dtype == dtypes.float0:
        return np.zeros((*np.shape(x)[:axis], size, *np.shape(x)[axis:]), dtypes.float0)
    return shapes.broadcast_batch(x, size, axis)


def batch_jaxpr(
    jaxpr: Jaxpr, axis: Axis, batched: tuple[bool, ...], wanted: tuple[bool, ...] | None = None
) -> tuple[Jaxpr, tuple[bool, ...]]:
    """The mapped form of an inner jaxpr: mapped inputs and outputs carry the axis in front.

    Parameters
    ----------
    jaxpr : Jaxpr
        Without constants.
    axis : Axis
    batched : tuple of bool
        Which inputs are mapped.
    wanted : tuple of bool, optional
        Outputs that must be mapped even if they do not depend on a mapped input (loop carries).

    Returns
    -------
    jaxpr : Jaxpr
        Interned, and remembered on the jaxpr it is made from.
    out_batched : tuple of bool
    """
    key = ("batch", axis, batched, wanted)
    found = jaxpr.derived.get(key)
    if found is None:
        trace = StageTrace(None, jaxpr.name, "vmap", embed=True)
        own = frozenset((axis.name,))
        avals = [a.with_varying(a.varying - own) for a in jaxpr.in_avals]
        inputs = [
            trace.new_input(a.with_axis(0, axis.size, axis.spmd) if b else a)
            for a, b in zip(avals, batched, strict=True)
        ]

        def lanes(*xs: Any) -> list[Any]:
            """The program; inputs that count as varying do so although they are stored once."""
            marked = [a is not v.aval and not b for a, v, b in zip(avals, jaxpr.invars, batched, strict=True)]
            home = current.get()
            return eval_jaxpr(
                jaxpr, (), *[BatchTracer(home, x, None) if m else x for x, m in zip(xs, marked, strict=True)]
            )

        with recording(trace):
            outs, dims = batch_flat(lanes, axis, inputs, [0 if b else None for b in batched])
            out_batched = [d is not None or (wanted is not None and wanted[i]) for i, d in enumerate(dims)]
            outs = [to_front(o, d, axis.size) if b else o for o, d, b in zip(outs, dims, out_batched, strict=True)]
        found = jaxpr.derived[key] = (intern(trace.close(inputs, outs).jaxpr), tuple(out_batched))
    return found


# --- public form ------------------------------------------------------------------------------------------------------------


def vmap(
    fun: Callable[..., Any], in_axes: Any = 0, out_axes: Any = 0, axis_name: Any = None, axis_size: int | None = None,
    spmd_axis_name: Any = None, sum_match: bool = False,
) -> Callable[..., Any]:  # fmt: skip
    """Map `fun` over an axis of its arguments, without a loop.

    Parameters
    ----------
    fun : callable
    in_axes : int, None, or a pytree prefix of the positional arguments
        Axis to map over, per argument; None: the same value in every lane. Keyword arguments are mapped over axis 0.
    out_axes : int, None, or a pytree prefix of the output
        Where the mapped axis appears in the output.
    axis_name : hashable, optional
        Name for collectives (`purax.lax.psum`).
    axis_size : int, optional
        Needed when nothing is mapped.
    spmd_axis_name : str or tuple of str, optional
        Mesh axes that sharding constraints and shard_map inside `fun` cut the mapped axis along.
    sum_match : bool
        Without effect.

    Returns
    -------
    callable

    Raises
    ------
    ValueError
        Mapped axes of different sizes, or `in_axes` that does not fit the arguments.
    TypeError
        `fun` cannot be called, or axes are neither ints nor None.
    """
    del sum_match
    if not callable(fun):
        raise TypeError(f"vmap: the first argument must be callable, got {fun!r}")
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    if not (in_axes is None or isinstance(in_axes, (int, tuple, np.integer))):
        raise TypeError(
            f"vmap in_axes must be an int, None, or a tuple of entries corresponding to the positional arguments passed to "
            f"the function, but got {in_axes}."
        )
    for leaf in tree.leaves(in_axes):
        if not isinstance(leaf, (int, np.integer)) or isinstance(leaf, bool):
            raise TypeError(
                f"vmap in_axes must be an int, None, or (nested) container with those types as leaves, but got {in_axes}."
            )
    for leaf in tree.leaves(out_axes):
        if not isinstance(leaf, (int, np.integer)) or isinstance(leaf, bool):
            raise TypeError(
                f"vmap out_axes must be an int, None, or (nested) container with those types as leaves, but got {out_axes}."
            )

    name = name_of(fun)

    def mapped(*args: Any, **kwargs: Any) -> Any:
        if isinstance(in_axes, tuple) and len(in_axes) != len(args):
            raise ValueError(
                f"vmap in_axes must be an int, None, or a tuple of entries corresponding to the positional arguments passed to "
                f"the function, but got len(in_axes)={len(in_axes)}, len(args)={len(args)}"
            )
        leaves, treedef = tree.flatten((args, kwargs))
        names = lambda: argument_names(fun, args, kwargs)
        axes = [0] * len(leaves) if in_axes == 0 else tree.flatten_axes("vmap in_axes", treedef, (in_axes, 0))
        # What is not mapped may be anything.
        check_arrays(f"vmap({name})", [0 if a is None else x for x, a in zip(leaves, axes, strict=True)], names)
        dims = [_normal_axis(a, x, i, names) for i, (a, x) in enumerate(zip(axes, leaves, strict=True))]
        size = _mapped_size(name, axis_size, leaves, dims, names, in_axes)
        structures: list[Any] = []

        def flat(*lanes: Any) -> list[Any]:
            args, kwargs = treedef.unflatten(lanes)
            outs, structure = tree.flatten(fun(*args, **kwargs))
            structures.append(structure)
            paths = lambda: [tree.keystr(p) for p in tree.paths(structure)]
            check_arrays(f"vmap({name})", outs, paths, "output")
            return outs

        flat.__name__ = name
        cut = _cut(leaves, dims, names)
        if cut is not None and spmd_axis_name is not None and names_of(spmd_axis_name) != cut.parts[0]:
            raise ValueError(
                f"Only one of spmd_axis_name or arrays sharded on spmd_axis_name can be given to vmap, got spmd_axis_name={spmd_axis_name!r}, "
                f"and the mapped axis of an argument is cut along {cut.parts[0]}; leave spmd_axis_name out"
            )
        with opened(VMAP if current.get() is not None else None):
            outs, out_dims = batch_flat(
                flat, Axis(axis_name, size, spmd_axis_name or (None if cut is None else cut.parts[0])), leaves, dims
            )
        (out_tree,) = structures
        wanted = [0] * len(outs) if out_axes == 0 else tree.flatten_axes("vmap out_axes", out_tree, out_axes)
        placed = [_place(o, d, w, size, name) for o, d, w in zip(outs, out_dims, wanted, strict=True)]
        if cut is not None and None in out_dims:
            for i, (d, w) in enumerate(zip(out_dims, wanted, strict=True)):
                if d is None and w is not None:
                    placed[i] = _lanes_cut(placed[i], w, cut)
        return out_tree.unflatten(placed)

    mapped = like(mapped, fun, "vmap")
    mapped.__doc__ = (
        f"Vectorized version of {name_of(fun)}. Takes similar arguments as {name_of(fun)}, with an additional axis where `in_axes` says so."
        + (f"\n\nOriginal documentation:\n\n{fun.__doc__}" if getattr(fun, "__doc__", None) else "")
    )
    return mapped


def _normal_axis(axis: Any, x: Any, i: int, names: Callable[[], list[str]]) -> int | None:
    if axis is None:
        return None
    ndim = aval_of(x).ndim
    if type(axis) is int and 0 <= axis < ndim:
        return axis
    if not -ndim <= axis < ndim:
        raise ValueError(
            f"vmap was requested to map its argument along axis {axis}, which implies that its rank should be at least "
            f"{axis + 1 if axis >= 0 else -axis}, but argument {names()[i]} has rank only {ndim} (its shape is {aval_of(x).shape})"
        )
    return int(axis) % ndim


def _cut(leaves: Sequence[Any], dims: Sequence[int | None], names: Callable[[], list[str]]) -> Spread | None:
    """How the mapped axis is cut along explicit mesh axes: alike for all arguments whose types tell; None: it is not."""
    found: dict[Any, int] = {}
    for i, (x, d) in enumerate(zip(leaves, dims, strict=True)):
        if d is not None and (spread := aval_of(x).spread) is not None:
            found.setdefault(spread.parts[d], i)
            mesh = spread.mesh
    if len(found) > 1:
        told = ", ".join(f"{names()[i]} of type {aval_of(leaves[i]).str_short()}" for i in found.values())
        raise errors.ShardingTypeError(
            errors.explain(
                f"mapped away dimension of inputs passed to vmap should be sharded the same, got {told}",
                "the lanes of one mapping lie on one set of devices",
                "`reshard` one of the arguments",
            )
        )
    part = next(iter(found), None)
    return Spread.make(mesh, (part,)) if part else None


def _lanes_cut(x: Any, dim: int, cut: Spread) -> Any:
    """A result of which all lanes are the same, lying as the other results do along the mapped axis."""
    aval = aval_of(x)
    spread = uncut(cut.mesh, aval.ndim) if aval.spread is None else aval.spread
    parts = list(spread.parts)
    parts[dim] = cut.parts[0]
    return reshard_to(x, spread.replace(parts))


def _mapped_size(
    name: str,
    given: int | None,
    leaves: Sequence[Any],
    dims: Sequence[int | None],
    names: Callable[[], list[str]],
    in_axes: Any,
) -> int:
    if given is None and len(leaves) == 1 and dims[0] is not None:
        return aval_of(leaves[0]).shape[dims[0]]
    sizes = {i: aval_of(x).shape[d] for i, (x, d) in enumerate(zip(leaves, dims, strict=True)) if d is not None}
    found = set(sizes.values())
    if given is not None:
        found.add(given)
    if not found:
        if not leaves:
            raise ValueError(
                f"vmap wrapped function must be passed at least one argument containing an array, got empty *args and **kwargs ({name})"
            )
        raise ValueError(f"vmap must have at least one non-None value in in_axes, or an axis_size (in_axes={in_axes})")
    if len(found) > 1:
        rows = "\n".join(
            f"  * {names()[i]}: axis {dims[i]} of shape {aval_of(leaves[i]).shape} has size {size}"
            for i, size in sizes.items()
        )
        extra = f"\n  * axis_size={given}" if given is not None else ""
        raise ValueError(errors.explain(f"vmap got inconsistent sizes for array axes to be mapped:\n{rows}{extra}", "all mapped axes have one size", "map other axes by in_axes, or pass None for arguments shared by all lanes"))  # fmt: skip
    return int(found.pop())


def _place(x: Any, dim: int | None, wanted: Any, size: int, name: str) -> Any:
    if dim is not None and wanted == dim:
        return x
    if wanted is None:
        if dim is not None:
            raise ValueError(
                f"vmap has mapped output ({name}) but out_axes is None: the output depends on the mapped axis"
            )
        return x
    ndim = aval_of(x).ndim + (dim is None)
    if not -ndim <= wanted < ndim:
        raise ValueError(f"vmap out_axes={wanted} is out of bounds for an output of {ndim} axes ({name})")
    wanted = int(wanted) % ndim
    return _repeated(x, size, wanted) if dim is None else shapes.move_batch_axis(x, dim, wanted)
