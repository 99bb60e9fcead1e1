# SPDX-License-Identifier: Apache-2.0
"""Numbers of JAX, stored by `tools/make_random_parity.py`, against ours: the same key gives the same draws."""

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import purax
from purax import config, nn, random
from tests.random.parity_cases import CASES, INITIALIZERS

PARITY = np.load(Path(__file__).parent / "parity.npz")


def ulps_apart(have, want):
    """How many representable numbers lie between the elements of two arrays, at most; signs count."""
    if have.dtype.kind == "c":
        have, want = have.view(have.real.dtype), want.view(want.real.dtype)
    signed = np.dtype(f"i{have.itemsize}")

    def ordered(x):
        bits = x.view(signed).astype(np.float64)
        return np.where(bits < 0, float(np.iinfo(signed).min) - bits, bits)

    apart = np.abs(ordered(have) - ordered(want))
    return apart.max(initial=0)


@pytest.mark.parametrize("name", CASES)
def test_draws_equal_those_of_jax(name):
    case = CASES[name]
    config.update("enable_x64", case.x64)
    config.update("threefry_partitionable", case.partitionable)
    have = np.asarray(case.draw(random, purax.vmap))
    want = PARITY[name]
    if have.dtype.name == "bfloat16":
        want = want.view(ml_dtypes.bfloat16)
    assert (have.dtype, have.shape) == (want.dtype, want.shape)
    if case.ulps:
        assert ulps_apart(have, want) <= case.ulps
    else:
        np.testing.assert_array_equal(have, want)


@pytest.mark.parametrize("name", INITIALIZERS)
def test_initial_values_equal_those_of_jax(name):
    have = np.asarray(INITIALIZERS[name](nn.initializers, random.key(8)))
    want = PARITY[f"initializers {name}"]
    assert have.dtype == want.dtype
    np.testing.assert_allclose(have, want, rtol=2e-5, atol=2e-6)


def test_every_case_has_its_numbers():
    assert set(PARITY.files) == {*CASES, *(f"initializers {name}" for name in INITIALIZERS)}
