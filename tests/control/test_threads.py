# SPDX-License-Identifier: Apache-2.0
"""Threads that trace, compile, call and differentiate the same and different functions at once.

`PURAX_SOAK_SECONDS` makes the test longer than its two seconds.
"""

import os
import threading
import time

import numpy as np

import purax
from purax import lax
from purax import numpy as pnp

THREADS = 8
SECONDS = float(os.environ.get("PURAX_SOAK_SECONDS", "2"))


@purax.jit
def shared(x, scale):
    def body(c, r):
        return pnp.sin(c) * r + scale, c

    return lax.scan(body, x, pnp.arange(3.0))[0]


def shared_reference(x, scale):
    for r in range(3):
        x = np.sin(x) * r + scale
    return x


def work(number, stop, failures):
    rng = np.random.default_rng(number)
    try:
        for turn in range(10**9):
            if time.monotonic() > stop and turn > 2:
                return
            size = int(rng.integers(1, 6))
            x = rng.standard_normal(size).astype(np.float32)
            scale = np.float32(rng.standard_normal())
            # One function, many types: threads meet in its cache.
            np.testing.assert_allclose(shared(x, scale), shared_reference(x, scale), rtol=1e-4, atol=1e-5)
            # A function of this thread's own, made anew on each turn.
            own = purax.jit(lambda v, k=turn % 3: pnp.cos(v) * (k + 1))
            np.testing.assert_allclose(own(x), np.cos(x) * (turn % 3 + 1), rtol=1e-5)
            gradient = purax.grad(lambda v: (shared(v, scale) ** 2).sum())(x)
            step = 1e-3
            bumped = ((shared_reference(x + step, scale) ** 2) - (shared_reference(x - step, scale) ** 2)) / (2 * step)
            np.testing.assert_allclose(gradient, bumped, rtol=2e-2, atol=2e-2)
            np.testing.assert_allclose(purax.vmap(pnp.tanh)(x), np.tanh(x), rtol=1e-5)
            with purax.enable_x64(number % 2 == 0):
                assert pnp.asarray(np.zeros(2)).dtype == (np.float64 if number % 2 == 0 else np.float32)
            if turn % 50 == 49 and number == 0:
                shared.clear_cache()
    except Exception as error:
        failures.append(error)


def test_eight_threads_get_right_answers():
    failures: list[Exception] = []
    stop = time.monotonic() + SECONDS
    threads = [threading.Thread(target=work, args=(i, stop, failures)) for i in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def test_threads_that_want_one_program_compile_it_once(cache_folder):
    barrier = threading.Barrier(THREADS)
    fun = purax.jit(lambda x: pnp.sin(x) * 1.0009765625)
    results = []

    def call():
        barrier.wait()
        results.append(float(fun(0.5)))

    with purax.events.listen() as seen:
        threads = [threading.Thread(target=call) for _ in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(set(results)) == 1 and len(results) == THREADS
    assert sum(isinstance(e, purax.events.Compiled) for e in seen) == 1


def test_a_trace_stays_in_its_thread():
    seen = []

    def fun(x):
        thread = threading.Thread(target=lambda: seen.append(float(pnp.sin(0.5))))
        thread.start()
        thread.join()
        return x

    purax.jit(fun)(1.0)
    np.testing.assert_allclose(seen, [np.sin(0.5)], rtol=1e-6)
