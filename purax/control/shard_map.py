# SPDX-License-Identifier: Apache-2.0
"""`shard_map`: a function of pieces, run by every device of a mesh on its own, with collectives among them.

The primitive holds the local program. Values in it are typed by the mesh axes that they vary over: an operand by the axes that
cut it, the others by what they are computed from; derivatives follow from the types (docs/design/005-varying-axes.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from purax import dtypes, errors, tree
from purax.control import pieces, refs
from purax.control.program import stage_touching
from purax.core.axes import Axis, manual_axes, named_axes
from purax.core.interpret import eval_jaxpr, reference_eval
from purax.core.ir import Equation, Jaxpr, Var, intern
from purax.core.passes import dead_code
from purax.core.primitive import Primitive
from purax.core.stage import StageTrace, recording
from purax.core.trace import Tracer, aval_of, current
from purax.lowering.manual import manual_computation
from purax.primitives import collective, elementwise, joining, reduction, resharding, shape
from purax.primitives.base import is_linear
from purax.sharding import (
    AbstractMesh,
    AxisType,
    Mesh,
    NamedSharding,
    PartitionSpec,
    Spread,
    current_mesh,
    get_abstract_mesh,
    uncut,
    use_abstract_mesh,
)
from purax.sharding.spec import names_of
from purax.transforms.flat import argument_names, check_arrays, name_of
from purax.transforms.jvp import jvp_jaxpr
from purax.transforms.transpose import linearize_jaxpr, transpose_jaxpr
from purax.transforms.vmap import batch_jaxpr

__all__ = ["shard_map", "smap"]

Specs = tuple[PartitionSpec, ...]
_WHOLE = PartitionSpec()


def spec_names(spec: PartitionSpec) -> frozenset[str]:
    """The mesh axes that a spec names."""
    return frozenset(spec.axis_names())


def _cuts(spec: PartitionSpec, mesh: Mesh, ndim: int) -> tuple[int, ...]:
    sizes = mesh.shape
    parts = [*map(names_of, spec), *[()] * (ndim - len(spec))]
    return tuple(math.prod([sizes[name] for name in part]) for part in parts)


def local_aval(aval: Any, spec: PartitionSpec, mesh: Mesh, axes: Sequence[str]) -> Any:
    """Type of the piece that one device gets."""
    cuts = _cuts(spec, mesh, aval.ndim)
    pieces = tuple(size // cut for size, cut in zip(aval.shape, cuts, strict=True))
    local = aval.update(shape=pieces).with_varying((aval.varying - frozenset(axes)) | spec_names(spec))
    spread = aval.spread
    if spread is None:
        return local
    return local.with_spread(spread.on(spread.mesh.update_axis_types(dict.fromkeys(axes, AxisType.Manual))))


def whole_aval(
    aval: Any, spec: PartitionSpec, mesh: Mesh, axes: tuple[str, ...], around: AbstractMesh | None = None
) -> Any:
    """Type of what the pieces make; `around` is the mesh of the types outside, if it has explicit axes."""
    cuts = _cuts(spec, mesh, aval.ndim)
    sizes = tuple(size * cut for size, cut in zip(aval.shape, cuts, strict=True))
    whole = aval.update(shape=sizes).with_varying(aval.varying - frozenset(axes))
    if around is None:
        return whole
    parts = uncut(around, aval.ndim).parts if aval.spread is None else aval.spread.parts
    explicit = frozenset(around.explicit_axes)
    own = [*map(names_of, spec), *[()] * (aval.ndim - len(spec))]
    joined = [(*[n for n in mine if n in explicit], *part) for mine, part in zip(own, parts, strict=True)]
    return whole.with_spread(Spread.make(around, joined))


def inner_mesh(mesh: Any, axes: Sequence[str]) -> AbstractMesh:
    """What the current mesh is within a region that has these axes in its own hands."""
    around = get_abstract_mesh()
    base = around if around.shape_tuple == mesh.shape_tuple else mesh.abstract_mesh
    return base.update_axis_types(dict.fromkeys(axes, AxisType.Manual))


class ShardMap(Primitive):
    """Run a local program on every device of a mesh.

    Params
    ------
    jaxpr : Jaxpr
        The local program, without constants.
    mesh : Mesh
    in_specs, out_specs : tuple of PartitionSpec
    axes : tuple of str
        The axes of the mesh that the program sees; along the others the partitioner works.
    lanes : bool
        Each device differentiates by its own values (pmap), not by the one value that all devices share.
    """

    types_axes = True
    types_spread = True

    def infer(
        self, *avals: Any, jaxpr: Jaxpr, mesh: Mesh, in_specs: Specs, out_specs: Specs, axes: Any, lanes: bool
    ) -> Any:
        """Types of the whole results."""
        hidden = frozenset(axes).intersection(
            frozenset().union(*[a.varying for a in avals])
        )  # outer axes of the same names
        around = next((a.spread.mesh for a in avals if a.spread is not None), None)
        if around is None and mesh.explicit_axes:
            around = mesh.abstract_mesh
        outs = [whole_aval(a, s, mesh, axes, around) for a, s in zip(jaxpr.out_avals, out_specs, strict=True)]
        return tuple([a.with_varying(a.varying | hidden) for a in outs]) if hidden else tuple(outs)

    def effects(self, params: dict[str, Any]) -> frozenset[Any]:
        """Effects of the local program."""
        return params["jaxpr"].effects

    def reference(
        self, *operands: Any, jaxpr: Jaxpr, mesh: Mesh, in_specs: Specs, out_specs: Specs, axes: Any, lanes: bool
    ) -> Any:
        """The pieces side by side along one new axis per mesh axis, and the local program mapped over these."""
        sizes = tuple(mesh.shape[name] for name in axes)
        stacked = [_pieces(np.asarray(x), spec, mesh, axes) for x, spec in zip(operands, in_specs, strict=True)]
        everything = tuple([True] * len(jaxpr.outvars))
        for name, size in reversed(list(zip(axes, sizes, strict=True))):
            jaxpr, _ = batch_jaxpr(jaxpr, Axis(name, size), tuple([True] * len(stacked)), everything)
        outs = reference_eval(jaxpr, (), *stacked)
        return tuple([_joined(x, spec, mesh, axes) for x, spec in zip(outs, out_specs, strict=True)])

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> Any:
        """The local derivative; tangents are cut as their primals."""
        jaxpr, in_specs, out_specs = params["jaxpr"], params["in_specs"], params["out_specs"]
        nonzero = tuple([t is not None for t in tangents])
        with _scope(params):
            derived, out_nonzero = jvp_jaxpr(jaxpr, nonzero)
        results = self.bind(
            *primals, *[t for t in tangents if t is not None],
            **{
                **params, "jaxpr": derived, "in_specs": (*in_specs, *_where(in_specs, nonzero)),
                "out_specs": (*out_specs, *_where(out_specs, out_nonzero)),
            },
        )  # fmt: skip
        rest = iter(results[len(out_specs) :])
        return results[: len(out_specs)], tuple([next(rest) if n else None for n in out_nonzero])

    def linearize(self, primals: Any, tangents: Any, params: dict[str, Any]) -> Any:
        """Run forward, keeping local residuals (stacked over the devices); the linear part goes on the tape."""
        jaxpr, in_specs, out_specs = params["jaxpr"], params["in_specs"], params["out_specs"]
        nonzero = tuple([t is not None for t in tangents])
        count = len(out_specs)
        with _scope(params):
            parts = linearize_jaxpr(jaxpr, nonzero)
            kept = [_residual_spec(a, params) for a in parts.forward.out_avals[count:]]
            forward = _staged(
                lambda *xs: _stacked(eval_jaxpr(parts.forward, (), *xs), count, kept), jaxpr.in_avals, jaxpr.name
            )
            results = self.bind(*primals, **{**params, "jaxpr": forward, "out_specs": (*out_specs, *kept)})
            residuals = parts.pick(primals, results)
            specs, stacked = [], []
            for where, i in parts.residuals:
                specs.append(in_specs[i] if where == "in" else (*out_specs, *kept)[i])
                stacked.append(where == "out" and i >= count and len(specs[-1]) > 0)
            given = [t for t in tangents if t is not None]
            specs += _where(in_specs, nonzero)
            program = _unstacked(parts.linear, stacked)
        wanted = _where(out_specs, parts.out_nonzero)
        out_tangents = self.bind(
            *residuals, *given, **{**params, "jaxpr": program, "in_specs": tuple(specs), "out_specs": tuple(wanted)}
        )
        rest = iter(out_tangents)
        return results[:count], tuple([next(rest) if n else None for n in parts.out_nonzero])

    def transpose(self, cotangents: Any, operands: Any, **params: Any) -> Any:
        """The local transpose; what all devices share gets the sum over the devices."""
        jaxpr, mesh, axes = params["jaxpr"], params["mesh"], params["axes"]
        linear = tuple([is_linear(x) for x in operands])
        nonzero = tuple([c is not None for c in cotangents])
        with _scope(params):
            transposed, out_nonzero, cells = transpose_jaxpr(jaxpr, linear, nonzero)
            outer, cuts, unseen = pieces.of_devices(cells, axes)
            count = len(cells)
            last = transposed.out_avals[len(transposed.outvars) - count :]
            pieces.refuse_different(f"a backward rule in {jaxpr.name}", outer, last, cuts, axes)
            values = [x for x, m in zip(operands, linear, strict=True) if not m]
            given = [c for c in cotangents if c is not None]
            out_specs = _where(params["out_specs"], nonzero)
            specs = (*_where(params["in_specs"], [not m for m in linear]), *out_specs)
            avals = [local_aval(aval_of(x), s, mesh, axes) for x, s in zip((*values, *given), specs, strict=True)]
            avals += [local_aval(a, s, mesh, axes) for a, s in zip(outer.avals(), cuts, strict=True)]
            types = _where(jaxpr.out_avals, nonzero)

            def pullback(*xs: Any) -> list[Any]:
                entering = xs[len(values) : len(xs) - count]
                local = [_entering(c, a, s, mesh, axes) for c, a, s in zip(entering, types, out_specs, strict=True)]
                held = map(pieces.without_lane, xs[len(xs) - count :], unseen)
                outs = eval_jaxpr(transposed, (), *xs[: len(values)], *local, *held)
                return [*outs[: len(outs) - count], *map(pieces.with_lane, outs[len(outs) - count :], unseen)]

            program = _staged(pullback, avals, jaxpr.name)
        wanted = _where(_where(params["in_specs"], linear), out_nonzero)
        changed = {**params, "jaxpr": program, "in_specs": (*specs, *cuts), "out_specs": (*wanted, *cuts)}
        results = iter(outer.through((program,), lambda held: self.bind(*values, *given, *held, **changed)))
        found = iter([next(results) if n else None for n in out_nonzero])
        return tuple([next(found) if m else None for m in linear])

    def batch(self, axis: Any, operands: Any, dims: Any, **params: Any) -> Any:
        """The mapped local program; the mapped axis is whole on every device, or cut as `spmd_axis_name` of vmap says.

        Mesh axes that are not in the hands of the local program cut the mapped axis there, too.
        """
        batched = tuple([d is not None for d in dims])
        own = tuple([n for n in names_of(axis.spmd) if n in params["axes"]])
        rest = tuple([n for n in names_of(axis.spmd) if n not in own])
        lanes = Axis(axis.name, axis.size // math.prod([params["mesh"].shape[n] for n in own]), rest or None)
        if set(names_of(axis.spmd)) & set().union(*map(spec_names, (*params["in_specs"], *params["out_specs"]))):
            raise ValueError(
                f"vmap spmd_axis_name {axis.spmd!r} cannot appear in the specs of a shard_map inside, which cut by it already"
            )
        if axis.name in params["axes"]:  # inside, the name means the axis of the mesh
            lanes = lanes._replace(name=None)
        with _scope(params):
            mapped, out_batched = batch_jaxpr(params["jaxpr"], lanes, batched)
        moved = [shape.move_batch_axis(x, d, 0) if d else x for x, d in zip(operands, dims, strict=True)]
        in_specs = tuple(
            [PartitionSpec(own or None, *s) if b else s for s, b in zip(params["in_specs"], batched, strict=True)]
        )
        out_specs = tuple(
            [PartitionSpec(own or None, *s) if b else s for s, b in zip(params["out_specs"], out_batched, strict=True)]
        )
        results = self.bind(*moved, **{**params, "jaxpr": mapped, "in_specs": in_specs, "out_specs": out_specs})
        return results, tuple([0 if b else None for b in out_batched])

    def dce(self, wanted: Sequence[bool], eqn: Any) -> Any:
        """Drop unused outputs of the local program."""
        params = eqn.params
        jaxpr, used = dead_code(params["jaxpr"], tuple(wanted), keep_inputs=False)
        specs = {
            "in_specs": tuple(_where(params["in_specs"], used)),
            "out_specs": tuple(_where(params["out_specs"], wanted)),
        }
        return eqn.replace(
            invars=_where(eqn.invars, used),
            outvars=_where(eqn.outvars, wanted),
            params={**params, **specs, "jaxpr": intern(jaxpr)},
        )

    def lower(
        self,
        b: Any,
        ins: Any,
        outs: Any,
        *,
        jaxpr: Jaxpr,
        mesh: Mesh,
        in_specs: Specs,
        out_specs: Specs,
        axes: Any,
        lanes: bool,
    ) -> Any:
        """`sdy.manual_computation`."""
        return manual_computation(
            b,
            mesh,
            axes,
            ins,
            in_specs,
            outs,
            out_specs,
            jaxpr.in_avals,
            lambda inner, *xs: inner.jaxpr(jaxpr, xs, "shard_map"),
        )


shard_map_p = ShardMap("shard_map")


_mesh: ContextVar[Any] = ContextVar("mesh of the region", default=None)


@contextmanager
def region(mesh: Any, axes: Sequence[str], lanes: bool) -> Iterator[None]:
    """While a function is traced that every device of a mesh runs."""
    token = _mesh.set(mesh)
    try:
        with named_axes({name: mesh.shape[name] for name in axes}, lanes=lanes, manual=True):
            yield
    finally:
        _mesh.reset(token)


def check_nesting(what: str, mesh: Any, axes: Sequence[str]) -> None:
    """Check that devices which run a function already can be divided once more.

    Parameters
    ----------
    what : str
        For the message.
    mesh : Mesh or AbstractMesh
    axes : sequence of str
        Those that the inner function is to see.

    Raises
    ------
    ValueError
        They cannot: another mesh, or an axis that is divided already.
    """
    taken, outer = manual_axes.get(), _mesh.get()
    if not taken or outer is None:
        return
    again = [name for name in axes if name in taken]
    same = outer.shape_tuple == mesh.shape_tuple
    if same and type(outer) is type(mesh) is Mesh:
        same = bool((outer.devices == mesh.devices).all())
    if again or not same:
        got = f"divides the axis {again[0]!r}" if same else f"got the mesh {dict(mesh.shape)}"
        raise ValueError(
            errors.explain(
                f"{what} {got} inside a function that every device of the mesh {dict(outer.shape)} runs, divided along "
                f"{', '.join(map(repr, sorted(taken, key=str)))}",
                "each device is in one place of one mesh: regions within each other divide different axes of the same mesh",
                "use vmap inside, or one mesh with an axis for each, and shard_map with axis_names={...}",
            )
        )


def _scope(params: dict[str, Any]) -> AbstractContextManager[None]:
    return named_axes({name: params["mesh"].shape[name] for name in params["axes"]}, params["lanes"], manual=True)


def _where(values: Sequence[Any], mask: Sequence[bool]) -> list[Any]:
    return [v for v, m in zip(values, mask, strict=True) if m]


def _staged(fun: Callable[..., Sequence[Any]], avals: Sequence[Any], name: str) -> Jaxpr:
    """Program of a flat function of local values that captures nothing."""
    trace = StageTrace(None, name, "shard_map", embed=True)
    inputs = [trace.new_input(a) for a in avals]
    with recording(trace):
        outs = fun(*inputs)
    return intern(trace.close(inputs, outs).jaxpr)


def _residual_spec(aval: Any, params: dict[str, Any]) -> PartitionSpec:
    """How a local value leaves the region: stacked along a new axis over the devices that it varies over."""
    names = tuple(name for name in params["axes"] if name in aval.varying)
    return PartitionSpec(names) if names else _WHOLE


def _stacked(outs: Sequence[Any], count: int, specs: Sequence[PartitionSpec]) -> list[Any]:
    own = [shape.expand_dims(x, (0,)) if len(spec) else x for x, spec in zip(outs[count:], specs, strict=True)]
    return [*outs[:count], *own]


def _unstacked(linear: Jaxpr, stacked: Sequence[bool]) -> Jaxpr:
    """The linear program with stacked residuals as inputs. Its equations stay as they are: rules of users hang on them."""
    invars, eqns = list(linear.invars), []
    for i, (var, is_stacked) in enumerate(zip(linear.invars, stacked, strict=False)):
        if is_stacked:
            invars[i] = Var(var.aval.update(shape=(1, *var.aval.shape)))
            eqns.append(Equation([invars[i]], [var], shape.squeeze_p, {"dimensions": (0,)}))
    return intern(Jaxpr([], invars, linear.outvars, [*eqns, *linear.eqns], (), linear.name))


def _entering(cotangent: Any, aval: Any, spec: PartitionSpec, mesh: Mesh, axes: Sequence[str]) -> Any:
    """The local cotangent of an output of type `aval` that leaves the region by `spec`.

    An output that is the same on all devices and leaves in pieces gets the sum of the cotangents of the pieces. One that varies
    and is promised to be the same gets an equal part on each device.
    """
    cotangent = collective.total(cotangent, aval)
    promised = tuple([name for name in axes if name in aval.varying - spec_names(spec)])
    if promised:
        share = np.asarray(1 / math.prod([mesh.shape[name] for name in promised]), aval.dtype)
        cotangent = collective.pvary_p.bind1(elementwise.mul(cotangent, share), axes=promised)
    return cotangent


# --- the reference ------------------------------------------------------------------------------------------------------------


def _pieces(x: np.ndarray, spec: PartitionSpec, mesh: Mesh, axes: Sequence[str]) -> np.ndarray:
    """The pieces of an array, along one leading axis per mesh axis."""
    sharding = NamedSharding(_own(mesh, axes), spec)
    size = sharding.shard_shape(x.shape)
    found = [
        x[tuple(slice(p * n, (p + 1) * n) for p, n in zip(place, size, strict=True))]
        for place in sharding.device_indices(x.ndim)
    ]
    return np.stack(found).reshape(*(mesh.shape[name] for name in axes), *size)


def _joined(x: np.ndarray, spec: PartitionSpec, mesh: Mesh, axes: Sequence[str]) -> np.ndarray:
    """The array that the pieces make; of equal pieces the first."""
    sharding = NamedSharding(_own(mesh, axes), spec)
    pieces = x.reshape(-1, *x.shape[len(axes) :])
    size = pieces.shape[1:]
    out = np.empty([n * c for n, c in zip(size, sharding.dimension_cuts(len(size)), strict=True)], x.dtype)
    for piece, place in reversed(list(zip(pieces, sharding.device_indices(len(size)), strict=True))):
        out[tuple(slice(p * n, (p + 1) * n) for p, n in zip(place, size, strict=True))] = piece
    return out


def _own(mesh: Mesh, axes: Sequence[str]) -> AbstractMesh:
    """The mesh of the given axes alone."""
    return AbstractMesh([mesh.shape[name] for name in axes], tuple(axes))


# --- the user's function ------------------------------------------------------------------------------------------------------


class _Infer:
    """Stands for specs that are read from the arguments."""

    def __repr__(self) -> str:
        return "Infer"


Infer = _Infer()


def shard_map(
    f: Callable[..., Any] | None = None, /, *, out_specs: Any, in_specs: Any = Infer, mesh: Any = None,
    axis_names: Any = frozenset(), check_vma: bool = True, check_rep: bool | None = None,
) -> Any:  # fmt: skip
    """Run a function of pieces on every device of a mesh.

    Parameters
    ----------
    f : callable
        Takes pieces of arrays, may use collectives (`purax.lax.psum`) over the axes of the mesh, returns pieces.
    out_specs : pytree prefix of PartitionSpec
        How the results are put together: an array axis with a mesh axis is the pieces one after the other. Without, all devices
        must hold the same. Along `unreduced` axes they are terms of a sum that is left open.
    in_specs : tuple, pytree prefix of PartitionSpec or None
        How the arguments are cut into pieces; leaves with None are passed on as they are. Default: as they lie. Along `unreduced`
        axes each device gets a term of the sum.
    mesh : Mesh, optional
        Default: the current mesh.
    axis_names : set of str, optional
        The axes that `f` sees; all by default.
    check_vma : bool
        Check that results promised to be the same on all devices are (by the rules of docs/design/005-varying-axes.md), and
        differentiate inside `f` by values that all devices share as one value. Without, each device's values are its own.
    check_rep : bool, optional
        An older name of `check_vma`.

    Returns
    -------
    callable

    Raises
    ------
    ValueError
        An array cannot be cut as its spec says, or a result varies over an axis that its spec does not name.
    TypeError
        `f` cannot be called, or a spec is none.
    """
    if f is None:
        return lambda function: shard_map(
            function,
            out_specs=out_specs,
            in_specs=in_specs,
            mesh=mesh,
            axis_names=axis_names,
            check_vma=check_vma,
            check_rep=check_rep,
        )
    if not callable(f):
        raise TypeError(f"shard_map requires a callable for its first argument, but got {f!r}")
    checked = check_vma if check_rep is None else check_rep
    name = name_of(f)

    def mapped(*args: Any) -> Any:
        grid = chosen_mesh(mesh, "shard_map", tree.leaves(args))
        taken = manual_axes.get()
        axes = tuple(n for n in grid.axis_names if (n in axis_names if axis_names else n not in taken))
        check_nesting(f"shard_map({name})", grid, axes or grid.axis_names)
        leaves, in_tree = tree.flatten(args)
        fixed: dict[int, Any] = {}
        if in_specs is Infer:
            specs = [_lying(x, grid, axes) for x in pieces.values_of(leaves)]
        else:
            wanted = in_specs if isinstance(in_specs, (tuple, list)) else (in_specs,) * len(args)
            found = tree.flatten_axes("shard_map in_specs", in_tree, tuple(wanted))
            fixed = {i: x for i, (x, s) in enumerate(zip(leaves, found, strict=True)) if s is None}
            specs = checked_specs("in_specs", [s for s in found if s is not None], grid, axes)
        names: Callable[[], list[str]] = lambda: [n for i, n in enumerate(argument_names(f, args)) if i not in fixed]
        refs.check_distinct(f"shard_map({name})", leaves, lambda: argument_names(f, args))
        leaves = [x for i, x in enumerate(leaves) if i not in fixed]
        touched = pieces.Pieces(leaves, specs, axes)
        leaves = pieces.values_of(leaves)
        check_arrays(f"shard_map({name})", leaves, names)
        _check_cuts(name, leaves, specs, grid, names)
        opened = [i for i, spec in enumerate(specs) if spec.unreduced]
        for i in opened:
            if i in touched.places:
                raise ValueError(
                    f"shard_map({name}): argument {names()[i]} is a reference, and {specs[i]} leaves a sum open; it must have a value"
                )
            _check_sum(f"shard_map({name}): argument {names()[i]}", aval_of(leaves[i]), specs[i])
            leaves[i], specs[i] = _stack_of_terms(leaves[i], specs[i], grid)
        avals = [local_aval(aval_of(x), s, grid, axes) for x, s in zip(leaves, specs, strict=True)]

        late = isinstance(out_specs, _Late)
        out_tree: Any = None
        given_specs: list[PartitionSpec] = []

        def local(*own: Any) -> list[Any]:
            nonlocal out_tree, given_specs
            own = tuple([x[0] if i in opened else x for i, x in enumerate(own)])
            rest = iter(touched.opened(own))
            inner = in_tree.unflatten([fixed[i] if i in fixed else next(rest) for i in range(in_tree.num_leaves)])
            outs, out_tree = tree.flatten(f(*inner))
            found = out_specs.specs(out_tree) if late else tree.flatten_axes("shard_map out_specs", out_tree, out_specs)
            given_specs = checked_specs("out_specs", found, grid, axes)
            outs = [
                shape.expand_dims(x, (0,)) if spec.unreduced else x for x, spec in zip(outs, given_specs, strict=True)
            ]
            return [*outs, *touched.last()]

        flat_tree = tree.structure(tuple(range(len(leaves))))
        with region(grid, axes, lanes=not checked), use_abstract_mesh(inner_mesh(grid, axes)):
            jaxpr, consts, _, cells = stage_touching(local, flat_tree, avals, name, "shard_map")
        whole = [_WHOLE] * len(cells)  # what references hold is whole on each device, before and afterwards
        _check_outputs(name, jaxpr, given_specs, axes, checked, out_tree)
        wanted = [*[_stacked_spec(spec, grid) for spec in given_specs], *touched.specs, *whole]
        through = touched.cells(jaxpr, len(consts), cells, names)
        if checked:
            last = jaxpr.out_avals[out_tree.num_leaves :]
            pieces.refuse_different(name, through, last, wanted[out_tree.num_leaves :], axes)

        def run(held: Sequence[Any]) -> Sequence[Any]:
            return shard_map_p.bind(
                *consts, *touched.filled(leaves, held), jaxpr=intern(jaxpr), mesh=grid, axes=axes, lanes=not checked,
                in_specs=(*[_WHOLE] * len(consts), *specs, *whole), out_specs=tuple(wanted),
            )  # fmt: skip

        outs = through.through((jaxpr,), run)
        return out_tree.unflatten([_sum_of(x, s) if s.unreduced else x for x, s in zip(outs, given_specs, strict=True)])

    mapped.__name__ = name
    mapped.__qualname__ = f"shard_map({name})"
    mapped.__doc__ = getattr(f, "__doc__", None)
    mapped.__wrapped__ = f  # type: ignore[attr-defined]
    return mapped


def smap(f: Callable[..., Any] | None = None, /, *, in_axes: Any = Infer, out_axes: Any, axis_name: str) -> Any:
    """Run a function of pieces along one axis of the current mesh.

    Parameters
    ----------
    f : callable
    in_axes, out_axes : int, None, or pytree prefixes
        The array axis that is cut, per argument and result; None: whole on each device.
    axis_name : str
        The axis of the mesh.

    Returns
    -------
    callable
    """
    if f is None:
        return lambda function: smap(function, in_axes=in_axes, out_axes=out_axes, axis_name=axis_name)

    def mapped(*args: Any) -> Any:
        leaves, in_tree = tree.flatten(args)
        specs: Any = Infer
        if in_axes is not Infer:
            given = tree.flatten_axes("smap in_axes", in_tree, tuple(in_axes) if isinstance(in_axes, list) else in_axes)
            values = pieces.values_of(leaves)
            specs = in_tree.unflatten(
                [_cut_at(axis, aval_of(x).ndim, axis_name) for axis, x in zip(given, values, strict=True)]
            )
        ndims: list[int] = []

        def local(*pieces: Any) -> Any:
            outs, out_tree = tree.flatten(f(*pieces))
            ndims[:] = [aval_of(x).ndim for x in outs]
            return out_tree.unflatten(outs)

        local.__name__, local.__wrapped__ = name_of(f), f  # type: ignore[attr-defined]
        wanted = lambda out_tree: [
            _cut_at(axis, n, axis_name)
            for axis, n in zip(tree.flatten_axes("smap out_axes", out_tree, out_axes), ndims, strict=True)
        ]
        return shard_map(local, in_specs=specs, out_specs=_Late(wanted), axis_names={axis_name})(*args)

    mapped.__name__ = name_of(f)
    mapped.__wrapped__ = f  # type: ignore[attr-defined]
    return mapped


class _Late:
    """Specs of results that are known once the function has run: a function of their structure."""

    def __init__(self, specs: Callable[[Any], list[PartitionSpec]]) -> None:
        self.specs = specs


def _cut_at(axis: int | None, ndim: int, name: str) -> PartitionSpec:
    return _WHOLE if axis is None else PartitionSpec(*[None] * shape.canonical_axis(axis, ndim), name)


def chosen_mesh(mesh: Any, what: str, leaves: Sequence[Any]) -> Any:
    """The given mesh, or the current one; outside of programs, one without devices stands for the mesh that arguments lie on.

    Parameters
    ----------
    mesh : Mesh, AbstractMesh or None
    what : str
        What the user called.
    leaves : sequence of arrays
        The arguments.

    Returns
    -------
    Mesh or AbstractMesh
        In programs that are traced for the current mesh, one without devices.
    """
    traced = current.get() is not None
    if mesh is None:
        found: Any = get_abstract_mesh() if traced else current_mesh() or get_abstract_mesh()
        if found.empty:
            raise ValueError(
                errors.explain(
                    f"{what} got no mesh, and there is no current one.",
                    fix="pass mesh=, or use `with purax.set_mesh(mesh):`.",
                )
            )
        return found
    if not isinstance(mesh, (Mesh, AbstractMesh)):
        raise TypeError(f"{what} requires a `jax.sharding.Mesh` for its mesh, but got {type(mesh).__name__}")
    if traced or isinstance(mesh, Mesh) or any(isinstance(x, Tracer) for x in leaves):
        return mesh
    given = [s.mesh for x in leaves if isinstance(s := getattr(x, "sharding", None), NamedSharding)]
    if (now := current_mesh()) is not None:
        given.append(now)
    for other in given:
        if other.shape_tuple != mesh.shape_tuple:
            raise ValueError(
                f"Mesh shape of the input {other.shape_tuple} does not match the mesh shape passed to {what} {mesh.shape_tuple}"
            )
    if not given:
        raise ValueError(
            errors.explain(
                f"Please pass `jax.Array`s with a `NamedSharding` as input to `{what}` when passing `AbstractMesh` to the mesh argument.",
                f"{mesh} has no devices, and the arguments lie on no mesh.",
                "device_put an argument onto a mesh, or call this within `with purax.set_mesh(mesh):`.",
            )
        )
    return given[0]


def checked_specs(what: str, specs: Sequence[Any], mesh: Mesh, axes: Sequence[str]) -> list[PartitionSpec]:
    """The specs of the leaves; None is a spec without axes."""
    out = []
    for spec in specs:
        spec = _WHOLE if spec is None else spec
        if not isinstance(spec, PartitionSpec):
            raise TypeError(
                f"shard_map {what} entries must be PartitionSpecs, got {spec!r} of type {type(spec).__name__}"
            )
        for name in (*NamedSharding(mesh, spec).spec.axis_names(), *spec.unreduced):
            if name not in axes:
                raise ValueError(
                    f"shard_map {what}: {spec} names the axis {name!r}, which is not among axis_names {tuple(axes)}"
                )
        out.append(spec)
    return out


def _lying(x: Any, mesh: Mesh, axes: Sequence[str]) -> PartitionSpec:
    """How a value is cut along these axes of the mesh."""
    sharding = getattr(x, "sharding", None)
    spread = getattr(getattr(x, "aval", None), "spread", None)
    spec = _WHOLE
    if spread is not None and spread.mesh.shape_tuple == mesh.shape_tuple:
        spec = spread.spec
    elif isinstance(sharding, NamedSharding) and sharding.mesh == mesh:
        spec = sharding.spec
    cuts = [tuple([name for name in names_of(part) if name in axes]) for part in spec]
    return PartitionSpec(*cuts, unreduced=spec.unreduced.intersection(axes))


# A value that is unreduced enters and leaves as what its terms are: one array axis more, which these mesh axes cut.


def _check_sum(what: str, aval: Any, spec: PartitionSpec) -> None:
    if not dtypes.issubdtype(aval.dtype, np.number):
        raise errors.DTypeError(
            f"{what} has type {aval.str_short()}, and {spec} leaves a sum open; only numbers have one"
        )


def _stacked_spec(spec: PartitionSpec, mesh: Mesh) -> PartitionSpec:
    if not spec.unreduced:
        return spec
    return PartitionSpec(tuple([name for name in mesh.axis_names if name in spec.unreduced]), *spec)


def _stack_of_terms(x: Any, spec: PartitionSpec, mesh: Mesh) -> tuple[Any, PartitionSpec]:
    """The terms of a sum, one for each device along the axes that `spec` leaves open, and the spec that cuts them."""
    spread = aval_of(x).spread
    whole = (
        x if spread is None else resharding.reshard_to(x, spread.replace(unreduced=spread.unreduced - spec.unreduced))
    )
    others = math.prod([mesh.shape[name] for name in spec.unreduced]) - 1
    zero = np.zeros((), aval_of(x).dtype)
    config = [(0, others, 0), *[(0, 0, 0)] * aval_of(x).ndim]
    return joining.pad(shape.expand_dims(whole, (0,)), zero, config), _stacked_spec(spec, mesh)


def _sum_of(terms: Any, spec: PartitionSpec) -> Any:
    """The sum of the terms, left open along the axes that `spec` leaves open."""
    token = resharding.summed_later.set(spec.unreduced)
    try:
        return reduction.reduce_sum(terms, (0,))
    finally:
        resharding.summed_later.reset(token)


def _check_cuts(
    name: str, leaves: Sequence[Any], specs: Specs | list[PartitionSpec], mesh: Mesh, names: Callable[[], Sequence[str]]
) -> None:
    for i, (x, spec) in enumerate(zip(leaves, specs, strict=True)):
        aval = aval_of(x)
        if len(spec) > aval.ndim:
            raise ValueError(
                f"shard_map applied to the function '{name}' was given an in_specs entry which is too long to be compatible with the "
                f"corresponding input value: {spec} has length {len(spec)}, but argument {names()[i]} has type {aval.str_short()}, of {aval.ndim} axes"
            )
        for axis, (size, cut) in enumerate(zip(aval.shape, _cuts(spec, mesh, aval.ndim), strict=True)):
            if size % cut:
                raise ValueError(
                    f"shard_map applied to the function '{name}' was given argument arrays with axis sizes that are not evenly divisible by "
                    f"the corresponding mesh axis sizes: argument {names()[i]} of type {aval.str_short()} is to be cut along axis {axis} "
                    f"into {cut} pieces by {spec} (mesh axes {dict(mesh.shape)}), and {size} is not divisible by {cut}"
                )


def _check_outputs(
    name: str, jaxpr: Jaxpr, specs: Sequence[PartitionSpec], axes: Sequence[str], checked: bool, out_tree: Any
) -> None:
    def path(i: int) -> str:
        paths = [tree.keystr(p) for p in tree.paths(out_tree)]
        return paths[i]

    for i, (aval, spec) in enumerate(zip(jaxpr.out_avals, specs, strict=False)):
        own = aval.update(shape=aval.shape[1:]) if spec.unreduced else aval
        if len(spec) > own.ndim:
            raise ValueError(
                f"shard_map applied to the function '{name}' was given an out_specs entry which is too long to be compatible with the "
                f"corresponding output value: {spec} has length {len(spec)}, but output{path(i)} has type {own.str_short()}, of {own.ndim} axes"
            )
        if spec.unreduced:
            _check_sum(f"shard_map applied to the function '{name}': output{path(i)}", own, spec)
        same = spec.unreduced - aval.varying
        if checked and same:
            raise ValueError(
                errors.explain(
                    f"shard_map applied to the function '{name}' was given out_specs that leave a sum open: output{path(i)} has the spec {spec}, "
                    f"but all devices along {', '.join(map(repr, sorted(same)))} hold the same value",
                    "what the devices hold are terms of a sum, so this value would count once for each device",
                    "return what each device adds to the sum, or name no axis in `unreduced`",
                )
            )
        varying = [n for n in axes if n in aval.varying - spec_names(spec) - spec.unreduced]
        if checked and varying:
            raise ValueError(
                errors.explain(
                    f"shard_map applied to the function '{name}' was given out_specs which require replication which can't be statically "
                    f"inferred: output{path(i)} has the spec {spec}, but varies over {', '.join(map(repr, varying))}",
                    "without the name of an axis, all devices along it must hold the same value",
                    "reduce it (psum, pmax), name the axis in out_specs, or pass check_vma=False if you know that the values agree",
                )
            )
