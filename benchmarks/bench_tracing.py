# SPDX-License-Identifier: Apache-2.0
"""How long do tracing, lowering and compiling of a training step take?

Each stage is taken together with those before it: work that moves from one to another gains nothing.
"""

import _models
from _pair import main

QUESTION = __doc__.splitlines()[0].strip()


def cases(ns):
    found = {}
    for name in ("mlp", "gpt block"):
        step, arguments = _models.MODELS[name](ns)

        def fresh(step=step, arguments=arguments):
            """A stage of a function that was never traced before."""
            return ns.root.jit(lambda *args: step(*args)), arguments

        def trace(fresh=fresh):
            function, arguments = fresh()
            function.trace(*arguments)

        def lower(fresh=fresh):
            function, arguments = fresh()
            function.lower(*arguments).as_text()

        def compiled(fresh=fresh):
            ns.root.clear_caches()
            function, arguments = fresh()
            function.lower(*arguments).compile()

        found.update({f"{name}: trace": trace, f"{name}: trace and lower": lower, f"{name}: all three": compiled})
    return found


if __name__ == "__main__":
    main(__file__, QUESTION, cases)
