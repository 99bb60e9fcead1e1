# SPDX-License-Identifier: Apache-2.0
"""How long from the start of a process to the first loss of a training step: with an empty cache of programs, and with a filled one?"""

import tempfile

from _process import main

QUESTION = __doc__.strip()
PROGRAM = """
import time; started = time.perf_counter()
import _models, _pair
ns = _pair.namespace("{name}")
step, arguments = _models.MODELS["gpt block"](ns)
float(ns.root.jit(step)(*arguments)[0])
print(time.perf_counter() - started)
"""
FILLED = {side: tempfile.mkdtemp(prefix=f"bench-start-{side}-") for side in ("purax", "jax")}


def environment(side, case):
    """A new folder for each cold start; one for all warm ones, which the first round fills (the median leaves it out)."""
    folder = FILLED[side] if case == "warm" else tempfile.mkdtemp(prefix="bench-start-cold-")
    jax = {
        "JAX_COMPILATION_CACHE_DIR": folder,
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "0",
    }
    return {"PURAX_CACHE": "on", "PURAX_CACHE_DIR": folder} if side == "purax" else jax


if __name__ == "__main__":
    main(QUESTION, {"cold": PROGRAM, "warm": PROGRAM}, environment)
