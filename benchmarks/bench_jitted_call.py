# SPDX-License-Identifier: Apache-2.0
"""How long does a call of a compiled function take, when the function itself has nothing to do?"""

from _pair import main

QUESTION = __doc__.strip()


def cases(ns):
    add = ns.root.jit(lambda x, y: x + y)
    small = ns.np.ones(8), ns.np.ones(8)
    advance = ns.root.jit(lambda p: ns.tree.map(lambda v: v + 1, p))
    leaves = {f"layer_{i}": {"w": ns.np.ones(4), "b": ns.np.ones(4)} for i in range(50)}
    keyword = ns.root.jit(lambda x, *, scale: x * scale)
    return {
        "two arrays": lambda: add(*small),
        "dict of 100 leaves": lambda: advance(leaves),
        "keyword argument": lambda: keyword(small[0], scale=small[1]),
        "Python scalar": lambda: add(small[0], 2.0),
    }


if __name__ == "__main__":
    main(__file__, QUESTION, cases)
