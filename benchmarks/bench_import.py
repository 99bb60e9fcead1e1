# SPDX-License-Identifier: Apache-2.0
"""How long does the import take, and how long until the first result of a small function?"""

from _process import main

QUESTION = __doc__.strip()
CLOCK = "import time; started = time.perf_counter()\n"
STOP = "\nprint(time.perf_counter() - started)"
PROGRAMS = {
    "import": CLOCK + "import {name}" + STOP,
    "import numpy API, make an array": CLOCK + "import {name}.numpy as xp; xp.ones(3).block_until_ready()" + STOP,
    "first eager gradient": CLOCK
    + "import {name}; {name}.grad(lambda x: {name}.numpy.sin(x) * x)(1.0).block_until_ready()"
    + STOP,
    "first compiled call": CLOCK
    + "import {name}; {name}.jit(lambda x: {name}.numpy.sin(x) * x)(1.0).block_until_ready()"
    + STOP,
}


def environment(side, case):
    """No cache on disk: the first compilation is part of the answer."""
    return {"PURAX_CACHE": "off", "JAX_ENABLE_COMPILATION_CACHE": "false"}


if __name__ == "__main__":
    main(QUESTION, PROGRAMS, environment)
