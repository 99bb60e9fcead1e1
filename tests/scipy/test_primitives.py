# SPDX-License-Identifier: Apache-2.0
"""Samples of the primitives behind `purax.scipy.special`; the laws run over them."""

import numpy as np

from purax import errors
from purax.scipy.special import entropies, gammas, integrals
from purax.scipy.special import errors as error_functions
from tests.laws.sample import BadSample, Sample

RNG = np.random.default_rng(0)


def between(low, high, *shape):
    return RNG.uniform(low, high, shape or (2, 3)).astype(np.float32)


def on_plane(*shape):
    return (between(-1.5, 1.5, *shape) + 1j * between(0.2, 1.5, *shape)).astype(np.complex64)


X, POSITIVE, OTHER, UNIT = between(-2.4, 2.4), between(0.6, 4.0), between(0.6, 4.0), between(0.1, 0.9)
UNARY = [
    *[(p, X) for p in (error_functions.dawsn_p, error_functions.erfcx_p, error_functions.log_ndtr_p)],
    *[
        (p, POSITIVE)
        for p in (gammas.gamma_p, gammas.loggamma_p, integrals.exp1_p, integrals.expi_p, integrals.spence_p)
    ],
    (error_functions.ndtri_p, UNIT),
]
BINARY = [
    *[(p, (0, 1)) for p in (gammas.beta_p, gammas.betaln_p, gammas.poch_p, error_functions.owens_t_p)],
    *[(p, (0, 1)) for p in (entropies.xlogy_p, entropies.xlog1py_p)],
]
SAMPLES = [
    *[Sample(p, (x,), tolerance=2e-5) for p, x in UNARY],
    *[Sample(p, (x[0, 0].reshape(()),), tolerance=2e-5) for p, x in UNARY[:2]],
    *[Sample(p, (x.astype(np.float16),), differentiable=()) for p, x in UNARY],
    *[Sample(p, (POSITIVE, OTHER), differentiable=d, tolerance=2e-5) for p, d in BINARY],
    *[Sample(p, (POSITIVE[:0], OTHER[:0]), differentiable=()) for p, _ in BINARY[:1]],
    *[Sample(p, (x,), {"cosine": c}, tolerance=2e-5) for p, x in ((integrals.sici_p, POSITIVE), (error_functions.fresnel_p, X)) for c in (False, True)],
    Sample(integrals.expn_p, (np.array([[0, 1, 2], [3, 4, 1]], np.float32), POSITIVE), differentiable=(1,), tolerance=2e-5),
    *(Sample(gammas.riemann_zeta_p, (x,), tolerance=2e-5) for x in (POSITIVE + 1, -POSITIVE)),
    Sample(error_functions.wofz_p, (on_plane(2, 3),), tolerance=2e-5),
    Sample(gammas.gamma_p, (on_plane(3),), tolerance=2e-5),
    Sample(entropies.xlogy_p, (on_plane(3), on_plane(3)), tolerance=2e-5),
]  # fmt: skip
BAD_SAMPLES = [
    BadSample(gammas.gamma_p, (np.ones(2, np.int32),), {}, errors.DTypeError, "floating or complex"),
    BadSample(gammas.beta_p, (X, X[0]), {}, errors.ShapeError, "must be equal"),
]


def test_products_with_a_logarithm_are_zero_where_the_factor_is():
    zero, at = np.zeros(3, np.float32), np.array([0.0, 1.0, np.inf], np.float32)
    np.testing.assert_array_equal(entropies.xlogy_p.bind1(zero, at), zero)
