# SPDX-License-Identifier: Apache-2.0
"""`cond`: one of several programs, chosen by an index; differentiable in both modes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from purax import config, dtypes, errors, tree
from purax.control import lanes, ref_scope, refs
from purax.control.policies import split_by_policy, split_equation
from purax.control.program import build, cast_weak, holds, permuted, stage_touching, take
from purax.control.program_call import jit_p
from purax.core.hooks import hooks
from purax.core.interpret import eval_jaxpr, reference_eval
from purax.core.ir import Jaxpr, Var, intern
from purax.core.passes import dead_code
from purax.core.primitive import Primitive
from purax.core.trace import Tracer, aval_of
from purax.primitives import cast, comparison, elementwise, reduction, shape
from purax.primitives.base import is_linear, zeros_of
from purax.primitives.target import platform_index_p
from purax.transforms.flat import name_of
from purax.transforms.jvp import jvp_jaxpr
from purax.transforms.transpose import linearize_jaxpr, transpose_jaxpr
from purax.transforms.vmap import batch_jaxpr

__all__ = ["Cond", "cond", "cond_p", "places_in", "platform_dependent", "switch"]


class Cond(Primitive):
    """Operands are an int32 index and the operands of every branch.

    Params
    ------
    branches : tuple of Jaxpr
        All with the same types of inputs and outputs.
    """

    types_axes = True
    types_spread = True

    terms = True

    def infer(self, index: Any, *avals: Any, branches: tuple[Jaxpr, ...]) -> Any:
        """Types of the outputs of the branches."""
        return tuple([
            row[0].with_varying(index.varying.union(*[a.varying for a in row]))
            for row in zip(*[j.out_avals for j in branches], strict=True)
        ])  # fmt: skip

    def effects(self, params: dict[str, Any]) -> frozenset[Any]:
        """Effects of all branches."""
        return frozenset().union(*(j.effects for j in params["branches"]))

    def reference(self, index: Any, *operands: Any, branches: tuple[Jaxpr, ...]) -> Any:
        """The chosen branch."""
        chosen = branches[int(np.clip(index, 0, len(branches) - 1))]
        return tuple(reference_eval(chosen, (), *operands))

    def jvp(self, primals: Any, tangents: Any, *, branches: tuple[Jaxpr, ...]) -> Any:
        """The chosen branch's derivative."""
        index, *operands = primals
        nonzero = tuple([t is not None for t in tangents[1:]])
        wanted = _union([jvp_jaxpr(j, nonzero)[1] for j in branches])
        derived = tuple([jvp_jaxpr(j, nonzero, wanted)[0] for j in branches])
        results = self.bind(index, *operands, *[t for t in tangents[1:] if t is not None], branches=derived)
        count = len(branches[0].outvars)
        rest = iter(results[count:])
        return results[:count], tuple([next(rest) if w else None for w in wanted])

    def linearize(self, primals: Any, tangents: Any, params: dict[str, Any]) -> Any:
        """Run the chosen branch forward. It leaves its residuals in slots that all branches share, and zeros in the others."""
        branches = params["branches"]
        index, *operands = primals
        nonzero = tuple([t is not None for t in tangents[1:]])
        wanted = _union([linearize_jaxpr(j, nonzero).out_nonzero for j in branches])
        parts = [linearize_jaxpr(j, nonzero, wanted) for j in branches]
        count = len(branches[0].outvars)
        slots, places = _slots([p.forward.out_avals[count:] for p in parts])
        forward = tuple([_into_slots(p.forward, count, slots, place) for p, place in zip(parts, places, strict=True)])
        results = self.bind(index, *operands, branches=forward)
        values = [*operands, *results]  # what a residual may be
        used = []
        for p, place in zip(parts, places, strict=True):
            positions = []
            for where, i in p.residuals:
                found = i if where == "in" else len(operands) + (i if i < count else count + place[i - count])
                positions.append(found)
            used.append(positions)
        kept = sorted(set().union(*used))
        residuals = [values[i] for i in kept]
        given = [t for t in tangents[1:] if t is not None]
        avals = [*(aval_of(r) for r in residuals), *(aval_of(t) for t in given)]
        linear = tuple(
            [
                _choosing(p.linear, [kept.index(i) for i in u], len(kept), avals)
                for p, u in zip(parts, used, strict=True)
            ]
        )
        rest = iter(self.bind(index, *residuals, *given, branches=linear))
        return tuple(results[:count]), tuple([next(rest) if w else None for w in wanted])

    def transpose(self, cotangents: Any, operands: Any, *, branches: tuple[Jaxpr, ...]) -> Any:
        """The chosen branch's transpose."""
        index, *rest = operands
        linear = tuple([is_linear(x) for x in rest])
        nonzero = tuple([c is not None for c in cotangents])
        wanted = _union([transpose_jaxpr(j, linear, nonzero)[1] for j in branches])
        rows = [transpose_jaxpr(j, linear, nonzero, wanted) for j in branches]
        cells = ref_scope.Cells.union([row[2] for row in rows])
        transposed = (
            tuple([cells.held_by(j, own) for j, _, own in rows]) if len(cells) else tuple([j for j, *_ in rows])
        )
        values = [x for x, m in zip(rest, linear, strict=True) if not m]
        given = [c for c in cotangents if c is not None]
        results = iter(
            cells.through(transposed, lambda held: self.bind(index, *values, *given, *held, branches=transposed))
        )
        found = iter([next(results) if w else None for w in wanted])
        return (None, *[next(found) if m else None for m in linear])

    def batch(self, axis: Any, operands: Any, dims: Any, *, branches: tuple[Jaxpr, ...]) -> Any:
        """With one index, the chosen mapped branch; with an index per lane, all branches and a selection."""
        index, *rest = operands
        mask = tuple([d is not None for d in dims[1:]])
        moved = [x if d is None else shape.move_batch_axis(x, d, 0) for x, d in zip(rest, dims[1:], strict=True)]
        if dims[0] is None:
            wanted = _union([batch_jaxpr(j, axis, mask)[1] for j in branches])
            mapped = tuple([batch_jaxpr(j, axis, mask, wanted)[0] for j in branches])
            return self.bind(index, *moved, branches=mapped), tuple([0 if w else None for w in wanted])
        if lanes.checks(branches):
            avals = (aval_of(index).update(shape=()), *branches[0].in_avals)
            return lanes.with_reports(self, axis, operands, dims, avals, {"branches": branches})
        index = shape.move_batch_axis(index, dims[0], 0)
        count = len(branches[0].outvars)
        if lanes.apart(branches, axis):
            one = lambda programs, *xs: self.bind(*xs, branches=programs)
            rows = lanes.by_lane(one, axis, (index, *moved), (True, *mask), branches)
            return tuple(rows), (0,) * count
        results: list[Any] = []
        for k, j in enumerate(branches):
            here = _chosen(index, k, len(branches))
            mapped_branch = batch_jaxpr(j, axis, mask, (True,) * count)[0]
            if lanes.has_open_loop(j):
                outs: Any = self._if_any(here, mapped_branch, lanes.like_live(here, moved, mask))
            else:
                outs = jit_p.bind(*moved, jaxpr=mapped_branch, name=j.name, inline=True)
            results = [lanes.keep_where(here, o, r) for o, r in zip(outs, results, strict=True)] if k else list(outs)
        return tuple(results), (0,) * count

    def _if_any(self, live: Any, branch: Jaxpr, operands: Sequence[Any]) -> Any:
        """A mapped branch, run if any lane takes it."""
        index = cast.convert_element_type(reduction.reduce_or(live, (0,)), np.int32)
        nothing = build(lambda *_: [zeros_of(a) for a in branch.out_avals], branch.in_avals, branch.name)
        return self.bind(index, *operands, branches=(nothing, branch))

    def split(self, eqn: Any, policy: Any) -> Any:
        """Two choices: each branch saves its values in slots that all branches share."""
        inner = [split_by_policy(j, policy) for j in eqn.params["branches"]]
        count, start = len(eqn.outvars), len(eqn.invars) - 1
        slots, places = _slots([s.forward.out_avals[count:] for s in inner])
        forward = tuple([_into_slots(s.forward, count, slots, place) for s, place in zip(inner, places, strict=True)])
        again = []
        for s, place in zip(inner, places, strict=True):
            used = [*range(start), *(start + p for p in place)]
            again.append(_choosing(s.again, used, start + len(slots), [*s.again.in_avals[:start], *slots]))
        return split_equation(eqn, inner, {"branches": forward}, {"branches": tuple(again)}, slots)

    def dce(self, wanted: Sequence[bool], eqn: Any) -> Any:
        """Drop unused outputs of all branches, and the operands that no branch needs any more."""
        rows = [dead_code(j, tuple(wanted)) for j in eqn.params["branches"]]
        needed = _union([tuple(used) for _, used in rows])
        branches = [Jaxpr(j.constvars, take(j.invars, needed), j.outvars, j.eqns, (), j.name) for j, _ in rows]
        return eqn.replace(
            invars=[eqn.invars[0], *take(eqn.invars[1:], needed)], outvars=take(eqn.outvars, wanted),
            params={"branches": tuple(map(intern, branches))},
        )  # fmt: skip

    def lower(self, b: Any, ins: Any, outs: Any, *, branches: tuple[Jaxpr, ...]) -> Any:
        """`stablehlo.case`; XLA takes the last branch for an index out of range, so it is clamped before."""
        index, *operands = ins
        if not outs and not any(j.effects for j in branches):
            return []
        known = b.splat(index)
        if known is not None:  # such as the number of the platform: what is for others need not exist on this one
            i = int(np.clip(known, 0, len(branches) - 1))
            return b.jaxpr(branches[i], operands, "cond", f"branch_{i}_fun")
        regions = ", ".join([
            b.block((), lambda inner, i=i, j=j: inner.jaxpr(j, operands, "cond", f"branch_{i}_fun"))
            for i, j in enumerate(branches)
        ])  # fmt: skip
        types = ", ".join(a.hlo for a in outs)
        return b.emit_many(f'"stablehlo.case"({index}) ({regions}) : (tensor<i32>) -> ({types})', outs)


cond_p = Cond("cond")


def _chosen(index: Any, k: int, count: int) -> Any:
    """Whether branch `k` is meant; an index out of range means the first or the last one."""
    if k == 0:
        return comparison.le(index, np.int32(0))
    return comparison.eq(index, np.int32(k)) if k < count - 1 else comparison.ge(index, np.int32(k))


def _union(masks: Sequence[tuple[bool, ...]]) -> tuple[bool, ...]:
    return tuple([any(column) for column in zip(*masks, strict=True)])


def places_in(slots: list[Any], wanted: Sequence[Any]) -> list[int]:
    """Where values of the wanted types find room, each in a slot of its own; slots that lack are appended."""
    free = list(range(len(slots)))
    place = []
    for aval in wanted:
        i = next((i for i in free if slots[i] is aval), len(slots))
        if i == len(slots):
            slots.append(aval)
        else:
            free.remove(i)
        place.append(i)
    return place


def _slots(extra: Sequence[Sequence[Any]]) -> tuple[list[Any], list[list[int]]]:
    """Types of slots in which the values of one branch find room, whichever it is, and where each branch puts its own."""
    slots: list[Any] = []
    places = [places_in(slots, avals) for avals in extra]
    return slots, places


def _into_slots(forward: Jaxpr, count: int, slots: Sequence[Any], place: Sequence[int]) -> Jaxpr:
    """The program with its values beyond the first `count` outputs in their slots, and zeros in the other slots."""

    def run(*xs: Any) -> list[Any]:
        outs = eval_jaxpr(forward, (), *xs)
        own = dict(zip(place, outs[count:], strict=True))
        return [*outs[:count], *[own[i] if i in own else zeros_of(a) for i, a in enumerate(slots)]]

    return build(run, forward.in_avals, forward.name)


def _choosing(linear: Jaxpr, used: Sequence[int], residuals: int, avals: Sequence[Any]) -> Jaxpr:
    """The linear program as a function of the residuals of all branches."""
    return build(lambda *xs: eval_jaxpr(linear, (), *[xs[i] for i in used], *xs[residuals:]), avals, linear.name)


# --- the user's functions -----------------------------------------------------------------------------------------------------


_NOTHING = object()  # no operand was given: None is a pytree like any other


def cond(
    pred: Any,
    true_fun: Callable[..., Any],
    false_fun: Callable[..., Any],
    *operands: Any,
    operand: Any = _NOTHING,
    linear: Any = None,
) -> Any:
    """Run `true_fun(*operands)` or `false_fun(*operands)`.

    Each branch may have an operand of its own: `cond(pred, true_operand, true_fun, false_operand, false_fun)`.

    Parameters
    ----------
    pred : bool scalar
    true_fun, false_fun : callable
        Return the same structure, shapes and dtypes.
    *operands : pytrees of arrays
    operand : pytree, optional
        One more operand, in front of the others.
    linear : optional
        Without effect.

    Returns
    -------
    pytree

    Raises
    ------
    TypeError
        The branches return different types, or `pred` is no scalar.
    """
    del linear
    if len(operands) == 2 and not callable(true_fun) and callable(false_fun) and callable(operands[1]):
        first, second = false_fun, operands[1]
        own = true_fun, operands[0]
        return cond(pred, lambda own: first(own[0]), lambda own: second(own[1]), own)
    if not callable(true_fun) or not callable(false_fun):
        raise TypeError("lax.cond: true_fun and false_fun arguments should be callable.")
    if operand is not _NOTHING:
        operands = (operand, *operands)
    aval = _scalar_of(pred, "cond", "Pred")
    if dtypes.issubdtype(aval.dtype, np.bool_):
        index = cast.convert_element_type(pred, np.int32)
    elif dtypes.issubdtype(aval.dtype, np.number):
        index = cast.convert_element_type(comparison.ne(pred, aval.dtype.type(0)), np.int32)
    else:
        raise TypeError(f"Pred type must be either boolean or number, got {aval.dtype}.")
    if config.current().disable_jit and not isinstance(pred, Tracer):
        return true_fun(*operands) if bool(np.asarray(pred)) else false_fun(*operands)
    return _choose("cond", index, (false_fun, true_fun), operands, ("false_fun", "true_fun"))


def switch(index: Any, branches: Sequence[Callable[..., Any]], *operands: Any, operand: Any = _NOTHING) -> Any:
    """Run `branches[index](*operands)`; the index is clamped into range.

    Parameters
    ----------
    index : integer scalar
    branches : sequence of callables
        Return the same structure, shapes and dtypes.
    *operands : pytrees of arrays
    operand : pytree, optional
        One more operand, in front of the others.

    Returns
    -------
    pytree

    Raises
    ------
    TypeError
        A branch cannot be called, branches return different types, or `index` is no integer scalar.
    ValueError
        No branches.
    """
    if callable(branches) or not all(callable(b) for b in branches):
        raise TypeError("lax.switch: branches argument should be a sequence of callables.")
    if operand is not _NOTHING:
        operands = (operand, *operands)
    aval = _scalar_of(index, "switch", "Branch index")
    if not dtypes.issubdtype(aval.dtype, np.integer):
        raise TypeError(f"Index type must be an integer, got {aval.dtype}.")
    branches = tuple(branches)
    if not branches:
        raise ValueError("Empty branch sequence")
    if len(branches) == 1:
        return branches[0](*operands)
    clamped = elementwise.clamp(np.array(0, aval.dtype), index, np.array(len(branches) - 1, aval.dtype))
    if config.current().disable_jit and not isinstance(index, Tracer):
        return branches[int(np.asarray(clamped))](*operands)
    return _choose("switch", cast.convert_element_type(clamped, np.int32), branches, operands, tuple(f"branch {i}" for i in range(len(branches))))  # fmt: skip


def platform_dependent(
    *args: Any, default: Callable[..., Any] | None = None, **per_platform: Callable[..., Any]
) -> Any:
    """Run the function that is given for the platform that the program is compiled for.

    Functions for other platforms are traced, but not compiled: they may call what this platform lacks.

    Parameters
    ----------
    args : pytrees of arrays
    default : callable, optional
        For platforms that none is given for.
    per_platform : callable
        By name of the platform: `cpu`, `cuda`, `rocm`, `tpu`, or `gpu` for both `cuda` and `rocm`.

    Returns
    -------
    what the function returns; all must return one type

    Raises
    ------
    NotImplementedError
        None is given for the platform; compiled programs tell when they are compiled.
    TypeError
        The functions return different types.
    """
    names = tuple(per_platform)
    every = per_platform if default is None else {**per_platform, "default": default}
    index = platform_index_p.bind1(platforms=names, default=default is not None)
    if not isinstance(index, Tracer):
        return [*every.values()][int(index)](*args)
    return _choose("platform_dependent", index, [*every.values()], args, [*every])


def _scalar_of(x: Any, what: str, role: str) -> Any:
    if callable(x) and not hasattr(x, "aval"):
        raise TypeError(f"{what}: {role} must be a scalar, got {x!r}; the predicate comes first, then the functions.")
    try:
        aval = aval_of(x)
    except TypeError:
        raise TypeError(f"{role} must be a scalar, got {x!r} of type {type(x).__name__}.") from None
    if aval.shape != ():
        raise TypeError(
            f"{role} must be a scalar, got {x!r} of shape {aval.shape}."
            if not isinstance(x, Tracer)
            else f"{role} must be a scalar, got shape {aval.shape}."
        )
    return aval


def _choose(
    what: str, index: Any, functions: Sequence[Callable[..., Any]], operands: tuple[Any, ...], roles: Sequence[str]
) -> Any:
    buried = refs.bury(what, operands)
    if buried is not operands:
        functions = [refs.unburied(f) for f in functions]
    leaves, in_tree = tree.flatten(buried)
    avals = [aval_of(x) for x in leaves]
    staged = [stage_touching(f, in_tree, avals, name_of(f), what) for f in functions]
    out_tree = staged[0][2]
    for (_, _, other, _), role in zip(staged[1:], roles[1:], strict=True):
        if other != out_tree:
            raise errors.BranchTypeError(
                errors.explain(
                    f"{what}: {roles[0]} and {role} must return the same structure, but {roles[0]} returned {out_tree} and {role} returned {other}",
                    "the result of the program has one type, whichever branch runs",
                    "make both return the same tree",
                )
            )
    cells = ref_scope.Cells.union([s[3] for s in staged])
    jaxprs = [cells.held_by(j, own) if len(cells) else j for j, _, _, own in staged]
    jaxprs = _joined_constants(jaxprs, [s[1] for s in staged], len(leaves) + len(cells))
    jaxprs = _same_outputs(what, jaxprs, roles, out_tree)
    consts = [c for s in staged for c in s[1]]
    same = _forwarded(jaxprs)  # what every branch returns as it came needs no choice
    rows = [i for i, j in enumerate(same) if j is None]
    programs = tuple([permuted(j, range(len(consts) + len(leaves) + len(cells)), rows) for j in jaxprs])

    def run(held: Sequence[Any]) -> list[Any]:
        given = [*consts, *leaves, *held]
        bound = rows or any(j.effects for j in programs)
        outs = iter(cond_p.bind(index, *given, branches=programs) if bound else ())
        return [next(outs) if j is None else hooks.as_array(given[j]) for j in same]

    return out_tree.unflatten(cells.through(programs, run))


def _forwarded(jaxprs: Sequence[Jaxpr]) -> list[int | None]:
    """For each output, the input that all branches return there, if they do."""
    places = [{v: i for i, v in enumerate(j.invars)} for j in jaxprs]
    rows = zip(
        *[[p.get(v) if isinstance(v, Var) else None for v in j.outvars] for p, j in zip(places, jaxprs, strict=True)],
        strict=True,
    )
    return [row[0] if len(set(row)) == 1 else None for row in rows]


def _joined_constants(jaxprs: Sequence[Jaxpr], consts: Sequence[Sequence[Any]], operands: int) -> list[Jaxpr]:
    """Programs that take the constants of all branches before the operands."""
    sizes = [len(c) for c in consts]
    variables = [[v for v in j.invars[:n]] for j, n in zip(jaxprs, sizes, strict=True)]
    out = []
    for k, j in enumerate(jaxprs):
        leading = []
        for i, group in enumerate(variables):
            leading += group if i == k else [type(v)(v.aval) for v in group]
        out.append(Jaxpr([], [*leading, *j.invars[sizes[k] :]], j.outvars, j.eqns, (), j.name))
    assert all(len(j.invars) == sum(sizes) + operands for j in out)
    return out


def _same_outputs(what: str, jaxprs: Sequence[Jaxpr], roles: Sequence[str], out_tree: Any) -> list[Jaxpr]:
    """Programs whose outputs have one type; weak types give way to strong ones, everything else must agree."""
    rows = list(zip(*[j.out_avals for j in jaxprs], strict=True))
    wanted, wrong = [], []
    for i, row in enumerate(rows):
        strong = [a for a in row if not a.weak_type] or list(row)
        target = next((a for a in strong if a.spread is not None), strong[0])
        if any(a.shape != target.shape or (a.dtype != target.dtype and not a.weak_type) for a in row):
            wrong.append((i, row))
        if any(a.spread is not None and a.spread is not target.spread for a in row):
            wrong.append((i, row))
        if any(a.weak_type and a.dtype != target.dtype and not holds(a.dtype, target.dtype) for a in row):
            wrong.append((i, row))
        wanted.append(target.with_varying(frozenset().union(*[a.varying for a in row])))
    if wrong:
        paths = [tree.keystr(p) or "the output" for p in tree.paths(out_tree)]
        lines = "\n".join(
            f"  * {paths[i]}: " + ", ".join(f"{a.str_short()} from {role}" for a, role in zip(row, roles, strict=True))
            for i, row in dict(wrong).items()
        )
        raise errors.BranchTypeError(
            errors.explain(
                f"{what} branches must have equal types but they differ:\n{lines}",
                "the result of the program has one type, whichever branch runs",
                "convert with x.astype(...) or reshape in one of the branches",
            )
        )
    out = []
    for j in jaxprs:
        if list(j.out_avals) == wanted:
            out.append(j)
        else:
            out.append(build(lambda *xs, j=j: cast_weak(eval_jaxpr(j, (), *xs), wanted), j.in_avals, j.name))
    return out
