# SPDX-License-Identifier: Apache-2.0
"""Activation functions. They map each element; their derivatives are finite wherever the function is."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from purax import dtypes
from purax import numpy as pnp
from purax.control.custom import custom_jvp
from purax.control.jit import jit
from purax.core.axes import axis_size
from purax.core.trace import aval_of
from purax.nn.rows import gelu_exact_p, gelu_p, relu6_p, relu_p, silu_p, softplus_p
from purax.numpy.promotion import check_arraylike, promote_dtypes_inexact
from purax.primitives import cast, collective, elementwise
from purax.primitives import shape as shapes

__all__ = [
    "celu", "elu", "gelu", "glu", "hard_sigmoid", "hard_silu", "hard_swish", "hard_tanh", "identity", "leaky_relu", "log1mexp",
    "log_sigmoid", "mish", "one_hot", "relu", "relu6", "selu", "sigmoid", "silu", "soft_sign", "softplus", "sparse_plus",
    "sparse_sigmoid", "squareplus", "swish", "tanh",
]  # fmt: skip


def _array(name: str, x: Any) -> Any:
    check_arraylike(name, x)
    return pnp.asarray(x) if not hasattr(x, "aval") else x


def _inexact(name: str, x: Any) -> Any:
    check_arraylike(name, x)
    return promote_dtypes_inexact(x)[0]


def identity(x: Any) -> Any:
    """The array itself."""
    return _array("identity", x)


def relu(x: Any) -> Any:
    """The larger of 0 and x. Derivative: 1 where x > 0, else 0.

    Parameters
    ----------
    x : real[...]

    Returns
    -------
    array like `x`
    """
    return relu_p.bind1(_array("relu", x))


def relu6(x: Any) -> Any:
    """x, limited to 0 and 6. Derivative: 1 strictly between the limits, else 0."""
    return relu6_p.bind1(_inexact("relu6", x))


def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x))."""
    return elementwise.logistic(_inexact("sigmoid", x))


def tanh(x: Any, /) -> Any:
    """Hyperbolic tangent."""
    return elementwise.tanh(_inexact("tanh", x))


def softplus(x: Any) -> Any:
    """log(1 + exp(x)), without overflow."""
    x = _inexact("softplus", x)
    return pnp.logaddexp(x, 0) if dtypes.is_complex(x.aval.dtype) else softplus_p.bind1(x)


def log_sigmoid(x: Any) -> Any:
    """log(sigmoid(x)), without overflow: -softplus(-x)."""
    return -softplus(-_inexact("log_sigmoid", x))


def silu(x: Any) -> Any:
    """x sigmoid(x)."""
    x = _inexact("silu", x)
    return x * elementwise.logistic(x) if dtypes.is_complex(x.aval.dtype) else silu_p.bind1(x)


swish = silu


def gelu(x: Any, approximate: bool = True) -> Any:
    """x times the normal distribution function of x.

    Parameters
    ----------
    x : floating[...]
    approximate : bool
        The usual approximation of the distribution function by tanh; else the function itself.

    Returns
    -------
    array like `x`
    """
    return (gelu_p if approximate else gelu_exact_p).bind1(_inexact("gelu", x))


@jit
def squareplus(x: Any, b: Any = 4) -> Any:
    """(x + sqrt(x**2 + b)) / 2."""
    check_arraylike("squareplus", x)
    return _squareplus(*promote_dtypes_inexact(x, b))


@custom_jvp
def _squareplus(x: Any, b: Any) -> Any:
    root = _root(x, b)
    # The second form of the function does not cancel where x is negative.
    return pnp.where(x < 0, b / (2 * (root - x)), x / 2 + root / 2)


def _root(x: Any, b: Any) -> Any:
    """sqrt(x**2 + b), where x**2 may overflow."""
    size = pnp.abs(x)
    longer = pnp.maximum(size, 1)
    return pnp.where(size > 1, longer * pnp.sqrt(1 + b / longer / longer), pnp.sqrt(pnp.square(x) + b))


_squareplus.defjvps(
    lambda t, y, x, b: t * pnp.where(pnp.isinf(x), (x > 0).astype(x.dtype), y / _root(x, b)),
    lambda t, y, x, b: t / (4 * _root(x, b)),
)


@jit
def sparse_plus(x: Any) -> Any:
    """0 up to -1, x from 1 on, (x + 1)**2 / 4 between."""
    x = _inexact("sparse_plus", x)
    return pnp.where(x <= -1.0, 0.0, pnp.where(x >= 1.0, x, (x + 1.0) ** 2 / 4))


@jit
def soft_sign(x: Any) -> Any:
    """x / (|x| + 1)."""
    x = _array("soft_sign", x)
    return x / (pnp.abs(x) + 1)


@jit
def sparse_sigmoid(x: Any) -> Any:
    """The derivative of `sparse_plus`: (x + 1) / 2, limited to 0 and 1."""
    return 0.5 * pnp.clip(_inexact("sparse_sigmoid", x) + 1.0, 0.0, 2.0)


@jit
def mish(x: Any) -> Any:
    """x tanh(softplus(x))."""
    x = _inexact("mish", x)
    near = pnp.where(x < -1000, -1000, x)  # beyond, x exp(x) is 0 in every dtype
    return pnp.where(x > 20, x, near * pnp.tanh(softplus(near)))  # from 20 on, the second factor rounds to 1


@jit
def elu(x: Any, alpha: Any = 1.0) -> Any:
    """x where positive, else alpha (exp(x) - 1)."""
    x = _array("elu", x)
    return pnp.where(x > 0, x, alpha * pnp.expm1(pnp.where(x > 0, 0.0, x)))


@jit
def leaky_relu(x: Any, negative_slope: Any = 1e-2) -> Any:
    """x where not negative, else negative_slope x."""
    x = _array("leaky_relu", x)
    return pnp.where(x >= 0, x, negative_slope * x)


@jit
def hard_tanh(x: Any) -> Any:
    """x, limited to -1 and 1."""
    x = _array("hard_tanh", x)
    return pnp.where(x > 1, 1, pnp.where(x < -1, -1, x))


@jit
def celu(x: Any, alpha: Any = 1.0) -> Any:
    """x where positive, else alpha (exp(x / alpha) - 1)."""
    return pnp.maximum(x, 0.0) + alpha * pnp.expm1(pnp.minimum(x, 0.0) / alpha)


@jit
def selu(x: Any) -> Any:
    """scale * elu(x, alpha) with the constants that keep mean 0 and variance 1 (Klambauer et al., 2017)."""
    return 1.0507009873554804934193349852946 * elu(x, 1.6732632423543772848170429916717)


@jit
def hard_sigmoid(x: Any) -> Any:
    """relu6(x + 3) / 6."""
    return relu6(x + 3.0) / 6.0


@jit
def hard_silu(x: Any) -> Any:
    """x hard_sigmoid(x)."""
    x = _array("hard_silu", x)
    return x * hard_sigmoid(x)


hard_swish = hard_silu


def glu(x: Any, axis: int = -1) -> Any:
    """The first half along an axis times the sigmoid of the second half.

    Parameters
    ----------
    x : floating[...]
    axis : int
        Of even size.

    Returns
    -------
    array
        `axis` has half the size.

    Raises
    ------
    ValueError
        The size is odd.
    """
    x = _inexact("glu", x)
    axis = shapes.canonical_axis(axis, x.aval.ndim)
    size = x.aval.shape[axis]
    if size % 2:
        raise ValueError(f"glu halves the axis {axis}, whose size {size} is odd")
    first, second = shapes.split(x, [size // 2] * 2, axis)
    return first * elementwise.logistic(second)


@custom_jvp
@jit
def log1mexp(x: Any) -> Any:
    """log(1 - exp(-x)) for x > 0, accurate for small and for large x (Maechler, 2012)."""
    x = _inexact("log1mexp", x)
    return pnp.where(x < np.log(2.0), pnp.log(-pnp.expm1(-x)), pnp.log1p(-pnp.exp(-x)))


log1mexp.defjvps(lambda t, y, x: t / pnp.expm1(x))


def one_hot(x: Any, num_classes: int, *, dtype: Any = None, axis: Any = -1) -> Any:
    """Vectors that are 1 at the given places and 0 elsewhere; all 0 for places outside.

    Parameters
    ----------
    x : integer[...]
    num_classes : int
        Length of the vectors.
    dtype : dtype, optional
        Default float.
    axis : int or axis name
        Where the vectors lie in the result; with the name of a mapped axis, each lane holds its own element of them.

    Returns
    -------
    dtype[..., num_classes, ...]

    Raises
    ------
    ValueError
        `num_classes` is not the size of the named axis.
    """
    places, dtype = pnp.asarray(x), dtypes.default_float() if dtype is None else dtypes.named(dtype)
    aval = aval_of(places)
    if not dtypes.is_integer(aval.dtype):
        warnings.warn(
            f"one_hot takes places, which are integers, and was given {aval.dtype}", DeprecationWarning, stacklevel=2
        )
    if not isinstance(axis, (int, np.integer)):
        if axis_size(axis) != num_classes:
            raise ValueError(
                f"one_hot over the named axis {axis} gives one class to each of its {axis_size(axis)} lanes, but num_classes is {num_classes}"
            )
        return cast.convert_element_type(places == collective.axis_index(axis), dtype)
    axis = shapes.canonical_axis(axis, aval.ndim + 1)
    sizes = (*aval.shape[:axis], int(num_classes), *aval.shape[axis:])
    numbers = shapes.broadcasted_iota(aval.dtype, sizes, axis)
    kept = tuple(i for i in range(len(sizes)) if i != axis)
    return cast.convert_element_type(elementwise.eq(shapes.broadcast_in_dim(places, sizes, kept), numbers), dtype)
