# SPDX-License-Identifier: Apache-2.0
"""Linear systems with triangular and tridiagonal matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from purax import dtypes, errors
from purax.core.aval import ShapedArray, array_aval
from purax.core.trace import aval_of
from purax.lazy import lazy
from purax.primitives import base, elementwise, factoring, joining, lapack, shape, sorting, stop_gradient
from purax.primitives.lapack import MatrixFunction
from purax.sharding import rules

__all__ = ["linear_solve", "triangular_solve", "tridiagonal_solve"]

scipy_linalg = lazy("scipy.linalg", "the reference of a factorization needs SciPy")


class TriangularSolve(MatrixFunction):
    """Solution x of op(a) x = b (left) or x op(a) = b with a triangular a; linear in b."""

    spread = rules.solved

    def infer(self, a: ShapedArray, b: ShapedArray, *, left_side: bool, **params: Any) -> tuple[ShapedArray, ...]:
        """The type of b."""
        lapack.check_matrix(a, True, "the triangular matrix")
        lapack.check_matrix(b)
        if a.dtype != b.dtype:
            raise errors.DTypeError(f"operands must have one dtype, got {a.dtype} and {b.dtype}")
        size = b.shape[-2 if left_side else -1]
        if a.shape[:-2] != b.shape[:-2] or a.shape[-1] != size:
            raise errors.ShapeError(
                f"matrix of shape {a.shape} and right-hand side of shape {b.shape} do not fit (left_side={left_side})"
            )
        return (b.strip_weak(),)

    def reference(
        self, a: Any, b: Any, *, left_side: bool, lower: bool, transpose_a: bool, conjugate_a: bool, unit_diagonal: bool
    ) -> tuple[np.ndarray, ...]:
        """SciPy's solve_triangular."""

        def solve(a: Any, b: Any) -> Any:
            a = np.conj(a) if conjugate_a else a
            if not left_side:
                return scipy_linalg.solve_triangular(
                    a, b.T, lower=lower, trans=0 if transpose_a else 1, unit_diagonal=unit_diagonal
                ).T
            return scipy_linalg.solve_triangular(
                a, b, lower=lower, trans=1 if transpose_a else 0, unit_diagonal=unit_diagonal
            )

        if b.size == 0:
            return (b,)
        return lapack.numpy_batched(solve, a, b, cores=(2, 2), outs=(array_aval(b.shape, b.dtype),))

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> Any:
        """dx = op(a)^-1 (db - op(da) x), with the triangle of da alone."""
        (a, b), (da, db) = primals, tangents
        x = self.bind1(a, b, **params)
        if da is not None:
            da = lapack.triangle(da, params["lower"], (-1 if params["lower"] else 1) if params["unit_diagonal"] else 0)
            if params["conjugate_a"]:
                da = lapack.conjugated(da)
            if params["transpose_a"]:
                da = lapack.transposed(da)
            moved = elementwise.neg(lapack.matmul(da, x) if params["left_side"] else lapack.matmul(x, da))
            db = base.add_tangents(db, moved)
        return (x,), (None if db is None else self.bind1(a, db, **params),)

    def transpose(self, cotangents: Any, operands: Any, *, transpose_a: bool, **params: Any) -> Any:
        """The system with the transposed matrix."""
        (ct,), (a, _) = cotangents, operands
        return None, None if ct is None else self.bind1(a, ct, transpose_a=not transpose_a, **params)

    def lower(
        self,
        b: Any,
        ins: Any,
        outs: Any,
        *,
        left_side: bool,
        lower: bool,
        transpose_a: bool,
        conjugate_a: bool,
        unit_diagonal: bool,
    ) -> list[Any]:
        """LAPACK's trsm; `stablehlo.triangular_solve` elsewhere than on CPU."""
        (a, y), (out,) = ins, outs
        if out.size == 0:
            return [y]
        if conjugate_a and not transpose_a:
            (a,) = b.inline(lapack.conjugated, [a])
        kind = "C" if conjugate_a and transpose_a else "T" if transpose_a else "N"
        if getattr(b.module, "platform", "cpu") != "cpu":
            how = {"C": "ADJOINT", "T": "TRANSPOSE", "N": "NO_TRANSPOSE"}[kind]
            return [b.emit(
                f'"stablehlo.triangular_solve"({a}, {y}) <{{left_side = {str(left_side).lower()}, lower = {str(lower).lower()}, '
                f"unit_diagonal = {str(unit_diagonal).lower()}, transpose_a = #stablehlo<transpose {how}>}}> : ({a.hlo}, {y.hlo}) -> {out.hlo}",
                out,
            )]  # fmt: skip
        attributes = {
            "diag": "U" if unit_diagonal else "N", "side": "L" if left_side else "R", "trans_x": kind, "uplo": "L" if lower else "U",
        }  # fmt: skip
        return lapack.call(b, "{}trsm", [a, y], [out], ([True, True], [True]), attributes, [(0, 1)])


class TridiagonalSolve(MatrixFunction):
    """Solution of systems with the lower, main and upper diagonals dl, d, du (dl[0] and du[-1] are not read); linear in b.

    With `perturbed`, pivots that are tiny against the largest entry are moved away from zero.
    """

    ranks = (1, 1, 1, 2)
    spread = rules.solved

    def infer(
        self, dl: ShapedArray, d: ShapedArray, du: ShapedArray, b: ShapedArray, *, perturbed: bool
    ) -> tuple[ShapedArray, ...]:
        """The type of b."""
        lapack.check_matrix(b)
        if not dl.shape == d.shape == du.shape == b.shape[:-1]:
            raise errors.ShapeError(
                f"diagonals of shapes {dl.shape}, {d.shape}, {du.shape} and right-hand side of shape {b.shape} do not fit"
            )
        if not dl.dtype == d.dtype == du.dtype == b.dtype:
            raise errors.DTypeError("operands must have one dtype")
        return (b.strip_weak(),)

    def reference(self, dl: Any, d: Any, du: Any, b: Any, *, perturbed: bool) -> tuple[np.ndarray, ...]:
        """A dense solve, of matrices that are not singular."""
        if b.size == 0:
            return (b,)
        n = d.shape[-1]
        full = np.zeros((*d.shape, n), d.dtype)
        index = np.arange(n)
        full[..., index, index] = d
        full[..., index[1:], index[:-1]] = dl[..., 1:]
        full[..., index[:-1], index[1:]] = du[..., :-1]
        return (np.linalg.solve(full, b).astype(b.dtype),)

    def jvp(self, primals: Any, tangents: Any, *, perturbed: bool) -> Any:
        """dx = T^-1 (db - dT x)."""
        (dl, d, du, b), (tl, t, tu, tb) = primals, tangents
        x = self.bind1(dl, d, du, b, perturbed=perturbed)
        for change, step in ((tl, -1), (t, 0), (tu, 1)):
            if change is not None:
                moved = _rows_moved(x, step)
                factor = shape.broadcast_in_dim(change, aval_of(x).shape, tuple(range(aval_of(x).ndim - 1)))
                tb = base.add_tangents(tb, elementwise.neg(elementwise.mul(factor, moved)))
        return (x,), (None if tb is None else self.bind1(dl, d, du, tb, perturbed=perturbed),)

    def transpose(self, cotangents: Any, operands: Any, *, perturbed: bool) -> Any:
        """The system with the transposed matrix."""
        (ct,), (dl, d, du, _) = cotangents, operands
        if ct is None:
            return None, None, None, None
        lower, upper = _entries_moved(du, -1), _entries_moved(dl, 1)
        return None, None, None, self.bind1(lower, d, upper, ct, perturbed=perturbed)

    def lower(self, b: Any, ins: Any, outs: Any, *, perturbed: bool) -> list[Any]:
        """LAPACK's gtsv, or jaxlib's own kernel."""
        (dl, d, du, y), (out,) = ins, outs
        if out.size == 0:
            return [y]
        if perturbed:
            flags = ([False, False, False, True], [True])
            return lapack.call(b, "tridiagonal_solve_perturbed_ffi", ins, [array_aval(out.shape, out.dtype)], flags)
        vector = array_aval(d.shape, d.dtype)
        aval = array_aval(out.shape, out.dtype)
        found = lapack.call(
            b, "{}gtsv", [dl, d, du, y], [vector, vector, vector, aval, lapack.info_aval(aval)],
            ([False, False, False, True], [False, False, False, True, False]), None, [(0, 0), (1, 1), (2, 2), (3, 3)],
        )  # fmt: skip
        return [lapack.unless_failed(b, found[4], found[3])]


def _rows_moved(x: Any, step: int) -> Any:
    """Row i of the result is row i + step of `x`, zeros beyond."""
    if step == 0:
        return x
    aval = aval_of(x)
    config = [(0, 0, 0)] * aval.ndim
    config[aval.ndim - 2] = (-step, step, 0)
    return joining.pad(x, shape.scalar(0, aval.dtype), config)


def _entries_moved(x: Any, step: int) -> Any:
    aval = aval_of(x)
    config = [(0, 0, 0)] * aval.ndim
    config[-1] = (-step, step, 0)
    return joining.pad(x, shape.scalar(0, aval.dtype), config)


class FactoredSolve(MatrixFunction):
    """Solution of a x = b or a^T x = b; operands (a, its packed LU, the LU's permutation, b). Linear in b.

    The factors are there so that derivatives, which solve with the same matrix again, do not factor it again.
    """

    ranks = (2, 2, 1, 2)
    spread = rules.solved

    def infer(
        self, a: ShapedArray, packed: ShapedArray, permutation: ShapedArray, b: ShapedArray, *, transposed: bool
    ) -> tuple[ShapedArray, ...]:
        """The type of b."""
        lapack.check_matrix(a, True, "the matrix of a system")
        lapack.check_matrix(b)
        if a.dtype != b.dtype or packed.dtype != a.dtype:
            raise errors.DTypeError(f"operands must have one dtype, got {a.dtype}, {packed.dtype} and {b.dtype}")
        if a.shape != packed.shape or permutation.shape != a.shape[:-1] or a.shape[:-1] != b.shape[:-1]:
            raise errors.ShapeError(f"matrix of shape {a.shape} and right-hand side of shape {b.shape} do not fit")
        return (b.strip_weak(),)

    def reference(self, a: Any, packed: Any, permutation: Any, b: Any, *, transposed: bool) -> tuple[np.ndarray, ...]:
        """SciPy's solve_triangular with each factor."""

        def solve(packed: Any, permutation: Any, b: Any) -> Any:
            if not transposed:
                y = scipy_linalg.solve_triangular(packed, b[permutation], lower=True, unit_diagonal=True)
                return scipy_linalg.solve_triangular(packed, y)
            y = scipy_linalg.solve_triangular(packed, b, trans=1)
            return scipy_linalg.solve_triangular(packed, y, trans=1, lower=True, unit_diagonal=True)[
                np.argsort(permutation)
            ]

        if b.size == 0:
            return (b,)
        return lapack.numpy_batched(
            solve, packed, permutation, b, cores=(2, 1, 2), outs=(array_aval(b.shape, b.dtype),)
        )

    def jvp(self, primals: Any, tangents: Any, *, transposed: bool) -> Any:
        """dx = a^-1 (db - da x)."""
        (a, packed, permutation, b), (da, _, _, db) = primals, tangents
        x = self.bind1(a, packed, permutation, b, transposed=transposed)
        if da is not None:
            moved = lapack.matmul(lapack.transposed(da) if transposed else da, x)
            db = base.add_tangents(db, elementwise.neg(moved))
        return (x,), (None if db is None else self.bind1(a, packed, permutation, db, transposed=transposed),)

    def transpose(self, cotangents: Any, operands: Any, *, transposed: bool) -> Any:
        """The system with the transposed matrix and the same factors."""
        (ct,), (a, packed, permutation, _) = cotangents, operands
        return (
            None,
            None,
            None,
            None if ct is None else self.bind1(a, packed, permutation, ct, transposed=not transposed),
        )

    def lower(self, b: Any, ins: Any, outs: Any, *, transposed: bool) -> list[Any]:
        """Two triangular systems and a permutation of rows."""

        def forward(packed: Any, permutation: Any, y: Any) -> Any:
            y = factoring.rows_of(y, permutation)
            y = triangular_solve(packed, y, left_side=True, lower=True, unit_diagonal=True)
            return triangular_solve(packed, y, left_side=True, lower=False)

        def backward(packed: Any, permutation: Any, y: Any) -> Any:
            y = triangular_solve(packed, y, left_side=True, lower=False, transpose_a=True)
            y = triangular_solve(packed, y, left_side=True, lower=True, transpose_a=True, unit_diagonal=True)
            columns = shape.broadcasted_iota(np.int32, aval_of(permutation).shape, aval_of(permutation).ndim - 1)
            _, inverse = sorting.sort([permutation, columns], dimension=aval_of(permutation).ndim - 1, num_keys=1)
            return factoring.rows_of(y, inverse)

        return b.inline(backward if transposed else forward, ins[1:])


triangular_solve_p = TriangularSolve("triangular_solve")
factored_solve_p = FactoredSolve("factored_solve")
tridiagonal_solve_p = TridiagonalSolve("tridiagonal_solve")


def triangular_solve(
    a: Any, b: Any, *, left_side: bool = False, lower: bool = False, transpose_a: bool = False, conjugate_a: bool = False,
    unit_diagonal: bool = False,
) -> Any:  # fmt: skip
    """Solve triangular systems.

    Parameters
    ----------
    a : inexact[..., n, n]
        One triangle is read.
    b : inexact[..., n, k] if `left_side`, else inexact[..., k, n]
        Also without the axis k (left: a vector for each matrix).
    left_side : bool
        Solve op(a) x = b; else x op(a) = b.
    lower, transpose_a, conjugate_a, unit_diagonal : bool

    Returns
    -------
    array of the shape of b
    """
    matrix, right = aval_of(a), aval_of(b)
    conjugate_a = conjugate_a and dtypes.is_complex(matrix.dtype)
    single = right.ndim == matrix.ndim - 1
    if single:
        b = shape.expand_dims(b, (right.ndim if left_side else right.ndim - 1,))
    out = triangular_solve_p.bind1(
        a, b, left_side=bool(left_side), lower=bool(lower), transpose_a=bool(transpose_a), conjugate_a=bool(conjugate_a),
        unit_diagonal=bool(unit_diagonal),
    )  # fmt: skip
    return shape.squeeze(out, (right.ndim if left_side else right.ndim - 1,)) if single else out


def linear_solve(a: Any, b: Any) -> Any:
    """Solutions x of a x = b for matrices inexact[..., n, n] and right-hand sides inexact[..., n, k], by LU."""
    packed, _, permutation = factoring.lu_p.bind(stop_gradient.stop_gradient(a))
    return factored_solve_p.bind1(a, packed, permutation, b, transposed=False)


def tridiagonal_solve(dl: Any, d: Any, du: Any, b: Any, *, perturb_singular: bool = False) -> Any:
    """Solve tridiagonal systems T x = b.

    Parameters
    ----------
    dl, d, du : inexact[..., n]
        T[i, i - 1], T[i, i] and T[i, i + 1]; dl[0] and du[-1] are not read.
    b : inexact[..., n, k] or inexact[..., n]
    perturb_singular : bool
        Move pivots that are tiny away from zero, by eps times the largest entry of the triangular factor: solutions for singular
        matrices become large, not NaN. Only on CPU.

    Returns
    -------
    array of the shape of b
        NaN for singular matrices.
    """
    diagonal, right = aval_of(d), aval_of(b)
    if right.ndim == diagonal.ndim:
        column = shape.expand_dims(b, (right.ndim,))
        found = tridiagonal_solve_p.bind1(dl, d, du, column, perturbed=bool(perturb_singular))
        return shape.squeeze(found, (right.ndim,))
    return tridiagonal_solve_p.bind1(dl, d, du, b, perturbed=bool(perturb_singular))
