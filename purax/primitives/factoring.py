# SPDX-License-Identifier: Apache-2.0
"""Factorizations of matrices by elimination: Cholesky and LU."""

from __future__ import annotations

from typing import Any

import numpy as np

from purax import dtypes, errors
from purax.core.aval import ShapedArray, array_aval
from purax.core.primitive import Undefined
from purax.core.trace import aval_of
from purax.lazy import lazy
from purax.primitives import cast, elementwise, gather, lapack, reduction, shape, slicing, solving
from purax.primitives import complex as complex_parts
from purax.primitives.lapack import MatrixFunction, adjoint, matmul, triangle

__all__ = ["cholesky", "lu", "lu_pivots_to_permutation"]

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
        return b.inline(lambda x: triangle(x, True), [found])


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

    ranks = (1,)

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
            def column(x: Any) -> Any:
                return shape.squeeze(slicing.dynamic_slice_in_dim(x, i, 1, out.ndim - 1), (out.ndim - 1,))

            def spread(x: Any) -> Any:
                return shape.broadcast_in_dim(x, out.shape, tuple(range(out.ndim - 1)))

            places = shape.broadcasted_iota(out.dtype, out.shape, out.ndim - 1)
            here = elementwise.eq(
                places, spread(cast.convert_element_type(shape.broadcast_in_dim(i, out.shape[:-1], ()), out.dtype))
            )
            there = elementwise.eq(places, spread(column(pivots)))
            chosen = elementwise.select(there, permutation, shape.full_like(permutation, 0))
            theirs, mine = reduction.reduce_sum(chosen, (out.ndim - 1,)), column(permutation)
            permutation = elementwise.select(there, spread(mine), permutation)
            return (
                elementwise.add(i, shape.full_like(i, 1)), elementwise.select(here, spread(theirs), permutation), pivots,
            )  # fmt: skip

        def exchange_two(i: Any, permutation: Any, pivots: Any) -> Any:
            # Of one permutation two entries are read and written: XLA turns a loop of so few bytes into one kernel.
            other = shape.reshape(slicing.dynamic_slice(pivots, (i,), (1,)), ())
            other = cast.convert_element_type(other, np.int32)
            mine, theirs = (slicing.dynamic_slice(permutation, (j,), (1,)) for j in (i, other))
            permutation = slicing.dynamic_update_slice(permutation, theirs, (i,))
            permutation = slicing.dynamic_update_slice(permutation, mine, (other,))
            return elementwise.add(i, shape.full_like(i, 1)), permutation, pivots

        step = exchange_two if out.ndim == 1 else exchange
        end = b.constant(steps, index)
        condition = b.block(state, lambda inner, i, *rest: inner.inline(elementwise.lt, [i, end]))
        body = b.block(state, lambda inner, *values: inner.inline(step, values))
        types = ", ".join(s.hlo for s in state)
        zero = b.constant(0, index)
        return b.emit_many(
            f'"stablehlo.while"({zero}, {start}, {pivots}) ({condition}, {body}) : ({types}) -> ({types})', state
        )[1]


cholesky_p = Cholesky("cholesky")
lu_p = LU("lu")
lu_pivots_to_permutation_p = PivotsToPermutation("lu_pivots_to_permutation")


# --- functions ----------------------------------------------------------------------------------------------------------------


def symmetrized(x: Any) -> Any:
    """The Hermitian part of matrices."""
    return elementwise.mul(elementwise.add(x, adjoint(x)), shape.full_like(x, 0.5))


def cholesky(x: Any, *, symmetrize_input: bool = True) -> Any:
    """Triangular factors of Hermitian positive definite matrices, x = L L^H.

    Parameters
    ----------
    x : inexact[..., n, n]
    symmetrize_input : bool
        Use the Hermitian part of `x`; else its lower triangle alone.

    Returns
    -------
    inexact[..., n, n]
        Lower triangular L; NaN for matrices that are not positive definite.

    Raises
    ------
    ShapeError, DTypeError
    """
    return cholesky_p.bind1(symmetrized(x) if symmetrize_input else x)


def lu(x: Any) -> tuple[Any, Any, Any]:
    """LU with partial pivoting, x[permutation] = L U.

    Parameters
    ----------
    x : inexact[..., m, n]

    Returns
    -------
    packed : inexact[..., m, n]
        U, and below the diagonal L without its ones.
    pivots : int32[..., min(m, n)]
        Row i was exchanged with row pivots[i].
    permutation : int32[..., m]

    Raises
    ------
    ShapeError, DTypeError
    """
    return lu_p.bind(x)


def lu_pivots_to_permutation(pivots: Any, permutation_size: int) -> Any:
    """The permutation that exchanges of rows amount to.

    Parameters
    ----------
    pivots : integer[..., k]
        Row i is exchanged with row pivots[i], one after the other.
    permutation_size : int
        Number of rows, at least k.

    Returns
    -------
    integer[..., permutation_size]

    Raises
    ------
    ShapeError, DTypeError
    """
    return lu_pivots_to_permutation_p.bind1(pivots, permutation_size=int(permutation_size))
