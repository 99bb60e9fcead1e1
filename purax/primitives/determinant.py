# SPDX-License-Identifier: Apache-2.0
"""Determinants, with derivatives that are right where the matrix is singular."""

from __future__ import annotations

from typing import Any

import numpy as np

from purax import dtypes
from purax.core.aval import ShapedArray, array_aval
from purax.core.primitive import Undefined
from purax.core.trace import aval_of
from purax.primitives import cast, elementwise, factoring, joining, lapack, reduction, shape, solving, spectral
from purax.primitives import complex as complex_parts
from purax.primitives.lapack import MatrixFunction, columns_scaled, matmul

__all__ = ["det", "slogdet"]


class Det(MatrixFunction):
    """Determinants of square matrices."""

    transpose = Undefined("it is not linear")

    def infer(self, a: ShapedArray) -> tuple[ShapedArray, ...]:
        """One number per matrix."""
        lapack.check_matrix(a, True)
        return (array_aval(a.shape[:-2], a.dtype),)

    def reference(self, a: Any) -> tuple[np.ndarray, ...]:
        """NumPy's det."""
        return (np.asarray(np.linalg.det(a), a.dtype),)

    def jvp(self, primals: Any, tangents: Any) -> Any:
        """d det = sum of cofactors times da."""
        (a,), (da,) = primals, tangents
        out = self.bind1(a)
        if da is None:
            return (out,), (None,)
        rank = aval_of(a).ndim
        return (out,), (reduction.reduce_sum(elementwise.mul(cofactors(a), da), (rank - 2, rank - 1)),)

    def lower(self, b: Any, ins: Any, outs: Any) -> list[Any]:
        """Closed forms up to 3 x 3, else the product of the pivots."""
        return b.inline(small_det if ins[0].shape[-1] <= 3 else pivot_det, ins)


def _entry(a: Any, i: int, j: int) -> Any:
    rank = aval_of(a).ndim
    return shape.squeeze(lapack.block_of(a, 1, 1, (i, j)), (rank - 2, rank - 1))


def small_det(a: Any) -> Any:
    """Determinants of matrices of at most three rows, by expansion."""
    n = aval_of(a).shape[-1]
    if n == 0:
        return shape.full(aval_of(a).shape[:-2], 1, aval_of(a).dtype)
    if n == 1:
        return _entry(a, 0, 0)

    def pair(i: int, j: int, k: int, l: int) -> Any:
        return elementwise.sub(
            elementwise.mul(_entry(a, i, k), _entry(a, j, l)), elementwise.mul(_entry(a, i, l), _entry(a, j, k))
        )

    if n == 2:
        return pair(0, 1, 0, 1)
    terms = [elementwise.mul(_entry(a, 0, j), pair(1, 2, (j + 1) % 3, (j + 2) % 3)) for j in range(3)]
    return elementwise.add(elementwise.add(terms[0], terms[1]), terms[2])


def _sign_of(pivots: Any, dtype: Any) -> Any:
    """The sign of the permutation that the pivots make."""
    columns = shape.broadcasted_iota(np.int32, aval_of(pivots).shape, aval_of(pivots).ndim - 1)
    moved = cast.convert_element_type(elementwise.ne(pivots, columns), np.int32)
    count = reduction.reduce_sum(moved, (aval_of(pivots).ndim - 1,))
    odd = elementwise.eq(elementwise.bitwise_and(count, shape.full_like(count, 1)), shape.full_like(count, 1))
    ones = shape.full(aval_of(count).shape, 1, dtype)
    return elementwise.select(odd, elementwise.neg(ones), ones)


def pivot_det(a: Any) -> Any:
    """Determinants as products of LU's pivots."""
    packed, pivots, _ = factoring.lu_p.bind(a)
    rank = aval_of(a).ndim
    return elementwise.mul(
        reduction.reduce_prod(lapack.diagonal(packed), (rank - 2,)), _sign_of(pivots, aval_of(a).dtype)
    )


def cofactors(a: Any) -> Any:
    """Matrices of cofactors: entry (i, j) is the derivative of det by a[i, j]; singular matrices have them too.

    For regular matrices det(a) a^-T, a rational function whose derivatives are right in any order. For singular ones, from
    singular values: the products of all but one.
    """
    aval = aval_of(a)
    n = aval.shape[-1]
    if n <= 3:
        return _small_cofactors(a)
    packed, _, _ = factoring.lu_p.bind(a)
    pivots = elementwise.abs(lapack.diagonal(packed))
    regular = elementwise.gt(reduction.reduce_min(pivots, (aval.ndim - 2,)), 0)
    regular = shape.broadcast_in_dim(regular, aval.shape, tuple(range(aval.ndim - 2)))
    identity = lapack.eye(a, n, n)
    safe = elementwise.select(regular, a, identity)
    size = det_p.bind1(safe)
    inverse = lapack.transposed(solving.linear_solve(safe, identity))
    plain = elementwise.mul(shape.broadcast_in_dim(size, aval.shape, tuple(range(aval.ndim - 2))), inverse)
    other = elementwise.select(regular, identity, a)
    s, u, vt = spectral.svd_p.bind(other, full_matrices=False, compute_uv=True, algorithm=None)
    turn = elementwise.mul(pivot_det(u), pivot_det(vt))
    # product of the other singular values: a product over the rows of a matrix whose diagonal is set to one
    table = spectral.row_of(s, other)
    table = elementwise.select(lapack.diagonal_mask(aval_of(table)), shape.full_like(table, 1), table)
    rest = reduction.reduce_prod(table, (aval.ndim - 1,))
    by_values = lapack.conjugated(matmul(columns_scaled(u, rest), vt))
    turn = shape.broadcast_in_dim(turn, aval.shape, tuple(range(aval.ndim - 2)))
    return elementwise.select(regular, plain, elementwise.mul(by_values, turn))


def _small_cofactors(a: Any) -> Any:
    aval = aval_of(a)
    n = aval.shape[-1]
    if n <= 1:
        return shape.full_like(a, 1)
    if n == 2:
        rows = [
            [_entry(a, 1, 1), elementwise.neg(_entry(a, 1, 0))],
            [elementwise.neg(_entry(a, 0, 1)), _entry(a, 0, 0)],
        ]
    else:

        def minor(i: int, j: int) -> Any:
            p, q, r, s = (i + 1) % 3, (i + 2) % 3, (j + 1) % 3, (j + 2) % 3
            return elementwise.sub(
                elementwise.mul(_entry(a, p, r), _entry(a, q, s)), elementwise.mul(_entry(a, p, s), _entry(a, q, r))
            )

        rows = [[minor(i, j) for j in range(3)] for i in range(3)]
    rank = aval.ndim
    flat = [shape.expand_dims(x, (rank - 2,)) for row in rows for x in row]
    return shape.reshape(joining.concatenate(flat, rank - 2), aval.shape)


class SlogDet(MatrixFunction):
    """Sign (or phase) and log of the absolute value of determinants."""

    transpose = Undefined("it is not linear")

    def infer(self, a: ShapedArray) -> tuple[ShapedArray, ...]:
        """Sign of the operand's dtype, real logarithm."""
        lapack.check_matrix(a, True)
        return array_aval(a.shape[:-2], a.dtype), array_aval(a.shape[:-2], np.dtype(dtypes.real_dtype(a.dtype)))

    def reference(self, a: Any) -> tuple[np.ndarray, ...]:
        """NumPy's slogdet."""
        sign, log = np.linalg.slogdet(a)
        return np.asarray(sign, a.dtype), np.asarray(log, dtypes.real_dtype(a.dtype))

    def jvp(self, primals: Any, tangents: Any) -> Any:
        """d log|det| = Re sum(a^-T o da); the phase turns by its imaginary part."""
        (a,), (da,) = primals, tangents
        sign, log = self.bind(a)
        if da is None:
            return (sign, log), (None, None)
        aval = aval_of(a)
        inverse = lapack.transposed(solving.linear_solve(a, lapack.eye(a, aval.shape[-1], aval.shape[-1])))
        change = reduction.reduce_sum(elementwise.strong_mul(da, inverse), (aval.ndim - 2, aval.ndim - 1))
        if not dtypes.is_complex(aval.dtype):
            return (sign, log), (None, change)
        turn = complex_parts.complex(shape.full_like(log, 0), complex_parts.imag(change))
        return (sign, log), (elementwise.mul(turn, sign), complex_parts.real(change))

    def lower(self, b: Any, ins: Any, outs: Any) -> list[Any]:
        """From LU's pivots."""

        def compose(a: Any) -> Any:
            aval = aval_of(a)
            packed, pivots, _ = factoring.lu_p.bind(a)
            entries = lapack.diagonal(packed)
            last = (aval.ndim - 2,)
            sign = elementwise.mul(reduction.reduce_prod(elementwise.sign(entries), last), _sign_of(pivots, aval.dtype))
            return sign, reduction.reduce_sum(elementwise.log(elementwise.abs(entries)), last)

        empty = self.constants(b, ins, outs)
        return empty if empty is not None else b.inline(compose, ins)


det_p = Det("det")
slogdet_p = SlogDet("slogdet")


def det(a: Any) -> Any:
    """Determinants of inexact[..., n, n]."""
    return det_p.bind1(a)


def slogdet(a: Any) -> tuple[Any, Any]:
    """(sign, log of the absolute value) of determinants of inexact[..., n, n]; (0, -inf) for singular matrices."""
    return slogdet_p.bind(a)
