# SPDX-License-Identifier: Apache-2.0
"""Recording of programs: scalars are spread once, and Python's cycle collector waits meanwhile."""

import gc

import pytest

import purax
import purax.numpy as jnp


def names(fun, *args):
    return [eqn.primitive.name for eqn in purax.make_jaxpr(fun)(*args).jaxpr.eqns]


def test_a_scalar_is_spread_once_per_type():
    x, y = jnp.ones(3), jnp.ones((2, 3))
    assert names(lambda x: (x * 1.5 + x) * 1.5, x).count("broadcast_in_dim") == 1
    assert names(lambda x, y: (x * 1.5, y * 1.5), x, y).count("broadcast_in_dim") == 2


def test_scalars_that_are_equal_but_not_the_same_stay_apart():
    def signs(x):
        return jnp.copysign(x, 0.0), jnp.copysign(x, -0.0), jnp.where(x > 0, True, x), x * 1, x * 1.0

    x = jnp.asarray([1.0, -2.0])
    for want, have in zip(signs(x), purax.jit(signs)(x), strict=True):
        assert want.dtype == have.dtype
        assert want.tolist() == have.tolist()


def test_a_scalar_spread_in_a_loop_body_stays_in_it():
    def step(carry, x):
        return carry * 1.5 + x, carry * 1.5

    def fun(x):
        return purax.lax.scan(step, x * 1.5, jnp.stack([x, x]))[0].sum() * 1.5

    x = jnp.arange(3.0)
    want = purax.grad(fun)(x)
    assert purax.jit(purax.grad(fun))(x).tolist() == pytest.approx(want.tolist())


@pytest.mark.parametrize("fails", [False, True])
def test_the_cycle_collector_waits_and_goes_on(fails):
    seen = []

    def inner(x):
        seen.append(gc.isenabled())
        if fails:
            raise ZeroDivisionError
        return x

    def outer(x):
        out = purax.jit(inner)(x)
        seen.append(gc.isenabled())
        return out

    assert gc.isenabled()
    if fails:
        with pytest.raises(ZeroDivisionError):
            purax.jit(outer)(1.0)
    else:
        purax.jit(outer)(1.0)
    assert not any(seen)
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off():
    gc.disable()
    try:
        purax.jit(lambda x: x + 1)(1.0)
        assert not gc.isenabled()
    finally:
        gc.enable()
