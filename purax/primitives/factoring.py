# SPDX-License-Identifier: Apache-2.0
"""Factorizations of matrices by elimination and reflection: Cholesky, LU, QR, and the reduced forms that eigensolvers begin with."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from purax import dtypes, errors
from purax.core.aval import ShapedArray, array_aval
from purax.core.primitive import Undefined
from purax.core.trace import aval_of
from purax.lazy import lazy
from purax.primitives import complex as complex_parts
from purax.primitives import elementwise, gather, joining, lapack, reduction, shape, solving
from purax.primitives.lapack import MatrixFunction, adjoint, matmul, triangle

__all__ = [
    "cholesky", "geqp3", "geqrf", "hessenberg", "householder_product", "lu", "lu_pivots_to_permutation", "ormqr", "qr", "tridiagonal",
]  # fmt: skip

scipy_linalg = lazy("scipy.linalg", "the reference of a factorization needs SciPy")


def solve(a: Any, b: Any, **params: Any) -> Any:
    """`triangular_solve` of batched matrices."""
    return solving.triangular_solve(a, b, **params)


def from_lower(x: Any) -> Any:
    """The Hermitian matrices whose lower triangle `x` has."""
    strict = triangle(x, True, -1)
    middle = elementwise.select(lapack.diagonal_mask(aval_of(x)), x, shape.full_like(x, 0))
    if dtypes.is_complex(aval_of(x).dtype):
        middle = complex_parts.complex(complex_parts.real(middle), elementwise.mul(complex_parts.imag(middle), 0))
    return elementwise.add(elementwise.add(strict, adjoint(strict)), middle)


# --- Cholesky -----------------------------------------------------------------------------------------------------------------


class Cholesky(MatrixFunction):
    """Lower triangular L with L L^H = a; the lower triangle of a is read. NaN where a is not positive definite."""

    transpose = Undefined("it is not linear")

    def infer(self, a: ShapedArray) -> tuple[ShapedArray, ...]:
        """The operand's type."""
        lapack.check_matrix(a, True)
        return (a.strip_weak(),)

    def reference(self, a: Any) -> tuple[np.ndarray, ...]:
        """NumPy's Cholesky."""
        out = np.full(a.shape, np.nan, a.dtype)
        for place in np.ndindex(*a.shape[:-2]):
            try:
                out[place] = np.linalg.cholesky(a[place])
            except np.linalg.LinAlgError:
                out[place] = np.tril(np.full(a.shape[-2:], np.nan))
        return (out,)

    def jvp(self, primals: Any, tangents: Any) -> Any:
        """dL = L Phi(L^-1 da L^-H), Phi the lower triangle with half the diagonal."""
        (a,), (da,) = primals, tangents
        factor = self.bind1(a)
        if da is None:
            return (factor,), (None,)
        inner = solve(factor, from_lower(da), left_side=False, lower=True, transpose_a=True, conjugate_a=True)
        inner = solve(factor, inner, left_side=True, lower=True)
        half = shape.full_like(inner, 0.5)
        weights = elementwise.select(lapack.diagonal_mask(aval_of(inner)), half, shape.full_like(inner, 1))
        return (factor,), (matmul(factor, elementwise.mul(triangle(inner, True), weights)),)

    def lower(self, b: Any, ins: Any, outs: Any) -> list[Any]:
        """LAPACK's potrf; `stablehlo.cholesky` elsewhere than on CPU."""
        (a,), (out,) = ins, outs
        if out.size == 0:
            return [a]
        if getattr(b.module, "platform", "cpu") != "cpu":
            found = b.emit(f"stablehlo.cholesky {a}, lower = true : {out.hlo}", out)
        else:
            found, info = lapack.call(
                b, "{}potrf", [a], [out, lapack.info_aval(out)], ([True], [True, False]), {"uplo": "L"}, [(0, 0)]
            )
            found = lapack.unless_failed(b, info, found)
        return b.inline(lambda x: triangle(x, True), [found])  # type: ignore[no-any-return]


# --- LU -----------------------------------------------------------------------------------------------------------------------


class LU(MatrixFunction):
    """LU with partial pivoting: the factors packed in one matrix, the pivots, and the permutation of rows."""

    transpose = Undefined("it is not linear")

    def infer(self, a: ShapedArray) -> tuple[ShapedArray, ...]:
        """Factors of the operand's type, int32 pivots and permutation."""
        lapack.check_matrix(a)
        *lead, m, n = a.shape
        index = np.dtype(np.int32)
        return a.strip_weak(), array_aval((*lead, min(m, n)), index), array_aval((*lead, m), index)

    def reference(self, a: Any) -> tuple[np.ndarray, ...]:
        """LAPACK through SciPy."""
        outs = self.infer(array_aval(a.shape, a.dtype))
        getrf = scipy_linalg.get_lapack_funcs(("getrf",), (a,))[0]

        def factor(x: Any) -> Any:
            packed, pivots, _ = getrf(x)
            permutation = np.arange(x.shape[0])
            for i, j in enumerate(pivots):
                permutation[[i, j]] = permutation[[j, i]]
            return packed, pivots, permutation

        if a.size == 0:
            rows = np.broadcast_to(np.arange(a.shape[-2], dtype=np.int32), outs[2].shape)
            return np.zeros(a.shape, a.dtype), np.zeros(outs[1].shape, np.int32), rows.copy()
        return lapack.numpy_batched(factor, a, cores=(2,), outs=outs)

    def jvp(self, primals: Any, tangents: Any) -> Any:
        """dL = L tril(M, -1), dU = triu(M) U with M = L^-1 P da U^-1, L and U made square."""
        (a,), (da,) = primals, tangents
        packed, pivots, permutation = self.bind(a)
        if da is None:
            return (packed, pivots, permutation), (None, None, None)
        *_, m, n = aval_of(a).shape
        k = min(m, n)
        da = rows_of(da, permutation)
        left = triangle(lapack.block_of(packed, m, k), True, -1)
        left = elementwise.add(lapack.padded(left, 0, m - k), lapack.eye(packed, m, m))
        right = lapack.padded(triangle(lapack.block_of(packed, k, n), False), n - k, 0)
        if n > k:
            below = shape.full_like(right, 1)
            rest = elementwise.bitwise_and(
                lapack.diagonal_mask(aval_of(right)),
                elementwise.ge(shape.broadcasted_iota(np.int32, aval_of(right).shape, aval_of(right).ndim - 1), k),
            )
            right = elementwise.select(rest, below, right)
        inner = solve(left, da, left_side=True, lower=True, unit_diagonal=True)
        inner = solve(right, inner, left_side=False, lower=False)
        change = elementwise.add(matmul(left, triangle(inner, True, -1)), matmul(triangle(inner, False), right))
        return (packed, pivots, permutation), (change, None, None)

    def lower(self, b: Any, ins: Any, outs: Any) -> list[Any]:
        """LAPACK's getrf; the permutation from its pivots."""
        empty = self.constants(b, ins, outs)
        if empty is not None:
            return empty
        (a,), (out, pivots_aval, permutation_aval) = ins, outs
        packed, pivots, info = lapack.call(
            b, "{}getrf", [a], [out, pivots_aval, lapack.info_aval(out)], ([True], [True, False, False]), None, [(0, 0)]
        )
        (pivots,) = b.inline(lambda p: elementwise.sub(p, shape.full_like(p, 1)), [pivots])
        packed = lapack.unless_failed(b, info, packed, negative_only=True)
        permutation = PivotsToPermutation.permute(b, pivots, permutation_aval)
        return [packed, pivots, permutation]


def rows_of(x: Any, permutation: Any) -> Any:
    """The rows of matrices in the order of the permutations."""
    aval, index = aval_of(x), aval_of(permutation)
    full = shape.broadcast_in_dim(permutation, (*index.shape, aval.shape[-1]), tuple(range(index.ndim)))
    return gather.take_along(x, full, aval.ndim - 2)


class PivotsToPermutation(MatrixFunction):
    """The permutation that exchanges of row i with row pivots[i], in turn, amount to."""

    transpose = Undefined("permutations are integers")

    def infer(self, pivots: ShapedArray, *, permutation_size: int) -> tuple[ShapedArray, ...]:
        """`permutation_size` entries of the pivots' dtype."""
        if not dtypes.is_integer(pivots.dtype):
            raise errors.DTypeError(f"pivots must be integers, got {pivots.dtype}")
        if pivots.ndim < 1 or permutation_size < pivots.shape[-1]:
            raise errors.ShapeError(
                f"a permutation of {permutation_size} entries cannot come from pivots of shape {pivots.shape}"
            )
        return (pivots.update(shape=(*pivots.shape[:-1], permutation_size), weak_type=False),)

    def reference(self, pivots: Any, *, permutation_size: int) -> tuple[np.ndarray, ...]:
        """Exchange after exchange."""
        out = np.broadcast_to(
            np.arange(permutation_size, dtype=pivots.dtype), (*pivots.shape[:-1], permutation_size)
        ).copy()
        for place in np.ndindex(*pivots.shape[:-1]):
            for i, j in enumerate(pivots[place]):
                out[place][[i, j]] = out[place][[j, i]]
        return (out,)

    exact = True

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> Any:
        """Integers have no tangent."""
        return self.bind(*primals, **params), (None,)

    def lower(self, b: Any, ins: Any, outs: Any, *, permutation_size: int) -> list[Any]:
        """A loop over the pivots."""
        return [self.permute(b, ins[0], outs[0])]

    @staticmethod
    def permute(b: Any, pivots: Any, out: ShapedArray) -> Any:
        """Emit the loop."""
        steps = pivots.shape[-1]
        (start,) = b.inline(lambda: shape.broadcasted_iota(out.dtype, out.shape, out.ndim - 1), [])
        if steps == 0 or out.size == 0:
            return start
        index = array_aval((), np.dtype(np.int32))
        state = [index, out, pivots.aval]

        def exchange(i: Any, permutation: Any, pivots: Any) -> Any:
            def at(x: Any, place: Any) -> Any:
                aval = aval_of(x)
                columns = shape.broadcasted_iota(np.int32, aval.shape, aval.ndim - 1)
                return elementwise.eq(columns, place)

            def pick(x: Any, mask: Any) -> Any:
                return reduction.reduce_sum(elementwise.select(mask, x, shape.full_like(x, 0)), (aval_of(x).ndim - 1,))

            def spread(x: Any) -> Any:
                return shape.broadcast_in_dim(x, out.shape, tuple(range(out.ndim - 1)))

            other = pick(pivots, at(pivots, shape.broadcast_in_dim(i, aval_of(pivots).shape, ())))
            here = at(permutation, shape.broadcast_in_dim(i, out.shape, ()))
            there = elementwise.eq(shape.broadcasted_iota(out.dtype, out.shape, out.ndim - 1), spread(other))
            mine, theirs = spread(pick(permutation, here)), spread(pick(permutation, there))
            return (
                elementwise.add(i, shape.full_like(i, 1)),
                elementwise.select(here, theirs, elementwise.select(there, mine, permutation)),
                pivots,
            )

        end = b.constant(steps, index)
        condition = b.block(state, lambda inner, i, *rest: inner.inline(elementwise.lt, [i, end]))
        body = b.block(state, lambda inner, *values: inner.inline(exchange, values))
        types = ", ".join(s.hlo for s in state)
        zero = b.constant(0, index)
        return b.emit_many(
            f'"stablehlo.while"({zero}, {start}, {pivots}) ({condition}, {body}) : ({types}) -> ({types})', state
        )[1]


# --- QR -----------------------------------------------------------------------------------------------------------------------


class Geqrf(MatrixFunction):
    """QR by reflections, packed: R above, the reflectors below the diagonal; and their factors tau."""

    jvp = Undefined("differentiate qr: the packed reflectors are an intermediate form")
    transpose = Undefined("it is not linear")

    def infer(self, a: ShapedArray) -> tuple[ShapedArray, ...]:
        """The packed matrix and min(m, n) factors."""
        lapack.check_matrix(a)
        return a.strip_weak(), array_aval((*a.shape[:-2], min(a.shape[-2:])), a.dtype)

    def reference(self, a: Any) -> tuple[np.ndarray, ...]:
        """LAPACK through SciPy."""
        outs = self.infer(array_aval(a.shape, a.dtype))
        if a.size == 0:
            return np.zeros(a.shape, a.dtype), np.zeros(outs[1].shape, a.dtype)
        geqrf = scipy_linalg.get_lapack_funcs(("geqrf",), (a,))[0]
        return lapack.numpy_batched(lambda x: geqrf(x)[:2], a, cores=(2,), outs=outs)

    def lower(self, b: Any, ins: Any, outs: Any) -> list[Any]:
        """LAPACK's geqrf."""
        return self.constants(b, ins, outs) or lapack.call(
            b, "{}geqrf", ins, outs, ([True], [True, False]), None, [(0, 0)]
        )


class Geqp3(MatrixFunction):
    """QR of a with its columns permuted so that the diagonal of R decreases; operands (a, initial pivots)."""

    jvp = Undefined("differentiate qr with pivoting=True")
    transpose = Undefined("it is not linear")

    def infer(self, a: ShapedArray, pivots: ShapedArray) -> tuple[ShapedArray, ...]:
        """The packed matrix, the pivots (from 1), min(m, n) factors."""
        lapack.check_matrix(a)
        return a.strip_weak(), pivots.strip_weak(), array_aval((*a.shape[:-2], min(a.shape[-2:])), a.dtype)

    def reference(self, a: Any, pivots: Any) -> tuple[np.ndarray, ...]:
        """LAPACK through SciPy."""
        outs = self.infer(array_aval(a.shape, a.dtype), array_aval(pivots.shape, pivots.dtype))
        if a.size == 0:
            columns = np.broadcast_to(np.arange(1, a.shape[-1] + 1, dtype=np.int32), pivots.shape)
            return np.zeros(a.shape, a.dtype), columns.copy(), np.zeros(outs[2].shape, a.dtype)
        geqp3 = scipy_linalg.get_lapack_funcs(("geqp3",), (a,))[0]
        return lapack.numpy_batched(lambda x, _: geqp3(x)[:3], a, pivots, cores=(2, 1), outs=outs)

    def lower(self, b: Any, ins: Any, outs: Any) -> list[Any]:
        """LAPACK's geqp3."""
        return self.constants(b, ins, outs) or lapack.call(
            b, "{}geqp3", ins, outs, ([True, False], [True, False, False]), None, [(0, 0), (1, 1)]
        )


class HouseholderProduct(MatrixFunction):
    """The product of the reflections packed in a with factors taus: as many columns as a has."""

    jvp = Undefined("differentiate qr: the packed reflectors are an intermediate form")
    transpose = Undefined("it is not linear")

    def infer(self, a: ShapedArray, taus: ShapedArray) -> tuple[ShapedArray, ...]:
        """The type of a."""
        lapack.check_matrix(a)
        m, n = a.shape[-2:]
        if m < n:
            raise errors.ShapeError(f"takes at least as many rows as columns, got shape {a.shape}")
        if taus.shape[:-1] != a.shape[:-2] or taus.shape[-1] > n or taus.dtype != a.dtype:
            raise errors.ShapeError(f"taus of type {taus.str_short()} do not fit reflectors of type {a.str_short()}")
        return (a.strip_weak(),)

    def reference(self, a: Any, taus: Any) -> tuple[np.ndarray, ...]:
        """Reflection after reflection."""
        m, n = a.shape[-2:]

        def product(x: Any, tau: Any) -> Any:
            out = np.eye(m, dtype=x.dtype)
            for i in range(tau.shape[0]):
                v = np.concatenate([np.zeros(i), [1], x[i + 1 :, i]]).astype(x.dtype)
                out = out - tau[i] * np.outer(out @ v, v.conj())
            return out[:, :n]

        return lapack.numpy_batched(product, a, taus, cores=(2, 1), outs=(array_aval(a.shape, a.dtype),))

    def lower(self, b: Any, ins: Any, outs: Any) -> list[Any]:
        """LAPACK's orgqr or ungqr."""
        kernel = "{}ungqr" if dtypes.is_complex(outs[0].dtype) else "{}orgqr"
        if ins[1].aval.size == 0:
            return [
                b.constant(value, aval)
                for value, aval in zip(self.reference(*[np.zeros(x.shape, x.dtype) for x in ins]), outs, strict=True)
            ]
        return lapack.call(b, kernel, ins, outs, ([True, False], [True]), None, [(0, 0)])


class Ormqr(MatrixFunction):
    """c multiplied by the orthogonal matrix packed in (a, taus), from the left or right, or by its adjoint."""

    jvp = Undefined("differentiate qr: the packed reflectors are an intermediate form")
    transpose = Undefined("it is not linear")

    def infer(
        self, a: ShapedArray, taus: ShapedArray, c: ShapedArray, *, left: bool, transpose: bool
    ) -> tuple[ShapedArray, ...]:
        """The type of c."""
        lapack.check_matrix(a)
        lapack.check_matrix(c)
        if c.shape[-2 if left else -1] != a.shape[-2]:
            raise errors.ShapeError(
                f"reflectors of shape {a.shape} do not act on matrices of shape {c.shape} (left={left})"
            )
        return (c.strip_weak(),)

    def reference(self, a: Any, taus: Any, c: Any, *, left: bool, transpose: bool) -> tuple[np.ndarray, ...]:
        """The product with the whole matrix."""
        m, n = a.shape[-2:]
        full = np.concatenate([a, np.zeros((*a.shape[:-1], m - n), a.dtype)], -1) if m > n else a[..., :m]
        (q,) = householder_product_p.reference(full, taus)
        q = np.conj(np.swapaxes(q, -1, -2)) if transpose else q
        return ((q @ c if left else c @ q).astype(c.dtype),)

    def lower(self, b: Any, ins: Any, outs: Any, *, left: bool, transpose: bool) -> list[Any]:
        """LAPACK's ormqr or unmqr."""
        kernel = "{}unmqr" if dtypes.is_complex(outs[0].dtype) else "{}ormqr"
        return lapack.call(
            b, kernel, ins, outs, ([True, False, True], [True]), {"left": left, "transpose": transpose}, [(0, 2)]
        )


class QR(MatrixFunction):
    """q and r of a, and with pivoting the permutation of columns p: a[:, p] = q r."""

    transpose = Undefined("it is not linear")

    def infer(self, a: ShapedArray, *, full_matrices: bool, pivoting: bool) -> tuple[ShapedArray, ...]:
        """(m, k), (k, n) and (n,), with k = m if full, else min(m, n)."""
        lapack.check_matrix(a)
        *lead, m, n = a.shape
        k = m if full_matrices else min(m, n)
        outs = array_aval((*lead, m, k), a.dtype), array_aval((*lead, k, n), a.dtype)
        return (*outs, array_aval((*lead, n), np.dtype(np.int32))) if pivoting else outs

    def reference(self, a: Any, *, full_matrices: bool, pivoting: bool) -> tuple[np.ndarray, ...]:
        """SciPy's qr."""
        outs = self.infer(array_aval(a.shape, a.dtype), full_matrices=full_matrices, pivoting=pivoting)

        def factor(x: Any) -> Any:
            return scipy_linalg.qr(x, mode="full" if full_matrices else "economic", pivoting=pivoting)

        if a.size == 0:
            q = np.broadcast_to(np.eye(*outs[0].shape[-2:], dtype=a.dtype), outs[0].shape).copy()
            r = np.zeros(outs[1].shape, a.dtype)
            return (
                (q, r, np.broadcast_to(np.arange(a.shape[-1], dtype=np.int32), outs[2].shape).copy())
                if pivoting
                else (q, r)
            )
        return lapack.numpy_batched(factor, a, cores=(2,), outs=outs)

    def jvp(self, primals: Any, tangents: Any, *, full_matrices: bool, pivoting: bool) -> Any:
        """With W the anti-Hermitian Q^H dQ whose lower triangle is that of Q^H da R^-1: dQ = Q W + ..., dR = Q^H da - W R.

        The columns that complete a full Q are free to turn among themselves; their tangent is the one without such turns.
        """
        (a,), (da,) = primals, tangents
        outs = self.bind(a, full_matrices=full_matrices, pivoting=pivoting)
        if da is None:
            return outs, (None,) * len(outs)
        q, r = outs[:2]
        *_, m, n = aval_of(a).shape
        k = min(m, n)
        if pivoting:
            da = lapack.transposed(rows_of(lapack.transposed(da), outs[2]))
        head = triangle(lapack.block_of(r, k, k), False)
        ratio = solve(head, lapack.block_of(da, m, k), left_side=False, lower=False)
        inner = matmul(adjoint(q), ratio)  # rows of all columns of q
        square = lapack.block_of(inner, k, k)
        strict = triangle(square, True, -1)
        turn = elementwise.sub(strict, adjoint(strict))
        if dtypes.is_complex(aval_of(a).dtype):
            imaginary = complex_parts.complex(
                elementwise.mul(complex_parts.real(square), 0), complex_parts.imag(square)
            )
            mask = lapack.diagonal_mask(aval_of(square))
            turn = elementwise.add(turn, elementwise.select(mask, imaginary, shape.full_like(imaginary, 0)))
        if full_matrices and m > k:
            below = lapack.block_of(inner, m - k, k, (k, 0))
            upper = elementwise.neg(adjoint(below))
            turn = joining.concatenate(
                [joining.concatenate([turn, upper], aval_of(turn).ndim - 1), lapack.padded(below, 0, m - k)],
                aval_of(turn).ndim - 2,
            )
            dq = matmul(q, turn)
        else:
            dq = elementwise.add(matmul(q, elementwise.sub(turn, inner)), ratio)
        dr = triangle(elementwise.sub(matmul(adjoint(q), da), matmul(turn, r)), False)
        return outs, (dq, dr, None) if pivoting else (dq, dr)

    def lower(self, b: Any, ins: Any, outs: Any, *, full_matrices: bool, pivoting: bool) -> list[Any]:
        """Reflections, then their product."""
        empty = self.constants(b, ins, outs, full_matrices=full_matrices, pivoting=pivoting)
        if empty is not None:
            return empty

        def compose(a: Any) -> Any:
            *lead, m, n = aval_of(a).shape
            k = m if full_matrices else min(m, n)
            if pivoting:
                packed, pivots, taus = geqp3_p.bind(a, shape.full((*lead, n), 0, np.int32))
                pivots = (elementwise.sub(pivots, shape.full_like(pivots, 1)),)
            else:
                (packed, taus), pivots = geqrf_p.bind(a), ()
            left = lapack.block_of(packed, m, min(n, k))
            q = householder_product_p.bind1(lapack.padded(left, 0, k - min(n, k)), taus)
            return q, triangle(lapack.block_of(packed, k, n), False), *pivots

        return b.inline(compose, ins)  # type: ignore[no-any-return]


# --- reduced forms ------------------------------------------------------------------------------------------------------------


class Hessenberg(MatrixFunction):
    """Reduction of square matrices to Hessenberg form, packed with its reflectors, and their factors."""

    jvp = Undefined("the packed reflectors are an intermediate form")
    transpose = Undefined("it is not linear")

    def infer(self, a: ShapedArray) -> tuple[ShapedArray, ...]:
        """The packed matrix and n - 1 factors."""
        lapack.check_matrix(a, True)
        return a.strip_weak(), array_aval((*a.shape[:-2], max(0, a.shape[-1] - 1)), a.dtype)

    def reference(self, a: Any) -> tuple[np.ndarray, ...]:
        """LAPACK through SciPy."""
        outs = self.infer(array_aval(a.shape, a.dtype))
        if a.shape[-1] <= 1 or a.size == 0:
            return a, np.zeros(outs[1].shape, a.dtype)
        gehrd = scipy_linalg.get_lapack_funcs(("gehrd",), (a,))[0]
        return lapack.numpy_batched(lambda x: gehrd(x)[:2], a, cores=(2,), outs=outs)

    def lower(self, b: Any, ins: Any, outs: Any) -> list[Any]:
        """LAPACK's gehrd."""
        if outs[1].size == 0:
            return [ins[0], b.constant(np.zeros(outs[1].shape, outs[1].dtype), outs[1])]
        size = outs[0].shape[-1]
        packed, taus, info = lapack.call(
            b,
            "{}gehrd",
            ins,
            [*outs, lapack.info_aval(outs[0])],
            ([True], [True, False, False]),
            {"low": 1, "high": size},
            [(0, 0)],
        )
        return [lapack.unless_failed(b, info, packed), lapack.unless_failed(b, info, taus)]


class Tridiagonal(MatrixFunction):
    """Reduction of Hermitian matrices to tridiagonal form: packed reflectors, diagonal, off-diagonal, factors."""

    jvp = Undefined("the packed reflectors are an intermediate form")
    transpose = Undefined("it is not linear")

    def infer(self, a: ShapedArray, *, lower: bool) -> tuple[ShapedArray, ...]:
        """The packed matrix, n and n - 1 reals, n - 1 factors."""
        lapack.check_matrix(a, True)
        if a.shape[-1] == 0:
            raise errors.ShapeError("takes matrices of at least one row")
        real = np.dtype(dtypes.real_dtype(a.dtype))
        *lead, n, _ = a.shape
        return (
            a.strip_weak(),
            array_aval((*lead, n), real),
            array_aval((*lead, n - 1), real),
            array_aval((*lead, n - 1), a.dtype),
        )

    def reference(self, a: Any, *, lower: bool) -> tuple[np.ndarray, ...]:
        """LAPACK through SciPy."""
        outs = self.infer(array_aval(a.shape, a.dtype), lower=lower)
        kernel = scipy_linalg.get_lapack_funcs(("hetrd" if dtypes.is_complex(a.dtype) else "sytrd",), (a,))[0]
        return lapack.numpy_batched(lambda x: kernel(x, lower=int(lower))[:4], a, cores=(2,), outs=outs)

    def lower(self, b: Any, ins: Any, outs: Any, *, lower: bool) -> list[Any]:
        """LAPACK's sytrd or hetrd."""
        kernel = "{}hetrd" if dtypes.is_complex(outs[0].dtype) else "{}sytrd"
        *found, info = lapack.call(
            b, kernel, ins, [*outs, lapack.info_aval(outs[0])], ([True], [True, False, False, False, False]),
            {"uplo": "L" if lower else "U"}, [(0, 0)],
        )  # fmt: skip
        return [lapack.unless_failed(b, info, x) if math.prod(x.shape) else x for x in found]


cholesky_p = Cholesky("cholesky")
lu_p = LU("lu")
lu_pivots_to_permutation_p = PivotsToPermutation("lu_pivots_to_permutation")
geqrf_p = Geqrf("geqrf")
geqp3_p = Geqp3("geqp3")
householder_product_p = HouseholderProduct("householder_product")
ormqr_p = Ormqr("ormqr")
qr_p = QR("qr")
hessenberg_p = Hessenberg("hessenberg")
tridiagonal_p = Tridiagonal("tridiagonal")


# --- functions ----------------------------------------------------------------------------------------------------------------


def symmetrized(x: Any) -> Any:
    """The Hermitian part of matrices."""
    return elementwise.mul(elementwise.add(x, adjoint(x)), shape.full_like(x, 0.5))


def cholesky(x: Any, *, symmetrize_input: bool = True) -> Any:
    """Lower triangular factor L, L L^H = x, of Hermitian positive definite matrices inexact[..., n, n]; NaN for others."""
    return cholesky_p.bind1(symmetrized(x) if symmetrize_input else x)


def lu(x: Any) -> tuple[Any, Any, Any]:
    """LU with partial pivoting of inexact[..., m, n]: packed factors, int32 pivots and row permutation (x[permutation] = L U)."""
    return lu_p.bind(x)  # type: ignore[return-value]


def lu_pivots_to_permutation(pivots: Any, permutation_size: int) -> Any:
    """The permutation of `permutation_size` rows that exchanging row i with row pivots[i] in turn amounts to."""
    return lu_pivots_to_permutation_p.bind1(pivots, permutation_size=int(permutation_size))


def geqrf(a: Any) -> tuple[Any, Any]:
    """QR in packed form: R above the reflectors, and their factors."""
    return geqrf_p.bind(a)  # type: ignore[return-value]


def geqp3(a: Any, jpvt: Any) -> tuple[Any, Any, Any]:
    """QR with column pivoting in packed form: packed matrix, pivots counted from 1, factors."""
    return geqp3_p.bind(a, jpvt)  # type: ignore[return-value]


def householder_product(a: Any, taus: Any) -> Any:
    """The orthogonal (unitary) matrix inexact[..., m, n] of the reflectors packed in `a` with factors `taus`."""
    return householder_product_p.bind1(a, taus)


def ormqr(a: Any, taus: Any, c: Any, *, left: bool = True, transpose: bool = False) -> Any:
    """`c` multiplied by the orthogonal (unitary) matrix of packed reflectors, or by its adjoint (`transpose`)."""
    return ormqr_p.bind1(a, taus, c, left=bool(left), transpose=bool(transpose))


def qr(x: Any, *, pivoting: bool = False, full_matrices: bool = True, use_magma: bool | None = None) -> Any:
    """(q, r) of inexact[..., m, n], and with `pivoting` the int32 permutation p of columns: x[..., p] = q r."""
    return qr_p.bind(x, full_matrices=bool(full_matrices), pivoting=bool(pivoting))


def hessenberg(a: Any) -> tuple[Any, Any]:
    """Reduction to Hessenberg form: the form packed with its reflectors, and their factors."""
    return hessenberg_p.bind(a)  # type: ignore[return-value]


def tridiagonal(a: Any, *, lower: bool = True) -> tuple[Any, Any, Any, Any]:
    """Reduction of Hermitian matrices to tridiagonal form: packed reflectors, diagonal, off-diagonal, factors."""
    return tridiagonal_p.bind(a, lower=bool(lower))  # type: ignore[return-value]
