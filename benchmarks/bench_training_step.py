# SPDX-License-Identifier: Apache-2.0
"""How long does one compiled training step take: a multilayer perceptron, a convolutional network, a GPT block?"""

import _models
from _pair import main

QUESTION = __doc__.strip()


def cases(ns):
    def training(name):
        step, (params, *data) = _models.MODELS[name](ns)
        step = ns.root.jit(step)
        state = [params]

        def run():
            loss, state[0] = step(state[0], *data)
            return loss

        return run

    return {name: training(name) for name in _models.MODELS}


if __name__ == "__main__":
    main(__file__, QUESTION, cases)
