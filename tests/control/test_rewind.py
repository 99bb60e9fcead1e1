# SPDX-License-Identifier: Apache-2.0
"""Reverse mode through loops of bounded, but unknown length: derivatives, orders, lanes, limits, memory."""

import numpy as np
import pytest

import purax
from purax import errors, grad, jit, lax, vmap
from purax import numpy as pnp
from purax.control.rewind import _Rewinder
from purax.experimental import checkify


def step(value, w):
    return value + 0.1 * pnp.sin(3 * w * value)


def by_while(value, w, steps, limit):
    """A loop that counts, and carries an integer and a constant beside what is differentiated."""
    go_on = lambda s: s["i"] < steps
    body = lambda s: {"i": s["i"] + 1, "x": step(s["x"], w), "fixed": s["fixed"]}
    start = {"i": 0, "x": value, "fixed": pnp.arange(3)}
    return lax.while_loop(go_on, body, start, max_steps=limit)["x"]


def by_fori(value, w, steps, limit):
    return lax.fori_loop(0, steps, lambda i, x: step(x, w), value, max_steps=limit)


def by_python(value, w, steps):
    for _ in range(steps):
        value = step(value, w)
    return value


@pytest.mark.parametrize("loop", [by_while, by_fori])
@pytest.mark.parametrize("limit", [1, 2, 16, 17, 100, 300, 5000])
def test_derivatives_are_those_of_the_steps_that_are_done(loop, limit):
    derivatives = jit(purax.value_and_grad(lambda x, w, n: loop(x, w, n, limit), (0, 1)))
    for steps in {0, 1, min(limit, 3), min(limit, 33), min(limit, 60)}:
        value, found = derivatives(0.3, 1.1, steps)
        want, wanted = purax.value_and_grad(by_python, (0, 1))(0.3, 1.1, steps)
        np.testing.assert_allclose(value, want, rtol=1e-5)
        np.testing.assert_allclose(found, wanted, rtol=1e-4)


def test_without_a_limit_a_counted_loop_can_be_rewound_a_while_loop_cannot():
    derivative = jit(grad(lambda x, n: lax.fori_loop(0, n, lambda i, s: s * x, 1.0)))
    assert [float(derivative(2.0, n)) for n in (0, 1, 3)] == [0, 1, 12]
    with pytest.raises(errors.ReverseModeError, match="max_steps"):
        grad(lambda x: lax.while_loop(lambda s: s < 9, lambda s: s * x, x))(2.0)


def test_a_loop_that_has_not_ended_at_the_limit_fails_a_check_unless_it_is_to_be_truncated():
    double = lambda s: s * 2
    loops = {
        "while": lambda n, **options: lax.while_loop(lambda s: s < 2.0**n, double, 1.0, max_steps=5, **options),
        "known": lambda n, **options: lax.fori_loop(0, 7, lambda i, s: s * 2, 1.0, max_steps=5, **options),
        "fori": lambda n, **options: lax.fori_loop(0, n, lambda i, s: s * 2, 1.0, max_steps=5, **options),
    }
    for kind, loop in loops.items():
        for run in (
            loop,
            jit(loop, static_argnames="truncate"),
            lambda n, **o: vmap(lambda n: loop(n, **o))(pnp.array([n]))[0],
        ):
            with pytest.raises(errors.FailedCheckError, match="not ended after max_steps=5"):
                run(7)
            assert float(run(7, truncate=True)) == 32
            assert kind == "known" or float(run(5)) == 32
        assert "not ended" in checkify.checkify(loop)(7)[0].get()
    with purax.disable_jit():
        assert float(loops["while"](7, truncate=True)) == 32
        with pytest.raises(errors.FailedCheckError, match="not ended"):
            loops["while"](7)
    chosen = vmap(
        lambda p, n: lax.cond(p, loops["while"], lambda n: 0.0, n)
    )  # in lanes that are not meant it may go on
    np.testing.assert_array_equal(chosen(pnp.array([True, False]), pnp.array([3.0, 9.0])), [8, 0])


def test_a_limit_is_a_known_positive_number():
    endless, double = lambda s: s > 0, lambda s: s * 2
    with pytest.raises(ValueError, match="max_steps"):
        lax.while_loop(endless, double, 1.0, max_steps=0)
    with pytest.raises(TypeError, match="max_steps"):
        lax.while_loop(endless, double, 1.0, max_steps=1.5)


def test_higher_derivatives_and_mixed_modes_agree_with_the_loop_written_out():
    looped = lambda x, w: by_while(x, w, 5, 20)
    written = lambda x, w: by_python(x, w, 5)
    for twice in (
        lambda f: grad(grad(f, 1), 0),
        lambda f: purax.jacfwd(grad(f, 1), 0),
        lambda f: grad(purax.jacfwd(f, 1), 0),
    ):
        np.testing.assert_allclose(twice(looped)(0.3, 1.1), twice(written)(0.3, 1.1), rtol=1e-4)


def test_lanes_of_different_lengths_are_rewound_together():
    loop = lambda x, n: by_while(x, 1.1, n, 40)
    xs, lengths = pnp.array([0.1, 0.2, 0.3]), pnp.array([0, 4, 33])
    want = [float(grad(by_python)(float(x), 1.1, int(n))) for x, n in zip(xs, lengths, strict=True)]
    np.testing.assert_allclose(vmap(grad(loop))(xs, lengths), want, rtol=1e-4)
    np.testing.assert_allclose(grad(lambda xs: vmap(loop)(xs, lengths).sum())(xs), want, rtol=1e-4)


def test_a_bounded_loop_inside_a_scan_and_under_checkpoint():
    def total(loop):
        return lambda w: lax.scan(lambda c, x: (c + loop(x, w), None), 0.0, pnp.array([0.1, 0.4]))[0]

    want = grad(total(lambda x, w: by_python(x, w, 6)))(1.1)
    for wrap in (lambda f: f, purax.checkpoint):
        found = grad(total(wrap(lambda x, w: by_while(x, w, 6, 10))))(1.1)
        np.testing.assert_allclose(found, want, rtol=1e-5)


def test_random_keys_may_be_carried():
    def walk(scale):
        def body(s):
            key, new = purax.random.split(s[0])
            return key, s[1] + scale * purax.random.normal(new)

        return lax.while_loop(lambda s: s[1] < 1e9, body, (purax.random.key(0), 0.0), max_steps=5, truncate=True)[1]

    np.testing.assert_allclose(grad(walk)(2.0), walk(1.0), rtol=1e-6)


@pytest.mark.parametrize("limit", [1, 2, 7, 16, 17, 256, 257, 4096, 10**6, 2**31 - 1])
def test_as_many_values_are_kept_as_documented(limit):
    fan = _Rewinder(None, (), (), limit).fan
    documented = next(n for n in range(1, 33) if 16**n >= limit)
    depth, rest = 0, limit
    while rest > 1:
        depth, rest = depth + 1, -(-rest // fan)
    assert depth <= documented and fan <= 16 and fan ** max(depth, 1) >= limit


@pytest.mark.xla
def test_memory_of_the_compiled_program_grows_with_the_logarithm_of_the_limit():
    size = 1000

    def bytes_for(limit):
        loss = lambda x, n: lax.fori_loop(0, n, lambda i, v: pnp.sin(v), x, max_steps=limit).sum()
        compiled = jit(grad(loss)).lower(pnp.zeros(size), 3).compile()
        return compiled.memory_analysis().temp_size_in_bytes

    few, many = bytes_for(256), bytes_for(65536)
    # Two levels of 16 kept values and four of them, with room for what the compiler copies.
    assert many - few < 2 * 16 * 4 * size * 1.5
