# SPDX-License-Identifier: Apache-2.0
"""Solutions of equations, differentiated implicitly: `custom_linear_solve` and `custom_root`.

The solver is any program; derivatives never look inside it. For a linear system `A(c) x = b`, where `c` is what `A` captures,
the tangent is `dx = A^-1 (db - dA x)`: one more solve by the same solver; the cotangent of `b` is `A^-T` of that of `x`.
For a root `f(c, x) = 0` the tangent is `dx = -(df/dx)^-1 (df/dc) dc`, with the linearization of `f` solved by a function that
the user gives.

References
----------
S. G. Johnson, "Notes on adjoint methods for 18.335"; A. Griewank and A. Walther, "Evaluating Derivatives", chapter 15.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from purax import errors, tree
from purax.control.custom_jvp import custom_jvp
from purax.control.custom_rules import explicit_tangent
from purax.control.program import stage_tree
from purax.control.program_call import jit_p
from purax.core.interpret import eval_jaxpr, reference_eval
from purax.core.ir import Jaxpr, intern
from purax.core.primitive import Linear, Primitive
from purax.core.trace import aval_of
from purax.primitives import elementwise, shape
from purax.primitives.base import add_tangents, instantiate, is_linear
from purax.transforms.flat import check_arrays, name_of
from purax.transforms.transpose import backward_pass
from purax.transforms.vjp import linearize
from purax.transforms.vmap import batch_jaxpr

__all__ = ["custom_linear_solve", "custom_linear_solve_p", "custom_root", "linear_solve_p"]


class Parts(NamedTuple):
    """The programs of a linear solve, each `(its constants, vector) -> vector`; absent ones are None."""

    matvec: Jaxpr | None
    vecmat: Jaxpr | None
    solve: Jaxpr | None
    transpose_solve: Jaxpr | None


class CustomLinearSolve(Primitive):
    """`x` with `matvec(x) = b`. Operands are the constants of each program in turn, then `b`; outputs are `x`.

    Params
    ------
    programs : tuple of (Jaxpr or None)
        See Parts. `solve` may return auxiliary values after `x`.
    consts : tuple of int
        Number of constants of each program.
    """

    types_axes = True
    types_spread = True

    def infer(self, *avals: Any, programs: Parts, consts: tuple[int, ...]) -> Any:
        """Types of the outputs of the solver."""
        return _of(programs.solve).out_avals

    def effects(self, params: dict[str, Any]) -> frozenset[Any]:
        """Effects of the solver."""
        return _of(params["programs"].solve).effects

    def reference(self, *operands: Any, programs: Parts, consts: tuple[int, ...]) -> Any:
        """The solver by its references."""
        groups, b = _groups(operands, consts)
        return tuple(reference_eval(_of(programs.solve), (), *groups[2], *b))

    def jvp(self, primals: Any, tangents: Any, *, programs: Parts, consts: tuple[int, ...]) -> Any:
        """Solve once more, for `db - dA x`."""
        outs = self.bind(*primals, programs=programs, consts=consts)
        groups, b = _groups(primals, consts)
        tangent_groups, b_tangents = _groups(tangents, consts)
        x = outs[: len(b)]
        right = list(b_tangents)
        if any(t is not None for t in tangent_groups[0]):
            changes = _matvec_tangents(_of(programs.matvec), groups[0], tangent_groups[0], x)
            right = [
                add_tangents(r, None if c is None else elementwise.neg(c)) for r, c in zip(right, changes, strict=True)
            ]
        nothing = (None,) * (len(outs) - len(b))
        if all(r is None for r in right):
            return outs, (*[None] * len(b), *nothing)
        right = [instantiate(r, p) for r, p in zip(right, b, strict=True)]
        flat = [c for group in groups for c in group]
        results = self.bind(*flat, *right, programs=programs, consts=consts)
        return outs, (*results[: len(b)], *nothing)

    def transpose(self, cotangents: Any, operands: Any, *, programs: Parts, consts: tuple[int, ...]) -> Any:
        """Solve the transposed system, with the programs changed in pairs."""
        groups, b = _groups(operands, consts)
        if programs.transpose_solve is None:
            raise TypeError(
                "custom_linear_solve: transpose_solve required for backwards mode automatic differentiation of custom_linear_solve"
            )
        if not all(is_linear(x) for x in b) or any(is_linear(x) for group in groups for x in group):
            raise errors.MissingRuleError("custom_linear_solve is linear in its right-hand side only")
        given = [instantiate(c, x) for c, x in zip(cotangents[: len(b)], b, strict=True)]
        flipped = Parts(programs.vecmat, programs.matvec, programs.transpose_solve, programs.solve)
        order = (1, 0, 3, 2)
        flat = [c for i in order for c in groups[i]]
        results = self.bind(*flat, *given, programs=flipped, consts=tuple([consts[i] for i in order]))
        return (*[None] * sum(consts), *results[: len(b)])

    def batch(self, axis: Any, operands: Any, dims: Any, *, programs: Parts, consts: tuple[int, ...]) -> Any:
        """The solver, mapped; which of the vectors are mapped is a fixed point over all programs."""
        groups, b = _groups(operands, consts)
        group_dims, b_dims = _groups(dims, consts)
        vectors = [d is not None for d in b_dims]
        while True:
            grown = list(vectors)
            mapped: list[Jaxpr | None] = []
            outs: tuple[bool, ...] = ()
            for i, program in enumerate(programs):
                if program is None:
                    mapped.append(None)
                    continue
                mask = (*(d is not None for d in group_dims[i]), *vectors)
                wanted = (*vectors, *[False] * (len(program.outvars) - len(b)))
                made, found = batch_jaxpr(program, axis, mask, wanted)
                mapped.append(made)
                outs = found if i == 2 else outs
                grown = [g or f for g, f in zip(grown, found, strict=False)]
            if grown == vectors:
                break
            vectors = grown
        flat_dims = [d for group in group_dims for d in group]
        flat = [c for group in groups for c in group]
        moved = [c if d is None else shape.move_batch_axis(c, d, 0) for c, d in zip(flat, flat_dims, strict=True)]
        for x, d, v in zip(b, b_dims, vectors, strict=True):
            moved.append(
                shape.move_batch_axis(x, d, 0) if d is not None else shape.broadcast_batch(x, axis.size, 0) if v else x
            )
        return self.bind(*moved, programs=Parts(*mapped), consts=consts), tuple([0 if o else None for o in outs])

    def lower(self, b: Any, ins: Any, outs: Any, *, programs: Parts, consts: tuple[int, ...]) -> Any:
        """The solver in place."""
        groups, right = _groups(ins, consts)
        return b.jaxpr(_of(programs.solve), [*groups[2], *right])


custom_linear_solve_p = CustomLinearSolve("custom_linear_solve")
linear_solve_p = custom_linear_solve_p  # JAX's name


def _of(program: Jaxpr | None) -> Jaxpr:
    assert program is not None
    return program


def solver_of(eqn: Any) -> tuple[Jaxpr, list[Any]]:
    """What is run for an equation with this primitive: the solver and its operands."""
    groups, right = _groups(eqn.invars, eqn.params["consts"])
    return _of(eqn.params["programs"].solve), [*groups[2], *right]


def _groups(values: Sequence[Any], consts: Sequence[int]) -> tuple[list[Sequence[Any]], Sequence[Any]]:
    """Values split into the constants of each program and the rest."""
    out, start = [], 0
    for n in consts:
        out.append(values[start : start + n])
        start += n
    return out, values[start:]


def _matvec_tangents(matvec: Jaxpr, consts: Sequence[Any], tangents: Sequence[Any], x: Sequence[Any]) -> Any:
    """The change of `matvec(x)` when its constants change; None where it is zero."""
    params = {"jaxpr": matvec, "name": "matvec", "inline": False}
    return jit_p.linearize((*consts, *x), (*tangents, *[None] * len(x)), params)[1]


# --- the user's functions -----------------------------------------------------------------------------------------------------


def custom_linear_solve(
    matvec: Callable[[Any], Any], b: Any, solve: Callable[..., Any], transpose_solve: Callable[..., Any] | None = None,
    symmetric: bool = False, has_aux: bool = False,
) -> Any:  # fmt: skip
    """Solve `matvec(x) = b` with a solver of one's own, and differentiate implicitly.

    Parameters
    ----------
    matvec : callable
        Linear function from pytrees like `b` to pytrees like `b`. Derivatives reach what it captures.
    b : pytree of arrays
    solve : callable
        `solve(matvec, b)` gives `x`; never differentiated.
    transpose_solve : callable, optional
        `transpose_solve(vecmat, b)` solves the transposed system; needed in reverse mode unless `symmetric`.
    symmetric : bool
        The transposed system is the system itself.
    has_aux : bool
        The solvers return `(x, auxiliary data)`.

    Returns
    -------
    x : pytree like `b`
        With the auxiliary data, if `has_aux`.

    Raises
    ------
    TypeError
        A function does not return the structure of `b`.
    ShapeError
        A function does not return the types of `b`.
    """
    leaves, b_tree = tree.flatten(b)
    check_arrays("custom_linear_solve", leaves, lambda: ["b" + tree.keystr(p) for p, _ in tree.leaves_with_path(b)])
    if transpose_solve is None and symmetric:
        transpose_solve = solve
    avals = [aval_of(x) for x in leaves]
    in_tree = tree.structure((b,))

    def staged(fun: Callable[[Any], Any], name: str, aux: bool = False) -> tuple[Jaxpr, list[Any], Any]:
        program, consts, out_tree = stage_tree(fun, in_tree, avals, name, "custom_linear_solve")
        main = tree.treedef_children(out_tree)[0] if aux else out_tree
        if main != b_tree:
            raise TypeError(f"{name}() output pytree structure must match {b_tree}, got {main}")
        found = program.out_avals[: len(avals)]
        if any(
            f.shape != a.shape or (f.dtype != a.dtype and not a.weak_type) for f, a in zip(found, avals, strict=True)
        ):
            raise errors.ShapeError(
                f"{name}() output shapes and dtypes must match those of b: {[a.str_short() for a in avals]}, got {[f.str_short() for f in found]}"
            )
        return intern(program), consts, out_tree

    matvec_part = staged(matvec, "matvec")
    solve_part = staged(lambda x: solve(matvec, x), "solve", has_aux)
    vecmat_part: Any = (None, [], None)
    transpose_part: Any = (None, [], None)
    if transpose_solve is not None:
        if symmetric:
            vecmat_part, vecmat = matvec_part, matvec
        else:
            vecmat = _transposed(matvec_part[0], matvec_part[1], avals, b_tree)
            vecmat_part = staged(vecmat, "vecmat")
        transpose_part = staged(lambda x: transpose_solve(vecmat, x), "transpose_solve", has_aux)
    parts = (matvec_part, vecmat_part, solve_part, transpose_part)
    programs = Parts(matvec_part[0], vecmat_part[0], solve_part[0], transpose_part[0])
    outs = custom_linear_solve_p.bind(
        *[c for part in parts for c in part[1]],
        *leaves,
        programs=programs,
        consts=tuple([len(part[1]) for part in parts]),
    )
    return solve_part[2].unflatten(outs)


def _transposed(program: Jaxpr, consts: Sequence[Any], avals: Sequence[Any], b_tree: Any) -> Callable[[Any], Any]:
    def vecmat(x: Any) -> Any:
        leaves = tree.leaves(x)
        found = backward_pass(program, [*consts, *(Linear(a) for a in avals)], leaves)[len(consts) :]
        return b_tree.unflatten([instantiate(c, like) for c, like in zip(found, leaves, strict=True)])

    return vecmat


def custom_root(
    f: Callable[[Any], Any],
    initial_guess: Any,
    solve: Callable[..., Any],
    tangent_solve: Callable[..., Any],
    has_aux: bool = False,
) -> Any:
    """A root of `f`, found by a solver of one's own and differentiated implicitly.

    Parameters
    ----------
    f : callable
        From pytrees like `initial_guess` to pytrees like it. Derivatives reach what it captures.
    initial_guess : pytree of arrays
    solve : callable
        `solve(f, initial_guess)` gives the root; never differentiated.
    tangent_solve : callable
        `tangent_solve(g, y)` solves `g(x) = y` for a linear function `g`.
    has_aux : bool
        `solve` returns `(root, auxiliary data)`.

    Returns
    -------
    pytree like `initial_guess`
        With the auxiliary data, if `has_aux`.

    Raises
    ------
    TypeError
        `f` or `solve` does not return the structure of `initial_guess`.
    """
    leaves, guess_tree = tree.flatten(initial_guess)
    check_arrays(
        "custom_root",
        leaves,
        lambda: ["initial_guess" + tree.keystr(p) for p, _ in tree.leaves_with_path(initial_guess)],
    )
    avals, in_tree = [aval_of(x) for x in leaves], tree.structure((initial_guess,))
    program, consts, out_tree = stage_tree(f, in_tree, avals, name_of(f), "custom_root")
    program = intern(program)
    _check_root("f", out_tree, guess_tree)
    solver, solver_consts, solver_tree = stage_tree(
        lambda x: solve(f, x), in_tree, avals, name_of(solve), "custom_root"
    )
    _check_root("solve", tree.treedef_children(solver_tree)[0] if has_aux else solver_tree, guess_tree)
    call = {"jaxpr": intern(solver), "name": name_of(solve), "inline": False}

    def residual(consts: Sequence[Any], x: Any) -> Any:
        return guess_tree.unflatten(eval_jaxpr(program, (), *consts, *tree.leaves(x)))

    def solved_tangent(x: Any, right: Any) -> Any:
        return tangent_solve(linearize(f, x)[1], right)

    # A program, too: what it captures may belong to the differentiation under way.
    pair = tree.structure((initial_guess, initial_guess))
    tangent_program, tangent_consts, tangent_tree = stage_tree(
        solved_tangent, pair, avals * 2, name_of(tangent_solve), "custom_root"
    )
    _check_root("tangent_solve", tangent_tree, guess_tree)
    tangent_call = {"jaxpr": intern(tangent_program), "name": name_of(tangent_solve), "inline": False}

    @custom_jvp
    def root(consts: Any, solver_consts: Any, tangent_consts: Any, guess: Any) -> Any:
        return solver_tree.unflatten(jit_p.bind(*solver_consts, *guess, **call))

    @root.defjvp
    def rule(primals: Any, tangents: Any) -> Any:
        consts, _, tangent_consts, _ = primals
        out = root(*primals)
        x = out[0] if has_aux else out
        _, by_consts = linearize(lambda c: residual(c, x), consts)
        right = tree.leaves(tree.map(elementwise.neg, by_consts(tangents[0])))
        tangent = guess_tree.unflatten(jit_p.bind(*tangent_consts, *tree.leaves(x), *right, **tangent_call))
        if has_aux:
            return out, (tangent, tree.map(lambda leaf: explicit_tangent(None, leaf), out[1]))
        return out, tangent

    return root(consts, solver_consts, tangent_consts, leaves)


def _check_root(what: str, found: Any, expected: Any) -> None:
    if found != expected:
        raise TypeError(
            f"custom_root: {what}() output pytree structure must match initial_guess: expected {expected}, got {found}"
        )
