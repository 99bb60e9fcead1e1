# SPDX-License-Identifier: Apache-2.0
"""`purax.scipy`: special functions, distributions, matrices, signals and what else there is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg
import scipy.ndimage
import scipy.signal
import scipy.special

import purax.numpy
from tests.differential.draw import Drawer
from tests.differential.entry import Call, Entry, Other, call
from tests.differential.linear import (
    eigen_product,
    orthogonal_product,
    positive,
    singular_product,
    square,
)

FLOATS = (np.float32, np.float64)


def special(*ranges: tuple[float, float], whole: bool = False, **options: Any) -> Entry:
    """A function of as many operands as ranges are given, which broadcast; the first are integers if `whole`."""

    def arguments(d: Drawer) -> Call:
        shape, dtype = d.shape(), d.one_of(*FLOATS)
        edges = d.one_of(False, True)
        operands = []
        for i, (low, high) in enumerate(ranges):
            x = d.array(
                shape=shape if i == 0 or d.one_of(True, False) else shape[1:],
                dtype=dtype,
                low=low,
                high=high,
                special=False,
            )
            if edges and i == len(ranges) - 1 and low < 0 < high:
                x = d.array(shape=x.shape, dtype=dtype, low=low, high=high)
            operands.append(np.floor(x) if whole and i == 0 else x)
        return call(*operands)

    return Entry(arguments, **{"ulps": 512, "absolute": 16, **options})


def distribution(name: str, function: str, *parameters: tuple[float, float]) -> Entry:
    """A function of a distribution: where it is evaluated, its parameters, location and scale at times."""

    def arguments(d: Drawer) -> Call:
        shape, dtype = d.shape(0, 2, (2, 1, 3) if function == "entropy" else (2, 1, 3, 0)), d.one_of(*FLOATS)
        if function in ("ppf", "isf"):
            x = d.array(shape=shape, dtype=dtype, low=0.01, high=0.99, special=False)
        elif name in DISCRETE:
            x = np.floor(d.array(shape=shape, dtype=dtype, low=-1, high=9, special=False))
        else:
            x = d.array(shape=shape, dtype=dtype, low=-5, high=5)
        operands = [d.array(shape=shape, dtype=dtype, low=low, high=high, special=False) for low, high in parameters]
        operands = [np.floor(p) if name in COUNTED and i == 0 else p for i, p in enumerate(operands)]
        first = () if function == "entropy" else (x,)
        more = d.one_of((), (1.0,), (0.5, 2.0)) if name not in DISCRETE and name not in UNSCALED else ()
        return call(*first, *operands, *more)

    return Entry(arguments, ulps=4096, absolute=128)


UNIT, SHAPE, LOCATION = (0.05, 0.95), (0.3, 5), (-1, 1)
DISCRETE = {"bernoulli", "betabinom", "binom", "geom", "nbinom", "poisson"}
COUNTED = {"betabinom", "binom", "nbinom"}
UNSCALED = {"gennorm", "vonmises", "wrapcauchy"}
DISTRIBUTIONS: dict[str, tuple[tuple[tuple[float, float], ...], str]] = {
    "bernoulli": ((UNIT,), "cdf logpmf pmf ppf"),
    "beta": ((SHAPE, SHAPE), "cdf logcdf logpdf logsf pdf sf"),
    "betabinom": (((1, 9), SHAPE, SHAPE), "logpmf pmf"),
    "binom": (((1, 9), UNIT), "logpmf pmf"),
    "cauchy": ((), "cdf isf logcdf logpdf logsf pdf ppf sf"),
    "chi2": (((1, 9),), "cdf logcdf logpdf logsf pdf sf"),
    "expon": ((), "cdf logcdf logpdf logsf pdf ppf sf"),
    "gamma": ((SHAPE,), "cdf logcdf logpdf logsf pdf sf"),
    "gennorm": ((SHAPE,), "cdf logpdf pdf"),
    "geom": ((UNIT,), "logpmf pmf"),
    "gumbel_l": ((), "cdf logcdf logpdf logsf pdf ppf sf"),
    "gumbel_r": ((), "cdf logcdf logpdf logsf pdf ppf sf"),
    "laplace": ((), "cdf logpdf pdf"),
    "logistic": ((), "cdf isf logpdf pdf ppf sf"),
    "nbinom": (((1, 9), UNIT), "logpmf pmf"),
    "norm": ((), "cdf isf logcdf logpdf logsf pdf ppf sf"),
    "pareto": ((SHAPE,), "cdf logcdf logpdf logsf pdf ppf sf"),
    "poisson": ((SHAPE,), "cdf entropy logpmf pmf"),
    "t": ((SHAPE,), "logpdf pdf"),
    "truncnorm": (((-3, -1), (1, 3)), "cdf logcdf logpdf logsf pdf sf"),
    "uniform": ((), "cdf logpdf pdf ppf"),
    "vonmises": ((SHAPE,), "logpdf pdf"),
    "wrapcauchy": ((UNIT,), "logpdf pdf"),
}


def shares(d: Drawer) -> Call:
    """A point of the simplex and the parameters of Dirichlet's distribution."""
    n, dtype = d.integer(2, 4), d.one_of(*FLOATS)
    # Shares that add up to one in any precision.
    x = np.full(n, 1 / 8)
    x[0] = 1 - x[1:].sum()
    return call(x.astype(dtype), d.array(shape=(n,), dtype=dtype, low=0.5, high=4, special=False))


def draws(d: Drawer) -> Call:
    """Counts, their sum, and the probabilities of the kinds."""
    counts = d.generator().integers(0, 4, 3)
    # Exact in float32: newer versions of SciPy answer NaN where the sum is not 1 in float64.
    return call(counts, int(counts.sum()), np.array([0.25, 0.25, 0.5]))


def cloud(d: Drawer) -> Call:
    """Points, a mean and a covariance."""
    n, dtype = d.integer(1, 3), d.one_of(*FLOATS)
    x = d.array(shape=(*d.shape(0, 1, (2, 3)), n), dtype=dtype, special=False)
    return call(x, d.array(shape=(n,), dtype=dtype, special=False), d.positive_definite((n, n), dtype))


def most_frequent(d: Drawer) -> Call:
    """Numbers of which some are equal."""
    x = d.array("if", d.shape(1, 2, (3, 2, 4)), low=0, high=2, special=False)
    return call(x, axis=d.one_of(None, d.axis(x.ndim)), keepdims=d.one_of(False, True))


def ranks(d: Drawer) -> Call:
    """Numbers and what equals get."""
    x = d.array("if", d.shape(1, 2, (3, 2, 4)), low=0, high=3, special=False)
    return call(x, d.one_of("average", "min", "max", "dense", "ordinal"), axis=d.one_of(None, d.axis(x.ndim)))


def errors_of_means(d: Drawer) -> Call:
    """Numbers along an axis."""
    x = d.array("f", d.shape(1, 2, (3, 2, 4)), special=False)
    return call(x, axis=d.one_of(None, d.axis(x.ndim)), ddof=d.one_of(1, 0))


def weighed_sums(d: Drawer) -> Call:
    """What exponentials are summed of."""
    x = d.array(shape=d.shape(1, 3, (2, 1, 3)), low=-4, high=4, dtype=d.one_of(*FLOATS))
    extra = (
        {"b": d.array(shape=x.shape, dtype=x.dtype, low=0.5, high=2, special=False)} if d.one_of(False, True) else {}
    )
    return call(x, axis=d.one_of(None, d.axis(x.ndim)), keepdims=d.one_of(False, True), **extra)


def normalized(d: Drawer) -> Call:
    """What a softmax is taken of."""
    x = d.array(shape=d.shape(1, 3, (2, 3, 1)), dtype=d.one_of(*FLOATS), special=False)
    return call(x, axis=d.one_of(None, d.axis(x.ndim)))


def angles(d: Drawer) -> Call:
    """Degrees and orders of spherical harmonics, and angles."""
    n = np.array([0, 1, 2, 3])
    dtype = d.one_of(*FLOATS)
    return call(
        n, np.array([0, -1, 1, 2]), *(d.array(shape=(4,), dtype=dtype, low=0, high=3, special=False) for _ in range(2))
    )


def bessels(z: np.ndarray, *, v: int, n_iter: int) -> np.ndarray:
    """Bessel functions of all orders up to `v`."""
    return np.stack([scipy.special.jv(order, z) for order in range(v + 1)])


def vectors(*counts: int, low: float = -3, **extra: Any) -> Entry:
    """A function of vectors of the given lengths at least."""

    def arguments(d: Drawer) -> Call:
        dtype = d.one_of(*FLOATS)
        return call(
            *(d.array(shape=(d.integer(n, n + 2),), dtype=dtype, low=low, high=3, special=False) for n in counts),
            **extra,
        )

    return Entry(arguments, absolute=512, ulps=128)


def sizes(low: int, high: int, *options: Any, **settings: Any) -> Entry:
    """A function of a size."""
    return Entry(
        lambda d: call(d.integer(low, high), *(d.one_of(*one) for one in options)),
        **{"dtypes": False, "ulps": 128, "absolute": 64, **settings},
    )


def square_matrix(d: Drawer) -> np.ndarray:
    """A square matrix far from singular, with eigenvalues that differ."""
    n, dtype = d.integer(1, 4), d.one_of(*FLOATS)
    small = d.array(shape=(n, n), dtype=dtype, low=-0.3, high=0.3, special=False, plain=True)
    return d.layout((small + np.diag(np.arange(1, n + 1))).astype(dtype))


def of_square(view: Callable[..., Any] | None = None, *more: Any, **options: Any) -> Entry:
    """A function of one square matrix."""
    extra = {} if view is None else {"view": view}
    return Entry(lambda d: call(square_matrix(d), *more), **{"absolute": 4096, "ulps": 2048, **extra, **options})


def product(out: Any, *args: Any, **kwargs: Any) -> Any:
    """The product of all factors."""
    parts = [np.asarray(x) for x in out]
    return np.linalg.multi_dot(parts) if len(parts) > 1 else parts[0]


def similar(out: Any, *args: Any, **kwargs: Any) -> Any:
    """The matrix that a triangle and a unitary matrix build."""
    t, q = (np.asarray(x) for x in out)
    return q @ t @ q.conj().T


def triangle(out: Any, *args: Any, **kwargs: Any) -> Any:
    """The triangle that a Cholesky factor is in by default; the other one is not defined."""
    return np.triu(out[0])


def cho_solved(d: Drawer) -> Call:
    """A Cholesky factor and right-hand sides."""
    n, dtype = d.integer(1, 3), d.one_of(*FLOATS)
    factor = np.linalg.cholesky(d.positive_definite((n, n), dtype)).astype(dtype)
    return call((factor, True), d.array(shape=(n, d.integer(1, 2)), dtype=dtype, special=False))


def lu_solved(d: Drawer) -> Call:
    """LU factors and right-hand sides."""
    a = square_matrix(d)
    factor, pivots = scipy.linalg.lu_factor(a)
    return call(
        (factor.astype(a.dtype), pivots), d.array(shape=(len(a),), dtype=a.dtype, special=False), d.one_of(0, 1)
    )


def triangular(d: Drawer) -> Call:
    """A triangular system."""
    a = square_matrix(d)
    return call(
        a, d.array(shape=(len(a), 2), dtype=a.dtype, special=False), lower=d.one_of(False, True), trans=d.one_of(0, 1)
    )


def solved(d: Drawer) -> Call:
    """A system of equations."""
    a = square_matrix(d)
    return call(a, d.array(shape=(len(a), *d.shape(0, 1, (2, 1))), dtype=a.dtype, special=False))


def sylvester(d: Drawer) -> Call:
    """The three matrices of Sylvester's equation."""
    a, b = square_matrix(d), square_matrix(d)
    return call(a, b.astype(a.dtype), d.array(shape=(len(a), len(b)), dtype=a.dtype, special=False))


def two_squares(d: Drawer) -> Call:
    """A matrix and a direction."""
    a = square_matrix(d)
    return call(a, d.array(shape=a.shape, dtype=a.dtype, low=-1, high=1, special=False))


def tridiagonal(d: Drawer) -> Call:
    """A diagonal and its neighbour."""
    n, dtype = d.integer(2, 5), d.one_of(*FLOATS)
    return call(*(d.array(shape=(m,), dtype=dtype, special=False) for m in (n, n - 1)), eigvals_only=True)


def blocks(d: Drawer) -> Call:
    """Matrices that are put on a diagonal."""
    return call(*(d.array("f", (d.integer(1, 2), d.integer(1, 3)), dtype=np.float32) for _ in range(d.integer(1, 3))))


def multiplied(d: Drawer) -> Call:
    """A matrix whose orthogonal factor is applied to another."""
    a = square_matrix(d)
    return call(a, d.array(shape=(2, len(a)), dtype=a.dtype, special=False))


def filters(d: Drawer) -> Call:
    """A vector, a length, and which part of the convolution is kept."""
    return call(
        d.array(shape=(d.integer(1, 4),), dtype=np.float32, special=False),
        d.integer(1, 5),
        d.one_of("full", "same", "valid"),
    )


def waves(dims: int | None = None) -> Entry:
    """A function of two signals."""

    def arguments(d: Drawer) -> Call:
        n = dims or d.integer(1, 2)
        large, small = ([d.integer(k, k + 2) for _ in range(n)] for k in (3, 1))
        dtype = d.one_of(*FLOATS)
        return call(
            *(d.array(shape=tuple(s), dtype=dtype, special=False) for s in (large, small)),
            mode=d.one_of("full", "same", "valid"),
        )

    return Entry(arguments, absolute=512)


def long_signal(d: Drawer) -> np.ndarray:
    """A signal of 32 samples."""
    return d.array(shape=(*d.shape(0, 1, (2, 1)), 32), dtype=d.one_of(*FLOATS), special=False)


def densities(count: int, *extra: Any, **settings: Any) -> Entry:
    """An estimate of a spectrum."""

    def arguments(d: Drawer) -> Call:
        x = long_signal(d)
        others = [d.array(shape=x.shape, dtype=x.dtype, special=False) for _ in range(count - 1)]
        return call(x, *others, fs=d.one_of(1.0, 2.0), nperseg=d.one_of(8, 16))

    return Entry(arguments, absolute=4096, dtypes=False)


def inverted(d: Drawer) -> Call:
    """The short-time transform of a signal."""
    x = d.array(shape=(32,), dtype=np.float32, special=False)
    return call(scipy.signal.stft(x, nperseg=8)[2].astype(np.complex64), nperseg=8)


def trends(d: Drawer) -> Call:
    """A signal and which trend is taken off."""
    x = d.array(shape=d.shape(1, 2, (4, 6)), dtype=d.one_of(*FLOATS), special=False)
    return call(x, axis=d.axis(x.ndim), type=d.one_of("linear", "constant"))


def cosines(several: bool) -> Entry:
    """A cosine transform."""

    def arguments(d: Drawer) -> Call:
        x = d.array(shape=d.shape(1, 2, (4, 3, 2)), dtype=d.one_of(*FLOATS), special=False)
        where = {"axes": d.one_of(None, (-1,))} if several else {"axis": d.axis(x.ndim)}
        return call(x, type=2, norm=d.one_of(None, "ortho"), **where)

    return Entry(arguments, absolute=512)


def sampled(d: Drawer) -> Call:
    """An image and where it is looked up."""
    image = d.array(shape=(4, 5), dtype=np.float32, special=False)
    places = [d.array(shape=(3,), dtype=np.float32, low=-2, high=6, special=False) for _ in range(2)]
    return call(image, places, order=d.one_of(1, 0), mode=d.one_of("nearest", "constant", "wrap", "mirror", "reflect"))


def looked_up(image: np.ndarray, places: Any, order: int, mode: str) -> np.ndarray:
    """SciPy's answer; "wrap" repeats the whole image, as SciPy's "grid-wrap" does."""
    return scipy.ndimage.map_coordinates(image, places, order=order, mode="grid-wrap" if mode == "wrap" else mode)


def codes(d: Drawer) -> Call:
    """Observations and a code book."""
    return call(
        d.array(shape=(5, 2), dtype=np.float32, special=False), d.array(shape=(3, 2), dtype=np.float32, special=False)
    )


def iterated(d: Drawer) -> Call:
    """A positive definite system."""
    n = d.integer(1, 3)
    return call(d.positive_definite((n, n), np.float32), d.array(shape=(n,), dtype=np.float32, special=False))


def solution(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, None]:
    """What the iterations come to."""
    return np.linalg.solve(a, b), None


def ours(function: Any, a: Any, elementwise: Any) -> Any:
    """Hand purax's function of the same name on, in place of NumPy's."""
    return function(a, getattr(purax.numpy, elementwise.__name__))


def first(out: Any, *args: Any, **kwargs: Any) -> Any:
    """The first of the results."""
    return out[0]


WIDE, POSITIVE, OPEN = (-6, 6), (0.1, 8), (0.02, 0.98)

SPECIAL: dict[str, Entry] = {
    "bernoulli": Entry(lambda d: call(d.integer(0, 12)), dtypes=False),
    "bessel_jn": Entry(lambda d: call(d.array(shape=d.shape(1, 2), dtype=np.float32, low=0.1, special=False), v=d.integer(0, 3), n_iter=50), bessels, absolute=1024),
    "beta": special(POSITIVE, POSITIVE),
    "betaln": special(POSITIVE, POSITIVE, absolute=128),
    "betainc": special(POSITIVE, POSITIVE, OPEN, absolute=64),
    "boxcox": special(POSITIVE, (-2, 2), absolute=64),
    "boxcox1p": special(POSITIVE, (-2, 2), absolute=64),
    "comb": special((3, 9), (0, 5), whole=True),
    **{name: special(WIDE) for name in "erf erfc entr expit ndtr log_ndtr dawsn i0 i0e i1 i1e spence".split()},
    "erfcx": special((-3, 6)),
    "erfinv": special((-0.98, 0.98)),
    "ndtri": special(OPEN),
    "logit": special(OPEN),
    "digamma": special(WIDE, absolute=128),
    "exp1": special(POSITIVE),
    "expi": special(WIDE, absolute=128),
    "expn": special((0, 5), POSITIVE, whole=True),
    "factorial": special((0, 9)),
    "fresnel": special(WIDE, absolute=64),
    "gamma": special(WIDE),
    "gammaln": special(WIDE, absolute=64),
    "loggamma": special(POSITIVE, absolute=64),
    "gammasgn": special(WIDE),
    "gammainc": special(POSITIVE, POSITIVE, absolute=64),
    "gammaincc": special(POSITIVE, POSITIVE, absolute=64),
    "hyp1f1": special((0.5, 3), (0.5, 3), (-3, 3), absolute=256),
    "hyp2f1": special((0.5, 2), (0.5, 2), (1, 3), (-0.8, 0.8), absolute=256),
    "kl_div": special(POSITIVE, POSITIVE, absolute=64),
    "rel_entr": special(POSITIVE, POSITIVE, absolute=64),
    "multigammaln": Entry(lambda d: call(d.array(shape=d.shape(0, 2), dtype=d.one_of(*FLOATS), low=3, high=8, special=False), d.integer(1, 3)), absolute=128),
    "owens_t": special((-3, 3), (-3, 3), absolute=64),
    "poch": special(POSITIVE, (0, 4)),
    "polygamma": special((0, 3), POSITIVE, whole=True),
    "sici": special((-8, 8), absolute=64),
    "wofz": special((-4, 4), absolute=64, dtypes=False),
    "xlogy": special((-4, 4), POSITIVE, absolute=64),
    "xlog1py": special((-4, 4), POSITIVE, absolute=64),
    "zeta": special((1.2, 6), POSITIVE),
    "logsumexp": Entry(weighed_sums, absolute=64),
    "softmax": Entry(normalized, ulps=128),
    "log_softmax": Entry(normalized, absolute=64),
    "sph_harm_y": Entry(angles, absolute=128, dtypes=False, compiled=False),
}  # fmt: skip

LINALG: dict[str, Entry] = {
    "block_diag": Entry(blocks),
    "cho_factor": positive(view=triangle),
    "cho_solve": Entry(cho_solved, absolute=4096),
    "cholesky": positive(),
    "circulant": vectors(1),
    "companion": vectors(2, low=1),
    "convolution_matrix": Entry(filters),
    "det": square(),
    "dft": sizes(1, 5, (None, "sqrtn", "n")),
    "eigh": Entry(lambda d: call(d.positive_definite((3, 3), d.wide())), view=eigen_product, absolute=2048),
    "eigh_tridiagonal": Entry(tridiagonal, absolute=512),
    "expm": of_square(ulps=8192),
    "expm_frechet": Entry(two_squares, absolute=20000, ulps=8192),
    "fiedler": vectors(1),
    "fiedler_companion": vectors(3, low=1),
    "funm": Entry(lambda d: call(square_matrix(d), np.exp), function=ours, absolute=20000, dtypes=False, compiled=False),
    "hadamard": Entry(lambda d: call(d.one_of(1, 2, 4, 8)), dtypes=False),
    "hankel": vectors(1),
    "helmert": sizes(2, 5, (False, True)),
    "hessenberg": of_square(lambda out, *args, **kwargs: np.abs(np.diagonal(out))),
    "hilbert": sizes(1, 5),
    "inv": square(),
    "invhilbert": sizes(1, 5),
    "invpascal": sizes(1, 5, ("symmetric", "upper", "lower")),
    "leslie": Entry(lambda d: call(*(d.array(shape=(n,), dtype=np.float32, special=False) for n in (4, 3)))),
    "lu": of_square(product),
    "lu_factor": of_square(),
    "lu_solve": Entry(lu_solved, absolute=4096),
    "pascal": sizes(1, 5, ("symmetric", "upper", "lower")),
    "polar": of_square(),
    "qr": of_square(orthogonal_product),
    "qr_multiply": Entry(multiplied, view=lambda out, *args: [np.abs(np.asarray(x)) for x in out], absolute=4096),
    "rsf2csf": Entry(lambda d: call(*scipy.linalg.schur(square_matrix(d))), view=similar, absolute=4096, dtypes=False),
    "schur": of_square(similar),
    "solve": Entry(solved, absolute=4096),
    "solve_sylvester": Entry(sylvester, absolute=20000, dtypes=False),
    "solve_triangular": Entry(triangular, absolute=4096),
    "sqrtm": of_square(dtypes=False),
    "svd": Entry(lambda d: call(square_matrix(d), full_matrices=False), view=singular_product, absolute=2048),
    "toeplitz": vectors(1, 1),
}  # fmt: skip

STATS: dict[str, Entry] = {
    **{
        f"{name}.{function}": distribution(name, function, *parameters)
        for name, (parameters, functions) in DISTRIBUTIONS.items()
        for function in functions.split()
    },
    **{f"dirichlet.{name}": Entry(shares, absolute=256, ulps=512, dtypes=False) for name in ("logpdf", "pdf")},
    **{f"multinomial.{name}": Entry(draws, absolute=64, ulps=512, dtypes=False) for name in ("logpmf", "pmf")},
    **{f"multivariate_normal.{name}": Entry(cloud, absolute=1024, ulps=4096) for name in ("logpdf", "pdf")},
    "mode": Entry(most_frequent),
    "rankdata": Entry(ranks, dtypes=False),
    "sem": Entry(errors_of_means, absolute=64),
}

SIGNAL: dict[str, Entry] = {
    **{name: waves() for name in ("convolve", "correlate", "fftconvolve")},
    **{name: waves(2) for name in ("convolve2d", "correlate2d")},
    "csd": densities(2),
    "welch": densities(1),
    "stft": densities(1),
    "istft": Entry(inverted, absolute=512),
    "detrend": Entry(trends, absolute=512),
}

SMALL: dict[str, Entry | Other] = {
    **{f"fft.{name}": cosines(False) for name in ("dct", "idct")},
    **{f"fft.{name}": cosines(True) for name in ("dctn", "idctn")},
    "integrate.trapezoid": Entry(lambda d: call(d.array(shape=d.shape(1), dtype=d.one_of(*FLOATS), special=False), dx=d.one_of(1.0, 0.5), axis=-1), absolute=256),
    "interpolate.RegularGridInterpolator": Other("a class: tests/scipy/test_iteration.py"),
    "ndimage.map_coordinates": Entry(sampled, looked_up, absolute=512),
    "optimize.LeastSquaresResults": Other("a type of results"),
    "optimize.OptimizeResults": Other("a type of results"),
    "optimize.RootResults": Other("a type of results"),
    "optimize.fixed_point": Other("an iteration: tests/scipy/test_roots.py"),
    "optimize.least_squares": Other("an iteration: tests/scipy/test_roots.py"),
    "optimize.minimize": Other("an iteration: tests/scipy/test_iteration.py"),
    "optimize.root": Other("an iteration: tests/scipy/test_roots.py"),
    "optimize.root_scalar": Other("an iteration: tests/scipy/test_roots.py"),
    "cluster.vq.vq": Entry(codes, absolute=64),
    **{f"sparse.linalg.{name}": Entry(iterated, solution, view=first, ulps=4096, absolute=20000) for name in ("cg", "gmres", "bicgstab")},
    **{f"spatial.transform.{name}": Other("a class: tests/scipy/test_iteration.py") for name in ("Rotation", "Slerp")},
    "stats.gaussian_kde": Other("a class: tests/scipy/test_stats.py"),
}  # fmt: skip

ENTRIES: dict[str, Entry | Other] = {
    **{f"special.{name}": entry for name, entry in SPECIAL.items()},
    **{f"linalg.{name}": entry for name, entry in LINALG.items()},
    **{f"stats.{name}": entry for name, entry in STATS.items()},
    **{f"signal.{name}": entry for name, entry in SIGNAL.items()},
    **SMALL,
}
