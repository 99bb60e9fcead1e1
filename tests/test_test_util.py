# SPDX-License-Identifier: Apache-2.0
"""The checks of derivatives: they pass for right ones, of every kind of function, and find wrong ones."""

import functools

import ml_dtypes
import numpy as np
import pytest

import purax
from purax import lax
from purax import numpy as pnp
from purax.test_util import check_grads, check_jvp, check_vjp

X = np.array([0.3, -1.2, 2.0], np.float32)


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (lambda x, y: {"a": pnp.sin(x) * y, "b": (x @ x, pnp.arange(3))}, (X, 2.0)),
        (lambda z: z**2 * 1j + z.conj(), (X.astype(np.complex64) + 1j,)),
        (lambda x, n: x**n, (X + 3, np.array([1, 2, 3], np.int32))),
        (lambda pair: pair["x"] / pair["y"], ({"x": X, "y": X + 4},)),
        (lambda: pnp.ones(2), ()),
        (lambda x: pnp.log(-pnp.expm1(-x)), (np.float32([0.01, 1.0]),)),
    ],
)
def test_right_derivatives_pass(function, args):
    check_grads(function, args, order=2)
    check_grads(function, args, 1, modes="rev")


def test_narrow_floats_and_linear_functions_take_wide_steps():
    x = X.astype(ml_dtypes.bfloat16)
    check_grads(lambda x: lax.pad(x, np.array(0, x.dtype), [(1, 1, 1)]), (x,), 2, eps=1.0)
    check_grads(lambda x: 3 * x, (X,), 2, atol=1e-5, rtol={np.float32: 1e-5}, eps=1.0)


@purax.custom_jvp
def wrong_forward(x):
    return pnp.sin(x)


wrong_forward.defjvp(lambda primals, tangents: (pnp.sin(primals[0]), pnp.sin(primals[0]) * tangents[0]))


@purax.custom_vjp
def wrong_backward(x):
    return pnp.sin(x)


wrong_backward.defvjp(lambda x: (pnp.sin(x), x), lambda x, ct: (ct * x,))


def test_wrong_derivatives_are_found_with_order_and_mode():
    with pytest.raises(AssertionError, match="order 1: fwd JVP tangent"):
        check_grads(wrong_forward, (X,), 1)
    with pytest.raises(AssertionError, match="order 1: rev VJP"):
        check_grads(wrong_backward, (X,), 1, modes=("rev",))
    once = purax.custom_jvp(lambda x: pnp.sin(x))
    once.defjvp(lambda primals, tangents: (pnp.sin(primals[0]), pnp.cos(lax.stop_gradient(primals[0])) * tangents[0]))
    check_grads(once, (X,), 1)
    with pytest.raises(AssertionError, match="order 2: fwd, fwd"):
        check_grads(once, (X,), 2)


def test_one_mode_alone():
    check_jvp(pnp.sin, functools.partial(purax.jvp, pnp.sin), (X,))
    check_vjp(pnp.sin, functools.partial(purax.vjp, pnp.sin), (X,))
    with pytest.raises(AssertionError, match="here output"):
        check_jvp(pnp.cos, functools.partial(purax.jvp, pnp.sin), (X,), err_msg="here")
    with pytest.raises(ValueError, match="modes are"):
        check_grads(pnp.sin, (X,), 1, modes="backwards")
