# SPDX-License-Identifier: Apache-2.0
import numpy as np

from purax import jit
from purax import numpy as pnp

P, Q = np.array([1.0, -3.0, 2.0, 5.0], np.float32), np.array([2.0, 1.0], np.float32)
X = np.linspace(-1, 2, 9, dtype=np.float32)


def test_values_and_arithmetic_give_what_numpy_gives():
    np.testing.assert_allclose(pnp.polyval(P, X), np.polyval(P, X), rtol=1e-5)
    for name in ("polyadd", "polysub", "polymul"):
        np.testing.assert_allclose(getattr(pnp, name)(P, Q), getattr(np, name)(P, Q), rtol=1e-6)
    quotient, rest = pnp.polydiv(P, Q)
    want = np.polydiv(P, Q)
    np.testing.assert_allclose(quotient, want[0], rtol=1e-5)
    np.testing.assert_allclose(rest[-1:], want[1], rtol=1e-5)


def test_derivatives_and_integrals_give_what_numpy_gives():
    for m in (0, 1, 2):
        np.testing.assert_allclose(pnp.polyder(P, m), np.polyder(P, m))
        np.testing.assert_allclose(pnp.polyint(P, m), np.polyint(P, m), rtol=1e-6)
    np.testing.assert_allclose(pnp.polyint(P, 2, np.array([1.0, 2.0])), np.polyint(P, 2, [1.0, 2.0]), rtol=1e-6)


def test_roots_come_back_from_their_polynomial():
    zeros = np.array([3.0, -1.0, 0.5], np.float32)
    np.testing.assert_allclose(pnp.poly(zeros), np.poly(zeros), rtol=1e-5)
    np.testing.assert_allclose(np.sort(pnp.roots(pnp.poly(zeros)).real), np.sort(zeros), rtol=1e-4)
    assert pnp.roots(pnp.array([0.0, 1.0, -2.0, 0.0])).tolist() == [2, 0]
    fixed = jit(lambda p: pnp.roots(p, strip_zeros=False))(np.array([0.0, 1.0, -2.0], np.float32))
    np.testing.assert_allclose(fixed, [2, complex(np.nan, np.nan)])


def test_fits_give_what_numpy_gives():
    y = np.polyval(P, X) + np.sin(40 * X).astype(np.float32)
    np.testing.assert_allclose(pnp.polyfit(X, y, 3), np.polyfit(X, y, 3), rtol=1e-3, atol=1e-3)
    got, want = pnp.polyfit(X, y, 2, w=1 + X**2, cov=True), np.polyfit(X, y, 2, w=1 + X**2, cov=True)
    np.testing.assert_allclose(got[1], want[1], rtol=1e-3, atol=1e-3)


def test_a_remainder_of_zero_but_for_rounding_is_trimmed():
    divisor = np.float32(3.55910812)
    _, rest = pnp.polydiv(np.array([2, 3], np.float32), np.array([divisor, divisor]), trim_leading_zeros=True)
    assert rest.shape == (1,)
