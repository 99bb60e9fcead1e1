# SPDX-License-Identifier: Apache-2.0
"""Matrices with structure: block diagonal, Toeplitz, Hilbert, Pascal, Fourier and others.

Those made of arrays map over leading axes; those of a size alone are computed by SciPy in float64 and rounded.

The latter have the default float dtype, the former that of their operands.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from purax import dtypes, errors
from purax import numpy as pnp
from purax.lazy import lazy
from purax.numpy.norms import inexact
from purax.numpy.promotion import promote_dtypes

__all__ = [
    "block_diag", "circulant", "companion", "convolution_matrix", "dft", "fiedler", "fiedler_companion", "hadamard", "hankel",
    "helmert", "hilbert", "invhilbert", "invpascal", "leslie", "pascal", "toeplitz",
]  # fmt: skip

scipy_linalg = lazy("scipy.linalg")


def _size(n: Any, name: str) -> int:
    n = operator.index(n)
    if n < 0:
        raise ValueError(f"{name}: n must not be negative, got {n}")
    return n


def block_diag(*arrs: Any) -> Any:
    """Matrices (or vectors, as rows) along the diagonal of a matrix of zeros; leading axes broadcast."""
    if not arrs:
        return pnp.zeros((1, 0))
    blocks = promote_dtypes(*[pnp.asarray(x) for x in arrs])
    blocks = [pnp.atleast_2d(x) for x in blocks]
    lead = pnp.broadcast_shapes(*[x.shape[:-2] for x in blocks])
    columns, start, rows = sum(x.shape[-1] for x in blocks), 0, []
    for x in blocks:
        x = pnp.broadcast_to(x, (*lead, *x.shape[-2:]))
        width = [(0, 0)] * (x.ndim - 1) + [(start, columns - start - x.shape[-1])]
        rows.append(pnp.pad(x, width))
        start += x.shape[-1]
    return pnp.concatenate(rows, axis=-2)


def toeplitz(c: Any, r: Any = None) -> Any:
    """Matrices constant along diagonals, with first column c[..., m] and first row r[..., n] (its first entry is not read).

    Without `r`, the conjugate of `c`.
    """
    c = pnp.atleast_1d(pnp.asarray(c))
    r = pnp.conj(c) if r is None else pnp.atleast_1d(pnp.asarray(r))
    c, r = promote_dtypes(c, r)
    m, n = c.shape[-1], r.shape[-1]
    lead = pnp.broadcast_shapes(c.shape[:-1], r.shape[:-1])
    entries = pnp.concatenate(
        [pnp.flip(pnp.broadcast_to(c, (*lead, m)), -1), pnp.broadcast_to(r, (*lead, n))[..., 1:]], axis=-1
    )
    place = np.arange(m)[::-1, None] + np.arange(n)[None, :]
    return pnp.take(entries, place, axis=-1) if m and n else pnp.zeros((*lead, m, n), c.dtype)


def hankel(c: Any, r: Any = None) -> Any:
    """Matrices constant along antidiagonals, with first column c[..., m] and last row r[..., n] (its first entry is not read).

    Without `r`, zeros below the antidiagonal.
    """
    c = pnp.atleast_1d(pnp.asarray(c))
    r = pnp.zeros_like(c) if r is None else pnp.atleast_1d(pnp.asarray(r))
    c, r = promote_dtypes(c, r)
    m, n = c.shape[-1], r.shape[-1]
    lead = pnp.broadcast_shapes(c.shape[:-1], r.shape[:-1])
    entries = pnp.concatenate([pnp.broadcast_to(c, (*lead, m)), pnp.broadcast_to(r, (*lead, n))[..., 1:]], axis=-1)
    place = np.arange(m)[:, None] + np.arange(n)[None, :]
    return pnp.take(entries, place, axis=-1) if m and n else pnp.zeros((*lead, m, n), c.dtype)


def circulant(c: Any) -> Any:
    """Matrices [..., n, n] whose columns are c[..., n], each turned one further than the last."""
    c = pnp.atleast_1d(pnp.asarray(c))
    n = c.shape[-1]
    return pnp.take(c, (np.arange(n)[:, None] - np.arange(n)[None, :]) % max(n, 1), axis=-1)


def companion(a: Any) -> Any:
    """Companion matrices [..., n - 1, n - 1] of polynomials a[..., n], n >= 2, highest power first.

    Raises
    ------
    ShapeError
        Fewer than two coefficients.
    """
    (a,) = inexact("linalg.companion", pnp.asarray(a))
    if a.ndim < 1 or a.shape[-1] < 2:
        raise errors.ShapeError(f"companion takes at least two coefficients, got shape {a.shape}")
    n = a.shape[-1]
    first = -a[..., 1:] / a[..., :1]
    below = pnp.broadcast_to(pnp.eye(n - 2, n - 1, dtype=a.dtype), (*a.shape[:-1], n - 2, n - 1))
    return pnp.concatenate([first[..., None, :], below], axis=-2)


def convolution_matrix(a: Any, n: int, mode: str = "full") -> Any:
    """Matrices M with M v = convolve(a, v, mode), for a[..., m] and v[n].

    Parameters
    ----------
    mode : "full", "same" or "valid"
    a : array[..., m]
    n : int
        At least 1.

    Returns
    -------
    array of the dtype of `a`
        [..., m + n - 1, n] ("full"), [..., max(m, n), n] ("same") or [..., max(m, n) - min(m, n) + 1, n] ("valid").

    Raises
    ------
    ValueError
        n < 1, an empty `a`, or another mode.
    """
    n = operator.index(n)
    if n <= 0:
        raise ValueError(f"convolution_matrix: n is the size of v, at least 1, got {n}")
    a = pnp.asarray(a)
    if a.ndim < 1 or a.shape[-1] == 0:
        raise ValueError("convolution_matrix: a has no elements")
    if mode not in ("full", "valid", "same"):
        raise ValueError(f"convolution_matrix: mode is 'full', 'same' or 'valid', got {mode!r}")
    m = a.shape[-1]
    nothing = [(0, 0)] * (a.ndim - 1)
    column = pnp.pad(a, [*nothing, (0, n - 1)])
    full = toeplitz(column, pnp.concatenate([a[..., :1], pnp.zeros((*a.shape[:-1], n - 1), a.dtype)], axis=-1))
    if mode == "full":
        return full
    length = max(m, n) if mode == "same" else max(m, n) - min(m, n) + 1
    start = (m + n - 1 - length) // 2 if mode == "same" else min(m, n) - 1
    return full[..., start : start + length, :]


def leslie(f: Any, s: Any) -> Any:
    """Matrices with first row f[..., n] and s[..., n - 1] below the diagonal.

    Raises
    ------
    ValueError
        `s` is empty or not shorter than `f` by one.
    """
    f, s = promote_dtypes(pnp.atleast_1d(pnp.asarray(f)), pnp.atleast_1d(pnp.asarray(s)))
    if s.shape[-1] != f.shape[-1] - 1 or s.shape[-1] == 0:
        raise ValueError(f"leslie takes n > 1 fecundities and n - 1 survival rates, got {f.shape} and {s.shape}")
    lead = pnp.broadcast_shapes(f.shape[:-1], s.shape[:-1])
    rates = pnp.broadcast_to(s[..., None], (*lead, s.shape[-1], f.shape[-1]))
    below = pnp.where(np.eye(s.shape[-1], f.shape[-1], dtype=bool), rates, 0)
    return pnp.concatenate([pnp.broadcast_to(f, (*lead, f.shape[-1]))[..., None, :], below], axis=-2)


def fiedler(a: Any) -> Any:
    """Matrices |a_i - a_j| of a[..., n]."""
    a = pnp.atleast_1d(pnp.asarray(a))
    return pnp.abs(a[..., :, None] - a[..., None, :])


def fiedler_companion(a: Any) -> Any:
    """Fiedler's companion matrices [..., n - 1, n - 1], five diagonals, of polynomials a[..., n], highest power first.

    Raises
    ------
    ShapeError
        No coefficients.
    """
    (a,) = inexact("linalg.fiedler_companion", pnp.atleast_1d(pnp.asarray(a)))
    if a.shape[-1] == 0:
        raise errors.ShapeError(f"fiedler_companion takes a nonzero number of coefficients, got shape {a.shape}")
    n = a.shape[-1] - 1
    lead = a.shape[:-1]
    if n < 1:
        return pnp.zeros((*lead, 0, 0), a.dtype)
    b = a / a[..., :1]
    if n == 1:
        return -b[..., 1:, None]
    # which coefficient (1 to n, 0: none) and which ones stand where
    place, ones = np.zeros((n, n), np.int64), np.zeros((n, n))
    place[0, 0] = 1
    for i in range(n):
        if i + 1 < n and i % 2 == 0:
            place[i, i + 1] = i + 2
        if 0 < i and i + 1 < n and i % 2 == 1:
            place[i + 1, i] = i + 2
        if i % 2 == 0 and i + 2 < n:
            ones[i, i + 2] = 1
        if i % 2 == 1 and i + 2 < n:
            ones[i + 2, i] = 1
    ones[1, 0] = 1
    picked = pnp.take(b, place, axis=-1)
    return pnp.where(place > 0, -picked, pnp.asarray(ones, a.dtype))


def dft(n: int, scale: str | None = None, *, dtype: Any = None) -> Any:
    """The matrix of the discrete Fourier transform, complex[n, n]; `scale` "sqrtn" or "n" divides it.

    Parameters
    ----------
    n : int
    scale : "sqrtn", "n" or None
        What the sums are divided by; "sqrtn" makes the matrix unitary.
    dtype : complex dtype, optional

    Returns
    -------
    complex[n, n]
        exp(-2 pi i j k / n) at j, k, scaled.

    Raises
    ------
    ValueError
        A negative n, another scale, or a dtype that is not complex.
    """
    if scale not in (None, "sqrtn", "n"):
        raise ValueError(f"dft: scale is None, 'sqrtn' or 'n', got {scale!r}")
    n = _size(n, "dft")
    wanted = dtypes.to_complex(dtypes.default_float()) if dtype is None else dtypes.named(dtype)
    if not dtypes.is_complex(wanted):
        raise ValueError(f"dft: dtype must be complex, got {wanted}")
    return pnp.asarray(scipy_linalg.dft(n, scale) if n else np.zeros((0, 0)), wanted)


def hadamard(n: int, dtype: Any = int) -> Any:
    """Hadamard's matrix [n, n] of 1 and -1, for n a power of 2, in the `dtype` asked for.

    Raises
    ------
    ValueError
        `n` is no power of 2.
    """
    n = operator.index(n)
    if n < 1 or n & (n - 1):
        raise ValueError(f"hadamard: n is one of 1, 2, 4, 8, ..., got {n}")
    return pnp.asarray(scipy_linalg.hadamard(n), dtypes.named(dtype))


def helmert(n: int, full: bool = False) -> Any:
    """Helmert's orthogonal matrix, without its first row unless `full`.

    Raises
    ------
    ValueError
        `n` is below 1.
    """
    n = operator.index(n)
    if n <= 0:
        raise ValueError(f"helmert: n is at least 1, got {n}")
    return _rounded(scipy_linalg.helmert(n, full=full))


def hilbert(n: int) -> Any:
    """The matrix 1 / (i + j + 1)."""
    n = _size(n, "hilbert")
    return _rounded(1 / (np.arange(n)[:, None] + np.arange(n)[None, :] + 1))


def invhilbert(n: int) -> Any:
    """The inverse of `hilbert`."""
    n = _size(n, "invhilbert")
    return _rounded(scipy_linalg.invhilbert(n) if n else np.zeros((0, 0)))


def pascal(n: int, kind: str | None = None) -> Any:
    """Pascal's triangle as a matrix [n, n]; `kind` is "symmetric" (default), "lower" or "upper"."""
    return _rounded(_pascal(scipy_linalg.pascal, n, kind))


def invpascal(n: int, kind: str | None = None) -> Any:
    """The inverse of `pascal` of the same `kind`."""
    return _rounded(_pascal(scipy_linalg.invpascal, n, kind))


def _pascal(make: Any, n: int, kind: str | None) -> Any:
    kind = "symmetric" if kind is None else kind
    if kind not in ("symmetric", "lower", "upper"):
        raise ValueError(f"kind is 'symmetric', 'lower' or 'upper', got {kind!r}")
    n = _size(n, "pascal")
    return make(n, kind=kind) if n else np.zeros((0, 0))


def _rounded(matrix: Any) -> Any:
    return pnp.asarray(np.asarray(matrix, np.float64), dtypes.default_float())
