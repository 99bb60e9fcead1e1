# SPDX-License-Identifier: Apache-2.0
"""How long does one operation on a small array take outside `jit`?"""

import numpy as np
from _pair import main

QUESTION = __doc__.strip()


def cases(ns):
    np_, x, y = ns.np, ns.np.arange(8.0), ns.np.ones(8)
    matrix, host = ns.np.ones((8, 8)), np.ones(1000, np.float32)
    key, mask, rows = ns.random.key(0), x > 3, ns.np.array([1, 3])
    return {
        "x + y": lambda: x + y,
        "x * 2.0": lambda: x * 2.0,
        "sin(x)": lambda: np_.sin(x),
        "sum(x)": lambda: np_.sum(x),
        "x[2]": lambda: x[2],
        "x[2:5]": lambda: x[2:5],
        "x[rows]": lambda: x[rows],
        "x.at[2].set(1)": lambda: x.at[2].set(1.0),
        "reshape": lambda: np_.reshape(x, (2, 4)),
        "where": lambda: np_.where(mask, x, y),
        "matmul 8x8": lambda: matrix @ matrix,
        "device_put 1000": lambda: ns.root.device_put(host),
        "normal": lambda: ns.random.normal(key, (8,)),
    }


if __name__ == "__main__":
    main(__file__, QUESTION, cases)
