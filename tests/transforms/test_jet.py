# SPDX-License-Identifier: Apache-2.0
"""Taylor mode: known power series, nested derivatives, programs within programs, arguments and errors.

That the coefficients of each primitive are right is among the laws.
"""

import math

import numpy as np
import pytest

import purax
from purax import lax
from purax import numpy as pnp
from purax.experimental.jet import jet

ORDER = 6
LINE = [1.0] + [0.0] * (ORDER - 1)


@pytest.mark.parametrize(
    ("fun", "coefficient"),
    [
        (pnp.exp, lambda n: 1 / math.factorial(n)),
        (pnp.log1p, lambda n: (-1) ** (n + 1) / n),
        (lambda x: 1 / (1 - x), lambda n: 1.0),
        (pnp.sin, lambda n: (-1) ** (n // 2) / math.factorial(n) if n % 2 else 0.0),
        (pnp.arctan, lambda n: (-1) ** (n // 2) / n if n % 2 else 0.0),
        (lambda x: (1 + x) ** 2.5, lambda n: math.prod((2.5 - i) / (i + 1) for i in range(n))),
        (lambda x: x**4, lambda n: float(n == 4)),
        (lambda x: pnp.sqrt(1 + x), lambda n: math.prod((0.5 - i) / (i + 1) for i in range(n))),
    ],
    ids=["exp", "log1p", "geometric", "sin", "arctan", "power", "monomial", "sqrt"],
)
def test_coefficients_are_those_of_the_known_series(fun, coefficient):
    with purax.enable_x64(True):
        value, terms = jet(fun, (0.0,), (LINE,), factorial_scaled=False)
        np.testing.assert_allclose(value, fun(0.0), atol=1e-12)
        np.testing.assert_allclose(terms, [coefficient(n) for n in range(1, ORDER + 1)], atol=1e-10)


def test_terms_are_the_derivatives_along_a_curve():
    curve = lambda t: pnp.stack([0.3 + t - t**2, 0.5 * pnp.cos(t)])
    fun = lambda x: {"a": pnp.prod(x), "b": pnp.tanh(x) / (1 + x**2), "n": x.shape[0]}
    derivatives = lambda f: [
        purax.jacfwd(f),
        purax.jacfwd(purax.jacfwd(f)),
        purax.jacfwd(purax.jacfwd(purax.jacfwd(f))),
    ]
    with purax.enable_x64(True):
        value, terms = jet(fun, (curve(0.0),), ([d(0.0) for d in derivatives(curve)],))
        for name in ("a", "b"):
            np.testing.assert_allclose(value[name], fun(curve(0.0))[name])
            want = [d(0.0) for d in derivatives(lambda t, name=name: fun(curve(t))[name])]
            for found, expected in zip(terms[name], want, strict=True):
                np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-10)
        assert value["n"] == 2 and [int(t) for t in terms["n"]] == [0, 0, 0]


@purax.custom_jvp
def doubled(x):
    return 2 * x


doubled.defjvp(
    lambda primals, tangents: (doubled(*primals), 2 * tangents[0] * pnp.cos(primals[0]) / pnp.cos(primals[0]))
)


@purax.custom_vjp
def squared(x):
    return x * x


squared.defvjp(lambda x: (x * x, x), lambda x, ct: (2 * x * ct,))


@pytest.mark.parametrize(
    "fun",
    [
        purax.jit(lambda x: pnp.sin(x) * x),
        purax.checkpoint(lambda x: pnp.sin(pnp.sin(x))),
        lambda x: lax.scan(lambda c, row: (pnp.sin(c) * x, c * row), x, pnp.stack([x, 2 * x]))[1].sum(),
        lambda x: lax.scan(lambda c, _: ((c[0] + 1, c[1] * x), c[0]), (0, 1.0), None, 3)[0][1],
        lambda x: lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, pnp.sin(s[1]) * x), (0, 1.0))[1],
        lambda x: (
            lax.cond(x > 0, lambda x: x**3, lambda x: 0 * x, x) + lax.cond(x > 9, lambda x: x**3, lambda x: 1.0, x)
        ),
        lambda x: purax.vmap(lambda a: pnp.sin(a * x))(pnp.arange(3.0)).sum(),
        purax.grad(lambda x: pnp.sin(x) * x**2),
        lambda x: pnp.linalg.solve(pnp.array([[2.0, 1.0], [1.0, 3.0]]) * x, pnp.ones(2))[0],
        doubled,
        squared,
    ],
    ids=["jit", "checkpoint", "scan", "counter", "while", "cond", "vmap", "grad", "solve", "custom_jvp", "custom_vjp"],
)
def test_programs_of_all_kinds_have_series(fun):
    with purax.enable_x64(True):
        value, terms = jet(fun, (0.7,), ([1.0, 0.5, 0.0],))
        along = lambda t: fun(0.7 + t + 0.25 * t**2)
        by_jvp = [along]
        for _ in range(3):
            by_jvp.append(lambda t, f=by_jvp[-1]: purax.jvp(f, (t,), (1.0,))[1])
        np.testing.assert_allclose([value, *terms], [f(0.0) for f in by_jvp], rtol=1e-8, atol=1e-10)


def test_series_pass_through_other_transformations():
    third = lambda x: jet(pnp.sin, (x,), ([1.0, 0.0, 0.0],))[1][2]
    np.testing.assert_allclose(purax.jit(third)(0.3), -np.cos(0.3), rtol=1e-5)
    np.testing.assert_allclose(purax.vmap(third)(pnp.array([0.1, 0.2])), -np.cos([0.1, 0.2]), rtol=1e-5)
    np.testing.assert_allclose(purax.grad(third)(0.3), np.sin(0.3), rtol=1e-5)


def test_work_grows_with_a_power_of_the_order():
    count = lambda order: len(
        purax.make_jaxpr(lambda x: jet(lambda x: pnp.tanh(pnp.sin(x)) / x, (x,), ([1.0] + [0.0] * (order - 1),)))(
            0.5
        ).eqns
    )
    assert count(16) < 5 * count(8)


def test_values_that_do_not_vary_have_no_terms():
    value, terms = jet(lambda x: pnp.full_like(x, 2.0), (pnp.ones(2),), ([pnp.ones(2), pnp.ones(2)],))
    np.testing.assert_array_equal(value, [2, 2])
    np.testing.assert_array_equal(terms, np.zeros((2, 2)))
    value, terms = jet(lambda n, x: x * n, (3, 2.0), ([0, 0], [1.0, 0.0]))
    assert [float(value), *map(float, terms)] == [6, 3, 0]


@pytest.mark.parametrize(
    ("series", "part"),
    [
        (([1.0, 0.0], [1.0]), "inconsistent lengths"),
        (([1.0],), "inconsistent lengths"),
        (([pnp.ones(2)], [1.0]), "shape"),
        (([(1.0, 2.0)], [1.0]), "structure"),
    ],
)
def test_terms_that_do_not_fit_are_refused(series, part):
    with pytest.raises(ValueError, match=part):
        jet(lambda x, y: x * y, (1.0, 2.0), series)


def test_a_tangent_is_not_cut_without_a_word():
    with pytest.raises(purax.errors.PuraxError):
        jet(lambda x: np.sin(x), (1.0,), ([1.0],))
