# SPDX-License-Identifier: Apache-2.0
"""How do memory and time of reverse mode through a bounded loop grow with the bound?

A loop over a vector, whose number of steps is an argument, is differentiated with bounds N of four sizes and does N steps. Memory
is what the compiled program sets aside for temporary values, in copies of the vector: at most `16 * L` and a few more, where
`16**L >= N`. Time is that of value and gradient together, divided by that of the loop alone: at most `1 + L` runs and one
derivative of each step. A scan of N steps, which keeps what every step computes, stands beside it. Prints one line of JSON.
"""

import json
import statistics
import time

import purax
from purax import lax
from purax import numpy as pnp

SIZES = (16, 256, 4096, 65536)
WIDTH = 256


def step(v):
    return v + 0.01 * pnp.sin(v)


def by_loop(limit):
    return lambda x, n: lax.fori_loop(0, n, lambda i, v: step(v), x, max_steps=limit).sum()


def by_scan(limit):
    return lambda x, n: lax.scan(lambda v, _: (step(v), None), x, None, limit)[0].sum()


def median_seconds(run, arguments, repeats=3):
    run(*arguments).block_until_ready()
    found = []
    for _ in range(repeats):
        started = time.perf_counter()
        run(*arguments).block_until_ready()
        found.append(time.perf_counter() - started)
    return statistics.median(found)


def measured(make, limit):
    arguments = (pnp.ones(WIDTH), limit)
    loss = make(limit)
    derivative = purax.jit(purax.grad(loss))
    compiled = derivative.lower(*arguments).compile()
    copies = compiled.memory_analysis().temp_size_in_bytes / (4 * WIDTH)
    alone = median_seconds(purax.jit(loss), arguments)
    seconds = median_seconds(derivative, arguments)
    return {"copies": round(copies, 1), "seconds": seconds, "times the loop": round(seconds / alone, 2)}


def main():
    rows = []
    for limit in SIZES:
        levels = next(n for n in range(1, 9) if 16**n >= limit)
        row = {"N": limit, "levels": levels, "bounded loop": measured(by_loop, limit)}
        rows.append({**row, "scan": measured(by_scan, limit)})
    print(json.dumps({"benchmark": "bounded_loop", "width": WIDTH, "rows": rows}))


if __name__ == "__main__":
    main()
