# SPDX-License-Identifier: Apache-2.0
"""Products of `purax.numpy`, `purax.numpy.linalg` and `purax.numpy.fft`."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from tests.differential.draw import Drawer
from tests.differential.entry import Call, Entry, call

KINDS = "biufhc"


def factors(left: str, right: str, kinds: str = KINDS, **extra: Any) -> Entry:
    """A product of two arrays, whose core axes are named by letters; letters that are shared have one size."""

    def arguments(d: Drawer) -> Call:
        sizes = {letter: d.one_of(2, 3, 1, 0) for letter in sorted({*left, *right})}
        dtype = d.dtype(kinds)
        lead = d.shape(0, 1)
        shapes = [(*(lead if d.one_of(True, False) else ()), *(sizes[one] for one in names)) for names in (left, right)]
        return call(*(d.array(shape=s, dtype=dtype, special=False, low=-3, high=3) for s in shapes), **extra)

    return Entry(arguments, absolute=256)


def two(low: int, high: int) -> Entry:
    """A function of two arrays of one dtype and any shapes."""

    def arguments(d: Drawer) -> Call:
        dtype = d.dtype("iufc")
        return call(*(d.array(shape=d.shape(low, high), dtype=dtype, special=False) for _ in range(2)))

    return Entry(arguments, absolute=4)


def dotted(d: Drawer) -> Call:
    """Operands of `dot`, of 0 to 3 dimensions."""
    dtype, n = d.dtype(KINDS), d.one_of(2, 3, 0)
    first = d.one_of((), (n,), (2, n), (2, 1, n))
    second = d.one_of((), (n,), (n, 3), (2, n, 1))
    return call(*(d.array(shape=s, dtype=dtype, special=False, low=-3, high=3) for s in (first, second)))


def contracted(d: Drawer) -> Call:
    """Operands of `tensordot`."""
    x = d.array("if", (2, 3, 1), special=False)
    y = d.array("if", (3, 1, 2), special=False)
    return call(x, y, axes=d.one_of(((1,), (0,)), ((0, 1), (2, 0)), 0))


def summed(d: Drawer) -> Call:
    """A formula of Einstein's and its operands."""
    formula = d.one_of(
        "ij,jk->ik", "ij,jk", "ii->i", "ii", "ij->ji", "i,j->ij", "...i,i->...", "ij,ij->", "ij,kj,k->i", "bij,bjk->bik"
    )
    sizes = {"i": 2, "j": 3, "k": 2, "b": 1}
    dtype = d.dtype("iufc")
    terms = formula.split("->")[0].split(",")
    shapes = [tuple(size for c in term.replace("...", "b") for size in (sizes[c],)) for term in terms]
    return call(formula, *(d.array(shape=s, dtype=dtype, special=False, low=-3, high=3) for s in shapes))


def crossed(d: Drawer) -> Call:
    """Vectors of two or three components."""
    lead, dtype = d.shape(0, 2), d.dtype("if")
    return call(*(d.array(shape=(*lead, 3), dtype=dtype, special=False) for _ in range(2)))


def square(**options: Any) -> Entry:
    """A function of square matrices."""
    return Entry(lambda d: call(d.matrices()), **{"absolute": 2048, "ulps": 2048, **options})


def positive(**options: Any) -> Entry:
    """A function of positive definite matrices."""

    def arguments(d: Drawer) -> Call:
        n = d.one_of(2, 3, 1)
        return call(d.positive_definite((*d.shape(0, 1, (2, 1)), n, n), d.wide()))

    return Entry(arguments, **{"absolute": 2048, "ulps": 2048, **options})


def tall(**options: Any) -> Entry:
    """A function of matrices of any proportion."""
    return Entry(
        lambda d: call(d.matrices("fc", d.one_of(2, 3, 1), d.one_of(2, 3, 1))),
        **{"absolute": 2048, "ulps": 2048, **options},
    )


def systems(d: Drawer) -> Call:
    """Matrices and right-hand sides."""
    a = d.matrices("fc")
    b = d.array(shape=(*a.shape[:-1], d.one_of(1, 2)), dtype=a.dtype, special=False)
    return call(a, b)


def squares(d: Drawer) -> Call:
    """An overdetermined system."""
    return call(
        d.matrices("f", 4, 2, ()),
        d.array(shape=(4, 2), dtype=np.float32, special=False),
    )


def measured(d: Drawer) -> Call:
    """An array whose norm is taken."""
    x = d.array("ifc", d.shape(1, 3, (2, 3, 1)), special=False)
    axis, order = d.one_of((None, None), (d.axis(x.ndim), d.one_of(None, 1, 2, 3, 0, np.inf, -np.inf)))
    if x.ndim >= 2 and d.one_of(False, True):
        axis, order = (0, 1), d.one_of("fro", 1, 2, np.inf, "nuc", -2)
    return call(x, order, axis, d.one_of(False, True))


def powers(d: Drawer) -> Call:
    """A matrix and an exponent."""
    return call(d.matrices("fc"), d.integer(-2, 4))


def spectrum(kinds: str, **options: Any) -> Entry:
    """A transform along one axis."""

    def arguments(d: Drawer) -> Call:
        dtypes = (np.float32, np.float64, np.int32, *((np.complex64, np.complex128) if "c" in kinds else ()))
        x = d.array(shape=d.shape(1, 3, (3, 2, 4, 1)), special=False, dtype=d.one_of(*dtypes))
        return call(x, n=d.one_of(None, 3, 4), axis=d.axis(x.ndim), norm=d.one_of(None, "ortho", "forward", "backward"))

    return Entry(arguments, absolute=256, **options)


def spectra(kinds: str, count: int) -> Entry:
    """A transform along several axes."""

    def arguments(d: Drawer) -> Call:
        dtype = d.one_of(np.complex64, np.complex128) if "c" in kinds else d.one_of(np.float32, np.float64)
        x = d.array(shape=d.shape(2, 3, (3, 2, 4)), special=False, dtype=dtype)
        axes = d.one_of((-2, -1), (0, 1), (1, 0)) if count == 2 else d.one_of(None, (0, 1), (-1,))
        return call(x, axes=axes, norm=d.one_of(None, "ortho", "forward"))

    return Entry(arguments, absolute=512)


def shifted(d: Drawer) -> Call:
    """An array whose halves are swapped."""
    x = d.array(KINDS, d.shape(1))
    return call(x, d.one_of(None, d.axis(x.ndim)))


def values_of(out: Any, *args: Any, **kwargs: Any) -> Any:
    """Eigenvalues in an order of their own."""
    return np.sort(np.asarray(out), axis=-1)


def eigen_product(out: Any, a: np.ndarray, *args: Any, **kwargs: Any) -> Any:
    """Eigenvalues, and the matrix that their vectors build."""
    w, v = (np.asarray(x) for x in out)
    return w, (v * w[..., None, :]) @ np.swapaxes(v, -1, -2).conj()


def eigen_residual(out: Any, a: np.ndarray, *args: Any, **kwargs: Any) -> Any:
    """How far from eigenvectors the vectors are; and the sizes of the values."""
    w, v = (np.asarray(x) for x in out)
    return np.sort(np.abs(w), axis=-1), np.round(np.abs(a @ v - v * w[..., None, :]), 2)


def singular_product(out: Any, *args: Any, **kwargs: Any) -> Any:
    """Singular values, and the matrix that the factors build."""
    u, s, v = (np.asarray(x) for x in out)
    return s, (u * s[..., None, :]) @ v


def orthogonal_product(out: Any, *args: Any, **kwargs: Any) -> Any:
    """The sizes of the triangle's entries, and the product of the factors."""
    q, r = (np.asarray(x) for x in out)
    return np.abs(r), q @ r


def tensor_inverse(d: Drawer) -> Call:
    """A tensor that is square in two groups of axes."""
    shape, ind = d.one_of(((2, 3, 6), 2), ((4, 2, 2), 1))
    n = shape[0] if ind == 1 else shape[-1]
    return call(d.matrices("f", n, n, ()).reshape(shape), ind=ind)


def tensor_system(d: Drawer) -> Call:
    """A tensor equation."""
    return call(d.matrices("f", 4, 4, ()).reshape(2, 2, 4), d.array(shape=(2, 2), dtype=np.float32, special=False))


def chain(d: Drawer) -> Call:
    """Matrices that can be multiplied in a row."""
    sizes = [d.one_of(2, 3, 1) for _ in range(d.integer(3, 5))]
    return call(
        [d.array("f", pair, low=-2, high=2, special=False, dtype=np.float32) for pair in itertools.pairwise(sizes)]
    )


def ranked(d: Drawer) -> Call:
    """Matrices of which some have dependent rows."""
    a = d.matrices("f", 3, 3)
    return call(np.concatenate([a, a[..., :1, :]], axis=-2) if d.one_of(False, True) else a)


def frequencies(d: Drawer) -> Call:
    """A number of samples and their distance."""
    return call(d.integer(1, 6), d.one_of(1.0, 0.5))


def exact_norm(d: Drawer) -> Call:
    """Matrices and the order of a norm."""
    return call(d.matrices("fc"), ord=d.one_of("fro", "nuc", 1, 2, np.inf), keepdims=d.one_of(False, True))


def vector_norms(d: Drawer) -> Call:
    """Vectors and the order of a norm."""
    x = d.array("fc", d.shape(1, 3, (2, 3, 1)), special=False)
    return call(x, axis=d.axes(x.ndim), keepdims=d.one_of(False, True), ord=d.one_of(2, 1, np.inf, 3))


PRODUCTS: dict[str, Entry] = {
    "dot": Entry(dotted, absolute=256),
    "matmul": factors("ij", "jk"),
    "vecdot": factors("i", "i", "iufc"),
    "matvec": factors("ij", "j", "iufc"),
    "vecmat": factors("i", "ij", "iufc"),
    "vdot": factors("i", "i", "iufc"),
    "inner": factors("i", "i", "iufc"),
    "outer": two(0, 2),
    "kron": two(0, 2),
    "tensordot": Entry(contracted, absolute=256),
    "einsum": Entry(summed, absolute=256),
    "cross": Entry(crossed, absolute=64),
    "trace": Entry(lambda d: call(d.array("iufc", d.shape(2)), d.integer(-2, 2), *d.one_of((), (1, 0), (-2, -1))), absolute=64),
}  # fmt: skip

LINALG: dict[str, Entry] = {
    "cholesky": positive(),
    "cond": Entry(lambda d: call(d.matrices("fc"), d.one_of(None, 1, np.inf, "fro", 2, -2)), ulps=20000),
    "cross": Entry(crossed, absolute=64),
    "det": square(),
    "diagonal": Entry(lambda d: call(d.array(KINDS, d.shape(2)), offset=d.integer(-2, 2))),
    "eig": square(view=eigen_residual, dtypes=False, absolute=20000),
    "eigh": positive(view=eigen_product),
    "eigvals": square(view=values_of, dtypes=False, absolute=20000),
    "eigvalsh": positive(),
    "inv": square(),
    "lstsq": Entry(squares, view=lambda out, *args: [out[0], out[2], out[3]], absolute=4096, dtypes=False),
    "matmul": PRODUCTS["matmul"],
    "matrix_norm": Entry(exact_norm, ulps=512),
    "matrix_power": Entry(powers, absolute=8192, ulps=8192),
    "matrix_rank": Entry(ranked),
    "matrix_transpose": Entry(lambda d: call(d.array(KINDS, d.shape(2)))),
    "multi_dot": Entry(chain, absolute=1024),
    "norm": Entry(measured, ulps=512, inexact=True),
    "outer": two(1, 1),
    "pinv": tall(absolute=8192),
    "qr": tall(view=orthogonal_product),
    "slogdet": square(),
    "solve": Entry(systems, absolute=4096),
    "svd": Entry(lambda d: call(d.matrices("fc", d.one_of(2, 3, 1), d.one_of(2, 3, 1)), full_matrices=False), view=singular_product, absolute=2048),
    "svdvals": tall(),
    "tensordot": PRODUCTS["tensordot"],
    "tensorinv": Entry(tensor_inverse, absolute=4096),
    "tensorsolve": Entry(tensor_system, absolute=4096),
    "trace": Entry(lambda d: call(d.array("iufc", d.shape(2)), offset=d.integer(-2, 2)), absolute=64),
    "vecdot": PRODUCTS["vecdot"],
    "vector_norm": Entry(vector_norms, ulps=128),
}  # fmt: skip

FFT: dict[str, Entry] = {
    **{name: spectrum("fc") for name in ("fft", "ifft", "hfft")},
    **{name: spectrum("f") for name in ("rfft", "ihfft")},
    "irfft": spectrum("fc"),
    **{name: spectra("c", 2) for name in ("fft2", "ifft2", "irfft2")},
    "rfft2": spectra("f", 2),
    **{name: spectra("c", 3) for name in ("fftn", "ifftn", "irfftn")},
    "rfftn": spectra("f", 3),
    "fftfreq": Entry(frequencies),
    "rfftfreq": Entry(frequencies),
    "fftshift": Entry(shifted),
    "ifftshift": Entry(shifted),
}
