# SPDX-License-Identifier: Apache-2.0
"""`purax.scipy.special` against SciPy in float32 and float64, and derivatives against finite differences."""

import numpy as np
import pytest
import scipy.special as reference

import purax
from purax import numpy as pnp
from purax.contexts import enable_x64
from purax.scipy import special

rng = np.random.default_rng(0)
REAL = np.concatenate(
    [rng.normal(size=60) * 3, rng.normal(size=20) * 30, [0.0, 1.0, 2.0, 0.5, -0.5, 1e-8, 1e4, np.nan]]
)
POSITIVE = np.concatenate([rng.gamma(1, size=60) * 3, rng.gamma(1, size=20) * 20, [1.0, 2.0, 1e-3, 500.0, 8.0]])
UNIT = np.concatenate([rng.uniform(0.01, 0.99, size=40), 10.0 ** -rng.uniform(1, 30, size=20), [0.0, 1.0, 0.5]])

ONE = [
    ("dawsn", REAL), ("digamma", POSITIVE), ("entr", REAL), ("erf", REAL), ("erfc", REAL), ("erfcx", np.maximum(REAL, -5)),
    ("erfinv", 2 * UNIT - 1), ("exp1", REAL), ("expi", REAL[REAL < 80]), ("expit", REAL), ("factorial", np.minimum(REAL, 25)),
    ("fresnel", REAL), ("gamma", np.clip(REAL, -10.4, 30)), ("gammaln", POSITIVE), ("gammasgn", REAL), ("i0", np.clip(REAL, -50, 50)),
    ("i0e", REAL), ("i1", np.clip(REAL, -50, 50)), ("i1e", REAL), ("log_ndtr", REAL), ("logit", UNIT), ("loggamma", POSITIVE),
    ("ndtr", np.maximum(REAL, -12)), ("ndtri", UNIT), ("sici", REAL), ("spence", POSITIVE), ("zeta", np.clip(REAL, -10, 50)),
]  # fmt: skip
TWO = [
    "beta",
    "betaln",
    "boxcox",
    "boxcox1p",
    "kl_div",
    "owens_t",
    "poch",
    "rel_entr",
    "xlog1py",
    "xlogy",
    "gammainc",
    "gammaincc",
]


def compare(name, *arrays, dtype):
    """Both functions on the same rounded operands; SciPy computes in float64."""
    arrays = [a.astype(dtype) for a in arrays]
    with enable_x64(dtype == np.float64), np.errstate(all="ignore"):
        got = getattr(special, name)(*arrays)
        wanted = getattr(reference, name)(*[a.astype(np.float64) for a in arrays])
    if not isinstance(wanted, tuple):
        got, wanted = (got,), (wanted,)
    limit = 2e-5 if dtype == np.float32 else 1e-9
    for g, w in zip(got, wanted, strict=True):
        assert g.dtype == dtype
        with np.errstate(over="ignore"):
            np.testing.assert_allclose(
                np.asarray(g), w.astype(dtype), rtol=limit, atol=1e-37 if dtype == np.float32 else 1e-300
            )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("name", "x"), ONE, ids=[name for name, _ in ONE])
def test_functions_of_one_operand_are_scipys(name, x, dtype):
    if dtype == np.float32 and name in ("entr", "logit", "zeta"):
        x = x[np.abs(x) < 1]
    compare(name, x, dtype=dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", TWO)
def test_functions_of_two_operands_are_scipys(name, dtype):
    first = np.minimum(rng.permutation(POSITIVE), 30.0)
    second = np.minimum(rng.permutation(POSITIVE), 15.0)
    if name in ("kl_div", "rel_entr"):
        second = first * 3 + 1
    if name.startswith("boxcox"):
        second = np.minimum(second, 3.0)
    compare(name, first, second, dtype=dtype)


def test_orders_of_exponential_integrals_and_polygamma():
    n = rng.integers(0, 30, POSITIVE.shape)
    x = np.minimum(POSITIVE, 80).astype(np.float32)
    np.testing.assert_allclose(
        special.expn(n, x), reference.expn(n.astype(float), x.astype(float)), rtol=1e-6, atol=1e-37
    )
    np.testing.assert_allclose(special.polygamma(n % 4, x), reference.polygamma(n % 4, x), rtol=1e-5)


def test_hypergeometric_functions_for_arguments_of_both_signs():
    a, b, c = (rng.uniform(0.3, 4, 30).astype(np.float32) for _ in range(3))
    x = np.linspace(-20, 20, 30).astype(np.float32)
    np.testing.assert_allclose(
        special.hyp1f1(a, b, x), reference.hyp1f1(*(v.astype(float) for v in (a, b, x))), rtol=2e-5
    )
    x = np.linspace(-6, 0.97, 30).astype(np.float32)
    want = reference.hyp2f1(*(v.astype(float) for v in (a, b, c, x)))
    np.testing.assert_allclose(special.hyp2f1(a, b, c, x), want, rtol=2e-5)
    np.testing.assert_allclose(special.hyp2f1(0.5, 0.25, 2.0, 1.0), reference.hyp2f1(0.5, 0.25, 2.0, 1.0), rtol=1e-6)
    ends = np.float32([np.nan, -np.inf, 1.5])
    np.testing.assert_array_equal(special.hyp2f1(0.5, 1.25, 2.0, ends), reference.hyp2f1(0.5, 1.25, 2.0, ends))


@pytest.mark.parametrize("name", ["wofz", "erfcx", "gamma", "loggamma"])
def test_complex_arguments(name):
    z = (rng.normal(size=60) * 4 + 1j * rng.normal(size=60) * 4).astype(np.complex64)
    want = getattr(reference, name)(z.astype(np.complex128))
    small = np.abs(want) < 1e30
    np.testing.assert_allclose(np.asarray(getattr(special, name)(z))[small], want[small], rtol=1e-6)


def test_bessel_functions_of_the_first_kind_and_spherical_harmonics():
    z = np.concatenate([rng.uniform(0, 20, 20), [0.0]]).astype(np.float32)
    np.testing.assert_allclose(
        special.bessel_jn(z, v=4), np.stack([reference.jn(k, z) for k in range(5)]), rtol=1e-5, atol=1e-6
    )
    n, m = np.array([0, 1, 2, 3, 7, 7]), np.array([0, -1, 1, -3, 5, -6])
    theta, phi = np.linspace(0.1, 3, 6).astype(np.float32), np.linspace(0, 6, 6).astype(np.float32)
    np.testing.assert_allclose(special.sph_harm_y(n, m, theta, phi), reference.sph_harm_y(n, m, theta, phi), atol=2e-6)


def test_counts():
    np.testing.assert_allclose(special.comb(np.array([5.0, 6, 7, 2]), 3.0), [10, 20, 35, 0], rtol=1e-6)
    np.testing.assert_allclose(special.comb(4.0, 3.0, repetition=True), 20, rtol=1e-6)
    np.testing.assert_allclose(special.bernoulli(6), reference.bernoulli(6), rtol=1e-6)
    np.testing.assert_allclose(special.multigammaln(5.5, 3), reference.multigammaln(5.5, 3), rtol=1e-6)
    with pytest.raises(ValueError, match="exact"):
        special.factorial(3, exact=True)


def test_sums_of_exponentials():
    x = rng.normal(size=(3, 4)).astype(np.float32) + 500
    b = np.linspace(-1, 3, 12).reshape(3, 4).astype(np.float32)
    np.testing.assert_allclose(special.logsumexp(x, axis=1), reference.logsumexp(x, axis=1), rtol=1e-6)
    got, want = special.logsumexp(x, b=b, return_sign=True), reference.logsumexp(x, b=b, return_sign=True)
    np.testing.assert_allclose(got, want, rtol=1e-6)
    np.testing.assert_allclose(special.softmax(x, axis=0), reference.softmax(x, axis=0), rtol=1e-5)
    np.testing.assert_allclose(special.log_softmax(x), reference.log_softmax(x), rtol=1e-5)


GRADIENTS = [
    ("xlogy", (1.3, 0.7)), ("xlog1py", (1.3, 0.7)), ("entr", (0.4,)), ("kl_div", (0.4, 0.7)), ("boxcox", (1.7, 0.6)),
    ("erfcx", (0.6,)), ("dawsn", (0.6,)), ("log_ndtr", (-3.0,)), ("ndtri", (0.01,)), ("owens_t", (0.5, 1.7)), ("gamma", (2.3,)),
    ("betaln", (2.0, 9.0)), ("beta", (2.0, 3.0)), ("poch", (2.0, 1.5)), ("exp1", (0.7,)), ("expi", (0.7,)), ("spence", (1.0,)),
    ("hyp1f1", (1.5, 2.5, 0.7)), ("hyp2f1", (0.5, 0.6, 0.8, 0.4)), ("logit", (0.3,)), ("zeta", (2.5, 1.5)), ("digamma", (1.5,)),
    ("i1e", (0.7,)), ("gammainc", (1.5, 0.7)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "point"), GRADIENTS, ids=[name for name, _ in GRADIENTS])
def test_derivatives_are_differences(name, point):
    places = tuple(range(len(point)))
    with enable_x64(True):
        function = getattr(special, name)
        got = purax.grad(function, argnums=places)(*point)
        forward = [purax.jvp(function, point, tuple(float(j == i) for j in range(len(point))))[1] for i in places]
    wanted = getattr(reference, name)
    for g, f, i in zip(got, forward, places, strict=True):
        step = np.eye(len(point))[i] * 1e-5
        want = (wanted(*(np.array(point) + step)) - wanted(*(np.array(point) - step))) / 2e-5
        np.testing.assert_allclose([g, f], want, rtol=1e-6, atol=1e-8)


def test_derivatives_at_borders_are_finite():
    assert float(purax.grad(special.xlogy, 1)(0.0, 0.0)) == 0
    assert float(purax.grad(special.xlog1py, 1)(0.0, -1.0)) == 0
    np.testing.assert_allclose(purax.grad(special.xlogy)(0.0, 2.0), np.log(2), rtol=1e-6)
    np.testing.assert_allclose(purax.grad(purax.grad(special.xlogy), 1)(0.0, 2.0), 0.5)
    assert float(purax.grad(special.spence)(1.0)) == -1
    np.testing.assert_allclose(purax.grad(special.boxcox, 1)(2.0, 0.0), np.log(2) ** 2 / 2, rtol=1e-6)
    assert np.isfinite(purax.grad(special.log_ndtr)(-40.0))
    assert np.isfinite(purax.grad(special.rel_entr)(0.0, 0.5))


def test_functions_map_and_compile():
    x = POSITIVE[:6].astype(np.float32)
    for f in (special.log_ndtr, special.expi, special.gamma, lambda v: special.hyp1f1(1.5, 2.0, v)):
        np.testing.assert_allclose(purax.jit(purax.vmap(f))(x), f(x), rtol=1e-6)
        assert purax.vmap(purax.grad(f))(x).shape == x.shape


def test_integers_become_floats_and_complex_numbers_are_refused():
    assert special.gamma(4).dtype == np.float32
    np.testing.assert_allclose(special.gamma(pnp.arange(1, 5)), [1, 1, 2, 6])
    with pytest.raises(TypeError):
        special.gammaln(1j)
