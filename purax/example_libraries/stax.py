# SPDX-License-Identifier: Apache-2.0
"""Networks as pairs of functions.

A layer is `(init, apply)`: `init(key, input_shape)` returns the shape of the output and the parameters, `apply(params, inputs)` the
output. Shapes are tuples, or lists of tuples where a layer takes or returns several arrays. `apply` takes a random key as `rng=`.

Parameters
----------
out_dim, out_chan : int
    Size of the last axis, number of channels of the output.
filter_shape, strides : sequence of int
    Sizes of the window along the axes of space, and its steps (1).
padding : str
    "VALID" or "SAME".
dimension_numbers : tuple of str
    Axes of the input, of the weights and of the output, a letter each.
W_init, b_init, beta_init, gamma_init : callable
    `(key, shape) -> array`: initial weights, biases, shifts and factors.
axis : int or tuple of int
epsilon : float
    Added to the variance.
center, scale : bool
    Whether a shift and a factor are learned.
fun_kwargs : object
    Passed to the function.

Returns
-------
    A layer.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from purax import lax, nn, random
from purax import numpy as pnp
from purax.control.staging import eval_shape
from purax.core.aval import ShapeDtypeStruct
from purax.nn import initializers

__all__ = [
    "AvgPool", "BatchNorm", "Conv", "Conv1DTranspose", "ConvTranspose", "Dense", "Dropout", "Elu", "Exp", "FanInConcat", "FanInSum",
    "FanOut", "Flatten", "Gelu", "GeneralConv", "GeneralConvTranspose", "Identity", "LeakyRelu", "LogSoftmax", "MaxPool", "Relu",
    "Selu", "Sigmoid", "Softmax", "Softplus", "SumPool", "Tanh", "elementwise", "glorot", "glorot_normal", "ones", "parallel",
    "randn", "serial", "shape_dependent", "zeros",
]  # fmt: skip

Layer = tuple[Callable[..., Any], Callable[..., Any]]
ones, zeros = initializers.ones, initializers.zeros
glorot = glorot_normal = initializers.glorot_normal


def randn(stddev: float = 1e-2) -> Callable[..., Any]:
    """Initial values from a normal distribution around 0."""
    return initializers.normal(stddev)


# --- one array in, one out ----------------------------------------------------------------------------------------------------


def Dense(out_dim: int, W_init: Any = glorot_normal(), b_init: Any = randn()) -> Layer:  # noqa: B008
    """`x @ W + b` over the last axis."""

    def init(key: Any, input_shape: Any) -> Any:
        weights, bias = random.split(key)
        return (*input_shape[:-1], out_dim), (W_init(weights, (input_shape[-1], out_dim)), b_init(bias, (out_dim,)))

    def apply(params: Any, inputs: Any, **_: Any) -> Any:
        W, b = params
        return pnp.dot(inputs, W) + b

    return init, apply


def _convolution(
    convolve: Callable[..., Any], numbers: Any, out_chan: int, filter_shape: Any, W_init: Any, b_init: Any
) -> Layer:
    """A layer around `convolve(inputs, W)`, whose axes `numbers` names."""
    _, rhs, out = numbers
    features = glorot_normal(rhs.index("I"), rhs.index("O")) if W_init is None else W_init

    def init(key: Any, input_shape: Any) -> Any:
        sizes = iter(filter_shape)
        fixed = {"O": out_chan, "I": input_shape[numbers[0].index("C")]}
        kernel = tuple([fixed[c] if c in fixed else next(sizes) for c in rhs])
        bias = tuple([out_chan if c == "C" else 1 for c in out])
        weights_key, bias_key = random.split(key)
        W = features(weights_key, kernel)
        shape = eval_shape(convolve, ShapeDtypeStruct(tuple(input_shape), W.dtype), W).shape
        return shape, (W, b_init(bias_key, bias))

    def apply(params: Any, inputs: Any, **_: Any) -> Any:
        W, b = params
        return convolve(inputs, W) + b

    return init, apply


def GeneralConv(
    dimension_numbers: Any, out_chan: int, filter_shape: Sequence[int], strides: Any = None, padding: Any = "VALID",
    W_init: Any = None, b_init: Any = randn(1e-6),  # noqa: B008
) -> Layer:  # fmt: skip
    """Convolution with any order of axes, such as ``("NHWC", "HWIO", "NHWC")``."""
    strides = strides or (1,) * len(filter_shape)
    convolve = functools.partial(
        lax.conv_general_dilated, window_strides=strides, padding=padding, dimension_numbers=dimension_numbers
    )
    return _convolution(convolve, dimension_numbers, out_chan, filter_shape, W_init, b_init)


def GeneralConvTranspose(
    dimension_numbers: Any, out_chan: int, filter_shape: Sequence[int], strides: Any = None, padding: Any = "VALID",
    W_init: Any = None, b_init: Any = randn(1e-6),  # noqa: B008
) -> Layer:  # fmt: skip
    """Transposed convolution with any order of axes."""
    strides = strides or (1,) * len(filter_shape)
    convolve = functools.partial(
        lax.conv_transpose, strides=strides, padding=padding, dimension_numbers=dimension_numbers
    )
    return _convolution(convolve, dimension_numbers, out_chan, filter_shape, W_init, b_init)


Conv = functools.partial(GeneralConv, ("NHWC", "HWIO", "NHWC"))
Conv1DTranspose = functools.partial(GeneralConvTranspose, ("NHC", "HIO", "NHC"))
ConvTranspose = functools.partial(GeneralConvTranspose, ("NHWC", "HWIO", "NHWC"))


def BatchNorm(
    axis: Any = (0, 1, 2), epsilon: float = 1e-5, center: bool = True, scale: bool = True, beta_init: Any = zeros,
    gamma_init: Any = ones,
) -> Layer:  # fmt: skip
    """Normalization by mean and variance over `axis`; `beta` and `gamma` have the other axes."""
    axes = (axis,) if isinstance(axis, int) else tuple(axis)

    def init(key: Any, input_shape: Any) -> Any:
        shape = tuple([size for i, size in enumerate(input_shape) if i not in axes])
        gamma_key, beta_key = random.split(key)
        beta = beta_init(beta_key, shape) if center else ()
        gamma = gamma_init(gamma_key, shape) if scale else ()
        return input_shape, (beta, gamma)

    def apply(params: Any, x: Any, **_: Any) -> Any:
        beta, gamma = params
        out = nn.standardize(x, axes, epsilon=epsilon)
        if scale:
            out = out * pnp.expand_dims(gamma, axes)
        return out + pnp.expand_dims(beta, axes) if center else out

    return init, apply


def elementwise(fun: Callable[..., Any], **fun_kwargs: Any) -> Layer:
    """A layer without parameters that keeps the shape."""
    return (lambda key, input_shape: (input_shape, ())), (lambda params, inputs, **_: fun(inputs, **fun_kwargs))


Tanh = elementwise(pnp.tanh)
Relu = elementwise(nn.relu)
Exp = elementwise(pnp.exp)
LogSoftmax = elementwise(nn.log_softmax, axis=-1)
Softmax = elementwise(nn.softmax, axis=-1)
Softplus = elementwise(nn.softplus)
Sigmoid = elementwise(nn.sigmoid)
Elu = elementwise(nn.elu)
LeakyRelu = elementwise(nn.leaky_relu)
Selu = elementwise(nn.selu)
Gelu = elementwise(nn.gelu)
Identity = elementwise(lambda x: x)


def _pooling(reducer: Any, init_val: Any, mean: bool = False) -> Callable[..., Layer]:
    def pool(
        window_shape: Sequence[int], strides: Any = None, padding: str = "VALID", spec: str | None = None
    ) -> Layer:
        """Reduce windows; `spec` names the axes, such as ``"NHWC"`` (the default for two of space)."""
        strides = tuple(strides or (1,) * len(window_shape))
        at = {"N": 0, "C": len(window_shape) + 1} if spec is None else {c: spec.index(c) for c in "NC"}
        window, steps = list(window_shape), list(strides)
        for place in sorted(at.values()):
            window.insert(place, 1)
            steps.insert(place, 1)

        def reduced(x: Any) -> Any:
            return lax.reduce_window(x, init_val, reducer, tuple(window), tuple(steps), padding)

        def pooled(x: Any) -> Any:
            return reduced(x) / reduced(pnp.ones_like(x)) if mean else reduced(x)

        def init(key: Any, input_shape: Any) -> Any:
            return eval_shape(pooled, ShapeDtypeStruct(tuple(input_shape), pnp.float32)).shape, ()

        return init, lambda params, inputs, **_: pooled(inputs)

    return pool


MaxPool = _pooling(lax.max, -math.inf)
SumPool = _pooling(lax.add, 0.0)
AvgPool = _pooling(lax.add, 0.0, mean=True)


Flatten: Layer = (
    lambda key, input_shape: ((input_shape[0], math.prod(input_shape[1:])), ()),
    lambda params, inputs, **_: pnp.reshape(inputs, (inputs.shape[0], -1)),
)


def Dropout(rate: float, mode: str = "train") -> Layer:
    """Keep each element with probability `rate`, divided by it; in a `mode` other than ``"train"`` do nothing.

    Raises
    ------
    ValueError
        (When applied) no key is given.
    """

    def apply(params: Any, inputs: Any, **kwargs: Any) -> Any:
        key = kwargs.get("rng")
        if key is None:
            raise ValueError("Dropout needs a random key: call the network as apply_fun(params, inputs, rng=key)")
        if mode != "train":
            return inputs
        kept = random.bernoulli(key, rate, inputs.shape)
        return pnp.where(kept, inputs / rate, 0)

    return (lambda key, input_shape: (input_shape, ())), apply


# --- several arrays -----------------------------------------------------------------------------------------------------------


def FanOut(num: int) -> Layer:
    """The input, `num` times."""
    return (lambda key, input_shape: ([input_shape] * num, ())), (lambda params, inputs, **_: [inputs] * num)


FanInSum: Layer = (
    lambda key, input_shape: (input_shape[0], ()),
    lambda params, inputs, **_: sum(inputs[1:], inputs[0]),
)


def FanInConcat(axis: int = -1) -> Layer:
    """The inputs side by side along `axis`."""

    def init(key: Any, input_shape: Any) -> Any:
        first = list(input_shape[0])
        first[axis] = sum(shape[axis] for shape in input_shape)
        return tuple(first), ()

    return init, lambda params, inputs, **_: pnp.concatenate(inputs, axis)


# --- composition --------------------------------------------------------------------------------------------------------------


def _keys(key: Any, count: int) -> Any:
    return (None,) * count if key is None else random.split(key, count)


def serial(*layers: Layer) -> Layer:
    """One layer after the other; the parameters are a list."""
    inits, applies = zip(*layers, strict=True) if layers else ((), ())

    def init(key: Any, input_shape: Any) -> Any:
        params = []
        for one in inits:
            key, own = random.split(key)
            input_shape, found = one(own, input_shape)
            params.append(found)
        return input_shape, params

    def apply(params: Any, inputs: Any, **kwargs: Any) -> Any:
        keys = _keys(kwargs.pop("rng", None), len(layers))
        for one, own, key in zip(applies, params, keys, strict=True):
            inputs = one(own, inputs, rng=key, **kwargs)
        return inputs

    return init, apply


def parallel(*layers: Layer) -> Layer:
    """Layers side by side, each with its own input; shapes, parameters and outputs are lists."""
    inits, applies = zip(*layers, strict=True)

    def init(key: Any, input_shape: Any) -> Any:
        keys = random.split(key, len(layers))
        found = [one(own, shape) for one, own, shape in zip(inits, keys, input_shape, strict=True)]
        return [shape for shape, _ in found], [params for _, params in found]

    def apply(params: Any, inputs: Any, **kwargs: Any) -> Any:
        keys = _keys(kwargs.pop("rng", None), len(layers))
        rows = zip(applies, params, inputs, keys, strict=True)
        return [one(own, x, rng=key, **kwargs) for one, own, x, key in rows]

    return init, apply


def shape_dependent(make_layer: Callable[[Any], Layer]) -> Layer:
    """A layer made for the shape of its input: `make_layer(input_shape)`."""
    return (
        lambda key, input_shape: make_layer(input_shape)[0](key, input_shape),
        lambda params, inputs, **kwargs: make_layer(inputs.shape)[1](params, inputs, **kwargs),
    )
