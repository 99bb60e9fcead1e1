# SPDX-License-Identifier: Apache-2.0
"""How long do derivatives and `vmap` take outside `jit`, on small arrays?"""

from _pair import main

QUESTION = __doc__.strip()


def cases(ns):
    np_, root = ns.np, ns.root
    x = np_.arange(8.0)
    matrix = np_.ones((8, 8))
    loss = lambda v: np_.sum(np_.sin(v) * v)

    def network(params, data):
        (w1, b1), (w2, b2) = params
        return np_.mean((np_.tanh(data @ w1 + b1) @ w2 + b2) ** 2)

    params = (np_.ones((8, 16)), np_.zeros(16)), (np_.ones((16, 4)), np_.zeros(4))
    gradient, both, mapped = root.grad(loss), root.value_and_grad(network), root.vmap(loss)
    hessian = root.hessian(loss)
    return {
        "grad": lambda: gradient(x),
        "value_and_grad of an MLP": lambda: both(params, matrix),
        "jvp": lambda: root.jvp(loss, (x,), (x,)),
        "vmap": lambda: mapped(matrix),
        "hessian": lambda: hessian(x),
    }


if __name__ == "__main__":
    main(__file__, QUESTION, cases)
